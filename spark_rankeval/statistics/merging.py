"""How states of accumulators become one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spark_rankeval.statistics.sign_flips import smallest

if TYPE_CHECKING:
    from collections.abc import Iterable

Array = np.ndarray[Any, Any]


def merged(states: Iterable[dict[str, Array]]) -> dict[str, Array]:
    """The state of all rows, from the states of parts of them, in any order.

    Fields are added, but for the extremes, whose names end in ``least`` and ``greatest``, and the few ``smallest``. The states
    of `MomentsAccumulator`, `MeanAccumulator`, `BootstrapAccumulator`, `PairedAccumulator` and `AllPairsAccumulator` are
    merged by this; quantile sketches have a merge of their own.

    Args:
        states: one or more, of one accumulator's options.
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
