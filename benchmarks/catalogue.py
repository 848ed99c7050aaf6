"""The whole catalogue ranked from vectors: the kernel on one core, and beside Spark's own lists of recommendations."""

from __future__ import annotations

import tempfile
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.floors import sink
from benchmarks.session import start_session, timed
from benchmarks.worker_memory import PeakOfWorkers
from benchmarks.works import METRICS, values_of
from spark_rankeval.ranking.user_lists import Ragged
from spark_rankeval.worker.vectors import Catalogue, Limits, ScoredUserVectors, rank_items

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.tables import Array

_CUTOFFS = [1, 3, 5, 10, 20]
_LISTED = 100


def nanoseconds_a_score(n_items: int, length: int, n_labels: int, n_users: int = 512) -> dict[str, float]:
    """Nanoseconds of processor time that a score takes on one core: for the labels' ranks, the first 100 items, and both.

    ``floor`` is that of matrix products, each compared with one number: nobody ranks all items with less.

    Set OMP_NUM_THREADS=1 before numpy is loaded, as Spark does for the worker of a task with one core.
    """
    rng = np.random.default_rng(0)
    catalogue = Catalogue(rng.standard_normal((n_items, length)).astype(np.float32), np.zeros(n_items))
    users = ScoredUserVectors(catalogue, rng.standard_normal((n_users, length)), np.zeros(n_users))
    drawn = [rng.choice(n_items, n_labels + 100, replace=False) for _ in range(n_users)]
    labels, excluded, none = (
        Ragged.from_lists([items[part].tolist() for items in drawn], np.int64)
        for part in (slice(n_labels), slice(n_labels, None), slice(0))
    )
    limits = Limits(np.ones(n_users, np.bool_), excluded)
    left, right = (rng.standard_normal(shape).astype(np.float32) for shape in ((n_users, length), (length, n_items)))
    works: dict[str, Callable[[], object]] = {
        "floor": lambda: _compared_products(left, right),
        "ranks": lambda: rank_items(users, labels, limits),
        "first": lambda: rank_items(users, none, limits, first=_LISTED),
        "both": lambda: rank_items(users, labels, limits, first=_LISTED),
    }
    best = dict.fromkeys(works, np.inf)
    for _ in range(5):
        for name, work in works.items():
            began = time.process_time()
            work()
            best[name] = min(best[name], time.process_time() - began)
    return {name: round(float(seconds) * 1e9 / (n_items * n_users), 2) for name, seconds in best.items()}


def _compared_products(left: Array, right: Array, together: int = 32) -> list[Array]:
    """How many products of each row are above 0, some rows at a time, whose products stay in a core's cache."""
    return [
        np.count_nonzero(left[start : start + together] @ right > 0, axis=1) for start in range(0, len(left), together)
    ]


def als_comparison(n_users: int = 50_000, n_items: int = 39_443, rank: int = 10, rounds: int = 5) -> dict[str, Any]:
    """Seconds of evaluations and lists from the factors of an ALS model, and of Spark's own lists and an evaluation of these."""
    from pyspark.ml.recommendation import ALS
    from pyspark.sql import functions as F

    from spark_rankeval import Vectors, evaluate, top_items

    with tempfile.TemporaryDirectory(prefix="rankeval-benchmark-") as folder:
        spark = start_session("6g", 8)
        try:
            pairs = spark.range(n_users * 20).select(
                (F.col("id") % n_users).cast("int").alias("user"),
                F.pmod(F.xxhash64("id"), F.lit(n_items)).cast("int").alias("item"),
                (F.rand(1) * 5).cast("float").alias("rating"),
            )
            pairs.write.parquet(f"{folder}/pairs")
            pairs = spark.read.parquet(f"{folder}/pairs")
            labels = pairs.groupBy("user").agg(F.slice(F.array_distinct(F.collect_list("item")), 1, 10).alias("item"))
            labels.write.parquet(f"{folder}/labels")
            labels = spark.read.parquet(f"{folder}/labels")
            model = ALS(rank=rank, maxIter=1, seed=1).fit(pairs)
            for name in ("userFactors", "itemFactors"):
                getattr(model, name).write.parquet(f"{folder}/{name}")
            users, items = (spark.read.parquet(f"{folder}/{name}") for name in ("userFactors", "itemFactors"))
            vectors = Vectors(users.toDF("user", "vector"), items.toDF("item", "vector"))
            many = values_of(METRICS, _CUTOFFS)
            works: dict[str, Callable[[], object]] = {
                "vectors": lambda: evaluate(vectors, labels, many),
                "top-items": lambda: sink(top_items(vectors, _LISTED)),
                "als-lists": lambda: sink(model.recommendForAllUsers(_LISTED)),
                "als-evaluated": lambda: evaluate(model.recommendForAllUsers(_LISTED), labels, many),
            }
            with PeakOfWorkers() as peak:
                times = timed(works, rounds, 1)
        finally:
            spark.stop()
    return {
        "seconds": {name: [round(value, 2) for value in seconds] for name, seconds in times.items()},
        "best_seconds": {name: round(min(seconds), 2) for name, seconds in times.items()},
        "worker_megabytes": peak.megabytes and round(peak.megabytes),
    }


def seconds_of_many_users(n_users: int = 100_000, n_items: int = 100_000, length: int = 64) -> dict[str, Any]:
    """Seconds of 30 values of ranks of 10 labels a user; once, for it takes long."""
    from pyspark.sql import functions as F

    from spark_rankeval import Vectors, evaluate

    with tempfile.TemporaryDirectory(prefix="rankeval-benchmark-") as folder:
        spark = start_session("6g", 8)
        try:
            numbers = F.array(*(F.randn(seed).cast("float") for seed in range(length)))
            for name, count in (("user", n_users), ("item", n_items)):
                rows = spark.range(count).select(F.col("id").cast("int").alias(name), numbers.alias("vector"))
                rows.write.parquet(f"{folder}/{name}")
            drawn = F.array(*(F.pmod(F.xxhash64("user", F.lit(nth)), F.lit(n_items)).cast("int") for nth in range(10)))
            users, items = (spark.read.parquet(f"{folder}/{name}") for name in ("user", "item"))
            users.select("user", F.array_distinct(drawn).alias("item")).write.parquet(f"{folder}/labels")
            labels = spark.read.parquet(f"{folder}/labels")
            work: dict[str, Callable[[], object]] = {
                "many": lambda: evaluate(Vectors(users, items), labels, values_of(METRICS, _CUTOFFS))
            }
            with PeakOfWorkers() as peak:
                (seconds,) = timed(work, 1, 0)["many"]
        finally:
            spark.stop()
    return {
        "many_users_seconds": round(seconds, 1),
        "worker_megabytes_of_many": peak.megabytes and round(peak.megabytes),
    }


def whole_catalogue() -> dict[str, Any]:
    """All figures of the whole catalogue."""
    shapes = {"39,443 x 64": (39_443, 64, 10), "100,000 x 64": (100_000, 64, 10), "39,443 x 10": (39_443, 10, 10)}
    kernel = {name: nanoseconds_a_score(*shape) for name, shape in shapes.items()}
    return {"nanoseconds": kernel} | als_comparison() | seconds_of_many_users()
