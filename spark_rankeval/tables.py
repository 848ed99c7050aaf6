"""Tables as data: what their columns, cells and notes are, and how figures are written in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

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
        """The same table without the columns of pictures."""
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
        """The same with the calls that show more, for those who can run them."""
        tables = (replace(table, notes=[note.with_call() for note in table.notes]) for table in self.tables)
        return Document(tuple(tables), tuple(note.with_call() for note in self.notes))


def text_column(heading: str, cell: Callable[[Item], Cell | str]) -> Column[Item]:
    """A column of text, flush left."""
    return Column(heading, cell, "words")


def remarks(texts: Iterable[str]) -> tuple[Note, ...]:
    """Texts as notes."""
    return tuple(Note(text, "note") for text in texts)
