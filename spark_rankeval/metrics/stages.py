"""Metrics of one stage of a funnel, and of a model that may give no answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np

from spark_rankeval.checks import is_cutoff, problem_of_numbers, read_numbers
from spark_rankeval.errors import MetricError
from spark_rankeval.metrics.base import UNSET, ListMetric, Metric, Reads, RelevanceMetric, Unset, parameter, ratio
from spark_rankeval.ranking.batch import RANK, RankingBatch, is_relevant, rank_in_model
from spark_rankeval.ranking.user_lists import BoolArray, FloatArray, Ragged


class NoValue(Metric):
    """Stands in for a metric in the views of models that do not need it. No user has a value, and no list is read."""

    needs = "predictions"

    def __post_init__(self) -> None:
        """It has no name, and cannot be called for."""

    @property
    def reads(self) -> Reads:
        """Nothing."""
        return Reads(depth=1, items="gaining", tie_order=False)

    def _values(self, batch: RankingBatch) -> FloatArray:
        return np.full(batch.n_users, math.nan)

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        return np.ones(batch.n_users, np.bool_)


def _cutoffs(before: Any) -> list[int]:
    """The cutoffs of the models before, in their order; none if their whole lists count."""
    return [] if before is UNSET or before is None else [int(cutoff) for cutoff in read_numbers(before)]


def _as_cutoffs(before: Any) -> int | str:
    cutoffs = _cutoffs(before)
    return cutoffs[0] if len(cutoffs) == 1 else ",".join(map(str, cutoffs))


def _are_cutoffs(numbers: Sequence[float]) -> bool:
    return bool(numbers) and all(number.is_integer() and is_cutoff(int(number)) for number in numbers)


def _is_within(ranks: Ragged, k: int | None) -> BoolArray:
    """Which labelled items stand in the first k places of a list, or anywhere in it."""
    is_within: BoolArray = ranks.values < math.inf if k is None else ranks.values <= k
    return is_within


class StageMetric(RelevanceMetric):
    """A share of the relevant items by their places in this model's list and in those of the models before it."""

    value_range = (0.0, 1.0)
    facts = frozenset({"models_before"})

    before: int | str | Unset | None = parameter(
        None,
        check=lambda before: problem_of_numbers(
            before, "a whole number from 1 on, several such as '100,20', or None", _are_cutoffs
        ),
        canonical=_as_cutoffs,
        doc="how many first places of each model before count, in their order, as '100,20'; the last number is for all models beyond; "
        "None: whole lists",
    )

    @property
    def reads(self) -> Reads:
        """The first places of this model and of those before."""
        cutoffs = _cutoffs(self.before)
        last = None if self.k is None or not cutoffs else max(self.k, *cutoffs)
        return super().reads.but(depth=last)

    def _here(self, batch: RankingBatch) -> BoolArray:
        """Which labelled items stand in the first k places of this model."""
        ranks = batch.label_extra_values.get(RANK)
        if ranks is None:
            msg = f"{self.name} needs the ranks of the models before, which only an evaluation of several models has"
            raise MetricError(msg)
        return _is_within(ranks, self.k)

    def _left(self, batch: RankingBatch) -> BoolArray:
        """Which labelled items stand in the first places of every model before: these none has lost."""
        cutoffs: Sequence[int | None] = _cutoffs(self.before) or [None]
        left = np.ones(len(batch.labels.values), np.bool_)
        for model in count():
            ranks = batch.label_extra_values.get(rank_in_model(model))
            if ranks is None:
                break
            left &= _is_within(ranks, cutoffs[min(model, len(cutoffs) - 1)])
        return left

    def _share(self, batch: RankingBatch, counted: BoolArray) -> FloatArray:
        """The share of the relevant items that counts."""
        counted = counted & is_relevant(batch.labels.values, self.threshold)
        n_counted = np.bincount(batch.labels.user[counted], minlength=batch.n_users)
        return ratio(n_counted, batch.n_relevant(self.threshold))


class Lost(StageMetric):
    """The relevant items in the first places of every model before that are not in the first k of this one, ÷ γ.

    Between 0 and 1. Models stand in the order of the call. The first loses every relevant item that its first k places
    lack, 1 − recall@k. An item is lost at the first model whose first places lack it, and only there. Recall is 1 − what
    this model and those before lost + what this one added. An item that a list has twice counts once. NaN without a
    relevant label. Without predictions a model loses all that no model before has lost.

    Source: the recall of each stage of a cascade, Wang, Lin, Metzler, A cascade ranking model for efficient ranked
    retrieval, SIGIR 2011.
    """

    name = "lost"
    larger_is_better = False

    def _values(self, batch: RankingBatch) -> FloatArray:
        return self._share(batch, self._left(batch) & ~self._here(batch))


class Added(StageMetric):
    """The relevant items in the first k places that some model before has lost, ÷ γ.

    Between 0 and 1. Models stand in the order of the call. The first adds nothing, because there is none before it. An
    item counts at every model that has it again. Recall is 1 − what this model and those before lost + what this one
    added. An item that a list has twice counts once. NaN without a relevant label, 0 without predictions.

    Source: the recall of each stage of a cascade, Wang, Lin, Metzler, A cascade ranking model for efficient ranked
    retrieval, SIGIR 2011.
    """

    name = "added"

    def _values(self, batch: RankingBatch) -> FloatArray:
        return self._share(batch, self._here(batch) & ~self._left(batch))


def _is_empty(batch: RankingBatch) -> FloatArray:
    """1 for users with an empty list, else 0."""
    return np.where(batch.n_predictions == 0, 1.0, 0.0)


class _NoAnswerMetric(Metric):
    """A metric of users who are declared to have no answer."""

    needs = "no_answer"
    covers_no_answer = True
    takes_cutoff = False
    value_range = (0.0, 1.0)

    @property
    def reads(self) -> Reads:
        """Whether anything stands in the first place."""
        return Reads(depth=1, tie_order=False)

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        return np.zeros(batch.n_users, np.bool_) if batch.no_answer is None else batch.no_answer


class Abstention(_NoAnswerMetric):
    """Whether a user without an answer rightly gets nothing: 1 if the list is empty, else 0.

    Between 0 and 1. Its mean is the share of empty lists: empty lists ÷ users without an answer. NaN for users who have
    an answer, or of whom nothing was declared; 1 without predictions.

    Source: Rajpurkar, Jia, Liang, Know what you don't know: unanswerable questions for SQuAD, ACL 2018.
    """

    name = "abstention"
    aliases = ("abstention_rate",)

    def _values(self, batch: RankingBatch) -> FloatArray:
        return _is_empty(batch)


class FalseAlarm(_NoAnswerMetric):
    """Whether a user without an answer wrongly gets something: 1 if the list has an item, else 0.

    Between 0 and 1; smaller is better. Its mean is the share of lists with an item: such lists ÷ users without an answer, which
    is 1 − ``abstention``. NaN for users who have an answer, or of whom nothing was declared; 0 without predictions.

    Source: Rajpurkar, Jia, Liang, Know what you don't know: unanswerable questions for SQuAD, ACL 2018.
    """

    name = "false_alarm"
    aliases = ("false_alarm_rate",)
    larger_is_better = False

    def _values(self, batch: RankingBatch) -> FloatArray:
        return 1.0 - _is_empty(batch)


class FalseAbstention(RelevanceMetric):
    """Whether a user with a relevant label wrongly gets nothing: 1 if the list is empty, else 0.

    Between 0 and 1; smaller is better. Its mean is the share of empty lists: empty lists ÷ users with a relevant label.
    NaN without a relevant label; 1 without predictions.

    Source: Rajpurkar, Jia, Liang, Know what you don't know: unanswerable questions for SQuAD, ACL 2018.
    """

    name = "false_abstention"
    aliases = ("false_abstention_rate",)
    takes_cutoff = False
    larger_is_better = False
    value_range = (0.0, 1.0)

    @property
    def reads(self) -> Reads:
        """Whether anything stands in the first place."""
        return super().reads.but(depth=1, tie_order=False)

    def _values(self, batch: RankingBatch) -> FloatArray:
        return _is_empty(batch)


class Confidence(ListMetric):
    """How sure a model seems of its first k items, by their scores s: the highest, s_1.

    With ``kind="std"`` their standard deviation √(Σ (s_j − s̄)² ÷ ρ_k); with ``kind="diff1"`` the lead of the first over
    the second, s_1 − s_2, which is 0 for a single item. Any number; the other kinds are from 0 up. It does not depend on
    labels, and users without an answer have a value, too. NaN without predictions or with an infinite score.

    Source: Gisserot-Boukhlef et al., Towards trustworthy reranking: a simple yet effective abstention mechanism, TMLR
    2024; MTEB's ``confidence_scores``, which gives an empty list 0: ``undefined="zero"``.
    """

    name = "confidence"
    covers_no_answer = True
    value_range = (-math.inf, math.inf)

    kind: str | Unset = parameter(
        "max",
        choices=("max", "std", "diff1"),
        doc="the highest score, the scores' standard deviation, or the lead of the first over the second",
    )

    @property
    def reads(self) -> Reads:
        """The scores of the first places, whichever items of equal scores stand there."""
        return super().reads.but(scores=True, tie_order=False)

    @property
    def bounds(self) -> tuple[float, float]:
        """Spreads and leads are not negative."""
        return super().bounds if self.kind in ("max", UNSET) else (0.0, math.inf)

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        return super()._is_defined(batch) & np.isfinite(self._values(batch))

    def _values(self, batch: RankingBatch) -> FloatArray:
        recommended = self._recommended(batch)
        score = recommended.score
        if self.kind == "std":
            with np.errstate(invalid="ignore", over="ignore"):
                within, n = recommended.within(self.k), recommended.n_within(self.k)
                mean = ratio(recommended.total(score, within), n)
                return np.sqrt(ratio(recommended.total((score - mean[recommended.user]) ** 2, within), n))
        values = np.zeros(batch.n_users)
        first = recommended.rank == 1
        values[recommended.user[first]] = score[first]
        if self.kind == "diff1":
            second = (recommended.rank == 2) & recommended.within(self.k)
            lead = np.zeros(batch.n_users)
            with np.errstate(invalid="ignore", over="ignore"):
                lead[recommended.user[second]] = values[recommended.user[second]] - score[second]
            return lead
        return values
