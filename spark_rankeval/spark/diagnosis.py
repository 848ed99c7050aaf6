"""What exactly is wrong with the rows that an evaluation counted: reasons and examples, by a second look at the data."""

from __future__ import annotations

import math
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from spark_rankeval.spark.grouping import invalid_reasons
from spark_rankeval.spark.named_columns import any_null, column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark_rankeval.dialects import UnusualGrades
    from spark_rankeval.spark.inputs import Sources
    from spark_rankeval.spark.source import Source


def diagnose(
    source: Source,
    *,
    unusual_grades: UnusualGrades,
    keep_null_items: bool,
    largest_grade: float,
    model_column: str | None = None,
) -> list[tuple[str, int, str]]:
    """Count the rows of a table that cannot be used by reason.

    Returns:
        reason, count and example, for each reason that was met; a row with several counts under the first.
    """
    entries, ids, values = _entries(source, model_column)
    reasons: dict[str, Column] = {f"null user ({name})": column(name).isNull() for name in source.user}
    if model_column is not None:
        reasons[f"null model ({model_column})"] = column(model_column).isNull()
    if source.arrays:
        reasons[f"null array of {source.role}"] = F.col("null_array")
        names = " and ".join([source.item, *(one.name for one in source.given_values)])
        reasons[f"unequal lengths of {names}"] = F.col("unequal")
    entry_reasons = invalid_reasons(source, ids, values, unusual_grades, largest_grade)
    if keep_null_items and source.role == "predictions":
        entry_reasons = {name: reason for name, reason in entry_reasons.items() if not name.endswith("item")}
    reasons |= entry_reasons
    reason = F.lit(None).cast("string")
    for name, condition in reversed(reasons.items()):
        reason = F.when(F.coalesce(condition, F.lit(False)), F.lit(name)).otherwise(reason)
    shown = F.struct(*(column(name) for name in source.user), ids.alias("item"), *_value(source, values))
    found = entries.select(reason.alias("reason"), shown.alias("example")).where(F.col("reason").isNotNull())
    rows = found.groupBy("reason").agg(F.count(F.lit(1)).alias("n"), F.first("example").alias("example")).collect()
    order = list(reasons)
    rows.sort(key=lambda row: order.index(row["reason"]))
    return [(row["reason"], row["n"], _shown(row["example"])) for row in rows] + _repeated_users(source, model_column)


def null_users(source: Source) -> list[tuple[str, int, str]]:
    """Rows of a table of users that name nobody; as `diagnose`."""
    nobody = any_null(source.user_columns())
    n = source.frame.where(nobody).count()
    return [("null user in the table of users", n, "user=None")] if n else []


def _repeated_users(source: Source, model_column: str | None) -> list[tuple[str, int, str]]:
    """Users in several rows of a table of arrays, of which only the first is read."""
    if not source.arrays or source.shares_table:
        return []
    users = [column(name).alias(f"user_{index}") for index, name in enumerate(source.user)]
    nobody = any_null(source.user_columns())
    models = [] if model_column is None else [column(model_column).alias("model")]
    keys = [*(f"user_{index}" for index in range(len(users))), *["model"] * len(models)]
    groups = source.frame.where(~nobody).select(*users, *models).groupBy(*keys).count()
    more = groups.where("count > 1")
    row = more.agg(F.sum(F.col("count") - 1).alias("n"), F.first(F.struct(*groups.columns)).alias("example")).first()
    if row is None or not row["n"]:
        return []
    shown = ", ".join(f"{name}={row['example'][index]!r}" for index, name in enumerate(source.user))
    return [("user in several rows", row["n"], f"{shown} in {row['example']['count']} rows")]


def example_of_duplicates(source: Source, differing: bool, model_column: str | None = None) -> str:
    """An item that a user has twice; with `differing`, with different values."""
    entries, ids, values = _entries(source, model_column)
    users = [column(name).alias(f"user_{index}") for index, name in enumerate(source.user)]
    models = [] if model_column is None else [column(model_column).alias("model")]
    selected = entries.select(*users, *models, ids.alias("item"), *(one.alias("value") for one in _as_one(values)))
    keys = [name for name in selected.columns if name != "value"]
    # In one table of arrays without ids of users there is nothing to group by but the row.
    aggregates = [F.count(F.lit(1)).alias("n")]
    if values:
        aggregates.append(F.sort_array(F.collect_set("value")).alias("values"))
    found = selected.where(F.col("item").isNotNull()).groupBy(*keys).agg(*aggregates).where(F.col("n") > 1)
    if differing and values:
        found = found.where(F.size("values") > 1)
    row = found.limit(1).collect()
    if not row:
        return ""
    parts = [f"{name}={row[0][f'user_{index}']!r}" for index, name in enumerate(source.user)]
    parts.append(f"item={row[0]['item']!r} {row[0]['n']} times")
    if values:
        parts.append(f"with {source.value_kind}s {row[0]['values'][:5]!r}")
    return ", ".join(parts)


def example_of_conflicts(sources: Sources) -> str:
    """A user whose rows do not agree in an attribute."""
    source = sources.attributes
    assert source is not None, "conflicts of attributes were counted"
    users = [column(name).alias(f"user_{index}") for index, name in enumerate(source.user)]
    for attribute in (*sources.slices, *([] if sources.weight is None else [sources.weight])):
        values = F.sort_array(F.collect_set(column(attribute).cast("string"))).alias("values")
        found = (
            source.frame.select(*users, column(attribute))
            .groupBy(*(f"user_{i}" for i in range(len(users))))
            .agg(values)
        )
        row = found.where(F.size("values") > 1).limit(1).collect()
        if row:
            shown = ", ".join(f"{name}={row[0][f'user_{index}']!r}" for index, name in enumerate(source.user))
            return f"{shown} has {attribute} {row[0]['values'][:5]!r}"
    return ""


def example_of_weights(sources: Sources) -> str:
    """A user whose weight cannot be used; somebody without a row has none."""
    source = sources.attributes
    assert source is not None, "weights were looked at"
    assert sources.weight is not None, "weights were looked at"
    users = [column(name).alias(f"user_{index}") for index, name in enumerate(source.user)]
    weight = column(sources.weight).cast("double")
    wrong = weight.isNull() | F.isnan(weight) | (weight < 0) | (weight == math.inf)
    row = source.frame.where(wrong & ~any_null(source.user_columns())).select(*users, weight.alias("weight")).limit(1)
    if found := row.collect():
        shown = ", ".join(f"{name}={found[0][f'user_{index}']!r}" for index, name in enumerate(source.user))
        return f"{shown} has {sources.weight} {found[0]['weight']!r}"
    return "somebody who has no row where the weights stand"


def _as_one(values: list[Column]) -> list[Column]:
    """No value, the value, or a struct of several."""
    return values if len(values) < 2 else [F.struct(*values)]


def _entries(source: Source, model_column: str | None = None) -> tuple[DataFrame, Column, list[Column]]:
    """One row an entry: of a table of rows the rows themselves, of arrays the exploded entries."""
    if not source.arrays:
        return source.frame, source.ids(), source.values()
    ids, values = source.ids(), source.values()
    null_array = any_null([ids, *values])
    unequal = reduce(or_, [F.size(ids) != F.size(one) for one in values], F.lit(False))
    whole = null_array | F.coalesce(unequal, F.lit(False))
    whole = whole | any_null(source.user_columns())
    users = [column(name) for name in (*source.user, *([] if model_column is None else [model_column]))]
    names = ["ids", *(f"values_{index}" for index in range(len(values)))]
    fields = [one.alias(name) for one, name in zip([ids, *values], names, strict=True)]
    arrays = source.frame.select(
        *users, null_array.alias("null_array"), unequal.alias("unequal"), whole.alias("whole"), *fields
    )
    zipped = F.arrays_zip(*[F.when(~F.col("whole"), F.col(name)) for name in names])
    exploded = arrays.withColumn("entry", F.explode_outer(zipped))
    # arrays_zip names the fields of computed arrays by their place.
    entry_fields = exploded.schema["entry"].dataType.names  # type: ignore[attr-defined] # a struct, by construction
    entry = [F.col("entry").getField(name) for name in entry_fields]
    empty = F.col("entry").isNull() & ~F.col("whole")
    return exploded.where(~empty), entry[0], entry[1:]


def _value(source: Source, values: list[Column]) -> list[Column]:
    names = [str(source.value_kind)] if len(values) == 1 else [one.name for one in source.given_values]
    return [one.alias(name) for one, name in zip(values, names, strict=True)]


def _shown(example: Any) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in example.asDict().items())
