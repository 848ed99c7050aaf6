"""Intervals of means, the verdicts that they allow, and corrections for many tests."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from spark_rankeval.checks import is_number
from spark_rankeval.errors import OptionError
from spark_rankeval.statistics.cluster_sums import Clusters
from spark_rankeval.statistics.distributions import noncentral_t_sf, normal_quantile, share_interval, t_critical, t_sf
from spark_rankeval.statistics.moments import Moments
from spark_rankeval.statistics.resampling import check_seed, checked_replicates
from spark_rankeval.statistics.sums import Mean, are_equal, name_of_term

#: The bounds of a metric that has none.
UNBOUNDED = (-math.inf, math.inf)
T, CLOPPER_PEARSON, JACKKNIFE = "t", "clopper_pearson", "jackknife"
#: The method of an interval from few grades by people and many by a model.
PREDICTION_POWERED = "prediction_powered"
#: Why there is no interval if floats cannot hold the mean or its spread.
UNKNOWN_MEAN = "the mean or its spread is unknown: values are too large, too small or too close together"
# Rounding may move values by this share of a bound, or of 1 if that is larger.
_ROUNDING = 2.0**-40
# Of fewer users a spread that happens to be small says little about others.
_FEW = 30
_OUT_OF_BOUNDS = "all users have the same value, and it is outside of the metric's bounds"
_NO_SPREAD = "all users have the same value, and the metric has no bounds"


class Interval(NamedTuple):
    """An interval of an estimate. If there is none, the ends are NaN and `reason` says why in a few words.

    `method` is ``t``, ``percentile``, ``bca``, ``tukey`` or ``games_howell``, or what replaces one of them: ``clopper_pearson``, or
    ``jackknife`` for a bootstrap of a value of all lists together.
    """

    low: float
    high: float
    level: float
    method: str
    reason: str = ""

    @classmethod
    def missing(cls, level: float, method: str, reason: str) -> Interval:
        """A missing interval, and why it is missing."""
        return cls(math.nan, math.nan, level, method, reason)

    def within(self, bounds: tuple[float, float]) -> Interval:
        """The part of the interval within the bounds."""
        if self.reason or (bounds[0] <= self.low and self.high <= bounds[1]):
            return self
        return self._replace(low=max(self.low, bounds[0]), high=min(self.high, bounds[1]))

    def __bool__(self) -> bool:
        return not self.reason


def ratio(difference: float, spread: float) -> float:
    """Difference over spread; 0 if both are 0, infinite if only the spread is 0."""
    if spread == 0:
        return math.copysign(math.inf, difference) if difference else 0.0
    return difference / spread


def checked_level(level: float) -> float:
    """The level; raises an OptionError unless it is between 0 and 1."""
    # The level is checked again for each of thousands of slices. It is a float then.
    if (type(level) is float or is_number(level)) and 0 < level < 1:
        return level
    raise OptionError(f"the level of an interval must be between 0 and 1, such as 0.95; got {level!r}")


def mean_interval(moments: Moments, level: float = 0.95) -> Interval:
    """The t interval of the mean of independently drawn users: mean ± t_{(1+level)/2, n−1} · std / √n."""
    error = moments.std / math.sqrt(moments.n) if moments.n else math.nan
    return t_interval(moments.mean, error, moments.n, level)


def t_interval(
    mean: float, standard_error: float, n: int, level: float = 0.95, df: float | None = None, problem: str = ""
) -> Interval:
    """The interval mean ± t_{(1+level)/2, df} · standard error, df being n − 1 unless it is given; `problem` says why there is none."""
    checked_level(level)
    if problem:
        return Interval.missing(level, "t", problem)
    if n < 2:
        return Interval.missing(level, "t", "no user" if n == 0 else "one user has no spread")
    if not (math.isfinite(mean) and math.isfinite(standard_error)):
        return Interval.missing(level, "t", UNKNOWN_MEAN)
    reach = t_critical(level, n - 1 if df is None else df) * standard_error
    return Interval(mean - reach, mean + reach, level, "t")


def standard_method(method: str) -> str:
    """The method that was asked for: t, if Clopper and Pearson's replaced it; for a jackknife ``bootstrap``, whichever it was."""
    return {CLOPPER_PEARSON: T, PREDICTION_POWERED: T, JACKKNIFE: "bootstrap"}.get(method, method)


def fitted(
    interval: Interval,
    moments: Moments,
    bounds: tuple[float, float],
    weighted: Mean | None = None,
    clusters: Clusters | None = None,
) -> Interval:
    """The interval of a mean, adapted to its values; `bounds` are ignored if a value breaks them.

    Student's t is far too short for values without spread, and for values that are all 0 or 1 if these are the bounds. They
    get the interval of Clopper and Pearson instead. So do values from 0 to 1 of users in few clusters, for as many users as
    `_equivalent_n` says. Other intervals are cut at the bounds.
    """
    if not interval:
        return interval
    low, high = kept_bounds(bounds, moments)
    effective_n = float(moments.n) if weighted is None else weighted.effective_n
    if clusters is not None:
        effective_n = clusters.effective_n
    if interval.method == T and interval.low == interval.high:
        without_spread = interval_without_spread(interval.low, effective_n, interval.level, (low, high))
        is_broken = not without_spread and (low, high) != bounds
        return without_spread._replace(reason=_OUT_OF_BOUNDS) if is_broken else without_spread
    if interval.method != T or (low, high) != (0, 1):
        return interval.within((low, high))
    has_shares = are_shares(moments, weighted)
    if has_shares and math.isclose(effective_n, moments.n):
        ends = share_interval(moments.n - moments.n_zero, moments.n, interval.level)
    elif has_shares or (clusters is not None and clusters.are_few_if_skewed):
        mean = moments.mean if weighted is None else weighted.mean
        n = _equivalent_n(mean, moments, weighted, clusters, interval.level)
        ends = share_interval(mean * n, n, interval.level)
    else:
        return interval.within((low, high))
    return Interval(*ends, interval.level, CLOPPER_PEARSON)


def _equivalent_n(
    mean: float, moments: Moments, weighted: Mean | None, clusters: Clusters | None, level: float
) -> float:
    """How many independent values of 0 and 1 have a mean as precise as this one of values from 0 to 1.

    A variance of few degrees of freedom may be small by chance, so there are (t_{n−1} / t_df)² times as many (Korn and Graubard 1998).
    Clusters make no mean more precise.
    """
    error = moments.std / math.sqrt(moments.n) if weighted is None else weighted.standard_error
    df = moments.n - 1 if weighted is None else weighted.df
    if clusters is not None:
        error, df = max(error, clusters.standard_error), clusters.df
    return mean * (1 - mean) * (t_critical(level, moments.n - 1) / t_critical(level, df) / error) ** 2


def are_shares(moments: Moments, weighted: Mean | None) -> bool:
    """Whether all values are 0 or 1, and both occur: among values from 0 to 1 only these equal their squares."""
    if (moments.least, moments.greatest) != (0, 1):
        return False
    sums, weight = (moments.sums, 0) if weighted is None else (weighted.sums, 1)
    if not sums:
        return False
    return are_equal(sums, name_of_term(weight, 1), name_of_term(weight, 2))


def kept_bounds(bounds: tuple[float, float], *values: Moments) -> tuple[float, float]:
    """The bounds if no value breaks them by more than rounding, else infinite ones."""
    low, high = _widened(*bounds)
    for each in values:
        if not (low <= each.least and each.greatest <= high):
            return UNBOUNDED
    return bounds


@lru_cache(maxsize=1024)
def _widened(low: float, high: float) -> tuple[float, float]:
    """Bounds that rounding cannot break."""
    return low - _ROUNDING * max(1.0, abs(low)), high + _ROUNDING * max(1.0, abs(high))


def bounds_of_differences(bounds: tuple[float, float], *values: Moments) -> tuple[float, float]:
    """The least and the largest difference between two values within these bounds; infinite if a value breaks them."""
    low, high = kept_bounds(bounds, *values)
    return low - high, high - low


def bounds_of_lifts(bounds: tuple[float, float], *values: Moments) -> tuple[float, float]:
    """The least and the largest possible lift between two means within these bounds, whatever the baseline's mean is.

    A mean of values from 0 up loses at most all of itself. Other bounds leave a ratio open, because the baseline may be nearer to 0
    than its estimate.
    """
    low, high = kept_bounds(bounds, *values)
    return -1.0 if low >= 0 else -math.inf, 1.0 if high <= 0 else math.inf


def interval_without_spread(value: float, n: float, level: float, bounds: tuple[float, float]) -> Interval:
    """The interval of the mean of n users who all have the same value.

    With the tail a = (1 − level)/2, at most 1 − a^(1/n) of all users have another value (Clopper and Pearson 1934).
    """
    low, high = bounds
    if not (math.isfinite(low) and math.isfinite(high)):
        return Interval.missing(level, T, _NO_SPREAD)
    others = 1 - ((1 - level) / 2) ** (1 / n)
    return Interval(value - others * (value - low), value + others * (high - value), level, CLOPPER_PEARSON)


def p_beyond_without_spread(value: float, n: float, margin: float, bounds: tuple[float, float]) -> float:
    """The two-sided p-value that the mean is beyond ±margin, or within if `value` is, for n users with the same difference.

    It is 1 − level if the interval of `interval_without_spread` ends at the margin.
    """
    limits = (math.copysign(margin, value),) if abs(value) > margin else (-margin, margin)
    return min(1.0, 2 * max(_p_of_limit(value, n, limit, bounds) for limit in limits))


def p_beyond_margin(
    value: float, error: float, df: float, n: float, margin: float, bounds: tuple[float, float]
) -> float:
    """The two-sided p-value of what lies nearest: that a mean difference is beyond ±margin, or within (t; without spread signs).

    With few users the t test takes a small spread for certainty, although users who differ may be missing. If values have bounds, p is
    therefore no less than if all `n` users had the mean difference.
    """
    without_spread = p_beyond_without_spread(value, n, margin, bounds)
    if not error:
        return without_spread
    by_t = min(1.0, 2 * t_sf(abs(abs(value) - margin) / error, df))
    return max(by_t, without_spread) if n < _FEW and all(map(math.isfinite, bounds)) else by_t


def _p_of_limit(value: float, n: float, limit: float, bounds: tuple[float, float]) -> float:
    """The largest probability of n users with the same value if the true mean is not on the value's side of a limit."""
    end = bounds[0] if value > limit else bounds[1]
    if value == limit or not math.isfinite(end):
        return 1.0
    # A mean at the limit needs other values; the fewest are needed if they are all at the far bound.
    alike = (end - limit) / (end - value) if end != value else 0.0
    return float(max(alike, 0.0) ** n)


def _check_level(level: object) -> None:
    if not isinstance(level, numbers.Real) or isinstance(level, bool):
        raise OptionError(f"level must be a number between 0 and 1, such as 0.95; got {level!r}")
    checked_level(float(level))


@dataclass(frozen=True)
class Student:
    """Student's t interval; `level` is the share of such intervals that hold the true mean.

    Examples:
        >>> row = evaluate(predictions, labels, "rr", score="score", ci=Student(level=0.9)).summary[0]
        >>> row.interval_method, round(row.interval_low, 3), round(row.interval_high, 3)
        ('t', 0.2, 0.717)
    """

    level: float = 0.95

    name = "t"

    def __post_init__(self) -> None:
        _check_level(self.level)


@dataclass(frozen=True)
class _Bootstrap:
    level: float = 0.95
    replicates: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        _check_level(self.level)
        if not isinstance(self.replicates, numbers.Integral) or isinstance(self.replicates, bool):
            raise OptionError(f"replicates must be a whole number; got {self.replicates!r}")
        checked_replicates(int(self.replicates))
        check_seed(self.seed)


@dataclass(frozen=True)
class BCa(_Bootstrap):
    """The bias-corrected and accelerated bootstrap (Efron 1987).

    `level` is the share of such intervals that hold the true mean; `replicates` samples of the users are drawn with `seed`.

    Examples:
        >>> row = evaluate(predictions, labels, "rr", score="score", ci=BCa(seed=1)).summary[0]
        >>> row.interval_method, round(row.interval_low, 3), round(row.interval_high, 3)
        ('bca', 0.19, 0.75)
    """

    name = "bca"


@dataclass(frozen=True)
class Percentile(_Bootstrap):
    """The percentile bootstrap (Efron 1979), with the options of `BCa`.

    Examples:
        >>> row = evaluate(predictions, labels, "rr", score="score", ci=Percentile(seed=1)).summary[0]
        >>> row.interval_method, round(row.interval_low, 3), round(row.interval_high, 3)
        ('percentile', 0.19, 0.75)
    """

    name = "percentile"


IntervalMethod = Student | BCa | Percentile

_BY_NAME: dict[str, IntervalMethod] = {"t": Student(), "bca": BCa(), "bootstrap": BCa(), "percentile": Percentile()}


def interval_method(ci: str | IntervalMethod | None) -> IntervalMethod | None:
    """The method that a caller names by a word, or gives in full; None: no interval."""
    if ci is None or isinstance(ci, IntervalMethod):
        return ci
    if isinstance(ci, str) and ci in _BY_NAME:
        return _BY_NAME[ci]
    if isinstance(ci, type) and issubclass(ci, IntervalMethod):
        raise OptionError(f"ci={ci.__name__} is a class; write ci={ci.__name__}(), with its options in the parentheses")
    named = ", ".join(map(repr, _BY_NAME))
    msg = f"ci must be one of {named}, None, or an object such as BCa(level=0.99, replicates=2000, seed=1); got {ci!r}"
    raise OptionError(msg)


def detectable_difference(
    std: float, n: float, level: float = 0.95, power: float = 0.8, df: float | None = None
) -> float:
    """The smallest true difference that a two-sided paired t test of n users finds with the probability `power`.

    With a noncentrality of δ = difference / std · √n the power is P(T > c) + P(T < −c), c the critical t, T noncentral t. It has n − 1
    degrees of freedom unless `df` is given. Source: Cohen 1988, chapter 2; statsmodels' `TTestPower`. NaN for fewer than two users.
    """
    checked_level(level)
    if not is_number(power) or not 1 - level < power < 1:
        raise OptionError(f"power must be between 1 − level = {1 - level:g} and 1; got {power!r}")
    df = n - 1 if df is None else df
    if not df >= 1 or math.isnan(std):
        return math.nan
    critical = t_critical(level, df)
    low, high = 0.0, critical + max(normal_quantile(power), 0.0) + 1.0
    while _power(high, df, critical) < power:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _power(middle, df, critical) < power else (low, middle)
    return high * std / math.sqrt(n)


def _power(shift: float, df: float, critical: float) -> float:
    """The power at a noncentrality, of a test whose statistic is to reach a critical value."""
    return noncentral_t_sf(critical, df, shift) + noncentral_t_sf(critical, df, -shift)
