"""The ranks of labelled items in the lists of a model and of those before it, as a feature of a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.matching import match, repeated_items
from spark_rankeval.ranking.ragged import Array, FloatArray, Ragged
from spark_rankeval.ranking.recommended import RANK, rank_in_model
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.worker.reading import Side
from spark_rankeval.worker.scored_features import BatchFeature, PartitionFeature, RankedView, ScoringFeature

# What labels have beside their grades: a number for each labelled item of a user, the same for all models.
_ITEM = "labelled_item"


@dataclass(frozen=True)
class Stages(ScoringFeature):
    """Models as stages: each is measured against those before it."""

    def begin(self, task: ScoringTask) -> PartitionFeature:
        """The stages of a task."""
        return _StagesOfPartition(len(task.views) // len(task.models))


class _StagesOfPartition(PartitionFeature):
    def __init__(self, n_views: int) -> None:
        self._n_views = n_views

    def read(self, columns: Mapping[str, pa.Array], labels: Side, excluded: Side | None) -> BatchFeature:
        return _StagesOfBatch(self._n_views)


class _StagesOfBatch(BatchFeature):
    def __init__(self, n_views: int) -> None:
        self._n_views = n_views  # of each model
        self._items = np.empty(0, np.int64)
        self._ranks: dict[int, FloatArray] = {}  # of the labelled items, by the index of the view
        self._labels: dict[int, Ragged] = {}  # the grades, by the index of the view among those of the model

    def compare(self, items: Mapping[str, Ragged], order: Callable[[Array], Array] | None) -> None:
        labels = items["labels"]
        self._items = np.arange(len(labels.values))
        # Labels of one item have one number, so that they stay equal.
        label, item = match(labels, repeated_items(labels))
        self._items[label] = len(labels.values) + item

    def label_numbers(self, labels: Side) -> Mapping[str, Array]:
        return {_ITEM: self._items.astype(np.float64)}

    def add(self, ranked: RankedView) -> RankingBatch:
        batch, index = ranked.batch, ranked.view_index
        ranks = np.full(int(self._items.max(initial=-1)) + 1, np.inf)
        # Of an item that a list has twice, the best rank is written last.
        ranks[batch.extra_values[_ITEM].astype(np.int64)[::-1]] = batch.rank[::-1]
        self._ranks[index] = ranks
        before = range(index % self._n_views, index, self._n_views)
        names = {RANK: ranks, **{rank_in_model(model): self._ranks[view] for model, view in enumerate(before)}}
        items = batch.label_extra_values[_ITEM]
        index_of_item = items.values.astype(np.int64)
        values = {name: items.like(each[index_of_item]) for name, each in names.items()}
        return replace(batch, label_extra_values={**batch.label_extra_values, **values}, labels=self._shared(ranked))

    def _shared(self, ranked: RankedView) -> Ragged:
        """The labels of a view. All models have the same, and sums over them are computed once."""
        labels, view = ranked.batch.labels, ranked.view_index % self._n_views
        first = self._labels.setdefault(view, labels)
        alike = np.array_equal(first.values, labels.values, equal_nan=True) and np.array_equal(
            first.offsets, labels.offsets
        )
        return first if alike else labels
