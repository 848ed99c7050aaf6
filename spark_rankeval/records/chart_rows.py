"""The figures of histograms and curves: how many users have a value between which bounds, and small tables of a curve's points."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pandas as pd

from spark_rankeval.errors import MetricError, UnknownMetricError
from spark_rankeval.metrics.base import Metric
from spark_rankeval.metrics.naming import column_name, expand, parse_metric
from spark_rankeval.records.summary import SummaryRow

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


def coarsened(counts: Counts, grid: Grid, at_most: int) -> tuple[Counts, Grid]:
    """Neighbouring bins joined two by two, from the first on, until those that are not empty span so few.

    >>> coarsened({"als": {2: 5, 3: 1, 5: 2}}, Grid(0.0, 0.5, 8), at_most=2)
    ({'als': {1: 6, 2: 2}}, Grid(low=0.0, width=1.0, n=4))
    """
    taken = {index for users in counts.values() for index in users}
    while taken and max(taken) - min(taken) >= at_most:
        joined: Counts = {}
        for model, users in counts.items():
            pairs = joined.setdefault(model, {})
            for index, count in users.items():
                pairs[index // 2] = pairs.get(index // 2, 0) + count
        counts, grid = joined, Grid(grid.low, 2 * grid.width, -(-grid.n // 2))
        taken = {index for users in counts.values() for index in users}
    return counts, grid


def cutoff_curve(rows: Sequence[SummaryRow], metric: str | Metric) -> pd.DataFrame:
    """The rows of a metric against their cutoffs; see `Result.curve`."""
    if isinstance(metric, str) and len(expand(metric)) > 1 and "@" not in metric:
        msg = f"{metric!r} is a curve against recall, not against a cutoff; use result.precision_recall_curve()"
        raise UnknownMetricError(msg)
    return _table(cutoff_points(rows, metric), "cutoff").astype({"cutoff": "Int64"})


def recall_curve(rows: Sequence[SummaryRow]) -> pd.DataFrame:
    """The rows of interpolated precision against their recall; see `Result.precision_recall_curve`."""
    return _table(recall_points(rows), "recall")


def cutoff_points(rows: Sequence[SummaryRow], metric: str | Metric) -> list[tuple[int | None, SummaryRow]]:
    """The rows of a metric with their cutoffs; if there are none, or several definitions, an `UnknownMetricError`."""
    asked = parse_metric(metric)
    of_metric = [row for row in rows if fits(dataclasses.replace(asked, k=row.cutoff), row.definition)]
    return _points(of_metric, str(asked), "cutoff", "k")


def recall_points(rows: Sequence[SummaryRow]) -> list[tuple[float, SummaryRow]]:
    """The rows of interpolated precision with their recall; errors as those of `cutoff_points`."""
    asked = parse_metric("iprec")
    return _points([row for row in rows if fits(asked, row.definition)], "iprec", "recall", "recall")


def _points(rows: Sequence[SummaryRow], name: str, axis: str, parameter: str) -> list[tuple[Any, SummaryRow]]:
    metrics = [parse_metric(row.definition) for row in rows]
    alike: dict[str, Any] = {parameter: None if parameter == "k" else 0.0}
    definitions = {str(dataclasses.replace(metric, **alike)) for metric in metrics}
    if len(definitions) != 1:
        several = "; it has several definitions of it: " + ", ".join(sorted(definitions)) if definitions else ""
        example = "ndcg@1..100" if axis == "cutoff" else "precision_recall_curve"
        msg = (
            f"this result has no curve of {name!r}{several}. Give its parameters, or evaluate one, such as {example!r}"
        )
        raise UnknownMetricError(msg)
    return [(getattr(metric, parameter), row) for row, metric in zip(rows, metrics, strict=True)]


def _table(points: Sequence[tuple[Any, SummaryRow]], axis: str) -> pd.DataFrame:
    columns = ["model", "relevance", axis, "mean", "standard_error", "n_users"]
    records = [(row.model, row.relevance, place, row.mean, row.standard_error, row.n_users) for place, row in points]
    table = pd.DataFrame(records, columns=columns)
    return table.sort_values(["model", "relevance", axis], ignore_index=True, kind="stable")


def fits(asked: Metric, definition: str) -> bool:
    """Whether a definition is of the metric asked for: same kind and cutoff, and every chosen parameter agrees."""
    try:
        resolved = parse_metric(definition)
    except MetricError:
        # A column of a table that does not say what it is.
        return column_name(str(asked)) == definition
    same = type(asked) is type(resolved) and asked.k == resolved.k
    return same and all(getattr(resolved, name) == value for name, value in asked.chosen().items())
