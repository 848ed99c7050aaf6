"""Queries with two judges that come in clusters, such as the sessions of a person: the variances of their means.

Each cluster has sums over its queries: of those that people graded n, d, y, e and f, of the others their number, e and f; see
`judged_moments`. At a mean θ the cluster's graded queries move the mean of d(y − θ) by p_u, and that of e(f − θ) by p_v. Its other
queries move the mean of e(f − θ) by q_v. So the cluster moves the estimate by p_u + λ (q_v − p_v), and the variance is the sum over
clusters of (√k p_u + λ (√l q_v − √k p_v))² (Liang and Zeger 1986). The factors k and l are 1 / (1 − Σm² / (Σm)²), with the numbers m of
defined human values, and of defined values of the others. They are those of `cluster_sums`, and so are the degrees of freedom.

All products of two of a cluster's sums are added up exactly, and so are three cubes. Summaries of several days merge by the sums of 1,024
groups of clusters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np

from spark_rankeval.ranking.lists import starts_of_runs
from spark_rankeval.statistics.cluster_sums import (
    Clusters,
    ClusterSums,
    GroupedClusters,
    Scaled,
    group_sums,
    sums_by_cluster,
)
from spark_rankeval.statistics.sums import LIMBS, NEARLY_NOTHING, ExactSums, Sums, degrees_of_freedom, exact_sum

Array = np.ndarray[Any, Any]
Floats = np.ndarray[Any, np.dtype[np.float64]]

ZERO, ONE = Fraction(0), Fraction(1)
# The sums of a cluster, by the names of `JudgedMoments`: each column of `judged_columns` gives a weight and a value.
_COLUMNS = (("d", "y"), ("e", "f"), ("others_e", "others_f"), ("n", "others"))
_NAMES = tuple(name for pair in _COLUMNS for name in pair)
_PRODUCTS = tuple(combinations_with_replacement(_NAMES, 2))
# The numbers of defined values whose cubes are kept: of people, of the model for the others, and of the model for all.
_HUMAN, _OTHERS, _JUDGE = "d", "others_e", "judge"
_CUBED = (_HUMAN, _OTHERS, _JUDGE)
_TERMS = (*(f"{a}*{b}" for a, b in _PRODUCTS), *(f"{name}^3" for name in _CUBED))
#: Counts of clusters with a defined value, by its name.
N_CLUSTERS = "clusters of "
_COUNTED = tuple(N_CLUSTERS + name for name in _CUBED)
#: What says that the sums are too large for a float; that they are those of `drawn_clusters`; that a stratum has one cluster alone.
EXCESSIVE, DRAWN, ONE_CLUSTER = "excessive", "drawn", "stratum of one cluster"
# What says that there are clusters, and that nothing is known of them.
_CLUSTERED, _UNKNOWN = "clustered", "unknown"
_GROUPS = "groups_joined"
#: How many pairs of columns the sums of `drawn_clusters` have for each stratum.
DRAWN_COLUMNS = 6
# Clusters are added in batches of so many: numpy takes little longer for a batch than for a single cluster.
_BATCH = 1 << 13
#: How many bytes the sums of a figure take in memory, without those of groups of clusters.
BYTES_OF_A_FIGURE = len(_TERMS) * LIMBS * 8
# Why there is no interval, by what says so in the sums.
_PROBLEMS = {
    EXCESSIVE: "values are too large for the sums of clusters",
    _UNKNOWN: "a summary has no sums of groups of clusters, so nobody knows who is in several. Summarise the per-user tables together",
    ONE_CLUSTER: "a stratum has one cluster alone with human grades, which has no spread",
}


def judged_columns(values: Floats, pairs: Iterable[tuple[int, int]], grading: Floats) -> Floats:
    """The columns of users whose sums over clusters are needed, from users × values: three for each pair, and one for all.

    A pair has the places of a human value and the model's. `grading` is NaN of users whom the model did not grade. Of others it is 0 if
    the model alone graded them, and else another number.
    """
    is_other = grading == 0
    is_graded = ~(is_other | np.isnan(grading))
    columns = []
    for human, judge in pairs:
        columns += [
            np.where(is_graded, values[:, human], math.nan),
            np.where(is_graded, values[:, judge], math.nan),
            np.where(is_other, values[:, judge], math.nan),
        ]
    columns.append(np.where(is_graded | is_other, is_other, math.nan))
    return np.stack(columns, axis=1)


class JudgedClusterAccumulator:
    """Add up clusters, each of them once, from the sums over their users of `judged_columns`, with the sums of groups of clusters.

    All clusters of a group must come in one call of `add`, one after the other.
    """

    def __init__(self, n_figures: int) -> None:
        self._n_figures = n_figures
        self._sums = ExactSums(n_figures * len(_TERMS))
        self._counts = np.zeros((n_figures, len(_COUNTED)), np.int64)
        self._groups = [np.empty((n_figures, 0, 1 + len(_NAMES)))]
        self._waiting: list[Floats] = []
        self._n_waiting = 0

    def add(self, sums: ClusterSums) -> None:
        """Add clusters."""
        if not len(sums.clusters):
            return
        vectors = _vectors(sums.weights, sums.values, self._n_figures)
        self._waiting.append(vectors)
        self._n_waiting += len(sums.clusters)
        groups = group_sums(sums)
        grouped = _vectors(groups[:, :, 1].T, groups[:, :, 2].T, self._n_figures)
        numbers = np.broadcast_to(groups[0, :, :1], (self._n_figures, *groups[0, :, :1].shape))
        self._groups.append(np.concatenate([numbers, grouped], axis=2))
        if self._n_waiting >= _BATCH:
            self._settle()

    def _settle(self) -> None:
        waiting, self._waiting, self._n_waiting = self._waiting, [], 0
        if not waiting:
            return
        for figure, vectors in enumerate(np.concatenate(waiting, axis=1)):
            by_name = dict(zip(_NAMES, vectors.T, strict=True))
            by_name[_JUDGE] = by_name["e"] + by_name["others_e"]
            counted = [by_name[name] for name in _CUBED]
            self._counts[figure] += [np.count_nonzero(each) for each in counted]
            with np.errstate(over="ignore", invalid="ignore"):
                terms = [by_name[a] * by_name[b] for a, b in _PRODUCTS] + [each * each * each for each in counted]
            for place, term in enumerate(terms, figure * len(_TERMS)):
                # Infinity times 0 is NaN; it is counted with the terms that are too large.
                self._sums.add(place, np.where(np.isnan(term), math.inf, term))

    def state(self) -> dict[str, Array]:
        """The state so far: arrays with one entry per figure. States merge by addition, but the sums of groups are joined."""
        self._settle()
        sums = self._sums.state()
        return {
            _GROUPS: np.concatenate(self._groups, axis=1),
            "n": self._counts.copy(),
            "limbs": sums["limbs"].reshape(-1, len(_TERMS), LIMBS),
            "n_excessive": sums["n_excessive"].reshape(-1, len(_TERMS)).sum(axis=1),
        }


def _vectors(weights: Floats, values: Floats, n_figures: int) -> Floats:
    """The sums of clusters by their columns as figures × clusters × `_NAMES`; the last column is that of all figures."""
    vectors = []
    for figure in range(n_figures):
        places = [3 * figure, 3 * figure + 1, 3 * figure + 2, -1]
        columns = [column for place in places for column in (weights[:, place], values[:, place])]
        # The last one's weight is the number of all users.
        columns[-2] = columns[-2] - columns[-1]
        vectors.append(np.stack(columns, axis=1))
    return np.stack(vectors)


class _Parts(NamedTuple):
    """Sums over clusters at a mean θ: of the products of p_u, p_v and q_v, without factors."""

    human: Fraction
    covariance: Fraction
    judge: Fraction
    others: Fraction
    human_others: Fraction
    judge_others: Fraction


class ClusterVariance(NamedTuple):
    """The variance of an estimate: what graded queries add to it, the others, and that both are of the same clusters."""

    graded: float
    others: float
    shared: float


class ClusterGroups(NamedTuple):
    """The sums of groups of clusters, from which several days are merged.

    Attributes:
        columns: none if they are not known.
        strata: the strata whose columns these are, one after the other, of the sums of `drawn_clusters`; None for `JudgedClusters`.
    """

    columns: tuple[GroupedClusters, ...] = ()
    strata: tuple[str, ...] | None = None

    def text(self) -> str:
        """The sums as text, for `groups_of`; empty if they are not known."""
        columns = "|".join(column.text() for column in self.columns)
        return columns if self.strata is None else f"{' '.join(name.encode().hex() for name in self.strata)}:{columns}"


@dataclass(frozen=True)
class JudgedClusters:
    """The clusters behind a mean that two judges estimate.

    Attributes:
        sums: those of all products, and the numbers of clusters; a missing one is 0.
        grouped: the sums of groups of clusters, from which several days are merged.
    """

    sums: Sums = field(hash=False)
    grouped: ClusterGroups = field(default=ClusterGroups(), compare=False)

    @classmethod
    def of(cls, sums: Mapping[str, Fraction], grouped: ClusterGroups) -> JudgedClusters:
        """Those of sums."""
        return cls({_CLUSTERED: ONE} | {name: value for name, value in sums.items() if value}, grouped)

    @classmethod
    def unknown(cls) -> JudgedClusters:
        """Clusters that nothing is known of."""
        return cls({_UNKNOWN: ONE})

    @classmethod
    def from_state(cls, state: Mapping[str, Array], figure: int) -> JudgedClusters:
        """Those of a figure, by its place in a merged state."""
        rows = state[_GROUPS][figure]
        places = range(1, 1 + len(_NAMES), 2)
        grouped = [GroupedClusters.from_rows(rows[:, [0, place, place + 1]]) for place in places]
        finite = tuple(each for each in grouped if each is not None)
        counts = zip(_COUNTED, state["n"][figure].tolist(), strict=True)
        sums = {name: Fraction(count) for name, count in counts}
        sums |= zip(_TERMS, map(exact_sum, state["limbs"][figure]), strict=True)
        if int(state["n_excessive"][figure]):
            sums[EXCESSIVE] = ONE
        return cls.of(sums, ClusterGroups(finite if len(finite) == len(grouped) else ()))

    @classmethod
    def from_values(cls, human: Any, judge: Any, is_graded: Any, clusters: Any) -> JudgedClusters:
        """Those of queries, whose values come in arrays as in `JudgedMoments.from_values`; `clusters` are whole numbers."""
        order = np.argsort(clusters, kind="stable")
        values = np.stack([np.asarray(each, np.float64) for each in (human, judge)], axis=1)[order]
        labels = np.asarray(clusters, np.int64)[order]
        starts = np.flatnonzero(starts_of_runs(labels))
        columns = judged_columns(values, [(0, 1)], np.asarray(is_graded, np.float64)[order])
        accumulator = JudgedClusterAccumulator(1)
        accumulator.add(sums_by_cluster(labels, starts, columns))
        return cls.from_state(accumulator.state(), 0)

    @classmethod
    def merged_days(cls, days: Sequence[ClusterGroups]) -> JudgedClusters:
        """Those of several days, for which each group of clusters counts as one cluster."""
        grouped = tuple(GroupedClusters.added(parts) for parts in zip(*(day.columns for day in days), strict=True))
        scaled = columns_by_name(_COLUMNS, grouped)
        numbers = {name: part.numbers for name, part in scaled.items()}
        units = {name: part.unit for name, part in scaled.items()}
        sums = {}
        for a, b in _PRODUCTS:
            total = sum(first * second for first, second in zip(numbers[a], numbers[b], strict=True))
            sums[f"{a}*{b}"] = total * units[a] * units[b]
        by_judge = [
            e * units["e"] + others * units["others_e"]
            for e, others in zip(numbers["e"], numbers["others_e"], strict=True)
        ]
        whole = {name: [number * units[name] for number in numbers[name]] for name in (_HUMAN, _OTHERS)} | {
            _JUDGE: by_judge
        }
        for name, count in zip(_CUBED, _COUNTED, strict=True):
            sums[f"{name}^3"] = sum((number**3 for number in whole[name]), ZERO)
            sums[count] = Fraction(sum(map(bool, whole[name])))
        return cls.of(sums, ClusterGroups(grouped))


class _Form(NamedTuple):
    """A linear form of a cluster's sums: for each a whole number of units, `per` to 1. Fractions would be reduced at each step."""

    factors: Mapping[str, int]
    per: int

    @classmethod
    def of(cls, factors: Mapping[str, Fraction]) -> _Form:
        per = math.lcm(*(factor.denominator for factor in factors.values()))
        return cls({name: factor.numerator * (per // factor.denominator) for name, factor in factors.items()}, per)


def columns_by_name(names: Iterable[tuple[str, str]], grouped: Iterable[GroupedClusters]) -> dict[str, Scaled]:
    """The sums of groups of clusters by the names of their columns, two for each pair of columns."""
    pairs = zip(names, grouped, strict=True)
    return {name: part for both, each in pairs for name, part in zip(both, (each.weights, each.values), strict=True)}


class SumsOfClusters:
    """What sums of queries in clusters tell, however people chose the queries that they graded."""

    _sums: Sums
    human: Clusters
    others: Clusters

    @property
    def problem(self) -> str:
        """Why the mean under human grades has no interval; empty if it has one."""
        return next((words for name, words in _PROBLEMS.items() if name in self._sums), self.human.problem)

    @property
    def has_others(self) -> bool:
        """Whether the model's mean over the other queries has a variance that is known."""
        return self.others.df >= 1


class ClusteredSums(SumsOfClusters):
    """The clusters of some queries with the sums of the queries."""

    def __init__(self, clusters: JudgedClusters, totals: Sums) -> None:
        self._sums = clusters.sums
        # The sums of products in whole units.
        products = {pair: self._sums.get("*".join(pair), ZERO) for pair in _PRODUCTS}
        self._per = math.lcm(*(value.denominator for value in products.values()))
        whole = {pair: value.numerator * (self._per // value.denominator) for pair, value in products.items()}
        self._products = whole | {(second, first): value for (first, second), value in whole.items()}
        self._totals = {name: totals.get(name, ZERO) for name in _NAMES}
        self._totals[_JUDGE] = self._totals["e"] + self._totals["others_e"]
        self.human, self.others, self.judge = (self._clusters_of(name, self._totals[name]) for name in _CUBED)
        self._k, self._l = (self._factor(name, self._totals[name]) for name in (_HUMAN, _OTHERS))

    def _sum_of(self, first: _Form, second: _Form) -> Fraction:
        """The sum over clusters of the product of two forms; what is rounding of squares is 0."""
        products = self._products
        total = sum(a * b * products[x, y] for x, a in first.factors.items() for y, b in second.factors.items())
        if first is second:
            greatest = sum(a * a * products[x, x] for x, a in first.factors.items())
            total = total if total > greatest * NEARLY_NOTHING else 0
        return Fraction(total, first.per * second.per * self._per)

    def _squares(self, name: str) -> Fraction:
        form = _Form({"e": 1, "others_e": 1} if name == _JUDGE else {name: 1}, 1)
        return self._sum_of(form, form)

    def _clusters_of(self, name: str, total: Fraction) -> Clusters:
        n = int(self._sums.get(N_CLUSTERS + name, ZERO))
        if not n or not _PROBLEMS.keys().isdisjoint(self._sums):
            return Clusters(n)
        return Clusters(
            n,
            effective_n=float(total**2 / self._squares(name)),
            df=degrees_of_freedom(total, self._sums[f"{name}^3"]),
        )

    def _factor(self, name: str, total: Fraction) -> Fraction:
        """1 / (1 − Σm² / (Σm)²); 0 if one cluster has everything."""
        rest = total**2 - self._squares(name)
        return total**2 / rest if rest > 0 else ZERO

    def _parts(self, theta: Fraction) -> _Parts:
        u = self._form({"y": ONE, "d": -theta}, "n")
        v = self._form({"f": ONE, "e": -theta}, "n")
        q = self._form({"others_f": ONE, "others_e": -theta}, "others")
        pairs = ((u, u), (u, v), (v, v), (q, q), (u, q), (v, q))
        return _Parts(*(self._sum_of(first, second) for first, second in pairs))

    def _form(self, form: Mapping[str, Fraction], count: str) -> _Form:
        """By how much a cluster moves the mean of a form over so many queries."""
        n = self._totals[count]
        if not n:
            return _Form({}, 1)
        mean = sum((factor * self._totals[name] for name, factor in form.items()), ZERO) / n
        return _Form.of({name: factor / n for name, factor in form.items()} | {count: -mean / n})

    def best_weight(self, theta: Fraction) -> float:
        """The weight λ with the smallest variance; NaN if all have the same."""
        parts, both = self._parts(theta), math.sqrt(self._k * self._l)
        squares = float(self._k * parts.judge + self._l * parts.others) - 2 * both * float(parts.judge_others)
        covariance = float(self._k * parts.covariance) - both * float(parts.human_others)
        return covariance / squares if squares > 0 else math.nan

    def variance(self, theta: Fraction, weight: Fraction) -> ClusterVariance:
        """The variance of the numerator of the estimate with a weight λ."""
        parts = self._parts(theta)
        graded = self._k * (parts.human - 2 * weight * parts.covariance + weight**2 * parts.judge)
        shared = 2 * weight * (parts.human_others - weight * parts.judge_others)
        return ClusterVariance(
            max(float(graded), 0.0),
            float(self._l * weight**2 * parts.others),
            math.sqrt(self._k * self._l) * float(shared),
        )

    def variance_of_draw(self, theta: Fraction, share: float) -> tuple[float, float]:
        """The variance of the model's mean of e(f − θ) over the graded queries less that over all, and its degrees of freedom.

        The share is that of the other queries in all.
        """
        parts = self._parts(theta)
        graded, others = float(self._k * parts.judge), float(self._l * parts.others)
        shared = -2 * math.sqrt(self._k * self._l) * float(parts.judge_others)
        apart, dfs = graded + others, (self.human.df, self.others.df)
        df = apart**2 / (graded**2 / dfs[0] + others**2 / dfs[1]) if apart else math.nan
        return max(apart + shared, 0.0) * share**2, min(df, max(dfs)) if apart else math.nan

    def error_of_judge(self, theta: Fraction) -> float:
        """The standard error of the mean by the model alone; NaN if that is not known."""
        factor, total = self._factor(_JUDGE, self._totals[_JUDGE]), self._totals[_JUDGE]
        form = _Form.of({"f": ONE, "others_f": ONE, "e": -theta, "others_e": -theta})
        return math.sqrt(factor * self._sum_of(form, form) / total**2) if factor else math.nan


def groups_of(text: str) -> ClusterGroups:
    """The sums of groups of clusters of `ClusterGroups.text`; any other text is a ValueError."""
    names, is_drawn, columns = text.rpartition(":")
    strata = tuple(bytes.fromhex(name).decode() for name in names.split(" ")) if is_drawn else None
    grouped = tuple(map(GroupedClusters.from_text, columns.split("|")))
    if len(grouped) != (len(_COLUMNS) if strata is None else DRAWN_COLUMNS * len(strata)):
        msg = "these are not the sums of groups of clusters by two judges"
        raise ValueError(msg)
    return ClusterGroups(grouped, strata)
