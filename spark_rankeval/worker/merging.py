"""Where messages of many partitions meet: states of the groups of a bucket become one state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spark_rankeval.wire import Merger, Message, unpack
from spark_rankeval.worker.clusters import CLUSTER_USERS, ClusterMerger
from spark_rankeval.worker.group_states import STATES, GroupStates, keys_of
from spark_rankeval.worker.open_users import OPEN_USERS, OpenUsersMerger
from spark_rankeval.worker.small_groups import USERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from spark_rankeval.wire import Mergers
    from spark_rankeval.worker.clusters import Layout
    from spark_rankeval.worker.group_states import Key

    #: The states of groups from all users of theirs, such as `small_groups.states_of` with the number of values, and what is said of them.
    StatesOfUsers = Callable[[Sequence[Mapping[str, Any]]], GroupStates]

#: How much memory the states of a bucket's groups take at the most.
MERGED_BYTES = 1 << 26
# The field of a message that has the number of groups instead of their states.
_N_GROUPS = "n_groups"


class StatesMerger(Merger):
    """States that come one after the other, as one: all of them at once might not fit into memory.

    Raising in a worker would only run the task again: of groups whose states are too large to be held the number is left.
    """

    def __init__(self, states_of_users: StatesOfUsers, least_bytes: int = 0) -> None:
        self._states_of_users, self._least_bytes = states_of_users, least_bytes
        self._begin()

    def _begin(self) -> None:
        self._users: list[Mapping[str, Any]] = []
        self._states: list[GroupStates] = []
        self._n_bytes = 0
        self._keys: set[Key] = set()
        self._fits = True

    def add(self, bucket: int | None, payloads: Iterable[bytes]) -> Iterator[Message]:
        """Take in the states and the users of small groups of a bucket; gives the states of the groups, or their number."""
        self._begin()
        for payload in payloads:
            self._add(unpack(payload))
        merged = self._merged()
        tree = merged.tree() if self._fits else {_N_GROUPS: np.array([len(self._keys)])}
        yield Message.of_tree(STATES, tree, bucket)

    def _add(self, tree: Mapping[str, Any]) -> None:
        self._keys.update(keys_of(tree))
        # Users take far less memory than the states that are made of them.
        if len(self._keys) > 1 and len(self._keys) * self._least_bytes > MERGED_BYTES:
            self._fits = False
        if not self._fits:
            self._users, self._states = [], []
            return
        if USERS in tree:
            self._users.append(tree)
            self._n_bytes += sum(column.nbytes for columns in tree[USERS].values() for column in columns.values())
        else:
            states = GroupStates.of_tree(tree)
            self._states.append(states)
            self._n_bytes += states.n_bytes
        if self._n_bytes > MERGED_BYTES:
            self._merged()

    def _merged(self) -> GroupStates:
        if self._users:
            self._states.append(self._states_of_users(self._users))
            self._users = []
        merged = GroupStates.merged(self._states)
        self._n_bytes = merged.n_bytes
        self._fits = self._fits and (self._n_bytes <= MERGED_BYTES or len(self._keys) == 1)
        self._states = [merged] if self._fits else []
        return merged


def merging(states_of_users: StatesOfUsers, layout: Layout | None = None, *, least_bytes: int = 0) -> Mergers:
    """What makes few messages of the many of each bucket, by kind.

    Args:
        states_of_users: adds up the users of small groups.
        layout: of the users of clusters, who become sums of clusters.
        least_bytes: how much memory the state of a group takes at the least.
    """
    mergers: Mergers = {
        STATES: lambda: StatesMerger(states_of_users, least_bytes),
        OPEN_USERS: OpenUsersMerger,
    }
    if layout is not None:
        mergers[CLUSTER_USERS] = lambda: ClusterMerger(layout)
    return mergers


def n_groups_of(tree: Mapping[str, Any]) -> int | None:
    """How many groups a message of states stands for that could not be held; None: it has their states."""
    return int(tree[_N_GROUPS][0]) if _N_GROUPS in tree else None
