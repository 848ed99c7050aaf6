"""Tables for notebooks and papers: HTML, Markdown and LaTeX. What a caller chose, such as labels, is escaped."""

from __future__ import annotations

import html
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from spark_rankeval.tables.text import by_model, cells, headers, missing_intervals, number, tables_to_show, title

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from spark_rankeval.records.quality import DataQuality
    from spark_rankeval.records.summary import SummaryRow

_BAR_WIDTH = "10em"
# Colours are those of the text around, so that dark and light themes both show them.
_BAR = f"position:relative;display:inline-block;width:{_BAR_WIDTH};height:0.9em;vertical-align:middle"
_LINE = "position:absolute;left:0;right:0;top:50%;border-top:1px solid currentColor;opacity:0.3"
_SPAN = "position:absolute;top:15%;bottom:15%;min-width:2px;background:currentColor;opacity:0.4"
_MARK = "position:absolute;top:0;bottom:0;width:2px;margin-left:-1px;background:currentColor"

_LATEX = {
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


@dataclass(frozen=True)
class Cell:
    """A figure of a table that stands out.

    Attributes:
        text: the figure.
        bold: it is the best of its column.
        raised: what stands above it to its right.
        room: what stands there in the longest of its column: the others leave as much room, so that figures stand below figures.
    """

    text: str
    bold: bool = False
    raised: str = ""
    room: str = ""

    @property
    def left_free(self) -> str:
        """What of the room is not filled."""
        return self.room[len(self.raised) :]


Row: TypeAlias = "Sequence[str | Cell]"


def html_table(caption: str, heads: Sequence[str], rows: Sequence[Row], words: Collection[int] = (0,)) -> str:
    """A table of HTML.

    Args:
        caption: what stands above it.
        heads: of the columns.
        rows: one text a head.
        words: the columns that are words; the others are figures, and stand to the right.
    """
    body = "".join(_html_row("td", [_html(cell) for cell in row], words) for row in rows)
    return _html_frame(caption, _html_row("th", [_html(head) for head in heads], words), body)


def _html_frame(caption: str, head: str, body: str) -> str:
    above = f'<caption style="text-align:left">{html.escape(caption)}</caption>' if caption else ""
    return f"<table>{above}<thead>{head}</thead><tbody>{body}</tbody></table>"


def _html(cell: str | Cell) -> str:
    if isinstance(cell, str):
        return html.escape(cell)
    text = f"<b>{html.escape(cell.text)}</b>" if cell.bold else html.escape(cell.text)
    hidden = f'<span style="visibility:hidden">{html.escape(cell.left_free)}</span>' if cell.left_free else ""
    return text + (f"<sup>{html.escape(cell.raised)}{hidden}</sup>" if cell.room else "")


def summary_as_html(rows: Sequence[SummaryRow], qualities: Mapping[str, DataQuality], notes: Sequence[str] = ()) -> str:
    """A table with a bar a mean: the line is from 0 to 1, or as far as the interval goes, the box the interval."""
    parts = []
    for mine, below in tables_to_show(rows, qualities):
        with_bars = bool(mine[0].interval_method)
        heads = headers(mine)
        if with_bars:
            heads.insert(3, "")
        lines = []
        for row, figures in zip(mine, cells(mine), strict=True):
            texts = [html.escape(text) for text in figures]
            if with_bars:
                texts.insert(3, _bar(row))
            lines.append(_html_row("td", texts))
        parts.append(_html_frame(title(mine[0]), _html_row("th", list(map(html.escape, heads))), "".join(lines)))
        parts += [html_line(words) for words in [*missing_intervals(mine), *below] if words]
    return f"<div>{''.join(parts)}{notes_as_html(notes)}</div>"


def notes_as_html(notes: Sequence[str]) -> str:
    """What figures could be taken for and are not, a line each."""
    return "".join(html_line(f"note  {note}") for note in notes)


def _html_row(tag: str, texts: Sequence[str], words: Collection[int] = (0,)) -> str:
    aligned = (
        f'<{tag} style="text-align:{"left" if index in words else "right"};white-space:nowrap">{text}</{tag}>'
        for index, text in enumerate(texts)
    )
    return f"<tr>{''.join(aligned)}</tr>"


def html_line(words: str) -> str:
    """A line below a table."""
    return f"<div>{html.escape(_sentence(words))}</div>"


def _sentence(words: str) -> str:
    """A line below a table; text sets what it is about apart by blanks, of which a page shows one."""
    about, gap, told = words.partition("  ")
    return f"{about}: {told.strip()}" if gap else words


def _bar(row: SummaryRow) -> str:
    if not math.isfinite(row.mean):
        return ""
    low, high = (row.mean, row.mean) if row.no_interval else (row.interval_low, row.interval_high)
    first, last = min(0.0, low), max(1.0, high)

    def place(value: float) -> float:
        return 100 * (value - first) / (last - first)

    said = f"{number(row.mean)} on a line from {number(first)} to {number(last)}"
    reach = f"left:{place(low):.2f}%;width:{place(high) - place(low):.2f}%"
    span = "" if row.no_interval else f'<span style="{_SPAN};{reach}"></span>'
    mark = f'<span style="{_MARK};left:{place(row.mean):.2f}%"></span>'
    return f'<span style="{_BAR}" title="{said}"><span style="{_LINE}"></span>{span}{mark}</span>'


def markdown_table(heads: Sequence[str], rows: Sequence[Row], words: Collection[int] = (0,)) -> str:
    """A table of GitHub's Markdown; arguments as of `html_table`."""
    rule = ["---" if index in words else "---:" for index in range(len(heads))]
    # Figures hold nothing that Markdown reads otherwise, but for brackets that are no links.
    body = [
        [_markdown(cell) if index in words else _marked_down(cell) for index, cell in enumerate(row)] for row in rows
    ]
    return "\n".join(f"| {' | '.join(texts)} |" for texts in [list(map(_markdown, heads)), rule, *body])


def _marked_down(cell: str | Cell) -> str:
    if isinstance(cell, str):
        return cell
    raised = f"<sup>{_markdown(cell.raised)}</sup>" if cell.raised else ""
    return (f"**{cell.text}**" if cell.bold else cell.text) + raised


def summary_as_markdown(rows: Sequence[SummaryRow], notes: Sequence[str] = ()) -> str:
    """A table of GitHub's Markdown for each model, and notes below."""
    tables = []
    for mine in by_model(rows):
        missing = [_markdown(words) for words in missing_intervals(mine)]
        table = [_markdown(title(mine[0])), "", markdown_table(headers(mine), cells(mine))]
        tables.append("\n".join([*table, *("" for _ in missing[:1]), *missing]))
    return "\n\n".join([*tables, *map(_markdown, notes)])


def markdown_page(caption: str, table: str, notes: Sequence[str]) -> str:
    """A table with its caption above, and lines below, each a paragraph."""
    return "\n\n".join([_markdown(caption), table, *(_markdown(_sentence(note)) for note in notes)])


def _markdown(text: str | Cell) -> str:
    plain = text if isinstance(text, str) else text.text
    return re.sub(r"([\\`*_{}\[\]<>&|#~$!])", r"\\\1", _one_line(plain))


def latex_tabular(heads: Sequence[str], rows: Sequence[Row], words: Collection[int] = (0,)) -> str:
    """A ``tabular``, which needs the package booktabs; arguments as of `html_table`."""
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{''.join('l' if index in words else 'r' for index in range(len(heads)))}}}",
            r"\toprule",
            _latex_row([_latex(head) for head in heads]),
            r"\midrule",
            *(
                _latex_row([_latex(cell) if index in words else _latex_figure(cell) for index, cell in enumerate(row)])
                for row in rows
            ),
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def latex_float(tabular: str, caption: str, label: str) -> str:
    r"""A ``table`` with a caption above its ``tabular``.

    Args:
        tabular: of `latex_tabular`.
        caption: plain text, not LaTeX.
        label: for ``\ref``; empty: none.
    """
    labelled = [rf"\label{{{label}}}"] * bool(label)
    return "\n".join(
        [r"\begin{table}", r"\centering", rf"\caption{{{_latex(caption)}}}", *labelled, tabular, r"\end{table}"]
    )


def latex_comments(lines: Sequence[str]) -> list[str]:
    """Lines that LaTeX does not read."""
    return [f"% {_one_line(_sentence(line))}" for line in lines]


def summary_as_latex(rows: Sequence[SummaryRow], notes: Sequence[str] = ()) -> str:
    """A ``tabular`` for each model, and notes as comments below."""
    tables = []
    for mine in by_model(rows):
        tabular = latex_tabular(headers(mine), cells(mine))
        above, below = latex_comments([title(mine[0])]), latex_comments(missing_intervals(mine))
        tables.append("\n".join([*above, tabular, *below]))
    return "\n\n".join([*tables, *latex_comments(notes)])


def _latex_row(texts: Sequence[str]) -> str:
    return " & ".join(texts) + r" \\"


def _latex_figure(cell: str | Cell) -> str:
    """Figures with the signs of mathematics."""
    if isinstance(cell, Cell):
        text = rf"\textbf{{{_latex_figure(cell.text)}}}" if cell.bold else _latex_figure(cell.text)
        hidden = rf"\phantom{{{_latex(cell.left_free)}}}" if cell.left_free else ""
        return text + (rf"\textsuperscript{{{_latex(cell.raised)}{hidden}}}" if cell.room else "")
    signs = re.sub(r"(?<![e\d])([-<])(?=\d)", r"$\1$", cell)
    return signs.replace("–", "--")


def _latex(text: str | Cell) -> str:
    plain = text if isinstance(text, str) else text.text
    return "".join(_LATEX.get(character, character) for character in _one_line(plain))


def _one_line(text: str) -> str:
    return " ".join(text.split())
