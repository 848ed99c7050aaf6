"""What several judges say: the mean under human grades from few of them and many by a model, and how far grades agree.

The estimate, its influences and their source are in `judged_queries`. It is right whatever the model is, and more precise if the model
agrees with people (prediction-powered inference). Here are its interval, the difference of two models, whether the graded queries look
drawn at random, and how many more an interval needs.

Few graded queries need care, as docs/evidence/simulated_judges.md shows:

- That λ is estimated costs a degree of freedom.
- If few residuals make most of the variance, it has fewer degrees of freedom.
- Queries that stand for many count as few: by Kish's effective number over weights and strata, or by that of clusters.
- The variance is no less than if `_LEAST_DEVIATIONS` of these disagreed as far as human values, or what is left of them, are apart.
- If either judge has too few different values, or the model makes the interval longer, people alone count (λ = 0).

Of agreement there are Cohen's kappas and Krippendorff's alpha, from counts of grades, with jackknife intervals by user. The grades of one
user's items are alike, so users are what is drawn, not items. Users fall into blocks by hash, and each figure is computed again without
each block. Counts are all that is needed for that, because every figure is a function of sums over users.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from spark_rankeval.checks import is_number
from spark_rankeval.errors import OptionError
from spark_rankeval.statistics import intervals, judged_queries
from spark_rankeval.statistics.description import N_BLOCKS, WithoutBlock, jackknife_interval
from spark_rankeval.statistics.distributions import clopper_pearson_interval, t_critical, t_sf
from spark_rankeval.statistics.intervals import JACKKNIFE, UNBOUNDED, Interval
from spark_rankeval.statistics.judged_queries import JudgedQueries, Sample, dot, sample_of, summed

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
# The degrees of freedom of the least variance.
_RARE_DF = 2.0 * _LEAST_DEVIATIONS
# Squares below this share of those of values are rounding.
_NEARLY_NO_SQUARE = 2.0**-92


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

    @classmethod
    def missing(cls, level: float, reason: str, n: int = 0, equal_n: float = math.nan) -> MeanEstimate:
        """No mean, and why there is none."""
        return cls(math.nan, math.nan, math.nan, Interval.missing(level, intervals.T, reason), n, equal_n=equal_n)


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
    """The variance of an estimate: what graded queries add to it, the others, and that both are of the same clusters."""

    graded: float
    others: float
    shared: float  # which may be negative
    base_df: float  # of the graded queries, by their number
    kurtosis_df: float  # the same by how their values are distributed
    others_df: float
    most_df: float  # of the whole

    @property
    def total(self) -> float:
        return max(self.graded + self.others + self.shared, 0.0)

    def with_fewer_df(self, n_fitted: int) -> _Variance:
        """This estimate if so many parameters were fitted to the graded queries."""
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
    queries: JudgedQueries,
    level: float = 0.95,
    lambda_: float | None = None,
    bounds: tuple[float, float] = UNBOUNDED,
) -> JudgedEstimate:
    """The mean under human grades, estimated from both judges.

    Args:
        queries: all queries.
        level: the share of intervals that hold the mean.
        lambda_: how much the model's values count, from 0 to 1; default: what makes the variance smallest.
        bounds: the least and the largest value of the metric, or of its difference; default: it has none.

    Examples:
        >>> human = [1.0, 0.0, 0.5, 1.0, 0.0, 0.5, 1.0, 0.0] * 5 + [float("nan")] * 960
        >>> judge = [0.9, 0.1, 0.4, 0.9, 0.3, 0.5, 0.8, 0.2] * 125
        >>> queries = JudgedQueries.from_values(human, judge, [True] * 40 + [False] * 960)
        >>> estimate = judged_estimate(queries, bounds=(0, 1))
        >>> round(estimate.value, 3), round(estimate.lambda_, 2), estimate.gain > 5
        (0.5, 1.0, True)
    """
    sample, problem = sample_of(queries)
    judge = _by_judge(queries, sample, level, bounds)
    if sample is None:
        nan, human, counts = math.nan, MeanEstimate.missing(level, problem), (queries.n_graded, queries.n_others)
        return JudgedEstimate(nan, human.interval, nan, nan, nan, *counts, human, judge, nan)
    estimator = _Estimator(sample, level, bounds, problem)
    human = estimator.human
    weight, note = (0.0, "") if problem else estimator.best_weight() if lambda_ is None else (float(lambda_), "")
    if 2 * sample.denominator(weight) < sample.denominator(0.0):
        weight, note = 0.0, "by the model, far more graded users than others have a value"
    best = estimator.with_weight(weight, is_estimated=lambda_ is None) if weight else human
    # An interval may be short because a bound of the metric cuts it off.
    is_better = best.standard_error <= human.standard_error and _width(best.interval) <= _width(human.interval)
    if lambda_ is None and weight and not is_better:
        weight, best, note = 0.0, human, "the model's grades would make the interval longer"
    ratio = (human.standard_error / best.standard_error) ** 2 if weight else 1.0
    return JudgedEstimate(
        best.value, best.interval, best.standard_error, best.df, weight, queries.n_graded, queries.n_others, human, judge,
        queries.n_graded * ratio, note, best.interval_error,
    )  # fmt: skip


def bias_of_judge(queries: JudgedQueries, level: float = 0.95, bounds: tuple[float, float] = UNBOUNDED) -> MeanEstimate:
    """The model's mean less people's, over the graded queries that have both values; of differences of two models, the same of these.

    It is a mean of queries as people's own is, with the same weights, strata and clusters. With fewer graded queries than `LEAST_GRADED`
    it has no interval.

    Args:
        queries: all queries.
        level: the share of intervals that hold the bias of all queries.
        bounds: the least and the largest value of the metric, or of its difference; default: it has none.

    Examples:
        >>> human, judge = [1.0, 0.0, 0.5, 1.0, 0.0] * 8, [0.9, 0.1, 0.6, 1.0, 0.4] * 8
        >>> bias = bias_of_judge(JudgedQueries.from_values(human, judge, [True] * 40), bounds=(0, 1))
        >>> round(bias.value, 3), round(bias.interval.low, 3), round(bias.interval.high, 3)
        (0.1, 0.046, 0.154)
    """
    sample, problem = sample_of(queries.biases)
    if sample is None:
        return MeanEstimate.missing(level, problem)
    reach = bounds[1] - bounds[0]
    return _Estimator(sample, level, (-reach, reach), problem or _too_few_graded(sample)).human


def _width(interval: Interval) -> float:
    return interval.high - interval.low


def _by_judge(queries: JudgedQueries, sample: Sample | None, level: float, bounds: tuple[float, float]) -> MeanEstimate:
    """The mean by the model alone."""
    model = judged_queries.by_model(queries)
    e, f, ff = model.sums
    n = int(e)
    if not n or queries.are_excessive:
        reason = intervals.UNKNOWN_MEAN if n else "no user has a value by the model"
        return MeanEstimate.missing(level, reason, n, float(n))
    mean = float(f / e)
    problem, df, share_n, n_equal = "", n - 1.0, float(n), None
    if queries.is_clustered:
        clusters = judged_queries.clusters_of(model.sizes)
        problem = ("" if sample is None else sample.problem_of_clusters) or clusters.problem
        df, share_n, n_equal = clusters.df, 0.0, clusters.effective_n
        error = math.nan if problem else model.standard_error(mean)
    else:
        error = math.sqrt(model.sums.spread(f / e, n, Fraction(0)) / (e * (e - 1))) if n > 1 else math.nan
    interval = Interval.missing(level, intervals.T, problem)
    if not problem:
        is_share = f == ff
        interval = _interval(
            mean, error, df, n, level, _valid_bounds(bounds, mean), share_n if is_share else None, n_equal
        )
    return MeanEstimate(mean, error, df, interval, n, equal_n=float(n))


def _valid_bounds(bounds: tuple[float, float], mean: float) -> tuple[float, float]:
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
        return Interval.missing(level, intervals.T, "one user has no spread")
    value = min(max(value, bounds[0]), bounds[1])
    if error == 0 or (share_n is not None and value in bounds and bounds == (0, 1)):
        return intervals.interval_without_spread(value, n if n_equal is None else n_equal, level, bounds)
    half_width = t_critical(level, df) * error
    if share_n is None or bounds != (0, 1):
        return Interval(value - half_width, value + half_width, level, intervals.T).within(bounds)
    equal_n = share_n or min(value * (1 - value) * (t_critical(level, n - 1) / half_width) ** 2, most_n)
    return Interval(*clopper_pearson_interval(value * equal_n, equal_n, level), level, intervals.CLOPPER_PEARSON)


def _rare_variance(square: float, n: float) -> float:
    """The variance of a mean of n queries if a few disagree by the root of `square`, and all others agree."""
    return _LEAST_DEVIATIONS * square / (n * max(n - 1, 1))


def _too_few(graded: str, n: float, least: int) -> str:
    """Why the model does not count: behind the colon are the numbers of this figure."""
    return f"too few graded {graded}: as good as {math.floor(10 * n * (1 + _ROUNDING)) / 10:g}, and {least} are needed"


def _too_few_graded(sample: Sample) -> str:
    """Why it is too uncertain how the model relates to people; empty if enough queries are graded."""
    n, units = sample.df(sample.value(0.0), 0.0) + 1, "clusters of users" if sample.is_clustered else "users"
    return _too_few(units, n, LEAST_GRADED) if n < LEAST_GRADED else ""


class _Estimator:
    """The estimates of a sample, for each weight of the model's values."""

    def __init__(self, sample: Sample, level: float, bounds: tuple[float, float], problem: str) -> None:
        self._sample, self._level, self._problem = sample, level, problem
        self._theta = sample.value(0.0)
        self._bounds = _valid_bounds(bounds, self._theta)
        self._are_shares = self._bounds == (0, 1) and bool((sample.y == sample.y**2).all())
        self._human = sample.deviations(self._theta, 0.0)
        self.human = self.with_weight(0.0, is_estimated=False)

    def best_weight(self) -> tuple[float, str]:
        """The weight λ with the smallest variance, and why it is 0 if there are too few different values."""
        sample = self._sample
        for deviations, judge in ((self._human, "human"), (sample.deviations(self._theta), "model's")):
            if (n := deviations.n_large * sample.equal_share) < _LEAST_DEVIATIONS_OF_JUDGE:
                return 0.0, _too_few(f"users carry the spread of their {judge} values", n, _LEAST_DEVIATIONS_OF_JUDGE)
        if few := _too_few_graded(sample):
            return 0.0, few
        best = sample.best_weight(self._theta)
        if sample.is_clustered and (not sample.df_of_others or math.isnan(best)):
            return 0.0, "too few clusters have users with only the model's grades"
        if math.isnan(best):
            return 0.0, "no user has only the model's grades" if sample.size == sample.n else ""
        return min(max(best, 0.0), 1.0), ""

    def with_weight(self, weight: float, *, is_estimated: bool) -> MeanEstimate:
        """The estimate with a weight λ, which was estimated from the same queries or not."""
        sample, n, n_equal = self._sample, self._sample.n_human, self._sample.effective_n
        value, missing = sample.value(weight), Interval.missing(self._level, intervals.T, self._problem)
        if sample.problem_of_clusters:
            return MeanEstimate(value, math.nan, math.nan, missing, n, equal_n=n_equal)
        variance = self._variance(value, weight)
        error = math.sqrt(variance.total) / sample.denominator(weight)
        # That λ fits the graded queries costs a degree of freedom.
        cautious = variance.with_fewer_df(1) if is_estimated and variance.base_df > 1 else variance
        wide_error, df = math.sqrt(cautious.total) / sample.denominator(weight), cautious.df
        interval = missing
        if not self._problem:
            is_exact = not weight and len(sample.names) == 1 and sample.equal_share == 1 and not sample.is_clustered
            interval = _interval(
                value, wide_error, df, n_equal, self._level, self._bounds,
                (float(n) if is_exact else 0.0) if self._are_shares else None,
                sample.people.effective_n if sample.is_clustered else None, math.inf if weight else n_equal,
            )  # fmt: skip
        least, greatest = self._bounds
        return MeanEstimate(min(max(value, least), greatest), error, df, interval, n, wide_error, n_equal)

    def _variance(self, theta: float, weight: float) -> _Variance:
        """The variance of the numerator of an estimate; if disagreement is rare in the graded queries, as if a few had it."""
        sample, kurtosis_df = self._sample, math.inf
        graded, others, shared = sample.variance(theta, weight)
        if not weight and not self._human.squares:
            # Weights times equal values are rounded.
            graded = others = shared = 0.0
        residual = sample.deviations(theta, weight) if weight else self._human
        # Disagreement that the graded queries do not hold may be as large as any difference between queries.
        square = max(self._human.large_square, residual.large_square) * sample.denominator(0.0) ** 2
        least = _rare_variance(
            square, sample.people.effective_n if sample.is_clustered and weight else sample.effective_n
        )
        if graded < least and (weight or not self._are_shares):
            graded, kurtosis_df = least, _RARE_DF
        elif weight:
            kurtosis_df = residual.df * sample.equal_share
        base_df, others_df = sample.df(theta, weight), sample.df_of_others
        most_df = max(base_df, others_df) if sample.is_clustered else math.inf
        return _Variance(graded, others, shared, base_df, kurtosis_df, others_df, most_df)


class DrawCheck(NamedTuple):
    """Whether the graded queries look like all queries, by the model's values.

    Attributes:
        graded_mean: of the graded queries, with their weights and strata.
        all_mean: of all queries.
        difference: `graded_mean` less `all_mean`.
        standard_error: of the difference if the queries were drawn at random.
        df: its degrees of freedom (Satterthwaite).
        p: the two-sided p-value; for equal weights that of Welch's test of graded and other queries.
    """

    graded_mean: float
    all_mean: float
    difference: float
    standard_error: float
    df: float
    p: float


class LabelsNeeded(NamedTuple):
    """How many graded queries, or clusters of them, make an interval of a width.

    Attributes:
        with_judge: with the model's values of the queries that there are; None if not even all of them are enough. With those of as many
            queries a cluster as there are, if queries come in clusters.
        by_hand: by people alone; may be more than there are. None beyond 2⁶⁰.
    """

    with_judge: int | None
    by_hand: int | None


def draw_check(queries: JudgedQueries) -> DrawCheck | None:
    """Whether the graded queries look drawn at random, by the model's values; None if too few have one, or all are equal.

    Examples:
        >>> queries = JudgedQueries.from_values([1.0] * 4 + [0.0] * 4, [0.8, 0.9, 1.0, 0.7, 0.1, 0.2, 0.3, 0.0], [True] * 4 + [False] * 4)
        >>> round(draw_check(queries).p, 4)
        0.0003
    """
    sample, problem = sample_of(queries)
    if sample is None:
        return None
    counts = sample.by_stratum(sample.e), sample.n_others
    if (np.minimum(*counts) < 2).any() or (sample.is_clustered and (problem or not sample.df_of_others)):
        return None
    e, f = (dot(sample.share, sample.mean_of_all(name)) for name in "ef")
    theta = f / e
    if sample.is_clustered:
        _, judge, others = sample.influences(theta)
        moved = summed(sample.c, judge, sample.n_units), summed(sample.c_others, others, sample.n_units)
        parts, shared = [dot(each, each) for each in moved], -2 * dot(*moved)
        dfs = sample.people.df, sample.df_of_others
        most_df = max(dfs)
    else:
        parts, shared = [*sample.variances_of_draw(theta)], 0.0
        dfs, most_df = (float((counts[0] - 1).sum()), float((counts[1] - 1).sum())), math.inf
    apart, variance = sum(parts), max(sum(parts) + shared, 0.0)
    if not variance:
        return None
    df = min(apart**2 / sum(part**2 / each for part, each in zip(parts, dfs, strict=True)), most_df)
    error, graded_mean = math.sqrt(variance) / e, sample.mean_by_model
    p = min(1.0, 2 * t_sf(abs(graded_mean - theta) / error, df))
    return DrawCheck(graded_mean, theta, graded_mean - theta, error, df, p)


def labels_needed(queries: JudgedQueries, width: float, level: float = 0.95) -> LabelsNeeded | None:
    """How many graded queries make an interval of this width, from the variances of those that there are; None if these are unknown.

    More graded queries are drawn like those that there are. The queries in all stay as many as they are. If queries come in clusters,
    these are counted: more of them, which have as many graded and other queries as those that there are.

    Examples:
        >>> human, judge = [1.0, 0.0, 0.5, 1.0, 0.0] * 8, [0.9, 0.1, 0.4, 0.9, 0.3] * 200
        >>> queries = JudgedQueries.from_values(human + [float("nan")] * 960, judge, [True] * 40 + [False] * 960)
        >>> labels_needed(queries, 0.1)
        LabelsNeeded(with_judge=53, by_hand=318)
    """
    if not (is_number(width) and width > 0):
        raise OptionError(f"width must be a positive number; got {width!r}")
    sample, problem = sample_of(queries)
    if sample is None or problem:
        return None
    if sample.is_clustered:
        return _clusters_needed(queries, sample.people.n, width, level)
    theta = sample.value(0.0)
    human, covariance, judge, others, pooled = sample.parts(theta)
    n, size, share = sample.n, int(sample.size), sample.denominator(0.0)
    n_others = size - n
    pooled_graded = pooled * n_others / size
    large_square = sample.deviations(theta, 0.0).large_square * share**2

    def width_of(n_graded: int, *, uses_judge: bool) -> float:
        times, rest = n / n_graded, size - n_graded
        df = n_graded * share - 1
        variance, most_df = human * times, math.inf
        if uses_judge and rest > 0 and pooled and n_graded * share >= LEAST_GRADED:
            best = min(max(covariance * times / (pooled_graded * times * (1 + n_graded / rest)), 0.0), 1.0)
            if best:
                graded = max(variance - 2 * best * covariance * times + best**2 * judge * times, 0.0)
                # As of an estimate: disagreement that the graded queries do not hold may be as large as any difference.
                if graded < (least := _rare_variance(large_square, sample.effective_n / times)):
                    graded, most_df = least, _RARE_DF
                variance = graded * df / (df - 1) + best**2 * others * n_others / rest
                df = min(df - 1, most_df * (variance / graded) ** 2)
        # Few quantiles of t are computed for large numbers.
        df = math.floor(df) if df < 1000 else float(f"{df:.2g}")
        return 2 * t_critical(level, df) * math.sqrt(variance) / share if df >= 1 else math.inf

    with_judge = _smallest(lambda n_graded: width_of(n_graded, uses_judge=True) <= width, size)
    by_hand = _smallest(lambda n_graded: width_of(n_graded, uses_judge=False) <= width, 1 << 60)
    return LabelsNeeded(with_judge, by_hand)


def _clusters_needed(queries: JudgedQueries, n: int, width: float, level: float) -> LabelsNeeded:
    """The labels needed if n clusters have graded queries: more of them have variances, and degrees of freedom, in proportion."""
    estimate = judged_estimate(queries, level)

    def width_of(n_clusters: int, error: float, df: float) -> float:
        many = (df + 1) * n_clusters / n - 1
        many = math.floor(many) if many < 1000 else float(f"{many:.2g}")
        return 2 * t_critical(level, many) * error * math.sqrt(n / n_clusters) if many >= 1 else math.inf

    def needed(error: float, df: float) -> int | None:
        return _smallest(lambda n_clusters: width_of(n_clusters, error, df) <= width, 1 << 60)

    human = estimate.human
    return LabelsNeeded(needed(estimate.interval_error, estimate.df), needed(human.standard_error, human.df))


def _smallest(is_enough: Callable[[int], bool], most: int) -> int | None:
    """The smallest number from 2 to `most` that is enough, if larger ones are, too; None if there is none."""
    if most < 2 or not is_enough(most):
        return None
    low, high = 1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


class JudgedDifference:
    """A model against a baseline under human grades, estimated from both judges; attributes are as in `PairedComparison`.

    Attributes:
        differences: the users' differences by both judges.
        bounds: the least and the largest difference.
        estimate: the difference by both judges, and by each alone.
        mean: the model's mean, estimated from both judges; that of the difference is an estimate of its own.
        baseline_mean: the baseline's mean, estimated from both judges.
        wins: of users whom people graded: how often the model is better; `ties` as good; `losses` worse.
        n: how many users stand behind the difference: those with a difference by people, by the model or by both.
        clusters: those of users whom people graded, with the standard error of the difference; None if users are independent.
        error_of_users: the standard error of the difference if all users are independent.
        no_user_differs: whether no user has other values under the other model, by any judge.
    """

    # What is not known of two judges.
    p_sign_flip = std = cohens_d = math.nan

    def __init__(
        self,
        differences: JudgedQueries,
        values: JudgedQueries,
        baselines: JudgedQueries,
        n_undefined: int,
        signs: tuple[int, int, int],
        level: float = 0.95,
        bounds: tuple[float, float] = UNBOUNDED,
    ) -> None:
        self.differences, self.n_undefined, self.level = differences, n_undefined, level
        self.wins, self.ties, self.losses = signs
        self.bounds = bounds[0] - bounds[1], bounds[1] - bounds[0]
        estimate = self.estimate = judged_estimate(differences, level, bounds=self.bounds)
        self.difference, self.standard_error, self.df = estimate.value, estimate.standard_error, estimate.df
        self.mean, self.baseline_mean = (
            judged_estimate(each, level, bounds=bounds).value for each in (values, baselines)
        )
        self.n = differences.n_defined
        self.clusters = differences.clusters_of_people(estimate.standard_error)
        independent = judged_estimate(differences.independent, level, bounds=self.bounds)
        self.error_of_users = independent.standard_error
        # How many graded users, or clusters, of equal weight are as good as those that there are.
        self._independent_n = estimate.human.equal_n if self.clusters is None else self.clusters.effective_n
        errors = estimate.human.standard_error, estimate.judge.standard_error
        self.no_user_differs = not any((estimate.value, estimate.judge.value, *errors))
        self.relative_lift = (
            intervals.ratio(self.difference, abs(self.baseline_mean)) if self.baseline_mean else math.nan
        )
        self.interval, self.p_t = self.interval_at(level), self._p_t()

    def interval_at(self, level: float, margin: float = 0.0) -> Interval:
        """The interval at a level, whatever the margin."""
        estimate = (
            self.estimate if level == self.level else judged_estimate(self.differences, level, bounds=self.bounds)
        )
        interval = estimate.interval
        return interval._replace(method=intervals.PREDICTION_POWERED) if interval else interval

    def lift_at(self, level: float) -> intervals.Lift:
        """The lift, which has no interval."""
        return intervals.Lift(
            self.relative_lift, reason="two judges give the difference an interval, and not its ratio"
        )

    def _p_t(self) -> float:
        """The two-sided p-value of the t test of the estimate, with the error of its interval."""
        estimate = self.estimate
        if not estimate.interval:
            return math.nan
        if not estimate.interval_error:
            return 1.0 if not estimate.value else min(1.0, 2.0 ** (1 - self._independent_n))
        return min(1.0, 2 * t_sf(abs(estimate.value) / estimate.interval_error, estimate.df))

    def p_of(self, test: str, margin: float = 0.0, resolution: float = 0.0) -> tuple[float, str]:
        """The p-value of what a verdict would state, before correction, and what it is of; there is one test for two judges."""
        p = self.p_t
        if margin:
            beyond = self.p_beyond(margin)
            p = max(p, beyond) if abs(self.difference) > margin else beyond
        return p, intervals.PREDICTION_POWERED

    def p_beyond(self, margin: float) -> float:
        """The two-sided p-value that the difference is beyond ±margin, or within; see `PairedComparison.p_beyond`."""
        estimate, n = self.estimate, self._independent_n
        if math.isnan(self.p_t) or n < 2:
            return math.nan
        return intervals.p_beyond_margin(estimate.value, estimate.interval_error, estimate.df, n, margin, self.bounds)


Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]

#: Which grades are close to each other: see `alpha_of`.
Measurement = Literal["nominal", "ordinal", "interval"]
MEASUREMENTS: tuple[Measurement, ...] = ("nominal", "ordinal", "interval")
#: The bounds of raw agreement, and of figures that are corrected for chance.
SHARE, CORRECTED = (0.0, 1.0), (-1.0, 1.0)
_NO_ITEMS, _ONE_GRADE = "no item has a grade of both", "all grades are the same"
_NO_UNITS = "no item has the grades of two judges"


class Estimate(NamedTuple):
    """A figure of all users, NaN if it is undefined, with its standard error and interval."""

    value: float
    standard_error: float
    interval: Interval


@dataclass(frozen=True)
class PairFigures:
    """How far two judges agree on the items that both graded."""

    n_items: int
    n_users: int
    n_judge_only: int  # items that the first judge alone graded
    n_other_only: int
    mean: float  # of the first judge's grades
    other_mean: float
    agreement: Estimate
    kappa: Estimate
    linear_kappa: Estimate
    quadratic_kappa: Estimate
    confusion: tuple[tuple[int, ...], ...] = field(repr=False)  # items by the first judge's grade, then by the other's


@dataclass(frozen=True)
class GradeCounts:
    """How many items have each combination of grades, block by block.

    Attributes:
        grades: the grades of each combination; float64 (combinations, judges), NaN where a judge gave none.
        blocks: the block of users of each combination; below `N_BLOCKS`.
        n_items: how many items of the block have these grades.
        n_users: for each pair of judges, and last for any two, how many users have such an item; int64 (combinations, pairs + 1). Each
            user counts once in a block.
        scale: the distinct grades, ascending, of these combinations and maybe of others.
    """

    grades: Floats
    blocks: Ints
    n_items: Ints
    n_users: Ints
    scale: Floats

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of judges, in their order."""
        return pairs_of(self.grades.shape[1])

    @cached_property
    def _places(self) -> Ints:
        """The place of each grade on the scale."""
        return np.searchsorted(self.scale, self.grades).astype(np.int64)

    def part(self, rows: Ints) -> GradeCounts:
        """The combinations at some places."""
        return GradeCounts(self.grades[rows], self.blocks[rows], self.n_items[rows], self.n_users[rows], self.scale)

    def pair_figures(self, judge: int, other: int, level: float) -> PairFigures:
        """The figures of two judges."""
        cells = self._cells(judge, other, self.n_items)
        users = self._users(self.pairs.index((judge, other)))
        apart = np.abs(self.scale[:, None] - self.scale)
        table = cells.sum(axis=0)
        n = int(table.sum())

        def estimate(figure: Callable[[Floats], Floats], bounds: tuple[float, float]) -> Estimate:
            return _estimate(figure, cells, users, level, bounds, _ONE_GRADE if n else _NO_ITEMS)

        def kappa(distances: Floats) -> Estimate:
            return estimate(lambda counts: kappa_of(counts, distances), CORRECTED)

        n_judge_only, n_other_only = self._n_alone(judge, other), self._n_alone(other, judge)
        mean, other_mean = (_mean(self.scale, table.sum(axis=axis)) for axis in (1, 0))
        return PairFigures(
            n, int(users.sum()), n_judge_only, n_other_only, mean, other_mean, estimate(agreement_of, SHARE),
            kappa(np.sign(apart)), kappa(apart), kappa(apart**2), tuple(map(tuple, table.astype(np.int64).tolist())),
        )  # fmt: skip

    def alpha(self, level: float, measurement: Measurement) -> tuple[int, int, Estimate]:
        """How many items have two grades or more, how many users have these items, and Krippendorff's alpha of them."""
        n_grades = np.count_nonzero(~np.isnan(self.grades), axis=1)
        n_items = int(self.n_items[n_grades >= 2].sum())
        # A pair of grades counts 1/(m − 1) if an item has m, so each grade counts once. In these units sums are whole numbers.
        unit = math.lcm(*range(1, self.grades.shape[1]))
        shares = self.n_items * unit // np.maximum(n_grades - 1, 1)
        coincidences = np.sum([self._cells(*pair, shares) for pair in self.pairs], axis=0)
        coincidences = coincidences + np.swapaxes(coincidences, -1, -2)
        users = self._users(len(self.pairs))
        estimate = _estimate(
            lambda counts: alpha_of(counts / unit, self.scale, measurement), coincidences, users, level, CORRECTED,
            _ONE_GRADE if n_items else _NO_UNITS,
        )  # fmt: skip
        return n_items, int(users.sum()), estimate

    def _n_alone(self, judge: int, other: int) -> int:
        """How many items a judge graded and the other did not."""
        alone = ~np.isnan(self.grades[:, judge]) & np.isnan(self.grades[:, other])
        return int(self.n_items[alone].sum())

    def _cells(self, judge: int, other: int, amounts: Ints) -> Floats:
        """The amounts by block, by the judge's grade and by the other's."""
        cells = np.zeros((N_BLOCKS, len(self.scale), len(self.scale)))
        rows = ~np.isnan(self.grades[:, [judge, other]]).any(axis=1)
        places = self._places[rows]
        np.add.at(cells, (self.blocks[rows], places[:, judge], places[:, other]), amounts[rows])
        return cells

    def _users(self, pair: int) -> Ints:
        """The users by block."""
        users = np.zeros(N_BLOCKS, np.int64)
        np.add.at(users, self.blocks, self.n_users[:, pair])
        return users


def pairs_of(n_judges: int) -> list[tuple[int, int]]:
    """The pairs of judges by their places.

    >>> pairs_of(3)
    [(0, 1), (0, 2), (1, 2)]
    """
    return list(itertools.combinations(range(n_judges), 2))


def _mean(scale: Floats, counts: Floats) -> float:
    return float((scale * counts).sum() / counts.sum()) if counts.any() else math.nan


def _estimate(
    figure: Callable[[Floats], Floats], cells: Floats, users: Ints, level: float, bounds: tuple[float, float], why: str
) -> Estimate:
    """A figure of all counts; `why` is the reason if it is undefined."""
    total, has_users = cells.sum(axis=0), users > 0
    value = float(figure(total))
    if math.isnan(value):
        return Estimate(value, math.nan, Interval.missing(level, JACKKNIFE, why))
    values = figure(total - cells[has_users])
    left_out = list(map(WithoutBlock, values.tolist(), users[has_users].tolist()))
    error, interval = jackknife_interval(value, left_out, level, bounds, may_rest_on_few=True)
    return Estimate(value, error, interval)


def _ratio(part: Floats, whole: Floats) -> Floats:
    """NaN where the whole is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(whole > 0, part / whole, np.nan)


def _total(cells: Floats) -> Floats:
    return cells.sum(axis=(-2, -1))  # type: ignore[no-any-return] # numpy says so of axes


def agreement_of(cells: Floats) -> Floats:
    """The share of items with equal grades, of counts by the grades of two judges; float64 (…, grades, grades).

    >>> float(agreement_of(np.array([[3.0, 1.0], [0.0, 4.0]])))
    0.875
    """
    return _ratio(np.trace(cells, axis1=-2, axis2=-1), _total(cells))


def kappa_of(cells: Floats, distances: Floats) -> Floats:
    """Cohen's kappa, weighted by the distances between grades: 1 − observed ÷ expected distance.

    With r and c the sums of rows and columns, it is 1 − n·Σ n_ij·d_ij ÷ Σ r_i·c_j·d_ij. Distances of 1 are the plain kappa, |i − j| the
    linear one and (i − j)² the quadratic one. NaN if no distance is expected, as both judges give one grade.

    Source: Cohen, Psychological Bulletin 70, 1968.

    >>> float(kappa_of(np.array([[3.0, 1.0], [0.0, 4.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])))
    0.75
    """
    rows, columns = cells.sum(axis=-1), cells.sum(axis=-2)
    expected = _total(rows[..., :, None] * columns[..., None, :] * distances)
    return 1 - _ratio(_total(cells) * _total(cells * distances), expected)


def alpha_of(coincidences: Floats, scale: Floats, measurement: Measurement) -> Floats:
    """Krippendorff's alpha of how often grades meet on an item: 1 − (n − 1)·Σ o_ck·δ_ck ÷ Σ n_c·n_k·δ_ck.

    Nominal: δ is 1 between different grades. Interval: δ = (c − k)². Ordinal: δ is the square of how many grades lie from c to k, of both
    ends half of them. NaN if all grades are the same.

    Source: Krippendorff, Computing Krippendorff's alpha-reliability, 2011.

    >>> float(alpha_of(np.array([[6.0, 1.0], [1.0, 8.0]]), np.array([0.0, 1.0]), "nominal"))
    0.7619047619047619
    """
    counts = coincidences.sum(axis=-1)
    # On this line, the distance between two grades is that of the measurement.
    line: Floats = np.cumsum(counts, axis=-1) - counts / 2 if measurement == "ordinal" else scale
    distances = (line[..., :, None] - line[..., None, :]) ** 2
    if measurement == "nominal":
        distances = np.sign(distances)
    expected = _total(counts[..., :, None] * counts[..., None, :] * distances)
    return 1 - _ratio((counts.sum(axis=-1) - 1) * _total(coincidences * distances), expected)
