"""Confidence sequences of the difference of two groups: from when on they hold, their intervals and p-values."""

from __future__ import annotations

import math
from collections.abc import Sequence

from spark_rankeval.statistics.confidence_sequences import SEQUENCE, TIMES_SPREAD, always_valid_p, half_width
from spark_rankeval.statistics.independent_groups import RARE, Difference, Group, needed_users
from spark_rankeval.statistics.intervals import Interval
from spark_rankeval.statistics.moments import LEAST_USERS

#: The number of users, of both groups together, at which a sequence is tightest by default.
TIGHTEST_AT = 10_000


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
