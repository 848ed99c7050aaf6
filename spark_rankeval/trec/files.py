"""Files by their names and patterns, and the lines in them: with Arrow alone, for readers that have no Spark to ask."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from spark_rankeval.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CHUNK = 1 << 23
_PATTERN = re.compile(r"[*?\[]")
_COMPRESSED = re.compile(r"\.(gz|gzip|bz2|lz4|zst|zstd)$")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def list_files(paths: Sequence[str]) -> list[str]:
    """The files that paths name, in the order of the paths, those of one in the order of their names.

    Args:
        paths: a file, a folder, whose files are meant and not those of its folders, or a pattern with ``*``, ``?`` and ``[…]``; on
            this machine's disk, or a URI that Arrow reads (``s3``, ``gs``, ``hdfs``). Names that begin with ``_`` or ``.`` are
            left out, as Spark does, unless they are named in full.

    Raises:
        InputError: a path names no file.
    """
    files = []
    for path in paths:
        scheme, system, inside = _located(path)
        found = [f"{scheme}{name}" for name in _matches(system, inside)]
        if not found:
            msg = f"there is no file at {path!r}"
            raise InputError(msg)
        files += found
    return files


def name_of(file: str) -> str:
    """A file's name without its folder and what tells of a compression; a file's URI reads as the name that it stands for."""
    name = posixpath.basename(unquote(file) if "://" in file or file.startswith("file:") else file)
    return _COMPRESSED.sub("", name)


def read_lines(file: str) -> Iterator[list[bytes]]:
    r"""The lines of a file, some megabytes at a time, without their ends (``\n``, ``\r\n`` or ``\r``, as Spark takes them).

    Args:
        file: of `list_files`; one that is compressed, as its name says, is read as what it holds.
    """
    _, system, inside = _located(file)
    with system.open_input_stream(inside) as stream:
        rest = stream.read(_CHUNK).removeprefix(_BYTE_ORDER_MARK)
        while chunk := stream.read(_CHUNK):
            # What follows the last end of a line is the beginning of one. \r alone may be half of an end.
            complete, end, begun = rest.rpartition(b"\n")
            if end:
                yield (complete + end).splitlines()
            rest = begun + chunk
        yield rest.splitlines()


def _located(path: str) -> tuple[str, fs.FileSystem, str]:
    """The scheme to set before names, the file system, and the path inside it."""
    scheme, mark, _ = path.partition("://")
    if not mark or scheme == "file":
        return "", fs.LocalFileSystem(), path.removeprefix("file://").removeprefix("file:")
    pattern = _PATTERN.search(path)
    # A pattern is nothing that a URI may hold.
    whole = path if pattern is None else path[: path.rindex("/", 0, pattern.start()) + 1]
    try:
        system, inside = fs.FileSystem.from_uri(re.sub("^s3[an]://", "s3://", whole))
    except (ValueError, OSError, NotImplementedError, pa.ArrowException) as error:
        msg = f"{path!r} is no path that Arrow can read ({error}); read_run and read_qrels take all that Spark reads"
        raise InputError(msg) from error
    return f"{scheme}://", system, posixpath.join(inside, path[len(whole) :]) if pattern else inside


def _matches(system: fs.FileSystem, path: str) -> list[str]:
    info = system.get_file_info(path)
    if info.is_file:
        return [path]
    pattern = _PATTERN.search(path)
    if pattern is None:
        return [one.path for one in _inside(system, path) if one.is_file]
    start = path.rfind("/", 0, pattern.start()) + 1
    part, _, further = path[start:].partition("/")
    return [
        match
        for one in _inside(system, path[:start] or ".")
        if fnmatch.fnmatchcase(one.base_name, part)
        for match in (
            [one.path] if one.is_file and not further else _matches(system, f"{one.path}/{further}".rstrip("/"))
        )
    ]


def _inside(system: fs.FileSystem, folder: str) -> list[fs.FileInfo]:
    """What a folder holds, in the order of names, hidden ones left out."""
    there = system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return sorted((one for one in there if not one.base_name.startswith(("_", "."))), key=lambda one: one.path)
