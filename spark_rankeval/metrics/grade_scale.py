"""Metrics on the scale of the grades: how good the items of a list are, and which share of all good ones it holds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from spark_rankeval.checks import number
from spark_rankeval.metrics.base import Reads, Unset, parameter
from spark_rankeval.metrics.expected_values import TieAwareMetric
from spark_rankeval.metrics.gain_based import GainMetric, geometric, geometric_sum, power_of_two, power_sum
from spark_rankeval.metrics.graded_relevance import ScaledMetric
from spark_rankeval.metrics.kinds import ratio
from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.user_lists import FloatArray

__all__ = ["XDCG", "Fidelity", "MaxRelevance"]


@dataclass(frozen=True, kw_only=True)
class XDCG(ScaledMetric):
    """The weighted mean grade of the first k places, in percent: 100·Σ_{j≤k} (g_j/G)·d^(j−1) ÷ Σ_{j≤k} d^(j−1).

    G is ``max_grade`` and d is ``decay``. There is no ideal list: 100 means that every place holds an item of the largest
    grade. A list shorter than k still divides by all k weights; without a cutoff the weights end with the list. A negative
    grade is grade 0. From 0 to 100. NaN without a label above 0, 0 without predictions or without gain in the first k
    places. Graded labels need ``max_grade``, as for `ERR`; a user with a label above it is NaN.

    Source: Azure AI Evaluation, `DocumentRetrievalEvaluator`, where it is ``xdcg@3``.
    """

    name: ClassVar[str] = "xdcg"
    value_range: ClassVar[tuple[float, float]] = (0.0, 100.0)

    decay: float | Unset = parameter(
        0.6,
        check=number(0, 1, what="a number above 0 and up to 1", open_low=True),
        doc="the weight of each place as a share of the weight of the place before it",
    )

    @property
    def largest_grade(self) -> float:
        """The largest grade of the scale."""
        return self._scale

    def _scaled(self, batch: RankingBatch) -> FloatArray:
        decay = float(self.decay)  # type: ignore[arg-type]  # resolved
        gained = batch.total(batch.user, self._gains(batch) * geometric(decay)(batch.rank), batch.within(self.k))
        weights = geometric_sum(decay)(batch.n_predictions) if self.k is None else power_sum(self.k, decay)
        # Of full gains the quotient may round to above 1.
        return 100 * np.minimum(ratio(gained, weights * self._scale), 1)


@dataclass(frozen=True, kw_only=True)
class Fidelity(TieAwareMetric, GainMetric):
    """The share of all that is good which the first k places hold: Σ_{j≤k} w(g_j) ÷ Σ_{labels i} w(g_i), w(g) = 2^(g+1) − 1.

    A recall that counts a better item for more. Grades of 0 and below weigh nothing, and with ``below_threshold="zero"``
    all below the threshold. Where the items stand does not matter. Between 0 and 1. NaN without a label above 0, 0 without
    predictions or without gain in the first k places.

    Source: Azure AI Evaluation, `DocumentRetrievalEvaluator`, where it has no cutoff.
    """

    name: ClassVar[str] = "fidelity"

    @property
    def reads(self) -> Reads:
        """The order of a whole list does not matter."""
        return super().reads if self.k is not None else super().reads.but(tie_order=False)

    @property
    def largest_grade(self) -> float:
        """The logarithm of the largest weight."""
        return math.log2(super().largest_grade) - 1

    def _gain_key(self) -> tuple[object, ...]:
        return ("fidelity", *super()._gain_key())

    def _gain_of(self, grade: FloatArray) -> FloatArray:
        gain = super()._gain_of(grade)
        return np.where(gain > 0, power_of_two(gain + 1) - 1, 0.0)

    def _values(self, batch: RankingBatch) -> FloatArray:
        best, key = batch.labels_by_grade(), ("weight of labels", *self._gain_key())
        whole = batch.remember(key, lambda: batch.total(best.user, self._gain_of(best.values)))
        return ratio(self._weighted(batch, self._chance_within(batch)), whole)


@dataclass(frozen=True, kw_only=True)
class MaxRelevance(GainMetric):
    """The largest grade among the first k items: max_{j≤k} g_j, where an item without a label has g = 0.

    At k = 1 it is the grade of the first item. A negative grade is grade 0. From 0 up. NaN without a label above 0, 0
    without predictions or without gain in the first k places.

    Source: Azure AI Evaluation, `DocumentRetrievalEvaluator`, where it is ``top1_relevance`` and ``top3_max_relevance``.
    """

    name: ClassVar[str] = "max_relevance"
    aliases: ClassVar[tuple[str, ...]] = ("maximum_relevance",)
    value_range: ClassVar[tuple[float, float]] = (0.0, math.inf)

    @property
    def reads(self) -> Reads:
        """The order of a whole list does not matter."""
        return super().reads if self.k is not None else super().reads.but(tie_order=False)

    def _values(self, batch: RankingBatch) -> FloatArray:
        within, values = batch.within(self.k), np.zeros(batch.n_users)
        selected = slice(None) if within is None else within
        np.maximum.at(values, batch.user[selected], self._gains(batch)[selected])
        return values
