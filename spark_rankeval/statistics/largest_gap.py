"""The largest gap between the means of several groups of different users."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_rankeval.statistics.distributions import studentized_range_critical, studentized_range_sf
from spark_rankeval.statistics.groups import Difference, Group, difference_of
from spark_rankeval.statistics.intervals import Interval

if TYPE_CHECKING:
    from collections.abc import Sequence

GAMES_HOWELL = "games_howell"


@dataclass(frozen=True)
class LargestGap:
    """The largest difference between the means of several groups: the highest less the lowest.

    Attributes:
        highest: the group with the highest mean; None if fewer than two groups have an interval.
        lowest: the group with the lowest.
        n_groups: how many groups there are to choose from.
        n_left_out: how many groups are not, because they have too few users or no interval.
        interval: that of the two. The intervals of all pairs of groups hold together, and so does that of the pair that was
            chosen for its difference. Source: Games and Howell 1976, with the studentized range of `n_groups` means and Welch's
            degrees of freedom of the pair. If a variance says little, `Difference` with Bonferroni's level for all pairs.
        difference: of the two, without a correction.
    """

    highest: Group | None
    lowest: Group | None
    n_groups: int
    difference: Difference
    interval: Interval
    n_left_out: int = 0

    def p_of(self, margin: float = 0.0) -> float:
        """The p-value, corrected for the choice among all pairs; see `Difference.p_of`."""
        n_pairs = math.comb(self.n_groups, 2)
        if not self.interval:
            return math.nan
        if self.difference.rare:
            return min(1.0, n_pairs * self.difference.p_of(margin))
        q = abs(abs(self.difference.estimate) - margin) * math.sqrt(2) / self.difference.standard_error
        return studentized_range_sf(q, self.n_groups, self.difference.df)


def largest_gap(groups: Sequence[Group], level: float, least_n: int = 2) -> LargestGap:
    """The largest gap between groups of at least `least_n` users that have an interval."""
    chosen = [group for group in groups if group.n >= least_n and not group.problem]
    if len(chosen) < 2:
        nan = math.nan
        reason = f"fewer than two slices have {max(least_n, 2)} users or more, and an interval"
        none = Difference(nan, (nan, nan), (nan, nan), problem=reason)
        none_found = Interval.missing(level, GAMES_HOWELL, reason)
        return LargestGap(None, None, len(chosen), none, none_found, len(groups) - len(chosen))
    highest, lowest = max(chosen, key=lambda group: group.mean), min(chosen, key=lambda group: group.mean)
    if highest is lowest:
        # All means are equal: any two groups will do.
        lowest = chosen[1]
    clustered = highest.clusters is not None
    difference, n_groups = difference_of(highest, lowest, shares_clusters=clustered), len(chosen)
    difference = difference.cautious((highest, lowest))
    if difference.rare:
        of_one = 1 - (1 - level) / math.comb(n_groups, 2)
        interval = difference.interval(of_one)._replace(level=level)
    else:
        q = studentized_range_critical(level, n_groups, difference.df)
        width = q * difference.standard_error / math.sqrt(2)
        ends = (difference.estimate - width, difference.estimate + width)
        interval = Interval(*ends, level, GAMES_HOWELL).within(difference.bounds)
    return LargestGap(highest, lowest, n_groups, difference, interval, len(groups) - n_groups)
