"""Metrics that put precision and recall together: interpolated precision, and F with average precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from spark_rankeval.metrics.allowed import number
from spark_rankeval.metrics.base import RelevanceMetric, Unset, parameter, ratio
from spark_rankeval.metrics.rank_based import AveragePrecision
from spark_rankeval.metrics.set_based import FBeta
from spark_rankeval.ranking.ragged import Ragged, offsets_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_rankeval.ranking.batch import RankingBatch
    from spark_rankeval.ranking.ragged import FloatArray, IntArray

__all__ = ["FAP", "ElevenPointPrecision", "InterpolatedPrecision"]


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
