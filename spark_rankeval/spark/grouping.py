"""One row a user: the caller's tables grouped into the columns that the worker reads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Literal

from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import Window

from spark_rankeval.spark.inputs import Source, any_null, common_id_type
from spark_rankeval.worker import reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from spark_rankeval.dialects import UnusualGrades

#: How a user's predictions are brought together. ``all``: every one. ``best_by_score``: the best of them by score, more
#: than the cutoff needs, so that nearly every tie at the boundary is whole; users where it is not are seen.
#: ``best_by_score_and_item``: the same exactly, by score and item. ``window``: the same by sorting, for Spark below 4.2.
#: ``first``: of arrays in order, their first items.
Gathering = Literal["all", "best_by_score", "best_by_score_and_item", "window", "first"]

_ROW = "n_rows"
_HUGE = 1e300


def user_column(index: int) -> str:
    """The name that a column of the user has on the way."""
    return f"user_{index}"


@dataclass(frozen=True)
class Grouping:
    """How tables become one row a user.

    Attributes:
        predictions: the predicted items.
        labels: the labelled items.
        users: users to count besides.
        exclude: items to leave out of the predictions.
        gathering: how a user's predictions are brought together.
        keep: with a gathering of the best: how many predictions a user keeps.
        merge_duplicates: keep the best of equal (user, item) already before predictions are left out.
        unusual_grades: which grades are no mistake; see `Dialect`.
        largest_grade: the largest grade that the metrics can take.
    """

    predictions: Source
    labels: Source
    users: Source | None = None
    exclude: Source | None = None
    gathering: Gathering = "all"
    keep: int = 0
    merge_duplicates: bool = False
    unusual_grades: UnusualGrades = "error"
    largest_grade: float = math.inf

    @property
    def user_columns(self) -> list[str]:
        """The names of the user's columns on the way."""
        return [user_column(index) for index in range(len(self.predictions.user))]

    def user_types(self) -> list[T.DataType]:
        """The types that the user's columns get: wide enough for all tables."""
        types = self.predictions.user_types()
        for other in (self.labels, self.users, self.exclude):
            if other is not None:
                # The inputs were checked: these types compare.
                types = [common_id_type(one, two) or one for one, two in zip(types, other.user_types(), strict=True)]
        return types

    def item_type(self) -> T.DataType:
        """The type that items of all sides get."""
        kind = self.predictions.item_type
        for other in (self.labels, self.exclude):
            if other is not None:
                kind = common_id_type(kind, other.item_type) or kind
        return kind

    def frame(self, *, with_users: bool) -> DataFrame:
        """The grouped table: whether a row belongs to nobody, what the worker reads, and on request the user's columns."""
        if self.labels.shares_table:
            # One table with both arrays: its rows are the users, nothing needs to move.
            return self.predictions.frame.select(
                *(self._named_users(self.predictions) if with_users else ()),
                *self._array_columns(self.predictions),
                *self._array_columns(self.labels),
                any_null(self.predictions.user_columns()).alias(reading.NO_USER),
            )
        # Two groupings and a join of the groups: tables bucketed by user need no shuffle at all.
        predictions = self._predictions()
        if self.exclude is not None:
            # Before the other join, which forgets that its left side is sorted by user.
            predictions = predictions.join(self._excluded(self.exclude), self.user_columns, "left")
        joined = predictions.join(self._labels(), self.user_columns, "full")
        no_user = any_null([F.col(name) for name in self.user_columns]).alias(reading.NO_USER)
        kept = joined.columns if with_users else [name for name in joined.columns if name not in self.user_columns]
        return joined.select(*kept, no_user)

    def _named_users(self, source: Source) -> list[Column]:
        named = zip(source.user_columns(), self.user_types(), self.user_columns, strict=True)
        return [column.cast(kind).alias(name) for column, kind, name in named]

    def _array_columns(self, source: Source) -> list[Column]:
        ids, values = _names(source)
        array, item_type = source.ids(), self.item_type()
        if source.item_type != item_type:
            array = array.cast(T.ArrayType(item_type))
        if source.role == "predictions" and self.gathering == "first":
            return [
                F.slice(array, 1, self.keep).alias(ids),
                F.array_size(array).alias(reading.VALID_PREDICTIONS),
            ]
        columns = [array.alias(ids)]
        doubles = T.ArrayType(T.DoubleType())
        return columns + [one.cast(doubles).alias(name) for one, name in zip(source.values(), values, strict=True)]

    def _rows(self, source: Source, valid: Column) -> DataFrame:
        """Rows under our names; a row that cannot be used keeps its user, so that it is counted, and loses the rest."""
        ids, values = _names(source)
        valid = reduce(and_, [column.isNotNull() for column in source.user_columns()], valid)
        columns = [F.when(valid, source.ids().cast(self.item_type())).alias(ids)]
        columns += [F.when(valid, one).alias(name) for one, name in zip(_as_numbers(source), values, strict=True)]
        return source.frame.select(*self._named_users(source), *columns)

    def _predictions(self) -> DataFrame:
        source = self.predictions
        if source.arrays:
            return self._grouped_arrays(source, reading.PREDICTION_ROWS)
        rows = self._rows(source, valid_prediction(source))
        users, n_rows = self.user_columns, F.count(F.lit(1)).alias(reading.PREDICTION_ROWS)
        if self.gathering == "all":
            return rows.groupBy(users).agg(
                n_rows,
                F.collect_list(reading.ITEMS).alias(reading.ITEMS),
                F.collect_list(reading.SCORES).alias(reading.SCORES),
            )
        counts = [n_rows, F.count(reading.ITEMS).alias(reading.VALID_PREDICTIONS)]
        if self.merge_duplicates:
            rows = (
                rows.repartition(*users)
                .groupBy(*users, reading.ITEMS)
                .agg(F.count(F.lit(1)).alias(_ROW), F.max(reading.SCORES).alias(reading.SCORES))
            )
            merged = F.when(F.col(reading.ITEMS).isNotNull(), F.col(_ROW) - 1).otherwise(0)
            counts = [
                F.sum(_ROW).alias(reading.PREDICTION_ROWS),
                F.count(reading.ITEMS).alias(reading.VALID_PREDICTIONS),
                F.sum(merged).alias(reading.MERGED_PREDICTIONS),
            ]
        if self.gathering == "window":
            return self._best_by_window(rows, counts)
        keep = F.lit(self.keep)
        if self.gathering == "best_by_score":
            # Both heaps see the same scores in the same order, so that items and scores stay aligned, ties included
            # (a test says so); one heap of structs costs a sixth more.
            order = F.col(reading.SCORES)
            best = [
                F.call_function("max_by", F.col(name), order, keep).alias(name)
                for name in (reading.ITEMS, reading.SCORES)
            ]
            return rows.groupBy(users).agg(*counts, *best)
        pair = F.struct(F.col(reading.ITEMS), F.col(reading.SCORES))
        order = F.struct((-F.col(reading.SCORES)).alias("score"), F.col(reading.ITEMS).alias("item"))
        order = F.when(F.col(reading.ITEMS).isNotNull(), order)
        grouped = rows.groupBy(users).agg(*counts, F.call_function("min_by", pair, order, keep).alias("best"))
        lists = [F.col("best").getField(name).alias(name) for name in (reading.ITEMS, reading.SCORES)]
        return grouped.select(*(name for name in grouped.columns if name != "best"), *lists)

    def _best_by_window(self, rows: DataFrame, counts: Sequence[Column]) -> DataFrame:
        """The best by score and item through a sort, which spills: a user's predictions need not fit into memory."""
        users = self.user_columns
        order = Window.partitionBy(*users).orderBy(F.col(reading.SCORES).desc_nulls_last(), F.col(reading.ITEMS))
        ranked = rows.withColumn("place", F.row_number().over(order))
        kept = F.col("place") <= self.keep
        lists = [F.collect_list(F.when(kept, F.col(name))).alias(name) for name in (reading.ITEMS, reading.SCORES)]
        return ranked.groupBy(users).agg(*counts, *lists)

    def _labels(self) -> DataFrame:
        source = self.labels
        if source.arrays:
            labels = self._grouped_arrays(source, reading.LABEL_ROWS)
            return labels if self.users is None else labels.join(self._everyone(), self.user_columns, "full")
        rows = self._rows(source, valid_label(source, self.unusual_grades, self.largest_grade))
        n_rows = F.count(F.lit(1))
        if self.users is not None:
            # Users to count besides are rows without a label: a third table in a join would cost a shuffle more.
            rows = rows.withColumn(_ROW, F.lit(1)).unionByName(
                self.users.frame.select(*self._named_users(self.users)).withColumn(
                    # A row that names nobody is no user to count; it is reported as a row that cannot be used.
                    _ROW,
                    F.when(any_null([F.col(name) for name in self.user_columns]), 1).otherwise(0),
                ),
                allowMissingColumns=True,
            )
            n_rows = F.sum(_ROW)
        ids, values = _names(source)
        lists = [F.collect_list(name).alias(name) for name in (ids, *values)]
        return rows.groupBy(self.user_columns).agg(n_rows.alias(reading.LABEL_ROWS), *lists)

    def _excluded(self, source: Source) -> DataFrame:
        """The items that each user's predictions leave out; a null matches nothing."""
        items = source.ids().cast(self.item_type()).alias(reading.EXCLUDED)
        rows = source.frame.select(*self._named_users(source), items)
        return rows.groupBy(self.user_columns).agg(F.collect_list(reading.EXCLUDED).alias(reading.EXCLUDED))

    def _everyone(self) -> DataFrame:
        users = self.users
        assert users is not None
        return users.frame.select(*self._named_users(users)).distinct()

    def _grouped_arrays(self, source: Source, n_rows: str) -> DataFrame:
        """One row a user of a table of arrays: a user's first row, and how many rows there are."""
        frame = source.frame.select(*self._named_users(source), *self._array_columns(source))
        arrays = frame.columns[len(self.user_columns) :]
        # One struct, so that the arrays of one row stay together.
        first = F.first(F.struct(*arrays)).alias("row")
        grouped = frame.groupBy(self.user_columns).agg(F.count(F.lit(1)).alias(n_rows), first)
        return grouped.select(*self.user_columns, n_rows, *(F.col("row").getField(name).alias(name) for name in arrays))


def _names(source: Source) -> tuple[str, list[str]]:
    """Our names of the column of ids and of those of the values."""
    if source.role == "predictions":
        return reading.ITEMS, [reading.SCORES] * len(source.given_values)
    return reading.LABELS, [reading.grades_column(index) for index in range(len(source.given_values))]


def _as_numbers(source: Source) -> list[Column]:
    """Scores and grades as numbers that compare as float64; float32 stays, which is narrower and loses nothing."""
    if source.value_kind == "rank":
        return [-one.cast("double") for one in source.values()]
    return [
        one if isinstance(given.kind, T.FloatType) else one.cast("double")
        for one, given in zip(source.values(), source.given_values, strict=True)
    ]


def invalid_reasons(
    source: Source, ids: Column, values: Sequence[Column], unusual_grades: UnusualGrades, largest_grade: float
) -> dict[str, Column]:
    """Why a row, or an entry of an array, cannot be used: conditions by what they mean."""
    reasons = {f"null {source.role.rstrip('s')} item": ids.isNull()}
    if isinstance(source.item_type, T.FloatType | T.DoubleType):
        reasons["NaN item"] = F.isnan(ids)
    for given, value in zip(source.given_values, values, strict=True):
        several = len(source.given_values) > 1
        kind = f"{source.value_kind} {given.name!r}" if several else str(source.value_kind)
        number = value.cast("double")
        reasons[f"null {kind}"] = value.isNull()
        if source.value_kind == "relevance" and unusual_grades == "keep":
            continue
        reasons[f"NaN {kind}"] = F.isnan(number)
        if source.value_kind == "rank" or (source.value_kind == "relevance" and unusual_grades == "error"):
            reasons[f"negative {kind}"] = number < 0
        if source.value_kind == "rank":
            reasons["infinite rank"] = number == F.lit(math.inf)
            reasons["fractional rank"] = number != F.rint(number)
        if source.value_kind == "relevance":
            above = f"{kind} above {largest_grade:,.6g}, the largest grade of a metric (set max_grade or gain='linear')"
            reasons[above if largest_grade < _HUGE else f"infinite {kind}"] = number > F.lit(largest_grade)
    return reasons


def _valid(source: Source, unusual_grades: UnusualGrades, largest_grade: float) -> Column:
    reasons = invalid_reasons(source, source.ids(), source.values(), unusual_grades, largest_grade)
    return reduce(and_, [~F.coalesce(reason, F.lit(False)) for reason in reasons.values()])


def valid_prediction(source: Source) -> Column:
    """Whether a row of predictions can be ranked."""
    return _valid(source, unusual_grades="error", largest_grade=math.inf)


def valid_label(source: Source, unusual_grades: UnusualGrades, largest_grade: float) -> Column:
    """Whether a row of labels can be used."""
    return _valid(source, unusual_grades, largest_grade)
