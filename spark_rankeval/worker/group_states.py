"""The states of groups of users and of clusters: sums, counts and hashes, an entry for each. States merge exactly."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from spark_rankeval.ranking.user_lists import Array, BoolArray, IntArray, Ragged, offsets_of, starts_of_runs
from spark_rankeval.records.slices import ALL_VALUES, Key
from spark_rankeval.request.call import CountNames
from spark_rankeval.statistics.cluster_sums import SHIFT, ClusterAccumulator, ClusterSums, sums_by_cluster
from spark_rankeval.statistics.description import DescriptionAccumulator, DescriptionOptions
from spark_rankeval.statistics.moments import MomentsAccumulator, merged, merged_stacks
from spark_rankeval.statistics.quantiles import merged_sketches, tallies_of_groups
from spark_rankeval.statistics.table_fingerprints import no_limbs
from spark_rankeval.wire import Merger, Message
from spark_rankeval.worker import reading as grouped_row

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
                parts[name] = merged_stacks(fields, indices)
        return GroupStates(list(numbers), parts)

    @classmethod
    def merged(cls, states: Iterable[GroupStates]) -> GroupStates:
        """The states of each group, from those of parts of its users."""
        some = [each for each in states if each.keys]
        if len(some) == 1:
            return some[0]
        parts = {
            name: {field: np.concatenate([each.parts[name][field] for each in some]) for field in fields}
            for name, fields in (some[0].parts.items() if some else ())
        }
        keys = list(chain.from_iterable(each.keys for each in some))
        return cls(keys, parts).summed(keys)

    def by_bucket(self) -> Iterator[tuple[int | None, GroupStates]]:
        """The states of the groups that meet in each bucket, in an order of the groups alone; all users have no bucket."""
        if self.keys == [()]:
            yield None, self
            return
        for bucket, some in groupby(sorted_by_bucket(self.keys), key=lambda entry: entry[0]):
            yield bucket, self.take([number for _, number in some])


def _merged_sketches(sketches: Fields, indices: IntArray, n_groups: int) -> Fields:
    width = 1 + int(sketches["column"].max(initial=0))
    cells = {name: values for name, values in sketches.items() if name != _ROWS}
    merged = merged_sketches([cells | {"column": np.repeat(indices, sketches[_ROWS]) * width + cells["column"]}])
    group, column = np.divmod(merged["column"], width)
    return merged | {"column": column, _ROWS: np.bincount(group, minlength=n_groups)}


class StateAccumulator:
    """The states of one or more groups, whose users come batch by batch."""

    def __init__(self, n_values: int, names: CountNames, options: DescriptionOptions, n_groups: int = 1) -> None:
        self._values = DescriptionAccumulator(n_values, options, n_groups)
        # Every n-th column is of the same group.
        self._counts = MomentsAccumulator((len(names.users) + len(names.rows)) * n_groups)
        self._fingerprints = {table: np.stack([no_limbs()] * n_groups) for table in names.tables}
        self._names, self._n_groups = names, n_groups

    def add(self, users: UsersOfGroups, group: IntArray | None = None) -> None:
        """Take in users; `group` has the group of each, if there are several.

        Of rows without a user only the rows that cannot be ranked are counted, and fingerprints have them. A weight that is NaN is none.
        """
        is_null = users.users["is_null"]
        valid = ~is_null if is_null.any() else slice(None)
        there = users.take(valid)
        self._values.add(
            list(there.values.values()),
            there.users.get("hash"),
            there.users.get("weight"),
            there.normalisers,
            None if group is None else group[valid],
        )
        self.add_counts(users.counts, valid, group)
        for table, limbs in users.limbs.items():
            if group is None:
                self._fingerprints[table] += limbs.sum(axis=0)
            else:
                np.add.at(self._fingerprints[table], group, limbs)

    def add_counts(
        self, counts: Mapping[str, Array], valid: BoolArray | slice = slice(None), group: IntArray | None = None
    ) -> None:
        """Take in counts alone, as far as there are any."""
        first = 0
        # Rows without a user can be counted, too.
        for named, rows in ((self._names.users, valid), (self._names.rows, slice(None))):
            counted_names = tuple(name for name in named if name in counts)
            for some in [counted_names] if counted_names == named else [(name,) for name in counted_names]:
                if not some:
                    continue
                columns = [counts[name][rows].astype(np.float64, copy=False) for name in some]
                column = first + named.index(some[0])
                if group is None:
                    self._counts.add_columns(column, columns)
                    continue
                for counted in tallies_of_groups(columns, group[rows], self._n_groups, column):
                    self._counts.add_tally(counted)
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


def sorted_by_bucket(keys: Sequence[Key]) -> list[tuple[int, int]]:
    """The bucket in which each group meets and its number among the keys: by bucket, and then in an order of the keys alone."""
    ordered = sorted((bucket_of(key), json.dumps(key), number) for number, key in enumerate(keys))
    return [(bucket, number) for bucket, _, number in ordered]


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
        if len(parts) == 1:
            return parts[0]
        return cls(
            *(
                {name: np.concatenate([part[name] for part in columns]) for name in columns[0]}
                for columns in zip(*parts, strict=True)
            )
        )

    @property
    def n_bytes(self) -> int:
        """How much memory they take."""
        return sum(column.nbytes for columns in self for column in columns.values())


class FewUsers(NamedTuple):
    """The users of small groups."""

    keys: list[Key]
    group: IntArray  # the number of each user's group among the keys
    users: UsersOfGroups


class SmallGroups:
    """The users of a task in groups that are small so far."""

    def __init__(self) -> None:
        self._numbers: dict[Key, int] = {}
        self._parts: list[tuple[IntArray, UsersOfGroups]] = []
        self.n_bytes = 0

    def add(self, keys: Sequence[Key], group: IntArray, users: UsersOfGroups) -> None:
        """Take in users, with the number of each one's group among the keys; a group without users is a group all the same."""
        numbers = np.array([self._numbers.setdefault(key, len(self._numbers)) for key in keys], np.int64)
        self._parts.append((numbers[group], users))
        self.n_bytes += users.n_bytes

    def by_bucket(self) -> Iterator[tuple[int, FewUsers]]:
        """The users by the buckets where their groups meet. Afterwards it holds nothing."""
        parts, keys = self._parts, list(self._numbers)
        self._parts, self._numbers, self.n_bytes = [], {}, 0
        if not parts:
            return
        group, users = (
            np.concatenate([part[0] for part in parts]),
            UsersOfGroups.concatenated([part[1] for part in parts]),
        )
        ordered = sorted_by_bucket(keys)
        rank = np.empty(len(keys), np.int64)
        rank[[number for _, number in ordered]] = np.arange(len(keys))
        order = np.argsort(rank[group], kind="stable")
        group, users = rank[group][order], users.take(order)
        first = 0
        for bucket, some in groupby(ordered, key=lambda entry: entry[0]):
            bucket_keys = [keys[number] for _, number in some]
            rows = slice(*np.searchsorted(group, [first, first + len(bucket_keys)]))
            yield bucket, FewUsers(bucket_keys, group[rows] - first, users.take(rows))
            first += len(bucket_keys)


def states_of(parts: Sequence[FewUsers], n_values: int, names: CountNames, options: DescriptionOptions) -> GroupStates:
    """The states of the groups of some parts, which have all users of theirs."""
    # Users of groups of items have no counts, and may meet others who have.
    alike: dict[tuple[tuple[Any, ...], ...], list[FewUsers]] = {}
    for part in parts:
        alike.setdefault(tuple(map(tuple, part.users)), []).append(part)
    made = []
    for some in alike.values():
        numbers = {key: number for number, key in enumerate(dict.fromkeys(key for part in some for key in part.keys))}
        groups = [np.array([numbers[key] for key in part.keys], np.int64)[part.group] for part in some]
        states = StateAccumulator(n_values, names, options, len(numbers))
        states.add(UsersOfGroups.concatenated([part.users for part in some]), np.concatenate(groups))
        made.append(states.states(list(numbers)))
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
        grouped: whether the sums of groups of clusters are kept, so that summaries of several days merge.
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


class ClusterMerger(Merger):
    """The sums of clusters from the users of one bucket after the other; `new` makes an accumulator of a group that keeps some columns."""

    def __init__(self, layout: ClusterLayout, new: Callable[[tuple[bool, ...]], Accumulator] | None = None) -> None:
        self._layout = layout
        self._new = new or (lambda mask: layout.new_sums())
        self._groups: dict[str, Accumulator] = {}
        self._n_buckets = 0

    def add(self, _: int | None, payloads: Iterable[bytes]) -> Iterator[Message]:
        """Take in all users of a bucket, as `ClusterRows` sent them; gives what has to make room."""
        rows = np.frombuffer(b"".join(payloads), self._layout.row)
        rows = rows[np.lexsort((rows["user"], rows["cluster"]))]
        if not starts_of_runs(rows["cluster"], rows["user"]).all():
            # Users without a name, or of one hash, have an order by all that is known of them.
            words = rows.view(np.int64).reshape(len(rows), -1)
            rows = rows[np.lexsort(words.T[::-1])]
        for mask in self._layout.masks:
            self._add_groups(rows, mask)
        self._n_buckets += 1
        value_bytes = (9 if self._layout.cubes else 6) * 256 + 24 * self._n_buckets * self._layout.grouped
        if len(self._groups) * self._layout.n_values * value_bytes > _HELD:
            yield from self.rest()

    def _add_groups(self, rows: Array, mask: tuple[bool, ...]) -> None:
        """Add users to the groups that keep some of the columns; users of a cluster stand together."""
        layout = self._layout
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
            if name not in self._groups:
                self._groups[name] = self._new(mask)
            self._groups[name].add(ClusterSums(*(each[first:end] for each in sums)), int(n_alone[group]))

    def rest(self) -> Iterator[Message]:
        """The sums so far. Afterwards it holds nothing."""
        groups, self._groups, self._n_buckets = self._groups, {}, 0
        if groups:
            yield Message.of(CLUSTER_SUMS, {name: sums.state() for name, sums in groups.items()})


def merged_clusters(messages: Iterable[Message]) -> ClusterStates:
    """The sums of all clusters by the name of their group, from what `ClusterMerger` gave."""
    parts: dict[str, list[dict[str, Array]]] = {}
    for message in messages:
        for name, state in message.state.items() if message.kind == CLUSTER_SUMS else ():
            parts.setdefault(name, []).append(state)
    return {name: merged(states) for name, states in parts.items()}


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
