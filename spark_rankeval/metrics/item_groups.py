"""Metrics of all lists and of groups of items: who gets users' attention, and what is due to them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from spark_rankeval.metrics import base
from spark_rankeval.metrics.base import UNDEFINED, AllListsMetric, ListMetric, Reads, RelevanceMetric, parameter
from spark_rankeval.metrics.gains import DISCOUNTS, Discount, geometric
from spark_rankeval.ranking import batch as rankings
from spark_rankeval.ranking.batch import Fact, RankingBatch, Recommended, Totals
from spark_rankeval.ranking.user_lists import BoolArray, FloatArray, IntArray

# With fewer relevant labels of a group its ratio hangs on a few users, and intervals hold the truth too seldom.
LEAST_LABELS = 30


class Amounts(NamedTuple):
    """What each group has of each user: one entry per user and group, by user and then by group."""

    user: IntArray
    group: IntArray
    amount: FloatArray

    @classmethod
    def from_entries(cls, user: IntArray, group: IntArray, amount: FloatArray, n_groups: int) -> Amounts:
        """The amounts of entries, which may repeat a user and group. They are added one after the other, in this order."""
        cells, entry = np.unique(user * n_groups + group, return_inverse=True)
        sums = np.bincount(entry, amount, len(cells)).astype(np.float64, copy=False)
        return cls(cells // n_groups, cells % n_groups, sums)

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


class GroupMetric(ListMetric, RelevanceMetric):
    """A metric of the attention that groups of items get."""

    needs = "predictions"
    describes = False
    facts = frozenset({"groups"})
    whole_order = True

    discount: str = parameter(
        "log2",
        choices=("log2", "ln", "log2_from_two", "geometric"),
        doc="attention at rank j: 1/log2(j + 1), 1/ln(j + 1), 1/log2(max(j, 2)) or p^(j−1)",
    )
    p: float = parameter(
        0.8, check=base.OPEN_SHARE, doc="with discount='geometric' the probability of going on to the next item"
    )
    unknown: str = parameter(
        "left_out", choices=("left_out", "apart"), doc="items without a group: left out, or a group of their own"
    )

    @property
    def is_apart(self) -> bool:
        """Whether items without a group are a group of their own."""
        return self.unknown == "apart"

    @property
    def _attention(self) -> Discount:
        return geometric(self.p) if self.discount == "geometric" else DISCOUNTS[self.discount]

    def exposure_of(self, batch: RankingBatch) -> Amounts:
        """The attention that each user's list gives to groups."""
        key = ("exposure of groups", self.discount, self.p, self.k, self.unknown)
        return batch.remember(key, lambda: self._exposure(batch))

    def _exposure(self, batch: RankingBatch) -> Amounts:
        recommended, groups = self._recommended(batch), self.groups_of(batch)
        within = recommended.within(self.k)
        item, group, part = groups.spread(rankings.required_fact(recommended.group_set)[within], apart=self.is_apart)
        attention = self._attention(recommended.rank[within])[item] * part
        return Amounts.from_entries(recommended.user[within][item], group, attention, groups.n_groups)

    def relevance_of(self, batch: RankingBatch) -> Amounts:
        """How many relevant labels each group has; a label is divided among the groups of its item."""
        return batch.remember(("relevance of groups", self.threshold, self.unknown), lambda: self._relevance(batch))

    def _relevance(self, batch: RankingBatch) -> Amounts:
        groups = self.groups_of(batch)
        relevant = np.flatnonzero(rankings.is_relevant(batch.labels.values, self.threshold))
        sets = batch.label_extra_values[rankings.GROUP_SET].values[relevant].astype(np.int64)
        item, group, amount = groups.spread(sets, apart=self.is_apart)
        user = batch.labels.user[relevant][item]
        # Labels come in any order, and sums of floats have one; of equal floats any order gives the same.
        if (amount != amount[:1]).any():
            order = np.lexsort((amount, user * groups.n_groups + group))
            user, group, amount = user[order], group[order], amount[order]
        return Amounts.from_entries(user, group, amount, groups.n_groups)


class AllListsGroupMetric(AllListsMetric):
    """A metric of what groups get in all lists together.

    Attributes:
        unit: a class attribute; amounts are added in whole multiples of it, so no order changes a digit.
        by_labels: a class attribute; whether what groups get is divided by their relevant labels.
    """

    # Sums stay below 2^63 for 2^31 of attention.
    unit = 2.0**-32
    describes = False
    by_labels = False

    @property
    def chosen_group(self) -> str | None:
        """The name of the group that the value is about; None: it is about all groups."""
        return None

    def names_of(self, batch: RankingBatch) -> tuple[str | None, ...]:
        """The names of the groups, by their codes."""
        return (*self.groups_of(batch).names, rankings.WITHOUT_GROUP)

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
        counted = exposure.totals(batch.n_users) > 0
        if self.due_by == "items":
            return GroupAmounts(counted, exposure, None, self.groups_of(batch).population(apart=self.is_apart))
        due = self.relevance_of(batch)
        return GroupAmounts(counted & (due.totals(batch.n_users) > 0), exposure, due)


def _terms(distance: str, has: float, due: float) -> tuple[float, float]:
    """The two terms that a group adds to the distance of two distributions; its shares are not both 0."""
    if distance == "tv":
        return abs(has - due), 0.0
    has_term, due_term = (share * math.log2(2 * share / (has + due)) if share > 0 else 0.0 for share in (has, due))
    return has_term, due_term


def _similarity(distance: str, terms: Sequence[float], elsewhere: float) -> float:
    """1 − the distance of two distributions, from what groups add; `elsewhere` is where the first has none."""
    if distance == "tv":
        return 1 - (math.fsum(terms) + elsewhere) / 2
    divergence = max(0.0, math.fsum((elsewhere, *terms))) / 2
    return 1 - divergence * (math.log(2) if distance == "js_nats" else 1)


class AWRF(GroupMetric):
    """Attention-weighted rank fairness of a list: 1 − Δ(p, q), the shares p of its attention that groups get, and q that they are due.

    An item at rank j ≤ k gets the attention d(j). The target q is by default the groups' shares of the table of items. It may be
    those of the user's relevant labels, or the same for each group. The distance Δ is the Jensen-Shannon divergence,
    ½·Σ_g p_g·log2(2p_g/(p_g + q_g)) + ½·Σ_g q_g·log2(2q_g/(p_g + q_g)), or ½·Σ|p_g − q_g|. Between 0 and 1: 1 if each group gets
    what it is due. NaN without predictions of items with a group, and with ``target="relevance"`` without a relevant label of
    such an item. A list of k items cannot match the shares of many groups, so compare models, and not values with 1.

    Source: Sapiezynski and others, Quantifying the impact of user attention on fair group representation in ranked lists, WWW
    2019. Raj, Ekstrand, Measuring fairness in ranked results, SIGIR 2022. In this form: the TREC Fair Ranking Track 2021, which takes
    natural logarithms and ``discount="log2_from_two"``.
    """

    name = "awrf"
    aliases = ("attention_weighted_rank_fairness",)

    target: str = parameter(
        "items",
        choices=("items", "relevance", "equal"),
        doc="what groups are due: by their items in the table, by the relevant labels, or the same for each group",
    )
    distance: str = parameter(
        "js",
        choices=("js", "js_nats", "tv"),
        doc="1 minus: Jensen-Shannon divergence in bits, the same in nats, or half the sum of absolute differences",
    )

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        exposed = self.exposure_of(batch).totals(batch.n_users) > 0
        if self.target == "relevance":
            return exposed & (self.relevance_of(batch).totals(batch.n_users) > 0)
        return exposed & bool(self.groups_of(batch).equal(apart=self.is_apart).any())

    def _values(self, batch: RankingBatch) -> FloatArray:
        groups = self.groups_of(batch)
        n_groups = groups.n_groups
        exposure = self.exposure_of(batch).shares(batch.n_users)
        cell = exposure.user * n_groups + exposure.group
        if self.target == "relevance":
            due = self.relevance_of(batch).shares(batch.n_users)
            cells = np.union1d(cell, due.user * n_groups + due.group)
            due_shares = _spread_over(cells, due.user * n_groups + due.group, due.amount)
        else:
            cells = cell
            due_by_group = (groups.equal if self.target == "equal" else groups.population)(apart=self.is_apart)
            due_shares = due_by_group[exposure.group]
        exposure_shares, user = _spread_over(cells, cell, exposure.amount), cells // n_groups
        due_by_cell = due_shares.tolist()
        # Few pairs of shares differ. The sums are exact, so that their order is no matter.
        cached_terms = cache(partial(_terms, self.distance))
        terms = list(chain.from_iterable(map(cached_terms, exposure_shares.tolist(), due_by_cell)))
        bounds = np.searchsorted(user, np.arange(batch.n_users + 1)).tolist()
        values = [
            _similarity(self.distance, terms[2 * first : 2 * stop], max(0.0, 1 - math.fsum(due_by_cell[first:stop])))
            if first < stop
            else math.nan
            for first, stop in pairwise(bounds)
        ]
        return np.array(values, np.float64)


def _spread_over(cells: IntArray, positions: IntArray, amounts: FloatArray) -> FloatArray:
    """Amounts at their cells, which ascend; 0 at the others."""
    spread = np.zeros(len(cells))
    spread[np.searchsorted(cells, positions)] = amounts
    return spread


def _name_of_group(value: object) -> str | None:
    return None if value is None or isinstance(value, str) else "the name of a group in quotes, or None"


class AttentionShare(AllListsAttentionMetric):
    """The share of all attention that a group gets: Σ_u Σ_{j≤k, i_j in g} d(j) ÷ Σ_u Σ_{j≤k} d(j), of items with a group.

    With ``of="relevance"`` it is the group's share of all relevant labels, of the users of `ExposureToMerit`. With
    ``of="items"`` it is that of the table of items. Between 0 and 1. Without a ``group`` the largest share of any. A group that
    gets nothing has 0, also if no item has it, which is a warning. NaN without predictions of items with a group, and with
    ``of="relevance"`` without such users.

    Source: Singh, Joachims, Fairness of exposure in rankings, KDD 2018. Without a group the dominance index of Berger, Parker,
    Diversity of planktonic foraminifera in deep-sea sediments, Science 1970.
    """

    name = "attention_share"

    group: str | None = parameter(
        None, check=_name_of_group, doc="the name of a group; None: the one with the largest share"
    )
    of: str = parameter(
        "lists",
        choices=("lists", "relevance", "items"),
        doc="the share of the lists' attention, of labels, or of items",
    )

    @property
    def chosen_group(self) -> str | None:
        """The name of the group; None: the one with the largest share."""
        return self.group

    @property
    def due_by(self) -> str:
        """What the share is of, if not of the lists."""
        return "items" if self.of == "lists" else self.of

    def _value(self, groups: GroupExposure) -> float:
        """The share of the group."""
        shares = {name: pair[0 if self.of == "lists" else 1] for name, pair in groups.shares().items()}
        if not shares or any(map(math.isnan, shares.values())):
            return math.nan
        return max(shares.values()) if self.group is None else shares.get(self.group, 0.0)


class ExposureToMerit(AllListsAttentionMetric):
    """A group's share of all attention ÷ its share of all relevant labels: 1 if it gets what it earns, 0.5 for half of that.

    Merit is what the labels say: γ_g ÷ Σ_h γ_h, where γ_g counts the relevant labels of items of group g. Users have an item of any
    group in the first k places, and a relevant label of such an item. From 0 up. Without a ``group`` the smallest ratio of any group
    with a relevant label, the one that is treated worst. NaN without such users, and for a group without a relevant label; if no
    item has the group, that is a warning.

    Source: Singh, Joachims, Fairness of exposure in rankings, KDD 2018 (disparate treatment: exposure ÷ utility of a group).
    """

    name = "exposure_to_merit"
    by_labels = True
    value_range = (0.0, math.inf)

    group: str | None = parameter(
        None, check=_name_of_group, doc="the name of a group; None: the one with the smallest ratio"
    )

    @property
    def chosen_group(self) -> str | None:
        """The name of the group; None: the one with the smallest ratio."""
        return self.group

    def _value(self, groups: GroupExposure) -> float:
        """The ratio of the group."""
        ratios = groups.ratios()
        return min(ratios.values(), default=math.nan) if self.group is None else ratios.get(self.group, math.nan)


class GroupShare(ListMetric):
    """What the items of a group have of a sum over the first k places; all items together have 1."""

    shared = ""  # what is shared, in words

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
        share: FloatArray = np.full(len(whole), UNDEFINED[self.undefined])
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


class HitShare(GroupShare, RelevanceMetric):
    """The share of a user's hits that are items of a group: Σ_{j≤k} h_j [i_j ∈ g] ÷ H_k; of all items it is 1.

    Between 0 and 1. An item of several groups counts in each. NaN without a hit in the first k places, and so NaN
    without predictions. Ask for groups with ``Facts(item_by=…)`` or ``Facts(popularity_groups=…)``.

    Source: hits by group of items as Zhu, Wang, Caverlee count them (Measuring and mitigating item under-recommendation
    bias in personalized ranking systems, SIGIR 2020). Here they are a share of each user's hits.
    """

    name = "hit_share"
    value_range = (0.0, 1.0)
    shared = "hits"

    def _weights(self, recommended: Recommended) -> FloatArray:
        labelled = ~np.isnan(recommended.grade)
        hits = labelled & rankings.is_relevant(recommended.grade, self.threshold) & recommended.within(self.k)
        return hits.astype(np.float64)


class ExposureShare(GroupShare):
    """The share of a list's exposure that items of a group have: Σ_{j≤k} d(j) [i_j ∈ g] ÷ Σ_{j≤min(k, ρ)} d(j).

    d(j) is the discount of NDCG: 1 / log2(j + 1), unless ``discount`` says otherwise. Of all items it is 1. Between 0
    and 1. An item of several groups counts in each. NaN without predictions. Ask for groups with
    ``Facts(item_by=…)`` or ``Facts(popularity_groups=…)``.

    Source: Singh, Joachims, Fairness of exposure in rankings, KDD 2018: the exposure of a group, here as a share of
    that of the whole list.
    """

    name = "exposure_share"
    shared = "exposure"

    discount: str = parameter(
        "log2",
        choices=("log2", "ln", "log2_from_two"),
        doc="weight of rank j: 1/log2(j+1), 1/ln(j+1), or 1/log2(max(j, 2))",
    )

    def _weights(self, recommended: Recommended) -> FloatArray:
        within = recommended.within(self.k)
        return np.where(within, DISCOUNTS[self.discount](recommended.rank), 0.0)


class RankingEqualOpportunity(AllListsGroupMetric, RelevanceMetric):
    """REO: are relevant items of all groups as likely to be recommended? std(P_g) ÷ mean(P_g) over the groups g of a column.

    P_g = P(recommended | group g, relevant) = Σ_u hits of g in the first k ÷ Σ_u relevant labels of g. Users have a list and a
    relevant label of an item with a group. An item of several groups counts in each, and one without a group in none. Groups
    without a relevant label have no rate. The standard deviation is that of all A groups, so the value has the bound √(A − 1).
    From 0 up: 0 if all rates are the same. NaN if fewer than two groups have a rate, and without a hit.

    Source: Zhu, Wang, Caverlee, Measuring and mitigating item under-recommendation bias in personalized ranking systems, SIGIR
    2020.
    """

    name = "ranking_equal_opportunity"
    aliases = ("reo",)
    value_range = (0.0, math.inf)
    larger_is_better = False
    facts = frozenset({"groups"})
    # Counts have no fractions.
    unit = 1.0
    by_labels = True

    def amounts(self, batch: RankingBatch) -> GroupAmounts:
        """The hits and the relevant labels of each group, of users with a list and such a label."""
        recommended = self._recommended(batch)
        hit = ~np.isnan(recommended.grade)
        hit[hit] = rankings.is_relevant(recommended.grade[hit], self.threshold)
        hit &= recommended.within(self.k)
        hits = self._count(batch, recommended.user[hit], rankings.required_fact(recommended.group_set)[hit])
        relevant = rankings.is_relevant(batch.labels.values, self.threshold)
        sets = batch.label_extra_values[rankings.GROUP_SET].values[relevant].astype(np.int64)
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


@dataclass(frozen=True, eq=False)
class Exposure:
    """A histogram of how many users have an item in their first k places.

    Attributes:
        count: int64, a number of lists; one entry for each different number and kind of item.
        n_items: int64, how many items of that kind are in that number of lists.
        is_in_training: whether the training data has these items.
        is_in_items: whether the catalogue has these items.
        n_users: how many users have a list.
        totals: the sizes of the tables.
    """

    count: IntArray
    n_items: IntArray
    is_in_training: BoolArray
    is_in_items: BoolArray
    n_users: int
    totals: Totals = field(default_factory=Totals)

    @property
    def n_places(self) -> int:
        """How many places of lists are filled: Σ_u min(k, ρ_u)."""
        return int((self.count * self.n_items).sum())

    def among(self, catalogue: str) -> tuple[IntArray, IntArray]:
        """The counts of a catalogue's items, ascending, and how many items have each; items in no list have 0.

        Args:
            catalogue: ``training``, ``items``, or ``recommended`` for the items that are in any list.
        """
        is_member = {"training": self.is_in_training, "items": self.is_in_items}.get(
            catalogue, np.ones_like(self.is_in_items)
        )
        counts, inverse = np.unique(self.count[is_member], return_inverse=True)
        n_items = np.zeros(len(counts), np.int64)
        np.add.at(n_items, inverse, self.n_items[is_member])
        size = {"training": self.totals.training_items, "items": self.totals.items}.get(catalogue, 0)
        unseen = size - int(n_items.sum())
        if unseen > 0:
            return np.concatenate([[0], counts]), np.concatenate([[unseen], n_items])
        return counts, n_items


class CorpusMetric(AllListsMetric):
    """A metric of how many users have each item.

    Attributes:
        among: which items; a class attribute, or a parameter.
    """

    among = "recommended"

    @property
    def counted_as(self) -> Hashable:
        """The first k places, whichever items a metric is about."""
        return "lists", self.k

    @property
    def reads(self) -> Reads:
        """The items, and the table of the catalogue."""
        needed: dict[str, set[Fact]] = {"training": {"popularity"}, "items": {"catalogue"}}
        return super().reads.but(facts=frozenset(needed.get(self.among, ())))


class CatalogueCoverage(CorpusMetric):
    """The share of the catalogue that stands in anybody's first k places: |{i in C: c_i > 0}| ÷ |C|.

    C is the items of the training data, or of the table of items (``among="items"``). The number of users with item i
    in their first k places is c_i. Between 0 and 1. With ``counted="any"`` items outside C count as well, and the value
    may exceed 1. NaN without predictions, or for an empty catalogue.

    Source: Shani, Gunawardana, Evaluating recommendation systems, Recommender Systems Handbook, 2011; Ge,
    Delgado-Battenfeld, Jannach, Beyond accuracy, RecSys 2010.
    """

    name = "catalogue_coverage"
    aliases = ("coverage", "catalog_coverage", "item_coverage")

    among: str = parameter(
        "training",
        choices=("training", "items"),
        doc="the catalogue: items of the training data, or of the table of items",
    )
    counted: str = parameter(
        "catalogue", choices=("catalogue", "any"), doc="recommended items that the catalogue has, or all of them"
    )

    @property
    def bounds(self) -> tuple[float, float]:
        """With ``counted="any"`` more items may count than the catalogue has."""
        return 0.0, math.inf if self.counted == "any" else 1.0

    def _value(self, exposure: Exposure) -> float:
        """The share."""
        size = exposure.totals.items if self.among == "items" else exposure.totals.training_items
        if not size or not exposure.n_users:
            return math.nan
        counts, n_items = exposure.among("recommended" if self.counted == "any" else self.among)
        return int(n_items[counts > 0].sum()) / size


class Gini(CorpusMetric):
    """How unequally exposure is spread over items: Σ_{r=1..n} (2r − n − 1)·c_(r) ÷ (n·Σ c).

    For each of the n items of the catalogue, c counts the users with the item in their first k places; it may be 0. In ascending
    order these are c_(1) ≤ … ≤ c_(n). Between 0 (all alike) and 1; smaller is better if exposure should be spread. NaN without
    predictions of items in the catalogue.

    ``denominator="items_minus_1"`` divides by (n − 1)·Σ c, as Shani and Gunawardana do. If one item has all the exposure, the
    value is then 1 and not 1 − 1/n. It is NaN for a catalogue of one item.

    Source: Adomavicius, Kwon, Improving aggregate recommendation diversity using ranking-based techniques, TKDE 2012; Shani,
    Gunawardana, Evaluating recommendation systems, Recommender Systems Handbook, 2011.
    """

    name = "gini"
    aliases = ("gini_index",)
    larger_is_better = False

    among: str = parameter(
        "training",
        choices=("training", "items", "recommended"),
        doc="which items: those of the training data, those of the table of items, or those in any list",
    )
    denominator: str = parameter("items", choices=("items", "items_minus_1"), doc="n·Σ c, or (n − 1)·Σ c")

    def _value(self, exposure: Exposure) -> float:
        """The index, computed in whole numbers up to the last division."""
        weighted_sum, before = 0, 0
        counts, sizes = (part.tolist() for part in exposure.among(self.among))
        n = sum(sizes)
        places = sum(count * size for count, size in zip(counts, sizes, strict=True))
        divisor = n - (self.denominator == "items_minus_1")
        if not (places and divisor):
            return math.nan
        for count, size in zip(counts, sizes, strict=True):
            # Σ (2r − n − 1) over the ranks before+1 … before+size.
            weighted_sum += count * size * (2 * before + size - n)
            before += size
        return weighted_sum / (divisor * places)


class Entropy(CorpusMetric):
    """How evenly exposure is spread over items: Σ_i −p_i·log2 p_i, p_i = c_i ÷ Σ c.

    The number of users with item i in their first k places is c_i. From 0 up, in bits: 0 if one item has all the
    exposure, at most log2 of the number of items. NaN without predictions.

    Source: Shani, Gunawardana, Evaluating recommendation systems, Recommender Systems Handbook, 2011, formula 21
    (Shannon entropy); also called distributional coverage.
    """

    name = "entropy"
    aliases = ("exposure_entropy", "distributional_coverage", "shannon_entropy")
    value_range = (0.0, math.inf)

    def _value(self, exposure: Exposure) -> float:
        """The entropy."""
        counts, sizes = exposure.among(self.among)
        places = exposure.n_places
        if not places:
            return math.nan
        terms = zip(counts.tolist(), sizes.tolist(), strict=True)
        return math.fsum(size * (count / places) * math.log2(places / count) for count, size in terms)


class Personalisation(CorpusMetric):
    """How little two users' lists have in common: 1 − the mean of |R_u ∩ R_v| over all pairs of users ÷ the places of a list.

    The number of users with item i in their first k places is c_i. The pairs of n users share Σ_i c_i(c_i − 1)/2 items.
    The value is 1 − Σ_i c_i(c_i − 1) ÷ (n(n − 1)·d), where d is the mean of ρ_k, or k. Between 0 (all lists alike)
    and 1; lists of unequal lengths, which can share more than d items, have 0, too. NaN without predictions for two users.

    Source: Zhou and others, Solving the apparent diversity-accuracy dilemma of recommender systems, PNAS 2010: the
    mean of their Hamming distance.
    """

    name = "personalisation"
    aliases = ("personalization", "inter_user_diversity")

    denominator: str = parameter(
        "predictions", choices=("predictions", "k"), doc="the mean of min(k, ρ), the number of filled places, or k"
    )

    def _value(self, exposure: Exposure) -> float:
        """The complement of the overlap, computed in whole numbers up to the last division."""
        counts, sizes = (part.tolist() for part in exposure.among(self.among))
        n, places = exposure.n_users, exposure.n_places
        if n < 2:
            return math.nan
        shared = sum(count * (count - 1) * size for count, size in zip(counts, sizes, strict=True))
        slots = n * self.k if self.denominator == "k" and self.k is not None else places
        # Lists of unequal lengths can share more items than a list has on average.
        return max(0.0, 1 - shared / ((n - 1) * slots))
