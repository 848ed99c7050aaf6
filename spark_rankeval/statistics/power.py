"""What difference a number of users can show."""

from __future__ import annotations

import math

from spark_rankeval.checks import is_number
from spark_rankeval.errors import OptionError
from spark_rankeval.statistics.distributions import noncentral_t_sf, normal_quantile, t_critical
from spark_rankeval.statistics.intervals import checked_level


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
