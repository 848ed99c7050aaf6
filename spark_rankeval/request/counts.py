"""What is counted of every user beside the metrics, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_rankeval.request.task import ScoringTask

#: The column of a model's name in a per-user table on the way.
MODEL = "model"
#: What the column of a metric's normaliser is called, behind the metric's.
NORMALISER = "_normaliser"
#: The counts that stand beside the metrics of every user.
USER_COUNTS = (
    "n_predictions",
    "n_labels",
    "n_relevant",
    "hangs_on_tie",
    "n_excluded",
    "n_excluded_labels",
    "n_infinite_scores",
    "n_negative_grades",
    "left_out",
)
INVALID_COUNTS = (
    "n_invalid_predictions",
    "n_invalid_labels",
    "n_duplicate_predictions",
    "n_duplicate_labels",
    "n_conflicting_labels",
    "n_conflicting_attributes",
)
COUNTS = (*USER_COUNTS, *INVALID_COUNTS)
#: The column of a per-user table that repeats, for every user, how much of the tables of facts cannot be used; only where
#: metrics ask for facts.
UNUSABLE_FACTS = "n_invalid_facts"
#: What is added up of a user's labels where these have weights: those above the lowest limit, the weights, their squares.
WEIGHT_SUMS = ("n_clipped_labels", "label_weight", "squared_label_weight")


def counts_beside(task: ScoringTask) -> tuple[str, ...]:
    """The names of the counts that stand beside the metrics of every user of a task, in the order of their columns."""
    return (*COUNTS, *(WEIGHT_SUMS if task.weighted else ()), *((UNUSABLE_FACTS,) if task.facts else ()))
