"""Exact sums of floats from 2⁻⁵¹² to 2⁵¹¹, whatever the order of terms; their means; and text that reads back to the last bit.

A value is cut into limbs, whole numbers of units of 2^(32·j), which add up as integers. `moments` does so more cheaply near 1.

With weights the mean is Σwy / Σw (Hájek 1971). Its variance is n/(n−1) · Σw²(y − mean)² / (Σw)², as in R's `survey::svymean`.
This is the linearisation of Särndal, Swensson and Wretman (Model Assisted Survey Sampling, 1992, section 5.7). A constant factor
on all weights changes nothing. Frequency weights (statsmodels' `DescrStatsW`) have another variance.
"""

from __future__ import annotations

import json
import math
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

Column = np.ndarray[tuple[int], np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]

_BITS = 32
_UNIT = 2.0**_BITS
_LOWEST = -16
#: Limbs of a sum, the least significant first: units of 2^(32·(_LOWEST + i)).
LIMBS = 32
_ROWS = 1 << 13
# So many batches of rows add less than 2^63 to a limb.
_ADDED_BEFORE_CARRY = 1 << 17
# From here on a value has no limb; such values are counted.
_LIMIT = 2.0**511


class ExactSums:
    """Several sums of floats, of terms that come batch by batch."""

    def __init__(self, n_sums: int) -> None:
        self._limbs = np.zeros((n_sums, LIMBS), np.int64)
        self._n_excessive = np.zeros(n_sums, np.int64)
        self._n_added = 0

    def add(self, index: int, values: Column, group: Integers | None = None) -> None:
        """Add values without NaN to one of the sums; infinities and values from 2⁵¹¹ on are counted and make the sum NaN.

        With the `group` of each value, from 0 on, `index` is the sum of group 0, and those of the other groups come next.
        """
        for start in range(0, len(values), _ROWS):
            rows = slice(start, start + _ROWS)
            self._add(index, values[rows], None if group is None else group[rows])

    def _add(self, index: int, values: Column, group: Integers | None) -> None:
        greatest = float(np.abs(values).max())
        if not greatest < _LIMIT:
            fits = np.abs(values) < _LIMIT
            n_too_large = np.bincount(np.zeros(len(values), np.int64) if group is None else group, ~fits)
            self._n_excessive[index : index + len(n_too_large)] += n_too_large.astype(np.int64)
            values, group = values[fits], None if group is None else group[fits]
            greatest = float(np.abs(values).max(initial=0.0))
        if greatest == 0:
            return
        self._n_added += 1
        if self._n_added % _ADDED_BEFORE_CARRY == 0:
            self._carry()
        limb = max(math.frexp(greatest)[1] // _BITS - _LOWEST, 0)
        rest = values * 2.0 ** (-_BITS * (limb + _LOWEST))
        whole = np.empty_like(rest)
        while True:
            np.rint(rest, out=whole)
            # At most 2^13 whole numbers below 2^32: a float holds their sum.
            if group is None:
                self._limbs[index, limb] += int(whole.sum())
            else:
                sums = np.bincount(group, whole)
                self._limbs[index : index + len(sums), limb] += sums.astype(np.int64)
            np.subtract(rest, whole, out=rest)
            if limb == 0 or not rest.any():
                return
            limb -= 1
            np.multiply(rest, _UNIT, out=rest)

    def _carry(self) -> None:
        """Leave limbs below 2^32, so that billions of states can be added without overflow."""
        carry = np.zeros(len(self._limbs), np.int64)
        for limb in range(LIMBS - 1):
            total = self._limbs[:, limb] + carry
            carry = total >> _BITS
            self._limbs[:, limb] = total & (2**_BITS - 1)
        self._limbs[:, -1] += carry

    def state(self) -> dict[str, Integers]:
        """The state so far: ``limbs`` (sums × LIMBS) and ``n_excessive`` (sums); states are merged by adding both."""
        self._carry()
        return {"limbs": self._limbs.copy(), "n_excessive": self._n_excessive.copy()}


def exact_sum(limbs: Integers) -> Fraction:
    """The exact sum whose limbs these are."""
    total = sum(int(limb) << (_BITS * place) for place, limb in enumerate(limbs))
    return Fraction(total, 1 << (-_BITS * _LOWEST))


Array = np.ndarray[Any, Any]

COUNTS = ("n", "n_undefined", "n_without_weight", "n_invalid_weights")
# The sums of w^j y^k that are kept, as (j, k).
_WEIGHTED = ((1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2), (3, 0), (3, 1), (3, 2), (3, 3))
_PLAIN = ((0, 1), (0, 2), (0, 3))
#: Squares are rounded before they are added: a spread smaller than this share of them is rounding.
NEARLY_NOTHING = Fraction(1, 2**48)
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
    # Outside this range the cubes of weights leave the grid of exact sums.
    if not LEAST_MEAN_WEIGHT <= by_term[1, 0] / n <= 1 / LEAST_MEAN_WEIGHT:
        return Mean(**fields)
    return _defined_mean(fields, by_term)


def degrees_of_freedom(weight: Fraction, cubes: Fraction) -> float:
    """Those of the variance of a mean of units, such as clusters, with the sums of their weights and of the cubes of these.

    √((Σw)³ / Σw³) − 1 is n − 1 for equal weights. It comes from Hill's number of order 3 (Ecology 1973), which is smaller than Kish's, of
    order 2. In simulations intervals need that if few of many units have most of the weight. It is rounded down, so that thousands of
    slices need few quantiles of t.
    """
    df = (math.sqrt(weight**3 / cubes) - 1) * (1 + _ROUNDING)
    return float(math.floor(df)) if df >= _LARGE else math.floor(10 * df) / 10


def _defined_mean(fields: dict[str, Any], sums: Mapping[tuple[int, int], Fraction]) -> Mean:
    n: int = fields["n"]
    weight = sums[1, 0]
    mean = sums[1, 1] / weight
    spread = sums[1, 2] - mean * sums[1, 1]
    squares = sums[2, 2] - 2 * mean * sums[2, 1] + mean**2 * sums[2, 0]
    cubes = sums[3, 3] - 3 * mean * sums[3, 2] + 3 * mean**2 * sums[3, 1] - mean**3 * sums[3, 0]
    if squares <= sums[2, 2] * NEARLY_NOTHING:
        squares = cubes = spread = Fraction(0)
    # Ratios without a unit are formed exactly before they become floats, which cannot hold tiny or huge powers.
    return Mean(
        **fields,
        mean=float(mean),
        std=math.sqrt(spread / weight * Fraction(n, n - 1)) if n > 1 else math.nan,
        standard_error=math.sqrt(squares / weight**2 * Fraction(n, n - 1)) if n > 1 else math.nan,
        acceleration=math.copysign(math.sqrt(cubes**2 / squares**3), cubes) / 6 if squares else 0.0,
        effective_n=float(weight**2 / sums[2, 0]),
        df=degrees_of_freedom(weight, sums[3, 0]),
        total_weight=float(weight),
    )


#: Exact sums by what they are of; one that is not there is 0.
Sums = dict[str, Fraction]

#: Sums of floats and of their squares have no digit beyond 2 to this power or its negative. A text may not ask for more memory.
_MOST_BITS = 1200
_NUMBER = re.compile(rf"(-?)([0-9a-f]{{1,{_MOST_BITS // 2}}})p(-?[0-9]{{1,4}})")
#: How many binary digits a unit has behind the point.
UNIT_BITS = 64


class UnitSums(Mapping[str, Fraction]):
    """Sums in whole units of 2⁻⁶⁴. Each becomes a fraction when someone asks for it: with thousands of slices hardly any is.

    >>> sums = UnitSums(y=3 << 61, yy=0)
    >>> sums["y"], as_text(sums)
    (Fraction(3, 8), '{"y":"3p-3"}')
    """

    __slots__ = ("units",)

    def __init__(self, **units: int) -> None:
        self.units = units

    def __getitem__(self, name: str) -> Fraction:
        return Fraction(self.units[name], 1 << UNIT_BITS)

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
        numbers = [(name, whole, -UNIT_BITS) for name, whole in sums.units.items()]
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
