"""Compare groups of different users with a baseline, as in an A/B test: the call, its rows with verdicts, and the result."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import types as T

from spark_rankeval.checks import as_names, check_name, check_table, is_number, one_of
from spark_rankeval.comparison import compared_models
from spark_rankeval.comparison.compared_models import Margin, MetricsToCompare, Results
from spark_rankeval.errors import InputError, OptionError
from spark_rankeval.evaluation.result import RowsInTable
from spark_rankeval.experiments import covariates
from spark_rankeval.printed_tables import Document, remarks
from spark_rankeval.records.comparisons import GROUP_COMPARISON, GroupRow, groups_table
from spark_rankeval.records.judges import Judged
from spark_rankeval.records.summary import ALL_VALUES, ClusterFigures, Key, warn_of_few_clusters
from spark_rankeval.records.tables_of_means import VerdictTables
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.models import ModelTable, ModelTables, read_table
from spark_rankeval.spark.per_user import marked_as_covariate
from spark_rankeval.spark.sql import find_column
from spark_rankeval.statistics import comparisons, intervals
from spark_rankeval.statistics.exact import State
from spark_rankeval.statistics.groups import TIGHTEST_AT, Group, difference_of, sequence_of
from spark_rankeval.worker import comparing
from spark_rankeval.worker.states import ClusterLayout, ClusterStates, group_name, merging_clusters

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ClustersOfGroups(NamedTuple):
    """The clusters of each group, metric by metric, and of all users together."""

    by_group: Mapping[str, Sequence[intervals.Clusters]]
    all_groups: Sequence[intervals.Clusters]

    @classmethod
    def read(cls, states: ClusterStates, groups: Sequence[str], n_metrics: int) -> ClustersOfGroups:
        """From the merged sums of clusters; a group without users has none."""

        def read_group(key: Key) -> Sequence[intervals.Clusters]:
            name = group_name(key)
            return intervals.clusters_of(states[name]) if name in states else [intervals.Clusters(0)] * n_metrics

        return cls({group: read_group((group,)) for group in groups}, read_group((ALL_VALUES,)))

    @property
    def n_shared(self) -> int:
        """How many clusters have users in several groups, on the metric with most of them; one in three groups counts twice."""
        sums = [sum(each[place].n for each in self.by_group.values()) for place in range(len(self.all_groups))]
        return max((total - each.n for total, each in zip(sums, self.all_groups, strict=True)), default=0)

    def notes(self, cluster: str) -> tuple[str, ...]:
        """What the clusters by some columns do to the figures, in sentences."""
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

    metric: compared_models.ComparedMetric
    groups: tuple[Group, Group]
    adjusted: covariates.Adjusted  # without a covariate nothing is
    interval: intervals.Interval
    p: float
    n_without_covariate: int

    def interval_at(self, level: float, options: GroupTest) -> intervals.Interval:
        """The interval of the difference at a level."""
        difference = self.adjusted.difference
        if options.tightest_at is None:
            return difference.interval(level)
        return sequence_of(difference, level, self.groups, options.tightest_at, self.metric.margin)[0]

    def lift_at(self, level: float, options: GroupTest) -> intervals.Lift:
        """The difference as a share of the baseline's mean, with Fieller's interval at a level."""
        adjusted, (group, other) = self.adjusted, self.groups
        difference = adjusted.difference
        lift = intervals.lift_of(
            difference.estimate,
            adjusted.means[1],
            difference.standard_error**2,
            difference.variances[1] + adjusted.extra_variance,
            -difference.variances[1] + adjusted.extra_covariance,
            difference.df,
            level,
            intervals.bounds_of_lifts(group.bounds, group.moments, other.moments),
        )
        reason = difference.problem or (
            "a confidence sequence has no interval of the lift" if options.tightest_at is not None
            else "a value is rare, or all users of a group have the same" if difference.rare
            else "clusters have users in both groups" if math.isfinite(difference.most_df)
            else ""
        )  # fmt: skip
        return intervals.Lift(lift.value, reason=reason) if reason and adjusted.means[1] else lift


def compared_group(
    metric: compared_models.ComparedMetric,
    place: int,
    owners: dict[comparing.Owner, State],
    names: tuple[str, str],
    empty: State,
    options: GroupTest,
    clusters: ClustersOfGroups | None,
) -> ComparedGroup:
    """Compare a group with the baseline, the second of the names, on the metric at a place; `empty` is the state of no user."""

    def read_group(name: str) -> tuple[Group, covariates.CovariateSums | None]:
        fields = owners.get(name, {})
        state = {field: fields.get(field, entries)[place] for field, entries in empty.items()}
        group, covariate = covariates.group_of(state, name, metric.bounds)
        return group if clusters is None else replace(group, clusters=clusters.by_group[name][place]), covariate

    (group, sums), (other, other_sums) = read_group(names[0]), read_group(names[1])
    are_shared = clusters is not None and clusters.n_shared > 0
    difference, n_without_covariate = difference_of(group, other, shares_clusters=are_shared), 0
    adjusted = covariates.Adjusted(difference, (group.mean, other.mean))
    if sums is not None and other_sums is not None:
        adjusted = covariates.adjusted_difference(difference, (group, other), (sums, other_sums))
        if clusters is None:
            n_without_covariate = group.n + other.n - sums.n - other_sums.n
    difference = adjusted.difference
    if options.tightest_at is None:
        difference = difference.cautious((group, other))
        interval, p = difference.interval(options.level), difference.p_of(metric.margin)
    else:
        interval, p = sequence_of(difference, options.level, (group, other), options.tightest_at, metric.margin)
    adjusted = adjusted._replace(difference=difference)
    return ComparedGroup(metric, (group, other), adjusted, interval, p, n_without_covariate)


def group_rows(compared: Sequence[ComparedGroup], options: GroupTest, cluster: str) -> Iterator[GroupRow]:
    """The row of each group and metric, with the p-value corrected for all of them."""
    family = comparisons.family_of([each.p for each in compared], options.correction, options.level)
    for each, judged in zip(compared, family, strict=True):
        metric, (group, other), adjusted, interval, _, n_without_covariate = each
        difference, p = adjusted.difference, judged.p
        joint = comparisons.as_decided(each.interval_at(judged.level, options), p, options.level, metric.margin)
        lift = each.lift_at(judged.level, options)
        verdict = comparisons.verdict_of(
            interval,
            p,
            margin=metric.margin,
            difference=difference.estimate,
            names=(group.name, other.name),
            metric=metric.name,
            higher_is_better=metric.direction,
            shown=comparisons.ShownFigures(joint, judged.n, adjusted.means, lift[:3]),
        )
        clusters = ClusterFigures(cluster)
        if group.clusters is not None:
            effective_n = min(group.precision.effective_n, other.precision.effective_n)
            clusters = ClusterFigures(cluster, group.clusters.n, effective_n)
        yield GroupRow(
            metric=metric.label, group=group.name, baseline=other.name, n_users=group.n, n_baseline_users=other.n,
            n_undefined=group.moments.n_undefined + other.moments.n_undefined, mean=adjusted.means[0], baseline_mean=adjusted.means[1],
            difference=difference.estimate, standard_error=difference.standard_error, df=difference.df, interval=interval,
            joint=joint, lift=lift, judged=Judged(p, metric.margin, *verdict, judged.n),
            larger_is_better=metric.larger_is_better, n_without_covariate=n_without_covariate, asked=metric.asked,
            clusters=clusters, n_baseline_clusters=0 if other.clusters is None else other.clusters.n,
            theta=adjusted.theta, variance_saved=adjusted.variance_saved, not_adjusted=adjusted.problem,
        )  # fmt: skip


@dataclass(frozen=True, repr=False)
class GroupComparison(VerdictTables[GroupRow], RowsInTable):
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

    _columns = GROUP_COMPARISON
    baseline: str
    level: float
    correction: str
    covariate: str | None = None
    sequential: bool = False
    tightest_at: int | None = None
    weights: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def _records(self) -> Iterator[dict[str, Any]]:
        names = ("level", "correction", "covariate", "sequential", "tightest_at")
        shared = {name: getattr(self, name) for name in names}
        return ({**row.record(), **shared} for row in self.rows)

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


# The bytes that the sums of a metric and group take.
_STATE = 4_000
# What a null in the column of groups reads as.
_NO_GROUP = "null"


@takes_local_tables
def compare_groups(
    per_user: Results,
    baseline: str,
    *,
    group: str | None = None,
    metrics: MetricsToCompare = None,
    user: str | Sequence[str] | None = None,
    user_weight: str | None = None,
    cluster: str | Sequence[str] | None = None,
    covariate: str | None = None,
    sequential: bool = False,
    tightest_at: int = TIGHTEST_AT,
    level: float = 0.95,
    margin: Margin = 0.0,
    correction: str = "holm",
) -> GroupComparison:
    """Compare groups of different users with a baseline, metric by metric, as in an A/B test, in one action.

    The users of each group count as drawn at random, independently of the others. The difference of two means gets Welch's test and
    interval, which let groups have different spreads. For one look, a group of few users counts as at least as spread as the other.
    `compare` is for models on the same users.

    Examples:
        >>> table = result.per_user.where("model = 'personal'")
        >>> trial = compare_groups(table, "DE", group="country", metrics="rr")
        >>> print(trial["rr"].sentence)
        Whether FR is better or worse than DE on rr is undecided (difference -0.25, 95% interval -0.7093 to +0.4022, p = 0.6661).

    Args:
        per_user: a per-user table of `score_users` (fresh or read back) or a `Result`, with one row per user; or a dict from the
            groups' names to such tables.
        baseline: the name of the group that the others are compared with, such as ``control``.
        group: the column with the name of each user's group, which ``score_users(by=…)`` kept or a join added. Only for one table.
        metrics: the metrics to compare. None: all that every table has.
        user: the columns that identify a user. None: those that the tables mark.
        user_weight: the column of users' weights. None: the weights that the table was scored with, if any.
        cluster: the columns that make users a cluster, such as a household: columns that all tables have. None: those that the tables
            were scored with; ``()``: users are independent. Variances are those of clusters, which also count in place of users. If a
            cluster has users in several groups, a note says so, and the variance of the difference allows for it.
        covariate: a column that was measured before the experiment, such as the same metric in the weeks before. CUPED takes out
            what it explains (Deng et al. 2013). Users without it take its mean, so nobody is lost.
        sequential: whether intervals and p-values hold at all looks together, so that you may look every day and stop at any time.
            They are those of the asymptotic confidence sequence of Waudby-Smith et al. (2021), some 1.5 times as wide.
        tightest_at: with `sequential`, the number of users, of both groups together, at which the interval is tightest. Set it once,
            before the first look, to the number at which you expect to decide.
        level: the confidence level of the intervals. A corrected p-value of at most 1 − level counts as a difference.
        margin: as in `compare`.
        correction: as in `compare`, for the number of metrics × groups.

    Returns:
        the comparison, which prints as a table. `rows`, `sentences` and `to_pandas()` have all figures.

    Raises:
        OptionError, InputError, UnknownMetricError: an argument is not valid.
        DataError: users are in several groups or in none, have several rows or invalid weights, or could not be ranked.
    """
    intervals.check_level(level)
    comparisons.adjusted([], correction)
    one_of("sequential", sequential, (True, False))
    if not is_number(tightest_at) or not 1 <= tightest_at < math.inf:
        msg = f"tightest_at must be a number of users from 1 on; got {tightest_at!r}"
        raise OptionError(msg)
    tables = read_groups(per_user, group, user, user_weight, covariate, cluster)
    compared = compared_models.compared_metrics(tables, metrics, margin)
    weighted = bool(tables.tables[0].weights)
    layout = None
    if tables.clusters:
        # The users of each group, and all of them together.
        masks = ((True,), (False,))
        layout = ClusterLayout(len(compared), weighted=weighted, n_keys=1, masks=masks, grouped=True)
    run = covariates.group_batches(len(compared), weighted=weighted, covariate=covariate is not None, layout=layout)
    labels = [metric.label for metric in compared]
    merger = None if layout is None else merging_clusters(layout)
    collected = tables.collected(labels, run, _STATE * len(compared), clusters=merger)
    owners = collected.users.everyone
    _check(owners, tables)
    groups = tables.names or compared_models.names_met(owners)
    _check_baseline(baseline, groups, group)
    options = GroupTest(level, correction, tightest_at if sequential else None)
    others = [name for name in groups if name != baseline]
    empty = covariates.GroupSumAccumulator(len(compared), weighted=weighted, covariate=covariate is not None).state()
    clusters = None if layout is None else ClustersOfGroups.read(collected.clusters, groups, len(compared))
    compared_groups = [
        compared_group(metric, place, owners, (name, baseline), empty, options, clusters)
        for place, metric in enumerate(compared)
        for name in others
    ]
    cluster_columns = ", ".join(tables.clusters)
    rows = tuple(group_rows(compared_groups, options, cluster_columns))
    notes = tables.notes(labels)
    if clusters is not None:
        warn_of_few_clusters(rows)
        n_without_cluster = comparing.count_of(owners, comparing.N_WITHOUT_CLUSTER)
        notes = (*notes, *clusters.notes(cluster_columns), *tables.notes_without_cluster(n_without_cluster))
    return GroupComparison(
        rows, baseline, level, correction, covariate, sequential, options.tightest_at, tables.tables[0].weights, notes,
    )  # fmt: skip


def read_groups(
    per_user: Results,
    group: str | None,
    user: str | Sequence[str] | None,
    user_weight: str | None,
    covariate: str | None,
    cluster: str | Sequence[str] | None = None,
) -> ModelTables:
    """The tables of the groups, with the columns of weights and of the covariate; an `InputError` if they do not fit."""
    for option, name in (("group", group), ("user_weight", user_weight), ("covariate", covariate)):
        check_name(option, name)
    users = None if user is None else as_names("user", user)
    clusters = None if cluster is None else as_names("cluster", cluster)
    if isinstance(per_user, Mapping) and group is not None:
        msg = f"group={group!r} is for one table of all groups; in a dict the keys name the groups. Leave group= out"
        raise InputError(msg)
    if not isinstance(per_user, Mapping) and group is None:
        msg = "group= must name the column of the users' groups, or per_user must be a dict of tables by group"
        raise InputError(msg)

    def read(name: str | None, frame: DataFrame) -> ModelTable:
        words = "the table" if name is None else f"the table of {name!r}"
        check_table(words, frame, instead="a Result")
        weight, before = (_number(frame, column, option, words) for column, option in (
            (user_weight, "user_weight"), (covariate, "covariate"),
        ))  # fmt: skip
        if before is not None:
            frame = marked_as_covariate(frame, before)
        table = read_table(frame, name, users, group, clusters)
        weights = (weight,) if weight is not None else table.weights
        extra = (*weights, *([] if before is None else [before]))
        metrics = {label: metric for label, metric in table.metrics.items() if metric.column not in extra}
        return replace(table, weights=weights, extra_columns=extra, metrics=metrics)

    tables = [read(name, table) for name, table in compared_models.named_tables(per_user)]
    if len({bool(table.weights) for table in tables}) > 1:
        raise InputError("some of the tables have users' weights and others have none; pass user_weight=")
    return ModelTables.checked(tables)


def _number(frame: DataFrame, name: str | None, option: str, words: str) -> str | None:
    """The name of a column of numbers as the table spells it."""
    if name is None:
        return None
    column = find_column(frame, name)
    kind = None if column is None else frame.schema[column].dataType
    if not isinstance(kind, T.NumericType | T.BooleanType):
        has = "no column of that name" if kind is None else f"it as {kind.simpleString()}, which is not a number"
        msg = f"{option}={name!r}: {words} has {has}; it has: {', '.join(frame.columns)}"
        raise InputError(msg)
    return column


def _check(owners: dict[comparing.Owner, State], tables: ModelTables) -> None:
    """Refuse users who cannot be compared, with their numbers."""
    if comparing.count_of(owners, comparing.N_TOO_MANY):
        msg = f"there are more than {covariates.MOST_GROUPS} groups; group= must name a column of a few groups"
        raise InputError(msg)
    refused = compared_models.RefusedUsers()
    n = comparing.count_of(owners, comparing.N_IN_SEVERAL)
    problem = f"users in several groups: {n:,}. Leave them out; compare is for models on the same users"
    refused.add(n, comparing.N_IN_SEVERAL, problem)
    refused.add_without_cluster(owners, tables)
    for group, fields in compared_models.states_by_model(owners):
        if group == _NO_GROUP and not tables.names and (n := tables.n_rows_without_model()):
            refused.add(n, "n_without_group", f"users without a group: {n:,}; their group is null. Leave them out")
            continue
        refused.add_repeated(group, fields, tables, "Pass one row per user: one model, and each user once")
        refused.add_invalid(group, fields)
        n = int(max(fields.get(covariates.INVALID_WEIGHTS, [0])))
        problem = f"weights in {group!r} that are negative, infinite or missing: {n:,}"
        refused.add(n, f"n_invalid_weights of {group}", problem)
    refused.check()


def _check_baseline(baseline: str, groups: Sequence[str], group: str | None) -> None:
    where = "" if group is None else f" in column {group!r}"
    if baseline not in groups:
        there = ", ".join(map(repr, groups[:10])) or "none"
        raise InputError(f"the baseline {baseline!r} is not among the groups{where}: {there}")
    if len(groups) < 2:
        raise InputError(f"the only group{where} is the baseline {baseline!r}; there is nothing to compare it with")
