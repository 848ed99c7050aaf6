"""The stages of a funnel as rows, with the tables, sentences and parts of the chart that show them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from spark_rankeval.printed_tables import DASH, Cell, Column, Note, Table, common_format, number, text_column
from spark_rankeval.records.chart_rows import Estimate, StageBar
from spark_rankeval.records.summary import (
    SLICE,
    SummaryRow,
    ends_in_words,
    interval_marks,
    interval_name,
    marks_in_words,
    missing_intervals,
)

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
    stage: Column[Any] = text_column("stage", lambda row: row.stage)
    first: Column[Any] = Column("first", lambda row: f"{row.k:,}")
    metric = rows[0].reached.name
    intervals = interval_name(figures_of(rows))
    brackets = [Note(f"in brackets: {intervals}")] if intervals else []
    items = Table(
        rows,
        [*also, stage, first, *(_figure_of_stage(rows, name) for name in FIGURES[:3]), _users("recall")],
        "relevant items, as shares of a user's",
        "What becomes of the relevant items, stage by stage",
        [
            *brackets,
            *_other_intervals(rows, FIGURES[:3]),
            Note("of the relevant items, those in the first places", "recall"),
            Note("in the first places of every stage before, and not in these: each item is lost once at most", "lost"),
            Note("in these places, although some stage before lost them", "added"),
        ],
        dash_means="the first stage has none before it",
        is_grouped=bool(also),
    )
    reached = Table(
        rows,
        [*also, stage, first, *(_figure_of_stage(rows, name) for name in FIGURES[3:]), _users("reached")],
        metric,
        f"{metric}: what each stage reaches, and what its items allow",
        [
            *brackets,
            *_other_intervals(rows, FIGURES[3:]),
            Note("the value of the stage's own order", "reached"),
            Note("the best value that any order of the stage's first places has", "ceiling"),
        ],
        is_grouped=bool(also),
    )
    return items, reached


def _users(name: str) -> Column[StageRow]:
    """The number of users that a figure is over."""
    return Column("users", lambda row: f"{getattr(row, name).n_users:,}")


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
    format_value = common_format(getattr(row, name).mean for row in rows)
    marks, first = interval_marks(figures_of(rows)), rows[0].stage

    def cell(row: StageRow) -> Cell | str:
        figure: SummaryRow = getattr(row, name)
        if _is_dash(row, name, first):
            return DASH
        interval = "" if figure.no_interval else f" {ends_in_words(figure, format_value)}"
        return Cell(f"{format_value(figure.mean)}{interval}", raised=marks(figure))

    return Column(name, cell)


def stages_in_words(rows: Sequence[StageRow]) -> Iterator[str]:
    """Two sentences on each stage of one slice."""
    for place, row in enumerate(rows):
        added = "" if place == 0 else f" and adds {row.added.mean:.1%}"
        metric = f"{row.reached.name} is {number(row.reached.mean)}, and these items allow {number(row.ceiling.mean)}"
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
