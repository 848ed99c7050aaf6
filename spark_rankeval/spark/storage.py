"""Store per-user tables: write them to a staging place, check them, and only then publish them."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit
from urllib.request import url2pathname

from pyspark.errors import AnalysisException

from spark_rankeval.checks import check_place
from spark_rankeval.errors import InputError, OptionError
from spark_rankeval.spark.engine import condition_of, engine_of, file_vanished, input_files, said_by_java, save_mode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Read = TypeVar("Read")

# What file systems say about a place that cannot be written. The user has to fix that, unlike a job that fails.
_NO_PLACE = (
    "ParentNotDirectoryException",
    "AccessControlException",
    "Permission denied",
    "Not a directory",
    "Mkdirs failed",
    "No FileSystem for scheme",
    "FileSystem not found",
    "Wrong FS",
    "URISyntaxException",
    "Read-only file system",
    # What Sail says.
    "Unable to create dir",
    "encountered while finalizing writes",
    "failed to lookup address",
    "Failed to resolve region",
    "Unable to recognise URL",
)
# The name of the staged table in its staging folder.
_STAGED = "table"


@contextmanager
def writable(path: str, option: str = "path") -> Iterator[None]:
    """Turn an error of the path or the file system into an `OptionError`; `option` is the user's word for the path."""
    check_place(option, path)
    try:
        yield
    except Exception as error:
        said = [line for line in str(error).splitlines() if any(words in line for words in _NO_PLACE)]
        if not said:
            raise
        # The last line is the cause of the others. Hadoop's names of temporary files help no reader.
        reason = said_by_java(said[-1]).partition("/_temporary")[0]
        msg = f"{option}: cannot write to {path}: {reason}"
        raise OptionError(msg) from error


@contextmanager
def staged(frame: DataFrame, path: str) -> Iterator[DataFrame]:
    """Write a table once to a hidden sibling of its path, give the table read back from there, and clear that staging place.

    Only the DataFrame API is used, so this works on every storage that Spark can write to. The API cannot delete a folder. So an empty
    table stays behind, except on the driver's disk.
    """
    head, _, tail = path.rstrip("/").rpartition("/")
    staging = f"{head}{'/' if head or path.startswith('/') else ''}_{tail}.staging-{uuid.uuid4().hex}"
    # Spark would log that it ignores a path whose last part is hidden.
    table = f"{staging}/{_STAGED}"
    with writable(path):
        frame.write.mode(save_mode("errorifexists")).parquet(table)
    session = frame.sparkSession
    try:
        # The schema is passed, so nothing is inferred and the metadata still says what the columns are.
        yield session.read.schema(frame.schema).parquet(table)
    finally:
        # If the driver's disk has a folder of this unique name, Spark wrote it, whatever its default file system is.
        if not clear_folder(staging) and exists(session, table):
            session.createDataFrame([], frame.schema).write.mode("overwrite").parquet(table)


def on_this_disk(place: str) -> Path:
    """The path of a place if it is on the driver's disk."""
    return Path(place.removeprefix("file://").removeprefix("file:"))


def clear_folder(place: str) -> bool:
    """Remove a folder if it is on the driver's disk; says whether it was."""
    local = on_this_disk(place)
    is_there = bool(place) and local.is_dir()
    if is_there:
        shutil.rmtree(local)
    return is_there


def exists(session: SparkSession, path: str) -> bool:
    """Whether there is something at a path, on any storage that Spark can read."""
    return _text_at(session, path) is not None


def read_while_others_write(read: Callable[[bool], Read]) -> Read:
    """Call a function that reads files which others may replace meanwhile, and return what it reads.

    Spark lists files first and reads them later. If a listed file is gone by then, everything is read again from a new list. The second
    call has the argument True: it must ignore files that vanish even then.
    """
    try:
        return read(False)
    except Exception as error:
        if not file_vanished(error):
            raise
    return read(True)


@contextmanager
def replaced_files_explained(option: str) -> Iterator[None]:
    """Raise an `InputError` if files of a caller's table were replaced since the caller read it."""
    try:
        yield
    except Exception as error:
        if not file_vanished(error):
            raise
        msg = f"{option}: files of the table were replaced after it was read, for example by a repeated run; read it again"
        raise InputError(msg) from error


def lines_at(session: SparkSession, path: str) -> list[str]:
    """The lines of text in a folder, on any storage that Spark can read; none if nothing is there, or a file is being replaced."""
    text = _text_at(session, path)
    return [] if text is None else [row["value"] for row in text.collect()]


def files_at(session: SparkSession, path: str) -> list[str]:
    """The files in a folder, on any storage that Spark can read; none if nothing is there, or the platform does not list them."""
    text = _text_at(session, path)
    return [] if text is None else input_files(text)


def _text_at(session: SparkSession, path: str) -> DataFrame | None:
    """The files at a path as lazy lines of text, whatever they hold; None if nothing is there."""
    try:
        with writable(path):
            reader = session.read.schema("value string").option("ignoreMissingFiles", True)
            # For one missing path, which might be a stream's, Spark 4 logs a warning with a stack trace; for two it logs nothing.
            # Spark Connect checks whether the path exists only when the schema is read.
            _ = reader.text([path, path]).schema
            text = reader.text(path)
    except AnalysisException as error:
        if condition_of(error) != "PATH_NOT_FOUND":
            raise
        return None
    if not engine_of(session).is_spark and not input_files(text):
        return None
    return text


def publish(staged_table: DataFrame, path: str, mode: str) -> DataFrame:
    """Move a staged table to its place, and give the table read from there.

    On the driver's disk its folder is renamed: the table is there as a whole or not at all. The old table is removed last.
    Elsewhere the table is copied, because the DataFrame API cannot rename, and ``overwrite`` removes the old table first.
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
    if engine_of(session).is_spark:
        # Spark does the same for its own writes, so that no query reads cached files of the old table.
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
    """Whether nothing, or a plain folder to overwrite, is there. Spark handles links, mounts, files and refusals."""
    if mode != "overwrite" or not os.path.lexists(place):
        return not os.path.lexists(place)
    return place.is_dir() and not place.is_symlink() and not place.is_mount()
