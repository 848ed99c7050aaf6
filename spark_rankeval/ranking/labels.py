"""Every labelled item once, with the grade that holds for it; and lists that end in the labelled items that they lack."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from spark_rankeval.ranking.lists import Lists
from spark_rankeval.ranking.matching import match, repeated_items
from spark_rankeval.ranking.ragged import Ragged, offsets_of, position_within

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_rankeval.ranking.lists import ConflictingLabels
    from spark_rankeval.ranking.ragged import Array, IntArray


class Labels(NamedTuple):
    """Labels with each item once.

    Attributes:
        items: every user's labelled items.
        entry: int64, the place of each of them among the labels as they came.
        grades: their grades.
        as_given: the grades of the label lists as they came, a repeated item with the grade that holds.
        equal: int64 (n_users,), how many labels repeat one of equal grade.
        conflicts: int64 (n_users,), how many repeat one of another grade or another number beside it.
        beside: the numbers beside the grades of `items`, by name.
    """

    items: Ragged
    entry: IntArray
    grades: Ragged
    as_given: Ragged
    equal: IntArray
    conflicts: IntArray
    beside: Mapping[str, Ragged]


def settle_labels(lists: Lists, conflicting: ConflictingLabels) -> Labels:
    """Merge labels of the same item: one grade, and what stands beside it, holds for all of them."""
    labels = lists.labels
    grades = labels.like(np.ones(len(labels.values))) if lists.grades is None else lists.grades
    repeated = repeated_items(labels)
    if not len(repeated.values):
        none = np.zeros(labels.n_users, np.int64)
        return Labels(labels, np.arange(len(labels.values)), grades, grades, none, none, lists.beside)
    entry = match(labels, repeated).prediction
    user, item, grade = labels.user[entry], labels.values[entry], grades.values[entry]
    preference: Array = np.arange(len(entry)) if conflicting == "last" else grade
    # Of equal grades the highest number beside them holds, so that no order of rows decides.
    order = np.lexsort((*(values.values[entry] for values in lists.beside.values()), preference, item, user))
    entry, user, item, grade = entry[order], user[order], item[order], grade[order]
    # The last of a run of equal items has the grade that holds; all before it are repeats of it.
    repeats = (user[:-1] == user[1:]) & (item[:-1] == item[1:])
    differs = repeats & ~((grade[:-1] == grade[1:]) | (np.isnan(grade[:-1]) & np.isnan(grade[1:])))
    for beside in lists.beside.values():
        values = beside.values[entry]
        differs |= repeats & (values[:-1] != values[1:])
    keep = np.ones(len(labels.values), np.bool_)
    keep[entry[:-1][repeats]] = False
    last_of_run = np.flatnonzero(np.append(~repeats, True))
    settled = grades.values.copy()
    settled[entry] = grade[last_of_run][np.searchsorted(last_of_run, np.arange(len(entry)))]
    return Labels(
        items=labels.where(keep),
        entry=np.flatnonzero(keep),
        grades=grades.like(settled).where(keep),
        as_given=grades.like(settled),
        equal=np.bincount(user[:-1][repeats & ~differs], minlength=labels.n_users),
        conflicts=np.bincount(user[:-1][differs], minlength=labels.n_users),
        # What is kept of equal items is the entry that holds.
        beside={name: values.where(keep) for name, values in lists.beside.items()},
    )


def with_unpredicted(lists: Lists, labels: Ragged) -> Lists:
    """The lists, unless they are empty, with the labelled items that they lack at their ends, tied below everything."""
    items = lists.items
    missing = items.lengths[labels.user] > 0
    missing[match(items, labels).label] = False
    further = labels.where(missing)
    scores = lists.scores
    if scores is None:
        scores = items.like(-position_within(items.user, items.n_users).astype(np.float64))
    lowest = scores.lowest()
    bottomless = np.isneginf(lowest)
    if bottomless.any():
        # Nothing is below −inf: the scores of such lists become their order, with what is equal in it.
        values, among = scores.values.copy(), bottomless[items.user]
        values[among] = np.unique(values[among], return_inverse=True)[1]
        scores, lowest[bottomless] = scores.like(values), 0.0
    below = further.like(np.nextafter(lowest, -np.inf)[further.user])
    place = np.argsort(np.concatenate([items.user, further.user]), kind="stable")
    lengths = items.lengths + further.lengths

    def joined(of_items: Array, of_further: Array) -> Array:
        both: Array = np.concatenate([of_items, of_further])[place]
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
        beside=lists.beside,
    )
