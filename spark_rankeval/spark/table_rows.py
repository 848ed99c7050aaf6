"""Rows of the caller's tables under our names: ids of the types that all tables share, attributes of users, hashes of whole tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.request.task import ScoringTask
from spark_rankeval.spark.fingerprints import (
    ROW_HASH,
    columns_of,
    hash_of,
    ids_of,
    row_hash,
    total_of_hashes,
    training_hash,
    users_of,
)
from spark_rankeval.spark.grouped_features import MarkedUsers
from spark_rankeval.spark.ids import common_id_type, is_readable, readable, text_in_sql, text_of, usable, user_hash
from spark_rankeval.spark.inputs import Sources
from spark_rankeval.spark.invalid_rows import none_holds, says_something, unusual_reasons
from spark_rankeval.spark.long_table import BothSides
from spark_rankeval.spark.prediction_lists import INFINITE, MODEL
from spark_rankeval.spark.source import WITHOUT_ITEMS, WITHOUT_USERS, SourceTable, ValueColumn, user_column
from spark_rankeval.spark.sql_text import (
    Sql,
    any_of,
    call,
    named,
    null_of,
    number,
    rows_of_all,
    select,
    text,
    when,
    with_columns,
)
from spark_rankeval.spark.tasks import broadcast_row
from spark_rankeval.worker import grouped_row
from spark_rankeval.worker.grouped_row import cluster_column, column_of_model, hash_column, slice_column
from spark_rankeval.worker.reading import WHOLE_TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The column of the arrays of a row.
ARRAYS = "arrays_"
#: 1 if a row of both sides is a prediction, or a label; else 0.
IS_PREDICTION, IS_LABEL = "is_prediction_", "is_label_"
# Whether a row of both sides has what a prediction needs, and what a label needs.
_VALID_PREDICTION, _VALID_LABEL = "spark_rankeval_is_prediction", "spark_rankeval_is_label"


@dataclass(frozen=True)
class TableRows:
    """How rows of tables get our names."""

    sources: Sources
    task: ScoringTask
    first: int = 0  # how many items of arrays in order are read; 0: all

    @property
    def user_columns(self) -> list[str]:
        """The names of the user's columns on the way."""
        return [user_column(index) for index in range(len(self.sources.predictions.user))]

    def user_types(self) -> list[T.DataType]:
        """The types that the user's columns get: wide enough for all tables."""
        types = self.sources.predictions.user_types()
        for other in self._others():
            if other.role not in WITHOUT_USERS:
                # The inputs were checked: these types compare.
                pairs = zip(types, other.user_types(), strict=True)
                types = [common_id_type(kind, more) or kind for kind, more in pairs]
        return types

    def item_type(self) -> T.DataType:
        """The type that items of all sides get."""
        kind = self.sources.predictions.item_type
        for other in self._others():
            if other.role not in WITHOUT_ITEMS:
                kind = common_id_type(kind, other.item_type) or kind
        return kind

    def _others(self) -> list[SourceTable]:
        sources = self.sources
        others = (
            sources.labels,
            sources.users,
            sources.exclude,
            sources.attributes,
            *(source for feature in sources.features for source in feature.tables()),
        )
        return [*(model.source for model in sources.models[1:]), *(other for other in others if other is not None)]

    def typed_users(self, source: SourceTable) -> list[Sql]:
        """The user's columns of a table, of the types that all tables share."""
        return [user.cast(kind) for user, kind in zip(source.users_sql(), self.user_types(), strict=True)]

    def named_users(self, source: SourceTable) -> list[Sql]:
        """The same under our names."""
        return [user.alias(name) for user, name in zip(self.typed_users(source), self.user_columns, strict=True)]

    def array_columns(self, source: SourceTable) -> list[Sql]:
        """The arrays of a table under our names; of a table of vectors the vectors."""
        if source.vectors is not None:
            return source.vectors.user_columns()
        ids, values = names_of(source)
        array, item_type = source.ids_sql(), self.item_type()
        if source.item_type != item_type:
            array = usable(array, T.ArrayType(source.item_type)).cast(T.ArrayType(item_type))
        if source.role == "predictions" and self.first and not source.value_columns:
            return [
                call("slice", array, 1, self.first).alias(ids),
                call("array_size", array).alias(grouped_row.VALID_PREDICTIONS),
            ]
        numbers = zip(self._as_numbers(source), values, strict=True)
        return [array.alias(ids), *(entries.alias(name) for entries, name in numbers)]

    def user_rows(self, source: SourceTable, marked: Iterable[MarkedUsers] = ()) -> DataFrame:
        """Rows under our names; a row that cannot be used keeps its user, so that it is counted, and loses the rest.

        Rows that mark their users say so in columns of their own.
        """
        about = (*self.named_users(source), *self._model_of(source), *_marks(marked))
        return select(source.frame, *about, *self._columns_of(source, self._valid(source)))

    def rows_of_both(self, both: BothSides) -> DataFrame:
        """The rows of a table that are predictions and labels at once, under our names."""
        first, labels = self.sources.predictions, self.sources.labels
        frame = both.frame
        if both.without_ids is not None:
            # Any number of a row will do in a table that is read once, and costs no sort.
            frame = with_columns(both.without_ids, {labels.item: call("monotonically_increasing_id")})
        # As columns, which are computed once: an engine may repeat a condition for each column that has it.
        frame = with_columns(frame, {_VALID_PREDICTION: self._valid(first), _VALID_LABEL: self._valid(labels)})
        columns = (
            *self._columns_of(first, named(_VALID_PREDICTION), both.is_prediction),
            *self._columns_of(labels, named(_VALID_LABEL), both.is_label),
        )
        sides = {IS_PREDICTION: both.is_prediction, IS_LABEL: both.is_label}
        marks = [when(is_there, 1, 0).alias(name) for name, is_there in sides.items() if is_there is not None]
        marks += _marks(self.sources.marked_users)
        return select(frame, *self.named_users(first), *columns, *marks)

    def _valid(self, source: SourceTable) -> Sql:
        """Whether a row has all that a ranking needs."""
        model = self.sources.model_column if source.role == "predictions" else None
        return says_something(source, self.task, model)

    def _columns_of(self, source: SourceTable, valid: Sql, is_there: Sql | None = None) -> list[Sql]:
        """The item and the numbers of a row, null if it cannot be used or is not there, and what is counted of it."""
        ids, values = names_of(source)
        infinite: list[Sql] = []
        if is_there is not None:
            valid = valid & is_there
        if self.counts_infinite(source):
            unusual = ~none_holds(unusual_reasons(source, source.values_sql(), self.task))
            infinite = [when(valid & unusual, 1, 0).alias(INFINITE)]
            valid = valid & ~unusual
        columns = [when(valid, source.ids_sql().cast(self.item_type())).alias(ids)]
        columns += [
            when(valid, values_of_row).alias(name)
            for values_of_row, name in zip(self._as_numbers(source), values, strict=True)
        ]
        # Predictions are hashed where they are added up: a column more of them would cost more than the hash.
        if source.role != "labels":
            return [*columns, *infinite]
        hashed = row_hash(source) if is_there is None else when(is_there, row_hash(source))
        return [*columns, *infinite, hashed.alias(ROW_HASH)]

    def _as_numbers(self, source: SourceTable) -> list[Sql]:
        """Scores and grades as numbers that compare as float64; float32 stays, which is narrower and loses nothing.

        The worker sees by it that thresholds of such grades are to be rounded as the grades are.
        """
        double = T.ArrayType(T.DoubleType()) if source.arrays else T.DoubleType()
        fills_rows = self.task.options.on_missing == "unjudged" and source.role == "labels" and not source.arrays

        def as_number(values: Sql, value: ValueColumn) -> Sql:
            if source.value_kind == "rank" and not value.extra:
                return -values.cast(double)
            is_float32 = isinstance(value.kind, T.FloatType)
            numbers = values if is_float32 else values.cast(double)
            if fills_rows and not value.extra:
                # A null would be missing from the list of grades, which is as long as that of items.
                return call("coalesce", numbers, number(math.nan).cast(value.kind if is_float32 else double))
            return numbers

        return [as_number(*pair) for pair in zip(source.values_sql(), source.value_columns, strict=True)]

    def counts_infinite(self, source: SourceTable) -> bool:
        """Whether rows of infinite score are left out and counted by themselves: only on request, for it takes a column."""
        return source.value_kind == "score" and not self.task.rank_infinite

    def rows_of_models(self, models: Sequence[int], rows: Callable[[SourceTable], DataFrame]) -> DataFrame:
        """The rows of models, by index, under our names, each with the index of its model if there are several."""
        tables = {
            model: rows(self.sources.models[model].source) for model in models[: 1 if self.names_models else None]
        }
        if self.names_models or len(models) == 1:
            return tables[models[0]]
        return rows_of_all(table.withColumn(MODEL, F.lit(model)) for model, table in tables.items())

    @property
    def names_models(self) -> bool:
        """Whether a column of one table says which model a row is of."""
        return self.sources.model_column is not None

    def _model_of(self, source: SourceTable) -> list[Sql]:
        """The index of a row's model, if a column names it; a row that names none counts as one of the first model's."""
        if self.sources.model_column is None or source.role != "predictions" or len(self.sources.models) == 1:
            return []
        name = self.sources.model_column
        name_of_row, model_of_row = text_in_sql(source.frame, name), number(0)
        for index, model in enumerate(self.sources.models[1:], start=1):
            model_of_row = when(name_of_row == text_of(model.name), index, model_of_row)
        return [model_of_row.alias(MODEL)]

    def arrays_of(self, source: SourceTable) -> DataFrame:
        """The arrays of a table in one struct, so that those of one row stay together."""
        arrays = call("struct", *self.array_columns(source))
        if source.role == "predictions" and self.sources.model_column is not None:
            arrays = when(named(self.sources.model_column).is_not_null(), arrays)
        about = (*self.named_users(source), *self._model_of(source))
        hashed = [row_hash(source).alias(ROW_HASH)] if source.vectors is None else []
        return select(source.frame, *about, arrays.alias(ARRAYS), *hashed)


def names_of(source: SourceTable) -> tuple[str, list[str]]:
    """Our names for the items of a table, and for its scores, or for its grades and what stands beside them."""
    if source.role == "predictions":
        return grouped_row.ITEMS, [
            grouped_row.COSTS if value.extra else grouped_row.SCORES for value in source.value_columns
        ]
    grades = [grouped_row.grades_column(index) for index in range(len(source.grades))]
    return grouped_row.LABELS, [*grades, *map(grouped_row.label_column, source.extra_columns)]


TypedSql = tuple[Sql, T.DataType]


def _marks(marked: Iterable[MarkedUsers]) -> list[Sql]:
    """For each of these users a column of rows that is 1 where a row marks its user, else null."""
    return [when(each.is_marked, 1).alias(each.column) for each in marked]


def agreed(names: Sequence[str], conflicts: str) -> list[Sql]:
    """Aggregates of a user's rows: each attribute, null if the rows do not agree, and in how many they do not."""
    if not names:
        return []
    least, greatest = ({name: call(end, named(name)) for name in names} for end in ("min", "max"))
    agree = {name: least[name] == greatest[name] for name in names}
    n_conflicts = reduce(add, [when(~agrees, 1, 0) for agrees in agree.values()])
    attributes = [when(agrees, least[name]).alias(name) for name, agrees in agree.items()]
    return [*attributes, n_conflicts.cast("bigint").alias(conflicts)]


def _weight(value: Sql) -> Sql:
    """A weight; -1 for NaN and infinity, which are as wrong, and which Sail's min and max of a group do not give."""
    return when(~(call("abs", value) < math.inf), -1.0, value)


def _number_of_user(name: str, column: str) -> Sql:
    """An attribute that is a number. People graded a user if any row says so, so that no row says that they did not."""
    return when(named(column), 1.0) if name == grouped_row.GRADED else _weight(named(column).cast("double"))


@dataclass(frozen=True)
class UserAttributes:
    """What users have beside predictions and labels."""

    sources: Sources

    @property
    def columns(self) -> dict[str, str]:
        """The columns of the users' attributes by their names on the way: those of slices, the weight, those of clusters alone."""
        sources = self.sources
        columns = {slice_column(index): name for index, name in enumerate(sources.slices)}
        if sources.weight is not None:
            columns[grouped_row.USER_WEIGHT] = sources.weight
        columns |= sources.judged
        return columns | {cluster_column(index): name for index, name in enumerate(sources.attributes_of_clusters)}

    def named_values(self, source: SourceTable, as_text: Callable[[DataFrame, str], Sql] = text_in_sql) -> list[Sql]:
        """The attributes in a table under their names on the way: those that part users, as text, and the weight, as a number."""
        return [value.alias(name) for value, name in zip(self.values(source, as_text), self.columns, strict=True)]

    def values(self, source: SourceTable, as_text: Callable[[DataFrame, str], Sql]) -> list[Sql]:
        """The same without names."""
        return [
            _number_of_user(name, column) if name in grouped_row.NUMBERS_OF_USERS else as_text(source.frame, column)
            for name, column in self.columns.items()
        ]

    def hashed(self, values: list[Sql]) -> list[Sql]:
        """The hash of the attributes that a user's rows agree on, if there are any."""
        return [hash_of(values).alias(grouped_row.hash_column("attributes"))] if values else []

    def readable(self, name: str) -> Sql:
        """A column of grouped users; that of a text becomes readable, which costs less once a user than once a row."""
        if name not in self.columns or name in grouped_row.NUMBERS_OF_USERS:
            return named(name)
        return self._readable_text(name).alias(name)

    def text_on_the_way(self, attribute: str) -> Sql:
        """An attribute of text of grouped users, by the caller's name, in readable form."""
        columns = self.columns.items()
        name = next(
            name for name, column in columns if column == attribute and name not in grouped_row.NUMBERS_OF_USERS
        )
        return self._readable_text(name)

    def _readable_text(self, name: str) -> Sql:
        source = self.sources.attributes
        is_written_out = source is not None and is_readable(source.frame, self.columns[name])
        return readable(named(name), is_written_out=is_written_out)

    def cluster_hash(self, ids: Mapping[str, TypedSql], attribute: Callable[[str], Sql]) -> list[Sql]:
        """The hash of each user's cluster, null if one of its columns is; none if users are independent.

        `ids` has the user's columns by name, and `attribute` gives any other as text.
        """
        if not self.sources.clusters:
            return []
        text = T.StringType()
        columns = [ids[name] if name in ids else (attribute(name), text) for name in self.sources.clusters]
        values, types = zip(*columns, strict=True)
        has_cluster = ~any_of(value.is_null() for value in values)
        return [when(has_cluster, user_hash(values, types)).alias(grouped_row.CLUSTER_HASH)]


def hashed_tables(sources: Sources) -> tuple[str, ...]:
    """The tables whose rows are hashed, by name; the predictions of a model have the name that `column_of_model` gives."""
    names = [column_of_model("predictions", model) for model in range(len(sources.models))]
    names.append("labels")
    names += [name for name in ("users", "exclude") if getattr(sources, name) is not None]
    if sources.attributes is not None:
        names.append("attributes")
    names += dict.fromkeys(marked.source.role for marked in sources.marked_users)
    return (*names, *(table for table in WHOLE_TABLES if table in sources.side_tables()))


def with_whole_hashes(users: DataFrame, sources: Sources, hashed_tables: Collection[str] = ()) -> DataFrame:
    """Every row with the hashes of the tables that are hashed as a whole, except those that are `hashed_tables`: one row, broadcast."""
    rows: list[tuple[str, DataFrame, Sql]] = []
    for table, source in sources.side_tables().items():
        if table in hashed_tables:
            continue
        if table == "training":
            hashed = training_hash(source)
        elif table == "baseline":
            hashed = hash_of([*users_of(source), row_hash(source)])
        else:
            item_columns = sources.columns_of_items().items()
            read = [
                column for name, are_ids in item_columns for column in columns_of(source.frame, [name], are_ids=are_ids)
            ]
            hashed = hash_of([*ids_of(source), *read])
        rows.append((table, source.frame, hashed))
    for index, model in enumerate(sources.models):
        rows += [(column_of_model("predictions", index), *each) for each in _rows_of_vectors(model.source)]
    if not rows:
        return users
    names = list(dict.fromkeys(table for table, _, _ in rows))
    hashes = [
        select(frame, *(hashed.alias(name) if name == table else null_of(T.LongType()).alias(name) for name in names))
        for table, frame, hashed in rows
    ]
    totals = [call("coalesce", total_of_hashes(named(name)), 0).alias(hash_column(name)).column for name in names]
    return broadcast_row(users, reduce(lambda table, other: table.union(other), hashes).agg(*totals))


def _rows_of_vectors(source: SourceTable) -> list[tuple[DataFrame, Sql]]:
    """The tables of a model's vectors with the hash of a row. The hash depends on the table and on how scores are made.

    None if the model has lists.
    """
    vectors = source.vectors
    if vectors is None:
        return []
    tables: dict[str, tuple[SourceTable, list[Sql], tuple[str | None, ...]]] = {
        "users": (source, users_of(source), (vectors.vector, vectors.user_bias)),
        "items": (vectors.items, ids_of(vectors.items), (vectors.item_vector, vectors.item_bias)),
    }
    if vectors.candidates is not None:
        pairs = [*users_of(vectors.candidates), *ids_of(vectors.candidates)]
        tables["candidates"] = (vectors.candidates, pairs, ())
    return [
        (
            each.frame,
            hash_of(
                [
                    text(f"{role} {vectors.similarity}"),
                    *ids,
                    *columns_of(each.frame, [name for name in names if name], are_ids=False),
                ]
            ),
        )
        for role, (each, ids, names) in tables.items()
    ]
