"""Simulate experiments without an effect, and slices without a gap: how often verdicts are false, and intervals hold the truth.

`python tools/simulate_experiments.py` prints the tables of docs/evidence/experiments.md, in some five minutes; `gaps`, `groups`,
`covariates`, `looks` and `starts` name one of them. A test runs a short version of each.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from spark_rankeval.statistics.covariates import adjusted_difference
from spark_rankeval.statistics.group_sums import GroupAccumulator, group_of
from spark_rankeval.statistics.groups import Difference, Group, difference_of
from spark_rankeval.statistics.largest_gap import largest_gap
from spark_rankeval.statistics.moments import Moments
from spark_rankeval.statistics.multiplicity import adjusted
from spark_rankeval.statistics.sequences import TIGHTEST_AT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


DRAWS = {"continuous": continuous, "hit rate": hit_rates, "reciprocal rank": reciprocal_ranks}


def groups_of(samples: Array) -> list[Group]:
    """Groups of users: each row of samples is one."""
    accumulator = GroupAccumulator(len(samples))
    accumulator.add(samples)
    state = accumulator.state()
    return [
        group_of({name: each[place] for name, each in state.items()}, "", SHARE)[0] for place in range(len(samples))
    ]


def false_gaps(rng: np.random.Generator, draw: Draw, n_users: int, n_slices: int, runs: int) -> tuple[float, float]:
    """How often slices of one mean have a largest gap beyond 0, and how often any has a verdict against all others."""
    largest = against = 0
    for _ in range(runs):
        samples = draw(rng, (n_slices, n_users))
        groups = groups_of(samples)
        largest += largest_gap(groups, LEVEL).p_of() < 1 - LEVEL
        p_values = []
        for place, group in enumerate(groups):
            (others,) = groups_of(np.delete(samples, place, axis=0).reshape(1, -1))
            p_values.append(difference_of(group, others, cautious=True).p_of())
        against += bool(np.nanmin(adjusted(p_values), initial=1.0) <= 1 - LEVEL)
    return largest / runs, against / runs


def held(rng: np.random.Generator, draw: Draw, n_users: int, n_others: int, runs: int) -> float:
    """How often the interval of two groups of one mean holds 0; no interval counts as holding."""
    ones, others = groups_of(draw(rng, (runs, n_users))), groups_of(draw(rng, (runs, n_others)))
    # The interval ends at 0 if p is 1 − level.
    p_values = [difference_of(group, other).p_of() for group, other in zip(ones, others, strict=True)]
    return sum(not p < 1 - LEVEL for p in p_values) / runs


def with_covariate(rng: np.random.Generator, n_users: int, runs: int, share: float = 0.5) -> tuple[float, float, float]:
    """How often intervals hold 0 without and with a covariate, and the mean share of the variance that it saves.

    The covariate explains `share` of the variance, and a tenth of the users lack it.
    """
    n_plain = n_adjusted = 0
    saved = []
    for _ in range(runs):
        groups, sums = [], []
        for _ in range(2):
            before = rng.gamma(2, 1 / np.sqrt(2), n_users)
            values = np.sqrt(share) * before + np.sqrt(1 - share) * rng.gamma(2, 1 / np.sqrt(2), n_users)
            before[rng.random(n_users) < 0.1] = np.nan
            accumulator = GroupAccumulator(1, covariate=True)
            accumulator.add(values[None], covariate=before)
            group, of_group = group_of({name: each[0] for name, each in accumulator.state().items()}, "")
            groups.append(group)
            assert of_group is not None
            sums.append(of_group)
        plain = difference_of(*groups)
        found = adjusted_difference(plain, (groups[0], groups[1]), (sums[0], sums[1]))
        n_plain += plain.p_of() >= 1 - LEVEL
        n_adjusted += found.difference.p_of() >= 1 - LEVEL
        saved.append(found.variance_saved)
    return n_plain / runs, n_adjusted / runs, float(np.nanmean(saved))


def false_alarms(
    rng: np.random.Generator, draw: Draw, n_a_look: int, share: float, runs: int, looks: int = 50, least: int = 2
) -> tuple[float, float, float]:
    """How often two groups of one mean differ at any look: by Welch's interval, by the sequence, and by Welch's at the last look.

    Args:
        rng: where random numbers come from.
        draw: the users' values.
        n_a_look: how many users come between two looks.
        share: the share of them that is in the first group.
        runs: how many experiments there are.
        looks: how many looks each has.
        least: at how many users in the smaller group the first look is.
    """
    at_any = np.zeros(3)
    for _ in range(runs):
        sizes = [max(1, round(n_a_look * part)) * np.arange(1, looks + 1) for part in (share, 1 - share)]
        moments = [_moments_at(draw(rng, (size[-1],)), size) for size in sizes]
        fixed, sequence = [], []
        for (mean, variance, n), (other_mean, other_variance, other_n) in zip(*moments, strict=True):
            difference = Difference(mean - other_mean, (variance / n, other_variance / other_n), (n - 1, other_n - 1))
            # Before users differ there is no interval.
            if min(n, other_n) < least or not difference.standard_error:
                continue
            fixed.append(difference.p_of() <= 1 - LEVEL)
            groups = (_known_group(mean, variance, n), _known_group(other_mean, other_variance, other_n))
            sequence.append(difference.at_any_time(LEVEL, groups, TIGHTEST_AT)[1] <= 1 - LEVEL)
        at_any += (any(fixed), any(sequence), fixed[-1])
    fixed_share, sequence_share, last_share = (at_any / runs).tolist()
    return fixed_share, sequence_share, last_share


def _known_group(mean: float, variance: float, n: int) -> Group:
    return Group("", Moments(n, 0, 0, mean, variance**0.5, mean, mean, mean * n, None))


def _moments_at(values: Array, sizes: Array) -> list[tuple[float, float, int]]:
    """The mean, the variance and the number of the first users, at each number of them."""
    total, squares = np.cumsum(values), np.cumsum((values - values.mean()) ** 2)
    found = []
    for n in sizes.tolist():
        mean = total[n - 1] / n
        spread = squares[n - 1] - n * (mean - values.mean()) ** 2
        found.append((float(mean), float(max(spread, 0.0) / max(n - 1, 1)), n))
    return found


def gaps_table(_: np.random.Generator) -> Iterator[str]:
    """Slices of one mean; the largest gap, and any slice against all others. Each row has the same seed."""
    yield "| users a slice | slices | false largest gap | any false slice |\n|---:|---:|---:|---:|"
    for n_users, n_slices in ((3, 10), (10, 10), (30, 3), (30, 10), (100, 10)):
        largest, against = false_gaps(np.random.default_rng(7), reciprocal_ranks, n_users, n_slices, 100)
        yield f"| {n_users} | {n_slices} | {largest:.3f} | {against:.3f} |"


def groups_table(rng: np.random.Generator) -> Iterator[str]:
    """Two groups of one mean."""
    yield "| users | baseline's | continuous | hit rate | reciprocal rank |\n|---:|---:|---:|---:|---:|"
    for n_users, n_others in ((3, 3), (5, 5), (5, 50), (10, 10), (30, 30), (30, 300), (100, 100), (1000, 1000)):
        shares = (held(rng, draw, n_users, n_others, 2000) for draw in DRAWS.values())
        yield f"| {n_users} | {n_others} | {' | '.join(f'{share:.3f}' for share in shares)} |"


def covariates_table(rng: np.random.Generator) -> Iterator[str]:
    """Two groups of one mean, and a covariate that explains half of the variance."""
    yield "| users a group | holds 0 without | holds 0 with | variance saved |\n|---:|---:|---:|---:|"
    for n_users in (3, 5, 10, 30, 100, 1000):
        plain, with_it, saved = with_covariate(rng, n_users, 2000)
        yield f"| {n_users} | {plain:.3f} | {with_it:.3f} | {100 * saved:.0f} % |"


def looks_table(rng: np.random.Generator) -> Iterator[str]:
    """Two groups of one mean, looked at 50 times."""
    yield "| values | users a look | in the first group | Welch at any look | sequence at any look | Welch at the last |"
    yield "|---|---:|---:|---:|---:|---:|"
    for name, draw in {**DRAWS, "skewed": skewed}.items():
        for n_a_look, share in ((20, 0.5), (200, 0.5), (200, 0.1)):
            fixed, sequence, last = false_alarms(rng, draw, n_a_look, share, 500)
            yield f"| {name} | {n_a_look} | {100 * share:.0f} % | {fixed:.3f} | {sequence:.3f} | {last:.3f} |"


def starts_table(_: np.random.Generator) -> Iterator[str]:
    """Skewed values, looked at 100 times, with the first look at more and more users. Each row has the same seed."""
    yield "| first look at | 10 % in the first group | 2 % in the first group |\n|---:|---:|---:|"
    for least in (100, 200, 500, 1000, 2000):
        rates = []
        for share, n_a_look in ((0.1, 500), (0.02, 2500)):
            found = false_alarms(np.random.default_rng(9), skewed, n_a_look, share, 1000, 100, least)
            rates.append(f"{found[1]:.3f}")
        yield f"| {least:,} | {' | '.join(rates)} |"


TABLES: dict[str, Callable[[np.random.Generator], Iterator[str]]] = {
    "gaps": gaps_table,
    "groups": groups_table,
    "covariates": covariates_table,
    "looks": looks_table,
    "starts": starts_table,
}


if __name__ == "__main__":
    for asked in sys.argv[1:] or TABLES:
        print(f"{asked}\n", flush=True)
        for line in TABLES[asked](np.random.default_rng(261)):
            print(line, flush=True)
        print()
