"""Groups of equal scores: where they stand, and what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from spark_rankeval.ranking.ragged import BoolArray, IntArray, position_within, starts_of_runs

if TYPE_CHECKING:
    from spark_rankeval.ranking.batch import RankingBatch


class TiedGroups(NamedTuple):
    """The groups of equal scores that hold an item of some kind, by user and then by score; an untied item is a group of 1.

    Attributes:
        user: int64, whose list.
        above: int64, a: how many items score higher; the group has the ranks from a + 1 on.
        size: int64, t: how many items the group has.
        held_above: int64, C: how many items of the kind score higher.
        held: int64, s: how many items of the kind the group has, at least 1.
        start: int64, the place of its first item of the kind among all of the kind.
    """

    user: IntArray
    above: IntArray
    size: IntArray
    held_above: IntArray
    held: IntArray
    start: IntArray

    def where(self, keep: BoolArray) -> Self:
        """Some of the groups."""
        return self._replace(**{name: column[keep] for name, column in self._asdict().items()})

    def places_within(self, cutoff: IntArray | int | None) -> IntArray:
        """How many of each group's places stand within the cutoff: 0, some, or all.

        Args:
            cutoff: the cutoff of all users, or of each; None: every place stands within.
        """
        if cutoff is None:
            return self.size
        last = cutoff[self.user] if isinstance(cutoff, np.ndarray) else cutoff
        return np.clip(last - self.above, 0, self.size)


def tied_groups(batch: RankingBatch, place: IntArray) -> TiedGroups:
    """The groups of equal scores that hold some of the labelled predictions.

    Args:
        batch: the lists.
        place: int64, ascending: which labelled predictions are of the kind.
    """
    user, above = batch.user[place], batch.tied_above[place]
    start = np.flatnonzero(starts_of_runs(user, above))
    return TiedGroups(
        user=user[start],
        above=above[start],
        size=batch.tied[place[start]],
        held_above=position_within(user, batch.n_users)[start],
        held=np.diff(np.append(start, len(place))),
        start=start,
    )


def tied_hits(batch: RankingBatch, threshold: float | None) -> TiedGroups:
    """The groups that hold a relevant item."""
    return batch.remember(("tied hits", threshold), lambda: tied_groups(batch, batch.hits(threshold).place))


def tied_labels(batch: RankingBatch) -> TiedGroups:
    """The groups that hold a labelled item."""
    return batch.remember("tied labels", lambda: tied_groups(batch, np.arange(len(batch.user))))
