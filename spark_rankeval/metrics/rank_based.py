"""Metrics that ask where the relevant items stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from spark_rankeval.errors import MetricError
from spark_rankeval.metrics.base import UNSET, RelevanceMetric, Unset, number, parameter, ratio
from spark_rankeval.metrics.gains import geometric
from spark_rankeval.metrics.set_based import findable, retrieved

if TYPE_CHECKING:
    from spark_rankeval.metrics.batch import RankingBatch
    from spark_rankeval.metrics.ragged import Array, FloatArray

__all__ = ["AveragePrecision", "ReciprocalRank"]

_DENOMINATORS = ("hits", "labels", "min_k_labels", "min_k_predictions", "min_labels_predictions", "k")


@dataclass(frozen=True, kw_only=True)
class AveragePrecision(RelevanceMetric):
    """The precision at the rank of each hit, summed over the first k places and divided by a number of items.

    Σ_{j≤ρ_k} w_j·h_j·H_j/j ÷ D. The systems differ in D, so it has a name: the hits in the first k places (default),
    all relevant labels, or a smaller of two. Between 0 and 1. Its mean over users is MAP. NaN without a relevant label,
    0 without predictions or without a hit.

    With ``by="threshold"`` every item of a group of equal scores counts with the precision at the group's last rank, as
    scikit-learn's ``average_precision_score`` does; that takes the whole list.

    Source: Manning, Raghavan, Schütze, Introduction to Information Retrieval, 2008, section 8.4.

    Raises:
        MetricError: a decay below 1 with a denominator other than the labels, or a cutoff or decay by threshold.
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
    by: str | Unset = parameter("rank", choices=("rank", "threshold"), doc="a point each rank, or each distinct score")

    @property
    def reads_scores(self) -> bool:
        """Points by threshold are where the score changes."""
        return self.by == "threshold"

    def _check_together(self) -> None:
        decays = self.decay is not UNSET and self.decay < 1
        if decays and self.denominator not in ("labels", UNSET):
            msg = f"ap: a decay below 1 needs denominator='labels'; got decay={self.decay!r}, denominator={self.denominator!r}"
            raise MetricError(msg)
        if self.by == "threshold" and (self.k is not None or decays):
            msg = f"ap: by='threshold' takes the whole list, without a cutoff or a decay; got k={self.k!r}, decay={self.decay!r}"
            raise MetricError(msg)

    def _values(self, batch: RankingBatch) -> FloatArray:
        hits = batch.hits(self.threshold)
        if self.by == "threshold":
            last = batch.tied_above[hits.place] + batch.tied[hits.place]
            # Hits of one group stand together; the ordinal of the group's last one is H at its last rank.
            following = np.ones(len(last), np.bool_)
            following[:-1] = (hits.user[1:] != hits.user[:-1]) | (last[1:] != last[:-1])
            group_end = np.flatnonzero(following)
            ordinal = hits.ordinal[group_end][np.searchsorted(group_end, np.arange(len(last)))]
            return ratio(batch.total(hits.user, ordinal / last), self._denominator(batch))
        precision = batch.remember(("precision at hits", self.threshold), lambda: hits.ordinal / hits.rank)
        if self.decay is not UNSET and self.decay < 1:
            precision = precision * geometric(self.decay)(hits.rank)
        within = None if self.k is None else hits.rank <= self.k
        return ratio(batch.total(hits.user, precision, within), self._denominator(batch))

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
class ReciprocalRank(RelevanceMetric):
    """1 ÷ the rank of the first relevant item, 0 if none stands in the first k places. Its mean over users is MRR.

    Between 0 and 1. NaN without a relevant label, 0 without predictions.

    Source: Voorhees, The TREC-8 question answering track report, 1999.
    """

    name: ClassVar[str] = "rr"
    aliases: ClassVar[tuple[str, ...]] = ("mrr", "reciprocal_rank", "mean_reciprocal_rank", "recip_rank")

    def _values(self, batch: RankingBatch) -> FloatArray:
        hits = batch.hits(self.threshold)
        first = hits.ordinal == 1
        if self.k is not None:
            first &= hits.rank <= self.k
        values = np.zeros(batch.n_users)
        values[hits.user[first]] = 1 / hits.rank[first]
        return values
