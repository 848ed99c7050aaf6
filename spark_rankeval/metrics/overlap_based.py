"""Metrics of how much two lists have in common at every depth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from spark_rankeval.metrics.allowed import number
from spark_rankeval.metrics.base import Metric, Needs, Unset, parameter, ratio
from spark_rankeval.metrics.gains import geometric, geometric_share
from spark_rankeval.ranking.batch import retrieved

if TYPE_CHECKING:
    from spark_rankeval.ranking.batch import RankingBatch
    from spark_rankeval.ranking.ragged import BoolArray, FloatArray, IntArray

__all__ = ["RBO"]


def overlaps(batch: RankingBatch) -> FloatArray:
    """X_d, how many items the first d predictions share with the d best labels, at the place of the d-th label; float64.

    A label counts as clip((d − a)/t, 0, 1) among the first d, where a labels are graded higher and t have its grade.
    """

    def count() -> FloatArray:
        labels, (at_depth, of_item) = batch.labels, batch.label_runs()
        start, user, end = labels.offsets[:-1], batch.user, of_item.before + of_item.size

        def counted(since: IntArray, last: IntArray) -> IntArray:
            """How many predictions count from each depth or from an earlier one, of this user and all users before."""
            counts = since <= last
            place = start[user[counts]] + since[counts] - 1
            return np.concatenate([[0], np.cumsum(np.bincount(place, minlength=len(labels.values)))])

        # At a depth inside a run of equal grades, items of higher grades count in full, and those of the run in part.
        whole = counted(np.maximum(batch.rank, end + 1), labels.lengths[user])
        partly = counted(np.maximum(batch.rank, of_item.before + 1), end)
        first, depth = start[labels.user], batch.label_rank()
        of_run = partly[1:] - partly[first + at_depth.before]
        shared: FloatArray = (whole[1:] - whole[first]) + of_run * (depth - at_depth.before) / at_depth.size
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
        at_shorter, depth = overlap_at(shorter), batch.label_rank()
        terms = batch.remember(("overlap terms", p), lambda: overlap * geometric_share(p)(depth))
        beyond = np.flatnonzero(depth > shorter[labels.user])
        if len(beyond):
            terms = terms.copy()
            more = overlap[beyond] - at_shorter[labels.user[beyond]]
            terms[beyond] = more * geometric_share(p)(depth[beyond])
        shared = batch.total(labels.user, terms, None if self.k is None else depth <= self.k)

        # Below the last label, each labelled item of a longer list adds 1 to the overlap from its rank on.
        below = batch.rank > labels.lengths[batch.user]
        if within is not None:
            below &= within
        user, rank = batch.user[below], batch.rank[below]
        down_to = geometric_share(p).summed_up_to(int(longer.max(initial=0)))
        shared += batch.total(user, down_to[longer[user]] - down_to[rank - 1])
        at_longer = np.where(longer > labels.lengths, at_shorter + np.bincount(user, minlength=batch.n_users), 0.0)
        at_longer += overlap_at(longer)

        power = geometric(p)
        ends = ratio(at_shorter, shorter) * power(shorter + 1) + ratio(at_longer - at_shorter, longer) * power(
            longer + 1
        )
        return (1 - p) * shared + ends
