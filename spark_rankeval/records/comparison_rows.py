"""The figures of comparisons as plain records: a row for each metric and model, pair of models, or group of users."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from spark_rankeval.metrics.base import Metric
from spark_rankeval.metrics.naming import reads_as
from spark_rankeval.records.summary import MetricRow


@dataclass(frozen=True)
class ComparisonRow(MetricRow):
    """One metric of one model against the baseline, over the users for whom both have a value.

    Examples:
        >>> row = comparison["rr"]
        >>> round(row.mean, 4), round(row.baseline_mean, 4), round(row.difference, 4)
        (0.875, 0.4583, 0.4167)
        >>> row.wins, row.ties, row.losses, row.p, row.verdict
        (6, 2, 0, 0.03125, 'better')

    Attributes:
        metric: the metric's label.
        model: the model.
        baseline: what it is compared with.
        slice: which users, such as ``country=DE``; ``all``.
        n_users: how many users these are.
        n_undefined: how many users are left out, because the model, the baseline or both have no value.
        mean: the model's mean over these users, which may differ from that over all of the model's users.
        baseline_mean: the baseline's mean over the same.
        difference: the mean of the users' differences, model − baseline.
        relative_lift: difference / |baseline's mean|; NaN if that is 0.
        std: the standard deviation of the users' differences, divisor n − 1.
        standard_error: of the difference, std / √n.
        interval_low: the lower end of the interval of the difference, within the metric's bounds; NaN if there is none.
        interval_high: its upper end.
        p_t: the two-sided p-value of the paired t test.
        p_sign_flip: the two-sided p-value of the randomisation test that gives each user's difference a random sign. It is exact
            if up to 16 users differ, or all by as much. Slices with more users draw no signs and have NaN.
        p: of what the verdict states, corrected for all comparisons of all users, or for all of slices. Without a margin it is
            that of `test`; with one, the larger of that and `p_margin`, or `p_margin`. Slices: p_sign_flip, or p_t.
        cohens_d: difference / std, the effect size.
        wins: how many users are better off: their value is larger, or smaller if smaller values are better.
        ties: for how many users both are equal.
        losses: how many users are worse off.
        margin: the difference that does not matter.
        larger_is_better: whether a larger value of the metric is better.
        verdict: ``better``, ``worse``, ``no relevant difference`` or ``undecided``.
        sentence: the same in a sentence, with the figures.
        interval_method: ``t``; ``clopper_pearson`` if all users have the same difference.
        p_test: what p is of: ``exact`` (all signs of the users who differ), ``sign_flip`` (drawn), ``t``, or ``clopper_pearson``
            (with a margin, if all users have the same difference).
        p_margin: with a margin, the uncorrected two-sided p-value of the nearer of two statements: that the difference is beyond
            ±margin, or within.
        asked: what the caller called the metric, such as ``map@10`` for ``ap@10``; empty: as `metric` has it.
        cluster: the columns of the clusters that users come in, which the interval and all p-values are of; empty: users are
            independent.
        n_clusters: how many clusters have a user with a difference; 0 if users are independent.
        effective_n_clusters: how many clusters of equal size would do as well; NaN if users are independent.
        df: the degrees of freedom of the standard error; n_users − 1 if users are independent.
        design_effect: the variance of the difference with clusters ÷ without; NaN if users are independent.
        no_interval: why there is no interval; empty if there is one.
        not_shared: which tables the two were not both evaluated on, and for how many users of either, such as ``labels (12 users)``;
            empty: none, or the tables of users do not tell.
    """

    metric: str
    model: str
    baseline: str
    slice: str
    n_users: int
    n_undefined: int
    mean: float
    baseline_mean: float
    difference: float
    relative_lift: float
    std: float
    standard_error: float
    interval_low: float
    interval_high: float
    p_t: float
    p_sign_flip: float
    p: float
    cohens_d: float
    wins: int
    ties: int
    losses: int
    margin: float
    larger_is_better: bool
    verdict: str
    sentence: str
    interval_method: str = "t"
    p_test: str = ""
    p_margin: float = math.nan
    asked: str = ""
    cluster: str = ""
    n_clusters: int = 0
    effective_n_clusters: float = math.nan
    df: float = math.nan
    design_effect: float = math.nan
    no_interval: str = ""
    not_shared: str = ""


class _OfMetric(Protocol):
    @property
    def metric(self) -> str: ...


Row = TypeVar("Row", bound=_OfMetric)


def rows_of_metric(rows: Sequence[Row], metric: str | Metric) -> list[Row]:
    """The rows with this label; if there are none, those whose label reads as the metric."""
    return [row for row in rows if row.metric == metric] or [row for row in rows if reads_as(row.metric, metric)]


def largest_losses(rows: Iterable[ComparisonRow]) -> list[ComparisonRow]:
    """The rows in which the model is worse than the baseline, the worst first."""
    gains = [(row.difference if row.larger_is_better else -row.difference, row) for row in rows]
    # An undefined difference is no loss, and has no place in an order.
    losses = [(gain, row) for gain, row in gains if gain < 0]
    return [row for _, row in sorted(losses, key=lambda pair: pair[0])]


@dataclass(frozen=True)
class PairRow(MetricRow):
    """One metric of two of several models, over the users for whom all models have a value.

    Attributes:
        metric: the metric's label.
        model: the one model.
        other: the one that it is compared with.
        n_users: how many users these are.
        n_undefined: how many users of any table are left out, because a model has no value.
        mean: the model's mean over these users.
        other_mean: the other's.
        difference: model − other.
        interval_low: the lower end of the difference's interval; the intervals of all pairs hold together.
        interval_high: its upper end.
        q: |difference| / √(residual mean square / n); of ``games_howell`` / √(variance of the users' differences / 2n).
        p_tukey: of q by the studentized range; corrected for the number of pairs.
        p_randomised: of the test that permutes models within each user; NaN if it was not asked for.
        p: the one of the two that was asked for; with a margin, of what the verdict states.
        margin: the difference that does not matter.
        verdict: ``better``, ``worse``, ``no relevant difference`` or ``undecided``.
        sentence: the same in a sentence, with the figures.
        interval_method: ``tukey`` or ``games_howell``; ``clopper_pearson`` if no user differs from another.
        asked: what the caller called the metric; empty: as `metric` has it.
        cluster: as in `ComparisonRow`.
        n_clusters: as in `ComparisonRow`.
        effective_n_clusters: as in `ComparisonRow`.
        design_effect: as in `ComparisonRow`.
        no_interval: as in `ComparisonRow`.
    """

    metric: str
    model: str
    other: str
    n_users: int
    n_undefined: int
    mean: float
    other_mean: float
    difference: float
    interval_low: float
    interval_high: float
    q: float
    p_tukey: float
    p_randomised: float
    p: float
    margin: float
    verdict: str
    sentence: str
    interval_method: str = "tukey"
    asked: str = ""
    cluster: str = ""
    n_clusters: int = 0
    effective_n_clusters: float = math.nan
    design_effect: float = math.nan
    no_interval: str = ""


@dataclass(frozen=True)
class GroupRow(MetricRow):
    """One metric of one group of users against the baseline, which is another group.

    Examples:
        >>> row = trial["rr"]
        >>> row.group, row.n_users, row.n_baseline_users
        ('FR', 4, 4)
        >>> round(row.difference, 4), round(row.interval_low, 4), row.verdict
        (-0.25, -0.7093, 'undecided')

    Attributes:
        metric: the metric's label.
        group: the group.
        baseline: the group that it is compared with.
        n_users: how many users of the group have a value.
        n_baseline_users: how many of the baseline have one.
        n_undefined: how many users of both have none.
        mean: of the group; weighted if users have weights, and adjusted for the covariate if there is one.
        baseline_mean: of the baseline, likewise.
        difference: mean − baseline_mean.
        relative_lift: difference / |baseline_mean|; NaN if that is 0.
        standard_error: of the difference; for one look a group of few users counts as at least as spread as the other.
        df: Satterthwaite's degrees of freedom of the standard error; NaN without a spread.
        interval_low: the lower end of the difference's interval, within the metric's bounds; NaN if there is none.
        interval_high: its upper end.
        interval_method: ``welch``; ``mover`` (from the Clopper-Pearson intervals of both means) if all values of a group are equal,
            or all are 0 or 1 and fewer than 30 users have the rarer one; ``confidence_sequence`` if `sequential`.
        no_interval: why there is no interval; empty if there is one.
        p: of what the verdict states, corrected for all metrics and groups; valid at all looks together if `sequential`.
        margin: the difference that does not matter.
        larger_is_better: whether a larger value of the metric is better.
        verdict: ``better``, ``worse``, ``no relevant difference`` or ``undecided``.
        sentence: the same in a sentence, with the figures.
        theta: by how much the metric rises with the covariate; NaN without an adjustment.
        variance_saved: the share of the difference's variance that the adjustment saved: 0.3 is 30 %. NaN without one.
        n_without_covariate: how many users of both groups have a value but no covariate, and take its mean.
        not_adjusted: why there is no adjustment although there is a covariate.
        asked: what the caller called the metric; empty: as `metric` has it.
        cluster: the columns of the clusters that users come in, which errors, interval and p are of; empty: users are independent.
        n_clusters: how many clusters have a user of the group with a value; 0 if users are independent.
        n_baseline_clusters: how many have one of the baseline.
        effective_n_clusters: how many clusters of equal weight would do as well, of the group with fewer; NaN if users are independent.
    """

    metric: str
    group: str
    baseline: str
    n_users: int
    n_baseline_users: int
    n_undefined: int
    mean: float
    baseline_mean: float
    difference: float
    relative_lift: float
    standard_error: float
    df: float
    interval_low: float
    interval_high: float
    interval_method: str
    no_interval: str
    p: float
    margin: float
    larger_is_better: bool
    verdict: str
    sentence: str
    theta: float = math.nan
    variance_saved: float = math.nan
    n_without_covariate: int = 0
    not_adjusted: str = ""
    asked: str = ""
    cluster: str = ""
    n_clusters: int = 0
    n_baseline_clusters: int = 0
    effective_n_clusters: float = math.nan
