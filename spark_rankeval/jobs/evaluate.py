"""The batch evaluation: two tables and a configuration in; every user's metrics, the summary and an exit code out."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from spark_rankeval.errors import ConfigurationError, DataError
from spark_rankeval.jobs.config import EvaluateConfig, load_config
from spark_rankeval.jobs.secrets import redacted
from spark_rankeval.jobs.session import job_session, run_job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from spark_rankeval.result import Result

OUTPUTS = ("per_user", "summary", "summary_json")


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
            result = evaluate_tables(spark, config)
        written = f"written to {config.output.path}: {', '.join(_outputs(config))}"
        sys.stdout.write(f"{result!r}\n\n{hide(written)}\n")

    return run_job("evaluate", job, hide)


def evaluate_tables(spark: SparkSession, config: EvaluateConfig) -> Result:
    """Read, evaluate once, and write what the configuration asks for.

    Raises:
        ConfigurationError, InputError, MetricError, OptionError: something is wrong with it; nothing was computed.
        DataError: rows cannot be ranked; nothing was published.
    """
    from spark_rankeval import evaluate, quarantine, score_users, write_per_user  # noqa: PLC0415 # these import pyspark
    from spark_rankeval.jobs.tables import read_table, write_summary  # noqa: PLC0415
    from spark_rankeval.spark.storage import exists  # noqa: PLC0415

    sources = {"predictions": config.predictions, "labels": config.labels, "users": config.users}
    tables = {section: None if it is None else read_table(spark, it, section) for section, it in sources.items()}
    mode = config.output.mode
    per_user, summary, document, *rejected = (f"{config.output.path.rstrip('/')}/{name}" for name in _outputs(config))
    taken = [
        path for path in (per_user, summary, document, *rejected) if mode == "errorifexists" and exists(spark, path)
    ]
    if taken:
        msg = f"output.path: {', '.join(taken)} is there already; choose another path, or set output.mode = 'overwrite'"
        raise ConfigurationError(msg)
    call: dict[str, Any] = {**tables, **config.evaluation.scoring(), **vars(config.columns)}
    if config.evaluation.model:
        call["predictions"] = {config.evaluation.model: tables["predictions"]}
    try:
        result = write_per_user(score_users(**call), per_user, mode, **config.evaluation.intervals())
    except DataError:
        # The stored counts say how much is wrong; only another look at the data finds examples of it.
        evaluate(**call)
        raise
    for path in rejected:
        quarantine(**call).write.mode(mode).parquet(path)
    write_summary(spark, result, summary, document, mode)
    return result


def _outputs(config: EvaluateConfig) -> tuple[str, ...]:
    """The names of what is written: with a quarantine also the rows in it."""
    return (*OUTPUTS, "quarantine") if config.evaluation.on_invalid == "quarantine" else OUTPUTS
