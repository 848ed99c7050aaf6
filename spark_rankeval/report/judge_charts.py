"""What ``result.plot.judged()`` draws: means under human grades by two judges, beside those by each alone, and the words beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_rankeval.checks import needs_extra
from spark_rankeval.records.chart_rows import PURPOSE, Estimate, axis_of
from spark_rankeval.records.judge_estimates import JudgedMeans
from spark_rankeval.records.selection import MOST_LINES

if TYPE_CHECKING:
    from spark_rankeval.report.marks import Drawing


def judged_chart(judged: JudgedMeans, width: int) -> Drawing:
    """A line for each metric and model, with a mark for both judges together and one for each alone."""
    with needs_extra("report", PURPOSE):
        from spark_rankeval.report.drawing import forest_chart
    rows = judged.rows[:MOST_LINES]
    has_models = any(row.model for row in rows)
    series = ["both", f"{judged.human} alone", f"{judged.judge} alone"]
    estimates = []
    for row in rows:
        place = f"{row.metric} · {row.model}" if has_models else row.metric
        for name, (value, ends) in zip(series, row.means, strict=True):
            estimates.append(Estimate(name, place, value, ends.low, ends.high, axis=axis_of(row.metric)))
    level = f"{rows[0].estimate.interval.level:.0%} " if rows else ""
    return forest_chart(
        estimates,
        title=f"Means under {judged.human}, by both judges and by each alone",
        reading=[f"Line: {level}interval. Quote the estimate from both."],
        x_title="mean over users",
        series=series,
        width=width,
    )
