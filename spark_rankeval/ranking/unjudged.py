"""Ranked lists as they would be if items without a label had one: what bounds of metrics are computed of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.ragged import BoolArray, IntArray, Ragged, offsets_of


def with_judged_items(batch: RankingBatch, grade: float, first: int = 1, last: int | None = None) -> RankingBatch:
    """The lists in which every item without a label, from the rank `first` to the rank `last`, has a label of this grade.

    Each rank without a label is taken for another item, so no list may repeat such an item.

    Args:
        batch: the lists.
        grade: of the items without a label.
        first: the rank of the first of these items.
        last: the rank of the last one; None: that of the list.
    """
    return batch.remember(("judged", grade, first, last), lambda: _with_judged_items(batch, grade, first, last))


def _with_judged_items(batch: RankingBatch, grade: float, first: int, last: int | None) -> RankingBatch:
    length = batch.n_predictions if last is None else np.minimum(batch.n_predictions, last)
    user, rank = _unlabelled(batch, length)
    is_chosen = rank >= first
    user, rank = user[is_chosen], rank[is_chosen]
    if not len(user):
        return batch
    users, ranks = np.concatenate([batch.user, user]), np.concatenate([batch.rank, rank])
    order = np.lexsort((ranks, users))
    ranks, grades = ranks[order], np.full(len(user), grade)
    labels = batch.labels
    label_order = np.argsort(np.concatenate([labels.user, user]), kind="stable")
    lengths = labels.lengths + np.bincount(user, minlength=batch.n_users)
    return replace(
        batch,
        user=users[order],
        rank=ranks,
        grade=np.concatenate([batch.grade, grades])[order],
        score=-ranks.astype(np.float64),
        tied_above=ranks - 1,
        tied=np.ones(len(ranks), np.int64),
        labels=Ragged(np.concatenate([labels.values, grades])[label_order], offsets_of(lengths)),
        raw_labels=None,
        recommended=None,
        extra_values={},
        label_extra_values={},
        intents=None,
        label=None,
    )


def _unlabelled(batch: RankingBatch, length: IntArray) -> tuple[IntArray, IntArray]:
    """The users and the ranks of the items without a label in the first places of each list, by user and then by rank."""
    start = offsets_of(length)
    is_unlabelled: BoolArray = np.ones(int(start[-1]), np.bool_)
    within = batch.rank <= length[batch.user]
    is_unlabelled[start[batch.user[within]] + batch.rank[within] - 1] = False
    place = np.flatnonzero(is_unlabelled)
    user = np.repeat(np.arange(batch.n_users), length)[place]
    return user, place - start[user] + 1
