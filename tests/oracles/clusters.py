"""What the weights of clusters say of the precision of a mean, straight from the definition."""

import math

import numpy as np


def sizes_of(clusters, weights=None):
    """The sum of the weights of each cluster."""
    return np.bincount(np.unique(clusters, return_inverse=True)[1], weights)


def effective_n(sizes):
    """How many clusters of equal weight would do as well."""
    return sizes.sum() ** 2 / (sizes**2).sum()


def degrees_of_freedom(sizes):
    """√((Σm)³ / Σm³) − 1, rounded down: from 10 on to whole numbers, below to tenths."""
    df = math.sqrt(sizes.sum() ** 3 / (sizes**3).sum()) - 1 + 1e-9
    return math.floor(df) if df >= 10 else math.floor(df * 10) / 10


def correction(sizes):
    """What an error with the factor G/(G − 1), as statsmodels has it, is multiplied by: ours has g/(g − 1), g the effective number."""
    g, n = effective_n(sizes), len(sizes)
    return math.sqrt(g / (g - 1) * (n - 1) / n)


def precision_of(values, clusters, weights=None):
    """The mean of the values that are defined, its standard error, and the degrees of freedom: each cluster has a sum of residuals."""
    used = ~np.isnan(values)
    values, clusters, weights = values[used], clusters[used], np.ones(used.sum()) if weights is None else weights[used]
    sizes, mean = sizes_of(clusters, weights), np.average(values, weights=weights)
    g, rests = effective_n(sizes), sizes_of(clusters, weights * (values - mean))
    return mean, math.sqrt(g / (g - 1) * np.sum(rests**2)) / weights.sum(), degrees_of_freedom(sizes)
