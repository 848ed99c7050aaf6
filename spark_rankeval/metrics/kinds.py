"""Kinds of metrics: of relevant items, of recommended items whatever their labels, and of all lists together."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from spark_rankeval.checks import number
from spark_rankeval.errors import MetricError
from spark_rankeval.metrics.base import UNSET, Metric, Needs, Reads, Unset, parameter
from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.ragged import Array, BoolArray, FloatArray, IntArray
from spark_rankeval.ranking.recommended import Fact, Recommended
from spark_rankeval.ranking.unjudged import JudgedRange, with_judged_items, with_some_judged


@dataclass(frozen=True, kw_only=True)
class RelevanceMetric(Metric):
    """A metric that sees items as relevant or not.

    Attributes:
        relevance_threshold: a labelled item is relevant from this grade on. None: if its grade is above 0; ``-inf``: always.
    """

    relevance_threshold: float | Unset | None = parameter(
        None,
        check=number(-math.inf, what="a number, or None", optional=True),
        is_grade=True,
        doc="a labelled item is relevant from this grade on; None: above 0; -inf: always",
    )

    @property
    def threshold(self) -> float | None:
        """The resolved threshold."""
        return None if self.relevance_threshold is UNSET else self.relevance_threshold

    @property
    def reads(self) -> Reads:
        """Which items are relevant."""
        return super().reads.but(items="relevance")

    @property
    def needed_grade(self) -> float | None:
        """A user's value needs a label of at least this grade; None: of any grade above 0."""
        return None if self.needs == "gain" else self.threshold

    @property
    def labels_alone_define(self) -> bool:
        """Whether a user has a value if and only if there is something to find, whatever was predicted."""
        return self.undefined == "nan" and type(self)._is_defined is RelevanceMetric._is_defined

    @property
    def open_grade(self) -> float | None:
        """The highest grade of an item without a label; None: grades matter, and nothing says it."""
        if not isinstance(self.highest_grade, Unset):
            return self.highest_grade
        return max(self.threshold or 1.0, 1.0) if self.sees_relevance_alone else None

    @property
    def sees_relevance_alone(self) -> bool:
        """Whether all relevant items are alike to the metric."""
        return self.reads.items == "relevance"

    def compute(self, batch: RankingBatch) -> FloatArray:
        """The metric of every user, or a bound of it."""
        return super().compute(batch) if self.unjudged is UNSET else self.resolve()._bound(batch)

    def _bound(self, batch: RankingBatch) -> FloatArray:
        """The lowest or highest value that is possible if items without a label had grades; NaN where the metric is undefined.

        The two parts of a quotient may be those of different grades, so that such a bound is safe, but not always reached.
        """
        metric = without_bound(self)
        values, grade, is_lowest = metric.compute(batch), self.open_grade or 1.0, self.unjudged == "lowest"
        if self.growth in ("gains", "found"):
            below = batch if self.k is None else with_judged_items(batch, grade, first=self.k + 1)
            bound = metric.compute(below if is_lowest else with_judged_items(batch, grade, last=self.k))
        else:
            bound = metric._bound_of_quotient(batch, grade, is_lowest=is_lowest)
            bound = bound if batch.no_answer is None else np.where(batch.no_answer, values, bound)
        return np.minimum(values, bound) if is_lowest else np.maximum(values, np.minimum(bound, self.bounds[1]))

    def _bound_of_quotient(self, batch: RankingBatch, grade: float, *, is_lowest: bool) -> FloatArray:
        """The lowest or highest quotient; no grade between 0 and the highest gives a lower one, but perhaps a higher one."""
        if self.growth == "order" and (is_lowest or self.sees_relevance_alone):
            ranges = with_some_judged(batch, grade, self.k, lowest=is_lowest)
        else:
            ranges = iter([JudgedRange(batch, with_judged_items(batch, grade))])
        quotients = []
        for judged in ranges:
            gained, best = (judged.fewest, judged.most) if is_lowest else (judged.most, judged.fewest)
            quotients.append(_safe_ratio(self._parts(gained)[0], self._parts(best)[1]))
        bound: FloatArray = (np.minimum if is_lowest else np.maximum).reduce(quotients)
        return bound

    def _parts(self, batch: RankingBatch) -> tuple[Array, Array | float]:
        """Of a metric that grows with an ``ideal``: the two parts of the quotient."""
        raise NotImplementedError

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        threshold = self.needed_grade
        return batch.remember(("has relevant", threshold), lambda: batch.n_relevant(threshold) > 0)


def ratio(numerator: Array, denominator: Array | float) -> FloatArray:
    """The quotient, 0 where the denominator is 0; the numerator has one entry per user."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient: FloatArray = numerator / np.asarray(denominator)
    if not np.all(denominator):
        quotient[np.broadcast_to(denominator == 0, quotient.shape)] = 0.0
    return quotient


M = TypeVar("M", bound=Metric)


def without_bound(metric: M) -> M:
    """The metric that a metric is a bound of; any other as it is."""
    return type(metric)(k=metric.k, **metric.chosen() | {"unjudged": UNSET, "highest_grade": UNSET})


def _safe_ratio(numerator: Array, denominator: Array | float) -> FloatArray:
    """The quotient, infinite where the denominator alone is 0."""
    return np.where((numerator > 0) & (np.asarray(denominator) == 0), math.inf, ratio(numerator, denominator))


@dataclass(frozen=True, kw_only=True)
class ListMetric(Metric):
    """A metric of the recommended items, whatever their labels: defined for users with a prediction.

    Attributes:
        facts: a class attribute; what must be known of the items and users.
    """

    needs: ClassVar[Needs] = "predictions"
    describes: ClassVar[bool] = True
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    zero_without_predictions: ClassVar[bool] = False
    zero_without_hits: ClassVar[bool] = False
    facts: ClassVar[frozenset[Fact]] = frozenset()

    @property
    def reads(self) -> Reads:
        """All items; the order of whole lists does not matter."""
        return super().reads.but(items="item", unlabelled=True, tie_order=self.k is not None, facts=self.facts)

    def _recommended(self, batch: RankingBatch) -> Recommended:
        if batch.recommended is None:
            msg = f"{self.name} needs every item of the lists, and these lists hold only labelled items"
            raise MetricError(msg)
        return batch.recommended

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        return self._recommended(batch).n_within(self.k) > 0


@dataclass(frozen=True, kw_only=True)
class ShareOfPlaces(ListMetric):
    """A sum over the first k places, divided by how many there are."""

    denominator: str | Unset = parameter(
        "predictions", choices=("predictions", "k"), doc="min(k, ρ), the places that were filled, or k"
    )

    def _places(self, recommended: Recommended) -> FloatArray | IntArray:
        if self.denominator == "k" and self.k is not None:
            return np.full(recommended.n_users, self.k)
        return recommended.n_within(self.k)


@dataclass(frozen=True, kw_only=True)
class AllListsMetric(ListMetric):
    """A metric of all lists together; single users have no value."""

    corpus_level: ClassVar[bool] = True

    @abstractmethod
    def _value(self, totals: Any) -> float:
        """The value from what all lists add up to; NaN if it is not defined, whatever the parameter `undefined` is."""

    def value(self, totals: Any) -> float:
        """The metric of all users' lists; if it is not defined, NaN or 0 as `undefined` says."""
        value = self._value(totals)
        return 0.0 if math.isnan(value) and self.undefined == "zero" else value

    def _values(self, batch: RankingBatch) -> FloatArray:
        return np.full(batch.n_users, math.nan)

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        return np.ones(batch.n_users, np.bool_)
