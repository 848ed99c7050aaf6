"""Whether a plan leaves predictions below the largest cutoff out early, and why or why not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_rankeval.errors import listed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_rankeval.metrics.base import Metric
    from spark_rankeval.request.options import Lookup
    from spark_rankeval.request.task import ScoringTask
    from spark_rankeval.spark.engines import Engine
    from spark_rankeval.spark.list_lengths import ListLengths
    from spark_rankeval.spark.prediction_lists import Gathering
    from spark_rankeval.spark.source import Source

# More predictions than the cutoff are kept, so that equal scores at the boundary nearly always stay together.
_SLACK = 8
# Spark's max_by and min_by keep no more.
_MOST_KEPT = 100_000
# A reason names so many metrics, and counts the others.
_MOST_LISTED = 3


@dataclass(frozen=True)
class Plan:
    """How a user's predictions are brought together."""

    gathering: Gathering  # the way, of those that `grouping` knows
    keep: int  # how many predictions a user keeps at the most; 0: all
    words: tuple[str, ...]  # the same for a person, a sentence each
    lookup: Lookup = "join"  # how facts of items come to predictions


def choose_plan(
    task: ScoringTask,
    metrics: Mapping[str, Metric],
    predictions: Source,
    prune: str,
    engine: Engine,
    exact: bool,
    excludes: bool,
    lengths: ListLengths | None = None,
    each_row_is_both: bool = False,
) -> Plan:
    """Choose how predictions are brought together.

    With `exact` every user's value must be right at once; else a few may be seen to be unresolved, and computed again. If `excludes`,
    items will be left out of the predictions, so that others move up. With `lengths`, short lists are not cut. If `each_row_is_both`,
    labels are in the rows of the predictions.
    """
    cutoff = task.largest_cutoff
    if predictions.vectors is not None:
        all_items = "Every item of the catalogue is ranked for each user, by scores from vectors; no table of predictions is made."
        return Plan("all", 0, (all_items,))
    if predictions.arrays:
        return _plan_for_arrays(task, predictions, prune, excludes)
    obstacle = _obstacle(task, metrics, prune, excludes, each_row_is_both)
    if obstacle is None and not (engine.keeps_best or engine.sorts_cheaply):
        obstacle = f"{engine.name} {engine.version} would sort them to keep the best, which costs more."
    if obstacle is not None or cutoff is None:
        return Plan("all", 0, (f"All predictions of a user are grouped: {obstacle}",))
    keep = cutoff + _SLACK
    if lengths is not None and lengths.are_short(keep):
        short = (
            f"All predictions of a user are grouped: {lengths.words}, and to keep only the best {keep} would cost more."
        )
        return Plan("all", 0, (short,))
    words = [f"A user keeps the best {keep} predictions while rows are grouped: the largest cutoff is {cutoff}."]
    if any(view.ranking.duplicates == "keep_best" for view in task.views):
        words.append("Duplicates are merged first, by user and item within the same shuffle.")
    gathering: Gathering
    if not engine.keeps_best:
        gathering = "window"
        words.append(
            f"{engine.name} {engine.version} sorts a user's predictions for that (window); Spark 4.2 needs no sort."
        )
    elif exact:
        gathering = "best_by_score_and_item"
        words.append("They are kept by score and item, which settles every tie (min_by).")
    else:
        gathering = "best_by_score"
        words.append(
            "They are kept by score (max_by). If equal scores at that boundary leave a user's value open, this user is computed "
            "again and keeps the best by score and item."
        )
    return Plan(gathering, keep, tuple(words))


def _plan_for_arrays(task: ScoringTask, predictions: Source, prune: str, excludes: bool) -> Plan:
    cutoff = task.largest_cutoff
    words = ["Predictions come as arrays, a user's whole list in a row: nothing is brought together."]
    # What takes the place of an item that is left out must be there.
    moves_up = excludes or any(
        view.ranking.duplicates == "keep_best" or view.ranking.unpredicted_labels == "last" or view.ranking.judged_only
        for view in task.views
    )
    reads_all = predictions.has_value or prune == "never" or moves_up
    if reads_all or cutoff is None:
        return Plan("all", 0, tuple(words))
    words.append(
        f"Only the first {cutoff} items of a user's array are read: that is the largest cutoff; duplicates and nulls further "
        "down are not counted."
    )
    return Plan("first", cutoff, tuple(words))


def _obstacle(
    task: ScoringTask, metrics: Mapping[str, Metric], prune: str, excludes: bool, each_row_is_both: bool
) -> str | None:
    """Why predictions cannot be left out, or None."""
    whole = [label for label, metric in metrics.items() if metric.reads.depth is None]
    averaging = [label for label, metric in metrics.items() if metric.reads.scores]
    rankings = [view.ranking for view in task.views]
    ties = next((ranking.ties for ranking in rankings if ranking.ties != "item_asc"), None)
    obstacles = {
        "prune='never' was asked for.": prune == "never",
        "labels are in the same rows, and none of them may be missing.": each_row_is_both,
        f"the cutoff {task.largest_cutoff} is too large to leave any out.": (task.largest_cutoff or 0) + _SLACK
        > _MOST_KEPT,
        f"{_subject(whole, 'looks', 'look')} at whole lists, without a cutoff.": bool(whole),
        f"{_subject(averaging, 'is', 'are')} averaged over the orders of equal scores, of which none may be missing.": bool(
            averaging
        ),
        "items are left out of them (exclude=), and others move up.": excludes,
        f"ties={ties!r} needs them.": ties is not None,
        "items without a label are left out of them (judged_only), and others move up.": any(
            r.judged_only for r in rankings
        ),
        "scores compare as float32 in this dialect.": any(r.score_precision == "float32" for r in rankings),
        "this dialect ranks the union of predicted and labelled items.": any(
            r.unpredicted_labels == "last" for r in rankings
        ),
        "each of equal items counts in this dialect.": any(r.duplicates == "each" for r in rankings),
    }
    return next((words for words, met in obstacles.items() if met), None)


def _subject(labels: list[str], one: str, several: str) -> str:
    """The subject and the verb of a sentence about metrics."""
    return f"{listed(labels, _MOST_LISTED)} {several if len(labels) > 1 else one}"
