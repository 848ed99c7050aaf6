"""What a task says of the part of a catalogue that it holds: the scores of asked items, and what of the part stands around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.catalogue.ranks import Asked, count_items
from spark_rankeval.catalogue.scores import Catalogue
from spark_rankeval.worker.catalogue import CATALOGUE_FAULTS, PART, PackedCatalogue
from spark_rankeval.worker.counted_lists import (
    ABOVE,
    ASKED,
    BEFORE,
    ELSEWHERE,
    FIRST,
    FIRST_SCORES,
    HAS_VECTOR,
    KNOWN,
    LISTED,
    N_EXCLUDED,
    N_LISTED,
    PLACE,
    TIED,
    few_users,
    scores_of_asked,
)
from spark_rankeval.worker.process import in_worker
from spark_rankeval.worker.reading import (
    CATALOGUE,
    columns_of,
    filled,
    places_among,
    places_before,
    read_excluded,
    side_of,
)
from spark_rankeval.worker.vector_lists import TaskCatalogue, UserVectors, limits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spark_rankeval.catalogue.scores import Similarity
    from spark_rankeval.ranking.ragged import IntArray, Ragged
    from spark_rankeval.request.task import FirstItems

    Batches = Iterator[pa.RecordBatch]

#: The columns of what a task says of a user: the model's place, and the scores or the struct.
MODEL, ANSWER = "model", "answer"


class Part(NamedTuple):
    """What a task that works a part must know of it."""

    model: int  # the place of the model
    similarity: Similarity
    first: FirstItems | None  # what is asked of the lists' items


def score_asked(parts: tuple[Part, ...], passed_on: tuple[str, ...]) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow``: the scores of each user's asked items in a part, null for those of other parts.

    Users of whom the part has no item have no row.
    """

    @in_worker
    def run(batches: Batches) -> Batches:
        for batch, (model, similarity, _), packed in _with_parts(batches, parts):
            columns = columns_of(batch)
            asked = side_of(columns[ASKED])
            places = places_among(asked.ids.cast(packed.ids.type), packed.ids, unknown=-1)
            # The vectors of the asked items alone: most have none in this part.
            needed, item = np.unique(places[places >= 0], return_inverse=True)
            catalogue = Catalogue.of(packed.vectors[needed], packed.bias[needed], similarity)
            vectors = UserVectors.read(columns, model, catalogue)
            entry = np.flatnonzero(places >= 0)
            has_score = vectors.has_vector[asked.lists.user[entry]]
            entry, item = entry[has_score], item[has_score]
            scores, is_unknown = np.zeros(len(places)), np.ones(len(places), np.bool_)
            scores[entry], is_unknown[entry] = vectors.users.exact(asked.lists.user[entry], item), False
            answers = _answers(columns, passed_on, model, _lists(asked.lists, pa.array(scores, mask=is_unknown)))
            yield answers.take(pa.array(np.unique(asked.lists.user[entry])))

    return run


def count_part(parts: tuple[Part, ...], passed_on: tuple[str, ...]) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow``: a row a user with a struct of what a part says of the user's list; see `counted_lists`."""
    most = max((part.first.k for part in parts if part.first is not None), default=0)

    @in_worker
    def run(batches: Batches) -> Batches:
        catalogue: TaskCatalogue | None = None
        for batch, (model, similarity, first), packed in _with_parts(few_users(batches, most), parts):
            columns = columns_of(batch)
            catalogue = catalogue or TaskCatalogue.of(packed, similarity)
            counts = _counts(columns, model, catalogue, first)
            struct = pa.StructArray.from_arrays([*counts.values()], names=[*counts])
            yield _answers(columns, passed_on, model, struct)

    return run


def _with_parts(batches: Batches, parts: tuple[Part, ...]) -> Iterator[tuple[pa.RecordBatch, Part, PackedCatalogue]]:
    """The batches that have users, each with the part that came with the first row of the task."""
    packed: PackedCatalogue | None = None
    number = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        columns = columns_of(batch)
        if packed is None:
            packed, number = PackedCatalogue.unpack(columns[CATALOGUE][0].as_buffer()), columns[PART][0].as_py()
        if pc.min_max(columns[PART]).as_py() != {"min": number, "max": number}:
            # Nothing that a caller can cause: Spark would have to choose partitions in another way.
            msg = "a task has users of several parts of a catalogue; evaluate with parts=1, and report this"
            raise RuntimeError(msg)
        yield batch, parts[number], packed


def _answers(columns: dict[str, pa.Array], passed_on: tuple[str, ...], model: int, answers: pa.Array) -> pa.RecordBatch:
    place = pa.array(np.full(len(answers), model, np.int32))
    return pa.RecordBatch.from_arrays(
        [*(columns[name] for name in passed_on), place, answers], names=[*passed_on, MODEL, ANSWER]
    )


def _counts(
    columns: dict[str, pa.Array], model: int, catalogue: TaskCatalogue, first: FirstItems | None
) -> dict[str, pa.Array]:
    """What a part says of the lists of a batch of users, field by field."""
    vectors = UserVectors.read(columns, model, catalogue.scored)
    limits = limits_of(columns, model, catalogue, vectors, read_excluded(columns))
    n_users = len(vectors.has_vector)
    asked = side_of(columns[ASKED]) if ASKED in columns else side_of(pa.nulls(n_users, pa.list_(catalogue.ids.type)))
    places = asked.lists.like(catalogue.place_of(asked.ids))
    is_listed = limits.has(places)
    scores = scores_of_asked(columns, model, asked.lists) if ASKED in columns else np.empty(0)
    has_score = vectors.has_vector[asked.lists.user] & ~np.isnan(scores)
    around = asked.lists.like(_places_before(asked.ids, places.values, catalogue))
    counted = count_items(
        vectors.users,
        Asked(around.where(has_score), is_listed[has_score], scores[has_score]),
        limits,
        *(("item_asc", 0) if first is None else (first.ties, first.k)),
    )

    def of_asked(values: IntArray) -> pa.Array:
        whole = np.zeros(len(has_score), np.int64)
        whole[has_score] = values
        return _lists(asked.lists, pa.array(whole))

    place = np.select([is_listed, places.values >= 0], [LISTED, KNOWN], ELSEWHERE)
    fields = {
        HAS_VECTOR: pa.array(vectors.has_vector),
        N_LISTED: pa.array(limits.lengths(catalogue.scored.n_items)),
        N_EXCLUDED: pa.array(limits.n_excluded()),
        **{
            name: pa.array(np.full(n_users, count))
            for name, count in zip(CATALOGUE_FAULTS, catalogue.faults, strict=True)
        },
        PLACE: _lists(asked.lists, pa.array(place, pa.int8())),
        ABOVE: of_asked(counted.above),
        TIED: of_asked(counted.tied),
        BEFORE: of_asked(counted.before),
    }
    nothing = side_of(pa.nulls(n_users, pa.list_(catalogue.ids.type))).lists
    first_items = nothing.like(np.empty(0, np.int64)) if counted.first is None else counted.first
    first_scores = np.empty(0) if counted.first_scores is None else counted.first_scores
    fields[FIRST] = _lists(first_items, catalogue.ids.take(pa.array(first_items.values)))
    fields[FIRST_SCORES] = _lists(first_items, pa.array(first_scores))
    return fields


def _places_before(ids: pa.Array, places: IntArray, catalogue: TaskCatalogue) -> IntArray:
    """How many items of a part come before each asked item by id: its place, if the part has it."""
    encoded = ids.cast(catalogue.ids.type).dictionary_encode()
    if not len(encoded.dictionary):
        return places
    before: IntArray = np.where(
        places >= 0, places, places_before(encoded.dictionary, catalogue.ids)[filled(encoded.indices, 0)]
    )
    return before


def _lists(lists: Ragged, values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(lists.offsets, pa.int32()), values)
