"""Figures of all lists together: counts of items and of groups of items, exposure, sums of pairs, and their jackknife."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.errors import DataError, did_you_mean, listed, warn
from spark_rankeval.metrics import item_groups as group_metrics
from spark_rankeval.metrics.base import AllListsMetric
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


#: The kinds of messages: counts of items, in buckets of items; histograms of these; and counts of groups of items, or sums of pairs.
EXPOSURE, HISTOGRAMS, SUMS = "exposure", "histograms of exposure", "sums over lists"
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
    """What is counted of all lists, once for all metrics that count the same."""

    view: int  # the index of the view whose lists are counted
    metric: int  # the index of the first of the metrics there
    metrics: tuple[AllListsMetric, ...]


def slots_of(task: ScoringTask) -> list[Slot]:
    """What the metrics of all lists count."""
    slots: dict[tuple[int, Hashable], Slot] = {}
    for view, task_view in enumerate(task.views):
        for index, metric in enumerate(task_view.metrics):
            if isinstance(metric, AllListsMetric):
                slot = slots.setdefault((view, metric.counted_as), Slot(view, index, ()))
                slots[view, metric.counted_as] = slot._replace(metrics=(*slot.metrics, metric))
    return list(slots.values())


class _HeldCounts:
    """Counts of groups of users that a worker holds; if they take too much memory, it sends them on as counts of slices."""

    # The metrics that it counts for.
    metrics: type[AllListsMetric]

    def __init__(self, task: ScoringTask, slice_texts: Callable[[Key], list[str]]) -> None:
        self._slice_texts = slice_texts
        self.slots = {
            number: slot for number, slot in enumerate(slots_of(task)) if isinstance(slot.metrics[0], self.metrics)
        }
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
        yield message_of(SUMS, self._by_slice(counted))

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

    metrics = group_metrics.CorpusMetric

    def _counted(
        self, group: IntArray, block: IntArray, counted: BoolArray, exposed: Mapping[int, process.RankedView]
    ) -> Iterator[Message]:
        for number, slot in self.slots.items():
            lists, k = exposed[slot.view], slot.metrics[0].k
            recommended = lists.batch.recommended
            assert recommended is not None, "a metric of all lists reads items"
            is_counted = counted & lists.included
            # A user without a list counts 0, so that each slice has a row.
            has_list = is_counted & (recommended.n_within(k) > 0)
            no_ids = pa.nulls(len(group), lists.predictions.ids.type)
            yield from self._hold(number, group, no_ids, _USERS, block, has_list)
            kind = _kinds(recommended)
            entries = np.flatnonzero(is_counted[recommended.user] & recommended.within(k))
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


Name = str | None


class SlotFigures(NamedTuple):
    """What all lists of a slice add up to for a slot: exposure of items or of groups, or sums of pairs."""

    whole: Any
    leave_one_out: list[Any]  # without the users of each block that has any, if blocks are counted
    names: frozenset[Name] = frozenset()  # the groups of items that anything is known of


def figures_of_slots(
    messages: Sequence[Message], task: ScoringTask, totals: Totals, *, has_blocks: bool
) -> dict[str, dict[Slot, SlotFigures]]:
    """The figures of each slot in each slice, from the messages of all partitions; with `has_blocks` without each block, too."""
    slots, figures = slots_of(task), dict[str, dict[Slot, SlotFigures]]()
    for slice_, slot, histogram in _histograms_by_slot(messages):
        is_whole = histogram[_BLOCK] == ALL_BLOCKS
        whole = {name: values[is_whole] for name, values in histogram.items()}
        leave_one_out = [
            _exposure(
                {name: values[is_whole | (histogram[_BLOCK] == block)] for name, values in histogram.items()}, totals
            )
            for block in np.unique(histogram[_BLOCK][~is_whole]).tolist()
        ]
        figures.setdefault(slice_, {})[slots[slot]] = SlotFigures(_exposure(whole, totals), leave_one_out)
    for (slice_, slot), rows in _sums_by_slot(messages).items():
        figures.setdefault(slice_, {})[slots[slot]] = _figures_of_sums(rows, slots[slot], has_blocks=has_blocks)
    return figures


def _total_of_messages(messages: Iterable[Message], kind: str, sum_column: str) -> pa.Table | None:
    return total_of((table_of(message.state) for message in messages if message.kind == kind), sum_column)


def _histograms_by_slot(messages: Iterable[Message]) -> Iterator[tuple[str, int, dict[str, IntArray]]]:
    """The histograms of all partitions put together, with the slice and the number of the slot of each."""
    histograms = _total_of_messages(messages, HISTOGRAMS, N_ITEMS)
    if histograms is None:
        return
    encoded = histograms[_SLICE].combine_chunks().dictionary_encode()
    columns = {name: histograms[name].to_numpy().astype(np.int64) for name in (_SLOT, _KIND, COUNT, _BLOCK, N_ITEMS)}
    slice_, slot = encoded.indices.to_numpy(), columns[_SLOT]
    order = np.lexsort((slot, slice_))
    starts = np.flatnonzero(starts_of_runs(slice_[order], slot[order]))
    for rows in np.split(order, starts)[1:]:
        histogram = {name: values[rows] for name, values in columns.items()}
        yield encoded.dictionary[slice_[rows[0]]].as_py(), slot[rows[0]], histogram


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


# What is counted: a group's exposure, what it is due, or users.
_ATTENTION, _DUE, _LISTS = _KINDS = range(3)


class GroupAccumulator(_HeldCounts):
    """What groups of items get in lists that come batch by batch."""

    metrics = group_metrics.AllListsGroupMetric

    def _counted(
        self, group: IntArray, block: IntArray, counted: BoolArray, exposed: Mapping[int, process.RankedView]
    ) -> Iterator[Message]:
        present = np.unique(group)
        for number, slot in self.slots.items():
            metric, lists = slot.metrics[0], exposed[slot.view]
            assert isinstance(metric, group_metrics.AllListsGroupMetric)
            amounts = metric.amounts(lists.batch)
            cell = np.where(counted & lists.included & amounts.counted, group * description.N_BLOCKS + block, -1)
            names = metric.names_of(lists.batch)
            for kind, cells, codes, units in _counts(amounts, cell, len(names), metric.unit):
                users, user_blocks = np.divmod(cells, description.N_BLOCKS)
                of = pa.array([None] if kind == _LISTS else names, pa.string()).take(pa.array(codes))
                yield from self._hold(number, users, of, kind, user_blocks, units)
            # A slice without a user that counts still has a row, and so has a group that gets nothing.
            chosen = sorted(_chosen_groups(slot) & {*names})
            nothing = np.zeros_like(present)
            for kind, name in ((_LISTS, None), *((_ATTENTION, name) for name in chosen)):
                of = pa.array([name] * len(present), pa.string())
                yield from self._hold(number, present, of, kind, nothing, nothing)


def _chosen_groups(slot: Slot) -> set[str]:
    """The groups that metrics of a slot are about."""
    of_groups = (metric for metric in slot.metrics if isinstance(metric, group_metrics.AllListsGroupMetric))
    return {metric.chosen_group for metric in of_groups if metric.chosen_group is not None}


def _counts(
    amounts: group_metrics.GroupAmounts, cell: IntArray, n_groups: int, unit: float
) -> Iterator[tuple[int, IntArray, IntArray, IntArray]]:
    """By kind: the cells of users, codes of groups, and how many units these have."""

    def added(cells: IntArray, groups: IntArray, units: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        there = cells >= 0
        indices, index = np.unique(cells[there] * n_groups + groups[there], return_inverse=True)
        sums = np.zeros(len(indices), np.int64)
        np.add.at(sums, index, units[there])
        return indices // n_groups, indices % n_groups, sums

    def in_units(given: FloatArray) -> IntArray:
        return np.rint(given / unit).astype(np.int64)

    for kind, given in ((_ATTENTION, amounts.exposure), (_DUE, amounts.due)):
        if given is not None:
            yield kind, *added(cell[given.user], given.group, in_units(given.amount))
    if amounts.shares is not None:
        # Few users differ in their whole attention: what it gives to each group is computed once, and exact sums do not mind.
        users = np.stack([cell.astype(np.float64), amounts.exposure.totals(len(cell))])
        pairs, n_users = np.unique(users[:, cell >= 0], axis=1, return_counts=True)
        due = np.flatnonzero(amounts.shares)
        units = in_units(pairs[1][:, None] * amounts.shares[due]) * n_users[:, None]
        cells = np.repeat(pairs[0].astype(np.int64), len(due))
        yield _DUE, *added(cells, np.tile(due, pairs.shape[1]), units.ravel())
    yield _LISTS, *added(cell, np.zeros_like(cell), np.ones_like(cell))


def _stream_of_total(streams: Iterable[bytes]) -> bytes:
    """The sum of tables of counts, each as in the state of a message."""
    total: bytes = process.stream_of(total_of(map(table_of, streams), COUNT)).to_pybytes()
    return total


def _sums_by_slot(messages: Iterable[Message]) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """The rows of counts of groups and of sums of pairs, by slice and number of the slot."""
    counted = _total_of_messages(messages, SUMS, COUNT)
    parts: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in counted.to_pylist() if counted is not None else ():
        parts.setdefault((row[_SLICE], row[_SLOT]), []).append(row)
    return parts


def _figures_of_sums(rows: list[dict[str, Any]], slot: Slot, *, has_blocks: bool) -> SlotFigures:
    """The figures of a slot from its counts by block, kind and group; or by block, limb and term of a sum of pairs."""
    metric = slot.metrics[0]
    names: list[Name]
    made: Callable[[IntArray], Any]
    if isinstance(metric, group_metrics.AllListsGroupMetric):
        names = sorted({row[_ITEM] for row in rows}, key=lambda name: (name is not None, name))
        made, n_kinds = partial(_group_exposure, names=names, unit=metric.unit), len(_KINDS)
    else:
        names, made, n_kinds = list(ProbabilityMetric.TERMS), _scored_pairs, exact.LIMBS
    blocks = sorted({row[_BLOCK] for row in rows})
    block_index, name_index = ({value: number for number, value in enumerate(values)} for values in (blocks, names))
    counted = np.zeros((len(blocks), n_kinds, len(names)), np.int64)
    for row in rows:
        counted[block_index[row[_BLOCK]], row[_KIND], name_index[row[_ITEM]]] += row[COUNT]
    total = counted.sum(axis=0)
    known = frozenset(row[_ITEM] for row in rows if row[_KIND] != _LISTS)
    return SlotFigures(made(total), [made(total - block) for block in counted] if has_blocks else [], known)


def _group_exposure(units: IntArray, names: list[Name], unit: float) -> group_metrics.GroupExposure:
    exposure, due = (
        {names[group]: int(counts[group]) * unit for group in np.flatnonzero(counts).tolist()} for counts in units[:2]
    )
    return group_metrics.GroupExposure(exposure, due, int(units[2].sum()))


class PairAccumulator(_HeldCounts):
    """The sums of the pairs in lists that come batch by batch: a row for each limb of an exact sum."""

    metrics = ProbabilityMetric

    def _counted(
        self, group: IntArray, block: IntArray, counted: BoolArray, exposed: Mapping[int, process.RankedView]
    ) -> Iterator[Message]:
        cells, cell = np.unique(group * description.N_BLOCKS + block, return_inverse=True)
        groups, blocks = np.divmod(cells, description.N_BLOCKS)
        for number, slot in self.slots.items():
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


def _scored_pairs(limbs: Array) -> ScoredPairs:
    return ScoredPairs(dict(zip(ProbabilityMetric.TERMS, [exact.exact_sum(each) for each in limbs.T], strict=True)))


def _refuse_other_scores(task: ScoringTask, slices: Iterable[Mapping[Slot, SlotFigures]]) -> None:
    """Raise an error if scores are no probabilities; it counts those of the slice that has most of them."""
    worst: dict[Slot, ScoredPairs] = {}
    for slots in slices:
        for slot, figures in slots.items():
            if isinstance(figures.whole, ScoredPairs):
                pairs = worst.get(slot, figures.whole), figures.whole
                worst[slot] = max(pairs, key=lambda one: one.sums["invalid"])
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


def with_corpus_values(figures: Mapping[Key, Figures], gathered: process.Gathered) -> dict[Key, Figures]:
    """The figures of each slice, with the values of all lists together from messages of exposure."""
    task, messages, totals, options = gathered
    by_slice = figures_of_slots(messages, task, sizes_of(totals), has_blocks=options.resamples)
    _warn_of_unknown_groups(by_slice.values())
    _refuse_other_scores(task, by_slice.values())
    metrics = [(view, metric) for view, task_view in enumerate(task.views) for metric in task_view.metrics]
    together = {}
    for key, group in figures.items():
        slots, values = by_slice.get(slice_as_text(key), {}), list(group.values)
        known = {(slot.view, metric): found for slot, found in slots.items() for metric in slot.metrics}
        for number, (view, metric) in enumerate(metrics):
            if isinstance(metric, AllListsMetric):
                values[number] = _described(metric, known.get((view, metric)), options)
        together[key] = group._replace(values=values)
    return together


def _warn_of_unknown_groups(slices: Iterable[Mapping[Slot, SlotFigures]]) -> None:
    """Warn if a metric is about a group that no item has: 0 or NaN says that of a group that gets nothing, too."""
    seen_names: dict[str, set[str]] = {}
    for slots in slices:
        for slot, found in slots.items():
            names = {name for name in found.names if name is not None}
            for chosen in _chosen_groups(slot):
                seen_names.setdefault(chosen, set()).update(names)
    unknown = {name: sorted(others) for name, others in seen_names.items() if name not in others}
    for name, others in unknown.items():
        near = did_you_mean(name, others)
        warn(
            f"no item has the group {name!r}; {near}groups in lists or labels: {listed(others, _MOST_LISTED) or 'none'}"
        )


def _described(metric: AllListsMetric, figures: SlotFigures | None, options: DescriptionOptions) -> Description:
    """A metric of all users, and its interval from what it is without each block of them."""
    if figures is None:
        return description.one_figure(math.nan, 0, options)
    whole, n_users = figures.whole, figures.whole.n_users
    leave_one_out = [
        description.WithoutBlock(metric.value(part), n_users - part.n_users)
        for part in figures.leave_one_out
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
        return ExposureOfBatch({slot.view for slot in slots_of(task)})

    def new_accumulator(self, task: ScoringTask, context: process.StateContext) -> process.FeatureAccumulator:
        """What the metrics of a task count."""
        return _ExposureAccumulator(task, context)

    def mergers(self, options: DescriptionOptions) -> Mergers:
        """Counts of items become histograms, and those of groups and the sums of pairs are added up."""
        return {
            EXPOSURE: merging_exposure(has_blocks=options.resamples),
            SUMS: process.merging_each_bucket(SUMS, _stream_of_total),
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
        kinds = (ExposureAccumulator, GroupAccumulator, PairAccumulator)
        self._counted = [counted for kind in kinds if (counted := kind(task, slice_texts)).slots]

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
