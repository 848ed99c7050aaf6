"""Tables as HTML for notebooks; every text is escaped, and every style is in its tag."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING

from spark_rankeval.tables.numbers import number

if TYPE_CHECKING:
    from spark_rankeval.tables.table import Bar, Cell, Document, Kind, Table

# Colours are those of the text around, for dark and light themes.
_BAR = "position:relative;display:inline-block;width:10em;height:0.9em;vertical-align:middle"
_LINE = "position:absolute;left:0;right:0;top:50%;border-top:1px solid currentColor;opacity:0.3"
_SPAN = "position:absolute;top:15%;bottom:15%;min-width:2px;background:currentColor;opacity:0.4"
_MARK = "position:absolute;top:0;bottom:0;width:2px;margin-left:-1px;background:currentColor"
_STYLES: dict[Kind, str] = {
    "words": "text-align:left;white-space:nowrap",
    "figures": "text-align:right;white-space:nowrap",
    "prose": "text-align:left",
    "bar": "text-align:right;white-space:nowrap",
}


def as_html(document: Document) -> str:
    """Tables one below the other. Each note has its own line."""
    parts = [f"<div>{html.escape(part)}</div>" if isinstance(part, str) else _table(part) for part in document.parts()]
    return f"<div>{''.join(parts)}</div>"


def _table(table: Table) -> str:
    caption = f'<caption style="text-align:left">{html.escape(table.caption)}</caption>' if table.caption else ""
    head = "".join(_tag("th", html.escape(column.heading), column.kind) for column in table.columns)
    rooms = table.longest_raised()
    body = ""
    for row in table.rows:
        cells = zip(row, rooms, table.columns, strict=True)
        body += f"<tr>{''.join(_tag('td', _cell(cell, room), column.kind) for cell, room, column in cells)}</tr>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _tag(tag: str, content: str, kind: Kind) -> str:
    return f'<{tag} style="{_STYLES[kind]}">{content}</{tag}>'


def _cell(cell: Cell, room: str) -> str:
    if cell.bar is not None:
        return _bar(cell.bar)
    text = f"<b>{html.escape(cell.text)}</b>" if cell.bold else html.escape(cell.text)
    free = room[len(cell.raised) :]
    hidden = f'<span style="visibility:hidden">{html.escape(free)}</span>' if free else ""
    return text + (f"<sup>{html.escape(cell.raised)}{hidden}</sup>" if room else "")


def _bar(bar: Bar) -> str:
    """A mean on a line from 0 to 1, or longer if the interval is. The box is the interval."""
    if not math.isfinite(bar.value):
        return ""
    has_interval = not math.isnan(bar.low)
    low, high = (bar.low, bar.high) if has_interval else (bar.value, bar.value)
    first, last = min(0.0, low), max(1.0, high)

    def place(value: float) -> float:
        return 100 * (value - first) / (last - first)

    title = f"{number(bar.value)} on a line from {number(first)} to {number(last)}"
    reach = f"left:{place(low):.2f}%;width:{place(high) - place(low):.2f}%"
    span = f'<span style="{_SPAN};{reach}"></span>' if has_interval else ""
    mark = f'<span style="{_MARK};left:{place(bar.value):.2f}%"></span>'
    return f'<span style="{_BAR}" title="{title}"><span style="{_LINE}"></span>{span}{mark}</span>'
