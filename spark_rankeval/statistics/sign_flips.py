"""The sign-flip test without drawing: few differences by all their signs, differences of one size by counting wins and losses.

Under the null hypothesis the differences are distributed symmetrically about 0. Users who do not differ play no part.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from spark_rankeval.statistics.binomial import sign_test_p

Floats = np.ndarray[Any, np.dtype[np.float64]]

#: So many differences are tried under all signs, 2^15 of them up to the sign of all; as many are kept of each column.
MOST = 16


def smallest(kept: Floats, sizes: Floats) -> Floats:
    """The `MOST` smallest sizes of each column, ascending, of those kept before and new ones; infinite ones fill up."""
    if sizes.shape[1] > MOST:
        sizes = np.partition(sizes, MOST - 1, axis=1)[:, :MOST]
    both = np.concatenate([kept, sizes], axis=1)
    both.sort(axis=1)
    return both[:, :MOST]


def exact_p(sizes: Floats, wins: int, losses: int, total: float, largest: float, tolerance: float) -> float:
    """The share of all signs under which the sum is at least as far from 0, 2^(1 − n) or more; NaN if it is not known.

    Args:
        sizes: of the differences, as `smallest` keeps them.
        wins: how many differences are above 0.
        losses: how many are below 0.
        total: their sum.
        largest: the largest size.
        tolerance: by how much equal sums can differ in rounding.
    """
    n = wins + losses
    if n == 0:
        return 1.0
    if n <= MOST:
        # The opposite signs give the opposite sum: one sign is enough for the last, and largest, difference.
        sums = sizes[n - 1 : n]
        for size in sizes[: n - 1]:
            sums = np.concatenate([sums - size, sums + size])
        return float(np.count_nonzero(np.abs(sums) >= abs(total) - tolerance) / len(sums))
    if largest - sizes[0] <= tolerance / n:
        return sign_test_p(wins, losses)
    return math.nan
