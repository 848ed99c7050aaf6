"""Lines of TREC's files to columns: the one reader of what a line holds, in whichever way it comes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What Python, C and Java agree to be a number; without it Arrow would refuse a whole column for one entry.
_NUMBER = r"(?i)^[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?|nan)$"
_WHOLE = r"^[+-]?\d{1,9}$"
_SHOWN = 80


@dataclass(frozen=True)
class Form:
    """A kind of file.

    Attributes:
        name: what it is called.
        fields: what a line holds, in order.
        columns: what is kept of it, by name with the type in Arrow.
        number: the field that must be a number.
        ordinal: the field that is a whole number where more fields follow than there should be: trec_eval passes over these,
            and so it is done here unless the fields before are shifted, as by an item's name with a space.
        comment: what a line begins with that says nothing; trec_eval 10 knows such lines.
    """

    name: str
    fields: tuple[str, ...]
    columns: Mapping[str, pa.DataType]
    number: str
    ordinal: str = ""
    comment: str = "#"

    def schema(self) -> str:
        """The columns as Spark spells them."""
        names = {pa.string(): "string", pa.int32(): "int", pa.float64(): "double"}
        return ", ".join(f"{name} {names[kind]}" for name, kind in self.columns.items())


#: What a system retrieved: ``301 Q0 FR940202-2-00150 104 2.129133 STANDARD``.
RUN = Form(
    "run",
    ("query", "Q0", "item", "rank", "score", "model"),
    {"query": pa.string(), "item": pa.string(), "rank": pa.int32(), "score": pa.float64(), "model": pa.string()},
    "score",
    "rank",
)
#: What assessors judged: ``301 0 CR93E-10279 0``.
QRELS = Form(
    "qrels",
    ("query", "iteration", "item", "grade"),
    {"query": pa.string(), "iteration": pa.string(), "item": pa.string(), "grade": pa.int32()},
    "grade",
)


class Parsed(NamedTuple):
    """What lines hold, without those that are empty or comments.

    Attributes:
        place: int64, which of the lines each row is.
        columns: those of the form; of a line that does not read all are null but the first field, the query.
        problem: what is wrong with a line; null where nothing is.
    """

    place: np.ndarray[tuple[int], np.dtype[np.int64]]
    columns: dict[str, pa.Array]
    problem: pa.Array


def parse(lines: pa.Array, form: Form) -> Parsed:
    """Read lines.

    Args:
        lines: binary, without their ends.
        form: what they are said to hold.
    """
    text, garbled = _decoded(lines)
    text = pc.ascii_trim_whitespace(text)
    says = pc.and_(pc.greater(pc.binary_length(text), 0), pc.invert(pc.starts_with(text, form.comment)))
    place = np.flatnonzero(says.to_numpy(zero_copy_only=False))
    text = _only(text, says)
    fields = pc.ascii_split_whitespace(text)
    n_fields = pc.list_value_length(fields)
    more = pc.greater(n_fields, len(form.fields)).to_numpy(zero_copy_only=False)
    if form.ordinal and more.any():
        fields = pc.list_slice(fields, 0, len(form.fields))
    whole = pc.equal(pc.list_value_length(fields), len(form.fields)).to_numpy(zero_copy_only=False) & ~garbled[place]
    # One field of all whole lines stands at every so manieth place of all their fields; a line that is not whole has none.
    flat = _only(fields, pa.array(whole)).flatten()
    row = pa.array(np.cumsum(whole) - 1, mask=~whole)
    given = {}
    for index, name in enumerate(form.fields):
        values = flat.take(pa.array(np.arange(index, len(flat), len(form.fields))))
        given[name] = values if len(values) == len(row) else values.take(row)
    reads = _matches(given[form.number], _NUMBER if pa.types.is_floating(form.columns[form.number]) else _WHOLE)
    if form.ordinal:
        reads &= ~more | _matches(given[form.ordinal], _WHOLE)
    columns = {name: _typed(given[name], kind, keep=reads) for name, kind in form.columns.items()}
    columns["query"] = pc.list_element(fields, 0) if len(fields) else columns["query"]
    problems = np.full(len(place), None, object)
    for index in np.flatnonzero(~reads).tolist():
        problems[index] = _problem(form, text[index].as_py(), n_fields[index].as_py(), bool(garbled[place[index]]))
    return Parsed(place, columns, pa.array(problems, pa.string()))


def _only(values: pa.Array, wanted: pa.Array) -> pa.Array:
    """Some of the values; lists and texts are copied only where some are left out."""
    return values if pc.all(wanted, min_count=0).as_py() else values.filter(wanted)


def _decoded(lines: pa.Array) -> tuple[pa.Array, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """The lines as text, and which of them are not UTF-8."""
    garbled = np.zeros(len(lines), np.bool_)
    try:
        return pc.cast(lines, pa.string()), garbled
    except pa.ArrowInvalid:
        texts = [line.decode("utf-8", "replace") for line in lines.to_pylist()]
        garbled[:] = [text.encode() != line for text, line in zip(texts, lines.to_pylist(), strict=True)]
        return pa.array(texts, pa.string()), garbled


def _matches(given: pa.Array, pattern: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which texts a pattern fits; nulls are none."""
    found: np.ndarray[tuple[int], np.dtype[np.bool_]]
    found = pc.fill_null(pc.match_substring_regex(given, pattern), False).to_numpy(zero_copy_only=False).copy()
    return found


def _typed(given: pa.Array, kind: pa.DataType, keep: np.ndarray[Any, Any]) -> pa.Array:
    """A field in its type; null where a line is not kept, or where a rank, which nobody is ranked by, is no whole number."""
    if pa.types.is_integer(kind):
        keep = keep & _matches(given, _WHOLE)
    kept = given if keep.all() else pc.if_else(pa.array(keep), given, pa.scalar(None, pa.string()))
    # A sign before a number is fine with everyone but Arrow.
    return kept if pa.types.is_string(kind) else pc.cast(pc.utf8_ltrim(kept, characters="+"), kind)


def _problem(form: Form, text: str, n_fields: int, garbled: bool) -> str:
    shown = repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
    if garbled:
        return f"not UTF-8: {shown}"
    if n_fields != len(form.fields):
        return f"{n_fields} fields, where a {form.name} has {len(form.fields)} ({' '.join(form.fields)}): {shown}"
    number = text.split()[form.fields.index(form.number)]
    kind = "number" if pa.types.is_floating(form.columns[form.number]) else "whole number of at most nine digits"
    return f"the {form.number} {number!r} is no {kind}: {shown}"
