"""How much memory Spark's Python workers have taken at most; read from /proc, so on Linux alone."""

from __future__ import annotations

import os
import threading
from pathlib import Path

_PROCESSES = Path("/proc")
# Seconds between two looks. The kernel keeps a process's peak, so that a look misses no moment of one that lives to the next.
_PAUSE = 0.1


class PeakOfWorkers:
    """Watches the Python workers of this process's Spark while it is entered.

    Attributes:
        megabytes: the largest resident set that one worker has had; None where there is no /proc.
    """

    def __init__(self) -> None:
        self.megabytes: float | None = 0.0 if _PROCESSES.is_dir() else None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakOfWorkers:
        if self.megabytes is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_PAUSE):
            self.megabytes = max(self.megabytes or 0.0, *(_peak(worker) for worker in _workers()), 0.0)


def _workers() -> list[Path]:
    """The workers: what the daemons of PySpark that descend from this process have started."""
    parents, daemons = {}, set()
    for process in _PROCESSES.iterdir():
        if process.name.isdigit():
            try:
                status = (process / "stat").read_text()
                command = (process / "cmdline").read_bytes()
            except OSError:
                continue
            parents[int(process.name)] = int(status.rpartition(")")[2].split()[1])
            if b"pyspark.daemon" in command:
                daemons.add(int(process.name))
    return [
        _PROCESSES / str(one) for one in daemons if parents[one] in daemons and os.getpid() in _ancestors(one, parents)
    ]


def _ancestors(process: int, parents: dict[int, int]) -> set[int]:
    found: set[int] = set()
    while process in parents:
        process = parents[process]
        found.add(process)
    return found


def _peak(process: Path) -> float:
    try:
        lines = (process / "status").read_text().splitlines()
    except OSError:
        return 0.0
    return max((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), default=0.0)
