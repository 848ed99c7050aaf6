"""How many users have a value between which bounds, for histograms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

#: The number of users by model and bin.
Counts: TypeAlias = dict[str, dict[int, int]]


@dataclass(frozen=True)
class Grid:
    """So many bins of equal width from a value on; what lies beyond the outer ones is counted with them."""

    low: float
    width: float
    n: int

    def edges(self, index: int) -> tuple[float, float]:
        """The bounds of a bin, the first being 0."""
        return self.low + index * self.width, self.low + (index + 1) * self.width


def coarsened(counts: Counts, grid: Grid, at_most: int) -> tuple[Counts, Grid]:
    """Neighbouring bins joined two by two, from the first on, until those that are not empty span so few.

    >>> coarsened({"als": {2: 5, 3: 1, 5: 2}}, Grid(0.0, 0.5, 8), at_most=2)
    ({'als': {1: 6, 2: 2}}, Grid(low=0.0, width=1.0, n=4))
    """
    taken = {index for users in counts.values() for index in users}
    while taken and max(taken) - min(taken) >= at_most:
        joined: Counts = {}
        for model, users in counts.items():
            pairs = joined.setdefault(model, {})
            for index, count in users.items():
                pairs[index // 2] = pairs.get(index // 2, 0) + count
        counts, grid = joined, Grid(grid.low, 2 * grid.width, -(-grid.n // 2))
        taken = {index for users in counts.values() for index in users}
    return counts, grid
