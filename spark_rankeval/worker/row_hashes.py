"""The hashes of users' rows of a table: as limbs of fingerprints, and as several models were evaluated on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from spark_rankeval.statistics.fingerprints import limbs_of, limbs_of_whole
from spark_rankeval.worker.reading import USER_HASH, hash_column, whole_numbers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from spark_rankeval.ranking.ragged import Array

#: Nothing is known of the rows of this table for users without predictions.
KNOWN_IN_PART = "exclude"
#: These tables are hashed as a whole: their rows are of users who are not evaluated, too, or of none.
WHOLE = ("training", "items", "baseline")


def hash_field(table: str) -> str:
    """The field of the hash of the user's rows of a table, in a model's row; null: not known."""
    return f"hash_of_{table}"


def limbs_of_users(tables: Sequence[str], columns: Mapping[str, pa.Array]) -> dict[str, Array]:
    """The limbs of the users' hashes, by table; rows without ids of users have that of their contents."""
    limbs = {}
    for table in tables:
        rows = whole_numbers(columns[hash_column(table)])
        if table in WHOLE:
            limbs[table] = limbs_of_whole(rows)
            continue
        users = whole_numbers(columns[USER_HASH]) if USER_HASH in columns else np.zeros_like(rows)
        limbs[table] = limbs_of(users, rows)
    return limbs


class RowHashes(NamedTuple):
    """Hashes of users' rows of a table, as each model was evaluated on them."""

    values: Array  # int64, models × users; 0 without a row
    is_known: Array  # bool, models × users

    @classmethod
    def read(cls, hashes: pa.Array, rows: Array, places: Array, shape: tuple[int, int]) -> RowHashes:
        """Those in some rows of a column; `places` has for each of them its place in an array of this shape."""
        values, is_known = np.zeros(shape[0] * shape[1], np.int64), np.zeros(shape[0] * shape[1], np.bool_)
        values[places] = whole_numbers(hashes)[rows]
        is_known[places] = hashes.is_valid().to_numpy(zero_copy_only=False)[rows]
        return cls(values.reshape(shape), is_known.reshape(shape))

    def only(self, users: Array | slice) -> RowHashes:
        """Those of some users."""
        return RowHashes(self.values[:, users], self.is_known[:, users])

    def of(self, place: int | None) -> tuple[Array, Array]:
        """Those of a model by its place, None if the batch does not have it: the hashes, and which are known."""
        if place is None:
            n_users = self.values.shape[1]
            return np.zeros(n_users, np.int64), np.zeros(n_users, np.bool_)
        return self.values[place], self.is_known[place]
