"""The order of rows of equal score if rows name no item, as a feature of a task. What rows say decides it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pyarrow as pa

from spark_rankeval.ranking.lists import RawLists
from spark_rankeval.ranking.ragged import Array
from spark_rankeval.request.task import ScoringTask, View
from spark_rankeval.worker.grouped_row import COSTS, SCORES, hash_column
from spark_rankeval.worker.process import with_columns
from spark_rankeval.worker.reading import Side, columns_of, hashes_of_predictions
from spark_rankeval.worker.scored_features import BatchFeature, PartitionFeature, ScoringFeature


@dataclass(frozen=True)
class NumberedRows(ScoringFeature):
    """Items are numbers of rows, which no two rows share, and which say nothing else."""

    def begin(self, task: ScoringTask) -> PartitionFeature:
        """The order of rows for a partition."""
        return _RowsOfPartition()


class _RowsOfPartition(PartitionFeature):
    def parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The batch with hashes of predictions that do not have the numbers of rows, which may differ each time."""
        hashes = hashes_of_predictions(columns_of(batch), (SCORES, COSTS))
        yield with_columns(batch, {hash_column("predictions"): hashes})

    def read(self, columns: Mapping[str, pa.Array], labels: Side, excluded: Side | None) -> BatchFeature:
        return _RowsOfBatch(labels.values)


class _RowsOfBatch(BatchFeature):
    def __init__(self, label_values: Sequence[Array]) -> None:
        self._label_values = label_values

    def lists_of(self, lists: RawLists, view: View) -> RawLists:
        order = order_of_rows(lists.items.values, lists.labels.values, self._label_values, lists.costs)
        return replace(lists, order=order)


def order_of_rows(
    predictions: Array, labels: Array, label_values: Sequence[Array], costs: Array | None
) -> Callable[[Array], Array]:
    """What maps numbers of rows to their order: unlabelled rows first, then by grades, weight and cost, from the lowest on.

    Rows that are equal in all of these have one place, as they can change places without a change of any value. Nothing is computed
    unless scores are equal.
    """

    @cache
    def sorted_labels() -> tuple[Array, Array]:
        group = np.zeros(len(labels), np.int64)
        for values in label_values:
            # A missing grade is the lowest.
            distinct, code = np.unique(np.where(np.isnan(values), -np.inf, values), return_inverse=True)
            group = np.unique(group * len(distinct) + code, return_inverse=True)[1]
        by_number = np.argsort(labels)
        return labels[by_number], group[by_number] + 1

    @cache
    def sorted_costs() -> tuple[Array, Array, int]:
        distinct, code = np.unique(np.zeros(0) if costs is None else costs, return_inverse=True)
        by_number = np.argsort(predictions)
        return predictions[by_number], code[by_number], len(distinct)

    def order(rows: Array) -> Array:
        if not rows.size:
            return rows
        place = _looked_up(rows, *sorted_labels())
        if costs is not None:
            *cost_of_row, n_costs = sorted_costs()
            place = place * n_costs + _looked_up(rows, *cost_of_row)
        return place

    return order


def _looked_up(rows: Array, numbers: Array, values: Array) -> Array:
    """The values of rows by their numbers, which are sorted; 0 for others."""
    if not len(numbers):
        return np.zeros(rows.shape, np.int64)
    index = np.minimum(np.searchsorted(numbers, rows), len(numbers) - 1)
    return np.where(numbers[index] == rows, values[index], 0)
