"""A run of the job that compares: per-user tables are read, compared once, and written with all that is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from spark_rankeval.checks import as_names
from spark_rankeval.comparison import comparison_inputs
from spark_rankeval.comparison.compare_models import compare, size_of_state
from spark_rankeval.comparison.comparison_results import ModelComparison
from spark_rankeval.errors import ConfigurationError
from spark_rankeval.evaluation.result import Result
from spark_rankeval.evaluation.summarise import summarise
from spark_rankeval.jobs import runs
from spark_rankeval.jobs.compare import CompareConfig, PerUserTable
from spark_rankeval.jobs.config import JobConfig, Source
from spark_rankeval.jobs.dry_run import folded, planned
from spark_rankeval.jobs.events import EventLog
from spark_rankeval.jobs.job_tables import check_committer, place_of, read_tables
from spark_rankeval.jobs.reporting import about_the_run, write_report
from spark_rankeval.request.options import parts_of
from spark_rankeval.spark.per_user import marked_as_model
from spark_rankeval.spark.sql_text import column, find_column
from spark_rankeval.spark.storage import exists
from spark_rankeval.statistics.intervals import Student

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    #: The per-user tables by model, or one of several models.
    Results = Mapping[str, DataFrame] | DataFrame


#: Columns of the table of comparisons that have another name in `ComparisonRow`.
_RENAMED = {"n": "n_users", "undefined": "n_undefined", "low": "interval_low", "high": "interval_high"}
_COLUMNS = (
    "metric string, model string, baseline string, slice string, n bigint, undefined bigint, mean double, baseline_mean double, "
    "difference double, relative_lift double, std double, standard_error double, low double, high double, p_t double, "
    "p_sign_flip double, p double, cohens_d double, wins bigint, ties bigint, losses bigint, margin double, "
    "larger_is_better boolean, verdict string, sentence string, level double, test string, correction string, time timestamp_ltz, "
    "interval_method string, p_margin double, cluster string, n_clusters bigint, design_effect double"
)
_MODEL = "model"


def prepare(config: CompareConfig) -> None:
    """Nothing is to be done before Spark starts."""


def execute(spark: SparkSession, config: CompareConfig, log: EventLog) -> str:
    """Read the per-user tables, compare them once, write what the configuration asks for, and return what is printed."""
    tables = read_per_user(spark, config)
    results = _results(config, tables)
    _check(config, results)
    with runs.running(spark, "compare", config, tables, log) as run:
        comparison = compare(results, **config.comparison.options())
        run.write(_comparisons_table(spark, comparison, run.started).coalesce(1), runs.COMPARISONS)
        facts, seed = comparison.to_dict(), config.comparison.seed

        def report(path: Path) -> None:
            _summarised(config, results).report(
                path,
                comparison=comparison,
                title=config.report.title,
                distributions=config.report.distributions,
                manifest=about_the_run(run.manifest(facts, seed)),
            )

        write_report(run, report)
        run.publish(run.manifest(facts, seed))
    sentences = "\n".join(comparison.sentences)
    return f"{comparison!r}\n{sentences}\n\n{config.written(run.run_id, (*run.written, runs.MANIFESTS))}"


def _comparisons_table(spark: SparkSession, comparison: ModelComparison, time: datetime) -> DataFrame:
    """The comparison of a run as the table that all runs share: a row a metric, model and slice."""
    of_all = {"level": comparison.level, "correction": comparison.correction, "time": time}
    records = [{**vars(row), **of_all, "test": row.p_test} for row in (*comparison.rows, *comparison.sliced)]
    columns = [column.split()[0] for column in _COLUMNS.split(", ")]
    rows = [tuple(record[_RENAMED.get(column, column)] for column in columns) for record in records]
    return spark.createDataFrame(rows, _COLUMNS)


def read_per_user(spark: SparkSession, config: JobConfig) -> dict[str, DataFrame]:
    """The tables by their sections; those of runs from where the runs have them."""
    sources = config.sources()
    for section, source in sources.items():
        if isinstance(source, PerUserTable) and source.output is not None:
            sources[section] = _partition(spark, source, section)
    return read_tables(spark, sources, config.names_of_ids())


def _partition(spark: SparkSession, source: PerUserTable, section: str) -> Source:
    """Where a run has its users; it must be a whole one."""
    output, run_id = str(source.output), str(source.run_id)
    manifest = place_of(output, runs.MANIFESTS, run_id)
    if not exists(spark, manifest) or spark.read.text(manifest).isEmpty():
        msg = f"[{section}] the run {run_id!r} in {output} has no manifest, so it is missing or incomplete"
        raise ConfigurationError(source.redacted(msg))
    return Source(path=place_of(output, runs.PER_USER, run_id))


def _results(config: CompareConfig, tables: Mapping[str, DataFrame]) -> Results:
    return {name: tables[f"models.{name}"] for name in config.models} or tables["results"]


def _check(config: CompareConfig, results: Results) -> dict[str, str]:
    """Find what is wrong before a job runs, and return the metrics with their definitions."""
    asked = config.comparison
    tables = comparison_inputs.read_results(results, asked.user, asked.model, asked.cluster)
    comparison_inputs.check_baseline(asked.baseline, comparison_inputs.names_of(results, tables))
    labels = comparison_inputs.labels_of(tables, asked.metrics)
    comparison_inputs.margins_of(asked.margin, tables, labels)
    if config.report.distributions:
        comparison_inputs.labels_of(tables, config.report.distributions)
    tables.check_attributes(as_names("by", asked.by))
    n_models = len(comparison_inputs.names_of(results, tables))
    size_of_state(len(labels), max(n_models - 1, 1), asked.replicates)
    return {label: tables.tables[0].metrics[label].definition for label in labels}


def _summarised(config: CompareConfig, results: Results) -> Result:
    asked = config.comparison
    table, model = (_one_table(results), _MODEL) if isinstance(results, Mapping) else (results, asked.model)
    return summarise(
        table,
        user=asked.user,
        model=model,
        by=parts_of(asked.by, totals=asked.totals),
        cluster=asked.cluster,
        ci=Student(asked.level),
    )


def _one_table(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Tables of one model each as one of several, with the columns that all have, and the metadata of the first."""
    first = next(iter(tables.values()))
    shared = [
        field
        for field in first.schema.fields
        if field.name.lower() != _MODEL and all(find_column(table, field.name) for table in tables.values())
    ]
    parts = []
    for model, table in tables.items():
        columns = [column(find_column(table, field.name) or field.name).alias(field.name) for field in shared]
        parts.append(table.select(*columns, F.lit(model).alias(_MODEL)))
    together = reduce(lambda above, below: above.unionByName(below), parts)
    # A union need not keep the metadata of columns.
    columns = [column(field.name).alias(field.name, metadata=field.metadata) for field in shared]
    return together.select(*columns, marked_as_model(F.col(_MODEL), _MODEL, list(tables)))


def plan(spark: SparkSession, config: CompareConfig) -> str:
    """What a run would do; nothing is computed."""
    check_committer(spark)
    tables = read_per_user(spark, config)
    metrics = _check(config, _results(config, tables))
    asked = config.comparison
    test = f"{asked.test}, {asked.replicates:,} replicates" if asked.test == "sign_flip" else asked.test
    options = [("baseline", asked.baseline), ("test", test), ("correction", asked.correction)]
    if asked.by:
        options.append(("slices by", ", ".join(as_names("by", asked.by))))
    parts = [("metrics", folded(list(metrics.items()))), ("comparison", options)]
    return planned(config, tables, parts, [runs.COMPARISONS])
