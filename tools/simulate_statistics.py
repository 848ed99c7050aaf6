"""Simulate evaluations of which the truth is known: how often verdicts are false, and how often intervals hold the true mean.

`python tools/simulate_statistics.py` prints the tables of docs/statistics.md, in some five minutes; `hit_rates`, `continuous`,
`shares`, `rare`, `bootstrap`, `margins`, `families`, `few_moved`, `pairs` and `ranks` name one of them. A test runs a short version of
each at night.
"""

from __future__ import annotations

import itertools
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from spark_rankeval.statistics.comparisons import (
    UNDECIDED,
    AllPairsAccumulator,
    PairedAccumulator,
    PairedComparison,
    all_pairs_of,
    comparison_of,
    family_of,
    rank_sets,
    verdict_of,
)
from spark_rankeval.statistics.description import BootstrapAccumulator, bootstrap_interval, bootstrap_means_of
from spark_rankeval.statistics.exact import MeanAccumulator, MomentsAccumulator, mean_of, moments_of
from spark_rankeval.statistics.intervals import adjusted_interval, mean_interval, t_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Array = np.ndarray[Any, Any]

LEVEL = 0.95
SHARE = (0.0, 1.0)
# Reciprocal ranks of a first hit that is equally often at each of ten places, or missing.
RECIPROCAL_RANKS = np.append(1 / np.arange(1, 10), 0.0)


def column(state: dict[str, Array], index: int) -> dict[str, Any]:
    """The state of one column."""
    return {name: values[index] for name, values in state.items()}


def hit_rates(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Users' hit rates, 3 in 10 of them 1."""
    return (rng.random(shape) < 0.3).astype(float)


def continuous(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Users' values without any two alike."""
    return rng.beta(1, 2, shape)


def any_false_verdict(values: Array, baseline: Array, family: int, margin: float, truth: float) -> float:
    """The share of families of comparisons in which a verdict is false.

    Args:
        values: comparisons × users.
        baseline: the same of the baseline.
        family: how many comparisons are corrected together.
        margin: the difference that does not matter.
        truth: the true difference.
    """
    pairs = PairedAccumulator(len(values), replicates=0)
    pairs.add(np.arange(values.shape[1]), values, baseline)
    state = pairs.state()
    comparisons = [comparison_of(column(state, place), LEVEL, SHARE) for place in range(len(values))]
    n_false = 0
    for first in range(0, len(values), family):
        members = comparisons[first : first + family]
        judged = family_of([each.p_of("sign_flip", margin)[0] for each in members], "holm", LEVEL)
        words = [
            verdict_of(each.interval_at(joint.level, margin), joint.p, margin=margin, difference=each.difference).word
            for each, joint in zip(members, judged, strict=True)
        ]
        # A true difference of a margin is neither beyond it nor within, and without a margin none is true.
        true = {UNDECIDED} if truth == margin else {UNDECIDED, "no relevant difference"}
        n_false += any(word not in true for word in words)
    return n_false / (len(values) // family)


def false_slices(rng: np.random.Generator, draw: Any, n_users: int, runs: int, slices: int = 50) -> float:
    """How often any of some slices, in which two models are alike, has a verdict."""
    shape = (runs * slices, n_users)
    return any_false_verdict(draw(rng, shape), draw(rng, shape), slices, 0.0, 0.0)


def false_margins(rng: np.random.Generator, n_users: int, runs: int, family: int = 20, margin: float = 0.05) -> float:
    """How often any of some differences that are as large as the margin is said to be beyond it or within."""
    shape = (runs * family, n_users)
    baseline = rng.random(shape) * 0.5 + 0.2
    return any_false_verdict(baseline + margin + rng.normal(0, 0.1, shape), baseline, family, margin, margin)


def coverage(rng: np.random.Generator, draw: Any, truth: float, n_users: int, runs: int) -> tuple[float, float]:
    """How often t without more, and the interval that stands in the table, hold the true mean."""
    values = draw(rng, (runs, n_users))
    moments = MomentsAccumulator(runs)
    for place, sample in enumerate(values):
        moments.add(place, sample)
    state = moments.state()
    held = np.zeros(2)
    for place in range(runs):
        figures = moments_of(column(state, place))
        plain = mean_interval(figures, LEVEL)
        shown = adjusted_interval(plain, figures, SHARE)
        # Ends are off by the last digits.
        held += [interval.low - 1e-12 <= truth <= interval.high + 1e-12 for interval in (plain, shown)]
    return float(held[0] / runs), float(held[1] / runs)


def bca_coverage(rng: np.random.Generator, draw: Any, truth: float, n_users: int, runs: int) -> float:
    """How often the BCa bootstrap holds the true mean; no interval does not."""
    values = draw(rng, (runs, n_users))
    held = 0
    for number, sample in enumerate(values):
        means, samples = MeanAccumulator(1), BootstrapAccumulator(1, replicates=1000, seed=number)
        means.add(0, sample)
        samples.add(np.arange(n_users), sample[None])
        interval = bootstrap_interval(bootstrap_means_of(column(samples.state(), 0)), mean_of(column(means.state(), 0)))
        held += interval.low <= truth <= interval.high
    return held / runs


def false_pairs(rng: np.random.Generator, n_users: int, runs: int, pairwise: bool, n_models: int = 5) -> float:
    """How often any pair of models is told apart whose means are equal, one of the models being ten times noisier."""
    scale = np.ones(n_models)
    scale[-1] = 10.0
    blocks = AllPairsAccumulator(runs, n_models)
    blocks.add(np.arange(n_users), rng.normal(size=(runs, n_models, n_users)) * scale[:, None])
    state = blocks.state()
    intervals = [
        [pair.interval for pair in all_pairs_of(column(state, run), LEVEL, pairwise=pairwise)] for run in range(runs)
    ]
    return sum(any(each.low > 0 or each.high < 0 for each in pairs) for pairs in intervals) / runs


# Models of one mean: two of them ten times noisier; and six variants of one model beside two others.
NOISY: dict[str, tuple[Array, float]] = {
    "two noisy": (np.array([1.0] * 6 + [10.0] * 2), 0.0),
    "six variants": (np.array([0.1] * 6 + [1.0] * 2), 1.0),
}


def noisy_ranks(rng: np.random.Generator, models: str, n_users: int, runs: int) -> tuple[float, float]:
    """How often the sets of ranks of eight models of one mean hold all true ranks: by Tukey's intervals, and by those of each pair."""
    scale, shared = NOISY[models]
    values = rng.normal(size=(runs, 8, n_users)) * scale[:, None]
    values[:, :6] += shared * rng.normal(size=(runs, 1, n_users))
    blocks = AllPairsAccumulator(runs, 8)
    blocks.add(np.arange(n_users), values)
    state, held = blocks.state(), np.zeros(2)
    for run, means in enumerate(values.mean(axis=2).tolist()):
        for place, pairwise in enumerate((False, True)):
            sets = rank_sets(all_pairs_of(column(state, run), LEVEL, pairwise=pairwise), means)
            held[place] += all(each.lowest == 1 for each in sets)
    return tuple((held / runs).tolist())


def ranks_of_models(rng: np.random.Generator, step: float, n_users: int, runs: int) -> tuple[float, float, float]:
    """How often sets of ranks hold the true ranks of five models, how often means give these, and how many ranks a set has.

    Each model's mean is `step` above that of the model before, in standard deviations of a user's value.
    """
    true = step * np.arange(5)
    ranks = [1 + int((true > mean).sum()) for mean in true]
    values = rng.normal(size=(runs, len(true), n_users)) + true[:, None]
    blocks = AllPairsAccumulator(runs, len(true))
    blocks.add(np.arange(n_users), values)
    state = blocks.state()
    held, ordered, size = 0, 0, 0
    for run, means in enumerate(values.mean(axis=2).tolist()):
        sets = rank_sets(all_pairs_of(column(state, run), LEVEL, pairwise=True), means)
        held += all(each.lowest <= rank <= each.highest for rank, each in zip(ranks, sets, strict=True))
        ordered += [each.rank for each in sets] == ranks
        size += sum(each.highest - each.lowest + 1 for each in sets)
    return held / runs, ordered / runs, size / runs / len(true)


# How much those users differ who move: all by as much, evenly, like gains of NDCG, and to both sides.
GAINS: dict[str, tuple[float, Any]] = {
    "equal": (1.0, lambda rng, shape: np.ones(shape)),
    "even": (0.5, lambda rng, shape: rng.random(shape)),
    "skewed": (0.25, lambda rng, shape: rng.beta(1, 3, shape)),
    "mixed": (0.125, lambda rng, shape: rng.beta(1, 3, shape) * rng.choice([1, 1, 1, -1], shape)),
}


def moving(
    rng: np.random.Generator, gains: str, n_moved: float, noise: float, n_users: int, runs: int
) -> tuple[float, list[PairedComparison]]:
    """The true difference, and comparisons of users who move with a small chance.

    `n_moved` users move on average. `noise` is the standard deviation of the differences of all.
    """
    mean, draw = GAINS[gains]
    shape = (runs, n_users)
    baseline = 0.2 + 0.1 * rng.random(shape)
    moves = np.where(rng.random(shape) < n_moved / n_users, draw(rng, shape), 0.0) + rng.normal(0, noise, shape)
    pairs = PairedAccumulator(runs, replicates=0)
    pairs.add(np.arange(n_users), baseline + moves, baseline)
    state = pairs.state()
    return mean * n_moved / n_users, [comparison_of(column(state, run), LEVEL, (-1.0, 2.0)) for run in range(runs)]


def few_moved(rng: np.random.Generator, *of: Any) -> tuple[float, float, float, float]:
    """If few users move: how often t and the interval hold the true difference, and the lift; and how much longer it is."""
    truth, comparisons = moving(rng, *of)
    figures = np.zeros(4)
    for each in comparisons:
        shown, lift, t = each.interval, each.lift_at(LEVEL), t_interval(each.difference, each.standard_error, each.n)
        held = [low - 1e-12 <= truth <= high + 1e-12 for low, high in (t[:2], shown[:2])]
        lift_held = bool(lift.reason) or lift.low - 1e-12 <= truth / 0.25 <= lift.high + 1e-12
        longer = (shown.high - shown.low) / (t.high - t.low) if t.high > t.low else 1.0
        figures += [*held, lift_held, longer]
    return tuple((figures / len(comparisons)).tolist())


def few_moved_by_the_margin(rng: np.random.Generator, *of: Any) -> tuple[float, float]:
    """If few users move, and the margin is the true difference: how often it is said to be within or beyond, by t and by the verdict."""
    margin, comparisons = moving(rng, *of)
    n_false = np.zeros(2)
    for each in comparisons:
        t = t_interval(each.difference, each.standard_error, each.n)
        p, _ = each.p_of("sign_flip", margin)
        verdict = verdict_of(each.interval_at(LEVEL, margin), p, margin=margin, difference=each.difference)
        n_false += [not t.low - 1e-12 <= margin <= t.high + 1e-12, verdict.word != UNDECIDED]
    return tuple((n_false / len(comparisons)).tolist())


def most_gain(rng: np.random.Generator, noise: float, n_users: int, runs: int) -> tuple[float, float]:
    """How often 95% who gain 0.025 and 5% who lose 0.475 make a model better, by t and by the verdict: the true difference is 0."""
    shape = (runs, n_users)
    differences = np.where(rng.random(shape) < 0.05, -0.475, 0.025 + rng.normal(0, noise, shape))
    pairs = PairedAccumulator(runs, replicates=0)
    pairs.add(np.arange(n_users), differences, np.zeros(shape))
    state = pairs.state()
    figures = [comparison_of(column(state, run), LEVEL, SHARE) for run in range(runs)]
    words = [verdict_of(each.interval, each.p_of("sign_flip")[0], difference=each.difference).word for each in figures]
    return sum(each.p_t <= 0.05 and each.difference > 0 for each in figures) / runs, words.count("better") / runs


def metrics_of_hits(hits: Array) -> Array:
    """Fifteen metrics of users, from hits at ten ranks: hit rate, precision and discounted gain at five cutoffs."""
    discounts = 1 / np.log2(np.arange(2, 12))
    cutoffs = (1, 2, 3, 5, 10)
    rates = [hits[..., :k].any(axis=-1) for k in cutoffs]
    precisions = [hits[..., :k].mean(axis=-1) for k in cutoffs]
    gains = [(hits[..., :k] * discounts[:k]).sum(axis=-1) / discounts[:k].sum() for k in cutoffs]
    return np.stack([*rates, *precisions, *gains]).astype(float)


def paired_hits(rng: np.random.Generator, n_users: int, gain: float) -> Array:
    """Hits of a model and of the baseline for users who differ in how easy they are, model × user × rank."""
    easy = rng.beta(1, 4, n_users)[:, None]
    chances = np.stack([np.minimum(1, easy * (1 + gain)), easy]) * np.linspace(1, 0.5, 10)
    return rng.random((2, n_users, 10)) < chances


def joint_coverage(rng: np.random.Generator, n_users: int, gain: float, runs: int) -> tuple[float, float, float]:
    """Intervals of fifteen metrics: how often all hold, alone and corrected; and the share of decided comparisons whose interval misses."""
    model, baseline = metrics_of_hits(paired_hits(rng, 400_000, gain)).mean(axis=-1).T
    held = np.zeros(3)
    for _ in range(runs):
        values = metrics_of_hits(paired_hits(rng, n_users, gain))
        pairs = PairedAccumulator(len(values), replicates=0)
        pairs.add(np.arange(n_users), values[:, 0], values[:, 1])
        state = pairs.state()
        figures = [comparison_of(column(state, place), LEVEL, SHARE) for place in range(len(values))]
        joint = family_of([each.p_of("t")[0] for each in figures], "holm", LEVEL)
        alone, corrected = (
            np.array(
                [interval.low <= truth <= interval.high for interval, truth in zip(each, model - baseline, strict=True)]
            )
            for each in (
                [f.interval for f in figures],
                [f.interval_at(j.level) for f, j in zip(figures, joint, strict=True)],
            )
        )
        decided = np.array([each.p <= 1 - LEVEL for each in joint])
        held += [alone.all(), corrected.all(), (decided & ~corrected).sum() / max(1, decided.sum())]
    return tuple((held / runs).tolist())


def share(rate: float) -> Any:
    """Draws of 0 and 1."""
    return lambda rng, shape: (rng.random(shape) < rate).astype(float)


def reciprocal_ranks(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Users' reciprocal ranks."""
    return rng.choice(RECIPROCAL_RANKS, shape)


def nearly_alike(lost: float, noise: float) -> Any:
    """Draws of 0.9, give or take some noise, and of 0 for users for whom the model fails."""
    return lambda rng, shape: np.where(rng.random(shape) < lost, 0.0, np.clip(rng.normal(0.9, noise, shape), 0, 1))


def held_if_nearly_alike(
    rng: np.random.Generator, lost: float, noise: float, n_users: int, runs: int
) -> tuple[float, float]:
    """How often t without more, and the interval that stands in the table, hold the mean of users who are nearly alike."""
    return coverage(rng, nearly_alike(lost, noise), 0.9 * (1 - lost), n_users, runs)


def slices_table(rng: np.random.Generator, draw: Any, runs: int) -> Iterator[str]:
    """Slices in which two models are alike."""
    yield "| users in a slice | any verdict |\n|---:|---:|"
    for n_users in (2, 3, 5, 10, 20, 40):
        # Below 7 users no p can be small enough.
        yield f"| {n_users} | {false_slices(rng, draw, n_users, runs if n_users > 6 else runs // 10):.3f} |"


def shares_table(rng: np.random.Generator) -> Iterator[str]:
    """Intervals of shares of users."""
    yield "| rate | users | Student's t | what evaluate gives |\n|---:|---:|---:|---:|"
    for rate, n_users in itertools.product((0.02, 0.1, 0.5), (3, 10, 30, 100)):
        plain, shown = coverage(rng, share(rate), rate, n_users, 2000)
        yield f"| {rate} | {n_users} | {plain:.3f} | {shown:.3f} |"


def rare_table(_: np.random.Generator) -> Iterator[str]:
    """Users who are nearly alike, of whom a model fails few. Each figure has the same seed."""
    yield "| users | noise | 2% lost | 2 lost | 4 lost | 8 lost |\n|---:|---:|---:|---:|---:|---:|"
    for n_users, noise in itertools.product((30, 60, 100, 300, 1000), (0, 0.01, 0.03)):
        shares = (0.02, 2 / n_users, 4 / n_users, 8 / n_users)
        rates = (held_if_nearly_alike(np.random.default_rng(8), each, noise, n_users, 2000) for each in shares)
        yield f"| {n_users:,} | {noise} | {' | '.join(f'{plain:.3f} → {shown:.3f}' for plain, shown in rates)} |"


def bootstrap_table(rng: np.random.Generator) -> Iterator[str]:
    """Intervals of reciprocal ranks."""
    truth = float(RECIPROCAL_RANKS.mean())
    yield "| users | Student's t | BCa |\n|---:|---:|---:|"
    for n_users in (3, 5, 10, 30, 100):
        student = coverage(rng, reciprocal_ranks, truth, n_users, 2000)[1]
        yield f"| {n_users} | {student:.3f} | {bca_coverage(rng, reciprocal_ranks, truth, n_users, 1000):.3f} |"


def margins_table(rng: np.random.Generator) -> Iterator[str]:
    """Differences as large as the margin."""
    yield "| comparisons | any false verdict |\n|---:|---:|"
    for family in (1, 20):
        yield f"| {family} | {false_margins(rng, 50, 300, family):.3f} |"


def families_table(rng: np.random.Generator) -> Iterator[str]:
    """Fifteen metrics of the same users."""
    yield "| gain | users | all hold: each alone | all hold: corrected | miss, of decided ones |\n|---:|---:|---:|---:|---:|"
    for gain, n_users in itertools.product((0.0, 0.2), (30, 100, 300, 1000)):
        figures = joint_coverage(rng, n_users, gain, 1000)
        yield f"| {gain:.0%} | {n_users:,} | {' | '.join(f'{figure:.3f}' for figure in figures)} |"


def few_moved_table(rng: np.random.Generator) -> Iterator[str]:
    """Users who seldom move."""
    yield "| gains | users who move | noise | users | t | interval | lift | length |\n|---|---:|---:|---:|---:|---:|---:|---:|"
    for gains, n_moved, noise in itertools.product(GAINS, (3.05, 6, 12), (0.0, 0.01, 0.03)):
        for n_users in (60, 200, 1000) if n_moved > 5 or gains == "equal" else ():
            held = few_moved(rng, gains, n_moved, noise, n_users, 400)
            yield f"| {gains} | {n_moved:g} | {noise:g} | {n_users:,} | {' | '.join(f'{each:.3f}' for each in held)} |"
    yield "\n| 95% gain 0.025 | noise | users | t | verdict |\n|---|---:|---:|---:|---:|"
    for noise, n_users in itertools.product((0.005, 0.01), (20, 60, 100, 300, 1000)):
        figures = most_gain(rng, noise, n_users, 400)
        yield f"| better | {noise:g} | {n_users:,} | {' | '.join(f'{each:.3f}' for each in figures)} |"


def pairs_table(rng: np.random.Generator) -> Iterator[str]:
    """Models of one mean, one of them noisier."""
    yield "| test | any false difference |\n|---|---:|"
    for name, pairwise in (("tukey", False), ("games_howell", True)):
        yield f"| `{name}` | {false_pairs(rng, 50, 1000, pairwise):.3f} |"
    yield "\n| eight models of one mean | sets of ranks by Tukey | by each pair's spread |\n|---|---:|---:|"
    for models in NOISY:
        yield f"| {models} | {' | '.join(f'{each:.3f}' for each in noisy_ranks(rng, models, 60, 300))} |"


def ranks_table(rng: np.random.Generator) -> Iterator[str]:
    """Five models."""
    yield "| steps between means | sets hold all true ranks | means give the true ranks | ranks in a set |\n|---:|---:|---:|---:|"
    for step in (0.0, 0.1, 0.2, 0.4, 0.8):
        held, ordered, size = ranks_of_models(rng, step, 60, 2000)
        yield f"| {step:g} | {held:.3f} | {ordered:.3f} | {size:.1f} |"


TABLES: dict[str, Callable[[np.random.Generator], Iterator[str]]] = {
    "hit_rates": partial(slices_table, draw=hit_rates, runs=400),
    "continuous": partial(slices_table, draw=continuous, runs=400),
    "shares": shares_table,
    "rare": rare_table,
    "bootstrap": bootstrap_table,
    "margins": margins_table,
    "families": families_table,
    "few_moved": few_moved_table,
    "pairs": pairs_table,
    "ranks": ranks_table,
}


if __name__ == "__main__":
    for asked in sys.argv[1:] or TABLES:
        print(f"{asked}\n", flush=True)
        for line in TABLES[asked](np.random.default_rng(211)):
            print(line, flush=True)
        print()
