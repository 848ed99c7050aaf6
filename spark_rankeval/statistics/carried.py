"""Exact sums as text that reads back to the last bit, so that stored summaries can be added up as states are."""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
    known: Mapping[str, Fraction | int] = sums.units if isinstance(sums, UnitSums) else sums
    return known.get(name, 0) == known.get(other, 0)


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
