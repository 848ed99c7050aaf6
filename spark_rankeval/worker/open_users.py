"""Users whose value a tie leaves open that pruning cut: who they are, as it travels to the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spark_rankeval.wire import Merger, Message, unpack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from spark_rankeval.ranking.ragged import IntArray

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
