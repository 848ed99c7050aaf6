"""Exact sums of floats of any magnitude from 2⁻⁵¹² to 2⁵¹¹, so that no split or order of the terms changes a bit.

A value is cut into limbs, whole numbers of units of 2^(32·j), which add up as integers. `moments` does so more cheaply near 1.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

Column = np.ndarray[tuple[int], np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]

_BITS = 32
_UNIT = 2.0**_BITS
_LOWEST = -16
#: Limbs of a sum, the least significant first: units of 2^(32·(_LOWEST + i)).
LIMBS = 32
_ROWS = 1 << 13
# From here on a value has no limb; such values are counted.
_LIMIT = 2.0**511


class ExactSums:
    """Several sums of floats, of terms that come batch by batch."""

    def __init__(self, n_sums: int) -> None:
        self._limbs = np.zeros((n_sums, LIMBS), np.int64)
        self._n_excessive = np.zeros(n_sums, np.int64)

    def add(self, index: int, values: Column) -> None:
        """Add values without NaN to one of the sums; infinities and values from 2⁵¹¹ on are counted and make the sum NaN."""
        for start in range(0, len(values), _ROWS):
            self._add(index, values[start : start + _ROWS])
        self._carry(index)

    def _add(self, index: int, values: Column) -> None:
        greatest = float(np.abs(values).max())
        if not greatest < _LIMIT:
            fits = np.abs(values) < _LIMIT
            self._n_excessive[index] += len(values) - int(np.count_nonzero(fits))
            values = values[fits]
            greatest = float(np.abs(values).max(initial=0.0))
        if greatest == 0:
            return
        limb = max(math.frexp(greatest)[1] // _BITS - _LOWEST, 0)
        rest = values * 2.0 ** (-_BITS * (limb + _LOWEST))
        whole = np.empty_like(rest)
        while True:
            np.rint(rest, out=whole)
            # At most 2^13 whole numbers below 2^32: a float holds their sum.
            self._limbs[index, limb] += int(whole.sum())
            np.subtract(rest, whole, out=rest)
            if limb == 0 or not rest.any():
                return
            limb -= 1
            np.multiply(rest, _UNIT, out=rest)

    def _carry(self, index: int) -> None:
        """Leave limbs below 2^32, so that billions of states can be added without overflow."""
        limbs = self._limbs[index]
        carry = 0
        for limb in range(LIMBS - 1):
            total = int(limbs[limb]) + carry
            carry = total >> _BITS
            limbs[limb] = total & (2**_BITS - 1)
        limbs[-1] += carry

    def state(self) -> dict[str, Integers]:
        """The state so far: ``limbs`` (sums × LIMBS) and ``n_excessive`` (sums); states are merged by adding both."""
        return {"limbs": self._limbs.copy(), "n_excessive": self._n_excessive.copy()}


def exact_sum(limbs: Integers) -> Fraction:
    """The exact sum whose limbs these are."""
    total = sum(int(limb) << (_BITS * place) for place, limb in enumerate(limbs))
    return Fraction(total, 1 << (-_BITS * _LOWEST))
