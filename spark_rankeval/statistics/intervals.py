"""Intervals of means and of relative lifts within a metric's bounds, with users in clusters; and p-values beyond a margin."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from spark_rankeval.checks import is_number
from spark_rankeval.errors import OptionError
from spark_rankeval.ranking.user_lists import starts_of_runs
from spark_rankeval.statistics import distributions, exact
from spark_rankeval.statistics.exact import Mean, Moments
from spark_rankeval.statistics.resampling import check_replicates, check_seed

Array = np.ndarray[Any, Any]
Floats = np.ndarray[Any, np.dtype[np.float64]]

#: With fewer effective clusters bootstraps, and t intervals of skewed values, hold too rarely: docs/evidence/simulations.md.
FEWEST_IF_SKEWED = 50

#: How many groups there are, a power of 2: more would make intervals hardly narrower, but each summary larger.
N_GROUPS = 1 << 10
#: A 64-bit hash that is shifted right by so many bits is the number of its group.
SHIFT = np.uint64(64 - N_GROUPS.bit_length() + 1)
# Sums of groups are rounded to so many bits of the largest.
_BITS = 31


@dataclass(frozen=True, eq=False)
class GroupedClusters:
    """The sums of weights, and of weighted values, over the clusters of each group.

    Attributes:
        numbers: whole numbers of any size, 2 × groups.
        exponents: the powers of 2 in whose units the two rows of numbers are.
    """

    numbers: Array
    exponents: tuple[int, int]

    @classmethod
    def from_rows(cls, rows: Array) -> GroupedClusters | None:
        """From rows of a group's number and its sums of weights and of values; None if a sum is too large for a float.

        Sums are rounded to 31 bits of the largest.
        """
        if not np.isfinite(rows).all():
            return None
        groups = rows[np.argsort(rows[:, 0], kind="stable")]
        sums = np.zeros((N_GROUPS, 2))
        np.add.at(sums, groups[:, 0].astype(np.int64), groups[:, 1:])
        if not np.isfinite(sums).all():
            return None
        exponents = np.frexp(np.abs(sums).max(axis=0))[1] - _BITS
        numbers = np.rint(np.ldexp(sums, -exponents)).astype(np.int64).T.astype(object)
        return cls(numbers, (int(exponents[0]), int(exponents[1])))

    @classmethod
    def added(cls, parts: Sequence[GroupedClusters]) -> GroupedClusters:
        """The sums over all parts, such as slices, group by group."""
        least = [min(exponents) for exponents in zip(*(part.exponents for part in parts), strict=True)]
        total = np.zeros((2, N_GROUPS), object)
        for part in parts:
            shifts = [exponent - lowest for exponent, lowest in zip(part.exponents, least, strict=True)]
            total += part.numbers << np.array(shifts, object)[:, np.newaxis]
        return cls(total, (least[0], least[1]))

    @property
    def n(self) -> int:
        """How many groups have a weight."""
        return int(np.count_nonzero(self.numbers[0]))

    @property
    def _units(self) -> tuple[Fraction, Fraction]:
        return Fraction(2) ** self.exponents[0], Fraction(2) ** self.exponents[1]

    def influences(self) -> list[float | None] | None:
        """By how much each group moves the mean, Σ(y − mean) w / Σw; None for one without weight, and for all if there is none."""
        (weights, values), (unit_of_weights, unit_of_values) = self.numbers.tolist(), self._units
        total = sum(weights)
        if not total:
            return None
        mean, unit = Fraction(sum(values), total), float(unit_of_values / (unit_of_weights * total))
        return [
            None if not weight else float(value - mean * weight) * unit
            for weight, value in zip(weights, values, strict=True)
        ]

    def terms(self, exponents: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Fraction]:
        """The sum over groups of W^(j−k) S^k for each pair of exponents j and k."""
        (weights, values), (unit_of_weights, unit_of_values) = self.numbers, self._units
        return {
            (j, k): int((weights ** (j - k) * values**k).sum()) * unit_of_weights ** (j - k) * unit_of_values**k
            for j, k in exponents
        }


# The sums over clusters of W^(j−k) S^k that are kept, as (j, k). Those of `_CUBES` serve only the acceleration.
_TERMS = ((1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (3, 0))
_CUBES = ((3, 1), (3, 2), (3, 3))
# Clusters are added in batches of so many: numpy takes little longer for a batch than for a single cluster.
_BATCH = 1 << 13
# The field of a state that holds the sums of groups of clusters.
_GROUPS = "groups_joined"


class ClusterSums(NamedTuple):
    """Sums over the users of each cluster, clusters × columns."""

    clusters: Array  # 64-bit hashes of the clusters
    weights: Floats  # of the weights of users with a value
    values: Floats  # of their values times weights


def sums_by_cluster(clusters: Array, starts: Array, values: Floats, weights: Floats | None = None) -> ClusterSums:
    """The sums of clusters whose users stand one after the other: `starts` are the places of their first users.

    `clusters` are the hashes of the users' clusters. `values` are users × columns, NaN if undefined, and so are `weights`, without which
    each user has the weight 1. Values are added in the order of the users.
    """
    defined = ~np.isnan(values)
    weights = defined.astype(np.float64) if weights is None else np.where(defined, weights, 0.0)
    products = np.where(defined, values, 0.0) * weights
    return ClusterSums(
        clusters[starts], np.add.reduceat(weights, starts, axis=0), np.add.reduceat(products, starts, axis=0)
    )


class ClusterAccumulator:
    """Add up clusters, in any order, to the sums from which the precision of each column's mean is computed.

    With `cubes` the sums of the acceleration of the BCa bootstrap are kept, too. With `grouped` the sums of groups of clusters are kept.
    All clusters of a group must then come in one call of `add`, one after the other.
    """

    def __init__(self, n_columns: int, *, cubes: bool = False, grouped: bool = False) -> None:
        self._terms = (*_TERMS, *_CUBES) if cubes else _TERMS
        self._sums = exact.ExactSums(n_columns * len(self._terms))
        self._n_clusters = np.zeros(n_columns, np.int64)
        self._n_without = 0
        self._waiting: list[ClusterSums] = []
        self._n_waiting = 0
        self._groups: list[Array] | None = [np.empty((n_columns, 0, 3))] if grouped else None

    def add(self, sums: ClusterSums, n_without: int = 0) -> None:
        """Add clusters, each of them once, and the number of users among them whose cluster is not known."""
        if self._groups is not None and len(sums.clusters):
            self._groups.append(group_sums(sums))
        self._n_without += n_without
        self._waiting.append(sums)
        self._n_waiting += len(sums.weights)
        if self._n_waiting >= _BATCH:
            self._add_waiting()

    def _add_waiting(self) -> None:
        waiting, self._waiting, self._n_waiting = self._waiting, [], 0
        if waiting:
            self.add_batch(ClusterSums(*map(np.concatenate, zip(*waiting, strict=True))))

    def add_batch(self, batch: ClusterSums) -> None:
        """Add some clusters at once."""
        for column, (weights, values) in enumerate(zip(batch.weights.T, batch.values.T, strict=True)):
            self._n_clusters[column] += np.count_nonzero(weights)
            first = column * len(self._terms)
            for index, (j, k) in enumerate(self._terms):
                factors = [values] * k + [weights] * (j - k)
                # Infinity times 0 is NaN; it is counted with the terms that are too large.
                with np.errstate(over="ignore", invalid="ignore"):
                    term = math.prod(factors[1:], start=factors[0])
                self._sums.add(first + index, term)

    def state(self) -> dict[str, Array]:
        """The state so far: arrays with one entry per column. States merge by addition, but the sums of groups are joined."""
        self._add_waiting()
        sums, n_terms = self._sums.state(), len(self._terms)
        groups = {} if self._groups is None else {_GROUPS: np.concatenate(self._groups, axis=1)}
        return {
            **groups,
            "n": self._n_clusters.copy(),
            "n_without": np.full_like(self._n_clusters, self._n_without),
            "limbs": sums["limbs"].reshape(-1, n_terms, exact.LIMBS),
            "n_excessive": sums["n_excessive"].reshape(-1, n_terms).sum(axis=1),
        }


def group_sums(sums: ClusterSums) -> Array:
    """The sums of clusters whose groups stand together; columns × groups × (the group's number, weights, values)."""
    groups = sums.clusters.view(np.uint64) >> SHIFT
    starts = np.flatnonzero(starts_of_runs(groups))
    with np.errstate(over="ignore", invalid="ignore"):
        group_sums = [np.add.reduceat(each, starts, axis=0).T for each in (sums.weights, sums.values)]
    numbers = np.broadcast_to(groups[starts].astype(np.float64), group_sums[0].shape)
    return np.stack([numbers, *group_sums], axis=2)


@dataclass(frozen=True)
class Clusters:
    """The clusters behind one column's mean, and its precision.

    Attributes:
        n: clusters with a user who has a value and a weight above 0.
        n_without: users without a cluster; each is a cluster alone.
        effective_n: how many clusters of equal weight would do as well, (ΣW)² / ΣW²; NaN if sums are too large.
        df: degrees of freedom of the standard error; G − 1 for clusters of equal weight.
        standard_error: of the mean; NaN for fewer than two clusters, or if sums are too large.
        acceleration: how the standard error changes with the mean; NaN if the cubes were not kept.
        grouped: the sums of groups of clusters, from which slices are compared; None if they were not kept.
    """

    n: int
    n_without: int = 0
    effective_n: float = math.nan
    df: float = math.nan
    standard_error: float = math.nan
    acceleration: float = math.nan
    grouped: GroupedClusters | None = None

    @property
    def problem(self) -> str:
        """Why the clusters give no interval; empty if they do."""
        if self.n == 1:
            return "one cluster has no spread"
        return f"{self.words}, too few for an interval" if self.df < 1 else ""

    @property
    def are_few_if_skewed(self) -> bool:
        """Whether bootstraps, and t intervals of skewed values, may be too narrow. Other t intervals may still hold."""
        return self.effective_n < FEWEST_IF_SKEWED

    @property
    def words(self) -> str:
        """How many there are, and how many of equal weight would do as well."""
        return f"the {self.n:,} clusters are as good as {self.effective_n:,.1f} equal ones"

    def design_effect(self, independent_error: float) -> float:
        """The variance of the mean ÷ what it would be if the users were independent.

        `independent_error` is the standard error of the latter. The effect is NaN if that is 0 or NaN.
        """
        return (self.standard_error / independent_error) ** 2 if independent_error > 0 else math.nan


def clusters_of(state: dict[str, Array]) -> list[Clusters]:
    """The clusters of each column, from the merged state of all clusters."""
    return [
        clusters_of_column({name: by_column[column] for name, by_column in state.items()})
        for column in range(len(state["n"]))
    ]


def clusters_of_column(state: dict[str, Any]) -> Clusters:
    """The clusters of one column, from its entry in each array of the state."""
    n, n_without, limbs = int(state["n"]), int(state["n_without"]), state["limbs"]
    grouped = GroupedClusters.from_rows(state[_GROUPS]) if _GROUPS in state else None
    if n == 0 or int(state["n_excessive"]):
        return Clusters(n, n_without, grouped=grouped)
    terms = (*_TERMS, *_CUBES)[: len(limbs)]
    sums = {term: exact.exact_sum(parts) for term, parts in zip(terms, limbs, strict=True)}
    return replace(_clusters_from_sums(n, n_without, sums), grouped=grouped)


def clusters_of_groups(grouped: GroupedClusters) -> Clusters:
    """The precision of a mean for which each group of clusters counts as one cluster."""
    if not grouped.n:
        return Clusters(0)
    return replace(_clusters_from_sums(grouped.n, 0, grouped.terms(_TERMS)), grouped=grouped)


def _clusters_from_sums(n: int, n_without: int, sums: dict[tuple[int, int], Fraction]) -> Clusters:
    """The precision of the mean of n clusters, from the sums over clusters of W^(j−k) S^k by (j, k)."""
    weight = sums[1, 0]
    # Outside this range the cubes of weights leave the grid of exact sums.
    if not exact.LEAST_MEAN_WEIGHT <= weight / n <= 1 / exact.LEAST_MEAN_WEIGHT:
        return Clusters(n, n_without)
    _, squares, acceleration = exact.influences_of(sums)
    others = weight**2 - sums[2, 0]
    error = math.sqrt(squares / others) if n > 1 and others > 0 else math.nan
    return Clusters(
        n, n_without, float(weight**2 / sums[2, 0]), exact.degrees_of_freedom(weight, sums[3, 0]), error, acceleration
    )


#: The bounds of a metric whose values have no limits.
UNBOUNDED: tuple[float, float] = (-math.inf, math.inf)
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


class Precision(NamedTuple):
    """A mean, and how precise it is over independent units: users, users with weights, or clusters of users.

    Attributes:
        mean: the mean of users, weighted if they have weights.
        standard_error: of the mean.
        df: the degrees of freedom of the standard error: units less 1, fewer if their weights differ.
        n: how many units there are.
        effective_n: how many units of equal weights would do as well (Kish 1965).
        problem: why there is no interval; empty if units do not prevent one.
    """

    mean: float
    standard_error: float
    df: float
    n: int
    effective_n: float
    problem: str = ""


def precision_of(moments: Moments, weighted: Mean | None = None, clusters: Clusters | None = None) -> Precision:
    """The precision of the mean of some users; of the weighted mean if there is one, and of clusters if users come in these."""
    mean = moments.mean if weighted is None else weighted.mean
    units = weighted if clusters is None else clusters
    if units is not None:
        return Precision(mean, units.standard_error, units.df, units.n, units.effective_n, units.problem)
    error = moments.std / math.sqrt(moments.n) if moments.n else math.nan
    return Precision(mean, error, moments.n - 1.0, moments.n, float(moments.n))


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


def check_level(level: float) -> None:
    """Refuse a level that is not between 0 and 1."""
    if not is_number(level) or not 0 < level < 1:
        raise OptionError(f"the level of an interval must be between 0 and 1, such as 0.95; got {level!r}")


def why_none(n: int, problem: str, *figures: float) -> str:
    """Why n users have no interval: they have a problem, are fewer than two, or a figure is not known; empty if they have one."""
    if problem or n < 2:
        return problem or ("one user has no spread" if n else "no user")
    return "" if all(map(math.isfinite, figures)) else UNKNOWN_MEAN


#: No few users lie far from the mean.
NOBODY_FAR = Far()


def t_interval(
    mean: float, standard_error: float, n: int, level: float = 0.95, df: float | None = None, problem: str = "",
    far: Far = NOBODY_FAR,
) -> Interval:  # fmt: skip
    """The interval mean ± t_{(1+level)/2, df} · standard error; df is n − 1 by default. With a `problem` there is no interval.

    It is longer on the side of few users who are `far`.
    """
    if reason := why_none(n, problem, mean, standard_error):
        return Interval.missing(level, T, reason)
    ends = far.interval(mean, standard_error, distributions.t_critical(level, n - 1 if df is None else df))
    return Interval(*ends, level, SCORE if any(far) else T)


def mean_interval(
    moments: Moments, level: float = 0.95, weighted: Mean | None = None, clusters: Clusters | None = None
) -> Interval:
    """The t interval of a mean; of the weighted mean if there is one."""
    if weighted is not None and moments.n and not math.isfinite(weighted.mean):
        reason = "values or weights too large or too small to be added: multiply the weights by a constant"
        return Interval.missing(level, T, reason)
    mean, error, df, n, _, problem = precision_of(moments, weighted, clusters)
    return t_interval(mean, error, n, level, df, problem)


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
    mean, error, _, _, effective_n, _ = precision_of(moments, weighted, clusters)
    if interval.method == T and interval.low == interval.high:
        without_spread = interval_without_spread(interval.low, effective_n, interval.level, (low, high))
        breaks_bounds = not without_spread and (low, high) != bounds
        return without_spread._replace(reason=_OUT_OF_BOUNDS) if breaks_bounds else without_spread
    is_share = interval.method == T and (low, high) == (0, 1)
    is_binary = is_share and are_binary(moments, weighted)
    if is_binary and math.isclose(effective_n, moments.n):
        ends = distributions.clopper_pearson_interval(moments.n - moments.n_zero, moments.n, interval.level)
        return Interval(*ends, interval.level, CLOPPER_PEARSON)
    if is_binary or (is_share and clusters is not None and clusters.are_few_if_skewed):
        n = _equivalent_n(mean, moments, weighted, clusters, interval.level)
        interval = Interval(
            *distributions.clopper_pearson_interval(mean * n, n, interval.level), interval.level, CLOPPER_PEARSON
        )
    if interval.method not in (JACKKNIFE, PREDICTION_POWERED):
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
    units = precision_of(moments, weighted, clusters)
    error, df = max(precision_of(moments, weighted).standard_error, units.standard_error), units.df
    fewer_df = distributions.t_critical(level, moments.n - 1) / distributions.t_critical(level, df)
    return mean * (1 - mean) * (fewer_df / error) ** 2


def are_binary(moments: Moments, weighted: Mean | None) -> bool:
    """Whether all values are 0 or 1, and both occur. Among values from 0 to 1 only these equal their squares."""
    if (moments.least, moments.greatest) != (0, 1):
        return False
    sums, weight = (moments.sums, 0) if weighted is None else (weighted.sums, 1)
    if not sums:
        return False
    return exact.are_equal(sums, exact.name_of_term(weight, 1), exact.name_of_term(weight, 2))


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
    by_t = min(1.0, 2 * distributions.t_sf(t, df))
    return max(by_t, without_spread) if may_agree_by_chance(value, error, n, margin, bounds) else by_t


def _p_of_limit(value: float, n: float, limit: float, bounds: tuple[float, float]) -> float:
    """The largest probability that n users all have this value although the true mean is at the limit, or on its other side."""
    far_bound = bounds[0] if value > limit else bounds[1]
    if value == limit or not math.isfinite(far_bound):
        return 1.0
    # A mean at the limit needs users with other values. Fewest are needed if their values are all at the far bound.
    equal_share = (far_bound - limit) / (far_bound - value) if far_bound != value else 0.0
    return float(max(equal_share, 0.0) ** n)


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
        check_level(self.level)


@dataclass(frozen=True)
class _Bootstrap:
    level: float = 0.95
    replicates: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        check_level(self.level)
        check_replicates(self.replicates)
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
    check_level(level)
    if not is_number(power) or not 1 - level < power < 1:
        raise OptionError(f"power must be between 1 − level = {1 - level:g} and 1; got {power!r}")
    df = n - 1 if df is None else df
    if not df >= 1 or math.isnan(std):
        return math.nan
    critical = distributions.t_critical(level, df)
    low, high = 0.0, critical + max(distributions.normal_quantile(power), 0.0) + 1.0
    while _power(high, df, critical) < power:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _power(middle, df, critical) < power else (low, middle)
    return high * std / math.sqrt(n)


def _power(noncentrality: float, df: float, critical: float) -> float:
    """The power of a two-sided t test that rejects beyond the critical value."""
    return sum(distributions.noncentral_t_sf(critical, df, side) for side in (noncentrality, -noncentrality))


_NEAR_ZERO = "the baseline's mean is not clearly different from 0"
_SAME_VALUE = "all users have the same value under the model"
_SAME_RATIO = "all users have the same ratio of both values"
# Below this share of the variances that it is the rest of, a variance is rounding.


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
    critical = distributions.t_critical(level, df)
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
