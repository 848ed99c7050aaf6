"""Where predictions stand: their ranks, and the groups of equal scores around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from spark_rankeval.ranking.ragged import CELLS, grouped, n_true, position_within, starts_of_runs, width_classes

if TYPE_CHECKING:
    from spark_rankeval.ranking.lists import Lists, Ties
    from spark_rankeval.ranking.ragged import Array, BoolArray, IntArray, Ragged

# Counting what stands above each of a user's predictions is cheaper than sorting the list if the list is not longer than this, or if
# there are no more such predictions.
_COUNTED_WIDTH, _COUNTED_MATCHES = 64, 8
# Up to so many tied predictions a user, comparing each with its list is cheaper than sorting the list by several keys.
_COUNTED_TIES = 64


class Ranks(NamedTuple):
    """Where predictions stand; int64 each.

    Attributes:
        rank: the place in the list, from 1.
        above: how many items score strictly higher.
        tied: how many have the same score, the prediction included.
    """

    rank: IntArray
    above: IntArray
    tied: IntArray


def ranks_of(lists: Lists, prediction: IntArray, ties: Ties) -> Ranks:
    """The rank of some predictions, given ascending, and the group of equal scores that each stands in."""
    items = lists.items
    user = items.user[prediction]
    if lists.scores is None:
        position = prediction - items.offsets[user]
        return Ranks(position + 1, position, np.ones(len(position), np.int64))
    above, tied = np.zeros(len(prediction), np.int64), np.ones(len(prediction), np.int64)
    matches = grouped(prediction, user, items.n_users)
    for group, width in width_classes(np.where(matches.lengths > 0, items.lengths, 0)):
        step = max(1, CELLS // width)
        for start in range(0, len(group), step):
            users = group[start : start + step]
            has_few = matches.lengths[users] <= _COUNTED_MATCHES
            if width <= _COUNTED_WIDTH or has_few.all():
                _count_above(lists.scores, matches, users, width, above, tied)
            else:
                _count_above(lists.scores, matches, users[has_few], width, above, tied)
                _search_above(lists.scores, matches, users[~has_few], width, above, tied)
    before = _n_earlier(lists, lists.scores, prediction, user, np.flatnonzero(tied > 1), ties)
    return Ranks(above + before + 1, above, tied)


def high_predictions(lists: Lists, k: int) -> BoolArray:
    """Which predictions may stand in the first k places: those that score at least what the k-th best does."""
    items, scores = lists.items, lists.scores
    if scores is None:
        return position_within(items.user, items.n_users) < k
    least = np.full(items.n_users, -np.inf)
    for group, width in width_classes(np.where(items.lengths > k, items.lengths, 0)):
        step = max(1, CELLS // width)
        for start in range(0, len(group), step):
            users = group[start : start + step]
            rows = scores.matrix(users, width)
            length = scores.lengths[users]
            if not (length == width).all():
                rows = np.where(np.arange(width) < length[:, None], rows, -np.inf)
            least[users] = np.partition(rows, width - k, axis=1)[:, width - k]
    return scores.values >= least[items.user]


def _count_above(scores: Ragged, matches: Ragged, users: IntArray, width: int, above: IntArray, tied: IntArray) -> None:
    """Count what scores higher than each user's first match, then what scores higher than the second, and so on."""
    n_matches = matches.lengths[users]
    if len(users) and n_matches.min() != n_matches.max():
        # Users with many matches first: those who have a further one are then the first columns.
        order = np.argsort(-n_matches, kind="stable")
        users, n_matches = users[order], n_matches[order]
    # One row a rank: comparisons and sums then run along the users, which are many, and not along a list.
    ranks = np.ascontiguousarray(scores.matrix(users, width).T)
    length = scores.lengths[users]
    if not (length == width).all():
        # What is no number is neither higher nor equal.
        ranks[np.arange(width)[:, None] >= length] = np.nan
    first = matches.offsets[users]
    for nth in range(int(n_matches.max(initial=0))):
        n_users = int(np.searchsorted(-n_matches, -nth, side="left"))
        match = first[:n_users] + nth
        score, others = scores.values[matches.values[match]], ranks[:, :n_users]
        above[match] = higher = n_true(others > score)
        tied[match] = n_true(others >= score) - higher


def _search_above(
    scores: Ragged, matches: Ragged, users: IntArray, width: int, above: IntArray, tied: IntArray
) -> None:
    """The same by sorting the lists, for users with many matches."""
    rows = scores.matrix(users, width)
    length = scores.lengths[users]
    if not (length == width).all():
        rows = np.where(np.arange(width) < length[:, None], rows, np.nan)
    # Ascending, what is no number last.
    ordered = np.sort(rows, axis=1).ravel()
    n_matches = matches.lengths[users]
    row = np.repeat(np.arange(len(users)), n_matches)
    match = matches.offsets[users][row] + position_within(row, len(users))
    score = scores.values[matches.values[match]]
    lower, up_to = (_count_in_rows(below, ordered, row, width, score) for below in (np.less, np.less_equal))
    above[match] = length[row] - up_to
    tied[match] = up_to - lower


def _count_in_rows(below: np.ufunc, ordered: Array, row: IntArray, width: int, value: Array) -> IntArray:
    """How many values of a sorted row are below its value: a binary search in all rows at once."""
    count = np.zeros(len(row), np.int64)
    step = 1 << (width.bit_length() - 1)
    while step:
        further = count + step
        at = row * width + np.minimum(further, width) - 1
        count = np.where((further <= width) & below(ordered[at], value), further, count)
        step >>= 1
    return count


def _n_earlier(
    lists: Lists, scores: Ragged, prediction: IntArray, user: IntArray, tied: IntArray, ties: Ties
) -> IntArray:
    """How many items of the same score stand before each prediction, of which `tied` share theirs; int64."""
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
