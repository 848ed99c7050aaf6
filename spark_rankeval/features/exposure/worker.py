"""Exposure as a feature of a task: what metrics of all lists together count over the users of a partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_rankeval.features.exposure.counted_tables import TablesMerger
from spark_rankeval.features.exposure.figures import with_corpus_values
from spark_rankeval.features.exposure.groups import COUNT, GROUP_EXPOSURE, GroupAccumulator, group_slots_of
from spark_rankeval.features.exposure.items import (
    EXPOSURE,
    HISTOGRAMS,
    N_ITEMS,
    Exposed,
    ExposureAccumulator,
    ExposureMerger,
    slice_as_text,
    slots_of,
)
from spark_rankeval.statistics.bootstrap import blocks_of
from spark_rankeval.worker.features import BatchFeature, PartitionFeature, ScoringFeature
from spark_rankeval.worker.group_states import rows_by_key
from spark_rankeval.worker.reading import columns_of, flags
from spark_rankeval.worker.states import drawn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from spark_rankeval.ranking.batch import RankingBatch
    from spark_rankeval.request.task import ScoringTask
    from spark_rankeval.statistics.description import DescriptionOptions, Figures
    from spark_rankeval.wire import Mergers, Message
    from spark_rankeval.worker.features import FeatureAccumulator, RankedView, ScoredUsers, StateContext
    from spark_rankeval.worker.group_states import Key
    from spark_rankeval.worker.reading import Side


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
        return _Accumulator(self._task, context)


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


class _Accumulator:
    def __init__(self, task: ScoringTask, context: StateContext) -> None:
        self._context = context
        slices_of = lambda key: list(map(slice_as_text, context.roll(key)))  # noqa: E731
        self._counted: list[ExposureAccumulator | GroupAccumulator] = []
        if slots := slots_of(task):
            self._counted.append(ExposureAccumulator(slots, slices_of))
        if group_slots_of(task):
            self._counted.append(GroupAccumulator(task, slices_of))

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
