"""A run of a job: its status, its tables, and last of all a manifest, without which it is incomplete.

If a scheduler takes a driver for dead, two attempts at one run may meet. The status is the fence: an attempt reads it before each
write. It stops if a later attempt has written its id there. docs/reliability.md says what this leaves open.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyspark

from spark_rankeval.checks import SPARK
from spark_rankeval.errors import ConfigurationError, OptionError, SupersededError
from spark_rankeval.jobs.config import JobConfig
from spark_rankeval.jobs.logs import EventLog, errors_with_keys, redacted_settings
from spark_rankeval.jobs.outputs import (
    MANIFESTS,
    OPTIONAL,
    STATUS,
    check_committer,
    files_of,
    has_run,
    manifests_of,
    place_of,
    remove_partition,
    texts_on_disk,
    write_line,
    write_partition,
)
from spark_rankeval.jobs.session import OK, outcome_of
from spark_rankeval.package import __version__
from spark_rankeval.records.table_columns import RUN_ID
from spark_rankeval.spark.catalog import lines_at, on_this_disk, staged
from spark_rankeval.spark.engine import engine_of, input_files, workers_explained

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


# How often a configuration with secrets is hashed: a tenth of a second, which makes trying many passwords slow.
_ROUNDS = 200_000
#: What is in tables, and would make the one row of a manifest too long.
_TABLE_FACTS = ("summary", "gates", "rows", "slices")


@dataclass
class Run:
    """A run under way: the tables that it reads, by section, and the places of those that it has written.

    The attempt is its id among all attempts at runs of this name. The run is on disk if its status is on a disk of the driver.
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
        """The folder of all tables, or of those that are not in a catalogue."""
        return self.config.output.path.rstrip("/")

    def place(self, table: str) -> str:
        """Where its partition of a table is."""
        return place_of(self.config.output, table, self.run_id)

    def folder(self, table: str) -> Path | None:
        """Its partition of a table as a folder of the driver's disk; None: it is on other storage."""
        return on_this_disk(self.place(table)) if self.is_on_disk else None

    def staged(self, frame: DataFrame, table: str) -> AbstractContextManager[DataFrame]:
        """Compute a table once, beside its place: what is read back is the same for its figures and for `write`."""
        return staged(frame, f"{self.output}/{table}@{self.run_id}")

    def write(self, frame: DataFrame, table: str, kind: str = "parquet", *, is_empty: bool = False) -> None:
        """Write its partition of a table, unless a later attempt has begun; see `write_partition`."""
        self.check_fence()
        # A manifest never names tables of two runs.
        if not self.written and has_run(self.spark, self.config.output, MANIFESTS, self.run_id):
            nothing = self.spark.createDataFrame([], "value string")
            write_partition(nothing, self.config.output, MANIFESTS, self.run_id, "text", is_empty=True)
        write_partition(frame, self.config.output, table, self.run_id, kind, is_empty=is_empty)
        self._files[table] = files_of(self.spark, self.config.output, table, self.run_id)
        self.has_written(table, self.place(table))

    def has_written(self, what: str, place: str) -> None:
        """Note what was written, and where."""
        self.written[what] = place
        self.log.tell("written", what=what, place=place)

    def publish(self, manifest: Mapping[str, Any]) -> None:
        """Remove what is left of an earlier run of this name, and write the manifest, which makes it a whole run."""
        self.check_fence()
        output = self.config.output
        replaced = [
            table for table, files in self._files.items() if files_of(self.spark, output, table, self.run_id) != files
        ]
        if replaced:
            raise self._superseded(f"another attempt has written {', '.join(replaced)}")
        for table in OPTIONAL[self.job]:
            if table not in self.written:
                remove_partition(self.spark, output, table, self.run_id, is_on_disk=self.is_on_disk)
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
        self.is_on_disk = any(manifest["attempt"] in text for text in texts_on_disk(self.place(STATUS)).values())
        return manifest

    def write_status(self, state: str, **facts: Any) -> None:
        """Write the state with exit code and error as one line of JSON, on the driver's disk as ``status.json``."""
        line = {
            RUN_ID: self.run_id,
            "job": self.job,
            "attempt": self.attempt,
            "state": state,
            "started": self.started.isoformat(),
            "finished": None if state == "running" else datetime.now(UTC).isoformat(),
            **dict.fromkeys(("exit_code", "kind", "error")),
        }
        write_line(self.spark, self.config.output, STATUS, self.run_id, line | facts)
        texts = texts_on_disk(self.place(STATUS))
        # Spark may resolve the same path to other storage, or to another machine's disk.
        self.is_on_disk = any(self.attempt in text for text in texts.values())
        if self.is_on_disk and len(texts) == 1:
            (file,) = texts
            # Spark has chosen the file's name. A driver that may only read leaves it.
            with suppress(OSError):
                file.rename(file.with_name("status.json"))
                file.with_name(f".{file.name}.crc").unlink(missing_ok=True)

    def begin(self) -> None:
        """Write the first status, with which earlier attempts stop."""
        earlier: list[tuple[str, str]] = []
        # A folder that cannot be is left to the first write.
        with suppress(OptionError):
            earlier = self._attempts()
        self.write_status("running")
        self._clear_staging()
        attempts = self._attempts()
        if self._order in attempts and set(earlier) & set(attempts):
            msg = (
                f"writing to {self.place(STATUS)} added to what was there instead of replacing it, because this session's committer "
                "cannot replace one partition of a table (dynamic overwrite). Use Spark's own committer, or another output.path"
            )
            raise ConfigurationError(self.config.redacted(msg))

    def _clear_staging(self) -> None:
        """Remove what attempts at this run that were killed left on the driver's disk, hidden from readers."""
        if not self.is_on_disk:
            return
        # Other runs move their own files meanwhile.
        with suppress(OSError):
            folder = on_this_disk(self.output)
            left = [each for each in folder.glob("*/.spark-staging-*") if any(each.rglob(f"{RUN_ID}={self.run_id}"))]
            for each in (*left, *folder.glob(f"_*@{self.run_id}.staging-*")):
                shutil.rmtree(each)

    def check_fence(self) -> None:
        """Raise a `SupersededError` if a later attempt has written its status."""
        latest = max(self._attempts(), default=None)
        if latest is not None and latest < self._order:
            # The earlier attempt wrote its last status after this one had begun. Without this both would stop.
            self.write_status("running")
            latest = max(self._attempts(), default=None)
        if latest != self._order:
            since = "" if latest is None else f", which started at {latest[0]},"
            raise self._superseded(f"another attempt{since} has taken the name")

    @property
    def _order(self) -> tuple[str, str]:
        """The attempt among others: the later one is greater."""
        return self.started.isoformat(), self.attempt

    def _attempts(self) -> list[tuple[str, str]]:
        """The attempts in the status: several if they were written at once, none while it is replaced."""
        if self.is_on_disk:
            lines = [line for text in texts_on_disk(self.place(STATUS)).values() for line in text.split("\n")]
        else:
            lines = lines_at(self.spark, self.place(STATUS))
        attempts = []
        for line in lines:
            # Other lines are no statuses; earlier versions named no attempts.
            with suppress(ValueError, KeyError, TypeError):
                status = json.loads(line)
                attempts.append((status["started"], status.get("attempt", "")))
        return attempts

    def _superseded(self, reason: str) -> SupersededError:
        text = f"run {self.run_id!r} in {self.output}: {reason}; this attempt, started at {self.started.isoformat()}, "
        return SupersededError(self.config.redacted(text + "stops and writes no more"))

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
    run.begin()
    log.tell("running", place=run.output)
    try:
        with errors_with_keys(config.keys()), workers_explained(config.own_module, tables.values()):
            yield run
    except Exception as error:
        what, code = outcome_of(error)
        try:
            run.check_fence()
            run.write_status("failed", exit_code=code, kind=what, error=config.redacted(str(error)))
        except SupersededError as loss:
            # The run may have failed because the other attempt replaced what it reads.
            raise loss from error
        except Exception as second:
            # The first error is the one to fix.
            log.tell("status not written", error=str(second))
        raise
    run.check_fence()
    run.write_status("succeeded", exit_code=OK)
    log.tell("succeeded", exit_code=OK)


def _refuse_another_job(run: Run) -> None:
    # A folder that cannot be is left to the first write. Other lines are no manifests.
    with suppress(OptionError, json.JSONDecodeError):
        for line in manifests_of(run.spark, run.config.output, run.run_id)[:1]:
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
