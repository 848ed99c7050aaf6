"""A report or a page into its file: whole, or not at all."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path
from typing import Any

from spark_rankeval.checks import needs_extra
from spark_rankeval.errors import OptionError
from spark_rankeval.report.contents import Contents, Gate


def write_report(path: str | os.PathLike[str], **contents: Any) -> Path:
    """Write the page of `Contents`, given by its fields; see `Result.report`."""
    target = checked_path(path)
    comparison = contents.get("comparison")
    if comparison is not None and not all(hasattr(comparison, name) for name in ("rows", "sliced", "baseline")):
        msg = f"comparison must be what compare(…) returns; got a {type(comparison).__name__}"
        raise OptionError(msg)
    audit = contents.get("audit")
    if audit is not None and not hasattr(audit, "rows"):
        msg = f"audit must be what audit(…) returns; got a {type(audit).__name__}"
        raise OptionError(msg)
    for gate in contents.get("gates", ()):
        if not isinstance(gate, Gate):
            msg = f"each gate must be spark_rankeval.report.Gate(name, condition, found, passed); got {gate!r}"
            raise OptionError(msg)
    with needs_extra("report", "reports"):
        from spark_rankeval.report.page import page
    return write_page(target, page(Contents(**contents)))


def checked_path(path: str | os.PathLike[str], content: str = "report") -> Path:
    """The place of a file, before its content is made; if this machine has no folder for it, an `OptionError`."""
    target = Path(path)
    if not target.parent.is_dir() or target.is_dir() or "://" in os.fspath(path):
        what = "a folder" if target.is_dir() else "in no folder of this machine"
        msg = (
            f"a {content} must be a file on this machine; {os.fspath(path)!r} is {what}. Write it to a local file, and copy it "
            "where it belongs"
        )
        raise OptionError(msg)
    return target


def write_page(target: Path, text: str, content: str = "report") -> Path:
    """Write a file at a path of `checked_path`, at once and whole; if it cannot be written, an `OptionError`."""
    try:
        _replace(target, text)
    except OSError as error:
        msg = f"cannot write the {content} to {str(target)!r}: {error.strerror or error}"
        raise OptionError(msg) from error
    return target


def text_of(path: str | os.PathLike[str], content: str) -> str:
    """The text of a file on this machine; if it cannot be read, an `OptionError`."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"cannot read a {content} at {os.fspath(path)!r}: {getattr(error, 'strerror', None) or error}"
        raise OptionError(msg) from error


def _replace(target: Path, text: str) -> None:
    # Readers of the path see the old file or the new one, never a part.
    beside = target.with_name(f".report-{uuid.uuid4().hex}.tmp")
    try:
        # Its rights are those of any file that is opened: the umask's, or those of the report that it replaces.
        with open(beside, "x", encoding="utf-8") as file:
            file.write(text)
        if target.exists():
            shutil.copymode(target, beside)
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
