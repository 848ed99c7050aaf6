"""Users who travel by themselves: those of small groups with their values, and by their hashes those whose value a cut tie leaves open.

The state of a small group takes more than its users do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from spark_rankeval.ranking.ragged import Array, IntArray
from spark_rankeval.request.counts import CountNames
from spark_rankeval.statistics.description import DescriptionOptions
from spark_rankeval.wire import Merger, Message, unpack
from spark_rankeval.worker.group_states import KEYS, GroupStates, Key, StateAccumulator, in_buckets, keys_of, written

Tree = Mapping[str, Any]

#: Up to so many users of a group in a task travel as they are. About 100 take as many bytes as a state.
FEW = 64
#: The field of a tree that has users instead of states, and in it the numbers of the users' groups among the keys.
USERS, _GROUP = "users", "group"


class UsersOfGroups(NamedTuple):
    """What users have, by name: arrays with an entry for each user. `values` and `normalisers` are named by the places of values."""

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
            [self.values[str(place)] for place in range(len(self.values))],
            self.counts,
            self.users["is_null"],
            self.users.get("hash"),
            self.users.get("weight"),
            {int(place): column for place, column in self.normalisers.items()},
            self.limbs,
            group,
        )


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

    def trees(self) -> Iterator[tuple[int, Tree]]:
        """The users by the buckets where their groups meet. Afterwards it holds nothing."""
        parts, keys = self._parts, list(self._numbers)
        self._parts, self._numbers, self.n_bytes = [], {}, 0
        if not parts:
            return
        group, users = (
            np.concatenate([part[0] for part in parts]),
            UsersOfGroups.concatenated([part[1] for part in parts]),
        )
        in_order = in_buckets(keys)
        rank = np.empty(len(keys), np.int64)
        rank[[number for _, number in in_order]] = np.arange(len(keys))
        order = np.argsort(rank[group], kind="stable")
        group, users = rank[group][order], users.take(order)
        first = 0
        for bucket, some in groupby(in_order, key=lambda entry: entry[0]):
            of_bucket = [keys[number] for _, number in some]
            rows = slice(*np.searchsorted(group, [first, first + len(of_bucket)]))
            columns = {name: columns for name, columns in users.take(rows)._asdict().items() if columns}
            yield bucket, {KEYS: written(of_bucket), USERS: columns | {_GROUP: {_GROUP: group[rows] - first}}}
            first += len(of_bucket)


def states_of(trees: Sequence[Tree], n_values: int, names: CountNames, options: DescriptionOptions) -> GroupStates:
    """The states of the groups of some trees, which have all users of theirs."""
    # Users of groups of items have no counts, and may meet others who have.
    alike: dict[tuple[tuple[str, ...], ...], list[tuple[list[Key], IntArray, UsersOfGroups]]] = {}
    for tree in trees:
        users = UsersOfGroups(*(dict(tree[USERS].get(name, {})) for name in UsersOfGroups._fields))
        alike.setdefault(tuple(map(tuple, users)), []).append((keys_of(tree), tree[USERS][_GROUP][_GROUP], users))
    return GroupStates.merged(_states_of_alike(some, n_values, names, options) for some in alike.values())


def _states_of_alike(
    parts: Sequence[tuple[list[Key], IntArray, UsersOfGroups]],
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


#: The kind of messages that name users whom pruning left open.
OPEN_USERS = "open users"
#: So many of them are named at the most. If there are more, all users are computed again.
MOST_OPEN = 1 << 16


class OpenUsers:
    """Users whose value is left open: hashes of their ids, as many as can be held, and how many users there are."""

    def __init__(self) -> None:
        self.hashes: IntArray = np.empty(0, np.int64)
        self.n = 0

    def add(self, hashes: IntArray, n: int | None = None) -> None:
        """Take in users by their hashes; `n` says how many there are if hashes of some are missing."""
        self.n += len(hashes) if n is None else n
        # In one order: what is made again after a fault is the same.
        self.hashes = np.sort(np.concatenate([self.hashes, hashes]))[:MOST_OPEN]

    @classmethod
    def of_trees(cls, trees: Iterable[Mapping[str, Any]]) -> OpenUsers:
        """The users of all that `tree` gave."""
        users = cls()
        for tree in trees:
            users.add(tree["hashes"], int(tree["n"][0]))
        return users

    def tree(self) -> dict[str, Any]:
        """The same as `wire.pack` takes it."""
        return {"hashes": self.hashes, "n": np.array([self.n])}

    def message(self) -> Message:
        """The users as a message; those of all partitions meet in one place."""
        return Message.of_tree(OPEN_USERS, self.tree(), bucket=0)


class OpenUsersMerger(Merger):
    """One message of those of all partitions."""

    def add(self, _: int | None, payloads: Iterable[bytes]) -> Iterator[Message]:
        """Take in the users of partitions; gives all of them."""
        yield OpenUsers.of_trees(map(unpack, payloads)).message()
