"""The same data under several dialects as a table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from spark_rankeval.tables.numbers import DASH, in_one_format
from spark_rankeval.tables.table import Column, Table, words

if TYPE_CHECKING:
    from collections.abc import Sequence


class DialectRow(Protocol):
    """The fields of a row of a `DialectMap` that the table shows."""

    @property
    def metric(self) -> str: ...  # noqa: D102 # the map's row says it
    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def dialect(self) -> str: ...  # noqa: D102
    @property
    def mean(self) -> float: ...  # noqa: D102
    @property
    def difference(self) -> float: ...  # noqa: D102
    @property
    def n_users(self) -> int: ...  # noqa: D102
    @property
    def because(self) -> str: ...  # noqa: D102


def dialects_table(rows: Sequence[DialectRow], caption: str = "The same data under other dialects") -> Table:
    """One row for each metric and dialect, with the reasons why it differs."""
    mean = in_one_format(row.mean for row in rows)
    difference = in_one_format((row.difference for row in rows), sign="+")

    def if_known(row: DialectRow, text: str) -> str:
        return DASH if math.isnan(row.mean) and not row.n_users else text

    columns: list[Column[DialectRow]] = [
        words("metric", lambda row: row.name),
        words("dialect", lambda row: row.dialect),
        Column("mean", lambda row: if_known(row, mean(row.mean))),
        Column("difference", lambda row: if_known(row, difference(row.difference) if row.difference else "")),
        Column("users", lambda row: if_known(row, f"{row.n_users:,}")),
        Column("because", lambda row: row.because, "prose"),
    ]
    return Table(rows, columns, caption=caption, dash_means="the dialect has no value", is_grouped=True)
