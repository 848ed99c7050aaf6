"""The table of an audit, and its verdict in sentences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from spark_rankeval.tables.numbers import DASH, share
from spark_rankeval.tables.table import Cell, Column, Note, Table, words
from spark_rankeval.wording import listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_rankeval.records.audit import AuditRow, InvalidRows
    from spark_rankeval.tables.table import Tone

_TONES: dict[str, Tone] = {"none": "good", "leak": "bad"}


def audit_table(rows: Sequence[AuditRow], caption: str = "What training, labels and predictions share") -> Table:
    """A row for each check."""
    columns: list[Column[AuditRow]] = [
        words("check", lambda row: row.check.words),
        words("result", lambda row: Cell(row.result, tone=_TONES.get(row.result, ""))),
        Column("count", lambda row: DASH if row.not_checked else f"{row.n:,}"),
        Column("of", lambda row: DASH if row.not_checked else f"{row.of:,}"),
        Column("share", lambda row: DASH if math.isnan(row.share) else f"{row.share:.1%}"),
        Column("for example", _beside, "prose"),
    ]
    return Table(rows, columns, caption=caption, dash_means="not checked, or nothing to count among")


def _beside(row: AuditRow) -> str:
    return row.not_checked or "; ".join(map(example_in_words, row.examples))


def example_in_words(example: Mapping[str, Any]) -> str:
    """An example as messages write it.

    >>> example_in_words({"user": 1, "item": "a"})
    "user=1, item='a'"
    """
    return ", ".join(f"{name}={value!r}" for name, value in example.items())


def headline(rows: Sequence[AuditRow], invalid: Sequence[InvalidRows] = ()) -> str:
    """Whether anything leaked, in a sentence."""
    leaks = [row for row in rows if row.check.kind == "leak"]
    found = [row.check.words for row in leaks if row.result == "leak"]
    unchecked = [row.check.words for row in leaks if row.not_checked]
    if found:
        return f"Leaked: {listed(found)}."
    none = "No leak was found among the rows that can be used" if invalid else "No leak was found"
    if unchecked:
        return f"{none}, but {len(unchecked)} of {len(leaks)} checks for leaks could not be made."
    return f"{none}."


def left_out_in_words(invalid: Sequence[InvalidRows]) -> list[str]:
    """A sentence for each table on the rows that were left out."""
    return [
        f"Left out: {each.n:,} of {each.of:,} rows of {each.table}{share(each.n, each.of)} with {each.reason}. Leaks among them do "
        "not show."
        for each in invalid
    ]


def findings(rows: Sequence[AuditRow]) -> list[str]:
    """A paragraph on each check that found something: how many, what it means and what to do."""
    return [
        f"{row.check.words[0].upper()}{row.check.words[1:]}: {row.n:,} of {row.of:,} {row.check.of}{share(row.n, row.of)}. "
        f"{row.check.meaning} {row.check.advice}"
        for row in rows
        if row.result in ("leak", "problem", "note")
    ]


def unchecked_in_words(rows: Sequence[AuditRow]) -> list[str]:
    """A sentence for each reason why checks were not made."""
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        if row.not_checked:
            by_reason.setdefault(row.not_checked, []).append(row.check.words)
    return [f"Not checked, because {reason}: {listed(names)}." for reason, names in by_reason.items()]


def verdict_of(rows: Sequence[AuditRow], invalid: Sequence[InvalidRows] = ()) -> list[str]:
    """The verdict: the headline, what was left out, what was found, and what was not checked."""
    return [headline(rows, invalid), *left_out_in_words(invalid), *findings(rows), *unchecked_in_words(rows)]


def verdict_notes(rows: Sequence[AuditRow], invalid: Sequence[InvalidRows] = ()) -> tuple[Note, ...]:
    """The verdict as notes below a table."""
    return tuple(map(Note, verdict_of(rows, invalid)))
