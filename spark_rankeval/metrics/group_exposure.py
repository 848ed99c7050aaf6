"""How much attention lists give to groups of items, such as providers, against what the groups are due.

Attention, groups and sums are those of `group_amounts`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, pairwise
from typing import ClassVar

import numpy as np

from spark_rankeval.metrics.base import Unset, parameter
from spark_rankeval.metrics.group_amounts import (
    AllListsAttentionMetric,
    GroupExposure,
    GroupMetric,
)
from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.user_lists import BoolArray, FloatArray, IntArray

__all__ = [
    "AWRF",
    "AttentionShare",
    "ExposureToMerit",
]


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

    target: str | Unset = parameter(
        "items",
        choices=("items", "relevance", "equal"),
        doc="what groups are due: by their items in the table, by the relevant labels, or the same for each group",
    )
    distance: str | Unset = parameter(
        "js",
        choices=("js", "js_nats", "tv"),
        doc="1 minus: Jensen-Shannon divergence in bits, the same in nats, or half the sum of absolute differences",
    )

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        exposed = self.has_any(batch, self.exposure_of(batch))
        if self.target == "relevance":
            return exposed & self.has_any(batch, self.relevance_of(batch))
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
    def due_by(self) -> str:
        """What the share is of, if not of the lists."""
        return "items" if self.of == "lists" else str(self.of)

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
