"""Hashes of the rows that an evaluation reads, added up for each user while rows are grouped; `statistics.table_fingerprints` goes on.

Workers hash whole lists of predictions if they can, with the same digits: `worker.reading`.

Spark adds whole numbers with checks of overflow, so a sum modulo 2^64 is made of sums of 32-bit halves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import types as T

from spark_rankeval.errors import InputError
from spark_rankeval.spark.ids import hashable
from spark_rankeval.spark.source import SourceTable
from spark_rankeval.spark.sql_text import Sql, aggregate, all_of, bits_and, bits_or, call, named, select, when
from spark_rankeval.statistics.table_fingerprints import digits_of, limbs_of_whole
from spark_rankeval.worker.reading import SHORT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


#: The column of a row's hash on the way to the aggregate of its user.
ROW_HASH = "row_hash_"
_HALF, _LOWER_HALF = 32, 0xFFFFFFFF
# An item and one score or grade hardly ever have the same bits; several grades of a row often do.
_SEVERAL = 3


def total_of_hashes(hashes: Sql) -> Sql:
    """An aggregate: the sum of hashes of rows, modulo 2^64; null over no hash."""
    low, high = call("sum", bits_and(hashes, _LOWER_HALF)), call("sum", call("shiftright", hashes, _HALF))
    carried = high + call("shiftright", low, _HALF)
    return bits_or(call("shiftleft", carried, _HALF), bits_and(low, _LOWER_HALF))


def short_hash(item: Sql | None, item_type: T.DataType, *numbers: Sql) -> Sql:
    """A hash of 36 bits of a prediction that can be ranked, which adds up without overflow; 0 of others.

    Predictions are most of the rows, and a single sum of them is half the work. None stands for a made id, which is not hashed.
    """
    items = [] if item is None else [hashable(item, item_type)]
    hashed = call("xxhash64", *items, *(each.cast("double") for each in numbers))
    # The hash of nothing but nulls is small.
    return call("shiftright", hashed, 64 - SHORT)


def is_hashed_by_workers(item_type: T.DataType) -> bool:
    """Whether workers can compute `short_hash` of predictions with such items, which they do in a fifth of the time."""
    return isinstance(item_type, T.IntegralType)


def row_hash(source: SourceTable) -> Sql:
    """The hash of a row: of its item or array of items, and of its scores, ranks or grades.

    Numbers of the same value have the same hash, whatever their width. The users are not in it, and no made ids. Nulls at different
    places of a row give different hashes; at different places of one array they may give the same.
    """
    double, item_type = T.DoubleType(), source.item_type
    values = [value.cast(T.ArrayType(double) if source.arrays else double) for value in source.values_sql()]
    extra_columns = [] if source.hashed is None else [named(source.hashed)]
    # Spark's hash passes over a null, which only matters beside values that could stand in its place.
    tells_nulls = bool(source.arrays or extra_columns or len(values) + 1 >= _SEVERAL)
    id_type = T.ArrayType(item_type) if source.arrays else item_type
    items = [] if source.has_made_ids else [hashable(source.raw_ids_sql(), id_type, keeps_null=tells_nulls)]
    columns = [*items, *values]
    if not tells_nulls:
        return call("xxhash64", *columns)
    if source.arrays:
        columns += [call("array_size", array) for array in columns]
    return hash_of([*columns, *extra_columns])


def users_of(source: SourceTable) -> list[Sql]:
    """The columns of users as they are hashed."""
    return [column for name in source.user for column in columns_of(source.frame, [name])]


def ids_of(source: SourceTable) -> list[Sql]:
    """The column of items as it is hashed."""
    return columns_of(source.frame, [source.item])


def columns_of(frame: DataFrame, names: Sequence[str], *, are_ids: bool = True) -> list[Sql]:
    """Columns in a form whose hashes are equal for equal values, arrays with their sizes; numbers that are no ids are doubles."""
    columns = []
    for name in names:
        kind, values = frame.schema[name].dataType, named(name)
        is_array = isinstance(kind, T.ArrayType)
        element = kind.elementType if isinstance(kind, T.ArrayType) else kind
        if isinstance(element, T.DecimalType) or not are_ids:
            columns.append(values.cast(T.ArrayType(T.DoubleType()) if is_array else T.DoubleType()))
        else:
            columns.append(hashable(values, kind, keeps_null=True))
        columns += [call("array_size", values)] if is_array else []
    return columns


def training_hash(source: SourceTable) -> Sql:
    """A hash of 36 bits of a row of training data, as of `short_hash`; of null values, too."""
    return call("shiftright", hash_of([*users_of(source), *ids_of(source)]), 64 - SHORT)


def table_fingerprint(frame: DataFrame) -> tuple[str, int]:
    """A fingerprint of all columns of a table, as 32 hexadecimal digits, and how many rows it has; one job, which collects one row.

    Raises:
        InputError: a column has maps, of which Spark makes no hash.
    """
    names = sorted(frame.columns)
    for name in names:
        if "map<" in frame.schema[name].dataType.simpleString():
            msg = f"column {name!r} has maps, which have no hash; select the columns to evaluate"
            raise InputError(msg)
    hashes = select(frame, hash_of(columns_of(frame, names)).alias(ROW_HASH))
    total, n_rows = aggregate(
        hashes, (), total_of_hashes(named(ROW_HASH)).alias("total"), call("count", named(ROW_HASH)).alias("n_rows")
    ).collect()[0]
    return digits_of(limbs_of_whole(np.array([total or 0], np.int64))[0]), n_rows


def hash_of(columns: Sequence[Sql]) -> Sql:
    """A 64-bit hash of values that says which of them are null."""
    places = [when(values.is_null(), 1, 0) for values in columns]
    # Only rows with a null pay for saying where it is.
    whole = all_of(values.is_not_null() for values in columns)
    return when(whole, call("xxhash64", *columns), call("xxhash64", *columns, *places))
