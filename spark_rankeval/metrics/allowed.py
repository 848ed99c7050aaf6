"""Which values parameters may have: numbers, and several numbers in a text such as ``0.5,0.3,0.2``."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable
from typing import Any


def number(
    low: float,
    high: float = math.inf,
    *,
    what: str,
    open_low: bool = False,
    open_high: bool = False,
    optional: bool = False,
) -> Callable[[Any], str | None]:
    """A check that a parameter is a number from `low` to `high`, or None where it is optional."""

    def check(value: Any) -> str | None:
        if value is None and optional:
            return None
        if not _is_number(value):
            return what
        number = float(value)
        outside = number < low or number > high or (open_low and number == low) or (open_high and number == high)
        return what if outside else None

    return check


def _is_number(value: Any) -> bool:
    """Whether a value is a number with a place among the floats; one is too large from about 10³⁰⁸ on, unless it is infinite."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    try:
        return not math.isnan(value)
    except OverflowError:
        return False


def read_numbers(listed: object) -> list[float]:
    """The numbers of a text such as ``0.5,0.3,0.2``, of a sequence, or of one number.

    Raises:
        ValueError, TypeError: it does not read as numbers.
    """
    if isinstance(listed, str):
        return [float(part) for part in listed.split(",")]
    if isinstance(listed, numbers.Real) and not isinstance(listed, bool):
        return [float(listed)]
    if isinstance(listed, Iterable):
        return [float(part) for part in listed]
    raise TypeError


def problem_of_numbers(listed: Any, wanted: str) -> str | None:
    """What is wanted, unless these are numbers from 0 on, not all 0; None is none of them, and right."""
    if listed is None:
        return None
    try:
        read = read_numbers(listed)
    except (TypeError, ValueError):
        return wanted
    return None if all(0 <= value < math.inf for value in read) and 0 < sum(read) < math.inf else wanted


def as_text(listed: object) -> str:
    """One text for equal numbers, that reads back."""
    return ",".join(map(repr, read_numbers(listed)))
