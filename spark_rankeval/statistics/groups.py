"""Groups of different users: the difference of two means, and the largest gap between several.

Users are drawn independently, so the variances of two groups add up. Welch's test (Biometrika 1947) does not assume that the
groups are equally spread. Its degrees of freedom are those of Satterthwaite (1946).

A variance says little if all users of a group have the same value, or if all values are 0 or 1 and one of them is rare. Then each
mean keeps the interval that it has alone (`fitted`), and both make that of the difference. This is the method of variance estimates
recovery (Zou and Donner, Statistics in Medicine 2008). For shares this is Newcombe's hybrid (1998, method 10), with the interval
of Clopper and Pearson in place of Wilson's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from spark_rankeval.statistics.description import t_interval_of
from spark_rankeval.statistics.distributions import (
    studentized_range_critical,
    studentized_range_sf,
    t_critical,
    t_sf,
)
from spark_rankeval.statistics.intervals import (
    NOT_KNOWN,
    UNBOUNDED,
    Interval,
    are_shares,
    bounds_of_differences,
    fitted,
)
from spark_rankeval.statistics.sequences import LEAST_USERS, always_valid_p, reach

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_rankeval.statistics.means import Mean
    from spark_rankeval.statistics.moments import Moments

WELCH, MOVER, GAMES_HOWELL, SEQUENCE = "welch", "mover", "games_howell", "confidence_sequence"
# Of fewer users with a 0, or with a 1, the spread says little about the mean.
_RARE = 30
# Of fewer users the spread may be small by chance.
_FEW = 100
# The smallest p of an interval that was inverted, and how exact its logarithm is.
_LEAST_P, _EXACT = 1e-14, 1e-10
_ANY_LEVEL = 0.95


@dataclass(frozen=True)
class Group:
    """The mean of a group of users, independent of those of other groups.

    `weighted` is there if users have weights; `unknown` says why the mean is not known, if it is not.
    """

    name: str
    moments: Moments
    weighted: Mean | None = None
    bounds: tuple[float, float] = UNBOUNDED
    unknown: str = ""

    @property
    def n(self) -> int:
        """How many users the mean is over."""
        return self.moments.n

    @property
    def mean(self) -> float:
        """The mean, weighted if users have weights."""
        return self.moments.mean if self.weighted is None else self.weighted.mean

    @property
    def variance(self) -> float:
        """The variance of the mean; NaN for fewer than two users."""
        if self.n < 2:
            return math.nan
        return self.moments.std**2 / self.n if self.weighted is None else self.weighted.standard_error**2

    @property
    def df(self) -> int:
        """The degrees of freedom of the variance: independent units less 1, and each user is such a unit."""
        return self.n - 1

    @cached_property
    def problem(self) -> str:
        """Why the mean has no interval, after the group's name; empty if it has one."""
        reason = self.unknown or self._why_without_interval()
        return f"{self.name}: {reason}" if reason else ""

    def _why_without_interval(self) -> str:
        if self.n < 2:
            return "one user has no spread" if self.n else "no user has a value"
        if not (math.isfinite(self.mean) and math.isfinite(self.variance)):
            return NOT_KNOWN
        return "" if self.has_spread else self.interval(_ANY_LEVEL).reason

    @property
    def has_spread(self) -> bool:
        """Whether users have different values."""
        return self.variance > 0

    @cached_property
    def is_rare(self) -> bool:
        """Whether the variance says little: no user differs, or all values are 0 or 1 and one of them is rare."""
        if not self.has_spread:
            return True
        n_rarer = min(self.moments.n_zero, self.n - self.moments.n_zero)
        return n_rarer < _RARE and self.bounds == (0, 1) and are_shares(self.moments, self.weighted)

    def interval(self, level: float) -> Interval:
        """The interval of the mean, as a summary has it."""
        return fitted(t_interval_of(self.moments, self.weighted, level), self.moments, self.bounds, self.weighted)


@dataclass(frozen=True)
class Difference:
    """The difference of the means of two groups, first − second, with the variance and degrees of freedom of each mean.

    Attributes:
        estimate: the difference; NaN if a group has no mean.
        variances: of the two means.
        dfs: the degrees of freedom of the variances.
        bounds: the least and the largest possible difference.
        problem: why there is no interval; empty if there is one.
        rare: the groups, if the variance of one says little; then their own intervals make that of the difference.
        df_spent: the degrees of freedom that other estimates took.
    """

    estimate: float
    variances: tuple[float, float]
    dfs: tuple[float, float]
    bounds: tuple[float, float] = UNBOUNDED
    problem: str = ""
    rare: tuple[Group, Group] | None = None
    df_spent: int = 0

    @property
    def method(self) -> str:
        """Where the interval comes from: ``welch`` or ``mover``."""
        return MOVER if self.rare else WELCH

    @property
    def standard_error(self) -> float:
        """The standard error of the difference."""
        return math.sqrt(sum(self.variances))

    @property
    def df(self) -> float:
        """Satterthwaite's degrees of freedom; NaN without a spread."""
        total = sum(self.variances)
        if not total > 0:
            return math.nan
        # Shares of the total, because squares of tiny variances would be 0.
        shares = ((variance / total) ** 2 / df for variance, df in zip(self.variances, self.dfs, strict=True))
        return max(1.0, 1 / sum(shares) - self.df_spent)

    def interval(self, level: float) -> Interval:
        """The interval of the difference at a level, within the bounds."""
        if self.problem:
            return Interval.missing(level, self.method, self.problem)
        if self.rare:
            return _recovered(*self.rare, level).within(self.bounds)
        width = t_critical(level, self.df) * self.standard_error
        return Interval(self.estimate - width, self.estimate + width, level, WELCH).within(self.bounds)

    def p_of(self, margin: float = 0.0) -> float:
        """The two-sided p-value of what a verdict would state; NaN without an interval.

        Without a margin it states that there is a difference. With one, it states that the difference is beyond ±margin, or
        within, whichever the estimate is. p is 1 − level of the interval that ends at the nearer limit.
        """
        if self.problem:
            return math.nan
        if not self.rare:
            t = abs(abs(self.estimate) - margin) / self.standard_error
            return min(1.0, 2 * t_sf(t, self.df))
        if abs(self.estimate) > margin:
            return self._inverted(math.copysign(margin, self.estimate), *self.rare)
        at_limits = [self._inverted(limit, *self.rare) for limit in (margin, -margin)]
        return math.nan if any(map(math.isnan, at_limits)) else max(at_limits)

    def at_any_time(
        self, level: float, n_users: int, n_others: int, tightest_at: float, margin: float = 0.0
    ) -> tuple[Interval, float]:
        """The interval and the p-value of a confidence sequence, which hold at all looks together; see `sequences`."""
        n_least, problem = min(n_users, n_others), self.problem
        if not problem and n_least < LEAST_USERS:
            problem = f"a confidence sequence begins when both groups have {LEAST_USERS} users; one has {n_least}"
        elif not problem and self.rare:
            problem = f"a confidence sequence of rare values begins when {_RARE} users have each of them"
        if problem:
            return Interval.missing(level, SEQUENCE, problem), math.nan
        n = n_users + n_others
        width = reach(n, level, tightest_at) * self.standard_error
        interval = Interval(self.estimate - width, self.estimate + width, level, SEQUENCE).within(self.bounds)
        z = abs(abs(self.estimate) - margin) / self.standard_error
        return interval, always_valid_p(z, n, level, tightest_at)

    def _inverted(self, limit: float, group: Group, other: Group) -> float:
        """1 − level of the interval that ends at a limit; NaN for a limit so far off that no interval reaches it."""
        (least, greatest), (other_least, other_greatest) = group.bounds, other.bounds
        down = math.hypot(group.mean - least, other_greatest - other.mean)
        up = math.hypot(greatest - group.mean, other.mean - other_least)
        if not self.estimate - down <= limit <= self.estimate + up:
            return math.nan
        below = limit < self.estimate

        def beyond(log_p: float) -> float:
            interval = _recovered(group, other, 1 - math.exp(log_p))
            return limit - interval.low if below else interval.high - limit

        if limit == self.estimate:
            return 1.0
        return math.exp(_root(beyond, math.log(_LEAST_P), -_EXACT))


def _root(falling: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function is 0, by the Illinois method; an end if it has one sign."""
    at_low, at_high = falling(low), falling(high)
    if at_low <= 0:
        return low
    if at_high >= 0:
        return high
    kept = 0
    while high - low > _EXACT:
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        if not low < middle < high:
            break
        value = falling(middle)
        if value == 0:
            return middle
        if value > 0:
            low, at_low = middle, value
            at_high /= 2 if kept > 0 else 1
            kept = 1
        else:
            high, at_high = middle, value
            at_low /= 2 if kept < 0 else 1
            kept = -1
    return high


def difference_of(group: Group, other: Group, *, cautious: bool = False) -> Difference:
    """The difference of two groups' means, group − other.

    A few users without one of the larger values have a small spread by chance, and Welch's test takes it for certainty. If
    `cautious`, a group of fewer than 100 users counts as at least as spread as the other.
    """
    variances = (group.variance, other.variance)
    if cautious:
        spreads = [each.n * variance for each, variance in zip((group, other), variances, strict=True)]
        least = [max(spreads) if each.n < _FEW else own for each, own in zip((group, other), spreads, strict=True)]
        variances = (least[0] / max(group.n, 1), least[1] / max(other.n, 1))
    return Difference(
        estimate=group.mean - other.mean,
        variances=variances,
        dfs=(group.df, other.df),
        bounds=bounds_of_differences(group.bounds, group.moments, other.moments),
        problem=group.problem or other.problem,
        rare=(group, other) if group.is_rare or other.is_rare else None,
    )


def _recovered(group: Group, other: Group, level: float) -> Interval:
    """The interval of a difference from those of the two means (Zou and Donner 2008)."""
    first, second = group.interval(level), other.interval(level)
    difference = group.mean - other.mean
    down = math.hypot(group.mean - first.low, second.high - other.mean)
    up = math.hypot(first.high - group.mean, other.mean - second.low)
    return Interval(difference - down, difference + up, level, MOVER)


@dataclass(frozen=True)
class LargestGap:
    """The largest difference between the means of several groups: the highest less the lowest.

    Attributes:
        highest: the group with the highest mean; None if fewer than two groups have an interval.
        lowest: the group with the lowest.
        n_groups: how many groups there are to choose from.
        interval: that of the two. The intervals of all pairs of groups hold together, and so does that of the pair that was
            chosen for its difference. Source: Games and Howell 1976, with the studentized range of `n_groups` means and Welch's
            degrees of freedom of the pair. If a variance says little, `Difference` with Bonferroni's level for all pairs.
        difference: of the two, without a correction.
    """

    highest: Group | None
    lowest: Group | None
    n_groups: int
    difference: Difference
    interval: Interval

    def p_of(self, margin: float = 0.0) -> float:
        """The p-value, corrected for the choice among all pairs; see `Difference.p_of`."""
        n_pairs = math.comb(self.n_groups, 2)
        if not self.interval:
            return math.nan
        if self.difference.rare:
            return min(1.0, n_pairs * self.difference.p_of(margin))
        q = abs(abs(self.difference.estimate) - margin) * math.sqrt(2) / self.difference.standard_error
        return studentized_range_sf(q, self.n_groups, self.difference.df)


def largest_gap(groups: Sequence[Group], level: float, least_n: int = 2) -> LargestGap:
    """The largest gap between groups of at least `least_n` users that have an interval."""
    chosen = [group for group in groups if group.n >= least_n and not group.problem]
    if len(chosen) < 2:
        nan = math.nan
        reason = f"fewer than two slices have {max(least_n, 2)} users or more, and an interval"
        none = Difference(nan, (nan, nan), (nan, nan), problem=reason)
        return LargestGap(None, None, len(chosen), none, Interval.missing(level, GAMES_HOWELL, reason))
    highest, lowest = max(chosen, key=lambda group: group.mean), min(chosen, key=lambda group: group.mean)
    if highest is lowest:
        # All means are equal: any two groups will do.
        lowest = chosen[1]
    difference, n_groups = difference_of(highest, lowest), len(chosen)
    if difference.rare:
        of_one = 1 - (1 - level) / math.comb(n_groups, 2)
        interval = replace(difference.interval(of_one), level=level)
    else:
        q = studentized_range_critical(level, n_groups, difference.df)
        width = q * difference.standard_error / math.sqrt(2)
        ends = (difference.estimate - width, difference.estimate + width)
        interval = Interval(*ends, level, GAMES_HOWELL).within(difference.bounds)
    return LargestGap(highest, lowest, n_groups, difference, interval)
