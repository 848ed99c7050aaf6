"""How a user's predictions become a list: whether those below the largest cutoff are left out early, why or why not, and the aggregates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from pyspark.errors import PySparkException

from spark_rankeval.errors import listed
from spark_rankeval.metrics.base import Metric
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.spark.engine import Engine, bytes_of_plain_scan, collected_columns
from spark_rankeval.spark.source import SourceTable
from spark_rankeval.spark.sql import (
    Sql,
    aggregate_lists,
    bits_and,
    bits_or,
    call,
    field_of,
    hash_in,
    named,
    number,
    rows_of_all,
    select,
    when,
    where,
    with_columns,
)
from spark_rankeval.worker import reading as grouped_row
from spark_rankeval.worker.reading import INFINITE_SCORE, KIND_BITS, MARKS, MODEL_BITS, RANKED, REJECTED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: How a user's predictions are brought together: every one, or the ``best`` by score and item, as many as the cutoff needs.
Gathering = Literal["all", "best"]

#: Columns of rows: the index of the model, and whether the row was left out for its infinite score.
MODEL, INFINITE = "model_", "infinite_"
_BEST, _PAIR, _ORDER = "best_", "pair_", "order_"


@dataclass(frozen=True)
class PredictionLists:
    """How rows of predictions become lists."""

    users: list[str]  # the user's columns
    models: Sequence[int]  # by index, the first one first; if there are several, rows have the index of their model
    gathering: Gathering
    keep: int  # with a gathering of the best: how many predictions a user keeps
    columns: tuple[str, ...]  # what there is a list of: items, scores, facts of items
    counts_infinite: bool  # whether rows of infinite score are counted by themselves

    def grouped(
        self,
        rows: DataFrame,
        hashed: Sql | None,
        n_rows: Sql | None,
        merged: Sql | None,
    ) -> DataFrame:
        """One row per user.

        Args:
            rows: of all models.
            hashed: the hash of a row; None: workers hash the lists.
            n_rows: how many rows of a table a row stands for; None: one.
            merged: how many of these were merged with another.
        """
        several = len(self.models) > 1
        if several and self.gathering == "all":
            # Spark computes a column of its own much faster than what is inside an aggregate.
            return aggregate_lists(with_columns(rows, {MARKS: self._mark(hashed)}), self.users, *self._together())
        models = self.models
        if self.gathering == "best":
            rows = with_columns(
                rows, {name: values for model in models for name, values in self._made_of(model).items()}
            )
        columns = [column for model in models for column in self._model_columns(model, hashed, n_rows, merged)]
        grouped = aggregate_lists(rows, self.users, *columns)
        if self.gathering != "best":
            return grouped
        names = [named(name) for name in grouped.columns if not name.startswith(_BEST)]
        lists = [
            field_of(f"{_BEST}{model}", name).alias(grouped_row.column_of_model(name, model))
            for model in models
            for name in self.columns
        ]
        return select(grouped, *names, *lists)

    def _together(self) -> list[Sql]:
        """The predictions of all models in the same lists, with marks that say whose each is: workers part them.

        Spark would look at each row once for each list of each model, which takes twice the time with ten models.
        """
        marks = call("collect_list", named(MARKS))
        lists = {name: call("collect_list", named(name)) for name in self.columns}
        if self.counts_infinite:
            lists[grouped_row.INFINITE_PREDICTIONS] = call("sum", named(INFINITE))
        lists[grouped_row.PREDICTION_ROWS] = call("size", marks)
        first = self.models[0]
        return [
            marks.alias(MARKS),
            *(each.alias(grouped_row.column_of_model(name, first)) for name, each in lists.items()),
        ]

    def _mark(self, hashed: Sql | None) -> Sql:
        """The mark of a row. One of 32 bits says to the workers that no hash is in it."""
        rejected: Sql | int = when(named(INFINITE) == 1, INFINITE_SCORE, REJECTED) if self.counts_infinite else REJECTED
        kind = when(named(grouped_row.ITEMS).is_not_null(), RANKED, rejected)
        mark = bits_or(call("shiftleft", kind, MODEL_BITS), named(MODEL).cast("int"))
        if hashed is None:
            return mark
        # With hashes in the marks, ten models take a quarter more time to group.
        return bits_or(call("shiftleft", hashed.cast("bigint"), MODEL_BITS + KIND_BITS), mark.cast("bigint"))

    def _model_columns(self, model: int, hashed: Sql | None, n_rows: Sql | None, merged: Sql | None) -> list[Sql]:
        """How many rows a user has of a model, the sum of their hashes, and the predictions.

        `n_rows` and `merged` are None if no row stands for several.
        """

        def under(values: Sql, name: str) -> Sql:
            return values.alias(grouped_row.column_of_model(name, model))

        def summed(values: Sql, name: str) -> Sql:
            return under(call("coalesce", call("sum", self._values_of(model, values)), 0), name)

        if n_rows is None:
            # To count costs less than to add up.
            counts = [under(call("count", self._values_of(model, number(1))), grouped_row.PREDICTION_ROWS)]
        else:
            counts = [summed(n_rows, grouped_row.PREDICTION_ROWS)]
        if hashed is not None:
            total = call("sum", self._values_of(model, hashed))
            counts.append(total.alias(grouped_row.hash_column(grouped_row.column_of_model("predictions", model))))
        if self.counts_infinite:
            counts.append(summed(named(INFINITE), grouped_row.INFINITE_PREDICTIONS))
        if self.gathering == "best":
            items = self._values_of(model, named(grouped_row.ITEMS))
            counts.append(under(call("count", items), grouped_row.VALID_PREDICTIONS))
            if merged is not None:
                counts.append(summed(merged, grouped_row.MERGED_PREDICTIONS))
            best = call("min_by", named(f"{_PAIR}{model}"), named(f"{_ORDER}{model}"), self.keep)
            return [*counts, best.alias(f"{_BEST}{model}")]
        lists = {name: call("collect_list", named(name)) for name in self.columns}
        return [*counts, *(under(values, name) for name, values in lists.items())]

    def _made_of(self, model: int) -> dict[str, Sql]:
        """What the best of a model are made of, as columns: inside an aggregate Spark computes it slowly."""
        values = {name: self._values_of(model, named(name)) for name in self.columns}
        items, scores = values[grouped_row.ITEMS], values[grouped_row.SCORES]
        order = call("struct", (-scores).alias("score"), items.alias("item"))
        pair = call("struct", *(each.alias(name) for name, each in values.items()))
        return {f"{_PAIR}{model}": pair, f"{_ORDER}{model}": when(items.is_not_null(), order)}

    def _values_of(self, model: int, values: Sql) -> Sql:
        return values_of_model(model, values, len(self.models))


def values_of_model(model: int, values: Sql, n_models: int) -> Sql:
    """The values of rows of a model; null if a row is of another of several models."""
    return when(named(MODEL) == model, values) if n_models > 1 else values


# More predictions than the cutoff are kept: the count of values that hang on ties sees equal scores across the cutoff.
_SLACK = 8
# Spark's min_by keeps no more.
_MOST_KEPT = 100_000
# A reason names so many metrics, and counts the others.
_MOST_LISTED = 3


@dataclass(frozen=True)
class Plan:
    """How a user's predictions are brought together."""

    gathering: Gathering  # the way, of those that `grouping` knows
    keep: int  # how many predictions a user keeps at the most; 0: all
    words: tuple[str, ...]  # the same for a person, a sentence each
    first: int = 0  # how many items of arrays in order are read; 0: all


def together(plans: Mapping[str, Plan]) -> Plan:
    """The plans of models of several forms as one; the names of the models are the keys."""
    first, *others = plans.values()
    if not others:
        return first
    row_plan = next((plan for plan in plans.values() if plan.gathering != "all"), first)
    words = [f"{names}: {words}" for names, plan in plans.items() for words in plan.words]
    return replace(row_plan, words=tuple(words), first=max(plan.first for plan in plans.values()))


def choose_plan(
    task: ScoringTask,
    metrics: Mapping[str, Metric],
    predictions: SourceTable,
    engine: Engine,
    excludes: bool,
    has_long_lists: bool,
) -> Plan:
    """Choose how predictions are brought together: whole lists, unless one may not fit into memory and metrics have cutoffs.

    Args:
        task: what is asked for.
        metrics: by their labels.
        predictions: the table.
        engine: what runs the plan.
        excludes: whether items will be left out of the predictions, so that others move up.
        has_long_lists: whether a user's list may not fit into memory.
    """
    if predictions.vectors is not None:
        all_items = "Every item of the catalogue is ranked for each user, by scores from vectors; no table of predictions is made."
        return Plan("all", 0, (all_items,))
    if predictions.arrays:
        return _plan_for_arrays(task, predictions, excludes)
    cutoff = task.largest_cutoff
    words = "All predictions of a user are grouped."
    if has_long_lists:
        obstacle = _obstacle(task, metrics, engine, excludes)
        if cutoff is not None and obstacle is None:
            return _best(cutoff + _SLACK, merges=task.merges_duplicates)
        words += f" Lists may be too long for memory, but none is cut: {obstacle}"
    return Plan("all", 0, (words,))


def _best(keep: int, *, merges: bool) -> Plan:
    words = [
        f"A user keeps the best {keep:,} predictions by score and item while rows are grouped (min_by): lists may be too long for "
        "memory, and no metric looks further."
    ]
    if merges:
        words.append("Duplicates are merged first, by user and item within the same shuffle.")
    return Plan("best", keep, tuple(words))


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
        return Plan("all", 0, tuple(words))
    words.append(
        f"Only the first {cutoff} items of a user's array are read: that is the largest cutoff; duplicates and nulls further "
        "down are not counted."
    )
    return Plan("all", 0, tuple(words), first=cutoff)


def _obstacle(task: ScoringTask, metrics: Mapping[str, Metric], engine: Engine, excludes: bool) -> str | None:
    """Why predictions cannot be left out, or None."""
    whole = [label for label, metric in metrics.items() if metric.reads.depth is None]
    # A metric of the items themselves reads only the scores of its first places.
    averaging = [label for label, metric in metrics.items() if metric.reads.scores and not metric.reads.unlabelled]
    rankings = [view.ranking for view in task.views]
    ties = next((ranking.ties for ranking in rankings if ranking.ties != "item_asc"), None)
    obstacles = {
        f"the cutoff {task.largest_cutoff} is too large to leave any out.": (task.largest_cutoff or 0) + _SLACK
        > _MOST_KEPT,
        f"{_subject(whole, 'looks', 'look')} at whole lists, without a cutoff.": bool(whole),
        f"{_subject(averaging, 'is', 'are')} averaged over the orders of equal scores, of which none may be missing.": bool(
            averaging
        ),
        "items are left out of them (exclude=), and others move up.": excludes,
        f"ties={ties!r} needs them.": ties is not None,
        "items without a label are left out of them (judged_only), and others move up.": any(
            r.judged_only for r in rankings
        ),
        "scores compare as float32 in this dialect.": any(r.score_precision == "float32" for r in rankings),
        "this dialect ranks the union of predicted and labelled items.": any(
            r.unpredicted_labels == "last" for r in rankings
        ),
        "each of equal items counts in this dialect.": any(r.duplicates == "each" for r in rankings),
        "of equal items the best one has the cost.": any(
            r.duplicates == "keep_best" and r.budget is not None for r in rankings
        ),
        "equal items are one in this dialect, and others move up.": any(r.duplicates == "distinct" for r in rankings),
        f"{engine.name} {engine.version} cannot keep the best of a group; Spark 4.2 can.": not engine.keeps_best,
    }
    return next((words for words, met in obstacles.items() if met), None)


def _subject(labels: list[str], one: str, several: str) -> str:
    """The subject and the verb of a sentence about metrics."""
    return f"{listed(labels, _MOST_LISTED)} {several if len(labels) > 1 else one}"


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
        lists = collected_columns(rows_of_all(rows))[_LIST]
    except PySparkException:
        # What cannot be read, which the evaluation says better; or too many rows for the driver.
        return True
    return int(np.unique(lists, return_counts=True)[1].max(initial=0)) * _SHARE > _LONGEST


def _drawn(frame: DataFrame, keys: Sequence[str], index: int) -> DataFrame:
    """The hash of the list that each drawn row of a table is of."""
    # By a hash, as files may have users in a regular order.
    is_drawn = bits_and(call("xxhash64", call("monotonically_increasing_id")), _SHARE - 1) == 0
    hashed = call("xxhash64", hash_in(frame, keys), number(index)).alias(_LIST)
    return select(where(select(frame, hashed, is_drawn.alias(_IS_DRAWN)), named(_IS_DRAWN)), named(_LIST))
