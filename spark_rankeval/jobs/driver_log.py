"""What stands on stderr beside a job's own lines: under `spark-submit` stderr itself, and how much Spark logs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from io import TextIOBase
from typing import Any

from spark_rankeval.checks import PANDAS_NOTICE

#: They log, with hundreds of lines of stack, the error that the job then says in one line.
_REPEATING_LOGGERS = (
    "org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter",
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.sql.execution.datasources.FileFormatWriter",
    "org.apache.spark.util.Utils",
)
_LEVEL = "spark.log.level"


@contextmanager
def own_stderr() -> Iterator[None]:
    """Write to the stderr of `spark-submit`, which sends what Python writes to its stderr to stdout."""
    if not _is_submitted() or not os.path.sameopenfile(1, 2):
        yield
        return
    # Before the import of PySpark, which warns.
    warnings.filterwarnings("ignore", PANDAS_NOTICE, FutureWarning)
    with redirect_stderr(_JavaStream(_jvm().java.lang.System.err)):
        yield


def quiet_settings() -> dict[str, Any]:
    """The settings of a session on the JVM of this process, with which nothing but errors stands between the lines of the job."""
    level = {_LEVEL: "ERROR"} if _is_submitted() and not _is_level_set() else {}
    return {"spark.ui.showConsoleProgress": "false", **level}


def quiet_spark() -> None:
    """Let the running driver log only errors that the job does not say itself, unless the user has set `spark.log.level`."""
    if not _is_level_set():
        log4j = _jvm().org.apache.logging.log4j
        log4j.core.config.Configurator.setRootLevel(log4j.Level.ERROR)
        for logger in _REPEATING_LOGGERS:
            log4j.core.config.Configurator.setLevel(logger, log4j.Level.OFF)


def _is_submitted() -> bool:
    # Databricks has a gateway, too, and shows what Python writes.
    return "PYSPARK_GATEWAY_PORT" in os.environ and "DATABRICKS_RUNTIME_VERSION" not in os.environ


def _is_level_set() -> bool:
    return bool(_jvm().java.lang.System.getProperty(_LEVEL))


def _jvm() -> Any:
    """The JVM that `spark-submit` or a session has started."""
    from pyspark import SparkContext  # noqa: PLC0415 # a wrong configuration does not wait for this import

    SparkContext._ensure_initialized()
    return SparkContext._jvm


class _JavaStream(TextIOBase):
    """A stream of the JVM as a file of text."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        # As bytes, whatever Java takes for the terminal's encoding.
        content = text.encode(errors="backslashreplace")
        self._stream.write(content, 0, len(content))
        return len(text)

    def flush(self) -> None:
        self._stream.flush()
