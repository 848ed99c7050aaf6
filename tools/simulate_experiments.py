"""Simulate experiments without an effect, and slices without a gap: how often verdicts are false, and intervals hold the truth.

`python tools/simulate_experiments.py` prints the tables of docs/evidence/simulations.md, in some ten minutes; `gaps`, `groups`, `skewed`,
`power`, `covariates`, `missing`, `lifts`, `looks` and `starts` name one of them. A test runs a short version of each at night.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from spark_rankeval.comparison.compared_models import ComparedMetric
from spark_rankeval.experiments import covariates
from spark_rankeval.experiments.compare_groups import ComparedGroup, GroupTest
from spark_rankeval.experiments.covariates import Adjusted, GroupSumAccumulator, adjusted_difference, group_of
from spark_rankeval.statistics.comparisons import adjusted
from spark_rankeval.statistics.exact import Mean, Moments, degrees_of_freedom
from spark_rankeval.statistics.groups import TIGHTEST_AT, Difference, Group, difference_of, largest_gap, sequence_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Array = np.ndarray[Any, Any]
Draw = Any

LEVEL = 0.95
SHARE = (0.0, 1.0)
RECIPROCAL_RANKS = np.append(1 / np.arange(1, 10), 0.0)


def continuous(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Users' values without any two alike."""
    return rng.beta(1, 2, shape)


def hit_rates(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Users' hit rates, 1 in 10 of them 1."""
    return (rng.random(shape) < 0.1).astype(float)


def reciprocal_ranks(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Users' reciprocal ranks."""
    return rng.choice(RECIPROCAL_RANKS, shape)


def skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Values with a long tail, such as what users spend: 9 in 10 are 0."""
    return rng.lognormal(0, 1, shape) * (rng.random(shape) < 0.1)


def rare_ranks(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Users' reciprocal ranks, 19 in 20 of them 0."""
    return (rng.random(shape) < 0.05) / rng.integers(1, 11, shape)


def spiked(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Values that are 0.3, and 1 for one user in a hundred."""
    return np.where(rng.random(shape) < 0.01, 1.0, 0.3)


DRAWS = {"continuous": continuous, "hit rate": hit_rates, "reciprocal rank": reciprocal_ranks}


def half_of_ranks(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Users' reciprocal ranks, half of them 0."""
    return (rng.random(shape) < 0.5) / rng.integers(1, 11, shape)


def gains(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Values such as NDCG: 3 in 10 are 0."""
    return rng.beta(1, 2, shape) * (rng.random(shape) < 0.7)


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Normal values."""
    return rng.normal(size=shape)


def counts(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Counts with a long tail."""
    return np.floor(rng.lognormal(0, 1, shape))


def shares_of(rate: float) -> Draw:
    """Users' hit rates with a mean."""
    return lambda rng, shape: (rng.random(shape) < rate).astype(float)


def apart(rng: np.random.Generator, values: Array) -> Array:
    """Weights that have nothing to do with the values."""
    return np.asarray(rng.lognormal(size=values.shape))


def together(rng: np.random.Generator, values: Array) -> Array:
    """Weights that go with the values: those of the largest values are largest."""
    weights: Array = (0.2 + 5 * values) * rng.lognormal(0, 0.1, values.shape)
    return weights


# Values, and what weighs their users.
SKEWED: dict[str, tuple[Draw, Draw | None]] = {
    "rare ranks": (rare_ranks, None),
    "half of ranks": (half_of_ranks, None),
    "hit rate 0.02": (shares_of(0.02), None),
    "hit rate 0.1": (shares_of(0.1), None),
    "hit rate 0.5": (shares_of(0.5), None),
    "normal": (normal, None),
    "counts": (counts, None),
    "gains, weights apart": (gains, apart),
    "gains, weights that go with them": (gains, together),
    "half of ranks, weights apart": (half_of_ranks, apart),
    "half of ranks, weights that go with them": (half_of_ranks, together),
    "rare ranks, weights that go with them": (rare_ranks, together),
}


def groups_of(samples: Array, weights: Array | None = None) -> list[Group]:
    """Groups of users: each row of samples is one."""
    figures = [(samples == 0).sum(axis=1), samples.mean(axis=1), samples.std(axis=1, ddof=1), samples.min(axis=1)]
    figures += [samples.max(axis=1), samples.sum(axis=1), (samples**2).sum(axis=1)]
    groups = []
    for n_zero, mean, std, least, greatest, total, squares in zip(*(each.tolist() for each in figures), strict=True):
        # Equal values have a spread by rounding.
        spread, sums = std if greatest > least else 0.0, {"y": Fraction(total), "yy": Fraction(squares)}
        moments = Moments(samples.shape[1], 0, n_zero, mean, spread, least, greatest, total, sums)
        groups.append(Group("", moments, bounds=SHARE))
    if weights is None:
        return groups
    total, n = weights.sum(axis=1), samples.shape[1]
    mean = (weights * samples).sum(axis=1) / total
    error = np.sqrt(n / (n - 1) * (weights**2 * (samples - mean[:, None]) ** 2).sum(axis=1)) / total
    effective, cubes = total**2 / (weights**2).sum(axis=1), (weights**3).sum(axis=1)
    dfs = [
        degrees_of_freedom(Fraction(w), Fraction(www)) for w, www in zip(total.tolist(), cubes.tolist(), strict=True)
    ]
    return [
        replace(group, weighted=Mean(n, 0, 0, 0, is_weighted=True, mean=m, standard_error=e, effective_n=k, df=df))
        for group, m, e, k, df in zip(groups, mean.tolist(), error.tolist(), effective.tolist(), dfs, strict=True)
    ]


def is_far(difference: Difference) -> bool:
    """Whether p can be small. Nearer to 0 than 1.95 standard errors it never is, and need not be known."""
    return difference.rare is not None or abs(difference.estimate) >= 1.95 * difference.standard_error


def false_gaps(
    rng: np.random.Generator, draw: Draw, n_users: int, n_slices: int, runs: int
) -> tuple[float, float, float]:
    """How often slices of one mean have a largest gap beyond 0, any has a verdict against all others, and has one by Welch's test alone."""
    n_false = np.zeros(3)
    for _ in range(runs):
        samples = draw(rng, (n_slices, n_users))
        groups = groups_of(samples)
        others = groups_of(np.stack([np.delete(samples, place, axis=0).ravel() for place in range(n_slices)]))
        least = [largest_gap(groups).p_of()]
        by_welch = [difference_of(*pair) for pair in zip(groups, others, strict=True)]
        guarded = [each.cautious(pair) for each, pair in zip(by_welch, zip(groups, others, strict=True), strict=True)]
        for differences in (guarded, by_welch):
            p_values = [each.p_of() if is_far(each) else 1.0 for each in differences]
            least.append(np.nanmin(adjusted(p_values), initial=1.0))
        n_false += np.array(least) <= 1 - LEVEL
    largest, against, by_welch = (n_false / runs).tolist()
    return largest, against, by_welch


def held(rng: np.random.Generator, draw: Draw, n_users: int, n_others: int, runs: int) -> float:
    """How often the interval of two groups of one mean holds 0; no interval counts as holding."""
    return 1 - verdicts(rng, draw, (n_users, n_others), runs)[1]


def verdicts(
    rng: np.random.Generator,
    draw: Draw,
    sizes: tuple[int, int],
    runs: int,
    weigh: Draw | None = None,
    more: float = 0.0,
) -> tuple[float, float, float]:
    """How often intervals of two groups leave 0 out, by Welch's test alone and as `compare_groups` has them; and how much wider these are.

    The values of the first group are larger by `more` on average.
    """
    samples = [draw(rng, (runs, n_users)) for n_users in sizes]
    samples[0] += more
    pairs = zip(*(groups_of(each, None if weigh is None else weigh(rng, each)) for each in samples), strict=True)
    n_rejected, widths = np.zeros(2), np.zeros(2)
    for pair in pairs:
        by_welch = difference_of(*pair)
        intervals = [each.interval(LEVEL) for each in (by_welch, by_welch.cautious(pair))]
        n_rejected += [not interval.low <= 0 <= interval.high for interval in intervals]
        widths += [interval.high - interval.low for interval in intervals]
    by_welch_alone, cautious = (n_rejected / runs).tolist()
    return by_welch_alone, cautious, float(widths[1] / widths[0])


def explained(rng: np.random.Generator, n_users: int) -> tuple[Array, Array]:
    """A covariate, and values of which it explains half of the variance."""
    before = rng.gamma(2, 1 / np.sqrt(2), n_users)
    return before, np.sqrt(0.5) * before + np.sqrt(0.5) * rng.gamma(2, 1 / np.sqrt(2), n_users)


def rare_before(rng: np.random.Generator, n_users: int) -> tuple[Array, Array]:
    """Reciprocal ranks before and during a test, 19 in 20 of them 0; some users tend to have others."""
    tendency = rng.beta(0.1, 1.9, n_users)
    before, during = ((rng.random(n_users) < tendency) / rng.integers(1, 11, n_users) for _ in range(2))
    return before, during


def adjusted_groups(
    samples: Sequence[tuple[Array, Array]], weights: Sequence[Array] = ()
) -> tuple[Difference, tuple[Group, Group], Adjusted]:
    """The difference of two groups without a covariate, the groups, and the difference adjusted for the covariate."""
    groups, sums = [], []
    for place, (before, values) in enumerate(samples):
        accumulator = GroupSumAccumulator(1, weighted=bool(weights), covariate=True)
        accumulator.add(values[None], weights[place] if weights else None, before)
        group, group_sums = group_of({name: each[0] for name, each in accumulator.state().items()}, "")
        groups.append(group)
        assert group_sums is not None
        sums.append(group_sums)
    pair = (groups[0], groups[1])
    plain = difference_of(*pair)
    return plain, pair, adjusted_difference(plain, pair, (sums[0], sums[1]))


def lifts_held(
    rng: np.random.Generator, sizes: tuple[int, int], runs: int, *, weighted: bool = False, lift: float = 1.0
) -> tuple[float, float]:
    """How often intervals hold the true lift, if the covariate explains most: with its mean taken as known, and as given."""
    n_held = np.zeros(2)
    for _ in range(runs):
        befores = [rng.gamma(2, 1, n_users) for n_users in sizes]
        samples = [(before, 1 + before + rng.normal(0, 0.3, len(before))) for before in befores]
        samples[0][1][:] += 3 * lift
        weights = [rng.lognormal(0, 0.7, n_users) for n_users in sizes] if weighted else []
        _, pair, adjustment = adjusted_groups(samples, weights)
        difference = adjustment.difference.cautious(pair)
        adjustment = adjustment._replace(difference=difference)
        fixed_mean = adjustment._replace(extra_variance=0.0, extra_covariance=0.0)
        for place, each in enumerate((fixed_mean, adjustment)):
            compared = ComparedGroup(ComparedMetric("metric"), pair, each, difference.interval(LEVEL), np.nan, 0)
            interval = compared.lift_at(LEVEL, GroupTest(LEVEL, "holm", None))
            n_held[place] += interval.low <= lift <= interval.high
    fixed, estimated = (n_held / runs).tolist()
    return fixed, estimated


def with_covariate(
    rng: np.random.Generator, sizes: tuple[int, int], runs: int, draw: Draw = explained
) -> tuple[float, float, float, float]:
    """How often intervals hold 0: without a covariate, with one by Welch's test alone, and as given; and the variance that it saves.

    A tenth of the users lack the covariate.
    """
    n_held = np.zeros(3)
    saved = []
    for _ in range(runs):
        samples = [draw(rng, n_users) for n_users in sizes]
        for before, _ in samples:
            before[rng.random(len(before)) < 0.1] = np.nan
        plain, pair, adjustment = adjusted_groups(samples)
        differences = (plain.cautious(pair), adjustment.difference, adjustment.difference.cautious(pair))
        n_held += [not each.p_of() < 1 - LEVEL for each in differences]
        saved.append(adjustment.variance_saved)
    plain_rate, by_welch, cautious = (n_held / runs).tolist()
    return plain_rate, by_welch, cautious, float(np.nanmean(saved))


# Who lacks the covariate, by it and by the values.
MISSING: dict[str, Callable[[np.random.Generator, Array, Array], Array]] = {
    "nobody": lambda rng, before, values: np.zeros(len(before), np.bool_),
    "1 in 10": lambda rng, before, values: rng.random(len(before)) < 0.1,
    "half": lambda rng, before, values: rng.random(len(before)) < 0.5,
    "the lowest fifth": lambda rng, before, values: before < 0.583,
    "the lower half": lambda rng, before, values: before < 1.187,
    "the highest fifth": lambda rng, before, values: before > 2.117,
    "values below the median": lambda rng, before, values: values < np.median(values),
    "everybody": lambda rng, before, values: np.ones(len(before), np.bool_),
}


def false_if_missing(
    rng: np.random.Generator, sizes: tuple[int, int], runs: int, patterns: tuple[str, str]
) -> tuple[float, float]:
    """How often two groups of one mean differ if these users of each lack the covariate: as given, and if that counts as chance."""
    n_false = np.zeros(2)
    for _ in range(runs):
        samples = [explained(rng, n_users) for n_users in sizes]
        for (before, values), pattern in zip(samples, patterns, strict=True):
            before[MISSING[pattern](rng, before, values)] = np.nan
        for place, level in enumerate((covariates._UNEVEN, np.inf)):
            with patch.object(covariates, "_UNEVEN", level):
                _, pair, adjustment = adjusted_groups(samples)
            n_false[place] += adjustment.difference.cautious(pair).p_of() <= 1 - LEVEL
    as_given, trusting = (n_false / runs).tolist()
    return as_given, trusting


def false_alarms(
    rng: np.random.Generator, draw: Draw, n_a_look: int, share: float, runs: int, looks: int = 50, *, waits: bool = True
) -> tuple[float, float, float]:
    """How often two groups of one mean differ at any look: by Welch's interval, by the sequence, and by Welch's at the last look.

    Args:
        rng: where random numbers come from.
        draw: the users' values.
        n_a_look: how many users come between two looks.
        share: the share of them that is in the first group.
        runs: how many experiments there are.
        looks: how many looks each has.
        waits: whether the sequence waits for more than 100 users if a few values are far from most.
    """
    n_alarms = np.zeros(3)
    for _ in range(runs):
        sizes = [max(1, round(n_a_look * part)) * np.arange(1, looks + 1) for part in (share, 1 - share)]
        groups_by_look = [_groups_at(draw(rng, (size[-1],)), size, has_range=waits) for size in sizes]
        fixed, sequence = [False], [False]
        for groups in zip(*groups_by_look, strict=True):
            difference = difference_of(*groups)
            # Before users differ there is no interval.
            if difference.standard_error:
                far = is_far(difference)
                fixed.append(far and difference.p_of() <= 1 - LEVEL)
                sequence.append(far and sequence_of(difference, LEVEL, groups, TIGHTEST_AT)[1] <= 1 - LEVEL)
        n_alarms += (any(fixed), any(sequence), fixed[-1])
    fixed_share, sequence_share, last_share = (n_alarms / runs).tolist()
    return fixed_share, sequence_share, last_share


def _groups_at(values: Array, sizes: Array, *, has_range: bool) -> list[Group]:
    """The groups of the first users, at each number of them; without bounds, so that no other interval takes the place of Welch's."""
    total, squares = np.cumsum(values), np.cumsum((values - values.mean()) ** 2)
    least, greatest = np.minimum.accumulate(values), np.maximum.accumulate(values)
    found = []
    for n in sizes.tolist():
        mean = float(total[n - 1]) / n
        spread = float(squares[n - 1]) - n * (mean - float(values.mean())) ** 2
        std = (max(spread, 0.0) / max(n - 1, 1)) ** 0.5
        low, high = (float(least[n - 1]), float(greatest[n - 1])) if has_range else (mean, mean)
        found.append(Group("", Moments(n, 0, 0, mean, std, low, high, float(total[n - 1]), None)))
    return found


def gaps_table(_: np.random.Generator) -> Iterator[str]:
    """Slices of one mean; the largest gap, and any slice against all others. Each row has the same seed."""
    yield "| values | users a slice | slices | false largest gap | any false slice | by Welch's test alone |"
    yield "|---|---:|---:|---:|---:|---:|"
    ranks = (10, 10), (30, 3), (30, 10), (100, 3), (100, 10), (100, 30), (300, 10), (1000, 10)
    cases = [("reciprocal rank", reciprocal_ranks, *size) for size in ranks]
    cases += [
        ("continuous", continuous, 100, 10),
        ("rare ranks", rare_ranks, 100, 10),
        ("rare ranks", rare_ranks, 1000, 10),
    ]
    cases += [("skewed", skewed, 100, 10), ("skewed", skewed, 1000, 10)]
    for name, draw, n_users, n_slices in cases:
        rates = false_gaps(np.random.default_rng(7), draw, n_users, n_slices, 2000)
        yield f"| {name} | {n_users:,} | {n_slices} | {' | '.join(f'{rate:.3f}' for rate in rates)} |"


def groups_table(rng: np.random.Generator) -> Iterator[str]:
    """Two groups of one mean."""
    yield "| users | baseline's | continuous | hit rate | reciprocal rank |\n|---:|---:|---:|---:|---:|"
    for n_users, n_others in ((3, 3), (5, 5), (5, 50), (10, 10), (30, 30), (30, 300), (100, 100), (1000, 1000)):
        shares = (held(rng, draw, n_users, n_others, 2000) for draw in DRAWS.values())
        yield f"| {n_users:,} | {n_others:,} | {' | '.join(f'{share:.3f}' for share in shares)} |"


def skewed_table(_: np.random.Generator) -> Iterator[str]:
    """Two groups of one mean, with values of which few are far from most, and with weights. Each figure has the same seed."""
    sizes = ((30, 30), (30, 300), (100, 1000), (200, 2000), (1000, 1000))
    yield f"| values | {' | '.join(f'{n_users:,}, {n_others:,}' for n_users, n_others in sizes)} |\n|---|---:|---:|---:|---:|---:|"
    for name, (draw, weigh) in SKEWED.items():
        rates = (verdicts(np.random.default_rng(8), draw, each, 4000, weigh)[:2] for each in sizes)
        yield f"| {name} | {' | '.join(f'{alone:.3f} → {cautious:.3f}' for alone, cautious in rates)} |"


def power_table(_: np.random.Generator) -> Iterator[str]:
    """Two groups whose means differ: how often a difference is found. Each row has the same seed."""
    yield "| values | users | baseline's | found by Welch's test alone | found as given | width |\n|---|---:|---:|---:|---:|---:|"
    for name, draw, spread in (("normal", normal, 1.0), ("hit rate 0.3", shares_of(0.3), 0.46), ("gains", gains, 0.25)):
        for sizes in ((200, 200), (1000, 1000), (100, 1000)):
            # 2.8 standard errors, which a test finds in 80 of 100 cases.
            more = 2.8 * spread * (1 / sizes[0] + 1 / sizes[1]) ** 0.5
            alone, cautious, width = verdicts(np.random.default_rng(8), draw, sizes, 4000, more=more)
            yield f"| {name} | {sizes[0]:,} | {sizes[1]:,} | {alone:.3f} | {cautious:.3f} | × {width:.3f} |"


def covariates_table(rng: np.random.Generator) -> Iterator[str]:
    """Two groups of one mean and a covariate, which explains half of the variance, or is skewed as the values are."""
    yield "| values | users | baseline's | holds 0 without | with, by Welch's test alone | with, as given | variance saved |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    cases = [("explained", explained, (n_users, n_users)) for n_users in (3, 5, 10, 30, 100, 1000)]
    cases += [("rare ranks", rare_before, sizes) for sizes in ((30, 300), (100, 1000), (200, 2000))]
    for name, draw, sizes in cases:
        *shares, saved = with_covariate(rng, sizes, 2000, draw)
        cells = " | ".join(f"{share:.3f}" for share in shares)
        yield f"| {name} | {sizes[0]:,} | {sizes[1]:,} | {cells} | {100 * saved:.0f}% |"


def missing_table(_: np.random.Generator) -> Iterator[str]:
    """Two groups of one mean, of which each lacks the covariate otherwise. Each figure has the same seed."""
    sizes = ((30, 30), (100, 100), (1000, 1000))
    yield f"| one group lacks it | the other | {' | '.join(f'{a:,}, {b:,}' for a, b in sizes)} |\n|---|---|---:|---:|---:|"
    others = [("1 in 10", "the lowest fifth"), ("half", "the lower half"), ("the lowest fifth", "the highest fifth")]
    for patterns in [("nobody", each) for each in MISSING] + others + [("the lower half", "the lower half")]:
        rates = (false_if_missing(np.random.default_rng(8), each, 300, patterns) for each in sizes)
        yield f"| {' | '.join(patterns)} | {' | '.join(f'{trusting:.3f} → {given:.3f}' for given, trusting in rates)} |"


def lifts_table(rng: np.random.Generator) -> Iterator[str]:
    """Two groups, a covariate that explains most of the variance, and a lift of 100%."""
    yield "| users | baseline's | weights | with the covariate's mean taken as known | as given |\n|---:|---:|---|---:|---:|"
    for sizes in ((50, 50), (200, 50), (50, 200), (300, 300), (1000, 200), (200, 1000)):
        for weighted in (False, True):
            shares = " | ".join(f"{share:.3f}" for share in lifts_held(rng, sizes, 2000, weighted=weighted))
            yield f"| {sizes[0]:,} | {sizes[1]:,} | {'unequal' if weighted else ''} | {shares} |"


def looks_table(rng: np.random.Generator) -> Iterator[str]:
    """Two groups of one mean, looked at 50 times."""
    yield "| values | users a look | in the first group | Welch at any look | sequence at any look | Welch at the last |"
    yield "|---|---:|---:|---:|---:|---:|"
    for name, draw in {**DRAWS, "skewed": skewed}.items():
        for n_a_look, share in ((20, 0.5), (200, 0.5), (200, 0.1)):
            fixed, sequence, last = false_alarms(rng, draw, n_a_look, share, 1000)
            yield f"| {name} | {n_a_look} | {100 * share:.0f}% | {fixed:.3f} | {sequence:.3f} | {last:.3f} |"


def starts_table(_: np.random.Generator) -> Iterator[str]:
    """Values of which few are far from most, looked at 50 times, with and without waiting for more users. Each figure has one seed."""
    yield "| values | in the first group | from 100 users on | waits for more users |\n|---|---:|---:|---:|"
    draws = {"hit rate": hit_rates, "rare ranks": rare_ranks, "spiked": spiked, "skewed": skewed}
    for name, draw in draws.items():
        for share, n_a_look in ((0.1, 500), (0.02, 2500)):
            rates = (
                false_alarms(np.random.default_rng(9), draw, n_a_look, share, 1000, waits=waits)[1]
                for waits in (False, True)
            )
            yield f"| {name} | {100 * share:.0f}% | {' | '.join(f'{rate:.3f}' for rate in rates)} |"


TABLES: dict[str, Callable[[np.random.Generator], Iterator[str]]] = {
    "gaps": gaps_table,
    "groups": groups_table,
    "skewed": skewed_table,
    "power": power_table,
    "covariates": covariates_table,
    "missing": missing_table,
    "lifts": lifts_table,
    "looks": looks_table,
    "starts": starts_table,
}


if __name__ == "__main__":
    for asked in sys.argv[1:] or TABLES:
        print(f"{asked}\n", flush=True)
        for line in TABLES[asked](np.random.default_rng(261)):
            print(line, flush=True)
        print()
