"""The catalogue of a model with its vectors: packed into bytes once, and read once by each task."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.features.vectors.scores import is_usable
from spark_rankeval.request.vectors import CATALOGUE_TOO_LARGE
from spark_rankeval.worker.packed import PACKED, stream_of
from spark_rankeval.worker.process import in_worker
from spark_rankeval.worker.reading import flat, numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_rankeval.ranking.ragged import Array, BoolArray, IntArray

#: The columns of the rows that are packed: the item, its vector, what is added to its scores, and whether the row is of the catalogue.
ITEM, VECTOR, BIAS, IN_CATALOGUE = "item", "vector", "bias", "in_catalogue"
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
    def of(cls, rows: pa.Table) -> PackedCatalogue:
        """Choose the rows that can be used, and bring them into order. Of an item's several rows the greatest vector stays."""
        ids, vectors, bias = (_column(rows, name) for name in (ITEM, VECTOR, BIAS))
        if pa.types.is_floating(ids.type):
            # The two zeros are one item.
            ids = pc.add(ids, pa.scalar(0.0, ids.type))
        added = numbers(bias)
        lengths, is_valid = _usable_lengths(ids, vectors, added)
        length = int(np.bincount(lengths[is_valid]).argmax()) if is_valid.any() else 0
        kept = np.flatnonzero(is_valid & (lengths == length))
        ids, matrix, added = ids.take(pa.array(kept)), _matrix(vectors.take(pa.array(kept)), length), added[kept]
        chosen = _in_order(ids, matrix, added)
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
        table = pa.table({ITEM: self.ids, VECTOR: vectors, BIAS: pa.array(self.bias)})
        counts = {name: str(count) for name, count in (self.faults._asdict() | {_LENGTH: length}).items()}
        return bytes(stream_of(table.replace_schema_metadata(counts)))

    @classmethod
    def unpack(cls, packed: pa.Buffer) -> PackedCatalogue:
        """What `pack` packed, without copying the vectors."""
        with pa.ipc.open_stream(packed) as stream:
            batch = stream.read_next_batch()
        counts = {name.decode(): int(count) for name, count in batch.schema.metadata.items()}
        length = counts.pop(_LENGTH)
        vectors, bias = batch.column(VECTOR).flatten().to_numpy(), batch.column(BIAS).to_numpy()
        return cls(batch.column(ITEM), vectors.reshape(batch.num_rows, length), bias, Faults(**counts))


@in_worker
def pack_catalogue(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A function for ``mapInArrow``: the rows of a catalogue as a row of bytes; a row that is not of the catalogue is passed over."""
    given: list[pa.RecordBatch] = []
    n_bytes = 0
    for batch in batches:
        given.append(batch)
        n_bytes += batch.nbytes
        if n_bytes > _MOST_BYTES:
            # Arrow would say so, too, but only once the memory of several copies is used up.
            raise RuntimeError(CATALOGUE_TOO_LARGE)
    if not given:
        # A partition without a row, of which there is none beside one with rows unless Spark finds the table empty.
        return
    rows = pa.Table.from_batches(given)
    catalogue = PackedCatalogue.of(rows.filter(rows[IN_CATALOGUE]))
    yield pa.RecordBatch.from_pydict({PACKED: pa.array([catalogue.pack()], pa.binary())})


@in_worker
def count_lengths(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A function for ``mapInArrow``: how many rows of a catalogue that can be used have vectors of each length; a length may come again."""
    for batch in batches:
        ids, vectors, bias = (batch.column(name) for name in (ITEM, VECTOR, BIAS))
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
    known: BoolArray = ids.is_valid().to_numpy(zero_copy_only=False)
    return known & ~np.isnan(numbers(ids)) if pa.types.is_floating(ids.type) else known


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


def _in_order(ids: pa.Array, vectors: Array, bias: Array) -> Array:
    """The places of the rows to keep, by item; of an item's several rows that of the greatest vector, then of the greatest bias."""
    is_text = pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type)
    # As bytes: no collation may come between.
    order = pc.array_sort_indices(ids.cast(pa.large_binary()) if is_text else ids).to_numpy().astype(np.int64)
    in_order = ids.take(pa.array(order))
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = pc.not_equal(in_order[1:], in_order[:-1]).to_numpy(zero_copy_only=False)
    item = np.cumsum(is_new) - 1
    is_last = np.append(is_new[1:], True)[: len(order)]
    repeated = np.flatnonzero(~(is_new & is_last))
    rows = order[repeated]
    order[repeated] = rows[np.lexsort((bias[rows], *vectors[rows].T[::-1], item[repeated]))]
    chosen: Array = order[is_last]
    return chosen
