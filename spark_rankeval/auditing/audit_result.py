"""The result of an audit: counts by check, a verdict, tables, and limits that the counts must keep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pandas as pd

from spark_rankeval.checks import is_number
from spark_rankeval.errors import OptionError, did_you_mean
from spark_rankeval.records.audit_rows import CHECK_OF, AuditRow, InvalidRows
from spark_rankeval.report.contents import Gate
from spark_rankeval.tables.result_tables import audit_table, example_in_words, verdict_notes, verdict_of
from spark_rankeval.tables.table import Document
from spark_rankeval.tables.writers import OneTable


@dataclass(frozen=True, repr=False)
class Audit(OneTable):
    """The result of `audit`. It prints as a table with a verdict below.

    Examples:
        >>> audited = audit(training, labels)
        >>> audited["cold_label_users"].n, audited["cold_label_users"].of
        (1, 8)
        >>> print(audited.verdict.splitlines()[0])
        Leaked: labels that training also has.

    Attributes:
        rows: the count of each check, those of leaks first.
        invalid: the rows that were left out, by table, if ``on_invalid="drop"`` left out any.
    """

    rows: tuple[AuditRow, ...]
    invalid: tuple[InvalidRows, ...] = ()

    def __getitem__(self, name: str) -> AuditRow:
        """The count of a check by its name; `OptionError` if there is no such check."""
        check_known([name], "no check is called")
        return next(row for row in self.rows if row.name == name)

    @property
    def n_invalid(self) -> dict[str, int]:
        """How many rows of each table were left out; no table whose rows can all be used."""
        return {each.table: each.n for each in self.invalid}

    @property
    def leaked(self) -> bool:
        """Whether a check for leaks found any. False does not say that all could be made: see `verdict`."""
        return any(row.result == "leak" for row in self.rows)

    @property
    def verdict(self) -> str:
        """What was found, what it means and what to do: a line for each check that found something, the headline first."""
        return "\n".join(verdict_of(self.rows, self.invalid))

    def check(self, limits: Mapping[str, float]) -> list[Gate]:
        """Compare shares with limits: a gate for each limit, which `Result.report` shows and a job makes its exit code of.

        A check that was not made fails, because nobody knows its share.

        Examples:
            >>> [(gate.name, gate.found, gate.passed) for gate in audit(training, labels).check({"cold_label_users": 0.1})]
            [('users with labels but without training rows', '12.5% (1 of 8)', False)]

        Args:
            limits: the largest share that passes, from 0 to 1, by the name of the check.

        Raises:
            OptionError: there is no such check, or a limit is not such a share.
        """
        check_limits(limits)
        return [_gate(self[name], limit) for name, limit in limits.items()]

    def to_pandas(self) -> pd.DataFrame:
        """A row for each check: its name, result, count, total, share, examples, and the reason if it was not made."""
        return pd.DataFrame(
            [{**_plain(row), "examples": "; ".join(map(example_in_words, row.examples))} for row in self.rows]
        )

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """The counts as plain values by the names of checks, without examples; a share that is undefined is None.

        ``n_invalid`` has the rows that were left out, by table: how many, of how many, and why.
        """
        invalid = {each.table: {"n": each.n, "of": each.of, "reason": each.reason} for each in self.invalid}
        return {**{row.name: _plain(row) for row in self.rows}, "n_invalid": invalid}

    def _on_paper(self) -> Document:
        return Document((audit_table(self.rows),), verdict_notes(self.rows, self.invalid))


def _plain(row: AuditRow) -> dict[str, Any]:
    return {
        "check": row.name,
        "result": row.result,
        "n": row.n,
        "of": row.of,
        "share": None if math.isnan(row.share) else row.share,
        "not_checked": row.not_checked,
    }


def check_limits(limits: object) -> None:
    """Refuse limits of unknown checks, and those that are no share."""
    if not isinstance(limits, Mapping):
        msg = f"limits must be a dict of shares by the names of checks; got {limits!r}"
        raise OptionError(msg)
    check_known(list(limits), "limits: no check is called")
    for name, limit in limits.items():
        if not (is_number(limit) and 0 <= limit <= 1):
            msg = f"limits: {name} must be a share from 0 to 1; got {limit!r}"
            raise OptionError(msg)


def check_known(names: Sequence[object], problem: str) -> None:
    """Refuse names of no check."""
    for name in names:
        if name not in CHECK_OF:
            msg = f"{problem} {name!r}; {did_you_mean(name, CHECK_OF)}available: {', '.join(CHECK_OF)}"
            raise OptionError(msg)


def _gate(row: AuditRow, limit: float) -> Gate:
    found = (
        f"not checked: {row.not_checked}" if row.not_checked else f"{100 * row.share:.3g}% ({row.n:,} of {row.of:,})"
    )
    # 3 of 100 meets a limit of 0.03, which is less than 3 / 100 in binary fractions.
    passed = not row.not_checked and row.n <= Fraction(repr(float(limit))) * row.of
    return Gate(row.check.words, f"share at most {limit:.6g}", found, passed)
