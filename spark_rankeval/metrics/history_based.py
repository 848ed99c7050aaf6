"""Metrics of what the users have already: their own items of the training data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from spark_rankeval.metrics.base import Reads, ratio
from spark_rankeval.metrics.list_metric import ListMetric, ShareOfPlaces, recommended_of
from spark_rankeval.ranking.recommended import asked_for

if TYPE_CHECKING:
    from spark_rankeval.ranking.batch import RankingBatch
    from spark_rankeval.ranking.ragged import FloatArray

__all__ = ["ColdUser", "Repetition"]


@dataclass(frozen=True, kw_only=True)
class Repetition(ShareOfPlaces):
    """The share of items that the user has in the training data already: how many of the first k ÷ ρ_k.

    Between 0 and 1; smaller is better where users look for what is new to them. NaN without predictions.

    Source: Anderson, Kumar, Tomkins, Vassilvitskii, The dynamics of repeat consumption, WWW 2014, for the fraction of repeated
    consumptions.
    """

    name: ClassVar[str] = "repetition"
    aliases: ClassVar[tuple[str, ...]] = ("repeated", "repeat_share")
    larger_is_better: ClassVar[bool] = False

    @property
    def reads(self) -> Reads:
        """The items, and what users have."""
        return super().reads.but(facts=frozenset({"history"}))

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = recommended_of(self, batch)
        repeated = recommended.within(self.k) & asked_for(recommended.consumed)
        return ratio(recommended.count(repeated), self._places(recommended))


@dataclass(frozen=True, kw_only=True)
class ColdUser(ListMetric):
    """1 for a user of whom the training data has no item, 0 for others; as a mean the share Σ cold ÷ users with predictions.

    Between 0 and 1; it has no cutoff, and neither way is better by itself. NaN without predictions.

    Source: Schein, Popescul, Ungar, Pennock, Methods and metrics for cold-start recommendations, SIGIR 2002, for the term.
    """

    name: ClassVar[str] = "cold_user"
    aliases: ClassVar[tuple[str, ...]] = ("cold_users", "cold_user_share")
    takes_cutoff: ClassVar[bool] = False

    @property
    def reads(self) -> Reads:
        """What users have; that there is a list is enough."""
        return super().reads.but(depth=self.k or 1, facts=frozenset({"history"}))

    def _values(self, batch: RankingBatch) -> FloatArray:
        size = asked_for(recommended_of(self, batch).history_size)
        cold: FloatArray = (size == 0).astype(np.float64)
        return cold
