"""The tables of models that rank the whole catalogue: found and checked, as columns and packed catalogues, and rows that cannot be used."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.errors import InputError
from spark_rankeval.features.items.spark import array_of_numbers, vector_type
from spark_rankeval.features.vectors.catalogue import (
    CATALOGUE_ITEM,
    CATALOGUE_VECTOR,
    IS_CATALOGUE_ROW,
    ITEM_BIAS,
    LARGEST,
    N_ROWS,
    USUAL_LENGTH,
    count_lengths,
    pack_catalogue,
)
from spark_rankeval.features.vectors.worker import ListsFromVectors
from spark_rankeval.request.column_names import ColumnNames
from spark_rankeval.request.options import Vectors
from spark_rankeval.request.task import Feature, ScoringTask
from spark_rankeval.spark.grouped_features import GroupedFeature, SourceFeature, Typed
from spark_rankeval.spark.ids import id_reasons, problem_of_type
from spark_rankeval.spark.inputs import Model, Sources
from spark_rankeval.spark.source import (
    REPEATED_USER,
    Role,
    SourceTable,
    VectorColumns,
    check_comparable,
    read_source,
    require_column,
)
from spark_rankeval.spark.sql_text import (
    Sql,
    aggregate,
    call,
    descending,
    find_column,
    first_true,
    function_of,
    named,
    null_of,
    number,
    over,
    select,
    text,
    when,
    where,
    with_columns,
)
from spark_rankeval.spark.tasks import broadcast_tables, packed, run_on_workers
from spark_rankeval.worker.grouped_row import BIAS, CANDIDATES, CATALOGUE, column_of_model

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class VectorSources(SourceFeature):
    """The vectors of the models, in their order; None: the model has lists."""

    models: tuple[VectorColumns | None, ...]

    takes_one_table = True

    def tables(self) -> list[SourceTable]:
        """The candidates of models."""
        vectors = (columns for columns in self.models if columns is not None)
        return [columns.candidates for columns in vectors if columns.candidates is not None]

    def for_workers(self) -> tuple[Feature]:
        """The lists of the models."""
        return (ListsFromVectors(tuple(columns and columns.similarity for columns in self.models)),)

    def grouped(self, task: ScoringTask, typed: Typed) -> GroupedFeature:
        """The candidates of users, and the packed catalogues."""
        vectors = {model: columns for model, columns in enumerate(self.models) if columns is not None}
        return GroupedVectors(vectors, typed)


@dataclass(frozen=True)
class GroupedVectors(GroupedFeature):
    """What users and tasks get to rank the whole catalogue."""

    models: Mapping[int, VectorColumns]
    typed: Typed

    def prediction_tables(self) -> list[DataFrame]:
        """The candidates of users, if they have any of their own."""
        candidates = {model: columns.candidates for model, columns in self.models.items()}
        return [
            self.typed.lists(source, column_of_model(CANDIDATES, model))
            for model, source in candidates.items()
            if source is not None and source.role == "candidates"
        ]

    def with_broadcasts(self, users: DataFrame) -> DataFrame:
        """The first row of each partition gets the catalogues."""
        item_type = self.typed.item_type
        catalogues = {
            column_of_model(CATALOGUE, model): packed_catalogue(columns, item_type)
            for model, columns in self.models.items()
        }
        return broadcast_tables(users, catalogues)


def packed_catalogue(columns: VectorColumns, item_type: T.DataType) -> DataFrame:
    """One row: the catalogue with its vectors, as `pack_catalogue` packs it."""
    rows = with_columns(catalogue_rows(columns), {CATALOGUE_ITEM: named(CATALOGUE_ITEM).cast(item_type)})
    # A row of nothing: an empty table would have no task, and no task would report that it is empty.
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
    vector = named(columns.item_vector).cast(vector_type(frame, columns.item_vector))
    bias = number(0.0) if columns.item_bias is None else named(columns.item_bias).cast("double")
    rows = select(
        frame,
        source.ids_sql().alias(CATALOGUE_ITEM),
        vector.alias(CATALOGUE_VECTOR),
        bias.alias(BIAS),
        number(True).alias(IS_CATALOGUE_ROW),
    )
    if candidates is not None and candidates.role != "candidates":
        allowed = select(candidates.frame, candidates.ids_sql().alias(CATALOGUE_ITEM)).distinct()
        # A row without an item stays, to be counted.
        rows = rows.join(allowed, CATALOGUE_ITEM, "left_semi").unionByName(where(rows, named(CATALOGUE_ITEM).is_null()))
    return rows


_REPEATED_ITEM = "item in several rows"


class CatalogueColumns(VectorColumns):
    """The same with the reasons why rows cannot be used."""

    def users_with_reasons(self, source: SourceTable, item: str, reason: str) -> DataFrame:
        """The rows of users' vectors under our names, without an item, each with why it cannot be used, or null."""
        rows = select(source.frame, *source.raw_users(), *self.user_columns())
        users = [named(name) for name in source.user_names]
        rows = _with_reasons(rows, self, users, source.user_reasons(), REPEATED_USER, reason)
        return with_columns(rows, {item: null_of(source.item_type)})

    def items_with_reasons(self, item: str, reason: str) -> DataFrame:
        """The rows of the catalogue under our names, each with why it cannot be used, or null."""
        reasons = id_reasons("item", named(CATALOGUE_ITEM), self.items.item_type)
        rows = _with_reasons(catalogue_rows(self), self, [named(CATALOGUE_ITEM)], reasons, _REPEATED_ITEM, reason)
        return rows.withColumnRenamed(CATALOGUE_ITEM, item)


def read_vectors(vectors: Vectors, names: ColumnNames, problems: list[str]) -> SourceTable:
    """Find the columns of a model's vectors, as `read_source` finds those of its lists."""
    table_problems: list[str] = []
    source = _read_vectors(vectors, names, table_problems)
    # A problem begins with the role of its table. The caller knows the table by another name.
    for role, name in {"predictions": "users", "catalogue": "items", "candidates": "candidates"}.items():
        problems += [f"{name} of Vectors{text.removeprefix(role)}" for text in table_problems if text.startswith(role)]
    return source


def _read_vectors(vectors: Vectors, names: ColumnNames, problems: list[str]) -> SourceTable:
    users = [
        spelled
        for name in names.user
        if (spelled := require_column("predictions", vectors.users, name, "user", problems))
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
        has_users = all(find_column(vectors.candidates, name) for name in names.user)
        role: Role = "candidates" if has_users else "catalogue"
        wrong: list[str] = []
        candidates = read_source(role, vectors.candidates, names, wrong)
        problems += [f"candidates{problem.removeprefix(role)}" for problem in wrong]
    columns = CatalogueColumns(items, vector, item_vector, user_bias, item_bias, vectors.similarity, candidates)
    return SourceTable(
        "predictions", vectors.users, tuple(users), items.item, items.item_type, arrays=True, vectors=columns
    )


def _bias(role: Role, frame: DataFrame, name: str | None, option: str, problems: list[str]) -> str | None:
    spelled = None if name is None else require_column(role, frame, name, option, problems)
    if spelled is not None and not isinstance(frame.schema[spelled].dataType, T.NumericType):
        kind = frame.schema[spelled].dataType.simpleString()
        problems.append(f"{role}: {option}={spelled!r} must be a number; it is {kind}. Cast it")
    return spelled


def read_catalogue(vectors: Vectors, exclude: DataFrame | None, names: ColumnNames) -> Sources:
    """The tables of vectors alone, without labels; checked as by `read_sources`."""
    problems: list[str] = []
    model = Model("", read_vectors(vectors, names, problems))
    left_out = None if exclude is None else read_source("exclude", exclude, names, problems)
    columns = model.source.vectors
    if not problems:
        check_comparable(model.source, (left_out, None if columns is None else columns.candidates), problems)
    if problems:
        raise InputError("; ".join(dict.fromkeys(problems)))
    assert columns is not None, "they were found"
    # There are no labels; the users' side stands for them where types are compared.
    return Sources((model,), model.source, exclude=left_out, features=(VectorSources((columns,)),))


def _with_reasons(
    rows: DataFrame, columns: VectorColumns, keys: list[Sql], reasons: dict[str, Sql], repeated: str, reason: str
) -> DataFrame:
    """Rows of vectors with a reason each. Of several rows of a key one is used, that of the greatest vector.

    Of an item's rows that is one of those that can be used. Of a user's rows it is one of all, as they are grouped.
    """
    vector, bias, entry = named(CATALOGUE_VECTOR), named(ITEM_BIAS), named("entry")
    reasons = {
        **reasons,
        "null vector": vector.is_null(),
        "empty vector": call("size", vector) == 0,
        "null, NaN or infinite number in the vector": call(
            "exists", vector, function_of(["entry"], _is_no_number(entry))
        ),
        f"number beyond ±{LARGEST:g} in the vector": call(
            "exists", vector, function_of(["entry"], _is_too_large(entry))
        ),
        "null, NaN or infinite bias": _is_no_number(bias),
        f"bias beyond ±{LARGEST:g}": _is_too_large(bias),
        "vector of another length than most items have": call("size", vector) != named(USUAL_LENGTH),
    }
    rows = rows.crossJoin(usual_length(catalogue_rows(columns)).hint("broadcast"))
    rows = with_columns(rows, {reason: first_true(reasons)})
    usable_first = [named(reason).is_not_null()] if repeated == _REPEATED_ITEM else []
    nth = over(call("row_number"), keys, [*usable_first, descending(vector), descending(bias)])
    again = when(nth > 1, text(repeated))
    return with_columns(rows, {reason: call("coalesce", named(reason), again)}).drop(
        CATALOGUE_VECTOR, ITEM_BIAS, USUAL_LENGTH
    )


def _is_no_number(value: Sql) -> Sql:
    return value.is_null() | call("isnan", value) | (call("abs", value) == math.inf)


def _is_too_large(value: Sql) -> Sql:
    return call("abs", value) > LARGEST
