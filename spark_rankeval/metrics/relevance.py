"""Metrics of relevant items: how many are among the first k, where they stand, and how the whole list ranks them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np

from spark_rankeval.checks import as_text, number, problem_of_numbers, read_numbers
from spark_rankeval.metrics import base, expected_values
from spark_rankeval.metrics.base import UNSET, AllListsMetric, Metric, Reads, RelevanceMetric, Unset, parameter, ratio
from spark_rankeval.metrics.expected_values import EstimatedMetric, EstimatedSum, TieAwareMetric
from spark_rankeval.metrics.gains import DISCOUNTS, geometric, geometric_sum
from spark_rankeval.ranking import user_lists
from spark_rankeval.ranking.batch import Hits, RankingBatch, TiedGroups, is_relevant, retrieved, tied_hits
from spark_rankeval.ranking.user_lists import Array, BoolArray, FloatArray, IntArray, Ragged


class Precision(EstimatedSum):
    """The share of the first k places that hold a relevant item: H_k / k.

    Without a cutoff the denominator is the length of the list. Between 0 and 1. A list shorter than k still divides by
    k, unless ``denominator="predictions"``. NaN without a relevant label, 0 without predictions. With logged feedback
    ``ips`` is the sum of the weights of the hits ÷ k, which can exceed 1. ``snips`` divides the sum of that over users
    by the sum of their Σ w ÷ ρ_k over the labels in the first k places.

    Source: Manning, Raghavan, Schütze, Introduction to Information Retrieval, 2008, section 8.4.
    """

    name = "precision"
    aliases = ("p", "prec")

    denominator: str = parameter(
        "k", choices=("k", "predictions"), doc="k, or min(k, ρ): only the places that were filled"
    )

    def _values(self, batch: RankingBatch) -> FloatArray:
        return ratio(self._n_hits(batch, self.k), self._places(batch))

    @property
    def bounds(self) -> tuple[float, float]:
        """Weighted hits may be more than there are places."""
        return (0.0, math.inf) if self.estimator == "ips" else super().bounds

    def _places(self, batch: RankingBatch) -> IntArray | int:
        return retrieved(batch, self.k) if self.k is None or self.denominator == "predictions" else self.k

    def _item_gains(self, batch: RankingBatch) -> FloatArray:
        return is_relevant(batch.grade, self.threshold).astype(np.float64)

    def _factor(self, batch: RankingBatch) -> FloatArray:
        return ratio(np.ones(batch.n_users), self._places(batch))


class Recall(EstimatedMetric):
    """The share of the relevant items that stand in the first k places: H_k / γ.

    Between 0 and 1. NaN without a relevant label, 0 without predictions. With logged feedback ``snips`` is the sum of
    the weights of the hits ÷ that of the user's relevant labels (Yang et al., RecSys 2018). There is no ``ips``, as γ
    is not known.

    Source: Manning, Raghavan, Schütze, Introduction to Information Retrieval, 2008, section 8.4.
    """

    name = "recall"
    aliases = ("r",)

    denominator: str = parameter(
        "labels", choices=("labels", "min_k_labels"), doc="γ, or min(k, γ): the most that k places can hold"
    )

    undefined: str = base.undefined_with_rightly_empty_lists()

    estimator: str | Unset = parameter(
        UNSET,
        choices=("naive", "snips"),
        doc="of logged feedback, whose labels have weights: `snips` adds up weights instead of items, `naive` ignores them; without "
        "weights none",
    )

    def _problems(self) -> Iterator[str]:
        yield from super()._problems()
        if self.estimates and self.denominator == "min_k_labels":
            yield (
                "denominator='min_k_labels' needs the number of relevant items, which a log does not know; use "
                "denominator='labels'"
            )

    def _values(self, batch: RankingBatch) -> FloatArray:
        if self.estimates:
            return self._weighted_share(batch)
        k = self.k if self.denominator == "min_k_labels" else None
        return ratio(self._n_hits(batch, self.k), base.findable(batch, k, self.threshold))

    def _weighted_share(self, batch: RankingBatch) -> FloatArray:
        hit = is_relevant(batch.grade, self.threshold)
        hits = batch.total(batch.user, self._chance_within(batch) * self._weights(batch), hit)
        labels = batch.labels.values
        weights = np.ones(len(labels)) if batch.label_weights is None else self._clipped(batch.label_weights.values)
        return ratio(hits, batch.total_of_labels(weights, is_relevant(labels, self.threshold)))


class FBeta(TieAwareMetric):
    """The weighted harmonic mean of this user's precision@k and recall@k: (1+β²)·P·R / (β²·P + R).

    Between 0 and 1; 0 where both are 0. NaN without a relevant label, 0 without predictions.

    Source: van Rijsbergen, Information Retrieval, 1979, chapter 7.
    """

    name = "fbeta"
    aliases = ("f_beta",)

    beta: float = parameter(1.0, check=base.BETA, doc="how many times as much recall weighs as precision")

    def _values(self, batch: RankingBatch) -> FloatArray:
        square = self.beta**2
        # F is H_k·(1+β²)/(β²·γ + k), linear in the hits: its expected value is that of the expected hits.
        hits = self._n_hits(batch, self.k)
        precision = ratio(hits, batch.n_predictions if self.k is None else self.k)
        recall = ratio(hits, batch.n_relevant(self.threshold))
        return ratio((1 + square) * precision * recall, square * precision + recall)


class F1(TieAwareMetric):
    """The harmonic mean of this user's precision@k and recall@k: 2·P·R / (P + R), 0 where both are 0.

    Between 0 and 1. NaN without a relevant label, 0 without predictions. Not the F of the two means.

    Source: van Rijsbergen, Information Retrieval, 1979, chapter 7.
    """

    name = "f1"
    aliases = ("f", "f_measure", "f1_score")

    def _values(self, batch: RankingBatch) -> FloatArray:
        same = FBeta(k=self.k, relevance_threshold=self.relevance_threshold, beta=1.0, ties=self.ties)
        return same._values(batch)


class HitRate(TieAwareMetric):
    """1 if a relevant item stands in the first k places, H_k/k > 0, else 0; also called success@k, and by some systems accuracy@k.

    Between 0 and 1: one or the other for a user, the share of users as a mean. With ``ties="average"`` it is the chance
    of a hit if tied items stand in random order. NaN without a relevant label, 0 without predictions.

    Source: Deshpande, Karypis, Item-based top-N recommendation algorithms, TOIS 2004.
    """

    name = "hit_rate"
    aliases = ("hit", "hr", "success", "hit_ratio", "hitrate")

    def _values(self, batch: RankingBatch) -> FloatArray:
        if self.averages_ties:
            return expected_values.chance_of_one(batch, tied_hits(batch, self.threshold), self.k)
        return (batch.n_hits(self.k, self.threshold) > 0).astype(np.float64)


class RPrecision(TieAwareMetric):
    """The precision at rank γ, where precision and recall are equal: H_γ / γ.

    Between 0 and 1; the user's own γ is the cutoff. NaN without a relevant label, 0 without predictions.

    Source: Manning, Raghavan, Schütze, Introduction to Information Retrieval, 2008, section 8.4.
    """

    name = "r_precision"
    aliases = ("rprec", "rprecision")
    takes_cutoff = False

    def _values(self, batch: RankingBatch) -> FloatArray:
        relevant = batch.n_relevant(self.threshold)
        if self.averages_ties:
            return ratio(expected_values.expected_hits(batch, relevant, self.threshold), relevant)
        hits = batch.hits(self.threshold)
        within = hits.user[hits.rank <= relevant[hits.user]]
        return ratio(np.bincount(within, minlength=batch.n_users), relevant)


class Judged(Metric):
    """The share of the first k items that are labelled, whatever their grade: labelled items ÷ min(k, ρ).

    Between 0 and 1; a low share means that the other metrics rest on little. Every list counts, also that of a user
    without labels, whose share is 0. NaN without predictions. A list of labelled items has the share 1, relevant or
    not.

    Source: MacAvaney, Macdonald, Ounis, Streamlining evaluation with ir-measures, ECIR 2022.
    """

    name = "judged"
    describes = True
    aliases: ClassVar[tuple[str, ...]] = ("judged_share",)
    sees = "labelled"
    needs = "predictions"
    value_range = (0.0, 1.0)
    whole_order = False

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        return batch.n_predictions > 0

    def _values(self, batch: RankingBatch) -> FloatArray:
        return ratio(self._n_labelled(batch), retrieved(batch, self.k))

    def _n_labelled(self, batch: RankingBatch) -> IntArray:
        within = batch.within(self.k)
        return np.bincount(batch.user if within is None else batch.user[within], minlength=batch.n_users)


class Holes(Judged):
    """The share of the first k items that have no label: unlabelled items ÷ min(k, ρ), which is 1 − `judged`.

    A high share means that the other metrics rest on little. ``denominator="k"`` divides by k, also if the list is
    shorter; without a cutoff by ρ. With ``denominator="one"`` it is the number of such items. Between 0 and 1; the
    number has no upper bound. Every list counts, also that of a user without labels. NaN without predictions.

    Source: Xiong et al., Approximate nearest neighbor negative contrastive learning for dense text retrieval, ICLR 2021,
    for the hole rate at k.
    """

    name = "holes"
    aliases = ("hole", "hole_rate", "unjudged")
    larger_is_better = False

    denominator: str = parameter(
        "predictions",
        choices=("predictions", "k", "one"),
        doc="min(k, ρ), k, or 1: the number of items without a label",
    )

    @property
    def bounds(self) -> tuple[float, float]:
        """A number of items has no bound."""
        return (0.0, math.inf) if self.denominator == "one" else super().bounds

    def _values(self, batch: RankingBatch) -> FloatArray:
        n_places = retrieved(batch, self.k)
        n_holes = n_places - self._n_labelled(batch)
        if self.denominator == "one":
            return n_holes.astype(np.float64)
        return ratio(n_holes, n_places if self.k is None or self.denominator == "predictions" else self.k)


class BPref(RelevanceMetric):
    """How seldom a judged item that is not relevant stands above a relevant one; unlabelled items are passed over.

    (1/γ)·Σ_{hits} (1 − min(n, γ)/min(N, γ)), the term 1 when n = 0. N is the number of labels with a grade from 0 to
    below ``judged_threshold``, n how many of them stand above the hit. A negative grade is not judged. Between 0 and 1,
    without a cutoff. NaN without a relevant label, 0 without predictions or a hit.

    ``judged_threshold`` does not follow ``relevance_threshold``: for trec_eval's ``-l 2`` set both to 2. A grade that
    is relevant and below ``judged_threshold``, such as 0.5 with the defaults, counts on both sides.

    Source: Buckley, Voorhees, Retrieval evaluation with incomplete information, SIGIR 2004.
    """

    name = "bpref"
    aliases = ("binary_preference",)
    value_range = (0.0, 1.0)
    takes_cutoff = False

    judged_threshold: float | Unset = parameter(
        1.0,
        check=number(0, what="a number from 0 on"),
        is_grade=True,
        doc="grades from 0 to below this are judged not relevant",
    )

    @property
    def reads(self) -> Reads:
        """Which items are relevant, and which are judged not to be."""
        judged_below = 0.0 if self.judged_threshold is UNSET else self.judged_threshold
        return super().reads.but(items="judgement", judged_below=judged_below)

    def _not_relevant(self, grade: FloatArray) -> BoolArray:
        threshold = float(self.judged_threshold)  # type: ignore[arg-type]  # resolved
        not_relevant: BoolArray = (grade >= 0) & (grade < threshold)
        return not_relevant

    def _values(self, batch: RankingBatch) -> FloatArray:
        hits, relevant = batch.hits(self.threshold), batch.n_relevant(self.threshold)
        labels = batch.labels
        n_judged: IntArray = np.bincount(labels.user[self._not_relevant(labels.values)], minlength=batch.n_users)
        # Counts in one row for all users: whole numbers, whose differences are exact.
        counts = np.concatenate([[0], np.cumsum(self._not_relevant(batch.grade))])
        first = np.searchsorted(batch.user, hits.user)
        above = counts[hits.entry] - counts[first]
        most = relevant[hits.user]
        missed = ratio(np.minimum(above, most), np.minimum(n_judged[hits.user], most))
        return ratio(batch.total(hits.user, 1 - missed), relevant)


_DENOMINATORS = ("hits", "labels", "min_k_labels", "min_k_predictions", "min_labels_predictions", "k")


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

    name = "ap"
    aliases = ("map", "average_precision", "mean_average_precision", "averageprecision")

    denominator: str = parameter(
        "hits",
        choices=_DENOMINATORS,
        doc="D: H_k, γ, min(k, γ), min(k, ρ), min(γ, min(k, ρ)), or k (ρ without a cutoff)",
    )
    decay: float | Unset = parameter(
        1.0, check=base.POSITIVE_SHARE, doc="w_j = decay^(j−1), the weight of the hit at rank j"
    )
    weights: str | Unset | None = parameter(
        None,
        check=lambda value: problem_of_numbers(
            value, "numbers from 0 on, not all 0, for the ranks 1, 2, … as in '1,0.5,0.25', or None"
        ),
        canonical=as_text,
        doc="w_j for the ranks 1, 2, …, as '1,0.5,0.25'; the last one is for all ranks beyond; None: as decay says",
    )
    by: str = parameter("rank", choices=("rank", "threshold"), doc="one point per rank, or per distinct score")

    @property
    def reads(self) -> Reads:
        """By threshold the order of equal scores does not matter, unless ranks have weights."""
        reads = super().reads
        if self.by != "threshold":
            return reads
        return reads.but(scores=True, tie_order=self._weighs and reads.tie_order)

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

    def _problems(self) -> Iterator[str]:
        yield from super()._problems()
        weights = f"weights={self.weights!r}" if self._is_listed else f"decay={self.decay!r}"
        if self._is_listed and self.decay not in (1, UNSET):
            yield f"weights and decay cannot be combined; got {weights}, decay={self.decay!r}"
        wanted = "hits" if self.by == "threshold" else "labels"
        if self._weighs and self.denominator not in (wanted, UNSET):
            name = "weights" if self._is_listed else "a decay below 1"
            by = " by threshold" * (self.by == "threshold")
            yield f"{name}{by} needs denominator={wanted!r}; got {weights}, denominator={self.denominator!r}"
        if self._weighs and self.by == "threshold" and self.averages_ties:
            yield f"by='threshold' with weights by rank has no average over the orders of equal scores; got {weights}, ties='average'"
        if self.by == "threshold" and self.k is not None:
            yield "by='threshold' needs the whole list, without a cutoff"

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
        weighted_hits = user_lists.grouped(weight, hits.user, batch.n_users).accumulated(np.add).values[end]
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
        top = expected_values.draws(split.size, split.held, places)
        case, hits = top.case, top.marked
        each = expected_values.summed_over_places(places, lambda group, j: 1 / (split.above[group] + j))
        shifts = expected_values.summed_over_places(places, lambda group, j: (j - 1) / (split.above[group] + j))
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

        return groups.held / groups.size * expected_values.summed_over_places(places, precision)

    def _denominator(self, batch: RankingBatch) -> Array | float:
        match self.denominator:
            case "labels":
                return batch.n_relevant(self.threshold)
            case "min_k_labels":
                return base.findable(batch, self.k, self.threshold)
            case "min_k_predictions":
                return retrieved(batch, self.k)
            case "min_labels_predictions":
                return np.minimum(batch.n_relevant(self.threshold), retrieved(batch, self.k))
            case "k":
                return batch.n_predictions if self.k is None else float(self.k)
            case _:
                return batch.n_hits(self.k, self.threshold)


class ReciprocalRank(TieAwareMetric):
    """1 ÷ the rank of the first relevant item, 0 if none stands in the first k places. Its mean over users is MRR.

    Between 0 and 1. NaN without a relevant label, 0 without predictions.

    Source: Voorhees, The TREC-8 question answering track report, 1999.
    """

    name = "rr"
    aliases = ("mrr", "reciprocal_rank", "mean_reciprocal_rank", "recip_rank")

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
            chances = user_lists.grouped(share, group - group[0], group[-1] - group[0] + 1).accumulated(np.multiply)
            reciprocal: FloatArray = chances.values / (groups.above[group] + j)
            return reciprocal

        values = np.zeros(batch.n_users)
        values[groups.user] = expected_values.summed_over_places(places, expected)
        return values


def hits_needed(rounding: str, recall: float, relevant: IntArray) -> FloatArray:
    """n(r), how many hits make a recall of r."""
    exact = recall * relevant
    match rounding:
        case "floor_plus_0.9":
            n: FloatArray = np.floor(exact + 0.9)
        case "half_away":
            n = np.floor(exact)
            n += exact - n >= 0.5
        case _:
            n = np.ceil(exact)
            # 0.07 · 100 is 7.000000000000001 in doubles; 7 / 100 is 0.07 again.
            n -= (n - 1) / np.maximum(relevant, 1) >= recall
    return n


class InterpolatingMetric(RelevanceMetric):
    """A metric of interpolated precision."""

    takes_cutoff = False
    value_range = (0.0, 1.0)

    rounding: str = parameter(
        "ceil",
        choices=("ceil", "floor_plus_0.9", "half_away"),
        doc="n(r): ⌈r·γ⌉, ⌊r·γ + 0.9⌋ in doubles (trec_eval 9), or r·γ rounded half away from 0 (trec_eval 10)",
    )

    def _interpolated(self, batch: RankingBatch, recall: float) -> FloatArray:
        """The highest precision at a hit from the n(r)-th on: between hits precision only falls."""
        needed = np.maximum(hits_needed(self.rounding, recall, batch.n_relevant(self.threshold)), 1).astype(np.int64)
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
        backwards = Ragged(precision[::-1], user_lists.offsets_of(lengths[::-1])).accumulated(np.maximum)
        return Ragged(backwards.values[::-1], user_lists.offsets_of(lengths))


class InterpolatedPrecision(InterpolatingMetric):
    """The highest precision at any rank whose recall is r or more: the largest H_j/j over ranks j with H_j ≥ n(r).

    Between 0 and 1; 0 if the list never reaches that recall. The default recall 0 gives the highest precision of all.
    NaN without a relevant label, 0 without predictions. Systems round n(r), the number of hits that makes a recall of
    r, in different ways. Written ``iprec(recall=0.1)``.

    Source: Manning, Raghavan, Schütze, Introduction to Information Retrieval, 2008, section 8.4.
    """

    name = "iprec"
    aliases = ("interpolated_precision", "iprec_at_recall")

    recall: float = parameter(
        0.0, check=number(0, 1, what="a number from 0 to 1"), doc="r, the recall from which on precision is looked at"
    )

    def _values(self, batch: RankingBatch) -> FloatArray:
        return self._interpolated(batch, self.recall)


class ElevenPointPrecision(InterpolatingMetric):
    """The mean of the interpolated precision at the recalls 0, 0.1, …, 1: Σ_r max{H_j/j: H_j ≥ n(r)} ÷ 11.

    Between 0 and 1; a recall that the list never reaches adds 0. NaN without a relevant label, 0 without predictions.

    Source: Manning, Raghavan, Schütze, Introduction to Information Retrieval, 2008, section 8.4.
    """

    name = "iprec_11pt"
    aliases = ("eleven_point", "eleven_point_precision")

    def _values(self, batch: RankingBatch) -> FloatArray:
        total = np.zeros(batch.n_users)
        for tenth in range(11):
            total += self._interpolated(batch, tenth / 10)
        return total / 11


class FAP(RelevanceMetric):
    """F-measured average precision: (1+β²)·F·AP / (β²·F + AP) of this user's F_β@k and AP@k.

    AP divides by all relevant labels. Between 0 and 1; 0 if both are 0. Unlike AP it falls with every irrelevant item
    at the end of a list. NaN without a relevant label, 0 without predictions or a hit.

    Source: Leitner, PhD thesis, Universidad Autónoma de Madrid, section 3.2.5; there with β for β² in the denominator,
    which leaves [0, 1] unless β is 1.
    """

    name = "fap"
    aliases = ("f_measured_ap", "f_measured_average_precision")
    value_range = (0.0, 1.0)

    beta: float = parameter(1.0, check=base.BETA, doc="how many times as much recall weighs as precision, and AP as F")

    def _values(self, batch: RankingBatch) -> FloatArray:
        square = self.beta**2
        k, threshold = self.k, self.relevance_threshold
        f = FBeta(k=k, beta=self.beta, relevance_threshold=threshold)._values(batch)
        ap = AveragePrecision(k=k, denominator="labels", relevance_threshold=threshold)._values(batch)
        return ratio((1 + square) * f * ap, square * f + ap)


class PercentileRank(RelevanceMetric):
    """How far down the list the relevant items stand: the mean over hits of (rank − 1) / (ρ − 1).

    Between 0 (all on top) and 1; lower is better, and a list in random order has 0.5 on average. A list of one item
    has 0. NaN without a hit, so also without predictions. Its mean over users is MPR.

    The source averages over all pairs of a user and an item, weighted by grades. With ``weighting="grades"`` a user's
    value is Σ g⁺·(rank − 1)/(ρ − 1) ÷ Σ g⁺ over hits, and its weight in the mean is Σ g⁺.

    Source: Hu, Koren, Volinsky, Collaborative filtering for implicit feedback datasets, ICDM 2008.
    """

    name = "percentile_rank"
    aliases = ("mpr", "mean_percentile_rank", "expected_percentile_rank")
    value_range = (0.0, 1.0)
    takes_cutoff = False
    larger_is_better = False

    weighting: str = parameter(
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

    name = "auc"
    aliases = ("roc_auc", "auc_roc", "auroc")
    value_range = (0.0, 1.0)
    takes_cutoff = False

    decay: float | Unset = parameter(1.0, check=base.POSITIVE_SHARE, doc="w_j = decay^(j−1), the weight of rank j")
    weighting: str = parameter(
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
        weight_so_far = user_lists.grouped(weight, user, batch.n_users).accumulated(np.add).values
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


class AUCPR(RelevanceMetric):
    """The area under the precision-recall curve, by trapezoids.

    The points are (0, 1), then (H_j/γ, H_j/j) at the last rank j of each distinct score. Between 0 and 1; average
    precision is less optimistic than these straight lines. NaN without a relevant label, 0 without a hit. With
    ``recall="hits"`` recall is the share of the relevant items in the list, as in scikit-learn's
    ``precision_recall_curve``. It is then NaN without a hit, so also without predictions.

    Source: Davis, Goadrich, The relationship between precision-recall and ROC curves, ICML 2006.
    """

    name = "auc_pr"
    aliases = ("pr_auc", "aucpr", "auprc")
    value_range = (0.0, 1.0)
    takes_cutoff = False

    recall: str = parameter(
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


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """What the pairs of a user and an item add up to; the sums are exact.

    Attributes:
        sums: the number of ``users`` and of ``pairs``, how many pairs are ``relevant``, and the sum of probabilities
            (``predicted``); how many pairs have a score that is ``invalid``, as it is no probability; of metrics that need it the
            ``loss``.
    """

    sums: Mapping[str, Fraction]

    @property
    def n_users(self) -> int:
        """How many users have a pair that counts."""
        return int(self.sums["users"])

    @property
    def base_rate(self) -> float:
        """The share of pairs that are relevant; NaN without a pair."""
        return float(self.sums["relevant"] / self.sums["pairs"]) if self.sums["pairs"] else math.nan

    @property
    def mean_loss(self) -> float:
        """The mean of the pairs' losses; NaN without a pair."""
        return float(self.sums["loss"] / self.sums["pairs"]) if self.sums["pairs"] else math.nan


class ProbabilityMetric(AllListsMetric, RelevanceMetric):
    """A metric of scores as probabilities, over the pairs of all users: one long list of items, each relevant or not.

    Attributes:
        TERMS: a class attribute, the sums that a metric may need.
    """

    TERMS: ClassVar[tuple[str, ...]] = ("users", "pairs", "relevant", "predicted", "invalid", "loss")
    describes = False
    value_range = (0.0, math.inf)

    unlabelled: str = parameter(
        "zero", choices=("zero", "left_out"), doc="items of a list without a label: not relevant, or left out"
    )

    @property
    def reads(self) -> Reads:
        """All items with their scores."""
        return super().reads.but(scores=True)

    @property
    def reads_labels(self) -> bool:
        """Labels say which items are relevant."""
        return True

    @property
    def counted_as(self) -> Hashable:
        """What the sums depend on: metrics for which this is equal are counted once."""
        return self.k, self.threshold, self.unlabelled

    def terms(self, batch: RankingBatch) -> tuple[IntArray, dict[str, FloatArray]]:
        """The pairs that count: the user of each, ascending, and what it adds to each sum of `ScoredPairs`."""
        recommended = self._recommended(batch)
        labelled = ~np.isnan(recommended.grade)
        counted = recommended.within(self.k) & (labelled | (self.unlabelled == "zero"))
        relevant = labelled & is_relevant(recommended.grade, self.threshold)
        user, score, relevant = recommended.user[counted], recommended.score[counted], relevant[counted]
        valid = (score >= 0) & (score <= 1)
        probability = np.where(valid, score, 0.5)
        columns = {
            "users": user_lists.starts_of_runs(user),
            "pairs": np.ones_like(valid),
            "relevant": relevant,
            "predicted": probability,
            "invalid": ~valid,
            **self._extra_terms(probability, relevant),
        }
        return user, {name: values.astype(np.float64) for name, values in columns.items()}

    def _extra_terms(self, probability: FloatArray, relevant: BoolArray) -> dict[str, FloatArray]:
        """What only some metrics need of each pair."""
        return {}


class LogLoss(ProbabilityMetric):
    """Log-loss, or cross-entropy, of scores as probabilities: −Σ (y·ln p + (1 − y)·ln(1 − p)) ÷ n over the n pairs of all users.

    A pair is an item in the list of a user. If it is relevant, y is 1, else 0. Its score p is a probability. Both p and 1 − p are
    clipped to between ε and 1 − ε. The machine epsilon ε of the scores' floats is 2^−52, or 2^−23 for scores of 32 bits.
    From 0 up, in nats; smaller is better. As in `auc`, an item without a label is not relevant, and a label without a score does not count.
    Items of users without any label count, too. With ``unlabelled="left_out"`` only items with a label do. NaN without predictions.
    A score outside [0, 1] is an error.

    Source: Good, Rational decisions, Journal of the Royal Statistical Society B 1952; as scikit-learn's ``log_loss``.
    """

    name = "log_loss"
    aliases = ("logloss", "cross_entropy", "binary_cross_entropy")
    larger_is_better = False

    precision: str | Unset = parameter(
        UNSET,
        choices=("float64", "float32"),
        doc="the floats that hold p and 1 − p, and whose machine epsilon clips them; unset: those of the column of scores",
    )

    @property
    def counted_as(self) -> Hashable:
        """The precision matters, too."""
        return *super().counted_as, self.precision  # type: ignore[misc] # a tuple

    def for_scores_of_32_bits(self) -> Self:
        """Such scores have their own machine epsilon."""
        return replace(self, precision="float32") if self.precision is UNSET else self

    def _extra_terms(self, probability: FloatArray, relevant: BoolArray) -> dict[str, FloatArray]:
        kind = np.float32 if self.precision == "float32" else np.float64
        held, epsilon = probability.astype(kind), np.finfo(kind).eps
        right = np.clip(np.where(relevant, held, 1 - held), epsilon, 1 - epsilon)
        # Numpy's logarithms differ in the last bit between versions.
        return {"loss": -np.fromiter(map(math.log, right.tolist()), np.float64, len(right))}

    def _value(self, pairs: ScoredPairs) -> float:
        return pairs.mean_loss


class NormalisedEntropy(LogLoss):
    """Normalised entropy: log-loss ÷ the entropy of the base rate r, which is −(r·ln r + (1 − r)·ln(1 − r)).

    r is the share of pairs that are relevant, so the divisor is the log-loss of r as the score of every item. Pairs, clipping and
    errors are those of `log_loss`. From 0 up; smaller is better, and 1 says that the scores know no more than r. NaN if no pair is
    relevant or all are, and without predictions.

    Source: He and others, Practical lessons from predicting clicks on ads at Facebook, ADKDD 2014; as in torchrec.
    """

    name = "normalised_entropy"
    aliases = ("normalized_entropy", "normalised_cross_entropy", "normalized_cross_entropy")
    larger_is_better = False

    def _value(self, pairs: ScoredPairs) -> float:
        rate = pairs.base_rate
        if not 0 < rate < 1:
            return math.nan
        return pairs.mean_loss / -(rate * math.log(rate) + (1 - rate) * math.log1p(-rate))


class CalibrationRatio(ProbabilityMetric):
    """Calibration of scores as probabilities: Σ p ÷ Σ y over the pairs of all users, relevant items expected ÷ found.

    A pair is an item in the list of a user. If it is relevant, y is 1, else 0. Its score p is a probability. From 0 up: 1 if as many
    items are relevant as the scores say, more if they say too many. So neither way is better. Items without a label count as in
    `log_loss`, and a score outside [0, 1] is an error, too. NaN if no pair is relevant, and without predictions.

    Source: He and others, Practical lessons from predicting clicks on ads at Facebook, ADKDD 2014; as in torchrec.
    """

    name = "calibration_ratio"
    describes = True

    def _value(self, pairs: ScoredPairs) -> float:
        relevant = pairs.sums["relevant"]
        return float(pairs.sums["predicted"] / relevant) if relevant else math.nan


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

    name = "lexirecall"
    aliases = ("lexicographic_recall", "lexical_recall")
    value_range = (0.0, 1.0)

    def _values(self, batch: RankingBatch) -> FloatArray:
        hits = batch.hits(self.threshold)
        within = np.ones(len(hits.rank), np.bool_) if self.k is None else hits.rank <= self.k
        ranks = user_lists.grouped(hits.rank[within], hits.user[within], batch.n_users)
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


class TotalSearchEfficiency(RelevanceMetric):
    """What the rank of the last relevant item is worth, for a user who needs them all: d(r_γ), 0 if the first k miss any.

    The rank of the lowest relevant item is r_γ. The discount d is 1/r, or 1 ÷ log2(r + 1) with ``discount="log2"``. Between 0
    and 1; a perfect list has d(γ). NaN without a relevant label, 0 without predictions.

    Source: Diaz, Ekstrand, Mitra, Recall, robustness, and lexicographic evaluation, TORS 2025, with any falling discount.
    """

    name = "total_search_efficiency"
    aliases = ("tse",)
    value_range = (0.0, 1.0)

    discount: str = parameter(
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
