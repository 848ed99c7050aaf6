"""Simulate experiments without an effect, and slices without a gap: how often verdicts are false, and intervals hold the truth.

`python tools/simulate_experiments.py` prints the tables of docs/evidence/experiments.md, in some ten minutes; `gaps`, `groups`,
`covariates`, `looks` and `starts` name one of them. A test runs a short version of each.
"""

from __future__ import annotations

import sys
from fractions import Fraction
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


def rare_ranks(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Users' reciprocal ranks, 19 in 20 of them 0."""
    return (rng.random(shape) < 0.05) / rng.integers(1, 11, shape)


def spiked(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Values that are 0.3, and 1 for one user in a hundred."""
    return np.where(rng.random(shape) < 0.01, 1.0, 0.3)


DRAWS = {"continuous": continuous, "hit rate": hit_rates, "reciprocal rank": reciprocal_ranks}


def groups_of(samples: Array) -> list[Group]:
    """Groups of users: each row of samples is one."""
    figures = [(samples == 0).sum(axis=1), samples.mean(axis=1), samples.std(axis=1, ddof=1), samples.min(axis=1)]
    figures += [samples.max(axis=1), samples.sum(axis=1), (samples**2).sum(axis=1)]
    groups = []
    for n_zero, mean, std, least, greatest, total, squares in zip(*(each.tolist() for each in figures), strict=True):
        # Equal values have a spread by rounding.
        spread, sums = std if greatest > least else 0.0, {"y": Fraction(total), "yy": Fraction(squares)}
        moments = Moments(samples.shape[1], 0, n_zero, mean, spread, least, greatest, total, sums)
        groups.append(Group("", moments, bounds=SHARE))
    return groups


def is_far(difference: Difference) -> bool:
    """Whether p can be small. Nearer to 0 than 1.95 standard errors it never is, and need not be known."""
    return difference.rare is not None or abs(difference.estimate) >= 1.95 * difference.standard_error


def false_gaps(
    rng: np.random.Generator, draw: Draw, n_users: int, n_slices: int, runs: int
) -> tuple[float, float, float]:
    """How often slices of one mean have a largest gap beyond 0, any has a verdict against all others, and has one by Welch's test alone."""
    found = np.zeros(3)
    for _ in range(runs):
        samples = draw(rng, (n_slices, n_users))
        groups = groups_of(samples)
        others = groups_of(np.stack([np.delete(samples, place, axis=0).ravel() for place in range(n_slices)]))
        least = [largest_gap(groups, LEVEL).p_of()]
        for cautious in (True, False):
            differences = [difference_of(*pair, cautious=cautious) for pair in zip(groups, others, strict=True)]
            p_values = [each.p_of() if is_far(each) else 1.0 for each in differences]
            least.append(np.nanmin(adjusted(p_values), initial=1.0))
        found += np.array(least) <= 1 - LEVEL
    largest, against, by_welch = (found / runs).tolist()
    return largest, against, by_welch


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
    at_any = np.zeros(3)
    for _ in range(runs):
        sizes = [max(1, round(n_a_look * part)) * np.arange(1, looks + 1) for part in (share, 1 - share)]
        groups_at = [_groups_at(draw(rng, (size[-1],)), size, has_range=waits) for size in sizes]
        fixed, sequence = [False], [False]
        for groups in zip(*groups_at, strict=True):
            difference = difference_of(*groups)
            # Before users differ there is no interval.
            if difference.standard_error:
                far = is_far(difference)
                fixed.append(far and difference.p_of() <= 1 - LEVEL)
                sequence.append(far and difference.at_any_time(LEVEL, groups, TIGHTEST_AT)[1] <= 1 - LEVEL)
        at_any += (any(fixed), any(sequence), fixed[-1])
    fixed_share, sequence_share, last_share = (at_any / runs).tolist()
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
            fixed, sequence, last = false_alarms(rng, draw, n_a_look, share, 1000)
            yield f"| {name} | {n_a_look} | {100 * share:.0f} % | {fixed:.3f} | {sequence:.3f} | {last:.3f} |"


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
            yield f"| {name} | {100 * share:.0f} % | {' | '.join(f'{rate:.3f}' for rate in rates)} |"


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
