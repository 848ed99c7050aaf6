"""The whole catalogue in shards: a task holds one shard and some users at a time, and what it counts adds up over shards."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from spark_rankeval.ranking import user_lists
from spark_rankeval.ranking.user_lists import Array, IntArray
from spark_rankeval.request.call import Similarity
from spark_rankeval.worker import process
from spark_rankeval.worker import reading as grouped_row
from spark_rankeval.worker import vectors as catalogue
from spark_rankeval.worker.reading import numbers

#: The columns of rows of items and of users on their way: the shard, whether the row is of a user, and the user's vector. Rows of items
#: have what rows of catalogues have, and rows of users bring their lists.
SHARD, IS_USER, USER_VECTOR = "shard", "is_user", "user_vector"
# The vectors of users that are worked at a time have so many numbers.
_NUMBERS = 1 << 20
_UNSORTED = "rows are not in the order of their shards, so the engine cannot run this package"


class Shard:
    """The items of a shard.

    Attributes:
        catalogues: those with vectors of one length each, by length: only the whole catalogue tells which length is usual.
        n_invalid: how many rows cannot be used, whatever length is usual.
        lengths: structs of each length with how many rows can be used, and how many of these repeat an item.
    """

    def __init__(self, rows: catalogue.ItemRows, item_type: pa.DataType, similarity: Similarity) -> None:
        self._item_type, self._similarity = item_type, similarity
        self.n_invalid, self.catalogues = rows.n_invalid, dict[int, catalogue.TaskCatalogue]()
        for length in rows.n_rows:
            self.catalogues[length] = self._catalogue(*rows.items(length))
        n_repeated = [n_rows - len(self.catalogues[length].ids) for length, n_rows in rows.n_rows.items()]
        columns = np.array([[*rows.n_rows], [*rows.n_rows.values()], n_repeated], np.int64)
        self.lengths = _structs(
            dict(zip((catalogue.LENGTH, catalogue.N_ROWS, catalogue.N_REPEATED), columns, strict=True))
        )

    def _catalogue(self, ids: pa.Array, vectors: Array, bias: Array) -> catalogue.TaskCatalogue:
        return catalogue.TaskCatalogue(ids, catalogue.Catalogue(vectors, bias, self._similarity), catalogue.Faults())

    def of_length(self, length: int) -> catalogue.TaskCatalogue:
        """The items with vectors of a length; there may be none."""
        nothing = pa.array([], self._item_type), np.empty((0, length)), np.empty(0)
        return self.catalogues.get(length) or self._catalogue(*nothing)


def _structs(columns: dict[str, Array | pa.Array]) -> pa.StructArray:
    return pa.StructArray.from_arrays(list(map(pa.array, columns.values())), names=list(columns))


def _lists(offsets: IntArray, structs: pa.StructArray) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs)


#: What is made of a shard and a batch of users whose vectors have one length, 0 if they cannot be used.
Work = Callable[[Shard, int, pa.RecordBatch], Iterable[pa.RecordBatch]]


def in_shards(similarity: Similarity, work: Work, k: int = 0) -> process.Run:
    """A function for ``mapInArrow``: what is made of each shard and the users who meet it. Their lists have `k` first items.

    Each shard's rows come together, first those of items. They are gone when the next shard comes.
    """

    @process.runs_in_worker
    def run(batches: process.Batches) -> process.Batches:
        met = set[int]()
        current: int | None = None
        for number, are_users, part in _parts(batches):
            if number != current:
                if number in met:
                    raise ValueError(_UNSORTED)
                item_type = part.schema.field(catalogue.CATALOGUE_ITEM).type
                met.add(number)
                current, shard, rows = number, None, catalogue.ItemRows(item_type)
            if are_users:
                shard = shard or Shard(rows, item_type, similarity)
                for length, users in _users_by_length(part, k):
                    yield from work(shard, length, users)
            elif shard is None:
                rows.add(part)
            else:
                raise ValueError(_UNSORTED)

    return run


def _parts(batches: process.Batches) -> Iterator[tuple[int, bool, pa.RecordBatch]]:
    """Rows of one shard and kind at a time, in their order: the shard, and whether they are of users."""
    for batch in filter(len, batches):
        shard, is_user = grouped_row.whole_numbers(batch.column(SHARD)), grouped_row.flags(batch.column(IS_USER))
        starts = np.flatnonzero(user_lists.starts_of_runs(shard, is_user)).tolist()
        for start, stop in pairwise([*starts, batch.num_rows]):
            yield int(shard[start]), bool(is_user[start]), batch.slice(start, stop - start)


def _users_by_length(users: pa.RecordBatch, k: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Users with vectors of one length, 0 if they cannot be used, as many as fit into memory with their first items."""
    lengths = catalogue.usable_lengths(users.column(USER_VECTOR), numbers(users.column(catalogue.ITEM_BIAS)))
    for length in np.unique(lengths).tolist():
        of_length = users.filter(pa.array(lengths == length))
        most = max(1, _NUMBERS // max(1, length))
        for start in range(0, of_length.num_rows, most):
            for part in catalogue.few_users(iter([of_length.slice(start, most)]), k):
                yield length, part


def _scored(items: catalogue.TaskCatalogue, length: int, users: pa.RecordBatch) -> catalogue.ScoredUserVectors:
    vectors, bias = np.zeros((users.num_rows, length)), np.zeros(users.num_rows)
    if length:
        vectors = numbers(users.column(USER_VECTOR).flatten()).reshape(-1, length)
        bias = numbers(users.column(catalogue.ITEM_BIAS))
    return catalogue.ScoredUserVectors(items.scored, vectors, bias)


def label_scores(user_columns: tuple[str, ...]) -> Work:
    """The labels of users that a shard has: item, length of its vector, and score, NaN if the user's vector has no such length."""

    def work(shard: Shard, length: int, users: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        labels = grouped_row.side_of(users.column(grouped_row.LABELS))
        for of_items, items in shard.catalogues.items():
            known = items.indices(labels)
            scores = np.full(len(known.values), np.nan)
            if of_items == length:
                scores = _scored(items, length, users).exact(known.user, known.values)
            entries = {
                catalogue.ITEM: items.ids.take(pa.array(known.values)),
                catalogue.LENGTH: np.full(len(scores), of_items),
                catalogue.SCORE: scores,
            }
            yield _rows(users, user_columns, {catalogue.LABELLED: _lists(known.offsets, _structs(entries))})

    return work


def _rows(users: pa.RecordBatch, names: tuple[str, ...], columns: dict[str, Array | pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({name: users.column(name) for name in names} | columns)


def ranks_in_shard(user_columns: tuple[str, ...], first: catalogue.FirstItems) -> Work:
    """What a shard says of users: see `LABELLED` and what stands above it in the module of vectors."""

    def work(shard: Shard, length: int, users: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        items, columns, n_users = shard.of_length(length), grouped_row.columns_of(users), users.num_rows
        limits = catalogue.limits_of(columns, 0, items, np.full(n_users, length > 0))
        entries, offsets = grouped_row.flat(columns[catalogue.LABELLED])
        ids, scores = entries.field(catalogue.ITEM), numbers(entries.field(catalogue.SCORE))
        index = items.index_of(ids)
        labels = user_lists.Ragged(np.where(index < 0, _n_lower(items.ids, ids), index), offsets)
        # Of those whose scores are known: a label may have vectors of several lengths.
        is_ranked = limits.has(labels.like(index)) & ~np.isnan(scores)
        scored = _scored(items, length, users)
        ranks = catalogue.rank_scores(scored, labels, is_ranked, scores, limits, first.ties, first.k)
        counts = {name: getattr(ranks, name) for name in (catalogue.IS_RANKED, *catalogue.COUNTS)}
        # With the items, lengths and scores that came.
        labelled = dict(zip(entries.type.names, entries.flatten(), strict=True)) | counts
        tops = {catalogue.ITEM: items.ids.take(pa.array(ranks.first.values)), catalogue.SCORE: ranks.first_scores}
        n_lengths = len(shard.lengths)
        lengths = shard.lengths.take(pa.array(np.tile(np.arange(n_lengths), n_users)))
        said = {
            catalogue.LENGTH: np.full(n_users, length),
            catalogue.N_LISTED: limits.lengths(items.scored.n_items),
            catalogue.N_EXCLUDED: limits.n_excluded(),
            catalogue.N_INVALID_ROWS: np.full(n_users, shard.n_invalid),
            catalogue.LENGTHS: _lists(np.arange(n_users + 1) * n_lengths, lengths),
            catalogue.FIRST: _lists(ranks.first.offsets, _structs(tops)),
            catalogue.LABELLED: _lists(offsets, _structs(labelled)),
        }
        yield _rows(users, user_columns, said)

    return work


def _n_lower(sorted_ids: pa.Array, ids: pa.Array) -> IntArray:
    """How many of some ids in their order are lower than each id; int64."""
    if not grouped_row.is_text(sorted_ids.type):
        n_lower: IntArray = np.searchsorted(sorted_ids.to_numpy(), ids.to_numpy(zero_copy_only=False))
        return n_lower
    whole, texts = (each.cast(pa.large_binary()).to_pylist() for each in (sorted_ids, ids))
    return np.fromiter((bisect_left(whole, text) for text in texts), np.int64, len(texts))
