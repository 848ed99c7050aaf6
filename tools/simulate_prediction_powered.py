"""Simulate queries with human grades and a model's, of which the truth is known: how often intervals hold, and how long they are.

`python tools/simulate_prediction_powered.py` prints the tables of docs/evidence/prediction_powered.md, in some forty minutes, and
`… care`, `… judges`, `… agreement`, `… few`, `… draws`, `… differences` or `… checks` one of them. A test runs a short version.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from spark_rankeval.statistics.distributions import normal_quantile
from spark_rankeval.statistics.judged_draws import draw_check
from spark_rankeval.statistics.judged_moments import OTHERS, OTHERS_E, OTHERS_F, OTHERS_FF, JudgedMoments
from spark_rankeval.statistics.judged_samples import ONE, ZERO, sample_of
from spark_rankeval.statistics.prediction_powered import JudgedEstimate, judged_estimate

Array = np.ndarray[Any, Any]
Draw = Callable[[np.random.Generator, int], Array]

LEVEL = 0.95
# A population has so many kinds of queries, each as frequent as the others: many queries are drawn by how many of each kind there are.
_KINDS = 4000


def hit_rate(share: float) -> Draw:
    """Values of 0 and 1."""
    return lambda rng, size: (rng.random(size) < share).astype(np.float64)


def ndcg(rng: np.random.Generator, size: int) -> Array:
    """0 for 30% of the queries, else spread over all values."""
    return np.where(rng.random(size) < 0.3, 0.0, rng.beta(2, 1.5, size))


def reciprocal_rank(rng: np.random.Generator, size: int) -> Array:
    """One over a rank, or 0 for some 25%."""
    rank = rng.geometric(0.35, size)
    return np.where((rank > 10) | (rng.random(size) < 0.25), 0.0, 1 / rank)


def recall(rng: np.random.Generator, size: int) -> Array:
    """Shares of 1 to 5 relevant items."""
    n_relevant = rng.integers(1, 6, size)
    return rng.binomial(n_relevant, 0.45) / n_relevant


METRICS: dict[str, Draw] = {
    "hit rate 0.5": hit_rate(0.5),
    "hit rate 0.9": hit_rate(0.9),
    "NDCG": ndcg,
    "RR": reciprocal_rank,
    "recall": recall,
}


def agreeing(rng: np.random.Generator, y: Array, draw: Draw, share: float) -> Array:
    """The human values of a share of the queries, and values of other queries for the rest."""
    return np.where(rng.random(len(y)) < share, y, draw(rng, len(y)))


def too_high(rng: np.random.Generator, y: Array, draw: Draw) -> Array:
    """The larger of two values for half of the queries, of which one agrees in 85%."""
    f = agreeing(rng, y, draw, 0.85)
    return np.where(rng.random(len(y)) < 0.5, np.maximum(f, draw(rng, len(y))), f)


def too_strict(rng: np.random.Generator, y: Array, draw: Draw) -> Array:
    """0 for a tenth of the queries, and the human value for the others."""
    return np.where(rng.random(len(y)) < 0.9, y, 0.0)


#: What a model makes of the human values.
JUDGES: dict[str, Callable[[np.random.Generator, Array, Draw], Array]] = {
    "unbiased": lambda rng, y, draw: agreeing(rng, y, draw, 0.8),
    "biased": too_high,
    "noisy": lambda rng, y, draw: agreeing(rng, y, draw, 0.4),
    "useless": lambda rng, y, draw: agreeing(rng, y, draw, 0.0),
    "reversed": lambda rng, y, draw: 1 - agreeing(rng, y, draw, 0.8),
}
RARE_DISAGREEMENT: dict[str, Callable[[np.random.Generator, Array, Draw], Array]] = {
    "none": lambda rng, y, draw: y.copy(),
    "in 3%": lambda rng, y, draw: agreeing(rng, y, draw, 0.97),
    "in 10%": lambda rng, y, draw: agreeing(rng, y, draw, 0.9),
    "0 instead in 10%": too_strict,
}


class Population(NamedTuple):
    """The values of each kind of query by people and by the model; `mean` is that of the former where they are defined."""

    human: Array
    judge: Array

    @property
    def mean(self) -> float:
        """What is estimated."""
        return float(np.nanmean(self.human))


class Rates(NamedTuple):
    """Of the intervals of both judges: the share that is there, and of these the share that holds the mean.

    `human_covered` is the latter for people alone, and `width` the mean width of the former ÷ that by people alone.
    """

    shown: float
    covered: float
    human_covered: float
    width: float

    def __str__(self) -> str:
        if not self.shown:
            return "none"
        missing = f" ({1 - self.shown:.0%} none)" if self.shown < 0.995 else ""
        return f"{self.covered:.3f} · {self.width:.2f}{missing}"


def rates(estimates: list[JudgedEstimate], mean: float) -> Rates:
    """The rates over several samples."""
    shown = [estimate for estimate in estimates if estimate.interval]
    if not shown:
        return Rates(0.0, math.nan, math.nan, math.nan)
    both, human = [each.interval for each in shown], [each.human.interval for each in shown]
    covered, human_covered = (
        sum(each.low <= mean + 1e-12 and mean - 1e-12 <= each.high for each in intervals) / len(shown)
        for intervals in (both, human)
    )
    width, human_width = (sum(each.high - each.low for each in intervals) for intervals in (both, human))
    return Rates(len(shown) / len(estimates), covered, human_covered, width / human_width)


def samples(rng: np.random.Generator, population: Population, n: int, n_others: int, runs: int) -> list[JudgedMoments]:
    """Samples of n graded queries and others."""
    y, f = population
    kinds = rng.integers(0, len(y), n * runs)
    names = np.repeat([f"{run:06}" for run in range(runs)], n)
    graded = JudgedMoments.from_values(y[kinds], f[kinds], np.ones(len(kinds), np.bool_), strata=names)
    is_defined, values = ~np.isnan(f), np.nan_to_num(f)
    others = []
    for _ in range(runs):
        counts = rng.multinomial(n_others, np.full(len(f), 1 / len(f))).astype(np.float64)
        terms = {
            OTHERS_E: counts @ is_defined.astype(np.float64),
            OTHERS_F: counts @ values,
            OTHERS_FF: counts @ (values * values),
        }
        others.append(
            {OTHERS: Fraction(n_others)} | {name: Fraction(float(value)) for name, value in terms.items() if value}
        )
    return [JudgedMoments({"": sums | more}) for sums, more in zip(graded.strata.values(), others, strict=True)]


def simulated(
    rng: np.random.Generator,
    population: Population,
    n: int,
    n_others: int,
    runs: int,
    bounds: tuple[float, float] = (0, 1),
) -> Rates:
    """The rates of samples from a population."""
    moments = samples(rng, population, n, n_others, runs)
    return rates([judged_estimate(each, LEVEL, bounds=bounds) for each in moments], population.mean)


def population(
    rng: np.random.Generator, draw: Draw, judge: Callable[[np.random.Generator, Array, Draw], Array]
) -> Population:
    """All kinds of queries."""
    y = draw(rng, _KINDS)
    return Population(y, judge(rng, y, draw))


def _header(*names: str) -> Iterator[str]:
    yield f"| {' | '.join(names)} |"
    yield f"|---|{'---:|' * (len(names) - 1)}"


def _row(*cells: object) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def table_of_judges(
    rng: np.random.Generator,
    runs: int = 2000,
    sizes: tuple[int, ...] = (30, 100, 300),
    others: tuple[int, ...] = (1000, 10_000, 100_000),
) -> Iterator[str]:
    """Each metric, number of graded queries and of others, and judge."""
    yield from _header("metric", "graded", "others", "people alone", *JUDGES)
    for (metric, draw), n, n_others in itertools.product(METRICS.items(), sizes, others):
        cells = [simulated(rng, population(rng, draw, judge), n, n_others, runs) for judge in JUDGES.values()]
        human = sum(cell.human_covered for cell in cells) / len(cells)
        yield _row(metric, n, f"{n_others:,}", f"{human:.3f}", *cells)


def table_of_agreement(rng: np.random.Generator, runs: int = 2000) -> Iterator[str]:
    """Judges who rarely disagree."""
    yield from _header("metric", "graded", *RARE_DISAGREEMENT)
    for (metric, draw), n in itertools.product(METRICS.items(), (30, 100, 300)):
        judges = RARE_DISAGREEMENT.values()
        yield _row(metric, n, *(simulated(rng, population(rng, draw, judge), n, 10_000, runs) for judge in judges))


def table_of_few(rng: np.random.Generator, runs: int = 1000) -> Iterator[str]:
    """Fewer graded queries than one should have."""
    yield from _header("metric", "graded", "people alone", *JUDGES)
    for (metric, draw), n in itertools.product(METRICS.items(), (2, 3, 5, 10, 20)):
        cells = [simulated(rng, population(rng, draw, judge), n, 10_000, runs) for judge in JUDGES.values()]
        human = sum(cell.human_covered for cell in cells) / len(cells)
        yield _row(metric, n, f"{human:.3f}", *cells)


def drawn(
    rng: np.random.Generator, population: Population, n: int, size: int, design: str
) -> tuple[Array, Array, Array, Array | None, Array | None]:
    """Values, which queries are graded, their weights and strata.

    Designs: ``weights`` draws queries with a low model value five times as often; ``strata`` draws as many of the half with low values as
    of the other, in which 80% of the queries are; ``undefined`` leaves a fifth of the values of each judge undefined.
    """
    kinds = rng.integers(0, len(population.human), size)
    y, f = population.human[kinds], population.judge[kinds]
    is_low = f <= np.quantile(population.judge, 0.2)
    if design == "undefined":
        y, f = (np.where(rng.random(size) < 0.2, math.nan, values) for values in (y, f))
        return y, f, np.arange(size) < n, None, None
    if design == "weights":
        chance = np.where(is_low, 5.0, 1.0)
        chance *= n / chance.sum()
        return y, f, rng.random(size) < chance, 1 / chance, None
    graded = np.zeros(size, np.bool_)
    for part in (is_low, ~is_low):
        graded[rng.choice(np.flatnonzero(part), n // 2, replace=False)] = True
    return y, f, graded, None, np.where(is_low, "low", "high")


def published(moments: JudgedMoments) -> tuple[float, float]:
    """The interval of PPI++ as it was published, with a quantile of the normal distribution."""
    sample, _ = sample_of(moments)
    assert sample is not None
    parts = sample.parts(Fraction(float(sample.value(ZERO))))
    weight = min(max(parts.covariance / parts.pooled, ZERO), ONE) if parts.pooled else ZERO
    value = float(sample.value(weight))
    graded = parts.human - 2 * weight * parts.covariance + weight**2 * parts.judge
    reach = normal_quantile((1 + LEVEL) / 2) * math.sqrt(graded + weight**2 * parts.others)
    return value - reach, value + reach


def table_of_care(rng: np.random.Generator, runs: int = 1000) -> Iterator[str]:
    """How often the published interval holds, and that of the package."""
    judges = JUDGES | RARE_DISAGREEMENT
    yield from _header("metric", "graded", *JUDGES, *(f"differs: {name}" for name in RARE_DISAGREEMENT))
    for (metric, draw), n in itertools.product(METRICS.items(), (30, 100)):
        cells = []
        for judge in judges.values():
            kinds = population(rng, draw, judge)
            moments = samples(rng, kinds, n, 10_000, runs)
            intervals = map(published, moments)
            covered = sum(low <= kinds.mean + 1e-12 and kinds.mean - 1e-12 <= high for low, high in intervals) / runs
            careful = rates([judged_estimate(each, LEVEL, bounds=(0, 1)) for each in moments], kinds.mean).covered
            cells.append(f"{covered:.3f} → {careful:.3f}")
        yield _row(metric, n, *cells)


def table_of_draws(rng: np.random.Generator, runs: int = 1000) -> Iterator[str]:
    """Queries that were not drawn with equal probabilities, and undefined values."""
    yield from _header("draw", "metric", "graded", "of", "people alone", *JUDGES)
    for design, metric, n in itertools.product(("weights", "strata", "undefined"), ("NDCG", "recall"), (40, 200)):
        size, cells = 5 * n, []
        for judge in JUDGES.values():
            kinds = population(rng, METRICS[metric], judge)
            moments = [JudgedMoments.from_values(*drawn(rng, kinds, n, size, design)) for _ in range(runs)]
            cells.append(rates([judged_estimate(each, LEVEL, bounds=(0, 1)) for each in moments], kinds.mean))
        human = sum(cell.human_covered for cell in cells) / len(cells)
        yield _row(design, metric, n, f"{size:,}", f"{human:.3f}", *cells)


def differences(
    rng: np.random.Generator, draw: Draw, judge: Callable[[np.random.Generator, Array, Draw], Array]
) -> Population:
    """The differences of two models, which have the same value for 60% of the queries."""
    y = draw(rng, _KINDS)
    baseline = agreeing(rng, y, draw, 0.6)
    return Population(y - baseline, judge(rng, y, draw) - judge(rng, baseline, draw))


def table_of_differences(rng: np.random.Generator, runs: int = 1000) -> Iterator[str]:
    """The differences of two models."""
    yield from _header("metric", "graded", "people alone", *JUDGES)
    for (metric, draw), n in itertools.product(METRICS.items(), (30, 100, 300)):
        cells = [simulated(rng, differences(rng, draw, judge), n, 10_000, runs, (-1, 1)) for judge in JUDGES.values()]
        human = sum(cell.human_covered for cell in cells) / len(cells)
        yield _row(metric, n, f"{human:.3f}", *cells)


def table_of_checks(rng: np.random.Generator, runs: int = 1000) -> Iterator[str]:
    """How often the check of the draw has p ≤ 0.05, if the draw is random, and if people chose queries with higher values."""
    yield from _header("metric", "graded", "random draw", "high values drawn 1.5 times as often")
    for (metric, draw), n in itertools.product(METRICS.items(), (30, 100, 300)):
        kinds, cells = population(rng, draw, JUDGES["unbiased"]), []
        is_high = kinds.judge >= np.quantile(kinds.judge, 0.6)
        for times in (1.0, 1.5):
            alarms = 0
            for _ in range(runs):
                chance = np.where(is_high, times, 1.0)
                graded = rng.choice(len(chance), n, p=chance / chance.sum())
                others = rng.integers(0, len(chance), 3000)
                chosen = np.concatenate([graded, others])
                moments = JudgedMoments.from_values(kinds.human[chosen], kinds.judge[chosen], np.arange(n + 3000) < n)
                check = draw_check(moments)
                alarms += check is not None and check.p <= 0.05
            cells.append(f"{alarms / runs:.3f}")
        yield _row(metric, n, *cells)


TABLES: dict[str, Callable[[np.random.Generator], Iterator[str]]] = {
    "care": table_of_care,
    "judges": table_of_judges,
    "agreement": table_of_agreement,
    "few": table_of_few,
    "draws": table_of_draws,
    "differences": table_of_differences,
    "checks": table_of_checks,
}


if __name__ == "__main__":
    for name in sys.argv[1:] or TABLES:
        print(f"\n{name}\n")
        for line in TABLES[name](np.random.default_rng(551)):
            print(line, flush=True)
