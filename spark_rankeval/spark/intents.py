"""Where the intents of labels come from: a column of theirs, or the categories of their items."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import types as T

from spark_rankeval.spark.ids import as_text, problem_of_type, readable
from spark_rankeval.spark.source import ValueColumn, array_value, require_column
from spark_rankeval.spark.sql_text import call, named, with_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_rankeval.spark.inputs import FurtherSources, FurtherTables
    from spark_rankeval.spark.source import Source
    from spark_rankeval.spark.sql_text import Sql

# The column of the subtopic of a label as text, or of the hash of an array of them.
_SUBTOPIC, _HASH = "subtopic_", "subtopics_hash_"


class IntentColumns(NamedTuple):
    """Where the intents of labels come from."""

    labels: Source  # as they were given: an item may have a row for each of its subtopics
    subtopic: ValueColumn | None  # their column of subtopics; None: the intents are the categories of items

    def subtopics(self) -> Sql | None:
        """The column of subtopics, or the arrays of them; None if the intents are the categories of items."""
        if self.subtopic is None:
            return None
        is_field, name = self.subtopic.is_field, self.subtopic.name
        return self.labels.field(name) if is_field else named(name)

    def read(self) -> Source:
        """The labels with what their hash and examples need of subtopics."""
        labels, subtopics = self.labels, self.subtopics()
        if self.subtopic is None or subtopics is None:
            return labels
        if labels.arrays or isinstance(self.subtopic.kind, T.ArrayType):
            frame = with_columns(labels.frame, {_HASH: call("xxhash64", subtopics)})
            return replace(labels, frame=frame, hashed=_HASH)
        frame = with_columns(labels.frame, {_SUBTOPIC: readable(as_text(subtopics, self.subtopic.kind))})
        return replace(labels, frame=frame, hashed=_SUBTOPIC, subtopic=_SUBTOPIC)


def _intents_in_labels(labels: Source, name: str | None, problems: list[str]) -> IntentColumns:
    """The labels with their column of subtopics of this name; what is wrong with it is added to the problems."""
    if name is None:
        return IntentColumns(labels, None)
    if labels.arrays:
        element = labels.frame.schema[labels.item].dataType.elementType  # type: ignore[attr-defined] # an array
        found = array_value("labels", labels.frame, labels.item, element, name, "subtopic", problems=problems)
    else:
        spelled = require_column("labels", labels.frame, name, "subtopic", problems)
        found = None if spelled is None else ValueColumn(spelled, labels.frame.schema[spelled].dataType)
    if found is not None:
        problems += _problem_of_intents(f"labels: the column {found.name!r} (subtopic=)", found.kind)
    return IntentColumns(labels, found)


def _categories_as_intents(items: DataFrame, name: str, problems: list[str]) -> str | None:
    """The column of the table of items that has their categories, one or an array of them."""
    category = require_column("items", items, name, "category", problems)
    if category is not None:
        kind = items.schema[category].dataType
        problems += _problem_of_intents(f"items: the column {category!r} (category=)", kind)
    return category


def _problem_of_intents(what: str, kind: T.DataType) -> list[str]:
    return problem_of_type(what, kind.elementType if isinstance(kind, T.ArrayType) else kind, "intent")


def with_intents(
    given: FurtherTables, beside: FurtherSources, labels: Source, problems: list[str]
) -> tuple[FurtherSources, Source]:
    """The further tables with where the intents of labels come from, and the labels with their subtopics."""
    if problems or not (given.intents or given.subtopic is not None):
        return beside, labels
    category = given.intent_category
    if category is not None and given.items is not None:
        category = _categories_as_intents(given.items, category, problems)
    intents = _intents_in_labels(labels, given.subtopic, problems)
    beside = replace(beside, category_of_intents=category, intents=intents)
    return beside, labels if problems else intents.read()
