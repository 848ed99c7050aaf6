"""Means in a table of rows and columns that the caller chooses: models beside each other, metric by metric or slice by slice."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

import pandas as pd

from spark_rankeval.checks import one_of
from spark_rankeval.errors import OptionError, did_you_mean, listed
from spark_rankeval.metrics.base import Metric
from spark_rankeval.records.quality import DataQuality
from spark_rankeval.records.selection import Metrics, chosen, headline_keys, one_of_each
from spark_rankeval.records.side_by_side import best_models
from spark_rankeval.records.slices import group_of, users_of
from spark_rankeval.records.summary import (
    MOST_LISTED,
    SummaryRow,
    interval_in_words,
    interval_name,
    missing_intervals,
    notes_of_quality,
    summary_on_screen,
    users_in_words,
    usual,
)
from spark_rankeval.tables import DASH, Cell, Column, Document, Note, OneTable, Table, common_format, remarks, words

#: What the rows or the columns of a table may be.
Dimension: TypeAlias = Literal["model", "metric", "cutoff", "slice", "group"]
DIMENSIONS: tuple[Dimension, ...] = ("model", "metric", "cutoff", "slice", "group")
# A table of more columns does not fit on a line, and has means without their intervals.
_MOST_INTERVALS = 3
_HEADINGS = {"model": "model", "metric": "metric", "cutoff": "cutoff", "slice": "users with", "group": "items with"}


@dataclass(frozen=True, repr=False)
class CrossTable(OneTable):
    """The table of `Result.table`. It prints as text, and notebooks show it as HTML.

    Examples:
        >>> print(result.table("metric", "model", metrics=["rr", "recall@1"]))
        means over users, 95% interval (t), dialect 'default'
        metric    users                  popular                  personal
        rr            8  0.4583 [0.1358, 0.7808]  0.8750 [0.6815, 1.0000]*
        recall@1      8  0.2500 [0.0319, 0.6509]  0.7500 [0.3491, 0.9681]*
        *  the best model of its row
        interval for recall@1: Clopper-Pearson
        other slices: 'country=DE' and 'country=FR' (slice=…)

    Attributes:
        by_cell: the row of the summary for each cell, by the names of its row and column.
        row_dimension: what the rows are: ``model``, ``metric``, ``cutoff``, ``slice`` or ``group``.
        column_dimension: what the columns are.
        caption: what all cells have in common, in words.
        intervals: whether cells show the intervals of their means.
        notes: what the table leaves out, and how to see it.
    """

    by_cell: Mapping[tuple[str, str], SummaryRow]
    row_dimension: Dimension
    column_dimension: Dimension
    caption: str
    intervals: bool
    notes: Sequence[str] = ()

    def to_pandas(self) -> pd.DataFrame:
        """The means as a pandas DataFrame; a cell without a figure is NaN."""
        rows, columns = (pd.Index(dict.fromkeys(names), name=axis) for names, axis in self._axes())
        frame = pd.DataFrame(index=rows, columns=columns, dtype="float64")
        for (row, column), each in self.by_cell.items():
            frame.loc[row, column] = each.mean
        return frame

    def _axes(self) -> list[tuple[list[str], str]]:
        row_names, column_names = zip(*self.by_cell, strict=True)
        return [(list(row_names), self.row_dimension), (list(column_names), self.column_dimension)]

    def _on_paper(self) -> Document:
        return Document((self.shown_table(),))

    def shown_table(self) -> Table:
        """The table, as all formats show it."""
        formats = {
            key: common_format(row.mean for row in self.by_cell.values() if row.key == key)
            for key in {row.key for row in self.by_cell.values()}
        }
        best = self._best()

        def cell(column: str, row: str) -> Cell | str:
            each = self.by_cell.get((row, column))
            if each is None:
                return DASH
            mean = formats[each.key](each.mean)
            interval = (
                f" {interval_in_words(each, formats[each.key])}" if self.intervals and not each.no_interval else ""
            )
            return Cell(mean + interval, (row, column) in best)

        row_names, column_names = (list(dict.fromkeys(names)) for names, _ in self._axes())
        columns: list[Column[Any]] = [words(_HEADINGS[self.row_dimension], lambda row: row)]
        if self.row_dimension in ("metric", "slice", "group"):
            columns.append(Column("users", self._users))
        columns += [Column(name, partial(cell, name)) for name in column_names]
        means = "the best model of its row" if self.column_dimension == "model" else "the best model of its column"
        notes = list(map(Note, self.notes))
        return Table(
            row_names, columns, self.caption, self.caption, notes, means if best else "", "there is no such figure"
        )

    def _users(self, row: str) -> str:
        counts = [each.n_users for (name, _), each in self.by_cell.items() if name == row]
        least, most = min(counts), max(counts)
        return f"{least:,}" if least == most else f"{least:,} to {most:,}"

    def _best(self) -> set[tuple[str, str]]:
        """The cells of the best models, if models stand beside each other."""
        if "model" not in (self.row_dimension, self.column_dimension):
            return set()
        lines: dict[str, dict[str, SummaryRow]] = {}
        for (row, column), each in self.by_cell.items():
            model, other = (row, column) if self.row_dimension == "model" else (column, row)
            lines.setdefault(other, {})[model] = each
        pairs = [(model, other) for other, models in lines.items() for model in best_models(models)]
        return set(pairs) if self.row_dimension == "model" else {(other, model) for model, other in pairs}


def cross_table(
    summary: Sequence[SummaryRow],
    rows: str,
    columns: str,
    metrics: Metrics,
    common: Mapping[Dimension, str | None],
    intervals: bool | None,
) -> CrossTable:
    """The table of a summary with a row for each value of one dimension, and a column for each value of another.

    Args:
        summary: the rows of a result.
        rows: the dimension of the rows.
        columns: the dimension of the columns.
        metrics: which metrics; None: those to show first, or the first one if no dimension is a metric.
        common: the model, the slice and the group of all cells, unless that is a dimension; None: all users, all items, the first model.
        intervals: whether to show intervals; None: if there are at most three columns.

    Raises:
        OptionError: a dimension or a value does not exist.
        UnknownMetricError: a metric is not in the result.
    """
    one_of("rows", rows, DIMENSIONS)
    one_of("columns", columns, DIMENSIONS)
    if rows == columns:
        msg = f"rows and columns must differ; both are {rows!r}. Available: {', '.join(DIMENSIONS)}"
        raise OptionError(msg)
    row_dimension, column_dimension = (next(each for each in DIMENSIONS if each == name) for name in (rows, columns))
    dimensions = [row_dimension, column_dimension]
    kept, notes = _rows_of_metrics(summary, dimensions, metrics)
    about = []
    if "metric" not in dimensions:
        about.append(_value(kept[0], "metric", dimensions))
    for dimension, name in common.items():
        if dimension not in dimensions:
            kept, value, note = _with_value(kept, dimension, name)
            about += [f"{dimension} {value!r}"] * (value not in ("", "all"))
            notes += note
    by_cell = {(_value(row, row_dimension, dimensions), _value(row, column_dimension, dimensions)): row for row in kept}
    n_columns = len({column for _, column in by_cell})
    has_intervals = n_columns <= _MOST_INTERVALS if intervals is None else intervals
    if has_intervals:
        notes = [*missing_intervals(kept), *notes]
    return CrossTable(
        by_cell, row_dimension, column_dimension, _caption(kept, about, has_intervals), has_intervals, notes
    )


def _value(row: SummaryRow, dimension: Dimension, dimensions: Sequence[Dimension]) -> str:
    """What a row of the summary is called in a dimension."""
    if dimension == "metric":
        return _family(row) if "cutoff" in dimensions else row.name
    if dimension == "cutoff":
        return str(row.cutoff) if row.cutoff is not None else "all"
    if dimension == "group":
        return group_of(row.slice) or "all"
    return users_of(row.slice) if dimension == "slice" else row.model


def _family(row: SummaryRow) -> str:
    """The metric without its cutoff."""
    return re.sub(r"@\d+(?=$| \[)", "", row.name)


def _rows_of_metrics(
    summary: Sequence[SummaryRow], dimensions: Sequence[Dimension], metrics: Metrics
) -> tuple[list[SummaryRow], list[str]]:
    """The rows of the metrics, and a note on those left out."""
    families = list(dict.fromkeys(map(_family, summary)))
    if metrics is not None:
        named = [metrics] if isinstance(metrics, str | Metric) else list(metrics)
        if "cutoff" in dimensions and all(str(name) in families for name in named):
            kept = [row for name in named for row in summary if _family(row) == str(name)]
        else:
            kept = chosen(summary, named)
        several = dict.fromkeys(_family(row) if "cutoff" in dimensions else row.name for row in kept)
        if "metric" not in dimensions and len(several) > 1:
            msg = f"a table of {' and '.join(dimensions)} shows one metric; got {', '.join(several)}"
            raise OptionError(msg)
        return kept, []
    if "metric" in dimensions:
        keys = headline_keys(summary)
        n_other = len({row.key for row in summary}) - len(keys)
        return chosen(summary, keys), [f"{n_other:,} other metrics (metrics=…)"] * (n_other > 0)
    if "cutoff" in dimensions:
        # The metric with the most cutoffs, the first of these.
        sizes = {name: len({row.cutoff for row in summary if _family(row) == name}) for name in families}
        names, first = families, max(families, key=sizes.__getitem__)
        kept = [row for row in summary if _family(row) == first]
    else:
        names, first = list(dict.fromkeys(row.name for row in summary)), summary[0].name
        kept = [row for row in summary if row.name == first]
    others = [name for name in names if name != first]
    return kept, [f"other metrics: {listed(others, MOST_LISTED)} (metrics=…)"] if others else []


def _with_value(
    rows: Sequence[SummaryRow], dimension: Dimension, value: str | None
) -> tuple[list[SummaryRow], str, list[str]]:
    """The rows with a value of a dimension, the value, and a note on the others."""
    values = list(dict.fromkeys(_value(row, dimension, ()) for row in rows))
    if value is None:
        value = "all" if "all" in values else values[0]
    elif value not in values:
        available = ", ".join(map(repr, values))
        msg = f"there is no {dimension} {value!r}; {did_you_mean(value, values)}available: {available}"
        raise OptionError(msg)
    others = [repr(other) for other in values if other != value]
    note = [f"other {dimension}s: {listed(others, MOST_LISTED)} ({dimension}=…)"] if others else []
    return [row for row in rows if _value(row, dimension, ()) == value], value, note


def _caption(rows: Sequence[SummaryRow], about: Sequence[str], has_intervals: bool) -> str:
    """What the cells have in common."""
    users = users_in_words([replace(row, model="", slice="all") for row in rows])
    name = interval_name(usual(rows)) if has_intervals else ""
    return ", ".join([*about, "means over users", *([name] if name else []), users])


# What divides users or items.
_PARTS: tuple[Dimension, Dimension] = ("slice", "group")
# What fits on a screen: so many metrics, slices or groups, and metrics of one model beside each other.
_MOST_METRICS, _MOST_SLICES, _MOST_COLUMNS = 20, 12, 5


def result_on_screen(
    summary: Sequence[SummaryRow], qualities: Mapping[str, DataQuality], notes: Sequence[str] = ()
) -> Document:
    """The means of all users, models beside each other, and those of slices and groups on the first metric; users, ties and rows.

    One model without slices has the table of `summary_on_screen`, with standard deviations and undefined values.
    """
    models = list(dict.fromkeys(row.model for row in summary))
    total_rows = [row for row in summary if row.slice == "all"]
    dimensions = [name for name in _PARTS if any(_value(row, name, ()) != "all" for row in summary)]
    if len(models) == 1 and not dimensions:
        return summary_on_screen(summary, qualities, notes)
    if len(models) == 1:
        tables = [*summary_on_screen(total_rows, {}).tables]
    else:
        tables = [_screen_table(total_rows, "metric", "model", headline_keys(total_rows)[:_MOST_METRICS])]
    for dimension in dimensions:
        rows = _largest([row for row in summary if row.slice == "all" or _only(row, dimension)], dimension)
        if len(models) > 1:
            tables.append(_screen_table(rows, dimension, "model", one_of_each(rows)[:1]))
        else:
            tables.append(_screen_table(rows, dimension, "metric", one_of_each(rows)[:_MOST_COLUMNS]))
    more = [
        Note(f"{len(summary):,} figures: result.to_pandas(); any two of {', '.join(DIMENSIONS)}: result.table()", "all")
    ]
    remarked = list(map(Note, missing_intervals(total_rows))) if len(models) > 1 else []
    reversals = _reversals(summary) if len(models) > 1 else []
    below = [*tables[-1].notes, *remarked, *reversals, *_notes_of_models(qualities, summary), *more]
    return Document((*tables[:-1], replace(tables[-1], notes=below)), remarks(notes))


def _only(row: SummaryRow, dimension: Dimension) -> bool:
    """Whether a row is about a slice of all items, or a group of items of all users."""
    return all((_value(row, name, ()) != "all") == (name == dimension) for name in _PARTS)


def _largest(rows: Sequence[SummaryRow], dimension: Dimension) -> list[SummaryRow]:
    """The rows of all, and of the slices or groups with the most users, in their order."""
    sizes: dict[str, int] = {}
    for row in rows:
        name = _value(row, dimension, ())
        sizes[name] = max(sizes.get(name, 0), row.n_users)
    kept = {"all", *sorted(sizes, key=lambda name: -sizes[name])[:_MOST_SLICES]}
    return [row for row in rows if _value(row, dimension, ()) in kept]


def _screen_table(rows: Sequence[SummaryRow], row_dimension: str, column_dimension: str, keys: Sequence[str]) -> Table:
    common: dict[Dimension, str | None] = {} if row_dimension in _PARTS else {"slice": "all", "group": "all"}
    table = cross_table(rows, row_dimension, column_dimension, keys, common, None)
    return replace(table, notes=()).shown_table()


def _reversals(summary: Sequence[SummaryRow]) -> list[Note]:
    """Where another model is best in a slice than over all users."""
    keys = set(headline_keys([row for row in summary if row.slice == "all"]))
    by_slice: dict[tuple[str, str], dict[str, SummaryRow]] = {}
    for row in summary:
        if row.key in keys and (row.slice == "all" or _only(row, "slice")):
            by_slice.setdefault((row.key, row.slice), {})[row.model] = row
    best = {place: best_models(models) for place, models in by_slice.items()}
    others = [
        f"{next(iter(by_slice[key, users].values())).name} with {users} ({', '.join(sorted(leaders))})"
        for (key, users), leaders in best.items()
        if users != "all" and leaders and not leaders & best[key, "all"]
    ]
    if not others:
        return []
    return [
        Note(f"another model is best on {listed(others, MOST_LISTED)}; compare(result, …, by=…) tests it", "slices")
    ]


def _notes_of_models(qualities: Mapping[str, DataQuality], rows: Sequence[SummaryRow]) -> list[Note]:
    """Users, ties and rows. What is the same for all models stands once."""
    texts: dict[str, dict[str, list[str]]] = {}
    for model, quality in qualities.items():
        for note in notes_of_quality(quality, rows):
            texts.setdefault(note.about, {}).setdefault(note.text, []).append(model)
    return [
        Note(text if len(by_text) == 1 else f"{', '.join(models)}: {text}", about)
        for about, by_text in texts.items()
        for text, models in by_text.items()
    ]
