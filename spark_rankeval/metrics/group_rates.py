"""How many of the hits groups of items have, and how likely groups are to be recommended: head and tail of popularity, or a column's.

A rate is what lists hold of a group ÷ what they could hold, of all users together. An item of several groups counts in each.
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
from spark_rankeval.metrics.popularity_based import ShortHeadMetric
from spark_rankeval.ranking.batch import (
    GROUP_SET,
    LEVEL,
    Fact,
    GroupSets,
    RankingBatch,
    Recommended,
    is_relevant,
    required_fact,
)
from spark_rankeval.ranking.lists import BoolArray, FloatArray, IntArray, Ragged

__all__ = [
    "ExposureShare",
    "HitShare",
    "PopularityEqualOpportunity",
    "PopularityStatisticalParity",
    "RankingEqualOpportunity",
    "RankingStatisticalParity",
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
class GroupRates(AllListsGroupMetric):
    """How much the rates of groups differ: their standard deviation ÷ their mean. The groups are a column of items."""

    value_range: ClassVar[tuple[float, float]] = (0.0, math.inf)
    larger_is_better: ClassVar[bool] = False
    # Counts of items have no fractions, and those of candidates are large.
    unit: ClassVar[float] = 1.0
    group_column: ClassVar[str] = GROUP_SET

    def groups_of(self, batch: RankingBatch) -> GroupSets:
        """The sets of groups of the batch's items."""
        return required_fact(self._recommended(batch).groups)

    def _set_of_items(self, recommended: Recommended) -> IntArray:
        return required_fact(recommended.group_set)

    def _set_of_histories(self, recommended: Recommended) -> Ragged:
        return required_fact(recommended.history_groups)

    def _count(self, batch: RankingBatch, user: IntArray, sets: IntArray) -> Amounts:
        """How many of some items of users are in each group."""
        groups = self.groups_of(batch)
        item, group = groups.memberships(sets)
        return Amounts.from_entries(user[item], group, np.ones(len(item)), groups.n_groups)

    def _count_listed(self, batch: RankingBatch, which: BoolArray) -> Amounts:
        """How many items of the first k places that `which` selects are in each group."""
        recommended = self._recommended(batch)
        which = which & recommended.within(self.k)
        return self._count(batch, recommended.user[which], self._set_of_items(recommended)[which])

    @abstractmethod
    def amounts(self, batch: RankingBatch) -> GroupAmounts:
        """How many items of each group are in users' lists, and how many could be."""

    def _value(self, groups: GroupExposure) -> float:
        """The standard deviation of the rates over their mean."""
        rates = [groups.exposure.get(name, 0.0) / due for name, due in groups.due.items() if due > 0]
        mean = math.fsum(rates) / max(len(rates), 1)
        if len(rates) < 2 or mean == 0:
            return math.nan
        return math.sqrt(math.fsum((rate - mean) ** 2 for rate in rates) / len(rates)) / mean


@dataclass(frozen=True, kw_only=True)
class PopularityRates(ShortHeadMetric, GroupRates):
    """How far the rates of the short head and the long tail lie apart."""

    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    group_column: ClassVar[str] = LEVEL

    def groups_of(self, batch: RankingBatch) -> GroupSets:
        """The head and the tail; each level of popularity is a set."""
        levels = required_fact(self._recommended(batch).levels)
        return levels.head_and_tail(float(self.head), str(self.head_of))  # type: ignore[arg-type]  # resolved

    def _set_of_items(self, recommended: Recommended) -> IntArray:
        return required_fact(recommended.level)

    def _set_of_histories(self, recommended: Recommended) -> Ragged:
        return required_fact(recommended.history_levels)


@dataclass(frozen=True, kw_only=True)
class EqualOpportunity(GroupRates, RelevanceMetric):
    """Rates of relevant items: hits of a group ÷ its relevant labels."""

    by_labels: ClassVar[bool] = True

    def amounts(self, batch: RankingBatch) -> GroupAmounts:
        """The hits and the relevant labels of each group, of users with a list and such a label."""
        recommended = self._recommended(batch)
        hit = ~np.isnan(recommended.grade)
        hit[hit] = is_relevant(recommended.grade[hit], self.threshold)
        relevant = is_relevant(batch.labels.values, self.threshold)
        sets = batch.label_extra_values[self.group_column].values[relevant].astype(np.int64)
        due = self._count(batch, batch.labels.user[relevant], sets)
        counted = (recommended.n_within(self.k) > 0) & (due.totals(batch.n_users) > 0)
        return GroupAmounts(counted, self._count_listed(batch, hit), due)


@dataclass(frozen=True, kw_only=True)
class StatisticalParity(GroupRates):
    """Rates of all candidates: recommended items of a group ÷ its items that users do not have."""

    def amounts(self, batch: RankingBatch) -> GroupAmounts:
        """The recommended items and the candidates of each group, of users with a list."""
        recommended = self._recommended(batch)
        histories = self._set_of_histories(recommended)
        consumed = self._count(batch, histories.user, histories.values)
        return GroupAmounts(
            counted=recommended.n_within(self.k) > 0,
            exposure=self._count_listed(batch, ~required_fact(recommended.consumed)),
            due=consumed._replace(amount=-consumed.amount),
            each=self.groups_of(batch).sizes(),
        )


@dataclass(frozen=True, kw_only=True)
class RankingEqualOpportunity(EqualOpportunity):
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
    facts: ClassVar[frozenset[Fact]] = frozenset({"groups"})


@dataclass(frozen=True, kw_only=True)
class RankingStatisticalParity(StatisticalParity):
    """RSP: are items of all groups as likely to be recommended? std(P_g) ÷ mean(P_g) over the groups g of a column.

    P_g = P(recommended | group g) = Σ_u recommended items of g in the first k ÷ Σ_u candidates of g. Candidates of a user are the
    items of the table that the user does not have in the training data. Other items do not count as recommended, either.
    Users have a list. An item of several groups counts in each, and one without a group in none. Groups without a candidate have
    no rate. The standard deviation is that of all A groups, so the value has the bound √(A − 1). From 0 up: 0 if all rates are
    the same. NaN if fewer than two groups have a rate, and without a candidate in any list.

    Source: Zhu, Wang, Caverlee, Measuring and mitigating item under-recommendation bias in personalized ranking systems, SIGIR
    2020.
    """

    name: ClassVar[str] = "ranking_statistical_parity"
    aliases: ClassVar[tuple[str, ...]] = ("rsp",)
    facts: ClassVar[frozenset[Fact]] = frozenset({"groups", "history", "history_groups"})


@dataclass(frozen=True, kw_only=True)
class PopularityEqualOpportunity(PopularityRates, EqualOpportunity):
    """PopREO: are relevant items of the long tail as likely to be recommended as those of the short head? std(P_g) ÷ mean(P_g).

    P_g = P(recommended | group g, relevant) = Σ_u hits of g in the first k ÷ Σ_u relevant labels of g, for head and tail. These are
    the groups of ``long_tail_share``, but items outside the training data are in neither. Users have a list and a relevant label of
    the training data's items. Between 0 and 1: 0 if both rates are the same, 1 if only one group is ever found. With two
    groups the value is |P_head − P_tail| ÷ (P_head + P_tail). NaN if a group has no relevant label, and without a hit.

    Source: Zhu, Wang, Caverlee, Measuring and mitigating item under-recommendation bias in personalized ranking systems, SIGIR
    2020, for the formula. These two groups and the head of 80% are Elliot's.
    """

    name: ClassVar[str] = "popularity_equal_opportunity"
    aliases: ClassVar[tuple[str, ...]] = ("popreo", "pop_reo")
    facts: ClassVar[frozenset[Fact]] = frozenset({"levels"})


@dataclass(frozen=True, kw_only=True)
class PopularityStatisticalParity(PopularityRates, StatisticalParity):
    """PopRSP: are items of the long tail as likely to be recommended as those of the short head? std(P_g) ÷ mean(P_g).

    P_g = P(recommended | group g) = Σ_u recommended items of g in the first k ÷ Σ_u candidates of g, for head and tail. These are the
    groups of ``long_tail_share``. Candidates of a user are the items of the training data that the user does not have there. Other
    items do not count as recommended, either. Users have a list. Between 0 and 1: 0 if both rates are the same, 1 if only one group
    is ever recommended. With two groups the value is |P_head − P_tail| ÷ (P_head + P_tail). NaN if a group has no candidate, and
    without a candidate in any list.

    Source: Zhu, Wang, Caverlee, Measuring and mitigating item under-recommendation bias in personalized ranking systems, SIGIR
    2020, for the formula. These two groups and the head of 80% are Elliot's.
    """

    name: ClassVar[str] = "popularity_statistical_parity"
    aliases: ClassVar[tuple[str, ...]] = ("poprsp", "pop_rsp")
    facts: ClassVar[frozenset[Fact]] = frozenset({"levels", "history", "history_levels"})
