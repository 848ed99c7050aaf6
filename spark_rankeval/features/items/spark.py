"""The tables that metrics ask for beside predictions and labels: their columns found and checked, and grouped once by user or by item.

Tables by item are packed into one row each, in which workers look up the facts of predicted, labelled and consumed items.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import types as T

from spark_rankeval.features.items import item_facts
from spark_rankeval.features.items.item_facts import add_counts, count_items
from spark_rankeval.ranking.recommended import ATTRIBUTES, FACT_TABLES, NUMBERS, Attribute, Fact
from spark_rankeval.request.column_names import ColumnNames
from spark_rankeval.request.counts import Overlap
from spark_rankeval.request.options import Facts
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.spark.fingerprints import total_of_hashes, training_hash
from spark_rankeval.spark.grouped_features import GroupedFeature, SourceFeature, Typed
from spark_rankeval.spark.ids import name_in_sql, problem_of_type, set_in, text_in_sql, usable
from spark_rankeval.spark.platforms import engine_of
from spark_rankeval.spark.source import Role, SourceTable, read_source, require_column
from spark_rankeval.spark.sql_text import (
    Sql,
    aggregate,
    aggregate_lists,
    all_of,
    call,
    function_of,
    named,
    number,
    select,
    when,
    where,
    with_columns,
)
from spark_rankeval.spark.tasks import broadcast_row, broadcast_tables, packed_together
from spark_rankeval.worker.process import tables_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# Columns of ours on the way: whether a row can be used; the place of an entry of an array, and its scores.
_VALID, _PLACE, _SCORES = "valid_", "place_", "scores_"


class SideTables(NamedTuple):
    """The tables that metrics ask for, as the caller gave them."""

    options: Facts = Facts()
    facts: frozenset[Fact] = frozenset()  # those that metrics ask for
    roles: Collection[str] = ()  # the tables that hold these

    def frames(self) -> dict[str, DataFrame | None]:
        """The tables by their roles."""
        return {role: frame if role in self.roles else None for role, frame in self.options.tables().items()}


@dataclass(frozen=True)
class SideSources(SourceFeature):
    """The tables that hold facts; None if no metric asks for one."""

    training: SourceTable | None = None  # interactions of users with items
    items: SourceTable | None = None  # attributes of items
    baseline: SourceTable | None = None  # the recommendations of a baseline
    columns: Mapping[str, str] = field(default_factory=dict)  # the columns of `items`, by the options that name them

    def tables(self) -> list[SourceTable]:
        """Those that there are."""
        return [source for source in (self.training, self.items, self.baseline) if source is not None]

    def columns_of_items(self) -> dict[str, bool]:
        """The columns that metrics read; vectors are neither ids nor texts."""
        return {name: option not in NUMBERS for option, name in self.columns.items()}

    def overlaps(self, task: ScoringTask) -> Iterator[Overlap]:
        """Recommended items should be in the tables, and the users of the training data and of the baseline among those with lists."""
        # The intents of labels are of items that need not be predicted.
        tables = {table for fact in task.facts - {"intents"} for table in FACT_TABLES[fact]}
        yield from (Overlap(table, "items") for table in ("training", "items", "baseline") if table in tables)
        if any(fact.startswith("history") for fact in task.facts):
            yield Overlap("training", "users")
        if "baseline" in tables:
            yield Overlap("baseline", "users")

    def grouped(self, task: ScoringTask, typed: Typed) -> GroupedFeature:
        """The tables as rows of predictions and users get them."""
        return GroupedTables(self, task.facts, typed)


def read_side_tables(tables: SideTables, names: ColumnNames, problems: list[str]) -> SideSources:
    """Find and check the columns of the tables; what is wrong with them is added to the problems."""
    options, facts, frames = tables.options, tables.facts, tables.frames()
    # A baseline may have its items in order even if the predictions have scores.
    sources = {
        role: None if frame is None else read_source(role, frame, names, problems)  # type: ignore[arg-type] # a role
        for role, frame in frames.items()
    }
    columns: dict[str, str] = {}
    if (items := frames["items"]) is not None:
        fields = item_facts.fields_of(facts) | item_facts.fields_of(facts, history=True)
        for option, attribute in ((each.option, each) for name, each in ATTRIBUTES.items() if name in fields):
            # If fields share a column, the first of them asks the most of it.
            columns[option] = columns.get(option) or column_of(items, attribute, getattr(options, option), problems)
    return SideSources(sources["training"], sources["items"], sources["baseline"], columns)


@dataclass(frozen=True)
class GroupedTables(GroupedFeature):
    """The tables of an evaluation, and the columns of grouped users that are made of them."""

    sources: SideSources
    facts: frozenset[Fact]  # those that metrics ask for
    typed: Typed

    def prediction_tables(self) -> list[DataFrame]:
        """What each user has in the training data, and what the baseline recommends: one row per user each."""
        lists = [self.history()] if any(fact.startswith("history") for fact in self.facts) else []
        return [*lists, self._baseline()] if "baseline" in self.facts else lists

    @property
    def hashed(self) -> tuple[str, ...]:  # type: ignore[override] # it depends on the tables
        """The tables whose hashes come with their totals, as they are grouped anyway."""
        return () if self.sources.training is None else ("training",)

    def with_broadcasts(self, users: DataFrame) -> DataFrame:
        """Attach sizes and fault counts of tables to every row, and packed tables, which have their own, to the first of each task."""
        if rows := self.totals():
            totals = reduce(lambda left, right: left.crossJoin(right), rows)
            totals = select(totals, *(named(name).cast("bigint").alias(name) for name in totals.columns))
            users = broadcast_row(users, totals)
        tables = self.packed_tables()
        return broadcast_tables(users, tables) if tables else users

    @property
    def _fields(self) -> set[str]:
        """The fields that hold the facts of predicted items, and of those of a history."""
        return item_facts.fields_of(self.facts) | item_facts.fields_of(self.facts, history=True)

    @property
    def reads_popularity(self) -> bool:
        """Whether metrics need the popularity of items."""
        return bool(self._fields & item_facts.POPULARITY_FIELDS)

    @property
    def reads_attributes(self) -> bool:
        """Whether metrics need attributes of items."""
        return bool(self._fields & item_facts.ATTRIBUTE_FIELDS)

    @cached_property
    def by_user(self) -> DataFrame:
        """The training data, one row per user: the items as often as they are there, and how many rows cannot be used."""
        source, typed = _required(self.sources.training), self.typed
        hashed = training_hash(source).alias(item_facts.TRAINING_HASH)
        rows = select(source.frame, *typed.named_users(source), typed.item(source.ids_sql()), hashed)
        # A column of its own: inside the aggregate Spark computes it slowly.
        rows = with_columns(rows, {item_facts.ITEM: when(typed.is_valid(), named(item_facts.ITEM))})
        grouped = aggregate_lists(
            rows,
            typed.user_columns,
            call("collect_list", named(item_facts.ITEM)).alias(item_facts.CONSUMED),
            count_of(named(item_facts.ITEM).is_null(), item_facts.ROWS),
            call("sum", named(item_facts.TRAINING_HASH)).alias(item_facts.TRAINING_HASH),
        )
        has_list, has_hash = (
            call("size", named(item_facts.CONSUMED)) >= 0,
            named(item_facts.TRAINING_HASH).is_not_null(),
        )
        return _one_table(grouped, has_list, named(item_facts.ROWS) >= 0, has_hash)

    @property
    def _consumed(self) -> DataFrame:
        return select(self.by_user, *map(named, (item_facts.CONSUMED, item_facts.ROWS, item_facts.TRAINING_HASH)))

    @cached_property
    def attributes(self) -> DataFrame:
        """The table of items, one row per item: sets of categories add up, and another attribute in which its rows do not agree is null."""
        source = _required(self.sources.items)
        columns, aggregates = [self.typed.item(source.ids_sql())], [call("count", 1).alias(item_facts.ROWS)]
        for name in (name for name in ATTRIBUTES if name in self._fields & item_facts.ATTRIBUTE_FIELDS):
            option, kind, plural = ATTRIBUTES[name]
            columns.append(_VALUES[kind](source.frame, self.sources.columns[option]).alias(name))
            if plural:
                least = call("min", named(name))
                agree = least == call("max", named(name))
                aggregates += [when(agree, least).alias(name), (~agree).alias(item_facts.CONFLICT + name)]
            else:
                together = call("flatten", call("collect_list", named(name)))
                sorted_sets = call("to_json", call("array_sort", call("array_distinct", together)))
                aggregates.append(when(call("count", named(name)) > 0, sorted_sets).alias(name))
        return aggregate(select(source.frame, *columns), [item_facts.ITEM], *aggregates)

    def history(self) -> DataFrame:
        """The different items of each user in the training data, one row per user."""
        items = call("array_distinct", named(item_facts.CONSUMED)).alias(item_facts.HISTORY)
        return select(self.by_user, *self.typed.users, items)

    def packed_tables(self) -> dict[str, DataFrame]:
        """All tables of items as one row each."""
        sources, tables = self.sources, {}
        if group := sources.columns.get("group"):
            tables[item_facts.GROUPS_TABLE] = packed_groups(_required(sources.items), group, self.typed.item_type)
        if self.reads_popularity or "levels" in self.facts:
            # The table of popularity has the levels, too.
            name = item_facts.POPULARITY_TABLE if self.reads_popularity else item_facts.LEVELS_TABLE
            tables[name] = self.packed_popularity()
        if self.reads_attributes:
            tables[item_facts.ATTRIBUTES_TABLE] = packed_together(self.attributes.repartition(1))
        return tables

    def packed_popularity(self) -> DataFrame:
        """How many users have each item of the training data, in one row."""
        parts = packed_together(self._consumed, count_items, add_counts)
        return packed_together(parts.repartition(1), tables_in, add_counts)

    def _baseline(self) -> DataFrame:
        """The baseline's items and scores, one row per user."""
        valid = where(self._baseline_rows(), named(_VALID))
        # Two lists of numbers, which are built and carried much faster than a list of structs.
        items, scores = (call("collect_list", named(name)) for name in (item_facts.ITEM, item_facts.SCORE))
        lists = (items.alias(item_facts.BASELINE), scores.alias(item_facts.BASELINE_SCORES))
        return aggregate_lists(valid, self.typed.user_columns, *lists)

    def totals(self) -> list[DataFrame]:
        """One row each: how many rows cannot be used of tables that are not grouped by item."""
        rows = []
        if self.sources.training is not None and not self.reads_popularity:
            n_users = count_of(call("size", named(item_facts.CONSUMED)) > 0, item_facts.N_TRAINING_USERS)
            n_invalid = sum_of(named(item_facts.ROWS), "n_invalid_training")
            rows.append(aggregate(self.by_user, (), n_users, n_invalid, total_of(item_facts.TRAINING_HASH)))
        if self.sources.items is not None and not self.reads_attributes:
            n_invalid = count_of(self.sources.items.ids_sql().is_null(), "n_invalid_items")
            rows.append(aggregate(self.sources.items.frame, (), n_invalid))
        if self.sources.baseline is not None:
            # As a filter, which Spark moves to where the table is read: there may be no other row to look at.
            invalid = where(self._baseline_rows(), ~named(_VALID))
            rows.append(aggregate(invalid, (), call("count", 1).alias("n_invalid_baseline")))
        return rows

    def _baseline_rows(self) -> DataFrame:
        """The baseline's rows, or the entries of its arrays; those of arrays in order have their place for a score."""
        source, typed = _required(self.sources.baseline), self.typed
        if source.arrays:
            values = [one.alias(_SCORES) for one in source.values_sql()]
            entry = call("posexplode_outer", source.ids_sql()).aliases(_PLACE, item_facts.ITEM)
            entries = select(source.frame, *typed.named_users(source), entry, *values)
            score = call("get", named(_SCORES), named(_PLACE)) if values else -named(_PLACE)
            users, item = typed.users, usable(named(item_facts.ITEM), source.item_type)
        else:
            entries, users, item = source.frame, typed.named_users(source), source.ids_sql()
            score = source.values_sql()[0].cast("double")
            score = -score if source.value_kind == "rank" else score
        rows = select(entries, *users, typed.item(item), score.cast("double").alias(item_facts.SCORE))
        return with_columns(rows, {_VALID: typed.is_valid(item_facts.SCORE)})


def packed_groups(items: SourceTable, name: str, item_type: T.DataType) -> DataFrame:
    """One row: each item with each of its groups, and how many rows of the table have the pair; null stands for no group."""
    item, group = items.ids_sql().cast(item_type).alias(item_facts.ITEM), named(name)
    if isinstance(items.frame.schema[name].dataType, T.ArrayType):
        rows = select(items.frame, item, call("posexplode_outer", group).aliases(_PLACE, item_facts.GROUP))
    else:
        rows = select(items.frame, item, number(0).alias(_PLACE), group.alias(item_facts.GROUP))
    rows = select(
        rows, named(item_facts.ITEM), named(_PLACE), name_in_sql(rows, item_facts.GROUP).alias(item_facts.GROUP)
    )
    # A row of an array counts once, by its first entry.
    n_rows = count_of(call("coalesce", named(_PLACE), 0) == 0, item_facts.ROWS)
    grouped = aggregate(rows, [item_facts.ITEM, item_facts.GROUP], n_rows)
    return packed_together(grouped.repartition(1))


def column_of(items: DataFrame, attribute: Attribute, name: str, problems: list[str]) -> str:
    """The column of an attribute as the table of items spells it; what is wrong with it is added to the problems."""
    if attribute.kind == "vector":
        return array_of_numbers("items", items, name, problems)
    if (spelled := require_column("items", items, name, attribute.option, problems)) is None:
        return name
    kind, words = items.schema[spelled].dataType, f"items: the column {spelled!r} ({attribute.option}=)"
    if isinstance(kind, T.ArrayType) and attribute.kind == "text":
        problems.append(
            f"{words} is {kind.simpleString()}, several {attribute.plural} for each item. diversity(by='categories') compares such "
            f"sets; metrics of one {attribute.option} need one value for each item"
        )
    else:
        problems += problem_of_type(words, kind.elementType if isinstance(kind, T.ArrayType) else kind, "category")
    return spelled


def array_of_numbers(role: Role, frame: DataFrame, name: str, problems: list[str]) -> str:
    """The name of a column of vectors as the table spells it; what is wrong with it is added to the problems."""
    spelled = require_column(role, frame, name, "vector", problems)
    kind = T.NullType() if spelled is None else frame.schema[spelled].dataType
    if spelled is not None and not (isinstance(kind, T.ArrayType) and isinstance(kind.elementType, T.NumericType)):
        problems.append(
            f"{role}: the column {spelled!r} (vector=) must be an array of numbers; it is {kind.simpleString()}. Convert a vector of "
            "pyspark.ml with pyspark.ml.functions.vector_to_array"
        )
    return spelled or name


def vector_type(frame: DataFrame, name: str) -> T.ArrayType:
    """The type that workers get vectors in: arrays of floats stay as they are, which takes half the memory of doubles."""
    kind = frame.schema[name].dataType
    is_single = isinstance(kind, T.ArrayType) and isinstance(kind.elementType, T.FloatType)
    return T.ArrayType(T.FloatType() if is_single else T.DoubleType())


def _usable_vectors(frame: DataFrame, name: str) -> Sql:
    """Vectors as arrays of numbers; one with a hole or without a number is none, and is counted by its length."""
    array = vector_type(frame, name)
    vector, one = named(name).cast(array), named("one")
    is_no_number = one.is_null() | call("isnan", one) | (call("abs", one) == math.inf)
    broken = call("exists", vector, function_of(["one"], is_no_number))
    return when(broken, call("array").cast(array), vector)


# The values of attributes in the table of items, by kind.
_VALUES = {"text": text_in_sql, "texts": set_in, "vector": _usable_vectors}


def count_of(condition: Sql, name: str) -> Sql:
    """How many rows meet a condition, under a name."""
    return call("count", when(condition, 1)).alias(name)


def sum_of(values: Sql, name: str) -> Sql:
    """The sum of values, 0 of none, under a name."""
    return call("coalesce", call("sum", values), 0).alias(name)


def total_of(name: str) -> Sql:
    """The sum of hashes, modulo 2^64, under their own name."""
    return call("coalesce", total_of_hashes(named(name)), 0).alias(name)


def _required(table: SourceTable | None) -> SourceTable:
    """A table that the call was checked for."""
    assert table is not None, "a fact of the table is asked for"
    return table


def _one_table(table: DataFrame, *always_true: Sql) -> DataFrame:
    """The rows of a table that is used more than once, so that Spark computes it once: the conditions name its columns.

    Elsewhere Spark leaves out unused columns and null keys of joins, and then sees two tables. Conditions that always hold
    keep all columns, and Spark moves no filter below one that numbers rows.
    """
    if not engine_of(table.sparkSession).is_spark:
        return table
    return where(table, all_of([call("monotonically_increasing_id") >= 0, *always_true]))
