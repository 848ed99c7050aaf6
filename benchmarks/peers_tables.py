"""Tables for measures beyond accuracy in other systems, small enough that the slowest of them comes to an end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.tables import Shape, make_tables

if TYPE_CHECKING:
    from pathlib import Path

#: Recommenders compares every item with every other one by a Python function: a thousand items are half a million pairs.
BEYOND = Shape(users=20_000, items=1_000)
_TRAINING, _BASELINE, _CATEGORIES, _VECTOR = 50, 20, 50, 16


def make_beyond_tables(folder: Path, shape: Shape) -> None:
    """Write predictions, labels, training data, items with category and vector, and a baseline's list for every user."""
    make_tables(shape, folder, arrays=False)
    predicted = pq.read_table(folder / "predictions", columns=["user", "item"])
    labels = pq.read_table(folder / "labels", columns=["item"])["item"].to_numpy()
    user, item = predicted["user"].to_numpy(), predicted["item"].to_numpy()
    random = np.random.default_rng(21)
    # Popular items have small numbers. Recommenders refuses training data with a pair that is predicted.
    drawn = (random.random(shape.users * _TRAINING) ** 3 * shape.items).astype(np.int64)
    pairs = np.unique(np.repeat(np.arange(shape.users), _TRAINING) * shape.items + drawn)
    pairs = np.setdiff1d(pairs, user * shape.items + item)
    # Every item is known from training: systems differ in what they make of one that is not.
    unknown = np.setdiff1d(np.arange(shape.items), pairs % shape.items)
    missing = np.setdiff1d(shape.users * shape.items + unknown, pairs)
    pairs = np.concatenate([pairs, missing])
    _write(folder, "training", {"user": pairs // shape.items, "item": pairs % shape.items})
    items = np.union1d(np.arange(shape.items), labels)
    # No item has a vector of zeros, which has no angle to another.
    angle = (items[:, None] + 1) * np.arange(1, _VECTOR + 1)
    _write(folder, "items", {
        "item": items,
        "category": (items % _CATEGORIES).astype(str),
        "vector": pa.FixedSizeListArray.from_arrays(np.sin(angle).ravel(), _VECTOR).cast(pa.list_(pa.float64())),
    })  # fmt: skip
    best = np.tile(np.arange(_BASELINE), shape.users)
    _write(folder, "baseline", {
        "user": np.repeat(np.arange(shape.users), _BASELINE), "item": best, "score": -best.astype(np.float64),
    })  # fmt: skip


def _write(folder: Path, name: str, columns: dict[str, object]) -> None:
    (folder / name).mkdir()
    pq.write_table(pa.table(columns), folder / name / "0.parquet")
