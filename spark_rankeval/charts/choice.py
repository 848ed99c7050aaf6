"""Which metrics and slices a chart shows, and its figures as plain records. Drawing them needs the extra ``report``; these do not."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from spark_rankeval.errors import UnknownMetricError, did_you_mean
from spark_rankeval.metrics.base import Metric
from spark_rankeval.metrics.naming import reads_as
from spark_rankeval.records.comparison_rows import ComparisonRow, PairRow
from spark_rankeval.records.summary import SummaryRow
from spark_rankeval.tables.table import number

Metrics = str | Metric | Iterable[str | Metric] | None

# So many lines a chart of all metrics or slices has; more are a table's matter.
MOST_LINES = 40
# A metric at more cutoffs than a few is a curve, and these stand for it.
_FEW, _USUAL_CUTOFFS = 6, (1, 5, 10, 20, 50, 100)

Row = TypeVar("Row", bound="SummaryRow | ComparisonRow | PairRow")
Sliced = TypeVar("Sliced", bound="SummaryRow | ComparisonRow")


def headline_keys(rows: Sequence[SummaryRow]) -> list[str]:
    """The metrics to show first: no points of a recall curve, and only the usual cutoffs of a metric with many."""
    families: dict[tuple[str, str], list[SummaryRow]] = {}
    for row in rows:
        name = row.definition.partition("(")[0].partition("@")[0]
        without = re.sub(r"@\d+$|recall=[\d.]+", "", row.definition)
        families.setdefault((name if name == "iprec" else without, row.relevance), []).append(row)
    kept = []
    for (name, _), of_family in families.items():
        keys = {row.key: row.cutoff for row in of_family}
        if len(keys) > _FEW:
            usual = [key for key, cutoff in keys.items() if cutoff in _USUAL_CUTOFFS]
            keys = dict.fromkeys([] if name == "iprec" else usual or [*keys][: _FEW - 1] + [*keys][-1:])
        kept += list(keys)
    order = dict.fromkeys(row.key for row in rows)
    wanted = set(kept)
    return [key for key in order if key in wanted][:MOST_LINES] or list(order)[:MOST_LINES]


def one_of_each(rows: Sequence[SummaryRow]) -> list[str]:
    """One headline metric of each kind: the one at cutoff 10, or the middle one."""
    cutoffs = {row.key: row.cutoff for row in rows}
    kinds: dict[str, list[str]] = {}
    for key in headline_keys(rows):
        kinds.setdefault(re.sub(r"@\d+(?=$| \[)", "", key), []).append(key)
    return [next((key for key in keys if cutoffs[key] == 10), keys[len(keys) // 2]) for keys in kinds.values()]


def largest(rows: Sequence[Sliced]) -> list[Sliced]:
    """The rows of the slices with the most users, in their order."""
    sizes: dict[str, int] = {}
    for row in rows:
        sizes[row.slice] = max(sizes.get(row.slice, 0), row.n_users)
    kept = set(sorted(sizes, key=lambda name: -sizes[name])[:MOST_LINES])
    return [row for row in rows if row.slice in kept]


def chosen(rows: Sequence[Row], metrics: Metrics) -> list[Row]:
    """The rows of some metrics or of all, metric by metric; a metric without a row is an `UnknownMetricError`."""
    keys = list(dict.fromkeys(map(_key, rows)))
    if metrics is None:
        metrics = keys
    of_metrics = []
    for name in [metrics] if isinstance(metrics, str | Metric) else metrics:
        exact = [row for row in rows if name in (_key(row), row.metric)]
        of_name = exact or [row for row in rows if reads_as(row.metric, name)]
        if not of_name:
            known = ", ".join(keys) or "none"
            msg = f"there is no metric {str(name)!r} to draw; {did_you_mean(name, keys)}available: {known}"
            raise UnknownMetricError(msg)
        of_metrics += of_name
    return of_metrics


def of_one_metric(rows: Sequence[SummaryRow], metric: str | Metric) -> list[SummaryRow]:
    """The rows of one metric; a name that fits no metric or several is an `UnknownMetricError`."""
    of_metric = chosen(rows, [metric])
    keys = list(dict.fromkeys(row.key for row in of_metric))
    if len(keys) > 1:
        msg = f"{str(metric)!r} is ambiguous: it matches {', '.join(map(repr, keys))}; draw one of these"
        raise UnknownMetricError(msg)
    return of_metric


def answers(row: SummaryRow, metric: str | Metric) -> bool:
    """Whether a row belongs to a metric, by any of its names."""
    return metric in (row.key, row.metric) or reads_as(row.metric, metric)


def _key(row: SummaryRow | ComparisonRow | PairRow) -> str:
    return row.key if isinstance(row, SummaryRow) else row.metric


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
