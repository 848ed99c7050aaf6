"""Figures of all lists together: counts of items and of groups of items, exposure, sums of pairs, and their jackknife."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.errors import DataError, did_you_mean, listed, warn
from spark_rankeval.metrics import item_groups as group_metrics
from spark_rankeval.metrics.base import Metric
from spark_rankeval.metrics.relevance import ProbabilityMetric, ScoredPairs
from spark_rankeval.ranking.batch import RankingBatch, Recommended, Totals
from spark_rankeval.ranking.user_lists import Array, BoolArray, FloatArray, IntArray, Ragged, starts_of_runs
from spark_rankeval.records.summary import ALL_VALUES, Key
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.statistics import description, exact
from spark_rankeval.statistics.description import Description, DescriptionOptions, Figures
from spark_rankeval.statistics.intervals import Interval
from spark_rankeval.statistics.resampling import mixed, xxhash64
from spark_rankeval.worker import process
from spark_rankeval.worker.features import sizes_of
from spark_rankeval.worker.process import Mergers, Message, unpack
from spark_rankeval.worker.reading import NO_USER, Side, columns_of, flags, numbers, rows_by_key, whole_numbers
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


def table_of(stream: bytes) -> pa.Table:
    """The table in the state of a message."""
    return pa.ipc.open_stream(stream).read_all()


class TableSum:
    """A running sum of tables, which merges a few of them at a time, at the least `most_bytes`.

    `n_bytes` is how much memory they take now, and `merged_bytes` how much the sum takes that they were merged into last.
    """

    def __init__(self, sum_column: str, most_bytes: int = _MOST_WAITING_BYTES) -> None:
        self._sum_column, self._most_bytes = sum_column, most_bytes
        self._waiting: list[pa.Table] = []
        self.n_bytes = self.merged_bytes = 0

    def add(self, table: pa.Table) -> None:
        """Add a table."""
        self._waiting.append(table)
        self.n_bytes += table.nbytes
        # A large sum waits for as many bytes of new tables. Else each small table would cost a merge of all counts.
        if self.n_bytes > max(self._most_bytes, 2 * self.merged_bytes):
            self._waiting = [merge_counts(self._waiting, self._sum_column)]
            self.n_bytes = self.merged_bytes = self._waiting[0].nbytes

    def take_total(self) -> pa.Table | None:
        """The sum of all tables so far, or None without any. The next sum starts from nothing."""
        waiting, self._waiting, self.merged_bytes, self.n_bytes = self._waiting, [], 0, 0
        return merge_counts(waiting, self._sum_column) if waiting else None


def total_of(tables: Iterable[pa.Table], sum_column: str) -> pa.Table | None:
    """The sum of all tables, or None without any."""
    total = TableSum(sum_column)
    for table in tables:
        total.add(table)
    return total.take_total()


#: The kinds of messages: counts of items, in buckets of items; histograms of these; counts of groups of items; and sums of pairs.
EXPOSURE, HISTOGRAMS, GROUP_EXPOSURE = "exposure", "histograms of exposure", "exposure of groups"
PAIR_SUMS = "sums of pairs"
#: Items meet in so many buckets, and in so many times more if blocks of users are counted apart. The counts of a bucket are held in
#: memory: of 100 million items those of some 1.6 million, in every slot and slice.
N_BUCKETS, _BLOCKS_TOGETHER = 1 << 6, 1 << 2
# The columns of counts: the slot, the slice, the item or the group of items, its kind, the block of users, and the number.
_SLOT, _SLICE, _ITEM, _KIND, _BLOCK, COUNT = "slot", "slice", "item", "kind", "block", "count"
# In which bucket a row goes, until it is sent.
_BUCKET = "bucket"
#: How many items have a count, in a histogram.
N_ITEMS = "n_items"
# What an item is: bits of a number; and the kind of a row, without an item, that counts users with a list.
TRAINING_BIT, ITEMS_BIT, _USERS = 1, 2, -1
_HISTOGRAM = pa.schema(
    [
        (_SLOT, pa.int32()),
        (_SLICE, pa.string()),
        (_KIND, pa.int8()),
        (COUNT, pa.int64()),
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
        if isinstance(metric, group_metrics.CorpusMetric)
    )
    return list(dict.fromkeys(wanted))


class _HeldCounts:
    """Counts of groups of users that a worker holds; if they take too much memory, it sends them on as counts of slices."""

    def __init__(self, slice_texts: Callable[[Key], list[str]]) -> None:
        self._slice_texts = slice_texts
        # The number of each group, and by its number the slices that have it.
        self._numbers: dict[Key, int] = {}
        self._slices: list[list[str]] = []
        self._held = TableSum(COUNT, HELD)
        self._has_blocks = False

    def add(
        self,
        groups: Iterable[tuple[Key, Array | slice]],
        counted: BoolArray,
        exposed: Mapping[int, process.RankedView],
        blocks: IntArray | None = None,
    ) -> Iterator[Message]:
        """Take in the lists of a batch of users, as far as they count; gives messages if counts no longer fit into memory.

        Each of the users' `blocks` has counts of its own; without any all are those of block 0.
        """
        numbers = np.empty(len(counted), np.int64)
        for key, users in groups:
            if key not in self._numbers:
                self._numbers[key] = len(self._numbers)
                self._slices.append(self._slice_texts(key))
            numbers[users] = self._numbers[key]
        self._has_blocks = blocks is not None
        yield from self._counted(numbers, np.zeros_like(numbers) if blocks is None else blocks, counted, exposed)

    def _counted(
        self, group: IntArray, block: IntArray, counted: BoolArray, exposed: Mapping[int, process.RankedView]
    ) -> Iterator[Message]:
        raise NotImplementedError

    def _hold(
        self, slot: int, group: IntArray, ids: pa.Array, kind: IntArray | int, block: IntArray, count: Array
    ) -> Iterator[Message]:
        """Hold counts, by the number of the group of users and the ids of what is counted."""
        columns = {
            _SLOT: np.broadcast_to(slot, len(count)).astype(np.int32),
            _SLICE: group.astype(np.int32),
            _KIND: np.broadcast_to(kind, len(count)).astype(np.int8),
            _BLOCK: block.astype(np.int8),
            _ITEM: ids,
            COUNT: count.astype(np.int64),
        }
        self._held.add(pa.table(columns))
        # More than half would leave little room, and would be added up again and again.
        if self._held.merged_bytes > HELD // 2:
            yield from self.messages()

    def messages(self) -> Iterator[Message]:
        """What is held. Afterwards it holds nothing."""
        total = self._held.take_total()
        if total is not None:
            yield from self._sent(total)

    def _sent(self, counted: pa.Table) -> Iterator[Message]:
        raise NotImplementedError

    def _by_slice(self, counted: pa.Table) -> pa.Table:
        """Counts of groups of users as counts of the slices that have them."""
        codes: dict[str, int] = {}
        group_codes = [[codes.setdefault(text, len(codes)) for text in texts] for texts in self._slices]
        spread = Ragged.from_lists(group_codes, np.int64).take(counted[_SLICE].to_numpy())
        texts = pa.array(list(codes), pa.string()).take(pa.array(spread.values))
        rows = counted.take(pa.array(spread.user))
        return merge_counts([rows.set_column(rows.schema.get_field_index(_SLICE), _SLICE, texts)], COUNT)


class ExposureAccumulator(_HeldCounts):
    """The exposure of items in lists that come batch by batch."""

    def __init__(self, slots: Sequence[Slot], slice_texts: Callable[[Key], list[str]]) -> None:
        super().__init__(slice_texts)
        self._slots = slots

    def _counted(
        self, group: IntArray, block: IntArray, counted: BoolArray, exposed: Mapping[int, process.RankedView]
    ) -> Iterator[Message]:
        for number, slot in enumerate(self._slots):
            lists = exposed[slot.view]
            recommended = lists.batch.recommended
            assert recommended is not None, "a metric of all lists reads items"
            is_counted = counted & lists.included
            # A user without a list counts 0, so that each slice has a row.
            has_list = is_counted & (recommended.n_within(slot.k) > 0)
            no_ids = pa.nulls(len(group), lists.predictions.ids.type)
            yield from self._hold(number, group, no_ids, _USERS, block, has_list)
            kind = _kinds(recommended)
            entries = np.flatnonzero(is_counted[recommended.user] & recommended.within(slot.k))
            for first in range(0, len(entries), _COUNTED):
                some = entries[first : first + _COUNTED]
                user, ids = recommended.user[some], lists.predictions.ids.take(pa.array(recommended.entry[some]))
                yield from self._hold(number, group[user], ids, kind[some], block[user], np.ones_like(user))

    def _sent(self, counted: pa.Table) -> Iterator[Message]:
        """Counts as messages, for each bucket of items."""
        n_buckets = N_BUCKETS * (_BLOCKS_TOGETHER if self._has_blocks else 1)
        bucket = _buckets_of(counted[_ITEM].combine_chunks(), n_buckets)
        order = np.argsort(bucket, kind="stable")
        ordered = counted.append_column(_BUCKET, pa.array(bucket)).take(pa.array(order)).combine_chunks()
        step = max(1, _SENT // max(map(len, self._slices)))
        for first in range(0, len(ordered), step):
            rows = self._by_slice(ordered.slice(first, step)).sort_by(_BUCKET)
            bucket = rows[_BUCKET].to_numpy()
            rows = rows.drop_columns(_BUCKET).combine_chunks()
            starts = np.flatnonzero(starts_of_runs(bucket)).tolist()
            for start, stop in pairwise([*starts, len(bucket)]):
                yield message_of(EXPOSURE, rows.slice(start, stop - start), int(bucket[start]))


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
    distinct_buckets = (mixed(_hashes_of(encoded.dictionary)) % np.uint64(n_buckets)).astype(np.int64)
    buckets: IntArray = distinct_buckets[encoded.indices.to_numpy(zero_copy_only=False)]
    return buckets


def _hashes_of(ids: pa.Array) -> Array:
    if pa.types.is_integer(ids.type) or pa.types.is_floating(ids.type):
        read = numbers if pa.types.is_floating(ids.type) else whole_numbers
        return xxhash64(read(ids)).view(np.uint64)
    is_binary = pa.types.is_large_binary(ids.type) or pa.types.is_binary(ids.type)
    texts = pc.fill_null((ids if is_binary else ids.cast(pa.string())).cast(pa.large_binary()), b"")
    hashes: Array = pd.util.hash_array(texts.to_numpy(zero_copy_only=False), categorize=False)
    return hashes


def merging_exposure(*, has_blocks: bool) -> process.Merger:
    """What makes histograms of the counts of items; with `has_blocks` also how these change without the users of each block."""

    def merger(buckets: Iterator[tuple[int | None, Iterator[bytes]]]) -> Iterator[Message]:
        # Of whole buckets, and together as long as they are few.
        counts, histograms = TableSum(COUNT), TableSum(N_ITEMS)

        def settle() -> None:
            counted = counts.take_total()
            for histogram in () if counted is None else _histograms_of(counted, has_blocks):
                histograms.add(histogram)

        for _, payloads in buckets:
            for payload in payloads:
                counts.add(table_of(unpack(payload)))
            if counts.n_bytes > HELD:
                settle()
        settle()
        total = histograms.take_total()
        if total is not None:
            yield message_of(HISTOGRAMS, total)

    return merger


def _histograms_of(counted: pa.Table, has_blocks: bool) -> Iterator[pa.Table]:
    keys = [_SLOT, _SLICE, _KIND, _ITEM]
    sums = [(COUNT, "sum"), (_BLOCK, "list"), (COUNT, "list")] if has_blocks else [(COUNT, "sum")]
    items = counted.group_by(keys, use_threads=False).aggregate(sums)
    whole = items[f"{COUNT}_sum"].combine_chunks()
    about = items.select(keys[:3])
    yield _histogram(about, whole.to_numpy(), np.full(len(whole), ALL_BLOCKS), np.ones(len(whole)))
    if has_blocks:
        block_columns = (items[f"{name}_list"].combine_chunks() for name in (_BLOCK, COUNT))
        item, block, count, n_items = changed_counts(whole, *block_columns)
        yield _histogram(about.take(pa.array(item)), count, block, n_items)


def _histogram(about: pa.Table, count: Array, block: Array, n_items: Array) -> pa.Table:
    columns = {COUNT: count, _BLOCK: block, N_ITEMS: n_items}
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
    # Users without a list change nothing.
    changes = block_count > 0
    item, block, block_count, whole = item[changes], block[changes], block_count[changes], whole[changes]
    change = np.repeat([-1, 1], len(item))
    return np.tile(item, 2), np.tile(block, 2), np.concatenate([whole, whole - block_count]), change


class SlotExposure(NamedTuple):
    """The exposure of a slot in a slice."""

    whole: group_metrics.Exposure
    leave_one_out: list[group_metrics.Exposure]  # without the users of each block that has any, if blocks are counted


def exposures_of(messages: Iterable[Message], slots: list[Slot], totals: Totals) -> dict[str, dict[Slot, SlotExposure]]:
    """The histograms of all partitions put together: the exposure of each slot in each slice."""
    histograms = total_of((table_of(message.state) for message in messages if message.kind == HISTOGRAMS), N_ITEMS)
    exposures: dict[str, dict[Slot, SlotExposure]] = {}
    if histograms is None:
        return exposures
    encoded = histograms[_SLICE].combine_chunks().dictionary_encode()
    columns = {name: histograms[name].to_numpy().astype(np.int64) for name in (_SLOT, _KIND, COUNT, _BLOCK, N_ITEMS)}
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


def _exposure(histogram: dict[str, IntArray], totals: Totals) -> group_metrics.Exposure:
    """The exposure of items from a histogram and, of users who are left out, its changes."""
    order = np.lexsort((histogram[COUNT], histogram[_KIND]))
    kind, count, n_items = (histogram[name][order] for name in (_KIND, COUNT, N_ITEMS))
    first = np.flatnonzero(starts_of_runs(kind, count))
    n_items = np.add.reduceat(n_items, first) if len(first) else n_items
    kept = (n_items != 0) & (count[first] != 0)
    kind, count, n_items = kind[first][kept], count[first][kept], n_items[kept]
    is_user_count = kind == _USERS
    return group_metrics.Exposure(
        count=count[~is_user_count],
        n_items=n_items[~is_user_count],
        is_in_training=(kind[~is_user_count] & TRAINING_BIT) > 0,
        is_in_items=(kind[~is_user_count] & ITEMS_BIT) > 0,
        n_users=int((count * n_items)[is_user_count].sum()),
        totals=totals,
    )


Name = str | None

# What is counted: a group's exposure, what it is due, or users.
_ATTENTION, _DUE, _LISTS = _KINDS = range(3)


class GroupSlot(NamedTuple):
    """What groups get in all lists, counted once for all metrics that count the same."""

    view: int  # the index of the view
    metrics: tuple[group_metrics.AllListsGroupMetric, ...]

    @property
    def unit(self) -> float:
        """The amount that others are whole multiples of."""
        return self.metrics[0].unit


def group_slots_of(task: ScoringTask) -> list[GroupSlot]:
    """What the metrics of groups in all lists together count."""
    slots: dict[tuple[int, Hashable], list[group_metrics.AllListsGroupMetric]] = {}
    for view, task_view in enumerate(task.views):
        for metric in task_view.metrics:
            if isinstance(metric, group_metrics.AllListsGroupMetric):
                slots.setdefault((view, metric.counted_as), []).append(metric)
    return [GroupSlot(view, tuple(metrics)) for (view, _), metrics in slots.items()]


class GroupAccumulator(_HeldCounts):
    """What groups of items get in lists that come batch by batch."""

    def __init__(self, task: ScoringTask, slice_texts: Callable[[Key], list[str]]) -> None:
        super().__init__(slice_texts)
        self._slots = group_slots_of(task)

    def _counted(
        self, group: IntArray, block: IntArray, counted: BoolArray, exposed: Mapping[int, process.RankedView]
    ) -> Iterator[Message]:
        present = np.unique(group)
        for number, slot in enumerate(self._slots):
            metric, lists = slot.metrics[0], exposed[slot.view]
            amounts = metric.amounts(lists.batch)
            cell = np.where(counted & lists.included & amounts.counted, group * description.N_BLOCKS + block, -1)
            names = metric.names_of(lists.batch)
            for kind, cells, codes, units in _counts(amounts, cell, len(names), metric.unit):
                users, user_blocks = np.divmod(cells, description.N_BLOCKS)
                of = pa.array([None] if kind == _LISTS else names, pa.string()).take(pa.array(codes))
                yield from self._hold(number, users, of, kind, user_blocks, units)
            # A slice without a user that counts still has a row, and so has a group that gets nothing.
            chosen = sorted({name for each in slot.metrics if (name := each.chosen_group) is not None} & {*names})
            nothing = np.zeros_like(present)
            for kind, name in ((_LISTS, None), *((_ATTENTION, name) for name in chosen)):
                of = pa.array([name] * len(present), pa.string())
                yield from self._hold(number, present, of, kind, nothing, nothing)

    def _sent(self, counted: pa.Table) -> Iterator[Message]:
        yield message_of(GROUP_EXPOSURE, self._by_slice(counted))


def _counts(
    amounts: group_metrics.GroupAmounts, cell: IntArray, n_groups: int, unit: float
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


def _amount_sums(
    amounts: group_metrics.Amounts, cell: IntArray, n_groups: int, unit: float
) -> tuple[IntArray, IntArray, IntArray]:
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


def _stream_of_total(streams: Iterable[bytes]) -> bytes:
    """The sum of tables of counts, each as in the state of a message."""
    total: bytes = process.stream_of(total_of(map(table_of, streams), COUNT)).to_pybytes()
    return total


class SlotGroups(NamedTuple):
    """What groups of items get in a slice."""

    whole: group_metrics.GroupExposure
    leave_one_out: list[
        group_metrics.GroupExposure
    ]  # without the users of each block that has any, if blocks are counted
    names: frozenset[Name]  # the groups that anything is known of


def group_exposures_of(
    messages: Iterable[Message], slots: list[GroupSlot], *, has_blocks: bool
) -> dict[str, dict[GroupSlot, SlotGroups]]:
    """What groups get of each slot in each slice, from the messages of all partitions; with `has_blocks` without each block, too."""
    counted = total_of((table_of(message.state) for message in messages if message.kind == GROUP_EXPOSURE), COUNT)
    parts: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in counted.to_pylist() if counted is not None else ():
        parts.setdefault((row[_SLICE], row[_SLOT]), []).append(row)
    exposures: dict[str, dict[GroupSlot, SlotGroups]] = {}
    for (slice_, slot), rows in parts.items():
        exposures.setdefault(slice_, {})[slots[slot]] = _put_together(rows, slots[slot].unit, has_blocks=has_blocks)
    return exposures


def _put_together(rows: list[dict[str, Any]], unit: float, *, has_blocks: bool) -> SlotGroups:
    """What groups get, from its counts by block, kind and group."""
    blocks = sorted({row[_BLOCK] for row in rows})
    names = sorted({row[_ITEM] for row in rows}, key=lambda name: (name is not None, name))
    block_index, name_index = ({value: number for number, value in enumerate(values)} for values in (blocks, names))
    counted = np.zeros((len(blocks), len(_KINDS), len(names)), np.int64)
    for row in rows:
        counted[block_index[row[_BLOCK]], row[_KIND], name_index[row[_ITEM]]] += row[COUNT]
    total = counted.sum(axis=0)
    leave_one_out = (
        [_group_exposure(total - block_counts, names, unit) for block_counts in counted] if has_blocks else []
    )
    known = frozenset(row[_ITEM] for row in rows if row[_KIND] != _LISTS)
    return SlotGroups(_group_exposure(total, names, unit), leave_one_out, known)


def _group_exposure(units: IntArray, names: list[Name], unit: float) -> group_metrics.GroupExposure:
    exposure, due = (
        {names[group]: int(counts[group]) * unit for group in np.flatnonzero(counts).tolist()} for counts in units[:2]
    )
    return group_metrics.GroupExposure(exposure, due, int(units[2].sum()))


class PairSlot(NamedTuple):
    """Sums of the pairs of users and items, added up once for all metrics that need the same."""

    view: int  # the index of the view
    metric: int  # the index of a metric in the view
    metrics: tuple[ProbabilityMetric, ...]


def pair_slots_of(task: ScoringTask) -> list[PairSlot]:
    """What the metrics of scores as probabilities add up."""
    slots: dict[tuple[int, Hashable], PairSlot] = {}
    for view, task_view in enumerate(task.views):
        for index, metric in enumerate(task_view.metrics):
            if isinstance(metric, ProbabilityMetric):
                slot = slots.setdefault((view, metric.counted_as), PairSlot(view, index, ()))
                slots[view, metric.counted_as] = slot._replace(metrics=(*slot.metrics, metric))
    return list(slots.values())


class PairAccumulator(_HeldCounts):
    """The sums of the pairs in lists that come batch by batch: a row for each limb of an exact sum."""

    def __init__(self, task: ScoringTask, slice_texts: Callable[[Key], list[str]]) -> None:
        super().__init__(slice_texts)
        self._slots = pair_slots_of(task)

    def _counted(
        self, group: IntArray, block: IntArray, counted: BoolArray, exposed: Mapping[int, process.RankedView]
    ) -> Iterator[Message]:
        cells, cell = np.unique(group * description.N_BLOCKS + block, return_inverse=True)
        groups, blocks = np.divmod(cells, description.N_BLOCKS)
        for number, slot in enumerate(self._slots):
            lists = exposed[slot.view]
            # That of the view as it reads this batch knows the precision of its scores.
            metric = lists.view.metrics[slot.metric]
            assert isinstance(metric, ProbabilityMetric)
            user, terms = metric.terms(lists.batch)
            there = (counted & lists.included)[user]
            sums = exact.ExactSums(len(terms) * len(cells))
            for index, values in enumerate(terms.values()):
                sums.add(index * len(cells), values[there], cell[user[there]])
            limbs = sums.state()["limbs"]
            # A slice without a pair that counts still has a row.
            is_kept = limbs != 0
            is_kept[: len(cells), 0] = True
            place, limb = np.nonzero(is_kept)
            term, place_of_cell = np.divmod(place, len(cells))
            names = pa.array(terms, pa.string()).take(pa.array(term))
            yield from self._hold(number, groups[place_of_cell], names, limb, blocks[place_of_cell], limbs[place, limb])

    def _sent(self, counted: pa.Table) -> Iterator[Message]:
        yield message_of(PAIR_SUMS, self._by_slice(counted))


class SlotPairs(NamedTuple):
    """The sums of a slot's pairs in a slice."""

    whole: ScoredPairs
    leave_one_out: list[ScoredPairs]  # without the users of each block that has any, if blocks are counted


def pair_sums_of(
    messages: Iterable[Message], slots: list[PairSlot], *, has_blocks: bool
) -> dict[str, dict[PairSlot, SlotPairs]]:
    """The sums of each slot in each slice, from the messages of all partitions; with `has_blocks` without each block, too."""
    counted = total_of((table_of(message.state) for message in messages if message.kind == PAIR_SUMS), COUNT)
    parts: dict[tuple[str, int], dict[int, Array]] = {}
    for row in counted.to_pylist() if counted is not None else ():
        blocks = parts.setdefault((row[_SLICE], row[_SLOT]), {})
        limbs = blocks.setdefault(row[_BLOCK], np.zeros((len(ProbabilityMetric.TERMS), exact.LIMBS), np.int64))
        limbs[ProbabilityMetric.TERMS.index(row[_ITEM]), row[_KIND]] += row[COUNT]
    sums: dict[str, dict[PairSlot, SlotPairs]] = {}
    for (slice_, slot), limbs_of_blocks in parts.items():
        total: Array = np.sum(list(limbs_of_blocks.values()), axis=0)
        left_out = [total - limbs_of_blocks[block] for block in sorted(limbs_of_blocks)] if has_blocks else []
        pairs = SlotPairs(_scored_pairs(total), list(map(_scored_pairs, left_out)))
        sums.setdefault(slice_, {})[slots[slot]] = pairs
    return sums


def _scored_pairs(limbs: Array) -> ScoredPairs:
    return ScoredPairs(dict(zip(ProbabilityMetric.TERMS, map(exact.exact_sum, limbs), strict=True)))


def _refuse_other_scores(task: ScoringTask, slices: Iterable[Mapping[PairSlot, SlotPairs]]) -> None:
    """Raise an error if scores are no probabilities; it counts those of the slice that has most of them."""
    worst: dict[PairSlot, ScoredPairs] = {}
    for slots in slices:
        for slot, pairs in slots.items():
            worst[slot] = max(worst.get(slot, pairs.whole), pairs.whole, key=lambda one: one.sums["invalid"])
    for slot, found in worst.items():
        if n_invalid := int(found.sums["invalid"]):
            model = task.models[task.views[slot.view].model]
            names = listed(list(dict.fromkeys(metric.name for metric in slot.metrics)), _MOST_LISTED)
            msg = (
                f"predictions{f' of model {model!r}' if model else ''}: {n_invalid:,} of {int(found.sums['pairs']):,} scores are outside "
                f"[0, 1], so they are no probabilities for {names}. Name a column of probabilities with score=, or ask for other metrics"
            )
            raise DataError(msg, {"n_invalid": n_invalid})


# A warning names so many groups, and counts the others.
_MOST_LISTED = 8


_AllListsMetric = group_metrics.CorpusMetric | group_metrics.AllListsGroupMetric | ProbabilityMetric


def with_corpus_values(figures: Mapping[Key, Figures], gathered: process.Gathered) -> dict[Key, Figures]:
    """The figures of each slice, with the values of all lists together from messages of exposure."""
    task, messages, totals, options = gathered
    exposures = exposures_of(messages, slots_of(task), sizes_of(totals))
    group_slots = group_slots_of(task)
    group_exposures = group_exposures_of(messages, group_slots, has_blocks=options.resamples)
    _warn_of_unknown_groups(group_exposures.values())
    pair_slots = pair_slots_of(task)
    pair_sums = pair_sums_of(messages, pair_slots, has_blocks=options.resamples)
    _refuse_other_scores(task, pair_sums.values())
    metrics = [(view, metric) for view, task_view in enumerate(task.views) for metric in task_view.metrics]
    slots: dict[tuple[int, Metric], Slot | GroupSlot | PairSlot] = {
        (view, metric): Slot(view, metric.k)
        for view, metric in metrics
        if isinstance(metric, group_metrics.CorpusMetric)
    }
    slots |= {(slot.view, metric): slot for slot in group_slots for metric in slot.metrics}
    slots |= {(slot.view, metric): slot for slot in pair_slots for metric in slot.metrics}
    together = {}
    for key, group in figures.items():
        text, values = slice_as_text(key), list(group.values)
        known: dict[Any, SlotExposure | SlotGroups | SlotPairs] = {
            **exposures.get(text, {}),
            **group_exposures.get(text, {}),
            **pair_sums.get(text, {}),
        }
        for number, (view, metric) in enumerate(metrics):
            if isinstance(metric, _AllListsMetric):
                exposure = known.get(slots[view, metric])
                parts = () if exposure is None else (exposure.whole, *exposure.leave_one_out)
                values[number] = _described(metric, parts, options)
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
    metric: _AllListsMetric,
    parts: Sequence[Any],
    options: DescriptionOptions,
) -> Description:
    """A metric of all users, the first of the parts, and its interval from what it is without each block of them."""
    if not parts:
        return description.one_figure(math.nan, 0, options)
    whole, *others = parts
    n_users = whole.n_users
    leave_one_out = [
        description.WithoutBlock(metric.value(part), n_users - part.n_users)
        for part in others
        if part.n_users < n_users
    ]
    described = description.one_figure(metric.value(whole), n_users, options, leave_one_out, metric.bounds)
    interval = described.interval
    reason = metric.without_interval(whole) if isinstance(metric, group_metrics.AllListsGroupMetric) else ""
    if interval and reason:
        return described._replace(interval=Interval.missing(interval.level, interval.method, reason))
    return described


@dataclass(frozen=True)
class AllLists(process.ScoringFeature):
    """Metrics of all lists together."""

    def read(self, task: ScoringTask, columns: dict[str, pa.Array], labels: Side) -> process.BatchFeature:
        """The lists of a batch that metrics of all lists look at."""
        views = {slot.view for slot in slots_of(task)} | {slot.view for slot in group_slots_of(task)}
        return ExposureOfBatch(views | {slot.view for slot in pair_slots_of(task)})

    def new_accumulator(self, task: ScoringTask, context: process.StateContext) -> process.FeatureAccumulator:
        """What the metrics of a task count."""
        return _ExposureAccumulator(task, context)

    def mergers(self, options: DescriptionOptions) -> Mergers:
        """Counts of items become histograms, and those of groups and the sums of pairs are added up."""
        return {
            EXPOSURE: merging_exposure(has_blocks=options.resamples),
            GROUP_EXPOSURE: process.merging_each_bucket(GROUP_EXPOSURE, _stream_of_total),
            PAIR_SUMS: process.merging_each_bucket(PAIR_SUMS, _stream_of_total),
        }

    def figures(self, figures: Mapping[Key, Figures], gathered: process.Gathered) -> Mapping[Key, Figures]:
        """The figures with the values of all lists together."""
        return with_corpus_values(figures, gathered)


class ExposureOfBatch(process.BatchFeature):
    """The lists of those views of a batch that have metrics of all lists together."""

    def __init__(self, views: set[int]) -> None:
        self._views = views
        self.exposed: dict[int, process.RankedView] = {}  # by the view's index

    def add(self, ranked: process.RankedView) -> RankingBatch:
        """Keep the lists of a view."""
        if ranked.view_index in self._views:
            self.exposed[ranked.view_index] = ranked
        return ranked.batch


class _ExposureAccumulator(process.FeatureAccumulator):
    def __init__(self, task: ScoringTask, context: process.StateContext) -> None:
        self._context = context
        slice_texts = lambda key: list(map(slice_as_text, context.rollup(key)))  # noqa: E731
        self._counted: list[ExposureAccumulator | GroupAccumulator | PairAccumulator] = []
        if slots := slots_of(task):
            self._counted.append(ExposureAccumulator(slots, slice_texts))
        if group_slots_of(task):
            self._counted.append(GroupAccumulator(task, slice_texts))
        if pair_slots_of(task):
            self._counted.append(PairAccumulator(task, slice_texts))

    def add(self, users: process.ScoredUsers, scores: process.BatchFeature) -> Iterator[Message]:
        assert isinstance(scores, ExposureOfBatch)
        batch, options = users.batch, self._context.options
        groups = list(rows_by_key([batch.column(name) for name in self._context.keys], batch.num_rows))
        blocks = description.blocks_of(drawn(columns_of(batch), options), options.seed) if options.resamples else None
        for counted in self._counted:
            yield from counted.add(groups, ~flags(batch.column(NO_USER)), scores.exposed, blocks)

    def messages(self) -> Iterator[Message]:
        for counted in self._counted:
            yield from counted.messages()
