"""Groups of different users: differences of two means, the largest gap of several, and sequences that allow looks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from spark_rankeval.statistics import intervals
from spark_rankeval.statistics.distributions import studentized_range_critical, studentized_range_sf, t_critical, t_sf
from spark_rankeval.statistics.exact import LEAST_USERS, Mean, Moments, users_needed
from spark_rankeval.statistics.intervals import UNBOUNDED, Clusters, Interval

WELCH, MOVER = "welch", "mover"
# Of fewer users with a 0, or with a 1, the spread says little about the mean.
RARE = 30
# A group needs so many times (range / standard deviation)² users before Welch's test is right for skewed values.
_TIMES_SPREAD = 30
# The smallest p of an interval that was inverted, and how exact its logarithm is.
_LEAST_P, _EXACT = 1e-14, 1e-10
_ANY_LEVEL = 0.95


@dataclass(frozen=True)
class Group:
    """The mean of a group of users, independent of those of other groups.

    `weighted` is there if users have weights. `unknown` says why the mean is not known, if it is not. If users come in clusters,
    `clusters` say how precise the mean is.
    """

    name: str
    moments: Moments
    weighted: Mean | None = None
    bounds: tuple[float, float] = UNBOUNDED
    unknown: str = ""
    clusters: Clusters | None = None

    @property
    def n(self) -> int:
        """How many users the mean is over."""
        return self.moments.n

    @cached_property
    def precision(self) -> intervals.Precision:
        """The mean and how precise it is, over users or the clusters that they come in."""
        return intervals.precision_of(self.moments, self.weighted, self.clusters)

    @property
    def mean(self) -> float:
        """The mean, weighted if users have weights."""
        return self.precision.mean

    @property
    def variance(self) -> float:
        """The variance of the mean; NaN for fewer than two users or clusters."""
        if self.weighted is None and self.clusters is None:
            return self.moments.std**2 / self.n if self.n > 1 else math.nan
        return self.precision.standard_error**2

    @cached_property
    def problem(self) -> str:
        """Why the mean has no interval, after the group's name; empty if it has one."""
        reason = self.unknown
        if not reason and self.n < 2:
            reason = "one user has no spread" if self.n else "no user has a value"
        reason = reason or self.precision.problem
        if not reason and not (math.isfinite(self.mean) and math.isfinite(self.variance)):
            reason = intervals.UNKNOWN_MEAN
        if not reason and not self.has_spread:
            reason = self.interval(_ANY_LEVEL).reason
        return f"{self.name}: {reason}" if reason else ""

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
        is_binary = self.bounds == (0, 1) and intervals.are_binary(self.moments, self.weighted)
        return n_rarer < RARE and is_binary and self.precision.n == self.n

    def interval(self, level: float) -> Interval:
        """The interval of the mean, as a summary has it."""
        interval = intervals.mean_interval(self.moments, level, self.weighted, self.clusters)
        return intervals.adjusted_interval(interval, self.moments, self.bounds, self.weighted, self.clusters)


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
        most_df: the most degrees of freedom that there can be.
    """

    estimate: float
    variances: tuple[float, float]
    dfs: tuple[float, float]
    bounds: tuple[float, float] = UNBOUNDED
    problem: str = ""
    rare: tuple[Group, Group] | None = None
    df_spent: int = 0
    most_df: float = math.inf

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
        return max(1.0, min(1 / sum(shares), self.most_df) - self.df_spent)

    def cautious(self, groups: tuple[Group, Group]) -> Difference:
        """The same with larger variances, if a group of these two has few users for values as skewed as theirs.

        Users without one of the larger values, if these are rare, have a small spread by chance, and Welch's test takes it for
        certainty. So a group of few users counts as at least as spread as the other. Of users with weights Bessel's correction is
        for their effective number, because those with large weights have small residuals.
        """
        spreads = [group.precision.n * variance for group, variance in zip(groups, self.variances, strict=True)]
        # Of clusters with users on both sides the variances above are smaller than those of the values.
        needed = needed_users(groups, [group.precision.n * group.variance for group in groups], _TIMES_SPREAD)
        sizes = [group.precision.effective_n if group.clusters is None else group.precision.n for group in groups]
        first, second = (
            (max(spreads) if size < enough else own) / max(group.precision.n, 1) * _bessel(group)
            for group, size, own, enough in zip(groups, sizes, spreads, needed, strict=True)
        )
        return replace(self, variances=(first, second))

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
        within, whichever the estimate is. The p-value is 1 − level of the interval that ends at the nearer limit.
        """
        if self.problem:
            return math.nan
        if not self.rare:
            t = abs(abs(self.estimate) - margin) / self.standard_error
            return min(1.0, 2 * t_sf(t, self.df))
        if abs(self.estimate) > margin:
            return self._inverted(math.copysign(margin, self.estimate), *self.rare)
        limit_ps = [self._inverted(limit, *self.rare) for limit in (margin, -margin)]
        return math.nan if any(map(math.isnan, limit_ps)) else max(limit_ps)

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


def needed_users(groups: tuple[Group, Group], spreads: Sequence[float], times: float) -> list[float]:
    """How many users, or clusters, each of two groups needs before its mean is close to normal; spreads are variances of one of them."""
    moments = [group.moments for group in groups]
    width = max(each.greatest for each in moments) - min(each.least for each in moments)
    return [users_needed(spread, width, times) for spread in spreads]


def _root(falling: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function is 0, by the Illinois method; an end if it has one sign."""
    low_value, high_value = falling(low), falling(high)
    if low_value <= 0:
        return low
    if high_value >= 0:
        return high
    kept = 0
    while high - low > _EXACT:
        middle = (low * high_value - high * low_value) / (high_value - low_value)
        if not low < middle < high:
            break
        value = falling(middle)
        if value == 0:
            return middle
        if value > 0:
            low, low_value = middle, value
            high_value /= 2 if kept > 0 else 1
            kept = 1
        else:
            high, high_value = middle, value
            low_value /= 2 if kept < 0 else 1
            kept = -1
    return high


def _bessel(group: Group) -> float:
    """Bessel's correction for the effective number of users over that for their number, which the variance has."""
    if group.weighted is None or group.clusters is not None or group.n < 2:
        return 1.0
    return (1 + 1 / max(1.0, group.precision.effective_n - 1)) * (group.n - 1) / group.n


def difference_of(group: Group, other: Group, *, shares_clusters: bool = False) -> Difference:
    """The difference of two groups' means, group − other; if `shares_clusters`, users of both may be of the same clusters."""
    variances, most_df = (group.variance, other.variance), math.inf
    if shares_clusters:
        variances, most_df = _together(group, other)
    return Difference(
        estimate=group.mean - other.mean,
        variances=variances,
        dfs=(group.precision.df, other.precision.df),
        bounds=intervals.bounds_of_differences(group.bounds, group.moments, other.moments),
        problem=group.problem or other.problem,
        rare=(group, other) if group.is_rare or other.is_rare else None,
        most_df=most_df,
    )


def _together(group: Group, other: Group) -> tuple[tuple[float, float], float]:
    """The variances of two means, so scaled that their sum is that of the difference over groups of clusters; and its most df."""
    grouped = [each.clusters.grouped if each.clusters is not None else None for each in (group, other)]
    own, others = (None if each is None else each.influences() for each in grouped)
    if own is None or others is None:
        return (group.variance, other.variance), math.inf
    n = sum(a is not None or b is not None for a, b in zip(own, others, strict=True))
    if n < 2:
        return (math.nan, math.nan), math.inf
    both = [((a or 0.0), (b or 0.0)) for a, b in zip(own, others, strict=True)]
    total = math.fsum((a - b) ** 2 for a, b in both) * n / (n - 1)
    apart = [math.fsum(values[side] ** 2 for values in both) for side in (0, 1)]
    if not sum(apart):
        return (0.0, 0.0), n - 1
    return (total * apart[0] / sum(apart), total * apart[1] / sum(apart)), n - 1


def _recovered(group: Group, other: Group, level: float) -> Interval:
    """The interval of a difference from those of the two means (Zou and Donner 2008)."""
    first, second = group.interval(level), other.interval(level)
    difference = group.mean - other.mean
    down = math.hypot(group.mean - first.low, second.high - other.mean)
    up = math.hypot(first.high - group.mean, other.mean - second.low)
    return Interval(difference - down, difference + up, level, MOVER)


GAMES_HOWELL = "games_howell"


@dataclass(frozen=True)
class LargestGap:
    """The largest difference between the means of several groups: the highest less the lowest.

    Attributes:
        highest: the group with the highest mean; None if fewer than two groups have an interval.
        lowest: the group with the lowest.
        n_groups: how many groups there are to choose from.
        n_left_out: how many groups are not, because they have too few users or no interval.
        difference: of the two, without a correction.
    """

    highest: Group | None
    lowest: Group | None
    n_groups: int
    difference: Difference
    n_left_out: int = 0

    def interval_at(self, level: float) -> Interval:
        """The interval of the difference at a level.

        The intervals of all pairs of groups hold together, and so does that of the pair that was chosen for its difference. Source: Games
        and Howell 1976, with the studentized range of `n_groups` means and Welch's degrees of freedom of the pair. If a variance says
        little, it is that of `Difference` with Bonferroni's level for all pairs.
        """
        if self.difference.problem:
            return Interval.missing(level, GAMES_HOWELL, self.difference.problem)
        if self.difference.rare:
            pair_level = 1 - (1 - level) / math.comb(self.n_groups, 2)
            return self.difference.interval(pair_level)._replace(level=level)
        q = studentized_range_critical(level, self.n_groups, self.difference.df)
        width = q * self.difference.standard_error / math.sqrt(2)
        ends = (self.difference.estimate - width, self.difference.estimate + width)
        return Interval(*ends, level, GAMES_HOWELL).within(self.difference.bounds)

    def p_of(self, margin: float = 0.0) -> float:
        """The p-value, corrected for the choice among all pairs; see `Difference.p_of`."""
        n_pairs = math.comb(self.n_groups, 2)
        if self.difference.problem:
            return math.nan
        if self.difference.rare:
            return min(1.0, n_pairs * self.difference.p_of(margin))
        q = abs(abs(self.difference.estimate) - margin) * math.sqrt(2) / self.difference.standard_error
        return studentized_range_sf(q, self.n_groups, self.difference.df)


def largest_gap(groups: Sequence[Group], least_n: int = 2) -> LargestGap:
    """The largest gap between groups of at least `least_n` users that have an interval."""
    chosen = [group for group in groups if group.n >= least_n and not group.problem]
    if len(chosen) < 2:
        nan = math.nan
        reason = f"fewer than two slices have {max(least_n, 2)} users or more, and an interval"
        none = Difference(nan, (nan, nan), (nan, nan), problem=reason)
        return LargestGap(None, None, len(chosen), none, len(groups) - len(chosen))
    highest, lowest = max(chosen, key=lambda group: group.mean), min(chosen, key=lambda group: group.mean)
    if highest is lowest:
        # All means are equal: any two groups will do.
        lowest = chosen[1]
    clustered = highest.clusters is not None
    difference, n_groups = difference_of(highest, lowest, shares_clusters=clustered), len(chosen)
    difference = difference.cautious((highest, lowest))
    return LargestGap(highest, lowest, n_groups, difference, len(groups) - n_groups)


SEQUENCE = "confidence_sequence"
#: A sequence begins when each group has this number of times (range / standard deviation)² users: `exact.users_needed`.
TIMES_SPREAD = 5
#: The number of users, of both groups together, at which a sequence is tightest by default.
TIGHTEST_AT = 10_000


def squared_rho(tightest_at: float, level: float) -> float:
    """ρ² for which the sequence is tightest at a number of users, as the authors approximate it."""
    doubled = -2 * math.log(1 - level)
    return (doubled + math.log(doubled + 1)) / tightest_at


def half_width(n: float, level: float, tightest_at: float) -> float:
    """The half-width of a sequence after n users, in standard errors."""
    spent = n * squared_rho(tightest_at, level)
    return math.sqrt(2 * (spent + 1) / spent * (math.log1p(spent) / 2 - math.log(1 - level)))


def always_valid_p(z: float, n: float, level: float, tightest_at: float) -> float:
    """The p-value of an estimate z standard errors from 0 after n users: 1 − level of the sequence that ends at 0.

    ρ is that of the level which is asked for. The probability that p is ever at most α is α, if the estimate is of 0 (Johari,
    Koomen, Pekelis and Walsh 2017).
    """
    spent = n * squared_rho(tightest_at, level)
    return min(1.0, math.exp(math.log1p(spent) / 2 - z * z * spent / (2 * (spent + 1))))


def sequence_of(
    difference: Difference, level: float, groups: tuple[Group, Group], tightest_at: float, margin: float = 0.0
) -> tuple[Interval, float]:
    """The interval and the p-value of a difference that hold at all looks together."""
    n_users, n_others = (group.precision.effective_n for group in groups)
    problem = difference.problem or _too_early(groups, (LEAST_USERS, LEAST_USERS))
    if not problem and difference.rare:
        same = next((group for group in groups if not group.has_spread), None)
        problem = (
            f"a confidence sequence of rare values begins when {RARE} users have each of them"
            if same is None
            else f"a confidence sequence begins when users differ; all of {same.name} have the same value"
        )
    if not problem:
        spreads = [group.variance * group.precision.effective_n for group in groups]
        problem = _too_early(groups, needed_users(groups, spreads, TIMES_SPREAD))
    if problem:
        return Interval.missing(level, SEQUENCE, problem), math.nan
    n = n_users + n_others
    width = half_width(n, level, tightest_at) * difference.standard_error
    ends = difference.estimate - width, difference.estimate + width
    interval = Interval(*ends, level, SEQUENCE).within(difference.bounds)
    z = abs(abs(difference.estimate) - margin) / difference.standard_error
    return interval, always_valid_p(z, n, level, tightest_at)


def _too_early(groups: tuple[Group, Group], needed: Sequence[float]) -> str:
    """Why a confidence sequence has not begun, if each group needs so many users; empty if it has."""
    group, least = min(zip(groups, needed, strict=True), key=lambda each: each[0].precision.effective_n / each[1])
    n_needed = math.ceil(least)
    if group.precision.effective_n >= n_needed:
        return ""
    units = "users" if group.clusters is None else "clusters"
    reason = "" if n_needed == LEAST_USERS else ", because few of its values are far from most"
    if group.precision.n >= n_needed:
        return (
            f"a confidence sequence begins when {group.name} is as good as {n_needed:,} {units} of equal weights{reason}; it is as good "
            f"as {group.precision.effective_n:.1f}"
        )
    return (
        f"a confidence sequence begins when {group.name} has {n_needed:,} {units}{reason}; it has {group.precision.n:,}"
    )
