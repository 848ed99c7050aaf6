"""The batch comparison: per-user tables and a configuration in; differences, verdicts and an exit code out."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from spark_rankeval.checks import as_names
from spark_rankeval.errors import ConfigurationError
from spark_rankeval.jobs.command import Command
from spark_rankeval.jobs.compare_config import CompareConfig, PerUserTable
from spark_rankeval.jobs.config import Source
from spark_rankeval.jobs.events import EventLog

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from spark_rankeval.comparison.result import ModelComparison

#: The columns of the table of comparisons; those of no other name in `ComparisonRow` have it there too.
_RENAMED = {"n_users": "n", "n_undefined": "undefined", "interval_low": "low", "interval_high": "high"}
_COLUMNS = (
    "metric string, model string, baseline string, slice string, n bigint, undefined bigint, mean double, baseline_mean double, "
    "difference double, relative_lift double, std double, standard_error double, low double, high double, p_t double, "
    "p_sign_flip double, p double, cohens_d double, wins bigint, ties bigint, losses bigint, margin double, "
    "larger_is_better boolean, verdict string, sentence string, level double, test string, correction string, time timestamp, "
    "interval_method string, p_margin double"
)


def _run(spark: SparkSession, config: CompareConfig, log: EventLog) -> str:
    comparison, run_id, tables = compare_tables(spark, config, log)
    sentences = "\n".join(comparison.sentences)
    return f"{comparison!r}\n{sentences}\n\n{config.written(run_id, tables)}"


def compare_tables(
    spark: SparkSession, config: CompareConfig, log: EventLog | None = None
) -> tuple[ModelComparison, str, tuple[str, ...]]:
    """Read the per-user tables, compare them once, and write what the configuration asks for.

    Args:
        spark: the session.
        config: of the run.
        log: what is told meanwhile; None: nothing.

    Returns:
        the comparison, the run's id, and the names of the tables that it has a partition of.

    Raises:
        ConfigurationError, InputError, MetricError, OptionError: something is wrong with it; nothing was computed.
        DataError: a user stands twice, or rows could not be ranked; nothing was published.
        SupersededError: a later attempt has taken the run's name.
    """
    from spark_rankeval.comparison.compare import compare  # noqa: PLC0415 # these import pyspark
    from spark_rankeval.jobs import runs  # noqa: PLC0415
    from spark_rankeval.jobs.comparison_report import write_comparison_report  # noqa: PLC0415
    from spark_rankeval.jobs.reporting import about_the_run, write_report  # noqa: PLC0415

    log = EventLog("compare") if log is None else log
    tables = _read(spark, config)
    results = _results(config, tables)
    _check(config, results)
    with runs.running(spark, "compare", config, tables, log) as run:
        comparison = compare(results, **config.comparison.options())
        run.write(comparisons_table(spark, comparison, run.started).coalesce(1), runs.COMPARISONS)
        told = comparison.to_dict()

        def report(path: Path) -> None:
            manifest = about_the_run(run.manifest(told, config.comparison.seed))
            write_comparison_report(path, config, results, comparison, manifest)

        write_report(run, report)
        run.publish(run.manifest(told, config.comparison.seed))
    return comparison, run.run_id, (*run.written, runs.MANIFESTS)


def comparisons_table(spark: SparkSession, comparison: ModelComparison, time: datetime) -> DataFrame:
    """The comparison as the long table that all runs share: a row a metric, model and slice.

    Args:
        spark: the session.
        comparison: of the run.
        time: of the run.
    """
    of_all = {
        "level": comparison.level,
        "correction": comparison.correction,
        "time": time,
    }
    records = [
        {**asdict(row), **of_all, "test": row.p_test} for rows in (comparison.rows, comparison.sliced) for row in rows
    ]
    names = {new: old for old, new in _RENAMED.items()}
    columns = [column.split()[0] for column in _COLUMNS.split(", ")]
    rows = [tuple(record[names.get(column, column)] for column in columns) for record in records]
    return spark.createDataFrame(rows, _COLUMNS)


def _read(spark: SparkSession, config: CompareConfig) -> dict[str, DataFrame | None]:
    """The tables by their sections; those of runs from where the runs have them."""
    from spark_rankeval.jobs.tables import read_tables  # noqa: PLC0415

    sources = config.sources()
    for section, source in sources.items():
        if isinstance(source, PerUserTable) and source.output is not None:
            sources[section] = _partition(spark, source, section)
    return read_tables(spark, sources, config.names_of_ids())


def _partition(spark: SparkSession, source: PerUserTable, section: str) -> Source:
    """Where a run has its users.

    Raises:
        ConfigurationError: there is no such run, or not the whole of it.
    """
    from spark_rankeval.jobs import runs  # noqa: PLC0415
    from spark_rankeval.jobs.partitions import place_of  # noqa: PLC0415
    from spark_rankeval.spark.storage import exists  # noqa: PLC0415

    output, run_id = str(source.output), str(source.run_id)
    manifest = place_of(output, runs.MANIFESTS, run_id)
    if not exists(spark, manifest) or spark.read.text(manifest).isEmpty():
        msg = f"[{section}] there is no whole run {run_id!r} in {output}: it has no manifest there"
        raise ConfigurationError(source.redacted(msg))
    return Source(path=place_of(output, runs.PER_USER, run_id))


def _results(config: CompareConfig, tables: Mapping[str, DataFrame | None]) -> Mapping[str, DataFrame] | DataFrame:
    """The tables as `compare` takes them."""
    models = {name: tables[f"models.{name}"] for name in config.models}
    return {name: table for name, table in models.items() if table is not None} or tables["results"]  # type: ignore[return-value] # one of the two


def _check(config: CompareConfig, results: Mapping[str, DataFrame] | DataFrame) -> dict[str, str]:
    """Find what can be found before a job; gives the metrics with their definitions."""
    from spark_rankeval.comparison import inputs  # noqa: PLC0415
    from spark_rankeval.comparison.compare import size_of_state  # noqa: PLC0415

    asked = config.comparison
    tables = inputs.read_results(results, asked.user, asked.model)
    inputs.check_baseline(asked.baseline, inputs.names_of(results, tables))
    labels = inputs.labels_of(tables, asked.metrics)
    inputs.margins_of(asked.margin, tables, labels)
    if config.report.distributions:
        inputs.labels_of(tables, config.report.distributions)
    tables.check_attributes(as_names("by", asked.by))
    n_models = len(inputs.names_of(results, tables))
    size_of_state(len(labels), max(n_models - 1, 1), asked.replicates)
    return {label: tables.tables[0].metrics[label].definition for label in labels}


def _plan(spark: SparkSession, config: CompareConfig) -> str:
    """What a run would do; nothing is computed."""
    from spark_rankeval.jobs import runs  # noqa: PLC0415
    from spark_rankeval.jobs.dry_run import folded, planned  # noqa: PLC0415
    from spark_rankeval.jobs.partitions import check_committer  # noqa: PLC0415

    check_committer(spark)
    tables = _read(spark, config)
    metrics = _check(config, _results(config, tables))
    asked = config.comparison
    options = [
        ("baseline", asked.baseline),
        ("test", f"{asked.test}, {asked.replicates:,} replicates" if asked.test == "sign_flip" else asked.test),
        ("correction", asked.correction),
        *[("slices by", ", ".join(as_names("by", asked.by)))] * bool(asked.by),
    ]
    outputs = [runs.COMPARISONS, *[runs.REPORTS] * (config.output.report is True), runs.MANIFESTS, runs.STATUS]
    return planned(config, tables, [("metrics", folded(list(metrics.items()))), ("comparison", options)], outputs)


COMMAND = Command(
    "compare",
    "Compare models with a baseline on the same users, from their per-user tables.",
    CompareConfig,
    run=_run,
    plan=_plan,
)
main, task = COMMAND.main, COMMAND.as_task
