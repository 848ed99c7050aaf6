"""A summary for notebooks and papers: HTML, Markdown and LaTeX. What a caller chose, such as labels, is escaped."""

from __future__ import annotations

import html
import math
import re
from typing import TYPE_CHECKING

from spark_rankeval.rendering import by_model, cells, headers, missing_intervals, number, tables_to_show, title

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from spark_rankeval.summary import DataQuality, SummaryRow

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


def summary_as_html(rows: Sequence[SummaryRow], qualities: Mapping[str, DataQuality], notes: Sequence[str] = ()) -> str:
    """A table with a bar a mean: the line is from 0 to 1, or as far as the interval goes, the box the interval."""
    parts = []
    for mine, below in tables_to_show(rows, qualities):
        with_bars = bool(mine[0].interval_method)
        heads = headers(mine)
        if with_bars:
            heads.insert(3, "")
        lines = [_html_row("th", map(html.escape, heads))]
        for row in mine:
            texts = [html.escape(text) for text in cells(row)]
            if with_bars:
                texts.insert(3, _bar(row))
            lines.append(_html_row("td", texts))
        parts.append(
            f'<table><caption style="text-align:left">{html.escape(title(mine[0]))}</caption>'
            f"<thead>{lines[0]}</thead><tbody>{''.join(lines[1:])}</tbody></table>"
        )
        parts += [_html_line(words) for words in [*missing_intervals(mine), *below] if words]
    return f"<div>{''.join(parts)}{notes_as_html(notes)}</div>"


def notes_as_html(notes: Sequence[str]) -> str:
    """What figures could be taken for and are not, a line each."""
    return "".join(_html_line(f"note  {note}") for note in notes)


def _html_row(tag: str, texts: Sequence[str] | map[str]) -> str:
    aligned = (
        f'<{tag} style="text-align:{"right" if index else "left"};white-space:nowrap">{text}</{tag}>'
        for index, text in enumerate(texts)
    )
    return f"<tr>{''.join(aligned)}</tr>"


def _html_line(words: str) -> str:
    """A line below a table; text sets what it is about apart by blanks, of which a page shows one."""
    about, gap, told = words.partition("  ")
    return f"<div>{html.escape(f'{about}: {told.strip()}' if gap else words)}</div>"


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


def summary_as_markdown(rows: Sequence[SummaryRow], notes: Sequence[str] = ()) -> str:
    """A table of GitHub's Markdown for each model, and notes below."""

    def line(texts: Sequence[str]) -> str:
        return f"| {' | '.join(texts)} |"

    tables = []
    for mine in by_model(rows):
        heads = headers(mine)
        body = [[_markdown(label), *figures] for label, *figures in map(cells, mine)]
        rule = ["---", *["---:"] * (len(heads) - 1)]
        missing = [_markdown(words) for words in missing_intervals(mine)]
        table = [_markdown(title(mine[0])), "", line(list(map(_markdown, heads))), line(rule), *map(line, body)]
        tables.append("\n".join([*table, *("" for _ in missing[:1]), *missing]))
    return "\n\n".join([*tables, *map(_markdown, notes)])


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>&|#~$!])", r"\\\1", _one_line(text))


def summary_as_latex(rows: Sequence[SummaryRow], notes: Sequence[str] = ()) -> str:
    """A ``tabular`` for each model, which needs the package booktabs, and notes as comments below."""
    tables = []
    for mine in by_model(rows):
        heads = headers(mine)
        body = [cells(row) for row in mine]
        tables.append(
            "\n".join(
                [
                    f"% {_one_line(title(mine[0]))}",
                    rf"\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}",
                    r"\toprule",
                    _latex_row(heads, _latex),
                    r"\midrule",
                    *(_latex_row(row, _latex_figure) for row in body),
                    r"\bottomrule",
                    r"\end{tabular}",
                    *(f"% {_one_line(words)}" for words in missing_intervals(mine)),
                ]
            )
        )
    return "\n\n".join([*tables, *(f"% {_one_line(note)}" for note in notes)])


def _latex_row(texts: Sequence[str], figure: Callable[[str], str]) -> str:
    first, *others = texts
    return " & ".join([_latex(first), *map(figure, others)]) + r" \\"


def _latex_figure(text: str) -> str:
    """Figures with the minus sign of mathematics."""
    return re.sub(r"(?<![e\d])-(?=\d)", "$-$", text).replace("–", "--")


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in _one_line(text))


def _one_line(text: str) -> str:
    return " ".join(text.split())
