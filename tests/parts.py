"""Run the parts of `make test` at the same time: tests without Spark, tests on Sail, and tests on PySpark, which needs Java.

    python tests/parts.py [--all]

With `--all` both engines run all of tests/spark. Without Java the tests on PySpark are left out, by name, which is an error in CI.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from threading import Thread

ROOT = Path(__file__).parents[1]
SPARK = "tests/spark"
PYSPARK, SAIL = (ROOT / name / "bin" / "python" for name in (".venv", ".venv-platform-sail"))
BY_TWO = ["--numprocesses=2", "--dist=loadfile", "--no-loadscope-reorder"]
PROGRESS = re.compile(r"[.FEsxX]+ +\[ *\d+%\]$")


class Part:
    """One pytest process. Its progress is shown at once, and everything else when it ends."""

    def __init__(self, name, python, *options):
        self.name, self.output, self.began = name, [], time.monotonic()
        # The interpreter of another environment must not see this one's packages: the path has only this project.
        command = [str(python), "-m", "pytest", "-q", "--color=no", "--budget", *options]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )  # fmt: skip
        self._reader = Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            if PROGRESS.match(line):
                say(f"{self.name:8}{line.rstrip()}")
            else:
                self.output.append(line)
        code = self._process.wait()
        # Pytest says 5 if it has no test.
        self.failed = code != 0
        self.seconds = time.monotonic() - self.began
        say(f"\n== {self.name}: {self.seconds:.0f} s\n{''.join(self.output)}")

    def end(self):
        self._reader.join()
        return self


def say(text):
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def has_java():
    """The Makefile says where Java is, or that it is not there."""
    return bool(os.environ.get("JAVA", shutil.which("java")))


def left_out_without_java(options):
    """The number of tests of each file that need PySpark."""
    command = [str(PYSPARK), "-m", "pytest", "-q", "--collect-only", *options]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return Counter(re.findall(rf"^({SPARK}/\w+\.py)::", listed, re.MULTILINE))


def main():
    parser = argparse.ArgumentParser(prog="parts", description="Run the tests of `make test`.")
    parser.add_argument("--all", action="store_true", help="run all of tests/spark on both engines")
    assigned = [] if parser.parse_args().all else ["--assigned"]
    # All of tests/spark takes PySpark longer than everything else takes one processor.
    on_pyspark = ["--platform=classic", SPARK, *(assigned or BY_TWO)]
    parts = [
        Part("Sail", SAIL, "--platform=sail", SPARK, *assigned),
        Part("no Spark", PYSPARK, "--platform=none", "tests", f"--ignore={SPARK}"),
    ]
    if has_java():
        parts.append(Part("PySpark", PYSPARK, *on_pyspark))
    ended = [part.end() for part in parts]
    say("; ".join(f"{part.name}: {part.output[-1].strip()}" for part in ended))
    failed = [part.name for part in ended if part.failed]
    if failed:
        say(f"FAILED: {', '.join(failed)}")
    if not has_java():
        files = left_out_without_java(on_pyspark)
        say("\n".join(f"LEFT OUT: {n} tests of {file} on PySpark" for file, n in sorted(files.items())))
        say(
            f"LEFT OUT: {files.total()} tests that run on PySpark, because no 'java' was found: plans, jobs, storage, types and more "
            "(tests/engines.toml). Install Java 17 or newer, or set JAVA_HOME."
        )
    return int(bool(failed) or ("CI" in os.environ and not has_java()))


if __name__ == "__main__":
    sys.exit(main())
