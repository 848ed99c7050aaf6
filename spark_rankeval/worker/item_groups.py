"""Figures of only the labels in a group of items: which groups labels are in, and a ranking for each user and group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.metrics.base import Metric, metric_values
from spark_rankeval.metrics.item_groups import GroupShare
from spark_rankeval.ranking.batch import RankingBatch, Recommended
from spark_rankeval.ranking.user_lists import Array, BoolArray, IntArray, Ragged, offsets_of, starts_of_runs
from spark_rankeval.records.summary import NO_SLICE, NOT_LISTED, UNSEEN, Key, is_of_all
from spark_rankeval.request.call import ItemGroups
from spark_rankeval.request.task import GROUP_FACTS, ScoringTask, View, is_about_labels
from spark_rankeval.statistics.description import Figures
from spark_rankeval.worker import features, process
from spark_rankeval.worker.features import ItemIndex, split_rows, table_in
from spark_rankeval.worker.process import Batches, Message
from spark_rankeval.worker.reading import NO_USER, Side, filled, flags, whole_numbers
from spark_rankeval.worker.scoring import MODEL, count_of_model, evaluated_users, score
from spark_rankeval.worker.states import PartitionStates

#: The columns of a batch that say which attribute of items, and which group of it, a row is about; null: all items.
ATTRIBUTE_KEY, GROUP_KEY = "item_attribute_", "item_group_"
#: The counts of rows of these tables that cannot be used, which every user repeats.
GROUP_FAULTS = ("n_invalid_items", "n_invalid_training")
# What labels have beside their grades while they are ranked: the index of their item in the table of an attribute.
_PLACE = "place_"


# The packed table of an attribute of items.
_TABLE = "item_groups_{}"


def table_of(attribute: int) -> str:
    """The column of grouped users with the packed table of an attribute of items, by its index among `ItemGroups.attributes`."""
    return _TABLE.format(attribute)


@dataclass(frozen=True)
class Attribute:
    """An attribute of items: the groups that each item is in.

    Attributes:
        ids: the items.
        names: the groups, in any order.
        groups: int64, the groups of each item as indices in `names`; behind the items stands what the table lacks.
        n_unusable: how many rows of the table have no item.
        is_listing: whether an item that the table lacks is worth counting: it should be there.
        popularity: int64, how many users of the training data have each item; None of groups that have nothing to do with it.
    """

    ids: ItemIndex
    names: tuple[str | None, ...]
    groups: Ragged
    n_unusable: int
    is_listing: bool
    popularity: IntArray | None = None

    @cached_property
    def facts(self) -> dict[str, IntArray]:
        """The size and the edges of each group, in the order of `names`: `GROUP_FACTS`, int64."""
        n_groups, groups = len(self.names), self.groups.values[:-1]
        least, most = np.zeros(n_groups, np.int64), np.zeros(n_groups, np.int64)
        if self.popularity is not None and len(groups):
            least[:] = self.popularity.max()
            np.minimum.at(least, groups, self.popularity)
            np.maximum.at(most, groups, self.popularity)
        n_items = np.bincount(groups, minlength=n_groups)
        return dict(zip(GROUP_FACTS, (n_items, np.minimum(least, most), most), strict=True))

    @cached_property
    def _has_one_group_an_item(self) -> bool:
        return bool((self.groups.lengths == 1).all())

    def memberships(self, indices: IntArray) -> tuple[IntArray, IntArray]:
        """The groups of some items: which of the indices, int64, and the group there; an entry for each membership."""
        if self._has_one_group_an_item:
            return np.arange(len(indices)), self.groups.values[indices]
        item_groups = self.groups.take(indices)
        return item_groups.user, item_groups.values


class GroupTables(NamedTuple):
    """The attributes of items that a task received."""

    attributes: tuple[Attribute, ...]
    labels: Sequence[str]  # their names in keys

    @classmethod
    def read(cls, groups: ItemGroups, packed: Mapping[str, pa.Scalar]) -> GroupTables:
        """From the first row of a task."""
        attributes = [by_column(table_in(packed[table_of(index)])) for index in range(len(groups.columns))]
        if groups.popularity:
            # Metrics may have brought the table already.
            columns = (table_of(len(groups.columns)), features.POPULARITY_TABLE)
            cell = next(packed[column] for column in columns if column in packed)
            attributes.append(by_popularity(table_in(cell), groups.popularity))
        return cls(tuple(attributes), groups.attributes)

    @property
    def n_groups(self) -> int:
        """The number of groups of all attributes."""
        return sum(len(attribute.names) for attribute in self.attributes)

    @property
    def faults(self) -> dict[str, int]:
        """How many rows of the tables that there are cannot be used, by the names of `GROUP_FAULTS`; metrics may read the others."""
        faults: dict[str, int] = {}
        for attribute in self.attributes:
            name = "n_invalid_items" if attribute.is_listing else "n_invalid_training"
            faults[name] = max(faults.get(name, 0), attribute.n_unusable)
        return faults

    def indices(self, items: pa.Array) -> dict[str, Array]:
        """The indices of labelled items in each table, to travel with the labels as float64."""
        return {
            f"{_PLACE}{index}": attribute.ids.indices(items).astype(np.float64)
            for index, attribute in enumerate(self.attributes)
        }

    def n_unlisted(self, labels: Ragged, indices: Mapping[str, Array]) -> IntArray:
        """How many labels of each user are of items that the table of items lacks; int64 (n_users,)."""
        for index, attribute in enumerate(self.attributes):
            if attribute.is_listing:
                unlisted = indices[f"{_PLACE}{index}"] == len(attribute.ids)
                return np.bincount(labels.user[unlisted], minlength=labels.n_users)
        return np.zeros(labels.n_users, np.int64)

    def pairs(self, batch: RankingBatch, raw_indices: Mapping[str, Array]) -> Iterator[Pairs]:
        """The users of the groups of each attribute; `raw_indices`: the indices of labels as they came, as of `indices`."""
        for index, attribute in enumerate(self.attributes):
            yield pairs_of(batch, attribute, f"{_PLACE}{index}", raw_indices[f"{_PLACE}{index}"])

    def group_facts(self, n_attributes: int) -> Iterator[tuple[Key, dict[str, IntArray]]]:
        """Each group that has items, with its size and edges, by a key of no slice of users, who have so many attributes."""
        for label, attribute in zip(self.labels, self.attributes, strict=True):
            for index in np.flatnonzero(attribute.facts[GROUP_FACTS[0]]).tolist():
                facts = {name: values[index : index + 1] for name, values in attribute.facts.items()}
                yield (*[NO_SLICE] * n_attributes, label, attribute.names[index]), facts

    def keys(self, index: int, groups: IntArray) -> dict[str, pa.Array]:
        """The columns that tell the groups of an attribute, by its index, apart from each other and from all items."""
        first = 1 + sum(len(attribute.names) for attribute in self.attributes[:index])
        return self._keys(np.full(len(groups), index + 1), groups + first)

    def no_keys(self, n_rows: int) -> dict[str, pa.Array]:
        """These columns for rows that are about all items."""
        return self._keys(np.zeros(n_rows, np.int64), np.zeros(n_rows, np.int64))

    def _keys(self, attributes: IntArray, groups: IntArray) -> dict[str, pa.Array]:
        # All batches share the dictionaries, so that they can be put together; a null is an entry of them.
        names = [name for attribute in self.attributes for name in attribute.names]
        columns = {ATTRIBUTE_KEY: (attributes, [None, *self.labels]), GROUP_KEY: (groups, [None, *names])}
        return {
            column: pa.DictionaryArray.from_arrays(codes.astype(np.int32), pa.array(values, pa.string()))
            for column, (codes, values) in columns.items()
        }


class Pairs(NamedTuple):
    """The pairs of a user and a group of items in which the user has a label, by user and then by group.

    Attributes:
        user: int64, the user of each pair.
        group: int64, the group, by its index among those of the attribute.
        batch: the rankings of the pairs as if each were a user.
    """

    user: IntArray
    group: IntArray
    batch: RankingBatch


def pairs_of(batch: RankingBatch, attribute: Attribute, name: str, raw_indices: Array) -> Pairs:
    """The users of the groups of an attribute; the indices of labels' items stand beside labels under a name."""
    n_groups = len(attribute.names)
    label, key = _memberships(attribute, batch.label_extra_values[name].values, batch.labels.user, n_groups)
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    first = np.flatnonzero(starts_of_runs(ordered))
    pair_key, offsets = ordered[first], np.append(first, len(ordered))
    # Labelled predictions come by user and then by rank: a stable order keeps their ranks in order.
    prediction, key_of_prediction = _memberships(attribute, batch.extra_values[name], batch.user, n_groups)
    index = np.searchsorted(pair_key, key_of_prediction)
    by_pair = np.argsort(index, kind="stable")
    prediction = prediction[by_pair]
    user, group = np.divmod(pair_key, n_groups)
    pair_label = label[order]
    raw_labels = batch.raw_labels
    flat = {each: getattr(batch, each)[prediction] for each in ("rank", "grade", "score", "tied_above", "tied")}
    pair_batch: Any = replace(
        batch,
        n_users=len(pair_key),
        n_predictions=batch.n_predictions[user],
        user=index[by_pair],
        labels=Ragged(batch.labels.values[pair_label], offsets),
        raw_labels=None if raw_labels is None else _raw_labels_of(raw_labels, attribute, raw_indices, pair_key),
        recommended=None,
        label=None if batch.label is None else batch.label[prediction],
        extra_values={each: values[prediction] for each, values in batch.extra_values.items()},
        label_extra_values={
            each: Ragged(values.values[pair_label], offsets) for each, values in batch.label_extra_values.items()
        },
        **flat,
    )
    return Pairs(user, group, pair_batch)


def _memberships(attribute: Attribute, indices: Array, user: IntArray, n_groups: int) -> tuple[IntArray, IntArray]:
    """Which of some labels are in a group, and the number of the pair of user and group; an entry for each membership."""
    which, group = attribute.memberships(indices.astype(np.int64))
    return which, user[which] * n_groups + group


def _raw_labels_of(raw_labels: Ragged, attribute: Attribute, indices: Array, pair_key: IntArray) -> Ragged:
    """The raw label lists of pairs, in their order."""
    which, key = _memberships(attribute, indices, raw_labels.user, len(attribute.names))
    order = np.argsort(key, kind="stable")
    lengths = np.bincount(np.searchsorted(pair_key, key), minlength=len(pair_key))
    return Ragged(raw_labels.values[which[order]], offsets_of(lengths))


def by_column(table: pa.Table) -> Attribute:
    """An attribute from rows of items and groups; an item that the table lacks is in a group of its own."""
    items, others = split_rows(table)
    ids = items[features.ITEM].combine_chunks().dictionary_encode()
    named = items[features.GROUP].combine_chunks().dictionary_encode("encode")
    item, group = (filled(each.indices, 0).astype(np.int64) for each in (ids, named))
    names = (*named.dictionary.to_pylist(), NOT_LISTED)
    offsets = np.append(offsets_of(np.bincount(item, minlength=len(ids.dictionary))), len(item) + 1)
    groups = Ragged(np.append(group[np.argsort(item, kind="stable")], len(names) - 1), offsets)
    n_unusable = pc.sum(others[features.ROWS]).as_py() or 0
    return Attribute(ItemIndex(ids.dictionary), names, groups, n_unusable, is_listing=True)


def by_popularity(table: pa.Table, n_groups: int) -> Attribute:
    """Items in groups by how many users of the training data have them; an item that it lacks is in a group of its own."""
    items, others = split_rows(table)
    users = whole_numbers(items[features.TRAINING_USERS].combine_chunks())
    # Groups without an item have no figures: a share of 0 would look as if no user were shown their items.
    nonempty, group = np.unique(popularity_groups(users, n_groups), return_inverse=True)
    names = (*(group_name(index, n_groups) for index in nonempty.tolist()), UNSEEN)
    values = np.append(group, len(nonempty))
    return Attribute(
        ItemIndex(items[features.ITEM].combine_chunks()),
        names,
        Ragged(values, np.arange(len(values) + 1)),
        pc.sum(others[features.TRAINING_INTERACTIONS]).as_py() or 0,
        is_listing=False,
        popularity=users,
    )


def popularity_groups(users: IntArray, n_groups: int) -> IntArray:
    """The group of each item, from 0 for the least popular: ⌊n · less ÷ N⌋, with `less` the items that fewer users have, of N.

    Items that as many users have are in the same group, so some groups may be empty.

    >>> popularity_groups(np.array([1, 1, 1, 5, 9, 7]), 3).tolist()
    [0, 0, 0, 1, 2, 2]
    """
    less = np.searchsorted(np.sort(users), users, side="left")
    return less * n_groups // max(len(users), 1)


def group_name(index: int, n_groups: int) -> str:
    """What a group by popularity is called, from 0 for the least popular: texts that sort as their numbers do.

    >>> group_name(0, 10), group_name(9, 10), group_name(4, 5)
    ('01', '10', '5')
    """
    return str(index + 1).zfill(len(str(n_groups)))


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
            if not is_included.all():
                metric_values = [np.where(is_included, values, np.nan) for values in metric_values]
            computed.extend(metric_values)

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
        values: Array = np.full(len(self.pairs.user), np.nan)
        if is_about_labels(metric):
            values = metric_values(metric, self.pairs.batch)
        return self.whole(values, np.nan)

    def normaliser(self, metric: Metric) -> Array:
        """The weights of these values."""
        none = np.zeros(len(self.pairs.user))
        return self.whole(metric.normaliser(self.pairs.batch) if is_about_labels(metric) else none, 0.0)


class GroupsOfBatch(process.BatchFeature):
    """The values of the users of a batch in the groups of all attributes of items."""

    def __init__(self, tables: GroupTables, labels: Side, *, has_shares: bool) -> None:
        self.tables, self._has_shares = tables, has_shares
        self._indices = tables.indices(labels.ids)
        self.totals = tables.faults
        self.attributes: list[ScoresOfPairs] = []

    def label_numbers(self, labels: Side) -> Mapping[str, Array]:
        """Where the labels' items stand in the tables."""
        return self._indices

    def counts(self, labels: Ragged) -> Mapping[str, Array]:
        """How many labels are of items that the table of items lacks."""
        return {"n_unlisted_labels": self.tables.n_unlisted(labels, self._indices)}

    def add(self, ranked: process.RankedView) -> RankingBatch:
        """Add the metrics of a view. Its labels, and so the pairs, are those of every other view."""
        batch, tables = ranked.batch, self.tables
        recommended = Recommended.none(batch.n_users) if batch.recommended is None else batch.recommended
        items = ranked.predictions.ids.take(pa.array(recommended.entry))
        for index, pairs in enumerate(tables.pairs(batch, self._indices)):
            attribute = tables.attributes[index]
            n_groups = len(attribute.names)
            user, group = pairs.user, pairs.group
            ranked_pairs = RankedPairs(pairs, n_groups)
            if self._has_shares:
                user, group = np.divmod(np.arange(batch.n_users * n_groups), n_groups)
                memberships = attribute.memberships(attribute.ids.indices(items))
                ranked_pairs = RankedPairs(pairs, n_groups, recommended, memberships)
            if index == len(self.attributes):
                self.attributes.append(ScoresOfPairs(tables.keys(index, group), user))
            self.attributes[index].add(ranked.view, ranked_pairs, ranked.included)
        return batch

    def batches(self, users: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, ScoresOfPairs]]:
        """The users of each attribute's pairs with the keys of their groups, and the values of the pairs.

        Rows of null users have no pairs: their faults are counted among all items.
        """
        # Lists and bytes of tables are read already.
        columns = [
            column.name
            for column in users.schema
            if column.name not in FiguresOfGroups.keys
            and not (pa.types.is_nested(column.type) or pa.types.is_binary(column.type))
        ]
        is_null_user = flags(users.column(NO_USER))
        for whole in self.attributes:
            scores = whole.where(~is_null_user[whole.user]) if is_null_user.any() else whole
            rows = users.select(columns).take(pa.array(scores.user))
            arrays = [*rows.columns, *scores.keys.values()]
            yield pa.RecordBatch.from_arrays(arrays, names=[*columns, *scores.keys]), scores


# If every user has a value in every group of items, so many values are computed at once: 64 MB.
_MOST_VALUES = 1 << 23


@dataclass(frozen=True)
class FiguresOfGroups(process.ScoringFeature):
    """Figures of only the labels in a group of items."""

    groups: ItemGroups
    received: GroupTables = GroupTables((), ())  # the tables, once a task has them

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
        return (*self._own_tables, features.POPULARITY_TABLE)

    @property
    def _own_tables(self) -> tuple[str, ...]:
        return tuple(table_of(index) for index in range(len(self.groups.attributes)))

    def with_tables(self, task: ScoringTask, tables: Mapping[str, pa.Scalar]) -> FiguresOfGroups:
        """The feature with the tables that put items into groups."""
        return replace(self, received=GroupTables.read(self.groups, tables))

    def parts(self, task: ScoringTask, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The users with columns that say that their rows are about all items, and without the tables.

        They are few if any metric is a share of a group of items, because every user then has a value in every group.
        """
        keys = self.received.no_keys(batch.num_rows)
        # By selection: PyArrow 15, of Spark 3.5, drops no columns of a batch.
        users = batch.select([name for name in batch.schema.names if name not in self._own_tables])
        users = process.with_columns(users, keys)
        size = batch.num_rows
        if _has_shares(task):
            size = max(1, _MOST_VALUES // (self.received.n_groups * task.n_values))
        yield from (users.slice(first, size) for first in range(0, batch.num_rows, size))

    def read(self, task: ScoringTask, columns: dict[str, pa.Array], labels: Side) -> process.BatchFeature:
        """The groups of the labels of a batch."""
        return GroupsOfBatch(self.received, labels, has_shares=_has_shares(task))

    def new_accumulator(self, task: ScoringTask, context: process.StateContext) -> process.FeatureAccumulator:
        """States of users in groups of items."""
        return _GroupAccumulator(context)

    def figures(self, figures: Mapping[Key, Figures], gathered: process.Gathered) -> Mapping[Key, Figures]:
        """The figures, in which users of a slice without a value in a group are counted as undefined there."""
        return with_users_outside(figures, len(self.groups.attributes))


def _has_shares(task: ScoringTask) -> bool:
    """Whether any metric is a share of a group, which users without a label there have, too."""
    return any(isinstance(metric, GroupShare) for metric in task.metrics)


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


class _GroupAccumulator(process.FeatureAccumulator):
    """The states of users in groups of items."""

    def __init__(self, context: process.StateContext) -> None:
        self._n_attributes = len(context.keys) - len(FiguresOfGroups.keys)
        self._states = PartitionStates(context, has_hashes=False)
        self._tables = GroupTables((), ())

    def add(self, users: process.ScoredUsers, scores: process.BatchFeature) -> Iterator[Message]:
        """Take in the pairs of users and groups of items; they have values, and counts are the users'."""
        assert isinstance(scores, GroupsOfBatch), "the feature of the same task"
        self._tables = scores.tables
        for rows, values in scores.batches(users.batch):
            weights = None if users.weights is None else users.weights[values.user]
            pair_values = [*values.values, *values.standard_values]
            yield from self._states.add(rows, pair_values, {}, values.normalisers, weights)

    def messages(self) -> Iterator[Message]:
        """The states, and the facts of the groups."""
        yield from self._states.add_counts(self._tables.group_facts(self._n_attributes))
        yield from self._states.messages()


def score_pairs(task: ScoringTask, user_columns: tuple[str, ...], names: tuple[str, ...]) -> process.Run:
    """A function for ``mapInArrow``: the metrics of every user and group of items, a row for each model.

    The columns come in this order: those passed on unchanged, the attribute of items, the group, the model's name, the metrics. If a
    count is the users' weight, it follows the first of these. A metric that has no values of groups is NaN.
    """

    @process.runs_in_worker
    def run(batches: Batches) -> Batches:
        for whole, received in process.with_features(task, batches):
            batch = evaluated_users(whole, whole)
            scores = score(task, batch, received)
            is_null_user = flags(batch.column(NO_USER))
            columns = {name: batch.column(name) for name in user_columns}
            if task.weight_count:
                # Models do not differ in it.
                columns[task.weight_count] = pa.array(scores.counts[count_of_model(task.weight_count, 0)])
            user_rows = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
            (groups,) = (feature for feature in scores.features if isinstance(feature, GroupsOfBatch))
            for attribute_scores in groups.attributes:
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
