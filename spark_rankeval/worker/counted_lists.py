"""Lists of a catalogue that is worked in parts: the counts of the parts add up to ranks, and their first items merge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_rankeval.catalogue.ranks import Counted, Ranks
from spark_rankeval.ranking.matching import first_occurrences, match, repeated_items
from spark_rankeval.ranking.ragged import Ragged, offsets_of, position_within
from spark_rankeval.worker.catalogue import CATALOGUE_FAULTS, Faults
from spark_rankeval.worker.comparable_ids import comparable
from spark_rankeval.worker.process import in_worker
from spark_rankeval.worker.reading import (
    NO_USER,
    columns_of,
    flags,
    flat,
    numbers,
    of_model,
    read_excluded,
    side_of,
    whole_numbers,
)
from spark_rankeval.worker.vector_lists import Catalogues, HeldLists, VectorLists, unusable_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spark_rankeval.ranking.lists import Ties
    from spark_rankeval.ranking.ragged import Array, BoolArray, FloatArray, IntArray
    from spark_rankeval.request.task import ScoringTask
    from spark_rankeval.worker.reading import Side

    Batches = Iterator[pa.RecordBatch]

#: Columns of users whose catalogue is worked in parts: the items whose scores are asked for, in an order of their own; of each model
#: their scores, a list from each part that has any of them; and what each part counted, as structs.
ASKED, SCORES_OF_PARTS, COUNTS_OF_PARTS = "asked", "scores_of_parts", "counts_of_parts"
#: Fields of these structs: whether the user has a vector that can be used, how long the part of the list is, and what it lost.
HAS_VECTOR, N_LISTED, N_EXCLUDED = "has_vector", "n_listed", "n_excluded"
#: Fields that are lists of an entry for each asked item: one of the places below, and the counts of `Counted`.
PLACE, ABOVE, TIED, BEFORE = "place", "above", "tied", "before"
#: Fields that are lists of the part's first items and their scores.
FIRST, FIRST_SCORES = "first", "first_scores"
#: Where an asked item is: in another part or in none; in this part; in this part and in the user's list.
ELSEWHERE, KNOWN, LISTED = 0, 1, 2
#: The columns of tables of first items, beside those of the user.
RECOMMENDATIONS, N_INVALID, N_INVALID_CATALOGUE = "recommendations", "n_invalid", "n_invalid_catalogue"
# So many first items of lists are worked at a time.
_LISTED = 1 << 20


def read_vector_lists(
    columns: dict[str, pa.Array],
    model: int,
    catalogues: Catalogues,
    excluded: Side | None,
    labels: Side | None = None,
) -> VectorLists:
    """The lists of a model and a batch of users, whose labels are to be ranked."""
    if of_model(COUNTS_OF_PARTS, model) in columns:
        return CountedLists.read(columns, model, labels)
    return HeldLists.read(columns, model, catalogues[model], excluded, labels)


def faults_of(models: Sequence[VectorLists]) -> dict[str, int]:
    """How many rows of all models' catalogues cannot be used, by the names of `CATALOGUE_FAULTS`."""
    return {name: sum(lists.faults[place] for lists in models) for place, name in enumerate(CATALOGUE_FAULTS)}


def scores_of_asked(columns: dict[str, pa.Array], model: int, asked: Ragged) -> FloatArray:
    """The scores of asked items, from the part that has each; NaN if no part has it."""
    answers, offsets = flat(columns[of_model(SCORES_OF_PARTS, model)])
    values = numbers(answers.flatten())
    entry = _entries(asked, Ragged(answers, offsets).user)
    is_known = ~np.isnan(values)
    scores = np.full(len(asked.values), np.nan)
    scores[entry[is_known]] = values[is_known]
    return scores


def _entries(asked: Ragged, user_of_answer: IntArray) -> IntArray:
    """Which asked item each value is of, of answers that have one for each asked item of their user."""
    answer = np.repeat(np.arange(len(user_of_answer)), asked.lengths[user_of_answer])
    entries: IntArray = asked.offsets[user_of_answer[answer]] + position_within(answer, len(user_of_answer))
    return entries


@dataclass
class CountedLists(VectorLists):
    """Lists whose parts other tasks counted."""

    asked: Ragged  # the items that were asked for
    entry: IntArray  # the place of each label among them
    is_listed: BoolArray  # which of them are in the lists
    scores: FloatArray  # theirs
    counted: Counted  # what stands around them in all parts
    first: Ragged  # the first items of all parts, part by part; their places among the ids
    first_ids: pa.Array
    first_scores: FloatArray

    @classmethod
    def read(cls, columns: dict[str, pa.Array], model: int, labels: Side | None = None) -> CountedLists:
        """From the columns of a batch."""
        answers, offsets = flat(columns[of_model(COUNTS_OF_PARTS, model)])
        user = Ragged(answers, offsets).user
        fields = {field.name: values for field, values in zip(answers.type, answers.flatten(), strict=True)}
        n_users = len(columns[NO_USER])

        def summed(name: str) -> IntArray:
            total = np.zeros(n_users, np.int64)
            np.add.at(total, user, whole_numbers(fields[name]))
            return total

        # All parts say the same.
        has_vector = np.bincount(user[flags(fields[HAS_VECTOR])], minlength=n_users) > 0
        asked, entry, scores = Ragged(np.empty(0), np.zeros(n_users + 1, np.int64)), np.empty(0, np.int64), np.empty(0)
        if labels is not None:
            side = side_of(columns[ASKED])
            asked, entry = side.lists, _entries_of(labels, side)
            scores = scores_of_asked(columns, model, asked)
        entries = _entries(asked, user)

        def gathered(name: str, gather: np.ufunc) -> IntArray:
            values = np.zeros(len(asked.values), np.int64)
            gather.at(values, entries, whole_numbers(fields[name].flatten()))
            return values

        place = gathered(PLACE, np.maximum)
        first_ids, first_offsets = flat(fields[FIRST])
        lengths = np.zeros(n_users, np.int64)
        np.add.at(lengths, user, np.diff(first_offsets))
        return cls(
            labels=labels,
            is_known=place[entry] >= KNOWN,
            has_vector=has_vector,
            invalid=unusable_rows(columns, model, has_vector),
            n_predictions=np.where(has_vector, summed(N_LISTED), 0),
            n_excluded=np.where(has_vector, summed(N_EXCLUDED), 0),
            # Every user has all parts' answers.
            faults=Faults(*(int(summed(name).max(initial=0)) for name in CATALOGUE_FAULTS)),
            asked=asked,
            entry=entry,
            is_listed=(place == LISTED) & has_vector[asked.user],
            scores=scores,
            counted=Counted(gathered(ABOVE, np.add), gathered(TIED, np.add), gathered(BEFORE, np.add)),
            first=Ragged(np.arange(len(first_ids)), offsets_of(lengths)),
            first_ids=first_ids,
            first_scores=numbers(fields[FIRST_SCORES].flatten()),
        )

    def first_items(self, k: int, ties: Ties) -> Side:
        """The first items of every list, best first, of those that the parts have."""
        (codes,), order = comparable((self.first_ids, self.first.offsets))
        codes = codes if order is None else order(codes)
        # Numbers in place of ids, which could be the lowest of their kind and have no opposite.
        place = np.unique(codes, return_inverse=True)[1]
        entries = np.flatnonzero(self.has_vector[self.first.user])
        user = self.first.user[entries]
        order_of_ids = -place[entries] if ties == "item_desc" else place[entries]
        best_first = np.lexsort((order_of_ids, -self.first_scores[entries], user))
        kept = best_first[position_within(user[best_first], self.first.n_users) < k]
        items = Ragged(entries[kept], offsets_of(np.bincount(user[kept], minlength=self.first.n_users)))
        return self._predictions(items, self.first_ids.take(pa.array(items.values)), self.first_scores[items.values])

    def _ranks_of_labels(self, ties: Ties) -> Ranks:
        is_ranked = self.is_listed[self.entry]
        ranked = self.entry[is_ranked]
        counted = Counted(self.counted.above[ranked], self.counted.tied[ranked], self.counted.before[ranked])
        return Ranks.of(counted, self.scores[ranked], is_ranked, ties)


def _entries_of(labels: Side, asked: Side) -> IntArray:
    """The place of each label among the asked items, which have all of them, in any order and as often."""
    (label_items, asked_items), _ = comparable((labels.ids, labels.lists.offsets), (asked.ids, asked.lists.offsets))
    of_asked = asked.lists.like(asked_items)
    once = first_occurrences(of_asked, repeated_items(of_asked))
    matches = match(labels.lists.like(label_items), of_asked.where(once))
    entry = np.empty(len(labels.ids), np.int64)
    entry[matches.prediction] = np.flatnonzero(once)[matches.label]
    return entry


def few_users(batches: Batches, k: int) -> Batches:
    """The batches in parts of users whose first k items fit into little memory."""
    most = max(1, _LISTED // max(1, k))
    for batch in batches:
        for start in range(0, batch.num_rows, most):
            yield batch.slice(start, most)


def first_items_of_batches(
    task: ScoringTask, k: int, passed_on: tuple[str, ...], item: str
) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow``: the first k items of every user as structs of `item` and score, beside the columns passed on."""

    @in_worker
    def run(batches: Batches) -> Batches:
        catalogues = Catalogues(task)
        for batch in few_users(batches, k):
            catalogues.read(batch)
            columns = columns_of(batch)
            lists = read_vector_lists(columns, 0, catalogues, read_excluded(columns))
            first = lists.first_items(k, "item_asc")
            entries: Array = pa.StructArray.from_arrays([first.ids, pa.array(first.values[0])], names=[item, "score"])
            recommended = pa.ListArray.from_arrays(
                pa.array(first.lists.offsets, pa.int32()), entries, mask=pa.array(~lists.has_vector)
            )
            n_invalid_items = np.full(batch.num_rows, sum(lists.faults))
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
