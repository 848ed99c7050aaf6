"""The users of several models that a comparison reads, and how many there are: of all users, of each model and of each slice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.ranking.ragged import Array, BoolArray, IntArray
from spark_rankeval.records.slices import Key
from spark_rankeval.statistics.moments import State, merged
from spark_rankeval.worker.reading import PARTIAL_TABLE, columns_of, filled, flags, numbers, whole_numbers

Owner = str | tuple[str, ...]

#: The columns of a user: a 64-bit hash, whether the user is null, and the rows of all models as structs.
USER, IS_NULL_USER, ROWS = "user", "nobody", "rows"

#: A hash of the user's cluster, if users come in clusters; null if it is not known.
CLUSTER = "cluster"
#: The fields of a model's row, beside its values: the model's name, how many of its rows could not be ranked, and how many predictions
#: it has, 1 if that is not known.
MODEL, INVALID, N_PREDICTIONS = "model", "invalid", "n_predictions"

#: The number of attributes in which the rows of a user do not agree, if there are slices.
CONFLICTS = "n_conflicts"
#: The counts of a model: users with a row, with a row of the baseline too, with several rows, and invalid rows.
N_USERS, N_SHARED, N_REPEATED, N_INVALID = "n_users", "n_shared", "n_repeated", "n_invalid"
#: The counts of a model, if its rows say whether they are empty: users with a value, and of these users who count as 0 for want of
#: predictions.
N_VALUED, N_EMPTY = "n_valued", "n_empty"

#: The count of a model: users whose rows of a shared table are not those that the baseline was evaluated on; `n_other_rows` reads it.
N_OTHER = "n_other_"
#: The counts of all users: attributes in which the rows of a user do not agree, and users whose cluster is not known.
N_CONFLICTS, N_WITHOUT_CLUSTER = "n_conflicting_attributes", "n_missing_clusters"

#: The counts of all users in a comparison of groups: users in several groups, and partitions with too many groups.
N_IN_SEVERAL, N_TOO_MANY = "n_in_several_groups", "n_too_many_groups"


def slice_field(index: int) -> str:
    """The column of an attribute that divides users into slices, by its index."""
    return f"slice_{index}"


def value_field(index: int) -> str:
    """The field of a metric's value in a model's row, by its index."""
    return f"value_{index}"


def hash_field(table: str) -> str:
    """The field of the hash of the user's rows of a table, in a model's row; null: not known."""
    return f"hash_of_{table}"


class ComparisonStates(NamedTuple):
    """What is added up of the users of a comparison, by slice, None for all users, and then by owner.

    An owner is a model, by its name, or a set of models, by their names. The empty set has the counts of all models, such as `N_USERS`.
    """

    slices: dict[Key | None, dict[Owner, State]]

    @property
    def everyone(self) -> dict[Owner, State]:
        """The states of all users."""
        return self.slices.get(None, {})

    @property
    def by_slice(self) -> dict[Key, dict[Owner, State]]:
        """The states of the users of each slice."""
        return {key: owners for key, owners in self.slices.items() if key is not None}

    @classmethod
    def merged(cls, parts: Iterable[ComparisonStates]) -> ComparisonStates:
        """The states of all users, from those of parts of them."""
        slices: dict[Key | None, list[dict[Owner, State]]] = {}
        for part in parts:
            for key, owners in part.slices.items():
                slices.setdefault(key, []).append(owners)
        return cls({key: merged_owners(owners) for key, owners in slices.items()})


def merged_owners(parts: Iterable[Mapping[Owner, State]]) -> dict[Owner, State]:
    """The state of each owner, from those of parts of the users."""
    owners: dict[Owner, list[State]] = {}
    for part in parts:
        for owner, state in part.items():
            owners.setdefault(owner, []).append(state)
    return {owner: merged(states) for owner, states in owners.items()}


def n_without_cluster(owners: Mapping[Owner, State]) -> int:
    """How many users have no cluster, by owner."""
    return int(owners.get((), {}).get(N_WITHOUT_CLUSTER, [0])[0])


def n_unequal_rows(owners: Mapping[Owner, State], table: str) -> int:
    """Of how many users the rows of a table are not the same for all of their models, if there is no baseline."""
    return int(owners.get((), {}).get(f"{N_OTHER}{table}", [0])[0])


def n_other_rows(owners: Mapping[Owner, State], model: str, baseline: str, table: str) -> int:
    """Of how many users the rows of a table are not the same for a model and the baseline, by owner."""
    name = f"{N_OTHER}{table}"
    counted = [model] if table == PARTIAL_TABLE else [model, baseline]
    return sum(int(owners.get(owner, {}).get(name, [0])[0]) for owner in counted)


def n_empty_lists(owners: Mapping[Owner, State], model: str) -> tuple[int, int]:
    """How many users of a model count as 0 for want of predictions, and how many have a value."""
    n_empty, n_valued = (int(owners.get(model, {}).get(name, [0])[0]) for name in (N_EMPTY, N_VALUED))
    return n_empty, n_valued


class RowHashes(NamedTuple):
    """Hashes of users' rows of a table, as each model was evaluated on them."""

    values: Array  # int64, models × users; 0 without a row
    has_hash: Array  # bool, models × users

    @classmethod
    def read(cls, hashes: pa.Array, rows: Array, positions: Array, shape: tuple[int, int]) -> RowHashes:
        """Those in some rows of a column; `positions` has for each of them its index in an array of this shape."""
        values, has_hash = np.zeros(shape[0] * shape[1], np.int64), np.zeros(shape[0] * shape[1], np.bool_)
        values[positions] = whole_numbers(hashes)[rows]
        has_hash[positions] = hashes.is_valid().to_numpy(zero_copy_only=False)[rows]
        return cls(values.reshape(shape), has_hash.reshape(shape))

    def only(self, users: Array | slice) -> RowHashes:
        """Those of some users."""
        return RowHashes(self.values[:, users], self.has_hash[:, users])

    def for_model(self, index: int | None) -> tuple[Array, Array]:
        """Those of a model by its index, None if the batch does not have it: the hashes, and which are known."""
        if index is None:
            n_users = self.values.shape[1]
            return np.zeros(n_users, np.int64), np.zeros(n_users, np.bool_)
        return self.values[index], self.has_hash[index]


class ComparedUsers(NamedTuple):
    """Users of a batch, with their values under the models that occur in it."""

    ids: IntArray  # int64 hashes, one for each user
    hashes: IntArray  # those by which users are drawn: of their clusters, if they come in these
    models: list[str]
    values: Array  # float64, metrics × models × users; NaN without a value
    n_rows: Array  # int64, models × users; 0 for a null user
    n_invalid: Array  # a number for each model
    row_hashes: dict[str, RowHashes]  # by table
    is_empty: BoolArray | None = None  # models × users: no predictions; None: the rows do not say so
    lacks_cluster: BoolArray | None = None  # whose cluster is not known, if users come in clusters
    n_conflicts: IntArray | None = (
        None  # in how many attributes a user's rows do not agree, if there are attributes or clusters
    )

    def only(self, rows: Array | slice) -> ComparedUsers:
        """Some of these users. Rows that could not be ranked are counted only for all users together."""
        return self._replace(
            ids=self.ids[rows],
            hashes=self.hashes[rows],
            values=self.values[:, :, rows],
            n_rows=self.n_rows[:, rows],
            n_invalid=np.zeros_like(self.n_invalid),
            is_empty=None,
            lacks_cluster=None,
            n_conflicts=None,
            row_hashes={table: hashes.only(rows) for table, hashes in self.row_hashes.items()},
        )

    @property
    def present(self) -> list[str]:
        """The models with rows of users. Rows of a null user may name others, or none."""
        return [model for model, rows in zip(self.models, self.n_rows, strict=True) if rows.any()]

    def values_of(self, model: str) -> Array:
        """The values of a model, metrics × users; NaN if the batch does not have it."""
        if model not in self.models:
            return np.full((len(self.values), len(self.hashes)), np.nan)
        values: Array = self.values[:, self.models.index(model)]
        return values

    def has(self, model: str | None) -> BoolArray:
        """Which users have a row of a model."""
        if model not in self.models:
            return np.zeros(len(self.hashes), np.bool_)
        rows: BoolArray = self.n_rows[self.models.index(model)] > 0
        return rows


def read_users(batch: pa.RecordBatch, n_metrics: int, tables: tuple[str, ...] = ()) -> ComparedUsers:
    """The users of a batch. Each row of a model has a code for the model and the position of its user."""
    columns = columns_of(batch)
    n_users = batch.num_rows
    rows = columns[ROWS].flatten()
    fields = dict(zip([field.name for field in rows.type], rows.flatten(), strict=True))
    user = np.repeat(np.arange(n_users), whole_numbers(columns[ROWS].value_lengths()))
    encoded = fields[MODEL].dictionary_encode()
    models = encoded.dictionary.to_pylist()
    code = filled(encoded.indices, 0).astype(np.int64)
    has_user = ~flags(columns[IS_NULL_USER])[user]
    position = (code * n_users + user)[has_user]
    ids = whole_numbers(columns[USER])
    values = np.full((n_metrics, len(models) * n_users), np.nan)
    for index in range(n_metrics):
        values[index, position] = numbers(fields[value_field(index)])[has_user]
    shape = (len(models), n_users)
    is_empty = None
    if N_PREDICTIONS in fields:
        is_empty = np.zeros(len(models) * n_users, np.bool_)
        is_empty[position] = (whole_numbers(fields[N_PREDICTIONS]) == 0)[has_user]
    conflicts = whole_numbers(columns[CONFLICTS]) if CONFLICTS in columns else None
    lacks_cluster = None
    if CLUSTER in columns:
        # Whose rows name several clusters is a conflict.
        lacks_cluster = flags(columns[CLUSTER].is_null()) & (True if conflicts is None else conflicts == 0)
    row_hashes = {table: RowHashes.read(fields[hash_field(table)], has_user, position, shape) for table in tables}
    return ComparedUsers(
        ids=ids,
        hashes=whole_numbers(pc.coalesce(columns[CLUSTER], columns[USER])) if CLUSTER in columns else ids,
        models=models,
        values=values.reshape(n_metrics, len(models), n_users),
        n_rows=np.bincount(position, minlength=len(models) * n_users).reshape(len(models), n_users),
        n_invalid=np.bincount(code, whole_numbers(fields[INVALID]), len(models)).astype(np.int64),
        is_empty=None if is_empty is None else is_empty.reshape(shape),
        lacks_cluster=lacks_cluster,
        n_conflicts=conflicts,
        row_hashes=row_hashes,
    )


class UserCounts:
    """How many users there are, of all and of each model, and how many are not shared with the baseline."""

    def __init__(self, baseline: str | None) -> None:
        self._baseline = baseline
        self._owners: dict[Owner, State] = {}

    def add(self, users: ComparedUsers) -> None:
        """Count the users of a batch; no user may be in two batches."""
        self._count((), N_USERS, np.any(users.n_rows, axis=0))
        if users.lacks_cluster is not None:
            self._count((), N_WITHOUT_CLUSTER, np.any(users.n_rows, axis=0) & users.lacks_cluster)
        if users.n_conflicts is not None:
            self._count((), N_CONFLICTS, np.where(np.any(users.n_rows, axis=0), users.n_conflicts, 0))
        shared = users.has(self._baseline)
        for index, model in enumerate(users.models):
            n_rows = users.n_rows[index]
            self._count(model, N_USERS, n_rows > 0)
            self._count(model, N_SHARED, shared & (n_rows > 0))
            self._count(model, N_REPEATED, n_rows > 1)
            self._count(model, N_INVALID, users.n_invalid[index])
            if users.is_empty is not None:
                values = users.values[:, index]
                has_value = np.any(~np.isnan(values), axis=0)
                is_other = np.any(np.nan_to_num(values) != 0, axis=0)
                self._count(model, N_VALUED, has_value)
                self._count(model, N_EMPTY, users.is_empty[index] & has_value & ~is_other)
        for table, hashes in users.row_hashes.items():
            if self._baseline is None:
                self._count_unequal(table, hashes, users)
            else:
                self._count_others(table, hashes, users)

    def _count_unequal(self, table: str, hashes: RowHashes, users: ComparedUsers) -> None:
        """Count the users of several models whose rows of a table are not the same for all of these."""
        has_row = (users.n_rows > 0) & (hashes.has_hash if table == PARTIAL_TABLE else True)
        largest = np.where(has_row, hashes.values, np.iinfo(np.int64).min).max(axis=0, initial=np.iinfo(np.int64).min)
        smallest = np.where(has_row, hashes.values, np.iinfo(np.int64).max).min(axis=0, initial=np.iinfo(np.int64).max)
        self._count((), f"{N_OTHER}{table}", smallest < largest)

    def _count_others(self, table: str, hashes: RowHashes, users: ComparedUsers) -> None:
        baseline_index = users.models.index(self._baseline) if self._baseline in users.models else None
        baseline_hashes, has_hash = hashes.for_model(baseline_index)
        name = f"{N_OTHER}{table}"
        if table == PARTIAL_TABLE:
            for index, model in enumerate(users.models):
                others, have_hash = hashes.for_model(index)
                self._count(model, name, has_hash & have_hash & (others != baseline_hashes))
            return
        # Whom a model does not know at all has no rows there. Its batch may lack the model, so the driver adds those of the baseline.
        for index, model in enumerate(users.models):
            has, (others, _) = users.n_rows[index] > 0, hashes.for_model(index)
            differs, n_both = has & (others != baseline_hashes), has & (baseline_hashes != 0)
            self._count(
                model, name, baseline_hashes != 0 if index == baseline_index else differs.astype(np.int64) - n_both
            )

    def _count(self, owner: Owner, name: str, counted: Array) -> None:
        counts = self._owners.setdefault(owner, {})
        counts[name] = counts.get(name, np.zeros(1, np.int64)) + counted.sum()

    def owners(self) -> dict[Owner, State]:
        """The counts so far, by owner."""
        return {owner: dict(counts) for owner, counts in self._owners.items()}
