"""The groups that items are in, such as providers or the long tail: any number each, told by sets of groups as codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spark_rankeval.ranking.ragged import Ragged, offsets_of

if TYPE_CHECKING:
    from spark_rankeval.ranking.ragged import FloatArray, IntArray

#: What labels have beside their grades if a metric asks for groups: the place of the item's set of groups.
GROUP_SET = "group_set"
#: The same if a metric asks for the short head and the long tail: the place of the item's level of popularity.
LEVEL = "level"
#: The groups that popularity makes.
HEAD, TAIL = "head", "tail"
#: The group of items without one, if they are a group of their own. No text: a column may hold any.
WITHOUT_GROUP = None


@dataclass(frozen=True, eq=False)
class GroupSets:
    """The different sets of groups that items are in. The first one is empty: that of items without a group.

    Attributes:
        names: each group's name.
        members: the codes of each set's groups.
        n_items: int64, how many items of the table are in each set.
    """

    names: tuple[str, ...]
    members: Ragged
    n_items: IntArray

    @property
    def n_groups(self) -> int:
        """How many groups there are, those without one included: these have the last code."""
        return len(self.names) + 1

    def spread(self, sets: IntArray, *, apart: bool) -> tuple[IntArray, IntArray, FloatArray]:
        """The groups of some items by their sets: the place of the item, the group's code, and the part of the item, 1 ÷ its groups.

        Items without a group are left out, or are in the last group if they are to stand `apart`.
        """
        of_each = self.members.take(sets)
        item, group, size = of_each.user, of_each.values, of_each.lengths
        part = 1 / size[item]
        if apart and (size == 0).any():
            lost = np.flatnonzero(size == 0)
            item, group = np.concatenate([item, lost]), np.concatenate([group, np.full(len(lost), self.n_groups - 1)])
            part = np.concatenate([part, np.ones(len(lost))])
            order = np.argsort(item, kind="stable")
            item, group, part = item[order], group[order], part[order]
        return item, group, part

    def memberships(self, sets: IntArray) -> tuple[IntArray, IntArray]:
        """The groups of some items by their sets: the place of the item, and the group's code."""
        item, group, _ = self.spread(sets, apart=False)
        return item, group

    def sizes(self) -> FloatArray:
        """How many of the table's items are in each group, an item of several in each of them; float64 (n_groups,)."""
        sets, group = self.memberships(np.arange(len(self.n_items)))
        return np.bincount(group, self.n_items[sets], self.n_groups).astype(np.float64, copy=False)

    def population(self, *, apart: bool) -> FloatArray:
        """The share of the table's items that each group has; float64 (n_groups,). All are 0 if no item has a group."""
        sets, group, _ = self.spread(np.arange(len(self.n_items)), apart=apart)
        counts = np.zeros(self.n_groups)
        size = np.maximum(self.members.lengths[sets], 1)
        # Items that share alike are counted, which is exact: no sum depends on the order of the sets.
        for n_shares in np.unique(size).tolist():
            alike = size == n_shares
            counts += np.bincount(group[alike], self.n_items[sets[alike]], self.n_groups) / n_shares
        shares: FloatArray = counts / max(float(counts.sum()), 1.0)
        return shares

    def equal(self, *, apart: bool) -> FloatArray:
        """The same share for every group that has an item; float64 (n_groups,)."""
        has_items = (self.population(apart=apart) > 0).astype(np.float64)
        shares: FloatArray = has_items / max(float(has_items.sum()), 1.0)
        return shares


@dataclass(frozen=True, eq=False)
class PopularityLevels:
    """The different numbers of users that items of the training data have. The first level is that of all other items.

    Attributes:
        share_above: float64, which share of all pairs of a user and an item in the training data is of more popular items.
        items_above: float64, which share of the training data's items is more popular.
        n_items: int64, how many items of the training data are in each level.
    """

    share_above: FloatArray
    items_above: FloatArray
    n_items: IntArray

    def head_and_tail(self, head: float, head_of: str) -> GroupSets:
        """Each level as a set: the short head, the long tail, or neither. The head is this share of ``interactions`` or of ``items``."""
        above = self.share_above if head_of == "interactions" else self.items_above
        known = self.n_items > 0
        members = Ragged((above[known] >= head).astype(np.int64), offsets_of(known.astype(np.int64)))
        return GroupSets((HEAD, TAIL), members, self.n_items)
