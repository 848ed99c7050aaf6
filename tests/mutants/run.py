"""Put faults into functions of the package, one at a time, and say which of them no test notices: `make mutants`.

The tests are collected once, and a child is forked for each fault. It changes the functions in memory and runs the tests that call them
until one fails, those on Sail last. Most faults take a second, or five if Sail has to start.

Random mutants come from operators.py: the same `--seed` gives the same ones, and a larger `--number` begins with them. Planted faults come
from faults.toml. All of them are tried, and one that survives is an error. Those that PySpark alone shows need `--platform classic`.
"""

import argparse
import functools
import gc
import importlib
import json
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from _pytest.main import pytest_runtestloop as run_tests

from . import calls
from .calls import PACKAGE
from .operators import Mutant, mutants_of

ROOT = PACKAGE.parent
FAULTS = Path(__file__).with_name("faults.toml")
KILLED, SURVIVED, TIMED_OUT, NO_TEST, NOT_APPLIED = "killed", "SURVIVED", "TIMED OUT", "NO TEST", "not applied"
OUTCOMES = (KILLED, SURVIVED, TIMED_OUT, NO_TEST)


def with_fault(path, function, text, becomes):
    """The source of a module in which a function has another text."""
    source = path.read_text()
    for name, node in calls.functions_of(calls.ast.parse(source)):
        lines = source.splitlines(keepends=True)
        first, body = "".join(lines[: node.lineno - 1]), "".join(lines[node.lineno - 1 : node.end_lineno])
        if name == function and body.count(text) == 1:
            return first + body.replace(text, becomes) + "".join(lines[node.end_lineno :])
    msg = f"{path}: {function} does not have this text once: {text}"
    raise ValueError(msg)


def planted(platform):
    """The faults of faults.toml for a platform."""
    for fault in tomllib.loads(FAULTS.read_text())["fault"]:
        if fault.get("platform", "sail") == platform:
            path = PACKAGE / fault["file"]
            source = with_fault(path, fault["function"], fault["text"], fault["becomes"])
            compiled = functools.partial(compile, source, str(path), "exec", dont_inherit=True)
            yield Mutant(f"{fault['file']} {fault['id']}", fault["file"], fault["function"], compiled, planted=True)


def codes_of(code, codes=None):
    """All code objects of a module by their qualified names."""
    codes = defaultdict(list) if codes is None else codes
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            codes[constant.co_qualname].append(constant)
            codes_of(constant, codes)
    return codes


def functions_in_memory():
    """All functions of the package by their files."""
    for path in sorted(PACKAGE.rglob("*.py")):
        # Some modules need a package that is not installed here.
        with suppress(ImportError):
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    functions = defaultdict(list)
    for each in gc.get_objects():
        if isinstance(each, FunctionType):
            functions[each.__code__.co_filename].append(each)
    return functions


def swap(mutant, functions):
    """Give the functions of a module the code that a mutant changes; how many have got it."""
    path = str(PACKAGE / mutant.file)
    before = codes_of(compile(Path(path).read_text(), path, "exec", dont_inherit=True))
    now = {}
    for name, codes in codes_of(mutant.compiled()).items():
        now |= {(name, old.co_firstlineno): new for old, new in zip(before[name], codes, strict=False) if old != new}
    n_swapped = 0
    for function in functions[path]:
        old = function.__code__
        new = now.get((old.co_qualname, old.co_firstlineno))
        if new and new.co_freevars in (old.co_freevars, ()):
            function.__code__ = new.replace(co_freevars=old.co_freevars)
            n_swapped += 1
    return n_swapped


class Run:
    """A plugin of pytest that tries mutants with the tests that were collected."""

    def __init__(self, mutants, options):
        self.mutants, self.options, self.forking = mutants, options, threading.Lock()
        has_results = options.results and options.results.exists()
        self.results = json.loads(options.results.read_text()) if has_results else {}

    def pytest_configure(self):
        # Not above: pytest wants to import it first.
        from hypothesis import HealthCheck, Phase, settings

        # Random cases are the same in every run, and the first that fails is enough. A slow machine is no fault.
        phases, checks = set(Phase) - {Phase.shrink, Phase.explain}, list(HealthCheck)
        settings.register_profile(
            "mutants", phases=phases, deadline=None, derandomize=True, database=None, suppress_health_check=checks
        )
        settings.load_profile("mutants")

    def pytest_collectreport(self, report):
        if report.failed:
            say(f"cannot be imported here: {report.nodeid}")

    def pytest_runtestloop(self, session):
        session.testsfailed = 0
        self.session, self.items = session, {item.nodeid: item for item in session.items}
        session.items = list(self.items.values())
        self.functions = functions_in_memory()
        # Else a child copies all memory when it collects garbage.
        gc.collect()
        gc.freeze()
        self.read_map()
        waiting = [mutant for mutant in self.mutants if mutant.name not in self.results]
        trusted = set()
        while waiting:
            with ThreadPoolExecutor(self.options.processes) as pool:
                list(pool.map(self.attempt, waiting))
            # A test that fails without a fault would seem to notice any.
            killed_by = {test for outcome, test, _ in self.results.values() if outcome == KILLED}
            killers = killed_by & self.items.keys() - trusted
            failed = killers.intersection(self.forked(self.listen, None, sorted(killers), timeout=3600))
            trusted |= killers
            for test in failed:
                say(f"fails without a fault: {test}")
                self.seconds.pop(test)
            waiting = [mutant for mutant in self.mutants if self.results[mutant.name][1] in failed]
        return True

    def read_map(self):
        """Read which functions each test calls, or run all tests to see it."""
        path = self.options.map
        if self.options.fresh or not path.exists():
            say(f"running {len(self.items)} tests once, to see what they call …")
            path.parent.mkdir(exist_ok=True)
            self.forked(self.record, timeout=3600)
        stored = json.loads(path.read_text())
        self.at_import = set(stored["at_import"])
        if unknown := self.items.keys() - stored["tests"].keys() - set(stored["failed"]):
            say(f"{path} does not know {len(unknown)} tests, which do not run: --fresh makes it anew")
        self.seconds, self.n_calls, self.callers = {}, {}, defaultdict(list)
        self.n_of_word = Counter(word for test in self.items for word in words_of(test))
        for test in stored["tests"].keys() & self.items.keys():
            self.seconds[test], called = stored["tests"][test]
            self.n_calls[test] = len(called)
            for place in called:
                self.callers[stored["names"][place]].append(test)

    def record(self, _):
        recorder = calls.Recorder()
        self.session.config.pluginmanager.register(recorder)
        run_tests(self.session)
        self.options.map.write_text(json.dumps(recorder.as_json()))

    def tests_of(self, mutant):
        """The tests that call a function, for `--seconds` without Spark and as many on it; for a planted fault all of them.

        Those come first whose names have the rarest words of the mutant, then those that call the fewest functions.
        """
        words = words_of(mutant.name)

        def key(test):
            likeness = sum(1 / self.n_of_word[word] for word in words & words_of(test))
            return "_session" in self.items[test].fixturenames, -likeness, self.n_calls[test], test

        chosen, seconds = [], Counter()
        for test in sorted((test for test in self.callers[mutant.full_name] if test in self.seconds), key=key):
            on_spark, *_ = key(test)
            if mutant.planted or seconds[on_spark] < self.options.seconds:
                chosen.append(test)
                seconds[on_spark] += self.seconds[test]
        return chosen

    def attempt(self, mutant):
        """Try a mutant, and note what became of it."""
        began, tests = time.monotonic(), self.tests_of(mutant)
        if tests:
            said = self.forked(self.listen, mutant, tests, timeout=self.options.timeout)
            first = said[0] if said else "the process ended"
        else:
            # What runs when the package is imported cannot be changed afterwards.
            first = NOT_APPLIED if mutant.full_name in self.at_import else NO_TEST
        outcome, test = (first, "") if first in (*OUTCOMES, NOT_APPLIED) else (KILLED, first)
        self.results[mutant.name] = outcome, test, round(time.monotonic() - began, 2)
        say(f"{outcome:11} {time.monotonic() - began:5.1f} s  {mutant.name}{test and f'  [{test}]'}")
        if self.options.results:
            self.options.results.write_text(json.dumps(self.results, indent=0, ensure_ascii=False))

    def forked(self, run, *arguments, timeout):
        """Run a function in a child; what it sends until it ends, or until time is up."""
        with self.forking:
            receiver, sender = multiprocessing.Pipe(duplex=False)
            process = multiprocessing.get_context("fork").Process(target=alone, args=(run, sender, *arguments))
            process.start()
            sender.close()
        said, until = [], time.monotonic() + timeout
        with suppress(EOFError):
            while receiver.poll(max(until - time.monotonic(), 0)):
                said.append(receiver.recv())
            said.append(TIMED_OUT)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.join()
        return said

    def listen(self, sender, mutant, tests):
        """Send which tests fail: with a mutant the first, without one all of them."""
        if mutant and not swap(mutant, self.functions):
            sender.send(NOT_APPLIED)
            return

        class Listener:
            def pytest_runtest_logreport(self, report):
                if report.failed:
                    sender.send(report.nodeid)
                    if mutant:
                        os._exit(0)

        self.session.config.pluginmanager.register(Listener())
        self.session.items = [self.items[test] for test in tests]
        run_tests(self.session)
        sender.send(SURVIVED)


def alone(run, *arguments):
    """Run a function in a group of processes, which ends with it, and without a screen."""
    os.setsid()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    run(*arguments)
    os._exit(0)


def table(mutants, results):
    """How many mutants of each room have which outcome, and the share that is killed."""
    counts = Counter((room, results[each.name][0]) for each in mutants for room in (each.room, "all"))
    rows = [f"{'':14}{'  '.join(OUTCOMES)}  score"]
    for room in [*sorted({mutant.room for mutant in mutants}), "all"]:
        figures = [counts[room, outcome] for outcome in OUTCOMES]
        columns = [f"{figure:{len(outcome)}}" for figure, outcome in zip(figures, OUTCOMES, strict=True)]
        rows.append(f"{room:14}{'  '.join(columns)}  {figures[0] / max(sum(figures), 1):5.0%}")
    return "\n".join(rows)


@functools.cache
def words_of(text):
    return frozenset(re.findall("[a-z]+", text.lower()))


def say(line):
    sys.__stdout__.write(f"{line}\n")
    sys.__stdout__.flush()


def read_options():
    parser = argparse.ArgumentParser(prog="mutants", description="Say which faults of the package no test notices.")
    parser.add_argument("tests", nargs="*", default=["tests", "tests/jobs"], help="default: tests tests/jobs")
    parser.add_argument("--platform", default="sail", help="of the tests; default: %(default)s")
    parser.add_argument("--number", type=int, default=200, help="of random mutants; default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="of random mutants; default: %(default)s")
    parser.add_argument("--since", metavar="COMMIT", help="mutants of modules that changed since")
    parser.add_argument("--files", default="", help="mutants of files whose names begin so, such as statistics/")
    parser.add_argument("--no-planted", action="store_true", help="without the faults of faults.toml")
    parser.add_argument(
        "--seconds", type=float, default=60, help="of the tests of a random mutant, without Spark and on it"
    )
    parser.add_argument("--timeout", type=float, default=180, help="seconds of a mutant; default: %(default)s")
    parser.add_argument("--processes", type=int, default=2, help="how many at a time; default: %(default)s")
    parser.add_argument("--map", type=Path, help="which functions tests call; default: a file in build/")
    parser.add_argument("--fresh", action="store_true", help="write that file anew")
    parser.add_argument("--results", type=Path, help="a file that stores outcomes; what it has is not tried again")
    options = parser.parse_args()
    options.map = options.map or ROOT / "build" / f"calls_on_{options.platform}.json"
    return options


def mutants_for(options):
    """The mutants that are to be tried."""
    paths = sorted(PACKAGE.rglob("*.py"))
    if options.since:
        command = ["git", "diff", "--name-only", options.since, "--", PACKAGE]
        changed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
        paths = [path for path in paths if path.relative_to(ROOT).as_posix() in changed]
    files = {path.relative_to(PACKAGE).as_posix(): path for path in paths}
    files = {file: path for file, path in files.items() if file.startswith(options.files)}
    mutants = [mutant for path in files.values() for mutant in mutants_of(path)] if options.number else []
    random.Random(options.seed).shuffle(mutants)
    faults = [] if options.no_planted else [fault for fault in planted(options.platform) if fault.file in files]
    return mutants[: options.number] + faults


def main():
    options = read_options()
    mutants = mutants_for(options)
    if options.fresh or not options.map.exists():
        calls.watch()
    run = Run(mutants, options)
    others = ["--ignore=tests/pyspark", "-m", "not night"] if options.platform == "sail" else []
    # pytest leaves out tests/jobs as a part of tests, where it does not look into it. Files that need another environment are left out.
    quiet = [
        "-q", "-s", "--no-summary", "--keep-duplicates", "--continue-on-collection-errors", "-p", "no:cacheprovider",
    ]  # fmt: skip
    pytest.main([*quiet, f"--platform={options.platform}", *others, *options.tests], plugins=[run])
    if any(mutant.name not in run.results for mutant in mutants):
        sys.exit("the tests could not be collected")
    tried = [mutant for mutant in mutants if run.results[mutant.name][0] != NOT_APPLIED]
    alive = [mutant for mutant in tried if run.results[mutant.name][0] != KILLED]
    say("\n".join(["", *(f"{run.results[mutant.name][0]}: {mutant.name}" for mutant in alive), ""]))
    say(table(tried, run.results))
    return int(any(mutant.planted for mutant in alive))


if __name__ == "__main__":
    sys.exit(main())
