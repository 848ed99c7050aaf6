"""What exactly is wrong with the rows that an evaluation counted: reasons and examples, by a second look at the data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from spark_rankeval.spark.ids import for_example, name_in
from spark_rankeval.spark.named_columns import any_null, column
from spark_rankeval.spark.rejected import ITEM, REASON, rows_of_users, value_name, with_reasons
from spark_rankeval.spark.rejected_vectors import REPEATED_USER
from spark_rankeval.spark.source import user_column
from spark_rankeval.spark.sql_text import named
from spark_rankeval.spark.validity import unusual_reasons

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pyspark.sql import Column, DataFrame, Row

    from spark_rankeval.request.task import ScoringTask
    from spark_rankeval.spark.inputs import Sources
    from spark_rankeval.spark.source import Source


class Finding(NamedTuple):
    """Rows of a table that cannot be ranked for one reason."""

    reason: str  # why
    n: int  # how many
    example: str  # one of them, in words
    unusual: bool = False  # an infinite score or a negative grade, which a caller may allow


def diagnose(source: Source, task: ScoringTask, model_column: str | None = None) -> list[Finding]:
    """Count the rows of a table that cannot be used by reason; a row with several counts under the first."""
    rows = with_reasons(source, task, model_column)
    rejected = rows.where(F.col(REASON).isNotNull() & (F.col(REASON) != REPEATED_USER))
    values = [named(value_name(index)) for index in range(len(source.given_values))]
    names = {user_column(index): name for index, name in enumerate(source.user)} | {ITEM: "item"}
    names |= {value_name(index): name for index, name in enumerate(_value_names(source))}
    unusual = unusual_reasons(source, values, task)
    return _by_reason(rejected, names, unusual) + _repeated_users(source, model_column)


def null_users(source: Source) -> list[Finding]:
    """Rows of a table of users that name nobody."""
    names = {user_column(index): name for index, name in enumerate(source.user)}
    return _by_reason(rows_of_users(source).where(F.col(REASON).isNotNull()), names)


def _by_reason(rejected: DataFrame, names: Mapping[str, str], unusual: Collection[str] = ()) -> list[Finding]:
    """How many rows there are for each reason, with an example of these columns."""
    example = F.first(F.struct(*_shown(rejected, names))).alias("example")
    counted = rejected.groupBy(REASON).agg(F.count(F.lit(1)).alias("n"), example).collect()
    findings = []
    for row in sorted(counted, key=lambda row: str(row[REASON])):
        shown = ", ".join(f"{name}={row['example'][ours]!r}" for ours, name in names.items())
        findings.append(Finding(row[REASON], row["n"], shown, row[REASON] in unusual))
    return findings


def _repeated_users(source: Source, model_column: str | None) -> list[Finding]:
    """Users in several rows of a table of arrays; only the first is read."""
    if not source.arrays or source.shares_table:
        return []
    users, nobody = source.named_users(), any_null(source.user_columns())
    models = [] if model_column is None else [column(model_column).alias("model")]
    rows = source.frame.where(~nobody).select(*users, *models)
    groups = rows.groupBy(*rows.columns).count()
    more = groups.where("count > 1")
    first = F.first(F.struct(*_shown(groups, groups.columns)))
    row = more.agg(F.sum(F.col("count") - 1).alias("n"), first.alias("example")).first()
    if row is None or not row["n"]:
        return []
    example = row["example"]
    return [Finding(REPEATED_USER, row["n"], f"{_user_in_words(source, example)} in {example['count']} rows")]


def example_of_duplicates(source: Source, task: ScoringTask, differing: bool, model_column: str | None = None) -> str:
    """An item that a user has twice, of the rows that can be ranked; with `differing`, with different values."""
    rows = with_reasons(source, task, model_column)
    # In one table of arrays without ids of users there is nothing to group by but the row.
    keys = [
        name for name in rows.columns if name.startswith(("user_", "model_", "row_")) or name in (ITEM, source.subtopic)
    ]
    value = _as_one([F.col(value_name(index)) for index in range(len(source.given_values))])
    aggregates = [F.count(F.lit(1)).alias("n")]
    if value is not None:
        aggregates.append(F.sort_array(F.collect_set(value)).alias("values"))
    fine = rows.where(F.col(REASON).isNull() & F.col(ITEM).isNotNull())
    fine = fine if source.subtopic is None else fine.where(F.col(source.subtopic).isNotNull())
    repeated = fine.groupBy(*keys).agg(*aggregates).where(F.col("n") > 1)
    if differing and value is not None:
        repeated = repeated.where(F.size("values") > 1)
    shown = _shown(repeated, [user_column(index) for index in range(len(source.user))] + [ITEM])
    examples = (
        repeated.limit(1).select(*shown, *(name for name in repeated.columns if name in ("n", "values"))).collect()
    )
    if not examples:
        return ""
    row = examples[0]
    parts = [_user_in_words(source, row)] if source.user else []
    parts.append(f"item={row[ITEM]!r} {row['n']} times")
    if value is not None:
        parts.append(f"with {source.value_kind}s {row['values'][:5]!r}")
    return ", ".join(parts)


def example_of_conflicts(sources: Sources) -> str:
    """A user whose rows do not agree in an attribute."""
    source = sources.attributes
    assert source is not None, "conflicts of attributes were counted"
    names = [user_column(index) for index in range(len(source.user))]
    weight = [] if sources.weight is None else [sources.weight]
    for attribute in (*sources.slices, *weight, *sources.attributes_of_clusters):
        text = name_in(source.frame, attribute).alias("value")
        values = F.sort_array(F.collect_set("value")).alias("values")
        users = source.frame.select(*source.named_users(), text).groupBy(*names).agg(values)
        differing = users.where(F.size("values") > 1).limit(1)
        for row in differing.select(*_shown(users, names), "values").collect():
            return f"{_user_in_words(source, row)} has {attribute} {row['values'][:5]!r}"
    return ""


def example_of_weights(sources: Sources) -> str:
    """A user whose weight cannot be used; somebody without a row has none."""
    source = sources.attributes
    assert source is not None, "weights were looked at"
    assert sources.weight is not None, "weights were looked at"
    weight = column(sources.weight).cast("double")
    wrong = weight.isNull() | F.isnan(weight) | (weight < 0) | (weight == math.inf)
    somebody = source.frame.where(wrong & ~any_null(source.user_columns()))
    rows = somebody.select(*source.named_users(), weight.alias("weight")).limit(1)
    for row in rows.select(*_shown(rows, rows.columns)).collect():
        return f"{_user_in_words(source, row)} has {sources.weight} {row['weight']!r}"
    return "a user without a row in the table of weights"


def _shown(frame: DataFrame, names: Iterable[str]) -> list[Column]:
    return [for_example(named(name), frame.schema[name].dataType).column.alias(name) for name in names]


def _user_in_words(source: Source, row: Row) -> str:
    return ", ".join(f"{name}={row[user_column(index)]!r}" for index, name in enumerate(source.user))


def _as_one(values: list[Column]) -> Column | None:
    return F.struct(*values) if len(values) > 1 else values[0] if values else None


def _value_names(source: Source) -> list[str]:
    grades = [str(source.value_kind)] if len(source.grades) == 1 else list(source.grades)
    return [*grades, *source.label_columns]
