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
# So many batches of rows add less than 2^63 to a limb.
_ADDED_BEFORE_CARRY = 1 << 17
# From here on a value has no limb; such values are counted.
_LIMIT = 2.0**511


class ExactSums:
    """Several sums of floats, of terms that come batch by batch."""

    def __init__(self, n_sums: int) -> None:
        self._limbs = np.zeros((n_sums, LIMBS), np.int64)
        self._n_excessive = np.zeros(n_sums, np.int64)
        self._n_added = 0

    def add(self, index: int, values: Column, group: Integers | None = None) -> None:
        """Add values without NaN to one of the sums; infinities and values from 2⁵¹¹ on are counted and make the sum NaN.

        With the `group` of each value, from 0 on, `index` is the sum of group 0, and those of the other groups come next.
        """
        for start in range(0, len(values), _ROWS):
            rows = slice(start, start + _ROWS)
            self._add(index, values[rows], None if group is None else group[rows])

    def _add(self, index: int, values: Column, group: Integers | None) -> None:
        greatest = float(np.abs(values).max())
        if not greatest < _LIMIT:
            fits = np.abs(values) < _LIMIT
            of_sums = np.bincount(np.zeros(len(values), np.int64) if group is None else group, ~fits)
            self._n_excessive[index : index + len(of_sums)] += of_sums.astype(np.int64)
            values, group = values[fits], None if group is None else group[fits]
            greatest = float(np.abs(values).max(initial=0.0))
        if greatest == 0:
            return
        self._n_added += 1
        if self._n_added % _ADDED_BEFORE_CARRY == 0:
            self._carry()
        limb = max(math.frexp(greatest)[1] // _BITS - _LOWEST, 0)
        rest = values * 2.0 ** (-_BITS * (limb + _LOWEST))
        whole = np.empty_like(rest)
        while True:
            np.rint(rest, out=whole)
            # At most 2^13 whole numbers below 2^32: a float holds their sum.
            if group is None:
                self._limbs[index, limb] += int(whole.sum())
            else:
                sums = np.bincount(group, whole)
                self._limbs[index : index + len(sums), limb] += sums.astype(np.int64)
            np.subtract(rest, whole, out=rest)
            if limb == 0 or not rest.any():
                return
            limb -= 1
            np.multiply(rest, _UNIT, out=rest)

    def _carry(self) -> None:
        """Leave limbs below 2^32, so that billions of states can be added without overflow."""
        carry = np.zeros(len(self._limbs), np.int64)
        for limb in range(LIMBS - 1):
            total = self._limbs[:, limb] + carry
            carry = total >> _BITS
            self._limbs[:, limb] = total & (2**_BITS - 1)
        self._limbs[:, -1] += carry

    def state(self) -> dict[str, Integers]:
        """The state so far: ``limbs`` (sums × LIMBS) and ``n_excessive`` (sums); states are merged by adding both."""
        self._carry()
        return {"limbs": self._limbs.copy(), "n_excessive": self._n_excessive.copy()}


def exact_sum(limbs: Integers) -> Fraction:
    """The exact sum whose limbs these are."""
    total = sum(int(limb) << (_BITS * place) for place, limb in enumerate(limbs))
    return Fraction(total, 1 << (-_BITS * _LOWEST))
