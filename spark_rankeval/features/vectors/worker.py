"""Lists from vectors as a feature of a task: each model ranks the whole catalogue, which every task receives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_rankeval.features.vectors.catalogue import CATALOGUE_FAULTS
from spark_rankeval.features.vectors.lists import Catalogues, FirstItems, VectorLists, few_users
from spark_rankeval.worker.features import BatchFeature, PartitionFeature, ScoringFeature
from spark_rankeval.worker.grouped_row import CATALOGUE, of_model

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from spark_rankeval.request.task import ScoringTask
    from spark_rankeval.request.vectors import Similarity
    from spark_rankeval.worker.reading import Side


@dataclass(frozen=True)
class ListsFromVectors(ScoringFeature):
    """Models that rank by vectors; `similarities` has how each makes scores of them."""

    similarities: tuple[Similarity, ...]

    name = "vectors"
    totals = faults = CATALOGUE_FAULTS

    def tables(self) -> tuple[str, ...]:
        """The catalogues of the models."""
        return tuple(of_model(CATALOGUE, model) for model in range(len(self.similarities)))

    def begin(self, task: ScoringTask) -> PartitionFeature:
        """The catalogues, and how much of the lists a task looks at."""
        return _VectorsOfPartition(
            self.similarities, [first_items(task, model) for model in range(len(self.similarities))]
        )


def first_items(task: ScoringTask, model: int) -> FirstItems | None:
    """What the metrics of a model look at of lists that are the whole catalogue; None: at no item without a label."""
    views = [view for view in task.views if view.model == model and view.reads_items]
    if not views:
        return None
    # The call was refused if a metric has no cutoff, or if views order ties in different ways. One item more shows whether the last
    # of them is tied.
    depth = max(view.largest_cutoff_of_items or 0 for view in views)
    return FirstItems(1 + depth, views[0].ranking.ties)


class _VectorsOfPartition(PartitionFeature):
    def __init__(self, similarities: tuple[Similarity, ...], firsts: Sequence[FirstItems | None]) -> None:
        self._catalogues, self._firsts = Catalogues(similarities), firsts

    def receive(self, tables: Mapping[str, pa.Scalar]) -> None:
        self._catalogues.read(tables)

    def parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        k = max((first.k for first in self._firsts if first is not None), default=0)
        return few_users(iter([batch]), k) if k and batch.num_rows else iter([batch])

    def read(self, columns: Mapping[str, pa.Array], labels: Side, excluded: Side | None) -> BatchFeature:
        return _VectorsOfBatch(
            [
                VectorLists.read(columns, model, self._catalogues[model], excluded, labels, first)
                for model, first in enumerate(self._firsts)
            ]
        )


class _VectorsOfBatch(BatchFeature):
    def __init__(self, models: Sequence[VectorLists]) -> None:
        self.rankers = models
        faults = [lists.catalogue.faults for lists in models]
        self.totals = {name: sum(of_model[place] for of_model in faults) for place, name in enumerate(CATALOGUE_FAULTS)}
