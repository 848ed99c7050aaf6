"""The tables of a model that ranks the whole catalogue from vectors: found, checked, and as columns on the way to a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.features.vectors.catalogue import (
    IN_CATALOGUE,
    ITEM,
    N_ROWS,
    USUAL_LENGTH,
    VECTOR,
    count_lengths,
    pack_catalogue,
)
from spark_rankeval.spark.ids import problem_of_type
from spark_rankeval.spark.named_columns import find_column
from spark_rankeval.spark.packed import packed
from spark_rankeval.spark.source import Source, VectorColumns, read_source, require_column
from spark_rankeval.spark.sql_text import aggregate, call, named, number, select, where, with_columns
from spark_rankeval.spark.workers import run_on_workers
from spark_rankeval.worker.reading import BIAS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_rankeval.request.column_names import ColumnNames
    from spark_rankeval.request.vectors import Vectors
    from spark_rankeval.spark.source import Role


def read_vectors(vectors: Vectors, names: ColumnNames, problems: list[str]) -> Source:
    """Find the columns of a model's vectors, as `read_source` finds those of its lists."""
    found: list[str] = []
    source = _read_vectors(vectors, names, found)
    # A problem begins with the role of its table. The caller knows the table by another name.
    for role, name in {"predictions": "users", "catalogue": "items", "candidates": "candidates"}.items():
        problems += [f"{name} of Vectors{text.removeprefix(role)}" for text in found if text.startswith(role)]
    return source


def _read_vectors(vectors: Vectors, names: ColumnNames, problems: list[str]) -> Source:
    users = [
        found for name in names.user if (found := require_column("predictions", vectors.users, name, "user", problems))
    ]
    for name in users:
        kind = vectors.users.schema[name].dataType
        problems += problem_of_type(f"predictions: the user column {name!r}", kind, "user")
    items = read_source("catalogue", vectors.items, names, problems)
    vector = array_of_numbers("predictions", vectors.users, vectors.vector, problems)
    item_vector = array_of_numbers("catalogue", vectors.items, vectors.vector, problems)
    user_bias = _bias("predictions", vectors.users, vectors.user_bias, "user_bias", problems)
    item_bias = _bias("catalogue", vectors.items, vectors.item_bias, "item_bias", problems)
    candidates = None
    if vectors.candidates is not None:
        of_users = all(find_column(vectors.candidates, name) for name in names.user)
        role: Role = "candidates" if of_users else "catalogue"
        wrong: list[str] = []
        candidates = read_source(role, vectors.candidates, names, wrong)
        problems += [f"candidates{problem.removeprefix(role)}" for problem in wrong]
    columns = VectorColumns(items, vector, item_vector, user_bias, item_bias, vectors.similarity, candidates)
    return Source("predictions", vectors.users, tuple(users), items.item, items.item_type, arrays=True, vectors=columns)


def array_of_numbers(role: Role, frame: DataFrame, name: str, problems: list[str]) -> str:
    """The name of a column of vectors as the table spells it; what is wrong with it is added to the problems."""
    found = require_column(role, frame, name, "vector", problems)
    kind = T.NullType() if found is None else frame.schema[found].dataType
    if found is not None and not (isinstance(kind, T.ArrayType) and isinstance(kind.elementType, T.NumericType)):
        problems.append(
            f"{role}: the column {found!r} (vector=) must be an array of numbers; it is {kind.simpleString()}. Convert a vector of "
            "pyspark.ml with pyspark.ml.functions.vector_to_array"
        )
    return found or name


def _bias(role: Role, frame: DataFrame, name: str | None, option: str, problems: list[str]) -> str | None:
    found = None if name is None else require_column(role, frame, name, option, problems)
    if found is not None and not isinstance(frame.schema[found].dataType, T.NumericType):
        kind = frame.schema[found].dataType.simpleString()
        problems.append(f"{role}: {option}={found!r} must be a number; it is {kind}. Cast it")
    return found


def packed_catalogue(columns: VectorColumns, item_type: T.DataType) -> DataFrame:
    """One row: the catalogue with its vectors, as `pack_catalogue` packs it."""
    rows = with_columns(catalogue_rows(columns), {ITEM: named(ITEM).cast(item_type)})
    # A row of nothing: an empty table would have no task, and so nobody to say that it is empty.
    nothing = [F.lit(None).cast(field.dataType).alias(field.name) for field in rows.schema.fields]
    rows = rows.unionByName(rows.sparkSession.range(0, 1, 1, 1).select(*nothing)).repartition(1)
    return packed(rows, pack_catalogue)


def usual_length(rows: DataFrame) -> DataFrame:
    """One row: how long most vectors of a catalogue's rows are, of several lengths the shortest; null if there is none."""
    schema = T.StructType([T.StructField(name, T.LongType()) for name in (USUAL_LENGTH, N_ROWS)])
    counted = aggregate(
        run_on_workers(rows, count_lengths, schema), [USUAL_LENGTH], call("sum", named(N_ROWS)).alias(N_ROWS)
    )
    order = call("struct", named(N_ROWS), -named(USUAL_LENGTH))
    return aggregate(counted, [], call("max_by", named(USUAL_LENGTH), order).alias(USUAL_LENGTH))


def catalogue_rows(columns: VectorColumns) -> DataFrame:
    """The rows of the catalogue under our names; only those of candidates, if these are items."""
    source, candidates = columns.items, columns.candidates
    frame = source.frame
    kind = frame.schema[columns.item_vector].dataType
    single = isinstance(kind, T.ArrayType) and isinstance(kind.elementType, T.FloatType)
    vector = named(columns.item_vector).cast(T.ArrayType(T.FloatType() if single else T.DoubleType()))
    bias = number(0.0) if columns.item_bias is None else named(columns.item_bias).cast("double")
    rows = select(
        frame, source.ids_sql().alias(ITEM), vector.alias(VECTOR), bias.alias(BIAS), number(True).alias(IN_CATALOGUE)
    )
    if candidates is not None and candidates.role != "candidates":
        allowed = select(candidates.frame, candidates.ids_sql().alias(ITEM)).distinct()
        # A row without an item stays, to be counted.
        rows = rows.join(allowed, ITEM, "left_semi").unionByName(where(rows, named(ITEM).is_null()))
    return rows
