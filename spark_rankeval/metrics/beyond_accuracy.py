"""Metrics beyond accuracy: diversity, popularity and novelty, and the correlation of two orders."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from spark_rankeval.metrics import base
from spark_rankeval.metrics.base import ListMetric, Metric, Reads, RelevanceMetric, ShareOfPlaces, parameter, ratio
from spark_rankeval.metrics.gains import DISCOUNTS, sums_of_larger_before
from spark_rankeval.ranking import user_lists
from spark_rankeval.ranking.batch import UNKNOWN, Fact, RankingBatch, Recommended, is_relevant, required_fact
from spark_rankeval.ranking.user_lists import Array, BoolArray, FloatArray, IntArray


def _users_and_category_sizes(recommended: Recommended, which: BoolArray) -> tuple[IntArray, IntArray]:
    """One entry per user and category among the items `which`: the user, and how many of the user's items have the category."""
    categories = required_fact(recommended.category)
    has_category = which & (categories != UNKNOWN)
    n_categories = int(categories.max(initial=0)) + 1
    keys, size = np.unique(recommended.user[has_category] * n_categories + categories[has_category], return_counts=True)
    return keys // n_categories, size


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

    name = "diversity"
    aliases = ("intra_list_diversity", "ild")

    by: str = parameter(
        "category",
        choices=("category", "categories", "vector"),
        doc="what makes two items alike: one category each, sets of several, or vectors",
    )
    unknown: str = parameter(
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


class CategoricalDiversity(ShareOfPlaces):
    """The number of different categories ÷ the number of items: |{c(i): i in the first k}| ÷ ρ_k.

    Between 0 and 1. An item without a category adds none. NaN without predictions.

    Source: RePlay.
    """

    name = "categorical_diversity"
    aliases = ("category_diversity",)
    facts = frozenset({"category"})

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


class Unexpectedness(ShareOfPlaces):
    """The share of items that are not in the baseline's own first k: 1 − |R_k ∩ B_k| ÷ ρ_k.

    R_k are the first k items of the list, B_k those of the baseline. Between 0 and 1. NaN without predictions, or if the
    baseline recommends nothing to the user. With ``denominator="k"`` the empty places of a short list count as unexpected.

    Source: Murakami, Mori, Orihara, Metrics for evaluating the serendipity of recommendation lists, JSAI 2007; Ge,
    Delgado-Battenfeld, Jannach, Beyond accuracy, RecSys 2010.
    """

    name = "unexpectedness"
    facts = frozenset({"baseline"})

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        return super()._is_defined(batch) & _has_baseline(self._recommended(batch))

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = self._recommended(batch)
        places = self._places(recommended)
        n_expected = recommended.count(recommended.within(self.k) & _is_expected(recommended, self.k))
        return ratio(places - n_expected, places)


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

    name = "serendipity"
    describes = False
    needs = "relevant"

    against: str = parameter(
        "baseline",
        choices=("baseline", "history"),
        doc="what items are compared with: the baseline's list, or the vectors of the user's history",
    )

    @property
    def reads(self) -> Reads:
        """The items with their labels, and the baseline's lists or the vectors."""
        facts: set[Fact] = {"vector", "history_vector"} if self.against == "history" else {"baseline"}
        return super().reads.but(facts=frozenset(facts))

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

    name = "miscalibration"
    describes = False
    aliases = ("calibration", "calibration_kl", "kl_calibration")
    larger_is_better = False
    facts = frozenset({"categories", "history_categories"})

    divergence: str = parameter("kl", choices=("kl", "js"), doc="Kullback-Leibler, or Jensen-Shannon")
    smoothing: float | base.Unset = parameter(
        0.01, check=base.OPEN_SHARE, doc="α of Kullback-Leibler, which keeps it finite if the list lacks a category"
    )
    rank_weight: str | base.Unset = parameter(
        "none", choices=("none", "log2"), doc="what an item at rank j counts: 1, or 1/log2(j + 1)"
    )

    @property
    def reads(self) -> Reads:
        """The items; with weights also their order."""
        reads = super().reads
        return reads if self.rank_weight in ("none", base.UNSET) else reads.but(tie_order=True)

    @property
    def bounds(self) -> tuple[float, float]:
        """Kullback-Leibler is at most log2(1/α)."""
        if self.divergence == "js":
            return 0.0, 1.0
        return 0.0, math.inf if isinstance(self.smoothing, base.Unset) else math.log2(1 / self.smoothing)

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


def popularity(recommended: Recommended, by: str) -> IntArray:
    """How often each item is in the training data: how many users have it, or how many rows are of it."""
    return required_fact(recommended.training_interactions if by == "interactions" else recommended.training_users)


def self_information(counts: IntArray, total: int) -> FloatArray:
    """−log2(count / total), NaN if either is 0; float64, shape of `counts`."""
    # The last bit of numpy's logarithms depends on the processor. Python's are fast enough for few different counts.
    different, inverse = np.unique(counts, return_inverse=True)
    information = [-math.log2(count / total) if count and total else math.nan for count in different.tolist()]
    return np.array(information, np.float64)[inverse]


class Novelty(ListMetric):
    """The mean self-information of the items: Σ_{j≤ρ_k} −log2(u_j / N) ÷ ρ_k.

    u_j is how many of the N users of the training data have the item at rank j. With ``by="interactions"`` it is
    how many of the N interactions are of it. An item outside the training data has u_j = 1, unless ``unknown`` says
    otherwise. From 0 up, in bits. ``by="history"`` gives instead the share of items that the user does not have in the
    training data. NaN without predictions (of items that count), and unless ``by="history"`` without training data.

    Source: Castells, Vargas, Wang, Novelty and diversity metrics for recommender systems, DDR at ECIR 2011. Zhou and
    others, Solving the apparent diversity-accuracy dilemma of recommender systems, PNAS 2010. ``by="history"``: RePlay.
    """

    name = "novelty"
    aliases = ("mean_self_information", "msi", "miuf")

    by: str = parameter(
        "users",
        choices=("users", "interactions", "history"),
        doc="what makes an item known: users who have it, interactions with it, or that the user has it",
    )
    unknown: str = parameter(
        "one",
        choices=("one", "left_out", "zero"),
        doc="an item outside the training data: has u_j = 1, is left out of the mean, or adds 0",
    )

    @property
    def reads(self) -> Reads:
        """The popularity of items, or what users have."""
        fact: Fact = "history" if self.by == "history" else "popularity"
        return super().reads.but(facts=frozenset({fact}))

    @property
    def bounds(self) -> tuple[float, float]:
        """By history the value is a share."""
        return (0.0, 1.0) if self.by == "history" else (0.0, math.inf)

    def _total(self, recommended: Recommended) -> int:
        totals = recommended.totals
        return totals.training_interactions if self.by == "interactions" else totals.training_users

    def _counted(self, recommended: Recommended) -> BoolArray:
        within = recommended.within(self.k)
        if self.by == "history" or self.unknown != "left_out":
            return within
        return within & (popularity(recommended, self.by) > 0)

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        recommended = self._recommended(batch)
        has_training = self.by == "history" or self._total(recommended) > 0
        return (recommended.count(self._counted(recommended)) > 0) & has_training

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = self._recommended(batch)
        counted = self._counted(recommended)
        n_counted = recommended.count(counted)
        if self.by == "history":
            return ratio(recommended.count(counted & ~required_fact(recommended.consumed)), n_counted)
        counts = popularity(recommended, self.by)
        if self.unknown == "one":
            counts = np.maximum(counts, 1)
        information = self_information(counts, self._total(recommended))
        # −log2(1) is −0, which becomes 0.
        information = np.where(np.isnan(information), 0.0, np.maximum(information, 0.0))
        return ratio(recommended.total(information, counted), n_counted)


class Surprisal(ShareOfPlaces):
    """The self-information of the items as a share of the largest possible: Σ_{j≤ρ_k} log2(N / u_j) / log2 N ÷ ρ_k.

    u_j is how many of the N users of the training data have the item at rank j, 1 for an item outside it.
    Between 0 and 1. NaN without predictions, or with fewer than two users in the training data.

    Source: RePlay; Zhou and others, Solving the apparent diversity-accuracy dilemma of recommender systems, PNAS 2010.
    """

    name = "surprisal"
    facts = frozenset({"popularity"})

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        return super()._is_defined(batch) & (self._recommended(batch).totals.training_users > 1)

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = self._recommended(batch)
        n = max(recommended.totals.training_users, 2)
        information = np.maximum(self_information(np.maximum(popularity(recommended, "users"), 1), n), 0.0)
        shares = np.minimum(information / math.log2(n), 1.0)
        return ratio(recommended.total(shares, recommended.within(self.k)), self._places(recommended))


class AveragePopularity(ListMetric):
    """The mean popularity of the items: Σ_{j≤ρ_k} u_j ÷ ρ_k.

    u_j is how many users of the training data have the item at rank j, 0 for an item outside it. With
    ``by="interactions"`` it is how many interactions are of it. ``scale="share"`` divides by the number of all users or
    interactions. From 0 up; smaller is better if you want less popular items. NaN without predictions.

    Source: Yin, Cui, Li, Yao, Chen, Challenging the long tail recommendation, VLDB 2012; also called ARP.
    """

    name = "average_popularity"
    aliases = ("arp", "avg_popularity", "popularity")
    larger_is_better = False
    facts = frozenset({"popularity"})

    by: str = parameter(
        "users", choices=("users", "interactions"), doc="users who have the item, or interactions with it"
    )
    scale: str = parameter("count", choices=("count", "share"), doc="how many, or which share of all")

    @property
    def bounds(self) -> tuple[float, float]:
        """A share is at most 1; a count has no upper bound."""
        return (0.0, 1.0) if self.scale == "share" else (0.0, math.inf)

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = self._recommended(batch)
        within = recommended.within(self.k)
        # Sums of whole numbers are exact below 2^53.
        mean = ratio(recommended.total(popularity(recommended, self.by), within), recommended.n_within(self.k))
        if self.scale == "count":
            return mean
        totals = recommended.totals
        return ratio(mean, float(totals.training_interactions if self.by == "interactions" else totals.training_users))


class PopularityRatio(ListMetric):
    """How much more popular the items are than those in the user's history: mean u_j over j ≤ ρ_k ÷ mean u_i over the history.

    u is how many users of the training data have an item; the history is the user's different items there. From 0 up.
    At 1 the items are as popular as the user's own choice, above 1 they are more popular. Smaller is better if you do
    not want that. NaN without predictions or a history.

    Source: Abdollahpouri, Mansoury, Burke, Mobasher, The unfairness of popularity bias in recommendation, RMSE at
    RecSys 2019. Their popularity lift is this minus 1, for groups of users.
    """

    name = "popularity_ratio"
    value_range = (0.0, math.inf)
    larger_is_better = False
    facts = frozenset({"popularity", "history_popularity"})

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        history_size = required_fact(self._recommended(batch).history_size)
        return super()._is_defined(batch) & (history_size > 0)

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = self._recommended(batch)
        history, size = required_fact(recommended.history_popularity), required_fact(recommended.history_size)
        sums = recommended.total(popularity(recommended, "users"), recommended.within(self.k))
        return ratio(ratio(sums, recommended.n_within(self.k)), ratio(history, size))


class ColdItems(ShareOfPlaces):
    """The share of items outside the training data: how many of the first k it does not have ÷ ρ_k.

    Between 0 and 1; neither direction is better in itself. NaN without predictions.

    Source: Schein, Popescul, Ungar, Pennock, Methods and metrics for cold-start recommendations, SIGIR 2002, for the term.
    """

    name = "cold_items"
    aliases = ("cold_item_share",)
    facts = frozenset({"popularity"})

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = self._recommended(batch)
        cold = recommended.within(self.k) & (popularity(recommended, "users") == 0)
        return ratio(recommended.count(cold), self._places(recommended))


class Repetition(ShareOfPlaces):
    """The share of items that the user already has in the training data: how many of the first k ÷ ρ_k.

    Between 0 and 1; smaller is better if users look for something new. NaN without predictions.

    Source: Anderson, Kumar, Tomkins, Vassilvitskii, The dynamics of repeat consumption, WWW 2014, for the fraction of
    repeated consumptions.
    """

    name = "repetition"
    aliases = ("repeated", "repeat_share")
    larger_is_better = False
    facts = frozenset({"history"})

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = self._recommended(batch)
        repeated = recommended.within(self.k) & required_fact(recommended.consumed)
        return ratio(recommended.count(repeated), self._places(recommended))


class ColdUser(ListMetric):
    """1 for a user without items in the training data, 0 for others; the mean is the share Σ cold ÷ users with predictions.

    Between 0 and 1, without a cutoff; neither direction is better in itself. NaN without predictions.

    Source: Schein, Popescul, Ungar, Pennock, Methods and metrics for cold-start recommendations, SIGIR 2002, for the
    term.
    """

    name = "cold_user"
    aliases = ("cold_users", "cold_user_share")
    takes_cutoff = False
    facts = frozenset({"history"})

    @property
    def reads(self) -> Reads:
        """Only whether the user has a list."""
        return super().reads.but(depth=1)

    def _values(self, batch: RankingBatch) -> FloatArray:
        size = required_fact(self._recommended(batch).history_size)
        cold: FloatArray = (size == 0).astype(np.float64)
        return cold


class LongTailMetric(ListMetric):
    """A metric of the items in the long tail of single lists: those that few users of the training data have."""

    facts = frozenset({"popularity", "long_tail"})

    head: float = parameter(
        0.8, check=base.OPEN_SHARE, doc="the share of all interactions, or of all items, that makes the short head"
    )
    head_of: str = parameter(
        "interactions",
        choices=("interactions", "items"),
        doc="what the head is a share of: interactions, in which a user has an item once, or items",
    )

    def _is_tail(self, recommended: Recommended) -> BoolArray:
        """Which items are in the long tail."""
        above = required_fact(recommended.share_above if self.head_of == "interactions" else recommended.items_above)
        tail: BoolArray = above >= self.head
        return tail

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        return super()._is_defined(batch) & (self._recommended(batch).totals.training_items > 0)


class LongTailShare(LongTailMetric, ShareOfPlaces):
    """The share of items in the long tail: how many of the first k ÷ ρ_k. Its mean over users is APLT.

    Items are ordered by how many users of the training data have them. An item is in the short head if all more popular
    items together have less than 80% of the interactions (``head=0.8``). All others are in the long tail. So equally popular
    items are in one group, and items outside the training data are in the tail. With ``head_of="items"`` the head is that
    share of the items. Between 0 and 1; larger values spread attention. NaN without predictions, or without training data.

    Source: Abdollahpouri, Burke, Mobasher, Controlling popularity bias in learning-to-rank recommendation, RecSys 2017. The
    head of 80% is Elliot's. RecBole's tail percentage has ``head=0.9, head_of="items"``.
    """

    name = "long_tail_share"
    aliases = ("aplt",)

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = self._recommended(batch)
        tail = recommended.within(self.k) & self._is_tail(recommended)
        return ratio(recommended.count(tail), self._places(recommended))


class LongTailItems(LongTailMetric):
    """The number of items in the long tail: Σ_{j≤ρ_k} [the item at rank j is in the tail]. Its mean over users is ACLT.

    The long tail is that of ``long_tail_share``. The name ACLT stands for average coverage of long tail items, but its formula
    counts them, and has no share of the tail. From 0 up, at most k. NaN without predictions, or without training data.

    Source: Abdollahpouri, Burke, Mobasher, Managing popularity bias in recommender systems with personalized re-ranking,
    FLAIRS 2019.
    """

    name = "long_tail_items"
    aliases = ("aclt", "long_tail_count")
    value_range = (0.0, math.inf)

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = self._recommended(batch)
        tail = recommended.within(self.k) & self._is_tail(recommended)
        counts: FloatArray = recommended.count(tail).astype(np.float64)
        return counts


def n_as_large_before(user: IntArray, key: FloatArray, n_users: int) -> FloatArray:
    """For each entry, how many earlier entries of the same user have a key at least as large."""
    return sums_of_larger_before(user, key, n_users, np.ones(len(user)))


def _n_pairs(n: IntArray) -> FloatArray:
    return n * (n - 1) / 2


class Spread(NamedTuple):
    """The parts of a correlation, together ÷ √(scores · grades); float64 (n_users,) each."""

    together: FloatArray
    scores: FloatArray
    grades: FloatArray


class Correlation(Metric):
    """A correlation coefficient of score and grade, over the items in both tables."""

    needs = "labels"
    takes_cutoff = False
    value_range = (-1.0, 1.0)

    @property
    def reads(self) -> Reads:
        """Equal scores count as equal."""
        return super().reads.but(scores=True, tie_order=False)

    @abstractmethod
    def _spread(self, batch: RankingBatch) -> Spread:
        """How scores and grades vary together and alone, in any unit; 0 for a side that does not vary."""

    def _remembered(self, batch: RankingBatch) -> Spread:
        return batch.remember(("spread", self.name), lambda: self._spread(batch))

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        spread = self._remembered(batch)
        return (spread.scores > 0) & (spread.grades > 0)

    def _values(self, batch: RankingBatch) -> FloatArray:
        spread = self._remembered(batch)
        # Rounding may carry a perfect correlation past 1.
        return np.clip(ratio(spread.together, np.sqrt(spread.scores * spread.grades)), -1.0, 1.0)


def _products(batch: RankingBatch, scores: FloatArray, grades: FloatArray) -> Spread:
    """The sums of products of two sides whose means are 0."""
    return Spread(
        batch.total(batch.user, scores * grades),
        batch.total(batch.user, scores * scores),
        batch.total(batch.user, grades * grades),
    )


class Pearson(Correlation):
    """Pearson's correlation coefficient of score and grade, over the items in both tables.

    Σ(x − x̄)(y − ȳ) ÷ √(Σ(x − x̄)²·Σ(y − ȳ)²). Between −1 and 1. Unlike rank correlations,
    it depends on how much scores differ. Lists without scores have the negated rank instead. NaN without two such items (so
    also without predictions), if all scores or all grades are equal, or if one is infinite. Labels need not be relevant.

    Source: Pearson, Notes on regression and inheritance in the case of two parents, 1895; as in ``scipy.stats.pearsonr``.
    """

    name = "pearson"
    aliases = ("pearsonr", "pearson_r")

    def _spread(self, batch: RankingBatch) -> Spread:
        infinite = ~(np.isfinite(batch.score) & np.isfinite(batch.grade))
        unusable = np.bincount(batch.user[infinite], minlength=batch.n_users)[batch.user] > 0
        score, grade = (np.where(unusable, 0.0, side) for side in (batch.score, batch.grade))
        return _products(batch, _centred(batch, score), _centred(batch, grade))


def _centred(batch: RankingBatch, values: FloatArray) -> FloatArray:
    """Values minus their user's mean, in a unit that fits the user's values; exactly 0 if all are equal."""
    largest = np.zeros(batch.n_users)
    np.maximum.at(largest, batch.user, np.abs(values))
    # A power of two changes no digit, and keeps squares of very large and very small scores within range.
    scaled = np.ldexp(values, -np.frexp(largest)[1][batch.user])
    n = np.bincount(batch.user, minlength=batch.n_users)
    # One of the values is subtracted first: large scores that are close together would lose digits in the mean.
    step = scaled - scaled[user_lists.offsets_of(n)[batch.user]]
    mean = ratio(batch.total(batch.user, step), n)
    return step - mean[batch.user]


class Spearman(Correlation):
    """Spearman's rank correlation of score and grade, over the items in both tables.

    Σ(x − x̄)(y − ȳ) ÷ √(Σ(x − x̄)²·Σ(y − ȳ)²), where x and y are ranks. Equal values share their mean rank. Between −1
    and 1. NaN without two such items (so also without predictions), or if all scores or all grades are equal. Labels
    need not be relevant.

    Source: Spearman, The proof and measurement of association between two things, 1904; as in ``scipy.stats.spearmanr``.
    """

    name = "spearman"
    aliases = ("spearmanr", "spearman_rho")

    def _spread(self, batch: RankingBatch) -> Spread:
        n = np.bincount(batch.user, minlength=batch.n_users)[batch.user]

        def ranks(key: Array) -> FloatArray:
            """Twice the mean rank, minus its mean over the items; these are whole numbers."""
            runs = user_lists.runs_of(batch.user, batch.n_users, key)
            return (2 * runs.before + runs.size - n).astype(np.float64)

        return _products(batch, ranks(batch.tied_above), ranks(-batch.grade))


class KendallTau(Correlation):
    """Kendall's τ-b of score and grade, over the items in both tables.

    (concordant − discordant pairs) ÷ √(pairs of different scores · pairs of different grades). Between −1 and 1. NaN
    without two such items (so also without predictions), or if all scores or all grades are equal. Labels need not
    be relevant.

    Source: Kendall, The treatment of ties in ranking problems, Biometrika 1945; as in ``scipy.stats.kendalltau``.
    """

    name = "kendall_tau"
    aliases = ("kendall", "kendalltau", "tau", "tau_b")

    def _spread(self, batch: RankingBatch) -> Spread:
        user, n_users = batch.user, batch.n_users
        n_pairs = _n_pairs(np.bincount(user, minlength=n_users))

        def equal_pairs(*keys: Array) -> FloatArray:
            return batch.total(user, (user_lists.runs_of(user, n_users, *keys).size - 1) / 2)

        scores, grades = equal_pairs(batch.tied_above), equal_pairs(batch.grade)
        both = equal_pairs(batch.tied_above, batch.grade)
        # Among equal scores the higher grade comes first, so that no such pair counts as discordant.
        sorted_grade = batch.grade[np.lexsort((-batch.grade, batch.tied_above, user))]
        discordant = batch.total(user, _lower_before(user, sorted_grade, n_users))
        return Spread(n_pairs - scores - grades + both - 2 * discordant, n_pairs - scores, n_pairs - grades)


def _lower_before(user: IntArray, grade: FloatArray, n_users: int) -> FloatArray:
    """For each entry, how many earlier entries of the same user have a lower grade."""
    return user_lists.position_within(user, n_users) - n_as_large_before(user, grade, n_users)


class KendallDistance(Metric):
    """The share of pairs in the wrong order: discordant pairs ÷ pairs of different grades.

    All labelled items in the first k places are paired. A pair is discordant if the item with the lower grade stands
    higher. Between 0 (none) and 1 (all); lower is better. NaN without a pair of different grades, so also without
    predictions. Labels need not be relevant.

    To compare two models' lists, pass one as predictions and the other as labels with the grades length − rank + 1.
    ``labels="best_k"`` pairs only items that are also among the k best labels, with fewer than k labels graded higher.
    The value is then pairs in opposite order ÷ n(n−1)/2 over the n items of both top k's, and it is symmetric.

    Source: Kendall, A new measure of rank correlation, Biometrika 1938.
    """

    name = "kendall_distance"
    aliases = ("kendall_tau_distance", "normalized_kendall_distance")
    needs = "labels"
    larger_is_better = False
    value_range = (0.0, 1.0)

    labels: str = parameter(
        "all",
        choices=("all", "best_k"),
        doc="which labels count: all, or the k best (fewer than k labels have a higher grade)",
    )

    def _unequal(self, batch: RankingBatch) -> FloatArray:
        """How many pairs have different grades."""

        def count() -> FloatArray:
            user, grade = self._items(batch)
            equal = batch.total(user, (user_lists.runs_of(user, batch.n_users, grade).size - 1) / 2)
            return _n_pairs(np.bincount(user, minlength=batch.n_users)) - equal

        return batch.remember(("pairs of different grades", self.k, self.labels), count)

    def _items(self, batch: RankingBatch) -> tuple[IntArray, FloatArray]:
        within = batch.within(self.k)
        if within is None or self.k is None:
            return batch.user, batch.grade
        if self.labels == "best_k":
            within = within & (batch.label_runs()[1].before < self.k)
        return batch.user[within], batch.grade[within]

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        return self._unequal(batch) > 0

    def _values(self, batch: RankingBatch) -> FloatArray:
        user, grade = self._items(batch)
        return ratio(batch.total(user, _lower_before(user, grade, batch.n_users)), self._unequal(batch))


class TauAP(Metric):
    """The AP correlation coefficient, a τ in which mistakes at the top count more.

    2/(N−1)·Σ_{i=2..N} C_i/(i−1) − 1 over the N labelled items in the order of the list. C_i counts the items above
    item i with a higher grade, and half of those with an equal grade. Between −1 and 1. NaN without two such items (so
    also without predictions), or if all grades are equal. Labels need not be relevant.

    Source: Yilmaz, Aslam, Robertson, A new rank correlation coefficient for information retrieval, SIGIR 2008.
    """

    name = "tau_ap"
    aliases = ("tauap", "ap_correlation")
    needs = "labels"
    takes_cutoff = False
    value_range = (-1.0, 1.0)

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        user, n_users = batch.user, batch.n_users
        n = np.bincount(user, minlength=n_users)
        unequal = user_lists.runs_of(user, n_users, batch.grade).size < n[user]
        return np.bincount(user[unequal], minlength=n_users) > 0

    def _values(self, batch: RankingBatch) -> FloatArray:
        user, n_users = batch.user, batch.n_users
        above = user_lists.position_within(user, n_users)
        # How many earlier entries have an equal grade: items come in rank order, which a stable sort by grade keeps.
        order = np.lexsort((batch.grade, user))
        equal = np.empty(len(user), np.int64)
        equal[order] = above - user_lists.runs_of(user, n_users, batch.grade).before[order]
        right = n_as_large_before(user, batch.grade, n_users) - equal / 2
        share = batch.total(user, right / np.maximum(above, 1))
        return ratio(2 * share, np.bincount(user, minlength=n_users) - 1) - 1
