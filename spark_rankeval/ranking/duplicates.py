"""What becomes of an item that a list has more than once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from spark_rankeval.ranking.matching import first_occurrences, repeated_items

if TYPE_CHECKING:
    from spark_rankeval.ranking.lists import Duplicates, Lists
    from spark_rankeval.ranking.ragged import BoolArray, IntArray


def settle_duplicates(lists: Lists, rule: Duplicates) -> tuple[Lists, IntArray]:
    """The lists as a rule for duplicates leaves them, and how many predictions of each user repeat another, int64 (n_users,)."""
    none = np.zeros(lists.items.n_users, np.int64)
    if rule == "each":
        return lists, none
    repeated = repeated_items(lists.items)
    if not len(repeated.values):
        return lists, none
    keep = first_occurrences(lists.items, repeated, lists.scores)
    if rule == "once":
        matchable = keep if lists.matchable is None else keep & lists.matchable
        return replace(lists, matchable=matchable), none
    n_repeats = np.bincount(lists.items.user[~keep], minlength=lists.items.n_users)
    return (_without(lists, keep, n_repeats) if rule == "keep_best" else lists), n_repeats


def _without(lists: Lists, keep: BoolArray, n_repeats: IntArray) -> Lists:
    n_predictions = None if lists.n_predictions is None else lists.n_predictions - n_repeats
    return replace(lists.where(keep), n_predictions=n_predictions)
