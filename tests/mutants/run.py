"""Put faults into copies of the package, one at a time, and say which of them no test notices: `make mutants`.

Not mutmut and not cosmic-ray: both make mutants of every line by operators and run the suite for each, which takes days where tests
start Spark. A list that was thought out, each fault with the tests that must notice it, takes seconds a fault and needs no more than this.
"""

import argparse
import ast
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FAULTS = Path(__file__).with_name("faults.toml")
KILLED, SURVIVED, TIMED_OUT, NOT_APPLIED, BROKE = (
    "killed",
    "SURVIVED",
    "TIMED OUT",
    "DID NOT APPLY",
    "TESTS DID NOT RUN",
)
# By pytest's exit code: tests passed, tests failed. With any other pytest itself did not get so far.
_OUTCOMES = {0: SURVIVED, 1: KILLED}


@dataclass(frozen=True)
class Fault:
    """One line that is wrong; faults.toml says what the fields are."""

    id: str
    file: str
    text: str
    becomes: str
    tests: tuple[str, ...]
    spark: bool = False
    row: str | None = None
    function: str = ""

    @property
    def room(self) -> str:
        return self.file.partition("/")[0].removesuffix(".py")

    def places(self, source: str) -> list[int]:
        """Where the text stands within the function."""
        of_function = [(scope.first, scope.end) for scope in scopes_of(source) if scope.name == self.function]
        starts = [match.start() for match in re.finditer(re.escape(self.text), source)]
        within = of_function if self.function else [(0, len(source))]
        return [
            at for at in starts if any(first <= at and at + len(self.text.rstrip()) <= end for first, end in within)
        ]

    def applied(self, source: str) -> str:
        """The source with the fault; a ValueError where the text is not in the function exactly once."""
        places = self.places(source)
        if len(places) != 1:
            msg = f"{self.file} has the text {len(places)} times in {self.function or 'the module'}"
            raise ValueError(msg)
        return source[: places[0]] + self.becomes + source[places[0] + len(self.text) :]


class Scope(NamedTuple):
    """A function, a class or a name of a module or class; `first` and `end` are places in the source."""

    name: str
    first: int
    end: int


@cache
def scopes_of(source: str) -> list[Scope]:
    """The scopes of a module by their qualified names; what stands outside of them is of the module alone."""
    lines = [0, *(match.end() for match in re.finditer("\n", source)), len(source)]

    def inside(node: ast.AST, outer: str, *, are_names: bool) -> Iterator[Scope]:
        for child in ast.iter_child_nodes(node):
            is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            targets = child.targets[:1] if isinstance(child, ast.Assign) else [getattr(child, "target", None)]
            name = getattr(targets[0], "id", "") if are_names and isinstance(child, ast.Assign | ast.AnnAssign) else ""
            if is_function or isinstance(child, ast.ClassDef):
                name = child.name
            if name:
                first = min(part.lineno for part in (child, *getattr(child, "decorator_list", ())))
                yield Scope(outer + name, lines[first - 1], lines[child.end_lineno])
            inner = f"{outer}{name}." if name else outer
            yield from inside(child, inner, are_names=are_names and not is_function)

    return list(inside(ast.parse(source), "", are_names=True))


@dataclass(frozen=True)
class Verdict:
    outcome: str
    detail: str = ""
    seconds: float = 0.0


def read_faults(file: Path = FAULTS) -> list[Fault]:
    listed = tomllib.loads(file.read_text())["fault"]
    return [Fault(**{**fields, "tests": tuple(fields["tests"])}) for fields in listed]


@contextmanager
def copy_of_project() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = Path(folder, "project")
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "build", "dist", "output"))
        yield copy


def run_tests(copy: Path, tests: Sequence[str], row: str | None, timeout: float) -> Verdict:
    """Run tests of a copy, which is what they and Spark's workers import."""
    python, options = python_of(row)
    plugins = ["-p", "no:cacheprovider", "-p", "tests.mutants.unshrunk"]
    command = [python, "-m", "pytest", "-x", "-q", *plugins, "--tb=no", "-rfE", *options, *tests]
    # The tests of a fault may be among those that run at night.
    environment = {**os.environ, "PYTHONPATH": str(copy), "FULL_LENGTH": "1"}
    started = time.monotonic()
    process = subprocess.Popen(
        command, cwd=copy, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        # Spark's JVM and workers are of the same process group.
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return Verdict(TIMED_OUT, f"after {timeout:g} s", time.monotonic() - started)
    noticed = re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    outcome = _OUTCOMES.get(process.returncode, BROKE)
    last = output.strip().splitlines()[-1:] or ["pytest said nothing"]
    detail = noticed[0] if noticed else last[0]
    return Verdict(outcome, detail if outcome != SURVIVED else " ".join(tests), time.monotonic() - started)


def python_of(row: str | None) -> tuple[str, list[str]]:
    """The Python of a row of the matrix, and the options by which its tests run there."""
    if row is None:
        return sys.executable, []
    platform, _, versions = row.partition("-")
    options = ["--platform", "classic" if platform == "spark" else platform]
    return str(ROOT / f".venv-platform-{versions or platform}" / "bin" / "python"), options


def try_fault(fault: Fault, tests: Sequence[str], timeout: float) -> Verdict:
    with copy_of_project() as copy:
        file = copy / "spark_rankeval" / fault.file
        try:
            source = fault.applied(file.read_text())
            # Any test would notice what does not read.
            ast.parse(source)
            file.write_text(source)
        except (ValueError, SyntaxError, OSError) as error:
            return Verdict(NOT_APPLIED, str(error))
        return run_tests(copy, tests, fault.row, timeout)


def check_without_faults(faults: Sequence[Fault], timeout: float) -> None:
    """What fails without a fault would seem to notice any."""
    for row in {fault.row for fault in faults}:
        tests = list(dict.fromkeys(test for fault in faults if fault.row == row for test in fault.tests))
        say(f"without a fault: {len(tests)} tests and files{f' on {row}' if row else ''} …")
        with copy_of_project() as copy:
            verdict = run_tests(copy, tests, row, 10 * timeout)
        if verdict.outcome != SURVIVED:
            sys.exit(f"the tests fail without a fault: {verdict.detail} ({verdict.outcome})")
        say(f"they pass, in {verdict.seconds:.0f} s")


def table(verdicts: dict[Fault, Verdict]) -> str:
    counts = Counter((room, verdict.outcome) for fault, verdict in verdicts.items() for room in (fault.room, "all"))
    rooms = [*sorted({fault.room for fault in verdicts}), "all"]
    outcomes = [one for one in (KILLED, SURVIVED, TIMED_OUT, NOT_APPLIED, BROKE) if counts["all", one] or one == KILLED]
    width = max(map(len, rooms))
    rows = [" ".join([f"{room:{width}}", *(f" {counts[room, one]:{len(one)}}" for one in outcomes)]) for room in rooms]
    return "\n".join([f"{'':{width}}  {'  '.join(outcomes)}", *rows])


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="mutants", description="Say which faults of faults.toml no test notices.")
    parser.add_argument(
        "--faults", default="", help="those that have this in their words, file or tests; or 'spark', or 'no spark'"
    )
    parser.add_argument("--processes", type=int, default=2, help="how many at a time; default: %(default)s")
    parser.add_argument(
        "--all-tests",
        action="store_true",
        help="run the whole suite on PySpark instead of the tests that a fault names",
    )
    parser.add_argument("--timeout", type=float, help="seconds a fault; default: 300, with --all-tests 3600")
    parser.add_argument("--trust", action="store_true", help="do not run the tests without a fault first")
    options = parser.parse_args()
    faults = [fault for fault in read_faults() if is_asked_for(fault, options.faults)]
    lacking = {fault.row for fault in faults if not Path(python_of(fault.row)[0]).exists()}
    for fault in [fault for fault in faults if fault.row in lacking]:
        say(f"left out, make test-{fault.row} makes what it needs: {fault.id}")
    faults = [fault for fault in faults if fault.row not in lacking]
    if not faults:
        sys.exit(f"no fault is of {options.faults!r}")
    timeout = options.timeout or (3600 if options.all_tests else 300)
    if not options.trust:
        check_without_faults(faults, timeout)
    # This folder's own test finds any text that is changed.
    every = ["--ignore=tests/mutants"]

    def tried(fault: Fault) -> Verdict:
        verdict = try_fault(fault, every if options.all_tests else fault.tests, timeout)
        say(f"{verdict.outcome:9} {verdict.seconds:5.0f} s  {fault.room}: {fault.id}  [{verdict.detail}]")
        return verdict

    with ThreadPoolExecutor(options.processes) as pool:
        verdicts = dict(zip(faults, pool.map(tried, faults), strict=True))
    say("\n" + table(verdicts))
    alive = [fault for fault, verdict in verdicts.items() if verdict.outcome != KILLED]
    say("\n".join(["", *(f"{verdicts[fault].outcome}: {fault.id} ({fault.file})" for fault in alive)]))
    return int(bool(alive))


def is_asked_for(fault: Fault, part: str) -> bool:
    if part in ("spark", "no spark"):
        return fault.spark == (part == "spark")
    return any(part.lower() in text.lower() for text in (fault.id, fault.file, *fault.tests))


if __name__ == "__main__":
    sys.exit(main())
