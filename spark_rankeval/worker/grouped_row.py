"""What a grouped row has: every column of the table that Spark sends to workers, one row per user.

Spark groups the caller's tables into these columns, and workers read them. Features add their own columns to the list. A column that no
option asks for is not there.
"""

from __future__ import annotations

from typing import NamedTuple

#: The kinds of columns. ``items`` are lists of ids of one type; a fact has a struct for each item.
TEXT, NUMBER, WHOLE, FLAG, BYTES = "text", "number", "whole number", "flag", "bytes"
ITEMS_OF_USER, NUMBERS_OF_ITEMS, STRUCTS_OF_ITEMS = "items", "numbers of items", "structs of items"
ITEMS_OR_STRUCTS, MARKS_OF_ITEMS = "items, or structs of items", "marks of items"


class Column(NamedTuple):
    """A column of a grouped row."""

    name: str  # a digit in braces counts relevances, slices or attributes
    kind: str
    meaning: str
    null: str = ""  # what a null means; empty: it is never null
    of_each_model: bool = False  # further models have columns of their own, named as of `of_model`


GROUPED_ROW: list[Column] = []


def column(name: str, kind: str, meaning: str, null: str = "", *, of_each_model: bool = False) -> str:
    """Add a column to the list, and give its name."""
    GROUPED_ROW.append(Column(name, kind, meaning, null, of_each_model))
    return name


def of_model(name: str, model: int) -> str:
    """The column of a model's predictions, by the model's place: one table of predictions has the plain name."""
    return f"{name}_of_{model}" if model else name


#: The lists of each model, with the models' places in the names.
ITEMS = column("items", ITEMS_OF_USER, "the predicted items", "no row of predictions", of_each_model=True)
SCORES = column("scores", NUMBERS_OF_ITEMS, "their scores; ranks are negative scores", "likewise", of_each_model=True)
FACTS = column("facts", STRUCTS_OF_ITEMS, "facts that were joined to the predictions", "likewise", of_each_model=True)
PREDICTION_ROWS = column(
    "n_prediction_rows", WHOLE, "how many rows of predictions there are", "likewise", of_each_model=True
)
VALID_PREDICTIONS = column(
    "n_valid_predictions", WHOLE, "how many of them can be ranked, if only the best are in the lists", "likewise", of_each_model=True
)  # fmt: skip
MERGED_PREDICTIONS = column(
    "n_merged_predictions", WHOLE, "how many repeat an item and were left out while rows were grouped", "likewise", of_each_model=True
)  # fmt: skip
INFINITE_PREDICTIONS = column(
    "n_infinite_predictions", WHOLE, "how many have an infinite score and were left out, if these are not ranked", "likewise",
    of_each_model=True,
)  # fmt: skip
#: Those that `worker.reading.read_predictions` takes.
PREDICTION_COLUMNS = (ITEMS, SCORES, PREDICTION_ROWS, VALID_PREDICTIONS, MERGED_PREDICTIONS, INFINITE_PREDICTIONS)
#: The lists of several models as one, in the place of those above; `worker.model_lists` parts them.
MARKS = column(
    "marks", MARKS_OF_ITEMS, "of each row its model, whether it can be ranked, and its hash", "no row of predictions"
)
#: Lists from vectors, in the place of those above.
VECTOR = column("vector", NUMBERS_OF_ITEMS, "the user's vector", "no row of vectors", of_each_model=True)
BIAS = column("bias", NUMBER, "what is added to the user's scores", "none", of_each_model=True)
CANDIDATES = column(
    "candidates", ITEMS_OF_USER, "the items that the user can be recommended", "none", of_each_model=True
)
CATALOGUE = column("catalogue", BYTES, "the packed catalogue", "not the first row of a partition", of_each_model=True)
#: The labels.
LABELS = column("labels", ITEMS_OF_USER, "the labelled items", "no row of labels")
GRADES = column("grades_{}", NUMBERS_OF_ITEMS, "their grades of a relevance", "likewise")
LABEL_WEIGHTS = column("label_weight", NUMBERS_OF_ITEMS, "the labels' weights", "likewise")
LABEL_ROWS = column("n_label_rows", WHOLE, "how many rows of labels there are", "likewise")
#: The user.
NO_USER = column("no_user", FLAG, "whether the rows have no user: what is wrong with them is counted")
USER_HASH = column("user_hash", WHOLE, "the hash of the user's id, by which users are resampled and found again")
EXCLUDED = column("excluded", ITEMS_OF_USER, "the items that predictions leave out", "none")
SLICES = column("slice_{}", TEXT, "an attribute that divides users into slices", "missing, or rows that disagree")
USER_WEIGHT = column("user_weight", NUMBER, "the user's weight", "likewise")
CLUSTER_HASH = column("cluster_hash", WHOLE, "the hash of the user's cluster", "likewise")
CLUSTERS = column("cluster_{}", TEXT, "an attribute of the cluster, on the way to its hash", "likewise")
ATTRIBUTE_CONFLICTS = column(
    "n_attribute_conflicts", WHOLE, "in how many attributes the user's rows disagree", "no row of attributes"
)
ABSENT = column(
    "absent", FLAG, "whether only a table of attributes has the user: not evaluated, but the slice is there"
)
#: Hashes of rows, of which fingerprints are made.
HASHES = tuple(
    column(f"hash_of_{table}", WHOLE, "the sum of the hashes of the user's rows", "no row", of_each_model=place == 0)
    for place, table in enumerate(("predictions", "labels", "users", "exclude", "attributes"))
)


def hash_column(table: str) -> str:
    """The column of the sums of the hashes of a user's rows of a table; null if the user has no row."""
    return f"hash_of_{table}"


def grades_column(index: int) -> str:
    """The column of the grades of a relevance, by its place."""
    return GRADES.format(index)


def label_column(name: str) -> str:
    """The column of what labels have beside their grades, by its name in `LABEL_COLUMNS`."""
    return f"label_{name}"


def slice_column(index: int) -> str:
    """The column of an attribute that divides users into slices, by its place."""
    return SLICES.format(index)


def cluster_column(index: int) -> str:
    """The column of an attribute of the user's cluster, by its place."""
    return CLUSTERS.format(index)
