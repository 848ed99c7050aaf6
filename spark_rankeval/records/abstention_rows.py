"""The abstention curve of a metric as rows, and the table that shows it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import pandas as pd

from spark_rankeval.statistics.abstention import AbstentionAreas, areas_of
from spark_rankeval.table_writers import OneTable
from spark_rankeval.tables import Column, Document, Note, Table, number


@dataclass(frozen=True)
class AbstentionRow:
    """A point of an abstention curve.

    Attributes:
        rate: the share of users that is left out, those with the lowest confidence first.
        n_users: how many users are left.
        mean: their mean.
        oracle: the mean if those with the lowest values are left out first.
    """

    rate: float
    n_users: int
    mean: float
    oracle: float


@dataclass(frozen=True, repr=False)
class AbstentionCurve(OneTable):
    """The result of `abstention_curve`. It prints as a table.

    Examples:
        >>> users = score_users(predictions, labels, ["rr"], score="score").selectExpr("*", "user % 5 AS sure")
        >>> curve = abstention_curve(users, "rr", confidence="sure")
        >>> curve.to_pandas().round(3).tail(2)
           rate  n_users  mean  oracle
        8   0.8        2   0.5     1.0
        9   0.9        1   1.0     1.0

    Attributes:
        rows: the points, from rate 0 to 0.9.
        metric: the metric.
        confidence: the metric or column by which users are left out.
        n_users: the number of users that the curve is about.
        n_left_out: the number of users without a value of both.
    """

    rows: tuple[AbstentionRow, ...]
    metric: str
    confidence: str
    n_users: int
    n_left_out: int

    @property
    def areas(self) -> AbstentionAreas:
        """The areas under the curve, its oracle and a flat curve, and where the first lies between the others."""
        return areas_of([row.mean for row in self.rows], [row.oracle for row in self.rows])

    @property
    def area(self) -> float:
        """The area under the curve from rate 0 to 0.9."""
        return self.areas.area

    @property
    def normalised_area(self) -> float:
        """1 if the curve is the oracle's, 0 if confidence says nothing; it can be below 0."""
        return self.areas.normalised

    def to_pandas(self) -> pd.DataFrame:
        """A row for each point, with the columns of `AbstentionRow`."""
        return pd.DataFrame(map(vars, self.rows), columns=[item.name for item in fields(AbstentionRow)])

    def _on_paper(self) -> Document:
        columns: list[Column[Any]] = [
            Column("left out", lambda row: f"{row.rate:.0%}"),
            Column("users", lambda row: f"{row.n_users:,}"),
            Column(self.metric, lambda row: number(row.mean)),
            Column("oracle", lambda row: number(row.oracle)),
        ]
        areas = self.areas
        notes = [
            Note(f"{number(areas.area)}; oracle {number(areas.oracle)}; flat {number(areas.flat)}", "area"),
            Note(f"{number(areas.normalised)}: 1 is the oracle's, 0 that of a flat curve", "normalised area"),
        ]
        if self.n_left_out:
            notes.append(
                Note(f"{self.n_left_out:,} without a value of {self.metric} or {self.confidence} are left out", "users")
            )
        title = f"{self.metric} as users of low {self.confidence} are left out"
        return Document((Table(self.rows, columns, title, title, notes),))
