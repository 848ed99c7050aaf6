"""Intervals of means, the verdicts that they allow, and corrections for many tests."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from spark_rankeval.checks import is_number
from spark_rankeval.errors import OptionError
from spark_rankeval.statistics.cluster_sums import Clusters
from spark_rankeval.statistics.distributions import noncentral_t_sf, normal_quantile, share_interval, t_critical
from spark_rankeval.statistics.moments import Moments
from spark_rankeval.statistics.resampling import check_seed, checked_replicates
from spark_rankeval.statistics.sums import Mean, are_equal, name_of_term

#: The bounds of a metric that has none.
UNBOUNDED = (-math.inf, math.inf)
T, CLOPPER_PEARSON, JACKKNIFE = "t", "clopper_pearson", "jackknife"
#: Why there is no interval if floats cannot hold the mean or its spread.
UNKNOWN_MEAN = "the mean or its spread is unknown: values are too large, too small or too close together"
# Rounding may move values by this share of a bound, or of 1 if that is larger.
_ROUNDING = 2.0**-40
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
    return {CLOPPER_PEARSON: T, JACKKNIFE: "bootstrap"}.get(method, method)


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
    elif has_shares or (clusters is not None and clusters.are_few):
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


BETTER = "better"
WORSE = "worse"
NO_RELEVANT_DIFFERENCE = "no relevant difference"
UNDECIDED = "undecided"


class Verdict(NamedTuple):
    """What may be said of a model beside its baseline, in a word and in a plain sentence with the figures behind it."""

    word: str
    sentence: str


class ShownFigures(NamedTuple):
    """What the sentence of a verdict shows beside its p-value.

    Attributes:
        joint: the interval that holds together with those of other comparisons; None: there are no others.
        n_comparisons: how many comparisons these are.
        means: of the model and of the baseline.
        lift: the difference as a share of the baseline's mean; the sentence has it if it has an interval.
    """

    joint: Interval | None = None
    n_comparisons: int = 1
    means: tuple[float, float] | None = None
    lift: tuple[float, float, float] | None = None

    def in_words(self, interval: Interval, difference: float, margin: float) -> str:
        """The lift with its interval; or the difference with its own, if the lift has none or a margin is in the metric's units."""
        level = f"{100 * interval.level:g} % interval"
        if self.n_comparisons > 1:
            level += f" for {self.n_comparisons:,} comparisons"
        lift = ""
        if self.lift is not None and self.means is not None and not math.isnan(self.lift[1]):
            lift = f"{percent(self.lift[0])}, {_apart(*reversed(self.means))}; "
            if not margin:
                return f"{lift}{level} {percent(self.lift[1])} to {percent(self.lift[2])}"
        low, high = (interval if self.joint is None else self.joint)[:2]
        return f"{lift}difference {difference:+.4g}, {level} {low:+.4g} to {high:+.4g}"


def percent(share: float) -> str:
    """A share as a percentage with its sign: ``+28 %``, ``-3.5 %``, ``+0.42 %``."""
    size = abs(100 * share)
    return f"{100 * share:+.{0 if size >= 10 else 1 if size >= 1 else 2}f} %"


def _apart(first: float, second: float) -> str:
    """Two means with so many digits that they differ, three at least."""
    digits = next((n for n in range(3, 7) if f"{first:.{n}g}" != f"{second:.{n}g}"), 3)
    return " → ".join(f"{mean:#.{digits}g}".rstrip(".") for mean in (first, second))


def verdict_of(
    interval: Interval,
    p: float,
    *,
    margin: float = 0.0,
    difference: float,
    names: tuple[str, str] = ("the model", "the baseline"),
    metric: str = "the metric",
    higher_is_better: bool = True,
    shown: ShownFigures | None = None,
) -> Verdict:
    """The verdict on a difference, model − baseline, from its interval and p-value.

    Nothing is decided unless p, corrected for the other comparisons, is at most 1 − level. Then the interval decides. Beyond the
    margin on one side, the model is better or worse. Within ±margin, there is no relevant difference. These are two one-sided tests
    (TOST; Schuirmann 1987), each with α = (1 − level)/2, stricter than the 90 % interval of TOST at α = 5 %. Without a margin (0) any
    difference is relevant. The sentence has the figures of `shown`.
    """
    model, baseline = names
    if not interval:
        return Verdict(UNDECIDED, f"Nothing can be said of {model} and {baseline} on {metric}: {interval.reason}.")
    word = _word(interval, p, margin, higher_is_better)
    within = f"a margin of {margin:g}"
    says = {
        BETTER: f"{model} is better than {baseline} on {metric}" + (f" by more than {within}" if margin else ""),
        WORSE: f"{model} is worse than {baseline} on {metric}" + (f" by more than {within}" if margin else ""),
        NO_RELEVANT_DIFFERENCE: f"{model} and {baseline} differ by less than {within} on {metric}",
        UNDECIDED: f"whether {model} is better or worse than {baseline} on {metric} is undecided",
    }[word]
    figures = (shown or ShownFigures()).in_words(interval, difference, margin)
    # A model's name is written as it is.
    begin = says[0].upper() if says.startswith(("the model", "whether")) else says[0]
    return Verdict(word, f"{begin}{says[1:]} ({figures}, {_p_text(p)}).")


def _word(interval: Interval, p: float, margin: float, higher_is_better: bool) -> str:
    # 1 − 0.95 is not 0.05 in floats.
    if not p <= 1 - interval.level + 1e-12:
        return UNDECIDED
    if margin and -margin <= interval.low and interval.high <= margin:
        return NO_RELEVANT_DIFFERENCE
    if interval.low > margin:
        return BETTER if higher_is_better else WORSE
    if interval.high < -margin:
        return WORSE if higher_is_better else BETTER
    return UNDECIDED


def _p_text(p: float) -> str:
    return "p unknown" if math.isnan(p) else "p < 0.0001" if p < 1e-4 else f"p = {p:.4f}"


Array = np.ndarray[Any, np.dtype[np.float64]]


_METHODS: dict[str, Callable[[Array, int], Array]] = {
    "holm": lambda ascending, n: np.maximum.accumulate(ascending * np.arange(n, 0, -1)),
    "benjamini_hochberg": lambda ascending, n: np.minimum.accumulate((ascending * n / np.arange(1, n + 1))[::-1])[::-1],
    "none": lambda ascending, _: ascending,
}


def adjusted(p_values: Sequence[float] | Array, method: str = "holm") -> Array:
    """The p-values of a family of tests, in the order given, each corrected for the others; to test at α, reject those below α.

    NaN means that a test could not be made; it stays NaN and does not count as a test. ``holm`` bounds the probability of any
    false rejection (Holm 1979). ``benjamini_hochberg`` bounds the expected share of false ones among the rejections, if tests are
    independent or positively dependent (Benjamini and Hochberg 1995). ``none`` leaves p-values as they are.
    """
    if not isinstance(method, str) or method not in _METHODS:
        raise OptionError(f"there is no correction {method!r}; available: {', '.join(_METHODS)}")
    values = np.asarray(p_values, np.float64)
    if np.any((values < 0) | (values > 1)):
        raise OptionError(f"p-values must be between 0 and 1; got {values[(values < 0) | (values > 1)][0]!r}")
    result = values.copy()
    members = np.flatnonzero(~np.isnan(values))
    order = members[np.argsort(values[members], kind="stable")]
    result[order] = np.minimum(_METHODS[method](values[order], len(order)), 1.0)
    return result
