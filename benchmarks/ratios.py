"""A figure, and how far it swings: the ratio of two works' best times, and the same ratio round by round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Report = Mapping[str, Any]


class Figure(NamedTuple):
    """What is measured.

    Attributes:
        value: what a target is about.
        lowest: the least that a round gave; None if it is not known, or there was one round.
        highest: the most that a round gave.
    """

    value: float
    lowest: float | None = None
    highest: float | None = None

    @property
    def shown(self) -> str:
        """The value for a table."""
        return f"{self.value:,.0f}" if self.value >= 1_000 else f"{self.value:.3g}"

    @property
    def spread(self) -> str:
        """The lowest and the highest for a table; nothing if they are not known."""
        return "" if self.lowest is None or self.highest is None else f"{self.lowest:.2f}–{self.highest:.2f}"

    def holds(self, value: float) -> bool:
        """Whether a value lies between the lowest and the highest."""
        return self.lowest is not None and self.highest is not None and self.lowest <= value <= self.highest


def with_spread(value: float, round_ratios: Iterable[float]) -> Figure:
    """A figure with the least and the most of some rounds, of which one alone says nothing."""
    ratios = list(round_ratios)
    return Figure(value, min(ratios), max(ratios)) if len(ratios) > 1 else Figure(value)


def ratio(report: Report, work: str, other: str, *, times: str = "best_seconds", share: float = 1.0) -> Figure:
    """A work's time over another's.

    Args:
        report: of a measurement; older ones have no seconds of single rounds, so that the spread is not known.
        work: what is divided.
        other: what it is divided by.
        times: which of the times of each work: ``best_seconds`` or ``median_seconds``.
        share: the figure is to be multiplied by it.
    """
    value = report[times][work] / report[times][other] * share
    seconds = report.get("seconds", {})
    rounds = zip(seconds.get(work, ()), seconds.get(other, ()), strict=False)
    return with_spread(value, (time / base * share for time, base in rounds))
