"""A table as data: what its columns, cells and notes are, whatever writes them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Item = TypeVar("Item")
#: Words stand flush left, figures flush right. Prose is a last column of sentences, which may take several lines. A bar is a
#: picture, which writers of text leave out.
Kind: TypeAlias = Literal["words", "figures", "prose", "bar"]
Tone: TypeAlias = Literal["", "good", "bad"]


class Bar(NamedTuple):
    """A mean on a line, and the ends of its interval; NaN: there is none."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Cell:
    """What stands in a row and column.

    Writers escape the text. Raised is what stands above it to its right; pages show the tone by a colour.
    """

    text: str
    bold: bool = False
    raised: str = ""
    tone: Tone = ""
    bar: Bar | None = None


@dataclass(frozen=True)
class Column(Generic[Item]):
    """A column: what stands above it, what it says of an item, and of what kind that is."""

    heading: str
    cell: Callable[[Item], Cell | str]
    kind: Kind = "figures"


class Note(NamedTuple):
    """A sentence about a table, or about a word in it, which then stands before it."""

    text: str
    about: str = ""

    @property
    def sentence(self) -> str:
        """The word and its explanation."""
        return f"{self.about}: {self.text}" if self.about else self.text


@dataclass(frozen=True)
class Table:
    """A table, by what stands in it.

    Attributes:
        items: what the rows are about.
        columns: from left to right.
        title: what stands above it in text.
        caption: what it shows, in all other forms.
        notes: what stands below it.
        bold_means: what bold cells are, which text marks by a star; empty: nothing is bold.
        dash_means: what a dash is.
        is_grouped: whether text leaves repeats in the first column out.
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
        """The same table without the columns that are pictures."""
        return replace(self, columns=[column for column in self.columns if column.kind != "bar"])

    def longest_raised(self) -> list[str]:
        """The longest raised text of each column: other cells leave as much room, so that figures stand below figures."""
        places = range(len(self.columns))
        return [max((row[place].raised for row in self.rows), key=len, default="") for place in places]


class Document(NamedTuple):
    """Tables that stand together, and what stands below all of them."""

    tables: tuple[Table, ...]
    notes: tuple[Note, ...] = ()

    def parts(self) -> Iterator[Table | str]:
        """The tables and, behind each and behind all, their notes as sentences."""
        for table in self.tables:
            yield table
            yield from (note.sentence for note in table.notes)
        yield from (note.sentence for note in self.notes)


def words(heading: str, cell: Callable[[Item], Cell | str]) -> Column[Item]:
    """A column of words."""
    return Column(heading, cell, "words")


def remarks(texts: Iterable[str]) -> tuple[Note, ...]:
    """Texts as notes."""
    return tuple(Note(text, "note") for text in texts)


def on_one_line(text: str) -> str:
    """A text without breaks of lines and repeated blanks."""
    return " ".join(text.split())
