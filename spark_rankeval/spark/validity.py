"""Which rows of a table can be ranked, and why others cannot."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from spark_rankeval.metrics.base import as_float32
from spark_rankeval.ranking.label_columns import LABEL_COLUMNS
from spark_rankeval.spark.ids import id_reasons
from spark_rankeval.spark.sql_text import all_of, any_of, call, named, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_rankeval.request.task import ScoringTask
    from spark_rankeval.spark.source import Source
    from spark_rankeval.spark.sql_text import Sql

_HUGE = 1e290


def invalid_reasons(source: Source, ids: Sql, values: Sequence[Sql], task: ScoringTask) -> dict[str, Sql]:
    """Why a row, or an entry of an array, says nothing that could be ranked: conditions by what they mean."""
    may_be_null = task.keep_null_items and source.role == "predictions"
    reasons = id_reasons(f"{source.role.rstrip('s')} item", ids, source.item_type, may_be_null=may_be_null)
    for given, (kind, value) in zip(source.given_values, _numbers(source, values).items(), strict=True):
        reasons[f"null {kind}"] = value.is_null()
        if given.beside:
            reasons |= {f"NaN {kind}": call("isnan", value)}
            wrong = LABEL_COLUMNS[given.beside].wrong
            reasons |= {words: compare(value, bound) for words, compare, bound in wrong}
            continue
        if source.value_kind == "relevance" and task.unusual_grades == "keep":
            continue
        reasons[f"NaN {kind}"] = call("isnan", value)
        if source.value_kind == "rank":
            reasons["negative rank"] = value < 0
            reasons["infinite rank"] = value == math.inf
            reasons["fractional rank"] = value != call("rint", value)
        if source.value_kind == "relevance":
            largest = task.largest_grade
            held = as_float32(largest) if isinstance(given.kind, T.FloatType) else largest
            above = f"{kind} above {largest:,.6g}, the largest grade of a metric"
            if largest < _HUGE:
                reasons[f"{above} (set max_grade or gain='linear')"] = value > held
            else:
                reasons |= {f"infinite {kind}": value == math.inf, above: (value > held) & (value < math.inf)}
    return reasons


def unusual_reasons(source: Source, values: Sequence[Sql], task: ScoringTask) -> dict[str, Sql]:
    """Why a row that could be ranked is not: infinite scores and negative grades, which the caller may allow."""
    numbers = {
        kind: value
        for given, (kind, value) in zip(source.given_values, _numbers(source, values).items(), strict=True)
        if not given.beside
    }
    if source.value_kind == "score" and not task.rank_infinite:
        return {f"infinite {kind}": call("abs", value) == math.inf for kind, value in numbers.items()}
    if source.value_kind == "relevance" and task.unusual_grades == "error" and not task.clip_grades:
        return {f"negative {kind}": value < 0 for kind, value in numbers.items()}
    return {}


def _numbers(source: Source, values: Sequence[Sql]) -> dict[str, Sql]:
    """The values as doubles by what messages call them; a cast loses no null."""
    several = len(source.grades) > 1
    kinds = [
        value.beside or (f"{source.value_kind} {value.name!r}" if several else str(source.value_kind))
        for value in source.given_values
    ]
    return {kind: value.cast("double") for kind, value in zip(kinds, values, strict=True)}


def none_holds(conditions: dict[str, Sql]) -> Sql:
    """Whether no condition is true; null is not."""
    if not conditions:
        return number(True)
    # A true one makes the whole true, whatever is null beside it.
    return ~call("coalesce", any_of(conditions.values()), False)


def says_something(source: Source, task: ScoringTask, model_column: str | None = None) -> Sql:
    """Whether a row of a table of rows has all that a ranking needs."""
    needed = [*source.users_sql(), *([] if model_column is None else [named(model_column)])]
    return all_of(values.is_not_null() for values in needed) & none_holds(
        invalid_reasons(source, source.given_ids_sql(), source.values_sql(), task)
    )
