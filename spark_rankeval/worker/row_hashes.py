"""The hashes of users' rows of a table, as limbs of fingerprints; and Spark's ``xxhash64`` in numpy.

Whole numbers and floats have the same hashes as Spark's expression gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from spark_rankeval.ranking.ragged import Array, Ragged, pieces
from spark_rankeval.statistics.table_fingerprints import limbs_of, limbs_of_whole
from spark_rankeval.worker.grouped_row import ITEMS, PREDICTION_ROWS, SCORES, USER_HASH, hash_column
from spark_rankeval.worker.reading import flat, numbers, whole_numbers

# The primes of XXH64, Yann Collet's specification: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
#: The seed of Spark's expression.
_SEED = 42
# So many numbers are hashed at a time: they stay in a core's cache.
_VALUES_TOGETHER = 1 << 14


def xxhash64(*columns: Array) -> Array:
    """The hash of each row of columns of equal length, int64 or float64, none of them null; int64.

    Examples:
        >>> xxhash64(np.array([1, 2]), np.array([0.5, -0.0]))
        array([-4145917965430274609, -4175744763495980767])
    """
    hashes = np.empty(len(columns[0]), np.uint64)
    for start in range(0, len(hashes), _VALUES_TOGETHER):
        part = slice(start, start + _VALUES_TOGETHER)
        seed: Array | np.uint64 = np.uint64(_SEED)
        for column in columns:
            seed = _of_numbers(_bits(column[part]), seed)
        hashes[part] = seed
    return hashes.view(np.int64)


def _bits(values: Array) -> Array:
    # Of the two zeros Spark takes the positive one.
    return (values + 0.0 if values.dtype.kind == "f" else values).view(np.uint64)


def _of_numbers(bits: Array, seed: Array | np.uint64) -> Array:
    hashes = bits * _P2
    _rotate(hashes, 31)
    hashes *= _P1
    hashes ^= seed + (_P5 + np.uint64(bits.itemsize))
    _rotate(hashes, 27)
    hashes *= _P1
    hashes += _P4
    hashes ^= hashes >> np.uint64(33)
    hashes *= _P2
    hashes ^= hashes >> np.uint64(29)
    hashes *= _P3
    hashes ^= hashes >> np.uint64(32)
    return hashes


def _rotate(values: Array, n_bits: int) -> None:
    """Rotate 64 bits to the left, in place."""
    upper = values << np.uint64(n_bits)
    values >>= np.uint64(64 - n_bits)
    values |= upper


#: Nothing is known of the rows of this table for users without predictions.
KNOWN_IN_PART = "exclude"
#: These tables are hashed as a whole: their rows are of users who are not evaluated, too, or of none.
WHOLE = ("training", "items", "baseline")
#: So many bits of the hash of a prediction add up: 2^28 equal rows of a user would overflow 64 bits.
SHORT = 36
_PREDICTIONS = "predictions"
# So many predictions are hashed at a time: hashes of a whole batch take as much memory as its scores.
_TOGETHER = 1 << 18


def hashes_of_users(table: str, columns: Mapping[str, pa.Array]) -> pa.Array:
    """The sums of the hashes of the users' rows of a table, null without a row.

    Spark leaves those of whole lists of predictions with whole numbers as items to the workers. They are the same: of item and score.
    """
    if hash_column(table) in columns:
        return columns[hash_column(table)]
    assert table.startswith(_PREDICTIONS), "Spark hashes the rows of all other tables"
    of_model = table.removeprefix(_PREDICTIONS)
    items, offsets = flat(columns[ITEMS + of_model])
    scores = flat(columns[SCORES + of_model])[0]
    totals = np.zeros(len(offsets) - 1, np.int64)
    for start, stop in pieces(offsets, _TOGETHER):
        first, last = offsets[start], offsets[stop]
        whole, parts = (column.slice(first, last - first) for column in (items, scores))
        hashes = xxhash64(whole_numbers(whole), numbers(parts)) >> (64 - SHORT)
        totals[start:stop] = Ragged(hashes, offsets[start : stop + 1] - first).summed()
    return pa.array(totals, mask=whole_numbers(columns[PREDICTION_ROWS + of_model]) == 0)


def limbs_of_users(tables: Sequence[str], columns: Mapping[str, pa.Array]) -> dict[str, Array]:
    """The limbs of the users' hashes, by table; rows without ids of users have that of their contents."""
    limbs = {}
    for table in tables:
        rows = whole_numbers(hashes_of_users(table, columns))
        if table in WHOLE:
            limbs[table] = limbs_of_whole(rows)
            continue
        users = whole_numbers(columns[USER_HASH]) if USER_HASH in columns else np.zeros_like(rows)
        limbs[table] = limbs_of(users, rows)
    return limbs
