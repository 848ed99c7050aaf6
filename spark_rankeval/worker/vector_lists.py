"""Users' lists that are the whole catalogue, ranked by scores from vectors: from Arrow columns to a `RankingBatch`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.catalogue.ranks import Limits, Ranks, rank_items
from spark_rankeval.catalogue.scores import Catalogue, Users
from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.labels import settle_labels
from spark_rankeval.ranking.matching import distinct
from spark_rankeval.ranking.ragged import Array, BoolArray, IntArray, Ragged
from spark_rankeval.ranking.ranks import Findings, rank_lists
from spark_rankeval.ranking.ties import hangs_on_tie
from spark_rankeval.worker.catalogue import CATALOGUE_FAULTS, Faults, PackedCatalogue, all_finite
from spark_rankeval.worker.process import in_worker
from spark_rankeval.worker.reading import (
    BIAS,
    CANDIDATES,
    CATALOGUE,
    NO_USER,
    PREDICTION_ROWS,
    VECTOR,
    Side,
    columns_of,
    flags,
    flat,
    numbers,
    of_model,
    places_among,
    read_excluded,
    side_of,
    whole_numbers,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spark_rankeval.ranking.lists import Lists, Ties
    from spark_rankeval.request.task import ScoringTask, View

    Batches = Iterator[pa.RecordBatch]

# So many first items of lists are worked at a time.
_LISTED = 1 << 20
#: The columns of tables of first items, beside those of the user.
RECOMMENDATIONS, N_INVALID, N_INVALID_CATALOGUE = "recommendations", "n_invalid", "n_invalid_catalogue"


class TaskCatalogue(NamedTuple):
    """The catalogue of a model, as a task holds it."""

    ids: pa.Array  # of the items, in their order
    scored: Catalogue  # their vectors
    faults: Faults  # what was left out

    def places(self, side: Side) -> Ragged:
        """Each user's items by their place in the catalogue, each once; those that it lacks are left out."""
        places = side.lists.like(self.place_of(side.ids))
        return distinct(places.where(places.values >= 0))

    def place_of(self, ids: pa.Array) -> IntArray:
        """The place of each item in the catalogue, −1 if it has none."""
        return places_among(ids.cast(self.ids.type), self.ids, unknown=-1)


class Catalogues:
    """The catalogues of a task's models. They come in the first row of the task's first batch."""

    def __init__(self, task: ScoringTask) -> None:
        self._similarities = task.similarities
        self._models: list[TaskCatalogue] = []

    def read(self, batch: pa.RecordBatch) -> None:
        """Keep what the first batch brings."""
        if self._models or not batch.num_rows:
            return
        for model, similarity in enumerate(self._similarities):
            packed = PackedCatalogue.unpack(batch.column(of_model(CATALOGUE, model))[0].as_buffer())
            scored = Catalogue.of(packed.vectors, packed.bias, similarity)
            self._models.append(TaskCatalogue(packed.ids, scored, packed.faults))

    def __getitem__(self, model: int) -> TaskCatalogue:
        return self._models[model]

    @property
    def faults(self) -> dict[str, int]:
        """How many rows of all catalogues cannot be used, by the names of `CATALOGUE_FAULTS`."""
        faults = [model.faults for model in self._models]
        return {name: sum(of_model[place] for of_model in faults) for place, name in enumerate(CATALOGUE_FAULTS)}


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

        With an empty catalogue no length is wrong.
        """
        column, added = columns[of_model(VECTOR, model)], numbers(columns[of_model(BIAS, model)])
        rows = whole_numbers(columns[of_model(PREDICTION_ROWS, model)])
        nobody = flags(columns[NO_USER])
        entries, _ = flat(column)
        lengths = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
        has_length = lengths == catalogue.length if catalogue.n_items else lengths > 0
        has_vector = has_length & all_finite(column) & np.isfinite(added) & (rows > 0) & ~nobody
        vectors = np.zeros((len(rows), catalogue.length))
        if catalogue.n_items:
            # Rows of another length stand between those that are copied.
            of_usable = np.repeat(has_vector, np.maximum(lengths, 0))
            vectors[has_vector] = numbers(entries)[of_usable].reshape(int(has_vector.sum()), catalogue.length)
        added = np.where(has_vector, added, 0.0)
        has_vector &= catalogue.can_score(vectors, added)
        vectors[~has_vector], added[~has_vector] = 0.0, 0.0
        invalid = np.where(nobody, rows, np.maximum(rows - 1, 0) + ((rows > 0) & ~has_vector))
        return cls(Users.of(catalogue, vectors, added), has_vector, invalid)


@dataclass
class VectorLists:
    """The lists of a model and a batch of users: the catalogue in the order of each user's scores."""

    catalogue: TaskCatalogue
    vectors: UserVectors
    limits: Limits  # which items are in the lists
    # The labelled items that were ranked under a rule for ties, and their ranks: views share them.
    _ranked: dict[Ties, tuple[Ragged, Ranks]] = field(default_factory=dict)

    @classmethod
    def read(
        cls, columns: dict[str, pa.Array], model: int, catalogue: TaskCatalogue, excluded: Side | None
    ) -> VectorLists:
        """From the columns of a batch."""
        name = of_model(CANDIDATES, model)
        vectors = UserVectors.read(columns, model, catalogue.scored)
        limits = Limits(
            has_list=vectors.has_vector,
            excluded=None if excluded is None else catalogue.places(excluded),
            candidates=catalogue.places(side_of(columns[name])) if name in columns else None,
        )
        return cls(catalogue, vectors, limits)

    def first_items(self, k: int, ties: Ties, labels: Side | None = None) -> Side:
        """The first items of every list, with their scores, as predictions; the labelled items are ranked by the way."""
        places = self._nothing if labels is None else labels.lists.like(self.catalogue.place_of(labels.ids))
        ranks = rank_items(self.vectors.users, places, self.limits, ties, first=k)
        self._ranked[ties] = places, ranks
        assert ranks.first is not None, "it was asked for"
        assert ranks.first_scores is not None, "the same"
        return self._predictions(ranks.first, ranks.first_scores)

    def without_items(self) -> Side:
        """The lists as predictions, if no metric looks at their items."""
        return self._predictions(self._nothing, np.empty(0))

    @property
    def _nothing(self) -> Ragged:
        return Ragged(np.empty(0, np.int64), np.zeros(len(self.vectors.invalid) + 1, np.int64))

    def _predictions(self, items: Ragged, scores: Array) -> Side:
        none = np.zeros(items.n_users, np.int64)
        ids = self.catalogue.ids.take(pa.array(items.values))
        return Side(items, ids, [scores], self.vectors.invalid, none, none)

    def rank(
        self, view: View, lists: Lists, place_of_label: Callable[[IntArray], IntArray]
    ) -> tuple[RankingBatch, Findings]:
        """The rankings of a view. `lists` has the labels and the first items, `place_of_label` the places of labelled items.

        The labels' ranks are those in the whole catalogue.
        """
        labels = settle_labels(lists, view.ranking.conflicting_labels)
        places = labels.items.like(place_of_label(labels.items.values))
        ranks = self._ranks(places, view.ranking.ties)
        ranked = np.flatnonzero(ranks.is_ranked)
        label = ranked[np.lexsort((ranks.rank[ranked], places.user[ranked]))]
        batch = RankingBatch(
            n_users=places.n_users,
            n_predictions=self.limits.lengths(self.catalogue.scored.n_items),
            user=places.user[label],
            rank=ranks.rank[label],
            grade=labels.grades.values[label],
            score=ranks.score[label],
            tied_above=ranks.above[label],
            tied=ranks.tied[label],
            labels=labels.grades,
            labels_as_given=labels.as_given if view.needs_label_order else None,
            beside={name: values.values[label] for name, values in labels.beside.items()},
            beside_labels=labels.beside,
        )
        none = np.zeros(places.n_users, np.int64)
        tied = np.maximum.reduce([none, *(hangs_on_tie(batch, look) for look in view.looks)])
        if lists.entry is not None:
            of_first, findings = rank_lists(lists, view.ranking, largest_cutoff=view.largest_cutoff, looks=view.looks)
            batch = replace(batch, recommended=of_first.recommended)
            tied = np.maximum(tied, findings.tied)
        return batch, Findings(none, labels.equal, labels.conflicts, tied, none, none, none)

    def counts(self) -> dict[str, IntArray]:
        """Counts that other lists have otherwise, by name; int64 (n_users,) each."""
        (places, _), *_ = self._ranked.values()
        without = np.bincount(places.user[places.values < 0], minlength=places.n_users)
        return {"n_excluded": self.limits.n_excluded(), "n_labels_without_vector": without}

    def _ranks(self, labels: Ragged, ties: Ties) -> Ranks:
        known = self._ranked.get(ties)
        if known is None or not all(
            map(np.array_equal, (labels.values, labels.offsets), (known[0].values, known[0].offsets))
        ):
            known = labels, rank_items(self.vectors.users, labels, self.limits, ties)
            self._ranked[ties] = known
        return known[1]


def _few_users(batches: Batches, catalogues: Catalogues, most: int) -> Batches:
    """The batches that have users, in parts of `most` users."""
    for batch in batches:
        catalogues.read(batch)
        for start in range(0, batch.num_rows, most):
            yield batch.slice(start, most)


def first_items_of_batches(
    task: ScoringTask, k: int, passed_on: tuple[str, ...], item: str
) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow``: the first k items of every user as structs of `item` and score, beside the columns passed on."""

    @in_worker
    def run(batches: Batches) -> Batches:
        catalogues = Catalogues(task)
        for batch in _few_users(batches, catalogues, max(1, _LISTED // k)):
            columns = columns_of(batch)
            lists = VectorLists.read(columns, 0, catalogues[0], read_excluded(columns))
            first = lists.first_items(k, "item_asc")
            entries = pa.StructArray.from_arrays([first.ids, pa.array(first.values[0])], names=[item, "score"])
            recommended = pa.ListArray.from_arrays(
                pa.array(first.lists.offsets, pa.int32()), entries, mask=pa.array(~lists.vectors.has_vector)
            )
            n_invalid_items = np.full(batch.num_rows, sum(catalogues.faults.values()))
            yield pa.RecordBatch.from_arrays(
                [
                    *(columns[name] for name in passed_on),
                    recommended,
                    pa.array(first.invalid),
                    pa.array(n_invalid_items),
                ],
                names=[*passed_on, RECOMMENDATIONS, N_INVALID, N_INVALID_CATALOGUE],
            )

    return run
