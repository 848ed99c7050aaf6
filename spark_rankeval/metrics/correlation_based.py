"""Metrics that compare the order of the list with the order of the grades, over the items in both tables."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from spark_rankeval.metrics.base import Metric, Needs, Reads, Unset, parameter
from spark_rankeval.metrics.kinds import ratio
from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.user_lists import (
    Array,
    BoolArray,
    FloatArray,
    IntArray,
    offsets_of,
    position_within,
    runs_of,
)

__all__ = ["KendallDistance", "KendallTau", "Pearson", "Spearman", "TauAP"]


def n_as_large_before(user: IntArray, key: FloatArray, n_users: int) -> IntArray:
    """For each entry, how many earlier entries of the same user have a key at least as large.

    As in a merge sort, stretches of 1, 2, 4, … entries come in pairs. For each entry on the right of a pair, those on
    the left are counted.
    """
    position = position_within(user, n_users)
    length = np.bincount(user, minlength=n_users)[user]
    counts, target = np.zeros(len(user), np.int64), np.arange(len(user))
    # Among equal keys the earlier entry comes first, so that a left half is counted before its right half.
    order = np.lexsort((-key, user))
    half = 1
    while len(target):
        is_longer = length > half
        if not is_longer.all():
            renumbered = np.cumsum(is_longer) - 1
            order = renumbered[order[is_longer[order]]]
            position, length, target = position[is_longer], length[is_longer], target[is_longer]
        # The name of a stretch is the index of its first entry, which is also where it begins when sorted by stretch.
        stretch = np.arange(len(target)) - position % (2 * half)
        by_stretch = order[np.argsort(stretch[order], kind="stable")]
        left = (position // half % 2 == 0)[by_stretch]
        n_left = np.append(0, np.cumsum(left))
        before = n_left[1:] - n_left[stretch[by_stretch]]
        counts[target[by_stretch[~left]]] += before[~left]
        half *= 2
    return counts


def _n_pairs(n: IntArray) -> FloatArray:
    return n * (n - 1) / 2


@dataclass(frozen=True, kw_only=True)
class LabelledMetric(Metric):
    """A metric of the labelled items of a list, relevant or not. It is undefined if they do not differ."""

    needs: ClassVar[Needs] = "labels"
    zero_without_predictions: ClassVar[bool] = False
    zero_without_hits: ClassVar[bool] = False


class Spread(NamedTuple):
    """The parts of a correlation, together ÷ √(scores · grades); float64 (n_users,) each."""

    together: FloatArray
    scores: FloatArray
    grades: FloatArray


@dataclass(frozen=True, kw_only=True)
class Correlation(LabelledMetric):
    """A correlation coefficient of score and grade, over the items in both tables."""

    takes_cutoff: ClassVar[bool] = False
    value_range: ClassVar[tuple[float, float]] = (-1.0, 1.0)

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


@dataclass(frozen=True, kw_only=True)
class Pearson(Correlation):
    """Pearson's correlation coefficient of score and grade, over the items in both tables.

    Σ(x − x̄)(y − ȳ) ÷ √(Σ(x − x̄)²·Σ(y − ȳ)²). Between −1 and 1. Unlike rank correlations,
    it depends on how much scores differ. Lists without scores have the negated rank instead. NaN without two such items (so
    also without predictions), if all scores or all grades are equal, or if one is infinite. Labels need not be relevant.

    Source: Pearson, Notes on regression and inheritance in the case of two parents, 1895; as in ``scipy.stats.pearsonr``.
    """

    name: ClassVar[str] = "pearson"
    aliases: ClassVar[tuple[str, ...]] = ("pearsonr", "pearson_r")

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
    step = scaled - scaled[offsets_of(n)[batch.user]]
    mean = ratio(batch.total(batch.user, step), n)
    return step - mean[batch.user]


@dataclass(frozen=True, kw_only=True)
class Spearman(Correlation):
    """Spearman's rank correlation of score and grade, over the items in both tables.

    Σ(x − x̄)(y − ȳ) ÷ √(Σ(x − x̄)²·Σ(y − ȳ)²), where x and y are ranks. Equal values share their mean rank. Between −1
    and 1. NaN without two such items (so also without predictions), or if all scores or all grades are equal. Labels
    need not be relevant.

    Source: Spearman, The proof and measurement of association between two things, 1904; as in ``scipy.stats.spearmanr``.
    """

    name: ClassVar[str] = "spearman"
    aliases: ClassVar[tuple[str, ...]] = ("spearmanr", "spearman_rho")

    def _spread(self, batch: RankingBatch) -> Spread:
        n = np.bincount(batch.user, minlength=batch.n_users)[batch.user]

        def ranks(key: Array) -> FloatArray:
            """Twice the mean rank, minus its mean over the items; these are whole numbers."""
            runs = runs_of(batch.user, batch.n_users, key)
            return (2 * runs.before + runs.size - n).astype(np.float64)

        return _products(batch, ranks(batch.tied_above), ranks(-batch.grade))


@dataclass(frozen=True, kw_only=True)
class KendallTau(Correlation):
    """Kendall's τ-b of score and grade, over the items in both tables.

    (concordant − discordant pairs) ÷ √(pairs of different scores · pairs of different grades). Between −1 and 1. NaN
    without two such items (so also without predictions), or if all scores or all grades are equal. Labels need not
    be relevant.

    Source: Kendall, The treatment of ties in ranking problems, Biometrika 1945; as in ``scipy.stats.kendalltau``.
    """

    name: ClassVar[str] = "kendall_tau"
    aliases: ClassVar[tuple[str, ...]] = ("kendall", "kendalltau", "tau", "tau_b")

    def _spread(self, batch: RankingBatch) -> Spread:
        user, n_users = batch.user, batch.n_users
        n_pairs = _n_pairs(np.bincount(user, minlength=n_users))

        def equal_pairs(*keys: Array) -> FloatArray:
            return batch.total(user, (runs_of(user, n_users, *keys).size - 1) / 2)

        scores, grades = equal_pairs(batch.tied_above), equal_pairs(batch.grade)
        both = equal_pairs(batch.tied_above, batch.grade)
        # Among equal scores the higher grade comes first, so that no such pair counts as discordant.
        sorted_grade = batch.grade[np.lexsort((-batch.grade, batch.tied_above, user))]
        discordant = batch.total(user, _lower_before(user, sorted_grade, n_users))
        return Spread(n_pairs - scores - grades + both - 2 * discordant, n_pairs - scores, n_pairs - grades)


def _lower_before(user: IntArray, grade: FloatArray, n_users: int) -> FloatArray:
    """For each entry, how many earlier entries of the same user have a lower grade."""
    return (position_within(user, n_users) - n_as_large_before(user, grade, n_users)).astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class KendallDistance(LabelledMetric):
    """The share of pairs in the wrong order: discordant pairs ÷ pairs of different grades.

    All labelled items in the first k places are paired. A pair is discordant if the item with the lower grade stands
    higher. Between 0 (none) and 1 (all); lower is better. NaN without a pair of different grades, so also without
    predictions. Labels need not be relevant.

    To compare two models' lists, pass one as predictions and the other as labels with the grades length − rank + 1.
    ``labels="best_k"`` pairs only items that are also among the k best labels, with fewer than k labels graded higher.
    The value is then pairs in opposite order ÷ n(n−1)/2 over the n items of both top k's, and it is symmetric.

    Source: Kendall, A new measure of rank correlation, Biometrika 1938.
    """

    name: ClassVar[str] = "kendall_distance"
    aliases: ClassVar[tuple[str, ...]] = ("kendall_tau_distance", "normalized_kendall_distance")
    larger_is_better: ClassVar[bool] = False
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    labels: str | Unset = parameter(
        "all",
        choices=("all", "best_k"),
        doc="which labels count: all, or the k best (fewer than k labels have a higher grade)",
    )

    def _unequal(self, batch: RankingBatch) -> FloatArray:
        """How many pairs have different grades."""

        def count() -> FloatArray:
            user, grade = self._items(batch)
            equal = batch.total(user, (runs_of(user, batch.n_users, grade).size - 1) / 2)
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


@dataclass(frozen=True, kw_only=True)
class TauAP(LabelledMetric):
    """The AP correlation coefficient, a τ in which mistakes at the top count more.

    2/(N−1)·Σ_{i=2..N} C_i/(i−1) − 1 over the N labelled items in the order of the list. C_i counts the items above
    item i with a higher grade, and half of those with an equal grade. Between −1 and 1. NaN without two such items (so
    also without predictions), or if all grades are equal. Labels need not be relevant.

    Source: Yilmaz, Aslam, Robertson, A new rank correlation coefficient for information retrieval, SIGIR 2008.
    """

    name: ClassVar[str] = "tau_ap"
    aliases: ClassVar[tuple[str, ...]] = ("tauap", "ap_correlation")
    takes_cutoff: ClassVar[bool] = False
    value_range: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        user, n_users = batch.user, batch.n_users
        n = np.bincount(user, minlength=n_users)
        unequal = runs_of(user, n_users, batch.grade).size < n[user]
        return np.bincount(user[unequal], minlength=n_users) > 0

    def _values(self, batch: RankingBatch) -> FloatArray:
        user, n_users = batch.user, batch.n_users
        above = position_within(user, n_users)
        # How many earlier entries have an equal grade: items come in rank order, which a stable sort by grade keeps.
        order = np.lexsort((batch.grade, user))
        equal = np.empty(len(user), np.int64)
        equal[order] = above - runs_of(user, n_users, batch.grade).before[order]
        right = n_as_large_before(user, batch.grade, n_users) - equal / 2
        share = batch.total(user, right / np.maximum(above, 1))
        return ratio(2 * share, np.bincount(user, minlength=n_users) - 1) - 1
