"""How a user's predictions become a list: whether those below the largest cutoff are left out early, why or why not, and the aggregates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from pyspark.errors import PySparkException

from spark_rankeval.request.task import ScoringTask
from spark_rankeval.spark import sql
from spark_rankeval.spark.engine import Engine, bytes_of_plain_scan, collected_columns
from spark_rankeval.spark.source_tables import SourceTable
from spark_rankeval.worker import reading as grouped_row
from spark_rankeval.worker.reading import INFINITE_SCORE, KIND_BITS, MARKS, MODEL_BITS, RANKED, REJECTED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Columns of rows: the index of the model, and whether the row was left out for its infinite score.
MODEL, INFINITE = "model_", "infinite_"
_BEST, _PAIR, _ORDER = "best_", "pair_", "order_"


@dataclass(frozen=True)
class PredictionLists:
    """How rows of predictions become lists."""

    users: list[str]  # the user's columns
    models: Sequence[int]  # by index, the first one first; if there are several, rows have the index of their model
    keep: int  # how many predictions a user keeps, the best by score and item; 0: all
    columns: tuple[str, ...]  # what there is a list of: items, scores, facts of items
    counts_infinite: bool  # whether rows of infinite score are counted by themselves

    def grouped(
        self,
        rows: DataFrame,
        hashed: sql.Sql | None,
        n_rows: sql.Sql | None,
        merged: sql.Sql | None,
    ) -> DataFrame:
        """One row per user.

        Args:
            rows: of all models.
            hashed: the hash of a row; None: workers hash the lists.
            n_rows: how many rows of a table a row stands for; None: one.
            merged: how many of these were merged with another.
        """
        several = len(self.models) > 1
        if several and not self.keep:
            # Spark computes a column of its own much faster than what is inside an aggregate.
            return sql.aggregate_lists(
                sql.with_columns(rows, {MARKS: self._mark(hashed)}), self.users, *self._together()
            )
        models = self.models
        if self.keep:
            rows = sql.with_columns(
                rows, {name: values for model in models for name, values in self._made_of(model).items()}
            )
        columns = [column for model in models for column in self._model_columns(model, hashed, n_rows, merged)]
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
        marks = sql.call("collect_list", sql.named(MARKS))
        lists = {name: sql.call("collect_list", sql.named(name)) for name in self.columns}
        if self.counts_infinite:
            lists[grouped_row.INFINITE_PREDICTIONS] = sql.call("sum", sql.named(INFINITE))
        lists[grouped_row.PREDICTION_ROWS] = sql.call("size", marks)
        first = self.models[0]
        return [
            marks.alias(MARKS),
            *(each.alias(grouped_row.column_of_model(name, first)) for name, each in lists.items()),
        ]

    def _mark(self, hashed: sql.Sql | None) -> sql.Sql:
        """The mark of a row. One of 32 bits says to the workers that no hash is in it."""
        rejected: sql.Sql | int = (
            sql.when(sql.named(INFINITE) == 1, INFINITE_SCORE, REJECTED) if self.counts_infinite else REJECTED
        )
        kind = sql.when(sql.named(grouped_row.ITEMS).is_not_null(), RANKED, rejected)
        mark = sql.bits_or(sql.call("shiftleft", kind, MODEL_BITS), sql.named(MODEL).cast("int"))
        if hashed is None:
            return mark
        # With hashes in the marks, ten models take a quarter more time to group.
        return sql.bits_or(sql.call("shiftleft", hashed.cast("bigint"), MODEL_BITS + KIND_BITS), mark.cast("bigint"))

    def _model_columns(
        self, model: int, hashed: sql.Sql | None, n_rows: sql.Sql | None, merged: sql.Sql | None
    ) -> list[sql.Sql]:
        """How many rows a user has of a model, the sum of their hashes, and the predictions.

        `n_rows` and `merged` are None if no row stands for several.
        """

        def under(values: sql.Sql, name: str) -> sql.Sql:
            return values.alias(grouped_row.column_of_model(name, model))

        def summed(values: sql.Sql, name: str) -> sql.Sql:
            return under(sql.call("coalesce", sql.call("sum", self._values_of(model, values)), 0), name)

        if n_rows is None:
            # To count costs less than to add up.
            counts = [under(sql.call("count", self._values_of(model, sql.number(1))), grouped_row.PREDICTION_ROWS)]
        else:
            counts = [summed(n_rows, grouped_row.PREDICTION_ROWS)]
        if hashed is not None:
            total = sql.call("sum", self._values_of(model, hashed))
            counts.append(total.alias(grouped_row.hash_column(grouped_row.column_of_model("predictions", model))))
        if self.counts_infinite:
            counts.append(summed(sql.named(INFINITE), grouped_row.INFINITE_PREDICTIONS))
        if self.keep:
            items = self._values_of(model, sql.named(grouped_row.ITEMS))
            counts.append(under(sql.call("count", items), grouped_row.VALID_PREDICTIONS))
            if merged is not None:
                counts.append(summed(merged, grouped_row.MERGED_PREDICTIONS))
            best = sql.call("min_by", sql.named(f"{_PAIR}{model}"), sql.named(f"{_ORDER}{model}"), self.keep)
            return [*counts, best.alias(f"{_BEST}{model}")]
        lists = {name: sql.call("collect_list", sql.named(name)) for name in self.columns}
        return [*counts, *(under(values, name) for name, values in lists.items())]

    def _made_of(self, model: int) -> dict[str, sql.Sql]:
        """What the best of a model are made of, as columns: inside an aggregate Spark computes it slowly."""
        values = {name: self._values_of(model, sql.named(name)) for name in self.columns}
        items, scores = values[grouped_row.ITEMS], values[grouped_row.SCORES]
        order = sql.call("struct", (-scores).alias("score"), items.alias("item"))
        pair = sql.call("struct", *(each.alias(name) for name, each in values.items()))
        return {f"{_PAIR}{model}": pair, f"{_ORDER}{model}": sql.when(items.is_not_null(), order)}

    def _values_of(self, model: int, values: sql.Sql) -> sql.Sql:
        return values_of_model(model, values, len(self.models))


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

    keep: int  # how many predictions a user keeps at the most, the best by score and item; 0: all
    words: tuple[str, ...]  # this for a person, a sentence each
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
    predictions: SourceTable,
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
        return Plan(0, (all_items,))
    if predictions.arrays:
        return _plan_for_arrays(task, predictions, excludes)
    cutoff = task.largest_cutoff
    if has_long_lists and cutoff is not None and _can_leave_out(task, engine, excludes):
        return _best(cutoff + _SLACK, merges=task.merges_duplicates)
    return Plan(0, ("All predictions of a user are grouped.",))


def _best(keep: int, *, merges: bool) -> Plan:
    words = [
        f"A user keeps the best {keep:,} predictions by score and item while rows are grouped (min_by): lists may be too long for "
        "memory, and no metric looks further."
    ]
    if merges:
        words.append("Duplicates are merged first, by user and item within the same shuffle.")
    return Plan(keep, tuple(words))


def _plan_for_arrays(task: ScoringTask, predictions: SourceTable, excludes: bool) -> Plan:
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


def _can_leave_out(task: ScoringTask, engine: Engine, excludes: bool) -> bool:
    """Whether predictions below the largest cutoff can be left out: no metric looks there, and nothing moves up from there."""
    reads = [metric.reads for metric in task.metrics]
    rankings = [view.ranking for view in task.views]
    return (
        engine.keeps_best
        and not excludes
        and task.largest_cutoff is not None
        and task.largest_cutoff + _SLACK <= _MOST_KEPT
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


def may_be_long(models: Sequence[SourceTable], model_column: str | None = None) -> bool:
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
