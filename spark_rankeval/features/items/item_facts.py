"""Facts of items: their columns and packed tables, counts of the training data, and lookups in tables that tasks receive."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.ranking.ragged import Array, FloatArray, IntArray, Ragged, starts_of_runs
from spark_rankeval.ranking.recommended import (
    ATTRIBUTES,
    FACT_FIELDS,
    FACT_TABLES,
    GROUP_SET,
    ITEM_FACTS,
    LEVEL,
    UNKNOWN,
    Fact,
    GroupSets,
    PopularityLevels,
    Totals,
)
from spark_rankeval.worker.grouped_row import hash_column
from spark_rankeval.worker.process import unpacked
from spark_rankeval.worker.reading import filled, flat, indices_among, whole_numbers

HISTORY = "history"  # the user's items in the training data
BASELINE = "baseline"  # the items that a baseline recommends
BASELINE_SCORES = "baseline_scores"  # the scores of these
#: Fields of the structs.
ITEM, SCORE, TRAINING_USERS, TRAINING_INTERACTIONS = "item", "score", "training_users", "training_interactions"
CATEGORY, CATEGORY_SET, VECTOR, IS_IN_ITEMS = "category", "category_set", "vector", "is_in_items"
SHARE_ABOVE, ITEMS_ABOVE = "share_above", "items_above"
#: The fields that are looked up: those of the training data, and those of the table of items.
POPULARITY_FIELDS, ATTRIBUTE_FIELDS = (
    frozenset(field for fact in ITEM_FACTS if FACT_TABLES[fact] == (table,) for field in FACT_FIELDS[fact])
    for table in ("training", "items")
)
#: Columns of tables that are grouped by user or by item: the items that a user has in the training data, as often as they are there; how
#: many rows were grouped into one, or left out of it; the sum of the hashes of training rows; and an item's group.
CONSUMED, ROWS, TRAINING_HASH, GROUP = "consumed", "rows", hash_column("training"), "group"
#: Packed tables of items, in which workers look facts up.
POPULARITY_TABLE, ATTRIBUTES_TABLE, GROUPS_TABLE, LEVELS_TABLE = ITEM_TABLES = tuple(
    f"{name}_table" for name in ("popularity", "attributes", "groups", "levels")
)
#: Columns of attributes in which the rows of an item disagree begin so.
CONFLICT = "conflict_"
#: The counts of items whose rows disagree, by the attribute.
CONFLICTS = {name: f"n_conflicting_{each.plural}" for name, each in ATTRIBUTES.items() if each.plural}
#: The sizes of the tables, in columns that every row repeats.
N_TRAINING_USERS, N_TRAINING_ITEMS, N_TRAINING_INTERACTIONS, N_ITEMS = SIZES = (
    "n_training_users",
    "n_training_items",
    "n_training_interactions",
    "n_catalogue_items",
)
#: The length of vectors.
DIMENSION = "vector_dimension"
#: How many rows or items of the tables cannot be used.
FAULTS = ("n_invalid_training", "n_invalid_items", "n_invalid_baseline", *CONFLICTS.values(), "n_ragged_vectors")
#: All that every row of a grouped table repeats if a metric asks for facts.
TOTALS = (*SIZES, DIMENSION, *FAULTS)


def fields_of(facts: Iterable[Fact], *, history: bool = False) -> set[str]:
    """The fields that hold facts of predicted items, or of the items of a history."""
    return {field for fact in facts if fact.startswith("history") == history for field in FACT_FIELDS.get(fact, ())}


def sizes_of(totals: Mapping[str, int]) -> Totals:
    """The sizes of the tables, from `TOTALS` by name."""
    return Totals(*(totals.get(name, 0) for name in SIZES))


Batches = Iterator[pa.RecordBatch]


def levels_of(n_users: IntArray) -> tuple[IntArray, PopularityLevels]:
    """The level of each item by how many users have it, and behind these that of an unknown item; and the levels."""
    different, index, n_items = np.unique(n_users, return_inverse=True, return_counts=True)
    pairs, items = (np.append(1.0, shares) for shares in shares_above(different, n_items))
    return np.append(1 + index, 0).astype(np.int64), PopularityLevels(pairs, items, np.append(0, n_items))


def shares_above(n_users: IntArray, n_items: IntArray) -> tuple[FloatArray, FloatArray]:
    """Which share of all pairs of a user and an item, and which share of the items, is of items that more users have.

    Items that no user has are no items of the training data, and have 1.

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

    A null item has the number of users with any item, the number of invalid rows, and the sum of all rows' hashes.
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
    """Items as indices among different ones. Some of these may not occur.

    If whole numbers lie close together, an index is the number minus the least, which takes a tenth of the time.
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


# A table of all whole numbers from the least to the greatest has at most so many entries per item; else items are searched for.
_SPARSE = 8
# The types of tables without a row, in which columns of other types were never seen.
_COUNTS = dict.fromkeys(
    (TRAINING_USERS, TRAINING_INTERACTIONS, TRAINING_HASH, ROWS),
    pa.int64(),
)
_KINDS = {"text": pa.string(), "texts": pa.string(), "vector": pa.list_(pa.float64())}
_TYPES = {GROUP: pa.string(), **{name: _KINDS[each.kind] for name, each in ATTRIBUTES.items()}}
_NO_ROWS = pa.schema({ITEM: pa.null(), **_COUNTS, **_TYPES}).empty_table()


class ItemIndex:
    """Different items, and where each stands; any other item stands behind all. Prepared once, it serves batch after batch."""

    def __init__(self, ids: pa.Array) -> None:
        self.ids = ids
        self._least = np.int64(0)
        self._indices: IntArray | None = None
        if pa.types.is_integer(ids.type) and len(ids):
            # Spark's whole numbers have a sign, and 64 bits at the most.
            values = filled(ids, 0).astype(np.int64)
            n_numbers = int(values.max()) - int(values.min()) + 1
            if n_numbers <= _SPARSE * len(ids):
                self._least = values.min()
                self._indices = np.full(n_numbers + 1, len(ids), np.int64)
                self._indices[values - self._least] = np.arange(len(ids))

    def __len__(self) -> int:
        return len(self.ids)

    def indices(self, items: pa.Array) -> IntArray:
        """Where items of the same type stand; int64."""
        if not len(self.ids):
            return np.zeros(len(items), np.int64)
        if self._indices is None:
            return indices_among(items, self.ids, unknown=len(self.ids))
        # Without a sign, numbers below the least are large: the subtraction may overflow, but no two numbers meet.
        above = (filled(items, 0).astype(np.int64) - self._least).view(np.uint64)
        indices: IntArray = self._indices[np.minimum(above, len(self._indices) - 1).astype(np.int64)]
        return np.where(filled(items.is_valid(), 0), indices, len(self.ids)) if items.null_count else indices


class ItemTable(NamedTuple):
    """A table of one row per item."""

    items: ItemIndex
    facts: dict[str, Array]  # one entry per item, and behind these that of an unknown item
    totals: dict[str, int]  # those of `TOTALS` that the table has, and `TRAINING_HASH`
    sets: dict[str, Any]  # what makes sets of the codes among the facts, under the names of `Recommended`


class ItemFacts(NamedTuple):
    """The facts of items in the tables that a task received."""

    tables: tuple[ItemTable, ...]
    totals: dict[str, int]
    sets: dict[str, Any]

    @classmethod
    def read(cls, facts: Iterable[Fact], packed: Mapping[str, pa.Scalar]) -> ItemFacts:
        """From the first row of a task."""
        facts = list(facts)
        fields = fields_of(facts) | fields_of(facts, history=True)
        tables = [_READ[name](table_in(cell), fields) for name, cell in packed.items()]
        totals = {name: total for table in tables for name, total in table.totals.items()}
        return cls(tuple(tables), totals, {name: sets for table in tables for name, sets in table.sets.items()})

    def look_up(self, ids: pa.Array, fields: Collection[str]) -> dict[str, Array]:
        """These facts of items, one entry each."""
        facts: dict[str, Array] = {}
        for table in self.tables:
            if names := table.facts.keys() & fields:
                indices = table.items.indices(ids)
                facts |= {name: table.facts[name][indices] for name in names}
        if VECTOR in facts:
            facts[VECTOR] = facts[VECTOR].astype(np.float64, copy=False)
        return facts


def table_in(cell: pa.Scalar) -> pa.Table:
    """A packed table from the first row of a task; null becomes one without a row."""
    return unpacked(cell) if cell.is_valid else _NO_ROWS


def split_rows(table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows of a table that have an item, and the others."""
    is_item = table[ITEM].is_valid()
    # A filter copies all rows, and mostly there is no other.
    items = table.filter(is_item) if table[ITEM].null_count else table
    return items, table.filter(pc.invert(is_item))


def _sum(table: pa.Table, name: str) -> int:
    return pc.sum(table[name]).as_py() or 0


def _read_levels(table: pa.Table, _: Collection[str]) -> ItemTable:
    items, _others = split_rows(table)
    level, levels = levels_of(whole_numbers(_column(items, TRAINING_USERS)))
    return ItemTable(ItemIndex(_column(items, ITEM)), {LEVEL: level}, {}, {"levels": levels})


def _read_popularity(table: pa.Table, fields: Collection[str]) -> ItemTable:
    items, others = split_rows(table)
    totals = {
        N_TRAINING_USERS: _sum(others, TRAINING_USERS),
        N_TRAINING_ITEMS: items.num_rows,
        N_TRAINING_INTERACTIONS: _sum(items, TRAINING_INTERACTIONS),
        "n_invalid_training": _sum(others, TRAINING_INTERACTIONS),
        TRAINING_HASH: _sum(others, TRAINING_HASH),
    }
    read = _read_facts(items, POPULARITY_FIELDS, totals)
    if not {LEVEL, SHARE_ABOVE, ITEMS_ABOVE} & {*fields}:
        return read
    # All counts are sorted for it.
    level, levels = levels_of(read.facts[TRAINING_USERS][:-1])
    shares = {SHARE_ABOVE: levels.share_above[level], ITEMS_ABOVE: levels.items_above[level]}
    return read._replace(facts={**read.facts, **shares, LEVEL: level}, sets={"levels": levels})


def _read_attributes(table: pa.Table, _: Collection[str]) -> ItemTable:
    items, others = split_rows(table)
    totals = {N_ITEMS: items.num_rows, "n_invalid_items": _sum(others, ROWS)}
    totals |= {
        total: _sum(items, CONFLICT + name)
        for name, total in CONFLICTS.items()
        if CONFLICT + name in items.column_names
    }
    if VECTOR in items.column_names:
        lengths = pc.drop_null(pc.list_value_length(items[VECTOR])).to_numpy()
        lengths, counts = np.unique(lengths, return_counts=True)
        # Vectors are as long as most of them are; of two lengths that as many have, the greater one.
        usual = np.lexsort((lengths, counts))[-1:]
        totals[DIMENSION] = int(lengths[usual].sum())
        totals["n_ragged_vectors"] = int(counts.sum() - counts[usual].sum())
    read = _read_facts(items, ATTRIBUTE_FIELDS, totals)
    is_known = np.arange(items.num_rows + 1) < items.num_rows
    return read._replace(facts={**read.facts, IS_IN_ITEMS: is_known})


def _read_facts(items: pa.Table, names: frozenset[str], totals: dict[str, int]) -> ItemTable:
    facts: dict[str, Array] = {}
    sets: dict[str, Any] = {}
    for name in names & {*items.column_names}:
        column, kind = _column(items, name), ATTRIBUTES[name].kind if name in ATTRIBUTES else "number"
        if kind == "vector":
            facts[name] = _vectors(column, totals[DIMENSION])
        elif kind == "texts":
            indices, sets["category_sets"] = read_sets(column)
            facts[name] = np.append(indices, UNKNOWN)
        elif kind == "text":
            codes = filled(column.dictionary_encode().indices, UNKNOWN)
            facts[name] = np.append(codes, UNKNOWN).astype(np.int64)
        else:
            facts[name] = np.append(whole_numbers(column), 0)
    return ItemTable(ItemIndex(_column(items, ITEM)), facts, totals, sets)


def _read_groups(table: pa.Table, _: Collection[str]) -> ItemTable:
    items, _others = split_rows(table)
    ids, named = (_column(items, name).dictionary_encode() for name in (ITEM, GROUP))
    dictionary_names, index = named.dictionary.to_pylist(), ItemIndex(ids.dictionary)
    # By their bytes: sums over groups then have one order.
    names = tuple(sorted(dictionary_names, key=str.encode))
    code = {name: number for number, name in enumerate(names)}
    codes = np.array([code[name] for name in dictionary_names] + [-1], np.int64)
    group = codes[filled(named.indices, len(dictionary_names)).astype(np.int64)]
    pairs = filled(ids.indices, 0).astype(np.int64) * (len(names) + 1) + group
    pairs = np.sort(pairs[group >= 0])
    item, group = np.divmod(pairs[starts_of_runs(pairs)], len(names) + 1)
    size = np.bincount(item, minlength=len(index))
    # The empty set comes first, then each group alone, then sets of two, and so on.
    members: list[list[int]] = [[], *([each] for each in range(len(names)))]
    sets = np.zeros(len(index) + 1, np.int64)
    alone = size[item] == 1
    sets[item[alone]] = 1 + group[alone]
    first = np.cumsum(size) - size
    for n_groups in np.unique(size[size > 1]).tolist():
        which = np.flatnonzero(size == n_groups)
        different, row_sets = _different_rows(group[first[which][:, None] + np.arange(n_groups)])
        sets[which] = len(members) + row_sets
        members += different.tolist()
    counts = np.bincount(sets[:-1], minlength=len(members))
    groups = GroupSets(names, Ragged.from_lists(members, np.int64), counts)
    return ItemTable(index, {GROUP_SET: sets}, {}, {"groups": groups})


def _different_rows(rows: Array) -> tuple[Array, IntArray]:
    """The different rows of a table of numbers from 0 in their order, and which of them each row is."""
    which = np.zeros(len(rows), np.int64)
    for digits in rows.T:
        # Few rows differ, so that the numbers stay small.
        first, which = np.unique(which * (int(rows.max()) + 1) + digits, return_index=True, return_inverse=True)[1:]
    return rows[first], which


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table[name]
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()  # which copies


def read_sets(texts: pa.Array) -> tuple[IntArray, Ragged]:
    """The index of each item's set of categories, `UNKNOWN` for an empty one and for null; and the codes of each set's categories.

    Sets come as JSON, each in one order. Items are far more than their sets.
    """
    encoded = texts.dictionary_encode()
    codes: dict[str, int] = {}
    sets: list[list[int]] = []
    indices = []
    for text in encoded.dictionary.to_pylist():
        members = [codes.setdefault(category, len(codes)) for category in json.loads(text)]
        indices.append(len(sets) if members else UNKNOWN)
        sets += [members] if members else []
    # Null is the last of the indices.
    of_text = np.array([*indices, UNKNOWN], np.int64)
    return of_text[filled(encoded.indices, len(indices)).astype(np.int64)], Ragged.from_lists(sets, np.int64)


def _vectors(values: pa.Array, dimension: int) -> Array:
    """Vectors as rows, and behind these that of an unknown item: NaN without one of the right length. They stay float32 if they are."""
    lengths = pc.fill_null(pc.list_value_length(values), -1).to_numpy(zero_copy_only=False)
    right, entries = lengths == dimension, filled(values.flatten(), np.nan)
    rows: Array = np.full((len(values) + 1, dimension), np.nan, entries.dtype)
    # Those of another length have entries, too, if they are not empty.
    if (np.maximum(lengths, 0) * ~right).any():
        entries = entries[np.repeat(right[lengths > 0], lengths[lengths > 0])]
    rows[:-1][right] = entries.reshape(-1, dimension) if dimension else 0.0
    return rows


_READ: dict[str, Callable[[pa.Table, Collection[str]], ItemTable]] = {
    POPULARITY_TABLE: _read_popularity,
    LEVELS_TABLE: _read_levels,
    ATTRIBUTES_TABLE: _read_attributes,
    GROUPS_TABLE: _read_groups,
}
