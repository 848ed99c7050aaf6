"""Count, sum and spread of columns, added exactly: whole numbers of units of 1, 2⁻³² and 2⁻⁶⁴ add up the same in every order.

If values are skewed, their mean needs many users to be close to normal. The third absolute moment of values about their mean is at most
range × variance. So the skewness of a mean of n users is at most range / (standard deviation · √n). It bounds how far the mean is from
normal (Berry 1941, Esseen 1942). If few values are far from most, the range is many standard deviations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from spark_rankeval.ranking.user_lists import starts_of_runs
from spark_rankeval.statistics.quantiles import Tally, tally
from spark_rankeval.statistics.sums import LIMBS, UNIT_BITS, ExactSums, UnitSums, exact_sum

Column = np.ndarray[tuple[int], np.dtype[np.float64]]
Array = np.ndarray[Any, Any]
Integers = np.ndarray[Any, np.dtype[np.int64]]
#: For each field of a state, an array with one entry per column.
State = dict[str, Array]

_GRID = 2.0**32
_BATCH = 1 << 14
# Up to this many values per column are counted before they are added.
_FEW = 1 << 8
# `_BATCH` values up to this size add up to less than 2^53 in units of 2⁻³². So a float sum of them is exact.
_SMALL = 2.0**53 / _GRID / _BATCH
# From `_FINE` to `_WIDE` a value is exact in units of 2⁻⁶⁴. There the squares of billions of users do not overflow a 64-bit sum of
# units of 1. Other values, which are rare among metrics, are added on a wider grid; values from `_HUGE` on are added as floats.
_FINE, _WIDE, _HUGE = 2.0**-11, 2.0**15, 2.0**255
# The grid of exact sums ends at 2⁻⁵¹²: columns without values above these keep too few digits of sums, or of squares.
_LEAST_SUMMED, _LEAST_SQUARED = 2.0**-440, 2.0**-220
# Values that differ by less than this share of their size differ only by rounding.
_ALIKE = 2.0**-40
# A sum of squared deviations is known if it is this many times the rounding of squares. That gives 3 digits of the spread, and far
# more for many users.
_LEAST_ROUNDINGS = 1 << 10
# Squares are rounded by up to half a unit, and to 53 bits.
_HALF_UNIT, _HALF_BIT = 2.0**-65, 2.0**-54
# Splits a float into two halves of at most 26 bits, whose products are exact (Dekker 1971).
_HALVES = 2.0**27 + 1
_ZERO = Fraction(0)
# Limbs of sums are of units down to 1 over this.
_PER_LIMBS = 1 << UNIT_BITS

#: The fields of a state that are whole numbers; all of them are added when states are merged.
MOMENT_COUNTS = ("n", "n_undefined", "n_zero")
SUM_LIMBS = ("sum_ones", "sum_middle", "sum_low")
SQUARE_LIMBS = ("square_ones", "square_middle", "square_low")
INTEGERS = (*MOMENT_COUNTS, *SUM_LIMBS, *SQUARE_LIMBS)
#: Fields that are floats: sums of values too large for exact sums (added), and the extremes (least, greatest).
LARGE = ("sum_large", "square_large")
#: The limbs of sums on the wider grid.
WIDE_LIMBS = ("sum_wide", "square_wide")

_SUM, _SQUARE = INTEGERS.index("sum_ones"), INTEGERS.index("square_ones")


class MomentsAccumulator:
    """The moments of several columns, for rows that come batch by batch."""

    def __init__(self, n_columns: int) -> None:
        self._integers = np.zeros((len(INTEGERS), n_columns), np.int64)
        self._large = np.zeros((len(LARGE), n_columns))
        self._least = np.full(n_columns, math.inf)
        self._greatest = np.full(n_columns, -math.inf)
        self._scratch = np.empty((2, _BATCH))
        self._wide = ExactSums(len(WIDE_LIMBS) * n_columns)

    def add(self, column: int, values: Column) -> None:
        """Add float64 values of a column; NaN is counted as undefined and left out of the rest."""
        # One piece at a time, so that it stays in a core's cache through all steps.
        for start in range(0, len(values), _BATCH):
            self._add(column, values[start : start + _BATCH])

    def add_columns(self, first: int, columns: Sequence[Column]) -> None:
        """Add values of neighbouring columns of the same length, beginning with column `first`."""
        if columns and len(columns[0]) <= _FEW:
            # A column costs more than a value, so a few values of all columns are counted in one go.
            self.add_tally(tally(columns, first))
            return
        for column, values in enumerate(columns, first):
            self.add(column, values)

    def add_tally(self, counted: Tally) -> None:
        """Add counted values; if they are below 2²⁵⁵, the state is the same as if they were added one by one."""
        n_columns = len(counted.n_undefined)
        self._integers[1, counted.first : counted.first + n_columns] += counted.n_undefined
        if not len(counted.values):
            return
        starts = counted.starts
        columns, values, times = counted.column[starts], counted.values, counted.times
        ends = np.append(starts[1:], len(values)) - 1
        self._widen(columns, values[starts], values[ends])
        self._integers[0, columns] += np.add.reduceat(times, starts)
        self._integers[2, columns] += np.add.reduceat(np.where(values == 0, times, 0), starts)
        sizes = np.abs(values)
        usual = (sizes >= _FINE) & (sizes < _WIDE)
        unusual = ~usual & (values != 0)
        if unusual.any():
            for column in np.unique(counted.column[unusual]):
                is_in_column = unusual & (counted.column == column)
                self._add_wide(int(column), np.repeat(values[is_in_column], times[is_in_column]))
            values = np.where(usual, values, 0.0)

        def total(whole: Array) -> Integers:
            sums: Integers = np.add.reduceat(whole.astype(np.int64) * times, starts)
            return sums

        for first, terms in ((_SUM, values), (_SQUARE, values * values)):
            ones = np.rint(terms)
            units = (terms - ones) * _GRID
            middle = np.rint(units)
            self._carry(columns, first, total(ones), total(middle), total(np.rint((units - middle) * _GRID)))

    def _add(self, column: int, values: Column) -> None:
        least, greatest = float(values.min()), float(values.max())
        n_undefined = 0
        if math.isnan(least):
            defined = values[~np.isnan(values)]
            n_undefined, values = len(values) - len(defined), defined
            least, greatest = float(values.min(initial=math.inf)), float(values.max(initial=-math.inf))
        self._widen(column, least, greatest)
        n = len(values)
        zeros = n - int(np.count_nonzero(values))
        self._integers[:3, column] += (n, n_undefined, zeros)
        bound = max(abs(least), abs(greatest)) if n else 0.0
        if bound == 0:
            return
        sizes = np.abs(values, out=self._scratch[0, :n])
        if bound >= _WIDE or int(np.count_nonzero(sizes < _FINE)) > zeros:
            usual = (sizes >= _FINE) & (sizes < _WIDE)
            self._add_wide(column, values[~usual])
            bound = float(sizes[usual].max(initial=0.0))
            values = values[usual]
        self._add_exactly(column, values, bound, _SUM)
        self._add_exactly(column, values * values, bound * bound, _SQUARE)

    def _widen(self, columns: Integers | int, least: Column | float, greatest: Column | float) -> None:
        # Whether 0 or −0 comes first is chance, so the extremes have the positive zero.
        self._least[columns] = np.minimum(self._least[columns], least) + 0.0
        self._greatest[columns] = np.maximum(self._greatest[columns], greatest) + 0.0

    def _add_wide(self, column: int, values: Column) -> None:
        """Add values of any size, and their squares without rounding."""
        huge = np.abs(values) >= _HUGE
        if huge.any():
            with np.errstate(over="ignore", invalid="ignore"):
                self._large[:, column] += (values[huge].sum(), (values[huge] ** 2).sum())
            values = values[~huge]
        turned = values * _HALVES
        high = turned - (turned - values)
        low = values - high
        for place, terms in ((2 * column, values), (2 * column + 1, np.concatenate([high**2, 2 * high * low, low**2]))):
            self._wide.add(place, terms)

    def _add_exactly(self, column: int, values: Column, bound: float, first: int) -> None:
        ones, units, rounded = 0, *self._scratch[:, : len(values)]
        if bound > _SMALL:
            np.rint(values, out=rounded)
            ones = int(rounded.sum())
            values = values - rounded
        np.multiply(values, _GRID, out=units)
        np.rint(units, out=rounded)
        middle = int(rounded.sum())
        np.subtract(units, rounded, out=units)
        np.multiply(units, _GRID, out=units)
        np.rint(units, out=rounded)
        self._carry(column, first, ones, middle, int(rounded.sum()))

    def _carry(
        self, columns: Integers | int, first: int, ones: Integers | int, middle: Integers | int, low: Integers | int
    ) -> None:
        # The lower limbs stay below 2^32, so that they do not overflow when states are merged.
        integers = self._integers
        low = low + integers[first + 2, columns]
        middle = middle + integers[first + 1, columns] + (low >> 32)
        integers[first, columns] += ones + (middle >> 32)
        integers[first + 1, columns] = middle & 0xFFFFFFFF
        integers[first + 2, columns] = low & 0xFFFFFFFF

    def state(self) -> State:
        """The state so far: for each field, an array with one entry per column."""
        fields = {**dict(zip(INTEGERS, self._integers, strict=True)), **dict(zip(LARGE, self._large, strict=True))}
        fields |= {"least": self._least, "greatest": self._greatest}
        limbs = self._wide.state()["limbs"].reshape(-1, len(WIDE_LIMBS), LIMBS)
        fields |= {name: limbs[:, place] for place, name in enumerate(WIDE_LIMBS)}
        return {name: values.copy() for name, values in fields.items()}

    def state_of_groups(self, n_groups: int) -> State:
        """The states of several groups, with one entry per group; every n-th column is of the same group."""
        return {
            name: values.reshape(-1, n_groups, *values.shape[1:]).swapaxes(0, 1)
            for name, values in self.state().items()
        }


class Moments(NamedTuple):
    """The figures of one column; without values they are NaN, except `total` and the counts.

    Attributes:
        n_undefined: how many values were NaN; `n` counts the others.
        mean: the exact mean, rounded once; NaN if all values are below 2⁻⁴⁴⁰, because exact sums hold too few of their digits.
            Values from 2²⁵⁵ on are added as floats.
        std: the standard deviation of the sample (divisor n − 1); 0 if values differ only by rounding. NaN for fewer than
            two values, and if it is not known to 3 digits: all values are below 2⁻²²⁰, or lie closer together than the rounding
            of their squares allows. Squares of values from 2⁻¹¹ to 2¹⁵ are rounded to 53 bits, and to units of 2⁻⁶⁴.
        sums: the exact sums of the values and of their squares (``y``, ``yy``); None if values are too large for them.
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
    """The figures of one column from its merged state: one entry of each field of `MomentsAccumulator.state`.

    Without the limbs of the wider grid nothing was added there.
    """
    least, greatest = float(state["least"]), float(state["greatest"])
    counts: dict[str, Any] = {name: int(state[name]) for name in MOMENT_COUNTS} | {"least": least, "greatest": greatest}
    total, squares = _exact(state, SUM_LIMBS), _exact(state, SQUARE_LIMBS)
    if WIDE_LIMBS[0] in state:
        total, squares = total + exact_sum(state["sum_wide"]), squares + exact_sum(state["square_wide"])
    large, large_squares = float(state["sum_large"]), float(state["square_large"])
    if not (large or large_squares):
        return moments_of_sums(**counts, sums={"y": total, "yy": squares})
    if not math.isfinite(large):
        return Moments(**counts, mean=large, std=math.nan, total=large, sums=None)
    total += Fraction(large)
    if math.isfinite(large_squares):
        figures = moments_of_sums(**counts, sums={"y": total, "yy": squares + Fraction(large_squares)})
        return figures._replace(sums=None)
    std = 0.0 if counts["n"] > 1 and least == greatest else math.nan
    return Moments(**counts, mean=float(total / counts["n"]), std=std, total=float(total), sums=None)


def moments_of_columns(state: State) -> list[Moments]:
    """The figures of every column from a merged state."""
    n_columns = len(state["n"])
    has_unusual = np.zeros(n_columns, np.bool_)
    for name in (*WIDE_LIMBS, *LARGE):
        if name in state:
            has_unusual |= state[name].any(axis=tuple(range(1, state[name].ndim)))
    # Slices come by the thousand: lists give their entries faster than arrays, and no fraction is computed with.
    about, sums, squares = (
        zip(*(state[name].tolist() for name in names), strict=True)
        for names in ((*MOMENT_COUNTS, "least", "greatest"), SUM_LIMBS, SQUARE_LIMBS)
    )
    figures = []
    columns = enumerate(zip(has_unusual.tolist(), about, sums, squares, strict=True))
    for column, (is_unusual, (n, n_undefined, n_zero, least, greatest), y, yy) in columns:
        if is_unusual:
            figures.append(moments_of({name: numbers[column] for name, numbers in state.items()}))
            continue
        total, square = _whole(*y), _whole(*yy)
        unit_sums = UnitSums(y=total, yy=square)
        figures.append(_moments(n, n_undefined, n_zero, least, greatest, total, square, _PER_LIMBS, unit_sums))
    return figures


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


def _exact(state: dict[str, Any], limbs: tuple[str, ...]) -> Fraction:
    return Fraction(_whole(*(int(state[limb]) for limb in limbs)), _PER_LIMBS)


def _whole(ones: int, middle: int, low: int) -> int:
    """A sum in units of 2⁻⁶⁴."""
    return (ones << 64) + (middle << 32) + low


#: Of fewer users the spread may be small by chance, whatever their values are.
LEAST_USERS = 100


def users_needed(variance: float, width: float, times: float) -> float:
    """How many users make the skewness of a mean at most 1 / √times, for values of a variance and a range; at least 100."""
    return max(LEAST_USERS, times * (width / math.sqrt(variance)) ** 2) if variance > 0 else math.inf


Floats = np.ndarray[Any, np.dtype[np.float64]]

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
