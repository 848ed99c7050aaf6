"""A run of the jobs that compare models or groups: per-user tables are read, compared once, and written with the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from spark_rankeval.checks import as_names
from spark_rankeval.comparison import compared_models
from spark_rankeval.comparison.compare_models import ModelComparison, compare, size_of_state
from spark_rankeval.errors import ConfigurationError, MetricError, OptionError
from spark_rankeval.evaluation.summarise import summarise
from spark_rankeval.experiments.compare_groups import GroupComparison, compare_groups, read_groups
from spark_rankeval.jobs import outputs
from spark_rankeval.jobs.config import EventLog, Output, Source
from spark_rankeval.jobs.outputs import Run, about_the_run, folded, planned, read_table, running, write_report
from spark_rankeval.jobs.runs import CompareConfig, CompareGroupsConfig, Comparison, ComparisonConfig, PerUserTable
from spark_rankeval.records.columns import TIME
from spark_rankeval.records.comparisons import COMPARISONS, GROUP_COMPARISONS
from spark_rankeval.request.call import parts_of
from spark_rankeval.spark.catalog import schema_of, table_of
from spark_rankeval.spark.per_user import marked_as_model
from spark_rankeval.spark.sql import column, find_column
from spark_rankeval.statistics.intervals import Student

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from spark_rankeval.spark.models import ModelTables

    #: The per-user tables by model, or one of several models.
    Results = Mapping[str, DataFrame] | DataFrame


_MODEL = "model"


def execute(spark: SparkSession, config: ComparisonConfig, log: EventLog) -> str:
    """Read the per-user tables, compare them once, write what the configuration asks for, and return what is printed."""
    tables = read_per_user(spark, config)
    results = config.compared(tables)
    _check(config, results)
    job, table, columns = "compare_groups", outputs.GROUP_COMPARISONS, GROUP_COMPARISONS
    if isinstance(config, CompareConfig):
        job, table, columns = "compare", outputs.COMPARISONS, COMPARISONS
    with running(spark, job, config, tables, log) as run:
        outputs.prepare_catalog(spark, config.output, {table: schema_of(columns.columns)})
        comparison: ModelComparison | GroupComparison
        if isinstance(config, CompareConfig):
            comparison, seed = compare(results, **config.comparison.arguments()), config.comparison.seed
        else:
            comparison, seed = compare_groups(results, **vars(config.options)), None
        records = ({**record, TIME: run.started} for record in comparison._records())
        run.write(table_of(records, columns, spark).coalesce(1), table)
        if isinstance(config, CompareConfig) and isinstance(comparison, ModelComparison):
            write_report(run, partial(_report, config, results, comparison, run))
        run.publish(run.manifest(comparison.to_dict(), seed))
    # A comparison of models prints its own sentences.
    sentences = "" if isinstance(comparison, ModelComparison) else "\n" + "\n".join(comparison.sentences)
    return f"{comparison.to_text()}{sentences}\n\n{config.written(run.run_id, (*run.written, outputs.MANIFESTS))}"


def _report(config: CompareConfig, results: Results, comparison: ModelComparison, run: Run, path: Path) -> None:
    options = config.comparison
    table, model = (_one_table(results), _MODEL) if isinstance(results, Mapping) else (results, options.model)
    by = parts_of(options.by, totals=options.totals)
    summarise(table, user=options.user, model=model, by=by, cluster=options.cluster, ci=Student(options.level)).report(
        path,
        comparison=comparison,
        title=config.report.title,
        distributions=config.report.distributions,
        manifest=about_the_run(run.manifest(comparison.to_dict(), options.seed)),
    )


def read_per_user(spark: SparkSession, config: ComparisonConfig) -> dict[str, DataFrame]:
    """The tables by their sections; those of runs from where the runs have them."""
    frames: dict[str, DataFrame] = {}
    for section, source in config.sources().items():
        if isinstance(source, PerUserTable) and source.runs is not None:
            frames[section] = _users_of_run(spark, source, source.runs, section)
        else:
            frames[section] = read_table(spark, source, section, config.names_of_ids())
    return frames


def _users_of_run(spark: SparkSession, source: PerUserTable, runs: Output, section: str) -> DataFrame:
    """The users of a run, which must be a whole one."""
    run_id = str(source.run_id)
    with _about_key(section):
        if not outputs.manifests_of(spark, runs, run_id):
            advice = "; if it is in a catalogue, name that, too" if runs.catalog is None else ""
            msg = f"[{section}] the run {run_id!r} in {runs.catalog or runs.path} has no manifest, so it is missing or incomplete{advice}"
            raise ConfigurationError(source.redacted(msg))
        if runs.catalog is not None:
            return outputs.rows_of_users(spark, runs, run_id)
        return read_table(spark, Source(path=outputs.place_of(runs, outputs.PER_USER, run_id)), section)


def _check(config: ComparisonConfig, results: Results) -> dict[str, str]:
    """Find what is wrong before a job runs, and return the metrics with their definitions."""
    if isinstance(config, CompareGroupsConfig):
        return _check_groups(config, results)
    assert isinstance(config, CompareConfig), "there are two jobs"
    options = config.comparison
    tables = compared_models.read_results(results, options.user, options.model, options.cluster)
    names = compared_models.names_of(results, tables)
    compared_models.check_baseline(options.baseline, names)
    with _about_key("comparison.metrics"):
        labels = compared_models.labels_of(tables, options.metrics)
    with _about_key("comparison.margin"):
        compared_models.margins_of(options.margin, tables, labels)
    with _about_key("comparison.headline"):
        compared_models.headline_of(options.headline, tables, labels, options.correction)
    with _about_key("report.distributions"):
        if config.report.distributions:
            compared_models.labels_of(tables, config.report.distributions)
    tables.check_attributes(as_names("by", options.by))
    size_of_state(len(labels), len(names) - 1, options.replicates)
    return _definitions(tables, labels)


@contextmanager
def _about_key(key: str) -> Iterator[None]:
    """Begin errors about metrics and options with the key of the configuration that they are about."""
    try:
        yield
    except (MetricError, OptionError) as error:
        error.args = (f"{key}: {error}", *error.args[1:])
        raise


def _definitions(tables: ModelTables, labels: Sequence[str]) -> dict[str, str]:
    """The definition of each metric, by what the caller called it."""
    return {
        name: tables.tables[0].metrics[label].definition
        for label, name in zip(labels, tables.metric_names(labels), strict=True)
    }


def _check_groups(config: CompareGroupsConfig, results: Results) -> dict[str, str]:
    options = config.experiment
    tables = read_groups(results, options.group, options.user, options.user_weight, options.covariate, options.cluster)
    labels = [metric.label for metric in compared_models.compared_metrics(tables, options.metrics, options.margin)]
    return _definitions(tables, labels)


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


def plan(spark: SparkSession, config: ComparisonConfig) -> str:
    """What a run would do; nothing is computed."""
    tables = read_per_user(spark, config)
    metrics, options = _check(config, config.compared(tables)), config.options
    facts: list[tuple[str, str]] = [("baseline", options.baseline)]
    if isinstance(options, Comparison):
        randomised = options.test == "sign_flip"
        test = f"{options.test}, {options.replicates:,} replicates" if randomised else options.test
        optional: dict[str, Any] = {"headline": options.headline, "slices by": options.by}
        output = outputs.COMPARISONS
    else:
        sequence = f"confidence sequence, tightest at {options.tightest_at:,} users"
        test = sequence if options.sequential else "Welch's"
        optional = {"groups by": options.group, "covariate": options.covariate, "weights": options.user_weight}
        optional["clusters by"] = options.cluster
        output = outputs.GROUP_COMPARISONS
    facts += [("test", test), ("correction", options.correction)]
    facts += [(words, ", ".join(as_names(words, names))) for words, names in optional.items() if names]
    return planned(config, tables, [("metrics", folded(list(metrics.items()))), (config.section, facts)], [output])
