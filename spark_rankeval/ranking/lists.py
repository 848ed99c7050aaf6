"""What comes in: many users' predictions and labels as lists, what the labels are about, and the policy by which lists become rankings.

`LABEL_COLUMNS` are the numbers that labels may have beside their grades. The option of its name names such a column. It goes with the
labels to the ranked batch, where metrics read it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from spark_rankeval.ranking.matching import match, repeated_items
from spark_rankeval.ranking.ragged import Array, BoolArray, FloatArray, IntArray, Ragged, offsets_of, position_within

Ties = Literal["item_asc", "item_desc", "position"]
Duplicates = Literal["count", "keep_best", "distinct", "each", "once"]
ConflictingLabels = Literal["highest", "last"]


#: The fields of a policy that a metric can set with a parameter of the same name.
LIST_PARAMETERS = ("judged_only", "min_score", "budget", "crossing")


@dataclass(frozen=True)
class RankingPolicy:
    """How raw lists become rankings.

    Attributes:
        ties: how equal scores are ordered.
        duplicates: what becomes of an item that a list has twice. ``count`` only counts it; ``keep_best`` also leaves
            out all but the best ranked one, and ``distinct`` does so without counting; ``each`` takes every occurrence
            as an item of its own; with ``once`` each takes a place, and only the best ranked one can carry a label.
        conflicting_labels: the grade of an item that is labelled more than once.
        score_precision: what scores are rounded to before they compare.
        unpredicted_labels: labelled items that a list lacks are left out, or stand at its end, tied below the lowest
            score. An empty list stays empty.
        rolled_up: items are documents, each there once for each of its chunks: repeats in lists and among labels are no mistake.
        judged_only: items without a label, or with a negative grade, are left out before anything else. Those below them move up.
        min_score: items of a lower score are left out; None: none are.
        budget: a list ends before its costs add up to more; None: no list does.
        crossing: whether the item that passes the budget is ``out`` or ``in``.
    """

    ties: Ties = "item_asc"
    duplicates: Duplicates = "count"
    conflicting_labels: ConflictingLabels = "highest"
    score_precision: Literal["float64", "float32"] = "float64"
    unpredicted_labels: Literal["left_out", "last"] = "left_out"
    rolled_up: bool = False
    judged_only: bool = False
    min_score: float | None = None
    budget: float | None = None
    crossing: Literal["out", "in"] = "out"

    @property
    def whole_lists(self) -> RankingPolicy:
        """The same without what shortens lists; counts are the same under both."""
        whole = RankingPolicy()
        return replace(self, **{name: getattr(whole, name) for name in LIST_PARAMETERS})


#: The fields of raw lists with an entry for each flat item.
FLAT = ("matchable", "entry", "costs")


@dataclass(frozen=True)
class RawLists:
    """The raw input of many users.

    Attributes:
        items: predicted items. Numbers, or codes that stand for text.
        scores: float64, higher is better; None: lists are ordered best first already.
        labels: labelled items, comparable with `items`.
        grades: float64, the labels' grades; None: 1 each.
        order: maps items to numbers in the order of ids; called only if ties need it. None: items compare so
            themselves.
        matchable: which flat items may carry a label; None: all. The others still take a rank.
        n_predictions: how many items each user really had, if `items` holds only the best of them.
        entry: int64, the place of each flat item among the predictions as they came; None if no metric looks at items.
        costs: float64, what each flat item costs; None: not known.
        extra_values: float64, what labels have beside their grades, by name; see `LABEL_COLUMNS`.
        intents: what labelled items are about; None if no metric looks at it.
        repeated: the items that a list has twice, which several rankings of the lists share; None: not known yet.
    """

    items: Ragged
    scores: Ragged | None
    labels: Ragged
    grades: Ragged | None = None
    order: Callable[[Array], Array] | None = None
    matchable: BoolArray | None = None
    n_predictions: IntArray | None = None
    entry: IntArray | None = None
    costs: FloatArray | None = None
    extra_values: Mapping[str, Ragged] = field(default_factory=dict)
    intents: IntentLists | None = None
    repeated: Ragged | None = None

    def where(self, keep: BoolArray) -> RawLists:
        """The same with only those predictions for which `keep` is true."""
        lists = {name: value.where(keep) for name in ("items", "scores") if (value := getattr(self, name)) is not None}
        flat = {name: value[keep] for name in FLAT if (value := getattr(self, name)) is not None}
        return replace(self, **lists, **flat, repeated=None)

    def with_graded_labels(self) -> RawLists:
        """The same without labels whose grade is NaN."""
        if self.grades is None or not np.isnan(self.grades.values).any():
            return self
        keep = ~np.isnan(self.grades.values)
        extra_values = {name: values.where(keep) for name, values in self.extra_values.items()}
        return replace(self, labels=self.labels.where(keep), grades=self.grades.where(keep), extra_values=extra_values)

    def users(self, start: int, stop: int) -> RawLists:
        """The lists of the users from `start` to before `stop`."""
        flat = slice(self.items.offsets[start], self.items.offsets[stop])
        parts: dict[str, Any] = {
            "extra_values": {name: lists.users(start, stop) for name, lists in self.extra_values.items()}
        }
        for name in ("items", "scores", "labels", "grades", "intents", "repeated"):
            parts[name] = None if getattr(self, name) is None else getattr(self, name).users(start, stop)
        for name, part in (*((name, flat) for name in FLAT), ("n_predictions", slice(start, stop))):
            parts[name] = None if getattr(self, name) is None else getattr(self, name)[part]
        return replace(self, **parts)


class Labels(NamedTuple):
    """Labels with each item once.

    Attributes:
        items: every user's labelled items.
        entry: int64, the place of each of them among the labels as they came.
        grades: their grades.
        raw_grades: the grades of the label lists as they came, a repeated item with the grade that holds.
        equal: int64 (n_users,), how many labels repeat one of equal grade.
        conflicts: int64 (n_users,), how many repeat one of another grade or another number beside it.
        extra_values: the numbers beside the grades of `items`, by name.
    """

    items: Ragged
    entry: IntArray
    grades: Ragged
    raw_grades: Ragged
    equal: IntArray
    conflicts: IntArray
    extra_values: Mapping[str, Ragged]


def distinct_labels(lists: RawLists, conflicting: ConflictingLabels) -> Labels:
    """Keep one label per item: the grade, and the numbers beside it, that hold for all labels of the item."""
    labels = lists.labels
    grades = labels.like(np.ones(len(labels.values))) if lists.grades is None else lists.grades
    repeated = repeated_items(labels)
    if not len(repeated.values):
        none = np.zeros(labels.n_users, np.int64)
        return Labels(labels, np.arange(len(labels.values)), grades, grades, none, none, lists.extra_values)
    entry = match(labels, repeated).prediction
    user, item, grade = labels.user[entry], labels.values[entry], grades.values[entry]
    preference: Array = np.arange(len(entry)) if conflicting == "last" else grade
    # Of equal grades the highest number beside them holds, so that no order of rows decides.
    order = np.lexsort((*(values.values[entry] for values in lists.extra_values.values()), preference, item, user))
    entry, user, item, grade = entry[order], user[order], item[order], grade[order]
    # The last of a run of equal items has the grade that holds; all before it are repeats of it.
    repeats = (user[:-1] == user[1:]) & (item[:-1] == item[1:])
    differs = repeats & ~((grade[:-1] == grade[1:]) | (np.isnan(grade[:-1]) & np.isnan(grade[1:])))
    for extra in lists.extra_values.values():
        values = extra.values[entry]
        differs |= repeats & (values[:-1] != values[1:])
    keep = np.ones(len(labels.values), np.bool_)
    keep[entry[:-1][repeats]] = False
    last_of_run = np.flatnonzero(np.append(~repeats, True))
    final_grades = grades.values.copy()
    final_grades[entry] = grade[last_of_run][np.searchsorted(last_of_run, np.arange(len(entry)))]
    return Labels(
        items=labels.where(keep),
        entry=np.flatnonzero(keep),
        grades=grades.like(final_grades).where(keep),
        raw_grades=grades.like(final_grades),
        equal=np.bincount(user[:-1][repeats & ~differs], minlength=labels.n_users),
        conflicts=np.bincount(user[:-1][differs], minlength=labels.n_users),
        # What is kept of equal items is the entry that holds.
        extra_values={name: values.where(keep) for name, values in lists.extra_values.items()},
    )


def with_unpredicted(lists: RawLists, labels: Ragged) -> RawLists:
    """The lists, unless they are empty, with the labelled items that they lack at their ends, tied below everything."""
    items = lists.items
    missing = items.lengths[labels.user] > 0
    missing[match(items, labels).label] = False
    missing_labels = labels.where(missing)
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
    below = missing_labels.like(np.nextafter(lowest, -np.inf)[missing_labels.user])
    order = np.argsort(np.concatenate([items.user, missing_labels.user]), kind="stable")
    lengths = items.lengths + missing_labels.lengths

    def joined(item_values: Array, label_values: Array) -> Array:
        both: Array = np.concatenate([item_values, label_values])[order]
        return both

    matchable = lists.matchable
    return RawLists(
        items=Ragged(joined(items.values, missing_labels.values), offsets_of(lengths)),
        scores=Ragged(joined(scores.values, below.values), offsets_of(lengths)),
        labels=lists.labels,
        grades=lists.grades,
        order=lists.order,
        matchable=None if matchable is None else joined(matchable, np.ones(len(missing_labels.values), np.bool_)),
        entry=None if lists.entry is None else joined(lists.entry, np.full(len(missing_labels.values), -1)),
        extra_values=lists.extra_values,
    )


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


class IntentPairs(NamedTuple):
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
    def concatenate(cls, parts: Sequence[IntentPairs], first_user: IntArray, first_label: IntArray) -> IntentPairs:
        """The pairs of several batches of users; `first_user` and `first_label` say how many come before each."""
        return cls(
            np.concatenate([part.user + first for part, first in zip(parts, first_user, strict=False)]),
            np.concatenate([part.label + first for part, first in zip(parts, first_label, strict=False)]),
            *(np.concatenate([getattr(part, name) for part in parts]) for name in ("code", "grade", "rank")),
        )


class DistinctIntents(NamedTuple):
    """Pairs without repeats, and how many of each user repeat one of equal or of another grade; int64 (n_users,) each.

    Of users whose labels repeat an item, the repeats are counted with the labels.
    """

    intents: IntentPairs | None
    equal: IntArray
    conflicts: IntArray


def distinct_intents(lists: RawLists, labels: Labels, label_of_prediction: IntArray, rank: IntArray) -> DistinctIntents:
    """The intents of the labels, if a metric looks at them; of equal pairs the highest grade holds.

    Args:
        lists: the raw lists.
        labels: their labels, each item once.
        label_of_prediction: the label of each labelled prediction, ordered by user and rank.
        rank: the ranks of these predictions.
    """
    none = np.zeros(labels.items.n_users, np.int64)
    if lists.intents is None:
        return DistinctIntents(None, none, none)
    rank_of_label = np.zeros(len(labels.items.values), np.int64)
    # Of an item that a list has twice, the best rank is written last.
    rank_of_label[label_of_prediction[::-1]] = rank[::-1]
    pair, label = match(lists.intents.items, labels.items)
    code, grade = lists.intents.code[pair], lists.intents.grade[pair]
    n_codes = int(code.max(initial=0)) + 1
    key = _highest_first(lists, labels.items)[label] * n_codes + code
    order = np.lexsort((-grade, key))
    repeats = np.flatnonzero(key[order][1:] == key[order][:-1])
    once = np.delete(order, repeats + 1)
    differs = grade[order[repeats]] != grade[order[repeats + 1]]
    user = labels.items.user[label]
    has_distinct_labels = (lists.labels.lengths == labels.items.lengths)[user[order[repeats]]]
    counts = [
        np.bincount(user[order[repeats[has_distinct_labels & kind]]], minlength=len(none))
        for kind in (~differs, differs)
    ]
    intents = IntentPairs(user[once], label[once], code[once], grade[once], rank_of_label[label[once]])
    return DistinctIntents(intents, *counts)


def _highest_first(lists: RawLists, items: Ragged) -> IntArray:
    """The index of each item if every user's items are sorted from the highest to the lowest; int64."""
    ids = items.values if lists.order is None else lists.order(items.values)
    position = np.empty(len(ids), np.int64)
    position[np.lexsort((ids, items.user))] = position_within(items.user, items.n_users)
    return items.offsets[items.user + 1] - 1 - position


#: No label has a larger weight: squares of these still add up exactly.
LARGEST_WEIGHT = 2.0**100


@dataclass(frozen=True)
class ExtraColumn:
    """A number beside the score of a prediction or the grade of a label.

    Attributes:
        name: of the option, and in messages.
        wrong: the values that it cannot have, as words, a comparison and a bound, for arrays and Spark's columns. Null
            and NaN are always wrong.
    """

    name: str
    wrong: tuple[tuple[str, Callable[[Any, Any], Any], float], ...]

    def is_wrong(self, values: Array) -> BoolArray:
        """Which values it cannot have; bool, shape of `values`."""
        wrong: BoolArray = np.isnan(values)
        for _, compare, bound in self.wrong:
            wrong |= compare(values, bound)
        return wrong


LABEL_COLUMNS = {
    "weight": ExtraColumn(
        "weight",
        (
            ("negative weight", operator.lt, 0.0),
            ("weight of 0", operator.eq, 0.0),
            ("infinite weight", operator.eq, math.inf),
            ("weight above 2^100", operator.gt, LARGEST_WEIGHT),
        ),
    ),
}
#: The same of predictions.
PREDICTION_COLUMNS = {
    "cost": ExtraColumn("cost", (("negative cost", operator.lt, 0.0), ("infinite cost", operator.eq, math.inf))),
}
EXTRA_COLUMNS = LABEL_COLUMNS | PREDICTION_COLUMNS
