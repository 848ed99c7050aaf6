"""Gains of novelty, which shrink with each item for the same intent: of users' lists, and of the greedy ideal list of their labels."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from spark_rankeval.metrics.gain_based import Discount, geometric
from spark_rankeval.ranking.batch import RankingBatch, is_relevant, required_fact
from spark_rankeval.ranking.user_lists import FloatArray, IntArray, position_within, starts_of_runs

#: How intents are weighted: alike, or by how many of the user's labels are relevant for each.
Weights = Literal["uniform", "share"]


class RelevantIntents(NamedTuple):
    """All pairs of a label and an intent for which the label is relevant, in the order of `Intents`.

    A slot is one intent of one user. Slots are numbered by user, and then in the order of the intents' names.

    Attributes:
        user: int64, whose label.
        label: int64, its index among all labels.
        rank: int64, of the item in the list; 0 if it is not there.
        slot: int64, the intent of the user.
        user_of_slot: int64, whose intent each slot is.
        n_labels: int64, how many labels are relevant for the intent of each slot.
        n_intents: int64 (n_users,), how many intents any of the user's labels is relevant for.
    """

    user: IntArray
    label: IntArray
    rank: IntArray
    slot: IntArray
    user_of_slot: IntArray
    n_labels: IntArray
    n_intents: IntArray

    def weights(self, kind: Weights) -> FloatArray:
        """The weight of each slot, up to one factor per user: whole numbers."""
        return np.ones(len(self.n_labels)) if kind == "uniform" else self.n_labels.astype(np.float64)

    def total_weight(self, kind: Weights) -> FloatArray:
        """The sum of the weights of each user's slots; float64 (n_users,)."""
        return _sums(self.user_of_slot, self.weights(kind), len(self.n_intents))


class GainingPlaces(NamedTuple):
    """The places of lists whose items are relevant for any intent, by user and then by rank.

    Attributes:
        user: int64, whose list.
        rank: int64, from 1.
        gain: float64, up to one factor per user.
    """

    user: IntArray
    rank: IntArray
    gain: FloatArray


class PlacedIntents(NamedTuple):
    """The relevant intents whose item is in the list: by user, then by rank, then by intent.

    Attributes:
        user: int64, whose list.
        rank: int64, from 1.
        slot: int64, the user's intent.
        nth: int64, how many items above it are relevant for the same intent.
    """

    user: IntArray
    rank: IntArray
    slot: IntArray
    nth: IntArray


def relevant_intents(batch: RankingBatch, threshold: float | None) -> RelevantIntents:
    """The intents that labels are relevant for."""

    def find() -> RelevantIntents:
        intents = required_fact(batch.intents)
        relevant = is_relevant(intents.grade, threshold)
        user, code = intents.user[relevant], intents.code[relevant]
        n_codes = int(code.max(initial=0)) + 1
        different, slot, n_labels = np.unique(user * n_codes + code, return_inverse=True, return_counts=True)
        user_of_slot = different // n_codes
        return RelevantIntents(
            user=user,
            label=intents.label[relevant],
            rank=intents.rank[relevant],
            slot=slot,
            user_of_slot=user_of_slot,
            n_labels=n_labels,
            n_intents=np.bincount(user_of_slot, minlength=batch.n_users),
        )

    return batch.remember(("relevant intents", threshold), find)


def placed_intents(batch: RankingBatch, threshold: float | None) -> PlacedIntents:
    """The relevant intents whose items are in the lists, with how often each was met above."""

    def find() -> PlacedIntents:
        intents = relevant_intents(batch, threshold)
        placed = np.flatnonzero(intents.rank)
        user, rank, slot = intents.user[placed], intents.rank[placed], intents.slot[placed]
        order = np.lexsort((slot, rank, user))
        user, rank, slot = user[order], rank[order], slot[order]
        by_slot = np.argsort(slot, kind="stable")
        nth = np.empty(len(slot), np.int64)
        nth[by_slot] = position_within(slot[by_slot], len(intents.n_labels))
        return PlacedIntents(user, rank, slot, nth)

    return batch.remember(("placed intents", threshold), find)


def novel_gains(batch: RankingBatch, threshold: float | None, kind: Weights, alpha: float) -> GainingPlaces:
    """The gain of each place: the sum over its intents of the weight times (1 − α)^nth."""

    def find() -> GainingPlaces:
        placed = placed_intents(batch, threshold)
        weight = relevant_intents(batch, threshold).weights(kind)[placed.slot]
        first = starts_of_runs(placed.user, placed.rank)
        # Added one after the other, as in the greedy list: a list that equals it then has the same bits.
        gain = _sums(np.cumsum(first) - 1, weight * geometric(1 - alpha)(placed.nth + 1), int(np.count_nonzero(first)))
        return GainingPlaces(placed.user[first], placed.rank[first], gain)

    return batch.remember(("novel gains", threshold, kind, alpha), find)


def _sums(entry: IntArray, values: FloatArray, n_entries: int) -> FloatArray:
    """The sum of the values of each entry, added one after the other; float64 (n_entries,)."""
    return np.bincount(entry, values, n_entries).astype(np.float64, copy=False)


class GreedyList:
    """Each user's labels in greedy order: every place has the label that gains most after those above it.

    Of labels of equal gain the one of the highest item comes first, as in ndeval. Places are added when they are needed, for all users at
    once.
    """

    def __init__(self, intents: RelevantIntents, kind: Weights, alpha: float) -> None:
        self._decay = 1 - alpha
        self._gain = intents.weights(kind)  # of each slot: what the next label for it gains
        self._n_users = len(intents.n_intents)
        self._places: list[tuple[IntArray, FloatArray]] = []  # the users that have a label at this place, and its gain
        first = starts_of_runs(intents.label)
        # Of each pair of a label that is left and an intent.
        self._label, self._slot = np.cumsum(first) - 1, intents.slot
        self._user = intents.user[first]  # of each label that is left
        self._is_taken = np.zeros(len(self._user), np.bool_)

    def worth(self, discount: Discount, depth: int | None) -> FloatArray:
        """The sum of the gains of the first `depth` places times their discounts, up to one factor per user; float64 (n_users,)."""
        while (depth is None or len(self._places) < depth) and len(self._user):
            self._add_place()
        places = self._places[:depth]
        worth, weight = np.zeros(self._n_users), discount.up_to(len(places))
        for rank, (users, gains) in enumerate(places, start=1):
            worth[users] += gains * weight[rank]
        return worth

    def _add_place(self) -> None:
        gains = _sums(self._label, self._gain[self._slot], len(self._user))
        gains[self._is_taken] = -1.0  # less than any label gains
        start = np.flatnonzero(starts_of_runs(self._user))
        best = np.maximum.reduceat(gains, start)
        # The first of a user's labels that has the greatest gain.
        has_best = np.flatnonzero(gains == np.repeat(best, np.diff(np.append(start, len(gains)))))
        chosen = has_best[starts_of_runs(self._user[has_best])][best >= 0]
        users = self._user[chosen]
        if len(users):
            self._places.append((users, gains[chosen]))
        self._is_taken[chosen] = True
        is_chosen = np.zeros(len(gains), np.bool_)
        is_chosen[chosen] = True
        # One label was chosen per user, so no slot occurs twice: `*=` would ignore repeats.
        self._gain[self._slot[is_chosen[self._label]]] *= self._decay
        if 2 * np.count_nonzero(self._is_taken) >= len(gains):
            self._drop_taken()

    def _drop_taken(self) -> None:
        is_left = ~self._is_taken
        pair_is_left = is_left[self._label]
        self._label, self._slot = (np.cumsum(is_left) - 1)[self._label[pair_is_left]], self._slot[pair_is_left]
        self._user, self._is_taken = self._user[is_left], self._is_taken[is_left]


def greedy_list(batch: RankingBatch, threshold: float | None, kind: Weights, alpha: float) -> GreedyList:
    """The greedy lists of a batch of users, which all cutoffs share."""
    return batch.remember(
        ("greedy list", threshold, kind, alpha), lambda: GreedyList(relevant_intents(batch, threshold), kind, alpha)
    )
