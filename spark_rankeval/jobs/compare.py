"""The batch comparison: per-user tables and a configuration in; differences, verdicts and an exit code out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_rankeval.jobs.command import Command
from spark_rankeval.jobs.compare_config import CompareConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_rankeval.jobs.events import EventLog


def _run(spark: SparkSession, config: CompareConfig, log: EventLog) -> str:
    from spark_rankeval.jobs import compare_run  # noqa: PLC0415 # it imports pyspark

    comparison, run_id, tables = compare_run.compare_tables(spark, config, log)
    sentences = "\n".join(comparison.sentences)
    return f"{comparison!r}\n{sentences}\n\n{config.written(run_id, tables)}"


def _plan(spark: SparkSession, config: CompareConfig) -> str:
    from spark_rankeval.jobs import compare_run  # noqa: PLC0415 # it imports pyspark

    return compare_run.plan(spark, config)


COMMAND = Command(
    "compare",
    "Compare models with a baseline on the same users, from their per-user tables.",
    CompareConfig,
    run=_run,
    plan=_plan,
)
main, task = COMMAND.main, COMMAND.as_task
