"""Which users an evaluation is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from spark_rankeval.ranking.batch import RankingBatch
    from spark_rankeval.ranking.ragged import BoolArray, IntArray


@dataclass(frozen=True)
class Population:
    """Which users an evaluation is about; others have no value, as if undefined.

    Attributes:
        absent_from_labels: users without a label: undefined as the metrics say, or left out.
        without_predictions: users without predictions: counted as the metrics say, or left out.
    """

    absent_from_labels: Literal["undefined", "left_out"] = "undefined"
    without_predictions: Literal["counted", "left_out"] = "counted"

    def includes(self, batch: RankingBatch, unjudged: IntArray | None = None) -> BoolArray:
        """Whether it is about each user of a batch; bool (n_users,). `unjudged`: how many predictions each list lost before."""
        included = np.ones(batch.n_users, np.bool_)
        if self.absent_from_labels == "left_out":
            included &= batch.labels.lengths > 0
        if self.without_predictions == "left_out":
            included &= batch.n_predictions + (0 if unjudged is None else unjudged) > 0
        return included


#: By the names that callers use.
POPULATIONS = {
    "every": Population(),
    "labelled": Population(absent_from_labels="left_out"),
    "predicted": Population(without_predictions="left_out"),
    "both": Population(absent_from_labels="left_out", without_predictions="left_out"),
}
