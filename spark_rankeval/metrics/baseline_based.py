"""Metrics of what a list has beside what a baseline, such as the most popular items, would recommend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from spark_rankeval.metrics.base import Needs, Reads, RelevanceMetric, Unset, parameter, ratio
from spark_rankeval.metrics.list_metric import ShareOfPlaces, recommended_of
from spark_rankeval.ranking.batch import is_relevant
from spark_rankeval.ranking.recommended import asked_for

if TYPE_CHECKING:
    from spark_rankeval.ranking.batch import RankingBatch
    from spark_rankeval.ranking.ragged import BoolArray, FloatArray
    from spark_rankeval.ranking.recommended import Fact, Recommended

__all__ = ["Serendipity", "Unexpectedness"]


def expected(recommended: Recommended, k: int | None) -> BoolArray:
    """Which items the baseline's list has in its first k places, too."""
    rank = asked_for(recommended.baseline_rank)
    return (rank > 0) if k is None else (rank > 0) & (rank <= k)


def has_baseline(recommended: Recommended) -> BoolArray:
    """For which users the baseline recommends anything."""
    return asked_for(recommended.baseline_size) > 0


@dataclass(frozen=True, kw_only=True)
class Unexpectedness(ShareOfPlaces):
    """The share of items that the baseline does not have in its own first k: 1 − |R_k ∩ B_k| ÷ ρ_k.

    Between 0 and 1. NaN without predictions, and for a user to whom the baseline recommends nothing. With ``denominator="k"``
    places that a short list leaves empty count as unexpected.

    Source: Murakami, Mori, Orihara, Metrics for evaluating the serendipity of recommendation lists, JSAI 2007; Ge,
    Delgado-Battenfeld, Jannach, Beyond accuracy, RecSys 2010.
    """

    name: ClassVar[str] = "unexpectedness"

    @property
    def reads(self) -> Reads:
        """The items, and the baseline's lists."""
        return super().reads.but(facts=frozenset({"baseline"}))

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        return super()._is_defined(batch) & has_baseline(recommended_of(self, batch))

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = recommended_of(self, batch)
        places = self._places(recommended)
        alike = recommended.count(recommended.within(self.k) & expected(recommended, self.k))
        return ratio(places - alike, places)


@dataclass(frozen=True, kw_only=True)
class Serendipity(ShareOfPlaces, RelevanceMetric):
    """The share of items that are relevant and unexpected: Σ_{j≤ρ_k} h_j·s_j ÷ ρ_k.

    s_j is 1 where the baseline does not have the item in its own first k places, else 0. With ``against="history"`` it is
    1 − the mean cosine of the item's vector and those of the items that the user has in the training data, an item without a
    vector being like none. Between 0 and 1 (2 against a history whose vectors point the other way). NaN without a relevant
    label, NaN without predictions, and for a user to whom the baseline recommends nothing, or who has no history.

    Source: Ge, Delgado-Battenfeld, Jannach, Beyond accuracy: evaluating recommender systems by coverage and serendipity, RecSys
    2010. Against the history: Zhang, Ó Séaghdha, Quercia, Jambor, Auralist: introducing serendipity into music recommendation,
    WSDM 2012, times relevance.
    """

    name: ClassVar[str] = "serendipity"
    needs: ClassVar[Needs] = "relevant"

    against: str | Unset = parameter(
        "baseline",
        choices=("baseline", "history"),
        doc="what an item is unexpected beside: the baseline's list, or the vectors of the user's history",
    )

    @property
    def reads(self) -> Reads:
        """The items with their labels, and the baseline's lists or the vectors."""
        facts: set[Fact] = {"vector", "history_vector"} if self.against == "history" else {"baseline"}
        return super().reads.but(items="item", facts=frozenset(facts))

    @property
    def bounds(self) -> tuple[float, float]:
        """Cosines may be negative."""
        return 0.0, 2.0 if self.against == "history" else 1.0

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        recommended = recommended_of(self, batch)
        defined = (batch.n_relevant(self.threshold) > 0) & (recommended.n_within(self.k) > 0)
        if self.against == "baseline":
            return defined & has_baseline(recommended)
        return defined & (asked_for(recommended.history_size) > 0)

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = recommended_of(self, batch)
        relevant = recommended.within(self.k) & ~np.isnan(recommended.grade)
        relevant[relevant] = is_relevant(recommended.grade[relevant], self.threshold)
        if self.against == "baseline":
            serendipity = recommended.count(relevant & ~expected(recommended, self.k)).astype(np.float64)
        else:
            serendipity = recommended.total(1 - _cosine_with_history(recommended), relevant)
        return ratio(serendipity, self._places(recommended))


def _cosine_with_history(recommended: Recommended) -> FloatArray:
    """The mean cosine of each item with those of its user's history: its own direction times the mean of theirs."""
    directions, history = recommended.directions, asked_for(recommended.history_vector)
    cosine = np.zeros(len(directions))
    # Dimension by dimension: products of matrices change bits with the size of a batch.
    for dimension in range(directions.shape[1]):
        cosine += directions[:, dimension] * history[recommended.user, dimension]
    return cosine
