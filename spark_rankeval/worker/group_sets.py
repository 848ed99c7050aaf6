"""The groups of items as a packed table: given to every task, and looked up by the ids of predicted and labelled items."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from spark_rankeval.ranking.grouped_items import GroupSets
from spark_rankeval.ranking.ragged import Ragged
from spark_rankeval.worker.facts import ITEM
from spark_rankeval.worker.packed import received, unpacked
from spark_rankeval.worker.reading import filled, places_among

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_rankeval.ranking.ragged import IntArray

    Batches = Iterator[pa.RecordBatch]

#: The column of grouped users that has the packed table in the first row of a task; and a column of that table.
GROUPS_TABLE, GROUP = "groups_table", "group"


class ItemGroupSets(NamedTuple):
    """The set of groups of each item."""

    ids: pa.Array
    sets: IntArray  # the place of each item's set, and behind these that of an unknown item
    groups: GroupSets

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
        pairs = np.unique(item[code >= 0] * (len(in_order) + 1) + code[code >= 0])
        item, code = pairs // (len(in_order) + 1), pairs % (len(in_order) + 1)
        size = np.bincount(item, minlength=n_items)
        # The empty set comes first, then each group alone; sets of several are few.
        members: list[list[int]] = [[], *([group] for group in range(len(in_order)))]
        sets = np.zeros(n_items + 1, np.int64)
        alone = size[item] == 1
        sets[item[alone]] = 1 + code[alone]
        places: dict[tuple[int, ...], int] = {}
        several = np.flatnonzero(size > 1)
        first = np.cumsum(size) - size
        for which in several.tolist():
            groups = tuple(code[first[which] : first[which] + size[which]].tolist())
            if groups not in places:
                places[groups] = len(members)
                members.append(list(groups))
            sets[which] = places[groups]
        counts = np.bincount(sets[:n_items], minlength=len(members))
        return cls(encoded.dictionary, sets, GroupSets(tuple(in_order), Ragged.from_lists(members, np.int64), counts))

    def of(self, ids: pa.Array) -> IntArray:
        """The place of each item's set; int64."""
        if not len(self.ids):
            return np.zeros(len(ids), np.int64)
        sets: IntArray = self.sets[places_among(ids, self.ids, unknown=len(self.ids))]
        return sets


def with_group_sets(batches: Batches) -> Iterator[tuple[pa.RecordBatch, ItemGroupSets | None]]:
    """The batches of a task, each with the groups of items that the task received; None if it received none."""
    groups: ItemGroupSets | None = None
    for batch, packed in received(batches, (GROUPS_TABLE,)):
        if groups is None and packed:
            groups = ItemGroupSets.read(packed[GROUPS_TABLE])
        yield batch, groups
