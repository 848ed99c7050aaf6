"""Which rows of a table can be ranked, and why others cannot."""

from __future__ import annotations

import math
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.metrics.base import as_float32
from spark_rankeval.ranking.label_columns import LABEL_COLUMNS
from spark_rankeval.spark.named_columns import column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

    from spark_rankeval.request.task import ScoringTask
    from spark_rankeval.spark.source import Source

_HUGE = 1e290


def invalid_reasons(source: Source, ids: Column, values: Sequence[Column], task: ScoringTask) -> dict[str, Column]:
    """Why a row, or an entry of an array, says nothing that could be ranked: conditions by what they mean."""
    reasons = {f"null {source.role.rstrip('s')} item": ids.isNull()}
    if isinstance(source.item_type, T.FloatType | T.DoubleType):
        reasons["NaN item"] = F.isnan(ids)
    if task.keep_null_items and source.role == "predictions":
        reasons = {}
    for given, (kind, number) in zip(source.given_values, _numbers(source, values).items(), strict=True):
        reasons[f"null {kind}"] = number.isNull()
        if given.beside:
            reasons |= {f"NaN {kind}": F.isnan(number)}
            wrong = LABEL_COLUMNS[given.beside].wrong
            reasons |= {words: compare(number, F.lit(bound)) for words, compare, bound in wrong}
            continue
        if source.value_kind == "relevance" and task.unusual_grades == "keep":
            continue
        reasons[f"NaN {kind}"] = F.isnan(number)
        if source.value_kind == "rank":
            reasons["negative rank"] = number < 0
            reasons["infinite rank"] = number == F.lit(math.inf)
            reasons["fractional rank"] = number != F.rint(number)
        if source.value_kind == "relevance":
            largest = task.largest_grade
            held = as_float32(largest) if isinstance(given.kind, T.FloatType) else largest
            above, infinite = f"{kind} above {largest:,.6g}, the largest grade of a metric", F.lit(math.inf)
            if largest < _HUGE:
                reasons[f"{above} (set max_grade or gain='linear')"] = number > F.lit(held)
            else:
                reasons |= {f"infinite {kind}": number == infinite, above: (number > F.lit(held)) & (number < infinite)}
    return reasons


def unusual_reasons(source: Source, values: Sequence[Column], task: ScoringTask) -> dict[str, Column]:
    """Why a row that could be ranked is not: infinite scores and negative grades, which the caller may allow."""
    numbers = {
        kind: number
        for given, (kind, number) in zip(source.given_values, _numbers(source, values).items(), strict=True)
        if not given.beside
    }
    if source.value_kind == "score" and not task.rank_infinite:
        return {f"infinite {kind}": F.abs(number) == F.lit(math.inf) for kind, number in numbers.items()}
    if source.value_kind == "relevance" and task.unusual_grades == "error" and not task.clip_grades:
        return {f"negative {kind}": number < 0 for kind, number in numbers.items()}
    return {}


def _numbers(source: Source, values: Sequence[Column]) -> dict[str, Column]:
    """The values as doubles by what messages call them; a cast loses no null."""
    several = len(source.grades) > 1
    kinds = [
        value.beside or (f"{source.value_kind} {value.name!r}" if several else str(source.value_kind))
        for value in source.given_values
    ]
    return {kind: value.cast("double") for kind, value in zip(kinds, values, strict=True)}


def none_holds(conditions: dict[str, Column]) -> Column:
    """Whether no condition is true; null is not."""
    if not conditions:
        return F.lit(True)
    # A true one makes the whole true, whatever is null beside it.
    return ~F.coalesce(reduce(or_, conditions.values()), F.lit(False))


def says_something(source: Source, task: ScoringTask, model_column: str | None = None) -> Column:
    """Whether a row of a table of rows has all that a ranking needs."""
    needed = [*source.user_columns(), *([] if model_column is None else [column(model_column)])]
    return reduce(and_, [one.isNotNull() for one in needed]) & none_holds(
        invalid_reasons(source, source.ids(), source.values(), task)
    )
