"""The order of equal scores: how many items of the same score a tie rule puts before each prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spark_rankeval.ranking.ragged import CELLS, n_true, starts_of_runs, width_classes

if TYPE_CHECKING:
    from spark_rankeval.ranking.lists import Lists, Ties
    from spark_rankeval.ranking.ragged import Array, BoolArray, IntArray, Ragged

# Up to so many tied predictions a user, comparing each with its list is cheaper than sorting the list by several keys.
_COUNTED_TIES = 64


def n_earlier(
    lists: Lists, scores: Ragged, prediction: IntArray, user: IntArray, tied: IntArray, ties: Ties
) -> IntArray:
    """How many items of the same score stand before each prediction; int64, shape of `prediction`.

    Args:
        lists: the lists.
        scores: their scores.
        prediction: the predictions.
        user: whose each is.
        tied: which of them share their score.
        ties: how equal scores are ordered.
    """
    items = lists.items
    earlier = np.zeros(len(prediction), np.int64)
    if not len(tied):
        return earlier
    has_few = np.bincount(user[tied], minlength=items.n_users) <= _COUNTED_TIES
    compared = tied[has_few[user[tied]]]
    for group, width in width_classes(items.lengths[user[compared]]):
        step = max(1, CELLS // width)
        for start in range(0, len(group), step):
            piece = compared[group[start : start + step]]
            earlier[piece] = _compare_tied(lists, scores, ties, prediction[piece], user[piece], width)
    if not has_few.all():
        ordered = tied[~has_few[user[tied]]]
        earlier[ordered] = _sort_tied(lists, scores, ties, ~has_few, prediction[ordered])
    return earlier


def _compare_tied(
    lists: Lists, scores: Ragged, ties: Ties, prediction: IntArray, user: IntArray, width: int
) -> IntArray:
    """How many items of the same score stand before each prediction, by comparing it with its list."""
    items = lists.items
    place = np.arange(width)[:, None]
    equal = (scores.values[prediction] == scores.matrix(user, width).T) & (place < items.lengths[user])
    earlier = place < prediction - items.offsets[user]
    if ties != "position":
        ids, compared_id = items.matrix(user, width).T, items.values[prediction]
        if lists.order is not None:
            ids, compared_id = lists.order(ids), lists.order(compared_id)
        comes_first = ids < compared_id if ties == "item_asc" else ids > compared_id
        earlier = comes_first | ((ids == compared_id) & earlier)
    return n_true(equal & earlier)


def _sort_tied(lists: Lists, scores: Ragged, ties: Ties, among: BoolArray, prediction: IntArray) -> IntArray:
    """The same by sorting whole lists: for users with very many labelled predictions that tie."""
    items = lists.items
    entry = np.flatnonzero(among[items.user])
    user = items.user[entry]
    keys: list[Array] = [-scores.values[entry], user]
    if ties != "position":
        ids = items.values[entry] if lists.order is None else lists.order(items.values[entry])
        code = np.unique(ids, return_inverse=True)[1]
        keys.insert(0, code if ties == "item_asc" else -code)
    entry = entry[np.lexsort(keys)]
    user, score = items.user[entry], scores.values[entry]
    new = starts_of_runs(user, score)
    place = np.empty(len(items.values), np.int64)
    place[entry] = np.arange(len(entry)) - np.flatnonzero(new)[np.cumsum(new) - 1]
    return place[prediction]
