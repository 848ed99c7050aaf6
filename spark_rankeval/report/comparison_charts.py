"""What ``comparison.plot`` draws: which rows of a comparison go into which chart, and the words beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_rankeval.checks import check_extra, needs_extra
from spark_rankeval.errors import InputError
from spark_rankeval.metrics.base import Metric
from spark_rankeval.printed_tables import common_format
from spark_rankeval.records.chart_rows import PURPOSE, WIDTH, Bin, Counts, Estimate, Grid, Histogram, axis_of, coarsened
from spark_rankeval.records.comparison_rows import ComparisonRow
from spark_rankeval.records.judged_rows import interval_kind, joined_in_words, lift_in_words
from spark_rankeval.records.pair_rows import PairRow
from spark_rankeval.records.selection import MOST_LINES, Metrics, chosen, largest, largest_in_words
from spark_rankeval.report.estimate_charts import forest

if TYPE_CHECKING:
    from spark_rankeval.report.marks import Drawing

# Differences are counted in bins of a 16th of their standard deviation, up to 16 of them to either side; then joined.
_FINE, _REACH, _MOST_BINS = 16, 16, 40


class CountedDifferences(NamedTuple):
    """Users by their differences in a metric, a histogram for each model; some users may lie beyond the outer bins."""

    row: ComparisonRow
    histograms: list[Histogram]
    beyond: bool


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
    users_by_difference: Callable[[str, Grid], Counts] | None = None

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
        rows = chosen(self.rows, metrics)[:MOST_LINES]
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
        shown = largest(rows)
        reading = [f"{self._reading(shown)} Dashed line: all users.", *largest_in_words(shown, rows, "slices")]
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
        return self.draw_users(self.count_users(metric), width=width)

    def count_users(self, metric: str | Metric | None = None) -> CountedDifferences:
        """What `histogram` draws; this is the part that runs on Spark."""
        check_extra("report", PURPOSE)
        if self.users_by_difference is None:
            msg = "this comparison has no differences of users to draw; make it with compare(…)"
            raise InputError(msg)
        rows = self._rows_of(metric)
        # Equal differences have no spread, and that of one user is not known.
        scales = [scale for row in rows for scale in (row.std, 2 * abs(row.difference) / _REACH) if scale > 0]
        spread = max(scales, default=1.0)
        counts: Counts = {}
        grid = Grid(-_REACH * spread, spread / _FINE, 2 * _FINE * _REACH)
        beyond = False
        if any(row.wins + row.losses for row in rows):
            counts = self.users_by_difference(rows[0].metric, grid)
            beyond = any({0, grid.n - 1} & set(users) for users in counts.values())
            counts, grid = coarsened(counts, grid, _MOST_BINS)
        histograms = []
        for row in rows:
            users = sorted(counts.get(row.model, {}).items())
            bars = tuple(Bin(*grid.edges(index), count) for index, count in users)
            ends = (row.difference, *row.shown_ends)
            note = f"{row.wins:,} better, {row.losses:,} worse\n{row.ties:,} equal: not drawn"
            histograms.append(Histogram(row.model, bars, row.n_users, *ends, note))
        return CountedDifferences(rows[0], histograms, beyond)

    def draw_users(self, counted: CountedDifferences, *, width: int = WIDTH) -> Drawing:
        """The chart of `count_users`."""
        with needs_extra("report", PURPOSE):
            from spark_rankeval.report.drawing import histogram_chart
        rows, name = [counted.row], counted.row.name
        reading = [
            f"Dashed line: mean difference; shaded: its {interval_kind(rows, self.level)}{joined_in_words(rows)}.",
            "Grey: users who are worse off. Users without a difference are not drawn.",
        ]
        if counted.beyond:
            reading.append(f"The outer bars include all users beyond {_REACH} standard deviations.")
        return histogram_chart(
            counted.histograms,
            title=f"Users by their difference in {name} from {self.baseline}",
            reading=reading,
            x_title=f"a user's difference in {name} from {self.baseline}",
            series=self.models,
            signed=1 if counted.row.larger_is_better else -1,
            width=width,
        )

    def _rows_of(self, metric: str | Metric | None) -> list[ComparisonRow]:
        return chosen(self.rows, self.rows[0].metric if metric is None and self.rows else metric)

    def _reading(self, rows: Sequence[ComparisonRow]) -> str:
        return f"Line: {interval_kind(rows, self.level)} of each mean difference{joined_in_words(rows)}."


def pairs_chart(rows: Sequence[PairRow], level: float, metrics: Metrics, width: int) -> Drawing:
    """The differences between all pairs of models with their joint intervals."""
    shown = chosen(rows, metrics)[:MOST_LINES]
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
    reading = [f"Line: {interval_kind(shown, level)}; the intervals of all pairs of a metric hold together."]
    title = "Differences between all pairs of models" + ("" if several or not shown else f": {shown[0].name}")
    return _chart(estimates, reading, title=title, x_title="difference in means", series=names, width=width)


def _chart(estimates: Sequence[Estimate], reading: list[str], **options: Any) -> Drawing:
    """Differences as a forest plot, with further options of `forest_chart`."""
    if any(estimate.margin for estimate in estimates):
        reading = [*reading, "Shaded: differences within the margin, which do not matter."]
    return forest(estimates, reading=reading, signed=True, **options)


def _axis(row: ComparisonRow | PairRow) -> str:
    """The axis of a row's metric, whose label may have a relevance."""
    return axis_of(row.metric.partition(" [")[0])


def _differences(rows: Sequence[ComparisonRow], places: Sequence[str]) -> list[Estimate]:
    format_value = common_format((row.difference for row in rows), sign="+")
    return [
        Estimate(
            row.model, place, row.difference, *row.shown_ends,
            f"{format_value(row.difference)}{lift_in_words(row)} · {row.verdict}", row.margin, _axis(row),
        )
        for row, place in zip(rows, places, strict=True)
    ]  # fmt: skip
