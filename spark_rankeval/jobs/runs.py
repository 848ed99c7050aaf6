"""What a run leaves: in each table a partition of its own, and last of all a manifest, without which it is no whole run.

A partition is replaced by Spark's dynamic overwrite: a run that is repeated, or killed while it writes, touches its own
partitions alone. Everything is written through the DataFrame API, so that it works on every storage that Spark writes to.
A run that replaces an earlier one of its name takes the earlier manifest away first, so that a manifest never names
tables of two runs.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T

import spark_rankeval
from spark_rankeval.errors import ConfigurationError, InputError, OptionError
from spark_rankeval.jobs.secrets import redacted_settings
from spark_rankeval.jobs.session import OK, outcome_of
from spark_rankeval.jobs.tables import told_of
from spark_rankeval.jobs.wording import errors_in_keys
from spark_rankeval.long_table import COLUMNS, RUN_ID, TIME, values_of
from spark_rankeval.python_workers import workers_explained
from spark_rankeval.spark.platforms import input_files
from spark_rankeval.spark.storage import exists, writable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from spark_rankeval.jobs.config import JobConfig
    from spark_rankeval.jobs.events import EventLog
    from spark_rankeval.result import Result

#: The tables in the output folder. Each has the partitioning column `RUN_ID`.
PER_USER, METRICS, QUARANTINE, COMPARISONS = "per_user", "metrics", "quarantine", "comparisons"
MANIFESTS, STATUS, REPORTS, GATES = "manifests", "status", "reports", "gates"
#: Those that a run has only if it is asked for them.
_OPTIONAL = {"evaluate": (QUARANTINE, GATES, REPORTS), "compare": (REPORTS,)}

# How often a configuration with secrets is hashed: a tenth of a second, which makes trying many passwords slow.
_ROUNDS = 200_000

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


@dataclass
class Run:
    """A run under way: where it writes, and what it has written.

    Attributes:
        spark: the session.
        job: the name of the job.
        config: of the run.
        tables: that it reads, by their sections.
        log: what is told.
        run_id: its name.
        started: when it began.
        written: the tables of which it has a partition now, and where.
    """

    spark: SparkSession
    job: str
    config: JobConfig
    tables: Mapping[str, DataFrame | None]
    log: EventLog
    run_id: str
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    written: dict[str, str] = field(default_factory=dict)

    @property
    def output(self) -> str:
        """The folder of all tables."""
        return self.config.output.path.rstrip("/")

    def place(self, table: str) -> str:
        """Where its partition of a table is."""
        return place_of(self.output, table, self.run_id)

    def write(self, frame: DataFrame, table: str, kind: str = "parquet", *, is_empty: bool = False) -> None:
        """Write its partition of a table; see `write_partition`."""
        self.withdraw_manifest()
        write_partition(frame, self.output, table, self.run_id, kind, is_empty=is_empty)
        self.has_written(table, self.place(table))

    def has_written(self, what: str, place: str) -> None:
        """Note what was written, and where."""
        self.written[what] = place
        self.log.tell("written", what=what, place=place)

    def publish(self, manifest: Mapping[str, Any]) -> None:
        """Write its manifest, which makes it a whole run, when nothing of an earlier run of this name is left beside its tables."""
        for table in _OPTIONAL[self.job]:
            if table not in self.written:
                self._remove(table)
        write_manifest(self.spark, self.output, self.run_id, manifest)
        self.log.tell("written", what=MANIFESTS, place=self.place(MANIFESTS))

    def withdraw_manifest(self) -> None:
        """Take away the manifest of an earlier run of this name, before the first of its tables is replaced."""
        if not self.written and exists(self.spark, self.place(MANIFESTS)):
            nothing = self.spark.createDataFrame([], "value string")
            write_partition(nothing, self.output, MANIFESTS, self.run_id, "text", is_empty=True)

    def _remove(self, table: str) -> None:
        """Take away its partition of a table, if there is one: on the driver's disk the folder, elsewhere the rows."""
        place = self.place(table)
        if on_this_disk(place).is_dir():
            shutil.rmtree(on_this_disk(place))
        elif exists(self.spark, place):
            # DataFrames cannot remove a folder; a report is text.
            kind = "text" if table == REPORTS else "parquet"
            reader = self.spark.read.format(kind)
            nothing = self.spark.createDataFrame([], reader.load(place).schema)
            write_partition(nothing, self.output, table, self.run_id, kind, is_empty=True)

    def manifest(self, said: Mapping[str, Any], seed: int) -> dict[str, Any]:
        """What the run was, as plain values: versions, configuration without secrets, inputs, figures, outputs.

        Args:
            said: the figures and counts.
            seed: of what was drawn.
        """
        return {
            RUN_ID: self.run_id,
            "job": self.job,
            "started": self.started.isoformat(),
            "finished": datetime.now(UTC).isoformat(),
            "versions": {
                "spark_rankeval": spark_rankeval.__version__,
                "spark": self.spark.version,
                "python": platform.python_version(),
                "numpy": np.__version__,
                "pandas": pd.__version__,
                "pyarrow": pa.__version__,
            },
            "config": redacted_settings(asdict(self.config)),
            "inputs": {name: told_of(frame) for name, frame in self.tables.items() if frame is not None},
            "seed": seed,
            "outputs": {name: self.config.redacted(place) for name, place in self.written.items()},
            **said,
        }


@contextmanager
def running(
    spark: SparkSession, job: str, config: JobConfig, tables: Mapping[str, DataFrame | None], log: EventLog
) -> Iterator[Run]:
    """A run from its first to its last status: ``running``, then ``succeeded`` or ``failed``.

    A driver that is killed leaves ``running``.

    Args:
        spark: the session.
        job: the name of the job.
        config: of the run.
        tables: that it reads, by their sections.
        log: what is told.

    Raises:
        ConfigurationError: there is a run of this name that another job made; nothing was written.
    """
    run = Run(spark, job, config, tables, log, run_id_of(config, tables))
    log.run_id = run.run_id
    _refuse_another_job(run)
    write_status(run, "running")
    log.tell("running", place=run.output)
    try:
        with errors_in_keys(config.keys()), workers_explained():
            yield run
    except Exception as error:
        what, code = outcome_of(error)
        try:
            write_status(run, "failed", exit_code=code, kind=what, error=config.redacted(str(error)))
        except Exception as second:
            # What failed first is what is to be mended.
            log.tell("status not written", error=str(second))
        raise
    write_status(run, "succeeded", exit_code=OK)
    log.tell("succeeded", exit_code=OK)


def _refuse_another_job(run: Run) -> None:
    place = run.place(MANIFESTS)
    # Of a folder in which nothing can be the first write tells.
    with suppress(OptionError):
        if not exists(run.spark, place):
            return
        lines = run.spark.read.schema("value string").text(place)
        (other, *_) = [row[0] for row in lines.select(F.get_json_object("value", "$.job")).collect()] or [None]
        if other not in (None, run.job):
            msg = (
                f"there is a run {run.run_id!r} of jobs/{other}.py in {run.output}, whose manifest this one would replace; "
                "choose another output.run_id or output.path"
            )
            raise ConfigurationError(run.config.redacted(msg))


def write_status(run: Run, state: str, **facts: Any) -> None:
    """Write how a run stands, as one line of JSON; on the driver's disk its file is ``status.json``.

    Args:
        run: the run.
        state: ``running``, ``succeeded`` or ``failed``.
        facts: the exit code; of what failed the kind of error and its message.
    """
    now = datetime.now(UTC).isoformat()
    finished = None if state == "running" else now
    none = {"exit_code": None, "kind": None, "error": None}
    line = {
        RUN_ID: run.run_id,
        "job": run.job,
        "state": state,
        "started": run.started.isoformat(),
        "finished": finished,
    }
    _write_line(run.spark, run.output, STATUS, run.run_id, {**line, **none, **facts})
    # Spark alone writes on every storage, and chooses the names there; on a disk the file gets one that others can know. Who may
    # read only leaves it as it is.
    with suppress(OSError):
        for file in on_this_disk(run.place(STATUS)).glob("part-*"):
            file.rename(file.with_name("status.json"))
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def run_id_of(config: JobConfig, tables: Mapping[str, DataFrame | None]) -> str:
    """The id of a run: that of the configuration, or one that the same configuration and files have again.

    Args:
        config: the configuration; where results go, what is told of them and what they must be is no part of the id.
        tables: the tables that are read; their files count, a table without files by its name alone.
    """
    if config.output.run_id is not None:
        return config.output.run_id
    settings = asdict(config)
    for section in ("output", "report", "gates", "mlflow"):
        settings.pop(section, None)
    files = {name: input_files(frame) for name, frame in tables.items() if frame is not None}
    told, whole = (
        json.dumps([one, files], sort_keys=True, default=str).encode()
        for one in (redacted_settings(settings), settings)
    )
    # Whoever has the manifest, which lacks the secrets alone, could else try passwords until the id is the same.
    digest = (
        hashlib.sha256(whole).digest() if told == whole else hashlib.pbkdf2_hmac("sha256", whole, b"run id", _ROUNDS)
    )
    # A letter first: a column of partitions whose names read as numbers or dates is read as such.
    return "r" + digest.hex()[:12]


def place_of(output: str, table: str, run_id: str) -> str:
    """The path of a run's partition of a table: what is read where only that run is wanted."""
    return f"{output.rstrip('/')}/{table}/{RUN_ID}={run_id}"


def on_this_disk(place: str) -> Path:
    """Where a place would be if it were on the driver's disk."""
    return Path(place.removeprefix("file://").removeprefix("file:"))


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
        OptionError: nothing can be written there.
    """
    taken = [name for name in frame.columns if name.lower() == RUN_ID]
    if taken:
        msg = f"the table {table} has a column {taken[0]!r}, which is the name of the column of runs; rename yours"
        raise InputError(msg)
    if is_empty:
        # No row, no partition, and the one that is there would stay.
        with writable(output, "output.path"):
            frame.limit(0).write.mode("overwrite").format(kind).save(place_of(output, table, run_id))
        return
    marked = frame.withColumn(RUN_ID, F.lit(run_id))
    writer = marked.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy(RUN_ID)
    with writable(output, "output.path"):
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


def read_metrics(spark: SparkSession, output: str, *, missing_ok: bool = False) -> DataFrame:
    """The table of metrics of all runs, also of those that an earlier version wrote, whose names stay text.

    Args:
        spark: the session.
        output: the folder of all tables.
        missing_ok: whether files are passed over that are gone when they are to be read.
    """
    schema = T.StructType([*_METRICS_SCHEMA.fields, T.StructField(RUN_ID, T.StringType())])
    reader = spark.read.option("ignoreMissingFiles", missing_ok)
    return reader.schema(schema).parquet(f"{output.rstrip('/')}/{METRICS}")


def run_facts(
    spark: SparkSession, output: str, names: Sequence[str], table: str = MANIFESTS, *, missing_ok: bool = False
) -> list[dict[str, Any]]:
    """What the manifests of all whole runs say, or the status of all, a dict a run; values are text.

    Args:
        spark: the session.
        output: the folder of all tables.
        names: of the facts.
        table: `MANIFESTS` or `STATUS`.
        missing_ok: whether files are passed over that are gone when they are to be read.
    """
    reader = spark.read.option("ignoreMissingFiles", missing_ok)
    lines = reader.schema("value string").text(f"{output.rstrip('/')}/{table}")
    chosen = [F.get_json_object("value", f"$.{name}").alias(name) for name in names]
    return [record.asDict() for record in lines.select(*chosen).collect()]


def write_manifest(spark: SparkSession, output: str, run_id: str, manifest: Mapping[str, Any]) -> None:
    """Write the manifest as one line of JSON: of a run's tables the last."""
    _write_line(spark, output, MANIFESTS, run_id, manifest)


def _write_line(spark: SparkSession, output: str, table: str, run_id: str, values: Mapping[str, Any]) -> None:
    line = json.dumps(values, ensure_ascii=False, allow_nan=False, default=str)
    write_partition(spark.createDataFrame([(line,)], "value string").coalesce(1), output, table, run_id, "text")
