"""The states of a partition's users, and what two judges say of them, as messages that merge."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.user_lists import (
    Array,
    BoolArray,
    FloatArray,
    IntArray,
    Ragged,
    RawLists,
    match,
    repeated_items,
)
from spark_rankeval.records.slices import ALL_VALUES, Key
from spark_rankeval.request.call import GRADING_WEIGHT, PARTLY_GRADED, PEOPLE_ALONE, CountNames
from spark_rankeval.request.task import ScoringTask, View
from spark_rankeval.statistics.description import DescriptionOptions, Figures
from spark_rankeval.statistics.judged_queries import JudgedQueries
from spark_rankeval.wire import Batches, Merger, Mergers, Message, unpack
from spark_rankeval.worker import group_states, process
from spark_rankeval.worker import reading as grouped_row
from spark_rankeval.worker.scoring import Rows, count_names, count_of_model, messages_with_rows, score

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
        for (name, *key), rows in group_states.rows_by_key(
            [strata, *(columns[name] for name in names)], batch.num_rows
        ):
            places[rows] = self._place(name, key)
        clusters = None
        if cluster in columns:
            clusters = group_states.hashes_of_clusters(columns[cluster], grouped_row.whole_numbers(columns[user]))
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
            yield Message.of(JUDGED, (figure, self._queries[figure]), bucket)


class JudgedMerger(Merger):
    """One message of each figure."""

    def add(self, bucket: int | None, payloads: Iterable[bytes]) -> Iterator[Message]:
        """Take in what judges say in partitions; gives what they say in all of them."""
        for figure, queries in _totals(payloads).items():
            yield Message.of(JUDGED, (figure, queries), bucket)


def _totals(payloads: Iterable[bytes]) -> dict[FigureName, JudgedQueries]:
    """What both judges say in all partitions, by figure."""
    totals: dict[FigureName, JudgedQueries] = {}
    for figure, queries in map(unpack, payloads):
        totals[figure] = totals[figure] + queries if figure in totals else queries
    return totals


def judged_figures(messages: Iterable[Message]) -> JudgedFigures:
    """What both judges say in messages, by figure and group of users."""

    def part_of(name: str) -> tuple[Key, str]:
        stratum, key = json.loads(name)
        # Users of an unknown stratum are one of their own.
        return tuple(key), _UNKNOWN_STRATUM if stratum is None else stratum

    totals = _totals(message.payload for message in messages if message.kind == JUDGED)
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
        return {JUDGED: JudgedMerger}

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


#: The states of groups from all users of theirs, such as `group_states.states_of` with the number of values.
StatesOfUsers = Callable[[Sequence[group_states.FewUsers]], group_states.GroupStates]

#: How much memory the states of a bucket's groups take at the most.
MERGED_BYTES = 1 << 26


class StatesMerger(Merger):
    """States that come one after the other, as one: all of them at once might not fit into memory.

    Raising in a worker would only run the task again: of groups whose states are too large to be held the number is left.
    """

    def __init__(self, states_of_users: StatesOfUsers, least_bytes: int = 0) -> None:
        self._states_of_users, self._least_bytes = states_of_users, least_bytes
        self._begin()

    def _begin(self) -> None:
        self._users: list[group_states.FewUsers] = []
        self._states: list[group_states.GroupStates] = []
        self._n_bytes = 0
        self._keys: set[Key] = set()
        self._fits = True

    def add(self, bucket: int | None, payloads: Iterable[bytes]) -> Iterator[Message]:
        """Take in the states and the users of small groups of a bucket; gives the states of the groups, or their number."""
        self._begin()
        for payload in payloads:
            self._add(unpack(payload))
        merged = self._merged()
        yield Message.of(group_states.STATES, merged if self._fits else len(self._keys), bucket)

    def _add(self, part: group_states.FewUsers | group_states.GroupStates) -> None:
        self._keys.update(part.keys)
        # Users take far less memory than the states that are made of them.
        if len(self._keys) > 1 and len(self._keys) * self._least_bytes > MERGED_BYTES:
            self._fits = False
        if not self._fits:
            self._users, self._states = [], []
            return
        if isinstance(part, group_states.FewUsers):
            self._users.append(part)
            self._n_bytes += part.users.n_bytes
        else:
            self._states.append(part)
            self._n_bytes += part.n_bytes
        if self._n_bytes > MERGED_BYTES:
            self._merged()

    def _merged(self) -> group_states.GroupStates:
        if self._users:
            self._states.append(self._states_of_users(self._users))
            self._users = []
        merged = group_states.GroupStates.merged(self._states)
        self._n_bytes = merged.n_bytes
        self._fits = self._fits and (self._n_bytes <= MERGED_BYTES or len(self._keys) == 1)
        self._states = [merged] if self._fits else []
        return merged


def merging_states(
    states_of_users: StatesOfUsers, layout: group_states.ClusterLayout | None = None, *, least_bytes: int = 0
) -> Mergers:
    """What makes few messages of the many of each bucket, by kind.

    Args:
        states_of_users: adds up the users of small groups.
        layout: of the users of clusters, who become sums of clusters.
        least_bytes: how much memory the state of a group takes at the least.
    """
    mergers: Mergers = {
        group_states.STATES: lambda: StatesMerger(states_of_users, least_bytes),
    }
    if layout is not None:
        mergers[group_states.CLUSTER_USERS] = lambda: group_states.ClusterMerger(layout)
    return mergers


#: How much memory the states of a task's groups take before they go on as rows.
HELD_BYTES = 1 << 26
# So many users of small batches are parted into groups together.
_TOGETHER = 1 << 16


def state_of_batches(
    task: ScoringTask,
    options: DescriptionOptions,
    keys: tuple[str, ...] = (),
    rollup: Callable[[Key], Iterable[Key]] = lambda key: [key],
    *,
    tables: tuple[str, ...] = (),
    rows: Rows | None = None,
) -> process.Run:
    """A function for ``mapInArrow``: messages with the states of all users of a partition, in groups by the columns `keys`.

    The counts are those of `count_names`, and the fingerprints those of `tables`. `rollup` gives the groups that the users of a key
    belong to, for features that count by them. Of rows without a user only the invalid rows are counted. `rows` gives rows of
    users, which go on as messages, too.
    """
    context = process.StateContext(task.n_values, count_names(task, tables), options, keys, rollup)

    @process.sends_messages
    def run(batches: Batches) -> Iterator[Message]:
        states = PartitionStates(context)
        accumulators: list[process.FeatureAccumulator | None] | None = None
        for batch, features in process.with_features(task, batches):
            if accumulators is None:
                accumulators = [feature.new_accumulator(task, context) for feature in features]
            scores = score(task, batch, features)
            if rows is not None:
                yield from messages_with_rows(rows(batch, scores))
            weights = None
            if task.weight_count:
                # Those of the first model: users have the same for all.
                weights = scores.counts[count_of_model(task.weight_count, 0)].astype(np.float64)
            values = [*scores.metrics, *scores.standard_values]
            yield from states.add(batch, values, scores.counts, scores.normalisers, weights)
            yield from _added(accumulators, process.ScoredUsers(batch, weights, scores.metrics), scores.features)
            # What features have of a batch, such as lists of candidates, makes room for that of the next one.
            del scores
        yield from states.messages()
        for accumulator in accumulators or ():
            if accumulator is not None:
                yield from accumulator.messages()

    return run


def _added(
    accumulators: Sequence[process.FeatureAccumulator | None],
    users: process.ScoredUsers,
    features: Sequence[process.BatchFeature],
) -> Iterator[Message]:
    """Add the users of a batch to what features add up; gives the messages that had to make room."""
    for accumulator, feature in zip(accumulators, features, strict=True):
        if accumulator is not None:
            yield from accumulator.add(users, feature)


def state_of_columns(
    values: tuple[str, ...],
    names: CountNames,
    options: DescriptionOptions,
    keys: tuple[str, ...] = (),
    normalisers: Mapping[int, str] | None = None,
    judges: TwoJudges | None = None,
) -> process.Run:
    """A function for ``mapInArrow``: the state of the users whose values a table holds, in groups by the columns `keys`.

    Counts are columns of their names, and hashes those of `hash_column`. Normalisers are columns by the indices of their values. With two
    judges the count `GRADING_WEIGHT` has the weights of the users whom people graded.
    """

    @process.sends_messages
    def run(batches: Batches) -> Iterator[Message]:
        states = PartitionStates(process.StateContext(len(values), names, options, keys))
        judged = JudgedAccumulator()
        for batch in batches:
            columns = grouped_row.columns_of(batch)
            counts = {}
            for name in (*names.users, *names.rows):
                read = grouped_row.numbers if pa.types.is_floating(columns[name].type) else grouped_row.whole_numbers
                counts[name] = read(columns[name])
            weights = {index: grouped_row.numbers(columns[name]) for index, name in (normalisers or {}).items()}
            user_values = [grouped_row.numbers(columns[name]) for name in values]
            yield from states.add(batch, user_values, counts, weights)
            if judges is not None:
                no_user, weight = columns[grouped_row.NO_USER], columns[GRADING_WEIGHT]
                weight = np.where(grouped_row.flags(no_user), math.nan, grouped_row.numbers(weight))
                graded = judged.graded(batch, keys, weight, is_weighted=judges.is_weighted)
                for pair in judges.pairs:
                    judged.add(pair.human, user_values[pair.human], user_values[pair.judge], graded)
        yield from states.messages()
        yield from judged.messages()

    return run


class PartitionStates:
    """The states of the groups of a partition's users; without keys there is one group.

    What is held at once is bounded: if more groups come than fit, the states so far go on as messages, and new ones begin.
    """

    def __init__(self, context: process.StateContext, *, has_hashes: bool = True) -> None:
        n_values, names, options = context.n_values, context.names, context.options
        self._new = partial(group_states.StateAccumulator, n_values, names, options)
        self._options, self._keys = options, context.keys
        self._hashed = names.tables if has_hashes else ()
        self._clusters = (
            group_states.ClusterRows(group_states.ClusterLayout.for_options(n_values, options, len(context.keys)))
            if options.clustered
            else None
        )
        # Without keys all users are added to one state.
        self._whole = None if context.keys else self._new()
        self._held = group_states.GroupStates([], {})
        # Users of small groups, and how many of each group have come. The replicates of a group must not be made of many groups at once.
        self._small = group_states.SmallGroups()
        self._n_seen: Counter[Key] = Counter()
        self._few = 0 if options.resamples else group_states.FEW
        self._most = max(
            1, HELD_BYTES // group_states.bytes_of_a_group(n_values, len(names.users) + len(names.rows), options)
        )
        # A group costs the same for few users as for many, so users of small batches wait for one another.
        self._waiting: list[tuple[list[pa.Array], BoolArray, group_states.UsersOfGroups]] = []

    def add(
        self,
        batch: pa.RecordBatch,
        values: list[Array],
        counts: Mapping[str, Array],
        normalisers: Mapping[int, Array],
        weights: Array | None = None,
    ) -> Iterator[Message]:
        """Take in the users of a batch; gives the messages that had to make room.

        Without `weights` a column of the batch has them, if users are weighted.
        """
        columns = grouped_row.columns_of(batch)
        about = {"is_null": grouped_row.flags(columns[grouped_row.NO_USER])}
        if self._options.resamples:
            about["hash"] = drawn(columns, self._options)
        if self._options.weighted:
            about["weight"] = grouped_row.numbers(columns[grouped_row.USER_WEIGHT]) if weights is None else weights
        absent = (
            grouped_row.flags(columns[grouped_row.ABSENT])
            if grouped_row.ABSENT in columns
            else np.zeros(batch.num_rows, np.bool_)
        )
        keys = [columns[name] for name in self._keys]
        users = group_states.UsersOfGroups(
            dict(enumerate(values)),
            dict(counts),
            dict(normalisers),
            grouped_row.limbs_of_users(self._hashed, columns),
            about,
        )
        if self._clusters is not None:
            yield from self._sent_to_clusters(self._clusters, columns, keys, users, absent)
        if self._whole is not None:
            self._whole.add(users.take(~absent) if absent.any() else users)
            return
        self._waiting.append((keys, absent, users))
        if sum(len(rows) for _, rows, _ in self._waiting) >= _TOGETHER:
            yield from self._settle()

    def _sent_to_clusters(
        self,
        clusters: group_states.ClusterRows,
        columns: dict[str, pa.Array],
        keys: list[pa.Array],
        users: group_states.UsersOfGroups,
        absent: BoolArray,
    ) -> Iterator[Message]:
        """Send users to the others of their cluster."""
        there = np.flatnonzero(~(users.users["is_null"] | absent))
        rows, some = pa.array(there), users._replace(counts={}, limbs={}).take(there)
        yield from clusters.add(
            columns[grouped_row.CLUSTER_HASH].take(rows),
            grouped_row.whole_numbers(columns[grouped_row.USER_HASH])[there],
            [key.take(rows) for key in keys],
            list(some.values.values()),
            some.users.get("weight"),
            some.normalisers,
        )

    def _settle(self) -> Iterator[Message]:
        """Add the waiting users to the states of their groups, or keep those of small groups."""
        if not self._waiting:
            return
        keys, absent, parts = zip(*self._waiting, strict=True)
        self._waiting = []
        users, is_absent = group_states.UsersOfGroups.concatenated(parts), np.concatenate(absent)
        everybody = np.arange(len(is_absent))
        small: dict[Key, IntArray] = {}
        large: dict[Key, IntArray] = {}
        for key, group_rows in group_states.rows_by_key(
            [pa.concat_arrays(columns) for columns in zip(*keys, strict=True)], len(everybody)
        ):
            rows = everybody[group_rows]
            self._n_seen[key] += len(rows)
            (small if self._n_seen[key] <= self._few else large)[key] = rows
        if small:
            self._small.add(list(small), *_users_of_groups(users, is_absent, list(small.values())))
        if self._small.n_bytes > HELD_BYTES:
            yield from self._small_messages()
        for some in self._chunks(large):
            states = self._new(len(some))
            group, present = _users_of_groups(users, is_absent, [large[key] for key in some])
            states.add(present, group)
            yield from self._hold(states.states(some))

    def add_counts(self, group_counts: Iterable[tuple[Key, Mapping[str, Array]]]) -> Iterator[Message]:
        """Take in counts of groups, an entry each, whether they have users or not; gives the messages that had to make room."""
        counts_by_key = dict(group_counts)
        for some in self._chunks(counts_by_key):
            states = self._new(len(some))
            chunk_counts = [counts_by_key[key] for key in some]
            counts = {name: np.concatenate([each[name] for each in chunk_counts]) for name in chunk_counts[0]}
            states.add_counts(counts, group=np.arange(len(some)))
            yield from self._hold(states.states(some))

    def _chunks(self, keys: Iterable[Key]) -> Iterator[list[Key]]:
        """As many of the groups as can be held."""
        some = list(keys)
        for first in range(0, len(some), self._most):
            yield some[first : first + self._most]

    def _hold(self, states: group_states.GroupStates) -> Iterator[Message]:
        """Keep states; gives those held so far if there would be too many."""
        if len({*self._held.keys, *states.keys}) > self._most:
            yield from self._held_messages()
        self._held = group_states.GroupStates.merged([self._held, states])

    def messages(self) -> Iterator[Message]:
        """The states: groups of one bucket together, and without keys all in one message without a bucket."""
        yield from self._settle()
        yield from self._small_messages()
        if self._whole is not None:
            yield from self._hold(self._whole.states())
        yield from self._held_messages()
        if self._clusters is not None:
            yield from self._clusters.messages()

    def _small_messages(self) -> Iterator[Message]:
        self._n_seen.clear()
        for bucket, users in self._small.by_bucket():
            yield Message.of(group_states.STATES, users, bucket)

    def _held_messages(self) -> Iterator[Message]:
        held, self._held = self._held, group_states.GroupStates([], {})
        for bucket, states in held.by_bucket():
            yield Message.of(group_states.STATES, states, bucket)


def _users_of_groups(
    users: group_states.UsersOfGroups, absent: BoolArray, groups: Sequence[IntArray]
) -> tuple[IntArray, group_states.UsersOfGroups]:
    """The users in the rows of some groups, with the number of each one's group; those who are absent are left out."""
    group, rows = np.repeat(np.arange(len(groups)), list(map(len, groups))), np.concatenate(groups)
    is_there = ~absent[rows]
    return group[is_there], users.take(rows[is_there])


def drawn(columns: Mapping[str, pa.Array], options: DescriptionOptions) -> Array:
    """The hashes by which users are resampled: those of their clusters if they have any; int64 (n_users,)."""
    hashes = grouped_row.whole_numbers(columns[grouped_row.USER_HASH])
    return group_states.hashes_of_clusters(columns[grouped_row.CLUSTER_HASH], hashes) if options.clustered else hashes
