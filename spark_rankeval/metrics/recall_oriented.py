"""Metrics for those who need every relevant item: how far down the last of them stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from spark_rankeval.metrics.base import RelevanceMetric, Unset, parameter, ratio
from spark_rankeval.metrics.gains import DISCOUNTS
from spark_rankeval.ranking.ragged import grouped

if TYPE_CHECKING:
    from spark_rankeval.ranking.batch import RankingBatch
    from spark_rankeval.ranking.ragged import FloatArray, IntArray, Ragged

__all__ = ["LexicographicRecall", "TotalSearchEfficiency"]


@dataclass(frozen=True, kw_only=True)
class LexicographicRecall(RelevanceMetric):
    """Recall, with ties broken by the lowest hit, then by the next lowest, and so on: (H_k − 1 + s) ÷ γ, 0 without a hit.

    There are C(k, H_k) ways to place so many hits in k places. The share of them that are no better than these is s. Of two
    ways, the better has the higher place for the lowest hit. If these are equal, the next lowest hits decide. So of two lists
    for a user, lexirecall prefers the one with the larger value: wins and losses in a comparison are its preferences. Values
    whose 15 digits agree are equal.

    Between 0 and 1, above (H_k − 1) ÷ γ and at most H_k ÷ γ, the recall. Without a cutoff k is ρ, so only lists of one length
    compare. NaN without a relevant label, 0 without predictions.

    Source: Diaz, Ekstrand, Mitra, Recall, robustness, and lexicographic evaluation, TORS 2025, for the order. They compare two
    lists and have no value for one.
    """

    name: ClassVar[str] = "lexirecall"
    aliases: ClassVar[tuple[str, ...]] = ("lexicographic_recall", "lexical_recall")
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def _values(self, batch: RankingBatch) -> FloatArray:
        hits = batch.hits(self.threshold)
        within = np.ones(len(hits.rank), np.bool_) if self.k is None else hits.rank <= self.k
        ranks = grouped(hits.rank[within], hits.user[within], batch.n_users)
        found = np.flatnonzero(ranks.lengths)
        places = batch.n_predictions if self.k is None else np.full(batch.n_users, self.k)
        values = np.zeros(batch.n_users)
        values[found] = ranks.lengths[found] - 1 + _share_no_better(ranks, found, places)
        return ratio(values, batch.n_relevant(self.threshold))


def _share_no_better(ranks: Ragged, users: IntArray, places: IntArray) -> FloatArray:
    """For some users with hits, the share of ways to place so many hits in so many places that are no better than these.

    Hit after hit from the lowest up, the ways that are left are parted into those with a lower hit, which are worse, those with a hit
    there, and the others. Each has its part of an interval. Parts never overlap, so rounding makes two ways equal at most.
    """
    low, high = np.zeros(len(users)), np.ones(len(users))
    left, last = ranks.lengths[users], places[users].astype(np.int64)
    for _ in range(int(left.max(initial=0))):
        some = np.flatnonzero(left)
        hit = ranks.values[ranks.offsets[users[some]] + left[some] - 1]
        start, stop, n_places, n_hits = low[some], high[some], last[some], left[some]
        for end, place in ((low, hit), (high, hit - 1)):
            end[some] = np.clip(start + (stop - start) * _share_lower(n_hits, n_places, place), start, stop)
        last[some], left[some] = hit - 1, n_hits - 1
    return high


def _share_lower(n_hits: IntArray, n_places: IntArray, place: IntArray) -> FloatArray:
    """The share of ways to place hits that have one lower than a place: 1 − C(place, hits) ÷ C(places, hits)."""
    n_lower = n_places - place
    few, many = np.minimum(n_hits, n_lower), np.maximum(n_hits, n_lower)
    which = np.repeat(np.arange(len(few)), few)
    nth = np.arange(len(which)) - np.repeat(np.cumsum(few) - few, few)
    # Without so many places above, no way has all hits there: log 0.
    with np.errstate(divide="ignore"):
        none = np.bincount(which, np.log1p(-many[which] / (n_places[which] - nth)), len(few))
    shares: FloatArray = -np.expm1(none)
    return shares


@dataclass(frozen=True, kw_only=True)
class TotalSearchEfficiency(RelevanceMetric):
    """What the rank of the last relevant item is worth, for somebody who needs them all: d(r_γ), 0 if the first k miss any.

    The rank of the lowest relevant item is r_γ. The discount d is 1/r, or 1 ÷ log2(r + 1) with ``discount="log2"``. Between 0
    and 1; a perfect list has d(γ). NaN without a relevant label, 0 without predictions.

    Source: Diaz, Ekstrand, Mitra, Recall, robustness, and lexicographic evaluation, TORS 2025, with any falling discount.
    """

    name: ClassVar[str] = "total_search_efficiency"
    aliases: ClassVar[tuple[str, ...]] = ("tse",)
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    discount: str | Unset = parameter(
        "reciprocal", choices=("reciprocal", "log2"), doc="what a rank r is worth: 1/r, or 1/log2(r + 1)"
    )

    def _values(self, batch: RankingBatch) -> FloatArray:
        hits, n_relevant = batch.hits(self.threshold), batch.n_relevant(self.threshold)
        # Where each occurrence of an item counts, the search ends with as many hits as there are relevant items.
        last = hits.ordinal == n_relevant[hits.user]
        if self.k is not None:
            last &= hits.rank <= self.k
        rank = hits.rank[last]
        values = np.zeros(batch.n_users)
        values[hits.user[last]] = DISCOUNTS["log2"](rank) if self.discount == "log2" else 1 / rank
        return values
