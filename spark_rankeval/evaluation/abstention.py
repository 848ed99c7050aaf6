"""The abstention curve of a per-user table, by sums over the order of its users that Spark computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spark_rankeval.checks import check_table
from spark_rankeval.errors import InputError, did_you_mean
from spark_rankeval.evaluation.result import Result
from spark_rankeval.metrics.base import Metric
from spark_rankeval.metrics.naming import reads_as
from spark_rankeval.records.abstention_rows import AbstentionCurve, AbstentionRow
from spark_rankeval.request.options import Table
from spark_rankeval.spark.ids import model_in
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.per_user import PerUserSchema
from spark_rankeval.spark.sql_text import (
    Sql,
    aggregate,
    all_of,
    any_of,
    call,
    descending,
    find_column,
    named,
    number,
    over,
    rows_of_all,
    select,
    where,
)
from spark_rankeval.statistics.abstention import RATES, EqualUsers, curve_of, n_kept

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row


@takes_local_tables
def abstention_curve(
    per_user: Table | Result,
    metric: str | Metric,
    *,
    confidence: str | Metric = "confidence",
    model: str | None = None,
) -> AbstentionCurve:
    """Compute how a mean rises if the model leaves out the users of whom it is least sure, and the area under that curve.

    At each of ten rates from 0 to 0.9 that share of the users is left out, those with the lowest confidence first. Of users of the same
    confidence any could be: the mean over all orders is taken. One action sorts the users twice in Spark, and collects some forty rows. The
    areas are those of MTEB's ``nAUC``. Users count equally, whatever their weights are.

    Examples:
        >>> users = score_users(predictions, labels, ["rr"], score="score").selectExpr("*", "user % 5 AS sure")
        >>> curve = abstention_curve(users, "rr", confidence="sure")
        >>> [round(row.mean, 3) for row in curve.rows[:3]], round(curve.normalised_area, 3)
        ([0.458, 0.417, 0.361], -0.071)

    Args:
        per_user: a result of `evaluate`, or a table of `score_users`, fresh or stored.
        metric: a metric of the table, as text or object.
        confidence: the metric of the table, or another column of numbers, that says how sure the model is: larger is surer.
        model: whose users, if the table has several models.

    Returns:
        the points, the area, and the normalised area.

    Raises:
        InputError: the table has no such metric, column or model.
    """
    frame = per_user.per_user if isinstance(per_user, Result) else per_user
    check_table("per_user", frame)
    schema = PerUserSchema.read(frame)
    value, sureness = (
        _column(frame, schema, name, each) for name, each in (("metric", metric), ("confidence", confidence))
    )
    frame = schema.with_valid_users(_rows_of_model(frame, schema, model))
    rows = _groups_of_boundaries(frame, named(value).cast("double"), named(sureness).cast("double"))
    curve, oracle = (_groups(rows, order) for order in (_CURVE, _ORACLE))
    n_users = next((row[_N_ROWS] for row in rows if row[_ORDER] == _CURVE), 0)
    if not n_users:
        msg = f"no user of the table has a value of both {str(metric)!r} and {str(confidence)!r}"
        raise InputError(msg)
    points = zip(RATES, curve_of(curve, n_users), curve_of(oracle, n_users), strict=True)
    return AbstentionCurve(
        tuple(AbstentionRow(rate, n_kept(rate, n_users), mean, best) for rate, mean, best in points),
        metric=str(metric),
        confidence=str(confidence),
        n_users=n_users,
        n_left_out=next((row[_N] for row in rows if row[_ORDER] == _LEFT_OUT), 0),
    )


def _column(frame: DataFrame, schema: PerUserSchema, option: str, metric: str | Metric) -> str:
    """The column of a metric of the table, by its label or another text of the same metric; or the column of this name."""
    by_label = {each.caller_key or each.key: each.column for each in schema.metrics if each.column}
    column = by_label.get(str(metric)) or next(
        (each.column for each in schema.metrics if each.column and reads_as(each.label, metric)), None
    )
    column = column or find_column(frame, str(metric))
    if column is None:
        near = did_you_mean(str(metric), by_label)
        msg = (
            f"{option}={str(metric)!r}: the table has no such metric or column; {near}available: {', '.join(by_label)}"
        )
        raise InputError(msg)
    return column


def _rows_of_model(frame: DataFrame, schema: PerUserSchema, model: str | None) -> DataFrame:
    """The rows of a model."""
    if schema.model is None or (model is None and len(schema.models) == 1):
        if model is not None and model not in schema.models:
            raise InputError(f"the table has one model; leave model={model!r} out")
        return frame
    if model not in schema.models:
        raise InputError(f"model must be one of {', '.join(map(repr, schema.models))}; got {model!r}")
    return frame.where(model_in(frame, schema.model) == model)


# The columns on the way: the order that a row is in, what it is sorted by, and the sums of equal rows.
_ORDER, _KEY, _N, _TOTAL = "order_", "key_", "n_", "total_"
# The same sums of these and of all better rows, and how many rows there are.
_N_BEST, _TOTAL_BEST, _N_ROWS = "n_best_", "total_best_", "n_rows_"
# By confidence, by the values themselves, or without one of them.
_CURVE, _ORACLE, _LEFT_OUT = 0, 1, 2
_VALUE = "value_"


def _groups_of_boundaries(frame: DataFrame, value: Sql, sureness: Sql) -> list[Row]:
    """The groups of equal users up to which users are kept at some rate, in each order, and how many users are left out."""
    # Adding 0 makes one zero of two.
    frame = select(frame, (value + 0.0).alias(_VALUE), (sureness + 0.0).alias(_KEY))
    is_whole = call(
        "coalesce", all_of(~call("isnan", named(name)) & named(name).is_not_null() for name in (_VALUE, _KEY)), False
    )
    whole = where(frame, is_whole)
    left_out = where(frame, ~is_whole)
    ordered = rows_of_all(
        select(rows, number(order).alias(_ORDER), key.alias(_KEY), total.alias(_VALUE))
        for rows, order, key, total in (
            (whole, _CURVE, named(_KEY), named(_VALUE)),
            (whole, _ORACLE, named(_VALUE), named(_VALUE)),
            (left_out, _LEFT_OUT, number(0.0), number(0.0)),
        )
    )
    groups = aggregate(ordered, [_ORDER, _KEY], call("count", 1).alias(_N), call("sum", named(_VALUE)).alias(_TOTAL))
    order, best_first = [named(_ORDER)], [descending(named(_KEY))]
    summed = select(
        groups,
        *map(named, (_ORDER, _N, _TOTAL)),
        over(call("sum", named(_N)), order, best_first).alias(_N_BEST),
        over(call("sum", named(_TOTAL)), order, best_first).alias(_TOTAL_BEST),
        over(call("sum", named(_N)), order).alias(_N_ROWS),
    )
    # Engines round halves in two ways, so both whole numbers beside the share are looked up.
    n_out = [call("floor", named(_N_ROWS) * rate) + more for rate in RATES for more in (0, 1)]
    kept = [named(_N_ROWS) - call("least", n, named(_N_ROWS) - 1) for n in n_out]
    is_boundary = any_of((named(_N_BEST) - named(_N) < n_first) & (n_first <= named(_N_BEST)) for n_first in kept)
    return where(summed, is_boundary | (named(_ORDER) == _LEFT_OUT)).collect()


def _groups(rows: Sequence[Row], order: int) -> list[EqualUsers]:
    return [
        EqualUsers(row[_N], row[_TOTAL], row[_N_BEST] - row[_N], row[_TOTAL_BEST] - row[_TOTAL])
        for row in rows
        if row[_ORDER] == order
    ]
