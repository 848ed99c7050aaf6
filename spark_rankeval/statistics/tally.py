"""Values by how often they come: most metrics have few distinct ones, which are quicker to look at than all."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    Floats = np.ndarray[Any, np.dtype[np.float64]]
    Integers = np.ndarray[Any, np.dtype[np.int64]]


class Tally(NamedTuple):
    """The distinct values of a column.

    Attributes:
        values: float64, ascending, without NaN.
        times: int64, how often each comes.
        n_undefined: how many are NaN.
    """

    values: Floats
    times: Integers
    n_undefined: int

    @property
    def n(self) -> int:
        """How many values were counted, without NaN."""
        return int(self.times.sum())

    @property
    def repeats(self) -> bool:
        """Whether there are at most half as many distinct values as values."""
        return 2 * len(self.values) <= self.n


def tally(values: Floats) -> Tally:
    """Count how often each value comes.

    Examples:
        >>> tally(np.array([0.5, 1.0, np.nan, 0.5]))
        Tally(values=array([0.5, 1. ]), times=array([2, 1]), n_undefined=1)
    """
    distinct, times = np.unique(values, return_counts=True)
    # All NaN are one, and come last.
    if len(distinct) and math.isnan(distinct[-1]):
        return Tally(distinct[:-1], times[:-1], int(times[-1]))
    return Tally(distinct, times, 0)
