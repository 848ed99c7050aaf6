"""The page of a history: a chart and a table a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_rankeval.report.page import Section, document
from spark_rankeval.report.pictures import picture
from spark_rankeval.tables.history import history_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from spark_rankeval.charts.marks import Drawing
    from spark_rankeval.tables.history import HistoryRow


@dataclass(frozen=True)
class Part:
    """A metric over the runs.

    Attributes:
        key: of the metric.
        draw: makes the chart of a width.
        rows: of the runs, the earliest first.
        failed: why runs failed, by their ids.
    """

    key: str
    draw: Callable[[int], Drawing]
    rows: Sequence[HistoryRow]
    failed: Mapping[str, str]


def history_page(title: str, parts: Sequence[Part]) -> str:
    """The page as one HTML document.

    Args:
        title: of the page.
        parts: the metrics, in their order.
    """
    times = {run: time for part in parts for run, time, _ in part.rows}
    failed = {run for part in parts for run in part.failed} & times.keys()
    facts = [("runs", f"{len(times):,}")]
    if failed:
        facts.append(("failed", f"{len(failed):,}"))
    facts.append(("metrics", f"{len(parts):,}"))
    if times:
        facts += [("first", f"{min(times.values()):%Y-%m-%d %H:%M}"), ("last", f"{max(times.values()):%Y-%m-%d %H:%M}")]
    sections = [_section(place, part) for place, part in enumerate(parts)]
    return document(title, facts, sections or [Section("runs", "Runs", words=["There is no run to show."])])


def _section(place: int, part: Part) -> Section:
    newest_first = sorted(part.rows, key=lambda each: each.time, reverse=True)
    caption = "The same in figures, the newest run first"
    return Section(
        f"metric-{place}",
        part.key,
        pictures=[picture(part.draw)],
        tables=[history_table(newest_first, part.failed, caption)],
    )
