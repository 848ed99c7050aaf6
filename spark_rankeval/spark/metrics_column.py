"""Metrics as a column, for tables that already have a user's lists as arrays in a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.checks import one_of
from spark_rankeval.dialects import Dialect, find_dialect
from spark_rankeval.errors import InputError
from spark_rankeval.metrics.base import Metric
from spark_rankeval.metrics.naming import column_names, parse_metrics
from spark_rankeval.request.availability import Lists
from spark_rankeval.request.readings import resolve, views_of
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.spark.sql_text import column
from spark_rankeval.spark.tasks import pandas_function
from spark_rankeval.worker.series import N_INVALID, score_series

if TYPE_CHECKING:
    from pyspark.sql import Column


def metrics_column(
    predictions: str | Column,
    labels: str | Column,
    metrics: str | Metric | Iterable[str | Metric] | Mapping[str, str | Metric],
    *,
    scores: str | Column | None = None,
    relevance: str | Column | None = None,
    dialect: str | Dialect = "default",
    ties: str | None = None,
) -> Column:
    """Compute metrics from arrays in the same row, as a struct with a field for each metric; a pandas UDF does it.

    ``df.select("user", metrics_column("predictions", "labels", ["ndcg@10", "rr"]).alias("metrics"))``

    Nothing raises while the column is computed. NaN means, as elsewhere, that the metric is undefined for the row. If `evaluate` would
    refuse a row, all its metrics are null, and ``n_invalid`` counts the entries that are wrong. That is so for a null array or entry,
    a NaN score, arrays of unequal length, and an item twice. It is so for a negative grade, and for ids that do not
    compare. It is also so for an id that is not UTF-8, which pandas cannot read.

    Examples:
        >>> lists = spark.createDataFrame([(["a", "b", "c"], ["c"])], "predictions array<string>, labels array<string>")
        >>> lists.select(metrics_column("predictions", "labels", ["rr", "recall@2"]).alias("metrics")).select("metrics.*").toPandas()
                 rr  recall_at_2  n_invalid
        0  0.333333          0.0          0

    Args:
        predictions: the array of items, best first; in any order if `scores` are given.
        labels: the array of labelled items.
        metrics: as in `evaluate`.
        scores: the array of scores beside `predictions`. None: the items are in order.
        relevance: the array of grades beside `labels`. None: every labelled item has grade 1.
        dialect: as in `evaluate`. An array with a null item is refused in every dialect.
        ties: how equal scores are ordered, or ``average``, as in `evaluate`. None: as the dialect says.

    Raises:
        MetricError: a name or parameter is not known.
        DialectError: the dialect is not known, or lacks a metric.
        InputError: an array is neither a column name nor a Column.
        OptionError: `ties` is not known, or is ``average`` and a metric has none.
    """
    convention = find_dialect(dialect)
    parsed = parse_metrics(metrics)
    names = column_names(parsed, taken=(N_INVALID,))
    one_of("ties", ties, (None, "item_asc", "item_desc", "position", "average"))
    relevances = () if relevance is None else ("relevance",)
    lists = Lists(scores is not None, label_arrays=True, relevances=relevances, has_scores=scores is not None)
    resolved = resolve(parsed, convention, {}, lists, ties)
    views, values = views_of(resolved, convention, lists, ties=ties)  # type: ignore[arg-type] # checked above
    task = ScoringTask(
        views=tuple(views),
        array_models=(0,),
        label_arrays=True,
        unusual_grades=convention.unusual_grades,
    )
    fields_of_values = [names[value.label] for value in values]
    arguments = {"items": predictions, "labels": labels, "scores": scores, "grades": relevance}
    for name, value in zip(("predictions", "labels", "scores", "relevance"), arguments.values(), strict=True):
        optional = name in ("scores", "relevance") and value is None
        if not (optional or hasattr(type(value), "getField") or (isinstance(value, str) and value.strip())):
            msg = f"{name} must be a column name or a Column; got {value!r}"
            raise InputError(msg)
    arrays = {name: _without_null_entries(value) for name, value in arguments.items() if value is not None}
    arrays |= {name: _readable_ids(arrays[name]) for name in ("items", "labels")}
    if "grades" in arrays:
        # Thresholds are rounded as the grades are.
        arrays["single"] = F.typeof(arrays["grades"]) == "array<float>"
    # Scores and grades may be any numbers.
    arrays |= {name: arrays[name].cast("array<double>") for name in ("scores", "grades") if name in arrays}
    fields = [T.StructField(name, T.DoubleType()) for name in fields_of_values]
    returned = T.StructType([*fields, T.StructField(N_INVALID, T.LongType())])
    udf = pandas_function(score_series(task, tuple(arrays), tuple(fields_of_values)), returned)
    scored = udf(*arrays.values())
    # Arrow turns NaN in a pandas frame into null, but null must mean that the row was refused.
    fine = scored.getField(N_INVALID) == 0
    shown = [
        F.when(fine, F.coalesce(scored.getField(name), F.lit(float("nan")))).alias(name) for name in names.values()
    ]
    return F.struct(*shown, scored.getField(N_INVALID).alias(N_INVALID))


def _readable_ids(array: Column) -> Column:
    """The array, or null if its ids do not compare by their values or pandas cannot read one."""
    # The separator keeps the bytes of two ids from forming one character. For numbers, Spark's planner drops all of this.
    together = F.concat_ws("\n", array.cast("array<string>"))
    # An empty match decodes the string and encodes it again, which replaces what is not UTF-8.
    is_utf8 = F.regexp_replace(together, "^", "") == together
    plain = F.typeof(array).rlike("^array<(tinyint|smallint|int|bigint|float|double|void)>$")
    return F.when(plain | ((F.typeof(array) == "array<string>") & is_utf8), array)


def _without_null_entries(array: str | Column) -> Column:
    """The array, or null if an entry is null: beside a null, pandas would turn whole numbers into rounded floats."""
    if isinstance(array, str):
        # A name with a dot is a field of a struct.
        array = F.col(array) if "." in array else column(array)
    return F.when(~F.exists(array, lambda entry: entry.isNull()), array)
