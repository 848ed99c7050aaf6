"""The exposure of items without the users of a block: how it differs from that of all users, as changes of a histogram.

An item that is in c lists, m of them those of a block, moves from the items of count c to those of count c − m. So the histogram
of all users and a few changes a block tell the histograms without each block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.ranking.ragged import starts_of_runs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_rankeval.ranking.ragged import Array, IntArray


def changed_counts(counts: pa.Array, in_blocks: pa.ListArray) -> tuple[Array, IntArray, IntArray, IntArray]:
    """How the counts of items change without each block.

    Args:
        counts: in how many lists each item is.
        in_blocks: the same in each block that has any, as lists of structs of two numbers: the block, and the count.

    Returns:
        for each change the place of the item, the block, a count, and how many more items have that count: 1 or −1.
    """
    item = pc.list_parent_indices(in_blocks).to_numpy().astype(np.int64)
    block, of_block = (part.to_numpy(zero_copy_only=False).astype(np.int64) for part in in_blocks.flatten().flatten())
    whole = counts.to_numpy().astype(np.int64)[item]
    change = np.repeat([-1, 1], len(item))
    return np.tile(item, 2), np.tile(block, 2), np.concatenate([whole, whole - of_block]), change


def without_block(
    whole: Mapping[str, IntArray], changes: Mapping[str, IntArray], kind: str, count: str, n_items: str
) -> dict[str, IntArray]:
    """A histogram with some changes; its columns have the names that are given. Rows of no items, or of count 0, are left out."""
    kinds, counts, numbers = (np.concatenate([whole[name], changes[name]]) for name in (kind, count, n_items))
    order = np.lexsort((counts, kinds))
    kinds, counts, numbers = kinds[order], counts[order], numbers[order]
    first = np.flatnonzero(starts_of_runs(kinds, counts))
    added_up = np.add.reduceat(numbers, first) if len(first) else numbers
    kept = (added_up != 0) & (counts[first] != 0)
    return {kind: kinds[first][kept], count: counts[first][kept], n_items: added_up[kept]}
