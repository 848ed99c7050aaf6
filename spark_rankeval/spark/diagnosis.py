"""What exactly is wrong with the rows that an evaluation counted: reasons and examples, by a second look at the data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from spark_rankeval.spark.ids import for_example, name_in
from spark_rankeval.spark.named_columns import any_null, column
from spark_rankeval.spark.rejected import ITEM, REASON, REPEATED_USER, user_name, value_name, with_reasons
from spark_rankeval.spark.validity import unusual_reasons

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame

    from spark_rankeval.spark.inputs import Sources
    from spark_rankeval.spark.source import Source
    from spark_rankeval.spark.validity import Rules


class Finding(NamedTuple):
    """Rows of a table that cannot be ranked for one reason."""

    reason: str  # why
    n: int  # how many
    example: str  # one of them, in words
    unusual: bool = False  # an infinite score or a negative grade, which a caller may allow


def diagnose(source: Source, rules: Rules, model_column: str | None = None) -> list[Finding]:
    """Count the rows of a table that cannot be used by reason; a row with several counts under the first."""
    rows = with_reasons(source, rules, model_column)
    rejected = rows.where(F.col(REASON).isNotNull() & (F.col(REASON) != REPEATED_USER))
    values = [F.col(value_name(index)) for index in range(len(source.given_values))]
    names = {user_name(index): name for index, name in enumerate(source.user)} | {ITEM: "item"}
    names |= {value_name(index): name for index, name in enumerate(_value_names(source))}
    example = F.first(F.struct(*_shown(rejected, names))).alias("example")
    found = rejected.groupBy(REASON).agg(F.count(F.lit(1)).alias("n"), example).collect()
    unusual = unusual_reasons(source, values, rules)
    findings = []
    for row in sorted(found, key=lambda row: str(row[REASON])):
        shown = ", ".join(f"{name}={row['example'][ours]!r}" for ours, name in names.items())
        findings.append(Finding(row[REASON], row["n"], shown, row[REASON] in unusual))
    return findings + _repeated_users(source, model_column)


def null_users(source: Source) -> list[Finding]:
    """Rows of a table of users that name nobody."""
    nobody = any_null(source.user_columns())
    n = source.frame.where(nobody).count()
    return [Finding("null user in the table of users", n, "user=None")] if n else []


def _repeated_users(source: Source, model_column: str | None) -> list[Finding]:
    """Users in several rows of a table of arrays; only the first is read."""
    if not source.arrays or source.shares_table:
        return []
    users = [column(name).alias(f"user_{index}") for index, name in enumerate(source.user)]
    nobody = any_null(source.user_columns())
    models = [] if model_column is None else [column(model_column).alias("model")]
    keys = [*(f"user_{index}" for index in range(len(users))), *["model"] * len(models)]
    groups = source.frame.where(~nobody).select(*users, *models).groupBy(*keys).count()
    more = groups.where("count > 1")
    example = F.struct(*_shown(groups, groups.columns))
    row = more.agg(F.sum(F.col("count") - 1).alias("n"), F.first(example).alias("example")).first()
    if row is None or not row["n"]:
        return []
    shown = ", ".join(f"{name}={row['example'][index]!r}" for index, name in enumerate(source.user))
    return [Finding(REPEATED_USER, row["n"], f"{shown} in {row['example']['count']} rows")]


def example_of_duplicates(source: Source, rules: Rules, differing: bool, model_column: str | None = None) -> str:
    """An item that a user has twice, of the rows that can be ranked; with `differing`, with different values."""
    rows = with_reasons(source, rules, model_column)
    # In one table of arrays without ids of users there is nothing to group by but the row.
    keys = [name for name in rows.columns if name.startswith(("user_", "model_", "row_")) or name == ITEM]
    value = _as_one([F.col(value_name(index)) for index in range(len(source.given_values))])
    aggregates = [F.count(F.lit(1)).alias("n")]
    if value is not None:
        aggregates.append(F.sort_array(F.collect_set(value)).alias("values"))
    fine = rows.where(F.col(REASON).isNull() & F.col(ITEM).isNotNull())
    found = fine.groupBy(*keys).agg(*aggregates).where(F.col("n") > 1)
    if differing and value is not None:
        found = found.where(F.size("values") > 1)
    shown = _shown(found, [user_name(index) for index in range(len(source.user))] + [ITEM])
    row = found.limit(1).select(*shown, *(name for name in found.columns if name in ("n", "values"))).collect()
    if not row:
        return ""
    parts = [f"{name}={row[0][user_name(index)]!r}" for index, name in enumerate(source.user)]
    parts.append(f"item={row[0][ITEM]!r} {row[0]['n']} times")
    if value is not None:
        parts.append(f"with {source.value_kind}s {row[0]['values'][:5]!r}")
    return ", ".join(parts)


def example_of_conflicts(sources: Sources) -> str:
    """A user whose rows do not agree in an attribute."""
    source = sources.attributes
    assert source is not None, "conflicts of attributes were counted"
    users = [column(name).alias(f"user_{index}") for index, name in enumerate(source.user)]
    for attribute in (*sources.slices, *([] if sources.weight is None else [sources.weight])):
        text = name_in(source.frame, attribute).alias("value")
        values = F.sort_array(F.collect_set("value")).alias("values")
        names = [f"user_{index}" for index in range(len(users))]
        found = source.frame.select(*users, text).groupBy(*names).agg(values).where(F.size("values") > 1)
        row = found.limit(1).select(*_shown(found, names), "values").collect()
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
    rows = source.frame.where(wrong & ~any_null(source.user_columns())).select(*users, weight.alias("weight")).limit(1)
    if found := rows.select(*_shown(rows, rows.columns)).collect():
        shown = ", ".join(f"{name}={found[0][f'user_{index}']!r}" for index, name in enumerate(source.user))
        return f"{shown} has {sources.weight} {found[0]['weight']!r}"
    return "somebody who has no row where the weights stand"


def _shown(frame: DataFrame, names: Iterable[str]) -> list[Column]:
    """Columns of ours, as examples show their values."""
    return [for_example(F.col(name), frame.schema[name].dataType).alias(name) for name in names]


def _as_one(values: list[Column]) -> Column | None:
    """No value, the value, or a struct of several."""
    return F.struct(*values) if len(values) > 1 else values[0] if values else None


def _value_names(source: Source) -> list[str]:
    grades = [str(source.value_kind)] if len(source.grades) == 1 else list(source.grades)
    return [*grades, *source.label_columns]
