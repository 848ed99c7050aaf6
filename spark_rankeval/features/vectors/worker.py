"""Lists from vectors as a feature of a task: each model ranks the whole catalogue, from Arrow columns to a `RankingBatch`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.features.vectors.catalogue import (
    CATALOGUE_FAULTS,
    Catalogue,
    Faults,
    PackedCatalogue,
    ScoredUserVectors,
    all_usable,
    is_usable,
)
from spark_rankeval.features.vectors.catalogue_ranks import Limits, Ranks, rank_items
from spark_rankeval.ranking.batch import RankingBatch, depends_on_tie
from spark_rankeval.ranking.lists import RawLists, Ties, distinct_intents, distinct_labels
from spark_rankeval.ranking.matching import distinct
from spark_rankeval.ranking.ragged import Array, BoolArray, IntArray, Ragged
from spark_rankeval.ranking.ranks import RankingCounts, rank_lists
from spark_rankeval.request.options import Similarity
from spark_rankeval.request.task import ScoringTask, View
from spark_rankeval.worker.grouped_row import (
    BIAS,
    CANDIDATES,
    CATALOGUE,
    NO_USER,
    PREDICTION_ROWS,
    VECTOR,
    column_of_model,
)
from spark_rankeval.worker.process import received, runs_in_worker
from spark_rankeval.worker.reading import (
    Side,
    columns_of,
    flags,
    flat,
    indices_among,
    numbers,
    read_excluded,
    side_of,
    whole_numbers,
)
from spark_rankeval.worker.scored_features import BatchFeature, PartitionFeature, ScoringFeature

Batches = Iterator[pa.RecordBatch]

#: The columns of tables of first items, beside those of the user.
RECOMMENDATIONS, N_INVALID, N_INVALID_CATALOGUE = "recommendations", "n_invalid", "n_invalid_catalogue"
# So many first items of lists are worked at a time.
_LISTED = 1 << 20


class TaskCatalogue(NamedTuple):
    """The catalogue of a model, as a task holds it."""

    ids: pa.Array  # of the items, in their order
    scored: Catalogue  # their vectors
    faults: Faults  # what was left out

    @classmethod
    def prepare(cls, packed: PackedCatalogue, similarity: Similarity) -> TaskCatalogue:
        """The same, ready to score."""
        return cls(packed.ids, Catalogue.prepare(packed.vectors, packed.bias, similarity), packed.faults)

    def indices(self, side: Side) -> Ragged:
        """Each user's items by their index in the catalogue, each once; those that it lacks are left out."""
        indices = side.lists.like(self.index_of(side.ids))
        return distinct(indices.where(indices.values >= 0))

    def index_of(self, ids: pa.Array) -> IntArray:
        """The index of each item in the catalogue, −1 if it has none."""
        return indices_among(ids.cast(self.ids.type), self.ids, unknown=-1)


class FirstItems(NamedTuple):
    """The items at the top of lists that are the whole catalogue."""

    k: int  # how many
    ties: Ties  # how equal scores are ordered


class Catalogues:
    """The catalogues of models that a task holds. They come in the task's first row."""

    def __init__(self, similarities: Sequence[Similarity | None]) -> None:
        self._similarities = similarities
        self._models: dict[int, TaskCatalogue] = {}

    def read(self, tables: Mapping[str, pa.Scalar]) -> None:
        """Keep what the first row brings."""
        if self._models:
            return
        for model, similarity in enumerate(self._similarities):
            if similarity is not None and (name := column_of_model(CATALOGUE, model)) in tables:
                packed = PackedCatalogue.unpack(tables[name].as_buffer())
                self._models[model] = TaskCatalogue.prepare(packed, similarity)

    def __getitem__(self, model: int) -> TaskCatalogue:
        return self._models[model]


class UserVectors(NamedTuple):
    """The vectors of a batch of users.

    Attributes:
        users: as they are scored; all 0 for a user without a vector.
        has_vector: which users have a vector that can be used.
        invalid: int64 (n_users,), how many rows of the user cannot be used.
    """

    users: ScoredUserVectors
    has_vector: BoolArray
    invalid: IntArray

    @classmethod
    def read(cls, columns: Mapping[str, pa.Array], model: int, catalogue: Catalogue) -> UserVectors:
        """From the columns of a batch; a vector of another length than those of the catalogue cannot be used.

        If no length is known, none is wrong.
        """
        column, added = columns[column_of_model(VECTOR, model)], numbers(columns[column_of_model(BIAS, model)])
        rows = whole_numbers(columns[column_of_model(PREDICTION_ROWS, model)])
        is_null_user = flags(columns[NO_USER])
        entries, _ = flat(column)
        lengths = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
        has_length = lengths == catalogue.length if catalogue.length else lengths > 0
        has_vector = has_length & all_usable(column) & is_usable(added) & (rows > 0) & ~is_null_user
        vectors = np.zeros((len(rows), catalogue.length))
        if catalogue.length:
            # Rows of another length stand between those that are copied.
            is_usable_entry = np.repeat(has_vector, np.maximum(lengths, 0))
            vectors[has_vector] = numbers(entries)[is_usable_entry].reshape(int(has_vector.sum()), catalogue.length)
        added = np.where(has_vector, added, 0.0)
        # All rows of a user but one, and the last one if it has no vector; all rows of a null user.
        invalid = np.where(is_null_user, rows, np.maximum(rows - 1, 0) + ((rows > 0) & ~has_vector))
        return cls(ScoredUserVectors.prepare(catalogue, vectors, added), has_vector, invalid)


@dataclass
class VectorLists:
    """The lists of a model and a batch of users: the catalogue in the order of each user's scores."""

    catalogue: TaskCatalogue
    vectors: UserVectors
    limits: Limits  # which items are in the lists
    indices: Ragged  # of the labels in the catalogue, −1 for those that it lacks
    first: FirstItems | None = None  # the items that metrics look at; None: at none without a label
    # The ranks of the labels under each rule for ties, which views share; and how many labels are unknown.
    _ranks: dict[Ties, Ranks] = field(default_factory=dict, init=False)
    _n_unknown: IntArray | None = field(default=None, init=False)

    @classmethod
    def read(
        cls,
        columns: Mapping[str, pa.Array],
        model: int,
        catalogue: TaskCatalogue,
        excluded: Side | None,
        labels: Side | None = None,
        first: FirstItems | None = None,
    ) -> VectorLists:
        """From the columns of a batch."""
        vectors = UserVectors.read(columns, model, catalogue.scored)
        candidates = columns.get(column_of_model(CANDIDATES, model))
        limits = Limits(
            has_list=vectors.has_vector,
            excluded=None if excluded is None else catalogue.indices(excluded),
            candidates=None if candidates is None else catalogue.indices(side_of(candidates)),
        )
        indices = _nothing(len(vectors.invalid))
        if labels is not None:
            indices = labels.lists.like(catalogue.index_of(labels.ids))
        return cls(catalogue, vectors, limits, indices, first)

    @property
    def is_rankable(self) -> BoolArray:
        """Which labels are of items of the catalogue."""
        return self.indices.values >= 0

    @cached_property
    def n_predictions(self) -> IntArray:
        """How many items the lists have; int64 (n_users,)."""
        return self.limits.lengths(self.catalogue.scored.n_items)

    def predictions(self) -> Side:
        """The first items of every list, best first, with their scores; the labels are ranked by the way."""
        if self.first is None:
            return self._predictions(_nothing(len(self.vectors.invalid)), np.empty(0))
        k, ties = self.first
        ranks = rank_items(self.vectors.users, self.indices, self.limits, ties, first=k)
        self._ranks[ties] = ranks
        assert ranks.first is not None, "`first` is above 0"
        assert ranks.first_scores is not None, "the same"
        return self._predictions(ranks.first, ranks.first_scores)

    def _predictions(self, items: Ragged, scores: Array) -> Side:
        ids = self.catalogue.ids.take(pa.array(items.values))
        none = np.zeros(items.n_users, np.int64)
        return Side(items, ids, [scores], self.vectors.invalid, none, none)

    def rank(self, view: View, lists: RawLists) -> tuple[RankingBatch, RankingCounts]:
        """The rankings of a view. `lists` has the labels and the first items; the labels' ranks are those in the whole catalogue."""
        labels, ties = distinct_labels(lists, view.ranking.conflicting_labels), view.ranking.ties
        if ties not in self._ranks:
            self._ranks[ties] = rank_items(self.vectors.users, self.indices, self.limits, ties)
        ranks, user = self._ranks[ties], labels.items.user
        if self._n_unknown is None:
            self._n_unknown = np.bincount(user[~self.is_rankable[labels.entry]], minlength=labels.items.n_users)
        settled = np.flatnonzero(ranks.is_ranked[labels.entry])
        settled = settled[np.lexsort((ranks.rank[labels.entry[settled]], user[settled]))]
        label = labels.entry[settled]
        intents = distinct_intents(lists, labels, settled, ranks.rank[label])
        batch = RankingBatch(
            n_users=labels.items.n_users,
            n_predictions=self.n_predictions,
            user=user[settled],
            rank=ranks.rank[label],
            grade=labels.grades.values[settled],
            score=ranks.score[label],
            tied_above=ranks.above[label],
            tied=ranks.tied[label],
            labels=labels.grades,
            raw_labels=labels.raw_grades if view.needs_label_order else None,
            extra_values={name: values.values[settled] for name, values in labels.extra_values.items()},
            label_extra_values=labels.extra_values,
            intents=intents.intents,
        )
        none = np.zeros(batch.n_users, np.int64)
        tied = np.maximum.reduce([none, *(depends_on_tie(batch, look) for look in view.looks)])
        if lists.entry is not None:
            first_batch, findings = rank_lists(
                lists, view.ranking, largest_cutoff=view.largest_cutoff, looks=view.looks
            )
            batch = replace(batch, recommended=first_batch.recommended)
            tied = np.maximum(tied, findings.tied)
        return batch, RankingCounts(
            none,
            labels.equal + intents.equal,
            labels.conflicts + intents.conflicts,
            tied,
            none,
            none,
            self.n_predictions,
        )

    def counts(self) -> dict[str, IntArray]:
        """Counts that other lists have otherwise, by name, once a view was ranked; int64 (n_users,) each."""
        assert self._n_unknown is not None, "a view was ranked"
        return {"n_excluded": self.limits.n_excluded(), "n_labels_without_vector": self._n_unknown}


def _nothing(n_users: int) -> Ragged:
    """No item of each user."""
    return Ragged(np.empty(0, np.int64), np.zeros(n_users + 1, np.int64))


def few_users(batches: Batches, k: int) -> Batches:
    """The batches in parts of users whose first k items fit into little memory."""
    most = max(1, _LISTED // max(1, k))
    for batch in batches:
        for start in range(0, batch.num_rows, most):
            yield batch.slice(start, most)


def first_items_of_batches(
    similarity: Similarity, k: int, user_columns: tuple[str, ...], item: str
) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow``: the first k items of every user as structs of `item` and score, beside the columns passed on."""

    @runs_in_worker
    def run(batches: Batches) -> Batches:
        catalogues, top = Catalogues([similarity]), FirstItems(k, "item_asc")
        for batch, tables in received(few_users(batches, k), (CATALOGUE,)):
            catalogues.read(tables)
            columns = columns_of(batch)
            lists = VectorLists.read(columns, 0, catalogues[0], read_excluded(columns), first=top)
            first = lists.predictions()
            entries: Array = pa.StructArray.from_arrays([first.ids, pa.array(first.values[0])], names=[item, "score"])
            recommended = pa.ListArray.from_arrays(
                pa.array(first.lists.offsets, pa.int32()), entries, mask=pa.array(~lists.vectors.has_vector)
            )
            n_invalid_items = np.full(batch.num_rows, sum(lists.catalogue.faults))
            yield pa.RecordBatch.from_arrays(
                [
                    *(columns[name] for name in user_columns),
                    recommended,
                    pa.array(first.invalid),
                    pa.array(n_invalid_items),
                ],
                names=[*user_columns, RECOMMENDATIONS, N_INVALID, N_INVALID_CATALOGUE],
            )

    return run


@dataclass(frozen=True)
class ListsFromVectors(ScoringFeature):
    """Models that rank by vectors; `similarities` has how each makes scores of them, None for a model that has lists."""

    similarities: tuple[Similarity | None, ...]

    name = "vectors"
    totals = faults = CATALOGUE_FAULTS

    def tables(self) -> tuple[str, ...]:
        """The catalogues of the models."""
        return tuple(column_of_model(CATALOGUE, model) for model in self._models)

    def begin(self, task: ScoringTask) -> PartitionFeature:
        """The catalogues, and how much of the lists a task looks at."""
        return _VectorsOfPartition(self.similarities, {model: first_items(task, model) for model in self._models})

    @property
    def _models(self) -> list[int]:
        return [model for model, similarity in enumerate(self.similarities) if similarity is not None]


def first_items(task: ScoringTask, model: int) -> FirstItems | None:
    """What the metrics of a model look at of lists that are the whole catalogue; None: at no item without a label."""
    views = [view for view in task.views if view.model == model and view.reads_items]
    if not views:
        return None
    # The call was refused if a metric has no cutoff, or if views order ties in different ways. One item more shows whether the last
    # of them is tied.
    depth = max(view.largest_cutoff_of_items or 0 for view in views)
    return FirstItems(1 + depth, views[0].ranking.ties)


class _VectorsOfPartition(PartitionFeature):
    def __init__(self, similarities: Sequence[Similarity | None], firsts: Mapping[int, FirstItems | None]) -> None:
        self._catalogues, self._firsts = Catalogues(similarities), firsts

    def receive(self, tables: Mapping[str, pa.Scalar]) -> None:
        self._catalogues.read(tables)

    def parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        k = max((first.k for first in self._firsts.values() if first is not None), default=0)
        return few_users(iter([batch]), k) if k and batch.num_rows else iter([batch])

    def read(self, columns: Mapping[str, pa.Array], labels: Side, excluded: Side | None) -> BatchFeature:
        return _VectorsOfBatch(
            {
                model: VectorLists.read(columns, model, self._catalogues[model], excluded, labels, first)
                for model, first in self._firsts.items()
            }
        )


class _VectorsOfBatch(BatchFeature):
    def __init__(self, models: Mapping[int, VectorLists]) -> None:
        self.rankers = models
        faults = [lists.catalogue.faults for lists in models.values()]
        self.totals = {
            name: sum(model_faults[index] for model_faults in faults) for index, name in enumerate(CATALOGUE_FAULTS)
        }

    def counts(self, labels: Ragged) -> Mapping[str, Array]:
        """A model that has lists needs no vectors."""
        return {"n_labels_without_vector": np.zeros(labels.n_users, np.int64)}
