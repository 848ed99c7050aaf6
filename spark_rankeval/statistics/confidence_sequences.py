"""Intervals that hold at all times together, so that one may look every day and stop at any.

Source: Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, Time-uniform central limit theory and asymptotic confidence sequences
(arXiv:2103.06476, 2021; Annals of Statistics 2024), theorem 2.2. With the mean of n users and their standard deviation σ it is

    mean ± σ √( 2 (nρ² + 1) / (n²ρ²) · ln( √(nρ² + 1) / α ) ).

It approximates a sequence that holds the true mean at all n with the probability 1 − α: the normal mixture of Robbins (1970).
σ / √n is the standard error. Other estimates that are close to normal have one too, such as a difference of two means.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from spark_rankeval.statistics.independent_groups import RARE, Difference, Group, needed_users
from spark_rankeval.statistics.intervals import Interval
from spark_rankeval.statistics.moments import LEAST_USERS

SEQUENCE = "confidence_sequence"
#: A sequence begins when each group has this number of times (range / standard deviation)² users: `moments.users_needed`.
TIMES_SPREAD = 5
#: The number of users, of both groups together, at which a sequence is tightest by default.
TIGHTEST_AT = 10_000


def squared_rho(tightest_at: float, level: float) -> float:
    """ρ² for which the sequence is tightest at a number of users, as the authors approximate it."""
    doubled = -2 * math.log(1 - level)
    return (doubled + math.log(doubled + 1)) / tightest_at


def half_width(n: float, level: float, tightest_at: float) -> float:
    """The half-width of a sequence after n users, in standard errors."""
    spent = n * squared_rho(tightest_at, level)
    return math.sqrt(2 * (spent + 1) / spent * (math.log1p(spent) / 2 - math.log(1 - level)))


def always_valid_p(z: float, n: float, level: float, tightest_at: float) -> float:
    """The p-value of an estimate z standard errors from 0 after n users: 1 − level of the sequence that ends at 0.

    ρ is that of the level which is asked for. The probability that p is ever at most α is α, if the estimate is of 0 (Johari,
    Koomen, Pekelis and Walsh 2017).
    """
    spent = n * squared_rho(tightest_at, level)
    return min(1.0, math.exp(math.log1p(spent) / 2 - z * z * spent / (2 * (spent + 1))))


def sequence_of(
    difference: Difference, level: float, groups: tuple[Group, Group], tightest_at: float, margin: float = 0.0
) -> tuple[Interval, float]:
    """The interval and the p-value of a difference that hold at all looks together."""
    n_users, n_others = (group.effective_n for group in groups)
    problem = difference.problem or _too_early(groups, (LEAST_USERS, LEAST_USERS))
    if not problem and difference.rare:
        same = next((group for group in groups if not group.has_spread), None)
        problem = (
            f"a confidence sequence of rare values begins when {RARE} users have each of them"
            if same is None
            else f"a confidence sequence begins when users differ; all of {same.name} have the same value"
        )
    if not problem:
        spreads = [group.variance * group.effective_n for group in groups]
        problem = _too_early(groups, needed_users(groups, spreads, TIMES_SPREAD))
    if problem:
        return Interval.missing(level, SEQUENCE, problem), math.nan
    n = n_users + n_others
    width = half_width(n, level, tightest_at) * difference.standard_error
    interval = Interval(difference.estimate - width, difference.estimate + width, level, SEQUENCE).within(
        difference.bounds
    )
    z = abs(abs(difference.estimate) - margin) / difference.standard_error
    return interval, always_valid_p(z, n, level, tightest_at)


def _too_early(groups: tuple[Group, Group], needed: Sequence[float]) -> str:
    """Why a confidence sequence has not begun, if each group needs so many users; empty if it has."""
    group, least = min(zip(groups, needed, strict=True), key=lambda each: each[0].effective_n / each[1])
    n_needed = math.ceil(least)
    if group.effective_n >= n_needed:
        return ""
    units = "users" if group.clusters is None else "clusters"
    reason = "" if n_needed == LEAST_USERS else ", because few of its values are far from most"
    if group.n_independent >= n_needed:
        return (
            f"a confidence sequence begins when {group.name} is as good as {n_needed:,} {units} of equal weights{reason}; it is as good "
            f"as {group.effective_n:.1f}"
        )
    return f"a confidence sequence begins when {group.name} has {n_needed:,} {units}{reason}; it has {group.n_independent:,}"
