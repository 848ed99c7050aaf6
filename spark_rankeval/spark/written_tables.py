"""Rows of results as DataFrames, the schemas of stored tables, and how tables are written."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import unquote

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval import local
from spark_rankeval.checks import check_table, is_table, kind_of, one_of
from spark_rankeval.errors import InputError, OptionError
from spark_rankeval.records import table_columns
from spark_rankeval.spark.catalog import CatalogTable, exists, publish, staged
from spark_rankeval.spark.engine import input_files
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.sql import column, find_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_TYPES: dict[str, T.DataType] = {
    table_columns.TEXT: T.StringType(),
    table_columns.FIGURE: T.DoubleType(),
    table_columns.COUNT: T.LongType(),
    table_columns.FLAG: T.BooleanType(),
    table_columns.MOMENT: T.TimestampType(),
    table_columns.FIGURES: T.MapType(T.DoubleType(), T.DoubleType()),
    table_columns.TEXTS: T.MapType(T.StringType(), T.StringType()),
}
_NUMBERS: dict[str, Callable[[Any], Any]] = {table_columns.FIGURE: float, table_columns.COUNT: int}
_RUN_IN_PATH = re.compile(rf"/{table_columns.RUN_ID}=([^/]+)/")
_KEEP_TEXT = 'spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")'


def schema_of(columns: Iterable[table_columns.TableColumn]) -> T.StructType:
    """The types of columns, with their meanings as comments."""
    return T.StructType(
        [T.StructField(name, _TYPES[kind], metadata={"comment": meaning}) for name, kind, meaning in columns]
    )


def table_of(
    records: Iterable[Mapping[str, Any]],
    columns: table_columns.TableColumns,
    session: SparkSession | None = None,
    session_of_tables: Callable[[], SparkSession] | None = None,
) -> DataFrame:
    """Records by column as a DataFrame with comments: NaN stays NaN, and None is null.

    Without a session it belongs to the active one, or to that of the caller's tables.

    Raises:
        InputError: there is no session.
    """
    session = session or local.active_session()
    if session is None and session_of_tables is not None:
        # A result that was read back has no tables.
        with suppress(InputError):
            session = session_of_tables()
    if session is None:
        msg = "no session is active: pass one, as in to_spark(spark), or start one with spark_rankeval.session()"
        raise InputError(msg)
    rows = [tuple(_value(record[name], kind) for name, kind, _ in columns.columns) for record in records]
    return session.createDataFrame(rows, schema_of(columns.columns))


def _value(value: Any, kind: str) -> Any:
    # Spark takes no whole number for a double, and no number of numpy.
    number = _NUMBERS.get(kind)
    return value if value is None or number is None else number(value)


def stored_schema(columns: table_columns.TableColumns) -> T.StructType:
    """What a folder of stored runs holds: the columns, and the run as text."""
    kinds = [T.StructField(name, _TYPES[kind]) for name, kind, _ in columns.columns]
    return T.StructType([*kinds, T.StructField(table_columns.RUN_ID, T.StringType())])


def columns_of_runs(frame: DataFrame, wanted: Collection[str]) -> DataFrame:
    """Some columns of a job's table of metrics, and that of the run.

    Raises:
        InputError: the table lacks some of them.
    """
    lacking = [name for name in (*wanted, table_columns.RUN_ID) if name not in frame.columns]
    if lacking:
        msg = (
            f"the table has no {', '.join(lacking)}; pass a job's table of metrics, the folder 'metrics' of its output"
        )
        raise InputError(msg)
    return frame.select(*map(column, (*wanted, table_columns.RUN_ID)))


def check_run_ids(option: str, frame: DataFrame, name: str = table_columns.RUN_ID) -> None:
    """Refuse a column of runs that was read as numbers or times, if its text is not that of the runs' names: ``007`` as 7.

    Raises:
        InputError: the names have changed, or may have.
    """
    kind = frame.schema[name].dataType
    # Spark takes a name for a date only if it is written as dates are.
    if isinstance(kind, T.StringType | T.DateType):
        return
    changed = ""
    if isinstance(kind, T.IntegralType):
        changed = next((run for run in _runs_in_paths(frame) if run != _as_number(run)), "")
        if not changed:
            return
    example = f", and {changed!r} as {_as_number(changed)}" if changed else ""
    msg = (
        f"{option}: the column {name!r} was read as {kind.simpleString()}{example}, but names of runs are text. Call "
        f"{_KEEP_TEXT} before you read the table"
    )
    raise InputError(msg)


def _runs_in_paths(frame: DataFrame) -> Sequence[str]:
    """The names of runs in the paths of a table's files; none if it has no files, or the platform does not tell."""
    paths = {match[1] for file in input_files(frame) if (match := _RUN_IN_PATH.search(file))}
    return sorted(map(unquote, paths))


def _as_number(run: str) -> str:
    try:
        return str(int(run))
    except ValueError:
        return ""


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
    if time is None or find_column(frame, table_columns.TIME) is not None:
        return frame
    return frame.withColumn(table_columns.TIME, F.lit(time)).withMetadata(
        table_columns.TIME, {"comment": "when the run began"}
    )
