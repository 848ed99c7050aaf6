"""Tables as text of aligned columns."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_rankeval.tables.table import Cell, Document, Kind, Note, Table

# If nothing says how wide the page is.
_WIDTH = 140
_NARROWEST_PROSE = 40
# Explanations stand below one another, behind the words that they explain; longer words than these stick out.
_SHORTEST_WORD, _LONGEST_WORD = 5, 8


def as_text(document: Document) -> str:
    """Tables one below the other, each followed by its notes."""
    return "\n".join(["\n\n".join(map(_table, document.tables)), *_explained(document.notes)])


def _table(table: Table) -> str:
    lines = [table.title] if table.title else []
    lines += _grid(table.without_bars())
    if table.bold_means:
        lines.append(f"*  {table.bold_means}")
    # Sentences stand right below the table, explanations of words apart.
    n_sentences = next((place for place, note in enumerate(table.notes) if note.about), len(table.notes))
    lines += _explained(table.notes[:n_sentences])
    if n_sentences < len(table.notes):
        lines += ["", *_explained(table.notes[n_sentences:])]
    return "\n".join(lines)


def _explained(notes: Sequence[Note]) -> list[str]:
    width = max([_SHORTEST_WORD, *(len(note.about) for note in notes if len(note.about) <= _LONGEST_WORD)])
    return [f"{note.about.ljust(width)}  {note.text}" if note.about else note.text for note in notes]


def _grid(table: Table) -> list[str]:
    """Lines in which the columns are aligned."""
    columns = [
        _padded([column.heading, *_figures([row[place] for row in table.rows])], column.kind)
        for place, column in enumerate(table.columns)
    ]
    if table.is_grouped:
        columns[0] = _without_repeats(columns[0])
    sentences = columns.pop() if table.columns[-1].kind == "prose" else []
    lines = list(map("  ".join, zip(*columns, strict=True)))
    if sentences:
        lines = _beside(lines, sentences)
    return [line.rstrip() for line in lines]


def _padded(texts: list[str], kind: Kind) -> list[str]:
    if kind == "prose":
        return texts
    width = max(map(len, texts))
    return [text.rjust(width) if kind == "figures" else text.ljust(width) for text in texts]


def _figures(cells: Sequence[Cell]) -> list[str]:
    """A column as text. Bold cells have a star, and superscripts are aligned."""
    star = int(any(cell.bold for cell in cells))
    room = max((1 + len(cell.raised) for cell in cells if cell.raised), default=0)
    return [
        cell.text + "*" * cell.bold + " " * (star - cell.bold) + f" {cell.raised}".ljust(room)[:room] for cell in cells
    ]


def _without_repeats(texts: list[str]) -> list[str]:
    """The texts, with a blank for each one that repeats the one above."""
    return [" " * len(text) if place and text == texts[place - 1] else text for place, text in enumerate(texts)]


def _beside(lines: Sequence[str], sentences: Sequence[str]) -> list[str]:
    """Lines with sentences to their right. A sentence may take several lines."""
    indent = len(lines[0]) + 2
    room = max(_NARROWEST_PROSE, shutil.get_terminal_size(fallback=(_WIDTH, 1)).columns - indent)
    wrapped = []
    for line, sentence in zip(lines, sentences, strict=True):
        first, *more = textwrap.wrap(sentence, room) or [""]
        wrapped += [f"{line}  {first}", *(" " * indent + further for further in more)]
    return wrapped
