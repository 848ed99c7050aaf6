"""Measure the recall of an index of vectors against the exact neighbours: `python benchmarks/index_recall.py`, with faiss-cpu and Sail.

docs/whole_catalogue.md shows what it prints. The vectors are made: items around 2,000 centres, and queries beside items.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from spark_rankeval import Vectors, evaluate, local, top_items

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CENTRES = 2_000


def made_vectors(n_items: int, n_queries: int, dimension: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Vectors of length 1 of items and of queries; float32."""
    random = np.random.default_rng(7)
    centres = random.normal(size=(_CENTRES, dimension))
    items = centres[random.integers(0, _CENTRES, n_items)] + 0.4 * random.normal(size=(n_items, dimension))
    queries = items[random.integers(0, n_items, n_queries)] + 0.4 * random.normal(size=(n_queries, dimension))
    return tuple((each / np.linalg.norm(each, axis=1, keepdims=True)).astype(np.float32) for each in (items, queries))


def as_table(spark: SparkSession, folder: Path, column: str, vectors: np.ndarray[Any, Any]) -> DataFrame:
    """A table of ids and vectors, stored as Parquet, as those who have an index keep it."""
    path = folder / f"{column}.parquet"
    pd.DataFrame({column: np.arange(len(vectors)), "vector": list(vectors)}).to_parquet(path, row_group_size=50_000)
    return spark.read.parquet(str(path))


def search(index: Any, queries: np.ndarray[Any, Any], k: int, breadth: int) -> tuple[pd.DataFrame, float]:
    """The items that an index finds for each query, with their ranks, and the milliseconds that a query takes."""
    index.hnsw.efSearch = breadth
    started = time.perf_counter()
    _, items = index.search(queries, k)
    milliseconds = 1000 * (time.perf_counter() - started) / len(queries)
    rows = {
        "query": np.repeat(np.arange(len(queries)), k),
        "item": items.ravel(),
        "rank": np.tile(np.arange(k), len(queries)),
    }
    return pd.DataFrame(rows), milliseconds


def main() -> int:
    """Build the index, ask it with several breadths, and print its recall."""
    import faiss  # type: ignore[import-not-found] # no extra of the package has it

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=500_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--dimension", type=int, default=48)
    parser.add_argument("--k", type=int, default=10)
    options = parser.parse_args()
    items, queries = made_vectors(options.items, options.queries, options.dimension)
    index = faiss.IndexHNSWFlat(options.dimension, 16, faiss.METRIC_INNER_PRODUCT)
    started = time.perf_counter()
    index.add(items)
    sys.stdout.write(f"index of {options.items:,} vectors built in {time.perf_counter() - started:.0f} s\n")
    with tempfile.TemporaryDirectory() as folder:
        spark = local.session()
        vectors = Vectors(as_table(spark, Path(folder), "query", queries), as_table(spark, Path(folder), "item", items))
        started = time.perf_counter()
        exact = top_items(vectors, options.k, user="query").toPandas()
        sys.stdout.write(
            f"exact neighbours of {options.queries:,} queries found in {time.perf_counter() - started:.0f} s\n"
        )
        labels = exact.assign(item=exact["recommendations"].map(lambda each: [one["item"] for one in each]))
        labels = labels[["query", "item"]].explode("item").astype("int64")
        found = {f"breadth {breadth}": search(index, queries, options.k, breadth) for breadth in (16, 64, 256)}
        recall = f"recall@{options.k}"
        result = evaluate({name: rows for name, (rows, _) in found.items()}, labels, recall, user="query", rank="rank")
        for name, (_, milliseconds) in found.items():
            sys.stdout.write(f"{name}: {recall} {result[name, recall]:.4f}, {milliseconds:.2f} ms a query\n")
        sys.stdout.write(f"{result}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
