"""Models on the same users: differences, all pairs, corrections for many comparisons, and verdicts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from spark_rankeval.errors import OptionError
from spark_rankeval.statistics import exact, intervals, resampling
from spark_rankeval.statistics.distributions import sign_test_p, studentized_range_critical, studentized_range_sf, t_sf
from spark_rankeval.statistics.exact import Moments, MomentsAccumulator
from spark_rankeval.statistics.intervals import UNBOUNDED, Clusters, Far, Interval

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
# The prefix of the fields of clusters' signs.
_SIGNS = "signs"


class PairedAccumulator:
    """The differences of several columns between a model and its baseline, of users that come batch by batch.

    `replicates` and `seed` are those of the sign-flip test; with 0 replicates no signs are drawn.
    """

    def __init__(self, n_columns: int, *, replicates: int = 9999, seed: int = 0) -> None:
        self._replicates = replicates
        self._seed = seed
        self._moments = {side: MomentsAccumulator(n_columns) for side in SIDES}
        self._counts = np.zeros((len(_COUNTS), n_columns), np.int64)
        self._heads = resampling.zero_sums(n_columns, replicates)
        self._total = resampling.zero_sums(n_columns)
        self._kept = np.full((n_columns, exact.MOST), np.inf)
        # How large the values are whose differences are added: by so much of these are sums off.
        self._magnitudes = exact.ExactSums(n_columns)

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
        excessive = both & ~(np.abs(difference) < resampling.LIMIT)
        self._counts += np.stack([np.count_nonzero(which, axis=1) for which in (~both, excessive, wins, losses)])
        for column, used in enumerate(both):
            for side, numbers in zip(SIDES, (difference, values, baseline), strict=True):
                self._moments[side].add(column, numbers[column, used])
        difference[excessive] = 0.0
        self._kept = exact.smallest(self._kept, np.where(difference == 0, np.inf, np.abs(difference)))
        for column, changes in enumerate(difference != 0):
            self._magnitudes.add(column, size[column, changes])
        # Who changes nothing needs no sign.
        moved = difference.any(axis=0)
        difference, users = difference[:, moved], users[moved]
        if self._replicates:
            coins = resampling.resampled_sums(difference, users, resampling.CoinDraw(), self._replicates, self._seed)
            self._heads = resampling.carried(self._heads + coins)
        self._total = resampling.carried(self._total + resampling.exact_sums(difference))

    def state(self) -> dict[str, Array]:
        """The state so far: arrays whose first axis are the columns."""
        fields = dict(zip(_COUNTS, self._counts, strict=True))
        fields |= {"heads": np.moveaxis(self._heads, 0, 1), "total": np.moveaxis(self._total, 0, 1)}
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


class PairedClusters(intervals.ClusterAccumulator):
    """The sums of `paired_sides` over clusters, for the precision of their means. Each cluster's difference has a sign of its own."""

    def __init__(self, n_columns: int, *, replicates: int = 0, seed: int = 0) -> None:
        super().__init__(len(SIDES) * n_columns)
        self._n_columns = n_columns
        self._signs = PairedAccumulator(n_columns, replicates=replicates, seed=seed)

    def add_batch(self, batch: intervals.ClusterSums) -> None:
        """Add some clusters at once, and draw their signs."""
        super().add_batch(batch)
        values = np.where(batch.weights > 0, batch.values, np.nan).T[: self._n_columns]
        self._signs.add(batch.clusters, values, np.zeros_like(values))

    def state(self) -> dict[str, Array]:
        """The state so far: the fields of `ClusterAccumulator` for each side, and those of `PairedAccumulator`, with prefixes."""
        precision = super().state()
        state = {f"{_SIGNS}_{name}": numbers for name, numbers in self._signs.state().items()}
        for name, numbers in precision.items():
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
        interval = intervals.t_interval(self.difference, error, self.n_independent, level, self.df, problem, self.far)
        if not interval:
            return interval
        alike = intervals.interval_without_spread(self.difference, n, level, self.bounds)
        if not error:
            return alike
        if self._may_agree_by_chance(margin):
            interval = interval.reaching(alike.low, alike.high)._replace(method=alike.method)
        return interval.within(self.bounds)

    def _may_agree_by_chance(self, margin: float = 0.0) -> bool:
        return intervals.may_agree_by_chance(
            self.difference, self.standard_error, self._effective_n, margin, self.bounds
        )

    def lift_at(self, level: float) -> intervals.Lift:
        """The difference as a share of the baseline's mean, with Fieller's interval at a level.

        If the difference has a longer interval than that of t, the lift's holds the shares that its ends are of the baseline's mean.
        """
        lift = intervals.lift_of(
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
            return intervals.Lift(lift.value, reason="all users have the same difference")
        interval = self.interval_at(level)
        if not lift.reason and (any(self.far) or self._may_agree_by_chance()):
            low, high = (end / abs(self.baseline_mean) for end in interval[:2])
            (least, greatest), low, high = self.lift_bounds, min(lift.low, low), max(lift.high, high)
            return intervals.Lift(lift.value, max(low, least), min(high, greatest))
        # The lift lacks an interval for the same reason as the difference.
        return lift if interval or not self.baseline_mean else intervals.Lift(lift.value, reason=interval.reason)

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
        return intervals.p_beyond_margin(
            self.difference, self.standard_error, self.df, n, margin, self.bounds, self.far
        )


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
    sides = [exact.moments_of(exact.with_prefix(state, side)) for side in SIDES]
    difference, value, baseline = sides
    n, wins, losses = difference.n, int(state["wins"]), int(state["losses"])
    lift_bounds = intervals.bounds_of_lifts(bounds, value, baseline)
    bounds = intervals.bounds_of_differences(bounds, value, baseline)
    tolerance = _tolerance(state)
    # Each is off by a share of the tolerance: what lies closer together has no spread but that of rounding.
    has_spread = difference.greatest - difference.least > 4 * tolerance / max(wins + losses, 1)
    std = difference.std if n < 2 or has_spread else 0.0
    error = std / math.sqrt(n) if n else math.nan
    clusters, signs, n_independent, df, problem = None, state, n, n - 1.0, ""
    errors = {side: moments.std / math.sqrt(n) if n else math.nan for side, moments in zip(SIDES, sides, strict=True)}
    if cluster_state is not None:
        by_side = {side: intervals.clusters_of_column(exact.with_prefix(cluster_state, side)) for side in SIDES}
        errors = {side: each.standard_error for side, each in by_side.items()}
        clusters, signs = by_side["difference"], exact.with_prefix(cluster_state, _SIGNS)
        n_independent, error = clusters.n, clusters.standard_error if std or clusters.n < 2 else error
        df, problem = clusters.df, clusters.problem
    # Differences that cancel within every cluster leave a sum of rounding alone.
    is_rounding = cluster_state is not None and abs(difference.total) <= tolerance
    t = intervals.ratio(0.0 if is_rounding else difference.mean, error)
    p_t = math.nan
    if not math.isnan(t) and not problem:
        p_t = 2.0 ** (1 - n_independent) if math.isinf(t) else min(1.0, 2 * t_sf(abs(t), df))
    p_sign_flip, p_is_exact = math.nan, False
    independent = difference if cluster_state is None else exact.moments_of(exact.with_prefix(signs, SIDES[0]))
    if not int(state["n_excessive"]):
        p_sign_flip, p_is_exact = _sign_flip_p(signs, independent)
    # value = difference + baseline, so var(value) = var(difference) + var(baseline) + 2 cov.
    covariance = (errors["value"] ** 2 - error**2 - errors["baseline"] ** 2) / 2
    return PairedComparison(
        n=n, n_undefined=int(state["n_undefined"]), mean=value.mean, baseline_mean=baseline.mean, difference=difference.mean,
        std=std, standard_error=error, baseline_variance=errors["baseline"] ** 2, covariance=covariance,
        p_t=p_t, p_sign_flip=p_sign_flip, p_is_exact=p_is_exact,
        cohens_d=intervals.ratio(difference.mean, std), wins=wins, ties=n - wins - losses, losses=losses,
        n_independent=n_independent, n_moved=int(signs["wins"]) + int(signs["losses"]), level=level, bounds=bounds,
        lift_bounds=lift_bounds, clusters=clusters, far=Far.of(independent) if std else Far(),
    )  # fmt: skip


def _sign_flip_p(state: dict[str, Any], difference: Moments) -> tuple[float, bool]:
    """The p-value of users' or clusters' signs, and whether all signs were counted."""
    tolerance = _tolerance(state)
    if difference.n == 0 or int(state["n_excessive"]):
        return math.nan, False
    total = float(resampling.floats_of(state["total"]))
    largest = max(abs(difference.least), abs(difference.greatest))
    p = _exact_p(state[_KEPT], int(state["wins"]), int(state["losses"]), total, largest, tolerance)
    if not math.isnan(p) or not state["heads"].size:
        return p, not math.isnan(p)
    heads = resampling.floats_of(state["heads"])
    # Heads keep their sign and tails lose theirs.
    as_far = np.count_nonzero(np.abs(2 * heads - total) >= abs(total) - tolerance)
    return (int(as_far) + 1) / (len(heads) + 1), False


def _tolerance(state: dict[str, Any]) -> float:
    """By how much rounding can change a sum of differences."""
    return float(exact.exact_sum(state["magnitudes"])) * _ROUNDING_OF_SUMS


def _exact_p(sizes: Floats, wins: int, losses: int, total: float, largest: float, tolerance: float) -> float:
    """The share of all signs under which the sum is at least as far from 0, 2^(1 − n) or more; NaN if it is not known.

    `sizes` are as `smallest` keeps them; equal sums can differ by `tolerance` in rounding.
    """
    n = wins + losses
    if n == 0:
        return 1.0
    if n <= exact.MOST:
        # The opposite signs give the opposite sum: one sign is enough for the last, and largest, difference.
        sums = sizes[n - 1 : n]
        for size in sizes[: n - 1]:
            sums = np.concatenate([sums - size, sums + size])
        return float(np.count_nonzero(np.abs(sums) >= abs(total) - tolerance) / len(sums))
    if largest - sizes[0] <= tolerance / n:
        return sign_test_p(wins, losses)
    return math.nan


# Rounding changes a term of a sum by less than this share of its size.
_ROUNDING = 2.0**-40
_SIDES = ("value", "residual")
_PAIR = "pair"
#: Permutations are looked up in a list of all of them; 9 labels would have 362,880.
MOST_LABELS = 8

_PURPOSE = 3
_BLOCK = 64
_REPLICATES_AT_ONCE = 256
_BLOCKS_BEFORE_CARRY = 512


class AllPairsAccumulator:
    """The values of several columns under several models, for users that come batch by batch.

    Each user is a block: their values under the models are compared with one another, not with other users'. `replicates` and
    `seed` are for the randomised test (0 replicates: no test).
    """

    def __init__(self, n_columns: int, n_models: int, *, replicates: int = 0, seed: int = 0) -> None:
        self._shape = (n_columns, n_models)
        self._replicates, self._seed = replicates, seed
        self._moments = {side: MomentsAccumulator(n_columns * n_models) for side in _SIDES}
        self._pairs = list(itertools.combinations(range(n_models), 2))
        self._moments[_PAIR] = MomentsAccumulator(n_columns * len(self._pairs))
        self._n_excessive = np.zeros(n_columns, np.int64)
        self._dealt = resampling.zero_sums(n_columns, n_models, replicates)

    def add(self, users: Array, values: Floats) -> None:
        """Add users, each once: 64-bit hashes of their ids, and their values as columns × models × users.

        Users without a value under every model are left out.
        """
        n_columns, n_models = self._shape
        complete: Array = np.logical_not(np.isnan(values).any(axis=1))
        # One model after the other, so that rounding does not depend on the layout of the array.
        with np.errstate(invalid="ignore"):
            totals = values[:, 0]
            for model in range(1, n_models):
                totals = totals + values[:, model]
            residuals = values - totals[:, None] / n_models
        excessive: Array = complete & ~(np.abs(residuals) < resampling.LIMIT).all(axis=1)
        self._n_excessive += np.count_nonzero(excessive, axis=1)
        used: Array = complete & ~excessive
        for column, model in itertools.product(range(n_columns), range(n_models)):
            for side, numbers in zip(_SIDES, (values, residuals), strict=True):
                self._moments[side].add(column * n_models + model, numbers[column, model, used[column]])
        for column, (place, (first, second)) in itertools.product(range(n_columns), enumerate(self._pairs)):
            column_values = values[column][:, used[column]]
            self._moments[_PAIR].add(column * len(self._pairs) + place, column_values[second] - column_values[first])
        if self._replicates:
            residuals = np.where(used[:, None], residuals, 0.0)
            moved = residuals.any(axis=(0, 1))
            dealt = permuted_sums(residuals[:, :, moved], users[moved], self._replicates, self._seed)
            self._dealt = resampling.carried(self._dealt + dealt)

    def state(self) -> dict[str, Array]:
        """The state so far, as arrays whose first axis is the columns."""
        fields: dict[str, Array] = {
            "n_excessive": self._n_excessive.copy(), "dealt": np.moveaxis(self._dealt, 0, 1).copy(),
        }  # fmt: skip
        for side, moments in self._moments.items():
            fields |= {
                f"{side}_{name}": numbers.reshape(self._shape[0], -1, *numbers.shape[1:])
                for name, numbers in moments.state().items()
            }
        return fields


@dataclass(frozen=True)
class Pair:
    """Two of several models, with indices `first` < `second`; `difference` is the mean of the second − that of the first.

    Attributes:
        interval: of the difference; with the probability `level` the intervals of all pairs hold together.
        error: √(residual mean square / n); if each pair has its own spread, the spread of users' differences / √(2n). If users come in
            clusters: √(mean variance of the pairs' mean differences / 2), or that of the pair.
        q: |difference| / error.
        df: degrees of freedom of the error: (n − 1)(models − 1), or n − 1; with clusters those of these instead of n − 1.
        n_clusters: how many clusters there are; None if users are independent.
        effective_n: how many users would do as well, or clusters of equal size.
        design_effect: the variance of the difference with clusters ÷ without.
        p_randomised: (b + 1) / (B + 1). Each of B replicates permutes the models within each user; in b of them the range of
            means is at least as large as the difference (Carterette, TOIS 2012). NaN without replicates.
        far: how far few users lie from the mean difference, in errors of one model's mean.
    """

    first: int
    second: int
    n: int
    difference: float
    interval: Interval
    error: float
    q: float
    df: float
    n_models: int
    p_randomised: float
    bounds: tuple[float, float] = field(default=UNBOUNDED, repr=False)
    n_clusters: int | None = None
    effective_n: float = math.nan
    design_effect: float = math.nan
    far: Far = Far()

    @property
    def no_user_differs(self) -> bool:
        """Whether users are known to have equal values under both models; a pooled spread does not tell."""
        return self.n > 1 and self.error == self.difference == 0

    @property
    def n_independent(self) -> int:
        """How many users, or clusters if they come in these, are independent."""
        return self.n if self.n_clusters is None else self.n_clusters

    @cached_property
    def p_tukey(self) -> float:
        """P(Q ≥ q) of the studentized range, which includes the correction for the number of pairs.

        Without spread it is the p-value of the users' signs, 2^(1 − n), times the number of pairs.
        """
        if math.isnan(self.q):
            return math.nan
        if math.isinf(self.q):
            return min(1.0, math.comb(self.n_models, 2) * 2.0 ** (1 - self.n_independent))
        return studentized_range_sf(self.q, self.n_models, self.df)

    def p_of(self, test: str, margin: float = 0.0) -> float:
        """The p-value of a verdict: that there is a difference, or that it lies beyond ±margin or within, as the estimate does.

        The interval leaves out what it rejects. A randomised p may be larger.
        """
        if math.isnan(self.p_tukey):
            return math.nan
        if self.error:
            limits = intervals.nearest_limits(self.difference, margin)
            q = min(self.far.t_at(limit, self.difference, self.error) for limit in limits)
            p = studentized_range_sf(q, self.n_models, self.df)
        else:
            of_one = intervals.p_beyond_without_spread(self.difference, self.effective_n, margin, self.bounds)
            p = min(1.0, math.comb(self.n_models, 2) * of_one)
        return p if test != "randomised" or 0 < margin >= abs(self.difference) else max(p, self.p_randomised)


def all_pairs_of(
    state: dict[str, Any],
    level: float = 0.95,
    bounds: tuple[float, float] = UNBOUNDED,
    clusters: Sequence[Clusters] | None = None,
    *,
    pairwise: bool = False,
) -> tuple[Pair, ...]:
    """The pairs of one column's models from its merged state: one entry of each field of `AllPairsAccumulator.state`.

    The residual mean square is that of the two-way layout, value = user + model + residual (Tukey 1953; Carterette 2012). `pairwise` takes
    the spread of each pair's differences instead (Games and Howell 1976).
    `bounds` are the least and the largest possible value. They are ignored if a value breaks them. `clusters` say how precise the mean
    difference of each pair is; without them users are independent. For clusters of equal size the residual mean square of clusters and
    models is half the mean variance of the pairs.
    """
    n_models = len(state["value_n"])
    values, residuals, pair_moments = (moments_of_each(state, side) for side in (*_SIDES, _PAIR))
    n = values[0].n
    bounds = intervals.bounds_of_differences(bounds, *values)
    excessive = int(state["n_excessive"]) > 0
    # All pairs have the same users.
    largest_pair = None if clusters is None else max(clusters, key=lambda each: each.n)
    _, _, df, n_independent, effective_n, problem = intervals.precision_of(values[0], clusters=largest_pair)
    problem = "values too large to be compared" if excessive else problem
    df *= 1 if pairwise else n_models - 1
    square = math.fsum(side.std**2 for side in residuals) / (n_models - 1)
    size = max(1.0, *(abs(end) for side in values for end in (side.least, side.greatest)))
    dealt = resampling.floats_of(state["dealt"])
    # Sums count as equal if the rounding of values can explain their difference.
    ranges = np.ptp(dealt, axis=0) + n * size * _ROUNDING
    pairs = []
    combinations = list(itertools.combinations(range(n_models), 2))
    for place, (first, second) in enumerate(combinations):
        spread = pair_moments[place].std / math.sqrt(2) if pairwise else math.sqrt(square)
        # Below this, only rounding makes the differences vary.
        spread = 0.0 if spread <= size * _ROUNDING else spread
        error = spread / math.sqrt(n) if n_independent > 1 and not problem else math.nan
        error_of_users = error
        if clusters is not None and error > 0:
            pooled = [clusters[place]] if pairwise else clusters
            error = math.sqrt(math.fsum(each.standard_error**2 for each in pooled) / len(pooled) / 2)
        # Residuals have the same differences as values, without the rounding of large values.
        difference = math.nan if excessive else residuals[second].mean - residuals[first].mean
        q = intervals.ratio(abs(difference), error)
        # A model's error is that of a difference by the root of 2.
        far = Far(*(each / math.sqrt(2) for each in Far.of(pair_moments[place])))
        if error == 0:
            level_of_one = 1 - (1 - level) / len(combinations)
            alike = intervals.interval_without_spread(difference, effective_n, level_of_one, bounds)
            interval = alike._replace(level=level)
        else:
            critical = studentized_range_critical(level, n_models, df) if error > 0 else math.nan
            low, high = far.interval(difference, error, critical)
            reason, method = intervals.why_none(n, problem, low), "games_howell" if pairwise else "tukey"
            interval = (
                Interval.missing(level, method, reason) if reason else Interval(low, high, level, method).within(bounds)
            )
        total = abs(residuals[second].total - residuals[first].total)
        p_randomised = math.nan
        if n and len(ranges) and not excessive:
            p_randomised = (int(np.count_nonzero(ranges >= total)) + 1) / (len(ranges) + 1)
        pairs.append(Pair(
            first=first, second=second, n=n, difference=difference, interval=interval, error=error, q=q, df=df,
            n_models=n_models, p_randomised=p_randomised, bounds=bounds, n_clusters=None if largest_pair is None else largest_pair.n,
            effective_n=effective_n,
            design_effect=math.nan if clusters is None else intervals.ratio(error, error_of_users) ** 2, far=far,
        ))  # fmt: skip
    return tuple(pairs)


class RankSet(NamedTuple):
    """The rank of a model by its mean, 0 without one, and the ranks that the true one may have. 1 is the best."""

    rank: int
    lowest: int
    highest: int


def rank_sets(pairs: Sequence[Pair], means: Sequence[float], *, larger_is_better: bool = True) -> list[RankSet]:
    """The sets of ranks of several models, which hold all true ranks with the probability with which the intervals of pairs hold.

    A model's true rank is 1 + the number of models with a better true mean. If an interval leaves 0 out, one of its models is
    surely better. So at least the surely better models are before a model, and the surely worse ones are not.
    """
    signed = [mean if larger_is_better else -mean for mean in means]
    n_better, n_worse = [0] * len(means), [0] * len(means)
    for pair in pairs:
        low, high = pair.interval.low, pair.interval.high
        if low > 0 or high < 0:
            second_is_better = (low > 0) == larger_is_better
            better, worse = (pair.second, pair.first) if second_is_better else (pair.first, pair.second)
            n_worse[better] += 1
            n_better[worse] += 1
    ranks = [0 if math.isnan(mean) else 1 + sum(other > mean for other in signed) for mean in signed]
    return [
        RankSet(rank, 1 + before, len(means) - after)
        for rank, before, after in zip(ranks, n_better, n_worse, strict=True)
    ]


def moments_of_each(state: dict[str, Any], side: str) -> list[Moments]:
    """The moments of each model's or pair's values; an empty list if the state lacks them."""
    fields = exact.with_prefix(state, side)
    places = range(len(fields["n"]) if fields else 0)
    return [exact.moments_of({name: each[place] for name, each in fields.items()}) for place in places]


def permuted_sums(values: Floats, users: Array, replicates: int, seed: int) -> Array:
    """For each replicate, the sum of the values that each label gets by permutation within users.

    A user's permutation in a replicate is drawn from 32 bits of a hash of user, replicate and seed. It is the same for all
    columns. The probability of a permutation is off by at most 2⁻³². `values` are columns × labels × users, without NaN and
    below `LIMIT` in size. The sums are limbs × columns × labels × replicates.
    """
    n_columns, n_labels, n_users = values.shape
    # Each word serves two replicates.
    n_words = -(-replicates // 2)
    ones, fraction = resampling.limbs_of(values)
    parts = []
    for first in range(0, n_words, _REPLICATES_AT_ONCE // 2):
        words = np.arange(first, min(first + _REPLICATES_AT_ONCE // 2, n_words))
        sums = resampling.zero_sums(n_columns, n_labels - 1, 2 * len(words))
        for block, start in enumerate(range(0, n_users, _BLOCK)):
            block_users = slice(start, start + _BLOCK)
            limbs = (None if ones is None else ones[:, :, block_users], fraction[:, :, block_users])
            _add_block(limbs, resampling.uniform64(users[block_users, None], words, seed, _PURPOSE), sums)
            if block % _BLOCKS_BEFORE_CARRY == _BLOCKS_BEFORE_CARRY - 1:
                sums = resampling.carried(sums)
        parts.append(resampling.carried(sums))
    dealt = np.concatenate(parts, axis=3)[..., :replicates]
    # The last label gets what the others do not.
    total = resampling.exact_sums(values.reshape(n_columns, n_labels * n_users))
    rest = total[:, :, np.newaxis, np.newaxis] - dealt.sum(axis=2, keepdims=True)
    return resampling.carried(np.concatenate([dealt, rest], axis=2))


def _add_block(limbs: tuple[Floats | None, Floats], words: Array, sums: Array) -> None:
    n_columns, n_labels, n_users = limbs[1].shape
    # Widened before the product, because numpy 1 keeps the width of an array that it multiplies by a scalar.
    lanes = words.astype("<u8", copy=False).view("<u4").astype(np.uint64)
    drawn = ((lanes * np.uint64(math.factorial(n_labels))) >> np.uint64(32)).astype(np.intp)
    holds = np.empty((n_labels, *lanes.shape))
    # What each label gets in every permutation: labels × permutations.
    permutations = np.array(list(itertools.permutations(range(n_labels))), np.uint8).T.copy()
    for label, sources in enumerate(permutations[:-1]):
        source = sources[drawn]
        for model in range(n_labels):
            np.equal(source, model, out=holds[model], casting="unsafe")
        flat = holds.reshape(n_labels * n_users, -1)
        for limb, total in zip(limbs, sums, strict=True):
            if limb is not None:
                total[:, label] += (limb.reshape(n_columns, -1) @ flat).astype(np.int64)


BETTER = "better"

WORSE = "worse"

#: Instead of "better" and "worse", if nobody said which way is better.
HIGHER = "higher"

LOWER = "lower"

NO_RELEVANT_DIFFERENCE = "no relevant difference"

UNDECIDED = "undecided"

NO_USER_DIFFERS = "no user differs"


class Verdict(NamedTuple):
    """What may be said of a model beside its baseline, in a word and in a plain sentence with the figures behind it."""

    word: str
    sentence: str


class ShownFigures(NamedTuple):
    """What the sentence of a verdict shows beside its p-value.

    Attributes:
        joint: the interval that is corrected for other comparisons as p is, and decides; None: there are no others.
        n_comparisons: how many comparisons these are.
        means: of the model and of the baseline.
        lift: the difference as a share of the baseline's mean; the sentence has it if it has an interval.
    """

    joint: Interval | None = None
    n_comparisons: int = 1
    means: tuple[float, float] | None = None
    lift: tuple[float, float, float] | None = None

    def figures_in_words(self, interval: Interval, difference: float, margin: float) -> str:
        """The lift with its interval; or the difference with its own, if the lift has none or a margin is in the metric's units."""
        level = interval_in_words(interval.level)
        if self.n_comparisons > 1:
            level += f" for {self.n_comparisons:,} comparisons"
        lift = ""
        if self.lift is not None and self.means is not None and not math.isnan(self.lift[1]):
            lift = f"{percent(self.lift[0])}, {_apart(*reversed(self.means))}; "
            if not margin:
                return f"{lift}{level} {percent(self.lift[1])} to {percent(self.lift[2])}"
        low, high = (interval if self.joint is None else self.joint)[:2]
        return f"{lift}difference {signed(difference)}, {level} {signed(low)} to {signed(high)}"


def interval_in_words(level: float) -> str:
    """The name of intervals at a level: ``95% interval``."""
    return f"{100 * level:.6g}% interval"


def percent(share: float) -> str:
    """A share as a percentage with its sign: ``+28%``, ``-3.5%``, ``+0.42%``. What rounds to 0 has no sign: ``0.00%``."""
    size = abs(100 * share)
    text = f"{100 * share:+,.{0 if size >= 10 else 1 if size >= 1 else 2}f}%"
    return text[1:] if size < 0.005 else text


def signed(difference: float) -> str:
    """A difference with its sign and four digits, or as a whole number if it has more; 0 has no sign."""
    if not difference:
        return "0"
    return f"{difference:+,.0f}" if abs(difference) >= 1000 else f"{difference:+.4g}"


def p_in_words(p: float) -> str:
    """The p-value, with its name."""
    return "p unknown" if math.isnan(p) else "p < 0.0001" if p < 1e-4 else f"p = {p:.4f}"


def _apart(first: float, second: float) -> str:
    """Two means with so many digits that they differ, three at least."""
    digits = next((n for n in range(3, 7) if f"{first:.{n}g}" != f"{second:.{n}g}"), 3)
    return f"{_digits_of(first, digits)} → {_digits_of(second, digits)}"


def _digits_of(mean: float, digits: int) -> str:
    """A mean with so many digits; from 1,000 on with all before the point."""
    text = f"{mean:#.{digits}g}".rstrip(".")
    size = abs(float(text))
    return f"{mean:,.{max(0, digits - len(f'{size:.0f}'))}f}" if 1000 <= size < math.inf else text


def verdict_of(
    interval: Interval,
    p: float,
    *,
    margin: float = 0.0,
    difference: float,
    names: tuple[str, str] = ("the model", "the baseline"),
    metric: str = "the metric",
    higher_is_better: bool | None = True,
    shown: ShownFigures | None = None,
    no_user_differs: bool = False,
) -> Verdict:
    """The verdict on a difference, model − baseline, from its interval and p-value.

    Nothing is decided unless p, corrected for the other comparisons, is at most 1 − level. Then the interval that is shown decides. Beyond
    the margin on one side, the model is better or worse. It is higher or lower if `higher_is_better` is None, because it is not known.
    Within ±margin, there is no relevant difference. These are two one-sided tests (TOST; Schuirmann 1987), each with α = (1 − level)/2,
    stricter than the 90% interval of TOST at α = 5%. Without a margin (0) any
    difference is relevant. The sentence has the figures of `shown`. If nothing is decided because `no_user_differs`, the verdict says so.
    """
    model, baseline = names
    if not interval and not no_user_differs:
        return Verdict(UNDECIDED, f"Nothing can be said of {model} and {baseline} on {metric}: {interval.reason}.")
    figures = shown or ShownFigures()
    decisive = interval if figures.joint is None else figures.joint
    word = _word(decisive, margin, higher_is_better) if is_enough(p, interval.level) else UNDECIDED
    if no_user_differs and word == UNDECIDED:
        word = NO_USER_DIFFERS
    within = f"a margin of {margin:g}"
    up, down = (HIGHER, LOWER) if higher_is_better is None else (BETTER, WORSE)
    says = {
        NO_RELEVANT_DIFFERENCE: f"{model} and {baseline} differ by less than {within} on {metric}",
        UNDECIDED: f"whether {model} is {up} or {down} than {baseline} on {metric} is undecided",
        NO_USER_DIFFERS: f"no user differs between {model} and {baseline} on {metric}",
    }.get(word, f"{model} is {word} than {baseline} on {metric}" + (f" by more than {within}" if margin else ""))
    # A model's name is written as it is.
    begin = says[0].upper() if says.startswith(("the model", "whether", "no user")) else says[0]
    if not interval:
        return Verdict(word, f"{begin}{says[1:]} ({p_in_words(p)}).")
    direction = "smaller is better; " if higher_is_better is False else ""
    shown_words = figures.figures_in_words(interval, difference, margin)
    return Verdict(word, f"{begin}{says[1:]} ({direction}{shown_words}, {p_in_words(p)}).")


def is_enough(p: float, level: float) -> bool:
    """Whether a corrected p-value decides at a level."""
    # 1 − 0.95 is not 0.05 in floats.
    return p <= 1 - level + 1e-12


def _place(interval: Interval, margin: float) -> int | None:
    """Where an interval lies: above (1) or below (−1) 0 and the margin, or within the margin (0); None if it decides nothing."""
    if interval.low > margin:
        return 1
    if interval.high < -margin:
        return -1
    return 0 if -margin < interval.low and interval.high < margin else None


def as_decided(interval: Interval, p: float, level: float, margin: float) -> Interval:
    """The interval that decides no more than p does: up to the nearest difference that p leaves open, which is 0 or a margin."""
    place = _place(interval, margin)
    if is_enough(p, level) or place is None:
        return interval
    return interval.reaching(0.0, 0.0) if place else interval.reaching(-margin, margin)


def _word(interval: Interval, margin: float, higher_is_better: bool | None) -> str:
    up, down = {True: (BETTER, WORSE), False: (WORSE, BETTER), None: (HIGHER, LOWER)}[higher_is_better]
    return {None: UNDECIDED, 0: NO_RELEVANT_DIFFERENCE, 1: up, -1: down}[_place(interval, margin)]


_METHODS: dict[str, Callable[[Floats, int], Floats]] = {
    "holm": lambda ascending, n: np.maximum.accumulate(ascending * np.arange(n, 0, -1)),
    "benjamini_hochberg": lambda ascending, n: np.minimum.accumulate((ascending * n / np.arange(1, n + 1))[::-1])[::-1],
    "none": lambda ascending, _: ascending,
}


def adjusted(p_values: Sequence[float] | Floats, method: str = "holm") -> Floats:
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


class Joint(NamedTuple):
    """How one comparison of a family is judged.

    Attributes:
        p: the p-value, corrected for the others.
        level: of the interval that leaves out 0, or what a margin holds, exactly if the corrected p decides.
        n: how many comparisons these are, this one included; 1: it stands alone.
    """

    p: float
    level: float
    n: int = 1


def family_of(p_values: Sequence[float], correction: str, level: float) -> list[Joint]:
    """Correct the p-values of a family, and find the level of the intervals that decide what these decide, in the order given.

    If r of m comparisons are decided, or r is 1 because none is, each interval has the level 1 − (1 − level) · share. For ``holm`` the
    share is 1 / (m − r + 1), that of his last step. For ``benjamini_hochberg`` it is r / m (Benjamini and Yekutieli, JASA 2005), and for
    ``none`` 1. The first two shares are at most r / m. So of the intervals of decided comparisons an expected share of at most 1 − level
    misses the truth. Each interval holds at least as often as the level says, and all together do so if none is decided.

    Args:
        p_values: of each comparison; NaN if it could not be made, which does not count.
        correction: as in `adjusted`.
        level: of an interval that stands alone.
    """
    values = np.asarray(p_values, np.float64)
    corrected = adjusted(values, correction)
    n = int(np.count_nonzero(~np.isnan(values)))
    if correction == "none" or n < 2:
        return [Joint(p, level) for p in corrected.tolist()]
    n_decided = max(1, sum(is_enough(p, level) for p in corrected.tolist()))
    share = 1 / (n - n_decided + 1) if correction == "holm" else n_decided / n
    return [Joint(p, 1 - (1 - level) * share, n) for p in corrected.tolist()]


def headline_first(
    p_values: Sequence[float], level: float, is_headline: Sequence[bool], models: Sequence[str]
) -> list[Joint]:
    """Test the headline metric of each model alone, and the model's other metrics only if that is decided.

    This is a fixed sequence (Maurer, Hothorn and Lehmacher 1995). Its second step is Holm's correction of the other metrics. With J
    models each has a sequence of its own, whose p-values are multiplied by J. So the probability of any false difference is at most
    1 − level. Intervals are those of each step alone.

    Args:
        p_values: of each comparison; NaN if it could not be made.
        level: of an interval that stands alone.
        is_headline: which comparisons are of the headline metric.
        models: whose comparison it is.
    """
    values, first = np.asarray(p_values, np.float64), np.asarray(is_headline, bool)
    names = np.asarray(models, object)
    n_models = max(1, int(np.count_nonzero(~np.isnan(values[first]))))
    judged = [Joint(math.nan, level)] * len(values)
    for model in dict.fromkeys(models):
        own = names == model
        step = _family_of_several(values[own & first], level, n_models)
        # Without a headline nothing of the model is decided.
        gate = next((joint.p for joint in step if not math.isnan(joint.p)), 1.0)
        others = _family_of_several(values[own & ~first], level, n_models)
        for place, joint in zip(np.flatnonzero(own & first), step, strict=True):
            judged[place] = joint
        for place, joint in zip(np.flatnonzero(own & ~first), others, strict=True):
            # max() of NaN depends on the order.
            judged[place] = joint if math.isnan(joint.p) else joint._replace(p=max(joint.p, gate))
    return judged


def _family_of_several(values: Floats, level: float, n_families: int) -> list[Joint]:
    """One of several families that share the error."""
    family = family_of(values.tolist(), "holm", 1 - (1 - level) / n_families)
    return [Joint(float(np.minimum(1.0, p * n_families)), own_level, n * n_families) for p, own_level, n in family]
