"""Metrics of lists that are rightly or wrongly empty, and how confident a model is of a list."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from spark_rankeval.metrics.base import Metric, Needs, Reads, Unset, parameter
from spark_rankeval.metrics.kinds import ListMetric, RelevanceMetric, ratio
from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.user_lists import BoolArray, FloatArray

__all__ = ["Abstention", "Confidence", "FalseAbstention", "FalseAlarm"]


def _is_empty(batch: RankingBatch) -> FloatArray:
    """1 for users with an empty list, else 0."""
    return np.where(batch.n_predictions == 0, 1.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class _NoAnswerMetric(Metric):
    """A metric of users who are declared to have no answer."""

    needs: ClassVar[Needs] = "no_answer"
    covers_no_answer: ClassVar[bool] = True
    takes_cutoff: ClassVar[bool] = False
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    zero_without_predictions: ClassVar[bool] = False
    zero_without_hits: ClassVar[bool] = False

    @property
    def reads(self) -> Reads:
        """Whether anything stands in the first place."""
        return Reads(depth=1, tie_order=False)

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        return np.zeros(batch.n_users, np.bool_) if batch.no_answer is None else batch.no_answer


@dataclass(frozen=True, kw_only=True)
class Abstention(_NoAnswerMetric):
    """Whether a user without an answer rightly gets nothing: 1 if the list is empty, else 0.

    Between 0 and 1. Its mean is the share of empty lists: empty lists ÷ users without an answer. NaN for users who have
    an answer, or of whom nothing was declared; 1 without predictions.

    Source: Rajpurkar, Jia, Liang, Know what you don't know: unanswerable questions for SQuAD, ACL 2018.
    """

    name: ClassVar[str] = "abstention"
    aliases: ClassVar[tuple[str, ...]] = ("abstention_rate",)

    def _values(self, batch: RankingBatch) -> FloatArray:
        return _is_empty(batch)


@dataclass(frozen=True, kw_only=True)
class FalseAlarm(_NoAnswerMetric):
    """Whether a user without an answer wrongly gets something: 1 if the list has an item, else 0.

    Between 0 and 1; smaller is better. Its mean is the share of lists with an item: such lists ÷ users without an answer, which
    is 1 − ``abstention``. NaN for users who have an answer, or of whom nothing was declared; 0 without predictions.

    Source: Rajpurkar, Jia, Liang, Know what you don't know: unanswerable questions for SQuAD, ACL 2018.
    """

    name: ClassVar[str] = "false_alarm"
    aliases: ClassVar[tuple[str, ...]] = ("false_alarm_rate",)
    larger_is_better: ClassVar[bool] = False

    def _values(self, batch: RankingBatch) -> FloatArray:
        return 1.0 - _is_empty(batch)


@dataclass(frozen=True, kw_only=True)
class FalseAbstention(RelevanceMetric):
    """Whether a user with a relevant label wrongly gets nothing: 1 if the list is empty, else 0.

    Between 0 and 1; smaller is better. Its mean is the share of empty lists: empty lists ÷ users with a relevant label.
    NaN without a relevant label; 1 without predictions.

    Source: Rajpurkar, Jia, Liang, Know what you don't know: unanswerable questions for SQuAD, ACL 2018.
    """

    name: ClassVar[str] = "false_abstention"
    aliases: ClassVar[tuple[str, ...]] = ("false_abstention_rate",)
    takes_cutoff: ClassVar[bool] = False
    larger_is_better: ClassVar[bool] = False
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    zero_without_predictions: ClassVar[bool] = False

    @property
    def reads(self) -> Reads:
        """Whether anything stands in the first place."""
        return super().reads.but(depth=1, tie_order=False)

    def _values(self, batch: RankingBatch) -> FloatArray:
        return _is_empty(batch)


@dataclass(frozen=True, kw_only=True)
class Confidence(ListMetric):
    """How sure a model seems of its first k items, by their scores s: the highest, s_1.

    With ``kind="std"`` their standard deviation √(Σ (s_j − s̄)² ÷ ρ_k); with ``kind="diff1"`` the lead of the first over
    the second, s_1 − s_2, which is 0 for a single item. Any number; the other kinds are from 0 up. It does not depend on
    labels, and users without an answer have a value, too. NaN without predictions or with an infinite score.

    Source: Gisserot-Boukhlef et al., Towards trustworthy reranking: a simple yet effective abstention mechanism, TMLR
    2024; MTEB's ``confidence_scores``, which gives an empty list 0: ``undefined="zero"``.
    """

    name: ClassVar[str] = "confidence"
    covers_no_answer: ClassVar[bool] = True
    value_range: ClassVar[tuple[float, float]] = (-math.inf, math.inf)

    kind: str | Unset = parameter(
        "max",
        choices=("max", "std", "diff1"),
        doc="the highest score, the scores' standard deviation, or the lead of the first over the second",
    )

    @property
    def reads(self) -> Reads:
        """The scores of the first places, whichever items of equal scores stand there."""
        return super().reads.but(scores=True, tie_order=False)

    @property
    def bounds(self) -> tuple[float, float]:
        """Spreads and leads are not negative."""
        return super().bounds if self.kind in ("max", Unset.UNSET) else (0.0, math.inf)

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        return super()._is_defined(batch) & np.isfinite(self._values(batch))

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = self._recommended(batch)
        score = recommended.score
        if self.kind == "std":
            with np.errstate(invalid="ignore", over="ignore"):
                within, n = recommended.within(self.k), recommended.n_within(self.k)
                mean = ratio(recommended.total(score, within), n)
                return np.sqrt(ratio(recommended.total((score - mean[recommended.user]) ** 2, within), n))
        values = np.zeros(batch.n_users)
        first = recommended.rank == 1
        values[recommended.user[first]] = score[first]
        if self.kind == "diff1":
            second = (recommended.rank == 2) & recommended.within(self.k)
            lead = np.zeros(batch.n_users)
            with np.errstate(invalid="ignore", over="ignore"):
                lead[recommended.user[second]] = values[recommended.user[second]] - score[second]
            return lead
        return values
