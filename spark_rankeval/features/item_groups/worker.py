"""Groups of items as a feature of a task: the values of users in every group where they have a label."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from spark_rankeval.features.item_groups.group_rankings import (
    ATTRIBUTE_KEY,
    GROUP_FAULTS,
    GROUP_KEY,
    POPULARITY_TABLES,
    GroupTables,
    Pairs,
    table_of,
)
from spark_rankeval.metrics.base import Metric, metric_values
from spark_rankeval.metrics.group_rates import GroupShare
from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.ragged import Array, BoolArray, IntArray, Ragged
from spark_rankeval.ranking.recommended import Recommended
from spark_rankeval.records.slices import Key, is_of_all
from spark_rankeval.request.options import ItemGroups
from spark_rankeval.request.task import GROUP_FACTS, ScoringTask, View, is_about_labels
from spark_rankeval.statistics.description import Figures
from spark_rankeval.wire import Message
from spark_rankeval.worker.grouped_row import NO_USER
from spark_rankeval.worker.process import runs_in_worker, with_columns
from spark_rankeval.worker.reading import Side, flags
from spark_rankeval.worker.scored_features import (
    BatchFeature,
    FeatureAccumulator,
    Gathered,
    PartitionFeature,
    RankedView,
    ScoredUsers,
    ScoringFeature,
    StateContext,
    with_features,
)
from spark_rankeval.worker.states import PartitionStates
from spark_rankeval.worker.user_metrics import MODEL, count_of_model, evaluated_users, score

Batches = Iterator[pa.RecordBatch]


@dataclass
class ScoresOfPairs:
    """The values of pairs of a user and a group of an attribute of items; float64 (n_pairs,) each, as in `Scores`."""

    keys: dict[str, pa.Array]  # the columns that tell the groups apart
    user: IntArray  # int64, the user of each pair
    values: list[Array] = field(default_factory=list)
    standard_values: list[Array] = field(default_factory=list)
    normalisers: dict[int, Array] = field(default_factory=dict)

    def add(self, view: View, ranked: RankedPairs, included: BoolArray) -> None:
        """Add the metrics of a view; users who are not included have NaN."""
        is_included = included[self.user]
        for index, metric in enumerate(view.metrics, len(self.values)):
            if metric.normalises:
                self.normalisers[index] = np.where(is_included, ranked.normaliser(metric), 0.0)
        for computed, metrics in ((self.values, view.metrics), (self.standard_values, view.standards)):
            metric_values = [ranked.values(metric) for metric in metrics]
            computed.extend(
                metric_values
                if is_included.all()
                else [np.where(is_included, values, np.nan) for values in metric_values]
            )

    def where(self, keep: BoolArray) -> ScoresOfPairs:
        """These of the pairs."""
        kept = pa.array(keep)
        return ScoresOfPairs(
            {name: column.filter(kept) for name, column in self.keys.items()},
            self.user[keep],
            [values[keep] for values in self.values],
            [values[keep] for values in self.standard_values],
            {index: values[keep] for index, values in self.normalisers.items()},
        )


@dataclass
class RankedPairs:
    """What a view says of the users and groups of an attribute of items.

    If any metric is a share of a group, every user is paired with every group; else only with groups of their labels.
    """

    pairs: Pairs
    n_groups: int
    recommended: Recommended | None = None  # the items of the lists, if any metric is a share of a group
    # Which of these items are in which groups: an entry for each membership.
    memberships: tuple[IntArray, IntArray] = (np.zeros(0, np.int64), np.zeros(0, np.int64))

    def whole(self, values: Array, missing: float) -> Array:
        """Values of the pairs with a label as those of all pairs; the others have the missing value."""
        if self.recommended is None:
            return values
        every = np.full(self.recommended.n_users * self.n_groups, missing)
        every[self.pairs.user * self.n_groups + self.pairs.group] = values
        return every

    def values(self, metric: Metric) -> Array:
        """The values of a metric; NaN of metrics that look at more than labels, unless they are shares of a group."""
        if isinstance(metric, GroupShare) and self.recommended is not None:
            return metric.group_shares(self.recommended, *self.memberships, self.n_groups)
        values = (
            metric_values(metric, self.pairs.batch)
            if is_about_labels(metric)
            else np.full(len(self.pairs.user), np.nan)
        )
        return self.whole(values, np.nan)

    def normaliser(self, metric: Metric) -> Array:
        """The weights of these values."""
        none = np.zeros(len(self.pairs.user))
        return self.whole(metric.normaliser(self.pairs.batch) if is_about_labels(metric) else none, 0.0)


@dataclass
class ScoresOfGroups:
    """The values of the groups of all attributes of items, of a batch of users."""

    tables: GroupTables
    indices: Mapping[str, Array]  # of the labels as they came, as of `GroupTables.indices`
    has_shares: bool = False  # whether any metric is a share of a group
    attributes: list[ScoresOfPairs] = field(default_factory=list)

    def add(self, view: View, batch: RankingBatch, included: BoolArray, items: pa.Array) -> None:
        """Add the metrics of a view, from its rankings; `items` are those of ``batch.recommended``, if there are any.

        The labels, and so the pairs, are those of every other view.
        """
        for index, pairs in enumerate(self.tables.pairs(batch, self.indices)):
            n_groups = len(self.tables.attributes[index].names)
            user, group = pairs.user, pairs.group
            ranked = RankedPairs(pairs, n_groups)
            if self.has_shares:
                user, group = np.divmod(np.arange(batch.n_users * n_groups), n_groups)
                recommended = Recommended.none(batch.n_users) if batch.recommended is None else batch.recommended
                ranked = RankedPairs(pairs, n_groups, recommended, self.tables.memberships(index, items))
            if index == len(self.attributes):
                self.attributes.append(ScoresOfPairs(self.tables.keys(index, group), user))
            self.attributes[index].add(view, ranked, included)

    def batches(self, users: pa.RecordBatch, no_user: str) -> Iterator[tuple[pa.RecordBatch, ScoresOfPairs]]:
        """The users of each attribute's pairs with the keys of their groups, and the values of the pairs.

        Rows of null users have no pairs: their faults are counted among all items.
        """
        keys = set(self.tables.no_keys(0))
        columns = [
            name for name in users.schema.names if name not in keys and not _is_of_rows(users.schema.field(name))
        ]
        is_null_user = flags(users.column(no_user))
        for whole in self.attributes:
            scores = whole.where(~is_null_user[whole.user]) if is_null_user.any() else whole
            rows = users.select(columns).take(pa.array(scores.user))
            arrays = [*rows.columns, *scores.keys.values()]
            yield pa.RecordBatch.from_arrays(arrays, names=[*columns, *scores.keys]), scores


def _is_of_rows(column: pa.Field) -> bool:
    """Whether a column holds lists, or bytes of tables; they are read already."""
    return bool(pa.types.is_nested(column.type) or pa.types.is_binary(column.type))


# If every user has a value in every group of items, so many values are computed at once: 64 MB.
_MOST_VALUES = 1 << 23


@dataclass(frozen=True)
class FiguresOfGroups(ScoringFeature):
    """Figures of only the labels in a group of items."""

    groups: ItemGroups

    name = "groups"
    totals = faults = GROUP_FAULTS
    group_counts = GROUP_FACTS
    keys = (ATTRIBUTE_KEY, GROUP_KEY)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of items."""
        return self.groups.attributes

    def tables(self) -> tuple[str, ...]:
        """One for each attribute of items; metrics may have brought that of popularity already."""
        return (*self._own_tables, *POPULARITY_TABLES)

    @property
    def _own_tables(self) -> tuple[str, ...]:
        return tuple(table_of(index) for index in range(len(self.groups.attributes)))

    def begin(self, task: ScoringTask) -> PartitionFeature:
        """The groups for the metrics of a task."""
        return GroupsOfPartition(self.groups, self._own_tables, task)

    def figures(self, figures: Mapping[Key, Figures], gathered: Gathered) -> Mapping[Key, Figures]:
        """The figures, in which users of a slice without a value in a group are counted as undefined there."""
        return with_users_outside(figures, len(self.groups.attributes))


class GroupsOfPartition(PartitionFeature):
    """The tables that put items into groups."""

    def __init__(
        self, groups: ItemGroups, own_tables: Sequence[str], task: ScoringTask, tables: GroupTables | None = None
    ) -> None:
        self._groups, self._own_tables, self.tables = groups, own_tables, tables
        self._n_values = task.n_values
        # Users without a label in a group have such a share, too.
        self._has_shares = any(isinstance(metric, GroupShare) for metric in task.metrics)

    def receive(self, tables: Mapping[str, pa.Scalar]) -> None:
        """Read the tables."""
        if self.tables is None and tables:
            self.tables = GroupTables.read(self._groups, tables)

    def parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The users with columns that say that their rows are about all items, and without the tables.

        They are few if any metric is a share of a group of items, because every user then has a value in every group.
        """
        if self.tables is None or not batch.num_rows:
            # A batch without a row has no group, and does not bring the tables.
            return
        keys = self.tables.no_keys(batch.num_rows)
        # By selection: PyArrow 15, of Spark 3.5, drops no columns of a batch.
        users = batch.select([name for name in batch.schema.names if name not in self._own_tables])
        users = with_columns(users, keys)
        size = batch.num_rows
        if self._has_shares:
            size = max(1, _MOST_VALUES // (self.tables.n_groups * self._n_values))
        yield from (users.slice(first, size) for first in range(0, batch.num_rows, size))

    def read(self, columns: Mapping[str, pa.Array], labels: Side, excluded: Side | None) -> BatchFeature:
        """The groups of the labels of a batch."""
        if self.tables is None:
            return BatchFeature()
        return GroupsOfBatch(ScoresOfGroups(self.tables, self.tables.indices(labels.ids), self._has_shares))

    def new_accumulator(self, context: StateContext) -> FeatureAccumulator:
        """States of users in groups of items."""
        return _GroupAccumulator(self, context)


class GroupsOfBatch(BatchFeature):
    """The values of the users of a batch in groups of items."""

    def __init__(self, scores: ScoresOfGroups) -> None:
        self.scores = scores
        self.totals = scores.tables.faults

    def label_numbers(self, labels: Side) -> Mapping[str, Array]:
        """Where the labels' items stand in the tables."""
        return self.scores.indices

    def add(self, ranked: RankedView) -> RankingBatch:
        """Add the metrics of a view."""
        batch = ranked.batch
        entries = np.zeros(0, np.int64) if batch.recommended is None else batch.recommended.entry
        self.scores.add(ranked.view, batch, ranked.included, ranked.predictions.ids.take(pa.array(entries)))
        return batch

    def counts(self, labels: Ragged) -> Mapping[str, Array]:
        """How many labels are of items that the table of items lacks."""
        return {"n_unlisted_labels": self.scores.tables.n_unlisted(labels, self.scores.indices)}


def with_users_outside(figures: Mapping[Key, Figures], n_attributes: int) -> dict[Key, Figures]:
    """The figures with all users of a slice without a value in a group of items counted as undefined, labels there or not."""
    whole = {key[n_attributes:]: group for key, group in figures.items() if is_of_all(key[:n_attributes])}
    counted = {}
    for key, group in figures.items():
        all_items = whole.get(key[n_attributes:])
        if all_items is None or is_of_all(key[:n_attributes]):
            counted[key] = group
            continue
        values = []
        for each, all_item_values in zip(group.values, all_items.values, strict=True):
            n_outside = all_item_values.moments.n + all_item_values.moments.n_undefined - each.moments.n
            values.append(each._replace(moments=each.moments._replace(n_undefined=n_outside)))
        counted[key] = group._replace(values=values)
    return counted


class _GroupAccumulator:
    def __init__(self, partition: GroupsOfPartition, context: StateContext) -> None:
        self._partition, self._context = partition, context
        self._states = PartitionStates(context, has_hashes=False)

    def add(self, users: ScoredUsers, scores: BatchFeature) -> Iterator[Message]:
        """Take in the pairs of users and groups of items; they have values, and counts are the users'."""
        if not isinstance(scores, GroupsOfBatch):
            return
        for rows, values in scores.scores.batches(users.batch, self._context.no_user):
            weights = None if users.weights is None else users.weights[values.user]
            pair_values = [*values.values, *values.standard_values]
            yield from self._states.add(rows, pair_values, {}, values.normalisers, weights)

    def messages(self) -> Iterator[Message]:
        tables = self._partition.tables
        if tables is None:
            return
        n_attributes = len(self._context.keys) - len(FiguresOfGroups.keys)
        yield from self._states.add_counts(tables.group_facts(n_attributes))
        yield from self._states.messages()


def score_pairs(
    task: ScoringTask, user_columns: tuple[str, ...], names: tuple[str, ...]
) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow``: the metrics of every user and group of items, a row for each model.

    The columns come in this order: those passed on unchanged, the attribute of items, the group, the model's name, the metrics. If a
    count is the users' weight, it follows the first of these. A metric that has no values of groups is NaN.
    """

    @runs_in_worker
    def run(batches: Batches) -> Batches:
        for whole, received in with_features(task, batches):
            batch = evaluated_users(whole, whole)
            scores = score(task, batch, received)
            is_null_user = flags(batch.column(NO_USER))
            columns = {name: batch.column(name) for name in user_columns}
            if task.weight_count:
                # Models do not differ in it.
                columns[task.weight_count] = pa.array(scores.counts[count_of_model(task.weight_count, 0)])
            user_rows = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
            group_scores = (feature.scores for feature in scores.features if isinstance(feature, GroupsOfBatch))
            for attribute_scores in (each for groups in group_scores for each in groups.attributes):
                pairs = attribute_scores.where(~is_null_user[attribute_scores.user])
                users = user_rows.take(pa.array(pairs.user))
                keys = [pairs.keys[name].dictionary_decode() for name in (ATTRIBUTE_KEY, GROUP_KEY)]
                for model, name in enumerate(task.models):
                    values = pairs.values[model * len(names) : (model + 1) * len(names)]
                    models = pa.repeat(pa.scalar(name), users.num_rows)
                    arrays = [*users.columns, *keys, models, *(pa.array(np.asarray(each)) for each in values)]
                    kept = [*users.schema.names, ATTRIBUTE_KEY, GROUP_KEY, MODEL, *names]
                    yield pa.RecordBatch.from_arrays(arrays, names=kept)

    return run
