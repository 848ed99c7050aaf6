"""Groups of items as a feature of a task: users get values in every group where they have a label, in states of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_rankeval.features.item_groups.scores import ScoresOfGroups
from spark_rankeval.features.item_groups.tables import (
    ATTRIBUTE_KEY,
    GROUP_FAULTS,
    GROUP_KEY,
    POPULARITY_TABLES,
    GroupTables,
    table_of,
)
from spark_rankeval.metrics.group_rates import GroupShare
from spark_rankeval.records.slices import is_of_all
from spark_rankeval.request.task import GROUP_FACTS
from spark_rankeval.worker.features import BatchFeature, PartitionFeature, ScoringFeature
from spark_rankeval.worker.states import PartitionStates

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spark_rankeval.ranking.batch import RankingBatch
    from spark_rankeval.ranking.ragged import Array, Ragged
    from spark_rankeval.request.options import ItemGroups
    from spark_rankeval.request.task import ScoringTask
    from spark_rankeval.statistics.description import DescriptionOptions, Figures
    from spark_rankeval.wire import Message
    from spark_rankeval.worker.features import FeatureAccumulator, RankedView, ScoredUsers, StateContext
    from spark_rankeval.worker.group_states import Key
    from spark_rankeval.worker.reading import Side

# If every user has a value in every group of items, so many values are computed at once: 64 MB.
_MOST_VALUES = 1 << 23


@dataclass(frozen=True)
class FiguresOfGroups(ScoringFeature):
    """Figures of only the labels in a group of items."""

    groups: ItemGroups

    name = "groups"
    totals = faults = GROUP_FAULTS
    group_counts = GROUP_FACTS
    keys = (ATTRIBUTE_KEY, GROUP_KEY)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of items."""
        return self.groups.attributes

    def tables(self) -> tuple[str, ...]:
        """One for each attribute of items; metrics may have brought that of popularity already."""
        return (*self._own_tables, *POPULARITY_TABLES)

    @property
    def _own_tables(self) -> tuple[str, ...]:
        return tuple(table_of(place) for place in range(len(self.groups.attributes)))

    def begin(self, task: ScoringTask) -> PartitionFeature:
        """The groups for the metrics of a task."""
        return GroupsOfPartition(self.groups, self._own_tables, task)

    def figures(
        self,
        figures: Mapping[Key, Figures],
        task: ScoringTask,
        messages: Sequence[Message],
        totals: Mapping[str, int],
        options: DescriptionOptions,
    ) -> Mapping[Key, Figures]:
        """The figures, in which users of a slice without a value in a group are counted as undefined there."""
        return with_users_outside(figures, len(self.groups.attributes))


class GroupsOfPartition(PartitionFeature):
    """The tables that put items into groups."""

    def __init__(
        self, groups: ItemGroups, own_tables: Sequence[str], task: ScoringTask, tables: GroupTables | None = None
    ) -> None:
        self._groups, self._own_tables, self.tables = groups, own_tables, tables
        self._n_values = task.n_values
        # Users without a label in a group have such a share, too.
        self._has_shares = any(isinstance(metric, GroupShare) for metric in task.metrics)

    def receive(self, tables: Mapping[str, pa.Scalar]) -> None:
        """Read the tables."""
        if self.tables is None and tables:
            self.tables = GroupTables.read(self._groups, tables)

    def parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The users with columns that say that their rows are about all items, and without the tables.

        They are few if any metric is a share of a group of items, because every user then has a value in every group.
        """
        if self.tables is None or not batch.num_rows:
            # A batch without a row has no group, and does not bring the tables.
            return
        keys = self.tables.no_keys(batch.num_rows)
        # By selection: PyArrow 15, of Spark 3.5, drops no columns of a batch.
        users = batch.select([name for name in batch.schema.names if name not in self._own_tables])
        users = pa.RecordBatch.from_arrays([*users.columns, *keys.values()], names=[*users.schema.names, *keys])
        size = batch.num_rows
        if self._has_shares:
            size = max(1, _MOST_VALUES // (self.tables.n_groups * self._n_values))
        yield from (users.slice(first, size) for first in range(0, batch.num_rows, size))

    def read(self, columns: Mapping[str, pa.Array], labels: Side, excluded: Side | None) -> BatchFeature:
        """The groups of the labels of a batch."""
        if self.tables is None:
            return BatchFeature()
        return GroupsOfBatch(ScoresOfGroups(self.tables, self.tables.places(labels.ids), self._has_shares))

    def new_accumulator(self, context: StateContext) -> FeatureAccumulator:
        """States of users in groups of items."""
        return _Accumulator(self, context)


class GroupsOfBatch(BatchFeature):
    """The values of the users of a batch in groups of items."""

    def __init__(self, scores: ScoresOfGroups) -> None:
        self.scores = scores
        self.totals = scores.tables.faults

    def label_numbers(self, labels: Side) -> Mapping[str, Array]:
        """Where the labels' items stand in the tables."""
        return self.scores.places

    def add(self, ranked: RankedView) -> RankingBatch:
        """Add the metrics of a view."""
        batch = ranked.batch
        entries = np.zeros(0, np.int64) if batch.recommended is None else batch.recommended.entry
        self.scores.add(ranked.view, batch, ranked.included, ranked.predictions.ids.take(pa.array(entries)))
        return batch

    def counts(self, labels: Ragged) -> Mapping[str, Array]:
        """How many labels are of items that the table of items lacks."""
        return {"n_unlisted_labels": self.scores.tables.n_unlisted(labels, self.scores.places)}


def with_users_outside(figures: Mapping[Key, Figures], n_attributes: int) -> dict[Key, Figures]:
    """The figures with all users of a slice without a value in a group of items counted as undefined, labels there or not."""
    whole = {key[n_attributes:]: group for key, group in figures.items() if is_of_all(key[:n_attributes])}
    counted = {}
    for key, group in figures.items():
        of_all = whole.get(key[n_attributes:])
        if of_all is None or is_of_all(key[:n_attributes]):
            counted[key] = group
            continue
        values = []
        for each, of_users in zip(group.values, of_all.values, strict=True):
            n_outside = of_users.moments.n + of_users.moments.n_undefined - each.moments.n
            values.append(each._replace(moments=each.moments._replace(n_undefined=n_outside)))
        counted[key] = group._replace(values=values)
    return counted


class _Accumulator:
    def __init__(self, partition: GroupsOfPartition, context: StateContext) -> None:
        self._partition, self._context = partition, context
        self._states = PartitionStates(context, has_hashes=False)

    def add(self, users: ScoredUsers, scores: BatchFeature) -> Iterator[Message]:
        """Take in the pairs of users and groups of items; they have values, and counts are the users'."""
        if not isinstance(scores, GroupsOfBatch):
            return
        for rows, values in scores.scores.batches(users.batch, self._context.no_user):
            absent = None if users.left_out is None else users.left_out[values.user]
            weights = None if users.weights is None else users.weights[values.user]
            of_pairs = [*values.values, *values.beside]
            yield from self._states.add(rows, of_pairs, {}, values.normalisers, absent, weights)

    def messages(self) -> Iterator[Message]:
        tables = self._partition.tables
        if tables is None:
            return
        n_attributes = len(self._context.keys) - len(FiguresOfGroups.keys)
        yield from self._states.add_counts(tables.group_facts(n_attributes))
        yield from self._states.messages()
