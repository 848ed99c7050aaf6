"""The groups of items as packed tables: given to every task, and looked up by the ids of predicted, labelled and consumed items."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from spark_rankeval.ranking.grouped_items import GROUP_SET, LEVEL, GroupSets, PopularityLevels
from spark_rankeval.ranking.ragged import Ragged, starts_of_runs
from spark_rankeval.worker.facts import ITEM, TRAINING_USERS
from spark_rankeval.worker.item_tables import POPULARITY_TABLE, shares_above
from spark_rankeval.worker.known_items import KnownItems
from spark_rankeval.worker.packed import received, unpacked
from spark_rankeval.worker.reading import filled, whole_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spark_rankeval.ranking.ragged import Array, IntArray
    from spark_rankeval.ranking.recommended import Fact

    Batches = Iterator[pa.RecordBatch]

#: The columns of grouped users that have a packed table in the first row of a task; and a column of the table of groups.
GROUPS_TABLE, LEVELS_TABLE, GROUP = "groups_table", "levels_table", "group"


class ItemSets(Protocol):
    """The set that each item is in, by its place among all sets."""

    def of(self, ids: pa.Array) -> IntArray:
        """The place of each item's set; int64."""

    @property
    def sets(self) -> GroupSets | PopularityLevels:
        """The sets, or what makes sets of them."""


class Told(NamedTuple):
    """Under which names `Recommended` and labels have sets, and which fact asks for those of histories."""

    of_item: str
    sets: str
    of_history: Fact


#: What metrics are told of the sets of each packed table.
TOLD: dict[str, Told] = {
    GROUPS_TABLE: Told(GROUP_SET, "groups", "history_groups"),
    LEVELS_TABLE: Told(LEVEL, "levels", "history_levels"),
}


class ItemGroupSets(NamedTuple):
    """The set of groups of each item."""

    ids: KnownItems
    places: IntArray  # the place of each item's set, and behind these that of an unknown item
    sets: GroupSets

    @classmethod
    def read(cls, packed: pa.Scalar) -> ItemGroupSets:
        """From the first row of a task, a row an item and group; a null group is none. Null stands for a table without a row."""
        table = unpacked(packed) if packed.is_valid else None
        if table is None:
            return cls.of_pairs(pa.nulls(0), pa.nulls(0, pa.string()))
        ids, names = (table[name].combine_chunks() for name in (ITEM, GROUP))
        known = ids.is_valid()
        return cls.of_pairs(ids.filter(known), names.filter(known))

    @classmethod
    def of_pairs(cls, items: pa.Array, names: pa.Array) -> ItemGroupSets:
        """From the groups of items, in any order."""
        encoded = items.dictionary_encode()
        item, n_items = filled(encoded.indices, 0).astype(np.int64), len(encoded.dictionary)
        of_groups = names.dictionary_encode()
        # By their bytes: sums over groups then have one order.
        in_order = sorted(of_groups.dictionary.to_pylist(), key=str.encode)
        place = {name: code for code, name in enumerate(in_order)}
        codes = np.array([place[name] for name in of_groups.dictionary.to_pylist()] + [-1], np.int64)
        code = codes[filled(of_groups.indices, len(codes) - 1).astype(np.int64)]
        pairs = np.sort(item[code >= 0] * (len(in_order) + 1) + code[code >= 0])
        item, code = np.divmod(pairs[starts_of_runs(pairs)], len(in_order) + 1)
        size = np.bincount(item, minlength=n_items)
        # The empty set comes first, then each group alone, then sets of two, and so on.
        members: list[list[int]] = [[], *([group] for group in range(len(in_order)))]
        sets = np.zeros(n_items + 1, np.int64)
        alone = size[item] == 1
        sets[item[alone]] = 1 + code[alone]
        first = np.cumsum(size) - size
        for n_groups in np.unique(size[size > 1]).tolist():
            which = np.flatnonzero(size == n_groups)
            different, set_of = _different_rows(code[first[which][:, None] + np.arange(n_groups)])
            sets[which] = len(members) + set_of
            members += different.tolist()
        counts = np.bincount(sets[:n_items], minlength=len(members))
        together = GroupSets(tuple(in_order), Ragged.from_lists(members, np.int64), counts)
        return cls(KnownItems(encoded.dictionary), sets, together)

    def of(self, ids: pa.Array) -> IntArray:
        """The place of each item's set; int64."""
        of_items: IntArray = self.places[self.ids.places(ids)]
        return of_items


class ItemLevels(NamedTuple):
    """The level of popularity of each item."""

    ids: KnownItems
    places: IntArray  # as above
    sets: PopularityLevels

    @classmethod
    def read(cls, packed: pa.Scalar) -> ItemLevels:
        """From the first row of a task, a row an item and its number of users. Null stands for training data without a row."""
        table = unpacked(packed) if packed.is_valid else None
        if table is None:
            return cls.of_counts(pa.nulls(0), np.empty(0, np.int64))
        # The row of a null item counts users.
        table = table.filter(table[ITEM].is_valid())
        ids, counts = (table[name].combine_chunks() for name in (ITEM, TRAINING_USERS))
        return cls.of_counts(ids, whole_numbers(counts))

    @classmethod
    def of_counts(cls, ids: pa.Array, n_users: IntArray) -> ItemLevels:
        """From how many users have each item, at least one."""
        different, place, n_items = np.unique(n_users, return_inverse=True, return_counts=True)
        pairs, items = (np.append(1.0, shares) for shares in shares_above(different, n_items))
        levels = PopularityLevels(pairs, items, np.append(0, n_items))
        return cls(KnownItems(ids), np.append(1 + place, 0).astype(np.int64), levels)

    def of(self, ids: pa.Array) -> IntArray:
        """The place of each item's level; int64."""
        of_items: IntArray = self.places[self.ids.places(ids)]
        return of_items


def _different_rows(rows: Array) -> tuple[Array, IntArray]:
    """The different rows of a table of numbers from 0 in their order, and which of them each row is."""
    which = np.zeros(len(rows), np.int64)
    for column in rows.T:
        # Few rows differ, so that the numbers stay small.
        first, which = np.unique(which * (int(rows.max()) + 1) + column, return_index=True, return_inverse=True)[1:]
    return rows[first], which


_READ: dict[str, Callable[[pa.Scalar], ItemSets]] = {GROUPS_TABLE: ItemGroupSets.read, LEVELS_TABLE: ItemLevels.read}


def with_item_sets(facts: frozenset[Fact], batches: Batches) -> Iterator[tuple[pa.RecordBatch, dict[str, ItemSets]]]:
    """The batches of a task, each with the sets of items that the task received, by the name of the table.

    If the task received its table of popularity already, the levels are those of that table.
    """
    sets: dict[str, ItemSets] = {}
    for batch, packed in received(batches, (*_READ, POPULARITY_TABLE)):
        if not sets:
            cells = {name: cell for name, cell in packed.items() if name in _READ}
            if "levels" in facts and POPULARITY_TABLE in packed:
                cells.setdefault(LEVELS_TABLE, packed[POPULARITY_TABLE])
            sets = {name: _READ[name](cell) for name, cell in cells.items()}
        yield batch, sets
