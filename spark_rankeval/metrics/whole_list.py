"""Metrics of the whole list: percentile rank, areas under curves, and how far down the last relevant items stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from spark_rankeval.checks import number
from spark_rankeval.metrics.base import UNSET, Reads, Unset, parameter
from spark_rankeval.metrics.gain_based import DISCOUNTS, geometric, geometric_sum
from spark_rankeval.metrics.kinds import RelevanceMetric, ratio
from spark_rankeval.ranking.batch import RankingBatch, tied_hits
from spark_rankeval.ranking.user_lists import Array, BoolArray, FloatArray, IntArray, Ragged, grouped

__all__ = ["AUC", "AUCPR", "LexicographicRecall", "PercentileRank", "TotalSearchEfficiency"]


@dataclass(frozen=True, kw_only=True)
class PercentileRank(RelevanceMetric):
    """How far down the list the relevant items stand: the mean over hits of (rank − 1) / (ρ − 1).

    Between 0 (all on top) and 1; lower is better, and a list in random order has 0.5 on average. A list of one item
    has 0. NaN without a hit, so also without predictions. Its mean over users is MPR.

    The source averages over all pairs of a user and an item, weighted by grades. With ``weighting="grades"`` a user's
    value is Σ g⁺·(rank − 1)/(ρ − 1) ÷ Σ g⁺ over hits, and its weight in the mean is Σ g⁺.

    Source: Hu, Koren, Volinsky, Collaborative filtering for implicit feedback datasets, ICDM 2008.
    """

    name: ClassVar[str] = "percentile_rank"
    aliases: ClassVar[tuple[str, ...]] = ("mpr", "mean_percentile_rank", "expected_percentile_rank")
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    takes_cutoff: ClassVar[bool] = False
    larger_is_better: ClassVar[bool] = False
    zero_without_predictions: ClassVar[bool] = False
    zero_without_hits: ClassVar[bool] = False

    weighting: str | Unset = parameter(
        "users", choices=("users", "grades"), doc="a mean over users, or over their hits, weighted by grades"
    )

    @property
    def normalises(self) -> bool:
        """A mean over pairs is the quotient of two sums over all users."""
        return self.weighting == "grades"

    @property
    def reads(self) -> Reads:
        """The weights may be the grades of hits."""
        return super().reads.but(items="gain") if self.normalises else super().reads

    def normaliser(self, batch: RankingBatch) -> FloatArray:
        """The sum of the weights of each user's hits."""
        hits = batch.hits(self.threshold)
        return batch.total(hits.user, self._weights(batch, hits.entry))

    def _weights(self, batch: RankingBatch, entry: IntArray) -> FloatArray:
        return np.maximum(batch.grade[entry], 0.0) if self.normalises else np.ones(len(entry))

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        return self.normaliser(batch) > 0

    def _values(self, batch: RankingBatch) -> FloatArray:
        hits = batch.hits(self.threshold)
        steps = batch.total(hits.user, (hits.rank - 1) * self._weights(batch, hits.entry))
        return ratio(steps, self.normaliser(batch) * (batch.n_predictions - 1))


@dataclass(frozen=True, kw_only=True)
class AUC(RelevanceMetric):
    """The area under the ROC curve: P(a relevant item of the list scores higher than another) + ½ P(equal scores).

    Between 0 and 1; 0.5 if all scores are equal, and on average for a list in random order. Lists without scores go by
    rank. NaN without a hit or without another item in the list, so also without predictions. The list is the candidate
    set: labels without a score do not count.

    With a decay below 1 rank j has the weight decay^(j−1). ``weighting="sample"`` weights both items of a pair, like
    scikit-learn's ``roc_auc_score(sample_weight=...)``. ``weighting="trapezoid"`` goes by rank and gives another number,
    Σ w_i·(FPR_{i+1} − FPR_i)·(TPR_i + TPR_{i+1})/2. The trapezoid between ranks i and i+1 has w_i = decay^(i−1).

    Source: Hanley, McNeil, The meaning and use of the area under a ROC curve, Radiology 1982.
    """

    name: ClassVar[str] = "auc"
    aliases: ClassVar[tuple[str, ...]] = ("roc_auc", "auc_roc", "auroc")
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    takes_cutoff: ClassVar[bool] = False
    zero_without_predictions: ClassVar[bool] = False
    zero_without_hits: ClassVar[bool] = False

    decay: float | Unset = parameter(
        1.0,
        check=number(0, 1, what="a number above 0 and up to 1", open_low=True),
        doc="w_j = decay^(j−1), the weight of rank j",
    )
    weighting: str | Unset = parameter(
        "sample", choices=("sample", "trapezoid"), doc="what the decay weights: items, or the trapezoids between ranks"
    )

    @property
    def reads(self) -> Reads:
        """Pairs of equal scores count half, in any order; trapezoids and a decay go by rank."""
        by_rank = self.weighting == "trapezoid"
        return super().reads.but(scores=not by_rank, tie_order=by_rank or self.decay not in (1, UNSET))

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        n_hits = batch.n_hits(None, self.threshold)
        return (n_hits > 0) & (n_hits < batch.n_predictions)

    def _values(self, batch: RankingBatch) -> FloatArray:
        decay = 1.0 if self.decay is UNSET else float(self.decay)
        if self.weighting == "trapezoid":
            return self._trapezoids(batch, decay)
        return self._pairs(batch) if decay == 1 else self._weighted_pairs(batch, decay)

    def _n_pairs(self, batch: RankingBatch) -> FloatArray:
        n_hits = batch.n_hits(None, self.threshold)
        return n_hits * (batch.n_predictions - n_hits)

    def _pairs(self, batch: RankingBatch) -> FloatArray:
        groups = tied_hits(batch, self.threshold)
        others = batch.n_predictions - batch.n_hits(None, self.threshold)
        above, equal = groups.above - groups.held_above, groups.size - groups.held
        twice_won = groups.held * (2 * (others[groups.user] - above) - equal)
        return ratio(batch.total(groups.user, twice_won.astype(np.float64)), 2 * self._n_pairs(batch))

    def _trapezoids(self, batch: RankingBatch, decay: float) -> FloatArray:
        hits = batch.hits(self.threshold)
        last = np.ones(len(hits.user), np.bool_)
        last[:-1] = hits.user[1:] != hits.user[:-1]
        following = np.append(hits.rank[1:], 0)
        following = np.where(last, batch.n_predictions[hits.user] + 1, following)
        # The curve moves right at each item that is no hit; between two hits it stays at the height of the upper one.
        weight = geometric(decay)(hits.rank) * geometric_sum(decay)(following - hits.rank - 1)
        return ratio(batch.total(hits.user, hits.ordinal * weight), self._n_pairs(batch))

    def _weighted_pairs(self, batch: RankingBatch, decay: float) -> FloatArray:
        hits, groups = batch.hits(self.threshold), tied_hits(batch, self.threshold)
        user, rank, n_hits = hits.user, hits.rank, batch.n_hits(None, self.threshold)
        first = hits.ordinal == 1
        last = hits.ordinal == n_hits[user]
        group = np.repeat(np.arange(len(groups.user)), groups.held)
        begin, end = groups.above[group], (groups.above + groups.size)[group]
        before_rank, before_end = (np.where(first, 0, np.append(0, column[:-1])[: len(user)]) for column in (rank, end))

        # Powers start at the first item of each class: the common factor cancels, and could be too small for a float.
        power, power_sum = geometric(decay), geometric_sum(decay)
        first_hit = np.zeros(batch.n_users, np.int64)
        first_hit[user[first]] = rank[first]
        first_other = 1 + np.bincount(user[rank == hits.ordinal], minlength=batch.n_users)

        def others(after: IntArray, stop: IntArray, where: BoolArray | None = None) -> FloatArray:
            """The weight of a stretch of ranks without hits; 0 for an empty one."""
            count = np.maximum(stop - after, 0) if where is None else np.where(where, np.maximum(stop - after, 0), 0)
            return power(np.maximum(after + 2 - first_other[user], 1)) * power_sum(count)

        weight = power(rank - first_hit[user] + 1)
        weight_so_far = grouped(weight, user, batch.n_users).accumulated(np.add).values
        weight_before = np.where(first, 0.0, np.append(0.0, weight_so_far[:-1])[: len(user)])
        above_group = weight_before[groups.start][group]
        group_weight = np.bincount(group, weight, len(groups.user))[group]
        group_ends = np.ones(len(user), np.bool_)
        group_ends[:-1] = group[1:] != group[:-1]

        higher = others(before_end, begin)
        equal = others(np.maximum(before_rank, begin), rank - 1) + others(rank, end, group_ends)
        lower = others(end, batch.n_predictions[user], last)
        won = higher * above_group + equal * (above_group + group_weight / 2) + lower * weight_so_far
        pairs = batch.total(user, weight) * batch.total(user, higher + equal + lower)
        return ratio(batch.total(user, won), pairs)


@dataclass(frozen=True, kw_only=True)
class AUCPR(RelevanceMetric):
    """The area under the precision-recall curve, by trapezoids.

    The points are (0, 1), then (H_j/γ, H_j/j) at the last rank j of each distinct score. Between 0 and 1; average
    precision is less optimistic than these straight lines. NaN without a relevant label, 0 without a hit. With
    ``recall="hits"`` recall is the share of the relevant items in the list, as in scikit-learn's
    ``precision_recall_curve``. It is then NaN without a hit, so also without predictions.

    Source: Davis, Goadrich, The relationship between precision-recall and ROC curves, ICML 2006.
    """

    name: ClassVar[str] = "auc_pr"
    aliases: ClassVar[tuple[str, ...]] = ("pr_auc", "aucpr", "auprc")
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    takes_cutoff: ClassVar[bool] = False
    zero_without_predictions: ClassVar[bool] = False
    zero_without_hits: ClassVar[bool] = False

    recall: str | Unset = parameter(
        "labels", choices=("labels", "hits"), doc="what recall divides by: γ, or the relevant items in the list"
    )

    @property
    def reads(self) -> Reads:
        """Points are where the score changes; the order of equal scores does not matter."""
        return super().reads.but(scores=True, tie_order=False)

    def _n_to_find(self, batch: RankingBatch) -> Array:
        return batch.n_hits(None, self.threshold) if self.recall == "hits" else batch.n_relevant(self.threshold)

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        return self._n_to_find(batch) > 0

    def _values(self, batch: RankingBatch) -> FloatArray:
        groups = tied_hits(batch, self.threshold)
        before = np.where(groups.above == 0, 1.0, groups.held_above / np.maximum(groups.above, 1))
        after = (groups.held_above + groups.held) / (groups.above + groups.size)
        return ratio(batch.total(groups.user, groups.held * (before + after) / 2), self._n_to_find(batch))


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
        with_hits = np.flatnonzero(ranks.lengths)
        places = batch.n_predictions if self.k is None else np.full(batch.n_users, self.k)
        values = np.zeros(batch.n_users)
        values[with_hits] = ranks.lengths[with_hits] - 1 + _share_no_better(ranks, with_hits, places)
        return ratio(values, batch.n_relevant(self.threshold))


def _share_no_better(ranks: Ragged, users: IntArray, places: IntArray) -> FloatArray:
    """For some users with hits, the share of ways to place so many hits in so many places that are no better than these.

    Hit after hit from the lowest up, the remaining ways are parted. Some have a lower hit and are worse, some have a hit
    there, and the others. Each has its part of an interval. Parts never overlap, so rounding makes two ways equal at most.
    """
    low, high = np.zeros(len(users)), np.ones(len(users))
    left, last = ranks.lengths[users], places[users].astype(np.int64)
    for _ in range(int(left.max(initial=0))):
        unfinished = np.flatnonzero(left)
        hit = ranks.values[ranks.offsets[users[unfinished]] + left[unfinished] - 1]
        start, stop, n_places, n_hits = low[unfinished], high[unfinished], last[unfinished], left[unfinished]
        for end, rank in ((low, hit), (high, hit - 1)):
            end[unfinished] = np.clip(start + (stop - start) * _share_lower(n_hits, n_places, rank), start, stop)
        last[unfinished], left[unfinished] = hit - 1, n_hits - 1
    return high


def _share_lower(n_hits: IntArray, n_places: IntArray, rank: IntArray) -> FloatArray:
    """The share of ways to place hits that have one lower than a place: 1 − C(place, hits) ÷ C(places, hits)."""
    n_lower = n_places - rank
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
    """What the rank of the last relevant item is worth, for a user who needs them all: d(r_γ), 0 if the first k miss any.

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
