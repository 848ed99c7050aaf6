"""Checks of parameter values: numbers, and several numbers in a string such as ``0.5,0.3,0.2``."""

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
    """A check that a parameter is a number from `low` to `high`; None passes, too, if it is `optional`."""

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
    """Whether a value is a number, not NaN, that fits into a float: below about 10³⁰⁸ in size, or infinite."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    try:
        return not math.isnan(value)
    except OverflowError:
        return False


def read_numbers(listed: object) -> list[float]:
    """The numbers in a string such as ``0.5,0.3,0.2`` or in a sequence; a single number becomes a list of one.

    Raises:
        ValueError, TypeError: the value cannot be read as numbers.
    """
    if isinstance(listed, str):
        return [float(part) for part in listed.split(",")]
    if isinstance(listed, numbers.Real) and not isinstance(listed, bool):
        return [float(listed)]
    if isinstance(listed, Iterable):
        return [float(part) for part in listed]
    raise TypeError


def problem_of_numbers(listed: Any, wanted: str) -> str | None:
    """None if the value is valid: finite numbers from 0 on that are not all 0, or None. Otherwise `wanted`."""
    if listed is None:
        return None
    try:
        read = read_numbers(listed)
    except (TypeError, ValueError):
        return wanted
    return None if all(0 <= value < math.inf for value in read) and 0 < sum(read) < math.inf else wanted


def as_text(listed: object) -> str:
    """Numbers as a string that `read_numbers` reads back; equal numbers give equal strings."""
    return ",".join(map(repr, read_numbers(listed)))
