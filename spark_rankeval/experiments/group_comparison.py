"""Groups of different users beside a baseline: their rows, each with its verdict, and the result that shows them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_rankeval.comparison.comparison_inputs import ComparedMetric
from spark_rankeval.experiments.covariates import Adjusted, CovariateSums, adjusted_difference, group_of
from spark_rankeval.printed_tables import Document, remarks
from spark_rankeval.records.group_rows import GroupRow, groups_table
from spark_rankeval.records.selection import VerdictTables
from spark_rankeval.records.slices import ALL_VALUES
from spark_rankeval.records.summary import record_of
from spark_rankeval.records.table_columns import GROUP_COMPARISON, frame_of
from spark_rankeval.spark.catalog import table_of
from spark_rankeval.statistics.cluster_sums import Clusters, clusters_of
from spark_rankeval.statistics.confidence_sequences import sequence_of
from spark_rankeval.statistics.independent_groups import Difference, Group, difference_of
from spark_rankeval.statistics.intervals import Interval, bounds_of_lifts
from spark_rankeval.statistics.moments import State
from spark_rankeval.statistics.multiple_comparisons import family_of
from spark_rankeval.statistics.relative_lift import Lift, lift_of
from spark_rankeval.statistics.verdicts import ShownFigures, as_decided, verdict_of
from spark_rankeval.worker.comparing import Owner
from spark_rankeval.worker.states import ClusterStates, group_name

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession


class ClustersOfGroups(NamedTuple):
    """The clusters of each group, metric by metric, and of all users together."""

    by_group: Mapping[str, Sequence[Clusters]]
    all_groups: Sequence[Clusters]

    @classmethod
    def read(cls, states: ClusterStates, groups: Sequence[str]) -> ClustersOfGroups:
        """From the merged sums of clusters; a group without users has none."""
        names = {group: group_name((group,)) for group in groups}
        by_group = {group: clusters_of(states[name]) for group, name in names.items() if name in states}
        every = group_name((ALL_VALUES,))
        return cls(by_group, clusters_of(states[every]) if every in states else [])

    def clusters(self, group: str, place: int) -> Clusters:
        """The clusters of a group on a metric, by its place."""
        return self.by_group[group][place] if group in self.by_group else Clusters(0)

    @property
    def n_shared(self) -> int:
        """How many clusters have users in several groups, on the metric with most of them; one in three groups counts twice."""
        sums = [sum(each[place].n for each in self.by_group.values()) for place in range(len(self.all_groups))]
        return max((total - each.n for total, each in zip(sums, self.all_groups, strict=True)), default=0)

    @property
    def are_shared(self) -> bool:
        """Whether any cluster has users in several groups."""
        return self.n_shared > 0

    def notes(self, rows: Sequence[GroupRow]) -> tuple[str, ...]:
        """What the clusters do to the figures, in sentences."""
        if not rows:
            return ()
        cluster = rows[0].cluster
        notes = [f"intervals take clusters by {cluster} as independent, not their users"]
        if self.n_shared:
            notes.append(
                f"clusters by {cluster} with users in several groups: {self.n_shared:,}; errors are those of up to 1,024 random groups of "
                "clusters"
            )
        return tuple(notes)


class GroupTest(NamedTuple):
    """How groups are tested: by one look, or by a sequence that is tightest at a number of users."""

    level: float
    correction: str
    tightest_at: int | None  # None: the test is of one look


class ComparedGroup(NamedTuple):
    """A group beside the baseline on one metric; the p-value is not corrected yet."""

    metric: ComparedMetric
    groups: tuple[Group, Group]
    adjustment: Adjusted | None
    difference: Difference
    interval: Interval
    p: float
    n_without_covariate: int

    @property
    def means(self) -> tuple[float, float]:
        """The means of the group and the baseline, adjusted for the covariate if there is one."""
        group, other = self.groups
        return (group.mean, other.mean) if self.adjustment is None else self.adjustment.means

    def interval_at(self, level: float, options: GroupTest) -> Interval:
        """The interval of the difference at a level."""
        if options.tightest_at is None:
            return self.difference.interval(level)
        return sequence_of(self.difference, level, self.groups, options.tightest_at, self.metric.margin)[0]

    def lift_at(self, level: float, options: GroupTest) -> Lift:
        """The difference as a share of the baseline's mean, with Fieller's interval at a level."""
        difference, (group, other) = self.difference, self.groups
        variance, covariance = difference.variances[1], -difference.variances[1]
        if self.adjustment is not None:
            variance += self.adjustment.extra_variance
            covariance += self.adjustment.extra_covariance
        lift = lift_of(
            difference.estimate,
            self.means[1],
            difference.standard_error**2,
            variance,
            covariance,
            difference.df,
            level,
            bounds_of_lifts(group.bounds, group.moments, other.moments),
        )
        reason = difference.problem or (
            "a confidence sequence has no interval of the lift" if options.tightest_at is not None
            else "a value is rare, or all users of a group have the same" if difference.rare
            else "clusters have users in both groups" if math.isfinite(difference.most_df)
            else ""
        )  # fmt: skip
        return Lift(lift.value, reason=reason) if reason and self.means[1] else lift


def compared_group(
    metric: ComparedMetric,
    place: int,
    owners: dict[Owner, State],
    names: tuple[str, str],
    empty: State,
    options: GroupTest,
    clusters: ClustersOfGroups | None,
) -> ComparedGroup:
    """Compare a group with the baseline, the second of the names, on the metric at a place; `empty` is the state of no user."""

    def read_group(name: str) -> tuple[Group, CovariateSums | None]:
        fields = owners.get(name, {})
        state = {field: fields.get(field, entries)[place] for field, entries in empty.items()}
        group, covariate = group_of(state, name, metric.bounds)
        return group if clusters is None else replace(group, clusters=clusters.clusters(name, place)), covariate

    (group, sums), (other, other_sums) = read_group(names[0]), read_group(names[1])
    are_shared = clusters is not None and clusters.are_shared
    difference, adjustment, n_without_covariate = difference_of(group, other, shares_clusters=are_shared), None, 0
    if sums is not None and other_sums is not None and clusters is not None:
        reason = difference.problem or "users come in clusters, and the adjustment takes users as independent"
        adjustment = Adjusted(difference, (group.mean, other.mean), problem=reason)
    elif sums is not None and other_sums is not None:
        adjustment = adjusted_difference(difference, (group, other), (sums, other_sums))
        difference, n_without_covariate = adjustment.difference, group.n + other.n - sums.n - other_sums.n
    if options.tightest_at is None:
        difference = difference.cautious((group, other))
        interval, p = difference.interval(options.level), difference.p_of(metric.margin)
    else:
        interval, p = sequence_of(difference, options.level, (group, other), options.tightest_at, metric.margin)
    return ComparedGroup(metric, (group, other), adjustment, difference, interval, p, n_without_covariate)


def _n_clusters(group: Group) -> int:
    return 0 if group.clusters is None else group.clusters.n


def group_rows(compared: Sequence[ComparedGroup], options: GroupTest) -> Iterator[GroupRow]:
    """The row of each group and metric, with the p-value corrected for all of them."""
    family = family_of([each.p for each in compared], options.correction, options.level)
    for each, judged in zip(compared, family, strict=True):
        metric, (group, other), adjustment, difference, interval, _, n_without_covariate = each
        p = judged.p
        joint = as_decided(each.interval_at(judged.level, options), p, options.level, metric.margin)
        mean, other_mean = each.means
        lift = each.lift_at(judged.level, options)
        verdict = verdict_of(
            interval,
            p,
            margin=metric.margin,
            difference=difference.estimate,
            names=(group.name, other.name),
            metric=metric.name,
            higher_is_better=metric.direction,
            shown=ShownFigures(joint, judged.n, (mean, other_mean), lift[:3]),
        )
        row = GroupRow(
            metric=metric.label, group=group.name, baseline=other.name, n_users=group.n, n_baseline_users=other.n,
            n_undefined=group.moments.n_undefined + other.moments.n_undefined, mean=mean, baseline_mean=other_mean,
            difference=difference.estimate, relative_lift=lift.value,
            standard_error=difference.standard_error, df=difference.df, interval_low=interval.low,
            interval_high=interval.high, joint_low=joint.low, joint_high=joint.high, n_joint=judged.n, lift_low=lift.low,
            lift_high=lift.high, no_lift=lift.reason, interval_method=interval.method, no_interval=interval.reason, p=p,
            margin=metric.margin, larger_is_better=metric.larger_is_better, verdict=verdict.word,
            sentence=verdict.sentence, n_without_covariate=n_without_covariate, asked=metric.asked,
            n_clusters=_n_clusters(group), n_baseline_clusters=_n_clusters(other),
            effective_n_clusters=math.nan if group.clusters is None else min(group.effective_n, other.effective_n),
        )  # fmt: skip
        if adjustment is not None:
            row = replace(
                row, theta=adjustment.theta, variance_saved=adjustment.variance_saved, not_adjusted=adjustment.problem
            )
        yield row


@dataclass(frozen=True, repr=False)
class GroupComparison(VerdictTables[GroupRow]):
    """The result of `compare_groups`. It prints as a table.

    Examples:
        >>> trial["rr"].verdict, trial["rr", "FR"].n_users
        ('undecided', 4)
        >>> trial.to_pandas()[["metric", "group", "baseline", "difference", "p"]].round(3)
          metric group baseline  difference      p
        0     rr    FR       DE       -0.25  0.666

    Attributes:
        rows: the rows, metric by metric.
        baseline: the group that the others are compared with.
        level: the confidence level of the intervals; a corrected p of at most 1 − level counts as a difference.
        correction: how p-values are corrected for the number of metrics × groups.
        covariate: the column by which means are adjusted, or None.
        sequential: whether intervals and p-values hold at all looks together.
        tightest_at: the number of users at which such intervals are tightest, or None.
        weights: the columns of users' weights; empty if each user counts the same.
        notes: what the figures could be mistaken for, in sentences.
    """

    baseline: str
    level: float
    correction: str
    covariate: str | None = None
    sequential: bool = False
    tightest_at: int | None = None
    weights: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def to_pandas(self) -> pd.DataFrame:
        """A row for each metric and group, with the columns of `GroupRow`, and the options of all rows."""
        return frame_of(group_records(self), GROUP_COMPARISON)

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """The rows of `to_pandas` as a Spark DataFrame; see `Result.to_spark`."""
        return table_of(group_records(self), GROUP_COMPARISON, spark)

    def _on_paper(self) -> Document:
        table = groups_table(
            self.rows,
            self.baseline,
            self.level,
            correction=self.correction,
            covariate=self.covariate,
            tightest_at=self.tightest_at,
            weights=self.weights,
        )
        return Document((table,), remarks(self.notes))


def group_records(comparison: GroupComparison) -> Iterator[dict[str, Any]]:
    """The rows by column, as the tables of comparisons of groups have them."""
    names = ("level", "correction", "covariate", "sequential", "tightest_at")
    shared = {name: getattr(comparison, name) for name in names}
    return ({**record_of(row), **shared} for row in comparison.rows)
