"""The tables that metrics ask for beside predictions and labels: facts joined to items, lists joined to users, and their sizes.

Each table is grouped once by item and once by user, and nothing is joined to itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.ranking.recommended import OF_ITEMS
from spark_rankeval.spark.ids import text_in
from spark_rankeval.spark.named_columns import any_null, column
from spark_rankeval.worker import facts as names
from spark_rankeval.worker.reading import ITEMS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

    from spark_rankeval.ranking.recommended import Fact
    from spark_rankeval.spark.inputs import FurtherSources
    from spark_rankeval.spark.source import Source

# Columns of ours on the way: how many rows a row stands for, whether it can be used, the values of an item that disagree.
_ROWS, _VALID, _CONFLICT, _LENGTH, _PLACE, _SCORES = "rows_", "valid_", "conflict_", "length_", "place_", "scores_"


@dataclass(frozen=True)
class FactTables:
    """What metrics ask for of further tables."""

    sources: FurtherSources
    facts: frozenset[Fact]  # what is asked for
    user_columns: list[str]  # our names of the user's columns
    named_users: Callable[[Source], list[Column]]  # a table's user columns under these names
    item_type: T.DataType  # the type that items of all tables get

    @property
    def of_items(self) -> bool:
        """Whether anything is asked for that every predicted item is looked up for."""
        return bool(self.facts & set(OF_ITEMS))

    def with_facts(self, rows: DataFrame) -> DataFrame:
        """Rows of items with a struct of what is known of each; null if a row has no item."""
        if not self.of_items:
            return rows
        known = self._facts_of_items
        fields = [name for name in known.columns if name != names.ITEM]
        joined = rows.join(known.withColumnRenamed(names.ITEM, ITEMS), ITEMS, "left")
        facts = F.when(F.col(ITEMS).isNotNull(), F.struct(*fields)).alias(names.FACTS)
        return joined.select(*rows.columns, facts)

    def lists_of_users(self) -> list[DataFrame]:
        """What each user has in the training data, and what the baseline recommends: a row a user each."""
        lists = []
        if self.facts & {"history", "history_popularity", "history_vector"}:
            lists.append(self._history())
        if "baseline" in self.facts:
            valid = self._baseline_rows().where(_VALID)
            entry = F.struct(F.col(names.ITEM), F.col(names.SCORE))
            lists.append(valid.groupBy(self.user_columns).agg(F.collect_list(entry).alias(names.BASELINE)))
        return lists

    def with_totals(self, users: DataFrame) -> DataFrame:
        """Every row with how large the tables are, and how much of them cannot be used: the one row of each, broadcast."""
        if not self.facts:
            return users
        rows: list[DataFrame] = []
        if self.sources.training is not None:
            of_user = self._training_rows.groupBy(self.user_columns).agg(
                F.max(_VALID).alias(_VALID), _count(~F.col(_VALID), _ROWS)
            )
            rows.append(of_user.agg(_count(F.col(_VALID), names.N_TRAINING_USERS), _sum(_ROWS, "n_invalid_training")))
            if "popularity" in self.facts:
                n_items = F.count(F.lit(1)).alias(names.N_TRAINING_ITEMS)
                n_rows = _sum(names.TRAINING_INTERACTIONS, names.N_TRAINING_INTERACTIONS)
                rows.append(self._popularity.agg(n_items, n_rows))
        if self.sources.items is not None:
            rows += self._totals_of_items()
        if self.sources.baseline is not None:
            rows.append(self._baseline_rows().agg(_count(~F.col(_VALID), "n_invalid_baseline")))
        totals = reduce(lambda left, right: left.crossJoin(right), rows)
        totals = totals.select(*(F.col(name).cast("bigint") for name in totals.columns))
        return users.crossJoin(totals.hint("broadcast"))

    @cached_property
    def _training_rows(self) -> DataFrame:
        """The training data under our names, and whether each row can be used."""
        source = self.sources.training
        assert source is not None, "a fact of the training data was asked for"
        item = source.ids().cast(self.item_type).alias(names.ITEM)
        return source.frame.select(*self.named_users(source), item).withColumn(_VALID, self._is_valid())

    @cached_property
    def _pairs(self) -> DataFrame:
        """The training data, a row a user and item, with how many rows it stands for; it stands with its users, as predictions do."""
        key = [*self.user_columns, names.ITEM]
        usable = self._training_rows.where(_VALID).select(*key)
        return usable.repartition(*self.user_columns).groupBy(*key).agg(F.count(F.lit(1)).alias(_ROWS))

    @cached_property
    def _popularity(self) -> DataFrame:
        """A row an item of the training data: how many users have it, and in how many rows it is."""
        counted = self._pairs.groupBy(names.ITEM).agg(
            F.count(F.lit(1)).alias(names.TRAINING_USERS), F.sum(_ROWS).alias(names.TRAINING_INTERACTIONS)
        )
        # Always so. It keeps both counts wherever one is used, so that Spark sees one table, and counts once.
        return counted.where((F.col(names.TRAINING_USERS) > 0) & (F.col(names.TRAINING_INTERACTIONS) > 0))

    @cached_property
    def _facts_of_items(self) -> DataFrame:
        tables = []
        if "popularity" in self.facts:
            tables.append(self._popularity)
        if self.facts & {"category", "vector", "catalogue"}:
            in_items = F.lit(True).alias(names.IN_ITEMS)
            tables.append(self._attributes.select(names.ITEM, *self._attribute_names, in_items))
        return reduce(lambda one, other: one.join(other, names.ITEM, "full"), tables)

    @property
    def _attribute_names(self) -> list[str]:
        asked = {names.CATEGORY: self.sources.category, names.VECTOR: self.sources.vector}
        return [name for name, given in asked.items() if given is not None]

    @cached_property
    def _attributes(self) -> DataFrame:
        """The table of items, a row an item; an attribute in which its rows do not agree is null."""
        source = self.sources.items
        assert source is not None, "a fact of the table of items was asked for"
        attributes = {}
        if self.sources.category is not None:
            attributes[names.CATEGORY] = text_in(source.frame, self.sources.category)
        if self.sources.vector is not None:
            vector = column(self.sources.vector).cast(T.ArrayType(T.DoubleType()))
            # One with a hole or without a number is none, and is counted by its length.
            broken = F.exists(vector, lambda one: one.isNull() | F.isnan(one) | (F.abs(one) == F.lit(float("inf"))))
            attributes[names.VECTOR] = F.when(broken, F.array().cast(T.ArrayType(T.DoubleType()))).otherwise(vector)
        item = source.ids().cast(self.item_type).alias(names.ITEM)
        rows = source.frame.select(item, *(values.alias(name) for name, values in attributes.items()))
        aggregates = [F.count(F.lit(1)).alias(_ROWS)]
        for name in attributes:
            agree = F.min(name) == F.max(name)
            aggregates += [F.when(agree, F.min(name)).alias(name), (~agree).alias(_CONFLICT + name)]
        return rows.groupBy(names.ITEM).agg(*aggregates)

    def _totals_of_items(self) -> list[DataFrame]:
        usable = F.col(names.ITEM).isNotNull()
        counted = [_count(usable, names.N_ITEMS), _sum(F.when(~usable, F.col(_ROWS)), "n_invalid_items")]
        if self.sources.category is not None:
            counted.append(_count(F.col(_CONFLICT + names.CATEGORY) & usable, "n_conflicting_categories"))
        if self.sources.vector is not None:
            counted.append(_count(F.col(_CONFLICT + names.VECTOR) & usable, "n_conflicting_vectors"))
        rows = [self._attributes.agg(*counted)]
        if self.sources.vector is not None:
            length, n = F.size(names.VECTOR).alias(_LENGTH), F.count(F.lit(1)).alias(_ROWS)
            lengths = self._attributes.where(usable & F.col(names.VECTOR).isNotNull()).groupBy(length).agg(n)
            # Vectors are as long as most of them are.
            usual = F.coalesce(F.max_by(_LENGTH, F.struct(_ROWS, _LENGTH)), F.lit(0)).alias(names.DIMENSION)
            n_ragged = F.coalesce(F.sum(_ROWS) - F.max(_ROWS), F.lit(0)).alias("n_ragged_vectors")
            rows.append(lengths.agg(usual, n_ragged))
        return rows

    def _history(self) -> DataFrame:
        """The different items of each user in the training data, with what is asked of them."""
        pairs = self._pairs.select(*self.user_columns, names.ITEM)
        fields = [names.ITEM]
        if "history_popularity" in self.facts:
            pairs = pairs.join(self._popularity.select(names.ITEM, names.TRAINING_USERS), names.ITEM, "left")
            fields.append(names.TRAINING_USERS)
        if "history_vector" in self.facts:
            pairs = pairs.join(self._attributes.select(names.ITEM, names.VECTOR), names.ITEM, "left")
            fields.append(names.VECTOR)
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


def _count(condition: Column, name: str) -> Column:
    return F.count(F.when(condition, 1)).alias(name)


def _sum(values: Column | str, name: str) -> Column:
    return F.coalesce(F.sum(values), F.lit(0)).alias(name)
