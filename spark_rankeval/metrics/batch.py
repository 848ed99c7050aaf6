"""What metrics read: many users' ranked lists, with what the labels say of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from spark_rankeval.metrics.ragged import BoolArray, FloatArray, IntArray, Ragged, offsets_of, position_within

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence


T = TypeVar("T")


def is_relevant(grade: FloatArray, threshold: float | None) -> BoolArray:
    """Which labelled items are relevant: grade at or above the threshold; without one, grade above 0."""
    if threshold is None:
        return grade > 0
    # A NaN grade (only MLlib's dialect lets one in) is not below any threshold: labelled is then relevant.
    return ~(grade < threshold)


class Hits(NamedTuple):
    """The relevant items of the lists, by user and then by rank.

    Attributes:
        user: int64, whose list.
        rank: int64, from 1.
        ordinal: int64, H at that rank: how many hits the list has down to here, this one included.
        place: int64, where the hit stands among the batch's labelled predictions.
    """

    user: IntArray
    rank: IntArray
    ordinal: IntArray
    place: IntArray


@dataclass(frozen=True, eq=False)
class RankingBatch:
    """Ranked lists of many users, reduced to what metrics need: their labelled items.

    An item without a label never gains anything; that it is there shows in the ranks of the others and in
    `n_predictions`. The arrays of labelled predictions have one entry each and are ordered by user, then by rank.

    Attributes:
        n_users: how many users.
        n_predictions: int64 (n_users,), ρ: how many items were ranked, those that pruning left out included.
        user: int64, the user of each labelled prediction.
        rank: int64, its rank, from 1.
        grade: float64, its label's grade.
        score: float64, what it was ranked by; −rank where lists came in order.
        tied_above: int64, how many items score strictly higher.
        tied: int64, how many items have its score, itself included.
        labels: the grades of every user's distinct labelled items, in no order.
        labels_as_given: the grades of the raw label lists, in their order, a repeated item each time with the grade that
            holds for it; None where no order
            was given.
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
    labels_as_given: Ragged | None = None
    _memory: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def concatenate(cls, batches: Sequence[RankingBatch]) -> RankingBatch:
        """The users of several batches, one batch after the other."""
        if len(batches) == 1:
            return batches[0]
        first_user = offsets_of([batch.n_users for batch in batches])
        users = [batch.user + first for batch, first in zip(batches, first_user, strict=False)]
        given = [batch.labels_as_given for batch in batches]
        return cls(
            n_users=int(first_user[-1]),
            n_predictions=np.concatenate([batch.n_predictions for batch in batches]),
            user=np.concatenate(users),
            rank=np.concatenate([batch.rank for batch in batches]),
            grade=np.concatenate([batch.grade for batch in batches]),
            score=np.concatenate([batch.score for batch in batches]),
            tied_above=np.concatenate([batch.tied_above for batch in batches]),
            tied=np.concatenate([batch.tied for batch in batches]),
            labels=Ragged.concatenate([batch.labels for batch in batches]),
            labels_as_given=Ragged.concatenate([lists for lists in given if lists is not None])
            if None not in given
            else None,
        )

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

        return self.remember(("n_relevant", threshold), count)

    def hits(self, threshold: float | None) -> Hits:
        """The relevant items of every list."""

        def find() -> Hits:
            place = np.flatnonzero(is_relevant(self.grade, threshold))
            user = self.user[place]
            return Hits(user, self.rank[place], position_within(user, self.n_users) + 1, place)

        return self.remember(("hits", threshold), find)

    def n_hits(self, k: int | None, threshold: float | None) -> IntArray:
        """H_k: how many of the first k items are relevant; int64 (n_users,)."""

        def count() -> IntArray:
            hits = self.hits(threshold)
            if k is None:
                return np.bincount(hits.user, minlength=self.n_users)
            # Counted as floats, which are exact here: masking costs less than picking.
            return self.total(hits.user, (hits.rank <= k).astype(np.float64)).astype(np.int64)

        return self.remember(("n_hits", k, threshold), count)

    def total(self, user: IntArray, values: FloatArray, within: BoolArray | None = None) -> FloatArray:
        """The sum of each user's values, or of those within; float64 (n_users,).

        Added one after the other in the order given, so that neither padding nor the split into batches changes a bit.
        """
        counted: FloatArray = values if within is None else np.where(within, values, 0.0)
        # Without an entry numpy forgets the weights, and counts in whole numbers.
        return np.bincount(user, counted, self.n_users).astype(np.float64, copy=False)

    def within(self, k: int | None) -> BoolArray | None:
        """Which labelled predictions stand in the first k places; None where all do."""
        return None if k is None else self.remember(("within", k), lambda: self.rank <= k)

    def labels_by_grade(self) -> Ragged:
        """Every user's label grades, best first."""

        def sort() -> Ragged:
            grades = self.labels.values
            if len(grades) == 0 or bool((grades == grades[0]).all()):
                return self.labels
            # Two sorts instead of one by two keys: the second is stable on whole numbers, which is a radix sort.
            by_grade = np.argsort(-grades, kind="stable")
            order = by_grade[np.argsort(self.labels.user[by_grade], kind="stable")]
            return self.labels.like(grades[order])

        return self.remember("labels_by_grade", sort)
