"""How states of accumulators become one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spark_rankeval.ranking.ragged import starts_of_runs
from spark_rankeval.statistics.paired import smallest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Array = np.ndarray[Any, Any]

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


def merged_stacks(stacks: Sequence[Mapping[str, Array]], places: Array) -> dict[str, Array]:
    """The states of several groups, from fields with an entry a group: `places` says whose each entry is, one stack after the other.

    The fields are added, or their least or greatest values are taken. Each place from 0 on has at least one entry.
    """
    order = np.argsort(places, kind="stable")
    starts = np.flatnonzero(starts_of_runs(places[order]))
    merged_fields = {}
    for name in stacks[0]:
        combine = _combine(name)
        assert isinstance(combine, np.ufunc), f"{name} is of one group alone"
        entries = np.concatenate([stack[name] for stack in stacks])[order]
        merged_fields[name] = entries if len(starts) == len(entries) else combine.reduceat(entries, starts, axis=0)
    return merged_fields


def _combine(name: str) -> Callable[[Array, Array], Array]:
    return _COMBINE.get(name.rpartition("_")[2], np.add)
