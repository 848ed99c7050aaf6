"""By how many percent one mean is above another, with an interval."""

from __future__ import annotations

import math
from typing import NamedTuple

from spark_rankeval.statistics.distributions import t_critical
from spark_rankeval.statistics.intervals import UNBOUNDED, UNKNOWN_MEAN

_NEAR_ZERO = "the baseline's mean is not clearly different from 0"
_SAME_VALUE = "all users have the same value under the model"
_SAME_RATIO = "all users have the same ratio of both values"
# Below this share of the variances that it is the rest of, a variance is rounding.
_ROUNDING = 2.0**-40


class Lift(NamedTuple):
    """A difference of means as a share of the baseline's mean: 0.28 is +28%.

    Attributes:
        value: difference / |baseline's mean|; NaN if that is 0.
        low: the lower end of the interval; NaN if there is none.
        high: the upper end.
        reason: why there is no interval; empty if there is one.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    reason: str = ""


def lift_of(
    difference: float,
    baseline: float,
    difference_variance: float,
    baseline_variance: float,
    covariance: float,
    df: float,
    level: float = 0.95,
    bounds: tuple[float, float] = UNBOUNDED,
) -> Lift:
    """The lift with Fieller's interval: all ratios that a t test of difference − ratio × baseline does not reject.

    Such ratios have two ends only if the baseline's own t interval leaves out 0. Otherwise the lift may be anything, and has no interval.
    Nor has it one if the model's values have no spread, or difference − ratio × baseline has none: t would be certain.
    Source: Fieller, Some problems in interval estimation, JRSS B 1954.

    Args:
        difference: of the means, model − baseline.
        baseline: the baseline's mean.
        difference_variance: of the difference, as an estimate.
        baseline_variance: of the baseline's mean.
        covariance: of both estimates.
        df: the degrees of freedom of the variances.
        level: the share of such intervals that contain the true lift.
        bounds: the least and the largest possible lift, which the interval keeps.
    """
    if not baseline or not math.isfinite(baseline):
        return Lift(math.nan, reason="the baseline's mean is 0" if baseline == 0 else UNKNOWN_MEAN)
    value = difference / abs(baseline)
    if not all(map(math.isfinite, (difference, difference_variance, baseline_variance, covariance))) or not df >= 1:
        return Lift(value, reason=UNKNOWN_MEAN)
    critical = t_critical(level, df)
    share = critical**2 * baseline_variance / baseline**2
    if share >= 1:
        return Lift(value, reason=_NEAR_ZERO)
    ratio = difference / baseline
    slope = covariance / baseline_variance if baseline_variance else 0.0
    centre = (ratio - share * slope) / (1 - share)
    variance = difference_variance - 2 * ratio * covariance + ratio**2 * baseline_variance
    model_variance = difference_variance + 2 * covariance + baseline_variance
    if model_variance <= _ROUNDING * (difference_variance + baseline_variance):
        return Lift(value, reason=_SAME_VALUE)
    if variance <= _ROUNDING * (difference_variance + ratio**2 * baseline_variance):
        return Lift(value, reason=_SAME_RATIO)
    # What the baseline does not explain of the difference; rounding may leave less than nothing.
    unexplained = max(0.0, difference_variance - slope * covariance)
    half_width = critical / abs(baseline) * math.sqrt(max(0.0, variance - share * unexplained)) / (1 - share)
    ends = sorted(math.copysign(1.0, baseline) * end for end in (centre - half_width, centre + half_width))
    return Lift(value, max(ends[0], bounds[0]), min(ends[1], bounds[1]))
