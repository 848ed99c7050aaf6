"""A run of the job that compares groups of different users: per-user tables are read, compared once, and the rows written."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from spark_rankeval.checks import as_names
from spark_rankeval.comparison.comparison_inputs import compared_metrics
from spark_rankeval.comparison.comparison_results import GroupComparison
from spark_rankeval.comparison.group_comparison import compare_groups, read_groups
from spark_rankeval.jobs import runs
from spark_rankeval.jobs.compare_groups import CompareGroupsConfig
from spark_rankeval.jobs.compare_run import read_per_user
from spark_rankeval.jobs.dry_run import folded, planned
from spark_rankeval.jobs.events import EventLog
from spark_rankeval.jobs.job_tables import check_committer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


#: Columns of the table of comparisons that have another name in `GroupRow`.
_RENAMED = {
    "n": "n_users", "n_baseline": "n_baseline_users", "undefined": "n_undefined", "low": "interval_low", "high": "interval_high",
}  # fmt: skip
_COLUMNS = (
    "metric string, group string, baseline string, n bigint, n_baseline bigint, undefined bigint, mean double, baseline_mean double, "
    "difference double, relative_lift double, standard_error double, df double, low double, high double, interval_method string, "
    "no_interval string, p double, margin double, larger_is_better boolean, verdict string, sentence string, covariate string, "
    "theta double, variance_saved double, n_without_covariate bigint, not_adjusted string, cluster string, n_clusters bigint, "
    "n_baseline_clusters bigint, level double, correction string, sequential boolean, tightest_at bigint, time timestamp_ltz"
)


def prepare(config: CompareGroupsConfig) -> None:
    """Nothing is to be done before Spark starts."""


def execute(spark: SparkSession, config: CompareGroupsConfig, log: EventLog) -> str:
    """Read the per-user tables, compare their groups once, write the rows, and return what is printed."""
    tables = read_per_user(spark, config)
    _check(config, tables)
    with runs.running(spark, "compare_groups", config, tables, log) as run:
        comparison = compare_groups(_results(config, tables), **config.experiment.options())
        run.write(_rows(spark, comparison, run.started).coalesce(1), runs.GROUP_COMPARISONS)
        run.publish(run.manifest(comparison.to_dict(), None))
    sentences = "\n".join(comparison.sentences)
    return f"{comparison!r}\n{sentences}\n\n{config.written(run.run_id, (*run.written, runs.MANIFESTS))}"


def _rows(spark: SparkSession, comparison: GroupComparison, time: datetime) -> DataFrame:
    """The comparison of a run as the table that all runs share: a row a metric and group."""
    of_all = {
        "level": comparison.level,
        "correction": comparison.correction,
        "covariate": comparison.covariate,
        "sequential": comparison.sequential,
        "tightest_at": comparison.tightest_at,
        "time": time,
    }
    records = [vars(row) | of_all for row in comparison.rows]
    columns = [column.split()[0] for column in _COLUMNS.split(", ")]
    rows = [tuple(record[_RENAMED.get(column, column)] for column in columns) for record in records]
    return spark.createDataFrame(rows, _COLUMNS)


def _results(config: CompareGroupsConfig, tables: Mapping[str, DataFrame]) -> Mapping[str, DataFrame] | DataFrame:
    return {name: tables[f"groups.{name}"] for name in config.groups} or tables["results"]


def _check(config: CompareGroupsConfig, tables: Mapping[str, DataFrame]) -> dict[str, str]:
    """Find what is wrong before a job runs, and return the metrics with their definitions."""
    asked = config.experiment
    read = read_groups(
        _results(config, tables), asked.group, asked.user, asked.user_weight, asked.covariate, asked.cluster
    )
    labels = [metric.label for metric in compared_metrics(read, asked.metrics, asked.margin)]
    return {label: read.tables[0].metrics[label].definition for label in labels}


def plan(spark: SparkSession, config: CompareGroupsConfig) -> str:
    """What a run would do; nothing is computed."""
    check_committer(spark)
    tables = read_per_user(spark, config)
    metrics, asked = _check(config, tables), config.experiment
    test = f"confidence sequence, tightest at {asked.tightest_at:,} users" if asked.sequential else "Welch's"
    options = [("baseline", asked.baseline), ("test", test), ("correction", asked.correction)]
    further = {"groups by": asked.group, "covariate": asked.covariate, "weights": asked.user_weight}
    options += [(words, name) for words, name in further.items() if name is not None]
    if asked.cluster:
        options.append(("clusters by", ", ".join(as_names("cluster", asked.cluster))))
    return planned(
        config, tables, [("metrics", folded(list(metrics.items()))), ("experiment", options)], [runs.GROUP_COMPARISONS]
    )
