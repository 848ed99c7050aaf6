"""Users of groups that few users of a task are in: they travel as they are, for the state of a group takes more than they do."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_rankeval.worker.stacked_states import (
    KEYS,
    UsersOfGroups,
    in_places,
    keys_of,
    merged_trees,
    tree_of_groups,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spark_rankeval.ranking.ragged import Array, IntArray
    from spark_rankeval.statistics.description import DescriptionOptions
    from spark_rankeval.worker.scoring import CountNames
    from spark_rankeval.worker.table_states import Key

    Tree = Mapping[str, Any]

#: Up to so many users of a group in a task travel as they are. About 100 take as many bytes as a state.
FEW = 64
#: The field of a tree that has users instead of states.
USERS = "users"
# Its fields: the number of a user's group among the keys, whether it is nobody, the values; and of each name the counts and hashes.
_GROUP, _NOBODY, _VALUES, _COUNT, _LIMBS = "group", "nobody", "values", "count_", "limbs_"


class FewUsers:
    """The users of a task who wait to go on."""

    def __init__(self) -> None:
        self._numbers: dict[Key, int] = {}
        self._parts: list[dict[str, Array]] = []
        self.n_bytes = 0

    def add(self, keys: Sequence[Key], group: IntArray, users: UsersOfGroups) -> None:
        """Take in users, with the place of each one's group among the keys; a group that nobody is in is a group all the same."""
        numbers = np.array([self._numbers.setdefault(key, len(self._numbers)) for key in keys], np.int64)
        part = {
            _GROUP: numbers[group],
            _NOBODY: users.nobody,
            _VALUES: np.stack(users.values) if users.values else np.empty((0, len(group))),
            **{f"{_COUNT}{name}": column.astype(np.float64, copy=False) for name, column in users.counts.items()},
            **{f"{_LIMBS}{table}": limbs.T for table, limbs in users.limbs.items()},
        }
        self._parts.append(part)
        self.n_bytes += sum(values.nbytes for values in part.values())

    def trees(self) -> Iterator[tuple[int, Tree]]:
        """The users by the places where their groups meet. Afterwards it holds nobody."""
        parts, keys = self._parts, list(self._numbers)
        self._parts, self._numbers, self.n_bytes = [], {}, 0
        if not parts:
            return
        users = {name: np.concatenate([part[name] for part in parts], axis=-1) for name in parts[0]}
        in_order = in_places(keys)
        # Where each group comes, and so its users.
        rank = np.empty(len(keys), np.int64)
        rank[[number for _, number in in_order]] = np.arange(len(keys))
        of_users = rank[users[_GROUP]]
        order = np.argsort(of_users, kind="stable")
        users, of_users = {name: values[..., order] for name, values in users.items()}, of_users[order]
        first = 0
        for place, some in groupby(in_order, key=lambda entry: entry[0]):
            here = [keys[number] for _, number in some]
            rows = slice(*np.searchsorted(of_users, [first, first + len(here)]))
            there = {name: values[..., rows] for name, values in users.items()} | {_GROUP: of_users[rows] - first}
            yield place, {KEYS: written(here), USERS: there}
            first += len(here)


def states_of(trees: Sequence[Tree], names: CountNames, options: DescriptionOptions) -> dict[str, Any]:
    """The states of the groups, from all users of theirs."""
    # Users of groups of items have no counts, and may meet others who have.
    alike: dict[tuple[str, ...], list[Tree]] = {}
    for tree in trees:
        alike.setdefault(tuple(tree[USERS]), []).append(tree)
    return merged_trees([_states_of_alike(some, names, options) for some in alike.values()])


def _states_of_alike(trees: Sequence[Tree], names: CountNames, options: DescriptionOptions) -> dict[str, Any]:
    numbers: dict[Key, int] = {}
    groups = []
    for tree in trees:
        of_tree = np.array([numbers.setdefault(key, len(numbers)) for key in keys_of(tree)], np.int64)
        groups.append(of_tree[tree[USERS][_GROUP]])
    users = {name: np.concatenate([tree[USERS][name] for tree in trees], axis=-1) for name in trees[0][USERS]}
    of_groups = UsersOfGroups(
        list(users[_VALUES]),
        {name.removeprefix(_COUNT): values for name, values in users.items() if name.startswith(_COUNT)},
        users[_NOBODY],
        {name.removeprefix(_LIMBS): values.T for name, values in users.items() if name.startswith(_LIMBS)},
    )
    return tree_of_groups(list(numbers), np.concatenate(groups), of_groups, names, options)
