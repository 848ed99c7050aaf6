"""The metrics of only the labels in a group of items, for each user and group with such a label."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_rankeval.request.task import is_about_labels
from spark_rankeval.worker.reading import flags

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spark_rankeval.metrics.base import Metric
    from spark_rankeval.ranking.batch import RankingBatch
    from spark_rankeval.ranking.ragged import Array, BoolArray, IntArray
    from spark_rankeval.request.task import View
    from spark_rankeval.worker.item_groups import GroupTables, Pairs


@dataclass
class ScoresOfPairs:
    """The values of pairs of a user and a group of an attribute of items; float64 (n_pairs,) each, as in `Scores`."""

    keys: dict[str, pa.Array]  # the columns that tell the groups apart
    user: IntArray  # int64, the user of each pair
    values: list[Array] = field(default_factory=list)
    beside: list[Array] = field(default_factory=list)
    normalisers: dict[int, Array] = field(default_factory=dict)

    def add(self, view: View, pairs: Pairs, included: BoolArray) -> None:
        """Add the metrics of a view; users who are not included have NaN."""
        is_in = included[pairs.user]
        for place, metric in enumerate(view.metrics, len(self.values)):
            if metric.normalises and is_about_labels(metric):
                self.normalisers[place] = np.where(is_in, metric.normaliser(pairs.batch), 0.0)
            elif metric.normalises:
                self.normalisers[place] = np.zeros(len(is_in))
        self.values += self._of_metrics(view.metrics, pairs, is_in)
        self.beside += self._of_metrics(view.beside, pairs, is_in)

    def where(self, keep: BoolArray) -> ScoresOfPairs:
        """These of the pairs."""
        kept = pa.array(keep)
        return ScoresOfPairs(
            {name: column.filter(kept) for name, column in self.keys.items()},
            self.user[keep],
            [values[keep] for values in self.values],
            [values[keep] for values in self.beside],
            {place: values[keep] for place, values in self.normalisers.items()},
        )

    @staticmethod
    def _of_metrics(metrics: Sequence[Metric], pairs: Pairs, is_in: BoolArray) -> list[Array]:
        """What the metrics say; of metrics that look at more than labels, nothing."""
        return [
            np.where(is_in, metric.compute(pairs.batch), np.nan)
            if is_about_labels(metric)
            else np.full(len(is_in), np.nan)
            for metric in metrics
        ]


@dataclass
class ScoresOfGroups:
    """The values of the groups of all attributes of items, of a batch of users."""

    tables: GroupTables
    places: Mapping[str, Array]  # of the labels as they came, as of `GroupTables.beside`
    attributes: list[ScoresOfPairs] = field(default_factory=list)

    def add(self, view: View, batch: RankingBatch, included: BoolArray) -> None:
        """Add the metrics of a view, from its rankings; the labels, and so the pairs, are those of every other view."""
        for place, pairs in enumerate(self.tables.pairs(batch, self.places)):
            if place == len(self.attributes):
                self.attributes.append(ScoresOfPairs(self.tables.keys(place, pairs.group), pairs.user))
            self.attributes[place].add(view, pairs, included)

    def batches(self, users: pa.RecordBatch, no_user: str) -> Iterator[tuple[pa.RecordBatch, ScoresOfPairs]]:
        """What tells about the users of each attribute's pairs, with the keys of their groups, and the values of the pairs.

        Rows of nobody have no pairs: what is wrong with them is counted among all.
        """
        keys = set(self.tables.no_keys(0))
        columns = [
            name for name in users.schema.names if name not in keys and not _is_of_rows(users.schema.field(name))
        ]
        nobody = flags(users.column(no_user))
        for whole in self.attributes:
            scores = whole.where(~nobody[whole.user]) if nobody.any() else whole
            rows = users.select(columns).take(pa.array(scores.user))
            arrays = [*rows.columns, *scores.keys.values()]
            yield pa.RecordBatch.from_arrays(arrays, names=[*columns, *scores.keys]), scores


def _is_of_rows(column: pa.Field) -> bool:
    """Whether a column holds lists, or bytes of tables; they are read already."""
    return pa.types.is_nested(column.type) or pa.types.is_binary(column.type) or pa.types.is_large_list(column.type)
