"""What difference a number of users can show."""

from __future__ import annotations

import math
from typing import NamedTuple

import pandas as pd

from spark_rankeval.checks import kind_of
from spark_rankeval.comparison.comparison_results import ModelComparison
from spark_rankeval.errors import InputError, UnknownMetricError, did_you_mean
from spark_rankeval.evaluation.result import Result
from spark_rankeval.metrics.base import Metric
from spark_rankeval.records.comparison_rows import rows_of_metric
from spark_rankeval.statistics.intervals import detectable_difference as smallest_difference


class _Spread(NamedTuple):
    metric: str
    model: str
    slice: str
    n_users: int
    std: float
    std_of: str
    n: int
    df: float
    mean: float


def detectable_difference(
    result: Result | ModelComparison, metric: str | Metric | None = None, *, power: float = 0.8, level: float = 0.95
) -> pd.DataFrame:
    """The smallest true difference between two models that a paired t test of these users would find.

    A comparison knows the standard deviation of the users' differences. A result of one model does not: that of its values
    replaces it, or of weighted users √n times the standard error. This is right for a second model whose values are equally
    spread and correlate with these by 1/2, and too large for a model that is more alike. The column ``std_of`` says which it is.
    If users come in clusters, n is the number of clusters, and the standard deviation √n times their standard error. Degrees of freedom
    are those of the interval.

    Examples:
        >>> detectable_difference(comparison)[["metric", "slice", "n_users", "std", "detectable_difference"]].round(3)
          metric       slice  n_users    std  detectable_difference
        0     rr         all        8  0.345                  0.399
        1     rr  country=DE        4  0.417                  0.887
        2     rr  country=FR        4  0.250                  0.532

    Args:
        result: of `evaluate`, `summarise` or `compare`.
        metric: a metric of the result; None: all.
        power: the probability of finding the difference, above 1 − level.
        level: 1 − α, α being the probability of finding a difference that does not exist; not corrected for several tests.

    Returns:
        a row a metric, model and slice: metric, model, slice, n_users, std, std_of (``values`` or ``differences``),
        detectable_difference in the metric's units, and relative, that ÷ the mean of the result or the baseline. NaN for
        fewer than two users, and for users without spread, who do not tell how far others lie apart.

    Raises:
        OptionError: the power or the level is not valid.
        InputError: `result` is not a result.
        UnknownMetricError: the result has no such metric.
    """
    if isinstance(result, Result):
        known = []
        for mean in result.summary:
            # Of weighted users and of clusters it is the spread that gives as many equal users the same standard error.
            n = mean.n_clusters if mean.cluster else mean.n_users
            std = mean.standard_error * math.sqrt(n) if mean.user_weight or mean.cluster else mean.std
            # A row that an earlier version stored has no degrees of freedom.
            df = n - 1 if math.isnan(mean.df) else mean.df
            known.append(_Spread(mean.key, mean.model, mean.slice, mean.n_users, std, "values", n, df, mean.mean))
    elif isinstance(result, ModelComparison):
        known = [
            _Spread(
                row.metric,
                row.model,
                row.slice,
                row.n_users,
                row.standard_error * math.sqrt(row.n_clusters) if row.cluster else row.std,
                "differences",
                row.n_clusters if row.cluster else row.n_users,
                row.df,
                row.baseline_mean,
            )
            for row in (*result.rows, *result.sliced)
        ]
    else:
        msg = f"detectable_difference needs a Result or a comparison; got a {kind_of(result)}"
        raise InputError(msg)
    if metric is not None:
        labels = list(dict.fromkeys(row.metric for row in known))
        known = rows_of_metric(known, metric)
        if not known:
            msg = f"there is no metric {str(metric)!r}; {did_you_mean(metric, labels)}available: {', '.join(labels)}"
            raise UnknownMetricError(msg)
    rows = []
    for row in known:
        difference = smallest_difference(row.std, row.n, level, power, row.df) if row.std else math.nan
        rows.append((*row[:-3], difference, difference / abs(row.mean) if row.mean else math.nan))
    return pd.DataFrame(rows, columns=[*_Spread._fields[:-3], "detectable_difference", "relative"])
