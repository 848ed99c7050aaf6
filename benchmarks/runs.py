"""The runs that the targets are read from, each in a process of its own."""

from __future__ import annotations

import json
import math
import multiprocessing
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.kernels import nanoseconds
from benchmarks.measuring import Measurement, measure
from benchmarks.tables import Shape, make_tables
from benchmarks.works import BEYOND_ACCURACY, CORES, METRICS, values_of

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / "benchmarks" / "peers"
CUTOFFS = [1, 3, 5, 10, 20]

MEASUREMENTS = {
    "long": Measurement(
        works=(
            "shuffle", "grouped", "one", "many", "per-user", "spark", "pruned", "every", "twenty", "spark-twenty",
            "arrays-carried", "arrays", "arrays-spark",
        )
    ),
    "intervals": Measurement(works=("ten", "ten-bootstrap"), rounds=3),
    "beyond-accuracy": Measurement(works=(*BEYOND_ACCURACY, "logged"), rounds=3, warm_up=1),
    "pipelines": Measurement(works=("ndcg", "pyspark-ml", "trec"), rounds=2, warm_up=1),
    "strings": Measurement(works=("shuffle", "many"), shape=Shape(ids="string")),
    "ragged": Measurement(works=("shuffle", "many"), shape=Shape(lengths="ragged", users=125_000)),
    "lists-of-1000": Measurement(
        works=("shuffle", "many"), shape=Shape(users=10_000, predictions=1_000), cutoffs=(5, 10, 20, 50, 100)
    ),
    "lists-of-10000": Measurement(
        works=("shuffle", "many", "per-user"),
        shape=Shape(users=1_000, predictions=10_000, labels=100, items=1_000_000),
        cutoffs=(5, 10, 20, 50, 100),
        rounds=2,
        warm_up=1,
    ),
    "even": Measurement(works=("pruned",), shape=Shape(users=400_000), cutoffs=(100,), heap="1g"),
    "hot-user": Measurement(
        works=("pruned",), shape=Shape(users=40_000, hot_user=18_000_000), cutoffs=(100,), heap="1g"
    ),
    "1m": Measurement(works=("shuffle", "many"), shape=Shape(users=20_000)),
    "10m": Measurement(works=("shuffle", "many"), rounds=3),
    "100m": Measurement(works=("shuffle", "many"), shape=Shape(users=2_000_000), rounds=2, warm_up=1),
}  # fmt: skip


def kernel() -> dict[str, Any]:
    """Nanoseconds a prediction that 30 values take on one core."""
    many = values_of(METRICS, CUTOFFS)
    return {"50 and 10": nanoseconds(many, 50, 10), "500 and 50": nanoseconds(many, 500, 50)}


def beside_a_shuffle(environment: str, script: str) -> dict[str, Any]:
    """What an evaluator on Spark says of itself, on the tables of the run ``long``."""
    measurement = MEASUREMENTS["long"]
    with tempfile.TemporaryDirectory(prefix="rankeval-benchmark-") as folder:
        make_tables(measurement.shape, Path(folder), arrays=False)
        given = [folder, str(measurement.partitions), measurement.heap, str(CORES)]
        return _said(_python_of(environment), script, *given)[0]


def in_memory(users: int, repeats: int, *java_options: str) -> dict[str, Any]:
    """Seconds from the start of a process over the Parquet files to five printed metrics, of ours, ranx and pytrec_eval: best of some."""
    scripts: dict[str, tuple[Path, str, tuple[str, ...]]] = {
        "ours": (Path(sys.executable), "ours.py", java_options),
        "ranx": (_python_of("ranx"), "ranx_in_memory.py", ()),
        "pytrec_eval": (_python_of("trec"), "pytrec_eval_in_memory.py", ()),
    }
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="rankeval-benchmark-") as folder:
        make_tables(Shape(users=users), Path(folder), arrays=False)
        for _ in range(repeats):
            for name, (python, script, options) in scripts.items():
                parts, total = _said(python, script, folder, *options)
                if name not in found or total < found[name]["total"]:
                    found[name] = {**parts, "total": total}
                _check_equal(found["ours"]["values"], parts["values"], name)
    return found


def _check_equal(ours: dict[str, float], theirs: dict[str, float], name: str) -> None:
    """A time counts only beside that of the same numbers; single precision is enough for that."""
    apart = [metric for metric, value in ours.items() if not math.isclose(value, theirs[metric], rel_tol=1e-6)]
    if apart:
        sys.exit(f"{name} has other values of {', '.join(apart)}: {theirs} instead of {ours}")


def _python_of(environment: str) -> Path:
    python = ROOT / f".venv-benchmark-{environment}" / "bin" / "python"
    if not python.exists():
        sys.exit(
            f"the environment of {environment} is missing: make benchmark-check makes it ({python.parent.parent.name})"
        )
    return python


def _said(python: Path, *command: str) -> tuple[dict[str, Any], float]:
    """The JSON that a script of `PEERS` prints last, and how long after the start of its process that was."""
    began = time.perf_counter()
    process = subprocess.Popen([str(python), *command], cwd=PEERS, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None, "asked for"
    last, taken = "", 0.0
    for line in process.stdout:
        last, taken = line, time.perf_counter() - began
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, command)
    said: dict[str, Any] = json.loads(last)
    return said, taken


RUNS: dict[str, Callable[[], dict[str, Any]]] = {
    "kernel": kernel,
    **{name: partial(measure, measurement) for name, measurement in MEASUREMENTS.items()},
    "replay": partial(beside_a_shuffle, "replay", "replay_on_spark.py"),
    "recommenders": partial(beside_a_shuffle, "recommenders", "recommenders_on_spark.py"),
    # As docs/performance.md recommends for a process that evaluates little, once.
    "in-memory-1m": partial(in_memory, 20_000, 3, "-XX:TieredStopAtLevel=1"),
    "in-memory-10m": partial(in_memory, 200_000, 2),
}


def run(name: str) -> dict[str, Any]:
    """What a run gives; in a new process, so that none has the memory or the warmth of another."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), max_tasks_per_child=1) as process:
        return process.submit(RUNS[name]).result()
