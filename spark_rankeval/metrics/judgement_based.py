"""Metrics of what the labels know of the list: which items were judged, and which were judged not relevant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from spark_rankeval.metrics.allowed import number
from spark_rankeval.metrics.base import Reads, RelevanceMetric, Unset, parameter, ratio
from spark_rankeval.ranking.batch import retrieved

if TYPE_CHECKING:
    from spark_rankeval.ranking.batch import RankingBatch
    from spark_rankeval.ranking.ragged import BoolArray, FloatArray, IntArray

__all__ = ["BPref", "Judged"]


@dataclass(frozen=True, kw_only=True)
class Judged(RelevanceMetric):
    """The share of the first k items that are labelled, whatever their grade: labelled items ÷ min(k, ρ).

    Between 0 and 1; a low share means that the other metrics rest on little. NaN without a relevant label and, unlike
    other metrics, NaN without predictions. A list of labelled items has the share 1, relevant or not.

    Source: MacAvaney, Macdonald, Ounis, Streamlining evaluation with ir-measures, ECIR 2022.
    """

    name: ClassVar[str] = "judged"
    aliases: ClassVar[tuple[str, ...]] = ("judged_share",)
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    zero_without_predictions: ClassVar[bool] = False
    zero_without_hits: ClassVar[bool] = False

    @property
    def reads(self) -> Reads:
        """Which items have a label; of whole lists their order does not matter."""
        return super().reads.but(items="labelled", tie_order=self.k is not None)

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        return super()._is_defined(batch) & (batch.n_predictions > 0)

    def _values(self, batch: RankingBatch) -> FloatArray:
        within = batch.within(self.k)
        labelled = batch.user if within is None else batch.user[within]
        return ratio(np.bincount(labelled, minlength=batch.n_users), retrieved(batch, self.k))


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
        above = counts[hits.place] - counts[first]
        most = relevant[hits.user]
        missed = ratio(np.minimum(above, most), np.minimum(n_judged[hits.user], most))
        return ratio(batch.total(hits.user, 1 - missed), relevant)
