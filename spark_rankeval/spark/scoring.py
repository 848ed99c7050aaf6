"""From checked tables to every user's metrics, as a lazy table or as the figures of all users in one action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.records.slices import ItemGroup, Key, is_of_all, item_groups_in, rollup, rollup_with_items
from spark_rankeval.request.counts import WEIGHT_SUMS
from spark_rankeval.request.options import SummaryOptions
from spark_rankeval.request.readings import NORMALISER, Reading, Value
from spark_rankeval.request.task import GROUP_FACTS, ScoringTask, counts_of_models, user_counts
from spark_rankeval.spark.describing import (
    Groups,
    figures_by_group,
    messages_of_groups,
    shared_count,
)
from spark_rankeval.spark.grouping import Grouping
from spark_rankeval.spark.inputs import Sources
from spark_rankeval.spark.invalid_rows import Quarantine
from spark_rankeval.spark.per_user import MetricColumn, PerUserSchema, Settings, table_hash, type_of_count
from spark_rankeval.spark.platforms import engine_of
from spark_rankeval.spark.prediction_lists import Plan, choose_plan, may_be_long, together
from spark_rankeval.spark.table_rows import hashed_tables
from spark_rankeval.spark.tasks import MESSAGE_SCHEMA, run_on_workers
from spark_rankeval.spark.unmatched_ids import overlaps_of
from spark_rankeval.statistics.description import Description, DescriptionOptions, Figures
from spark_rankeval.statistics.moments import Moments
from spark_rankeval.wire import KIND, Message
from spark_rankeval.worker.grouped_row import NO_USER, STRATUM, USER_WEIGHT, column_of_model, hash_column, slice_column
from spark_rankeval.worker.scored_features import Gathered, features_of
from spark_rankeval.worker.states import state_of_batches
from spark_rankeval.worker.user_metrics import (
    MODEL,
    USER_ROWS,
    Rows,
    count_names,
    count_of_model,
    rows_in_messages,
    rows_of_users,
    score_batches,
    standard_value_column,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# What the column of a metric by dialect ``standard`` is called, behind the metric's.
_STANDARD = "_standard"


class ModelFigures(NamedTuple):
    """The figures of the users of a model."""

    values: dict[str, Description]  # the figures of each metric, by its key
    # The means of some metrics as dialect ``standard`` defines them, by the metric's key.
    standard_means: dict[str, float]
    counts: Mapping[str, Moments]  # the moments of each count, by name; of all users alone
    fingerprints: Mapping[str, str]  # by table; of all users alone


class EvaluationFigures(NamedTuple):
    """The figures of all models and slices, and how they were made."""

    by_model: dict[str, dict[Key, ModelFigures]]  # by model and slice
    totals: dict[str, int]  # how large the tables of facts are, and how much of them cannot be used
    words: tuple[str, ...]  # how predictions were brought together, a sentence each
    item_groups: tuple[ItemGroup, ...] = ()  # the groups of items that have figures


@dataclass(frozen=True)
class Scoring:
    """Everything that is needed to compute every user's metrics."""

    sources: Sources
    reading: Reading  # what is computed of them, and what each value is
    settings: Settings  # what the per-user table says of its evaluation
    # The metrics of a model, in the order to show them; those of all lists together have no column.
    metrics: tuple[MetricColumn, ...] = ()
    model_column: str = ""  # the column of models in the per-user table; empty: there is one model without a name
    has_long_lists: bool = False  # whether a user's list may not fit into memory, as far as is known
    # What an action gave that computed states and rows of users together; None: each action computes what it needs.
    stored: DataFrame | None = None

    def with_notes(self) -> Scoring:
        """The same with what the notes and warnings of a result need: values by other definitions, and whether ids match."""
        reading = self.reading.with_standards()
        task = replace(reading.task, overlaps=overlaps_of(self.sources, reading.task))
        return replace(self, reading=replace(reading, task=task))

    def description(self, summary: SummaryOptions) -> DescriptionOptions:
        """How the users' values are described."""
        sources, reading = self.sources, self.reading
        options = summary.described(weighted=summary.user_weight is not None, clustered=bool(sources.clusters))
        options = replace(options, normalised=reading.task.normalised, n_plain=len(reading.standard_values))
        for feature in features_of(reading.task):
            options = feature.described(options, reading.task)
        return options

    def plan(self) -> Plan:
        """How predictions are brought together."""
        sources, task, spelled = self.sources, self.reading.task, self.reading.spelled
        metrics = {spelled.get(value.label, value.label): value.metric for value in self.reading.values}
        plans = {}
        for models in sources.forms:
            first, *others = (sources.models[model] for model in models)
            views = tuple(view for view in task.views if view.model in models)
            plans[", ".join(model.name for model in (first, *others))] = choose_plan(
                replace(task, views=views),
                metrics,
                first.source,
                engine_of(first.source.frame.sparkSession),
                excludes=sources.exclude is not None,
                has_long_lists=self.has_long_lists,
                each_row_is_both=sources.rows_of_both is not None,
            )
        return together(plans)

    def sampled(self) -> Scoring:
        """The same, knowing whether a user's list may not fit into memory; if the tables are large, a job draws rows of them."""
        models = [model.source for model in self.sources.models if not model.source.arrays]
        if self.stored is not None or not models or not replace(self, has_long_lists=True).plan().keep:
            return self
        return replace(self, has_long_lists=may_be_long(models, self.sources.model_column))

    def grouping(self, plan: Plan) -> Grouping:
        """How the tables become one row per user."""
        task = self.reading.task
        return Grouping(
            self.sources,
            task,
            gathering=plan.gathering,
            keep=plan.keep,
            first=plan.first,
            merge_duplicates=plan.keep > 0 and task.merges_duplicates,
        )

    @property
    def _task_of_users(self) -> ScoringTask:
        """The task of the per-user table, which has nothing about groups of items."""
        features = tuple(feature for feature in self.reading.task.features if not feature.group_counts)
        return replace(self.reading.task, features=features)

    @property
    def schema(self) -> PerUserSchema:
        """The columns of the per-user table."""
        task, sources = self._task_of_users, self.sources
        first = task.models[0]
        compared = {(value.relevance, value.label) for value in self.reading.standard_values if value.model == first}
        metrics = []
        for metric in self.metrics:
            if metric.column:
                has_standard = (metric.relevance, metric.label) in compared
                metrics.append(replace(metric, standard_column=f"{metric.column}{_STANDARD}" if has_standard else ""))
        return PerUserSchema(
            users=tuple(sources.predictions.user),
            metrics=tuple(metrics),
            counts=user_counts(task),
            hashes={table: table_hash(table) for table in self._tables_of_a_model},
            slices=sources.slices,
            orders=sources.orders,
            weight=sources.weight_count or sources.weight,
            clusters=sources.clusters,
            stratum=sources.judged.get(STRATUM),
            model=self.model_column if task.models != ("",) else None,
            models=task.models,
            settings=self.settings,
        )

    def per_user(self) -> DataFrame:
        """The lazy table of every user: the user's columns, a double a metric, and counts.

        Rows whose user is null belong to no user: they are kept, with NaN and the count of what was wrong.
        """
        task, schema, grouping = self._task_of_users, self.schema, self._lazy_grouping
        values = self._value_names
        names_by_column = dict(zip(self.reading.columns, values, strict=True))
        normalised = [values[index] for index in task.normalised if index < len(values)]
        standards = [value for value in self.reading.standard_values if value.model == task.models[0]]
        columns_by_key = {value.key: standard_value_column(index) for index, value in enumerate(standards)}
        attributes = list(self._attributes_of_rows(grouping))
        text, double = T.StringType(), T.DoubleType()
        kinds = [
            *zip(grouping.user_columns, grouping.user_types(), strict=True),
            *((name, double if name == USER_WEIGHT else text) for name in attributes),
            (MODEL, text),
            *((name, double) for name in values),
            *((name, type_of_count(name)) for name in schema.counts),
            *((f"{name}{NORMALISER}", double) for name in normalised),
            *((name, double) for name in columns_by_key.values()),
            *((hash_column(table), T.LongType()) for table in schema.hashes),
        ]
        run, frame = rows_in_messages, self.stored
        if frame is None:
            run, frame = score_batches(task, *self._columns_of_rows(grouping)), grouping.frame(with_users=True)
        else:
            frame = frame.where(F.col(KIND) == USER_ROWS)
        scored = run_on_workers(frame, run, T.StructType([T.StructField(name, kind) for name, kind in kinds]))
        ours = [
            *grouping.user_columns,
            *attributes,
            *([] if schema.model is None else [MODEL]),
            *(names_by_column[metric.column] for metric in schema.metrics),
            *schema.counts,
            *(f"{names_by_column[metric.column]}{NORMALISER}" for metric in schema.metrics if metric.normaliser),
            *(
                columns_by_key[task.models[0], metric.relevance, metric.label]
                for metric in schema.metrics
                if metric.standard_column
            ),
            *map(hash_column, schema.hashes),
        ]
        return scored.select(*schema.marked([F.col(name) for name in ours]))

    @property
    def _lazy_grouping(self) -> Grouping:
        return self.grouping(self.plan())

    @property
    def _value_names(self) -> tuple[str, ...]:
        """Names of our own until the last step: the caller's may hold any character, or be one of ours."""
        return tuple(f"metric_{index}" for index in range(len(self.reading.columns)))

    def _columns_of_rows(self, grouping: Grouping) -> tuple[tuple[str, ...], ...]:
        """The columns of users, of values and of hashes, as workers name them."""
        return (
            (*grouping.user_columns, *self._attributes_of_rows(grouping)),
            self._value_names,
            tuple(self.schema.hashes),
        )

    def _attributes_of_rows(self, grouping: Grouping) -> tuple[str, ...]:
        """The attributes of users in the per-user table; who was graded by people is one of its counts."""
        judged = [
            name for name in self.sources.judged if name != STRATUM or self.sources.judged[name] in self.sources.slices
        ]
        return tuple(name for name in grouping.attributes.columns if name not in judged)

    def quarantine(self) -> Quarantine:
        """The rows that are not ranked, each with its reason; see `Result.quarantine`."""
        grouping = self._lazy_grouping
        ranking = self.reading.task.views[0].ranking
        return Quarantine(
            self.sources,
            self.reading.task,
            grouping.user_types(),
            grouping.item_type(),
            repeated_predictions=ranking.duplicates in ("count", "keep_best") and not ranking.rolled_up,
            conflicting_labels=ranking.conflicting_labels == "highest" and not ranking.rolled_up,
        )

    def describe(self, options: DescriptionOptions, *, totals: bool = False) -> EvaluationFigures:
        """The figures of every metric, of those beside them and of every count, in one action."""
        plan = self.plan()
        by_group = self.describe_values(plan, options, totals=totals)
        task, value_indices = self.reading.task, self._keys_of(self.reading.values)
        standard_indices = self._keys_of(self.reading.standard_values, first=len(self.reading.values))
        n_values = len(self.reading.values) + len(self.reading.standard_values)
        assert all(len(group.values) == n_values for group in by_group.values()), "every value has a figure"
        figures: dict[str, dict[Key, ModelFigures]] = {}
        for index, model in enumerate(task.models):
            for key, group in by_group.items():
                is_total = is_of_all(key)
                values = {name: group.values[value] for name, value in value_indices[model]}
                figures.setdefault(model, {})[key] = ModelFigures(
                    values | {metric.key: values[metric.human_key] for metric in self.metrics if metric.estimated},
                    {name: group.values[value].mean for name, value in standard_indices[model]},
                    self.counts_of(group, index) if is_total else {},
                    self._fingerprints_of(group, index) if is_total else {},
                )
        return EvaluationFigures(figures, totals_in(task, by_group), plan.words, self._item_groups(by_group))

    def _keys_of(self, values: Sequence[Value], first: int = 0) -> dict[str, list[tuple[str, int]]]:
        """The metrics' keys with the indices of their values, by model; `first` is the index of the first value."""
        keys = {(metric.relevance, metric.label): metric.key for metric in self.metrics}
        indices: dict[str, list[tuple[str, int]]] = {model: [] for model in self.reading.task.models}
        for index, value in enumerate(values, first):
            indices[value.model].append((keys[value.relevance, value.label], index))
        return indices

    @property
    def item_attributes(self) -> tuple[str, ...]:
        """The attributes of items whose groups have figures of their own."""
        return tuple(name for feature in features_of(self.reading.task) for name in feature.attributes)

    def _item_groups(self, figures: Mapping[Key, Figures]) -> tuple[ItemGroup, ...]:
        if not self.item_attributes:
            return ()
        facts = {
            key: {name: int(count.greatest) if (count := group.counts[name]).n else 0 for name in GROUP_FACTS}
            for key, group in figures.items()
        }
        return item_groups_in(facts, self.item_attributes)

    def describe_values(self, plan: Plan, options: DescriptionOptions, *, totals: bool = False) -> dict[Key, Figures]:
        """The same by the indices of the values in the task, those beside them last.

        A value of all lists together is the mean of the figures, which then stand on as many users as have a list.
        """
        groups = self._groups(options, totals=totals)
        mergers = {
            kind: merger for each in features_of(self.reading.task) for kind, merger in each.mergers(options).items()
        }
        messages = messages_of_groups(self._states(plan, options, groups), groups, mergers)
        return self._with_features(figures_by_group(messages, groups), messages, options)

    def _with_features(
        self, figures: Mapping[Key, Figures], messages: Sequence[Message], options: DescriptionOptions
    ) -> dict[Key, Figures]:
        """The figures with those of all features, from their messages."""
        task = self.reading.task
        gathered = Gathered(task, messages, totals_in(task, figures), options)
        for feature in features_of(task):
            figures = feature.figures(figures, gathered)
        return dict(figures)

    def with_rows(self, summary: SummaryOptions) -> DataFrame:
        """Messages with the states of all users and with their rows of the per-user table, for `stored`."""
        options = self.description(summary)
        plan, groups = self.plan(), self._groups(options, totals=summary.totals)
        rows = rows_of_users(self._task_of_users, *self._columns_of_rows(self.grouping(plan)))
        return self._states(plan, options, groups, rows=rows)

    @property
    def _keys(self) -> tuple[str, ...]:
        user_keys = tuple(slice_column(index) for index in range(len(self.sources.slices)))
        return (*user_keys, *(key for feature in features_of(self.reading.task) for key in feature.keys))

    def _groups(self, options: DescriptionOptions, *, totals: bool) -> Groups:
        task, items = self.reading.task, self.item_attributes
        rolled = rollup(len(self.sources.slices), totals=totals)
        return Groups(
            count_names(task, hashed_tables(self.sources)),
            task.n_values,
            options,
            len(self._keys),
            rollup_with_items(rolled, items) if items else rolled,
            items,
        )

    def _states(
        self,
        plan: Plan,
        options: DescriptionOptions,
        groups: Groups,
        *,
        rows: Rows | None = None,
    ) -> DataFrame:
        """The states of all partitions' users, as of `state_of_batches`."""
        if self.stored is not None:
            return self.stored.where(F.col(KIND) != USER_ROWS)
        grouping = self.grouping(plan)
        run = state_of_batches(
            self.reading.task, options, NO_USER, self._keys, groups.rollup, tables=groups.names.tables,
            rows=rows,
        )  # fmt: skip
        has_ids = options.clustered or bool(grouping.user_columns)
        return run_on_workers(grouping.frame(with_users=rows is not None, with_user_hash=has_ids), run, MESSAGE_SCHEMA)

    @property
    def _tables_of_a_model(self) -> list[str]:
        """The tables that have a fingerprint; the predictions of several models have one name."""
        others = [column_of_model("predictions", model) for model in range(1, len(self.sources.models))]
        return [table for table in hashed_tables(self.sources) if table not in others]

    def _fingerprints_of(self, group: Figures, model: int) -> dict[str, str]:
        """The fingerprints of the tables of a model, by its index."""
        named = {table: column_of_model(table, model * (table == "predictions")) for table in self._tables_of_a_model}
        return {table: group.fingerprints[name] for table, name in named.items()}

    def counts_of(self, group: Figures, model: int) -> dict[str, Moments]:
        """The counts of a model, by its index, from those of all models."""
        shared = {name: group.counts[name] for name in WEIGHT_SUMS if name in group.counts}
        return {
            **shared,
            **{name: group.counts[count_of_model(name, model)] for name in counts_of_models(self.reading.task)},
        }


def totals_in(task: ScoringTask, groups: Mapping[Key, Figures]) -> dict[str, int]:
    """How large the tables of facts are, and how much of them cannot be used: every user has the same numbers."""
    return {name: shared_count(groups, name) for name in task.totals}
