"""Where users and figures are written when a caller says so: files under a path, or a table of the catalogue."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

from pyspark.sql import functions as F

from spark_rankeval.checks import check_table, is_table, kind_of, one_of
from spark_rankeval.errors import InputError, OptionError
from spark_rankeval.records.table_columns import TIME
from spark_rankeval.spark.catalog import CatalogTable
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.sql import find_column
from spark_rankeval.spark.storage import exists, publish, staged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def place_of_users(
    per_user: DataFrame, path: str | os.PathLike[str] | None, table: str | None, run_id: str | None, mode: str
) -> tuple[AbstractContextManager[DataFrame], Callable[[DataFrame], DataFrame]]:
    """What writes a per-user table once beside its place and gives it as it is read back, and what then moves it to its place.

    A place that cannot be written, or is taken, is an `OptionError`.
    """
    if (path is None) == (table is None):
        raise OptionError(f"name either a path or a table to write to; got {'neither' if path is None else 'both'}")
    if table is not None:
        target = CatalogTable(per_user.sparkSession, table)
        target.check(per_user.schema, run_id, mode)
        return target.staged(per_user), partial(target.write, run_id=run_id)
    if run_id is not None:
        msg = "run_id is for a table of the catalogue, which may have several runs; name one with table="
        raise OptionError(msg)
    path = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(path, str) or not path.strip():
        raise OptionError(f"path must be a non-empty string; got {path!r}")
    if mode == "errorifexists" and exists(per_user.sparkSession, path):
        raise OptionError(f"{path} already exists; choose another path, or pass mode='overwrite'")
    return staged(per_user, path), partial(publish, path=path, mode=mode)


class Rows(Protocol):
    """What has rows to write: a result, a comparison, gaps, an audit or a history. A result also has those that `history` reads."""

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """The rows as a DataFrame."""
        ...


@takes_local_tables
def write_table(
    rows: Rows | DataFrame,
    table: str,
    *,
    run_id: str | None = None,
    time: datetime | None = None,
    mode: str = "errorifexists",
) -> DataFrame:
    """Write the rows of a result to a table of the catalogue, and give them as they are read back.

    Columns have their meanings as comments (docs/tables.md). Users' values are written by `Result.write`. Of a result with `run_id` it
    writes what jobs store of their means, which `history` and `merge` read.

    Examples:
        >>> _ = spark.sql(f"CREATE SCHEMA IF NOT EXISTS evaluation LOCATION '{folder}/evaluation'").collect()
        >>> for day in ("2026-11-20", "2026-11-21", "2026-11-20"):
        ...     stored = write_table(result, "evaluation.metrics", run_id=day)
        >>> sorted({row["run_id"] for row in spark.table("evaluation.metrics").collect()}), stored.count() == len(result.summary)
        (['2026-11-20', '2026-11-21'], True)

    Args:
        rows: what `evaluate`, `compare`, `all_pairs`, `compare_groups`, `gaps`, `audit` or `history` returned, or any DataFrame.
        table: the name of the table, such as ``main.evaluation.metrics``. It is made if it is not there.
        run_id: the name of a run, in a table that has the rows of several: they replace those of that name, and other runs stay. None:
            the table has these rows alone.
        time: when the run began, in the column ``time``. None: now.
        mode: what to do without `run_id` if the table exists: ``errorifexists`` or ``overwrite``.

    Raises:
        InputError: it has no rows to write, or has a column ``run_id`` of its own beside `run_id`.
        OptionError: the table exists already, cannot take such rows or replace one run, or an option is not valid.
    """
    one_of("mode", mode, ("errorifexists", "overwrite"))
    if is_table(rows):
        check_table("rows", rows)
    elif not hasattr(rows, "to_spark"):
        msg = f"rows must be a result, a comparison, gaps, an audit, a history or a DataFrame; got a {kind_of(rows)}"
        raise InputError(msg)
    frame = _frame_of(rows, None if run_id is None else time or datetime.now(UTC))
    target = CatalogTable(frame.sparkSession, table)
    target.check(frame.schema, run_id, mode)
    return target.write(frame, run_id)


def _frame_of(rows: Rows | DataFrame, time: datetime | None) -> DataFrame:
    """The rows as a DataFrame, of a run with the time when it began."""
    to_stored = getattr(rows, "to_stored", None)
    if time is not None and to_stored is not None and not is_table(rows):
        return cast("DataFrame", to_stored(time))
    frame = cast("DataFrame", rows) if is_table(rows) else cast("Rows", rows).to_spark()
    if time is None or find_column(frame, TIME) is not None:
        return frame
    return frame.withColumn(TIME, F.lit(time)).withMetadata(TIME, {"comment": "when the run began"})
