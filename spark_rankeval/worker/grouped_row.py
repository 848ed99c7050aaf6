"""What a grouped row has: every column of the table that Spark sends to workers, one row per user.

Spark groups the caller's tables into these columns, and workers read them. Features add their own columns to the list. A column that no
option asks for is not there.
"""

from __future__ import annotations


def column_of_model(name: str, model: int) -> str:
    """The column of a model's predictions, by the model's index: one table of predictions has the plain name."""
    return f"{name}_of_{model}" if model else name


#: The lists of each model, with the models' indices in the names.
ITEMS = "items"  # the predicted items
SCORES = "scores"  # their scores; ranks are negative scores
COSTS = "costs"  # what they cost
PREDICTION_ROWS = "n_prediction_rows"  # how many rows of predictions there are
VALID_PREDICTIONS = "n_valid_predictions"  # how many can be ranked, if only the best are in the lists
MERGED_PREDICTIONS = "n_merged_predictions"  # how many were left out as they repeat an item
INFINITE_PREDICTIONS = "n_infinite_predictions"  # how many were left out as infinite
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
MARKS = "marks"  # each row's model, whether it is ranked, and its hash
VECTOR = "vector"  # the user's vector
BIAS = "bias"  # what is added to the user's scores
CANDIDATES = "candidates"  # the items that the user can be recommended
CATALOGUE = "catalogue"  # the packed catalogue
LABELS = "labels"  # the labelled items
GRADES = "grades_{}"  # their grades of a relevance
LABEL_ROWS = "n_label_rows"  # how many rows of labels there are
NO_USER = "no_user"  # whether the rows have no user: only what is wrong with them counts
USER_HASH = "user_hash"  # the hash of the user's id
EXCLUDED = "excluded"  # the items that predictions leave out
SLICES = "slice_{}"  # an attribute that divides users into slices
USER_WEIGHT = "user_weight"  # the user's weight
PROBABILITY = "probability"  # the probability that people graded the user's items
GRADED = "graded"  # whether people graded the user's items
STRATUM = "stratum"  # the stratum that the user was drawn from
#: The attributes of users that are numbers; the others are texts.
NUMBERS_OF_USERS = (USER_WEIGHT, PROBABILITY, GRADED)
CLUSTER_HASH = "cluster_hash"  # the hash of the user's cluster
CLUSTERS = "cluster_{}"  # an attribute of the cluster
ATTRIBUTE_CONFLICTS = "n_attribute_conflicts"  # in how many attributes rows disagree
ABSENT = "absent"  # whether only a table of attributes has the user: not evaluated, but the slice is there


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
