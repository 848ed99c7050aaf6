"""Run make targets side by side, one for each processor, as .ci/run does.

    python3 tests/side_by_side.py test-site "parity SYSTEMS='trec ranx'"

Each argument says what make is to do, and needs no package. Progress is shown at once, and everything else when a command ends. After a
failure no other command starts.
"""

import os
import re
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
# A line of pytest, after the names of what runs it.
PROGRESS = re.compile(r"(?:\w+ +)?[.FEsxX]+ +\[ *\d+%\]$")


@dataclass(frozen=True)
class Ended:
    """What is left of a command: its name, whether it failed, and what it printed beside its progress."""

    name: str
    failed: bool
    lines: tuple[str, ...]


def run(name, command, environment=None, passed=(0,)):
    """Run a command, which passed if it ends with one of these codes.

    Its progress is shown at once, and everything else when it ends, with its time and that of all its processes.
    """
    began, lines = time.monotonic(), []
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        for line in process.stdout:
            if PROGRESS.match(line):
                say(f"{name:8} {line.rstrip()}")
            else:
                lines.append(line.rstrip())
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = f"{time.monotonic() - began:.0f} s, {used.ru_utime + used.ru_stime:.0f} CPU-seconds"
    say("\n".join([f"\n== {name}: {seconds}", *lines]))
    return Ended(name, process.returncode not in passed, tuple(lines))


def say(text):
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def side_by_side(run_one, commands):
    """What a function gives for each command, with as many at a time as there are processors."""
    # A third process on two processors would only make the others slower.
    with ThreadPoolExecutor(max(2, os.cpu_count() or 1)) as pool:
        return list(pool.map(run_one, commands))


def main(targets):
    failed, left = [], []

    def make(target):
        if failed:
            left.append(target)
        elif run(target if len(target) < 30 else target.partition(" ")[0], ["make", *shlex.split(target)]).failed:
            failed.append(target)

    side_by_side(make, targets)
    if failed:
        say(f"FAILED: {'; '.join(failed)}")
    if left:
        say(f"NOT RUN after the failure: {'; '.join(left)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
