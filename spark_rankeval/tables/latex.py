"""Tables in LaTeX, with the rules of the package ``booktabs``; every text is escaped."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from spark_rankeval.tables.table import on_one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spark_rankeval.tables.table import Cell, Document, Kind, Note, Table

_ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "–": "--",
    # After the end of a row, these would be an option of it.
    "[": "{[}",
    "*": "{*}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
# Brackets of intervals never begin a row.
_ESCAPES_IN_FIGURES = {character: text for character, text in _ESCAPES.items() if character != "["}
_SIGNS = {"-": "$-$", _ESCAPES["<"]: "$<$"}


def as_latex(document: Document) -> str:
    """A ``tabular`` for each table. Captions and notes become comments."""
    parts = [
        "\n".join([_comment(table.caption), _tabular(table), *_comments(table.notes)]) for table in document.tables
    ]
    return "\n\n".join([*parts, *_comments(document.notes)])


def as_float(document: Document, caption: str | None, label: str) -> str:
    """A ``table`` with a caption in plain text above its ``tabular``. Notes become comments below it."""
    (table,) = document.tables
    caption = _escaped(table.caption if caption is None else caption)
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{caption}}}"]
    if label:
        lines.append(rf"\label{{{label}}}")
    lines += [_tabular(table), r"\end{table}", *_comments([*table.notes, *document.notes])]
    return "\n".join(lines)


def _tabular(table: Table) -> str:
    table = table.without_bars()
    kinds = [column.kind for column in table.columns]
    rooms = table.longest_raised()
    sides = "".join("r" if kind == "figures" else "l" for kind in kinds)
    head = _line([_escaped(column.heading) for column in table.columns])
    rows = [_line(list(map(_cell, row, kinds, rooms))) for row in table.rows]
    lines = [rf"\begin{{tabular}}{{{sides}}}", r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"]
    return "\n".join(lines)


def _line(texts: Sequence[str]) -> str:
    return " & ".join(texts) + r" \\"


def _cell(cell: Cell, kind: Kind, room: str) -> str:
    text = _figure(cell.text) if kind == "figures" else _escaped(cell.text)
    text = rf"\textbf{{{text}}}" if cell.bold else text
    free = room[len(cell.raised) :]
    hidden = rf"\phantom{{{_escaped(free)}}}" if free else ""
    return text + (rf"\textsuperscript{{{_escaped(cell.raised)}{hidden}}}" if room else "")


def _figure(text: str) -> str:
    """A figure with the signs of LaTeX's mathematics mode."""
    escaped = _escaped(text, _ESCAPES_IN_FIGURES)
    return re.sub(r"(?<![e\d])(-|\\textless\{\})(?=\d)", lambda sign: _SIGNS[sign[0]], escaped)


def _escaped(text: str, escapes: dict[str, str] = _ESCAPES) -> str:
    return "".join(escapes.get(character, character) for character in on_one_line(text))


def _comments(notes: Iterable[Note]) -> list[str]:
    return [_comment(note.sentence) for note in notes]


def _comment(text: str) -> str:
    return f"% {on_one_line(text)}"
