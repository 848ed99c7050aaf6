"""A run's partitions of the tables that all runs share: where each one is, and how it is replaced.

Spark's dynamic overwrite replaces one partition and touches no other: a run that is repeated, or killed while it writes, spoils
its own alone. Everything is written through the DataFrame API, so that it works on every storage where that overwrite does.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from spark_rankeval.errors import ConfigurationError, InputError
from spark_rankeval.records.metrics_table import RUN_ID
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
    """The path of a run's partition of a table: what is read where only that run is wanted."""
    return f"{output.rstrip('/')}/{table}/{RUN_ID}={run_id}"


def on_this_disk(place: str) -> Path:
    """Where a place would be if it were on the driver's disk."""
    return Path(place.removeprefix("file://").removeprefix("file:"))


def check_committer(spark: SparkSession) -> None:
    """Refuse a session that cannot replace one partition of a table.

    Raises:
        ConfigurationError: its commit protocol is not known to do that.
    """
    protocol = setting(spark, _PROTOCOL, "")
    if protocol.endswith(_UNFIT):
        msg = (
            f"this session's {_PROTOCOL} is {protocol}, which fails to replace one partition of a table, or adds to it. Start the "
            f"job with --conf {_PROTOCOL}=org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol "
            "--conf spark.sql.parquet.output.committer.class=org.apache.parquet.hadoop.ParquetOutputCommitter"
        )
        raise ConfigurationError(msg)


def check_columns(table: str, frame: DataFrame) -> None:
    """Refuse rows that cannot be a partition of a table of runs.

    Raises:
        InputError: a column has the name of the column of runs.
    """
    taken = [name for name in frame.columns if name.lower() == RUN_ID]
    if taken:
        msg = f"the table {table} has a column {taken[0]!r}, which is the name of the column of runs; rename yours"
        raise InputError(msg)


def write_partition(
    frame: DataFrame, output: str, table: str, run_id: str, kind: str = "parquet", *, is_empty: bool = False
) -> None:
    """Write a run's partition of a table, in the place of the one that this run may have written before.

    The rows lack the column of the run. The output is the folder of all tables; the kind is ``parquet``, or ``text`` of one column.

    Raises:
        OptionError: nothing can be written there.
    """
    if is_empty:
        # No row, no partition, and the one that is there would stay.
        with writable(output, "output.path"):
            frame.limit(0).write.mode("overwrite").format(kind).save(place_of(output, table, run_id))
        return
    marked = frame.withColumn(RUN_ID, F.lit(run_id))
    writer = marked.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy(RUN_ID)
    with writable(output, "output.path"):
        writer.format(kind).save(f"{output.rstrip('/')}/{table}")


def write_line(spark: SparkSession, output: str, table: str, run_id: str, values: Mapping[str, Any]) -> None:
    """Write a run's partition of a table of text: one line of JSON."""
    line = json.dumps(values, ensure_ascii=False, allow_nan=False, default=str)
    write_partition(spark.createDataFrame([(line,)], "value string").coalesce(1), output, table, run_id, "text")
