"""Groups of users from their values, as the package's statistics see them."""

import numpy as np

from spark_rankeval.statistics.groups import Group
from spark_rankeval.statistics.intervals import UNBOUNDED
from spark_rankeval.statistics.means import MeanAccumulator, mean_of
from spark_rankeval.statistics.moments import MomentsAccumulator, moments_of

SHARE = (0.0, 1.0)


def group(values, bounds=UNBOUNDED, name="group", weights=None):
    values = np.asarray(values, float)
    moments, means = MomentsAccumulator(1), MeanAccumulator(1, weighted=True)
    moments.add(0, values)
    means.add(0, values, np.ones(len(values)) if weights is None else np.asarray(weights, float))
    fields = ({name: each[0] for name, each in state.state().items()} for state in (moments, means))
    figures, weighted = moments_of(next(fields)), mean_of(next(fields))
    return Group(name, figures, None if weights is None else weighted, bounds)
