"""The standard error of one figure of all users together: users fall into blocks by hash, and each block is left out in turn.

A bootstrap draws users more than once, and so lists that are all alike. Measures of how many items there are, or of how alike
lists are, then have values far from that of all users. To leave users out changes them little.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spark_rankeval.statistics.distributions import t_critical
from spark_rankeval.statistics.intervals import JACKKNIFE, Interval, checked_level
from spark_rankeval.statistics.resampling import uniform64

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = np.ndarray[Any, Any]

#: So many blocks.
N_BLOCKS = 64
#: An interval needs so many blocks with users: with fewer some hold the truth in less than 0.92 of samples instead of 0.95.
LEAST_BLOCKS = 20
# Sets the stream apart from those of the draws of `resampling`.
_PURPOSE = 3
# What rounding may do to a value, as a share of it.
_ROUNDING = 2.0**-40
# The exponential of a larger number is no float.
_LARGEST_POWER = 700.0


def blocks_of(users: Array, seed: int) -> Array:
    """The block of each user, from 64-bit hashes of their ids; int64, below `N_BLOCKS`."""
    blocks: Array = (uniform64(users, np.zeros(1, np.int64), seed, _PURPOSE) % np.uint64(N_BLOCKS)).astype(np.int64)
    return blocks


class WithoutBlock(NamedTuple):
    """A figure without the users of a block."""

    value: float  # NaN if it is not defined then
    n_users: int  # how many users were left out, at least 1


class Spread(NamedTuple):
    """How much a figure of all users would differ between samples of as many users."""

    standard_error: float
    df: float  # degrees of freedom; fewer than blocks if these differ in size


def spread_of(value: float, without: Sequence[WithoutBlock]) -> Spread | None:
    """The spread of a figure, or None if blocks do not tell it.

    Block j has m_j of the n users, and h_j = n/m_j. The figure without it is θ_(j), and θ_J = g·θ − Σ (1 − m_j/n)·θ_(j). Over the g
    blocks the variance is the mean of (h_j·θ − (h_j − 1)·θ_(j) − θ_J)² ÷ (h_j − 1).

    Source: Busing, Meijer, van der Leeden, Delete-m jackknife for unequal m, Statistics and Computing 1999.
    """
    n_left_out = np.array([block.n_users for block in without], np.float64)
    n_users = n_left_out.sum()
    difference = np.array([block.value for block in without]) - value
    if len(without) < 2 or not np.isfinite(difference).all():
        return None
    h = n_users / n_left_out
    # The terms of θ cancel out: what is left are differences, which keep their digits.
    centre = -math.fsum((1 - 1 / h) * difference)
    variance = math.fsum(((h - 1) * difference + centre) ** 2 / (h - 1)) / len(without)
    return Spread(math.sqrt(variance), float(n_users**2 / (n_left_out**2).sum()) - 1)


def jackknife_interval(
    value: float, without: Sequence[WithoutBlock], level: float, bounds: tuple[float, float]
) -> tuple[float, Interval]:
    """The standard error of a figure of all users, NaN if it is not known, and its interval.

    The interval is ± t · standard error on a scale without ends: the logarithm of a figure from 0 up, the logit of one between
    two bounds. Ratios and shares are skewed near their ends, and on such a scale hardly (Efron 1982, section 3). If the figure is
    at an end, with all users or without some, the interval is on its own scale, and cut at the bounds.
    """
    checked_level(level)
    if math.isnan(value):
        return math.nan, Interval.missing(level, JACKKNIFE, "no user")
    spread = spread_of(value, without)
    if spread is None:
        reason = "too few users: the value needs those who would be left out by turns"
        return math.nan, Interval.missing(level, JACKKNIFE, reason)
    if spread.standard_error <= _ROUNDING * max(1.0, abs(value)):
        reason = "the value is the same whoever is left out"
        return spread.standard_error, Interval.missing(level, JACKKNIFE, reason)
    if len(without) < LEAST_BLOCKS:
        reason = f"too few users or clusters: they fill {len(without)} blocks, and {LEAST_BLOCKS} need about 25 of them"
        return spread.standard_error, Interval.missing(level, JACKKNIFE, reason)
    centre, kept = _without_ends(value, bounds), (-math.inf, math.inf)
    stretched = spread_of(centre, [WithoutBlock(_without_ends(each, bounds), n) for each, n in without])
    if stretched is None:
        centre, stretched, kept = value, spread, bounds if bounds[0] <= value <= bounds[1] else kept
        bounds = (-math.inf, math.inf)
    reach = t_critical(level, stretched.df) * stretched.standard_error
    low, high = (_within_ends(end, bounds) for end in (centre - reach, centre + reach))
    return spread.standard_error, Interval(low, high, level, JACKKNIFE).within(kept)


def _without_ends(value: float, bounds: tuple[float, float]) -> float:
    """The value on a scale without ends; NaN at an end or beyond."""
    low, high = bounds
    if not low < value < high:
        return math.nan
    below, above = (math.log(part) if math.isfinite(part) else 0.0 for part in (value - low, high - value))
    return below - above if math.isfinite(low) or math.isfinite(high) else value


def _within_ends(stretched: float, bounds: tuple[float, float]) -> float:
    """The value that is so far on the scale without ends."""
    low, high = bounds
    up, down = (math.exp(min(power, _LARGEST_POWER)) for power in (stretched, -stretched))
    if not math.isfinite(low):
        return high - down if math.isfinite(high) else stretched
    if not math.isfinite(high):
        return low + up
    return low + (high - low) / (1 + down)
