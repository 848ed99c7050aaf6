"""From raw lists to a `RankingBatch`: duplicates settled, labels matched, ranks counted under a tie rule."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.matching import first_occurrences, match, repeated_items
from spark_rankeval.ranking.ragged import (
    Array,
    BoolArray,
    FloatArray,
    IntArray,
    Ragged,
    grouped,
    offsets_of,
    position_within,
    starts_of_runs,
    width_classes,
)
from spark_rankeval.ranking.recommended import Recommended
from spark_rankeval.ranking.ties import cut_within_tie, hangs_on_tie

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_rankeval.ranking.ties import Look

Ties = Literal["item_asc", "item_desc", "position"]
Duplicates = Literal["count", "keep_best", "each", "once"]


@dataclass(frozen=True)
class RankingPolicy:
    """How raw lists become rankings.

    Attributes:
        ties: how equal scores are ordered.
        duplicates: of an item that a list has twice, ``count`` only counts it, ``keep_best`` also leaves out all but the
            best ranked one, ``each`` takes every occurrence as an item of its own and counts nothing, and with ``once``
            every occurrence takes a place but only the best ranked one can carry a label.
        conflicting_labels: the grade of an item that is labelled more than once.
        score_precision: what scores are rounded to before they compare; float32 makes near ones equal.
        unpredicted_labels: labelled items that a list does not have are left out of it, or stand at its end, all equal
            and below the lowest score: for systems that rank the union of predicted and labelled items. An empty list
            stays empty.
    """

    ties: Ties = "item_asc"
    duplicates: Duplicates = "count"
    conflicting_labels: Literal["highest", "last"] = "highest"
    score_precision: Literal["float64", "float32"] = "float64"
    unpredicted_labels: Literal["left_out", "last"] = "left_out"


_DEFAULT_POLICY = RankingPolicy()

# Beyond so many labelled predictions a user, sorting a list is cheaper than counting what stands above each.
_COUNTED_MATCHES = 8
# The same of tied ones, whose order takes a sort by several keys.
_COUNTED_TIES = 64
# How many cells one comparison of lists with scores may have: what stays in a core's cache.
_CELLS = 1 << 17


@dataclass(frozen=True)
class Lists:
    """The raw input of many users.

    Attributes:
        items: predicted items. Numbers, or codes that stand for text.
        scores: float64, higher is better; None: lists are ordered best first already.
        labels: labelled items, comparable with `items`.
        grades: float64, the labels' grades; None: 1 each.
        order: maps items to numbers whose ``<`` is the order of ids; called only where ties need it. None: the items
            themselves compare so.
        matchable: which flat items may carry a label; None: all. An item that may not still takes a rank.
        n_predictions: how many items each user really had, where `items` holds only the best of them.
        entry: int64, the place of each flat item among the predictions as they came; None where no metric looks at items.
        weights: float64, the labels' weights; None: they have none.
    """

    items: Ragged
    scores: Ragged | None
    labels: Ragged
    grades: Ragged | None = None
    order: Callable[[Array], Array] | None = None
    matchable: BoolArray | None = None
    n_predictions: IntArray | None = None
    entry: IntArray | None = None
    weights: Ragged | None = None

    def where(self, keep: BoolArray) -> Lists:
        """The same with only those predictions for which `keep` is true."""
        return replace(
            self,
            items=self.items.where(keep),
            scores=None if self.scores is None else self.scores.where(keep),
            matchable=None if self.matchable is None else self.matchable[keep],
            entry=None if self.entry is None else self.entry[keep],
        )

    def users(self, start: int, stop: int) -> Lists:
        """The lists of the users from `start` to before `stop`."""
        low, high = self.items.offsets[start], self.items.offsets[stop]
        return replace(
            self,
            items=self.items.users(start, stop),
            scores=None if self.scores is None else self.scores.users(start, stop),
            labels=self.labels.users(start, stop),
            grades=None if self.grades is None else self.grades.users(start, stop),
            matchable=None if self.matchable is None else self.matchable[low:high],
            n_predictions=None if self.n_predictions is None else self.n_predictions[start:stop],
            entry=None if self.entry is None else self.entry[low:high],
            weights=None if self.weights is None else self.weights.users(start, stop),
        )


class Findings(NamedTuple):
    """What each user's rows turned out to be; int64 (n_users,) each.

    Attributes:
        duplicate_predictions: items that stand in a list again.
        duplicate_labels: labels that repeat one of equal grade.
        conflicting_labels: labels that repeat one of another grade or weight.
        tied: 1 where the user's value may depend on the order of equal scores: the tied items differ in what metrics see of
            them and stand, at least in part, within the largest cutoff.
        cut: 1 where pruning cut the list inside a group of equal scores that reaches into the largest cutoff.
        unpredicted: how many labelled items stand in the ranking that were not predicted.
    """

    duplicate_predictions: IntArray
    duplicate_labels: IntArray
    conflicting_labels: IntArray
    tied: IntArray
    cut: IntArray
    unpredicted: IntArray


def rank_lists(
    lists: Lists,
    policy: RankingPolicy = _DEFAULT_POLICY,
    *,
    largest_cutoff: int | None = None,
    keep_label_order: bool = False,
    looks: Sequence[Look] = (),
) -> tuple[RankingBatch, Findings]:
    """Rank every user's items, and match them with the labels.

    Args:
        lists: the input.
        policy: how lists become rankings.
        largest_cutoff: the largest rank that matters; None: all do.
        keep_label_order: keep the raw label lists, for metrics that need their order.
        looks: how metrics whose value the order of ties can change tell items apart.
    """
    if policy.score_precision == "float32" and lists.scores is not None:
        # A score beyond float32 becomes infinite there, as it does in the systems that do this.
        with np.errstate(over="ignore"):
            rounded = lists.scores.values.astype(np.float32).astype(np.float64)
        lists = replace(lists, scores=lists.scores.like(rounded))
    none = np.zeros(lists.items.n_users, np.int64)
    again = none
    if policy.duplicates != "each":
        repeated = repeated_items(lists.items)
        if len(repeated.values):
            keep = first_occurrences(lists.items, repeated, lists.scores)
            again = np.bincount(lists.items.user[~keep], minlength=lists.items.n_users)
            if policy.duplicates == "keep_best":
                lists = _without_duplicates(lists, keep, again)
            elif policy.duplicates == "once":
                matchable = keep if lists.matchable is None else keep & lists.matchable
                lists, again = replace(lists, matchable=matchable), none

    labels = _settle_labels(lists, policy.conflicting_labels)
    n_predicted = lists.items.lengths
    if policy.unpredicted_labels == "last":
        lists = _with_unpredicted(lists, labels.items)
    items = lists.items
    # Where the order is given, what stands below the largest cutoff matters to nobody.
    found = match(items, labels.items, largest_cutoff if lists.scores is None else None)
    prediction, label = found.prediction, found.label
    if lists.matchable is not None:
        allowed = lists.matchable[prediction]
        prediction, label = prediction[allowed], label[allowed]
    ranks = _ranks(lists, prediction, policy.ties)
    user = items.user[prediction]
    score = -ranks.rank.astype(np.float64) if lists.scores is None else lists.scores.values[prediction]
    # Labelled predictions come by their places in the lists, which are in order where nothing has a score.
    order = slice(None) if lists.scores is None else _best_first(items, user, ranks.rank)
    batch = RankingBatch(
        n_users=items.n_users,
        n_predictions=items.lengths if lists.n_predictions is None else lists.n_predictions,
        user=user[order],
        rank=ranks.rank[order],
        grade=labels.grades.values[label[order]],
        score=score[order],
        tied_above=ranks.above[order],
        tied=ranks.tied[order],
        labels=labels.grades,
        labels_as_given=labels.as_given if keep_label_order else None,
        weight=None if labels.weights is None else labels.weights.values[label[order]],
        label_weights=labels.weights,
    )
    cut = cut_within_tie(lists, largest_cutoff)
    tied = np.maximum.reduce([none, *(hangs_on_tie(batch, look) for look in looks)])
    if lists.entry is not None:
        grade = np.full(len(items.values), np.nan)
        grade[prediction] = labels.grades.values[label]
        recommended, hangs = _recommended(lists, grade, policy.ties, largest_cutoff)
        batch = replace(batch, recommended=recommended)
        tied = np.maximum(tied, hangs) if any(look.sees == "item" for look in looks) else tied
    return batch, Findings(again, labels.equal, labels.conflicts, tied, cut, items.lengths - n_predicted)


def _best_first(items: Ragged, user: IntArray, rank: IntArray) -> IntArray:
    """What brings some items of lists into the order of users, then of ranks."""
    return np.argsort(user * (items.longest + 1) + rank)


def _recommended(
    lists: Lists, grade: FloatArray, ties: Ties, largest_cutoff: int | None
) -> tuple[Recommended, IntArray]:
    """The items of the lists down to the largest cutoff, best first, and 1 for users with equal scores among these.

    Args:
        lists: the lists.
        grade: of every item's label, NaN without one.
        ties: how equal scores are ordered.
        largest_cutoff: how many items of a list matter; None: all.
    """
    items, entry = lists.items, lists.entry
    assert entry is not None
    ranks = _ranks(lists, np.arange(len(items.values)), ties)
    matters = np.ones(len(items.values), np.bool_) if largest_cutoff is None else ranks.rank <= largest_cutoff
    hangs = np.minimum(np.bincount(items.user[matters & (ranks.tied > 1)], minlength=items.n_users), 1)
    # What was not predicted, and stands in the list all the same, was not recommended.
    kept = np.flatnonzero(matters & (entry >= 0))
    user, rank = items.user[kept], ranks.rank[kept]
    order = _best_first(items, user, rank)
    found = Recommended(items.n_users, user[order], rank[order], grade[kept[order]], entry[kept[order]])
    return found, hangs


def _without_duplicates(lists: Lists, keep: BoolArray, again: IntArray) -> Lists:
    return replace(
        lists.where(keep), n_predictions=None if lists.n_predictions is None else lists.n_predictions - again
    )


def _with_unpredicted(lists: Lists, labels: Ragged) -> Lists:
    """The lists, unless they are empty, with the labelled items that they lack at their ends, tied below everything."""
    items = lists.items
    missing = items.lengths[labels.user] > 0
    missing[match(items, labels).label] = False
    further = labels.where(missing)
    scores = lists.scores
    if scores is None:
        scores = items.like(-position_within(items.user, items.n_users).astype(np.float64))
    lowest = np.zeros(items.n_users)
    filled = np.flatnonzero(items.lengths > 0)
    lowest[filled] = np.minimum.reduceat(scores.values, items.offsets[filled])
    bottomless = np.isneginf(lowest)
    if bottomless.any():
        # Nothing is below −inf: the scores of such lists become their order, with what is equal in it.
        values, among = scores.values.copy(), bottomless[items.user]
        values[among] = np.unique(values[among], return_inverse=True)[1]
        scores, lowest[bottomless] = scores.like(values), 0.0
    below = further.like(np.nextafter(lowest, -np.inf)[further.user])
    place = np.argsort(np.concatenate([items.user, further.user]), kind="stable")
    lengths = items.lengths + further.lengths

    def joined(one: Array, two: Array) -> Array:
        both: Array = np.concatenate([one, two])[place]
        return both

    matchable = lists.matchable
    return Lists(
        items=Ragged(joined(items.values, further.values), offsets_of(lengths)),
        scores=Ragged(joined(scores.values, below.values), offsets_of(lengths)),
        labels=lists.labels,
        grades=lists.grades,
        order=lists.order,
        matchable=None if matchable is None else joined(matchable, np.ones(len(further.values), np.bool_)),
        entry=None if lists.entry is None else joined(lists.entry, np.full(len(further.values), -1)),
        weights=lists.weights,
    )


def _grades(lists: Lists) -> Ragged:
    """The labels' grades, 1 where there are none."""
    return lists.grades if lists.grades is not None else lists.labels.like(np.ones(len(lists.labels.values)))


class _Labels(NamedTuple):
    """Labels with each item once, the grades and weights of these, and the grades of the lists as they were given."""

    items: Ragged
    grades: Ragged
    as_given: Ragged
    equal: IntArray
    conflicts: IntArray
    weights: Ragged | None


def _settle_labels(lists: Lists, conflicting: Literal["highest", "last"]) -> _Labels:
    """Merge labels of the same item; one grade then holds wherever the item stands in the list, with its weight."""
    labels, grades = lists.labels, _grades(lists)
    repeated = repeated_items(labels)
    if not len(repeated.values):
        none = np.zeros(labels.n_users, np.int64)
        return _Labels(labels, grades, grades, none, none, lists.weights)
    entry = match(labels, repeated).prediction
    user, item, grade = labels.user[entry], labels.values[entry], grades.values[entry]
    within: list[Array] = [np.arange(len(entry)) if conflicting == "last" else grade]
    if lists.weights is not None:
        # Of equal grades the highest weight holds, so that no order of rows decides.
        within.insert(0, lists.weights.values[entry])
    order = np.lexsort((*within, item, user))
    entry, user, item, grade = entry[order], user[order], item[order], grade[order]
    # The last of a run of equal items has the grade that holds; all before it are repeats of it.
    repeats = (user[:-1] == user[1:]) & (item[:-1] == item[1:])
    differs = repeats & ~((grade[:-1] == grade[1:]) | (np.isnan(grade[:-1]) & np.isnan(grade[1:])))
    if lists.weights is not None:
        weight = lists.weights.values[entry]
        differs |= repeats & (weight[:-1] != weight[1:])
    keep = np.ones(len(labels.values), np.bool_)
    keep[entry[:-1][repeats]] = False
    last_of_run = np.flatnonzero(np.append(~repeats, True))
    settled = grades.values.copy()
    settled[entry] = grade[last_of_run][np.searchsorted(last_of_run, np.arange(len(entry)))]
    return _Labels(
        items=labels.where(keep),
        grades=grades.like(settled).where(keep),
        as_given=grades.like(settled),
        equal=np.bincount(user[:-1][repeats & ~differs], minlength=labels.n_users),
        conflicts=np.bincount(user[:-1][differs], minlength=labels.n_users),
        # What is kept of equal items is the entry that holds.
        weights=None if lists.weights is None else lists.weights.where(keep),
    )


class _Ranks(NamedTuple):
    rank: IntArray
    above: IntArray
    tied: IntArray


def _ranks(lists: Lists, prediction: IntArray, ties: Ties) -> _Ranks:
    """The rank of some predictions within their lists, and the group of equal scores that each stands in.

    Args:
        lists: the lists.
        prediction: which predictions, ascending.
        ties: how equal scores are ordered.
    """
    items = lists.items
    user = items.user[prediction]
    if lists.scores is None:
        position = prediction - items.offsets[user]
        return _Ranks(position + 1, position, np.ones(len(position), np.int64))
    above, tied = np.zeros(len(prediction), np.int64), np.ones(len(prediction), np.int64)
    matches = grouped(prediction, user, items.n_users)
    for group, width in width_classes(np.where(matches.lengths > 0, items.lengths, 0)):
        step = max(1, _CELLS // width)
        for start in range(0, len(group), step):
            some = group[start : start + step]
            few = matches.lengths[some] <= _COUNTED_MATCHES
            if few.all():
                _count_above(lists.scores, matches, some, width, above, tied)
            else:
                _count_above(lists.scores, matches, some[few], width, above, tied)
                _search_above(lists.scores, matches, some[~few], width, above, tied)
    before = _count_earlier(lists, prediction, user, np.flatnonzero(tied > 1), ties)
    return _Ranks(above + before + 1, above, tied)


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
        own, others = scores.values[matches.values[match]], ranks[:, :n_users]
        above[match] = higher = _count(others > own)
        tied[match] = _count(others >= own) - higher


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
    own = scores.values[matches.values[match]]
    lower, up_to = (_count_in_rows(below, ordered, row, width, own) for below in (np.less, np.less_equal))
    above[match] = length[row] - up_to
    tied[match] = up_to - lower


def _count_in_rows(below: np.ufunc, ordered: Array, row: IntArray, width: int, own: Array) -> IntArray:
    """How many values of a sorted row are below a value of its own: a binary search in all rows at once."""
    count = np.zeros(len(row), np.int64)
    step = 1 << (width.bit_length() - 1)
    while step:
        further = count + step
        at = row * width + np.minimum(further, width) - 1
        count = np.where((further <= width) & below(ordered[at], own), further, count)
        step >>= 1
    return count


def _count_earlier(lists: Lists, prediction: IntArray, user: IntArray, tied: IntArray, ties: Ties) -> IntArray:
    """How many items of the same score stand before each prediction; int64, shape of `prediction`.

    Args:
        lists: the lists.
        prediction: the predictions.
        user: whose each is.
        tied: which of them share their score.
        ties: how equal scores are ordered.
    """
    items = lists.items
    earlier = np.zeros(len(prediction), np.int64)
    if not len(tied):
        return earlier
    counted = np.bincount(user[tied], minlength=items.n_users) <= _COUNTED_TIES
    some = tied[counted[user[tied]]]
    lengths = items.lengths[user[some]]
    for group, width in width_classes(lengths):
        step = max(1, _CELLS // width)
        for start in range(0, len(group), step):
            few = some[group[start : start + step]]
            earlier[few] = _compare_tied(lists, ties, prediction[few], user[few], width)
    if not counted.all():
        some = tied[~counted[user[tied]]]
        earlier[some] = _sort_tied(lists, ties, ~counted, prediction[some])
    return earlier


def _compare_tied(lists: Lists, ties: Ties, prediction: IntArray, user: IntArray, width: int) -> IntArray:
    """How many items of the same score stand before each prediction, by comparing it with its list."""
    items, scores = lists.items, lists.scores
    assert scores is not None
    place = np.arange(width)[:, None]
    equal = (scores.values[prediction] == scores.matrix(user, width).T) & (place < items.lengths[user])
    earlier = place < prediction - items.offsets[user]
    if ties != "position":
        ids, own_id = items.matrix(user, width).T, items.values[prediction]
        if lists.order is not None:
            ids, own_id = lists.order(ids), lists.order(own_id)
        earlier = (ids < own_id if ties == "item_asc" else ids > own_id) | ((ids == own_id) & earlier)
    return _count(equal & earlier)


def _sort_tied(lists: Lists, ties: Ties, among: BoolArray, prediction: IntArray) -> IntArray:
    """The same by sorting whole lists: for users with very many labelled predictions that tie."""
    items, scores = lists.items, lists.scores
    assert scores is not None
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


def _count(flags: Array) -> Array:
    """How many are true in each column; added in the narrowest type that holds the count, which is the fastest."""
    counter = np.uint8 if len(flags) < 256 else np.uint16 if len(flags) < 65536 else np.int64
    counts: Array = np.add.reduce(flags, axis=0, dtype=counter)
    return counts
