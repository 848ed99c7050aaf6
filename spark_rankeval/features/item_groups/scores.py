"""The metrics of only the labels in a group of items, for each user and group with such a label."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_rankeval.metrics.group_rates import GroupShare
from spark_rankeval.ranking.recommended import Recommended
from spark_rankeval.request.task import is_about_labels
from spark_rankeval.worker.reading import flags

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_rankeval.features.item_groups.tables import GroupTables, Pairs
    from spark_rankeval.metrics.base import Metric
    from spark_rankeval.ranking.batch import RankingBatch
    from spark_rankeval.ranking.ragged import Array, BoolArray, IntArray
    from spark_rankeval.request.task import View


@dataclass
class ScoresOfPairs:
    """The values of pairs of a user and a group of an attribute of items; float64 (n_pairs,) each, as in `Scores`."""

    keys: dict[str, pa.Array]  # the columns that tell the groups apart
    user: IntArray  # int64, the user of each pair
    values: list[Array] = field(default_factory=list)
    beside: list[Array] = field(default_factory=list)
    normalisers: dict[int, Array] = field(default_factory=dict)

    def add(self, view: View, ranked: RankedPairs, included: BoolArray) -> None:
        """Add the metrics of a view; users who are not included have NaN."""
        is_in = included[self.user]
        for place, metric in enumerate(view.metrics, len(self.values)):
            if metric.normalises:
                self.normalisers[place] = np.where(is_in, ranked.normaliser(metric), 0.0)
        for computed, metrics in ((self.values, view.metrics), (self.beside, view.beside)):
            of_metrics = [ranked.values(metric) for metric in metrics]
            computed.extend(of_metrics if is_in.all() else [np.where(is_in, values, np.nan) for values in of_metrics])

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


@dataclass
class RankedPairs:
    """What a view says of the users and groups of an attribute of items.

    If any metric is a share of a group, there is a pair of every user with every group; else only of those with a label.
    """

    pairs: Pairs
    n_groups: int
    recommended: Recommended | None = None  # the items of the lists, if any metric is a share of a group
    # Which of these items are in which groups: an entry for each membership.
    memberships: tuple[IntArray, IntArray] = (np.zeros(0, np.int64), np.zeros(0, np.int64))

    def whole(self, values: Array, missing: float) -> Array:
        """Values of the pairs with a label as those of all pairs; the others have the missing value."""
        if self.recommended is None:
            return values
        every = np.full(self.recommended.n_users * self.n_groups, missing)
        every[self.pairs.user * self.n_groups + self.pairs.group] = values
        return every

    def values(self, metric: Metric) -> Array:
        """The values of a metric; NaN of metrics that look at more than labels, unless they are shares of a group."""
        if isinstance(metric, GroupShare) and self.recommended is not None:
            return metric.of_groups(self.recommended, *self.memberships, self.n_groups)
        values = metric.compute(self.pairs.batch) if is_about_labels(metric) else np.full(len(self.pairs.user), np.nan)
        return self.whole(values, np.nan)

    def normaliser(self, metric: Metric) -> Array:
        """The weights of these values."""
        none = np.zeros(len(self.pairs.user))
        return self.whole(metric.normaliser(self.pairs.batch) if is_about_labels(metric) else none, 0.0)


@dataclass
class ScoresOfGroups:
    """The values of the groups of all attributes of items, of a batch of users."""

    tables: GroupTables
    places: Mapping[str, Array]  # of the labels as they came, as of `GroupTables.places`
    has_shares: bool = False  # whether any metric is a share of a group
    attributes: list[ScoresOfPairs] = field(default_factory=list)

    def add(self, view: View, batch: RankingBatch, included: BoolArray, items: pa.Array) -> None:
        """Add the metrics of a view, from its rankings; `items` are those of ``batch.recommended``, if there are any.

        The labels, and so the pairs, are those of every other view.
        """
        for place, pairs in enumerate(self.tables.pairs(batch, self.places)):
            n_groups = len(self.tables.attributes[place].names)
            user, group = pairs.user, pairs.group
            ranked = RankedPairs(pairs, n_groups)
            if self.has_shares:
                user, group = np.divmod(np.arange(batch.n_users * n_groups), n_groups)
                recommended = Recommended.none(batch.n_users) if batch.recommended is None else batch.recommended
                ranked = RankedPairs(pairs, n_groups, recommended, self.tables.memberships(place, items))
            if place == len(self.attributes):
                self.attributes.append(ScoresOfPairs(self.tables.keys(place, group), user))
            self.attributes[place].add(view, ranked, included)

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
    return bool(pa.types.is_nested(column.type) or pa.types.is_binary(column.type))
