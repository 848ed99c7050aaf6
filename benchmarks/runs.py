"""The runs that the targets are read from, each in a process of its own."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.catalogue import whole_catalogue
from benchmarks.feature_works import BEYOND_ACCURACY
from benchmarks.kernels import all_pairs_seconds, gap_milliseconds, nanoseconds
from benchmarks.measuring import Measurement, measure
from benchmarks.on_sail import ON_SAIL
from benchmarks.processes import comparison_with_ours, process_times, trec_files
from benchmarks.retrieval_works import RETRIEVAL_WORDS
from benchmarks.tables import Shape
from benchmarks.works import METRICS, values_of

if TYPE_CHECKING:
    from collections.abc import Callable

CUTOFFS = [1, 3, 5, 10, 20]
# The calls that people make, and what they are compared with.
FLAGSHIP = ("shuffle", "grouped", "smallest", "one", "many", "per-user", "spark")
_BIG_CUTOFFS = (5, 10, 20, 50, 100)

MEASUREMENTS = {
    "logs": Measurement(works=FLAGSHIP, shape=Shape(pattern="logs")),
    "long": Measurement(
        works=(*FLAGSHIP, "every", "twenty", "spark-twenty", "arrays-carried", "arrays", "arrays-spark")
    ),
    "small": Measurement(works=("smallest", "many", "spark"), shape=Shape(users=1_000), rounds=15, warm_up=5),
    # A difference of two works swings more than each of them.
    "fingerprints": Measurement(works=("smallest", "hashed", "many"), shape=Shape(pattern="logs"), rounds=15),
    "intervals": Measurement(works=("ten", "ten-bootstrap"), rounds=3),
    "slices": Measurement(works=("many", "sliced")),
    "clusters": Measurement(works=("sessions", "clustered"), rounds=3),
    "groups": Measurement(works=("many", "groups", "groups-covariate", "groups-sequential"), rounds=5),
    "item-groups": Measurement(works=("many", "item-groups")),
    "models": Measurement(works=("shuffle", "ten-grouped", "ten-models"), shape=Shape(users=20_000)),
    "beyond-accuracy": Measurement(works=(*BEYOND_ACCURACY, "training-lists", "baseline-lists", "logged"), warm_up=1),
    "pipelines": Measurement(works=("ndcg", "ml-evaluate", "pyspark-ml")),
    "retrieval": Measurement(works=tuple(RETRIEVAL_WORDS), shape=Shape(users=40_000)),
    "strings": Measurement(works=("shuffle", "smallest", "many"), shape=Shape(ids="string")),
    "uuids": Measurement(works=("shuffle", "smallest", "many"), shape=Shape(ids="uuid")),
    "words": Measurement(works=("shuffle", "smallest", "many"), shape=Shape(ids="words")),
    "ragged": Measurement(works=("shuffle", "smallest", "many"), shape=Shape(lengths="ragged", users=125_000)),
    "lists-of-1000": Measurement(
        works=("shuffle", "smallest", "many"), shape=Shape(users=10_000, predictions=1_000), cutoffs=_BIG_CUTOFFS
    ),
    "lists-of-10000": Measurement(
        works=("shuffle", "many", "per-user"),
        shape=Shape(users=1_000, predictions=10_000, labels=100, items=1_000_000),
        cutoffs=_BIG_CUTOFFS,
        rounds=2,
        warm_up=1,
    ),
    "even": Measurement(works=("many",), shape=Shape(users=400_000), cutoffs=(100,), heap="1g"),
    "hot-user": Measurement(works=("many",), shape=Shape(users=40_000, hot_user=18_000_000), cutoffs=(100,), heap="1g"),
    "1m": Measurement(works=("shuffle", "many"), shape=Shape(users=20_000)),
    "10m": Measurement(works=("shuffle", "many"), rounds=3),
    "100m": Measurement(works=("shuffle", "smallest", "many"), shape=Shape(users=2_000_000), rounds=2, warm_up=1),
}


def _on_both(*works: str, **setting: Any) -> Measurement:
    """Works on PySpark, each followed by the same on Sail."""
    return Measurement(works=tuple(turn for work in works for turn in (work, f"{ON_SAIL}{work}")), **setting)


# Sail beside PySpark, in turns. Few groups a partition save Sail time, so of 100 million predictions there are more partitions.
MEASUREMENTS |= {
    "sail": Measurement(
        works=("shuffle", "spark", "one", "sail-one", "many", "sail-many", "sail-smallest"), shape=Shape(pattern="logs")
    ),
    "sail-twenty": Measurement(works=("spark-twenty", "twenty", "sail-twenty"), rounds=3, warm_up=1),
    "sail-small": _on_both("many", shape=Shape(users=1_000), rounds=15, warm_up=5),
    "sail-strings": _on_both("many", shape=Shape(ids="string"), rounds=3, warm_up=1),
    "sail-slices": _on_both("many", "sliced", rounds=3, warm_up=1),
    "sail-models": _on_both("ten-models", shape=Shape(users=20_000), rounds=3, warm_up=1),
    "sail-beyond-accuracy": _on_both("popularity", "history", "categories", "all-lists", rounds=2, warm_up=1),
    "sail-trec": _on_both("trec-parquet", "trec", rounds=2, warm_up=1),
    "sail-1m": _on_both("many", shape=Shape(users=20_000), warm_up=3),
    "sail-10m": _on_both("many", rounds=3),
    "sail-100m": _on_both("many", shape=Shape(users=2_000_000), rounds=2, warm_up=0, sail_partitions=16),
}
#: The flagship rows on a fifth of the data, for a pull request.
QUICK = replace(MEASUREMENTS["logs"], shape=Shape(users=40_000, pattern="logs"))
_TREC = Measurement(works=("trec-parquet", "trec"), rounds=3, warm_up=1)


def kernel() -> dict[str, Any]:
    """Nanoseconds a prediction that 30 values take on one core."""
    many = values_of(METRICS, CUTOFFS)
    return {"50 and 10": nanoseconds(many, 50, 10), "500 and 50": nanoseconds(many, 500, 50)}


def statistics() -> dict[str, Any]:
    """What one user's grades, and what many pairs of models, take on one core."""
    return {"gap_milliseconds": gap_milliseconds(40_000), "all_pairs_seconds": all_pairs_seconds(10, 100)}


RUNS: dict[str, Callable[[], dict[str, Any]]] = {
    "kernel": kernel,
    "statistics": statistics,
    **{name: partial(measure, measurement) for name, measurement in MEASUREMENTS.items()},
    "trec": partial(trec_files, _TREC),
    "catalogue": whole_catalogue,
    "replay": partial(comparison_with_ours, "replay", MEASUREMENTS["long"]),
    "recommenders": partial(comparison_with_ours, "recommenders", MEASUREMENTS["long"]),
    # As docs/platforms.md recommends for a process that evaluates little, once.
    "in-memory-1m": partial(process_times, 20_000, 3, "-XX:TieredStopAtLevel=1"),
    "in-memory-10m": partial(process_times, 200_000, 2),
}


def run(name: str) -> dict[str, Any]:
    """What a run gives; in a new process, so that none has the memory or the warmth of another."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), max_tasks_per_child=1) as process:
        return process.submit(RUNS[name]).result()
