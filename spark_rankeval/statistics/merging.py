"""How states of accumulators become one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from spark_rankeval.ranking.ragged import starts_of_runs

Array = np.ndarray[Any, Any]
Floats = np.ndarray[Any, np.dtype[np.float64]]

#: So many differences are tried under all signs, 2^15 of them up to the sign of all; as many are kept of each column.
MOST = 16


def smallest(kept: Floats, sizes: Floats) -> Floats:
    """The `MOST` smallest sizes of each column, ascending, of those kept before and new ones; infinite ones fill up."""
    if sizes.shape[1] > MOST:
        sizes = np.partition(sizes, MOST - 1, axis=1)[:, :MOST]
    both = np.concatenate([kept, sizes], axis=1)
    both.sort(axis=1)
    return both[:, :MOST]


# How fields are combined whose names end so; others are added.
_COMBINE: dict[str, Callable[[Array, Array], Array]] = {
    "least": np.minimum,
    "greatest": np.maximum,
    "smallest": smallest,
    "joined": lambda first, second: np.concatenate([first, second], axis=1),
}


def merged(states: Iterable[dict[str, Array]]) -> dict[str, Array]:
    """The state of all rows, from one or more states of parts of them, in any order; sketches have `merged_sketches`."""
    total: dict[str, Array] = {}
    for state in states:
        for name, values in state.items():
            total[name] = values if name not in total else _combine(name)(total[name], values)
    return total


def merged_stacks(fields: Mapping[str, Array], groups: Array) -> dict[str, Array]:
    """The states of several groups, from fields with an entry for each part of a group: `groups` says whose each entry is.

    The fields are added, or their least or greatest values are taken. Each group from 0 on has at least one entry.
    """
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(starts_of_runs(groups[order]))
    merged_fields = {}
    for name, values in fields.items():
        combine = _combine(name)
        assert isinstance(combine, np.ufunc), f"{name} is of one group alone"
        entries = values[order]
        merged_fields[name] = entries if len(starts) == len(entries) else combine.reduceat(entries, starts, axis=0)
    return merged_fields


def _combine(name: str) -> Callable[[Array, Array], Array]:
    return _COMBINE.get(name.rpartition("_")[2], np.add)
