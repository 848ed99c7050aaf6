"""Metrics that ask how many of the first k items are relevant or judged, not where they stand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from spark_rankeval.checks import number
from spark_rankeval.errors import MetricError
from spark_rankeval.metrics.base import (
    Metric,
    Needs,
    Reads,
    Unset,
    parameter,
    undefined_with_rightly_empty_lists,
)
from spark_rankeval.metrics.expected_values import (
    EstimatedMetric,
    EstimatedSum,
    TieAwareMetric,
    chance_of_one,
    expected_hits,
)
from spark_rankeval.metrics.kinds import RelevanceMetric, findable, ratio
from spark_rankeval.ranking.batch import RankingBatch, is_relevant, retrieved, tied_hits
from spark_rankeval.ranking.user_lists import BoolArray, FloatArray, IntArray

__all__ = ["F1", "BPref", "FBeta", "HitRate", "Holes", "Judged", "Precision", "RPrecision", "Recall"]


@dataclass(frozen=True, kw_only=True)
class Precision(EstimatedSum):
    """The share of the first k places that hold a relevant item: H_k / k.

    Without a cutoff the denominator is the length of the list. Between 0 and 1. A list shorter than k still divides by
    k, unless ``denominator="predictions"``. NaN without a relevant label, 0 without predictions. With logged feedback
    ``ips`` is the sum of the weights of the hits ÷ k, which can exceed 1. ``snips`` divides the sum of that over users
    by the sum of their Σ w ÷ ρ_k over the labels in the first k places.

    Source: Manning, Raghavan, Schütze, Introduction to Information Retrieval, 2008, section 8.4.
    """

    name: ClassVar[str] = "precision"
    aliases: ClassVar[tuple[str, ...]] = ("p", "prec")

    denominator: str | Unset = parameter(
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


@dataclass(frozen=True, kw_only=True)
class Recall(EstimatedMetric):
    """The share of the relevant items that stand in the first k places: H_k / γ.

    Between 0 and 1. NaN without a relevant label, 0 without predictions. With logged feedback ``snips`` is the sum of
    the weights of the hits ÷ that of the user's relevant labels (Yang et al., RecSys 2018). There is no ``ips``, as γ
    is not known.

    Source: Manning, Raghavan, Schütze, Introduction to Information Retrieval, 2008, section 8.4.
    """

    name: ClassVar[str] = "recall"
    aliases: ClassVar[tuple[str, ...]] = ("r",)

    denominator: str | Unset = parameter(
        "labels", choices=("labels", "min_k_labels"), doc="γ, or min(k, γ): the most that k places can hold"
    )

    undefined: str | Unset = undefined_with_rightly_empty_lists()

    estimator: str | Unset = parameter(
        Unset.UNSET,
        choices=("naive", "snips"),
        doc="of logged feedback, whose labels have weights: `snips` adds up weights instead of items, `naive` ignores them; without "
        "weights none",
    )

    def _check_together(self) -> None:
        super()._check_together()
        if self.estimates and self.denominator == "min_k_labels":
            msg = (
                "recall: denominator='min_k_labels' needs the number of relevant items, which a log does not know; use "
                "denominator='labels'"
            )
            raise MetricError(msg)

    def _values(self, batch: RankingBatch) -> FloatArray:
        if self.estimates:
            return self._weighted_share(batch)
        k = self.k if self.denominator == "min_k_labels" else None
        return ratio(self._n_hits(batch, self.k), findable(batch, k, self.threshold))

    def _weighted_share(self, batch: RankingBatch) -> FloatArray:
        hit = is_relevant(batch.grade, self.threshold)
        hits = batch.total(batch.user, self._chance_within(batch) * self._weights(batch), hit)
        labels = batch.labels.values
        weights = np.ones(len(labels)) if batch.label_weights is None else self._clipped(batch.label_weights.values)
        return ratio(hits, batch.total_of_labels(weights, is_relevant(labels, self.threshold)))


@dataclass(frozen=True, kw_only=True)
class FBeta(TieAwareMetric):
    """The weighted harmonic mean of this user's precision@k and recall@k: (1+β²)·P·R / (β²·P + R).

    Between 0 and 1; 0 where both are 0. NaN without a relevant label, 0 without predictions.

    Source: van Rijsbergen, Information Retrieval, 1979, chapter 7.
    """

    name: ClassVar[str] = "fbeta"
    aliases: ClassVar[tuple[str, ...]] = ("f_beta",)

    beta: float | Unset = parameter(
        1.0,
        check=number(0, 1e100, what="a number from 0 on"),
        doc="how many times as much recall weighs as precision",
    )

    def _values(self, batch: RankingBatch) -> FloatArray:
        square = 1.0 if self.beta is Unset.UNSET else self.beta**2
        # F is H_k·(1+β²)/(β²·γ + k), linear in the hits: its expected value is that of the expected hits.
        hits = self._n_hits(batch, self.k)
        precision = ratio(hits, batch.n_predictions if self.k is None else self.k)
        recall = ratio(hits, batch.n_relevant(self.threshold))
        return ratio((1 + square) * precision * recall, square * precision + recall)


@dataclass(frozen=True, kw_only=True)
class F1(TieAwareMetric):
    """The harmonic mean of this user's precision@k and recall@k: 2·P·R / (P + R), 0 where both are 0.

    Between 0 and 1. NaN without a relevant label, 0 without predictions. Not the F of the two means.

    Source: van Rijsbergen, Information Retrieval, 1979, chapter 7.
    """

    name: ClassVar[str] = "f1"
    aliases: ClassVar[tuple[str, ...]] = ("f", "f_measure", "f1_score")

    def _values(self, batch: RankingBatch) -> FloatArray:
        same = FBeta(k=self.k, relevance_threshold=self.relevance_threshold, beta=1.0, ties=self.ties)
        return same._values(batch)


@dataclass(frozen=True, kw_only=True)
class HitRate(TieAwareMetric):
    """1 if a relevant item stands in the first k places, H_k/k > 0, else 0; also called success@k, and by some systems accuracy@k.

    Between 0 and 1: one or the other for a user, the share of users as a mean. With ``ties="average"`` it is the chance
    of a hit if tied items stand in random order. NaN without a relevant label, 0 without predictions.

    Source: Deshpande, Karypis, Item-based top-N recommendation algorithms, TOIS 2004.
    """

    name: ClassVar[str] = "hit_rate"
    aliases: ClassVar[tuple[str, ...]] = ("hit", "hr", "success", "hit_ratio", "hitrate")

    def _values(self, batch: RankingBatch) -> FloatArray:
        if self.averages_ties:
            return chance_of_one(batch, tied_hits(batch, self.threshold), self.k)
        return (batch.n_hits(self.k, self.threshold) > 0).astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class RPrecision(TieAwareMetric):
    """The precision at rank γ, where precision and recall are equal: H_γ / γ.

    Between 0 and 1; the user's own γ is the cutoff. NaN without a relevant label, 0 without predictions.

    Source: Manning, Raghavan, Schütze, Introduction to Information Retrieval, 2008, section 8.4.
    """

    name: ClassVar[str] = "r_precision"
    aliases: ClassVar[tuple[str, ...]] = ("rprec", "rprecision")
    takes_cutoff: ClassVar[bool] = False

    def _values(self, batch: RankingBatch) -> FloatArray:
        relevant = batch.n_relevant(self.threshold)
        if self.averages_ties:
            return ratio(expected_hits(batch, relevant, self.threshold), relevant)
        hits = batch.hits(self.threshold)
        within = hits.user[hits.rank <= relevant[hits.user]]
        return ratio(np.bincount(within, minlength=batch.n_users), relevant)


@dataclass(frozen=True, kw_only=True)
class Judged(Metric):
    """The share of the first k items that are labelled, whatever their grade: labelled items ÷ min(k, ρ).

    Between 0 and 1; a low share means that the other metrics rest on little. Every list counts, also that of a user
    without labels, whose share is 0. NaN without predictions. A list of labelled items has the share 1, relevant or
    not.

    Source: MacAvaney, Macdonald, Ounis, Streamlining evaluation with ir-measures, ECIR 2022.
    """

    name: ClassVar[str] = "judged"
    describes: ClassVar[bool] = True
    aliases: ClassVar[tuple[str, ...]] = ("judged_share",)
    needs: ClassVar[Needs] = "predictions"
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    zero_without_predictions: ClassVar[bool] = False
    zero_without_hits: ClassVar[bool] = False

    @property
    def reads(self) -> Reads:
        """Which items have a label; of whole lists their order does not matter."""
        return super().reads.but(items="labelled", tie_order=self.k is not None)

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        return batch.n_predictions > 0

    def _values(self, batch: RankingBatch) -> FloatArray:
        return ratio(self._n_labelled(batch), retrieved(batch, self.k))

    def _n_labelled(self, batch: RankingBatch) -> IntArray:
        within = batch.within(self.k)
        return np.bincount(batch.user if within is None else batch.user[within], minlength=batch.n_users)


@dataclass(frozen=True, kw_only=True)
class Holes(Judged):
    """The share of the first k items that have no label: unlabelled items ÷ min(k, ρ), which is 1 − `judged`.

    A high share means that the other metrics rest on little. ``denominator="k"`` divides by k, also if the list is
    shorter; without a cutoff by ρ. With ``denominator="one"`` it is the number of such items. Between 0 and 1; the
    number has no upper bound. Every list counts, also that of a user without labels. NaN without predictions.

    Source: Xiong et al., Approximate nearest neighbor negative contrastive learning for dense text retrieval, ICLR 2021,
    for the hole rate at k.
    """

    name: ClassVar[str] = "holes"
    aliases: ClassVar[tuple[str, ...]] = ("hole", "hole_rate", "unjudged")
    larger_is_better: ClassVar[bool] = False

    denominator: str | Unset = parameter(
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


@dataclass(frozen=True, kw_only=True)
class BPref(RelevanceMetric):
    """How seldom a judged item that is not relevant stands above a relevant one; unlabelled items are passed over.

    (1/γ)·Σ_{hits} (1 − min(n, γ)/min(N, γ)), the term 1 when n = 0. N is the number of labels with a grade from 0 to
    below ``judged_threshold``, n how many of them stand above the hit. A negative grade is not judged. Between 0 and 1,
    without a cutoff. NaN without a relevant label, 0 without predictions or a hit.

    ``judged_threshold`` does not follow ``relevance_threshold``: for trec_eval's ``-l 2`` set both to 2. A grade that
    is relevant and below ``judged_threshold``, such as 0.5 with the defaults, counts on both sides.

    Source: Buckley, Voorhees, Retrieval evaluation with incomplete information, SIGIR 2004.
    """

    name: ClassVar[str] = "bpref"
    aliases: ClassVar[tuple[str, ...]] = ("binary_preference",)
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    takes_cutoff: ClassVar[bool] = False

    judged_threshold: float | Unset = parameter(
        1.0,
        check=number(0, what="a number from 0 on"),
        is_grade=True,
        doc="grades from 0 to below this are judged not relevant",
    )

    @property
    def reads(self) -> Reads:
        """Which items are relevant, and which are judged not to be."""
        judged_below = 0.0 if self.judged_threshold is Unset.UNSET else self.judged_threshold
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
