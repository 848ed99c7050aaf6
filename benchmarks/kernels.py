"""The kernels alone, on one core and without Spark: what a Python worker does with a batch of users, and the driver with pairs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_rankeval.dialects import find_dialect
from spark_rankeval.metrics.naming import parse_metrics
from spark_rankeval.request.task import Lists, ScoringTask, resolve, views_of
from spark_rankeval.statistics.comparisons import AllPairsAccumulator, all_pairs_of
from spark_rankeval.worker.scoring import score

if TYPE_CHECKING:
    from collections.abc import Callable


def scoring_task(metrics: list[str], relevances: tuple[str, ...] = ()) -> ScoringTask:
    """What a worker is told to compute of one table of scored rows, by the default dialect."""
    dialect = find_dialect("default")
    lists = Lists(False, False, relevances)
    resolved = resolve(parse_metrics(metrics), dialect, {}, lists, None)
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
    return pa.RecordBatch.from_pydict({
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


def gap_milliseconds(n_grades: int) -> float:
    """What graded average precision takes of one user whose labels are all predicted and all have another grade, milliseconds."""
    random = np.random.default_rng(22)
    labels = random.permutation(n_grades)
    batch = pa.RecordBatch.from_pydict({
        "user": pa.array([1]),
        "items": _lists(np.arange(n_grades)[None]),
        "scores": _lists(random.random((1, n_grades))),
        "labels": _lists(labels[None]),
        "grades_0": _lists(np.arange(1.0, n_grades + 1)[None]),
        "n_prediction_rows": pa.array([n_grades]),
        "n_label_rows": pa.array([n_grades]),
        "no_user": pa.array([False]),
    })  # fmt: skip
    task = scoring_task(["gap"], ("grade",))
    return best_time(lambda: score(task, batch), 3) * 1e3


def all_pairs_seconds(n_models: int, n_metrics: int, n_users: int = 1_000) -> float:
    """What the driver takes to judge every pair of models in every metric from the merged sums, seconds."""
    random = np.random.default_rng(23)
    # Models differ a little, so that p-values are neither 0 nor 1.
    values = random.random((n_metrics, n_models, n_users)) + np.arange(n_models)[:, None] / 100
    accumulator = AllPairsAccumulator(n_metrics, n_models)
    accumulator.add(np.arange(n_users), values)
    state = accumulator.state()
    began = time.process_time()
    for metric in range(n_metrics):
        pairs = all_pairs_of({name: entries[metric] for name, entries in state.items()})
        for pair in pairs:
            pair.p_of("tukey")
    return time.process_time() - began
