"""The states of groups of users and of clusters: sums, counts and hashes, an entry for each. States merge exactly."""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby, pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from spark_rankeval.ranking.user_lists import Array, BoolArray, IntArray, Ragged, joined, offsets_of, starts_of_runs
from spark_rankeval.records.summary import ALL_VALUES, Key
from spark_rankeval.request.call import GRADING_WEIGHT, CountNames
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.statistics import exact
from spark_rankeval.statistics.description import DescriptionAccumulator, DescriptionOptions
from spark_rankeval.statistics.intervals import SHIFT, ClusterAccumulator, ClusterSums, sums_by_cluster
from spark_rankeval.statistics.resampling import no_limbs
from spark_rankeval.worker import process
from spark_rankeval.worker import reading as grouped_row
from spark_rankeval.worker.features import JudgedAccumulator, TwoJudges
from spark_rankeval.worker.process import Batches, Merger, Mergers, Message
from spark_rankeval.worker.scoring import Rows, count_names, count_of_model, messages_with_rows, score

Fields = dict[str, np.ndarray[Any, Any]]

#: The kind of messages that have states of groups, or users of small groups.
STATES = "states"
#: Groups meet in so many buckets, each with its own.
BUCKETS = 32
#: The parts of a state beside those of a `DescriptionAccumulator`: the moments of the counts, and the limbs of each table's fingerprint.
COUNTS, FINGERPRINTS = "counts", "fingerprints"
# The part whose fields have any number of rows for each group, and the field with these numbers.
_SKETCHES, _ROWS = "quantiles", "rows"
# What a value takes in memory: its moments, its quantiles (seldom more), the sums of its mean, a replicate.
_MOMENTS, _SKETCH, _MEANS, _REPLICATE = 650, 4_000, 2_600, 32


class GroupStates(NamedTuple):
    """The states of some groups; without keys there is one group, of all users."""

    keys: list[Key]
    # By part and field: arrays whose first axis is the groups. Sketches have the rows of one group after the other.
    parts: dict[str, Fields]

    @property
    def n_bytes(self) -> int:
        """How much memory they take."""
        return sum(values.nbytes for fields in self.parts.values() for values in fields.values())

    def take(self, numbers: Sequence[int] | IntArray) -> GroupStates:
        """Those of some groups, by their numbers."""
        parts: dict[str, Fields] = {}
        chosen = np.asarray(numbers, np.int64)
        for name, fields in self.parts.items():
            if name == _SKETCHES:
                rows = Ragged(np.arange(fields[_ROWS].sum()), offsets_of(fields[_ROWS])).take(chosen)
                parts[name] = {field: values[rows.values] for field, values in fields.items() if field != _ROWS}
                parts[name][_ROWS] = rows.lengths
            else:
                parts[name] = {field: values[chosen] for field, values in fields.items()}
        return GroupStates([self.keys[number] for number in chosen.tolist()], parts)

    def summed(self, keys: Sequence[Key]) -> GroupStates:
        """States with new keys, an entry for each group that there is: groups of equal keys become one."""
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        indices = np.array([numbers[key] for key in keys], np.int64)
        parts: dict[str, Fields] = {}
        for name, fields in self.parts.items() if keys else ():
            if name == _SKETCHES:
                parts[name] = _merged_sketches(fields, indices, len(numbers))
            else:
                parts[name] = exact.merged_stacks(fields, indices)
        return GroupStates(list(numbers), parts)

    @classmethod
    def merged(cls, states: Iterable[GroupStates]) -> GroupStates:
        """The states of each group, from those of parts of its users."""
        some = [each for each in states if each.keys]
        if len(some) == 1:
            return some[0]
        keys = list(chain.from_iterable(each.keys for each in some))
        return cls(keys, joined([each.parts for each in some]) if some else {}).summed(keys)


def _merged_sketches(sketches: Fields, indices: IntArray, n_groups: int) -> Fields:
    width = 1 + int(sketches["column"].max(initial=0))
    cells = {name: values for name, values in sketches.items() if name != _ROWS}
    merged = exact.merged_sketches([cells | {"column": np.repeat(indices, sketches[_ROWS]) * width + cells["column"]}])
    group, column = np.divmod(merged["column"], width)
    return merged | {"column": column, _ROWS: np.bincount(group, minlength=n_groups)}


class StateAccumulator:
    """The states of one or more groups, whose users come batch by batch."""

    def __init__(self, n_values: int, names: CountNames, options: DescriptionOptions, n_groups: int = 1) -> None:
        self._values = DescriptionAccumulator(n_values, options, n_groups)
        # Every n-th column is of the same group.
        self._counts = exact.MomentsAccumulator((len(names.users) + len(names.rows)) * n_groups)
        self._fingerprints = {table: np.stack([no_limbs()] * n_groups) for table in names.tables}
        self._names, self._n_groups = names, n_groups

    def add(self, users: UsersOfGroups, group: IntArray | None = None) -> None:
        """Take in users; `group` has the group of each, if there are several.

        Of rows without a user only the rows that cannot be ranked are counted, and fingerprints have them. A weight that is NaN is none.
        """
        is_null = users.users["is_null"]
        valid = ~is_null if is_null.any() else slice(None)
        there, valid_group = users.take(valid), None if group is None else group[valid]
        values, hashes, weights = list(there.values.values()), there.users.get("hash"), there.users.get("weight")
        self._values.add(values, hashes, weights, there.normalisers, valid_group)
        self.add_counts(users.counts, valid, group)
        for table, limbs in users.limbs.items():
            if group is None:
                self._fingerprints[table] += limbs.sum(axis=0)
            else:
                np.add.at(self._fingerprints[table], group, limbs)

    def add_counts(
        self, counts: Mapping[str, Array], valid: BoolArray | slice = slice(None), group: IntArray | None = None
    ) -> None:
        """Take in counts alone, as far as there are any; those that there are stand together among the names."""
        first = 0
        # Rows without a user can be counted, too.
        for named, rows in ((self._names.users, valid), (self._names.rows, slice(None))):
            counted = [name for name in named if name in counts]
            if counted:
                columns = [counts[name][rows].astype(np.float64, copy=False) for name in counted]
                column = first + named.index(counted[0])
                if group is None:
                    self._counts.add_columns(column, columns)
                else:
                    for tally in exact.tallies_of_groups(columns, group[rows], self._n_groups, column):
                        self._counts.add_tally(tally)
            first += len(named)

    def states(self, keys: Sequence[Key] = ((),)) -> GroupStates:
        """The states so far; `keys` has that of each group."""
        own = {COUNTS: self._counts.state_of_groups(self._n_groups), FINGERPRINTS: dict(self._fingerprints)}
        return GroupStates(list(keys), self._values.state() | own)


def bytes_of_a_group(n_values: int, n_counts: int, options: DescriptionOptions) -> int:
    """About how much memory the state of a group of users takes."""
    means = _MEANS * (options.resamples or options.any_weighted)
    replicates = _REPLICATE * options.replicates * options.resamples
    described = (n_values - options.n_plain) * (_SKETCH * bool(options.quantiles) + replicates)
    return n_counts * _MOMENTS + n_values * (_MOMENTS + means) + described


def bucket_of(key: Key) -> int:
    """Where the states of a group meet: a number below `BUCKETS` that depends on the group alone."""
    return zlib.crc32(json.dumps(key).encode()) % BUCKETS


#: Up to so many users of a group in a task travel as they are. About 100 take as many bytes as a state.
FEW = 64


Columns = dict[Any, Array]


class UsersOfGroups(NamedTuple):
    """What users have: arrays with an entry for each user."""

    values: Columns  # by their indices
    counts: Columns  # by name, as far as they have any
    normalisers: Columns  # by the indices of their values
    limbs: Columns  # of the hashes of their rows, by table
    # ``is_null``: the row has no user. As far as there are any: ``hash`` for bootstrap samples, and ``weight``.
    users: Columns

    def take(self, rows: Array | slice) -> UsersOfGroups:
        """Those in some rows."""
        return UsersOfGroups(*({name: column[rows] for name, column in columns.items()} for columns in self))

    @classmethod
    def concatenated(cls, parts: Sequence[UsersOfGroups]) -> UsersOfGroups:
        """The users of all parts, one after the other; all parts have the same names."""
        return parts[0] if len(parts) == 1 else cls(*map(joined, zip(*parts, strict=True)))

    @property
    def n_bytes(self) -> int:
        """How much memory they take."""
        return sum(column.nbytes for columns in self for column in columns.values())


class FewUsers(NamedTuple):
    """The users of small groups."""

    keys: list[Key]
    group: IntArray  # the number of each user's group among the keys
    users: UsersOfGroups

    @classmethod
    def joined(cls, parts: Sequence[FewUsers]) -> FewUsers:
        """The users of all parts, which have the same names of values and counts."""
        numbers = {key: number for number, key in enumerate(dict.fromkeys(key for part in parts for key in part.keys))}
        groups = [np.array([numbers[key] for key in part.keys], np.int64)[part.group] for part in parts]
        users = UsersOfGroups.concatenated([part.users for part in parts])
        return cls(list(numbers), np.concatenate(groups), users)

    @property
    def n_bytes(self) -> int:
        """How much memory the users take."""
        return self.users.n_bytes

    def take(self, numbers: Sequence[int]) -> FewUsers:
        """Those of some groups, by their numbers."""
        new_number = np.full(len(self.keys), -1)
        new_number[list(numbers)] = np.arange(len(numbers))
        group = new_number[self.group]
        rows = np.flatnonzero(group >= 0)
        return FewUsers([self.keys[number] for number in numbers], group[rows], self.users.take(rows))


def messages_by_bucket(states: GroupStates | FewUsers) -> Iterator[Message]:
    """The groups that meet in each bucket, in an order of the groups alone; all users have no bucket."""
    if states.keys == [()]:
        yield Message.of(STATES, states)
        return
    ordered = sorted((bucket_of(key), json.dumps(key), number) for number, key in enumerate(states.keys))
    for bucket, some in groupby(ordered, key=lambda entry: entry[0]):
        yield Message.of(STATES, states.take([number for *_, number in some]), bucket)


def states_of(
    parts: Sequence[FewUsers | GroupStates], n_values: int, names: CountNames, options: DescriptionOptions
) -> GroupStates:
    """The states of the groups of some parts, each from those of its users."""
    # Users of groups of items have no counts, and may meet others who have.
    alike: dict[tuple[tuple[Any, ...], ...], list[FewUsers]] = {}
    made = []
    for part in parts:
        if isinstance(part, GroupStates):
            made.append(part)
        else:
            alike.setdefault(tuple(map(tuple, part.users)), []).append(part)
    for keys, group, users in map(FewUsers.joined, alike.values()):
        states = StateAccumulator(n_values, names, options, len(keys))
        states.add(users, group)
        made.append(states.states(keys))
    return GroupStates.merged(made)


Rollup = Callable[[Key], Iterable[Key]]
#: The sums of clusters by the name of their group, as `ClusterAccumulator` has them.
ClusterStates = dict[str, dict[str, Array]]

#: The kinds of messages: users who go on to the others of their cluster, in a bucket for each group of clusters; and sums of clusters.
CLUSTER_USERS, CLUSTER_SUMS = "users of clusters", "sums of clusters"

# A worker holds so many bytes of users before they go on, and so many of sums.
_HELD = 1 << 26
# A null in a column that divides users into groups.
_NULL = 0


class ClusterLayout(NamedTuple):
    """What the rows of users hold, and which groups their sums are for.

    Attributes:
        n_values: how many values a user has.
        normalised: the indices of the values that have weights of their own.
        weighted: whether users have weights.
        n_keys: how many columns divide users into groups.
        masks: for each kind of group, which of these columns it keeps; the others are rolled up.
        cubes: whether the acceleration is needed.
        grouped: whether the sums of groups of clusters are kept, from which slices are compared.
    """

    n_values: int
    normalised: tuple[int, ...] = ()
    weighted: bool = False
    n_keys: int = 0
    masks: tuple[tuple[bool, ...], ...] = ((),)
    cubes: bool = False
    grouped: bool = False

    @classmethod
    def for_options(
        cls, n_values: int, options: DescriptionOptions, n_keys: int, rollup: Rollup | None = None
    ) -> ClusterLayout:
        """The rows of users who are described; `rollup` gives the groups that the users of a key belong to."""
        n_described = n_values - options.n_plain
        return cls(
            n_described,
            tuple(index for index in options.normalised if index < n_described),
            options.weighted,
            n_keys,
            () if rollup is None else rollup_masks(rollup, n_keys),
            options.resamples,
            options.method == "t",
        )

    @property
    def row(self) -> np.dtype[np.void]:
        """The fields of a row, of 8 bytes each: hashes, whether the user has no cluster, and numbers."""
        return np.dtype(
            [
                ("cluster", np.int64),
                ("user", np.int64),
                ("is_alone", np.int64),
                ("keys", np.int64, (self.n_keys,)),
                ("weight", np.float64),
                ("normalisers", np.float64, (len(self.normalised),)),
                ("values", np.float64, (self.n_values,)),
            ]
        )

    def new_sums(self) -> ClusterAccumulator:
        """What adds up the clusters of a group."""
        return ClusterAccumulator(self.n_values, cubes=self.cubes, grouped=self.grouped)

    def weights(self, rows: Array) -> Array | None:
        """The weights of each user and value; None if all are 1."""
        if not (self.weighted or self.normalised):
            return None
        weights: Array = np.repeat(rows["weight"][:, None], self.n_values, axis=1)
        weights[:, list(self.normalised)] *= rows["normalisers"]
        return weights


def rollup_masks(rollup: Rollup, n_keys: int) -> tuple[tuple[bool, ...], ...]:
    """Which columns each of the groups keeps that the users of a key belong to."""
    return tuple(tuple(value is not ALL_VALUES for value in group) for group in rollup(tuple(range(n_keys))))


class Accumulator(Protocol):
    """Sums over the clusters of a group."""

    def add(self, sums: ClusterSums, n_alone: int = 0, /) -> None:
        """Add clusters, each of them once."""

    def state(self) -> dict[str, Array]:
        """The state so far."""


class ClusterRows:
    """Users of a partition who go on to the others of their cluster."""

    def __init__(self, layout: ClusterLayout) -> None:
        self._layout = layout
        self._waiting: list[Array] = []
        self._n_waiting = 0

    def add(
        self,
        clusters: pa.Array,
        users: IntArray,
        keys: Sequence[pa.Array],
        values: Sequence[Array],
        weights: Array | None = None,
        normalisers: Mapping[int, Array] = {},
    ) -> Iterator[Message]:
        """Take in users with the hashes of their clusters, null if not known; gives messages if there are many.

        Who has no weight above 0 is left out. Who has no cluster is one alone.
        """
        layout = self._layout
        rows = np.empty(len(users), layout.row)
        rows["cluster"], rows["user"] = grouped_row.hashes_of_clusters(clusters, users), users
        rows["is_alone"] = clusters.is_null().to_numpy(zero_copy_only=False)
        rows["weight"] = 1.0 if weights is None else weights
        columns = {
            "keys": map(_hashes, keys),
            "normalisers": (normalisers[index] for index in layout.normalised),
            "values": values[: layout.n_values],
        }
        for name, entries in columns.items():
            for index, entry in enumerate(entries):
                rows[name][:, index] = entry
        if weights is not None:
            rows = rows[(weights > 0) & np.isfinite(weights)]
        self._waiting.append(rows)
        self._n_waiting += rows.nbytes
        if self._n_waiting >= _HELD:
            yield from self.messages()

    def messages(self) -> Iterator[Message]:
        """A message for each bucket with all users who are waiting for it."""
        waiting, self._waiting, self._n_waiting = self._waiting, [], 0
        rows = np.concatenate([np.empty(0, self._layout.row), *waiting])
        if not len(rows):
            return
        bucket = (rows["cluster"].view(np.uint64) >> SHIFT).astype(np.int64)
        order = np.argsort(bucket, kind="stable")
        rows, bucket = rows[order], bucket[order]
        starts = np.flatnonzero(starts_of_runs(bucket)).tolist()
        for start, stop in pairwise([*starts, len(rows)]):
            yield Message(int(bucket[start]), CLUSTER_USERS, rows[start:stop].tobytes())


def merging_clusters(layout: ClusterLayout, new: Callable[[tuple[bool, ...]], Accumulator] | None = None) -> Merger:
    """What makes sums of clusters from the users of each bucket, as `ClusterRows` sent them.

    `new` makes an accumulator of a group that keeps some columns.
    """
    new_group = new or (lambda mask: layout.new_sums())

    def merger(buckets: Iterator[tuple[int | None, Iterator[bytes]]]) -> Iterator[Message]:
        groups: dict[str, Accumulator] = {}
        n_buckets = 0
        for _, payloads in buckets:
            rows = np.frombuffer(b"".join(payloads), layout.row)
            rows = rows[np.lexsort((rows["user"], rows["cluster"]))]
            if not starts_of_runs(rows["cluster"], rows["user"]).all():
                # Users without a name, or of one hash, have an order by all that is known of them.
                words = rows.view(np.int64).reshape(len(rows), -1)
                rows = rows[np.lexsort(words.T[::-1])]
            for mask in layout.masks:
                for name, sums, n_alone in _sums_by_group(layout, rows, mask):
                    if name not in groups:
                        groups[name] = new_group(mask)
                    groups[name].add(sums, n_alone)
            n_buckets += 1
            value_bytes = (9 if layout.cubes else 6) * 256 + 24 * n_buckets * layout.grouped
            if len(groups) * layout.n_values * value_bytes > _HELD:
                yield _message_of_clusters(groups)
                groups, n_buckets = {}, 0
        if groups:
            yield _message_of_clusters(groups)

    return merger


def _message_of_clusters(groups: Mapping[str, Accumulator]) -> Message:
    return Message.of(CLUSTER_SUMS, {name: sums.state() for name, sums in groups.items()})


def _sums_by_group(
    layout: ClusterLayout, rows: Array, mask: tuple[bool, ...]
) -> Iterator[tuple[str, ClusterSums, int]]:
    """The sums of each cluster, and how many users have none, in each of the groups that keep some columns.

    Users of a cluster stand together.
    """
    columns = [rows["keys"][:, index] for index, is_kept in enumerate(mask) if is_kept]
    if columns:
        order = np.lexsort(columns)
        rows, columns = rows[order], [column[order] for column in columns]
    is_first_of_group = starts_of_runs(*columns) if columns else np.arange(len(rows)) == 0
    starts = np.flatnonzero(is_first_of_group | starts_of_runs(rows["cluster"]))
    sums = sums_by_cluster(rows["cluster"], starts, rows["values"], layout.weights(rows))
    n_alone = np.add.reduceat(rows["is_alone"], np.flatnonzero(is_first_of_group))
    firsts = np.flatnonzero(is_first_of_group[starts])
    for group, (first, end) in enumerate(zip(firsts, [*firsts[1:], len(starts)], strict=True)):
        values = iter([int(column[starts[first]]) for column in columns])
        name = json.dumps([next(values) if is_kept else None for is_kept in mask])
        yield name, ClusterSums(*(each[first:end] for each in sums)), int(n_alone[group])


def merged_clusters(messages: Iterable[Message]) -> ClusterStates:
    """The sums of all clusters by the name of their group, from what `merging_clusters` gave."""
    parts: dict[str, list[dict[str, Array]]] = {}
    for message in messages:
        for name, state in message.state.items() if message.kind == CLUSTER_SUMS else ():
            parts.setdefault(name, []).append(state)
    return {name: exact.merged(states) for name, states in parts.items()}


def group_name(key: Key) -> str:
    """The name of a group of users: texts or nulls in the columns that it keeps, and `ALL_VALUES` in others."""
    return json.dumps([None if value is ALL_VALUES else text_hash(value) for value in key])


def _hashes(column: pa.Array) -> IntArray:
    """A hash of each text, for which the group is known."""
    encoded = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode("encode")
    text_hashes = np.array([text_hash(value) for value in encoded.dictionary.to_pylist()], np.int64)
    hashes: IntArray = text_hashes[encoded.indices.to_numpy(zero_copy_only=False)]
    return hashes


def text_hash(value: str | None) -> int:
    """The hash of a value of a column that divides users."""
    if value is None:
        return _NULL
    return int.from_bytes(hashlib.blake2b(value.encode(), digest_size=8).digest(), "little", signed=True)


#: The states of groups from parts of them, and from users, such as `states_of` with the number of values.
StatesOfParts = Callable[[Sequence[FewUsers | GroupStates]], GroupStates]

#: How much memory the states of a bucket's groups take at the most.
MERGED_BYTES = 1 << 26


def _states_that_fit(
    parts: Iterable[FewUsers | GroupStates], states_of_parts: StatesOfParts, least_bytes: int
) -> GroupStates | int:
    """The states of a bucket's groups from parts that come one after the other: all of them at once might not fit into memory.

    Raising in a worker would only run the task again: of groups whose states are too large to be held the number is left.
    """
    waiting: list[FewUsers | GroupStates] = []
    keys: set[Key] = set()
    n_bytes, fits = 0, True

    def merge() -> GroupStates:
        nonlocal waiting, n_bytes, fits
        merged = states_of_parts(waiting)
        waiting, n_bytes = [merged], merged.n_bytes
        fits = fits and (n_bytes <= MERGED_BYTES or len(keys) == 1)
        return merged

    for part in parts:
        keys.update(part.keys)
        # Users take far less memory than the states that are made of them.
        fits = fits and (len(keys) == 1 or len(keys) * least_bytes <= MERGED_BYTES)
        if not fits:
            waiting, n_bytes = [], 0
            continue
        waiting.append(part)
        n_bytes += part.n_bytes
        if n_bytes > MERGED_BYTES:
            merge()
    merged = merge()
    return merged if fits else len(keys)


def merging_states(
    states_of_parts: StatesOfParts, layout: ClusterLayout | None = None, *, least_bytes: int = 0
) -> Mergers:
    """What makes few messages of the many of each bucket, by kind.

    Args:
        states_of_parts: adds up the users of small groups and the states of others.
        layout: of the users of clusters, who become sums of clusters.
        least_bytes: how much memory the state of a group takes at the least.
    """
    merge = partial(_states_that_fit, states_of_parts=states_of_parts, least_bytes=least_bytes)
    mergers = {STATES: process.merging_each_bucket(STATES, merge)}
    return mergers if layout is None else {**mergers, CLUSTER_USERS: merging_clusters(layout)}


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
        accumulators = [feature.new_accumulator(task, context) for feature in process.features_of(task)]
        for batch, features in process.with_features(task, batches):
            scores = score(task, batch, features)
            if rows is not None:
                yield from messages_with_rows(rows(batch, scores))
            weights = None
            if task.weight_count:
                # Those of the first model: users have the same for all.
                weights = scores.counts[count_of_model(task.weight_count, 0)].astype(np.float64)
            values = [*scores.metrics, *scores.standard_values]
            yield from states.add(batch, values, scores.counts, scores.normalisers, weights)
            users = process.ScoredUsers(batch, weights, scores.metrics)
            for number, accumulator in enumerate(accumulators):
                yield from accumulator.add(users, scores.features[number])
            # What features have of a batch, such as lists of candidates, makes room for that of the next one.
            del scores
        yield from states.messages()
        for accumulator in accumulators:
            yield from accumulator.messages()

    return run


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
        self._new = partial(StateAccumulator, n_values, names, options)
        self._options, self._keys = options, context.keys
        self._hashed = names.tables if has_hashes else ()
        self._clusters = (
            ClusterRows(ClusterLayout.for_options(n_values, options, len(context.keys))) if options.clustered else None
        )
        # Without keys all users are added to one state.
        self._whole = None if context.keys else self._new()
        self._held = GroupStates([], {})
        # Users of small groups, and how many of each group have come. The replicates of a group must not be made of many groups at once.
        self._small: list[FewUsers] = []
        self._small_bytes = 0
        self._n_seen: Counter[Key] = Counter()
        self._few = 0 if options.resamples else FEW
        self._most = max(1, HELD_BYTES // bytes_of_a_group(n_values, len(names.users) + len(names.rows), options))
        # A group costs the same for few users as for many, so users of small batches wait for one another.
        self._waiting: list[tuple[list[pa.Array], BoolArray, UsersOfGroups]] = []

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
        absent = np.zeros(batch.num_rows, np.bool_)
        if grouped_row.ABSENT in columns:
            absent = grouped_row.flags(columns[grouped_row.ABSENT])
        keys = [columns[name] for name in self._keys]
        limbs = grouped_row.limbs_of_users(self._hashed, columns)
        users = UsersOfGroups(dict(enumerate(values)), dict(counts), dict(normalisers), limbs, about)
        if self._clusters is not None:
            there = np.flatnonzero(~(about["is_null"] | absent))
            rows, some = pa.array(there), users._replace(counts={}, limbs={}).take(there)
            yield from self._clusters.add(
                columns[grouped_row.CLUSTER_HASH].take(rows),
                grouped_row.whole_numbers(columns[grouped_row.USER_HASH])[there],
                [key.take(rows) for key in keys],
                list(some.values.values()),
                some.users.get("weight"),
                some.normalisers,
            )
        if self._whole is not None:
            self._whole.add(users.take(~absent) if absent.any() else users)
            return
        self._waiting.append((keys, absent, users))
        if sum(len(rows) for _, rows, _ in self._waiting) >= _TOGETHER:
            yield from self._settle()

    def _settle(self) -> Iterator[Message]:
        """Add the waiting users to the states of their groups, or keep those of small groups."""
        if not self._waiting:
            return
        keys, absent, parts = zip(*self._waiting, strict=True)
        self._waiting = []
        users, is_absent = UsersOfGroups.concatenated(parts), np.concatenate(absent)
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
            # A group without users is a group all the same.
            self._small.append(FewUsers(list(small), *_users_of_groups(users, is_absent, list(small.values()))))
            self._small_bytes += self._small[-1].n_bytes
        if self._small_bytes > HELD_BYTES:
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
            states.add_counts(joined([counts_by_key[key] for key in some]), group=np.arange(len(some)))
            yield from self._hold(states.states(some))

    def _chunks(self, keys: Iterable[Key]) -> Iterator[list[Key]]:
        """As many of the groups as can be held."""
        some = list(keys)
        for first in range(0, len(some), self._most):
            yield some[first : first + self._most]

    def _hold(self, states: GroupStates) -> Iterator[Message]:
        """Keep states; gives those held so far if there would be too many."""
        if len({*self._held.keys, *states.keys}) > self._most:
            yield from self._held_messages()
        self._held = GroupStates.merged([self._held, states])

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
        small, self._small, self._small_bytes = self._small, [], 0
        self._n_seen.clear()
        if small:
            yield from messages_by_bucket(FewUsers.joined(small))

    def _held_messages(self) -> Iterator[Message]:
        held, self._held = self._held, GroupStates([], {})
        yield from messages_by_bucket(held)


def _users_of_groups(
    users: UsersOfGroups, absent: BoolArray, groups: Sequence[IntArray]
) -> tuple[IntArray, UsersOfGroups]:
    """The users in the rows of some groups, with the number of each one's group; those who are absent are left out."""
    group, rows = np.repeat(np.arange(len(groups)), list(map(len, groups))), np.concatenate(groups)
    is_there = ~absent[rows]
    return group[is_there], users.take(rows[is_there])


def drawn(columns: Mapping[str, pa.Array], options: DescriptionOptions) -> Array:
    """The hashes by which users are resampled: those of their clusters if they have any; int64 (n_users,)."""
    hashes = grouped_row.whole_numbers(columns[grouped_row.USER_HASH])
    return grouped_row.hashes_of_clusters(columns[grouped_row.CLUSTER_HASH], hashes) if options.clustered else hashes
