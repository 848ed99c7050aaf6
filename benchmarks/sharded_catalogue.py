"""Rank a million vectors of 1,024 numbers in shards: `python benchmarks/sharded_catalogue.py`, once with PySpark and once with Sail.

docs/evidence/speed.md shows what it prints. A thousand users are enough: what grows with the items, to move them and to hold them, then
takes as long as the products. Each work runs in a process of its own, whose memory is that of all its descendants.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.session import HAS_SAIL, start_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_K, _LABELS = 10, 10
# The rows of a part of a file, and those of a block of products.
_ROWS, _BLOCK = 20_000, 4_096
_METRICS = ["ndcg@10", "recall@10", "rr", "auc"]


def make_tables(folder: Path, n_items: int, n_users: int, length: int) -> None:
    """Store vectors of users and items, and ten labels of each user."""
    random = np.random.default_rng(7)
    for name, n_rows in (("item", n_items), ("user", n_users)):
        schema = pa.schema({name: pa.int32(), "vector": pa.list_(pa.float32())})
        with parquet.ParquetWriter(
            folder / f"{name}s.parquet", schema, compression="none", use_dictionary=False
        ) as file:
            for start in range(0, n_rows, _ROWS):
                ids = np.arange(start, min(start + _ROWS, n_rows), dtype=np.int32)
                numbers = random.standard_normal(len(ids) * length, dtype=np.float32)
                offsets = np.arange(len(ids) + 1, dtype=np.int32) * length
                file.write_table(pa.table([ids, pa.ListArray.from_arrays(offsets, numbers)], schema=schema))
    labels = {
        "user": np.repeat(np.arange(n_users, dtype=np.int32), _LABELS),
        "item": random.integers(0, n_items, n_users * _LABELS).astype(np.int32),
    }
    parquet.write_table(pa.table(labels), folder / "labels.parquet")


def _session(options: argparse.Namespace) -> SparkSession:
    if HAS_SAIL:
        from spark_rankeval.local import session

        return session(memory=options.memory)
    return start_session(options.memory, 8)


def _tables(options: argparse.Namespace) -> dict[str, Any]:
    spark = _session(options)
    return {name: spark.read.parquet(f"{options.folder}/{name}.parquet") for name in ("users", "items", "labels")}


def evaluated(options: argparse.Namespace) -> Callable[[], object]:
    """An evaluation with the ranks of all labels."""
    from spark_rankeval import Vectors, evaluate

    tables = _tables(options)
    vectors = Vectors(tables["users"], tables["items"], shards=options.shards)
    return lambda: evaluate(vectors, tables["labels"], _METRICS, on_invalid="drop")["ndcg@10"]


def listed(options: argparse.Namespace) -> Callable[[], object]:
    """The first items of each user."""
    from spark_rankeval import Vectors, top_items

    tables = _tables(options)
    vectors = Vectors(tables["users"], tables["items"], shards=options.shards)
    return lambda: len(top_items(vectors, _K).collect())


def multiplied(options: argparse.Namespace) -> Callable[[], object]:
    """The first items by a plain matrix product in float32, some items at a time, without Spark."""

    def work() -> int:
        users = _matrix(parquet.read_table(f"{options.folder}/users.parquet"))
        best = np.full((len(users), _K), -np.inf, np.float32)
        for batch in parquet.ParquetFile(f"{options.folder}/items.parquet").iter_batches(_BLOCK, columns=["vector"]):
            scores = np.concatenate([best, users @ _matrix(pa.Table.from_batches([batch])).T], axis=1)
            best = np.partition(scores, scores.shape[1] - _K, axis=1)[:, -_K:]
        return len(best)

    return work


def _matrix(table: pa.Table) -> np.ndarray[Any, Any]:
    vectors = table["vector"].combine_chunks()
    matrix: np.ndarray[Any, Any] = vectors.flatten().to_numpy().reshape(len(vectors), -1)
    return matrix


def als_lists(options: argparse.Namespace) -> Callable[[], object]:
    """Spark's own lists of a model with these vectors as factors."""
    from pyspark.ml.recommendation import ALSModel

    tables = _tables(options)
    names = {"users": "user", "items": "item"}
    factors = [tables[name].selectExpr(f"{column} AS id", "vector AS features")._jdf for name, column in names.items()]
    spark = tables["users"].sparkSession
    made = spark._jvm.org.apache.spark.ml.recommendation.ALSModel("als", options.length, *factors)
    made.setUserCol("user").setItemCol("item")
    model = ALSModel(made)
    return lambda: len(model.recommendForAllUsers(_K).collect())


WORKS = {"evaluate": evaluated, "top_items": listed, "matrix product": multiplied} | (
    {} if HAS_SAIL else {"recommendForAllUsers": als_lists}
)


def resident_megabytes(root: int) -> float:
    """The resident memory of a process and its descendants."""
    parents, sizes = {}, {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                parents[int(process.name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
                sizes[int(process.name)] = int((process / "statm").read_text().split()[1]) * 4096 / 1e6
            except OSError:
                continue
    tree, left = 0.0, [root]
    while left:
        process_id = left.pop()
        tree += sizes.get(process_id, 0.0)
        left += [child for child, parent in parents.items() if parent == process_id]
    return tree


def run_apart(name: str, arguments: list[str]) -> str:
    """Run a work in a process of its own: what it printed, and its largest memory."""
    process = subprocess.Popen(
        [sys.executable, __file__, *arguments, "--work", name], stdout=subprocess.PIPE, text=True
    )
    peaks = [0.0]

    def watch() -> None:
        while process.poll() is None:
            peaks.append(resident_megabytes(process.pid))
            time.sleep(0.1)

    watching = threading.Thread(target=watch)
    watching.start()
    said, _ = process.communicate()
    watching.join()
    return f"{name}: {said.strip() or 'failed'}, {max(peaks):,.0f} MB\n"


def main() -> int:
    """Make the tables, and run each work; or run one of them here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--users", type=int, default=1_000)
    parser.add_argument("--length", type=int, default=1_024)
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--memory", default="4g", help="the heap of PySpark, or Sail's pool")
    parser.add_argument("--works", default=",".join(WORKS))
    parser.add_argument("--folder", help="of tables that are there already")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work = WORKS[options.work](options)
        started = time.perf_counter()
        found = work()
        sys.stdout.write(f"{time.perf_counter() - started:.1f} s, found {found}")
        return 0
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or made
        if not options.folder:
            make_tables(Path(folder), options.items, options.users, options.length)
        arguments = [
            f"--shards={options.shards}",
            f"--memory={options.memory}",
            f"--length={options.length}",
            f"--folder={folder}",
        ]
        for name in options.works.split(","):
            sys.stdout.write(run_apart(name, arguments))
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
