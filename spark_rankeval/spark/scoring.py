"""From checked tables to every user's metrics, as a lazy table or as the figures of all users in one action."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.spark.grouping import Grouping
from spark_rankeval.spark.inputs import any_null, column, user_hash
from spark_rankeval.spark.plan import Plan, choose_plan
from spark_rankeval.statistics.description import MOMENTS_ALONE, descriptions_of
from spark_rankeval.statistics.moments import moments_of
from spark_rankeval.worker.reading import NO_USER
from spark_rankeval.worker.scoring import COUNTS, INVALID_COUNTS, USER_COUNTS, score_batches
from spark_rankeval.worker.states import (
    STATE,
    TableAccumulator,
    merge_batches,
    merged_states,
    state_of_batches,
    state_of_columns,
    unpacked,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from spark_rankeval.spark.inputs import Sources
    from spark_rankeval.statistics.description import Description, DescriptionOptions
    from spark_rankeval.statistics.moments import Moments
    from spark_rankeval.views import Value
    from spark_rankeval.worker.states import TableState
    from spark_rankeval.worker.task import ScoringTask

STATE_SCHEMA = T.StructType([T.StructField(STATE, T.BinaryType())])
# The driver takes so many bytes of a partition as they are; a shuffle in between costs more unless there are many of them.
_MERGED_BY_DRIVER = 128_000
# What a value takes of a compressed state, in bytes: its moments, its quantiles (seldom more), a replicate.
_MOMENTS, _SKETCH, _REPLICATE = 100, 4_000, 9
#: The key under which a column's metadata says what the column is.
METADATA_KEY = "spark_rankeval"


@dataclass(frozen=True)
class Scoring:
    """Everything that is needed to compute every user's metrics.

    Attributes:
        sources: the caller's tables.
        values: what each user gets, in the order of the task's metrics.
        columns: the column of each value in the per-user table.
        shown: the places of the values in the order to show them.
        task: what the worker computes.
        prune: ``auto`` or ``never``.
        facts: what the per-user table says of itself in its metadata.
    """

    sources: Sources
    values: tuple[Value, ...]
    columns: tuple[str, ...]
    shown: tuple[int, ...]
    task: ScoringTask
    prune: str
    facts: dict[str, Any]

    def plan(self, *, exact: bool) -> Plan:
        """How predictions are brought together."""
        predictions = self.sources.predictions
        return choose_plan(
            self.task,
            {value.label: value.metric for value in self.values},
            predictions,
            self.prune,
            predictions.frame.sparkSession.version,
            exact,
            excludes=self.sources.exclude is not None,
        )

    def _grouping(self, plan: Plan) -> Grouping:
        keeps_best = any(view.ranking.duplicates == "keep_best" for view in self.task.views)
        return Grouping(
            *self.sources,
            gathering=plan.gathering,
            keep=plan.keep,
            merge_duplicates=plan.keep > 0 and keeps_best,
            keep_unusual_grades=self.task.keep_unusual_grades,
            largest_grade=self.task.largest_grade,
        )

    def per_user(self) -> DataFrame:
        """The lazy table of every user: the user's columns, a double a metric, and counts.

        Rows whose user is null belong to nobody: they are kept, with NaN and the count of what was wrong.
        """
        grouping = self._grouping(self.plan(exact=True))
        users = grouping.user_columns
        # Names of our own until the last step: the caller's may hold any character, or be one of ours.
        values = [f"metric_{index}" for index in range(len(self.values))]
        fields = [
            *(T.StructField(name, kind) for name, kind in zip(users, grouping.user_types(), strict=True)),
            *(T.StructField(name, T.DoubleType()) for name in values),
            *(T.StructField(name, T.LongType()) for name in COUNTS),
        ]
        run = score_batches(self.task, tuple(users), tuple(values))
        scored = grouping.frame(with_users=True).mapInArrow(run, T.StructType(fields))
        named = []
        for original, name in zip(self.sources.predictions.user, users, strict=True):
            named.append(_described(name, original, {"kind": "user"}))
        named += [_described(values[index], self.columns[index], self.said_of(index)) for index in self.shown]
        named += [_described(name, name, {"kind": "count", **self.facts}) for name in COUNTS]
        return scored.select(*named)

    def said_of(self, index: int) -> dict[str, Any]:
        """What the column of a value says of itself."""
        value = self.values[index]
        return {
            "kind": "metric",
            "label": value.label,
            "metric": str(value.metric),
            "relevance": value.relevance,
            **self.facts,
        }

    def describe(
        self, plan: Plan, options: DescriptionOptions = MOMENTS_ALONE
    ) -> tuple[list[Description], dict[str, Moments], int]:
        """The figures of every value and the moments of every count, in one action.

        Args:
            plan: how predictions are brought together.
            options: what is to be said of the values.

        Returns:
            those of the values, those of the counts by name, and how many users the plan could not settle.
        """
        frame = self._grouping(plan).frame(with_user_hash=options.resamples)
        states = frame.mapInArrow(state_of_batches(self.task, options, NO_USER), STATE_SCHEMA)
        empty = TableAccumulator(len(self.values), 1 + len(USER_COUNTS), len(INVALID_COUNTS), options).state()
        described, (open_users, *counts) = collected(states, empty, options)
        unresolved = int(open_users.total) if plan.gathering == "best_by_score" else 0
        return described, dict(zip(COUNTS, counts, strict=True)), unresolved


def facts_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What a column of a per-user table says of itself."""
    said = metadata.get(METADATA_KEY)
    return dict(json.loads(said)) if said else {}


def of_somebody(per_user: DataFrame) -> DataFrame:
    """A per-user table without the row that belongs to nobody, which counts rows with a null user."""
    for field in per_user.schema.fields:
        if facts_of(field.metadata).get("kind") == "user":
            per_user = per_user.where(column(field.name).isNotNull())
    return per_user


def _described(name: str, alias: str, facts: dict[str, Any]) -> Any:
    # Text keeps the metadata's types: numbers and None come back as they were, through any storage that keeps metadata.
    return F.col(name).alias(alias, metadata={METADATA_KEY: json.dumps(facts)})


def collected(
    states: DataFrame, empty: TableState, options: DescriptionOptions
) -> tuple[list[Description], list[Moments]]:
    """Merge the states of all partitions, in one action.

    Args:
        states: a state a row, in the column `STATE`.
        empty: the state of no users.
        options: what is to be said of the values.

    Returns:
        the figures of the values, and the moments of the counts.
    """
    n_values, n_counts = (len(part["n"]) for part in (empty.values["moments"], empty.counts))
    if n_counts * _MOMENTS + n_values * _bytes_of_a_value(options) > _MERGED_BY_DRIVER:
        # Into as many partitions as their size asks for: Spark sees it when the states are there.
        states = states.hint("rebalance").mapInArrow(merge_batches, STATE_SCHEMA)
    # A table without a partition yields no state at all.
    total = merged_states([empty, *unpacked(bytes(row[0]) for row in states.collect())])
    counts = [moments_of({field: each[index] for field, each in total.counts.items()}) for index in range(n_counts)]
    return descriptions_of(total.values, options), counts


def _bytes_of_a_value(options: DescriptionOptions) -> int:
    return _MOMENTS + _SKETCH * bool(options.quantiles) + _REPLICATE * options.replicates * options.resamples


def describe_table(
    per_user: DataFrame,
    users: list[str],
    values: list[str],
    counts: list[str],
    invalid: list[str],
    options: DescriptionOptions,
) -> tuple[list[Description], dict[str, Moments]]:
    """The figures of a per-user table, fresh or read back, in one action.

    Args:
        per_user: the table.
        users: its user columns; a row where one is null belongs to nobody.
        values: columns of values.
        counts: columns of users' counts.
        invalid: columns of counts of invalid rows.
        options: what is to be said of the values.

    Returns:
        the figures of the values, and the moments of the counts by name.
    """
    columns = {f"value_{index}": name for index, name in enumerate(values)}
    counted = {f"count_{index}": name for index, name in enumerate([*counts, *invalid])}
    ids = [column(name) for name in users]
    hashed = [user_hash(ids, [per_user.schema[name].dataType for name in users])] if options.resamples else []
    frame = per_user.select(
        *(column(name).cast("double").alias(alias) for alias, name in columns.items()),
        *(column(name).cast("bigint").alias(alias) for alias, name in counted.items()),
        any_null(ids).alias(NO_USER),
        *hashed,
    )
    names = tuple(counted)
    run = state_of_columns(tuple(columns), names[: len(counts)], names[len(counts) :], options, NO_USER)
    empty = TableAccumulator(len(columns), len(counts), len(invalid), options).state()
    described, found = collected(frame.mapInArrow(run, STATE_SCHEMA), empty, options)
    return described, dict(zip([*counts, *invalid], found, strict=True))
