"""Ranked lists as they would be if items without a label had one: what bounds of metrics are computed of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.ragged import BoolArray, IntArray, Ragged, offsets_of, position_within

# A user with so many items without a label has bounds that are reached; with more, they are those of so many groups of them.
_STEPS = 20


class OpenItems(NamedTuple):
    """Items without a label, by user and then by rank; int64 each.

    Each rank without a label is taken for another item, so no list may repeat such an item.

    Attributes:
        user: whose list.
        rank: from 1.
    """

    user: IntArray
    rank: IntArray

    def where(self, keep: BoolArray) -> OpenItems:
        """Some of the items."""
        return OpenItems(self.user[keep], self.rank[keep])


def open_items(batch: RankingBatch, last: int | None = None) -> OpenItems:
    """The items without a label down to a rank; None: of the whole lists."""

    def find() -> OpenItems:
        length = batch.n_predictions if last is None else np.minimum(batch.n_predictions, last)
        start = offsets_of(length)
        is_open: BoolArray = np.ones(int(start[-1]), np.bool_)
        within = batch.rank <= length[batch.user]
        is_open[start[batch.user[within]] + batch.rank[within] - 1] = False
        place = np.flatnonzero(is_open)
        user = np.repeat(np.arange(batch.n_users), length)[place]
        return OpenItems(user, place - start[user] + 1)

    return batch.remember(("open items", last), find)


def with_judged_items(batch: RankingBatch, grade: float, first: int = 1, last: int | None = None) -> RankingBatch:
    """The lists in which every item without a label, from one rank to another, has a label of this grade.

    Args:
        batch: the lists.
        grade: of the items without a label.
        first: the rank of the first of these items.
        last: the rank of the last one; None: that of the list.
    """

    def make() -> RankingBatch:
        items = open_items(batch, last)
        return _with_labels(batch, items.where(items.rank >= first), grade)

    return batch.remember(("judged", grade, first, last), make)


class JudgedRange(NamedTuple):
    """The lists if as many of a user's items have a label as a range of numbers says, and the others have none."""

    fewest: RankingBatch
    most: RankingBatch


def with_some_judged(batch: RankingBatch, grade: float, k: int | None, *, lowest: bool) -> Iterator[JudgedRange]:
    """The lists if none, if one, … if all items without a label in the first k places have this grade.

    A user with many such items has ranges of their numbers. The first ones have the grade; for the `lowest` values the last ones have it,
    and so have all items below k.
    """
    items = open_items(batch, None if lowest else k)
    within = np.ones(len(items.rank), np.bool_) if k is None else items.rank <= k
    n_open = np.bincount(items.user[within], minlength=batch.n_users)
    place = np.zeros(len(items.rank), np.int64)
    place[within] = position_within(items.user[within], batch.n_users)
    if lowest:
        place = n_open[items.user] - 1 - place
    steps = min(_STEPS, int(n_open.max(initial=0)))

    below = items.where(~within)

    def judged(n_judged: IntArray) -> RankingBatch:
        return _with_labels(batch, items.where(within & (place < n_judged[items.user])), grade, below)

    def judged_range(step: int) -> JudgedRange:
        fewest = (n_open + 1) * step // (steps + 1)
        most = np.maximum((n_open + 1) * (step + 1) // (steps + 1) - 1, fewest)
        made = judged(fewest)
        return JudgedRange(made, made if bool((most == fewest).all()) else judged(most))

    for step in range(steps + 1):
        yield batch.remember(("some judged", grade, k, lowest, step), partial(judged_range, step))


def _with_labels(
    batch: RankingBatch, items: OpenItems, grade: float, not_listed: OpenItems | None = None
) -> RankingBatch:
    """The lists in which some items without a label have one, and other items have a label and no place in the list."""
    labelled = items.user if not_listed is None else np.concatenate([items.user, not_listed.user])
    if not len(labelled):
        return batch
    user, rank = np.concatenate([batch.user, items.user]), np.concatenate([batch.rank, items.rank])
    # Two parts that are in order each: a stable sort merges them.
    order = np.argsort(user * (int(rank.max(initial=0)) + 1) + rank, kind="stable")
    rank, labels = rank[order], batch.labels
    label_order = np.argsort(np.concatenate([labels.user, labelled]), kind="stable")
    lengths = labels.lengths + np.bincount(labelled, minlength=batch.n_users)
    return replace(
        batch,
        user=user[order],
        rank=rank,
        grade=np.concatenate([batch.grade, np.full(len(items.user), grade)])[order],
        score=-rank.astype(np.float64),
        tied_above=rank - 1,
        tied=np.ones(len(rank), np.int64),
        labels=Ragged(np.concatenate([labels.values, np.full(len(labelled), grade)])[label_order], offsets_of(lengths)),
        raw_labels=None,
        recommended=None,
        extra_values={},
        label_extra_values={},
        intents=None,
        label=None,
    )
