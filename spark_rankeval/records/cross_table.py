"""Tables of means with two sides: two attributes crossed, and the stages of a funnel."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, Literal, TypeAlias, TypeVar

import pandas as pd

from spark_rankeval import printed_tables as tables
from spark_rankeval.checks import one_of
from spark_rankeval.errors import OptionError, did_you_mean, listed
from spark_rankeval.metrics.base import Metric
from spark_rankeval.metrics.naming import reads_as
from spark_rankeval.printed_tables import DASH, Cell, Column, Document, Note, OneTable, Table, remarks
from spark_rankeval.records import summary as summary_rows
from spark_rankeval.records import tables_of_means
from spark_rankeval.records.quality import DataQuality
from spark_rankeval.records.summary import MOST_LISTED, SLICE, SummaryRow, marks_in_words, missing_intervals
from spark_rankeval.records.tables_of_means import Estimate, Metrics, StageBar, best_models, headline_keys, one_of_each

#: What the rows or the columns of a table may be.
Dimension: TypeAlias = Literal["model", "metric", "cutoff", "slice", "group"]
DIMENSIONS: tuple[Dimension, ...] = ("model", "metric", "cutoff", "slice", "group")
# A table of more columns does not fit on a line, and has means without their intervals.
_MOST_INTERVALS = 3
# What divides users or items.
_PARTS: tuple[Dimension, ...] = ("slice", "group")

Line = TypeVar("Line", bound=Hashable)


def _best_by_line(rows: Iterable[tuple[Line, SummaryRow]]) -> dict[Line, set[str]]:
    """The best models of each line of rows."""
    lines: dict[Line, dict[str, SummaryRow]] = {}
    for line, row in rows:
        lines.setdefault(line, {})[row.model] = row
    return {line: best_models(models) for line, models in lines.items()}


@dataclass(frozen=True, repr=False)
class CrossTable(OneTable):
    """The table of `Result.table`. It prints as text, and notebooks show it as HTML.

    Examples:
        >>> print(result.table("metric", "model", metrics=["rr", "recall@1"]))
        Means over users, 95% interval (t), dialect 'default'
        metric    users                    popular                    personal
        rr            8  0.4583 [0.1358, 0.7808]    0.8750 [0.5518, 1.0000]*
        recall@1      8  0.2500 [0.0319, 0.6509] c  0.7500 [0.3491, 0.9681]* c
        *  the best mean of its row; compare tests whether the lead is decided
        c: Clopper-Pearson interval
        other slices: 'country=DE' and 'country=FR'; slice=… shows one

    Attributes:
        by_cell: the row of the summary for each cell, by the names of its row and column.
        row_dimension: what the rows are: ``model``, ``metric``, ``cutoff``, ``slice`` or ``group``.
        column_dimension: what the columns are.
        caption: what all cells have in common, in words.
        intervals: whether cells show the intervals of their means.
        notes: what the table leaves out, each with the argument that shows it.
    """

    by_cell: Mapping[tuple[str, str], SummaryRow]
    row_dimension: Dimension
    column_dimension: Dimension
    caption: str
    intervals: bool
    notes: Sequence[Note] = ()

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
            key: tables.common_format(row.mean for row in self.by_cell.values() if row.key == key)
            for key in {row.key for row in self.by_cell.values()}
        }
        # Models stand beside each other in lines: the rows or the columns.
        along = 0 if self.column_dimension == "model" else 1
        dimensions = (self.row_dimension, self.column_dimension)
        lines = ((cell[along], row) for cell, row in self.by_cell.items()) if "model" in dimensions else ()
        best, marks = _best_by_line(lines), summary_rows.interval_marks([*self.by_cell.values()])

        def cell(column: str, row: str) -> Cell | str:
            each = self.by_cell.get((row, column))
            if each is None:
                return DASH
            format_value, is_best = formats[each.key], each.model in best.get((row, column)[along], ())
            if not self.intervals or each.no_interval:
                return Cell(format_value(each.mean), is_best)
            ends = summary_rows.ends_in_words(each, format_value)
            return Cell(f"{format_value(each.mean)} {ends}", is_best, marks(each))

        row_names, column_names = (list(dict.fromkeys(names)) for names, _ in self._axes())
        heading = summary_rows.ITEM_GROUP.heading if self.row_dimension == "group" else self.row_dimension
        columns: list[Column[Any]] = [
            tables.text_column(heading, lambda row: row),
            Column("users", self._users),
            *(Column(name, partial(cell, name)) for name in column_names),
        ]
        line = "column" if along else "row"
        means, bold = "", ""
        if any(best.values()):
            means, bold = tables_of_means.star_in_words(line), tables_of_means.bold_in_words(line)
        return Table(
            row_names, columns, self.caption, self.caption + bold, self.notes, means, "there is no such figure"
        )

    def _users(self, row: str) -> str:
        counts = [each.n_users for (name, _), each in self.by_cell.items() if name == row]
        least, most = min(counts), max(counts)
        return f"{least:,}" if least == most else f"{least:,} to {most:,}"


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
        OptionError: a dimension or a value does not exist, or no metric is named.
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
        about.append(_family(kept[0]) if "cutoff" in dimensions else kept[0].name)
    for dimension, name in common.items():
        if dimension not in dimensions:
            kept, value, note = _with_value(kept, dimension, name)
            about += [f"{dimension} {value!r}"] * (value != ("all" if dimension in _PARTS else ""))
            notes += note
    return _crossed(kept, row_dimension, column_dimension, about, notes, intervals)


def _crossed(
    rows: Sequence[SummaryRow],
    row_dimension: Dimension,
    column_dimension: Dimension,
    about: Sequence[str],
    notes: Sequence[Note] = (),
    intervals: bool | None = None,
) -> CrossTable:
    """The table of rows, one for each of its cells."""
    dimensions = (row_dimension, column_dimension)
    values = _VALUES | ({"metric": _family} if "cutoff" in dimensions else {})
    row_name, column_name = values[row_dimension], values[column_dimension]
    by_cell = {(row_name(row), column_name(row)): row for row in rows}
    n_columns = len({column for _, column in by_cell})
    has_intervals = n_columns <= _MOST_INTERVALS if intervals is None else intervals
    remarks = [
        *([*missing_intervals(rows, partial(_figure, dimensions)), *marks_in_words(rows)] if has_intervals else []),
        *summary_rows.without_weights(rows),
    ]
    caption = _caption(rows, about, has_intervals)
    return CrossTable(by_cell, row_dimension, column_dimension, caption, has_intervals, [*map(Note, remarks), *notes])


# What a row of the summary is called in a dimension of a table.
_VALUES: dict[Dimension, Callable[[SummaryRow], str]] = {
    "model": attrgetter("model"),
    "metric": attrgetter("name"),
    "cutoff": lambda row: "all" if row.cutoff is None else str(row.cutoff),
    "slice": lambda row: summary_rows.users_of(row.slice),
    "group": lambda row: summary_rows.group_of(row.slice) or "all",
}


def _family(row: SummaryRow) -> str:
    """The metric without its cutoff."""
    return re.sub(r"@\d+(?=$| \[)", "", row.name)


def _is_of_family(name: str | Metric, row: SummaryRow) -> bool:
    """Whether a metric without its cutoff is that of a row, whatever the relevance."""
    family = _family(row)
    label = row.metric.removesuffix(f"@{row.cutoff}")
    return str(name) in (family, family.removesuffix(f" [{row.relevance}]"), label) or reads_as(label, name)


def _figure(dimensions: Sequence[Dimension], row: SummaryRow) -> str:
    """What a row is about in a table of two dimensions, whatever its model."""
    metric = [row.name] if {"metric", "cutoff"} & set(dimensions) else []
    return " in ".join([*metric, *(_VALUES[part](row) for part in _PARTS if part in dimensions)])


def _rows_of_metrics(
    summary: Sequence[SummaryRow], dimensions: Sequence[Dimension], metrics: Metrics
) -> tuple[list[SummaryRow], list[Note]]:
    """The rows of the metrics, and a note on those left out."""
    metric_name = _family if "cutoff" in dimensions and "metric" not in dimensions else attrgetter("name")
    if metrics is not None:
        named = tables_of_means.named_metrics(metrics)
        families = [[row for row in summary if "cutoff" in dimensions and _is_of_family(name, row)] for name in named]
        kept = [row for rows in families for row in rows]
        if not (families and all(families)):
            kept = tables_of_means.chosen(summary, named)
        several = dict.fromkeys(map(metric_name, kept))
        if "metric" not in dimensions and len(several) > 1:
            msg = f"a table of {' and '.join(dimensions)} shows one metric; got {', '.join(several)}"
            raise OptionError(msg)
        return kept, []
    # Metrics that slices or groups lack have no place in a table of these.
    parts = [_VALUES[part] for part in _PARTS if part in dimensions]
    parted = [row for row in summary if all(value(row) != "all" for value in parts)] or summary
    if "metric" in dimensions:
        keys = set(headline_keys(parted))
        shown = {row.name for row in parted if row.key in keys}
    elif "cutoff" in dimensions:
        cutoffs: dict[str, set[int | None]] = {}
        for row in parted:
            cutoffs.setdefault(_family(row), set()).add(row.cutoff)
        shown = {max(cutoffs, key=lambda name: len(cutoffs[name]))}
    else:
        shown = {parted[0].name}
    others = [name for name in dict.fromkeys(map(metric_name, summary)) if name not in shown]
    note = [Note(f"other metrics: {listed(others, MOST_LISTED)}", call="metrics=… shows them")] if others else []
    return [row for row in summary if metric_name(row) in shown], note


def _with_value(
    rows: Sequence[SummaryRow], dimension: Dimension, value: str | None
) -> tuple[list[SummaryRow], str, list[Note]]:
    """The rows with a value of a dimension, the value, and a note on the others."""
    row_value = _VALUES[dimension]
    values = list(dict.fromkeys(map(row_value, rows)))
    if value is None:
        # A model may have any name.
        value = "all" if dimension in _PARTS and "all" in values else values[0]
    elif value not in values:
        available = ", ".join(map(repr, values))
        msg = f"there is no {dimension} {value!r}; {did_you_mean(value, values)}available: {available}"
        raise OptionError(msg)
    others = [repr(other) for other in values if other != value]
    note = (
        [Note(f"other {dimension}s: {listed(others, MOST_LISTED)}", call=f"{dimension}=… shows one")] if others else []
    )
    return [row for row in rows if row_value(row) == value], value, note


def _caption(rows: Sequence[SummaryRow], about: Sequence[str], has_intervals: bool) -> str:
    """What the cells have in common."""
    users = summary_rows.users_in_words([replace(row, model="", slice="all") for row in rows])
    name = summary_rows.interval_name(rows) if has_intervals else ""
    means = ": ".join([tables_of_means.means_title(rows), *([", ".join(about)] if about else [])])
    return ", ".join([means, *([name] if name else []), users])


# What fits on a screen: so many metrics, slices or groups, and metrics of one model beside each other.
_MOST_METRICS, _MOST_PARTS, _MOST_COLUMNS = 20, 12, 5


def result_on_screen(
    summary: Sequence[SummaryRow], qualities: Mapping[str, DataQuality], notes: Sequence[str] = ()
) -> Document:
    """The means of all users, models beside each other, and those of slices and groups on the first metric; users, ties and rows.

    A single model has the table of `summary_table`.
    """
    several = len({row.model for row in summary}) > 1
    total_rows = [row for row in summary if row.slice == "all"]
    parts = {part: [row for row in summary if _only(row, part)] for part in _PARTS}
    screen = [_metrics_on_screen(total_rows) if several else summary_rows.summary_table(total_rows or summary)]
    for part, part_rows in parts.items():
        if part_rows:
            screen.append(_parts_on_screen(total_rows, part_rows, part, "model" if several else "metric"))
    call = f"see result.to_pandas(), or result.table() for any two of {', '.join(DIMENSIONS)}"
    more = [Note(f"{len(summary):,} figures", "all", call)] if several or len(screen) > 1 else []
    reversals = _reversals(total_rows, parts["slice"]) if several else []
    below = [*screen[-1].notes, *reversals, *notes_of_models(qualities, summary), *more]
    return Document((*screen[:-1], replace(screen[-1], notes=below)), remarks(notes))


def _only(row: SummaryRow, part: Dimension) -> bool:
    """Whether a row is about a slice of all items, or a group of items of all users."""
    return all((_VALUES[name](row) != "all") == (name == part) for name in _PARTS)


def _metrics_on_screen(total_rows: Sequence[SummaryRow]) -> Table:
    keys = headline_keys(total_rows)[:_MOST_METRICS]
    more = _left_out("result.table(metrics=…)", metric=len({row.key for row in total_rows}) - len(keys))
    return _with_notes(_crossed([row for row in total_rows if row.key in keys], "metric", "model", []), more)


def _parts_on_screen(
    total_rows: Sequence[SummaryRow], part_rows: Sequence[SummaryRow], part: Dimension, columns: Dimension
) -> Table:
    """All users or items, and the slices or groups with the most users, on the first metrics that these have."""
    keys = one_of_each(part_rows)[: 1 if columns == "model" else _MOST_COLUMNS]
    shown = [row for row in (*total_rows, *tables_of_means.largest(part_rows, _MOST_PARTS)) if row.key in keys]
    more = _left_out(
        f"result.table({part!r}, {columns!r}, metrics=…)",
        **{part: len({row.slice for row in part_rows}) - len({row.slice for row in shown} - {"all"})},
        metric=len({row.key for row in part_rows}) - len(keys),
    )
    return _with_notes(_crossed(shown, part, columns, [shown[0].name] if columns == "model" else []), more)


def _with_notes(table: CrossTable, more: Sequence[Note]) -> Table:
    shown = table.shown_table()
    return replace(shown, notes=[*shown.notes, *more])


def _left_out(call: str, **counts: int) -> list[Note]:
    """A note on how much a table leaves out, and how to see it."""
    left_out = [f"{n:,} other {name}{'s' * (n != 1)}" for name, n in counts.items() if n]
    verb = "is" if sum(counts.values()) == 1 else "are"
    return [Note(f"{listed(left_out)} {verb} not shown", call=f"see {call}")] if left_out else []


def _reversals(total_rows: Sequence[SummaryRow], part_rows: Sequence[SummaryRow]) -> list[Note]:
    """Where another model is best in a slice than over all users, the metric of the table of slices first."""
    keys = [*one_of_each(part_rows)[:1], *headline_keys(total_rows)]
    # Figures of all lists together depend on how many lists there are.
    rows = [row for row in (*total_rows, *part_rows) if row.key in keys and not summary_rows.is_over_lists(row)]
    names = {row.key: row.name for row in rows}
    best = _best_by_line(((row.key, row.slice), row) for row in rows)
    figures: dict[tuple[str, str], list[str]] = {}
    for (key, users), leaders in sorted(best.items(), key=lambda line: keys.index(line[0][0])):
        over_all = best.get((key, "all"), set())
        if leaders and over_all and not leaders & over_all:
            models = (listed(sorted(leaders)), listed(sorted(over_all)))
            figures.setdefault(models, []).append(f"{names[key]} with {users}")
    others = [
        f"best on {listed(lines, MOST_LISTED)}: {leaders}; over all users: {over_all}"
        for (leaders, over_all), lines in figures.items()
    ]
    return [Note(text, "slices", "compare(result, …, by=…) tests it") for text in others[:MOST_LISTED]]


def notes_of_models(qualities: Mapping[str, DataQuality], rows: Sequence[SummaryRow]) -> list[Note]:
    """Users, ties and rows. What is the same for all models stands once."""
    texts: dict[str, dict[str, list[str]]] = {}
    for model, quality in qualities.items():
        for note in summary_rows.notes_of_quality(quality, rows):
            texts.setdefault(note.about, {}).setdefault(note.text, []).append(model)
    return [
        Note(text if len(by_text) == 1 else f"{', '.join(models)}: {text}", about)
        for about, by_text in texts.items()
        for text, models in by_text.items()
    ]


#: The figures of a stage, by the names of the fields that hold them.
FIGURES = ("recall", "lost", "added", "reached", "ceiling")


@dataclass(frozen=True)
class StageRow:
    """One stage of a funnel over all users of a slice. Shares are of the user's relevant items, and figures are means over users.

    Examples:
        >>> row = stages["shown"]
        >>> row.stage, row.k, row.lost.mean, row.reached.mean, row.ceiling.mean
        ('shown', 1, 0.125, 0.75, 0.75)

    Attributes:
        stage: its name.
        k: how many first places count.
        slice: which users, such as ``country=DE``; ``all``.
        recall: the share of the relevant items that stand in the first k places.
        lost: the share that stands in the first places of every stage before, and not in these. Each item is lost at most once.
        added: the share that stands in these, although some stage before lost it. 1 − `lost` of this and all stages before + `added`
            is `recall`.
        reached: the metric of the stage's own order.
        ceiling: the best value of the metric that any order of the stage's first k places has.
    """

    stage: str
    k: int
    slice: str
    recall: SummaryRow
    lost: SummaryRow
    added: SummaryRow
    reached: SummaryRow
    ceiling: SummaryRow

    def record(self) -> dict[str, Any]:
        """The figures by column: each with the ends of its interval, and the numbers of users."""
        record: dict[str, Any] = {"stage": self.stage, "k": self.k, "slice": self.slice, "n_users": self.recall.n_users}
        record |= {"metric": self.reached.name, "n_users_of_metric": self.reached.n_users}
        for name in FIGURES:
            row: SummaryRow = getattr(self, name)
            record |= {name: row.mean, f"{name}_low": row.interval_low, f"{name}_high": row.interval_high}
        return record


def funnel_tables(rows: Sequence[StageRow]) -> tuple[Table, Table]:
    """A table of what becomes of the relevant items, and one of the metric."""
    also: list[Column[Any]] = [SLICE] if any(row.slice != "all" for row in rows) else []
    stage: Column[Any] = tables.text_column("stage", lambda row: row.stage)
    intervals = summary_rows.interval_name(figures_of(rows))
    brackets = [Note(f"in brackets: {intervals}")] if intervals else []

    def table(meanings: Mapping[str, str], title: str, caption: str) -> Table:
        """The figures that have a meaning here, and over how many users the first of them is."""
        names = list(meanings)
        users: Column[Any] = Column("users", lambda row: f"{getattr(row, names[0]).n_users:,}")
        figures = [_figure_of_stage(rows, name) for name in names]
        columns = [*also, stage, Column("first", lambda row: f"{row.k:,}"), *figures, users]
        notes = [*brackets, *_other_intervals(rows, names), *(Note(text, name) for name, text in meanings.items())]
        dash_means = "the first stage has none before it"
        return Table(rows, columns, title, caption, notes, dash_means=dash_means, is_grouped=bool(also))

    items = {
        "recall": "of the relevant items, those in the first places",
        "lost": "in the first places of every stage before, and not in these: each item is lost once at most",
        "added": "in these places, although some stage before lost them",
    }
    values = {
        "reached": "the value of the stage's own order",
        "ceiling": "the best value that any order of the stage's first places has",
    }
    metric = rows[0].reached.name
    return (
        table(items, "relevant items, as shares of a user's", "What becomes of the relevant items, stage by stage"),
        table(values, metric, f"{metric}: what each stage reaches, and what its items allow"),
    )


def figures_of(rows: Sequence[StageRow], names: Sequence[str] = FIGURES) -> list[SummaryRow]:
    """The figures of some stages; without what the first stage adds, which is nothing."""
    return [getattr(row, name) for row in rows for name in names if not _is_dash(row, name, rows[0].stage)]


def _is_dash(row: StageRow, name: str, first: str) -> bool:
    return name == "added" and row.stage == first


def _other_intervals(rows: Sequence[StageRow], names: Sequence[str]) -> list[Note]:
    """The meaning of the letters behind intervals, and sentences on figures that have none."""
    shown = figures_of(rows, names)
    titles = {id(getattr(row, name)): f"{name} of {row.stage}" for row in rows for name in names}
    return list(map(Note, [*marks_in_words(figures_of(rows)), *missing_intervals(shown, lambda row: titles[id(row)])]))


def _figure_of_stage(rows: Sequence[StageRow], name: str) -> Column[StageRow]:
    """The column of a figure with its interval."""
    format_value = tables.common_format(getattr(row, name).mean for row in rows)
    marks, first = summary_rows.interval_marks(figures_of(rows)), rows[0].stage

    def cell(row: StageRow) -> Cell | str:
        figure: SummaryRow = getattr(row, name)
        if _is_dash(row, name, first):
            return DASH
        interval = "" if figure.no_interval else f" {summary_rows.ends_in_words(figure, format_value)}"
        return Cell(f"{format_value(figure.mean)}{interval}", raised=marks(figure))

    return Column(name, cell)


def stages_in_words(rows: Sequence[StageRow]) -> Iterator[str]:
    """Two sentences on each stage of one slice."""
    for place, row in enumerate(rows):
        added = "" if place == 0 else f" and adds {row.added.mean:.1%}"
        metric = f"{row.reached.name} is {tables.number(row.reached.mean)}, and these items allow {tables.number(row.ceiling.mean)}"
        yield (
            f"{row.stage} loses {row.lost.mean:.1%} of the relevant items{added}; {row.recall.name} is {row.recall.mean:.1%}. {metric}."
        )


def stage_bars(rows: Sequence[StageRow]) -> list[StageBar]:
    """What becomes of the relevant items at each stage of one slice."""
    return [
        StageBar(
            _place(row), row.recall.mean - row.added.mean, row.added.mean, row.lost.mean,
            row.recall.interval_low, row.recall.interval_high,
        )
        for row in rows
    ]  # fmt: skip


def stage_estimates(rows: Sequence[StageRow]) -> list[Estimate]:
    """The metric at each stage of one slice, and its ceiling."""
    return [
        Estimate(name, _place(row), figure.mean, figure.interval_low, figure.interval_high)
        for row in rows
        for name, figure in (("reached", row.reached), ("ceiling", row.ceiling))
    ]


def _place(row: StageRow) -> str:
    return f"{row.stage}, first {row.k:,}"
