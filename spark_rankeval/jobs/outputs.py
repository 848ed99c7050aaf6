"""The tables that a run leaves in the output folder: their names, and how its partitions there are written, read and removed.

On every storage a rerun replaces its own partitions alone.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from spark_rankeval.errors import ConfigurationError, InputError
from spark_rankeval.evaluation.result import Result
from spark_rankeval.records.stored import COLUMNS, RUN_ID, TIME, values_of
from spark_rankeval.spark.platforms import engine_of, setting
from spark_rankeval.spark.storage import exists, writable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


#: The tables in the output folder. Each has the partitioning column `RUN_ID`.
PER_USER, METRICS, QUARANTINE = "per_user", "metrics", "quarantine"
COMPARISONS, GROUP_COMPARISONS = "comparisons", "group_comparisons"
MANIFESTS, STATUS, REPORTS, GATES = "manifests", "status", "reports", "gates"
#: The optional tables of each job.
OPTIONAL = {"evaluate": (QUARANTINE, GATES, REPORTS), "compare": (REPORTS,), "compare_groups": ()}

# The types of columns that are not doubles.
_TYPES = {
    **dict.fromkeys(("k", "n", "undefined", "zeros", "n_clusters"), "bigint"),
    **dict.fromkeys(("model", "dialect", "metric", "relevance", "slice", "interval", "user_weight"), "string"),
    **dict.fromkeys(("definition", "moments", "cluster", "cluster_sums", "asked"), "string"),
    **{"quantiles": "map<double,double>", "fingerprints": "map<string,string>", "over_all": "boolean"},
    TIME: "timestamp_ltz",
}
_METRICS_SCHEMA = ", ".join(f"`{name}` {_TYPES.get(name, 'double')}" for name in (*COLUMNS, TIME))

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


def remove_partition(spark: SparkSession, output: str, table: str, run_id: str, *, is_on_disk: bool) -> None:
    """Remove a run's partition of a table, if there is one: on the driver's disk the folder, elsewhere the rows."""
    place = place_of(output, table, run_id)
    if is_on_disk:
        if on_this_disk(place).is_dir():
            shutil.rmtree(on_this_disk(place))
    elif exists(spark, place):
        # DataFrames cannot remove a folder; a report is text.
        kind = "text" if table == REPORTS else "parquet"
        nothing = spark.createDataFrame([], spark.read.format(kind).load(place).schema)
        write_partition(nothing, output, table, run_id, kind, is_empty=True)


def texts_on_disk(place: str) -> dict[Path, str]:
    """The visible files of text in a folder of the driver's disk, with what they hold."""
    texts = {}
    # A file may be replaced meanwhile, or not be the driver's to read.
    with suppress(OSError):
        for file in on_this_disk(place).rglob("[!._]*"):
            if file.is_file():
                texts[file] = file.read_text(encoding="utf-8", errors="replace")
    return texts


def metrics_table(spark: SparkSession, result: Result, time: datetime) -> DataFrame:
    """The summary as the table that all runs share: one row per model, metric and slice."""
    return spark.createDataFrame([(*values_of(row), time) for row in result.summary], _METRICS_SCHEMA)


def read_metrics(spark: SparkSession, output: str, *, missing_ok: bool = False) -> DataFrame:
    """The table of metrics of all runs in a folder of outputs; with `missing_ok`, files that have gone are passed over."""
    # Names of runs stay text.
    reader = spark.read.option("ignoreMissingFiles", missing_ok)
    return reader.schema(f"{_METRICS_SCHEMA}, {RUN_ID} string").parquet(f"{output.rstrip('/')}/{METRICS}")


def run_facts(
    spark: SparkSession, output: str, names: Sequence[str], table: str = MANIFESTS, *, missing_ok: bool = False
) -> list[dict[str, Any]]:
    """Facts of the manifests or statuses of all runs, as texts, a dict a run; for `missing_ok` see `read_metrics`."""
    reader = spark.read.option("ignoreMissingFiles", missing_ok)
    lines = reader.schema("value string").text(f"{output.rstrip('/')}/{table}")
    chosen = [F.get_json_object("value", f"$.{name}").alias(name) for name in names]
    return [record.asDict() for record in lines.select(*chosen).collect()]
