"""Metrics that use the gain of an ideal list."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from spark_rankeval.errors import MetricError
from spark_rankeval.metrics.base import Reads, Unset, parameter, ratio
from spark_rankeval.metrics.expected_ties import chance_of_one, summed_over_places
from spark_rankeval.metrics.gain_based import DiscountedMetric
from spark_rankeval.metrics.gains import GAINS
from spark_rankeval.metrics.hypergeometric import draws
from spark_rankeval.ranking.batch import is_relevant
from spark_rankeval.ranking.ragged import FloatArray, IntArray, position_within
from spark_rankeval.ranking.ties import tied_groups, tied_hits

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_rankeval.ranking.batch import RankingBatch

# An ideal of k gains is a sum over k ranks, even if all lists are short.
_MOST_ONES = 1_000_000

__all__ = ["IDCG", "NDCG"]


@dataclass(frozen=True, kw_only=True)
class IdealMetric(DiscountedMetric):
    """A metric of discounted gain that uses the gain of an ideal list.

    The ideal ``label_order`` is MLlib's: the raw labels in the order given, cut at min(k, γ). With it, negative grades
    have negative gain.
    """

    ideal: str | Unset = parameter(
        "retrieved",
        choices=("retrieved", "labels", "k_ones", "label_order"),
        doc="the list's first k in best order, all labels best first, k gains of 1, or MLlib's raw label order",
    )

    def _check_together(self) -> None:
        if self.ideal == "k_ones" and not 1 <= (self.k or 0) <= _MOST_ONES:
            msg = f"{self.name}: ideal='k_ones' needs a cutoff of at most {_MOST_ONES:,}; write {self.name}(ideal='k_ones')@10"
            raise MetricError(msg)
        graded = self.gain is not Unset.UNSET and self.gain != "binary"
        if self.averages_ties and self.ideal == "retrieved" and self.k is not None and graded:
            msg = (
                f"{self.name}@{self.k}: ties='average' with ideal='retrieved' and graded gain has no closed form, because tied "
                f"items at the cutoff change the ideal too. Use ideal='labels', as in \"{self.name}(ideal='labels', "
                f"ties='average')@{self.k}\", or gain='binary', or no cutoff"
            )
            raise MetricError(msg)

    @property
    def reads(self) -> Reads:
        """MLlib's order reads every label, because negative grades have negative gain."""
        return super().reads.but(items="label", label_order=True) if self.ideal == "label_order" else super().reads

    def _gain_of(self, grade: FloatArray) -> FloatArray:
        if self.ideal != "label_order" or self._is_binary:
            return super()._gain_of(grade)
        gain = GAINS[str(self.gain)](grade)
        return np.where(is_relevant(grade, self.threshold), gain, 0) if self.below_threshold == "zero" else gain

    def _gain_key(self) -> tuple[object, ...]:
        return (self.ideal == "label_order", *super()._gain_key())

    @property
    def needed_grade(self) -> float | None:
        """MLlib's order needs any label."""
        return -math.inf if self.ideal == "label_order" else super().needed_grade

    def _idcg(self, batch: RankingBatch) -> FloatArray:
        key = ("idcg", self.ideal, self.k, self.discount, *self._gain_key())
        match self.ideal:
            case "labels":
                return batch.remember(key, lambda: self._best_labels(batch))
            case "k_ones":
                # Added up like the gains of a list, so that a perfect list has exactly 1.
                return np.full(batch.n_users, self._discount.summed_up_to(self.k or 0)[-1])
            case "label_order":
                return batch.remember(key, lambda: self._label_order(batch))
            case _:
                return batch.remember(key, lambda: self._retrieved(batch))

    def _best_labels(self, batch: RankingBatch) -> FloatArray:
        """DCG@k of all labels, best first."""
        key, labels = self._gain_key(), batch.labels_by_grade()
        gains = batch.remember(("gains of labels", *key), lambda: self._gain_of(labels.values))

        def count() -> IntArray | None:
            if not _are_binary(gains):
                return None
            return np.bincount(labels.user[np.flatnonzero(gains)], minlength=batch.n_users)

        n_gaining = batch.remember(("gaining labels", *key), count)
        if n_gaining is not None:
            # Those with gain come first, and the others add nothing.
            return self._discount.summed(n_gaining if self.k is None else np.minimum(n_gaining, self.k))
        rank = batch.label_rank()
        worth = batch.remember(("worth of labels", self.discount, *key), lambda: gains * self._discount(rank))
        return batch.total(labels.user, worth, None if self.k is None else rank <= self.k)

    def _retrieved(self, batch: RankingBatch) -> FloatArray:
        gains = self._gains(batch)

        def best_first() -> IntArray:
            # Sorted by user first, so that users stay in place and only a user's own items are reordered.
            return np.lexsort((-gains, batch.user))

        within = batch.within(self.k)
        if batch.remember(("binary", *self._gain_key()), lambda: _are_binary(gains)):
            # Gains of 0 and 1 need no sort: the ones take the first places, and the zeros add nothing.
            gaining = np.flatnonzero(gains == 1 if within is None else (gains == 1) & within)
            return self._discount.summed(np.bincount(batch.user[gaining], minlength=batch.n_users))
        order = batch.remember(("best first", *self._gain_key()), best_first)
        kept = order if within is None else order[within[order]]
        user, gain = batch.user[kept], gains[kept]
        ideal_rank = position_within(user, batch.n_users) + 1
        return batch.total(user, gain * self._discount(ideal_rank))

    def _mean_over_retrieved(
        self, batch: RankingBatch, value: Callable[[FloatArray, FloatArray], FloatArray]
    ) -> FloatArray:
        """The mean of `value(dcg, idcg)` over all orders of tied items, for binary gains in the first k places."""
        groups = tied_hits(batch, self.threshold)
        within = groups.places_within(self.k)
        cut = (within > 0) & (within < groups.size)
        total = summed_over_places(within, lambda group, j: self._discount(groups.above[group] + j))
        gained = batch.total(groups.user, groups.held / groups.size * total, ~cut)
        values = value(gained, self._idcg(batch))
        # If k cuts a group, the value depends on how many hits come before the cut; these hits are in random order.
        split, discount = groups.where(cut), (total / within.clip(1))[cut]
        top = draws(split.size, split.held, within[cut])
        n_hits = split.held_above[top.case] + top.marked
        expected = gained[split.user][top.case] + top.marked * discount[top.case]
        values[split.user] = top.expected(value(expected, self._discount.summed(n_hits)))
        return values

    def _label_order(self, batch: RankingBatch) -> FloatArray:
        raw = batch.labels_as_given
        if raw is None:
            msg = f"{self.name}: ideal='label_order' needs labels as ordered lists; use ideal='labels'"
            raise MetricError(msg)
        rank = position_within(raw.user, batch.n_users) + 1
        distinct = batch.labels.lengths
        end = distinct if self.k is None else np.minimum(distinct, self.k)
        within = rank <= end[raw.user]
        return batch.total(raw.user[within], self._gain_of(raw.values[within]) * self._discount(rank[within]))


def _are_binary(gains: FloatArray) -> bool:
    return bool(((gains == 0) | (gains == 1)).all())


@dataclass(frozen=True, kw_only=True)
class IDCG(IdealMetric):
    """The DCG@k of the ideal list, the denominator of NDCG: Σ_{j≤k} of the ideal gains times d(j). From 0 up.

    NaN without a label above 0. Like every metric of gain, it is 0 without predictions or without gain in the first k
    places, whichever ideal is chosen. With ``ties="average"`` orders without gain in these places count as 0.

    Source: Järvelin, Kekäläinen, Cumulated gain-based evaluation of IR techniques, TOIS 2002.

    Raises:
        MetricError: ``ideal="k_ones"`` without a cutoff; an average over ties with ``ideal="label_order"``, or of
            graded gain with ``ideal="retrieved"`` and a cutoff.
    """

    name: ClassVar[str] = "idcg"
    aliases: ClassVar[tuple[str, ...]] = ("ideal_dcg",)

    def _check_together(self) -> None:
        super()._check_together()
        if self.averages_ties and self.ideal == "label_order":
            msg = (
                "idcg: ties='average' with ideal='label_order' has no closed form, because its gains can cancel; use "
                "ideal='labels'"
            )
            raise MetricError(msg)

    @property
    def reads(self) -> Reads:
        """An ideal of labels or ones depends on the list only in whether it has gain; without gain the value is 0."""
        whatever_was_retrieved = self.ideal in ("labels", "k_ones") and self.below_threshold == "keep"
        return super().reads.but(items="gaining") if whatever_was_retrieved and not self._is_binary else super().reads

    @property
    def bounds(self) -> tuple[float, float]:
        """A sum has no upper bound, and in MLlib's order negative grades have negative gain."""
        return (-math.inf if self.ideal == "label_order" else 0.0), math.inf

    def _values(self, batch: RankingBatch) -> FloatArray:
        if self.averages_ties and self.ideal == "retrieved" and self.k is not None:
            return self._mean_over_retrieved(batch, self._where_gained)
        if self.averages_ties:
            gaining = tied_groups(batch, np.flatnonzero(self._gains(batch) > 0))
            return self._idcg(batch) * chance_of_one(batch, gaining, self.k)
        return self._where_gained(self._dcg(batch), self._idcg(batch))

    @staticmethod
    def _where_gained(gained: FloatArray, ideal: FloatArray) -> FloatArray:
        return np.where(gained == 0, 0.0, ideal)


@dataclass(frozen=True, kw_only=True)
class NDCG(IdealMetric):
    """DCG@k ÷ the DCG@k of the ideal list, which ``ideal`` names.

    Between 0 and 1. With ``ideal="k_ones"`` grades above 1 can make it exceed 1; MLlib's ``ideal="label_order"`` has no
    bounds. NaN without a label above 0, 0 without predictions or without gain in the first k places.

    Systems differ in gain and ideal. With ``ideal="retrieved"`` (default) only the order of the retrieved items counts.
    With ``ideal="labels"`` missed items count, too. With ``ties="average"`` the value is the mean ratio over all orders
    of tied items.

    Source: Järvelin, Kekäläinen, Cumulated gain-based evaluation of IR techniques, TOIS 2002.

    Raises:
        MetricError: ``ideal="k_ones"`` without a cutoff; an average over ties of graded gain with ``ideal="retrieved"``
            and a cutoff, which has no closed form.
    """

    name: ClassVar[str] = "ndcg"
    aliases: ClassVar[tuple[str, ...]] = ("normalized_dcg", "normalised_dcg", "normalized_discounted_cumulative_gain")

    @property
    def bounds(self) -> tuple[float, float]:
        """From 0 to 1, unless lists can exceed the ideal."""
        if self.ideal == "label_order":
            return -math.inf, math.inf
        return 0.0, math.inf if self.ideal == "k_ones" and self.gain != "binary" else 1.0

    def _values(self, batch: RankingBatch) -> FloatArray:
        if self.averages_ties and self.ideal == "retrieved" and self.k is not None:
            return self._mean_over_retrieved(batch, ratio)
        return ratio(self._dcg(batch), self._idcg(batch))
