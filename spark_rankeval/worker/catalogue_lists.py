"""The lists of users over a whole catalogue: read from one row, or from shards. A task holds one shard at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.ranking import user_lists
from spark_rankeval.ranking.batch import RankingBatch, depends_on_tie
from spark_rankeval.ranking.ranks import PredictionRanks, RankingCounts, labelled_batch, rank_lists
from spark_rankeval.ranking.user_lists import Array, BoolArray, IntArray, Ragged, RawLists, Ties
from spark_rankeval.request.call import Similarity
from spark_rankeval.request.task import ScoringTask, View
from spark_rankeval.worker import process
from spark_rankeval.worker import reading as grouped_row
from spark_rankeval.worker import vectors as item_vectors
from spark_rankeval.worker.reading import numbers

#: The columns of tables of first items, beside those of the user.
RECOMMENDATIONS, N_INVALID, N_INVALID_CATALOGUE = "recommendations", "n_invalid", "n_invalid_catalogue"
# So many first items of lists are worked at a time.
_LISTED = 1 << 20


class FirstItems(NamedTuple):
    """The items at the top of lists that are the whole catalogue."""

    k: int  # how many
    ties: Ties  # how equal scores are ordered


def read_catalogues(
    tables: Mapping[str, pa.Scalar], similarities: Sequence[Similarity | None]
) -> dict[int, item_vectors.TaskCatalogue]:
    """The catalogues that a task's first row brings, by the index of their model; no other row brings any."""
    catalogues = {}
    for model, similarity in enumerate(similarities):
        name = grouped_row.column_of_model(grouped_row.CATALOGUE, model)
        if similarity is not None and name in tables:
            catalogues[model] = item_vectors.PackedCatalogue.unpack(tables[name].as_buffer()).in_task(similarity)
    return catalogues


def limits_of(
    columns: dict[str, pa.Array], model: int, catalogue: item_vectors.TaskCatalogue, has_list: BoolArray
) -> item_vectors.Limits:
    """Which items of a catalogue are in the lists of a batch of users."""
    excluded = grouped_row.read_excluded(columns)
    candidates = columns.get(grouped_row.column_of_model(grouped_row.CANDIDATES, model))
    values = grouped_row.filters_of(columns, model)
    return item_vectors.Limits(
        has_list,
        excluded=None if excluded is None else catalogue.indices(excluded),
        candidates=None if candidates is None else catalogue.indices(grouped_row.side_of(candidates)),
        filters=tuple(items.filter(lists) for items, lists in zip(catalogue.filters, values, strict=True)),
    )


class RankedLists(NamedTuple):
    """The lists of a model and a batch of users: how long they are, their first items, and where labels stand.

    Attributes:
        has_list: bool (n_users,), who has a list at all.
        is_rankable: bool, which labels are of items of the catalogue.
        ranks: of the labels, one entry per label.
        first_ids: the first items of every list, one entry for each of `ranks.first`.
        n_predictions: int64 (n_users,), how many items the lists have.
        n_excluded: int64 (n_users,), how many they lost.
        faults: rows of the catalogue.
    """

    has_list: BoolArray
    is_rankable: BoolArray
    ranks: item_vectors.Ranks
    first_ids: pa.Array
    n_predictions: IntArray
    n_excluded: IntArray
    faults: item_vectors.Faults


def ranked_in_catalogue(
    columns: dict[str, pa.Array],
    model: int,
    catalogue: item_vectors.TaskCatalogue,
    labels: grouped_row.Side | None,
    first: FirstItems,
) -> RankedLists:
    """The lists of users who come with their vectors.

    A vector of another length than those of the catalogue cannot be used. If no length is known, none is wrong.
    """
    column = columns[grouped_row.column_of_model(grouped_row.VECTOR, model)]
    added = numbers(columns[grouped_row.column_of_model(grouped_row.BIAS, model)])
    lengths = item_vectors.usable_lengths(column, added)
    length, n_users = catalogue.scored.length, len(lengths)
    has_vector = (lengths == length if length else lengths > 0) & ~grouped_row.flags(columns[grouped_row.NO_USER])
    vectors = np.zeros((n_users, length))
    if length:
        vectors[has_vector] = numbers(column.filter(pa.array(has_vector)).flatten()).reshape(-1, length)
    users = item_vectors.ScoredUserVectors(catalogue.scored, vectors, np.where(has_vector, added, 0.0))
    limits = limits_of(columns, model, catalogue, has_vector)
    indices = Ragged(np.empty(0, np.int64), np.zeros(n_users + 1, np.int64))
    if labels is not None:
        indices = labels.lists.like(catalogue.index_of(labels.ids))
    ranks = item_vectors.rank_items(users, indices, limits, first.ties, first.k)
    return RankedLists(
        has_vector,
        indices.values >= 0,
        ranks,
        catalogue.ids.take(pa.array(ranks.first.values)),
        limits.lengths(catalogue.scored.n_items),
        limits.n_excluded(),
        catalogue.faults,
    )


#: What a shard says of a user: the length of the user's vector, 0 if it cannot be used; how many items of that length the user's list has
#: there, how many it lost, and the first of them; how many rows of the shard cannot be used, and how many there are of each length.
LENGTH, N_LISTED, N_EXCLUDED, FIRST, N_INVALID_ROWS, LENGTHS = (
    "length", "n_listed", "n_excluded", "first", "n_invalid_rows", "lengths",
)  # fmt: skip


#: What it says of the user's labels of items with a vector, in whichever shard they are: one entry for each length of the item's vectors.
LABELLED = "labelled"


ITEM, SCORE, IS_RANKED, COUNTS = "item", "score", "is_ranked", ("above", "tied", "before")


#: Of vectors of a length, how many rows can be used, and how many of these repeat an item.
N_REPEATED = "n_repeated"


class _Entries(NamedTuple):
    """Structs in lists of users."""

    structs: pa.StructArray
    user: IntArray

    @classmethod
    def within(cls, lists: pa.Array, user: IntArray) -> _Entries:
        """The structs of lists that are each of a user."""
        structs, offsets = grouped_row.flat(lists)
        return cls(structs, np.repeat(user, np.diff(offsets)))

    def inner(self, name: str) -> _Entries:
        """The structs in the lists of a field."""
        return _Entries.within(self.structs.field(name), self.user)

    def numbers(self, name: str) -> Array:
        """The numbers of a field."""
        return grouped_row.filled(self.structs.field(name), 0)

    def where(self, keep: BoolArray) -> _Entries:
        """Some of the structs."""
        return _Entries(self.structs.filter(pa.array(keep)), self.user[keep])

    def summed(self, name: str, n_users: int) -> IntArray:
        """The sum of a field for each user; float64 holds it exactly."""
        return np.bincount(self.user, self.numbers(name), minlength=n_users).astype(np.int64)


def merged_shards(shards: pa.Array, labels: grouped_row.Side | None, first: FirstItems) -> RankedLists:
    """The lists of users of whom every shard has said what it knows."""
    n_users = len(shards)
    messages = _Entries.within(shards, np.arange(n_users))
    faults, usual = _faults_of_shards(messages.where(messages.user == messages.user.min(initial=n_users)))
    length = np.zeros(n_users, np.int64)
    length[messages.user] = messages.numbers(LENGTH)
    has_list = length == usual if usual else length > 0
    of_lists = messages.where(has_list[messages.user])
    top = of_lists.inner(FIRST)
    scores, rank_of_id = top.numbers(SCORE), np.empty(len(top.user), np.int64)
    ids = top.structs.field(ITEM)
    rank_of_id[item_vectors.sorted_indices(ids)] = np.arange(len(ids))
    order = np.lexsort((-rank_of_id if first.ties == "item_desc" else rank_of_id, -scores, top.user))
    order = order[user_lists.position_within(top.user[order], n_users) < first.k]
    labelled = messages.inner(LABELLED)
    is_rankable, ranks = _labels_of_shards(labelled.where(labelled.numbers(LENGTH) == usual), labels, has_list)
    return RankedLists(
        has_list,
        is_rankable,
        ranks._replace(first=user_lists.grouped(order, top.user[order], n_users), first_scores=scores[order]),
        ids.take(pa.array(order)),
        of_lists.summed(N_LISTED, n_users),
        of_lists.summed(N_EXCLUDED, n_users),
        faults,
    )


def _faults_of_shards(messages: _Entries) -> tuple[item_vectors.Faults, int]:
    """What cannot be used of the catalogue, and the usual length, from the messages for one user."""
    lengths = messages.inner(LENGTHS)
    n_rows, n_repeated = Counter[int](), Counter[int]()
    for length, n, repeated in zip(*map(lengths.numbers, (LENGTH, item_vectors.N_ROWS, N_REPEATED)), strict=True):
        n_rows[int(length)] += int(n)
        n_repeated[int(length)] += int(repeated)
    usual = item_vectors.usual_length(n_rows)
    n_invalid = int(messages.numbers(N_INVALID_ROWS).sum())
    return item_vectors.Faults(n_invalid, n_rows.total() - n_rows[usual], n_repeated[usual]), usual


def _labels_of_shards(
    known: _Entries, labels: grouped_row.Side | None, has_list: BoolArray
) -> tuple[BoolArray, item_vectors.Ranks]:
    """Which labels have a vector, and their ranks. `known` has the labels with one, once from each shard, with what it counted."""
    none = np.empty(0, np.int64)
    nothing = Ragged(none, np.zeros(len(has_list) + 1, np.int64))
    user, ids = (none, known.structs.field(ITEM)[:0]) if labels is None else (labels.lists.user, labels.ids)
    both = pa.concat_arrays([known.structs.field(ITEM), ids.cast(known.structs.field(ITEM).type)]).dictionary_encode()
    codes = grouped_row.filled(both.indices, len(both.dictionary)).astype(np.int64)
    keys = np.concatenate([known.user, user]) * (1 + len(both.dictionary)) + codes
    pairs, pair = np.unique(keys[: len(known.user)], return_inverse=True)
    found = np.searchsorted(pairs, keys[len(known.user) :])
    is_known = np.append(pairs, -1)[found] == keys[len(known.user) :]

    def summed(name: str) -> IntArray:
        whole = np.append(np.bincount(pair, known.numbers(name), minlength=len(pairs)), 0)
        return np.where(is_known, whole[found], 0).astype(np.int64)

    scores = np.zeros(len(pairs) + 1)
    scores[pair] = known.numbers(SCORE)
    is_ranked = (summed(IS_RANKED) > 0) & has_list[user]
    above, tied, before = map(summed, COUNTS)
    score = np.where(is_ranked, scores[found], 0.0)
    return is_known, item_vectors.Ranks(is_ranked, above, tied, before, score, nothing, np.empty(0))


class VectorLists:
    """The lists of a model and a batch of users: the catalogue in the order of each user's scores."""

    def __init__(
        self,
        columns: dict[str, pa.Array],
        model: int,
        catalogue: item_vectors.TaskCatalogue | None,
        labels: grouped_row.Side | None = None,
        first: FirstItems | None = None,
    ) -> None:
        # The items that metrics look at; None: at none without a label.
        self.has_first, first = first is not None, first or FirstItems(0, "item_asc")
        if catalogue is None:
            shards = columns[grouped_row.column_of_model(grouped_row.SHARDS, model)]
            self.lists = merged_shards(shards, labels, first)
        else:
            self.lists = ranked_in_catalogue(columns, model, catalogue, labels, first)
        rows = grouped_row.whole_numbers(columns[grouped_row.column_of_model(grouped_row.PREDICTION_ROWS, model)])
        # Rows that cannot be used: all of a user but one, and the last one if it has no vector. A null user loses all.
        rejected = np.maximum(rows - 1, 0) + ((rows > 0) & ~self.lists.has_list)
        self.invalid = np.where(grouped_row.flags(columns[grouped_row.NO_USER]), rows, rejected)
        # How many labels are unknown, once a view was ranked.
        self._n_unknown: IntArray | None = None

    @property
    def is_rankable(self) -> BoolArray:
        """Which labels are of items of the catalogue."""
        return self.lists.is_rankable

    def predictions(self) -> grouped_row.Side:
        """The first items of every list, best first, with their scores."""
        ranks, none = self.lists.ranks, np.zeros(len(self.invalid), np.int64)
        return grouped_row.Side(ranks.first, self.lists.first_ids, [ranks.first_scores], self.invalid, none, none)

    def rank(self, view: View, lists: RawLists) -> tuple[RankingBatch, RankingCounts]:
        """The rankings of a view. `lists` has the labels and the first items; the labels' ranks are those in the whole catalogue."""
        labels, ties = user_lists.distinct_labels(lists, view.ranking.conflicting_labels), view.ranking.ties
        ranks, user = self.lists.ranks, labels.items.user
        rank = ranks.rank(ties)
        # The ranks are of all labels, also of those that this view leaves out.
        place = labels.entry if lists.label_place is None else lists.label_place[labels.entry]
        if self._n_unknown is None:
            self._n_unknown = np.bincount(user[~self.is_rankable[place]], minlength=labels.items.n_users)
        settled = np.flatnonzero(ranks.is_ranked[place])
        settled = settled[np.lexsort((rank[place[settled]], user[settled]))]
        label = place[settled]
        batch, intents = labelled_batch(
            lists, labels, settled, PredictionRanks(rank[label], ranks.above[label], ranks.tied[label]),
            ranks.score[label], self.lists.n_predictions, keep_label_order=view.needs_label_order,
        )  # fmt: skip
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
            self.lists.n_predictions,
        )

    def counts(self) -> dict[str, IntArray]:
        """Counts that other lists have otherwise, by name, once a view was ranked; int64 (n_users,) each."""
        n_unknown = np.zeros(len(self.invalid), np.int64) if self._n_unknown is None else self._n_unknown
        return {"n_excluded": self.lists.n_excluded, "n_labels_without_vector": n_unknown}


def few_users(batches: process.Batches, k: int) -> process.Batches:
    """The batches in parts of users whose first k items, from each shard, fit into little memory."""
    for batch in batches:
        columns = grouped_row.columns_of(batch).items()
        lengths = [
            pc.max(pc.list_value_length(column)) for name, column in columns if name.startswith(grouped_row.SHARDS)
        ]
        n_shards = max((length.as_py() or 1 for length in lengths), default=1)
        most = max(1, _LISTED // max(1, k * n_shards))
        for start in range(0, batch.num_rows, most):
            yield batch.slice(start, most)


def first_items_of_batches(
    similarity: Similarity, first: FirstItems, user_columns: tuple[str, ...], item: str
) -> process.Run:
    """A function for ``mapInArrow``: the first items of every user as structs of `item` and score, beside the columns passed on."""

    @process.runs_in_worker
    def run(batches: process.Batches) -> process.Batches:
        catalogues: dict[int, item_vectors.TaskCatalogue] = {}
        for batch, tables in process.received(few_users(batches, first.k), (grouped_row.CATALOGUE,)):
            catalogues |= read_catalogues(tables, [similarity])
            columns = grouped_row.columns_of(batch)
            lists = VectorLists(columns, 0, catalogues.get(0), first=first)
            top = lists.predictions()
            entries: Array = pa.StructArray.from_arrays([top.ids, pa.array(top.values[0])], names=[item, "score"])
            recommended = pa.ListArray.from_arrays(
                pa.array(top.lists.offsets, pa.int32()), entries, mask=pa.array(~lists.lists.has_list)
            )
            users = {name: columns[name] for name in user_columns}
            counts = {
                N_INVALID: pa.array(top.invalid),
                N_INVALID_CATALOGUE: pa.array(np.full(batch.num_rows, sum(lists.lists.faults))),
            }
            yield pa.RecordBatch.from_pydict({**users, RECOMMENDATIONS: recommended, **counts})

    return run


@dataclass(frozen=True)
class ListsFromVectors(process.ScoringFeature):
    """Models that rank by vectors; `similarities` has how each makes scores of them, None for a model that has lists."""

    similarities: tuple[Similarity | None, ...]
    # Those that the task received, by model.
    catalogues: Mapping[int, item_vectors.TaskCatalogue] = field(default_factory=dict)

    name = "vectors"
    totals = faults = item_vectors.CATALOGUE_FAULTS

    def tables(self) -> tuple[str, ...]:
        """The catalogues of the models."""
        return tuple(grouped_row.column_of_model(grouped_row.CATALOGUE, model) for model in self._models)

    def with_tables(self, task: ScoringTask, tables: Mapping[str, pa.Scalar]) -> ListsFromVectors:
        """The models with their catalogues."""
        return replace(self, catalogues=read_catalogues(tables, self.similarities))

    def parts(self, task: ScoringTask, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The users whose first items fit into memory."""
        firsts = (first_items(task, model) for model in self._models)
        k = max((first.k for first in firsts if first is not None), default=0)
        return few_users(iter([batch]), k)

    def read(self, task: ScoringTask, columns: dict[str, pa.Array], labels: grouped_row.Side) -> process.BatchFeature:
        """The users' vectors, and how much of the lists a task looks at."""
        return _VectorsOfBatch(
            {
                model: VectorLists(columns, model, self.catalogues.get(model), labels, first_items(task, model))
                for model in self._models
            }
        )

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


class _VectorsOfBatch(process.BatchFeature):
    def __init__(self, models: Mapping[int, VectorLists]) -> None:
        self.rankers = models
        faults = [lists.lists.faults for lists in models.values()]
        self.totals = {
            name: sum(model_faults[index] for model_faults in faults)
            for index, name in enumerate(item_vectors.CATALOGUE_FAULTS)
        }

    def counts(self, labels: Ragged) -> Mapping[str, Array]:
        """A model that has lists needs no vectors."""
        return {"n_labels_without_vector": np.zeros(labels.n_users, np.int64)}


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

    def __init__(self, rows: item_vectors.ItemRows, similarity: Similarity) -> None:
        self._rows, self._similarity, self.n_invalid = rows, similarity, rows.n_invalid
        self.catalogues = {length: self._catalogue(length) for length in rows.n_rows}
        n_repeated = [each.faults.n_repeated for each in self.catalogues.values()]
        columns = np.array([[*rows.n_rows], [*rows.n_rows.values()], n_repeated], np.int64)
        self.lengths = _structs(dict(zip((LENGTH, item_vectors.N_ROWS, N_REPEATED), columns, strict=True)))

    def _catalogue(self, length: int) -> item_vectors.TaskCatalogue:
        return item_vectors.PackedCatalogue.of_length(self._rows, length).in_task(self._similarity)

    def of_length(self, length: int) -> item_vectors.TaskCatalogue:
        """The items with vectors of a length; there may be none."""
        return self.catalogues.get(length) or self._catalogue(length)


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
                met.add(number)
                current, shard, rows = number, None, item_vectors.ItemRows(part)
            if are_users:
                shard = shard or Shard(rows, similarity)
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
    lengths = item_vectors.usable_lengths(users.column(USER_VECTOR), numbers(users.column(item_vectors.ITEM_BIAS)))
    for length in np.unique(lengths).tolist():
        of_length = users.filter(pa.array(lengths == length))
        most = max(1, _NUMBERS // max(1, length))
        for start in range(0, of_length.num_rows, most):
            for part in few_users(iter([of_length.slice(start, most)]), k):
                yield length, part


def _scored(items: item_vectors.TaskCatalogue, length: int, users: pa.RecordBatch) -> item_vectors.ScoredUserVectors:
    vectors, bias = np.zeros((users.num_rows, length)), np.zeros(users.num_rows)
    if length:
        vectors = numbers(users.column(USER_VECTOR).flatten()).reshape(-1, length)
        bias = numbers(users.column(item_vectors.ITEM_BIAS))
    return item_vectors.ScoredUserVectors(items.scored, vectors, bias)


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
                ITEM: items.ids.take(pa.array(known.values)),
                LENGTH: np.full(len(scores), of_items),
                SCORE: scores,
            }
            yield _rows(users, user_columns, {LABELLED: _lists(known.offsets, _structs(entries))})

    return work


def _rows(users: pa.RecordBatch, names: tuple[str, ...], columns: dict[str, Array | pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({name: users.column(name) for name in names} | columns)


def ranks_in_shard(user_columns: tuple[str, ...], first: FirstItems) -> Work:
    """What a shard says of users, in columns from `LENGTH` to `LABELLED`."""

    def work(shard: Shard, length: int, users: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        items, columns, n_users = shard.of_length(length), grouped_row.columns_of(users), users.num_rows
        limits = limits_of(columns, 0, items, np.full(n_users, length > 0))
        entries, offsets = grouped_row.flat(columns[LABELLED])
        ids, scores = entries.field(ITEM), numbers(entries.field(SCORE))
        index = items.index_of(ids)
        labels = user_lists.Ragged(np.where(index < 0, _n_lower(items.ids, ids), index), offsets)
        # Of those whose scores are known: a label may have vectors of several lengths.
        is_ranked = limits.has(labels.like(index)) & ~np.isnan(scores)
        scored = _scored(items, length, users)
        ranks = item_vectors.rank_scores(scored, labels, is_ranked, scores, limits, first.ties, first.k)
        counts = {name: getattr(ranks, name) for name in (IS_RANKED, *COUNTS)}
        # With the items, lengths and scores that came.
        labelled = grouped_row.fields_in(entries) | counts
        tops = {ITEM: items.ids.take(pa.array(ranks.first.values)), SCORE: ranks.first_scores}
        n_lengths = len(shard.lengths)
        lengths = shard.lengths.take(pa.array(np.tile(np.arange(n_lengths), n_users)))
        said = {
            LENGTH: np.full(n_users, length),
            N_LISTED: limits.lengths(items.scored.n_items),
            N_EXCLUDED: limits.n_excluded(),
            N_INVALID_ROWS: np.full(n_users, shard.n_invalid),
            LENGTHS: _lists(np.arange(n_users + 1) * n_lengths, lengths),
            FIRST: _lists(ranks.first.offsets, _structs(tops)),
            LABELLED: _lists(offsets, _structs(labelled)),
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
