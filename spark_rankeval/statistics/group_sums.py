"""What is added up of a group of users, so that it can be compared with groups of other users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spark_rankeval.statistics.covariates import CovariateAccumulator, CovariateSums, covariate_sums_of
from spark_rankeval.statistics.description import as_known
from spark_rankeval.statistics.groups import Group
from spark_rankeval.statistics.intervals import UNBOUNDED
from spark_rankeval.statistics.means import MeanAccumulator, mean_of
from spark_rankeval.statistics.moments import MomentsAccumulator, State, moments_of, with_prefix

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_rankeval.statistics.moments import Array

_VALUE, _MEAN, _COVARIATE = "value", "mean", "covariate"
#: The count of users whose weight is negative, NaN or infinite, in a state of users with weights.
INVALID_WEIGHTS = f"{_MEAN}_n_invalid_weights"


class GroupAccumulator:
    """The sums of several columns of a group, for users that come batch by batch."""

    def __init__(self, n_columns: int, *, weighted: bool = False, covariate: bool = False) -> None:
        self._moments = MomentsAccumulator(n_columns)
        self._means = MeanAccumulator(n_columns, weighted=True) if weighted else None
        self._covariate = CovariateAccumulator(n_columns, weighted=weighted) if covariate else None

    def add(self, values: Array, weights: Array | None = None, covariate: Array | None = None) -> None:
        """Add users: their values, columns × users (NaN: undefined), and their weights and covariate if there are any."""
        counts = np.ones(values.shape[1], np.bool_) if weights is None else (weights > 0) & np.isfinite(weights)
        for column, of_column in enumerate(values):
            self._moments.add(column, of_column[counts])
            if self._means is not None and weights is not None:
                self._means.add(column, of_column, weights)
            if self._covariate is not None and covariate is not None:
                self._covariate.add(column, of_column, covariate, weights)

    def state(self) -> State:
        """The state so far: arrays whose first axis is the columns."""
        parts = {_VALUE: self._moments, _MEAN: self._means, _COVARIATE: self._covariate}
        return {
            f"{prefix}_{name}": entries
            for prefix, part in parts.items()
            if part is not None
            for name, entries in part.state().items()
        }


def group_of(
    state: Mapping[str, Any], name: str, bounds: tuple[float, float] = UNBOUNDED
) -> tuple[Group, CovariateSums | None]:
    """The group of one column, and the sums of its covariate, from one entry of each field of `GroupAccumulator.state`."""
    fields = dict(state)
    moments = moments_of(with_prefix(fields, _VALUE))
    mean, covariate = with_prefix(fields, _MEAN), with_prefix(fields, _COVARIATE)
    weighted = as_known(mean_of(mean), moments) if mean else None
    return Group(name, moments, weighted, bounds), covariate_sums_of(covariate) if covariate else None
