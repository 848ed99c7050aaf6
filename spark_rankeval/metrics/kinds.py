"""Kinds of metrics: of relevant items, of recommended items whatever their labels, and of all lists together."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from spark_rankeval.checks import number
from spark_rankeval.errors import MetricError
from spark_rankeval.metrics.base import UNSET, Metric, Needs, Reads, Unset, parameter
from spark_rankeval.ranking.batch import Fact, RankingBatch, Recommended
from spark_rankeval.ranking.user_lists import Array, BoolArray, FloatArray, IntArray


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


def findable(batch: RankingBatch, k: int | None, threshold: float | None) -> IntArray:
    """min(k, γ), how many relevant items the first k places could hold; γ without a cutoff."""
    relevant = batch.n_relevant(threshold)
    return relevant if k is None else np.minimum(relevant, k)
