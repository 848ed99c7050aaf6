"""A result as text for people: tables and sentences, no figures of its own."""

from __future__ import annotations

import math
import shutil
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_rankeval.summary import DataQuality, SummaryRow

# Where nothing says how wide the page is.
_WIDTH = 140
_NARROWEST_WORDS = 40
_HEADERS = ("metric", "mean", "std", "users", "undefined")


def render_summary(rows: Sequence[SummaryRow], qualities: Mapping[str, DataQuality]) -> str:
    """The summary as a table of aligned columns, and the users and their rows in a few lines below."""
    models = list(dict.fromkeys(row.model for row in rows))
    lines = []
    for model in models:
        mine = [row for row in rows if row.model == model]
        title = ", ".join([f"model {model!r}"] * bool(model) + [f"dialect {mine[0].dialect!r}"])
        cells = [
            _HEADERS,
            *((r.key, _number(r.mean), _number(r.std), f"{r.n_users:,}", f"{r.n_undefined:,}") for r in mine),
        ]
        lines += [title, *_aligned(cells), ""]
        if model in qualities:
            lines += [*render_quality(qualities[model]), ""]
    return "\n".join(lines[:-1])


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
            cells.append((shown, dialect, _number(mean), f"{difference:+.4f}" if difference else "", f"{n_users:,}"))
    table = _aligned(cells, left=2)
    indent = len(table[0]) + 2
    room = max(_NARROWEST_WORDS, shutil.get_terminal_size(fallback=(_WIDTH, 1)).columns - indent)
    lines = []
    for line, why in zip(table, ["because", *(row[-1] for row in rows)], strict=True):
        first, *more = textwrap.wrap(why, room) or [""]
        lines += [f"{line}  {first}".rstrip(), *(" " * indent + further for further in more)]
    return "\n".join(lines)


def render_quality(quality: DataQuality) -> list[str]:
    """What the users and their rows were like; counts of 0 that mean nothing to do are left out."""
    users = [f"{quality.n_users:,} users"]
    for count, words in (
        (quality.n_without_relevant, "without a relevant label"),
        (quality.n_without_predictions, "without predictions"),
    ):
        users.append(f"{count:,} {words}{_share(count, quality.n_users)}")
    lines = ["users  " + "; ".join(users)]
    ties = quality.n_hanging_on_ties
    tie_words = (
        f"{ties:,} users hang on the order of equal scores{_share(ties, quality.n_users)}"
        if ties
        else "no user hangs on the order of equal scores"
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
    ):
        if count:
            rows.append(f"{count:,} {words}")
    return [*lines, "rows   " + "; ".join(rows)]


def _aligned(cells: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Cells as lines of equal columns, the first ones flush left."""
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]


def _number(value: float) -> str:
    if math.isnan(value):
        return "undefined"
    if value and (abs(value) < 1e-4 or abs(value) >= 1e6):
        return f"{value:.4e}"
    return f"{value:.4f}"


def _share(count: int, of: int) -> str:
    return f" ({count / of:.1%})" if count and of else ""
