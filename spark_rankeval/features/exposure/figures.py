"""The figures of metrics of all lists together, from messages of exposure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

from spark_rankeval.errors import did_you_mean, listed, warn
from spark_rankeval.features.exposure.groups import group_exposures_of, group_slots_of
from spark_rankeval.features.exposure.items import Slot, exposures_of, slice_as_text, slots_of
from spark_rankeval.features.items.wire import sizes_of
from spark_rankeval.metrics.exposure_based import CorpusMetric, Exposure
from spark_rankeval.metrics.group_amounts import AllListsGroupMetric, GroupExposure
from spark_rankeval.statistics.bootstrap import WithoutBlock
from spark_rankeval.statistics.description import of_one_figure
from spark_rankeval.statistics.intervals import Interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from spark_rankeval.features.exposure.groups import GroupSlot, SlotGroups
    from spark_rankeval.request.task import ScoringTask
    from spark_rankeval.statistics.description import Description, DescriptionOptions, Figures
    from spark_rankeval.wire import Message
    from spark_rankeval.worker.group_states import Key

# What is known of users and their lists.
Exposed = TypeVar("Exposed", Exposure, GroupExposure)

# A warning names so many groups, and counts the others.
_MOST_LISTED = 8


def with_corpus_values(
    figures: Mapping[Key, Figures],
    task: ScoringTask,
    messages: Sequence[Message],
    totals: Mapping[str, int],
    options: DescriptionOptions,
) -> dict[Key, Figures]:
    """The figures of each slice, with the values of all lists together from messages of exposure."""
    exposures = exposures_of(messages, slots_of(task), sizes_of(totals))
    group_slots = group_slots_of(task)
    of_groups = group_exposures_of(messages, group_slots, has_blocks=options.resamples)
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
