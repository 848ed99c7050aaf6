"""The counts that every user has beside the metrics, in one list for states, tables, checks and words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple


@dataclass(frozen=True)
class Count:
    """A number that every user has beside the metrics.

    Attributes:
        name: its column in the per-user table.
        words: the words after the number, as in "7 predictions excluded".
        source: what it depends on. Several models share their users and labels, so only counts of predictions add up over models.
        total: the name of the sum over all users in `DataQuality`; empty: as `name`.
        counts_rows: whether it counts rows that cannot be ranked; rows without a user have it as well.
        is_sum: whether it adds up numbers instead of counting.
        only: it exists only if labels have ``weights`` or a row for each of their ``subtopics``, if lists come from ``vectors``, if
            items have ``groups``, if users are declared to have ``no_answer``, if grades may be missing (``unjudged``), or if
            people graded a part of what a model graded (``judged``); empty: always.
        is_noted: whether it is shown below the figures if it is not 0.
    """

    name: str
    words: str
    source: Literal["predictions", "labels"]
    total: str = ""
    counts_rows: bool = False
    is_sum: bool = False
    only: Literal["", "weights", "vectors", "groups", "subtopics", "no_answer", "unjudged", "judged"] = ""
    is_noted: bool = False

    @property
    def total_name(self) -> str:
        """The name of the sum over all users in `DataQuality`."""
        return self.total or self.name


#: The sum of the weights of users whom people graded; of a user who was drawn like all others, 1.
GRADING_WEIGHT = "grading_weight"

#: Whether people graded a user and the model did not.
PEOPLE_ALONE = "only_people_graded"

#: Whether people graded some items of a user that the model graded, and not all.
PARTLY_GRADED = "partly_graded"

#: All counts, in the order of their columns.
ALL_COUNTS = (
    Count("n_predictions", "predictions", "predictions"),
    Count("n_labels", "labels", "labels"),
    Count("n_relevant", "relevant labels", "labels"),
    Count("in_both", "users with labels and predictions", "predictions", total="n_in_both"),
    Count("hangs_on_tie", "users whose values depend on the order of equal scores", "predictions", total="n_hanging_on_ties"),
    Count("n_excluded", "predictions excluded", "predictions", is_noted=True),
    Count("n_excluded_labels", "labels of excluded items", "labels", is_noted=True),
    Count("n_infinite_scores", "infinite scores", "predictions", is_noted=True),
    Count("n_negative_grades", "negative grades", "labels", is_noted=True),
    Count("left_out", "users left out of the means", "predictions", total="n_left_out"),
    Count("n_invalid_predictions", "invalid predictions left out", "predictions", counts_rows=True, is_noted=True),
    Count("n_invalid_labels", "invalid labels left out", "labels", counts_rows=True, is_noted=True),
    Count("n_duplicate_predictions", "duplicate predictions", "predictions", counts_rows=True, is_noted=True),
    Count("n_duplicate_labels", "repeated labels merged", "labels", counts_rows=True, is_noted=True),
    Count("n_conflicting_labels", "conflicting labels, resolved", "labels", counts_rows=True, is_noted=True),
    Count("n_conflicting_attributes", "conflicting attributes", "labels", counts_rows=True, is_noted=True),
    Count("n_labels_without_vector", "labels of items without a vector", "predictions", only="vectors", is_noted=True),
    Count("n_unlisted_labels", "labels of items that the table of items lacks", "labels", only="groups", is_noted=True),
    Count("n_subtopic_labels", "labels for other subtopics of their item", "labels", only="subtopics", is_noted=True),
    Count("has_no_answer", "users with no answer", "labels", total="n_no_answer", only="no_answer"),
    Count("conflicting_answer", "users with no answer but a relevant label", "labels", total="n_conflicting_answers", only="no_answer"),
    Count("n_missing_grades", "missing grades, which leave their item unlabelled for that judge", "labels", only="unjudged", is_noted=True),
    Count(GRADING_WEIGHT, "sum of the weights of users graded by people", "labels", is_sum=True, only="judged"),
    Count(PEOPLE_ALONE, "users graded by people and not by the model, in no estimate", "labels", "n_only_people_graded", only="judged"),
    Count(PARTLY_GRADED, "users graded by people in part, which count as not graded", "labels", "n_partly_graded", only="judged"),
    Count("n_clipped_labels", "labels with a weight above the lowest limit", "labels", only="weights"),
    Count("label_weight", "sum of the label weights", "labels", is_sum=True, only="weights"),
    Count("squared_label_weight", "sum of the squared label weights", "labels", is_sum=True, only="weights"),
)  # fmt: skip

#: The names of the counts that every user has beside the metrics.
COUNTS = tuple(count.name for count in ALL_COUNTS if not count.only)
#: The names of those that rows without a user have as well.
INVALID_COUNTS = tuple(count.name for count in ALL_COUNTS if count.counts_rows)
#: The names of the counts and sums that exist only if labels have weights.
WEIGHT_SUMS = tuple(count.name for count in ALL_COUNTS if count.only == "weights")
#: The counts that can be users' weights.
WEIGHTS: tuple[str, ...] = ("n_labels", "n_predictions")
#: The column of a per-user table with the number of unusable rows and items in the tables of facts, the same for every user. It
#: exists only if metrics need facts.
UNUSABLE_FACTS = "n_invalid_facts"


class Overlap(NamedTuple):
    """Ids of a table that should occur in another table: among the predictions, or those of ``intents`` among the labels."""

    role: str  # the table, by its role; ``intents``: the table of items, if it has the intents of labels
    kind: Literal["items", "users"]

    @property
    def column(self) -> str:
        """The column of its count: 0 if no id of a batch of users met another one. Only what makes a result counts it."""
        return f"{OVERLAP}{self.role}_{self.kind}"


#: How the names of such counts begin.
OVERLAP = "overlap_"


class CountNames(NamedTuple):
    """The names of the counts of users."""

    users: tuple[str, ...]  # counts of users
    rows: tuple[str, ...]  # counts of rows that cannot be ranked, which rows without a user have as well
    tables: tuple[str, ...] = ()  # the tables that have a fingerprint; their columns have the names of `hash_column`


def is_sum(name: str) -> bool:
    """Whether the column of a count adds up numbers instead of counting."""
    return any(count.is_sum for count in ALL_COUNTS if count.name == name)
