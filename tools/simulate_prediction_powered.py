"""Simulate queries with human grades and a model's, of which the truth is known: how often intervals hold, and how long they are.

`python tools/simulate_prediction_powered.py` prints the tables of docs/evidence/simulated_judges.md, which has some of their rows. With one
of `care`, `judges`, `agreement`, `few`, `draws`, `clusters`, `drawn_clusters`, `differences`, `biases`, `checks` or `unseen` it prints that
table.
A test runs a short version at night.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betainc  # type: ignore[import-untyped] # it ships no types

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from spark_rankeval.statistics import distributions
from spark_rankeval.statistics.distributions import normal_quantile
from spark_rankeval.statistics.judged_queries import JudgedQueries, sample_of, sums_of
from spark_rankeval.statistics.judges import JudgedEstimate, bias_of_judge, draw_check, judged_estimate

Array = np.ndarray[Any, Any]
Metric = Callable[[Array], Array]
Judge = Callable[[np.random.Generator, Array], Array]

LEVEL = 0.95
# A population has so many kinds of queries, each as frequent as the others: many queries are drawn by how many of each kind there are.
_KINDS = 4000
_CANDIDATES, _CUTOFF = 20, 10
# Grades are 1, 2 and 3 from these utilities on; items are relevant from grade 2 on.
_GRADE_LIMITS, _RELEVANT = np.array([0.0, 1.2, 2.2]), 2


class Queries(NamedTuple):
    """Grades of 20 candidates a query, 0 to 3, by people and by the model; and two lists of them, as places of candidates."""

    human: Array
    judge: Array
    ranked: Array
    baseline: Array


def queries(rng: np.random.Generator, judge: Judge, size: int) -> Queries:
    """Queries that differ in how good their candidates are. The second list is made from scores with other errors."""
    utility = rng.normal(size=(size, _CANDIDATES)) + rng.normal(scale=0.8, size=(size, 1))
    human = np.searchsorted(_GRADE_LIMITS, utility)
    scores = (utility + rng.normal(scale=1.5, size=utility.shape) for _ in range(2))
    ranked, baseline = (np.argsort(-each, axis=1) for each in scores)
    return Queries(human, judge(rng, human), ranked, baseline)


def hit_rate(grades: Array) -> Array:
    """Whether the first item is relevant; undefined if none of the list is."""
    relevant = grades >= _RELEVANT
    return np.where(relevant.any(axis=1), relevant[:, 0], math.nan)


def ndcg(grades: Array) -> Array:
    """NDCG@10 with exponential gains; the ideal list has all candidates."""
    discounts = 1 / np.log2(np.arange(2, _CUTOFF + 2))
    gains = 2.0**grades - 1
    ideal = -np.sort(-gains, axis=1)[:, :_CUTOFF] @ discounts
    values: Array = np.divide(
        gains[:, :_CUTOFF] @ discounts, ideal, out=np.full(len(grades), math.nan), where=ideal > 0
    )
    return values


def reciprocal_rank(grades: Array) -> Array:
    """One over the rank of the first relevant item, 0 if that is beyond 10."""
    relevant = grades >= _RELEVANT
    first = np.argmax(relevant, axis=1)
    return np.where(relevant.any(axis=1), np.where(first < _CUTOFF, 1 / (first + 1), 0.0), math.nan)


def recall(grades: Array) -> Array:
    """The share of the relevant items that are among the first 10."""
    relevant = grades >= _RELEVANT
    n_relevant = relevant.sum(axis=1)
    found = relevant[:, :_CUTOFF].sum(axis=1)
    values: Array = np.divide(found, n_relevant, out=np.full(len(grades), math.nan), where=n_relevant > 0)
    return values


#: Metrics of the grades of lists, in rank order.
METRICS: dict[str, Metric] = {"hit rate": hit_rate, "NDCG": ndcg, "RR": reciprocal_rank, "recall": recall}


def agreeing(rng: np.random.Generator, grades: Array, share: float) -> Array:
    """The human grades of a share of the items, and grades of other items for the rest."""
    return np.where(rng.random(grades.shape) < share, grades, rng.choice(grades.ravel(), grades.shape))


def too_high(rng: np.random.Generator, grades: Array) -> Array:
    """One grade more for half of the items, after 85% agree."""
    changed: Array = np.minimum(agreeing(rng, grades, 0.85) + (rng.random(grades.shape) < 0.5), 3)
    return changed


def too_strict(rng: np.random.Generator, grades: Array) -> Array:
    """Nothing is relevant in a tenth of the queries: grades of 2 and 3 become 1 and 0."""
    return np.where(rng.random((len(grades), 1)) < 0.1, np.minimum(grades, 3 - grades), grades)


#: What a model makes of the human grades.
JUDGES: dict[str, Judge] = {
    "unbiased": lambda rng, grades: agreeing(rng, grades, 0.8),
    "biased": too_high,
    "noisy": lambda rng, grades: agreeing(rng, grades, 0.4),
    "useless": lambda rng, grades: agreeing(rng, grades, 0.0),
    "reversed": lambda rng, grades: 3 - agreeing(rng, grades, 0.8),
}
RARE_DISAGREEMENT: dict[str, Judge] = {
    "none": lambda rng, grades: grades.copy(),
    "on 1%": lambda rng, grades: agreeing(rng, grades, 0.99),
    "on 5%": lambda rng, grades: agreeing(rng, grades, 0.95),
    "on a tenth of queries": too_strict,
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


def samples(rng: np.random.Generator, population: Population, n: int, n_others: int, runs: int) -> list[JudgedQueries]:
    """Samples of n graded queries and others."""
    y, f = population
    kinds = rng.integers(0, len(y), n * runs)
    names = np.repeat([f"{run:06}" for run in range(runs)], n)
    graded = JudgedQueries.from_values(y[kinds], f[kinds], np.ones(len(kinds), np.bool_), strata=names)
    of_each, made = sums_of(np.arange(len(f)), np.zeros(len(f), np.int64), f), []
    # Most words are 0. Floats hold the sums of the others, whole numbers below 2^53, and multiply much faster.
    used = of_each.any(axis=0)
    words = of_each[:, used].astype(np.float64)
    for part in graded.parted(lambda name: (name, "")).values():
        counts = rng.multinomial(n_others, np.full(len(f), 1 / len(f)))
        others = np.zeros((1, of_each.shape[1]), np.int64)
        others[:, used] = counts @ words
        # They are all of one stratum.
        others[:, 0] = 0
        made.append(part + JudgedQueries(graded.graded[:0], others, ("",)))
    return made


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


def _values(metric: Metric, grades: Array, places: Array) -> Array:
    """The metric of lists under grades; what is not in the list comes behind it."""
    return metric(np.take_along_axis(grades, places, axis=1))


def population(rng: np.random.Generator, metric: Metric, judge: Judge) -> Population:
    """A metric of all kinds of queries."""
    made = queries(rng, judge, _KINDS)
    return Population(_values(metric, made.human, made.ranked), _values(metric, made.judge, made.ranked))


def _header(*names: str) -> Iterator[str]:
    yield f"| {' | '.join(names)} |"
    yield f"|---|{'---:|' * (len(names) - 1)}"


def _row(*cells: object) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def table_of_judges(
    rng: np.random.Generator,
    runs: int = 1000,
    sizes: tuple[int, ...] = (30, 100, 300),
    others: tuple[int, ...] = (1000, 100_000),
) -> Iterator[str]:
    """Each metric, number of graded queries and of others, and judge."""
    yield from _header("metric", "graded", "others", "people alone", *JUDGES)
    for (name, metric), n, n_others in itertools.product(METRICS.items(), sizes, others):
        cells = [simulated(rng, population(rng, metric, judge), n, n_others, runs) for judge in JUDGES.values()]
        human = sum(cell.human_covered for cell in cells) / len(cells)
        yield _row(name, n, f"{n_others:,}", f"{human:.3f}", *cells)


def table_of_agreement(rng: np.random.Generator, runs: int = 1000) -> Iterator[str]:
    """Judges who rarely disagree."""
    yield from _header("metric", "graded", *RARE_DISAGREEMENT)
    for (name, metric), n in itertools.product(METRICS.items(), (30, 100, 300)):
        judges = RARE_DISAGREEMENT.values()
        yield _row(name, n, *(simulated(rng, population(rng, metric, judge), n, 10_000, runs) for judge in judges))


def table_of_few(rng: np.random.Generator, runs: int = 1000) -> Iterator[str]:
    """Fewer graded queries than one should have."""
    yield from _header("metric", "graded", "people alone", *JUDGES)
    for (name, metric), n in itertools.product(METRICS.items(), (3, 10, 20)):
        cells = [simulated(rng, population(rng, metric, judge), n, 10_000, runs) for judge in JUDGES.values()]
        human = sum(cell.human_covered for cell in cells) / len(cells)
        yield _row(name, n, f"{human:.3f}", *cells)


def drawn(
    rng: np.random.Generator, population: Population, n: int, kinds: Array, design: str
) -> tuple[Array, Array, Array, Array | None, Array | None]:
    """Values of queries of some kinds, which are graded, their weights and strata.

    Designs: ``weights`` draws queries with a low model value five times as often. ``strata`` draws as many of those as of the others.
    ``both`` has these strata, and draws half of each stratum three times as often as the rest.
    """
    size = len(kinds)
    y, f = population.human[kinds], population.judge[kinds]
    is_low = f <= np.nanquantile(population.judge, 0.2)
    chance = np.where(is_low, 5.0, 1.0) if design == "weights" else np.where(kinds % 2, 3.0, 1.0)
    if design == "weights":
        chance *= n / chance.sum()
        return y, f, rng.random(size) < chance, 1 / chance, None
    strata = np.where(is_low, "low", "high")
    if design == "both":
        for part in (is_low, ~is_low):
            chance[part] *= n / 2 / chance[part].sum()
        return y, f, rng.random(size) < chance, 1 / chance, strata
    graded = np.zeros(size, np.bool_)
    for part in (is_low, ~is_low):
        graded[rng.choice(np.flatnonzero(part), min(n // 2, int(part.sum())), replace=False)] = True
    return y, f, graded, None, strata


def published(queries: JudgedQueries) -> tuple[float, float]:
    """The interval of PPI++ as it was published, with a quantile of the normal distribution."""
    sample, _ = sample_of(queries)
    assert sample is not None
    parts = sample.parts(sample.value(0.0))
    weight = min(max(parts.covariance / parts.pooled, 0.0), 1.0) if parts.pooled else 0.0
    value = sample.value(weight)
    graded = parts.human - 2 * weight * parts.covariance + weight**2 * parts.judge
    reach = normal_quantile((1 + LEVEL) / 2) * math.sqrt(graded + weight**2 * parts.others) / sample.denominator(weight)
    return value - reach, value + reach


def table_of_care(rng: np.random.Generator, runs: int = 1000) -> Iterator[str]:
    """How often the published interval holds, and that of the package."""
    judges = JUDGES | RARE_DISAGREEMENT
    yield from _header("metric", "graded", *JUDGES, *(f"differs: {name}" for name in RARE_DISAGREEMENT))
    for (name, metric), n in itertools.product(METRICS.items(), (30, 100)):
        cells = []
        for judge in judges.values():
            kinds = population(rng, metric, judge)
            moments = samples(rng, kinds, n, 10_000, runs)
            intervals = map(published, moments)
            covered = sum(low <= kinds.mean + 1e-12 and kinds.mean - 1e-12 <= high for low, high in intervals) / runs
            careful = rates([judged_estimate(each, LEVEL, bounds=(0, 1)) for each in moments], kinds.mean).covered
            cells.append(f"{covered:.3f} → {careful:.3f}")
        yield _row(name, n, *cells)


def table_of_draws(rng: np.random.Generator, runs: int = 1000) -> Iterator[str]:
    """Queries that were not drawn with equal probabilities, and undefined values."""
    yield from _header("draw", "metric", "graded", "of", "people alone", *JUDGES)
    for design, metric, n in itertools.product(("weights", "strata", "both"), ("NDCG", "RR"), (60, 300)):
        size, cells = 5 * n, []
        for judge in JUDGES.values():
            kinds = population(rng, METRICS[metric], judge)
            numbers = (rng.integers(0, _KINDS, size) for _ in range(runs))
            moments = [JudgedQueries.from_values(*drawn(rng, kinds, n, each, design)) for each in numbers]
            cells.append(rates([judged_estimate(each, LEVEL, bounds=(0, 1)) for each in moments], kinds.mean))
        human = sum(cell.human_covered for cell in cells) / len(cells)
        yield _row(design, metric, n, f"{size:,}", f"{human:.3f}", *cells)


#: How many queries the clusters have.
SIZES: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "5": lambda rng, n: np.full(n, 5),
    "1 to 20": lambda rng, n: rng.integers(1, 21, n),
    "Pareto 1.1": lambda rng, n: np.minimum(np.ceil(rng.pareto(1.1, n) + 1), 200).astype(np.int64),
}
_SAME, _SHARE_GRADED = 0.3, 0.3


def kinds_of_persons(rng: np.random.Generator, sizes: Array) -> tuple[Array, Array]:
    """The kinds of queries of persons, who ask for their own kind three times in ten, and else for any; and whose they are."""
    person = np.repeat(np.arange(len(sizes)), sizes)
    own = rng.integers(0, _KINDS, len(sizes))[person]
    is_own = rng.random(len(person)) < _SAME
    return np.where(is_own, own, rng.integers(0, _KINDS, len(person))), person


def persons(rng: np.random.Generator, population: Population, sizes: Array) -> JudgedQueries:
    """Queries of persons, three in ten of which are graded."""
    kinds, person = kinds_of_persons(rng, sizes)
    values = population.human[kinds], population.judge[kinds], rng.random(len(person)) < _SHARE_GRADED
    return JudgedQueries.from_values(*values, clusters=person)


def table_of_clusters(rng: np.random.Generator, runs: int = 1000) -> Iterator[str]:
    """Queries of persons, who have several each."""
    yield from _header("queries each", "persons", "metric", "people alone", "unbiased", "useless", "without `cluster`")
    for (name, sizes), n, metric in itertools.product(SIZES.items(), (40, 150), ("NDCG", "RR")):
        cells: list[Rates] = []
        for judge in ("unbiased", "useless"):
            kinds = population(rng, METRICS[metric], JUDGES[judge])
            moments = [persons(rng, kinds, sizes(rng, n)) for _ in range(runs)]
            ways = [moments] if cells else [moments, [each.independent for each in moments]]
            cells += [rates([judged_estimate(m, LEVEL, bounds=(0, 1)) for m in way], kinds.mean) for way in ways]
        unbiased, independent, useless = cells
        human = (unbiased.human_covered + useless.human_covered) / 2
        yield _row(name, n, metric, f"{human:.3f}", unbiased, useless, f"{independent.covered:.3f}")


def drawn_persons(rng: np.random.Generator, population: Population, sizes: Array, design: str) -> JudgedQueries:
    """Queries of persons, a fifth of which is drawn for people to grade by a design of `drawn`."""
    kinds, person = kinds_of_persons(rng, sizes)
    y, f, graded, weights, strata = drawn(rng, population, len(kinds) // 5, kinds, design)
    hashes = rng.integers(-(2**63), 2**63 - 1, len(sizes))[person]
    return JudgedQueries.from_values(y, f, graded, weights, strata, hashes)


def table_of_drawn_clusters(rng: np.random.Generator, runs: int = 300, rows: slice = slice(None)) -> Iterator[str]:
    """Queries of persons that were not drawn with equal probabilities; each row has random numbers of its own."""
    judges = [judge for judge in JUDGES if judge != "reversed"]
    yield from _header("draw", "persons", "metric", "people alone", *judges, "without `cluster`")
    cases = [*itertools.product(("weights", "strata", "both"), (30, 100, 300), ("NDCG", "RR"))]
    for (design, n, metric), random in [*zip(cases, rng.spawn(len(cases)), strict=True)][rows]:
        cells: list[Rates] = []
        for judge in judges:
            kinds = population(random, METRICS[metric], JUDGES[judge])
            moments = [drawn_persons(random, kinds, SIZES["1 to 20"](random, n), design) for _ in range(runs)]
            ways = [moments] if cells else [moments, [each.independent for each in moments]]
            cells += [rates([judged_estimate(m, LEVEL, bounds=(0, 1)) for m in way], kinds.mean) for way in ways]
        independent = cells.pop(1)
        human = sum(cell.human_covered for cell in cells) / len(cells)
        yield _row(design, n, metric, f"{human:.3f}", *cells, f"{independent.covered:.3f}")


def differences(rng: np.random.Generator, metric: Metric, judge: Judge) -> Population:
    """The differences of two models that rank the same candidates."""
    made = queries(rng, judge, _KINDS)
    human, by_model = (
        _values(metric, grades, made.ranked) - _values(metric, grades, made.baseline)
        for grades in (made.human, made.judge)
    )
    return Population(human, by_model)


def table_of_differences(rng: np.random.Generator, runs: int = 1000) -> Iterator[str]:
    """The differences of two models."""
    yield from _header("metric", "graded", "people alone", *JUDGES)
    for (name, metric), n in itertools.product(METRICS.items(), (30, 100, 300)):
        cells = [simulated(rng, differences(rng, metric, judge), n, 10_000, runs, (-1, 1)) for judge in JUDGES.values()]
        human = sum(cell.human_covered for cell in cells) / len(cells)
        yield _row(name, n, f"{human:.3f}", *cells)


#: Judges of two models, and whether they grade half of the first items of the better list one higher.
FAVOUR: dict[str, tuple[str, bool]] = {
    "no bias": ("unbiased", False),
    "equal bias": ("biased", False),
    "favours": ("unbiased", True),
}


def favoured(rng: np.random.Generator, metric: Metric, judge: str, *, favours: bool) -> Population:
    """The differences of two models, of which the judge may favour the first."""
    made = queries(rng, JUDGES[judge], _KINDS)
    if favours:
        first = made.ranked[:, :3]
        raised = np.take_along_axis(made.judge, first, axis=1) + (rng.random(first.shape) < 0.5)
        np.put_along_axis(made.judge, first, np.minimum(raised, 3), axis=1)
    lists = made.ranked, made.baseline
    (human, other_human), (by_model, other) = (
        [_values(metric, each, places) for places in lists] for each in (made.human, made.judge)
    )
    return Population(human - other_human, by_model - other)


def bias_rates(
    rng: np.random.Generator, metric: str, judge: str, n: int, runs: int, queries_each: str = ""
) -> tuple[float, float]:
    """Of intervals of the difference of biases, the share that holds it, and that leaves out 0; n are queries, or persons of several."""
    kinds = favoured(rng, METRICS[metric], FAVOUR[judge][0], favours=FAVOUR[judge][1])
    truth, held, apart, shown = float(np.nanmean(kinds.judge - kinds.human)), 0, 0, 0
    sizes = SIZES.get(queries_each)
    drawn = (persons(rng, kinds, sizes(rng, n)) for _ in range(runs)) if sizes else samples(rng, kinds, n, 1000, runs)
    for each in drawn:
        interval = bias_of_judge(each, LEVEL, (-1, 1)).interval
        shown += not interval.reason
        held += interval.low <= truth <= interval.high
        apart += interval.low > 0 or interval.high < 0
    return (held / shown, apart / shown) if shown else (math.nan, math.nan)


def table_of_biases(rng: np.random.Generator, runs: int = 1000) -> Iterator[str]:
    """By how much more a judge moves the difference of two models than people do."""
    yield from _header("metric", "queries each", "graded, or persons", *FAVOUR)
    for metric, (each, n) in itertools.product(
        ("hit rate", "RR", "NDCG"), [*((("", n)) for n in (30, 100, 300)), ("5", 60), ("5", 200), ("1 to 20", 100)]
    ):
        cells = (bias_rates(rng, metric, judge, n, runs, each) for judge in FAVOUR)
        yield _row(metric, each or "1", n, *(f"{held:.3f} · {apart:.3f}" for held, apart in cells))


def table_of_checks(rng: np.random.Generator, runs: int = 1000) -> Iterator[str]:
    """How often the check of the draw has p ≤ 0.05, if the draw is random, and if people chose queries with higher values."""
    yield from _header("metric", "graded", "random draw", "high values drawn 1.5 times as often")
    for (name, metric), n in itertools.product(METRICS.items(), (30, 100, 300)):
        kinds, cells = population(rng, metric, JUDGES["unbiased"]), []
        is_high = kinds.judge >= np.nanquantile(kinds.judge, 0.6)
        for times in (1.0, 1.5):
            alarms = 0
            for _ in range(runs):
                chance = np.where(is_high, times, 1.0)
                graded = rng.choice(len(chance), n, p=chance / chance.sum())
                others = rng.integers(0, len(chance), 3000)
                chosen = np.concatenate([graded, others])
                moments = JudgedQueries.from_values(kinds.human[chosen], kinds.judge[chosen], np.arange(n + 3000) < n)
                check = draw_check(moments)
                alarms += check is not None and check.p <= 0.05
            cells.append(f"{alarms / runs:.3f}")
        yield _row(name, n, *cells)


#: Human values that a model repeats but for noise, and seldom misses.
VALUES: dict[str, Callable[[Array], Array]] = {
    "uniform": lambda u: u,
    "RR": lambda u: 1 / np.ceil(10 * u**2 + 1e-9),
    "hit rate": lambda u: (u < 0.3) * 1.0,
}


def seldom_broken(rng: np.random.Generator, values: str, noise: float, broken: float) -> Population:
    """A model whose values are those of people, up to noise, but 0 for a share of the queries."""
    y = VALUES[values](rng.random(100 * _KINDS))
    f = np.clip(y + noise * rng.choice([-1, 1], len(y)), 0, 1)
    return Population(y, np.where(rng.random(len(y)) < broken, 0.0, f))


def rare_differences(rng: np.random.Generator, rate: float) -> Population:
    """Differences of 0, and 1 for a share of the queries, by a model that knows half of them."""
    y = (rng.random(100 * _KINDS) < rate) * 1.0
    return Population(y, np.where(rng.random(len(y)) < 0.5, y, rng.random(len(y)) < 0.1))


def broken_persons(rng: np.random.Generator, n: int, runs: int, noise: float = 0.01, broken: float = 0.04) -> Rates:
    """Persons of five queries, of whom people graded n of 400, with a model that is 0 for some persons."""
    estimates, person = [], np.repeat(np.arange(400), 5)
    for _ in range(runs):
        y = np.where(rng.random(2000) < _SAME, rng.random(400)[person], rng.random(2000))
        f = np.clip(y + noise * rng.choice([-1, 1], 2000), 0, 1)
        values = y, np.where((rng.random(400) < broken)[person], 0.0, f), (rng.permutation(400) < n)[person]
        estimates.append(judged_estimate(JudgedQueries.from_values(*values, clusters=person), LEVEL, bounds=(0, 1)))
    return rates(estimates, 0.5)


def heavy_stratum(
    rng: np.random.Generator, n: int, runs: int, values: str, rate: float = 0.1, *, by_weights: bool = False
) -> Rates:
    """Four in five queries are of a stratum with n graded ones, most of them 0; 100 of the others are graded, half of them 0."""
    estimates, truth = [], (0.8 * rate + 0.1) * float(VALUES[values](rng.random(10**6)).mean())
    for _ in range(runs):
        is_heavy = rng.random(3000) < 0.8
        y = np.where(rng.random(3000) < np.where(is_heavy, rate, 0.5), VALUES[values](rng.random(3000)), 0.0)
        graded, weights = np.zeros(3000, np.bool_), np.ones(3000)
        for part, size in ((is_heavy, n), (~is_heavy, 100)):
            graded[rng.choice(np.flatnonzero(part), size, replace=False)] = True
            weights[part] = part.sum() / size
        f = np.where(rng.random(3000) < 0.3, rng.permutation(y), y)
        draw = (weights,) if by_weights else (None, np.where(is_heavy, "heavy", "light"))
        estimates.append(judged_estimate(JudgedQueries.from_values(y, f, graded, *draw), LEVEL, bounds=(0, 1)))
    return rates(estimates, truth)


def low_drawn_more(rng: np.random.Generator, n: int, runs: int, metric: str, judge: str) -> Rates:
    """Queries in the lower half of the model's values are drawn six times as often."""
    kinds = population(rng, METRICS[metric], (JUDGES | RARE_DISAGREEMENT)[judge])
    middle, estimates = np.nanquantile(kinds.judge, 0.5), []
    for _ in range(runs):
        y, f = (each[of] for of in [rng.integers(0, _KINDS, 10 * n)] for each in kinds)
        chance = np.where(f > middle, 1.0, 6.0)
        chance *= n / chance.sum()
        moments = JudgedQueries.from_values(y, f, rng.random(10 * n) < chance, 1 / chance)
        estimates.append(judged_estimate(moments, LEVEL, bounds=(0, 1)))
    return rates(estimates, kinds.mean)


def broken_and_drawn(rng: np.random.Generator, n: int, runs: int, values: str, noise: float, design: str) -> Rates:
    """A model that is 0 for 2% of the queries, which were not drawn with equal probabilities."""
    kinds, size = seldom_broken(rng, values, noise, 0.02), 5 * n
    numbers = (rng.integers(0, len(kinds.human), size) for _ in range(runs))
    moments = [JudgedQueries.from_values(*drawn(rng, kinds, n, each, design)) for each in numbers]
    return rates([judged_estimate(each, LEVEL, bounds=(0, 1)) for each in moments], kinds.mean)


def easy_and_hard(rng: np.random.Generator, n: int, runs: int, rate: float, *, by_weights: bool = False) -> Rates:
    """All of 27 easy queries are graded, whose value is 1, and n of 150 hard ones, of which this share is 1."""
    estimates, is_easy = [], np.arange(177) < 27
    for _ in range(runs):
        y = np.where(is_easy | (rng.random(177) < rate), 1.0, 0.0)
        f = np.where(rng.random(177) < 0.8, y, 1 - y)
        graded = is_easy | np.isin(np.arange(177), 27 + rng.permutation(150)[:n])
        draw = (np.where(is_easy, 1.0, 150 / n),) if by_weights else (None, np.where(is_easy, "easy", "hard"))
        estimates.append(judged_estimate(JudgedQueries.from_values(y, f, graded, *draw), LEVEL, bounds=(0, 1)))
    return rates(estimates, (27 + 150 * rate) / 177)


#: Where graded queries hold little of what makes an estimate wrong: what simulates a cell, and its cells.
UNSEEN: dict[str, tuple[Callable[..., Rates], list[tuple[Any, ...]]]] = {
    "values, noise, broken; graded": (
        lambda rng, n, runs, *of: simulated(rng, seldom_broken(rng, *of), n, 200_000, runs),
        [*itertools.product((60, 150, 1000), VALUES, (0, 0.01, 0.03), (0.01, 0.04))],
    ),
    "differences of 0 and 1, rate; graded": (
        lambda rng, n, runs, *of: simulated(rng, rare_differences(rng, *of), n, 10_000, runs, (-1, 1)),
        [(60, 0.05), (100, 0.03), (100, 0.05), (300, 0.01), (1000, 0.005)],
    ),
    "persons with a broken model, noise; graded": (
        broken_persons,
        [*itertools.product((30, 60, 150), (0, 0.01, 0.03))],
    ),
    "heavy stratum, values; graded": (
        heavy_stratum,
        [*itertools.product((8, 20, 60), VALUES)],
    ),
    "heavy weights, values; graded": (
        lambda rng, n, runs, values: heavy_stratum(rng, n, runs, values, by_weights=True),
        [*itertools.product((8, 20, 60), VALUES)],
    ),
    "broken and drawn, values, noise, design; graded": (
        broken_and_drawn,
        [*itertools.product((60, 300, 1000), ["RR"], (0, 0.01, 0.03), ("weights", "strata", "both"))],
    ),
    "easy and hard by strata, rate; hard ones": (
        easy_and_hard,
        [*itertools.product((5, 8, 20), (0.5, 0.7, 0.9))],
    ),
    "easy and hard by weights, rate; hard ones": (
        lambda rng, n, runs, rate: easy_and_hard(rng, n, runs, rate, by_weights=True),
        [*itertools.product((5, 8, 20), (0.5, 0.7, 0.9))],
    ),
    "low values drawn six times as often, metric, judge; graded": (
        low_drawn_more,
        [*itertools.product((30, 60, 150), ("hit rate", "RR", "NDCG"), ("unbiased", "none"))],
    ),
}


def table_of_unseen(rng: np.random.Generator, runs: int = 400) -> Iterator[str]:
    """What few graded queries may not hold."""
    yield from _header("queries", "cell", "graded", "people alone", "both")
    for name, (simulate, cells) in UNSEEN.items():
        for n, *of in cells:
            found = simulate(rng, n, runs, *of)
            yield _row(name.partition(";")[0], ", ".join(map(str, of)), n, f"{found.human_covered:.3f}", found)


TABLES: dict[str, Callable[[np.random.Generator], Iterator[str]]] = {
    "care": table_of_care,
    "judges": table_of_judges,
    "agreement": table_of_agreement,
    "few": table_of_few,
    "draws": table_of_draws,
    "clusters": table_of_clusters,
    "drawn_clusters": table_of_drawn_clusters,
    "differences": table_of_differences,
    "biases": table_of_biases,
    "checks": table_of_checks,
    "unseen": table_of_unseen,
}


if __name__ == "__main__":
    # The same function, faster: Clopper-Pearson intervals of 100,000 queries by the model alone, which no table has, take most of the time.
    distributions._beta_cdf = lambda x, a, b: float(betainc(a, b, x))
    for name in sys.argv[1:] or TABLES:
        print(f"\n{name}\n")
        for line in TABLES[name](np.random.default_rng(551)):
            print(line, flush=True)
