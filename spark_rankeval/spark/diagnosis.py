"""What exactly is wrong with the rows that an evaluation counted: reasons and examples, by a second look at the data."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from spark_rankeval.spark.ids import for_example, name_in
from spark_rankeval.spark.named_columns import any_null, column
from spark_rankeval.spark.rejected import ITEM, REASON, rows_of_users, value_name, with_reasons
from spark_rankeval.spark.rejected_vectors import REPEATED_USER
from spark_rankeval.spark.source import user_column
from spark_rankeval.spark.sql_text import named
from spark_rankeval.spark.validity import unusual_reasons
from spark_rankeval.wording import listed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, Row

    from spark_rankeval.request.task import ScoringTask
    from spark_rankeval.spark.inputs import Sources
    from spark_rankeval.spark.source import Source


# Words in the names of columns that name models.
_OF_MODELS = {"model", "models", "run", "runs", "runid", "system", "tag", "algorithm", "variant", "experiment", "fold"}
# A column with more values names something else than models, and more unused columns are not compared.
_MOST_MODELS, _MOST_UNUSED = 100, 30


class Finding(NamedTuple):
    """Rows of a table that cannot be ranked for one reason."""

    reason: str  # why
    n: int  # how many
    example: str  # one of them, in words
    unusual: bool = False  # an infinite score or a negative grade, which a caller may allow
    cause: str = ""  # what likely made these rows, and what to do, as a sentence


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
    unused = _unused_columns(source, model_column)
    items = source.given_ids() if source.vectors is None else column(source.vectors.vector)
    value = F.xxhash64(items, *source.values()).alias("value")
    rows = source.frame.where(~nobody).select(*users, *models, value, *_hashes(unused))
    keys = rows.columns[: len(users) + len(models)]
    row = _repeated(rows, keys, "value", unused)
    if not row["groups"]:
        return []
    example = row["example"]
    finding = Finding(REPEATED_USER, row["rows"], f"{_user_in_words(source, example)} in {example['n']} rows")
    return [finding._replace(cause=_likely_cause(row, source, unused, model_column))]


def example_of_duplicates(
    source: Source, task: ScoringTask, differing: bool, model_column: str | None = None, *, has_models: bool = False
) -> tuple[str, str]:
    """An item that a user has twice, of the rows that can be ranked, and what likely repeated it; both may be empty.

    With `differing`, the rows have different values. `has_models` says that models have names, so that no column is to name them.
    """
    unused = [] if source.arrays else _unused_columns(source, model_column)
    rows = with_reasons(source, task, model_column, _hashes(unused))
    # In one table of arrays without ids of users there is nothing to group by but the row.
    keys = [
        name for name in rows.columns if name.startswith(("user_", "model_", "row_")) or name in (ITEM, source.subtopic)
    ]
    value = _as_one([F.col(value_name(index)) for index in range(len(source.given_values))])
    fine = rows.where(F.col(REASON).isNull() & F.col(ITEM).isNotNull())
    fine = fine if source.subtopic is None else fine.where(F.col(source.subtopic).isNotNull())
    if value is not None:
        fine = fine.withColumn("value", value)
    shown = [user_column(index) for index in range(len(source.user))] + [ITEM]
    row = _repeated(
        fine, keys, "value" if value is not None else ITEM, unused, shown, differing=differing and value is not None
    )
    if not row["groups"]:
        return "", ""
    example = row["example"]
    parts = [_user_in_words(source, example)] if source.user else []
    parts.append(f"item={example[ITEM]!r} {example['n']} times")
    if value is not None:
        parts.append(f"with {source.value_kind}s {example['values'][:5]!r}")
    cause = "" if source.arrays else _likely_cause(row, source, unused, model_column, has_models=has_models)
    return ", ".join(parts), cause


def _unused_columns(source: Source, model_column: str | None) -> list[str]:
    """Columns that the evaluation does not read, by which repeated rows may differ; those that may name models come first."""
    read = _columns_read(source, model_column)
    unused = [name for name in _comparable(source) if name not in read]
    return sorted(unused, key=lambda name: not _may_name_models(name))[:_MOST_UNUSED]


def _columns_read(source: Source, model_column: str | None) -> list[str]:
    return [*source.columns_read, *([] if model_column is None else [model_column])]


def _comparable(source: Source) -> list[str]:
    """The columns whose values Spark can compare: it has no hash of maps and variants."""
    fields = source.frame.schema.fields
    return [field.name for field in fields if not re.search(r"\b(map<|variant)", field.dataType.simpleString())]


def _may_name_models(name: str) -> bool:
    return not _OF_MODELS.isdisjoint(re.split(r"[\W_]+", name.lower()))


def _hashes(unused: Sequence[str]) -> list[Column]:
    return [F.xxhash64(column(name)).alias(f"unused_{index}") for index, name in enumerate(unused)]


def _repeated(
    rows: DataFrame, keys: Sequence[str], value: str, unused: Sequence[str], shown: Sequence[str] | None = None,
    *, differing: bool = False,
) -> Row:  # fmt: skip
    """One row about the keys of several rows: how many there are, how many rows are too many, an example, and how the rows differ."""
    others = [f"unused_{index}" for index in range(len(unused))]
    groups = rows.groupBy(*keys).agg(
        F.count(F.lit(1)).alias("n"),
        F.sort_array(F.collect_set(value)).alias("values"),
        *(F.size(F.collect_set(other)).alias(other) for other in others),
    )
    repeated = groups.where((F.size("values") if differing else F.col("n")) > 1)
    example = F.struct(*_shown(groups, keys if shown is None else shown), "n", "values")
    row = repeated.agg(
        F.count(F.lit(1)).alias("groups"),
        F.sum(F.col("n") - 1).alias("rows"),
        F.first(example).alias("example"),
        F.count_if(F.size("values") < 2).alias("equal"),
        *(F.count_if(F.col(other) == 1).alias(f"same_{other}") for other in others),
        *(F.count_if(F.col(other) == F.col("n")).alias(f"all_{other}") for other in others),
    ).first()
    assert row is not None, "an aggregate without keys has a row"
    return row


def _likely_cause(
    row: Row, source: Source, unused: Sequence[str], model_column: str | None, *, has_models: bool = False
) -> str:
    """What likely repeated the rows of every key, and what to do, as a sentence; empty if nothing is likely."""
    n = row["groups"]
    differing = [name for index, name in enumerate(unused) if row[f"same_unused_{index}"] < n]
    telling = [name for index, name in enumerate(unused) if row[f"all_unused_{index}"] == n]
    are_equal = row["equal"] == n
    is_model = bool(telling) and _may_name_models(telling[0])
    read = _columns_read(source, model_column)
    if are_equal and not is_model and not {*read, *unused}.issuperset(source.frame.columns):
        comparable = _comparable(source)
        subset = [name for name in read if name in comparable]
        # The column of subtopics is prepared, and has no name that the caller could drop duplicates by.
        advice = "keep one of each" if source.subtopic else f"dropDuplicates({subset!r}) leaves one of each"
        return f"These rows are equal in the columns that are read; {advice}"
    if are_equal and not differing:
        return "These rows are equal in all columns, as if a table had been read twice; dropDuplicates() leaves one of each"
    if are_equal and not is_model:
        return (
            f"These rows are equal but for {listed([repr(name) for name in differing], most=3)}, as after a join that multiplied "
            "them; leave out such columns, and call dropDuplicates()"
        )
    if telling and not is_model:
        sizes = source.frame.agg(*(F.approx_count_distinct(F.xxhash64(column(name))) for name in telling)).collect()[0]
        telling = [name for size, name in sorted(zip(sizes, telling, strict=True)) if size <= _MOST_MODELS]
    if not telling:
        return ""
    words = f"The column {telling[0]!r} tells these rows apart; "
    if source.role == "predictions" and model_column is None and not has_models:
        words += f"pass model={telling[0]!r} if it names models or runs, or "
    return f"{words}keep one of its values"


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
