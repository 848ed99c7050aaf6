"""Metrics of graded relevance: gains and discounts, their sums and ideals, and users who stop at a grade."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import cache
from typing import ClassVar

import numpy as np

from spark_rankeval.checks import as_text, number, problem_of_numbers, read_numbers
from spark_rankeval.errors import MetricError
from spark_rankeval.metrics import base, expected_values
from spark_rankeval.metrics.base import UNSET, Metric, Needs, Reads, RelevanceMetric, Unset, parameter, ratio
from spark_rankeval.metrics.expected_values import EstimatedSum, TieAwareMetric
from spark_rankeval.ranking.batch import RankingBatch, Sees, is_relevant, retrieved, tied_groups, tied_hits, tied_labels
from spark_rankeval.ranking.user_lists import BoolArray, FloatArray, IntArray, grouped, offsets_of, position_within

# Adding level by level takes one step per level; beyond so many levels the exact sum is quicker.
_MOST_LEVELS = 256
# Whole numbers below 2 to this power are exact as floats.
_FLOAT_BITS = 53


def sums_of_minima(user: IntArray, gain: FloatArray, n_users: int) -> FloatArray:
    """Σ_{m≤n} min(a_m, a_n) of each entry n: level by level of the user's different gains, or exactly if these are many."""
    order = np.lexsort((gain, user))
    ascending, lists = gain[order], grouped(gain, user, n_users)
    below = np.zeros(len(order))
    below[1:] = ascending[:-1]
    below[position_within(user, n_users) == 0] = 0
    rises = ascending > below
    n_levels = np.bincount(user[rises], minlength=n_users)
    sums = np.zeros(len(order))
    has_many = (n_levels > _MOST_LEVELS) & np.isfinite(np.bincount(user, gain, n_users))
    for start, stop in zip(lists.offsets[:-1][has_many], lists.offsets[1:][has_many], strict=True):
        sums[start:stop] = exact_sums_of_minima(gain[start:stop])
    # min(a, b) is the sum of the steps between levels, over the levels that both reach.
    steps, first_step = (ascending - below)[rises], offsets_of(n_levels)
    n_rises = np.concatenate([[0], np.cumsum(rises)])
    level = np.empty(len(order), np.int64)
    level[order] = n_rises[1:] - n_rises[lists.offsets[user]]
    reaching = np.flatnonzero(~has_many[user])
    for nth in range(int(level[reaching].max(initial=0))):
        reaching = reaching[level[reaching] > nth]
        above = position_within(user[reaching], n_users) + 1
        sums[reaching] += steps[first_step[user[reaching]] + nth] * above
    return sums


def exact_sums_of_minima(gain: FloatArray) -> FloatArray:
    """Σ_{m≤n} min(a_m, a_n) of each entry n of one user, rounded once."""
    user = np.zeros(len(gain), np.int64)
    n_larger = sums_of_larger_before(user, gain, 1, np.ones(len(gain)))
    sums, rest = [], gain
    # So few bits at a time, from the top down, that a float holds the sum of all entries.
    bits = _FLOAT_BITS - len(gain).bit_length()
    while rest.any():
        exponent = math.frexp(float(rest.max()))[1] - bits
        part = np.floor(np.ldexp(rest, -exponent))
        lesser = np.cumsum(part) - part - sums_of_larger_before(user, gain, 1, part)
        sums.append(np.ldexp(lesser + (n_larger + 1) * part, exponent).tolist())
        rest = rest - np.ldexp(part, exponent)
    return np.array(list(map(math.fsum, zip(*sums, strict=True))))


def sums_of_larger_before(user: IntArray, key: FloatArray, n_users: int, values: FloatArray) -> FloatArray:
    """For each entry, the sum of the values of earlier entries of the same user that have a key at least as large.

    As in a merge sort, stretches of 1, 2, 4, … entries come in pairs. For each entry on the right of a pair, those on
    the left are added.
    """
    position = position_within(user, n_users)
    length = np.bincount(user, minlength=n_users)[user]
    sums, target = np.zeros(len(user)), np.arange(len(user))
    # Among equal keys the earlier entry comes first, so that a left half is added before its right half.
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
        added = np.append(0.0, np.cumsum(np.where(left, values[target[by_stretch]], 0.0)))
        before = added[1:] - added[stretch[by_stretch]]
        sums[target[by_stretch[~left]]] += before[~left]
        half *= 2
    return sums


# Below it 2^g − 1 loses more than two bits as a difference.
_SMALL = 0.25


def power_of_two(grade: FloatArray) -> FloatArray:
    """2^g, exact for whole grades: library code for powers may differ in the last bit from one machine to the next."""
    whole = np.floor(grade)
    exact = np.isfinite(grade) & (np.abs(whole) < 2000)
    power = np.ldexp(1.0, np.where(exact, whole, 0).astype(np.int64))
    fractional = ~exact | (whole != grade)
    if fractional.any():
        # One by one and each once: vectorised powers round differently from one version of numpy to the next.
        distinct, inverse = np.unique(grade[fractional], return_inverse=True)
        power[fractional] = np.fromiter(map(_power_of_two, distinct.tolist()), np.float64)[inverse]
    return power


def _power_of_two(grade: float) -> float:
    try:
        return math.exp2(grade)
    except OverflowError:
        return math.inf


def exponential(grade: FloatArray) -> FloatArray:
    """2^g − 1; of a small fraction not as a difference, which would lose its digits, and near 1e-16 all of them."""
    gain = power_of_two(grade) - 1
    small = (np.abs(grade) < _SMALL) & (grade != 0)
    if small.any():
        distinct, inverse = np.unique(grade[small], return_inverse=True)
        exponents = (distinct * math.log(2)).tolist()
        gain[small] = np.fromiter(map(math.expm1, exponents), np.float64)[inverse]
    return gain


class Discount:
    """d(j), the weight of rank j, as a table that grows with the longest list seen."""

    def __init__(self, weight: Callable[[int], float]) -> None:
        self._weight = weight
        self._table = np.zeros(1)

    def __call__(self, rank: IntArray) -> FloatArray:
        """The weights of some ranks, counted from 1."""
        return self.up_to(int(rank.max(initial=0)))[rank]

    def up_to(self, rank: int) -> FloatArray:
        """The weights of the ranks from 0 to at least `rank`; that of rank 0, which nothing has, is 0."""
        size = len(self._table)
        if rank >= size:
            stop = max(rank + 1, 2 * size, 128)
            more = np.fromiter((self._weight(j) for j in range(size, stop)), np.float64, stop - size)
            self._table = np.concatenate([self._table, more])
        return self._table

    def summed_up_to(self, rank: int) -> FloatArray:
        """The sums of the first weights, one after the other, by how many: of none, of one, to those of `rank`."""
        sums: FloatArray = np.cumsum(self.up_to(rank)[: rank + 1])
        return sums

    def summed(self, n: IntArray) -> FloatArray:
        """The sum of the first weights, as many as each of some numbers says."""
        return self.summed_up_to(int(n.max(initial=0)))[n]


def power_sum(n: int, decay: float) -> float:
    """1 + decay + … + decay^(n−1)."""
    # Not 1 − decay^n, which loses its digits where the decay is near 1.
    return float(n) if decay == 1 else -math.expm1(n * math.log(decay)) / (1 - decay)


@cache
def geometric(decay: float) -> Discount:
    """decay^(j−1)."""
    return Discount(lambda rank: decay ** (rank - 1))


@cache
def geometric_sum(decay: float) -> Discount:
    """The sum of the first n powers, 1 + decay + … + decay^(n−1), by n."""
    return Discount(lambda n: power_sum(n, decay))


@cache
def geometric_share(decay: float) -> Discount:
    """decay^(j−1)/j, what one of j items has of the weight of the first j places."""
    return Discount(lambda rank: decay ** (rank - 1) / rank)


DISCOUNTS = {
    "log2": Discount(lambda rank: 1 / math.log2(rank + 1)),
    "ln": Discount(lambda rank: 1 / math.log(rank + 1)),
    "log2_from_two": Discount(lambda rank: 1 / math.log2(max(rank, 2))),
    "reciprocal": Discount(lambda rank: 1 / rank),
}
"""The discounts by name; ``log2_from_two`` leaves the first two ranks undiscounted."""


# The sum of 2^31 of them, more than a list holds, is a number; float64 ends at 2^1024.
_LARGEST_GAIN = 2.0**992


class GainMetric(RelevanceMetric):
    """A metric of gain: defined for a user with a grade above 0, which also reaches the threshold if grades below it gain nothing.

    A grade below 0 gains what 0 gains. Binary gain with the threshold ``-inf`` reads no grades: any label is enough.
    """

    needs: ClassVar[Needs] = "gain"
    value_range = (0.0, 1.0)
    sees: ClassVar[Sees] = "gain"  # a negative grade as 0

    below_threshold: str = parameter(
        "keep", choices=("keep", "zero"), doc="a grade below the relevance threshold keeps its gain, or gains nothing"
    )

    @property
    def largest_grade(self) -> float:
        """Gains are added up."""
        return _LARGEST_GAIN

    @property
    def _is_binary(self) -> bool:
        """Whether every relevant item gains 1, and no other gains anything."""
        return False

    @property
    def needed_grade(self) -> float | None:
        """The threshold, if grades below it gain nothing or if any label gains."""
        any_label_gains = self._is_binary and self.threshold == -math.inf
        loses = self.below_threshold == "zero" and (self.threshold or 0) > 0
        return self.threshold if any_label_gains or loses else super().needed_grade

    def _gain_of(self, grade: FloatArray) -> FloatArray:
        if self._is_binary:
            return is_relevant(grade, self.threshold).astype(np.float64)
        gain = np.maximum(grade, 0)
        if self.below_threshold == "zero":
            gain = np.where(is_relevant(grade, self.threshold), gain, 0)
        return gain

    def _gains(self, batch: RankingBatch) -> FloatArray:
        """The gain of every labelled prediction."""
        return batch.remember(("gains", *self._gain_key()), lambda: self._gain_of(batch.grade))

    def _gain_key(self) -> tuple[object, ...]:
        return (self.below_threshold, self.threshold)

    def _weighted(self, batch: RankingBatch, weight: FloatArray) -> FloatArray:
        """The sum of each user's gains by the weight of each labelled prediction; 0 without weight."""
        return batch.total(batch.user, np.where(weight > 0, self._gains(batch), 0.0) * weight)


class CG(EstimatedSum, GainMetric):
    """Cumulated gain: the sum of the grades in the first k places, Σ_{j≤k} g_j, a negative grade as grade 0. From 0 up.

    NaN without a label above 0, 0 without predictions. With logged feedback ``ips`` is Σ w·g over the labels in the
    first k places. ``snips`` divides the sum of that over users by the sum of their Σ w ÷ ρ_k.

    Source: Järvelin, Kekäläinen, Cumulated gain-based evaluation of IR techniques, TOIS 2002.
    """

    name = "cg"
    aliases = ("cumulative_gain", "cumulated_gain")
    value_range = (0.0, math.inf)

    def _values(self, batch: RankingBatch) -> FloatArray:
        if not self.averages_ties:
            return batch.total(batch.user, self._gains(batch), batch.within(self.k))
        return self._weighted(batch, self._chance_within(batch))

    def _item_gains(self, batch: RankingBatch) -> FloatArray:
        return self._gains(batch)


class DiscountedMetric(TieAwareMetric, GainMetric):
    """A metric of discounted gain."""

    gain: str | Unset = parameter(
        "exponential",
        choices=("exponential", "linear", "binary"),
        doc="worth of grade g: 2^g − 1, g, or 1 where the item is relevant",
    )
    discount: str = parameter(
        "log2",
        choices=("log2", "ln", "log2_from_two", "reciprocal"),
        doc="weight of rank j: 1/log2(j+1), 1/ln(j+1), 1/log2(max(j, 2)), or 1/j",
    )

    @property
    def largest_grade(self) -> float:
        """The logarithm of the largest gain."""
        return math.log2(_LARGEST_GAIN) if self.gain == "exponential" else super().largest_grade

    @property
    def _is_binary(self) -> bool:
        return self.gain == "binary"

    @property
    def _discount(self) -> Discount:
        return DISCOUNTS[self.discount]

    def _gain_key(self) -> tuple[object, ...]:
        return (self.gain, *super()._gain_key())

    def _gain_of(self, grade: FloatArray) -> FloatArray:
        gain = super()._gain_of(grade)
        return exponential(gain) if self.gain == "exponential" else gain

    def _dcg(self, batch: RankingBatch) -> FloatArray:
        """The sum over the first k ranks of gain times discount, or its expected value."""
        kind = (self.discount, *self._gain_key())

        def expect() -> FloatArray:
            return self._weighted(batch, self._mean_discount(batch))

        if self.averages_ties:
            return batch.remember(("expected dcg", self.k, *kind), expect)

        def add() -> FloatArray:
            worth = batch.remember(("worth", *kind), lambda: self._gains(batch) * self._discount(batch.rank))
            return batch.total(batch.user, worth, batch.within(self.k))

        return batch.remember(("dcg", self.k, *kind), add)

    def _mean_discount(self, batch: RankingBatch) -> FloatArray:
        """The mean discount of the places that each labelled prediction can have, 0 below k."""

        def mean() -> FloatArray:
            groups = tied_labels(batch)
            total = expected_values.summed_over_places(
                groups.places_within(self.k), lambda group, j: self._discount(groups.above[group] + j)
            )
            return np.repeat(total / groups.size, groups.held)

        return batch.remember(("mean discount", self.discount, self.k), mean)


class DCG(EstimatedSum, DiscountedMetric):
    """Discounted cumulated gain: Σ_{j≤k} gain(g_j)·d(j). From 0 up.

    By default gain(g) is 2^g − 1 and d(j) is 1/log2(j+1). A negative grade gains what 0 gains. NaN without a label
    above 0, 0 without predictions. With logged feedback ``ips`` is Σ w·gain·d over the labels in the first k places.
    ``snips`` divides the sum of that over users by the sum of their Σ w·d ÷ Σ_{j≤ρ_k} d(j).

    Source: Burges et al., Learning to rank using gradient descent, ICML 2005 (exponential gain); Järvelin and
    Kekäläinen, TOIS 2002 (linear gain).
    """

    name = "dcg"
    aliases = ("discounted_cumulative_gain",)
    value_range = (0.0, math.inf)

    def _values(self, batch: RankingBatch) -> FloatArray:
        return self._dcg(batch)

    def _item_gains(self, batch: RankingBatch) -> FloatArray:
        return self._gains(batch)

    def _place_weights(self, batch: RankingBatch) -> FloatArray:
        if self.averages_ties:
            return self._mean_discount(batch)
        return self._chance_within(batch) * self._discount(batch.rank)

    def _list_weights(self, batch: RankingBatch) -> FloatArray:
        return self._discount.summed(retrieved(batch, self.k))


class GradedAveragePrecision(GainMetric):
    """Graded average precision, AP for a user of whom it is not known from which grade on items are relevant.

    Σ_{n≤ρ_k} (1/n)·Σ_{m≤n} 𝒢(min(g_m, g_n)) ÷ Σ_{labels i} 𝒢(g_i), where 𝒢(g) is the probability that grade g is
    enough. A negative grade is grade 0. By default every grade up to the largest is equally likely to be the lowest
    that is enough. So 𝒢 grows with the grade, and its scale cancels. ``probabilities="0.5,0.3,0.2"``, or a tuple, gives
    the probability of the grades 1, 2, 3. Only proportions matter, grades beyond the last are enough for everybody, and
    a grade between two counts as the lower one. With binary labels it is AP ÷ γ.

    Between 0 and 1. NaN without a label above 0, 0 without predictions or without gain in the first k places.

    Source: Robertson, Kanoulas, Yilmaz, Extending average precision to graded relevance judgments, SIGIR 2010.
    """

    name = "gap"
    aliases = ("graded_ap", "graded_average_precision")

    probabilities: str | Unset | None = parameter(
        None,
        check=lambda value: problem_of_numbers(
            value, "numbers from 0 on, not all 0, for the grades 1, 2, … as in '0.5,0.3,0.2', or None"
        ),
        canonical=as_text,
        doc="of the grades 1, 2, … each, how likely it is the least that is enough, as '0.5,0.3,0.2'; None: uniform",
    )

    def _gain_key(self) -> tuple[object, ...]:
        return ("gap", self.probabilities, *super()._gain_key())

    def _gain_of(self, grade: FloatArray) -> FloatArray:
        gain = super()._gain_of(grade)
        if self.probabilities is None:
            return gain
        enough = np.array([0.0, *itertools.accumulate(read_numbers(self.probabilities))])
        probability: FloatArray = enough[np.minimum(gain, len(enough) - 1).astype(np.int64)]
        return probability

    def _values(self, batch: RankingBatch) -> FloatArray:
        best, key = batch.labels_by_grade(), ("most", *self._gain_key())
        most = batch.remember(key, lambda: batch.total(best.user, self._gain_of(best.values)))
        entry, gained = batch.remember(("gap", *self._gain_key()), lambda: self._shared_gains(batch))
        within = None if self.k is None else batch.rank[entry] <= self.k
        return ratio(batch.total(batch.user[entry], gained, within), most)

    def _shared_gains(self, batch: RankingBatch) -> tuple[IntArray, FloatArray]:
        """Which labelled predictions have gain, and (1/n)·Σ_{m≤n} 𝒢(min(g_m, g_n)) of each."""
        gains = self._gains(batch)
        entry = np.flatnonzero(gains > 0)
        return entry, sums_of_minima(batch.user[entry], gains[entry], batch.n_users) / batch.rank[entry]


class QMeasure(GainMetric):
    """Q-measure, AP with a bonus for grades: Σ_{j≤ρ_k} h_j·(H_j + β·cg_j)/(j + β·cg*_j) ÷ min(γ, k).

    cg is the cumulated gain down to rank j, cg* that of all labelled items, best first. A negative grade is grade 0. β
    = 0 gives AP; the larger β, the more grades weigh. Between 0 and 1. NaN without a relevant label, even if one has
    gain; 0 without predictions or a hit.

    Source: Sakai, Ranking the NTCIR systems based on multigrade relevance, AIRS 2004.
    """

    name = "q"
    aliases = ("q_measure", "qmeasure")
    needs = "relevant"

    beta: float = parameter(1.0, check=base.BETA, doc="the weight of the gain beside the hits")

    def _values(self, batch: RankingBatch) -> FloatArray:
        blended = batch.remember(("q", self.beta, *self._gain_key()), lambda: self._blended_precision(batch))
        hits = batch.hits(self.threshold)
        within = None if self.k is None else hits.rank <= self.k
        return ratio(batch.total(hits.user, blended, within), base.findable(batch, self.k, self.threshold))

    def _blended_precision(self, batch: RankingBatch) -> FloatArray:
        """(H_j + β·cg_j)/(j + β·cg*_j) of every hit."""
        beta = float(self.beta)
        hits, best = batch.hits(self.threshold), batch.labels_by_grade()
        gained = grouped(self._gains(batch), batch.user, batch.n_users).accumulated(np.add).values[hits.entry]
        ideal = best.like(self._gain_of(best.values)).accumulated(np.add)
        ideal_index = np.minimum(hits.rank, ideal.lengths[hits.user]) - 1
        blended: FloatArray = (hits.ordinal + beta * gained) / (
            hits.rank + beta * ideal.values[ideal.offsets[hits.user] + ideal_index]
        )
        return blended


_persistence = number(0, 1, what="a number above 0 and below 1", open_low=True, open_high=True)


class ScaledMetric(GainMetric):
    """A metric of gain that puts grades in proportion to the largest possible one."""

    max_grade: float | Unset | None = parameter(
        None,
        # 2^max_grade has to be a number.
        check=number(0, 1000, what="a number above 0 and up to 1000, or None", open_low=True, optional=True),
        is_grade=True,
        doc="the largest grade of the scale; None, for labels without relevance: 1",
    )

    @property
    def _scale(self) -> float:
        return 1.0 if self.max_grade is UNSET or self.max_grade is None else self.max_grade

    @property
    def largest_grade(self) -> float:
        """The largest grade of the scale."""
        return self._scale

    def _values(self, batch: RankingBatch) -> FloatArray:
        values, limit = self._scaled(batch), self.largest_grade
        beyond = batch.labels.values > limit
        if beyond.any():
            values[batch.labels.user[beyond]] = math.nan
        return values

    @abstractmethod
    def _scaled(self, batch: RankingBatch) -> FloatArray:
        """The formula, for users whose grades are in the scale."""


class CascadeMetric(ScaledMetric):
    """A metric of a user who stops at an item with a probability q that its grade gives."""

    q: str = parameter(
        "exponential", choices=("exponential", "linear"), doc="(2^g − 1)/2^max_grade, or NTCIREVAL's g/(max_grade + 1)"
    )

    def _gain_key(self) -> tuple[object, ...]:
        return ("q", self.q, self._scale, *super()._gain_key())

    def _gain_of(self, grade: FloatArray) -> FloatArray:
        gain = np.minimum(super()._gain_of(grade), self._scale)
        return gain / (self._scale + 1) if self.q == "linear" else exponential(gain) / 2.0**self._scale

    def _err(self, batch: RankingBatch) -> FloatArray:
        def add() -> FloatArray:
            key = ("stopping", *self._gain_key())
            stopping = batch.remember(key, lambda: self._stopping(batch, batch.user, batch.rank, self._gains(batch)))
            return batch.total(batch.user, stopping, batch.within(self.k))

        return batch.remember(("err", self.k, *self._gain_key()), add)

    def _ideal(self, batch: RankingBatch) -> FloatArray:
        def add() -> FloatArray:
            best, rank = batch.labels_by_grade(), batch.label_rank()
            key = ("ideal stopping", *self._gain_key())
            stopping = batch.remember(key, lambda: self._stopping(batch, best.user, rank, self._gain_of(best.values)))
            return batch.total(best.user, stopping, None if self.k is None else rank <= self.k)

        return batch.remember(("ideal err", self.k, *self._gain_key()), add)

    @staticmethod
    def _stopping(batch: RankingBatch, user: IntArray, rank: IntArray, stops: FloatArray) -> FloatArray:
        """q_r/r · Π_{i<r}(1 − q_i) of each item of lists in the order of their ranks; items left out have q = 0."""
        lists = grouped(1 - stops, user, batch.n_users)
        reached = np.ones(len(stops))
        reached[1:] = lists.accumulated(np.multiply).values[:-1]
        reached[lists.offsets[:-1][lists.lengths > 0]] = 1
        stopping: FloatArray = stops * reached / rank
        return stopping


class ERR(CascadeMetric):
    """Expected reciprocal rank, of the item at which a user stops: Σ_{r≤ρ_k} (1/r)·q_r·Π_{i<r}(1 − q_i).

    An item of grade g stops the user with probability q = (2^g − 1)/2^max_grade; a negative grade is grade 0. Between 0
    and 1, which even a perfect list does not reach. NaN without a label above 0, 0 without predictions or without gain
    in the first k places.

    Graded labels need ``max_grade``: None is 1, for labels without relevance. A user with a label above it, predicted
    or not, is NaN, even with ``undefined="zero"``, and the evaluation reports it.

    Source: Chapelle, Metzler, Zhang, Grinspan, Expected reciprocal rank for graded relevance, CIKM 2009.
    """

    name = "err"
    aliases = ("expected_reciprocal_rank",)

    def _scaled(self, batch: RankingBatch) -> FloatArray:
        return self._err(batch).copy()


class NERR(CascadeMetric):
    """Normalised expected reciprocal rank: ERR@k ÷ the ERR@k of all labelled items, best first.

    Between 0 and 1. NaN without a label above 0, 0 without predictions or without gain in the first k places. Graded
    labels need ``max_grade``, as for `ERR`; a user with a label above it is NaN.

    Source: Chapelle, Metzler, Zhang, Grinspan, Expected reciprocal rank for graded relevance, CIKM 2009.
    """

    name = "nerr"
    aliases = ("normalized_err", "normalised_err")

    def _scaled(self, batch: RankingBatch) -> FloatArray:
        return ratio(self._err(batch), self._ideal(batch))


class RBP(ScaledMetric):
    """Rank-biased precision: (1−p)·Σ_{j≤ρ_k} s_j·p^(j−1), for a user who goes on to the next item with probability p.

    s is the item's grade ÷ the user's largest (default), 1 if it is relevant, the raw grade, or its grade ÷
    ``max_grade``. A negative grade is grade 0. Between 0 and 1, which no finite list reaches; raw grades have no bound.
    NaN without a label above 0, 0 without predictions or without gain in the first k places. With ``gain="max_grade"``
    a user with a label above it is NaN, as in `ERR`.

    Source: Moffat, Zobel, Rank-biased precision for measurement of retrieval effectiveness, TOIS 2008.

    Raises:
        MetricError: ``gain="max_grade"`` without a ``max_grade``.
    """

    name = "rbp"
    aliases = ("rank_biased_precision",)

    p: float = parameter(0.8, check=_persistence, doc="the probability of going on to the next item")
    gain: str = parameter(
        "user_max",
        choices=("user_max", "binary", "raw", "max_grade"),
        doc="worth of grade g: g ÷ the user's largest grade, 1 where the item is relevant, g, or g ÷ max_grade",
    )

    def _problems(self) -> Iterator[str]:
        yield from super()._problems()
        if self.gain == "max_grade" and self.max_grade is None:
            yield "gain='max_grade' needs the largest grade; write rbp(gain='max_grade', max_grade=4)"

    @property
    def bounds(self) -> tuple[float, float]:
        """Shares of a full gain add up to less than 1, raw grades to anything."""
        return 0.0, math.inf if self.gain == "raw" else 1.0

    @property
    def largest_grade(self) -> float:
        """The largest grade of the scale, where grades are put in proportion to it."""
        return self._scale if self.gain == "max_grade" else _LARGEST_GAIN

    def _gain_key(self) -> tuple[object, ...]:
        return ("rbp", self._is_binary, *super()._gain_key())

    @property
    def _is_binary(self) -> bool:
        return self.gain == "binary"

    def _scaled(self, batch: RankingBatch) -> FloatArray:
        p = self.p
        worth = batch.remember(("worth", p, *self._gain_key()), lambda: self._gains(batch) * geometric(p)(batch.rank))
        gained = batch.total(batch.user, worth, batch.within(self.k))
        match self.gain:
            case "user_max":
                share = ratio(gained, best_grade(batch))
            case "max_grade":
                share = gained / self._scale
            case _:
                share = gained
        # Of a long list of full gains the sum may round to above 1.
        return np.minimum((1 - p) * share, self.bounds[1])


def best_grade(batch: RankingBatch) -> FloatArray:
    """The largest grade of every user's labels; 0 where none is above 0."""

    def find() -> FloatArray:
        labels, largest = batch.labels, np.zeros(batch.n_users)
        labelled = labels.lengths > 0
        if labelled.any():
            largest[labelled] = np.fmax(np.fmax.reduceat(labels.values, labels.offsets[:-1][labelled]), 0)
        return largest

    return batch.remember("best grade", find)


class RBPResidual(GainMetric):
    """How much RBP could still grow if all that is unknown were best: p^ρ + (1−p)·Σ_{unlabelled j} p^(j−1).

    Unknown are the unlabelled items and all that would follow the list. It reads no grades, and bounds RBP with shares
    of at most 1. Between 0 and 1, without a cutoff; smaller is surer. NaN without a label above 0, 0 without
    predictions; a list without gain keeps its residual.

    Source: Moffat, Zobel, Rank-biased precision for measurement of retrieval effectiveness, TOIS 2008.
    """

    name = "rbp_residual"
    aliases = ("rbp_resid",)
    sees = "labelled"
    takes_cutoff = False
    larger_is_better = False

    p: float = parameter(0.8, check=_persistence, doc="the probability of going on to the next item")

    def _values(self, batch: RankingBatch) -> FloatArray:
        weight = geometric(self.p)
        lists = grouped(batch.rank, batch.user, batch.n_users)
        labelled = lists.lengths > 0
        above = np.zeros(len(batch.rank), np.int64)
        above[1:] = batch.rank[:-1]
        above[lists.offsets[:-1][labelled]] = 0
        # The unlabelled places between two labelled ones weigh p^a − p^(b−1), and all below the last one p^last: no
        # difference of large sums.
        between = batch.total(batch.user, weight(above + 1) - weight(batch.rank))
        last = np.zeros(batch.n_users, np.int64)
        last[labelled] = batch.rank[lists.offsets[1:][labelled] - 1]
        return np.where(batch.n_predictions > 0, between + weight(last + 1), 0.0)


class XDCG(ScaledMetric):
    """The weighted mean grade of the first k places, in percent: 100·Σ_{j≤k} (g_j/G)·d^(j−1) ÷ Σ_{j≤k} d^(j−1).

    G is ``max_grade`` and d is ``decay``. There is no ideal list: 100 means that every place holds an item of the largest
    grade. A list shorter than k still divides by all k weights; without a cutoff the weights end with the list. A negative
    grade is grade 0. From 0 to 100. NaN without a label above 0, 0 without predictions or without gain in the first k
    places. Graded labels need ``max_grade``, as for `ERR`; a user with a label above it is NaN.

    Source: Azure AI Evaluation, `DocumentRetrievalEvaluator`, where it is ``xdcg@3``.
    """

    name = "xdcg"
    value_range = (0.0, 100.0)

    decay: float = parameter(
        0.6, check=base.POSITIVE_SHARE, doc="the weight of each place as a share of the weight of the place before it"
    )

    def _scaled(self, batch: RankingBatch) -> FloatArray:
        decay = self.decay
        gained = batch.total(batch.user, self._gains(batch) * geometric(decay)(batch.rank), batch.within(self.k))
        weights = geometric_sum(decay)(batch.n_predictions) if self.k is None else power_sum(self.k, decay)
        # Of full gains the quotient may round to above 1.
        return 100 * np.minimum(ratio(gained, weights * self._scale), 1)


class Fidelity(TieAwareMetric, GainMetric):
    """The share of all that is good which the first k places hold: Σ_{j≤k} w(g_j) ÷ Σ_{labels i} w(g_i), w(g) = 2^(g+1) − 1.

    A recall that counts a better item for more. Grades of 0 and below weigh nothing, and with ``below_threshold="zero"``
    all below the threshold. Where the items stand does not matter. Between 0 and 1. NaN without a label above 0, 0 without
    predictions or without gain in the first k places.

    Source: Azure AI Evaluation, `DocumentRetrievalEvaluator`, where it has no cutoff.
    """

    name = "fidelity"
    whole_order = False

    @property
    def largest_grade(self) -> float:
        """The logarithm of the largest weight."""
        return math.log2(super().largest_grade) - 1

    def _gain_key(self) -> tuple[object, ...]:
        return ("fidelity", *super()._gain_key())

    def _gain_of(self, grade: FloatArray) -> FloatArray:
        gain = super()._gain_of(grade)
        return np.where(gain > 0, power_of_two(gain + 1) - 1, 0.0)

    def _values(self, batch: RankingBatch) -> FloatArray:
        best, key = batch.labels_by_grade(), ("weight of labels", *self._gain_key())
        whole = batch.remember(key, lambda: batch.total(best.user, self._gain_of(best.values)))
        return ratio(self._weighted(batch, self._chance_within(batch)), whole)


class MaxRelevance(GainMetric):
    """The largest grade among the first k items: max_{j≤k} g_j, where an item without a label has g = 0.

    At k = 1 it is the grade of the first item. A negative grade is grade 0. From 0 up. NaN without a label above 0, 0
    without predictions or without gain in the first k places.

    Source: Azure AI Evaluation, `DocumentRetrievalEvaluator`, where it is ``top1_relevance`` and ``top3_max_relevance``.
    """

    name = "max_relevance"
    aliases = ("maximum_relevance",)
    value_range = (0.0, math.inf)
    whole_order = False

    def _values(self, batch: RankingBatch) -> FloatArray:
        within, values = batch.within(self.k), np.zeros(batch.n_users)
        selected = slice(None) if within is None else within
        np.maximum.at(values, batch.user[selected], self._gains(batch)[selected])
        return values


# An ideal of k gains is a sum over k ranks, even if all lists are short.
_MAX_ONES = 1_000_000


class IdealMetric(DiscountedMetric):
    """A metric of discounted gain that uses the gain of an ideal list.

    The ideal ``label_order`` is MLlib's: the raw labels in the order given, cut at min(k, γ). With it, negative grades
    have negative gain. The ideal ``filled_places`` is MLflow's: all labels, best first, cut at min(k, ρ). An item that
    the first k places repeat is in it as often.
    """

    ideal: str = parameter(
        "retrieved",
        choices=("retrieved", "labels", "filled_places", "k_ones", "label_order"),
        doc="the list's first k in best order, all labels best first, the same cut at min(k, ρ), k gains of 1, or MLlib's raw label order",
    )

    def _problems(self) -> Iterator[str]:
        yield from super()._problems()
        if self.ideal == "k_ones" and not 1 <= (self.k or 0) <= _MAX_ONES:
            yield f"ideal='k_ones' needs a cutoff of at most {_MAX_ONES:,}; write {self.name}(ideal='k_ones')@10"
        if self.averages_ties and self.ideal == "filled_places" and self.k is not None:
            yield (
                "ties='average' with ideal='filled_places' has no closed form, because an item that the list repeats may tie at the "
                "cutoff. Use ideal='labels', or no cutoff"
            )
        graded = self.gain is not UNSET and self.gain != "binary"
        if self.averages_ties and self.ideal == "retrieved" and self.k is not None and graded:
            yield (
                "ties='average' with ideal='retrieved' and graded gain has no closed form, because tied items at the cutoff change "
                f"the ideal too. Use ideal='labels', as in \"{self.name}(ideal='labels', ties='average')@{self.k}\", or "
                "gain='binary', or no cutoff"
            )

    @property
    def reads(self) -> Reads:
        """MLlib's order reads every label, because negative grades have negative gain."""
        return super().reads.but(items="label", label_order=True) if self.ideal == "label_order" else super().reads

    def _gain_of(self, grade: FloatArray) -> FloatArray:
        if self.ideal != "label_order" or self._is_binary:
            return super()._gain_of(grade)
        gain = exponential(grade) if self.gain == "exponential" else grade
        return np.where(is_relevant(grade, self.threshold), gain, 0) if self.below_threshold == "zero" else gain

    def _gain_key(self) -> tuple[object, ...]:
        return (self.ideal == "label_order", *super()._gain_key())

    @property
    def needed_grade(self) -> float | None:
        """MLlib's order needs any label."""
        return -math.inf if self.ideal == "label_order" else super().needed_grade

    def _idcg(self, batch: RankingBatch) -> FloatArray:
        key = ("idcg", self.ideal, self.k, self.discount, *self._gain_key())
        match self.ideal:
            case "labels":
                return batch.labels.remember(key, lambda: self._best_labels(batch))
            case "filled_places":
                return batch.remember(key, lambda: self._filled_places(batch))
            case "k_ones":
                # Added up like the gains of a list, so that a perfect list has exactly 1.
                return np.full(batch.n_users, self._discount.summed_up_to(self.k or 0)[-1])
            case "label_order":
                return batch.remember(key, lambda: self._label_order(batch))
            case _:
                return batch.remember(key, lambda: self._retrieved(batch))

    def _best_labels(self, batch: RankingBatch) -> FloatArray:
        """DCG@k of all labels, best first."""
        key, labels = self._gain_key(), batch.labels_by_grade()
        gains = batch.labels.remember(("gains of labels", *key), lambda: self._gain_of(labels.values))

        def count() -> IntArray | None:
            if not _are_binary(gains):
                return None
            return np.bincount(labels.user[np.flatnonzero(gains)], minlength=batch.n_users)

        n_gaining = batch.labels.remember(("gaining labels", *key), count)
        if n_gaining is not None:
            # Those with gain come first, and the others add nothing.
            return self._discount.summed(n_gaining if self.k is None else np.minimum(n_gaining, self.k))
        rank = batch.label_rank()
        worth = batch.labels.remember(("worth of labels", self.discount, *key), lambda: gains * self._discount(rank))
        return batch.total(labels.user, worth, None if self.k is None else rank <= self.k)

    def _filled_places(self, batch: RankingBatch) -> FloatArray:
        """DCG of all labels and of the repeated items of the first k places, best first, cut at min(k, ρ)."""
        repeats = batch.repeats()
        if self.k is not None:
            repeats = repeats[batch.rank[repeats] <= self.k]
        user = np.concatenate([batch.labels.user, batch.user[repeats]])
        gains = self._gain_of(np.concatenate([batch.labels.values, batch.grade[repeats]]))
        order = np.lexsort((-gains, user))
        user, gains = user[order], gains[order]
        rank = position_within(user, batch.n_users) + 1
        within = rank <= retrieved(batch, self.k)[user]
        return batch.total(user, np.where(within, gains, 0.0) * self._discount(rank))

    def _retrieved(self, batch: RankingBatch) -> FloatArray:
        gains = self._gains(batch)

        def best_first() -> IntArray:
            # Sorted by user first, so that users stay in place and only a user's own items are reordered.
            return np.lexsort((-gains, batch.user))

        within = batch.within(self.k)
        if batch.remember(("binary", *self._gain_key()), lambda: _are_binary(gains)):
            # Gains of 0 and 1 need no sort: the ones take the first places, and the zeros add nothing.
            gaining = np.flatnonzero(gains == 1 if within is None else (gains == 1) & within)
            return self._discount.summed(np.bincount(batch.user[gaining], minlength=batch.n_users))
        order = batch.remember(("best first", *self._gain_key()), best_first)
        selected = order if within is None else order[within[order]]
        user, gain = batch.user[selected], gains[selected]
        ideal_rank = position_within(user, batch.n_users) + 1
        return batch.total(user, gain * self._discount(ideal_rank))

    def _mean_over_retrieved(
        self, batch: RankingBatch, value: Callable[[FloatArray, FloatArray], FloatArray]
    ) -> FloatArray:
        """The mean of `value(dcg, idcg)` over all orders of tied items, for binary gains in the first k places."""
        groups = tied_hits(batch, self.threshold)
        within = groups.places_within(self.k)
        cut = (within > 0) & (within < groups.size)
        total = expected_values.summed_over_places(within, lambda group, j: self._discount(groups.above[group] + j))
        gained = batch.total(groups.user, groups.held / groups.size * total, ~cut)
        values = value(gained, self._idcg(batch))
        # If k cuts a group, the value depends on how many hits come before the cut; these hits are in random order.
        split, discount = groups.where(cut), (total / within.clip(1))[cut]
        top = expected_values.draws(split.size, split.held, within[cut])
        n_hits = split.held_above[top.case] + top.marked
        expected = gained[split.user][top.case] + top.marked * discount[top.case]
        values[split.user] = top.expected(value(expected, self._discount.summed(n_hits)))
        return values

    def _label_order(self, batch: RankingBatch) -> FloatArray:
        raw = batch.raw_labels
        if raw is None:
            msg = f"{self.name}: ideal='label_order' needs labels as ordered lists; use ideal='labels'"
            raise MetricError(msg)
        rank = position_within(raw.user, batch.n_users) + 1
        distinct = batch.labels.lengths
        end = distinct if self.k is None else np.minimum(distinct, self.k)
        within = rank <= end[raw.user]
        return batch.total(raw.user[within], self._gain_of(raw.values[within]) * self._discount(rank[within]))


def _are_binary(gains: FloatArray) -> bool:
    return bool(((gains == 0) | (gains == 1)).all())


class IDCG(IdealMetric):
    """The DCG@k of the ideal list, the denominator of NDCG: Σ_{j≤k} of the ideal gains times d(j). From 0 up.

    NaN without a label above 0. Like every metric of gain, it is 0 without predictions or without gain in the first k
    places, whichever ideal is chosen. With ``ties="average"`` orders without gain in these places count as 0.

    Source: Järvelin, Kekäläinen, Cumulated gain-based evaluation of IR techniques, TOIS 2002.

    Raises:
        MetricError: ``ideal="k_ones"`` without a cutoff; an average over ties with ``ideal="label_order"``, or, with a
            cutoff, of graded gain with ``ideal="retrieved"`` or of any with ``ideal="filled_places"``.
    """

    name = "idcg"
    describes = True
    aliases = ("ideal_dcg",)

    def _problems(self) -> Iterator[str]:
        yield from super()._problems()
        if self.averages_ties and self.ideal == "label_order":
            yield "ties='average' with ideal='label_order' has no closed form, because its gains can cancel; use ideal='labels'"

    @property
    def reads(self) -> Reads:
        """An ideal of labels or ones depends on the list only in whether it has gain; without gain the value is 0."""
        whatever_was_retrieved = self.ideal in ("labels", "k_ones") and self.below_threshold == "keep"
        return super().reads.but(items="gaining") if whatever_was_retrieved and not self._is_binary else super().reads

    @property
    def bounds(self) -> tuple[float, float]:
        """A sum has no upper bound, and in MLlib's order negative grades have negative gain."""
        return (-math.inf if self.ideal == "label_order" else 0.0), math.inf

    def _values(self, batch: RankingBatch) -> FloatArray:
        if self.averages_ties and self.ideal == "retrieved" and self.k is not None:
            return self._mean_over_retrieved(batch, self._where_gained)
        if self.averages_ties:
            gaining = tied_groups(batch, np.flatnonzero(self._gains(batch) > 0))
            return self._idcg(batch) * expected_values.chance_of_one(batch, gaining, self.k)
        return self._where_gained(self._dcg(batch), self._idcg(batch))

    @staticmethod
    def _where_gained(gained: FloatArray, ideal: FloatArray) -> FloatArray:
        return np.where(gained == 0, 0.0, ideal)


class NDCG(IdealMetric):
    """DCG@k ÷ the DCG@k of the best possible list, the ideal.

    Between 0 and 1. With ``ideal="k_ones"`` grades above 1 can make it exceed 1; MLlib's ``ideal="label_order"`` has no
    bounds. NaN without a label above 0, 0 without predictions or without gain in the first k places.

    Systems differ in gain and ideal. With ``ideal="retrieved"`` (default) only the order of the retrieved items counts.
    With ``ideal="labels"`` missed items count, too; with ``ideal="filled_places"`` only as far as the list is long.
    With ``ties="average"`` the value is the mean ratio over all orders of tied items.

    Source: Järvelin, Kekäläinen, Cumulated gain-based evaluation of IR techniques, TOIS 2002.

    Raises:
        MetricError: ``ideal="k_ones"`` without a cutoff; an average over ties, with a cutoff, of graded gain with
            ``ideal="retrieved"`` or of any with ``ideal="filled_places"``, which have no closed form.
    """

    name = "ndcg"
    aliases = ("normalized_dcg", "normalised_dcg", "normalized_discounted_cumulative_gain")

    undefined: str = base.undefined_with_rightly_empty_lists()

    @property
    def bounds(self) -> tuple[float, float]:
        """From 0 to 1, unless lists can exceed the ideal."""
        if self.ideal == "label_order":
            return -math.inf, math.inf
        return 0.0, math.inf if self.ideal == "k_ones" and self.gain != "binary" else 1.0

    def _values(self, batch: RankingBatch) -> FloatArray:
        if self.averages_ties and self.ideal == "retrieved" and self.k is not None:
            return self._mean_over_retrieved(batch, ratio)
        return ratio(self._dcg(batch), self._idcg(batch))


def overlaps(batch: RankingBatch) -> FloatArray:
    """X_d, how many items the first d predictions share with the d best labels, at the place of the d-th label; float64.

    A label counts as clip((d − a)/t, 0, 1) among the first d, where a labels are graded higher and t have its grade.
    """

    def count() -> FloatArray:
        labels, (depth_runs, item_runs) = batch.labels, batch.label_runs()
        start, user, end = labels.offsets[:-1], batch.user, item_runs.before + item_runs.size

        def counted(since: IntArray, last: IntArray) -> IntArray:
            """How many predictions count from each depth or from an earlier one, of this user and all users before."""
            counts = since <= last
            entry = start[user[counts]] + since[counts] - 1
            return np.concatenate([[0], np.cumsum(np.bincount(entry, minlength=len(labels.values)))])

        # At a depth inside a run of equal grades, items of higher grades count in full, and those of the run in part.
        whole = counted(np.maximum(batch.rank, end + 1), labels.lengths[user])
        partly = counted(np.maximum(batch.rank, item_runs.before + 1), end)
        first, depth = start[labels.user], batch.label_rank()
        run_share = partly[1:] - partly[first + depth_runs.before]
        shared: FloatArray = (whole[1:] - whole[first]) + run_share * (depth - depth_runs.before) / depth_runs.size
        return shared

    return batch.remember("overlaps", count)


class RBO(Metric):
    """Rank-biased overlap of the list with the labels in the order of their grades, extrapolated.

    (1−p)/p·[Σ_{d=1..l} (X_d/d)·p^d + Σ_{d=s+1..l} X_s·(d−s)/(s·d)·p^d] + [(X_l − X_s)/l + X_s/s]·p^l. The lengths of
    the shorter and the longer list are s and l, both cut at k; X_d is how many items both have in their first d places.
    Equal grades share places: if a labels stand above t equal ones, each of the t counts as (d − a)/t among the first d.

    It is the expected agreement of the two lists for a reader who goes on to the next depth with probability p. Below the
    lists, agreement is assumed to go on as it was. Between 0 (nothing in common) and 1 (the same order, as far as both lists
    go). NaN without a label, 0 without predictions or without an item in both. Labels need not be relevant.

    To compare two models' lists, pass one as predictions and the other as labels. The labels need distinct grades that fall
    with the rank, such as length − rank + 1. The value stays the same if the lists change roles.

    Source: Webber, Moffat, Zobel, A similarity measure for indefinite rankings, TOIS 2010, equation 32. Equal grades share
    places as in Corsi, Urbano, The treatment of ties in rank-biased overlap, SIGIR 2024.
    """

    name = "rbo"
    aliases = ("rank_biased_overlap", "rbo_ext")
    needs = "labels"
    value_range = (0.0, 1.0)

    p: float = parameter(0.9, check=_persistence, doc="the probability of going on to the next depth")

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        return batch.labels.lengths > 0

    def _values(self, batch: RankingBatch) -> FloatArray:
        p = self.p
        labels, overlap, within = batch.labels, overlaps(batch), batch.within(self.k)
        n_labels = labels.lengths if self.k is None else np.minimum(labels.lengths, self.k)
        n_predictions = retrieved(batch, self.k)
        shorter, longer = np.minimum(n_labels, n_predictions), np.maximum(n_labels, n_predictions)

        def overlap_at(depth: IntArray) -> FloatArray:
            overlap_within = np.zeros(batch.n_users)
            inside = (depth > 0) & (depth <= labels.lengths)
            overlap_within[inside] = overlap[labels.offsets[:-1][inside] + depth[inside] - 1]
            return overlap_within

        # X_s(d−s)/(s·d) is X_s/s − X_s/d. The first parts add up to X_s/s·(p^s − p^l). The second parts turn X_d into
        # X_d − X_s, so that no term is negative and nothing cancels.
        shorter_overlap, depth = overlap_at(shorter), batch.label_rank()
        terms = batch.remember(("overlap terms", p), lambda: overlap * geometric_share(p)(depth))
        beyond = np.flatnonzero(depth > shorter[labels.user])
        if len(beyond):
            terms = terms.copy()
            more = overlap[beyond] - shorter_overlap[labels.user[beyond]]
            terms[beyond] = more * geometric_share(p)(depth[beyond])
        shared = batch.total(labels.user, terms, None if self.k is None else depth <= self.k)

        # Below the last label, each labelled item of a longer list adds 1 to the overlap from its rank on.
        below = batch.rank > labels.lengths[batch.user]
        if within is not None:
            below &= within
        user, rank = batch.user[below], batch.rank[below]
        share_sums = geometric_share(p).summed_up_to(int(longer.max(initial=0)))
        shared += batch.total(user, share_sums[longer[user]] - share_sums[rank - 1])
        longer_overlap = np.where(
            longer > labels.lengths, shorter_overlap + np.bincount(user, minlength=batch.n_users), 0.0
        )
        longer_overlap += overlap_at(longer)

        power = geometric(p)
        ends = ratio(shorter_overlap, shorter) * power(shorter + 1) + ratio(
            longer_overlap - shorter_overlap, longer
        ) * power(longer + 1)
        return (1 - p) * shared + ends
