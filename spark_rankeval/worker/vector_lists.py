"""Users' lists that are the whole catalogue, ranked by scores from vectors: from Arrow columns to a `RankingBatch`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.catalogue.ranks import Limits, Ranks, rank_items
from spark_rankeval.catalogue.scores import Catalogue, Users, is_usable
from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.intents import settle_intents
from spark_rankeval.ranking.labels import settle_labels
from spark_rankeval.ranking.matching import distinct
from spark_rankeval.ranking.ragged import Array, BoolArray, IntArray, Ragged
from spark_rankeval.ranking.ranks import Findings, rank_lists
from spark_rankeval.ranking.ties import hangs_on_tie
from spark_rankeval.worker.catalogue import PackedCatalogue, all_usable
from spark_rankeval.worker.reading import (
    BIAS,
    CANDIDATES,
    CATALOGUE,
    NO_USER,
    PREDICTION_ROWS,
    VECTOR,
    Side,
    flags,
    flat,
    numbers,
    of_model,
    places_among,
    side_of,
    whole_numbers,
)

if TYPE_CHECKING:
    from spark_rankeval.catalogue.scores import Similarity
    from spark_rankeval.ranking.lists import Lists, Ties
    from spark_rankeval.request.task import ScoringTask, View
    from spark_rankeval.worker.catalogue import Faults


class TaskCatalogue(NamedTuple):
    """The catalogue of a model, as a task holds it."""

    ids: pa.Array  # of the items, in their order
    scored: Catalogue  # their vectors
    faults: Faults  # what was left out

    @classmethod
    def of(cls, packed: PackedCatalogue, similarity: Similarity) -> TaskCatalogue:
        """The same, ready to score."""
        return cls(packed.ids, Catalogue.of(packed.vectors, packed.bias, similarity), packed.faults)

    def places(self, side: Side) -> Ragged:
        """Each user's items by their place in the catalogue, each once; those that it lacks are left out."""
        places = side.lists.like(self.place_of(side.ids))
        return distinct(places.where(places.values >= 0))

    def place_of(self, ids: pa.Array) -> IntArray:
        """The place of each item in the catalogue, −1 if it has none."""
        return places_among(ids.cast(self.ids.type), self.ids, unknown=-1)


class Catalogues:
    """The catalogues that a task holds. They come in the first row of the task's first batch."""

    def __init__(self, task: ScoringTask) -> None:
        self._similarities = task.similarities
        self._models: dict[int, TaskCatalogue] = {}

    def read(self, batch: pa.RecordBatch) -> None:
        """Keep what the first batch brings."""
        if self._models or not batch.num_rows:
            return
        for model, similarity in enumerate(self._similarities):
            name = of_model(CATALOGUE, model)
            if name in batch.schema.names:
                packed = PackedCatalogue.unpack(batch.column(name)[0].as_buffer())
                self._models[model] = TaskCatalogue.of(packed, similarity)

    def __getitem__(self, model: int) -> TaskCatalogue:
        return self._models[model]


class UserVectors(NamedTuple):
    """The vectors of a batch of users.

    Attributes:
        users: as they are scored; all 0 for a user without a vector.
        has_vector: which users have a vector that can be used.
        invalid: int64 (n_users,), how many rows of the user cannot be used.
    """

    users: Users
    has_vector: BoolArray
    invalid: IntArray

    @classmethod
    def read(cls, columns: dict[str, pa.Array], model: int, catalogue: Catalogue) -> UserVectors:
        """From the columns of a batch; a vector of another length than those of the catalogue cannot be used.

        If no length is known, none is wrong.
        """
        column, added = columns[of_model(VECTOR, model)], numbers(columns[of_model(BIAS, model)])
        rows = whole_numbers(columns[of_model(PREDICTION_ROWS, model)])
        nobody = flags(columns[NO_USER])
        entries, _ = flat(column)
        lengths = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
        has_length = lengths == catalogue.length if catalogue.length else lengths > 0
        has_vector = has_length & all_usable(column) & is_usable(added) & (rows > 0) & ~nobody
        vectors = np.zeros((len(rows), catalogue.length))
        if catalogue.length:
            # Rows of another length stand between those that are copied.
            of_usable = np.repeat(has_vector, np.maximum(lengths, 0))
            vectors[has_vector] = numbers(entries)[of_usable].reshape(int(has_vector.sum()), catalogue.length)
        added = np.where(has_vector, added, 0.0)
        return cls(Users.of(catalogue, vectors, added), has_vector, unusable_rows(columns, model, has_vector))


def unusable_rows(columns: dict[str, pa.Array], model: int, has_vector: BoolArray) -> IntArray:
    """How many rows of each user's vectors cannot be used: all but one, and the last one if it has none; of nobody, all."""
    rows, nobody = whole_numbers(columns[of_model(PREDICTION_ROWS, model)]), flags(columns[NO_USER])
    return np.where(nobody, rows, np.maximum(rows - 1, 0) + ((rows > 0) & ~has_vector))


def limits_of(
    columns: dict[str, pa.Array],
    model: int,
    catalogue: TaskCatalogue,
    vectors: UserVectors,
    excluded: Side | None,
) -> Limits:
    """Which items of a catalogue are in the lists of a batch of users."""
    name = of_model(CANDIDATES, model)
    return Limits(
        has_list=vectors.has_vector,
        excluded=None if excluded is None else catalogue.places(excluded),
        candidates=catalogue.places(side_of(columns[name])) if name in columns else None,
    )


@dataclass
class VectorLists(ABC):
    """The lists of a model and a batch of users: the catalogue in the order of each user's scores."""

    labels: Side | None  # None: nobody asks for their ranks
    is_known: BoolArray  # which labels are of items of the catalogue
    has_vector: BoolArray  # which users have a vector that can be used
    invalid: IntArray  # int64 (n_users,), how many rows of vectors cannot be used
    n_predictions: IntArray  # int64 (n_users,), how many items the lists have
    n_excluded: IntArray  # int64 (n_users,), how many they lost
    faults: Faults  # what was left out of the catalogue
    # The ranks of the labels under each rule for ties, which views share; and how many labels are unknown.
    _ranks: dict[Ties, Ranks] = field(default_factory=dict, init=False)
    _n_unknown: IntArray | None = field(default=None, init=False)

    @abstractmethod
    def first_items(self, k: int, ties: Ties) -> Side:
        """The first items of every list, best first, with their scores, as predictions."""

    @abstractmethod
    def _ranks_of_labels(self, ties: Ties) -> Ranks:
        """The ranks of all labels, as they came."""

    def without_items(self) -> Side:
        """The lists as predictions, if no metric looks at their items."""
        assert self.labels is not None, "somebody asks for ranks"
        nothing = Ragged(np.empty(0, np.int64), np.zeros(len(self.invalid) + 1, np.int64))
        return self._predictions(nothing, self.labels.ids.slice(0, 0), np.empty(0))

    def _predictions(self, items: Ragged, ids: pa.Array, scores: Array) -> Side:
        none = np.zeros(items.n_users, np.int64)
        return Side(items, ids, [scores], self.invalid, none, none)

    def rank(self, view: View, lists: Lists) -> tuple[RankingBatch, Findings]:
        """The rankings of a view. `lists` has the labels and the first items; the labels' ranks are those in the whole catalogue."""
        labels, ties = settle_labels(lists, view.ranking.conflicting_labels), view.ranking.ties
        if ties not in self._ranks:
            self._ranks[ties] = self._ranks_of_labels(ties)
        ranks, user = self._ranks[ties], labels.items.user
        if self._n_unknown is None:
            self._n_unknown = np.bincount(user[~self.is_known[labels.entry]], minlength=labels.items.n_users)
        settled = np.flatnonzero(ranks.is_ranked[labels.entry])
        settled = settled[np.lexsort((ranks.rank[labels.entry[settled]], user[settled]))]
        label = labels.entry[settled]
        intents = settle_intents(lists, labels, settled, ranks.rank[label])
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
            labels_as_given=labels.as_given if view.needs_label_order else None,
            beside={name: values.values[settled] for name, values in labels.beside.items()},
            beside_labels=labels.beside,
            intents=intents.intents,
        )
        none = np.zeros(batch.n_users, np.int64)
        tied = np.maximum.reduce([none, *(hangs_on_tie(batch, look) for look in view.looks)])
        if lists.entry is not None:
            of_first, findings = rank_lists(lists, view.ranking, largest_cutoff=view.largest_cutoff, looks=view.looks)
            batch = replace(batch, recommended=of_first.recommended)
            tied = np.maximum(tied, findings.tied)
        return batch, Findings(
            none, labels.equal + intents.equal, labels.conflicts + intents.conflicts, tied, none, none, none
        )

    def counts(self) -> dict[str, IntArray]:
        """Counts that other lists have otherwise, by name, once a view was ranked; int64 (n_users,) each."""
        assert self._n_unknown is not None, "a view was ranked"
        return {"n_excluded": self.n_excluded, "n_labels_without_vector": self._n_unknown}


@dataclass
class HeldLists(VectorLists):
    """Lists of a catalogue that the task holds."""

    catalogue: TaskCatalogue
    vectors: UserVectors
    limits: Limits  # which items are in the lists
    places: Ragged  # of the labels in the catalogue, −1 for none

    @classmethod
    def read(
        cls,
        columns: dict[str, pa.Array],
        model: int,
        catalogue: TaskCatalogue,
        excluded: Side | None,
        labels: Side | None = None,
    ) -> HeldLists:
        """From the columns of a batch."""
        vectors = UserVectors.read(columns, model, catalogue.scored)
        limits = limits_of(columns, model, catalogue, vectors, excluded)
        if labels is None:
            places = Ragged(np.empty(0, np.int64), np.zeros(len(vectors.invalid) + 1, np.int64))
        else:
            places = labels.lists.like(catalogue.place_of(labels.ids))
        return cls(
            labels=labels,
            is_known=places.values >= 0,
            has_vector=vectors.has_vector,
            invalid=vectors.invalid,
            n_predictions=limits.lengths(catalogue.scored.n_items),
            n_excluded=limits.n_excluded(),
            faults=catalogue.faults,
            catalogue=catalogue,
            vectors=vectors,
            limits=limits,
            places=places,
        )

    def first_items(self, k: int, ties: Ties) -> Side:
        """The first items of every list; the labels are ranked by the way."""
        ranks = rank_items(self.vectors.users, self.places, self.limits, ties, first=k)
        self._ranks[ties] = ranks
        assert ranks.first is not None, "it was asked for"
        assert ranks.first_scores is not None, "the same"
        return self._predictions(ranks.first, self.catalogue.ids.take(pa.array(ranks.first.values)), ranks.first_scores)

    def _ranks_of_labels(self, ties: Ties) -> Ranks:
        return rank_items(self.vectors.users, self.places, self.limits, ties)
