"""A result as text for people: tables and sentences, no figures of its own."""

from __future__ import annotations

import math
import shutil
import textwrap
from typing import TYPE_CHECKING

from spark_rankeval.statistics.intervals import asked_for
from spark_rankeval.summary import SELF_NORMALISED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_rankeval.comparison_rows import ComparisonRow, PairRow
    from spark_rankeval.summary import DataQuality, SummaryRow

# Where nothing says how wide the page is.
_WIDTH = 140
_NARROWEST_WORDS = 40
_METHODS = {
    "": "",
    "t": "t",
    "percentile": "percentile bootstrap",
    "bca": "BCa bootstrap",
    "clopper_pearson": "Clopper-Pearson",
}
_MOST_LISTED = 4
# So many models and slices are printed; a table for each.
_MOST_TABLES = 24


def render_summary(rows: Sequence[SummaryRow], qualities: Mapping[str, DataQuality], notes: Sequence[str] = ()) -> str:
    """The summary as a table of aligned columns; below it the users and their rows in a few lines, and notes."""
    lines = []
    for mine, below in tables_to_show(rows, qualities):
        lines += [title(mine[0]), *aligned([headers(mine), *map(cells, mine)]), *missing_intervals(mine), ""]
        lines += [*below, *[""] * bool(below)]
    return with_notes("\n".join(lines[:-1]), notes)


def with_notes(text: str, notes: Sequence[str]) -> str:
    """A text, and below it what its figures could be taken for and are not."""
    return "\n".join([text, *(f"note   {note}" for note in notes)])


def tables_to_show(
    rows: Sequence[SummaryRow], qualities: Mapping[str, DataQuality]
) -> list[tuple[list[SummaryRow], list[str]]]:
    """The tables that fit on a page, and the lines below each: what a model's users were like below its last one."""
    tables = by_model(rows)
    shown: list[tuple[list[SummaryRow], list[str]]] = []
    for mine in tables[:_MOST_TABLES]:
        model = mine[0].model
        last = next(table for table in reversed(tables) if table[0].model == model)
        shown.append((mine, render_quality(qualities[model]) if model in qualities and mine is last else []))
    if len(tables) > _MOST_TABLES:
        below = [f"{len(tables) - _MOST_TABLES:,} more slices: result.slices has them all"]
        if len(qualities) == 1:
            below += ["", *render_quality(next(iter(qualities.values())))]
        shown[-1] = (shown[-1][0], below)
    return shown


def by_model(rows: Sequence[SummaryRow]) -> list[list[SummaryRow]]:
    """The rows of each model and slice, model by model, in the order in which they come."""
    tables: dict[tuple[str, str], list[SummaryRow]] = {}
    for row in rows:
        tables.setdefault((row.model, row.slice), []).append(row)
    models = list(dict.fromkeys(row.model for row in rows))
    return [table for model in models for (mine, _), table in tables.items() if mine == model]


def title(row: SummaryRow) -> str:
    """What a table of rows like this one is about."""
    told = [f"model {row.model!r}"] * bool(row.model) + [f"dialect {row.dialect!r}"]
    told += [f"users weighted by {row.user_weight!r}"] * (row.user_weight not in ("", SELF_NORMALISED))
    return ", ".join(told + [f"users with {row.slice}"] * (row.slice != "all"))


def headers(rows: Sequence[SummaryRow]) -> list[str]:
    """The heads of a table's columns."""
    return ["metric", "mean", *filter(None, [interval_name(usual(rows))]), "std", "users", "undefined"]


def interval_name(row: SummaryRow) -> str:
    """What interval a mean has; empty where none was asked for."""
    level = f"{row.interval_level * 100:.6g}%"
    return f"{level} interval ({_METHODS[row.interval_method]})" if row.interval_method else ""


def cells(row: SummaryRow) -> list[str]:
    """A row of a table, one text a header."""
    ends = "–" if row.no_interval else f"[{number(row.interval_low)}, {number(row.interval_high)}]"
    interval = [ends] * bool(row.interval_method)
    return [row.key, number(row.mean), *interval, number(row.std), f"{row.n_users:,}", f"{row.n_undefined:,}"]


def usual(rows: Sequence[SummaryRow]) -> SummaryRow:
    """A row whose interval is the one that was asked for; where there is none, the first."""
    return next((row for row in rows if row.interval_method == asked_for(row.interval_method)), rows[0])


def missing_intervals(rows: Sequence[SummaryRow]) -> list[str]:
    """A sentence for each reason why means have no interval, or another than the head of the table says."""
    reasons: dict[str, list[str]] = {}
    others: dict[str, list[str]] = {}
    for row in rows:
        if row.interval_method and row.no_interval:
            reasons.setdefault(row.no_interval, []).append(row.key)
        elif row.interval_method != usual(rows).interval_method:
            others.setdefault(_METHODS[row.interval_method], []).append(row.key)
    return [
        *(f"no interval of {_listed(keys, len(rows))}: {reason}" for reason, keys in reasons.items()),
        *(f"interval of {_listed(keys, len(rows))}: {method}" for method, keys in others.items()),
    ]


def _listed(keys: list[str], n_rows: int) -> str:
    if len(keys) == n_rows > 1:
        return "any mean"
    return ", ".join(keys[:_MOST_LISTED]) + (
        f" and {len(keys) - _MOST_LISTED} more" if len(keys) > _MOST_LISTED else ""
    )


def render_map(rows: Sequence[tuple[str, str, float, float, int, str]]) -> str:
    """Metrics under dialects as a table: metric, dialect, mean, difference to the default, users, and why."""
    cells = [("metric", "dialect", "mean", "difference", "users")]
    metric = None
    for name, dialect, mean, difference, n_users, _ in rows:
        shown = "" if name == metric else name
        metric = name
        if math.isnan(mean) and not n_users:
            cells.append((shown, dialect, "–", "–", "–"))
        else:
            cells.append((shown, dialect, number(mean), f"{difference:+.4f}" if difference else "", f"{n_users:,}"))
    table = aligned(cells, left=2)
    indent = len(table[0]) + 2
    room = max(_NARROWEST_WORDS, shutil.get_terminal_size(fallback=(_WIDTH, 1)).columns - indent)
    lines = []
    for line, why in zip(table, ["because", *(row[-1] for row in rows)], strict=True):
        first, *more = textwrap.wrap(why, room) or [""]
        lines += [f"{line}  {first}".rstrip(), *(" " * indent + further for further in more)]
    return "\n".join(lines)


def comparison_figures(row: ComparisonRow) -> tuple[str, ...]:
    """Users, mean, baseline's mean, difference, interval, p and effect size of a comparison, as tables have them."""
    return (
        f"{row.n_users:,}",
        number(row.mean),
        number(row.baseline_mean),
        signed(row.difference),
        between(row.interval_low, row.interval_high),
        probability(row.p),
        signed(row.cohens_d, 2),
    )


def render_comparison(
    rows: Sequence[ComparisonRow],
    level: float,
    test: str,
    correction: str,
    replicates: int,
    slices: Sequence[ComparisonRow] = (),
    losses: Sequence[ComparisonRow] = (),
) -> str:
    """Models against a baseline as a table: a line a metric and model; below it, what the columns are.

    Args:
        rows: of all users.
        level: of the intervals.
        test: which one p is of.
        correction: of p.
        replicates: of the test.
        slices: rows of slices, of which only the number is told.
        losses: those of them that are shown.
    """
    head = ("metric", "model", "users", "mean", "baseline", "difference", f"{100 * level:g} % interval", "p", "d")
    cells: list[tuple[str, ...]] = [(*head, "wins/ties/losses", "verdict")]
    metric = None
    for row in rows:
        shown, metric = "" if row.metric == metric else row.metric, row.metric
        cells.append(
            (
                shown,
                row.model,
                *comparison_figures(row),
                f"{row.wins:,}/{row.ties:,}/{row.losses:,}",
                row.verdict,
            )
        )
    title = [f"baseline {rows[0].baseline!r}"] if rows else []
    p = f"of {_test(test, replicates)}"
    n_tests = sum(not math.isnan(row.p) for row in rows)
    corrected = "" if correction == "none" else f", corrected for {n_tests} comparisons ({correction})"
    notes = [f"p        {p}{corrected}", "d        difference / standard deviation of the users' differences"]
    notes += [f"verdict  {words}" for words in margins_in_words(rows)]
    notes += exceptions(rows, test)
    lines = [*title, *_closing_left(cells, left=2), "", *notes]
    return "\n".join(lines + _of_slices(slices, losses, level))


def margins_in_words(rows: Sequence[ComparisonRow]) -> list[str]:
    """Which differences do not matter; nothing where all do."""
    metrics_of: dict[float, list[str]] = {}
    for row in rows:
        metrics_of.setdefault(row.margin, []).append(row.metric)
    of_all = len(metrics_of) == 1
    margins = [
        f"{margin:g}" + ("" if of_all else " of " + ", ".join(dict.fromkeys(metrics)))
        for margin, metrics in sorted(metrics_of.items())
        if margin
    ]
    return [f"differences up to {' or '.join(margins)} do not matter"] if margins else []


def exceptions(rows: Sequence[ComparisonRow], test: str) -> list[str]:
    """Whose p or interval is of another kind than those of other rows."""
    exact = [f"{row.metric} of {row.model}" for row in rows if row.p_test == "exact"]
    by_t = [f"{row.metric} of {row.model}" for row in rows if row.p_test == "t" != test]
    alike = [f"{row.metric} of {row.model}" for row in rows if row.interval_method == "clopper_pearson"]
    told = {
        "p by all signs, none drawn": exact,
        "p by the paired t test": by_t,
        "Clopper-Pearson interval, as all users have the same difference": alike,
    }
    return [f"{words}: {_listed(keys, 0)}" for words, keys in told.items() if keys]


def _of_slices(slices: Sequence[ComparisonRow], losses: Sequence[ComparisonRow], level: float) -> list[str]:
    """The slices with the largest losses as a table, and where to find the others."""
    if not slices:
        return []
    many = f"{len(slices):,} comparisons of slices"
    if not losses:
        return ["", f"in none of {many} a model loses; comparison.slices has them all"]
    head = ("slice", "metric", "model", "users", "difference", f"{100 * level:g} % interval", "p", "verdict")
    cells = [
        (
            row.slice,
            row.metric,
            row.model,
            f"{row.n_users:,}",
            signed(row.difference),
            between(row.interval_low, row.interval_high),
            probability(row.p),
            row.verdict,
        )
        for row in losses
    ]
    title = f"the largest losses of {many} (comparison.slices has them all; p by all signs or the paired t test, corrected for these)"
    return ["", title, *_closing_left([head, *cells], left=3)]


def render_pairs(rows: Sequence[PairRow], level: float, test: str, replicates: int) -> str:
    """Pairs of models as a table: a line a metric and pair; below it, what the columns are."""
    cells = [
        (
            "metric", "model", "other", "users", "mean", "other's", "difference", f"{100 * level:g} % interval", "p",
            "verdict",
        )
    ]  # fmt: skip
    metric = None
    for row in rows:
        shown, metric = "" if row.metric == metric else row.metric, row.metric
        figures = (number(row.mean), number(row.other_mean), signed(row.difference))
        ends = between(row.interval_low, row.interval_high)
        cells.append((shown, row.model, row.other, f"{row.n_users:,}", *figures, ends, probability(row.p), row.verdict))
    notes = [
        f"p        of {_test(test, replicates)}, corrected for the pairs of a metric, not for the number of metrics",
        "interval those of a metric's pairs hold together; users are those for whom every model has a value",
    ]
    return "\n".join([*_closing_left(cells, left=3), "", *notes])


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


def signed(value: float, digits: int = 4) -> str:
    """A difference, with its sign."""
    if math.isnan(value):
        return "undefined"
    if digits == 4 and value and abs(value) < 1e-4:
        return f"{value:+.1e}"
    return f"{value:+.{digits}f}"


def between(low: float, high: float) -> str:
    """The interval of a difference."""
    return "–" if math.isnan(low) else f"{signed(low)} to {signed(high)}"


def probability(p: float) -> str:
    """A p-value."""
    return "–" if math.isnan(p) else "<0.0001" if p < 1e-4 else f"{p:.4f}"


def render_apart(quality: DataQuality) -> str:
    """That hardly a user is in both tables, and what may be the reason."""
    n = quality.n_in_both_at_most
    verb = f"only {n:,}" if n else "none"
    have = "has" if n < 2 else "have"
    share = _share(n, quality.n_labelled) if n else ""
    return f"{verb} of {quality.n_labelled:,} users with labels {have} predictions{share}: do both tables name users alike?"


def render_excluded_labels(quality: DataQuality) -> str:
    """How many labels are of items that predictions leave out."""
    n = quality.n_excluded_labels
    verb = "is of an excluded item" if n == 1 else "are of excluded items"
    return f"{n:,} of {quality.n_labels:,} labels{_share(n, quality.n_labels)} {verb}"


def render_quality(quality: DataQuality) -> list[str]:
    """What the users and their rows were like; counts of 0 that mean nothing to do are left out."""
    users = [f"{quality.n_users:,} users"]
    for count, words in (
        (quality.n_without_relevant, "without a relevant label"),
        (quality.n_without_predictions, "without predictions"),
        *[(quality.n_left_out, "left out of the means")] * bool(quality.n_left_out),
    ):
        users.append(f"{count:,} {words}{_share(count, quality.n_users)}")
    for count, words in (
        (quality.n_without_weight, "of weight 0 left out"),
        (quality.n_invalid_weights, "without a usable weight left out"),
    ):
        users += [f"{count:,} {words}"] * bool(count)
    lines = ["users  " + "; ".join(users)]
    lines += [f"!      {render_apart(quality)}"] * quality.is_apart
    ties = quality.n_hanging_on_ties
    tie_words = (
        f"{ties:,} users depend on the order of equal scores{_share(ties, quality.n_users)}"
        if ties
        else "no user depends on the order of equal scores"
    )
    lines.append("ties   " + tie_words)
    rows = [f"{quality.n_predictions:,} predictions", f"{quality.n_labels:,} labels, {quality.n_relevant:,} relevant"]
    for count, words in (
        (quality.n_invalid_predictions, "invalid predictions left out"),
        (quality.n_invalid_labels, "invalid labels left out"),
        (quality.n_duplicate_predictions, "duplicate predictions"),
        (quality.n_duplicate_labels, "repeated labels merged"),
        (quality.n_conflicting_labels, "conflicting labels settled"),
        (quality.n_excluded, "predictions excluded"),
        (quality.n_excluded_labels, "labels excluded too"),
        (quality.n_infinite_scores, "infinite scores"),
        (quality.n_negative_grades, "negative grades"),
    ):
        if count:
            rows.append(f"{count:,} {words}")
    lines.append("rows   " + "; ".join(rows))
    if quality.label_weight:
        weights = [f"{quality.label_weight:,.6g} in all", f"as good as {quality.effective_n_labels:,.1f} equal ones"]
        weights += [f"{quality.n_clipped_labels:,} clipped"] * bool(quality.n_clipped_labels)
        lines.append("weights of labels  " + "; ".join(weights))
    return lines


def aligned(cells: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Cells as lines of equal columns, the first ones flush left."""
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]


def number(value: float) -> str:
    """A figure with four places, or four digits where that says nothing."""
    if math.isnan(value):
        return "undefined"
    if value and (abs(value) < 1e-4 or abs(value) >= 1e6):
        return f"{value:.4e}"
    return f"{value:.4f}"


def _share(count: int, of: int) -> str:
    return f" ({count / of:.1%})" if count and of else ""
