"""Features of a task: facts of items, intents of labels, earlier stages, users without an answer, and two judges of labels."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.ranking import batch as rankings
from spark_rankeval.ranking import user_lists
from spark_rankeval.ranking.batch import RANK, Fact, RankingBatch, rank_in_model
from spark_rankeval.ranking.ranks import rank_lists
from spark_rankeval.ranking.user_lists import Array, BoolArray, FloatArray, IntArray, Ragged, RawLists
from spark_rankeval.records.summary import ALL_VALUES, Key
from spark_rankeval.request.call import GRADING_WEIGHT, PARTLY_GRADED, PEOPLE_ALONE
from spark_rankeval.request.task import ScoringTask, View
from spark_rankeval.statistics.description import DescriptionOptions, Figures
from spark_rankeval.statistics.judged_queries import JudgedQueries
from spark_rankeval.worker import process
from spark_rankeval.worker import reading as grouped_row
from spark_rankeval.worker.process import BatchFeature, Mergers, Message, RankedView, ScoringFeature, unpacked

HISTORY = "history"  # the user's items in the training data
BASELINE = "baseline"  # the items that a baseline recommends
BASELINE_SCORES = "baseline_scores"  # the scores of these
#: Fields of the structs.
ITEM, SCORE, TRAINING_USERS, TRAINING_INTERACTIONS = "item", "score", "training_users", "training_interactions"
CATEGORY_SET, VECTOR, IS_IN_ITEMS = "category_set", "vector", "is_in_items"
SHARE_ABOVE, ITEMS_ABOVE = "share_above", "items_above"
#: The fields that are looked up: those of the training data, and those of the table of items.
POPULARITY_FIELDS, ATTRIBUTE_FIELDS = (
    frozenset(
        field
        for fact in rankings.ITEM_FACTS
        if rankings.FACT_TABLES[fact] == (table,)
        for field in rankings.FACT_FIELDS[fact]
    )
    for table in ("training", "items")
)
#: Columns of tables that are grouped by user or by item: the items that a user has in the training data, as often as they are there; how
#: many rows were grouped into one, or left out of it; and an item's group.
CONSUMED, ROWS, GROUP = "consumed", "rows", "group"
#: Packed tables of items, in which workers look facts up.
POPULARITY_TABLE, ATTRIBUTES_TABLE, GROUPS_TABLE = ITEM_TABLES = tuple(
    f"{name}_table" for name in ("popularity", "attributes", "groups")
)
#: Columns of attributes in which the rows of an item disagree begin so.
CONFLICT = "conflict_"
#: The counts of items whose rows disagree, by the attribute.
CONFLICTS = {name: f"n_conflicting_{each.plural}" for name, each in rankings.ATTRIBUTES.items() if each.plural}
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


def fields_of(facts: Iterable[Fact]) -> set[str]:
    """The fields that hold facts of predicted items or of the items of a history."""
    return {field for fact in facts for field in rankings.FACT_FIELDS.get(fact, ())}


def sizes_of(totals: Mapping[str, int]) -> rankings.Totals:
    """The sizes of the tables, from `TOTALS` by name."""
    return rankings.Totals(*(totals.get(name, 0) for name in SIZES))


def shares_above(n_users: IntArray) -> tuple[FloatArray, FloatArray]:
    """Which share of all pairs of a user and an item, and which share of the items, is of items that more users have.

    One entry per item by how many users have it, and behind these that of an unknown one. Items that no user has are no items of
    the training data, and have 1.
    """
    different, index, n_items = np.unique(n_users, return_inverse=True, return_counts=True)
    n_items = np.where(different > 0, n_items, 0)
    pairs, items = (
        # The sum of those before a number and of its own, taken from the whole, leaves those above it.
        np.where(different > 0, (amount.sum() - np.cumsum(amount)) / max(1, int(amount.sum())), 1.0)
        for amount in (different * n_items, n_items)
    )
    return np.append(pairs[index], 1.0), np.append(items[index], 1.0)


def count_items(batch: pa.RecordBatch) -> pa.Table:
    """How many users have each item, and how often it is there: from the lists of users, each in a row.

    A null item has the number of users with any item, and the number of invalid rows.
    """
    items, offsets = grouped_row.flat(batch.column(CONSUMED))
    (code, coded), lengths = _coded(items), np.diff(offsets)
    # In one number, narrow if it fits: sorting is quicker than a table of all pairs. Users stay where they are.
    kind = np.int32 if len(lengths) * len(coded) < np.iinfo(np.int32).max else np.int64
    user = np.repeat((np.arange(len(lengths)) * len(coded)).astype(kind), lengths)
    pairs = np.sort(user + code.astype(kind))
    first = user_lists.starts_of_runs(pairs)
    users = np.bincount(pairs[first] - user[first], minlength=len(coded))
    occurs = np.flatnonzero(users)
    interactions = np.append(np.bincount(code)[occurs], grouped_row.whole_numbers(batch.column(ROWS)).sum())
    columns = {
        ITEM: pa.concat_arrays([coded.take(pa.array(occurs)), pa.nulls(1, items.type)]),
        TRAINING_USERS: pa.array(np.append(users[occurs], np.count_nonzero(lengths))),
        TRAINING_INTERACTIONS: pa.array(interactions),
    }
    return pa.table(columns)


def _coded(items: pa.Array) -> tuple[IntArray, pa.Array]:
    """Items as indices among different ones. Some of these may not occur.

    If whole numbers lie close together, an index is the number minus the least, which takes a tenth of the time.
    """
    if pa.types.is_integer(items.type) and len(items):
        numbers = grouped_row.whole_numbers(items)
        least, most = int(numbers.min()), int(numbers.max())
        if most - least < len(items):
            return numbers - least, pa.array(np.arange(most - least + 1) + least).cast(items.type)
    encoded = items.dictionary_encode()
    return grouped_row.filled(encoded.indices, 0).astype(np.int64), encoded.dictionary


def add_counts(counts: pa.Table) -> pa.Table:
    """The counts of each item, from those of several parts of the users."""
    counted = [TRAINING_USERS, TRAINING_INTERACTIONS]
    grouped = counts.group_by(ITEM, use_threads=False).aggregate([(name, "sum") for name in counted])
    return pa.table({ITEM: grouped[ITEM], **{name: grouped[f"{name}_sum"] for name in counted}})


# A table of all whole numbers from the least to the greatest has at most so many entries per item; else items are searched for.
_SPARSE = 8
# Tables without a row, in which columns of other types were never seen.
_KINDS = {"text": pa.string(), "texts": pa.string(), "vector": pa.list_(pa.float64())}
_COUNTS = dict.fromkeys((TRAINING_USERS, TRAINING_INTERACTIONS, ROWS), pa.int64())
_ATTRIBUTES = {name: _KINDS[each.kind] for name, each in rankings.ATTRIBUTES.items()}
_NO_ROWS = pa.schema({ITEM: pa.null(), **_COUNTS, GROUP: pa.string(), **_ATTRIBUTES}).empty_table()


class ItemIndex:
    """Different items, and where each stands; any other item stands behind all. Prepared once, it serves batch after batch."""

    def __init__(self, ids: pa.Array) -> None:
        self.ids = ids
        self._least = np.int64(0)
        self._indices: IntArray | None = None
        if pa.types.is_integer(ids.type) and len(ids):
            # Spark's whole numbers have a sign, and 64 bits at the most.
            values = grouped_row.filled(ids, 0).astype(np.int64)
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
            return grouped_row.indices_among(items, self.ids, unknown=len(self.ids))
        # Without a sign, numbers below the least are large: the subtraction may overflow, but no two numbers meet.
        above = (grouped_row.filled(items, 0).astype(np.int64) - self._least).view(np.uint64)
        indices: IntArray = self._indices[np.minimum(above, len(self._indices) - 1).astype(np.int64)]
        if items.null_count:
            indices[items.is_null().to_numpy(zero_copy_only=False)] = len(self.ids)
        return indices


class ItemTable(NamedTuple):
    """A table of one row per item."""

    role: str  # of the caller's table that it is made of
    items: ItemIndex
    facts: dict[str, Array]  # one entry per item, and behind these that of an unknown item
    totals: dict[str, int]  # those of `TOTALS` that the table has
    sets: dict[str, Any]  # what makes sets of the codes among the facts, under the names of `Recommended`


class ItemFacts(NamedTuple):
    """The facts of items in the tables that a task received."""

    tables: tuple[ItemTable, ...]
    totals: dict[str, int]
    sets: dict[str, Any]

    @classmethod
    def read(cls, facts: Iterable[Fact], packed: Mapping[str, pa.Scalar]) -> ItemFacts:
        """From the first row of a task."""
        fields = fields_of(facts)
        tables = [_READ[name](table_in(cell), fields) for name, cell in packed.items()]
        totals = {name: total for table in tables for name, total in table.totals.items()}
        return cls(tuple(tables), totals, {name: sets for table in tables for name, sets in table.sets.items()})

    def look_up(self, ids: pa.Array, fields: Collection[str], tables_met: set[str] | None = None) -> dict[str, Array]:
        """These facts of items, one entry each; the roles of tables that have any of the items join `tables_met`."""
        facts: dict[str, Array] = {}
        for table in self.tables:
            if names := table.facts.keys() & fields:
                indices = table.items.indices(ids)
                facts |= {name: table.facts[name][indices] for name in names}
                if tables_met is not None and (indices < len(table.items)).any():
                    tables_met.add(table.role)
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


def _read_popularity(table: pa.Table, fields: Collection[str]) -> ItemTable:
    items, others = split_rows(table)
    totals = {
        N_TRAINING_USERS: _sum(others, TRAINING_USERS),
        N_TRAINING_ITEMS: items.num_rows,
        N_TRAINING_INTERACTIONS: _sum(items, TRAINING_INTERACTIONS),
        "n_invalid_training": _sum(others, TRAINING_INTERACTIONS),
    }
    read = _read_facts("training", items, POPULARITY_FIELDS, totals)
    if {SHARE_ABOVE, ITEMS_ABOVE} & {*fields}:
        # All counts are sorted for it.
        read.facts[SHARE_ABOVE], read.facts[ITEMS_ABOVE] = shares_above(read.facts[TRAINING_USERS][:-1])
    return read


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
    read = _read_facts("items", items, ATTRIBUTE_FIELDS, totals)
    read.facts[IS_IN_ITEMS] = np.arange(items.num_rows + 1) < items.num_rows
    return read


def _read_facts(role: str, items: pa.Table, names: frozenset[str], totals: dict[str, int]) -> ItemTable:
    facts: dict[str, Array] = {}
    sets: dict[str, Any] = {}
    for name in names & {*items.column_names}:
        column, kind = _column(items, name), rankings.ATTRIBUTES[name].kind if name in rankings.ATTRIBUTES else "number"
        if kind == "vector":
            facts[name] = _vectors(column, totals[DIMENSION])
        elif kind == "texts":
            indices, sets["category_sets"] = read_sets(column)
            facts[name] = np.append(indices, rankings.UNKNOWN)
        elif kind == "text":
            codes = grouped_row.filled(column.dictionary_encode().indices, rankings.UNKNOWN)
            facts[name] = np.append(codes, rankings.UNKNOWN).astype(np.int64)
        else:
            facts[name] = np.append(grouped_row.whole_numbers(column), 0)
    return ItemTable(role, ItemIndex(_column(items, ITEM)), facts, totals, sets)


def _read_groups(table: pa.Table, _: Collection[str]) -> ItemTable:
    items, _others = split_rows(table)
    ids, named = (_column(items, name).dictionary_encode() for name in (ITEM, GROUP))
    dictionary_names, index = named.dictionary.to_pylist(), ItemIndex(ids.dictionary)
    # By their bytes: sums over groups then have one order.
    names = tuple(sorted(dictionary_names, key=str.encode))
    code = {name: number for number, name in enumerate(names)}
    codes = np.array([code[name] for name in dictionary_names] + [-1], np.int64)
    group = codes[grouped_row.filled(named.indices, len(dictionary_names)).astype(np.int64)]
    pairs = grouped_row.filled(ids.indices, 0).astype(np.int64) * (len(names) + 1) + group
    pairs = np.sort(pairs[group >= 0])
    item, group = np.divmod(pairs[user_lists.starts_of_runs(pairs)], len(names) + 1)
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
    groups = rankings.GroupSets(names, Ragged.from_lists(members, np.int64), counts)
    return ItemTable("items", index, {rankings.GROUP_SET: sets}, {}, {"groups": groups})


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
        indices.append(len(sets) if members else rankings.UNKNOWN)
        sets += [members] if members else []
    # Null is the last of the indices.
    of_text = np.array([*indices, rankings.UNKNOWN], np.int64)
    index = grouped_row.filled(encoded.indices, len(indices)).astype(np.int64)
    return of_text[index], Ragged.from_lists(sets, np.int64)


def _vectors(values: pa.Array, dimension: int) -> Array:
    """Vectors as rows, and behind these that of an unknown item: NaN without one of the right length. They stay float32 if they are."""
    lengths = pc.fill_null(pc.list_value_length(values), -1).to_numpy(zero_copy_only=False)
    right, entries = lengths == dimension, grouped_row.filled(values.flatten(), np.nan)
    rows: Array = np.full((len(values) + 1, dimension), np.nan, entries.dtype)
    # Those of another length have entries, too, if they are not empty.
    if (np.maximum(lengths, 0) * ~right).any():
        entries = entries[np.repeat(right[lengths > 0], lengths[lengths > 0])]
    rows[:-1][right] = entries.reshape(-1, dimension) if dimension else 0.0
    return rows


_READ: dict[str, Callable[[pa.Table, Collection[str]], ItemTable]] = {
    POPULARITY_TABLE: _read_popularity,
    ATTRIBUTES_TABLE: _read_attributes,
    GROUPS_TABLE: _read_groups,
}


def shares_of_categories(user: IntArray, indices: IntArray, sets: Ragged) -> rankings.CategoryShares:
    """Which share of each user's items is of each category; an item is of all of its categories in equal parts.

    Items without a category are left out, and users who have no other.

    Args:
        user: int64, of each item.
        indices: int64, the index of each item's categories among the sets.
        sets: as of `read_sets`.
    """
    has_category = indices != rankings.UNKNOWN
    user, indices = user[has_category], indices[has_category]
    if not len(user):
        none = np.empty(0, np.int64)
        return rankings.CategoryShares(none, none, np.empty(0))
    n_categories, n_sizes = int(sets.values.max()) + 1, int(sets.lengths.max()) + 1
    item_categories = sets.take(indices)
    # Items come in any order, and sums of floats have one: items that share alike are counted, then added by how they share.
    pair, size = user[item_categories.user] * n_categories + item_categories.values, item_categories.lengths
    cell = pair * n_sizes + size[item_categories.user]
    cells, counts = np.unique(cell, return_counts=True)
    pairs, pair = np.unique(cells // n_sizes, return_inverse=True)
    n_items = np.bincount(user)
    share = np.bincount(pair, counts / (cells % n_sizes)) / n_items[pairs // n_categories]
    return rankings.CategoryShares(pairs // n_categories, pairs % n_categories, share)


# The tables of users' lists, by role.
_ROLES = {"training": HISTORY, "baseline": BASELINE}


# So many numbers of vectors are worked at a time.
_CELLS = 1 << 21


@dataclass(frozen=True)
class FactsOfItems(ScoringFeature):
    """The facts of items, looked up in tables that every task receives; `items` are those that this one received."""

    items: ItemFacts = ItemFacts((), {}, {})

    totals = TOTALS
    faults = FAULTS

    def tables(self) -> tuple[str, ...]:
        """Those of items."""
        return ITEM_TABLES

    def with_tables(self, task: ScoringTask, tables: Mapping[str, pa.Scalar]) -> FactsOfItems:
        """The facts that the metrics of a task ask for."""
        cells = {name: tables[name] for name in ITEM_TABLES if name in tables}
        return replace(self, items=ItemFacts.read(task.facts, cells)) if cells else self

    def parts(self, task: ScoringTask, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The batch in parts whose vectors, one per prediction, fit into little memory."""
        size = batch.num_rows
        if dimension := self.items.totals.get(DIMENSION, 0):
            names = [name for name in batch.schema.names if name.startswith((grouped_row.ITEMS, HISTORY))]
            n_cells = dimension * sum(len(batch.column(name).flatten()) for name in names)
            size //= -(-n_cells // _CELLS) or 1
        size = max(1, size)
        yield from (batch.slice(start, size) for start in range(0, batch.num_rows, size))

    def read(self, task: ScoringTask, columns: dict[str, pa.Array], labels: grouped_row.Side) -> BatchFeature:
        """The facts of the lists of a batch."""
        return _FactsOfBatch(task.facts, columns, self.items)


class _FactsOfBatch(BatchFeature):
    def __init__(self, facts: frozenset[Fact], columns: Mapping[str, pa.Array], items: ItemFacts) -> None:
        self._items = items
        of_history = {fact for fact in facts if fact.startswith("history")}
        # The fields of recommended items, and of the items of a history.
        self._fields, self._history_fields = fields_of(facts - of_history), fields_of(of_history)
        # The different items of each user in the training data, and the baseline's with scores.
        self._sides = {role: grouped_row.side_of(columns[name]) for role, name in _ROLES.items() if name in columns}
        if "baseline" in self._sides:
            self._sides["baseline"].values.append(grouped_row.numbers(columns[BASELINE_SCORES].flatten()))
        # Every row repeats these; without a row they are 0.
        repeated = {name: grouped_row.whole_numbers(columns[name]) for name in TOTALS if name in columns}
        self.totals = {name: int(values.max(initial=0)) for name, values in repeated.items()} | items.totals
        # The items of these lists so that they compare with those of the predictions, and their order as of `RawLists`.
        self._lists: Mapping[str, Ragged] = {}
        self._order: Callable[[Array], Array] | None = None
        # By model the tables that have an item of some list.
        self._met: dict[int, set[str]] = {}

    def sides(self) -> Mapping[str, grouped_row.Side]:
        return self._sides

    def compare(self, items: Mapping[str, Ragged], order: Callable[[Array], Array] | None) -> None:
        self._lists, self._order = items, order

    def label_numbers(self, labels: grouped_row.Side) -> Mapping[str, Array]:
        facts = self._items.look_up(labels.ids, {rankings.GROUP_SET} & self._fields)
        return {name: values.astype(np.float64) for name, values in facts.items()}

    def add(self, ranked: RankedView) -> RankingBatch:
        recommended = ranked.batch.recommended
        if recommended is None:
            return ranked.batch
        # Looked up for the items that are left: most were cut off.
        ids = ranked.predictions.ids.take(pa.array(recommended.entry))
        met = self._met.setdefault(ranked.view.model, set())
        facts = {**self._items.look_up(ids, self._fields, met), **self._items.sets, **self._user_facts}
        if "training" in self._lists:
            facts["consumed"] = user_lists.contained(ranked.items, self._lists["training"])[recommended.entry]
            met |= {"training"} if facts["consumed"].any() else set()
        if "baseline" in self._lists:
            facts["baseline_rank"] = self._ranks_in_baseline(ranked)[recommended.entry]
            facts["baseline_size"] = self._lists["baseline"].lengths
            met |= {"baseline"} if facts["baseline_rank"].any() else set()
        return replace(ranked.batch, recommended=replace(recommended, **facts, totals=sizes_of(self.totals)))

    def tables_met(self, model: int) -> set[str]:
        return self._met.get(model, set())

    @cached_property
    def _user_facts(self) -> dict[str, Any]:
        """The facts of users' histories, whatever is recommended to them."""
        if "training" not in self._lists:
            return {}
        history = self._lists["training"]
        user, n_users = history.user, history.n_users
        facts = self._items.look_up(self._sides["training"].ids, self._history_fields)
        user_facts: dict[str, Any] = {"history_size": history.lengths}
        if TRAINING_USERS in facts:
            # Whole numbers below 2^53, whose sum is exact in any order.
            user_facts["history_popularity"] = np.bincount(user, facts[TRAINING_USERS], n_users).astype(np.int64)
        if CATEGORY_SET in facts:
            sets = self._items.sets["category_sets"]
            user_facts["history_categories"] = shares_of_categories(user, facts[CATEGORY_SET], sets)
        if VECTOR in facts:
            user_facts["history_vector"] = self._mean_directions(history, facts[VECTOR])
        return user_facts

    def _mean_directions(self, history: Ragged, vectors: Array) -> Array:
        items, user = history.values, history.user
        # Rows come in any order; sums of floats have one.
        order = np.lexsort((items if self._order is None else self._order(items), user))
        unit, user = rankings.unit_vectors(vectors)[order], user[order]
        size = np.maximum(history.lengths, 1)
        sums = [np.bincount(user, along, history.n_users) / size for along in unit.T]
        return np.stack(sums, axis=1) if sums else np.zeros((history.n_users, 0))

    def _ranks_in_baseline(self, ranked: RankedView) -> IntArray:
        """The rank of each prediction in the baseline's list, of each item once; 0 without one down to the largest cutoff."""
        items, view = self._lists["baseline"], ranked.view
        scores = items.like(self._sides["baseline"].values[0])
        none = Ragged(np.empty(0, items.values.dtype), np.zeros(items.n_users + 1, np.int64))
        lists = RawLists(items, scores, labels=none, order=self._order, entry=np.arange(len(items.values)))
        policy = replace(
            view.ranking, duplicates="keep_best", unpredicted_labels="left_out", min_score=None, budget=None
        )
        baseline = rank_lists(lists, policy, largest_cutoff=view.largest_cutoff)[0].recommended
        assert baseline is not None, "entries were given"
        rank = np.zeros(len(items.values), np.int64)
        rank[baseline.entry] = baseline.rank
        is_ranked = rank > 0
        matched = user_lists.match(ranked.items, items.where(is_ranked))
        ranks = np.zeros(len(ranked.items.values), np.int64)
        ranks[matched.prediction] = rank[is_ranked][matched.label]
        return ranks


#: The column of a grouped row, and the field of its structs that has the intent.
INTENTS = "intents"  # labelled items, one entry per item and intent, with grades
INTENT = "intent"


@dataclass(frozen=True)
class Intents(ScoringFeature):
    """What labelled items are about."""

    def read(self, task: ScoringTask, columns: dict[str, pa.Array], labels: grouped_row.Side) -> BatchFeature:
        """The intents of the labels of a batch."""
        if INTENTS not in columns:
            return BatchFeature()
        side = grouped_row.side_of(columns[INTENTS])
        fields = grouped_row.fields_in(side.ids)
        items, intents = fields.pop(ITEM), _codes_in_order(fields.pop(INTENT))
        grades = list(map(grouped_row.numbers, fields.values()))
        return _IntentsOfBatch(side._replace(ids=items, values=grades), intents, clip=task.clip_grades)


class _IntentsOfBatch(BatchFeature):
    def __init__(self, side: grouped_row.Side, intents: IntArray, *, clip: bool) -> None:
        # One entry per item and intent, with grades; and the intents, as ranks of their names.
        self._side, self._intents, self._clip = side, intents, clip
        self._items: Ragged | None = None

    def sides(self) -> Mapping[str, grouped_row.Side]:
        return {"intents": self._side}

    def compare(self, items: Mapping[str, Ragged], order: Callable[[Array], Array] | None) -> None:
        self._items = items["intents"]

    def lists_of(self, lists: RawLists, view: View) -> RawLists:
        if self._items is None:
            return lists
        grades = self._side.values
        grade = grades[view.relevance] if grades else np.ones(len(self._intents))
        grade = np.maximum(grade, 0.0) if self._clip else grade
        return replace(lists, intents=user_lists.IntentLists(self._items, self._intents, grade))

    def tables_met(self, model: int) -> set[str]:
        return {"intents"} if len(self._side.ids) else set()


def _codes_in_order(names: pa.Array) -> IntArray:
    """A number for each name, in the order of their bytes."""
    encoded = names.dictionary_encode()
    rank = np.empty(len(encoded.dictionary), np.int64)
    rank[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(rank))
    return rank[grouped_row.filled(encoded.indices, 0)] if len(rank) else np.empty(0, np.int64)


# What labels have beside their grades: a number for each labelled item of a user, the same for all models.
_ITEM = "labelled_item"


def _numbers_of_items(labels: Ragged) -> IntArray:
    """A number for each label, which labels of one item of a user share."""
    numbers = np.arange(len(labels.values))
    label, item = user_lists.match(labels, user_lists.repeated_items(labels))
    numbers[label] = len(numbers) + item
    return numbers


@dataclass(frozen=True)
class Stages(ScoringFeature):
    """Models as stages: each is measured against those before it."""

    def read(self, task: ScoringTask, columns: dict[str, pa.Array], labels: grouped_row.Side) -> BatchFeature:
        """The stages of a batch."""
        return _StagesOfBatch(len(task.views) // len(task.models))


class _StagesOfBatch(BatchFeature):
    def __init__(self, n_views: int) -> None:
        self._n_views = n_views  # of each model
        self._items = np.empty(0, np.int64)
        self._ranks: dict[int, FloatArray] = {}  # of the labelled items, by the index of the view
        self._labels: dict[int, Ragged] = {}  # the grades, by the index of the view among those of the model

    def compare(self, items: Mapping[str, Ragged], order: Callable[[Array], Array] | None) -> None:
        self._items = _numbers_of_items(items["labels"])

    def label_numbers(self, labels: grouped_row.Side) -> Mapping[str, Array]:
        return {_ITEM: self._items.astype(np.float64)}

    def add(self, ranked: RankedView) -> RankingBatch:
        batch, index = ranked.batch, ranked.view_index
        ranks = np.full(int(self._items.max(initial=-1)) + 1, np.inf)
        # Of an item that a list has twice, the best rank is written last.
        ranks[batch.extra_values[_ITEM].astype(np.int64)[::-1]] = batch.rank[::-1]
        self._ranks[index] = ranks
        before = range(index % self._n_views, index, self._n_views)
        names = {RANK: ranks, **{rank_in_model(model): self._ranks[view] for model, view in enumerate(before)}}
        items = batch.label_extra_values[_ITEM]
        index_of_item = items.values.astype(np.int64)
        values = {name: items.like(each[index_of_item]) for name, each in names.items()}
        return replace(batch, label_extra_values={**batch.label_extra_values, **values}, labels=self._shared(ranked))

    def _shared(self, ranked: RankedView) -> Ragged:
        """The labels of a view. All models have the same, and sums over them are computed once."""
        labels, view = ranked.batch.labels, ranked.view_index % self._n_views
        first = self._labels.setdefault(view, labels)
        alike = np.array_equal(first.values, labels.values, equal_nan=True) and np.array_equal(
            first.offsets, labels.offsets
        )
        return first if alike else labels


#: The column of a grouped row. How many rows there are is all that can be hashed of them.
NO_ANSWER = "no_answer_rows"  # how many rows declare that the user has no answer


@dataclass(frozen=True)
class NoAnswer(ScoringFeature):
    """Who has no answer."""

    name = "no_answer"

    def read(self, task: ScoringTask, columns: dict[str, pa.Array], labels: grouped_row.Side) -> BatchFeature:
        """Who of a batch has no answer."""
        return NoAnswerOfBatch(grouped_row.whole_numbers(columns[NO_ANSWER]) > 0)


class NoAnswerOfBatch(BatchFeature):
    """Who of a batch has no answer. A relevant label in any view contradicts that, and wins."""

    def __init__(self, is_declared: BoolArray) -> None:
        self._is_declared = is_declared
        self._has_relevant = np.zeros(len(is_declared), np.bool_)

    def included(self, view: View, batch: RankingBatch, users: BoolArray) -> BoolArray:
        """Users without an answer have no labels, and no predictions if a model is right. Every population counts them."""
        counted: BoolArray = users | (self._is_declared & (batch.n_relevant(view.relevance_threshold) == 0))
        return counted

    def add(self, ranked: RankedView) -> RankingBatch:
        """The rankings with the users who have no answer."""
        has_relevant = ranked.batch.n_relevant(ranked.view.relevance_threshold) > 0
        self._has_relevant |= has_relevant
        return replace(ranked.batch, no_answer=self._is_declared & ~has_relevant)

    def counts(self, labels: Ragged) -> Mapping[str, Array]:
        """Who has no answer, and who is declared so against a label. Labels are the same for every model."""
        return {
            "has_no_answer": (self._is_declared & ~self._has_relevant).astype(np.int64),
            "conflicting_answer": (self._is_declared & self._has_relevant).astype(np.int64),
        }


#: The kind of messages with what both judges say.
JUDGED = "judged"

#: The name of a figure, such as that of a difference of a model, or the number of a metric.
FigureName = str | int
#: What both judges say, by figure and group of users.
JudgedFigures = dict[FigureName, dict[Key, JudgedQueries]]

# The name of the stratum of users whose stratum is null.
_UNKNOWN_STRATUM = "null"
# So many values of users wait at the most.
_MOST_WAITING = 1 << 20


class JudgedPair(NamedTuple):
    """The values of a metric by both judges, by their places among the values of a user."""

    human: int
    judge: int


class TwoJudges(NamedTuple):
    """The values of all metrics by both judges, and how the users whom people graded were drawn."""

    pairs: tuple[JudgedPair, ...]
    is_weighted: bool  # with unequal probabilities


class GradedUsers(NamedTuple):
    """Whom of some users people graded.

    A grading weight is one over the probability that the user was drawn, 1 if all had the same, and −1 if it is unknown. It is 0 of users
    whom the model alone graded, and NaN of those whom the model did not grade, who are in neither sample.
    """

    grading_weight: FloatArray
    is_weighted: bool
    groups: Array  # the place of each one's group; see `JudgedAccumulator.groups`
    clusters: IntArray | None  # the hash of each one's cluster; None if users are independent

    def only(self, users: Array) -> GradedUsers:
        """Some of these users."""
        clusters = None if self.clusters is None else self.clusters[users]
        return self._replace(grading_weight=self.grading_weight[users], groups=self.groups[users], clusters=clusters)


class JudgedAccumulator:
    """What two judges say of figures of users that come batch by batch."""

    def __init__(self) -> None:
        self._groups: dict[str, int] = {}
        self._queries: dict[FigureName, JudgedQueries] = {}
        # Few users cost nearly the same as many, so users of small batches wait for one another.
        self._waiting: dict[FigureName, list[tuple[Array, Array, GradedUsers]]] = {}
        self._n_waiting = 0

    def graded(
        self, batch: pa.RecordBatch, names: Sequence[str], grading_weight: Array, *, is_weighted: bool
    ) -> GradedUsers:
        """The users of a batch, in groups by columns of these names and the stratum."""
        columns = grouped_row.columns_of(batch)
        places = np.full(batch.num_rows, self._place("", []), np.int64)
        strata = columns.get(grouped_row.STRATUM, pa.repeat(pa.scalar(""), batch.num_rows))
        for (name, *key), rows in grouped_row.rows_by_key([strata, *(columns[name] for name in names)], batch.num_rows):
            places[rows] = self._place(name, key)
        clusters = columns.get(grouped_row.CLUSTER_HASH)
        if clusters is not None:
            users = grouped_row.whole_numbers(columns[grouped_row.USER_HASH])
            clusters = grouped_row.hashes_of_clusters(clusters, users)
        return GradedUsers(grading_weight, is_weighted, places, clusters)

    def _place(self, stratum: str | None, key: list[str | None]) -> int:
        return self._groups.setdefault(json.dumps([stratum, key]), len(self._groups))

    def add(self, figure: FigureName, human: Array, judge: Array, graded: GradedUsers) -> None:
        """Add the values of users by both judges."""
        sampled = ~np.isnan(graded.grading_weight)
        self._waiting.setdefault(figure, []).append((human[sampled], judge[sampled], graded.only(sampled)))
        self._n_waiting += int(np.count_nonzero(sampled))
        if self._n_waiting > _MOST_WAITING:
            self._settle()

    def _settle(self) -> None:
        waiting, self._waiting, self._n_waiting = self._waiting, {}, 0
        for figure, parts in waiting.items():
            human, judge, graded = zip(*parts, strict=True)
            weight, groups, clusters = (
                user_lists.joined([getattr(each, name) for each in graded])
                for name in ("grading_weight", "groups", "clusters")
            )
            weights = weight if graded[0].is_weighted else None
            values = np.concatenate(human), np.concatenate(judge), weight != 0
            made = JudgedQueries.from_values(*values, weights, groups, clusters, list(self._groups))
            self._queries[figure] = self._queries[figure] + made if figure in self._queries else made

    def messages(self) -> Iterator[Message]:
        """What both judges say, a message for each figure in a bucket of its own."""
        self._settle()
        for bucket, figure in enumerate(sorted(self._queries, key=str)):
            yield Message.of(JUDGED, {figure: self._queries[figure]}, bucket)


def _totals(parts: Iterable[dict[FigureName, JudgedQueries]]) -> dict[FigureName, JudgedQueries]:
    """What both judges say in all partitions, by figure."""
    totals: dict[FigureName, JudgedQueries] = {}
    for part in parts:
        for figure, queries in part.items():
            totals[figure] = totals[figure] + queries if figure in totals else queries
    return totals


#: One message of each bucket.
MERGING_JUDGED = process.merging_each_bucket(JUDGED, _totals)


def judged_figures(messages: Iterable[Message]) -> JudgedFigures:
    """What both judges say in messages, by figure and group of users."""

    def part_of(name: str) -> tuple[Key, str]:
        stratum, key = json.loads(name)
        # Users of an unknown stratum are one of their own.
        return tuple(key), _UNKNOWN_STRATUM if stratum is None else stratum

    totals = _totals(message.state for message in messages if message.kind == JUDGED)
    return {figure: queries.parted(part_of) for figure, queries in totals.items()}


def judged_groups(
    queries: Mapping[Key, JudgedQueries], groups: Iterable[Key], *, is_clustered: bool
) -> dict[Key, JudgedQueries]:
    """What both judges say of each group of users: of all keys that are alike where the group has a value."""
    masks: dict[tuple[bool, ...], dict[Key, list[JudgedQueries]]] = {}
    totals = {}
    for group in groups:
        mask = tuple(value is ALL_VALUES for value in group)
        if mask not in masks:
            by_group = masks.setdefault(mask, {})
            for key, of_key in queries.items():
                rolled = tuple(ALL_VALUES if is_any else value for value, is_any in zip(key, mask, strict=True))
                by_group.setdefault(rolled, []).append(of_key)
        totals[group] = JudgedQueries.total(masks[mask].get(group, []), is_clustered=is_clustered)
    return totals


def with_judged_queries(
    figures: Mapping[Key, Figures], messages: Iterable[Message], pairs: Sequence[JudgedPair], *, is_clustered: bool
) -> dict[Key, Figures]:
    """The figures of all groups, in which the human value of each pair has what both judges say, named by its place."""
    judged = judged_figures(messages)
    groups = [judged_groups(judged.get(pair.human, {}), figures, is_clustered=is_clustered) for pair in pairs]
    described = {}
    for key, group in figures.items():
        values = list(group.values)
        for pair, by_group in zip(pairs, groups, strict=True):
            values[pair.human] = values[pair.human]._replace(judged=by_group[key])
        described[key] = group._replace(values=values)
    return described


#: The columns of grades of `Judged`, by their places.
JUDGE, HUMAN = 0, 1


def judged_pairs(views: Sequence[View]) -> list[JudgedPair]:
    """The values of the metrics of some views by both judges; of each model the views of the judge come first."""
    indices: dict[tuple[int, int], list[int]] = {}
    n_values = 0
    for view in views:
        places = range(n_values, n_values + len(view.metrics))
        indices.setdefault((view.model, view.relevance), []).extend(places)
        n_values += len(view.metrics)
    models = dict.fromkeys(view.model for view in views)
    return [
        JudgedPair(human, judge)
        for model in models
        for judge, human in zip(indices[model, JUDGE], indices[model, HUMAN], strict=True)
    ]


@dataclass(frozen=True)
class GradedByPeople(process.ScoringFeature):
    """Queries that people graded, beside all that a model did."""

    name = JUDGED

    def read(self, task: ScoringTask, columns: dict[str, pa.Array], labels: grouped_row.Side) -> process.BatchFeature:
        """Whom of a batch people graded."""
        declared = grouped_row.numbers(columns[grouped_row.GRADED]) > 0 if grouped_row.GRADED in columns else None
        probability = columns.get(grouped_row.PROBABILITY)
        return GradedOfBatch(labels, declared, None if probability is None else grouped_row.numbers(probability))

    def new_accumulator(self, task: ScoringTask, context: process.StateContext) -> process.FeatureAccumulator:
        """What both judges say of the users of a partition."""
        return _Accumulator(judged_pairs(task.views), context)

    def mergers(self, options: DescriptionOptions) -> Mergers:
        """What joins partitions."""
        return {JUDGED: MERGING_JUDGED}

    def figures(self, figures: Mapping[Key, Figures], gathered: process.Gathered) -> Mapping[Key, Figures]:
        """The figures, in which the human value of a metric has what both judges say."""
        pairs = judged_pairs(gathered.task.views)
        return with_judged_queries(figures, gathered.messages, pairs, is_clustered=gathered.options.clustered)


class GradedOfBatch(process.BatchFeature):
    """Who of a batch was graded by people, and with which weight."""

    def __init__(self, labels: grouped_row.Side, declared: BoolArray | None, probability: FloatArray | None) -> None:
        self._labels, self._probability = labels, probability
        self.is_graded = np.zeros(labels.lists.n_users, np.bool_) if declared is None else declared
        by_model = labels.lists.user[~np.isnan(labels.values[JUDGE])]
        by_people = labels.lists.user[~np.isnan(labels.values[HUMAN])]
        self._has_model_grade, self._has_human_grade = (
            np.bincount(users, minlength=labels.lists.n_users) > 0 for users in (by_model, by_people)
        )
        self._is_declared = declared is not None
        self.weights = None if probability is None else _weights(probability)

    def compare(self, items: Mapping[str, Ragged], order: Callable[[Array], Array] | None) -> None:
        """Find the users whose labels all have a human grade, if no column declares them."""
        if self._is_declared:
            return
        labels = items["labels"]
        # An item may have its grades in several rows.
        number = _numbers_of_items(labels)
        has_grade = [np.zeros(int(number.max(initial=-1)) + 1, np.bool_) for _ in (JUDGE, HUMAN)]
        for judge, is_graded in enumerate(has_grade):
            is_graded[number[~np.isnan(self._labels.values[judge])]] = True
        by_people = has_grade[HUMAN][number]
        is_open = has_grade[JUDGE][number] & ~by_people
        n_users = labels.n_users
        n_open, n_graded = (np.bincount(labels.user[each], minlength=n_users) for each in (is_open, by_people))
        self.is_graded = (n_graded > 0) & (n_open == 0)

    def included(self, view: View, batch: RankingBatch, users: BoolArray) -> BoolArray:
        """Of the views of people the users whom they graded, and of both the users whom the model graded."""
        return users & self._has_model_grade & (self.is_graded if view.relevance == HUMAN else True)

    def counts(self, labels: Ragged) -> Mapping[str, Array]:
        """The weights of `grading_weight`, whom people alone graded, and whom they graded in part."""
        by_people_alone = self._has_human_grade & ~self._has_model_grade
        is_partly_graded = self._has_human_grade & self._has_model_grade & ~self.is_graded
        # If a column says who is graded, the caller knows of the others.
        is_partly_graded &= not self._is_declared
        counts = {PEOPLE_ALONE: by_people_alone, PARTLY_GRADED: is_partly_graded}
        return {GRADING_WEIGHT: self.grading_weight, **{name: each.astype(np.int64) for name, each in counts.items()}}

    @property
    def grading_weight(self) -> FloatArray:
        """The users' grading weights, as in `GradedUsers`."""
        weights = np.ones(len(self.is_graded)) if self.weights is None else self.weights
        return np.where(self._has_model_grade, np.where(self.is_graded, weights, 0.0), np.nan)


def _weights(probability: FloatArray) -> FloatArray:
    """The inverse of probabilities; −1 of what is none."""
    is_valid = (probability > 0) & (probability <= 1)
    weights: FloatArray = np.divide(1.0, probability, out=np.full(len(probability), -1.0), where=is_valid)
    return weights


class _Accumulator(process.FeatureAccumulator):
    """What both judges say of the users of a partition."""

    def __init__(self, pairs: Sequence[JudgedPair], context: process.StateContext) -> None:
        self._pairs, self._context = pairs, context
        self._judged = JudgedAccumulator()

    def add(self, users: process.ScoredUsers, scores: process.BatchFeature) -> Iterator[Message]:
        """Take in the users of a batch."""
        assert isinstance(scores, GradedOfBatch), "the feature of the same task"
        batch = users.batch
        there = ~grouped_row.flags(batch.column(grouped_row.NO_USER))
        if grouped_row.ABSENT in batch.schema.names:
            there &= ~grouped_row.flags(batch.column(grouped_row.ABSENT))
        weight = np.where(there, scores.grading_weight, math.nan)
        is_weighted = scores.weights is not None
        graded = self._judged.graded(batch, self._context.keys, weight, is_weighted=is_weighted)
        for pair in self._pairs:
            self._judged.add(pair.human, users.values[pair.human], users.values[pair.judge], graded)
        return iter(())

    def messages(self) -> Iterator[Message]:
        """What they say, a message for each metric."""
        return self._judged.messages()


@dataclass(frozen=True)
class Unjudged(process.ScoringFeature):
    """Labels without a grade are unlabelled for the judge who did not give it."""

    name = "unjudged"

    def read(self, task: ScoringTask, columns: dict[str, pa.Array], labels: grouped_row.Side) -> process.BatchFeature:
        """The missing grades of the labels of a batch."""
        return _UnjudgedOfBatch(labels, n_judges=1 + max(view.relevance for view in task.views))


class _UnjudgedOfBatch(process.BatchFeature):
    def __init__(self, labels: grouped_row.Side, n_judges: int) -> None:
        is_missing = [np.isnan(grades) for grades in labels.values[:n_judges]]
        n_missing = [np.bincount(labels.lists.user[each], minlength=labels.lists.n_users) for each in is_missing]
        self._n_missing = np.sum(n_missing, axis=0)

    def lists_of(self, lists: RawLists, view: View) -> RawLists:
        """The lists with the labels that the judge of the view graded."""
        return lists.with_graded_labels()

    def counts(self, labels: Ragged) -> Mapping[str, Array]:
        """How many grades of a user are missing, of all judges together."""
        return {"n_missing_grades": self._n_missing}
