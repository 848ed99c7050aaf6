"""Comparisons as tables, of models, of groups of different users and of slices, and notes that explain their columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from spark_rankeval.errors import listed
from spark_rankeval.records.comparison_rows import ComparisonRow, GroupRow, PairRow
from spark_rankeval.records.gap_rows import AGAINST_OTHERS, LARGEST_GAP, GapRow
from spark_rankeval.tables.result_tables import METRIC, MODEL, MOST_LISTED, SLICE, USERS
from spark_rankeval.tables.table import (
    DASH,
    Cell,
    Column,
    Document,
    Note,
    Table,
    Tone,
    in_one_format,
    probability,
    words,
)

if TYPE_CHECKING:
    Row: TypeAlias = ComparisonRow | PairRow | GroupRow


_TONES: dict[str, Tone] = {"better": "good", "worse": "bad"}
#: The verdict, in the colour of its meaning.
VERDICT: Column[Any] = words("verdict", lambda row: Cell(row.verdict, tone=_TONES.get(row.verdict, "")))


def differences_table(rows: Sequence[ComparisonRow], level: float, caption: str, *, slices: bool = False) -> Table:
    """Models compared with a baseline: one row for each metric and model, or for each metric, slice and model."""
    columns: list[Column[Any]] = [
        METRIC,
        *([SLICE] if slices else []),
        MODEL,
        USERS,
        *means_columns(rows, "baseline", attrgetter("baseline_mean")),
        *of_the_difference(rows, level),
        Column("d", lambda row: "undefined" if math.isnan(row.cohens_d) else f"{row.cohens_d:+.2f}"),
        Column("wins/ties/losses", lambda row: f"{row.wins:,}/{row.ties:,}/{row.losses:,}"),
        VERDICT,
    ]
    dash = "not defined for these users"
    return Table(rows, columns, caption=caption, dash_means=dash, is_grouped=True)


def losses_table(rows: Sequence[ComparisonRow], level: float, title: str) -> Table:
    """The slices in which models lose: one row for each slice, metric and model."""
    columns = [words("slice", SLICE.cell), METRIC, MODEL, USERS, *of_the_difference(rows, level), VERDICT]
    return Table(rows, columns, title, "the slices with the largest losses")


def pairs_table(rows: Sequence[PairRow], level: float, caption: str, notes: Sequence[Note]) -> Table:
    """Pairs of models: one row for each metric and pair."""
    columns: list[Column[Any]] = [
        METRIC,
        MODEL,
        words("other", lambda row: row.other),
        USERS,
        *means_columns(rows, "other's", attrgetter("other_mean")),
        *of_the_difference(rows, level),
        VERDICT,
    ]
    return Table(rows, columns, caption=caption, notes=notes, is_grouped=True)


def means_columns(rows: Sequence[Row], title: str, other_mean: Callable[[Row], float]) -> list[Column[Any]]:
    """The columns of the model's mean and the other model's mean, in the same format."""
    written = in_one_format(mean for row in rows for mean in (row.mean, other_mean(row)))
    return [Column("mean", lambda row: written(row.mean)), Column(title, lambda row: written(other_mean(row)))]


def of_the_difference(rows: Sequence[Row], level: float) -> list[Column[Any]]:
    """The columns of the difference, its interval and p. Each column has one format."""
    written = in_one_format((row.difference for row in rows), sign="+")

    def ends(row: Row) -> str:
        low, high = row.interval_low, row.interval_high
        return DASH if math.isnan(low) else f"{written(low)} to {written(high)}"

    difference: Column[Any] = Column("difference", lambda row: written(row.difference))
    return [difference, Column(f"{100 * level:g} % interval", ends), Column("p", lambda row: probability(row.p))]


def differences_in_words(rows: Sequence[ComparisonRow], test: str, correction: str, replicates: int) -> list[Note]:
    """Notes that explain the columns of a table of differences."""
    n_tests = sum(not math.isnan(row.p) for row in rows)
    comparisons = "1 comparison" if n_tests == 1 else f"{n_tests:,} comparisons"
    corrected = "" if correction == "none" else f", corrected for {comparisons} ({correction})"
    return [
        Note(f"from {name_of_test(test, replicates)}{corrected}", "p"),
        Note("difference / standard deviation of the users' differences", "d"),
        *(Note(text, "verdict") for text in margins_in_words(rows)),
        *map(Note, exceptions(rows, test)),
    ]


def pairs_in_words(rows: Sequence[PairRow], test: str, replicates: int) -> list[Note]:
    """Notes that explain the columns of a table of pairs."""
    p = f"from {name_of_test(test, replicates)}, corrected for the number of pairs of a metric, not for the number of metrics"
    ends = (
        "the intervals of all pairs of a metric hold together. Only users with a value under every model are compared"
    )
    return [Note(p, "p"), Note(ends, "interval"), *map(Note, missing_intervals(rows))]


def margins_in_words(rows: Sequence[ComparisonRow | GapRow | GroupRow]) -> list[str]:
    """A sentence on the differences that are too small to matter. Empty if all matter."""
    metrics_of: dict[float, dict[str, None]] = {}
    for row in rows:
        metrics_of.setdefault(row.margin, {})[row.name] = None
    margins = [
        f"{margin:g}" if len(metrics_of) == 1 else f"{margin:g} for {listed(list(metrics))}"
        for margin, metrics in sorted(metrics_of.items())
        if margin
    ]
    return [f"differences up to {' or '.join(margins)} do not matter"] if margins else []


def exceptions(rows: Sequence[ComparisonRow], test: str) -> list[str]:
    """Sentences on the rows without an interval, or whose p or interval comes from another method than in the other rows."""
    same = "Clopper-Pearson interval, because all users have the same difference"
    kinds = {
        "p from all patterns of signs, not from random ones": [row for row in rows if row.p_test == "exact"],
        "p from the paired t test": [row for row in rows if row.p_test == "t" != test and not math.isnan(row.p)],
        same: [row for row in rows if row.interval_method == "clopper_pearson"],
    }
    figures = {kind: [f"{row.name} of {row.model}" for row in of_kind] for kind, of_kind in kinds.items()}
    return [
        *(f"{kind}: {listed(names, MOST_LISTED)}" for kind, names in figures.items() if names),
        *missing_intervals(rows),
    ]


def missing_intervals(rows: Sequence[Row]) -> list[str]:
    """A sentence on why rows have no interval. Empty if all have one."""
    reasons = dict.fromkeys(f"{row.name}: {row.no_interval}" for row in rows if row.no_interval)
    return [f"no interval: {listed(list(reasons), MOST_LISTED)}"] if reasons else []


def name_of_test(test: str, replicates: int) -> str:
    """The name of the test that a p comes from."""
    return {
        "sign_flip": f"the sign-flip randomisation test with {replicates:,} replicates",
        "t": "the paired t test",
        "tukey": "Tukey's test for a two-way layout",
        "games_howell": "the Games-Howell test with users as blocks",
        "randomised": f"the randomised Tukey test with {replicates:,} replicates",
    }[test]


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
