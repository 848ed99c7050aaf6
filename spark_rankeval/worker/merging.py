"""Where states of many partitions meet: they become few, and users of a cluster become sums of clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spark_rankeval.worker.clusters import FIRST_PLACE, ClusterMerger
from spark_rankeval.worker.group_states import GroupStates, keys_of
from spark_rankeval.worker.open_users import OPEN_PLACE, OpenUsers
from spark_rankeval.worker.packing import by_place, placed, unpack
from spark_rankeval.worker.process import in_worker
from spark_rankeval.worker.small_groups import USERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from spark_rankeval.worker.clusters import Layout
    from spark_rankeval.worker.group_states import Key
    from spark_rankeval.worker.states import Batches

    #: The states of groups from all users of theirs, such as `small_groups.states_of` with number of values, names of counts and options.
    StatesOfUsers = Callable[[Sequence[Mapping[str, Any]]], GroupStates]

#: How much memory the states of a place's groups take at the most.
MERGED_BYTES = 1 << 26
# The field of a row that has the number of groups instead of their states; the names of groups are JSON arrays.
_N_GROUPS = "n_groups"


class MergedStates:
    """States that come one after the other, as one: all of them at once might not fit into memory.

    Raising in a worker would only run the task again: of groups whose states are too large to be held the number is left.
    """

    def __init__(self, states_of_users: StatesOfUsers) -> None:
        self._states_of_users = states_of_users
        self._users: list[Mapping[str, Any]] = []
        self._states: list[GroupStates] = []
        self._n_bytes = 0
        self._keys: set[Key] = set()
        self._fits = True

    def add(self, tree: Mapping[str, Any]) -> None:
        """Take in states, as `GroupStates` gives them, or users, as `SmallGroups` does."""
        self._keys.update(keys_of(tree))
        if USERS in tree:
            self._users.append(tree)
            self._n_bytes += sum(column.nbytes for columns in tree[USERS].values() for column in columns.values())
        else:
            states = GroupStates.of_tree(tree)
            self._states.append(states)
            self._n_bytes += states.n_bytes
        if self._n_bytes > MERGED_BYTES:
            self._merge()

    def tree(self) -> dict[str, Any]:
        """All of them, or their number, which `n_groups_of` reads."""
        merged = self._merge()
        return merged.tree() if self._fits else {_N_GROUPS: np.array([len(self._keys)])}

    def _merge(self) -> GroupStates:
        if self._users:
            self._states.append(self._states_of_users(self._users))
            self._users = []
        merged = GroupStates.merged(self._states)
        self._n_bytes = merged.n_bytes
        self._fits = self._fits and (self._n_bytes <= MERGED_BYTES or len(self._keys) == 1)
        self._states = [merged] if self._fits else []
        return merged


def merging(layout: Layout | None, states_of_users: StatesOfUsers) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow``: one row of states instead of the many of a place. A partition has the rows of a place together.

    With a layout users of clusters meet, too: their rows become sums of clusters. `states_of_users` adds up the users of small groups.
    """

    @in_worker
    def run(batches: Batches) -> Batches:
        clusters = None if layout is None else ClusterMerger(layout)
        for place, packed in by_place(batches):
            if clusters is not None and place is not None and place >= FIRST_PLACE:
                for tree in clusters.add(packed):
                    yield placed(None, tree)
                continue
            trees = map(unpack, packed)
            if place == OPEN_PLACE:
                yield placed(OPEN_PLACE, OpenUsers.of_trees(trees).tree())
                continue
            merged = MergedStates(states_of_users)
            for tree in trees:
                merged.add(tree)
            yield placed(None, merged.tree())
        if clusters is not None:
            yield from clusters.rows()

    return run


def n_groups_of(tree: Mapping[str, Any]) -> int | None:
    """How many groups a row of `merging` stands for that could not be held; None: it has their states."""
    return int(tree[_N_GROUPS][0]) if _N_GROUPS in tree else None
