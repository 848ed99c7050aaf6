"""Which tables of a call are hashed, and the hashes of those that are hashed as a whole."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from spark_rankeval.spark.fingerprints import (
    columns_of,
    hash_of,
    ids_of,
    row_hash,
    total_of_hashes,
    training_hash,
    users_of,
)
from spark_rankeval.spark.inputs import Sources
from spark_rankeval.spark.source import SourceTable
from spark_rankeval.spark.sql_text import Sql, call, named, null_of, select, text
from spark_rankeval.spark.tasks import given_to_rows
from spark_rankeval.worker.grouped_row import hash_column, of_model
from spark_rankeval.worker.row_hashes import WHOLE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def hashed_tables(sources: Sources) -> tuple[str, ...]:
    """The tables whose rows are hashed, by name; the predictions of a model have the name that `of_model` gives."""
    names = [of_model("predictions", model) for model in range(len(sources.models))]
    names.append("labels")
    names += [name for name in ("users", "exclude") if getattr(sources, name) is not None]
    if sources.slices or sources.weight is not None or sources.attributes_of_clusters:
        names.append("attributes")
    return (*names, *(table for table in WHOLE if table in sources.side_tables()))


def with_whole_hashes(users: DataFrame, sources: Sources, known: Collection[str] = ()) -> DataFrame:
    """Every row with the hashes of the tables that are hashed as a whole, except those that are `known`: one row, broadcast."""
    rows: list[tuple[str, DataFrame, Sql]] = []
    for table, source in sources.side_tables().items():
        if table in known:
            continue
        if table == "training":
            hashed = training_hash(source)
        elif table == "baseline":
            hashed = hash_of([*users_of(source), row_hash(source)])
        else:
            of_items = sources.columns_of_items().items()
            read = [
                column for name, are_ids in of_items for column in columns_of(source.frame, [name], are_ids=are_ids)
            ]
            hashed = hash_of([*ids_of(source), *read])
        rows.append((table, source.frame, hashed))
    for place, model in enumerate(sources.models):
        rows += [(of_model("predictions", place), *each) for each in _rows_of_vectors(model.source)]
    if not rows:
        return users
    names = list(dict.fromkeys(table for table, _, _ in rows))
    hashes = [
        select(frame, *(hashed.alias(name) if name == table else null_of(T.LongType()).alias(name) for name in names))
        for table, frame, hashed in rows
    ]
    totals = [call("coalesce", total_of_hashes(named(name)), 0).alias(hash_column(name)).column for name in names]
    return given_to_rows(users, reduce(lambda table, other: table.union(other), hashes).agg(*totals))


def _rows_of_vectors(source: SourceTable) -> list[tuple[DataFrame, Sql]]:
    """The tables of a model's vectors with the hash of a row, which says of which of them it is, and how scores are made of them.

    None if the model has lists.
    """
    vectors = source.vectors
    if vectors is None:
        return []
    asked: dict[str, tuple[SourceTable, list[Sql], tuple[str | None, ...]]] = {
        "users": (source, users_of(source), (vectors.vector, vectors.user_bias)),
        "items": (vectors.items, ids_of(vectors.items), (vectors.item_vector, vectors.item_bias)),
    }
    if vectors.candidates is not None:
        pairs = [*users_of(vectors.candidates), *ids_of(vectors.candidates)]
        asked["candidates"] = (vectors.candidates, pairs, ())
    return [
        (
            each.frame,
            hash_of(
                [
                    text(f"{role} {vectors.similarity}"),
                    *ids,
                    *columns_of(each.frame, [name for name in names if name], are_ids=False),
                ]
            ),
        )
        for role, (each, ids, names) in asked.items()
    ]
