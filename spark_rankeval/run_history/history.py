"""All runs of a job, from its table of metrics: how figures went over time."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

import pandas as pd
from pyspark.sql import functions as F

from spark_rankeval.checks import check_table, needs_extra
from spark_rankeval.errors import UnknownMetricError, listed
from spark_rankeval.metrics.base import Metric
from spark_rankeval.printed_tables import as_text
from spark_rankeval.records import stored
from spark_rankeval.records.columns import RUN_ID, TIME
from spark_rankeval.records.summary import METRICS
from spark_rankeval.records.tables_of_means import PURPOSE, WIDTH, Estimate, headline_keys, mean_of
from spark_rankeval.report.contents import checked_path, interval_reading, write_page
from spark_rankeval.request.call import Table
from spark_rankeval.run_history.gates import FIGURES, GateRule, names
from spark_rankeval.spark.catalog import columns_of_runs, replaced_files_explained, table_of
from spark_rankeval.spark.local_tables import takes_local_tables

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from spark_rankeval.report.drawing import Drawing


# The columns of the table of metrics that no history shows.
_FOR_MERGE = ("over_all", "moments")
_DATE = re.compile(r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)")
# So many are listed if one is not found.
_MOST_NAMED = 20
# More upright lines would hide the figures: then labels change with every run or so, and a sentence counts the changes.
_MOST_CHANGES = 12


@takes_local_tables
def history(metrics_table: Table, *, slice: str | None = "all") -> History:  # the column's name
    """The figures of every run in a job's table of metrics, with one read of it.

    Examples:
        >>> runs = history(metrics_table)
        >>> runs.to_pandas()[["run_id", "model", "metric", "mean"]].head(2).round(3)
               run_id    model    metric   mean
        0  2026-11-16  popular        rr  0.458
        1  2026-11-16  popular  recall@1  0.250

    Args:
        metrics_table: of the job's output, such as ``spark.read.parquet("output/evaluation/metrics")``, or some of its rows.
        slice: the users that figures are about, such as ``country=DE``; None: every slice.

    Raises:
        InputError: it is no such table, or a run was repeated since it was read.
    """
    check_table("metrics_table", metrics_table)
    # What only `merge` reads is long.
    wanted = [name for name in METRICS.names if name not in _FOR_MERGE]
    table = columns_of_runs("metrics_table", metrics_table, wanted)
    chosen = table if slice is None else table.where(F.col("slice") == slice)
    with replaced_files_explained("metrics_table"):
        records = [record.asDict() for record in chosen.withColumn(TIME, F.unix_micros(TIME)).collect()]
    ordered = sorted(records, key=lambda record: (record[TIME], str(record[RUN_ID])))
    rows = [
        stored.HistoryRow(str(record[RUN_ID]), datetime.fromtimestamp(record[TIME] / 1e6, UTC), stored.row_of(record))
        for record in ordered
    ]
    if all(date_of_run(each.run) for each in rows):
        rows.sort(key=lambda each: date_of_run(each.run) or each.time)
    return History(tuple(rows))


@dataclass(frozen=True, eq=False)
class History:
    """The figures of runs, the earliest first.

    Examples:
        >>> runs = history(metrics_table)
        >>> list(runs.runs), runs.keys()
        (['2026-11-16', '2026-11-17'], ['rr', 'recall@1', 'recall@2', 'recall@3'])
        >>> print(runs.of("rr"))
        rr
        run_id      time (UTC)        model       mean      95% interval  users  undefined
        2026-11-16  2026-11-16 00:00  popular   0.4583  [0.1358, 0.7808]      8          0
        2026-11-16  2026-11-16 00:00  personal  0.8750  [0.5518, 1.0000]      8          0
        2026-11-17  2026-11-17 00:00  popular   0.4583  [0.1358, 0.7808]      8          0
        2026-11-17  2026-11-17 00:00  personal  0.8750  [0.5518, 1.0000]      8          0

    Attributes:
        rows: a run's id, its time and a row of its summary.
        failed: why runs failed, such as ``gates failed``, by their ids, which the table of metrics does not know; they are marked.
    """

    rows: tuple[stored.HistoryRow, ...]
    failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def runs(self) -> dict[str, datetime]:
        """The runs and their times, the earliest first."""
        return {run: time for run, time, _ in self.rows}

    def keys(self) -> list[str]:
        """The labels of the metrics, those of the newest run first."""
        by_run: dict[str, list[str]] = {}
        for run, _, row in self.rows:
            by_run.setdefault(run, []).append(row.key)
        return list(dict.fromkeys(key for run in reversed(by_run) for key in by_run[run]))

    def to_pandas(self) -> pd.DataFrame:
        """One row per run, model, metric and slice, the earliest run first: its run and time, and the columns of `Result.to_pandas`."""
        records = [{RUN_ID: run, TIME: time, **row.record()} for run, time, row in self.rows]
        columns = None if records else [name for name in stored.HISTORY.names if name != "quantiles"]
        return pd.DataFrame(records, columns=columns).astype({"cutoff": "Int64"})

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """The rows of `to_pandas` as a Spark DataFrame, with all quantiles in one column; see `Result.to_spark`."""
        return table_of(
            ({RUN_ID: run, TIME: time, **row.shown()} for run, time, row in self.rows), stored.HISTORY, spark
        )

    def of(self, metrics: Sequence[str | Metric] | str | Metric) -> History:
        """The history of some metrics alone.

        Raises:
            UnknownMetricError: no run has one of them.
        """
        entries = [metrics] if isinstance(metrics, str | Metric) else list(metrics)
        newest = stored.newest_names(self.rows)
        available = [newest[key] for key in self.keys()]
        wanted: dict[str, None] = {}
        for metric in entries:
            matches = [key for key in self.keys() if metric == newest[key] or names(str(metric), key)]
            if not matches:
                there = listed(available, _MOST_NAMED) or "none, and no runs"
                msg = f"no run has a metric {str(metric)!r}; available: {there}"
                raise UnknownMetricError(msg)
            wanted |= dict.fromkeys(matches)
        return self._select_keys(wanted)

    def headline(self, also: Sequence[str] = ()) -> History:
        """The metrics to begin with: of one at many cutoffs the usual ones, and no points of a recall curve.

        Args:
            also: further metrics.
        """
        wanted = {*headline_keys([row for _, _, row in self.rows])}
        wanted |= {key for key in self.keys() if any(names(metric, key) for metric in also)}
        return self._select_keys(wanted)

    def _select_keys(self, keys: Collection[str]) -> History:
        return History(tuple(each for each in self.rows if each.row.key in keys), self.failed)

    def plot(
        self,
        metric: str | None = None,
        *,
        slice: str = "all",  # as the column is called
        gates: Sequence[GateRule] = (),
        width: int = WIDTH,
    ) -> Drawing:
        """Draw a metric over the runs: one line per model, with a band from end to end of its intervals; needs the extra ``report``.

        A run stands at the date in its id if each run has one of its own, and otherwise at its time. Points of runs that failed have a
        ring, and an upright line stands where labels, users or exclusions changed.

        Args:
            metric: its label, or another spelling of it; None: the first.
            slice: which users.
            gates: of `read_gates`; fixed values for this metric and slice are drawn as lines.
            width: of the drawing without its labels, in pixels.

        Raises:
            UnknownMetricError: runs have no such metric.
        """
        with needs_extra("report", PURPOSE):
            from spark_rankeval.report.drawing import curve_chart  # noqa: PLC0415 # of an extra
        newest = stored.newest_names(self.rows)
        key = self._key_to_draw(metric)
        name = newest.get(key, key)
        figure_rows = [each for each in self.rows if (each.row.key, each.row.slice) == (key, slice)]
        drawn = _comparable_rows(figure_rows)
        left_out = len({run for run, _, _ in figure_rows} - {run for run, _, _ in drawn})
        dates = _dates_of({run: time for run, time, _ in drawn})
        if dates:
            drawn = sorted((each._replace(time=dates[each.run]) for each in drawn), key=attrgetter("time"))
        reading = [interval_reading([row for _, _, row in drawn[-1:]], "band", "separately for each run")]
        if left_out:
            reading.append(f"{left_out} runs with another definition are left out.")
        limits = _limits_of(gates, key, slice)
        if limits:
            reading.append("Dashed lines: gates.")
        notes = {run: f"{run}, {self.failed[run]}" if run in self.failed else run for run, _, _ in drawn}
        ringed = {notes[run] for run in notes if run in self.failed}
        if ringed:
            reading.append("Ringed: runs that failed.")
        changes = stored.changes_of(drawn)
        places = {1000 * each.time.timestamp(): f"{changes[each.run]} changed" for each in drawn if each.run in changes}
        if len(places) > _MOST_CHANGES:
            reading.append(f"Labels, users or exclusions changed {len(places):,} times.")
            places = {}
        elif places:
            reading.append(f"Dotted upright lines: {listed(list(dict.fromkeys(changes.values())))} changed.")
        return curve_chart(
            [
                Estimate(row.model, 1000 * time.timestamp(), row.mean, row.interval_low, row.interval_high, notes[run])
                for run, time, row in drawn
            ],
            title=f"{name} over runs" if slice == "all" else f"{name} over runs, users with {slice}",
            reading=reading,
            x_title="date of run" if dates else "run (UTC)",
            y_title=mean_of(drawn[0].row, name) if drawn else name,
            series=list(dict.fromkeys(row.model for _, _, row in self.rows)),
            times=True,
            limits=limits,
            ringed=ringed,
            changes=places,
            width=width,
        )

    def _key_to_draw(self, metric: str | None) -> str:
        """The label of the only metric that answers to a name; of the first one if there is no name."""
        if not self.rows:
            return str(metric or "metrics")
        newest = stored.newest_names(self.rows if metric is None else self.of(metric).rows)
        if metric is not None and len(newest) > 1:
            msg = f"the metric {str(metric)!r} is ambiguous: it matches {', '.join(newest.values())}; name one of these"
            raise UnknownMetricError(msg)
        return next(iter(newest))

    def report(
        self, path: str | os.PathLike[str], *, gates: Sequence[GateRule] = (), title: str = "Metrics over all runs"
    ) -> Path:
        """Write a page of HTML that opens offline: one chart and one table per metric; needs the extra ``report``.

        Args:
            path: of the file on this machine; one that is there is replaced, at once and whole.
            gates: whose fixed values are drawn as lines.
            title: of the page.

        Returns:
            the path.

        Raises:
            MissingExtraError: Altair, Jinja2 or vl-convert is not installed.
            OptionError: there is no folder for the path on this machine.
        """
        target = checked_path(path)
        with needs_extra("report", "reports"):
            from spark_rankeval.report.page import history_page  # noqa: PLC0415 # of an extra
        parts, newest = [], stored.newest_names(self.rows)
        for key in self.keys():
            metric_rows = [each for each in self.rows if each.row.key == key]
            for slice_ in sorted({row.slice for _, _, row in metric_rows}, key=lambda name: (name != "all", name)):
                slice_rows = [each for each in metric_rows if each.row.slice == slice_]
                draw = partial(self.plot, key, slice=slice_, gates=gates)
                parts.append((stored.figure_in_words(newest[key], slice_), draw, slice_rows))
        return write_page(target, history_page(title, parts, self.failed))

    def __repr__(self) -> str:
        return as_text(stored.history_on_screen(self.rows, self.failed).with_calls()) if self.rows else "no run"


def _comparable_rows(rows: Sequence[stored.HistoryRow]) -> list[stored.HistoryRow]:
    """The rows of the same definition as the newest one: others are no points of the same line."""
    aspects = attrgetter("definition", "dialect", "user_weight")
    return [each for each in rows if aspects(each.row) == aspects(rows[-1].row)]


def date_of_run(run: str) -> datetime | None:
    """The date in the id of a run, such as ``daily-2026-11-16``; None if it has none."""
    for date in _DATE.findall(run)[:1]:
        with suppress(ValueError):
            return datetime.fromisoformat(date).replace(tzinfo=UTC)
    return None


def _dates_of(started: Mapping[str, datetime]) -> dict[str, datetime]:
    """The dates in the ids of runs, or when those without one began. Empty if no id has a date, or if two have the same."""
    dates = {run: date_of_run(run) or time for run, time in started.items()}
    return dates if dates != started and len(set(dates.values())) == len(dates) else {}


def _limits_of(gates: Sequence[GateRule], key: str, slice_: str) -> list[tuple[str, float]]:
    """The fixed values of the gates of a metric, with what to write on them."""
    limits = []
    for gate in gates:
        if names(gate.metric, key) and gate.slice == slice_ and not gate.gap:
            whose = f" of {gate.model}" if gate.model else ""
            on = f" ({FIGURES[gate.on]})" if gate.on != "mean" else ""
            bounds = (("min", gate.min), ("max", gate.max))
            called = f"{gate.own_name}: " if gate.own_name else ""
            limits += [(f"{called}{name} {value:g}{on}{whose}", value) for name, value in bounds if value is not None]
    return limits
