"""Where users and figures are written when a caller says so: files under a path, or a table of the catalogue."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol, cast

from pyspark.sql import functions as F

from spark_rankeval.checks import check_table, is_table, kind_of, one_of
from spark_rankeval.errors import InputError, OptionError
from spark_rankeval.records.table_columns import RUN_ID, TIME, check_run
from spark_rankeval.spark.catalog import CatalogTable, StoredTable, with_metadata_of
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.sql import find_column
from spark_rankeval.spark.storage import exists, publish, staged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import types as T


@dataclass(frozen=True)
class _Target:
    """A table of the catalogue that can take rows.

    Attributes:
        table: the table.
        there: what the catalogue has of it; None: it is not there.
        run_id: the run whose rows are replaced there; None: the rows are the whole table.
    """

    table: CatalogTable
    there: StoredTable | None
    run_id: str | None

    @classmethod
    def read(cls, table: CatalogTable, schema: T.StructType, run_id: str | None, mode: str) -> _Target:
        """Refuse a table that is taken or cannot take these rows, and make one for runs if it is not there."""
        if run_id is not None:
            check_run(run_id)
            taken = [each.name for each in schema.fields if each.name.lower() == RUN_ID]
            if taken:
                msg = f"the rows have a column {taken[0]!r} already, so run_id= cannot name their run; leave it out"
                raise InputError(msg)
            return cls(table, table.prepare(schema), run_id)
        there = table.stored()
        if mode == "errorifexists" and there is not None:
            msg = f"the table {table.name} already exists; choose another, pass mode='overwrite', or with run_id= add a run to it"
            raise OptionError(msg)
        return cls(table, there, None)

    def written(self, frame: DataFrame) -> DataFrame:
        """Write the rows, and give them as they are read back."""
        if self.there is None or self.run_id is None:
            self.table.write_whole(frame, self.there)
        else:
            self.there.replace_run(frame, self.run_id)
        return with_metadata_of(frame.schema, self.table.rows(self.run_id))


@dataclass(frozen=True)
class UsersPlace:
    """Where a per-user table goes. It is computed once, to a staging place, and published from there.

    Attributes:
        path: the path of its files; empty if it is a table of the catalogue.
        target: the table of the catalogue.
        mode: what becomes of earlier files: ``errorifexists`` or ``overwrite``.
    """

    path: str
    target: _Target | None
    mode: str

    @classmethod
    def read(
        cls, per_user: DataFrame, path: str | os.PathLike[str] | None, table: str | None, run_id: str | None, mode: str
    ) -> UsersPlace:
        """What a caller names; raises `OptionError` if that is no place, or one that is taken."""
        session = per_user.sparkSession
        if (path is None) == (table is None):
            raise OptionError(f"name either a path or a table to write to; got {'neither' if path is None else 'both'}")
        if table is not None:
            return cls("", _Target.read(CatalogTable(session, table), per_user.schema, run_id, mode), mode)
        if run_id is not None:
            raise OptionError(
                "run_id is for a table of the catalogue, which may have several runs; name one with table="
            )
        path = os.fspath(path) if isinstance(path, str | os.PathLike) else path
        if not isinstance(path, str) or not path.strip():
            msg = f"path must be a non-empty string; got {path!r}"
            raise OptionError(msg)
        if mode == "errorifexists" and exists(session, path):
            msg = f"{path} already exists; choose another path, or pass mode='overwrite'"
            raise OptionError(msg)
        return cls(path, None, mode)

    def staged(self, per_user: DataFrame) -> AbstractContextManager[DataFrame]:
        """Write the table once beside its place, give the table read back from there, and clear that."""
        return staged(per_user, self.path) if self.target is None else self.target.table.staged(per_user)

    def publish(self, stored: DataFrame) -> DataFrame:
        """Move the staged table to its place, and give the table read from there."""
        return publish(stored, self.path, self.mode) if self.target is None else self.target.written(stored)


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
    return _Target.read(CatalogTable(frame.sparkSession, table), frame.schema, run_id, mode).written(frame)


def _frame_of(rows: Rows | DataFrame, time: datetime | None) -> DataFrame:
    """The rows as a DataFrame, of a run with the time when it began."""
    to_stored = getattr(rows, "to_stored", None)
    if time is not None and to_stored is not None and not is_table(rows):
        return cast("DataFrame", to_stored(time))
    frame = cast("DataFrame", rows) if is_table(rows) else cast("Rows", rows).to_spark()
    if time is None or find_column(frame, TIME) is not None:
        return frame
    return frame.withColumn(TIME, F.lit(time)).withMetadata(TIME, {"comment": "when the run began"})
