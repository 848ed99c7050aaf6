"""Figures of only the labels in a group of items: which groups labels are in, and a ranking for each user and group.

A user with labels in a group stands there as a user of the group. The ranks are those of the whole list, and only the group's labels
count. So no list is ranked twice, and a pair of user and group without a label costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.features.items import item_facts
from spark_rankeval.features.items.item_facts import ItemIndex, split_rows, table_in
from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.ragged import Array, IntArray, Ragged, offsets_of, starts_of_runs
from spark_rankeval.records.slices import NO_SLICE, NOT_LISTED, UNSEEN, Key
from spark_rankeval.request.options import ItemGroups
from spark_rankeval.request.task import GROUP_FACTS
from spark_rankeval.worker.reading import filled, whole_numbers

#: The columns of a batch that say which attribute of items, and which group of it, a row is about; null: all items.
ATTRIBUTE_KEY, GROUP_KEY = "item_attribute_", "item_group_"
#: The counts of rows of these tables that cannot be used, which every user repeats.
GROUP_FAULTS = ("n_invalid_items", "n_invalid_training")
#: The columns that may have the table of popularity already, for metrics.
POPULARITY_TABLES = (item_facts.POPULARITY_TABLE, item_facts.LEVELS_TABLE)
# What labels have beside their grades while they are ranked: the index of their item in the table of an attribute.
_PLACE = "place_"


# The packed table of an attribute of items.
_TABLE = "item_groups_{}"  # the packed groups of an attribute of items


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
            columns = (table_of(len(groups.columns)), *POPULARITY_TABLES)
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

    def memberships(self, index: int, items: pa.Array) -> tuple[IntArray, IntArray]:
        """The groups of some items by an attribute, by its index: which item, and its group; an entry for each membership."""
        attribute = self.attributes[index]
        return attribute.memberships(attribute.ids.indices(items))

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
        """The same columns for rows that are about all items."""
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
    ids = items[item_facts.ITEM].combine_chunks().dictionary_encode()
    named = items[item_facts.GROUP].combine_chunks().dictionary_encode("encode")
    item, group = (filled(each.indices, 0).astype(np.int64) for each in (ids, named))
    names = (*named.dictionary.to_pylist(), NOT_LISTED)
    offsets = np.append(offsets_of(np.bincount(item, minlength=len(ids.dictionary))), len(item) + 1)
    groups = Ragged(np.append(group[np.argsort(item, kind="stable")], len(names) - 1), offsets)
    n_unusable = pc.sum(others[item_facts.ROWS]).as_py() or 0
    return Attribute(ItemIndex(ids.dictionary), names, groups, n_unusable, is_listing=True)


def by_popularity(table: pa.Table, n_groups: int) -> Attribute:
    """Items in groups by how many users of the training data have them; an item that it lacks is in a group of its own."""
    items, others = split_rows(table)
    users = whole_numbers(items[item_facts.TRAINING_USERS].combine_chunks())
    # Groups without an item have no figures: a share of 0 would look as if no user were shown their items.
    nonempty, group = np.unique(popularity_groups(users, n_groups), return_inverse=True)
    names = (*(group_name(index, n_groups) for index in nonempty.tolist()), UNSEEN)
    values = np.append(group, len(nonempty))
    return Attribute(
        ItemIndex(items[item_facts.ITEM].combine_chunks()),
        names,
        Ragged(values, np.arange(len(values) + 1)),
        pc.sum(others[item_facts.TRAINING_INTERACTIONS]).as_py() or 0,
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
