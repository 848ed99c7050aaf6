"""Metrics of intents: gains that shrink with each item for the same intent, and their ideals."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from spark_rankeval.checks import number
from spark_rankeval.metrics.base import RelevanceMetric, parameter, ratio
from spark_rankeval.metrics.gains import DISCOUNTS, Discount, geometric, geometric_share
from spark_rankeval.ranking.batch import RankingBatch, is_relevant, required_fact, retrieved
from spark_rankeval.ranking.user_lists import BoolArray, FloatArray, IntArray, position_within, starts_of_runs

#: How intents are weighted: alike, or by how many of the user's labels are relevant for each.
Weights = Literal["uniform", "share"]


class RelevantIntents(NamedTuple):
    """All pairs of a label and an intent for which the label is relevant, in the order of `Intents`.

    A slot is one intent of one user. Slots are numbered by user, and then in the order of the intents' names.

    Attributes:
        user: int64, whose label.
        label: int64, its index among all labels.
        rank: int64, of the item in the list; 0 if it is not there.
        slot: int64, the intent of the user.
        user_of_slot: int64, whose intent each slot is.
        n_labels: int64, how many labels are relevant for the intent of each slot.
        n_intents: int64 (n_users,), how many intents any of the user's labels is relevant for.
    """

    user: IntArray
    label: IntArray
    rank: IntArray
    slot: IntArray
    user_of_slot: IntArray
    n_labels: IntArray
    n_intents: IntArray

    def weights(self, kind: Weights) -> FloatArray:
        """The weight of each slot, up to one factor per user: whole numbers."""
        return np.ones(len(self.n_labels)) if kind == "uniform" else self.n_labels.astype(np.float64)


class GainingPlaces(NamedTuple):
    """The places of lists whose items are relevant for any intent, by user and then by rank.

    Attributes:
        user: int64, whose list.
        rank: int64, from 1.
        gain: float64, up to one factor per user.
    """

    user: IntArray
    rank: IntArray
    gain: FloatArray


class PlacedIntents(NamedTuple):
    """The relevant intents whose item is in the list: by user, then by rank, then by intent.

    Attributes:
        user: int64, whose list.
        rank: int64, from 1.
        slot: int64, the user's intent.
        nth: int64, how many items above it are relevant for the same intent.
    """

    user: IntArray
    rank: IntArray
    slot: IntArray
    nth: IntArray


def relevant_intents(batch: RankingBatch, threshold: float | None) -> RelevantIntents:
    """The intents that labels are relevant for."""

    def find() -> RelevantIntents:
        intents = required_fact(batch.intents)
        relevant = is_relevant(intents.grade, threshold)
        user, code = intents.user[relevant], intents.code[relevant]
        n_codes = int(code.max(initial=0)) + 1
        different, slot, n_labels = np.unique(user * n_codes + code, return_inverse=True, return_counts=True)
        user_of_slot = different // n_codes
        return RelevantIntents(
            user=user,
            label=intents.label[relevant],
            rank=intents.rank[relevant],
            slot=slot,
            user_of_slot=user_of_slot,
            n_labels=n_labels,
            n_intents=np.bincount(user_of_slot, minlength=batch.n_users),
        )

    return batch.remember(("relevant intents", threshold), find)


def placed_intents(batch: RankingBatch, threshold: float | None) -> PlacedIntents:
    """The relevant intents whose items are in the lists, with how often each was met above."""

    def find() -> PlacedIntents:
        intents = relevant_intents(batch, threshold)
        placed = np.flatnonzero(intents.rank)
        user, rank, slot = intents.user[placed], intents.rank[placed], intents.slot[placed]
        order = np.lexsort((slot, rank, user))
        user, rank, slot = user[order], rank[order], slot[order]
        by_slot = np.argsort(slot, kind="stable")
        nth = np.empty(len(slot), np.int64)
        nth[by_slot] = position_within(slot[by_slot], len(intents.n_labels))
        return PlacedIntents(user, rank, slot, nth)

    return batch.remember(("placed intents", threshold), find)


def novel_gains(batch: RankingBatch, threshold: float | None, kind: Weights, alpha: float) -> GainingPlaces:
    """The gain of each place: the sum over its intents of the weight times (1 − α)^nth."""

    def find() -> GainingPlaces:
        placed = placed_intents(batch, threshold)
        weight = relevant_intents(batch, threshold).weights(kind)[placed.slot]
        first = starts_of_runs(placed.user, placed.rank)
        # Added one after the other, as in the greedy list: a list that equals it then has the same bits.
        gain = _sums(np.cumsum(first) - 1, weight * geometric(1 - alpha)(placed.nth + 1), int(np.count_nonzero(first)))
        return GainingPlaces(placed.user[first], placed.rank[first], gain)

    return batch.remember(("novel gains", threshold, kind, alpha), find)


def _sums(entry: IntArray, values: FloatArray, n_entries: int) -> FloatArray:
    """The sum of the values of each entry, added one after the other; float64 (n_entries,)."""
    return np.bincount(entry, values, n_entries).astype(np.float64, copy=False)


class GreedyList:
    """Each user's labels in greedy order: every place has the label that gains most after those above it.

    Of labels of equal gain the one of the highest item comes first, as in ndeval. Places are added when they are needed, for all users at
    once.
    """

    def __init__(self, intents: RelevantIntents, kind: Weights, alpha: float) -> None:
        self._decay = 1 - alpha
        self._gain = intents.weights(kind)  # of each slot: what the next label for it gains
        self._n_users = len(intents.n_intents)
        self._places: list[tuple[IntArray, FloatArray]] = []  # the users that have a label at this place, and its gain
        first = starts_of_runs(intents.label)
        # Of each pair of a label that is left and an intent.
        self._label, self._slot = np.cumsum(first) - 1, intents.slot
        self._user = intents.user[first]  # of each label that is left
        self._is_taken = np.zeros(len(self._user), np.bool_)

    def worth(self, discount: Discount, depth: int | None) -> FloatArray:
        """The sum of the gains of the first `depth` places times their discounts, up to one factor per user; float64 (n_users,)."""
        while (depth is None or len(self._places) < depth) and len(self._user):
            self._add_place()
        places = self._places[:depth]
        worth, weight = np.zeros(self._n_users), discount.up_to(len(places))
        for rank, (users, gains) in enumerate(places, start=1):
            worth[users] += gains * weight[rank]
        return worth

    def _add_place(self) -> None:
        gains = _sums(self._label, self._gain[self._slot], len(self._user))
        gains[self._is_taken] = -1.0  # less than any label gains
        start = np.flatnonzero(starts_of_runs(self._user))
        best = np.maximum.reduceat(gains, start)
        # The first of a user's labels that has the greatest gain.
        has_best = np.flatnonzero(gains == np.repeat(best, np.diff(np.append(start, len(gains)))))
        chosen = has_best[starts_of_runs(self._user[has_best])][best >= 0]
        users = self._user[chosen]
        if len(users):
            self._places.append((users, gains[chosen]))
        self._is_taken[chosen] = True
        is_chosen = np.zeros(len(gains), np.bool_)
        is_chosen[chosen] = True
        # One label was chosen per user, so no slot occurs twice: `*=` would ignore repeats.
        self._gain[self._slot[is_chosen[self._label]]] *= self._decay
        if 2 * np.count_nonzero(self._is_taken) >= len(gains):
            is_left = ~self._is_taken
            pair_is_left = is_left[self._label]
            self._label, self._slot = (np.cumsum(is_left) - 1)[self._label[pair_is_left]], self._slot[pair_is_left]
            self._user, self._is_taken = self._user[is_left], self._is_taken[is_left]


# Beyond so many halvings a term is less than half of the last bit of a sum that begins with 1.
_HALVINGS = 80


class IntentMetric(RelevanceMetric):
    """A metric of the intents that items are relevant for; NaN without a label that is relevant for any."""

    value_range = (0.0, 1.0)
    sees = "intents"
    facts = frozenset({"intents"})

    def _intents(self, batch: RankingBatch) -> RelevantIntents:
        return relevant_intents(batch, self.threshold)

    def _placed(self, batch: RankingBatch) -> PlacedIntents:
        return placed_intents(batch, self.threshold)

    def _within(self, placed: PlacedIntents | GainingPlaces) -> BoolArray | None:
        return None if self.k is None else placed.rank <= self.k

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        return self._intents(batch).n_intents > 0


class WeightedIntents(IntentMetric):
    """A sum over intents, each with a weight."""

    intent_weights: Weights = parameter(
        "uniform",
        choices=("uniform", "share"),
        doc="the weight of an intent: the same for each, or by how many of the user's labels are relevant for it",
    )

    def _total_weight(self, batch: RankingBatch) -> FloatArray:
        intents = self._intents(batch)
        return _sums(intents.user_of_slot, intents.weights(self.intent_weights), batch.n_users)


class NovelGains(WeightedIntents):
    """A discounted sum of gains that fade with each further item for the same intent."""

    alpha: float = parameter(
        0.5,
        check=number(0, 1, what="a number from 0 to 1"),
        doc="how much of an intent one relevant item settles: a further one gains (1 − α) times as much",
    )

    def _discount(self) -> Discount:
        return DISCOUNTS["log2"]

    def _sum(self, batch: RankingBatch) -> FloatArray:
        """Σ_r G(r)·d(r), up to a factor of the user's."""
        places = novel_gains(batch, self.threshold, self.intent_weights, self.alpha)
        return batch.total(places.user, places.gain * self._discount()(places.rank), self._within(places))

    def _share(self, batch: RankingBatch) -> FloatArray:
        """Σ_r G(r)·d(r)."""
        return ratio(self._sum(batch), self._total_weight(batch))

    def _share_of_full(self, batch: RankingBatch) -> FloatArray:
        """Σ_r G(r)·d(r) ÷ that of a list whose items are all relevant for every intent."""
        depth = retrieved(batch, None) if self.k is None else np.full(batch.n_users, self.k)
        deepest = int(depth.max(initial=0))
        fading, discount = geometric(1 - self.alpha).up_to(deepest), self._discount().up_to(deepest)
        full = np.cumsum(fading[: deepest + 1] * discount[: deepest + 1])[depth]
        return ratio(self._share(batch), full)

    def _share_of_greedy(self, batch: RankingBatch, depth: int | None) -> FloatArray:
        """Σ_r G(r)·d(r) ÷ that of the greedy list, down to some depth."""
        # All cutoffs share the greedy lists.
        key = ("greedy list", self.threshold, self.intent_weights, self.alpha)
        greedy = batch.remember(key, lambda: GreedyList(self._intents(batch), self.intent_weights, self.alpha))
        return ratio(self._sum(batch), greedy.worth(self._discount(), depth))


class AlphaDCG(NovelGains):
    """Discounted gain of new intents: Σ_{r≤ρ_k} G(r)·d(r) ÷ Σ_{r≤k} (1 − α)^(r−1)·d(r), d(r) = 1/log2(r + 1).

    G(r) = Σ_i w_i·J_i(r)·(1 − α)^c_i(r). J_i(r) is 1 if the item at rank r is relevant for intent i. Above it
    are c_i(r) such items, and w_i is the weight of the intent. The second sum is that of a list whose items all serve every
    intent; without a cutoff it ends at ρ.
    Between 0 and 1. NaN without a label that is relevant for an intent; 0 without predictions.

    Source: Clarke, Kolla, Cormack, Vechtomova, Ashkan, Büttcher, MacKinnon, Novelty and diversity in information retrieval
    evaluation, SIGIR 2008; divided as by ndeval.
    """

    name = "alpha_dcg"

    def _values(self, batch: RankingBatch) -> FloatArray:
        return self._share_of_full(batch)


class AlphaNDCG(NovelGains):
    """Normalised discounted gain of new intents: Σ_{r≤ρ_k} G(r)·d(r) ÷ the same sum of the greedy list, d(r) = 1/log2(r + 1).

    G is that of `alpha_dcg`. The greedy list has at each place the label of the greatest gain left; of equal ones that of the
    highest item. From 0 up: 1 for the greedy list, and rarely above, as a better list may exist. NaN without a label that is
    relevant for an intent; 0 without predictions.

    Source: Clarke, Kolla, Cormack, Vechtomova, Ashkan, Büttcher, MacKinnon, Novelty and diversity in information retrieval
    evaluation, SIGIR 2008.
    """

    name = "alpha_ndcg"
    value_range = (0.0, math.inf)

    def _values(self, batch: RankingBatch) -> FloatArray:
        return self._share_of_greedy(batch, self.k)


class ERRIA(NovelGains):
    """Intent-aware expected reciprocal rank: Σ_{r≤ρ_k} G(r)/r ÷ Σ_{r≤k} (1 − α)^(r−1)/r.

    G(r) = Σ_i w_i·J_i(r)·(1 − α)^c_i(r). J_i(r) is 1 if the item at rank r is relevant for intent i. Above it
    are c_i(r) such items, and w_i is the weight of the intent. The probability that a relevant item satisfies a user of that
    intent is α. The second sum is that of a list whose items all serve every intent; without a cutoff it ends at ρ. With
    ``scale="probability"`` the first sum is multiplied by α instead, as the paper has it. Between 0 and 1. NaN without a label
    that is relevant for an intent; 0 without predictions.

    Source: Chapelle, Metzler, Zhang, Grinspan, Expected reciprocal rank for graded relevance, CIKM 2009. Chapelle, Ji, Liao,
    Velipasaoglu, Lai, Wu, Intent-based diversification of web search results, Information Retrieval 2011. Divided as by ndeval.
    """

    name = "err_ia"

    scale: str = parameter(
        "full", choices=("full", "probability"), doc="÷ the value of a list whose items serve every intent, or × α"
    )

    def _discount(self) -> Discount:
        return geometric_share(1.0)

    def _values(self, batch: RankingBatch) -> FloatArray:
        return self._share_of_full(batch) if self.scale == "full" else self.alpha * self._share(batch)


class NERRIA(NovelGains):
    """Normalised intent-aware expected reciprocal rank: Σ_{r≤ρ_k} G(r)/r ÷ the same sum of the greedy list.

    G is that of `err_ia`, the greedy list that of `alpha_ndcg`. From 0 up: 1 for the greedy list, and rarely above. NaN
    without a label that is relevant for an intent; 0 without predictions.

    Source: Chapelle, Ji, Liao, Velipasaoglu, Lai, Wu, Intent-based diversification of web search results, Information
    Retrieval 2011; divided as by ndeval.
    """

    name = "nerr_ia"
    value_range = (0.0, math.inf)

    def _discount(self) -> Discount:
        return geometric_share(1.0)

    def _values(self, batch: RankingBatch) -> FloatArray:
        return self._share_of_greedy(batch, self.k)


class PatientGains(NovelGains):
    """Gains that a reader sees who goes on to the next rank with probability β."""

    beta: float = parameter(
        0.5,
        check=number(0, 1, what="a number from 0 to below 1", open_high=True),
        doc="the probability that the reader goes on to the next rank",
    )

    def _discount(self) -> Discount:
        return geometric(self.beta)


class NRBP(PatientGains):
    """Novelty- and rank-biased precision: (1 − (1 − α)β)·Σ_{r≤ρ_k} G(r)·β^(r−1).

    G is that of `alpha_dcg`, and β the probability that a reader goes on to the next rank. Between 0 and 1, which an endless list
    reaches whose items all serve every intent. NaN without a label that is relevant for an intent; 0 without predictions.

    Source: Clarke, Kolla, Vechtomova, An effectiveness measure for ambiguous and underspecified queries, ICTIR 2009.
    """

    name = "nrbp"

    def _values(self, batch: RankingBatch) -> FloatArray:
        return (1 - (1 - self.alpha) * self.beta) * self._share(batch)


class NNRBP(PatientGains):
    """Normalised novelty- and rank-biased precision: Σ_{r≤ρ_k} G(r)·β^(r−1) ÷ the same sum of the greedy list.

    G and β are those of `nrbp`, the greedy list that of `alpha_ndcg`. From 0 up: 1 for the greedy list, and rarely above. NaN
    without a label that is relevant for an intent; 0 without predictions.

    Source: Clarke, Kolla, Vechtomova, An effectiveness measure for ambiguous and underspecified queries, ICTIR 2009; divided
    as by ndeval.
    """

    name = "nnrbp"
    value_range = (0.0, math.inf)

    def _values(self, batch: RankingBatch) -> FloatArray:
        # The greedy list's gains never grow, so what stands further down changes no bit of the sum.
        seen = 1 if self.beta == 0 else 1 + math.ceil(-_HALVINGS / math.log2(self.beta))
        return self._share_of_greedy(batch, seen if self.k is None else min(self.k, seen))


class SubtopicRecall(IntentMetric):
    """The share of the intents that the first k items serve: |{i: J_i(r) = 1 for an r ≤ k}| ÷ |I|.

    J_i(r) is 1 if the item at rank r is relevant for intent i, and I has the intents that any label is relevant for. Between
    0 and 1. NaN without a label that is relevant for an intent; 0 without predictions.

    Source: Zhai, Cohen, Lafferty, Beyond independent relevance, SIGIR 2003.
    """

    name = "s_recall"
    aliases = ("strec", "subtopic_recall", "intent_recall")

    def _values(self, batch: RankingBatch) -> FloatArray:
        placed = self._placed(batch)
        within = self._within(placed)
        first = placed.nth == 0 if within is None else (placed.nth == 0) & within
        return ratio(np.bincount(placed.user[first], minlength=batch.n_users), self._intents(batch).n_intents)


class IntentAwarePrecision(WeightedIntents):
    """The precision for each intent, weighted by w_i: Σ_i w_i·Σ_{r≤ρ_k} J_i(r) ÷ k; without a cutoff ÷ ρ.

    J_i(r) is 1 if the item at rank r is relevant for intent i. Between 0 and 1. NaN without a label that is relevant for an
    intent; 0 without predictions.

    Source: Agrawal, Gollapudi, Halverson, Ieong, Diversifying search results, WSDM 2009; with equal weights as in ndeval.
    """

    name = "precision_ia"
    aliases = ("p_ia", "intent_aware_precision")

    def _values(self, batch: RankingBatch) -> FloatArray:
        placed = self._placed(batch)
        weights = self._intents(batch).weights(self.intent_weights)[placed.slot]
        places = retrieved(batch, None) if self.k is None else self.k
        return ratio(batch.total(placed.user, weights, self._within(placed)), places * self._total_weight(batch))


class IntentAwareAP(WeightedIntents):
    """The average precision for each intent, weighted by w_i: Σ_i w_i·(1/n_i)·Σ_{r≤ρ_k} J_i(r)·(c_i(r) + 1)/r.

    J_i(r) is 1 if the item at rank r is relevant for intent i. Above it are c_i(r) such items, and n_i labels are relevant for i.
    Between 0 and 1. NaN without a label that is relevant for an intent; 0 without predictions. Its mean is MAP-IA.

    Source: Agrawal, Gollapudi, Halverson, Ieong, Diversifying search results, WSDM 2009; with equal weights as in ndeval.
    """

    name = "ap_ia"
    aliases = ("map_ia", "intent_aware_ap")

    def _values(self, batch: RankingBatch) -> FloatArray:
        placed, intents = self._placed(batch), self._intents(batch)
        weights = (intents.weights(self.intent_weights) / intents.n_labels)[placed.slot]
        precisions = (placed.nth + 1) / placed.rank
        return ratio(batch.total(placed.user, weights * precisions, self._within(placed)), self._total_weight(batch))
