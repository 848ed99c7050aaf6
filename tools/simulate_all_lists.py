"""Simulate users and their lists, of which the truth is known: how often intervals of values of all lists together hold it.

`python tools/simulate_all_lists.py` prints the table of docs/statistics.md, in some five minutes. A test runs a short version.
The truth is the value that samples of as many users have on average.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from spark_rankeval.metrics.exposure_based import CatalogueCoverage, Entropy, Exposure, Gini, Personalisation
from spark_rankeval.ranking.recommended import Totals
from spark_rankeval.statistics.jackknife import WithoutBlock, blocks_of, jackknife_interval

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = np.ndarray[Any, Any]

LEVEL, REPLICATES = 0.95, 200
METRICS = [kind().resolve() for kind in (CatalogueCoverage, Gini, Entropy, Personalisation)]
NAMES = ("percentile bootstrap", "basic bootstrap", "bootstrap's standard error", "jackknife")


class Market(NamedTuple):
    """Who gets lists of what: an item's chance to be in one falls with a power of its place."""

    n_users: int
    n_items: int
    k: int
    power: float


MARKETS = (
    Market(20, 100, 5, 1.0),
    Market(50, 100, 5, 1.0),
    Market(50, 2000, 10, 1.0),
    Market(200, 200, 10, 1.0),
    Market(200, 2000, 10, 0.7),
    Market(400, 1000, 10, 0.0),
)


def lists_of(rng: np.random.Generator, market: Market) -> Array:
    """Whether each user has each item; drawn one after the other without replacement, by weight."""
    weight = -market.power * np.log(1 + np.arange(market.n_items))
    keys = weight + rng.gumbel(size=(market.n_users, market.n_items))
    lists = np.zeros(keys.shape)
    np.put_along_axis(lists, np.argpartition(-keys, market.k, axis=1)[:, : market.k], 1.0, axis=1)
    return lists


def exposure_of(counts: Array, n_users: int) -> Exposure:
    """The histogram of how many items are in so many lists."""
    count, n_items = np.unique(counts[counts > 0].astype(np.int64), return_counts=True)
    known = np.ones(len(count), np.bool_)
    return Exposure(count, n_items, known, known, n_users, Totals(training_items=len(counts)))


def values_of(counts: Array, n_users: float) -> list[float]:
    """The value of each metric."""
    exposure = exposure_of(counts, int(n_users))
    return [metric.value(exposure) for metric in METRICS]


def intervals_of(rng: np.random.Generator, lists: Array) -> tuple[list[float], list[list[tuple[float, float]]]]:
    """The value of each metric, and its intervals in the order of `NAMES`."""
    n_users = len(lists)
    counts = lists.sum(axis=0)
    values = values_of(counts, n_users)
    weights = rng.multinomial(n_users, np.full(n_users, 1 / n_users), REPLICATES)
    samples = np.array([values_of(sample, n_users) for sample in weights @ lists])
    blocks = blocks_of(rng.integers(0, 2**62, n_users), seed=0)
    left = []
    for block in np.unique(blocks):
        users = blocks == block
        left.append((values_of(counts - lists[users].sum(axis=0), n_users - users.sum()), int(users.sum())))
    every = []
    for place, (metric, value) in enumerate(zip(METRICS, values, strict=True)):
        low, high = np.quantile(samples[:, place], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        reach = 1.96 * samples[:, place].std(ddof=1)
        without = [WithoutBlock(others[place], size) for others, size in left]
        _, ours = jackknife_interval(value, without, LEVEL, metric.bounds)
        every.append(
            [(low, high), (2 * value - high, 2 * value - low), (value - reach, value + reach), (ours.low, ours.high)]
        )
    return values, every


def coverage(rng: np.random.Generator, market: Market, runs: int) -> Array:
    """How often intervals hold the truth; metrics × `NAMES`."""
    values, intervals = zip(*(intervals_of(rng, lists_of(rng, market)) for _ in range(runs)), strict=True)
    # The mean of the runs has a 1/√runs of the spread that the intervals are made for.
    truth = np.mean(values, axis=0)[:, None]
    ends = np.array(intervals)
    shares: Array = ((ends[..., 0] <= truth) & (truth <= ends[..., 1])).mean(axis=0)
    return shares


def table(rng: np.random.Generator, runs: int = 500) -> Iterator[str]:
    """Markets of few and many users, with items that nearly everybody gets and items that nobody gets."""
    yield f"| users | items | k | power | metric | {' | '.join(NAMES)} |"
    yield "|---:|---:|---:|---:|---|---:|---:|---:|---:|"
    for market in MARKETS:
        for metric, shares in zip(METRICS, coverage(rng, market, runs), strict=True):
            about = f"| {market.n_users} | {market.n_items:,} | {market.k} | {market.power:g} | `{metric.name}` |"
            yield f"{about} {' | '.join(f'{share:.3f}' for share in shares)} |"


if __name__ == "__main__":
    assert math.isclose(LEVEL, 0.95), "the reach of the third interval is that of 95 %"
    for line in table(np.random.default_rng(27)):
        print(line, flush=True)
