"""From a batch of grouped users to every metric of each of them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from spark_rankeval.metrics.batch import RankingBatch
from spark_rankeval.metrics.matching import contained
from spark_rankeval.metrics.ranking import Findings, Lists, rank_lists
from spark_rankeval.worker.reading import comparable, read_excluded, read_labels, read_predictions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spark_rankeval.metrics.ragged import Array, IntArray
    from spark_rankeval.worker.task import ScoringTask, View

# Users are worked in slices of about so many predictions, whatever the size of a batch: a slice's matrices stay in a
# core's cache, and memory stays bounded.
_SLICE = 1 << 17

#: The counts that stand beside the metrics of every user.
USER_COUNTS = ("n_predictions", "n_labels", "n_relevant", "hangs_on_tie", "n_excluded")
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
        metrics: float64 (n_users,), one a metric: those of the first view, of the second, and so on.
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
    excluded = read_excluded(columns)
    (items, label_items, *excluded_items), order = comparable(
        predictions.ids, labels.ids, *([] if excluded is None else [excluded.ids])
    )
    lists = Lists(
        items=predictions.lists.like(items),
        scores=predictions.lists.like(predictions.values[0]) if predictions.values else None,
        labels=labels.lists.like(label_items),
        order=order,
        matchable=predictions.present,
        n_predictions=predictions.total,
    )
    n_excluded = np.zeros(lists.items.n_users, np.int64)
    if excluded is not None:
        left_out = contained(lists.items, excluded.lists.like(excluded_items[0]))
        n_excluded = np.bincount(lists.items.user[left_out], minlength=lists.items.n_users)
        lists = lists.where(~left_out)
    parts = list(_slices(lists))
    metrics: list[Array] = []
    ranked: list[tuple[RankingBatch, Findings]] = []
    for view in task.views:
        grades = labels.lists.like(labels.values[view.relevance]) if labels.values else None
        ranked.append(_rank(view, replace(lists, grades=grades), parts))
        metrics += _compute(view, ranked[-1][0])
    own, found = ranked[0]
    threshold = task.views[0].relevance_threshold
    counts = [
        own.n_predictions - found.unpredicted,
        own.labels.lengths,
        own.n_relevant(threshold),
        np.minimum(found.tied + found.cut, 1),
        n_excluded,
        predictions.invalid,
        labels.invalid,
        found.duplicate_predictions + predictions.merged,
        np.minimum.reduce([findings.duplicate_labels for _, findings in ranked]),
        np.maximum.reduce([findings.conflicting_labels for _, findings in ranked]),
    ]
    return Scores(metrics, counts, np.maximum.reduce([findings.cut for _, findings in ranked]))


def _rank(view: View, lists: Lists, parts: list[tuple[int, int]]) -> tuple[RankingBatch, Findings]:
    """All users' rankings, made slice by slice."""
    slices = [
        rank_lists(
            lists.users(start, stop),
            view.ranking,
            largest_cutoff=view.largest_cutoff,
            keep_label_order=view.needs_label_order,
            relevance_threshold=view.relevance_threshold,
            sees=view.sees,
        )
        for start, stop in parts
    ]
    batch = RankingBatch.concatenate([part for part, _ in slices])
    return batch, Findings(*map(np.concatenate, zip(*(findings for _, findings in slices), strict=True)))


def _compute(view: View, batch: RankingBatch) -> list[Array]:
    """The metrics of a view, NaN for users that it is not about."""
    values: list[Array] = [metric.compute(batch) for metric in view.metrics]
    included = view.population.includes(batch)
    return values if included.all() else [np.where(included, one, np.nan) for one in values]


def _slices(lists: Lists) -> Iterator[tuple[int, int]]:
    """Consecutive users whose lists together have about `_SLICE` entries; one user at least, none of an empty batch."""
    n_users = lists.items.n_users
    piece = (lists.items.offsets + lists.labels.offsets)[:-1] // _SLICE
    bounds = np.flatnonzero(np.diff(piece)) + 1
    edges = [0, *bounds.tolist(), n_users]
    yield from itertools.pairwise(edges)


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
