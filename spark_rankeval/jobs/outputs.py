"""The tables that runs leave, in the output folder or in a catalogue: their names, and how a run's rows are written, read and removed.

On every storage a rerun replaces its own rows alone. Statuses and reports are always in the folder.
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
from pyspark.sql import types as T

from spark_rankeval.errors import ConfigurationError, InputError, OptionError
from spark_rankeval.evaluation.result import Result
from spark_rankeval.jobs.config import Output
from spark_rankeval.records.table_columns import METRICS as METRIC_COLUMNS
from spark_rankeval.records.table_columns import RUN_ID
from spark_rankeval.spark.catalog import (
    CatalogTable,
    exists,
    files_at,
    lines_at,
    make_schema,
    on_this_disk,
    schema_of,
    with_metadata_of,
    writable,
)
from spark_rankeval.spark.engine import engine_of, setting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


#: The tables of runs. Each has the partitioning column `RUN_ID`.
PER_USER, METRICS, QUARANTINE = "per_user", "metrics", "quarantine"
COMPARISONS, GROUP_COMPARISONS = "comparisons", "group_comparisons"
MANIFESTS, STATUS, REPORTS, GATES = "manifests", "status", "reports", "gates"
#: What a manifest has of the columns of users, for catalogues that keep none of it.
USER_COLUMNS = "user_columns"
#: The optional tables of each job.
OPTIONAL = {"evaluate": (QUARANTINE, GATES, REPORTS), "compare": (REPORTS,), "compare_groups": ()}

# Those that are in the catalogue if the configuration names one.
_CATALOG_TABLES = (PER_USER, METRICS, QUARANTINE, COMPARISONS, GROUP_COMPARISONS, GATES, MANIFESTS)
# The folder of the outputs in which the tables of a catalogue on Sail are.
_CATALOG_FOLDER = "catalog"
# The column of a manifest there, as JSON.
_MANIFEST = "manifest"

_PROTOCOL = "spark.sql.sources.commitProtocolClass"
#: Hadoop's binding to committers of object stores. With it Spark refuses dynamic overwrite (S3A's committers, MAPREDUCE-7403), or
#: adds to the partition in silence (file committers, SPARK-56588).
_UNFIT = "PathOutputCommitProtocol"


def place_of(output: Output, table: str, run_id: str) -> str:
    """The path of a run's partition of a table; of a table in a catalogue its name and the run."""
    if _is_in_catalog(output, table):
        return f"{output.catalog}.{table}, {RUN_ID} {run_id}"
    return f"{folder_of(output, table)}/{RUN_ID}={run_id}"


def folder_of(output: Output, table: str) -> str:
    """The path of a table in the output folder, with a partition for each run."""
    return f"{output.path.rstrip('/')}/{table}"


def _is_in_catalog(output: Output, table: str) -> bool:
    return output.catalog is not None and table in _CATALOG_TABLES


def _catalog_table(spark: SparkSession, output: Output, table: str) -> CatalogTable:
    engine = engine_of(spark)
    if not engine.is_spark:
        # What earlier sessions made is in the folder of the schema.
        if not output.path:
            msg = f"the catalogue of {engine.name} is as old as the session; beside {output.catalog} name the output folder, too"
            raise OptionError(msg)
        place = output.path.rstrip("/") if "://" in output.path else str(on_this_disk(output.path).absolute())
        make_schema(spark, str(output.catalog), f"{place}/{_CATALOG_FOLDER}")
    return CatalogTable(spark, f"{output.catalog}.{table}", "output.catalog", output.table_format)


def prepare_catalog(spark: SparkSession, output: Output, schemas: Mapping[str, T.StructType]) -> None:
    """Create tables in the catalogue that are not there yet, and refuse those that cannot take rows of these columns."""
    if output.catalog is None:
        return
    manifest = T.StructType([T.StructField(_MANIFEST, T.StringType(), metadata={"comment": "the manifest as JSON"})])
    for table, schema in {**schemas, MANIFESTS: manifest}.items():
        _catalog_table(spark, output, table).prepare(schema)


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
    frame: DataFrame, output: Output, table: str, run_id: str, kind: str = "parquet", *, is_empty: bool = False
) -> None:
    """Replace a run's rows of a table by rows without the column of the run; ``text`` is of one column."""
    if _is_in_catalog(output, table):
        frame = frame.withColumnRenamed("value", _MANIFEST) if table == MANIFESTS else frame
        there = _catalog_table(frame.sparkSession, output, table)
        there.write(frame.limit(0) if is_empty else frame, run_id)
        return
    # Without a row there is no partition to overwrite dynamically, so the old one would stay.
    if is_empty or not engine_of(frame.sparkSession).is_spark:
        rows = frame.limit(0) if is_empty else frame
        with writable(output.path, "output.path"):
            rows.write.mode("overwrite").format(kind).save(place_of(output, table, run_id))
        return
    marked = frame.withColumn(RUN_ID, F.lit(run_id))
    writer = marked.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy(RUN_ID)
    with writable(output.path, "output.path"):
        writer.format(kind).save(folder_of(output, table))


def write_line(spark: SparkSession, output: Output, table: str, run_id: str, values: Mapping[str, Any]) -> None:
    """Write a run's rows of a table of text: one line of JSON."""
    line = json.dumps(values, ensure_ascii=False, allow_nan=False, default=str)
    write_partition(spark.createDataFrame([(line,)], "value string").coalesce(1), output, table, run_id, "text")


def remove_partition(spark: SparkSession, output: Output, table: str, run_id: str, *, is_on_disk: bool) -> None:
    """Remove a run's rows of a table, if there are any: on the driver's disk the folder, elsewhere the rows."""
    if _is_in_catalog(output, table):
        there = _catalog_table(spark, output, table)
        if there.has_run(run_id):
            there.write(there.rows().limit(0).drop(RUN_ID), run_id)
        return
    place = place_of(output, table, run_id)
    if is_on_disk:
        if on_this_disk(place).is_dir():
            shutil.rmtree(on_this_disk(place))
    elif exists(spark, place):
        # DataFrames cannot remove a folder; a report is text.
        kind = "text" if table == REPORTS else "parquet"
        nothing = spark.createDataFrame([], spark.read.format(kind).load(place).schema)
        write_partition(nothing, output, table, run_id, kind, is_empty=True)


def has_run(spark: SparkSession, output: Output, table: str, run_id: str) -> bool:
    """Whether a table has something of a run."""
    if _is_in_catalog(output, table):
        return _catalog_table(spark, output, table).has_run(run_id)
    return exists(spark, place_of(output, table, run_id))


def has_table(spark: SparkSession, output: Output, table: str) -> bool:
    """Whether any run has left such a table."""
    if _is_in_catalog(output, table):
        return _catalog_table(spark, output, table).frame() is not None
    return exists(spark, folder_of(output, table))


def files_of(spark: SparkSession, output: Output, table: str, run_id: str) -> list[str]:
    """The files of a run in a table of the folder; none of a table in a catalogue, whose files are its own affair."""
    return [] if _is_in_catalog(output, table) else files_at(spark, place_of(output, table, run_id))


def rows_of_users(spark: SparkSession, output: Output, run_id: str, schema: T.StructType | None = None) -> DataFrame:
    """A run's table of users. `schema` says what its columns are; None: what the manifest or the files say."""
    if not _is_in_catalog(output, PER_USER):
        reader = spark.read if schema is None else spark.read.schema(schema)
        return reader.parquet(place_of(output, PER_USER, run_id))
    if schema is None:
        (line,) = manifests_of(spark, output, run_id)
        schema = T.StructType.fromJson(json.loads(line)[USER_COLUMNS])
    # Other runs may have other metrics.
    return with_metadata_of(schema, _catalog_table(spark, output, PER_USER).rows(run_id))


def manifests_of(spark: SparkSession, output: Output, run_id: str) -> list[str]:
    """The manifest of a run as JSON, in a list; none if there is no such run, or it is not whole."""
    if not _is_in_catalog(output, MANIFESTS):
        return lines_at(spark, place_of(output, MANIFESTS, run_id))
    table = _catalog_table(spark, output, MANIFESTS)
    return [] if table.frame() is None else [row[_MANIFEST] for row in table.rows(run_id).collect()]


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
    return result.to_stored(time, spark)


def metrics_schema() -> T.StructType:
    """The columns of the table of metrics."""
    return schema_of(METRIC_COLUMNS.columns)


def read_metrics(spark: SparkSession, output: Output, *, missing_ok: bool = False) -> DataFrame:
    """The table of metrics of all runs; with `missing_ok`, files that have gone are passed over."""
    if _is_in_catalog(output, METRICS):
        return _catalog_table(spark, output, METRICS).rows()
    reader = spark.read.option("ignoreMissingFiles", missing_ok).schema(metrics_schema().add(RUN_ID, "string"))
    return reader.parquet(folder_of(output, METRICS))


def run_facts(
    spark: SparkSession, output: Output, names: Sequence[str], table: str = MANIFESTS, *, missing_ok: bool = False
) -> list[dict[str, Any]]:
    """Facts of the manifests or statuses of all runs, as texts, a dict a run; for `missing_ok` see `read_metrics`."""
    if _is_in_catalog(output, table):
        lines = _catalog_table(spark, output, table).rows().withColumnRenamed(_MANIFEST, "value")
    else:
        reader = spark.read.option("ignoreMissingFiles", missing_ok)
        lines = reader.schema("value string").text(folder_of(output, table))
    chosen = [F.get_json_object("value", f"$.{name}").alias(name) for name in names]
    return [record.asDict() for record in lines.select(*chosen).collect()]
