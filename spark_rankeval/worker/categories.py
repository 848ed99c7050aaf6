"""The categories of items, any number each: sets of categories as codes, and which share of users' items is of each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from spark_rankeval.ranking.ragged import Ragged
from spark_rankeval.ranking.recommended import UNKNOWN, CategoryShares
from spark_rankeval.worker.reading import filled

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_rankeval.ranking.ragged import IntArray


class CategorySets:
    """The sets of categories that were seen, and a code for each category; items are far more than their sets."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._codes: dict[str, int] = {}
        self._sets: list[list[int]] = []
        self._together = Ragged.from_lists([], np.int64)

    def places(self, texts: pa.Array) -> IntArray:
        """The place of each set, `UNKNOWN` for an empty one and for null: int64; sets come as JSON, each in one order."""
        encoded = texts.dictionary_encode()
        places = np.array([self._place(text) for text in encoded.dictionary.to_pylist()] + [UNKNOWN], np.int64)
        # Null is the last of the places.
        found: IntArray = places[filled(encoded.indices, len(places) - 1).astype(np.int64)]
        return found

    def _place(self, text: str) -> int:
        if text not in self._places:
            codes = [self._codes.setdefault(category, len(self._codes)) for category in json.loads(text)]
            self._places[text] = len(self._sets) if codes else UNKNOWN
            self._sets += [codes] if codes else []
        return self._places[text]

    def sets(self) -> Ragged:
        """The codes of each set's categories: a list a set."""
        if self._together.n_users < len(self._sets):
            self._together = Ragged.from_lists(self._sets, np.int64)
        return self._together


def shares_of_categories(user: IntArray, places: IntArray, sets: Ragged) -> CategoryShares:
    """Which share of each user's items is of each category; an item is of all of its categories in equal parts.

    Items without a category are left out, and users who have no other.

    Args:
        user: int64, of each item.
        places: int64, the place of each item's categories among the sets.
        sets: as of `CategorySets.sets`.
    """
    known = places != UNKNOWN
    user, places = user[known], places[known]
    if not len(user):
        nobody = np.empty(0, np.int64)
        return CategoryShares(nobody, nobody, np.empty(0))
    n_categories, n_sizes = int(sets.values.max()) + 1, int(sets.lengths.max()) + 1
    of_items = sets.take(places)
    # Items come in any order, and sums of floats have one: items that share alike are counted, then added by how they share.
    cell = (user[of_items.user] * n_categories + of_items.values) * n_sizes + of_items.lengths[of_items.user]
    cells, counts = np.unique(cell, return_counts=True)
    pairs, pair = np.unique(cells // n_sizes, return_inverse=True)
    n_items = np.bincount(user)
    share = np.bincount(pair, counts / (cells % n_sizes)) / n_items[pairs // n_categories]
    return CategoryShares(pairs // n_categories, pairs % n_categories, share)
