"""Compare models in the workers: the users that a comparison reads, and the sums of their differences."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.ranking.user_lists import Array, BoolArray, IntArray
from spark_rankeval.records.summary import Key, rollup
from spark_rankeval.statistics import comparisons
from spark_rankeval.statistics.exact import State, merged
from spark_rankeval.worker import process, states
from spark_rankeval.worker import reading as grouped_row
from spark_rankeval.worker.features import JUDGED, MERGING_JUDGED, JudgedAccumulator, TwoJudges
from spark_rankeval.worker.process import Batches, Mergers, Message, Run, sends_messages
from spark_rankeval.worker.states import HELD_BYTES

Owner = str | tuple[str, ...]

#: The column of a user's rows of all models, as structs, beside `USER_HASH`, `NO_USER` and, if users come in clusters, `CLUSTER_HASH`.
ROWS = "rows"
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


def value_field(index: int) -> str:
    """The field of a metric's value in a model's row, by its index."""
    return f"value_{index}"


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
        slices: dict[Key | None, dict[Owner, State]] = {}
        # One by one: all at once might not fit into memory.
        for part in parts:
            for key, owners in part.slices.items():
                slices[key] = merged_owners([slices[key], owners]) if key in slices else owners
        return cls(slices)


def merged_owners(parts: Iterable[Mapping[Owner, State]]) -> dict[Owner, State]:
    """The state of each owner, from those of parts of the users."""
    owners: dict[Owner, State] = {}
    for part in parts:
        for owner, state in part.items():
            owners[owner] = merged([owners[owner], state]) if owner in owners else state
    return owners


def count_of(owners: Mapping[Owner, State], name: str, owner: Owner = ()) -> int:
    """A count of a model, or of all users; 0 if nothing was counted."""
    return int(owners.get(owner, {}).get(name, [0])[0])


def n_other_rows(owners: Mapping[Owner, State], model: str, baseline: str, table: str) -> int:
    """Of how many users the rows of a table are not the same for a model and the baseline, by owner."""
    counted = [model] if table == grouped_row.PARTIAL_TABLE else [model, baseline]
    return sum(count_of(owners, f"{N_OTHER}{table}", owner) for owner in counted)


class RowHashes(NamedTuple):
    """Hashes of users' rows of a table, as each model was evaluated on them."""

    values: Array  # int64, models × users; 0 without a row
    has_hash: Array  # bool, models × users

    def only(self, users: Array | slice) -> RowHashes:
        """Those of some users."""
        return RowHashes(self.values[:, users], self.has_hash[:, users])


class ComparedUsers(NamedTuple):
    """Users of a batch, with their values under the models that occur in it, and the baseline if there is one."""

    ids: IntArray  # int64 hashes, one for each user
    hashes: IntArray  # those by which users are drawn: of their clusters, if they come in these
    models: list[str]
    values: Array  # float64, metrics × models × users; NaN without a value
    n_rows: Array  # int64, models × users; 0 for a null user
    n_invalid: Array  # a number for each model
    row_hashes: dict[str, RowHashes]  # by table
    is_empty: BoolArray | None = None  # models × users: no predictions; None: the rows do not say so
    lacks_cluster: BoolArray | None = None  # whose cluster is not known, if users come in clusters
    # In how many attributes a user's rows do not agree, if there are attributes or clusters.
    n_conflicts: IntArray | None = None

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


def read_users(
    batch: pa.RecordBatch, n_metrics: int, tables: tuple[str, ...] = (), baseline: str | None = None
) -> ComparedUsers:
    """The users of a batch. Each row of a model has a code for the model and the position of its user."""
    columns = grouped_row.columns_of(batch)
    n_users = batch.num_rows
    rows = columns[ROWS].flatten()
    fields = grouped_row.fields_in(rows)
    user = np.repeat(np.arange(n_users), grouped_row.whole_numbers(columns[ROWS].value_lengths()))
    encoded = fields[MODEL].dictionary_encode()
    models = encoded.dictionary.to_pylist()
    if baseline is not None and baseline not in models:
        models.append(baseline)
    code = grouped_row.filled(encoded.indices, 0).astype(np.int64)
    has_user = ~grouped_row.flags(columns[grouped_row.NO_USER])[user]
    position, shape = (code * n_users + user)[has_user], (len(models), n_users)

    def placed(entries: Array, missing: float = 0) -> Array:
        """Entries of the rows, models × users."""
        cells = np.full(len(models) * n_users, missing, entries.dtype)
        cells[position] = entries[has_user]
        return cells.reshape(shape)

    values = np.empty((n_metrics, *shape))
    for index in range(n_metrics):
        values[index] = placed(grouped_row.numbers(fields[value_field(index)]), np.nan)
    conflicts = grouped_row.whole_numbers(columns[CONFLICTS]) if CONFLICTS in columns else None
    hashes = ids = grouped_row.whole_numbers(columns[grouped_row.USER_HASH])
    lacks_cluster = None
    if (clusters := columns.get(grouped_row.CLUSTER_HASH)) is not None:
        hashes = grouped_row.whole_numbers(pc.coalesce(clusters, columns[grouped_row.USER_HASH]))
        # Whose rows name several clusters is a conflict.
        lacks_cluster = grouped_row.flags(clusters.is_null()) & (True if conflicts is None else conflicts == 0)
    table_hashes = {table: fields[grouped_row.hash_column(table)] for table in tables}
    return ComparedUsers(
        ids=ids,
        hashes=hashes,
        models=models,
        values=values,
        n_rows=np.bincount(position, minlength=len(models) * n_users).reshape(shape),
        n_invalid=np.bincount(code, grouped_row.whole_numbers(fields[INVALID]), len(models)).astype(np.int64),
        is_empty=placed(grouped_row.whole_numbers(fields[N_PREDICTIONS]) == 0) if N_PREDICTIONS in fields else None,
        lacks_cluster=lacks_cluster,
        n_conflicts=conflicts,
        row_hashes={
            table: RowHashes(placed(grouped_row.whole_numbers(each)), placed(grouped_row.flags(each.is_valid())))
            for table, each in table_hashes.items()
        },
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
                self._count_others(table, hashes, users, users.models.index(self._baseline))

    def _count_unequal(self, table: str, hashes: RowHashes, users: ComparedUsers) -> None:
        """Count the users of several models whose rows of a table are not the same for all of these."""
        has_row = (users.n_rows > 0) & (hashes.has_hash if table == grouped_row.PARTIAL_TABLE else True)
        largest = np.where(has_row, hashes.values, np.iinfo(np.int64).min).max(axis=0, initial=np.iinfo(np.int64).min)
        smallest = np.where(has_row, hashes.values, np.iinfo(np.int64).max).min(axis=0, initial=np.iinfo(np.int64).max)
        self._count((), f"{N_OTHER}{table}", smallest < largest)

    def _count_others(self, table: str, hashes: RowHashes, users: ComparedUsers, baseline_index: int) -> None:
        baseline_hashes = hashes.values[baseline_index]
        for index, model in enumerate(users.models):
            has, differs = users.n_rows[index] > 0, hashes.values[index] != baseline_hashes
            if table == grouped_row.PARTIAL_TABLE:
                counted = hashes.has_hash[baseline_index] & hashes.has_hash[index] & differs
            elif index == baseline_index:
                counted = baseline_hashes != 0
            else:
                # Whom a model does not know has no rows. The batch may lack the model, so the driver adds the rows of the baseline.
                counted = (has & differs).astype(np.int64) - (has & (baseline_hashes != 0))
            self._count(model, f"{N_OTHER}{table}", counted)

    def _count(self, owner: Owner, name: str, counted: Array) -> None:
        counts = self._owners.setdefault(owner, {})
        counts[name] = counts.get(name, np.zeros(1, np.int64)) + counted.sum()

    def owners(self) -> dict[Owner, State]:
        """The counts so far, by owner."""
        return {owner: dict(counts) for owner, counts in self._owners.items()}


#: The kind of messages that have the state of a comparison.
COMPARISON = "comparison"


# The measured bytes that one metric of one model takes in memory, without replicates.
_PAIR = 8_000


def paired_layout(n_values: int, n_attributes: int, *, totals: bool) -> states.ClusterLayout:
    """The rows of users who go on to their clusters: a row for each model, with `paired_sides` of it and the baseline."""
    groups = rollup(n_attributes, totals=totals, n_before=1)
    masks = states.rollup_masks(groups, 1 + n_attributes)
    return states.ClusterLayout(len(comparisons.SIDES) * n_values, n_keys=1 + n_attributes, masks=masks)


def paired_merger(layout: states.ClusterLayout, replicates: int, seed: int) -> process.Merger:
    """The merger of the users of a cluster; slices draw no signs."""

    def new(mask: tuple[bool, ...]) -> comparisons.PairedClusters:
        return comparisons.PairedClusters(
            layout.n_values // len(comparisons.SIDES), replicates=replicates if sum(mask) == 1 else 0, seed=seed
        )

    return states.merging_clusters(layout, new)


def paired_batches(
    baseline: str,
    n_metrics: int,
    replicates: int,
    seed: int,
    n_attributes: int = 0,
    tables: tuple[str, ...] = (),
    layout: states.ClusterLayout | None = None,
    judges: TwoJudges | None = None,
) -> Run:
    """A function for ``mapInArrow``: every model against the baseline; of `tables` it counts users whose rows differ.

    The states have the fields of `PairedAccumulator` and the counts for each model, of all users and of each slice. A partition without
    rows of a model has no state of it. With a layout users go on to their clusters, which get the signs. With two judges the users'
    grading weights are the last of the values, and other messages have what both judges say.
    """
    attributes = [grouped_row.slice_column(index) for index in range(n_attributes)]
    drawn = replicates if layout is None else 0

    @sends_messages
    def run(batches: Batches) -> Iterator[Message]:
        everyone = _Pairs(baseline, n_metrics, drawn, seed)
        clusters = None if layout is None else states.ClusterRows(layout)
        slices = _Slices(lambda: _Pairs(baseline, n_metrics, 0, seed))
        judged = None if judges is None else _JudgedPairs(baseline, judges)
        for batch in batches:
            users = every = read_users(batch, n_metrics if judges is None else n_metrics + 1, tables, baseline)
            if judged is not None:
                judged.add_users(every, batch, attributes)
                users = every._replace(values=every.values[:n_metrics])
            everyone.add(users)
            if clusters is not None:
                for model in sorted(set(users.present) - {baseline}):
                    sides = comparisons.paired_sides(users.values_of(model), users.values_of(baseline))
                    yield from send_to_clusters(clusters, batch, users, model, attributes, sides)
            if not attributes:
                continue
            for key, rows in grouped_row.rows_by_key([batch.column(name) for name in attributes], batch.num_rows):
                slices.add(key, users.only(rows))
                if slices.n_bytes > HELD_BYTES:
                    yield from slices.handed_on()
        yield comparison_message({None: everyone.owners()})
        yield from slices.handed_on()
        if clusters is not None:
            yield from clusters.messages()
        if judged is not None:
            yield from judged.messages()

    return run


def side_of(side: str, model: str, place: int) -> str:
    """The name of a figure of two judges: a side of `SIDES` in a metric, by the place of its human value. Its users have a difference."""
    return json.dumps([side, model, place])


class _JudgedPairs(JudgedAccumulator):
    """Every model against the baseline under two judges."""

    def __init__(self, baseline: str, judges: TwoJudges) -> None:
        super().__init__()
        self._baseline, self._judges = baseline, judges

    def _grading_weight(self, users: ComparedUsers, model: str) -> Array:
        """The users' grading weights for the comparison of a model; NaN of users who are not in it.

        Whom people, or the model, graded for one of the compared models alone is not graded.
        """
        weight, own = (users.values_of(name)[-1] for name in (self._baseline, model))
        weights = np.where(own == 0, 0.0 * weight, weight + 0.0 * own)
        return np.where(users.has(model) & users.has(self._baseline), weights, np.nan)

    def add_users(self, users: ComparedUsers, batch: pa.RecordBatch, attributes: Sequence[str]) -> None:
        """Add the users of a batch, whose last value is their grading weight, in groups by columns of it."""
        baseline, weight = users.values_of(self._baseline), np.full(batch.num_rows, np.nan)
        everyone = self.graded(batch, attributes, weight, is_weighted=self._judges.is_weighted)
        for model in sorted(set(users.present) - {self._baseline}):
            there = users.has(model) & users.has(self._baseline)
            sides = np.split(
                comparisons.paired_sides(users.values_of(model), baseline)[:, there], len(comparisons.SIDES)
            )
            graded = everyone._replace(grading_weight=self._grading_weight(users, model)).only(there)
            for pair in self._judges.pairs:
                for name, values in zip(comparisons.SIDES, sides, strict=True):
                    figure = side_of(name, model, pair.human)
                    self.add(figure, values[pair.human], values[pair.judge], graded)


def send_to_clusters(
    clusters: states.ClusterRows,
    batch: pa.RecordBatch,
    users: ComparedUsers,
    name: str,
    attributes: Sequence[str],
    values: Array,
    weights: Array | None = None,
) -> Iterator[Message]:
    """Send users on to their clusters, with values (metrics × users) under the name of what these are of, and weights."""
    there = np.flatnonzero(~np.isnan(values).all(axis=0))
    rows = pa.array(there)
    keys = [pa.repeat(pa.scalar(name), len(there)), *(batch.column(attribute).take(rows) for attribute in attributes)]
    user_weights = None if weights is None else weights[there]
    yield from clusters.add(
        batch.column(grouped_row.CLUSTER_HASH).take(rows), users.ids[there], keys, list(values[:, there]), user_weights,
    )  # fmt: skip


class _Slices:
    """Every model against the baseline, on the users of each slice; `n_bytes` is about the memory that the sums take."""

    def __init__(self, new: Callable[[], _Pairs]) -> None:
        self._new = new
        self._pairs: dict[Key, _Pairs] = {}
        self.n_bytes = 0

    def add(self, key: Key, users: ComparedUsers) -> None:
        """Add users of a slice."""
        pairs = self._pairs.setdefault(key, self._new())
        self.n_bytes -= pairs.n_bytes
        pairs.add(users)
        self.n_bytes += pairs.n_bytes

    def handed_on(self) -> Iterator[Message]:
        """The states, those of one bucket together. Afterwards it holds nothing."""
        by_bucket: dict[int, dict[Key | None, dict[Owner, State]]] = {}
        for key, pairs in self._pairs.items():
            # A slice that only rows of a null user name does not count.
            if pairs.n_users:
                by_bucket.setdefault(states.bucket_of(key), {})[key] = pairs.owners()
        self._pairs, self.n_bytes = {}, 0
        for bucket, slices in by_bucket.items():
            yield comparison_message(slices, bucket)


class _Pairs:
    """Every model against the baseline, on some users."""

    def __init__(self, baseline: str, n_metrics: int, replicates: int, seed: int) -> None:
        self._baseline = baseline
        self._new = partial(comparisons.PairedAccumulator, replicates=replicates, seed=seed)
        self._n_metrics = n_metrics
        self._counts = UserCounts(baseline)
        # Models that were first met in one batch share the random signs of their users.
        self._met: list[tuple[list[str], comparisons.PairedAccumulator]] = []
        self.n_users = 0

    @property
    def n_bytes(self) -> int:
        """About the memory that these sums take, without those of the sign flips, which slices do not need."""
        return self._n_metrics * _PAIR * sum(len(models) for models, _ in self._met)

    def add(self, users: ComparedUsers) -> None:
        """Add users."""
        self.n_users += int(np.any(users.n_rows, axis=0).sum())
        self._counts.add(users)
        met_models = {self._baseline}.union(*(models for models, _ in self._met))
        if new := sorted(set(users.present) - met_models):
            self._met.append((new, self._new(len(new) * self._n_metrics)))
        for models, accumulator in self._met:
            values = np.concatenate([users.values_of(model) for model in models])
            accumulator.add(users.hashes, values, np.tile(users.values_of(self._baseline), (len(models), 1)))

    def owners(self) -> dict[Owner, State]:
        """The states so far, by owner."""
        owners = self._counts.owners()
        for models, accumulator in self._met:
            fields = accumulator.state()
            # Users before the model was first met are not counted here. The driver computes the number from the counts of users.
            del fields["n_undefined"]
            for name, entries in fields.items():
                for model, part in zip(models, np.split(entries, len(models)), strict=True):
                    owners.setdefault(model, {})[name] = part
        return owners


def comparison_message(slices: dict[Key | None, dict[Owner, State]], bucket: int | None = None) -> Message:
    """The states of a comparison by slice, None for all users, and by owner."""
    return Message.of(COMPARISON, ComparisonStates(slices), bucket)


def merging_comparisons(clusters: process.Merger | None = None) -> Mergers:
    """What merges states of comparisons; `clusters` merges what users of a cluster have, if they meet."""
    mergers = {COMPARISON: process.merging_each_bucket(COMPARISON, ComparisonStates.merged), JUDGED: MERGING_JUDGED}
    return mergers if clusters is None else {**mergers, states.CLUSTER_USERS: clusters}


def name_of_pair(models: Sequence[str], first: int, second: int) -> str:
    """What differences of two of several models are sent under."""
    return json.dumps([*models, first, second])


def all_pairs_batches(
    n_metrics: int,
    replicates: int,
    seed: int,
    layout: states.ClusterLayout | None = None,
    tables: tuple[str, ...] = (),
) -> Run:
    """A function for ``mapInArrow``: all models as the columns of one block a user; of `tables` it counts users whose rows differ.

    The state has the models' counts, and the fields of `AllPairsAccumulator` for the set of all models that the partition met.
    When a new model is met, the sums start again: earlier users lack that model, and have no place in the blocks. For the
    same reason the driver reads only the states of the set of all models. With a layout the differences of each pair go on to the users'
    clusters, whose permutations are the same for all their users.
    """

    @sends_messages
    def run(batches: Batches) -> Iterator[Message]:
        counts = UserCounts(None)
        models: list[str] = []
        accumulator: comparisons.AllPairsAccumulator | None = None
        clusters = None if layout is None else states.ClusterRows(layout)
        for batch in batches:
            users = read_users(batch, n_metrics, tables)
            counts.add(users)
            if not set(users.present) <= set(models):
                models = sorted({*models, *users.present})
                # Nothing raises here: the driver refuses too many models for permutations.
                drawn = replicates if len(models) <= comparisons.MOST_LABELS else 0
                if len(models) > 1:
                    accumulator = comparisons.AllPairsAccumulator(n_metrics, len(models), replicates=drawn, seed=seed)
            if accumulator is not None:
                values = np.stack([users.values_of(model) for model in models], axis=1)
                accumulator.add(users.hashes, values)
                if clusters is None:
                    continue
                values[np.broadcast_to(np.isnan(values).any(axis=1, keepdims=True), values.shape)] = np.nan
                for first, second in combinations(range(len(models)), 2):
                    name, differences = name_of_pair(models, first, second), values[:, second] - values[:, first]
                    yield from send_to_clusters(clusters, batch, users, name, (), differences)
        owners = counts.owners()
        if accumulator is not None:
            owners[tuple(models)] = accumulator.state()
        yield comparison_message({None: owners})
        if clusters is not None:
            yield from clusters.messages()

    return run
