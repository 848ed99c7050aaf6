"""The gaps between slices of a result: their rows as tables, sentences and DataFrames."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_rankeval.checks import as_names, is_number
from spark_rankeval.errors import USER, OptionError
from spark_rankeval.records.gaps import LARGEST_GAP, GapRow, gap_rows, gaps_tables
from spark_rankeval.records.judge_estimates import is_estimated
from spark_rankeval.records.selection import Metrics, chosen, headline_keys
from spark_rankeval.records.slices import attributes_of
from spark_rankeval.records.summary import SummaryRow, record_of
from spark_rankeval.records.table_columns import GAPS, frame_of
from spark_rankeval.spark.record_tables import table_of
from spark_rankeval.statistics.cluster_sums import warn_of_few_clusters
from spark_rankeval.statistics.intervals import checked_level
from spark_rankeval.table_writers import Shown
from spark_rankeval.tables import Document

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, repr=False)
class Gaps(Shown):
    """The gaps between slices, of `Result.gaps`. They print as tables.

    Examples:
        >>> gaps = result.gaps("country", metrics="rr")
        >>> gaps.to_pandas()[["kind", "model", "slice", "other", "difference", "verdict"]].round(3).head(2)
                  kind     model       slice       other  difference    verdict
        0  largest gap   popular  country=DE  country=FR        0.00  undecided
        1  largest gap  personal  country=DE  country=FR        0.25  undecided

    Attributes:
        rows: the largest gap of each metric and model, and then each slice against all others.
        level: the confidence level of the intervals. A corrected p-value of at most 1 − level counts as a difference.
    """

    rows: tuple[GapRow, ...]
    level: float
    unit: str = USER

    @property
    def largest(self) -> tuple[GapRow, ...]:
        """The rows of the largest gaps: one for each metric and model."""
        return tuple(row for row in self.rows if row.kind == LARGEST_GAP)

    @property
    def sentences(self) -> list[str]:
        """The verdict of every row in a sentence."""
        return [row.sentence for row in self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[GapRow]:
        """The rows, largest gaps first."""
        return iter(self.rows)

    def to_pandas(self) -> pd.DataFrame:
        """A row for each comparison, with the columns of `GapRow`, and the level of the intervals."""
        return frame_of(self._records(), GAPS)

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """The rows of `to_pandas` as a Spark DataFrame; see `Result.to_spark`."""
        return table_of(self._records(), GAPS, spark)

    def _records(self) -> Iterator[dict[str, Any]]:
        return ({**record_of(row), "level": self.level} for row in self.rows)

    def _on_paper(self) -> Document:
        return Document(tuple(gaps_tables(self.rows, self.level)))


def gaps_of(
    rows: Sequence[SummaryRow],
    attribute: str | Sequence[str],
    metrics: Metrics,
    level: float,
    margin: float,
    min_users: int,
) -> Gaps:
    """The gaps between slices of a summary; see `Result.gaps`."""
    checked_level(level)
    if not is_number(margin) or not 0 <= margin < math.inf:
        msg = f"margin must be a finite number from 0 on; got {margin!r}"
        raise OptionError(msg)
    if not isinstance(min_users, int) or isinstance(min_users, bool) or min_users < 2:
        msg = f"min_users must be a whole number from 2 on; got {min_users!r}"
        raise OptionError(msg)
    total_rows = [row for row in rows if row.slice == "all"]
    chosen_rows = chosen(total_rows, headline_keys(total_rows) if metrics is None else metrics)
    keys = {row.key for row in chosen_rows if not is_estimated(row)}
    compared = [row for row in rows if row.key in keys]
    names = as_names("attribute", attribute)
    gaps = gap_rows(compared, names, level=level, margin=margin, least_n=min_users)
    warn_of_few_clusters(row for row in compared if set(names) <= set(attributes_of(row.slice)))
    return Gaps(gaps, level)
