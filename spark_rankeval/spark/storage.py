"""Per-user tables in storage: written to a staging place, looked at, and only then published."""

from __future__ import annotations

import shutil
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from spark_rankeval.errors import OptionError
from spark_rankeval.spark.platforms import condition_of, save_mode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession


# What a file system says of a place where nothing can be; the user's to mend, unlike a job that fails.
_NO_PLACE = (
    "ParentNotDirectoryException",
    "AccessControlException",
    "Permission denied",
    "Mkdirs failed",
    "No FileSystem for scheme",
    "Wrong FS",
    "URISyntaxException",
    "Read-only file system",
)


@contextmanager
def _writable(path: str) -> Iterator[None]:
    """Say in a sentence that nothing can be at a path, where the file system says so.

    Raises:
        OptionError: so it does.
    """
    try:
        yield
    except Exception as error:
        said = [line.strip() for line in str(error).splitlines() if any(words in line for words in _NO_PLACE)]
        if not said:
            raise
        msg = f"path: nothing can be written to {path}: {said[0].removeprefix(': ')}"
        raise OptionError(msg) from error


@contextmanager
def staged(frame: DataFrame, path: str) -> Iterator[DataFrame]:
    """Write a table beside its place, give it read back, and clear the staging place.

    The table is written, read and cleared through the DataFrame API alone, so that it works on every storage that Spark
    writes to; there is no call to delete a folder there, so that an empty table is left, except on the driver's disk.

    Args:
        frame: what to write; it is computed once.
        path: where it is to be published. The staging place is its sibling, hidden by an underscore.
    """
    head, _, tail = path.rstrip("/").rpartition("/")
    staging = f"{head}{'/' if head or path.startswith('/') else ''}_{tail}.staging-{uuid.uuid4().hex}"
    with _writable(path):
        frame.write.mode(save_mode("errorifexists")).parquet(staging)
    session = frame.sparkSession
    try:
        # The schema is given: its metadata says what the columns are, and nothing has to be inferred.
        yield session.read.schema(frame.schema).parquet(staging)
    finally:
        local = Path(staging.removeprefix("file:"))
        if local.is_dir():
            shutil.rmtree(local)
        else:
            session.createDataFrame([], frame.schema).write.mode("overwrite").parquet(staging)


def exists(session: SparkSession, path: str) -> bool:
    """Whether there is something at a path, on any storage that Spark reads."""
    try:
        with _writable(path):
            _ = session.read.schema("value string").text(path).schema
    except AnalysisException as error:
        if condition_of(error) != "PATH_NOT_FOUND":
            raise
        return False
    return True


def publish(staged_table: DataFrame, path: str, mode: str) -> DataFrame:
    """Copy a staged table to its place and give it read from there."""
    staged_table.write.mode(save_mode(mode)).parquet(path)
    return staged_table.sparkSession.read.schema(staged_table.schema).parquet(path)
