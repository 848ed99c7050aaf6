"""The states of groups of users: sums of their values, counts and hashes, one entry per group. States merge exactly.

Users of small groups travel as they are, because the state of a small group takes more than its users.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from spark_rankeval.ranking.ragged import Array, BoolArray, IntArray, Ragged, offsets_of
from spark_rankeval.records.slices import Key
from spark_rankeval.request.counts import CountNames
from spark_rankeval.statistics.description import DescriptionAccumulator, DescriptionOptions
from spark_rankeval.statistics.moments import MomentsAccumulator, merged_stacks
from spark_rankeval.statistics.quantiles import merged_sketches, tallies_of_groups
from spark_rankeval.statistics.table_fingerprints import no_limbs
from spark_rankeval.worker.reading import WHOLE_TABLES, filled

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
# Codes of groups up to here are whole numbers of 64 bits.
_MOST_CODES = 1 << 62


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
        self._fingerprints = {
            table: np.stack([no_limbs(whole=table in WHOLE_TABLES)] * n_groups) for table in names.tables
        }
        self._names, self._n_groups = names, n_groups

    def add(
        self,
        values: Sequence[Array],
        counts: Mapping[str, Array],
        is_null: BoolArray,
        users: Array | None,
        weights: Array | None = None,
        normalisers: Mapping[int, Array] | None = None,
        limbs: Mapping[str, Array] | None = None,
        group: IntArray | None = None,
    ) -> None:
        """Take in users: an array a value, counts by name as far as they have any, and normalisers by the indices of their values.

        Of rows without a user (`is_null`) only the rows that cannot be ranked are counted, and fingerprints have them. A weight that is
        NaN is none. `limbs` are those of `limbs_of`, by table. `group` has the group of each user, if there are several.
        """
        valid = ~is_null if is_null.any() else slice(None)
        self._values.add(
            [value[valid] for value in values],
            None if users is None else users[valid],
            None if weights is None else weights[valid],
            {index: value[valid] for index, value in (normalisers or {}).items()},
            None if group is None else group[valid],
        )
        self.add_counts(counts, valid, group)
        for table, each in (limbs or {}).items():
            if group is None:
                self._fingerprints[table] += each.sum(axis=0)
            else:
                np.add.at(self._fingerprints[table], group, each)

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


def rows_by_key(columns: list[pa.Array], n_rows: int) -> Iterator[tuple[Key, Array | slice]]:
    """The rows of each combination of values, in their order; all of them if there is no column."""
    if not columns:
        yield (), slice(None)
        return
    encoded = [
        column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode("encode") for column in columns
    ]
    code = np.zeros(n_rows, np.int64)
    n_codes = 1
    for column in encoded:
        if n_codes * len(column.dictionary) > _MOST_CODES:
            # As many as there are combinations so far: their product would leave 64 bits, and codes meet.
            distinct, code = np.unique(code, return_inverse=True)
            n_codes = len(distinct)
        code = code * len(column.dictionary) + filled(column.indices, 0)
        n_codes *= len(column.dictionary)
    ordered = np.argsort(code, kind="stable")
    for rows in np.split(ordered, np.flatnonzero(np.diff(code[ordered])) + 1) if n_rows else ():
        yield tuple(column[int(rows[0])].as_py() for column in columns), rows


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


class UsersOfGroups(NamedTuple):
    """What users have, by name: arrays with an entry for each user. `values` and `normalisers` are named by the indices of values."""

    values: dict[str, Array]
    counts: dict[str, Array]
    normalisers: dict[str, Array]
    limbs: dict[str, Array]  # of the hashes of their rows, by table
    # ``is_null``: the row has no user. As far as there are any: ``hash`` for bootstrap samples, and ``weight``.
    users: dict[str, Array]

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

    def add_to(self, states: StateAccumulator, group: IntArray | None = None) -> None:
        """Add these users to states; `group` has the group of each user, if there are several."""
        states.add(
            # Names come back in the order of texts.
            [self.values[str(index)] for index in range(len(self.values))],
            self.counts,
            self.users["is_null"],
            self.users.get("hash"),
            self.users.get("weight"),
            {int(index): column for index, column in self.normalisers.items()},
            self.limbs,
            group,
        )


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
    alike: dict[tuple[tuple[str, ...], ...], list[FewUsers]] = {}
    for part in parts:
        alike.setdefault(tuple(map(tuple, part.users)), []).append(part)
    return GroupStates.merged(_states_of_alike(some, n_values, names, options) for some in alike.values())


def _states_of_alike(
    parts: Sequence[FewUsers],
    n_values: int,
    names: CountNames,
    options: DescriptionOptions,
) -> GroupStates:
    numbers: dict[Key, int] = {}
    groups = []
    for keys, group, _ in parts:
        groups.append(np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)[group])
    states = StateAccumulator(n_values, names, options, len(numbers))
    UsersOfGroups.concatenated([users for _, _, users in parts]).add_to(states, np.concatenate(groups))
    return states.states(list(numbers))
