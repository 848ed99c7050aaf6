"""What metrics of the recommended items, labelled or not, have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from spark_rankeval.errors import MetricError
from spark_rankeval.metrics.base import Metric, Needs, Reads, Unset, parameter

if TYPE_CHECKING:
    from spark_rankeval.ranking.batch import RankingBatch
    from spark_rankeval.ranking.ragged import BoolArray, FloatArray, IntArray
    from spark_rankeval.ranking.recommended import Fact, Recommended


@dataclass(frozen=True, kw_only=True)
class ListMetric(Metric):
    """A metric of the recommended items, whatever their labels: defined for users with a prediction.

    Attributes:
        facts: a class attribute; what must be known of the items and users.
    """

    needs: ClassVar[Needs] = "predictions"
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
