"""Works on Sail, in a process of its own that waits for its turns: its environment has no PySpark with Java."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

from benchmarks.environments import PEERS, python_of
from benchmarks.session import CORES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

#: What the name of a work on Sail begins with, before the name of the same work on PySpark.
ON_SAIL = "sail-"


class SailProcess:
    """The process, while it is entered.

    Attributes:
        megabytes: the largest resident set that it has had: engine and Python together.
        values: what each work gave first, by the work's name.
    """

    def __init__(self, folder: str, cutoffs: Collection[int], partitions: int) -> None:
        self.megabytes = 0.0
        self.values: dict[str, float | None] = {}
        self._arguments = [folder, ",".join(map(str, cutoffs)), str(CORES), str(partitions)]

    def __enter__(self) -> SailProcess:
        command = [str(python_of("sail")), "works_on_sail.py", *self._arguments]
        self._process = subprocess.Popen(command, cwd=PEERS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def work(self, name: str) -> Callable[[], None]:
        """What runs a work there, and waits for its end."""

        def turn() -> None:
            assert self._process.stdin is not None, "a pipe"
            assert self._process.stdout is not None, "a pipe"
            self._process.stdin.write(f"{name}\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
            if not answer:
                raise subprocess.CalledProcessError(self._process.wait(), [*self._process.args, name])  # type: ignore[misc]
            told = json.loads(answer)
            self.megabytes, self.values[name] = told["megabytes"], told["value"]

        return turn
