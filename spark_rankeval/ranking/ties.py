"""Groups of equal scores: where they stand, what they hold, and which users' values depend on their order."""

from __future__ import annotations

from typing import Literal, NamedTuple, Self

import numpy as np

from spark_rankeval.ranking.batch import RankingBatch, is_relevant
from spark_rankeval.ranking.lists import RawLists
from spark_rankeval.ranking.ragged import BoolArray, FloatArray, IntArray, position_within, starts_of_runs

Sees = Literal["gaining", "relevance", "judgement", "labelled", "gain", "label", "intents", "item"]
"""What of an item a metric looks at: whether its grade is above 0; whether it is relevant; that and whether it is judged not to be, passing
over items without a label; whether it has a label; whether it is relevant and how far its grade is above 0; the grade itself and
whether there is one; whether it is relevant, and for which intents, so that no two relevant ones are alike; or the item, so that no two are
alike."""


class Look(NamedTuple):
    """How a metric may tell items of equal scores apart.

    Attributes:
        sees: what it looks at of an item.
        threshold: from which grade on an item is relevant; None: above 0.
        cutoff: the lowest rank that matters; None: all do.
        judged_below: grades from 0 to below this are judged not relevant.
    """

    sees: Sees = "gain"
    threshold: float | None = None
    cutoff: int | None = None
    judged_below: float = 0.0


def cut_within_tie(lists: RawLists, largest_cutoff: int | None) -> IntArray:
    """1 for users whose list was cut inside a group of equal scores that reaches into the largest cutoff.

    What was cut off may tie with what was kept. If scores alone decided, which of the tied items were kept is
    arbitrary.
    """
    items, scores = lists.items, lists.scores
    flag = np.zeros(items.n_users, np.int64)
    if lists.n_predictions is None or scores is None or largest_cutoff is None:
        return flag
    users = np.flatnonzero((lists.n_predictions > items.lengths) & (items.lengths > 0))
    if len(users):
        higher = items.user[scores.values > scores.lowest()[items.user]]
        flag[users] = np.bincount(higher, minlength=items.n_users)[users] < largest_cutoff
    return flag


def depends_on_tie(batch: RankingBatch, look: Look) -> IntArray:
    """1 for users with a group of equal scores whose items differ in what is seen of them, at ranks that matter."""
    matters = batch.tied > 1
    if look.cutoff is not None:
        matters &= batch.tied_above < look.cutoff
    flag = np.zeros(batch.n_users, np.int64)
    if not matters.any():
        return flag
    user, above, tied = batch.user[matters], batch.tied_above[matters], batch.tied[matters]
    start = np.flatnonzero(starts_of_runs(user, above))
    # The other items of a group have no label.
    others = np.diff(np.append(start, len(user))) < tied[start]
    if look.sees == "labelled":
        flag[user[start[others]]] = 1
        return flag
    worths = _worths(batch.grade[matters], look, None if batch.weight is None else batch.weight[matters])
    mixed = others & (look.sees in ("label", "item"))
    for worth in worths:
        best, least = np.maximum.reduceat(worth, start), np.minimum.reduceat(worth, start)
        mixed |= (best > least) | (others & (best > 0) & (look.sees != "judgement"))
        # The whole group may be relevant, for different intents.
        mixed |= (best > 0) & (look.sees == "intents")
    flag[user[start[mixed]]] = 1
    return flag


def _worths(grade: FloatArray, look: Look, weight: FloatArray | None) -> list[FloatArray]:
    """Numbers of labelled items; where they are equal a look does not tell the items apart. No label is 0 in each."""
    worths: list[FloatArray] = []
    if look.sees != "gaining":
        worths.append(is_relevant(grade, look.threshold).astype(np.float64))
    match look.sees:
        case "gaining":
            worths.append((grade > 0).astype(np.float64))
        case "gain":
            worths.append(np.maximum(grade, 0))
        case "judgement":
            worths.append(((grade >= 0) & (grade < look.judged_below)).astype(np.float64))
        case "label" | "item":
            worths.append(grade)
    if weight is not None:
        worths.append(weight if look.sees in ("label", "item") else np.where(worths[-1] > 0, weight, 0.0))
    return worths


class TiedGroups(NamedTuple):
    """The groups of equal scores that hold an item of some kind, by user and then by score; int64 each.

    Attributes:
        user: whose list.
        above: a: how many items score higher; the group has the ranks from a + 1 on.
        size: t: how many items the group has; 1 for an untied item.
        held_above: C: how many items of the kind score higher.
        held: s: how many items of the kind the group has, at least 1.
        start: the place of its first item of the kind among all of the kind.
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
        """How many of each group's places stand within the cutoff, of all users or of each; None: all."""
        if cutoff is None:
            return self.size
        last = cutoff[self.user] if isinstance(cutoff, np.ndarray) else cutoff
        return np.clip(last - self.above, 0, self.size)


def tied_groups(batch: RankingBatch, place: IntArray) -> TiedGroups:
    """The groups of equal scores that hold some of the labelled predictions, given ascending."""
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
