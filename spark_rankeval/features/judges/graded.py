"""Queries that people graded, as a feature of a task: the sums over the values of both judges, for each metric and slice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.matching import match, repeated_items
from spark_rankeval.ranking.ragged import Array, BoolArray, FloatArray, Ragged
from spark_rankeval.records.slices import Key
from spark_rankeval.request.counts import GRADING_WEIGHT, PARTLY_GRADED, PEOPLE_ALONE
from spark_rankeval.request.task import ScoringTask, View
from spark_rankeval.statistics.description import DescriptionOptions, Figures
from spark_rankeval.wire import Mergers, Message
from spark_rankeval.worker.grouped_row import ABSENT, GRADED, PROBABILITY, STRATUM
from spark_rankeval.worker.judged_sums import (
    JUDGED,
    GradedUsers,
    JudgedAccumulator,
    JudgedMerger,
    JudgedPair,
    with_judged_moments,
)
from spark_rankeval.worker.reading import Side, flags, numbers
from spark_rankeval.worker.scored_features import (
    BatchFeature,
    FeatureAccumulator,
    Gathered,
    PartitionFeature,
    ScoredUsers,
    ScoringFeature,
    StateContext,
)

#: The columns of grades of `Judged`, by their places.
JUDGE, HUMAN = 0, 1


def judged_pairs(views: Sequence[View]) -> list[JudgedPair]:
    """The values of the metrics of some views by both judges; of each model the views of the judge come first."""
    indices: dict[tuple[int, int], list[int]] = {}
    n_values = 0
    for view in views:
        places = range(n_values, n_values + len(view.metrics))
        indices.setdefault((view.model, view.relevance), []).extend(places)
        n_values += len(view.metrics)
    models = dict.fromkeys(view.model for view in views)
    return [
        JudgedPair(human, judge)
        for model in models
        for judge, human in zip(indices[model, JUDGE], indices[model, HUMAN], strict=True)
    ]


@dataclass(frozen=True)
class GradedByPeople(ScoringFeature):
    """Queries that people graded, beside all that a model did."""

    is_drawn: bool = False  # with unequal probabilities, or from strata

    name = JUDGED

    def begin(self, task: ScoringTask) -> PartitionFeature:
        """The judges for a partition."""
        return _GradedOfPartition(judged_pairs(task.views))

    def described(self, options: DescriptionOptions, task: ScoringTask) -> DescriptionOptions:
        """The options, by which clusters have the sums of both judges."""
        if not options.clustered:
            return options
        return replace(options, judged=tuple(judged_pairs(task.views)), drawn=self.is_drawn)

    def mergers(self, options: DescriptionOptions) -> Mergers:
        """What adds up the sums of partitions."""
        return {JUDGED: JudgedMerger}

    def figures(self, figures: Mapping[Key, Figures], gathered: Gathered) -> Mapping[Key, Figures]:
        """The figures, in which the human value of a metric has the sums of both judges."""
        pairs = judged_pairs(gathered.task.views)
        return with_judged_moments(figures, gathered.messages, pairs, is_clustered=gathered.options.clustered)


class _GradedOfPartition(PartitionFeature):
    def __init__(self, pairs: Sequence[JudgedPair]) -> None:
        self._pairs = pairs

    def read(self, columns: Mapping[str, pa.Array], labels: Side, excluded: Side | None) -> BatchFeature:
        declared = numbers(columns[GRADED]) > 0 if GRADED in columns else None
        probability = numbers(columns[PROBABILITY]) if PROBABILITY in columns else None
        return GradedOfBatch(labels, declared, probability)

    def new_accumulator(self, context: StateContext) -> FeatureAccumulator:
        return _Accumulator(self._pairs, context)


class GradedOfBatch(BatchFeature):
    """Who of a batch was graded by people, and with which weight."""

    def __init__(self, labels: Side, declared: BoolArray | None, probability: FloatArray | None) -> None:
        self._labels, self._probability = labels, probability
        self.is_graded = np.zeros(labels.lists.n_users, np.bool_) if declared is None else declared
        by_model = labels.lists.user[~np.isnan(labels.values[JUDGE])]
        by_people = labels.lists.user[~np.isnan(labels.values[HUMAN])]
        self._has_model_grade, self._has_human_grade = (
            np.bincount(users, minlength=labels.lists.n_users) > 0 for users in (by_model, by_people)
        )
        self._is_declared = declared is not None
        self.weights = None if probability is None else _weights(probability)

    def compare(self, items: Mapping[str, Ragged], order: Callable[[Array], Array] | None) -> None:
        """Find the users whose labels all have a human grade, if no column declares them."""
        if self._is_declared:
            return
        labels = items["labels"]
        # An item may have its grades in several rows.
        number = np.arange(len(labels.values))
        label, item = match(labels, repeated_items(labels))
        number[label] = len(number) + item
        has_grade = [np.zeros(int(number.max(initial=-1)) + 1, np.bool_) for _ in (JUDGE, HUMAN)]
        for judge, is_graded in enumerate(has_grade):
            is_graded[number[~np.isnan(self._labels.values[judge])]] = True
        by_people = has_grade[HUMAN][number]
        is_open = has_grade[JUDGE][number] & ~by_people
        n_users = labels.n_users
        n_open, n_graded = (np.bincount(labels.user[each], minlength=n_users) for each in (is_open, by_people))
        self.is_graded = (n_graded > 0) & (n_open == 0)

    def included(self, view: View, batch: RankingBatch, users: BoolArray) -> BoolArray:
        """Of the views of people the users whom they graded, and of both the users whom the model graded."""
        return users & self._has_model_grade & (self.is_graded if view.relevance == HUMAN else True)

    def counts(self, labels: Ragged) -> Mapping[str, Array]:
        """The weights of `grading_weight`, whom people alone graded, and whom they graded in part."""
        by_people_alone = self._has_human_grade & ~self._has_model_grade
        is_partly_graded = self._has_human_grade & self._has_model_grade & ~self.is_graded
        # If a column says who is graded, the caller knows of the others.
        is_partly_graded &= not self._is_declared
        counts = {PEOPLE_ALONE: by_people_alone, PARTLY_GRADED: is_partly_graded}
        return {GRADING_WEIGHT: self.grading_weight, **{name: each.astype(np.int64) for name, each in counts.items()}}

    @property
    def grading_weight(self) -> FloatArray:
        """The users' grading weights, as in `GradedUsers`."""
        weights = np.ones(len(self.is_graded)) if self.weights is None else self.weights
        return np.where(self._has_model_grade, np.where(self.is_graded, weights, 0.0), np.nan)


def _weights(probability: FloatArray) -> FloatArray:
    """The inverse of probabilities; −1 of what is none."""
    is_valid = (probability > 0) & (probability <= 1)
    weights: FloatArray = np.divide(1.0, probability, out=np.full(len(probability), -1.0), where=is_valid)
    return weights


class _Accumulator:
    """The sums of both judges over the users of a partition."""

    def __init__(self, pairs: Sequence[JudgedPair], context: StateContext) -> None:
        self._pairs, self._context = pairs, context
        self._sums = JudgedAccumulator()

    def add(self, users: ScoredUsers, scores: BatchFeature) -> Iterator[Message]:
        """Take in the users of a batch."""
        assert isinstance(scores, GradedOfBatch), "the feature of the same task"
        batch = users.batch
        there = ~flags(batch.column(self._context.no_user))
        if ABSENT in batch.schema.names:
            there &= ~flags(batch.column(ABSENT))
        stratum = batch.column(STRATUM) if STRATUM in batch.schema.names else None
        groups = self._sums.groups([batch.column(name) for name in self._context.keys], batch.num_rows, stratum)
        graded = GradedUsers(scores.grading_weight, scores.weights is not None)
        self._sums.add_pairs(self._pairs, users.values, graded, groups, there)
        yield from ()

    def messages(self) -> Iterator[Message]:
        """The sums, a message for each metric."""
        yield from self._sums.messages()
