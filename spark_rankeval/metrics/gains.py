"""What an item is worth by its grade, and how that fades with the rank."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_rankeval.ranking.ragged import FloatArray, IntArray


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
        distinct, place = np.unique(grade[fractional], return_inverse=True)
        power[fractional] = np.fromiter(map(_power_of_two, distinct.tolist()), np.float64)[place]
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
        distinct, place = np.unique(grade[small], return_inverse=True)
        exponents = (distinct * math.log(2)).tolist()
        gain[small] = np.fromiter(map(math.expm1, exponents), np.float64)[place]
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
        known = len(self._table)
        if rank >= known:
            stop = max(rank + 1, 2 * known, 128)
            more = np.fromiter((self._weight(j) for j in range(known, stop)), np.float64, stop - known)
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


def _power_sum(n: int, decay: float) -> float:
    # Not 1 − decay^n, which loses its digits where the decay is near 1.
    return float(n) if decay == 1 else -math.expm1(n * math.log(decay)) / (1 - decay)


@cache
def geometric(decay: float) -> Discount:
    """decay^(j−1)."""
    return Discount(partial(_power, decay=decay))


@cache
def geometric_sum(decay: float) -> Discount:
    """The sum of the first n powers, 1 + decay + … + decay^(n−1), by n."""
    return Discount(partial(_power_sum, decay=decay))


@cache
def geometric_share(decay: float) -> Discount:
    """decay^(j−1)/j, what one of j items has of the weight of the first j places."""
    return Discount(partial(_power_share, decay=decay))


DISCOUNTS = {"log2": Discount(_log2), "ln": Discount(_natural), "log2_from_two": Discount(_log2_from_two)}
"""The discounts by name; ``log2_from_two`` leaves the first two ranks undiscounted."""
