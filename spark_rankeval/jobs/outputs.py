"""Where a job reads and writes: tables of input, the runs in a folder or a catalogue, and the reports of a run."""

from __future__ import annotations

import hashlib
import itertools
import json
import platform
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pyarrow as pa
import pyspark
from pyarrow import dataset
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.checks import SPARK, __version__
from spark_rankeval.errors import ConfigurationError, InputError, OptionError, UnavailableError, did_you_mean, listed
from spark_rankeval.jobs.command import OK, outcome_of
from spark_rankeval.jobs.config import (
    CHOICES,
    EventLog,
    JobConfig,
    Output,
    Source,
    errors_with_keys,
    redacted,
    redacted_settings,
)
from spark_rankeval.records.columns import RUN_ID
from spark_rankeval.records.summary import METRICS as METRIC_COLUMNS
from spark_rankeval.report.contents import text_of
from spark_rankeval.run_history.gates import names
from spark_rankeval.run_history.history import History, history
from spark_rankeval.spark import catalog, engine
from spark_rankeval.spark.local_tables import NANOSECONDS, ON_NANOSECONDS, with_spark_types
from spark_rankeval.spark.sql import column
from spark_rankeval.trec import read_qrels, read_run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession


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


def _catalog_table(spark: SparkSession, output: Output, table: str) -> catalog.CatalogTable:
    here = engine.engine_of(spark)
    if not here.is_spark:
        # What earlier sessions made is in the folder of the schema.
        if not output.path:
            msg = f"the catalogue of {here.name} is as old as the session; beside {output.catalog} name the output folder, too"
            raise OptionError(msg)
        place = output.path.rstrip("/") if "://" in output.path else str(catalog.on_this_disk(output.path).absolute())
        catalog.make_schema(spark, str(output.catalog), f"{place}/{_CATALOG_FOLDER}")
    return catalog.CatalogTable(spark, f"{output.catalog}.{table}", "output.catalog", output.table_format)


def prepare_catalog(spark: SparkSession, output: Output, schemas: Mapping[str, T.StructType]) -> None:
    """Create tables in the catalogue that are not there yet, and refuse those that cannot take rows of these columns."""
    if output.catalog is None:
        return
    manifest = T.StructType([T.StructField(_MANIFEST, T.StringType(), metadata={"comment": "the manifest as JSON"})])
    for table, schema in {**schemas, MANIFESTS: manifest}.items():
        _catalog_table(spark, output, table).prepare(schema)


def check_columns(table: str, frame: DataFrame) -> None:
    """Refuse a table with a column of the name of the column of runs."""
    taken = [name for name in frame.columns if name.lower() == RUN_ID]
    if taken:
        msg = f"the table {table} has a column {taken[0]!r}, the name of the column of run ids; rename your column"
        raise InputError(msg)


def write_partition(frame: DataFrame, output: Output, table: str, run_id: str, kind: str = "parquet") -> None:
    """Replace a run's rows of a table by rows without the column of the run; ``text`` is of one column.

    A folder of its own needs no dynamic overwrite, which not every committer has, and has files even if there is no row.
    """
    if _is_in_catalog(output, table):
        frame = frame.withColumnRenamed("value", _MANIFEST) if table == MANIFESTS else frame
        _catalog_table(frame.sparkSession, output, table).write(frame, run_id)
        return
    with catalog.writable(output.path, "output.path"):
        frame.write.mode("overwrite").format(kind).save(place_of(output, table, run_id))


def write_line(spark: SparkSession, output: Output, table: str, run_id: str, values: Mapping[str, Any]) -> None:
    """Write a run's rows of a table of text: one line of JSON."""
    line = json.dumps(values, ensure_ascii=False, allow_nan=False, default=str)
    write_partition(spark.createDataFrame([(line,)], "value string").coalesce(1), output, table, run_id, "text")


def has_table(spark: SparkSession, output: Output, table: str) -> bool:
    """Whether any run has left such a table."""
    if _is_in_catalog(output, table):
        return _catalog_table(spark, output, table).frame() is not None
    return catalog.exists(spark, folder_of(output, table))


def rows_of_users(spark: SparkSession, output: Output, run_id: str, schema: T.StructType | None = None) -> DataFrame:
    """A run's table of users. `schema` says what its columns are; None: what the manifest or the files say."""
    if not _is_in_catalog(output, PER_USER):
        reader = spark.read if schema is None else spark.read.schema(schema)
        return reader.parquet(place_of(output, PER_USER, run_id))
    if schema is None:
        columns = [json.loads(line).get(USER_COLUMNS) for line in manifests_of(spark, output, run_id)[:1]]
        if not (columns and columns[0]):
            raise ConfigurationError(f"{run_id!r} is no run of jobs/evaluate.py, which alone has a table of users")
        schema = T.StructType.fromJson(columns[0])
    # Other runs may have other metrics.
    return catalog.with_metadata_of(schema, _catalog_table(spark, output, PER_USER).rows(run_id))


def manifests_of(spark: SparkSession, output: Output, run_id: str) -> list[str]:
    """The manifest of a run as JSON, in a list; none if there is no such run, or it is not whole."""
    if not _is_in_catalog(output, MANIFESTS):
        return catalog.lines_at(spark, place_of(output, MANIFESTS, run_id))
    table = _catalog_table(spark, output, MANIFESTS)
    return [] if table.frame() is None else [row[_MANIFEST] for row in table.rows(run_id).collect()]


def texts_on_disk(place: str) -> dict[Path, str]:
    """The visible files of text in a folder of the driver's disk, with what they hold."""
    texts = {}
    # A file may be replaced meanwhile, or not be the driver's to read.
    with suppress(OSError):
        for file in catalog.on_this_disk(place).rglob("[!._]*"):
            if file.is_file():
                texts[file] = file.read_text(encoding="utf-8", errors="replace")
    return texts


def read_metrics(spark: SparkSession, output: Output, *, missing_ok: bool = False) -> DataFrame:
    """The table of metrics of all runs; with `missing_ok`, files that have gone are passed over."""
    if _is_in_catalog(output, METRICS):
        return _catalog_table(spark, output, METRICS).rows()
    schema = catalog.schema_of(METRIC_COLUMNS.columns).add(RUN_ID, "string")
    return spark.read.option("ignoreMissingFiles", missing_ok).schema(schema).parquet(folder_of(output, METRICS))


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


# An error about a slice that no run has, or about runs that did not finish, names so many others.
_MOST_NAMED = 20


def read_history(
    spark: SparkSession, output: Output, slice_: str | None = "all", metrics: Sequence[str] = ()
) -> History:
    """The history of all complete runs. Other jobs may write meanwhile.

    Args:
        spark: the session.
        output: where the runs are.
        slice_: which users; None: each slice.
        metrics: in any spelling. All metrics are read if there are none, or if no run has one of them.
    """
    if not (has_table(spark, output, METRICS) and has_table(spark, output, MANIFESTS)):
        option, what = ("--catalog", "the schema") if output.catalog else ("--output", "the output folder")
        place = ", ".join(filter(None, (output.catalog, output.path)))
        msg = f"there are no runs in {place}; {option} must be {what} of jobs/evaluate.py, with the tables {METRICS} and {MANIFESTS}"
        msg += "" if output.catalog else "; runs in a catalogue need --catalog, too"
        if unfinished := [run[RUN_ID] for run in _states(spark, output)]:
            msg += f". Runs that did not finish: {listed(unfinished, _MOST_NAMED)}"
        raise ConfigurationError(msg)
    return catalog.read_while_others_write(partial(_read, spark, output, slice_, metrics))


def _read(spark: SparkSession, output: Output, slice_: str | None, metrics: Sequence[str], missing_ok: bool) -> History:
    manifests = run_facts(spark, output, (RUN_ID, "job", "started", "gates_failed"), missing_ok=missing_ok)
    started = {run[RUN_ID]: run["started"] for run in manifests if run["job"] == "evaluate"}
    # A status counts only if it is about the stored run: a later run of the same name may have failed before it replaced anything.
    failed = {
        run[RUN_ID]: run["kind"] or ("failed" if run["state"] == "failed" else "running, or killed")
        for run in _states(spark, output, missing_ok=missing_ok)
        if run["started"] == started.get(run[RUN_ID], run["started"])
        and (run["state"] == "failed" or run[RUN_ID] not in started)
    }
    failed |= {run[RUN_ID]: "gates failed" for run in manifests if run["gates_failed"] not in (None, "0")}
    run_rows = read_metrics(spark, output, missing_ok=missing_ok).where(F.col(RUN_ID).isin(list(started)))
    rows = history(_metric_rows(run_rows, metrics), slice=slice_).rows
    if not rows and started and slice_ is not None:
        slices = sorted(row["slice"] for row in run_rows.select("slice").distinct().collect())
        if slice_ not in slices:
            there = f"{did_you_mean(slice_, slices)}There are: {listed(slices, _MOST_NAMED)}"
            raise ConfigurationError(f"no run has a slice {slice_!r}; {there}; --slice every is each")
    return History(rows, failed)


def _states(spark: SparkSession, output: Output, *, missing_ok: bool = False) -> list[dict[str, Any]]:
    """The last state of each evaluation that has not succeeded."""
    if not (output.path and has_table(spark, output, STATUS)):
        return []
    states = run_facts(spark, output, (RUN_ID, "job", "started", "state", "kind"), STATUS, missing_ok=missing_ok)
    return [run for run in states if run["job"] == "evaluate" and run["state"] != "succeeded"]


def _metric_rows(table: DataFrame, metrics: Sequence[str]) -> DataFrame:
    """The rows of some metrics; all rows if one of them is unknown, so that a message can list the others."""
    if not metrics:
        return table
    available = [tuple(record) for record in table.select("metric", "relevance").distinct().collect()]
    keys = {f"{metric} [{relevance}]" if relevance else metric: metric for metric, relevance in available}
    matches = {name: [metric for key, metric in keys.items() if names(name, key)] for name in metrics}
    if not all(matches.values()):
        return table
    return table.where(F.col("metric").isin(sorted({metric for matching in matches.values() for metric in matching})))


#: What is in tables, and would make the one row of a manifest too long.
_TABLE_FACTS = ("summary", "gates", "rows", "slices")


@dataclass
class Run:
    """A run under way: the tables that it reads, by section, and the places of those that it has written.

    It replaces a run of the same name. It is on disk if its status is on a disk of the driver.
    """

    spark: SparkSession
    job: str
    config: JobConfig
    tables: Mapping[str, DataFrame]
    log: EventLog
    run_id: str
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    written: dict[str, str] = field(default_factory=dict)
    is_on_disk: bool = False

    @property
    def output(self) -> str:
        """The folder of all tables, or of those that are not in a catalogue."""
        return self.config.output.path.rstrip("/")

    def place(self, table: str) -> str:
        """Where its partition of a table is."""
        return place_of(self.config.output, table, self.run_id)

    def staged(self, frame: DataFrame, table: str) -> AbstractContextManager[DataFrame]:
        """Compute a table once, beside its place: what is read back is the same for its figures and for `write`."""
        return catalog.staged(frame, f"{self.output}/{table}@{self.run_id}")

    def write(self, frame: DataFrame, table: str, kind: str = "parquet") -> None:
        """Write its partition of a table; see `write_partition`."""
        # The manifest of an earlier run of this name never stands beside tables of this one.
        if not self.written:
            self.remove(MANIFESTS)
        write_partition(frame, self.config.output, table, self.run_id, kind)
        self.has_written(table, self.place(table))

    def remove(self, table: str) -> None:
        """Remove its rows of a table, if there are any: on the driver's disk the folder, elsewhere the rows."""
        output, place = self.config.output, self.place(table)
        if _is_in_catalog(output, table):
            there = _catalog_table(self.spark, output, table)
            if there.has_run(self.run_id):
                # Rows of the table itself would not do: Spark overwrites no table that it reads.
                there.write(self.spark.createDataFrame([], there.rows().drop(RUN_ID).schema), self.run_id)
        elif self.is_on_disk:
            folder = catalog.on_this_disk(place)
            if folder.is_dir():
                shutil.rmtree(folder)
        elif catalog.exists(self.spark, place):
            # DataFrames cannot remove a folder.
            kind = "text" if table in (MANIFESTS, REPORTS) else "parquet"
            nothing = self.spark.createDataFrame([], self.spark.read.format(kind).load(place).schema)
            write_partition(nothing, output, table, self.run_id, kind)

    def has_written(self, what: str, place: str) -> None:
        """Note what was written, and where."""
        self.written[what] = place
        self.log.tell("written", what=what, place=place)

    def publish(self, manifest: Mapping[str, Any]) -> None:
        """Remove what is left of an earlier run of this name, and write the manifest, which makes it a whole run."""
        output = self.config.output
        for table in OPTIONAL[self.job]:
            if table not in self.written:
                self.remove(table)
        write_line(self.spark, output, MANIFESTS, self.run_id, manifest)
        self.log.tell("written", what=MANIFESTS, place=self.place(MANIFESTS))

    def finished(self) -> dict[str, Any]:
        """The manifest of the finished run of this name; an error if there is none."""
        lines = manifests_of(self.spark, self.config.output, self.run_id)
        if not lines:
            place = self.config.output.catalog or self.output
            msg = f"there is no finished run {self.run_id!r} in {place}; start the job without --only-mlflow first"
            raise ConfigurationError(self.config.redacted(msg))
        manifest: dict[str, Any] = json.loads(lines[0])
        self.is_on_disk = any(manifest["started"] in text for text in texts_on_disk(self.place(STATUS)).values())
        return manifest

    def write_status(self, state: str, **facts: Any) -> None:
        """Write the state with exit code and error as one line of JSON, on the driver's disk as ``status.json``."""
        line = {
            RUN_ID: self.run_id,
            "job": self.job,
            "state": state,
            "started": self.started.isoformat(),
            "finished": None if state == "running" else datetime.now(UTC).isoformat(),
            **dict.fromkeys(("exit_code", "kind", "error")),
        }
        write_line(self.spark, self.config.output, STATUS, self.run_id, line | facts)
        texts = texts_on_disk(self.place(STATUS))
        # Spark may resolve the same path to other storage, or to another machine's disk.
        self.is_on_disk = any(self.started.isoformat() in text for text in texts.values())
        self.name_file(STATUS, "status.json")

    def name_file(self, table: str, name: str) -> None:
        """Give the only file of its text, whose name Spark has chosen, another one; a driver that may only read leaves it."""
        files = [*texts_on_disk(self.place(table))] if self.is_on_disk else []
        if len(files) == 1:
            (file,) = files
            with suppress(OSError):
                file.rename(file.with_name(name))
                file.with_name(f".{file.name}.crc").unlink(missing_ok=True)

    def begin(self) -> None:
        """Write the first status, and clear away what is left of a run of this name that was killed."""
        self.write_status("running")
        if self.is_on_disk:
            # Other runs move their own files meanwhile.
            with suppress(OSError):
                for left in catalog.on_this_disk(self.output).glob(f"_*@{self.run_id}.staging-*"):
                    shutil.rmtree(left)

    def manifest(self, facts: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
        """What the run was, as plain values, without secrets."""
        here = engine.engine_of(self.spark)
        return {
            RUN_ID: self.run_id,
            "job": self.job,
            "started": self.started.isoformat(),
            "finished": datetime.now(UTC).isoformat(),
            "versions": {
                "spark_rankeval": __version__,
                here.name.lower(): here.version,
                # What speaks to an engine that is not Spark.
                **({} if here.name == SPARK else {"pyspark": pyspark.__version__}),
                "python": platform.python_version(),
                "numpy": np.__version__,
                "pandas": pd.__version__,
                "pyarrow": pa.__version__,
            },
            "config": redacted_settings(asdict(self.config)),
            "inputs": {
                name: {"columns": dict(frame.dtypes), "n_files": len(engine.input_files(frame))}
                for name, frame in self.tables.items()
            },
            "seed": seed,
            "outputs": {name: self.config.redacted(place) for name, place in self.written.items()},
            **{name: value for name, value in facts.items() if name not in _TABLE_FACTS},
        }


@contextmanager
def running(
    spark: SparkSession, job: str, config: JobConfig, tables: Mapping[str, DataFrame], log: EventLog
) -> Iterator[Run]:
    """A run from its first to its last status: ``running``, then ``succeeded`` or ``failed``.

    A driver that is killed leaves ``running``.
    """
    run = Run(spark, job, config, tables, log, run_id_of(config, tables))
    log.run_id = run.run_id
    _refuse_another_job(run)
    run.begin()
    log.tell("running", place=run.output)
    try:
        with errors_with_keys(config.keys()), engine.workers_explained(config.own_module, tables.values()):
            yield run
    except Exception as error:
        what, code = outcome_of(error)
        try:
            run.write_status("failed", exit_code=code, kind=what, error=config.redacted(str(error)))
        except Exception as second:
            # The first error is the one to fix.
            log.tell("status not written", error=str(second))
        raise
    run.write_status("succeeded", exit_code=OK)
    log.tell("succeeded", exit_code=OK)


def _refuse_another_job(run: Run) -> None:
    # A folder that cannot be is left to the first write. Other lines are neither manifests nor statuses.
    with suppress(OptionError, json.JSONDecodeError):
        # A run that was killed has tables and a status, and no manifest.
        statuses = catalog.lines_at(run.spark, run.place(STATUS))
        for line in (*manifests_of(run.spark, run.config.output, run.run_id), *statuses):
            other = json.loads(line).get("job")
            if other not in (None, run.job):
                msg = (
                    f"{run.output} already has a run {run.run_id!r} of jobs/{other}.py, and this run would replace its manifest; "
                    "choose another output.run_id or output.path"
                )
                raise ConfigurationError(run.config.redacted(msg))


def run_id_of(config: JobConfig, tables: Mapping[str, DataFrame]) -> str:
    """The id of a run: that of the configuration, or one that the same settings of figures and the same files have again."""
    if config.output.run_id is not None:
        return config.output.run_id
    settings = asdict(config)
    for section in ("output", "session", "report", "gates", "audit", "mlflow"):
        settings.pop(section, None)
    inputs: list[Any] = [
        redacted_settings(settings),
        {name: [*map(redacted, engine.input_files(frame))] for name, frame in tables.items()},
    ]
    # Values of options may be secrets, so none is hashed but those that say what is read.
    choices = {
        name: {key.lower(): value for key, value in source.options.items() if key.lower() in CHOICES}
        for name, source in config.sources().items()
    }
    inputs += [choices] if any(choices.values()) else []
    digest = hashlib.sha256(json.dumps(inputs, sort_keys=True, default=str).encode())
    # A letter first: a column of partitions whose names read as numbers or dates is read as such.
    return "r" + digest.hexdigest()[:12]


# A quote in a quoted text is doubled, as RFC 4180 has it and pandas writes it. Spark's own default is a backslash before it.
_CSV_OPTIONS: dict[str, bool | str] = {"header": True, "inferSchema": True, "escape": '"'}
#: Formats whose columns and types Spark finds in the rows alone, which it reads once more for that.
_INFERRED = ("csv", "json")
# Formats whose tables have a type for every column, also for those that divide their files into folders.
_TYPED_TABLES = ("delta", "iceberg")
# An engine that does not have a format says so.
_NO_FORMAT = re.compile(r"No data source found for: (\w+)")
# What stands for null in the names of folders.
_NULL_IN_FOLDERS = ("", "__HIVE_DEFAULT_PARTITION__")
_ALL_ROWS = 2**62
# The column of lines of text.
_LINE = "value"
_WHOLE_NUMBER = "^(0|-?[1-9][0-9]*)$"
_LACKING = {
    "delta": "spark-submit --packages io.delta:delta-spark_2.13:…, with its settings of extension and catalogue",
    "iceberg": "spark-submit --packages org.apache.iceberg:iceberg-spark-runtime-…, with its settings of catalogues",
    "jdbc": "spark-submit --jars or --packages, with the driver of the database",
}
# A session without a format or without the driver of a database.
_NOT_THERE = re.compile("DATA_SOURCE_NOT_FOUND|ClassNotFoundException")
# What engines, drivers and servers say if another attempt may succeed. A host that is not known is mostly a wrong name.
_NOT_NOW = re.compile(
    r"java\.net\.(Connect|SocketTimeout|NoRouteToHost)Exception|SQL(Transient|Recoverable)\w*Exception|CommunicationsException"
    r"|too many (clients|connections)|the database system is (starting up|shutting down)|error sending request",
    re.IGNORECASE,
)
_UNKNOWN_HOST = re.compile("UnknownHostException|failed to lookup address")


def read_tables(
    spark: SparkSession, sources: Mapping[str, Source], names_of_ids: Collection[str]
) -> dict[str, DataFrame]:
    """The tables of several sections, by their names; see `read_table`."""
    return {section: read_table(spark, source, section, names_of_ids) for section, source in sources.items()}


def read_table(spark: SparkSession, source: Source, section: str, names_of_ids: Collection[str] = ()) -> DataFrame:
    """The table of a section of the configuration; ids whose type Spark infers stay as written: 7, 007 and 7.0 are three."""
    try:
        with errors_with_keys({name: f"{section}.options.{name}" for name in ("on_invalid", "model")}):
            frame = _frame(spark, source, names_of_ids)
        # Spark Connect looks at a table only when its schema is asked for.
        _ = frame.schema
        _check_paths(spark, source)
    except Exception as error:
        reason = _reason(error, source.redacted)
        if _NOT_THERE.search(str(error)) and source.format in _LACKING:
            reason = f"this session does not have the format {source.format!r}; start Spark with it ({_LACKING[source.format]})"
        elif (no_format := _NO_FORMAT.search(str(error))) is not None:
            reason = f"{engine.engine_of(spark).name} has no format {no_format[1]!r}; store the table as parquet, or run the job on Spark"
        elif no_json := engine.no_json_in_words(str(error), _files_of(spark, *source.paths)):
            reason = no_json
        elif NANOSECONDS in str(error):
            reason = _columns_of_nanoseconds(source) + ON_NANOSECONDS
        elif not (isinstance(error, PySparkException) or _is_of_the_jvm(error) or source.format in _LACKING):
            raise
        said = _said(error)
        is_down = _NOT_NOW.search(said) and not _UNKNOWN_HOST.search(said)
        msg = f"[{section}] cannot be read: {reason}"
        raise (UnavailableError if is_down else ConfigurationError)(msg) from error
    return frame


def _columns_of_nanoseconds(source: Source) -> str:
    """The columns of Parquet files with times of nanoseconds, and a colon; empty if only Spark reaches the files."""
    try:
        schema = dataset.dataset(source.paths[0]).schema
    except (OSError, pa.ArrowException):
        return ""
    return f"{listed([repr(each.name) for each in schema if '[ns' in str(each.type)])}: "


def _files_of(spark: SparkSession, *paths: str) -> Iterator[str]:
    """The files at paths, as they are asked for."""
    return chain.from_iterable(engine.input_files(spark.read.schema("value string").text(path)) for path in paths)


def _check_paths(spark: SparkSession, source: Source) -> None:
    """Refuse paths with nothing there, which some engines read as no rows."""
    if engine.engine_of(spark).is_spark or source.format in _TYPED_TABLES:
        return
    missing = [path for path in source.paths if not [*_files_of(spark, path)]]
    if missing:
        msg = f"there is no file at {', '.join(missing)} [PATH_NOT_FOUND]"
        raise AnalysisException(msg)


def _frame(spark: SparkSession, source: Source, names_of_ids: Collection[str]) -> DataFrame:
    if source.table is not None:
        return spark.read.table(source.table)
    if source.format == "trec_qrels":
        return read_qrels(spark, source.paths, **source.options)  # type: ignore[arg-type] # options are checked there
    if source.format == "trec_run":
        return read_run(spark, source.paths, **source.options)  # type: ignore[arg-type] # the same
    here = engine.engine_of(spark)
    reader = spark.read.format(source.format).options(**_CSV_OPTIONS if source.format == "csv" else {})
    if source.format in _INFERRED and not here.is_spark:
        reader = reader.option("schemaInferMaxRecords", _ALL_ROWS)
    if source.schema is not None:
        reader = reader.schema(source.schema)
    reader = reader.options(**source.options)
    if source.path is None:
        return reader.load()
    paths = list(source.path) if isinstance(source.path, tuple) else source.path
    frame = with_spark_types(reader.load(paths), ", ".join(source.paths))
    if source.format in _TYPED_TABLES:
        return frame
    ids = {name.lower() for name in names_of_ids}
    roots = [str(value) for name, value in source.options.items() if name.lower() == "basepath"] or source.paths
    folder_columns = _columns_in(file.rpartition("/")[0] for file in engine.input_files(frame)) - _columns_in(roots)
    if source.schema is None:
        # Parquet and ORC have types; but Spark infers those of the columns that only the names of folders have.
        inferred = ids if source.format in _INFERRED else ids & folder_columns
        if source.format == "json" and not here.is_spark:
            frame = _from_lines(spark.read.options(**source.options).format("text").load(paths), frame, ids)
        else:
            frame = _with_ids_as_written(reader, paths, frame, inferred)
    return frame if here.is_spark else _with_nulls(frame, folder_columns)


def _columns_in(folders: Iterable[str]) -> set[str]:
    """The columns that folders have in their names, such as model in ``model=01``, in lower case."""
    return {unquote(part.partition("=")[0]).lower() for folder in folders for part in folder.split("/") if "=" in part}


def _with_nulls(frame: DataFrame, folder_columns: Collection[str]) -> DataFrame:
    """A table with null in the columns of folders where the names of folders stand for it."""
    texts = [name for name, kind in frame.dtypes if kind == "string" and name.lower() in folder_columns]
    nulls = {name: F.when(~column(name).isin(*_NULL_IN_FOLDERS), column(name)) for name in texts}
    return frame.withColumns(nulls) if nulls else frame


def _from_lines(lines: DataFrame, inferred: DataFrame, ids: Collection[str]) -> DataFrame:
    """A table of lines of JSON, some of whose strings are numbers in the files. Numbers of 64 bits stay as written."""
    kinds = {field.name: field.dataType for field in inferred.schema.fields}
    inexact = [name for name, kind in kinds.items() if _with_text(kind, ids, is_id=name.lower() in ids) != kind]
    if inexact:
        msg = (
            f"the ids in {', '.join(inexact)} are neither strings nor whole numbers of 64 bits, and this engine cannot read them as "
            "written; store them as strings"
        )
        raise AnalysisException(msg)
    # The rest are columns of folders.
    fields = {name: kind for name, kind in kinds.items() if name == _LINE or name not in lines.columns}
    # Lines without text are no rows.
    read = lines.where(F.col(_LINE).rlike(r"\S")).withColumn(_LINE, F.from_json(_LINE, _schema(fields)))
    return read.select(*[column(_LINE)[name].alias(name) if name in fields else column(name) for name in kinds])


def _with_ids_as_written(
    reader: DataFrameReader, paths: str | list[str], inferred: DataFrame, ids: Collection[str]
) -> DataFrame:
    """A table whose inferred ids are text, unless all are whole numbers as Spark writes them: it would read 007 as 7."""
    inferred_types = {field.name: field.dataType for field in inferred.schema.fields}
    types = {name: _with_text(kind, ids, is_id=name.lower() in ids) for name, kind in inferred_types.items()}
    whole = [name for name, kind in types.items() if name.lower() in ids and isinstance(kind, T.IntegralType)]
    if whole:
        text = reader.schema(_schema(types | dict.fromkeys(whole, T.StringType()))).load(paths)
        written = [F.min(column(name).rlike(_WHOLE_NUMBER)).alias(str(place)) for place, name in enumerate(whole)]
        (row,) = text.agg(*written).collect()
        types |= {name: T.StringType() for name, is_written in zip(whole, row, strict=True) if not is_written}
    return inferred if types == inferred_types else reader.schema(_schema(types)).load(paths)


def _with_text(kind: T.DataType, ids: Collection[str], *, is_id: bool) -> T.DataType:
    """A type with text for ids, in arrays and structs, too; whole numbers stay."""
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_with_text(kind.elementType, ids, is_id=is_id))
    if isinstance(kind, T.StructType):
        return _schema({each.name: _with_text(each.dataType, ids, is_id=each.name.lower() in ids) for each in kind})
    return T.StringType() if is_id and not isinstance(kind, T.IntegralType) else kind


def _schema(types: Mapping[str, T.DataType]) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in types.items()])


def _is_of_the_jvm(error: Exception) -> bool:
    """Whether this is an error of the JVM for which classic Spark has no class."""
    return hasattr(error, "java_exception")


def _said(error: Exception) -> str:
    """What an error says, with the causes that PySpark keeps apart."""
    return f"{error}\n{getattr(error, '_stackTrace', None) or getattr(error, '_stacktrace', None) or ''}".strip()


def _reason(error: Exception, hide: Callable[[str], str]) -> str:
    """The line of an error that says most: for one of the JVM or of a task the innermost cause, for others the first.

    Of a database it is all causes: that of the driver and that of the server.
    """
    # A query may take several lines.
    lines = [line.strip() for line in hide(_said(error)).splitlines()]
    if lines and lines[0].startswith("An error occurred while calling"):
        lines = lines[1:]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    if causes and lines[0].startswith("[FAILED_JDBC"):
        return "; ".join(engine.said_by_java(cause).rstrip(".") for cause in causes)
    # What a task met comes as text from Spark 4.0's Connect, in the trace of a job that was given up.
    if causes and (_is_of_the_jvm(error) or lines[0].startswith("Job aborted")):
        return engine.said_by_java(causes[-1])
    return engine.said_by_java(lines[0]) if lines else type(error).__name__


# More metrics of a kind than these are a curve. Its first and last say enough.
_MOST_ALIKE = 8

Part = tuple[str, list[tuple[str, str]]]


def planned(config: JobConfig, tables: Mapping[str, DataFrame], parts: Sequence[Part], outputs: Sequence[str]) -> str:
    """The plan of a run as text; parts are what is computed, outputs the tables beside those of every run."""
    report = config.output.report
    written = [*outputs, *([REPORTS] if report is True else []), MANIFESTS, STATUS]
    run_id = run_id_of(config, tables)
    places = [(name, config.redacted(place_of(config.output, name, run_id))) for name in written]
    if isinstance(report, str):
        places.append(("report", report))
    inputs = [(name, _input(name, config, frame)) for name, frame in tables.items()]
    texts = [f"run {run_id}, not started"]
    for heading, pairs in [("inputs", inputs), *parts, ("outputs", places)]:
        width = max((len(name) for name, _ in pairs), default=0)
        texts.append("\n".join([heading, *(f"  {name.ljust(width)}  {words}".rstrip() for name, words in pairs)]))
    files = {name: source for name, source in config.sources().items() if source.table is None}
    inferred = [name for name, source in files.items() if source.format in _INFERRED and source.schema is None]
    if inferred:
        texts.append(
            f'The types of {", ".join(inferred)} were inferred, for which Spark read the files; schema = "user bigint, …" '
            "in the section spares that, here and in the run. "
            "Their ids are text unless all of a column are plain whole numbers: 007 is not 7."
        )
    return "\n\n".join(texts)


def folded(metrics: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Metrics with their definitions; of a curve the first and the last."""
    rows: list[tuple[str, str]] = []
    for _, group in itertools.groupby(metrics, key=lambda metric: re.split(r"[(@]", metric[1])[0]):
        alike = list(group)
        if len(alike) > _MOST_ALIKE:
            alike = [alike[0], ("…", f"{len(alike) - 2:,} more"), alike[-1]]
        rows += alike
    return rows


def _input(name: str, config: JobConfig, frame: DataFrame) -> str:
    columns = ", ".join(f"{column} {kind}" for column, kind in frame.dtypes)
    n = len(engine.input_files(frame))
    files = f" ({n:,} file{'s' * (n > 1)})" if n else ""
    return f"{config.sources()[name].place}{files}: {columns}"


#: What the report has other sections for.
_OTHER_SECTIONS = ("plan", "data_quality", "data_quality_of_models", "gates_failed", "audit", USER_COLUMNS)
# A table of users' values has one column per metric.
_MOST_COLUMNS = 20


def write_report(run: Run, write: Callable[[Path], object]) -> None:
    """Write the report of a run that has written its tables, if one is asked for.

    It is ``report.html`` beside the manifest if the outputs are on the driver's disk. Elsewhere Spark writes and names a file of text.
    """
    report = run.config.output.report
    if not report:
        return
    if isinstance(report, str):
        try:
            write(Path(report))
        except OptionError as error:
            if not isinstance(error.__cause__, OSError):
                raise
            msg = f"output.report: {error}"
            raise ConfigurationError(msg) from error
        run.has_written("report", report)
        return
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary, "report.html")
        write(file)
        text = file.read_text(encoding="utf-8")
    # Spark gives it the rights of the tables, and not those of the umask.
    run.write(run.spark.createDataFrame([(text,)], "value string").coalesce(1), REPORTS, "text")
    run.name_file(REPORTS, "report.html")


def report_text(run: Run, manifest: Mapping[str, Any]) -> str | None:
    """The page of a run, which has one if its manifest says so; None if it has none."""
    written, report = manifest.get("outputs", {}), run.config.output.report
    if place := written.get("report"):
        # The manifest hides secrets in places.
        if isinstance(report, str) and run.config.redacted(report) == place:
            place = report
        return text_of(place, "report")
    if REPORTS not in written:
        return None
    (record,) = run.spark.read.text(run.place(REPORTS), wholetext=True).collect()
    return str(record[0])


def about_the_run(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What the report says of how a run was made."""
    facts = {name: value for name, value in manifest.items() if name not in _OTHER_SECTIONS}
    return {**facts, "inputs": {name: _short_table(table) for name, table in facts.get("inputs", {}).items()}}


def _short_table(table: Mapping[str, Any]) -> dict[str, Any]:
    columns = [f"{name} {kind}" for name, kind in table["columns"].items()]
    if len(columns) > _MOST_COLUMNS:
        columns = [*columns[:_MOST_COLUMNS], f"… ({len(columns):,} in all)"]
    return {**table, "columns": ", ".join(columns)}
