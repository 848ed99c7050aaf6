"""From batches of users to what is said of their values: one small state a partition, which the driver merges."""

from __future__ import annotations

import json
from functools import partial, reduce
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from spark_rankeval.statistics.description import DescriptionAccumulator, State, merged_descriptions
from spark_rankeval.statistics.merging import merged
from spark_rankeval.statistics.moments import MomentsAccumulator
from spark_rankeval.worker.exposures import ExposureAccumulator, slots_of, state_row
from spark_rankeval.worker.facts import TOTALS, in_parts
from spark_rankeval.worker.packing import pack, packed, unpacked
from spark_rankeval.worker.process import in_worker
from spark_rankeval.worker.reading import ABSENT, ITEMS, USER_HASH, USER_WEIGHT, filled, numbers, whole_numbers
from spark_rankeval.worker.scoring import INVALID_COUNTS, USER_COUNTS, WEIGHT_SUMS, score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from spark_rankeval.metrics.ragged import Array, BoolArray
    from spark_rankeval.statistics.description import DescriptionOptions
    from spark_rankeval.worker.task import ScoringTask

    Batches = Iterator[pa.RecordBatch]

#: The values of the columns that part users into groups.
Key = tuple[Any, ...]


class TableState(NamedTuple):
    """What is known of the users of a table.

    Attributes:
        values: of the metrics' values.
        counts: the moments of the users' counts, and then of the counts of invalid rows, which also rows without a user have.
    """

    values: State
    counts: dict[str, Array]


#: The state of each group.
States = dict[Key, TableState]


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

    def add(
        self,
        values: Sequence[Array],
        counts: Sequence[Array],
        nobody: BoolArray,
        users: Array | None,
        weights: Array | None = None,
        normalisers: Mapping[int, Array] | None = None,
    ) -> None:
        """Take in users.

        Args:
            values: float64 (n_users,), one a value.
            counts: (n_users,), one a count, those of invalid rows last.
            nobody: rows that belong to nobody, of which only the invalid rows are counted.
            users: hashes of the users' ids, if the options resample them.
            weights: of the users, if the options say so; NaN is none.
            normalisers: the weights of the users' values in the means of the values that the options say have some, by place.
        """
        somebody = ~nobody if nobody.any() else slice(None)
        self._values.add(
            [one[somebody] for one in values],
            None if users is None else users[somebody],
            None if weights is None else weights[somebody],
            {place: one[somebody] for place, one in (normalisers or {}).items()},
        )
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


def merged_by_key(parts: Iterable[States]) -> States:
    """The state of each key, from those of parts of the users."""
    by_key: dict[Key, list[TableState]] = {}
    for part in parts:
        for key, state in part.items():
            by_key.setdefault(key, []).append(state)
    return {key: merged_states(states) for key, states in by_key.items()}


def n_user_counts(task: ScoringTask) -> int:
    """How many counts a user has in the states of a task, without those of invalid rows."""
    of_labels, of_facts = len(WEIGHT_SUMS) * task.weighted, len(TOTALS) if task.facts else 0
    return 1 + of_labels + len(task.models) * len(USER_COUNTS) + of_facts


def state_of_batches(
    task: ScoringTask,
    options: DescriptionOptions,
    no_user: str,
    keys: tuple[str, ...] = (),
    slices_of: Callable[[Key], list[str]] | None = None,
) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow``: the state of all users of a partition.

    Its counts are those of unresolved users, then `WEIGHT_SUMS` where labels have weights, then `USER_COUNTS` of each model, then
    `TOTALS` if any metric asks for facts, then `INVALID_COUNTS` of each model. If any metric is of all lists together, rows of
    exposure stand beside the state.

    Args:
        task: what to compute.
        options: what is to be said of the metrics; if users are resampled, the table has a column `USER_HASH`; if they
            have weights, a column `USER_WEIGHT`.
        no_user: a column of booleans: rows that belong to nobody, of which only the invalid rows are counted.
        keys: columns whose values part the users into groups, each with a state of its own.
        slices_of: the slices that the users of a group belong to, as text, where exposure is counted.
    """
    n_invalid = len(task.models) * len(INVALID_COUNTS)
    slots = slots_of(task)

    @in_worker
    def run(batches: Batches) -> Batches:
        exposures = ExposureAccumulator(slots, slices_of) if slots and slices_of is not None else None
        tables = _Tables(len(task.metrics), n_user_counts(task), n_invalid, options, no_user, keys)
        kind = None
        for batch in chain.from_iterable(map(in_parts, batches)):
            kind = batch.schema.field(ITEMS).type.value_type
            scores = score(task, batch)
            users = [count for counts in scores.counts for count in counts[: len(USER_COUNTS)]]
            invalid = [count for counts in scores.counts for count in counts[len(USER_COUNTS) :]]
            counts = [scores.unresolved, *scores.weights, *users, *scores.totals, *invalid]
            tables.add(batch, scores.metrics, counts, scores.normalisers)
            if exposures is not None:
                somebody = ~filled(batch.column(no_user), 0).astype(np.bool_)
                yield from exposures.add(
                    groups(list(map(batch.column, keys)), batch.num_rows), somebody, scores.exposed
                )
        if exposures is None:
            yield packed(as_tree(tables.states()))
        elif kind is not None:
            # A partition without a batch does not know the type of items, and has nothing to say.
            yield state_row(pack(as_tree(tables.states())), kind)
            yield from exposures.rows()

    return run


def state_of_columns(
    values: tuple[str, ...],
    counts: tuple[str, ...],
    invalid: tuple[str, ...],
    options: DescriptionOptions,
    no_user: str,
    keys: tuple[str, ...] = (),
    normalisers: Mapping[int, str] | None = None,
) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow``: the state of the users whose values a table holds.

    Args:
        values: columns of users' values; null is NaN.
        counts: columns of users' counts.
        invalid: columns of counts of invalid rows, also of those that belong to nobody.
        options: what is to be said of the values; if users are resampled, the table has a column `USER_HASH`; if they
            have weights, a column `USER_WEIGHT`.
        no_user: a column of booleans: rows that belong to nobody.
        keys: columns whose values part the users into groups, each with a state of its own.
        normalisers: the columns of the normalisers of the values that have one, by the values' places.
    """

    @in_worker
    def run(batches: Batches) -> Batches:
        tables = _Tables(len(values), len(counts), len(invalid), options, no_user, keys)
        for batch in batches:
            by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
            counted = [
                numbers(by_name[name]) if pa.types.is_floating(by_name[name].type) else whole_numbers(by_name[name])
                for name in (*counts, *invalid)
            ]
            own = {place: numbers(by_name[name]) for place, name in (normalisers or {}).items()}
            tables.add(batch, [numbers(by_name[name]) for name in values], counted, own)
        yield packed(as_tree(tables.states()))

    return run


class _Tables:
    """The state of each group of a partition's users; without keys all are one group."""

    def __init__(
        self,
        n_values: int,
        n_counts: int,
        n_invalid: int,
        options: DescriptionOptions,
        no_user: str,
        keys: tuple[str, ...],
    ) -> None:
        self._new = partial(TableAccumulator, n_values, n_counts, n_invalid, options)
        self._options, self._no_user, self._keys = options, no_user, keys
        self._tables: dict[Key, TableAccumulator] = {}

    def add(
        self,
        batch: pa.RecordBatch,
        values: Sequence[Array],
        counts: Sequence[Array],
        normalisers: Mapping[int, Array],
    ) -> None:
        """Take in the users of a batch."""
        by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
        nobody = filled(by_name[self._no_user], 0).astype(np.bool_)
        hashes = whole_numbers(by_name[USER_HASH]) if self._options.resamples else None
        weights = numbers(by_name[USER_WEIGHT]) if self._options.weighted else None
        absent = filled(by_name[ABSENT], 0).astype(np.bool_) if ABSENT in by_name else None
        for key, group in groups([by_name[name] for name in self._keys], batch.num_rows):
            table = self._tables.setdefault(key, self._new())
            # A group that nobody is in who is evaluated is a group all the same.
            rows = (
                group
                if absent is None
                else np.flatnonzero(~absent)[group]
                if isinstance(group, slice)
                else group[~absent[group]]
            )
            table.add(
                [one[rows] for one in values],
                [one[rows] for one in counts],
                nobody[rows],
                None if hashes is None else hashes[rows],
                None if weights is None else weights[rows],
                {place: one[rows] for place, one in normalisers.items()},
            )

    def states(self) -> States:
        """The state of each group so far."""
        return {key: table.state() for key, table in self._tables.items()}


def groups(columns: list[pa.Array], n_rows: int) -> Iterator[tuple[Key, Array | slice]]:
    """The rows of each combination of values; all of them where there is no column.

    Args:
        columns: the columns whose values are combined.
        n_rows: how many rows there are.
    """
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


@in_worker
def merge_batches(batches: Batches) -> Batches:
    """For ``mapInArrow``: one state instead of the many of a partition."""
    trees = chain.from_iterable(unpacked(batch.column(0)) for batch in batches)
    first = next(trees, None)
    if first is not None:
        yield packed(_merged_in_turn(chain([first], trees)))


def merged_packed(states: Iterator[bytes]) -> bytes:
    """One packed state instead of several."""
    return pack(_merged_in_turn(unpacked(states)))


def _merged_in_turn(trees: Iterator[dict[str, Any]]) -> dict[str, Any]:
    # One after the other: all of them at once might not fit into memory.
    return as_tree(reduce(lambda one, other: merged_by_key([one, other]), map(as_states, trees)))


def as_tree(states: States) -> dict[str, Any]:
    """States as `packing` takes them; the values of a key are text or null."""
    return {json.dumps(key): state._asdict() for key, state in states.items()}


def as_states(tree: Mapping[str, Any]) -> States:
    """States from what `as_tree` made of them."""
    return {tuple(json.loads(key)): TableState(**state) for key, state in tree.items()}
