"""The tables that metrics ask for beside predictions and labels: facts of items, lists joined to users, and their sizes.

Each table is grouped once by item or by user. Facts of items are joined to predictions, or given to workers, who look them up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_
from typing import TYPE_CHECKING, Final, Literal

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.ranking.recommended import OF_ITEMS
from spark_rankeval.spark.fingerprints import total_of_hashes, training_hash
from spark_rankeval.spark.ids import as_text, name_in, readable, set_in, text_in
from spark_rankeval.spark.named_columns import any_null, column
from spark_rankeval.spark.packed import given_to_rows, given_to_tasks, packed
from spark_rankeval.spark.sql_text import named
from spark_rankeval.spark.workers import run_on_workers
from spark_rankeval.worker import facts as names
from spark_rankeval.worker.group_sets import GROUP, GROUPS_TABLE, LEVELS_TABLE
from spark_rankeval.worker.item_tables import (
    ATTRIBUTES_TABLE,
    CONFLICT,
    CONFLICTS,
    CONSUMED,
    POPULARITY_TABLE,
    ROWS,
    TRAINING_HASH,
    add_counts,
    count_items,
    counted_items,
    rows_of_shares,
)
from spark_rankeval.worker.packed import pack_together, rows_in, tables_in
from spark_rankeval.worker.reading import ITEMS, grades_column

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

    from spark_rankeval.ranking.recommended import Fact
    from spark_rankeval.spark.inputs import FurtherSources
    from spark_rankeval.spark.intents import IntentColumns
    from spark_rankeval.spark.source import Source
    from spark_rankeval.worker.packed import Bound

#: How facts of items come to predictions: ``join`` shuffles predictions by item; with ``workers`` every task gets the whole table.
Lookup = Literal["join", "workers"]

# Columns of ours on the way: whether a row can be used, how long vectors are, the place of an entry of an array, and its scores.
_VALID, _LENGTH, _PLACE, _SCORES = "valid_", "length_", "place_", "scores_"
# Facts of the attributes of items.
_OF_ATTRIBUTES: Final[frozenset[Fact]] = frozenset(
    {"category", "categories", "vector", "catalogue", "history_categories", "history_vector"}
)


@dataclass(frozen=True)
class FactTables:
    """What metrics ask for of further tables."""

    sources: FurtherSources
    facts: frozenset[Fact]  # what is asked for
    user_columns: list[str]  # our names of the user's columns
    named_users: Callable[[Source], list[Column]]  # a table's user columns under these names
    item_type: T.DataType  # the type that items of all tables get
    lookup: Lookup  # how facts of items come to predictions
    bound: Bound | None  # how large tables may be that are given to workers; None: of any size
    intents: IntentColumns | None = None  # where the intents of labels come from; None: nobody asks

    @property
    def joined_to_items(self) -> bool:
        """Whether predictions come with facts of their items."""
        return self.lookup == "join" and bool(self.facts & set(OF_ITEMS))

    def with_facts(self, rows: DataFrame) -> DataFrame:
        """Rows of items with a struct of what is known of each; null if a row has no item."""
        if not self.joined_to_items:
            return rows
        known = self._facts_of_items
        fields = [name for name in known.columns if name not in (names.ITEM, TRAINING_HASH)]
        joined = rows.join(known.withColumnRenamed(names.ITEM, ITEMS), ITEMS, "left")
        facts = F.when(F.col(ITEMS).isNotNull(), F.struct(*fields)).alias(names.FACTS)
        return joined.select(*rows.columns, facts)

    def lists_of_users(self) -> list[DataFrame]:
        """What each user has in the training data, and what the baseline recommends: a row a user each."""
        lists = []
        if any(fact.startswith("history") for fact in self.facts):
            lists.append(self._history())
        if "baseline" in self.facts:
            valid = self._baseline_rows().where(_VALID)
            # Two lists of numbers, which are built and carried much faster than a list of structs.
            items = F.collect_list(names.ITEM).alias(names.BASELINE)
            scores = F.collect_list(names.SCORE).alias(names.BASELINE_SCORES)
            lists.append(valid.groupBy(self.user_columns).agg(items, scores))
        return lists

    def intents_of_users(self) -> DataFrame:
        """What the labels of each user are about, a row a user: structs of item, intent and grades."""
        assert self.intents is not None, "intents were asked for"
        subtopic = self.intents.subtopic
        rows, grades = self._judged_items(self.intents.labels, self.intents.subtopics())
        rows = self._with_categories(rows) if subtopic is None else _with_intents(rows, subtopic.kind)
        rows = rows.where(self._is_valid(*grades) & F.col(names.INTENT).isNotNull())
        pair = F.struct(names.ITEM, names.INTENT, *grades)
        return rows.groupBy(self.user_columns).agg(F.collect_list(pair).alias(names.INTENTS))

    def _judged_items(self, labels: Source, subtopics: Column | None) -> tuple[DataFrame, list[str]]:
        """A row for each label with its item and grades, whose names are returned as well, and its subtopic or subtopics."""
        users = self.named_users(labels)
        grades = [grades_column(place) for place in range(len(labels.grades))]
        values = dict(zip(grades, labels.values(), strict=False))
        if subtopics is not None:
            values[names.INTENT] = subtopics
        asked = [value.alias(name) for name, value in values.items()]
        if labels.arrays:
            entries = labels.frame.select(*users, F.posexplode(labels.ids()).alias(_PLACE, names.ITEM), *asked)
            values = {name: F.get(F.col(name), F.col(_PLACE)) for name in values}
        else:
            entries = labels.frame.select(*users, labels.ids().alias(names.ITEM), *asked)
            values = {name: F.col(name) for name in values}
        item = F.col(names.ITEM).cast(self.item_type).alias(names.ITEM)
        read = [(value.cast("double") if name in grades else value).alias(name) for name, value in values.items()]
        return entries.select(*self.user_columns, item, *read), grades

    def _with_categories(self, rows: DataFrame) -> DataFrame:
        """A row for each category of each row's item."""
        source, category = self.sources.items, self.sources.category_of_intents
        assert source is not None, "without a subtopic, the table of items was asked for"
        assert category is not None, "the same"
        item = source.ids().cast(self.item_type).alias(names.ITEM)
        categories = source.frame.select(item, column(category).alias(names.INTENT))
        of_items = _with_intents(categories, source.frame.schema[category].dataType)
        return rows.join(of_items.dropna().distinct(), names.ITEM)

    @property
    def hashed(self) -> tuple[str, ...]:
        """The tables whose hashes come with their totals, as they are grouped anyway."""
        return () if self.sources.training is None else ("training",)

    def with_totals(self, users: DataFrame) -> DataFrame:
        """Every row with how large the tables are, and how much of them cannot be used: the one row of each, broadcast.

        Tables that are given to workers come with the first row of each task instead, and tell that themselves.
        """
        tables: dict[str, DataFrame] = {}
        rows: list[DataFrame] = []
        given = self.lookup == "workers"
        if self.sources.training is not None:
            if not self._asks_popularity:
                rows.append(
                    self._by_user.agg(
                        _count(F.size(CONSUMED) > 0, names.N_TRAINING_USERS),
                        _sum(ROWS, "n_invalid_training"),
                        _total(TRAINING_HASH),
                    )
                )
            elif given:
                tables[POPULARITY_TABLE] = self.packed_popularity(self.bound)
            else:
                rows.append(self._totals_of_popularity())
        if self.sources.items is not None:
            if not self.facts & _OF_ATTRIBUTES:
                rows.append(self.sources.items.frame.agg(_count(self.sources.items.ids().isNull(), "n_invalid_items")))
            elif given:
                tables[ATTRIBUTES_TABLE] = self._packed_attributes()
            else:
                rows += self._totals_of_items()
        if self.sources.group is not None:
            tables[GROUPS_TABLE] = self._packed_groups(self.sources.group)
        if "levels" in self.facts and POPULARITY_TABLE not in tables:
            # Of any size, as groups: labelled and consumed items are looked up, too.
            tables[LEVELS_TABLE] = self.packed_popularity()
        if self.sources.baseline is not None:
            # As a filter, which Spark moves to where the table is read: there may be no other row to look at.
            invalid = self._baseline_rows().where(~F.col(_VALID))
            rows.append(invalid.agg(F.count(F.lit(1)).alias("n_invalid_baseline")))
        if rows:
            totals = reduce(lambda left, right: left.crossJoin(right), rows)
            totals = totals.select(*(F.col(name).cast("bigint") for name in totals.columns))
            users = given_to_rows(users, totals)
        return given_to_tasks(users, tables) if tables else users

    @property
    def _asks_popularity(self) -> bool:
        return bool(self.facts & {"popularity", "long_tail", "history_popularity"})

    @cached_property
    def _by_user(self) -> DataFrame:
        """The training data, a row a user: the items as often as they are there, and how many rows cannot be used."""
        source = self.sources.training
        assert source is not None, "a fact of the training data was asked for"
        item = source.ids().cast(self.item_type)
        if isinstance(self.item_type, T.FloatType | T.DoubleType):
            # -0.0 becomes 0.0, which it equals.
            item = item + F.lit(0.0).cast(self.item_type)
        hashed = training_hash(source).alias(TRAINING_HASH).column
        rows = source.frame.select(*self.named_users(source), item.alias(names.ITEM), hashed)
        # A column of its own: inside the aggregate Spark computes it slowly.
        rows = rows.withColumn(names.ITEM, F.when(self._is_valid(), F.col(names.ITEM)))
        grouped = rows.groupBy(self.user_columns).agg(
            F.collect_list(names.ITEM).alias(CONSUMED),
            _count(F.col(names.ITEM).isNull(), ROWS),
            F.sum(TRAINING_HASH).alias(TRAINING_HASH),
        )
        return _one_table(grouped, F.size(CONSUMED) >= 0, F.col(ROWS) >= 0, F.col(TRAINING_HASH).isNotNull())

    @cached_property
    def _popularity(self) -> DataFrame:
        """A row an item of the training data, and one of a null item, as of `count_items`."""
        lists = self._by_user.select(CONSUMED, ROWS, TRAINING_HASH)
        counted = [names.TRAINING_USERS, names.TRAINING_INTERACTIONS]
        fields = [
            T.StructField(names.ITEM, self.item_type),
            *(T.StructField(name, T.LongType()) for name in [*counted, TRAINING_HASH]),
        ]
        rows = run_on_workers(lists, counted_items, T.StructType(fields))
        popularity = rows.groupBy(names.ITEM).agg(*(F.sum(name).alias(name) for name in counted), _total(TRAINING_HASH))
        # Spark knows that this hash is never null.
        has_hash = F.col(TRAINING_HASH).bitwiseOR(F.lit(1)) != 0
        return _one_table(popularity, *(F.col(name) >= 0 for name in counted), has_hash)

    def _popularity_with_shares(self) -> DataFrame:
        """The same with which shares are of more popular items: one task adds up how many items have which number of users."""
        of_items = self._popularity.where(F.col(names.ITEM).isNotNull())
        counts = of_items.groupBy(names.TRAINING_USERS).agg(F.count(F.lit(1)).alias(ROWS)).repartition(1)
        fields = [T.StructField(names.TRAINING_USERS, T.LongType())]
        fields += [T.StructField(name, T.DoubleType()) for name in names.LONG_TAIL]
        shares = run_on_workers(counts, rows_of_shares, T.StructType(fields))
        return self._popularity.join(shares.hint("broadcast"), names.TRAINING_USERS, "left")

    def packed_popularity(self, bound: Bound | None = None) -> DataFrame:
        """How many users have each item of the training data, in one row, for workers to look up; `bound` as of `pack_together`."""
        lists = self._by_user.select(CONSUMED, ROWS, TRAINING_HASH)
        parts = packed(lists, pack_together(count_items, add_counts, bound))
        return packed(parts.repartition(1), pack_together(tables_in, add_counts, bound))

    def _packed_attributes(self) -> DataFrame:
        rows = self._attributes
        # One row more than a table may have shows that it is too large, and no worker need read them all.
        # Spark drops a limit that it knows to be above the table, and the one partition with it.
        rows = rows.repartition(1) if self.bound is None else rows.limit(self.bound.rows + 1).coalesce(1)
        return packed(rows, pack_together(rows_in, lambda table: table, self.bound))

    def _packed_groups(self, name: str) -> DataFrame:
        """Each item with each of its groups once, in one row; a null stands for no group."""
        source = self.sources.items
        assert source is not None, "the groups of items were asked for"
        item = source.ids().cast(self.item_type).alias(names.ITEM)
        if isinstance(source.frame.schema[name].dataType, T.ArrayType):
            rows = source.frame.select(item, F.explode_outer(column(name)).alias(GROUP))
        else:
            rows = source.frame.select(item, column(name).alias(GROUP))
        pairs = rows.select(names.ITEM, name_in(rows, GROUP).alias(GROUP)).where(F.col(names.ITEM).isNotNull())
        # Not by a limit: without all of them nothing can be said of groups.
        return packed(pairs.distinct().repartition(1), pack_together(rows_in, lambda table: table, None))

    def _totals_of_popularity(self) -> DataFrame:
        is_item = F.col(names.ITEM).isNotNull()
        n_users, n_rows = F.col(names.TRAINING_USERS), F.col(names.TRAINING_INTERACTIONS)
        return self._popularity.agg(
            _sum(F.when(~is_item, n_users), names.N_TRAINING_USERS),
            _sum(F.when(~is_item, n_rows), "n_invalid_training"),
            _count(is_item, names.N_TRAINING_ITEMS),
            _sum(F.when(is_item, n_rows), names.N_TRAINING_INTERACTIONS),
            _total(TRAINING_HASH),
        )

    @cached_property
    def _facts_of_items(self) -> DataFrame:
        tables = []
        if "long_tail" in self.facts:
            tables.append(self._popularity_with_shares())
        elif "popularity" in self.facts:
            tables.append(self._popularity)
        if self.facts & _OF_ATTRIBUTES & set(OF_ITEMS):
            in_items = F.lit(True).alias(names.IN_ITEMS)
            tables.append(self._attributes.select(names.ITEM, *self._attribute_names, in_items))
        return reduce(lambda one, other: one.join(other, names.ITEM, "full"), tables)

    @property
    def _attribute_names(self) -> list[str]:
        asked: dict[str, set[Fact]] = {
            names.CATEGORY: {"category"},
            names.CATEGORY_SET: {"categories", "history_categories"},
            names.VECTOR: {"vector", "history_vector"},
        }
        return [name for name, facts in asked.items() if facts & self.facts]

    @cached_property
    def _attributes(self) -> DataFrame:
        """The table of items, a row an item; an attribute in which its rows do not agree is null."""
        source = self.sources.items
        assert source is not None, "a fact of the table of items was asked for"
        attributes = {}
        if names.CATEGORY in self._attribute_names:
            assert self.sources.category is not None, "its fact was asked for"
            attributes[names.CATEGORY] = text_in(source.frame, self.sources.category)
        if names.CATEGORY_SET in self._attribute_names:
            assert self.sources.category is not None, "its fact was asked for"
            attributes[names.CATEGORY_SET] = set_in(source.frame, self.sources.category)
        if self.sources.vector is not None:
            vector = column(self.sources.vector).cast(T.ArrayType(T.DoubleType()))
            # One with a hole or without a number is none, and is counted by its length.
            broken = F.exists(vector, lambda one: one.isNull() | F.isnan(one) | (F.abs(one) == F.lit(float("inf"))))
            attributes[names.VECTOR] = F.when(broken, F.array().cast(T.ArrayType(T.DoubleType()))).otherwise(vector)
        item = source.ids().cast(self.item_type).alias(names.ITEM)
        rows = source.frame.select(item, *(values.alias(name) for name, values in attributes.items()))
        aggregates = [F.count(F.lit(1)).alias(ROWS)]
        for name in attributes:
            agree = F.min(name) == F.max(name)
            aggregates += [F.when(agree, F.min(name)).alias(name), (~agree).alias(CONFLICT + name)]
        return rows.groupBy(names.ITEM).agg(*aggregates)

    def _totals_of_items(self) -> list[DataFrame]:
        usable = F.col(names.ITEM).isNotNull()
        counted = [_count(usable, names.N_ITEMS), _sum(F.when(~usable, F.col(ROWS)), "n_invalid_items")]
        # The same column of categories may be there in two forms, with the same conflicts.
        attributes = {CONFLICTS[name]: name for name in self._attribute_names}
        counted += [_count(F.col(CONFLICT + name) & usable, total) for total, name in attributes.items()]
        rows = [self._attributes.agg(*counted)]
        if self.sources.vector is not None:
            length, n = F.size(names.VECTOR).alias(_LENGTH), F.count(F.lit(1)).alias(ROWS)
            lengths = self._attributes.where(usable & F.col(names.VECTOR).isNotNull()).groupBy(length).agg(n)
            # Vectors are as long as most of them are.
            usual = F.coalesce(F.max_by(_LENGTH, F.struct(ROWS, _LENGTH)), F.lit(0)).alias(names.DIMENSION)
            n_ragged = F.coalesce(F.sum(ROWS) - F.max(ROWS), F.lit(0)).alias("n_ragged_vectors")
            rows.append(lengths.agg(usual, n_ragged))
        return rows

    def _history(self) -> DataFrame:
        """The different items of each user in the training data, with what is asked of them if it is joined to them."""
        items = F.array_distinct(CONSUMED)
        if self.lookup == "workers":
            return self._by_user.select(*self.user_columns, items.alias(names.HISTORY))
        facts = []
        if "history_popularity" in self.facts:
            facts.append(self._popularity.select(names.ITEM, names.TRAINING_USERS))
        asked: dict[str, Fact] = {names.CATEGORY_SET: "history_categories", names.VECTOR: "history_vector"}
        attributes = [name for name, fact in asked.items() if fact in self.facts]
        if attributes:
            facts.append(self._attributes.select(names.ITEM, *attributes))
        if not facts:
            return self._by_user.select(*self.user_columns, items.alias(names.HISTORY))
        pairs = self._by_user.select(*self.user_columns, F.explode(items).alias(names.ITEM))
        pairs = reduce(lambda left, right: left.join(right, names.ITEM, "left"), facts, pairs)
        fields = [name for name in pairs.columns if name not in self.user_columns]
        return pairs.groupBy(self.user_columns).agg(F.collect_list(F.struct(*fields)).alias(names.HISTORY))

    def _baseline_rows(self) -> DataFrame:
        source = self.sources.baseline
        assert source is not None, "a baseline was asked for"
        users = self.named_users(source)
        if source.arrays:
            return self._baseline_entries(source)
        score = source.values()[0].cast("double")
        rows = source.frame.select(
            *users,
            source.ids().cast(self.item_type).alias(names.ITEM),
            (-score if source.value_kind == "rank" else score).alias(names.SCORE),
        )
        return rows.withColumn(_VALID, self._is_valid(names.SCORE))

    def _baseline_entries(self, source: Source) -> DataFrame:
        """The entries of a baseline's arrays; those in order have their place for a score."""
        scores = [one.alias(_SCORES) for one in source.values()]
        entries = source.frame.select(
            *self.named_users(source), F.posexplode_outer(source.ids()).alias(_PLACE, names.ITEM), *scores
        )
        score = F.get(F.col(_SCORES), F.col(_PLACE)) if scores else -F.col(_PLACE)
        rows = entries.select(
            *self.user_columns,
            F.col(names.ITEM).cast(self.item_type).alias(names.ITEM),
            score.cast("double").alias(names.SCORE),
        )
        return rows.withColumn(_VALID, self._is_valid(names.SCORE))

    def _is_valid(self, *numbers: str) -> Column:
        """Whether a row has a user, an item and these numbers, and none of them is NaN."""
        whole = ~any_null([F.col(name) for name in (*self.user_columns, names.ITEM, *numbers)])
        if isinstance(self.item_type, T.FloatType | T.DoubleType):
            numbers = (*numbers, names.ITEM)
        return reduce(and_, [~F.coalesce(F.isnan(name), F.lit(False)) for name in numbers], whole)


def _one_table(table: DataFrame, *always_true: Column) -> DataFrame:
    """The rows of a table that is used more than once, so that Spark computes it once: the conditions name its columns.

    Elsewhere Spark leaves out columns that nobody reads, and null keys of joins, and then sees two tables. Conditions that always hold
    keep all columns, and Spark moves no filter below one that numbers rows.
    """
    return table.where(reduce(and_, always_true, F.monotonically_increasing_id() >= 0))


def _with_intents(rows: DataFrame, kind: T.DataType) -> DataFrame:
    """The rows with intents of this type as text; a row whose intent is an array becomes one for each entry."""
    others = [F.col(name) for name in rows.columns if name != names.INTENT]
    if isinstance(kind, T.ArrayType):
        rows, kind = rows.select(*others, F.explode(names.INTENT).alias(names.INTENT)), kind.elementType
    return rows.select(*others, readable(as_text(named(names.INTENT), kind)).column.alias(names.INTENT))


def _count(condition: Column, name: str) -> Column:
    return F.count(F.when(condition, 1)).alias(name)


def _total(name: str) -> Column:
    """The sum of hashes, modulo 2^64, under their own name."""
    return F.coalesce(total_of_hashes(named(name)).column, F.lit(0)).alias(name)


def _sum(values: Column | str, name: str) -> Column:
    return F.coalesce(F.sum(values), F.lit(0)).alias(name)
