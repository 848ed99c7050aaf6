"""What features need of their tables, packed, grouped or in shards: facts and groups of items, intents, vectors, unanswered users."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.ranking.batch import ATTRIBUTES, Fact
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.spark import source_tables, sql
from spark_rankeval.spark.engine import (
    broadcast_row,
    broadcast_tables,
    engine_of,
    most_bytes_of_row,
    packed,
    packed_together,
    run_on_workers,
)
from spark_rankeval.spark.tables import Sources
from spark_rankeval.worker import catalogue_lists
from spark_rankeval.worker import features as item_facts
from spark_rankeval.worker import reading as grouped_row
from spark_rankeval.worker.features import INTENT, INTENTS, ITEM, add_counts, count_items
from spark_rankeval.worker.item_groups import table_of
from spark_rankeval.worker.process import tables_in
from spark_rankeval.worker.reading import BIAS, CANDIDATES, CATALOGUE, column_of_model, filter_column, grades_column
from spark_rankeval.worker.vectors import (
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

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# Columns of ours on the way: whether a row can be used; the place of an entry of an array, and its scores.
_VALID, _PLACE, _SCORES = "valid_", "place_", "scores_"


@dataclass(frozen=True)
class FactsOfCall:
    """The tables that hold facts, and the columns of grouped users that are made of them."""

    sources: Sources
    facts: frozenset[Fact]  # those that metrics ask for

    def lists(self) -> list[DataFrame]:
        """What each user has in the training data, what the baseline recommends, and candidates: one row per user each."""
        lists = []
        if any(fact.startswith("history") for fact in self.facts):
            items = sql.call("array_distinct", sql.named(item_facts.CONSUMED)).alias(item_facts.HISTORY)
            lists.append(sql.select(self.by_user, *self.sources.users_on_the_way(), items))
        if "baseline" in self.facts:
            lists.append(self._baseline())
        # The candidates of users, for each model that has some of the user's own.
        return lists + [
            self.sources.lists_of(vectors.candidates, column_of_model(CANDIDATES, model))
            for model, vectors in self.sources.vectors.items()
            if vectors.candidates is not None and vectors.candidates.role == "candidates"
        ]

    def with_broadcasts(self, users: DataFrame, *, has_groups: bool) -> DataFrame:
        """Attach sizes and fault counts of tables to every row, and packed tables, which have their own, to the first of each task.

        The tables that put items into groups are among them on request.
        """
        if rows := self._totals():
            totals = reduce(lambda left, right: left.crossJoin(right), rows)
            totals = sql.select(totals, *(sql.named(name).cast("bigint").alias(name) for name in totals.columns))
            users = broadcast_row(users, totals)
        return broadcast_tables(users, self._packed_tables(has_groups=has_groups))

    @property
    def reads_popularity(self) -> bool:
        """Whether metrics need the popularity of items."""
        return bool(item_facts.fields_of(self.facts) & item_facts.POPULARITY_FIELDS)

    @property
    def reads_attributes(self) -> bool:
        """Whether metrics need attributes of items."""
        return bool(item_facts.fields_of(self.facts) & item_facts.ATTRIBUTE_FIELDS)

    @cached_property
    def by_user(self) -> DataFrame:
        """The training data, one row per user: the items as often as they are there, and how many rows cannot be used."""
        source, sources = _required(self.sources.training), self.sources
        rows = sql.select(source.frame, *sources.named_users(source), sources.typed_item(source.ids_sql()))
        # A column of its own: inside the aggregate Spark computes it slowly.
        rows = sql.with_columns(
            rows, {item_facts.ITEM: sql.when(sources.names_user_and_item(), sql.named(item_facts.ITEM))}
        )
        grouped = sql.aggregate_lists(
            rows,
            sources.user_columns,
            sql.call("collect_list", sql.named(item_facts.ITEM)).alias(item_facts.CONSUMED),
            count_of(sql.named(item_facts.ITEM).is_null(), item_facts.ROWS),
        )
        return _one_table(
            grouped, sql.call("size", sql.named(item_facts.CONSUMED)) >= 0, sql.named(item_facts.ROWS) >= 0
        )

    @cached_property
    def attributes(self) -> DataFrame:
        """The table of items, one row per item: sets of categories add up, and another attribute in which its rows do not agree is null."""
        source = _required(self.sources.items)
        columns, aggregates = [self.sources.typed_item(source.ids_sql())], [sql.call("count", 1).alias(item_facts.ROWS)]
        for name in (
            name for name in ATTRIBUTES if name in item_facts.fields_of(self.facts) & item_facts.ATTRIBUTE_FIELDS
        ):
            option, kind, plural = ATTRIBUTES[name]
            columns.append(_VALUES[kind](source.frame, self.sources.item_columns[option]).alias(name))
            if plural:
                least = sql.call("min", sql.named(name))
                agree = least == sql.call("max", sql.named(name))
                aggregates += [sql.when(agree, least).alias(name), (~agree).alias(item_facts.CONFLICT + name)]
            else:
                together = sql.call("flatten", sql.call("collect_list", sql.named(name)))
                sorted_sets = sql.call("to_json", sql.call("array_sort", sql.call("array_distinct", together)))
                aggregates.append(sql.when(sql.call("count", sql.named(name)) > 0, sorted_sets).alias(name))
        return sql.aggregate(sql.select(source.frame, *columns), [item_facts.ITEM], *aggregates)

    def _packed_tables(self, *, has_groups: bool) -> dict[str, DataFrame]:
        """All tables of items as one row each."""
        sources, tables = self.sources, {}
        if group := sources.item_columns.get("group"):
            tables[item_facts.GROUPS_TABLE] = _packed_groups(sources, group)
        if self.reads_popularity:
            tables[item_facts.POPULARITY_TABLE] = self._packed_popularity()
        if self.reads_attributes:
            tables[item_facts.ATTRIBUTES_TABLE] = packed_together(self.attributes.repartition(1))
        for model, vectors in sources.vectors.items():
            if vectors.shards is None:
                tables[column_of_model(CATALOGUE, model)] = packed_catalogue(vectors, sources.item_type)
        groups = sources.item_groups
        if has_groups and groups is not None:
            tables |= {table_of(number): _packed_groups(sources, name) for number, name in enumerate(groups.columns)}
            # Metrics may have brought the table of popularity already.
            if groups.popularity and not self.reads_popularity:
                tables[table_of(len(groups.columns))] = self._packed_popularity()
        return tables

    def _packed_popularity(self) -> DataFrame:
        """How many users have each item of the training data, in one row."""
        lists = sql.select(self.by_user, *map(sql.named, (item_facts.CONSUMED, item_facts.ROWS)))
        parts = packed_together(lists, count_items, add_counts)
        return packed_together(parts.repartition(1), tables_in, add_counts)

    def _baseline(self) -> DataFrame:
        """The baseline's items and scores, one row per user."""
        valid = sql.where(self._baseline_rows(), sql.named(_VALID))
        # Two lists of numbers, which are built and carried much faster than a list of structs.
        items, scores = (sql.call("collect_list", sql.named(name)) for name in (item_facts.ITEM, item_facts.SCORE))
        lists = (items.alias(item_facts.BASELINE), scores.alias(item_facts.BASELINE_SCORES))
        return sql.aggregate_lists(valid, self.sources.user_columns, *lists)

    def _totals(self) -> list[DataFrame]:
        """One row each: how many rows cannot be used of tables that are not grouped by item."""
        rows, asked = [], self.sources.tables_of_facts
        if "training" in asked and not self.reads_popularity:
            n_users = count_of(sql.call("size", sql.named(item_facts.CONSUMED)) > 0, item_facts.N_TRAINING_USERS)
            n_invalid = sql.call("coalesce", sql.call("sum", sql.named(item_facts.ROWS)), 0)
            rows.append(sql.aggregate(self.by_user, (), n_users, n_invalid.alias("n_invalid_training")))
        if "items" in asked and not self.reads_attributes:
            items = _required(self.sources.items)
            rows.append(sql.aggregate(items.frame, (), count_of(items.ids_sql().is_null(), "n_invalid_items")))
        if "baseline" in asked:
            # As a filter, which Spark moves to where the table is read: there may be no other row to look at.
            invalid = sql.where(self._baseline_rows(), ~sql.named(_VALID))
            rows.append(sql.aggregate(invalid, (), sql.call("count", 1).alias("n_invalid_baseline")))
        return rows

    def _baseline_rows(self) -> DataFrame:
        """The baseline's rows, or the entries of its arrays; those of arrays in order have their place for a score."""
        source, sources = _required(self.sources.baseline), self.sources
        if source.arrays:
            values = [one.alias(_SCORES) for one in source.values_sql()]
            entry = sql.call("posexplode_outer", source.ids_sql()).aliases(_PLACE, item_facts.ITEM)
            entries = sql.select(source.frame, *sources.named_users(source), entry, *values)
            score = sql.call("get", sql.named(_SCORES), sql.named(_PLACE)) if values else -sql.named(_PLACE)
            users, item = sources.users_on_the_way(), sql.usable(sql.named(item_facts.ITEM), source.item_type)
        else:
            entries, users, item = source.frame, sources.named_users(source), source.ids_sql()
            score = source.values_sql()[0].cast("double")
            score = -score if source.value_kind == "rank" else score
        rows = sql.select(entries, *users, sources.typed_item(item), score.cast("double").alias(item_facts.SCORE))
        return sql.with_columns(rows, {_VALID: sources.names_user_and_item(item_facts.SCORE)})


def _packed_groups(sources: Sources, name: str) -> DataFrame:
    """One row: each item with each of its groups, and how many rows of the table have the pair; null stands for no group."""
    items = _required(sources.items)
    item, group = sources.typed_item(items.ids_sql()), sql.named(name)
    if isinstance(items.frame.schema[name].dataType, T.ArrayType):
        rows = sql.select(items.frame, item, sql.call("posexplode_outer", group).aliases(_PLACE, item_facts.GROUP))
    else:
        rows = sql.select(items.frame, item, sql.number(0).alias(_PLACE), group.alias(item_facts.GROUP))
    rows = sql.select(
        rows,
        sql.named(item_facts.ITEM),
        sql.named(_PLACE),
        sql.name_in_sql(rows, item_facts.GROUP).alias(item_facts.GROUP),
    )
    # A row of an array counts once, by its first entry.
    n_rows = count_of(sql.call("coalesce", sql.named(_PLACE), 0) == 0, item_facts.ROWS)
    grouped = sql.aggregate(rows, [item_facts.ITEM, item_facts.GROUP], n_rows)
    return packed_together(grouped.repartition(1))


def vector_type(frame: DataFrame, name: str) -> T.ArrayType:
    """The type that workers get vectors in: arrays of floats stay as they are, which takes half the memory of doubles."""
    kind = frame.schema[name].dataType
    is_single = isinstance(kind, T.ArrayType) and isinstance(kind.elementType, T.FloatType)
    return T.ArrayType(T.FloatType() if is_single else T.DoubleType())


def _usable_vectors(frame: DataFrame, name: str) -> sql.Sql:
    """Vectors as arrays of numbers; one with a hole or without a number is none, and is counted by its length."""
    array = vector_type(frame, name)
    vector = sql.named(name).cast(array)
    broken = sql.for_entries("exists", vector, _is_no_number)
    return sql.when(broken, sql.call("array").cast(array), vector)


# The values of attributes in the table of items, by kind.
_VALUES = {"text": sql.text_in_sql, "texts": sql.set_in, "vector": _usable_vectors}


def count_of(condition: sql.Sql, name: str) -> sql.Sql:
    """How many rows meet a condition, under a name."""
    return sql.call("count", sql.when(condition, 1)).alias(name)


def _required(table: source_tables.SourceTable | None) -> source_tables.SourceTable:
    """A table that the call was checked for."""
    assert table is not None, "a fact of the table is asked for"
    return table


def _one_table(table: DataFrame, *always_true: sql.Sql) -> DataFrame:
    """The rows of a table that is used more than once, so that Spark computes it once: the conditions name its columns.

    Elsewhere Spark leaves out unused columns and null keys of joins, and then sees two tables. Conditions that always hold
    keep all columns, and Spark moves no filter below one that numbers rows.
    """
    if not engine_of(table.sparkSession).is_spark:
        return table
    return sql.where(table, sql.all_of([sql.call("monotonically_increasing_id") >= 0, *always_true]))


def intents_of_labels(sources: Sources, task: ScoringTask) -> DataFrame:
    """What the labels of each user are about: structs of item, intent and grades."""
    intents = sources.intents
    assert intents is not None, "intents are asked for"
    labels, subtopic = intents.labels, intents.subtopic
    if task.has_subtopic_rows:
        unusual = source_tables.unusual_reasons(labels, labels.values_sql(), task)
        is_usable = source_tables.says_something(labels, task) & sql.none_holds(unusual)
        labels = replace(labels, frame=sql.where(labels.frame, is_usable))
    rows, grades = _judged_items(labels, intents.subtopics(), sources)
    if subtopic is not None:
        rows = _with_intents(rows, subtopic.kind)
    else:
        # A row for each category of each row's item.
        items, category = _required(sources.items), str(intents.category)
        item = sources.typed_item(items.ids_sql())
        categories = sql.select(items.frame, item, sql.named(category).alias(INTENT))
        categories = _with_intents(categories, items.frame.schema[category].dataType)
        rows = rows.join(categories.dropna().distinct(), ITEM)
    rows = sql.where(rows, sources.names_user_and_item(*grades) & sql.named(INTENT).is_not_null())
    pair = sql.call("struct", *map(sql.named, (ITEM, INTENT, *grades)))
    return sql.aggregate_lists(rows, sources.user_columns, sql.call("collect_list", pair).alias(INTENTS))


def _judged_items(
    labels: source_tables.SourceTable, subtopics: sql.Sql | None, sources: Sources
) -> tuple[DataFrame, list[str]]:
    """A row for each label with its item and grades, whose names are returned as well, and its subtopic or subtopics."""
    users = sources.named_users(labels)
    grades = [grades_column(index) for index in range(len(labels.grades))]
    values = dict(zip(grades, labels.values_sql(), strict=False))
    if subtopics is not None:
        values[INTENT] = subtopics
    columns = [value.alias(name) for name, value in values.items()]
    if labels.arrays:
        entry = sql.call("posexplode", labels.ids_sql()).aliases(_PLACE, ITEM)
        entries = sql.select(labels.frame, *users, entry, *columns)
        values = {name: sql.call("get", sql.named(name), sql.named(_PLACE)) for name in values}
    else:
        entries = sql.select(labels.frame, *users, labels.ids_sql().alias(ITEM), *columns)
        values = {name: sql.named(name) for name in values}
    read = [(value.cast("double") if name in grades else value).alias(name) for name, value in values.items()]
    return sql.select(entries, *sources.users_on_the_way(), sources.typed_item(sql.named(ITEM)), *read), grades


def _with_intents(rows: DataFrame, kind: T.DataType) -> DataFrame:
    """The rows with intents of this type as text; a row whose intent is an array becomes one for each entry."""
    others, intent = [sql.named(name) for name in rows.columns if name != INTENT], sql.named(INTENT)
    if isinstance(kind, T.ArrayType):
        entry = sql.call("explode", sql.call("array_distinct", intent)).alias(INTENT)
        rows, kind = sql.select(rows, *others, entry), kind.elementType
    return sql.select(rows, *others, sql.readable(sql.as_text(intent, kind)).alias(INTENT))


def packed_catalogue(columns: source_tables.VectorColumns, item_type: T.DataType) -> DataFrame:
    """One row: the catalogue with its vectors, as `pack_catalogue` packs it."""
    rows = sql.with_columns(catalogue_rows(columns), {CATALOGUE_ITEM: sql.named(CATALOGUE_ITEM).cast(item_type)})
    # An empty table would have no task, and no task would report that it is empty.
    return packed(_with_null_row(rows).repartition(1), pack_catalogue(most_bytes_of_row(rows.sparkSession)))


def _with_null_row(rows: DataFrame) -> DataFrame:
    """The rows, and one of nothing but nulls."""
    nulls = [F.lit(None).cast(field.dataType).alias(field.name) for field in rows.schema.fields]
    return rows.unionByName(rows.sparkSession.range(0, 1, 1, 1).select(*nulls))


def usual_length(rows: DataFrame) -> DataFrame:
    """One row: how long most vectors of a catalogue's rows are, of several lengths the shortest; null if there is none."""
    schema = T.StructType([T.StructField(name, T.LongType()) for name in (USUAL_LENGTH, N_ROWS)])
    counted = sql.aggregate(
        run_on_workers(rows, count_lengths, schema), [USUAL_LENGTH], sql.call("sum", sql.named(N_ROWS)).alias(N_ROWS)
    )
    order = sql.call("struct", sql.named(N_ROWS), -sql.named(USUAL_LENGTH))
    return sql.aggregate(counted, [], sql.call("max_by", sql.named(USUAL_LENGTH), order).alias(USUAL_LENGTH))


def catalogue_rows(columns: source_tables.VectorColumns) -> DataFrame:
    """The rows of the catalogue under our names; only those of candidates, if these are items."""
    source, candidates = columns.items, columns.candidates
    frame = source.frame
    vector = sql.named(columns.item_vector).cast(vector_type(frame, columns.item_vector))
    bias = sql.number(0.0) if columns.item_bias is None else sql.named(columns.item_bias).cast("double")
    rows = sql.select(
        frame,
        source.ids_sql().alias(CATALOGUE_ITEM),
        vector.alias(CATALOGUE_VECTOR),
        bias.alias(BIAS),
        sql.number(True).alias(IS_CATALOGUE_ROW),
        *(each.item.alias(filter_column(index)) for index, each in enumerate(columns.filters)),
    )
    if candidates is not None and candidates.role != "candidates":
        allowed = sql.select(candidates.frame, candidates.ids_sql().alias(CATALOGUE_ITEM)).distinct()
        # A row without an item stays, to be counted.
        rows = rows.join(allowed, CATALOGUE_ITEM, "left_semi").unionByName(
            sql.where(rows, sql.named(CATALOGUE_ITEM).is_null())
        )
    return rows


_REPEATED_ITEM = "item in several rows"


def users_with_reasons(
    source: source_tables.SourceTable, columns: source_tables.VectorColumns, item: str, reason: str
) -> DataFrame:
    """The rows of users' vectors under our names, without an item, each with why it cannot be used, or null."""
    rows = sql.select(source.frame, *source.raw_users(), *columns.user_columns())
    users = [sql.named(name) for name in source.user_names]
    rows = _vectors_with_reasons(rows, columns, users, source.user_reasons(), source_tables.REPEATED_USER, reason)
    return sql.with_columns(rows, {item: sql.null_of(source.item_type)})


def catalogue_with_reasons(columns: source_tables.VectorColumns, item: str, reason: str) -> DataFrame:
    """The rows of the catalogue under our names, each with why it cannot be used, or null."""
    reasons = sql.id_reasons("item", sql.named(CATALOGUE_ITEM), columns.items.item_type)
    rows = _vectors_with_reasons(
        catalogue_rows(columns), columns, [sql.named(CATALOGUE_ITEM)], reasons, _REPEATED_ITEM, reason
    )
    return rows.withColumnRenamed(CATALOGUE_ITEM, item)


def _vectors_with_reasons(
    rows: DataFrame,
    columns: source_tables.VectorColumns,
    keys: list[sql.Sql],
    reasons: dict[str, sql.Sql],
    repeated: str,
    reason: str,
) -> DataFrame:
    """Rows of vectors with a reason each. Of several rows of a key one is used, that of the greatest vector.

    Of an item's rows that is one of those that can be used. Of a user's rows it is one of all, as they are grouped.
    """
    vector, bias = sql.named(CATALOGUE_VECTOR), sql.named(ITEM_BIAS)
    reasons = {
        **reasons,
        "null vector": vector.is_null(),
        "empty vector": sql.call("size", vector) == 0,
        "null, NaN or infinite number in the vector": sql.for_entries("exists", vector, _is_no_number),
        f"number beyond ±{LARGEST:g} in the vector": sql.for_entries("exists", vector, _is_too_large),
        "null, NaN or infinite bias": _is_no_number(bias),
        f"bias beyond ±{LARGEST:g}": _is_too_large(bias),
        "vector of another length than most items have": sql.call("size", vector) != sql.named(USUAL_LENGTH),
    }
    rows = rows.crossJoin(usual_length(catalogue_rows(columns)).hint("broadcast"))
    rows = sql.with_columns(rows, {reason: sql.first_true(reasons)})
    usable_first = [sql.named(reason).is_not_null()] if repeated == _REPEATED_ITEM else []
    nth = sql.over(sql.call("row_number"), keys, [*usable_first, sql.descending(vector), sql.descending(bias)])
    again = sql.when(nth > 1, sql.text(repeated))
    return sql.with_columns(rows, {reason: sql.call("coalesce", sql.named(reason), again)}).drop(
        CATALOGUE_VECTOR, ITEM_BIAS, USUAL_LENGTH
    )


def _is_no_number(value: sql.Sql) -> sql.Sql:
    return value.is_null() | sql.call("isnan", value) | (sql.call("abs", value) == math.inf)


def _is_too_large(value: sql.Sql) -> sql.Sql:
    return sql.call("abs", value) > LARGEST


def relevant_rows(labels: source_tables.SourceTable, threshold: float | None) -> DataFrame:
    """The rows of labels that any of their grades makes relevant."""
    grades = [value.cast("double") for value in labels.values_sql()[: len(labels.grades)]]
    if not grades:
        return labels.frame
    # Spark takes NaN for the largest number.
    numbers = [sql.when(~sql.call("isnan", grade), grade) for grade in grades]
    are_relevant = (grade > 0 if threshold is None else grade >= threshold for grade in numbers)
    return sql.where(labels.frame, sql.any_of(are_relevant))


def users_with_answer(
    marked: Iterable[source_tables.MarkedUsers], labels: source_tables.SourceTable, threshold: float | None
) -> DataFrame:
    """The users who are declared to have no answer and have a relevant label; labels are rows."""
    answered = sql.select(relevant_rows(labels, threshold), *labels.named_users_sql())
    declared = sql.rows_of_all(sql.select(each.source.frame, *each.source.named_users_sql()) for each in marked)
    return answered.join(declared, answered.columns, "left_semi")


_LONG, _DOUBLE = T.LongType(), T.DoubleType()
# Partitions of rows of shards, for each shard.
_PARTITIONS_OF_KEY = 4


def with_shards(
    users: DataFrame, sources: Sources, first_items: Callable[[int], catalogue_lists.FirstItems | None]
) -> DataFrame:
    """Grouped users with what each shard says of them, in the place of vectors, biases and candidates of models with shards.

    `first_items` says how many first items a model's lists are read for.
    """
    for model, vectors in sources.vectors.items():
        if vectors.shards is not None:
            sharded = _ShardedModel(users, sources, model, vectors, vectors.shards)
            users = sharded.joined(first_items(model) or catalogue_lists.FirstItems(0, "item_asc"))
    return users


@dataclass(frozen=True)
class _ShardedModel:
    grouped: DataFrame  # the users
    sources: Sources
    model: int
    vectors: source_tables.VectorColumns
    n_shards: int

    def joined(self, first: catalogue_lists.FirstItems) -> DataFrame:
        """The users with the messages of all shards. Invalid users get those of a null user, which tell the catalogue's faults."""
        ours = {name: f"{name}_of_shard" for name in self.sources.user_columns}
        messages = self._messages(first).withColumnsRenamed(ours)
        are_same = sql.all_of(sql.same(sql.named(name), sql.named(other)) for name, other in ours.items())
        lists = (grouped_row.VECTOR, BIAS, CANDIDATES, *self._filters)
        dropped = [column_of_model(name, self.model) for name in lists]
        return self.grouped.drop(*dropped).join(messages, are_same.column, "left").drop(*ours.values())

    def _messages(self, first: catalogue_lists.FirstItems) -> DataFrame:
        """One row per user: what each shard says."""
        users = self.users
        if grouped_row.LABELS in users.columns:
            users = users.join(self._labelled(), self.sources.user_columns, "left").drop(grouped_row.LABELS)
        else:
            users = sql.with_columns(users, {catalogue_lists.LABELLED: sql.null_of(_structs(self._label))})
        everywhere = sql.call("explode", sql.call("sequence", 0, self.n_shards - 1))
        work = catalogue_lists.ranks_in_shard(tuple(self.sources.user_columns), first)
        counts = (
            catalogue_lists.LENGTH,
            catalogue_lists.N_LISTED,
            catalogue_lists.N_EXCLUDED,
            catalogue_lists.N_INVALID_ROWS,
        )
        lengths = dict.fromkeys((catalogue_lists.LENGTH, N_ROWS, catalogue_lists.N_REPEATED), _LONG)
        labelled = {catalogue_lists.IS_RANKED: T.BooleanType(), **dict.fromkeys(catalogue_lists.COUNTS, _LONG)}
        said = {
            **dict.fromkeys(counts, _LONG),
            catalogue_lists.LENGTHS: _structs(lengths),
            catalogue_lists.FIRST: _structs(
                {catalogue_lists.ITEM: self.sources.item_type, catalogue_lists.SCORE: _DOUBLE}
            ),
            catalogue_lists.LABELLED: _structs(self._label | labelled),
        }
        messages = self._in_shards(self.items, _with_null_row(users), everywhere, work, said, first.k)
        shards = sql.call("collect_list", sql.call("struct", *map(sql.named, said)))
        return sql.aggregate_lists(
            messages, self.sources.user_columns, shards.alias(column_of_model(grouped_row.SHARDS, self.model))
        )

    def _labelled(self) -> DataFrame:
        """One row per user: the labels that have a vector, with their scores. They are looked up in their shards."""
        labels = sql.named(grouped_row.LABELS)
        users = sql.where(self.users, sql.call("size", labels) > 0)
        ids = sql.select(users, sql.call("explode", labels).alias(CATALOGUE_ITEM))
        # In this order Sail holds the ids in memory, and not the vectors.
        items = self._with_usable_items(ids).distinct().hint("broadcast").join(self.items, CATALOGUE_ITEM)
        shards = sql.call("explode", sql.call("array_distinct", sql.for_entries("transform", labels, self._shard)))
        work = catalogue_lists.label_scores(tuple(self.sources.user_columns))
        scored = self._in_shards(items, users, shards, work, {catalogue_lists.LABELLED: _structs(self._label)})
        together = sql.call("flatten", sql.call("collect_list", sql.named(catalogue_lists.LABELLED)))
        return sql.aggregate_lists(scored, self.sources.user_columns, together.alias(catalogue_lists.LABELLED))

    @property
    def _label(self) -> dict[str, T.DataType]:
        """The fields of a label: its item, the length of its vector, and its score."""
        return {
            catalogue_lists.ITEM: self.sources.item_type,
            catalogue_lists.LENGTH: _LONG,
            catalogue_lists.SCORE: _DOUBLE,
        }

    @property
    def _filters(self) -> list[str]:
        """The columns of the filters' values, of items and of users."""
        return [filter_column(index) for index, _ in enumerate(self.vectors.filters)]

    @cached_property
    def users(self) -> DataFrame:
        """What shards read of the users, if they are known."""
        lists = {
            column_of_model(grouped_row.VECTOR, self.model): catalogue_lists.USER_VECTOR,
            column_of_model(BIAS, self.model): ITEM_BIAS,
            column_of_model(CANDIDATES, self.model): CANDIDATES,
            grouped_row.EXCLUDED: grouped_row.EXCLUDED,
            grouped_row.LABELS: grouped_row.LABELS,
            **{column_of_model(name, self.model): name for name in self._filters},
        }
        present = [sql.named(name).alias(ours) for name, ours in lists.items() if name in self.grouped.columns]
        users = self.sources.users_on_the_way()
        return sql.where(sql.select(self.grouped, *users, *present), sql.all_of(user.is_not_null() for user in users))

    @property
    def items(self) -> DataFrame:
        """The rows of the catalogue."""
        return self._with_usable_items(catalogue_rows(self.vectors).drop(IS_CATALOGUE_ROW))

    def _with_usable_items(self, rows: DataFrame) -> DataFrame:
        """Rows with items of the type that all tables share. The two zeros are one item, which Sail's joins do not know."""
        kind = self.sources.item_type
        item = sql.usable(sql.named(CATALOGUE_ITEM).cast(kind), kind)
        return sql.with_columns(rows, {CATALOGUE_ITEM: item})

    def _shard(self, item: sql.Sql) -> sql.Sql:
        """The shard of an item; of a text by its bytes, so that no collation comes between."""
        kind = self.sources.item_type
        item = item.cast("binary") if isinstance(kind, T.StringType) else sql.usable(item, kind)
        return sql.call("pmod", sql.call("xxhash64", item), self.n_shards).cast("int")

    def _in_shards(
        self,
        items: DataFrame,
        users: DataFrame,
        shards: sql.Sql,
        work: catalogue_lists.Work,
        said: Mapping[str, T.DataType],
        k: int = 0,
    ) -> DataFrame:
        """What is made of the items and users of each shard; `shards` gives those that a user meets."""
        items = sql.with_columns(
            items,
            {
                catalogue_lists.SHARD: self._shard(sql.named(CATALOGUE_ITEM)),
                catalogue_lists.IS_USER: sql.number(False),
            },
        )
        names = [sql.named(name) for name in users.columns]
        users = sql.select(
            users, *names, shards.alias(catalogue_lists.SHARD), sql.number(True).alias(catalogue_lists.IS_USER)
        )
        rows = _sorted_partitions(
            sql.union(items, users), catalogue_lists.SHARD, catalogue_lists.IS_USER, self.n_shards
        )
        kinds = dict(zip(self.sources.user_columns, self.sources.user_types, strict=True)) | {**said}
        return run_on_workers(rows, catalogue_lists.in_shards(self.vectors.similarity, work, k), _struct(kinds))


def _sorted_partitions(rows: DataFrame, key: str, then: str, n_keys: int) -> DataFrame:
    """The rows of each key together in a partition, in the order of another column, for a function that is to run on them next.

    Spark's hash leaves some partitions empty and gives others several keys, so there are more partitions than keys. Sail leaves out a sort
    that nothing reads, so the rows get a number.
    """
    if engine_of(rows.sparkSession).is_spark:
        return rows.repartition(_PARTITIONS_OF_KEY * n_keys, key).sortWithinPartitions(key, then)
    place = sql.over(sql.call("row_number"), [sql.named(key)], [sql.named(then)])
    return sql.with_columns(rows, {_PLACE: place})


def _struct(kinds: Mapping[str, T.DataType]) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in kinds.items()])


def _structs(kinds: Mapping[str, T.DataType]) -> T.ArrayType:
    return T.ArrayType(_struct(kinds))
