"""Exposure as a feature of a task: the figures of all lists together, and what groups of items get and are due.

Workers count by partition in whole units, which add up exactly. The driver puts the counts together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from spark_rankeval.errors import did_you_mean, listed, warn
from spark_rankeval.features.exposure.counted_tables import CountsMerger, merge_counts, message_of, table_of, total_of
from spark_rankeval.features.exposure.items import (
    _BLOCK,
    _KIND,
    _SLICE,
    _SLOT,
    EXPOSURE,
    HISTOGRAMS,
    N_ITEMS,
    Exposed,
    ExposureAccumulator,
    ExposureMerger,
    Slot,
    exposures_of,
    slice_as_text,
    slots_of,
)
from spark_rankeval.features.items.item_facts import sizes_of
from spark_rankeval.metrics.exposure_based import CorpusMetric, Exposure
from spark_rankeval.metrics.group_amounts import AllListsGroupMetric, Amounts, GroupAmounts, GroupExposure
from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.ragged import Array, BoolArray, FloatArray, IntArray, Ragged
from spark_rankeval.records.slices import Key
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.statistics.bootstrap import N_BLOCKS, WithoutBlock, blocks_of
from spark_rankeval.statistics.description import Description, DescriptionOptions, Figures, one_figure
from spark_rankeval.statistics.intervals import Interval
from spark_rankeval.wire import Mergers, Message
from spark_rankeval.worker.group_states import rows_by_key
from spark_rankeval.worker.reading import Side, columns_of, flags
from spark_rankeval.worker.scored_features import (
    BatchFeature,
    FeatureAccumulator,
    Gathered,
    PartitionFeature,
    RankedView,
    ScoredUsers,
    ScoringFeature,
    StateContext,
)
from spark_rankeval.worker.states import drawn

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
    if amounts.each is not None:
        cells, n_users = np.unique(cell[cell >= 0], return_counts=True)
        due = np.flatnonzero(amounts.each)
        units = _units(amounts.each[due], unit) * n_users[:, None]
        yield _DUE, *_unit_sums(np.repeat(cells, len(due)), np.tile(due, len(cells)), units.ravel(), n_groups)
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


def with_corpus_values(figures: Mapping[Key, Figures], gathered: Gathered) -> dict[Key, Figures]:
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
class AllLists(ScoringFeature):
    """Metrics of all lists together."""

    def begin(self, task: ScoringTask) -> PartitionFeature:
        """What the metrics of a task count."""
        return _ExposureOfPartition(task)

    def mergers(self, options: DescriptionOptions) -> Mergers:
        """Counts of items become histograms, and those of groups are added up."""
        return {
            EXPOSURE: lambda: ExposureMerger(has_blocks=options.resamples),
            HISTOGRAMS: lambda: CountsMerger(HISTOGRAMS, N_ITEMS),
            GROUP_EXPOSURE: lambda: CountsMerger(GROUP_EXPOSURE, COUNT),
        }

    def figures(self, figures: Mapping[Key, Figures], gathered: Gathered) -> Mapping[Key, Figures]:
        """The figures with the values of all lists together."""
        return with_corpus_values(figures, gathered)


class _ExposureOfPartition(PartitionFeature):
    def __init__(self, task: ScoringTask) -> None:
        self._task = task
        self._views = {*(slot.view for slot in slots_of(task)), *(slot.view for slot in group_slots_of(task))}

    def read(self, columns: Mapping[str, pa.Array], labels: Side, excluded: Side | None) -> BatchFeature:
        return ExposureOfBatch(self._views)

    def new_accumulator(self, context: StateContext) -> FeatureAccumulator:
        return _ExposureAccumulator(self._task, context)


class ExposureOfBatch(BatchFeature):
    """The lists of those views of a batch that have metrics of all lists together."""

    def __init__(self, views: set[int]) -> None:
        self._views = views
        self.exposed: dict[int, Exposed] = {}  # by the view's index

    def add(self, ranked: RankedView) -> RankingBatch:
        """Keep the lists of a view."""
        if ranked.view_index in self._views:
            self.exposed[ranked.view_index] = Exposed(ranked.batch, ranked.predictions.ids, ranked.included)
        return ranked.batch


class _ExposureAccumulator:
    def __init__(self, task: ScoringTask, context: StateContext) -> None:
        self._context = context
        slice_texts = lambda key: list(map(slice_as_text, context.rollup(key)))  # noqa: E731
        self._counted: list[ExposureAccumulator | GroupAccumulator] = []
        if slots := slots_of(task):
            self._counted.append(ExposureAccumulator(slots, slice_texts))
        if group_slots_of(task):
            self._counted.append(GroupAccumulator(task, slice_texts))

    def add(self, users: ScoredUsers, scores: BatchFeature) -> Iterator[Message]:
        assert isinstance(scores, ExposureOfBatch)
        batch, options = users.batch, self._context.options
        groups = list(rows_by_key([batch.column(name) for name in self._context.keys], batch.num_rows))
        blocks = blocks_of(drawn(columns_of(batch), options), options.seed) if options.resamples else None
        for counted in self._counted:
            yield from counted.add(groups, ~flags(batch.column(self._context.no_user)), scores.exposed, blocks)

    def messages(self) -> Iterator[Message]:
        for counted in self._counted:
            yield from counted.messages()
