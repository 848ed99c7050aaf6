"""What a report shows: the charts of results and comparisons, the tables that only pages have, and how a page becomes a file."""

from __future__ import annotations

import os
import re
import shutil
import textwrap
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from spark_rankeval.checks import needs_extra
from spark_rankeval.errors import InputError, MetricError, OptionError, UnknownMetricError, did_you_mean
from spark_rankeval.metrics.base import Metric
from spark_rankeval.metrics.naming import expand, parse_metric
from spark_rankeval.printed_tables import DASH, Cell, Column, Table, common_format, number, text_column
from spark_rankeval.records import judges, summary, tables_of_means
from spark_rankeval.records.columns import Row, described
from spark_rankeval.records.comparisons import ComparisonRow, PairRow, note_of_definitions
from spark_rankeval.records.cross_table import StageRow, figures_of, stage_bars, stage_estimates
from spark_rankeval.records.quality import AuditRow, DataQuality, InvalidRows
from spark_rankeval.records.summary import METRIC, MODEL, ItemGroup, SummaryRow
from spark_rankeval.records.tables_of_means import WIDTH, Counts, CurveAxis, Estimate, Histogram, MapRow, Metrics
from spark_rankeval.request.call import POPULARITY

if TYPE_CHECKING:
    from spark_rankeval.report.drawing import Drawing


def forest(estimates: Sequence[Estimate], **options: Any) -> Drawing:
    """A line for each place, with the options of `forest_chart`."""
    with needs_extra("report", tables_of_means.PURPOSE):
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
    name = summary.interval_name(rows, all_methods=True) if rows else ""
    figure = "Value of all lists together" if rows and all(map(summary.is_over_lists, rows)) else "Mean over users"
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
        x_title=tables_of_means.mean_of(first, first.name),
        series=series,
        reference={row.model: row.mean for row in total_rows} if has_totals else {},
        width=width,
    )


def judged_chart(judged: judges.JudgedMeans, width: int) -> Drawing:
    """Means under human grades: a line for each metric and model, with a mark for both judges together and one for each alone."""
    rows = judged.rows[: tables_of_means.MOST_LINES]
    has_models = any(row.model for row in rows)
    series = ["both", f"{judged.human} alone", f"{judged.judge} alone"]
    estimates = []
    for row in rows:
        place = f"{row.metric} · {row.model}" if has_models else row.metric
        axis = tables_of_means.axis_of(row.metric)
        for name, (value, ends) in zip(series, row.means, strict=True):
            estimates.append(Estimate(name, place, value, ends.low, ends.high, axis=axis))
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
    with needs_extra("report", tables_of_means.PURPOSE):
        from spark_rankeval.report.drawing import stages_chart
    name = rows[0].slice
    title = "Relevant items, stage by stage" + ("" if name == "all" else f": {summary.about_items(name)}")
    interval = summary.interval_name(figures_of(rows), all_methods=True)
    reading = [f"Line: {interval}."] if interval else []
    return stages_chart(
        stage_bars(rows),
        stage_estimates(rows),
        title=title,
        reading=[*reading, "Ceiling: the best value that any order of the stage's first places has."],
        x_title=f"mean {rows[0].reached.name}",
        width=width,
    )


# Differences are counted in bins of a 16th of their standard deviation, up to 16 of them to either side; then joined.
_FINE, _REACH, _MOST_BINS = 16, 16, 40


@dataclass(frozen=True)
class ComparisonPlots:
    """The charts of a comparison with a baseline. Calling it draws the differences.

    Examples:
        >>> comparison.plot
        plot(metrics=None), or one of plot.slices(metric), plot.histogram(metric)
        >>> comparison.plot("rr").save(f"{folder}/differences.svg")

    Attributes:
        rows: the rows of all users.
        sliced: the rows of slices.
        baseline: the model that the others are compared with.
        level: the confidence level of the intervals.
        models: all models; each has its colour by its name.
        users_by_difference: counts users by their difference in a metric, on Spark; None if the users are not known.
    """

    rows: tuple[ComparisonRow, ...]
    sliced: tuple[ComparisonRow, ...]
    baseline: str
    level: float
    models: Sequence[str]
    users_by_difference: Callable[[str, tables_of_means.Grid], Counts] | None = None

    def __repr__(self) -> str:
        return "plot(metrics=None), or one of plot.slices(metric), plot.histogram(metric)"

    def __call__(self, metrics: Metrics = None, *, width: int = WIDTH) -> Drawing:
        """Differences from the baseline with their intervals; differences within the margin are shaded.

        Args:
            metrics: which ones; None: all, up to 40 lines.
            width: of the drawing without its labels, in pixels.

        Raises:
            UnknownMetricError: one is not in the comparison.
        """
        rows = tables_of_means.chosen(self.rows, metrics)[: tables_of_means.MOST_LINES]
        models = list(dict.fromkeys(row.model for row in rows))
        whose = models[0] if len(models) == 1 else "Models"
        return _chart(
            _differences(rows, [row.name for row in rows]),
            [self._reading(rows)],
            title=f"{whose} compared with {self.baseline}",
            x_title=f"difference from {self.baseline}",
            series=self.models,
            width=width,
        )

    def slices(self, metric: str | Metric | None = None, *, width: int = WIDTH) -> Drawing:
        """Differences from the baseline in every slice as a forest plot, with a dashed line for all users.

        Args:
            metric: which one; None: the first.
            width: of the drawing without its labels, in pixels.

        Raises:
            UnknownMetricError: it is not in the comparison.
        """
        total_rows = self._rows_of(metric)
        key, name = (total_rows[0].metric, total_rows[0].name) if total_rows else ("", "")
        rows = [row for row in self.sliced if row.metric == key]
        shown = tables_of_means.largest(rows)
        reading = [
            f"{self._reading(shown)} Dashed line: all users.",
            *tables_of_means.largest_in_words(shown, rows, "slices"),
        ]
        return _chart(
            _differences(shown, [row.slice for row in shown]),
            reading,
            title=f"{name} compared with {self.baseline}, by slice",
            x_title=f"difference in {name}",
            series=self.models,
            reference={row.model: row.difference for row in total_rows},
            width=width,
        )

    def histogram(self, metric: str | Metric | None = None, *, width: int = WIDTH) -> Drawing:
        """How many users have each difference, counted on Spark by one aggregation.

        Users with equal values under both models have no bar, because it would hide the others. Their number is beside the chart.

        Args:
            metric: which one; None: the first.
            width: of the drawing without its labels, in pixels.

        Raises:
            UnknownMetricError: it is not in the comparison.
            InputError: the comparison was not made by `compare`, and knows no users.
        """
        with needs_extra("report", tables_of_means.PURPOSE):
            from spark_rankeval.report.drawing import histogram_chart
        if self.users_by_difference is None:
            msg = "this comparison has no differences of users to draw; make it with compare(…)"
            raise InputError(msg)
        rows = self._rows_of(metric)
        histograms, beyond = self._histograms(rows, self.users_by_difference)
        first, name = rows[:1], rows[0].name
        reading = [
            f"Dashed line: mean difference; shaded: its {judges.interval_kind(first, self.level)}{judges.joined_in_words(first)}.",
            "Grey: users who are worse off. Users without a difference are not drawn.",
        ]
        if beyond:
            reading.append(f"The outer bars include all users beyond {_REACH} standard deviations.")
        return histogram_chart(
            histograms,
            title=f"Users by their difference in {name} from {self.baseline}",
            reading=reading,
            x_title=f"a user's difference in {name} from {self.baseline}",
            series=self.models,
            signed=1 if rows[0].larger_is_better else -1,
            width=width,
        )

    @staticmethod
    def _histograms(
        rows: Sequence[ComparisonRow], count_users: Callable[[str, tables_of_means.Grid], Counts]
    ) -> tuple[list[Histogram], bool]:
        """The users of each model by their difference, and whether some lie beyond the outer bins."""
        # Equal differences have no spread, and that of one user is not known.
        scales = [scale for row in rows for scale in (row.std, 2 * abs(row.difference) / _REACH) if scale > 0]
        spread = max(scales, default=1.0)
        counts: Counts = {}
        grid = tables_of_means.Grid(-_REACH * spread, spread / _FINE, 2 * _FINE * _REACH)
        beyond = False
        if any(row.wins + row.losses for row in rows):
            counts = count_users(rows[0].metric, grid)
            beyond = any({0, grid.n - 1} & set(users) for users in counts.values())
            counts, grid = tables_of_means.coarsened(counts, grid, _MOST_BINS)
        histograms = []
        for row in rows:
            users = sorted(counts.get(row.model, {}).items())
            bars = tuple(tables_of_means.Bin(*grid.edges(index), count) for index, count in users)
            ends = (row.difference, *row.shown_ends)
            note = f"{row.wins:,} better, {row.losses:,} worse\n{row.ties:,} equal: not drawn"
            histograms.append(Histogram(row.model, bars, row.n_users, *ends, note))
        return histograms, beyond

    def _rows_of(self, metric: str | Metric | None) -> list[ComparisonRow]:
        return tables_of_means.chosen(self.rows, self.rows[0].metric if metric is None and self.rows else metric)

    def _reading(self, rows: Sequence[ComparisonRow]) -> str:
        return f"Line: {judges.interval_kind(rows, self.level)} of each mean difference{judges.joined_in_words(rows)}."


def pairs_chart(rows: Sequence[PairRow], level: float, metrics: Metrics, width: int) -> Drawing:
    """The differences between all pairs of models with their joint intervals."""
    shown = tables_of_means.chosen(rows, metrics)[: tables_of_means.MOST_LINES]
    several = len({row.metric for row in shown}) > 1
    format_value = common_format((row.difference for row in shown), sign="+")
    estimates = []
    for row in shown:
        figures = (row.difference, row.interval_low, row.interval_high)
        place = f"{row.model} − {row.other}"
        if several:
            estimates.append(Estimate(row.name, place, *figures, axis=_axis(row)))
        else:
            estimates.append(
                Estimate("", place, *figures, f"{format_value(row.difference)} · {row.verdict}", row.margin)
            )
    names = list(dict.fromkeys(row.name for row in shown)) if several else [""]
    reading = [f"Line: {judges.interval_kind(shown, level)}; the intervals of all pairs of a metric hold together."]
    title = "Differences between all pairs of models" + ("" if several or not shown else f": {shown[0].name}")
    return _chart(estimates, reading, title=title, x_title="difference in means", series=names, width=width)


def _chart(estimates: Sequence[Estimate], reading: list[str], **options: Any) -> Drawing:
    """Differences as a forest plot, with further options of `forest_chart`."""
    if any(estimate.margin for estimate in estimates):
        reading = [*reading, "Shaded: differences within the margin, which do not matter."]
    return forest(estimates, reading=reading, signed=True, **options)


def _axis(row: ComparisonRow | PairRow) -> str:
    """The axis of a row's metric, whose label may have a relevance."""
    return tables_of_means.axis_of(row.metric.partition(" [")[0])


def _differences(rows: Sequence[ComparisonRow], places: Sequence[str]) -> list[Estimate]:
    format_value = common_format((row.difference for row in rows), sign="+")
    return [
        Estimate(
            row.model, place, row.difference, *row.shown_ends,
            f"{format_value(row.difference)}{judges.lift_in_words(row)} · {row.verdict}", row.margin, _axis(row),
        )
        for row, place in zip(rows, places, strict=True)
    ]  # fmt: skip


# So many letters of a line below a title fit into a chart of the usual width.
_LINE = 96
_OVER_USERS, _OVER_LISTS = "mean over users", "value of all lists together"
# What ends the lists of a curve, in words.
_LIMITS = {"score": "lowest score", "budget": "budget"}


@dataclass(frozen=True)
class ResultPlots:
    """The charts of a result. Calling it draws the chart that suits a metric.

    Every method returns an Altair chart, to show, change or save. Models have colours, the same in all charts.

    Examples:
        >>> result.plot
        plot(metric=None), or one of plot.means(…), plot.curve(metric), plot.precision_recall(), plot.slices(metric), ...
        >>> result.plot("rr").save(f"{folder}/rr.svg")

    Attributes:
        rows: the rows of the summary.
        columns: the columns of the per-user table, by the rows' keys.
        models: all models; each has its colour by its name.
        users_by_value: counts users by their value in a column of the per-user table, on Spark.
        notes: whether charts show the notes of the result; a page shows them once for all its charts.
    """

    rows: tuple[SummaryRow, ...]
    columns: Mapping[str, str]
    models: Sequence[str]
    users_by_value: Callable[[str, tables_of_means.Grid], Counts]
    notes: bool = True

    def __repr__(self) -> str:
        return (
            "plot(metric=None), or one of plot.means(…), plot.curve(metric), plot.precision_recall(), plot.slices(metric), "
            "plot.item_groups(metric), plot.histogram(metric), plot.judged()"
        )

    def __call__(self, metric: str | Metric | None = None, *, width: int = WIDTH) -> Drawing:
        """Draw a metric, or all: ``plot("ndcg")`` its curve against the cutoff, ``plot("ndcg@10")`` the models side by side.

        Args:
            metric: by its label, as an object, or without its cutoff; None: all metrics.
            width: of the drawing without its labels, in pixels.

        Raises:
            UnknownMetricError: nothing answers to the name.
        """
        if metric is None or tables_of_means.rows_named(self._total_rows(), metric):
            return self.means(metric, width=width)
        if isinstance(metric, str) and "@" not in metric and len(expand(metric)) > 1:
            return self.precision_recall(width=width)
        try:
            return self.curve(metric, width=width)
        except MetricError as error:
            names = list(dict.fromkeys(row.name for row in self._total_rows()))
            available, near = ", ".join(names), did_you_mean(metric, names)
            msg = f"there is no metric {str(metric)!r} to draw, with or without a cutoff; {near}available: {available}"
            raise UnknownMetricError(msg) from error

    def judged(self, *, width: int = WIDTH) -> Drawing:
        """Means under human grades by both judges of `Judged`, beside those by each alone.

        Args:
            width: of the drawing without its labels, in pixels.

        Raises:
            InputError: the grades were not those of `Judged`.
        """
        judged = judges.judged_means(self._total_rows())
        if judged is None:
            msg = "only evaluate(…, relevance=Judged(human=…, judge=…)) has means of two judges to draw"
            raise InputError(msg)
        return judged_chart(judged, width)

    def means(self, metrics: Metrics = None, *, width: int = WIDTH) -> Drawing:
        """Means with their intervals, models side by side.

        Args:
            metrics: which ones; None: all, but of a metric at many cutoffs only the usual ones, and no shares of groups of items,
                because all items together have 1.
            width: of the drawing without its labels, in pixels.

        Raises:
            UnknownMetricError: one is not in the result.
        """
        rows = tables_of_means.chosen(self._total_rows(), metrics)
        if metrics is None:
            rows = [row for row in rows if not summary.shared_by_groups(row.definition)] or rows
        several = len({row.model for row in rows}) > 1
        alone = several and len({row.key for row in rows}) == 1
        keys = list(dict.fromkeys(row.key for row in rows))
        headline = tables_of_means.headline_keys(rows) if metrics is None else keys
        shown = [row for row in rows if row.key in headline]
        format_value = common_format(row.mean for row in shown)
        reading = [interval_reading(rows, "line")]
        if several:
            reading.append("Each interval is for one mean only. Only a comparison shows whether models differ.")
        if len(headline) < len(keys):
            reading.append(f"Shown: {len(headline)} of {len(keys)} metrics. Curves show the others.")
        estimates = []
        for row in shown:
            estimate = estimate_of(row, row.model, row.model if alone else row.name, format_value(row.mean))
            x_title = _OVER_LISTS if summary.is_over_lists(row) else _OVER_USERS
            estimates.append(replace(estimate, axis=tables_of_means.axis_of(row.definition), x_title=x_title))
        return forest(
            estimates,
            title=f"{'' if summary.is_over_lists(rows[0]) else 'Mean '}{rows[0].name} by model"
            if alone
            else tables_of_means.means_title(shown),
            reading=[*reading, *self._notes(shown)],
            x_title=_OVER_USERS,
            series=self.models,
            width=width,
        )

    def curve(self, metric: str | Metric, over: CurveAxis = "cutoff", *, width: int = WIDTH) -> Drawing:
        """A metric against its cutoff, with a band from end to end of the intervals; the table is ``result.curve(metric, over)``.

        Args:
            metric: without its cutoff.
            over: what the points differ in: ``cutoff``, ``score`` or ``budget``.
            width: of the drawing without its labels, in pixels.

        Raises:
            UnknownMetricError: no row is of that metric, or rows of several definitions are.
        """
        points = tables_of_means.curve_points(self._total_rows(), metric, over)
        labels = {re.sub(r"@\d+$", "", row.asked or row.metric) for _, row in points}
        has_one_label = over == "cutoff" and len(labels) == 1
        name = labels.pop() if has_one_label else str(parse_metric(metric))
        uncut = [f"{row.model} {number(row.mean)}".strip() for place, row in points if place is None]
        more = [f"Without a cutoff: {', '.join(uncut)}."] if uncut else []
        places = [(place, row) for place, row in points if place is not None]
        title, y_title = f"{name} by {_LIMITS.get(over, over)}", tables_of_means.mean_of(points[0][1], name)
        return self._lines(places, title, _LIMITS.get(over, "cutoff k"), y_title, more, width, whole=over == "cutoff")

    def precision_recall(self, *, width: int = WIDTH) -> Drawing:
        """Interpolated precision against recall, averaged over users, with bands.

        Ask for it with ``evaluate(…, ["precision_recall_curve"])``.

        Raises:
            UnknownMetricError: the result has no such curve, or several definitions of it.
        """
        words = ("Precision against recall", "recall", "mean interpolated precision")
        return self._lines(
            tables_of_means.curve_points(self._total_rows(), "iprec", "recall"), *words, [], width, whole=False
        )

    def _lines(
        self,
        points: Sequence[tuple[float, SummaryRow]],
        title: str,
        x_title: str,
        y_title: str,
        more: list[str],
        width: int,
        *,
        whole: bool = True,
    ) -> Drawing:
        with needs_extra("report", tables_of_means.PURPOSE):
            from spark_rankeval.report.drawing import curve_chart
        names = {(row.model, row.relevance): _series(row) for _, row in points}
        ordered = [name for model in self.models for (whose, _), name in names.items() if whose == model]
        # If each model has one curve, colours are those of other charts.
        series = list(self.models) if set(ordered) <= set(self.models) else ordered
        rows = [row for _, row in points]
        reading = [interval_reading(rows, "band", "separately for each point"), *more, *self._notes(rows)]
        return curve_chart(
            [estimate_of(row, _series(row), place, f"{row.n_users:,} users") for place, row in points],
            title=title,
            reading=reading,
            x_title=x_title,
            y_title=y_title,
            series=series,
            whole_numbers=whole,
            width=width,
        )

    def slices(self, metric: str | Metric | None = None, *, width: int = WIDTH) -> Drawing:
        """A metric in every slice of the users as a forest plot, with a dashed line for all users.

        Args:
            metric: which one; None: the first.
            width: of the drawing without its labels, in pixels.

        Raises:
            UnknownMetricError: it is not in the result.
        """
        with needs_extra("report", tables_of_means.PURPOSE):
            from spark_rankeval.report.drawing import nothing
        total_rows = tables_of_means.rows_of_one_metric(
            self._total_rows(), self.rows[0].key if metric is None else metric
        )
        key, name = total_rows[0].key, total_rows[0].name
        rows = [
            row for row in self.rows if row.slice != "all" and row.key == key and not summary.has_item_group(row.slice)
        ]
        if not rows:
            has_groups = any(summary.is_item_group(row.slice) for row in self.rows)
            more = "; item_groups draws groups of items" if has_groups else ""
            return nothing(f"{name} by slice of users", f"there are no slices of users; evaluate with by={more}", width)
        shown = tables_of_means.largest(rows)
        reading = [interval_reading(total_rows, "line"), "Dashed line: all users."]
        reading += [*tables_of_means.largest_in_words(shown, rows, "slices"), *self._notes(total_rows)]
        return parts_chart(
            shown, total_rows, str, "slice of users", reading, series=self.models, has_totals=True, width=width
        )

    def item_groups(self, metric: str | Metric | None = None, *, width: int = WIDTH) -> Drawing:
        """A metric in every group of items as a forest plot, with a dashed line for all items.

        Args:
            metric: which one; None: the first that groups have.
            width: of the drawing without its labels, in pixels.

        Raises:
            UnknownMetricError: it is not in the result.
            InputError: the result has no groups of items.
        """
        rows = [row for row in self.rows if summary.is_item_group(row.slice)]
        if not rows:
            msg = "the result has no groups of items; evaluate with facts=Facts(items=…, item_by=…)"
            raise InputError(msg)
        total_rows = tables_of_means.rows_of_one_metric(self._total_rows(), rows[0].key if metric is None else metric)
        rows = [row for row in rows if row.key == total_rows[0].key]
        with_users = {row.slice for row in rows if row.n_users}
        drawable = [row for row in rows if row.slice in with_users]
        shown = tables_of_means.largest(drawable)
        share = summary.shared_by_groups(total_rows[0].definition)
        reading = ["Only labels of the group count, and only users who have one. Dashed line: all items."]
        if share:
            reading = [f"A value of 0.3: the group has on average 30% of a list's {share}."]
        reading += _popularity_reading(shown)
        if n_empty := len({row.slice for row in rows}) - len(with_users):
            reading.append(f"Not drawn: {n_empty} {'group' if n_empty == 1 else 'groups'} without a user.")
        reading += tables_of_means.largest_in_words(shown, drawable, "groups")
        reading += [interval_reading(drawable or total_rows, "line"), *self._notes(total_rows)]
        return parts_chart(
            shown,
            total_rows,
            summary.group_of,
            "group of items",
            reading,
            series=self.models,
            has_totals=not share,
            width=width,
        )

    def histogram(self, metric: str | Metric, *, bins: int = 20, width: int = WIDTH) -> Drawing:
        """How many users have each value, counted on Spark by one aggregation of `per_user`.

        For a fresh result this evaluates again. For a written result or a stored table it reads one column.

        Args:
            metric: which one.
            bins: how many, from the least to the greatest value, or from 0 to 1 if all values lie there.
            width: of the drawing without its labels, in pixels.

        Raises:
            UnknownMetricError: it is not in the result.
        """
        with needs_extra("report", tables_of_means.PURPOSE):
            from spark_rankeval.report.drawing import histogram_chart
        rows = tables_of_means.rows_of_one_metric(self._total_rows(), metric)
        if rows[0].key not in self.columns:
            is_judged = judges.is_estimated(rows[0])
            why = "is estimated from two judges" if is_judged else "has one value for all lists together"
            msg = f"{rows[0].name} {why}, so there are no values of users to draw"
            raise UnknownMetricError(msg)
        histograms = self._histograms(rows, bins)
        name, weight, reading = rows[0].name, rows[0].user_weight, interval_reading(rows, "shaded")
        basis = "a ratio of two sums over users" if weight == summary.SELF_NORMALISED else f"weighted by {weight}"
        weighted = [f"The bars count each user once; the mean is {basis}."] if weight else []
        return histogram_chart(
            histograms,
            title=f"Users by their {name}",
            reading=[f"Dashed line: {reading[0].lower()}{reading[1:]}", *weighted, *self._notes(rows)],
            x_title=f"a user's {name}",
            series=self.models,
            width=width,
        )

    def _histograms(self, rows: Sequence[SummaryRow], bins: int) -> list[Histogram]:
        """The users of each model by their value, counted on Spark."""
        drawable = [row for row in rows if row.n_users]
        if not drawable:
            return []
        low = min(0.0, *(row.minimum for row in drawable))
        high = max(row.maximum for row in drawable)
        high = 1.0 if low == 0.0 and high <= 1.0 else high
        grid = tables_of_means.Grid(low, (high - low) / bins or 1.0, bins)
        counts = self.users_by_value(self.columns[rows[0].key], grid)
        histograms = []
        for row in drawable:
            users = counts.get(row.model, {})
            bars = tuple(tables_of_means.Bin(*grid.edges(index), count) for index, count in sorted(users.items()))
            ends = (row.mean, row.interval_low, row.interval_high)
            histograms.append(Histogram(row.model, bars, sum(users.values()), *ends, users_in_note(row)))
        return histograms

    def _notes(self, rows: Sequence[SummaryRow]) -> list[str]:
        """The note of a result, in lines that fit below the title of a chart."""
        note = note_of_definitions(rows) if self.notes else ""
        return textwrap.wrap(f"{note}.", _LINE) if note else []

    def _total_rows(self) -> list[SummaryRow]:
        return [row for row in self.rows if row.slice == "all"]


def _popularity_reading(rows: Sequence[SummaryRow]) -> list[str]:
    """A sentence on the order of groups by popularity, if there are any."""
    groups = [summary.group_of(row.slice) for row in rows]
    numbered = [group for group in groups if re.fullmatch(rf"{POPULARITY}=\d+", group)]
    if not numbered:
        return []
    return [f"{min(numbered)}: the least popular items. {max(numbered)}: the most popular ones."]


def _series(row: SummaryRow) -> str:
    return f"{row.model} [{row.relevance}]".strip() if row.relevance else row.model


@dataclass(frozen=True)
class Gate(Row):
    """A condition that a run had to meet.

    Attributes:
        name: the figure that the condition is about, such as ``ndcg@10``.
        condition: the condition in words, such as ``at least 0.31 (lower end of the interval)``.
        found: the value that was found, in words.
        passed: whether the condition was met.
    """

    name: str = described("the figure in words, after the gate's own name if it has one")
    condition: str = described("the condition in words")
    found: str = described("the figure that was found, in words")
    passed: bool = described("whether the condition is met")


class ReportedComparison(Protocol):
    """The parts of a `ModelComparison` that a report reads."""

    @property
    def test(self) -> str: ...  # noqa: D102 # the comparison says it
    @property
    def correction(self) -> str: ...  # noqa: D102
    @property
    def headline(self) -> str: ...  # noqa: D102
    @property
    def replicates(self) -> int: ...  # noqa: D102
    @property
    def plot(self) -> ComparisonPlots: ...  # noqa: D102
    @property
    def notes(self) -> tuple[str, ...]: ...  # noqa: D102


class Audited(Protocol):
    """The part of an `Audit` that a report reads."""

    @property
    def rows(self) -> tuple[AuditRow, ...]: ...  # noqa: D102 # the audit says it
    @property
    def invalid(self) -> tuple[InvalidRows, ...]: ...  # noqa: D102


@dataclass(frozen=True)
class Contents:
    """Everything that a report shows.

    Attributes:
        title: of the page.
        summary: the rows of the evaluation.
        qualities: the counts of users and rows, by model.
        plan: how the data was grouped, in sentences.
        plots: the charts of the result.
        notes: what the figures could be mistaken for, in sentences.
        item_groups: the groups of items that have figures.
        comparison: the comparison of the models with a baseline, or None.
        gates: the conditions that the run had to meet.
        audit: the audit of the tables, or None.
        dialects: the rows of a map of dialects.
        distributions: metrics to draw as histograms, whose users are counted on Spark.
        manifest: the rest of the record of the run: values by name, or mappings of such values.
    """

    title: str
    summary: Sequence[SummaryRow]
    qualities: Mapping[str, DataQuality]
    plan: Sequence[str]
    plots: ResultPlots
    notes: Sequence[str] = ()
    item_groups: Sequence[ItemGroup] = ()
    comparison: ReportedComparison | None = None
    gates: Sequence[Gate] = ()
    audit: Audited | None = None
    dialects: Sequence[MapRow] = ()
    distributions: Sequence[str] = ()
    manifest: Mapping[str, Any] = field(default_factory=dict)


# A page is for reading: longer tables are those of `to_pandas()`.
MOST_ROWS = 400


class PageTable(NamedTuple):
    """A table as a page shows it: without pictures, its rows in groups of neighbours with the same first cell."""

    table: Table
    groups: list[tuple[Cell, list[list[Cell]]]]
    n_left_out: int

    @property
    def dash_occurs(self) -> bool:
        """Whether a cell that is shown is a dash; the first of a row is a name."""
        return any(cell.text == DASH for _, rows in self.groups for row in rows for cell in row)


def on_page(table: Table) -> PageTable:
    """A table as a page shows it."""
    plain = table.without_bars()
    shown = plain.rows[:MOST_ROWS]
    groups = [(first, [row[1:] for row in group]) for first, group in groupby(shown, key=lambda row: row[0])]
    return PageTable(plain, groups, len(plain.rows) - len(shown))


def gates_table(gates: Sequence[Gate]) -> Table:
    """A row for each gate, failed ones first."""
    columns: list[Column[Gate]] = [
        text_column("gate", lambda gate: gate.name),
        text_column("condition", lambda gate: gate.condition),
        text_column("result", lambda gate: Cell("passed", tone="good") if gate.passed else Cell("FAILED", tone="bad")),
        text_column("found", lambda gate: gate.found),
    ]
    failed_first = sorted(gates, key=lambda gate: gate.passed)
    return Table(failed_first, columns, caption="Conditions that this run had to meet")


def quantiles_table(rows: Sequence[SummaryRow]) -> Table:
    """A row for each metric and model: minimum, quantiles, maximum, and the number of users with 0."""
    shares = sorted({share for row in rows for share in row.quantiles})
    columns: list[Column[SummaryRow]] = [
        METRIC,
        *([MODEL] if any(row.model for row in rows) else []),
        _quantile_column("minimum", rows, attrgetter("minimum")),
        *(_quantile(share, rows) for share in shares),
        _quantile_column("maximum", rows, attrgetter("maximum")),
        Column("users with 0", lambda row: f"{row.n_zero:,}"),
    ]
    return Table(rows, columns, caption="Values of the users")


def _quantile(share: float, rows: Sequence[SummaryRow]) -> Column[SummaryRow]:
    heading = "median" if share == 0.5 else f"q{share:g}"
    return _quantile_column(heading, rows, lambda row: row.quantiles.get(share, float("nan")))


def _quantile_column(
    heading: str, rows: Sequence[SummaryRow], value: Callable[[SummaryRow], float]
) -> Column[SummaryRow]:
    format_value = common_format(map(value, rows))
    return Column(heading, lambda row: format_value(value(row)))


def manifest_tables(manifest: Mapping[str, Any]) -> list[Table]:
    """The values that are set: plain ones in one table, and each mapping in a table of its own, nested names joined by dots."""
    plain = [(str(name), _text(value)) for name, value in manifest.items() if not isinstance(value, Mapping)]
    tables = [_values_by_name("The run", plain)] if plain else []
    mappings = ((name, value) for name, value in manifest.items() if isinstance(value, Mapping))
    tables += [_values_by_name(str(name), _flattened(value)) for name, value in mappings]
    return [table for table in tables if table.rows]


def _values_by_name(caption: str, values: Sequence[tuple[str, str]]) -> Table:
    columns: list[Column[tuple[str, str]]] = [text_column("name", itemgetter(0)), text_column("value", itemgetter(1))]
    return Table([pair for pair in values if pair[1] != DASH], columns, caption=caption)


def _flattened(values: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    flat: list[tuple[str, str]] = []
    for name, value in values.items():
        here = f"{before}{name}"
        flat += _flattened(value, f"{here}.") if isinstance(value, Mapping) and value else [(here, _text(value))]
    return flat


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: DASH}[value]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_text, value)) or DASH
    return DASH if value == {} else str(value)


def write_report(path: str | os.PathLike[str], **contents: Any) -> Path:
    """Write the page of `Contents`, given by its fields; see `Result.report`."""
    target = checked_path(path)
    comparison = contents.get("comparison")
    if comparison is not None and not all(hasattr(comparison, name) for name in ("rows", "sliced", "baseline")):
        msg = f"comparison must be what compare(…) returns; got a {type(comparison).__name__}"
        raise OptionError(msg)
    audit = contents.get("audit")
    if audit is not None and not hasattr(audit, "rows"):
        msg = f"audit must be what audit(…) returns; got a {type(audit).__name__}"
        raise OptionError(msg)
    for gate in contents.get("gates", ()):
        if not isinstance(gate, Gate):
            msg = f"each gate must be spark_rankeval.report.Gate(name, condition, found, passed); got {gate!r}"
            raise OptionError(msg)
    with needs_extra("report", "reports"):
        from spark_rankeval.report.page import page
    return write_page(target, page(Contents(**contents)))


def checked_path(path: str | os.PathLike[str], content: str = "report") -> Path:
    """The place of a file, before its content is made; if this machine has no folder for it, an `OptionError`."""
    target = Path(path)
    if not target.parent.is_dir() or target.is_dir() or "://" in os.fspath(path):
        what = "a folder" if target.is_dir() else "not in an existing local folder"
        msg = (
            f"a {content} must be a file on this machine; {os.fspath(path)!r} is {what}. Write it to a local file, and copy it "
            "where it belongs"
        )
        raise OptionError(msg)
    return target


def write_page(target: Path, text: str, content: str = "report") -> Path:
    """Write a file at a path of `checked_path`, at once and whole; if it cannot be written, an `OptionError`."""
    # Readers of the path see the old file or the new one, never a part.
    staging = target.with_name(f".report-{uuid.uuid4().hex}.tmp")
    try:
        # Its rights are those of any file that is opened: the umask's, or those of the report that it replaces.
        with open(staging, "x", encoding="utf-8") as file:
            file.write(text)
        if target.exists():
            shutil.copymode(target, staging)
        os.replace(staging, target)
    except OSError as error:
        msg = f"cannot write the {content} to {str(target)!r}: {error.strerror or error}"
        raise OptionError(msg) from error
    finally:
        with suppress(OSError):
            staging.unlink()
    return target


def text_of(path: str | os.PathLike[str], content: str) -> str:
    """The text of a file on this machine; if it cannot be read, an `OptionError`."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"cannot read a {content} at {os.fspath(path)!r}: {getattr(error, 'strerror', None) or error}"
        raise OptionError(msg) from error
