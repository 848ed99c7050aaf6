"""Run the parts of `make test`, two at a time: tests on Sail, tests on PySpark, which needs Java, and three parts without Spark.

    python tests/parts.py [--length LENGTH] [Sail] [PySpark] [metrics] [figures] [others]

Names choose some parts. `--length` is that of tests/helpers/lengths.py. Without Java the tests on PySpark are left out, which is an error
in CI.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import side_by_side
from side_by_side import say

ROOT = Path(__file__).parents[1]
PYSPARK, SAIL = (ROOT / name / "bin" / "python" for name in (".venv", ".venv-platform-sail"))
FIGURES = tuple(
    f"tests/{name}"
    for name in ("statistics", "records", "report", "comparison", "evaluation", "run_history", "judging")
)
ELSEWHERE = [f"--ignore={folder}" for folder in ("tests/spark", "tests/pyspark", "tests/metrics", *FIGURES)]
# The options of pytest for each part. In this order two processes end at about the same time.
PARTS = {
    "Sail": (SAIL, "--platform=sail", "tests/spark"),
    "PySpark": (PYSPARK, "--platform=classic", "tests/pyspark"),
    "metrics": (PYSPARK, "--platform=none", "tests/metrics"),
    "figures": (PYSPARK, "--platform=none", *FIGURES),
    "others": (PYSPARK, "--platform=none", "tests", *ELSEWHERE),
}


def command_of(part, length, *options):
    python, *others = PARTS[part]
    return [str(python), "-m", "pytest", "-q", "--color=no", f"--length={length}", *others, *options]


def has_java():
    """The Makefile says where Java is, or that it is not there."""
    return bool(os.environ.get("JAVA", shutil.which("java")))


def n_tests(part, length):
    """How many tests a part has."""
    command = command_of(part, length, "--collect-only")
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return len(re.findall(r"^tests/.*::", listed.stdout, re.MULTILINE))


def left(ended):
    """A line that adds up what all parts left to other commands."""
    counts = Counter()
    for part in ended:
        for line in part.lines:
            for command, n in re.findall(r"left to (`[^`]+`): (\d+) tests", line):
                counts[command] += int(n)
    return "; ".join(f"left to {command}: {n} tests" for command, n in counts.items())


def main():
    parser = argparse.ArgumentParser(prog="parts", description="Run the tests of `make test`.")
    parser.add_argument("--length", default="test", help="default: %(default)s")
    parser.add_argument("names", nargs="*", metavar="part", help=f"run only these of {', '.join(PARTS)}")
    options = parser.parse_args()
    if unknown := set(options.names).difference(PARTS):
        parser.error(f"unknown part {min(unknown)!r}; available: {', '.join(PARTS)}")
    names = options.names or list(PARTS)
    lacks_java = "PySpark" in names and not has_java()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    # At night a part may have no test, which pytest tells by a code of its own.
    passed = (0, pytest.ExitCode.NO_TESTS_COLLECTED) if options.length == "night" else (0,)
    ended = side_by_side.side_by_side(
        lambda name: side_by_side.run(name, command_of(name, options.length), environment, passed),
        [name for name in names if name != "PySpark" or not lacks_java],
    )
    say("\n".join(f"{part.name}: {part.lines[-1] if part.lines else ''}" for part in ended))
    say(left(ended))
    if failed := [part.name for part in ended if part.failed]:
        say(f"FAILED: {', '.join(failed)}")
    if lacks_java:
        say(
            f"LEFT OUT: {n_tests('PySpark', options.length)} tests of plans, storage and types on PySpark, because no 'java' was found. "
            "Install Java 17 or newer, or set JAVA_HOME."
        )
    return int(bool(failed) or ("CI" in os.environ and lacks_java))


if __name__ == "__main__":
    sys.exit(main())
