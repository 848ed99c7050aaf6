"""The whole catalogue in shards: rows of items and of users meet by shard, and what shards say of users comes back to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.spark import facts, source_tables, sql
from spark_rankeval.spark.engine import run_on_workers, sorted_partitions
from spark_rankeval.spark.tables import Sources
from spark_rankeval.worker import reading as grouped_row
from spark_rankeval.worker import shards as worker
from spark_rankeval.worker import vectors as catalogue
from spark_rankeval.worker.reading import column_of_model

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_LONG, _DOUBLE = T.LongType(), T.DoubleType()


def with_shards(
    users: DataFrame, sources: Sources, first_items: Callable[[int], catalogue.FirstItems | None]
) -> DataFrame:
    """Grouped users with what each shard says of them, in the place of vectors, biases and candidates of models with shards.

    `first_items` says how many first items a model's lists are read for.
    """
    for model, vectors in sources.vectors.items():
        if vectors.shards is not None:
            sharded = _ShardedModel(users, sources, model, vectors, vectors.shards)
            users = sharded.joined(first_items(model) or catalogue.FirstItems(0, "item_asc"))
    return users


@dataclass(frozen=True)
class _ShardedModel:
    grouped: DataFrame  # the users
    sources: Sources
    model: int
    vectors: source_tables.VectorColumns
    n_shards: int

    def joined(self, first: catalogue.FirstItems) -> DataFrame:
        """The users with the messages of all shards. Invalid users get those of a null user, which tell the catalogue's faults."""
        ours = {name: f"{name}_of_shard" for name in self.sources.user_columns}
        messages = self._messages(first).withColumnsRenamed(ours)
        are_same = sql.all_of(sql.same(sql.named(name), sql.named(other)) for name, other in ours.items())
        dropped = [
            column_of_model(name, self.model) for name in (grouped_row.VECTOR, grouped_row.BIAS, grouped_row.CANDIDATES)
        ]
        return self.grouped.drop(*dropped).join(messages, are_same.column, "left").drop(*ours.values())

    def _messages(self, first: catalogue.FirstItems) -> DataFrame:
        """One row per user: what each shard says."""
        users = self.users
        if grouped_row.LABELS in users.columns:
            users = users.join(self._labelled(), self.sources.user_columns, "left").drop(grouped_row.LABELS)
        else:
            users = sql.with_columns(users, {catalogue.LABELLED: sql.null_of(_structs(self._label))})
        null_user = [F.lit(None).cast(field.dataType).alias(field.name) for field in users.schema.fields]
        users = users.unionByName(users.sparkSession.range(0, 1, 1, 1).select(*null_user))
        everywhere = sql.call("explode", sql.call("sequence", 0, self.n_shards - 1))
        work = worker.ranks_in_shard(tuple(self.sources.user_columns), first)
        counts = (catalogue.LENGTH, catalogue.N_LISTED, catalogue.N_EXCLUDED, catalogue.N_INVALID_ROWS)
        lengths = dict.fromkeys((catalogue.LENGTH, catalogue.N_ROWS, catalogue.N_REPEATED), _LONG)
        labelled = {catalogue.IS_RANKED: T.BooleanType(), **dict.fromkeys(catalogue.COUNTS, _LONG)}
        said = {
            **dict.fromkeys(counts, _LONG),
            catalogue.LENGTHS: _structs(lengths),
            catalogue.FIRST: _structs({catalogue.ITEM: self.sources.item_type, catalogue.SCORE: _DOUBLE}),
            catalogue.LABELLED: _structs(self._label | labelled),
        }
        messages = self._in_shards(self.items, users, everywhere, work, said, first.k)
        shards = sql.call("collect_list", sql.call("struct", *map(sql.named, said)))
        return sql.aggregate_lists(
            messages, self.sources.user_columns, shards.alias(column_of_model(grouped_row.SHARDS, self.model))
        )

    def _labelled(self) -> DataFrame:
        """One row per user: the labels that have a vector, with their scores. They are looked up in their shards."""
        labels = sql.named(grouped_row.LABELS)
        users = sql.where(self.users, sql.call("size", labels) > 0)
        ids = sql.select(users, sql.call("explode", labels).alias(catalogue.CATALOGUE_ITEM))
        # In this order Sail holds the ids in memory, and not the vectors.
        items = self._with_one_zero(ids).distinct().hint("broadcast").join(self.items, catalogue.CATALOGUE_ITEM)
        shards = sql.call("explode", sql.call("array_distinct", sql.for_entries("transform", labels, self._shard)))
        work = worker.label_scores(tuple(self.sources.user_columns))
        scored = self._in_shards(items, users, shards, work, {catalogue.LABELLED: _structs(self._label)})
        together = sql.call("flatten", sql.call("collect_list", sql.named(catalogue.LABELLED)))
        return sql.aggregate_lists(scored, self.sources.user_columns, together.alias(catalogue.LABELLED))

    @property
    def _label(self) -> dict[str, T.DataType]:
        """The fields of a label: its item, the length of its vector, and its score."""
        return {catalogue.ITEM: self.sources.item_type, catalogue.LENGTH: _LONG, catalogue.SCORE: _DOUBLE}

    @cached_property
    def users(self) -> DataFrame:
        """What shards read of the users, if they are known."""
        lists = {
            column_of_model(grouped_row.VECTOR, self.model): worker.USER_VECTOR,
            column_of_model(grouped_row.BIAS, self.model): catalogue.ITEM_BIAS,
            column_of_model(grouped_row.CANDIDATES, self.model): grouped_row.CANDIDATES,
            grouped_row.EXCLUDED: grouped_row.EXCLUDED,
            grouped_row.LABELS: grouped_row.LABELS,
        }
        present = [sql.named(name).alias(ours) for name, ours in lists.items() if name in self.grouped.columns]
        users = self.sources.users_on_the_way()
        return sql.where(sql.select(self.grouped, *users, *present), sql.all_of(user.is_not_null() for user in users))

    @property
    def items(self) -> DataFrame:
        """The rows of the catalogue."""
        return self._with_one_zero(facts.catalogue_rows(self.vectors).drop(catalogue.IS_CATALOGUE_ROW))

    def _with_one_zero(self, rows: DataFrame) -> DataFrame:
        """Rows with items of the type that all tables share; the two zeros are one item, which Sail's joins do not know."""
        item, kind = sql.named(catalogue.CATALOGUE_ITEM), self.sources.item_type
        item = item + 0.0 if isinstance(kind, T.FractionalType) else item
        return sql.with_columns(rows, {catalogue.CATALOGUE_ITEM: item.cast(kind)})

    def _shard(self, item: sql.Sql) -> sql.Sql:
        """The shard of an item; of a text by its bytes, so that no collation comes between."""
        kind = self.sources.item_type
        item = item.cast("binary") if isinstance(kind, T.StringType) else item
        item = item + 0.0 if isinstance(kind, T.FractionalType) else item
        return sql.call("pmod", sql.call("xxhash64", item), self.n_shards).cast("int")

    def _in_shards(
        self,
        items: DataFrame,
        users: DataFrame,
        shards: sql.Sql,
        work: worker.Work,
        said: Mapping[str, T.DataType],
        k: int = 0,
    ) -> DataFrame:
        """What is made of the items and users of each shard; `shards` gives those that a user meets."""
        items = sql.with_columns(
            items, {worker.SHARD: self._shard(sql.named(catalogue.CATALOGUE_ITEM)), worker.IS_USER: sql.number(False)}
        )
        names = [sql.named(name) for name in users.columns]
        users = sql.select(users, *names, shards.alias(worker.SHARD), sql.number(True).alias(worker.IS_USER))
        rows = sorted_partitions(sql.union(items, users), worker.SHARD, worker.IS_USER, self.n_shards)
        kinds = dict(zip(self.sources.user_columns, self.sources.user_types, strict=True)) | {**said}
        return run_on_workers(rows, worker.in_shards(self.vectors.similarity, work, k), _struct(kinds))


def _struct(kinds: Mapping[str, T.DataType]) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in kinds.items()])


def _structs(kinds: Mapping[str, T.DataType]) -> T.ArrayType:
    return T.ArrayType(_struct(kinds))
