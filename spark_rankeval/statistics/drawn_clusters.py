"""Queries with two judges that come in clusters, if people graded them with unequal probabilities, or from strata.

A query moves the estimate in three ways: people graded it, with the weight w; the model graded it; and its stratum has one more query.
In a stratum let W be the sum of w over the graded queries, and M the number of all queries. Let S be the stratum's share M / ΣM, and
F = M / N, where N queries have only the model's grades. At a mean θ let u = d(y − θ) and v = e(f − θ). Bars are means, with w
over graded queries.

- a graded query moves the human mean by p_u = S w (u − ū) / W, and the model's by p_v = S F (w (v − v̄) / W − (v − c) / M)
- another query moves the model's mean by q_v = S F (v − c) / M, in which c is the mean over all queries
- any query moves the shares of strata by r = (ū + λ F (v̄_all − v̄)) / ΣM, less the mean of that over all queries

The cluster moves the estimate by the sum of p_u + λ (q_v − p_v) + r over its queries, in whichever strata they are. The variance is the sum
of squares over clusters (Liang and Zeger 1986; Särndal, Swensson and Wretman 1992, section 5.7 for the form of p_u). For equal weights
in one stratum that is the variance of `judged_clusters`, and so are the factors k and l, of each stratum here.

The size of a stratum is known only at the end. So instead of clusters these are sums of 1,024 groups of clusters, by stratum, as in
`cluster_sums`. They merge exactly over slices' parts and days.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from spark_rankeval.ranking.lists import starts_of_runs
from spark_rankeval.statistics.cluster_sums import SHIFT, Clusters, GroupedClusters
from spark_rankeval.statistics.judged_clusters import (
    DRAWN,
    EXCESSIVE,
    N_CLUSTERS,
    ONE_CLUSTER,
    ClusterGroups,
    ClusterVariance,
    JudgedClusters,
    SumsOfClusters,
    columns_by_name,
)
from spark_rankeval.statistics.sums import NEARLY_NOTHING, degrees_of_freedom

Array = np.ndarray[Any, Any]
Floats = np.ndarray[Any, np.dtype[np.float64]]

# The sums of a group of clusters in a stratum: those of graded queries times w, those of the model, and numbers of queries.
_PAIRS = (("wd", "wy"), ("we", "wf"), ("e", "f"), ("others_e", "others_f"), ("w", "n"), ("others", "others"))
_COLUMNS = tuple(dict.fromkeys(name for pair in _PAIRS for name in pair))
# By what a group moves the estimate: the factors of 1 and of −θ in p_u, p_v, q_v and r. What λ multiplies in r is in the names of others.
# Then come the mean by the model alone, and the difference of its mean of graded queries to that of all.
_HUMAN, _GRADED, _OTHERS, _SHARES = ("y", "d"), ("f", "e"), ("others_f", "others_e"), ("share_y", "share_d")
_JUDGE, _DRAW = ("all_f", "all_e"), ("draw_f", "draw_e")
_MOVED = (*_HUMAN, *_GRADED, *_OTHERS, *_SHARES)
_PRODUCTS = tuple(pair for names in (_MOVED, _JUDGE, _DRAW) for pair in combinations_with_replacement(names, 2))
# The parts of an estimate that have numbers of clusters, and degrees of freedom.
_KINDS = ("d", "others_e", "judge")
#: The field of a state that has the sums of groups by stratum.
STRATA = "strata_joined"
# Larger values have no squares.
_LARGEST = 2.0**500
# Sums of groups are rounded to so small a share of the largest; less is nothing.
_ROUNDED = 2.0**-28
# Numbers of strata are so many bits of their hashes, which floats hold.
_STRATUM_SHIFT = 11


def drawn_columns(human: Floats, judge: Floats, grading_weight: Floats) -> Floats:
    """The columns of queries, which are added up. The weight is 0 if the model alone graded a query, and −1 or NaN if it does not count."""
    is_graded, is_other = (grading_weight > 0) & np.isfinite(grading_weight), grading_weight == 0
    w, (d, e) = np.where(is_graded, grading_weight, 0.0), (~np.isnan(each) for each in (human, judge))
    y, f = np.where(d, human, 0.0), np.where(e, judge, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        columns = {
            "wd": w * d, "wy": w * y, "we": w * e, "wf": w * f, "e": is_graded * e, "f": is_graded * f,
            "others_e": is_other * e, "others_f": is_other * f, "w": w, "n": is_graded, "others": is_other,
        }  # fmt: skip
    return np.stack([np.asarray(columns[name], np.float64) for name in _COLUMNS], axis=1)


def number_of_stratum(text_hash: int) -> int:
    """What stands for a stratum in the sums, from a 64-bit hash of its name."""
    return text_hash >> _STRATUM_SHIFT


class DrawnClusterAccumulator:
    """Add up queries of clusters by stratum. All queries of a group of clusters must come in one call of `add`, in one order."""

    def __init__(self, n_figures: int) -> None:
        self._rows = [np.empty((n_figures, 0, 2 + len(_COLUMNS)))]
        self._n = np.zeros((n_figures, len(_KINDS)), np.int64)

    def add(self, clusters: Array, strata: Array, figures: Sequence[Floats]) -> None:
        """Add queries with the hashes of their clusters and strata. Queries of a cluster stand together."""
        if not len(clusters):
            return
        starts = np.flatnonzero(starts_of_runs(clusters))
        groups, numbers = (clusters.view(np.uint64) >> SHIFT).astype(np.int64), strata >> _STRATUM_SHIFT
        order = np.lexsort((numbers, groups))
        groups, numbers = groups[order], numbers[order]
        firsts = np.flatnonzero(starts_of_runs(groups, numbers))
        names = np.stack([numbers[firsts], groups[firsts]], axis=1).astype(np.float64)
        added = []
        for figure, columns in enumerate(figures):
            with np.errstate(over="ignore", invalid="ignore"):
                added.append(np.concatenate([names, np.add.reduceat(columns[order], firsts, axis=0)], axis=1))
                by_cluster = dict(zip(_COLUMNS, np.add.reduceat(columns, starts, axis=0).T, strict=True))
            values = by_cluster["wd"], by_cluster["others_e"], by_cluster["e"] + by_cluster["others_e"]
            self._n[figure] += [np.count_nonzero(each) for each in values]
        self._rows.append(np.stack(added))

    def state(self) -> dict[str, Array]:
        """The state so far. States merge by addition, but the sums of groups are joined."""
        return {STRATA: np.concatenate(self._rows, axis=1), "n": self._n.copy()}


def drawn_clusters(state: Mapping[str, Array], figure: int, strata: Mapping[str, int]) -> JudgedClusters:
    """The clusters of a figure, by its place in a merged state; strata have their numbers by name."""
    rows = state[STRATA][figure]
    grouped: list[GroupedClusters] = []
    for number in strata.values():
        column_rows = dict(zip(("group", *_COLUMNS), rows[rows[:, 0] == number][:, 1:].T, strict=True))
        for names in _PAIRS:
            pair = GroupedClusters.from_rows(np.stack([column_rows[name] for name in ("group", *names)], axis=1))
            if pair is None:
                return JudgedClusters.of({EXCESSIVE: Fraction(1)}, ClusterGroups())
            grouped.append(pair)
    counts = dict(zip(_KINDS, state["n"][figure].tolist(), strict=True))
    return _clusters_of_groups(ClusterGroups(tuple(grouped), tuple(strata)), counts)


def drawn_clusters_of_values(
    human: Any, judge: Any, grading_weight: Any, clusters: Any, strata: Any = None
) -> JudgedClusters:
    """The clusters of queries, whose values come in arrays; `clusters` are whole numbers, and grading weights as in `drawn_columns`."""
    names, numbers = np.unique(
        [""] * len(human) if strata is None else np.asarray(strata, np.str_), return_inverse=True
    )
    order = np.argsort(clusters, kind="stable")
    values = (np.asarray(each, np.float64)[order] for each in (human, judge, grading_weight))
    accumulator = DrawnClusterAccumulator(1)
    hashes = numbers[order].astype(np.int64) << _STRATUM_SHIFT
    accumulator.add(np.asarray(clusters, np.int64)[order], hashes, [drawn_columns(*values)])
    return drawn_clusters(accumulator.state(), 0, {str(name): number for number, name in enumerate(names)})


def clusters_of_days(days: Sequence[ClusterGroups]) -> JudgedClusters:
    """The clusters of several days, for which each group of clusters counts as one cluster."""
    if all(day.strata is None for day in days):
        return JudgedClusters.merged_days(days)
    by_stratum: dict[str, list[Sequence[GroupedClusters]]] = {}
    for day in days:
        for place, name in enumerate(day.strata or ()):
            first = place * len(_PAIRS)
            by_stratum.setdefault(name, []).append(day.columns[first : first + len(_PAIRS)])
    columns = [GroupedClusters.added(parts) for each in by_stratum.values() for parts in zip(*each, strict=True)]
    return _clusters_of_groups(ClusterGroups(tuple(columns), tuple(by_stratum)))


class _Stratum:
    """The sums of groups of clusters in a stratum, as floats, and their totals."""

    def __init__(self, columns: Sequence[GroupedClusters]) -> None:
        scaled = columns_by_name(_PAIRS, columns)
        self.sums = {name: np.array(part.numbers, np.float64) * float(part.unit) for name, part in scaled.items()}
        self.totals = {name: float(sum(part.numbers) * part.unit) for name, part in scaled.items()}
        self.size = self.totals["n"] + self.totals["others"]

    def graded_mean(self, name: str) -> float:
        """The weighted mean of one of "d", "y", "e" and "f" over the graded queries."""
        return self.totals["w" + name] / self.totals["w"] if self.totals["w"] else 0.0

    def all_mean(self, name: str) -> float:
        """The mean of "e" or "f" over all queries."""
        return (self.totals[name] + self.totals["others_" + name]) / self.size

    @property
    def scale(self) -> float:
        """By how much the difference to all queries is multiplied to be that to the others; 0 without these."""
        return self.size / self.totals["others"] if self.totals["others"] else 0.0

    @property
    def factor(self) -> float:
        """1 / (1 − Σm² / (Σm)²) of the graded queries with a human value; 0 if one group has all."""
        return _factor(self.sums["wd"])

    @property
    def _is_equal(self) -> bool:
        """Whether all weights are the same."""
        mean = self.totals["w"] / self.totals["n"]
        rest = np.abs(self.sums["w"] - mean * self.sums["n"])
        return bool(rest.max() <= _ROUNDED * np.abs(self.sums["w"]).max())

    def weighted(self, name: str) -> Floats:
        """W (x − x̄) / W, added up over each group, for one of "d", "y", "e" and "f"."""
        values, weights = self.sums["w" + name], self.sums["w"]
        return _rounded(values - self.graded_mean(name) * weights, values) / self.totals["w"]

    def judged(self, name: str) -> tuple[Floats, Floats]:
        """(x − c) / M of graded and other queries, added up over each group, for "e" or "f"."""
        centres = [self.all_mean(name)] * 2
        if self._is_equal:
            # Equal weights carry nothing about which queries were drawn.
            others = self.totals["others"]
            centres = [self.graded_mean(name), self.totals["others_" + name] / others if others else 0.0]
        moved = []
        for prefix, count, centre in zip(("", "others_"), ("n", "others"), centres, strict=True):
            values = self.sums[prefix + name]
            moved.append(_rounded(values - centre * self.sums[count], values) / self.size)
        return moved[0], moved[1]


def _rounded(values: Floats, sums: Floats) -> Floats:
    """Differences from sums of groups, without what is but rounding of the latter."""
    return np.where(np.abs(values) <= _ROUNDED * np.abs(sums).max(), 0.0, values)


def _factor(weights: Floats) -> float:
    total = math.fsum(weights)
    rest = total**2 - math.fsum(weights * weights)
    return total**2 / rest if rest > total**2 * 2.0**-40 else 0.0


def _clusters_of_groups(groups: ClusterGroups, counts: Mapping[str, int] | None = None) -> JudgedClusters:
    """The clusters with the products of what groups move; without `counts` the groups count as clusters."""
    first = range(0, len(groups.columns), len(_PAIRS))
    strata = [_Stratum(groups.columns[place : place + len(_PAIRS)]) for place in first]
    strata = [stratum for stratum in strata if stratum.size]
    sums: dict[str, Fraction] = {DRAWN: Fraction(1)}
    if not all(stratum.totals["w"] for stratum in strata) or not strata:
        # There is no estimate.
        return JudgedClusters.of(sums, groups)
    if not all(stratum.factor for stratum in strata):
        sums[ONE_CLUSTER] = Fraction(1)
    moved = _moved(strata)
    if any(not np.abs(column).max() < _LARGEST for column in moved.values()):
        return JudgedClusters.of(sums | {EXCESSIVE: Fraction(1)}, groups)
    sums |= {f"{a}*{b}": Fraction(math.fsum(moved[a] * moved[b])) for a, b in _PRODUCTS}
    weights = _weights(strata)
    for name, column in weights.items():
        total = Fraction(math.fsum(column))
        sums[N_CLUSTERS + name] = Fraction(int(np.count_nonzero(column)) if counts is None else counts[name])
        if total:
            sums["effective " + name] = Fraction(float(total**2) / math.fsum(column * column))
            sums["df of " + name] = Fraction(degrees_of_freedom(total, Fraction(math.fsum(column**3))))
    if any(stratum.totals["others_e"] and not _factor(stratum.sums["others_e"]) for stratum in strata):
        # What the others of such a stratum add to the variance is not known.
        sums["df of others_e"] = Fraction(0)
    sums["df of d"] = min(sums.get("df of d", Fraction(0)), Fraction(_df_of_strata(strata)))
    return JudgedClusters.of(sums, groups)


def _moved(strata: Sequence[_Stratum]) -> dict[str, Floats]:
    """By what each group moves the estimate, over all strata."""
    size = sum(stratum.size for stratum in strata)
    moved = {name: np.zeros(len(strata[0].sums["w"])) for name in (*_MOVED, *_JUDGE, *_DRAW)}
    for stratum in strata:
        share, scale = stratum.size / size, stratum.scale
        graded_root, others_root = math.sqrt(stratum.factor), math.sqrt(_factor(stratum.sums["others_e"]))
        for name in ("y", "d"):
            moved[name] += graded_root * share * stratum.weighted(name)
        for name in ("f", "e"):
            graded, others = stratum.judged(name)
            apart = share * graded_root * (stratum.weighted(name) - graded), share * others_root * others
            moved[name] += scale * apart[0]
            moved["others_" + name] += scale * apart[1]
            moved["draw_" + name] += apart[0] - apart[1]
            moved["all_" + name] += stratum.sums[name] + stratum.sums["others_" + name]
    if len(strata) > 1:
        _move_shares(moved, strata)
    n_of_judge = moved["all_e"].copy()
    for name in _JUDGE if n_of_judge.any() else ():
        moved[name] *= math.sqrt(_factor(n_of_judge)) / math.fsum(n_of_judge)
    return moved


def _move_shares(moved: dict[str, Floats], strata: Sequence[_Stratum]) -> None:
    """Add by what each group moves the shares of strata."""
    size = sum(stratum.size for stratum in strata)
    counts = [stratum.sums["n"] + stratum.sums["others"] for stratum in strata]
    factor = math.sqrt(_factor(np.sum(counts, axis=0)))
    means = {"share_" + name: [stratum.graded_mean(name) for stratum in strata] for name in ("y", "d")} | {
        "others_" + name: [s.scale * (s.all_mean(name) - s.graded_mean(name)) for s in strata] for name in ("f", "e")
    }
    for name, stratum_means in means.items():
        overall = math.fsum(s.size / size * mean for s, mean in zip(strata, stratum_means, strict=True))
        apart = _rounded(np.array(stratum_means) - overall, np.array(stratum_means))
        for count, difference in zip(counts, apart, strict=True):
            moved[name] += factor * count * (difference / size)


def _weights(strata: Sequence[_Stratum]) -> dict[str, Floats]:
    """How much each group weighs in the estimate by people, in the others' mean by the model, and in the mean by the model alone."""
    return {
        "d": np.sum([s.size * s.sums["wd"] / s.totals["w"] for s in strata], axis=0),
        "others_e": np.sum([s.sums["others_e"] for s in strata], axis=0),
        "judge": np.sum([s.sums["e"] + s.sums["others_e"] for s in strata], axis=0),
    }


def _df_of_strata(strata: Sequence[_Stratum]) -> float:
    """The degrees of freedom of the variance by people (Satterthwaite over the strata)."""
    size = sum(stratum.size for stratum in strata)
    means = [sum(s.size / size * s.graded_mean(name) for s in strata) for name in ("y", "d")]
    if not means[1]:
        return 0.0
    theta = means[0] / means[1]
    variances, dfs = [], []
    for stratum in strata:
        u = math.sqrt(stratum.factor) * stratum.size / size * (stratum.weighted("y") - theta * stratum.weighted("d"))
        variances.append(math.fsum(u * u))
        weights = stratum.sums["wd"]
        total = Fraction(math.fsum(weights))
        dfs.append(degrees_of_freedom(total, Fraction(math.fsum(weights**3))) if total else 0.0)
    parts = [(variance / sum(variances), df) for variance, df in zip(variances, dfs, strict=True) if variance]
    if not parts:
        return sum(dfs)
    return 1 / sum(share**2 / df for share, df in parts) if all(df for _, df in parts) else 0.0


class DrawnSums(SumsOfClusters):
    """The clusters of queries that were drawn with unequal probabilities or from strata."""

    def __init__(self, clusters: JudgedClusters) -> None:
        self._sums = clusters.sums
        products = {pair: float(self._sums.get("*".join(pair), 0)) for pair in _PRODUCTS}
        self._products = products | {(second, first): value for (first, second), value in products.items()}
        self.human, self.others, self.judge = map(self._clusters_of, _KINDS)

    def _clusters_of(self, name: str) -> Clusters:
        n = int(self._sums.get(N_CLUSTERS + name, 0))
        figures = [float(self._sums.get(f"{figure} {name}", 0)) for figure in ("effective", "df of")]
        return Clusters(n, effective_n=figures[0], df=figures[1]) if n else Clusters(n)

    def _sum_of(self, first: Mapping[str, float], second: Mapping[str, float]) -> float:
        """The sum over clusters of the product of two forms; what is rounding of squares is 0."""
        terms = [a * b * self._products[x, y] for x, a in first.items() for y, b in second.items()]
        total = math.fsum(terms)
        if first is second:
            greatest = math.fsum(a * a * self._products[x, x] for x, a in first.items())
            return total if total > greatest * float(NEARLY_NOTHING) else 0.0
        return total

    def _moved_by_people(self, theta: Fraction, weight: float) -> dict[str, float]:
        """By how much a cluster moves the estimate with its graded queries."""
        return _form(_HUMAN, theta) | _form(_GRADED, theta, -weight)

    def _moved_by_model(self, theta: Fraction, weight: float) -> dict[str, float]:
        """The same with its other queries, and with the shares of strata."""
        return _form(_OTHERS, theta, weight) | _form(_SHARES, theta)

    def best_weight(self, theta: Fraction) -> float:
        """The weight λ with the smallest variance; NaN if all have the same."""
        still = self._moved_by_people(theta, 0.0) | self._moved_by_model(theta, 0.0)
        moving = _form(_GRADED, theta, -1.0) | _form(_OTHERS, theta)
        squares = self._sum_of(moving, moving)
        return -self._sum_of(still, moving) / squares if squares > 0 else math.nan

    def variance(self, theta: Fraction, weight: Fraction) -> ClusterVariance:
        """The variance of the numerator of the estimate with a weight λ."""
        people, model = self._moved_by_people(theta, float(weight)), self._moved_by_model(theta, float(weight))
        return ClusterVariance(
            self._sum_of(people, people), self._sum_of(model, model), 2 * self._sum_of(people, model)
        )

    def variance_of_draw(self, theta: Fraction, _: float) -> tuple[float, float]:
        """The variance of the model's mean of e(f − θ) over the graded queries less that over all, and its degrees of freedom."""
        form = _form(_DRAW, theta)
        return self._sum_of(form, form), self.human.df

    def error_of_judge(self, theta: Fraction) -> float:
        """The standard error of the mean by the model alone; NaN if that is not known."""
        form = _form(_JUDGE, theta)
        return math.sqrt(self._sum_of(form, form)) if self.judge.df >= 1 else math.nan


def _form(names: tuple[str, str], theta: Fraction, factor: float = 1.0) -> dict[str, float]:
    return {names[0]: factor, names[1]: -factor * float(theta)}
