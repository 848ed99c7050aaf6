"""Metrics of groups of items: which share of a list's hits, and of its exposure, a group has."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from spark_rankeval.metrics.base import RelevanceMetric, Unset, parameter
from spark_rankeval.metrics.gains import DISCOUNTS
from spark_rankeval.metrics.list_metric import ListMetric
from spark_rankeval.ranking.batch import is_relevant

if TYPE_CHECKING:
    from spark_rankeval.ranking.batch import RankingBatch
    from spark_rankeval.ranking.ragged import BoolArray, FloatArray, IntArray
    from spark_rankeval.ranking.recommended import Recommended

__all__ = ["ExposureShare", "HitShare"]


@dataclass(frozen=True, kw_only=True)
class GroupShare(ListMetric):
    """What the items of a group have of a sum over the first k places; all items together have 1."""

    shared: ClassVar[str] = ""  # what is shared, in words

    def of_groups(self, recommended: Recommended, item: IntArray, group: IntArray, n_groups: int) -> FloatArray:
        """The share of each user and group; float64 (n_users · n_groups,), NaN if there is nothing to share.

        Args:
            recommended: the items of the lists.
            item: int64, an item of the lists for each membership, in the order of the items.
            group: int64, the group that it is in, from 0.
            n_groups: how many groups there are.
        """
        weights = self._weights(recommended)
        whole = np.repeat(np.bincount(recommended.user, weights, recommended.n_users), n_groups)
        place = recommended.user[item] * n_groups + group
        part = np.bincount(place, weights[item], recommended.n_users * n_groups)
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
