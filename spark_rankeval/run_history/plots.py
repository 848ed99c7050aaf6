"""What ``history.plot`` draws: which rows of which runs, and which limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING

from spark_rankeval.charts.figures import PURPOSE, WIDTH, Estimate
from spark_rankeval.charts.of_results import interval_reading
from spark_rankeval.errors import UnknownMetricError
from spark_rankeval.extras import needs_extra
from spark_rankeval.run_history.gates import FIGURES, names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_rankeval.charts.marks import Drawing
    from spark_rankeval.run_history.gates import GateRule
    from spark_rankeval.tables.history import HistoryRow


@dataclass(frozen=True)
class HistoryPlots:
    """The chart of a history; calling it draws a metric.

    Attributes:
        rows: of all runs, the earliest first.
        failed: why runs failed, by their ids; their points have a ring.
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
        """Draw a metric over the runs: a line a model, with a band from end to end of its intervals.

        Args:
            metric: its label, or another spelling of it; None: the first.
            slice: which users.
            gates: of `read_gates`; those of this metric and slice are drawn as lines where they have a fixed value.
            width: of the drawing without its labels, in pixels.

        Raises:
            UnknownMetricError: runs have no such metric.
        """
        with needs_extra("report", PURPOSE):
            from spark_rankeval.charts.curves import curve_chart
        keys = list(dict.fromkeys(row.key for _, _, row in self.rows))
        answering = keys[:1] if metric is None else [key for key in keys if names(str(metric), key)]
        if self.rows and len(answering) != 1:
            what = f"is ambiguous: {', '.join(answering)} answer to it" if answering else "is in no run"
            msg = f"the metric {str(metric)!r} {what}; there are: {', '.join(keys)}"
            raise UnknownMetricError(msg)
        key = answering[0] if answering else str(metric or "metrics")
        of_figure = [each for each in self.rows if (each.row.key, each.row.slice) == (key, slice)]
        drawn = of_one_definition(of_figure)
        left_out = len({run for run, _, _ in of_figure} - {run for run, _, _ in drawn})
        reading = [interval_reading([row for _, _, row in drawn[-1:]], "band", "of each run by itself")]
        if left_out:
            reading.append(f"{left_out} runs of another definition are left out.")
        limits = limits_of(gates, key, slice)
        if limits:
            reading.append("Dashed: gates.")
        notes = {run: f"{run}, {self.failed[run]}" if run in self.failed else run for run, _, _ in drawn}
        ringed = {notes[run] for run in notes if run in self.failed}
        if ringed:
            reading.append("Ringed: runs that failed.")
        return curve_chart(
            [
                Estimate(row.model, 1000 * time.timestamp(), row.mean, row.interval_low, row.interval_high, notes[run])
                for run, time, row in drawn
            ],
            title=f"{key} over runs" if slice == "all" else f"{key} over runs, users with {slice}",
            reading=reading,
            x_title="run (UTC)",
            y_title=f"mean {key}",
            series=list(dict.fromkeys(row.model for _, _, row in self.rows)),
            times=True,
            limits=limits,
            ringed=ringed,
            width=width,
        )


def of_one_definition(rows: Sequence[HistoryRow]) -> list[HistoryRow]:
    """The rows that are the same figure as the newest one: another definition or dialect is no point of the same line."""
    if not rows:
        return []
    aspects = attrgetter("definition", "dialect", "user_weight")
    return [each for each in rows if aspects(each.row) == aspects(rows[-1].row)]


def limits_of(gates: Sequence[GateRule], key: str, slice_: str) -> list[tuple[str, float]]:
    """The fixed values of the gates of a metric, with what to write on them."""
    limits = []
    for gate in gates:
        if names(gate.metric, key) and gate.slice == slice_:
            whose = f" of {gate.model}" if gate.model else ""
            on = f" ({FIGURES[gate.on]})" if gate.on != "mean" else ""
            given = (("min", gate.min), ("max", gate.max))
            limits += [(f"{name} {value:g}{on}{whose}", value) for name, value in given if value is not None]
    return limits
