"""The intents of labels as a feature of a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.features.items.item_facts import ITEM
from spark_rankeval.features.items.worker import fields_in
from spark_rankeval.ranking.lists import IntentLists, RawLists
from spark_rankeval.ranking.ragged import Array, IntArray, Ragged
from spark_rankeval.request.task import ScoringTask, View
from spark_rankeval.worker.reading import Side, filled, numbers, side_of
from spark_rankeval.worker.scored_features import BatchFeature, PartitionFeature, ScoringFeature

#: The column of a grouped row, and the field of its structs that has the intent.
INTENTS = "intents"  # labelled items, one entry per item and intent, with grades
INTENT = "intent"


@dataclass(frozen=True)
class Intents(ScoringFeature):
    """What labelled items are about."""

    def begin(self, task: ScoringTask) -> PartitionFeature:
        """The intents of a task's labels."""
        return _IntentsOfPartition(clip=task.clip_grades)


class _IntentsOfPartition(PartitionFeature):
    def __init__(self, *, clip: bool) -> None:
        self._clip = clip

    def read(self, columns: Mapping[str, pa.Array], labels: Side, excluded: Side | None) -> BatchFeature:
        if INTENTS not in columns:
            return BatchFeature()
        side = side_of(columns[INTENTS])
        fields = fields_in(side.ids)
        items, intents = fields.pop(ITEM), _codes_in_order(fields.pop(INTENT))
        grades = list(map(numbers, fields.values()))
        return _IntentsOfBatch(side._replace(ids=items, values=grades), intents, clip=self._clip)


class _IntentsOfBatch(BatchFeature):
    def __init__(self, side: Side, intents: IntArray, *, clip: bool) -> None:
        # One entry per item and intent, with grades; and the intents, as ranks of their names.
        self._side, self._intents, self._clip = side, intents, clip
        self._items: Ragged | None = None

    def sides(self) -> Mapping[str, Side]:
        return {"intents": self._side}

    def compare(self, items: Mapping[str, Ragged], order: Callable[[Array], Array] | None) -> None:
        self._items = items["intents"]

    def lists_of(self, lists: RawLists, view: View) -> RawLists:
        if self._items is None:
            return lists
        grades = self._side.values
        grade = grades[view.relevance] if grades else np.ones(len(self._intents))
        grade = np.maximum(grade, 0.0) if self._clip else grade
        return replace(lists, intents=IntentLists(self._items, self._intents, grade))

    def tables_met(self) -> set[str]:
        return {"intents"} if len(self._side.ids) else set()


def _codes_in_order(names: pa.Array) -> IntArray:
    """A number for each name, in the order of their bytes."""
    encoded = names.dictionary_encode()
    rank = np.empty(len(encoded.dictionary), np.int64)
    rank[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(rank))
    return rank[filled(encoded.indices, 0)] if len(rank) else np.empty(0, np.int64)
