"""A catalogue of vectors: packed once, read once by each task, scored exactly, and the ranks of labels in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.ranking import user_lists
from spark_rankeval.ranking.user_lists import Array, BoolArray, FloatArray, IntArray, Ragged, Ties
from spark_rankeval.request.call import Similarity
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
# The columns of what is packed, before those of filters, and the name of the vectors' length in it.
_COLUMNS = (CATALOGUE_ITEM, CATALOGUE_VECTOR, ITEM_BIAS)
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

    def __init__(self, example: pa.RecordBatch) -> None:
        self.n_invalid, self.n_rows = 0, Counter[int]()
        self._parts: dict[int, list[tuple[pa.Array, Array, Array, list[pa.Array]]]] = {}
        self._nothing = grouped_row.columns_of(example.slice(0, 0))

    def add(self, rows: pa.RecordBatch) -> None:
        """Take in some rows, as views of them."""
        columns = grouped_row.columns_of(rows)
        ids, vectors, bias = (columns[name] for name in _COLUMNS)
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
            filters = [values.filter(mask) for values in grouped_row.filters_of(columns)]
            self._parts.setdefault(length, []).append((ids.filter(mask), matrix, added[kept], filters))

    def items(self, length: int) -> tuple[pa.Array, Array, Array, list[pa.Array]]:
        """The items with vectors of a length, in the order of their ids: ids, vectors, biases and values of filters, handed over once.

        Of an item's several rows the greatest vector stays.
        """
        parts = self._parts.pop(length, [])
        if not parts:
            filters = grouped_row.filters_of(self._nothing)
            return self._nothing[CATALOGUE_ITEM], np.empty((0, length)), np.empty(0), filters
        ids, bias = pa.concat_arrays([part[0] for part in parts]), np.concatenate([part[2] for part in parts])
        vectors = np.concatenate([part[1] for part in parts])
        filters = [pa.concat_arrays(values) for values in zip(*(part[3] for part in parts), strict=True)]
        # Not to hold the vectors three times.
        parts.clear()
        chosen = _rows_to_keep(ids, vectors, bias, filters)
        kept = pa.array(chosen)
        return ids.take(kept), vectors[chosen], bias[chosen], [values.take(kept) for values in filters]


class PackedCatalogue(NamedTuple):
    """The items that can be ranked, in the order of their ids.

    Attributes:
        ids: of the items.
        vectors: float32 or float64 (n_items, length), a row an item.
        bias: float64 (n_items,), what is added to all scores of an item.
        faults: what was left out.
        filters: the values of each item, by filter: lists of bytes, which are coded by a dictionary.
    """

    ids: pa.Array
    vectors: Array
    bias: Array
    faults: Faults
    filters: Sequence[pa.Array] = ()

    @classmethod
    def of_length(cls, rows: ItemRows, length: int) -> PackedCatalogue:
        """The items with vectors of a length, which are handed over once. Of an item's several rows the greatest vector stays."""
        ids, vectors, bias, filters = rows.items(length)
        n_kept = rows.n_rows[length]
        faults = Faults(rows.n_invalid, rows.n_rows.total() - n_kept, n_kept - len(ids))
        return cls(ids, vectors, bias, faults, [_coded(values) for values in filters])

    def in_task(self, similarity: Similarity) -> TaskCatalogue:
        """The items as a task holds them."""
        scored = Catalogue(self.vectors, self.bias, similarity)
        return TaskCatalogue(self.ids, scored, self.faults, tuple(map(ItemValues.read, self.filters)))

    def pack(self) -> bytes:
        """As Arrow's stream of one batch."""
        n_items, length = self.vectors.shape
        offsets = pa.array(np.arange(n_items + 1, dtype=np.int32) * length, pa.int32())
        vectors = pa.ListArray.from_arrays(offsets, pa.array(self.vectors.ravel()))
        columns = dict(zip(_COLUMNS, (self.ids, vectors, pa.array(self.bias)), strict=True))
        table = pa.table(columns | {grouped_row.filter_column(index): each for index, each in enumerate(self.filters)})
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
        filters = [column for name, column in grouped_row.columns_of(batch).items() if name not in _COLUMNS]
        matrix = vectors.reshape(batch.num_rows, length)
        return cls(batch.column(CATALOGUE_ITEM), matrix, bias, Faults(**counts), filters)


def _coded(lists: pa.Array) -> pa.Array:
    """Lists whose entries are numbers of a dictionary."""
    values, offsets = grouped_row.flat(lists)
    return pa.LargeListArray.from_arrays(offsets, values.dictionary_encode())


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
            rows = rows or ItemRows(batch)
            rows.add(batch.filter(batch.column(IS_CATALOGUE_ROW)))
        if n_bytes > most_bytes:
            raise RuntimeError(_too_large(n_rows, n_bytes, most_bytes))
        # A partition without a row comes alone, if Spark finds the table empty.
        if rows is not None:
            packed = PackedCatalogue.of_length(rows, usual_length(rows.n_rows)).pack()
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


def _rows_to_keep(ids: pa.Array, vectors: Array, bias: Array, filters: Sequence[pa.Array]) -> Array:
    """The indices of the rows to keep, by item.

    Of an item's several rows that of the greatest vector, then of the greatest bias, then of the last values of filters as text.
    """
    order = sorted_indices(ids)
    ordered = ids.take(pa.array(order))
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = pc.not_equal(ordered[1:], ordered[:-1]).to_numpy(zero_copy_only=False)
    item = np.cumsum(is_new) - 1
    is_last = np.append(is_new[1:], True)[: len(order)]
    repeated = np.flatnonzero(~(is_new & is_last))
    rows = order[repeated]
    words = [str(row) for row in zip(*(values.take(pa.array(rows)).to_pylist() for values in filters), strict=True)]
    values = np.unique(words, return_inverse=True)[1] if words else np.zeros(len(rows), np.int64)
    order[repeated] = rows[np.lexsort((values, bias[rows], *vectors[rows].T[::-1], item[repeated]))]
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


@dataclass(frozen=True)
class ItemValues:
    """What a filter compares of the items of a catalogue.

    Attributes:
        values: the different values of all items, as bytes.
        of_items: the values of each item, by their indices.
    """

    values: pa.Array
    of_items: Ragged

    @classmethod
    def read(cls, coded: pa.Array) -> ItemValues:
        """From lists of a `PackedCatalogue`."""
        entries, offsets = grouped_row.flat(coded)
        return cls(entries.dictionary, Ragged(entries.indices.to_numpy(), offsets))

    @cached_property
    def items(self) -> Ragged:
        """The items that have each value, by their indices, ascending."""
        order = np.argsort(self.of_items.values, kind="stable")
        return user_lists.grouped(self.of_items.user[order], self.of_items.values[order], len(self.values))

    def filter(self, values: pa.Array) -> Filter:
        """The filter for users with these lists of values."""
        entries, offsets = grouped_row.flat(values)
        indices = grouped_row.indices_among(entries, self.values, unknown=-1)
        return Filter(self, Ragged(indices, offsets).where(indices >= 0))


class Filter(NamedTuple):
    """A list has only items that share a value with its user."""

    items: ItemValues
    of_users: Ragged  # int64, the values of each user, by their indices

    def passes(self, items: Ragged) -> BoolArray:
        """Which of the users' items share a value with their user; −1 is none."""
        known = np.flatnonzero(items.values >= 0)
        values = self.items.of_items.take(items.values[known])
        user = items.user[known[values.user]]
        wanted = user_lists.grouped(values.values.astype(np.int64), user, items.n_users)
        shared = user_lists.contained(wanted, self.of_users)
        passed = np.zeros(len(items.values), np.bool_)
        passed[known[values.user[shared]]] = True
        return passed

    def passed(self, user: int, start: int, stop: int) -> BoolArray:
        """Whether each item from an index to before another shares a value with a user."""
        passed = np.zeros(stop - start, np.bool_)
        for value in self.of_users.values[slice(*self.of_users.offsets[user : user + 2])].tolist():
            items = self.items.items.values[slice(*self.items.items.offsets[value : value + 2])]
            low, high = np.searchsorted(items, [start, stop])
            passed[items[low:high] - start] = True
        return passed


class Limits(NamedTuple):
    """Which items of the catalogue are in each user's list, by their indices.

    Attributes:
        has_list: bool (n_users,), who has a list at all.
        excluded: the items that the list leaves out, each once; None: none.
        candidates: the only items that it may have, each once; None: all.
        filters: what all of its items share with the user.
    """

    has_list: BoolArray
    excluded: Ragged | None = None
    candidates: Ragged | None = None
    filters: tuple[Filter, ...] = ()

    def n_excluded(self) -> IntArray:
        """How many items each list lost; int64 (n_users,)."""
        if self.excluded is None:
            return np.zeros(len(self.has_list), np.int64)
        lost = self._may_have(self.excluded)
        return np.bincount(self.excluded.user[lost], minlength=len(self.has_list))

    def lengths(self, n_items: int) -> IntArray:
        """How many items each list has; int64 (n_users,)."""
        whole = np.full(len(self.has_list), n_items)
        if self.candidates is not None:
            whole = np.bincount(self.candidates.user[self._may_have(self.candidates)], minlength=len(whole))
        elif self.filters:
            users = np.flatnonzero(self.has_list)
            for places in self.alike(users):
                whole[users[places]] = np.count_nonzero(self.passed(users[places[0]], 0, n_items))
        return np.where(self.has_list, whole - self.n_excluded(), 0)

    def has(self, items: Ragged) -> BoolArray:
        """Which items are in the lists of their users; −1 is none."""
        inside = self._may_have(items)
        if self.excluded is not None:
            inside &= ~user_lists.contained(items, self.excluded)
        return inside

    def _may_have(self, items: Ragged) -> BoolArray:
        """Which items would be in the lists of their users if none were excluded."""
        inside = (items.values >= 0) & self.has_list[items.user]
        if self.candidates is not None and items is not self.candidates:
            inside &= user_lists.contained(items, self.candidates)
        for each in self.filters:
            inside &= each.passes(items)
        return inside

    def alike(self, users: IntArray) -> list[list[int]]:
        """Users with the same values of all filters, by their places among some users; no one without a filter."""
        if not self.filters:
            return []
        together: dict[tuple[bytes, ...], list[int]] = {}
        for place, user in enumerate(users.tolist()):
            lists = (each.of_users.users(user, user + 1).values for each in self.filters)
            together.setdefault(tuple(values.tobytes() for values in lists), []).append(place)
        return list(together.values())

    def passed(self, user: int, start: int, stop: int) -> BoolArray:
        """Whether each item from an index to before another passes all filters for a user."""
        passed: BoolArray = np.logical_and.reduce([each.passed(user, start, stop) for each in self.filters])
        return passed


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
        alike = limits.alike(some)
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
            for places in alike:
                hidden = ~limits.passed(some[places[0]], start, start + products.shape[1])
                for place in places:
                    np.putmask(products[place], hidden, _NOTHING)
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
    least, listed = lowest, products >= lowest
    # Numpy takes tens of times as long to part many equal values.
    scores = products[listed] if 2 * np.count_nonzero(listed) < len(products) else products
    if len(scores) > first:
        least = np.partition(scores, len(scores) - first)[len(scores) - first]
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


class TaskCatalogue(NamedTuple):
    """The catalogue of a model, as a task holds it."""

    ids: pa.Array  # of the items, in their order
    scored: Catalogue  # their vectors
    faults: Faults  # what was left out
    filters: tuple[ItemValues, ...]  # their values, by filter

    def indices(self, side: grouped_row.Side) -> Ragged:
        """Each user's items by their index in the catalogue, each once; those that it lacks are left out."""
        indices = side.lists.like(self.index_of(side.ids))
        return user_lists.distinct(indices.where(indices.values >= 0))

    def index_of(self, ids: pa.Array) -> IntArray:
        """The index of each item in the catalogue, −1 if it has none."""
        return grouped_row.indices_among(ids.cast(self.ids.type), self.ids, unknown=-1)
