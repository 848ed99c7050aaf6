"""Turn users' rows of several models into the state of a comparison, which the driver merges and reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from spark_rankeval.ranking.ragged import Array
from spark_rankeval.records.slices import Key, rollup
from spark_rankeval.statistics.all_pairs import MOST_LABELS, AllPairsAccumulator
from spark_rankeval.statistics.moments import State
from spark_rankeval.statistics.paired import SIDES, PairedAccumulator, PairedClusters, paired_sides
from spark_rankeval.wire import Merger, Mergers, Message, unpack
from spark_rankeval.worker.clusters import CLUSTER_USERS, ClusterLayout, ClusterMerger, ClusterRows, rollup_masks
from spark_rankeval.worker.compared_users import (
    CLUSTER,
    ComparedUsers,
    ComparisonStates,
    UserCounts,
    read_users,
    slice_field,
)
from spark_rankeval.worker.group_states import bucket_of, rows_by_key
from spark_rankeval.worker.grouped_row import STRATUM
from spark_rankeval.worker.judged_sums import (
    JUDGED,
    GradedUsers,
    JudgedAccumulator,
    JudgedMerger,
    TwoJudges,
)
from spark_rankeval.worker.process import sends_messages
from spark_rankeval.worker.states import HELD_BYTES

Owner = str | tuple[str, ...]
Run = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

#: The kind of messages that have the state of a comparison.
COMPARISON = "comparison"


# The measured bytes that one metric of one model takes in memory, without replicates.
_PAIR = 8_000


def paired_layout(n_values: int, n_attributes: int, *, totals: bool, judges: TwoJudges | None = None) -> ClusterLayout:
    """The rows of users who go on to their clusters: a row for each model, with `paired_sides` of it and the baseline.

    Two judges have figures of all sides of each of their pairs.
    """
    groups = rollup(n_attributes, totals=totals, n_before=1)
    masks = rollup_masks(groups, 1 + n_attributes)
    pairs, sides = () if judges is None else judges.pairs, range(len(SIDES))
    judged = tuple((side * n_values + pair.human, side * n_values + pair.judge) for pair in pairs for side in sides)
    drawn = judges is not None and judges.is_drawn
    return ClusterLayout(len(SIDES) * n_values, n_keys=1 + n_attributes, masks=masks, judged=judged, drawn=drawn)


def paired_merger(layout: ClusterLayout, replicates: int, seed: int) -> Callable[[], ClusterMerger]:
    """The merger of the users of a cluster; slices draw no signs."""

    def new(mask: tuple[bool, ...]) -> PairedClusters:
        return PairedClusters(layout.n_values // len(SIDES), replicates=replicates if sum(mask) == 1 else 0, seed=seed)

    return partial(ClusterMerger, layout, new)


def paired_batches(
    baseline: str,
    n_metrics: int,
    replicates: int,
    seed: int,
    n_attributes: int = 0,
    tables: tuple[str, ...] = (),
    layout: ClusterLayout | None = None,
    judges: TwoJudges | None = None,
) -> Run:
    """A function for ``mapInArrow``: every model against the baseline; of `tables` it counts users whose rows differ.

    The states have the fields of `PairedAccumulator` and the counts for each model, of all users and of each slice. A partition without
    rows of a model has no state of it. With a layout users go on to their clusters, which get the signs. With two judges the users'
    grading weights are the last of the values, and other messages have the sums of both judges.
    """
    attributes = [slice_field(index) for index in range(n_attributes)]
    drawn = replicates if layout is None else 0

    @sends_messages
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[Message]:
        everyone = _Pairs(baseline, n_metrics, drawn, seed)
        clusters = None if layout is None else ClusterRows(layout)
        slices = _Slices(lambda: _Pairs(baseline, n_metrics, 0, seed))
        judged = None if judges is None else _JudgedPairs(baseline, judges)
        for batch in batches:
            users = every = read_users(batch, n_metrics if judges is None else n_metrics + 1, tables)
            if judged is not None:
                judged.add(every, batch, attributes)
                users = every._replace(values=every.values[:n_metrics])
            everyone.add(users)
            if clusters is not None:
                for model in sorted(set(users.present) - {baseline}):
                    sides = paired_sides(users.values_of(model), users.values_of(baseline))
                    grading = None if judged is None else judged.grading_weight(every, model)
                    yield from send_to_clusters(
                        clusters, batch, users, model, attributes, sides, grading_weights=grading
                    )
            if not attributes:
                continue
            for key, rows in rows_by_key([batch.column(name) for name in attributes], batch.num_rows):
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
    """The name of the sums of a side of `SIDES` in a metric, of users with a difference, by the place of its human value."""
    return json.dumps([side, model, place])


class _JudgedPairs:
    """Every model against the baseline under two judges."""

    def __init__(self, baseline: str, judges: TwoJudges) -> None:
        self._baseline, self._judges = baseline, judges
        self._sums = JudgedAccumulator()

    def grading_weight(self, users: ComparedUsers, model: str) -> Array:
        """The users' grading weights for the comparison of a model; NaN of users who are not in it.

        Whom people, or the model, graded for one of the compared models alone is not graded.
        """
        weight, own = (users.values_of(name)[-1] for name in (self._baseline, model))
        weights = np.where(own == 0, 0.0 * weight, weight + 0.0 * own)
        return np.where(users.has(model) & users.has(self._baseline), weights, np.nan)

    def add(self, users: ComparedUsers, batch: pa.RecordBatch, attributes: Sequence[str]) -> None:
        """Add the users of a batch, whose last value is their grading weight, in groups by columns of it."""
        stratum = batch.column(STRATUM) if self._judges.has_strata else None
        groups = self._sums.groups([batch.column(name) for name in attributes], batch.num_rows, stratum)
        baseline = users.values_of(self._baseline)
        for model in sorted(set(users.present) - {self._baseline}):
            there = users.has(model) & users.has(self._baseline)
            sides = np.split(paired_sides(users.values_of(model), baseline)[:, there], len(SIDES))
            graded = GradedUsers(self.grading_weight(users, model)[there], self._judges.is_weighted)
            for pair in self._judges.pairs:
                for name, values in zip(SIDES, sides, strict=True):
                    figure = side_of(name, model, pair.human)
                    self._sums.add(figure, values[pair.human], values[pair.judge], graded, groups[there])

    def messages(self) -> Iterator[Message]:
        """The sums."""
        yield from self._sums.messages()


def send_to_clusters(
    clusters: ClusterRows,
    batch: pa.RecordBatch,
    users: ComparedUsers,
    name: str,
    attributes: Sequence[str],
    values: Array,
    weights: Array | None = None,
    grading_weights: Array | None = None,
) -> Iterator[Message]:
    """Send users on to their clusters, with values (metrics × users) under the name of what these are of, and weights."""
    has_values = ~np.isnan(values).all(axis=0)
    there = np.flatnonzero(has_values if grading_weights is None else has_values | ~np.isnan(grading_weights))
    rows = pa.array(there)
    keys = [pa.repeat(pa.scalar(name), len(there)), *(batch.column(attribute).take(rows) for attribute in attributes)]
    user_weights = None if weights is None else weights[there]
    yield from clusters.add(
        batch.column(CLUSTER).take(rows), users.ids[there], keys, list(values[:, there]), user_weights,
        grading_weights=None if grading_weights is None else grading_weights[there],
        strata=batch.column(STRATUM).take(rows) if STRATUM in batch.schema.names else None,
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
                by_bucket.setdefault(bucket_of(key), {})[key] = pairs.owners()
        self._pairs, self.n_bytes = {}, 0
        for bucket, slices in by_bucket.items():
            yield comparison_message(slices, bucket)


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
        self._counts = UserCounts(baseline)
        self._met: list[_MetTogether] = []
        self.n_users = 0

    @property
    def n_bytes(self) -> int:
        """About the memory that these sums take, without those of the sign flips, which slices do not need."""
        return self._n_metrics * _PAIR * sum(len(met.models) for met in self._met)

    def add(self, users: ComparedUsers) -> None:
        """Add users."""
        self.n_users += int(np.any(users.n_rows, axis=0).sum())
        self._counts.add(users)
        met_models = {self._baseline}.union(*(met.models for met in self._met))
        if new := sorted(set(users.present) - met_models):
            self._met.append(_MetTogether(new, self._new(len(new) * self._n_metrics)))
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


class ComparisonMerger(Merger):
    """One state of those of a bucket. They are merged one by one, because all at once might not fit into memory."""

    def add(self, bucket: int | None, payloads: Iterable[bytes]) -> Iterator[Message]:
        """Take in the states of a bucket; gives their sum."""
        total = ComparisonStates({})
        for payload in payloads:
            total = ComparisonStates.merged([total, unpack(payload)])
        yield Message.of(COMPARISON, total, bucket)


def merging_comparisons(clusters: Callable[[], ClusterMerger] | None = None) -> Mergers:
    """What merges states of comparisons; if `clusters` makes what they meet in, users of a cluster meet, too."""
    mergers: Mergers = {COMPARISON: ComparisonMerger, JUDGED: JudgedMerger}
    return mergers if clusters is None else {**mergers, CLUSTER_USERS: clusters}


def name_of_pair(models: Sequence[str], first: int, second: int) -> str:
    """What differences of two of several models are sent under."""
    return json.dumps([*models, first, second])


def all_pairs_batches(
    n_metrics: int,
    replicates: int,
    seed: int,
    layout: ClusterLayout | None = None,
    tables: tuple[str, ...] = (),
) -> Run:
    """A function for ``mapInArrow``: all models as the columns of one block a user; of `tables` it counts users whose rows differ.

    The state has the models' counts, and the fields of `AllPairsAccumulator` for the set of all models that the partition met.
    When a new model is met, the sums start again: earlier users lack that model, and have no place in the blocks. For the
    same reason the driver reads only the states of the set of all models. With a layout the differences of each pair go on to the users'
    clusters, whose permutations are the same for all their users.
    """

    @sends_messages
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[Message]:
        counts = UserCounts(None)
        models: list[str] = []
        accumulator: AllPairsAccumulator | None = None
        clusters = None if layout is None else ClusterRows(layout)
        for batch in batches:
            users = read_users(batch, n_metrics, tables)
            counts.add(users)
            if not set(users.present) <= set(models):
                models = sorted({*models, *users.present})
                # Nothing raises here: the driver refuses too many models for permutations.
                drawn = replicates if len(models) <= MOST_LABELS else 0
                if len(models) > 1:
                    accumulator = AllPairsAccumulator(n_metrics, len(models), replicates=drawn, seed=seed)
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


def counting_batches(baseline: str) -> Run:
    """A function for ``mapInArrow``: the counts of every model, and of the users that it shares with the baseline."""

    @sends_messages
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[Message]:
        counts = UserCounts(baseline)
        for batch in batches:
            counts.add(read_users(batch, 0))
        yield comparison_message({None: counts.owners()})

    return run
