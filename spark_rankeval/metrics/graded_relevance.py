"""Metrics of graded relevance: average precision for grades, and users who read down the list and stop at some rank."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from spark_rankeval.checks import as_text, number, problem_of_numbers, read_numbers
from spark_rankeval.errors import MetricError
from spark_rankeval.metrics.base import UNSET, Needs, Reads, Unset, parameter
from spark_rankeval.metrics.gain_based import GainMetric, exponential, geometric
from spark_rankeval.metrics.kinds import findable, ratio
from spark_rankeval.metrics.sums_of_minima import sums_of_minima
from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.user_lists import FloatArray, IntArray, grouped

__all__ = ["ERR", "NERR", "RBP", "GradedAveragePrecision", "QMeasure", "RBPResidual"]


def _probabilities(value: Any) -> str | None:
    return problem_of_numbers(
        value, "numbers from 0 on, not all 0, for the grades 1, 2, … as in '0.5,0.3,0.2', or None"
    )


@dataclass(frozen=True, kw_only=True)
class GradedAveragePrecision(GainMetric):
    """Graded average precision, AP for a user of whom it is not known from which grade on items are relevant.

    Σ_{n≤ρ_k} (1/n)·Σ_{m≤n} 𝒢(min(g_m, g_n)) ÷ Σ_{labels i} 𝒢(g_i), where 𝒢(g) is the probability that grade g is
    enough. A negative grade is grade 0. By default every grade up to the largest is equally likely to be the lowest
    that is enough. So 𝒢 grows with the grade, and its scale cancels. ``probabilities="0.5,0.3,0.2"``, or a tuple, gives
    the probability of the grades 1, 2, 3. Only proportions matter, grades beyond the last are enough for everybody, and
    a grade between two counts as the lower one. With binary labels it is AP ÷ γ.

    Between 0 and 1. NaN without a label above 0, 0 without predictions or without gain in the first k places.

    Source: Robertson, Kanoulas, Yilmaz, Extending average precision to graded relevance judgments, SIGIR 2010.
    """

    name: ClassVar[str] = "gap"
    aliases: ClassVar[tuple[str, ...]] = ("graded_ap", "graded_average_precision")

    probabilities: str | Unset | None = parameter(
        None,
        check=_probabilities,
        doc="of the grades 1, 2, … each, how likely it is the least that is enough, as '0.5,0.3,0.2'; None: uniform",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.probabilities is not UNSET and self.probabilities is not None:
            object.__setattr__(self, "probabilities", as_text(self.probabilities))

    def _gain_key(self) -> tuple[object, ...]:
        return ("gap", self.probabilities, *super()._gain_key())

    def _gain_of(self, grade: FloatArray) -> FloatArray:
        gain = super()._gain_of(grade)
        if self.probabilities is None:
            return gain
        enough = np.array([0.0, *itertools.accumulate(read_numbers(self.probabilities))])
        probability: FloatArray = enough[np.minimum(gain, len(enough) - 1).astype(np.int64)]
        return probability

    def _values(self, batch: RankingBatch) -> FloatArray:
        best, key = batch.labels_by_grade(), ("most", *self._gain_key())
        most = batch.remember(key, lambda: batch.total(best.user, self._gain_of(best.values)))
        return ratio(self._gained(batch), most)

    def _gained(self, batch: RankingBatch) -> FloatArray:
        entry, gained = batch.remember(("gap", *self._gain_key()), lambda: self._shared_gains(batch))
        within = None if self.k is None else batch.rank[entry] <= self.k
        return batch.total(batch.user[entry], gained, within)

    def _shared_gains(self, batch: RankingBatch) -> tuple[IntArray, FloatArray]:
        """Which labelled predictions have gain, and (1/n)·Σ_{m≤n} 𝒢(min(g_m, g_n)) of each."""
        gains = self._gains(batch)
        entry = np.flatnonzero(gains > 0)
        return entry, sums_of_minima(batch.user[entry], gains[entry], batch.n_users) / batch.rank[entry]


@dataclass(frozen=True, kw_only=True)
class QMeasure(GainMetric):
    """Q-measure, AP with a bonus for grades: Σ_{j≤ρ_k} h_j·(H_j + β·cg_j)/(j + β·cg*_j) ÷ min(γ, k).

    cg is the cumulated gain down to rank j, cg* that of all labelled items, best first. A negative grade is grade 0. β
    = 0 gives AP; the larger β, the more grades weigh. Between 0 and 1. NaN without a relevant label, even if one has
    gain; 0 without predictions or a hit.

    Source: Sakai, Ranking the NTCIR systems based on multigrade relevance, AIRS 2004.
    """

    name: ClassVar[str] = "q"
    aliases: ClassVar[tuple[str, ...]] = ("q_measure", "qmeasure")
    needs: ClassVar[Needs] = "relevant"

    beta: float | Unset = parameter(
        1.0, check=number(0, 1e100, what="a number from 0 on"), doc="the weight of the gain beside the hits"
    )

    def _values(self, batch: RankingBatch) -> FloatArray:
        blended = batch.remember(("q", self.beta, *self._gain_key()), lambda: self._blended_precision(batch))
        hits = batch.hits(self.threshold)
        within = None if self.k is None else hits.rank <= self.k
        return ratio(batch.total(hits.user, blended, within), findable(batch, self.k, self.threshold))

    def _blended_precision(self, batch: RankingBatch) -> FloatArray:
        """(H_j + β·cg_j)/(j + β·cg*_j) of every hit."""
        beta = float(self.beta)  # type: ignore[arg-type]  # resolved
        hits, best = batch.hits(self.threshold), batch.labels_by_grade()
        gained = grouped(self._gains(batch), batch.user, batch.n_users).accumulated(np.add).values[hits.entry]
        ideal = best.like(self._gain_of(best.values)).accumulated(np.add)
        ideal_index = np.minimum(hits.rank, ideal.lengths[hits.user]) - 1
        blended: FloatArray = (hits.ordinal + beta * gained) / (
            hits.rank + beta * ideal.values[ideal.offsets[hits.user] + ideal_index]
        )
        return blended


# 2^max_grade has to be a number.
_max_grade = number(0, 1000, what="a number above 0 and up to 1000, or None", open_low=True, optional=True)
_persistence = number(0, 1, what="a number above 0 and below 1", open_low=True, open_high=True)


@dataclass(frozen=True, kw_only=True)
class ScaledMetric(GainMetric):
    """A metric of gain that puts grades in proportion to the largest possible one."""

    max_grade: float | Unset | None = parameter(
        None,
        check=_max_grade,
        is_grade=True,
        doc="the largest grade of the scale; None, for labels without relevance: 1",
    )

    @property
    def _scale(self) -> float:
        return 1.0 if self.max_grade is Unset.UNSET or self.max_grade is None else self.max_grade

    def _values(self, batch: RankingBatch) -> FloatArray:
        values, limit = self._scaled(batch), self.largest_grade
        beyond = batch.labels.values > limit
        if beyond.any():
            values[batch.labels.user[beyond]] = math.nan
        return values

    @abstractmethod
    def _scaled(self, batch: RankingBatch) -> FloatArray:
        """The formula, for users whose grades are in the scale."""


@dataclass(frozen=True, kw_only=True)
class CascadeMetric(ScaledMetric):
    """A metric of a user who stops at an item with a probability q that its grade gives."""

    q: str | Unset = parameter(
        "exponential", choices=("exponential", "linear"), doc="(2^g − 1)/2^max_grade, or NTCIREVAL's g/(max_grade + 1)"
    )

    @property
    def largest_grade(self) -> float:
        """The largest grade of the scale: above it, q would be no probability."""
        return self._scale

    def _gain_key(self) -> tuple[object, ...]:
        return ("q", self.q, self._scale, *super()._gain_key())

    def _gain_of(self, grade: FloatArray) -> FloatArray:
        gain = np.minimum(super()._gain_of(grade), self._scale)
        return gain / (self._scale + 1) if self.q == "linear" else exponential(gain) / 2.0**self._scale

    def _err(self, batch: RankingBatch) -> FloatArray:
        def add() -> FloatArray:
            key = ("stopping", *self._gain_key())
            stopping = batch.remember(key, lambda: self._stopping(batch, batch.user, batch.rank, self._gains(batch)))
            return batch.total(batch.user, stopping, batch.within(self.k))

        return batch.remember(("err", self.k, *self._gain_key()), add)

    def _ideal(self, batch: RankingBatch) -> FloatArray:
        def add() -> FloatArray:
            best, rank = batch.labels_by_grade(), batch.label_rank()
            key = ("ideal stopping", *self._gain_key())
            stopping = batch.remember(key, lambda: self._stopping(batch, best.user, rank, self._gain_of(best.values)))
            return batch.total(best.user, stopping, None if self.k is None else rank <= self.k)

        return batch.remember(("ideal err", self.k, *self._gain_key()), add)

    @staticmethod
    def _stopping(batch: RankingBatch, user: IntArray, rank: IntArray, stops: FloatArray) -> FloatArray:
        """q_r/r · Π_{i<r}(1 − q_i) of each item of lists in the order of their ranks; items left out have q = 0."""
        lists = grouped(1 - stops, user, batch.n_users)
        reached = np.ones(len(stops))
        reached[1:] = lists.accumulated(np.multiply).values[:-1]
        reached[lists.offsets[:-1][lists.lengths > 0]] = 1
        stopping: FloatArray = stops * reached / rank
        return stopping


@dataclass(frozen=True, kw_only=True)
class ERR(CascadeMetric):
    """Expected reciprocal rank, of the item at which a user stops: Σ_{r≤ρ_k} (1/r)·q_r·Π_{i<r}(1 − q_i).

    An item of grade g stops the user with probability q = (2^g − 1)/2^max_grade; a negative grade is grade 0. Between 0
    and 1, which even a perfect list does not reach. NaN without a label above 0, 0 without predictions or without gain
    in the first k places.

    Graded labels need ``max_grade``: None is 1, for labels without relevance. A user with a label above it, predicted
    or not, is NaN, even with ``undefined="zero"``, and the evaluation reports it.

    Source: Chapelle, Metzler, Zhang, Grinspan, Expected reciprocal rank for graded relevance, CIKM 2009.
    """

    name: ClassVar[str] = "err"
    aliases: ClassVar[tuple[str, ...]] = ("expected_reciprocal_rank",)

    def _scaled(self, batch: RankingBatch) -> FloatArray:
        return self._err(batch).copy()


@dataclass(frozen=True, kw_only=True)
class NERR(CascadeMetric):
    """Normalised expected reciprocal rank: ERR@k ÷ the ERR@k of all labelled items, best first.

    Between 0 and 1. NaN without a label above 0, 0 without predictions or without gain in the first k places. Graded
    labels need ``max_grade``, as for `ERR`; a user with a label above it is NaN.

    Source: Chapelle, Metzler, Zhang, Grinspan, Expected reciprocal rank for graded relevance, CIKM 2009.
    """

    name: ClassVar[str] = "nerr"
    aliases: ClassVar[tuple[str, ...]] = ("normalized_err", "normalised_err")

    def _scaled(self, batch: RankingBatch) -> FloatArray:
        return ratio(self._err(batch), self._ideal(batch))


@dataclass(frozen=True, kw_only=True)
class RBP(ScaledMetric):
    """Rank-biased precision: (1−p)·Σ_{j≤ρ_k} s_j·p^(j−1), for a user who goes on to the next item with probability p.

    s is the item's grade ÷ the user's largest (default), 1 if it is relevant, the raw grade, or its grade ÷
    ``max_grade``. A negative grade is grade 0. Between 0 and 1, which no finite list reaches; raw grades have no bound.
    NaN without a label above 0, 0 without predictions or without gain in the first k places. With ``gain="max_grade"``
    a user with a label above it is NaN, as in `ERR`.

    Source: Moffat, Zobel, Rank-biased precision for measurement of retrieval effectiveness, TOIS 2008.

    Raises:
        MetricError: ``gain="max_grade"`` without a ``max_grade``.
    """

    name: ClassVar[str] = "rbp"
    aliases: ClassVar[tuple[str, ...]] = ("rank_biased_precision",)

    p: float | Unset = parameter(0.8, check=_persistence, doc="the probability of going on to the next item")
    gain: str | Unset = parameter(
        "user_max",
        choices=("user_max", "binary", "raw", "max_grade"),
        doc="worth of grade g: g ÷ the user's largest grade, 1 where the item is relevant, g, or g ÷ max_grade",
    )

    def _check_together(self) -> None:
        if self.gain == "max_grade" and self.max_grade is None:
            msg = "rbp: gain='max_grade' needs the largest grade; write rbp(gain='max_grade', max_grade=4)"
            raise MetricError(msg)

    @property
    def bounds(self) -> tuple[float, float]:
        """Shares of a full gain add up to less than 1, raw grades to anything."""
        return 0.0, math.inf if self.gain == "raw" else 1.0

    @property
    def largest_grade(self) -> float:
        """The largest grade of the scale, where grades are put in proportion to it."""
        return self._scale if self.gain == "max_grade" else super().largest_grade

    def _gain_key(self) -> tuple[object, ...]:
        return ("rbp", self._is_binary, *super()._gain_key())

    @property
    def _is_binary(self) -> bool:
        return self.gain == "binary"

    def _scaled(self, batch: RankingBatch) -> FloatArray:
        p = float(self.p)  # type: ignore[arg-type]  # resolved
        worth = batch.remember(("worth", p, *self._gain_key()), lambda: self._gains(batch) * geometric(p)(batch.rank))
        gained = batch.total(batch.user, worth, batch.within(self.k))
        match self.gain:
            case "user_max":
                share = ratio(gained, best_grade(batch))
            case "max_grade":
                share = gained / self._scale
            case _:
                share = gained
        # Of a long list of full gains the sum may round to above 1.
        return np.minimum((1 - p) * share, self.bounds[1])


def best_grade(batch: RankingBatch) -> FloatArray:
    """The largest grade of every user's labels; 0 where none is above 0."""

    def find() -> FloatArray:
        labels, largest = batch.labels, np.zeros(batch.n_users)
        labelled = labels.lengths > 0
        if labelled.any():
            largest[labelled] = np.fmax(np.fmax.reduceat(labels.values, labels.offsets[:-1][labelled]), 0)
        return largest

    return batch.remember("best grade", find)


@dataclass(frozen=True, kw_only=True)
class RBPResidual(GainMetric):
    """How much RBP could still grow if all that is unknown were best: p^ρ + (1−p)·Σ_{unlabelled j} p^(j−1).

    Unknown are the unlabelled items and all that would follow the list. It reads no grades, and bounds RBP with shares
    of at most 1. Between 0 and 1, without a cutoff; smaller is surer. NaN without a label above 0, 0 without
    predictions; a list without gain keeps its residual.

    Source: Moffat, Zobel, Rank-biased precision for measurement of retrieval effectiveness, TOIS 2008.
    """

    name: ClassVar[str] = "rbp_residual"
    aliases: ClassVar[tuple[str, ...]] = ("rbp_resid",)
    zero_without_hits: ClassVar[bool] = False
    takes_cutoff: ClassVar[bool] = False
    larger_is_better: ClassVar[bool] = False

    p: float | Unset = parameter(0.8, check=_persistence, doc="the probability of going on to the next item")

    @property
    def reads(self) -> Reads:
        """Which items have a label."""
        return super().reads.but(items="labelled")

    def _values(self, batch: RankingBatch) -> FloatArray:
        weight = geometric(float(self.p))  # type: ignore[arg-type]  # resolved
        lists = grouped(batch.rank, batch.user, batch.n_users)
        labelled = lists.lengths > 0
        above = np.zeros(len(batch.rank), np.int64)
        above[1:] = batch.rank[:-1]
        above[lists.offsets[:-1][labelled]] = 0
        # The unlabelled places between two labelled ones weigh p^a − p^(b−1), and all below the last one p^last: no
        # difference of large sums.
        between = batch.total(batch.user, weight(above + 1) - weight(batch.rank))
        last = np.zeros(batch.n_users, np.int64)
        last[labelled] = batch.rank[lists.offsets[1:][labelled] - 1]
        return np.where(batch.n_predictions > 0, between + weight(last + 1), 0.0)
