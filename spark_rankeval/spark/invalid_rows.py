"""Rows that cannot be ranked: the conditions of each reason, the rows with their reasons as a table, and examples for errors."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import Window

from spark_rankeval.errors import InputError
from spark_rankeval.metrics.base import as_float32
from spark_rankeval.ranking.lists import EXTRA_COLUMNS
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.spark.ids import for_example, id_reasons, name_in_sql, readable, text_in_sql
from spark_rankeval.spark.inputs import Sources
from spark_rankeval.spark.source import REPEATED_USER, SourceTable, ValueColumn, user_column
from spark_rankeval.spark.sql_text import (
    Sql,
    all_of,
    any_of,
    call,
    column,
    descending,
    first_true,
    named,
    null_of,
    number,
    over,
    rows_of_all,
    select,
    text,
    when,
    where,
    with_columns,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row


# A largest grade beyond this is a limit of floating point, not of a metric's option.
_HUGE = 1e290
# The kinds of `OnInvalid` that rows of predictions are: those that cannot be ranked, and those that a caller may allow.
_KINDS = {"predictions": ("invalid_predictions", "infinite_scores")}
# Tables of users alone, in words.
_TABLES_OF_USERS = {"users": "the table of users", "no_answer": "the table no_answer"}
#: The item in our rows, and in what is known of repeated ones.
ITEM = "item_"
_MODEL, _REASON, _PLACE, _ROW, _VALUE, _OTHER = "model_", "reason_", "place_", "row_", "value", "other_"
# Words in the names of columns that name models.
_MODEL_WORDS = frozenset(
    ["model", "models", "run", "runs", "runid", "system", "tag", "algorithm", "variant", "experiment", "fold", "retriever",
     "reranker", "ranker"]
)  # fmt: skip
#: Words in the names of columns that tell the chunks of a document apart.
NAMES_CHUNKS = re.compile(r"chunk|passage|segment|paragraph|snippet|rank|position", re.IGNORECASE)
# Of rows that repeat others, the share that a column must tell apart: a few may be real duplicates.
_NEARLY_ALL = 0.9
# A column with more values names something else than models, and more unused columns are not compared.
_MOST_MODELS, _MOST_UNUSED = 100, 30


def invalid_reasons(source: SourceTable, ids: Sql, values: Sequence[Sql], task: ScoringTask) -> dict[str, Sql]:
    """Why a row, or an entry of an array, says nothing that could be ranked: conditions by what they mean."""
    may_be_null = task.keep_null_items and source.role == "predictions" and source.arrays
    reasons = id_reasons(f"{source.role.rstrip('s')} item", ids, source.item_type, may_be_null=may_be_null)
    for column_of_values, kind, value in _numbers(source, values):
        is_grade = source.value_kind == "relevance" and not column_of_values.extra
        if is_grade and task.options.on_missing == "unjudged":
            # In SQL NaN is above every number.
            value = when(~call("isnan", value), value)  # noqa: PLW2901 # the same without missing grades
        else:
            reasons[f"null {kind}"] = value.is_null()
        if is_grade and task.unusual_grades == "keep":
            continue
        reasons[f"NaN {kind}"] = call("isnan", value)
        if column_of_values.extra:
            wrong = EXTRA_COLUMNS[column_of_values.extra].wrong
            reasons |= {words: compare(value, bound) for words, compare, bound in wrong}
        if source.value_kind == "rank" and not column_of_values.extra:
            reasons["negative rank"] = value < 0
            reasons["infinite rank"] = value == math.inf
            reasons["fractional rank"] = value != call("rint", value)
        if is_grade:
            largest = task.largest_grade
            held = as_float32(largest) if isinstance(column_of_values.kind, T.FloatType) else largest
            above = f"{kind} above {largest:,.6g}, the largest grade of a metric"
            if largest < _HUGE:
                reasons[f"{above} (set max_grade or gain='linear')"] = value > held
            else:
                reasons |= {f"infinite {kind}": value == math.inf, above: (value > held) & (value < math.inf)}
    return reasons


def unusual_reasons(source: SourceTable, values: Sequence[Sql], task: ScoringTask) -> dict[str, Sql]:
    """Why a row that could be ranked is not: infinite scores and negative grades, which the caller may allow."""
    numbers = [
        (kind, value) for column_of_values, kind, value in _numbers(source, values) if not column_of_values.extra
    ]
    if source.value_kind == "score" and not task.rank_infinite:
        return {f"infinite {kind}": call("abs", value) == math.inf for kind, value in numbers}
    if source.value_kind == "relevance" and task.unusual_grades == "error" and not task.clip_grades:
        return {f"negative {kind}": value < 0 for kind, value in numbers}
    return {}


def _numbers(source: SourceTable, values: Sequence[Sql]) -> list[tuple[ValueColumn, str, Sql]]:
    """Each column of numbers with what messages call it, and its values as doubles; a cast loses no null."""
    several = len(source.grades) > 1
    kinds = [
        value.extra or (f"{source.value_kind} {value.name!r}" if several else str(source.value_kind))
        for value in source.value_columns
    ]
    return list(zip(source.value_columns, kinds, [value.cast("double") for value in values], strict=True))


def none_holds(conditions: dict[str, Sql]) -> Sql:
    """Whether no condition is true; null is not."""
    if not conditions:
        return number(True)
    # A true one makes the whole true, whatever is null beside it.
    return ~call("coalesce", any_of(conditions.values()), False)


def says_something(source: SourceTable, task: ScoringTask, model_column: str | None = None) -> Sql:
    """Whether a row of a table of rows has all that a ranking needs."""
    needed = [*source.users_sql(), *([] if model_column is None else [named(model_column)])]
    return all_of(values.is_not_null() for values in needed) & none_holds(
        invalid_reasons(source, source.raw_ids_sql(), source.values_sql(), task)
    )


def _values(source: SourceTable) -> list[str]:
    """Our names for the columns of scores, ranks or grades, and of what labels have beside these."""
    return [f"value_{index}" for index in range(len(source.value_columns))]


def _with_reasons(
    source: SourceTable, task: ScoringTask, model_column: str | None = None, kept: Sequence[Sql] = ()
) -> DataFrame:
    """The rows of a table, or the entries of its arrays, each with why it cannot be ranked, or null.

    Rows keep the columns `kept`, and labels their subtopics. A row whose arrays say nothing as a whole is one entry without an item.
    """
    if source.vectors is not None:
        return source.vectors.users_with_reasons(source, ITEM, _REASON)
    if source.role in _TABLES_OF_USERS:
        words_of_table = _TABLES_OF_USERS[source.role]
        users = {f"{words} in {words_of_table}": holds for words, holds in source.user_reasons().items()}
        return with_columns(select(source.frame, *source.raw_users()), {_REASON: first_true(users)})
    user_reasons, about = source.user_reasons(), source.raw_users()
    if model_column is not None:
        user_reasons[f"null model ({model_column})"] = named(_MODEL).is_null()
        about.append(readable(text_in_sql(source.frame, model_column)).alias(_MODEL))
    if source.shares_table:
        about.append(call("monotonically_increasing_id").alias(_ROW))
    names = [ITEM, *_values(source)]
    entry_columns = [
        value.alias(name) for value, name in zip((source.raw_ids_sql(), *source.values_sql()), names, strict=True)
    ]
    subtopic = [] if source.subtopic is None else [named(source.subtopic)]
    rows = select(source.frame, *about, *entry_columns, *subtopic, *kept)
    ids, *values = map(named, names)
    reasons = invalid_reasons(source, ids, values, task) | unusual_reasons(source, values, task)
    if not source.arrays:
        return with_columns(rows, {_REASON: first_true(user_reasons | reasons)})
    entries = _entries(source, rows, names, user_reasons)
    return with_columns(entries, {_REASON: call("coalesce", named(_REASON), first_true(reasons))})


def _entries(source: SourceTable, rows: DataFrame, names: Sequence[str], user_reasons: Mapping[str, Sql]) -> DataFrame:
    """The entries of arrays; a row that says nothing as a whole is one entry without an item, with its reason.

    Of a user's several rows one is read, the one that comes last in the order of its arrays, as when they are grouped.
    """
    ids, *values = arrays = [named(name) for name in names]
    reasons = dict(user_reasons)
    if not source.shares_table:
        keys = [named(name) for name in rows.columns if name not in names]
        reasons[REPEATED_USER] = over(call("row_number"), keys, map(descending, arrays)) > 1
    arrays_in_words = " and ".join([source.item, *(value.name for value in source.value_columns)])
    reasons[f"null array of {source.role}"] = any_of(array.is_null() for array in arrays)
    reasons[f"unequal lengths of {arrays_in_words}"] = any_of(
        call("size", array) != call("size", ids) for array in values
    )
    rows = with_columns(rows, {_REASON: first_true(reasons)})
    # A place beyond the arrays' ends is null, and so is what a row without an entry has.
    places = call("slice", call("sequence", -1, call("size", ids) - 1), 2, call("size", ids))
    places = when(named(_REASON).is_not_null(), call("array", -1), places)
    rows = with_columns(rows, {_PLACE: call("explode", places)})
    entry = {name: when(named(_PLACE) >= 0, call("get", named(name), named(_PLACE))) for name in names}
    return with_columns(rows, entry)


def _keys(source: SourceTable, rows: DataFrame) -> list[str]:
    """The columns of rows with reasons that make an item of a user; in one table of arrays a row is a user."""
    users = [user_column(index) for index in range(len(source.user))]
    return [*users, *[name for name in (_MODEL, _ROW, source.subtopic) if name in rows.columns], ITEM]


@dataclass(frozen=True)
class Quarantine:
    """How rejected rows become a table."""

    sources: Sources
    task: ScoringTask
    user_types: list[T.DataType]  # the types of the user's columns, wide enough for all tables
    item_type: T.DataType  # the same of the items
    repeated_predictions: bool = True  # a user's predictions of an item but the best are rejected
    conflicting_labels: bool = True  # an item's labels of a lower grade are rejected

    def frame(self) -> DataFrame:
        """Every rejected row: its table, its model if these have names, user, item, values, and the reason."""
        sources, labels, parts = self.sources, self.sources.labels, []
        for name, source in sources.tables():
            rows = _with_reasons(source, self.task, sources.model_column)
            if sources.model_column is None:
                rows = rows.withColumn(_MODEL, F.lit(name))
            parts.append(self._named(source, rows))
            if source.vectors is not None:
                items = source.vectors.items_with_reasons(ITEM, _REASON).withColumn(_MODEL, F.lit(name))
                parts.append(self._named(source.vectors.items, items))
            elif self.repeated_predictions:
                parts.append(self._named(source, self._repeated(source, rows)))
        rows = _with_reasons(labels, self.task)
        parts.append(self._named(labels, rows))
        if self.conflicting_labels and labels.value_columns:
            parts.append(self._named(labels, self._conflicting(rows)))
        parts += [self._named(source, _with_reasons(source, self.task)) for source in sources.tables_of_users]
        return rows_of_all(parts)

    def _repeated(self, source: SourceTable, rows: DataFrame) -> DataFrame:
        """Predictions of an item that the user has already, ranked better; not of items that are left out anyway."""
        rows = rows.where(F.col(_REASON).isNull() & F.col(ITEM).isNotNull())
        if self.sources.exclude is not None:
            left_out = self.sources.exclude
            items = select(left_out.frame, *left_out.named_users_sql(), left_out.raw_ids_sql().alias(ITEM))
            rows = rows.join(items, items.columns, "left_anti")
        values = [F.col(name) for name in _values(source)]
        order = [value.asc() if source.value_kind == "rank" else value.desc() for value in values]
        order += [F.col(_PLACE)] * source.arrays
        again = F.row_number().over(Window.partitionBy(*_keys(source, rows)).orderBy(*order))
        repeats = rows.withColumn(_OTHER, again).where(F.col(_OTHER) > 1)
        return repeats.withColumn(_REASON, F.lit("repeats an item of the user, ranked better"))

    def _conflicting(self, rows: DataFrame) -> DataFrame:
        """Labels of an item that has a higher grade as well; of equal ones the first, as the others are merged with it."""
        labels = self.sources.labels
        rows = rows.where(F.col(_REASON).isNull())
        if labels.subtopic is not None:
            # Without a subtopic a label is for no intent, and there the highest grade is no conflict.
            rows = rows.where(F.col(labels.subtopic).isNotNull())
        values = [F.col(name).cast("double") for name in _values(labels)]
        values = [F.greatest(grade, F.lit(0.0)) if self.task.clip_grades else grade for grade in values]
        grades = F.struct(*values)
        higher = Window.partitionBy(*_keys(labels, rows)).orderBy(*(grade.desc() for grade in values))
        rows = rows.withColumn(_OTHER, F.lag(grades).over(higher)).where(F.col(_OTHER) != grades)
        return rows.withColumn(_REASON, F.lit("repeats an item of the user with a lower grade"))

    def _named(self, source: SourceTable, rows: DataFrame) -> DataFrame:
        """Rejected rows of a table under the names that they are shown by."""
        value_names = dict(zip((value.name for value in source.value_columns), _values(source), strict=True))

        def column_or_null(name: str, kind: T.DataType) -> Sql:
            return named(name).cast(kind) if name in rows.columns else null_of(kind)

        columns = [
            text(source.role),
            *[column_or_null(_MODEL, T.StringType())] * bool(self.sources.models[0].name),
            *(column_or_null(user_column(index), kind) for index, kind in enumerate(self.user_types)),
            column_or_null(ITEM, self.item_type),
            *(column_or_null(value_names.get(name, ""), T.DoubleType()) for name in _value_names(self.sources)),
            named(_REASON),
        ]
        shown = [
            value.column.alias(name) for name, value in zip(columns_of_rejected(self.sources), columns, strict=True)
        ]
        return rows.where(F.col(_REASON).isNotNull()).select(*shown)


def columns_of_rejected(sources: Sources) -> list[str]:
    """The names of the columns of the table of rejected rows."""
    model = ["model"] * bool(sources.models[0].name)
    names = ["table", *model, *sources.predictions.user, "item", *_value_names(sources), "reason"]
    lower = [name.lower() for name in names]
    twice = dict.fromkeys(name for name in names if lower.count(name.lower()) > 1)
    if twice:
        msg = (
            f"the table of rejected rows would have several columns named {', '.join(map(repr, twice))}; rename the column of "
            "the data"
        )
        raise InputError(msg)
    return names


def _value_names(sources: Sources) -> list[str]:
    """The columns of scores, ranks and grades; one that both tables have is one column."""
    tables = [*(model.source for model in sources.models), sources.labels]
    return list(dict.fromkeys(value.name for source in tables for value in source.value_columns))


class Finding(NamedTuple):
    """Rows of a table that cannot be ranked for one reason."""

    reason: str  # why
    n: int  # how many
    example: str  # one of them, in words
    kind: str  # of `OnInvalid`


def findings_of(source: SourceTable, task: ScoringTask, model_column: str | None = None) -> list[Finding]:
    """Count the rows of a table that cannot be used by reason; a row with several counts under the first."""
    rows = _with_reasons(source, task, model_column)
    grades = [str(source.value_kind)] if len(source.grades) == 1 else source.grades
    names = {user_column(index): name for index, name in enumerate(source.user)}
    names |= {ITEM: "item"} if ITEM in rows.columns else {}
    names |= dict(zip(_values(source), (*grades, *source.extra_columns), strict=True))
    rejected = rows.where(F.col(_REASON).isNotNull() & (F.col(_REASON) != REPEATED_USER))
    example = F.first(F.struct(*_shown(rows, names))).alias("example")
    counted = rejected.groupBy(_REASON).agg(F.count(F.lit(1)).alias("n"), example).collect()
    invalid, allowable = _KINDS.get(source.role, ("invalid_labels", "negative_grades"))
    unusual = unusual_reasons(source, source.values_sql(), task)
    findings = []
    for row in sorted(counted, key=lambda row: str(row[_REASON])):
        shown = ", ".join(f"{name}={row['example'][ours]!r}" for ours, name in names.items())
        findings.append(Finding(row[_REASON], row["n"], shown, allowable if row[_REASON] in unusual else invalid))
    return findings


class Repeats(NamedTuple):
    """Rows that repeat the keys of others."""

    n_rows: int  # how many are too many
    example: Row  # a user, and the item if it is a key, with the number of rows and their values
    are_equal: bool  # whether the rows of every key have the same values
    read: list[str]  # the columns that are read and that Spark can compare
    all_compared: bool  # whether these and those that are not read are all columns
    differing: list[str]  # the columns that are not read by which the rows of some key differ
    telling: str  # such a column by which all rows of every key differ, or nearly all; empty: none
    n_apart: int  # how many of the rows too many it tells apart
    names_models: bool  # whether it may name models


def repeated_users(source: SourceTable, model_column: str | None) -> Repeats | None:
    """Users in several rows of a table of arrays, only one of them read; None if there are none."""
    if not source.arrays or source.shares_table:
        return None
    has_no_user = any_of(user.is_null() for user in source.users_sql())
    keys = [*source.named_users_sql(), *([] if model_column is None else [named(model_column).alias(_MODEL)])]
    items = source.raw_ids_sql() if source.vectors is None else named(source.vectors.vector)
    value = call("xxhash64", items, *source.values_sql()).alias(_VALUE)
    unused = _unused_columns(source, model_column)
    rows = select(where(source.frame, ~has_no_user), *keys, value, *_hashes(unused))
    return _repeats(source, model_column, rows, rows.columns[: len(keys)], unused)


def repeated_items(
    source: SourceTable, task: ScoringTask, model_column: str | None, *, differing: bool
) -> Repeats | None:
    """Items that a user has twice, of the rows that can be ranked, and if `differing` with different values; None if there are none."""
    unused = {} if source.arrays else _unused_columns(source, model_column)
    rows = _with_reasons(source, task, model_column, _hashes(unused))
    needed = [named(name).is_not_null() for name in (ITEM, source.subtopic) if name]
    values = _values(source) or [ITEM]
    value = F.struct(*values) if len(values) > 1 else F.col(values[0])
    fine = where(rows, all_of([named(_REASON).is_null(), *needed])).withColumn(_VALUE, value)
    return _repeats(source, model_column, fine, _keys(source, rows), unused, differing=differing)


def _repeats(
    source: SourceTable, model_column: str | None, rows: DataFrame, keys: Sequence[str], unused: Mapping[str, str],
    *, differing: bool = False,
) -> Repeats | None:  # fmt: skip
    """The keys of several rows, or of several values if `differing`; None if there are none."""
    groups = rows.groupBy(*keys).agg(
        F.count(F.lit(1)).alias("n"),
        F.sort_array(F.collect_set(_VALUE)).alias("values"),
        *(F.size(F.collect_set(ours)).alias(ours) for ours in unused),
    )
    repeated = groups.where((F.size("values") if differing else F.col("n")) > 1)
    shown = [name for name in keys if name.startswith("user_") or name == ITEM]
    row = repeated.agg(
        F.count(F.lit(1)).alias("groups"),
        F.sum(F.col("n") - 1).alias("rows"),
        F.first(F.struct(*_shown(groups, shown), "n", "values")).alias("example"),
        F.count_if(F.size("values") < 2).alias("equal"),
        *(F.count_if(F.col(ours) == 1).alias(f"same_{ours}") for ours in unused),
        *(F.sum(F.col(ours) - 1).alias(f"apart_{ours}") for ours in unused),
    ).collect()[0]
    n = row["groups"]
    if not n:
        return None
    are_equal = row["equal"] == n
    apart = [name for ours, name in unused.items() if row[f"same_{ours}"] < n]
    n_apart = {name: row[f"apart_{ours}"] for ours, name in unused.items()}
    telling = [name for name, n_rows in n_apart.items() if n_rows >= _NEARLY_ALL * row["rows"]]
    names_models = bool(telling) and _may_name_models(telling[0])
    chunks = [name for name in telling if NAMES_CHUNKS.search(name)]
    if chunks and not names_models and source.role == "predictions":
        telling = chunks
    elif telling and not are_equal and not names_models:
        sizes = source.frame.agg(*(F.approx_count_distinct(F.xxhash64(column(name))) for name in telling)).collect()[0]
        telling = [name for size, name in sorted(zip(sizes, telling, strict=True)) if size <= _MOST_MODELS]
    read, tells_apart = _columns_read(source, model_column), telling[0] if telling else ""
    all_compared = {*read, *unused.values()}.issuperset(source.frame.columns)
    read = _comparable(source, read)
    return Repeats(
        row["rows"], row["example"], are_equal, read, all_compared, apart, tells_apart, n_apart.get(tells_apart, 0), names_models
    )  # fmt: skip


def _unused_columns(source: SourceTable, model_column: str | None) -> dict[str, str]:
    """Columns by our names that the evaluation does not read, by which repeated rows may differ; those of models come first."""
    read = _columns_read(source, model_column)
    unused = _comparable(source, [name for name in source.frame.columns if name not in read])
    first = sorted(unused, key=lambda name: not _may_name_models(name))[:_MOST_UNUSED]
    return {f"unused_{index}": name for index, name in enumerate(first)}


def _columns_read(source: SourceTable, model_column: str | None) -> list[str]:
    return [*source.columns_read, *([] if model_column is None else [model_column])]


def _comparable(source: SourceTable, names: Sequence[str]) -> list[str]:
    """The columns whose values Spark can compare: it has no hash of maps and variants."""
    kinds = {field.name: field.dataType.simpleString() for field in source.frame.schema.fields}
    return [name for name in names if not re.search(r"\b(map<|variant)", kinds[name])]


def _may_name_models(name: str) -> bool:
    return not _MODEL_WORDS.isdisjoint(re.split(r"[\W_]+", name.lower()))


def _hashes(unused: Mapping[str, str]) -> list[Sql]:
    return [call("xxhash64", named(name)).alias(ours) for ours, name in unused.items()]


def conflicting_attribute(source: SourceTable, attributes: Iterable[str]) -> tuple[str, Row] | None:
    """An attribute in which the rows of a user do not agree, with the user and the values; None if there is none."""
    for attribute in attributes:
        rows = select(source.frame, *source.named_users_sql(), name_in_sql(source.frame, attribute).alias("value"))
        users = rows.columns[:-1]
        values = rows.groupBy(*users).agg(F.sort_array(F.collect_set("value")).alias("values"))
        differing = values.where(F.size("values") > 1).limit(1)
        for row in differing.select(*_shown(values, users), "values").collect():
            return attribute, row
    return None


def unusable_weight(source: SourceTable, name: str) -> Row | None:
    """A user whose weight cannot be used; None if every user with a row has one."""
    weight = named(name).cast("double")
    wrong = any_of([weight.is_null(), call("isnan", weight), weight < 0, weight == math.inf])
    rows_with_user = where(source.frame, all_of([wrong, *(user.is_not_null() for user in source.users_sql())]))
    rows = select(rows_with_user, *source.named_users_sql(), weight.alias("weight")).limit(1)
    return next(iter(rows.select(*_shown(rows, rows.columns)).collect()), None)


def _shown(frame: DataFrame, names: Iterable[str]) -> list[Column]:
    return [for_example(named(name), frame.schema[name].dataType).column.alias(name) for name in names]
