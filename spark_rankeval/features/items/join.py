"""Facts of items that are joined to predictions and to histories: a shuffle by item, for tables of any size."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from spark_rankeval.features.items import wire
from spark_rankeval.features.items.counting import rows_of_shares
from spark_rankeval.features.items.grouped import GroupedTables, count_of, sum_of, total_of
from spark_rankeval.spark.sql_text import aggregate, aggregate_lists, call, named, number, select, when, where
from spark_rankeval.spark.workers import run_on_workers
from spark_rankeval.worker.grouped_row import FACTS, ITEMS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The length of vectors on the way.
_LENGTH = "length_"


@dataclass(frozen=True)
class JoinedFacts(GroupedTables):
    """Tables whose facts of items are joined."""

    @property
    def joins(self) -> bool:
        """Whether any fact of predicted items is asked for that is joined."""
        return bool(self.item_fields & (wire.POPULARITY_FIELDS | wire.ATTRIBUTE_FIELDS))

    @property
    def listed(self) -> tuple[str, ...]:  # type: ignore[override] # it depends on the facts
        """The facts of each prediction."""
        return (FACTS,) if self.joins else ()

    def with_facts(self, rows: DataFrame) -> DataFrame:
        """Rows of items with a struct of the facts of each; null if a row has no item."""
        if not self.joins:
            return rows
        known = self._facts_of_items
        fields = [name for name in known.columns if name not in (wire.ITEM, wire.TRAINING_HASH)]
        joined = rows.join(known.withColumnRenamed(wire.ITEM, ITEMS), ITEMS, "left")
        facts = when(named(ITEMS).is_not_null(), call("struct", *map(named, fields)))
        return select(joined, *map(named, rows.columns), facts.alias(FACTS))

    def history(self) -> DataFrame:
        """The different items of each user in the training data with the facts that metrics ask for, one row per user."""
        users, wanted, facts = self.typed.user_columns, self.history_fields, []
        if wire.TRAINING_USERS in wanted:
            facts.append(self.popularity.select(wire.ITEM, wire.TRAINING_USERS))
        if attributes := [name for name in (wire.CATEGORY_SET, wire.VECTOR) if name in wanted]:
            facts.append(self.attributes.select(wire.ITEM, *attributes))
        if not facts:
            return super().history()
        item = call("explode", call("array_distinct", named(wire.CONSUMED))).alias(wire.ITEM)
        pairs = select(self.by_user, *self.typed.users, item)
        pairs = reduce(lambda left, right: left.join(right, wire.ITEM, "left"), facts, pairs)
        fields = [named(name) for name in pairs.columns if name not in users]
        return aggregate_lists(pairs, users, call("collect_list", call("struct", *fields)).alias(wire.HISTORY))

    def totals(self) -> list[DataFrame]:
        """One row each: how large the tables of items are, and how much of them cannot be used."""
        rows = [*super().totals(), *([self._totals_of_popularity()] if self.reads_popularity else [])]
        if self.reads_attributes:
            rows.append(self._totals_of_attributes())
            rows += [] if self.sources.vector is None else [self._totals_of_vectors()]
        return rows

    @cached_property
    def _facts_of_items(self) -> DataFrame:
        tables, fields = [], self.item_fields
        if fields & {*wire.LONG_TAIL}:
            tables.append(self._popularity_with_shares())
        elif fields & wire.POPULARITY_FIELDS:
            tables.append(self.popularity)
        if fields & wire.ATTRIBUTE_FIELDS:
            known = (*map(named, (wire.ITEM, *self.attribute_names)), number(True).alias(wire.IN_ITEMS))
            tables.append(select(self.attributes, *known))
        return reduce(lambda one, other: one.join(other, wire.ITEM, "full"), tables)

    def _popularity_with_shares(self) -> DataFrame:
        """The popularity with which shares are of more popular items: one task adds up how many items have which number of users."""
        popularity = self.popularity
        of_items = where(popularity, named(wire.ITEM).is_not_null())
        counts = aggregate(of_items, [wire.TRAINING_USERS], call("count", 1).alias(wire.ROWS)).repartition(1)
        fields = [T.StructField(wire.TRAINING_USERS, T.LongType())]
        fields += [T.StructField(name, T.DoubleType()) for name in wire.LONG_TAIL]
        shares = run_on_workers(counts, rows_of_shares, T.StructType(fields))
        return popularity.join(shares.hint("broadcast"), wire.TRAINING_USERS, "left")

    def _totals_of_popularity(self) -> DataFrame:
        is_item = named(wire.ITEM).is_not_null()
        n_users, n_rows = named(wire.TRAINING_USERS), named(wire.TRAINING_INTERACTIONS)
        return aggregate(
            self.popularity,
            (),
            sum_of(when(~is_item, n_users), wire.N_TRAINING_USERS),
            sum_of(when(~is_item, n_rows), "n_invalid_training"),
            count_of(is_item, wire.N_TRAINING_ITEMS),
            sum_of(when(is_item, n_rows), wire.N_TRAINING_INTERACTIONS),
            total_of(wire.TRAINING_HASH),
        )

    def _totals_of_attributes(self) -> DataFrame:
        usable = named(wire.ITEM).is_not_null()
        counted = [count_of(usable, wire.N_ITEMS), sum_of(when(~usable, named(wire.ROWS)), "n_invalid_items")]
        attributes = [name for name in self.attribute_names if name in wire.CONFLICTS]
        counted += [count_of(named(wire.CONFLICT + name) & usable, wire.CONFLICTS[name]) for name in attributes]
        return aggregate(self.attributes, (), *counted)

    def _totals_of_vectors(self) -> DataFrame:
        usable = named(wire.ITEM).is_not_null() & named(wire.VECTOR).is_not_null()
        lengths = select(where(self.attributes, usable), call("size", named(wire.VECTOR)).alias(_LENGTH))
        lengths = aggregate(lengths, [_LENGTH], call("count", 1).alias(wire.ROWS))
        # Vectors are as long as most of them are.
        length, n = named(_LENGTH), named(wire.ROWS)
        usual = call("coalesce", call("max_by", length, call("struct", n, length)), 0)
        n_ragged = call("coalesce", call("sum", n) - call("max", n), 0)
        return aggregate(lengths, (), usual.alias(wire.DIMENSION), n_ragged.alias("n_ragged_vectors"))
