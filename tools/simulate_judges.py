"""Simulate judges of which the true agreement is known: how often the intervals of `judge_agreement` hold it.

`python tools/simulate_judges.py` prints the shares that docs/judges.md sums up, in some two minutes. A test runs a short version at night.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from spark_rankeval.statistics.description import N_BLOCKS
from spark_rankeval.statistics.judges import Estimate, GradeCounts

Array = np.ndarray[Any, Any]

LEVEL = 0.95


class World(NamedTuple):
    """Two judges who see the relevance of documents with errors. Relevance and errors of a query's documents are alike."""

    cuts: tuple[float, ...]  # the relevance from which on the next grade is given
    relevance: float = 0.5  # the spread of relevance between queries; within a query it is 1
    bias: float = 0.3  # the spread of the second judge's error between queries
    noise: float = 0.6  # its usual size within a query
    change: float = 0.4  # how much that differs between queries


WORLDS = {
    "grades 0 to 3": World((-0.5, 0.5, 1.2)),
    "hardly any error": World((-0.5, 0.5, 1.2), bias=0.1, noise=0.15),
    "hardly any agreement": World((0.0, 1.0, 2.0), relevance=1.0, bias=1.5, noise=2.0),
    "relevant or not, 10 % relevant": World((1.5,)),
    "few queries have nearly all relevant documents": World((1.5, 2.5, 3.1), relevance=1.5, bias=0.5, change=0.8),
}
SIZES = (30, 100, 300)


def drawn_counts(rng: np.random.Generator, world: World, n_queries: int) -> GradeCounts:
    """The counts of a sample: 3 documents a query and more, 15 on average."""
    sizes = 2 + rng.geometric(1 / 13, n_queries)
    query = np.repeat(np.arange(n_queries), sizes)
    relevance = world.relevance * rng.normal(size=n_queries)[query] + rng.normal(size=len(query))
    noise = world.noise * np.exp(world.change * rng.normal(size=n_queries))
    error = world.bias * rng.normal(size=n_queries)[query] + noise[query] * rng.normal(size=len(query))
    seen = (relevance + world.noise / 2 * rng.normal(size=len(query)), relevance + 0.1 + error)
    grades = np.stack([np.digitize(side, world.cuts) for side in seen], axis=1).astype(np.float64)
    block = rng.integers(0, N_BLOCKS, n_queries)[query]
    # The first document of a query counts it.
    is_first = np.append(True, query[1:] != query[:-1]).astype(np.int64)
    ones = np.ones(len(query), np.int64)
    return GradeCounts(grades, block, ones, np.stack([is_first, is_first], axis=1), np.arange(len(world.cuts) + 1.0))


def estimates_of(counts: GradeCounts) -> list[Estimate]:
    """Agreement, the three kappas and alpha."""
    pair = counts.pair_figures(0, 1, LEVEL)
    return [pair.agreement, pair.kappa, pair.linear_kappa, pair.quadratic_kappa, counts.alpha(LEVEL, "ordinal")[2]]


def coverage(rng: np.random.Generator, world: World, n_queries: int, runs: int) -> tuple[Array, Array]:
    """For each figure, how many of the intervals hold the truth, which is that of 200,000 queries, and how many there are."""
    truth = [estimate.value for estimate in estimates_of(drawn_counts(rng, world, 200_000))]
    n_holding, n_intervals = np.zeros(len(truth)), np.zeros(len(truth))
    for _ in range(runs):
        for place, estimate in enumerate(estimates_of(drawn_counts(rng, world, n_queries))):
            if estimate.interval:
                n_intervals[place] += 1
                n_holding[place] += estimate.interval.low <= truth[place] <= estimate.interval.high
    return n_holding, n_intervals


if __name__ == "__main__":
    rng = np.random.default_rng(55)
    print(f"| | {' | '.join(f'{n} queries' for n in SIZES)} |\n|---{'|---:' * len(SIZES)}|")
    for name, world in WORLDS.items():
        shares = [np.divide(*coverage(rng, world, n, 4000)) for n in SIZES]
        print(f"| {name} | {' | '.join(f'{each.min():.3f} to {each.max():.3f}' for each in shares)} |", flush=True)
