"""Where the intents of labels come from: a column of theirs, or the categories of their items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import types as T

from spark_rankeval.features.intents.worker import INTENT, INTENTS
from spark_rankeval.features.items.item_facts import ITEM
from spark_rankeval.ranking.recommended import Fact
from spark_rankeval.request.counts import Overlap
from spark_rankeval.request.options import Facts
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.spark.grouped_features import GroupedFeature, SourceFeature, Typed
from spark_rankeval.spark.ids import as_text, problem_of_type, readable
from spark_rankeval.spark.invalid_rows import none_holds, says_something, unusual_reasons
from spark_rankeval.spark.source import SourceTable, ValueColumn, array_value, require_column
from spark_rankeval.spark.sql_text import Sql, aggregate_lists, call, named, select, where, with_columns
from spark_rankeval.worker.grouped_row import grades_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# The place of an entry of an array.
_PLACE_IN_LIST = "place_"
# The column of the subtopic of a label as text, or of the hash of an array of them.
_SUBTOPIC, _HASH = "subtopic_", "subtopics_hash_"


class IntentColumns(NamedTuple):
    """Where the intents of labels come from."""

    labels: SourceTable  # as they were given: an item may have a row for each of its subtopics
    subtopic: ValueColumn | None  # their column of subtopics; None: the intents are the categories of items

    def subtopics(self) -> Sql | None:
        """The column of subtopics, or the arrays of them; None if the intents are the categories of items."""
        if self.subtopic is None:
            return None
        is_field, name = self.subtopic.is_field, self.subtopic.name
        return self.labels.field(name) if is_field else named(name)

    def read(self) -> SourceTable:
        """The labels with what their hash and examples need of subtopics."""
        labels, subtopics = self.labels, self.subtopics()
        if self.subtopic is None or subtopics is None:
            return labels
        if labels.arrays or isinstance(self.subtopic.kind, T.ArrayType):
            frame = with_columns(labels.frame, {_HASH: call("xxhash64", subtopics)})
            return replace(labels, frame=frame, hashed=_HASH)
        frame = with_columns(labels.frame, {_SUBTOPIC: readable(as_text(subtopics, self.subtopic.kind))})
        return replace(labels, frame=frame, hashed=_SUBTOPIC, subtopic=_SUBTOPIC)


def _intents_in_labels(labels: SourceTable, name: str | None, problems: list[str]) -> IntentColumns:
    """The labels with their column of subtopics of this name; what is wrong with it is added to the problems."""
    if name is None:
        return IntentColumns(labels, None)
    if labels.arrays:
        element = labels.frame.schema[labels.item].dataType.elementType  # type: ignore[attr-defined] # an array
        column = array_value("labels", labels.frame, labels.item, element, name, "subtopic", problems=problems)
    else:
        spelled = require_column("labels", labels.frame, name, "subtopic", problems)
        column = None if spelled is None else ValueColumn(spelled, labels.frame.schema[spelled].dataType)
    if column is not None:
        problems += _problem_of_intents(f"labels: the column {column.name!r} (subtopic=)", column.kind)
    return IntentColumns(labels, column)


def _categories_as_intents(items: DataFrame, name: str, problems: list[str]) -> str | None:
    """The column of the table of items that has their categories, one or an array of them."""
    category = require_column("items", items, name, "category", problems)
    if category is not None:
        kind = items.schema[category].dataType
        problems += _problem_of_intents(f"items: the column {category!r} (category=)", kind)
    return category


def _problem_of_intents(what: str, kind: T.DataType) -> list[str]:
    return problem_of_type(what, kind.elementType if isinstance(kind, T.ArrayType) else kind, "intent")


@dataclass(frozen=True)
class IntentSources(SourceFeature):
    """Where the intents of labels come from, and the table of items if they are its categories."""

    columns: IntentColumns
    items: SourceTable | None = None
    category: str | None = None  # the column of items that has them

    def columns_of_items(self) -> dict[str, bool]:
        """The categories."""
        return {} if self.category is None else {self.category: True}

    def overlaps(self, task: ScoringTask) -> Iterator[Overlap]:
        """Labelled items should be in the table of items."""
        if self.category is not None:
            yield Overlap("intents", "items")

    def grouped(self, task: ScoringTask, typed: Typed) -> GroupedFeature:
        """The intents of each user's labels."""
        return GroupedIntents(self, task, typed)


@dataclass(frozen=True)
class GroupedIntents(GroupedFeature):
    """The intents of labels, grouped by user."""

    sources: IntentSources
    task: ScoringTask
    typed: Typed

    @property
    def joins(self) -> bool:
        """If a metric asks for intents, or to tell judgements of one subtopic from others."""
        return "intents" in self.task.facts or self.task.has_subtopic_rows

    def label_tables(self) -> list[DataFrame]:
        """What the labels of each user are about: structs of item, intent and grades."""
        if not self.joins:
            return []
        columns, typed = self._usable_columns, self.typed
        rows, grades = _judged_items(columns.labels, columns.subtopics(), typed)
        subtopic = columns.subtopic
        rows = self._with_categories(rows) if subtopic is None else _with_intents(rows, subtopic.kind)
        rows = where(rows, typed.is_valid(*grades) & named(INTENT).is_not_null())
        pair = call("struct", *map(named, (ITEM, INTENT, *grades)))
        return [aggregate_lists(rows, typed.user_columns, call("collect_list", pair).alias(INTENTS))]

    @property
    def _usable_columns(self) -> IntentColumns:
        """Where intents come from: of labels with a row for each, those that can be used."""
        task, columns = self.task, self.sources.columns
        if not task.has_subtopic_rows:
            return columns
        labels = columns.labels
        unusual = unusual_reasons(labels, labels.values_sql(), task)
        usable = where(labels.frame, says_something(labels, task) & none_holds(unusual))
        return columns._replace(labels=replace(labels, frame=usable))

    def _with_categories(self, rows: DataFrame) -> DataFrame:
        """A row for each category of each row's item."""
        items, category = self.sources.items, self.sources.category
        assert items is not None, "without a subtopic, the table of items was asked for"
        assert category is not None, "the same"
        item = self.typed.item(items.ids_sql())
        categories = _with_intents(
            select(items.frame, item, named(category).alias(INTENT)), items.frame.schema[category].dataType
        )
        return rows.join(categories.dropna().distinct(), ITEM)


def read_intents(
    facts: Facts, metric_facts: frozenset[Fact], items: SourceTable | None, labels: SourceTable, problems: list[str]
) -> IntentSources | None:
    """Where the intents of labels come from; None if no metric asks for any, or if there are problems already."""
    if problems or not ("intents" in metric_facts or facts.subtopic is not None):
        return None
    category = None
    if facts.subtopic is None and items is not None:
        category = _categories_as_intents(items.frame, facts.category, problems)
    return IntentSources(_intents_in_labels(labels, facts.subtopic, problems), items, category)


def _judged_items(labels: SourceTable, subtopics: Sql | None, typed: Typed) -> tuple[DataFrame, list[str]]:
    """A row for each label with its item and grades, whose names are returned as well, and its subtopic or subtopics."""
    users = typed.named_users(labels)
    grades = [grades_column(index) for index in range(len(labels.grades))]
    values = dict(zip(grades, labels.values_sql(), strict=False))
    if subtopics is not None:
        values[INTENT] = subtopics
    columns = [value.alias(name) for name, value in values.items()]
    if labels.arrays:
        entry = call("posexplode", labels.ids_sql()).aliases(_PLACE_IN_LIST, ITEM)
        entries = select(labels.frame, *users, entry, *columns)
        values = {name: call("get", named(name), named(_PLACE_IN_LIST)) for name in values}
    else:
        entries = select(labels.frame, *users, labels.ids_sql().alias(ITEM), *columns)
        values = {name: named(name) for name in values}
    read = [(value.cast("double") if name in grades else value).alias(name) for name, value in values.items()]
    return select(entries, *typed.users, typed.item(named(ITEM)), *read), grades


def _with_intents(rows: DataFrame, kind: T.DataType) -> DataFrame:
    """The rows with intents of this type as text; a row whose intent is an array becomes one for each entry."""
    others, intent = [named(name) for name in rows.columns if name != INTENT], named(INTENT)
    if isinstance(kind, T.ArrayType):
        entry = call("explode", call("array_distinct", intent)).alias(INTENT)
        rows, kind = select(rows, *others, entry), kind.elementType
    return select(rows, *others, readable(as_text(intent, kind)).alias(INTENT))
