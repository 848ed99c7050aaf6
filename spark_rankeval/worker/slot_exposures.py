"""What the driver makes of histograms: the exposure of items in each slice, of all users and without each block of them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from spark_rankeval.metrics.exposure_based import Exposure
from spark_rankeval.worker.exposure_blocks import without_block
from spark_rankeval.worker.exposures import (
    BLOCK,
    COUNT,
    EVERYBODY,
    HISTOGRAM,
    IN_ITEMS,
    IN_TRAINING,
    KIND,
    N_ITEMS,
    USERS,
)
from spark_rankeval.worker.group_exposures import is_of_groups
from spark_rankeval.worker.packing import unpack

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from spark_rankeval.ranking.ragged import Array, BoolArray, IntArray
    from spark_rankeval.ranking.recommended import Totals
    from spark_rankeval.worker.exposures import Slot


class SlotExposure(NamedTuple):
    """The exposure of a slot in a slice."""

    whole: Exposure
    without: list[Exposure]  # without the users of each block that has any, if blocks are told apart


def exposures_of(packed: Iterable[bytes], slots: list[Slot], totals: Totals) -> dict[str, dict[Slot, SlotExposure]]:
    """The histograms of all partitions put together: the exposure of each slot in each slice."""
    parts: dict[tuple[str, int], list[dict[str, Array]]] = {}
    for one in packed:
        for key, of_slots in unpack(one).items():
            for number in itertools.filterfalse(is_of_groups, of_slots):
                histogram = of_slots[number]
                parts.setdefault((key, int(number)), []).append(histogram)
    found: dict[str, dict[Slot, SlotExposure]] = {}
    for (key, number), histograms in parts.items():
        rows = {name: np.concatenate([part[name] for part in histograms]) for name in HISTOGRAM}
        whole = _where(rows, rows[BLOCK] == EVERYBODY)
        without = [
            _exposure(without_block(whole, _where(rows, rows[BLOCK] == block), KIND, COUNT, N_ITEMS), totals)
            for block in np.unique(rows[BLOCK]).tolist()
            if block != EVERYBODY
        ]
        found.setdefault(key, {})[slots[number]] = SlotExposure(_exposure(whole, totals), without)
    return found


def _where(rows: Mapping[str, IntArray], which: BoolArray) -> dict[str, IntArray]:
    return {name: values[which] for name, values in rows.items()}


def _exposure(histogram: Mapping[str, IntArray], totals: Totals) -> Exposure:
    kind, count, n_items = (histogram[name] for name in (KIND, COUNT, N_ITEMS))
    of_users = kind == USERS
    return Exposure(
        count=count[~of_users],
        n_items=n_items[~of_users],
        in_training=(kind[~of_users] & IN_TRAINING) > 0,
        in_items=(kind[~of_users] & IN_ITEMS) > 0,
        n_users=int((count * n_items)[of_users].sum()),
        totals=totals,
    )
