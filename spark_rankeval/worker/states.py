"""From batches of users to the moments of their values: one small state a partition, which the driver merges."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

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

#: The values of the columns that part rows into groups, and the state of each group.
Key = tuple[Any, ...]
States = dict[Key, dict[str, np.ndarray[Any, Any]]]
#: The one column that `moments_batches` and `moments_of_columns` yield, in one row a partition.
STATE = "state"


def moments_batches(task: ScoringTask, no_user: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow``: the moments of all users of a partition.

    They are those of the metrics, of how many users are unresolved, of the counts of users of each model, and of the counts
    of invalid rows of each model.

    Args:
        task: what to compute.
        no_user: a column of booleans: rows that belong to nobody, of which only the invalid rows are counted.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        n_models = len(task.models)
        moments = _TableMoments(len(task.metrics) + 1 + n_models * len(USER_COUNTS), n_models * len(INVALID_COUNTS))
        for batch in batches:
            scores = score(task, batch)
            nobody = filled(batch.column(batch.schema.get_field_index(no_user)), 0).astype(np.bool_)
            users = [count for counts in scores.counts for count in counts[: len(USER_COUNTS)]]
            invalid = [count for counts in scores.counts for count in counts[len(USER_COUNTS) :]]
            moments.add([*scores.metrics, scores.unresolved, *users], invalid, nobody)
        yield _packed({(): moments.state()})

    return run


def moments_of_columns(
    columns: tuple[str, ...], counts: tuple[str, ...], no_user: str, keys: tuple[str, ...] = ()
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow``: the moments of columns that hold a per-user table's values.

    Args:
        columns: columns of users' values; null is NaN.
        counts: columns of counts of invalid rows, also of those that belong to nobody.
        no_user: a column of booleans: rows that belong to nobody.
        keys: columns whose values part the rows into groups, each with moments of its own.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        moments: dict[Key, _TableMoments] = {}
        for batch in batches:
            by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
            values = [numbers(by_name[name]) for name in columns]
            invalid = [whole_numbers(by_name[name]).astype(np.float64) for name in counts]
            nobody = filled(by_name[no_user], 0).astype(np.bool_)
            for key, rows in _groups([by_name[name] for name in keys], batch.num_rows):
                mine = moments.setdefault(key, _TableMoments(len(columns), len(counts)))
                mine.add([one[rows] for one in values], [one[rows] for one in invalid], nobody[rows])
        yield _packed({key: mine.state() for key, mine in moments.items()})

    return run


def _groups(columns: list[pa.Array], n_rows: int) -> Iterator[tuple[Key, Array | slice]]:
    """The rows of each combination of values; all of them where there is no column."""
    if not columns:
        yield (), slice(None)
        return
    encoded = [column.dictionary_encode("encode") for column in columns]
    code = np.zeros(n_rows, np.int64)
    for one in encoded:
        code = code * len(one.dictionary) + filled(one.indices, 0)
    for combination in np.unique(code):
        rows = np.flatnonzero(code == combination)
        yield tuple(column[int(rows[0])].as_py() for column in columns), rows


class _TableMoments:
    """The moments of users' columns, and of counts that also rows without a user have."""

    def __init__(self, n_columns: int, n_counts: int) -> None:
        self._users = MomentsAccumulator(n_columns)
        self._counts = MomentsAccumulator(n_counts)

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
        yield _packed(merged_by_key(states))


def merged_by_key(states: Iterable[States]) -> States:
    """The states of each key, from those of parts of the rows."""
    by_key: dict[Key, list[State]] = {}
    for part in states:
        for key, state in part.items():
            by_key.setdefault(key, []).append(state)
    return {key: merged(parts) for key, parts in by_key.items()}


def unpacked(states: Iterable[bytes]) -> Iterator[States]:
    """States from the cells of the column `STATE`."""
    for state in states:
        # Written by our own workers a moment ago, as all that Spark brings from Python to Python.
        yield pickle.loads(state)


def _packed(states: States) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({STATE: pa.array([pickle.dumps(states)], pa.binary())})
