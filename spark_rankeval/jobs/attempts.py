"""Which attempt has a run's name: each claims it in the run's status, and the latest one keeps it.

Two attempts meet if a scheduler takes a driver for dead and starts its run again. An attempt looks at the status before each write,
and stops if it has lost the name. Looking and writing are two steps on any storage: docs/reliability.md says what is left open.
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
    """When an attempt began, and its id; the greatest claim is the latest."""

    started: str
    attempt: str


def claim(run: Run) -> None:
    """Take the run's name, and learn whether the folder of the outputs is on the driver's disk."""
    earlier: list[Claim] = []
    # A folder that cannot be is left to the first write.
    with suppress(OptionError):
        earlier = _claims(run)
    _write_line(run, "running")
    run.is_on_disk = any(_files_of(run))
    now = _claims(run)
    if _claim_of(run) in now and set(earlier) & set(now):
        msg = (
            f"what was written to {run.place(STATUS)} did not replace what was there, but was added to it: the committer of this "
            "session cannot replace one partition of a table (dynamic overwrite). Use Spark's own, or another output.path"
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
        since = "" if latest is None else f", which began at {latest.started},"
        raise superseded(run, f"another attempt{since} has taken the name")


def superseded(run: Run, reason: str) -> SupersededError:
    """The error of an attempt that has lost its run's name."""
    msg = f"run {run.run_id!r} in {run.output}: {reason}; this attempt, begun at {_claim_of(run).started}, stops and writes no more"
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


def _claim_of(run: Run) -> Claim:
    return Claim(run.started.isoformat(), run.attempt)


def _claims(run: Run) -> list[Claim]:
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
            claims.append(Claim(status["started"], status.get("attempt", "")))
    return claims


def _files_of(run: Run) -> Iterator[Path]:
    """The files with this attempt's id; none if Spark resolves the same path to other storage, or another machine's disk."""
    return (file for file, text in _texts(run).items() if run.attempt in text)


def _texts(run: Run) -> dict[Path, str]:
    """The texts at the place of the run's status on the driver's disk, by file."""
    texts = {}
    # A file may be replaced meanwhile, or not be the driver's to read.
    with suppress(OSError):
        for file in on_this_disk(run.place(STATUS)).rglob("[!._]*"):
            if file.is_file():
                texts[file] = file.read_text(encoding="utf-8", errors="replace")
    return texts
