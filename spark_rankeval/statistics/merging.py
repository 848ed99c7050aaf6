"""How states of accumulators become one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spark_rankeval.statistics.paired import smallest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
            if name not in total:
                total[name] = values
            else:
                combine = _COMBINE.get(name.rpartition("_")[2], np.add)
                total[name] = combine(total[name], values)
    return total
