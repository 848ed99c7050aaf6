"""In how many lists items stand: counted by partition, added up by item in buckets of items, and sent as histograms.

A worker counts the items that it sees, and sends the counts on before they take much memory. Where the counts of an item meet they are
added up. The driver gets how many items have which count, so that it never sees the items themselves.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.features.exposure.counted_tables import TableSum, merge_counts, message_of, table_of, total_of
from spark_rankeval.metrics.exposure_based import CorpusMetric, Exposure
from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.ragged import Array, BoolArray, IntArray, offsets_of, position_within, starts_of_runs
from spark_rankeval.ranking.recommended import Recommended, Totals
from spark_rankeval.records.slices import ALL_VALUES, Key
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.statistics.bootstrap import N_BLOCKS
from spark_rankeval.statistics.resampling import mixed
from spark_rankeval.statistics.table_fingerprints import xxhash64
from spark_rankeval.wire import Merger, Message
from spark_rankeval.worker.reading import numbers, whole_numbers

#: The kinds of messages: counts of items, in buckets of items; and histograms.
EXPOSURE, HISTOGRAMS = "exposure", "histograms of exposure"
#: Items meet in so many buckets, and in so many times more if blocks of users are counted apart. The counts of a bucket are held in
#: memory: of 100 million items those of some 1.6 million, in every slot and slice.
N_BUCKETS, _BLOCKS_TOGETHER = 1 << 6, 1 << 2
# The columns of a message: the slot, the slice, the item, its kind, the block of users, and the number of lists.
_SLOT, _SLICE, _ITEM, _KIND, _BLOCK, _COUNT = "slot", "slice", "item", "kind", "block", "count"
# In which bucket a row goes, until it is sent.
_BUCKET = "bucket"
#: How many items have a count, in a histogram.
N_ITEMS = "n_items"
# What an item is: bits of a number; and what a row is that counts users instead.
TRAINING_BIT, ITEMS_BIT, _USERS = 1, 2, -1
# A worker counts items by cell: the group of users, the view, the part of the list, the kind and the block, as one number.
_CELL = "cell"
# The slot, slice, kind and block that a count is sent for, as one number.
_PLACE = "place"
_N_GROUPS, _N_KINDS = 1 << 31, 4
_PLACE_TYPES = (pa.int32(), pa.string(), pa.int8(), pa.int8())
_HISTOGRAM = pa.schema(
    [
        (_SLOT, pa.int32()),
        (_SLICE, pa.string()),
        (_KIND, pa.int8()),
        (_COUNT, pa.int64()),
        (_BLOCK, pa.int64()),
        (N_ITEMS, pa.int64()),
    ]
)
#: The block number of a count over all blocks.
ALL_BLOCKS = -1
#: A worker holds about so many bytes of counts. Adding them up takes up to ten times as much.
HELD = 4 << 20
# So many predictions are counted at once; so many rows are sent at once.
_COUNTED, _SENT = 1 << 18, 1 << 16
# So many ids are hashed at once: each letter takes 32 bytes.
_HASHED = 1 << 13


def slice_as_text(key: Key) -> str:
    """A slice as text; the sign for every value is a mapping, which no value is."""
    return json.dumps([{} if value is ALL_VALUES else value for value in key])


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

    def __init__(self, slots: Sequence[Slot], slice_texts: Callable[[Key], list[str]]) -> None:
        self._slots, self._slice_texts = slots, slice_texts
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
        self._has_blocks = False

    def add(
        self,
        groups: Iterable[tuple[Key, Array | slice]],
        counted: BoolArray,
        exposed: Mapping[int, Exposed],
        blocks: IntArray | None = None,
    ) -> Iterator[Message]:
        """Take in the lists of a batch of users, as far as they count; gives messages if counts no longer fit into memory.

        Each of the users' `blocks` has counts of its own; without any all are those of block 0.
        """
        group = np.full(len(counted), -1, np.int64)
        block = np.zeros(len(counted), np.int64) if blocks is None else blocks
        self._has_blocks = blocks is not None
        for key, users in groups:
            group[users] = self._group(key)
        for view in self._of_view:
            lists = exposed[view]
            recommended = lists.batch.recommended
            assert recommended is not None, "a metric of all lists reads items"
            user_group = np.where(counted & lists.included, group, -1)
            self._count_users(view, recommended, user_group, block)
            part, kind = self._parts(view, recommended), _kinds(recommended)
            entries = np.flatnonzero((user_group[recommended.user] >= 0) & (part < len(self._of_view[view])))
            for first in range(0, len(entries), _COUNTED):
                some = entries[first : first + _COUNTED]
                user = recommended.user[some]
                cell = np.ravel_multi_index(
                    (user_group[user], view, part[some], kind[some], block[user]), self._cell_shape
                )
                yield from self._hold(cell, lists.ids.take(pa.array(recommended.entry[some])))

    def messages(self) -> Iterator[Message]:
        """What is left."""
        if self._held:
            yield from self._sent(merge_counts(self._held, _COUNT))
        n_users: Counter[tuple[int, str, int]] = Counter()
        for slot, group_counts in self._n_users.items():
            for texts, block_counts in zip(self._slices, group_counts.tolist(), strict=True):
                # A slice without users still has a row, and so has block 0.
                blocks = [(ALL_BLOCKS, sum(block_counts))]
                if self._has_blocks:
                    blocks += [(block, -n) for block, n in enumerate(block_counts) if n or not block]
                for text in texts:
                    for block, n in blocks:
                        n_users[slot, text, block] += n
        if n_users:
            slots, slices, blocks_of_rows = zip(*n_users, strict=True)
            n = len(n_users)
            columns = (slots, slices, [_USERS] * n, [1] * n, blocks_of_rows, list(n_users.values()))
            arrays = [pa.array(column, kind) for column, kind in zip(columns, _HISTOGRAM.types, strict=True)]
            yield message_of(HISTOGRAMS, pa.table(arrays, schema=_HISTOGRAM))

    def _group(self, key: Key) -> int:
        if key not in self._groups:
            self._groups[key] = len(self._groups)
            self._slices.append(self._slice_texts(key))
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

    def _hold(self, cell: IntArray, ids: pa.Array) -> Iterator[Message]:
        self._held.append(pa.table({_CELL: cell, _ITEM: ids, _COUNT: np.ones(len(cell), np.int64)}))
        self._n_bytes += self._held[-1].nbytes
        if self._n_bytes > HELD:
            together = merge_counts(self._held, _COUNT)
            # More than half would leave little room, and would be added up again and again.
            keeps = together.nbytes <= HELD // 2
            self._held, self._n_bytes = ([together], together.nbytes) if keeps else ([], 0)
            if not keeps:
                yield from self._sent(together)

    def _sent(self, counted: pa.Table) -> Iterator[Message]:
        """Counts as messages, for each bucket of items."""
        bucket = _buckets_of(counted[_ITEM].combine_chunks(), N_BUCKETS * (_BLOCKS_TOGETHER if self._has_blocks else 1))
        order = np.argsort(bucket, kind="stable")
        ordered = counted.append_column(_BUCKET, pa.array(bucket)).take(pa.array(order)).combine_chunks()
        n_places_at_most = max(map(len, self._slices)) * max(map(len, self._of_view.values()))
        step = max(1, _SENT // n_places_at_most)
        for first in range(0, len(ordered), step):
            rows = self._as_places(ordered.slice(first, step)).sort_by(_BUCKET)
            bucket = rows[_BUCKET].to_numpy()
            rows = rows.drop_columns(_BUCKET).combine_chunks()
            starts = np.flatnonzero(starts_of_runs(bucket)).tolist()
            for start, stop in pairwise([*starts, len(bucket)]):
                yield message_of(EXPOSURE, rows.slice(start, stop - start), int(bucket[start]))

    def _as_places(self, counted: pa.Table) -> pa.Table:
        """Counts of cells as counts of the places that cells count for."""
        cells, which = np.unique(counted[_CELL].to_numpy(), return_inverse=True)
        places = [self._places_of(cell) for cell in zip(*np.unravel_index(cells, self._cell_shape), strict=True)]
        n_places = np.array([len(part) for part in places])
        entry = np.repeat(np.arange(len(which)), n_places[which])
        nth = offsets_of(n_places)[which][entry] + position_within(entry, len(which))
        own = {name: counted[name].take(pa.array(entry)) for name in (_ITEM, _BUCKET, _COUNT)}
        rows = merge_counts([pa.table({_PLACE: np.concatenate(places)[nth], **own})], _COUNT)
        columns = zip((_SLOT, _SLICE, _KIND, _BLOCK), zip(*self._places, strict=True), _PLACE_TYPES, strict=True)
        about = {name: pa.array(values, kind).take(rows[_PLACE].combine_chunks()) for name, values, kind in columns}
        return pa.table({**about, **{name: rows[name] for name in own}})

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
        kind += TRAINING_BIT * (recommended.training_users > 0)
    if recommended.is_in_items is not None:
        kind += ITEMS_BIT * recommended.is_in_items
    return kind


def _buckets_of(ids: pa.Array, n_buckets: int = N_BUCKETS) -> IntArray:
    """In which bucket each item meets: a number that depends on its id alone; int64."""
    encoded = ids.dictionary_encode("encode")
    distinct = encoded.dictionary
    hashes = np.empty(len(distinct), np.uint64)
    for first in range(0, len(distinct), _HASHED):
        hashes[first : first + _HASHED] = _hashes_of(distinct.slice(first, _HASHED))
    distinct_buckets = (mixed(hashes) % np.uint64(n_buckets)).astype(np.int64)
    buckets: IntArray = distinct_buckets[encoded.indices.to_numpy(zero_copy_only=False)]
    return buckets


def _hashes_of(ids: pa.Array) -> Array:
    if pa.types.is_integer(ids.type) or pa.types.is_floating(ids.type):
        read = numbers if pa.types.is_floating(ids.type) else whole_numbers
        return xxhash64(read(ids)).view(np.uint64)
    is_text = pa.types.is_large_binary(ids.type) or pa.types.is_binary(ids.type) or pa.types.is_string(ids.type)
    texts = pc.fill_null((ids if is_text else ids.cast(pa.string())).cast(pa.large_binary()), b"")
    lengths = pc.binary_length(texts).to_numpy(zero_copy_only=False)
    first = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset]
    letters = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[first : first + int(lengths.sum())].astype(np.uint64)
    text = np.repeat(np.arange(len(lengths)), lengths)
    hashes = np.zeros(len(lengths), np.uint64)
    spread = mixed(letters + mixed(position_within(text, len(lengths)).astype(np.uint64)))
    np.add.at(hashes, text, spread)
    return hashes


class ExposureMerger(Merger):
    """Counts of items in buckets, as histograms; with `has_blocks` also how these change without the users of each block."""

    def __init__(self, *, has_blocks: bool) -> None:
        self._has_blocks = has_blocks
        # Of whole buckets, and together as long as they are few.
        self._counts = TableSum(_COUNT)
        self._histograms: list[pa.Table] = []

    def add(self, _: int | None, payloads: Iterable[bytes]) -> Iterable[Message]:
        """Take in the counts of a bucket's items."""
        for payload in payloads:
            self._counts.add(table_of(payload))
        if self._counts.n_bytes > HELD:
            self._settle()
        return ()

    def _settle(self) -> None:
        """Make histograms of all counts so far."""
        counted = self._counts.take_total()
        if counted is not None:
            self._histograms = [merge_counts([*self._histograms, *self._histograms_of(counted)], N_ITEMS)]

    def _histograms_of(self, counted: pa.Table) -> Iterator[pa.Table]:
        keys = [_SLOT, _SLICE, _KIND, _ITEM]
        sums = [(_COUNT, "sum"), (_BLOCK, "list"), (_COUNT, "list")] if self._has_blocks else [(_COUNT, "sum")]
        items = counted.group_by(keys, use_threads=False).aggregate(sums)
        whole = items[f"{_COUNT}_sum"].combine_chunks()
        about = items.select(keys[:3])
        yield _histogram(about, whole.to_numpy(), np.full(len(whole), ALL_BLOCKS), np.ones(len(whole)))
        if self._has_blocks:
            block_columns = (items[f"{name}_list"].combine_chunks() for name in (_BLOCK, _COUNT))
            item, block, count, n_items = changed_counts(whole, *block_columns)
            yield _histogram(about.take(pa.array(item)), count, block, n_items)

    def rest(self) -> Iterator[Message]:
        """The histograms of all buckets."""
        self._settle()
        for histogram in self._histograms:
            yield message_of(HISTOGRAMS, histogram)


def _histogram(about: pa.Table, count: Array, block: Array, n_items: Array) -> pa.Table:
    columns = {_COUNT: count, _BLOCK: block, N_ITEMS: n_items}
    for name, values in columns.items():
        about = about.append_column(name, pa.array(values.astype(np.int64)))
    return merge_counts([about.cast(_HISTOGRAM)], N_ITEMS)


def changed_counts(
    counts: pa.Array, blocks: pa.ListArray, block_counts: pa.ListArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """How the counts of items change without each block.

    An item that is in c lists, m of them those of a block, moves from the items of count c to those of count c − m. So the histogram of
    all users and a few changes a block tell the histograms without each block.

    Args:
        counts: in how many lists each item is.
        blocks: the blocks that have any of these lists.
        block_counts: how many of these each block has.

    Returns:
        for each change the number of the item, the block, a count, and how many more items have that count: 1 or −1.
    """
    item = pc.list_parent_indices(blocks).to_numpy().astype(np.int64)
    block, block_count = (column.flatten().to_numpy().astype(np.int64) for column in (blocks, block_counts))
    whole = counts.to_numpy().astype(np.int64)[item]
    change = np.repeat([-1, 1], len(item))
    return np.tile(item, 2), np.tile(block, 2), np.concatenate([whole, whole - block_count]), change


class SlotExposure(NamedTuple):
    """The exposure of a slot in a slice."""

    whole: Exposure
    leave_one_out: list[Exposure]  # without the users of each block that has any, if blocks are counted


def exposures_of(messages: Iterable[Message], slots: list[Slot], totals: Totals) -> dict[str, dict[Slot, SlotExposure]]:
    """The histograms of all partitions put together: the exposure of each slot in each slice."""
    histograms = total_of((table_of(message.payload) for message in messages if message.kind == HISTOGRAMS), N_ITEMS)
    exposures: dict[str, dict[Slot, SlotExposure]] = {}
    if histograms is None:
        return exposures
    encoded = histograms[_SLICE].combine_chunks().dictionary_encode()
    columns = {name: histograms[name].to_numpy().astype(np.int64) for name in (_SLOT, _KIND, _COUNT, _BLOCK, N_ITEMS)}
    slice_, slot = encoded.indices.to_numpy(), columns[_SLOT]
    order = np.lexsort((slot, slice_))
    starts = np.flatnonzero(starts_of_runs(slice_[order], slot[order]))
    for rows in np.split(order, starts)[1:]:
        histogram = {name: values[rows] for name, values in columns.items()}
        is_whole = histogram[_BLOCK] == ALL_BLOCKS
        whole = {name: values[is_whole] for name, values in histogram.items()}
        leave_one_out = [
            _exposure(
                {name: values[is_whole | (histogram[_BLOCK] == block)] for name, values in histogram.items()}, totals
            )
            for block in np.unique(histogram[_BLOCK][~is_whole]).tolist()
        ]
        slice_exposures = exposures.setdefault(encoded.dictionary[slice_[rows[0]]].as_py(), {})
        slice_exposures[slots[slot[rows[0]]]] = SlotExposure(_exposure(whole, totals), leave_one_out)
    return exposures


def _exposure(histogram: dict[str, IntArray], totals: Totals) -> Exposure:
    """The exposure of items from a histogram and, of users who are left out, its changes."""
    order = np.lexsort((histogram[_COUNT], histogram[_KIND]))
    kind, count, n_items = (histogram[name][order] for name in (_KIND, _COUNT, N_ITEMS))
    first = np.flatnonzero(starts_of_runs(kind, count))
    n_items = np.add.reduceat(n_items, first) if len(first) else n_items
    kept = (n_items != 0) & (count[first] != 0)
    kind, count, n_items = kind[first][kept], count[first][kept], n_items[kept]
    is_user_count = kind == _USERS
    return Exposure(
        count=count[~is_user_count],
        n_items=n_items[~is_user_count],
        is_in_training=(kind[~is_user_count] & TRAINING_BIT) > 0,
        is_in_items=(kind[~is_user_count] & ITEMS_BIT) > 0,
        n_users=int((count * n_items)[is_user_count].sum()),
        totals=totals,
    )
