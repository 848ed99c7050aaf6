"""What groups of items get of users' attention, and what they are due: of each user, and summed over users.

An item at rank j gets the attention d(j), which falls with the rank. An item of several groups gives each an equal part of it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from spark_rankeval.checks import number
from spark_rankeval.metrics.base import Needs, Reads, Unset, parameter
from spark_rankeval.metrics.gain_based import DISCOUNTS, Discount, geometric
from spark_rankeval.metrics.kinds import AllListsMetric, ListMetric, RelevanceMetric
from spark_rankeval.ranking.batch import (
    GROUP_SET,
    WITHOUT_GROUP,
    Fact,
    GroupSets,
    RankingBatch,
    is_relevant,
    required_fact,
)
from spark_rankeval.ranking.user_lists import BoolArray, FloatArray, IntArray

# With fewer relevant labels of a group its ratio hangs on a few users, and intervals hold the truth too seldom.
LEAST_LABELS = 30
# A table of all users and groups may have so many times more cells than entries.
_SPARSE = 8


class Amounts(NamedTuple):
    """What each group has of each user: one entry per user and group, by user and then by group."""

    user: IntArray
    group: IntArray
    amount: FloatArray

    @classmethod
    def from_entries(cls, user: IntArray, group: IntArray, amount: FloatArray, n_groups: int) -> Amounts:
        """The amounts of entries, which may repeat a user and group. They are added one after the other, in this order."""
        cell = user * n_groups + group
        n_cells = (int(user.max(initial=-1)) + 1) * n_groups
        if n_cells <= _SPARSE * len(cell):
            # To count in a table of all cells is quicker than to sort, as long as it is not much larger than the entries.
            cells = np.flatnonzero(np.bincount(cell, minlength=n_cells))
            sums = np.bincount(cell, amount, n_cells)[cells]
        else:
            cells, cell = np.unique(cell, return_inverse=True)
            sums = np.bincount(cell, amount, len(cells))
        return cls(cells // n_groups, cells % n_groups, sums.astype(np.float64, copy=False))

    def totals(self, n_users: int) -> FloatArray:
        """The sum of each user's amounts; float64 (n_users,)."""
        return np.bincount(self.user, self.amount, n_users).astype(np.float64, copy=False)

    def shares(self, n_users: int) -> Amounts:
        """These amounts divided by the user's sum."""
        return self._replace(amount=self.amount / self.totals(n_users)[self.user])


class GroupAmounts(NamedTuple):
    """What all users' groups have and are due, of one metric."""

    counted: BoolArray  # (n_users,), who counts
    exposure: Amounts
    due: Amounts | None  # None: every user's exposure is due to the groups by `shares`
    shares: FloatArray | None = None  # float64 (n_groups,)


@dataclass(frozen=True, eq=False)
class GroupExposure:
    """What groups of items have and are due, summed over users.

    Attributes:
        exposure: the attention that each group gets, by the group's name; None names that of items without a group.
        due: the attention, or the relevance, that it is due.
        n_users: how many users were counted.
    """

    exposure: Mapping[str | None, float]
    due: Mapping[str | None, float]
    n_users: int

    @property
    def names(self) -> list[str | None]:
        """The groups that have anything or are due anything, in the order of their names."""
        return sorted({*self.exposure, *self.due}, key=lambda name: (name is not None, name or ""))

    def shares(self) -> dict[str | None, tuple[float, float]]:
        """The share of all exposure that each group has, and the share that it is due; NaN if all of it is 0."""
        exposed, due = math.fsum(self.exposure.values()), math.fsum(self.due.values())
        return {
            name: (_share(self.exposure.get(name, 0.0), exposed), _share(self.due.get(name, 0.0), due))
            for name in self.names
        }

    def ratios(self) -> dict[str | None, float]:
        """The share of exposure ÷ the share that is due, of each group that is due any."""
        return {name: has / due for name, (has, due) in self.shares().items() if due > 0 and not math.isnan(has)}


def _share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


@dataclass(frozen=True, kw_only=True)
class GroupMetric(ListMetric, RelevanceMetric):
    """A metric of the attention that groups of items get."""

    needs: ClassVar[Needs] = "predictions"
    describes: ClassVar[bool] = False
    facts: ClassVar[frozenset[Fact]] = frozenset({"groups"})

    discount: str | Unset = parameter(
        "log2",
        choices=("log2", "ln", "log2_from_two", "geometric"),
        doc="attention at rank j: 1/log2(j + 1), 1/ln(j + 1), 1/log2(max(j, 2)) or p^(j−1)",
    )
    p: float | Unset = parameter(
        0.8,
        check=number(0, 1, what="a number between 0 and 1", open_low=True, open_high=True),
        doc="with discount='geometric' the probability of going on to the next item",
    )
    unknown: str | Unset = parameter(
        "left_out", choices=("left_out", "apart"), doc="items without a group: left out, or a group of their own"
    )

    @property
    def reads(self) -> Reads:
        """The items, their groups and their labels; the attention depends on ranks."""
        return super().reads.but(items="item", unlabelled=True, tie_order=True, facts=self.facts)

    @property
    def is_apart(self) -> bool:
        """Whether items without a group are a group of their own."""
        return self.unknown == "apart"

    @property
    def _attention(self) -> Discount:
        return geometric(float(self.p)) if self.discount == "geometric" else DISCOUNTS[str(self.discount)]  # type: ignore[arg-type]

    def groups_of(self, batch: RankingBatch) -> GroupSets:
        """The sets of groups of the batch's items."""
        return required_fact(self._recommended(batch).groups)

    def exposure_of(self, batch: RankingBatch) -> Amounts:
        """The attention that each user's list gives to groups."""
        key = ("exposure of groups", self.discount, self.p, self.k, self.unknown)
        return batch.remember(key, lambda: self._exposure(batch))

    def _exposure(self, batch: RankingBatch) -> Amounts:
        recommended, groups = self._recommended(batch), self.groups_of(batch)
        within = recommended.within(self.k)
        item, group, part = groups.spread(required_fact(recommended.group_set)[within], apart=self.is_apart)
        attention = self._attention(recommended.rank[within])[item] * part
        return Amounts.from_entries(recommended.user[within][item], group, attention, groups.n_groups)

    def relevance_of(self, batch: RankingBatch) -> Amounts:
        """How many relevant labels each group has; a label is divided among the groups of its item."""
        return batch.remember(("relevance of groups", self.threshold, self.unknown), lambda: self._relevance(batch))

    def _relevance(self, batch: RankingBatch) -> Amounts:
        groups, relevant = self.groups_of(batch), np.flatnonzero(is_relevant(batch.labels.values, self.threshold))
        sets = batch.label_extra_values[GROUP_SET].values[relevant].astype(np.int64)
        item, group, amount = groups.spread(sets, apart=self.is_apart)
        user = batch.labels.user[relevant][item]
        # Labels come in any order, and sums of floats have one; of equal floats any order gives the same.
        if (amount != amount[:1]).any():
            order = np.lexsort((amount, user * groups.n_groups + group))
            user, group, amount = user[order], group[order], amount[order]
        return Amounts.from_entries(user, group, amount, groups.n_groups)

    def has_any(self, batch: RankingBatch, amounts: Amounts) -> BoolArray:
        """Which users have any amount; bool (n_users,)."""
        return amounts.totals(batch.n_users) > 0


@dataclass(frozen=True, kw_only=True)
class AllListsGroupMetric(AllListsMetric):
    """A metric of what groups get in all lists together.

    Attributes:
        unit: a class attribute; amounts are added in whole multiples of it, so no order changes a digit.
        by_labels: a class attribute; whether what groups get is divided by their relevant labels.
    """

    # Sums stay below 2^63 for 2^31 of attention.
    unit: ClassVar[float] = 2.0**-32
    describes: ClassVar[bool] = False
    by_labels: ClassVar[bool] = False

    @abstractmethod
    def groups_of(self, batch: RankingBatch) -> GroupSets:
        """The sets of groups of the batch's items."""

    @property
    def chosen_group(self) -> str | None:
        """The name of the group that the value is about; None: it is about all groups."""
        return None

    @property
    def counted_as(self) -> Hashable:
        """What `amounts` depends on: metrics for which this is equal are counted once."""
        return self

    def names_of(self, batch: RankingBatch) -> tuple[str | None, ...]:
        """The names of the groups, by their codes."""
        return (*self.groups_of(batch).names, WITHOUT_GROUP)

    @abstractmethod
    def amounts(self, batch: RankingBatch) -> GroupAmounts:
        """What the groups have and are due of each user."""

    def without_interval(self, groups: GroupExposure) -> str:
        """Why the value has no interval, if a group that it compares has too few relevant labels; empty if it may have one."""
        compared = {name: due for name, due in groups.due.items() if due > 0 and self.chosen_group in (None, name)}
        if not self.by_labels or min(compared.values(), default=LEAST_LABELS) >= LEAST_LABELS:
            return ""
        least = min(compared, key=lambda name: (compared[name], name or ""))
        who = "items without a group" if least is None else f"group {least!r}"
        return f"{who}: {compared[least]:,.6g} relevant labels; an interval needs {LEAST_LABELS} of each group"


@dataclass(frozen=True, kw_only=True)
class AllListsAttentionMetric(GroupMetric, AllListsGroupMetric):
    """A metric of the attention that groups get in all lists together."""

    @property
    def due_by(self) -> str:
        """What groups are due their attention by: the ``relevance`` of labels, or the table's ``items``."""
        return "relevance"

    @property
    def counted_as(self) -> Hashable:
        """The attention, and what it is compared with."""
        return ("attention", self.due_by, self.discount, self.p, self.k, self.unknown, self.threshold)

    def amounts(self, batch: RankingBatch) -> GroupAmounts:
        """All attention, and what groups are due."""
        exposure = self.exposure_of(batch)
        counted = self.has_any(batch, exposure)
        if self.due_by == "items":
            return GroupAmounts(counted, exposure, None, self.groups_of(batch).population(apart=self.is_apart))
        due = self.relevance_of(batch)
        return GroupAmounts(counted & self.has_any(batch, due), exposure, due)
