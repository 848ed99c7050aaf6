"""One row per user: the caller's tables grouped into the columns that the worker reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from itertools import filterfalse
from typing import TYPE_CHECKING

from spark_rankeval.request.task import ScoringTask
from spark_rankeval.spark.fingerprints import ROW_HASH, is_hashed_by_workers, row_hash, short_hash, total_of_hashes
from spark_rankeval.spark.grouped_features import GroupedFeature, MarkedUsers, Typed
from spark_rankeval.spark.ids import name_in_sql, text_in_sql, user_hash
from spark_rankeval.spark.inputs import Sources
from spark_rankeval.spark.long_table import BothSides
from spark_rankeval.spark.platforms import engine_of
from spark_rankeval.spark.prediction_lists import INFINITE, MODEL, Gathering, PredictionLists, values_of_model
from spark_rankeval.spark.sql_text import (
    Sql,
    aggregate,
    aggregate_lists,
    all_of,
    any_of,
    call,
    field_of,
    named,
    number,
    select,
    union,
    when,
    where,
    with_columns,
)
from spark_rankeval.spark.table_rows import (
    ARRAYS,
    IS_LABEL,
    IS_PREDICTION,
    TableRows,
    TypedSql,
    UserAttributes,
    agreed,
    names_of,
    with_whole_hashes,
)
from spark_rankeval.spark.tasks import without_file_metadata
from spark_rankeval.worker import grouped_row
from spark_rankeval.worker.grouped_row import cluster_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql import types as T


# Columns of ours on the way: how many rows a row stands for; whether a user is known from more than attributes.
_ROW, _EVALUATED = "row_", "known_"
# Whether a row is of the table of further users.
_USER_ROW = "in_users_"


@dataclass(frozen=True)
class Grouping:
    """How tables become one row per user."""

    sources: Sources
    task: ScoringTask
    gathering: Gathering = "all"  # how a user's predictions are brought together
    keep: int = 0  # with a gathering of the best: how many predictions a user keeps
    first: int = 0  # how many items of arrays in order are read; 0: all
    merge_duplicates: bool = False  # keep the best of equal (user, item) already before predictions are left out

    @cached_property
    def rows(self) -> TableRows:
        """The rows of the tables under our names."""
        return TableRows(self.sources, self.task, self.first)

    @property
    def user_columns(self) -> list[str]:
        """The names of the user's columns on the way."""
        return self.rows.user_columns

    def user_types(self) -> list[T.DataType]:
        """The types of the user's columns on the way."""
        return self.rows.user_types()

    def item_type(self) -> T.DataType:
        """The type of items on the way."""
        return self.rows.item_type()

    def frame(self, *, with_users: bool = False, with_user_hash: bool = False) -> DataFrame:
        """The grouped table: whether a row has no user, what the worker reads, and on request who the user is.

        Columns that tell clusters become a hash, unless only users are asked for.
        """
        first, labels = self.sources.predictions, self.sources.labels
        if labels.shares_table:
            # One table with both arrays: its rows are the users, nothing needs to move.
            grouped = select(
                first.frame,
                *(self.rows.named_users(first) if with_users else ()),
                *self.rows.array_columns(first),
                *self.rows.array_columns(labels),
                any_of(user.is_null() for user in first.users_sql()).alias(grouped_row.NO_USER),
                *([self._hash_of(self.rows.typed_users(first))] if with_user_hash else ()),
                *(
                    []
                    if with_users and not with_user_hash
                    else self.attributes.cluster_hash(
                        self._ids(self.rows.typed_users(first)), partial(name_in_sql, first.frame)
                    )
                ),
                *self.attributes.named_values(first, name_in_sql),
                *(when(marked.is_marked, 1).alias(marked.column) for marked in self.sources.marked_users),
                *(row_hash(source).alias(grouped_row.hash_column(source.role)) for source in (first, labels)),
                *self.attributes.hashed(self.attributes.values(first, text_in_sql)),
            )
            return self._with_broadcasts(with_whole_hashes(grouped, self.sources))
        joined = self._lists()
        if self._rows_of_both is None:
            # Two groupings and a join of the groups: tables bucketed by user need no shuffle at all.
            joined = joined.join(self._labels(), self.user_columns, "full")
        users = [named(name) for name in self.user_columns]
        no_user = any_of(user.is_null() for user in users).alias(grouped_row.NO_USER)
        hashed = [self._hash_of(users)] if with_user_hash else []
        left_behind = {_EVALUATED}
        if with_user_hash or not with_users:
            hashed += self.attributes.cluster_hash(self._ids(users), self.attributes.text_on_the_way)
        if not with_users:
            left_behind.update(map(cluster_column, range(len(self.sources.attributes_of_clusters))))
            left_behind.update(self.user_columns)
        kept = [self.attributes.readable(name) for name in joined.columns if name not in left_behind]
        kept += self.attributes.hashed([named(name) for name in self.attributes.columns])
        if self.sources.attributes is not None:
            # Users found only in the attributes table are not evaluated, but their slice still appears.
            counts = [
                grouped_row.column_of_model(grouped_row.PREDICTION_ROWS, models[0]) for models in self.sources.forms
            ]
            has_no_row = all_of(named(name).is_null() for name in counts)
            absent = has_no_row & (call("coalesce", named(_EVALUATED), 0) == 0)
            kept.append(absent.alias(grouped_row.ABSENT))
        grouped = select(joined, *kept, no_user, *hashed)
        hashed_tables = [table for feature in self._features for table in feature.hashed]
        return self._with_broadcasts(with_whole_hashes(grouped, self.sources, hashed_tables))

    def lists(self) -> DataFrame:
        """The grouped table without labels: the user's columns, what the worker reads, and whether a row has no user."""
        lists = self._lists()
        no_user = any_of(named(name).is_null() for name in self.user_columns).alias(grouped_row.NO_USER)
        return self._with_broadcasts(select(lists, *map(named, lists.columns), no_user))

    def _with_broadcasts(self, users: DataFrame) -> DataFrame:
        """Grouped users with what features bring to the workers."""
        return reduce(lambda rows, feature: feature.with_broadcasts(rows), self._features, users)

    def _lists(self) -> DataFrame:
        """One row per user with the predictions of every model, and the user's other lists."""
        predictions = self._predictions()
        if self.sources.exclude is not None:
            # Before the other join, which forgets that its left side is sorted by user.
            hashed = grouped_row.hash_column("exclude")
            excluded = self._typed.lists(self.sources.exclude, grouped_row.EXCLUDED, hashed)
            predictions = predictions.join(excluded, self.user_columns, "left")
            # 0 says that nothing of the user is excluded; null, that no table was read.
            predictions = with_columns(predictions, {hashed: call("coalesce", named(hashed), 0)})
        for lists in (lists for feature in self._features for lists in feature.prediction_tables()):
            predictions = predictions.join(lists, self.user_columns, "left")
        return predictions

    @cached_property
    def _rows_of_both(self) -> BothSides | None:
        """The rows that are grouped once for the lists of predictions and of labels, if nothing is joined to them."""
        joins = any(feature.joins for feature in self._features)
        return self.sources.rows_of_both if self.gathering == "all" and not joins else None

    @cached_property
    def _typed(self) -> Typed:
        return Typed(self.user_columns, self.rows.named_users, self.item_type())

    @cached_property
    def _features(self) -> list[GroupedFeature]:
        return [feature.grouped(self.task, self._typed) for feature in self.sources.features]

    @cached_property
    def attributes(self) -> UserAttributes:
        """The attributes of users on the way."""
        return UserAttributes(self.sources)

    def _ids(self, users: list[Sql]) -> dict[str, TypedSql]:
        """The user's columns by their own names, each with its type."""
        return dict(zip(self.sources.predictions.user, zip(users, self.user_types(), strict=True), strict=True))

    def _hash_of(self, users: list[Sql]) -> Sql:
        return user_hash(users, self.user_types()).alias(grouped_row.USER_HASH)

    def _predictions(self) -> DataFrame:
        """One row per user with the predictions of every model, each in columns of its own."""
        tables = [self._predictions_of(models) for models in self.sources.forms]
        return reduce(lambda left, right: left.join(right, self.user_columns, "full"), tables)

    def _predictions_of(self, models: Sequence[int]) -> DataFrame:
        """The same of models, by index, whose predictions have the same form."""
        first = self.sources.models[models[0]].source
        if first.arrays:
            rows = self.rows.rows_of_models(models, self.rows.arrays_of)
            return self._grouped_arrays(rows, grouped_row.PREDICTION_ROWS, models)
        both = self._rows_of_both
        rows = self.rows.rows_of_models(models, self.rows.user_rows) if both is None else self.rows.rows_of_both(both)
        users = self.user_columns
        n_rows, merged = None, None
        has_made_ids = self.sources.labels.has_made_ids
        item = None if has_made_ids else named(grouped_row.ITEMS)
        hashed = short_hash(item, self.item_type(), *map(named, names_of(first)[1]))
        if self.merge_duplicates:
            keys = [*users, *([MODEL] if len(models) > 1 else []), grouped_row.ITEMS]
            infinite = [call("sum", named(INFINITE)).alias(INFINITE)] if self.rows.counts_infinite(first) else []
            best = [call("max", named(name)).alias(name) for name in names_of(first)[1]]
            total = call("sum", hashed).alias(ROW_HASH)
            rows = aggregate(rows.repartition(*users), keys, call("count", 1).alias(_ROW), *best, *infinite, total)
            hashed = named(ROW_HASH)
            n_rows, merged = named(_ROW), when(named(grouped_row.ITEMS).is_not_null(), named(_ROW) - 1, 0)
        is_hashed_there = is_hashed_by_workers(self.item_type()) if not has_made_ids else self.sources.numbers_rows
        by_workers = self.gathering == "all" and n_rows is None and is_hashed_there
        counts_infinite = self.rows.counts_infinite(first)
        lists = PredictionLists(users, models, self.gathering, self.keep, self._listed, counts_infinite)
        label_lists = []
        if both is not None:
            n_rows = None if both.is_prediction is None else named(IS_PREDICTION)
            label_lists = self._label_lists(call("count", 1) if both.is_label is None else call("sum", named(IS_LABEL)))
            label_lists += self._marks
        return lists.grouped(rows, None if by_workers else hashed, n_rows, merged, label_lists)

    @property
    def _listed(self) -> tuple[str, ...]:
        numbers = [grouped_row.SCORES, *([grouped_row.COSTS] if self.sources.predictions.extra_columns else [])]
        return (grouped_row.ITEMS, *numbers)

    def _labels(self) -> DataFrame:
        """One row per user with the labels, and with what features know of them."""
        labels = self._grouped_labels()
        for table in (table for feature in self._features for table in feature.label_tables()):
            labels = labels.join(table, self.user_columns, "left")
        return labels

    def _grouped_labels(self) -> DataFrame:
        source, others = self.sources.labels, self._users_without_labels()
        attributes = agreed(list(self.attributes.columns), grouped_row.ATTRIBUTE_CONFLICTS)
        is_evaluated = call("max", named(_EVALUATED)).alias(_EVALUATED)
        if source.arrays:
            labels = self._grouped_arrays(self.rows.arrays_of(source), grouped_row.LABEL_ROWS)
            if others is None:
                return labels
            grouped = aggregate(others, self.user_columns, is_evaluated, *attributes, *self._counts_of_users)
            joined = labels.join(grouped, self.user_columns, "full")
            return with_columns(
                joined, {_EVALUATED: when(named(grouped_row.LABEL_ROWS).is_not_null(), 1, named(_EVALUATED))}
            )
        rows = self.rows.user_rows(source, self._marked_by_labels)
        n_rows, more = call("count", 1), self._marks if self._marked_by_labels else []
        if others is not None:
            # They are rows without a label: a third table in a join would cost a shuffle more.
            rows = with_columns(rows, {_ROW: number(1), _EVALUATED: number(1)})
            rows = union(without_file_metadata(rows), without_file_metadata(others))
            n_rows, more = call("sum", named(_ROW)), [is_evaluated, *attributes, *self._counts_of_users]
        return aggregate_lists(rows, self.user_columns, *self._label_lists(n_rows), *more)

    def _label_lists(self, n_rows: Sql) -> list[Sql]:
        """The labels of a user as aggregates of rows: how many there are, the sum of their hashes, and the lists."""
        ids, values = names_of(self.sources.labels)
        lists = [call("collect_list", named(name)).alias(name) for name in (ids, *values)]
        hashed = total_of_hashes(named(ROW_HASH)).alias(grouped_row.hash_column("labels"))
        return [n_rows.alias(grouped_row.LABEL_ROWS), hashed, *lists]

    @property
    def _counts_of_users(self) -> list[Sql]:
        """How many rows a user has in the table of further users and in those that mark users; null: none.

        These rows hold nothing else that is read.
        """
        hashed = call("sum", named(_USER_ROW)).alias(grouped_row.hash_column("users"))
        return [*([] if self.sources.users is None else [hashed]), *self._marks]

    @property
    def _marks(self) -> list[Sql]:
        """How many rows mark a user; null: none."""
        columns = dict.fromkeys(marked.column for marked in self.sources.marked_users)
        return [call("sum", named(name)).alias(name) for name in columns]

    @property
    def _marked_by_labels(self) -> list[MarkedUsers]:
        """The users whom rows of labels mark: these rows are grouped anyway."""
        return list(filter(self._has_rows_of_labels, self.sources.marked_users))

    def _has_rows_of_labels(self, marked: MarkedUsers) -> bool:
        return marked.whole is self.sources.labels.frame and not self.sources.labels.arrays

    def _users_without_labels(self) -> DataFrame | None:
        """Users to count besides, and users whose attributes are known, as rows; rows without a user are of the former only."""
        users, attributes = self.sources.users, self.sources.attributes
        named_tables = [] if users is None else [(users, _USER_ROW)]
        others = filterfalse(self._has_rows_of_labels, self.sources.marked_users)
        named_tables += [(marked.source, marked.column) for marked in others]
        rows = None
        for source, mark in named_tables:
            # A row without a valid user is not counted; it is reported as an invalid row.
            has_no_user = any_of(user.is_null() for user in source.users_sql())
            row, evaluated = when(has_no_user, 1, 0).alias(_ROW), number(1).alias(_EVALUATED)
            marked_rows = select(source.frame, *self.rows.named_users(source), row, evaluated, number(1).alias(mark))
            rows = marked_rows if rows is None else union(rows, marked_rows)
        if attributes is not None:
            row, evaluated = number(0).alias(_ROW), number(0).alias(_EVALUATED)
            rows_with_user = where(attributes.frame, ~any_of(user.is_null() for user in attributes.users_sql()))
            about = select(
                rows_with_user,
                *self.rows.named_users(attributes),
                row,
                evaluated,
                *self.attributes.named_values(attributes),
            )
            rows = about if rows is None else union(rows, about)
        return rows

    def _grouped_arrays(self, rows: DataFrame, n_rows: str, models: Sequence[int] = (0,)) -> DataFrame:
        """One row per user of a table of arrays: one of the user's rows, how many there are, and their hash, of each model."""
        first, counts, n_models = [], [], len(models)
        compares = engine_of(rows.sparkSession).is_spark
        table = "predictions" if n_rows == grouped_row.PREDICTION_ROWS else "labels"
        for model in models:
            row, each = (values_of_model(model, values, n_models) for values in (named(ARRAYS), number(1)))
            counts.append(call("count", each).alias(grouped_row.column_of_model(n_rows, model)))
            if ROW_HASH in rows.columns:
                hashed = values_of_model(model, named(ROW_HASH), n_models)
                counts.append(
                    total_of_hashes(hashed).alias(grouped_row.hash_column(grouped_row.column_of_model(table, model)))
                )
            # Of a user's rows the one whose arrays come last in order: any would do, but always the same.
            sorted_rows = call("sort_array", call("collect_list", row), False)
            last = call("max", row) if compares else call("get", sorted_rows, 0)
            first.append(last.alias(f"{ARRAYS}{model}"))
        grouped = aggregate(rows, self.user_columns, *counts, *first)
        names = rows.schema[ARRAYS].dataType.names  # type: ignore[attr-defined] # a struct, by construction
        arrays = [
            field_of(f"{ARRAYS}{model}", name).alias(grouped_row.column_of_model(name, model))
            for model in models
            for name in names
        ]
        return select(grouped, *(named(name) for name in grouped.columns if not name.startswith(ARRAYS)), *arrays)
