"""Metrics over all runs, and gates: conditions on figures, read from settings, that fail a bad run."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pandas as pd
from pyspark.sql import functions as F

from spark_rankeval.checks import check_table, is_number, needs_extra
from spark_rankeval.errors import ConfigurationError, UnknownMetricError, did_you_mean, listed
from spark_rankeval.metrics.base import Metric
from spark_rankeval.metrics.naming import reads_as
from spark_rankeval.printed_tables import Document, as_text
from spark_rankeval.records.columns import HISTORY, METRICS, RUN_ID, TIME
from spark_rankeval.records.gaps import largest_gaps
from spark_rankeval.records.stored import (
    HistoryRow,
    changed_tables,
    changes_of,
    figure_in_words,
    history_on_screen,
    newest_names,
    row_of,
)
from spark_rankeval.records.summary import SummaryRow, attributes_of
from spark_rankeval.records.tables_of_means import PURPOSE, WIDTH, Estimate, headline_keys, mean_of
from spark_rankeval.report import Gate
from spark_rankeval.report.charts import interval_reading
from spark_rankeval.report.contents import checked_path, gates_table, write_page
from spark_rankeval.request.call import Table
from spark_rankeval.spark.catalog import columns_of_runs, replaced_files_explained, table_of
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.statistics.comparisons import percent
from spark_rankeval.statistics.distributions import normal_quantile
from spark_rankeval.statistics.intervals import requested_method

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from spark_rankeval.report.drawing import Drawing


#: The figures that a gate may check, in words.
FIGURES = {"mean": "mean", "ci_low": "lower end of the interval", "ci_high": "upper end of the interval"}
#: The attribute of a summary's row that has it.
ATTRIBUTES = {"mean": "mean", "ci_low": "interval_low", "ci_high": "interval_high"}

#: Conditions that need no other run, and those that look at the last good one.
FIXED, RELATIVE = ("min", "max"), ("max_drop", "max_drop_share", "max_rise", "max_rise_share")

CONDITIONS = (*FIXED, *RELATIVE)


@dataclass(frozen=True, kw_only=True)
class GateRule:
    """The conditions that a figure must meet.

    Attributes:
        metric: the label of the metric, or any spelling of it. With several relevances, "ndcg@10 [click]" means one of them and
            "ndcg@10" all; of two judges it means the estimate from both. Left out, it is the name of the gate.
        min: the smallest value that passes.
        max: the largest value that passes.
        max_drop: how far the figure may be below that of the last good run, in units of the metric.
        max_drop_share: the same as a share of the last good run's figure: 0.02 is 2%.
        max_rise: how far the figure may be above that of the last good run, for metrics for which smaller is better.
        max_rise_share: the same as a share of the last good run's figure.
        on: the figure to check, in this run and the last good one: the mean, or the lower or upper end of its interval.
        model: the model to check; left out, every model.
        slice: the users to check, such as "country=DE"; "*" checks every slice.
        gap: the attribute whose largest gap between slices is checked, such as "country", instead of the mean of some users.
        same_labels: whether a condition on the last good run fails if that run had other labels, users or exclusions, or if that is
            unknown. By default the outcome says so.
        beyond_chance: whether a mean must also be farther from that of the last good run than chance explains, at 95%, to fail.
    """

    metric: str = ""
    min: float | None = None
    max: float | None = None
    max_drop: float | None = None
    max_drop_share: float | None = None
    max_rise: float | None = None
    max_rise_share: float | None = None
    on: Literal["mean", "ci_low", "ci_high"] = "mean"
    model: str | None = None
    slice: str = "all"
    gap: str = ""
    same_labels: bool = False
    beyond_chance: bool = False

    # The name in the table of gates if that is not the metric; no key of its own.
    own_name = ""

    @property
    def conditions(self) -> dict[str, float]:
        """The conditions that were given, by name."""
        values = {name: getattr(self, name) for name in CONDITIONS}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def looks_back(self) -> bool:
        """Whether a condition refers to the last good run."""
        return not self.conditions.keys().isdisjoint(RELATIVE)


@dataclass(frozen=True, kw_only=True)
class _NamedRule(GateRule):
    own_name: str


def read_gates(settings: Mapping[str, Any]) -> tuple[GateRule, ...]:
    """Gates from plain settings: a table of conditions for each metric, or for each gate that names its metric.

    Examples:
        >>> (gate,) = read_gates({"rr": {"min": 0.5, "on": "ci_low", "model": "personal"}})
        >>> gate.metric, gate.conditions, gate.on
        ('rr', {'min': 0.5}, 'ci_low')

    Args:
        settings: such as ``{"ndcg@10": {"min": 0.31, "max_drop": 0.005, "on": "ci_low"}}``, or ``{"germany": {"metric":
            "ndcg@10", "slice": "country=DE", "min": 0.2}}``; keys are the attributes of `GateRule`.

    Raises:
        ConfigurationError: a key or value is wrong; the message lists every one, and what is allowed.
    """
    if not isinstance(settings, Mapping):
        msg = f"gates must be a table of conditions by metric; found {settings!r}"
        raise ConfigurationError(msg)
    problems = [
        f"gate {name!r}: {problem}" for name, conditions in settings.items() for problem in _problems(conditions)
    ]
    if problems:
        raise ConfigurationError("; ".join(problems))
    return tuple(
        _NamedRule(own_name=name, **conditions)
        if conditions.get("metric", name) != name
        else GateRule(**{"metric": str(name), **conditions})
        for name, conditions in settings.items()
    )


def _problems(conditions: object) -> Iterator[str]:
    if not isinstance(conditions, Mapping):
        yield f"conditions must be a table, such as {{ min = 0.3 }}; found {conditions!r}"
        return
    keys = [item.name for item in fields(GateRule)]
    for key in conditions:
        if key not in keys:
            yield f"unknown key {key!r}; {did_you_mean(key, keys)}allowed: {', '.join(keys)}"
    for name in CONDITIONS:
        value = conditions.get(name, 0.0)
        if not is_number(value) or not math.isfinite(value):
            yield f"{name} must be a number; found {value!r}"
        elif name in RELATIVE and value < 0:
            yield f"{name} must be 0 or more; found {value!r}"
    if conditions.get("on", "mean") not in FIGURES:
        yield f"on must be one of {', '.join(FIGURES)}; found {conditions['on']!r}"
    unfit = [name for name in (*RELATIVE, "slice") if name in conditions and conditions.get("gap")]
    if unfit:
        yield f"a gate with gap takes min, max, on and model; found {', '.join(unfit)}"
    for name in ("metric", "model", "slice", "gap"):
        if not isinstance(conditions.get(name, ""), str):
            yield f"{name} must be a string; found {conditions[name]!r}"
    yield from _problems_of_looking_back(conditions)
    if not any(name in conditions for name in CONDITIONS):
        yield f"there is no condition; give at least one of {', '.join(CONDITIONS)}"
    least, greatest = conditions.get("min"), conditions.get("max")
    if is_number(least) and is_number(greatest) and least > greatest:  # type: ignore[operator] # both are numbers
        yield f"min = {least!r} is above max = {greatest!r}, so nothing can pass"


def _problems_of_looking_back(conditions: Mapping[object, object]) -> Iterator[str]:
    for name in ("same_labels", "beyond_chance"):
        value = conditions.get(name, False)
        if not isinstance(value, bool):
            yield f"{name} must be true or false; found {value!r}"
        elif value and not any(each in conditions for each in RELATIVE):
            yield f"{name} is about the last good run; give at least one of {', '.join(RELATIVE)}"
    if conditions.get("beyond_chance") is True and conditions.get("on", "mean") != "mean":
        yield f"beyond_chance is about means; found on = {conditions['on']!r}"


def check_figures(
    rules: Iterable[GateRule],
    keys: Mapping[str, str],
    *,
    intervals: bool = True,
    slices: bool = True,
    models: Sequence[str] | None = None,
) -> None:
    """Raise an error for gates on figures that an evaluation of these metrics' keys will not have, before it runs.

    The error lists all of them. `keys` have what the caller called each metric. `models` are the names of the models, of the only one
    empty if it has none; None if they are not known yet.
    """
    problems = []
    for rule in rules:
        gate = f"gate {rule.own_name or rule.metric!r}"
        if rule.metric not in keys.values() and not any(names(rule.metric, key) for key in keys):
            near = did_you_mean(rule.metric, keys.values())
            problems.append(f"{gate}: the evaluation has no such metric; {near}it has: {', '.join(keys.values())}")
        if rule.on != "mean" and not intervals and not rule.gap:
            problems.append(f"{gate}: on = {rule.on!r} needs an interval; set ci")
        if rule.slice != "all" and not slices:
            problems.append(f"{gate}: slice = {rule.slice!r} needs slices; set by")
        if rule.gap and not slices:
            problems.append(f"{gate}: gap = {rule.gap!r} needs slices; set by")
        if rule.model is not None and models is not None and rule.model not in models:
            there = f"{did_you_mean(rule.model, models)}there is: {', '.join(map(repr, models))}"
            there = there if any(models) else "the only model has no name"
            problems.append(f"{gate}: there is no model {rule.model!r}; {there}")
    if problems:
        raise ConfigurationError("; ".join(problems))


def names(text: str, key: str) -> bool:
    """Whether a string names the metric of a row's key: the key itself, its label, or another spelling of the label."""
    label = key.partition(" [")[0]
    return text in (key, label) or reads_as(label, text)


# The columns of the table of metrics that no history shows.
_FOR_MERGE = ("over_all", "moments", "cluster_sums")
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
    stored = columns_of_runs("metrics_table", metrics_table, wanted)
    chosen = stored if slice is None else stored.where(F.col("slice") == slice)
    with replaced_files_explained("metrics_table"):
        records = [record.asDict() for record in chosen.withColumn(TIME, F.unix_micros(TIME)).collect()]
    ordered = sorted(records, key=lambda record: (record[TIME], str(record[RUN_ID])))
    rows = [*map(_history_row, ordered)]
    if all(date_of_run(each.run) for each in rows):
        rows.sort(key=lambda each: date_of_run(each.run) or each.time)
    return History(tuple(rows))


def _history_row(record: dict[str, Any]) -> HistoryRow:
    return HistoryRow(str(record[RUN_ID]), datetime.fromtimestamp(record[TIME] / 1e6, UTC), row_of(record))


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

    rows: tuple[HistoryRow, ...]
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
        columns = None if records else [name for name in HISTORY.names if name != "quantiles"]
        return pd.DataFrame(records, columns=columns).astype({"cutoff": "Int64"})

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """The rows of `to_pandas` as a Spark DataFrame, with all quantiles in one column; see `Result.to_spark`."""
        return table_of(({RUN_ID: run, TIME: time, **row.shown()} for run, time, row in self.rows), HISTORY, spark)

    def of(self, metrics: Sequence[str | Metric] | str | Metric) -> History:
        """The history of some metrics alone.

        Raises:
            UnknownMetricError: no run has one of them.
        """
        entries = [metrics] if isinstance(metrics, str | Metric) else list(metrics)
        newest = newest_names(self.rows)
        available = [newest[key] for key in self.keys()]
        wanted: dict[str, None] = {}
        for metric in entries:
            matches = [key for key in self.keys() if metric == newest[key] or names(str(metric), key)]
            if not matches:
                msg = f"no run has a metric {str(metric)!r}; available: {_listed(available) or 'none, and no runs'}"
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

    @property
    def plot(self) -> HistoryPlots:
        """A chart of a metric over the runs, ``history.plot("ndcg@10")``, as Altair's object; needs the extra ``report``."""
        return HistoryPlots(self.rows, self.failed)

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
            from spark_rankeval.report.page import Part, history_page  # noqa: PLC0415 # of an extra
        parts, newest = [], newest_names(self.rows)
        for key in self.keys():
            metric_rows = [each for each in self.rows if each.row.key == key]
            for slice_ in sorted({row.slice for _, _, row in metric_rows}, key=lambda name: (name != "all", name)):
                slice_rows = [each for each in metric_rows if each.row.slice == slice_]
                draw = partial(self.plot, key, slice=slice_, gates=gates)
                parts.append(Part(figure_in_words(newest[key], slice_), draw, slice_rows, self.failed))
        return write_page(target, history_page(title, parts))

    def __repr__(self) -> str:
        return as_text(history_on_screen(self.rows, self.failed).with_calls()) if self.rows else "no run"


def _listed(names: Sequence[str]) -> str:
    more = f", … ({len(names):,} in all)" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(names[:_MOST_NAMED])}{more}"


@dataclass(frozen=True)
class HistoryPlots:
    """The chart of a history, whose rows begin with the earliest.

    A run stands at the date in its id if each run has one of its own, and otherwise at its time. Points of runs that failed have a
    ring, and an upright line stands where labels, users or exclusions changed.
    """

    rows: tuple[HistoryRow, ...]
    failed: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return "plot(metric=None, slice='all', gates=())"

    def __call__(
        self,
        metric: str | None = None,
        *,
        slice: str = "all",  # as the column is called
        gates: Sequence[GateRule] = (),
        width: int = WIDTH,
    ) -> Drawing:
        """Draw a metric over the runs: one line per model, with a band from end to end of its intervals.

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
        newest = newest_names(self.rows)
        keys = list(newest)
        answering = keys[:1] if metric is None else [key for key in keys if names(str(metric), key)]
        if self.rows and len(answering) != 1:
            what = (
                f"is ambiguous: it matches {', '.join(newest[key] for key in answering)}"
                if answering
                else "is in no run"
            )
            msg = f"the metric {str(metric)!r} {what}; available: {', '.join(newest.values())}"
            raise UnknownMetricError(msg)
        key = answering[0] if answering else str(metric or "metrics")
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
        changes = changes_of(drawn)
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


def _comparable_rows(rows: Sequence[HistoryRow]) -> list[HistoryRow]:
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


# Those whose limit is the least value that passes; that of the others is the greatest.
_LEAST = ("min", "max_drop", "max_drop_share")
# The model, slice and key of a row.
_Figure = tuple[str, str, str]
_figure_key: Callable[[SummaryRow], _Figure] = attrgetter("model", "slice", "key")
# In the place of a slice: each of them.
_EVERY_SLICE = "*"
# So many standard errors of their difference explain how far apart two means are, in 95% of pairs of runs that differ by chance alone.
_CHANCE = normal_quantile(0.975)


@dataclass(frozen=True)
class GateOutcome(Gate):
    """One condition on one figure, and whether it was met. A report can show it as it is.

    Attributes:
        metric: the label of the metric.
        model: the model.
        slice: the slice of users.
        on: the figure: ``mean``, ``ci_low`` or ``ci_high``.
        rule: the name of the condition, such as ``max_drop``.
        value: the value of the figure; NaN if it is undefined.
        limit: the smallest or largest value that passes; NaN if the condition refers to an earlier run and there is none.
        earlier: the last good run, if the condition refers to it and there is one.
        changed: which of labels, users and exclusions are not those of that run, in words; empty: none, or not known.
    """

    metric: str
    model: str
    slice: str
    on: str
    rule: str
    value: float
    limit: float
    earlier: str
    changed: str = ""


def check_gates(
    rules: Iterable[GateRule], rows: Sequence[SummaryRow], earlier: Sequence[tuple[str, SummaryRow]] = ()
) -> list[GateOutcome]:
    """Check figures against gates: an outcome for each condition, model and slice, in the order of the rules.

    An undefined figure fails, and so does a gate on a missing model or slice. A gate that refers to an earlier run passes if no
    earlier run has the figure; the outcome says so. Numbers are compared as they are written in decimals.

    Examples:
        >>> gates = read_gates({"rr": {"min": 0.5}})
        >>> [(outcome.name, outcome.found, outcome.passed) for outcome in check_gates(gates, result.summary)]
        [('rr of popular', '0.458333', False), ('rr of personal', '0.875', True)]

    Args:
        rules: the gates.
        rows: the summary of the run.
        earlier: rows of earlier good runs with the names of the runs, newest first. A row counts if it has the same definition,
            dialect and user weights. For a gate on an interval it also needs the same method and level. The
            first row of each figure counts.
    """
    outcomes = []
    earlier_rows = _by_figure(earlier)
    for rule in rules:
        if rule.gap:
            outcomes += _gap_outcomes(rule, rows)
            continue
        chosen = _rows_of(rule, rows)
        for row in chosen:
            before = earlier_rows.get(_figure_key(row), ())
            outcomes += [_outcome(rule, condition, row, before) for condition in rule.conditions]
        if not chosen:
            outcomes.append(_absent(rule, _rows_of_metric(rule, rows)))
    return outcomes


def _gap_outcomes(rule: GateRule, rows: Sequence[SummaryRow]) -> list[GateOutcome]:
    """The outcomes of a gate on the largest gap between slices."""
    metric_rows = _rows_of_metric(rule, rows)
    named = [row for row in metric_rows if rule.model in (None, row.model)]
    if not any(rule.gap in attributes_of(row.slice) for row in named):
        absent = _absent(rule, metric_rows)
        return [replace(absent, found=f"no slices by {rule.gap!r} in the run") if named else absent]
    outcomes = []
    for row, slices in largest_gaps(named, rule.gap):
        for condition in rule.conditions:
            outcome = _outcome(rule, condition, row, ())
            why = f"{outcome.found}: {slices}" if math.isfinite(outcome.value) else f"undefined: {row.no_interval}"
            about = outcome.condition.replace(FIGURES["mean"], "gap", 1) if rule.on == "mean" else outcome.condition
            outcomes.append(replace(outcome, condition=about, found=why))
    return outcomes


def _rows_of(rule: GateRule, rows: Sequence[SummaryRow]) -> list[SummaryRow]:
    """The rows that a gate checks."""
    slices = {row.slice for row in rows} - {"all"} if rule.slice == _EVERY_SLICE else {rule.slice}
    metric_rows = _rows_of_metric(rule, rows)
    return [row for row in metric_rows if row.slice in slices and rule.model in (None, row.model)]


def _rows_of_metric(rule: GateRule, rows: Sequence[SummaryRow]) -> list[SummaryRow]:
    """The rows of a gate's metric; if two judges estimate it, not those of each alone, unless the gate names one."""
    by_key = {row.key: row.name for row in rows}
    keys = {key for key, name in by_key.items() if rule.metric == name or names(rule.metric, key)}
    metric_rows = [row for row in rows if row.key in keys]
    return [row for row in metric_rows if not row.relevance] or metric_rows


def lacking_rows(
    rules: Iterable[GateRule], rows: Sequence[SummaryRow], earlier: Iterable[tuple[str, SummaryRow]]
) -> list[tuple[str, list[SummaryRow]]]:
    """The rows whose gates refer to a figure that no earlier run has, by that figure, such as ``mean``."""
    earlier_rows = _by_figure(earlier)
    by_figure: dict[str, dict[_Figure, SummaryRow]] = {}
    for rule in rules:
        for row in _rows_of(rule, rows) if rule.looks_back else ():
            if not any(_same(other, row, rule.on) for _, other in earlier_rows.get(_figure_key(row), ())):
                by_figure.setdefault(rule.on, {})[_figure_key(row)] = row
    return [(on, list(lacking.values())) for on, lacking in by_figure.items()]


def _by_figure(rows: Iterable[tuple[str, SummaryRow]]) -> dict[_Figure, list[tuple[str, SummaryRow]]]:
    by_figure: dict[_Figure, list[tuple[str, SummaryRow]]] = {}
    for run, row in rows:
        by_figure.setdefault(_figure_key(row), []).append((run, row))
    return by_figure


def _absent(rule: GateRule, rows: Sequence[SummaryRow]) -> GateOutcome:
    """The outcome of a gate whose model or slice is missing among the rows of its metric."""
    name = _name(rule, rule.metric, rule.model or "", "each slice" if rule.slice == _EVERY_SLICE else rule.slice)
    condition = ", ".join(f"{name} {value:g}" for name, value in rule.conditions.items())
    about = (rule.metric, rule.model or "", rule.slice, rule.on, next(iter(rule.conditions)))
    return GateOutcome(name, condition, _why_absent(rule, rows), False, *about, math.nan, math.nan, "")


def _why_absent(rule: GateRule, rows: Sequence[SummaryRow]) -> str:
    if not rows:
        return "no such metric in the run"
    models = list(dict.fromkeys(row.model for row in rows))
    if rule.model is not None and rule.model not in models:
        return f"no such model; the run has: {', '.join(map(repr, models))}"
    slices = [name for name in dict.fromkeys(row.slice for row in rows) if name != "all"]
    if not slices:
        return "no slices in the run"
    more = ", …" if len(slices) > 10 else ""
    return f"no such slice; the run has: {', '.join(slices[:10])}{more}"


class _Limit(NamedTuple):
    """A condition in words, the least or greatest value that passes, and the earlier run with its figure.

    The value is None if the condition looks back and there is no earlier run.
    """

    words: str
    value: Fraction | None
    run: str = ""
    before: float = math.nan
    changed: str = ""  # the tables that are not those of that run
    unknown: str = ""  # why it is unknown which tables these are
    reach: float = math.nan  # how far apart chance may bring two means


def _limit(rule: GateRule, condition: str, row: SummaryRow, earlier: Sequence[tuple[str, SummaryRow]]) -> _Limit:
    bound, is_least = rule.conditions[condition], condition in _LEAST
    if condition in FIXED:
        return _Limit(f"at {'least' if is_least else 'most'} {bound:.6g}", _decimal(bound))
    share = condition.endswith("_share")
    step = f"{100 * bound:.6g}%" if share else f"{bound:.6g}"
    words = f"at most {step} {'below' if is_least else 'above'} the last good run"
    for run, other in earlier:
        if _same(other, row, rule.on):
            before = _figure(other, rule.on)
            far = _decimal(bound) * abs(_decimal(before)) if share else _decimal(bound)
            reach = _CHANCE * math.hypot(other.standard_error, row.standard_error) if rule.on == "mean" else math.nan
            if rule.beyond_chance and reach > far:
                far, words = _decimal(reach), f"{words}, or as far as chance explains"
            changed = listed(changed_tables(other.fingerprints, row.fingerprints))
            unknown = _why_unknown(run, other, row)
            return _Limit(words, _decimal(before) + (-far if is_least else far), run, before, changed, unknown, reach)
    return _Limit(words, None)


def _why_unknown(run: str, earlier: SummaryRow, row: SummaryRow) -> str:
    """Why it is unknown whether two runs have the same labels, and what to do; empty if it is known."""
    sides = (("this run", row), (f"the run {run}", earlier))
    lacking = [side for side, figures in sides if not figures.fingerprints]
    if not lacking:
        return ""
    have = "has" if len(lacking) == 1 else "have"
    return (
        f"{listed(lacking)} {have} no fingerprints, so nobody knows whether labels changed; evaluate it again, or leave out "
        "same_labels for one run"
    )


def _outcome(rule: GateRule, condition: str, row: SummaryRow, earlier: Sequence[tuple[str, SummaryRow]]) -> GateOutcome:
    value = _figure(row, rule.on)
    limit = _limit(rule, condition, row, earlier)
    words = f"{value:.6g}"
    if math.isnan(value):
        words = _why_undefined(row, rule.on)
    elif limit.value is None:
        words += "; no earlier good run has this figure"
    elif limit.run:
        words += f", after {limit.before:.6g} in {limit.run}"
        if limit.before > 0 and value != limit.before:
            words += f" ({percent(value / limit.before - 1)})"
        if value != limit.before and not math.isnan(limit.reach):
            within = "within" if abs(value - limit.before) <= limit.reach else "more than"
            words += f", {within} chance, which explains up to {limit.reach:.2g}"
        elif rule.beyond_chance and math.isnan(limit.reach):
            words += "; no standard error of users' values, which beyond_chance needs"
    if limit.changed:
        words += f"; since then, {limit.changed} changed"
    if rule.same_labels and limit.unknown:
        words += f"; {limit.unknown}"
    is_comparable = not (rule.same_labels and (limit.changed or limit.unknown))
    is_comparable &= not (rule.beyond_chance and limit.run and math.isnan(limit.reach))
    return GateOutcome(
        name=_name(rule, row.name, row.model, row.slice),
        condition=f"{FIGURES[rule.on]} {limit.words}",
        found=words,
        passed=is_comparable and _passes(value, limit.value, is_least=condition in _LEAST),
        metric=row.key,
        model=row.model,
        slice=row.slice,
        on=rule.on,
        rule=condition,
        value=value,
        limit=math.nan if limit.value is None else float(limit.value),
        earlier=limit.run,
        changed=limit.changed,
    )


def _passes(value: float, limit: Fraction | None, *, is_least: bool) -> bool:
    if math.isnan(value):
        return False
    if limit is None:
        return True
    if math.isinf(value):
        return (value > 0) == is_least
    return _decimal(value) >= limit if is_least else _decimal(value) <= limit


def _figure(row: SummaryRow, on: str) -> float:
    value: float = getattr(row, ATTRIBUTES[on])
    return value


def _decimal(value: float) -> Fraction:
    # 0.315 − 0.005 is to be 0.31, which it is not in binary fractions.
    return Fraction(repr(float(value)))


def _same(earlier: SummaryRow, row: SummaryRow, on: str) -> bool:
    """Whether rows of two runs are the same figure, and the earlier one has a value."""
    aspects = attrgetter("model", "slice", "key", "definition", "dialect", "user_weight")
    if aspects(earlier) != aspects(row) or not math.isfinite(_figure(earlier, on)):
        return False
    # The interval that was asked for counts, not the one that the values allow.
    intervals = {(requested_method(each.interval_method), each.interval_level, each.cluster) for each in (earlier, row)}
    return on == "mean" or len(intervals) == 1


def _why_undefined(row: SummaryRow, on: str) -> str:
    if math.isnan(row.mean):
        why = "the mean is over all users, and some have none" if row.n_users else "no user has a value"
        return f"undefined: {why}"
    return f"undefined: {row.no_interval or 'there is no ' + FIGURES[on]}"


def _name(rule: GateRule, metric: str, model: str, slice_: str) -> str:
    model_suffix = f" of {model}" if model else ""
    figure = metric + model_suffix + (f" in {slice_}" if slice_ != "all" else "")
    return f"{rule.own_name} ({figure})" if rule.own_name else figure


def failed(outcomes: Iterable[GateOutcome]) -> list[str]:
    """A sentence for each gate that failed.

    >>> outcome = GateOutcome("rr", "mean at least 0.5", "0.4", False, "rr", "", "all", "mean", "min", 0.4, 0.5, "")
    >>> failed([outcome])
    ['rr: mean at least 0.5; found 0.4']
    """
    return [f"{each.name}: {each.condition}; found {each.found}" for each in outcomes if not each.passed]


def render_gates(outcomes: Sequence[GateOutcome]) -> str:
    """Outcomes as a table of text, failed ones first."""
    return as_text(Document((gates_table(outcomes),)))
