"""The lines of TREC's files: patterns that Python and Java read alike, and what is wrong with a line that does not fit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Numbers by the column's type: Python, C and Java read these alike. Every one of nine digits fits into 32 bits.
NUMBERS = {
    "double": r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:inf|infinity|nan))",
    "int": "[+-]?[0-9]{1,9}",
}
#: White space of C.
SPACES = " \t\v\f\r"
#: A line that is not empty and no comment; trec_eval 10 knows comments.
SAYS_SOMETHING = r"^\s*[^\s#]"
#: The end of a text. ``$`` fits before a line separator as well, which may be part of a field.
END = r"(?![\s\S])"
_CALLED = {"double": "number", "int": "whole number of at most nine digits"}
_SHOWN = 80


@dataclass(frozen=True, eq=False)
class Form:
    """A kind of file.

    Attributes:
        name: what it is called.
        fields: what a line holds, in order.
        columns: the fields that are kept, with the types of Spark.
        number: the field that must be a number.
        ordinal: the field that must be a whole number if a line has more fields. trec_eval ignores these; without this check an
            item with a space would shift the fields unseen.
    """

    name: str
    fields: tuple[str, ...]
    columns: Mapping[str, str]
    number: str
    ordinal: str = ""

    @cached_property
    def plain(self) -> str:
        """A pattern of most lines that read: ASCII with single blanks, which is quick to see and to split."""
        return f"^(?!#){' '.join(self._patterns('[!-~]+'))}{END}"

    @cached_property
    def any(self) -> str:
        """A pattern of all lines that read."""
        patterns = self._patterns(r"\S+")
        lines = [r"\s+".join(patterns) + r"\s*" + END]
        if self.ordinal:
            patterns[self.fields.index(self.ordinal)] = NUMBERS["int"]
            lines.append(r"\s+".join(patterns) + r"\s")
        return rf"^\s*(?!#)(?:{'|'.join(lines)})"

    def _patterns(self, text: str) -> list[str]:
        return [NUMBERS[self.columns[name]] if name == self.number else text for name in self.fields]


#: What a system retrieved: ``301 Q0 FR940202-2-00150 104 2.129133 STANDARD``.
RUN = Form(
    name="run",
    fields=("query", "Q0", "item", "rank", "score", "model"),
    columns={"query": "string", "item": "string", "rank": "int", "score": "double", "model": "string"},
    number="score",
    ordinal="rank",
)
#: What assessors judged: ``301 0 CR93E-10279 0``.
QRELS = Form(
    name="qrels",
    fields=("query", "iteration", "item", "grade"),
    columns={"query": "string", "iteration": "string", "item": "string", "grade": "int"},
    number="grade",
)

#: What assessors of diversity judged for each subtopic: ``301 2 CR93E-10279 0``.
DIVERSITY_QRELS = Form(
    name="qrels",
    fields=("query", "subtopic", "item", "grade"),
    columns={"query": "string", "subtopic": "string", "item": "string", "grade": "int"},
    number="grade",
)


def problem_of(line: bytes, form: Form) -> str | None:
    """What is wrong with a line without its end; None if it reads, is empty or a comment."""
    text = line.decode("utf-8", "replace").strip(SPACES)
    if not re.match(SAYS_SOMETHING, text, re.ASCII):
        return None
    shown = repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
    if text.encode() != line.strip(SPACES.encode()):
        return f"not UTF-8: {shown}"
    if re.match(form.any, text, re.ASCII):
        return None
    fields = re.findall(r"\S+", text, re.ASCII)
    if len(fields) != len(form.fields):
        return f"{len(fields)} fields; a {form.name} has {len(form.fields)} ({' '.join(form.fields)}): {shown}"
    number = fields[form.fields.index(form.number)]
    return f"the {form.number} {number!r} is not a {_CALLED[form.columns[form.number]]}: {shown}"
