"""Values by how often they come, and quantiles from a sketch that does not depend on how the rows were split.

Most metrics have few distinct values, which are quicker to look at than all.

Guarantee and merge of the sketch are those of DDSketch (Masson, Rim, Lee, VLDB 2019). A bucket is the exponent and first eight bits of the
fraction, as in HDR histograms, because a logarithm could depend on the machine. It keeps its least value: repeated values are exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from spark_rankeval.ranking.user_lists import starts_of_runs

Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]

# Columns are counted together as long as they have at most so many values, which stay in a core's cache.
_TOGETHER = 1 << 16
# And so many if they are in groups. Many groups hold more, because each group takes a step.
_HELD_VALUES, _GROUP_VALUES = 1 << 18, 1 << 9
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
    step = max(1, max(_HELD_VALUES, _GROUP_VALUES * n_groups) // max(1, len(group)))
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


Array = np.ndarray[Any, Any]
Column = np.ndarray[tuple[int], np.dtype[np.float64]]

_LEADING_BITS = 8
_SHIFT = 52 - _LEADING_BITS
_LEAST_NORMAL, _RAISED = 2.0**-1022, 64
#: The ordered values next to a quantile are known up to this relative error.
RELATIVE_ACCURACY = 2.0**-_LEADING_BITS
# Buckets are merged when this many wait.
_PENDING = 1 << 15


class QuantileAccumulator:
    """The sketches of several columns, for values that come batch by batch."""

    def __init__(self) -> None:
        self._pending: list[dict[str, Array]] = []
        self._n_pending = 0

    def add(self, column: int, values: Column) -> None:
        """Add float64 values of a column; NaN is left out."""
        self.add_tally(tally([values], column))

    def add_tally(self, counted: Tally) -> None:
        """Add counted values of some columns."""
        column, distinct, times = counted.column, counted.values, counted.times
        if not len(distinct):
            return
        size = _leading_bits(np.abs(distinct))
        buckets = np.where(distinct < 0, -size, size)
        # Values are ordered, so those of a bucket are neighbours and its least value is the first.
        starts = np.flatnonzero(starts_of_runs(column, buckets))
        self._pending.append(
            {
                "column": column[starts],
                "bucket": buckets[starts],
                "count": np.add.reduceat(times, starts),
                # −0 becomes 0.
                "least": distinct[starts] + 0.0,
            }
        )
        self._n_pending += len(starts)
        if self._n_pending > _PENDING + 2 * len(self._pending[0]["column"]):
            self._pending = [merged_sketches(self._pending)]
            self._n_pending = len(self._pending[0]["column"])

    def state(self) -> dict[str, Array]:
        """The state so far, one row per bucket that holds a value: ``column``, ``bucket``, ``count`` (added) and ``least``."""
        return merged_sketches(self._pending)

    def state_of_groups(self, n_groups: int) -> dict[str, Array]:
        """The states of several groups, one after the other, and how many ``rows`` each has; every n-th column is of the same group."""
        rows = self.state()
        group = rows["column"] % n_groups
        order = np.argsort(group, kind="stable")
        ordered = {name: values[order] for name, values in (rows | {"column": rows["column"] // n_groups}).items()}
        return ordered | {"rows": np.bincount(group, minlength=n_groups)}


def _leading_bits(sizes: Floats) -> Array:
    """The exponent and first bits of the fraction of each size ≥ 0, as a whole number that grows with it; overwrites `sizes`."""
    # Subnormal numbers have no leading one; multiplied by 2^64 they have.
    small = sizes < _LEAST_NORMAL
    sizes[small] *= 2.0**_RAISED
    bits: Array = sizes.view(np.int64) >> _SHIFT
    bits[~small] += _RAISED << _LEADING_BITS
    return bits


def merged_sketches(states: Iterable[dict[str, Array]]) -> dict[str, Array]:
    """The state of all rows from the states of parts of them, in any order; sorted by column and bucket."""
    empty = {name: np.empty(0, np.int64) for name in ("column", "bucket", "count")} | {"least": np.empty(0)}
    rows = [empty, *states]
    column, bucket, count, least = (np.concatenate([each[name] for each in rows]) for name in empty)
    order = np.lexsort((bucket, column))
    column, bucket = column[order], bucket[order]
    firsts = np.flatnonzero(starts_of_runs(column, bucket))
    if not len(firsts):
        return empty
    return {
        "column": column[firsts],
        "bucket": bucket[firsts],
        "count": np.add.reduceat(count[order], firsts),
        "least": np.minimum.reduceat(least[order], firsts),
    }


def quantiles_of(state: dict[str, Array], n_columns: int, shares: Sequence[float]) -> list[list[float]]:
    """Quantiles of every column, interpolated as `numpy.quantile` does by default (Hyndman and Fan's type 7).

    Each of the two ordered values around a quantile is known to within `RELATIVE_ACCURACY` of itself, and exactly if no other
    value shares its bucket. NaN if there are no values.

    Returns:
        for each column, in their order, its quantile of each share.
    """
    bounds = state["column"].searchsorted(np.arange(n_columns + 1))
    # How many values lie in all buckets up to one, of this column and those before it.
    last = state["count"].cumsum()
    whole = np.append(0, last)[bounds]
    before, n = whole[:-1], np.diff(whole)
    filled = np.flatnonzero(n)
    quantiles = np.empty((len(filled), len(shares)))
    for number, share in enumerate(shares):
        place = share * (n[filled] - 1)
        floor = np.floor(place)
        below, above = (
            state["least"][last.searchsorted(before[filled] + index.astype(np.int64), side="right")]
            for index in (floor, np.minimum(floor + 1, n[filled] - 1))
        )
        rest = place - floor
        # Of two infinite values there is no difference.
        apart = (rest > 0) & (below != above)
        with np.errstate(invalid="ignore"):
            quantiles[:, number] = np.where(apart, below + (above - below) * rest, below)
    # The one NaN of `math` is equal to itself in tuples, as rows of figures are compared.
    none = [math.nan] * len(shares)
    quantiles_by_index = dict(zip(filled.tolist(), quantiles.tolist(), strict=True))
    return [quantiles_by_index.get(column, none) for column in range(n_columns)]
