"""Parameters that are several numbers, one of a grade or of a rank each: texts such as ``0.5,0.3,0.2``."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from typing import Any


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
