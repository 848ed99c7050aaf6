"""What labelled items are about: the intents, or subtopics, that each of them serves, and where the list has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from spark_rankeval.ranking.matching import match
from spark_rankeval.ranking.ragged import Ragged, position_within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_rankeval.ranking.labels import Labels
    from spark_rankeval.ranking.lists import Lists
    from spark_rankeval.ranking.ragged import FloatArray, IntArray


@dataclass(frozen=True)
class IntentLists:
    """The raw pairs of items and intents of many users.

    Attributes:
        items: the item of each pair, comparable with the labelled items.
        code: int64, a number from 0 for each intent, in the order of their names.
        grade: float64, how good the item is for the intent.
    """

    items: Ragged
    code: IntArray
    grade: FloatArray

    def users(self, start: int, stop: int) -> IntentLists:
        """The pairs of the users from `start` to before `stop`."""
        pairs = slice(self.items.offsets[start], self.items.offsets[stop])
        return IntentLists(self.items.users(start, stop), self.code[pairs], self.grade[pairs])


class Intents(NamedTuple):
    """Pairs of labelled items and intents, each once: by user, then the highest item first, then by intent.

    Attributes:
        user: int64, whose label.
        label: int64, the place of the item among the labels of all users.
        code: int64, the intent.
        grade: float64, how good the item is for the intent.
        rank: int64, of the item in the user's list, from 1; 0 if it is not there.
    """

    user: IntArray
    label: IntArray
    code: IntArray
    grade: FloatArray
    rank: IntArray

    @classmethod
    def concatenate(cls, parts: Sequence[Intents], first_user: IntArray, first_label: IntArray) -> Intents:
        """The pairs of several batches of users; `first_user` and `first_label` say how many come before each."""
        return cls(
            np.concatenate([part.user + first for part, first in zip(parts, first_user, strict=False)]),
            np.concatenate([part.label + first for part, first in zip(parts, first_label, strict=False)]),
            *(np.concatenate([getattr(part, name) for part in parts]) for name in ("code", "grade", "rank")),
        )


class SettledIntents(NamedTuple):
    """Intents, and how many pairs of each user repeat another one of equal and of another grade; int64 (n_users,) each.

    Of users whose labels repeat an item, the repeats are counted with the labels.
    """

    intents: Intents | None
    equal: IntArray
    conflicts: IntArray


def settle_intents(lists: Lists, labels: Labels, place: IntArray, rank: IntArray) -> SettledIntents:
    """The intents of the labels, if somebody asked; of equal pairs the highest grade holds.

    Args:
        lists: the raw lists.
        labels: their labels, each item once.
        place: the label of each labelled prediction, ordered by user and rank.
        rank: the ranks of these predictions.
    """
    none = np.zeros(labels.items.n_users, np.int64)
    if lists.intents is None:
        return SettledIntents(None, none, none)
    rank_of_label = np.zeros(len(labels.items.values), np.int64)
    # Of an item that a list has twice, the best rank is written last.
    rank_of_label[place[::-1]] = rank[::-1]
    pair, label = match(lists.intents.items, labels.items)
    code, grade = lists.intents.code[pair], lists.intents.grade[pair]
    n_codes = int(code.max(initial=0)) + 1
    key = _highest_first(lists, labels.items)[label] * n_codes + code
    order = np.lexsort((-grade, key))
    repeats = np.flatnonzero(key[order][1:] == key[order][:-1])
    once = np.delete(order, repeats + 1)
    differs = grade[order[repeats]] != grade[order[repeats + 1]]
    user = labels.items.user[label]
    whole = (lists.labels.lengths == labels.items.lengths)[user[order[repeats]]]
    counts = [np.bincount(user[order[repeats[whole & kind]]], minlength=len(none)) for kind in (~differs, differs)]
    intents = Intents(user[once], label[once], code[once], grade[once], rank_of_label[label[once]])
    return SettledIntents(intents, *counts)


def _highest_first(lists: Lists, items: Ragged) -> IntArray:
    """The place of each item if every user's items come from the highest to the lowest; int64."""
    ids = items.values if lists.order is None else lists.order(items.values)
    place = np.empty(len(ids), np.int64)
    place[np.lexsort((ids, items.user))] = position_within(items.user, items.n_users)
    return items.offsets[items.user + 1] - 1 - place
