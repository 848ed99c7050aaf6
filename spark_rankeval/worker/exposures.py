"""In how many lists items stand: counted by partition, added up by item, and told as histograms.

A worker tells every item that it saw, with counts. Spark brings the rows of an item together, and what goes on to the driver is
how many items have which count, so that it never sees the items themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from spark_rankeval.metrics.exposure_based import Exposure
from spark_rankeval.worker.packing import STATE, pack, unpack
from spark_rankeval.worker.process import in_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from spark_rankeval.metrics.batch import RankingBatch
    from spark_rankeval.metrics.ragged import Array, BoolArray, IntArray
    from spark_rankeval.metrics.recommended import Totals
    from spark_rankeval.worker.task import ScoringTask

    Batches = Iterator[pa.RecordBatch]
    Key = tuple[Any, ...]

#: The columns of rows of exposure, beside that of states: what is counted, of which slice, which item, what it is, and how often.
SLOT, KEY, ITEM, KIND, COUNT = "slot", "slice", "item", "kind", "count"
#: The column of packed histograms, and what these have beside kinds and counts.
EXPOSURE, N_ITEMS = "exposure", "n_items"
# What an item is: bits of a number; and what a row is that counts users instead.
_IN_TRAINING, _IN_ITEMS, _USERS = 1, 2, -1
# So many rows are kept before they are added up; so many are sent at once.
_ROWS, _SENT = 1 << 20, 1 << 16


class Slot(NamedTuple):
    """What exposure is counted of.

    Attributes:
        view: the place of the view whose lists are counted.
        k: how many places of a list count; None: all.
    """

    view: int
    k: int | None


def slots_of(task: ScoringTask) -> list[Slot]:
    """What the metrics of all lists together need."""
    wanted = (
        Slot(place, metric.k) for place, view in enumerate(task.views) for metric in view.metrics if metric.corpus_level
    )
    return list(dict.fromkeys(wanted))


class Exposed(NamedTuple):
    """The lists of a view.

    Attributes:
        batch: the ranked lists.
        ids: the ids of the predictions as they came.
        included: which users the view is about.
    """

    batch: RankingBatch
    ids: pa.Array
    included: BoolArray


class ExposureAccumulator:
    """The exposure of items in lists that come batch by batch.

    Args:
        slots: what is counted.
        slices_of: the slices, as text, that the users of a group belong to.
    """

    def __init__(self, slots: list[Slot], slices_of: Callable[[Key], list[str]]) -> None:
        self._slots, self._slices_of = slots, slices_of
        self._tables: list[pa.Table] = []
        self._n_rows = 0

    def add(self, key: Key, users: BoolArray, exposed: dict[int, Exposed]) -> None:
        """Take in the lists of the users of a group.

        Args:
            key: the group.
            users: bool (n_users,), who is in it.
            exposed: the lists, by the view's place.
        """
        slices = self._slices_of(key)
        for number, slot in enumerate(self._slots):
            lists = exposed[slot.view]
            recommended = lists.batch.recommended
            assert recommended is not None, "a metric of all lists reads items"
            counted = users & lists.included
            which = recommended.within(slot.k) & counted[recommended.user]
            entry = recommended.entry[which]
            kind = np.zeros(len(entry), np.int8)
            for bit, known in (
                (_IN_TRAINING, None if (u := recommended.training_users) is None else u > 0),
                (_IN_ITEMS, recommended.in_items),
            ):
                if known is not None:
                    kind += bit * known[which].astype(np.int8)
            ids = lists.ids.take(pa.array(entry))
            ones = _added_up(_table(number, "", ids, kind, np.ones(len(entry), np.int64)))
            n_users = int((recommended.n_within(slot.k)[counted] > 0).sum())
            users_row = _table(number, "", pa.nulls(1, ids.type), np.array([_USERS], np.int8), np.array([n_users]))
            for text in slices:
                for table in (ones, users_row):
                    named = table.set_column(1, KEY, pa.repeat(pa.scalar(text), len(table)))
                    self._tables.append(named)
                    self._n_rows += len(named)
        if self._n_rows > _ROWS:
            self._tables = [_added_up(pa.concat_tables(self._tables))]
            # What cannot be added up any further waits until as much has come again.
            self._n_rows = 0

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Rows of exposure, without a state."""
        if self._tables:
            whole = _added_up(pa.concat_tables(self._tables))
            states = pa.nulls(len(whole), pa.binary())
            yield from whole.add_column(0, STATE, states).combine_chunks().to_batches(max_chunksize=_SENT)


def state_row(state: pa.RecordBatch, kind: pa.DataType) -> pa.RecordBatch:
    """A row of a state as one beside rows of exposure."""
    columns = {
        STATE: state.column(state.schema.get_field_index(STATE)),
        SLOT: pa.nulls(1, pa.int32()),
        KEY: pa.nulls(1, pa.string()),
        ITEM: pa.nulls(1, kind),
        KIND: pa.nulls(1, pa.int8()),
        COUNT: pa.nulls(1, pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)


def _table(slot: int, key: str, ids: pa.Array, kind: Array, count: IntArray) -> pa.Table:
    n = len(ids)
    return pa.table(
        {
            SLOT: pa.repeat(pa.scalar(slot, pa.int32()), n),
            KEY: pa.repeat(pa.scalar(key), n),
            ITEM: ids,
            KIND: pa.array(kind, pa.int8()),
            COUNT: pa.array(count, pa.int64()),
        }
    )


def _added_up(table: pa.Table) -> pa.Table:
    keys = [SLOT, KEY, ITEM, KIND]
    found = table.group_by(keys, use_threads=False).aggregate([(COUNT, "sum")])
    return pa.table({name: found[name if name != COUNT else f"{COUNT}_sum"] for name in (*keys, COUNT)})


def merge_exposures(merge_states: Callable[[Iterator[bytes]], bytes]) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow``: of rows whose items stand together one state, and one histogram of exposure.

    Args:
        merge_states: one packed state of several.
    """

    @in_worker
    def run(batches: Batches) -> Batches:
        states: list[bytes] = []
        tables: list[pa.Table] = []
        n_rows = 0
        for batch in batches:
            whole = pa.Table.from_batches([batch])
            is_state = whole[STATE].is_valid()
            states += whole[STATE].filter(is_state).to_pylist()
            if len(states) > 1:
                states = [merge_states(iter(states))]
            tables.append(whole.filter(whole[STATE].is_null()).drop_columns([STATE]))
            n_rows += len(tables[-1])
            if n_rows > _ROWS:
                tables, n_rows = [_added_up(pa.concat_tables(tables))], 0
        if states or tables:
            histogram = _histogram(_added_up(pa.concat_tables(tables)))
            columns = {
                STATE: pa.array(states, pa.binary()) if states else pa.nulls(1, pa.binary()),
                EXPOSURE: pa.array([pack(histogram)], pa.binary()),
            }
            yield pa.RecordBatch.from_pydict(columns)

    return run


def _histogram(items: pa.Table) -> dict[str, Any]:
    """How many items have which count, by slice and slot."""
    keys = [KEY, SLOT, KIND, COUNT]
    found = items.group_by(keys, use_threads=False).aggregate([([], "count_all")])
    tree: dict[str, Any] = {}
    slot, kind, count, n_items = (found[name].to_numpy().astype(np.int64) for name in (SLOT, KIND, COUNT, "count_all"))
    slices = np.array(found[KEY].to_pylist(), np.object_)
    for key in dict.fromkeys(slices):
        for number in np.unique(slot[slices == key]).tolist():
            rows = (slices == key) & (slot == number)
            histogram = {KIND: kind[rows], COUNT: count[rows], N_ITEMS: n_items[rows]}
            tree.setdefault(key, {})[str(number)] = histogram
    return tree


def exposures_of(packed: Iterable[bytes], slots: list[Slot], totals: Totals) -> dict[str, dict[Slot, Exposure]]:
    """What every partition told, put together: the exposure of each slot in each slice.

    Args:
        packed: the histograms.
        slots: what was counted.
        totals: of the tables.
    """
    parts: dict[tuple[str, int], list[dict[str, Array]]] = {}
    for one in packed:
        for key, of_slots in unpack(one).items():
            for number, histogram in of_slots.items():
                parts.setdefault((key, int(number)), []).append(histogram)
    found: dict[str, dict[Slot, Exposure]] = {}
    for (key, number), histograms in parts.items():
        kind, count, n_items = (np.concatenate([part[name] for part in histograms]) for name in (KIND, COUNT, N_ITEMS))
        of_users = kind == _USERS
        found.setdefault(key, {})[slots[number]] = Exposure(
            count=count[~of_users],
            n_items=n_items[~of_users],
            in_training=(kind[~of_users] & _IN_TRAINING) > 0,
            in_items=(kind[~of_users] & _IN_ITEMS) > 0,
            n_users=int((count * n_items)[of_users].sum()),
            totals=totals,
        )
    return found
