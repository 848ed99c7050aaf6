"""From batches of users to the moments of their values: one small state a partition, which the driver merges."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_rankeval.statistics.merging import merged
from spark_rankeval.statistics.moments import MomentsAccumulator
from spark_rankeval.worker.reading import filled, numbers, whole_numbers
from spark_rankeval.worker.scoring import INVALID_COUNTS, USER_COUNTS, score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from spark_rankeval.metrics.ragged import Array, BoolArray
    from spark_rankeval.statistics.moments import State
    from spark_rankeval.worker.task import ScoringTask

#: The one column that `moments_batches` and `moments_of_columns` yield, in one row a partition.
STATE = "state"


def moments_batches(task: ScoringTask, no_user: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow``: the moments of the metrics and counts of all users of a partition.

    Args:
        task: what to compute.
        no_user: a column of booleans: rows that belong to nobody, of which only the invalid rows are counted.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        moments = _TableMoments(len(task.metrics) + 1 + len(USER_COUNTS))
        for batch in batches:
            scores = score(task, batch)
            nobody = filled(batch.column(batch.schema.get_field_index(no_user)), 0).astype(np.bool_)
            users = [*scores.metrics, scores.unresolved, *scores.counts[: len(USER_COUNTS)]]
            moments.add(users, scores.counts[len(USER_COUNTS) :], nobody)
        yield packed(moments.state())

    return run


def moments_of_columns(
    columns: tuple[str, ...], counts: tuple[str, ...], no_user: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow``: the moments of columns that hold a per-user table's values.

    Args:
        columns: columns of users' values; null is NaN.
        counts: columns of counts of invalid rows, also of those that belong to nobody.
        no_user: a column of booleans: rows that belong to nobody.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        moments = _TableMoments(len(columns))
        for batch in batches:
            by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
            values = [numbers(by_name[name]) for name in columns]
            invalid = [whole_numbers(by_name[name]).astype(np.float64) for name in counts]
            nobody = filled(by_name[no_user], 0).astype(np.bool_)
            moments.add(values, invalid, nobody)
        yield packed(moments.state())

    return run


class _TableMoments:
    """The moments of users' columns, and of counts that also rows without a user have."""

    def __init__(self, n_columns: int) -> None:
        self._users = MomentsAccumulator(n_columns)
        self._counts = MomentsAccumulator(len(INVALID_COUNTS))

    def add(self, users: list[Array], counts: list[Array], nobody: BoolArray) -> None:
        somebody = ~nobody if nobody.any() else slice(None)
        for index, values in enumerate(users):
            self._users.add(index, values[somebody].astype(np.float64, copy=False))
        for index, values in enumerate(counts):
            self._counts.add(index, values.astype(np.float64, copy=False))

    def state(self) -> State:
        users, counts = self._users.state(), self._counts.state()
        return {name: np.concatenate([users[name], counts[name]]) for name in users}


def merge_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: one state instead of the many of a partition."""
    states = [state for batch in batches for state in unpacked(batch.column(0).to_pylist())]
    if states:
        yield packed(merged(states))


def unpacked(states: Iterable[bytes]) -> Iterator[State]:
    """States from the cells of the column `STATE`."""
    for state in states:
        # Written by our own workers a moment ago, as all that Spark brings from Python to Python.
        yield pickle.loads(state)


def packed(state: State) -> pa.RecordBatch:
    """A state as the one row that travels; `unpacked` reads it."""
    return pa.RecordBatch.from_pydict({STATE: pa.array([pickle.dumps(state)], pa.binary())})
