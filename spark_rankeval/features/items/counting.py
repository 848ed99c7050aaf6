"""How many users have each item, and which shares are of more popular items: counted by workers from the training data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_rankeval.features.items import wire
from spark_rankeval.ranking.ragged import starts_of_runs
from spark_rankeval.ranking.recommended import PopularityLevels
from spark_rankeval.worker.process import in_worker
from spark_rankeval.worker.reading import filled, flat, whole_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_rankeval.ranking.ragged import FloatArray, IntArray

    Batches = Iterator[pa.RecordBatch]


def levels_of(n_users: IntArray) -> tuple[IntArray, PopularityLevels]:
    """The level of each item by how many users have it, and behind these that of an unknown item; and the levels."""
    different, place, n_items = np.unique(n_users, return_inverse=True, return_counts=True)
    pairs, items = (np.append(1.0, shares) for shares in shares_above(different, n_items))
    return np.append(1 + place, 0).astype(np.int64), PopularityLevels(pairs, items, np.append(0, n_items))


def shares_above(n_users: IntArray, n_items: IntArray) -> tuple[FloatArray, FloatArray]:
    """Which share of all pairs of a user and an item, and which share of the items, is of items that more users have.

    Items that nobody has are no items of the training data, and have 1.

    Args:
        n_users: int64, different numbers of users, ascending.
        n_items: int64, how many items have so many users.
    """
    n_items = np.where(n_users > 0, n_items, 0)
    pairs, items = (
        # The sum of those before a number and of its own, taken from the whole, leaves those above it.
        np.where(n_users > 0, (amount.sum() - np.cumsum(amount)) / max(1, int(amount.sum())), 1.0)
        for amount in (n_users * n_items, n_items)
    )
    return pairs, items


def count_items(batch: pa.RecordBatch) -> pa.Table:
    """How many users have each item, and how often it is there: from the lists of users, each in a row.

    A row of a null item has the number of users with any item, the number of rows that cannot be used, and the sum of all rows' hashes.
    """
    items, offsets = flat(batch.column(wire.CONSUMED))
    (code, coded), lengths = _coded(items), np.diff(offsets)
    # In one number, narrow if it fits: sorting is quicker than a table of all pairs. Users stay where they are.
    kind = np.int32 if len(lengths) * len(coded) < np.iinfo(np.int32).max else np.int64
    user = np.repeat((np.arange(len(lengths)) * len(coded)).astype(kind), lengths)
    pairs = np.sort(user + code.astype(kind))
    first = starts_of_runs(pairs)
    users = np.bincount(pairs[first] - user[first], minlength=len(coded))
    occurs = np.flatnonzero(users)
    columns = {
        wire.ITEM: pa.concat_arrays([coded.take(pa.array(occurs)), pa.nulls(1, items.type)]),
        wire.TRAINING_USERS: np.append(users[occurs], np.count_nonzero(lengths)),
        wire.TRAINING_INTERACTIONS: np.append(np.bincount(code)[occurs], whole_numbers(batch.column(wire.ROWS)).sum()),
        wire.TRAINING_HASH: np.append(
            np.zeros(len(occurs), np.int64), whole_numbers(batch.column(wire.TRAINING_HASH)).sum()
        ),
    }
    return pa.table({name: pa.array(values) for name, values in columns.items()})


def _coded(items: pa.Array) -> tuple[IntArray, pa.Array]:
    """Items as places among different ones, of which some may not occur.

    If whole numbers lie close together, a place is the number minus the least, which takes a tenth of the time.
    """
    if pa.types.is_integer(items.type) and len(items):
        numbers = whole_numbers(items)
        least, most = int(numbers.min()), int(numbers.max())
        if most - least < len(items):
            return numbers - least, pa.array(np.arange(most - least + 1) + least).cast(items.type)
    encoded = items.dictionary_encode()
    return filled(encoded.indices, 0).astype(np.int64), encoded.dictionary


def add_counts(counts: pa.Table) -> pa.Table:
    """The counts of each item, from those of several parts of the users."""
    counted = [wire.TRAINING_USERS, wire.TRAINING_INTERACTIONS, wire.TRAINING_HASH]
    grouped = counts.group_by(wire.ITEM, use_threads=False).aggregate([(name, "sum") for name in counted])
    return pa.table({wire.ITEM: grouped[wire.ITEM], **{name: grouped[f"{name}_sum"] for name in counted}})


@in_worker
def counted_items(batches: Batches) -> Batches:
    """For ``mapInArrow``: the same as rows, those of an item in any number of parts."""
    for batch in batches:
        yield from count_items(batch).to_batches()


@in_worker
def rows_of_shares(batches: Batches) -> Batches:
    """For ``mapInArrow`` in one task: the shares of `shares_above` as rows, from rows of how many items have a number of users."""
    rows = list(batches)
    if rows:
        counts = pa.Table.from_batches(rows).sort_by(wire.TRAINING_USERS)
        n_users, n_items = (counts[name].to_numpy() for name in (wire.TRAINING_USERS, wire.ROWS))
        shares = dict(zip(wire.LONG_TAIL, shares_above(n_users, n_items), strict=True))
        yield from pa.table({wire.TRAINING_USERS: n_users, **shares}).to_batches()
