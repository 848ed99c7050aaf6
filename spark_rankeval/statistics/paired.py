"""Two models on the same users: the difference, its interval, and whether it is noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spark_rankeval.statistics.cluster_sums import ClusterAccumulator, Clusters, ClusterSums, clusters_of_column
from spark_rankeval.statistics.distributions import sign_test_p, t_sf
from spark_rankeval.statistics.intervals import (
    UNBOUNDED,
    Far,
    Interval,
    bounds_of_differences,
    bounds_of_lifts,
    interval_without_spread,
    may_agree_by_chance,
    p_beyond_margin,
    ratio,
    t_interval,
)
from spark_rankeval.statistics.moments import MOST, Moments, MomentsAccumulator, moments_of, smallest, with_prefix
from spark_rankeval.statistics.relative_lift import Lift, lift_of
from spark_rankeval.statistics.resampling import (
    LIMIT,
    CoinDraw,
    FixedPoint,
    checked_replicates,
    exact_sums,
    resampled_sums,
)
from spark_rankeval.statistics.sums import ExactSums, exact_sum

Array = np.ndarray[Any, Any]
Floats = np.ndarray[Any, np.dtype[np.float64]]

#: Values of a user that differ by no more than this times their size, or than this, are equal but for rounding.
TIE = 2.0**-40
# A term of a sum is off by less than this share of its size, half a unit of 2⁻⁴². That includes a few bits of its metric's rounding.
_ROUNDING_OF_SUMS = 2.0**-41

#: What the sums of a comparison are of, for each user.
SIDES = ("difference", "value", "baseline")
_COUNTS = ("n_undefined", "n_excessive", "wins", "losses")
_KEPT = "size_smallest"
# The prefix of the fields of clusters' signs, and so many clusters get their signs at once.
_SIGNS, _TOGETHER = "signs", 1 << 12
_SUMS = ("heads_ones", "heads_fraction", "total_ones", "total_fraction")


class PairedAccumulator:
    """The differences of several columns between a model and its baseline, of users that come batch by batch.

    `replicates` and `seed` are those of the sign-flip test; with 0 replicates no signs are drawn.
    """

    def __init__(self, n_columns: int, *, replicates: int = 9999, seed: int = 0) -> None:
        self._replicates = checked_replicates(replicates) if replicates else 0
        self._seed = seed
        self._moments = {side: MomentsAccumulator(n_columns) for side in SIDES}
        self._counts = np.zeros((len(_COUNTS), n_columns), np.int64)
        shape = (n_columns, replicates)
        self._heads = FixedPoint.zeros(shape)
        self._total = FixedPoint.zeros(n_columns)
        self._kept = np.full((n_columns, MOST), np.inf)
        # How large the values are whose differences are added: by so much of these are sums off.
        self._magnitudes = ExactSums(n_columns)

    def add(self, users: Array, values: Floats, baseline: Floats) -> None:
        """Take in users, each once, by 64-bit hashes of their ids, with the model's and the baseline's values, columns × users.

        Users who lack either value (NaN) are counted and left out; differences within `TIE` are 0.
        """
        both = ~(np.isnan(values) | np.isnan(baseline))
        size = np.maximum(np.maximum(np.abs(values), np.abs(baseline)), 1.0)
        difference = np.where(both, differences_of(values, baseline), 0.0)
        wins, losses = difference > 0, difference < 0
        # An infinity less another is no number, but it is not undefined either, and no win.
        difference[np.isnan(difference)] = np.inf
        excessive = both & ~(np.abs(difference) < LIMIT)
        self._counts += np.stack([np.count_nonzero(which, axis=1) for which in (~both, excessive, wins, losses)])
        for column, used in enumerate(both):
            for side, numbers in zip(SIDES, (difference, values, baseline), strict=True):
                self._moments[side].add(column, numbers[column, used])
        difference[excessive] = 0.0
        self._kept = smallest(self._kept, np.where(difference == 0, np.inf, np.abs(difference)))
        for column, changes in enumerate(difference != 0):
            self._magnitudes.add(column, size[column, changes])
        # Who changes nothing needs no sign.
        moved = difference.any(axis=0)
        difference, users = difference[:, moved], users[moved]
        if self._replicates:
            self._heads = self._heads.plus(resampled_sums(difference, users, CoinDraw(), self._replicates, self._seed))
        self._total = self._total.plus(exact_sums(difference))

    def state(self) -> dict[str, Array]:
        """The state so far: arrays whose first axis are the columns."""
        fields = dict(zip(_COUNTS, self._counts, strict=True))
        fields |= dict(zip(_SUMS, (*self._heads, *self._total), strict=True))
        for side, moments in self._moments.items():
            fields |= {f"{side}_{name}": numbers for name, numbers in moments.state().items()}
        fields |= {_KEPT: self._kept, "magnitudes": self._magnitudes.state()["limbs"]}
        return {name: numbers.copy() for name, numbers in fields.items()}


def differences_of(values: Floats, baseline: Floats) -> Floats:
    """The differences of users; 0 within `TIE`, NaN if either value is missing."""
    with np.errstate(invalid="ignore"):
        difference: Floats = values - baseline
        size = np.maximum(np.maximum(np.abs(values), np.abs(baseline)), 1.0)
        difference[(np.abs(difference) <= TIE * size) & (size < np.inf)] = 0.0
    return difference


def paired_sides(values: Floats, baseline: Floats) -> Floats:
    """The differences, the values and the baseline's values below one another, of users who have both; NaN for others."""
    difference = differences_of(values, baseline)
    is_missing = np.isnan(difference)
    return np.concatenate([difference, *(np.where(is_missing, np.nan, side) for side in (values, baseline))])


class PairedClusters:
    """The sums of `paired_sides` over clusters, for the precision of their means. Each cluster's difference has a sign of its own."""

    def __init__(self, n_columns: int, *, replicates: int = 0, seed: int = 0) -> None:
        self._n_columns = n_columns
        self._precision = ClusterAccumulator(len(SIDES) * n_columns)
        self._signs = PairedAccumulator(n_columns, replicates=replicates, seed=seed)
        self._waiting: list[ClusterSums] = []
        self._n_waiting = 0

    def add(self, sums: ClusterSums, n_without: int = 0) -> None:
        """Add clusters, each of them once, with the sums of their users."""
        self._precision.add(sums, n_without)
        self._waiting.append(sums)
        self._n_waiting += len(sums.clusters)
        if self._n_waiting >= _TOGETHER:
            self._settle()

    def _settle(self) -> None:
        waiting, self._waiting, self._n_waiting = self._waiting, [], 0
        if waiting:
            together = ClusterSums(*map(np.concatenate, zip(*waiting, strict=True)))
            values = np.where(together.weights > 0, together.values, np.nan).T[: self._n_columns]
            self._signs.add(together.clusters, values, np.zeros_like(values))

    def state(self) -> dict[str, Array]:
        """The state so far: the fields of `ClusterAccumulator` for each side, and those of `PairedAccumulator`, with prefixes."""
        self._settle()
        state = {f"{_SIGNS}_{name}": numbers for name, numbers in self._signs.state().items()}
        for name, numbers in self._precision.state().items():
            state |= {f"{side}_{name}": part for side, part in zip(SIDES, np.split(numbers, len(SIDES)), strict=True)}
        return state


@dataclass(frozen=True)
class PairedComparison:
    """A model against a baseline, over the users for whom both have a value; attributes without a line here are as in `ComparisonRow`.

    Attributes:
        std: the standard deviation of the differences, divisor n − 1; 0 if they are equal but for rounding.
        p_t: two-sided, with `df` degrees of freedom; 1 if no user differs; without spread that of signs, 2^(1 − n).
        p_sign_flip: the two-sided p-value of the randomisation test that gives each user's difference a random sign. If few
            users differ, or all by as much, all signs are counted (`_exact_p`). Else it is (b + 1) / (B + 1): b of B replicates
            have a sum at least as far from 0 (Fisher 1935; Phipson and Smyth 2010). NaN if neither is possible.
        cohens_d: difference / std, the effect size of paired differences (d_z).
        n_independent: how many users, or clusters if they come in these, are independent; `n_moved` of them differ.
        baseline_variance: the variance of the baseline's mean.
        covariance: the covariance of that mean and the difference.
        clusters: what clusters say of the mean difference; None if users are independent.
        far: how far few users, or clusters, lie from the mean difference.
    """

    n: int
    n_undefined: int
    mean: float
    baseline_mean: float
    difference: float
    std: float
    standard_error: float
    baseline_variance: float
    covariance: float
    t: float
    p_t: float
    p_sign_flip: float
    p_is_exact: bool
    cohens_d: float
    wins: int
    ties: int
    losses: int
    n_independent: int
    n_moved: int
    level: float = 0.95
    bounds: tuple[float, float] = field(default=UNBOUNDED, repr=False)
    lift_bounds: tuple[float, float] = field(default=UNBOUNDED, repr=False)
    clusters: Clusters | None = None
    far: Far = Far()

    @property
    def no_user_differs(self) -> bool:
        """Whether there are users, and all have equal values under both models."""
        return 0 < self.n == self.ties

    @property
    def df(self) -> float:
        """The degrees of freedom of the standard error."""
        return self.n - 1 if self.clusters is None else self.clusters.df

    @property
    def error_of_users(self) -> float:
        """The standard error of the difference if all users are independent."""
        return self.std / math.sqrt(self.n) if self.n else math.nan

    @property
    def _effective_n(self) -> float:
        return float(self.n) if self.clusters is None else self.clusters.effective_n

    @property
    def relative_lift(self) -> float:
        """The difference ÷ |baseline's mean|; NaN if that is 0."""
        return self.lift_at(self.level).value

    @property
    def interval(self) -> Interval:
        """The interval of the difference, as of no other comparison."""
        return self.interval_at(self.level)

    def interval_at(self, level: float, margin: float = 0.0) -> Interval:
        """The t interval of the difference at a level, within its bounds; without spread `interval_without_spread`.

        If users may agree by chance, also within a margin, it holds the latter, too. So it leaves out what `p_beyond` rejects.
        """
        problem = "" if self.clusters is None else self.clusters.problem
        error, n = self.standard_error, self._effective_n
        interval = t_interval(self.difference, error, self.n_independent, level, self.df, problem, self.far)
        if not interval:
            return interval
        alike = interval_without_spread(self.difference, n, level, self.bounds)
        if not error:
            return alike
        if self._may_agree_by_chance(margin):
            interval = interval.reaching(alike.low, alike.high)._replace(method=alike.method)
        return interval.within(self.bounds)

    def _may_agree_by_chance(self, margin: float = 0.0) -> bool:
        return may_agree_by_chance(self.difference, self.standard_error, self._effective_n, margin, self.bounds)

    def lift_at(self, level: float) -> Lift:
        """The difference as a share of the baseline's mean, with Fieller's interval at a level.

        If the difference has a longer interval than that of t, the lift's holds the shares that its ends are of the baseline's mean.
        """
        lift = lift_of(
            self.difference,
            self.baseline_mean,
            self.standard_error**2,
            self.baseline_variance,
            self.covariance,
            self.df,
            level,
            self.lift_bounds,
        )
        if not self.standard_error and not math.isnan(lift.value):
            return Lift(lift.value, reason="all users have the same difference")
        interval = self.interval_at(level)
        if not lift.reason and (any(self.far) or self._may_agree_by_chance()):
            low, high = (end / abs(self.baseline_mean) for end in interval[:2])
            (least, greatest), low, high = self.lift_bounds, min(lift.low, low), max(lift.high, high)
            return Lift(lift.value, max(low, least), min(high, greatest))
        # The lift lacks an interval for the same reason as the difference.
        return lift if interval or not self.baseline_mean else Lift(lift.value, reason=interval.reason)

    @property
    def least_p(self) -> float:
        """The smallest p that the signs of these users can give."""
        return min(1.0, 2.0 ** (1 - self.n_moved))

    def p_of(self, test: str, margin: float = 0.0, resolution: float = 0.0) -> tuple[float, str]:
        """The p-value of what a verdict would state, before correction, and what it is of: see `ComparisonRow.p_test`.

        The interval must leave out what is rejected, so p is no smaller than that of the interval. Signs may make it larger. Their own
        p-value does so if they were counted, or drawn and above the resolution, and else the least that they can give. A model that is
        better by more than a margin is better at all.
        """
        p, name = self.p_beyond(margin), self.interval_at(self.level, margin).method
        if test != "sign_flip" or (margin and abs(self.difference) <= margin):
            return p, name
        signs, of_signs = self.p_sign_flip, "exact" if self.p_is_exact else "sign_flip"
        if not self.p_is_exact and not signs > resolution:
            signs, of_signs = self.least_p, name
        # Both are NaN if one is: without an interval there is no test.
        return (signs, of_signs) if signs >= p else (p, name)

    def p_beyond(self, margin: float) -> float:
        """The two-sided p-value of what lies nearest: that the difference is beyond ±margin, or that it is within.

        It is 1 − level if the interval at that level ends at the margin (two one-sided tests; Schuirmann 1987); see `p_beyond_margin`.
        """
        n = self.n_independent if self.clusters is None else self._effective_n
        if n < 2 or math.isnan(self.p_t):
            return math.nan
        return p_beyond_margin(self.difference, self.standard_error, self.df, n, margin, self.bounds, self.far)


def comparison_of(
    state: dict[str, Any],
    level: float = 0.95,
    bounds: tuple[float, float] = UNBOUNDED,
    cluster_state: dict[str, Any] | None = None,
) -> PairedComparison:
    """The comparison of one column from its merged state, one entry of each field of `PairedAccumulator.state`.

    `bounds` are the least and the largest possible value; bounds that a value breaks are ignored. If users come in clusters,
    `cluster_state` has one entry of each field of `PairedClusters.state`.
    """
    sides = [moments_of(with_prefix(state, side)) for side in SIDES]
    difference, value, baseline = sides
    n, wins, losses = difference.n, int(state["wins"]), int(state["losses"])
    lift_bounds = bounds_of_lifts(bounds, value, baseline)
    bounds = bounds_of_differences(bounds, value, baseline)
    tolerance = _tolerance(state)
    # Each is off by a share of the tolerance: what lies closer together has no spread but that of rounding.
    has_spread = difference.greatest - difference.least > 4 * tolerance / max(wins + losses, 1)
    std = difference.std if n < 2 or has_spread else 0.0
    error = std / math.sqrt(n) if n else math.nan
    clusters, signs, n_independent, df, problem = None, state, n, n - 1.0, ""
    errors = {side: moments.std / math.sqrt(n) if n else math.nan for side, moments in zip(SIDES, sides, strict=True)}
    if cluster_state is not None:
        by_side = {side: clusters_of_column(with_prefix(cluster_state, side)) for side in SIDES}
        errors = {side: each.standard_error for side, each in by_side.items()}
        clusters, signs = by_side["difference"], with_prefix(cluster_state, _SIGNS)
        n_independent, error = clusters.n, clusters.standard_error if std or clusters.n < 2 else error
        df, problem = clusters.df, clusters.problem
    # Differences that cancel within every cluster leave a sum of rounding alone.
    is_rounding = cluster_state is not None and abs(difference.total) <= tolerance
    t = ratio(0.0 if is_rounding else difference.mean, error)
    p_t = math.nan
    if not math.isnan(t) and not problem:
        p_t = 2.0 ** (1 - n_independent) if math.isinf(t) else min(1.0, 2 * t_sf(abs(t), df))
    p_sign_flip, p_is_exact = math.nan, False
    independent = difference if cluster_state is None else moments_of(with_prefix(signs, SIDES[0]))
    if not int(state["n_excessive"]):
        p_sign_flip, p_is_exact = _sign_flip_p(signs, independent)
    # value = difference + baseline, so var(value) = var(difference) + var(baseline) + 2 cov.
    covariance = (errors["value"] ** 2 - error**2 - errors["baseline"] ** 2) / 2
    return PairedComparison(
        n=n, n_undefined=int(state["n_undefined"]), mean=value.mean, baseline_mean=baseline.mean, difference=difference.mean,
        std=std, standard_error=error, baseline_variance=errors["baseline"] ** 2, covariance=covariance, t=t,
        p_t=p_t, p_sign_flip=p_sign_flip, p_is_exact=p_is_exact,
        cohens_d=ratio(difference.mean, std), wins=wins, ties=n - wins - losses, losses=losses,
        n_independent=n_independent, n_moved=int(signs["wins"]) + int(signs["losses"]), level=level, bounds=bounds,
        lift_bounds=lift_bounds, clusters=clusters, far=Far.of(independent) if std else Far(),
    )  # fmt: skip


def _sign_flip_p(state: dict[str, Any], difference: Moments) -> tuple[float, bool]:
    """The p-value of users' or clusters' signs, and whether all signs were counted."""
    tolerance = _tolerance(state)
    if difference.n == 0 or int(state["n_excessive"]):
        return math.nan, False
    total = float(FixedPoint(np.asarray(state["total_ones"]), np.asarray(state["total_fraction"])).carried().floats())
    largest = max(abs(difference.least), abs(difference.greatest))
    p = _exact_p(state[_KEPT], int(state["wins"]), int(state["losses"]), total, largest, tolerance)
    if not math.isnan(p) or not len(state["heads_ones"]):
        return p, not math.isnan(p)
    heads = FixedPoint(state["heads_ones"], state["heads_fraction"]).carried().floats()
    # Heads keep their sign and tails lose theirs.
    as_far = np.count_nonzero(np.abs(2 * heads - total) >= abs(total) - tolerance)
    return (int(as_far) + 1) / (len(heads) + 1), False


def _tolerance(state: dict[str, Any]) -> float:
    """By how much rounding can change a sum of differences."""
    return float(exact_sum(state["magnitudes"])) * _ROUNDING_OF_SUMS


def _exact_p(sizes: Floats, wins: int, losses: int, total: float, largest: float, tolerance: float) -> float:
    """The share of all signs under which the sum is at least as far from 0, 2^(1 − n) or more; NaN if it is not known.

    `sizes` are as `smallest` keeps them; equal sums can differ by `tolerance` in rounding.
    """
    n = wins + losses
    if n == 0:
        return 1.0
    if n <= MOST:
        # The opposite signs give the opposite sum: one sign is enough for the last, and largest, difference.
        sums = sizes[n - 1 : n]
        for size in sizes[: n - 1]:
            sums = np.concatenate([sums - size, sums + size])
        return float(np.count_nonzero(np.abs(sums) >= abs(total) - tolerance) / len(sums))
    if largest - sizes[0] <= tolerance / n:
        return sign_test_p(wins, losses)
    return math.nan
