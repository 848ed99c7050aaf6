"""Facts of items as a feature of a task: of recommended and labelled items, and of the lists that users have in other tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from spark_rankeval.features.items import item_facts
from spark_rankeval.features.items.item_facts import (
    BASELINE,
    FAULTS,
    HISTORY,
    ITEM_TABLES,
    TOTALS,
    ItemFacts,
)
from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.lists import RawLists
from spark_rankeval.ranking.matching import contained, match
from spark_rankeval.ranking.ragged import Array, IntArray, Ragged
from spark_rankeval.ranking.ranks import rank_lists
from spark_rankeval.ranking.recommended import (
    GROUP_SET,
    LEVEL,
    UNKNOWN,
    CategoryShares,
    Fact,
    Recommended,
    unit_vectors,
)
from spark_rankeval.request.task import ScoringTask, View
from spark_rankeval.worker.grouped_row import ITEMS
from spark_rankeval.worker.reading import Side, columns_of, numbers, side_of, whole_numbers
from spark_rankeval.worker.scored_features import BatchFeature, PartitionFeature, RankedView, ScoringFeature

# So many numbers of vectors are worked at a time.
_CELLS = 1 << 21


@dataclass(frozen=True, eq=False)
class SideLists:
    """What came with a batch of users from tables beside predictions and labels, and the facts of items."""

    facts: frozenset[Fact]  # those that metrics ask for
    items: ItemFacts  # those of the tables that the task received
    #: The lists of users, by column: the different items of the training data, and the baseline's with scores.
    sides: dict[str, Side]
    totals: Mapping[str, int]  # `TOTALS` by name, 0 if the batch has no user
    #: The items of these lists so that they compare with those of the predictions, and their order as of `RawLists`.
    lists: Mapping[str, Ragged] = field(default_factory=dict)
    order: Callable[[Array], Array] | None = None

    @classmethod
    def read(cls, facts: frozenset[Fact], columns: Mapping[str, pa.Array], items: ItemFacts | None) -> SideLists:
        """From the columns of a batch, and from the tables that its task received."""
        items = items or ItemFacts.read(facts, {})
        sides = {name: side_of(columns[name]) for name in (item_facts.HISTORY, item_facts.BASELINE) if name in columns}
        if item_facts.BASELINE in sides:
            sides[item_facts.BASELINE].values.append(numbers(columns[item_facts.BASELINE_SCORES].flatten()))
        totals = {
            name: int(whole_numbers(columns[name]).max(initial=0)) for name in item_facts.TOTALS if name in columns
        }
        return cls(facts, items, sides, {**totals, **items.totals})

    def with_facts(self, view: View, recommended: Recommended, predictions: Ragged, ids: pa.Array) -> Recommended:
        """Recommended items with the facts that metrics ask for; `predictions` with their `ids`."""
        user_facts = self._user_facts
        prediction_facts, baseline_sizes = self._list_facts(view, predictions)
        # Looked up for the items that are left: most were cut off.
        kept = pa.array(recommended.entry)
        facts_by_item = self.items.look_up(ids.take(kept), item_facts.fields_of(self.facts))
        return recommended.with_facts(
            facts_by_item,
            prediction_facts,
            {**self.items.sets, **user_facts, **baseline_sizes},
            item_facts.sizes_of(self.totals),
        )

    def label_facts(self, ids: pa.Array) -> dict[str, Array]:
        """The facts of labelled items, which travel with labels as float64."""
        facts = self.items.look_up(ids, {GROUP_SET, LEVEL} & item_facts.fields_of(self.facts))
        return {name: values.astype(np.float64) for name, values in facts.items()}

    @cached_property
    def _user_facts(self) -> dict[str, Any]:
        """The facts of users' histories, whatever is recommended to them."""
        if item_facts.HISTORY not in self.lists:
            return {}
        history = self.lists[item_facts.HISTORY]
        user, n_users = history.user, history.n_users
        facts = self.items.look_up(self.sides[item_facts.HISTORY].ids, item_facts.fields_of(self.facts, history=True))
        user_facts: dict[str, Any] = {"history_size": history.lengths}
        if item_facts.TRAINING_USERS in facts:
            # Whole numbers below 2^53, whose sum is exact in any order.
            user_facts["history_popularity"] = np.bincount(user, facts[item_facts.TRAINING_USERS], n_users).astype(
                np.int64
            )
        if item_facts.CATEGORY_SET in facts:
            user_facts["history_categories"] = shares_of_categories(
                user, facts[item_facts.CATEGORY_SET], self.items.sets["category_sets"]
            )
        if item_facts.VECTOR in facts:
            user_facts["history_vector"] = self._mean_directions(history, facts[item_facts.VECTOR])
        sets = {GROUP_SET: "history_groups", LEVEL: "history_levels"}
        return user_facts | {
            name: history.like(facts[field_name]) for field_name, name in sets.items() if field_name in facts
        }

    def _mean_directions(self, history: Ragged, vectors: Array) -> Array:
        items, user = history.values, history.user
        # Rows come in any order; sums of floats have one.
        order = np.lexsort((items if self.order is None else self.order(items), user))
        unit, user = unit_vectors(vectors)[order], user[order]
        size = np.maximum(history.lengths, 1)
        sums = [np.bincount(user, along, history.n_users) / size for along in unit.T]
        return np.stack(sums, axis=1) if sums else np.zeros((history.n_users, 0))

    def _list_facts(self, view: View, predictions: Ragged) -> tuple[dict[str, Array], dict[str, Array]]:
        """The facts of predictions, and of users, by users' other lists."""
        prediction_facts: dict[str, Array] = {}
        if item_facts.HISTORY in self.lists:
            prediction_facts["consumed"] = contained(predictions, self.lists[item_facts.HISTORY])
        if item_facts.BASELINE not in self.lists:
            return prediction_facts, {}
        kept, rank = self._ranked_baseline(view)
        matched = match(predictions, kept)
        prediction_facts["baseline_rank"] = np.zeros(len(predictions.values), np.int64)
        prediction_facts["baseline_rank"][matched.prediction] = rank[matched.label]
        return prediction_facts, {"baseline_size": self.lists[item_facts.BASELINE].lengths}

    def _ranked_baseline(self, view: View) -> tuple[Ragged, IntArray]:
        """The baseline's items down to a view's largest cutoff, each once, and their ranks."""
        items = self.lists[item_facts.BASELINE]
        scores = items.like(self.sides[item_facts.BASELINE].values[0])
        none = Ragged(np.empty(0, items.values.dtype), np.zeros(items.n_users + 1, np.int64))
        lists = RawLists(items, scores, labels=none, order=self.order, entry=np.arange(len(items.values)))
        policy = replace(
            view.ranking, duplicates="keep_best", unpredicted_labels="left_out", min_score=None, budget=None
        )
        ranked = rank_lists(lists, policy, largest_cutoff=view.largest_cutoff)[0].recommended
        assert ranked is not None, "entries were given"
        rank = np.zeros(len(items.values), np.int64)
        rank[ranked.entry] = ranked.rank
        return items.where(rank > 0), rank[rank > 0]


def shares_of_categories(user: IntArray, indices: IntArray, sets: Ragged) -> CategoryShares:
    """Which share of each user's items is of each category; an item is of all of its categories in equal parts.

    Items without a category are left out, and users who have no other.

    Args:
        user: int64, of each item.
        indices: int64, the index of each item's categories among the sets.
        sets: as of `read_sets`.
    """
    has_category = indices != UNKNOWN
    user, indices = user[has_category], indices[has_category]
    if not len(user):
        none = np.empty(0, np.int64)
        return CategoryShares(none, none, np.empty(0))
    n_categories, n_sizes = int(sets.values.max()) + 1, int(sets.lengths.max()) + 1
    item_categories = sets.take(indices)
    # Items come in any order, and sums of floats have one: items that share alike are counted, then added by how they share.
    cell = (user[item_categories.user] * n_categories + item_categories.values) * n_sizes + item_categories.lengths[
        item_categories.user
    ]
    cells, counts = np.unique(cell, return_counts=True)
    pairs, pair = np.unique(cells // n_sizes, return_inverse=True)
    n_items = np.bincount(user)
    share = np.bincount(pair, counts / (cells % n_sizes)) / n_items[pairs // n_categories]
    return CategoryShares(pairs // n_categories, pairs % n_categories, share)


def split_batch(batch: pa.RecordBatch, items: ItemFacts | None = None) -> Iterator[pa.RecordBatch]:
    """The batch in parts whose vectors, one per prediction, fit into little memory; no value depends on how it is cut.

    The parts have the hash of the training data: the table of popularity has it, or without one the users.
    """
    totals = {} if items is None else items.totals
    if item_facts.TRAINING_HASH in totals:
        hashes = pa.array(np.full(batch.num_rows, totals[item_facts.TRAINING_HASH]))
        batch = pa.RecordBatch.from_pydict({**columns_of(batch), item_facts.TRAINING_HASH: hashes})
    size = batch.num_rows
    if dimension := totals.get(item_facts.DIMENSION, 0):
        names = [name for name in batch.schema.names if name.startswith((ITEMS, item_facts.HISTORY))]
        n_cells = dimension * sum(len(batch.column(name).flatten()) for name in names)
        size //= -(-n_cells // _CELLS) or 1
    size = max(1, size)
    yield from (batch.slice(start, size) for start in range(0, max(1, batch.num_rows), size))


def fields_in(structs: pa.StructArray) -> dict[str, pa.Array]:
    """The fields of structs by name."""
    names = [structs.type.field(index).name for index in range(structs.type.num_fields)]
    # Flattened: the nulls and the slice of the structs are those of the fields, too.
    return dict(zip(names, structs.flatten(), strict=True))


# The tables of users' lists, by role.
_ROLES = {"training": HISTORY, "baseline": BASELINE}


@dataclass(frozen=True)
class FactsOfItems(ScoringFeature):
    """The facts of items, looked up in tables that every task receives."""

    totals = TOTALS
    faults = FAULTS

    def tables(self) -> tuple[str, ...]:
        """Those of items."""
        return ITEM_TABLES

    def begin(self, task: ScoringTask) -> PartitionFeature:
        """The facts that the metrics of a task ask for."""
        return _FactsOfPartition(task.facts)


class _FactsOfPartition(PartitionFeature):
    def __init__(self, facts: frozenset[Fact]) -> None:
        self._facts = facts
        self._items: ItemFacts | None = None

    def receive(self, tables: Mapping[str, pa.Scalar]) -> None:
        if self._items is None and (cells := {name: tables[name] for name in ITEM_TABLES if name in tables}):
            self._items = ItemFacts.read(self._facts, cells)

    def parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        return split_batch(batch, self._items)

    def read(self, columns: Mapping[str, pa.Array], labels: Side, excluded: Side | None) -> BatchFeature:
        return _FactsOfBatch(SideLists.read(self._facts, columns, self._items))


class _FactsOfBatch(BatchFeature):
    def __init__(self, lists: SideLists) -> None:
        self._lists, self.totals = lists, lists.totals

    def sides(self) -> Mapping[str, Side]:
        sides = self._lists.sides
        return {role: sides[name] for role, name in _ROLES.items() if name in sides}

    def compare(self, items: Mapping[str, Ragged], order: Callable[[Array], Array] | None) -> None:
        lists = {name: items[role] for role, name in _ROLES.items() if role in items}
        self._lists = replace(self._lists, lists=lists, order=order)

    def label_numbers(self, labels: Side) -> Mapping[str, Array]:
        return self._lists.label_facts(labels.ids)

    def add(self, ranked: RankedView) -> RankingBatch:
        batch = ranked.batch
        if batch.recommended is None:
            return batch
        ids = ranked.predictions.ids
        return replace(batch, recommended=self._lists.with_facts(ranked.view, batch.recommended, ranked.items, ids))
