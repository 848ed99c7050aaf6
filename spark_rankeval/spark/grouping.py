"""One row per user: the caller's tables under our names, grouped into the columns that the worker reads, and what is left out early."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from itertools import filterfalse
from operator import add
from typing import TYPE_CHECKING

import numpy as np
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.request.task import ScoringTask
from spark_rankeval.spark import facts, source_tables, sql
from spark_rankeval.spark.engine import (
    Engine,
    broadcast_row,
    bytes_of_plain_scan,
    collected_columns,
    engine_of,
    without_file_metadata,
)
from spark_rankeval.spark.tables import Sources
from spark_rankeval.worker import reading as grouped_row
from spark_rankeval.worker.catalogue_lists import FirstItems, first_items

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


#: Columns of rows: the index of the model, and whether the row was left out for its infinite score.
MODEL, INFINITE = "model_", "infinite_"
# How many rows a row stands for. Whether a user is known from more than attributes; whether a row is of the table of further users.
_ROW, _EVALUATED, _USER_ROW = "row_", "known_", "in_users_"
_BEST, _PAIR, _ORDER = "best_", "pair_", "order_"


@dataclass(frozen=True)
class PredictionLists:
    """How rows of predictions become lists."""

    users: list[str]  # the user's columns
    models: Sequence[int]  # by index, the first one first; if there are several, rows have the index of their model
    keep: int  # how many predictions a user keeps, the best by score and item; 0: all
    columns: tuple[str, ...]  # what there is a list of: items, scores, facts of items
    counts_infinite: bool  # whether rows of infinite score are counted by themselves
    hashed: sql.Sql | None  # the hash of a row; None: workers hash the lists
    are_merged: bool  # whether a row stands for all rows of the table with its user and item

    def grouped(self, rows: DataFrame) -> DataFrame:
        """One row per user, from the rows of all models."""
        several = len(self.models) > 1
        if several and not self.keep:
            # Spark computes a column of its own much faster than what is inside an aggregate.
            return sql.aggregate_lists(
                sql.with_columns(rows, {grouped_row.MARKS: self._mark()}), self.users, *self._together()
            )
        models = self.models
        if self.keep:
            rows = sql.with_columns(
                rows, {name: values for model in models for name, values in self._made_of(model).items()}
            )
        columns = [column for model in models for column in self._model_columns(model)]
        grouped = sql.aggregate_lists(rows, self.users, *columns)
        if not self.keep:
            return grouped
        names = [sql.named(name) for name in grouped.columns if not name.startswith(_BEST)]
        lists = [
            sql.field_of(f"{_BEST}{model}", name).alias(grouped_row.column_of_model(name, model))
            for model in models
            for name in self.columns
        ]
        return sql.select(grouped, *names, *lists)

    def _together(self) -> list[sql.Sql]:
        """The predictions of all models in the same lists, with marks that say whose each is: workers part them.

        Spark would look at each row once for each list of each model, which takes twice the time with ten models.
        """
        marks = sql.call("collect_list", sql.named(grouped_row.MARKS))
        lists = {name: sql.call("collect_list", sql.named(name)) for name in self.columns}
        if self.counts_infinite:
            lists[grouped_row.INFINITE_PREDICTIONS] = sql.call("sum", sql.named(INFINITE))
        lists[grouped_row.PREDICTION_ROWS] = sql.call("size", marks)
        first = self.models[0]
        return [
            marks.alias(grouped_row.MARKS),
            *(each.alias(grouped_row.column_of_model(name, first)) for name, each in lists.items()),
        ]

    def _mark(self) -> sql.Sql:
        """The mark of a row. One of 32 bits says to the workers that no hash is in it."""
        rejected: sql.Sql | int = (
            sql.when(sql.named(INFINITE) == 1, grouped_row.INFINITE_SCORE, grouped_row.REJECTED)
            if self.counts_infinite
            else grouped_row.REJECTED
        )
        kind = sql.when(sql.named(grouped_row.ITEMS).is_not_null(), grouped_row.RANKED, rejected)
        mark = sql.bits_or(sql.call("shiftleft", kind, grouped_row.MODEL_BITS), sql.named(MODEL).cast("int"))
        if self.hashed is None:
            return mark
        # With hashes in the marks, ten models take a quarter more time to group.
        return sql.bits_or(
            sql.call("shiftleft", self.hashed.cast("bigint"), grouped_row.MODEL_BITS + grouped_row.KIND_BITS),
            mark.cast("bigint"),
        )

    def _model_columns(self, model: int) -> list[sql.Sql]:
        """How many rows a user has of a model, the sum of their hashes, and the predictions."""
        of_model = partial(values_of_model, model, n_models=len(self.models))
        items = sql.named(grouped_row.ITEMS)

        def under(values: sql.Sql, name: str) -> sql.Sql:
            return values.alias(grouped_row.column_of_model(name, model))

        def summed(values: sql.Sql, name: str) -> sql.Sql:
            return under(sql.call("coalesce", sql.call("sum", of_model(values)), 0), name)

        if self.are_merged:
            counts = [summed(sql.named(_ROW), grouped_row.PREDICTION_ROWS)]
        else:
            # To count costs less than to add up.
            counts = [under(sql.call("count", of_model(sql.number(1))), grouped_row.PREDICTION_ROWS)]
        if self.hashed is not None:
            total = sql.call("sum", of_model(self.hashed))
            counts.append(total.alias(grouped_row.hash_column(grouped_row.column_of_model("predictions", model))))
        if self.counts_infinite:
            counts.append(summed(sql.named(INFINITE), grouped_row.INFINITE_PREDICTIONS))
        if self.keep:
            counts.append(under(sql.call("count", of_model(items)), grouped_row.VALID_PREDICTIONS))
            if self.are_merged:
                merged = sql.when(items.is_not_null(), sql.named(_ROW) - 1, 0)
                counts.append(summed(merged, grouped_row.MERGED_PREDICTIONS))
            best = sql.call("min_by", sql.named(f"{_PAIR}{model}"), sql.named(f"{_ORDER}{model}"), self.keep)
            return [*counts, best.alias(f"{_BEST}{model}")]
        lists = {name: sql.call("collect_list", sql.named(name)) for name in self.columns}
        return [*counts, *(under(values, name) for name, values in lists.items())]

    def _made_of(self, model: int) -> dict[str, sql.Sql]:
        """What the best of a model are made of, as columns: inside an aggregate Spark computes it slowly."""
        values = {name: values_of_model(model, sql.named(name), len(self.models)) for name in self.columns}
        items, scores = values[grouped_row.ITEMS], values[grouped_row.SCORES]
        order = sql.call("struct", (-scores).alias("score"), items.alias("item"))
        pair = sql.call("struct", *(each.alias(name) for name, each in values.items()))
        return {f"{_PAIR}{model}": pair, f"{_ORDER}{model}": sql.when(items.is_not_null(), order)}


def values_of_model(model: int, values: sql.Sql, n_models: int) -> sql.Sql:
    """The values of rows of a model; null if a row is of another of several models."""
    return sql.when(sql.named(MODEL) == model, values) if n_models > 1 else values


# More predictions than the cutoff are kept: the count of values that hang on ties sees equal scores across the cutoff.
_SLACK = 8
# Spark's min_by keeps no more.
_MOST_KEPT = 100_000


@dataclass(frozen=True)
class Plan:
    """How a user's predictions are brought together."""

    keep: int = 0  # how many predictions a user keeps at the most, the best by score and item; 0: all
    words: tuple[str, ...] = ()  # this for a person, a sentence each
    first: int = 0  # how many items of arrays in order are read; 0: all


def together(plans: Mapping[str, Plan]) -> Plan:
    """The plans of models of several forms as one; the names of the models are the keys."""
    first, *others = plans.values()
    if not others:
        return first
    row_plan = next((plan for plan in plans.values() if plan.keep), first)
    words = [f"{names}: {words}" for names, plan in plans.items() for words in plan.words]
    return replace(row_plan, words=tuple(words), first=max(plan.first for plan in plans.values()))


def choose_plan(
    task: ScoringTask,
    predictions: source_tables.SourceTable,
    engine: Engine,
    excludes: bool,
    has_long_lists: bool,
) -> Plan:
    """Choose how predictions are brought together: whole lists, unless one may not fit into memory and metrics have cutoffs.

    Args:
        task: what is asked for.
        predictions: the table.
        engine: what runs the plan.
        excludes: whether items will be left out of the predictions, so that others move up.
        has_long_lists: whether a user's list may not fit into memory.
    """
    if predictions.vectors is not None:
        all_items = "Every item of the catalogue is ranked for each user, by scores from vectors; no table of predictions is made."
        n_shards = predictions.vectors.shards
        shards = f"The items travel in {n_shards} shards, and a worker holds one at a time."
        return Plan(0, (all_items,) if n_shards is None else (all_items, shards))
    if predictions.arrays:
        return _plan_for_arrays(task, predictions, excludes)
    cutoff = task.largest_cutoff
    if not has_long_lists or cutoff is None or not _can_leave_out(task, cutoff, engine, excludes):
        return Plan(0, ("All predictions of a user are grouped.",))
    keep = cutoff + _SLACK
    words = [
        f"A user keeps the best {keep:,} predictions by score and item while rows are grouped (min_by): lists may be too long for "
        "memory, and no metric looks further."
    ]
    if task.merges_duplicates:
        words.append("Duplicates are merged first, by user and item within the same shuffle.")
    return Plan(keep, tuple(words))


def _plan_for_arrays(task: ScoringTask, predictions: source_tables.SourceTable, excludes: bool) -> Plan:
    cutoff = task.largest_cutoff
    words = ["Predictions come as arrays, a user's whole list in a row: nothing is brought together."]
    # What takes the place of an item that is left out must be there.
    moves_up = excludes or any(
        view.ranking.duplicates in ("keep_best", "distinct")
        or view.ranking.unpredicted_labels == "last"
        or view.ranking.judged_only
        for view in task.views
    )
    if predictions.value_columns or moves_up or cutoff is None:
        return Plan(0, tuple(words))
    words.append(
        f"Only the first {cutoff} items of a user's array are read: that is the largest cutoff; duplicates and nulls further "
        "down are not counted."
    )
    return Plan(0, tuple(words), first=cutoff)


def _can_leave_out(task: ScoringTask, cutoff: int, engine: Engine, excludes: bool) -> bool:
    """Whether predictions below the largest cutoff can be left out: no metric looks there, and nothing moves up from there."""
    reads = [metric.reads for metric in task.metrics]
    rankings = [view.ranking for view in task.views]
    return (
        engine.keeps_best
        and not excludes
        and cutoff + _SLACK <= _MOST_KEPT
        # A metric of the items themselves reads only the scores of its first places. Others average over equal scores.
        and not any(each.depth is None or (each.scores and not each.unlabelled) for each in reads)
        and not any(
            ranking.ties != "item_asc"
            or ranking.judged_only
            or ranking.score_precision == "float32"
            or ranking.unpredicted_labels == "last"
            or ranking.duplicates in ("each", "distinct")
            # Of equal items the best one has the cost.
            or (ranking.duplicates == "keep_best" and ranking.budget is not None)
            for ranking in rankings
        )
    )


# One row of so many is drawn: a power of two.
_SHARE = 1 << 12
# Spark holds a list in memory while it grows, with some 100 bytes a prediction.
_LONGEST = 200_000
# Files of so many bytes hold no list that is too long for memory.
_SMALL = 1 << 20
_LIST, _IS_DRAWN = "list_", "is_drawn_"


def may_be_long(models: Sequence[source_tables.SourceTable], model_column: str | None = None) -> bool:
    """Whether a user's list may have too many predictions for memory, from one job that draws rows of the tables.

    A table is cheap to read if its plan scans files or a cached table, and does nothing else. Any other would be computed twice, so it
    may have long lists.
    """
    tables = {id(source.frame): (source.frame, source.user) for source in models}
    sizes = [bytes_of_plain_scan(frame) for frame, _ in tables.values()]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return True
    if sum(known) <= _SMALL:
        return False
    rows = [
        _drawn(frame, [*user, *([] if model_column is None else [model_column])], index)
        for index, (frame, user) in enumerate(tables.values())
    ]
    try:
        # The driver counts: to group so few rows in Spark would take two stages more.
        lists = collected_columns(sql.rows_of_all(rows))[_LIST]
    except PySparkException:
        # What cannot be read, which the evaluation says better; or too many rows for the driver.
        return True
    return int(np.unique(lists, return_counts=True)[1].max(initial=0)) * _SHARE > _LONGEST


def _drawn(frame: DataFrame, keys: Sequence[str], index: int) -> DataFrame:
    """The hash of the list that each drawn row of a table is of."""
    # By a hash, as files may have users in a regular order.
    is_drawn = sql.bits_and(sql.call("xxhash64", sql.call("monotonically_increasing_id")), _SHARE - 1) == 0
    hashed = sql.call("xxhash64", sql.hash_in(frame, keys), sql.number(index)).alias(_LIST)
    return sql.select(
        sql.where(sql.select(frame, hashed, is_drawn.alias(_IS_DRAWN)), sql.named(_IS_DRAWN)), sql.named(_LIST)
    )


#: The column of the arrays of a row.
ARRAYS = "arrays_"


def names_of(source: source_tables.SourceTable) -> tuple[str, list[str]]:
    """Our names for the items of a table, and for its scores, or for its grades and what stands beside them."""
    if source.role == "predictions":
        return grouped_row.ITEMS, [
            grouped_row.COSTS if value.extra else grouped_row.SCORES for value in source.value_columns
        ]
    grades = [grouped_row.grades_column(index) for index in range(len(source.grades))]
    return grouped_row.LABELS, [*grades, *map(grouped_row.label_column, source.extra_columns)]


def _marks_of_rows(marked: Iterable[source_tables.MarkedUsers]) -> list[sql.Sql]:
    """For each of these users a column of rows that is 1 where a row marks its user, else null."""
    return [sql.when(each.is_marked, 1).alias(each.column) for each in marked]


def agreed(names: Sequence[str], conflicts: str) -> list[sql.Sql]:
    """Aggregates of a user's rows: each attribute, null if the rows do not agree, and in how many they do not."""
    if not names:
        return []
    least, greatest = ({name: sql.call(end, sql.named(name)) for name in names} for end in ("min", "max"))
    agree = {name: least[name] == greatest[name] for name in names}
    n_conflicts = reduce(add, [sql.when(~agrees, 1, 0) for agrees in agree.values()])
    attributes = [sql.when(agrees, least[name]).alias(name) for name, agrees in agree.items()]
    return [*attributes, n_conflicts.cast("bigint").alias(conflicts)]


def _weight(value: sql.Sql) -> sql.Sql:
    """A weight; -1 for NaN and infinity, which are as wrong, and which Sail's min and max of a group do not give."""
    return sql.when(~(sql.call("abs", value) < math.inf), -1.0, value)


def _number_of_user(name: str, column: str) -> sql.Sql:
    """An attribute that is a number. People graded a user if any row says so, so that no row says that they did not."""
    return sql.when(sql.named(column), 1.0) if name == grouped_row.GRADED else _weight(sql.named(column).cast("double"))


def hashed_tables(sources: Sources, n_models: int) -> tuple[str, ...]:
    """The tables of models whose rows are hashed; the predictions of a model have the name that `column_of_model` gives."""
    names = [grouped_row.column_of_model("predictions", model) for model in range(n_models)]
    return (*names, "labels", *(name for name in ("users", "exclude") if getattr(sources, name) is not None))


def with_hashes_of_vectors(users: DataFrame, sources: Sources) -> DataFrame:
    """Every row with the hashes of the vectors of models, which take the place of predictions: one row, broadcast."""
    hashes = [
        sql.select(frame, hashed.alias(grouped_row.column_of_model("predictions", index)))
        for index, vectors in sources.vectors.items()
        for frame, hashed in _rows_of_vectors(sources.models[index].source, vectors)
    ]
    if not hashes:
        return users
    rows = reduce(sql.union, hashes)
    totals = [
        sql.call("coalesce", source_tables.total_of_hashes(sql.named(name)), 0).alias(grouped_row.hash_column(name))
        for name in rows.columns
    ]
    return broadcast_row(users, sql.aggregate(rows, (), *totals))


def _rows_of_vectors(
    users: source_tables.SourceTable, vectors: source_tables.VectorColumns
) -> Iterator[tuple[DataFrame, sql.Sql]]:
    """The tables of a model's vectors with the hash of a row. The hash depends on the table and on how scores are made."""
    tables: dict[str, tuple[source_tables.SourceTable, tuple[str, ...], tuple[str | None, ...]]] = {
        "users": (users, users.user, (vectors.vector, vectors.user_bias)),
        "items": (vectors.items, (vectors.items.item,), (vectors.item_vector, vectors.item_bias)),
    }
    if (candidates := vectors.candidates) is not None:
        tables["candidates"] = (candidates, (*candidates.user, candidates.item), ())
    filters = {"users": [each.user for each in vectors.filters], "items": [each.item for each in vectors.filters]}
    for role, (source, ids, numbers) in tables.items():
        columns = source_tables.columns_of(source.frame, ids)
        columns += source_tables.columns_of(source.frame, [name for name in numbers if name], are_ids=False)
        columns += [part for values in filters.get(role, ()) for part in (values, sql.call("array_size", values))]
        yield source.frame, source_tables.hash_of([sql.text(f"{role} {vectors.similarity}"), *columns])


@dataclass(frozen=True)
class Grouping:
    """How tables become one row per user."""

    sources: Sources
    task: ScoringTask
    has_long_lists: bool = False  # whether a user's list may not fit into memory, as far as is known

    @cached_property
    def plan(self) -> Plan:
        """How predictions are brought together."""
        plans = {}
        for models in self.sources.forms:
            source = self.sources.models[models[0]].source
            plans[", ".join(self.sources.models[model].name for model in models)] = choose_plan(
                replace(self.task, views=tuple(view for view in self.task.views if view.model in models)),
                source,
                engine_of(source.frame.sparkSession),
                excludes=self.sources.exclude is not None,
                has_long_lists=self.has_long_lists,
            )
        return together(plans)

    def frame(self, *, with_users: bool = False, with_user_hash: bool = False) -> DataFrame:
        """The grouped table: whether a row has no user, what the worker reads, and on request who the user is.

        Columns that tell clusters become a hash, unless only users are asked for.
        """
        first, labels = self.sources.predictions, self.sources.labels
        has_cluster_hash = with_user_hash or not with_users
        if labels.shares_table:
            users = self.sources.typed_users(first)
            # One table with both arrays: its rows are the users, nothing needs to move.
            grouped = sql.select(
                first.frame,
                *(self.sources.named_users(first) if with_users else ()),
                *self.array_columns(first),
                *self.array_columns(labels),
                sql.any_of(user.is_null() for user in first.users_sql()).alias(grouped_row.NO_USER),
                *([self._hash_of(users)] if with_user_hash else ()),
                *(self._cluster_hash(users, partial(sql.name_in_sql, first.frame)) if has_cluster_hash else ()),
                *self._attribute_values(first, sql.name_in_sql),
                *_marks_of_rows(self.sources.no_answer),
                *(
                    source_tables.row_hash(source).alias(grouped_row.hash_column(source.role))
                    for source in (first, labels)
                ),
            )
            return self._with_broadcasts(with_hashes_of_vectors(grouped, self.sources))
        # Two groupings and a join of the groups: tables bucketed by user need no shuffle at all.
        joined = self._lists().join(self._labels(), self.sources.user_columns, "full")
        joined = facts.with_shards(joined, self.sources, partial(first_items, self.task))
        users = [sql.named(name) for name in self.sources.user_columns]
        no_user = sql.any_of(user.is_null() for user in users).alias(grouped_row.NO_USER)
        hashed = [self._hash_of(users)] if with_user_hash else []
        left_behind = {_EVALUATED}
        if has_cluster_hash:
            hashed += self._cluster_hash(users, self._text_of_attribute)
        if not with_users:
            left_behind.update(map(grouped_row.cluster_column, range(len(self.sources.attributes_of_clusters))))
            left_behind.update(self.sources.user_columns)
        kept = [self._readable(name) for name in joined.columns if name not in left_behind]
        if self.sources.attributes is not None:
            # Users found only in the attributes table are not evaluated, but their slice still appears.
            counts = [
                grouped_row.column_of_model(grouped_row.PREDICTION_ROWS, models[0]) for models in self.sources.forms
            ]
            has_no_row = sql.all_of(sql.named(name).is_null() for name in counts)
            absent = has_no_row & (sql.call("coalesce", sql.named(_EVALUATED), 0) == 0)
            kept.append(absent.alias(grouped_row.ABSENT))
        grouped = sql.select(joined, *kept, no_user, *hashed)
        return self._with_broadcasts(with_hashes_of_vectors(grouped, self.sources))

    def lists(self, first: FirstItems) -> DataFrame:
        """The grouped table without labels: the user's columns, what the worker reads of first items, and whether a row has no user."""
        lists = facts.with_shards(self._lists(), self.sources, lambda _: first)
        no_user = sql.any_of(sql.named(name).is_null() for name in self.sources.user_columns).alias(grouped_row.NO_USER)
        return self._with_broadcasts(sql.select(lists, *map(sql.named, lists.columns), no_user))

    def _with_broadcasts(self, users: DataFrame) -> DataFrame:
        """Grouped users with what every row, or the first row of each partition, brings to the workers."""
        has_groups = any(feature.name == "groups" for feature in self.task.features)
        return self._facts.with_broadcasts(users, has_groups=has_groups)

    def _lists(self) -> DataFrame:
        """One row per user with the predictions of every model, each in columns of its own, and the user's other lists."""
        forms = [self._predictions_of(models) for models in self.sources.forms]
        predictions = reduce(lambda left, right: left.join(right, self.sources.user_columns, "full"), forms)
        if self.sources.exclude is not None:
            # Before the other join, which forgets that its left side is sorted by user.
            hashed = grouped_row.hash_column("exclude")
            excluded = self.sources.lists_of(self.sources.exclude, grouped_row.EXCLUDED, hashed)
            predictions = predictions.join(excluded, self.sources.user_columns, "left")
            # 0 says that nothing of the user is excluded; null, that no table was read.
            predictions = sql.with_columns(predictions, {hashed: sql.call("coalesce", sql.named(hashed), 0)})
        for lists in self._facts.lists():
            predictions = predictions.join(lists, self.sources.user_columns, "left")
        return predictions

    @cached_property
    def _facts(self) -> facts.FactsOfCall:
        return facts.FactsOfCall(self.sources, self.task.facts)

    @property
    def attributes(self) -> dict[str, str]:
        """The columns of the users' attributes by their names on the way: those of slices, the weight, those of clusters alone."""
        sources = self.sources
        columns = {grouped_row.slice_column(index): name for index, name in enumerate(sources.slices)}
        if sources.weight is not None:
            columns[grouped_row.USER_WEIGHT] = sources.weight
        columns |= sources.judged
        return columns | {
            grouped_row.cluster_column(index): name for index, name in enumerate(sources.attributes_of_clusters)
        }

    def _attribute_values(
        self, source: source_tables.SourceTable, as_text: Callable[[DataFrame, str], sql.Sql] = sql.text_in_sql
    ) -> list[sql.Sql]:
        """The attributes in a table under their names on the way: those that part users, as text, and the weight, as a number."""
        values = {
            name: _number_of_user(name, column)
            if name in grouped_row.NUMBERS_OF_USERS
            else as_text(source.frame, column)
            for name, column in self.attributes.items()
        }
        return [value.alias(name) for name, value in values.items()]

    def _readable(self, name: str) -> sql.Sql:
        """A column of grouped users; that of a text becomes readable, which costs less once a user than once a row."""
        if name not in self.attributes or name in grouped_row.NUMBERS_OF_USERS:
            return sql.named(name)
        return self._readable_text(name).alias(name)

    def _text_of_attribute(self, attribute: str) -> sql.Sql:
        """An attribute of text of grouped users, by the caller's name, in readable form."""
        columns = self.attributes.items()
        name = next(
            name for name, column in columns if column == attribute and name not in grouped_row.NUMBERS_OF_USERS
        )
        return self._readable_text(name)

    def _readable_text(self, name: str) -> sql.Sql:
        source = self.sources.attributes
        is_written_out = source is not None and sql.is_readable(source.frame, self.attributes[name])
        return sql.readable(sql.named(name), is_written_out=is_written_out)

    def _cluster_hash(self, users: list[sql.Sql], attribute: Callable[[str], sql.Sql]) -> list[sql.Sql]:
        """The hash of each user's cluster, null if one of its columns is; none if users are independent.

        `users` are the user's columns, and `attribute` gives any other as text.
        """
        if not self.sources.clusters:
            return []
        ids = dict(zip(self.sources.predictions.user, zip(users, self.sources.user_types, strict=True), strict=True))
        columns = (ids[name] if name in ids else (attribute(name), T.StringType()) for name in self.sources.clusters)
        return [sql.cluster_hash(columns).alias(grouped_row.CLUSTER_HASH)]

    def _hash_of(self, users: list[sql.Sql]) -> sql.Sql:
        return sql.user_hash(users, self.sources.user_types).alias(grouped_row.USER_HASH)

    def _predictions_of(self, models: Sequence[int]) -> DataFrame:
        """One row per user with the predictions of models, by index, whose predictions have the same form."""
        first = self.sources.models[models[0]].source
        if first.arrays:
            rows = self.rows_of_models(models, self.arrays_of)
            return self._grouped_arrays(rows, grouped_row.PREDICTION_ROWS, models)
        rows = self.rows_of_models(models, self.user_rows)
        users, keep, counts_infinite = self.sources.user_columns, self.plan.keep, self.counts_infinite(first)
        items, values = names_of(first)
        has_made_ids = self.sources.labels.has_made_ids
        item = None if has_made_ids else sql.named(items)
        row_hash = source_tables.short_hash(item, self.sources.item_type, *map(sql.named, values))
        # Workers compute the hash of such items in a fifth of the time.
        by_workers = not keep and not has_made_ids and isinstance(self.sources.item_type, T.IntegralType)
        hashed = None if by_workers else row_hash
        # The best of equal (user, item) stays already before predictions are left out.
        are_merged = keep > 0 and self.task.merges_duplicates
        if are_merged:
            keys = [*users, *([MODEL] if len(models) > 1 else []), items]
            infinite = [sql.call("sum", sql.named(INFINITE)).alias(INFINITE)] if counts_infinite else []
            best = [sql.call("max", sql.named(name)).alias(name) for name in values]
            total = sql.call("sum", row_hash).alias(source_tables.ROW_HASH)
            rows = sql.aggregate(
                rows.repartition(*users), keys, sql.call("count", 1).alias(_ROW), *best, *infinite, total
            )
            hashed = sql.named(source_tables.ROW_HASH)
        lists = PredictionLists(users, models, keep, (items, *values), counts_infinite, hashed, are_merged)
        return lists.grouped(rows)

    def _labels(self) -> DataFrame:
        """One row per user with the labels, and with their intents."""
        labels, intents = self._grouped_labels(), self.sources.intents
        if intents is None or not self.task.reads_intents:
            return labels
        return labels.join(facts.intents_of_labels(self.sources, self.task), self.sources.user_columns, "left")

    def _grouped_labels(self) -> DataFrame:
        source, others = self.sources.labels, self._users_without_labels()
        attributes = agreed(list(self.attributes), grouped_row.ATTRIBUTE_CONFLICTS)
        is_evaluated = sql.call("max", sql.named(_EVALUATED)).alias(_EVALUATED)
        if source.arrays:
            labels = self._grouped_arrays(self.arrays_of(source), grouped_row.LABEL_ROWS)
            if others is None:
                return labels
            grouped = sql.aggregate(
                others, self.sources.user_columns, is_evaluated, *attributes, *self._counts_of_users
            )
            joined = labels.join(grouped, self.sources.user_columns, "full")
            return sql.with_columns(
                joined,
                {_EVALUATED: sql.when(sql.named(grouped_row.LABEL_ROWS).is_not_null(), 1, sql.named(_EVALUATED))},
            )
        rows = self.user_rows(source)
        n_rows, more = sql.call("count", 1), self._marks_of_users if self._marked_by_labels else []
        if others is not None:
            # They are rows without a label: a third table in a join would cost a shuffle more.
            rows = sql.with_columns(rows, {_ROW: sql.number(1), _EVALUATED: sql.number(1)})
            rows = sql.union(without_file_metadata(rows), without_file_metadata(others))
            n_rows, more = sql.call("sum", sql.named(_ROW)), [is_evaluated, *attributes, *self._counts_of_users]
        total = source_tables.total_of_hashes(sql.named(source_tables.ROW_HASH))
        counts = [n_rows.alias(grouped_row.LABEL_ROWS), total.alias(grouped_row.hash_column("labels"))]
        ids, values = names_of(source)
        lists = [sql.call("collect_list", sql.named(name)).alias(name) for name in (ids, *values)]
        return sql.aggregate_lists(rows, self.sources.user_columns, *counts, *lists, *more)

    @property
    def _counts_of_users(self) -> list[sql.Sql]:
        """How many rows a user has in the table of further users and in those that mark users; null: none.

        These rows hold nothing else that is read.
        """
        hashed = sql.call("sum", sql.named(_USER_ROW)).alias(grouped_row.hash_column("users"))
        return [*([] if self.sources.users is None else [hashed]), *self._marks_of_users]

    @property
    def _marks_of_users(self) -> list[sql.Sql]:
        """How many rows mark a user; null: none."""
        columns = dict.fromkeys(marked.column for marked in self.sources.no_answer)
        return [sql.call("sum", sql.named(name)).alias(name) for name in columns]

    @property
    def _marked_by_labels(self) -> list[source_tables.MarkedUsers]:
        """The users whom rows of labels mark: these rows are grouped anyway."""
        return list(filter(self._has_rows_of_labels, self.sources.no_answer))

    def _has_rows_of_labels(self, marked: source_tables.MarkedUsers) -> bool:
        return marked.whole is self.sources.labels.frame and not self.sources.labels.arrays

    def _users_without_labels(self) -> DataFrame | None:
        """Users to count besides, and users whose attributes are known, as rows; rows without a user are of the former only."""
        users, attributes = self.sources.users, self.sources.attributes
        named_tables = [] if users is None else [(users, _USER_ROW)]
        others = filterfalse(self._has_rows_of_labels, self.sources.no_answer)
        named_tables += [(marked.source, marked.column) for marked in others]
        tables = []
        for source, mark in named_tables:
            # A row without a valid user is not counted; it is reported as an invalid row.
            has_no_user = sql.any_of(user.is_null() for user in source.users_sql())
            row, evaluated = sql.when(has_no_user, 1, 0).alias(_ROW), sql.number(1).alias(_EVALUATED)
            users_of_table = (*self.sources.named_users(source), row, evaluated, sql.number(1).alias(mark))
            tables.append(sql.select(source.frame, *users_of_table))
        if attributes is not None:
            row, evaluated = sql.number(0).alias(_ROW), sql.number(0).alias(_EVALUATED)
            rows_with_user = sql.where(attributes.frame, ~sql.any_of(user.is_null() for user in attributes.users_sql()))
            about = (*self.sources.named_users(attributes), row, evaluated, *self._attribute_values(attributes))
            tables.append(sql.select(rows_with_user, *about))
        return reduce(sql.union, tables) if tables else None

    def _grouped_arrays(self, rows: DataFrame, n_rows: str, models: Sequence[int] = (0,)) -> DataFrame:
        """One row per user of a table of arrays: one of the user's rows, how many there are, and their hash, of each model."""
        first, counts, n_models = [], [], len(models)
        compares = engine_of(rows.sparkSession).is_spark
        table = "predictions" if n_rows == grouped_row.PREDICTION_ROWS else "labels"
        for model in models:
            row, each = (values_of_model(model, values, n_models) for values in (sql.named(ARRAYS), sql.number(1)))
            counts.append(sql.call("count", each).alias(grouped_row.column_of_model(n_rows, model)))
            if source_tables.ROW_HASH in rows.columns:
                hashed = values_of_model(model, sql.named(source_tables.ROW_HASH), n_models)
                counts.append(
                    source_tables.total_of_hashes(hashed).alias(
                        grouped_row.hash_column(grouped_row.column_of_model(table, model))
                    )
                )
            # Of a user's rows the one whose arrays come last in order: any would do, but always the same.
            sorted_rows = sql.call("sort_array", sql.call("collect_list", row), False)
            last = sql.call("max", row) if compares else sql.call("get", sorted_rows, 0)
            first.append(last.alias(f"{ARRAYS}{model}"))
        grouped = sql.aggregate(rows, self.sources.user_columns, *counts, *first)
        names = rows.schema[ARRAYS].dataType.names  # type: ignore[attr-defined] # a struct, by construction
        arrays = [
            sql.field_of(f"{ARRAYS}{model}", name).alias(grouped_row.column_of_model(name, model))
            for model in models
            for name in names
        ]
        return sql.select(
            grouped, *(sql.named(name) for name in grouped.columns if not name.startswith(ARRAYS)), *arrays
        )

    def array_columns(self, source: source_tables.SourceTable) -> list[sql.Sql]:
        """The arrays of a table under our names; of a table of vectors the vectors."""
        if source.vectors is not None:
            return source.vectors.user_columns()
        ids, values = names_of(source)
        array, item_type = source.ids_sql(), self.sources.item_type
        if source.item_type != item_type:
            array = sql.usable(array, T.ArrayType(source.item_type)).cast(T.ArrayType(item_type))
        if source.role == "predictions" and self.plan.first and not source.value_columns:
            return [
                sql.call("slice", array, 1, self.plan.first).alias(ids),
                sql.call("array_size", array).alias(grouped_row.VALID_PREDICTIONS),
            ]
        numbers = zip(self._as_numbers(source), values, strict=True)
        return [array.alias(ids), *(entries.alias(name) for entries, name in numbers)]

    def user_rows(self, source: source_tables.SourceTable) -> DataFrame:
        """Rows under our names; a row that cannot be used keeps its user, so that it is counted, and loses the rest.

        Labels that mark their users say so in columns of their own.
        """
        are_labels = source.role == "labels"
        marks = _marks_of_rows(self._marked_by_labels) if are_labels else []
        about = [*self.sources.named_users(source), *self._model_of(source), *marks]
        valid = source_tables.says_something(source, self.task, None if are_labels else self.sources.model_column)
        # Predictions are hashed where they are added up: a column more of them would cost more than the hash.
        counted = [source_tables.row_hash(source).alias(source_tables.ROW_HASH)] if are_labels else []
        if self.counts_infinite(source):
            unusual = ~sql.none_holds(source_tables.unusual_reasons(source, source.values_sql(), self.task))
            counted = [sql.when(valid & unusual, 1, 0).alias(INFINITE)]
            valid = valid & ~unusual
        ids, names = names_of(source)
        item = sql.when(valid, source.ids_sql().cast(self.sources.item_type)).alias(ids)
        numbers = zip(self._as_numbers(source), names, strict=True)
        values = [sql.when(valid, number).alias(name) for number, name in numbers]
        return sql.select(source.frame, *about, item, *values, *counted)

    def _as_numbers(self, source: source_tables.SourceTable) -> list[sql.Sql]:
        """Scores and grades as numbers that compare as float64; float32 stays, which is narrower and loses nothing.

        The worker sees by it that thresholds of such grades are to be rounded as the grades are.
        """
        double = T.ArrayType(T.DoubleType()) if source.arrays else T.DoubleType()
        fills_rows = self.task.grades_may_be_missing and source.role == "labels" and not source.arrays

        def as_number(values: sql.Sql, value: source_tables.ValueColumn) -> sql.Sql:
            if source.value_kind == "rank" and not value.extra:
                return -values.cast(double)
            is_float32 = isinstance(value.kind, T.FloatType)
            numbers = values if is_float32 else values.cast(double)
            if fills_rows and not value.extra:
                # A null would be missing from the list of grades, which is as long as that of items.
                return sql.call("coalesce", numbers, sql.number(math.nan).cast(value.kind if is_float32 else double))
            return numbers

        return [as_number(*pair) for pair in zip(source.values_sql(), source.value_columns, strict=True)]

    def counts_infinite(self, source: source_tables.SourceTable) -> bool:
        """Whether rows of infinite score are left out and counted by themselves: only on request, for it takes a column."""
        return source.value_kind == "score" and not self.task.rank_infinite

    def rows_of_models(
        self, models: Sequence[int], rows: Callable[[source_tables.SourceTable], DataFrame]
    ) -> DataFrame:
        """The rows of models, by index, under our names, each with the index of its model if there are several."""
        sources = {model: self.sources.models[model].source for model in models}
        if self.sources.model_column is not None or len(models) == 1:
            return rows(sources[models[0]])
        return sql.rows_of_all(rows(source).withColumn(MODEL, F.lit(model)) for model, source in sources.items())

    def _model_of(self, source: source_tables.SourceTable) -> list[sql.Sql]:
        """The index of a row's model, if a column names it; a row that names none counts as one of the first model's."""
        if self.sources.model_column is None or source.role != "predictions" or len(self.sources.models) == 1:
            return []
        name = self.sources.model_column
        name_of_row, model_of_row = sql.text_in_sql(source.frame, name), sql.number(0)
        for index, model in enumerate(self.sources.models[1:], start=1):
            model_of_row = sql.when(name_of_row == sql.text_of(model.name), index, model_of_row)
        return [model_of_row.alias(MODEL)]

    def arrays_of(self, source: source_tables.SourceTable) -> DataFrame:
        """The arrays of a table in one struct, so that those of one row stay together."""
        arrays = sql.call("struct", *self.array_columns(source))
        if source.role == "predictions" and self.sources.model_column is not None:
            arrays = sql.when(sql.named(self.sources.model_column).is_not_null(), arrays)
        about = (*self.sources.named_users(source), *self._model_of(source))
        hashed = [source_tables.row_hash(source).alias(source_tables.ROW_HASH)] if source.vectors is None else []
        return sql.select(source.frame, *about, arrays.alias(ARRAYS), *hashed)
