"""Metrics of how different the items of a list are from one another, by categories or vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from spark_rankeval.metrics.base import Reads, Unset, parameter, ratio
from spark_rankeval.metrics.list_metric import ListMetric, ShareOfPlaces, recommended_of
from spark_rankeval.ranking.recommended import UNKNOWN, asked_for

if TYPE_CHECKING:
    from spark_rankeval.ranking.batch import RankingBatch
    from spark_rankeval.ranking.ragged import Array, BoolArray, FloatArray, IntArray
    from spark_rankeval.ranking.recommended import Fact, Recommended

__all__ = ["CategoricalDiversity", "Diversity"]


def category_sizes(recommended: Recommended, which: BoolArray) -> tuple[IntArray, IntArray]:
    """The categories of each user's items of a kind, and how many items each has: whose, and how many."""
    categories = asked_for(recommended.category)
    known = which & (categories != UNKNOWN)
    n_categories = int(categories.max(initial=0)) + 1
    different, size = np.unique(recommended.user[known] * n_categories + categories[known], return_counts=True)
    return different // n_categories, size


@dataclass(frozen=True, kw_only=True)
class Diversity(ListMetric):
    """How different the items are, two by two: the mean of 1 − s(i, j) over the n(n − 1)/2 pairs of the first k items.

    s is 1 for two items of one category and 0 for others: Σ_c n_c(n_c − 1) ÷ n(n − 1) of the pairs are alike. With
    ``by="vector"`` it is the cosine of the items' vectors, whose sum over pairs is (|Σ v_i|² − Σ |v_i|²)/2 for vectors of length
    1, so that no pair is looked at. Between 0 and 1 (2 where vectors point apart). NaN without predictions, and for lists with
    fewer than two items that have a category or a vector other than 0; with ``unknown="apart"`` an item that has none is unlike
    all others.

    Source: Ziegler, McNee, Konstan, Lausen, Improving recommendation lists through topic diversification, WWW 2005, whose
    intra-list similarity this is the complement of; Smyth, McClave, Similarity vs. diversity, ICCBR 2001.
    """

    name: ClassVar[str] = "diversity"
    aliases: ClassVar[tuple[str, ...]] = ("intra_list_diversity", "ild")

    by: str | Unset = parameter("category", choices=("category", "vector"), doc="what makes two items alike")
    unknown: str | Unset = parameter(
        "left_out",
        choices=("left_out", "apart"),
        doc="an item without a category or vector: left out, or unlike all others",
    )

    @property
    def reads(self) -> Reads:
        """The categories or vectors of items."""
        fact: Fact = "vector" if self.by == "vector" else "category"
        return super().reads.but(facts=frozenset({fact}))

    @property
    def bounds(self) -> tuple[float, float]:
        """Cosines may be negative."""
        return 0.0, 2.0 if self.by == "vector" else 1.0

    def _n_compared(self, recommended: Recommended) -> IntArray:
        """How many items of each user are compared; int64 (n_users,)."""
        within = recommended.within(self.k)
        if self.unknown == "apart":
            return recommended.count(within)
        if self.by == "category":
            return recommended.count(within & (asked_for(recommended.category) != UNKNOWN))
        return recommended.count(within & recommended.directions.any(axis=1))

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        return self._n_compared(recommended_of(self, batch)) > 1

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = recommended_of(self, batch)
        n = self._n_compared(recommended)
        within = recommended.within(self.k)
        if self.by == "category":
            user, size = category_sizes(recommended, within)
            alike: Array = np.bincount(user, size * (size - 1), recommended.n_users)
        else:
            alike = _sum_of_cosines(recommended, within)
        return np.clip(1 - ratio(alike, n * (n - 1)), 0.0, self.bounds[1])


def _sum_of_cosines(recommended: Recommended, which: BoolArray) -> FloatArray:
    """The cosines of all pairs of a user's items, each pair twice; float64 (n_users,)."""
    unit = recommended.directions
    of_sum, of_each = np.zeros(recommended.n_users), np.zeros(recommended.n_users)
    # Dimension by dimension: products of matrices change bits with the size of a batch.
    for dimension in range(unit.shape[1]):
        along = unit[:, dimension]
        total = recommended.total(along, which)
        of_sum += total * total
        of_each += recommended.total(along * along, which)
    return of_sum - of_each


@dataclass(frozen=True, kw_only=True)
class CategoricalDiversity(ShareOfPlaces):
    """How many different categories the items have: |{c(i): i in the first k}| ÷ ρ_k.

    Between 0 and 1. An item without a category adds none. NaN without predictions.

    Source: RePlay.
    """

    name: ClassVar[str] = "categorical_diversity"
    aliases: ClassVar[tuple[str, ...]] = ("category_diversity",)

    @property
    def reads(self) -> Reads:
        """The categories of items."""
        return super().reads.but(facts=frozenset({"category"}))

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = recommended_of(self, batch)
        user, _ = category_sizes(recommended, recommended.within(self.k))
        return ratio(np.bincount(user, minlength=recommended.n_users), self._places(recommended))
