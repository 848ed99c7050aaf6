"""A catalogue of vectors: packed once, read once by each task, scored exactly, and the ranks of labels in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.ranking import user_lists
from spark_rankeval.ranking.batch import RankingBatch, depends_on_tie
from spark_rankeval.ranking.ranks import PredictionRanks, RankingCounts, labelled_batch, rank_lists
from spark_rankeval.ranking.user_lists import Array, BoolArray, FloatArray, IntArray, Ragged, RawLists, Ties
from spark_rankeval.request.call import Similarity
from spark_rankeval.request.task import ScoringTask, View
from spark_rankeval.worker import process
from spark_rankeval.worker import reading as grouped_row
from spark_rankeval.worker.reading import numbers

# Half the distance from 1 to the next float32, and the smallest float32 and float64 that lose no digits, or any.
_EPSILON, _SMALL_32, _SMALLEST_64 = 2.0**-24, 2.0**-126, 5e-324
_LARGEST_64 = float(np.finfo(np.float64).max)
# Numbers of vectors that are worked at a time.
_CELLS = 1 << 17
# Two to this power is still a number of float64.
_LOWEST_EXPONENT = -1000
#: No number of a vector and no bias may be further from 0. Then no score exceeds float64, whatever the number of dimensions.
LARGEST = 1e140


def is_usable(numbers: Array) -> BoolArray:
    """Which numbers can be of vectors, or biases: those that are finite and not too large."""
    usable: BoolArray = np.abs(numbers) <= LARGEST
    return usable


def added_products(left: Array, right: Array) -> FloatArray:
    """The sum of products of each row of two matrices; float64 (n_rows,). The first matrix may be a single row.

    In float64, one dimension after the other, each product and each sum rounded. Numpy makes no step of two of these, and adds in no
    other order: the digits are the same on every machine.
    """
    n_rows = max(len(left), len(right))
    total = np.zeros(n_rows)
    step = max(1, _CELLS // max(1, left.shape[1]))
    for start in range(0, n_rows, step):
        rows = slice(start, start + step)
        products = right[rows].astype(np.float64)
        products *= left if len(left) == 1 else left[rows]
        part = total[rows]
        for dimension in range(left.shape[1]):
            part += products[:, dimension]
    return total


def _unit_rows(vectors: Array) -> Array:
    """Vectors divided by their lengths, in float64; a vector of zeros stays as it is."""
    largest = np.abs(vectors).max(axis=1, initial=0.0).astype(np.float64)
    # By a power of two first, which changes no digit: squares of large or small numbers would be no numbers.
    vectors = np.ldexp(vectors.astype(np.float64), -np.frexp(largest)[1][:, None])
    length = np.sqrt(added_products(vectors, vectors))
    unit: Array = vectors / np.where(length > 0, length, 1.0)[:, None]
    return unit


class Catalogue:
    """The vectors of all items that can be ranked.

    Attributes:
        numbers: float32 or float64 (n_items, length), one row per item, in the order of the items' ids.
        bias: float64 (n_items,), what is added to all scores of an item.
        similarity: how a score is made of two vectors.
        approximate: float32 (length, n_items), one column per item, times 2^−exponent.
        exponent: of the largest number, so that nothing in `approximate` is above 1.
        longest: the length of its longest column.
        largest_bias: of all items, without its sign.
    """

    def __init__(self, numbers: Array, bias: FloatArray, similarity: Similarity = "dot") -> None:
        if similarity == "cosine":
            numbers = _unit_rows(numbers)
        n_items, length = numbers.shape
        self.numbers, self.bias, self.similarity = numbers, bias, similarity
        self.largest_bias = float(np.abs(bias).max(initial=0.0))
        largest = max(float(numbers.max(initial=0.0)), -float(numbers.min(initial=0.0)))
        self.exponent = int(np.frexp(largest)[1])
        # So, matrix products of few users are twice as fast as with one row per item.
        self.approximate = np.empty((length, n_items), np.float32)
        self.longest = 0.0
        step = max(1, _CELLS // max(1, length))
        for start in range(0, n_items, step):
            part = slice(start, start + step)
            whole = np.ldexp(numbers[part].astype(np.float64), -self.exponent)
            self.approximate[:, part] = whole.T
            self.longest = max(self.longest, float(np.sqrt((whole * whole).sum(axis=1)).max()))

    @property
    def is_plain(self) -> bool:
        """Whether matrix products are all there is to its scores, without biases."""
        return not self.largest_bias

    @property
    def n_items(self) -> int:
        """How many items there are."""
        return len(self.numbers)

    @property
    def length(self) -> int:
        """How many numbers a vector has."""
        return int(self.numbers.shape[1])


class ScoredUserVectors:
    """The vectors of some users, as the items of a catalogue are scored for them.

    Attributes:
        catalogue: of the items.
        numbers: float64 (n_users, length).
        bias: float64 (n_users,), what is added to all scores of a user.
        approximate: float32 (n_users, length), as that of the catalogue, each row times a power of two.
        exponent: int64 (n_users,): a product of approximate rows is about that of the vectors, times 2^−exponent.
        scale: int64 (n_users,): `about` is about the scores without the user's bias, times 2^−scale.
        error: float64 (n_users,): it is not further than this from that.
    """

    def __init__(self, catalogue: Catalogue, numbers: Array, bias: FloatArray) -> None:
        if catalogue.similarity == "cosine":
            numbers = _unit_rows(numbers)
        whole = numbers.astype(np.float64)
        exponent = np.frexp(np.abs(whole).max(axis=1, initial=0.0))[1].astype(np.int64) + catalogue.exponent
        exponent = np.maximum(exponent, _LOWEST_EXPONENT)
        whole = np.ldexp(whole, (catalogue.exponent - exponent)[:, None])
        scale = exponent if catalogue.is_plain else np.zeros_like(exponent)
        # Let S = Σ |u v| over all dimensions; S ≤ |u| |v| (Cauchy and Schwarz). Rounding a number to float32 changes it by a share of ε
        # at most, and so both of a product the product by 2 ε + ε². Let n products be added in any order, each product and sum rounded
        # to float32. That is off by n ε / (1 − n ε) · S at most (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).
        # The exact score is off by n 2⁻⁵³ · S itself. All this is below (n + 4) ε · S, if n ε is small.
        n_dimensions = whole.shape[1]
        share = (n_dimensions + 4) * _EPSILON
        error = share / (1 - share) * np.sqrt((whole * whole).sum(axis=1)) * catalogue.longest * (1 + share)
        with np.errstate(over="ignore"):
            # Numbers and products too small for float32, or products too small for float64, are off by more than a share.
            error = np.ldexp(error + 4 * n_dimensions * _SMALL_32, exponent - scale)
            error += np.ldexp(2 * n_dimensions * _SMALLEST_64, -scale)
            # Biases are added in float64, which rounds. That of a user changes no order, but rounds all the same.
            error += np.ldexp(np.abs(bias) + catalogue.largest_bias, -50 - scale)
        self.catalogue, self.numbers, self.bias = catalogue, numbers, bias
        self.approximate, self.exponent, self.scale, self.error = whole.astype(np.float32), exponent, scale, error

    def exact(self, user: IntArray, item: IntArray) -> FloatArray:
        """The scores of pairs of users and items, by their indices; float64."""
        catalogue = self.catalogue
        scores = np.empty(len(user))
        step = max(1, _CELLS // max(1, catalogue.length))
        for start in range(0, len(user), step):
            part = slice(start, start + step)
            products = added_products(self.numbers[user[part]], catalogue.numbers[item[part]])
            scores[part] = products + catalogue.bias[item[part]] + self.bias[user[part]]
        return scores

    def exact_of_all(self, user: int, start: int, stop: int) -> FloatArray:
        """The scores of one user and the items from one index to before another; float64, the same digits."""
        catalogue, vector = self.catalogue, self.numbers[user : user + 1]
        # Many users who are new have vectors of zeros, and so have all of their scores equal.
        products = added_products(vector, catalogue.numbers[start:stop]) if vector.any() else np.zeros(stop - start)
        scores: FloatArray = products + catalogue.bias[start:stop] + self.bias[user]
        return scores

    def about(self, user: int, start: int, products: Array) -> Array:
        """What a user's scores of the items from an index on are about, from products of approximate rows; −∞ stays so."""
        catalogue = self.catalogue
        if catalogue.is_plain:
            return products
        about: FloatArray = np.multiply(products, np.ldexp(1.0, self.exponent[user]), dtype=np.float64)
        about += catalogue.bias[start : start + len(products)]
        return about

    def as_about(self, user: IntArray, scores: FloatArray) -> FloatArray:
        """Scores as `about` would have them without its error; float64."""
        with np.errstate(over="ignore"):
            about = np.ldexp(scores - self.bias[user], -self.scale[user])
        # An item that another shard has may score far higher than all items here.
        clipped: FloatArray = np.clip(about, -_LARGEST_64, _LARGEST_64)
        return clipped


#: The columns of the rows that are packed: the item, its vector, what is added to its scores, and whether the row is of the catalogue.
CATALOGUE_ITEM, CATALOGUE_VECTOR, ITEM_BIAS, IS_CATALOGUE_ROW = "item", "vector", "bias", "in_catalogue"
#: A length of vectors, and how many rows of the catalogue have it.
USUAL_LENGTH, N_ROWS = "usual_length", "n_rows"
# The shards that an error asks for have so many bytes: a worker holds one twice, and 350 MB beside it.
_SHARD_BYTES = 500_000_000
# The name of the vectors' length in what is packed.
_LENGTH = "length"


class Faults(NamedTuple):
    """How many rows of a catalogue cannot be used.

    Attributes:
        n_invalid: without an item, or with a vector or bias that is null or holds a null, NaN, infinite or too large number.
        n_ragged: with a vector of another length than most.
        n_repeated: with an item that another row has, too.
    """

    n_invalid: int = 0
    n_ragged: int = 0
    n_repeated: int = 0


#: The names of the same counts beside those of users.
CATALOGUE_FAULTS = tuple(f"{name}_catalogue" for name in Faults._fields)


def usual_length(n_rows: Mapping[int, int]) -> int:
    """The length that most vectors have, of several the shortest, given how many have each; 0 if there is none."""
    return min(n_rows, key=lambda length: (-n_rows[length], length), default=0)


class ItemRows:
    """Rows of a catalogue on their way into memory, apart by the length of their vectors.

    Attributes:
        n_invalid: how many rows cannot be used, whatever length is usual.
        n_rows: how many others there are, by length.
    """

    def __init__(self, item_type: pa.DataType) -> None:
        self.n_invalid, self.n_rows = 0, Counter[int]()
        self._parts: dict[int, list[tuple[pa.Array, Array, Array]]] = {}
        self._nothing = (pa.array([], item_type), np.empty((0, 0)), np.empty(0))

    def add(self, rows: pa.RecordBatch) -> None:
        """Take in some rows, as views of them."""
        ids, vectors, bias = (rows.column(name) for name in (CATALOGUE_ITEM, CATALOGUE_VECTOR, ITEM_BIAS))
        if pa.types.is_floating(ids.type):
            # The two zeros are one item.
            ids = pc.add(ids, pa.scalar(0.0, ids.type))
        added = numbers(bias)
        lengths, is_valid = _usable_lengths(ids, vectors, added)
        self.n_invalid += int((~is_valid).sum())
        for length in np.unique(lengths[is_valid]).tolist():
            kept = is_valid & (lengths == length)
            mask = pa.array(kept)
            entries = (vectors if kept.all() else vectors.filter(mask)).flatten()
            matrix = entries.to_numpy(zero_copy_only=False).reshape(-1, length)
            self.n_rows[length] += len(matrix)
            self._parts.setdefault(length, []).append((ids.filter(mask), matrix, added[kept]))

    def items(self, length: int) -> tuple[pa.Array, Array, Array]:
        """The items with vectors of a length, in the order of their ids: ids, vectors and biases. They are handed over once.

        Of an item's several rows the greatest vector stays.
        """
        parts = self._parts.pop(length, [])
        if not parts:
            ids, vectors, bias = self._nothing
            return ids, vectors.reshape(0, length), bias
        ids, bias = pa.concat_arrays([part[0] for part in parts]), np.concatenate([part[2] for part in parts])
        vectors = np.concatenate([part[1] for part in parts])
        # Not to hold the vectors three times.
        parts.clear()
        chosen = _rows_to_keep(ids, vectors, bias)
        return ids.take(pa.array(chosen)), vectors[chosen], bias[chosen]


class PackedCatalogue(NamedTuple):
    """The items that can be ranked, in the order of their ids.

    Attributes:
        ids: of the items.
        vectors: float32 or float64 (n_items, length), a row an item.
        bias: float64 (n_items,), what is added to all scores of an item.
        faults: what was left out.
    """

    ids: pa.Array
    vectors: Array
    bias: Array
    faults: Faults

    @classmethod
    def from_rows(cls, rows: ItemRows) -> PackedCatalogue:
        """The items of the usual length."""
        length = usual_length(rows.n_rows)
        ids, vectors, bias = rows.items(length)
        n_kept = rows.n_rows[length]
        return cls(ids, vectors, bias, Faults(rows.n_invalid, rows.n_rows.total() - n_kept, n_kept - len(ids)))

    def pack(self) -> bytes:
        """As Arrow's stream of one batch."""
        n_items, length = self.vectors.shape
        offsets = pa.array(np.arange(n_items + 1, dtype=np.int32) * length, pa.int32())
        vectors = pa.ListArray.from_arrays(offsets, pa.array(self.vectors.ravel()))
        table = pa.table({CATALOGUE_ITEM: self.ids, CATALOGUE_VECTOR: vectors, ITEM_BIAS: pa.array(self.bias)})
        counts = {name: str(count) for name, count in (self.faults._asdict() | {_LENGTH: length}).items()}
        return bytes(process.stream_of(table.replace_schema_metadata(counts)))

    @classmethod
    def unpack(cls, packed: pa.Buffer) -> PackedCatalogue:
        """What `pack` packed, without copying the vectors."""
        with pa.ipc.open_stream(packed) as stream:
            batch = stream.read_next_batch()
        counts = {name.decode(): int(count) for name, count in batch.schema.metadata.items()}
        length = counts.pop(_LENGTH)
        vectors, bias = batch.column(CATALOGUE_VECTOR).flatten().to_numpy(), batch.column(ITEM_BIAS).to_numpy()
        return cls(batch.column(CATALOGUE_ITEM), vectors.reshape(batch.num_rows, length), bias, Faults(**counts))


def pack_catalogue(most_bytes: int) -> process.Run:
    """A function for ``mapInArrow``: the rows of a catalogue as a row of bytes; a row that is not of the catalogue is passed over."""

    @process.runs_in_worker
    def run(batches: process.Batches) -> process.Batches:
        rows: ItemRows | None = None
        n_rows = n_bytes = 0
        for batch in batches:
            n_rows += batch.num_rows - batch.column(IS_CATALOGUE_ROW).null_count
            n_bytes += batch.nbytes
            if n_bytes > most_bytes:
                # The rest is counted and not kept, so that this worker does not run out of memory.
                rows = None
                continue
            rows = rows or ItemRows(batch.column(CATALOGUE_ITEM).type)
            rows.add(batch.filter(batch.column(IS_CATALOGUE_ROW)))
        if n_bytes > most_bytes:
            raise RuntimeError(_too_large(n_rows, n_bytes, most_bytes))
        # A partition without a row comes alone, if Spark finds the table empty.
        if rows is not None:
            packed = PackedCatalogue.from_rows(rows).pack()
            yield pa.RecordBatch.from_pydict({process.PACKED: pa.array([packed], pa.binary())})

    return run


def _too_large(n_rows: int, n_bytes: int, most_bytes: int) -> str:
    """What to do with so many items of so many bytes, if no row holds more than `most_bytes`."""
    n_shards = -(-n_bytes // _SHARD_BYTES)
    return (
        f"{process.CATALOGUE_TOO_LARGE}: {n_rows:,} items take {n_bytes / 1e6:,.0f} MB, and {most_bytes / 1e6:,.0f} MB is the limit. Pass "
        f"Vectors(…, shards={n_shards}), so that a worker holds about {2 * n_bytes / n_shards / 1e6:,.0f} MB at a time. Or use float32, "
        "fewer dimensions, or a table of items as candidates"
    )


@process.runs_in_worker
def count_lengths(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A function for ``mapInArrow``: how many rows of a catalogue that can be used have vectors of each length; a length may come again."""
    for batch in batches:
        ids, vectors, bias = (batch.column(name) for name in (CATALOGUE_ITEM, CATALOGUE_VECTOR, ITEM_BIAS))
        lengths, is_valid = _usable_lengths(ids, vectors, numbers(bias))
        counts = np.bincount(lengths[is_valid])
        seen = np.flatnonzero(counts)
        yield pa.RecordBatch.from_pydict({USUAL_LENGTH: pa.array(seen), N_ROWS: pa.array(counts[seen])})


def _usable_lengths(ids: pa.Array, vectors: pa.Array, bias: Array) -> tuple[IntArray, BoolArray]:
    """How long vectors are, and which rows can be used if they have the right length."""
    has_item = ids.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(ids.type):
        has_item = has_item & ~np.isnan(numbers(ids))
    lengths = usable_lengths(vectors, bias)
    return lengths, has_item & (lengths > 0)


def usable_lengths(vectors: pa.Array, bias: Array) -> IntArray:
    """How long vectors are that can be used with these biases; 0 for the others."""
    lengths = pc.fill_null(pc.list_value_length(vectors), 0).to_numpy(zero_copy_only=False)
    return np.where(is_usable(bias) & all_usable(vectors), lengths, 0).astype(np.int64)


def all_usable(vectors: pa.Array) -> BoolArray:
    """Whether every number of each vector can be used; of a null vector, true."""
    entries, offsets = grouped_row.flat(vectors)
    is_wrong = ~is_usable(numbers(entries))
    n_wrong_before = np.concatenate([[0], np.cumsum(is_wrong)])[offsets]
    all_right: BoolArray = np.diff(n_wrong_before) == 0
    return all_right


def sorted_indices(ids: pa.Array) -> IntArray:
    """What brings ids into their order: numbers as numbers, and texts as bytes, so that no collation comes between."""
    keys = ids.cast(pa.large_binary()) if grouped_row.is_text(ids.type) else ids
    indices: IntArray = pc.array_sort_indices(keys).to_numpy().astype(np.int64)
    return indices


def _rows_to_keep(ids: pa.Array, vectors: Array, bias: Array) -> Array:
    """The indices of the rows to keep, by item; of an item's several rows that of the greatest vector, then of the greatest bias."""
    order = sorted_indices(ids)
    ordered = ids.take(pa.array(order))
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = pc.not_equal(ordered[1:], ordered[:-1]).to_numpy(zero_copy_only=False)
    item = np.cumsum(is_new) - 1
    is_last = np.append(is_new[1:], True)[: len(order)]
    repeated = np.flatnonzero(~(is_new & is_last))
    rows = order[repeated]
    order[repeated] = rows[np.lexsort((bias[rows], *vectors[rows].T[::-1], item[repeated]))]
    chosen: Array = order[is_last]
    return chosen


# A block of products has at most so many cells, 16 MB, and so many users. It stays in a processor's cache while it is looked through, and
# more users make a matrix product no faster.
_RANKED_CELLS, _USERS = 1 << 22, 32
# Items whose order the products leave open are decided when there are so many.
_WAITING = 1 << 14
# A user with more items than this within the bound gets the exact scores of all items.
_FEW_NEAR = 2048
_NOTHING = np.float32(-np.inf)


class Limits(NamedTuple):
    """Which items of the catalogue are in each user's list, by their indices.

    Attributes:
        has_list: bool (n_users,), who has a list at all.
        excluded: the items that the list leaves out, each once; None: none.
        candidates: the only items that it may have, each once; None: all.
    """

    has_list: BoolArray
    excluded: Ragged | None = None
    candidates: Ragged | None = None

    def n_excluded(self) -> IntArray:
        """How many items each list lost; int64 (n_users,)."""
        if self.excluded is None:
            return np.zeros(len(self.has_list), np.int64)
        lost = self.has_list[self.excluded.user]
        if self.candidates is not None:
            lost &= user_lists.contained(self.excluded, self.candidates)
        return np.bincount(self.excluded.user[lost], minlength=len(self.has_list))

    def lengths(self, n_items: int) -> IntArray:
        """How many items each list has; int64 (n_users,)."""
        whole = n_items if self.candidates is None else self.candidates.lengths
        return np.where(self.has_list, whole - self.n_excluded(), 0)

    def has(self, items: Ragged) -> BoolArray:
        """Which items are in the lists of their users; −1 is none."""
        inside = (items.values >= 0) & self.has_list[items.user]
        if self.candidates is not None:
            inside &= user_lists.contained(items, self.candidates)
        if self.excluded is not None:
            inside &= ~user_lists.contained(items, self.excluded)
        return inside


class Ranks(NamedTuple):
    """Where the ranked items stand among those of a catalogue; one entry per item. The counts of shards add up.

    Attributes:
        is_ranked: whether the list has the item.
        above: int64, how many items of the list have a higher score.
        tied: int64, how many have the same, the item included.
        before: int64, how many of these have a lower id.
        score: float64; 0 if it is not known.
        first: the first items of every list, by their indices.
        first_scores: float64, their scores.
    """

    is_ranked: BoolArray
    above: IntArray
    tied: IntArray
    before: IntArray
    score: FloatArray
    first: Ragged
    first_scores: FloatArray

    def rank(self, ties: Ties) -> IntArray:
        """The place of each item, from 1; 0 for those that are not ranked."""
        # Of those that score the same, the item itself is neither before nor behind.
        before = self.tied - 1 - self.before if ties == "item_desc" else self.before
        return np.where(self.is_ranked, 1 + self.above + before, 0)


def rank_items(
    users: ScoredUserVectors, items: Ragged, limits: Limits, ties: Ties = "item_asc", first: int = 0
) -> Ranks:
    """The ranks of each user's `items`, given by their indices in the catalogue, and the `first` items of every list.

    Equal scores are ordered by the items' indices: ``item_asc``, or ``item_desc``.
    """
    is_ranked = limits.has(items)
    ranked = items.where(is_ranked)
    scores = np.full(len(is_ranked), np.nan)
    scores[is_ranked] = users.exact(ranked.user, ranked.values)
    return rank_scores(users, items, is_ranked, scores, limits, ties, first)


def rank_scores(
    users: ScoredUserVectors,
    items: Ragged,
    is_ranked: BoolArray,
    scores: FloatArray,
    limits: Limits,
    ties: Ties = "item_asc",
    first: int = 0,
) -> Ranks:
    """As `rank_items`, of items with known scores; the catalogue may lack some.

    Args:
        users: with the catalogue.
        items: by index; of an item that the catalogue lacks, how many items have a lower id.
        is_ranked: which items the lists have.
        scores: float64, NaN for an item that is not looked for.
        limits: of the lists.
        ties: the order of equal scores among the `first` items.
        first: how many items of every list are given.
    """
    is_counted = ~np.isnan(scores)
    counts = _Counts(users, items.where(is_counted), is_ranked[is_counted], scores[is_counted])
    firsts = _count_blocks(users, counts, limits, ties, first)

    def spread(values: Array) -> Array:
        whole = np.zeros(len(is_counted), values.dtype)
        whole[is_counted] = values
        return whole

    return Ranks(
        is_ranked,
        above=spread(counts.above),
        tied=spread(counts.tied),
        before=spread(counts.before),
        score=spread(counts.score),
        first=user_lists.grouped(firsts.item, firsts.user, len(limits.has_list)),
        first_scores=firsts.score,
    )


def _count_blocks(users: ScoredUserVectors, counts: _Counts, limits: Limits, ties: Ties, first: int) -> _Firsts:
    """Count what stands around the ranked items, block by block, and choose the `first` items of every list."""
    none = np.empty(0, np.int64)
    chosen: list[tuple[IntArray, IntArray]] = []
    settled = [_Firsts(none, none, np.empty(0))]
    has_work = limits.has_list if first else counts.ranked.lengths > 0
    for rows, start, products in _blocks(users, np.flatnonzero(has_work), limits):
        for row, user in zip(products, rows.tolist(), strict=True):
            about = users.about(user, start, row)
            counts.add(user, start, about)
            if first:
                indices = _first_indices(about, first, users.error[user])
                if len(indices) > first + _FEW_NEAR:
                    scores = users.exact_of_all(user, start, start + len(row))[indices]
                    indices = _best(indices, scores, first, ties)
                chosen.append((np.full(len(indices), user), indices + start))
        if counts.n_near > _WAITING:
            counts.decide()
        if first and start + products.shape[1] == users.catalogue.n_items:
            # These users have no more items to come.
            settled.append(_first(users, chosen, first, ties))
            chosen.clear()
    counts.decide()
    return _Firsts(*map(np.concatenate, zip(*settled, strict=True)))


def _blocks(users: ScoredUserVectors, rows: IntArray, limits: Limits) -> Iterator[tuple[IntArray, int, Array]]:
    """Some users, the index of an item, and these users' products with it and the following ones; −∞ for what is in no list."""
    catalogue = users.catalogue
    n_users = min(_USERS, max(1, len(rows)))
    width = max(1, min(_RANKED_CELLS // n_users, catalogue.n_items))
    for low in range(0, len(rows), n_users):
        some = rows[low : low + n_users]
        for start in range(0, catalogue.n_items, width):
            # Of finite numbers: a library for products may read beyond the end of a row, and warn of what it does not use.
            with np.errstate(invalid="ignore"):
                products = users.approximate[some] @ catalogue.approximate[:, start : start + width]
            if limits.candidates is not None:
                others = np.ones(products.shape, np.bool_)
                others[_cells(limits.candidates, some, start, products.shape[1])] = False
                products[others] = _NOTHING
            if limits.excluded is not None:
                products[_cells(limits.excluded, some, start, products.shape[1])] = _NOTHING
            yield some, start, products


def _cells(items: Ragged, users: IntArray, start: int, width: int) -> tuple[IntArray, IntArray]:
    """Where the items of some users are in a block: rows and columns."""
    lengths = items.lengths[users]
    row = np.repeat(np.arange(len(users)), lengths)
    column = items.values[items.offsets[users][row] + user_lists.position_within(row, len(users))] - start
    inside = (column >= 0) & (column < width)
    return row[inside], column[inside]


class _Counts:
    """How many items score higher than each ranked one, the same, and the same before it: counted block by block."""

    def __init__(self, users: ScoredUserVectors, ranked: Ragged, is_listed: BoolArray, score: FloatArray) -> None:
        # The indices of items, whether the lists of their users have them, and their scores as of `ScoredUserVectors.exact`.
        self.users, self.ranked, self.is_listed, self.score = users, ranked, is_listed, score
        about, error = users.as_about(ranked.user, score), users.error[ranked.user]
        kind = np.float32 if users.catalogue.is_plain else np.float64
        # The lowest and the highest that `ScoredUserVectors.about` may be of an item that scores the same.
        with np.errstate(over="ignore"):
            # Rounded outwards.
            low = np.nextafter((about - error).astype(kind), kind(-np.inf))
            self.high = np.nextafter((about + error).astype(kind), kind(np.inf))
        # What is in no list is −∞, and below every bound.
        self.low = np.maximum(low, np.finfo(kind).min)
        self.above, self.tied, self.before = np.zeros((3, len(score)), np.int64)
        # Entries and items whose order the products leave open.
        self.near: list[tuple[IntArray, IntArray]] = []
        self.n_near = 0

    def add(self, user: int, start: int, products: Array) -> None:
        """Count among what a user's scores of the items from an index on are about."""
        entries = np.arange(*self.ranked.offsets[user : user + 2])
        if not len(entries):
            return
        index, near = self.ranked.values[entries], []
        is_here = self.is_listed[entries] & (index >= start) & (index < start + len(products))
        n_above, n_tied = np.zeros(len(entries), np.int64), np.zeros(len(entries), np.int64)
        # One ranked item after the other: the marks of all of them would not stay in a core's cache.
        reached, above = np.empty(len(products), np.bool_), np.empty(len(products), np.bool_)
        n_near = 0
        for place, entry in enumerate(entries.tolist()):
            np.less_equal(self.low[entry], products, out=reached)
            np.less(self.high[entry], products, out=above)
            n_above[place] = np.count_nonzero(above)
            n_around = int(np.count_nonzero(reached) - n_above[place])
            n_near += n_around
            if n_near > _FEW_NEAR:
                self._count_exactly(user, entries, start, products)
                return
            if n_around == 1 and is_here[place]:
                n_tied[place] = 1  # the ranked item itself
            elif n_around:
                # What is above is reached.
                items = np.flatnonzero(reached ^ above)
                near.append((np.full(len(items), entry), items + start))
        self.above[entries] += n_above
        self.tied[entries] += n_tied
        self.near += near
        self.n_near += n_near

    def _count_exactly(self, user: int, entries: IntArray, start: int, products: Array) -> None:
        listed = np.flatnonzero(products > _NOTHING)
        scores = self.users.exact_of_all(user, start, start + len(products))[listed]
        # Equal scores stay in the order of their indices.
        order = np.argsort(scores, kind="stable")
        ascending, indices = scores[order], listed[order] + start
        lowest, end = (np.searchsorted(ascending, self.score[entries], side) for side in ("left", "right"))
        self.above[entries] += len(listed) - end
        self.tied[entries] += end - lowest
        for entry, low, high in zip(entries, lowest, end, strict=True):
            self.before[entry] += np.searchsorted(indices[low:high], self.ranked.values[entry])

    def decide(self) -> None:
        """Count what the products left open."""
        if self.near:
            entries, items = map(np.concatenate, zip(*self.near, strict=True))
            scores, own = self.users.exact(self.ranked.user[entries], items), self.score[entries]
            same = scores == own
            earlier = items < self.ranked.values[entries]
            n_entries = len(self.above)
            self.above += np.bincount(entries[scores > own], minlength=n_entries)
            self.tied += np.bincount(entries[same], minlength=n_entries)
            self.before += np.bincount(entries[same & earlier], minlength=n_entries)
            self.near.clear()
            self.n_near = 0


def _first_indices(products: Array, first: int, error: float) -> IntArray:
    """Where the first items of a list are among its products, and a few more: all that the error may have brought down."""
    kind, lowest = products.dtype.type, np.finfo(products.dtype).min
    least = lowest
    if len(products) > first:
        least = np.partition(products, len(products) - first)[len(products) - first]
    # At least `first` items have exact scores of at least `least` − error. An item that belongs to the first has such a score, too.
    # Then its product is at least `least` − 2 · error.
    with np.errstate(over="ignore"):
        enough = np.nextafter(kind(float(least) - 2 * error), kind(-np.inf))
    # What is in no list is −∞, and below that.
    return np.flatnonzero(products >= np.maximum(enough, lowest))


def _best(indices: IntArray, scores: FloatArray, first: int, ties: Ties) -> IntArray:
    """The `first` items that score highest, of some items in the order of their indices."""
    least = np.partition(scores, len(scores) - first)[len(scores) - first]
    above, tied = indices[scores > least], indices[scores == least]
    n_tied = first - len(above)
    return np.concatenate([above, tied[-n_tied:] if ties == "item_desc" else tied[:n_tied]])


class _Firsts(NamedTuple):
    """The first items of some users' lists, user by user and best first."""

    user: IntArray
    item: IntArray
    score: FloatArray


def _first(users: ScoredUserVectors, chosen: list[tuple[IntArray, IntArray]], first: int, ties: Ties) -> _Firsts:
    """The first of some items of each user, in the order of exact scores."""
    user, item = map(np.concatenate, zip(*chosen, strict=True))
    score = users.exact(user, item)
    order = np.lexsort((-item if ties == "item_desc" else item, -score, user))
    kept = order[user_lists.position_within(user[order], len(users.bias)) < first]
    return _Firsts(user[kept], item[kept], score[kept])


#: The columns of tables of first items, beside those of the user.
RECOMMENDATIONS, N_INVALID, N_INVALID_CATALOGUE = "recommendations", "n_invalid", "n_invalid_catalogue"
# So many first items of lists are worked at a time.
_LISTED = 1 << 20


class TaskCatalogue(NamedTuple):
    """The catalogue of a model, as a task holds it."""

    ids: pa.Array  # of the items, in their order
    scored: Catalogue  # their vectors
    faults: Faults  # what was left out

    def indices(self, side: grouped_row.Side) -> Ragged:
        """Each user's items by their index in the catalogue, each once; those that it lacks are left out."""
        indices = side.lists.like(self.index_of(side.ids))
        return user_lists.distinct(indices.where(indices.values >= 0))

    def index_of(self, ids: pa.Array) -> IntArray:
        """The index of each item in the catalogue, −1 if it has none."""
        return grouped_row.indices_among(ids.cast(self.ids.type), self.ids, unknown=-1)


class FirstItems(NamedTuple):
    """The items at the top of lists that are the whole catalogue."""

    k: int  # how many
    ties: Ties  # how equal scores are ordered


def read_catalogues(
    tables: Mapping[str, pa.Scalar], similarities: Sequence[Similarity | None]
) -> dict[int, TaskCatalogue]:
    """The catalogues that a task's first row brings, by the index of their model; no other row brings any."""
    catalogues = {}
    for model, similarity in enumerate(similarities):
        name = grouped_row.column_of_model(grouped_row.CATALOGUE, model)
        if similarity is not None and name in tables:
            packed = PackedCatalogue.unpack(tables[name].as_buffer())
            scored = Catalogue(packed.vectors, packed.bias, similarity)
            catalogues[model] = TaskCatalogue(packed.ids, scored, packed.faults)
    return catalogues


def limits_of(columns: dict[str, pa.Array], model: int, catalogue: TaskCatalogue, has_list: BoolArray) -> Limits:
    """Which items of a catalogue are in the lists of a batch of users."""
    excluded = grouped_row.read_excluded(columns)
    candidates = columns.get(grouped_row.column_of_model(grouped_row.CANDIDATES, model))
    return Limits(
        has_list,
        excluded=None if excluded is None else catalogue.indices(excluded),
        candidates=None if candidates is None else catalogue.indices(grouped_row.side_of(candidates)),
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
    ranks: Ranks
    first_ids: pa.Array
    n_predictions: IntArray
    n_excluded: IntArray
    faults: Faults


def ranked_in_catalogue(
    columns: dict[str, pa.Array],
    model: int,
    catalogue: TaskCatalogue,
    labels: grouped_row.Side | None,
    first: FirstItems,
) -> RankedLists:
    """The lists of users who come with their vectors.

    A vector of another length than those of the catalogue cannot be used. If no length is known, none is wrong.
    """
    column = columns[grouped_row.column_of_model(grouped_row.VECTOR, model)]
    added = numbers(columns[grouped_row.column_of_model(grouped_row.BIAS, model)])
    lengths = usable_lengths(column, added)
    length, n_users = catalogue.scored.length, len(lengths)
    has_vector = (lengths == length if length else lengths > 0) & ~grouped_row.flags(columns[grouped_row.NO_USER])
    vectors = np.zeros((n_users, length))
    if length:
        vectors[has_vector] = numbers(column.filter(pa.array(has_vector)).flatten()).reshape(-1, length)
    users = ScoredUserVectors(catalogue.scored, vectors, np.where(has_vector, added, 0.0))
    limits = limits_of(columns, model, catalogue, has_vector)
    indices = Ragged(np.empty(0, np.int64), np.zeros(n_users + 1, np.int64))
    if labels is not None:
        indices = labels.lists.like(catalogue.index_of(labels.ids))
    ranks = rank_items(users, indices, limits, first.ties, first.k)
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
    rank_of_id[sorted_indices(ids)] = np.arange(len(ids))
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


def _faults_of_shards(messages: _Entries) -> tuple[Faults, int]:
    """What cannot be used of the catalogue, and the usual length, from the messages for one user."""
    lengths = messages.inner(LENGTHS)
    n_rows, n_repeated = Counter[int](), Counter[int]()
    for length, n, repeated in zip(*map(lengths.numbers, (LENGTH, N_ROWS, N_REPEATED)), strict=True):
        n_rows[int(length)] += int(n)
        n_repeated[int(length)] += int(repeated)
    usual = usual_length(n_rows)
    n_invalid = int(messages.numbers(N_INVALID_ROWS).sum())
    return Faults(n_invalid, n_rows.total() - n_rows[usual], n_repeated[usual]), usual


def _labels_of_shards(known: _Entries, labels: grouped_row.Side | None, has_list: BoolArray) -> tuple[BoolArray, Ranks]:
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
    return is_known, Ranks(is_ranked, above, tied, before, score, nothing, np.empty(0))


class VectorLists:
    """The lists of a model and a batch of users: the catalogue in the order of each user's scores."""

    def __init__(
        self,
        columns: dict[str, pa.Array],
        model: int,
        catalogue: TaskCatalogue | None,
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
        catalogues: dict[int, TaskCatalogue] = {}
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
    catalogues: Mapping[int, TaskCatalogue] = field(default_factory=dict)  # those that the task received, by model

    name = "vectors"
    totals = faults = CATALOGUE_FAULTS

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
            name: sum(model_faults[index] for model_faults in faults) for index, name in enumerate(CATALOGUE_FAULTS)
        }

    def counts(self, labels: Ragged) -> Mapping[str, Array]:
        """A model that has lists needs no vectors."""
        return {"n_labels_without_vector": np.zeros(labels.n_users, np.int64)}
