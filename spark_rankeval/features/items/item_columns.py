"""Columns and packed tables that bring facts of items, and users' lists beside predictions, to workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spark_rankeval.ranking.recommended import ATTRIBUTES, FACT_FIELDS, FACT_TABLES, ITEM_FACTS, Fact, Totals
from spark_rankeval.worker.grouped_row import (
    BYTES,
    INTEGER,
    ITEMS_OF_USER,
    ITEMS_OR_STRUCTS,
    NOT_FIRST,
    NUMBERS_OF_ITEMS,
    column,
    hash_column,
)
from spark_rankeval.worker.process import TOO_LARGE, Bound

#: Columns of a grouped row.
_GROUPED, _LISTS = "features.items.grouped_tables", "features.items.worker"
HISTORY = column(
    "history", ITEMS_OR_STRUCTS, "the user's items in the training data, with facts", _GROUPED, _LISTS, "none"
)
BASELINE = column("baseline", ITEMS_OF_USER, "the items that a baseline recommends", _GROUPED, _LISTS, "none")
BASELINE_SCORES = column("baseline_scores", NUMBERS_OF_ITEMS, "the scores of these", _GROUPED, _LISTS, "none")
#: Fields of the structs.
ITEM, SCORE, TRAINING_USERS, TRAINING_INTERACTIONS = "item", "score", "training_users", "training_interactions"
CATEGORY, CATEGORY_SET, VECTOR, IS_IN_ITEMS = "category", "category_set", "vector", "is_in_items"
SHARE_ABOVE, ITEMS_ABOVE = LONG_TAIL = ("share_above", "items_above")
#: The fields that are joined or looked up: those of the training data, and those of the table of items.
POPULARITY_FIELDS, ATTRIBUTE_FIELDS = (
    frozenset(field for fact in ITEM_FACTS if FACT_TABLES[fact] == (table,) for field in FACT_FIELDS[fact])
    for table in ("training", "items")
)
#: Columns of tables that are grouped by user or by item: the items that a user has in the training data, as often as they are there; how
#: many rows were grouped into one, or left out of it; the sum of the hashes of training rows; and an item's group.
CONSUMED, ROWS, TRAINING_HASH, GROUP = "consumed", "rows", hash_column("training"), "group"
#: Packed tables of items, in which workers look facts up.
POPULARITY_TABLE, ATTRIBUTES_TABLE, GROUPS_TABLE, LEVELS_TABLE = ITEM_TABLES = tuple(
    column(f"{name}_table", BYTES, f"the packed table of {name}", _GROUPED, "features.items.item_facts", NOT_FIRST)
    for name in ("popularity", "attributes", "groups", "levels")
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
TOTALS = (*SIZES, DIMENSION, TOO_LARGE, *FAULTS)
for _name in (*SIZES, DIMENSION, *FAULTS):
    column(_name, INTEGER, "a count of the tables of facts, the same in every row", _GROUPED, _LISTS)
#: Larger tables are joined. Every task that runs holds such a table, in memory that Spark leaves beside its heap, often 384 MB; the
#: driver holds it once. Every task receives it, and beyond this a shuffle of predictions may cost less.
BOUND = Bound(rows=1_000_000, n_bytes=64 << 20)


def fields_of(facts: Iterable[Fact], *, history: bool = False) -> set[str]:
    """The fields that hold facts of predicted items, or of the items of a history."""
    return {field for fact in facts if fact.startswith("history") == history for field in FACT_FIELDS.get(fact, ())}


def sizes_of(totals: Mapping[str, int]) -> Totals:
    """The sizes of the tables, from `TOTALS` by name."""
    return Totals(*(totals.get(name, 0) for name in SIZES))
