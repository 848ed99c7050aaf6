"""What metrics read: many users' ranked lists with their labels, groups of equal scores, and which users an evaluation is about."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self, TypeVar

import numpy as np

from spark_rankeval.ranking.lists import IntentPairs
from spark_rankeval.ranking.ragged import (
    BoolArray,
    FloatArray,
    IntArray,
    Ragged,
    Runs,
    offsets_of,
    position_within,
    starts_of_runs,
)
from spark_rankeval.ranking.recommended import Recommended

T = TypeVar("T")


def is_relevant(grade: FloatArray, threshold: float | None) -> BoolArray:
    """Which labelled items are relevant: grade at or above the threshold; without one, grade above 0."""
    if threshold is None:
        return grade > 0
    # A NaN grade (only MLlib's dialect lets one in) is not below any threshold: labelled is then relevant.
    return ~(grade < threshold)


def retrieved(batch: RankingBatch, k: int | None) -> IntArray:
    """ρ_k = min(k, ρ), how many items stand in the first k places; ρ without a cutoff."""
    return batch.n_predictions if k is None else np.minimum(batch.n_predictions, k)


class Hits(NamedTuple):
    """The relevant items of the lists, by user and then by rank.

    Attributes:
        user: int64, whose list.
        rank: int64, from 1.
        ordinal: int64, H at that rank: how many hits stand at it or above.
        entry: int64, its index among the labelled predictions.
    """

    user: IntArray
    rank: IntArray
    ordinal: IntArray
    entry: IntArray


@dataclass(frozen=True, eq=False)
class RankingBatch:
    """Ranked lists of many users, reduced to what metrics need: their labelled items, by user and then by rank.

    An item without a label gains nothing: it only shows in the ranks of others and in `n_predictions`.

    Attributes:
        n_users: how many users.
        n_predictions: int64 (n_users,), ρ: how many items were ranked, including those that pruning left out.
        user: int64, the user of each labelled prediction.
        rank: int64, its rank, from 1.
        grade: float64, its label's grade.
        score: float64, what it was ranked by; −rank if lists came in order.
        tied_above: int64, how many items score strictly higher.
        tied: int64, how many items have its score, itself included.
        labels: the grades of every user's distinct labelled items, in no order.
        raw_labels: the grades of the raw label lists in their order, a repeated item with the grade that holds;
            None without an order.
        recommended: the items of the lists, labelled or not; None if no metric looks at them.
        extra_values: float64, what each labelled prediction's label has beside its grade, by name; see `LABEL_COLUMNS`.
        label_extra_values: the same of `labels`.
        intents: what labelled items are about; None if no metric looks at it.
        label: int64, a number for the label of each labelled prediction that no other label of the user has; None if no
            list can repeat an item.
        no_answer: bool (n_users,), for whom it is right to retrieve nothing; None if the call does not say.
    """

    n_users: int
    n_predictions: IntArray
    user: IntArray
    rank: IntArray
    grade: FloatArray
    score: FloatArray
    tied_above: IntArray
    tied: IntArray
    labels: Ragged
    raw_labels: Ragged | None = None
    recommended: Recommended | None = None
    extra_values: Mapping[str, FloatArray] = field(default_factory=dict)
    label_extra_values: Mapping[str, Ragged] = field(default_factory=dict)
    intents: IntentPairs | None = None
    label: IntArray | None = None
    no_answer: BoolArray | None = None
    _memory: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def concatenate(cls, batches: Sequence[RankingBatch]) -> RankingBatch:
        """The users of several batches, one batch after the other."""
        if len(batches) == 1:
            return batches[0]
        first_user = offsets_of([batch.n_users for batch in batches])
        flat = ("n_predictions", "rank", "grade", "score", "tied_above", "tied")
        recommended = [batch.recommended for batch in batches if batch.recommended is not None]
        raw_labels = [batch.raw_labels for batch in batches if batch.raw_labels is not None]
        intents = [batch.intents for batch in batches if batch.intents is not None]
        no_answer = [batch.no_answer for batch in batches if batch.no_answer is not None]
        first_label = offsets_of([len(batch.labels.values) for batch in batches])
        label = [batch.label for batch in batches if batch.label is not None]
        names = batches[0].extra_values
        return cls(
            n_users=int(first_user[-1]),
            user=np.concatenate([batch.user + first for batch, first in zip(batches, first_user, strict=False)]),
            **{name: np.concatenate([getattr(batch, name) for batch in batches]) for name in flat},
            labels=Ragged.concatenate([batch.labels for batch in batches]),
            raw_labels=Ragged.concatenate(raw_labels) if len(raw_labels) == len(batches) else None,
            recommended=Recommended.concatenate(recommended) if len(recommended) == len(batches) else None,
            intents=IntentPairs.concatenate(intents, first_user, first_label) if len(intents) == len(batches) else None,
            label=np.concatenate(label) if len(label) == len(batches) else None,
            no_answer=np.concatenate(no_answer) if len(no_answer) == len(batches) else None,
            extra_values={name: np.concatenate([batch.extra_values[name] for batch in batches]) for name in names},
            label_extra_values={
                name: Ragged.concatenate([b.label_extra_values[name] for b in batches]) for name in names
            },
        )

    @property
    def weight(self) -> FloatArray | None:
        """The weight of each labelled prediction's label; None if labels have none."""
        return self.extra_values.get("weight")

    @property
    def label_weights(self) -> Ragged | None:
        """The weights of `labels`; None if they have none."""
        return self.label_extra_values.get("weight")

    def remember(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` gives, computed once a batch and key: cutoffs and metrics share their intermediate steps."""
        if key not in self._memory:
            self._memory[key] = make()
        value: T = self._memory[key]
        return value

    def n_relevant(self, threshold: float | None) -> IntArray:
        """γ: how many distinct items of each user are relevant; int64 (n_users,)."""

        def count() -> IntArray:
            relevant = is_relevant(self.labels.values, threshold)
            if relevant.all():
                return self.labels.lengths
            return np.bincount(self.labels.user[relevant], minlength=self.n_users)

        return self.labels.remember(("n_relevant", threshold), count)

    def hits(self, threshold: float | None) -> Hits:
        """The relevant items of every list."""

        def find() -> Hits:
            entry = np.flatnonzero(is_relevant(self.grade, threshold))
            user = self.user[entry]
            return Hits(user, self.rank[entry], position_within(user, self.n_users) + 1, entry)

        return self.remember(("hits", threshold), find)

    def n_hits(self, k: int | None, threshold: float | None) -> FloatArray:
        """H_k: how many of the first k items are relevant; float64 (n_users,), whole numbers ready to be divided."""

        def count() -> FloatArray:
            hits = self.hits(threshold)
            user = hits.user if k is None else hits.user[np.flatnonzero(hits.rank <= k)]
            return np.bincount(user, minlength=self.n_users).astype(np.float64)

        return self.remember(("n_hits", k, threshold), count)

    def total(self, user: IntArray, values: FloatArray, within: BoolArray | None = None) -> FloatArray:
        """The sum of each user's values, or of those within; float64 (n_users,).

        Added one after the other, so that neither padding nor the split into batches changes a bit.
        """
        if within is not None and not within.all():
            counted = np.flatnonzero(within)
            user, values = user[counted], values[counted]
        # Without an entry numpy forgets the weights, and counts in whole numbers.
        return np.bincount(user, values, self.n_users).astype(np.float64, copy=False)

    def total_of_labels(self, values: FloatArray, within: BoolArray | None = None) -> FloatArray:
        """The sum over each user's labels, or over those within; float64 (n_users,).

        Labels come in any order: they are added from the smallest to the largest, so that no order changes a bit.
        """
        user = self.labels.user
        if within is not None:
            user, values = user[within], values[within]
        ascending = np.lexsort((values, user))
        return self.total(user, values[ascending])

    def repeats(self) -> IntArray:
        """Which labelled predictions have an item that stands above, too; int64, ascending."""

        def find() -> IntArray:
            if self.label is None or not len(self.label):
                return np.empty(0, np.int64)
            # A user's labelled predictions come by rank, and of equal values numpy gives the first.
            first = np.unique(self.user * (int(self.label.max()) + 1) + self.label, return_index=True)[1]
            return np.delete(np.arange(len(self.label)), first)

        return self.remember("repeats", find)

    def within(self, k: int | None) -> BoolArray | None:
        """Which labelled predictions stand in the first k places; None where all do."""
        return None if k is None else self.remember(("within", k), lambda: self.rank <= k)

    def labels_by_grade(self) -> Ragged:
        """Every user's label grades, best first."""

        def sort() -> Ragged:
            grades = self.labels.values
            if len(grades) == 0 or bool((grades == grades[0]).all()):
                return self.labels
            grades, keys, _ = self._grade_keys()
            return self.labels.like(grades[keys - self.labels.user * len(grades)])

        return self.labels.remember("labels_by_grade", sort)

    def label_rank(self) -> IntArray:
        """The place of each label among its user's, best first, from 1; int64, shape of `labels`."""
        return self.labels.remember("label_rank", lambda: position_within(self.labels.user, self.n_users) + 1)

    def label_runs(self) -> tuple[Runs, Runs]:
        """How many labels have a higher grade, how many the same: of labels, best first; of labelled predictions."""

        def find() -> tuple[Runs, Runs]:
            _, keys, prediction_keys = self._grade_keys()
            new = starts_of_runs(keys)
            start, run_of_label = np.flatnonzero(new), np.cumsum(new) - 1
            size = np.diff(np.append(start, len(keys)))

            def runs(user: IntArray, run: IntArray) -> Runs:
                return Runs(start[run] - self.labels.offsets[user], size[run])

            return runs(self.labels.user, run_of_label), runs(self.user, np.searchsorted(keys[start], prediction_keys))

        return self.remember("label_runs", find)

    def _grade_keys(self) -> tuple[FloatArray, IntArray, IntArray]:
        """The different grades, best first; and user · their number + index among them, of sorted labels and of predictions.

        One sort of whole numbers takes less than one by two keys.
        """

        def find() -> tuple[FloatArray, IntArray, IntArray]:
            negated = np.unique(-self.labels.values)

            def keys(user: IntArray, grade: FloatArray) -> IntArray:
                return user * len(negated) + np.searchsorted(negated, -grade)

            return -negated, np.sort(keys(self.labels.user, self.labels.values)), keys(self.user, self.grade)

        return self.remember("grade_places", find)


@dataclass(frozen=True)
class Population:
    """Which users an evaluation is about; others have no value, as if undefined.

    Attributes:
        absent_from_labels: users without a label: undefined as the metrics say, or left out.
        without_predictions: users without predictions: counted as the metrics say, or left out.
    """

    absent_from_labels: Literal["undefined", "left_out"] = "undefined"
    without_predictions: Literal["counted", "left_out"] = "counted"

    def includes(self, n_labels: IntArray, n_predictions: IntArray) -> BoolArray:
        """Whether it is about users with so many labels and predictions; bool (n_users,)."""
        included = np.ones(len(n_labels), np.bool_)
        if self.absent_from_labels == "left_out":
            included &= n_labels > 0
        if self.without_predictions == "left_out":
            included &= n_predictions > 0
        return included


#: By the names that callers use.
POPULATIONS = {
    "every": Population(),
    "labelled": Population(absent_from_labels="left_out"),
    "predicted": Population(without_predictions="left_out"),
    "both": Population(absent_from_labels="left_out", without_predictions="left_out"),
}


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
    columns = _visible_columns(batch.grade[matters], look, None if batch.weight is None else batch.weight[matters])
    mixed = others & (look.sees in ("label", "item"))
    for column in columns:
        best, least = np.maximum.reduceat(column, start), np.minimum.reduceat(column, start)
        mixed |= (best > least) | (others & (best > 0) & (look.sees != "judgement"))
        # The whole group may be relevant, for different intents.
        mixed |= (best > 0) & (look.sees == "intents")
    flag[user[start[mixed]]] = 1
    return flag


def _visible_columns(grade: FloatArray, look: Look, weight: FloatArray | None) -> list[FloatArray]:
    """What a look sees of labelled items: it cannot tell items apart that agree in every column. No label is 0 in each."""
    columns: list[FloatArray] = []
    if look.sees != "gaining":
        columns.append(is_relevant(grade, look.threshold).astype(np.float64))
    match look.sees:
        case "gaining":
            columns.append((grade > 0).astype(np.float64))
        case "gain":
            columns.append(np.maximum(grade, 0))
        case "judgement":
            columns.append(((grade >= 0) & (grade < look.judged_below)).astype(np.float64))
        case "label" | "item":
            columns.append(grade)
    if weight is not None:
        columns.append(weight if look.sees in ("label", "item") else np.where(columns[-1] > 0, weight, 0.0))
    return columns


class TiedGroups(NamedTuple):
    """The groups of equal scores that hold an item of some kind, by user and then by score; int64 each.

    Attributes:
        user: whose list.
        above: a: how many items score higher; the group has the ranks from a + 1 on.
        size: t: how many items the group has; 1 for an untied item.
        held_above: C: how many items of the kind score higher.
        held: s: how many items of the kind the group has, at least 1.
        start: the index of its first item of the kind among all of the kind.
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


def tied_groups(batch: RankingBatch, entry: IntArray) -> TiedGroups:
    """The groups of equal scores that hold some of the labelled predictions, given ascending."""
    user, above = batch.user[entry], batch.tied_above[entry]
    start = np.flatnonzero(starts_of_runs(user, above))
    return TiedGroups(
        user=user[start],
        above=above[start],
        size=batch.tied[entry[start]],
        held_above=position_within(user, batch.n_users)[start],
        held=np.diff(np.append(start, len(entry))),
        start=start,
    )


def tied_hits(batch: RankingBatch, threshold: float | None) -> TiedGroups:
    """The groups that hold a relevant item."""
    return batch.remember(("tied hits", threshold), lambda: tied_groups(batch, batch.hits(threshold).entry))


def tied_labels(batch: RankingBatch) -> TiedGroups:
    """The groups that hold a labelled item."""
    return batch.remember("tied labels", lambda: tied_groups(batch, np.arange(len(batch.user))))
