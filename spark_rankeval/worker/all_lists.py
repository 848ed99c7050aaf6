"""Figures of all lists together: counts of items and of groups of items, exposure, and their jackknife."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.errors import did_you_mean, listed, warn
from spark_rankeval.metrics.exposure_based import CorpusMetric, Exposure
from spark_rankeval.metrics.group_amounts import AllListsGroupMetric, Amounts, GroupAmounts, GroupExposure
from spark_rankeval.ranking.batch import RankingBatch, Recommended, Totals
from spark_rankeval.ranking.user_lists import (
    Array,
    BoolArray,
    FloatArray,
    IntArray,
    Ragged,
    offsets_of,
    position_within,
    starts_of_runs,
)
from spark_rankeval.records.slices import ALL_VALUES, Key
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.statistics.bootstrap import N_BLOCKS, WithoutBlock, blocks_of
from spark_rankeval.statistics.description import Description, DescriptionOptions, Figures, one_figure
from spark_rankeval.statistics.intervals import Interval
from spark_rankeval.statistics.resampling import mixed
from spark_rankeval.statistics.table_fingerprints import xxhash64
from spark_rankeval.wire import Merger, Mergers, Message, unpack
from spark_rankeval.worker import process
from spark_rankeval.worker.group_states import rows_by_key
from spark_rankeval.worker.item_facts import sizes_of
from spark_rankeval.worker.reading import NO_USER, Side, columns_of, flags, numbers, whole_numbers
from spark_rankeval.worker.states import drawn

# Waiting tables are merged when they take more bytes than this.
_MOST_WAITING_BYTES = 2 << 20


def merge_counts(tables: list[pa.Table], sum_column: str) -> pa.Table:
    """All tables as one. Rows that are equal in all other columns become one row with the sum of `sum_column`."""
    combined = pa.concat_tables(tables)
    keys = [name for name in combined.column_names if name != sum_column]
    grouped = combined.group_by(keys, use_threads=False).aggregate([(sum_column, "sum")])
    return pa.table(
        {name: grouped[f"{sum_column}_sum" if name == sum_column else name] for name in combined.column_names}
    )


def message_of(kind: str, table: pa.Table, bucket: int | None = None) -> Message:
    """A message with a table."""
    return Message.of(kind, process.stream_of(table).to_pybytes(), bucket)


def table_of(payload: bytes) -> pa.Table:
    """The table in a message's payload."""
    return pa.ipc.open_stream(unpack(payload)).read_all()


class TableSum:
    """A running sum of tables, which merges a few of them at a time; `n_bytes` is how much memory they take now."""

    def __init__(self, sum_column: str) -> None:
        self._sum_column = sum_column
        self._waiting: list[pa.Table] = []
        self._merged_bytes = 0
        self.n_bytes = 0

    def add(self, table: pa.Table) -> None:
        """Add a table."""
        self._waiting.append(table)
        self.n_bytes += table.nbytes
        # A large sum waits for as many bytes of new tables. Else each small table would cost a merge of all counts.
        if self.n_bytes > max(_MOST_WAITING_BYTES, 2 * self._merged_bytes):
            self._waiting = [merge_counts(self._waiting, self._sum_column)]
            self.n_bytes = self._merged_bytes = self._waiting[0].nbytes

    def take_total(self) -> pa.Table | None:
        """The sum of all tables so far, or None without any. The next sum starts from nothing."""
        waiting, self._waiting, self._merged_bytes, self.n_bytes = self._waiting, [], 0, 0
        return merge_counts(waiting, self._sum_column) if waiting else None


def total_of(tables: Iterable[pa.Table], sum_column: str) -> pa.Table | None:
    """The sum of all tables, or None without any."""
    total = TableSum(sum_column)
    for table in tables:
        total.add(table)
    return total.take_total()


class CountsMerger(Merger):
    """Merges the tables of each bucket into one message with their sum."""

    def __init__(self, kind: str, sum_column: str) -> None:
        self._kind, self._sum_column = kind, sum_column

    def add(self, bucket: int | None, payloads: Iterable[bytes]) -> Iterator[Message]:
        """Add the tables of a bucket; give the message with their sum."""
        total = total_of(map(table_of, payloads), self._sum_column)
        if total is not None:
            yield message_of(self._kind, total, bucket)


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


Name = str | None

#: The kind of messages, and the column whose numbers add up.
GROUP_EXPOSURE, COUNT = "exposure of groups", "count"
# The other columns: the slot, the slice, the block of users, what the count is, and the group of items.
_GROUP = "group"
# What is counted: a group's exposure, what it is due, or users.
_ATTENTION, _DUE, _LISTS = _KINDS = range(3)
# So many counts are held before they are sent on.
_HELD = 1 << 17
# How the text of a group with a name begins; that of items without a group, and of users, is empty.
_NAMED = "="


class GroupSlot(NamedTuple):
    """What groups get in all lists, counted once for all metrics that count the same."""

    view: int  # the index of the view
    metrics: tuple[AllListsGroupMetric, ...]

    @property
    def unit(self) -> float:
        """The amount that others are whole multiples of."""
        return self.metrics[0].unit


def group_slots_of(task: ScoringTask) -> list[GroupSlot]:
    """What the metrics of groups in all lists together count."""
    slots: dict[tuple[int, Hashable], list[AllListsGroupMetric]] = {}
    for view, task_view in enumerate(task.views):
        for metric in task_view.metrics:
            if isinstance(metric, AllListsGroupMetric):
                slots.setdefault((view, metric.counted_as), []).append(metric)
    return [GroupSlot(view, tuple(metrics)) for (view, _), metrics in slots.items()]


def _text(name: Name) -> str:
    return "" if name is None else _NAMED + name


def _name(text: str) -> Name:
    return text.removeprefix(_NAMED) if text else None


class GroupAccumulator:
    """What groups of items get in lists that come batch by batch."""

    def __init__(self, task: ScoringTask, slice_texts: Callable[[Key], list[str]]) -> None:
        self._slots, self._slice_texts = group_slots_of(task), slice_texts
        # Groups of users, and texts of groups of items, with their numbers.
        self._keys: dict[Key, int] = {}
        self._texts: dict[str, int] = {_text(None): 0}
        self._codes: dict[tuple[Name, ...], IntArray] = {}
        self._held: list[pa.Table] = []

    def add(
        self,
        groups: Iterable[tuple[Key, Array | slice]],
        counted: BoolArray,
        exposed: Mapping[int, Exposed],
        blocks: IntArray | None = None,
    ) -> Iterator[Message]:
        """Take in the lists of a batch of users, as far as they count; gives messages if counts no longer fit into memory."""
        group = np.full(len(counted), -1, np.int64)
        for key, users in groups:
            group[users] = self._keys.setdefault(key, len(self._keys))
        present = np.unique(group[group >= 0])
        block = np.zeros(len(counted), np.int64) if blocks is None else blocks
        for number, slot in enumerate(self._slots):
            metric, lists = slot.metrics[0], exposed[slot.view]
            amounts = metric.amounts(lists.batch)
            cell = np.where(counted & lists.included & amounts.counted & (group >= 0), group * N_BLOCKS + block, -1)
            names = metric.names_of(lists.batch)
            texts = self._codes_of(names)
            for kind, cells, codes, units in _counts(amounts, cell, len(names), metric.unit):
                self._hold(number, kind, cells, texts[codes] if kind != _LISTS else np.zeros_like(codes), units)
            # A slice without a user that counts still has a row, and so has a group that gets nothing.
            chosen = sorted({name for each in slot.metrics if (name := each.chosen_group) is not None} & {*names})
            for kind, text in ((_LISTS, None), *((_ATTENTION, name) for name in chosen)):
                code = np.full_like(present, self._texts[_text(text)])
                self._hold(number, kind, present * N_BLOCKS, code, np.zeros_like(present))
        if sum(map(len, self._held)) > _HELD:
            self._held = [merge_counts(self._held, COUNT)]
            if len(self._held[0]) > _HELD:
                yield from self.messages()

    def _codes_of(self, names: tuple[Name, ...]) -> IntArray:
        """The numbers of the texts of some names."""
        if names not in self._codes:
            numbers = [self._texts.setdefault(_text(name), len(self._texts)) for name in names]
            self._codes[names] = np.array(numbers, np.int64)
        return self._codes[names]

    def _hold(self, slot: int, kind: int, cells: IntArray, texts: IntArray, units: IntArray) -> None:
        user_group, block = np.divmod(cells, N_BLOCKS)
        columns = {
            _SLOT: np.full(len(cells), slot),
            _SLICE: user_group,
            _BLOCK: block,
            _KIND: np.full(len(cells), kind),
        }
        self._held.append(pa.table({**columns, _GROUP: texts, COUNT: units}))

    def messages(self) -> Iterator[Message]:
        """What is held."""
        held, self._held = self._held, []
        if not held:
            return
        counted = merge_counts(held, COUNT)
        slices: dict[str, int] = {}
        key_slices = [[slices.setdefault(text, len(slices)) for text in self._slice_texts(key)] for key in self._keys]
        spread = Ragged.from_lists(key_slices, np.int64).take(counted[_SLICE].to_numpy())
        rows = counted.drop_columns(_SLICE).take(pa.array(spread.user))
        cells = merge_counts([rows.append_column(_SLICE, pa.array(spread.values))], COUNT)
        for name, texts in ((_SLICE, slices), (_GROUP, self._texts)):
            values = pa.array(list(texts), pa.string()).take(cells[name].combine_chunks())
            cells = cells.set_column(cells.schema.get_field_index(name), name, values)
        yield message_of(GROUP_EXPOSURE, cells)


def _counts(
    amounts: GroupAmounts, cell: IntArray, n_groups: int, unit: float
) -> Iterator[tuple[int, IntArray, IntArray, IntArray]]:
    """By kind: the cells of users, codes of groups, and how many units these have."""
    yield _ATTENTION, *_amount_sums(amounts.exposure, cell, n_groups, unit)
    if amounts.due is not None:
        yield _DUE, *_amount_sums(amounts.due, cell, n_groups, unit)
    if amounts.shares is not None:
        # Few users differ in their whole attention: what it gives to each group is computed once, and exact sums do not mind.
        totals = amounts.exposure.totals(len(cell))
        there = cell >= 0
        pairs, n_users = np.unique(
            np.stack([cell[there].astype(np.float64), totals[there]]), axis=1, return_counts=True
        )
        due = np.flatnonzero(amounts.shares)
        units = _units(pairs[1][:, None] * amounts.shares[due], unit) * n_users[:, None]
        cells = np.repeat(pairs[0].astype(np.int64), len(due))
        yield _DUE, *_unit_sums(cells, np.tile(due, pairs.shape[1]), units.ravel(), n_groups)
    users = cell[cell >= 0]
    yield _LISTS, *_unit_sums(users, np.zeros_like(users), np.ones_like(users), n_groups)


def _amount_sums(amounts: Amounts, cell: IntArray, n_groups: int, unit: float) -> tuple[IntArray, IntArray, IntArray]:
    user_cells = cell[amounts.user]
    there = user_cells >= 0
    return _unit_sums(user_cells[there], amounts.group[there], _units(amounts.amount[there], unit), n_groups)


def _units(amounts: FloatArray, unit: float) -> IntArray:
    return np.rint(amounts / unit).astype(np.int64)


def _unit_sums(cell: IntArray, group: IntArray, units: IntArray, n_groups: int) -> tuple[IntArray, IntArray, IntArray]:
    indices, index = np.unique(cell * n_groups + group, return_inverse=True)
    sums = np.zeros(len(indices), np.int64)
    np.add.at(sums, index, units)
    return indices // n_groups, indices % n_groups, sums


class SlotGroups(NamedTuple):
    """What groups of items get in a slice."""

    whole: GroupExposure
    leave_one_out: list[GroupExposure]  # without the users of each block that has any, if blocks are counted
    names: frozenset[Name]  # the groups that anything is known of


def group_exposures_of(
    messages: Iterable[Message], slots: list[GroupSlot], *, has_blocks: bool
) -> dict[str, dict[GroupSlot, SlotGroups]]:
    """What groups get of each slot in each slice, from the messages of all partitions; with `has_blocks` without each block, too."""
    counted = total_of((table_of(message.payload) for message in messages if message.kind == GROUP_EXPOSURE), COUNT)
    parts: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in counted.to_pylist() if counted is not None else ():
        parts.setdefault((row[_SLICE], row[_SLOT]), []).append(row)
    exposures: dict[str, dict[GroupSlot, SlotGroups]] = {}
    for (slice_, slot), rows in parts.items():
        exposures.setdefault(slice_, {})[slots[slot]] = _put_together(rows, slots[slot].unit, has_blocks=has_blocks)
    return exposures


def _put_together(rows: list[dict[str, Any]], unit: float, *, has_blocks: bool) -> SlotGroups:
    """What groups get, from its counts by block, kind and group."""
    texts, blocks = (sorted({row[name] for row in rows}) for name in (_GROUP, _BLOCK))
    counted = np.zeros((len(blocks), len(_KINDS), len(texts)), np.int64)
    block_index, group_index = ({value: number for number, value in enumerate(values)} for values in (blocks, texts))
    for row in rows:
        counted[block_index[row[_BLOCK]], row[_KIND], group_index[row[_GROUP]]] += row[COUNT]
    names = [_name(text) for text in texts]
    total = counted.sum(axis=0)
    leave_one_out = (
        [_group_exposure(total - block_counts, names, unit) for block_counts in counted] if has_blocks else []
    )
    named_texts = {row[_GROUP] for row in rows if row[_KIND] != _LISTS}
    return SlotGroups(_group_exposure(total, names, unit), leave_one_out, frozenset(map(_name, named_texts)))


def _group_exposure(units: IntArray, names: list[Name], unit: float) -> GroupExposure:
    exposure, due = (
        {names[group]: int(counts[group]) * unit for group in np.flatnonzero(counts).tolist()} for counts in units[:2]
    )
    return GroupExposure(exposure, due, int(units[2].sum()))


# The exposure of items, or of groups of items.
AnyExposure = TypeVar("AnyExposure", Exposure, GroupExposure)

# A warning names so many groups, and counts the others.
_MOST_LISTED = 8


def with_corpus_values(figures: Mapping[Key, Figures], gathered: process.Gathered) -> dict[Key, Figures]:
    """The figures of each slice, with the values of all lists together from messages of exposure."""
    task, messages, totals, options = gathered
    exposures = exposures_of(messages, slots_of(task), sizes_of(totals))
    group_slots = group_slots_of(task)
    group_exposures = group_exposures_of(messages, group_slots, has_blocks=options.resamples)
    metric_slots = {(slot.view, metric): slot for slot in group_slots for metric in slot.metrics}
    metrics = [(view, metric) for view, task_view in enumerate(task.views) for metric in task_view.metrics]
    _warn_of_unknown_groups(group_exposures.values())
    together = {}
    for key, group in figures.items():
        items, groups = exposures.get(slice_as_text(key), {}), group_exposures.get(slice_as_text(key), {})
        values = list(group.values)
        for number, (view, metric) in enumerate(metrics):
            if isinstance(metric, CorpusMetric):
                exposure = items.get(Slot(view, metric.k))
                parts = () if exposure is None else (exposure.whole, *exposure.leave_one_out)
                values[number] = _described(metric.value, parts, options, metric.bounds)
            elif isinstance(metric, AllListsGroupMetric):
                slot_groups = groups.get(metric_slots[view, metric])
                those = () if slot_groups is None else (slot_groups.whole, *slot_groups.leave_one_out)
                described = _described(metric.value, those, options, metric.bounds)
                interval, reason = described.interval, metric.without_interval(those[0]) if those else ""
                if interval and reason:
                    described = described._replace(interval=Interval.missing(interval.level, interval.method, reason))
                values[number] = described
        together[key] = group._replace(values=values)
    return together


def _warn_of_unknown_groups(slices: Iterable[Mapping[GroupSlot, SlotGroups]]) -> None:
    """Warn if a metric is about a group that no item has: 0 or NaN says that of a group that gets nothing, too."""
    seen_names: dict[str, set[str]] = {}
    for slots in slices:
        for slot, exposure in slots.items():
            names = {name for name in exposure.names if name is not None}
            for chosen in {name for metric in slot.metrics if (name := metric.chosen_group) is not None}:
                seen_names.setdefault(chosen, set()).update(names)
    unknown = {name: sorted(others) for name, others in seen_names.items() if name not in others}
    for name, others in unknown.items():
        near = did_you_mean(name, others)
        warn(
            f"no item has the group {name!r}; {near}groups in lists or labels: {listed(others, _MOST_LISTED) or 'none'}"
        )


def _described(
    value: Callable[[AnyExposure], float],
    parts: Sequence[AnyExposure],
    options: DescriptionOptions,
    bounds: tuple[float, float],
) -> Description:
    """A metric of all users, the first of the parts, and its interval from what it is without each block of them."""
    if not parts:
        return one_figure(math.nan, 0, options)
    n_users = parts[0].n_users
    leave_one_out = [WithoutBlock(value(part), n_users - part.n_users) for part in parts[1:] if part.n_users < n_users]
    return one_figure(value(parts[0]), n_users, options, leave_one_out, bounds)


@dataclass(frozen=True)
class AllLists(process.ScoringFeature):
    """Metrics of all lists together."""

    def read(self, task: ScoringTask, columns: dict[str, pa.Array], labels: Side) -> process.BatchFeature:
        """The lists of a batch that metrics of all lists look at."""
        return ExposureOfBatch({slot.view for slot in slots_of(task)} | {slot.view for slot in group_slots_of(task)})

    def new_accumulator(self, task: ScoringTask, context: process.StateContext) -> process.FeatureAccumulator:
        """What the metrics of a task count."""
        return _ExposureAccumulator(task, context)

    def mergers(self, options: DescriptionOptions) -> Mergers:
        """Counts of items become histograms, and those of groups are added up."""
        return {
            EXPOSURE: lambda: ExposureMerger(has_blocks=options.resamples),
            HISTOGRAMS: lambda: CountsMerger(HISTOGRAMS, N_ITEMS),
            GROUP_EXPOSURE: lambda: CountsMerger(GROUP_EXPOSURE, COUNT),
        }

    def figures(self, figures: Mapping[Key, Figures], gathered: process.Gathered) -> Mapping[Key, Figures]:
        """The figures with the values of all lists together."""
        return with_corpus_values(figures, gathered)


class ExposureOfBatch(process.BatchFeature):
    """The lists of those views of a batch that have metrics of all lists together."""

    def __init__(self, views: set[int]) -> None:
        self._views = views
        self.exposed: dict[int, Exposed] = {}  # by the view's index

    def add(self, ranked: process.RankedView) -> RankingBatch:
        """Keep the lists of a view."""
        if ranked.view_index in self._views:
            self.exposed[ranked.view_index] = Exposed(ranked.batch, ranked.predictions.ids, ranked.included)
        return ranked.batch


class _ExposureAccumulator:
    def __init__(self, task: ScoringTask, context: process.StateContext) -> None:
        self._context = context
        slice_texts = lambda key: list(map(slice_as_text, context.rollup(key)))  # noqa: E731
        self._counted: list[ExposureAccumulator | GroupAccumulator] = []
        if slots := slots_of(task):
            self._counted.append(ExposureAccumulator(slots, slice_texts))
        if group_slots_of(task):
            self._counted.append(GroupAccumulator(task, slice_texts))

    def add(self, users: process.ScoredUsers, scores: process.BatchFeature) -> Iterator[Message]:
        assert isinstance(scores, ExposureOfBatch)
        batch, options = users.batch, self._context.options
        groups = list(rows_by_key([batch.column(name) for name in self._context.keys], batch.num_rows))
        blocks = blocks_of(drawn(columns_of(batch), options), options.seed) if options.resamples else None
        for counted in self._counted:
            yield from counted.add(groups, ~flags(batch.column(NO_USER)), scores.exposed, blocks)

    def messages(self) -> Iterator[Message]:
        for counted in self._counted:
            yield from counted.messages()
