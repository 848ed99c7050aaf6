"""Tables in GitHub's Markdown; every text is escaped."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from spark_rankeval.tables.table import on_one_line

if TYPE_CHECKING:
    from spark_rankeval.tables.table import Cell, Document, Kind, Table

_MEANINGFUL = re.compile(r"([\\`*_{}\[\]<>&|#~$!])")
# Brackets of intervals are no links.
_MEANINGFUL_IN_FIGURES = re.compile(r"([\\`*_{}<>&|#~$!])")


def as_markdown(document: Document) -> str:
    """Tables with captions above and notes below. Each caption and note is a paragraph."""
    return "\n\n".join(_escaped(part) if isinstance(part, str) else _table(part) for part in document.parts())


def _table(table: Table) -> str:
    table = table.without_bars()
    kinds = [column.kind for column in table.columns]
    head = [_escaped(column.heading) for column in table.columns]
    rule = ["---:" if kind == "figures" else "---" for kind in kinds]
    body = [[_cell(cell, kind) for cell, kind in zip(row, kinds, strict=True)] for row in table.rows]
    lines = [f"| {' | '.join(texts)} |" for texts in [head, rule, *body]]
    return f"{_escaped(table.caption)}\n\n" + "\n".join(lines)


def _cell(cell: Cell, kind: Kind) -> str:
    text = _escaped(cell.text, _MEANINGFUL_IN_FIGURES if kind == "figures" else _MEANINGFUL)
    text = f"**{text}**" if cell.bold else text
    return f"{text}<sup>{_escaped(cell.raised)}</sup>" if cell.raised else text


def _escaped(text: str, meaningful: re.Pattern[str] = _MEANINGFUL) -> str:
    return meaningful.sub(r"\\\1", on_one_line(text))
