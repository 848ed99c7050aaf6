"""Cluster-robust precision of means: users come in clusters, such as the sessions of a person, which are added up exactly.

Let W and S be the sums of w and wy over the users of a cluster that have a value. The mean is ΣS / ΣW, with or without clusters. Its
variance is g/(g−1) · Σ(S − mean·W)² / (ΣW)² (Liang and Zeger 1986). The effective number of clusters is g = (ΣW)² / ΣW² (Carter, Schnepel
and Steigerwald 2017). The factor g/(g−1) is right for independent users, as the correction of Bell and McCaffrey is (CR2, 2002). For
clusters of equal weight g is their number, and the variance is that of statsmodels' ``cov_type="cluster"``. The interval takes Student's t
with the `degrees_of_freedom` of the weights W.

The difference of two slices must know which clusters are in both. A summary cannot hold all clusters, so it holds the sums of 1,024
groups of clusters. The first bits of a cluster's hash name its group, which is the same in every slice. So groups are independent of one
another, and `clusters_of_groups` uses them as clusters in the same formulas. The price is at most 1,023 degrees of freedom. The sums of a
group are rounded once to whole numbers of a power of 2. From then on they are added exactly, so no order of slices changes a bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from operator import or_
from typing import Any, NamedTuple, Protocol

import numpy as np

from spark_rankeval.errors import warn
from spark_rankeval.ranking.user_lists import starts_of_runs
from spark_rankeval.statistics.sums import (
    LEAST_MEAN_WEIGHT,
    LIMBS,
    NEARLY_NOTHING,
    ExactSums,
    degrees_of_freedom,
    exact_sum,
)

Array = np.ndarray[Any, Any]
Floats = np.ndarray[Any, np.dtype[np.float64]]

#: With fewer effective clusters even t intervals may be too narrow, so a warning says so (Cameron and Miller 2015).
FEWEST_WITHOUT_WARNING = 30
#: With fewer effective clusters bootstraps, and t intervals of skewed values, hold too rarely: docs/evidence/clusters.md.
FEWEST_IF_SKEWED = 50

#: How many groups there are, a power of 2: more would make intervals hardly narrower, but each summary larger.
N_GROUPS = 1 << 10
#: A 64-bit hash that is shifted right by so many bits is the number of its group.
SHIFT = np.uint64(64 - N_GROUPS.bit_length() + 1)
# Sums of groups are rounded to so many bits of the largest.
_BITS = 31


class Scaled(NamedTuple):
    """One whole number per group, in units of 2 to the power of `exponent`."""

    exponent: int
    numbers: tuple[int, ...]

    @classmethod
    def rounded(cls, values: Array) -> Scaled:
        """Finite sums, rounded to 31 bits of the largest."""
        greatest = float(np.abs(values).max(initial=0.0))
        exponent = math.frexp(greatest)[1] - _BITS
        return cls(exponent, tuple(np.rint(np.ldexp(values, -exponent)).astype(np.int64).tolist()))._reduced()

    @classmethod
    def added(cls, parts: Sequence[Scaled]) -> Scaled:
        """The sums of all parts, group by group."""
        exponent = min(part.exponent for part in parts)
        shifted = [[number << (part.exponent - exponent) for number in part.numbers] for part in parts]
        return cls(exponent, tuple(map(sum, zip(*shifted, strict=True))))._reduced()

    def _reduced(self) -> Scaled:
        """The same sums in the largest possible unit: equal sums become equal objects."""
        bits = reduce(or_, self.numbers, 0)
        if not bits:
            return Scaled(0, self.numbers)
        n_zeros = (bits & -bits).bit_length() - 1
        return Scaled(self.exponent + n_zeros, tuple(number >> n_zeros for number in self.numbers))

    @property
    def unit(self) -> Fraction:
        """The unit of the numbers, a power of 2."""
        return Fraction(2) ** self.exponent


@dataclass(frozen=True)
class GroupedClusters:
    """The sums of weights and of weighted values over the clusters of each group."""

    weights: Scaled
    values: Scaled

    @classmethod
    def from_rows(cls, rows: Array) -> GroupedClusters | None:
        """From rows of a group's number and its sums of weights and of values; None if a sum is too large for a float."""
        if not np.isfinite(rows).all():
            return None
        groups = rows[np.argsort(rows[:, 0], kind="stable")]
        sums = np.zeros((N_GROUPS, 2))
        np.add.at(sums, groups[:, 0].astype(np.int64), groups[:, 1:])
        return cls(*map(Scaled.rounded, sums.T)) if np.isfinite(sums).all() else None

    @classmethod
    def added(cls, parts: Sequence[GroupedClusters]) -> GroupedClusters:
        """The sums over all parts, such as slices, group by group."""
        return cls(Scaled.added([part.weights for part in parts]), Scaled.added([part.values for part in parts]))

    @property
    def n(self) -> int:
        """How many groups have a weight."""
        return sum(weight != 0 for weight in self.weights.numbers)

    def influences(self) -> list[float | None] | None:
        """By how much each group moves the mean, Σ(y − mean) w / Σw; None for one without weight, and for all if there is none."""
        weights, values = self.weights, self.values
        total = sum(weights.numbers)
        if not total:
            return None
        mean, unit = Fraction(sum(values.numbers), total), float(values.unit / (weights.unit * total))
        return [
            None if not weight else float(value - mean * weight) * unit
            for weight, value in zip(weights.numbers, values.numbers, strict=True)
        ]

    def terms(self, exponents: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Fraction]:
        """The sum over groups of W^(j−k) S^k for each pair of exponents j and k."""
        weights, values = self.weights, self.values
        by_term = {}
        for j, k in exponents:
            total = sum(w ** (j - k) * s**k for w, s in zip(weights.numbers, values.numbers, strict=True) if w or s)
            by_term[j, k] = total * weights.unit ** (j - k) * values.unit**k
        return by_term


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
        self._sums = ExactSums(n_columns * len(self._terms))
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
        if not waiting:
            return
        batch = ClusterSums(*map(np.concatenate, zip(*waiting, strict=True)))
        for column, (weights, values) in enumerate(zip(batch.weights.T, batch.values.T, strict=True)):
            self._n_clusters[column] += np.count_nonzero(weights)
            first = column * len(self._terms)
            for index, (j, k) in enumerate(self._terms):
                with np.errstate(over="ignore", invalid="ignore"):
                    term = math.prod([values] * k + [weights] * (j - k), start=np.float64(1.0))
                # Infinity times 0 is NaN; it is counted with the terms that are too large.
                self._sums.add(first + index, np.where(np.isnan(term), math.inf, term))

    def state(self) -> dict[str, Array]:
        """The state so far: arrays with one entry per column. States merge by addition, but the sums of groups are joined."""
        self._add_waiting()
        sums, n_terms = self._sums.state(), len(self._terms)
        groups = {} if self._groups is None else {_GROUPS: np.concatenate(self._groups, axis=1)}
        return {
            **groups,
            "n": self._n_clusters.copy(),
            "n_without": np.full_like(self._n_clusters, self._n_without),
            "limbs": sums["limbs"].reshape(-1, n_terms, LIMBS),
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
        grouped: the sums of groups of clusters, from which slices are added up; None if they were not kept.
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


class _RowOfClusters(Protocol):
    """A row of a result, if users come in clusters; it may have a `slice`."""

    @property
    def cluster(self) -> str: ...
    @property
    def effective_n_clusters(self) -> float: ...
    @property
    def interval_low(self) -> float: ...


def warn_of_few_clusters(rows: Iterable[_RowOfClusters]) -> None:
    """Warn once if clusters are so few, or so unequal, that intervals may be too narrow."""
    few = [
        row for row in rows if row.effective_n_clusters < FEWEST_WITHOUT_WARNING and not math.isnan(row.interval_low)
    ]
    if not few:
        return
    fewest = min(few, key=lambda row: row.effective_n_clusters)
    slices = {users for row in few if (users := getattr(row, "slice", "all")) != "all"}
    where = f" in {len(slices):,} slice{'s' * (len(slices) > 1)}" if slices else ""
    warn(
        f"clusters by {fewest.cluster} are few or unequal{where}: at worst they are as good as {fewest.effective_n_clusters:,.1f} equal "
        f"ones. With fewer than {FEWEST_WITHOUT_WARNING} the intervals may be too narrow, and p-values too small"
    )


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
    sums = {term: exact_sum(parts) for term, parts in zip(terms, limbs, strict=True)}
    return replace(_clusters_from_sums(n, n_without, sums), grouped=grouped)


def clusters_of_groups(grouped: GroupedClusters) -> Clusters:
    """The precision of a mean, for which each group of clusters counts as one cluster."""
    if not grouped.n:
        return Clusters(0)
    return replace(_clusters_from_sums(grouped.n, 0, grouped.terms(_TERMS)), grouped=grouped)


def _clusters_from_sums(n: int, n_without: int, sums: dict[tuple[int, int], Fraction]) -> Clusters:
    """The precision of the mean of n clusters, from the sums over clusters of W^(j−k) S^k by (j, k)."""
    weight = sums[1, 0]
    # Outside this range the cubes of weights leave the grid of exact sums.
    if not LEAST_MEAN_WEIGHT <= weight / n <= 1 / LEAST_MEAN_WEIGHT:
        return Clusters(n, n_without)
    mean = sums[1, 1] / weight
    squares = sums[2, 2] - 2 * mean * sums[2, 1] + mean**2 * sums[2, 0]
    # The terms were rounded before they were added: a spread below this share of the squares is noise.
    if squares <= sums[2, 2] * NEARLY_NOTHING:
        squares = Fraction(0)
    acceleration = math.nan
    if (3, 3) in sums:
        cubes = sums[3, 3] - 3 * mean * sums[3, 2] + 3 * mean**2 * sums[3, 1] - mean**3 * sums[3, 0]
        acceleration = math.copysign(math.sqrt(cubes**2 / squares**3), cubes) / 6 if squares else 0.0
    # Ratios without a unit are formed exactly before they become floats, which cannot hold tiny or huge powers.
    others = weight**2 - sums[2, 0]
    error = math.sqrt(squares / others) if n > 1 and others > 0 else math.nan
    return Clusters(
        n, n_without, float(weight**2 / sums[2, 0]), degrees_of_freedom(weight, sums[3, 0]), error, acceleration
    )
