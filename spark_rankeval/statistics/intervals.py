"""Student t intervals of a mean."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_rankeval.errors import OptionError
from spark_rankeval.options import is_number
from spark_rankeval.statistics.distributions import t_critical

if TYPE_CHECKING:
    from spark_rankeval.statistics.moments import Moments


@dataclass(frozen=True)
class Interval:
    """What an estimate is known to.

    Attributes:
        low: the lower end; NaN where there is none.
        high: the upper end; NaN where there is none.
        level: the share of such intervals that hold the true value, 0.95 say.
        method: ``t``, ``percentile``, ``bca`` or ``tukey``.
        reason: why there is no interval, in a few words; empty where there is one.
    """

    low: float
    high: float
    level: float
    method: str
    reason: str = ""

    @classmethod
    def missing(cls, level: float, method: str, reason: str) -> Interval:
        """No interval, and why."""
        return cls(math.nan, math.nan, level, method, reason)

    def __bool__(self) -> bool:
        return not self.reason


def checked_level(level: float) -> float:
    """The level, or an error that says what a level is."""
    if not is_number(level) or not 0 < level < 1:
        raise OptionError(f"the level of an interval is between 0 and 1, such as 0.95; got {level!r}")
    return level


def mean_interval(moments: Moments, level: float = 0.95) -> Interval:
    """The t interval of the mean of users drawn independently: mean ± t_{(1+level)/2, n−1} · std / √n.

    Args:
        moments: of the users' values.
        level: the share of intervals that hold the true mean.
    """
    error = moments.std / math.sqrt(moments.n) if moments.n else math.nan
    return t_interval(moments.mean, error, moments.n, level)


def t_interval(mean: float, standard_error: float, n: int, level: float = 0.95) -> Interval:
    """The interval mean ± t_{(1+level)/2, n−1} · standard error.

    Args:
        mean: the estimate.
        standard_error: of the estimate.
        n: how many users it stands on.
        level: the share of intervals that hold the true value.
    """
    checked_level(level)
    if n < 2:
        return Interval.missing(level, "t", "no user" if n == 0 else "one user has no spread")
    if not (math.isfinite(mean) and math.isfinite(standard_error)):
        return Interval.missing(level, "t", "the mean or its spread is not finite")
    reach = t_critical(level, n - 1) * standard_error
    return Interval(mean - reach, mean + reach, level, "t")
