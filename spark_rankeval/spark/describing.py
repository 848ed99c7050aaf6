"""Describe many users in one action: the figures of a per-user table, or of the states that workers made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pyspark.sql import functions as F

from spark_rankeval.errors import EngineError, OptionError
from spark_rankeval.ranking.ragged import Array
from spark_rankeval.records.slices import ALL_VALUES, Key, is_of_all
from spark_rankeval.request.counts import CountNames
from spark_rankeval.spark.ids import hash_in
from spark_rankeval.spark.per_user import type_of_count
from spark_rankeval.spark.sql_text import any_null, column
from spark_rankeval.spark.tasks import MESSAGE_SCHEMA, collected_messages, merged_messages, run_on_workers
from spark_rankeval.statistics.cluster_sums import clusters_of
from spark_rankeval.statistics.description import DescriptionOptions, Figures, descriptions_of_groups
from spark_rankeval.statistics.moments import Moments, MomentsByName
from spark_rankeval.statistics.table_fingerprints import digits_of
from spark_rankeval.wire import Mergers, Message
from spark_rankeval.worker.clusters import (
    ClusterLayout,
    ClusterStates,
    Rollup,
    group_name,
    merged_clusters,
    no_clusters,
)
from spark_rankeval.worker.group_states import (
    COUNTS,
    FINGERPRINTS,
    STATES,
    GroupStates,
    StateAccumulator,
    bytes_of_a_group,
    states_of,
)
from spark_rankeval.worker.grouped_row import CLUSTER_HASH, NO_USER, STRATUM, USER_HASH, USER_WEIGHT, hash_column
from spark_rankeval.worker.judged_sums import JUDGED, JudgedMerger, TwoJudges, with_judged_moments
from spark_rankeval.worker.process import Run, without_collection
from spark_rankeval.worker.states import MERGED_BYTES, StatesOfUsers, merging_states, state_of_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import types as T


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


def count_moments(groups: Mapping[Key, Figures], name: str, n_before: int = 0) -> list[Moments]:
    """The moments of a count over all users, if it is counted; the first `n_before` entries of a key are no attributes."""
    everybody = [group.counts for key, group in groups.items() if is_of_all(key[n_before:])]
    return [counts[name] for counts in everybody if name in counts]


def shared_count(groups: Mapping[Key, Figures], name: str, n_before: int = 0) -> int:
    """A count that is the same for every user, such as how large a table is; 0 if no user has it."""
    return max((int(count.greatest) for count in count_moments(groups, name, n_before) if count.n), default=0)


class Groups(NamedTuple):
    """How users are described in groups."""

    names: CountNames  # of the counts
    n_values: int  # how many values a user has
    options: DescriptionOptions  # what is to be said of the values
    n_keys: int  # how many columns part the users
    rollup: Rollup  # the groups that the users of a key belong to
    items: tuple[
        str, ...
    ] = ()  # the attributes of items: an entry each of a group, but of a key two, an attribute and its value
    judges: TwoJudges | None = None  # who graded the labels, if each value has sums of both judges

    @property
    def empty(self) -> GroupStates:
        """The state of no users."""
        return StateAccumulator(self.n_values, self.names, self.options).states()

    @property
    def least_bytes(self) -> int:
        """How much memory the state of a group that users travel for takes at the least; 0 if only states travel."""
        return self.empty.n_bytes if self.n_keys and not self.options.resamples else 0

    @property
    def layout(self) -> ClusterLayout | None:
        """The rows of users who go on to their clusters; None if users are independent."""
        if not self.options.clustered:
            return None
        layout = ClusterLayout.for_options(self.n_values, self.options, self.n_keys, self.rollup)
        # Users of a group of items are never put together with others: both columns that tell it stay.
        masks = tuple((*each[len(self.items) :], True, True) for each in layout.masks)
        return layout._replace(masks=masks) if self.items else layout

    @property
    def states_of_users(self) -> StatesOfUsers:
        """What adds up the users of small groups, who travel as they are."""
        return partial(states_of, n_values=self.n_values, names=self.names, options=self.options)

    @property
    def mergers(self) -> Mergers:
        """What merges the messages of states, by kind."""
        merging = merging_states(self.states_of_users, self.layout, least_bytes=self.least_bytes)
        return merging if self.judges is None else {**merging, JUDGED: JudgedMerger}

    def sums_of_clusters(self, group: Key, states: ClusterStates) -> dict[str, Array] | None:
        """The sums of the clusters of a group; None if it has none."""
        if self.items:
            item_values, user_values = group[: len(self.items)], group[len(self.items) :]
            named = [pair for pair in zip(self.items, item_values, strict=True) if pair[1] is not ALL_VALUES]
            group = (*user_values, *(named[0] if named else (None, None)))
        return states.get(group_name(group))

    def size(self) -> int:
        """About how many bytes the state of a group has as it travels; an OptionError if it does not fit into memory."""
        n_counts = len(self.names.users) + len(self.names.rows)
        return check_size(self.n_values, n_counts, self.options, n_keys=self.n_keys)


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


def check_size(n_values: int, n_counts: int, options: DescriptionOptions, *, n_keys: int) -> int:
    """About how many bytes the state of a group has as it travels; an OptionError if it does not fit into memory."""
    n_bytes = bytes_of_a_group(n_values, n_counts, options)
    if n_bytes > (MERGED_BYTES if n_keys else _LARGEST_STATE):
        raise OptionError(_too_large(None, n_values - options.n_plain, options))
    return int(n_bytes * _PACKED)


@without_collection
def figures_by_group(messages: list[Message], groups: Groups) -> dict[Key, Figures]:
    """The figures of the groups that users of each key belong to; with keys, no two messages have one in common."""
    options, n_keys = groups.options, groups.n_keys
    n_values = groups.n_values - options.n_plain
    clusters: ClusterStates = {}
    if options.clustered:
        # They are few numbers a group, and are needed before the groups are described.
        clusters = merged_clusters(messages)
    figures: dict[Key, Figures] = {}
    totals = GroupStates([], {})
    n_groups, fits = 0, True
    # One after the other: together they may be larger than the driver's memory.
    for merged in (message.state for message in messages if message.kind == STATES):
        # Of groups that could not be held there is the number alone.
        is_lost = isinstance(merged, int)
        if n_keys:
            n_groups += merged if is_lost else len(merged.keys)
        fits = fits and not is_lost and n_groups * n_values <= _MOST_FIGURES
        if not fits:
            continue
        finest, rolled = _rolled_up(merged, groups)
        figures |= _figures(_apart(finest, figures), groups, clusters)
        totals = GroupStates.merged([totals, rolled])
    if not fits:
        raise OptionError(_too_large(n_groups, n_values, options))
    # A table without a partition yields no state at all.
    if not totals.keys and not (n_keys and figures):
        totals = groups.empty
    figures |= _figures(totals, groups, clusters)
    if groups.judges is None:
        return figures
    return with_judged_moments(figures, messages, groups.judges.pairs, is_clustered=options.clustered)


def _rolled_up(states: GroupStates, groups: Groups) -> tuple[GroupStates, GroupStates]:
    """The states of groups by all keys that there are, and those of the groups that several keys belong to."""
    if not states.keys:
        return states, states
    n_counted = states.parts[COUNTS]["n"]
    # Rows without a user are of no slice: what is wrong with them is counted among all.
    has_users = np.ones(len(states.keys), np.bool_)
    if groups.n_keys and n_counted.shape[1]:
        has_users = (n_counted[:, 0] > 0) | (n_counted[:, -1] == 0)
    finest: list[int] = []
    # By the columns that are rolled up: all totals at once would be as many copies of the states.
    rolled: dict[tuple[bool, ...], list[tuple[int, Key]]] = {}
    for number, key in enumerate(states.keys):
        key_groups = list(groups.rollup(key))
        for group in key_groups if has_users[number] else [max(key_groups, key=lambda each: each.count(ALL_VALUES))]:
            if groups.n_keys and group == key:
                finest.append(number)
            else:
                rolled.setdefault(tuple(value is ALL_VALUES for value in group), []).append((number, group))
    totals = GroupStates.merged(
        states.take([number for number, _ in pairs]).summed([group for _, group in pairs]) for pairs in rolled.values()
    )
    return states.take(finest), totals


def _apart(states: GroupStates, figures: Mapping[Key, Figures]) -> GroupStates:
    """States of groups without figures so far; a group in two states would lose users."""
    if figures.keys() & set(states.keys):
        msg = "the engine left users of one slice in two places, so figures would be wrong; use PySpark"
        raise EngineError(msg)
    return states


def _too_large(n_groups: int | None, n_values: int, options: DescriptionOptions) -> str:
    slices = "" if n_groups is None else f"{n_groups:,} slices × "
    replicates = f" × {options.replicates:,} replicates" if options.resamples else ""
    advice = ["fewer metrics or models a call"]
    if n_groups is not None:
        advice.insert(0, "attributes with fewer values in by=")
    if options.resamples:
        advice.append("fewer replicates, or ci='t'")
    return f"{slices}{n_values:,} values{replicates} do not fit into memory; use {', '.join(advice)}"


def _figures(states: GroupStates, groups: Groups, clusters: ClusterStates) -> dict[Key, Figures]:
    """The figures of some groups from their states, all of them in one go."""
    if not states.keys:
        return {}
    layout = groups.layout
    group_clusters = None
    if layout is not None:
        group_sums = [groups.sums_of_clusters(group, clusters) for group in states.keys]
        group_clusters = [clusters_of(no_clusters(layout) if each is None else each) for each in group_sums]
    described = descriptions_of_groups(states.parts, groups.options, group_clusters)
    names = (*groups.names.users, *groups.names.rows)
    return {
        group: Figures(
            values,
            MomentsByName(names, {field: entries[number] for field, entries in states.parts[COUNTS].items()}),
            # In the order of their names, which packed states have lost.
            {table: digits_of(states.parts[FINGERPRINTS][table][number]) for table in groups.names.tables},
        )
        for number, (group, values) in enumerate(zip(states.keys, described, strict=True))
    }


def states_of_table(
    per_user: DataFrame,
    users: list[str],
    values: list[str],
    counts: CountNames,
    options: DescriptionOptions,
    keys: Sequence[Column] = (),
    rollup: Callable[[Key], Iterable[Key]] = lambda key: [key],
    weight: str | None = None,
    normalisers: Mapping[str, str] | None = None,
    run: str | None = None,
    hashes: Mapping[str, str] | None = None,
    cluster: Sequence[str] = (),
    judges: TwoJudges | None = None,
    stratum: Column | None = None,
) -> tuple[DataFrame, Groups]:
    """The lazy states of a per-user table, fresh or read back, as messages, and the groups that they are of.

    A row with a null user belongs to no user. `keys` are texts that part the rows, and `rollup` gives the groups of a key. Normalisers are
    columns by those of their values, and hashes of the users' rows are columns by table. A count `RUN` tells whether all users of a
    group have the same value in the column `run`. Users of the same values in the columns `cluster` are one cluster. With two judges
    their pairs are places in `values`, and `stratum` is a text.
    """
    columns = {f"value_{index}": name for index, name in enumerate(values)}
    counted = {name: column(name).cast(type_of_count(name)) for name in (*counts.users, *counts.rows)}
    if run is not None:
        # A float holds such numbers exactly, and their sums. Sail panics at the bare hash of a column that is the name of a folder.
        counted[RUN] = F.pmod(F.xxhash64(F.coalesce(column(run).cast("string"), F.lit(""))), F.lit(_HASHES))
        counts = counts._replace(users=(*counts.users, RUN))
    # Without ids of users there are no fingerprints beside clusters: each user without one gets an id that is of this job alone.
    hashes = {} if hashes is None or (options.clustered and not users) else hashes
    counts = counts._replace(tables=tuple(hashes))
    keyed = {f"key_{index}": named for index, named in enumerate(keys)}
    normaliser_names = {values.index(name): normaliser for name, normaliser in (normalisers or {}).items()}
    own = {f"normaliser_{index}": name for index, name in normaliser_names.items()}
    ids = [column(name) for name in users]
    hashed = []
    if options.clustered or (users and (options.resamples or hashes)):
        # The values distinguish users without a name.
        hashed.append(hash_in(per_user, users).column.alias(USER_HASH))
    if options.clustered and not users:
        alone = F.when(any_null([column(name) for name in cluster]), F.xxhash64(F.monotonically_increasing_id()))
        hashed = [F.coalesce(alone, F.lit(0)).alias(USER_HASH)]
    if options.clustered:
        hashed.append(
            F.when(~any_null([column(name) for name in cluster]), hash_in(per_user, cluster).column).alias(CLUSTER_HASH)
        )
    strata = [] if stratum is None else [stratum.alias(STRATUM)]
    frame = per_user.select(
        *strata,
        *(column(name).cast("double").alias(alias) for alias, name in columns.items()),
        *(count.alias(alias) for alias, count in counted.items()),
        *(named.alias(alias) for alias, named in keyed.items()),
        any_null(ids).alias(NO_USER),
        *hashed,
        *([] if weight is None else [column(weight).cast("double").alias(USER_WEIGHT)]),
        *(column(name).cast("double").alias(alias) for alias, name in own.items()),
        *(column(name).cast("bigint").alias(hash_column(table)) for table, name in hashes.items()),
    )
    described = Groups(counts, len(columns), options, len(keyed), rollup, judges=judges)
    worker = state_of_columns(
        tuple(columns),
        counts,
        options,
        NO_USER,
        tuple(keyed),
        {index: f"normaliser_{index}" for index in normaliser_names},
        judges,
    )
    return run_on_workers(frame, worker, MESSAGE_SCHEMA), described
