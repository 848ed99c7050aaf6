"""Small tables as one row each, given to every task of another table: its workers look up what a join would bring to each row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import types as T

from spark_rankeval.errors import EngineError
from spark_rankeval.spark.engines import engine_of
from spark_rankeval.spark.python_workers import workers_explained
from spark_rankeval.spark.sql_text import call, named, row_of_partition, select, true_for_every_row, with_columns
from spark_rankeval.spark.workers import run_on_workers
from spark_rankeval.worker.packed import PACKED, attach

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from spark_rankeval.worker.process import Run

_SCHEMA = T.StructType([T.StructField(PACKED, T.BinaryType())])
# A message of Spark Connect takes 128 MB, and the tables are a part of one.
_MOST_BYTES = 120 << 20
_TOO_LARGE = (
    "the vectors, facts or groups of the items take more than 120 MB, and no larger table reaches the Python code of this engine; use "
    "PySpark, or fewer items"
)
# Columns that tell to which rows a table is given.
_FIRST, _EVERY = "first_", "every_"


def packed(rows: DataFrame, pack: Run) -> DataFrame:
    """A row a partition with the packed table of its rows; `pack` is a `pack_together`."""
    return run_on_workers(rows, pack, _SCHEMA)


def given_to_rows(rows: DataFrame, one: DataFrame) -> DataFrame:
    """The rows, each with the columns of the one row of another table, which is broadcast.

    By a key that is always true, and Spark does not know: beside a join of all rows with all it would leave partitions small.
    """
    keyed = with_columns(rows, {_EVERY: true_for_every_row()})
    hashed = call("xxhash64", *map(named, one.columns))
    given = with_columns(one, {_EVERY: call("pmod", hashed, 2) < 2})
    return keyed.join(given.hint("broadcast"), _EVERY, "left").drop(_EVERY)


def given_to_tasks(rows: DataFrame, tables: Mapping[str, DataFrame]) -> DataFrame:
    """The rows with a column for each packed table, a row or none. The first row of each partition has it, the others have null.

    It is broadcast, so that nothing is shuffled and no row moves. What runs next on each partition finds it in its first row. An engine
    that may move rows gets the tables with the function, after an action.
    """
    if not engine_of(rows.sparkSession).keeps_order:
        return _attached(rows, tables)
    numbered = with_columns(rows, {_FIRST: row_of_partition() == 0})
    for name, table in tables.items():
        # Always true, and Spark does not know: of a constant it would make a join of all rows with all.
        is_first = named(PACKED).is_not_null().alias(_FIRST)
        one = select(table, is_first, named(PACKED).alias(name))
        numbered = numbered.join(one.hint("broadcast"), _FIRST, "left")
    return numbered.drop(_FIRST)


def _cell(table: DataFrame) -> bytes | None:
    """The packed table of a table of one row or none."""
    try:
        rows = table.collect()
    except PySparkException as error:
        if "larger than max" not in str(error):
            raise
        raise EngineError(_TOO_LARGE) from error
    return bytes(rows[0][PACKED]) if rows else None


def _attached(rows: DataFrame, tables: Mapping[str, DataFrame]) -> DataFrame:
    """The same by a function that holds the tables, which are collected first."""
    with workers_explained():
        cells = {name: _cell(table) for name, table in tables.items()}
    if sum(map(len, filter(None, cells.values()))) > _MOST_BYTES:
        raise EngineError(_TOO_LARGE)
    columns = [T.StructField(name, T.BinaryType()) for name in cells]
    return run_on_workers(rows, attach(cells), T.StructType([*rows.schema.fields, *columns]))
