"""The facts of items as packed tables: counted from users' lists, given to every task, and looked up by the ids of items."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.ranking.ragged import starts_of_runs
from spark_rankeval.worker.categories import CategorySets
from spark_rankeval.worker.facts import (
    CATEGORY,
    CATEGORY_SET,
    DIMENSION,
    IN_ITEMS,
    ITEM,
    LONG_TAIL,
    N_ITEMS,
    N_TRAINING_INTERACTIONS,
    N_TRAINING_ITEMS,
    N_TRAINING_USERS,
    TOO_LARGE,
    TRAINING_INTERACTIONS,
    TRAINING_USERS,
    VECTOR,
    decoded,
    in_parts,
)
from spark_rankeval.worker.known_items import KnownItems
from spark_rankeval.worker.packed import Bound, received, unpacked
from spark_rankeval.worker.process import in_worker
from spark_rankeval.worker.reading import columns_of, filled, flat, hash_column, whole_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from spark_rankeval.ranking.ragged import Array, FloatArray, IntArray

    Batches = Iterator[pa.RecordBatch]

#: Columns of grouped users that have a packed table in the first row of a task.
POPULARITY_TABLE, ATTRIBUTES_TABLE = "popularity_table", "attributes_table"
#: A column of tables of items and of users: how many rows were grouped into one, or left out of it.
ROWS = "rows"
#: Columns of attributes in which the rows of an item disagree begin so.
CONFLICT = "conflict_"
#: The counts of items whose rows disagree, by the attribute.
CONFLICTS = {CATEGORY: "n_conflicting_categories", VECTOR: "n_conflicting_vectors"}
#: The column of the items of a user in the training data, as often as they are there.
CONSUMED = "consumed"
#: The column of the sum of the hashes of rows of the training data.
TRAINING_HASH = hash_column("training")
#: Larger tables are joined. Every task that runs holds such a table, in memory that Spark leaves beside its heap, often 384 MB; the
#: driver holds it once. Every task receives it, and beyond this a shuffle of predictions may cost less.
BOUND = Bound(rows=1_000_000, n_bytes=64 << 20)


class ItemTable(NamedTuple):
    """A table of a row an item, as it is looked up."""

    ids: KnownItems
    facts: dict[str, Array]  # an entry an item, and behind these that of an unknown item
    totals: dict[str, int]  # those of `TOTALS` that the table tells


class ItemTables(NamedTuple):
    """The tables that a task looks facts of items up in."""

    tables: list[ItemTable]
    totals: dict[str, int]
    category_sets: CategorySets

    @classmethod
    def read(cls, packed: Mapping[str, pa.Scalar]) -> ItemTables:
        """From the first row of a task; null stands for a table without a row. Of one that is too large no item is known."""
        given = {name: unpacked(cell) if cell.is_valid else _EMPTY[name] for name, cell in packed.items()}
        too_large = any(table is None for table in given.values())
        sets = CategorySets()
        tables = [_READ[name](table if table is not None else _EMPTY[name], sets) for name, table in given.items()]
        totals = {name: total for table in tables for name, total in table.totals.items()}
        return cls(tables, {**totals, TOO_LARGE: int(too_large)}, sets)

    def of(self, ids: pa.Array, fields: Collection[str]) -> dict[str, Array]:
        """These facts of items, an entry each."""
        facts: dict[str, Array] = {}
        for table in self.tables:
            if TRAINING_USERS in table.facts and not table.facts.keys() >= set(LONG_TAIL) & set(fields):
                # Once a task, and only if a metric asks: all counts are sorted for it.
                table.facts.update(zip(LONG_TAIL, above(table.facts[TRAINING_USERS]), strict=True))
            asked = {name: values for name, values in table.facts.items() if name in fields}
            if asked:
                places = table.ids.places(ids)
                facts |= {name: values[places] for name, values in asked.items()}
        return facts


def with_item_tables(batches: Batches) -> Iterator[tuple[pa.RecordBatch, ItemTables | None]]:
    """The batches of a task in parts as of `in_parts`, each with the tables that the task received; None if it received none."""
    tables: ItemTables | None = None
    for batch, packed in received(batches, (POPULARITY_TABLE, ATTRIBUTES_TABLE)):
        if tables is None and packed:
            tables = ItemTables.read(packed)
        if tables is not None and TRAINING_HASH in tables.totals:
            # If facts are joined, users bring it themselves.
            hashes = pa.array(np.full(batch.num_rows, tables.totals[TRAINING_HASH]))
            batch = pa.RecordBatch.from_pydict({**columns_of(batch), TRAINING_HASH: hashes})  # noqa: PLW2901
        dimension = None if tables is None else tables.totals.get(DIMENSION, 0)
        yield from ((part, tables) for part in in_parts(batch, dimension))


def above(n_users: IntArray) -> tuple[FloatArray, FloatArray]:
    """The shares of `shares_above`, of each item by how many users have it."""
    different, place, n_items = np.unique(n_users, return_inverse=True, return_counts=True)
    pairs, items = shares_above(different, n_items)
    return pairs[place], items[place]


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


def _read_popularity(table: pa.Table, category_sets: CategorySets) -> ItemTable:
    item = table[ITEM]
    of_items, of_nobody = table.filter(item.is_valid()).drop_columns([TRAINING_HASH]), table.filter(item.is_null())
    totals = {
        N_TRAINING_USERS: pc.sum(of_nobody[TRAINING_USERS]),
        "n_invalid_training": pc.sum(of_nobody[TRAINING_INTERACTIONS]),
        N_TRAINING_INTERACTIONS: pc.sum(of_items[TRAINING_INTERACTIONS]),
        TRAINING_HASH: pc.sum(of_nobody[TRAINING_HASH]),
    }
    known = {name: total.as_py() or 0 for name, total in totals.items()}
    return _looked_up(of_items, {**known, N_TRAINING_ITEMS: of_items.num_rows}, category_sets)


def _read_attributes(table: pa.Table, category_sets: CategorySets) -> ItemTable:
    item = table[ITEM]
    of_items, of_nobody = table.filter(item.is_valid()), table.filter(item.is_null())
    totals = {N_ITEMS: of_items.num_rows, "n_invalid_items": pc.sum(of_nobody[ROWS]).as_py() or 0}
    for name, total in CONFLICTS.items():
        if CONFLICT + name in table.column_names:
            totals[total] = pc.sum(of_items[CONFLICT + name]).as_py() or 0
    if VECTOR in table.column_names:
        lengths, counts = np.unique(pc.drop_null(pc.list_value_length(of_items[VECTOR])).to_numpy(), return_counts=True)
        # Vectors are as long as most of them are; of two lengths that as many have, the greater one.
        usual = np.lexsort((lengths, counts))[-1:]
        totals[DIMENSION] = int(lengths[usual].sum())
        totals["n_ragged_vectors"] = int(counts.sum() - counts[usual].sum())
    in_items = pa.array(np.ones(of_items.num_rows, np.bool_))
    return _looked_up(of_items.append_column(IN_ITEMS, in_items), totals, category_sets)


def _looked_up(table: pa.Table, totals: dict[str, int], category_sets: CategorySets) -> ItemTable:
    unknown = pa.Table.from_pylist([{}], schema=table.schema)
    whole = pa.concat_tables([table, unknown]).combine_chunks()
    columns = {name: whole[name].combine_chunks() for name in whole.column_names}
    return ItemTable(KnownItems(columns[ITEM][:-1]), decoded(columns, totals.get(DIMENSION, 0), category_sets), totals)


def count_items(batch: pa.RecordBatch) -> pa.Table:
    """How many users have each item, and how often it is there: from the lists of users, each in a row.

    A row of a null item has the number of users with any item, the number of rows that cannot be used, and the sum of all rows' hashes.
    """
    items, offsets = flat(batch.column(CONSUMED))
    (code, coded), lengths = _coded(items), np.diff(offsets)
    # In one number, narrow if it fits: sorting is quicker than a table of all pairs. Users stay where they are.
    kind = np.int32 if len(lengths) * len(coded) < np.iinfo(np.int32).max else np.int64
    user = np.repeat((np.arange(len(lengths)) * len(coded)).astype(kind), lengths)
    pairs = np.sort(user + code.astype(kind))
    first = starts_of_runs(pairs)
    users = np.bincount(pairs[first] - user[first], minlength=len(coded))
    occurs = np.flatnonzero(users)
    columns = {
        ITEM: pa.concat_arrays([coded.take(pa.array(occurs)), pa.nulls(1, items.type)]),
        TRAINING_USERS: np.append(users[occurs], np.count_nonzero(lengths)),
        TRAINING_INTERACTIONS: np.append(np.bincount(code)[occurs], whole_numbers(batch.column(ROWS)).sum()),
        TRAINING_HASH: np.append(np.zeros(len(occurs), np.int64), whole_numbers(batch.column(TRAINING_HASH)).sum()),
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
    counted = [TRAINING_USERS, TRAINING_INTERACTIONS, TRAINING_HASH]
    grouped = counts.group_by(ITEM, use_threads=False).aggregate([(name, "sum") for name in counted])
    return pa.table({ITEM: grouped[ITEM], **{name: grouped[f"{name}_sum"] for name in counted}})


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
        counts = pa.Table.from_batches(rows).sort_by(TRAINING_USERS)
        n_users, n_items = (counts[name].to_numpy() for name in (TRAINING_USERS, ROWS))
        shares = dict(zip(LONG_TAIL, shares_above(n_users, n_items), strict=True))
        yield from pa.table({TRAINING_USERS: n_users, **shares}).to_batches()


_READ: dict[str, Callable[[pa.Table, CategorySets], ItemTable]] = {
    POPULARITY_TABLE: _read_popularity,
    ATTRIBUTES_TABLE: _read_attributes,
}
# What stands for tables without a row, whose types nobody told.
_EMPTY = {
    POPULARITY_TABLE: pa.table(
        {ITEM: pa.nulls(0)}
        | dict.fromkeys((TRAINING_USERS, TRAINING_INTERACTIONS, TRAINING_HASH), pa.nulls(0, pa.int64()))
    ),
    ATTRIBUTES_TABLE: pa.table(
        {
            ITEM: pa.nulls(0),
            ROWS: pa.nulls(0, pa.int64()),
            CATEGORY: pa.nulls(0, pa.string()),
            CATEGORY_SET: pa.nulls(0, pa.string()),
            VECTOR: pa.nulls(0, pa.list_(pa.float64())),
        }
    ),
}
