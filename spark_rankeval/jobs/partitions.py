"""A run's partitions of the tables that all runs share. On every storage a rerun replaces its own partitions alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from spark_rankeval.errors import ConfigurationError, InputError
from spark_rankeval.records.stored import RUN_ID
from spark_rankeval.spark.engines import engine_of
from spark_rankeval.spark.platforms import setting
from spark_rankeval.spark.storage import writable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

_PROTOCOL = "spark.sql.sources.commitProtocolClass"
#: Hadoop's binding to committers of object stores. With it Spark refuses dynamic overwrite (S3A's committers, MAPREDUCE-7403), or
#: adds to the partition in silence (file committers, SPARK-56588).
_UNFIT = "PathOutputCommitProtocol"


def place_of(output: str, table: str, run_id: str) -> str:
    """The path of a run's partition of a table."""
    return f"{output.rstrip('/')}/{table}/{RUN_ID}={run_id}"


def on_this_disk(place: str) -> Path:
    """The path of a place if it is on the driver's disk."""
    return Path(place.removeprefix("file://").removeprefix("file:"))


def check_committer(spark: SparkSession) -> None:
    """Refuse a session whose commit protocol cannot replace one partition of a table."""
    protocol = setting(spark, _PROTOCOL, "")
    if protocol.endswith(_UNFIT):
        msg = (
            f"this session's {_PROTOCOL} is {protocol}, which cannot replace one partition of a table. Start the job with "
            f"--conf {_PROTOCOL}=org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol --conf "
            "spark.sql.parquet.output.committer.class=org.apache.parquet.hadoop.ParquetOutputCommitter"
        )
        raise ConfigurationError(msg)


def check_columns(table: str, frame: DataFrame) -> None:
    """Refuse a table with a column of the name of the column of runs."""
    taken = [name for name in frame.columns if name.lower() == RUN_ID]
    if taken:
        msg = f"the table {table} has a column {taken[0]!r}, the name of the column of run ids; rename your column"
        raise InputError(msg)


def write_partition(
    frame: DataFrame, output: str, table: str, run_id: str, kind: str = "parquet", *, is_empty: bool = False
) -> None:
    """Replace a run's partition of a table by rows without the column of the run; ``text`` is of one column."""
    # Without a row there is no partition to overwrite dynamically, so the old one would stay.
    if is_empty or not engine_of(frame.sparkSession).replaces_partitions:
        rows = frame.limit(0) if is_empty else frame
        with writable(output, "output.path"):
            rows.write.mode("overwrite").format(kind).save(place_of(output, table, run_id))
        return
    marked = frame.withColumn(RUN_ID, F.lit(run_id))
    writer = marked.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy(RUN_ID)
    with writable(output, "output.path"):
        writer.format(kind).save(f"{output.rstrip('/')}/{table}")


def write_line(spark: SparkSession, output: str, table: str, run_id: str, values: Mapping[str, Any]) -> None:
    """Write a run's partition of a table of text: one line of JSON."""
    line = json.dumps(values, ensure_ascii=False, allow_nan=False, default=str)
    write_partition(spark.createDataFrame([(line,)], "value string").coalesce(1), output, table, run_id, "text")
