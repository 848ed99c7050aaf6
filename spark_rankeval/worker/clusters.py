"""Users on their way to the others of their cluster, and the sums of clusters where these meet.

The sum of a cluster needs all its users, in one order, or its last digits would depend on partitions. So every partition sends its users'
values to buckets by a hash of their cluster, as rows of 8-byte words. In a bucket users are sorted and added up cluster by cluster. Only
exact sums over clusters go on. A cluster is known by a 64-bit hash: among n clusters two are taken for one with a probability of about
n² / 2⁶⁵.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from spark_rankeval.ranking.ragged import Array, IntArray, starts_of_runs
from spark_rankeval.records.slices import ALL_VALUES, Key
from spark_rankeval.statistics.cluster_sums import SHIFT, ClusterAccumulator, ClusterSums, sums_by_cluster
from spark_rankeval.statistics.description import DescriptionOptions
from spark_rankeval.statistics.drawn_clusters import DrawnClusterAccumulator, drawn_columns
from spark_rankeval.statistics.judged_clusters import BYTES_OF_A_FIGURE, JudgedClusterAccumulator, judged_columns
from spark_rankeval.statistics.moments import merged
from spark_rankeval.statistics.resampling import mixed
from spark_rankeval.wire import Merger, Message

Rollup = Callable[[Key], Iterable[Key]]
#: The sums of clusters by the name of their group, as `ClusterAccumulator` has them.
ClusterStates = dict[str, dict[str, Array]]

#: The kinds of messages: users who go on to the others of their cluster, in a bucket for each group of clusters; sums of clusters; and
#: those by two judges.
CLUSTER_USERS, CLUSTER_SUMS, JUDGED_CLUSTERS = "users of clusters", "sums of clusters", "sums of clusters by two judges"

# A worker holds so many bytes of users before they go on, and so many of sums.
_HELD = 1 << 26
# The words of a row before those of its groups: the hashes of cluster and user, and whether the user has no cluster.
_CLUSTER, _USER, _HAS_NO_CLUSTER, _KEYS = range(4)
# Sets the hashes of users who stand for a cluster alone apart from those of clusters, which may have the users' ids.
_ALONE = np.uint64(0x9E3779B97F4A7C15)
# About how many bytes the sums of a group of clusters take, in a few strata.
_DRAWN_BYTES = 500
# A null in a column that divides users into groups.
_NULL = 0


def alone(users: IntArray) -> IntArray:
    """The hashes of clusters of one user each, from the users' 64-bit hashes: those of no other cluster, whatever its id."""
    hashes: IntArray = mixed(users.view(np.uint64) ^ _ALONE).view(np.int64)
    return hashes


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
        judged: the places of a human value and of the model's, for each mean that two judges estimate; users then have a grading weight.
        drawn: people graded users with unequal probabilities, or from strata; users then have a stratum, too.
    """

    n_values: int
    normalised: tuple[int, ...] = ()
    weighted: bool = False
    n_keys: int = 0
    masks: tuple[tuple[bool, ...], ...] = ((),)
    cubes: bool = False
    grouped: bool = False
    judged: tuple[tuple[int, int], ...] = ()
    drawn: bool = False

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
            options.judged,
            options.drawn,
        )

    @property
    def n_words(self) -> int:
        """The words of a row: those about the user, the stratum, the user's weight, normalisers, the grading weight, values."""
        return self.first_number + self.weighted + len(self.normalised) + bool(self.judged) + self.n_values

    @property
    def first_number(self) -> int:
        """How many words of a row come before its numbers."""
        return _KEYS + self.n_keys + self.drawn

    def new_sums(self) -> ClusterAccumulator:
        """What adds up the clusters of a group."""
        return ClusterAccumulator(self.n_values, cubes=self.cubes, grouped=self.grouped)

    def values(self, rows: Array) -> Array:
        """The values of each user."""
        return rows[:, self.n_words - self.n_values :]

    def judged_sums(self, rows: Array, starts: Array) -> ClusterSums | None:
        """The sums by two judges of clusters whose first users have these places; None if others are needed, or none."""
        if self.drawn or not self.judged:
            return None
        columns = judged_columns(self.values(rows), self.judged, rows[:, self.n_words - self.n_values - 1])
        return sums_by_cluster(rows.view(np.int64)[:, _CLUSTER], starts, columns)

    def add_drawn(self, rows: Array, sums: DrawnClusterAccumulator) -> None:
        """Add users of clusters whom people graded with unequal probabilities, or from strata."""
        values, words = self.values(rows), rows.view(np.int64)
        grading = rows[:, self.n_words - self.n_values - 1]
        figures = [drawn_columns(values[:, human], values[:, judge], grading) for human, judge in self.judged]
        sums.add(words[:, _CLUSTER], words[:, _KEYS + self.n_keys], figures)

    def weights(self, rows: Array) -> Array | None:
        """The weights of each user and value; None if all are 1."""
        if not (self.weighted or self.normalised):
            return None
        first = self.first_number
        weights = np.ones((len(rows), self.n_values))
        if self.weighted:
            weights *= rows[:, [first]]
        first += self.weighted
        for index, value in enumerate(self.normalised, first):
            weights[:, value] *= rows[:, index]
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
        normalisers: Mapping[int, Array] | None = None,
        grading_weights: Array | None = None,
        strata: pa.Array | None = None,
    ) -> Iterator[Message]:
        """Take in users with the hashes of their clusters, null if not known; gives messages if there are many.

        Who has no weight above 0 is left out. Who has no cluster is one alone.
        """
        layout = self._layout
        rows = np.empty((len(users), layout.n_words))
        words = rows.view(np.int64)
        words[:, _HAS_NO_CLUSTER] = clusters.is_null().to_numpy(zero_copy_only=False)
        words[:, _CLUSTER] = clusters.fill_null(0).to_numpy(zero_copy_only=False)
        words[:, _USER] = users
        words[:, _CLUSTER] = np.where(words[:, _HAS_NO_CLUSTER], alone(users), words[:, _CLUSTER])
        for index, key in enumerate(keys, _KEYS):
            words[:, index] = _hashes(key)
        if layout.drawn:
            words[:, layout.first_number - 1] = text_hash("") if strata is None else _hashes(strata)
        numbers = [] if weights is None else [weights]
        numbers += [normalisers[index] for index in layout.normalised] if normalisers else []
        numbers += [] if grading_weights is None else [grading_weights]
        for index, column in enumerate([*numbers, *values[: layout.n_values]], layout.first_number):
            rows[:, index] = column
        if weights is not None:
            rows = rows[(weights > 0) & np.isfinite(weights)]
        self._waiting.append(rows)
        self._n_waiting += rows.nbytes
        if self._n_waiting >= _HELD:
            yield from self.messages()

    def messages(self) -> Iterator[Message]:
        """A message for each bucket with all users who are waiting for it."""
        waiting, self._waiting, self._n_waiting = self._waiting, [], 0
        rows = np.concatenate(waiting) if waiting else np.empty((0, self._layout.n_words))
        if not len(rows):
            return
        bucket = (rows.view(np.uint64)[:, _CLUSTER] >> SHIFT).astype(np.int64)
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
        self._judged: dict[str, JudgedClusterAccumulator] = {}
        self._drawn: dict[str, DrawnClusterAccumulator] = {}
        self._n_buckets = 0

    def add(self, _: int | None, payloads: Iterable[bytes]) -> Iterator[Message]:
        """Take in all users of a bucket, as `ClusterRows` sent them; gives what has to make room."""
        rows = np.frombuffer(b"".join(payloads)).reshape(-1, self._layout.n_words)
        words = rows.view(np.int64)
        order = np.lexsort((words[:, _USER], words[:, _CLUSTER]))
        by_user = words[order]
        if (by_user[1:, : _USER + 1] == by_user[:-1, : _USER + 1]).all(axis=1).any():
            # Users without a name, or of one hash, have an order by all that is known of them.
            order = np.lexsort((*words.T[::-1], words[:, _USER], words[:, _CLUSTER]))
        rows = rows[order]
        for mask in self._layout.masks:
            self._add_groups(rows, mask)
        self._n_buckets += 1
        value_bytes = (9 if self._layout.cubes else 6) * 256 + 24 * self._n_buckets * self._layout.grouped
        judged_bytes = BYTES_OF_A_FIGURE + (_DRAWN_BYTES if self._layout.drawn else 72) * self._n_buckets
        figures_bytes = self._layout.n_values * value_bytes + len(self._layout.judged) * judged_bytes
        if len(self._groups) * figures_bytes > _HELD:
            yield from self.rest()

    def _add_groups(self, rows: Array, mask: tuple[bool, ...]) -> None:
        """Add users to the groups that keep some of the columns; users of a cluster stand together."""
        layout = self._layout
        columns = [rows.view(np.int64)[:, _KEYS + index] for index, is_kept in enumerate(mask) if is_kept]
        if columns:
            order = np.lexsort(columns)
            rows, columns = rows[order], [column[order] for column in columns]
        words = rows.view(np.int64)
        is_first_of_group = starts_of_runs(*columns) if columns else np.arange(len(rows)) == 0
        starts = np.flatnonzero(is_first_of_group | starts_of_runs(words[:, _CLUSTER]))
        sums = sums_by_cluster(words[:, _CLUSTER], starts, layout.values(rows), layout.weights(rows))
        judged = layout.judged_sums(rows, starts)
        n_alone = np.add.reduceat(words[:, _HAS_NO_CLUSTER], np.flatnonzero(is_first_of_group))
        firsts = np.flatnonzero(is_first_of_group[starts])
        for group, (first, end) in enumerate(zip(firsts, [*firsts[1:], len(starts)], strict=True)):
            values = iter([int(column[starts[first]]) for column in columns])
            name = json.dumps([next(values) if is_kept else None for is_kept in mask])
            if name not in self._groups:
                self._groups[name] = self._new(mask)
            self._groups[name].add(ClusterSums(*(each[first:end] for each in sums)), int(n_alone[group]))
            if judged is not None:
                accumulator = self._judged.setdefault(name, JudgedClusterAccumulator(len(layout.judged)))
                accumulator.add(ClusterSums(*(each[first:end] for each in judged)))
            if layout.drawn:
                drawn = self._drawn.setdefault(name, DrawnClusterAccumulator(len(layout.judged)))
                layout.add_drawn(rows[starts[first] : starts[end] if end < len(starts) else len(rows)], drawn)

    def rest(self) -> Iterator[Message]:
        """The sums so far. Afterwards it holds nothing."""
        groups = self._groups
        judged: dict[str, JudgedClusterAccumulator | DrawnClusterAccumulator] = {**self._judged, **self._drawn}
        self._groups, self._judged, self._drawn, self._n_buckets = {}, {}, {}, 0
        if groups:
            yield Message.of(CLUSTER_SUMS, {name: sums.state() for name, sums in groups.items()})
        if judged:
            yield Message.of(JUDGED_CLUSTERS, {name: sums.state() for name, sums in judged.items()})


def merged_clusters(messages: Iterable[Message], kind: str = CLUSTER_SUMS) -> ClusterStates:
    """The sums of all clusters by the name of their group, from what `ClusterMerger` gave; of one kind."""
    parts: dict[str, list[dict[str, Array]]] = {}
    for message in messages:
        for name, state in message.state.items() if message.kind == kind else ():
            parts.setdefault(name, []).append(state)
    return {name: merged(states) for name, states in parts.items()}


def group_name(key: Key) -> str:
    """The name of a group of users: texts or nulls in the columns that it keeps, and `ALL_VALUES` in others."""
    return json.dumps([None if value is ALL_VALUES else text_hash(value) for value in key])


def no_clusters(layout: ClusterLayout) -> dict[str, Array]:
    """The sums of no cluster."""
    return layout.new_sums().state()


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
