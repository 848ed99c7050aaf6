"""The figures of several runs as text."""

from __future__ import annotations

import math
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

from spark_rankeval.records.summary import SummaryRow
from spark_rankeval.tables.text import aligned, in_one_format

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: A run's id, its time, and a row of its summary.
HistoryRow = tuple[str, datetime, SummaryRow]

# So many runs of a metric are printed, the newest ones.
_MOST_RUNS = 20
_MOST_TABLES = 12


def render_history(rows: Sequence[HistoryRow], failed: Mapping[str, str] = MappingProxyType({})) -> str:
    """A table a metric and slice, the earliest run first.

    Args:
        rows: of the runs.
        failed: why runs failed, by their ids.
    """
    if not rows:
        return "no run"
    tables: dict[tuple[str, str], list[HistoryRow]] = {}
    for one in rows:
        tables.setdefault((one[2].key, one[2].slice), []).append(one)
    parts = []
    for (key, slice_), mine in list(tables.items())[:_MOST_TABLES]:
        newest = list(dict.fromkeys(run for run, _, _ in mine))[-_MOST_RUNS:]
        shown = [one for one in mine if one[0] in newest]
        left_out = len({run for run, _, _ in mine}) - len(newest)
        lines = [f"{key}, users with {slice_}" if slice_ != "all" else key]
        lines += [f"{left_out:,} earlier runs"] * bool(left_out)
        heads, cells = history_cells(shown, failed)
        parts.append("\n".join([*lines, *aligned([heads, *cells], left=2 + ("model" in heads) + ("failed" in heads))]))
    if len(tables) > _MOST_TABLES:
        parts.append(f"{len(tables) - _MOST_TABLES:,} more metrics and slices: to_pandas() has them all")
    return "\n\n".join(parts)


def history_cells(
    rows: Sequence[HistoryRow], failed: Mapping[str, str] = MappingProxyType({})
) -> tuple[list[str], list[list[str]]]:
    """The heads of a table of runs, and a row a run and model; why runs failed is a column where some did."""
    marked = any(run in failed for run, _, _ in rows)
    named = any(row.model for _, _, row in rows)
    levels = list(dict.fromkeys(row.interval_level for _, _, row in rows if row.interval_method))
    interval = f"{100 * levels[0]:.6g}% interval" if len(levels) == 1 else "interval"
    heads = ["run_id", "time (UTC)", *["failed"] * marked, *["model"] * named, "mean", interval, "users", "undefined"]
    written = in_one_format(row.mean for _, _, row in rows)
    cells = []
    for run, time, row in rows:
        known = math.isfinite(row.interval_low) and math.isfinite(row.interval_high)
        ends = f"[{written(row.interval_low)}, {written(row.interval_high)}]" if known else "–"
        figures = [written(row.mean), ends, f"{row.n_users:,}", f"{row.n_undefined:,}"]
        said = [failed.get(run, "")] * marked
        cells.append([run, f"{time:%Y-%m-%d %H:%M}", *said, *[row.model] * named, *figures])
    return heads, cells
