"""Per-user tables in storage: written to a staging place, looked at, and only then published."""

from __future__ import annotations

import os
import shutil
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit
from urllib.request import url2pathname

from pyspark.errors import AnalysisException

from spark_rankeval.checks import check_place
from spark_rankeval.errors import InputError, OptionError
from spark_rankeval.spark.platforms import condition_of, file_vanished, input_files, said_by_java, save_mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

Read = TypeVar("Read")

# What a file system says of a place where nothing can be; the user's to mend, unlike a job that fails.
_NO_PLACE = (
    "ParentNotDirectoryException",
    "AccessControlException",
    "Permission denied",
    "Mkdirs failed",
    "No FileSystem for scheme",
    "FileSystem not found",
    "Wrong FS",
    "URISyntaxException",
    "Read-only file system",
)
# The staged table in its staging folder.
_STAGED = "table"


@contextmanager
def writable(path: str, option: str = "path") -> Iterator[None]:
    """Say in an OptionError that nothing can be at a path, if the path or the file system says so; `option` is its user's word for it."""
    check_place(option, path)
    try:
        yield
    except Exception as error:
        said = [line for line in str(error).splitlines() if any(words in line for words in _NO_PLACE)]
        if not said:
            raise
        # The last one is the cause of the others. What Hadoop calls files while it writes them tells nobody anything.
        reason = said_by_java(said[-1]).partition("/_temporary")[0]
        msg = f"{option}: cannot write to {path}: {reason}"
        raise OptionError(msg) from error


@contextmanager
def staged(frame: DataFrame, path: str) -> Iterator[DataFrame]:
    """Write a table beside its place, once, give it read back, and clear the staging place, a hidden sibling of the path.

    The table is written, read and cleared through the DataFrame API alone, so that it works on every storage that Spark
    writes to; there is no call to delete a folder there, so that an empty table is left, except on the driver's disk.
    """
    head, _, tail = path.rstrip("/").rpartition("/")
    staging = f"{head}{'/' if head or path.startswith('/') else ''}_{tail}.staging-{uuid.uuid4().hex}"
    # Of a path whose own last name is hidden Spark logs that it ignores it.
    table = f"{staging}/{_STAGED}"
    with writable(path):
        frame.write.mode(save_mode("errorifexists")).parquet(table)
    session = frame.sparkSession
    try:
        # The schema is given: its metadata says what the columns are, and nothing has to be inferred.
        yield session.read.schema(frame.schema).parquet(table)
    finally:
        # A folder of this name on the driver's disk is the one that Spark wrote, whatever its default file system is.
        local = Path(staging.removeprefix("file:"))
        if local.is_dir():
            shutil.rmtree(local)
        elif exists(session, table):
            session.createDataFrame([], frame.schema).write.mode("overwrite").parquet(table)


def exists(session: SparkSession, path: str) -> bool:
    """Whether there is something at a path, on any storage that Spark reads."""
    return _text_at(session, path) is not None


def read_while_others_write(read: Callable[[bool], Read]) -> Read:
    """What a function reads from files that others may replace meanwhile.

    Spark lists files first and reads them later. If a listed file is gone by then, everything is read again from a new list. A file that
    vanishes even then is passed over: that is what the function's argument says.
    """
    try:
        return read(False)
    except Exception as error:
        if not file_vanished(error):
            raise
    return read(True)


@contextmanager
def replaced_files_explained(option: str) -> Iterator[None]:
    """Say in an InputError that files of a caller's table were replaced since the caller read it."""
    try:
        yield
    except Exception as error:
        if not file_vanished(error):
            raise
        msg = f"{option}: files of the table were replaced after it was read, for example by a repeated run; read it again"
        raise InputError(msg) from error


def lines_at(session: SparkSession, path: str) -> list[str]:
    """The lines of the text in a folder, on any storage that Spark reads; none if there is nothing, or a file is replaced meanwhile."""
    text = _text_at(session, path)
    return [] if text is None else [row["value"] for row in text.collect()]


def files_at(session: SparkSession, path: str) -> list[str]:
    """The files in a folder, on any storage that Spark reads; none if there is nothing, or if the platform does not tell."""
    text = _text_at(session, path)
    return [] if text is None else input_files(text)


def _text_at(session: SparkSession, path: str) -> DataFrame | None:
    """The files at a path as lazy lines of text, whatever is in them; None if there is nothing."""
    try:
        with writable(path):
            reader = session.read.schema("value string").option("ignoreMissingFiles", True)
            # Of one path that is not there Spark 4 logs a warning with a stack trace, because it might be a stream's; of two it says
            # nothing. Spark Connect looks whether there is something only when the schema is asked for.
            _ = reader.text([path, path]).schema
            text = reader.text(path)
    except AnalysisException as error:
        if condition_of(error) != "PATH_NOT_FOUND":
            raise
        return None
    return text


def publish(staged_table: DataFrame, path: str, mode: str) -> DataFrame:
    """Bring a staged table to its place and give it read from there.

    On the driver's disk its folder is renamed, so that the table is there whole or not at all, and the one that it replaces is
    removed last. Elsewhere it is copied: the DataFrame API can do no other, and ``overwrite`` removes first.
    """
    session, schema = staged_table.sparkSession, staged_table.schema
    folder = _folder_on_disk(staged_table)
    place = None if folder is None else folder.parent.with_name(path.rstrip("/").rpartition("/")[2])
    if folder is None or place is None or not _can_be_renamed(place, mode):
        staged_table.write.mode(save_mode(mode)).parquet(path)
        return session.read.schema(schema).parquet(path)
    replaced = place.with_name(f"_{place.name}.replaced-{uuid.uuid4().hex}")
    if place.exists():
        os.rename(place, replaced)
    os.rename(folder, place)
    # As Spark does for what it writes itself: nobody reads what was cached of the table before.
    session.catalog.refreshByPath(path)
    shutil.rmtree(replaced, ignore_errors=True)
    return session.read.schema(schema).parquet(path)


def _folder_on_disk(table: DataFrame) -> Path | None:
    for file in input_files(table):
        place = urlsplit(file)
        folder = Path(url2pathname(place.path)).parent
        return folder if place.scheme == "file" and folder.is_dir() else None
    return None


def _can_be_renamed(place: Path, mode: str) -> bool:
    """Whether nothing but a folder is to make room: links, mounted disks and single files are left to Spark, and refusals too."""
    if mode != "overwrite" or not os.path.lexists(place):
        return not os.path.lexists(place)
    return place.is_dir() and not place.is_symlink() and not place.is_mount()
