"""The figures of charts as plain records. Drawing them needs the extra ``report``; these records do not."""

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
        place: its position: a cutoff, a recall, or the name of a line.
        value: NaN if it is undefined.
        low: the lower end of its interval; NaN if there is none.
        note: the text beside it.
        margin: the largest difference that does not matter.
    """

    series: str
    place: str | float
    value: float
    low: float = math.nan
    high: float = math.nan
    note: str = ""
    margin: float = 0.0

    def record(self) -> dict[str, Any]:
        """The record as data of a chart, which cannot have NaN."""
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
    """The number of users between two values."""

    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Histogram:
    """The users of a model.

    Attributes:
        series: the model.
        bins: from left to right; empty ones may be left out.
        n_users: all users, of whom the bars show shares; more than the bins hold if some are not drawn.
        mean: the mean over the users; NaN if there is none.
        low: the lower end of the mean's interval; NaN if there is none.
        note: the text in the panel.
    """

    series: str
    bins: tuple[Bin, ...]
    n_users: int
    mean: float
    low: float = math.nan
    high: float = math.nan
    note: str = ""
