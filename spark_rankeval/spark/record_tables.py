"""Rows of results as DataFrames, and the schemas of stored tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pyspark.sql import types as T

from spark_rankeval import local
from spark_rankeval.errors import InputError
from spark_rankeval.records.table_columns import (
    COUNT,
    FIGURE,
    FIGURES,
    FLAG,
    MOMENT,
    RUN_ID,
    TEXT,
    TEXTS,
    TableColumn,
    TableColumns,
)
from spark_rankeval.spark.engine import input_files
from spark_rankeval.spark.sql import column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_TYPES: dict[str, T.DataType] = {
    TEXT: T.StringType(), FIGURE: T.DoubleType(), COUNT: T.LongType(), FLAG: T.BooleanType(), MOMENT: T.TimestampType(),
    FIGURES: T.MapType(T.DoubleType(), T.DoubleType()), TEXTS: T.MapType(T.StringType(), T.StringType()),
}  # fmt: skip
_NUMBERS: dict[str, Callable[[Any], Any]] = {FIGURE: float, COUNT: int}
_RUN_IN_PATH = re.compile(rf"/{RUN_ID}=([^/]+)/")
_KEEP_TEXT = 'spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")'


def schema_of(columns: Iterable[TableColumn]) -> T.StructType:
    """The types of columns, with their meanings as comments."""
    return T.StructType(
        [T.StructField(name, _TYPES[kind], metadata={"comment": meaning}) for name, kind, meaning in columns]
    )


def table_of(
    records: Iterable[Mapping[str, Any]],
    columns: TableColumns,
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


def stored_schema(columns: TableColumns) -> T.StructType:
    """What a folder of stored runs holds: the columns, and the run as text."""
    kinds = [T.StructField(name, _TYPES[kind]) for name, kind, _ in columns.columns]
    return T.StructType([*kinds, T.StructField(RUN_ID, T.StringType())])


def columns_of_runs(frame: DataFrame, wanted: Collection[str]) -> DataFrame:
    """Some columns of a job's table of metrics, and that of the run.

    Raises:
        InputError: the table lacks some of them.
    """
    lacking = [name for name in (*wanted, RUN_ID) if name not in frame.columns]
    if lacking:
        msg = (
            f"the table has no {', '.join(lacking)}; pass a job's table of metrics, the folder 'metrics' of its output"
        )
        raise InputError(msg)
    return frame.select(*map(column, (*wanted, RUN_ID)))


def check_run_ids(option: str, frame: DataFrame, name: str = RUN_ID) -> None:
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
