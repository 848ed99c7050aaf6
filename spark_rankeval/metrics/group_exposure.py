"""How much attention lists give to groups of items, such as providers, against what the groups are due.

Attention, groups and sums are those of `group_amounts`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, pairwise
from typing import ClassVar

import numpy as np

from spark_rankeval.metrics.base import Unset, parameter
from spark_rankeval.metrics.group_amounts import (
    AllListsAttentionMetric,
    GroupAmounts,
    GroupExposure,
    GroupMetric,
    shares_due,
)
from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.lists import BoolArray, FloatArray, IntArray

__all__ = [
    "AWRF",
    "AmortisedAWRF",
    "AttentionShare",
    "DisparateTreatmentRatio",
    "ExpectedExposureDisparity",
    "ExpectedExposureLoss",
    "ExpectedExposureRelevance",
    "ExposureToMerit",
]


TARGETS = ("items", "relevance", "equal")
_TARGET = "what groups are due: by their items in the table, by the relevant labels, or the same for each group"
_DISTANCE = "1 minus: Jensen-Shannon divergence in bits, the same in nats, or half the sum of absolute differences"


def _terms(distance: str | Unset, has: float, due: float) -> tuple[float, float]:
    """The two terms that a group adds to the distance of two distributions; its shares are not both 0."""
    if distance == "tv":
        return abs(has - due), 0.0
    has_term, due_term = (share * math.log2(2 * share / (has + due)) if share > 0 else 0.0 for share in (has, due))
    return has_term, due_term


def _similarity(distance: str | Unset, terms: Sequence[float], elsewhere: float) -> float:
    """1 − the distance of two distributions, from what groups add; `elsewhere` is where the first has none."""
    if distance == "tv":
        return 1 - (math.fsum(terms) + elsewhere) / 2
    divergence = max(0.0, math.fsum((elsewhere, *terms))) / 2
    return 1 - divergence * (math.log(2) if distance == "js_nats" else 1)


@dataclass(frozen=True, kw_only=True)
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

    name: ClassVar[str] = "awrf"
    aliases: ClassVar[tuple[str, ...]] = ("attention_weighted_rank_fairness",)

    target: str | Unset = parameter("items", choices=TARGETS, doc=_TARGET)
    distance: str | Unset = parameter("js", choices=("js", "js_nats", "tv"), doc=_DISTANCE)

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        exposed = self.has_any(batch, self.exposure_of(batch))
        if self.target == "relevance":
            return exposed & self.has_any(batch, self.relevance_of(batch))
        return exposed & bool(self.groups_of(batch).equal(apart=self.is_apart).any())

    def _values(self, batch: RankingBatch) -> FloatArray:
        n_groups = self.groups_of(batch).n_groups
        exposure = self.exposure_of(batch).shares(batch.n_users)
        cell = exposure.user * n_groups + exposure.group
        if self.target == "relevance":
            due = self.relevance_of(batch).shares(batch.n_users)
            cells = np.union1d(cell, due.user * n_groups + due.group)
            due_shares = _spread_over(cells, due.user * n_groups + due.group, due.amount)
        else:
            cells = cell
            due_shares = shares_due(self.groups_of(batch), self.target, apart=self.is_apart)[exposure.group]
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


@dataclass(frozen=True, kw_only=True)
class AmortisedAWRF(AllListsAttentionMetric):
    """Attention-weighted rank fairness of all lists together: 1 − Δ(p, q), with p_g = Σ_u a_ug ÷ Σ_h Σ_u a_uh of the attention a.

    The attention that user u's list gives to group g is a_ug, and q_g is the share that g is due. What one list gives too little
    another may make up for. Attention, targets and distances are those of `AWRF`. With
    ``target="relevance"``, q are the groups' shares of all relevant labels. Both distributions are then of users with an item of
    any group in the first k places and a relevant label of such an item. Between 0 and 1: 1 if each group gets what it is due.
    NaN without predictions of items with a group, and if nothing is due.

    Source: Biega, Gummadi, Weikum, Equity of attention: amortizing individual fairness in rankings, SIGIR 2018, for the sum over
    rankings; the distance as in `AWRF`: Sapiezynski and others, WWW 2019.
    """

    name: ClassVar[str] = "amortised_awrf"
    aliases: ClassVar[tuple[str, ...]] = ("amortized_awrf",)

    target: str | Unset = parameter("items", choices=TARGETS, doc=_TARGET)
    distance: str | Unset = parameter("js", choices=("js", "js_nats", "tv"), doc=_DISTANCE)

    @property
    def due_by(self) -> str | Unset:
        """The target."""
        return self.target

    def _value(self, groups: GroupExposure) -> float:
        """The similarity of both distributions."""
        pairs = list(groups.shares().values())
        if not pairs or any(math.isnan(share) for pair in pairs for share in pair):
            return math.nan
        return _similarity(self.distance, [term for pair in pairs for term in _terms(self.distance, *pair)], 0.0)


@dataclass(frozen=True, kw_only=True)
class ExpectedExposureMetric(AllListsAttentionMetric):
    """What groups get in a list on average, ε_g, against what they would get of an ideal policy, ε*_g."""

    value_range: ClassVar[tuple[float, float]] = (0.0, math.inf)

    counted: str | Unset = parameter(
        "all", choices=("all", "relevant"), doc="the items whose attention counts for ε: all, or the relevant ones"
    )

    @property
    def counted_as(self) -> Hashable:
        """The attention of lists, and that of ideal lists."""
        return ("ideal", self.counted, self.discount, self.p, self.k, self.unknown, self.threshold)

    def amounts(self, batch: RankingBatch) -> GroupAmounts:
        """The attention of lists, and that of ideal lists, of users with a list and a relevant label of an item with a group."""
        # The ideal list's first k may hold no such label, and the user counts all the same.
        labelled = self.has_any(batch, self.relevance_of(batch))
        counted = labelled & (self._recommended(batch).n_within(self.k) > 0)
        return GroupAmounts(counted, self.exposure_of(batch, relevant=self.counted == "relevant"), self.ideal_of(batch))

    def _value(self, groups: GroupExposure) -> float:
        """The sum over groups."""
        if not groups.n_users:
            return math.nan
        n = groups.n_users
        return math.fsum(
            self._term(groups.exposure.get(name, 0.0) / n, groups.due.get(name, 0.0) / n) for name in groups.names
        )

    @abstractmethod
    def _term(self, has: float, due: float) -> float:
        """What a group adds."""


@dataclass(frozen=True, kw_only=True)
class ExpectedExposureLoss(ExpectedExposureMetric):
    """How far groups are from the exposure that an ideal policy gives them: EE-L = Σ_g (ε_g − ε*_g)².

    The mean attention that a list gives to group g is ε_g. An ideal policy draws a user's relevant labels in any order that puts
    higher grades first, and keeps k; its expected attention is ε*_g. So equal items are due the same. With one ranking a user this
    is the loss of groups over all users; that of single items would say little. From 0 up, in squared units of attention; smaller
    is better. EE-L = EE-D − 2·EE-R + Σ_g ε*_g². NaN without a user who has a list and a relevant label of an item with a group.

    Source: Diaz, Mitra, Ekstrand, Biega, Carterette, Evaluating stochastic rankings with expected exposure, CIKM 2020. For groups
    over a sequence of rankings: Raj, Ekstrand, SIGIR 2022; TREC Fair Ranking Track 2021. Since 2022 the track counts relevant items
    alone (``counted="relevant"``).
    """

    name: ClassVar[str] = "ee_loss"
    aliases: ClassVar[tuple[str, ...]] = ("ee_l", "eel", "expected_exposure_loss")
    larger_is_better: ClassVar[bool] = False

    def _term(self, has: float, due: float) -> float:
        return (has - due) ** 2


@dataclass(frozen=True, kw_only=True)
class ExpectedExposureDisparity(ExpectedExposureMetric):
    """How unequally exposure is spread over groups: EE-D = Σ_g ε_g², ε_g the mean attention that a list gives to group g.

    It is least if all groups get the same, whatever they are due; read it beside EE-R. From 0 up, in squared units of attention;
    smaller is better. The users are those of `ExpectedExposureLoss`. NaN without any.

    Source: Diaz, Mitra, Ekstrand, Biega, Carterette, Evaluating stochastic rankings with expected exposure, CIKM 2020.
    """

    name: ClassVar[str] = "ee_disparity"
    aliases: ClassVar[tuple[str, ...]] = ("ee_d", "eed", "expected_exposure_disparity")
    larger_is_better: ClassVar[bool] = False

    def _term(self, has: float, due: float) -> float:
        return has**2


@dataclass(frozen=True, kw_only=True)
class ExpectedExposureRelevance(ExpectedExposureMetric):
    """How far exposure goes to the groups that are due it: EE-R = Σ_g ε_g·ε*_g, with the attention of `ExpectedExposureLoss`.

    From 0 up, in squared units of attention; larger is better. The users are those of `ExpectedExposureLoss`. NaN without any.

    Source: Diaz, Mitra, Ekstrand, Biega, Carterette, Evaluating stochastic rankings with expected exposure, CIKM 2020.
    """

    name: ClassVar[str] = "ee_relevance"
    aliases: ClassVar[tuple[str, ...]] = ("ee_r", "eer", "expected_exposure_relevance")

    def _term(self, has: float, due: float) -> float:
        return has * due


def _name_of_group(value: object) -> str | None:
    return None if value is None or isinstance(value, str) else "the name of a group in quotes, or None"


@dataclass(frozen=True, kw_only=True)
class AttentionShare(AllListsAttentionMetric):
    """The share of all attention that a group gets: Σ_u Σ_{j≤k, i_j in g} d(j) ÷ Σ_u Σ_{j≤k} d(j), of items with a group.

    With ``of="relevance"`` it is the group's share of all relevant labels, of the users of `ExposureToMerit`. With
    ``of="items"`` it is that of the table of items. Between 0 and 1. Without a ``group`` the largest share of any. A group that
    gets nothing has 0, also if no item has it, which is a warning. NaN without predictions of items with a group, and with
    ``of="relevance"`` without such users.

    Source: Singh, Joachims, Fairness of exposure in rankings, KDD 2018. Without a group the dominance index of Berger, Parker,
    Diversity of planktonic foraminifera in deep-sea sediments, Science 1970.
    """

    name: ClassVar[str] = "attention_share"

    group: str | Unset | None = parameter(
        None, check=_name_of_group, doc="the name of a group; None: the one with the largest share"
    )
    of: str | Unset = parameter(
        "lists",
        choices=("lists", "relevance", "items"),
        doc="the share of the lists' attention, of labels, or of items",
    )

    @property
    def chosen_group(self) -> str | None:
        """The name of the group; None: the one with the largest share."""
        return None if self.group is None else str(self.group)

    @property
    def due_by(self) -> str | Unset:
        """What the share is of, if not of the lists."""
        return "items" if self.of == "lists" else self.of

    def _value(self, groups: GroupExposure) -> float:
        """The share of the group."""
        shares = {name: pair[0 if self.of == "lists" else 1] for name, pair in groups.shares().items()}
        if not shares or any(map(math.isnan, shares.values())):
            return math.nan
        return max(shares.values()) if self.chosen_group is None else shares.get(self.chosen_group, 0.0)


@dataclass(frozen=True, kw_only=True)
class ExposureToMerit(AllListsAttentionMetric):
    """A group's share of all attention ÷ its share of all relevant labels: 1 if it gets what it earns, 0.5 for half of that.

    Merit is what the labels say: γ_g ÷ Σ_h γ_h, where γ_g counts the relevant labels of items of group g. Users have an item of any
    group in the first k places, and a relevant label of such an item. From 0 up. Without a ``group`` the smallest ratio of any group
    with a relevant label, the one that is treated worst. NaN without such users, and for a group without a relevant label; if no
    item has the group, that is a warning.

    Source: Singh, Joachims, Fairness of exposure in rankings, KDD 2018 (disparate treatment: exposure ÷ utility of a group).
    """

    name: ClassVar[str] = "exposure_to_merit"
    by_labels: ClassVar[bool] = True
    value_range: ClassVar[tuple[float, float]] = (0.0, math.inf)

    group: str | Unset | None = parameter(
        None, check=_name_of_group, doc="the name of a group; None: the one with the smallest ratio"
    )

    @property
    def chosen_group(self) -> str | None:
        """The name of the group; None: the one with the smallest ratio."""
        return None if self.group is None else str(self.group)

    def _value(self, groups: GroupExposure) -> float:
        """The ratio of the group."""
        ratios = groups.ratios()
        return (
            min(ratios.values(), default=math.nan)
            if self.chosen_group is None
            else ratios.get(self.chosen_group, math.nan)
        )


@dataclass(frozen=True, kw_only=True)
class DisparateTreatmentRatio(AllListsAttentionMetric):
    """How alike groups' exposure for the same merit is: the smallest ÷ the largest ratio of `ExposureToMerit` over the groups.

    Between 0 and 1: 1 if attention per relevant label is the same in all groups. Groups without a relevant label have no ratio and
    are left out; their attention counts. NaN if fewer than two groups have one, or if no such group gets any.

    Source: Singh, Joachims, Fairness of exposure in rankings, KDD 2018 (DTR of two groups, here of the two that differ most).
    """

    name: ClassVar[str] = "disparate_treatment_ratio"
    aliases: ClassVar[tuple[str, ...]] = ("dtr",)
    by_labels: ClassVar[bool] = True

    def _value(self, groups: GroupExposure) -> float:
        """The smallest ratio over the largest."""
        ratios = list(groups.ratios().values())
        return min(ratios) / max(ratios) if len(ratios) > 1 and max(ratios) > 0 else math.nan
