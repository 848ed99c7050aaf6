"""Users without an answer as a feature of a task: rankings know of them, and they are counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.ragged import Array, BoolArray, Ragged
from spark_rankeval.request.task import ScoringTask, View
from spark_rankeval.worker.grouped_row import hash_column
from spark_rankeval.worker.reading import Side, whole_numbers
from spark_rankeval.worker.scored_features import BatchFeature, PartitionFeature, RankedView, ScoringFeature

#: The column of a grouped row. How many rows there are is all that can be hashed of them.
NO_ANSWER = hash_column("no_answer")  # how many rows declare that the user has no answer


@dataclass(frozen=True)
class NoAnswer(ScoringFeature):
    """Who has no answer."""

    name = "no_answer"

    def begin(self, task: ScoringTask) -> PartitionFeature:
        """The feature for a partition."""
        return _NoAnswerOfPartition()


class _NoAnswerOfPartition(PartitionFeature):
    def read(self, columns: Mapping[str, pa.Array], labels: Side, excluded: Side | None) -> BatchFeature:
        return NoAnswerOfBatch(whole_numbers(columns[NO_ANSWER]) > 0)


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
