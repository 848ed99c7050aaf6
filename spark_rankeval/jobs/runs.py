"""What a run leaves: in each table a partition of its own, and last of all a manifest, without which it is no whole run.

Two attempts at a run meet if a scheduler takes a driver for dead and starts it again. Each claims the run's name in its status.
It looks there before each write, and stops if it has lost the name. docs/reliability.md says what this leaves open.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyspark
from pyspark.sql import functions as F

from spark_rankeval.checks import SPARK
from spark_rankeval.errors import ConfigurationError, OptionError, SupersededError
from spark_rankeval.evaluation.result import Result
from spark_rankeval.jobs.config import JobConfig
from spark_rankeval.jobs.job_tables import check_committer, on_this_disk, place_of, write_line, write_partition
from spark_rankeval.jobs.logs import EventLog, errors_with_keys, redacted_settings
from spark_rankeval.jobs.session import OK, outcome_of
from spark_rankeval.records.stored import COLUMNS, RUN_ID, TIME, values_of
from spark_rankeval.spark.platforms import engine_of, input_files
from spark_rankeval.spark.python_workers import workers_explained
from spark_rankeval.spark.storage import exists, files_at, lines_at
from spark_rankeval.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


#: The tables in the output folder. Each has the partitioning column `RUN_ID`.
PER_USER, METRICS, QUARANTINE = "per_user", "metrics", "quarantine"
COMPARISONS, GROUP_COMPARISONS = "comparisons", "group_comparisons"
MANIFESTS, STATUS, REPORTS, GATES = "manifests", "status", "reports", "gates"
#: Those that a run has only if it is asked for them.
_OPTIONAL = {"evaluate": (QUARANTINE, GATES, REPORTS), "compare": (REPORTS,), "compare_groups": ()}

# How often a configuration with secrets is hashed: a tenth of a second, which makes trying many passwords slow.
_ROUNDS = 200_000
#: What is in tables, and would make the one row of a manifest too long.
_TABLE_FACTS = ("summary", "gates", "rows", "slices")

_TEXTS = [
    "model",
    "dialect",
    "metric",
    "relevance",
    "slice",
    "interval",
    "user_weight",
    "definition",
    "moments",
    "cluster",
    "cluster_sums",
]
_TYPES = {
    **dict.fromkeys(("k", "n", "undefined", "zeros", "n_clusters"), "bigint"),
    **dict.fromkeys(_TEXTS, "string"),
    **{
        "quantiles": "map<double,double>",
        "fingerprints": "map<string,string>",
        "over_all": "boolean",
        TIME: "timestamp_ltz",
    },
}
_METRICS_SCHEMA = ", ".join(f"`{name}` {_TYPES.get(name, 'double')}" for name in (*COLUMNS, TIME))


@dataclass
class Run:
    """A run under way: the tables that it reads, by section, and the places of those that it has written.

    The attempt is its id among all attempts at runs of this name. The run is on disk if the output is on a disk of the driver.
    """

    spark: SparkSession
    job: str
    config: JobConfig
    tables: Mapping[str, DataFrame]
    log: EventLog
    run_id: str
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    written: dict[str, str] = field(default_factory=dict)
    attempt: str = field(default_factory=lambda: uuid.uuid4().hex)
    is_on_disk: bool = False
    _files: dict[str, list[str]] = field(default_factory=dict)

    @property
    def output(self) -> str:
        """The folder of all tables."""
        return self.config.output.path.rstrip("/")

    def place(self, table: str) -> str:
        """Where its partition of a table is."""
        return place_of(self.output, table, self.run_id)

    def folder(self, table: str) -> Path | None:
        """Its partition of a table as a folder of the driver's disk; None: it is on other storage."""
        return on_this_disk(self.place(table)) if self.is_on_disk else None

    def write(self, frame: DataFrame, table: str, kind: str = "parquet", *, is_empty: bool = False) -> None:
        """Write its partition of a table, unless a later attempt has the run's name; see `write_partition`."""
        stop_if_superseded(self)
        # A manifest never names tables of two runs.
        if not self.written and exists(self.spark, self.place(MANIFESTS)):
            nothing = self.spark.createDataFrame([], "value string")
            write_partition(nothing, self.output, MANIFESTS, self.run_id, "text", is_empty=True)
        write_partition(frame, self.output, table, self.run_id, kind, is_empty=is_empty)
        self._files[table] = files_at(self.spark, self.place(table))
        self.has_written(table, self.place(table))

    def has_written(self, what: str, place: str) -> None:
        """Note what was written, and where."""
        self.written[what] = place
        self.log.tell("written", what=what, place=place)

    def publish(self, manifest: Mapping[str, Any]) -> None:
        """Remove what is left of an earlier run of this name, and write the manifest, which makes it a whole run."""
        stop_if_superseded(self)
        replaced = [table for table, files in self._files.items() if files_at(self.spark, self.place(table)) != files]
        if replaced:
            raise _superseded(self, f"another attempt has written {', '.join(replaced)}")
        for table in _OPTIONAL[self.job]:
            if table not in self.written:
                self._remove(table)
        write_line(self.spark, self.output, MANIFESTS, self.run_id, manifest)
        self.log.tell("written", what=MANIFESTS, place=self.place(MANIFESTS))

    def _remove(self, table: str) -> None:
        """Remove its partition of a table, if there is one: on the driver's disk the folder, elsewhere the rows."""
        place, folder = self.place(table), self.folder(table)
        if folder is not None:
            if folder.is_dir():
                shutil.rmtree(folder)
        elif exists(self.spark, place):
            # DataFrames cannot remove a folder; a report is text.
            kind = "text" if table == REPORTS else "parquet"
            nothing = self.spark.createDataFrame([], self.spark.read.format(kind).load(place).schema)
            write_partition(nothing, self.output, table, self.run_id, kind, is_empty=True)

    def manifest(self, facts: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
        """What the run was, as plain values, without secrets."""
        return {
            RUN_ID: self.run_id,
            "job": self.job,
            "attempt": self.attempt,
            "started": self.started.isoformat(),
            "finished": datetime.now(UTC).isoformat(),
            "versions": {
                "spark_rankeval": __version__,
                **_versions_of_engine(self.spark),
                "python": platform.python_version(),
                "numpy": np.__version__,
                "pandas": pd.__version__,
                "pyarrow": pa.__version__,
            },
            "config": redacted_settings(asdict(self.config)),
            "inputs": {
                name: {"columns": dict(frame.dtypes), "n_files": len(input_files(frame))}
                for name, frame in self.tables.items()
            },
            "seed": seed,
            "outputs": {name: self.config.redacted(place) for name, place in self.written.items()},
            **{name: value for name, value in facts.items() if name not in _TABLE_FACTS},
        }


def _versions_of_engine(spark: SparkSession) -> dict[str, str]:
    """The versions of the engine and, if it is not Spark, of the PySpark that speaks to it."""
    engine = engine_of(spark)
    client = {} if engine.name == SPARK else {"pyspark": pyspark.__version__}
    return {engine.name.lower(): engine.version, **client}


@contextmanager
def running(
    spark: SparkSession, job: str, config: JobConfig, tables: Mapping[str, DataFrame], log: EventLog
) -> Iterator[Run]:
    """A run from its first to its last status: ``running``, then ``succeeded`` or ``failed``.

    A driver that is killed leaves ``running``.
    """
    check_committer(spark)
    run = Run(spark, job, config, tables, log, run_id_of(config, tables))
    log.run_id = run.run_id
    _refuse_another_job(run)
    _claim(run)
    log.tell("running", place=run.output)
    try:
        with errors_with_keys(config.keys()), workers_explained():
            yield run
    except Exception as error:
        what, code = outcome_of(error)
        try:
            stop_if_superseded(run)
            write_status(run, "failed", exit_code=code, kind=what, error=config.redacted(str(error)))
        except SupersededError as loss:
            # The run may have failed because the other attempt replaced what it reads.
            raise loss from error
        except Exception as second:
            # The first error is the one to fix.
            log.tell("status not written", error=str(second))
        raise
    stop_if_superseded(run)
    write_status(run, "succeeded", exit_code=OK)
    log.tell("succeeded", exit_code=OK)


class _Claim(NamedTuple):
    """When an attempt began, and its id; the greatest claim is the latest."""

    started: str
    attempt: str


def _claim(run: Run) -> None:
    """Take the run's name, and learn whether the folder of the outputs is on the driver's disk."""
    earlier: list[_Claim] = []
    # A folder that cannot be is left to the first write.
    with suppress(OptionError):
        earlier = _claims(run)
    _write_line(run, "running")
    run.is_on_disk = any(_files_of(run))
    now = _claims(run)
    if _claim_of(run) in now and set(earlier) & set(now):
        msg = (
            f"writing to {run.place(STATUS)} added to what was there instead of replacing it, because this session's committer "
            "cannot replace one partition of a table (dynamic overwrite). Use Spark's own committer, or another output.path"
        )
        raise ConfigurationError(run.config.redacted(msg))
    _name_file(run)


def stop_if_superseded(run: Run) -> None:
    """Raise a `SupersededError` if the run's name is another attempt's."""
    latest = max(_claims(run), default=None)
    if latest is not None and latest < _claim_of(run):
        # The earlier attempt wrote its last status after it had lost the name. Without this both would stop.
        write_status(run, "running")
        latest = max(_claims(run), default=None)
    if latest != _claim_of(run):
        since = "" if latest is None else f", which started at {latest.started},"
        raise _superseded(run, f"another attempt{since} has taken the name")


def _superseded(run: Run, reason: str) -> SupersededError:
    msg = (
        f"run {run.run_id!r} in {run.output}: {reason}; this attempt, started at {_claim_of(run).started}, stops and writes no "
        "more"
    )
    return SupersededError(run.config.redacted(msg))


def write_status(run: Run, state: str, **facts: Any) -> None:
    """Write the state of a run with its exit code and error as one line of JSON, on the driver's disk as ``status.json``."""
    _write_line(run, state, **facts)
    _name_file(run)


def _write_line(run: Run, state: str, **facts: Any) -> None:
    now = datetime.now(UTC).isoformat()
    line = {
        RUN_ID: run.run_id,
        "job": run.job,
        "attempt": run.attempt,
        "state": state,
        "started": run.started.isoformat(),
        "finished": None if state == "running" else now,
    }
    none = {"exit_code": None, "kind": None, "error": None}
    write_line(run.spark, run.output, STATUS, run.run_id, {**line, **none, **facts})


def _name_file(run: Run) -> None:
    """Give the status on the driver's disk a known name; elsewhere Spark chooses it, and a driver that may only read leaves it."""
    with suppress(OSError):
        for file in _files_of(run):
            file.rename(file.with_name("status.json"))
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def _claim_of(run: Run) -> _Claim:
    return _Claim(run.started.isoformat(), run.attempt)


def _claims(run: Run) -> list[_Claim]:
    """The claims in the status: several if they were written at once, none while it is replaced."""
    if run.is_on_disk:
        lines = [line for text in _texts(run).values() for line in text.split("\n")]
    else:
        lines = lines_at(run.spark, run.place(STATUS))
    claims = []
    for line in lines:
        # Other lines are no claims; earlier versions named no attempts.
        with suppress(ValueError, KeyError, TypeError):
            status = json.loads(line)
            claims.append(_Claim(status["started"], status.get("attempt", "")))
    return claims


def _files_of(run: Run) -> Iterator[Path]:
    """The files with this attempt's id; none if Spark resolves the same path to other storage, or another machine's disk."""
    return (file for file, text in _texts(run).items() if run.attempt in text)


def _texts(run: Run) -> dict[Path, str]:
    texts = {}
    # A file may be replaced meanwhile, or not be the driver's to read.
    with suppress(OSError):
        for file in on_this_disk(run.place(STATUS)).rglob("[!._]*"):
            if file.is_file():
                texts[file] = file.read_text(encoding="utf-8", errors="replace")
    return texts


def _refuse_another_job(run: Run) -> None:
    place = run.place(MANIFESTS)
    # A folder that cannot be is left to the first write.
    with suppress(OptionError):
        if not exists(run.spark, place):
            return
        lines = run.spark.read.schema("value string").text(place)
        (other, *_) = [row[0] for row in lines.select(F.get_json_object("value", "$.job")).collect()] or [None]
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
    files = {name: input_files(frame) for name, frame in tables.items()}
    public, whole = (
        json.dumps([each, files], sort_keys=True, default=str).encode()
        for each in (redacted_settings(settings), settings)
    )
    digest = hashlib.sha256(whole).digest()
    if public != whole:
        # A reader of the manifest, which lacks only the secrets, could otherwise try passwords until the id is the same.
        digest = hashlib.pbkdf2_hmac("sha256", whole, b"run id", _ROUNDS)
    # A letter first: a column of partitions whose names read as numbers or dates is read as such.
    return "r" + digest.hex()[:12]


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
