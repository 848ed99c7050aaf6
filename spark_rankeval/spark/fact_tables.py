"""The tables that metrics ask for beside predictions and labels: facts of items, lists joined to users, and their sizes.

Each table is grouped once by item or by user. Facts of items are joined to predictions, or given to workers, who look them up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Final, Literal

from pyspark.sql import types as T

from spark_rankeval.ranking.recommended import OF_ITEMS
from spark_rankeval.spark.engines import engine_of
from spark_rankeval.spark.fingerprints import total_of_hashes, training_hash
from spark_rankeval.spark.ids import as_text, name_in_sql, readable, set_in, text_in_sql, usable
from spark_rankeval.spark.packed import given_to_rows, given_to_tasks, packed
from spark_rankeval.spark.sql_text import (
    aggregate,
    aggregate_lists,
    all_of,
    any_of,
    bits_or,
    call,
    function_of,
    named,
    number,
    select,
    when,
    where,
    with_columns,
)
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

    from pyspark.sql import DataFrame

    from spark_rankeval.ranking.recommended import Fact
    from spark_rankeval.spark.inputs import FurtherSources
    from spark_rankeval.spark.intents import IntentColumns
    from spark_rankeval.spark.source import Source
    from spark_rankeval.spark.sql_text import Sql
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
    named_users: Callable[[Source], list[Sql]]  # a table's user columns under these names
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
        facts = when(named(ITEMS).is_not_null(), call("struct", *map(named, fields)))
        return select(joined, *map(named, rows.columns), facts.alias(names.FACTS))

    def lists_of_users(self) -> list[DataFrame]:
        """What each user has in the training data, and what the baseline recommends: a row a user each."""
        lists = []
        if any(fact.startswith("history") for fact in self.facts):
            lists.append(self._history())
        if "baseline" in self.facts:
            valid = where(self._baseline_rows(), named(_VALID))
            # Two lists of numbers, which are built and carried much faster than a list of structs.
            items, scores = (call("collect_list", named(name)) for name in (names.ITEM, names.SCORE))
            asked = (items.alias(names.BASELINE), scores.alias(names.BASELINE_SCORES))
            lists.append(aggregate_lists(valid, self.user_columns, *asked))
        return lists

    def intents_of_users(self) -> DataFrame:
        """What the labels of each user are about, a row a user: structs of item, intent and grades."""
        assert self.intents is not None, "intents were asked for"
        subtopic = self.intents.subtopic
        rows, grades = self._judged_items(self.intents.labels, self.intents.subtopics())
        rows = self._with_categories(rows) if subtopic is None else _with_intents(rows, subtopic.kind)
        rows = where(rows, self._is_valid(*grades) & named(names.INTENT).is_not_null())
        pair = call("struct", *map(named, (names.ITEM, names.INTENT, *grades)))
        return aggregate_lists(rows, self.user_columns, call("collect_list", pair).alias(names.INTENTS))

    def _judged_items(self, labels: Source, subtopics: Sql | None) -> tuple[DataFrame, list[str]]:
        """A row for each label with its item and grades, whose names are returned as well, and its subtopic or subtopics."""
        users = self.named_users(labels)
        grades = [grades_column(place) for place in range(len(labels.grades))]
        values = dict(zip(grades, labels.values_sql(), strict=False))
        if subtopics is not None:
            values[names.INTENT] = subtopics
        asked = [value.alias(name) for name, value in values.items()]
        if labels.arrays:
            entry = call("posexplode", labels.ids_sql()).aliases(_PLACE, names.ITEM)
            entries = select(labels.frame, *users, entry, *asked)
            values = {name: call("get", named(name), named(_PLACE)) for name in values}
        else:
            entries = select(labels.frame, *users, labels.ids_sql().alias(names.ITEM), *asked)
            values = {name: named(name) for name in values}
        read = [(value.cast("double") if name in grades else value).alias(name) for name, value in values.items()]
        return select(entries, *self._users, self._item(named(names.ITEM)), *read), grades

    def _with_categories(self, rows: DataFrame) -> DataFrame:
        """A row for each category of each row's item."""
        source, category = self.sources.items, self.sources.category_of_intents
        assert source is not None, "without a subtopic, the table of items was asked for"
        assert category is not None, "the same"
        categories = select(source.frame, self._item(source.ids_sql()), named(category).alias(names.INTENT))
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
                n_users = _count(call("size", named(CONSUMED)) > 0, names.N_TRAINING_USERS)
                counted = (n_users, _sum(named(ROWS), "n_invalid_training"), _total(TRAINING_HASH))
                rows.append(aggregate(self._by_user, (), *counted))
            elif given:
                tables[POPULARITY_TABLE] = self.packed_popularity(self.bound)
            else:
                rows.append(self._totals_of_popularity())
        if self.sources.items is not None:
            if not self.facts & _OF_ATTRIBUTES:
                n_invalid = _count(self.sources.items.ids_sql().is_null(), "n_invalid_items")
                rows.append(aggregate(self.sources.items.frame, (), n_invalid))
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
            invalid = where(self._baseline_rows(), ~named(_VALID))
            rows.append(aggregate(invalid, (), call("count", 1).alias("n_invalid_baseline")))
        if rows:
            totals = reduce(lambda left, right: left.crossJoin(right), rows)
            totals = select(totals, *(named(name).cast("bigint").alias(name) for name in totals.columns))
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
        item = source.ids_sql().cast(self.item_type)
        hashed = training_hash(source).alias(TRAINING_HASH)
        rows = select(source.frame, *self.named_users(source), item.alias(names.ITEM), hashed)
        # A column of its own: inside the aggregate Spark computes it slowly.
        rows = with_columns(rows, {names.ITEM: when(self._is_valid(), named(names.ITEM))})
        grouped = aggregate_lists(
            rows,
            self.user_columns,
            call("collect_list", named(names.ITEM)).alias(CONSUMED),
            _count(named(names.ITEM).is_null(), ROWS),
            call("sum", named(TRAINING_HASH)).alias(TRAINING_HASH),
        )
        has_list, has_hash = call("size", named(CONSUMED)) >= 0, named(TRAINING_HASH).is_not_null()
        return _one_table(grouped, has_list, named(ROWS) >= 0, has_hash)

    @cached_property
    def _popularity(self) -> DataFrame:
        """A row an item of the training data, and one of a null item, as of `count_items`."""
        lists = select(self._by_user, *map(named, (CONSUMED, ROWS, TRAINING_HASH)))
        counted = [names.TRAINING_USERS, names.TRAINING_INTERACTIONS]
        fields = [
            T.StructField(names.ITEM, self.item_type),
            *(T.StructField(name, T.LongType()) for name in [*counted, TRAINING_HASH]),
        ]
        rows = run_on_workers(lists, counted_items, T.StructType(fields))
        sums = (call("sum", named(name)).alias(name) for name in counted)
        popularity = aggregate(rows, [names.ITEM], *sums, _total(TRAINING_HASH))
        # Spark knows that this hash is never null.
        has_hash = bits_or(named(TRAINING_HASH), 1) != 0
        return _one_table(popularity, *(named(name) >= 0 for name in counted), has_hash)

    def _popularity_with_shares(self) -> DataFrame:
        """The same with which shares are of more popular items: one task adds up how many items have which number of users."""
        of_items = where(self._popularity, named(names.ITEM).is_not_null())
        counts = aggregate(of_items, [names.TRAINING_USERS], call("count", 1).alias(ROWS)).repartition(1)
        fields = [T.StructField(names.TRAINING_USERS, T.LongType())]
        fields += [T.StructField(name, T.DoubleType()) for name in names.LONG_TAIL]
        shares = run_on_workers(counts, rows_of_shares, T.StructType(fields))
        return self._popularity.join(shares.hint("broadcast"), names.TRAINING_USERS, "left")

    def packed_popularity(self, bound: Bound | None = None) -> DataFrame:
        """How many users have each item of the training data, in one row, for workers to look up; `bound` as of `pack_together`."""
        lists = select(self._by_user, *map(named, (CONSUMED, ROWS, TRAINING_HASH)))
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
        group = named(name)
        if isinstance(source.frame.schema[name].dataType, T.ArrayType):
            group = call("explode_outer", group)
        rows = select(source.frame, self._item(source.ids_sql()), group.alias(GROUP))
        pairs = select(rows, named(names.ITEM), name_in_sql(rows, GROUP).alias(GROUP))
        pairs = where(pairs, named(names.ITEM).is_not_null())
        # Not by a limit: without all of them nothing can be said of groups.
        return packed(pairs.distinct().repartition(1), pack_together(rows_in, lambda table: table, None))

    def _totals_of_popularity(self) -> DataFrame:
        is_item = named(names.ITEM).is_not_null()
        n_users, n_rows = named(names.TRAINING_USERS), named(names.TRAINING_INTERACTIONS)
        return aggregate(
            self._popularity,
            (),
            _sum(when(~is_item, n_users), names.N_TRAINING_USERS),
            _sum(when(~is_item, n_rows), "n_invalid_training"),
            _count(is_item, names.N_TRAINING_ITEMS),
            _sum(when(is_item, n_rows), names.N_TRAINING_INTERACTIONS),
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
            known = (*map(named, (names.ITEM, *self._attribute_names)), number(True).alias(names.IN_ITEMS))
            tables.append(select(self._attributes, *known))
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
        """The table of items, a row an item: sets of categories add up, and another attribute in which its rows do not agree is null."""
        source = self.sources.items
        assert source is not None, "a fact of the table of items was asked for"
        attributes = {}
        if names.CATEGORY in self._attribute_names:
            assert self.sources.category is not None, "its fact was asked for"
            attributes[names.CATEGORY] = text_in_sql(source.frame, self.sources.category)
        if names.CATEGORY_SET in self._attribute_names:
            assert self.sources.category is not None, "its fact was asked for"
            attributes[names.CATEGORY_SET] = set_in(source.frame, self.sources.category)
        if self.sources.vector is not None:
            vector = named(self.sources.vector).cast(T.ArrayType(T.DoubleType()))
            # One with a hole or without a number is none, and is counted by its length.
            one = named("one")
            is_no_number = one.is_null() | call("isnan", one) | (call("abs", one) == math.inf)
            broken = call("exists", vector, function_of(["one"], is_no_number))
            none = call("array").cast(T.ArrayType(T.DoubleType()))
            attributes[names.VECTOR] = when(broken, none, vector)
        given = (values.alias(name) for name, values in attributes.items())
        rows = select(source.frame, self._item(source.ids_sql()), *given)
        aggregates = [call("count", 1).alias(ROWS)]
        if attributes.pop(names.CATEGORY_SET, None) is not None:
            together = call("flatten", call("collect_list", named(names.CATEGORY_SET)))
            in_order = call("to_json", call("array_sort", call("array_distinct", together)))
            is_known = call("count", named(names.CATEGORY_SET)) > 0
            aggregates.append(when(is_known, in_order).alias(names.CATEGORY_SET))
        for name in attributes:
            least = call("min", named(name))
            agree = least == call("max", named(name))
            aggregates += [when(agree, least).alias(name), (~agree).alias(CONFLICT + name)]
        return aggregate(rows, [names.ITEM], *aggregates)

    def _totals_of_items(self) -> list[DataFrame]:
        usable = named(names.ITEM).is_not_null()
        counted = [_count(usable, names.N_ITEMS), _sum(when(~usable, named(ROWS)), "n_invalid_items")]
        attributes = {name: CONFLICTS[name] for name in self._attribute_names if name in CONFLICTS}
        counted += [_count(named(CONFLICT + name) & usable, total) for name, total in attributes.items()]
        rows = [aggregate(self._attributes, (), *counted)]
        if self.sources.vector is not None:
            vectors = where(self._attributes, usable & named(names.VECTOR).is_not_null())
            lengths = select(vectors, call("size", named(names.VECTOR)).alias(_LENGTH))
            lengths = aggregate(lengths, [_LENGTH], call("count", 1).alias(ROWS))
            # Vectors are as long as most of them are.
            length, n = named(_LENGTH), named(ROWS)
            usual = call("coalesce", call("max_by", length, call("struct", n, length)), 0)
            n_ragged = call("coalesce", call("sum", n) - call("max", n), 0)
            rows.append(aggregate(lengths, (), usual.alias(names.DIMENSION), n_ragged.alias("n_ragged_vectors")))
        return rows

    def _history(self) -> DataFrame:
        """The different items of each user in the training data, with what is asked of them if it is joined to them."""
        items = call("array_distinct", named(CONSUMED))
        joins = self.lookup == "join"
        facts = []
        if joins and "history_popularity" in self.facts:
            facts.append(self._popularity.select(names.ITEM, names.TRAINING_USERS))
        asked: dict[str, Fact] = {names.CATEGORY_SET: "history_categories", names.VECTOR: "history_vector"}
        attributes = [name for name, fact in asked.items() if joins and fact in self.facts]
        if attributes:
            facts.append(self._attributes.select(names.ITEM, *attributes))
        if not facts:
            return select(self._by_user, *self._users, items.alias(names.HISTORY))
        pairs = select(self._by_user, *self._users, call("explode", items).alias(names.ITEM))
        pairs = reduce(lambda left, right: left.join(right, names.ITEM, "left"), facts, pairs)
        fields = [name for name in pairs.columns if name not in self.user_columns]
        known = call("collect_list", call("struct", *map(named, fields)))
        return aggregate_lists(pairs, self.user_columns, known.alias(names.HISTORY))

    def _baseline_rows(self) -> DataFrame:
        source = self.sources.baseline
        assert source is not None, "a baseline was asked for"
        if source.arrays:
            return self._baseline_entries(source)
        score = source.values_sql()[0].cast("double")
        score = -score if source.value_kind == "rank" else score
        users = self.named_users(source)
        rows = select(source.frame, *users, self._item(source.ids_sql()), score.alias(names.SCORE))
        return with_columns(rows, {_VALID: self._is_valid(names.SCORE)})

    def _baseline_entries(self, source: Source) -> DataFrame:
        """The entries of a baseline's arrays; those in order have their place for a score."""
        scores = [one.alias(_SCORES) for one in source.values_sql()]
        entry = call("posexplode_outer", source.ids_sql()).aliases(_PLACE, names.ITEM)
        entries = select(source.frame, *self.named_users(source), entry, *scores)
        score = call("get", named(_SCORES), named(_PLACE)) if scores else -named(_PLACE)
        item = self._item(usable(named(names.ITEM), source.item_type))
        rows = select(entries, *self._users, item, score.cast("double").alias(names.SCORE))
        return with_columns(rows, {_VALID: self._is_valid(names.SCORE)})

    @property
    def _users(self) -> list[Sql]:
        return [named(name) for name in self.user_columns]

    def _item(self, item: Sql) -> Sql:
        """An item of some table in the type that items of all tables get, under our name."""
        return item.cast(self.item_type).alias(names.ITEM)

    def _is_valid(self, *numbers: str) -> Sql:
        """Whether a row has a user, an item and these numbers, and none of them is NaN."""
        is_whole = ~any_of(named(name).is_null() for name in (*self.user_columns, names.ITEM, *numbers))
        are_nan = (call("coalesce", call("isnan", named(name)), number(False)) for name in numbers)
        return all_of([is_whole, *(~is_nan for is_nan in are_nan)])


def _one_table(table: DataFrame, *always_true: Sql) -> DataFrame:
    """The rows of a table that is used more than once, so that Spark computes it once: the conditions name its columns.

    Elsewhere Spark leaves out columns that nobody reads, and null keys of joins, and then sees two tables. Conditions that always hold
    keep all columns, and Spark moves no filter below one that numbers rows.
    """
    if not engine_of(table.sparkSession).reuses_plans:
        return table
    return where(table, all_of([call("monotonically_increasing_id") >= 0, *always_true]))


def _with_intents(rows: DataFrame, kind: T.DataType) -> DataFrame:
    """The rows with intents of this type as text; a row whose intent is an array becomes one for each entry."""
    others, intent = [named(name) for name in rows.columns if name != names.INTENT], named(names.INTENT)
    if isinstance(kind, T.ArrayType):
        entry = call("explode", call("array_distinct", intent)).alias(names.INTENT)
        rows, kind = select(rows, *others, entry), kind.elementType
    return select(rows, *others, readable(as_text(intent, kind)).alias(names.INTENT))


def _count(condition: Sql, name: str) -> Sql:
    return call("count", when(condition, 1)).alias(name)


def _total(name: str) -> Sql:
    """The sum of hashes, modulo 2^64, under their own name."""
    return call("coalesce", total_of_hashes(named(name)), 0).alias(name)


def _sum(values: Sql, name: str) -> Sql:
    return call("coalesce", call("sum", values), 0).alias(name)
