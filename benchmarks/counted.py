"""The benchmark's own values of all lists together, counted once more by pandas."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from benchmarks.feature_works import feature_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The cutoff of the work "all-lists".
K = 10


def check(spark: SparkSession, folder: str, values: dict[str, float]) -> dict[str, float]:
    """The values of the work "all-lists" as pandas counts them from the same files.

    Args:
        spark: the session, which makes the training data.
        folder: the tables.
        values: what the evaluation gave, by metric.

    Raises:
        ValueError: pandas counts something else.
    """
    tables = {name: spark.read.parquet(f"{folder}/{name}") for name in ("predictions", "labels")}
    training_items = feature_tables(spark, tables).training.select("item").distinct().toPandas()["item"]
    expected = counted(pd.read_parquet(Path(folder) / "predictions"), training_items)
    compare(values, expected)
    return expected


def compare(values: dict[str, float], expected: dict[str, float]) -> None:
    """Raise a ValueError that names each metric whose value is not the expected one."""
    different = [
        f"{metric}: evaluate gives {values[metric]!r}, pandas {one!r}"
        for metric, one in expected.items()
        if not math.isclose(values[metric], one, rel_tol=1e-9, abs_tol=1e-12)
    ]
    if different:
        raise ValueError("; ".join(different))


def counted(predictions: pd.DataFrame, training_items: pd.Series[Any]) -> dict[str, float]:
    """Coverage, Gini index, entropy and personalisation of the first ten places of all lists.

    Args:
        predictions: user, item and score.
        training_items: the items of the training data.
    """
    ranked = predictions.sort_values(["user", "score", "item"], ascending=[True, False, True])
    shown = ranked[ranked.groupby("user").cumcount() < K]
    count, n_users = shown["item"].value_counts(), shown["user"].nunique()
    training_counts = np.sort(count.reindex(training_items, fill_value=0).to_numpy())
    rank, share = np.arange(1, len(training_counts) + 1), count / count.sum()
    return {
        f"catalogue_coverage@{K}": float((training_counts > 0).mean()),
        f"gini@{K}": float(((2 * rank - len(rank) - 1) * training_counts).sum() / (len(rank) * training_counts.sum())),
        f"entropy@{K}": float(-(share * np.log2(share)).sum()),
        f"personalisation@{K}": float(1 - (count * (count - 1)).sum() / ((n_users - 1) * count.sum())),
    }
