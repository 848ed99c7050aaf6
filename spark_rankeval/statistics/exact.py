"""Sums, moments and counts of values that merge: any split and any order gives the same bits."""

from __future__ import annotations

import json
import math
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
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


_BITS = 32
_UNIT = 2.0**_BITS
_LOWEST = -16
#: Limbs of a sum, the least significant first: units of 2^(32·(_LOWEST + i)).
LIMBS = 32
_ROWS = 1 << 13
# The largest whole numbers of a limb have so many bits: floats hold the sum of `_ROWS` of them, and 64 bits that of `_ROWS_BEFORE_CARRY`.
_BITS_OF_TERMS, _ROWS_BEFORE_CARRY = 36, 1 << 26
# From here on a value has no limb; such values are counted.
_LIMIT = 2.0**511
# Splits a float into two halves of at most 26 bits, whose products are exact (Dekker 1971).
_HALVES = 2.0**27 + 1


def halves(values: Floats) -> tuple[Floats, Floats]:
    """Floats as sums of two, whose products have no rounding."""
    turned = values * _HALVES
    high = turned - (turned - values)
    return high, values - high


def _largest(values: Floats) -> float:
    """The largest size; NaN if there is one."""
    return max(float(values.max()), -float(values.min()))


class ExactSums:
    """Several sums of floats, of terms that come batch by batch."""

    def __init__(self, n_sums: int) -> None:
        self._limbs = np.zeros((n_sums, LIMBS), np.int64)
        self._n_excessive = np.zeros(n_sums, np.int64)
        self._n_added = 0

    def add(
        self,
        index: int,
        values: Column,
        group: Integers | None = None,
        lowest: int = 0,
        largest: float | None = None,
    ) -> None:
        """Add values to one of the sums; NaN, infinities and values from 2⁵¹¹ on are counted and make the sum NaN.

        With the `group` of each value, from 0 on, `index` is the sum of group 0, and those of the other groups come next. Values are
        rounded to units of the `lowest` limb; `largest` is their largest size, if the caller knows it.
        """
        for start in range(0, len(values), _ROWS):
            terms, some = values[start : start + _ROWS], None if group is None else group[start : start + _ROWS]
            most = _largest(terms) if largest is None else largest
            if not most < _LIMIT:
                is_excessive = ~(np.abs(terms) < _LIMIT)
                n_excessive = np.bincount(np.zeros(len(terms), np.int64) if some is None else some, is_excessive)
                self._n_excessive[index : index + len(n_excessive)] += n_excessive.astype(np.int64)
                terms = np.where(is_excessive, 0.0, terms)
                most = _largest(terms)
            for limb, whole in self._in_limbs(terms, most, len(terms), lowest):
                if some is None:
                    self._limbs[index, limb] += int(whole.sum())
                else:
                    sums = np.bincount(some, whole)
                    self._limbs[index : index + len(sums), limb] += sums.astype(np.int64)

    def add_counted(self, places: Integers, starts: Integers, values: Floats, times: Integers, lowest: int = 0) -> None:
        """Add values so many times to the sums at some places: to each of these from its start on."""
        most = _largest(values)
        if not most < _LIMIT:
            is_excessive = ~(np.abs(values) < _LIMIT)
            self._n_excessive[places] += np.add.reduceat(np.where(is_excessive, times, 0), starts)
            values = np.where(is_excessive, 0.0, values)
            most = _largest(values)
        for limb, whole in self._in_limbs(values, most, int(times.sum()), lowest):
            self._limbs[places, limb] += np.add.reduceat(whole.astype(np.int64) * times, starts)

    def _in_limbs(self, values: Floats, largest: float, n: int, lowest: int) -> Iterator[tuple[int, Floats]]:
        """The limbs in which values have digits, with the whole number of each value; one array has those of all limbs in turn."""
        if largest == 0:
            return
        self._n_added += n
        if self._n_added > _ROWS_BEFORE_CARRY:
            self._carry()
            self._n_added = n
        limb = max(-((_BITS_OF_TERMS - math.frexp(largest)[1]) // _BITS) - _LOWEST, lowest)
        rest = values * 2.0 ** (-_BITS * (limb + _LOWEST))
        whole = np.empty_like(rest)
        while True:
            np.rint(rest, out=whole)
            yield limb, whole
            if limb == lowest:
                return
            np.subtract(rest, whole, out=rest)
            limb -= 1
            # The last limb takes hardly longer than a look whether there is anything left for it.
            if limb > lowest and not rest.any():
                return
            np.multiply(rest, _UNIT, out=rest)

    def _carry(self) -> None:
        """Leave limbs below 2^32, so that billions of states can be added without overflow."""
        for limb in range(LIMBS - 1):
            self._limbs[:, limb + 1] += self._limbs[:, limb] >> _BITS
            self._limbs[:, limb] &= 2**_BITS - 1

    def state(self) -> dict[str, Integers]:
        """The state so far: ``limbs`` (sums × LIMBS) and ``n_excessive`` (sums); states are merged by adding both."""
        self._carry()
        return {"limbs": self._limbs.copy(), "n_excessive": self._n_excessive.copy()}


def whole_sums(limbs: Integers) -> tuple[list[int], int]:
    """The exact sums of rows of limbs, as whole numbers of a unit; and how many binary digits the unit has behind the point."""
    used = np.flatnonzero(limbs.any(axis=0))
    first, end = (min(int(used[0]), -_LOWEST), int(used[-1]) + 1) if len(used) else (-_LOWEST, 0)
    rows = limbs[:, first:end][:, ::-1].tolist()
    return [reduce(lambda total, limb: (total << _BITS) + limb, row, 0) for row in rows], -_BITS * (first + _LOWEST)


def exact_sum(limbs: Integers) -> Fraction:
    """The exact sum whose limbs these are."""
    (total,), n_bits = whole_sums(limbs[np.newaxis])
    return Fraction(total, 1 << n_bits)


COUNTS = ("n", "n_undefined", "n_without_weight", "n_invalid_weights")
# The sums of w^j y^k that are kept, as (j, k).
_WEIGHTED = ((1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2), (3, 0), (3, 1), (3, 2), (3, 3))
_PLAIN = ((0, 1), (0, 2), (0, 3))
#: Squares are rounded before they are added: a spread smaller than this share of them is rounding.
_NEARLY_NOTHING = Fraction(1, 2**48)
LEAST_MEAN_WEIGHT = Fraction(1, 2**100)
# From here on degrees of freedom are whole numbers.
_LARGE = 10
# Cubes of equal weights may be off by this share.
_ROUNDING = 2.0**-40


class MeanAccumulator:
    """The sums behind the means of several columns, for users that come batch by batch."""

    def __init__(self, n_columns: int, *, weighted: bool = False) -> None:
        # With groups: a column for each group.
        self._terms = _WEIGHTED if weighted else _PLAIN
        self._sums = ExactSums(n_columns * len(self._terms))
        self._counts = np.zeros((len(COUNTS), n_columns), np.int64)

    def add(
        self, column: int, values: Column, weights: Column | None = None, group: Array | None = None, n_groups: int = 1
    ) -> None:
        """Add users of a column: their values (float64; NaN counts as undefined) and weights, if the accumulator is weighted.

        A user is left out if the weight is 0, or if it is negative, NaN or infinite. Both cases are counted. `group` has the group of
        each user, from 0 on. Then the columns of the groups come next to each other, that of group 0 first, and `column` counts such sets.
        """

        def count(name: str, users: Array) -> None:
            n_group_users = np.bincount(np.zeros(len(users), np.int64) if group is None else group, users, n_groups)
            self._counts[COUNTS.index(name), column * n_groups : (column + 1) * n_groups] += n_group_users.astype(
                np.int64
            )

        used = np.ones(len(values), np.bool_)
        if weights is not None:
            valid = (weights >= 0) & np.isfinite(weights)
            used = valid & (weights > 0)
            count("n_without_weight", valid & ~used)
            count("n_invalid_weights", ~valid)
        undefined = np.isnan(values)
        count("n_undefined", used & undefined)
        used &= ~undefined
        count("n", used)
        if not used.all():
            values, weights = values[used], None if weights is None else weights[used]
            group = None if group is None else group[used]
        first = column * len(self._terms) * n_groups
        with np.errstate(over="ignore"):
            for place, (j, k) in enumerate(self._terms):
                factors = [values] * k + ([] if weights is None else [weights] * j)
                self._sums.add(first + place * n_groups, math.prod(factors[1:], start=factors[0]), group)

    def state(self) -> dict[str, Array]:
        """The state so far, as arrays whose first axis is the columns; states are merged by adding."""
        return {name: values[0] for name, values in self.state_of_groups(1).items()}

    def state_of_groups(self, n_groups: int) -> dict[str, Array]:
        """The states of several groups, as arrays whose first axis is the groups, and the next the columns."""
        sums, n_terms = self._sums.state(), len(self._terms)
        limbs = sums["limbs"].reshape(-1, n_terms, n_groups, LIMBS)
        n_excessive = sums["n_excessive"].reshape(-1, n_terms, n_groups).sum(axis=1)
        fields = {name: counts.reshape(-1, n_groups).T for name, counts in zip(COUNTS, self._counts, strict=True)}
        return {name: values.copy() for name, values in fields.items()} | {
            "limbs": np.moveaxis(limbs, 2, 0),
            "n_excessive": n_excessive.T,
        }


@dataclass(frozen=True)
class Mean:
    """A mean and its precision; counts are of users.

    Attributes:
        n: users with a value and a weight above 0; `n_undefined` have no value.
        mean: Σwy / Σw; NaN for no user. All figures are NaN if values or weights are too large for exact sums, or if the mean
            weight is below 2⁻¹⁰⁰; then multiply all weights by a constant.
        std: √(n/(n−1) · Σw(y − mean)² / Σw), which without weights has the divisor n − 1; NaN for fewer than two users.
        acceleration: how the standard error changes with the mean: Σl³ / (6 (Σl²)^{3/2}), l = w(y − mean) (Efron 1987); 0
            without spread.
        effective_n: (Σw)² / Σw² (Kish 1965): the number of equally weighted users with the same precision.
        df: the degrees of freedom of the standard error; n − 1 for equal weights.
        sums: the exact sums of w^j y^k for `mean_of_sums`; None if terms are too large for them.
    """

    n: int
    n_undefined: int
    n_without_weight: int
    n_invalid_weights: int
    is_weighted: bool
    mean: float = math.nan
    std: float = math.nan
    standard_error: float = math.nan
    acceleration: float = math.nan
    effective_n: float = math.nan
    df: float = math.nan
    total_weight: float = math.nan
    sums: Mapping[str, Fraction] | None = field(default_factory=dict, repr=False, hash=False)

    @property
    def problem(self) -> str:
        """Why weights leave no interval; empty if they do."""
        if self.n < 2 or not self.df < 1:
            return ""
        return f"the {self.n:,} users are as good as {self.effective_n:.1f} of equal weights, too few for an interval"


def mean_of(state: dict[str, Any]) -> Mean:
    """The figures of one column from its merged state: one entry of each field of `MeanAccumulator.state`."""
    counts = {name: int(state[name]) for name in COUNTS}
    terms = _WEIGHTED if len(state["limbs"]) == len(_WEIGHTED) else _PLAIN
    sums = None
    if not int(state["n_excessive"]):
        sums = {name_of_term(*term): exact_sum(limbs) for term, limbs in zip(terms, state["limbs"], strict=True)}
    return mean_of_sums(counts, sums, is_weighted=terms is _WEIGHTED)


def name_of_term(j: int, k: int) -> str:
    """The name of the sum of w^j y^k: ``y``, ``yy``, ``w``, ``wwyy`` and so on."""
    return "w" * j + "y" * k


def mean_of_sums(counts: Mapping[str, int], sums: Mapping[str, Fraction] | None, *, is_weighted: bool) -> Mean:
    """The figures of one column from its counts and its exact sums, whose keys come from `name_of_term`.

    Without weights these are ``y``, ``yy`` and ``yyy``. A missing sum is 0. `sums` is None if terms were too large to be added.
    """
    n = counts["n"]
    fields: dict[str, Any] = {**counts, "is_weighted": is_weighted, "sums": sums}
    if n == 0 or sums is None:
        return Mean(**fields)
    # Without weights each user has the weight 1, whose powers are 1.
    names = {(j, k): name_of_term(j if is_weighted else 0, k) for j, k in _WEIGHTED}
    by_term = {term: sums.get(name, Fraction(0)) if name else Fraction(n) for term, name in names.items()}
    weight = by_term[1, 0]
    # Outside this range the cubes of weights leave the grid of exact sums.
    if not LEAST_MEAN_WEIGHT <= weight / n <= 1 / LEAST_MEAN_WEIGHT:
        return Mean(**fields)
    mean, squares, acceleration = influences_of(by_term)
    spread = by_term[1, 2] - mean * by_term[1, 1] if squares else Fraction(0)
    return Mean(
        **fields,
        mean=float(mean),
        std=math.sqrt(spread / weight * Fraction(n, n - 1)) if n > 1 else math.nan,
        standard_error=math.sqrt(squares / weight**2 * Fraction(n, n - 1)) if n > 1 else math.nan,
        acceleration=acceleration,
        effective_n=float(weight**2 / by_term[2, 0]),
        df=degrees_of_freedom(weight, by_term[3, 0]),
        total_weight=float(weight),
    )


def degrees_of_freedom(weight: Fraction, cubes: Fraction) -> float:
    """Those of the variance of a mean of units, such as clusters, with the sums of their weights and of the cubes of these.

    √((Σw)³ / Σw³) − 1 is n − 1 for equal weights. It comes from Hill's number of order 3 (Ecology 1973), which is smaller than Kish's, of
    order 2. In simulations intervals need that if few of many units have most of the weight. It is rounded down, so that thousands of
    slices need few quantiles of t.
    """
    df = (math.sqrt(weight**3 / cubes) - 1) * (1 + _ROUNDING)
    return float(math.floor(df)) if df >= _LARGE else math.floor(10 * df) / 10


class Influences(NamedTuple):
    """By how much units, such as users or clusters, move a mean: l = w(y − mean), of units with the weights w and values y."""

    mean: Fraction
    squares: Fraction  # Σl²; 0 if it is rounding
    acceleration: float  # Σl³ / (6 (Σl²)^{3/2}); NaN if cubes are not known


def influences_of(sums: Mapping[tuple[int, int], Fraction]) -> Influences:
    """The influences of units, from their sums of w^j y^k by (j, k)."""
    mean = sums[1, 1] / sums[1, 0]
    squares = sums[2, 2] - 2 * mean * sums[2, 1] + mean**2 * sums[2, 0]
    # The terms were rounded before they were added: a spread below this share of the squares is noise.
    if squares <= sums[2, 2] * _NEARLY_NOTHING:
        squares = Fraction(0)
    acceleration = math.nan
    if (3, 3) in sums:
        cubes = sums[3, 3] - 3 * mean * sums[3, 2] + 3 * mean**2 * sums[3, 1] - mean**3 * sums[3, 0]
        # A ratio without a unit is formed exactly before it becomes a float, which cannot hold tiny or huge powers.
        acceleration = math.copysign(math.sqrt(cubes**2 / squares**3), cubes) / 6 if squares else 0.0
    return Influences(mean, squares, acceleration)


#: Exact sums by what they are of; one that is not there is 0.
Sums = dict[str, Fraction]

#: Sums of floats and of their squares have no digit beyond 2 to this power or its negative. A text may not ask for more memory.
_MOST_BITS = 1200
_NUMBER = re.compile(rf"(-?)([0-9a-f]{{1,{_MOST_BITS // 2}}})p(-?[0-9]{{1,4}})")


class UnitSums(Mapping[str, Fraction]):
    """Sums in whole units of 2^-n_bits. Each becomes a fraction when someone asks for it: with thousands of slices hardly any is.

    >>> sums = UnitSums(64, y=3 << 61, yy=0)
    >>> sums["y"], as_text(sums)
    (Fraction(3, 8), '{"y":"3p-3"}')
    """

    __slots__ = ("n_bits", "units")

    def __init__(self, n_bits: int, **units: int) -> None:
        self.n_bits, self.units = n_bits, units

    def __getitem__(self, name: str) -> Fraction:
        return Fraction(self.units[name], 1 << self.n_bits)

    def __iter__(self) -> Iterator[str]:
        return iter(self.units)

    def __len__(self) -> int:
        return len(self.units)

    def __repr__(self) -> str:
        return repr(dict(self))


def as_text(sums: Mapping[str, Fraction]) -> str:
    """Sums as JSON, each as a hexadecimal whole number times a power of 2, as sums of floats are; equal sums have one text.

    >>> as_text({"y": Fraction(3, 8), "yy": Fraction(0), "wy": Fraction(-40)})
    '{"wy":"-5p3","y":"3p-3"}'
    """
    # By hand, for slices by the thousand: neither names nor numbers have anything that JSON would escape.
    if isinstance(sums, UnitSums):
        numbers = [(name, whole, -sums.n_bits) for name, whole in sums.units.items()]
    else:
        numbers = [(name, value.numerator, 1 - value.denominator.bit_length()) for name, value in sums.items()]
    pairs = ",".join([f'"{name}":"{_number(whole, power)}"' for name, whole, power in sorted(numbers) if whole])
    return f"{{{pairs}}}"


def from_text(text: str) -> Sums:
    """The sums that a text of `as_text` holds; any other text raises `ValueError`.

    >>> from_text('{"wy":"-5p3","y":"3p-3"}') == {"wy": Fraction(-40), "y": Fraction(3, 8)}
    True
    """
    try:
        read = json.loads(text)
    except RecursionError as error:
        msg = f"sums are not nested; got {reprlib.repr(text)}"
        raise ValueError(msg) from error
    if not isinstance(read, dict):
        msg = f"sums must be given by name; got {reprlib.repr(text)}"
        raise ValueError(msg)
    return {name: _fraction(value) for name, value in read.items()}


def are_equal(sums: Mapping[str, Fraction], name: str, other: str) -> bool:
    """Whether two of the sums are equal; one that is not there is 0."""
    terms: Mapping[str, Fraction | int] = sums.units if isinstance(sums, UnitSums) else sums
    return terms.get(name, 0) == terms.get(other, 0)


def added(parts: Iterable[Mapping[str, Fraction]]) -> Sums:
    """The sums of all users, from those of parts of them."""
    total: Sums = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, Fraction(0)) + value
    return total


def _number(whole: int, power: int) -> str:
    """A whole number times a power of 2, by its odd part."""
    zeros = (whole & -whole).bit_length() - 1
    return f"{whole >> zeros:x}p{power + zeros}"


def _fraction(text: object) -> Fraction:
    number = _NUMBER.fullmatch(text) if isinstance(text, str) else None
    if number is None or abs(int(number[3])) > _MOST_BITS:
        msg = (
            f"a sum is at most {_MOST_BITS // 2} hexadecimal digits, p and a power of 2 from -{_MOST_BITS} to {_MOST_BITS}; "
            f"got {reprlib.repr(text)}"
        )
        raise ValueError(msg)
    sign, digits, power = number.groups()
    return int(f"{sign}{digits}", 16) * Fraction(2) ** int(power)


#: For each field of a state, an array with one entry per column.
State = dict[str, Array]

_BATCH = 1 << 14
# Up to this many values per column are counted before they are added.
_FEW = 1 << 8
# From `_FINE` to `_WIDE` a value is exact in units of 2⁻⁶⁴, those of the limb `_FINE_LIMB`. Its square is rounded to 53 bits and to
# these units. Squares of other values, which are rare among metrics, are exact.
_FINE, _WIDE, _FINE_LIMB = 2.0**-11, 2.0**15, 14
# The grid of exact sums ends at 2⁻⁵¹²: columns without values above these keep too few digits of sums, or of squares.
_LEAST_SUMMED, _LEAST_SQUARED = 2.0**-440, 2.0**-220
# Values that differ by less than this share of their size differ only by rounding.
_ALIKE = 2.0**-40
# A sum of squared deviations is known if it is this many times the rounding of squares. That gives 3 digits of the spread, and far
# more for many users.
_LEAST_ROUNDINGS = 1 << 10
# Squares are rounded by up to half a unit, and to 53 bits.
_HALF_UNIT, _HALF_BIT = 2.0**-65, 2.0**-54
_ZERO = Fraction(0)

#: The fields of a state that count values.
MOMENT_COUNTS = ("n", "n_undefined", "n_zero")


class MomentsAccumulator:
    """The moments of several columns, for rows that come batch by batch."""

    def __init__(self, n_columns: int) -> None:
        self._counts = np.zeros((len(MOMENT_COUNTS), n_columns), np.int64)
        self._least = np.full(n_columns, math.inf)
        self._greatest = np.full(n_columns, -math.inf)
        # For each column the sum of the values and that of their squares.
        self._sums = ExactSums(2 * n_columns)

    def add(self, column: int, values: Column) -> None:
        """Add float64 values of a column; NaN is counted as undefined and left out of the rest."""
        # One piece at a time, so that it stays in a core's cache through all steps.
        for start in range(0, len(values), _BATCH):
            self._add(column, values[start : start + _BATCH])

    def _add(self, column: int, values: Column) -> None:
        least, greatest = float(values.min()), float(values.max())
        if math.isnan(least):
            defined = values[~np.isnan(values)]
            self._counts[1, column] += len(values) - len(defined)
            if not len(defined):
                return
            values, least, greatest = defined, float(defined.min()), float(defined.max())
        self._widen(column, least, greatest)
        n_zero = len(values) - int(np.count_nonzero(values))
        self._counts[0, column] += len(values)
        self._counts[2, column] += n_zero
        sizes, largest = np.abs(values), max(greatest, -least)
        if largest >= _WIDE or int(np.count_nonzero(sizes < _FINE)) > n_zero:
            is_usual = (sizes >= _FINE) & (sizes < _WIDE)
            unusual, values, largest = values[~is_usual], values[is_usual], float(sizes[is_usual].max(initial=0.0))
            self._sums.add(2 * column, unusual)
            self._sums.add(2 * column + 1, np.concatenate(_terms_of_squares(unusual)))
        self._sums.add(2 * column, values, lowest=_FINE_LIMB, largest=largest)
        self._sums.add(2 * column + 1, values * values, lowest=_FINE_LIMB, largest=largest**2)

    def add_columns(self, first: int, columns: Sequence[Column]) -> None:
        """Add values of neighbouring columns of the same length, beginning with column `first`."""
        if columns and len(columns[0]) <= _FEW:
            # A column costs more than a value, so a few values of all columns are counted in one go.
            self.add_tally(tally(columns, first))
            return
        for column, values in enumerate(columns, first):
            self.add(column, values)

    def add_tally(self, counted: Tally) -> None:
        """Add counted values; the state is the same as if they were added one by one."""
        n_columns = len(counted.n_undefined)
        self._counts[1, counted.first : counted.first + n_columns] += counted.n_undefined
        if not len(counted.values):
            return
        starts, values, times = counted.starts, counted.values, counted.times
        columns, ends = counted.column[starts], np.append(starts[1:], len(values)) - 1
        self._widen(columns, values[starts], values[ends])
        self._counts[0, columns] += np.add.reduceat(times, starts)
        self._counts[2, columns] += np.add.reduceat(np.where(values == 0, times, 0), starts)
        sizes = np.abs(values)
        is_unusual = ((sizes < _FINE) | (sizes >= _WIDE)) & (values != 0)
        if is_unusual.any():
            some_columns, some, some_times = counted.column[is_unusual], values[is_unusual], times[is_unusual]
            some_starts = np.flatnonzero(starts_of_runs(some_columns))
            places = 2 * some_columns[some_starts]
            self._sums.add_counted(places, some_starts, some, some_times)
            for terms in _terms_of_squares(some):
                self._sums.add_counted(places + 1, some_starts, terms, some_times)
            values = np.where(is_unusual, 0.0, values)
        self._sums.add_counted(2 * columns, starts, values, times, lowest=_FINE_LIMB)
        self._sums.add_counted(2 * columns + 1, starts, values * values, times, lowest=_FINE_LIMB)

    def _widen(self, columns: Integers | int, least: Column | float, greatest: Column | float) -> None:
        # Whether 0 or −0 comes first is chance, so the extremes have the positive zero.
        self._least[columns] = np.minimum(self._least[columns], least) + 0.0
        self._greatest[columns] = np.maximum(self._greatest[columns], greatest) + 0.0

    def state(self) -> State:
        """The state so far: for each field, an array with one entry per column."""
        sums = self._sums.state()
        return {
            **{name: counts.copy() for name, counts in zip(MOMENT_COUNTS, self._counts, strict=True)},
            "least": self._least.copy(),
            "greatest": self._greatest.copy(),
            "limbs": sums["limbs"].reshape(-1, 2, LIMBS),
            "n_excessive": sums["n_excessive"].reshape(-1, 2),
        }

    def state_of_groups(self, n_groups: int) -> State:
        """The states of several groups, with one entry per group; every n-th column is of the same group."""
        return {
            name: values.reshape(-1, n_groups, *values.shape[1:]).swapaxes(0, 1)
            for name, values in self.state().items()
        }


def _terms_of_squares(values: Floats) -> list[Floats]:
    """Terms without rounding that add up to the square of each value; those of values that are too large are so, too."""
    with np.errstate(over="ignore", invalid="ignore"):
        high, low = halves(values)
        return [high**2, 2 * high * low, low**2]


class Moments(NamedTuple):
    """The figures of one column; without values they are NaN, except `total` and the counts.

    Attributes:
        n_undefined: how many values were NaN; `n` counts the others.
        mean: the exact mean, rounded once; NaN if all values are below 2⁻⁴⁴⁰, because exact sums hold too few of their digits,
            or one is 2⁵¹¹ or more.
        std: the standard deviation of the sample (divisor n − 1); 0 if values differ only by rounding. NaN for fewer than
            two values, and if it is not known to 3 digits: all values are below 2⁻²²⁰, one is above 2²⁵⁵, or they lie closer together
            than the rounding of their squares allows. Squares of values from 2⁻¹¹ to 2¹⁵ are rounded to 53 bits, and to units of 2⁻⁶⁴.
        sums: the exact sums of the values and of their squares (``y``, ``yy``); None if these are too large.
    """

    n: int
    n_undefined: int
    n_zero: int
    mean: float
    std: float
    least: float
    greatest: float
    total: float
    sums: Mapping[str, Fraction] | None


def too_small(least: float, greatest: float) -> tuple[bool, bool]:
    """Whether exact sums hold too few digits of values from `least` to `greatest`, and whether of their squares."""
    largest = max(abs(least), abs(greatest))
    differ = least != greatest
    return differ and largest < _LEAST_SUMMED, differ and largest < _LEAST_SQUARED


def with_prefix(state: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The fields of a state whose names begin with a prefix and ``_``, keyed by the rest of their names."""
    return {name.removeprefix(f"{prefix}_"): each for name, each in state.items() if name.startswith(f"{prefix}_")}


def moments_of(state: dict[str, Any]) -> Moments:
    """The figures of one column from its merged state: one entry of each field of `MomentsAccumulator.state`."""
    return moments_of_columns({name: np.asarray(entry)[np.newaxis] for name, entry in state.items()})[0]


def moments_of_columns(state: State) -> list[Moments]:
    """The figures of every column from a merged state."""
    # Slices come by the thousand: lists give their entries faster than arrays, and no fraction is computed with.
    about = zip(*(state[name].tolist() for name in (*MOMENT_COUNTS, "least", "greatest")), strict=True)
    sums, n_bits = whole_sums(state["limbs"].reshape(-1, LIMBS))
    figures = []
    for (n, n_undefined, n_zero, least, greatest), total, squares, (is_large, has_large_squares) in zip(
        about, sums[::2], sums[1::2], state["n_excessive"].tolist(), strict=True
    ):
        if is_large or has_large_squares:
            known_total = math.nan if is_large else total / (1 << n_bits)
            figures.append(_moments_of_large(n, n_undefined, n_zero, least, greatest, known_total))
            continue
        unit_sums = UnitSums(n_bits, y=total, yy=squares)
        figures.append(_moments(n, n_undefined, n_zero, least, greatest, total, squares, 1 << n_bits, unit_sums))
    return figures


def _moments_of_large(n: int, n_undefined: int, n_zero: int, least: float, greatest: float, total: float) -> Moments:
    """The figures if exact sums cannot hold all squares, or not even all values: then the total is NaN."""
    if math.isinf(least) or math.isinf(greatest):
        total = least + greatest
    std = 0.0 if n > 1 and least == greatest and math.isfinite(least) else math.nan
    return Moments(n, n_undefined, n_zero, least if least == greatest else total / n, std, least, greatest, total, None)


class MomentsByName(Mapping[str, Moments]):
    """The moments of columns that have names, each made when someone asks for it: of slices by the thousand hardly any are."""

    def __init__(self, names: Sequence[str], state: State) -> None:
        self._places = {name: place for place, name in enumerate(names)}
        # Not as views: one would keep the states of all groups that came with this one.
        self._state = {field: values.copy() for field, values in state.items()}

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __getitem__(self, name: str) -> Moments:
        place = self._places[name]
        return moments_of({field: values[place] for field, values in self._state.items()})

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def moments_of_sums(
    n: int, n_undefined: int, n_zero: int, least: float, greatest: float, sums: Mapping[str, Fraction]
) -> Moments:
    """The figures of one column from its counts, its extremes and its exact sums ``y`` and ``yy``; a missing sum is 0."""
    (total, per_total), (squares, per_square) = (sums.get(name, _ZERO).as_integer_ratio() for name in ("y", "yy"))
    per = math.lcm(per_total, per_square)
    total, squares = total * (per // per_total), squares * (per // per_square)
    return _moments(n, n_undefined, n_zero, least, greatest, total, squares, per, sums)


def _moments(
    n: int,
    n_undefined: int,
    n_zero: int,
    least: float,
    greatest: float,
    total: int,
    squares: int,
    per: int,
    sums: Mapping[str, Fraction],
) -> Moments:
    """The same with the sums in whole units, `per` to 1: fractions would be reduced at every step."""
    if n == 0:
        nan = math.nan
        return Moments(n, n_undefined, n_zero, nan, nan, nan, nan, 0.0, {})
    sum_too_small, squares_too_small = too_small(least, greatest)
    std = math.nan if n < 2 else 0.0
    if n > 1 and greatest - least > max(abs(least), abs(greatest)) * _ALIKE:
        deviations, per_deviation = squares * per * n - total**2, per * per * n
        rounding, per_rounding = _rounding_of_square(least, greatest).as_integer_ratio()
        is_reliable = (
            deviations * per_rounding > n * _LEAST_ROUNDINGS * rounding * per_deviation and not squares_too_small
        )
        # The quotient of two whole numbers is rounded once.
        std = math.sqrt(deviations / (per_deviation * (n - 1))) if is_reliable else math.nan
    mean = math.nan if sum_too_small else least if least == greatest else total / (per * n)
    return Moments(n, n_undefined, n_zero, mean, std, least, greatest, total / per, sums)


def _rounding_of_square(least: float, greatest: float) -> float:
    """How far rounding can change a square; squares on the wider grid are exact."""
    largest = max(abs(least), abs(greatest))
    smallest = min(abs(least), abs(greatest)) if least * greatest > 0 else 0.0
    if largest < _FINE or smallest >= _WIDE:
        return 0.0
    return max(_HALF_UNIT, min(largest, _WIDE) ** 2 * _HALF_BIT)


#: Of fewer users the spread may be small by chance, whatever their values are.
LEAST_USERS = 100


def users_needed(variance: float, width: float, times: float) -> float:
    """How many users make the skewness of a mean at most 1 / √times, for values of a variance and a range; at least 100."""
    return max(LEAST_USERS, times * (width / math.sqrt(variance)) ** 2) if variance > 0 else math.inf


#: So many differences are tried under all signs, 2^15 of them up to the sign of all; as many are kept of each column.
MOST = 16


def smallest(kept: Floats, sizes: Floats) -> Floats:
    """The `MOST` smallest sizes of each column, ascending, of those kept before and new ones; infinite ones fill up."""
    if sizes.shape[1] > MOST:
        sizes = np.partition(sizes, MOST - 1, axis=1)[:, :MOST]
    both = np.concatenate([kept, sizes], axis=1)
    both.sort(axis=1)
    return both[:, :MOST]


# How fields are combined whose names end so; others are added.
_COMBINE: dict[str, Callable[[Array, Array], Array]] = {
    "least": np.minimum,
    "greatest": np.maximum,
    "smallest": smallest,
    "joined": lambda first, second: np.concatenate([first, second], axis=1),
}


def merged(states: Iterable[dict[str, Array]]) -> dict[str, Array]:
    """The state of all rows, from one or more states of parts of them, in any order; sketches have `merged_sketches`."""
    total: dict[str, Array] = {}
    for state in states:
        for name, values in state.items():
            total[name] = values if name not in total else _combine(name)(total[name], values)
    return total


def merged_stacks(fields: Mapping[str, Array], groups: Array) -> dict[str, Array]:
    """The states of several groups, from fields with an entry for each part of a group: `groups` says whose each entry is.

    The fields are added, or their least or greatest values are taken. Each group from 0 on has at least one entry.
    """
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(starts_of_runs(groups[order]))
    merged_fields = {}
    for name, values in fields.items():
        combine = _combine(name)
        assert isinstance(combine, np.ufunc), f"{name} is of one group alone"
        entries = values[order]
        merged_fields[name] = entries if len(starts) == len(entries) else combine.reduceat(entries, starts, axis=0)
    return merged_fields


def _combine(name: str) -> Callable[[Array, Array], Array]:
    return _COMBINE.get(name.rpartition("_")[2], np.add)
