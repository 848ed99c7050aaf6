"""Metrics against an ideal list: its gain, and how much the two have in common at every depth."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from spark_rankeval.checks import number
from spark_rankeval.errors import MetricError
from spark_rankeval.metrics.base import (
    Metric,
    Needs,
    Reads,
    Unset,
    parameter,
    undefined_with_rightly_empty_lists,
)
from spark_rankeval.metrics.expected_values import chance_of_one, draws, summed_over_places
from spark_rankeval.metrics.gain_based import GAINS, DiscountedMetric, geometric, geometric_share
from spark_rankeval.metrics.kinds import ratio
from spark_rankeval.ranking.batch import RankingBatch, is_relevant, retrieved, tied_groups, tied_hits
from spark_rankeval.ranking.user_lists import BoolArray, FloatArray, IntArray, position_within

__all__ = ["IDCG", "NDCG", "RBO"]

# An ideal of k gains is a sum over k ranks, even if all lists are short.
_MAX_ONES = 1_000_000


@dataclass(frozen=True, kw_only=True)
class IdealMetric(DiscountedMetric):
    """A metric of discounted gain that uses the gain of an ideal list.

    The ideal ``label_order`` is MLlib's: the raw labels in the order given, cut at min(k, γ). With it, negative grades
    have negative gain. The ideal ``filled_places`` is MLflow's: all labels, best first, cut at min(k, ρ). An item that
    the first k places repeat is in it as often.
    """

    ideal: str | Unset = parameter(
        "retrieved",
        choices=("retrieved", "labels", "filled_places", "k_ones", "label_order"),
        doc="the list's first k in best order, all labels best first, the same cut at min(k, ρ), k gains of 1, or MLlib's raw label order",
    )

    def _check_together(self) -> None:
        super()._check_together()
        if self.ideal == "k_ones" and not 1 <= (self.k or 0) <= _MAX_ONES:
            msg = f"{self.name}: ideal='k_ones' needs a cutoff of at most {_MAX_ONES:,}; write {self.name}(ideal='k_ones')@10"
            raise MetricError(msg)
        if self.averages_ties and self.ideal == "filled_places" and self.k is not None:
            msg = (
                f"{self.name}@{self.k}: ties='average' with ideal='filled_places' has no closed form, because an item that the list "
                "repeats may tie at the cutoff. Use ideal='labels', or no cutoff"
            )
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
                return batch.labels.remember(key, lambda: self._best_labels(batch))
            case "filled_places":
                return batch.remember(key, lambda: self._filled_places(batch))
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
        gains = batch.labels.remember(("gains of labels", *key), lambda: self._gain_of(labels.values))

        def count() -> IntArray | None:
            if not _are_binary(gains):
                return None
            return np.bincount(labels.user[np.flatnonzero(gains)], minlength=batch.n_users)

        n_gaining = batch.labels.remember(("gaining labels", *key), count)
        if n_gaining is not None:
            # Those with gain come first, and the others add nothing.
            return self._discount.summed(n_gaining if self.k is None else np.minimum(n_gaining, self.k))
        rank = batch.label_rank()
        worth = batch.labels.remember(("worth of labels", self.discount, *key), lambda: gains * self._discount(rank))
        return batch.total(labels.user, worth, None if self.k is None else rank <= self.k)

    def _filled_places(self, batch: RankingBatch) -> FloatArray:
        """DCG of all labels and of the repeated items of the first k places, best first, cut at min(k, ρ)."""
        repeats = batch.repeats()
        if self.k is not None:
            repeats = repeats[batch.rank[repeats] <= self.k]
        user = np.concatenate([batch.labels.user, batch.user[repeats]])
        gains = self._gain_of(np.concatenate([batch.labels.values, batch.grade[repeats]]))
        order = np.lexsort((-gains, user))
        user, gains = user[order], gains[order]
        rank = position_within(user, batch.n_users) + 1
        within = rank <= retrieved(batch, self.k)[user]
        return batch.total(user, np.where(within, gains, 0.0) * self._discount(rank))

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
        selected = order if within is None else order[within[order]]
        user, gain = batch.user[selected], gains[selected]
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
        raw = batch.raw_labels
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
        MetricError: ``ideal="k_ones"`` without a cutoff; an average over ties with ``ideal="label_order"``, or, with a
            cutoff, of graded gain with ``ideal="retrieved"`` or of any with ``ideal="filled_places"``.
    """

    name: ClassVar[str] = "idcg"
    describes: ClassVar[bool] = True
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
    """DCG@k ÷ the DCG@k of the best possible list, the ideal.

    Between 0 and 1. With ``ideal="k_ones"`` grades above 1 can make it exceed 1; MLlib's ``ideal="label_order"`` has no
    bounds. NaN without a label above 0, 0 without predictions or without gain in the first k places.

    Systems differ in gain and ideal. With ``ideal="retrieved"`` (default) only the order of the retrieved items counts.
    With ``ideal="labels"`` missed items count, too; with ``ideal="filled_places"`` only as far as the list is long.
    With ``ties="average"`` the value is the mean ratio over all orders of tied items.

    Source: Järvelin, Kekäläinen, Cumulated gain-based evaluation of IR techniques, TOIS 2002.

    Raises:
        MetricError: ``ideal="k_ones"`` without a cutoff; an average over ties, with a cutoff, of graded gain with
            ``ideal="retrieved"`` or of any with ``ideal="filled_places"``, which have no closed form.
    """

    name: ClassVar[str] = "ndcg"
    aliases: ClassVar[tuple[str, ...]] = ("normalized_dcg", "normalised_dcg", "normalized_discounted_cumulative_gain")

    undefined: str | Unset = undefined_with_rightly_empty_lists()

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


def overlaps(batch: RankingBatch) -> FloatArray:
    """X_d, how many items the first d predictions share with the d best labels, at the place of the d-th label; float64.

    A label counts as clip((d − a)/t, 0, 1) among the first d, where a labels are graded higher and t have its grade.
    """

    def count() -> FloatArray:
        labels, (depth_runs, item_runs) = batch.labels, batch.label_runs()
        start, user, end = labels.offsets[:-1], batch.user, item_runs.before + item_runs.size

        def counted(since: IntArray, last: IntArray) -> IntArray:
            """How many predictions count from each depth or from an earlier one, of this user and all users before."""
            counts = since <= last
            entry = start[user[counts]] + since[counts] - 1
            return np.concatenate([[0], np.cumsum(np.bincount(entry, minlength=len(labels.values)))])

        # At a depth inside a run of equal grades, items of higher grades count in full, and those of the run in part.
        whole = counted(np.maximum(batch.rank, end + 1), labels.lengths[user])
        partly = counted(np.maximum(batch.rank, item_runs.before + 1), end)
        first, depth = start[labels.user], batch.label_rank()
        run_share = partly[1:] - partly[first + depth_runs.before]
        shared: FloatArray = (whole[1:] - whole[first]) + run_share * (depth - depth_runs.before) / depth_runs.size
        return shared

    return batch.remember("overlaps", count)


@dataclass(frozen=True, kw_only=True)
class RBO(Metric):
    """Rank-biased overlap of the list with the labels in the order of their grades, extrapolated.

    (1−p)/p·[Σ_{d=1..l} (X_d/d)·p^d + Σ_{d=s+1..l} X_s·(d−s)/(s·d)·p^d] + [(X_l − X_s)/l + X_s/s]·p^l. The lengths of
    the shorter and the longer list are s and l, both cut at k; X_d is how many items both have in their first d places.
    Equal grades share places: if a labels stand above t equal ones, each of the t counts as (d − a)/t among the first d.

    It is the expected agreement of the two lists for a reader who goes on to the next depth with probability p. Below the
    lists, agreement is assumed to go on as it was. Between 0 (nothing in common) and 1 (the same order, as far as both lists
    go). NaN without a label, 0 without predictions or without an item in both. Labels need not be relevant.

    To compare two models' lists, pass one as predictions and the other as labels. The labels need distinct grades that fall
    with the rank, such as length − rank + 1. The value stays the same if the lists change roles.

    Source: Webber, Moffat, Zobel, A similarity measure for indefinite rankings, TOIS 2010, equation 32. Equal grades share
    places as in Corsi, Urbano, The treatment of ties in rank-biased overlap, SIGIR 2024.
    """

    name: ClassVar[str] = "rbo"
    aliases: ClassVar[tuple[str, ...]] = ("rank_biased_overlap", "rbo_ext")
    needs: ClassVar[Needs] = "labels"
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    zero_without_hits: ClassVar[bool] = False

    p: float | Unset = parameter(
        0.9,
        check=number(0, 1, what="a number above 0 and below 1", open_low=True, open_high=True),
        doc="the probability of going on to the next depth",
    )

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        return batch.labels.lengths > 0

    def _values(self, batch: RankingBatch) -> FloatArray:
        p = float(self.p)  # type: ignore[arg-type]  # resolved
        labels, overlap, within = batch.labels, overlaps(batch), batch.within(self.k)
        n_labels = labels.lengths if self.k is None else np.minimum(labels.lengths, self.k)
        n_predictions = retrieved(batch, self.k)
        shorter, longer = np.minimum(n_labels, n_predictions), np.maximum(n_labels, n_predictions)

        def overlap_at(depth: IntArray) -> FloatArray:
            overlap_within = np.zeros(batch.n_users)
            inside = (depth > 0) & (depth <= labels.lengths)
            overlap_within[inside] = overlap[labels.offsets[:-1][inside] + depth[inside] - 1]
            return overlap_within

        # X_s(d−s)/(s·d) is X_s/s − X_s/d. The first parts add up to X_s/s·(p^s − p^l). The second parts turn X_d into
        # X_d − X_s, so that no term is negative and nothing cancels.
        shorter_overlap, depth = overlap_at(shorter), batch.label_rank()
        terms = batch.remember(("overlap terms", p), lambda: overlap * geometric_share(p)(depth))
        beyond = np.flatnonzero(depth > shorter[labels.user])
        if len(beyond):
            terms = terms.copy()
            more = overlap[beyond] - shorter_overlap[labels.user[beyond]]
            terms[beyond] = more * geometric_share(p)(depth[beyond])
        shared = batch.total(labels.user, terms, None if self.k is None else depth <= self.k)

        # Below the last label, each labelled item of a longer list adds 1 to the overlap from its rank on.
        below = batch.rank > labels.lengths[batch.user]
        if within is not None:
            below &= within
        user, rank = batch.user[below], batch.rank[below]
        share_sums = geometric_share(p).summed_up_to(int(longer.max(initial=0)))
        shared += batch.total(user, share_sums[longer[user]] - share_sums[rank - 1])
        longer_overlap = np.where(
            longer > labels.lengths, shorter_overlap + np.bincount(user, minlength=batch.n_users), 0.0
        )
        longer_overlap += overlap_at(longer)

        power = geometric(p)
        ends = ratio(shorter_overlap, shorter) * power(shorter + 1) + ratio(
            longer_overlap - shorter_overlap, longer
        ) * power(longer + 1)
        return (1 - p) * shared + ends
