"""From checked tables to every user's metrics, as a lazy table or as the moments of all users in one action."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.spark.grouping import Grouping
from spark_rankeval.spark.inputs import any_null, column
from spark_rankeval.spark.plan import Plan, choose_plan
from spark_rankeval.statistics.moments import Moments, MomentsAccumulator, moments_of
from spark_rankeval.worker.reading import NO_USER
from spark_rankeval.worker.scoring import COUNTS, INVALID_COUNTS, MODEL, USER_COUNTS, score_batches
from spark_rankeval.worker.states import (
    STATE,
    merge_batches,
    merged_by_key,
    moments_batches,
    moments_of_columns,
    unpacked,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from spark_rankeval.spark.inputs import Sources
    from spark_rankeval.views import Value
    from spark_rankeval.worker.states import Key
    from spark_rankeval.worker.task import ScoringTask

STATE_SCHEMA = T.StructType([T.StructField(STATE, T.BinaryType())])
# A state has about a hundred bytes a value. The driver takes them as they are unless they are many: a shuffle costs more.
_MERGED_BY_DRIVER, _MERGERS = 500, 16
#: The key under which a column's metadata says what the column is.
METADATA_KEY = "spark_rankeval"


@dataclass(frozen=True)
class Scoring:
    """Everything that is needed to compute every user's metrics.

    Attributes:
        sources: the caller's tables.
        values: what each user gets, in the order of the task's metrics.
        columns: the column of each value of a model in the per-user table.
        model_column: the column of models in it, where they have names.
        shown: the places of the values in the order to show them.
        task: what the worker computes.
        prune: ``auto`` or ``never``.
        facts: what the per-user table says of itself in its metadata.
    """

    sources: Sources
    values: tuple[Value, ...]
    columns: tuple[str, ...]
    model_column: str
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
            self.sources,
            gathering=plan.gathering,
            keep=plan.keep,
            merge_duplicates=plan.keep > 0 and keeps_best,
            unusual_grades=self.task.unusual_grades,
            largest_grade=self.task.largest_grade,
        )

    def per_user(self) -> DataFrame:
        """The lazy table of every user: the user's columns, a double a metric, and counts.

        Rows whose user is null belong to nobody: they are kept, with NaN and the count of what was wrong.
        """
        grouping = self._grouping(self.plan(exact=True))
        users = grouping.user_columns
        # Names of our own until the last step: the caller's may hold any character, or be one of ours.
        values = [f"metric_{index}" for index in range(len(self.columns))]
        fields = [
            *(T.StructField(name, kind) for name, kind in zip(users, grouping.user_types(), strict=True)),
            T.StructField(MODEL, T.StringType()),
            *(T.StructField(name, T.DoubleType()) for name in values),
            *(T.StructField(name, T.LongType()) for name in COUNTS),
        ]
        run = score_batches(self.task, tuple(users), tuple(values))
        scored = grouping.frame(with_users=True).mapInArrow(run, T.StructType(fields))
        named = []
        for original, name in zip(self.sources.predictions.user, users, strict=True):
            named.append(_described(name, original, {"kind": "user"}))
        if self.task.models != ("",):
            named.append(_described(MODEL, self.model_column, {"kind": "model"}))
        # The values of further models stand in further rows.
        first = [index for index in self.shown if index < len(self.columns)]
        named += [_described(values[index], self.columns[index], self.said_of(index)) for index in first]
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

    def moments(self, plan: Plan) -> tuple[list[Moments], list[dict[str, Moments]], int]:
        """The moments of every value and of every count, in one action.

        Returns:
            those of the values, those of the counts of each model by name, and how many users the plan could not settle.
        """
        frame = self._grouping(plan).frame(with_users=False)
        states = frame.mapInArrow(moments_batches(self.task, NO_USER), STATE_SCHEMA)
        n_models = len(self.task.models)
        merged = iter(merge(states, len(self.values) + 1 + n_models * len(COUNTS))[()])
        values, unresolved = list(islice(merged, len(self.values))), int(next(merged).total)
        counts: list[dict[str, Moments]] = [{} for _ in range(n_models)]
        for names in (USER_COUNTS, INVALID_COUNTS):
            for mine in counts:
                mine.update(zip(names, islice(merged, len(names)), strict=True))
        return values, counts, unresolved if plan.gathering == "best_by_score" else 0


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


def merge(states: DataFrame, n_columns: int) -> dict[Key, list[Moments]]:
    """Merge the states of all partitions, in one action.

    Args:
        states: a cell a partition, in the column `STATE`.
        n_columns: how many columns a state has.

    Returns:
        the moments of every column, by key; without keys there is the key ``()`` alone, also of no row at all.
    """
    if n_columns > _MERGED_BY_DRIVER:
        states = states.repartition(_MERGERS).mapInArrow(merge_batches, STATE_SCHEMA)
    total = merged_by_key(unpacked(bytes(row[0]) for row in states.collect()))
    return {
        key: [moments_of({field: values[index] for field, values in state.items()}) for index in range(n_columns)]
        for key, state in (total or {(): MomentsAccumulator(n_columns).state()}).items()
    }


def moments_of_table(
    per_user: DataFrame, users: list[str], values: list[str], counts: list[str], keys: Sequence[str] = ()
) -> dict[Key, list[Moments]]:
    """The moments of a per-user table, fresh or read back, in one action.

    Args:
        per_user: the table.
        users: its user columns; a row where one is null belongs to nobody.
        values: columns of values.
        counts: columns of counts of invalid rows.
        keys: columns that part the rows into groups.

    Returns:
        by the values of the keys, the moments of the values, then those of the counts.
    """
    columns = {f"value_{index}": name for index, name in enumerate(values)}
    counted = {f"count_{index}": name for index, name in enumerate(counts)}
    keyed = {f"key_{index}": name for index, name in enumerate(keys)}
    frame = per_user.select(
        *(column(name).cast("double").alias(alias) for alias, name in columns.items()),
        *(column(name).cast("bigint").alias(alias) for alias, name in counted.items()),
        *(column(name).alias(alias) for alias, name in keyed.items()),
        any_null(map(column, users)).alias(NO_USER),
    )
    run = moments_of_columns(tuple(columns), tuple(counted), NO_USER, tuple(keyed))
    return merge(frame.mapInArrow(run, STATE_SCHEMA), len(values) + len(counts))
