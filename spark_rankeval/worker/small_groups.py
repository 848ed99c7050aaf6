"""Users of small groups: they travel as they are, because the state of a group takes more than they do."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spark_rankeval.worker.group_states import KEYS, GroupStates, StateAccumulator, in_buckets, keys_of, written

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spark_rankeval.ranking.ragged import Array, IntArray
    from spark_rankeval.statistics.description import DescriptionOptions
    from spark_rankeval.worker.group_states import Key
    from spark_rankeval.worker.scoring import CountNames

    Tree = Mapping[str, Any]

#: Up to so many users of a group in a task travel as they are. About 100 take as many bytes as a state.
FEW = 64
#: The field of a tree that has users instead of states, and in it the numbers of the users' groups among the keys.
USERS, _GROUP = "users", "group"


class Users(NamedTuple):
    """What users have, by name: arrays with an entry for each user. `values` and `normalisers` are named by the places of values."""

    values: dict[str, Array]
    counts: dict[str, Array]
    normalisers: dict[str, Array]
    limbs: dict[str, Array]  # of the hashes of their rows, by table
    # ``is_null``: the row has no user. As far as there are any: ``hash`` for bootstrap samples, and ``weight``.
    users: dict[str, Array]

    def take(self, rows: Array | slice) -> Users:
        """Those in some rows."""
        return Users(*({name: column[rows] for name, column in columns.items()} for columns in self))

    @classmethod
    def concatenated(cls, parts: Sequence[Users]) -> Users:
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
        self._parts: list[tuple[IntArray, Users]] = []
        self.n_bytes = 0

    def add(self, keys: Sequence[Key], group: IntArray, users: Users) -> None:
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
        group, users = np.concatenate([part[0] for part in parts]), Users.concatenated([part[1] for part in parts])
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
    alike: dict[tuple[tuple[str, ...], ...], list[tuple[list[Key], IntArray, Users]]] = {}
    for tree in trees:
        users = Users(*(dict(tree[USERS].get(name, {})) for name in Users._fields))
        alike.setdefault(tuple(map(tuple, users)), []).append((keys_of(tree), tree[USERS][_GROUP][_GROUP], users))
    return GroupStates.merged(_states_of_alike(some, n_values, names, options) for some in alike.values())


def _states_of_alike(
    parts: Sequence[tuple[list[Key], IntArray, Users]], n_values: int, names: CountNames, options: DescriptionOptions
) -> GroupStates:
    numbers: dict[Key, int] = {}
    groups = []
    for keys, group, _ in parts:
        groups.append(np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)[group])
    states = StateAccumulator(n_values, names, options, len(numbers))
    Users.concatenated([users for _, _, users in parts]).add_to(states, np.concatenate(groups))
    return states.states(list(numbers))
