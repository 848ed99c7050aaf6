"""How exposure is added up by item on the way to the driver, which gets how many items have which count."""

from __future__ import annotations

import json
import math
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql import types as T

from spark_rankeval.errors import did_you_mean, warn
from spark_rankeval.metrics.exposure_based import CorpusMetric, Exposure
from spark_rankeval.metrics.group_amounts import AllListsGroupMetric, GroupExposure
from spark_rankeval.records.slices import EVERY
from spark_rankeval.spark.collecting import meeting_place, run_by_place
from spark_rankeval.spark.engines import engine_of
from spark_rankeval.spark.python_workers import workers_explained
from spark_rankeval.spark.sql_text import aggregate, call, named, select, when
from spark_rankeval.spark.workers import run_on_workers
from spark_rankeval.statistics.description import of_one_figure
from spark_rankeval.statistics.intervals import Interval
from spark_rankeval.statistics.jackknife import WithoutBlock
from spark_rankeval.wording import listed
from spark_rankeval.worker.clusters import FIRST_PLACE, ClusterMerger
from spark_rankeval.worker.exposures import (
    BLOCK,
    BLOCKS,
    COUNT,
    EXPOSURE,
    GROUP,
    ITEM,
    KEY,
    KIND,
    SLOT,
    Slot,
    slots_of,
)
from spark_rankeval.worker.facts import sizes_of
from spark_rankeval.worker.group_exposures import group_exposures_of, group_slots_of
from spark_rankeval.worker.merged_exposures import merge_exposures
from spark_rankeval.worker.merging import MergedStates
from spark_rankeval.worker.packing import PLACE, STATE
from spark_rankeval.worker.slot_exposures import exposures_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from spark_rankeval.request.task import ScoringTask
    from spark_rankeval.spark.describing import Figures
    from spark_rankeval.statistics.description import Description, DescriptionOptions
    from spark_rankeval.worker.clusters import Layout
    from spark_rankeval.worker.group_exposures import GroupSlot, SlotGroups
    from spark_rankeval.worker.group_states import Key
    from spark_rankeval.worker.merging import StatesOfUsers
    from spark_rankeval.worker.states import Batches

# What is known of users and their lists.
Exposed = TypeVar("Exposed", Exposure, GroupExposure)

# A warning names so many groups, and counts the others.
_MOST_LISTED = 8
# What tells a state's row from others.
_ROW = "row"


def slice_as_text(key: Key) -> str:
    """A slice as text; the sign for every value is a mapping, which no value is."""
    return json.dumps([{} if value is EVERY else value for value in key])


def exposure_rows(
    users: DataFrame,
    run: Callable[[Batches], Batches],
    item_type: T.DataType,
    *,
    have_slices: bool,
    states_of_users: StatesOfUsers,
    layout: Layout | None = None,
    have_blocks: bool = False,
    have_groups: bool = False,
) -> DataFrame:
    """A row a partition with the state of some users and the exposure of some items: items part the rows, not users.

    One shuffle brings the counts of an item together and spreads the states, so that all is one action. Nothing that depends on
    the order of rows says where a row goes: a task that runs again sends everything to the same places. With a layout users go on to
    the others of their cluster. With blocks of users an item's counts are also those of each block. With groups of
    items there are rows of these as well.
    """
    fields = {
        PLACE: T.IntegerType(),
        STATE: T.BinaryType(),
        SLOT: T.IntegerType(),
        KEY: T.StringType(),
        ITEM: item_type,
        KIND: T.ByteType(),
        BLOCK: T.ByteType(),
        COUNT: T.LongType(),
        GROUP: T.StringType(),
    }
    rows = run_on_workers(users, run, T.StructType([T.StructField(name, kind) for name, kind in fields.items()]))
    # States that are alike are still states of different users.
    is_state = named(STATE).is_not_null()
    place, each = when(is_state, meeting_place()), when(is_state, call("monotonically_increasing_id"))
    others = map(named, (STATE, SLOT, KEY, ITEM, KIND, BLOCK, COUNT, GROUP))
    rows = select(rows, place.alias(PLACE), each.alias(_ROW), *others)
    keys = [PLACE, SLOT, KEY, ITEM]
    # Spark adds up where the rows are, because its keys include all that they are placed by; what does not fit into memory it spills.
    groups = [GROUP] if have_groups else []
    rows, item = rows.repartition(*keys), [*keys, KIND, *groups, _ROW, STATE]
    counted = [call("sum", named(COUNT)).alias(COUNT)]
    if have_blocks:
        rows = aggregate(rows, [*item, BLOCK], *counted)
        counted.append(call("collect_list", call("struct", named(BLOCK), named(COUNT))).alias(BLOCKS))
    whole = aggregate(rows, item, *counted)
    kept = (PLACE, STATE, SLOT, KEY, KIND, COUNT, *groups, *([BLOCKS] if have_blocks else []))
    if not engine_of(users.sparkSession).keeps_order:
        # An engine may part the rows by all keys of the last grouping.
        whole = whole.repartition(*keys)
    together = select(whole, *map(named, kept))
    return (run_by_place if have_slices or layout is not None else run_on_workers)(
        together,
        merge_exposures(
            partial(MergedStates, states_of_users),
            None if layout is None else partial(ClusterMerger, layout),
            FIRST_PLACE,
        ),
        T.StructType([T.StructField(STATE, T.BinaryType()), T.StructField(EXPOSURE, T.BinaryType())]),
    )


def collected_rows(rows: DataFrame) -> tuple[list[bytes], list[bytes]]:
    """The states of users and the exposure of items, packed, in one action."""
    with workers_explained():
        pairs = rows.collect()
    states, exposures = ([bytes(row[place]) for row in pairs if row[place] is not None] for place in (0, 1))
    return states, exposures


def with_corpus_values(
    figures: Mapping[Key, Figures],
    task: ScoringTask,
    packed: list[bytes],
    totals: Mapping[str, int],
    options: DescriptionOptions,
) -> dict[Key, Figures]:
    """The figures of each slice, with the values of all lists together from the packed exposure of items."""
    exposures = exposures_of(packed, slots_of(task), sizes_of(totals))
    group_slots = group_slots_of(task)
    of_groups = group_exposures_of(packed, group_slots)
    slot_of = {(slot.view, metric): slot for slot in group_slots for metric in slot.metrics}
    metrics = [(view, metric) for view, of_view in enumerate(task.views) for metric in of_view.metrics]
    _warn_of_unknown_groups(of_groups.values())
    together = {}
    for key, group in figures.items():
        items, groups = exposures.get(slice_as_text(key), {}), of_groups.get(slice_as_text(key), {})
        values = list(group.values)
        for number, (view, metric) in enumerate(metrics):
            if isinstance(metric, CorpusMetric):
                of_slot = items.get(Slot(view, metric.k))
                parts = () if of_slot is None else (of_slot.whole, *of_slot.without)
                values[number] = _described(metric.value, parts, options, metric.bounds)
            elif isinstance(metric, AllListsGroupMetric):
                of_metric = groups.get(slot_of[view, metric])
                those = () if of_metric is None else (of_metric.whole, *of_metric.without)
                described = _described(metric.value, those, options, metric.bounds)
                interval, reason = described.interval, metric.without_interval(those[0]) if those else ""
                if interval and reason:
                    described = described._replace(interval=Interval.missing(interval.level, interval.method, reason))
                values[number] = described
        together[key] = group._replace(values=values)
    return together


def _warn_of_unknown_groups(of_slices: Iterable[Mapping[GroupSlot, SlotGroups]]) -> None:
    """Warn if a metric is about a group that no item has: 0 or NaN says that of a group that gets nothing, too."""
    known: dict[str, set[str]] = {}
    for of_slots in of_slices:
        for slot, found in of_slots.items():
            names = {name for name in found.names if name is not None}
            for asked in {name for metric in slot.metrics if (name := metric.asked_group) is not None}:
                known.setdefault(asked, set()).update(names)
    unknown = {name: sorted(others) for name, others in known.items() if name not in others}
    for name, others in unknown.items():
        near = did_you_mean(name, others)
        warn(
            f"no item has the group {name!r}; {near}groups in lists or labels: {listed(others, _MOST_LISTED) or 'none'}"
        )


def _described(
    value: Callable[[Exposed], float],
    parts: Sequence[Exposed],
    options: DescriptionOptions,
    bounds: tuple[float, float],
) -> Description:
    """A metric of all users, the first of the parts, and its interval from what it is without each block of them."""
    if not parts:
        return of_one_figure(math.nan, 0, options)
    n_users = parts[0].n_users
    without = [WithoutBlock(value(part), n_users - part.n_users) for part in parts[1:] if part.n_users < n_users]
    return of_one_figure(value(parts[0]), n_users, options, without, bounds)
