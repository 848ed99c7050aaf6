"""Whether ids that should occur in the predictions do: tells ids that never match from poor models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from spark_rankeval.ranking.recommended import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa

    from spark_rankeval.ranking.ragged import Array, BoolArray
    from spark_rankeval.ranking.recommended import Recommended
    from spark_rankeval.request.counts import Overlap
    from spark_rankeval.worker.reading import Side

# Which recommended items a table has, by the facts that it tells.
_IN_TABLE: dict[str, dict[str, Callable[[Array], BoolArray]]] = {
    "training": {
        "training_users": lambda n_users: n_users > 0,
        "share_above": lambda shares: shares < 1,
        "level": lambda levels: levels > 0,
        "consumed": lambda consumed: consumed,
    },
    "items": {
        "in_items": lambda in_items: in_items,
        "category": lambda codes: codes != UNKNOWN,
        "category_set": lambda places: places != UNKNOWN,
        "vector": lambda vectors: ~np.isnan(vectors),
        "group_set": lambda places: places > 0,
    },
    "baseline": {"baseline_rank": lambda ranks: ranks > 0},
}


def tables_met(lists: Iterable[Recommended | None]) -> set[str]:
    """The tables of facts that have any recommended item."""
    return {
        table
        for recommended in lists
        for table, facts in _IN_TABLE.items()
        for name, is_in_table in facts.items()
        if (fact := getattr(recommended, name, None)) is not None and is_in_table(fact).any()
    }


def overlap_counts(
    overlaps: Sequence[Overlap],
    met: set[str],
    sides: Mapping[str, Side | None],
    predicted: pa.Array,
    has_list: BoolArray,
) -> dict[str, Array]:
    """The counts of overlaps by name; int64 (n_users,).

    Args:
        overlaps: what to count.
        met: the tables of which an item is known to occur in a list.
        sides: the tables whose rows came with the users. Their items are compared with those of other users, too, if none occurs.
        predicted: the predicted items.
        has_list: which users have predictions.
    """
    found: dict[str, Any] = {}
    for overlap in overlaps:
        side = sides.get(overlap.role)
        if overlap.kind == "users":
            found[overlap.column] = side is not None and bool((side.lists.lengths[has_list] > 0).any())
        else:
            found[overlap.column] = overlap.role in met or (side is not None and _share_an_item(side.ids, predicted))
    return {name: np.full(len(has_list), is_met, np.int64) for name, is_met in found.items()}


def _share_an_item(left: pa.Array, right: pa.Array) -> bool:
    return bool(pc.any(pc.is_in(left, value_set=right.cast(left.type), skip_nulls=True)).as_py())
