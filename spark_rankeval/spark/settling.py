"""Recompute users whose pruned list ends inside a tie, then merge their state."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from spark_rankeval.spark.describing import Groups, figures_by_group, messages_of_groups
from spark_rankeval.worker.group_states import COUNTS, GroupStates
from spark_rankeval.worker.open_users import OPEN_USERS, OpenUsers

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from spark_rankeval.ranking.ragged import IntArray
    from spark_rankeval.statistics.description import Figures
    from spark_rankeval.worker.group_states import Key


class Settled(NamedTuple):
    """The figures of each group, and of how many users a value was left open at first."""

    figures: dict[Key, Figures]
    n_open: int
    is_whole: bool  # whether these users are in the figures


def settled(states: DataFrame, groups: Groups, again: Callable[[IntArray], DataFrame]) -> Settled:
    """The figures of each group, from states that leave users open; `again` gives the states of users by the hashes of their ids.

    The figures are not whole if there are more open users than can be named, or if the hash of one is another user's, too.
    """
    first = messages_of_groups(states, groups)
    open_users = OpenUsers.of_trees(message.tree for message in first if message.kind == OPEN_USERS)
    others = [message for message in first if message.kind != OPEN_USERS]
    if not open_users.n:
        return Settled(figures_by_group(others, groups), 0, is_whole=True)
    if len(open_users.hashes) < open_users.n:
        return Settled({}, open_users.n, is_whole=False)
    messages = messages_of_groups(again(open_users.hashes), groups)
    later = GroupStates.merged(GroupStates.of_tree(message.tree) for message in messages)
    # Each state counts its users once for every count; the first will do.
    n_later = int(later.parts[COUNTS]["n"][:, 0].sum()) if later.keys else 0
    if n_later != open_users.n:
        return Settled({}, open_users.n, is_whole=False)
    return Settled(figures_by_group(others, groups, later), open_users.n, is_whole=True)
