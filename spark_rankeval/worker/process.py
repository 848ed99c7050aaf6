"""What a Python worker's process does once, for all the tasks that Spark will give it."""

from __future__ import annotations

import gc

_settled = False


def settle() -> None:
    """Take what is loaded by now, modules above all, out of the garbage collector's sight.

    Between two tasks Spark has the collector look at every object of the process: tens of milliseconds a task for numpy, pandas
    and pyarrow, of which nothing is ever garbage.
    """
    global _settled  # noqa: PLW0603 # once a process, whatever runs in it
    if not _settled:
        _settled = True
        gc.freeze()
