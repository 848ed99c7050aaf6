"""The columns of the tables that jobs store and `to_spark` makes: name, type and meaning."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from spark_rankeval.errors import OptionError

#: The columns that tell runs apart, and when they were.
RUN_ID, TIME = "run_id", "time"
# The names of runs, which also name folders and files.
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
#: Types, as Spark's SQL writes them.
TEXT, FIGURE, COUNT, FLAG, MOMENT = "string", "double", "bigint", "boolean", "timestamp"
FIGURES, TEXTS = "map<double,double>", "map<string,string>"


def check_run(run_id: object, option: str = RUN_ID) -> None:
    """Refuse what is no name of a run."""
    if not (isinstance(run_id, str) and _RUN_NAME.fullmatch(run_id)):
        msg = f"{option} must be up to 100 letters, digits, '.', '_' and '-', and begin with a letter or a digit; got {run_id!r}"
        raise OptionError(msg)


class TableColumn(NamedTuple):
    """A column: its name, its type in Spark's SQL, and its meaning in a line, which catalogues show as a comment."""

    name: str
    kind: str
    meaning: str


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table.

    Attributes:
        row: what has a row.
        columns: in their order, without `RUN_ID`, which each stored table has last.
    """

    row: str
    columns: tuple[TableColumn, ...]

    @property
    def names(self) -> list[str]:
        """The names in their order."""
        return [column.name for column in self.columns]


def frame_of(records: Iterable[Mapping[str, Any]], columns: TableColumns) -> pd.DataFrame:
    """Records by column as a pandas DataFrame, which has the columns of no records, too."""
    return pd.DataFrame(list(records), columns=columns.names)


def _columns(order: str, *own: TableColumn) -> tuple[TableColumn, ...]:
    """Columns in an order: those of the table's own, and for all other names what several tables share."""
    by_name = _SHARED | {column.name: column for column in own}
    return tuple(by_name[name] for name in order.split())


_SHARED = {
    column.name: column
    for column in (
        TableColumn("model", TEXT, "the name of the predictions; empty if they have none"),
        TableColumn("metric", TEXT, "the label of the metric, by which programs know it"),
        TableColumn("asked", TEXT, "what the caller called the metric, such as map@10 for ap@10"),
        TableColumn("slice", TEXT, "the users, such as country=DE; all"),
        TableColumn("n_users", COUNT, "how many users the figures are over"),
        TableColumn("n_undefined", COUNT, "how many users are left out, because they have no value"),
        TableColumn("mean", FIGURE, "the mean over the users who have a value; NaN over none"),
        TableColumn("baseline_mean", FIGURE, "the mean of the baseline"),
        TableColumn("other_mean", FIGURE, "the mean of the other side"),
        TableColumn("difference", FIGURE, "the first mean minus the second"),
        TableColumn("relative_lift", FIGURE, "difference / |baseline_mean|; NaN if that is 0"),
        TableColumn("standard_error", FIGURE, "the standard error of the difference"),
        TableColumn("df", FIGURE, "the degrees of freedom of the standard error"),
        TableColumn("interval_low", FIGURE, "the lower end of the interval; NaN if there is none"),
        TableColumn("interval_high", FIGURE, "the upper end of the interval"),
        TableColumn("interval_method", TEXT, "how the interval was computed; empty if none was requested"),
        TableColumn("no_interval", TEXT, "why there is no interval; empty if there is one"),
        TableColumn("joint_low", FIGURE, "the lower end of the interval that is corrected as p is, and leaves out 0 exactly if p decides"),
        TableColumn("joint_high", FIGURE, "the upper end of that interval"),
        TableColumn("n_joint", COUNT, "how many comparisons p and the joint interval are corrected for"),
        TableColumn("lift_low", FIGURE, "the lower end of the joint interval of relative_lift; NaN if there is none"),
        TableColumn("lift_high", FIGURE, "the upper end of the joint interval of relative_lift"),
        TableColumn("no_lift", TEXT, "why relative_lift has no interval; empty if it has one"),
        TableColumn("p", FIGURE, "the p-value of the verdict, corrected for the number of comparisons"),
        TableColumn("margin", FIGURE, "the largest difference that does not matter"),
        TableColumn("larger_is_better", FLAG, "whether a larger value of the metric is better; true if neither is"),
        TableColumn("verdict", TEXT, "better, worse, higher, lower, no relevant difference, undecided or no user differs"),
        TableColumn("sentence", TEXT, "the verdict in a sentence, with the figures"),
        TableColumn("level", FIGURE, "the confidence level of the intervals"),
        TableColumn("correction", TEXT, "how p is corrected for the number of comparisons"),
        TableColumn("cluster", TEXT, "the columns of the clusters of users; empty if users are independent"),
        TableColumn("n_clusters", COUNT, "how many clusters have a user with a value; 0 if users are independent"),
        TableColumn("effective_n_clusters", FIGURE, "how many clusters of equal weight would do as well; NaN without clusters"),
        TableColumn("design_effect", FIGURE, "the variance with clusters / without; NaN without clusters"),
        TableColumn("definition", TEXT, "the metric with every parameter written out"),
        TableColumn(TIME, MOMENT, "when the run began"),
    )
}  # fmt: skip
#: The column that each stored table has: the partition of a run.
RUN_COLUMN = TableColumn(RUN_ID, TEXT, "the name of the run, always text")

#: The figures of an evaluation, as `Result.to_spark` has them.
SUMMARY = TableColumns(
    "each model, metric and slice",
    _columns(
        "model dialect metric relevance definition cutoff slice mean n_users n_undefined std standard_error minimum maximum n_zero "
        "interval_low interval_high interval_level interval_method no_interval median quantiles user_weight effective_n_users cluster "
        "n_clusters effective_n_clusters df design_effect asked",
        TableColumn("dialect", TEXT, "the conventions that filled what was not set"),
        TableColumn("relevance", TEXT, "the column of grades, if several were named; else empty"),
        TableColumn("cutoff", COUNT, "k; null for the whole list"),
        TableColumn("std", FIGURE, "the standard deviation between users, divisor n - 1"),
        TableColumn("standard_error", FIGURE, "the standard error of the mean"),
        TableColumn("minimum", FIGURE, "the smallest value of a user"),
        TableColumn("maximum", FIGURE, "the largest value of a user"),
        TableColumn("n_zero", COUNT, "how many users have the value 0"),
        TableColumn("interval_level", FIGURE, "the share of such intervals that hold the true mean"),
        TableColumn("median", FIGURE, "half of the users have less; NaN if no quantile was requested"),
        TableColumn("quantiles", FIGURES, "the values below which a share of the users lies, by these shares"),
        TableColumn("user_weight", TEXT, "the column of users' weights; empty if each user counts the same"),
        TableColumn("effective_n_users", FIGURE, "how many users of equal weights would do as well"),
    ),
)  # fmt: skip

#: The table of metrics of a job: the same, and what `merge` and gates read.
METRICS = TableColumns(
    SUMMARY.row,
    (
        *SUMMARY.columns,
        *_columns(
            "over_all moments cluster_sums fingerprints time",
            TableColumn("over_all", FLAG, "whether the mean is over every user, so that one undefined value makes it undefined"),
            TableColumn("moments", TEXT, "the exact sums behind mean and spread, which merge reads; empty if there are none"),
            TableColumn("cluster_sums", TEXT, "the sums of groups of clusters, which merge reads; empty if there are none"),
            TableColumn("fingerprints", TEXTS, "the fingerprints of the tables that the model was evaluated on, by table"),
        ),
    ),
)  # fmt: skip

#: The figures of several runs, as `History.to_spark` has them.
HISTORY = TableColumns(f"each run, {SUMMARY.row.removeprefix('each ')}", (RUN_COLUMN, _SHARED[TIME], *SUMMARY.columns))

_COMPARED = "mean baseline_mean difference relative_lift"
_ENDS = "interval_low interval_high joint_low joint_high n_joint"
_JUDGED = "margin larger_is_better verdict sentence"
_MODEL_COLUMNS = _columns(
    f"metric model baseline slice n_users n_undefined {_COMPARED} std standard_error {_ENDS} lift_low lift_high no_lift p_t p_sign_flip "
    f"p cohens_d wins ties losses {_JUDGED} interval_method p_test p_margin asked cluster n_clusters effective_n_clusters df "
    "design_effect no_interval not_shared level correction headline",
    TableColumn("baseline", TEXT, "the model that it is compared with"),
    TableColumn("n_users", COUNT, "how many users have a value of both models"),
    TableColumn("n_undefined", COUNT, "how many users are left out, because a model has no value"),
    TableColumn("mean", FIGURE, "the mean of the model over these users"),
    TableColumn("std", FIGURE, "the standard deviation of the users' differences, divisor n - 1"),
    TableColumn("p_t", FIGURE, "the two-sided p-value of the paired t test"),
    TableColumn("p_sign_flip", FIGURE, "the two-sided p-value of the test that gives each difference a random sign"),
    TableColumn("cohens_d", FIGURE, "difference / std, the effect size"),
    TableColumn("wins", COUNT, "how many users are better off"),
    TableColumn("ties", COUNT, "for how many users both are equal"),
    TableColumn("losses", COUNT, "how many users are worse off"),
    TableColumn("p_test", TEXT, "the test of p: exact, sign_flip, t, score or clopper_pearson"),
    TableColumn("p_margin", FIGURE, "the p-value of the statement about the margin; NaN without a margin"),
    TableColumn("not_shared", TEXT, "which tables the two were not both evaluated on; empty if none, or not known"),
    TableColumn("headline", TEXT, "the metric that was tested first, as its rows have it in asked; empty if there is none"),
)  # fmt: skip

#: What `ModelComparison.to_spark` has, of all users and of slices.
MODEL_COMPARISON = TableColumns("each metric, model and slice", _MODEL_COLUMNS)
#: The table of comparisons of a job.
COMPARISONS = TableColumns(
    MODEL_COMPARISON.row,
    (*_MODEL_COLUMNS, _SHARED[TIME]),
)

#: What `PairwiseComparison.to_spark` has.
PAIRS = TableColumns(
    "each metric and pair of models",
    _columns(
        "metric model other n_users n_undefined mean other_mean difference interval_low interval_high q p_tukey p_randomised p margin "
        "verdict sentence interval_method asked cluster n_clusters effective_n_clusters design_effect no_interval level",
        TableColumn("other", TEXT, "the model that it is compared with"),
        TableColumn("n_users", COUNT, "how many users have a value of all models"),
        TableColumn("q", FIGURE, "the statistic of the studentized range"),
        TableColumn("p_tukey", FIGURE, "the p-value of q, corrected for the number of pairs"),
        TableColumn("p_randomised", FIGURE, "the p-value of the test that permutes models within each user; NaN if not requested"),
    ),
)  # fmt: skip

#: What the ranks of a `PairwiseComparison` have.
RANKS = TableColumns(
    "each metric and model",
    _columns(
        "metric model n_users mean rank lowest highest n_models sentence asked level",
        TableColumn("n_users", COUNT, "how many users have a value of all models"),
        TableColumn("rank", COUNT, "the rank by the mean, 1 for the best; 0 without a mean"),
        TableColumn("lowest", COUNT, "the best rank that the true one may be"),
        TableColumn("highest", COUNT, "the worst rank that the true one may be"),
        TableColumn("n_models", COUNT, "how many models there are"),
    ),
)

_GROUP_COLUMNS = _columns(
    f"metric group baseline n_users n_baseline_users n_undefined {_COMPARED} standard_error df {_ENDS} lift_low lift_high no_lift "
    f"interval_method no_interval p {_JUDGED} theta variance_saved n_without_covariate not_adjusted asked cluster n_clusters "
    "n_baseline_clusters effective_n_clusters level correction covariate sequential tightest_at",
    TableColumn("group", TEXT, "the group of users"),
    TableColumn("baseline", TEXT, "the group that it is compared with"),
    TableColumn("n_users", COUNT, "how many users of the group have a value"),
    TableColumn("n_baseline_users", COUNT, "how many users of the baseline have a value"),
    TableColumn("n_undefined", COUNT, "how many users of both have no value"),
    TableColumn("theta", FIGURE, "by how much the metric rises with the covariate; NaN without an adjustment"),
    TableColumn("variance_saved", FIGURE, "the share of the variance that the adjustment saved; NaN without one"),
    TableColumn("n_without_covariate", COUNT, "how many users have a value but no covariate, and take its mean"),
    TableColumn("not_adjusted", TEXT, "why there is no adjustment although there is a covariate"),
    TableColumn("n_baseline_clusters", COUNT, "how many clusters have a user of the baseline with a value"),
    TableColumn("covariate", TEXT, "the column by which means are adjusted; null if there is none"),
    TableColumn("sequential", FLAG, "whether intervals and p-values hold at all looks together"),
    TableColumn("tightest_at", COUNT, "the number of users at which such intervals are tightest; null without them"),
)  # fmt: skip

#: What `GroupComparison.to_spark` has.
GROUP_COMPARISON = TableColumns("each metric and group", _GROUP_COLUMNS)
#: The table of comparisons of groups of a job.
GROUP_COMPARISONS = TableColumns(
    GROUP_COMPARISON.row,
    (*_GROUP_COLUMNS, _SHARED[TIME]),
)

#: What `Gaps.to_spark` has.
GAPS = TableColumns(
    "each gap between slices",
    _columns(
        f"kind metric model attribute slice other n_users n_other_users mean other_mean difference standard_error {_ENDS} "
        f"interval_method no_interval p {_JUDGED} asked n_left_out cluster level",
        TableColumn("kind", TEXT, "largest gap, or against all others"),
        TableColumn("attribute", TEXT, "what divides the users, such as country"),
        TableColumn("slice", TEXT, "the slice; of the largest gap the one with the highest mean"),
        TableColumn("other", TEXT, "all others, or the slice with the lowest mean"),
        TableColumn("n_users", COUNT, "how many users of the slice have a value"),
        TableColumn("n_other_users", COUNT, "how many of the others have a value"),
        TableColumn("n_left_out", COUNT, "how many slices the largest gap leaves out"),
    ),
)

#: The outcomes of gates of a job.
GATES = TableColumns(
    "each condition, model and slice",
    _columns(
        f"name condition found passed metric model slice on rule value limit earlier changed {TIME}",
        TableColumn("name", TEXT, "the figure in words, after the gate's own name if it has one"),
        TableColumn("condition", TEXT, "the condition in words"),
        TableColumn("found", TEXT, "the figure that was found, in words"),
        TableColumn("passed", FLAG, "whether the condition is met"),
        TableColumn("on", TEXT, "the figure: mean, ci_low or ci_high; of an audit share"),
        TableColumn("rule", TEXT, "the name of the condition, such as max_drop"),
        TableColumn("value", FIGURE, "the value of the figure; null if it is undefined"),
        TableColumn(
            "limit", FIGURE, "the smallest or largest value that passes; null if no earlier run has the figure"
        ),
        TableColumn("earlier", TEXT, "the last good run, if the condition refers to it and there is one"),
        TableColumn("changed", TEXT, "which of labels, users and exclusions are not those of that run"),
    ),
)

#: What `Audit.to_spark` has.
AUDIT = TableColumns(
    "each check",
    _columns(
        "check result n of share not_checked examples",
        TableColumn("check", TEXT, "the name of the check, such as labels_in_training"),
        TableColumn("result", TEXT, "leak, problem or note if there is any; none; not checked"),
        TableColumn("n", COUNT, "how many there are"),
        TableColumn("of", COUNT, "among how many"),
        TableColumn("share", FIGURE, "n / of; NaN if the check was not made, or if there is nothing to count among"),
        TableColumn("not_checked", TEXT, "why the check was not made; empty if it was"),
        TableColumn("examples", TEXT, "up to three of them, in words"),
    ),
)

#: What `DialectMap.to_spark` has.
DIALECT_MAP = TableColumns(
    "each metric and dialect",
    _columns(
        "metric dialect mean difference n_users because definition",
        TableColumn("dialect", TEXT, "the dialect, with the version that was compared"),
        TableColumn("mean", FIGURE, "the mean over the users that the dialect counts; NaN if there is none"),
        TableColumn("difference", FIGURE, "the mean minus that in the default dialect"),
        TableColumn("because", TEXT, "the choices that move the mean, in words"),
    ),
)
