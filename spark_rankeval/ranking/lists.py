"""What comes in: many users' predictions and labels as lists, and the policy by which lists become rankings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spark_rankeval.ranking.intents import IntentLists
    from spark_rankeval.ranking.ragged import Array, BoolArray, IntArray, Ragged

Ties = Literal["item_asc", "item_desc", "position"]
Duplicates = Literal["count", "keep_best", "each", "once"]
ConflictingLabels = Literal["highest", "last"]


@dataclass(frozen=True)
class RankingPolicy:
    """How raw lists become rankings.

    Attributes:
        ties: how equal scores are ordered.
        duplicates: what becomes of an item that a list has twice. ``count`` only counts it; ``keep_best`` also leaves
            out all but the best ranked one; ``each`` takes every occurrence as an item of its own; with ``once`` each
            takes a place, and only the best ranked one can carry a label.
        conflicting_labels: the grade of an item that is labelled more than once.
        score_precision: what scores are rounded to before they compare.
        unpredicted_labels: labelled items that a list lacks are left out, or stand at its end, tied below the lowest
            score. An empty list stays empty.
        judged_only: items without a label, or with a negative grade, are left out before anything else. Those below them move up.
    """

    ties: Ties = "item_asc"
    duplicates: Duplicates = "count"
    conflicting_labels: ConflictingLabels = "highest"
    score_precision: Literal["float64", "float32"] = "float64"
    unpredicted_labels: Literal["left_out", "last"] = "left_out"
    judged_only: bool = False


@dataclass(frozen=True)
class Lists:
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
        beside: float64, what labels have beside their grades, by name; see `LABEL_COLUMNS`.
        intents: what labelled items are about; None if no metric looks at it.
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
    intents: IntentLists | None = None

    def where(self, keep: BoolArray) -> Lists:
        """The same with only those predictions for which `keep` is true."""
        lists = {name: value.where(keep) for name in ("items", "scores") if (value := getattr(self, name)) is not None}
        flat = {name: value[keep] for name in ("matchable", "entry") if (value := getattr(self, name)) is not None}
        return replace(self, **lists, **flat)

    def users(self, start: int, stop: int) -> Lists:
        """The lists of the users from `start` to before `stop`."""
        flat = slice(self.items.offsets[start], self.items.offsets[stop])
        parts: dict[str, Any] = {"beside": {name: lists.users(start, stop) for name, lists in self.beside.items()}}
        for name in ("items", "scores", "labels", "grades", "intents"):
            parts[name] = None if getattr(self, name) is None else getattr(self, name).users(start, stop)
        for name, places in (("matchable", flat), ("entry", flat), ("n_predictions", slice(start, stop))):
            parts[name] = None if getattr(self, name) is None else getattr(self, name)[places]
        return replace(self, **parts)
