"""Values by how often they come: most metrics have few distinct ones, which are quicker to look at than all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spark_rankeval.ranking.ragged import starts_of_runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]

# Columns are counted together as long as they have at most so many values, which stay in a core's cache.
_TOGETHER = 1 << 16


class Tally(NamedTuple):
    """The distinct values of neighbouring columns from `first` on, ascending by column and value, and how often each comes.

    `n_undefined` counts the NaN of every column.
    """

    column: Integers
    values: Floats
    times: Integers
    n_undefined: Integers
    first: int = 0

    @property
    def starts(self) -> Integers:
        """The place of the first value of each column that has any."""
        return np.flatnonzero(starts_of_runs(self.column))


def tally(columns: Sequence[Floats], first: int = 0) -> Tally:
    """Count how often each value comes in each column, of one or more columns of the same length.

    >>> counted = tally([np.array([0.5, 1.0, np.nan, 0.5]), np.array([0.0, 0.0, 0.0, 0.0])])
    >>> counted.column.tolist(), counted.values.tolist(), counted.times.tolist(), counted.n_undefined.tolist()
    ([0, 0, 1], [0.5, 1.0, 0.0], [2, 1, 4], [1, 0])
    """
    rows = np.stack(columns)
    n = rows.shape[1]
    if not n:
        none = np.empty(0, np.int64)
        return Tally(none, np.empty(0), none, np.zeros(len(columns), np.int64), first)
    rows.sort(axis=1)
    flat = rows.ravel()
    new = np.ones(len(flat), np.bool_)
    np.not_equal(flat[1:], flat[:-1], out=new[1:])
    new[::n] = True
    places = np.flatnonzero(new)
    times = np.diff(places, append=len(flat))
    n_undefined = np.zeros(len(columns), np.int64)
    # NaN comes last, so that most columns need not be searched for it.
    if np.isnan(rows[:, -1]).any():
        undefined = np.isnan(rows)
        n_undefined = np.count_nonzero(undefined, axis=1)
        defined = ~undefined.ravel()[places]
        places, times = places[defined], times[defined]
    return Tally(places // n + first, flat[places], times, n_undefined, first)


def tally_of_groups(values: Floats, group: Integers, n_groups: int, first: int = 0) -> Tally:
    """Count how often each value of one column comes in each group: a column of the tally is a group, from `first` on.

    >>> counted = tally_of_groups(np.array([0.5, 1.0, np.nan, 0.5]), np.array([2, 0, 0, 2]), 3)
    >>> counted.column.tolist(), counted.values.tolist(), counted.times.tolist(), counted.n_undefined.tolist()
    ([0, 2], [1.0, 0.5], [1, 2], [1, 0, 0])
    """
    distinct, place = np.unique(values, return_inverse=True)
    n_undefined = np.zeros(n_groups, np.int64)
    # NaN comes last, once.
    if len(distinct) and np.isnan(distinct[-1]):
        is_undefined = place == len(distinct) - 1
        n_undefined = np.bincount(group[is_undefined], minlength=n_groups)
        distinct, place, group = distinct[:-1], place[~is_undefined], group[~is_undefined]
    cells, times = np.unique(group * len(distinct) + place, return_counts=True)
    width = max(1, len(distinct))
    return Tally(first + cells // width, distinct[cells % width], times, n_undefined, first)


def tallies(columns: Sequence[Floats]) -> Iterator[Tally]:
    """The same of any number of columns, some at a time."""
    step = max(1, _TOGETHER // max(1, len(columns[0]))) if columns else 1
    for first in range(0, len(columns), step):
        yield tally(columns[first : first + step], first)
