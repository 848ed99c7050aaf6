"""What a metric reads of a user's list: an evaluation keeps that, and counts what depends on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_rankeval.ranking.recommended import Fact
    from spark_rankeval.ranking.ties import Sees


@dataclass(frozen=True, kw_only=True)
class Reads:
    """What a metric reads of a user's list.

    Attributes:
        depth: the largest rank that can change the value; predictions below it may be left out. None: all ranks.
        items: what of an item matters. Two items that are alike in it can change places.
        unlabelled: whether it looks at items without a label, too.
        facts: what it asks to be known of items and users beside predictions and labels.
        scores: whether more matters of the scores than their order: which are equal, or by how much they differ.
        tie_order: whether the order of equal scores can change the value.
        label_order: whether the order of a user's labels can change the value; rows of a table have none.
        judged_below: if `items` is ``judgement``: grades from 0 to below this are judged not relevant.
    """

    depth: int | None = None
    items: Sees = "label"
    unlabelled: bool = False
    facts: frozenset[Fact] = frozenset()
    scores: bool = False
    tie_order: bool = True
    label_order: bool = False
    judged_below: float = 0.0

    def but(self, **changes: Any) -> Reads:
        """The same except for some attributes."""
        return replace(self, **changes)
