"""The kernel alone: what a Python worker does with a batch of grouped users, on one core and without Spark."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_rankeval.dialects import find_dialect
from spark_rankeval.metrics.naming import parse_metrics
from spark_rankeval.request.readings import Lists, resolve, views_of
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.worker.scoring import score

if TYPE_CHECKING:
    from collections.abc import Callable


def scoring_task(metrics: list[str]) -> ScoringTask:
    """What a worker is told to compute of one table of scored rows, by the default dialect."""
    dialect = find_dialect("default")
    lists = Lists(False, False, ())
    resolved = resolve(parse_metrics(metrics), dialect, None, lists, None)
    views, _ = views_of(
        resolved, dialect, lists, ties=None, threshold=None, population=None, keep_best=False, models=("",)
    )
    return ScoringTask(views=tuple(views))


def grouped_users(n_users: int, predictions: int, labels: int, *, items: int = 100_000) -> pa.RecordBatch:
    """A batch as Spark gives it to a worker: a fifth of the labels, at least two, are predicted."""
    random = np.random.default_rng(20)
    start, stride = random.integers(0, items, (n_users, 1)), random.integers(1, 97, (n_users, 1))
    item = (start + np.arange(predictions) * stride) % items
    label = items + start + np.arange(labels)
    hits = max(2, labels // 5)
    place = (random.integers(0, 1 << 30, (n_users, 1)) + 7 * np.arange(hits)) % predictions
    label[:, :hits] = np.take_along_axis(item, place, axis=1)
    return pa.record_batch({
        "user": pa.array(np.arange(n_users)),
        "items": _lists(item),
        "scores": _lists(random.random((n_users, predictions))),
        "labels": _lists(label),
        "n_prediction_rows": pa.array(np.full(n_users, predictions)),
        "n_label_rows": pa.array(np.full(n_users, labels)),
        "no_user": pa.array(np.zeros(n_users, np.bool_)),
    })  # fmt: skip


def _lists(rows: np.ndarray[Any, Any]) -> pa.ListArray:
    offsets = np.arange(len(rows) + 1) * rows.shape[1]
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(rows.ravel()))


def nanoseconds(metrics: list[str], predictions: int, labels: int, rounds: int = 30) -> float:
    """The best time of the kernel, nanoseconds a prediction, over half a million predictions."""
    n_users = 500_000 // predictions
    batch, task = grouped_users(n_users, predictions, labels), scoring_task(metrics)
    return best_time(lambda: score(task, batch), rounds) / (n_users * predictions) * 1e9


def best_time(work: Callable[[], object], rounds: int) -> float:
    """The least processor time of some rounds, seconds, after one that warms up."""
    work()
    times = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)
