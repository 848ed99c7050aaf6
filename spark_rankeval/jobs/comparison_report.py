"""The report of a comparison: the models' means side by side, and which is better."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from spark_rankeval.evaluation.summarise import summarise
from spark_rankeval.request.options import parts_of
from spark_rankeval.spark.named_columns import column, find_column
from spark_rankeval.spark.per_user import marked_as_model
from spark_rankeval.statistics.methods import Student

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame

    from spark_rankeval.comparison.result import ModelComparison
    from spark_rankeval.jobs.compare_config import CompareConfig

_MODEL = "model"


def write_comparison_report(
    path: Path,
    config: CompareConfig,
    results: Mapping[str, DataFrame] | DataFrame,
    comparison: ModelComparison,
    manifest: Mapping[str, Any],
) -> None:
    """Write the report to a file on the driver's disk; the models are summarised for it.

    Args:
        path: of the file.
        config: of the run.
        results: the per-user tables, by model, or one of several models.
        comparison: of the run.
        manifest: what is said of the run.
    """
    asked = config.comparison
    several = not hasattr(results, "schema")
    table = _one_table(results) if several else results  # type: ignore[arg-type] # a dict
    summarise(
        table,  # type: ignore[arg-type] # a table by now
        user=asked.user,
        model=_MODEL if several else asked.model,
        by=parts_of(asked.by, totals=asked.totals),
        ci=Student(asked.level),
    ).report(
        path,
        comparison=comparison,
        title=config.report.title,
        distributions=config.report.distributions,
        manifest=manifest,
    )


def _one_table(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Tables of one model each as one of several: the columns that all have, which say of themselves what they say in the first."""
    first = next(iter(tables.values()))
    shared = [
        field
        for field in first.schema.fields
        if field.name.lower() != _MODEL and all(find_column(table, field.name) for table in tables.values())
    ]
    parts = [
        table.select(
            *(column(find_column(table, field.name) or field.name).alias(field.name) for field in shared),
            F.lit(name).alias(_MODEL),
        )
        for name, table in tables.items()
    ]
    together = reduce(lambda one, other: one.unionByName(other), parts)
    # A union need not keep what columns say.
    same = [column(field.name).alias(field.name, metadata=field.metadata) for field in shared]
    return together.select(*same, marked_as_model(F.col(_MODEL), _MODEL, list(tables)))
