"""Ids that never meet: which ids of a call should occur in another table, and whether any does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import starmap
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import types as T

from spark_rankeval.request.counts import Overlap
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.spark.ids import as_text, common_id_type, readable, text_in_sql, text_of
from spark_rankeval.spark.inputs import Model, Sources
from spark_rankeval.spark.source import SourceTable
from spark_rankeval.spark.sql_text import (
    Sql,
    aggregate,
    all_of,
    call,
    named,
    number,
    rows_of_all,
    select,
    text,
    when,
    where,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ID, _KEY, _BOTH = "id_", "key_", "both_"
_SIDES = _LEFT, _RIGHT = ("left_", "right_")
_EXAMPLES = ("example_of_left_", "example_of_right_")
# Replacements in turn, after which ids that look alike are equal: of blanks around them, and of characters with an accent, composed or
# not. Leading zeros go, too, and the end of whole numbers that were doubles.
_ALIKE_IF = {r"^\s+|\s+$": "", r".\p{M}+|[^\x00-\x7F]": "?", "^0+([0-9])": "$1", r"([0-9])\.0+$": "$1"}


class Apart(NamedTuple):
    """Two columns of ids that have none in common."""

    n_left: int  # how many different ids there are
    n_right: int
    pair: tuple[str, str]  # one of each, which look alike if there is such a pair
    are_texts: bool


def overlaps_of(sources: Sources, task: ScoringTask) -> tuple[Overlap, ...]:
    """The ids of a call that should occur in its predictions, or among its labels."""
    return tuple(_overlaps_of(sources, task))


def _overlaps_of(sources: Sources, task: ScoringTask) -> Iterator[Overlap]:
    if any(metric.reads_labels for metric in task.metrics):
        yield Overlap("labels", "items")
    if sources.exclude is not None:
        yield from (Overlap("exclude", "users"), Overlap("exclude", "items"))
    for feature in sources.features:
        yield from feature.overlaps(task)


def ids_apart(sources: Sources, model: Model, overlap: Overlap) -> Apart | None:
    """Look whether the ids of an overlap occur anywhere in the other table, in one action; None if any does, or if there are none."""
    left, right = _tables(sources, model, overlap)
    if left is None or right is None:
        return None
    ids = rows_of_all([_ids(left, right, overlap, _LEFT), _ids(right, left, overlap, _RIGHT)])
    ids = aggregate(where(ids, named(_ID).is_not_null()), [_ID], *_each("max", _SIDES))
    key = call("lower", named(_ID))
    for pattern, replacement in _ALIKE_IF.items():
        key = call("regexp_replace", key, text(pattern), text(replacement))
    examples = (
        when(named(side) == 1, named(_ID)).alias(example) for side, example in zip(_SIDES, _EXAMPLES, strict=True)
    )
    ids = select(ids, key.alias(_KEY), *map(named, _SIDES), call("least", *map(named, _SIDES)).alias(_BOTH), *examples)
    keys = aggregate(ids, [_KEY], *_each("sum", (*_SIDES, _BOTH)), *_each("min", _EXAMPLES))
    both = all_of(named(example).is_not_null() for example in _EXAMPLES)
    alike = call("min", when(both, call("struct", *map(named, _EXAMPLES)))).alias(_KEY)
    sums = aggregate(keys, (), *_each("sum", (*_SIDES, _BOTH)), *_each("min", _EXAMPLES), alike)
    pair = (readable(call("coalesce", named(_KEY).field(example), named(example))) for example in _EXAMPLES)
    n_left, n_right, n_both, one, other = select(sums, *map(named, (*_SIDES, _BOTH)), *pair).collect()[0]
    if n_both or not n_left or not n_right:
        return None
    kinds = left.user_types() if overlap.kind == "users" else [left.item_type]
    return Apart(n_left, n_right, (one, other), any(isinstance(kind, T.StringType) for kind in kinds))


def _each(function: str, names: Iterable[str]) -> list[Sql]:
    """Aggregates of columns under their own names."""
    return [call(function, named(name)).alias(name) for name in names]


def _tables(sources: Sources, model: Model, overlap: Overlap) -> tuple[SourceTable | None, SourceTable | None]:
    """The table of an overlap, and the other one."""
    predictions, side_tables = model.source, sources.side_tables()
    if overlap.role == "intents":
        return sources.labels, side_tables.get("items")
    if sources.model_column is not None:
        is_of_model = text_in_sql(predictions.frame, sources.model_column) == text_of(model.name)
        predictions = replace(predictions, frame=where(predictions.frame, is_of_model))
    candidates = None
    if predictions.vectors is not None:
        candidates = predictions.vectors.candidates
        predictions = predictions.vectors.items if overlap.kind == "items" else predictions
    tables = {"labels": sources.labels, "exclude": sources.exclude, "candidates": candidates, **side_tables}
    return tables[overlap.role], predictions


def _ids(source: SourceTable, other: SourceTable, overlap: Overlap, side: str) -> DataFrame:
    """The ids of a table as text, with marks of the side that they are of."""
    marks = [number(int(name == side)).alias(name) for name in _SIDES]
    if overlap.kind == "users":
        pairs = zip(source.users_sql(), source.user_types(), other.user_types(), strict=True)
        users = where(source.frame, all_of(user.is_not_null() for user in source.users_sql()))
        return select(users, call("concat_ws", text(", "), *starmap(_as_text, pairs)).alias(_ID), *marks)
    entries = call("explode", source.ids_sql()) if source.arrays else source.ids_sql()
    rows = select(source.frame, entries.alias(_ID))
    return select(rows, _as_text(named(_ID), source.item_type, other.item_type).alias(_ID), *marks)


def _as_text(ids: Sql, kind: T.DataType, other: T.DataType) -> Sql:
    """Ids as text that is equal if they are equal to ids of the other type."""
    common = common_id_type(kind, other) or kind
    return as_text(ids.cast(common), common)
