"""Simulate sessions of persons, of which the truth is known: how often intervals hold the mean, and how often equal models differ.

`python tools/simulate_clusters.py` prints the tables of docs/evidence/simulations.md, which has some of the rows, in some twenty minutes.
`… sessions`, `… sizes` or `… gaps` print one of them, and `… picture` draws the first. A test runs a short version at night.
"""

from __future__ import annotations

import itertools
import math
import re
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from spark_rankeval.statistics.comparisons import PairedAccumulator, PairedClusters, comparison_of
from spark_rankeval.statistics.distributions import t_critical
from spark_rankeval.statistics.exact import Moments, moments_of_sums
from spark_rankeval.statistics.groups import Group, difference_of
from spark_rankeval.statistics.intervals import (
    UNBOUNDED,
    ClusterAccumulator,
    Clusters,
    ClusterSums,
    adjusted_interval,
    clusters_of,
    mean_interval,
    sums_by_cluster,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = np.ndarray[Any, Any]

LEVEL, REPLICATES = 0.95, 199
PAGE, PICTURE = (ROOT / "docs" / "evidence" / name for name in ("simulations.md", "clusters.svg"))
# The titles of the picture's rows, and what should be there.
_RIGHT = {"95% intervals that hold": LEVEL, "false differences at 5%": 1 - LEVEL}
_SIDES = ("without cluster", "with cluster")
_FIGURES = re.compile(r"^\| (\d+) \| (?:1 to )?(\d+) \| (0[.\d]*) \|" + r" ([.\d]+) \|" * 4, re.MULTILINE)


class Rates(NamedTuple):
    """How often 95% intervals hold the true difference 0, and how often the sign-flip test finds a difference at 5%."""

    covered: float
    rejected: float


def simulated(
    rng: np.random.Generator, n_clusters: int, most_sessions: int, correlation: float, runs: int
) -> tuple[Rates, Rates]:
    """The rates without and with clusters, if persons have 1 to so many sessions.

    A session's difference between two equal models is normal. Those of a person have this correlation.
    """
    sessions = rng.integers(1, most_sessions + 1, n_clusters)
    clusters = np.repeat(np.arange(n_clusters), sessions)
    shared = rng.normal(size=(n_clusters, runs))[clusters] * math.sqrt(correlation)
    values = shared + rng.normal(size=(len(clusters), runs)) * math.sqrt(1 - correlation)
    alone = PairedAccumulator(runs, replicates=REPLICATES)
    alone.add(np.arange(len(clusters)), values.T, np.zeros((runs, len(clusters))))
    together = PairedClusters(runs, replicates=REPLICATES)
    together.add(sums_by_cluster(clusters, np.cumsum(sessions) - sessions, values))
    state, cluster_state = alone.state(), together.state()
    return rates(state, None), rates(state, cluster_state)


def rates(state: dict[str, Array], cluster_state: dict[str, Array] | None) -> Rates:
    """The rates over the columns of a state."""
    n_covered = n_rejected = 0
    runs = len(state["wins"])
    for run in range(runs):
        column_of_clusters = (
            None if cluster_state is None else {name: entries[run] for name, entries in cluster_state.items()}
        )
        column = {name: entries[run] for name, entries in state.items()}
        comparison = comparison_of(column, LEVEL, cluster_state=column_of_clusters)
        n_covered += comparison.interval.low <= 0 <= comparison.interval.high
        n_rejected += comparison.p_sign_flip <= 1 - LEVEL + 1e-12
    return Rates(n_covered / runs, n_rejected / runs)


def table(rng: np.random.Generator, runs: int = 2000) -> Iterator[str]:
    """Persons with 1 to 50 sessions, and correlations of 0, 0.05 and 0.5."""
    yield "| persons | sessions each | correlation | intervals hold, without | with `cluster` | false differences, without | with |"
    yield "|---:|---:|---:|---:|---:|---:|---:|"
    for n_clusters, most, correlation in itertools.product((10, 30, 100), (1, 2, 5, 10, 20, 50), (0.0, 0.05, 0.5)):
        plain, with_clusters = simulated(rng, n_clusters, most, correlation, runs)
        yield (
            f"| {n_clusters} | {'1' if most == 1 else f'1 to {most}'} | {correlation:g} | {plain.covered:.3f} | "
            f"{with_clusters.covered:.3f} | {plain.rejected:.3f} | {with_clusters.rejected:.3f} |"
        )


class Values(NamedTuple):
    """What users' values are like: shares of all users, who have a correlation within clusters. No values: they are normal."""

    name: str
    correlation: float
    shares: dict[float, float]
    weighted: bool = False

    @property
    def mean(self) -> float:
        """The true mean."""
        return sum(value * share for value, share in self.shares.items())


_RANKS = {0.0: 0.8, 1.0: 0.06, 1 / 2: 0.04, 1 / 3: 0.04, 1 / 5: 0.03, 1 / 10: 0.03}
VALUES = (
    Values("normal", 0.5, {}),
    Values("normal, weighted", 0.5, {}, weighted=True),
    Values("hit rate 0.1", 0.05, {0.0: 0.9, 1.0: 0.1}),
    Values("hit rate 0.02", 0.02, {0.0: 0.98, 1.0: 0.02}),
    Values("reciprocal rank", 0.05, _RANKS),
    Values("reciprocal rank", 0.3, _RANKS),
)
# Clusters that share what they get.
SHARED = {
    name: Values(name, correlation, shares)
    for name, correlation, shares in (
        ("hit rate 0.97, half shared", 0.5, {0.0: 0.03, 1.0: 0.97}),
        ("hit rate 0.97, shared", 0.97, {0.0: 0.03, 1.0: 0.97}),
        ("nearly alike", 0.97, {0.0: 0.03, 0.89: 0.485, 0.91: 0.485}),
    )
}
SIZES = ("equal", "1 to 50", "Pareto 1.1", "one half", "a fifth has 80%")
_USERS = 10


def sizes_of(name: str, rng: np.random.Generator, runs: int, n_clusters: int) -> Array:
    """The numbers of users of clusters: runs × clusters."""
    sizes = np.full((runs, n_clusters), _USERS)
    if name == "1 to 50":
        sizes = rng.integers(1, 51, sizes.shape)
    elif name == "Pareto 1.1":
        sizes = np.ceil(rng.pareto(1.1, sizes.shape) + 1).clip(max=5000).astype(np.int64)
    elif name == "one half":
        sizes[:, 0] *= n_clusters - 1
    elif name == "a fifth has 80%":
        sizes[:, : n_clusters // 5] *= 16
    return sizes


class Drawn(NamedTuple):
    """The moments of users' values, and what their clusters say, of many runs; and what the number of clusters alone says."""

    moments: list[Moments]
    clusters: list[Clusters]
    before: list[float]  # standard errors with G/(G − 1)


def drawn(rng: np.random.Generator, values: Values, sizes: Array) -> Drawn:
    """Values of users in clusters of these sizes, runs × clusters."""
    weights = sizes * rng.exponential(size=sizes.shape) if values.weighted else sizes.astype(np.float64)
    counts = np.zeros((*sizes.shape, 1), np.int64)
    if values.shares:
        # Each cluster has shares of its own, which vary so much that users have the correlation.
        spread = 1 / values.correlation - 1
        shares = rng.standard_gamma(np.array([*values.shares.values()]) * spread, (*sizes.shape, len(values.shares)))
        shares[shares.sum(axis=2) == 0, 0] = 1.0
        counts = rng.multinomial(sizes, shares / shares.sum(axis=2, keepdims=True))
        sums = counts @ np.array([*values.shares])
    else:
        shared = rng.normal(size=sizes.shape) * math.sqrt(values.correlation)
        means = shared + rng.normal(size=sizes.shape) * np.sqrt((1 - values.correlation) / sizes)
        sums = means * weights
    runs, n_clusters = sizes.shape
    accumulator = ClusterAccumulator(runs)
    accumulator.add(ClusterSums(np.arange(n_clusters), weights.T, sums.T))
    rest = sums - sums.sum(axis=1, keepdims=True) / weights.sum(axis=1, keepdims=True) * weights
    before = np.sqrt((rest**2).sum(axis=1) * n_clusters / (n_clusters - 1)) / weights.sum(axis=1)
    return Drawn(
        [_moments(values, *run) for run in zip(counts.sum(axis=1), sizes.sum(axis=1), sums.sum(axis=1) / weights.sum(axis=1), strict=True)],
        clusters_of(accumulator.state()),
        before.tolist(),
    )  # fmt: skip


def _moments(values: Values, counts: Array, n: int, mean: float) -> Moments:
    """The moments of users of whom so many have each value; normal ones have a variance of 1."""
    if not values.shares:
        exact_mean = Fraction(float(mean))
        return moments_of_sums(int(n), 0, 0, -4.0, 4.0, {"y": exact_mean * int(n), "yy": (exact_mean**2 + 1) * int(n)})
    there = [value for value, count in zip(values.shares, counts, strict=True) if count]
    total, squares = (
        sum((Fraction(value) ** k * int(count) for value, count in zip(values.shares, counts, strict=True)), Fraction())
        for k in (1, 2)
    )
    return moments_of_sums(int(n), 0, int(counts[0]), min(there), max(there), {"y": total, "yy": squares})


def covered(rng: np.random.Generator, values: Values, sizes: Array) -> tuple[float, float, float]:
    """How often 95% intervals held the mean before, and hold it now; and how often there is none."""
    users = drawn(rng, values, sizes)
    bounds = (0.0, 1.0) if values.shares else UNBOUNDED
    truth, n_clusters = values.mean, sizes.shape[1]
    held = there = held_before = 0
    for moments, clusters, error in zip(*users, strict=True):
        interval = adjusted_interval(mean_interval(moments, LEVEL, None, clusters), moments, bounds, None, clusters)
        there += bool(interval)
        held += interval.low <= truth <= interval.high
        without_spread = moments.least == moments.greatest
        held_before += without_spread or abs(moments.mean - truth) <= t_critical(LEVEL, n_clusters - 1) * error
    return held_before / len(sizes), held / max(there, 1), 1 - there / len(sizes)


def table_of_sizes(rng: np.random.Generator, runs: int = 2000) -> Iterator[str]:
    """Clusters of five kinds of sizes, and values of six kinds."""
    names = [f"{values.name}, {values.correlation:g}" for values in VALUES]
    yield f"| sizes | clusters | as good as | {' | '.join(names)} |"
    yield f"|---|{'---:|' * (len(names) + 2)}"
    for name, n_clusters in itertools.product(SIZES, (10, 20, 40, 100)):
        sizes = sizes_of(name, rng, runs, n_clusters)
        effective = np.median(sizes.sum(axis=1) ** 2 / (sizes**2).sum(axis=1))
        rates = [covered(rng, values, sizes) for values in VALUES]
        cells = " | ".join(f"{before:.2f} → {now:.3f}" for before, now, _ in rates)
        yield f"| {name} | {n_clusters} | {effective:.1f} | {cells} |"


def false_gaps(rng: np.random.Generator, values: Values, sizes: Array, others: Array) -> tuple[float, float]:
    """How often two slices whose users are alike differ at 5%, before and now."""
    bounds = (0.0, 1.0) if values.shares else UNBOUNDED
    n_false = n_false_before = 0
    for side, other in zip(
        zip(*drawn(rng, values, sizes), strict=True), zip(*drawn(rng, values, others), strict=True), strict=True
    ):
        groups, plain = [], []
        for name, (moments, clusters, error) in zip("ab", (side, other), strict=True):
            groups.append(Group(name, moments, None, bounds, "", clusters))
            counted_clusters = replace(
                clusters, standard_error=error, effective_n=float(clusters.n), df=clusters.n - 1.0
            )
            plain.append(Group(name, moments, None, bounds, "", counted_clusters))
        p, p_before = (
            difference_of(*pair).cautious(pair).p_of() for pair in ((groups[0], groups[1]), (plain[0], plain[1]))
        )
        n_false += p <= 1 - LEVEL
        n_false_before += p_before <= 1 - LEVEL
    return n_false_before / len(sizes), n_false / len(sizes)


def table_of_gaps(rng: np.random.Generator, runs: int = 2000) -> Iterator[str]:
    """Two slices of as many clusters each, without a difference."""
    names = [f"{values.name}, {values.correlation:g}" for values in VALUES]
    yield f"| sizes | clusters each | {' | '.join(names)} |"
    yield f"|---|{'---:|' * (len(names) + 1)}"
    for name, n_clusters in itertools.product(SIZES, (10, 40)):
        sides = [sizes_of(name, rng, runs, n_clusters) for _ in range(2)]
        rates = [false_gaps(rng, values, *sides) for values in VALUES]
        yield f"| {name} | {n_clusters} | {' | '.join(f'{before:.3f} → {now:.3f}' for before, now in rates)} |"


def points(text: str, n_persons: int = 100) -> list[dict[str, Any]]:
    """The figures of a table for so many persons."""
    found = [[float(figure) for figure in row] for row in _FIGURES.findall(text)]
    return [
        {"sessions": int(most), "correlation": f"correlation {correlation:g}", "of": of, "rate": rate, "interval": how}
        for persons, most, correlation, *rates in found
        if persons == n_persons
        for (of, how), rate in zip(itertools.product(_RIGHT, _SIDES), rates, strict=True)
    ]


def chart(text: str, n_persons: int = 100) -> Any:
    """How often intervals and tests are right by sessions a person, from the lines of a table."""
    import altair as alt  # noqa: PLC0415 # the tables need none
    import pandas as pd  # noqa: PLC0415 # the same

    shown = points(text, n_persons)
    rows = []
    for of, right in _RIGHT.items():
        x = (
            alt.X("sessions:Q")
            .scale(type="log", domain=[1, 50], nice=False)
            .axis(values=[1, 2, 5, 10, 20, 50])
            .title("most sessions a person")
        )
        base = alt.Chart().encode(
            x,
            alt.Y("rate:Q").scale(domain=[0, 1]).axis(format="%").title(of),
            alt.Color("interval:N", sort="descending").scale(scheme="tableau10").legend(orient="bottom", title=None),
        )
        rule = alt.Chart().mark_rule(strokeDash=[4, 3], color="gray").encode(y=alt.datum(right))
        layers = alt.layer(rule, base.mark_line(), base.mark_point(filled=True, size=40)).properties(
            width=170, height=150
        )
        data = pd.DataFrame([point for point in shown if point["of"] == of])
        rows.append(layers.facet(column=alt.Column("correlation:N").title(None), data=data))
    return alt.vconcat(*rows, title=f"{n_persons} persons; dashed: what should be")


if __name__ == "__main__":
    if sys.argv[1:] == ["picture"]:
        chart("\n".join(table(np.random.default_rng(211)))).save(PICTURE)
        sys.exit()
    tables = {"sessions": table, "sizes": table_of_sizes, "gaps": table_of_gaps}
    for name in sys.argv[1:] or tables:
        for line in tables[name](np.random.default_rng(211)):
            print(line, flush=True)
        print()
