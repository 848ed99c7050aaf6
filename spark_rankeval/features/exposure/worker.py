"""Exposure as a feature of a task: what metrics of all lists together count over the users of a partition, and their figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from spark_rankeval.errors import did_you_mean, listed, warn
from spark_rankeval.features.exposure.counted_tables import TablesMerger
from spark_rankeval.features.exposure.groups import (
    COUNT,
    GROUP_EXPOSURE,
    GroupAccumulator,
    GroupSlot,
    SlotGroups,
    group_exposures_of,
    group_slots_of,
)
from spark_rankeval.features.exposure.items import (
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
from spark_rankeval.features.items.item_columns import sizes_of
from spark_rankeval.metrics.exposure_based import CorpusMetric, Exposure
from spark_rankeval.metrics.group_amounts import AllListsGroupMetric, GroupExposure
from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.statistics.bootstrap import WithoutBlock, blocks_of
from spark_rankeval.statistics.description import Description, DescriptionOptions, Figures, of_one_figure
from spark_rankeval.statistics.intervals import Interval
from spark_rankeval.wire import Mergers, Message
from spark_rankeval.worker.group_states import Key, rows_by_key
from spark_rankeval.worker.reading import Side, columns_of, flags
from spark_rankeval.worker.scored_features import (
    BatchFeature,
    FeatureAccumulator,
    PartitionFeature,
    RankedView,
    ScoredUsers,
    ScoringFeature,
    StateContext,
)
from spark_rankeval.worker.states import drawn

# The exposure of items, or of groups of items.
AnyExposure = TypeVar("AnyExposure", Exposure, GroupExposure)

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
        return of_one_figure(math.nan, 0, options)
    n_users = parts[0].n_users
    leave_one_out = [WithoutBlock(value(part), n_users - part.n_users) for part in parts[1:] if part.n_users < n_users]
    return of_one_figure(value(parts[0]), n_users, options, leave_one_out, bounds)


@dataclass(frozen=True)
class AllLists(ScoringFeature):
    """Metrics of all lists together."""

    needs_all_users = True

    def begin(self, task: ScoringTask) -> PartitionFeature:
        """What the metrics of a task count."""
        return _ExposureOfPartition(task)

    def mergers(self, options: DescriptionOptions) -> Mergers:
        """Counts of items become histograms, and those of groups are added up."""
        return {
            EXPOSURE: lambda: ExposureMerger(has_blocks=options.resamples),
            HISTOGRAMS: lambda: TablesMerger(HISTOGRAMS, N_ITEMS),
            GROUP_EXPOSURE: lambda: TablesMerger(GROUP_EXPOSURE, COUNT),
        }

    def figures(
        self,
        figures: Mapping[Key, Figures],
        task: ScoringTask,
        messages: Sequence[Message],
        totals: Mapping[str, int],
        options: DescriptionOptions,
    ) -> Mapping[Key, Figures]:
        """The figures with the values of all lists together."""
        return with_corpus_values(figures, task, messages, totals, options)


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
        self.exposed: dict[int, Exposed] = {}  # by the view's place

    def add(self, ranked: RankedView) -> RankingBatch:
        """Keep the lists of a view."""
        if ranked.place in self._views:
            self.exposed[ranked.place] = Exposed(ranked.batch, ranked.predictions.ids, ranked.included)
        return ranked.batch


class _ExposureAccumulator:
    def __init__(self, task: ScoringTask, context: StateContext) -> None:
        self._context = context
        slice_texts = lambda key: list(map(slice_as_text, context.roll(key)))  # noqa: E731
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
