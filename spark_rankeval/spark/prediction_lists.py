"""How a user's predictions become a list: whether those below the largest cutoff are left out early, why or why not, and the aggregates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from spark_rankeval.errors import listed
from spark_rankeval.metrics.base import Metric
from spark_rankeval.ranking.ragged import BoolArray, IntArray
from spark_rankeval.request.options import Lookup
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.spark.ids import hash_in
from spark_rankeval.spark.platforms import Engine, bytes_of_plain_scan, collected_columns
from spark_rankeval.spark.source import SourceTable
from spark_rankeval.spark.sql_text import (
    Sql,
    aggregate_lists,
    bits_and,
    bits_or,
    call,
    field_of,
    named,
    number,
    row_of_partition,
    rows_of_all,
    select,
    when,
    where,
    with_columns,
)
from spark_rankeval.worker import grouped_row
from spark_rankeval.worker.grouped_row import MARKS
from spark_rankeval.worker.reading import INFINITE_SCORE, KIND_BITS, MODEL_BITS, RANKED, REJECTED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: How a user's predictions are brought together. ``all``: every one. ``best_by_score``: the best of them by score, more
#: than the cutoff needs, so that nearly every tie at the boundary is whole; users if it is not are seen.
#: ``best_by_score_and_item``: the same exactly, by score and item. ``window``: the same by sorting, for Spark below 4.2.
Gathering = Literal["all", "best_by_score", "best_by_score_and_item", "window"]

#: Columns of rows: the index of the model, and whether the row was left out for its infinite score.
MODEL, INFINITE = "model_", "infinite_"
_BEST, _NTH, _PAIR, _ORDER = "best_", "nth_", "pair_", "order_"


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
        extra_aggregates: Sequence[Sql],
    ) -> DataFrame:
        """One row per user.

        Args:
            rows: of all models.
            hashed: the hash of a row; None: workers hash the lists.
            n_rows: how many rows of a table a row stands for; None: one.
            merged: how many of these were merged with another.
            extra_aggregates: aggregates of what else is to be known of a user's rows. Several models with whole lists take none.
        """
        several = len(self.models) > 1
        if several and self.gathering == "all":
            # Spark computes a column of its own much faster than what is inside an aggregate.
            return aggregate_lists(with_columns(rows, {MARKS: self._mark(hashed)}), self.users, *self._together())
        if self.gathering == "window":
            # A sort, which spills: a user's predictions need not fit into memory.
            keys = [*self.users, *([MODEL] if several else [])]
            order = Window.partitionBy(*keys).orderBy(
                F.col(grouped_row.SCORES).desc_nulls_last(), F.col(grouped_row.ITEMS)
            )
            rows = rows.withColumn(_NTH, F.row_number().over(order))
        models = self.models
        rows = with_columns(rows, {name: values for model in models for name, values in self._made_of(model).items()})
        columns = [column for model in models for column in self._model_columns(model, hashed, n_rows, merged)]
        grouped = aggregate_lists(rows, self.users, *columns, *extra_aggregates)
        if self.gathering != "best_by_score_and_item":
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
        if self.gathering != "all":
            items = self._values_of(model, named(grouped_row.ITEMS))
            counts.append(under(call("count", items), grouped_row.VALID_PREDICTIONS))
            if merged is not None:
                counts.append(summed(merged, grouped_row.MERGED_PREDICTIONS))
        if self.gathering == "best_by_score_and_item":
            best = call("min_by", named(f"{_PAIR}{model}"), named(f"{_ORDER}{model}"), self.keep)
            return [*counts, best.alias(f"{_BEST}{model}")]
        listed = {name: named(self._column(name, model)) for name in self.columns}
        if self.gathering == "best_by_score":
            # Both heaps see the same scores in the same order, so items and scores stay aligned, ties included. One heap of
            # structs costs a sixth more.
            scores = listed[grouped_row.SCORES]
            lists = {name: call("max_by", values, scores, self.keep) for name, values in listed.items()}
        else:
            lists = {name: call("collect_list", values) for name, values in listed.items()}
        return [*counts, *(under(values, name) for name, values in lists.items())]

    def _made_of(self, model: int) -> dict[str, Sql]:
        """What the lists of a model are made of, where that is no column yet: inside an aggregate Spark computes it slowly."""
        values = {name: self._values_of(model, named(name)) for name in self.columns}
        if self.gathering == "best_by_score_and_item":
            items, scores = values[grouped_row.ITEMS], values[grouped_row.SCORES]
            order = call("struct", (-scores).alias("score"), items.alias("item"))
            pair = call("struct", *(each.alias(name) for name, each in values.items()))
            return {f"{_PAIR}{model}": pair, f"{_ORDER}{model}": when(items.is_not_null(), order)}
        if not self._is_made:
            return {}
        if self.gathering == "window":
            values = {name: when(named(_NTH) <= self.keep, each) for name, each in values.items()}
        return {self._column(name, model): each for name, each in values.items()}

    @property
    def _is_made(self) -> bool:
        """Whether lists are made of other columns than those of the rows."""
        return len(self.models) > 1 or self.gathering == "window"

    def _column(self, name: str, model: int) -> str:
        """The column that a list of a model is made of."""
        return f"{name}_of_{model}" if self._is_made else name

    def _values_of(self, model: int, values: Sql) -> Sql:
        return values_of_model(model, values, len(self.models))


def values_of_model(model: int, values: Sql, n_models: int) -> Sql:
    """The values of rows of a model; null if a row is of another of several models."""
    return when(named(MODEL) == model, values) if n_models > 1 else values


# More predictions than the cutoff are kept, so that equal scores at the boundary nearly always stay together.
_SLACK = 8
# Spark's max_by and min_by keep no more.
_MOST_KEPT = 100_000
# A reason names so many metrics, and counts the others.
_MOST_LISTED = 3


@dataclass(frozen=True)
class Plan:
    """How a user's predictions are brought together."""

    gathering: Gathering  # the way, of those that `grouping` knows
    keep: int  # how many predictions a user keeps at the most; 0: all
    words: tuple[str, ...]  # the same for a person, a sentence each
    lookup: Lookup = "join"  # how facts of items come to predictions
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
    prune: str,
    engine: Engine,
    exact: bool,
    excludes: bool,
    lengths: ListLengths | None = None,
    each_row_is_both: bool = False,
) -> Plan:
    """Choose how predictions are brought together.

    With `exact` every user's value must be right at once; else a few may be seen to be unresolved, and computed again. If `excludes`,
    items will be left out of the predictions, so that others move up. With `lengths`, short lists are not cut. If `each_row_is_both`,
    labels are in the rows of the predictions.
    """
    cutoff = task.largest_cutoff
    if predictions.vectors is not None:
        all_items = "Every item of the catalogue is ranked for each user, by scores from vectors; no table of predictions is made."
        return Plan("all", 0, (all_items,))
    if predictions.arrays:
        return _plan_for_arrays(task, predictions, prune, excludes)
    obstacle = _obstacle(task, metrics, prune, excludes, each_row_is_both)
    if obstacle is None and not (engine.keeps_best or engine.is_spark):
        obstacle = f"{engine.name} {engine.version} would sort them to keep the best, which costs more."
    if obstacle is not None or cutoff is None:
        return Plan("all", 0, (f"All predictions of a user are grouped: {obstacle}",))
    keep = cutoff + _SLACK
    if lengths is not None and lengths.are_short(keep, merges=task.merges_duplicates):
        short = (
            f"All predictions of a user are grouped: {lengths.words}, and to keep only the best {keep} would cost more."
        )
        return Plan("all", 0, (short,))
    words = [f"A user keeps the best {keep} predictions while rows are grouped: the largest cutoff is {cutoff}."]
    if task.merges_duplicates:
        words.append("Duplicates are merged first, by user and item within the same shuffle.")
    gathering: Gathering
    if not engine.keeps_best:
        gathering = "window"
        words.append(
            f"{engine.name} {engine.version} sorts a user's predictions for that (window); Spark 4.2 needs no sort."
        )
    elif exact:
        gathering = "best_by_score_and_item"
        words.append("They are kept by score and item, which settles every tie (min_by).")
    else:
        gathering = "best_by_score"
        words.append(
            "They are kept by score (max_by). If equal scores at that boundary leave a user's value open, this user is computed "
            "again and keeps the best by score and item."
        )
    return Plan(gathering, keep, tuple(words))


def _plan_for_arrays(task: ScoringTask, predictions: SourceTable, prune: str, excludes: bool) -> Plan:
    cutoff = task.largest_cutoff
    words = ["Predictions come as arrays, a user's whole list in a row: nothing is brought together."]
    # What takes the place of an item that is left out must be there.
    moves_up = excludes or any(
        view.ranking.duplicates in ("keep_best", "distinct")
        or view.ranking.unpredicted_labels == "last"
        or view.ranking.judged_only
        for view in task.views
    )
    reads_all = bool(predictions.value_columns) or prune == "never" or moves_up
    if reads_all or cutoff is None:
        return Plan("all", 0, tuple(words))
    words.append(
        f"Only the first {cutoff} items of a user's array are read: that is the largest cutoff; duplicates and nulls further "
        "down are not counted."
    )
    return Plan("all", 0, tuple(words), first=cutoff)


def _obstacle(
    task: ScoringTask, metrics: Mapping[str, Metric], prune: str, excludes: bool, each_row_is_both: bool
) -> str | None:
    """Why predictions cannot be left out, or None."""
    whole = [label for label, metric in metrics.items() if metric.reads.depth is None]
    # A metric of the items themselves reads only the scores of its first places.
    averaging = [label for label, metric in metrics.items() if metric.reads.scores and not metric.reads.unlabelled]
    rankings = [view.ranking for view in task.views]
    ties = next((ranking.ties for ranking in rankings if ranking.ties != "item_asc"), None)
    obstacles = {
        "prune='never' was asked for.": prune == "never",
        "labels are in the same rows, and none of them may be missing.": each_row_is_both,
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
    }
    return next((words for words, met in obstacles.items() if met), None)


def _subject(labels: list[str], one: str, several: str) -> str:
    """The subject and the verb of a sentence about metrics."""
    return f"{listed(labels, _MOST_LISTED)} {several if len(labels) > 1 else one}"


# One list of so many is drawn with all rows, and one row of so many, of any list. Both are powers of two.
_USUAL_SHARE, _LARGEST_SHARE = 1 << 8, 1 << 14
# Of larger tables less is drawn, because the driver counts the rows: the share is their bytes over this.
_BYTES = 1 << 22
# A task draws no more rows. Once one has drawn so many, nothing is said.
_MOST_OF_TASK = 1 << 18
# Keeping the best of each list pays if they are longer than about so many times what is kept. If equal items have to be merged for
# that, it never pays, and only saves memory.
_SHORT = 6
# Spark holds a list in memory while it grows, with some 100 bytes a prediction.
_LONGEST = 200_000
# Files of so many bytes hold no list that is too long for memory.
_SMALL = 1 << 20
_LIST, _IS_DRAWN, _PLACE = "list_", "is_drawn_", "place_"


class ListLengths(NamedTuple):
    """What a sample says of users' lists."""

    n_lists: int  # lists drawn; 0: the tables are small
    mean: float  # rows of a drawn list
    longest: int  # about the most rows of any list, if these are some thousands

    def are_short(self, keep: int, *, merges: bool = False) -> bool:
        """Whether grouping whole lists costs less than to keep the best `keep` of each, perhaps merged, and fits into memory."""
        return (merges or self.mean <= _SHORT * keep) and self.longest <= _LONGEST

    @property
    def words(self) -> str:
        """How long they are, for a person."""
        if not self.n_lists:
            return "the table is small"
        return f"lists are short ({self.mean:,.1f} predictions on average, in a sample of {self.n_lists:,})"


def sampled_lengths(models: Sequence[SourceTable], model_column: str | None = None) -> ListLengths | None:
    """The lengths of users' lists, from one job that reads the users of the tables; None if that might be expensive.

    A table is cheap to read if its plan scans files or a cached table, and does nothing else. Any other would be computed twice. Of
    small tables no list is drawn: they fit into memory, whatever their lists are.
    """
    tables = {id(source.frame): (source.unjoined or source.frame, source.user) for source in models}
    sizes = [size for frame, _ in tables.values() if (size := bytes_of_plain_scan(frame)) is not None]
    if len(sizes) < len(tables):
        return None
    if sum(sizes) <= _SMALL:
        return ListLengths(0, 0.0, 0)
    share = share_of(sum(sizes))
    rows = [_lists_of_rows(*table, index, model_column) for index, table in enumerate(tables.values())]
    try:
        # The driver counts: to group so few rows in Spark would take two stages more.
        drawn = collected_columns(_drawn(rows_of_all(rows), share))
    except PySparkException:
        # Too much for the driver; or what cannot be read, which the evaluation says better.
        return None
    is_cut = drawn[_PLACE].max(initial=0) == _MOST_OF_TASK - 1
    return None if is_cut else lengths_of(drawn[_LIST], drawn[_IS_DRAWN], share)


def lengths_of(lists: IntArray, is_drawn: BoolArray, share: int) -> ListLengths | None:
    """What a sample says, which has the hash of each row's list, and whether the row is drawn itself; None if no list is drawn.

    One list of `share` is drawn, and one row of `share`.
    """
    whole = lists[lists & (share - 1) == 0]
    n_lists = len(np.unique(whole))
    most_drawn = int(np.unique(lists[is_drawn], return_counts=True)[1].max(initial=0))
    return ListLengths(n_lists, len(whole) / n_lists, most_drawn * share) if n_lists else None


def share_of(n_bytes: int) -> int:
    """Of how many lists of tables of so many bytes one is drawn."""
    return min(max(_USUAL_SHARE, 1 << (n_bytes // _BYTES).bit_length()), _LARGEST_SHARE)


def _lists_of_rows(frame: DataFrame, user: tuple[str, ...], index: int, model_column: str | None) -> DataFrame:
    """The hash of the list that each row of a table is of."""
    keys = [*user, *([] if model_column is None else [model_column])]
    return select(frame, call("xxhash64", hash_in(frame, keys), number(index)).alias(_LIST))


def _drawn(rows: DataFrame, share: int) -> DataFrame:
    """The rows that are drawn, or whose list is: the hash of their list, whether they are drawn, and their number in the task."""
    numbered = select(rows, named(_LIST), _is_one_of(share, call("monotonically_increasing_id")).alias(_IS_DRAWN))
    drawn = where(numbered, named(_IS_DRAWN) | _is_one_of(share, named(_LIST)))
    placed = select(drawn, named(_LIST), named(_IS_DRAWN), row_of_partition().alias(_PLACE))
    return where(placed, named(_PLACE) < _MOST_OF_TASK)


def _is_one_of(share: int, whole_number: Sql) -> Sql:
    return bits_and(whole_number, share - 1) == 0
