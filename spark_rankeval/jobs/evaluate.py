"""The batch evaluation: two tables and a configuration in; every user's metrics, the summary and an exit code out."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from spark_rankeval.errors import DataError
from spark_rankeval.jobs.config import EvaluateConfig, load_config
from spark_rankeval.jobs.secrets import redacted
from spark_rankeval.jobs.session import job_session, run_job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from spark_rankeval.result import Result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job.

    Args:
        arguments: the command line; None: that of the process.

    Returns:
        0; 2 for a wrong configuration, 3 for bad data, 1 for a crash.
    """
    parser = argparse.ArgumentParser(prog="evaluate", description="Evaluate a table of predictions against labels.")
    parser.add_argument("--config", required=True, metavar="FILE", help="a TOML file; conf/evaluate.toml explains it")
    options = parser.parse_args(arguments)

    loaded: list[EvaluateConfig] = []

    def hide(text: str) -> str:
        return loaded[0].redacted(text) if loaded else redacted(text)

    def job() -> None:
        config = load_config(options.config)
        loaded.append(config)
        with job_session("spark_rankeval evaluate") as spark:
            result, run_id, tables = evaluate_tables(spark, config)
        written = f"run {run_id} written to {config.output.path}: {', '.join(tables)}"
        sys.stdout.write(f"{result!r}\n\n{hide(written)}\n")

    return run_job("evaluate", job, hide)


def evaluate_tables(spark: SparkSession, config: EvaluateConfig) -> tuple[Result, str, tuple[str, ...]]:
    """Read, evaluate once, and write what the configuration asks for.

    Returns:
        the result, the run's id, and the names of the tables that it has a partition of.

    Raises:
        ConfigurationError, InputError, MetricError, OptionError: something is wrong with it; nothing was computed.
        DataError: rows cannot be ranked; nothing was published.
    """
    from spark_rankeval import evaluate, quarantine, score_users, summarise  # noqa: PLC0415 # these import pyspark
    from spark_rankeval.jobs import runs  # noqa: PLC0415
    from spark_rankeval.jobs.tables import read_table  # noqa: PLC0415
    from spark_rankeval.spark.storage import staged  # noqa: PLC0415

    started = datetime.now(UTC)
    sources = config.sources().items()
    tables = {section: None if it is None else read_table(spark, it, section) for section, it in sources}
    call: dict[str, Any] = {**tables, **config.evaluation.scoring(), **vars(config.columns)}
    if config.evaluation.model:
        call["predictions"] = {config.evaluation.model: tables["predictions"]}
    per_user = score_users(**call)
    output, run_id = config.output.path.rstrip("/"), runs.run_id_of(config, tables)
    with staged(per_user, f"{output}/{runs.PER_USER}") as table:
        try:
            result = summarise(table, **config.evaluation.slices(), **config.evaluation.intervals())
        except DataError:
            # The stored counts say how much is wrong; only another look at the data finds examples of it.
            evaluate(**call)
            raise
        runs.write_partition(table, output, runs.PER_USER, run_id, is_empty=table.isEmpty())
    written = [runs.PER_USER]
    if config.evaluation.on_invalid == "quarantine":
        rejected = quarantine(**call)
        runs.write_partition(rejected, output, runs.QUARANTINE, run_id, is_empty=rejected.isEmpty())
        written.append(runs.QUARANTINE)
    runs.write_partition(runs.metrics_table(spark, result, started).coalesce(1), output, runs.METRICS, run_id)
    written.append(runs.METRICS)
    manifest = runs.manifest_of(spark, config, tables, result, run_id, started, tuple(written))
    runs.write_manifest(spark, output, run_id, manifest)
    return result, run_id, (*written, runs.MANIFESTS)
