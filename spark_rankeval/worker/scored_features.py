"""What features add to the scoring of users: hooks that the core calls, so that it names no feature.

A task carries its features. Each partition begins them, gives them the packed tables of its first row, and then reads batch after batch.
Hooks that a feature does not need do nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa

from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.lists import RawLists
from spark_rankeval.ranking.ragged import Array, BoolArray, Ragged
from spark_rankeval.ranking.ranks import RankingCounts
from spark_rankeval.request.task import Feature, ScoringTask, View
from spark_rankeval.statistics.description import DescriptionOptions, Figures
from spark_rankeval.wire import Mergers, Message
from spark_rankeval.worker.process import received
from spark_rankeval.worker.reading import Side, with_lists_of_models

if TYPE_CHECKING:
    from spark_rankeval.records.slices import Key
    from spark_rankeval.request.counts import CountNames

Batches = Iterator[pa.RecordBatch]


class RankedView(NamedTuple):
    """A model's lists as a view reads them, once they are ranked."""

    view_index: int  # in the task
    view: View
    batch: RankingBatch
    included: BoolArray  # which users the view is about
    predictions: Side  # as they came
    items: Ragged  # the same, so that they compare with other items


class Ranker(Protocol):
    """A model that ranks items by itself, if its lists do not come as rows or arrays."""

    @property
    def is_rankable(self) -> BoolArray:
        """Which labels are of items that it can rank."""

    def predictions(self) -> Side:
        """The items that metrics look at, as if they had come."""

    def rank(self, view: View, lists: RawLists) -> tuple[RankingBatch, RankingCounts]:
        """The rankings of a view."""

    def counts(self) -> Mapping[str, Array]:
        """Counts of users by name, once a view was ranked; int64 (n_users,) each."""


class BatchFeature:
    """A feature for a batch of users."""

    #: Counts that are the same for every user, by name.
    totals: Mapping[str, int] = {}
    #: What ranks the items of models, by index; the lists of the others come with the users.
    rankers: Mapping[int, Ranker] = {}

    def sides(self) -> Mapping[str, Side]:
        """The users' lists in other tables, by role."""
        return {}

    def compare(self, items: Mapping[str, Ragged], order: Callable[[Array], Array] | None) -> None:
        """Take the items of these lists so that they compare with those of predictions, and their order as of `RawLists`."""

    def label_numbers(self, labels: Side) -> Mapping[str, Array]:
        """Numbers that travel with the labels while they are ranked, by name; float64."""
        return {}

    def lists_of(self, lists: RawLists, view: View) -> RawLists:
        """The lists as a view needs them."""
        return lists

    def included(self, view: View, batch: RankingBatch, users: BoolArray) -> BoolArray:
        """Which users a view is about, if it would be about these without the feature."""
        return users

    def add(self, ranked: RankedView) -> RankingBatch:
        """Take in a view, and give its rankings with what the feature knows of them."""
        return ranked.batch

    def counts(self, labels: Ragged) -> Mapping[str, Array]:
        """Counts of users that the feature adds for a model, by name; int64 (n_users,) each. The labels compare."""
        return {}

    def tables_met(self) -> set[str]:
        """The tables that are known to have an item of some list."""
        return set()


class ScoredUsers(NamedTuple):
    """The users of a batch on their way to states."""

    batch: pa.RecordBatch
    weights: Array | None  # the users' weights, if a count is
    values: Sequence[Array]  # float64, an array for each metric of the task


class FeatureAccumulator(Protocol):
    """What a feature adds up over the users of a partition."""

    def add(self, users: ScoredUsers, scores: BatchFeature) -> Iterator[Message]:
        """Take in a batch, with what the feature has of it; gives the messages that had to make room."""

    def messages(self) -> Iterator[Message]:
        """What is left."""


class StateContext(NamedTuple):
    """How the users of a task become states."""

    n_values: int  # how many values a user has
    names: CountNames
    options: DescriptionOptions
    no_user: str  # the column that says whether a row has no user
    keys: tuple[str, ...]  # the columns that divide users into groups
    rollup: Callable[[Key], Iterable[Key]] = lambda key: [key]  # the groups that the users of a key belong to


class PartitionFeature:
    """A feature for the users of a partition."""

    def receive(self, tables: Mapping[str, pa.Scalar]) -> None:
        """Keep what the first row of the partition brings; none if no row has come."""

    def parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The batch in parts that fit into memory; no value depends on how it is cut."""
        yield batch

    def read(self, columns: Mapping[str, pa.Array], labels: Side, excluded: Side | None) -> BatchFeature:
        """What the feature has of a batch of users."""
        return BatchFeature()

    def new_accumulator(self, context: StateContext) -> FeatureAccumulator | None:
        """What adds up over users beside their values; None: nothing."""
        return None


class Gathered(NamedTuple):
    """What the figures of features are made of."""

    task: ScoringTask
    messages: Sequence[Message]
    totals: Mapping[str, int]  # the counts that all users share
    options: DescriptionOptions


class ScoringFeature(Feature):
    """A feature of a task, as it travels to the workers and as the driver reads their messages."""

    #: The columns that tell groups of its own apart, behind those of users.
    keys: tuple[str, ...] = ()

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of items whose groups have figures of their own."""
        return ()

    def tables(self) -> tuple[str, ...]:
        """The columns of packed tables that the first row of a partition may have."""
        return ()

    def begin(self, task: ScoringTask) -> PartitionFeature:
        """The feature for a partition."""
        return PartitionFeature()

    def described(self, options: DescriptionOptions, task: ScoringTask) -> DescriptionOptions:
        """What is to be said of the users' values, with what the feature needs of it."""
        return options

    def mergers(self, options: DescriptionOptions) -> Mergers:
        """What makes few of many messages, by their kinds."""
        return {}

    def figures(self, figures: Mapping[Key, Figures], gathered: Gathered) -> Mapping[Key, Figures]:
        """The figures of all groups with those of the feature."""
        return figures


def features_of(task: ScoringTask) -> list[ScoringFeature]:
    """The features of a task."""
    return [feature for feature in task.features if isinstance(feature, ScoringFeature)]


def begun(task: ScoringTask) -> list[PartitionFeature]:
    """The features of a task for a partition."""
    return [feature.begin(task) for feature in features_of(task)]


def with_features(task: ScoringTask, batches: Batches) -> Iterator[tuple[pa.RecordBatch, list[PartitionFeature]]]:
    """The batches of a partition in parts that fit into memory, each with the features."""
    features = begun(task)
    names = dict.fromkeys(name for feature in features_of(task) for name in feature.tables())
    for batch, tables in received(with_lists_of_models(task.row_models, batches), tuple(names)):
        parts = iter([batch])
        for feature in features:
            feature.receive(tables)
            parts = chain.from_iterable(map(feature.parts, parts))
        yield from ((part, features) for part in parts)
