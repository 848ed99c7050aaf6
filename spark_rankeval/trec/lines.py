r"""The lines of TREC's files: patterns that Python, Java and Rust read alike, and what is wrong with a line that does not fit.

Rust has no look-around, and its ``\s`` has all white space of Unicode.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

#: Numbers by the column's type: Python, C and Java read these alike. Every one of nine digits fits into 32 bits.
NUMBERS = {
    "double": r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:inf|infinity|nan))",
    "int": "[+-]?[0-9]{1,9}",
}
#: White space of C.
SPACES = " \t\v\f\r"
#: The same in a pattern.
SPACE = r"[ \t\n\x0B\f\r]"
# What fields hold, and what the first one begins with, because trec_eval 10 knows comments.
_FIELD, _BEGINNING = SPACE.replace("[", "[^"), SPACE.replace("[", "[^#")
#: The beginning of a line that is not empty and no comment.
SAYS_SOMETHING = f"^{SPACE}*{_BEGINNING}"
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
    def pattern(self) -> str:
        """A pattern of the whole lines that read."""
        fields = [NUMBERS[self.columns[name]] if name == self.number else f"{_FIELD}+" for name in self.fields]
        fields[0] = f"{_BEGINNING}{_FIELD}*"
        lines = [f"{SPACE}+".join(fields) + f"{SPACE}*"]
        if self.ordinal:
            fields[self.fields.index(self.ordinal)] = NUMBERS["int"]
            lines.append(f"{SPACE}+".join(fields) + f"{SPACE}(?s:.*)")
        return f"{SPACE}*(?:{'|'.join(lines)})"


def whole(pattern: str) -> str:
    r"""A pattern of a whole text, for Spark; ``$`` fits before a line separator as well, which may be part of a field.

    >>> whole("a|b")
    '^(?:a|b)\\z'
    """
    return rf"^(?:{pattern})\z"


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


def problem_of(line: str, form: Form) -> str:
    """What is wrong with a line that does not read."""
    text = line.strip(SPACES)
    shown = repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
    fields = re.findall(r"\S+", text, re.ASCII)
    # What Spark puts in the place of bytes that are no text.
    if "\ufffd" in text:
        return f"not UTF-8: {shown}"
    if len(fields) != len(form.fields):
        return f"{len(fields)} fields; a {form.name} has {len(form.fields)} ({' '.join(form.fields)}): {shown}"
    number = fields[form.fields.index(form.number)]
    return f"the {form.number} {number!r} is not a {_CALLED[form.columns[form.number]]}: {shown}"
