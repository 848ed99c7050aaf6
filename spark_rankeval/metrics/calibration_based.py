"""Metrics of whether lists have the categories of users' histories in the same shares."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from spark_rankeval.metrics.allowed import number
from spark_rankeval.metrics.base import Reads, Unset, parameter
from spark_rankeval.metrics.gains import DISCOUNTS
from spark_rankeval.metrics.list_metric import ListMetric
from spark_rankeval.ranking.recommended import UNKNOWN, asked_for

if TYPE_CHECKING:
    from spark_rankeval.ranking.batch import RankingBatch
    from spark_rankeval.ranking.ragged import BoolArray, FloatArray, IntArray
    from spark_rankeval.ranking.recommended import Fact, Recommended

__all__ = ["Miscalibration"]


@dataclass(frozen=True, kw_only=True)
class Miscalibration(ListMetric):
    """How far the list's categories are from those of the user's history: Σ_c p_c·log2(p_c ÷ ((1 − α)·q_c + α·p_c)).

    The share of category c in the history is p_c, and in the first k items q_c. An item with several categories counts for each
    in equal parts, and one without any is left out. α is ``smoothing``. This is the Kullback-Leibler divergence in bits;
    multiply it by ln 2 for natural units. From 0 up, at most log2(1/α), about 6.64.

    ``divergence="js"`` is the Jensen-Shannon divergence, without smoothing: ½ Σ p·log2(p/m) + ½ Σ q·log2(q/m), m = (p + q)/2.
    It is between 0 and 1. With ``rank_weight="log2"`` an item at rank j counts 1/log2(j + 1) in q. Smaller is better. NaN for
    users without predictions or history, or with no category in either.

    Source: Steck, Calibrated recommendations, RecSys 2018. Jensen-Shannon: Lin, Divergence measures based on the Shannon
    entropy, IEEE Transactions on Information Theory, 1991.
    """

    name: ClassVar[str] = "miscalibration"
    aliases: ClassVar[tuple[str, ...]] = ("calibration", "calibration_kl", "kl_calibration")
    larger_is_better: ClassVar[bool] = False
    facts: ClassVar[frozenset[Fact]] = frozenset({"categories", "history_categories"})

    divergence: str | Unset = parameter("kl", choices=("kl", "js"), doc="Kullback-Leibler, or Jensen-Shannon")
    smoothing: float | Unset = parameter(
        0.01,
        check=number(0, 1, what="a number between 0 and 1", open_low=True, open_high=True),
        doc="α of Kullback-Leibler, which keeps it finite if the list lacks a category",
    )
    rank_weight: str | Unset = parameter(
        "none", choices=("none", "log2"), doc="what an item at rank j counts: 1, or 1/log2(j + 1)"
    )

    @property
    def reads(self) -> Reads:
        """The items; with weights also their order."""
        reads = super().reads
        return reads if self.rank_weight in ("none", Unset.UNSET) else reads.but(tie_order=True)

    @property
    def bounds(self) -> tuple[float, float]:
        """Kullback-Leibler is at most log2(1/α)."""
        if self.divergence == "js":
            return 0.0, 1.0
        return 0.0, math.inf if isinstance(self.smoothing, Unset) else math.log2(1 / self.smoothing)

    def _is_counted(self, recommended: Recommended) -> BoolArray:
        has_category: BoolArray = asked_for(recommended.category_set) != UNKNOWN
        return recommended.within(self.k) & has_category

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        recommended = self._recommended(batch)
        with_history = np.zeros(batch.n_users, np.bool_)
        with_history[asked_for(recommended.history_categories).user] = True
        return with_history & (recommended.count(self._is_counted(recommended)) > 0)

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = self._recommended(batch)
        history, user, category, weight = asked_for(recommended.history_categories), *self._parts(recommended)
        n_categories = int(max(history.category.max(initial=0), category.max(initial=0))) + 1
        of_history, of_list = history.user * n_categories + history.category, user * n_categories + category
        cells, place = np.unique(np.concatenate([of_history, of_list]), return_inverse=True)
        owner = cells // n_categories
        p, q = np.zeros(len(cells)), np.bincount(place[len(of_history) :], weight, len(cells))
        p[place[: len(of_history)]] = history.share
        terms = self._terms(p, q.astype(np.float64, copy=False))
        # Codes of categories come in any order: a user's terms are added from the smallest to the largest.
        ascending = np.lexsort((terms, owner))
        sums = np.bincount(owner[ascending], terms[ascending], batch.n_users)
        return np.clip(sums, *self.bounds)

    def _parts(self, recommended: Recommended) -> tuple[IntArray, IntArray, FloatArray]:
        """The user, the category and the share of the list of each category of an item, by user and then by rank."""
        counted = np.flatnonzero(self._is_counted(recommended))
        sets = asked_for(recommended.category_sets).take(asked_for(recommended.category_set)[counted])
        user, rank = recommended.user[counted], recommended.rank[counted]
        weight = DISCOUNTS["log2"](rank) if self.rank_weight == "log2" else np.ones(len(rank))
        share = weight / np.bincount(user, weight, recommended.n_users)[user] / sets.lengths
        return user[sets.user], sets.values, share[sets.user]

    def _terms(self, p: FloatArray, q: FloatArray) -> FloatArray:
        if self.divergence == "js":
            middle = (p + q) / 2
            return (_information(p, middle) + _information(q, middle)) / 2
        smoothing = float(self.smoothing)  # type: ignore[arg-type]  # resolved
        return _information(p, (1 - smoothing) * q + smoothing * p)


def _information(p: FloatArray, q: FloatArray) -> FloatArray:
    """p·log2(p/q), 0 where p is 0; q is above 0 wherever p is."""
    some = np.flatnonzero(p)
    # The last bit of numpy's logarithms depends on the processor.
    logarithms = np.fromiter(map(math.log2, (p[some] / q[some]).tolist()), np.float64, len(some))
    terms = np.zeros(len(p))
    terms[some] = p[some] * logarithms
    return terms
