"""How states of accumulators become one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spark_rankeval.statistics.sign_flips import smallest

if TYPE_CHECKING:
    from collections.abc import Iterable

Array = np.ndarray[Any, Any]


def merged(states: Iterable[dict[str, Array]]) -> dict[str, Array]:
    """The state of all rows, from one or more states of parts of them, in any order.

    Fields are added, except for extremes (``…least``, ``…greatest``) and the ``…smallest`` few. Sketches have `merged_sketches`.
    """
    total: dict[str, Array] = {}
    for state in states:
        for name, values in state.items():
            if name not in total:
                total[name] = values
            elif name.endswith("least"):
                total[name] = np.minimum(total[name], values)
            elif name.endswith("greatest"):
                total[name] = np.maximum(total[name], values)
            elif name.endswith("smallest"):
                total[name] = smallest(total[name], values)
            else:
                total[name] = total[name] + values
    return total
