"""The figures of charts as plain rows: estimates with intervals, histograms, and curves."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import pandas as pd

from spark_rankeval.checks import one_of
from spark_rankeval.errors import UnknownMetricError
from spark_rankeval.metrics.base import UNSET, Metric
from spark_rankeval.metrics.naming import expand, parse_metric
from spark_rankeval.printed_tables import number
from spark_rankeval.ranking.user_lists import LIST_PARAMETERS
from spark_rankeval.records.selection import fits
from spark_rankeval.records.summary import SummaryRow, bounds_of, is_over_lists

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
        axis: estimates with the same one share an axis; see `axis_of`.
        x_title: the title of that axis; empty: as the chart has it.
    """

    series: str
    place: str | float
    value: float
    low: float = math.nan
    high: float = math.nan
    note: str = ""
    margin: float = 0.0
    axis: str = ""
    x_title: str = ""

    def record(self) -> dict[str, Any]:
        """The record as data of a chart, which cannot have NaN."""
        figures = {"value": self.value, "low": self.low, "high": self.high}
        finite = {name: value if math.isfinite(value) else None for name, value in figures.items()}
        return {"series": self.series, "place": self.place, **finite, "shown": with_interval(self), "note": self.note}


def axis_of(definition: str) -> str:
    """The axis of a metric: empty within 0 and 1, and otherwise what only the metric's other cutoffs share.

    >>> axis_of("ndcg@10"), axis_of("dcg@10") == axis_of("dcg@5"), axis_of("dcg@10") == axis_of("novelty@10")
    ('', True, False)
    """
    low, high = bounds_of(definition)
    return "" if low >= 0 and high <= 1 else re.sub(r"@\d+$", "", definition)


def means_title(rows: Sequence[SummaryRow]) -> str:
    """The title of a chart or table of several figures."""
    n_over_lists = sum(map(is_over_lists, rows))
    if n_over_lists == len(rows):
        return "Values of all lists together"
    return "Means over users, and values of all lists" if n_over_lists else "Means over users"


def mean_of(row: SummaryRow, name: str) -> str:
    """The title of an axis of a row's metric, by that name."""
    return name if is_over_lists(row) else f"mean {name}"


def with_interval(estimate: Estimate) -> str:
    """The figure and its interval as text."""
    if not math.isfinite(estimate.low + estimate.high):
        return number(estimate.value)
    return f"{number(estimate.value)} ({number(estimate.low)} to {number(estimate.high)})"


@dataclass(frozen=True)
class StageBar:
    """What becomes of the relevant items at a stage, as shares of them.

    Attributes:
        place: the stage.
        kept: here and at every stage before.
        added: here, although some stage before lost them.
        lost: at every stage before, and not here.
        low: the lower end of the interval of kept + added; NaN if there is none.
        high: its upper end.
    """

    place: str
    kept: float
    added: float
    lost: float
    low: float = math.nan
    high: float = math.nan


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


#: The number of users by model and bin.
Counts: TypeAlias = dict[str, dict[int, int]]


@dataclass(frozen=True)
class Grid:
    """So many bins of equal width from a value on; what lies beyond the outer ones is counted with them."""

    low: float
    width: float
    n: int

    def edges(self, index: int) -> tuple[float, float]:
        """The bounds of a bin, the first being 0."""
        return self.low + index * self.width, self.low + (index + 1) * self.width


def coarsened(counts: Counts, grid: Grid, most_bins: int) -> tuple[Counts, Grid]:
    """Neighbouring bins joined two by two, from the first on, until those that are not empty span so few.

    >>> coarsened({"als": {2: 5, 3: 1, 5: 2}}, Grid(0.0, 0.5, 8), most_bins=2)
    ({'als': {1: 6, 2: 2}}, Grid(low=0.0, width=1.0, n=4))
    """
    taken = {index for users in counts.values() for index in users}
    while taken and max(taken) - min(taken) >= most_bins:
        joined: Counts = {}
        for model, users in counts.items():
            pairs = joined.setdefault(model, {})
            for index, count in users.items():
                pairs[index // 2] = pairs.get(index // 2, 0) + count
        counts, grid = joined, Grid(grid.low, 2 * grid.width, -(-grid.n // 2))
        taken = {index for users in counts.values() for index in users}
    return counts, grid


#: What the points of a curve differ in.
CurveAxis = Literal["cutoff", "score", "budget"]


class _Axis(NamedTuple):
    """What the points of a curve differ in."""

    parameter: str  # of metrics
    common: Any  # the value that all points get to be compared in what else they are
    example: str  # what to evaluate for a curve


_AXES = {
    "cutoff": _Axis("k", None, "'ndcg@1..100'"),
    "recall": _Axis("recall", 0.0, "'precision_recall_curve'"),
    "score": _Axis("min_score", 0.0, "[f'precision(min_score={score})' for score in (0.2, 0.4, 0.6)]"),
    "budget": _Axis("budget", 1.0, "[f'recall(budget={budget})' for budget in (1000, 2000, 4000)]"),
}


def curve_of(rows: Sequence[SummaryRow], metric: str | Metric, over: CurveAxis) -> pd.DataFrame:
    """The rows of a metric against their cutoffs, scores or budgets; see `Result.curve`."""
    one_of("over", over, get_args(CurveAxis))
    if over != "cutoff":
        return _points_table(parameter_points(rows, metric, over), over)
    if isinstance(metric, str) and len(expand(metric)) > 1 and "@" not in metric:
        msg = f"{metric!r} is a curve against recall, not against a cutoff; use result.precision_recall_curve()"
        raise UnknownMetricError(msg)
    return _points_table(cutoff_points(rows, metric), "cutoff").astype({"cutoff": "Int64"})


def recall_curve(rows: Sequence[SummaryRow]) -> pd.DataFrame:
    """The rows of interpolated precision against their recall; see `Result.precision_recall_curve`."""
    return _points_table(recall_points(rows), "recall")


def cutoff_points(rows: Sequence[SummaryRow], metric: str | Metric) -> list[tuple[int | None, SummaryRow]]:
    """The rows of a metric with their cutoffs; if there are none, or several definitions, an `UnknownMetricError`."""
    parsed = parse_metric(metric)
    metric_rows = [row for row in rows if fits(dataclasses.replace(parsed, k=row.cutoff), row.definition)]
    return _points(_alike_lists(metric_rows, parsed), str(parsed), "cutoff")


def parameter_points(
    rows: Sequence[SummaryRow], metric: str | Metric, over: CurveAxis
) -> list[tuple[float, SummaryRow]]:
    """The rows of a metric with the lowest scores, or the budgets, that they have; errors as those of `cutoff_points`."""
    parsed, parameter = parse_metric(metric), _AXES[over].parameter
    metric_rows = [row for row in rows if fits(parsed, row.definition, free=parameter)]
    cut = [row for row in metric_rows if getattr(parse_metric(row.definition), parameter) is not UNSET]
    return _points(_alike_lists(cut, parsed, free=parameter), str(parsed), over)


def _alike_lists(rows: list[SummaryRow], metric: Metric, free: str = "") -> list[SummaryRow]:
    """The rows whose lists end as a metric says, if there are any: plain ones, unless it names a lowest score or a budget."""
    names = [name for name in LIST_PARAMETERS if name != free]
    alike = [
        row
        for row in rows
        if all(getattr(parse_metric(row.definition), name) == getattr(metric, name) for name in names)
    ]
    return alike or rows


def recall_points(rows: Sequence[SummaryRow]) -> list[tuple[float, SummaryRow]]:
    """The rows of interpolated precision with their recall; errors as those of `cutoff_points`."""
    parsed = parse_metric("iprec")
    return _points([row for row in rows if fits(parsed, row.definition)], "iprec", "recall")


def _points(rows: Sequence[SummaryRow], name: str, over: str) -> list[tuple[Any, SummaryRow]]:
    metrics = [parse_metric(row.definition) for row in rows]
    axis = _AXES[over]
    alike: dict[str, Any] = {axis.parameter: axis.common}
    definitions = {str(dataclasses.replace(metric, **alike)) for metric in metrics}
    if len(definitions) != 1:
        several = "; it has several definitions of it: " + ", ".join(sorted(definitions)) if definitions else ""
        msg = f"this result has no curve of {name!r}{several}. Give its parameters, or evaluate one, such as {axis.example}"
        raise UnknownMetricError(msg)
    return [(getattr(metric, axis.parameter), row) for row, metric in zip(rows, metrics, strict=True)]


def _points_table(points: Sequence[tuple[Any, SummaryRow]], axis: str) -> pd.DataFrame:
    columns = ["model", "relevance", axis, "mean", "standard_error", "n_users"]
    records = [(row.model, row.relevance, place, row.mean, row.standard_error, row.n_users) for place, row in points]
    table = pd.DataFrame(records, columns=columns)
    return table.sort_values(["model", "relevance", axis], ignore_index=True, kind="stable")
