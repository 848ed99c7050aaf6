"""Figures that only a per-user table has: how many users have a value between which bounds, and what trec_eval prints beside the means."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from spark_rankeval.errors import InputError, MetricError
from spark_rankeval.metrics.naming import parse_metric
from spark_rankeval.spark.ids import model_in, readable, text_in_sql
from spark_rankeval.spark.per_user import PerUserSchema
from spark_rankeval.spark.sql_text import call, column, text
from spark_rankeval.tables.trec import Query

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark_rankeval.records.chart_rows import Counts, Grid
    from spark_rankeval.records.summary import SummaryRow


# Values computed in floating point may lie a hair below the bound that they stand for: 0.15 / 0.05 is 2.9999999999999996.
_HAIR = 1e-9


def binned(
    frame: DataFrame, name: str, grid: Grid, model: str | None = None, *, leave_out: float | None = None
) -> Counts:
    """Count the rows of each bin, in one action that returns a row a model and bin that is not empty.

    NaN, null and `leave_out` are in no bin. Without a column of models all rows are of one without a name.
    """
    value = column(name)
    keep = value.isNotNull() & ~F.isnan(value)
    if leave_out is not None:
        keep &= value != F.lit(leave_out)
    owner = F.lit("") if model is None else model_in(frame, model)
    index = F.floor((value - F.lit(grid.low)) / F.lit(grid.width) + F.lit(_HAIR))
    place = F.greatest(F.least(index, F.lit(grid.n - 1)), F.lit(0)).cast("int")
    counts: Counts = {}
    bins = frame.where(keep).select(owner.alias("model"), place.alias("bin")).groupBy("model", "bin")
    for name_of_model, index_of_bin, count in bins.agg(F.count(F.lit(1))).collect():
        counts.setdefault(name_of_model, {})[index_of_bin] = count
    return counts


def users_by_value(per_user: DataFrame, name: str, grid: Grid) -> Counts:
    """Count the users of a per-user table by their value in a metric's column."""
    return binned(per_user, name, grid, PerUserSchema.read(per_user).model)


def users_by_difference(differences: DataFrame, metric: str, grid: Grid) -> Counts:
    """Count the users of a table of `differences` by theirs in a metric; those without any difference are in no bin."""
    schema = PerUserSchema.read(differences)
    return binned(differences, schema.differences[metric], grid, schema.model, leave_out=0.0)


_NEEDED = ("n_predictions", "n_relevant", "left_out")


def queries_of(per_user: DataFrame, rows: Sequence[SummaryRow], columns: Mapping[str, str]) -> dict[str, list[Query]]:
    """Every query of every model, in the order of trec_eval: by the bytes of their names."""
    users = PerUserSchema.read(per_user).users
    if not users:
        msg = "per_query=True needs a user column, and this result has none; leave per_query=True out"
        raise InputError(msg)
    name = readable(call("concat_ws", text("/"), *[text_in_sql(per_user, user) for user in users])).column.alias(
        "query"
    )
    # A metric of all lists together has no value of a query.
    cells = [column(columns[row.key]) if row.key in columns else F.lit(math.nan) for row in rows]
    values = F.array(*cells).alias("values")
    counts = [column("n_predictions"), column("n_relevant"), _hits(rows, columns).alias("found")]
    queries_by_model: dict[str, list[Query]] = {}
    for row in _counted(per_user).select(_model(per_user), name, *counts, values).collect():
        query = Query(row["query"], row["n_predictions"], row["n_relevant"], row["found"], row["values"])
        queries_by_model.setdefault(row["model"], []).append(query)
    return {
        model: sorted(queries, key=lambda query: query.name.encode()) for model, queries in queries_by_model.items()
    }


def totals_of(per_user: DataFrame, rows: Sequence[SummaryRow], columns: Mapping[str, str]) -> dict[str, Query]:
    """All queries of each model together, without values."""
    hits = _hits(rows, columns)
    grouped = (
        _counted(per_user)
        .groupBy(_model(per_user))
        .agg(
            F.count(F.lit(1)).alias("queries"),
            F.sum("n_predictions").alias("retrieved"),
            F.sum("n_relevant").alias("relevant"),
            F.when(F.count(hits) == F.count(F.lit(1)), F.sum(hits)).alias("found"),
        )
    )
    return {
        row["model"]: Query("all", row["retrieved"], row["relevant"], row["found"], (), row["queries"])
        for row in grouped.collect()
    }


def _counted(per_user: DataFrame) -> DataFrame:
    """The users whom the means are about."""
    missing = [name for name in _NEEDED if name not in per_user.columns]
    if missing:
        msg = f"the output of trec_eval needs the counts of users, and the per-user table has no {', '.join(missing)}"
        raise InputError(msg)
    return per_user.where(column("left_out") == 0)


def _model(per_user: DataFrame) -> Column:
    name = PerUserSchema.read(per_user).model
    return (F.lit("") if name is None else model_in(per_user, name)).alias("model")


def _hits(rows: Sequence[SummaryRow], columns: Mapping[str, str]) -> Column:
    """How many relevant items of a user were predicted, by the first metric that tells it; null if none does."""
    candidates = [F.lit(None).cast("bigint")]
    for row in rows:
        divisor = None if row.relevance else _divisor(row)
        if divisor is not None:
            value = F.round(F.nanvl(column(columns[row.key]), F.lit(0.0)) * divisor).cast("bigint")
            candidates.insert(-1, value)
    return F.coalesce(*candidates)


def _divisor(row: SummaryRow) -> Column | None:
    """What a share of the hits is a share of; null for a user whose list is longer than the metric looks."""
    try:
        asked, metric = parse_metric(row.metric), parse_metric(row.definition)
    except MetricError:
        return None
    chosen: dict[str, Any] = metric.chosen()
    # The counts are of the threshold of all metrics.
    if "relevance_threshold" in asked.chosen() or chosen.get("ties") == "average":
        return None
    whole: Column = {
        ("recall", "labels"): column("n_relevant"),
        ("precision", "k"): column("n_predictions") if metric.k is None else F.lit(metric.k),
    }.get((metric.name, chosen.get("denominator")))  # type: ignore[arg-type, assignment] # None for any other metric
    if whole is None or metric.k is None:
        return whole
    return F.when(column("n_predictions") <= metric.k, whole)
