"""How much of hits and of exposure groups of items have, and whether their relevant items are as likely to be recommended.

An item of several groups counts in each.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from spark_rankeval.metrics.base import Unset, parameter
from spark_rankeval.metrics.gain_based import DISCOUNTS
from spark_rankeval.metrics.group_amounts import AllListsGroupMetric, Amounts, GroupAmounts, GroupExposure
from spark_rankeval.metrics.kinds import ListMetric, RelevanceMetric
from spark_rankeval.ranking.batch import (
    GROUP_SET,
    Fact,
    GroupSets,
    RankingBatch,
    Recommended,
    is_relevant,
    required_fact,
)
from spark_rankeval.ranking.user_lists import BoolArray, FloatArray, IntArray

__all__ = [
    "ExposureShare",
    "HitShare",
    "RankingEqualOpportunity",
]


@dataclass(frozen=True, kw_only=True)
class GroupShare(ListMetric):
    """What the items of a group have of a sum over the first k places; all items together have 1."""

    shared: ClassVar[str] = ""  # what is shared, in words

    def group_shares(self, recommended: Recommended, item: IntArray, group: IntArray, n_groups: int) -> FloatArray:
        """The share of each user and group; float64 (n_users · n_groups,), NaN if there is nothing to share.

        Args:
            recommended: the items of the lists.
            item: int64, an item of the lists for each membership, in the order of the items.
            group: int64, the group that it is in, from 0.
            n_groups: how many groups there are.
        """
        weights = self._weights(recommended)
        whole = np.repeat(np.bincount(recommended.user, weights, recommended.n_users), n_groups)
        cell = recommended.user[item] * n_groups + group
        part = np.bincount(cell, weights[item], recommended.n_users * n_groups)
        share: FloatArray = np.full(len(whole), 0.0 if self.undefined == "zero" else np.nan)
        np.divide(part, whole, out=share, where=whole > 0)
        # The parts are added in the order of the whole, but rounding may still lift a group of all items above it.
        return np.minimum(share, 1.0)

    @abstractmethod
    def _weights(self, recommended: Recommended) -> FloatArray:
        """What each item adds to the sum; 0 below the cutoff."""

    def _values(self, batch: RankingBatch) -> FloatArray:
        return np.ones(batch.n_users)

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        recommended = self._recommended(batch)
        return np.bincount(recommended.user, self._weights(recommended), recommended.n_users) > 0


@dataclass(frozen=True, kw_only=True)
class HitShare(GroupShare, RelevanceMetric):
    """The share of a user's hits that are items of a group: Σ_{j≤k} h_j [i_j ∈ g] ÷ H_k; of all items it is 1.

    Between 0 and 1. An item of several groups counts in each. NaN without a hit in the first k places, and so NaN
    without predictions. Ask for groups with ``Facts(item_by=…)`` or ``Facts(popularity_groups=…)``.

    Source: hits by group of items as Zhu, Wang, Caverlee count them (Measuring and mitigating item under-recommendation
    bias in personalized ranking systems, SIGIR 2020). Here they are a share of each user's hits.
    """

    name: ClassVar[str] = "hit_share"
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    shared: ClassVar[str] = "hits"

    def _weights(self, recommended: Recommended) -> FloatArray:
        labelled = ~np.isnan(recommended.grade)
        hits = labelled & is_relevant(recommended.grade, self.threshold) & recommended.within(self.k)
        return hits.astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class ExposureShare(GroupShare):
    """The share of a list's exposure that items of a group have: Σ_{j≤k} d(j) [i_j ∈ g] ÷ Σ_{j≤min(k, ρ)} d(j).

    d(j) is the discount of NDCG: 1 / log2(j + 1), unless ``discount`` says otherwise. Of all items it is 1. Between 0
    and 1. An item of several groups counts in each. NaN without predictions. Ask for groups with
    ``Facts(item_by=…)`` or ``Facts(popularity_groups=…)``.

    Source: Singh, Joachims, Fairness of exposure in rankings, KDD 2018: the exposure of a group, here as a share of
    that of the whole list.
    """

    name: ClassVar[str] = "exposure_share"
    shared: ClassVar[str] = "exposure"

    discount: str | Unset = parameter(
        "log2",
        choices=("log2", "ln", "log2_from_two"),
        doc="weight of rank j: 1/log2(j+1), 1/ln(j+1), or 1/log2(max(j, 2))",
    )

    def _weights(self, recommended: Recommended) -> FloatArray:
        within = recommended.within(self.k)
        return np.where(within, DISCOUNTS[str(self.discount)](recommended.rank), 0.0)


@dataclass(frozen=True, kw_only=True)
class RankingEqualOpportunity(AllListsGroupMetric, RelevanceMetric):
    """REO: are relevant items of all groups as likely to be recommended? std(P_g) ÷ mean(P_g) over the groups g of a column.

    P_g = P(recommended | group g, relevant) = Σ_u hits of g in the first k ÷ Σ_u relevant labels of g. Users have a list and a
    relevant label of an item with a group. An item of several groups counts in each, and one without a group in none. Groups
    without a relevant label have no rate. The standard deviation is that of all A groups, so the value has the bound √(A − 1).
    From 0 up: 0 if all rates are the same. NaN if fewer than two groups have a rate, and without a hit.

    Source: Zhu, Wang, Caverlee, Measuring and mitigating item under-recommendation bias in personalized ranking systems, SIGIR
    2020.
    """

    name: ClassVar[str] = "ranking_equal_opportunity"
    aliases: ClassVar[tuple[str, ...]] = ("reo",)
    value_range: ClassVar[tuple[float, float]] = (0.0, math.inf)
    larger_is_better: ClassVar[bool] = False
    facts: ClassVar[frozenset[Fact]] = frozenset({"groups"})
    # Counts have no fractions.
    unit: ClassVar[float] = 1.0
    by_labels: ClassVar[bool] = True

    def groups_of(self, batch: RankingBatch) -> GroupSets:
        """The sets of groups of the batch's items."""
        return required_fact(self._recommended(batch).groups)

    def amounts(self, batch: RankingBatch) -> GroupAmounts:
        """The hits and the relevant labels of each group, of users with a list and such a label."""
        recommended = self._recommended(batch)
        hit = ~np.isnan(recommended.grade)
        hit[hit] = is_relevant(recommended.grade[hit], self.threshold)
        hit &= recommended.within(self.k)
        hits = self._count(batch, recommended.user[hit], required_fact(recommended.group_set)[hit])
        relevant = is_relevant(batch.labels.values, self.threshold)
        sets = batch.label_extra_values[GROUP_SET].values[relevant].astype(np.int64)
        due = self._count(batch, batch.labels.user[relevant], sets)
        counted = (recommended.n_within(self.k) > 0) & (due.totals(batch.n_users) > 0)
        return GroupAmounts(counted, hits, due)

    def _count(self, batch: RankingBatch, user: IntArray, sets: IntArray) -> Amounts:
        """How many of some items of users are in each group."""
        groups = self.groups_of(batch)
        item, group, _ = groups.spread(sets, apart=False)
        return Amounts.from_entries(user[item], group, np.ones(len(item)), groups.n_groups)

    def _value(self, groups: GroupExposure) -> float:
        """The standard deviation of the rates over their mean."""
        rates = [groups.exposure.get(name, 0.0) / due for name, due in groups.due.items() if due > 0]
        mean = math.fsum(rates) / max(len(rates), 1)
        if len(rates) < 2 or mean == 0:
            return math.nan
        return math.sqrt(math.fsum((rate - mean) ** 2 for rate in rates) / len(rates)) / mean
