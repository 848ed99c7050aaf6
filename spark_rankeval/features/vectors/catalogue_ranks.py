"""The ranks of labelled items among all items of a catalogue, and the first items: exact, whatever the matrix products round.

Products in float32 find the ranks. Exact scores decide between items that are closer than the products' error bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from spark_rankeval.features.vectors.catalogue import ScoredUserVectors
from spark_rankeval.ranking.lists import Ties
from spark_rankeval.ranking.matching import contained
from spark_rankeval.ranking.ragged import Array, BoolArray, FloatArray, IntArray, Ragged, offsets_of, position_within

# A block of products has at most so many cells, 16 MB, and so many users. It stays in a processor's cache while it is looked through, and
# more users make a matrix product no faster.
_RANKED_CELLS, _USERS = 1 << 22, 32
# Items whose order the products leave open are decided when there are so many.
_WAITING = 1 << 14
# With more labels than this, a user's products are sorted once instead of being compared with each label.
_COMPARED_LABELS = 24
# A user with more items than this within the bound gets the exact scores of all items.
_FEW_NEAR = 2048
# So many products are looked at to guess above which the first items are.
_SAMPLED = 1024
_NOTHING = np.float32(-np.inf)


class Limits(NamedTuple):
    """Which items of the catalogue are in each user's list, by their indices.

    Attributes:
        has_list: bool (n_users,), who has a list at all.
        excluded: the items that the list leaves out, each once; None: none.
        candidates: the only items that it may have, each once; None: all.
    """

    has_list: BoolArray
    excluded: Ragged | None = None
    candidates: Ragged | None = None

    def n_excluded(self) -> IntArray:
        """How many items each list lost; int64 (n_users,)."""
        if self.excluded is None:
            return np.zeros(len(self.has_list), np.int64)
        lost = self.has_list[self.excluded.user]
        if self.candidates is not None:
            lost &= contained(self.excluded, self.candidates)
        return np.bincount(self.excluded.user[lost], minlength=len(self.has_list))

    def lengths(self, n_items: int) -> IntArray:
        """How many items each list has; int64 (n_users,)."""
        whole = n_items if self.candidates is None else self.candidates.lengths
        return np.where(self.has_list, whole - self.n_excluded(), 0)

    def has(self, items: Ragged) -> BoolArray:
        """Which items are in the lists of their users; −1 is none."""
        inside = (items.values >= 0) & self.has_list[items.user]
        if self.candidates is not None:
            inside &= contained(items, self.candidates)
        if self.excluded is not None:
            inside &= ~contained(items, self.excluded)
        return inside


class Ranks(NamedTuple):
    """Where the ranked items stand in the lists of their users; one entry per item.

    Attributes:
        is_ranked: whether the list has the item. What follows is 0 if not.
        rank: int64, from 1.
        above: int64, how many items of the list have a higher score.
        tied: int64, how many have the same, the item included.
        score: float64.
        first: the first items of every list, by their indices; None if `first` was 0.
        first_scores: float64, their scores.
    """

    is_ranked: BoolArray
    rank: IntArray
    above: IntArray
    tied: IntArray
    score: FloatArray
    first: Ragged | None = None
    first_scores: FloatArray | None = None


def rank_items(
    users: ScoredUserVectors, items: Ragged, limits: Limits, ties: Ties = "item_asc", first: int = 0
) -> Ranks:
    """The ranks of each user's `items`, given by their indices in the catalogue, and the `first` items of every list.

    Equal scores are ordered by the items' indices: ``item_asc``, or ``item_desc``.
    """
    is_ranked = limits.has(items)
    ranked = items.where(is_ranked)
    score = users.exact(ranked.user, ranked.values)
    counts = _Counts.start(users, ranked, score)
    firsts = _count_blocks(users, counts, limits, ties, first)
    # Of those that score the same, the item itself is neither before nor behind.
    before = counts.tied - 1 - counts.before if ties == "item_desc" else counts.before

    def spread(values: Array) -> Array:
        whole = np.zeros(len(is_ranked), values.dtype)
        whole[is_ranked] = values
        return whole

    ranks = Ranks(
        is_ranked, spread(1 + counts.above + before), spread(counts.above), spread(counts.tied), spread(score)
    )
    if not first:
        return ranks
    lengths = np.bincount(firsts.user, minlength=len(limits.has_list))
    return ranks._replace(first=Ragged(firsts.item, offsets_of(lengths)), first_scores=firsts.score)


def _count_blocks(users: ScoredUserVectors, counts: _Counts, limits: Limits, ties: Ties, first: int) -> _Firsts:
    """Count what stands around the ranked items, block by block, and choose the `first` items of every list."""
    none = np.empty(0, np.int64)
    chosen: list[tuple[IntArray, IntArray]] = []
    settled = [_Firsts(none, none, np.empty(0))]
    has_work = limits.has_list if first else counts.ranked.lengths > 0
    for rows, start, products in _blocks(users, np.flatnonzero(has_work), limits):
        for row, user in zip(products, rows.tolist(), strict=True):
            about = users.about(user, start, row)
            counts.add(user, start, about)
            if first:
                indices = _first_indices(about, first, users.error[user])
                if len(indices) > first + _FEW_NEAR:
                    scores = users.exact_of_all(user, start, start + len(row))[indices]
                    indices = _best(indices, scores, first, ties)
                chosen.append((np.full(len(indices), user), indices + start))
        if counts.n_near > _WAITING:
            counts.decide()
        if first and start + products.shape[1] == users.catalogue.n_items:
            # These users have no more items to come.
            settled.append(_first(users, chosen, first, ties))
            chosen.clear()
    counts.decide()
    return _Firsts(*map(np.concatenate, zip(*settled, strict=True)))


def _blocks(users: ScoredUserVectors, rows: IntArray, limits: Limits) -> Iterator[tuple[IntArray, int, Array]]:
    """Some users, the index of an item, and these users' products with it and the following ones; −∞ for what is in no list."""
    catalogue = users.catalogue
    n_users = min(_USERS, max(1, len(rows)))
    width = max(1, min(_RANKED_CELLS // n_users, catalogue.n_items))
    for low in range(0, len(rows), n_users):
        some = rows[low : low + n_users]
        for start in range(0, catalogue.n_items, width):
            # Of finite numbers: a library for products may read beyond the end of a row, and warn of what it does not use.
            with np.errstate(invalid="ignore"):
                products = users.approximate[some] @ catalogue.approximate[:, start : start + width]
            if limits.candidates is not None:
                others = np.ones(products.shape, np.bool_)
                others[_cells(limits.candidates, some, start, products.shape[1])] = False
                products[others] = _NOTHING
            if limits.excluded is not None:
                products[_cells(limits.excluded, some, start, products.shape[1])] = _NOTHING
            yield some, start, products


def _cells(items: Ragged, users: IntArray, start: int, width: int) -> tuple[IntArray, IntArray]:
    """Where the items of some users are in a block: rows and columns."""
    lengths = items.lengths[users]
    row = np.repeat(np.arange(len(users)), lengths)
    column = items.values[items.offsets[users][row] + position_within(row, len(users))] - start
    inside = (column >= 0) & (column < width)
    return row[inside], column[inside]


@dataclass(eq=False)
class _Counts:
    """How many items score higher than each ranked one, the same, and the same before it: counted block by block."""

    users: ScoredUserVectors
    ranked: Ragged  # the indices of items in the lists of their users
    score: FloatArray  # theirs, as of `ScoredUserVectors.exact`
    low: Array  # of the type of `ScoredUserVectors.about`, the lowest that may be of an item that scores the same; and the highest one
    high: Array
    above: IntArray
    tied: IntArray
    before: IntArray
    # Entries and items whose order the products leave open.
    near: list[tuple[IntArray, IntArray]] = field(default_factory=list)
    n_near: int = 0

    @classmethod
    def start(cls, users: ScoredUserVectors, ranked: Ragged, score: FloatArray) -> _Counts:
        user = ranked.user
        about, error = users.as_about(user, score), users.error[user]
        kind = np.float32 if users.catalogue.is_plain else np.float64
        with np.errstate(over="ignore"):
            # Rounded outwards.
            low = np.nextafter((about - error).astype(kind), kind(-np.inf))
            high = np.nextafter((about + error).astype(kind), kind(np.inf))
        none = np.zeros(len(user), np.int64)
        # What is in no list is −∞, and below every bound.
        low = np.maximum(low, np.finfo(kind).min)
        return cls(users, ranked, score, low, high, none, none.copy(), none.copy())

    def add(self, user: int, start: int, products: Array) -> None:
        """Count among what a user's scores of the items from an index on are about."""
        entries = np.arange(*self.ranked.offsets[user : user + 2])
        if not len(entries):
            return
        index = self.ranked.values[entries]
        is_here = (index >= start) & (index < start + len(products))
        look = _sorted if len(entries) > _COMPARED_LABELS else _compared
        around = look(products, self.low[entries], self.high[entries], is_here)
        if around is None:
            self._count_exactly(user, entries, start, products)
            return
        self.above[entries] += around.n_above
        self.tied[entries[around.is_alone]] += 1
        for row, items in around.near:
            self.near.append((np.full(len(items), entries[row]), items + start))
            self.n_near += len(items)

    def _count_exactly(self, user: int, entries: IntArray, start: int, products: Array) -> None:
        listed = np.flatnonzero(products > _NOTHING)
        scores = self.users.exact_of_all(user, start, start + len(products))[listed]
        # Equal scores stay in the order of their indices.
        order = np.argsort(scores, kind="stable")
        ascending, indices = scores[order], listed[order] + start
        lowest, end = (np.searchsorted(ascending, self.score[entries], side) for side in ("left", "right"))
        self.above[entries] += len(listed) - end
        self.tied[entries] += end - lowest
        for entry, low, high in zip(entries, lowest, end, strict=True):
            self.before[entry] += np.searchsorted(indices[low:high], self.ranked.values[entry])

    def decide(self) -> None:
        """Count what the products left open."""
        if self.near:
            entries, items = map(np.concatenate, zip(*self.near, strict=True))
            self._count(entries, items, self.users.exact(self.ranked.user[entries], items))
            self.near.clear()
            self.n_near = 0

    def _count(self, entries: IntArray, items: IntArray, scores: FloatArray) -> None:
        own = self.score[entries]
        same = scores == own
        earlier = items < self.ranked.values[entries]
        n_entries = len(self.above)
        self.above += np.bincount(entries[scores > own], minlength=n_entries)
        self.tied += np.bincount(entries[same], minlength=n_entries)
        self.before += np.bincount(entries[same & earlier], minlength=n_entries)


def _first_indices(products: Array, first: int, error: float) -> IntArray:
    """Where the first items of a list are among its products, and a few more: all that the error may have brought down."""
    kind, least_of_all = products.dtype.type, np.finfo(products.dtype).min
    # A guess from a part of the products; if it is too high, all are looked at.
    sample = products[:: max(1, len(products) // _SAMPLED)]
    n_above = min(len(sample), 2 * first * len(sample) // max(1, len(products)) + 4)
    guess = np.partition(sample, len(sample) - n_above)[len(sample) - n_above]
    lowest = np.maximum(guess, least_of_all)
    indices = np.flatnonzero(products >= lowest)
    if len(indices) < first and lowest > least_of_all:
        lowest = least_of_all
        if len(products) > first:
            lowest = np.maximum(np.partition(products, len(products) - first)[len(products) - first], least_of_all)
        indices = np.flatnonzero(products >= lowest)
    if len(indices) <= first:
        least = least_of_all if len(indices) < first else float(products[indices].min())
    else:
        candidates = products[indices]
        least = float(np.partition(candidates, len(candidates) - first)[len(candidates) - first])
    # At least `first` items have exact scores of at least `least` − error. An item that belongs to the first has such a score, too.
    # Then its product is at least `least` − 2 · error.
    with np.errstate(over="ignore"):
        enough = np.maximum(np.nextafter(kind(least - 2 * error), kind(-np.inf)), least_of_all)
    return np.flatnonzero(products >= enough) if enough < lowest else indices[products[indices] >= enough]


def _best(indices: IntArray, scores: FloatArray, first: int, ties: Ties) -> IntArray:
    """The `first` items that score highest, of some items in the order of their indices."""
    least = np.partition(scores, len(scores) - first)[len(scores) - first]
    above, tied = indices[scores > least], indices[scores == least]
    n_tied = first - len(above)
    return np.concatenate([above, tied[-n_tied:] if ties == "item_desc" else tied[:n_tied]])


class _Around(NamedTuple):
    """What products say of the items around some ranked ones."""

    n_above: IntArray  # how many are above each for certain
    is_alone: BoolArray  # whether nothing but the ranked item itself is near it
    near: list[tuple[int, IntArray]]  # the indices of the items near a ranked one, for those that are not alone


def _compared(products: Array, low: Array, high: Array, is_here: BoolArray) -> _Around | None:
    """What is around each ranked item, between two bounds, by comparing all products with them; None: too much is."""
    around = _Around(np.zeros(len(low), np.int64), np.zeros(len(low), np.bool_), [])
    # One ranked item after the other: the marks of all of them would not stay in a core's cache.
    reached, above = np.empty(len(products), np.bool_), np.empty(len(products), np.bool_)
    total = 0
    for row in range(len(low)):
        np.less_equal(low[row], products, out=reached)
        np.less(high[row], products, out=above)
        around.n_above[row] = np.count_nonzero(above)
        n_near = int(np.count_nonzero(reached) - around.n_above[row])
        total += n_near
        if total > _FEW_NEAR:
            return None
        around.is_alone[row] = is_here[row] and n_near == 1
        if n_near and not around.is_alone[row]:
            # What is above is reached.
            around.near.append((row, np.flatnonzero(reached ^ above)))
    return around


def _sorted(products: Array, low: Array, high: Array, is_here: BoolArray) -> _Around | None:
    """The same by sorting the products, which is faster with many ranked items."""
    ascending = np.sort(products)
    n_above = len(products) - np.searchsorted(ascending, high, "right")
    n_near = len(products) - np.searchsorted(ascending, low, "left") - n_above
    if n_near.sum() > _FEW_NEAR:
        return None
    is_alone = is_here & (n_near == 1)
    rows = np.flatnonzero((n_near > 0) & ~is_alone).tolist()
    near = [(row, np.flatnonzero((products >= low[row]) & (products <= high[row]))) for row in rows]
    return _Around(n_above, is_alone, near)


class _Firsts(NamedTuple):
    """The first items of some users' lists, user by user and best first."""

    user: IntArray
    item: IntArray
    score: FloatArray


def _first(users: ScoredUserVectors, chosen: list[tuple[IntArray, IntArray]], first: int, ties: Ties) -> _Firsts:
    """The first of some items of each user, in the order of exact scores."""
    user, item = map(np.concatenate, zip(*chosen, strict=True))
    score = users.exact(user, item)
    order = np.lexsort((-item if ties == "item_desc" else item, -score, user))
    kept = order[position_within(user[order], len(users.bias)) < first]
    return _Firsts(user[kept], item[kept], score[kept])
