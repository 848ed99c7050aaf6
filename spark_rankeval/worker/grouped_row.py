"""What a grouped row has: every column of the table that Spark sends to workers, one row per user.

Spark groups the caller's tables into these columns, and workers read them. Features add their own columns to the list. A column that no
option asks for is not there.
"""

from __future__ import annotations

from typing import NamedTuple

#: The kinds of columns. ``items`` are lists of ids of one type; a fact has a struct for each item.
TEXT, NUMBER, INTEGER, FLAG, BYTES = "text", "number", "whole number", "flag", "bytes"
ITEMS_OF_USER, NUMBERS_OF_ITEMS, STRUCTS_OF_ITEMS = "items", "numbers of items", "structs of items"
ITEMS_OR_STRUCTS, MARKS_OF_ITEMS = "items, or structs of items", "marks of items"


class GroupedColumn(NamedTuple):
    """A column of a grouped row."""

    name: str  # a digit in braces counts relevances, slices or attributes
    kind: str
    meaning: str
    writers: str  # modules of the package
    readers: str
    null: str = ""  # what a null means; empty: it is never null
    per_model: bool = False  # further models have columns of their own, named as of `column_of_model`


#: All columns, once the modules of the features are loaded.
GROUPED_ROW: list[GroupedColumn] = []


def column(
    name: str, kind: str, meaning: str, writers: str, readers: str, null: str = "", *, per_model: bool = False
) -> str:
    """Add a column to the list, and give its name."""
    GROUPED_ROW.append(GroupedColumn(name, kind, meaning, writers, readers, null, per_model))
    return name


def column_of_model(name: str, model: int) -> str:
    """The column of a model's predictions, by the model's index: one table of predictions has the plain name."""
    return f"{name}_of_{model}" if model else name


_LISTS, _READING = "spark.prediction_lists, spark.table_rows", "worker.reading"
_NO_ROW = "no row of predictions"


def _prediction_column(name: str, kind: str, meaning: str, writers: str = _LISTS, readers: str = _READING) -> str:
    return column(name, kind, meaning, writers, readers, _NO_ROW, per_model=True)


#: The lists of each model, with the models' indices in the names.
ITEMS = _prediction_column("items", ITEMS_OF_USER, "the predicted items")
SCORES = _prediction_column("scores", NUMBERS_OF_ITEMS, "their scores; ranks are negative scores")
COSTS = _prediction_column("costs", NUMBERS_OF_ITEMS, "what they cost")
FACTS = _prediction_column(
    "facts", STRUCTS_OF_ITEMS, "facts joined to each", "features.items.spark", "worker.user_metrics"
)
PREDICTION_ROWS = _prediction_column("n_prediction_rows", INTEGER, "how many rows of predictions there are")
VALID_PREDICTIONS = _prediction_column(
    "n_valid_predictions", INTEGER, "how many can be ranked, if only the best are in the lists"
)
MERGED_PREDICTIONS = _prediction_column(
    "n_merged_predictions", INTEGER, "how many were left out as they repeat an item"
)
INFINITE_PREDICTIONS = _prediction_column("n_infinite_predictions", INTEGER, "how many were left out as infinite")
#: Those that `worker.reading.read_predictions` takes.
PREDICTION_COLUMNS = (
    ITEMS,
    SCORES,
    COSTS,
    PREDICTION_ROWS,
    VALID_PREDICTIONS,
    MERGED_PREDICTIONS,
    INFINITE_PREDICTIONS,
)
#: The lists of several models as one, instead of those above.
MARKS = column(
    "marks",
    MARKS_OF_ITEMS,
    "each row's model, whether it is ranked, and its hash",
    _LISTS,
    "worker.reading",
    _NO_ROW,
)
#: Lists from vectors, instead of those above.
_VECTORS = "features.vectors.worker"
VECTOR = _prediction_column("vector", NUMBERS_OF_ITEMS, "the user's vector", "spark.source", _VECTORS)
BIAS = _prediction_column("bias", NUMBER, "what is added to the user's scores", "spark.source", _VECTORS)
CANDIDATES = _prediction_column(
    "candidates", ITEMS_OF_USER, "the items that the user can be recommended", "features.vectors.spark", _VECTORS
)
#: A packed table that the first row of a partition has.
NOT_FIRST = "not the first row of a partition"
CATALOGUE = column(
    "catalogue", BYTES, "the packed catalogue", "features.vectors.spark", _VECTORS, NOT_FIRST, per_model=True
)
#: The labels.
_NO_LABEL, _TABLES = "no row of labels", "spark.table_rows, spark.grouping"
LABELS = column("labels", ITEMS_OF_USER, "the labelled items", _TABLES, _READING, _NO_LABEL)
GRADES = column("grades_{}", NUMBERS_OF_ITEMS, "their grades of a relevance", _TABLES, _READING, _NO_LABEL)
LABEL_WEIGHTS = column("label_weight", NUMBERS_OF_ITEMS, "their weights", _TABLES, _READING, _NO_LABEL)
LABEL_ROWS = column("n_label_rows", INTEGER, "how many rows of labels there are", _TABLES, _READING, _NO_LABEL)
#: The user. A table of users also has the user's own columns, `spark.source.user_column`, which workers pass on.
_GROUPING, _STATES, _ATTRIBUTES = "spark.grouping", "worker.states", "spark.table_rows"
_UNKNOWN = "missing, or rows that disagree"
NO_USER = column(
    "no_user", FLAG, "whether the rows have no user: only what is wrong with them counts", _GROUPING, _STATES
)
USER_HASH = column("user_hash", INTEGER, "the hash of the user's id", _GROUPING, _STATES)
EXCLUDED = column("excluded", ITEMS_OF_USER, "the items that predictions leave out", _GROUPING, _READING, "none")
SLICES = column("slice_{}", TEXT, "an attribute that divides users into slices", _ATTRIBUTES, _STATES, _UNKNOWN)
USER_WEIGHT = column("user_weight", NUMBER, "the user's weight", _ATTRIBUTES, _STATES, _UNKNOWN)
PROBABILITY = column(
    "probability",
    NUMBER,
    "the probability that people graded the user's items",
    _ATTRIBUTES,
    "features.judges.worker",
    _UNKNOWN,
)
GRADED = column(
    "graded", NUMBER, "whether people graded the user's items", _ATTRIBUTES, "features.judges.graded", _UNKNOWN
)
STRATUM = column(
    "stratum", TEXT, "the stratum that the user was drawn from", _ATTRIBUTES, "features.judges.graded", _UNKNOWN
)
#: The attributes of users that are numbers; the others are texts.
NUMBERS_OF_USERS = (USER_WEIGHT, PROBABILITY, GRADED)
CLUSTER_HASH = column("cluster_hash", INTEGER, "the hash of the user's cluster", _ATTRIBUTES, _STATES, _UNKNOWN)
CLUSTERS = column("cluster_{}", TEXT, "an attribute of the cluster", _ATTRIBUTES, "worker.user_metrics", _UNKNOWN)
ATTRIBUTE_CONFLICTS = column(
    "n_attribute_conflicts",
    INTEGER,
    "in how many attributes rows disagree",
    _ATTRIBUTES,
    "worker.user_metrics",
    "no row",
)
ABSENT = column(
    "absent",
    FLAG,
    "whether only a table of attributes has the user: not evaluated, but the slice is there",
    _GROUPING,
    _STATES,
)
#: Hashes of rows, from which fingerprints are made. Those of whole tables are the same in every row.
_HASHES = "worker.reading"
for _table in ("predictions", "labels", "users", "exclude", "attributes"):
    column(
        f"hash_of_{_table}", INTEGER, "the sum of the hashes of the user's rows", _GROUPING, _HASHES, "no row",
        per_model=_table == "predictions",
    )  # fmt: skip
for _table in ("training", "items", "baseline"):
    column(f"hash_of_{_table}", INTEGER, "the sum of the hashes of all rows of the table", "spark.table_rows", _HASHES)


def hash_column(table: str) -> str:
    """The column of the sums of the hashes of a user's rows of a table; null if the user has no row."""
    return f"hash_of_{table}"


def grades_column(index: int) -> str:
    """The column of the grades of a relevance, by its index."""
    return GRADES.format(index)


def label_column(name: str) -> str:
    """The column of what labels have beside their grades, by its name in `LABEL_COLUMNS`."""
    return f"label_{name}"


def slice_column(index: int) -> str:
    """The column of an attribute that divides users into slices, by its index."""
    return SLICES.format(index)


def cluster_column(index: int) -> str:
    """The column of an attribute of the user's cluster, by its index."""
    return CLUSTERS.format(index)
