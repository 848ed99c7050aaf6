"""The figures of a comparison of groups of different users: a row for each metric and group."""

from __future__ import annotations

import math
from dataclasses import dataclass

from spark_rankeval.records.summary import AskedFor


@dataclass(frozen=True)
class GroupRow(AskedFor):
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
