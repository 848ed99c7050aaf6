"""Two models on the same users under human grades that two judges estimate: the difference, its interval, and whether it is noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

from spark_rankeval.statistics.cluster_sums import Clusters
from spark_rankeval.statistics.distributions import t_sf
from spark_rankeval.statistics.intervals import (
    PREDICTION_POWERED,
    UNBOUNDED,
    Interval,
    p_beyond_margin,
    ratio,
)
from spark_rankeval.statistics.judged_moments import OTHERS_E, JudgedMoments
from spark_rankeval.statistics.prediction_powered import JudgedEstimate, judged_estimate
from spark_rankeval.statistics.relative_lift import Lift


@dataclass(frozen=True)
class JudgedDifference:
    """A model against a baseline under human grades, estimated from both judges; attributes are as in `PairedComparison`.

    Attributes:
        differences: the sums of the users' differences by both judges.
        values: those of the model's values, of users with a difference.
        baselines: those of the baseline's values, of the same users.
        n_undefined: users without a difference.
        signs: of users whom people graded: how often the model is better, as good, and worse.
        level: the level of the interval.
        bounds: the least and the largest value of the metric.
    """

    differences: JudgedMoments
    values: JudgedMoments
    baselines: JudgedMoments
    n_undefined: int
    signs: tuple[int, int, int]
    level: float = 0.95
    bounds: tuple[float, float] = field(default=UNBOUNDED, repr=False)

    # What is not known of two judges.
    p_sign_flip = std = cohens_d = math.nan

    @cached_property
    def _bounds(self) -> tuple[float, float]:
        low, high = self.bounds
        return low - high, high - low

    @cached_property
    def estimate(self) -> JudgedEstimate:
        """The difference by both judges, and by each alone."""
        return judged_estimate(self.differences, self.level, bounds=self._bounds)

    @cached_property
    def baseline_mean(self) -> float:
        """The baseline's mean, estimated from both judges."""
        return judged_estimate(self.baselines, self.level, bounds=self.bounds).value

    @cached_property
    def mean(self) -> float:
        """The model's mean, estimated from both judges; that of the difference is an estimate of its own."""
        return judged_estimate(self.values, self.level, bounds=self.bounds).value

    @property
    def difference(self) -> float:
        """The estimated difference."""
        return self.estimate.value

    @property
    def clusters(self) -> Clusters | None:
        """The clusters of users whom people graded, with the standard error of the difference; None if users are independent."""
        return self.differences.clusters_of_people(self.estimate.standard_error)

    @property
    def error_of_users(self) -> float:
        """The standard error of the difference if all users are independent."""
        return judged_estimate(self.differences.independent, self.level, bounds=self._bounds).standard_error

    @property
    def _independent_n(self) -> float:
        """How many graded users, or clusters, of equal weight are as good as those that there are."""
        if self.clusters is not None:
            return self.clusters.effective_n
        return self.estimate.human.equal_n

    @property
    def n(self) -> int:
        """How many users stand behind the difference: those whom people graded, and all others with a difference by the model."""
        return self.differences.n_graded + self.differences.count(OTHERS_E)

    @property
    def standard_error(self) -> float:
        """That of the difference."""
        return self.estimate.standard_error

    @property
    def df(self) -> float:
        """The degrees of freedom of the interval."""
        return self.estimate.df

    @property
    def wins(self) -> int:
        """Of users whom people graded."""
        return self.signs[0]

    @property
    def ties(self) -> int:
        """Of users whom people graded."""
        return self.signs[1]

    @property
    def losses(self) -> int:
        """Of users whom people graded."""
        return self.signs[2]

    @property
    def no_user_differs(self) -> bool:
        """Whether no user has other values under the other model, by any judge."""
        estimate = self.estimate
        parts = (estimate.value, estimate.human.standard_error, estimate.judge.standard_error, estimate.judge.value)
        return not any(parts)

    @property
    def interval(self) -> Interval:
        """The interval of the difference, as of no other comparison."""
        return self.interval_at(self.level)

    def interval_at(self, level: float, margin: float = 0.0) -> Interval:
        """The interval at a level, whatever the margin."""
        estimate = (
            self.estimate if level == self.level else judged_estimate(self.differences, level, bounds=self._bounds)
        )
        interval = estimate.interval
        return interval._replace(method=PREDICTION_POWERED) if interval else interval

    @property
    def relative_lift(self) -> float:
        """The difference ÷ |baseline's mean|; NaN if that is 0."""
        return ratio(self.difference, abs(self.baseline_mean)) if self.baseline_mean else math.nan

    def lift_at(self, level: float) -> Lift:
        """The lift, which has no interval."""
        return Lift(self.relative_lift, reason="two judges give the difference an interval, and not its ratio")

    @property
    def p_t(self) -> float:
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
        return p, PREDICTION_POWERED

    def p_beyond(self, margin: float) -> float:
        """The two-sided p-value that the difference is beyond ±margin, or within; see `PairedComparison.p_beyond`."""
        estimate, n = self.estimate, self._independent_n
        if math.isnan(self.p_t) or n < 2:
            return math.nan
        return p_beyond_margin(estimate.value, estimate.interval_error, estimate.df, n, margin, self._bounds)
