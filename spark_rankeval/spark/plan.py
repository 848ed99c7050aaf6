"""Whether a plan leaves predictions below the largest cutoff out early, and why or why not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_rankeval.metrics.base import Metric
    from spark_rankeval.spark.grouping import Gathering
    from spark_rankeval.spark.inputs import Source
    from spark_rankeval.worker.scoring import ScoringTask

# More predictions than the cutoff are kept, so that equal scores at the boundary nearly always stay together.
_SLACK = 12


@dataclass(frozen=True)
class Plan:
    """How a user's predictions are brought together.

    Attributes:
        gathering: the way, of those that `grouping` knows.
        keep: how many predictions a user keeps at the most; 0: all.
        words: the same for a person, a sentence each.
    """

    gathering: Gathering
    keep: int
    words: tuple[str, ...]


def choose_plan(
    task: ScoringTask, metrics: dict[str, Metric], predictions: Source, prune: str, spark_version: str, exact: bool
) -> Plan:
    """Choose how predictions are brought together.

    Args:
        task: what is computed.
        metrics: the metrics by label, for the words.
        predictions: the table.
        prune: ``auto`` or ``never``.
        spark_version: as ``spark.version``.
        exact: every user's value must be right at once; else a few may be seen to be unresolved, and computed again.
    """
    cutoff = task.largest_cutoff
    whole_arrays = "Predictions come as arrays, a user's whole list in a row: nothing is brought together."
    in_order = predictions.arrays and not predictions.has_value
    if in_order and prune == "auto" and cutoff is not None and task.duplicates != "keep_best" and not exact:
        words = (
            f"Only the first {cutoff} items of a user's array are read: that is the largest cutoff; duplicates further down are not "
            "counted. If an array holds a null, the evaluation runs again and reads whole arrays.",
        )
        return Plan("first", cutoff, (whole_arrays, *words))
    if predictions.arrays:
        return Plan("all", 0, (whole_arrays,))
    if prune == "never":
        return Plan("all", 0, ("All predictions of a user are grouped: prune='never' was asked for.",))
    if cutoff is None:
        whole = [label for label, metric in metrics.items() if metric.needs_whole_list]
        return Plan("all", 0, (f"All predictions of a user are grouped: {_listed(whole)} without a cutoff.",))
    if task.ties != "item_asc":
        return Plan("all", 0, (f"All predictions of a user are grouped: ties={task.ties!r} needs them.",))
    if task.duplicates == "each":
        return Plan("all", 0, ("All predictions of a user are grouped: each of equal items counts in this dialect.",))
    keep = cutoff + _SLACK
    words = [f"A user keeps the best {keep} predictions while rows are grouped: the largest cutoff is {cutoff}."]
    if task.duplicates == "keep_best":
        words.append("Duplicates are merged first, by user and item within the same shuffle.")
    if _version(spark_version) < (4, 2):
        words.append(f"Spark {spark_version} sorts a user's predictions for that (window); Spark 4.2 and later need no sort.")
        return Plan("window", keep, tuple(words))
    if exact:
        words.append("They are kept by score and item, which settles every tie (min_by).")
        return Plan("best_by_score_and_item", keep, tuple(words))
    words.append(
        "They are kept by score (max_by); if equal scores at that boundary leave a user's value open, "
        "the evaluation runs again and keeps by score and item."
    )
    return Plan("best_by_score", keep, tuple(words))


def _listed(labels: list[str]) -> str:
    shown = ", ".join(labels[:3]) + (f" and {len(labels) - 3} more" if len(labels) > 3 else "")
    return f"{shown} look at whole lists," if len(labels) > 1 else f"{shown} looks at whole lists,"


def _version(text: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)
