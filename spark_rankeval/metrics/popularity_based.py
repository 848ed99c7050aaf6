"""Metrics that use the training data: how popular the recommended items are, and which of them users already have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from spark_rankeval.checks import number
from spark_rankeval.metrics.base import Reads, Unset, parameter
from spark_rankeval.metrics.kinds import ListMetric, ShareOfPlaces, ratio
from spark_rankeval.ranking.batch import Fact, RankingBatch, Recommended, required_fact
from spark_rankeval.ranking.user_lists import BoolArray, FloatArray, IntArray

__all__ = [
    "AveragePopularity",
    "ColdItems",
    "ColdUser",
    "LongTailItems",
    "LongTailShare",
    "Novelty",
    "PopularityRatio",
    "Repetition",
    "Surprisal",
]


def popularity(recommended: Recommended, by: str | Unset) -> IntArray:
    """How often each item is in the training data: how many users have it, or how many rows are of it."""
    return required_fact(recommended.training_interactions if by == "interactions" else recommended.training_users)


def self_information(counts: IntArray, total: int) -> FloatArray:
    """−log2(count / total), NaN if either is 0; float64, shape of `counts`."""
    # The last bit of numpy's logarithms depends on the processor. Python's are fast enough for few different counts.
    different, inverse = np.unique(counts, return_inverse=True)
    information = [-math.log2(count / total) if count and total else math.nan for count in different.tolist()]
    return np.array(information, np.float64)[inverse]


@dataclass(frozen=True, kw_only=True)
class Novelty(ListMetric):
    """The mean self-information of the items: Σ_{j≤ρ_k} −log2(u_j / N) ÷ ρ_k.

    u_j is how many of the N users of the training data have the item at rank j. With ``by="interactions"`` it is
    how many of the N interactions are of it. An item outside the training data has u_j = 1, unless ``unknown`` says
    otherwise. From 0 up, in bits. ``by="history"`` gives instead the share of items that the user does not have in the
    training data. NaN without predictions (of items that count), and unless ``by="history"`` without training data.

    Source: Castells, Vargas, Wang, Novelty and diversity metrics for recommender systems, DDR at ECIR 2011. Zhou and
    others, Solving the apparent diversity-accuracy dilemma of recommender systems, PNAS 2010. ``by="history"``: RePlay.
    """

    name: ClassVar[str] = "novelty"
    aliases: ClassVar[tuple[str, ...]] = ("mean_self_information", "msi", "miuf")

    by: str | Unset = parameter(
        "users",
        choices=("users", "interactions", "history"),
        doc="what makes an item known: users who have it, interactions with it, or that the user has it",
    )
    unknown: str | Unset = parameter(
        "one",
        choices=("one", "left_out", "zero"),
        doc="an item outside the training data: has u_j = 1, is left out of the mean, or adds 0",
    )

    @property
    def reads(self) -> Reads:
        """The popularity of items, or what users have."""
        fact: Fact = "history" if self.by == "history" else "popularity"
        return super().reads.but(facts=frozenset({fact}))

    @property
    def bounds(self) -> tuple[float, float]:
        """By history the value is a share."""
        return (0.0, 1.0) if self.by == "history" else (0.0, math.inf)

    def _total(self, recommended: Recommended) -> int:
        totals = recommended.totals
        return totals.training_interactions if self.by == "interactions" else totals.training_users

    def _counted(self, recommended: Recommended) -> BoolArray:
        within = recommended.within(self.k)
        if self.by == "history" or self.unknown != "left_out":
            return within
        return within & (popularity(recommended, self.by) > 0)

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        recommended = self._recommended(batch)
        has_items: BoolArray = recommended.count(self._counted(recommended)) > 0
        return has_items if self.by == "history" or self._total(recommended) else np.zeros_like(has_items)

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = self._recommended(batch)
        counted = self._counted(recommended)
        n_counted = recommended.count(counted)
        if self.by == "history":
            return ratio(recommended.count(counted & ~required_fact(recommended.consumed)), n_counted)
        counts = popularity(recommended, self.by)
        if self.unknown == "one":
            counts = np.maximum(counts, 1)
        information = self_information(counts, self._total(recommended))
        # −log2(1) is −0, which becomes 0.
        information = np.where(np.isnan(information), 0.0, np.maximum(information, 0.0))
        return ratio(recommended.total(information, counted), n_counted)


@dataclass(frozen=True, kw_only=True)
class Surprisal(ShareOfPlaces):
    """The self-information of the items as a share of the largest possible: Σ_{j≤ρ_k} log2(N / u_j) / log2 N ÷ ρ_k.

    u_j is how many of the N users of the training data have the item at rank j, 1 for an item outside it.
    Between 0 and 1. NaN without predictions, or with fewer than two users in the training data.

    Source: RePlay; Zhou and others, Solving the apparent diversity-accuracy dilemma of recommender systems, PNAS 2010.
    """

    name: ClassVar[str] = "surprisal"
    facts: ClassVar[frozenset[Fact]] = frozenset({"popularity"})

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        defined = super()._is_defined(batch)
        return defined if self._recommended(batch).totals.training_users > 1 else np.zeros_like(defined)

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = self._recommended(batch)
        n = recommended.totals.training_users
        if n < 2:
            return np.zeros(recommended.n_users)
        information = np.maximum(self_information(np.maximum(popularity(recommended, "users"), 1), n), 0.0)
        shares = np.minimum(information / math.log2(n), 1.0)
        return ratio(recommended.total(shares, recommended.within(self.k)), self._places(recommended))


@dataclass(frozen=True, kw_only=True)
class AveragePopularity(ListMetric):
    """The mean popularity of the items: Σ_{j≤ρ_k} u_j ÷ ρ_k.

    u_j is how many users of the training data have the item at rank j, 0 for an item outside it. With
    ``by="interactions"`` it is how many interactions are of it. ``scale="share"`` divides by the number of all users or
    interactions. From 0 up; smaller is better if you want less popular items. NaN without predictions.

    Source: Yin, Cui, Li, Yao, Chen, Challenging the long tail recommendation, VLDB 2012; also called ARP.
    """

    name: ClassVar[str] = "average_popularity"
    aliases: ClassVar[tuple[str, ...]] = ("arp", "avg_popularity", "popularity")
    larger_is_better: ClassVar[bool] = False
    facts: ClassVar[frozenset[Fact]] = frozenset({"popularity"})

    by: str | Unset = parameter(
        "users", choices=("users", "interactions"), doc="users who have the item, or interactions with it"
    )
    scale: str | Unset = parameter("count", choices=("count", "share"), doc="how many, or which share of all")

    @property
    def bounds(self) -> tuple[float, float]:
        """A share is at most 1; a count has no upper bound."""
        return (0.0, 1.0) if self.scale == "share" else (0.0, math.inf)

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = self._recommended(batch)
        within = recommended.within(self.k)
        # Sums of whole numbers are exact below 2^53.
        mean = ratio(recommended.total(popularity(recommended, self.by), within), recommended.n_within(self.k))
        if self.scale == "count":
            return mean
        totals = recommended.totals
        return ratio(mean, float(totals.training_interactions if self.by == "interactions" else totals.training_users))


@dataclass(frozen=True, kw_only=True)
class PopularityRatio(ListMetric):
    """How much more popular the items are than those in the user's history: mean u_j over j ≤ ρ_k ÷ mean u_i over the history.

    u is how many users of the training data have an item; the history is the user's different items there. From 0 up.
    At 1 the items are as popular as the user's own choice, above 1 they are more popular. Smaller is better if you do
    not want that. NaN without predictions or a history.

    Source: Abdollahpouri, Mansoury, Burke, Mobasher, The unfairness of popularity bias in recommendation, RMSE at
    RecSys 2019. Their popularity lift is this minus 1, for groups of users.
    """

    name: ClassVar[str] = "popularity_ratio"
    value_range: ClassVar[tuple[float, float]] = (0.0, math.inf)
    larger_is_better: ClassVar[bool] = False
    facts: ClassVar[frozenset[Fact]] = frozenset({"popularity", "history_popularity"})

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        history_size = required_fact(self._recommended(batch).history_size)
        return super()._is_defined(batch) & (history_size > 0)

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = self._recommended(batch)
        history, size = required_fact(recommended.history_popularity), required_fact(recommended.history_size)
        sums = recommended.total(popularity(recommended, "users"), recommended.within(self.k))
        return ratio(ratio(sums, recommended.n_within(self.k)), ratio(history, size))


@dataclass(frozen=True, kw_only=True)
class ColdItems(ShareOfPlaces):
    """The share of items outside the training data: how many of the first k it does not have ÷ ρ_k.

    Between 0 and 1; neither direction is better in itself. NaN without predictions.

    Source: Schein, Popescul, Ungar, Pennock, Methods and metrics for cold-start recommendations, SIGIR 2002, for the term.
    """

    name: ClassVar[str] = "cold_items"
    aliases: ClassVar[tuple[str, ...]] = ("cold_item_share",)
    facts: ClassVar[frozenset[Fact]] = frozenset({"popularity"})

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = self._recommended(batch)
        cold = recommended.within(self.k) & (popularity(recommended, "users") == 0)
        return ratio(recommended.count(cold), self._places(recommended))


@dataclass(frozen=True, kw_only=True)
class Repetition(ShareOfPlaces):
    """The share of items that the user already has in the training data: how many of the first k ÷ ρ_k.

    Between 0 and 1; smaller is better if users look for something new. NaN without predictions.

    Source: Anderson, Kumar, Tomkins, Vassilvitskii, The dynamics of repeat consumption, WWW 2014, for the fraction of
    repeated consumptions.
    """

    name: ClassVar[str] = "repetition"
    aliases: ClassVar[tuple[str, ...]] = ("repeated", "repeat_share")
    larger_is_better: ClassVar[bool] = False
    facts: ClassVar[frozenset[Fact]] = frozenset({"history"})

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = self._recommended(batch)
        repeated = recommended.within(self.k) & required_fact(recommended.consumed)
        return ratio(recommended.count(repeated), self._places(recommended))


@dataclass(frozen=True, kw_only=True)
class ColdUser(ListMetric):
    """1 for a user without items in the training data, 0 for others; the mean is the share Σ cold ÷ users with predictions.

    Between 0 and 1, without a cutoff; neither direction is better in itself. NaN without predictions.

    Source: Schein, Popescul, Ungar, Pennock, Methods and metrics for cold-start recommendations, SIGIR 2002, for the
    term.
    """

    name: ClassVar[str] = "cold_user"
    aliases: ClassVar[tuple[str, ...]] = ("cold_users", "cold_user_share")
    takes_cutoff: ClassVar[bool] = False
    facts: ClassVar[frozenset[Fact]] = frozenset({"history"})

    @property
    def reads(self) -> Reads:
        """Only whether the user has a list."""
        return super().reads.but(depth=1)

    def _values(self, batch: RankingBatch) -> FloatArray:
        size = required_fact(self._recommended(batch).history_size)
        cold: FloatArray = (size == 0).astype(np.float64)
        return cold


@dataclass(frozen=True, kw_only=True)
class LongTailMetric(ListMetric):
    """A metric of the items in the long tail of single lists: those that few users of the training data have."""

    facts: ClassVar[frozenset[Fact]] = frozenset({"popularity", "long_tail"})

    head: float | Unset = parameter(
        0.8,
        check=number(0, 1, what="a number between 0 and 1", open_low=True, open_high=True),
        doc="the share of all interactions, or of all items, that makes the short head",
    )
    head_of: str | Unset = parameter(
        "interactions",
        choices=("interactions", "items"),
        doc="what the head is a share of: interactions, in which a user has an item once, or items",
    )

    def _is_tail(self, recommended: Recommended) -> BoolArray:
        """Which items are in the long tail."""
        above = required_fact(recommended.share_above if self.head_of == "interactions" else recommended.items_above)
        tail: BoolArray = above >= float(self.head)  # type: ignore[arg-type]  # resolved
        return tail

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        defined = super()._is_defined(batch)
        return defined if self._recommended(batch).totals.training_items else np.zeros_like(defined)


@dataclass(frozen=True, kw_only=True)
class LongTailShare(LongTailMetric, ShareOfPlaces):
    """The share of items in the long tail: how many of the first k ÷ ρ_k. Its mean over users is APLT.

    Items are ordered by how many users of the training data have them. An item is in the short head if all more popular
    items together have less than 80% of the interactions (``head=0.8``). All others are in the long tail. So equally popular
    items are in one group, and items outside the training data are in the tail. With ``head_of="items"`` the head is that
    share of the items. Between 0 and 1; larger values spread attention. NaN without predictions, or without training data.

    Source: Abdollahpouri, Burke, Mobasher, Controlling popularity bias in learning-to-rank recommendation, RecSys 2017. The
    head of 80% is Elliot's. RecBole's tail percentage has ``head=0.9, head_of="items"``.
    """

    name: ClassVar[str] = "long_tail_share"
    aliases: ClassVar[tuple[str, ...]] = ("aplt",)

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = self._recommended(batch)
        tail = recommended.within(self.k) & self._is_tail(recommended)
        return ratio(recommended.count(tail), self._places(recommended))


@dataclass(frozen=True, kw_only=True)
class LongTailItems(LongTailMetric):
    """The number of items in the long tail: Σ_{j≤ρ_k} [the item at rank j is in the tail]. Its mean over users is ACLT.

    The long tail is that of ``long_tail_share``. The name ACLT stands for average coverage of long tail items, but its formula
    counts them, and has no share of the tail. From 0 up, at most k. NaN without predictions, or without training data.

    Source: Abdollahpouri, Burke, Mobasher, Managing popularity bias in recommender systems with personalized re-ranking,
    FLAIRS 2019.
    """

    name: ClassVar[str] = "long_tail_items"
    aliases: ClassVar[tuple[str, ...]] = ("aclt", "long_tail_count")
    value_range: ClassVar[tuple[float, float]] = (0.0, np.inf)

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = self._recommended(batch)
        tail = recommended.within(self.k) & self._is_tail(recommended)
        counts: FloatArray = recommended.count(tail).astype(np.float64)
        return counts
