"""From raw lists to a `RankingBatch`: duplicates settled, labels matched, ranks counted under a tie rule."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from spark_rankeval.metrics.batch import RankingBatch, is_relevant
from spark_rankeval.metrics.matching import first_occurrences, has_duplicates, match
from spark_rankeval.metrics.ragged import Array, BoolArray, IntArray, Ragged, offsets_of, position_within, width_classes

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_rankeval.metrics.base import Sees

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
_COUNTED_MATCHES = 64
# How many cells one comparison of lists with scores may have: what stays in a core's cache.
_CELLS = 1 << 18


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
    """

    items: Ragged
    scores: Ragged | None
    labels: Ragged
    grades: Ragged | None = None
    order: Callable[[Array], Array] | None = None
    matchable: BoolArray | None = None
    n_predictions: IntArray | None = None

    def where(self, keep: BoolArray) -> Lists:
        """The same with only those predictions for which `keep` is true."""
        return replace(
            self,
            items=self.items.where(keep),
            scores=None if self.scores is None else self.scores.where(keep),
            matchable=None if self.matchable is None else self.matchable[keep],
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
        )


class Findings(NamedTuple):
    """What each user's rows turned out to be; int64 (n_users,) each.

    Attributes:
        duplicate_predictions: items that stand in a list again.
        duplicate_labels: labels that repeat one of equal grade.
        conflicting_labels: labels that repeat one of another grade.
        tied: 1 where the user's value may hang on the order of equal scores: the tied items differ in what metrics see of
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
    relevance_threshold: float | None = None,
    sees: Sees = "gain",
) -> tuple[RankingBatch, Findings]:
    """Rank every user's items, and match them with the labels.

    Args:
        lists: the input.
        policy: how lists become rankings.
        largest_cutoff: the largest rank that matters; None: all do.
        keep_label_order: keep the raw label lists, for metrics that need their order.
        relevance_threshold: which items are relevant, for what hangs on a tie.
        sees: in what of their labels tied items have to be alike.
    """
    if policy.score_precision == "float32" and lists.scores is not None:
        # A score beyond float32 becomes infinite there, as it does in the systems that do this.
        with np.errstate(over="ignore"):
            rounded = lists.scores.values.astype(np.float32).astype(np.float64)
        lists = replace(lists, scores=lists.scores.like(rounded))
    none = np.zeros(lists.items.n_users, np.int64)
    again = none
    if policy.duplicates != "each":
        twice = has_duplicates(lists.items)
        if twice.any():
            keep = first_occurrences(lists.items, twice, _preference(lists))
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
    order = np.argsort(user * (int(items.lengths.max(initial=0)) + 1) + ranks.rank)
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
    )
    cut = _cut_within_tie(lists, largest_cutoff)
    tied = _hangs_on_tie(batch, largest_cutoff, relevance_threshold, sees)
    return batch, Findings(again, labels.equal, labels.conflicts, tied, cut, items.lengths - n_predicted)


def _cut_within_tie(lists: Lists, largest_cutoff: int | None) -> IntArray:
    """1 for users whose list was cut inside a group of equal scores that reaches into the largest cutoff.

    What was cut off may then tie with what was kept: if the list was cut by score alone, which of the tied items were
    kept is arbitrary; if it was cut by score and item, the value is right but hangs on the tie rule.
    """
    items, scores = lists.items, lists.scores
    flag = np.zeros(items.n_users, np.int64)
    if lists.n_predictions is None or scores is None or largest_cutoff is None:
        return flag
    users = np.flatnonzero((lists.n_predictions > items.lengths) & (items.lengths > 0))
    if len(users):
        filled = np.flatnonzero(items.lengths > 0)
        lowest = np.zeros(items.n_users)
        lowest[filled] = np.minimum.reduceat(scores.values, items.offsets[filled])
        higher = items.user[scores.values > lowest[items.user]]
        flag[users] = np.bincount(higher, minlength=items.n_users)[users] < largest_cutoff
    return flag


def _preference(lists: Lists) -> IntArray:
    """A number an entry, lower for the one that ranks better among equal items."""
    position = position_within(lists.items.user, lists.items.n_users)
    if lists.scores is None:
        return position
    preference = np.empty(len(position), np.int64)
    preference[np.lexsort((position, -lists.scores.values))] = np.arange(len(position))
    return preference


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
    )


def _grades(lists: Lists) -> Ragged:
    """The labels' grades, 1 where there are none."""
    return lists.grades if lists.grades is not None else lists.labels.like(np.ones(len(lists.labels.values)))


class _Labels(NamedTuple):
    """Labels with each item once, the grades of these, and the grades of the lists as they were given."""

    items: Ragged
    grades: Ragged
    as_given: Ragged
    equal: IntArray
    conflicts: IntArray


def _settle_labels(lists: Lists, conflicting: Literal["highest", "last"]) -> _Labels:
    """Merge labels of the same item; one grade then holds wherever the item stands in the list."""
    labels, grades = lists.labels, _grades(lists)
    twice = has_duplicates(labels)
    if not twice.any():
        none = np.zeros(labels.n_users, np.int64)
        return _Labels(labels, grades, grades, none, none)
    entry = np.flatnonzero(twice[labels.user])
    user, item, grade = labels.user[entry], labels.values[entry], grades.values[entry]
    within = np.arange(len(entry)) if conflicting == "last" else grade
    order = np.lexsort((within, item, user))
    entry, user, item, grade = entry[order], user[order], item[order], grade[order]
    # The last of a run of equal items has the grade that holds; all before it are repeats of it.
    repeats = (user[:-1] == user[1:]) & (item[:-1] == item[1:])
    differs = repeats & ~((grade[:-1] == grade[1:]) | (np.isnan(grade[:-1]) & np.isnan(grade[1:])))
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
    )


class _Ranks(NamedTuple):
    rank: IntArray
    above: IntArray
    tied: IntArray


def _ranks(lists: Lists, prediction: IntArray, ties: Ties) -> _Ranks:
    """The rank of some predictions within their lists, and the group of equal scores that each stands in."""
    items = lists.items
    position = prediction - items.offsets[items.user[prediction]]
    if lists.scores is None:
        return _Ranks(position + 1, position, np.ones(len(position), np.int64))
    above, tied = np.zeros(len(prediction), np.int64), np.ones(len(prediction), np.int64)
    before = np.zeros(len(prediction), np.int64)
    user = items.user[prediction]
    n_matches = np.bincount(user, minlength=items.n_users)
    counted = n_matches <= _COUNTED_MATCHES
    by_user = np.argsort(user, kind="stable")
    for group, width in width_classes(np.where(counted & (n_matches > 0), items.lengths, 0)):
        in_group = np.zeros(items.n_users, np.bool_)
        in_group[group] = True
        places = by_user[in_group[user[by_user]]]
        step = max(1, _CELLS // width)
        for start in range(0, len(places), step):
            some = places[start : start + step]
            _count_above(lists, ties, prediction[some], width, some, (above, tied, before))
    if not counted.all():
        some = np.flatnonzero(~counted[user])
        _sort_lists(lists, ties, ~counted, prediction[some], some, (above, tied, before))
    return _Ranks(above + before + 1, above, tied)


def _count_above(
    lists: Lists, ties: Ties, prediction: IntArray, width: int, out: IntArray, into: tuple[IntArray, IntArray, IntArray]
) -> None:
    """Count what scores higher than each prediction, in the list it stands in."""
    above, tied, before = into
    items, scores = lists.items, lists.scores
    assert scores is not None
    user = items.user[prediction]
    own = scores.values[prediction]
    # One row a rank: comparisons and sums then run along the predictions, which are many, and not along a list.
    rows = np.ascontiguousarray(scores.matrix(user, width).T)
    higher, equal = rows > own, rows == own
    if not (items.lengths[user] == width).all():
        real = np.arange(width)[:, None] < items.lengths[user]
        higher &= real
        equal &= real
    above[out] = _count(higher)
    tied[out] = n_equal = _count(equal)
    some = np.flatnonzero(n_equal > 1)
    if not len(some):
        return
    position = prediction[some] - items.offsets[user[some]]
    earlier = np.arange(width)[:, None] < position
    if ties != "position":
        ids, own_id = items.matrix(user[some], width).T, items.values[prediction[some]]
        if lists.order is not None:
            ids, own_id = lists.order(ids), lists.order(own_id)
        earlier = (ids < own_id if ties == "item_asc" else ids > own_id) | ((ids == own_id) & earlier)
    before[out[some]] = _count(equal[:, some] & earlier)


def _count(flags: Array) -> Array:
    """How many are true in each column; added in the narrowest type that holds the count, which is the fastest."""
    counter = np.uint8 if len(flags) < 256 else np.uint16 if len(flags) < 65536 else np.int64
    counts: Array = np.add.reduce(flags, axis=0, dtype=counter)
    return counts


def _sort_lists(
    lists: Lists,
    ties: Ties,
    among: BoolArray,
    prediction: IntArray,
    out: IntArray,
    into: tuple[IntArray, IntArray, IntArray],
) -> None:
    """The same by sorting whole lists: for users with very many labelled predictions."""
    above, tied, before = into
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
    within = position_within(user, items.n_users)
    new = np.ones(len(entry), np.bool_)
    new[1:] = (user[1:] != user[:-1]) | (score[1:] != score[:-1])
    group = np.cumsum(new) - 1
    first = within[new][group]
    place = np.empty(len(items.values), np.int64)
    place[entry] = np.arange(len(entry))
    at = place[prediction]
    above[out] = first[at]
    tied[out] = np.bincount(group)[group[at]]
    before[out] = within[at] - first[at]


def _hangs_on_tie(batch: RankingBatch, largest_cutoff: int | None, threshold: float | None, sees: Sees) -> IntArray:
    """1 for users with a group of equal scores whose items differ in what is seen of them, at ranks that matter."""
    matters = batch.tied > 1
    if largest_cutoff is not None:
        matters &= batch.tied_above < largest_cutoff
    flag = np.zeros(batch.n_users, np.int64)
    if not matters.any():
        return flag
    user, above, tied = batch.user[matters], batch.tied_above[matters], batch.tied[matters]
    new = np.ones(len(user), np.bool_)
    new[1:] = (user[1:] != user[:-1]) | (above[1:] != above[:-1])
    start = np.flatnonzero(new)
    # The other items of a group have no label.
    others = np.diff(np.append(start, len(user))) < tied[start]
    grade = batch.grade[matters]
    worths = [is_relevant(grade, threshold).astype(np.float64)]
    if sees != "relevance":
        worths.append(np.maximum(grade, 0) if sees == "gain" else grade)
    mixed = others & (sees == "label")
    for worth in worths:
        best, least = np.maximum.reduceat(worth, start), np.minimum.reduceat(worth, start)
        mixed |= (best > least) | (others & (best > 0))
    flag[user[start[mixed]]] = 1
    return flag
