"""The tables beside predictions and labels: as the caller gives them, and with their columns found and checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import types as T

from spark_rankeval.features.items.join import JoinedFacts
from spark_rankeval.features.items.lookup import PackedFacts, with_lookup
from spark_rankeval.ranking.recommended import OF_ITEMS, TABLES_OF
from spark_rankeval.request.counts import Overlap
from spark_rankeval.request.options import Facts
from spark_rankeval.spark.features import GroupedFeature, SourceFeature
from spark_rankeval.spark.ids import problem_of_type
from spark_rankeval.spark.source import names_or_arrays, read_source, require_column

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pyspark.sql import DataFrame

    from spark_rankeval.ranking.recommended import Fact
    from spark_rankeval.request.column_names import ColumnNames
    from spark_rankeval.request.options import LookupOption
    from spark_rankeval.request.task import ScoringTask
    from spark_rankeval.spark.features import GroupingContext
    from spark_rankeval.spark.plan import Plan
    from spark_rankeval.spark.source import Role, Source


class SideTables(NamedTuple):
    """The tables that metrics ask for, as the caller gave them."""

    given: Facts = Facts()
    facts: frozenset[Fact] = frozenset()  # those that metrics ask for
    roles: Collection[str] = ()  # the tables that hold these

    def frames(self) -> dict[str, DataFrame | None]:
        """The tables by their roles."""
        return {role: frame if role in self.roles else None for role, frame in self.given.tables().items()}


@dataclass(frozen=True)
class SideSources(SourceFeature):
    """Tables that metrics ask for beside predictions and labels; None if none does."""

    training: Source | None = None  # interactions of users with items
    items: Source | None = None  # attributes of items
    baseline: Source | None = None  # the recommendations of a baseline
    category: str | None = None  # the column of `items` that has categories
    vector: str | None = None  # the one that has vectors
    group: str | None = None  # the one that has groups, or arrays of them
    lookup: LookupOption = "auto"  # how facts of items come to predictions

    def tables(self) -> list[Source]:
        """Those that there are."""
        return [source for source in (self.training, self.items, self.baseline) if source is not None]

    def columns_of_items(self) -> dict[str, bool]:
        """The columns that metrics read; vectors are neither ids nor texts."""
        return {name: name != self.vector for name in (self.category, self.vector, self.group) if name is not None}

    def overlaps(self, task: ScoringTask) -> Iterator[Overlap]:
        """Recommended items should be in the tables, and the users of the training data and of the baseline among those with lists."""
        # The intents of labels are of items that need not be predicted.
        tables = {table for fact in task.facts - {"intents"} for table in TABLES_OF[fact]}
        yield from (Overlap(table, "items") for table in ("training", "items", "baseline") if table in tables)
        if any(fact.startswith("history") for fact in task.facts):
            yield Overlap("training", "users")
        if "baseline" in tables:
            yield Overlap("baseline", "users")

    def plan(self, plan: Plan, task: ScoringTask, *, lazy: bool, tables_fit: bool, from_vectors: bool) -> Plan:
        """The plan with how facts of items come to predictions."""
        return with_lookup(plan, task.facts, self.lookup, lazy=lazy, tables_fit=tables_fit, from_vectors=from_vectors)

    def grouped(self, context: GroupingContext) -> GroupedFeature:
        """The tables as rows of predictions and users get them."""
        facts, typed = context.task.facts, context.typed
        if context.lookup == "join":
            return JoinedFacts(self, facts, typed)
        return PackedFacts(self, facts, typed, must_fit=self.lookup == "workers" or context.from_vectors)


def read_side_tables(tables: SideTables, predictions: Source, names: ColumnNames, problems: list[str]) -> SideSources:
    """Find and check the columns of the tables; what is wrong with them is added to the problems."""
    given, facts, frames = tables.given, tables.facts, tables.frames()
    if predictions.vectors is not None:
        if given.lookup == "join":
            problems.append(
                "lookup='join' joins facts of items to rows of predictions, and Vectors have none; leave it out"
            )
    elif facts & set(OF_ITEMS) and predictions.arrays:
        problems.append(
            "metrics of items need predictions as rows, and these are arrays. Explode them with predictions.select('user', "
            "F.posexplode('item').alias('rank', 'item')), and pass rank='rank'"
        )
    # A baseline may have its items in order even if the predictions have scores.
    sources = {
        role: None if frame is None else read_source(role, frame, names, problems)  # type: ignore[arg-type] # a role
        for role, frame in frames.items()
    }
    items, category, vector, group = frames["items"], None, None, None
    if items is not None and facts & {"category", "categories", "history_categories"}:
        category = require_column("items", items, given.category, "category", problems)
        if category is not None:
            kind = items.schema[category].dataType
            words = f"items: the column {category!r} (category=)"
            if isinstance(kind, T.ArrayType) and "category" in facts:
                problems.append(
                    f"{words} is {kind.simpleString()}, several categories for each item. diversity(by='categories') compares such "
                    "sets; metrics of one category need one value for each item"
                )
            else:
                kind = kind.elementType if isinstance(kind, T.ArrayType) else kind
                problems += problem_of_type(words, kind, "category")
    if items is not None and facts & {"vector", "history_vector"}:
        vector = array_of_numbers("items", items, given.vector, problems)
    if items is not None and "groups" in facts:
        group = names_or_arrays("items", items, given.group, "group", problems)
    read = SideSources(sources["training"], sources["items"], sources["baseline"])
    return replace(read, category=category, vector=vector, group=group, lookup=given.lookup)


def array_of_numbers(role: Role, frame: DataFrame, name: str, problems: list[str]) -> str:
    """The name of a column of vectors as the table spells it; what is wrong with it is added to the problems."""
    found = require_column(role, frame, name, "vector", problems)
    kind = T.NullType() if found is None else frame.schema[found].dataType
    if found is not None and not (isinstance(kind, T.ArrayType) and isinstance(kind.elementType, T.NumericType)):
        problems.append(
            f"{role}: the column {found!r} (vector=) must be an array of numbers; it is {kind.simpleString()}. Convert a vector of "
            "pyspark.ml with pyspark.ml.functions.vector_to_array"
        )
    return found or name
