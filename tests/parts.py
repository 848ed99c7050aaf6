"""Run the parts of `make test`, two at a time: tests on PySpark, which needs Java, tests on Sail, and two parts without Spark.

    python tests/parts.py [--all] [PySpark] [Sail] [metrics] [others]

With `--all` both engines run all of tests/spark. Names choose some parts. Without Java the tests on PySpark are left out, by name, which is
an error in CI.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import side_by_side
from side_by_side import say

ROOT = Path(__file__).parents[1]
SPARK, METRICS = "tests/spark", "tests/metrics"
PYSPARK, SAIL = (ROOT / name / "bin" / "python" for name in (".venv", ".venv-platform-sail"))
NAMES = ("PySpark", "Sail", "metrics", "others")


def run(name, python, *options):
    """Run pytest in a process of its own."""
    command = [str(python), "-m", "pytest", "-q", "--color=no", "--budget", *options]
    return side_by_side.run(name, command, {**os.environ, "PYTHONPATH": str(ROOT)})


def has_java():
    """The Makefile says where Java is, or that it is not there."""
    return bool(os.environ.get("JAVA", shutil.which("java")))


def left_out_without_java(options):
    """The number of tests of each file that need PySpark."""
    command = [str(PYSPARK), "-m", "pytest", "-q", "--collect-only", *options]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return Counter(re.findall(rf"^({SPARK}/\w+\.py)::", listed, re.MULTILINE))


def parts_of(engines):
    """The options of pytest for each part; `engines` choose among the tests of tests/spark."""
    return {
        "PySpark": (PYSPARK, "--platform=classic", SPARK, *engines),
        "Sail": (SAIL, "--platform=sail", SPARK, *engines),
        "metrics": (PYSPARK, "--platform=none", METRICS),
        "others": (PYSPARK, "--platform=none", "tests", f"--ignore={SPARK}", f"--ignore={METRICS}"),
    }


def main():
    parser = argparse.ArgumentParser(prog="parts", description="Run the tests of `make test`.")
    parser.add_argument("--all", action="store_true", help="run all of tests/spark on both engines")
    parser.add_argument("names", nargs="*", metavar="part", help=f"run only these of {', '.join(NAMES)}")
    options = parser.parse_args()
    if unknown := set(options.names).difference(NAMES):
        parser.error(f"unknown part {min(unknown)!r}; available: {', '.join(NAMES)}")
    parts = {
        name: part
        for name, part in parts_of([] if options.all else ["--assigned"]).items()
        if name in (options.names or NAMES)
    }
    lacks_java = "PySpark" in parts and not has_java()
    on_pyspark = parts.pop("PySpark") if lacks_java else ()
    ended = side_by_side.side_by_side(lambda part: run(part[0], *part[1]), parts.items())
    say("\n".join(f"{part.name}: {part.words}" for part in ended))
    failed = [part.name for part in ended if part.failed]
    if failed:
        say(f"FAILED: {', '.join(failed)}")
    if lacks_java:
        files = left_out_without_java(on_pyspark[1:])
        say("\n".join(f"LEFT OUT: {n} tests of {file} on PySpark" for file, n in sorted(files.items())))
        say(
            f"LEFT OUT: {files.total()} tests that run on PySpark, because no 'java' was found: plans, jobs, storage, types and more "
            "(tests/engines.toml). Install Java 17 or newer, or set JAVA_HOME."
        )
    return int(bool(failed) or ("CI" in os.environ and lacks_java))


if __name__ == "__main__":
    sys.exit(main())
