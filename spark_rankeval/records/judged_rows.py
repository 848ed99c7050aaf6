"""Rows that judge a difference of two means: their intervals, lifts, p-values and verdicts, as columns and in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, TypeVar

from spark_rankeval.errors import listed
from spark_rankeval.printed_tables import DASH, Cell, Column, Note, Tone, common_format, probability, text_column
from spark_rankeval.records.summary import MOST_LISTED, MetricRow, methods_in_words
from spark_rankeval.statistics.intervals import PREDICTION_POWERED
from spark_rankeval.statistics.verdicts import interval_in_words, percent


class VerdictRow(MetricRow):
    """A row with a difference of two means on a metric, and the verdict on it."""

    mean: float
    difference: float
    interval_low: float
    interval_high: float
    interval_method: str
    no_interval: str
    p: float
    margin: float
    verdict: str
    sentence: str

    @property
    def figure(self) -> str:
        """The metric, and all else that the row is about, such as its models."""
        return self.name

    @property
    def names(self) -> set[str]:
        """The names that tell the row from others of its metric."""
        return set()

    @property
    def shown_ends(self) -> tuple[float, float]:
        """The ends of the interval that stands beside the p-value."""
        return self.interval_low, self.interval_high


Row = TypeVar("Row", bound=VerdictRow)


class JointRow(VerdictRow):
    """A row that also has the interval that is corrected for the other comparisons as p is."""

    joint_low: float
    joint_high: float
    n_joint: int

    @property
    def shown_ends(self) -> tuple[float, float]:
        """The ends of the joint interval."""
        return self.joint_low, self.joint_high


class LiftedRow(JointRow):
    """A row whose difference is also a share of the baseline's mean."""

    relative_lift: float
    lift_low: float
    lift_high: float
    no_lift: str


#: The colour of each verdict that decides.
TONES: dict[str, Tone] = {"better": "good", "worse": "bad"}


#: The verdict, in the colour of its meaning.
VERDICT: Column[Any] = text_column("verdict", lambda row: Cell(row.verdict, tone=TONES.get(row.verdict, "")))
#: The verdict on a gap between users, which is neither good news nor bad.
GAP_VERDICT: Column[Any] = text_column("verdict", lambda row: row.verdict)


def means_columns(rows: Sequence[Row], title: str, other_mean: Callable[[Row], float]) -> list[Column[Any]]:
    """The columns of the model's mean and the other model's mean, in the same format."""
    format_value = common_format(mean for row in rows for mean in (row.mean, other_mean(row)))
    return [
        Column("mean", lambda row: format_value(row.mean)),
        Column(title, lambda row: format_value(other_mean(row))),
    ]


def difference_columns(rows: Sequence[VerdictRow], level: float) -> list[Column[Any]]:
    """The columns of the difference, its interval and p. Each column has one format."""
    format_value = common_format((row.difference for row in rows), sign="+")

    def ends(row: VerdictRow) -> str:
        low, high = row.shown_ends
        return DASH if math.isnan(low) else f"{format_value(low)} to {format_value(high)}"

    difference: Column[Any] = Column("difference", lambda row: format_value(row.difference))
    return [difference, Column(interval_in_words(level), ends), Column("p", lambda row: probability(row.p))]


def interval_kind(rows: Sequence[VerdictRow], level: float) -> str:
    """The level and the methods of the intervals of differences."""
    methods = methods_in_words(row.interval_method for row in rows if not row.no_interval)
    return interval_in_words(level) + (f" ({methods})" if methods else "")


def lift_columns() -> list[Column[Any]]:
    """The columns of the lift and its interval."""

    def ends(row: LiftedRow) -> str:
        return DASH if math.isnan(row.lift_low) else f"{percent(row.lift_low)} to {percent(row.lift_high)}"

    lift: Column[Any] = Column("lift", lambda row: DASH if math.isnan(row.lift_low) else percent(row.relative_lift))
    return [lift, Column("interval of lift", ends)]


def lift_in_words(row: LiftedRow) -> str:
    """The lift after a difference, in parentheses; empty if it has no interval."""
    return "" if math.isnan(row.lift_low) else f" ({percent(row.relative_lift)})"


def joined_in_words(rows: Sequence[JointRow]) -> str:
    """For how many comparisons intervals are corrected, after the word; empty if each stands alone."""
    most = max((row.n_joint for row in rows), default=1)
    fewer = {row.name: f"{row.n_joint:,}" if row.n_joint > 1 else "alone" for row in rows if row.n_joint < most}
    apart = "; ".join(f"{name}: {size}" for name, size in fewer.items())
    return f", corrected for {most:,} comparisons{f' ({apart})' if apart else ''}" if most > 1 else ""


def _sizes(rows: Sequence[JointRow]) -> str:
    """How many comparisons intervals hold together with; empty if each stands alone."""
    return " or ".join(f"{size:,}" for size in sorted({row.n_joint for row in rows if row.n_joint > 1}))


def joint_notes(rows: Sequence[JointRow], level: float, headline: str = "") -> list[Note]:
    """A note that tells what intervals are corrected for, and what that promises. Empty if each stands alone.

    Args:
        rows: the rows of a comparison.
        level: of an interval that stands alone.
        headline: the label of the metric that is tested first; empty if there is none.
    """
    first = [row for row in rows if row.metric == headline]
    others = [row for row in rows if row.metric != headline]
    if not others:
        first, others = [], first
    own = ""
    if first:
        models = _sizes(first)
        own = f", those of {first[0].name} for {models} models" if models else f", that of {first[0].name} stands alone"
    sizes = _sizes(others)
    each = f"each holds with {100 * level:.6g}% or more, all together may not"
    text = f"corrected for {sizes}{' other' if first else ''} comparisons as p is{own}; {each}"
    return [Note(text, "interval", "to_pandas() also has each one alone")] if sizes else []


def lift_notes(rows: Sequence[LiftedRow]) -> list[Note]:
    """Notes that define the lift, and name the rows without one."""
    reasons: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.no_lift and not row.no_interval:
            reasons.setdefault(row.no_lift, {})[row.figure] = None
    missing = [f"no lift for {listed(list(names), MOST_LISTED)}: {reason}" for reason, names in reasons.items()]
    return [Note("difference / |baseline's mean|, with Fieller's interval", "lift"), *map(Note, missing)]


def corrected_in_words(rows: Sequence[VerdictRow], correction: str) -> str:
    """How p-values are corrected, after the name of their test. Empty if they are not."""
    n_tests = sum(not math.isnan(row.p) for row in rows)
    return "" if correction == "none" or n_tests < 2 else f", corrected for {n_tests:,} comparisons ({correction})"


def rare_value_notes(figures: Sequence[str]) -> list[Note]:
    """The note on figures whose intervals come from Clopper-Pearson intervals."""
    why = "p and interval from the Clopper-Pearson intervals of both means, because a value is rare or all are equal"
    return [Note(f"{why}: {listed(figures, MOST_LISTED)}")] if figures else []


def margins_in_words(rows: Sequence[VerdictRow]) -> list[str]:
    """A sentence on the differences that are too small to matter. Empty if all matter."""
    metrics_by_margin: dict[float, dict[str, None]] = {}
    for row in rows:
        metrics_by_margin.setdefault(row.margin, {})[row.name] = None
    margins = [
        f"{margin:g}" if len(metrics_by_margin) == 1 else f"{margin:g} for {listed(list(metrics))}"
        for margin, metrics in sorted(metrics_by_margin.items())
        if margin
    ]
    return [f"differences up to {' or '.join(margins)} do not matter"] if margins else []


def missing_intervals(rows: Sequence[VerdictRow], name: Callable[[Any], str] = attrgetter("figure")) -> list[str]:
    """A sentence on why rows have no interval, each by its name. Empty if all have one."""
    reasons = dict.fromkeys(f"{name(row)}: {row.no_interval}" for row in rows if row.no_interval)
    return [f"no interval: {listed(list(reasons), MOST_LISTED)}"] if reasons else []


def is_smallest_p(p: float, replicates: int) -> bool:
    """Whether no replicate gives a difference as large as the observed one. False if p is NaN, because nothing was drawn."""
    return p * (replicates + 1) < 1.5


def smallest_p_in_words(replicates: int, suffix: str = "") -> str:
    """The words for the smallest p-value that a randomisation test can give."""
    return f"p as small as {replicates:,} replicates can show, 1/{replicates + 1:,}{suffix}"


def name_of_test(test: str, replicates: int) -> str:
    """The name of the test that a p comes from."""
    return {
        "sign_flip": f"the sign-flip randomisation test with {replicates:,} replicates",
        "t": "the paired t test",
        PREDICTION_POWERED: "the t test of differences that two judges estimate",
        "tukey": "Tukey's test for a two-way layout",
        "games_howell": "the Games-Howell test with users as blocks",
        "randomised": f"the randomised Tukey test with {replicates:,} replicates",
    }[test]
