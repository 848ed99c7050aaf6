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
# And so many, if they are in groups; but more of many groups, each of which takes a step.
_OF_GROUPS, _OF_A_GROUP = 1 << 18, 1 << 9
# The one group of values that are not in groups, and where it starts.
_ONE = np.zeros(1, np.int64)


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
    return _counted(np.stack(columns), _ONE, _ONE, 1, first)


def tallies(columns: Sequence[Floats]) -> Iterator[Tally]:
    """The same of any number of columns, some at a time."""
    step = max(1, _TOGETHER // max(1, len(columns[0]))) if columns else 1
    for first in range(0, len(columns), step):
        yield tally(columns[first : first + step], first)


def tallies_of_groups(columns: Sequence[Floats], group: Integers, n_groups: int, first: int = 0) -> Iterator[Tally]:
    """The same of each group by itself: the tallies have a column for each column and group, all groups of a column side by side.

    Args:
        columns: of the same length.
        group: the group of each value of a column, from 0 on.
        n_groups: how many groups there are.
        first: the place of the first column.

    >>> (counted,) = tallies_of_groups([np.array([0.5, 1.0, np.nan, 0.5])], np.array([2, 0, 0, 2]), 3)
    >>> counted.column.tolist(), counted.values.tolist(), counted.times.tolist(), counted.n_undefined.tolist()
    ([0, 2], [1.0, 0.5], [1, 2], [1, 0, 0])
    """
    if not (group[1:] >= group[:-1]).all():
        order = np.argsort(group, kind="stable")
        columns, group = [column[order] for column in columns], group[order]
    starts = np.flatnonzero(starts_of_runs(group))
    step = max(1, max(_OF_GROUPS, _OF_A_GROUP * n_groups) // max(1, len(group)))
    for start in range(0, len(columns), step):
        rows = np.stack(columns[start : start + step])
        yield _counted(rows, starts, group[starts], n_groups, (first + start) * n_groups)


def _counted(rows: Floats, starts: Integers, groups: Integers, n_groups: int, first: int) -> Tally:
    """The tally of columns × values; `groups` stand one after the other, from `starts` on. It overwrites `rows`."""
    n_columns, n = rows.shape
    if not n:
        none = np.empty(0, np.int64)
        return Tally(none, np.empty(0), none, np.zeros(n_columns * n_groups, np.int64), first)
    ends = np.append(starts[1:], n)
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        rows[:, start:end].sort(axis=1)
    flat = rows.ravel()
    new = np.ones(rows.shape, np.bool_)
    np.not_equal(flat[1:], flat[:-1], out=new.ravel()[1:])
    new[:, starts] = True
    places = np.flatnonzero(new)
    times = np.diff(places, append=len(flat))
    n_undefined = np.zeros((n_columns, n_groups), np.int64)
    # NaN comes last, so that most columns need not be searched for it.
    if np.isnan(rows[:, ends - 1]).any():
        undefined = np.isnan(rows)
        n_undefined[:, groups] = np.add.reduceat(undefined, starts, axis=1, dtype=np.int64)
        defined = ~undefined.ravel()[places]
        places, times = places[defined], times[defined]
    column = np.arange(n_columns)[:, None]
    n_distinct = np.diff(places.searchsorted((column * n + starts).ravel()), append=len(places))
    cells = np.repeat((first + column * n_groups + groups).ravel(), n_distinct)
    return Tally(cells, flat[places], times, n_undefined.ravel(), first)
