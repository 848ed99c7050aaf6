"""Whether a plan leaves predictions below the largest cutoff out early, why or why not, and how long lists are, from a sample of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pyspark.errors import PySparkException

from spark_rankeval.errors import listed
from spark_rankeval.metrics.base import Metric
from spark_rankeval.ranking.ragged import BoolArray, IntArray
from spark_rankeval.request.options import Lookup
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.spark.ids import hash_in
from spark_rankeval.spark.platforms import Engine, bytes_of_plain_scan, collected_columns
from spark_rankeval.spark.prediction_lists import Gathering
from spark_rankeval.spark.source import SourceTable
from spark_rankeval.spark.sql_text import (
    Sql,
    bits_and,
    call,
    named,
    number,
    row_of_partition,
    rows_of_all,
    select,
    where,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
    predictions: SourceTable,
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


def _plan_for_arrays(task: ScoringTask, predictions: SourceTable, prune: str, excludes: bool) -> Plan:
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


# One list of so many is drawn with all rows, and one row of so many, whoever's it is. Both are powers of two.
_USUAL_SHARE, _LARGEST_SHARE = 1 << 8, 1 << 14
# Of larger tables less is drawn, because the driver counts the rows: the share is their bytes over this.
_BYTES = 1 << 22
# A task draws no more rows. Once one has drawn so many, nothing is said.
_MOST_OF_TASK = 1 << 18
# Keeping the best of each list pays if they are longer than about so many times what is kept.
_SHORT = 2.5
# Spark holds a list in memory while it grows, with some 100 bytes a prediction.
_LONGEST = 200_000
# Files of so many bytes hold no list that is too long for memory.
_SMALL = 1 << 20
_LIST, _IS_DRAWN, _PLACE = "list_", "is_drawn_", "place_"


class ListLengths(NamedTuple):
    """What a sample says of users' lists."""

    n_lists: int  # lists drawn; 0: the tables are small
    mean: float  # rows of a drawn list
    longest: int  # about the most rows of any list, if these are some thousands

    def are_short(self, keep: int) -> bool:
        """Whether grouping whole lists costs less than to keep the best `keep` of each, and fits into memory."""
        return self.mean <= _SHORT * keep and self.longest <= _LONGEST

    @property
    def words(self) -> str:
        """How long they are, for a person."""
        if not self.n_lists:
            return "the table is small"
        return f"lists are short ({self.mean:,.1f} predictions on average, in a sample of {self.n_lists:,})"


def sampled_lengths(models: Sequence[SourceTable], model_column: str | None = None) -> ListLengths | None:
    """The lengths of users' lists, from one job that reads the users of the tables; None if that might be expensive.

    A table is cheap to read if its plan scans files or a cached table, and does nothing else. Any other would be computed twice. Of
    small tables no list is drawn: they fit into memory, whatever their lists are.
    """
    sources = list({id(source.frame): source for source in models}.values())
    sizes = [size for source in sources if (size := bytes_of_plain_scan(source.frame)) is not None]
    if len(sizes) < len(sources):
        return None
    if sum(sizes) <= _SMALL:
        return ListLengths(0, 0.0, 0)
    share = share_of(sum(sizes))
    rows = [_lists_of_rows(source, place, model_column) for place, source in enumerate(sources)]
    try:
        # The driver counts: to group so few rows in Spark would take two stages more.
        drawn = collected_columns(_drawn(rows_of_all(rows), share))
    except PySparkException:
        # Too much for the driver; or what cannot be read, which the evaluation says better.
        return None
    is_cut = drawn[_PLACE].max(initial=0) == _MOST_OF_TASK - 1
    return None if is_cut else lengths_of(drawn[_LIST], drawn[_IS_DRAWN], share)


def lengths_of(lists: IntArray, is_drawn: BoolArray, share: int) -> ListLengths | None:
    """What a sample says, which has the hash of each row's list, and whether the row is drawn itself; None if no list is drawn.

    One list of `share` is drawn, and one row of `share`.
    """
    whole = lists[lists & (share - 1) == 0]
    n_lists = len(np.unique(whole))
    most_drawn = int(np.unique(lists[is_drawn], return_counts=True)[1].max(initial=0))
    return ListLengths(n_lists, len(whole) / n_lists, most_drawn * share) if n_lists else None


def share_of(n_bytes: int) -> int:
    """Of how many lists of tables of so many bytes one is drawn."""
    return min(max(_USUAL_SHARE, 1 << (n_bytes // _BYTES).bit_length()), _LARGEST_SHARE)


def _lists_of_rows(source: SourceTable, place: int, model_column: str | None) -> DataFrame:
    """The hash of the list that each row of a table is of."""
    keys = [*source.user, *([] if model_column is None else [model_column])]
    return select(source.frame, call("xxhash64", hash_in(source.frame, keys), number(place)).alias(_LIST))


def _drawn(rows: DataFrame, share: int) -> DataFrame:
    """The rows that are drawn, or whose list is: the hash of their list, whether they are drawn themselves, and their place in the task."""
    numbered = select(rows, named(_LIST), _is_one_of(share, call("monotonically_increasing_id")).alias(_IS_DRAWN))
    drawn = where(numbered, named(_IS_DRAWN) | _is_one_of(share, named(_LIST)))
    placed = select(drawn, named(_LIST), named(_IS_DRAWN), row_of_partition().alias(_PLACE))
    return where(placed, named(_PLACE) < _MOST_OF_TASK)


def _is_one_of(share: int, whole_number: Sql) -> Sql:
    return bits_and(whole_number, share - 1) == 0
