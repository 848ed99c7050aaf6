"""What comes in: many users' predictions and labels as lists, and the policy by which lists become rankings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spark_rankeval.ranking.ragged import Array, BoolArray, IntArray, Ragged

Ties = Literal["item_asc", "item_desc", "position"]
Duplicates = Literal["count", "keep_best", "each", "once"]
ConflictingLabels = Literal["highest", "last"]


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
    conflicting_labels: ConflictingLabels = "highest"
    score_precision: Literal["float64", "float32"] = "float64"
    unpredicted_labels: Literal["left_out", "last"] = "left_out"


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
        beside: float64, what labels have beside their grades, by name; see `LABEL_COLUMNS`.
    """

    items: Ragged
    scores: Ragged | None
    labels: Ragged
    grades: Ragged | None = None
    order: Callable[[Array], Array] | None = None
    matchable: BoolArray | None = None
    n_predictions: IntArray | None = None
    entry: IntArray | None = None
    beside: Mapping[str, Ragged] = field(default_factory=dict)

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
            beside={name: values.users(start, stop) for name, values in self.beside.items()},
        )
