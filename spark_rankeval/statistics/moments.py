"""Count, sum and spread of columns, added exactly, so that no split of the rows changes a bit of the result.

Floating-point sums differ in their last digits with the order of the terms, which on a cluster is the partitions'.
Here a value is split into whole numbers of units of 1, 2⁻³² and 2⁻⁶⁴, and whole numbers add up the same in every order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Array = np.ndarray[Any, Any]

_UNIT = 2.0**32
# Above this a value's units of 1 could overflow a 64-bit sum over billions of users; such values add as floats.
_LARGE = 2.0**31
_ROWS = 1 << 16

#: The fields of a state, one 64-bit integer column each; all of them are added when states are merged.
COUNTS = ("n", "n_undefined", "n_zero")
SUM_LIMBS = ("sum_ones", "sum_middle", "sum_low")
SQUARE_LIMBS = ("square_ones", "square_middle", "square_low")
INTEGERS = (*COUNTS, *SUM_LIMBS, *SQUARE_LIMBS)
#: Fields that are floats: sums of values too large for exact ones (added), and the extremes (least, greatest).
LARGE = ("sum_large", "square_large")


class MomentsAccumulator:
    """The moments of several columns, of rows that come batch by batch."""

    def __init__(self, n_columns: int) -> None:
        self._integers = np.zeros((len(INTEGERS), n_columns), np.int64)
        self._large = np.zeros((len(LARGE), n_columns))
        self._least = np.full(n_columns, math.inf)
        self._greatest = np.full(n_columns, -math.inf)

    def add(self, columns: Matrix) -> None:
        """Take in rows.

        Args:
            columns: float64, shape (n_columns, n_rows); NaN is counted as undefined and left out of the rest.
        """
        for start in range(0, columns.shape[1], _ROWS):
            self._add(columns[:, start : start + _ROWS])

    def _add(self, columns: Matrix) -> None:
        undefined = np.isnan(columns)
        n_undefined = np.count_nonzero(undefined, axis=1)
        if n_undefined.any():
            self._least = np.fmin(self._least, np.where(undefined, math.inf, columns).min(axis=1))
            self._greatest = np.fmax(self._greatest, np.where(undefined, -math.inf, columns).max(axis=1))
            columns = np.where(undefined, 0.0, columns)
        elif columns.shape[1]:
            self._least = np.minimum(self._least, columns.min(axis=1))
            self._greatest = np.maximum(self._greatest, columns.max(axis=1))
        n_rows = columns.shape[1]
        self._integers[0] += n_rows - n_undefined
        self._integers[1] += n_undefined
        self._integers[2] += n_rows - np.count_nonzero(columns, axis=1) - n_undefined
        with np.errstate(over="ignore"):
            self._add_limbs(columns, 3, 0)
            self._add_limbs(columns * columns, 6, 1)

    def _add_limbs(self, values: Matrix, first: int, large: int) -> None:
        is_large = np.abs(values) >= _LARGE
        if is_large.any():
            self._large[large] += np.where(is_large, values, 0.0).sum(axis=1)
            values = np.where(is_large, 0.0, values)
        ones = np.rint(values)
        rest = (values - ones) * _UNIT
        middle = np.rint(rest)
        low = np.rint((rest - middle) * _UNIT)
        # Each limb is a whole number below 2^32, so that the float sum of up to 2^16 of them is exact.
        for offset, limb in enumerate((ones, middle, low)):
            self._integers[first + offset] += limb.sum(axis=1).astype(np.int64)
        self._carry(first)

    def _carry(self, first: int) -> None:
        """Keep the lower limbs small: what states are merged by need not fear an overflow."""
        for lower in (first + 2, first + 1):
            carried = self._integers[lower] >> 32
            self._integers[lower] -= carried << 32
            self._integers[lower - 1] += carried

    def state(self) -> dict[str, Array]:
        """The state so far: for each field an array with one entry a column."""
        floats = dict(zip(LARGE, self._large, strict=True))
        return {**dict(zip(INTEGERS, self._integers, strict=True)), **floats, "least": self._least, "greatest": self._greatest}


@dataclass(frozen=True)
class Moments:
    """The figures of one column.

    Attributes:
        n: how many values there are; NaN is none.
        n_undefined: how many were NaN.
        n_zero: how many are exactly 0.
        mean: the exact mean, rounded once; NaN for no value.
        std: the standard deviation of the sample (divisor n − 1); NaN for fewer than two values.
        least: the smallest value; NaN for no value.
        greatest: the largest value; NaN for no value.
        total: the exact sum, rounded once.
    """

    n: int
    n_undefined: int
    n_zero: int
    mean: float
    std: float
    least: float
    greatest: float
    total: float


def moments_of(state: dict[str, Any]) -> Moments:
    """The figures of one column from its merged state: every field of `MomentsAccumulator.state`, one entry each."""
    n = int(state["n"])
    counts = {"n": n, "n_undefined": int(state["n_undefined"]), "n_zero": int(state["n_zero"])}
    if n == 0:
        return Moments(**counts, mean=math.nan, std=math.nan, least=math.nan, greatest=math.nan, total=0.0)
    least, greatest = float(state["least"]), float(state["greatest"])
    total, squares = _exact(state, SUM_LIMBS), _exact(state, SQUARE_LIMBS)
    large, large_squares = float(state["sum_large"]), float(state["square_large"])
    if not (math.isfinite(large) and math.isfinite(large_squares)):
        return Moments(**counts, mean=large, std=math.nan, least=least, greatest=greatest, total=large)
    total, squares = total + Fraction(large), squares + Fraction(large_squares)
    variance = max(Fraction(0), (squares - total * total / n) / (n - 1)) if n > 1 else Fraction(0)
    # Each square is rounded before it is added: of equal values the difference is noise, not spread.
    std = math.nan if n < 2 else 0.0 if least == greatest else math.sqrt(variance)
    return Moments(**counts, mean=float(total / n), std=std, least=least, greatest=greatest, total=float(total))


def _exact(state: dict[str, Any], limbs: tuple[str, ...]) -> Fraction:
    ones, middle, low = (int(state[limb]) for limb in limbs)
    return Fraction((ones << 64) + (middle << 32) + low, 1 << 64)
