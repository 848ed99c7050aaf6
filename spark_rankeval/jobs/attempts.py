"""Which attempt has a run's name: each claims it in the run's status, and the latest one keeps it.

Two attempts meet where a scheduler starts a run again while the earlier driver, taken for dead, still works. Before it writes, an
attempt looks whether the status still names it. One that has lost the name stops, and leaves everything to the other. A DataFrame
cannot be written on a condition, on any storage: looking and writing are two steps, and docs/reliability.md says what is left open.
"""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_rankeval.errors import ConfigurationError, OptionError, SupersededError
from spark_rankeval.jobs.partitions import on_this_disk, write_line
from spark_rankeval.records.metrics_table import RUN_ID
from spark_rankeval.spark.storage import lines_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from spark_rankeval.jobs.runs import Run

#: The table of the runs' states.
STATUS = "status"


class Claim(NamedTuple):
    """When an attempt began, and its id: the greatest claim is the latest."""

    started: str
    attempt: str


def claim(run: Run) -> None:
    """Take the run's name, from whoever has it, and learn whether the folder of the outputs is on the driver's disk.

    Raises:
        ConfigurationError: the storage keeps what was to be replaced; only the status was written.
    """
    earlier: list[Claim] = []
    # Of a folder in which nothing can be the first write tells.
    with suppress(OptionError):
        earlier = _claims(run)
    _write_line(run, "running")
    run.is_on_disk = any(_files_of(run))
    now = _claims(run)
    if _own(run) in now and set(earlier) & set(now):
        msg = (
            f"what was written to {run.place(STATUS)} did not replace what was there, but was added to it: the committer of this "
            "session cannot replace one partition of a table (dynamic overwrite). Use Spark's own, or another output.path"
        )
        raise ConfigurationError(run.config.redacted(msg))
    _name_file(run)


def stop_if_superseded(run: Run) -> None:
    """Look whether the run's name is still this attempt's.

    An earlier attempt may write its last status after it has lost the name: the name is taken back then, or both would stop.

    Raises:
        SupersededError: another attempt has it, or is about to take it.
    """
    latest = max(_claims(run), default=None)
    if latest is not None and latest < _own(run):
        _write_line(run, "running")
        _name_file(run)
        latest = max(_claims(run), default=None)
    if latest != _own(run):
        since = "" if latest is None else f", which began at {latest.started},"
        raise superseded(run, f"another attempt{since} has taken the name")


def superseded(run: Run, reason: str) -> SupersededError:
    """The error of an attempt that has lost its run's name."""
    msg = f"run {run.run_id!r} in {run.output}: {reason}; this attempt, begun at {_own(run).started}, stops and writes no more"
    return SupersededError(run.config.redacted(msg))


def write_status(run: Run, state: str, **facts: Any) -> None:
    """Write how a run ended, as one line of JSON; on the driver's disk its file is ``status.json``.

    Args:
        run: the run.
        state: ``succeeded`` or ``failed``.
        facts: the exit code; of what failed the kind of error and its message.
    """
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
    """Give the status on the driver's disk a name that others can know; elsewhere Spark alone writes, and chooses the names."""
    # Who may read only leaves it as it is.
    with suppress(OSError):
        for file in _files_of(run):
            file.rename(file.with_name("status.json"))
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def _own(run: Run) -> Claim:
    return Claim(run.started.isoformat(), run.attempt)


def _claims(run: Run) -> list[Claim]:
    """The claims that the status holds: one, or several that were written at once; none while it is being replaced."""
    if run.is_on_disk:
        lines = [line for text in _texts(run).values() for line in text.split("\n")]
    else:
        lines = lines_at(run.spark, run.place(STATUS))
    claims = []
    for line in lines:
        # Whatever else stands there is nobody's claim; earlier versions named no attempts.
        with suppress(ValueError, KeyError, TypeError):
            status = json.loads(line)
            claims.append(Claim(status["started"], status.get("attempt", "")))
    return claims


def _files_of(run: Run) -> Iterator[Path]:
    """The files of the driver's disk that hold what Spark wrote of this attempt, whose id is nobody else's.

    There are none where Spark resolves the same path to other storage, or to the disk of another machine.
    """
    return (file for file, text in _texts(run).items() if run.attempt in text)


def _texts(run: Run) -> dict[Path, str]:
    """What stands where the run's status would be on the driver's disk, by file."""
    texts = {}
    # What is replaced meanwhile is not there, and not every folder of a disk is the driver's to read.
    with suppress(OSError):
        for file in on_this_disk(run.place(STATUS)).rglob("[!._]*"):
            if file.is_file():
                texts[file] = file.read_text(encoding="utf-8", errors="replace")
    return texts
