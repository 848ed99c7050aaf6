"""Simulate sessions of persons, of which the truth is known: how often intervals hold the mean, and how often equal models differ.

`python tools/simulate_clusters.py` prints the tables of docs/clusters.md, in some five minutes, and `… sessions` or `… days` one of them.
A test runs a short version.
"""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from spark_rankeval.statistics.clusters import ClusterAccumulator, clusters_of, clusters_of_days, sums_by_cluster
from spark_rankeval.statistics.intervals import t_interval
from spark_rankeval.statistics.paired import PairedAccumulator, PairedClusters, comparison_of

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = np.ndarray[Any, Any]

LEVEL, REPLICATES = 0.95, 199


class Rates(NamedTuple):
    """How often 95 % intervals hold the true difference 0, and how often the sign-flip test finds a difference at 5 %."""

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
    state, of_clusters = alone.state(), together.state()
    return rates(state, None), rates(state, of_clusters)


def rates(state: dict[str, Array], of_clusters: dict[str, Array] | None) -> Rates:
    """The rates over the columns of a state."""
    n_covered = n_rejected = 0
    runs = len(state["wins"])
    for run in range(runs):
        signs = None if of_clusters is None else {name: entries[run] for name, entries in of_clusters.items()}
        column = {name: entries[run] for name, entries in state.items()}
        found = comparison_of(column, LEVEL, of_clusters=signs)
        n_covered += found.interval.low <= 0 <= found.interval.high
        n_rejected += found.p_sign_flip <= 1 - LEVEL + 1e-12
    return Rates(n_covered / runs, n_rejected / runs)


def table(rng: np.random.Generator, runs: int = 2000) -> Iterator[str]:
    """Persons with 1 to 50 sessions, and correlations of 0, 0.05 and 0.5."""
    yield "| persons | sessions each | correlation | intervals hold, without | with `cluster` | false differences, without | with |"
    yield "|---:|---:|---:|---:|---:|---:|---:|"
    for n_clusters, most, correlation in itertools.product((10, 30, 100), (1, 5, 50), (0.0, 0.05, 0.5)):
        without, with_clusters = simulated(rng, n_clusters, most, correlation, runs)
        yield (
            f"| {n_clusters} | {'1' if most == 1 else f'1 to {most}'} | {correlation:g} | {without.covered:.3f} | "
            f"{with_clusters.covered:.3f} | {without.rejected:.3f} | {with_clusters.rejected:.3f} |"
        )


def week(
    rng: np.random.Generator, n_people: int, share: float, correlation: float, runs: int, n_days: int = 7
) -> tuple[float, float]:
    """How often 95 % intervals over the merged days hold the true mean 0, without and with clusters.

    On each day this share of the people comes. The values of a person on any two days have this correlation.
    """
    hashes = np.sort(rng.integers(0, 2**64, n_people, np.uint64)).view(np.int64)
    liking = rng.normal(size=(n_people, runs)) * math.sqrt(correlation)
    parts, values_of_days = [], []
    for _ in range(n_days):
        there = np.flatnonzero(rng.random(n_people) < share)
        values = liking[there] + rng.normal(size=(len(there), runs)) * math.sqrt(1 - correlation)
        accumulator = ClusterAccumulator(runs, grouped=True)
        accumulator.add(sums_by_cluster(hashes[there], np.arange(len(there)), values))
        parts.append([clusters.grouped for clusters in clusters_of(accumulator.state())])
        values_of_days.append(values)
    values = np.concatenate(values_of_days)
    n, means, errors = len(values), values.mean(axis=0), values.std(axis=0, ddof=1) / math.sqrt(len(values))
    n_covered = np.zeros(2, np.int64)
    for mean, error, days in zip(means.tolist(), errors.tolist(), zip(*parts, strict=True), strict=True):
        together = clusters_of_days([day for day in days if day is not None])
        for place, (of, count) in enumerate([(error, n), (together.standard_error, together.n)]):
            interval = t_interval(mean, of, count, LEVEL)
            n_covered[place] += interval.low <= 0 <= interval.high
    return float(n_covered[0]) / runs, float(n_covered[1]) / runs


def table_of_days(rng: np.random.Generator, runs: int = 1000) -> Iterator[str]:
    """Seven days of 30 to 3,000 people, of whom 20 or 90 % come each day."""
    yield "| people | come each day | correlation | intervals hold, without | with `cluster` |"
    yield "|---:|---:|---:|---:|---:|"
    for n_people, share, correlation in itertools.product((30, 3_000), (0.2, 0.9), (0.0, 0.05, 0.5)):
        without, with_clusters = week(rng, n_people, share, correlation, runs)
        yield f"| {n_people:,} | {share:.0%} | {correlation:g} | {without:.3f} | {with_clusters:.3f} |"


if __name__ == "__main__":
    tables = {"sessions": table, "days": table_of_days}
    for name in sys.argv[1:] or tables:
        for line in tables[name](np.random.default_rng(211)):
            print(line, flush=True)
        print()
