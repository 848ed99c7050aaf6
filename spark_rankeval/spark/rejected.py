"""The rows that an evaluation does not rank, each with its reason: for its errors, and as a table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import Window

from spark_rankeval.errors import InputError
from spark_rankeval.spark.ids import readable, text_in_sql
from spark_rankeval.spark.named_columns import any_null
from spark_rankeval.spark.rejected_vectors import REPEATED_USER, items_with_reasons, users_with_reasons
from spark_rankeval.spark.source import user_column
from spark_rankeval.spark.sql_text import any_of, call, named, null_of, rows_of_all, text, when, with_columns
from spark_rankeval.spark.validity import invalid_reasons, unusual_reasons

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column, DataFrame

    from spark_rankeval.request.task import ScoringTask
    from spark_rankeval.spark.inputs import Sources
    from spark_rankeval.spark.source import Source
    from spark_rankeval.spark.sql_text import Sql

#: Our names on the way.
ITEM, MODEL, REASON = "item_", "model_", "reason_"
_PLACE, _ROW, _WHOLE, _AGAIN, _OTHER = "place_", "row_", "whole_", "again_", "other_"


def value_name(index: int) -> str:
    """The name of a column of scores, ranks or grades on the way."""
    return f"value_{index}"


def with_reasons(
    source: Source, task: ScoringTask, model_column: str | None = None, kept: Sequence[Column] = ()
) -> DataFrame:
    """The rows of a table, or the entries of its arrays, each with why it cannot be ranked, or null.

    Rows keep the columns `kept`, and labels their subtopics.

    A row whose arrays say nothing as a whole is one entry without an item. Of a user's several rows of arrays one is read,
    the one that comes last in the order of its arrays, as when they are grouped.
    """
    if source.vectors is not None:
        return users_with_reasons(source, source.vectors, ITEM, REASON)
    rows = _rows(source, model_column, kept)
    ids, values = named(ITEM), [named(value_name(index)) for index in range(len(source.given_values))]
    reasons = source.user_reasons()
    if model_column is not None:
        reasons[f"null model ({model_column})"] = named(MODEL).is_null()
    if source.arrays:
        reasons |= {whole: named(_WHOLE) == text(whole) for whole in (REPEATED_USER, *_wrong_arrays(source))}
    reasons |= invalid_reasons(source, ids, values, task) | unusual_reasons(source, values, task)
    return with_columns(rows, {REASON: _first_that_holds(reasons)})


def _rows(source: Source, model_column: str | None, kept: Sequence[Column]) -> DataFrame:
    users, models = source.given_users(), []
    if model_column is not None:
        models = [readable(text_in_sql(source.frame, model_column)).column.alias(MODEL)]
    ids, values = source.given_ids(), source.values()
    if not source.arrays:
        numbers = [column.alias(value_name(index)) for index, column in enumerate(values)]
        subtopic = [] if source.subtopic is None else [source.subtopic]
        return source.frame.select(*users, *models, ids.alias(ITEM), *numbers, *subtopic, *kept)
    null_array, unequal = _wrong_arrays(source)
    is_unequal = reduce(or_, [F.size(ids) != F.size(array) for array in values], F.lit(False))
    whole = F.when(any_null([ids, *values]), null_array).when(is_unequal, unequal)
    arrays = {ITEM: ids, **{value_name(index): array for index, array in enumerate(values)}}
    # In one table of both arrays a row is a user.
    row = F.monotonically_increasing_id() if source.shares_table else F.lit(0)
    frame = source.frame.select(
        *users, *models, row.alias(_ROW), whole.alias(_WHOLE), *(array.alias(name) for name, array in arrays.items())
    )
    nobody = any_of([*source.user_reasons().values(), *[named(MODEL).is_null()] * len(models)]).column
    if not source.shares_table:
        frame = _marking_repeats(frame, len(users), len(models), list(arrays), nobody)
    nothing = F.col(_WHOLE).isNotNull() | nobody
    # A place beyond the arrays' ends is null, and so is what a row without an entry has.
    entries = [F.when(F.col(_PLACE) >= 0, F.get(F.col(name), F.col(_PLACE))).alias(name) for name in arrays]
    places = F.when(nothing, F.array(F.lit(-1))).otherwise(F.sequence(F.lit(0), F.size(ITEM) - 1))
    places = F.when(~nothing & (F.size(ITEM) == 0), F.array().cast("array<int>")).otherwise(places)
    exploded = frame.withColumn(_PLACE, F.explode(places))
    return exploded.select(*(name for name in exploded.columns if name not in arrays), *entries)


def rows_of_users(source: Source) -> DataFrame:
    """The rows of a table of users, each with why it names nobody, or null."""
    reasons = {f"{words} in the table of users": holds for words, holds in source.user_reasons().items()}
    return with_columns(source.frame.select(*source.given_users()), {REASON: _first_that_holds(reasons)})


def _first_that_holds(reasons: dict[str, Sql]) -> Sql:
    reason = null_of(T.StringType())
    for words, condition in reversed(list(reasons.items())):
        reason = when(call("coalesce", condition, False), text(words), reason)
    return reason


def _wrong_arrays(source: Source) -> tuple[str, str]:
    """What is said of a row with a null array, and of one with arrays of unequal lengths."""
    names = " and ".join([source.item, *(value.name for value in source.given_values)])
    return f"null array of {source.role}", f"unequal lengths of {names}"


def _marking_repeats(frame: DataFrame, n_users: int, n_models: int, arrays: list[str], nobody: Column) -> DataFrame:
    keys = [*(user_column(index) for index in range(n_users)), *[MODEL] * n_models]
    best_first = Window.partitionBy(*keys).orderBy(*(F.col(name).desc() for name in arrays))
    repeated = ~nobody & (F.col("nth_") > 1)
    frame = frame.withColumn("nth_", F.row_number().over(best_first))
    return frame.withColumn(_WHOLE, F.when(repeated, REPEATED_USER).otherwise(F.col(_WHOLE))).drop("nth_")


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
        sources = self.sources
        parts = []
        for model in sources.models[: 1 if sources.model_column is not None else None]:
            rows = with_reasons(model.source, self.task, sources.model_column)
            if sources.model_column is None:
                rows = rows.withColumn(MODEL, F.lit(model.name))
            parts.append(self._named(model.source, rows))
            vectors = model.source.vectors
            if vectors is not None:
                of_items = items_with_reasons(vectors, ITEM, REASON).withColumn(MODEL, F.lit(model.name))
                no_users = {user_column(index): F.lit(None) for index in range(len(self.user_types))}
                parts.append(self._named(vectors.items, of_items.withColumns(no_users)))
            elif self.repeated_predictions:
                parts.append(self._named(model.source, self._repeated(model.source, rows)))
        parts += self._of_labels()
        if sources.users is not None:
            parts.append(self._named(sources.users, rows_of_users(sources.users)))
        return rows_of_all(parts)

    def _of_labels(self) -> Iterator[DataFrame]:
        """The labels that are rejected."""
        labels = self.sources.labels
        rows = with_reasons(labels, self.task)
        yield self._named(labels, rows)
        if self.conflicting_labels and labels.given_values:
            # Without a subtopic a label is for no intent, and there the highest grade is no conflict.
            judged = rows if labels.subtopic is None else rows.where(F.col(labels.subtopic).isNotNull())
            yield self._named(labels, self._conflicting(judged))

    def _keys(self, rows: DataFrame) -> list[str]:
        users = [user_column(index) for index in range(len(self.sources.predictions.user))]
        return [*users, *[name for name in (MODEL, _ROW, self.sources.labels.subtopic) if name in rows.columns]]

    def _repeated(self, source: Source, rows: DataFrame) -> DataFrame:
        """Predictions of an item that the user has already, ranked better; not of items that are left out anyway."""
        rows = rows.where(F.col(REASON).isNull() & F.col(ITEM).isNotNull())
        if self.sources.exclude is not None:
            left_out = self.sources.exclude
            items = left_out.frame.select(*left_out.named_users(), left_out.given_ids().alias(ITEM))
            rows = rows.join(items, items.columns, "left_anti")
        order = [F.col(value_name(0)).asc() if source.value_kind == "rank" else F.col(value_name(0)).desc()]
        order = order[: len(source.given_values)] + [F.col(_PLACE)] * source.arrays
        again = F.row_number().over(Window.partitionBy(*self._keys(rows), ITEM).orderBy(*order))
        repeats = rows.withColumn(_AGAIN, again).where(F.col(_AGAIN) > 1)
        return repeats.withColumn(REASON, F.lit("repeats an item of the user, ranked better"))

    def _conflicting(self, rows: DataFrame) -> DataFrame:
        """Labels of an item that has a higher grade as well; of equal ones the first, as the others are merged with it."""
        rows = rows.where(F.col(REASON).isNull())
        values = [F.col(value_name(index)).cast("double") for index in range(len(self.sources.labels.given_values))]
        values = [F.greatest(grade, F.lit(0.0)) if self.task.clip_grades else grade for grade in values]
        grades = F.struct(*values)
        higher = Window.partitionBy(*self._keys(rows), ITEM).orderBy(*(grade.desc() for grade in values))
        rows = rows.withColumn(_OTHER, F.lag(grades).over(higher)).where(F.col(_OTHER) != grades)
        return rows.withColumn(REASON, F.lit("repeats an item of the user with a lower grade"))

    def _named(self, source: Source, rows: DataFrame) -> DataFrame:
        """Rejected rows of a table under the names that they are shown by."""
        sources, has_items = self.sources, source.role in ("predictions", "labels", "catalogue")
        model = F.col(MODEL) if source.role in ("predictions", "catalogue") else F.lit(None).cast("string")
        place_of = {value.name: index for index, value in enumerate(source.given_values)}
        columns = [
            F.lit(source.role),
            *[model] * bool(sources.models[0].name),
            *(F.col(user_column(index)).cast(kind) for index, kind in enumerate(self.user_types)),
            (F.col(ITEM) if has_items else F.lit(None)).cast(self.item_type),
            *(
                (F.col(value_name(place_of[name])) if name in place_of else F.lit(None)).cast("double")
                for name in _value_names(sources)
            ),
            F.col(REASON),
        ]
        named = [value.alias(name) for name, value in zip(columns_of_rejected(sources), columns, strict=True)]
        return rows.where(F.col(REASON).isNotNull()).select(*named)


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
    values = (*sources.predictions.given_values, *sources.labels.given_values)
    return list(dict.fromkeys(value.name for value in values))
