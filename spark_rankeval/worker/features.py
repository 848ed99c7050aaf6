"""Features of a task: intents of labels, earlier stages, users without an answer, and two judges of labels."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.ranking import user_lists
from spark_rankeval.ranking.batch import RANK, RankingBatch, rank_in_model
from spark_rankeval.ranking.user_lists import Array, BoolArray, FloatArray, IntArray, Ragged, RawLists
from spark_rankeval.records.summary import ALL_VALUES, Key
from spark_rankeval.request.call import GRADING_WEIGHT, PARTLY_GRADED, PEOPLE_ALONE
from spark_rankeval.request.task import ScoringTask, View
from spark_rankeval.statistics.description import DescriptionOptions, Figures
from spark_rankeval.statistics.judged_queries import JudgedQueries
from spark_rankeval.worker import process
from spark_rankeval.worker import reading as grouped_row
from spark_rankeval.worker.item_facts import ITEM, fields_in
from spark_rankeval.worker.process import BatchFeature, Mergers, Message, RankedView, ScoringFeature

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
        return replace(lists, intents=user_lists.IntentLists(self._items, self._intents, grade))

    def tables_met(self, model: int) -> set[str]:
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
        label, item = user_lists.match(labels, user_lists.repeated_items(labels))
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


#: The kind of messages with what both judges say.
JUDGED = "judged"

#: The name of a figure, such as that of a difference of a model, or the number of a metric.
FigureName = str | int
#: What both judges say, by figure and group of users.
JudgedFigures = dict[FigureName, dict[Key, JudgedQueries]]

# The name of the stratum of users whose stratum is null.
_UNKNOWN_STRATUM = "null"
# So many values of users wait at the most.
_MOST_WAITING = 1 << 20


class JudgedPair(NamedTuple):
    """The values of a metric by both judges, by their places among the values of a user."""

    human: int
    judge: int


class TwoJudges(NamedTuple):
    """The values of all metrics by both judges, and how the users whom people graded were drawn."""

    pairs: tuple[JudgedPair, ...]
    is_weighted: bool  # with unequal probabilities


class GradedUsers(NamedTuple):
    """Whom of some users people graded.

    A grading weight is one over the probability that the user was drawn, 1 if all had the same, and −1 if it is unknown. It is 0 of users
    whom the model alone graded, and NaN of those whom the model did not grade, who are in neither sample.
    """

    grading_weight: FloatArray
    is_weighted: bool
    groups: Array  # the place of each one's group; see `JudgedAccumulator.groups`
    clusters: IntArray | None  # the hash of each one's cluster; None if users are independent

    def only(self, users: Array) -> GradedUsers:
        """Some of these users."""
        clusters = None if self.clusters is None else self.clusters[users]
        return self._replace(grading_weight=self.grading_weight[users], groups=self.groups[users], clusters=clusters)


class JudgedAccumulator:
    """What two judges say of figures of users that come batch by batch."""

    def __init__(self) -> None:
        self._groups: dict[str, int] = {}
        self._queries: dict[FigureName, JudgedQueries] = {}
        # Few users cost nearly the same as many, so users of small batches wait for one another.
        self._waiting: dict[FigureName, list[tuple[Array, Array, GradedUsers]]] = {}
        self._n_waiting = 0

    def graded(
        self, batch: pa.RecordBatch, names: Sequence[str], grading_weight: Array, *, is_weighted: bool,
        user: str = grouped_row.USER_HASH, cluster: str = grouped_row.CLUSTER_HASH,
    ) -> GradedUsers:  # fmt: skip
        """The users of a batch, in groups by columns of these names and the stratum; `cluster` may be a column of it."""
        columns = grouped_row.columns_of(batch)
        places = np.full(batch.num_rows, self._place("", []), np.int64)
        strata = columns.get(grouped_row.STRATUM, pa.repeat(pa.scalar(""), batch.num_rows))
        for (name, *key), rows in grouped_row.rows_by_key([strata, *(columns[name] for name in names)], batch.num_rows):
            places[rows] = self._place(name, key)
        clusters = None
        if cluster in columns:
            clusters = grouped_row.hashes_of_clusters(columns[cluster], grouped_row.whole_numbers(columns[user]))
        return GradedUsers(grading_weight, is_weighted, places, clusters)

    def _place(self, stratum: str | None, key: list[str | None]) -> int:
        return self._groups.setdefault(json.dumps([stratum, key]), len(self._groups))

    def add(self, figure: FigureName, human: Array, judge: Array, graded: GradedUsers) -> None:
        """Add the values of users by both judges."""
        sampled = ~np.isnan(graded.grading_weight)
        self._waiting.setdefault(figure, []).append((human[sampled], judge[sampled], graded.only(sampled)))
        self._n_waiting += int(np.count_nonzero(sampled))
        if self._n_waiting > _MOST_WAITING:
            self._settle()

    def _settle(self) -> None:
        waiting, self._waiting, self._n_waiting = self._waiting, {}, 0
        for figure, parts in waiting.items():
            human, judge, graded = zip(*parts, strict=True)
            weight, groups = (
                np.concatenate([getattr(each, name) for each in graded]) for name in ("grading_weight", "groups")
            )
            clusters = None if graded[0].clusters is None else np.concatenate([each.clusters for each in graded])
            weights = weight if graded[0].is_weighted else None
            values = np.concatenate(human), np.concatenate(judge), weight != 0
            made = JudgedQueries.from_places(*values, weights, list(self._groups), groups, clusters)
            self._queries[figure] = self._queries[figure] + made if figure in self._queries else made

    def messages(self) -> Iterator[Message]:
        """What both judges say, a message for each figure in a bucket of its own."""
        self._settle()
        for bucket, figure in enumerate(sorted(self._queries, key=str)):
            yield Message.of(JUDGED, {figure: self._queries[figure]}, bucket)


def _totals(parts: Iterable[dict[FigureName, JudgedQueries]]) -> dict[FigureName, JudgedQueries]:
    """What both judges say in all partitions, by figure."""
    totals: dict[FigureName, JudgedQueries] = {}
    for part in parts:
        for figure, queries in part.items():
            totals[figure] = totals[figure] + queries if figure in totals else queries
    return totals


#: One message of each bucket.
MERGING_JUDGED = process.merging_each_bucket(JUDGED, _totals)


def judged_figures(messages: Iterable[Message]) -> JudgedFigures:
    """What both judges say in messages, by figure and group of users."""

    def part_of(name: str) -> tuple[Key, str]:
        stratum, key = json.loads(name)
        # Users of an unknown stratum are one of their own.
        return tuple(key), _UNKNOWN_STRATUM if stratum is None else stratum

    totals = _totals(message.state for message in messages if message.kind == JUDGED)
    return {figure: queries.parted(part_of) for figure, queries in totals.items()}


def judged_groups(
    queries: Mapping[Key, JudgedQueries], groups: Iterable[Key], *, is_clustered: bool
) -> dict[Key, JudgedQueries]:
    """What both judges say of each group of users: of all keys that are alike where the group has a value."""
    masks: dict[tuple[bool, ...], dict[Key, list[JudgedQueries]]] = {}
    totals = {}
    for group in groups:
        mask = tuple(value is ALL_VALUES for value in group)
        if mask not in masks:
            by_group = masks.setdefault(mask, {})
            for key, of_key in queries.items():
                rolled = tuple(ALL_VALUES if is_any else value for value, is_any in zip(key, mask, strict=True))
                by_group.setdefault(rolled, []).append(of_key)
        totals[group] = JudgedQueries.total(masks[mask].get(group, []), is_clustered=is_clustered)
    return totals


def with_judged_queries(
    figures: Mapping[Key, Figures], messages: Iterable[Message], pairs: Sequence[JudgedPair], *, is_clustered: bool
) -> dict[Key, Figures]:
    """The figures of all groups, in which the human value of each pair has what both judges say, named by its place."""
    judged = judged_figures(messages)
    groups = [judged_groups(judged.get(pair.human, {}), figures, is_clustered=is_clustered) for pair in pairs]
    described = {}
    for key, group in figures.items():
        values = list(group.values)
        for pair, by_group in zip(pairs, groups, strict=True):
            values[pair.human] = values[pair.human]._replace(judged=by_group[key])
        described[key] = group._replace(values=values)
    return described


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
class GradedByPeople(process.ScoringFeature):
    """Queries that people graded, beside all that a model did."""

    name = JUDGED

    def read(self, task: ScoringTask, columns: dict[str, pa.Array], labels: grouped_row.Side) -> process.BatchFeature:
        """Whom of a batch people graded."""
        declared = grouped_row.numbers(columns[grouped_row.GRADED]) > 0 if grouped_row.GRADED in columns else None
        probability = (
            grouped_row.numbers(columns[grouped_row.PROBABILITY]) if grouped_row.PROBABILITY in columns else None
        )
        return GradedOfBatch(labels, declared, probability)

    def new_accumulator(self, task: ScoringTask, context: process.StateContext) -> process.FeatureAccumulator:
        """What both judges say of the users of a partition."""
        return _Accumulator(judged_pairs(task.views), context)

    def mergers(self, options: DescriptionOptions) -> Mergers:
        """What joins partitions."""
        return {JUDGED: MERGING_JUDGED}

    def figures(self, figures: Mapping[Key, Figures], gathered: process.Gathered) -> Mapping[Key, Figures]:
        """The figures, in which the human value of a metric has what both judges say."""
        pairs = judged_pairs(gathered.task.views)
        return with_judged_queries(figures, gathered.messages, pairs, is_clustered=gathered.options.clustered)


class GradedOfBatch(process.BatchFeature):
    """Who of a batch was graded by people, and with which weight."""

    def __init__(self, labels: grouped_row.Side, declared: BoolArray | None, probability: FloatArray | None) -> None:
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
        label, item = user_lists.match(labels, user_lists.repeated_items(labels))
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


class _Accumulator(process.FeatureAccumulator):
    """What both judges say of the users of a partition."""

    def __init__(self, pairs: Sequence[JudgedPair], context: process.StateContext) -> None:
        self._pairs, self._context = pairs, context
        self._judged = JudgedAccumulator()

    def add(self, users: process.ScoredUsers, scores: process.BatchFeature) -> Iterator[Message]:
        """Take in the users of a batch."""
        assert isinstance(scores, GradedOfBatch), "the feature of the same task"
        batch = users.batch
        there = ~grouped_row.flags(batch.column(grouped_row.NO_USER))
        if grouped_row.ABSENT in batch.schema.names:
            there &= ~grouped_row.flags(batch.column(grouped_row.ABSENT))
        weight = np.where(there, scores.grading_weight, math.nan)
        is_weighted = scores.weights is not None
        graded = self._judged.graded(batch, self._context.keys, weight, is_weighted=is_weighted)
        for pair in self._pairs:
            self._judged.add(pair.human, users.values[pair.human], users.values[pair.judge], graded)
        return iter(())

    def messages(self) -> Iterator[Message]:
        """What they say, a message for each metric."""
        return self._judged.messages()


@dataclass(frozen=True)
class Unjudged(process.ScoringFeature):
    """Labels without a grade are unlabelled for the judge who did not give it."""

    name = "unjudged"

    def read(self, task: ScoringTask, columns: dict[str, pa.Array], labels: grouped_row.Side) -> process.BatchFeature:
        """The missing grades of the labels of a batch."""
        return _UnjudgedOfBatch(labels, n_judges=1 + max(view.relevance for view in task.views))


class _UnjudgedOfBatch(process.BatchFeature):
    def __init__(self, labels: grouped_row.Side, n_judges: int) -> None:
        is_missing = [np.isnan(grades) for grades in labels.values[:n_judges]]
        n_missing = [np.bincount(labels.lists.user[each], minlength=labels.lists.n_users) for each in is_missing]
        self._n_missing = np.sum(n_missing, axis=0)

    def lists_of(self, lists: RawLists, view: View) -> RawLists:
        """The lists with the labels that the judge of the view graded."""
        return lists.with_graded_labels()

    def counts(self, labels: Ragged) -> Mapping[str, Array]:
        """How many grades of a user are missing, of all judges together."""
        return {"n_missing_grades": self._n_missing}
