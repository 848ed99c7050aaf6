"""Metrics of where the relevant items stand, and of precision and recall together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from spark_rankeval.checks import as_text, number, problem_of_numbers, read_numbers
from spark_rankeval.errors import MetricError
from spark_rankeval.metrics.base import UNSET, Reads, Unset, parameter
from spark_rankeval.metrics.expected_values import TieAwareMetric, draws, summed_over_places
from spark_rankeval.metrics.gain_based import geometric, geometric_sum
from spark_rankeval.metrics.kinds import RelevanceMetric, findable, ratio
from spark_rankeval.metrics.set_based import FBeta
from spark_rankeval.ranking.batch import Hits, RankingBatch, TiedGroups, retrieved, tied_hits
from spark_rankeval.ranking.user_lists import Array, FloatArray, IntArray, Ragged, grouped, offsets_of

__all__ = ["FAP", "AveragePrecision", "ElevenPointPrecision", "InterpolatedPrecision", "ReciprocalRank"]

_DENOMINATORS = ("hits", "labels", "min_k_labels", "min_k_predictions", "min_labels_predictions", "k")


@dataclass(frozen=True, kw_only=True)
class AveragePrecision(TieAwareMetric):
    """The precision at the rank of each hit, summed over the first k places and divided by a number of relevant items.

    Σ_{j≤ρ_k} w_j·h_j·H_j/j ÷ D. Systems differ in D; by default it is the number of hits in the first k places. Between 0
    and 1. Its mean over users is MAP. NaN without a relevant label, 0 without predictions or a hit.

    With ``by="threshold"`` every item of a group of equal scores has the precision at the group's last rank, as in
    scikit-learn's ``average_precision_score``. This takes the whole list. It is not the mean over the orders of equal
    scores, which is ``ties="average"``.

    ``decay`` or ``weights`` gives ranks weights. By rank, a weight multiplies the hit's precision, and D is γ. By
    threshold, it counts in precision and in recall, like a ``sample_weight`` by rank in scikit-learn. D is then the
    weight of the hits, and the order of equal scores matters.

    Source: Manning, Raghavan, Schütze, Introduction to Information Retrieval, 2008, section 8.4.

    Raises:
        MetricError: weights together with a decay, with a denominator other than the labels (by threshold: the hits),
            or by threshold with averages over ties; a cutoff by threshold.
    """

    name: ClassVar[str] = "ap"
    aliases: ClassVar[tuple[str, ...]] = ("map", "average_precision", "mean_average_precision", "averageprecision")

    denominator: str | Unset = parameter(
        "hits",
        choices=_DENOMINATORS,
        doc="D: H_k, γ, min(k, γ), min(k, ρ), min(γ, min(k, ρ)), or k (ρ without a cutoff)",
    )
    decay: float | Unset = parameter(
        1.0,
        check=number(0, 1, what="a number above 0 and up to 1", open_low=True),
        doc="w_j = decay^(j−1), the weight of the hit at rank j",
    )
    weights: str | Unset | None = parameter(
        None,
        check=lambda value: problem_of_numbers(
            value, "numbers from 0 on, not all 0, for the ranks 1, 2, … as in '1,0.5,0.25', or None"
        ),
        doc="w_j for the ranks 1, 2, …, as '1,0.5,0.25'; the last one is for all ranks beyond; None: as decay says",
    )
    by: str | Unset = parameter("rank", choices=("rank", "threshold"), doc="one point per rank, or per distinct score")

    @property
    def reads(self) -> Reads:
        """By threshold the order of equal scores does not matter, unless ranks have weights."""
        reads = super().reads
        if self.by != "threshold":
            return reads
        return reads.but(scores=True, tie_order=self._weighs and reads.tie_order)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self._is_listed:
            object.__setattr__(self, "weights", as_text(self.weights))

    @property
    def bounds(self) -> tuple[float, float]:
        """By rank, a weight above 1 makes a hit worth more than its precision."""
        by_rank = self._is_listed and self.by != "threshold"
        return 0.0, max(1.0, *read_numbers(self.weights)) if by_rank else 1.0

    @property
    def _is_listed(self) -> bool:
        return self.weights is not UNSET and self.weights is not None

    @property
    def _weighs(self) -> bool:
        return self._is_listed or (self.decay is not UNSET and self.decay < 1)

    def _check_together(self) -> None:
        super()._check_together()
        if self._weighs:
            self._check_weights()
        if self.by == "threshold" and self.k is not None:
            msg = f"ap: by='threshold' needs the whole list, without a cutoff; got k={self.k!r}"
            raise MetricError(msg)

    def _check_weights(self) -> None:
        weights = f"weights={self.weights!r}" if self._is_listed else f"decay={self.decay!r}"
        if self._is_listed and self.decay not in (1, UNSET):
            msg = f"ap: weights and decay cannot be combined; got {weights}, decay={self.decay!r}"
            raise MetricError(msg)
        wanted = "hits" if self.by == "threshold" else "labels"
        if self.denominator not in (wanted, UNSET):
            name = "weights" if self._is_listed else "a decay below 1"
            by = " by threshold" * (self.by == "threshold")
            msg = f"ap: {name}{by} needs denominator={wanted!r}; got {weights}, denominator={self.denominator!r}"
            raise MetricError(msg)
        if self.by == "threshold" and self.averages_ties:
            msg = (
                f"ap: by='threshold' with weights by rank has no average over the orders of equal scores; got {weights}, "
                "ties='average'"
            )
            raise MetricError(msg)

    def _values(self, batch: RankingBatch) -> FloatArray:
        hits = batch.hits(self.threshold)
        if self.by == "threshold":
            return self._by_threshold(batch, hits)
        if self.averages_ties:
            return self._mean_over_orders(batch)
        precision = batch.remember(("precision at hits", self.threshold), lambda: hits.ordinal / hits.rank)
        if self._weighs:
            precision = precision * self._weight(hits.rank)
        within = None if self.k is None else hits.rank <= self.k
        return ratio(batch.total(hits.user, precision, within), self._denominator(batch))

    def _by_threshold(self, batch: RankingBatch, hits: Hits) -> FloatArray:
        """AP if every hit has the precision at the last rank of its score."""
        last = batch.tied_above[hits.entry] + batch.tied[hits.entry]
        # Hits of one group are neighbours; the ordinal of the last hit is H at the group's last rank.
        following = np.ones(len(last), np.bool_)
        following[:-1] = (hits.user[1:] != hits.user[:-1]) | (last[1:] != last[:-1])
        group_end = np.flatnonzero(following)
        end = group_end[np.searchsorted(group_end, np.arange(len(last)))]
        if not self._weighs:
            return ratio(batch.total(hits.user, hits.ordinal[end] / last), self._denominator(batch))
        first = hits.ordinal == 1
        start = np.ones(batch.n_users, np.int64)
        if not self._is_listed:
            # Powers start at the first hit: the common factor cancels, and could be too small for a float.
            start[hits.user[first]] = hits.rank[first]
        weight = self._weight(hits.rank - start[hits.user] + 1)
        weighted_hits = grouped(weight, hits.user, batch.n_users).accumulated(np.add).values[end]
        if not self._is_listed:
            weighted_hits = weighted_hits * self._weight(start)[hits.user]
        precision = ratio(weighted_hits, self._weight_down_to(last))
        return ratio(batch.total(hits.user, weight * precision), batch.total(hits.user, weight))

    def _weight(self, rank: IntArray) -> FloatArray:
        if self._is_listed:
            listed = np.array(read_numbers(self.weights))
            weight: FloatArray = listed[np.minimum(rank, len(listed)) - 1]
            return weight
        return geometric(float(self.decay))(rank)  # type: ignore[arg-type]  # called only if it is a number

    def _weight_down_to(self, rank: IntArray) -> FloatArray:
        """The total weight of the ranks up to each `rank`."""
        if not self._is_listed:
            return geometric_sum(float(self.decay))(rank)  # type: ignore[arg-type]  # the same
        listed = np.array(read_numbers(self.weights))
        within = np.minimum(rank, len(listed))
        total: FloatArray = np.cumsum(listed)[within - 1] + (rank - within) * listed[-1]
        return total

    def _mean_over_orders(self, batch: RankingBatch) -> FloatArray:
        """The expected value over all orders of tied items."""
        groups = tied_hits(batch, self.threshold)
        within = groups.places_within(self.k)
        if self.denominator != "hits":
            # No other denominator depends on the order.
            return ratio(batch.total(groups.user, self._expected_precision(groups, within)), self._denominator(batch))
        cut = (within > 0) & (within < groups.size)
        precision = batch.total(groups.user, self._expected_precision(groups, np.where(cut, 0, within)))
        values = ratio(precision, self._denominator(batch))
        # If k cuts a group after m places, the value depends on how many hits these hold. The hits then stand in them at
        # random, as in a group of m.
        split, places = groups.where(cut), within[cut]
        top = draws(split.size, split.held, places)
        case, hits = top.case, top.marked
        each = summed_over_places(places, lambda group, j: 1 / (split.above[group] + j))
        shifts = summed_over_places(places, lambda group, j: (j - 1) / (split.above[group] + j))
        before = split.held_above[case]
        expected = (before + 1) * each[case] + (hits - 1) / np.maximum(places - 1, 1)[case] * shifts[case]
        expected = precision[split.user][case] + hits / places[case] * expected
        values[split.user] = top.expected(ratio(expected, before + hits))
        return values

    def _expected_precision(self, groups: TiedGroups, places: IntArray) -> FloatArray:
        """Σ_j (s/t)·w·(C + 1 + (j−1)(s−1)/(t−1))/(a+j) over the first places of each group, whose first rank is a+1."""
        other_hits = (groups.held - 1) / np.maximum(groups.size - 1, 1)

        def precision(group: IntArray, j: IntArray) -> FloatArray:
            rank = groups.above[group] + j
            expected = (groups.held_above[group] + 1 + (j - 1) * other_hits[group]) / rank
            return expected * self._weight(rank) if self._weighs else expected

        return groups.held / groups.size * summed_over_places(places, precision)

    def _denominator(self, batch: RankingBatch) -> Array | float:
        match self.denominator:
            case "labels":
                return batch.n_relevant(self.threshold)
            case "min_k_labels":
                return findable(batch, self.k, self.threshold)
            case "min_k_predictions":
                return retrieved(batch, self.k)
            case "min_labels_predictions":
                return np.minimum(batch.n_relevant(self.threshold), retrieved(batch, self.k))
            case "k":
                return batch.n_predictions if self.k is None else float(self.k)
            case _:
                return batch.n_hits(self.k, self.threshold)


@dataclass(frozen=True, kw_only=True)
class ReciprocalRank(TieAwareMetric):
    """1 ÷ the rank of the first relevant item, 0 if none stands in the first k places. Its mean over users is MRR.

    Between 0 and 1. NaN without a relevant label, 0 without predictions.

    Source: Voorhees, The TREC-8 question answering track report, 1999.
    """

    name: ClassVar[str] = "rr"
    aliases: ClassVar[tuple[str, ...]] = ("mrr", "reciprocal_rank", "mean_reciprocal_rank", "recip_rank")

    def _values(self, batch: RankingBatch) -> FloatArray:
        if self.averages_ties:
            return self._mean_over_orders(batch)
        values = batch.remember(("reciprocal of first hit", self.threshold), lambda: self._first_reciprocal(batch))
        # 1/j falls with j, so that only the ranks up to k have at least 1/k.
        return values if self.k is None else np.where(values >= 1 / self.k, values, 0.0)

    def _first_reciprocal(self, batch: RankingBatch) -> FloatArray:
        hits = batch.hits(self.threshold)
        first = hits.ordinal == 1
        values = np.zeros(batch.n_users)
        values[hits.user[first]] = 1 / hits.rank[first]
        return values

    def _mean_over_orders(self, batch: RankingBatch) -> FloatArray:
        """Σ_{j=1..t−s+1} [C(t−j, s−1)/C(t, s)]/(a+j) in the first group with a hit, over the places up to k."""
        groups = tied_hits(batch, self.threshold)
        groups = groups.where((groups.held_above == 0) & (groups.places_within(self.k) > 0))
        places = np.minimum(groups.places_within(self.k), groups.size - groups.held + 1)

        def expected(group: IntArray, j: IntArray) -> FloatArray:
            size, held = groups.size[group], groups.held[group]
            # The first hit is at place 1 with probability s/t; each later place has a share of the probability before it.
            share = np.where(j == 1, held / size, (size - held - j + 2) / (size - j + 1))
            chances = grouped(share, group - group[0], group[-1] - group[0] + 1).accumulated(np.multiply)
            reciprocal: FloatArray = chances.values / (groups.above[group] + j)
            return reciprocal

        values = np.zeros(batch.n_users)
        values[groups.user] = summed_over_places(places, expected)
        return values


def _ceil(recall: float, relevant: IntArray) -> FloatArray:
    n: FloatArray = np.ceil(recall * relevant)
    # 0.07 · 100 is 7.000000000000001 in doubles; 7 / 100 is 0.07 again.
    return np.where((n - 1) / np.maximum(relevant, 1) >= recall, n - 1, n)


def _floor_plus(recall: float, relevant: IntArray) -> FloatArray:
    n: FloatArray = np.floor(recall * relevant + 0.9)
    return n


def _half_away(recall: float, relevant: IntArray) -> FloatArray:
    exact = recall * relevant
    below: FloatArray = np.floor(exact)
    return below + (exact - below >= 0.5)


ROUNDINGS: dict[str, Callable[[float, IntArray], FloatArray]] = {
    "ceil": _ceil,
    "floor_plus_0.9": _floor_plus,
    "half_away": _half_away,
}
"""n(r), how many hits make a recall of r, by the name of its rounding."""


@dataclass(frozen=True, kw_only=True)
class InterpolatingMetric(RelevanceMetric):
    """A metric of interpolated precision."""

    takes_cutoff: ClassVar[bool] = False
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    rounding: str | Unset = parameter(
        "ceil",
        choices=tuple(ROUNDINGS),
        doc="n(r): ⌈r·γ⌉, ⌊r·γ + 0.9⌋ in doubles (trec_eval 9), or r·γ rounded half away from 0 (trec_eval 10)",
    )

    def _interpolated(self, batch: RankingBatch, recall: float) -> FloatArray:
        """The highest precision at a hit from the n(r)-th on: between hits precision only falls."""
        rounding = "ceil" if isinstance(self.rounding, Unset) else self.rounding
        needed = np.maximum(ROUNDINGS[rounding](recall, batch.n_relevant(self.threshold)), 1).astype(np.int64)
        best = batch.remember(("best precision from a hit on", self.threshold), lambda: self._best_from(batch))
        reached = needed <= best.lengths
        values = np.zeros(batch.n_users)
        values[reached] = best.values[(best.offsets[:-1] + needed - 1)[reached]]
        return values

    def _best_from(self, batch: RankingBatch) -> Ragged:
        """For each hit the highest precision at it or at a later one."""
        hits = batch.hits(self.threshold)
        precision = batch.remember(("precision at hits", self.threshold), lambda: hits.ordinal / hits.rank)
        # Backwards the highest so far is that of all later ones.
        lengths = np.bincount(hits.user, minlength=batch.n_users)
        backwards = Ragged(precision[::-1], offsets_of(lengths[::-1])).accumulated(np.maximum)
        return Ragged(backwards.values[::-1], offsets_of(lengths))


@dataclass(frozen=True, kw_only=True)
class InterpolatedPrecision(InterpolatingMetric):
    """The highest precision at any rank whose recall is r or more: the largest H_j/j over ranks j with H_j ≥ n(r).

    Between 0 and 1; 0 if the list never reaches that recall. The default recall 0 gives the highest precision of all.
    NaN without a relevant label, 0 without predictions. Systems round n(r), the number of hits that makes a recall of
    r, in different ways. Written ``iprec(recall=0.1)``.

    Source: Manning, Raghavan, Schütze, Introduction to Information Retrieval, 2008, section 8.4.
    """

    name: ClassVar[str] = "iprec"
    aliases: ClassVar[tuple[str, ...]] = ("interpolated_precision", "iprec_at_recall")

    recall: float | Unset = parameter(
        0.0, check=number(0, 1, what="a number from 0 to 1"), doc="r, the recall from which on precision is looked at"
    )

    def _values(self, batch: RankingBatch) -> FloatArray:
        return self._interpolated(batch, 0.0 if isinstance(self.recall, Unset) else float(self.recall))


@dataclass(frozen=True, kw_only=True)
class ElevenPointPrecision(InterpolatingMetric):
    """The mean of the interpolated precision at the recalls 0, 0.1, …, 1: Σ_r max{H_j/j: H_j ≥ n(r)} ÷ 11.

    Between 0 and 1; a recall that the list never reaches adds 0. NaN without a relevant label, 0 without predictions.

    Source: Manning, Raghavan, Schütze, Introduction to Information Retrieval, 2008, section 8.4.
    """

    name: ClassVar[str] = "iprec_11pt"
    aliases: ClassVar[tuple[str, ...]] = ("eleven_point", "eleven_point_precision")

    def _values(self, batch: RankingBatch) -> FloatArray:
        total = np.zeros(batch.n_users)
        for tenth in range(11):
            total += self._interpolated(batch, tenth / 10)
        return total / 11


@dataclass(frozen=True, kw_only=True)
class FAP(RelevanceMetric):
    """F-measured average precision: (1+β²)·F·AP / (β²·F + AP) of this user's F_β@k and AP@k.

    AP divides by all relevant labels. Between 0 and 1; 0 if both are 0. Unlike AP it falls with every irrelevant item
    at the end of a list. NaN without a relevant label, 0 without predictions or a hit.

    Source: Leitner, PhD thesis, Universidad Autónoma de Madrid, section 3.2.5; there with β for β² in the denominator,
    which leaves [0, 1] unless β is 1.
    """

    name: ClassVar[str] = "fap"
    aliases: ClassVar[tuple[str, ...]] = ("f_measured_ap", "f_measured_average_precision")
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    beta: float | Unset = parameter(
        1.0,
        check=number(0, 1e100, what="a number from 0 on"),
        doc="how many times as much recall weighs as precision, and AP as F",
    )

    def _values(self, batch: RankingBatch) -> FloatArray:
        square = 1.0 if isinstance(self.beta, Unset) else self.beta**2
        k, threshold = self.k, self.relevance_threshold
        f = FBeta(k=k, beta=self.beta, relevance_threshold=threshold)._values(batch)
        ap = AveragePrecision(k=k, denominator="labels", relevance_threshold=threshold)._values(batch)
        return ratio((1 + square) * f * ap, square * f + ap)
