"""Lists in words, for messages and notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def listed(texts: Sequence[str], most: int | None = None) -> str:
    """Join texts with commas and "and".

    Args:
        texts: what to list; if there is none, the list is empty.
        most: how many texts to name, at least 1. The list ends with the number of the others. None: all.

    >>> listed(["ap"]), listed(["ap", "rr"]), listed(["ap", "rr", "auc"]), listed(["ap", "rr", "auc"], most=1)
    ('ap', 'ap and rr', 'ap, rr and auc', 'ap and 2 more')
    """
    if most is not None and len(texts) > most:
        return f"{', '.join(texts[:most])} and {len(texts) - most:,} more"
    *first, last = texts or [""]
    return f"{', '.join(first)} and {last}" if first else last
