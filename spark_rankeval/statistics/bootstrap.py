"""Intervals without collecting users: bootstraps of means with Poisson weights made of hashes, and the jackknife over blocks of users.

Users fall into blocks by hash, and the jackknife leaves out each block in turn. A bootstrap draws users more than once, and so lists that
are all alike. Measures of how many items there are, or of how alike lists are, then have values far from that of all users. To leave users
out changes them little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from spark_rankeval.statistics.distributions import normal_cdf, normal_quantile, t_critical
from spark_rankeval.statistics.intervals import JACKKNIFE, Interval, checked_level
from spark_rankeval.statistics.resampling import (
    LIMIT,
    FixedPoint,
    PoissonDraw,
    checked_replicates,
    resampled_sums,
    uniform64,
)
from spark_rankeval.statistics.sums import Mean

Array = np.ndarray[Any, Any]
Floats = np.ndarray[Any, np.dtype[np.float64]]

_SUMS = ("value_ones", "value_fraction", "weight_ones", "weight_fraction")


class BootstrapAccumulator:
    """The sums of several columns in every bootstrap sample, for users that come batch by batch.

    A user's weight in a sample is Poisson with mean 1. It is the same for all columns, so metrics and models are comparable.
    """

    def __init__(self, n_columns: int, *, replicates: int = 1000, seed: int = 0) -> None:
        self._replicates = checked_replicates(replicates)
        self._seed = seed
        shape = (n_columns, replicates)
        self._values = FixedPoint.zeros(shape)
        self._weights = FixedPoint.zeros(shape)
        self._n_excessive = np.zeros(n_columns, np.int64)

    def add(self, users: Array, values: Floats, weights: Floats | None = None) -> None:
        """Add users, each once: 64-bit hashes of their ids, and their values as columns × users.

        NaN is left out; a value from 2³¹ on is counted and left out. There is one weight per user, or one per column and user. Users
        without a valid weight above 0 are left out. Weights and weighted values are held to 2⁻⁴², so weights of about 1 are best.
        """
        if weights is not None and weights.ndim == 1:
            usable = (weights > 0) & np.isfinite(weights)
            users, values, weights = users[usable], values[:, usable], weights[usable]
        largest = np.abs(values) if weights is None else np.maximum(np.abs(values), 1.0) * weights
        excessive = largest >= LIMIT
        used = ~(np.isnan(values) | excessive)
        if weights is not None and weights.ndim > 1:
            used &= (weights > 0) & np.isfinite(weights)
        self._n_excessive += np.count_nonzero(excessive, axis=1)
        if weights is not None and weights.ndim > 1:
            self._add(users, np.where(used, values * weights, 0.0), np.where(used, weights, 0.0), range(len(values)))
            return
        # Most metrics are undefined for the same users, so the weights of these metrics are added up once.
        patterns = list(dict.fromkeys(row.tobytes() for row in used))
        pattern_indices = [patterns.index(row.tobytes()) for row in used]
        masks = np.array([np.frombuffer(pattern, np.bool_) for pattern in patterns]).reshape(len(patterns), -1)
        factor = 1.0 if weights is None else weights
        self._add(users, np.where(used, values, 0.0) * factor, masks * factor, pattern_indices)

    def _add(self, users: Array, values: Floats, weights: Floats, weight_rows: Sequence[int]) -> None:
        sums = resampled_sums(np.concatenate([values, weights]), users, PoissonDraw(), self._replicates, self._seed)
        n = len(values)
        self._values = self._values.plus(FixedPoint(sums.ones[:n], sums.fraction[:n]))
        places = n + np.array(weight_rows, np.intp)
        self._weights = self._weights.plus(FixedPoint(sums.ones[places], sums.fraction[places]))

    def state(self) -> dict[str, Array]:
        """The state so far, as arrays by column and then by replicate; states are merged by adding."""
        fields = dict(zip(_SUMS, (*self._values, *self._weights), strict=True))
        return {name: values.copy() for name, values in fields.items()} | {"n_excessive": self._n_excessive.copy()}


@dataclass(frozen=True)
class BootstrapMeans:
    """The means of one column in the bootstrap samples, ascending; `n_empty` samples have no user and so no mean."""

    means: Floats
    n_empty: int
    n_excessive: int


def bootstrap_means_of(state: dict[str, Any]) -> BootstrapMeans:
    """The samples of one column from its merged state: one entry of each field of `BootstrapAccumulator.state`."""
    values, weights = (
        FixedPoint(state[f"{name}_ones"], state[f"{name}_fraction"]).carried().floats() for name in ("value", "weight")
    )
    drawn = weights > 0
    means = np.sort(values[drawn] / weights[drawn])
    return BootstrapMeans(means, int(np.count_nonzero(~drawn)), int(state["n_excessive"]))


def percentile_interval(samples: BootstrapMeans, mean: Mean, level: float = 0.95) -> Interval:
    """The interval between the (1 ∓ level)/2 quantiles of the samples' means (Efron 1979)."""
    return _interval(samples, mean, level, "percentile", 0.0, 0.0)


def bca_interval(samples: BootstrapMeans, mean: Mean, level: float = 0.95) -> Interval:
    """The bias-corrected and accelerated interval (Efron 1987; Efron and Tibshirani 1993, 14.3).

    The bias correction comes from the share of samples below the mean, plus half of those equal to it. The acceleration is
    that of the jackknife, from the third moment of the values.
    """
    same = _SAME * max(abs(mean.mean), 1.0)
    below, not_above = np.searchsorted(samples.means, [mean.mean - same, mean.mean + same])
    share = (below + not_above) / 2 / max(len(samples.means), 1)
    return _interval(samples, mean, level, "bca", normal_quantile(share), mean.acceleration)


# Weights are held to 2⁻⁴², so if the mean weight is smaller than this, they keep too few digits.
_LEAST_MEAN_WEIGHT = 2.0**-20
# Values are held to 2⁻⁴², too, so a smaller spread keeps too few digits.
_LEAST_SPREAD = 2.0**-32
# In floats 1 − 0.9 is a little less than 0.1.
_SAME_COUNT = 1e-6
# Means of the same users that differ by less than this differ only by the units in which they are added.
_SAME = 2.0**-41


def _interval(
    samples: BootstrapMeans, mean: Mean, level: float, method: str, bias: float, acceleration: float
) -> Interval:
    checked_level(level)
    reason = _why_none(samples, mean, level)
    if reason:
        return Interval.missing(level, method, reason)
    ends = []
    for z in (normal_quantile((1 - level) / 2), normal_quantile((1 + level) / 2)):
        shifted = bias + z
        if not 1 - acceleration * shifted > 0 or math.isinf(bias):
            lie = "all samples lie on one side of the mean" if math.isinf(bias) else "the values are too skewed for it"
            return Interval.missing(level, method, lie)
        ends.append(normal_cdf(bias + shifted / (1 - acceleration * shifted)))
    low, high = np.quantile(samples.means, ends)
    return Interval(float(low), float(high), level, method)


def _why_none(samples: BootstrapMeans, mean: Mean, level: float) -> str:
    """Why the samples give no interval; empty if they give one."""
    n_samples, needed = len(samples.means) + samples.n_empty, math.ceil(2 / (1 - level) - _SAME_COUNT)
    problems = {
        "no user": mean.n == 0,
        "one user has no spread": mean.n == 1,
        f"values{' or weights' * mean.is_weighted} too large to be resampled": samples.n_excessive > 0
        or not math.isfinite(mean.mean),
        "weights too small to be resampled: multiply them by a constant": mean.total_weight
        < mean.n * _LEAST_MEAN_WEIGHT,
        f"a level of {level:g} needs {needed:,} replicates, and there are {n_samples:,}": n_samples < needed,
        "no sample has a user": not len(samples.means),
        "all users have the same value, or nearly so, and so has every sample: ci='t' uses the metric's bounds": mean.std
        == 0,
        f"values differ by less than can be resampled, about {_LEAST_SPREAD:.0e}: use ci='t'": mean.std < _LEAST_SPREAD,
    }
    return next((reason for reason, holds in problems.items() if holds), "")


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


class JackknifeSpread(NamedTuple):
    """How much a figure of all users would differ between samples of as many users."""

    standard_error: float
    df: float  # degrees of freedom; fewer than blocks if these differ in size
    df_of_terms: float  # the same if the terms of few blocks make up the variance


def spread_of(value: float, left_out: Sequence[WithoutBlock]) -> JackknifeSpread | None:
    """The spread of a figure, or None if blocks do not tell it.

    Block j has m_j of the n users, and h_j = n/m_j. The figure without it is θ_(j), and θ_J = g·θ − Σ (1 − m_j/n)·θ_(j). Over the g
    blocks the variance is the mean of (h_j·θ − (h_j − 1)·θ_(j) − θ_J)² ÷ (h_j − 1). With v_j for these terms, it has the degrees of freedom
    2 (Σ v_j)² ÷ Σ (v_j − their mean)² of Satterthwaite, which for normal values are about g.

    Source: Busing, Meijer, van der Leeden, Delete-m jackknife for unequal m, Statistics and Computing 1999. Of the degrees of freedom: Pan
    and Wall, Small-sample adjustments in using the sandwich variance estimator, 2002.
    """
    n_left_out = np.array([block.n_users for block in left_out], np.float64)
    n_users = n_left_out.sum()
    difference = np.array([block.value for block in left_out]) - value
    if len(left_out) < 2 or not np.isfinite(difference).all():
        return None
    h = n_users / n_left_out
    # The terms of θ cancel out: what is left are differences, which keep their digits.
    centre = -math.fsum((1 - 1 / h) * difference)
    terms = ((h - 1) * difference + centre) ** 2 / (h - 1)
    total, g = math.fsum(terms), len(left_out)
    unequal = math.fsum((terms / total - 1 / g) ** 2) if total else 0.0
    # Whole tenths, because each t of other degrees of freedom takes its time.
    df_of_terms = max(1.0, math.floor(20 / unequal) / 10) if unequal else math.inf
    return JackknifeSpread(math.sqrt(total / g), float(n_users**2 / (n_left_out**2).sum()) - 1, df_of_terms)


def jackknife_interval(
    value: float,
    left_out: Sequence[WithoutBlock],
    level: float,
    bounds: tuple[float, float],
    *,
    may_rest_on_few: bool = False,
) -> tuple[float, Interval]:
    """The standard error of a figure of all users, NaN if it is not known, and its interval.

    The interval is ± t · standard error on a scale without ends: the logarithm of a figure from 0 up, the logit of one between
    two bounds. Ratios and shares are skewed near their ends, and on such a scale hardly (Efron 1982, section 3). If the figure is
    at an end, with all users or without some, the interval is on its own scale, and cut at the bounds. If a figure `may_rest_on_few`
    users, its degrees of freedom know how few they are.
    """
    checked_level(level)
    if math.isnan(value):
        return math.nan, Interval.missing(level, JACKKNIFE, "no user")
    spread = spread_of(value, left_out)
    if spread is None:
        reason = "too few users: the value is undefined without some of them"
        return math.nan, Interval.missing(level, JACKKNIFE, reason)
    if spread.standard_error <= _ROUNDING * max(1.0, abs(value)):
        reason = "the value is the same whoever is left out"
        return spread.standard_error, Interval.missing(level, JACKKNIFE, reason)
    if len(left_out) < LEAST_BLOCKS:
        reason = (
            f"too few users or clusters: they fill {len(left_out)} blocks, and {LEAST_BLOCKS} need about 25 of them"
        )
        return spread.standard_error, Interval.missing(level, JACKKNIFE, reason)
    centre, kept = _without_ends(value, bounds), (-math.inf, math.inf)
    stretched = spread_of(centre, [WithoutBlock(_without_ends(each, bounds), n) for each, n in left_out])
    if stretched is None:
        centre, stretched, kept = value, spread, bounds if bounds[0] <= value <= bounds[1] else kept
        bounds = (-math.inf, math.inf)
    df = min(stretched.df, stretched.df_of_terms) if may_rest_on_few else stretched.df
    half_width = t_critical(level, df) * stretched.standard_error
    low, high = (_within_ends(end, bounds) for end in (centre - half_width, centre + half_width))
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
