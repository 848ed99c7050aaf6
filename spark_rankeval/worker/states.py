"""The states of the users of a partition, as messages that merge."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from spark_rankeval.ranking.user_lists import (
    Array,
    BoolArray,
    IntArray,
)
from spark_rankeval.records.slices import Key
from spark_rankeval.request.call import GRADING_WEIGHT, CountNames
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.statistics.description import DescriptionOptions
from spark_rankeval.wire import Batches, Merger, Mergers, Message, unpack
from spark_rankeval.worker import group_states, process
from spark_rankeval.worker import reading as grouped_row
from spark_rankeval.worker.features import JudgedAccumulator, TwoJudges
from spark_rankeval.worker.scoring import Rows, count_names, count_of_model, messages_with_rows, score

#: The states of groups from all users of theirs, such as `group_states.states_of` with the number of values.
StatesOfUsers = Callable[[Sequence[group_states.FewUsers]], group_states.GroupStates]

#: How much memory the states of a bucket's groups take at the most.
MERGED_BYTES = 1 << 26


class StatesMerger(Merger):
    """States that come one after the other, as one: all of them at once might not fit into memory.

    Raising in a worker would only run the task again: of groups whose states are too large to be held the number is left.
    """

    def __init__(self, states_of_users: StatesOfUsers, least_bytes: int = 0) -> None:
        self._states_of_users, self._least_bytes = states_of_users, least_bytes
        self._begin()

    def _begin(self) -> None:
        self._users: list[group_states.FewUsers] = []
        self._states: list[group_states.GroupStates] = []
        self._n_bytes = 0
        self._keys: set[Key] = set()
        self._fits = True

    def add(self, bucket: int | None, payloads: Iterable[bytes]) -> Iterator[Message]:
        """Take in the states and the users of small groups of a bucket; gives the states of the groups, or their number."""
        self._begin()
        for payload in payloads:
            self._add(unpack(payload))
        merged = self._merged()
        yield Message.of(group_states.STATES, merged if self._fits else len(self._keys), bucket)

    def _add(self, part: group_states.FewUsers | group_states.GroupStates) -> None:
        self._keys.update(part.keys)
        # Users take far less memory than the states that are made of them.
        if len(self._keys) > 1 and len(self._keys) * self._least_bytes > MERGED_BYTES:
            self._fits = False
        if not self._fits:
            self._users, self._states = [], []
            return
        if isinstance(part, group_states.FewUsers):
            self._users.append(part)
            self._n_bytes += part.users.n_bytes
        else:
            self._states.append(part)
            self._n_bytes += part.n_bytes
        if self._n_bytes > MERGED_BYTES:
            self._merged()

    def _merged(self) -> group_states.GroupStates:
        if self._users:
            self._states.append(self._states_of_users(self._users))
            self._users = []
        merged = group_states.GroupStates.merged(self._states)
        self._n_bytes = merged.n_bytes
        self._fits = self._fits and (self._n_bytes <= MERGED_BYTES or len(self._keys) == 1)
        self._states = [merged] if self._fits else []
        return merged


def merging_states(
    states_of_users: StatesOfUsers, layout: group_states.ClusterLayout | None = None, *, least_bytes: int = 0
) -> Mergers:
    """What makes few messages of the many of each bucket, by kind.

    Args:
        states_of_users: adds up the users of small groups.
        layout: of the users of clusters, who become sums of clusters.
        least_bytes: how much memory the state of a group takes at the least.
    """
    mergers: Mergers = {
        group_states.STATES: lambda: StatesMerger(states_of_users, least_bytes),
    }
    if layout is not None:
        mergers[group_states.CLUSTER_USERS] = lambda: group_states.ClusterMerger(layout)
    return mergers


#: How much memory the states of a task's groups take before they go on as rows.
HELD_BYTES = 1 << 26
# So many users of small batches are parted into groups together.
_TOGETHER = 1 << 16


def state_of_batches(
    task: ScoringTask,
    options: DescriptionOptions,
    keys: tuple[str, ...] = (),
    rollup: Callable[[Key], Iterable[Key]] = lambda key: [key],
    *,
    tables: tuple[str, ...] = (),
    rows: Rows | None = None,
) -> process.Run:
    """A function for ``mapInArrow``: messages with the states of all users of a partition, in groups by the columns `keys`.

    The counts are those of `count_names`, and the fingerprints those of `tables`. `rollup` gives the groups that the users of a key
    belong to, for features that count by them. Of rows without a user only the invalid rows are counted. `rows` gives rows of
    users, which go on as messages, too.
    """
    context = process.StateContext(task.n_values, count_names(task, tables), options, keys, rollup)

    @process.sends_messages
    def run(batches: Batches) -> Iterator[Message]:
        states = PartitionStates(context)
        accumulators: list[process.FeatureAccumulator | None] | None = None
        for batch, features in process.with_features(task, batches):
            if accumulators is None:
                accumulators = [feature.new_accumulator(task, context) for feature in features]
            scores = score(task, batch, features)
            if rows is not None:
                yield from messages_with_rows(rows(batch, scores))
            weights = None
            if task.weight_count:
                # Those of the first model: users have the same for all.
                weights = scores.counts[count_of_model(task.weight_count, 0)].astype(np.float64)
            values = [*scores.metrics, *scores.standard_values]
            yield from states.add(batch, values, scores.counts, scores.normalisers, weights)
            yield from _added(accumulators, process.ScoredUsers(batch, weights, scores.metrics), scores.features)
            # What features have of a batch, such as lists of candidates, makes room for that of the next one.
            del scores
        yield from states.messages()
        for accumulator in accumulators or ():
            if accumulator is not None:
                yield from accumulator.messages()

    return run


def _added(
    accumulators: Sequence[process.FeatureAccumulator | None],
    users: process.ScoredUsers,
    features: Sequence[process.BatchFeature],
) -> Iterator[Message]:
    """Add the users of a batch to what features add up; gives the messages that had to make room."""
    for accumulator, feature in zip(accumulators, features, strict=True):
        if accumulator is not None:
            yield from accumulator.add(users, feature)


def state_of_columns(
    values: tuple[str, ...],
    names: CountNames,
    options: DescriptionOptions,
    keys: tuple[str, ...] = (),
    normalisers: Mapping[int, str] | None = None,
    judges: TwoJudges | None = None,
) -> process.Run:
    """A function for ``mapInArrow``: the state of the users whose values a table holds, in groups by the columns `keys`.

    Counts are columns of their names, and hashes those of `hash_column`. Normalisers are columns by the indices of their values. With two
    judges the count `GRADING_WEIGHT` has the weights of the users whom people graded.
    """

    @process.sends_messages
    def run(batches: Batches) -> Iterator[Message]:
        states = PartitionStates(process.StateContext(len(values), names, options, keys))
        judged = JudgedAccumulator()
        for batch in batches:
            columns = grouped_row.columns_of(batch)
            counts = {}
            for name in (*names.users, *names.rows):
                read = grouped_row.numbers if pa.types.is_floating(columns[name].type) else grouped_row.whole_numbers
                counts[name] = read(columns[name])
            weights = {index: grouped_row.numbers(columns[name]) for index, name in (normalisers or {}).items()}
            user_values = [grouped_row.numbers(columns[name]) for name in values]
            yield from states.add(batch, user_values, counts, weights)
            if judges is not None:
                no_user, weight = columns[grouped_row.NO_USER], columns[GRADING_WEIGHT]
                weight = np.where(grouped_row.flags(no_user), math.nan, grouped_row.numbers(weight))
                graded = judged.graded(batch, keys, weight, is_weighted=judges.is_weighted)
                for pair in judges.pairs:
                    judged.add(pair.human, user_values[pair.human], user_values[pair.judge], graded)
        yield from states.messages()
        yield from judged.messages()

    return run


class PartitionStates:
    """The states of the groups of a partition's users; without keys there is one group.

    What is held at once is bounded: if more groups come than fit, the states so far go on as messages, and new ones begin.
    """

    def __init__(self, context: process.StateContext, *, has_hashes: bool = True) -> None:
        n_values, names, options = context.n_values, context.names, context.options
        self._new = partial(group_states.StateAccumulator, n_values, names, options)
        self._options, self._keys = options, context.keys
        self._hashed = names.tables if has_hashes else ()
        self._clusters = (
            group_states.ClusterRows(group_states.ClusterLayout.for_options(n_values, options, len(context.keys)))
            if options.clustered
            else None
        )
        # Without keys all users are added to one state.
        self._whole = None if context.keys else self._new()
        self._held = group_states.GroupStates([], {})
        # Users of small groups, and how many of each group have come. The replicates of a group must not be made of many groups at once.
        self._small = group_states.SmallGroups()
        self._n_seen: Counter[Key] = Counter()
        self._few = 0 if options.resamples else group_states.FEW
        self._most = max(
            1, HELD_BYTES // group_states.bytes_of_a_group(n_values, len(names.users) + len(names.rows), options)
        )
        # A group costs the same for few users as for many, so users of small batches wait for one another.
        self._waiting: list[tuple[list[pa.Array], BoolArray, group_states.UsersOfGroups]] = []

    def add(
        self,
        batch: pa.RecordBatch,
        values: list[Array],
        counts: Mapping[str, Array],
        normalisers: Mapping[int, Array],
        weights: Array | None = None,
    ) -> Iterator[Message]:
        """Take in the users of a batch; gives the messages that had to make room.

        Without `weights` a column of the batch has them, if users are weighted.
        """
        columns = grouped_row.columns_of(batch)
        about = {"is_null": grouped_row.flags(columns[grouped_row.NO_USER])}
        if self._options.resamples:
            about["hash"] = drawn(columns, self._options)
        if self._options.weighted:
            about["weight"] = grouped_row.numbers(columns[grouped_row.USER_WEIGHT]) if weights is None else weights
        absent = (
            grouped_row.flags(columns[grouped_row.ABSENT])
            if grouped_row.ABSENT in columns
            else np.zeros(batch.num_rows, np.bool_)
        )
        keys = [columns[name] for name in self._keys]
        users = group_states.UsersOfGroups(
            dict(enumerate(values)),
            dict(counts),
            dict(normalisers),
            grouped_row.limbs_of_users(self._hashed, columns),
            about,
        )
        if self._clusters is not None:
            yield from self._sent_to_clusters(self._clusters, columns, keys, users, absent)
        if self._whole is not None:
            self._whole.add(users.take(~absent) if absent.any() else users)
            return
        self._waiting.append((keys, absent, users))
        if sum(len(rows) for _, rows, _ in self._waiting) >= _TOGETHER:
            yield from self._settle()

    def _sent_to_clusters(
        self,
        clusters: group_states.ClusterRows,
        columns: dict[str, pa.Array],
        keys: list[pa.Array],
        users: group_states.UsersOfGroups,
        absent: BoolArray,
    ) -> Iterator[Message]:
        """Send users to the others of their cluster."""
        there = np.flatnonzero(~(users.users["is_null"] | absent))
        rows, some = pa.array(there), users._replace(counts={}, limbs={}).take(there)
        yield from clusters.add(
            columns[grouped_row.CLUSTER_HASH].take(rows),
            grouped_row.whole_numbers(columns[grouped_row.USER_HASH])[there],
            [key.take(rows) for key in keys],
            list(some.values.values()),
            some.users.get("weight"),
            some.normalisers,
        )

    def _settle(self) -> Iterator[Message]:
        """Add the waiting users to the states of their groups, or keep those of small groups."""
        if not self._waiting:
            return
        keys, absent, parts = zip(*self._waiting, strict=True)
        self._waiting = []
        users, is_absent = group_states.UsersOfGroups.concatenated(parts), np.concatenate(absent)
        everybody = np.arange(len(is_absent))
        small: dict[Key, IntArray] = {}
        large: dict[Key, IntArray] = {}
        for key, group_rows in grouped_row.rows_by_key(
            [pa.concat_arrays(columns) for columns in zip(*keys, strict=True)], len(everybody)
        ):
            rows = everybody[group_rows]
            self._n_seen[key] += len(rows)
            (small if self._n_seen[key] <= self._few else large)[key] = rows
        if small:
            self._small.add(list(small), *_users_of_groups(users, is_absent, list(small.values())))
        if self._small.n_bytes > HELD_BYTES:
            yield from self._small_messages()
        for some in self._chunks(large):
            states = self._new(len(some))
            group, present = _users_of_groups(users, is_absent, [large[key] for key in some])
            states.add(present, group)
            yield from self._hold(states.states(some))

    def add_counts(self, group_counts: Iterable[tuple[Key, Mapping[str, Array]]]) -> Iterator[Message]:
        """Take in counts of groups, an entry each, whether they have users or not; gives the messages that had to make room."""
        counts_by_key = dict(group_counts)
        for some in self._chunks(counts_by_key):
            states = self._new(len(some))
            chunk_counts = [counts_by_key[key] for key in some]
            counts = {name: np.concatenate([each[name] for each in chunk_counts]) for name in chunk_counts[0]}
            states.add_counts(counts, group=np.arange(len(some)))
            yield from self._hold(states.states(some))

    def _chunks(self, keys: Iterable[Key]) -> Iterator[list[Key]]:
        """As many of the groups as can be held."""
        some = list(keys)
        for first in range(0, len(some), self._most):
            yield some[first : first + self._most]

    def _hold(self, states: group_states.GroupStates) -> Iterator[Message]:
        """Keep states; gives those held so far if there would be too many."""
        if len({*self._held.keys, *states.keys}) > self._most:
            yield from self._held_messages()
        self._held = group_states.GroupStates.merged([self._held, states])

    def messages(self) -> Iterator[Message]:
        """The states: groups of one bucket together, and without keys all in one message without a bucket."""
        yield from self._settle()
        yield from self._small_messages()
        if self._whole is not None:
            yield from self._hold(self._whole.states())
        yield from self._held_messages()
        if self._clusters is not None:
            yield from self._clusters.messages()

    def _small_messages(self) -> Iterator[Message]:
        self._n_seen.clear()
        for bucket, users in self._small.by_bucket():
            yield Message.of(group_states.STATES, users, bucket)

    def _held_messages(self) -> Iterator[Message]:
        held, self._held = self._held, group_states.GroupStates([], {})
        for bucket, states in held.by_bucket():
            yield Message.of(group_states.STATES, states, bucket)


def _users_of_groups(
    users: group_states.UsersOfGroups, absent: BoolArray, groups: Sequence[IntArray]
) -> tuple[IntArray, group_states.UsersOfGroups]:
    """The users in the rows of some groups, with the number of each one's group; those who are absent are left out."""
    group, rows = np.repeat(np.arange(len(groups)), list(map(len, groups))), np.concatenate(groups)
    is_there = ~absent[rows]
    return group[is_there], users.take(rows[is_there])


def drawn(columns: Mapping[str, pa.Array], options: DescriptionOptions) -> Array:
    """The hashes by which users are resampled: those of their clusters if they have any; int64 (n_users,)."""
    hashes = grouped_row.whole_numbers(columns[grouped_row.USER_HASH])
    return grouped_row.hashes_of_clusters(columns[grouped_row.CLUSTER_HASH], hashes) if options.clustered else hashes
