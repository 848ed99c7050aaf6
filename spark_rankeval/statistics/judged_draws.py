"""The draw of the queries that people grade: does it look random, and how many queries does an interval need?"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from spark_rankeval.checks import is_number
from spark_rankeval.errors import OptionError
from spark_rankeval.statistics.distributions import t_critical, t_sf
from spark_rankeval.statistics.intervals import checked_level
from spark_rankeval.statistics.judged_moments import JudgedMoments
from spark_rankeval.statistics.judged_samples import ONE, ZERO, E, F, Sample, deviation_forms, sample_of
from spark_rankeval.statistics.prediction_powered import LEAST_GRADED, RARE_DF, judged_estimate, rare_variance


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


def draw_check(moments: JudgedMoments) -> DrawCheck | None:
    """Whether the graded queries look drawn at random, by the model's values; None if too few have one, or all are equal.

    Examples:
        >>> moments = JudgedMoments.from_values([1.0] * 4 + [0.0] * 4, [0.8, 0.9, 1.0, 0.7, 0.1, 0.2, 0.3, 0.0], [True] * 4 + [False] * 4)
        >>> round(draw_check(moments).p, 4)
        0.0003
    """
    sample, problem = sample_of(moments)
    if sample is None or not sample.e or any(s.total(E) < 2 or s.n_others < 2 for s in sample.strata):
        return None
    if sample.clusters is not None and (problem or not sample.clusters.has_others):
        return None
    e, f = (sum((s.share * s.all_mean(monomial) for s in sample.strata), ZERO) for monomial in (E, F))
    theta = Fraction(float(f / e))
    if sample.clusters is None:
        variance, df = _variance(sample, theta)
    else:
        variance, df = sample.clusters.variance_of_draw(theta, float(sample.strata[0].n_others / sample.size))
    if not variance:
        return None
    error, difference = math.sqrt(variance) / float(e), float(sample.f / sample.e - f / e)
    p = min(1.0, 2 * t_sf(abs(difference) / error, df))
    return DrawCheck(float(sample.f / sample.e), float(f / e), difference, error, df, p)


def _variance(sample: Sample, theta: Fraction) -> tuple[float, float]:
    """The variance of the model's mean of the graded queries less that of all, and its degrees of freedom (Satterthwaite)."""
    parts = [s.parts(theta, E).scaled(s.share, ONE) for s in sample.strata]
    graded, others = (float(sum(part)) for part in zip(*((p.judge, p.others) for p in parts), strict=True))
    graded_df, others_df = (
        float(sum(count - 1 for count in counts))
        for counts in zip(*((s.total(E), s.n_others) for s in sample.strata), strict=True)
    )
    variance = graded + others
    return variance, variance**2 / (graded**2 / graded_df + others**2 / others_df) if variance else math.nan


def labels_needed(moments: JudgedMoments, width: float, level: float = 0.95) -> LabelsNeeded | None:
    """How many graded queries make an interval of this width, from the variances of those that there are; None if these are unknown.

    More graded queries are drawn like those that there are. The queries in all stay as many as they are. If queries come in clusters,
    these are counted: more of them, which have as many graded and other queries as those that there are.

    Examples:
        >>> human, judge = [1.0, 0.0, 0.5, 1.0, 0.0] * 8, [0.9, 0.1, 0.4, 0.9, 0.3] * 200
        >>> moments = JudgedMoments.from_values(human + [float("nan")] * 960, judge, [True] * 40 + [False] * 960)
        >>> labels_needed(moments, 0.1)
        LabelsNeeded(with_judge=53, by_hand=318)
    """
    checked_level(level)
    if not (is_number(width) and width > 0):
        raise OptionError(f"width must be a positive number; got {width!r}")
    sample, problem = sample_of(moments)
    if sample is None or problem:
        return None
    if sample.clusters is not None:
        return _clusters_needed(moments, sample.clusters.human.n, width, level)
    theta = Fraction(float(sample.value(ZERO)))
    parts = sample.parts(theta)
    n, size, share = float(sample.n), int(sample.size), float(sample.d)
    human, covariance, judge, others, pooled = (float(part) for part in parts)
    n_others = size - n
    pooled_graded = pooled * n_others / size
    large_square = float(sample.deviations(deviation_forms(theta)[0]).large_square * sample.d**2)

    def width_of(n_graded: int, *, uses_judge: bool) -> float:
        times, rest = n / n_graded, size - n_graded
        df = n_graded * share - 1
        variance, most_df = human * times, math.inf
        if uses_judge and rest > 0 and pooled and n_graded * share >= LEAST_GRADED:
            best = min(max(covariance * times / (pooled_graded * times * (1 + n_graded / rest)), 0.0), 1.0)
            if best:
                graded = max(variance - 2 * best * covariance * times + best**2 * judge * times, 0.0)
                # As of an estimate: disagreement that the graded queries do not hold may be as large as any difference.
                if graded < (least := rare_variance(large_square, sample.effective_n / times)):
                    graded, most_df = least, RARE_DF
                variance = graded * df / (df - 1) + best**2 * others * n_others / rest
                df = min(df - 1, most_df * (variance / graded) ** 2)
        # Few quantiles of t are computed for large numbers.
        df = math.floor(df) if df < 1000 else float(f"{df:.2g}")
        return 2 * t_critical(level, df) * math.sqrt(variance) / share if df >= 1 else math.inf

    with_judge = _smallest(lambda n_graded: width_of(n_graded, uses_judge=True) <= width, size)
    by_hand = _smallest(lambda n_graded: width_of(n_graded, uses_judge=False) <= width, 1 << 60)
    return LabelsNeeded(with_judge, by_hand)


def _clusters_needed(moments: JudgedMoments, n: int, width: float, level: float) -> LabelsNeeded:
    """The same for the n clusters with graded queries: more of them have variances, and degrees of freedom, in proportion."""
    estimate = judged_estimate(moments, level)

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
