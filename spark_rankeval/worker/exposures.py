"""In how many lists items stand: counted by partition, added up by item, and told as histograms.

A worker counts the items that it sees, and sends the counts on before they take much memory. Spark adds up the counts of
each item. The driver gets how many items have which count, so that it never sees the items themselves.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from spark_rankeval.metrics.exposure_based import CorpusMetric
from spark_rankeval.ranking.ragged import offsets_of, position_within
from spark_rankeval.statistics.jackknife import N_BLOCKS
from spark_rankeval.worker.packing import PLACE, STATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from spark_rankeval.ranking.batch import RankingBatch
    from spark_rankeval.ranking.ragged import Array, BoolArray, IntArray
    from spark_rankeval.ranking.recommended import Recommended
    from spark_rankeval.request.task import ScoringTask

    Batches = Iterator[pa.RecordBatch]
    Key = tuple[Any, ...]

#: The columns of rows of exposure, beside that of states: what is counted, of which slice, which item, what it is, in the lists of which
#: block of users, and how often.
SLOT, KEY, ITEM, KIND, BLOCK, COUNT = "slot", "slice", "item", "kind", "block", "count"
#: The column of an item's counts in the blocks, if these are told apart: a list of structs of `BLOCK` and `COUNT`.
BLOCKS = "blocks"
#: The column of the names of groups of items; rows that have one are about a group, and have no item.
GROUP = "item_group"
#: The column of packed histograms, and what these have beside kinds and counts.
EXPOSURE, N_ITEMS = "exposure", "n_items"
#: The columns of a histogram.
HISTOGRAM = (KIND, COUNT, BLOCK, N_ITEMS)
_COLUMNS = [PLACE, STATE, SLOT, KEY, ITEM, KIND, BLOCK, COUNT, GROUP]
#: What an item is: bits of a number; and what a row is that counts users instead.
IN_TRAINING, IN_ITEMS, USERS = 1, 2, -1
# What a worker counts an item by: the group of users, the view, the part of the list, the kind and the block, as one number.
_CELL = "cell"
# What an item is sent for, as a number.
_PLACE = "place"
_N_GROUPS, _N_KINDS = 1 << 31, 4
#: The block of an item's whole count.
EVERYBODY = -1
#: A worker holds about so many bytes of counts. Adding them up takes up to ten times as much.
HELD = 12 << 20
# So many predictions are counted at once; so many rows are sent at once.
_COUNTED, _SENT = 1 << 18, 1 << 16


class Slot(NamedTuple):
    """What exposure is counted of."""

    view: int  # the place of the view whose lists are counted
    k: int | None  # how many places of a list count; None: all


def slots_of(task: ScoringTask) -> list[Slot]:
    """What the metrics of how often items are in lists need."""
    wanted = (
        Slot(place, metric.k)
        for place, view in enumerate(task.views)
        for metric in view.metrics
        if isinstance(metric, CorpusMetric)
    )
    return list(dict.fromkeys(wanted))


class Exposed(NamedTuple):
    """The lists of a view."""

    batch: RankingBatch  # the ranked lists
    ids: pa.Array  # the ids of the predictions as they came
    included: BoolArray  # which users the view is about


class ExposureAccumulator:
    """The exposure of items in lists that come batch by batch.

    The cutoffs of a view part its lists. A prediction is counted once, in the part where it stands and for the group of its
    user. What is sent counts it for every slot that has the part, in every slice that has the group.
    """

    def __init__(self, slots: list[Slot], slices_of: Callable[[Key], list[str]]) -> None:
        self._slots, self._slices_of = slots, slices_of
        # The numbers of a view's slots, those of the shortest lists first.
        self._of_view: dict[int, list[int]] = {}
        for number in sorted(range(len(slots)), key=lambda number: _length(slots[number])):
            self._of_view.setdefault(slots[number].view, []).append(number)
        n_parts = max(map(len, self._of_view.values()))
        self._cell_shape = (_N_GROUPS, max(self._of_view) + 1, n_parts, _N_KINDS, N_BLOCKS)
        # A slot, a slice, a kind and a block, with its number.
        self._places: dict[tuple[int, str, int, int], int] = {}
        self._groups: dict[Key, int] = {}
        self._slices: list[list[str]] = []
        # By slot, how many users of each group and block have a list.
        self._n_users: dict[int, Array] = {}
        self._held: list[pa.Table] = []
        self._n_bytes = 0
        self._item_type: pa.DataType | None = None

    def add(
        self,
        groups: Iterable[tuple[Key, Array | slice]],
        counted: BoolArray,
        exposed: dict[int, Exposed],
        blocks: IntArray | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Take in the lists of a batch of users, as far as they count; gives rows of exposure that no longer fit into memory.

        Counts are told apart by the users' `blocks`; without any all are those of block 0.
        """
        group = np.full(len(counted), -1, np.int64)
        block = np.zeros(len(counted), np.int64) if blocks is None else blocks
        for key, users in groups:
            group[users] = self._group(key)
        for view in self._of_view:
            lists = exposed[view]
            recommended = lists.batch.recommended
            assert recommended is not None, "a metric of all lists reads items"
            self._item_type = lists.ids.type
            of_user = np.where(counted & lists.included, group, -1)
            self._count_users(view, recommended, of_user, block)
            part, kind = self._parts(view, recommended), _kinds(recommended)
            entries = np.flatnonzero((of_user[recommended.user] >= 0) & (part < len(self._of_view[view])))
            for first in range(0, len(entries), _COUNTED):
                some = entries[first : first + _COUNTED]
                user = recommended.user[some]
                cell = np.ravel_multi_index(
                    (of_user[user], view, part[some], kind[some], block[user]), self._cell_shape
                )
                yield from self._hold(cell, lists.ids.take(pa.array(recommended.entry[some])))

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The rows of exposure that are left, without a state."""
        if self._held:
            yield from self._sent(added_up(self._held, COUNT))
        of_slices: Counter[tuple[int, str, int]] = Counter()
        for slot, n_users in self._n_users.items():
            for texts, n_of_group in zip(self._slices, n_users, strict=True):
                # Without anybody a slice has a row all the same: that of block 0.
                for block in [0, *np.flatnonzero(n_of_group[1:]) + 1]:
                    of_slices.update({(slot, text, int(block)): int(n_of_group[block]) for text in texts})
        if of_slices:
            slots, slices, blocks = zip(*of_slices, strict=True)
            yield rows_of_exposure(
                pa.array(slots, pa.int32()),
                pa.array(slices, pa.string()),
                pa.nulls(len(slots), self._item_type),
                pa.repeat(pa.scalar(USERS, pa.int8()), len(slots)),
                pa.array(blocks, pa.int8()),
                pa.array(of_slices.values(), pa.int64()),
            )

    def _group(self, key: Key) -> int:
        if key not in self._groups:
            self._groups[key] = len(self._groups)
            self._slices.append(self._slices_of(key))
        return self._groups[key]

    def _count_users(self, view: int, recommended: Recommended, group: IntArray, block: IntArray) -> None:
        for number in self._of_view[view]:
            with_list = (group >= 0) & (recommended.n_within(self._slots[number].k) > 0)
            cell = group[with_list] * N_BLOCKS + block[with_list]
            n_users = np.bincount(cell, minlength=len(self._groups) * N_BLOCKS).reshape(-1, N_BLOCKS)
            before = self._n_users.get(number, np.empty((0, N_BLOCKS), np.int64))
            n_users[: len(before)] += before
            self._n_users[number] = n_users

    def _parts(self, view: int, recommended: Recommended) -> IntArray:
        """Beyond how many of a view's cutoffs each item stands."""
        part = np.zeros(len(recommended.rank), np.int64)
        for number in self._of_view[view]:
            part += ~recommended.within(self._slots[number].k)
        return part

    def _hold(self, cell: IntArray, ids: pa.Array) -> Iterator[pa.RecordBatch]:
        self._held.append(pa.table({_CELL: cell, ITEM: ids, COUNT: np.ones(len(cell), np.int64)}))
        self._n_bytes += self._held[-1].nbytes
        if self._n_bytes > HELD:
            together = added_up(self._held, COUNT)
            # More than half would leave little room, and would be added up again and again.
            keeps = together.nbytes <= HELD // 2
            self._held, self._n_bytes = ([together], together.nbytes) if keeps else ([], 0)
            if not keeps:
                yield from self._sent(together)

    def _sent(self, counted: pa.Table) -> Iterator[pa.RecordBatch]:
        """Counts as rows of exposure, one an item and place."""
        n_places_at_most = max(map(len, self._slices)) * max(map(len, self._of_view.values()))
        # Cells of an item that count for one place stand together then, and become one row. A row costs Spark ten times as much.
        in_order = counted.sort_by(ITEM).combine_chunks()
        for batch in in_order.to_batches(max_chunksize=max(1, _SENT // n_places_at_most)):
            cells, which = np.unique(batch.column(_CELL).to_numpy(), return_inverse=True)
            places = [self._places_of(cell) for cell in zip(*np.unravel_index(cells, self._cell_shape), strict=True)]
            n_places = np.array([len(part) for part in places])
            entry = np.repeat(np.arange(len(which)), n_places[which])
            nth = offsets_of(n_places)[which][entry] + position_within(entry, len(which))
            ids, counts = (batch.column(name).take(pa.array(entry)) for name in (ITEM, COUNT))
            rows = added_up([pa.table({_PLACE: np.concatenate(places)[nth], ITEM: ids, COUNT: counts})], COUNT)
            slots, slices, kinds, blocks = zip(*self._places, strict=True)
            place, ids, counts = (rows[name].combine_chunks() for name in (_PLACE, ITEM, COUNT))
            slot, text, kind, block = (
                pa.array(values, of).take(place)
                for values, of in (
                    (slots, pa.int32()), (slices, pa.string()), (kinds, pa.int8()), (blocks, pa.int8()),
                )
            )  # fmt: skip
            yield rows_of_exposure(slot, text, ids, kind, block, counts)

    def _places_of(self, cell: tuple[int, ...]) -> list[int]:
        """The numbers of the places that a cell counts for."""
        group, view, part, kind, block = map(int, cell)
        places = [(slot, text, kind, block) for slot in self._of_view[view][part:] for text in self._slices[group]]
        return [self._places.setdefault(place, len(self._places)) for place in places]


def _length(slot: Slot) -> float:
    return math.inf if slot.k is None else slot.k


def _kinds(recommended: Recommended) -> IntArray:
    kind = np.zeros(len(recommended.rank), np.int64)
    if recommended.training_users is not None:
        kind += IN_TRAINING * (recommended.training_users > 0)
    if recommended.in_items is not None:
        kind += IN_ITEMS * recommended.in_items
    return kind


def state_row(state: pa.RecordBatch, kind: pa.DataType) -> pa.RecordBatch:
    """A row of a state as one beside rows of exposure."""
    others = (pa.int32(), pa.string(), kind, pa.int8(), pa.int8(), pa.int64(), pa.string())
    nulls = [pa.nulls(state.num_rows, one) for one in others]
    own = [state.column(state.schema.get_field_index(name)) for name in (PLACE, STATE)]
    return pa.RecordBatch.from_arrays([*own, *nulls], names=_COLUMNS)


def rows_of_exposure(
    slot: pa.Array,
    key: pa.Array,
    item: pa.Array,
    kind: pa.Array,
    block: pa.Array,
    count: pa.Array,
    group: pa.Array | None = None,
) -> pa.RecordBatch:
    """Rows of exposure, beside which no state stands; see the names of their columns."""
    no_state = pa.nulls(len(slot), pa.int32()), pa.nulls(len(slot), pa.binary())
    groups = pa.nulls(len(slot), pa.string()) if group is None else group
    return pa.RecordBatch.from_arrays([*no_state, slot, key, item, kind, block, count, groups], names=_COLUMNS)


def added_up(tables: list[pa.Table], summed: str) -> pa.Table:
    """One row of all rows that are alike but for one column, which is added up."""
    whole = pa.concat_tables(tables)
    keys = [name for name in whole.column_names if name != summed]
    grouped = whole.group_by(keys, use_threads=False).aggregate([(summed, "sum")])
    return pa.table({name: grouped[f"{summed}_sum" if name == summed else name] for name in whole.column_names})
