"""From batches of users to what is said of their values: one small state a partition, which the driver merges."""

from __future__ import annotations

import pickle
import zlib
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from spark_rankeval.statistics.description import DescriptionAccumulator, State, merged_descriptions
from spark_rankeval.statistics.merging import merged
from spark_rankeval.statistics.moments import MomentsAccumulator
from spark_rankeval.worker.reading import USER_HASH, filled, numbers, whole_numbers
from spark_rankeval.worker.scoring import INVALID_COUNTS, USER_COUNTS, score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from spark_rankeval.metrics.ragged import Array, BoolArray
    from spark_rankeval.statistics.description import DescriptionOptions
    from spark_rankeval.worker.task import ScoringTask

    Batches = Iterator[pa.RecordBatch]

#: The one column that `state_of_batches` and `state_of_columns` yield, in one row a partition.
STATE = "state"


class TableState(NamedTuple):
    """What is known of the users of a table.

    Attributes:
        values: of the metrics' values.
        counts: the moments of the users' counts, and then of the counts of invalid rows, which also rows without a user have.
    """

    values: State
    counts: dict[str, Array]


class TableAccumulator:
    """The state of a table's users, who come batch by batch.

    Args:
        n_values: how many values a user has.
        n_counts: how many counts a user has, without those of invalid rows.
        n_invalid: how many counts of invalid rows there are.
        options: what is to be said of the values.
    """

    def __init__(self, n_values: int, n_counts: int, n_invalid: int, options: DescriptionOptions) -> None:
        self._values = DescriptionAccumulator(n_values, options)
        self._counts = MomentsAccumulator(n_counts + n_invalid)
        self._n_counts = n_counts

    def add(self, values: Sequence[Array], counts: Sequence[Array], nobody: BoolArray, users: Array | None) -> None:
        """Take in users.

        Args:
            values: float64 (n_users,), one a value.
            counts: (n_users,), one a count, those of invalid rows last.
            nobody: rows that belong to nobody, of which only the invalid rows are counted.
            users: hashes of the users' ids, if the options resample them.
        """
        somebody = ~nobody if nobody.any() else slice(None)
        self._values.add([one[somebody] for one in values], None if users is None else users[somebody])
        for index, count in enumerate(counts):
            counted = count[somebody] if index < self._n_counts else count
            self._counts.add(index, counted.astype(np.float64, copy=False))

    def state(self) -> TableState:
        """The state so far."""
        return TableState(self._values.state(), self._counts.state())


def merged_states(states: Iterable[TableState]) -> TableState:
    """The state of all users, from one or more states of parts of them."""
    values, counts = zip(*states, strict=True)
    return TableState(merged_descriptions(values), merged(counts))


def state_of_batches(task: ScoringTask, options: DescriptionOptions, no_user: str) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow``: the state of all users of a partition.

    Its counts are those of unresolved users, of `USER_COUNTS` and of `INVALID_COUNTS`.

    Args:
        task: what to compute.
        options: what is to be said of the metrics; if users are resampled, the table has a column `USER_HASH`.
        no_user: a column of booleans: rows that belong to nobody, of which only the invalid rows are counted.
    """

    def run(batches: Batches) -> Batches:
        table = TableAccumulator(len(task.metrics), 1 + len(USER_COUNTS), len(INVALID_COUNTS), options)
        for batch in batches:
            scores = score(task, batch)
            by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
            nobody = filled(by_name[no_user], 0).astype(np.bool_)
            table.add(scores.metrics, [scores.unresolved, *scores.counts], nobody, _hashes(by_name, options))
        yield _packed(table.state())

    return run


def state_of_columns(
    values: tuple[str, ...],
    counts: tuple[str, ...],
    invalid: tuple[str, ...],
    options: DescriptionOptions,
    no_user: str,
) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow``: the state of the users whose values a table holds.

    Args:
        values: columns of users' values; null is NaN.
        counts: columns of users' counts.
        invalid: columns of counts of invalid rows, also of those that belong to nobody.
        options: what is to be said of the values; if users are resampled, the table has a column `USER_HASH`.
        no_user: a column of booleans: rows that belong to nobody.
    """

    def run(batches: Batches) -> Batches:
        table = TableAccumulator(len(values), len(counts), len(invalid), options)
        for batch in batches:
            by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
            nobody = filled(by_name[no_user], 0).astype(np.bool_)
            counted = [whole_numbers(by_name[name]) for name in (*counts, *invalid)]
            table.add([numbers(by_name[name]) for name in values], counted, nobody, _hashes(by_name, options))
        yield _packed(table.state())

    return run


def _hashes(by_name: dict[str, pa.Array], options: DescriptionOptions) -> Array | None:
    return whole_numbers(by_name[USER_HASH]) if options.resamples else None


def merge_batches(batches: Batches) -> Batches:
    """For ``mapInArrow``: one state instead of the many of a partition."""
    # One after the other: all of them at once might not fit into memory.
    states = (state for batch in batches for state in unpacked(batch.column(0)))
    first = next(states, None)
    if first is not None:
        yield _packed(reduce(lambda one, other: merged_states([one, other]), states, first))


def unpacked(states: Iterable[pa.Scalar | bytes]) -> Iterator[TableState]:
    """States from the cells of the column `STATE`."""
    for state in states:
        data = state if isinstance(state, bytes) else state.as_py()
        # Written by our own workers a moment ago, as all that Spark brings from Python to Python.
        yield pickle.loads(zlib.decompress(data))


def _packed(state: TableState) -> pa.RecordBatch:
    # Most bytes of sums and counts are 0.
    return pa.RecordBatch.from_pydict({STATE: pa.array([zlib.compress(pickle.dumps(state), 1)], pa.binary())})
