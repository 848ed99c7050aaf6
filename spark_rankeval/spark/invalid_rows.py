"""Rows that cannot be ranked: each with its reason, as a table, and an example of each reason."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import Window

from spark_rankeval.errors import InputError
from spark_rankeval.request.call import KINDS
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.spark import facts, sql
from spark_rankeval.spark.source_tables import REPEATED_USER, SourceTable, invalid_reasons, unusual_reasons
from spark_rankeval.spark.tables import Sources

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# The kinds of rows that could be ranked and are not, by the kind of the others of their table.
_UNUSUAL = {kind.parent: name for name, kind in KINDS.items() if kind.parent}
# Tables of users alone, in words.
_TABLES_OF_USERS = {"users": "the table of users", "no_answer": "the table no_answer"}
_TABLE, _MODEL, _ITEM, _REASON, _PLACE, _ROW, _OTHER, _BEST, _VALUE = (
    "table_", "model_", "item_", "reason_", "place_", "row_", "other_", "best_", "value"
)  # fmt: skip


def _names_of_values(source: SourceTable) -> list[str]:
    """Our names for the columns of scores, ranks or grades, and of what labels have beside these."""
    return [f"value_{index}" for index in range(len(source.value_columns))]


def _with_reasons(source: SourceTable, task: ScoringTask, model_column: str | None = None) -> DataFrame:
    """The rows of a table, or the entries of its arrays, each with why it cannot be ranked, or null.

    Labels keep their subtopics. A row whose arrays say nothing as a whole is one entry without an item.
    """
    if source.vectors is not None:
        return facts.users_with_reasons(source, source.vectors, _ITEM, _REASON)
    if source.role in _TABLES_OF_USERS:
        words_of_table = _TABLES_OF_USERS[source.role]
        users = {f"{words} in {words_of_table}": holds for words, holds in source.user_reasons().items()}
        return sql.with_columns(sql.select(source.frame, *source.raw_users()), {_REASON: sql.first_true(users)})
    user_reasons, about = source.user_reasons(), source.raw_users()
    if model_column is not None:
        user_reasons[f"null model ({model_column})"] = sql.named(_MODEL).is_null()
        about.append(sql.readable(sql.text_in_sql(source.frame, model_column)).alias(_MODEL))
    if source.shares_table:
        about.append(sql.call("monotonically_increasing_id").alias(_ROW))
    names = [_ITEM, *_names_of_values(source)]
    entry_columns = [
        value.alias(name) for value, name in zip((source.raw_ids_sql(), *source.values_sql()), names, strict=True)
    ]
    subtopic = [] if source.subtopic is None else [sql.named(source.subtopic)]
    rows = sql.select(source.frame, *about, *entry_columns, *subtopic)
    ids, *values = map(sql.named, names)
    reasons = invalid_reasons(source, ids, values, task) | unusual_reasons(source, values, task)
    if not source.arrays:
        return sql.with_columns(rows, {_REASON: sql.first_true(user_reasons | reasons)})
    entries = _entries(source, rows, names, user_reasons)
    return sql.with_columns(entries, {_REASON: sql.call("coalesce", sql.named(_REASON), sql.first_true(reasons))})


def _entries(
    source: SourceTable, rows: DataFrame, names: Sequence[str], user_reasons: Mapping[str, sql.Sql]
) -> DataFrame:
    """The entries of arrays; a row that says nothing as a whole is one entry without an item, with its reason.

    Of a user's several rows one is read, the one that comes last in the order of its arrays, as when they are grouped.
    """
    ids, *values = arrays = [sql.named(name) for name in names]
    reasons = dict(user_reasons)
    if not source.shares_table:
        keys = [sql.named(name) for name in rows.columns if name not in names]
        reasons[REPEATED_USER] = sql.over(sql.call("row_number"), keys, map(sql.descending, arrays)) > 1
    arrays_in_words = " and ".join([source.item, *(value.name for value in source.value_columns)])
    reasons[f"null array of {source.role}"] = sql.any_of(array.is_null() for array in arrays)
    reasons[f"unequal lengths of {arrays_in_words}"] = sql.any_of(
        sql.call("size", array) != sql.call("size", ids) for array in values
    )
    rows = sql.with_columns(rows, {_REASON: sql.first_true(reasons)})
    # A place beyond the arrays' ends is null, and so is what a row without an entry has.
    places = sql.call("slice", sql.call("sequence", -1, sql.call("size", ids) - 1), 2, sql.call("size", ids))
    places = sql.when(sql.named(_REASON).is_not_null(), sql.call("array", -1), places)
    rows = sql.with_columns(rows, {_PLACE: sql.call("explode", places)})
    entry = {
        name: sql.when(sql.named(_PLACE) >= 0, sql.call("get", sql.named(name), sql.named(_PLACE))) for name in names
    }
    return sql.with_columns(rows, entry)


def _keys(source: SourceTable, rows: DataFrame) -> list[str]:
    """The columns of rows with reasons that make an item of a user; in one table of arrays a row is a user."""
    return [*source.user_names, *[name for name in (_MODEL, _ROW, source.subtopic) if name in rows.columns], _ITEM]


class Finding(NamedTuple):
    """Rows of a table that are not ranked for one reason."""

    kind: str  # of `OnInvalid`
    model: str  # whose table of predictions it is; empty: the only one, or not of predictions
    source: SourceTable
    reason: str
    n: int
    example: str  # one of the rows, in words


class _Rejected(NamedTuple):
    """Rows of a table, each with why it is not ranked, or null."""

    kind: str  # of `OnInvalid`; of some reasons it is that of `_UNUSUAL`
    source: SourceTable
    rows: DataFrame
    model: str = ""


@dataclass(frozen=True)
class Quarantine:
    """The rows that are not ranked, and why."""

    sources: Sources
    task: ScoringTask

    def frame(self) -> DataFrame:
        """Every rejected row: its table, its model if these have names, user, item, values, and the reason."""
        return sql.rows_of_all([self._named(part) for part in self._parts()])

    def findings(self, kind: str) -> Iterator[Finding]:
        """The rejected rows of a kind, and of the one that counts among it, by table and reason."""
        for part in self._parts():
            if part.kind != kind:
                continue
            source, rows = part.source, part.rows.where(F.col(_REASON).isNotNull())
            unusual = unusual_reasons(source, source.values_sql(), self.task)
            names = (
                source.user_names
                | {_ITEM: "item"}
                | dict(zip(_names_of_values(source), source.value_names, strict=True))
            )
            names |= {_BEST: "best", _MODEL: str(self.sources.model_column)}
            names = {ours: name for ours, name in names.items() if ours in rows.columns}
            example = F.first(F.struct(*sql.for_examples(rows, names))).alias(_VALUE)
            for row in rows.groupBy(_REASON).agg(F.count(F.lit(1)).alias("n"), example).sort(_REASON).collect():
                kind_of_reason = _UNUSUAL[kind] if row[_REASON] in unusual else kind
                words = sql.example_in_words(row[_VALUE], names, are_nulls_shown=row[_REASON].startswith("null"))
                yield Finding(kind_of_reason, part.model, source, row[_REASON], row["n"], words)

    def _parts(self) -> Iterator[_Rejected]:
        sources, task = self.sources, self.task
        labels, ranking = sources.labels, task.views[0].ranking
        for model, source in sources.tables():
            rows = _with_reasons(source, task, sources.model_column)
            yield _Rejected("invalid_predictions", source, rows, model)
            if source.vectors is not None:
                items = facts.catalogue_with_reasons(source.vectors, _ITEM, _REASON)
                yield _Rejected("invalid_facts", source.vectors.items, items, model)
            elif ranking.duplicates in ("count", "keep_best"):
                yield _Rejected("duplicate_predictions", source, self._repeated(source, rows), model)
        rows = _with_reasons(labels, task)
        yield _Rejected("invalid_labels", labels, rows)
        if ranking.conflicting_labels == "highest" and labels.value_columns:
            yield _Rejected("conflicting_labels", labels, self._conflicting(rows))
        for source in sources.tables_of_users:
            yield _Rejected("invalid_labels", source, _with_reasons(source, task))

    def _repeated(self, source: SourceTable, rows: DataFrame) -> DataFrame:
        """Predictions of an item that the user has already, ranked better; not of items that are left out anyway."""
        rows = rows.where(F.col(_REASON).isNull() & F.col(_ITEM).isNotNull())
        left_out = self.sources.exclude
        if left_out is not None:
            items = sql.select(left_out.frame, *left_out.named_users_sql(), left_out.raw_ids_sql().alias(_ITEM))
            rows = rows.join(items, items.columns, "left_anti")
        values = [F.col(name) for name in _names_of_values(source)]
        order = [value.asc() if source.value_kind == "rank" else value.desc() for value in values]
        order += [F.col(_PLACE)] * source.arrays
        of_item = Window.partitionBy(*_keys(source, rows)).orderBy(*order)
        if values:
            rows = rows.withColumn(_BEST, F.first(F.array(*values)).over(of_item))
        repeats = rows.withColumn(_OTHER, F.row_number().over(of_item)).where(F.col(_OTHER) > 1)
        return repeats.withColumn(_REASON, F.lit("repeats an item of the user, ranked better"))

    def _conflicting(self, rows: DataFrame) -> DataFrame:
        """Labels of an item that has a higher grade as well; of equal ones the first, as the others are merged with it."""
        labels = self.sources.labels
        rows = rows.where(F.col(_REASON).isNull())
        if labels.subtopic is not None:
            # Without a subtopic a label is for no intent, and there the highest grade is no conflict.
            rows = rows.where(F.col(labels.subtopic).isNotNull())
        values = [F.col(name).cast("double") for name in _names_of_values(labels)]
        values = [F.greatest(grade, F.lit(0.0)) if self.task.clip_grades else grade for grade in values]
        grades = F.struct(*values)
        higher = Window.partitionBy(*_keys(labels, rows)).orderBy(*(grade.desc() for grade in values))
        rows = rows.withColumn(_BEST, F.first(F.array(*values)).over(higher))
        rows = rows.withColumn(_OTHER, F.lag(grades).over(higher)).where(F.col(_OTHER) != grades)
        return rows.withColumn(_REASON, F.lit("repeats an item of the user with a lower grade"))

    def _named(self, part: _Rejected) -> DataFrame:
        """Rejected rows of a table under the names that they are shown by."""
        sources, source = self.sources, part.source
        rows = part.rows.where(F.col(_REASON).isNotNull())
        rows = rows.withColumn(_TABLE, F.lit(source.role))
        if part.model:
            rows = rows.withColumn(_MODEL, F.lit(part.model))
        names = _value_names(sources)
        values = dict(zip(source.value_names, _names_of_values(source), strict=True))
        model, word = [_MODEL] * bool(sources.models[0].name), T.StringType()
        ours = [_TABLE, *model, *sources.predictions.user_names, _ITEM]
        ours += [*(values.get(name, "") for name in names), _REASON]
        ids = [*self.sources.user_types, self.sources.item_type]
        kinds = [word, *[word] * len(model), *ids, *[T.DoubleType()] * len(names), word]
        columns = zip(ours, kinds, columns_of_rejected(sources), strict=True)
        present = {name: sql.named(name) for name in rows.columns}
        shown = (present.get(name, sql.null_of(kind)).cast(kind).alias(shown) for name, kind, shown in columns)
        return sql.select(rows, *shown)


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
    return list(dict.fromkeys(name for source in tables for name in source.value_names))


def conflicting_attribute(source: SourceTable, attributes: Iterable[str]) -> str:
    """A user whose rows do not agree in one of the attributes, with the first of its values; empty if there is none."""
    for attribute in attributes:
        rows = sql.select(
            source.frame, *source.named_users_sql(), sql.name_in_sql(source.frame, attribute).alias(_VALUE)
        )
        values = F.slice(F.sort_array(F.collect_set(_VALUE)), 1, 5).alias(_VALUE)
        differing = rows.groupBy(*source.user_names).agg(values).where(F.size(_VALUE) > 1)
        if words := sql.example_of(differing, source.user_names | {_VALUE: attribute}):
            return words
    return ""


def unusable_weight(source: SourceTable, name: str) -> str:
    """A user whose weight cannot be used; empty if every user with a row has one."""
    weight = sql.named(name).cast("double")
    wrong = sql.any_of([weight.is_null(), sql.call("isnan", weight), weight < 0, weight == math.inf])
    rows_with_user = sql.where(source.frame, sql.all_of([wrong, *(user.is_not_null() for user in source.users_sql())]))
    rows = sql.select(rows_with_user, *source.named_users_sql(), weight.alias(_VALUE))
    return sql.example_of(rows, source.user_names | {_VALUE: name})
