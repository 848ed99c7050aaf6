"""Metrics of a stage against the model before: the relevant items that it loses, and those that it adds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from spark_rankeval.checks import is_cutoff
from spark_rankeval.errors import MetricError
from spark_rankeval.metrics.base import Metric, Needs, Reads, Unset, parameter
from spark_rankeval.metrics.kinds import RelevanceMetric, ratio
from spark_rankeval.ranking.batch import RankingBatch, is_relevant
from spark_rankeval.ranking.ragged import BoolArray, FloatArray
from spark_rankeval.ranking.recommended import RANK, RANK_BEFORE

__all__ = ["Added", "Lost"]


@dataclass(frozen=True, kw_only=True)
class NoValue(Metric):
    """Stands in for a metric in the views of models that do not need it. No user has a value, and no list is read."""

    needs: ClassVar[Needs] = "predictions"

    def __post_init__(self) -> None:
        """It has no name, and cannot be called for."""

    @property
    def reads(self) -> Reads:
        """Nothing."""
        return Reads(depth=1, items="gaining", tie_order=False)

    def _values(self, batch: RankingBatch) -> FloatArray:
        return np.full(batch.n_users, math.nan)

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        return np.ones(batch.n_users, np.bool_)


@dataclass(frozen=True, kw_only=True)
class StageMetric(RelevanceMetric):
    """A share of the relevant items by their places in this model's list and in that of the model before."""

    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    zero_without_predictions: ClassVar[bool] = False
    zero_without_hits: ClassVar[bool] = False

    before: int | Unset | None = parameter(
        None,
        check=lambda value: None if value is None or is_cutoff(value) else "a whole number from 1 on, or None",
        doc="how many first places of the model before count; None: its whole list",
    )

    @property
    def reads(self) -> Reads:
        """Which relevant items stand in the first places of this model and of the one before."""
        last = None if self.k is None or not isinstance(self.before, int) else max(self.k, self.before)
        return super().reads.but(depth=last, facts=frozenset({"model_before"}))

    def _stand(self, batch: RankingBatch, name: str, k: int | Unset | None) -> BoolArray:
        """Which labelled items stand in the first k places of this model or of the one before."""
        ranks = batch.label_extra_values.get(name)
        if ranks is None:
            msg = f"{self.name} needs the ranks of the model before, which only an evaluation of several models has"
            raise MetricError(msg)
        stand: BoolArray = ranks.values <= (k if isinstance(k, int) else np.finfo(np.float64).max)
        return stand

    def _share(self, batch: RankingBatch, counted: BoolArray) -> FloatArray:
        """The share of the relevant items that counts."""
        counted = counted & is_relevant(batch.labels.values, self.threshold)
        n_counted = np.bincount(batch.labels.user[counted], minlength=batch.n_users)
        return ratio(n_counted, batch.n_relevant(self.threshold))


@dataclass(frozen=True, kw_only=True)
class Lost(StageMetric):
    """The relevant items that stand in the first places of the model before and not in the first k of this one, ÷ γ.

    Between 0 and 1. Models stand in the order of the call. The first is measured against the labels: it loses every
    relevant item that its first k places lack, 1 − recall@k. Recall of the model before − lost + added is the recall of
    this one. An item that a list has twice counts once. NaN without a relevant label. Without predictions the value is
    what the model before had.

    Source: the recall of each stage of a cascade, Wang, Lin, Metzler, A cascade ranking model for efficient ranked
    retrieval, SIGIR 2011.
    """

    name: ClassVar[str] = "lost"
    larger_is_better: ClassVar[bool] = False

    def _values(self, batch: RankingBatch) -> FloatArray:
        return self._share(batch, self._stand(batch, RANK_BEFORE, self.before) & ~self._stand(batch, RANK, self.k))


@dataclass(frozen=True, kw_only=True)
class Added(StageMetric):
    """The relevant items that stand in the first k places and not in the first places of the model before, ÷ γ.

    Between 0 and 1. Models stand in the order of the call. The first adds nothing, because it is measured against the
    labels. Recall of the model before − lost + added is the recall of this one. An item that a list has twice counts
    once. NaN without a relevant label, 0 without predictions.

    Source: the recall of each stage of a cascade, Wang, Lin, Metzler, A cascade ranking model for efficient ranked
    retrieval, SIGIR 2011.
    """

    name: ClassVar[str] = "added"
    zero_without_predictions: ClassVar[bool] = True
    zero_without_hits: ClassVar[bool] = True

    def _values(self, batch: RankingBatch) -> FloatArray:
        return self._share(batch, self._stand(batch, RANK, self.k) & ~self._stand(batch, RANK_BEFORE, self.before))
