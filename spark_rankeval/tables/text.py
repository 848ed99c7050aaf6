"""A result as text for people: tables and sentences, no figures of its own."""

from __future__ import annotations

import math
import shutil
import textwrap
from typing import TYPE_CHECKING, Literal

from spark_rankeval.records.summary import SELF_NORMALISED
from spark_rankeval.statistics.intervals import asked_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from spark_rankeval.records.quality import DataQuality
    from spark_rankeval.records.summary import SummaryRow

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
# Figures of a column have four places, or as many as the smallest needs; beyond these, all are powers of 10.
_PLACES, _MOST_PLACES, _TOO_LARGE = 4, 7, 1e9
# So many models and slices are printed; a table for each.
_MOST_TABLES = 24


def render_summary(rows: Sequence[SummaryRow], qualities: Mapping[str, DataQuality], notes: Sequence[str] = ()) -> str:
    """The summary as a table of aligned columns; below it the users and their rows in a few lines, and notes."""
    lines = []
    for mine, below in tables_to_show(rows, qualities):
        lines += [title(mine[0]), *aligned([headers(mine), *cells(mine)]), *missing_intervals(mine), ""]
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


def cells(rows: Sequence[SummaryRow]) -> list[list[str]]:
    """The rows of a table, one text a header; the figures of a column have one format."""
    mean, std = in_one_format(row.mean for row in rows), in_one_format(row.std for row in rows)
    body = []
    for row in rows:
        ends = "–" if row.no_interval else f"[{mean(row.interval_low)}, {mean(row.interval_high)}]"
        interval = [ends] * bool(row.interval_method)
        body.append([row.name, mean(row.mean), *interval, std(row.std), f"{row.n_users:,}", f"{row.n_undefined:,}"])
    return body


def usual(rows: Sequence[SummaryRow]) -> SummaryRow:
    """A row whose interval is the one that was asked for; where there is none, the first."""
    return next((row for row in rows if row.interval_method == asked_for(row.interval_method)), rows[0])


def missing_intervals(rows: Sequence[SummaryRow]) -> list[str]:
    """A sentence for each reason why means have no interval, or another than the head of the table says."""
    reasons: dict[str, list[str]] = {}
    others: dict[str, list[str]] = {}
    for row in rows:
        if row.interval_method and row.no_interval:
            reasons.setdefault(row.no_interval, []).append(row.name)
        elif row.interval_method != usual(rows).interval_method:
            others.setdefault(_METHODS[row.interval_method], []).append(row.name)
    return [
        *(f"no interval of {listed(keys, len(rows))}: {reason}" for reason, keys in reasons.items()),
        *(f"interval of {listed(keys, len(rows))}: {method}" for method, keys in others.items()),
    ]


def listed(keys: Sequence[str], n_rows: int) -> str:
    """The first of some metrics, or that it is all of a table's."""
    if len(keys) == n_rows > 1:
        return "any mean"
    return ", ".join(keys[:_MOST_LISTED]) + (
        f" and {len(keys) - _MOST_LISTED} more" if len(keys) > _MOST_LISTED else ""
    )


def render_map(rows: Sequence[tuple[str, str, float, float, int, str]]) -> str:
    """Metrics under dialects as a table: metric, dialect, mean, difference to the default, users, and why."""
    cells = [("metric", "dialect", "mean", "difference", "users")]
    written = in_one_format(row[2] for row in rows)
    differing = in_one_format((row[3] for row in rows), sign="+")
    metric = None
    for name, dialect, mean, difference, n_users, _ in rows:
        shown = "" if name == metric else name
        metric = name
        if math.isnan(mean) and not n_users:
            cells.append((shown, dialect, "–", "–", "–"))
        else:
            cells.append((shown, dialect, written(mean), differing(difference) if difference else "", f"{n_users:,}"))
    table = aligned(cells, left=2)
    indent = len(table[0]) + 2
    room = max(_NARROWEST_WORDS, shutil.get_terminal_size(fallback=(_WIDTH, 1)).columns - indent)
    lines = []
    for line, why in zip(table, ["because", *(row[-1] for row in rows)], strict=True):
        first, *more = textwrap.wrap(why, room) or [""]
        lines += [f"{line}  {first}".rstrip(), *(" " * indent + further for further in more)]
    return "\n".join(lines)


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


def in_one_format(values: Iterable[float], *, sign: Literal["", "+"] = "") -> Callable[[float], str]:
    """How the figures of a column are written: all with as many places, so that the smallest has two digits, or all as powers of 10.

    Args:
        values: the figures that count; ends of their intervals have the format of these.
        sign: ``+`` of differences, which always have a sign.

    >>> [in_one_format([0.5, 0.00012])(value) for value in (0.5, 0.00012, 0.0, math.nan)]
    ['0.50000', '0.00012', '0.00000', 'undefined']
    >>> [in_one_format([0.5, 3e-12], sign="+")(value) for value in (0.5, 3e-12)], in_one_format([0.5])(0.25)
    (['+5.0000e-01', '+3.0000e-12'], '0.2500')
    """
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    places = max(_PLACES, 1 - math.floor(math.log10(min(sizes)))) if sizes else _PLACES
    is_wide = places > _MOST_PLACES or (bool(sizes) and max(sizes) >= _TOO_LARGE)
    form = f"{sign}.{_PLACES}e" if is_wide else f"{sign}.{places}f"
    return lambda value: "undefined" if math.isnan(value) else f"{value:{form}}"


def _share(count: int, of: int) -> str:
    return f" ({count / of:.1%})" if count and of else ""
