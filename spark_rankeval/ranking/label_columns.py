"""The numbers that labels may have beside their grades: name, and values that they cannot have.

The option of its name names such a column. It goes with the labels to the ranked batch, where metrics read it.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_rankeval.ranking.ragged import Array, BoolArray

#: No label has a larger weight: squares of these still add up exactly.
LARGEST_WEIGHT = 2.0**100


@dataclass(frozen=True)
class LabelColumn:
    """A number beside the grade of a label.

    Attributes:
        name: of the option, and in messages.
        wrong: the values that it cannot have, as words, a comparison and a bound, for arrays and Spark's columns. Null
            and NaN are always wrong.
    """

    name: str
    wrong: tuple[tuple[str, Callable[[Any, Any], Any], float], ...]

    def is_wrong(self, values: Array) -> BoolArray:
        """Which values it cannot have; bool, shape of `values`."""
        wrong: BoolArray = np.isnan(values)
        for _, compare, bound in self.wrong:
            wrong |= compare(values, bound)
        return wrong


LABEL_COLUMNS = {
    "weight": LabelColumn(
        "weight",
        (
            ("negative weight", operator.lt, 0.0),
            ("weight of 0", operator.eq, 0.0),
            ("infinite weight", operator.eq, math.inf),
            ("weight above 2^100", operator.gt, LARGEST_WEIGHT),
        ),
    ),
}
