"""Turn users' rows of several models into the state of a comparison, which the driver merges and reads."""

from __future__ import annotations

import json
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.records.slices import roll
from spark_rankeval.statistics.all_pairs import MOST_LABELS, AllPairsAccumulator
from spark_rankeval.statistics.group_sums import GroupAccumulator
from spark_rankeval.statistics.merging import merged
from spark_rankeval.statistics.paired import PairedAccumulator, PairedClusters, differences_of
from spark_rankeval.worker.clusters import FIRST_PLACE, ClusterMerger, ClusterRows, Layout, kept_by
from spark_rankeval.worker.packing import by_place, placed, unpack
from spark_rankeval.worker.process import in_worker
from spark_rankeval.worker.reading import columns_of, filled, flags, numbers, whole_numbers
from spark_rankeval.worker.row_hashes import KNOWN_IN_PART, RowHashes, hash_field
from spark_rankeval.worker.states import HELD_BYTES, groups, place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from spark_rankeval.ranking.ragged import Array, BoolArray, IntArray
    from spark_rankeval.statistics.moments import State
    from spark_rankeval.worker.states import Key

    Owner = str | tuple[str, ...]
    Run = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

#: The columns of a user: a 64-bit hash, whether the user is null, and the rows of all models as structs.
USER, NOBODY, ROWS = "user", "nobody", "rows"
#: A hash of the user's cluster, if users come in clusters; null if it is not known.
CLUSTER = "cluster"
#: The fields of a model's row, beside its values: the model's name, and how many of its rows could not be ranked.
MODEL, INVALID = "model", "invalid"

#: The number of attributes in which the rows of a user do not agree, if there are slices.
CONFLICTS = "n_conflicts"

#: The counts of a model: users with a row, with a row of the baseline too, with several rows, and invalid rows.
N_USERS, N_SHARED, N_REPEATED, N_INVALID = "n_users", "n_shared", "n_repeated", "n_invalid"
#: The count of a model: users whose rows of a shared table are not those that the baseline was evaluated on; `n_other_rows` reads it.
N_OTHER = "n_other_"
#: The counts of all users: attributes in which the rows of a user do not agree, and users whose cluster is not known.
N_CONFLICTS, N_WITHOUT_CLUSTER = "n_conflicting_attributes", "n_missing_clusters"
#: The counts of all users in a comparison of groups: users in several groups, and partitions with too many groups.
N_IN_SEVERAL, N_TOO_MANY = "n_in_several_groups", "n_too_many_groups"
#: More groups are no experiment, but a column of something else.
MOST_GROUPS = 500


def slice_field(index: int) -> str:
    """The column of an attribute that divides users into slices, by its place."""
    return f"slice_{index}"


def value_field(index: int) -> str:
    """The field of a metric's value in a model's row, by its place."""
    return f"value_{index}"


# The measured bytes that one metric of one model takes in memory, without replicates.
_PAIR = 8_000


def paired_layout(n_metrics: int, n_attributes: int, *, totals: bool) -> Layout:
    """The rows of users who go on to their clusters: a row for each model, with the differences to the baseline."""
    groups = roll(n_attributes, totals=totals, n_before=1)
    return Layout(n_metrics, n_keys=1 + n_attributes, kept=kept_by(groups, 1 + n_attributes))


def paired_merger(layout: Layout, replicates: int, seed: int) -> Callable[[], ClusterMerger]:
    """What makes the place where users of a cluster meet: of each slice no signs are drawn."""

    def new(kept: tuple[bool, ...]) -> PairedClusters:
        return PairedClusters(layout.n_values, replicates=replicates if sum(kept) == 1 else 0, seed=seed)

    return partial(ClusterMerger, layout, new)


def paired_batches(
    baseline: str,
    n_metrics: int,
    replicates: int,
    seed: int,
    n_attributes: int = 0,
    tables: tuple[str, ...] = (),
    layout: Layout | None = None,
) -> Run:
    """A function for ``mapInArrow``: every model against the baseline; of `tables` it counts users whose rows differ.

    The state has the fields of `PairedAccumulator` and the counts for each model, of all users and of each slice; `by_slice`
    takes it apart. A partition without rows of a model has no state of it. With a layout users go on to their clusters, which get the
    signs.
    """
    attributes = [slice_field(index) for index in range(n_attributes)]
    drawn = replicates if layout is None else 0

    @in_worker
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        everyone = _Pairs(baseline, n_metrics, drawn, seed)
        clusters = None if layout is None else ClusterRows(layout)
        slices = _Slices(lambda: _Pairs(baseline, n_metrics, 0, seed))
        n_conflicts = np.zeros(1, np.int64)
        for batch in batches:
            users = _read(batch, n_metrics, tables)
            everyone.add(users)
            if clusters is not None:
                for model in sorted(set(users.present) - {baseline}):
                    differences = differences_of(users.of(model), users.of(baseline))
                    yield from _sent(clusters, batch, users, model, attributes, differences)
            if not attributes:
                continue
            n_conflicts += whole_numbers(batch.column(CONFLICTS)).sum()
            for key, rows in groups([batch.column(name) for name in attributes], batch.num_rows):
                slices.add(key, users.only(rows))
                if slices.n_bytes > HELD_BYTES:
                    yield from slices.handed_on()
        yield placed(None, everyone.state() | {_field((), N_CONFLICTS): n_conflicts})
        yield from slices.handed_on()
        if clusters is not None:
            yield from clusters.rows()

    return run


def _sent(
    clusters: ClusterRows, batch: pa.RecordBatch, users: _Users, name: str, attributes: Sequence[str], values: Array
) -> Iterator[pa.RecordBatch]:
    """Send users on to their clusters, with values (metrics × users) under the name of what these are of."""
    there = np.flatnonzero(~np.isnan(values).all(axis=0))
    rows = pa.array(there)
    keys = [pa.repeat(pa.scalar(name), len(there)), *(batch.column(attribute).take(rows) for attribute in attributes)]
    yield from clusters.add(batch.column(CLUSTER).take(rows), users.ids[there], keys, list(values[:, there]))


class _Slices:
    """Every model against the baseline, on the users of each slice; `n_bytes` is about the memory that the sums take."""

    def __init__(self, new: Callable[[], _Pairs]) -> None:
        self._new = new
        self._pairs: dict[Key, _Pairs] = {}
        self.n_bytes = 0

    def add(self, key: Key, users: _Users) -> None:
        """Add users of a slice."""
        pairs = self._pairs.setdefault(key, self._new())
        self.n_bytes -= pairs.n_bytes
        pairs.add(users)
        self.n_bytes += pairs.n_bytes

    def handed_on(self) -> Iterator[pa.RecordBatch]:
        """The states as rows, those of one place together. Afterwards it holds nothing."""
        by_place: dict[int, State] = {}
        for key, pairs in self._pairs.items():
            # A slice that only rows of a null user name does not count.
            if pairs.n_users:
                state = {_in_slice(key, name): entries for name, entries in pairs.state().items()}
                by_place.setdefault(place_of(key), {}).update(state)
        self._pairs, self.n_bytes = {}, 0
        for place, state in by_place.items():
            yield placed(place, state)


class _MetTogether(NamedTuple):
    """Models that a partition first met in one batch. They share the random signs of their users."""

    models: list[str]
    accumulator: PairedAccumulator


class _Pairs:
    """Every model against the baseline, on some users."""

    def __init__(self, baseline: str, n_metrics: int, replicates: int, seed: int) -> None:
        self._baseline = baseline
        self._new = partial(PairedAccumulator, replicates=replicates, seed=seed)
        self._n_metrics = n_metrics
        self._counts = _Counts(baseline)
        self._met: list[_MetTogether] = []
        self.n_users = 0

    @property
    def n_bytes(self) -> int:
        """About the memory that these sums take, without those of the sign flips, which slices do not need."""
        return self._n_metrics * _PAIR * sum(len(met.models) for met in self._met)

    def add(self, users: _Users) -> None:
        """Add users."""
        self.n_users += int(np.any(users.n_rows, axis=0).sum())
        self._counts.add(users)
        known = {self._baseline}.union(*(met.models for met in self._met))
        if new := sorted(set(users.present) - known):
            self._met.append(_MetTogether(new, self._new(len(new) * self._n_metrics)))
        for models, accumulator in self._met:
            values = np.concatenate([users.of(model) for model in models])
            accumulator.add(users.hashes, values, np.tile(users.of(self._baseline), (len(models), 1)))

    def state(self) -> State:
        """The state so far, by owner and name."""
        state = self._counts.state()
        for models, accumulator in self._met:
            fields = accumulator.state()
            # Users before the model was first met are not counted here. The driver computes the number from the counts of users.
            del fields["n_undefined"]
            for name, entries in fields.items():
                parts = np.split(entries, len(models))
                state |= {_field(model, name): part for model, part in zip(models, parts, strict=True)}
        return state


def merging_comparisons(clusters: Callable[[], ClusterMerger] | None = None) -> Run:
    """A function for ``mapInArrow``: merge the states of each place into one. A partition has the rows of a place together.

    If `clusters` makes what they meet in, users of a cluster meet, too.
    """

    @in_worker
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        met = None if clusters is None else clusters()
        for place, packed in by_place(batches):
            if met is not None and place is not None and place >= FIRST_PLACE:
                for tree in met.add(packed):
                    yield placed(None, tree)
                continue
            # They are merged one by one, because all at once might not fit into memory.
            total = unpack(next(packed))
            for state in packed:
                total = merged([total, unpack(state)])
            yield placed(None, total)
        if met is not None:
            yield from met.rows()

    return run


#: The same without clusters.
merge_comparisons = merging_comparisons()


def name_of_pair(models: Sequence[str], first: int, second: int) -> str:
    """What differences of two of several models are sent under."""
    return json.dumps([*models, first, second])


def all_pairs_batches(
    n_metrics: int, replicates: int, seed: int, pairwise: bool = False, layout: Layout | None = None
) -> Run:
    """A function for ``mapInArrow``: all models as the columns of one block a user.

    The state has the models' counts, and the fields of `AllPairsAccumulator` for the set of all models that the partition met.
    When a new model is met, the sums start again: earlier users lack that model, and have no place in the blocks. For the
    same reason the driver reads only the states of the set of all models. With a layout the differences of each pair go on to the users'
    clusters, whose permutations are the same for all their users.
    """

    @in_worker
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts = _Counts(None)
        models: list[str] = []
        accumulator: AllPairsAccumulator | None = None
        clusters = None if layout is None else ClusterRows(layout)
        for batch in batches:
            users = _read(batch, n_metrics)
            counts.add(users)
            if not set(users.present) <= set(models):
                models = sorted({*models, *users.present})
                # Nothing raises here: the driver refuses too many models for permutations.
                drawn = replicates if len(models) <= MOST_LABELS else 0
                if len(models) > 1:
                    accumulator = AllPairsAccumulator(
                        n_metrics, len(models), replicates=drawn, seed=seed, pairwise=pairwise
                    )
            if accumulator is not None:
                values = np.stack([users.of(model) for model in models], axis=1)
                accumulator.add(users.hashes, values)
                if clusters is None:
                    continue
                values[np.broadcast_to(np.isnan(values).any(axis=1, keepdims=True), values.shape)] = np.nan
                for first, second in combinations(range(len(models)), 2):
                    name, differences = name_of_pair(models, first, second), values[:, second] - values[:, first]
                    yield from _sent(clusters, batch, users, name, (), differences)
        state = counts.state()
        if accumulator is not None:
            state |= {_field(tuple(models), name): entries for name, entries in accumulator.state().items()}
        yield placed(None, state)
        if clusters is not None:
            yield from clusters.rows()

    return run


def group_batches(n_metrics: int, *, weighted: bool, covariate: bool) -> Run:
    """A function for ``mapInArrow``: the sums of each group of users, in place of a model.

    The values of a row are those of the metrics, then the user's weight and then the covariate, if there are any. The state has
    the counts of `N_USERS` and others for each group, and the fields of `GroupAccumulator`.
    """

    @in_worker
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts = _Counts(None)
        groups: dict[str, GroupAccumulator] = {}
        n_in_several = np.zeros(1, np.int64)
        for batch in batches:
            users = _read(batch, n_metrics + weighted + covariate)
            if len({*groups, *users.models}) > MOST_GROUPS:
                yield placed(None, {_field((), N_TOO_MANY): np.ones(1, np.int64)})
                return
            counts.add(users)
            n_in_several += np.count_nonzero((users.n_rows > 0).sum(axis=0) > 1)
            for place, name in enumerate(users.models):
                values = users.values[:, place, users.n_rows[place] > 0]
                further = iter(values[n_metrics:])
                group = groups.setdefault(name, GroupAccumulator(n_metrics, weighted=weighted, covariate=covariate))
                weights = next(further) if weighted else None
                group.add(values[:n_metrics], weights, next(further) if covariate else None)
        state = counts.state() | {_field((), N_IN_SEVERAL): n_in_several}
        for name, group in groups.items():
            state |= {_field(name, field): entries for field, entries in group.state().items()}
        yield placed(None, state)

    return run


def counting_batches(baseline: str) -> Run:
    """A function for ``mapInArrow``: the counts of every model, and of the users that it shares with the baseline."""

    @in_worker
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts = _Counts(baseline)
        for batch in batches:
            counts.add(_read(batch, 0))
        yield placed(None, counts.state())

    return run


def by_owner(state: Mapping[str, Array]) -> dict[Owner, State]:
    """A merged state taken apart: the fields of each model by its name, and those of each set of models by their names.

    The empty set has the counts of all users, such as `N_USERS`.
    """
    owners: dict[Owner, State] = {}
    for key, entries in state.items():
        text, _, name = key.rpartition("/")
        owner = json.loads(text)
        owners.setdefault(owner if isinstance(owner, str) else tuple(owner), {})[name] = entries
    return owners


def n_other_rows(owners: Mapping[Owner, State], model: str, baseline: str, table: str) -> int:
    """Of how many users the rows of a table are not the same for a model and the baseline, in what `by_owner` returned."""
    name = f"{N_OTHER}{table}"
    counted = [model] if table == KNOWN_IN_PART else [model, baseline]
    return sum(int(owners.get(owner, {}).get(name, [0])[0]) for owner in counted)


def by_slice(state: Mapping[str, Array]) -> tuple[State, dict[Key, State]]:
    """A merged state taken apart into that of all users and that of each slice, as `by_owner` reads them."""
    everyone: State = {}
    slices: dict[Key, State] = {}
    for name, entries in state.items():
        if name.startswith(_SLICE):
            key, end = json.JSONDecoder().raw_decode(name, len(_SLICE))
            slices.setdefault(tuple(key), {})[name[end + 1 :]] = entries
        else:
            everyone[name] = entries
    return everyone, slices


_SLICE = "slice "


def _in_slice(key: Key, name: str) -> str:
    return f"{_SLICE}{json.dumps(list(key))} {name}"


def _field(owner: Owner, name: str) -> str:
    # The end of a field's name decides how states merge, so the owner comes first.
    return f"{json.dumps(owner)}/{name}"


class _Users(NamedTuple):
    """Users of a batch, with their values under the models that occur in it."""

    ids: IntArray  # int64 hashes, one for each user
    hashes: IntArray  # those by which users are drawn: of their clusters, if they come in these
    models: list[str]
    values: Array  # float64, metrics × models × users; NaN without a value
    n_rows: Array  # int64, models × users; 0 for a null user
    n_invalid: Array  # a number for each model
    hashes_of: dict[str, RowHashes]  # by table
    lacks_cluster: BoolArray | None = None  # whose cluster is not known, if users come in clusters

    def only(self, rows: Array | slice) -> _Users:
        """Some of these users. Rows that could not be ranked are counted only for all users together."""
        return self._replace(
            ids=self.ids[rows],
            hashes=self.hashes[rows],
            values=self.values[:, :, rows],
            n_rows=self.n_rows[:, rows],
            n_invalid=np.zeros_like(self.n_invalid),
            lacks_cluster=None,
            hashes_of={table: hashes.only(rows) for table, hashes in self.hashes_of.items()},
        )

    @property
    def present(self) -> list[str]:
        """The models with rows of users. Rows of a null user may name others, or none."""
        return [model for model, rows in zip(self.models, self.n_rows, strict=True) if rows.any()]

    def of(self, model: str) -> Array:
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


def _read(batch: pa.RecordBatch, n_metrics: int, tables: tuple[str, ...] = ()) -> _Users:
    """The users of a batch. Each row of a model has a code for the model and the place of its user."""
    columns = columns_of(batch)
    n_users = batch.num_rows
    rows = columns[ROWS].flatten()
    fields = dict(zip([field.name for field in rows.type], rows.flatten(), strict=True))
    user = np.repeat(np.arange(n_users), whole_numbers(columns[ROWS].value_lengths()))
    encoded = fields[MODEL].dictionary_encode()
    models = encoded.dictionary.to_pylist()
    code = filled(encoded.indices, 0).astype(np.int64)
    somebody = ~flags(columns[NOBODY])[user]
    place = (code * n_users + user)[somebody]
    ids = whole_numbers(columns[USER])
    values = np.full((n_metrics, len(models) * n_users), np.nan)
    for index in range(n_metrics):
        values[index, place] = numbers(fields[value_field(index)])[somebody]
    shape = (len(models), n_users)
    hashes_of = {table: RowHashes.read(fields[hash_field(table)], somebody, place, shape) for table in tables}
    return _Users(
        ids=ids,
        hashes=whole_numbers(pc.coalesce(columns[CLUSTER], columns[USER])) if CLUSTER in columns else ids,
        models=models,
        values=values.reshape(n_metrics, len(models), n_users),
        n_rows=np.bincount(place, minlength=len(models) * n_users).reshape(len(models), n_users),
        n_invalid=np.bincount(code, whole_numbers(fields[INVALID]), len(models)).astype(np.int64),
        lacks_cluster=flags(columns[CLUSTER].is_null()) if CLUSTER in columns else None,
        hashes_of=hashes_of,
    )


class _Counts:
    def __init__(self, baseline: str | None) -> None:
        self._baseline = baseline
        self._state: dict[str, Array] = {}

    def add(self, users: _Users) -> None:
        """Count the users of a batch; no user may be in two batches."""
        self._count((), N_USERS, np.any(users.n_rows, axis=0))
        if users.lacks_cluster is not None:
            self._count((), N_WITHOUT_CLUSTER, np.any(users.n_rows, axis=0) & users.lacks_cluster)
        shared = users.has(self._baseline)
        for index, model in enumerate(users.models):
            n_rows = users.n_rows[index]
            self._count(model, N_USERS, n_rows > 0)
            self._count(model, N_SHARED, shared & (n_rows > 0))
            self._count(model, N_REPEATED, n_rows > 1)
            self._count(model, N_INVALID, users.n_invalid[index])
        for table, hashes in users.hashes_of.items():
            self._count_others(table, hashes, users)

    def _count_others(self, table: str, hashes: RowHashes, users: _Users) -> None:
        place = users.models.index(self._baseline) if self._baseline in users.models else None
        of_baseline, is_known = hashes.of(place)
        name = f"{N_OTHER}{table}"
        if table == KNOWN_IN_PART:
            for index, model in enumerate(users.models):
                others, are_known = hashes.of(index)
                self._count(model, name, is_known & are_known & (others != of_baseline))
            return
        # Whom a model does not know at all has no rows there. Its batch may lack the model, so the driver adds those of the baseline.
        for index, model in enumerate(users.models):
            has, (others, _) = users.n_rows[index] > 0, hashes.of(index)
            differs, of_both = has & (others != of_baseline), has & (of_baseline != 0)
            self._count(model, name, of_baseline != 0 if index == place else differs.astype(np.int64) - of_both)

    def _count(self, owner: Owner, name: str, counted: Array) -> None:
        key = _field(owner, name)
        self._state[key] = self._state.get(key, np.zeros(1, np.int64)) + counted.sum()

    def state(self) -> State:
        """The counts so far, by owner and name."""
        return dict(self._state)
