"""From checked tables to every user's metrics, as a lazy table or as the figures of all users in one action."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.errors import OptionError
from spark_rankeval.records.slices import EVERY
from spark_rankeval.request.counts import INVALID_COUNTS, MODEL, NORMALISER, USER_COUNTS, WEIGHT_SUMS, counts_beside
from spark_rankeval.request.readings import standing_beside
from spark_rankeval.spark.collecting import STATE_SCHEMA, collected_states
from spark_rankeval.spark.exposures import CorpusLevel, collected_rows, exposure_rows, slices_of
from spark_rankeval.spark.grouping import Grouping, slice_column
from spark_rankeval.spark.ids import user_hash
from spark_rankeval.spark.named_columns import METADATA_KEY, any_null, column, facts_of
from spark_rankeval.spark.plan import Plan, choose_plan
from spark_rankeval.spark.rejected import Quarantine
from spark_rankeval.spark.validity import Rules
from spark_rankeval.spark.workers import run_on_workers
from spark_rankeval.statistics.description import MOMENTS_ALONE, descriptions_of
from spark_rankeval.statistics.moments import moments_of
from spark_rankeval.tables.notes import few_of_each
from spark_rankeval.worker.exposures import slots_of
from spark_rankeval.worker.facts import TOTALS
from spark_rankeval.worker.packing import unpack
from spark_rankeval.worker.reading import NO_USER, USER_WEIGHT
from spark_rankeval.worker.scoring import beside_column, score_batches
from spark_rankeval.worker.states import (
    MERGED_BYTES,
    TableAccumulator,
    as_states,
    bytes_of_a_group,
    merge_batches,
    merged_states,
    n_groups_of,
    n_user_counts,
    n_values_of,
    state_of_batches,
    state_of_columns,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from spark_rankeval.metrics.base import Metric
    from spark_rankeval.request.readings import Value
    from spark_rankeval.request.task import ScoringTask
    from spark_rankeval.spark.inputs import Sources
    from spark_rankeval.statistics.description import Description, DescriptionOptions
    from spark_rankeval.statistics.moments import Moments
    from spark_rankeval.worker.states import Key, TableState

# How many figures a result has at the most: the driver takes some 2 GB for so many, and minutes.
_MOST_FIGURES = 500_000
# How much memory the state of all users takes at the most: a worker has it some times over while it merges.
_LARGEST_STATE = 1 << 28
# How much of a state is left when it is packed.
_PACKED = 0.3
# What the column of a metric by dialect ``standard`` is called, behind the metric's.
_STANDARD = "_standard"
# So many values of a column of any type are told apart by a number.
_HASHES = 2**40


class Figures(NamedTuple):
    """What is said of a group of users.

    Attributes:
        values: the figures of each value.
        counts: the moments of each count.
    """

    values: list[Description]
    counts: list[Moments]


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
        standards: what dialect ``standard`` means by those metrics that are defined as few systems define them, by label.
        spelled: what the caller called metrics that have another label, by label.
        beside: what the last figures of `describe` are of, behind those of `values`: such other definitions.
    """

    sources: Sources
    values: tuple[Value, ...]
    columns: tuple[str, ...]
    model_column: str
    shown: tuple[int, ...]
    task: ScoringTask
    prune: str
    facts: dict[str, Any]
    standards: Mapping[str, Metric] = dataclasses.field(default_factory=dict)
    spelled: Mapping[str, str] = dataclasses.field(default_factory=dict)
    beside: tuple[Value, ...] = ()

    def with_standards(self) -> Scoring:
        """The same, which also describes what most systems mean by metrics that are in the minority: of a curve one point."""
        views, beside = standing_beside(self.task.views, self.values, few_of_each(self.standards))
        return replace(self, task=replace(self.task, views=views), beside=beside)

    def plan(self, *, exact: bool) -> Plan:
        """How predictions are brought together."""
        predictions = self.sources.predictions
        return choose_plan(
            self.task,
            {self.spelled.get(value.label, value.label): value.metric for value in self.values},
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
            rules=Rules.of(self.task),
            facts=self.task.facts,
        )

    def per_user(self) -> DataFrame:
        """The lazy table of every user: the user's columns, a double a metric, and counts.

        Rows whose user is null belong to nobody: they are kept, with NaN and the count of what was wrong.
        """
        grouping = self._grouping(self.plan(exact=True))
        users = grouping.user_columns
        slices = [slice_column(index) for index in range(len(self.sources.slices))]
        weight = [] if self.sources.weight is None else [USER_WEIGHT]
        # Names of our own until the last step: the caller's may hold any character, or be one of ours.
        values = [f"metric_{index}" for index in range(len(self.columns))]
        normalised = [values[place] for place in self.task.normalised if place < len(values)]
        counts = counts_beside(self.task)
        fields = [
            *(T.StructField(name, kind) for name, kind in zip(users, grouping.user_types(), strict=True)),
            *(T.StructField(name, T.StringType()) for name in slices),
            *(T.StructField(name, T.DoubleType()) for name in weight),
            T.StructField(MODEL, T.StringType()),
            *(T.StructField(name, T.DoubleType()) for name in values),
            *(T.StructField(name, type_of_count(name)) for name in counts),
            *(T.StructField(f"{name}{NORMALISER}", T.DoubleType()) for name in normalised),
        ]
        beside = [value for value in self.beside if value.model == self.task.models[0]]
        fields += [T.StructField(beside_column(place), T.DoubleType()) for place in range(len(beside))]
        run = score_batches(self.task, (*users, *slices, *weight), tuple(values))
        scored = run_on_workers(grouping.frame(with_users=True), run, T.StructType(fields))
        named = []
        for original, name in zip(self.sources.predictions.user, users, strict=True):
            named.append(described(name, original, {"kind": "user"}))
        for attribute, name in zip(self.sources.slices, slices, strict=True):
            named.append(described(name, attribute, {"kind": "slice"}))
        named += [described(name, str(self.sources.weight), {"kind": "weight"}) for name in weight]
        if self.task.models != ("",):
            named.append(described(MODEL, self.model_column, {"kind": "model", "models": list(self.task.models)}))
        # The values of further models stand in further rows.
        first = [index for index in self.shown if index < len(self.columns) and not self.is_corpus_level(index)]
        named += [described(values[index], self.columns[index], self.said_of(index)) for index in first]
        named += [described(name, name, {"kind": "count", **self.facts}) for name in counts]
        of_metrics = {f"{values[index]}{NORMALISER}": f"{self.columns[index]}{NORMALISER}" for index in first}
        for name in normalised:
            own = f"{name}{NORMALISER}"
            named.append(described(own, of_metrics[own], {"kind": "normaliser"}))
        columns = {value.key: column for value, column in zip(self.values, self.columns, strict=False)}
        for place, value in enumerate(beside):
            own = beside_column(place)
            named.append(
                described(own, f"{columns[value.key]}{_STANDARD}", {"kind": "standard", "of": columns[value.key]})
            )
        return scored.select(*named)

    def is_corpus_level(self, index: int) -> bool:
        """Whether a value is of all lists together, so that no user has it."""
        return self.values[index].metric.corpus_level

    def quarantine(self) -> DataFrame:
        """The lazy table of the rows that are not ranked, each with its reason; see `Result.quarantine`.

        Raises:
            InputError: two of its columns would have one name.
        """
        grouping = self._grouping(self.plan(exact=True))
        own = self.task.views[0].ranking
        return Quarantine(
            self.sources,
            Rules.of(self.task),
            grouping.user_types(),
            grouping.item_type(),
            repeated_predictions=own.duplicates in ("count", "keep_best"),
            conflicting_labels=own.conflicting_labels == "highest",
        ).frame()

    def said_of(self, index: int) -> dict[str, Any]:
        """What the column of a value says of itself."""
        value = self.values[index]
        # Only where there is one: what unweighted tables say of themselves stays as it was.
        column = f"{self.columns[index % len(self.columns)]}{NORMALISER}"
        normaliser = {"normaliser": column} if value.metric.normalises else {}
        standard = {"standard": str(self.standards[value.label])} if value.label in self.standards else {}
        asked = {"asked": self.spelled[value.label]} if value.label in self.spelled else {}
        return {
            "kind": "metric",
            "label": value.label,
            **asked,
            "metric": str(value.metric),
            "relevance": value.relevance,
            **normaliser,
            **standard,
            **self.facts,
        }

    def describe(
        self,
        plan: Plan,
        options: DescriptionOptions = MOMENTS_ALONE,
        roll: Callable[[Key], Iterable[Key]] = lambda key: [key],
    ) -> tuple[dict[Key, Figures], int]:
        """The figures of every value, of those beside them and of every count, in one action.

        A value of all lists together is the mean of the figures, which then stand on as many users as have a list.

        Args:
            plan: how predictions are brought together.
            options: what is to be said of the values.
            roll: the groups that the users of a slice belong to.

        Returns:
            the figures of each group, their counts as `counts_of` reads them; and how many users the plan could not settle.
        """
        keys = [slice_column(index) for index in range(len(self.sources.slices))]
        grouping = self._grouping(plan)
        frame = grouping.frame(with_user_hash=options.resamples)
        empty = TableAccumulator(
            n_values_of(self.task), n_user_counts(self.task), len(self.task.models) * len(INVALID_COUNTS), options
        ).state()
        if slots_of(self.task):
            run = state_of_batches(self.task, options, NO_USER, tuple(keys), slices_of(roll))
            _packed_size(empty, options, n_keys=len(keys))
            packed, exposures = collected_rows(exposure_rows(frame, run, grouping.item_type(), have_slices=bool(keys)))
            found = _by_group(packed, empty, options, n_keys=len(keys), roll=roll)
            found = self._with_corpus_level(found, exposures, options)
        else:
            run = state_of_batches(self.task, options, NO_USER, tuple(keys))
            states = run_on_workers(frame, run, STATE_SCHEMA)
            found = collected(states, empty, options, n_keys=len(keys), roll=roll)
        unresolved = max(int(figures.counts[0].total) for figures in found.values())
        return found, unresolved if plan.gathering == "best_by_score" else 0

    def _with_corpus_level(
        self, found: dict[Key, Figures], packed: list[bytes], options: DescriptionOptions
    ) -> dict[Key, Figures]:
        """The figures with those of all lists together in place of the users' values."""
        totals = max((self.totals_of(figures) for figures in found.values()), key=lambda of: sum(of.values()))
        together = CorpusLevel.read(self.task, packed, totals)
        return {
            key: figures._replace(values=together.in_place(figures.values, key, options))
            for key, figures in found.items()
        }

    def totals_of(self, figures: Figures) -> dict[str, int]:
        """How large the tables of facts are, and how much of them cannot be used, from the counts of `describe`."""
        if not self.task.facts:
            return dict.fromkeys(TOTALS, 0)
        first = n_user_counts(self.task) - len(TOTALS)
        return {
            name: int(one.greatest) if one.n else 0 for name, one in zip(TOTALS, figures.counts[first:], strict=False)
        }

    def counts_of(self, figures: Figures) -> list[dict[str, Moments]]:
        """The counts of each model by name, from those of `describe`."""
        n_models, weight_sums = len(self.task.models), WEIGHT_SUMS if self.task.weighted else ()
        shared = dict(zip(weight_sums, figures.counts[1:], strict=False))
        counts = figures.counts[1 + len(weight_sums) :]
        users, invalid = counts[: n_models * len(USER_COUNTS)], figures.counts[n_user_counts(self.task) :]
        return [
            {
                **shared,
                **dict(zip(USER_COUNTS, users[model * len(USER_COUNTS) :], strict=False)),
                **dict(zip(INVALID_COUNTS, invalid[model * len(INVALID_COUNTS) :], strict=False)),
            }
            for model in range(n_models)
        ]


def type_of_count(name: str) -> T.DataType:
    """The type of a column of a per-user table that counts or adds up."""
    return T.DoubleType() if name in WEIGHT_SUMS[1:] else T.LongType()


def of_somebody(per_user: DataFrame) -> DataFrame:
    """A per-user table without the row that belongs to nobody, which counts rows with a null user."""
    for field in per_user.schema.fields:
        if facts_of(field.metadata).get("kind") == "user":
            per_user = per_user.where(column(field.name).isNotNull())
    return per_user


def without_standards(per_user: DataFrame) -> DataFrame:
    """A per-user table without the columns that only a note is made of."""
    kinds = {field.name: facts_of(field.metadata).get("kind") for field in per_user.schema.fields}
    return per_user.select(*(column(name) for name, kind in kinds.items() if kind != "standard"))


def described(name: str, alias: str, facts: dict[str, Any]) -> Any:
    """A column of a per-user table that says what it is.

    Args:
        name: of the column.
        alias: its name in the table.
        facts: what it says of itself; `facts_of` reads it.
    """
    # Text keeps the metadata's types: numbers and None come back as they were, through any storage that keeps metadata.
    return F.col(name).alias(alias, metadata={METADATA_KEY: json.dumps(facts)})


def collected(
    states: DataFrame,
    empty: TableState,
    options: DescriptionOptions,
    *,
    n_keys: int = 0,
    roll: Callable[[Key], Iterable[Key]] = lambda key: [key],
) -> dict[Key, Figures]:
    """Merge the states of all partitions, in one action.

    Args:
        states: the states of a partition, as rows.
        empty: the state of no users.
        options: what is to be said of the values.
        n_keys: how many columns part the users.
        roll: the groups that the users of a key belong to.

    Returns:
        the figures of each group; of no row at all those of the group ``()``, or of what it rolls into.

    Raises:
        OptionError: states would be too large to be held. That is known before the action, but for how many groups there are.
    """
    n_bytes = _packed_size(empty, options, n_keys=n_keys)
    packed = collected_states(states, merge_batches, n_bytes, have_places=n_keys > 0)
    return _by_group(packed, empty, options, n_keys=n_keys, roll=roll)


def _packed_size(empty: TableState, options: DescriptionOptions, *, n_keys: int) -> int:
    """About how many bytes the state of a group has as it travels; the arguments are those of `collected`.

    Raises:
        OptionError: it does not fit into memory.
    """
    n_values, n_counts = (len(part["n"]) for part in (empty.values["moments"], empty.counts))
    return check_size(n_values, n_counts, options, n_keys=n_keys)


def check_size(n_values: int, n_counts: int, options: DescriptionOptions, *, n_keys: int) -> int:
    """About how many bytes the state of a group has as it travels.

    Args:
        n_values: how many values a user has.
        n_counts: how many counts.
        options: what is to be said of the values.
        n_keys: how many columns part the users.

    Raises:
        OptionError: it does not fit into memory.
    """
    n_bytes = bytes_of_a_group(n_values, n_counts, options)
    if n_bytes > (MERGED_BYTES if n_keys else _LARGEST_STATE):
        raise OptionError(_too_large(None, n_values - options.n_plain, options))
    return int(n_bytes * _PACKED)


def _by_group(
    packed: list[bytes],
    empty: TableState,
    options: DescriptionOptions,
    *,
    n_keys: int,
    roll: Callable[[Key], Iterable[Key]],
) -> dict[Key, Figures]:
    """The figures of the groups that users of each key belong to; as of `collected`.

    Args:
        packed: states; with keys, no two have one in common.
        empty: the state of no users.
        options: what is to be said of the values.
        n_keys: how many columns part the users.
        roll: the groups that the users of a key belong to.
    """
    n_values = len(empty.values["moments"]["n"]) - options.n_plain
    figures: dict[Key, Figures] = {}
    totals: dict[Key, TableState] = {}
    n_groups, fits = 0, True
    # One after the other: together they may be larger than the driver's memory.
    for tree in map(unpack, packed):
        n_lost = n_groups_of(tree)
        states = {} if n_lost is not None else as_states(tree)
        if n_keys:
            n_groups += len(states) if n_lost is None else n_lost
        fits = fits and n_lost is None and n_groups * n_values <= _MOST_FIGURES
        if not fits:
            continue
        parts: dict[Key, list[TableState]] = {}
        for key, state in states.items():
            # Rows of nobody are of no slice: what is wrong with them is counted among all.
            counted = state.counts["n"]
            nobody = n_keys and counted.size and counted[0] == 0 < counted[-1]
            rolled = list(roll(key))
            for group in rolled if not nobody else [max(rolled, key=lambda one: sum(v is EVERY for v in one))]:
                if n_keys and group == key:
                    figures[group] = _figures(merged_states([empty, state]), options)
                else:
                    parts.setdefault(group, []).append(state)
        for group, some in parts.items():
            totals[group] = merged_states([totals.get(group, empty), *some])
    if not fits:
        raise OptionError(_too_large(n_groups, n_values, options))
    # A table without a partition yields no state at all.
    if not n_keys or not (figures or totals):
        totals.setdefault((), empty)
    return figures | {group: _figures(state, options) for group, state in totals.items()}


def _too_large(n_groups: int | None, n_values: int, options: DescriptionOptions) -> str:
    """Why an evaluation is refused whose states would not fit into memory."""
    slices = "" if n_groups is None else f"{n_groups:,} slices × "
    replicates = f" × {options.replicates:,} replicates" if options.resamples else ""
    advice = ["fewer metrics or models a call"]
    if n_groups is not None:
        advice.insert(0, "attributes with fewer values in by=")
    if options.resamples:
        advice.append("fewer replicates, or ci='t'")
    return f"{slices}{n_values:,} values{replicates} do not fit into memory: take {', '.join(advice)}"


def _figures(state: TableState, options: DescriptionOptions) -> Figures:
    n_counts = len(state.counts["n"])
    counts = [moments_of({field: each[index] for field, each in state.counts.items()}) for index in range(n_counts)]
    return Figures(descriptions_of(state.values, options), counts)


def describe_table(
    per_user: DataFrame,
    users: list[str],
    values: list[str],
    counts: list[str],
    invalid: list[str],
    options: DescriptionOptions,
    keys: Sequence[Column] = (),
    roll: Callable[[Key], Iterable[Key]] = lambda key: [key],
    weight: str | None = None,
    normalisers: Mapping[str, str] | None = None,
    run: str | None = None,
) -> dict[Key, Figures]:
    """The figures of a per-user table, fresh or read back, in one action.

    Args:
        per_user: the table.
        users: its user columns; a row where one is null belongs to nobody.
        values: columns of values.
        counts: columns of users' counts.
        invalid: columns of counts of invalid rows.
        options: what is to be said of the values.
        keys: texts that part the rows into groups.
        roll: the groups that the rows of a key belong to.
        weight: the column of weights, where the options say that there is one.
        normalisers: the columns of normalisers by those of the values that have one; the options name the same places.
        run: a column of any type, such as that of the run, of which it matters whether all users of a group have the same.

    Returns:
        the figures of each group; its counts are those of users, then those of invalid rows. Before them come numbers that stand
        for the values of `run`, if there is one.
    """
    columns = {f"value_{index}": name for index, name in enumerate(values)}
    counted = {
        f"count_{index}": column(name).cast(type_of_count(name)) for index, name in enumerate([*counts, *invalid])
    }
    if run is not None:
        # A float holds such numbers exactly, and their sums.
        counted = {"run": F.pmod(F.xxhash64(column(run)), F.lit(_HASHES)), **counted}
    keyed = {f"key_{index}": named for index, named in enumerate(keys)}
    places = {values.index(name): normaliser for name, normaliser in (normalisers or {}).items()}
    own = {f"normaliser_{place}": name for place, name in places.items()}
    ids = [column(name) for name in users]
    hashed = [user_hash(ids, [per_user.schema[name].dataType for name in users])] if options.resamples else []
    frame = per_user.select(
        *(column(name).cast("double").alias(alias) for alias, name in columns.items()),
        *(count.alias(alias) for alias, count in counted.items()),
        *(named.alias(alias) for alias, named in keyed.items()),
        any_null(ids).alias(NO_USER),
        *hashed,
        *([] if weight is None else [column(weight).cast("double").alias(USER_WEIGHT)]),
        *(column(name).cast("double").alias(alias) for alias, name in own.items()),
    )
    names, n_of_users = tuple(counted), len(counted) - len(invalid)
    worker = state_of_columns(
        tuple(columns),
        names[:n_of_users],
        names[n_of_users:],
        options,
        NO_USER,
        tuple(keyed),
        {place: f"normaliser_{place}" for place in places},
    )
    empty = TableAccumulator(len(columns), n_of_users, len(invalid), options).state()
    states = run_on_workers(frame, worker, STATE_SCHEMA)
    return collected(states, empty, options, n_keys=len(keyed), roll=roll)
