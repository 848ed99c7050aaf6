"""What further tables know of items and users: from Arrow columns to the attributes that metrics read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.ranking.intents import IntentLists
from spark_rankeval.ranking.lists import Lists
from spark_rankeval.ranking.matching import contained, match
from spark_rankeval.ranking.ragged import Array, IntArray, Ragged
from spark_rankeval.ranking.ranks import rank_lists
from spark_rankeval.ranking.recommended import OF_ITEMS, UNKNOWN, Totals, unit_vectors
from spark_rankeval.worker.categories import CategorySets, shares_of_categories
from spark_rankeval.worker.reading import ITEMS, Side, filled, numbers, side_of, whole_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from spark_rankeval.ranking.recommended import Fact
    from spark_rankeval.request.task import View
    from spark_rankeval.worker.item_tables import ItemTables

#: Columns of a grouped table: facts of the predicted items beside these, and lists of users, of items or of structs with items.
FACTS, HISTORY, BASELINE, BASELINE_SCORES, INTENTS = "facts", "history", "baseline", "baseline_scores", "intents"
#: Fields of the structs.
ITEM, SCORE, TRAINING_USERS, TRAINING_INTERACTIONS = "item", "score", "training_users", "training_interactions"
CATEGORY, CATEGORY_SET, VECTOR, IN_ITEMS, INTENT = "category", "category_set", "vector", "in_items", "intent"
SHARE_ABOVE, ITEMS_ABOVE = "share_above", "items_above"
#: How large the further tables are, in columns that every row repeats.
N_TRAINING_USERS, N_TRAINING_ITEMS = "n_training_users", "n_training_items"
N_TRAINING_INTERACTIONS, N_ITEMS = "n_training_interactions", "n_catalogue_items"
SIZES = (N_TRAINING_USERS, N_TRAINING_ITEMS, N_TRAINING_INTERACTIONS, N_ITEMS)
#: How long vectors are.
DIMENSION = "vector_dimension"
#: Whether a table was too large for workers to look facts up in it: 1, and no fact is known; else 0.
TOO_LARGE = "table_too_large"
#: What is wrong in the further tables: rows, or items.
FAULTS = (
    "n_invalid_training",
    "n_invalid_items",
    "n_invalid_baseline",
    "n_conflicting_categories",
    "n_conflicting_vectors",
    "n_ragged_vectors",
)
# So many numbers of vectors are worked at a time.
_CELLS = 1 << 21

#: Facts that the popularity of all items together tells.
LONG_TAIL = (SHARE_ABOVE, ITEMS_ABOVE)

#: All that every row of a grouped table repeats if a metric asks for facts.
TOTALS = (*SIZES, DIMENSION, TOO_LARGE, *FAULTS)
# The fields that hold each fact, of predicted items or of those of a history.
_FIELDS: dict[Fact, tuple[str, ...]] = {
    "popularity": (TRAINING_USERS, TRAINING_INTERACTIONS),
    "long_tail": (SHARE_ABOVE, ITEMS_ABOVE),
    "category": (CATEGORY,),
    "categories": (CATEGORY_SET,),
    "vector": (VECTOR,),
    "catalogue": (IN_ITEMS,),
    "history_popularity": (TRAINING_USERS,),
    "history_categories": (CATEGORY_SET,),
    "history_vector": (VECTOR,),
}


class FurtherTables(NamedTuple):
    """What came with a batch of users from further tables."""

    history: Side | None  # the different items of each user in the training data; None if nobody asked
    baseline: Side | None  # the baseline's lists, with scores; None if nobody asked
    intents: Side | None  # the items of labels, an entry for each intent, with grades; None if nobody asked
    of_history: Mapping[str, pa.Array]  # the fields of the history's items, if facts were joined to these
    codes: IntArray  # of the intents of each of these entries, in the order of the intents' names
    items: ItemTables | None  # where facts of items are looked up; None if they were joined to items
    category_sets: CategorySets  # the sets of categories of items
    totals: Mapping[str, int]  # `TOTALS` by name, 0 if the batch has no user

    @classmethod
    def read(cls, columns: Mapping[str, pa.Array], items: ItemTables | None) -> FurtherTables:
        """From the columns of a batch, and from the tables that its task was given."""
        history, of_history = _side(columns, HISTORY)
        baseline, _ = _side(columns, BASELINE)
        if baseline is not None:
            baseline = baseline._replace(values=[numbers(columns[BASELINE_SCORES].flatten())])
        intents, of_intents = _side(columns, INTENTS)
        codes = np.empty(0, np.int64)
        if intents is not None:
            grades = [values for name, values in of_intents.items() if name not in (ITEM, INTENT)]
            intents = intents._replace(values=list(map(numbers, grades)))
            codes = _codes_in_order(of_intents[INTENT])
        totals = {name: int(whole_numbers(columns[name]).max(initial=0)) for name in TOTALS if name in columns}
        category_sets = CategorySets() if items is None else items.category_sets
        totals |= {} if items is None else items.totals
        return cls(history, baseline, intents, of_history, codes, items, category_sets, totals)

    def sides(self) -> list[Side]:
        """Those that have ids."""
        return [side for side in (self.history, self.baseline, self.intents) if side is not None]


def sizes_of(totals: Mapping[str, int]) -> Totals:
    """How large the tables are, from `TOTALS` by name."""
    return Totals(*(totals.get(name, 0) for name in SIZES))


def in_parts(batch: pa.RecordBatch, dimension: int | None = None) -> Iterator[pa.RecordBatch]:
    """The batch in parts whose vectors, one a prediction, fit into little memory; no value depends on how it is cut.

    Without `dimension` a column of the batch says how long vectors are, if there are any.
    """
    if dimension is None and DIMENSION in batch.schema.names:
        dimension = int(whole_numbers(batch.column(DIMENSION)).max(initial=0))
    if not dimension:
        yield batch
        return
    entries = sum(len(batch.column(name).flatten()) for name in batch.schema.names if name.startswith((ITEMS, HISTORY)))
    n_parts = -(-entries * dimension // _CELLS) or 1
    size = max(1, batch.num_rows // n_parts)
    for start in range(0, batch.num_rows, size):
        yield batch.slice(start, size)


class ListsOfUsers(NamedTuple):
    """The further lists of users, with items that compare with those of the predictions."""

    history: Ragged | None  # what each user has
    baseline: Ragged | None  # what the baseline recommends to each user
    intents: Ragged | None  # what the user's labels are about: their items, an entry for each intent
    order: Callable[[Array], Array] | None  # as of `Lists`


def facts_of_items(
    tables: FurtherTables, asked: frozenset[Fact], ids: pa.Array, joined: pa.ListArray | None
) -> dict[str, Any]:
    """The facts of some items, an entry each, under the names that `Recommended` has for them; `joined`: those that came with items."""
    if tables.items is not None:
        known: dict[str, Any] = dict(tables.items.of(ids, fields_of(asked & set(OF_ITEMS))))
    else:
        known = {} if joined is None else dict(_decoded(_fields(joined), tables))
    if CATEGORY_SET in known:
        known["category_sets"] = tables.category_sets.sets()
    return known


def fields_of(asked: Iterable[Fact]) -> set[str]:
    """The fields that hold some facts."""
    return {field for fact in asked for field in _FIELDS.get(fact, ())}


def facts_of_users(tables: FurtherTables, lists: ListsOfUsers, asked: frozenset[Fact]) -> dict[str, Any]:
    """What is known of users whatever is recommended to them."""
    if lists.history is None or tables.history is None:
        return {}
    known: dict[str, Any] = {"history_size": lists.history.lengths}
    if tables.items is not None:
        facts = tables.items.of(tables.history.ids, fields_of(asked - set(OF_ITEMS)))
    else:
        facts = _decoded(tables.of_history, tables)
    user, n_users = lists.history.user, lists.history.n_users
    if TRAINING_USERS in facts:
        # Whole numbers below 2^53, whose sum is exact in any order.
        known["history_popularity"] = np.bincount(user, facts[TRAINING_USERS], n_users).astype(np.int64)
    if CATEGORY_SET in facts:
        known["history_categories"] = shares_of_categories(user, facts[CATEGORY_SET], tables.category_sets.sets())
    if VECTOR in facts:
        known["history_vector"] = _mean_directions(lists, facts[VECTOR])
    return known


def _mean_directions(lists: ListsOfUsers, vectors: Array) -> Array:
    assert lists.history is not None
    items, user = lists.history.values, lists.history.user
    # Rows come in any order; sums of floats have one.
    order = np.lexsort((items if lists.order is None else lists.order(items), user))
    unit, user = unit_vectors(vectors)[order], user[order]
    size = np.maximum(lists.history.lengths, 1)
    sums = [np.bincount(user, along, lists.history.n_users) / size for along in unit.T]
    return np.stack(sums, axis=1) if sums else np.zeros((lists.history.n_users, 0))


def facts_of_lists(
    view: View, predictions: Ragged, tables: FurtherTables, lists: ListsOfUsers
) -> tuple[dict[str, Array], dict[str, Array]]:
    """What is known of predictions by the user's other lists: of each prediction, and of each user."""
    of_items: dict[str, Array] = {}
    of_users: dict[str, Array] = {}
    if lists.history is not None:
        of_items["consumed"] = contained(predictions, lists.history)
    if lists.baseline is not None and tables.baseline is not None:
        scores = lists.baseline.like(tables.baseline.values[0])
        kept, rank = _ranked(view, lists.baseline, scores, lists.order)
        matched = match(predictions, kept)
        of_items["baseline_rank"] = np.zeros(len(predictions.values), np.int64)
        of_items["baseline_rank"][matched.prediction] = rank[matched.label]
        of_users["baseline_size"] = lists.baseline.lengths
    return of_items, of_users


def _ranked(
    view: View, items: Ragged, scores: Ragged, order: Callable[[Array], Array] | None
) -> tuple[Ragged, IntArray]:
    """The items of other lists down to a view's largest cutoff, each once, and their ranks."""
    none = Ragged(np.empty(0, items.values.dtype), np.zeros(items.n_users + 1, np.int64))
    lists = Lists(items, scores, labels=none, order=order, entry=np.arange(len(items.values)))
    policy = replace(view.ranking, duplicates="keep_best", unpredicted_labels="left_out")
    ranked = rank_lists(lists, policy, largest_cutoff=view.largest_cutoff)[0].recommended
    assert ranked is not None, "entries were given"
    rank = np.zeros(len(items.values), np.int64)
    rank[ranked.entry] = ranked.rank
    return items.where(rank > 0), rank[rank > 0]


def _side(columns: Mapping[str, pa.Array], name: str) -> tuple[Side | None, dict[str, pa.Array]]:
    """A column of lists of items as a side, and the fields of these if they are structs."""
    if name not in columns:
        return None, {}
    side = side_of(columns[name])
    if not pa.types.is_struct(side.ids.type):
        return side, {}
    fields = _fields(side.ids)
    return side._replace(ids=fields[ITEM]), fields


def _fields(structs: pa.StructArray) -> dict[str, pa.Array]:
    names = [structs.type.field(index).name for index in range(structs.type.num_fields)]
    # Flattened: the nulls and the slice of the structs are those of the fields, too.
    return dict(zip(names, structs.flatten(), strict=True))


def _decoded(fields: Mapping[str, pa.Array], tables: FurtherTables) -> dict[str, Array]:
    return decoded(fields, tables.totals.get(DIMENSION, 0), tables.category_sets)


def decoded(fields: Mapping[str, pa.Array], dimension: int, category_sets: CategorySets) -> dict[str, Array]:
    """Facts under the names that `Recommended` has for them; null is what an item has that no table knows."""
    read: dict[str, Callable[[pa.Array], Array]] = {
        TRAINING_USERS: whole_numbers,
        TRAINING_INTERACTIONS: whole_numbers,
        SHARE_ABOVE: lambda values: filled(values, 1.0),
        ITEMS_ABOVE: lambda values: filled(values, 1.0),
        CATEGORY: _codes,
        CATEGORY_SET: category_sets.places,
        VECTOR: lambda values: _vectors(values, dimension),
        IN_ITEMS: lambda values: pc.fill_null(values, False).to_numpy(zero_copy_only=False),
    }
    return {name: read_values(fields[name]) for name, read_values in read.items() if name in fields}


def _codes(values: pa.Array) -> IntArray:
    codes: IntArray = filled(values.dictionary_encode().indices, UNKNOWN).astype(np.int64)
    return codes


def _codes_in_order(names: pa.Array) -> IntArray:
    """A number for each name, in the order of their bytes."""
    encoded = names.dictionary_encode()
    place = np.empty(len(encoded.dictionary), np.int64)
    place[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(place))
    return place[filled(encoded.indices, 0)] if len(place) else np.empty(0, np.int64)


def intents_of_labels(
    tables: FurtherTables, lists: ListsOfUsers, relevance: int, *, clip: bool = False
) -> IntentLists | None:
    """The intents of labels with the grades of a relevance, by its place; None if nobody asked for them."""
    if tables.intents is None or lists.intents is None:
        return None
    grades = tables.intents.values
    grade = grades[relevance] if grades else np.ones(len(tables.codes))
    return IntentLists(lists.intents, tables.codes, np.maximum(grade, 0.0) if clip else grade)


def _vectors(values: pa.Array, dimension: int) -> Array:
    """Vectors as rows; NaN if there is none of the right length."""
    lengths = pc.fill_null(pc.list_value_length(values), -1).to_numpy(zero_copy_only=False)
    rows: Array = np.full((len(values), dimension), np.nan)
    right = lengths == dimension
    entries = numbers(values.flatten())
    kept: Any = np.repeat(right[lengths > 0], lengths[lengths > 0])
    rows[right] = entries[kept].reshape(-1, dimension) if dimension else 0.0
    return rows
