"""The tables of models that rank the whole catalogue from vectors, as columns and packed catalogues on the way to workers."""

from __future__ import annotations

from dataclasses import dataclass
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
from spark_rankeval.features.vectors.worker import ListsFromVectors
from spark_rankeval.spark.features import GroupedFeature, SourceFeature
from spark_rankeval.spark.packed import given_to_tasks, packed
from spark_rankeval.spark.sql_text import aggregate, call, named, number, select, where, with_columns
from spark_rankeval.spark.workers import run_on_workers
from spark_rankeval.worker.grouped_row import BIAS, CANDIDATES, CATALOGUE, of_model

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_rankeval.request.task import Feature
    from spark_rankeval.spark.features import GroupingContext, Typed
    from spark_rankeval.spark.source import Source, VectorColumns


@dataclass(frozen=True)
class VectorSources(SourceFeature):
    """The vectors of the models, in their order."""

    models: tuple[VectorColumns, ...]

    takes_one_table = True

    def tables(self) -> list[Source]:
        """The candidates of models."""
        return [columns.candidates for columns in self.models if columns.candidates is not None]

    def for_workers(self) -> tuple[Feature]:
        """The lists of the models."""
        return (ListsFromVectors(tuple(columns.similarity for columns in self.models)),)

    def grouped(self, context: GroupingContext) -> GroupedFeature:
        """The candidates of users, and the packed catalogues."""
        return GroupedVectors(self.models, context.typed)


@dataclass(frozen=True)
class GroupedVectors(GroupedFeature):
    """What users and tasks get to rank the whole catalogue."""

    models: tuple[VectorColumns, ...]
    typed: Typed

    def beside_predictions(self) -> list[DataFrame]:
        """The candidates of users, if they have any of their own."""
        candidates = {model: columns.candidates for model, columns in enumerate(self.models)}
        return [
            self.typed.lists(source, of_model(CANDIDATES, model))
            for model, source in candidates.items()
            if source is not None and source.role == "candidates"
        ]

    def given(self, users: DataFrame) -> DataFrame:
        """The first row of each partition gets the catalogues."""
        item_type = self.typed.item_type
        catalogues = {
            of_model(CATALOGUE, model): packed_catalogue(columns, item_type)
            for model, columns in enumerate(self.models)
        }
        return given_to_tasks(users, catalogues)


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
