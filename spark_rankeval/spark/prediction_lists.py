"""Rows of predictions as lists, a row a user: whole, or the best of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from spark_rankeval.spark.sql_text import (
    Sql,
    aggregate_lists,
    bits_or,
    call,
    field_of,
    named,
    number,
    select,
    when,
    with_columns,
)
from spark_rankeval.worker import grouped_row
from spark_rankeval.worker.grouped_row import MARKS
from spark_rankeval.worker.reading import KIND_BITS, MODEL_BITS, OF_INFINITE_SCORE, RANKED, REJECTED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


#: How a user's predictions are brought together. ``all``: every one. ``best_by_score``: the best of them by score, more
#: than the cutoff needs, so that nearly every tie at the boundary is whole; users if it is not are seen.
#: ``best_by_score_and_item``: the same exactly, by score and item. ``window``: the same by sorting, for Spark below 4.2.
#: ``first``: of arrays in order, their first items.
Gathering = Literal["all", "best_by_score", "best_by_score_and_item", "window", "first"]

#: Columns of rows: the place of the model, and whether the row was left out for its infinite score.
MODEL, INFINITE = "model_", "infinite_"
_BEST, _NTH, _PAIR, _ORDER = "best_", "nth_", "pair_", "order_"


@dataclass(frozen=True)
class PredictionLists:
    """How rows of predictions become lists."""

    users: list[str]  # the user's columns
    n_models: int  # if there are several, rows have the place of their model
    gathering: Gathering
    keep: int  # with a gathering of the best: how many predictions a user keeps
    columns: tuple[str, ...]  # what there is a list of: items, scores, facts of items
    counts_infinite: bool  # whether rows of infinite score are counted by themselves

    def of(
        self, rows: DataFrame, hashed: Sql | None, n_rows: Sql | None, merged: Sql | None, beside: Sequence[Sql]
    ) -> DataFrame:
        """A row a user.

        Args:
            rows: of all models.
            hashed: the hash of a row; None: workers hash the lists.
            n_rows: how many rows of a table a row stands for; None: one.
            merged: how many of these were merged with another.
            beside: aggregates of what else is to be known of a user's rows. Several models with whole lists take none.
        """
        if self.n_models > 1 and self.gathering == "all":
            # Spark computes a column of its own much faster than what is inside an aggregate.
            return aggregate_lists(with_columns(rows, {MARKS: self._mark(hashed)}), self.users, *self._together())
        if self.gathering == "window":
            # A sort, which spills: a user's predictions need not fit into memory.
            keys = [*self.users, *([MODEL] if self.n_models > 1 else [])]
            order = Window.partitionBy(*keys).orderBy(
                F.col(grouped_row.SCORES).desc_nulls_last(), F.col(grouped_row.ITEMS)
            )
            rows = rows.withColumn(_NTH, F.row_number().over(order))
        models = range(self.n_models)
        rows = with_columns(rows, {name: of for model in models for name, of in self._made_of(model).items()})
        columns = [column for model in models for column in self._of_model(model, hashed, n_rows, merged)]
        grouped = aggregate_lists(rows, self.users, *columns, *beside)
        if self.gathering != "best_by_score_and_item":
            return grouped
        names = [named(name) for name in grouped.columns if not name.startswith(_BEST)]
        lists = [
            field_of(f"{_BEST}{model}", name).alias(grouped_row.of_model(name, model))
            for model in models
            for name in self.columns
        ]
        return select(grouped, *names, *lists)

    def _together(self) -> list[Sql]:
        """The predictions of all models in the same lists, with marks that say whose each is: workers part them.

        Spark would look at each row once for each list of each model, which takes twice the time with ten models.
        """
        marks = call("collect_list", named(MARKS))
        return [
            call("size", marks).alias(grouped_row.PREDICTION_ROWS),
            marks.alias(MARKS),
            *([call("sum", named(INFINITE)).alias(grouped_row.INFINITE_PREDICTIONS)] if self.counts_infinite else []),
            *(call("collect_list", named(name)).alias(name) for name in self.columns),
        ]

    def _mark(self, hashed: Sql | None) -> Sql:
        """The mark of a row. One of 32 bits says to the workers that no hash is in it."""
        rejected: Sql | int = (
            when(named(INFINITE) == 1, OF_INFINITE_SCORE, REJECTED) if self.counts_infinite else REJECTED
        )
        kind = when(named(grouped_row.ITEMS).is_not_null(), RANKED, rejected)
        mark = bits_or(call("shiftleft", kind, MODEL_BITS), named(MODEL).cast("int"))
        if hashed is None:
            return mark
        # With hashes in the marks, ten models take a quarter more time to group.
        return bits_or(call("shiftleft", hashed.cast("bigint"), MODEL_BITS + KIND_BITS), mark.cast("bigint"))

    def _of_model(self, model: int, hashed: Sql | None, n_rows: Sql | None, merged: Sql | None) -> list[Sql]:
        """How many rows a user has of a model, the sum of their hashes, and the predictions.

        `n_rows` and `merged` are None if no row stands for several.
        """

        def under(values: Sql, name: str) -> Sql:
            return values.alias(grouped_row.of_model(name, model))

        def summed(values: Sql, name: str) -> Sql:
            return under(call("coalesce", call("sum", self._of(model, values)), 0), name)

        if n_rows is None:
            # To count costs less than to add up.
            counts = [under(call("count", self._of(model, number(1))), grouped_row.PREDICTION_ROWS)]
        else:
            counts = [summed(n_rows, grouped_row.PREDICTION_ROWS)]
        if hashed is not None:
            total = call("sum", self._of(model, hashed))
            counts.append(total.alias(grouped_row.hash_column(grouped_row.of_model("predictions", model))))
        if self.counts_infinite:
            counts.append(summed(named(INFINITE), grouped_row.INFINITE_PREDICTIONS))
        if self.gathering != "all":
            items = self._of(model, named(grouped_row.ITEMS))
            counts.append(under(call("count", items), grouped_row.VALID_PREDICTIONS))
            if merged is not None:
                counts.append(summed(merged, grouped_row.MERGED_PREDICTIONS))
        if self.gathering == "best_by_score_and_item":
            best = call("min_by", named(f"{_PAIR}{model}"), named(f"{_ORDER}{model}"), self.keep)
            return [*counts, best.alias(f"{_BEST}{model}")]
        listed = {name: named(self._column(name, model)) for name in self.columns}
        if self.gathering == "best_by_score":
            # Both heaps see the same scores in the same order, so that items and scores stay aligned, ties included
            # (a test says so); one heap of structs costs a sixth more.
            scores = listed[grouped_row.SCORES]
            lists = {name: call("max_by", values, scores, self.keep) for name, values in listed.items()}
        else:
            lists = {name: call("collect_list", values) for name, values in listed.items()}
        return [*counts, *(under(values, name) for name, values in lists.items())]

    def _made_of(self, model: int) -> dict[str, Sql]:
        """What the lists of a model are made of, where that is no column yet: inside an aggregate Spark computes it slowly."""
        values = {name: self._of(model, named(name)) for name in self.columns}
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
        return self.n_models > 1 or self.gathering == "window"

    def _column(self, name: str, model: int) -> str:
        """The column that a list of a model is made of."""
        return f"{name}_of_{model}" if self._is_made else name

    def _of(self, model: int, values: Sql) -> Sql:
        return values_of_model(model, values, self.n_models)


def values_of_model(model: int, values: Sql, n_models: int) -> Sql:
    """The values of rows of a model; null if a row is of another of several models."""
    return when(named(MODEL) == model, values) if n_models > 1 else values
