"""Hashes of the rows that an evaluation reads, added up for each user while rows are grouped; `statistics.fingerprints` goes on.

Spark adds whole numbers with checks of overflow, so a sum modulo 2^64 is made of sums of 32-bit halves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as T

from spark_rankeval.spark.sql_text import all_of, bits_and, bits_or, call, named, when
from spark_rankeval.worker.reading import of_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_rankeval.spark.inputs import Sources
    from spark_rankeval.spark.source import Source
    from spark_rankeval.spark.sql_text import Sql

#: The column of a row's hash on the way to the aggregate of its user.
ROW_HASH = "row_hash_"
_HALF, _LOWER_HALF = 32, 0xFFFFFFFF
# 2^28 equal rows of a user would overflow 64 bits.
_SHORT = 36
# An item and one score or grade hardly ever have the same bits; several grades of a row often do.
_SEVERAL = 3


def total_of_hashes(hashes: Sql) -> Sql:
    """An aggregate: the sum of hashes of rows, modulo 2^64; null over no hash."""
    low, high = call("sum", bits_and(hashes, _LOWER_HALF)), call("sum", call("shiftright", hashes, _HALF))
    carried = high + call("shiftright", low, _HALF)
    return bits_or(call("shiftleft", carried, _HALF), bits_and(low, _LOWER_HALF))


def short_hash(item: Sql, item_type: T.DataType, score: Sql) -> Sql:
    """A hash of 36 bits of a prediction that can be ranked, which adds up without overflow; 0 of others.

    Predictions are most of the rows, and a single sum of them is half the work.
    """
    hashed = call("xxhash64", _widest(item, item_type, is_array=False), score.cast("double"))
    # The hash of nothing but nulls is small.
    return call("shiftright", hashed, 64 - _SHORT)


def hashed_tables(sources: Sources) -> tuple[str, ...]:
    """The tables whose rows are hashed, by name; the predictions of a model have the name that `of_model` gives."""
    names = []
    if sources.predictions.vectors is None:
        names += [of_model("predictions", model) for model in range(len(sources.models))]
    names.append("labels")
    names += [name for name in ("users", "exclude") if getattr(sources, name) is not None]
    if sources.slices or sources.weight is not None or sources.attributes_of_clusters:
        names.append("attributes")
    return tuple(names)


def row_hash(source: Source) -> Sql:
    """The hash of a row: of its item or array of items, and of its scores, ranks or grades.

    Numbers of the same value have the same hash, whatever their width. The users are not in it. Nulls at different places of a row give
    different hashes; at different places of one array they may give the same.
    """
    columns = [_widest(source.ids_sql(), source.item_type, is_array=source.arrays)]
    columns += [_widest(values, T.DoubleType(), is_array=source.arrays) for values in source.values_sql()]
    beside = [] if source.hashed is None else [named(source.hashed)]
    if not source.arrays and not beside and len(columns) < _SEVERAL:
        # Spark's hash passes over a null, which only matters beside values that could stand in its place.
        return call("xxhash64", *columns)
    if source.arrays:
        columns += [call("array_size", array) for array in columns]
    return hash_of([*columns, *beside])


def hash_of(columns: Sequence[Sql]) -> Sql:
    """A 64-bit hash of values that says which of them are null."""
    places = [when(values.is_null(), 1, 0) for values in columns]
    # Only rows with a null pay for saying where it is.
    whole = all_of(values.is_not_null() for values in columns)
    return when(whole, call("xxhash64", *columns), call("xxhash64", *columns, *places))


def _widest(values: Sql, kind: T.DataType, *, is_array: bool) -> Sql:
    widest: T.DataType = kind
    if isinstance(kind, T.IntegralType):
        widest = T.LongType()
    elif not isinstance(kind, T.StringType):
        widest = T.DoubleType()
    return values.cast(T.ArrayType(widest) if is_array else widest)
