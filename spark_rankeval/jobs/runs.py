"""What a run leaves: in each table a partition of its own, and last of all a manifest, without which it is no whole run.

A partition is replaced by Spark's dynamic overwrite: a run that is repeated, or killed while it writes, touches its own
partitions alone. Everything is written through the DataFrame API, so that it works on every storage that Spark writes to.
"""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T

import spark_rankeval
from spark_rankeval.errors import InputError
from spark_rankeval.jobs.secrets import redacted_settings
from spark_rankeval.long_table import COLUMNS, RUN_ID, TIME, values_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from spark_rankeval.jobs.config import EvaluateConfig
    from spark_rankeval.result import Result

#: The tables in the output folder. Each has the partitioning column `RUN_ID`.
PER_USER, METRICS, QUARANTINE, MANIFESTS = "per_user", "metrics", "quarantine", "manifests"

_TYPES: dict[str, T.DataType] = {
    **dict.fromkeys(("k", "n", "undefined", "zeros"), T.LongType()),
    **dict.fromkeys(
        ("model", "dialect", "metric", "relevance", "slice", "interval", "user_weight", "definition", "moments"),
        T.StringType(),
    ),
    "quantiles": T.MapType(T.DoubleType(), T.DoubleType()),
    "over_all": T.BooleanType(),
}
_METRICS_SCHEMA = T.StructType(
    [T.StructField(name, _TYPES.get(name, T.DoubleType())) for name in COLUMNS]
    + [T.StructField(TIME, T.TimestampType())]
)


def run_id_of(config: EvaluateConfig, tables: Mapping[str, DataFrame | None]) -> str:
    """The id of a run: that of the configuration, or one that the same configuration and files have again.

    Args:
        config: the configuration; its output is no part of the id.
        tables: the tables that are read; their files count, a table without files by its name alone.
    """
    if config.output.run_id is not None:
        return config.output.run_id
    told = redacted_settings(asdict(config))
    del told["output"]
    files = {name: sorted(frame.inputFiles()) for name, frame in tables.items() if frame is not None}
    text = json.dumps([told, files], sort_keys=True, default=str)
    # A letter first: a column of partitions whose names read as numbers or dates is read as such.
    return "r" + hashlib.sha256(text.encode()).hexdigest()[:12]


def place_of(output: str, table: str, run_id: str) -> str:
    """The path of a run's partition of a table: what is read where only that run is wanted."""
    return f"{output.rstrip('/')}/{table}/{RUN_ID}={run_id}"


def write_partition(
    frame: DataFrame, output: str, table: str, run_id: str, kind: str = "parquet", *, is_empty: bool = False
) -> None:
    """Write a run's partition of a table, in the place of the one that this run may have written before.

    Args:
        frame: the rows, without the column of the run.
        output: the folder of all tables.
        table: the table's name.
        run_id: the run.
        kind: ``parquet``, or ``text`` of one column.
        is_empty: there is no row.

    Raises:
        InputError: a column of the rows has the name of the column of runs; nothing was written.
    """
    taken = [name for name in frame.columns if name.lower() == RUN_ID]
    if taken:
        msg = f"the table {table} has a column {taken[0]!r}, which is the name of the column of runs; rename yours"
        raise InputError(msg)
    if is_empty:
        # No row, no partition, and the one that is there would stay.
        frame.limit(0).write.mode("overwrite").format(kind).save(place_of(output, table, run_id))
        return
    marked = frame.withColumn(RUN_ID, F.lit(run_id))
    writer = marked.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy(RUN_ID)
    writer.format(kind).save(f"{output.rstrip('/')}/{table}")


def metrics_table(spark: SparkSession, result: Result, time: datetime) -> DataFrame:
    """The summary as the long table that all runs share: a row a model, metric and slice.

    Args:
        spark: the session.
        result: of the run.
        time: of the run.
    """
    rows = [(*values_of(row), time) for row in result.summary]
    return spark.createDataFrame(rows, _METRICS_SCHEMA)


def manifest_of(
    spark: SparkSession,
    config: EvaluateConfig,
    tables: Mapping[str, DataFrame | None],
    result: Result,
    run_id: str,
    started: datetime,
    written: tuple[str, ...],
) -> dict[str, Any]:
    """What a run was, as plain values: versions, configuration without secrets, inputs, counts, figures, outputs.

    Args:
        spark: the session.
        config: of the run.
        tables: that were read.
        result: of the run.
        run_id: the run.
        started: when it began.
        written: the tables that it wrote.
    """
    return {
        RUN_ID: run_id,
        "started": started.isoformat(),
        "finished": datetime.now(UTC).isoformat(),
        "versions": {
            "spark_rankeval": spark_rankeval.__version__,
            "spark": spark.version,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "pandas": pd.__version__,
            "pyarrow": pa.__version__,
        },
        "config": redacted_settings(asdict(config)),
        "inputs": {
            name: {"columns": dict(frame.dtypes), "n_files": len(frame.inputFiles())}
            for name, frame in tables.items()
            if frame is not None
        },
        "seed": config.evaluation.seed,
        "plan": list(result.plan),
        "outputs": {name: place_of(config.output.path, name, run_id) for name in written},
        **result.to_dict(),
    }


def write_manifest(spark: SparkSession, output: str, run_id: str, manifest: Mapping[str, Any]) -> None:
    """Write the manifest as one line of JSON: of all that a run writes the last."""
    line = json.dumps(manifest, ensure_ascii=False, allow_nan=False, default=str)
    write_partition(spark.createDataFrame([(line,)], "value string").coalesce(1), output, MANIFESTS, run_id, "text")
