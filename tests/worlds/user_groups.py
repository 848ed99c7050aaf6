"""Groups of users from their values, as the package's statistics see them; Welch's test that allows for few users, from users."""

import math

import numpy as np
from scipy import stats

from spark_rankeval.statistics.exact import MeanAccumulator, MomentsAccumulator, mean_of, moments_of
from spark_rankeval.statistics.groups import Group
from spark_rankeval.statistics.intervals import UNBOUNDED

SHARE = (0.0, 1.0)


def group(values, bounds=UNBOUNDED, name="group", weights=None):
    values = np.asarray(values, float)
    moments, means = MomentsAccumulator(1), MeanAccumulator(1, weighted=True)
    moments.add(0, values)
    means.add(0, values, np.ones(len(values)) if weights is None else np.asarray(weights, float))
    fields = ({name: each[0] for name, each in state.state().items()} for state in (moments, means))
    figures, weighted = moments_of(next(fields)), mean_of(next(fields))
    return Group(name, figures, None if weights is None else weighted, bounds)


def cautious_welch(values, others, level=0.95):
    """The p-value, the degrees of freedom and the ends of Welch's interval, if a group of few users has the larger of both variances."""
    samples = [np.asarray(values, float), np.asarray(others, float)]
    width = max(map(np.max, samples)) - min(map(np.min, samples))
    own = [each.var(ddof=1) for each in samples]
    is_few = [len(each) < max(100, 30 * width**2 / spread) for each, spread in zip(samples, own, strict=True)]
    spreads = [max(own) if few else spread for few, spread in zip(is_few, own, strict=True)]
    variances = [spread / len(each) for spread, each in zip(spreads, samples, strict=True)]
    df = sum(variances) ** 2 / sum(v**2 / (len(each) - 1) for v, each in zip(variances, samples, strict=True))
    difference, error = samples[0].mean() - samples[1].mean(), math.sqrt(sum(variances))
    reach = stats.t.ppf((1 + level) / 2, df) * error
    return 2 * stats.t.sf(abs(difference) / error, df), df, (difference - reach, difference + reach)
