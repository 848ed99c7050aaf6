"""Metrics of how different the items of a list are from one another, from a baseline's, or from the user's history."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from spark_rankeval.checks import number
from spark_rankeval.metrics.base import Needs, Reads, Unset, parameter
from spark_rankeval.metrics.gain_based import DISCOUNTS
from spark_rankeval.metrics.kinds import ListMetric, RelevanceMetric, ShareOfPlaces, ratio
from spark_rankeval.ranking.batch import UNKNOWN, Fact, RankingBatch, Recommended, is_relevant, required_fact
from spark_rankeval.ranking.user_lists import Array, BoolArray, FloatArray, IntArray

__all__ = ["CategoricalDiversity", "Diversity", "Miscalibration", "Serendipity", "Unexpectedness"]


def _users_and_category_sizes(recommended: Recommended, which: BoolArray) -> tuple[IntArray, IntArray]:
    """One entry per user and category among the items `which`: the user, and how many of the user's items have the category."""
    categories = required_fact(recommended.category)
    has_category = which & (categories != UNKNOWN)
    n_categories = int(categories.max(initial=0)) + 1
    keys, size = np.unique(recommended.user[has_category] * n_categories + categories[has_category], return_counts=True)
    return keys // n_categories, size


@dataclass(frozen=True, kw_only=True)
class Diversity(ListMetric):
    """How different the items are, two by two: the mean of 1 − s(i, j) over the n(n − 1)/2 pairs of the first k items.

    s is 1 for two items of the same category, else 0. With n_c items of category c, Σ_c n_c(n_c − 1) ÷ n(n − 1) of the pairs
    are alike. If items have several categories each, ``by="categories"`` compares their sets A and B: s is
    |A ∩ B| ÷ |A ∪ B| (Jaccard). With ``by="vector"`` s is the cosine of the items' vectors. If these have length 1, its sum
    over pairs is (|Σ v_i|² − Σ |v_i|²)/2. Between 0 and 1 (up to 2 if vectors point apart). NaN without predictions, and for lists with
    fewer than two items that have a category or a vector other than 0. With ``unknown="apart"`` an item without one is
    unlike all others.

    Source: Ziegler, McNee, Konstan, Lausen, Improving recommendation lists through topic diversification, WWW 2005 (the
    complement of intra-list similarity); Smyth, McClave, Similarity vs. diversity, ICCBR 2001. Sets: Jaccard, The distribution of
    the flora in the alpine zone, New Phytologist 1912.
    """

    name: ClassVar[str] = "diversity"
    aliases: ClassVar[tuple[str, ...]] = ("intra_list_diversity", "ild")

    by: str | Unset = parameter(
        "category",
        choices=("category", "categories", "vector"),
        doc="what makes two items alike: one category each, sets of several, or vectors",
    )
    unknown: str | Unset = parameter(
        "left_out",
        choices=("left_out", "apart"),
        doc="an item without a category or vector: left out, or unlike all others",
    )

    @property
    def reads(self) -> Reads:
        """The categories or vectors of items."""
        facts: dict[object, Fact] = {"vector": "vector", "categories": "categories"}
        return super().reads.but(facts=frozenset({facts.get(self.by, "category")}))

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
            return recommended.count(within & (required_fact(recommended.category) != UNKNOWN))
        if self.by == "categories":
            return recommended.count(within & (required_fact(recommended.category_set) != UNKNOWN))
        return recommended.count(within & recommended.directions.any(axis=1))

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        return self._n_compared(self._recommended(batch)) > 1

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = self._recommended(batch)
        n = self._n_compared(recommended)
        within = recommended.within(self.k)
        if self.by == "category":
            user, size = _users_and_category_sizes(recommended, within)
            # All three sums take each pair twice, as (i, j) and as (j, i): of these there are n(n − 1).
            alike: Array = np.bincount(user, size * (size - 1), recommended.n_users)
        elif self.by == "categories":
            alike = 2 * _sum_of_overlaps(recommended, within)
        else:
            alike = _sum_of_cosines(recommended, within)
        return np.clip(1 - ratio(alike, n * (n - 1)), 0.0, self.bounds[1])


def _sum_of_cosines(recommended: Recommended, which: BoolArray) -> FloatArray:
    """For each user, the sum of the cosines of all pairs of items, each pair twice; float64 (n_users,)."""
    unit = recommended.directions
    squared_sums, sums_of_squares = np.zeros(recommended.n_users), np.zeros(recommended.n_users)
    # One dimension after the other: the bits of a matrix product would depend on the size of the batch.
    for dimension in range(unit.shape[1]):
        along = unit[:, dimension]
        total = recommended.total(along, which)
        squared_sums += total * total
        sums_of_squares += recommended.total(along * along, which)
    return squared_sums - sums_of_squares


def _sum_of_overlaps(recommended: Recommended, which: BoolArray) -> FloatArray:
    """For each user, the sum of |A ∩ B| ÷ |A ∪ B| over the pairs of items, each pair once; float64 (n_users,).

    A and B are the sets of categories of two items. Items without categories are left out.
    """
    set_index = required_fact(recommended.category_set)
    compared = np.flatnonzero(which & (set_index != UNKNOWN))
    user, sets = recommended.user[compared], required_fact(recommended.category_sets).take(set_index[compared])
    n_categories = int(sets.values.max(initial=0)) + 1
    # There is one set per item, so what `sets.user` names is the item.
    categories_of_items = np.sort(sets.user * n_categories + sets.values)
    sums = np.zeros(recommended.n_users)
    # Each item with the next one of its list, then with the next but one, and so on.
    for distance in range(1, len(compared)):
        first = np.flatnonzero(user[distance:] == user[:-distance])
        if not len(first):
            break
        second = first + distance
        first_sets = sets.take(first)
        pair = first_sets.user
        # The categories of each pair's first item, looked up among those of its second.
        sought = second[pair] * n_categories + first_sets.values
        index = np.minimum(np.searchsorted(categories_of_items, sought), len(categories_of_items) - 1)
        n_in_both = np.bincount(pair[categories_of_items[index] == sought], minlength=len(first))
        n_in_either = sets.lengths[first] + sets.lengths[second] - n_in_both
        sums += np.bincount(user[first], n_in_both / n_in_either, recommended.n_users)
    return sums


@dataclass(frozen=True, kw_only=True)
class CategoricalDiversity(ShareOfPlaces):
    """The number of different categories ÷ the number of items: |{c(i): i in the first k}| ÷ ρ_k.

    Between 0 and 1. An item without a category adds none. NaN without predictions.

    Source: RePlay.
    """

    name: ClassVar[str] = "categorical_diversity"
    aliases: ClassVar[tuple[str, ...]] = ("category_diversity",)
    facts: ClassVar[frozenset[Fact]] = frozenset({"category"})

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = self._recommended(batch)
        user, _ = _users_and_category_sizes(recommended, recommended.within(self.k))
        return ratio(np.bincount(user, minlength=recommended.n_users), self._places(recommended))


def _is_expected(recommended: Recommended, k: int | None) -> BoolArray:
    """Whether each item is also in the first k places of the baseline's list for its user; bool, one per item."""
    rank = required_fact(recommended.baseline_rank)
    return (rank > 0) if k is None else (rank > 0) & (rank <= k)


def _has_baseline(recommended: Recommended) -> BoolArray:
    """Whether the baseline recommends anything to each user; bool (n_users,)."""
    return required_fact(recommended.baseline_size) > 0


@dataclass(frozen=True, kw_only=True)
class Unexpectedness(ShareOfPlaces):
    """The share of items that are not in the baseline's own first k: 1 − |R_k ∩ B_k| ÷ ρ_k.

    R_k are the first k items of the list, B_k those of the baseline. Between 0 and 1. NaN without predictions, or if the
    baseline recommends nothing to the user. With ``denominator="k"`` the empty places of a short list count as unexpected.

    Source: Murakami, Mori, Orihara, Metrics for evaluating the serendipity of recommendation lists, JSAI 2007; Ge,
    Delgado-Battenfeld, Jannach, Beyond accuracy, RecSys 2010.
    """

    name: ClassVar[str] = "unexpectedness"
    facts: ClassVar[frozenset[Fact]] = frozenset({"baseline"})

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        return super()._is_defined(batch) & _has_baseline(self._recommended(batch))

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = self._recommended(batch)
        places = self._places(recommended)
        n_expected = recommended.count(recommended.within(self.k) & _is_expected(recommended, self.k))
        return ratio(places - n_expected, places)


@dataclass(frozen=True, kw_only=True)
class Serendipity(ShareOfPlaces, RelevanceMetric):
    """The share of items that are relevant and unexpected: Σ_{j≤ρ_k} h_j·s_j ÷ ρ_k.

    s_j is 1 if the item is not in the baseline's own first k places, else 0. With ``against="history"`` s_j is 1 − the
    mean cosine of the item's vector with those of the user's items in the training data. The cosine is 0 for an item
    without a vector. Between 0 and 1 (up to 2 if the history's vectors point the other way). NaN without a relevant
    label, without predictions, and without what ``against`` names: a baseline's list for the user, or a history.

    Source: Ge, Delgado-Battenfeld, Jannach, Beyond accuracy: evaluating recommender systems by coverage and
    serendipity, RecSys 2010. With the history: Zhang, Ó Séaghdha, Quercia, Jambor, Auralist: introducing serendipity into
    music recommendation, WSDM 2012, multiplied by relevance.
    """

    name: ClassVar[str] = "serendipity"
    describes: ClassVar[bool] = False
    needs: ClassVar[Needs] = "relevant"

    against: str | Unset = parameter(
        "baseline",
        choices=("baseline", "history"),
        doc="what items are compared with: the baseline's list, or the vectors of the user's history",
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
        recommended = self._recommended(batch)
        defined = (batch.n_relevant(self.threshold) > 0) & (recommended.n_within(self.k) > 0)
        if self.against == "baseline":
            return defined & _has_baseline(recommended)
        return defined & (required_fact(recommended.history_size) > 0)

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = self._recommended(batch)
        relevant = recommended.within(self.k) & ~np.isnan(recommended.grade)
        relevant[relevant] = is_relevant(recommended.grade[relevant], self.threshold)
        if self.against == "baseline":
            serendipity = recommended.count(relevant & ~_is_expected(recommended, self.k)).astype(np.float64)
        else:
            serendipity = recommended.total(1 - _cosine_with_history(recommended), relevant)
        return ratio(serendipity, self._places(recommended))


def _cosine_with_history(recommended: Recommended) -> FloatArray:
    """For each item, its vector's mean cosine with those of its user's history; float64, one per item."""
    directions, history = recommended.directions, required_fact(recommended.history_vector)
    cosine = np.zeros(len(directions))
    # One dimension after the other: the bits of a matrix product would depend on the size of the batch.
    for dimension in range(directions.shape[1]):
        cosine += directions[:, dimension] * history[recommended.user, dimension]
    return cosine


@dataclass(frozen=True, kw_only=True)
class Miscalibration(ListMetric):
    """How far the list's categories are from those of the user's history: Σ_c p_c·log2(p_c ÷ ((1 − α)·q_c + α·p_c)).

    The share of category c in the history is p_c, and in the first k items q_c. An item with several categories counts for each
    in equal parts, and one without any is left out. α is ``smoothing``. This is the Kullback-Leibler divergence in bits;
    multiply it by ln 2 for natural units. From 0 up, at most log2(1/α), about 6.64.

    ``divergence="js"`` is the Jensen-Shannon divergence, without smoothing: ½ Σ p·log2(p/m) + ½ Σ q·log2(q/m), m = (p + q)/2.
    It is between 0 and 1. With ``rank_weight="log2"`` an item at rank j counts 1/log2(j + 1) in q. Smaller is better. NaN for
    users without predictions or history, or with no category in either.

    Source: Steck, Calibrated recommendations, RecSys 2018. Jensen-Shannon: Lin, Divergence measures based on the Shannon
    entropy, IEEE Transactions on Information Theory, 1991.
    """

    name: ClassVar[str] = "miscalibration"
    describes: ClassVar[bool] = False
    aliases: ClassVar[tuple[str, ...]] = ("calibration", "calibration_kl", "kl_calibration")
    larger_is_better: ClassVar[bool] = False
    facts: ClassVar[frozenset[Fact]] = frozenset({"categories", "history_categories"})

    divergence: str | Unset = parameter("kl", choices=("kl", "js"), doc="Kullback-Leibler, or Jensen-Shannon")
    smoothing: float | Unset = parameter(
        0.01,
        check=number(0, 1, what="a number between 0 and 1", open_low=True, open_high=True),
        doc="α of Kullback-Leibler, which keeps it finite if the list lacks a category",
    )
    rank_weight: str | Unset = parameter(
        "none", choices=("none", "log2"), doc="what an item at rank j counts: 1, or 1/log2(j + 1)"
    )

    @property
    def reads(self) -> Reads:
        """The items; with weights also their order."""
        reads = super().reads
        return reads if self.rank_weight in ("none", Unset.UNSET) else reads.but(tie_order=True)

    @property
    def bounds(self) -> tuple[float, float]:
        """Kullback-Leibler is at most log2(1/α)."""
        if self.divergence == "js":
            return 0.0, 1.0
        return 0.0, math.inf if isinstance(self.smoothing, Unset) else math.log2(1 / self.smoothing)

    def _is_counted(self, recommended: Recommended) -> BoolArray:
        has_category: BoolArray = required_fact(recommended.category_set) != UNKNOWN
        return recommended.within(self.k) & has_category

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        recommended = self._recommended(batch)
        has_history = np.zeros(batch.n_users, np.bool_)
        has_history[required_fact(recommended.history_categories).user] = True
        return has_history & (recommended.count(self._is_counted(recommended)) > 0)

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = self._recommended(batch)
        history = required_fact(recommended.history_categories)
        user, category, weight = self._category_weights(recommended)
        n_categories = int(max(history.category.max(initial=0), category.max(initial=0))) + 1
        history_keys, list_keys = history.user * n_categories + history.category, user * n_categories + category
        # One entry per user and category of the history, of the list, or of both.
        keys, index = np.unique(np.concatenate([history_keys, list_keys]), return_inverse=True)
        p, q = np.zeros(len(keys)), np.bincount(index[len(history_keys) :], weight, len(keys))
        p[index[: len(history_keys)]] = history.share
        terms = self._terms(p, q.astype(np.float64, copy=False))
        user_of_key = keys // n_categories
        # Codes of categories come in any order: a user's terms are added from the smallest to the largest.
        ascending = np.lexsort((terms, user_of_key))
        sums = np.bincount(user_of_key[ascending], terms[ascending], batch.n_users)
        return np.clip(sums, *self.bounds)

    def _category_weights(self, recommended: Recommended) -> tuple[IntArray, IntArray, FloatArray]:
        """One entry per item and category of it, by user and then by rank: the user, the category, and what it adds to q_c."""
        counted = np.flatnonzero(self._is_counted(recommended))
        sets = required_fact(recommended.category_sets).take(required_fact(recommended.category_set)[counted])
        user, rank = recommended.user[counted], recommended.rank[counted]
        weight = DISCOUNTS["log2"](rank) if self.rank_weight == "log2" else np.ones(len(rank))
        share = weight / np.bincount(user, weight, recommended.n_users)[user] / sets.lengths
        # There is one set per item, so what `sets.user` names is the item.
        item = sets.user
        return user[item], sets.values, share[item]

    def _terms(self, p: FloatArray, q: FloatArray) -> FloatArray:
        """What each category of a user adds to the divergence."""
        if self.divergence == "js":
            middle = (p + q) / 2
            return (_kullback_leibler_terms(p, middle) + _kullback_leibler_terms(q, middle)) / 2
        smoothing = float(self.smoothing)  # type: ignore[arg-type]  # resolved
        return _kullback_leibler_terms(p, (1 - smoothing) * q + smoothing * p)


def _kullback_leibler_terms(p: FloatArray, q: FloatArray) -> FloatArray:
    """p·log2(p ÷ q) for each entry, 0 if p is 0; q must be above 0 wherever p is."""
    nonzero = np.flatnonzero(p)
    # The last bit of numpy's logarithms depends on the processor.
    logarithms = np.fromiter(map(math.log2, (p[nonzero] / q[nonzero]).tolist()), np.float64, len(nonzero))
    terms = np.zeros(len(p))
    terms[nonzero] = p[nonzero] * logarithms
    return terms
