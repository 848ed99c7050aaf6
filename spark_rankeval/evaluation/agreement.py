"""Measure how alike the lists of two models are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from spark_rankeval.checks import check_table
from spark_rankeval.errors import DataError, InputError, OptionError
from spark_rankeval.evaluation.evaluate import evaluate
from spark_rankeval.evaluation.result import Result
from spark_rankeval.metrics.base import Metric
from spark_rankeval.request.call import ColumnNames, OnInvalidOption, ScoringOptions, Table
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.source_tables import SourceTable, check_comparable, read_source
from spark_rankeval.spark.sql import any_null, column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_ITEM, _GRADE, _ORDER = "listed_item", "grade_by_rank", "order"


@takes_local_tables
def agreement(
    predictions_a: Table,
    predictions_b: Table,
    metrics: str | Metric | Iterable[str | Metric] | Mapping[str, str | Metric] = "rbo",
    *,
    user: str | Sequence[str] = "user",
    item: str = "item",
    score: str | None = None,
    rank: str | None = None,
    on_invalid: OnInvalidOption = "error",
    model: str = "",
) -> Result:
    """Measure how alike the lists of two models are, for every user and in the mean.

    The second model's lists serve as labels: an item's grade is the list's length − its rank + 1. In both lists, equal scores are
    ranked by item, ascending. ``"rbo"`` compares whole lists and gives the top most weight (Webber, Moffat, Zobel 2010).
    ``"kendall_distance(labels='best_k')@10"`` compares the order of the items that both have among their first 10. Both are symmetric.
    Other metrics read these labels like any others: ``"precision@10"`` of lists of 10 is the share of items that both have.

    Examples:
        >>> alike = agreement(predictions, personal, ["rbo", "precision@3"], score="score")
        >>> round(alike["rbo"], 4), round(alike["precision@3"], 4)
        (0.8419, 0.9167)

    Args:
        predictions_a: rows of user, item and score or rank; or a row for each user with an array, as in `evaluate`.
        predictions_b: the same of the other model, with the same column names.
        metrics: as in `evaluate`.
        user: the column that identifies a user, or a list of columns that do so together.
        item: the column of items.
        score: the column of scores; the highest is best.
        rank: the column of ranks instead; the lowest is best.
        on_invalid: as in `evaluate`.
        model: a name for the pair in the summary; empty: none.

    Returns:
        a result of `evaluate`. Users without a list of the first model have 0 in ``rbo``. Those without a list of the second are left
        out of the mean. `Result.data_quality` counts both: ``n_without_predictions``, ``n_without_relevant``.

    Raises:
        MetricError, OptionError, InputError: an argument is not valid; no job has run.
        DataError: rows cannot be ranked; those of the second model are reported as labels.
    """
    if not isinstance(model, str):
        msg = f"model must be a name for the pair of models; got {model!r}"
        raise OptionError(msg)
    check_table("predictions_a", predictions_a)
    check_table("predictions_b", predictions_b)
    options = ScoringOptions(user=user, item=item, score=score, rank=rank, on_invalid=on_invalid)
    names = ColumnNames.read(options, one_table=False)
    left = _read(predictions_a, "predictions_a", names)
    other = _read(predictions_b, "predictions_b", names)
    problems: list[str] = []
    check_comparable(left, (replace(other, role="labels"),), problems)
    if problems:
        raise InputError("; ".join(problems))
    try:
        return evaluate(
            {model: predictions_a} if model else predictions_a,
            _as_labels(other),
            metrics,
            user=user,
            item=(item, _ITEM),
            score=score,
            rank=rank,
            relevance=_GRADE,
            on_invalid=on_invalid,
        )
    except DataError as error:
        msg = f"the second model's list serves as the labels, and its order as their relevance: {error}"
        raise DataError(msg, error.counts) from error


def _read(frame: DataFrame, name: str, names: ColumnNames) -> SourceTable:
    problems: list[str] = []
    source = read_source("predictions", frame, names, problems)
    if problems:
        msg = f"{name}: {'; '.join(problems)}"
        raise InputError(msg)
    return source


def _as_labels(source: SourceTable) -> DataFrame:
    """A row for each item of a list, graded by its place; an item without a score or rank has no grade."""
    users = [column(name) for name in source.user]
    if source.arrays:
        rows = _exploded(source)
    else:
        value = source.values_sql()[0].column.cast("double")
        order = -value if source.value_kind == "rank" else value
        rows = source.frame.select(*users, source.raw_ids_sql().column.alias(_ITEM), order.alias(_ORDER))
    # Counted from the last place up, the row number is length − rank + 1.
    from_below = Window.partitionBy(*users).orderBy(F.col(_ORDER).asc(), F.col(_ITEM).desc())
    has_order = ~(F.col(_ORDER).isNull() | F.isnan(_ORDER))
    grade = F.when(has_order, F.row_number().over(from_below)).alias(_GRADE)
    return rows.select(*users, _ITEM, grade)


def _exploded(source: SourceTable) -> DataFrame:
    """The entries of arrays with the score or place that orders them; a null array has one null entry."""
    users = [column(name) for name in source.user]
    ids, *values = (values.column for values in (source.raw_ids_sql(), *source.values_sql()))
    frame = source.frame.where(any_null([ids]) | (F.size(ids) > 0))
    if not values:
        places = frame.select(*users, F.posexplode_outer(ids).alias("place", _ITEM))
        return places.select(*users, _ITEM, (-F.col("place")).cast("double").alias(_ORDER))
    zipped = F.transform(
        ids, lambda id_, place: F.struct(id_.alias(_ITEM), F.get(values[0], place).cast("double").alias(_ORDER))
    )
    entries = frame.select(*users, F.explode_outer(zipped).alias("entry"))
    return entries.select(
        *users, F.col("entry").getField(_ITEM).alias(_ITEM), F.col("entry").getField(_ORDER).alias(_ORDER)
    )
