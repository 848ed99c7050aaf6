"""The batch evaluation: two tables and a configuration in; every user's metrics, the summary and an exit code out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_rankeval.jobs.command import Command
from spark_rankeval.jobs.evaluate_config import EvaluateConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_rankeval.jobs.events import EventLog


def _prepare(config: EvaluateConfig) -> None:
    """Contact the tracking server that the run is for."""
    if config.mlflow is not None:
        from spark_rankeval.jobs.tracking import reach  # noqa: PLC0415 # it imports pyspark

        reach(config)


def _run(spark: SparkSession, config: EvaluateConfig, log: EventLog) -> str:
    from spark_rankeval.jobs import evaluate_run  # noqa: PLC0415 # it imports pyspark

    return evaluate_run.evaluate_tables(spark, config, log).text(config)


def _plan(spark: SparkSession, config: EvaluateConfig) -> str:
    from spark_rankeval.jobs import evaluate_run  # noqa: PLC0415 # it imports pyspark

    return evaluate_run.plan(spark, config)


COMMAND = Command(
    "evaluate",
    "Evaluate a table of predictions against labels.",
    EvaluateConfig,
    run=_run,
    plan=_plan,
    formats=("table", "trec", "trec_queries"),
    prepare=_prepare,
)
main, task = COMMAND.main, COMMAND.as_task
