"""Features of a task: intents of labels, earlier stages, users without an answer, and rows without ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.ranking.batch import RANK, RankingBatch, rank_in_model
from spark_rankeval.ranking.user_lists import (
    Array,
    BoolArray,
    FloatArray,
    IntArray,
    IntentLists,
    Ragged,
    RawLists,
    match,
    repeated_items,
)
from spark_rankeval.request.task import ScoringTask, View
from spark_rankeval.worker import reading as grouped_row
from spark_rankeval.worker.item_facts import ITEM, fields_in
from spark_rankeval.worker.process import BatchFeature, RankedView, ScoringFeature

#: The column of a grouped row, and the field of its structs that has the intent.
INTENTS = "intents"  # labelled items, one entry per item and intent, with grades
INTENT = "intent"


@dataclass(frozen=True)
class Intents(ScoringFeature):
    """What labelled items are about."""

    def read(self, task: ScoringTask, columns: dict[str, pa.Array], labels: grouped_row.Side) -> BatchFeature:
        """The intents of the labels of a batch."""
        if INTENTS not in columns:
            return BatchFeature()
        side = grouped_row.side_of(columns[INTENTS])
        fields = fields_in(side.ids)
        items, intents = fields.pop(ITEM), _codes_in_order(fields.pop(INTENT))
        grades = list(map(grouped_row.numbers, fields.values()))
        return _IntentsOfBatch(side._replace(ids=items, values=grades), intents, clip=task.clip_grades)


class _IntentsOfBatch(BatchFeature):
    def __init__(self, side: grouped_row.Side, intents: IntArray, *, clip: bool) -> None:
        # One entry per item and intent, with grades; and the intents, as ranks of their names.
        self._side, self._intents, self._clip = side, intents, clip
        self._items: Ragged | None = None

    def sides(self) -> Mapping[str, grouped_row.Side]:
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
    return rank[grouped_row.filled(encoded.indices, 0)] if len(rank) else np.empty(0, np.int64)


# What labels have beside their grades: a number for each labelled item of a user, the same for all models.
_ITEM = "labelled_item"


@dataclass(frozen=True)
class Stages(ScoringFeature):
    """Models as stages: each is measured against those before it."""

    def read(self, task: ScoringTask, columns: dict[str, pa.Array], labels: grouped_row.Side) -> BatchFeature:
        """The stages of a batch."""
        return _StagesOfBatch(len(task.views) // len(task.models))


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

    def label_numbers(self, labels: grouped_row.Side) -> Mapping[str, Array]:
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


#: The column of a grouped row. How many rows there are is all that can be hashed of them.
NO_ANSWER = "no_answer_rows"  # how many rows declare that the user has no answer


@dataclass(frozen=True)
class NoAnswer(ScoringFeature):
    """Who has no answer."""

    name = "no_answer"

    def read(self, task: ScoringTask, columns: dict[str, pa.Array], labels: grouped_row.Side) -> BatchFeature:
        """Who of a batch has no answer."""
        return NoAnswerOfBatch(grouped_row.whole_numbers(columns[NO_ANSWER]) > 0)


class NoAnswerOfBatch(BatchFeature):
    """Who of a batch has no answer. A relevant label in any view contradicts that, and wins."""

    def __init__(self, is_declared: BoolArray) -> None:
        self._is_declared = is_declared
        self._has_relevant = np.zeros(len(is_declared), np.bool_)

    def included(self, view: View, batch: RankingBatch, users: BoolArray) -> BoolArray:
        """Users without an answer have no labels, and no predictions if a model is right. Every population counts them."""
        counted: BoolArray = users | (self._is_declared & (batch.n_relevant(view.relevance_threshold) == 0))
        return counted

    def add(self, ranked: RankedView) -> RankingBatch:
        """The rankings with the users who have no answer."""
        has_relevant = ranked.batch.n_relevant(ranked.view.relevance_threshold) > 0
        self._has_relevant |= has_relevant
        return replace(ranked.batch, no_answer=self._is_declared & ~has_relevant)

    def counts(self, labels: Ragged) -> Mapping[str, Array]:
        """Who has no answer, and who is declared so against a label. Labels are the same for every model."""
        return {
            "has_no_answer": (self._is_declared & ~self._has_relevant).astype(np.int64),
            "conflicting_answer": (self._is_declared & self._has_relevant).astype(np.int64),
        }
