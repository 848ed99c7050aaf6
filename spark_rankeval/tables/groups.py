"""Comparisons of groups of different users as tables."""

from __future__ import annotations

import math
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from spark_rankeval.tables.comparison import (
    VERDICT,
    margins_in_words,
    means_columns,
    missing_intervals,
    of_the_difference,
)
from spark_rankeval.tables.numbers import DASH
from spark_rankeval.tables.summary import METRIC, MOST_LISTED
from spark_rankeval.tables.table import Column, Note, Table, words
from spark_rankeval.wording import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_rankeval.records.groups import GroupRow


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
        words("group", lambda row: row.group),
        Column("users", lambda row: f"{row.n_users:,}"),
        Column("baseline's", lambda row: f"{row.n_baseline_users:,}"),
        *means_columns(rows, "baseline", attrgetter("baseline_mean")),
        *of_the_difference(rows, level),
    ]
    if covariate is not None:
        columns.append(Column("saved", _saved))
    notes = [
        *_tests_in_words(rows, level, correction, tightest_at),
        *_adjustment_in_words(rows, covariate),
        *(Note(text, "verdict") for text in margins_in_words(rows)),
        *([Note(f"users are weighted by {', '.join(weights)}", "mean")] if weights else []),
    ]
    caption = f"Differences from {baseline}, with {100 * level:g} % intervals"
    return Table(
        rows, [*columns, VERDICT], f"baseline {baseline!r}", caption, notes, dash_means="not known", is_grouped=True
    )


def _saved(row: GroupRow) -> str:
    return DASH if math.isnan(row.variance_saved) else f"{100 * row.variance_saved:.1f} %"


def _tests_in_words(rows: Sequence[GroupRow], level: float, correction: str, tightest_at: int | None) -> list[Note]:
    n_tests = sum(not math.isnan(row.p) for row in rows)
    comparisons = "1 comparison" if n_tests == 1 else f"{n_tests:,} comparisons"
    corrected = "" if correction == "none" else f", corrected for {comparisons} ({correction})"
    if tightest_at is None:
        notes = [Note(f"from Welch's test of different users{corrected}", "p")]
    else:
        notes = [
            Note(f"valid at all looks together{corrected}", "p"),
            Note(f"a confidence sequence, valid at all looks together; tightest at {tightest_at:,} users", "interval"),
        ]
    rare = [f"{row.name} of {row.group}" for row in rows if row.interval_method == "mover" and not row.no_interval]
    if rare:
        why = (
            "p and interval from the Clopper-Pearson intervals of both means, because a value is rare or all are equal"
        )
        notes.append(Note(f"{why}: {listed(rare, MOST_LISTED)}"))
    return [*notes, *map(Note, missing_intervals(rows))]


def _adjustment_in_words(rows: Sequence[GroupRow], covariate: str | None) -> list[Note]:
    if covariate is None:
        return []
    saved = f"the share of the difference's variance that {covariate} explains; means are adjusted for it (CUPED)"
    notes = [Note(saved, "saved")]
    n_without = max((row.n_without_covariate for row in rows), default=0)
    if n_without:
        who = "1 user without it takes" if n_without == 1 else f"{n_without:,} users without it take"
        notes.append(Note(f"{'at most ' if len(rows) > 1 else ''}{who} its mean", covariate))
    plain = dict.fromkeys(f"{row.name} of {row.group}: {row.not_adjusted}" for row in rows if row.not_adjusted)
    if plain:
        notes.append(Note(f"not adjusted: {listed(list(plain), MOST_LISTED)}"))
    return notes
