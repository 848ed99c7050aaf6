"""Metrics of how much of the lists belongs to the long tail, the less popular items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from spark_rankeval.metrics.allowed import number
from spark_rankeval.metrics.base import Unset, parameter, ratio
from spark_rankeval.metrics.list_metric import ListMetric, ShareOfPlaces
from spark_rankeval.ranking.recommended import asked_for

if TYPE_CHECKING:
    from spark_rankeval.ranking.batch import RankingBatch
    from spark_rankeval.ranking.ragged import BoolArray, FloatArray
    from spark_rankeval.ranking.recommended import Fact, Recommended

__all__ = ["LongTailItems", "LongTailShare"]


@dataclass(frozen=True, kw_only=True)
class LongTailMetric(ListMetric):
    """A metric that parts items into a short head and a long tail by how many users of the training data have them."""

    facts: ClassVar[frozenset[Fact]] = frozenset({"popularity", "long_tail"})

    head: float | Unset = parameter(
        0.8,
        check=number(0, 1, what="a number between 0 and 1", open_low=True, open_high=True),
        doc="the share of all interactions, or of all items, that makes the short head",
    )
    head_of: str | Unset = parameter(
        "interactions",
        choices=("interactions", "items"),
        doc="what the head is a share of: interactions, in which a user has an item once, or items",
    )

    def _is_tail(self, recommended: Recommended) -> BoolArray:
        """Which items are in the long tail."""
        above = asked_for(recommended.share_above if self.head_of == "interactions" else recommended.items_above)
        tail: BoolArray = above >= float(self.head)  # type: ignore[arg-type]  # resolved
        return tail

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        defined = super()._is_defined(batch)
        return defined if self._recommended(batch).totals.training_items else np.zeros_like(defined)


@dataclass(frozen=True, kw_only=True)
class LongTailShare(LongTailMetric, ShareOfPlaces):
    """The share of items in the long tail: how many of the first k ÷ ρ_k. Its mean over users is APLT.

    Items are ordered by how many users of the training data have them. An item is in the short head if all more popular
    items together have less than 80% of the interactions (``head=0.8``). All others are in the long tail. So equally popular
    items are in one group, and items outside the training data are in the tail. With ``head_of="items"`` the head is that
    share of the items. Between 0 and 1; larger values spread attention. NaN without predictions, or without training data.

    Source: Abdollahpouri, Burke, Mobasher, Controlling popularity bias in learning-to-rank recommendation, RecSys 2017. The
    head of 80% is Elliot's. RecBole calls the share tail percentage.
    """

    name: ClassVar[str] = "long_tail_share"
    aliases: ClassVar[tuple[str, ...]] = ("aplt", "tail_percentage")

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = self._recommended(batch)
        tail = recommended.within(self.k) & self._is_tail(recommended)
        return ratio(recommended.count(tail), self._places(recommended))


@dataclass(frozen=True, kw_only=True)
class LongTailItems(LongTailMetric):
    """The number of items in the long tail: Σ_{j≤ρ_k} [the item at rank j is in the tail]. Its mean over users is ACLT.

    The long tail is that of ``long_tail_share``. The name ACLT stands for average coverage of long tail items, but its formula
    counts them, and has no share of the tail. From 0 up, at most k. NaN without predictions, or without training data.

    Source: Abdollahpouri, Burke, Mobasher, Managing popularity bias in recommender systems with personalized re-ranking,
    FLAIRS 2019.
    """

    name: ClassVar[str] = "long_tail_items"
    aliases: ClassVar[tuple[str, ...]] = ("aclt", "long_tail_count")
    value_range: ClassVar[tuple[float, float]] = (0.0, np.inf)

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = self._recommended(batch)
        tail = recommended.within(self.k) & self._is_tail(recommended)
        counts: FloatArray = recommended.count(tail).astype(np.float64)
        return counts
