"""The items that a packed table knows: what is prepared once a task, so that batch after batch is looked up quickly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_rankeval.worker.reading import filled, places_among

if TYPE_CHECKING:
    from spark_rankeval.ranking.ragged import IntArray

# Whole numbers are looked up in a table of all numbers from the least to the greatest, if it has at most so many entries an item.
_SPARSE = 8


class KnownItems:
    """Different items, and where each stands; any other item stands behind all."""

    def __init__(self, ids: pa.Array) -> None:
        self.ids = ids
        self._least = np.int64(0)
        self._places: IntArray | None = None
        if pa.types.is_integer(ids.type) and len(ids):
            # Spark's whole numbers have a sign, and 64 bits at the most.
            numbers = filled(ids, 0).astype(np.int64)
            n_numbers = int(numbers.max()) - int(numbers.min()) + 1
            if n_numbers <= _SPARSE * len(ids):
                self._least = numbers.min()
                self._places = np.full(n_numbers + 1, len(ids), np.int64)
                self._places[numbers - self._least] = np.arange(len(ids))

    def __len__(self) -> int:
        return len(self.ids)

    def places(self, items: pa.Array) -> IntArray:
        """Where items of the same type stand; int64."""
        if not len(self.ids):
            return np.zeros(len(items), np.int64)
        if self._places is None:
            return places_among(items, self.ids, unknown=len(self.ids))
        # Without a sign, numbers below the least are large: the subtraction may overflow, but no two numbers meet.
        above = (filled(items, 0).astype(np.int64) - self._least).view(np.uint64)
        places: IntArray = self._places[np.minimum(above, len(self._places) - 1).astype(np.int64)]
        return np.where(filled(items.is_valid(), 0), places, len(self.ids)) if items.null_count else places
