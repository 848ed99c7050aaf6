"""The figures that charts are given, as plain records; what draws them needs the extra ``report``, these do not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from spark_rankeval.tables.numbers import number

#: How wide a drawing is without its labels, in pixels.
WIDTH = 560
#: What the extra is for, in messages.
PURPOSE = "charts"


@dataclass(frozen=True)
class Estimate:
    """A mean or a difference of means with its interval.

    Attributes:
        series: the model, which decides the colour.
        place: where it stands: a cutoff, a recall, or the name of a line.
        value: NaN if it is undefined.
        low: the lower end of its interval; NaN if there is none.
        note: what is written beside it.
        margin: the difference that does not matter.
    """

    series: str
    place: str | float
    value: float
    low: float = math.nan
    high: float = math.nan
    note: str = ""
    margin: float = 0.0

    def record(self) -> dict[str, Any]:
        """As data of a chart, which know no NaN."""
        figures = {"value": self.value, "low": self.low, "high": self.high}
        known = {name: value if math.isfinite(value) else None for name, value in figures.items()}
        return {"series": self.series, "place": self.place, **known, "shown": with_interval(self), "note": self.note}


def with_interval(estimate: Estimate) -> str:
    """The figure and its interval as text."""
    if not math.isfinite(estimate.low + estimate.high):
        return number(estimate.value)
    return f"{number(estimate.value)} ({number(estimate.low)} to {number(estimate.high)})"


@dataclass(frozen=True)
class Bin:
    """So many users between two values."""

    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Histogram:
    """The users of a model.

    Attributes:
        series: the model.
        bins: from left to right; empty ones may be left out.
        n_users: what shares are of; more users than the bins hold if some are not drawn.
        mean: of the users; NaN if there is none.
        low: the lower end of the mean's interval; NaN if there is none.
        note: what is written in the panel.
    """

    series: str
    bins: tuple[Bin, ...]
    n_users: int
    mean: float
    low: float = math.nan
    high: float = math.nan
    note: str = ""
