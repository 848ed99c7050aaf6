"""Grades that a judge did not give, as a feature of a task: each view reads the labels of its judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_rankeval.ranking.lists import RawLists
from spark_rankeval.ranking.ragged import Array, Ragged
from spark_rankeval.request.task import ScoringTask, View
from spark_rankeval.worker.reading import Side
from spark_rankeval.worker.scored_features import BatchFeature, PartitionFeature, ScoringFeature


@dataclass(frozen=True)
class Unjudged(ScoringFeature):
    """Labels without a grade are unlabelled for the judge who did not give it."""

    name = "unjudged"

    def begin(self, task: ScoringTask) -> PartitionFeature:
        """The grades of all judges of a task."""
        return _UnjudgedOfPartition(1 + max(view.relevance for view in task.views))


class _UnjudgedOfPartition(PartitionFeature):
    def __init__(self, n_judges: int) -> None:
        self._n_judges = n_judges

    def read(self, columns: Mapping[str, pa.Array], labels: Side, excluded: Side | None) -> BatchFeature:
        return _UnjudgedOfBatch(labels, self._n_judges)


class _UnjudgedOfBatch(BatchFeature):
    def __init__(self, labels: Side, n_judges: int) -> None:
        is_missing = [np.isnan(grades) for grades in labels.values[:n_judges]]
        n_missing = [np.bincount(labels.lists.user[each], minlength=labels.lists.n_users) for each in is_missing]
        self._n_missing = np.sum(n_missing, axis=0)

    def lists_of(self, lists: RawLists, view: View) -> RawLists:
        """The lists with the labels that the judge of the view graded."""
        return lists.with_graded_labels()

    def counts(self, labels: Ragged) -> Mapping[str, Array]:
        """How many grades of a user are missing, of all judges together."""
        return {"n_missing_grades": self._n_missing}
