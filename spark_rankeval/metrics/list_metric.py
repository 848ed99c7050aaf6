"""What the metrics have in common that look at the recommended items themselves, whether anything is known of them by labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from spark_rankeval.errors import MetricError
from spark_rankeval.metrics.base import Metric, Needs, Reads, Unset, parameter

if TYPE_CHECKING:
    from spark_rankeval.ranking.batch import RankingBatch
    from spark_rankeval.ranking.ragged import BoolArray, FloatArray, IntArray
    from spark_rankeval.ranking.recommended import Recommended


def recommended_of(metric: Metric, batch: RankingBatch) -> Recommended:
    """The items of the lists.

    Raises:
        MetricError: the batch does not hold them: nobody said that a metric asks for them.
    """
    if batch.recommended is None:
        msg = f"{metric.name} looks at every item of the lists, and these lists were reduced to their labelled items"
        raise MetricError(msg)
    return batch.recommended


@dataclass(frozen=True, kw_only=True)
class ListMetric(Metric):
    """A metric of the recommended items, whatever their labels: defined for who was recommended anything."""

    needs: ClassVar[Needs] = "predictions"
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    zero_without_predictions: ClassVar[bool] = False
    zero_without_hits: ClassVar[bool] = False

    @property
    def reads(self) -> Reads:
        """All items; of whole lists their order does not matter."""
        return super().reads.but(items="item", unlabelled=True, tie_order=self.k is not None)

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        return recommended_of(self, batch).n_within(self.k) > 0


@dataclass(frozen=True, kw_only=True)
class ShareOfPlaces(ListMetric):
    """A sum over the first k places, divided by how many there are.

    Attributes:
        denominator: the places that were filled, min(k, ρ), or k.
    """

    denominator: str | Unset = parameter(
        "predictions", choices=("predictions", "k"), doc="min(k, ρ), the places that were filled, or k"
    )

    def _places(self, recommended: Recommended) -> FloatArray | IntArray:
        """How many places count; int64 (n_users,)."""
        if self.denominator == "k" and self.k is not None:
            return np.full(recommended.n_users, self.k)
        return recommended.n_within(self.k)
