"""How figures are written: numbers, columns of numbers, intervals and p-values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: What stands in a cell that has no figure.
DASH = "–"
# Figures of a column have four places, or as many as the smallest needs; beyond these, all are powers of 10.
_PLACES, _MOST_PLACES, _TOO_LARGE = 4, 7, 1e9


def number(value: float) -> str:
    """A figure with four decimal places, or with powers of 10 if it is too small or too large for that."""
    if math.isnan(value):
        return "undefined"
    if value and (abs(value) < 1e-4 or abs(value) >= 1e6):
        return f"{value:.4e}"
    return f"{value:.4f}"


def in_one_format(values: Iterable[float], *, sign: Literal["", "+"] = "") -> Callable[[float], str]:
    """Choose one format for a column: enough decimal places that the smallest figure has two digits, or powers of 10.

    >>> [in_one_format([0.5, 0.00012])(value) for value in (0.5, 0.00012, 0.0, math.nan)]
    ['0.50000', '0.00012', '0.00000', 'undefined']
    >>> [in_one_format([0.5, 3e-12], sign="+")(value) for value in (0.5, 3e-12)], in_one_format([0.5])(0.25)
    (['+5.0000e-01', '+3.0000e-12'], '0.2500')
    """
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    places = max(_PLACES, 1 - math.floor(math.log10(min(sizes)))) if sizes else _PLACES
    is_wide = places > _MOST_PLACES or (bool(sizes) and max(sizes) >= _TOO_LARGE)
    form = f"{sign}.{_PLACES}e" if is_wide else f"{sign}.{places}f"
    return lambda value: "undefined" if math.isnan(value) else f"{value:{form}}"


def probability(p: float) -> str:
    """A p-value."""
    if math.isnan(p):
        return DASH
    return "<0.0001" if p < 1e-4 else f"{p:.4f}"


def share(count: int, of: int) -> str:
    """A blank and the share of a count in a total, in parentheses. Empty if either is 0."""
    return f" ({count / of:.1%})" if count and of else ""
