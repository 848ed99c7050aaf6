"""What ``funnel(…).plot`` draws: the stages of one slice, and the words beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spark_rankeval.checks import needs_extra
from spark_rankeval.records.chart_rows import PURPOSE
from spark_rankeval.records.slices import about_items
from spark_rankeval.records.stage_rows import StageRow, figures_of, stage_bars, stage_estimates
from spark_rankeval.records.summary import interval_name

if TYPE_CHECKING:
    from spark_rankeval.report.marks import Drawing


def funnel_chart(rows: Sequence[StageRow], width: int) -> Drawing:
    """What becomes of the relevant items at each stage, and below what each stage reaches, with its ceiling."""
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
