"""Simulate systems that are looked at for 365 nights: how many fail a gate although they do not change, and when a drop is seen.

`python tools/simulate_nights.py` prints the tables of docs/evidence/nights.md, in some ten minutes; `unchanged`, `dependent` and `drops`
name one of them. A test runs a short version of each at night.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from spark_rankeval.statistics.confidence_sequences import LEAST_NIGHTS, Nights, spans_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Array = np.ndarray[Any, Any]
Generator = np.random.Generator

LEVEL = 0.95
YEAR = 365
RUNS = 2000
GAINS = np.append(0, 1 / np.log2(np.arange(2, 12)))
#: Users' values and their probabilities. Of gains, 9 in 10 are 0, and the others are those of a hit at one of ten places.
VALUES = {
    "hit rate 0.3": (np.array([0, 1]), np.array([0.7, 0.3])),
    "hit rate 0.03": (np.array([0, 1]), np.array([0.97, 0.03])),
    "hit rate 0.97": (np.array([0, 1]), np.array([0.03, 0.97])),
    "hit rate 0.003": (np.array([0, 1]), np.array([0.997, 0.003])),
    "gains": (GAINS, np.array([0.9] + 10 * [0.01])),
    "spiked": (np.array([0.3, 1]), np.array([0.99, 0.01])),
}
SIZES = (100, 1000, 10000)


def drawn(rng: Generator, values: Array, chances: Array, n_users: int, runs: int, n_nights: int = YEAR) -> Nights:
    """Systems whose nights have other users each, exactly: how many of them have each value."""
    counts = rng.multinomial(n_users, chances, size=(runs, n_nights))
    means = counts @ values / n_users
    variances = np.maximum(counts @ values**2 / n_users - means**2, 0) / (n_users - 1)
    met = counts > 0
    least, greatest = np.where(met, values, np.inf).min(axis=2), np.where(met, values, -np.inf).max(axis=2)
    return Nights(np.full(n_nights, float(n_users)), means, np.sqrt(variances), least, greatest)


def nights_in_errors(means: Array) -> Nights:
    """Nights of 1,000 users each whose figures are in standard errors of a night."""
    runs, n_nights = means.shape
    ones = np.ones((runs, n_nights))
    return Nights(np.full(n_nights, 1000.0), means, ones, -60 * ones, 60 * ones)


def failing(nights: Nights, max_drop: float = 0.0, sign: int = 1) -> Array:
    """The first night at which each system fails a sequential gate, the first night being 1; 0: it never fails."""
    first = np.zeros(len(nights.means), int)
    for n_nights in range(LEAST_NIGHTS + 1, len(nights.n) + 1):
        n, means, *others = (each[..., :n_nights] for each in nights)
        spans = spans_of(Nights(n, sign * means, *others), LEVEL)
        fails = (spans.since < spans.before - max_drop - spans.reach).any(axis=-1)
        first[(first == 0) & fails] = n_nights
    return first


def failing_plainly(nights: Nights, max_drop: float, sign: int = 1) -> Array:
    """The same of a gate that compares each night with the last good one."""
    means = sign * nights.means
    first, good = np.zeros(len(means), int), means[:, 0]
    for night in range(1, means.shape[1]):
        fails = means[:, night] < good - max_drop
        first[(first == 0) & fails] = night + 1
        good = np.where(fails, good, means[:, night])
    return first


def share(first: Array) -> float:
    """How many systems fail at any night."""
    return float(np.mean(first > 0))


def table_of_unchanged(rng: Generator, runs: int = RUNS) -> Iterator[str]:
    """Systems that do not change, each night with other users."""
    yield "| values | users a night | plain, drop | plain, rise | sequential, drop | sequential, rise |"
    yield "|---|---:|---:|---:|---:|---:|"
    for name, (values, chances) in VALUES.items():
        spread = math.sqrt(chances @ values**2 - (chances @ values) ** 2)
        for n_users in SIZES:
            nights = drawn(rng, values, chances, n_users, runs)
            allowed = 4 * spread / math.sqrt(n_users)
            shares = [failing_plainly(nights, allowed, sign) for sign in (1, -1)]
            shares += [failing(nights, sign=sign) for sign in (1, -1)]
            yield f"| {name} | {n_users:,} | {' | '.join(f'{share(each):.3f}' for each in shares)} |"


def independent(rng: Generator, runs: int) -> Array:
    """Other users each night."""
    return rng.normal(size=(runs, YEAR))


def same_users(rng: Generator, runs: int) -> Array:
    """The same users each night: half of the variance is between users."""
    return math.sqrt(0.5) * (rng.normal(size=(runs, 1)) + rng.normal(size=(runs, YEAR)))


def weekdays(rng: Generator, runs: int) -> Array:
    """The figure is four standard errors lower at two nights of each week."""
    means: Array = independent(rng, runs) - 4 * (np.arange(YEAR) % 7 >= 5)
    return means


def turnover(between: float, staying: float) -> Callable[[Generator, int], Array]:
    """A share of the variance is between users, and a share of these is there the next night, too."""

    def nights(rng: Generator, runs: int) -> Array:
        noise, present = independent(rng, runs), independent(rng, runs)
        for night in range(1, YEAR):
            present[:, night] = staying * present[:, night - 1] + math.sqrt(1 - staying**2) * present[:, night]
        means: Array = math.sqrt(between) * present + math.sqrt(1 - between) * noise
        return means

    return nights


DEPENDENT = {
    "the same users each night, half of the variance between them": same_users,
    "two nights of each week 4 standard errors lower": weekdays,
    **{
        f"{between:.0%} of the variance between users, {staying:.0%} of whom come back the next night": turnover(
            between, staying
        )
        for between, staying in ((0.1, 0.8), (0.1, 0.95), (0.3, 0.8), (0.3, 0.95), (0.5, 0.95))
    },
}


def table_of_dependent(rng: Generator, runs: int = RUNS) -> Iterator[str]:
    """Systems that do not change, but whose nights are not independent."""
    yield "| nights | max_drop = 0 | half a standard error | one standard error |"
    yield "|---|---:|---:|---:|"
    for name, means in DEPENDENT.items():
        nights = nights_in_errors(means(rng, runs))
        yield f"| {name} | {' | '.join(f'{share(failing(nights, drop)):.3f}' for drop in (0, 0.5, 1))} |"


def nights_until(rng: Generator, drop: float, after: int, runs: int) -> tuple[float, Array]:
    """Which share fails before the drop, and how many nights the others take from it on; infinite if the year ends before."""
    means = independent(rng, runs)
    means[:, after:] -= drop
    first = failing(nights_in_errors(means))
    is_early = (first > 0) & (first <= after)
    return float(is_early.mean()), np.where(first == 0, math.inf, first - after)[~is_early]


def table_of_drops(rng: Generator, runs: int = RUNS // 2) -> Iterator[str]:
    """Systems that become worse."""
    yield "| drop in standard errors of a night | after nights | fail before | nights until half fail | until 9 in 10 fail |"
    yield "|---:|---:|---:|---:|---:|"
    for drop in (1, 2, 3, 4, 6):
        for after in (14, 30, 180):
            early, nights = nights_until(rng, drop, after, runs)
            # At a night the share is reached, so there is nothing between two nights.
            half, most = (np.quantile(nights, each, method="inverted_cdf") for each in (0.5, 0.9))
            ends = [f"{each:.0f}" if math.isfinite(each) else "not in the year" for each in (half, most)]
            yield f"| {drop} | {after} | {early:.3f} | {' | '.join(ends)} |"


if __name__ == "__main__":
    tables = {"unchanged": table_of_unchanged, "dependent": table_of_dependent, "drops": table_of_drops}
    for name in sys.argv[1:] or tables:
        for line in tables[name](np.random.default_rng(55)):
            print(line, flush=True)
        print()
