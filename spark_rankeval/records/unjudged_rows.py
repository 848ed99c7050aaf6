"""Bounds of means, whatever grades the unlabelled items of the lists might have: their rows, and the table that shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from spark_rankeval.errors import USER, listed
from spark_rankeval.metrics.base import UNSET
from spark_rankeval.metrics.kinds import without_bound
from spark_rankeval.records.summary import METRIC, MODEL, MOST_LISTED, SLICE, MetricRow, SummaryRow, metric_or_none
from spark_rankeval.table_writers import OneTable
from spark_rankeval.tables import Column, Document, Note, Table, common_format

_TITLE = "Lowest and highest means, if items without a label had one"


@dataclass(frozen=True)
class BoundedRow(MetricRow):
    """The bounds of a mean.

    Attributes:
        model: the name of the model.
        metric: the label of the metric.
        asked: what the caller called it.
        slice: which users; ``all``.
        mean: as it is, where an item without a label gains nothing.
        lowest: no grades of these items give less.
        highest: no grades of these items give more.
        reached: whether some grades give just these means; if not, the bounds may be wider than need be.
        n_users: how many users the means are over: those for whom the metric is defined as it is.
    """

    model: str
    metric: str
    asked: str
    slice: str
    mean: float
    lowest: float
    highest: float
    reached: bool
    n_users: int

    @property
    def residual(self) -> float:
        """How far apart the bounds are."""
        return self.highest - self.lowest

    def record(self) -> dict[str, Any]:
        """The figures by column."""
        record = {**vars(self), "residual": self.residual}
        order = ("model", "slice", "metric", "mean", "lowest", "highest", "residual", "reached", "n_users")
        return {name: record[name] for name in order}


@dataclass(frozen=True, repr=False)
class BoundedMeans(OneTable):
    """The means of a result with their bounds. It prints as a table; see `Result.bounds`.

    Attributes:
        rows: a row for each model, slice and metric.
        unbounded: the metrics without bounds.
        unit: what lists are for, in words.
    """

    rows: tuple[BoundedRow, ...]
    unbounded: tuple[str, ...] = ()
    unit: str = USER

    def to_pandas(self) -> pd.DataFrame:
        """One row for each model, slice and metric."""
        return pd.DataFrame([row.record() for row in self.rows])

    def as_table(self, *, slices: bool = True) -> Table:
        """The rows with what explains them; of all users alone unless `slices`."""
        rows = [row for row in self.rows if slices or row.slice == "all"]
        written = common_format(value for row in rows for value in (row.mean, row.lowest, row.highest))
        also = [MODEL] if any(row.model for row in rows) else []
        also += [SLICE] if any(row.slice != "all" for row in rows) else []
        figures: list[Column[Any]] = [
            Column("mean", lambda row: written(row.mean)),
            Column("lowest", lambda row: written(row.lowest)),
            Column("highest", lambda row: written(row.highest)),
            Column("residual", lambda row: written(row.residual)),
        ]
        return Table(rows, [METRIC, *also, *figures], _TITLE, _TITLE, self._notes())

    def _notes(self) -> list[Note]:
        wide = list(dict.fromkeys(row.name for row in self.rows if not row.reached))
        notes = [Note("items that no list has are left out; labels of them could lower means further", "bounds")]
        if wide:
            notes.append(
                Note(f"safe, but perhaps wider than grades can make them: {listed(wide, MOST_LISTED)}", "bounds")
            )
        if self.unbounded:
            notes.append(Note(f"none of {listed(list(self.unbounded), MOST_LISTED)}", "bounds"))
        return notes

    def _on_paper(self) -> Document:
        return Document((self.as_table(),))


def is_bound(definition: str) -> bool:
    """Whether a metric is the bound of another one, by its definition."""
    # Most rows of large results are no bounds, and need not be read.
    metric = metric_or_none(definition) if "unjudged=" in definition else None
    return metric is not None and metric.unjudged is not UNSET


def without_bounds(summary: Sequence[SummaryRow]) -> tuple[SummaryRow, ...]:
    """The rows that are no bounds of others; all rows if there are none."""
    return tuple(row for row in summary if not is_bound(row.definition)) or tuple(summary)


def bounded_means(summary: Iterable[SummaryRow], unit: str = USER) -> BoundedMeans | None:
    """The means of a summary that have both bounds in it; None if there are none."""
    bounds: dict[tuple[str, ...], dict[str, SummaryRow]] = {}
    plain: dict[tuple[str, ...], SummaryRow] = {}
    for row in summary:
        about = (row.model, row.slice, row.relevance)
        metric = metric_or_none(row.definition) if is_bound(row.definition) else None
        if metric is None:
            plain[*about, row.definition] = row
        else:
            bounds.setdefault((*about, str(without_bound(metric))), {})[str(metric.unjudged)] = row
    both = {key: sides for key, sides in bounds.items() if len(sides) == 2 and key in plain}
    rows = tuple(
        BoundedRow(
            row.model, row.key, row.name, row.slice, row.mean, both[key]["lowest"].mean, both[key]["highest"].mean,
            _is_reached(row), row.n_users,
        )
        for key, row in plain.items()
        if key in both
    )  # fmt: skip
    unbounded = dict.fromkeys(row.name for key, row in plain.items() if key not in both and row.slice == "all")
    return BoundedMeans(rows, tuple(unbounded), unit) if rows else None


def _is_reached(row: SummaryRow) -> bool:
    metric = metric_or_none(row.definition)
    return metric is not None and metric.growth in ("gains", "found")
