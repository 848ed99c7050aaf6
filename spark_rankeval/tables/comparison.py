"""Comparisons of models as tables, and notes that explain their columns."""

from __future__ import annotations

import math
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from spark_rankeval.tables.numbers import DASH, in_one_format, probability
from spark_rankeval.tables.summary import METRIC, MODEL, MOST_LISTED, SLICE, USERS
from spark_rankeval.tables.table import Cell, Column, Note, Table, words
from spark_rankeval.wording import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_rankeval.records.comparison import ComparisonRow, PairRow
    from spark_rankeval.records.gaps import GapRow
    from spark_rankeval.records.groups import GroupRow
    from spark_rankeval.tables.table import Tone

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
