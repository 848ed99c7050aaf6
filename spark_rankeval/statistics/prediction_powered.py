"""The mean under human grades, from few of them and many by a model: prediction-powered inference.

Source: Angelopoulos, Duchi and Zrnic, PPI++, 2023. The estimate is the human mean plus λ times the model's mean of other queries less
that of the graded ones: θ = mean_n(y) + λ (mean_N(f) − mean_n(f)). It is right whatever the model is, and more precise if the model
agrees with people. A query whose value is undefined does not count, so the mean is a ratio. θ solves
mean_n(d(y − θ)) + λ (mean_N(e(f − θ)) − mean_n(e(f − θ))) = 0.

The N queries without human grades and the n graded ones are all M queries. For equal weights mean_N(f) − mean_n(f) is M/N times
mean_M(f) − mean_n(f). That form is computed. It is also right for weights, because an unequal draw leaves no sample of all queries
(Särndal, Swensson and Wretman 1992, chapter 6).

Few graded queries need care, as docs/evidence/prediction_powered.md shows:

- That λ is estimated costs a degree of freedom.
- If few residuals make most of the variance, it has fewer degrees of freedom.
- Queries that stand for many count as few: by Kish's effective number over weights and strata, or by that of clusters.
- The variance is no less than if `_LEAST_DEVIATIONS` of these disagreed as far as human values, or what is left of them, are apart.
- If either judge has too few different values, or the model makes the interval longer, people alone count (λ = 0).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from spark_rankeval.checks import is_number
from spark_rankeval.errors import OptionError
from spark_rankeval.statistics.distributions import clopper_pearson_interval, t_critical
from spark_rankeval.statistics.drawn_clusters import DrawnSums
from spark_rankeval.statistics.intervals import (
    CLOPPER_PEARSON,
    UNBOUNDED,
    UNKNOWN_MEAN,
    Interval,
    T,
    checked_level,
    interval_without_spread,
)
from spark_rankeval.statistics.judged_clusters import ClusteredSums
from spark_rankeval.statistics.judged_moments import EXCESSIVE, OTHERS_E, OTHERS_F, OTHERS_FF, JudgedMoments
from spark_rankeval.statistics.judged_samples import (
    NEARLY_NOTHING,
    ONE,
    ZERO,
    D,
    Sample,
    Y,
    deviation_forms,
    residual_form,
    sample_of,
)

# Rounding may move a mean so far beyond a bound.
_ROUNDING = 2.0**-40
#: With fewer graded queries it is too uncertain how much the model's grades should count.
LEAST_GRADED = 20
# One query has no degree of freedom, and nothing is divided by 0.
_LEAST_DF = 1e-9
# Spread is carried by at least so many graded queries, or a judge's values say too little.
_LEAST_DEVIATIONS_OF_JUDGE = 5
# Disagreement counts as if at least so many graded queries had it.
_LEAST_DEVIATIONS = 4
#: The degrees of freedom of `rare_variance`.
RARE_DF = 2.0 * _LEAST_DEVIATIONS


@dataclass(frozen=True)
class MeanEstimate:
    """A mean by one judge alone.

    Attributes:
        value: the mean over queries with a value, weighted if queries were drawn with unequal probabilities; NaN without any.
        standard_error: of the value; NaN for fewer than two queries.
        df: the degrees of freedom of the standard error.
        interval: as in `evaluate`, but longer if few queries carry the spread.
        n: how many queries have a value.
        interval_error: the error behind the interval: the standard error, and what the estimate of λ adds.
        equal_n: how many queries that were drawn alike would do as well (Kish 1965); NaN if there is no mean.
    """

    value: float
    standard_error: float
    df: float
    interval: Interval
    n: int
    interval_error: float = math.nan
    equal_n: float = math.nan


@dataclass(frozen=True)
class JudgedEstimate:
    """The mean under human grades, estimated from both judges.

    Attributes:
        value: the estimate, within the bounds of the metric.
        interval: the interval of the value; if there is none, its `reason` says why.
        standard_error: of the value. Its square is var_n(y − λf)/n + λ² var_N(f)/N, but no less than rare disagreement may hide.
        df: the degrees of freedom of the interval.
        lambda_: how much the model's grades count, from 0 (not at all) to 1.
        n_graded: queries with human grades; `n_others` have only the model's.
        human: the mean by people alone.
        judge: the mean by the model alone, over all queries.
        effective_n: how many graded queries would make `human` as precise: n_graded times its variance ÷ that of the value.
        note: why the model does not count; empty if it does, or if λ = 0 is best.
        interval_error: the error behind the interval: the standard error, and what the estimate of λ adds.
    """

    value: float
    interval: Interval
    standard_error: float
    df: float
    lambda_: float
    n_graded: int
    n_others: int
    human: MeanEstimate
    judge: MeanEstimate
    effective_n: float
    note: str = ""
    interval_error: float = math.nan

    @property
    def gain(self) -> float:
        """`effective_n` ÷ `n_graded`: how many times as many graded queries would do as well without the model."""
        return self.effective_n / self.n_graded if self.n_graded else math.nan


class _Variance(NamedTuple):
    """The variance of an estimate: what graded queries add to it, and the others."""

    graded: float
    others: float
    base_df: float  # of the graded queries, by their number
    kurtosis_df: float  # the same by how their values are distributed
    others_df: float
    shared: float = 0.0  # what clusters with queries of both kinds add, which may be negative
    most_df: float = math.inf  # of the whole

    @property
    def total(self) -> float:
        return max(self.graded + self.others + self.shared, 0.0)

    def with_fewer_df(self, n_fitted: int) -> _Variance:
        """The same if so many parameters were fitted to the graded queries."""
        df = self.base_df - n_fitted
        return self._replace(graded=self.graded * self.base_df / df, base_df=df)

    @property
    def df(self) -> float:
        """Satterthwaite's degrees of freedom, rounded down so that many slices need few quantiles of t."""
        graded_df = min(self.base_df, self.kurtosis_df)
        parts = ((self.graded, graded_df), (self.others, self.others_df))
        apart = self.graded + self.others
        shares = [(part / apart) ** 2 / max(df, _LEAST_DF) for part, df in parts if part]
        # The sum may be off by a bit.
        df = min((1 + _ROUNDING) / sum(shares), self.most_df) if shares else graded_df
        return float(math.floor(df)) if df >= 10 else math.floor(10 * df) / 10


def judged_estimate(
    moments: JudgedMoments,
    level: float = 0.95,
    lambda_: float | None = None,
    bounds: tuple[float, float] = UNBOUNDED,
) -> JudgedEstimate:
    """The mean under human grades, estimated from both judges.

    Args:
        moments: the sums of all queries.
        level: the share of intervals that hold the mean.
        lambda_: how much the model's values count, from 0 to 1; default: what makes the variance smallest.
        bounds: the least and the largest value of the metric, or of its difference; default: it has none.

    Raises:
        OptionError: The level or `lambda_` is out of range.

    Examples:
        >>> human = [1.0, 0.0, 0.5, 1.0, 0.0, 0.5, 1.0, 0.0] * 5 + [float("nan")] * 960
        >>> judge = [0.9, 0.1, 0.4, 0.9, 0.3, 0.5, 0.8, 0.2] * 125
        >>> moments = JudgedMoments.from_values(human, judge, [True] * 40 + [False] * 960)
        >>> estimate = judged_estimate(moments, bounds=(0, 1))
        >>> round(estimate.value, 3), round(estimate.lambda_, 2), estimate.gain > 5
        (0.5, 1.0, True)
    """
    checked_level(level)
    if lambda_ is not None and not (is_number(lambda_) and 0 <= lambda_ <= 1):
        raise OptionError(f"lambda_ must be a number from 0 to 1, or None; got {lambda_!r}")
    judge = _by_judge(moments, level, bounds)
    sample, problem = sample_of(moments)
    if sample is None:
        missing = Interval.missing(level, T, problem)
        nothing = MeanEstimate(math.nan, math.nan, math.nan, missing, 0)
        counts = (moments.n_graded, moments.n_others)
        return JudgedEstimate(math.nan, missing, math.nan, math.nan, math.nan, *counts, nothing, judge, math.nan)
    estimator = _Estimator(sample, level, bounds, problem)
    human = estimator.human
    weight, note = (ZERO, "") if problem else estimator.best_weight() if lambda_ is None else (Fraction(lambda_), "")
    if 2 * sample.denominator(weight) < sample.d:
        weight, note = ZERO, "by the model, far more graded users than others have a value"
    best = estimator.with_weight(weight, is_estimated=lambda_ is None) if weight else human
    # An interval may be short because a bound of the metric cuts it off.
    is_better = best.standard_error <= human.standard_error and _width(best.interval) <= _width(human.interval)
    if lambda_ is None and weight and not is_better:
        weight, best, note = ZERO, human, "the model's grades would make the interval longer"
    ratio = (human.standard_error / best.standard_error) ** 2 if weight else 1.0
    return JudgedEstimate(
        best.value,
        best.interval,
        best.standard_error,
        best.df,
        float(weight),
        moments.n_graded,
        moments.n_others,
        human,
        judge,
        moments.n_graded * ratio,
        note,
        best.interval_error,
    )


def _width(interval: Interval) -> float:
    return interval.high - interval.low


def _by_judge(moments: JudgedMoments, level: float, bounds: tuple[float, float]) -> MeanEstimate:
    """The mean by the model alone."""
    strata = moments.strata.values()
    e, f, ff = (
        sum((sums.get(name, ZERO) + sums.get(other, ZERO) for sums in strata), ZERO)
        for name, other in (("e", OTHERS_E), ("f", OTHERS_F), ("ff", OTHERS_FF))
    )
    if not e or moments.count(EXCESSIVE):
        reason = UNKNOWN_MEAN if e else "no user has a value by the model"
        return MeanEstimate(math.nan, math.nan, math.nan, Interval.missing(level, T, reason), int(e), equal_n=float(e))
    mean, n = f / e, int(e)
    bounds = _valid_bounds(bounds, mean)
    clusters = moments.clustered
    if clusters is not None:
        problem, df = clusters.problem or clusters.judge.problem, clusters.judge.df
        error = math.nan if problem else clusters.error_of_judge(Fraction(float(mean)))
        interval = Interval.missing(level, T, problem)
        if not problem:
            n_equal = clusters.judge.effective_n
            interval = _interval(float(mean), error, df, n, level, bounds, 0.0 if f == ff else None, n_equal)
        return MeanEstimate(float(mean), error, df, interval, n, equal_n=float(n))
    error = math.sqrt((ff - f * mean) / (e * (e - 1))) if n > 1 else math.nan
    share_n = float(n) if f == ff else None
    interval = _interval(float(mean), error, n - 1, n, level, bounds, share_n)
    return MeanEstimate(float(mean), error, n - 1, interval, n, equal_n=float(n))


def _valid_bounds(bounds: tuple[float, float], mean: Fraction) -> tuple[float, float]:
    """The bounds, unless the mean of values breaks them."""
    return bounds if bounds[0] - _ROUNDING <= mean <= bounds[1] + _ROUNDING else UNBOUNDED


def _interval(
    value: float,
    error: float,
    df: float,
    n: float,
    level: float,
    bounds: tuple[float, float],
    share_n: float | None = None,
    n_equal: float | None = None,
    most_n: float = math.inf,
) -> Interval:
    """The interval of a mean; `share_n` is there if all values are 0 or 1: of how many queries the mean is a share.

    A `share_n` of 0 means that the number follows from the error, as in `intervals.adjusted_interval` (Korn and Graubard 1998).
    It is then at most `most_n`. `n_equal` is how many equal clusters there are, if queries come in these.
    """
    if not df >= 1:
        return Interval.missing(level, T, "one user has no spread")
    value = min(max(value, bounds[0]), bounds[1])
    if error == 0 or (share_n is not None and value in bounds and bounds == (0, 1)):
        return interval_without_spread(value, n if n_equal is None else n_equal, level, bounds)
    half_width = t_critical(level, df) * error
    if share_n is None or bounds != (0, 1):
        return Interval(value - half_width, value + half_width, level, T).within(bounds)
    equal_n = share_n or min(value * (1 - value) * (t_critical(level, n - 1) / half_width) ** 2, most_n)
    return Interval(*clopper_pearson_interval(value * equal_n, equal_n, level), level, CLOPPER_PEARSON)


def rare_variance(square: float, n: float) -> float:
    """The variance of a mean of n queries if a few disagree by the root of `square`, and all others agree."""
    return _LEAST_DEVIATIONS * square / (n * max(n - 1, 1))


def _too_few(graded: str, n: float, least: int) -> str:
    """Why the model does not count: behind the colon are the numbers of this figure."""
    return f"too few graded {graded}: as good as {math.floor(10 * n) / 10:g}, and {least} are needed"


class _Estimator:
    """The estimates of a sample, for each weight of the model's values."""

    def __init__(self, sample: Sample, level: float, bounds: tuple[float, float], problem: str) -> None:
        self._sample, self._level, self._problem = sample, level, problem
        value = sample.value(ZERO)
        self._bounds = _valid_bounds(bounds, value)
        # A few digits less keep fractions short.
        self._theta = Fraction(float(value))
        self._n = int(sample.total(D))
        self._are_shares = self._bounds == (0, 1) and sample.total(Y) == sample.total(Y * Y)
        self._parts = sample.parts(self._theta)
        self._deviations = [sample.deviations(form) for form in deviation_forms(self._theta)]
        self._effective_n = sample.effective_n
        self._equal_share = self._effective_n / self._n
        self._clusters = sample.clusters
        self.human = self.with_weight(ZERO, is_estimated=False)

    def best_weight(self) -> tuple[Fraction, str]:
        """The weight λ with the smallest variance, and why it is 0 if there are too few different values."""
        for deviations, judge in zip(self._deviations, ("human", "model's"), strict=True):
            if (n := deviations.n_large * self._equal_share) < _LEAST_DEVIATIONS_OF_JUDGE:
                return ZERO, _too_few(f"users carry the spread of their {judge} values", n, _LEAST_DEVIATIONS_OF_JUDGE)
        if (n := self._graded_df(self._theta, ZERO) + 1) < LEAST_GRADED:
            return ZERO, _too_few("users" if self._clusters is None else "clusters of users", n, LEAST_GRADED)
        if self._clusters is not None:
            return self._best_of_clusters(self._clusters)
        if not self._parts.pooled:
            return ZERO, "no user has only the model's grades" if self._sample.size == self._sample.n else ""
        best = self._parts.covariance / self._parts.pooled
        return Fraction(float(min(max(best, ZERO), ONE))), ""

    def _best_of_clusters(self, clusters: ClusteredSums | DrawnSums) -> tuple[Fraction, str]:
        best = clusters.best_weight(self._theta)
        if not clusters.has_others or math.isnan(best):
            return ZERO, "too few clusters have users with only the model's grades"
        return Fraction(min(max(best, 0.0), 1.0)), ""

    def with_weight(self, weight: Fraction, *, is_estimated: bool) -> MeanEstimate:
        """The estimate with a weight λ, which was estimated from the same queries or not."""
        value, denominator = self._sample.value(weight), float(self._sample.denominator(weight))
        if self._clusters is not None and self._clusters.problem:
            missing = Interval.missing(self._level, T, self._problem)
            return MeanEstimate(float(value), math.nan, math.nan, missing, self._n, equal_n=self._effective_n)
        variance = self._variance(Fraction(float(value)), weight)
        error = math.sqrt(variance.total) / denominator
        # That λ fits the graded queries costs a degree of freedom.
        cautious = variance.with_fewer_df(1) if is_estimated and variance.base_df > 1 else variance
        wide_error, df = math.sqrt(cautious.total) / denominator, cautious.df
        if self._problem:
            interval = Interval.missing(self._level, T, self._problem)
        else:
            clusters = self._clusters
            is_exact = not weight and len(self._sample.strata) == 1 and self._equal_share == 1 and clusters is None
            share_n = (float(self._n) if is_exact else 0.0) if self._are_shares else None
            n_equal = None if clusters is None else clusters.human.effective_n
            most_n = math.inf if weight else self._effective_n
            interval = _interval(
                float(value), wide_error, df, self._effective_n, self._level, self._bounds, share_n, n_equal, most_n
            )
        least, greatest = self._bounds
        within = min(max(float(value), least), greatest)
        return MeanEstimate(within, error, df, interval, self._n, wide_error, self._effective_n)

    def _variance(self, theta: Fraction, weight: Fraction) -> _Variance:
        """The variance of the numerator of an estimate; if disagreement is rare in the graded queries, as if a few had it."""
        sample, parts, clusters = self._sample, self._sample.parts(theta), self._clusters
        graded = float(parts.human - 2 * weight * parts.covariance + weight**2 * parts.judge)
        others, shared = float(weight**2 * parts.others + sample.between(theta, weight)), 0.0
        others_df, most_df = float(sample.size) - 1, math.inf
        if clusters is not None:
            graded, others, shared = clusters.variance(theta, weight)
            # Of too few clusters of other queries no degrees of freedom are known.
            others_df = clusters.others.df if clusters.has_others else 0.0
            most_df = max(clusters.human.df, others_df)
        base_df, kurtosis_df = self._graded_df(theta, weight), math.inf
        human = self._deviations[0]
        if not weight and human.squares <= sample.total(Y * Y) * NEARLY_NOTHING**2:
            # Weights times equal values are rounded.
            graded = others = shared = 0.0
        residual = sample.deviations(residual_form(theta, weight)) if weight else human
        # Disagreement that the graded queries do not hold may be as large as any difference between queries.
        square = max(human.large_square, residual.large_square)
        n = self._effective_n if clusters is None or not weight else clusters.human.effective_n
        least = rare_variance(float(square * sample.d**2), n)
        if graded < least and (weight or not self._are_shares):
            graded, kurtosis_df = least, RARE_DF
        elif weight:
            kurtosis_df = residual.df * self._equal_share
        return _Variance(max(graded, 0.0), others, base_df, kurtosis_df, others_df, shared, most_df)

    def _graded_df(self, theta: Fraction, weight: Fraction) -> float:
        """The degrees of freedom of the graded queries' part of the variance (Satterthwaite over the strata)."""
        strata = self._sample.strata
        if self._clusters is not None:
            return self._clusters.human.df
        if len(strata) == 1:
            return strata[0].df
        variances = []
        for stratum in strata:
            parts = stratum.parts(theta).scaled(stratum.share, stratum.scale)
            variances.append(float(parts.human - 2 * weight * parts.covariance + weight**2 * parts.judge))
        total = sum(variances)
        if not total > 0:
            return self._effective_n - 1
        # A stratum with little of the variance may have few degrees of freedom.
        shares = zip(variances, strata, strict=True)
        df = 1 / sum((variance / total) ** 2 / max(stratum.df, _LEAST_DF) for variance, stratum in shares)
        return min(df, self._effective_n - 1)
