"""The command ``spark-rankeval``, also as ``python -m spark_rankeval``; and its doctor, which needs Python alone.

The doctor says what this machine has for evaluations, runs one with a known figure, and says what to do about problems.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

from spark_rankeval.checks import EXTRAS, PANDAS_NOTICE, __version__, installed_version
from spark_rankeval.errors import SparkRankEvalError

# What pyproject.toml asks for.
_LEAST = {"numpy": "1.26", "pandas": "2.2", "pyarrow": "15"}
# PySpark from this version on needs a newer pyarrow.
_NEWER_PYSPARK, _NEWER_PYARROW = "4.2", "18"
# What a session and its workers need on one machine.
_LEAST_MEMORY = 2 << 30
# Users, items and scores, and the labels: the NDCG of user a is 1 / log2(3) and that of b is 1.
_PREDICTIONS = [("a", "x", 0.9), ("a", "y", 0.8), ("b", "x", 0.7)]
_LABELS = [("a", "y"), ("b", "x")]
_NDCG = 0.8154648767857287
# Spark reserves many more addresses than it uses memory.
_LEAST_ADDRESSES = 8 << 30


class Finding(NamedTuple):
    """What was looked at and found. If it is a problem, `advice` says what to do."""

    what: str
    found: str
    advice: str = ""

    def __str__(self) -> str:
        line = f"{'PROBLEM' if self.advice else 'ok':8}{self.what}: {self.found}"
        return f"{line}\n{'':8}{self.advice}" if self.advice else line


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with a command line, by default that of the process, and return the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] == ["doctor"]:
        parser = argparse.ArgumentParser(prog="spark-rankeval doctor")
        parser.add_argument("--engine", choices=("spark", "sail"), help="default: spark, or sail if Spark cannot start")
        return doctor(parser.parse_args(words[1:]).engine)
    from spark_rankeval.jobs import command  # noqa: PLC0415 # a package that it imports may be missing

    return command.main(words)


def doctor(engine: Literal["spark", "sail"] | None = None) -> int:
    """Print what is there and what is wrong, and return 0 if an evaluation runs as it should, else 1."""
    warnings.filterwarnings("ignore", PANDAS_NOTICE, FutureWarning)
    problems = 0
    for finding in findings(engine):
        print(finding, flush=True)
        problems += bool(finding.advice)
    print(f"{problems} problem{'s' * (problems > 1)}" if problems else "all is well")
    return min(problems, 1)


def findings(engine: Literal["spark", "sail"] | None) -> Iterator[Finding]:
    """What is found, one thing after another: the cheap ones first, and an evaluation last."""
    yield Finding("spark_rankeval", f"{__version__}, Python {platform.python_version()} at {sys.executable}")
    packages = [_package(name, least) for name, least in _LEAST.items()]
    yield from packages
    for extra, names in EXTRAS.items():
        lacking = [name for name in names if find_spec(name) is None]
        yield Finding(f"extra {extra}", f"lacks {', '.join(lacking)}" if lacking else "installed")
    memory, addresses = _limits()
    yield _memory(memory)
    if find_spec("pyspark") is None:
        without_java = " ".join(f"'{requirement}'" for requirement in EXTRAS["sail"].values())
        yield Finding("engine", "there is none", f"pip install 'pyspark>=3.5', or without Java {without_java}")
        return
    # Without them an engine gives errors that say less.
    if any(package.advice for package in packages):
        return
    yield Finding("engine", "starting …")
    try:
        yield from _evaluation(engine)
    except SparkRankEvalError as error:
        yield Finding("engine", "no evaluation could run", " ".join(str(error).split()))
    except Exception as error:  # of an engine, whatever it is
        first = str(error).strip().partition("\n")[0]
        yield Finding(
            "engine", f"{type(error).__name__}: {first}", "docs/bad_data.md has what engines say, and what to do"
        )
    else:
        return
    if addresses < _LEAST_ADDRESSES:
        advice = "an engine reserves many more addresses than it uses memory: ulimit -v unlimited"
        yield Finding("addresses", f"{addresses / 2**30:.1f} GB", advice)


def _package(name: str, least: str) -> Finding:
    """Whether a package that is always needed is there, and new enough."""
    client = installed_version("pyspark") or installed_version("pyspark-client")
    if name == "pyarrow" and client is not None and _numbers(client) >= _numbers(_NEWER_PYSPARK):
        least = _NEWER_PYARROW
    found = installed_version(name)
    is_old = found is None or _numbers(found) < _numbers(least)
    advice = f"version {least} or newer is needed: pip install '{name}>={least}'" if is_old else ""
    return Finding(name, found or "not installed", advice)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)[:2]))


def _limits() -> tuple[float, float]:
    """The bytes of memory that the machine or its container has, and of addresses that the shell allows."""
    memory, addresses = [float("inf")], float("inf")
    with contextlib.suppress(AttributeError, ValueError):  # Windows has none
        memory.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError):
            memory += map(int, re.findall(r"^\d+", Path(file).read_text(encoding="utf-8")))
    with contextlib.suppress(ImportError):
        import resource  # noqa: PLC0415 # Windows has none

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        addresses = limit if limit != resource.RLIM_INFINITY else addresses
    return min(memory), addresses


def _memory(limit: float) -> Finding:
    found = f"{limit / 2**30:.1f} GB" if limit < float("inf") else "not known"
    advice = "an engine and its workers need 2 GB: raise the limit of the container" if limit < _LEAST_MEMORY else ""
    return Finding("memory", found, advice)


def _evaluation(chosen: Literal["spark", "sail"] | None) -> Iterator[Finding]:
    """Which engine runs, and whether it gives a known figure; workers that lack something are an error of the evaluation."""
    from spark_rankeval.jobs import command  # noqa: PLC0415
    from spark_rankeval.jobs.config import Session  # noqa: PLC0415

    with command.job_session("spark_rankeval doctor", Session(chosen or command.engine_of_this_machine())) as spark:
        # These import pyspark, which the session checks first.
        from spark_rankeval import evaluate  # noqa: PLC0415
        from spark_rankeval.spark.engine import engine_of  # noqa: PLC0415

        engine = engine_of(spark)
        yield Finding("engine", f"{engine.name} {engine.version}")
        predictions = spark.createDataFrame(_PREDICTIONS, "user string, item string, score double")
        labels = spark.createDataFrame(_LABELS, "user string, item string")
        figure = evaluate(predictions, labels, "ndcg@2", score="score", dialect="standard")["ndcg@2"]
        if abs(figure - _NDCG) > 1e-12:
            advice = f"it should be {_NDCG}: please report it with the lines above"
            yield Finding("evaluation", f"ndcg@2 is {figure}", advice)
        else:
            yield Finding("evaluation", f"ndcg@2 is {figure:.4f}, as it should be; workers have what they need")


if __name__ == "__main__":
    sys.exit(main())
