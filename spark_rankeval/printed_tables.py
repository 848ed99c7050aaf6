"""Tables as data, with their columns, cells and notes, and how they are written: as text, Markdown, HTML and LaTeX."""

from __future__ import annotations

import html
import json
import math
import re
import shutil
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

#: What stands in a cell that has no figure.
DASH = "–"
# Figures of a column have four places, or as many as the smallest needs; beyond these, all are powers of 10.
_PLACES, _MOST_PLACES, _TOO_LARGE = 4, 7, 1e9


def number(value: float) -> str:
    """A figure with four decimal places, or with powers of 10 if it is too small or too large for that."""
    if math.isnan(value):
        return "undefined"
    if value and (abs(value) < 1e-4 or abs(value) >= 1e6):
        return f"{value:.4e}"
    # Adding 0 takes the sign from a negative 0.
    return f"{value + 0.0:.4f}"


def common_format(values: Iterable[float], *, sign: Literal["", "+"] = "") -> Callable[[float], str]:
    """Choose one format for a column: enough decimal places that the smallest figure has two digits, or powers of 10.

    What is or rounds to 0 has no sign.

    >>> [common_format([0.5, 0.00012])(value) for value in (0.5, 0.00012, 0.0, math.nan)]
    ['0.50000', '0.00012', '0.00000', 'undefined']
    >>> [common_format([0.5, 3e-12], sign="+")(value) for value in (0.5, 3e-12)], common_format([0.5])(0.25)
    (['+5.0000e-01', '+3.0000e-12'], '0.2500')
    """
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    places = max(_PLACES, 1 - math.floor(math.log10(min(sizes)))) if sizes else _PLACES
    is_wide = places > _MOST_PLACES or (bool(sizes) and max(sizes) >= _TOO_LARGE)
    form = f"{sign}.{_PLACES}e" if is_wide else f"{sign}.{places}f"

    def format_value(value: float) -> str:
        if math.isnan(value):
            return "undefined"
        text = f"{value:{form}}"
        return text if float(text) else text.lstrip("+-")

    return format_value


def probability(p: float) -> str:
    """A p-value."""
    if math.isnan(p):
        return DASH
    return "<0.0001" if p < 1e-4 else f"{p:.4f}"


def share(count: int, total: int) -> str:
    """A blank and the share of a count in a total, in parentheses. Empty if either is 0."""
    return f" ({count / total:.1%})" if count and total else ""


Item = TypeVar("Item")
#: Words stand flush left, figures flush right. Prose is a last column of sentences, which may take several lines. A bar is a
#: picture, which writers of text leave out.
Kind: TypeAlias = Literal["words", "figures", "prose", "bar"]
Tone: TypeAlias = Literal["", "good", "bad"]


class Bar(NamedTuple):
    """A mean on a line, and the ends of its interval. They are NaN if there is no interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Cell:
    """The content of one row in one column.

    Writers escape the text. `raised` is a superscript after it. Pages show the tone as a colour.
    """

    text: str
    bold: bool = False
    raised: str = ""
    tone: Tone = ""
    bar: Bar | None = None


@dataclass(frozen=True)
class Column(Generic[Item]):
    """A column: its heading, the function that makes the cell of an item, and the kind of the cells."""

    heading: str
    cell: Callable[[Item], Cell | str]
    kind: Kind = "figures"


class Note(NamedTuple):
    """A sentence about a table, or about a word in it. The word then precedes the sentence.

    A call in Python may follow that shows more. Only sessions show it, because readers of files and logs cannot run it.
    """

    text: str
    about: str = ""
    call: str = ""

    @property
    def sentence(self) -> str:
        """The word and its explanation."""
        return f"{self.about}: {self.text}" if self.about else self.text

    def with_call(self) -> Note:
        """The note with its call as a part of the text."""
        return Note(f"{self.text}; {self.call}", self.about) if self.call else self


@dataclass(frozen=True)
class Table:
    """A table, described by its content.

    Attributes:
        items: the objects that the rows describe, one for each row.
        columns: the columns from left to right.
        title: the line above the table in text.
        caption: the caption in all other formats.
        notes: the notes below the table.
        bold_means: the meaning of bold cells, which text marks with a star. Empty if no cell is bold.
        dash_means: the meaning of a dash.
        is_grouped: whether text omits repeated words in the first column.
    """

    items: Sequence[Any]
    columns: Sequence[Column[Any]]
    title: str = ""
    caption: str = ""
    notes: Sequence[Note] = ()
    bold_means: str = ""
    dash_means: str = "not known"
    is_grouped: bool = False

    @cached_property
    def rows(self) -> list[list[Cell]]:
        """The cells of each row."""
        contents = ([column.cell(item) for column in self.columns] for item in self.items)
        return [[Cell(each) if isinstance(each, str) else each for each in row] for row in contents]

    def without_bars(self) -> Table:
        """This table without the columns of pictures."""
        return replace(self, columns=[column for column in self.columns if column.kind != "bar"])

    def longest_raised(self) -> list[str]:
        """The longest superscript of each column. Other cells leave as much room, so that figures are aligned."""
        places = range(len(self.columns))
        return [max((row[place].raised for row in self.rows), key=len, default="") for place in places]


class Document(NamedTuple):
    """Several tables, and the notes below all of them."""

    tables: tuple[Table, ...]
    notes: tuple[Note, ...] = ()

    def parts(self) -> Iterator[Table | str]:
        """The tables, each followed by its notes as sentences, and then the notes on all tables."""
        for table in self.tables:
            yield table
            yield from (note.sentence for note in table.notes)
        yield from (note.sentence for note in self.notes)

    def with_calls(self) -> Document:
        """This document with the calls that show more, for those who can run them."""
        tables = (replace(table, notes=[note.with_call() for note in table.notes]) for table in self.tables)
        return Document(tuple(tables), tuple(note.with_call() for note in self.notes))


def text_column(heading: str, cell: Callable[[Item], Cell | str]) -> Column[Item]:
    """A column of text, flush left."""
    return Column(heading, cell, "words")


def remarks(texts: Iterable[str]) -> tuple[Note, ...]:
    """Texts as notes."""
    return tuple(Note(text, "note") for text in texts)


def on_one_line(text: str) -> str:
    """A text without line breaks and repeated blanks."""
    return " ".join(text.split())


# What would begin a line, or tell a terminal to do something.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


# If nothing says how wide the page is.
_WIDTH = 140
_NARROWEST_PROSE = 40
# Explanations stand below one another, behind the words that they explain; longer words than these stick out.
_SHORTEST_WORD, _LONGEST_WORD = 5, 8


def as_text(document: Document) -> str:
    """Tables one below the other, each followed by its notes."""
    return "\n".join(["\n\n".join(map(_text_table, document.tables)), *_explained(document.notes)])


def _text_table(table: Table) -> str:
    lines = [_CONTROL.sub(" ", table.title)] if table.title else []
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
    lines = [f"{note.about.ljust(width)}  {note.text}" if note.about else note.text for note in notes]
    return [_CONTROL.sub(" ", line) for line in lines]


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
        lines = _with_prose(lines, sentences)
    return [line.rstrip() for line in lines]


def _padded(texts: list[str], kind: Kind) -> list[str]:
    texts = [_CONTROL.sub(" ", text) for text in texts]
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


def _with_prose(lines: Sequence[str], sentences: Sequence[str]) -> list[str]:
    """Lines with sentences to their right. A sentence may take several lines."""
    indent = len(lines[0]) + 2
    room = max(_NARROWEST_PROSE, shutil.get_terminal_size(fallback=(_WIDTH, 1)).columns - indent)
    wrapped = []
    for line, sentence in zip(lines, sentences, strict=True):
        first, *more = textwrap.wrap(sentence, room) or [""]
        wrapped += [f"{line}  {first}", *(" " * indent + line for line in more)]
    return wrapped


_MEANINGFUL = re.compile(r"([\\`*_{}\[\]<>&|#~$!])")
# Brackets of intervals are no links.
_MEANINGFUL_IN_FIGURES = re.compile(r"([\\`*_{}<>&|#~$!])")


def as_markdown(document: Document) -> str:
    """Tables with captions above and notes below. Each caption and note is a paragraph."""
    return "\n\n".join(
        _escaped_markdown(part) if isinstance(part, str) else _markdown_table(part) for part in document.parts()
    )


def _markdown_table(table: Table) -> str:
    table = table.without_bars()
    kinds = [column.kind for column in table.columns]
    head = [_escaped_markdown(column.heading) for column in table.columns]
    rule = ["---:" if kind == "figures" else "---" for kind in kinds]
    body = [[_markdown_cell(cell, kind) for cell, kind in zip(row, kinds, strict=True)] for row in table.rows]
    lines = [f"| {' | '.join(texts)} |" for texts in [head, rule, *body]]
    return f"{_escaped_markdown(table.caption)}\n\n" + "\n".join(lines)


def _markdown_cell(cell: Cell, kind: Kind) -> str:
    text = _escaped_markdown(cell.text, _MEANINGFUL_IN_FIGURES if kind == "figures" else _MEANINGFUL)
    text = f"**{text}**" if cell.bold else text
    return f"{text}<sup>{_escaped_markdown(cell.raised)}</sup>" if cell.raised else text


def _escaped_markdown(text: str, meaningful: re.Pattern[str] = _MEANINGFUL) -> str:
    return meaningful.sub(r"\\\1", on_one_line(text))


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
    parts = [
        f"<div>{html.escape(part)}</div>" if isinstance(part, str) else _html_table(part) for part in document.parts()
    ]
    return f"<div>{''.join(parts)}</div>"


def _html_table(table: Table) -> str:
    caption = (
        f'<caption style="text-align:left;padding-top:0.8em">{html.escape(table.caption)}</caption>'
        if table.caption
        else ""
    )
    head = "".join(_tag("th", html.escape(column.heading), column.kind) for column in table.columns)
    rooms = table.longest_raised()
    body = ""
    for row in table.rows:
        cells = zip(row, rooms, table.columns, strict=True)
        body += f"<tr>{''.join(_tag('td', _html_cell(cell, room), column.kind) for cell, room, column in cells)}</tr>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _tag(tag: str, content: str, kind: Kind) -> str:
    return f'<{tag} style="{_STYLES[kind]}">{content}</{tag}>'


def _html_cell(cell: Cell, room: str) -> str:
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
    caption = _escaped_latex(table.caption if caption is None else caption)
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
    head = _latex_line([_escaped_latex(column.heading) for column in table.columns])
    rows = [_latex_line(list(map(_latex_cell, row, kinds, rooms))) for row in table.rows]
    lines = [rf"\begin{{tabular}}{{{sides}}}", r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"]
    return "\n".join(lines)


def _latex_line(texts: Sequence[str]) -> str:
    return " & ".join(texts) + r" \\"


def _latex_cell(cell: Cell, kind: Kind, room: str) -> str:
    text = _figure(cell.text) if kind == "figures" else _escaped_latex(cell.text)
    text = rf"\textbf{{{text}}}" if cell.bold else text
    free = room[len(cell.raised) :]
    hidden = rf"\phantom{{{_escaped_latex(free)}}}" if free else ""
    return text + (rf"\textsuperscript{{{_escaped_latex(cell.raised)}{hidden}}}" if room else "")


def _figure(text: str) -> str:
    """A figure with the signs of LaTeX's mathematics mode."""
    escaped = _escaped_latex(text, _ESCAPES_IN_FIGURES)
    return re.sub(r"(?<![e\d])(-|\\textless\{\})(?=\d)", lambda sign: _SIGNS[sign[0]], escaped)


def _escaped_latex(text: str, escapes: dict[str, str] = _ESCAPES) -> str:
    return "".join(escapes.get(character, character) for character in on_one_line(text))


def _comments(notes: Iterable[Note]) -> list[str]:
    return [_comment(note.sentence) for note in notes]


def _comment(text: str) -> str:
    return f"% {on_one_line(text)}"


class _Sentence(Protocol):
    @property
    def sentence(self) -> Any: ...  # a text; of a `Part` of a row mypy sees no more


Verdict = TypeVar("Verdict", bound=_Sentence)


class Shown(ABC):
    """Tables that print as text. Notebooks show them as HTML, and `to_markdown` writes them for pages."""

    @abstractmethod
    def _on_paper(self) -> Document:
        """The tables for pages and papers."""

    def _on_screen(self) -> Document:
        """The tables for terminals and notebooks."""
        return self._on_paper()

    def to_markdown(self) -> str:
        """The tables in GitHub's Markdown, with captions above and notes below."""
        return as_markdown(self._on_paper())

    def to_text(self) -> str:
        """The tables as text for logs and messages: what `print` shows, without the Python calls that show more."""
        return as_text(self._on_screen())

    def to_latex(self) -> str:
        """The tables in LaTeX: a ``tabular`` each, for the package ``booktabs``. Captions and notes become comments."""
        return as_latex(self._on_paper())

    def __repr__(self) -> str:
        return as_text(self._on_screen().with_calls())

    def _repr_html_(self) -> str:
        return as_html(self._on_screen().with_calls())


class Verdicts(Shown, Generic[Verdict]):
    """Rows that each say in a sentence what they found.

    Attributes:
        rows: the rows, in the order to show them.
    """

    rows: tuple[Verdict, ...]

    @property
    def sentences(self) -> list[str]:
        """What every row found, in a sentence."""
        return [str(row.sentence) for row in self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.rows)


# So many slices a screen has.
_MOST_SLICES = 12


class Sliced(Shown):
    """Tables of each slice. A screen has the first of them."""

    @property
    @abstractmethod
    def slices(self) -> list[str]:
        """The names of the slices; ``all`` comes first."""

    @abstractmethod
    def _document(self, slices: Sequence[str], *more: Note) -> Document:
        """The tables of some slices, with more notes."""

    def _on_paper(self) -> Document:
        return self._document(self.slices)

    def _on_screen(self) -> Document:
        n_left_out = len(self.slices) - _MOST_SLICES
        more = [Note(f"{n_left_out:,} more slices are not shown: to_pandas() has them all")] if n_left_out > 0 else []
        return self._document(self.slices[:_MOST_SLICES], *more)


class Plain(ABC):
    """What can be written as plain values, and so as JSON."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain values; NaN becomes None."""

    def to_json(self, indent: int | None = 2) -> str:
        """The values of `to_dict` as JSON; NaN becomes null."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)


class OneTable(Shown):
    """A single table, which can also be written in LaTeX with a caption."""

    def to_latex(self, *, caption: str | None = None, label: str = "") -> str:
        r"""A LaTeX ``table`` with a caption. Notes become comments. The ``tabular`` needs the package ``booktabs``.

        Args:
            caption: plain text, which is escaped. None (default): a sentence on the content of the table.
            label: the label for ``\ref``. Empty (default): no label.
        """
        return as_float(self._on_paper(), caption, label)
