"""The tables beside predictions and labels: their columns found and checked, and their facts joined to rows, or packed for workers.

Joins are a shuffle by item, for tables of any size. Tables that workers look up are one row each, which every task receives.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import types as T

from spark_rankeval.features.items import item_facts
from spark_rankeval.features.items.grouped_tables import (
    GroupedTables,
    ItemSources,
    column_of,
    count_of,
    sum_of,
    total_of,
)
from spark_rankeval.features.items.item_facts import rows_of_shares
from spark_rankeval.ranking.recommended import ATTRIBUTES, FACT_TABLES, ITEM_FACTS, NUMBERS, Fact
from spark_rankeval.request.column_names import ColumnNames
from spark_rankeval.request.counts import Overlap
from spark_rankeval.request.options import Facts, Lookup, LookupOption
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.spark.grouped_features import GroupedFeature, GroupingContext, SourceFeature
from spark_rankeval.spark.prediction_lists import Plan
from spark_rankeval.spark.source import SourceTable, read_source
from spark_rankeval.spark.sql_text import aggregate, aggregate_lists, call, look_up, named, number, select, when, where
from spark_rankeval.spark.tasks import packed, run_on_workers
from spark_rankeval.worker.grouped_row import FACTS, ITEMS
from spark_rankeval.worker.process import Bound, pack_together, rows_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# The length of vectors on the way.
_LENGTH = "length_"


@dataclass(frozen=True)
class JoinedFacts(GroupedTables):
    """Tables whose facts of items are joined."""

    @property
    def joins(self) -> bool:
        """Whether metrics need facts of predicted items that are joined."""
        return bool(self.item_fields & (item_facts.POPULARITY_FIELDS | item_facts.ATTRIBUTE_FIELDS))

    @property
    def listed(self) -> tuple[str, ...]:  # type: ignore[override] # it depends on the facts
        """The facts of each prediction."""
        return (FACTS,) if self.joins else ()

    def with_facts(self, rows: DataFrame) -> DataFrame:
        """Rows of items with a struct of the facts of each; null if a row has no item."""
        if not self.joins:
            return rows
        facts_table = self._facts_of_items
        fields = [name for name in facts_table.columns if name not in (item_facts.ITEM, item_facts.TRAINING_HASH)]
        joined = look_up(rows, facts_table.withColumnRenamed(item_facts.ITEM, ITEMS), ITEMS)
        facts = when(named(ITEMS).is_not_null(), call("struct", *map(named, fields)))
        return select(joined, *map(named, rows.columns), facts.alias(FACTS))

    def history(self) -> DataFrame:
        """The different items of each user in the training data with the facts that metrics ask for, one row per user."""
        users, wanted, facts = self.typed.user_columns, self.history_fields, []
        if item_facts.TRAINING_USERS in wanted:
            facts.append(self.popularity.select(item_facts.ITEM, item_facts.TRAINING_USERS))
        if attributes := [name for name in self.attribute_names if name in wanted]:
            facts.append(self.attributes.select(item_facts.ITEM, *attributes))
        if not facts:
            return super().history()
        item = call("explode", call("array_distinct", named(item_facts.CONSUMED))).alias(item_facts.ITEM)
        pairs = select(self.by_user, *self.typed.users, item)
        pairs = reduce(lambda left, right: left.join(right, item_facts.ITEM, "left"), facts, pairs)
        fields = [named(name) for name in pairs.columns if name not in users]
        return aggregate_lists(pairs, users, call("collect_list", call("struct", *fields)).alias(item_facts.HISTORY))

    def totals(self) -> list[DataFrame]:
        """One row each: how large the tables of items are, and how much of them cannot be used."""
        rows = [*super().totals(), *([self._totals_of_popularity()] if self.reads_popularity else [])]
        if self.reads_attributes:
            rows.append(self._totals_of_attributes())
            rows += [self._totals_of_vectors()] if item_facts.VECTOR in self.attribute_names else []
        return rows

    @cached_property
    def _facts_of_items(self) -> DataFrame:
        tables, fields = [], self.item_fields
        if fields & {*item_facts.LONG_TAIL}:
            tables.append(self._popularity_with_shares())
        elif fields & item_facts.POPULARITY_FIELDS:
            tables.append(self.popularity)
        if fields & item_facts.ATTRIBUTE_FIELDS:
            columns = (
                *map(named, (item_facts.ITEM, *self.attribute_names)),
                number(True).alias(item_facts.IS_IN_ITEMS),
            )
            tables.append(select(self.attributes, *columns))
        return reduce(lambda one, other: one.join(other, item_facts.ITEM, "full"), tables)

    def _popularity_with_shares(self) -> DataFrame:
        """The popularity with which shares are of more popular items: one task adds up how many items have which number of users."""
        popularity = self.popularity
        items = where(popularity, named(item_facts.ITEM).is_not_null())
        counts = aggregate(items, [item_facts.TRAINING_USERS], call("count", 1).alias(item_facts.ROWS)).repartition(1)
        fields = [T.StructField(item_facts.TRAINING_USERS, T.LongType())]
        fields += [T.StructField(name, T.DoubleType()) for name in item_facts.LONG_TAIL]
        shares = run_on_workers(counts, rows_of_shares, T.StructType(fields))
        return popularity.join(shares.hint("broadcast"), item_facts.TRAINING_USERS, "left")

    def _totals_of_popularity(self) -> DataFrame:
        is_item = named(item_facts.ITEM).is_not_null()
        n_users, n_rows = named(item_facts.TRAINING_USERS), named(item_facts.TRAINING_INTERACTIONS)
        return aggregate(
            self.popularity,
            (),
            sum_of(when(~is_item, n_users), item_facts.N_TRAINING_USERS),
            sum_of(when(~is_item, n_rows), "n_invalid_training"),
            count_of(is_item, item_facts.N_TRAINING_ITEMS),
            sum_of(when(is_item, n_rows), item_facts.N_TRAINING_INTERACTIONS),
            total_of(item_facts.TRAINING_HASH),
        )

    def _totals_of_attributes(self) -> DataFrame:
        usable = named(item_facts.ITEM).is_not_null()
        counted = [
            count_of(usable, item_facts.N_ITEMS),
            sum_of(when(~usable, named(item_facts.ROWS)), "n_invalid_items"),
        ]
        attributes = [name for name in self.attribute_names if name in item_facts.CONFLICTS]
        counted += [
            count_of(named(item_facts.CONFLICT + name) & usable, item_facts.CONFLICTS[name]) for name in attributes
        ]
        return aggregate(self.attributes, (), *counted)

    def _totals_of_vectors(self) -> DataFrame:
        usable = named(item_facts.ITEM).is_not_null() & named(item_facts.VECTOR).is_not_null()
        lengths = select(where(self.attributes, usable), call("size", named(item_facts.VECTOR)).alias(_LENGTH))
        lengths = aggregate(lengths, [_LENGTH], call("count", 1).alias(item_facts.ROWS))
        # Vectors are as long as most of them are.
        length, n = named(_LENGTH), named(item_facts.ROWS)
        usual = call("coalesce", call("max_by", length, call("struct", n, length)), 0)
        n_ragged = call("coalesce", call("sum", n) - call("max", n), 0)
        return aggregate(lengths, (), usual.alias(item_facts.DIMENSION), n_ragged.alias("n_ragged_vectors"))


def with_lookup(
    plan: Plan, facts: frozenset[Fact], option: LookupOption, *, lazy: bool, tables_fit: bool, all_rows: bool
) -> Plan:
    """The plan with how facts of items come to predictions."""
    fields = item_facts.fields_of(facts) | item_facts.fields_of(facts, history=True)
    if not fields & (item_facts.POPULARITY_FIELDS | item_facts.ATTRIBUTE_FIELDS):
        return plan
    most = f"{item_facts.BOUND.rows:,} items and {item_facts.BOUND.n_bytes >> 20} MB"
    looked_up = "Every task receives the tables of items, and workers look up the facts of predicted items"
    joined = "Facts of items are joined to predictions"
    lookup: Lookup = "join"
    if option == "join":
        words = f"{joined}: lookup='join' was asked for."
    elif not all_rows:
        lookup, words = "workers", f"{looked_up}: there are no rows to join them to."
    elif option == "workers":
        lookup, words = "workers", f"{looked_up}: lookup='workers' was asked for."
    elif lazy:
        words = f"{joined}: the size of their tables is not known before a table per user is computed."
    elif not tables_fit:
        words = f"{joined}: a table has more than {most}. To find out, the evaluation began twice; lookup='join' saves that."
    else:
        lookup, words = "workers", f"{looked_up}: each table has at most {most}."
    return replace(plan, lookup=lookup, words=(*plan.words, words))


@dataclass(frozen=True)
class PackedFacts(GroupedTables):
    """Tables in which workers look facts of items up."""

    must_fit: bool  # whether tables of any size are packed; else one that is too large is none

    def packed_tables(self) -> dict[str, DataFrame]:
        """All tables of items as one row each."""
        bound = None if self.must_fit else item_facts.BOUND
        tables = super().packed_tables()
        if self.reads_popularity:
            # It has the levels, too.
            tables.pop(item_facts.LEVELS_TABLE, None)
            tables[item_facts.POPULARITY_TABLE] = self.packed_popularity(bound)
        if self.reads_attributes:
            tables[item_facts.ATTRIBUTES_TABLE] = self._packed_attributes(bound)
        return tables

    def _packed_attributes(self, bound: Bound | None) -> DataFrame:
        rows = self.attributes
        # One row more than a table may have shows that it is too large, and no worker need read them all.
        # Spark drops a limit that it knows to be above the table, and the one partition with it.
        rows = rows.repartition(1) if bound is None else rows.limit(bound.rows + 1).coalesce(1)
        return packed(rows, pack_together(rows_in, lambda table: table, bound))


class SideTables(NamedTuple):
    """The tables that metrics ask for, as the caller gave them."""

    options: Facts = Facts()
    facts: frozenset[Fact] = frozenset()  # those that metrics ask for
    roles: Collection[str] = ()  # the tables that hold these

    def frames(self) -> dict[str, DataFrame | None]:
        """The tables by their roles."""
        return {role: frame if role in self.roles else None for role, frame in self.options.tables().items()}


@dataclass(frozen=True)
class SideSources(ItemSources, SourceFeature):
    """Tables that metrics ask for beside predictions and labels; None if none does."""

    lookup: LookupOption = "auto"  # how facts of items come to predictions

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

    def plan(self, plan: Plan, task: ScoringTask, *, lazy: bool, tables_fit: bool, all_rows: bool) -> Plan:
        """The plan with how facts of items come to predictions."""
        return with_lookup(plan, task.facts, self.lookup, lazy=lazy, tables_fit=tables_fit, all_rows=all_rows)

    def grouped(self, context: GroupingContext) -> GroupedFeature:
        """The tables as rows of predictions and users get them."""
        facts, typed = context.task.facts, context.typed
        if context.lookup == "join":
            return JoinedFacts(self, facts, typed)
        return PackedFacts(self, facts, typed, must_fit=self.lookup == "workers" or not context.all_rows)


def read_side_tables(
    tables: SideTables, predictions: Sequence[SourceTable], names: ColumnNames, problems: list[str]
) -> SideSources:
    """Find and check the columns of the tables; what is wrong with them is added to the problems."""
    options, facts, frames = tables.options, tables.facts, tables.frames()
    has_vectors = any(source.vectors is not None for source in predictions)
    has_arrays = bool(facts & set(ITEM_FACTS)) and any(source.arrays for source in predictions)
    if options.lookup == "join" and (has_vectors or has_arrays):
        form = "Vectors" if has_vectors else "arrays"
        problems.append(
            f"lookup='join' joins facts of items to rows of predictions, and {form} have none; leave it out"
        )
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
    return SideSources(sources["training"], sources["items"], sources["baseline"], columns, options.lookup)
