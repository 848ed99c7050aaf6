"""Charts of estimates with intervals: of slices and groups of items, of two judges, of stages; and the words beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from spark_rankeval.checks import needs_extra
from spark_rankeval.printed_tables import common_format
from spark_rankeval.records.chart_rows import PURPOSE, Estimate, axis_of, mean_of
from spark_rankeval.records.judge_estimates import JudgedMeans
from spark_rankeval.records.selection import MOST_LINES
from spark_rankeval.records.slices import about_items
from spark_rankeval.records.stage_rows import StageRow, figures_of, stage_bars, stage_estimates
from spark_rankeval.records.summary import SummaryRow, interval_name, is_over_lists

if TYPE_CHECKING:
    from spark_rankeval.report.marks import Drawing


def forest(estimates: Sequence[Estimate], **options: Any) -> Drawing:
    """A line for each place, with the options of `forest_chart`."""
    with needs_extra("report", PURPOSE):
        from spark_rankeval.report.drawing import forest_chart
    return forest_chart(estimates, **options)


def estimate_of(row: SummaryRow, series: str, place: str | float, note: str) -> Estimate:
    """The mean of a row with its interval."""
    return Estimate(series, place, row.mean, row.interval_low, row.interval_high, note)


def users_in_note(row: SummaryRow) -> str:
    """How many users a row is over."""
    return f"{row.n_users:,} users" if row.n_users else "no users"


def interval_reading(rows: Sequence[SummaryRow], mark: str, how: str = "") -> str:
    """A sentence on the means and the kind of their intervals."""
    name = interval_name(rows, all_methods=True) if rows else ""
    figure = "Value of all lists together" if rows and all(map(is_over_lists, rows)) else "Mean over users"
    if not name:
        return f"{figure}; no intervals were asked for."
    return f"{figure}; {mark}: {name}{', ' if how else ''}{how}."


def parts_chart(
    rows: Sequence[SummaryRow],
    total_rows: Sequence[SummaryRow],
    part: Callable[[str], str],
    parts: str,
    reading: Sequence[str],
    *,
    series: Sequence[str],
    has_totals: bool,
    width: int,
) -> Drawing:
    """A metric in every slice or group, whose name `part` makes of a row's slice; a dashed line is for all if totals compare."""
    first, format_value = total_rows[0], common_format(row.mean for row in rows)
    return forest(
        [
            estimate_of(row, row.model, part(row.slice), f"{format_value(row.mean)} · {users_in_note(row)}")
            for row in rows
        ],
        title=f"{first.name} by {parts}",
        reading=reading,
        x_title=mean_of(first, first.name),
        series=series,
        reference={row.model: row.mean for row in total_rows} if has_totals else {},
        width=width,
    )


def judged_chart(judged: JudgedMeans, width: int) -> Drawing:
    """Means under human grades: a line for each metric and model, with a mark for both judges together and one for each alone."""
    rows = judged.rows[:MOST_LINES]
    has_models = any(row.model for row in rows)
    series = ["both", f"{judged.human} alone", f"{judged.judge} alone"]
    estimates = []
    for row in rows:
        place = f"{row.metric} · {row.model}" if has_models else row.metric
        for name, (value, ends) in zip(series, row.means, strict=True):
            estimates.append(Estimate(name, place, value, ends.low, ends.high, axis=axis_of(row.metric)))
    level = f"{rows[0].estimate.interval.level:.0%} " if rows else ""
    return forest(
        estimates,
        title=f"Means under {judged.human}, by both judges and by each alone",
        reading=[f"Line: {level}interval. Quote the estimate from both."],
        x_title="mean over users",
        series=series,
        width=width,
    )


def funnel_chart(rows: Sequence[StageRow], width: int) -> Drawing:
    """What becomes of the relevant items at each stage of one slice, and below what each stage reaches, with its ceiling."""
    with needs_extra("report", PURPOSE):
        from spark_rankeval.report.drawing import stages_chart
    name = rows[0].slice
    title = "Relevant items, stage by stage" + ("" if name == "all" else f": {about_items(name)}")
    interval = interval_name(figures_of(rows), all_methods=True)
    reading = [f"Line: {interval}."] if interval else []
    return stages_chart(
        stage_bars(rows),
        stage_estimates(rows),
        title=title,
        reading=[*reading, "Ceiling: the best value that any order of the stage's first places has."],
        x_title=f"mean {rows[0].reached.name}",
        width=width,
    )
