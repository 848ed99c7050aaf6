"""Intervals of means within a metric's bounds, p-values of differences beyond a margin, and the methods that callers choose."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from spark_rankeval.checks import is_number
from spark_rankeval.errors import OptionError
from spark_rankeval.statistics.cluster_sums import Clusters
from spark_rankeval.statistics.distributions import (
    clopper_pearson_interval,
    noncentral_t_sf,
    normal_quantile,
    t_critical,
    t_sf,
)
from spark_rankeval.statistics.moments import Moments
from spark_rankeval.statistics.resampling import check_seed, checked_replicates
from spark_rankeval.statistics.sums import Mean, are_equal, name_of_term

#: The bounds of a metric whose values have no limits.
UNBOUNDED = (-math.inf, math.inf)
T, CLOPPER_PEARSON, JACKKNIFE, SCORE = "t", "clopper_pearson", "jackknife", "score"
#: The method for two judges: people who grade few queries, and a model that grades all of them.
PREDICTION_POWERED = "prediction_powered"
#: Why there is no interval if floats cannot hold the mean or its spread.
UNKNOWN_MEAN = "the mean or its spread is unknown: values are too large, too small or too close together"
# Rounding may move a value beyond a bound by this share of the bound, or by this much if the bound is smaller than 1.
_ROUNDING = 2.0**-40
# Fewer users than this may have a small spread, or nearly two values, by chance.
_FEW_USERS = 30
# The variance of a mean hangs on few users if fewer than so many at the farthest value would give it. That value is also √9 standard
# deviations away, or √4 if values are nearly two. Nearly two values have four fifths of the variance that is possible between them.
_FEW_CARRY, _CARRIED_FAR, _CARRIED_FAR_OF_TWO = 10, 9, 4
_OF_TWO = 0.8
# A user is far who lies more than the root of this many standard deviations from the mean. Such users are few if there would be fewer than
# this many of them, were they all that varies.
_FAR = 10
# Users nearly agree if the mean is so many times their standard deviation.
_NEARLY_ALIKE = 2
_OUT_OF_BOUNDS = "all users have the same value, and it is outside of the metric's bounds"
_NO_SPREAD = "all users have the same value, and the metric has no bounds"


class Interval(NamedTuple):
    """An interval of an estimate. If there is none, the ends are NaN and `reason` says why in a few words.

    `method` names how it was computed, such as ``t``, ``bca`` or ``tukey``. ``clopper_pearson`` replaces these if all values are equal,
    or all are 0 or 1. ``jackknife`` replaces a bootstrap if a metric has one value for all lists together. ``score`` replaces ``t`` if few
    users lie far from the mean (`Far`).
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

    def reaching(self, low: float, high: float) -> Interval:
        """The smallest interval that holds this one and both ends."""
        return self if self.reason else self._replace(low=min(self.low, low), high=max(self.high, high))

    def __bool__(self) -> bool:
        return not self.reason


class Far(NamedTuple):
    """How far the farthest user below the mean, and the farthest above, move it: in standard errors, and 0 unless these are few.

    Of such users there may be more than were seen: then the mean is further on their side, and has a larger variance. As of a share, whose
    interval is Wilson's, the variance at a distance x from the mean is error² · (1 + x · far / error). It is that of users who are all as
    far as the farthest. So each end solves x² = t² · error² · (1 + x · far / error).
    """

    below: float = 0.0
    above: float = 0.0

    @classmethod
    def of(cls, moments: Moments) -> Far:
        """How far those of some users are who lie far from their mean, and are few."""
        if not moments.std > 0:
            return cls()
        distances = moments.mean - moments.least, moments.greatest - moments.mean
        far = (distance / (moments.std * math.sqrt(moments.n)) for distance in distances)
        least = max(1 / _FAR, _FAR / moments.n)
        return cls(*(each if each**2 > least else 0.0 for each in far))

    def interval(self, value: float, error: float, critical: float) -> tuple[float, float]:
        """The ends of the interval of a value, at a critical value of t."""
        below, above = (
            critical * (half + math.hypot(half, 1)) * error for half in (critical * far / 2 for far in self)
        )
        return value - below, value + above

    def t_at(self, limit: float, value: float, error: float) -> float:
        """The size of t if the truth were the limit."""
        distance = ratio(abs(value - limit), error)
        far = self.below if limit < value else self.above
        return distance / math.sqrt(1 + distance * far) if far else distance


def ratio(numerator: float, denominator: float) -> float:
    """The numerator ÷ the denominator; 0 if both are 0, infinite if only the denominator is 0."""
    if denominator == 0:
        return math.copysign(math.inf, numerator) if numerator else 0.0
    return numerator / denominator


def checked_level(level: float) -> float:
    """The level; raises an OptionError unless it is between 0 and 1."""
    # Thousands of slices check the same float again, and its exact type is quicker to check than `numbers.Real`.
    if (type(level) is float or is_number(level)) and 0 < level < 1:
        return level
    raise OptionError(f"the level of an interval must be between 0 and 1, such as 0.95; got {level!r}")


def mean_interval(moments: Moments, level: float = 0.95) -> Interval:
    """The t interval of the mean of independently drawn users: mean ± t_{(1+level)/2, n−1} · std / √n."""
    error = moments.std / math.sqrt(moments.n) if moments.n else math.nan
    return t_interval(moments.mean, error, moments.n, level)


#: No few users lie far from the mean.
NOBODY_FAR = Far()


def t_interval(
    mean: float, standard_error: float, n: int, level: float = 0.95, df: float | None = None, problem: str = "",
    far: Far = NOBODY_FAR,
) -> Interval:  # fmt: skip
    """The interval mean ± t_{(1+level)/2, df} · standard error; df is n − 1 by default. With a `problem` there is no interval.

    It is longer on the side of few users who are `far`.
    """
    checked_level(level)
    if problem:
        return Interval.missing(level, "t", problem)
    if n < 2:
        return Interval.missing(level, "t", "no user" if n == 0 else "one user has no spread")
    if not (math.isfinite(mean) and math.isfinite(standard_error)):
        return Interval.missing(level, "t", UNKNOWN_MEAN)
    ends = far.interval(mean, standard_error, t_critical(level, n - 1 if df is None else df))
    return Interval(*ends, level, SCORE if any(far) else T)


def requested_method(method: str) -> str:
    """The method that the caller chose, from the method of the interval, which may have replaced it.

    A jackknife replaces any bootstrap, so it only tells that the caller chose a ``bootstrap``.
    """
    return {CLOPPER_PEARSON: T, PREDICTION_POWERED: T, SCORE: T, JACKKNIFE: "bootstrap"}.get(method, method)


def adjusted_interval(
    interval: Interval,
    moments: Moments,
    bounds: tuple[float, float],
    weighted: Mean | None = None,
    clusters: Clusters | None = None,
) -> Interval:
    """The interval of a mean, adjusted to the users' values; `bounds` are ignored if a value breaks them.

    Student's t interval is far too short if all values are equal, or if all are 0 or 1 and these are the bounds. The interval of
    Clopper and Pearson then replaces it. With few clusters it also does so for values from 0 to 1, and takes the number of users from
    `_equivalent_n`. Other intervals are cut off at the bounds.
    """
    if not interval:
        return interval
    low, high = valid_bounds(bounds, moments)
    effective_n = float(moments.n) if weighted is None else weighted.effective_n
    if clusters is not None:
        effective_n = clusters.effective_n
    if interval.method == T and interval.low == interval.high:
        without_spread = interval_without_spread(interval.low, effective_n, interval.level, (low, high))
        breaks_bounds = not without_spread and (low, high) != bounds
        return without_spread._replace(reason=_OUT_OF_BOUNDS) if breaks_bounds else without_spread
    error = moments.std / math.sqrt(moments.n) if weighted is None else weighted.standard_error
    is_share = interval.method == T and (low, high) == (0, 1)
    is_binary = is_share and are_binary(moments, weighted)
    if is_binary and math.isclose(effective_n, moments.n):
        ends = clopper_pearson_interval(moments.n - moments.n_zero, moments.n, interval.level)
        return Interval(*ends, interval.level, CLOPPER_PEARSON)
    mean = moments.mean if weighted is None else weighted.mean
    if is_binary or (is_share and clusters is not None and clusters.are_few_if_skewed):
        n = _equivalent_n(mean, moments, weighted, clusters, interval.level)
        interval = Interval(*clopper_pearson_interval(mean * n, n, interval.level), interval.level, CLOPPER_PEARSON)
    if interval.method not in (JACKKNIFE, PREDICTION_POWERED):
        error = error if clusters is None else clusters.standard_error
        interval = _with_unseen(interval, mean, error, effective_n, moments, (low, high))
    return interval.within((low, high))


def _with_unseen(
    interval: Interval, mean: float, error: float, n: float, moments: Moments, bounds: tuple[float, float]
) -> Interval:
    """The interval, which reaches no less far than if all n users had the mean; values without bounds have those that were seen.

    Users who were not drawn may be as far away. If the farthest value is one of a few that carry the variance, both reaches are added.
    """
    ends = [
        bound if math.isfinite(bound) else seen
        for bound, seen in zip(bounds, (moments.least, moments.greatest), strict=True)
    ]
    unseen = interval_without_spread(mean, n, interval.level, (ends[0], ends[1]))
    distances = mean - moments.least, moments.greatest - mean
    # What Clopper and Pearson give knows of two values. Weights make n a bit less than it is.
    may_be_two = n > _FEW_USERS - 1 and interval.method != CLOPPER_PEARSON
    are_two = may_be_two and error**2 * n >= _OF_TWO * math.prod(distances)
    least = max((_CARRIED_FAR_OF_TWO if are_two else _CARRIED_FAR) * n, n * n / _FEW_CARRY)
    if max(distances) ** 2 <= least * error**2:
        return interval._replace(low=min(interval.low, unseen.low), high=max(interval.high, unseen.high))
    low, high = math.hypot(mean - interval.low, mean - unseen.low), math.hypot(interval.high - mean, unseen.high - mean)
    return interval._replace(low=mean - low, high=mean + high)


def _equivalent_n(
    mean: float, moments: Moments, weighted: Mean | None, clusters: Clusters | None, level: float
) -> float:
    """How many independent users with values of 0 or 1 would give a mean that is as precise as this one.

    A variance with few degrees of freedom may be small by chance. So the number is multiplied by (t_{n−1} / t_df)², which is at most 1
    (Korn and Graubard 1998). Clusters never make a mean more precise.
    """
    error = moments.std / math.sqrt(moments.n) if weighted is None else weighted.standard_error
    df = moments.n - 1 if weighted is None else weighted.df
    if clusters is not None:
        error, df = max(error, clusters.standard_error), clusters.df
    return mean * (1 - mean) * (t_critical(level, moments.n - 1) / t_critical(level, df) / error) ** 2


def are_binary(moments: Moments, weighted: Mean | None) -> bool:
    """Whether all values are 0 or 1, and both occur. Among values from 0 to 1 only these equal their squares."""
    if (moments.least, moments.greatest) != (0, 1):
        return False
    sums, weight = (moments.sums, 0) if weighted is None else (weighted.sums, 1)
    if not sums:
        return False
    return are_equal(sums, name_of_term(weight, 1), name_of_term(weight, 2))


def valid_bounds(bounds: tuple[float, float], *values: Moments) -> tuple[float, float]:
    """The bounds, or infinite ones if a value breaks them by more than rounding can explain."""
    low, high = _tolerant_bounds(*bounds)
    for moments in values:
        if not (low <= moments.least and moments.greatest <= high):
            return UNBOUNDED
    return bounds


@lru_cache(maxsize=1024)
def _tolerant_bounds(low: float, high: float) -> tuple[float, float]:
    """The bounds, widened so that rounding cannot break them."""
    return low - _ROUNDING * max(1.0, abs(low)), high + _ROUNDING * max(1.0, abs(high))


def bounds_of_differences(bounds: tuple[float, float], *values: Moments) -> tuple[float, float]:
    """The smallest and the largest difference between two values within these bounds; infinite if a value breaks the bounds."""
    low, high = valid_bounds(bounds, *values)
    return low - high, high - low


def bounds_of_lifts(bounds: tuple[float, float], *values: Moments) -> tuple[float, float]:
    """The smallest and the largest possible lift between two means within these bounds, for any mean of the baseline.

    A mean that cannot be negative loses at most 100%, and one that cannot be positive gains at most 100%. Any other limit of the lift
    is infinite, because the baseline's true mean may be arbitrarily near to 0.
    """
    low, high = valid_bounds(bounds, *values)
    return -1.0 if low >= 0 else -math.inf, 1.0 if high <= 0 else math.inf


def interval_without_spread(value: float, n: float, level: float, bounds: tuple[float, float]) -> Interval:
    """The interval of the mean of n users who all have the same value.

    With the tail a = (1 − level)/2, at most 1 − a^(1/n) of all users have another value (Clopper and Pearson 1934).
    """
    low, high = bounds
    if not (math.isfinite(low) and math.isfinite(high)):
        return Interval.missing(level, T, _NO_SPREAD)
    other_share = 1 - ((1 - level) / 2) ** (1 / n)
    return Interval(value - other_share * (value - low), value + other_share * (high - value), level, CLOPPER_PEARSON)


def p_beyond_without_spread(value: float, n: float, margin: float, bounds: tuple[float, float]) -> float:
    """The two-sided p-value of the claim that the mean difference is beyond ±margin, or within if `value` is within.

    All n users have the difference `value`. p is 1 − level if the interval of `interval_without_spread` ends at the margin.
    """
    return min(1.0, 2 * max(_p_of_limit(value, n, limit, bounds) for limit in nearest_limits(value, margin)))


def nearest_limits(value: float, margin: float) -> tuple[float, ...]:
    """What must not be the true mean difference, if it is beyond ±margin as the value is, or within as the value is."""
    return (math.copysign(margin, value),) if abs(value) > margin else (-margin, margin)


def may_agree_by_chance(value: float, error: float, n: float, margin: float, bounds: tuple[float, float]) -> bool:
    """Whether users who differ may be missing, so that t is too sure: users nearly agree, or are few and there is a margin.

    Without bounds it is not known how far others may differ.
    """
    is_few = n < _FEW_USERS and margin > 0
    return all(map(math.isfinite, bounds)) and (is_few or abs(value) > _NEARLY_ALIKE * error * math.sqrt(n))


def p_beyond_margin(
    value: float, error: float, df: float, n: float, margin: float, bounds: tuple[float, float], far: Far = NOBODY_FAR
) -> float:
    """The two-sided p-value of the claim that the mean difference is beyond ±margin, or within if `value` is within.

    It comes from the t test, or from `p_beyond_without_spread` if the error is 0. If users `may_agree_by_chance`, it is at least the
    latter, which is that of `n` users who all have the difference `value`.
    """
    without_spread = p_beyond_without_spread(value, n, margin, bounds)
    if not error:
        return without_spread
    t = min(far.t_at(limit, value, error) for limit in nearest_limits(value, margin))
    by_t = min(1.0, 2 * t_sf(t, df))
    return max(by_t, without_spread) if may_agree_by_chance(value, error, n, margin, bounds) else by_t


def _p_of_limit(value: float, n: float, limit: float, bounds: tuple[float, float]) -> float:
    """The largest probability that n users all have this value although the true mean is at the limit, or on its other side."""
    far_bound = bounds[0] if value > limit else bounds[1]
    if value == limit or not math.isfinite(far_bound):
        return 1.0
    # A mean at the limit needs users with other values. Fewest are needed if their values are all at the far bound.
    equal_share = (far_bound - limit) / (far_bound - value) if far_bound != value else 0.0
    return float(max(equal_share, 0.0) ** n)


def _check_level(level: object) -> None:
    """Refuse a method's `level` of the wrong type, or outside of 0 to 1."""
    if not isinstance(level, numbers.Real) or isinstance(level, bool):
        raise OptionError(f"level must be a number between 0 and 1, such as 0.95; got {level!r}")
    checked_level(float(level))


@dataclass(frozen=True)
class Student:
    """Student's t interval; `level` is the share of such intervals that contain the true mean.

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

    `level` is the share of such intervals that contain the true mean; `replicates` samples of the users are drawn with `seed`.

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
    """The method that a caller passes as `ci`, by its name or as an object; None asks for no interval."""
    if ci is None or isinstance(ci, IntervalMethod):
        return ci
    if isinstance(ci, str) and ci in _BY_NAME:
        return _BY_NAME[ci]
    if isinstance(ci, type) and issubclass(ci, IntervalMethod):
        raise OptionError(f"ci={ci.__name__} is a class; write ci={ci.__name__}(), with its options in the parentheses")
    names = ", ".join(map(repr, _BY_NAME))
    msg = f"ci must be one of {names}, None, or an object such as BCa(level=0.99, replicates=2000, seed=1); got {ci!r}"
    raise OptionError(msg)


def detectable_difference(
    std: float, n: float, level: float = 0.95, power: float = 0.8, df: float | None = None
) -> float:
    """The smallest true difference that a two-sided paired t test of n users finds with the probability `power`.

    The power is P(T > c) + P(T < −c). c is the critical t, and T has the noncentral t distribution with the noncentrality
    difference / std · √n. Both have `df` degrees of freedom, n − 1 by default. The result is NaN for fewer than two users.
    Source: Cohen 1988, chapter 2; statsmodels' `TTestPower`.
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


def _power(noncentrality: float, df: float, critical: float) -> float:
    """The power of a two-sided t test that rejects beyond the critical value."""
    return noncentral_t_sf(critical, df, noncentrality) + noncentral_t_sf(critical, df, -noncentrality)
