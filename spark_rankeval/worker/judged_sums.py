"""The sums of what two judges say of users, by figure and group: workers add up and merge them, and the driver reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from spark_rankeval.ranking.ragged import Array, BoolArray, FloatArray
from spark_rankeval.records.slices import ALL_VALUES, Key
from spark_rankeval.statistics.description import Figures
from spark_rankeval.statistics.drawn_clusters import STRATA, drawn_clusters, number_of_stratum
from spark_rankeval.statistics.judged_clusters import ClusterGroups, JudgedClusters
from spark_rankeval.statistics.judged_moments import JudgedMoments
from spark_rankeval.statistics.sums import Sums
from spark_rankeval.wire import Merger, Message, unpack
from spark_rankeval.worker.clusters import JUDGED_CLUSTERS, group_name, merged_clusters, text_hash
from spark_rankeval.worker.group_states import rows_by_key

#: The kind of messages with the sums of both judges.
JUDGED = "judged"

#: The name of a figure, such as that of a difference of a model, or the number of a metric.
FigureName = str | int
#: The sums of the values of both judges, by figure and group of users.
JudgedSums = dict[FigureName, dict[Key, JudgedMoments]]

# The name of the sums of users whose stratum is null.
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
    has_strata: bool = False  # from strata, which the column `STRATUM` has

    @property
    def is_drawn(self) -> bool:
        """Whether some users were drawn more often than others."""
        return self.is_weighted or self.has_strata


class GradedUsers(NamedTuple):
    """Whom of some users people graded.

    A grading weight is one over the probability that the user was drawn, 1 if all had the same, and −1 if it is unknown. It is 0 of users
    whom the model alone graded, and NaN of those whom the model did not grade, who are in neither sample.
    """

    grading_weight: FloatArray
    is_weighted: bool

    def only(self, users: Array) -> GradedUsers:
        """Some of these users."""
        return self._replace(grading_weight=self.grading_weight[users])


class _WaitingUsers(NamedTuple):
    """The values of users by both judges, and the places of their groups."""

    human: Array
    judge: Array
    graded: GradedUsers
    groups: Array


class JudgedAccumulator:
    """The sums of figures over users that come batch by batch."""

    def __init__(self) -> None:
        self._groups: dict[str, int] = {}
        self._sums: dict[FigureName, JudgedMoments] = {}
        # Sums cost nearly the same for few users as for many, so users of small batches wait for one another.
        self._waiting: dict[FigureName, list[_WaitingUsers]] = {}
        self._n_waiting = 0

    def groups(self, columns: Sequence[pa.Array], n_users: int, stratum: pa.Array | None = None) -> Array:
        """The place of each user's group, by some columns and the stratum."""
        places = np.full(n_users, self._place("", []), np.int64)
        strata = [pa.repeat(pa.scalar(""), n_users) if stratum is None else stratum]
        for (name, *key), rows in rows_by_key([*strata, *columns], n_users) if columns or stratum is not None else ():
            places[rows] = self._place(name, key)
        return places

    def _place(self, stratum: str | None, key: list[str | None]) -> int:
        return self._groups.setdefault(json.dumps([stratum, key]), len(self._groups))

    def add_pairs(
        self, pairs: Iterable[JudgedPair], values: Sequence[Array], graded: GradedUsers, groups: Array, users: BoolArray
    ) -> None:
        """Add each pair of values of some of the users, under the place of the human value; see `add`."""
        graded, groups = graded.only(users), groups[users]
        for pair in pairs:
            self.add(pair.human, values[pair.human][users], values[pair.judge][users], graded, groups)

    def add(self, figure: FigureName, human: Array, judge: Array, graded: GradedUsers, groups: Array) -> None:
        """Add the values of users by both judges; `groups` has the place of each one's group."""
        sampled = ~np.isnan(graded.grading_weight)
        waiting = _WaitingUsers(human[sampled], judge[sampled], graded.only(sampled), groups[sampled])
        self._waiting.setdefault(figure, []).append(waiting)
        self._n_waiting += len(waiting.human)
        if self._n_waiting > _MOST_WAITING:
            self._settle()

    def _settle(self) -> None:
        waiting, self._waiting, self._n_waiting = self._waiting, {}, 0
        for figure, parts in waiting.items():
            human, judge, graded, groups = zip(*parts, strict=True)
            weight = np.concatenate([each.grading_weight for each in graded])
            sums = JudgedMoments.from_groups(
                np.concatenate(human),
                np.concatenate(judge),
                weight != 0,
                weight if graded[0].is_weighted else None,
                list(self._groups),
                np.concatenate(groups),
            )
            there = {name: each for name, each in sums.strata.items() if each}
            self._sums[figure] = self._sums.get(figure, JudgedMoments()) + JudgedMoments(there)

    def messages(self) -> Iterator[Message]:
        """The sums, a message for each figure in a bucket of its own."""
        self._settle()
        for bucket, figure in enumerate(sorted(self._sums, key=str)):
            yield Message.of(JUDGED, (figure, self._sums[figure]), bucket)


def _totals(parts: Iterable[tuple[FigureName, JudgedMoments]]) -> dict[FigureName, JudgedMoments]:
    by_figure: dict[FigureName, list[JudgedMoments]] = {}
    for figure, moments in parts:
        by_figure.setdefault(figure, []).append(moments)
    return {figure: JudgedMoments.total(each) for figure, each in by_figure.items()}


class JudgedMerger(Merger):
    """One message of each figure."""

    def add(self, bucket: int | None, payloads: Iterable[bytes]) -> Iterator[Message]:
        """Take in the sums of partitions; gives those of all of them."""
        for figure, moments in _totals(map(unpack, payloads)).items():
            yield Message.of(JUDGED, (figure, moments), bucket or 0)


def sums_in(messages: Iterable[Message]) -> JudgedSums:
    """The sums in messages, by figure and group of users."""
    totals = _totals(message.state for message in messages if message.kind == JUDGED)
    sums_by_figure: JudgedSums = {}
    for figure, moments in totals.items():
        by_key: dict[Key, dict[str, Sums]] = {}
        for name, sums in moments.strata.items():
            stratum, key = json.loads(name)
            # Users of an unknown stratum are one of their own.
            by_key.setdefault(tuple(key), {})[_UNKNOWN_STRATUM if stratum is None else stratum] = sums
        sums_by_figure[figure] = {key: JudgedMoments(strata) for key, strata in by_key.items()}
    return sums_by_figure


def sums_of_groups(sums: Mapping[Key, JudgedMoments], groups: Iterable[Key]) -> dict[Key, JudgedMoments]:
    """The sums of each group of users: those of all keys that are alike where the group has a value."""
    masks: dict[tuple[bool, ...], dict[Key, list[JudgedMoments]]] = {}
    totals = {}
    for group in groups:
        mask = tuple(value is ALL_VALUES for value in group)
        if mask not in masks:
            by_group = masks.setdefault(mask, {})
            for key, moments in sums.items():
                rolled = tuple(ALL_VALUES if is_any else value for value, is_any in zip(key, mask, strict=True))
                by_group.setdefault(rolled, []).append(moments)
        totals[group] = JudgedMoments.total(masks[mask].get(group, []))
    return totals


class ClustersOfJudges:
    """The clusters of users, by group and figure."""

    def __init__(self, messages: Iterable[Message], *, is_clustered: bool) -> None:
        self._states = merged_clusters(messages, JUDGED_CLUSTERS) if is_clustered else None

    def added(self, moments: JudgedMoments, group: Key, figure: int) -> JudgedMoments:
        """Sums of a group with those of its clusters, of a figure by its place; the same if users are independent."""
        if self._states is None:
            return moments
        state = self._states.get(group_name(group))
        if state is None:
            return replace(moments, clusters=JudgedClusters.of({}, ClusterGroups()))
        if STRATA not in state:
            return replace(moments, clusters=JudgedClusters.from_state(state, figure))
        strata = {name: number_of_stratum(text_hash(_stratum_of(name))) for name in moments.strata}
        return replace(moments, clusters=drawn_clusters(state, figure, strata))


def _stratum_of(name: str) -> str | None:
    """The stratum of sums of this name."""
    return None if name == _UNKNOWN_STRATUM else name


def with_judged_moments(
    figures: Mapping[Key, Figures], messages: Sequence[Message], pairs: Sequence[JudgedPair], *, is_clustered: bool
) -> dict[Key, Figures]:
    """The figures of all groups, in which the human value of each pair has the sums of both judges; these are named by its place."""
    sums, clusters = sums_in(messages), ClustersOfJudges(messages, is_clustered=is_clustered)
    groups = [sums_of_groups(sums.get(pair.human, {}), figures) for pair in pairs]
    described = {}
    for key, group in figures.items():
        values = list(group.values)
        for figure, (pair, by_group) in enumerate(zip(pairs, groups, strict=True)):
            moments = clusters.added(by_group[key], key, figure)
            values[pair.human] = values[pair.human]._replace(judged=moments)
        described[key] = group._replace(values=values)
    return described
