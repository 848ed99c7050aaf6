"""What groups of items get and are due: counted by partition in whole units, which add up exactly, and put together by the driver."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from spark_rankeval.metrics.group_amounts import AllListsGroupMetric, GroupExposure
from spark_rankeval.statistics.jackknife import N_BLOCKS
from spark_rankeval.worker.exposures import BLOCK, BLOCKS, COUNT, EVERYBODY, GROUP, KEY, KIND, SLOT, rows_of_exposure
from spark_rankeval.worker.packing import unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from spark_rankeval.metrics.group_amounts import Amounts, Given
    from spark_rankeval.ranking.ragged import Array, BoolArray, FloatArray, IntArray
    from spark_rankeval.request.task import ScoringTask
    from spark_rankeval.worker.exposures import Exposed

    Key = tuple[object, ...]

# What a row counts: a group's exposure, what it is due, or users.
_EXPOSURE, _DUE, _USERS = -2, -3, -4
# So many counts are held before they are sent on.
_HELD = 1 << 17
# What a slot is called in a packed histogram.
_PREFIX = "groups "


class GroupSlot(NamedTuple):
    """A metric of what groups get in all lists."""

    view: int  # the place of its view
    place: int  # its place among the metrics of the view
    unit: float  # in whole multiples of which its amounts are added


def group_slots_of(task: ScoringTask) -> list[GroupSlot]:
    """The metrics of groups in all lists together."""
    return [
        GroupSlot(view, place, metric.unit)
        for view, of_view in enumerate(task.views)
        for place, metric in enumerate(of_view.metrics)
        if isinstance(metric, AllListsGroupMetric)
    ]


class _Cell(NamedTuple):
    """What is counted: of which slot, group of users, block of these, kind and group of items."""

    slot: int
    key: Key
    block: int
    kind: int
    group: str


class GroupAccumulator:
    """What groups of items get in lists that come batch by batch."""

    def __init__(self, task: ScoringTask, slices_of: Callable[[Key], list[str]]) -> None:
        self._task, self._slots, self._slices_of = task, group_slots_of(task), slices_of
        self._held: Counter[_Cell] = Counter()
        self._item_type: pa.DataType | None = None

    def add(
        self,
        groups: Iterable[tuple[Key, Array | slice]],
        counted: BoolArray,
        exposed: dict[int, Exposed],
        blocks: IntArray | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Take in the lists of a batch of users, as far as they count; gives rows of exposure that no longer fit into memory."""
        group = np.full(len(counted), -1, np.int64)
        keys: list[Key] = []
        for key, users in groups:
            group[users] = len(keys)
            keys.append(key)
        block = np.zeros(len(counted), np.int64) if blocks is None else blocks
        for number, slot in enumerate(self._slots):
            metric = self._task.views[slot.view].metrics[slot.place]
            lists = exposed[slot.view]
            self._item_type = lists.ids.type
            assert isinstance(metric, AllListsGroupMetric), "slots are of these"
            given = metric.given(lists.batch)
            cell = np.where(counted & lists.included & given.counted & (group >= 0), group * N_BLOCKS + block, -1)
            names = metric.names_of(lists.batch)
            for kind, cells, codes, units in _counts(given, cell, len(names), metric.unit):
                for of_users, code, amount in zip(cells.tolist(), codes.tolist(), units.tolist(), strict=True):
                    key, of_block = keys[of_users // N_BLOCKS], of_users % N_BLOCKS
                    self._held[_Cell(number, key, of_block, kind, "" if kind == _USERS else names[code])] += amount
            # A slice is one all the same if nobody counts, and a group is one if it gets nothing.
            known = [(_EXPOSURE, metric.asked_group)] if metric.asked_group in names else []
            for key in keys:
                for kind, name in ((_USERS, ""), *known):
                    self._held[_Cell(number, key, 0, kind, name)] += 0
        if len(self._held) > _HELD:
            yield from self.rows()

    def rows(self) -> Iterator[pa.RecordBatch]:
        """What is held, as rows of exposure."""
        held, self._held = self._held, Counter()
        if not held:
            return
        cells: Counter[tuple[int, str, int, int, str]] = Counter()
        for cell, amount in held.items():
            for text in self._slices_of(cell.key):
                cells[cell.slot, text, cell.block, cell.kind, cell.group] += amount
        slots, slices, blocks, kinds, names = zip(*cells, strict=True)
        yield rows_of_exposure(
            slot=pa.array(slots, pa.int32()),
            key=pa.array(slices, pa.string()),
            item=pa.nulls(len(slots), self._item_type),
            kind=pa.array(kinds, pa.int8()),
            block=pa.array(blocks, pa.int8()),
            count=pa.array(cells.values(), pa.int64()),
            group=pa.array(names, pa.string()),
        )


def _counts(
    given: Given, cell: IntArray, n_groups: int, unit: float
) -> Iterator[tuple[int, IntArray, IntArray, IntArray]]:
    """By kind: the cells of users, codes of groups, and how many units these have."""
    yield _EXPOSURE, *_added_up(given.exposure, cell, n_groups, unit)
    if given.due is not None:
        yield _DUE, *_added_up(given.due, cell, n_groups, unit)
    if given.each is not None:
        cells, n_users = np.unique(cell[cell >= 0], return_counts=True)
        due = np.flatnonzero(given.each)
        units = _units(given.each[due], unit) * n_users[:, None]
        yield _DUE, *_summed(np.repeat(cells, len(due)), np.tile(due, len(cells)), units.ravel(), n_groups)
    if given.shares is not None:
        # Few users differ in their whole attention: what it gives to each group is computed once, and exact sums do not mind.
        totals = given.exposure.totals(len(cell))
        there = cell >= 0
        pairs, n_users = np.unique(
            np.stack([cell[there].astype(np.float64), totals[there]]), axis=1, return_counts=True
        )
        due = np.flatnonzero(given.shares)
        units = _units(pairs[1][:, None] * given.shares[due], unit) * n_users[:, None]
        cells = np.repeat(pairs[0].astype(np.int64), len(due))
        yield _DUE, *_summed(cells, np.tile(due, pairs.shape[1]), units.ravel(), n_groups)
    users = cell[cell >= 0]
    yield _USERS, *_summed(users, np.zeros_like(users), np.ones_like(users), n_groups)


def _added_up(amounts: Amounts, cell: IntArray, n_groups: int, unit: float) -> tuple[IntArray, IntArray, IntArray]:
    of_user = cell[amounts.user]
    there = of_user >= 0
    return _summed(of_user[there], amounts.group[there], _units(amounts.amount[there], unit), n_groups)


def _units(amounts: FloatArray, unit: float) -> IntArray:
    return np.rint(amounts / unit).astype(np.int64)


def _summed(cell: IntArray, group: IntArray, units: IntArray, n_groups: int) -> tuple[IntArray, IntArray, IntArray]:
    places, place = np.unique(cell * n_groups + group, return_inverse=True)
    sums = np.zeros(len(places), np.int64)
    np.add.at(sums, place, units)
    return places // n_groups, places % n_groups, sums


def group_histogram(rows: pa.Table) -> dict[str, dict[str, dict[str, Array]]]:
    """Rows with the whole amount of a group each, by slice and slot: for each group, rows of a block, a kind and an amount."""
    tree: dict[str, dict[str, dict[str, list[tuple[int, int, int]]]]] = {}
    for row in rows.to_pylist():
        of_group = tree.setdefault(row[KEY], {}).setdefault(f"{_PREFIX}{row[SLOT]}", {}).setdefault(row[GROUP], [])
        of_group.append((EVERYBODY, row[KIND], row[COUNT]))
        of_group += [(part[BLOCK], row[KIND], part[COUNT]) for part in row.get(BLOCKS) or ()]
    return {
        key: {
            slot: {name: np.array(cells, np.int64) for name, cells in of_slot.items()}
            for slot, of_slot in slots.items()
        }
        for key, slots in tree.items()
    }


def is_of_groups(slot: str) -> bool:
    """Whether a part of a packed histogram is of groups of items."""
    return slot.startswith(_PREFIX)


class SlotGroups(NamedTuple):
    """What groups of items get in a slice."""

    whole: GroupExposure
    without: list[GroupExposure]  # without the users of each block that has any, if blocks are told apart
    names: frozenset[str]  # the groups that anything is known of


def group_exposures_of(packed: Iterable[bytes], slots: list[GroupSlot]) -> dict[str, dict[GroupSlot, SlotGroups]]:
    """The histograms of all partitions put together: what groups get of each slot in each slice."""
    amounts: dict[tuple[str, str], Counter[tuple[int, int, str]]] = {}
    for one in packed:
        for key, of_slots in unpack(one).items():
            for slot in filter(is_of_groups, of_slots):
                counted = amounts.setdefault((key, slot), Counter())
                for name, cells in of_slots[slot].items():
                    for block, kind, amount in cells.tolist():
                        counted[block, kind, name] += amount
    found: dict[str, dict[GroupSlot, SlotGroups]] = {}
    for (key, slot), counted in amounts.items():
        of_slot = slots[int(slot.removeprefix(_PREFIX))]
        whole = _of_block(counted, EVERYBODY)
        blocks = sorted({block for block, _, _ in counted} - {EVERYBODY})
        without = [_exposure({cell: n - part.get(cell, 0) for cell, n in whole.items()}, of_slot.unit)
                   for part in (_of_block(counted, block) for block in blocks)]  # fmt: skip
        names = frozenset(name for kind, name in whole if kind != _USERS)
        found.setdefault(key, {})[of_slot] = SlotGroups(_exposure(whole, of_slot.unit), without, names)
    return found


def _of_block(counted: Mapping[tuple[int, int, str], int], block: int) -> dict[tuple[int, str], int]:
    return {(kind, name): amount for (other, kind, name), amount in counted.items() if other == block}


def _exposure(units: Mapping[tuple[int, str], int], unit: float) -> GroupExposure:
    def of_kind(kind: int) -> dict[str, float]:
        return {name: n * unit for (of, name), n in sorted(units.items()) if of == kind and n}

    return GroupExposure(of_kind(_EXPOSURE), of_kind(_DUE), units.get((_USERS, ""), 0))
