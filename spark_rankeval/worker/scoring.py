"""From a batch of grouped users to every metric of each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from spark_rankeval.metrics.batch import RankingBatch
from spark_rankeval.metrics.ragged import pieces
from spark_rankeval.metrics.ranking import Findings, Lists, rank_lists
from spark_rankeval.worker.reading import comparable, read_labels, read_predictions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spark_rankeval.metrics.ragged import Array, IntArray
    from spark_rankeval.worker.task import ScoringTask

# Users are worked in slices of about so many predictions, whatever the size of a batch: a slice's matrices stay in a
# core's cache, and memory stays bounded.
_SLICE = 1 << 17

#: The counts that stand beside the metrics of every user.
USER_COUNTS = ("n_predictions", "n_labels", "n_relevant", "hangs_on_tie")
INVALID_COUNTS = (
    "n_invalid_predictions",
    "n_invalid_labels",
    "n_duplicate_predictions",
    "n_duplicate_labels",
    "n_conflicting_labels",
)
COUNTS = (*USER_COUNTS, *INVALID_COUNTS)


class Scores(NamedTuple):
    """What was computed of some users.

    Attributes:
        metrics: float64 (n_users,), one a metric.
        counts: int64 (n_users,), one for each of `COUNTS`.
        unresolved: int64 (n_users,), 1 where a pruned list leaves a tie open.
    """

    metrics: list[Array]
    counts: list[Array]
    unresolved: IntArray


def score(task: ScoringTask, batch: pa.RecordBatch) -> Scores:
    """Compute every metric of every user of an Arrow batch."""
    columns = {name: batch.column(index) for index, name in enumerate(batch.schema.names)}
    predictions = read_predictions(task, columns)
    labels = read_labels(task, columns)
    items, label_items, order = comparable(predictions.ids, labels.ids)
    slices: list[tuple[RankingBatch, Findings]] = []
    item_lists, label_lists = predictions.lists.like(items), labels.lists.like(label_items)
    for start, stop in pieces(item_lists.offsets + label_lists.offsets, _SLICE):
        low, high = item_lists.offsets[start], item_lists.offsets[stop]
        lists = Lists(
            items=item_lists.users(start, stop),
            scores=None
            if predictions.values is None
            else predictions.lists.like(predictions.values).users(start, stop),
            labels=label_lists.users(start, stop),
            grades=None if labels.values is None else labels.lists.like(labels.values).users(start, stop),
            order=None if order is None else _part(order, low, high),
            matchable=None if predictions.present is None else predictions.present[low:high],
            n_predictions=None if predictions.total is None else predictions.total[start:stop],
        )
        slices.append(
            rank_lists(
                lists,
                ties=task.ties,
                duplicates=task.duplicates,
                largest_cutoff=task.largest_cutoff,
                conflicting=task.conflicting_labels,
                keep_label_order=task.needs_label_order,
                relevance_threshold=task.relevance_threshold,
                graded=task.sees_grades,
            )
        )
    if not slices:
        none = np.empty(0, np.int64)
        return Scores([np.empty(0)] * len(task.metrics), [none] * len(COUNTS), none)
    ranked = RankingBatch.concatenate([part for part, _ in slices])
    found = Findings(*map(np.concatenate, zip(*(findings for _, findings in slices), strict=True)))
    metrics = [metric.compute(ranked) for metric in task.metrics]
    counts = [
        ranked.n_predictions,
        ranked.labels.lengths,
        ranked.n_relevant(task.relevance_threshold),
        found.tied | found.cut,
        predictions.invalid,
        labels.invalid,
        found.duplicate_predictions + predictions.merged,
        found.duplicate_labels,
        found.conflicting_labels,
    ]
    return Scores(metrics, counts, found.cut)


def _part(order: Callable[[], Array], low: int, high: int) -> Callable[[], Array]:
    return lambda: order()[low:high]


def score_batches(
    task: ScoringTask, passed_on: tuple[str, ...], names: tuple[str, ...]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow``: the metrics and counts of every user.

    Args:
        task: what to compute.
        passed_on: columns that go through unchanged, first.
        names: the metrics' column names.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            scores = score(task, batch)
            kept = [batch.column(batch.schema.get_field_index(name)) for name in passed_on]
            columns = [*kept, *map(pa.array, scores.metrics), *map(pa.array, scores.counts)]
            yield pa.RecordBatch.from_arrays(columns, names=[*passed_on, *names, *COUNTS])

    return run
