"""Runs of scripts in `benchmarks/peers`: other systems on the same files as this one, each in processes of its own."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.environments import OURS, PEERS, python_of
from benchmarks.measuring import measure_in
from benchmarks.peers_tables import BEYOND, make_beyond_tables
from benchmarks.session import CORES
from benchmarks.tables import Shape, make_tables

if TYPE_CHECKING:
    from benchmarks.measuring import Measurement


class Script(NamedTuple):
    """A program in `PEERS`, and the Python that runs it with some arguments."""

    python: Path
    name: str
    arguments: tuple[str, ...] = ()

    def run(self, *arguments: str) -> tuple[dict[str, Any], float]:
        """The JSON that it prints last, and how long after the start of its process that was."""
        began = time.perf_counter()
        command = [str(self.python), self.name, *arguments, *self.arguments]
        process = subprocess.Popen(command, cwd=PEERS, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None, "asked for"
        last, taken = "", 0.0
        for line in process.stdout:
            last, taken = line, time.perf_counter() - began
        if process.wait():
            raise subprocess.CalledProcessError(process.returncode, command)
        printed: dict[str, Any] = json.loads(last)
        return printed, taken


def comparison_with_ours(peer: str, measurement: Measurement) -> dict[str, Any]:
    """What an evaluator on Spark takes, and ours on the same files before and after it, then on Sail.

    Args:
        peer: its name, which its environment and its script have.
        measurement: whose tables, heap and partitions both get; measures beyond accuracy have tables of their own.
    """
    with tempfile.TemporaryDirectory(prefix="rankeval-benchmark-") as folder:
        accuracy, beyond = Path(folder) / "accuracy", Path(folder) / "beyond"
        for tables in (accuracy, beyond):
            tables.mkdir()
        make_tables(measurement.shape, accuracy, arrays=False)
        make_beyond_tables(beyond, BEYOND)
        arguments = (str(accuracy), str(beyond), str(measurement.partitions), measurement.heap, str(CORES))
        ours = Script(OURS, "ours_on_spark.py", (peer,))
        before, _ = ours.run(*arguments)
        theirs, _ = Script(python_of(peer), f"{peer}_on_spark.py").run(*arguments)
        after, _ = ours.run(*arguments)
        sail, _ = Script(python_of("sail"), "ours_on_spark.py", (peer,)).run(*arguments)
    for figures in (before, after, sail):
        _check_equal(figures["values"], theirs["values"], peer)
    seconds = {work: [*before["seconds"][work], *after["seconds"][work]] for work in before["seconds"]}
    others = {"theirs": theirs["seconds"], "sail": sail["seconds"]}
    return {"package": theirs["package"], "ours": seconds, "values": theirs["values"], **others}


def trec_files(measurement: Measurement) -> dict[str, Any]:
    """TREC's files by this project, and by a program of pandas alone that reads the same ones."""
    with tempfile.TemporaryDirectory(prefix="rankeval-benchmark-") as folder:
        report = measure_in(folder, measurement)
        program = Script(OURS, "pandas_trec.py")
        parts = [program.run(folder)[0] for _ in range(2)]
    for part in parts:
        _check_equal({"ndcg@10": report["trec_value"]}, part["values"], "pandas")
    seconds = [part["read"] + part["evaluate"] for part in parts]
    return report | {
        "pandas": {"seconds": seconds, "parts": min(parts, key=lambda part: part["read"] + part["evaluate"])}
    }


def process_times(users: int, repeats: int, *java_options: str) -> dict[str, Any]:
    """Seconds from the start of a process over the Parquet files to five printed metrics: best of some, of each engine and package."""
    scripts = {
        "ours": Script(OURS, "ours.py", java_options),
        "sail": Script(python_of("sail"), "ours.py"),
        "ranx": Script(python_of("ranx"), "ranx_in_memory.py"),
        "pytrec_eval": Script(python_of("trec"), "pytrec_eval_in_memory.py"),
    }
    best: dict[str, Any] = {}
    seconds: dict[str, list[float]] = {name: [] for name in scripts}
    with tempfile.TemporaryDirectory(prefix="rankeval-benchmark-") as folder:
        make_tables(Shape(users=users), Path(folder), arrays=False)
        for _ in range(repeats):
            for name, script in scripts.items():
                parts, total = script.run(folder)
                seconds[name].append(total)
                if name not in best or total < best[name]["total"]:
                    best[name] = {**parts, "total": total}
                _check_equal(best["ours"]["values"], parts["values"], name)
    return {name: {**parts, "seconds": seconds[name]} for name, parts in best.items()}


def _check_equal(ours: dict[str, float], theirs: dict[str, float], name: str) -> None:
    """A time counts only beside that of the same numbers; single precision is enough for that."""
    apart = [metric for metric, value in ours.items() if not math.isclose(value, theirs[metric], rel_tol=1e-6)]
    if apart:
        sys.exit(f"{name} has other values of {', '.join(apart)}: {theirs} instead of {ours}")
