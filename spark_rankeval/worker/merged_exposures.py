"""Where the rows of exposure of an item meet: their counts become histograms, beside the states that meet there too."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from spark_rankeval.ranking.ragged import starts_of_runs
from spark_rankeval.worker.exposure_blocks import changed_counts
from spark_rankeval.worker.exposures import (
    BLOCK,
    BLOCKS,
    COUNT,
    EVERYBODY,
    EXPOSURE,
    GROUP,
    HELD,
    HISTOGRAM,
    KEY,
    KIND,
    N_ITEMS,
    SLOT,
    added_up,
)
from spark_rankeval.worker.group_exposures import group_histogram
from spark_rankeval.worker.packing import PLACE, STATE, pack, unpack
from spark_rankeval.worker.process import in_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    Batches = Iterator[pa.RecordBatch]


class Merging(Protocol):
    """What makes one state of several."""

    def add(self, tree: Mapping[str, Any]) -> None:
        """Take in a state."""

    def tree(self) -> dict[str, Any]:
        """All of them as one."""


class Meeting(Protocol):
    """Where rows of some places meet that are not states yet."""

    def add(self, states: Iterable[bytes]) -> Iterable[dict[str, Any]]:
        """Take in all rows of a place; gives states that have to make room."""

    def trees(self) -> Iterable[dict[str, Any]]:
        """The states of all."""


def merge_exposures(
    merging: Callable[[], Merging], meeting: Callable[[], Meeting] | None = None, first_place: int = 0
) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow``: of states and of rows with the whole count of an item each, one state and one histogram.

    Rows from `first_place` on are no states; those of a place meet.
    """

    @in_worker
    def run(batches: Batches) -> Batches:
        tables: list[pa.Table] = []
        groups: list[pa.Table] = []
        states, place = merging(), None
        n_states = 0
        met = None if meeting is None else meeting()
        arrived: list[bytes] = []
        for batch in batches:
            whole = pa.Table.from_batches([batch])
            for packed in whole.filter(whole[STATE].is_valid()).select([PLACE, STATE]).to_pylist():
                if met is not None and arrived and packed[PLACE] != place:
                    yield from map(_state_alone, met.add(arrived))
                    arrived = []
                if met is not None and packed[PLACE] >= first_place:
                    place = packed[PLACE]
                    arrived.append(packed[STATE])
                    continue
                if n_states and packed[PLACE] != place:
                    yield _merged_row(states, None)
                    states, n_states = merging(), 0
                states.add(unpack(packed[STATE]))
                place = packed[PLACE]
                n_states += 1
            counted = whole.filter(whole[STATE].is_null())
            if GROUP in whole.column_names:
                groups.append(counted.filter(counted[GROUP].is_valid()))
                counted = counted.filter(counted[GROUP].is_null())
            tables += _items_of(counted)
            if sum(table.nbytes for table in tables) > HELD:
                tables = [added_up(tables, N_ITEMS)]
        if met is not None:
            yield from map(_state_alone, chain(met.add(arrived) if arrived else [], met.trees()))
        if tables:
            histogram = _histogram(added_up(tables, N_ITEMS))
            if groups:
                of_groups = group_histogram(pa.concat_tables(groups))
                histogram = {key: histogram.get(key, {}) | of_groups.get(key, {}) for key in {*histogram, *of_groups}}
            yield _merged_row(states if n_states else None, histogram)

    return run


def _state_alone(tree: Mapping[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({STATE: pa.array([pack(tree)], pa.binary()), EXPOSURE: pa.nulls(1, pa.binary())})


def _merged_row(states: Merging | None, histogram: Mapping[str, Any] | None) -> pa.RecordBatch:
    columns = {
        STATE: pa.array([None if states is None else pack(states.tree())], pa.binary()),
        EXPOSURE: pa.array([None if histogram is None else pack(histogram)], pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def _items_of(rows: pa.Table) -> list[pa.Table]:
    """Rows with the whole count of an item each, as rows with the number of items of a count; and changes of these without a block."""
    items = rows.select([KEY, SLOT, KIND, COUNT])
    everybody = pa.repeat(pa.scalar(EVERYBODY, pa.int8()), len(items))
    whole = items.append_column(BLOCK, everybody).append_column(N_ITEMS, pa.array(np.ones(len(items), np.int64)))
    if BLOCKS not in rows.column_names or not len(items):
        return [whole]
    item, block, count, n_items = changed_counts(items[COUNT].combine_chunks(), rows[BLOCKS].combine_chunks())
    changes = items.select([KEY, SLOT, KIND]).take(pa.array(item))
    of_changes = {COUNT: pa.array(count), BLOCK: pa.array(block, pa.int8()), N_ITEMS: pa.array(n_items)}
    for name, values in of_changes.items():
        changes = changes.append_column(name, values)
    return [whole, changes.select(whole.column_names)]


def _histogram(counts: pa.Table) -> dict[str, Any]:
    """How many items have which count, by slice and slot, and how that changes without each block."""
    tree: dict[str, Any] = {}
    encoded = counts[KEY].combine_chunks().dictionary_encode()
    key = encoded.indices.to_numpy()
    slot, *columns = (counts[name].to_numpy().astype(np.int64) for name in (SLOT, *HISTOGRAM))
    order = np.lexsort((slot, key))
    starts = np.flatnonzero(starts_of_runs(key[order], slot[order]))
    for rows in np.split(order, starts)[1:]:
        histogram = {name: values[rows] for name, values in zip(HISTOGRAM, columns, strict=True)}
        tree.setdefault(encoded.dictionary[key[rows[0]]].as_py(), {})[str(slot[rows[0]])] = histogram
    return tree
