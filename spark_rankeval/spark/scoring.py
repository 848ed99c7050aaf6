"""Score users in one action or as a lazy table, describe them by group, and count ids that should meet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import starmap
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.errors import EngineError, OptionError
from spark_rankeval.ranking.user_lists import Array
from spark_rankeval.records.summary import (
    ALL_VALUES,
    ItemGroup,
    Key,
    is_of_all,
    item_groups_in,
    rollup,
    rollup_with_items,
)
from spark_rankeval.request.call import FOUND, INVALID_COUNTS, WEIGHT_SUMS, CountNames, Overlap, SummaryOptions
from spark_rankeval.request.task import (
    GROUP_FACTS,
    NORMALISER,
    Reading,
    ScoringTask,
    Value,
    counts_of_models,
    user_counts,
)
from spark_rankeval.spark import sql
from spark_rankeval.spark.engine import MESSAGE_SCHEMA, collected_messages, merged_messages, run_on_workers
from spark_rankeval.spark.facts import relevant_rows
from spark_rankeval.spark.grouping import Grouping, hashed_tables, may_be_long
from spark_rankeval.spark.invalid_rows import Quarantine
from spark_rankeval.spark.per_user import MetricColumn, PerUserSchema, Settings, table_hash, type_of_count
from spark_rankeval.spark.source_tables import SourceTable
from spark_rankeval.spark.tables import Model, Sources, tables_of
from spark_rankeval.statistics.description import Description, DescriptionOptions, Figures, descriptions_of_groups
from spark_rankeval.statistics.exact import Moments, MomentsByName
from spark_rankeval.statistics.intervals import clusters_of
from spark_rankeval.statistics.resampling import digits_of
from spark_rankeval.worker import reading as grouped_row
from spark_rankeval.worker import scoring, states
from spark_rankeval.worker.features import JUDGED, MERGING_JUDGED, TwoJudges, with_judged_queries
from spark_rankeval.worker.process import KIND, Gathered, Mergers, Message, Run, features_of, without_collection

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_ID, _KEY = "id_", "key_"
# The columns of ids of each side, and how many there are of each and of both.
_SIDES = _LEFT, _RIGHT = ("left_", "right_")
_COUNTS = ("n_left_", "n_right_", "n_both_")
# Replacements in turn, after which ids that look alike are equal: of blanks around them, and of characters with an accent, composed or
# not. Leading zeros go, too, and the end of whole numbers that were doubles.
_ALIKE_IF = {r"^\s+|\s+$": "", r".\p{M}+|[^\x00-\x7F]": "?", "^0+([0-9])": "$1", r"([0-9])\.0+$": "$1"}


class Apart(NamedTuple):
    """Two columns of ids that have none in common."""

    n_left: int  # how many different ids there are
    n_right: int
    pair: tuple[str, str]  # one of each, which look alike if there is such a pair
    are_texts: bool


def overlaps_of(sources: Sources, task: ScoringTask) -> Iterator[Overlap]:
    """The ids of a call that should occur in its predictions, or among its labels."""
    if any(metric.reads_labels for metric in task.metrics):
        yield from (Overlap("labels", "items"), FOUND)
        if any(view.largest_cutoff is None for view in task.views):
            yield from (Overlap("labels", "first"), Overlap("labels", "last"))
    if sources.exclude is not None:
        yield from (Overlap("exclude", "users"), Overlap("exclude", "items"))
    # The intents of labels are of items that need not be predicted.
    tables = tables_of(task.facts, has_subtopic=True)
    yield from (Overlap(table, "items") for table in ("training", "items", "baseline") if table in tables)
    if any(fact.startswith("history") for fact in task.facts):
        yield Overlap("training", "users")
    if "baseline" in tables:
        yield Overlap("baseline", "users")
    if sources.intents is not None and sources.intents.category is not None:
        # Labelled items should be in the table of items.
        yield Overlap("intents", "items")


def ids_apart(sources: Sources, model: Model, overlap: Overlap) -> Apart | None:
    """Look whether the ids of an overlap occur anywhere in the other table, in one action; None if any does, or if there are none."""
    left, right = _tables(sources, model, overlap)
    if left is None or right is None:
        return None
    left_ids, right_ids = map(sql.named, _SIDES)
    rows = sql.rows_of_all([_ids(left, right, overlap, _LEFT), _ids(right, left, overlap, _RIGHT)])
    ids = sql.aggregate(_with_ids(rows), [_ID], *_each("max", _SIDES))
    key = sql.call("lower", sql.named(_ID))
    for pattern, replacement in _ALIKE_IF.items():
        key = sql.call("regexp_replace", key, sql.text(pattern), sql.text(replacement))
    both = left_ids.is_not_null() & right_ids.is_not_null()
    counted = zip(_COUNTS, (left_ids, right_ids, sql.when(both, left_ids)), strict=True)
    ids = sql.select(ids, key.alias(_KEY), left_ids, right_ids)
    counts = [sql.call("count", values).alias(name) for name, values in counted]
    keys = sql.aggregate(ids, [_KEY], *counts, *_each("min", _SIDES))
    alike = sql.call("min", sql.when(both, sql.call("struct", left_ids, right_ids))).alias(_KEY)
    sums = sql.aggregate(keys, (), *_each("sum", _COUNTS), *_each("min", _SIDES), alike)
    pair = (sql.readable(sql.call("coalesce", sql.named(_KEY).field(side), sql.named(side))) for side in _SIDES)
    n_left, n_right, n_both, one, other = sql.select(sums, *map(sql.named, _COUNTS), *pair).collect()[0]
    if n_both or not n_left or not n_right:
        return None
    kinds = left.user_types if overlap.kind == "users" else [left.item_type]
    return Apart(n_left, n_right, (one, other), any(isinstance(kind, T.StringType) for kind in kinds))


def relevant_in_no_list(sources: Sources, threshold: float | None) -> tuple[int, int]:
    """How many different items are relevant to anybody, and how many of these no list of any model has, in one action; labels are rows."""
    labels, lists = sources.labels, {id(model.source.frame): model.source for model in sources.models}
    overlap, relevant = Overlap("labels", "items"), replace(labels, frame=relevant_rows(labels, threshold))
    tables = [_ids(relevant, next(iter(lists.values())), overlap, _LEFT)]
    ids = sql.rows_of_all([*tables, *(_ids(each, labels, overlap, _RIGHT) for each in lists.values())])
    # They are few, so one task counts them without a shuffle.
    ids = sql.aggregate(_with_ids(ids).coalesce(1), [_ID], *_each("max", _SIDES))
    unlisted = sql.when(sql.named(_RIGHT).is_null(), sql.named(_LEFT))
    counts = (sql.call("count", sql.named(_LEFT)).alias(_LEFT), sql.call("count", unlisted).alias(_RIGHT))
    n_relevant, n_unlisted = sql.aggregate(ids, (), *counts).collect()[0]
    return n_relevant, n_unlisted


def _with_ids(rows: DataFrame) -> DataFrame:
    """Rows that have an id in the column of a side, and that id."""
    sides = list(map(sql.named, _SIDES))
    return sql.where(sql.select(rows, sql.call("coalesce", *sides).alias(_ID), *sides), sql.named(_ID).is_not_null())


def _each(function: str, names: Iterable[str]) -> list[sql.Sql]:
    """Aggregates of columns under their own names."""
    return [sql.call(function, sql.named(name)).alias(name) for name in names]


def _tables(sources: Sources, model: Model, overlap: Overlap) -> tuple[SourceTable | None, SourceTable | None]:
    """The table of an overlap, and the other one."""
    predictions = model.source
    if overlap.role == "intents":
        return sources.labels, sources.items
    if sources.model_column is not None:
        is_of_model = sql.text_in_sql(predictions.frame, sources.model_column) == sql.text_of(model.name)
        predictions = replace(predictions, frame=sql.where(predictions.frame, is_of_model))
    candidates = None
    if predictions.vectors is not None:
        candidates = predictions.vectors.candidates
        predictions = predictions.vectors.items if overlap.kind == "items" else predictions
    tables = {
        "labels": sources.labels, "exclude": sources.exclude, "candidates": candidates, "training": sources.training,
        "items": sources.items, "baseline": sources.baseline,
    }  # fmt: skip
    return tables[overlap.role], predictions


def _ids(source: SourceTable, other: SourceTable, overlap: Overlap, side: str) -> DataFrame:
    """The ids of a table as text, in the column of the side that they are of."""
    if overlap.kind == "users":
        pairs = zip(source.users_sql(), source.user_types, other.user_types, strict=True)
        rows = sql.where(source.frame, sql.all_of(user.is_not_null() for user in source.users_sql()))
        ids = sql.call("concat_ws", sql.text(", "), *starmap(_as_text, pairs))
    else:
        entries = sql.call("explode", source.ids_sql()) if source.arrays else source.ids_sql()
        rows = sql.select(source.frame, entries.alias(_ID))
        ids = _as_text(sql.named(_ID), source.item_type, other.item_type)
    return sql.select(rows, *((ids if name == side else sql.null_of(T.StringType())).alias(name) for name in _SIDES))


def _as_text(ids: sql.Sql, kind: T.DataType, other: T.DataType) -> sql.Sql:
    """Ids as text that is equal if they are equal to ids of the other type."""
    common = sql.common_id_type(kind, other) or kind
    return sql.as_text(ids.cast(common), common)


# How many figures a result has at the most: the driver takes some 2 GB for so many, and minutes.
_MOST_FIGURES = 500_000
# How much memory the state of all users takes at the most: a worker has it some times over while it merges.
_LARGEST_STATE = 1 << 28
# How much of a state is left when it is packed.
_PACKED = 0.35
# So many values of a column of any type get different numbers.
_HASHES = 2**40
#: The count that tells whether all users of a group have the same value in a column.
RUN = "run"


def shared_count(groups: Mapping[Key, Figures], name: str, n_before: int = 0) -> int:
    """A count that is the same for every user, such as how large a table is; 0 if no user has it.

    The first `n_before` entries of a key are no attributes.
    """
    everybody = [group.counts for key, group in groups.items() if is_of_all(key[n_before:])]
    moments = [counts[name] for counts in everybody if name in counts]
    return max((int(count.greatest) for count in moments if count.n), default=0)


class Groups(NamedTuple):
    """How users are described in groups."""

    names: CountNames  # of the counts
    n_values: int  # how many values a user has
    options: DescriptionOptions  # what is to be said of the values
    n_keys: int  # how many columns part the users
    rollup: states.Rollup  # the groups that the users of a key belong to
    # The attributes of items: an entry each of a group, but of a key two, an attribute and its value.
    items: tuple[str, ...] = ()
    judges: TwoJudges | None = None  # who graded the labels, if each value has sums of both judges

    @property
    def empty(self) -> states.GroupStates:
        """The state of no users."""
        return states.StateAccumulator(self.n_values, self.names, self.options).states()

    @property
    def layout(self) -> states.ClusterLayout | None:
        """The rows of users who go on to their clusters; None if users are independent."""
        if not self.options.clustered:
            return None
        layout = states.ClusterLayout.for_options(self.n_values, self.options, self.n_keys, self.rollup)
        # Users of a group of items are never put together with others: both columns that tell it stay.
        masks = tuple((*each[len(self.items) :], True, True) for each in layout.masks)
        return layout._replace(masks=masks) if self.items else layout

    @property
    def states_of_parts(self) -> states.StatesOfParts:
        """What adds up the states of groups, and the users of small ones, who travel as they are."""
        return partial(states.states_of, n_values=self.n_values, names=self.names, options=self.options)

    @property
    def mergers(self) -> Mergers:
        """What merges the messages of states, by kind."""
        # How much memory the state of a group that users travel for takes at the least; 0 if only states travel.
        least_bytes = self.empty.n_bytes if self.n_keys and not self.options.resamples else 0
        merging = states.merging_states(self.states_of_parts, self.layout, least_bytes=least_bytes)
        return merging if self.judges is None else {**merging, JUDGED: MERGING_JUDGED}

    def sums_of_clusters(self, group: Key, clusters: states.ClusterStates) -> dict[str, Array] | None:
        """The sums of the clusters of a group; None if it has none."""
        if self.items:
            item_values, user_values = group[: len(self.items)], group[len(self.items) :]
            named = [pair for pair in zip(self.items, item_values, strict=True) if pair[1] is not ALL_VALUES]
            group = (*user_values, *(named[0] if named else (None, None)))
        return clusters.get(states.group_name(group))

    def size(self) -> int:
        """About how many bytes the state of a group has as it travels; an OptionError if it does not fit into memory."""
        n_counts = len(self.names.users) + len(self.names.rows)
        n_bytes = states.bytes_of_a_group(self.n_values, n_counts, self.options)
        if n_bytes > (states.MERGED_BYTES if self.n_keys else _LARGEST_STATE):
            raise OptionError(_too_large(None, self.n_values - self.options.n_plain, self.options))
        return int(n_bytes * _PACKED)


def collected(messages: DataFrame, groups: Groups) -> dict[Key, Figures]:
    """The figures of each group, from the states of all partitions, in one action.

    Without any row they are those of the group ``()``, or of what it rolls into. States that are too large are an OptionError,
    before the action, but for how many groups there are.
    """
    return figures_by_group(messages_of_groups(messages, groups), groups)


def computed_lazily(messages: DataFrame, groups: Groups, run: Run, schema: T.StructType) -> DataFrame:
    """What a worker makes of the merged messages of all partitions, as a lazy table; `run` gets them in one partition."""
    groups.size()
    return run_on_workers(merged_messages(messages, groups.mergers).repartition(1), run, schema)


def messages_of_groups(messages: DataFrame, groups: Groups, features: Mergers | None = None) -> list[Message]:
    """The messages of all partitions, merged in one action; with keys, no two of them have a group in common.

    `features` has what merges the messages of features, by kind.
    """
    n_bytes = groups.size()
    have_buckets = groups.n_keys > 0 or groups.options.clustered or groups.judges is not None or bool(features)
    return collected_messages(messages, {**groups.mergers, **(features or {})}, n_bytes, have_buckets=have_buckets)


@without_collection
def figures_by_group(messages: list[Message], groups: Groups) -> dict[Key, Figures]:
    """The figures of the groups that users of each key belong to; with keys, no two messages have one in common."""
    options, n_keys = groups.options, groups.n_keys
    n_values = groups.n_values - options.n_plain
    clusters: states.ClusterStates = {}
    if options.clustered:
        # They are few numbers a group, and are needed before the groups are described.
        clusters = states.merged_clusters(messages)
    figures: dict[Key, Figures] = {}
    totals = states.GroupStates([], {})
    n_groups, fits = 0, True
    # One after the other: together they may be larger than the driver's memory.
    for merged in (message.state for message in messages if message.kind == states.STATES):
        # Of groups that could not be held there is the number alone.
        is_lost = isinstance(merged, int)
        if n_keys:
            n_groups += merged if is_lost else len(merged.keys)
        fits = fits and not is_lost and n_groups * n_values <= _MOST_FIGURES
        if not fits:
            continue
        finest, rolled = _rolled_up(merged, groups)
        if figures.keys() & set(finest.keys):
            # A group in two states would lose users.
            msg = "the engine left users of one slice in two places, so figures would be wrong; use PySpark"
            raise EngineError(msg)
        figures |= _figures(finest, groups, clusters)
        totals = states.GroupStates.merged([totals, rolled])
    if not fits:
        raise OptionError(_too_large(n_groups, n_values, options))
    # A table without a partition yields no state at all.
    if not totals.keys and not (n_keys and figures):
        totals = groups.empty
    figures |= _figures(totals, groups, clusters)
    if groups.judges is None:
        return figures
    return with_judged_queries(figures, messages, groups.judges.pairs, is_clustered=options.clustered)


def _rolled_up(group_states: states.GroupStates, groups: Groups) -> tuple[states.GroupStates, states.GroupStates]:
    """The states of groups by all keys that there are, and those of the groups that several keys belong to."""
    if not group_states.keys:
        return group_states, group_states
    n_counted = group_states.parts[states.COUNTS]["n"]
    # Rows without a user are of no slice: what is wrong with them is counted among all.
    has_users = np.ones(len(group_states.keys), np.bool_)
    if groups.n_keys and n_counted.shape[1]:
        has_users = (n_counted[:, 0] > 0) | (n_counted[:, -1] == 0)
    finest: list[int] = []
    # By the columns that are rolled up: all totals at once would be as many copies of the states.
    rolled: dict[tuple[bool, ...], list[tuple[int, Key]]] = {}
    for place, key in enumerate(group_states.keys):
        key_groups = list(groups.rollup(key))
        for group in key_groups if has_users[place] else [max(key_groups, key=lambda each: each.count(ALL_VALUES))]:
            if groups.n_keys and group == key:
                finest.append(place)
            else:
                rolled.setdefault(tuple(value is ALL_VALUES for value in group), []).append((place, group))
    totals = states.GroupStates.merged(
        group_states.take([place for place, _ in pairs]).summed([group for _, group in pairs])
        for pairs in rolled.values()
    )
    return group_states.take(finest), totals


def _too_large(n_groups: int | None, n_values: int, options: DescriptionOptions) -> str:
    slices = "" if n_groups is None else f"{n_groups:,} slices × "
    replicates = f" × {options.replicates:,} replicates" if options.resamples else ""
    advice = ["fewer metrics or models a call"]
    if n_groups is not None:
        advice.insert(0, "attributes with fewer values in by=")
    if options.resamples:
        advice.append("fewer replicates, or ci='t'")
    return f"{slices}{n_values:,} values{replicates} do not fit into memory; use {', '.join(advice)}"


def _figures(group_states: states.GroupStates, groups: Groups, clusters: states.ClusterStates) -> dict[Key, Figures]:
    """The figures of some groups from their states, all of them in one go."""
    if not group_states.keys:
        return {}
    layout = groups.layout
    group_clusters = None
    if layout is not None:
        group_sums = [groups.sums_of_clusters(group, clusters) for group in group_states.keys]
        group_clusters = [clusters_of(layout.new_sums().state() if each is None else each) for each in group_sums]
    described = descriptions_of_groups(group_states.parts, groups.options, group_clusters)
    names = (*groups.names.users, *groups.names.rows)
    return {
        group: Figures(
            values,
            MomentsByName(
                names, {field: entries[number] for field, entries in group_states.parts[states.COUNTS].items()}
            ),
            # In the order of their names, which packed states have lost.
            {table: digits_of(group_states.parts[states.FINGERPRINTS][table][number]) for table in groups.names.tables},
        )
        for number, (group, values) in enumerate(zip(group_states.keys, described, strict=True))
    }


def states_of_table(
    per_user: DataFrame, schema: PerUserSchema, options: DescriptionOptions, run: str | None, *, totals: bool
) -> tuple[DataFrame, Groups]:
    """The lazy states of a per-user table, fresh or read back, as messages, and the groups that they are of: by model and slice.

    A row with a null user belongs to no user. A count `RUN` tells whether all users of a group have the same value in the column `run`.
    """
    standards = [metric.standard_column for metric in schema.metrics if metric.standard_column]
    values = [*(metric.column for metric in schema.metrics), *standards]
    columns = {f"value_{index}": name for index, name in enumerate(values)}
    normalisers = {index: metric.normaliser for index, metric in enumerate(schema.metrics) if metric.normaliser}
    named_normalisers = {index: f"normaliser_{index}" for index in normalisers}
    counts_of_users = [name for name in schema.counts if name not in INVALID_COUNTS]
    counts_of_rows = [name for name in schema.counts if name in INVALID_COUNTS]
    counted = {name: sql.column(name).cast(type_of_count(name)) for name in (*counts_of_users, *counts_of_rows)}
    if run is not None:
        # A float holds such numbers exactly, and their sums. Sail panics at the bare hash of a column that is the name of a folder.
        counted[RUN] = F.pmod(F.xxhash64(F.coalesce(sql.column(run).cast("string"), F.lit(""))), F.lit(_HASHES))
        counts_of_users.append(RUN)
    # Without ids of users there are no fingerprints beside clusters, see `_hashes_of_users`.
    hashes = {} if options.clustered and not schema.users else schema.hashes
    counts = CountNames(tuple(counts_of_users), tuple(counts_of_rows), tuple(hashes))
    models, judges = [] if schema.model is None else [schema.model], schema.two_judges
    keys = [
        *(sql.model_in(per_user, name) for name in models),
        *(sql.name_in_sql(per_user, name).column for name in schema.slices),
    ]
    keyed = {f"key_{index}": key for index, key in enumerate(keys)}
    strata = [] if schema.stratum is None or judges is None else [sql.name_in_sql(per_user, schema.stratum)]
    frame = per_user.select(
        *(stratum.alias(grouped_row.STRATUM).column for stratum in strata),
        *(sql.column(name).cast("double").alias(alias) for alias, name in columns.items()),
        *(count.alias(alias) for alias, count in counted.items()),
        *(named.alias(alias) for alias, named in keyed.items()),
        sql.any_null([sql.column(name) for name in schema.users]).alias(grouped_row.NO_USER),
        *_hashes_of_users(per_user, schema, options),
        *([] if schema.weight is None else [sql.column(schema.weight).cast("double").alias(grouped_row.USER_WEIGHT)]),
        *(sql.column(name).cast("double").alias(named_normalisers[index]) for index, name in normalisers.items()),
        *(sql.column(name).cast("bigint").alias(grouped_row.hash_column(table)) for table, name in hashes.items()),
    )
    rolled = rollup(len(schema.slices), totals=totals, n_before=len(models))
    described = Groups(counts, len(columns), options, len(keyed), rolled, judges=judges)
    worker = states.state_of_columns(tuple(columns), counts, options, tuple(keyed), named_normalisers, judges)
    return run_on_workers(frame, worker, MESSAGE_SCHEMA), described


def _hashes_of_users(per_user: DataFrame, schema: PerUserSchema, options: DescriptionOptions) -> list[Column]:
    """The hash of each user, and that of the user's cluster, as far as they are needed."""
    if not options.clustered:
        # The values distinguish users without a name.
        is_needed = schema.users and (options.resamples or schema.hashes)
        return [sql.hash_in(per_user, schema.users).column.alias(grouped_row.USER_HASH)] if is_needed else []
    has_none = sql.any_null([sql.column(name) for name in schema.clusters])
    cluster = F.when(~has_none, sql.hash_in(per_user, schema.clusters).column)
    # Without ids of users each user without a cluster gets an id that is of this job alone.
    alone = F.when(has_none, F.xxhash64(F.monotonically_increasing_id()))
    user = sql.hash_in(per_user, schema.users).column if schema.users else F.coalesce(alone, F.lit(0))
    return [user.alias(grouped_row.USER_HASH), cluster.alias(grouped_row.CLUSTER_HASH)]


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
        """This scoring with what the notes and warnings of a result need: values by other definitions, and whether ids match."""
        reading = self.reading.with_standards()
        task = replace(reading.task, overlaps=tuple(overlaps_of(self.sources, reading.task)))
        return replace(self, reading=replace(reading, task=task))

    def description(self, summary: SummaryOptions) -> DescriptionOptions:
        """How the users' values are described."""
        sources, reading = self.sources, self.reading
        options = summary.described(weighted=summary.user_weight is not None, clustered=bool(sources.clusters))
        return replace(options, normalised=reading.task.normalised, n_plain=len(reading.standard_values))

    def check_memory(self, summary: SummaryOptions) -> None:
        """Refuse, without a job, figures of users that do not fit into memory."""
        self._groups(self.description(summary), totals=summary.totals).size()

    def sampled(self) -> Scoring:
        """This scoring, knowing whether a user's list may not fit into memory; if the tables are large, a job draws rows of them."""
        models = [model.source for model in self.sources.models if not model.source.arrays]
        if self.stored is not None or not models or not replace(self, has_long_lists=True).grouping.plan.keep:
            return self
        return replace(self, has_long_lists=may_be_long(models, self.sources.model_column))

    @cached_property
    def grouping(self) -> Grouping:
        """How the tables become one row per user."""
        return Grouping(self.sources, self.reading.task, self.has_long_lists)

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
            hashes={table: table_hash(table) for table in hashed_tables(self.sources, n_models=1)},
            slices=sources.slices,
            orders=sources.orders,
            weight=sources.weight_count or sources.weight,
            clusters=sources.clusters,
            stratum=sources.judged.get(grouped_row.STRATUM),
            model=self.model_column if task.models != ("",) else None,
            models=task.models,
            settings=self.settings,
        )

    def per_user(self) -> DataFrame:
        """The lazy table of every user: the user's columns, a double a metric, and counts.

        Rows whose user is null belong to no user: they are kept, with NaN and the count of what was wrong.
        """
        task, schema, grouping = self._task_of_users, self.schema, self.grouping
        values = self.value_names
        names_by_column = dict(zip(self.reading.columns, values, strict=True))
        normalised = [values[index] for index in task.normalised if index < len(values)]
        compared = [value for value in self.reading.standard_values if value.model == task.models[0]]
        keys = [(value.relevance, value.label) for value in compared]
        standards = {key: scoring.standard_value_column(index) for index, key in enumerate(keys)}
        attributes = self._attributes_of_rows
        text, double = T.StringType(), T.DoubleType()
        kinds = [
            *zip(grouping.sources.user_columns, grouping.sources.user_types, strict=True),
            *((name, double if name == grouped_row.USER_WEIGHT else text) for name in attributes),
            (scoring.MODEL, text),
            *((name, double) for name in values),
            *((name, type_of_count(name)) for name in schema.counts),
            *((f"{name}{NORMALISER}", double) for name in normalised),
            *((name, double) for name in standards.values()),
            *((grouped_row.hash_column(table), T.LongType()) for table in schema.hashes),
        ]
        if self.stored is None:
            run, frame = scoring.score_batches(task, self._rows), grouping.frame(with_users=True)
        else:
            run, frame = scoring.rows_in_messages, self.stored.where(F.col(KIND) == scoring.USER_ROWS)
        scored = run_on_workers(frame, run, T.StructType([T.StructField(name, kind) for name, kind in kinds]))
        ours = [
            *grouping.sources.user_columns,
            *attributes,
            *([] if schema.model is None else [scoring.MODEL]),
            *(names_by_column[metric.column] for metric in schema.metrics),
            *schema.counts,
            *(f"{names_by_column[metric.column]}{NORMALISER}" for metric in schema.metrics if metric.normaliser),
            *(standards[metric.relevance, metric.label] for metric in schema.metrics if metric.standard_column),
            *map(grouped_row.hash_column, schema.hashes),
        ]
        return scored.select(*schema.marked([F.col(name) for name in ours]))

    @property
    def value_names(self) -> tuple[str, ...]:
        """Names of our own until the last step: the caller's may hold any character, or be one of ours."""
        return tuple(f"metric_{index}" for index in range(len(self.reading.columns)))

    @property
    def _rows(self) -> scoring.Rows:
        """What makes rows of the per-user table in workers."""
        users = (*self.grouping.sources.user_columns, *self._attributes_of_rows)
        return scoring.rows_of_users(self._task_of_users, users, self.value_names, tuple(self.schema.hashes))

    @property
    def _attributes_of_rows(self) -> tuple[str, ...]:
        """The attributes of users in the per-user table; who was graded by people is one of its counts."""
        judged = [
            name
            for name in self.sources.judged
            if name != grouped_row.STRATUM or self.sources.judged[name] in self.sources.slices
        ]
        return tuple(name for name in self.grouping.attributes if name not in judged)

    def quarantine(self) -> Quarantine:
        """The rows that are not ranked, each with its reason; see `Result.quarantine`."""
        return Quarantine(self.sources, self.reading.task)

    def describe(self, options: DescriptionOptions, *, totals: bool = False) -> EvaluationFigures:
        """The figures of every metric, of those beside them and of every count, in one action."""
        by_group = self.describe_values(options, totals=totals)
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
        return EvaluationFigures(
            figures, totals_in(task, by_group), self.grouping.plan.words, self._item_groups(by_group)
        )

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

    def describe_values(self, options: DescriptionOptions, *, totals: bool = False) -> dict[Key, Figures]:
        """The figures of each key, by the indices of the values in the task, those of the metrics beside them last.

        A value of all lists together is the mean of the figures, which then stand on as many users as have a list.
        """
        task, groups = self.reading.task, self._groups(options, totals=totals)
        features = features_of(task)
        mergers = {kind: merger for feature in features for kind, merger in feature.mergers(options).items()}
        messages = messages_of_groups(self._states(options, groups), groups, mergers)
        figures: Mapping[Key, Figures] = figures_by_group(messages, groups)
        gathered = Gathered(task, messages, totals_in(task, figures), options)
        for feature in features:
            figures = feature.figures(figures, gathered)
        return dict(figures)

    def with_rows(self, summary: SummaryOptions) -> DataFrame:
        """Messages with the states of all users and with their rows of the per-user table, for `stored`."""
        options = self.description(summary)
        return self._states(options, self._groups(options, totals=summary.totals), rows=self._rows)

    @property
    def _keys(self) -> tuple[str, ...]:
        user_keys = tuple(grouped_row.slice_column(index) for index in range(len(self.sources.slices)))
        return (*user_keys, *(key for feature in features_of(self.reading.task) for key in feature.keys))

    def _groups(self, options: DescriptionOptions, *, totals: bool) -> Groups:
        task, items = self.reading.task, self.item_attributes
        rolled = rollup(len(self.sources.slices), totals=totals)
        rolled = rollup_with_items(rolled, items) if items else rolled
        counts = scoring.count_names(task, hashed_tables(self.sources, n_models=len(self.sources.models)))
        return Groups(counts, task.n_values, options, len(self._keys), rolled, items)

    def _states(self, options: DescriptionOptions, groups: Groups, *, rows: scoring.Rows | None = None) -> DataFrame:
        """The states of all partitions' users, as of `state_of_batches`."""
        if self.stored is not None:
            return self.stored.where(F.col(KIND) != scoring.USER_ROWS)
        run = states.state_of_batches(
            self.reading.task, options, self._keys, groups.rollup, tables=groups.names.tables, rows=rows
        )
        has_ids = options.clustered or bool(self.grouping.sources.user_columns)
        users = self.grouping.frame(with_users=rows is not None, with_user_hash=has_ids)
        return run_on_workers(users, run, MESSAGE_SCHEMA)

    def _fingerprints_of(self, group: Figures, model: int) -> dict[str, str]:
        """The fingerprints of the tables of a model, by its index."""
        tables = hashed_tables(self.sources, n_models=1)
        predictions = group.fingerprints[grouped_row.column_of_model("predictions", model)]
        return {table: group.fingerprints[table] for table in tables} | {"predictions": predictions}

    def counts_of(self, group: Figures, model: int) -> dict[str, Moments]:
        """The counts of a model, by its index, from those of all models."""
        shared = {name: group.counts[name] for name in WEIGHT_SUMS if name in group.counts}
        return {
            **shared,
            **{name: group.counts[scoring.count_of_model(name, model)] for name in counts_of_models(self.reading.task)},
        }


def totals_in(task: ScoringTask, groups: Mapping[Key, Figures]) -> dict[str, int]:
    """How large the tables of facts are, and how much of them cannot be used: every user has the same numbers."""
    return {name: shared_count(groups, name) for name in task.totals}
