"""What items are worth by their grades, how that fades with the rank, and metrics that add it up."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np

from spark_rankeval.metrics.base import Needs, Reads, Unset, parameter
from spark_rankeval.metrics.expected_values import EstimatedSum, TieAwareMetric, summed_over_places
from spark_rankeval.metrics.kinds import RelevanceMetric
from spark_rankeval.ranking.batch import RankingBatch, is_relevant, retrieved, tied_labels
from spark_rankeval.ranking.user_lists import FloatArray, IntArray

__all__ = ["CG", "DCG"]

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


def linear(grade: FloatArray) -> FloatArray:
    """The grade itself."""
    return grade


GAINS: dict[str, Callable[[FloatArray], FloatArray]] = {"exponential": exponential, "linear": linear}
"""Gain of a grade, for gains that look at the grade; ``binary`` looks at relevance instead."""


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

    def __reduce__(self) -> tuple[Any, ...]:
        return (Discount, (self._weight,))


def _log2(rank: int) -> float:
    return 1 / math.log2(rank + 1)


def _natural(rank: int) -> float:
    return 1 / math.log(rank + 1)


def _log2_from_two(rank: int) -> float:
    return 1 / math.log2(max(rank, 2))


def _power(rank: int, decay: float) -> float:
    return decay ** (rank - 1)


def _power_share(rank: int, decay: float) -> float:
    return decay ** (rank - 1) / rank


def power_sum(n: int, decay: float) -> float:
    """1 + decay + … + decay^(n−1)."""
    # Not 1 − decay^n, which loses its digits where the decay is near 1.
    return float(n) if decay == 1 else -math.expm1(n * math.log(decay)) / (1 - decay)


@cache
def geometric(decay: float) -> Discount:
    """decay^(j−1)."""
    return Discount(partial(_power, decay=decay))


@cache
def geometric_sum(decay: float) -> Discount:
    """The sum of the first n powers, 1 + decay + … + decay^(n−1), by n."""
    return Discount(partial(power_sum, decay=decay))


@cache
def geometric_share(decay: float) -> Discount:
    """decay^(j−1)/j, what one of j items has of the weight of the first j places."""
    return Discount(partial(_power_share, decay=decay))


DISCOUNTS = {"log2": Discount(_log2), "ln": Discount(_natural), "log2_from_two": Discount(_log2_from_two)}
"""The discounts by name; ``log2_from_two`` leaves the first two ranks undiscounted."""


# The sum of 2^31 of them, more than a list holds, is a number; float64 ends at 2^1024.
_LARGEST_GAIN = 2.0**992


@dataclass(frozen=True, kw_only=True)
class GainMetric(RelevanceMetric):
    """A metric of gain: defined for a user with a grade above 0, which also reaches the threshold if grades below it gain nothing.

    A grade below 0 gains what 0 gains. Binary gain with the threshold ``-inf`` reads no grades: any label is enough.
    """

    needs: ClassVar[Needs] = "gain"
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    below_threshold: str | Unset = parameter(
        "keep", choices=("keep", "zero"), doc="a grade below the relevance threshold keeps its gain, or gains nothing"
    )

    @property
    def largest_grade(self) -> float:
        """Gains are added up."""
        return _LARGEST_GAIN

    @property
    def reads(self) -> Reads:
        """The grade, a negative one as 0."""
        return super().reads.but(items="gain")

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


@dataclass(frozen=True, kw_only=True)
class CG(EstimatedSum, GainMetric):
    """Cumulated gain: the sum of the grades in the first k places, Σ_{j≤k} g_j, a negative grade as grade 0. From 0 up.

    NaN without a label above 0, 0 without predictions. With logged feedback ``ips`` is Σ w·g over the labels in the
    first k places. ``snips`` divides the sum of that over users by the sum of their Σ w ÷ ρ_k.

    Source: Järvelin, Kekäläinen, Cumulated gain-based evaluation of IR techniques, TOIS 2002.
    """

    name: ClassVar[str] = "cg"
    aliases: ClassVar[tuple[str, ...]] = ("cumulative_gain", "cumulated_gain")
    value_range: ClassVar[tuple[float, float]] = (0.0, math.inf)

    def _values(self, batch: RankingBatch) -> FloatArray:
        if not self.averages_ties:
            return batch.total(batch.user, self._gains(batch), batch.within(self.k))
        return self._weighted(batch, self._chance_within(batch))

    def _item_gains(self, batch: RankingBatch) -> FloatArray:
        return self._gains(batch)


@dataclass(frozen=True, kw_only=True)
class DiscountedMetric(TieAwareMetric, GainMetric):
    """A metric of discounted gain."""

    gain: str | Unset = parameter(
        "exponential",
        choices=("exponential", "linear", "binary"),
        doc="worth of grade g: 2^g − 1, g, or 1 where the item is relevant",
    )
    discount: str | Unset = parameter(
        "log2",
        choices=("log2", "ln", "log2_from_two"),
        doc="weight of rank j: 1/log2(j+1), 1/ln(j+1), or 1/log2(max(j, 2))",
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
        return DISCOUNTS[str(self.discount)]

    def _gain_key(self) -> tuple[object, ...]:
        return (self.gain, *super()._gain_key())

    def _gain_of(self, grade: FloatArray) -> FloatArray:
        gain = super()._gain_of(grade)
        return gain if self._is_binary else GAINS[str(self.gain)](gain)

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
            total = summed_over_places(
                groups.places_within(self.k), lambda group, j: self._discount(groups.above[group] + j)
            )
            return np.repeat(total / groups.size, groups.held)

        return batch.remember(("mean discount", self.discount, self.k), mean)


@dataclass(frozen=True, kw_only=True)
class DCG(EstimatedSum, DiscountedMetric):
    """Discounted cumulated gain: Σ_{j≤k} gain(g_j)·d(j). From 0 up.

    By default gain(g) is 2^g − 1 and d(j) is 1/log2(j+1). A negative grade gains what 0 gains. NaN without a label
    above 0, 0 without predictions. With logged feedback ``ips`` is Σ w·gain·d over the labels in the first k places.
    ``snips`` divides the sum of that over users by the sum of their Σ w·d ÷ Σ_{j≤ρ_k} d(j).

    Source: Burges et al., Learning to rank using gradient descent, ICML 2005 (exponential gain); Järvelin and
    Kekäläinen, TOIS 2002 (linear gain).
    """

    name: ClassVar[str] = "dcg"
    aliases: ClassVar[tuple[str, ...]] = ("discounted_cumulative_gain",)
    value_range: ClassVar[tuple[float, float]] = (0.0, math.inf)

    def _values(self, batch: RankingBatch) -> FloatArray:
        return self._dcg(batch)

    def _item_gains(self, batch: RankingBatch) -> FloatArray:
        return self._gains(batch)

    def _place_weights(self, batch: RankingBatch) -> FloatArray:
        return (
            self._mean_discount(batch)
            if self.averages_ties
            else self._chance_within(batch) * self._discount(batch.rank)
        )

    def _list_weights(self, batch: RankingBatch) -> FloatArray:
        return self._discount.summed(retrieved(batch, self.k))
