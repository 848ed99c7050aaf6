"""The catalogue of a model with its vectors, packed once and read once by each task; and scores from vectors, exact and approximate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.ranking.ragged import Array, BoolArray, FloatArray, IntArray
from spark_rankeval.request.options import CATALOGUE_TOO_LARGE, Similarity
from spark_rankeval.worker.process import PACKED, runs_in_worker, stream_of
from spark_rankeval.worker.reading import flat, is_text, numbers

# Half the distance from 1 to the next float32, and the smallest float32 and float64 that lose no digits, or any.
_EPSILON, _SMALL_32, _SMALLEST_64 = 2.0**-24, 2.0**-126, 5e-324
# Numbers of vectors that are worked at a time.
_CELLS = 1 << 17
# At most so many items, and at most one of so many, are scored exactly by themselves. These have numbers that are so many times larger than
# all others.
_MOST_APART, _ITEMS_PER_APART, _TIMES = 64, 256, 4.0
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


@dataclass(frozen=True, eq=False)
class Catalogue:
    """The vectors of all items that can be ranked.

    Attributes:
        numbers: float32 or float64 (n_items, length), one row per item, in the order of the items' ids.
        bias: float64 (n_items,), what is added to all scores of an item.
        similarity: how a score is made of two vectors.
        apart: the indices of a few items whose vectors are much longer than all others. With them, the products' bound would be too wide.
        approximate: float32 (length, n_items), one column per item, times 2^−exponent; 0 for items apart.
        exponent: of the largest number, so that nothing in `approximate` is above 1.
        longest: the length of its longest column.
        largest_bias: of all items, without its sign.
    """

    numbers: Array
    bias: FloatArray
    similarity: Similarity
    apart: IntArray
    approximate: Array
    exponent: int
    longest: float
    largest_bias: float

    @classmethod
    def prepare(cls, numbers: Array, bias: FloatArray, similarity: Similarity = "dot") -> Catalogue:
        """A catalogue of numbers that can be used."""
        if similarity == "cosine":
            numbers = _unit_rows(numbers)
        n_items, length = numbers.shape
        largest = np.maximum(numbers.max(axis=1, initial=0.0), -numbers.min(axis=1, initial=0.0)).astype(np.float64)
        apart = _much_larger(largest)
        is_apart = np.zeros(n_items, np.bool_)
        is_apart[apart] = True
        exponent = int(np.frexp(largest[~is_apart].max(initial=0.0))[1])
        # So, matrix products of few users are twice as fast as with one row per item.
        approximate = np.empty((length, n_items), np.float32)
        longest = 0.0
        step = max(1, _CELLS // max(1, length))
        for start in range(0, n_items, step):
            part = slice(start, start + step)
            whole = numbers[part].astype(np.float64)
            whole[is_apart[part]] = 0.0
            whole = np.ldexp(whole, -exponent)
            approximate[:, part] = whole.T
            longest = max(longest, float(np.sqrt((whole * whole).sum(axis=1)).max()))
        return cls(
            numbers, bias, similarity, apart, approximate, exponent, longest, float(np.abs(bias).max(initial=0.0))
        )

    @property
    def is_plain(self) -> bool:
        """Whether matrix products are all there is to its scores, without biases and items apart."""
        return not (self.largest_bias or len(self.apart))

    @property
    def n_items(self) -> int:
        """How many items there are."""
        return len(self.numbers)

    @property
    def length(self) -> int:
        """How many numbers a vector has."""
        return int(self.numbers.shape[1])


@dataclass(frozen=True, eq=False)
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

    catalogue: Catalogue
    numbers: Array
    bias: FloatArray
    approximate: Array
    exponent: IntArray
    scale: IntArray
    error: FloatArray

    @classmethod
    def prepare(cls, catalogue: Catalogue, numbers: Array, bias: FloatArray) -> ScoredUserVectors:
        """Users whose numbers can be used, with vectors as long as those of the catalogue."""
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
        return cls(catalogue, numbers, bias, whole.astype(np.float32), exponent, scale, error)

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
        stop = start + len(products)
        about: FloatArray = np.multiply(products, np.ldexp(1.0, self.exponent[user]), dtype=np.float64)
        about += catalogue.bias[start:stop]
        apart = catalogue.apart[slice(*np.searchsorted(catalogue.apart, [start, stop]))]
        apart = apart[about[apart - start] > -np.inf]
        users = np.full(len(apart), user)
        about[apart - start] = self.as_about(users, self.exact(users, apart))
        return about

    def as_about(self, user: IntArray, scores: FloatArray) -> FloatArray:
        """Scores as `about` would have them without its error; float64."""
        about: FloatArray = np.ldexp(scores - self.bias[user], -self.scale[user])
        return about


def _much_larger(largest: Array) -> IntArray:
    """The indices of the few largest of some numbers, if all others are much smaller."""
    n_others = len(largest) - min(_MOST_APART, len(largest) // _ITEMS_PER_APART)
    if n_others == len(largest):
        return np.empty(0, np.int64)
    return np.flatnonzero(largest > _TIMES * np.partition(largest, n_others - 1)[n_others - 1])


#: The columns of the rows that are packed: the item, its vector, what is added to its scores, and whether the row is of the catalogue.
CATALOGUE_ITEM, CATALOGUE_VECTOR, ITEM_BIAS, IS_CATALOGUE_ROW = "item", "vector", "bias", "in_catalogue"
#: A length of vectors, and how many rows of the catalogue have it.
USUAL_LENGTH, N_ROWS = "usual_length", "n_rows"
_MOST_BYTES = 2_000_000_000
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
    def from_rows(cls, rows: pa.Table) -> PackedCatalogue:
        """Choose the rows that can be used, and bring them into order. Of an item's several rows the greatest vector stays."""
        ids, vectors, bias = (_column(rows, name) for name in (CATALOGUE_ITEM, CATALOGUE_VECTOR, ITEM_BIAS))
        if pa.types.is_floating(ids.type):
            # The two zeros are one item.
            ids = pc.add(ids, pa.scalar(0.0, ids.type))
        added = numbers(bias)
        lengths, is_valid = _usable_lengths(ids, vectors, added)
        length = int(np.bincount(lengths[is_valid]).argmax()) if is_valid.any() else 0
        kept = np.flatnonzero(is_valid & (lengths == length))
        ids, matrix, added = ids.take(pa.array(kept)), _matrix(vectors.take(pa.array(kept)), length), added[kept]
        chosen = _rows_to_keep(ids, matrix, added)
        faults = Faults(
            n_invalid=int((~is_valid).sum()),
            n_ragged=int(is_valid.sum()) - len(kept),
            n_repeated=len(kept) - len(chosen),
        )
        return cls(ids.take(pa.array(chosen)), matrix[chosen], added[chosen], faults)

    def pack(self) -> bytes:
        """As Arrow's stream of one batch."""
        n_items, length = self.vectors.shape
        offsets = pa.array(np.arange(n_items + 1, dtype=np.int32) * length, pa.int32())
        vectors = pa.ListArray.from_arrays(offsets, pa.array(self.vectors.ravel()))
        table = pa.table({CATALOGUE_ITEM: self.ids, CATALOGUE_VECTOR: vectors, ITEM_BIAS: pa.array(self.bias)})
        counts = {name: str(count) for name, count in (self.faults._asdict() | {_LENGTH: length}).items()}
        return bytes(stream_of(table.replace_schema_metadata(counts)))

    @classmethod
    def unpack(cls, packed: pa.Buffer) -> PackedCatalogue:
        """What `pack` packed, without copying the vectors."""
        with pa.ipc.open_stream(packed) as stream:
            batch = stream.read_next_batch()
        counts = {name.decode(): int(count) for name, count in batch.schema.metadata.items()}
        length = counts.pop(_LENGTH)
        vectors, bias = batch.column(CATALOGUE_VECTOR).flatten().to_numpy(), batch.column(ITEM_BIAS).to_numpy()
        return cls(batch.column(CATALOGUE_ITEM), vectors.reshape(batch.num_rows, length), bias, Faults(**counts))


@runs_in_worker
def pack_catalogue(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A function for ``mapInArrow``: the rows of a catalogue as a row of bytes; a row that is not of the catalogue is passed over."""
    received_batches: list[pa.RecordBatch] = []
    n_bytes = 0
    for batch in batches:
        received_batches.append(batch)
        n_bytes += batch.nbytes
        if n_bytes > _MOST_BYTES:
            # Arrow would say so, too, but only once the memory of several copies is used up.
            raise RuntimeError(CATALOGUE_TOO_LARGE)
    if not received_batches:
        # A partition without a row comes alone, if Spark finds the table empty.
        return
    rows = pa.Table.from_batches(received_batches)
    catalogue = PackedCatalogue.from_rows(rows.filter(rows[IS_CATALOGUE_ROW]))
    yield pa.RecordBatch.from_pydict({PACKED: pa.array([catalogue.pack()], pa.binary())})


@runs_in_worker
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
    lengths: IntArray = pc.fill_null(pc.list_value_length(vectors), 0).to_numpy(zero_copy_only=False)
    return lengths, _has_item(ids) & (lengths > 0) & is_usable(bias) & all_usable(vectors)


def _column(rows: pa.Table, name: str) -> pa.Array:
    return rows[name].combine_chunks()


def _has_item(ids: pa.Array) -> BoolArray:
    is_valid: BoolArray = ids.is_valid().to_numpy(zero_copy_only=False)
    return is_valid & ~np.isnan(numbers(ids)) if pa.types.is_floating(ids.type) else is_valid


def all_usable(vectors: pa.Array) -> BoolArray:
    """Whether every number of each vector can be used; of a null vector, true."""
    entries, offsets = flat(vectors)
    is_wrong = ~is_usable(numbers(entries))
    n_wrong_before = np.concatenate([[0], np.cumsum(is_wrong)])[offsets]
    all_right: BoolArray = np.diff(n_wrong_before) == 0
    return all_right


def _matrix(vectors: pa.Array, length: int) -> Array:
    matrix: Array = vectors.flatten().to_numpy(zero_copy_only=False).reshape(len(vectors), length)
    return matrix


def _rows_to_keep(ids: pa.Array, vectors: Array, bias: Array) -> Array:
    """The indices of the rows to keep, by item; of an item's several rows that of the greatest vector, then of the greatest bias."""
    # As bytes: no collation may come between.
    order = pc.array_sort_indices(ids.cast(pa.large_binary()) if is_text(ids.type) else ids).to_numpy().astype(np.int64)
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
