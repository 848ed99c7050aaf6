"""Gaps between slices as tables: the largest gap of each metric, and each slice against all others."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from spark_rankeval.records.gaps import AGAINST_OTHERS, LARGEST_GAP
from spark_rankeval.tables.comparison import VERDICT, margins_in_words
from spark_rankeval.tables.numbers import DASH, in_one_format, probability
from spark_rankeval.tables.summary import METRIC, MODEL, MOST_LISTED
from spark_rankeval.tables.table import Column, Document, Note, Table, words
from spark_rankeval.wording import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_rankeval.records.gaps import GapRow


def gaps_on_screen(rows: Sequence[GapRow], level: float) -> Document:
    """The table of the largest gaps, and that of slices against all others."""
    return Document(tuple(gaps_tables(rows, level)))


def gaps_tables(rows: Sequence[GapRow], level: float) -> list[Table]:
    """A table of each kind of rows; none of a kind without rows."""
    attribute = rows[0].attribute if rows else ""
    captions = {
        LARGEST_GAP: f"The largest gap between slices by {attribute}",
        AGAINST_OTHERS: f"Each slice by {attribute} against all others",
    }
    of_kinds = {kind: [row for row in rows if row.kind == kind] for kind in captions}
    return [_table(of_kind, level, captions[kind]) for kind, of_kind in of_kinds.items() if of_kind]


def _table(rows: Sequence[GapRow], level: float, caption: str) -> Table:
    is_largest = rows[0].kind == LARGEST_GAP
    mean = in_one_format(mean for row in rows for mean in (row.mean, row.other_mean))
    difference = in_one_format((row.difference for row in rows), sign="+")

    def ends(row: GapRow) -> str:
        low, high = row.interval_low, row.interval_high
        return DASH if math.isnan(low) else f"{difference(low)} to {difference(high)}"

    columns: list[Column[Any]] = [
        METRIC,
        *([MODEL] if any(row.model for row in rows) else []),
        words("highest mean" if is_largest else "slice", lambda row: row.slice or DASH),
        *([words("lowest mean", lambda row: row.other or DASH)] if is_largest else []),
        Column("users", lambda row: f"{row.n_users:,}"),
        Column("others", lambda row: f"{row.n_other_users:,}"),
        Column("mean", lambda row: mean(row.mean)),
        Column("others' mean", lambda row: mean(row.other_mean)),
        Column("difference", lambda row: difference(row.difference)),
        Column(f"{100 * level:g} % interval", ends),
        Column("p", lambda row: probability(row.p)),
        VERDICT,
    ]
    return Table(
        rows, columns, caption, caption, _notes(rows, is_largest=is_largest), dash_means="there is no interval",
        is_grouped=True,
    )  # fmt: skip


def _notes(rows: Sequence[GapRow], *, is_largest: bool) -> list[Note]:
    n_tests = sum(not math.isnan(row.p) for row in rows)
    corrected = f"corrected for {n_tests:,} comparison{'s' if n_tests != 1 else ''} (holm)"
    if is_largest:
        p = Note(f"from the Games-Howell test for all pairs of slices, also {corrected}", "p")
        notes = [p, Note("holds although the pair was chosen for its difference", "interval")]
    else:
        notes = [Note(f"from Welch's test, {corrected}", "p")]
    notes += [Note(text, "verdict") for text in margins_in_words(rows)]
    clusters = listed(list(dict.fromkeys(row.cluster for row in rows if row.cluster)))
    if clusters:
        notes.append(Note(f"takes the clusters by {clusters} as independent, not their users", "interval"))
    most = max((row.n_left_out for row in rows), default=0)
    if most:
        slices = "1 slice is" if most == 1 else f"{'at most ' if len(rows) > 1 else ''}{most:,} slices are"
        notes.append(Note(f"{slices} left out, with too few users or no interval"))
    rare = [f"{row.name} of {row.slice}" for row in rows if row.interval_method == "mover" and not row.no_interval]
    if rare:
        why = (
            "p and interval from the Clopper-Pearson intervals of both means, because a value is rare or all are equal"
        )
        notes.append(Note(f"{why}: {listed(rare, MOST_LISTED)}"))
    without = {row.no_interval: None for row in rows if row.no_interval}
    if without:
        notes.append(Note(f"no interval: {listed(list(without), MOST_LISTED)}"))
    return notes
