"""The rows of comparisons of groups of different users, with their table and notes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from spark_rankeval.errors import listed
from spark_rankeval.printed_tables import DASH, Column, Note, Table, text_column
from spark_rankeval.records.judged_rows import (
    VERDICT,
    LiftedRow,
    corrected_in_words,
    difference_columns,
    joint_notes,
    lift_columns,
    lift_notes,
    margins_in_words,
    means_columns,
    missing_intervals,
    rare_value_notes,
)
from spark_rankeval.records.summary import METRIC, MOST_LISTED
from spark_rankeval.statistics.verdicts import interval_in_words


@dataclass(frozen=True)
class GroupRow(LiftedRow):
    """One metric of one group of users against the baseline, which is another group.

    Examples:
        >>> row = trial["rr"]
        >>> row.group, row.n_users, row.n_baseline_users
        ('FR', 4, 4)
        >>> round(row.difference, 4), round(row.interval_low, 4), row.verdict
        (-0.25, -0.7093, 'undecided')

    Attributes:
        metric: the metric's label.
        group: the group.
        baseline: the group that it is compared with.
        n_users: how many users of the group have a value.
        n_baseline_users: how many of the baseline have one.
        n_undefined: how many users of both have none.
        mean: of the group; weighted if users have weights, and adjusted for the covariate if there is one.
        baseline_mean: of the baseline, likewise.
        difference: mean − baseline_mean.
        relative_lift: difference / |baseline_mean|; NaN if that is 0.
        standard_error: of the difference; for one look a group of few users counts as at least as spread as the other.
        df: Satterthwaite's degrees of freedom of the standard error; NaN without a spread.
        interval_low: the lower end of the difference's interval, within the metric's bounds; NaN if there is none.
        interval_high: its upper end.
        joint_low: as in `ComparisonRow`.
        joint_high: as in `ComparisonRow`.
        n_joint: as in `ComparisonRow`.
        lift_low: as in `ComparisonRow`; a confidence sequence has none.
        lift_high: as in `ComparisonRow`.
        no_lift: as in `ComparisonRow`.
        interval_method: ``welch``; ``mover`` (from the Clopper-Pearson intervals of both means) if all values of a group are equal,
            or all are 0 or 1 and fewer than 30 users have the rarer one; ``confidence_sequence`` if `sequential`.
        no_interval: why there is no interval; empty if there is one.
        p: of what the verdict states, corrected for all metrics and groups; valid at all looks together if `sequential`.
        margin: the largest difference that does not matter.
        larger_is_better: whether a larger value of the metric is better.
        verdict: ``better``, ``worse``, ``no relevant difference`` or ``undecided``.
        sentence: the same in a sentence, with the figures.
        theta: by how much the metric rises with the covariate; NaN without an adjustment.
        variance_saved: the share of the difference's variance that the adjustment saved: 0.3 is 30%. NaN without one.
        n_without_covariate: how many users of both groups have a value but no covariate, and take its mean.
        not_adjusted: why there is no adjustment although there is a covariate.
        asked: the caller's name for the metric, such as ``map@10`` for ``ap@10``; empty if it equals `metric`.
        cluster: the columns of the clusters that users come in, which errors, interval and p are of; empty: users are independent.
        n_clusters: how many clusters have a user of the group with a value; 0 if users are independent.
        n_baseline_clusters: how many have one of the baseline.
        effective_n_clusters: how many clusters of equal weight would do as well, of the group with fewer; NaN if users are independent.
    """

    metric: str
    group: str
    baseline: str
    n_users: int
    n_baseline_users: int
    n_undefined: int
    mean: float
    baseline_mean: float
    difference: float
    relative_lift: float
    standard_error: float
    df: float
    interval_low: float
    interval_high: float
    joint_low: float
    joint_high: float
    n_joint: int
    lift_low: float
    lift_high: float
    no_lift: str
    interval_method: str
    no_interval: str
    p: float
    margin: float
    larger_is_better: bool
    verdict: str
    sentence: str
    theta: float = math.nan
    variance_saved: float = math.nan
    n_without_covariate: int = 0
    not_adjusted: str = ""
    asked: str = ""
    cluster: str = ""
    n_clusters: int = 0
    n_baseline_clusters: int = 0
    effective_n_clusters: float = math.nan

    @property
    def figure(self) -> str:
        """The metric and the group, in words."""
        return f"{self.name} of {self.group}"

    @property
    def names(self) -> set[str]:
        """The group."""
        return {self.group}


def groups_table(
    rows: Sequence[GroupRow],
    baseline: str,
    level: float,
    *,
    correction: str,
    covariate: str | None,
    tightest_at: int | None,
    weights: Sequence[str],
) -> Table:
    """One row for each metric and group."""
    columns: list[Column[Any]] = [
        METRIC,
        text_column("group", lambda row: row.group),
        Column("users", lambda row: f"{row.n_users:,}"),
        Column("baseline's", lambda row: f"{row.n_baseline_users:,}"),
        *means_columns(rows, "baseline", attrgetter("baseline_mean")),
        *lift_columns(),
        *difference_columns(rows, level),
    ]
    if covariate is not None:
        columns.append(Column("saved", _saved))
    notes = [
        *_test_notes(rows, level, correction, tightest_at),
        *joint_notes(rows, level),
        *lift_notes(rows),
        *_adjustment_notes(rows, covariate),
        *(Note(text, "verdict") for text in margins_in_words(rows)),
        *([Note(f"users are weighted by {', '.join(weights)}", "mean")] if weights else []),
    ]
    caption = f"Differences from {baseline}, with {interval_in_words(level)}s"
    return Table(
        rows, [*columns, VERDICT], f"baseline {baseline!r}", caption, notes, dash_means="not known", is_grouped=True
    )


def _saved(row: GroupRow) -> str:
    return DASH if math.isnan(row.variance_saved) else f"{100 * row.variance_saved:.1f}%"


def _test_notes(rows: Sequence[GroupRow], level: float, correction: str, tightest_at: int | None) -> list[Note]:
    corrected = corrected_in_words(rows, correction)
    if tightest_at is None:
        notes = [Note(f"from Welch's test of different users{corrected}", "p")]
    else:
        notes = [
            Note(f"valid at all looks together{corrected}", "p"),
            Note(f"a confidence sequence, valid at all looks together; tightest at {tightest_at:,} users", "interval"),
        ]
    rare = [row.figure for row in rows if row.interval_method == "mover" and not row.no_interval]
    # The reasons name the group.
    return [*notes, *rare_value_notes(rare), *map(Note, missing_intervals(rows, attrgetter("name")))]


def _adjustment_notes(rows: Sequence[GroupRow], covariate: str | None) -> list[Note]:
    if covariate is None:
        return []
    saved = f"the share of the difference's variance that {covariate} explains; means are adjusted for it (CUPED)"
    notes = [Note(saved, "saved")]
    n_missing = max((row.n_without_covariate for row in rows), default=0)
    if n_missing:
        who = "1 user without it takes" if n_missing == 1 else f"{n_missing:,} users without it take"
        notes.append(Note(f"{'at most ' if len(rows) > 1 else ''}{who} its mean", covariate))
    plain = dict.fromkeys(f"{row.figure}: {row.not_adjusted}" for row in rows if row.not_adjusted)
    if plain:
        notes.append(Note(f"not adjusted: {listed(list(plain), MOST_LISTED)}"))
    return notes
