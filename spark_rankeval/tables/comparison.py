"""Comparisons of models as text: their tables, which every other form shares, and what their columns are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from spark_rankeval.tables.text import aligned, in_one_format, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_rankeval.records.comparison import ComparisonRow, PairRow


def comparison_figures(rows: Sequence[ComparisonRow]) -> list[tuple[str, ...]]:
    """Users, mean, baseline's mean, difference, interval, p and effect size of comparisons, each column in one format."""
    mean = in_one_format(value for row in rows for value in (row.mean, row.baseline_mean))
    difference = in_one_format((row.difference for row in rows), sign="+")
    return [
        (
            f"{row.n_users:,}",
            mean(row.mean),
            mean(row.baseline_mean),
            difference(row.difference),
            between(row, difference),
            probability(row.p),
            "undefined" if math.isnan(row.cohens_d) else f"{row.cohens_d:+.2f}",
        )
        for row in rows
    ]


def comparison_table(rows: Sequence[ComparisonRow], level: float) -> list[tuple[str, ...]]:
    """The heads of a table of comparisons, and a row a metric and model."""
    head = ("metric", "model", "users", "mean", "baseline", "difference", f"{100 * level:g} % interval", "p", "d")
    return [
        (*head, "wins/ties/losses", "verdict"),
        *(
            (row.name, row.model, *figures, f"{row.wins:,}/{row.ties:,}/{row.losses:,}", row.verdict)
            for row, figures in zip(rows, comparison_figures(rows), strict=True)
        ),
    ]


def losses_table(rows: Sequence[ComparisonRow], level: float) -> list[tuple[str, ...]]:
    """The heads of a table of slices in which models lose, and its rows."""
    head = ("slice", "metric", "model", "users", "difference", f"{100 * level:g} % interval", "p", "verdict")
    difference = in_one_format((row.difference for row in rows), sign="+")
    return [
        head,
        *(
            (
                row.slice,
                row.name,
                row.model,
                f"{row.n_users:,}",
                difference(row.difference),
                between(row, difference),
                probability(row.p),
                row.verdict,
            )
            for row in rows
        ),
    ]


def pairs_table(rows: Sequence[PairRow], level: float) -> list[tuple[str, ...]]:
    """The heads of a table of pairs of models, and a row a metric and pair."""
    ends = f"{100 * level:g} % interval"
    head = ("metric", "model", "other", "users", "mean", "other's", "difference", ends, "p", "verdict")
    mean = in_one_format(value for row in rows for value in (row.mean, row.other_mean))
    difference = in_one_format((row.difference for row in rows), sign="+")
    return [
        head,
        *(
            (
                row.name,
                row.model,
                row.other,
                f"{row.n_users:,}",
                mean(row.mean),
                mean(row.other_mean),
                difference(row.difference),
                between(row, difference),
                probability(row.p),
                row.verdict,
            )
            for row in rows
        ),
    ]


def render_comparison(
    rows: Sequence[ComparisonRow],
    level: float,
    notes: Sequence[str],
    slices: Sequence[ComparisonRow] = (),
    losses: Sequence[ComparisonRow] = (),
) -> str:
    """Models against a baseline as a table: a line a metric and model; below it, what the columns are.

    Args:
        rows: of all users.
        level: of the intervals.
        notes: what the columns are; `comparison_notes`.
        slices: rows of slices, of which only the number is told.
        losses: those of them that are shown.
    """
    title = [f"baseline {rows[0].baseline!r}"] if rows else []
    lines = [*title, *_closing_left(_without_repeats(comparison_table(rows, level)), left=2), "", *notes]
    return "\n".join(lines + _of_slices(slices, losses, level))


def comparison_notes(rows: Sequence[ComparisonRow], test: str, correction: str, replicates: int) -> list[str]:
    """What the columns of a table of comparisons are, in lines of a word and its explanation.

    Args:
        rows: of all users.
        test: which one p is of.
        correction: of p.
        replicates: of the test.
    """
    n_tests = sum(not math.isnan(row.p) for row in rows)
    corrected = "" if correction == "none" else f", corrected for {n_tests} comparisons ({correction})"
    notes = [
        f"p        of {_test(test, replicates)}{corrected}",
        "d        difference / standard deviation of the users' differences",
    ]
    notes += [f"verdict  {words}" for words in margins_in_words(rows)]
    return notes + exceptions(rows, test)


def margins_in_words(rows: Sequence[ComparisonRow]) -> list[str]:
    """Which differences do not matter; nothing where all do."""
    metrics_of: dict[float, list[str]] = {}
    for row in rows:
        metrics_of.setdefault(row.margin, []).append(row.name)
    of_all = len(metrics_of) == 1
    margins = [
        f"{margin:g}" + ("" if of_all else " of " + ", ".join(dict.fromkeys(metrics)))
        for margin, metrics in sorted(metrics_of.items())
        if margin
    ]
    return [f"differences up to {' or '.join(margins)} do not matter"] if margins else []


def _without_repeats(cells: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Rows of which each tells the first cell only where it is another than in the row before."""
    before = [None, *(row[0] for row in cells[:-1])]
    return [("" if row[0] == last else row[0], *row[1:]) for row, last in zip(cells, before, strict=True)]


def exceptions(rows: Sequence[ComparisonRow], test: str) -> list[str]:
    """Whose p or interval is of another kind than those of other rows."""
    exact = [f"{row.name} of {row.model}" for row in rows if row.p_test == "exact"]
    by_t = [f"{row.name} of {row.model}" for row in rows if row.p_test == "t" != test and not math.isnan(row.p)]
    alike = [f"{row.name} of {row.model}" for row in rows if row.interval_method == "clopper_pearson"]
    told = {
        "p by all signs, none drawn": exact,
        "p by the paired t test": by_t,
        "Clopper-Pearson interval, as all users have the same difference": alike,
    }
    return [f"{words}: {listed(keys, 0)}" for words, keys in told.items() if keys]


def _of_slices(slices: Sequence[ComparisonRow], losses: Sequence[ComparisonRow], level: float) -> list[str]:
    """The slices with the largest losses as a table, and where to find the others."""
    if not slices:
        return []
    many = f"{len(slices):,} comparisons of slices"
    if not losses:
        return ["", f"in none of {many} a model loses; comparison.slices has them all"]
    title = f"the largest losses of {many} (comparison.slices has them all; p by all signs or the paired t test, corrected for these)"
    return ["", title, *_closing_left(losses_table(losses, level), left=3)]


def render_pairs(rows: Sequence[PairRow], level: float, notes: Sequence[str]) -> str:
    """Pairs of models as a table: a line a metric and pair; below it, what the columns are."""
    return "\n".join([*_closing_left(_without_repeats(pairs_table(rows, level)), left=3), "", *notes])


def pairs_notes(test: str, replicates: int) -> list[str]:
    """What the columns of a table of pairs are, in lines of a word and its explanation."""
    return [
        f"p        of {_test(test, replicates)}, corrected for the pairs of a metric, not for the number of metrics",
        "interval those of a metric's pairs hold together; users are those for whom every model has a value",
    ]


def _closing_left(cells: Sequence[Sequence[str]], left: int) -> list[str]:
    """Cells as aligned lines, the last column, which are words, flush left too."""
    return [f"{line}  {row[-1]}" for line, row in zip(aligned([row[:-1] for row in cells], left), cells, strict=True)]


def _test(test: str, replicates: int) -> str:
    return {
        "sign_flip": f"the sign-flip randomisation test, {replicates:,} replicates",
        "t": "the paired t test",
        "tukey": "Tukey's test in the two-way layout",
        "games_howell": "the test of Games and Howell, with users as blocks",
        "randomised": f"the randomised Tukey test, {replicates:,} replicates",
    }[test]


def between(row: ComparisonRow | PairRow, written: Callable[[float], str]) -> str:
    """The interval of a difference.

    Args:
        row: of a comparison.
        written: how the column of differences has figures.
    """
    low, high = row.interval_low, row.interval_high
    return "–" if math.isnan(low) else f"{written(low)} to {written(high)}"


def probability(p: float) -> str:
    """A p-value."""
    return "–" if math.isnan(p) else "<0.0001" if p < 1e-4 else f"{p:.4f}"
