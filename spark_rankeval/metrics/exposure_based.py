"""Metrics of all lists together: how exposure is spread over items, and how alike lists are."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from spark_rankeval.metrics.base import Reads, Unset, parameter
from spark_rankeval.metrics.kinds import AllListsMetric
from spark_rankeval.ranking.batch import Fact, Totals
from spark_rankeval.ranking.user_lists import BoolArray, IntArray

__all__ = ["CatalogueCoverage", "Entropy", "Gini", "Personalisation"]


@dataclass(frozen=True, eq=False)
class Exposure:
    """A histogram of how many users have an item in their first k places.

    Attributes:
        count: int64, a number of lists; one entry for each different number and kind of item.
        n_items: int64, how many items of that kind are in that number of lists.
        is_in_training: whether the training data has these items.
        is_in_items: whether the catalogue has these items.
        n_users: how many users have a list.
        totals: the sizes of the tables.
    """

    count: IntArray
    n_items: IntArray
    is_in_training: BoolArray
    is_in_items: BoolArray
    n_users: int
    totals: Totals = field(default_factory=Totals)

    @property
    def n_places(self) -> int:
        """How many places of lists are filled: Σ_u min(k, ρ_u)."""
        return int((self.count * self.n_items).sum())

    def among(self, catalogue: str | Unset) -> tuple[IntArray, IntArray]:
        """The counts of a catalogue's items, ascending, and how many items have each; items in no list have 0.

        Args:
            catalogue: ``training``, ``items``, or ``recommended`` for the items that are in any list.
        """
        is_member = {"training": self.is_in_training, "items": self.is_in_items}.get(
            str(catalogue), np.ones_like(self.is_in_items)
        )
        counts, inverse = np.unique(self.count[is_member], return_inverse=True)
        n_items = np.zeros(len(counts), np.int64)
        np.add.at(n_items, inverse, self.n_items[is_member])
        size = {"training": self.totals.training_items, "items": self.totals.items}.get(str(catalogue), 0)
        unseen = size - int(n_items.sum())
        if unseen > 0:
            return np.concatenate([[0], counts]), np.concatenate([[unseen], n_items])
        return counts, n_items


@dataclass(frozen=True, kw_only=True)
class CorpusMetric(AllListsMetric):
    """A metric of how many users have each item."""

    @property
    def reads(self) -> Reads:
        """The items, and the table of the catalogue."""
        needed: dict[str, Fact] = {"training": "popularity", "items": "catalogue"}
        catalogue = getattr(self, "among", "recommended")
        return super().reads.but(facts=frozenset({needed[catalogue]} if catalogue in needed else ()))


@dataclass(frozen=True, kw_only=True)
class CatalogueCoverage(CorpusMetric):
    """The share of the catalogue that stands in anybody's first k places: |{i in C: c_i > 0}| ÷ |C|.

    C is the items of the training data, or of the table of items (``among="items"``). The number of users with item i
    in their first k places is c_i. Between 0 and 1. With ``counted="any"`` items outside C count as well, and the value
    may exceed 1. NaN without predictions, or for an empty catalogue.

    Source: Shani, Gunawardana, Evaluating recommendation systems, Recommender Systems Handbook, 2011; Ge,
    Delgado-Battenfeld, Jannach, Beyond accuracy, RecSys 2010.
    """

    name: ClassVar[str] = "catalogue_coverage"
    aliases: ClassVar[tuple[str, ...]] = ("coverage", "catalog_coverage", "item_coverage")

    among: str | Unset = parameter(
        "training",
        choices=("training", "items"),
        doc="the catalogue: items of the training data, or of the table of items",
    )
    counted: str | Unset = parameter(
        "catalogue", choices=("catalogue", "any"), doc="recommended items that the catalogue has, or all of them"
    )

    @property
    def bounds(self) -> tuple[float, float]:
        """With ``counted="any"`` more items may count than the catalogue has."""
        return 0.0, math.inf if self.counted == "any" else 1.0

    def _value(self, exposure: Exposure) -> float:
        """The share."""
        size = exposure.totals.items if self.among == "items" else exposure.totals.training_items
        if not size or not exposure.n_users:
            return math.nan
        counts, n_items = exposure.among("recommended" if self.counted == "any" else self.among)
        return int(n_items[counts > 0].sum()) / size


@dataclass(frozen=True, kw_only=True)
class Gini(CorpusMetric):
    """How unequally exposure is spread over items: Σ_{r=1..n} (2r − n − 1)·c_(r) ÷ (n·Σ c).

    For each of the n items of the catalogue, c counts the users with the item in their first k places; it may be 0. In ascending
    order these are c_(1) ≤ … ≤ c_(n). Between 0 (all alike) and 1; smaller is better if exposure should be spread. NaN without
    predictions of items in the catalogue.

    ``denominator="items_minus_1"`` divides by (n − 1)·Σ c, as Shani and Gunawardana do. If one item has all the exposure, the
    value is then 1 and not 1 − 1/n. It is NaN for a catalogue of one item.

    Source: Adomavicius, Kwon, Improving aggregate recommendation diversity using ranking-based techniques, TKDE 2012; Shani,
    Gunawardana, Evaluating recommendation systems, Recommender Systems Handbook, 2011.
    """

    name: ClassVar[str] = "gini"
    aliases: ClassVar[tuple[str, ...]] = ("gini_index",)
    larger_is_better: ClassVar[bool] = False

    among: str | Unset = parameter(
        "training",
        choices=("training", "items", "recommended"),
        doc="which items: those of the training data, those of the table of items, or those in any list",
    )
    denominator: str | Unset = parameter("items", choices=("items", "items_minus_1"), doc="n·Σ c, or (n − 1)·Σ c")

    def _value(self, exposure: Exposure) -> float:
        """The index, computed in whole numbers up to the last division."""
        weighted_sum, before = 0, 0
        counts, sizes = (part.tolist() for part in exposure.among(self.among))
        n = sum(sizes)
        places = sum(count * size for count, size in zip(counts, sizes, strict=True))
        divisor = n - (self.denominator == "items_minus_1")
        if not (places and divisor):
            return math.nan
        for count, size in zip(counts, sizes, strict=True):
            # Σ (2r − n − 1) over the ranks before+1 … before+size.
            weighted_sum += count * size * (2 * before + size - n)
            before += size
        return weighted_sum / (divisor * places)


@dataclass(frozen=True, kw_only=True)
class Entropy(CorpusMetric):
    """How evenly exposure is spread over items: Σ_i −p_i·log2 p_i, p_i = c_i ÷ Σ c.

    The number of users with item i in their first k places is c_i. From 0 up, in bits: 0 if one item has all the
    exposure, at most log2 of the number of items. NaN without predictions.

    Source: Shani, Gunawardana, Evaluating recommendation systems, Recommender Systems Handbook, 2011, formula 21
    (Shannon entropy); also called distributional coverage.
    """

    name: ClassVar[str] = "entropy"
    aliases: ClassVar[tuple[str, ...]] = ("exposure_entropy", "distributional_coverage", "shannon_entropy")
    value_range: ClassVar[tuple[float, float]] = (0.0, math.inf)

    def _value(self, exposure: Exposure) -> float:
        """The entropy."""
        counts, sizes = exposure.among("recommended")
        places = exposure.n_places
        if not places:
            return math.nan
        terms = zip(counts.tolist(), sizes.tolist(), strict=True)
        return math.fsum(size * (count / places) * math.log2(places / count) for count, size in terms)


@dataclass(frozen=True, kw_only=True)
class Personalisation(CorpusMetric):
    """How little two users' lists have in common: 1 − the mean of |R_u ∩ R_v| over all pairs of users ÷ the places of a list.

    The number of users with item i in their first k places is c_i. The pairs of n users share Σ_i c_i(c_i − 1)/2 items.
    The value is 1 − Σ_i c_i(c_i − 1) ÷ (n(n − 1)·d), where d is the mean of ρ_k, or k. Between 0 (all lists alike)
    and 1; lists of unequal lengths, which can share more than d items, have 0, too. NaN without predictions for two users.

    Source: Zhou and others, Solving the apparent diversity-accuracy dilemma of recommender systems, PNAS 2010: the
    mean of their Hamming distance.
    """

    name: ClassVar[str] = "personalisation"
    aliases: ClassVar[tuple[str, ...]] = ("personalization", "inter_user_diversity")

    denominator: str | Unset = parameter(
        "predictions", choices=("predictions", "k"), doc="the mean of min(k, ρ), the number of filled places, or k"
    )

    def _value(self, exposure: Exposure) -> float:
        """The complement of the overlap, computed in whole numbers up to the last division."""
        counts, sizes = (part.tolist() for part in exposure.among("recommended"))
        n, places = exposure.n_users, exposure.n_places
        if n < 2:
            return math.nan
        shared = sum(count * (count - 1) * size for count, size in zip(counts, sizes, strict=True))
        slots = n * self.k if self.denominator == "k" and self.k is not None else places
        # Lists of unequal lengths can share more items than a list has on average.
        return max(0.0, 1 - shared / ((n - 1) * slots))
