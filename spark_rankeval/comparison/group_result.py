"""The result of comparing groups of different users: a table to print, rows by name, sentences."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from spark_rankeval.errors import UnknownMetricError, did_you_mean
from spark_rankeval.records.comparison import rows_of_metric
from spark_rankeval.records.flat_rows import as_json_record, frame_of
from spark_rankeval.records.groups import GroupRow
from spark_rankeval.tables.groups import groups_table
from spark_rankeval.tables.shown import OneTable
from spark_rankeval.tables.table import Document, remarks

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from spark_rankeval.metrics.base import Metric


@dataclass(frozen=True, repr=False)
class GroupComparison(OneTable):
    """The result of `compare_groups`. It prints as a table.

    Examples:
        >>> trial["rr"].verdict, trial["rr", "FR"].n_users
        ('undecided', 4)
        >>> trial.to_pandas()[["metric", "group", "baseline", "difference", "p"]].round(3)
          metric group baseline  difference      p
        0     rr    FR       DE       -0.25  0.666

    Attributes:
        rows: the rows, metric by metric.
        baseline: the group that the others are compared with.
        level: the confidence level of the intervals; a corrected p of at most 1 − level counts as a difference.
        correction: how p-values are corrected for the number of metrics × groups.
        covariate: the column by which means are adjusted, or None.
        sequential: whether intervals and p-values hold at all looks together.
        tightest_at: the number of users at which such intervals are tightest, or None.
        weights: the columns of users' weights; empty if each user counts the same.
        notes: what the figures could be mistaken for, in sentences.
    """

    rows: tuple[GroupRow, ...]
    baseline: str
    level: float
    correction: str
    covariate: str | None = None
    sequential: bool = False
    tightest_at: int | None = None
    weights: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def sentences(self) -> list[str]:
        """The verdict of every row in a sentence."""
        return [row.sentence for row in self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[GroupRow]:
        """The rows, metric by metric."""
        return iter(self.rows)

    def __getitem__(self, key: str | Metric | tuple[str | Metric, str]) -> GroupRow:
        """The row of a metric; with several groups also name the group, as in ``trial["ndcg@10", "treatment"]``.

        Raises `UnknownMetricError` unless exactly one row matches.
        """
        metric, *groups = key if isinstance(key, tuple) else (key,)
        rows = [row for row in rows_of_metric(self.rows, metric) if set(groups) <= {row.group}]
        if len(rows) == 1:
            return rows[0]
        what = "several rows match" if rows else "no row matches"
        near = "" if rows else did_you_mean(metric, dict.fromkeys(row.metric for row in self.rows))
        known = ", ".join(repr((row.metric, row.group)) for row in rows or self.rows)
        raise UnknownMetricError(f"{what} {key!r}; {near}available: {known}")

    def to_pandas(self) -> pd.DataFrame:
        """A row for each metric and group, with the columns of `GroupRow`."""
        return frame_of(self.rows, GroupRow)

    def to_dict(self) -> dict[str, Any]:
        """The rows and the options as plain values; NaN and infinities become None."""
        options = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "rows"}
        rows = [as_json_record(row) for row in self.rows]
        return {"rows": rows, **options, "weights": list(self.weights), "notes": list(self.notes)}

    def to_json(self, indent: int | None = 2) -> str:
        """The rows and the options as JSON; NaN becomes null."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def _on_paper(self) -> Document:
        table = groups_table(
            self.rows,
            self.baseline,
            self.level,
            correction=self.correction,
            covariate=self.covariate,
            tightest_at=self.tightest_at,
            weights=self.weights,
        )
        return Document((table,), remarks(self.notes))
