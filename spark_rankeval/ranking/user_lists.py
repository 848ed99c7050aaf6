"""Lists of many users: flat values with offsets, how lists become rankings, and how items meet labels."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

FloatArray = np.ndarray[tuple[int], np.dtype[np.float64]]
IntArray = np.ndarray[tuple[int], np.dtype[np.int64]]
BoolArray = np.ndarray[tuple[int], np.dtype[np.bool_]]
Array = np.ndarray[Any, Any]
T = TypeVar("T")

#: How many cells one comparison of lists may have: what stays in a core's cache.
CELLS = 1 << 17


@dataclass(frozen=True, eq=False)
class Memory:
    """Lists that remember what is computed of them."""

    _memory: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def remember(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` gives of the lists alone, computed once for a key: cutoffs and metrics share their intermediate steps."""
        if key not in self._memory:
            self._memory[key] = make()
        value: T = self._memory[key]
        return value


@dataclass(frozen=True)
class Ragged(Memory):
    """One list per user: user u has ``values[offsets[u]:offsets[u + 1]]``.

    Attributes:
        values: all lists, one after the other; any dtype that compares.
        offsets: int64 (n_users + 1,), from 0 to ``len(values)``.
    """

    values: Array
    offsets: IntArray

    @classmethod
    def from_lists(cls, lists: Sequence[Sequence[Any]], dtype: Any = None) -> Ragged:
        """From one list per user.

        >>> Ragged.from_lists([[3, 1], [], [2]]).offsets.tolist()
        [0, 2, 2, 3]
        """
        offsets = offsets_of(np.fromiter(map(len, lists), np.int64, len(lists)))
        flat = [value for values in lists for value in values]
        return cls(np.asarray(flat, dtype) if flat else np.empty(0, dtype or np.float64), offsets)

    @classmethod
    def concatenate(cls, parts: Sequence[Ragged]) -> Ragged:
        """The lists of several, one after the other."""
        lengths = np.concatenate([part.lengths for part in parts])
        return cls(np.concatenate([part.values for part in parts]), offsets_of(lengths))

    @property
    def n_users(self) -> int:
        """How many lists there are."""
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> IntArray:
        """int64, shape (n_users,)."""
        return np.diff(self.offsets)

    @cached_property
    def user(self) -> IntArray:
        """The user of every value: int64, shape (len(values),)."""
        return np.repeat(np.arange(self.n_users), self.lengths)

    def users(self, start: int, stop: int) -> Ragged:
        """The lists of the users from `start` to before `stop`; a view."""
        low, high = self.offsets[start], self.offsets[stop]
        return Ragged(self.values[low:high], self.offsets[start : stop + 1] - low)

    def where(self, keep: BoolArray) -> Ragged:
        """The lists with only those values for which `keep` (shape of `values`) is true."""
        index = np.flatnonzero(keep)
        return Ragged(self.values[index], np.searchsorted(index, self.offsets))

    def take(self, lists: IntArray) -> Ragged:
        """Some of the lists, each as often as it is named, in the order of `lists`: int64.

        >>> Ragged.from_lists([[3, 1], [], [2]]).take(np.array([2, 0, 2])).values.tolist()
        [2, 3, 1, 2]
        """
        offsets = offsets_of(self.lengths[lists])
        index = np.arange(offsets[-1]) + np.repeat(self.offsets[lists] - offsets[:-1], self.lengths[lists])
        return Ragged(self.values[index], offsets)

    def like(self, values: Array) -> Ragged:
        """Other values in lists of the same lengths."""
        return Ragged(values, self.offsets)

    def lowest(self) -> FloatArray:
        """The smallest value of each list, 0 of an empty one; float64 (n_users,)."""
        return self._reduced(np.minimum, np.zeros(self.n_users))

    def summed(self) -> IntArray:
        """The sum of each list of whole numbers, 0 of an empty one; int64 (n_users,)."""
        return self._reduced(np.add, np.zeros(self.n_users, np.int64))

    def _reduced(self, step: np.ufunc, result: Array) -> Array:
        """The values of each list put together by a step, into an array that has what an empty list gives."""
        filled = np.flatnonzero(self.lengths > 0)
        result[filled] = step.reduceat(self.values, self.offsets[filled])
        return result

    def accumulated(self, step: np.ufunc) -> Ragged:
        """The running result of each list, such as its sums so far for ``np.add``.

        Numpy takes one value of a row after the other, so that neither padding nor the split into batches changes a
        bit.
        """
        running = np.empty_like(self.values)
        for users, width in width_classes(self.lengths):
            self.fill(running, users, step.accumulate(self.matrix(users, width), axis=1))
        return self.like(running)

    def fill(self, values: Array, users: IntArray, rows: Array) -> None:
        """Write rows of users, ascending, into flat values of the lists' lengths; what stands past the end of a list is left out."""
        width, lengths = rows.shape[1], self.lengths[users]
        filled = None if bool((lengths == width).all()) else np.arange(width) < lengths[:, None]
        some = rows.ravel() if filled is None else rows[filled]
        start, stop = self.offsets[users[0]], self.offsets[users[-1] + 1]
        if stop - start == len(some):
            # Nothing stands between these lists.
            values[start:stop] = some
            return
        index = self.offsets[users, None] + np.arange(width)
        values[index.ravel() if filled is None else index[filled]] = some

    def matrix(self, users: IntArray, width: int) -> Array:
        """The lists of some users as rows; places past the end of a list hold any value, to be masked by `lengths`.

        Args:
            users: int64, which lists.
            width: the number of columns, at least the longest of these lists.
        """
        if len(self.values) == width * self.n_users and bool((self.lengths == width).all()):
            rows = self.values.reshape(self.n_users, width)
            every = len(users) == self.n_users and bool((users == np.arange(self.n_users)).all())
            chosen: Array = rows if every else rows[users]
            return chosen
        # A row is copied in one go from where its list begins, which takes a quarter of looking up place after place.
        room = self._with_room if width <= self.longest else _with_room(self.values, width)
        copied: Array = sliding_window_view(room, width)[self.offsets[users]]
        return copied

    def padded(self, users: IntArray, width: int, padding: Any) -> Array:
        """The lists of these users as a matrix, with `padding` past the end of a list."""
        rows, lengths = self.matrix(users, width), self.lengths[users, None]
        if not (lengths == width).all():
            # Rows of different lengths are a copy.
            np.copyto(rows, padding, where=np.arange(width) >= lengths)
        return rows

    @cached_property
    def longest(self) -> int:
        """How many values the longest list has."""
        return int(self.lengths.max(initial=0))

    @cached_property
    def _with_room(self) -> Array:
        return _with_room(self.values, self.longest)


def _with_room(values: Array, width: int) -> Array:
    """The values and so many zeros after them."""
    return np.concatenate([values, np.zeros(width, values.dtype)])


def offsets_of(lengths: Array | Sequence[int]) -> IntArray:
    """The offsets of lists of these lengths."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def joined(parts: Sequence[Any]) -> Any:
    """What several parts of the users have as one: arrays and lists end to end, mappings by key; None if a part has none."""
    if any(part is None for part in parts):
        return None
    if isinstance(parts[0], Mapping):
        return {name: joined([part[name] for part in parts]) for name in parts[0]}
    return Ragged.concatenate(parts) if isinstance(parts[0], Ragged) else np.concatenate(parts)


def joined_indices(parts: Sequence[IntArray], first: IntArray) -> IntArray:
    """Indices in several parts as one array; `first` says how many entries come before each part."""
    return np.concatenate([part + n_before for part, n_before in zip(parts, first, strict=False)])


def grouped(values: Array, sorted_user: IntArray, n_users: int) -> Ragged:
    """Values as one list per user; entries of a user stand together, users ascending."""
    return Ragged(values, offsets_of(np.bincount(sorted_user, minlength=n_users)))


def position_within(sorted_user: IntArray, n_users: int) -> IntArray:
    """The place of every entry among those of its user, from 0; entries of a user stand together, users ascending."""
    starts = offsets_of(np.bincount(sorted_user, minlength=n_users))
    return np.arange(len(sorted_user)) - starts[sorted_user]


def starts_of_runs(*keys: Array) -> BoolArray:
    """Which entries start a run of equal ones; bool, shape of each of the keys, in which equal entries stand together."""
    new = np.zeros(len(keys[0]), np.bool_)
    new[:1] = True
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    return new


class Runs(NamedTuple):
    """The run of equal ones that each entry is in once sorted: int64, how many stand before it; its size."""

    before: IntArray
    size: IntArray


def runs_of(user: IntArray, n_users: int, *keys: Array) -> Runs:
    """The runs of entries with equal keys, sorted by the first key, then the second; in the order of the entries."""
    order = np.lexsort((*keys[::-1], user))
    # A user's entries stand together before they are sorted, too.
    new = starts_of_runs(user, *(key[order] for key in keys))
    starts = np.flatnonzero(new)
    run = np.cumsum(new) - 1
    before, size = np.empty(len(user), np.int64), np.empty(len(user), np.int64)
    before[order] = position_within(user, n_users)[starts][run]
    size[order] = np.diff(np.append(starts, len(user)))[run]
    return Runs(before, size)


def pieces(offsets: IntArray, size: int) -> Iterator[tuple[int, int]]:
    """Consecutive lists of about `size` values together, at least one: the first and the one after the last."""
    n_lists = len(offsets) - 1
    if not n_lists:
        return
    bounds = np.flatnonzero(np.diff(offsets[:-1] // size)) + 1
    yield from itertools.pairwise([0, *bounds.tolist(), n_lists])


def about_equal(lengths: IntArray) -> bool:
    """Whether lists of these lengths fill at least three quarters of a matrix that holds all of them."""
    return int(lengths.sum()) * 4 >= 3 * int(lengths.max(initial=0)) * len(lengths)


def width_classes(lengths: IntArray) -> Iterator[tuple[IntArray, int]]:
    """Users in groups of similar length, so that padding a group to a matrix wastes little.

    Yields:
        the users of a group, ascending, and its longest list. Users with an empty list are in no group.
    """
    longest = int(lengths.max(initial=0))
    if not longest:
        return
    if about_equal(lengths):
        yield np.flatnonzero(lengths), longest
        return
    # Half-octave steps: a list fills at least two thirds of its row.
    step = np.ceil(2 * np.log2(np.maximum(lengths, 1))).astype(np.int64)
    step[lengths == 0] = -1
    order = np.argsort(step, kind="stable")
    bounds = np.flatnonzero(np.diff(step[order])) + 1
    for group in np.split(order, bounds):
        if lengths[group[0]]:
            yield group, int(lengths[group].max())


def width_batches(lengths: IntArray) -> Iterator[tuple[IntArray, int]]:
    """The groups of `width_classes` in batches, so that a matrix of a batch has about `CELLS` cells."""
    for group, width in width_classes(lengths):
        step = max(1, CELLS // width)
        for start in range(0, len(group), step):
            yield group[start : start + step], width


def n_true(flags: Array) -> Array:
    """How many are true in each column; added in the narrowest type that holds the count, which is the fastest."""
    counter = np.uint8 if len(flags) < 256 else np.uint16 if len(flags) < 65536 else np.int64
    counts: Array = np.add.reduce(flags, axis=0, dtype=counter)
    return counts


# Up to these sizes lists of about equal length are compared with one label after the other. That is faster than looking items up.
_COMPARED_LABELS, _COMPARED_ITEMS = 16, 512
# Odd numbers whose multiples spread over the upper bits (Knuth, The Art of Computer Programming 3, section 6.4).
_ITEM_FACTOR_32, _ITEM_FACTOR_64 = np.uint32(0x9E3779B1), np.uint64(0x9E3779B97F4A7C15)
_USER_FACTOR = np.uint32(0x85EBCA77)
# A table of labels has at least so many slots per label, and at most two to this power slots.
_SLOTS_PER_LABEL, _LARGEST_TABLE = 16, 24


class Matches(NamedTuple):
    """Pairs of a prediction and the label of the same user and item, as int64 indices into the flat values."""

    prediction: IntArray
    label: IntArray


def match(items: Ragged, labels: Ragged, first: int | None = None) -> Matches:
    """The labelled predictions, in the order of the predictions.

    Args:
        items: every user's predicted items.
        labels: every user's labelled items, each once; of a dtype that compares.
        first: how many items of each list to look at, from its start; None: all.
    """
    is_looked_up = labels.lengths > _COMPARED_LABELS
    if items.longest > _COMPARED_ITEMS or not about_equal(items.lengths):
        is_looked_up = np.ones(items.n_users, np.bool_)
    if is_looked_up.all():
        return _match_by_hashes(items, labels, first)
    parts = _match_by_columns(items, labels, np.where(is_looked_up, 0, items.lengths), first)
    if is_looked_up.any():
        has_item, has_label = is_looked_up[items.user], is_looked_up[labels.user]
        item_entry, label_entry = np.flatnonzero(has_item), np.flatnonzero(has_label)
        part = _match_by_hashes(items.where(has_item), labels.where(has_label), first)
        parts.append(Matches(item_entry[part.prediction], label_entry[part.label]))
    none = np.empty(0, np.int64)
    prediction = np.concatenate([none, *(part.prediction for part in parts)])
    label = np.concatenate([none, *(part.label for part in parts)])
    # Both indices in one number: sorting these is faster than an argsort of one and taking both in its order.
    both = np.sort(prediction << 32 | label)
    return Matches(both >> 32, both & 0xFFFFFFFF)


def _match_by_columns(items: Ragged, labels: Ragged, lengths: IntArray, first: int | None) -> list[Matches]:
    """Compare all lists with their first label, then with their second, and so on: for users with few labels."""
    parts = []
    for group, longest in width_classes(lengths):
        n_labels = labels.lengths[group]
        users, counts = group, n_labels
        if len(group) and n_labels.min() != n_labels.max():
            # Users with the most labels first: those who have an nth label are then the first users.
            order = np.argsort(-n_labels, kind="stable")
            users, counts = group[order], n_labels[order]
        # One row per rank: numpy then compares along the users, who are many, and not along a list, which is short.
        matrix = np.ascontiguousarray(items.matrix(users, longest)[:, :first].T)
        width = len(matrix)
        length = items.lengths[users]
        full = bool((length >= width).all())
        for nth in range(int(counts.max(initial=0))):
            n_users = int(np.searchsorted(-counts, -nth, side="left"))
            label = labels.offsets[users[:n_users]] + nth
            position, user = np.divmod(np.flatnonzero(matrix[:, :n_users] == labels.values[label]), n_users)
            if not full:
                is_item = position < length[user]  # not padding
                position, user = position[is_item], user[is_item]
            parts.append(Matches(items.offsets[users[user]] + position, label[user]))
    return parts


def _match_by_hashes(items: Ragged, labels: Ragged, first: int | None) -> Matches:
    """Look items up in a table of all labels: a few nanoseconds per prediction for any number of labels.

    A label's slot in the table is a hash of its user and item, which are compared if a prediction's slot is taken.
    """
    n_labels = len(labels.values)
    bits = min(max(10, (_SLOTS_PER_LABEL * n_labels).bit_length()), _LARGEST_TABLE)
    dtype = np.result_type(items.values, labels.values)
    slot_of_item, slot_of_label = (_slots(lists, dtype, bits) for lists in (items, labels))
    is_taken = np.zeros(1 << bits, np.bool_)
    is_taken[slot_of_label] = True
    # No slot is outside the table. With mode="wrap" numpy does not check that, which halves the time.
    prediction = np.flatnonzero(is_taken.take(slot_of_item, mode="wrap"))
    if first is not None:
        prediction = prediction[prediction - items.offsets[items.user[prediction]] < first]
    matched_label = np.full(len(prediction), -1)
    label_in_slot = np.empty(1 << bits, np.int32)
    # Labels that share a slot take turns in it.
    unplaced, unplaced_slot = np.arange(n_labels, dtype=np.int32), slot_of_label
    user, item, slot = items.user[prediction], items.values[prediction], slot_of_item[prediction]
    while len(unplaced):
        label_in_slot[unplaced_slot] = unplaced
        label = label_in_slot[slot]
        same = np.flatnonzero((labels.values[label] == item) & (labels.user[label] == user))
        matched_label[same] = label[same]
        displaced = np.flatnonzero(label_in_slot[unplaced_slot] != unplaced)
        unplaced, unplaced_slot = unplaced[displaced], unplaced_slot[displaced]
    matched = matched_label >= 0
    return Matches(prediction[matched], matched_label[matched])


def _slots(lists: Ragged, dtype: np.dtype[Any], bits: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """The slot of every entry in a table of 2^bits slots, from a hash of its user and its item."""
    values = lists.values.astype(dtype, copy=False)
    if dtype.kind == "f":
        # The two zeros are equal and have different bits; adding one of them leaves the other.
        values = values.astype(np.float64, copy=False) + 0.0
    if values.dtype.itemsize == 4:
        slot = values.view(np.uint32) * _ITEM_FACTOR_32
    else:
        slot = (
            values.astype(np.float64 if dtype.kind == "f" else np.int64, copy=False).view(np.uint64) * _ITEM_FACTOR_64
            >> np.uint64(32)
        ).astype(np.uint32)
    slot += np.repeat(np.arange(lists.n_users, dtype=np.uint32) * _USER_FACTOR, lists.lengths)
    slot >>= np.uint32(32 - bits)
    return slot


def contained(items: Ragged, among: Ragged) -> BoolArray:
    """Whether each item of a user is also in the user's list in `among`; bool, one entry per item. Both lists may repeat items."""
    is_contained = np.zeros(len(items.values), np.bool_)
    is_contained[match(items, distinct(among)).prediction] = True
    return is_contained


def distinct(items: Ragged) -> Ragged:
    """Every user's items, each of them once."""
    repeated = repeated_items(items)
    return items.where(first_occurrences(items, repeated)) if len(repeated.values) else items


def repeated_items(items: Ragged) -> Ragged:
    """The items that stand in a user's list more than once, each of them once."""
    users, values = [np.empty(0, np.int64)], [items.values[:0]]
    for group, width in width_batches(items.lengths):
        # Padding sorts to the end, which is not looked at. An item that equals the padding does no harm.
        ordered = np.sort(items.padded(group, width, _largest(items.values.dtype)), axis=1)
        # A fast test first, which takes all rows as one. Rows are looked at apart only if any neighbours are equal, which is rare.
        if (ordered.ravel()[1:] == ordered.ravel()[:-1]).any():
            equal = (ordered[:, 1:] == ordered[:, :-1]) & (np.arange(1, width) < items.lengths[group, None])
            # The first pair of a run of equal ones stands for it.
            equal[:, 1:] &= ~equal[:, :-1]
            row, column = np.nonzero(equal)
            users.append(group[row])
            values.append(ordered[row, column])
    user, value = np.concatenate(users), np.concatenate(values)
    return grouped(value[np.argsort(user, kind="stable")], user, items.n_users)


def _largest(dtype: np.dtype[Any]) -> float | int:
    return np.inf if dtype.kind == "f" else int(np.iinfo(dtype).max)


def first_occurrences(items: Ragged, repeated: Ragged, scores: Ragged | None = None) -> BoolArray:
    """Which entries are the preferred one of their user and item; bool, shape of the values.

    Args:
        items: the lists.
        repeated: their repeated items.
        scores: the highest score is preferred, then the first; None: the first.
    """
    keep = np.ones(len(items.values), np.bool_)
    for group, width in width_classes(np.where(repeated.lengths > 0, items.lengths, 0)):
        order = np.argsort(items.padded(group, width, _largest(items.values.dtype)), axis=1)
        entry = (items.offsets[group, None] + order)[order < items.lengths[group, None]]
        starts = np.flatnonzero(starts_of_runs(items.user[entry], items.values[entry]))
        keep[entry] = False
        if scores is not None:
            score = scores.values[entry]
            best = np.repeat(np.maximum.reduceat(score, starts), np.diff(np.append(starts, len(entry))))
            entry = np.where(score == best, entry, len(keep))
        # The sort leaves equal ones in any order.
        keep[np.minimum.reduceat(entry, starts)] = True
    return keep


Ties = Literal["item_asc", "item_desc", "position"]
Duplicates = Literal["count", "keep_best", "distinct", "each", "once"]
ConflictingLabels = Literal["highest", "last"]


#: The fields of a policy that a metric can set with a parameter of the same name.
LIST_PARAMETERS = ("judged_only", "min_score", "budget", "crossing")


@dataclass(frozen=True)
class RankingPolicy:
    """How raw lists become rankings.

    Attributes:
        ties: how equal scores are ordered.
        duplicates: what becomes of an item that a list has twice. ``count`` only counts it; ``keep_best`` also leaves
            out all but the best ranked one, and ``distinct`` does so without counting; ``each`` takes every occurrence
            as an item of its own; with ``once`` each takes a place, and only the best ranked one can carry a label.
        conflicting_labels: the grade of an item that is labelled more than once.
        score_precision: what scores are rounded to before they compare.
        unpredicted_labels: labelled items that a list lacks are left out, or stand at its end, tied below the lowest
            score. An empty list stays empty.
        judged_only: items without a label, or with a negative grade, are left out before anything else. Those below them move up.
        min_score: items of a lower score are left out; None: none are.
        budget: a list ends before its costs add up to more; None: no list does.
        crossing: whether the item that passes the budget is ``out`` or ``in``.
    """

    ties: Ties = "item_asc"
    duplicates: Duplicates = "count"
    conflicting_labels: ConflictingLabels = "highest"
    score_precision: Literal["float64", "float32"] = "float64"
    unpredicted_labels: Literal["left_out", "last"] = "left_out"
    judged_only: bool = False
    min_score: float | None = None
    budget: float | None = None
    crossing: Literal["out", "in"] = "out"

    @property
    def whole_lists(self) -> RankingPolicy:
        """This policy without what shortens lists; counts are the same under both."""
        whole = RankingPolicy()
        return replace(self, **{name: getattr(whole, name) for name in LIST_PARAMETERS})


#: The fields of raw lists with an entry for each flat item, and those with a list for each user.
FLAT, LISTS = ("matchable", "entry", "costs"), ("items", "scores", "labels", "grades", "intents", "repeated")


@dataclass(frozen=True)
class RawLists:
    """The raw input of many users.

    Attributes:
        items: predicted items. Numbers, or codes that stand for text.
        scores: float64, higher is better; None: lists are ordered best first already.
        labels: labelled items, comparable with `items`.
        grades: float64, the labels' grades; None: 1 each.
        order: maps items to numbers in the order of ids; called only if ties need it. None: items compare so
            themselves.
        matchable: which flat items may carry a label; None: all. The others still take a rank.
        n_predictions: how many items each user really had, if `items` holds only the best of them.
        entry: int64, the place of each flat item among the predictions as they came; None if no metric looks at items.
        costs: float64, what each flat item costs; None: not known.
        extra_values: float64, what labels have beside their grades, by name; see `LABEL_COLUMNS`.
        intents: what labelled items are about; None if no metric looks at it.
        repeated: the items that a list has twice, which several rankings of the lists share; None: not known yet.
        label_place: int64, the place of each flat label among those that came, if some are left out; None: all are there.
    """

    items: Ragged
    scores: Ragged | None
    labels: Ragged
    grades: Ragged | None = None
    order: Callable[[Array], Array] | None = None
    matchable: BoolArray | None = None
    n_predictions: IntArray | None = None
    entry: IntArray | None = None
    costs: FloatArray | None = None
    extra_values: Mapping[str, Ragged] = field(default_factory=dict)
    intents: IntentLists | None = None
    repeated: Ragged | None = None
    label_place: IntArray | None = None

    def where(self, keep: BoolArray) -> RawLists:
        """These lists with only those predictions for which `keep` is true."""
        lists = {name: value.where(keep) for name in ("items", "scores") if (value := getattr(self, name)) is not None}
        flat = {name: value[keep] for name in FLAT if (value := getattr(self, name)) is not None}
        return replace(self, **lists, **flat, repeated=None)

    def with_graded_labels(self) -> RawLists:
        """These lists without labels whose grade is NaN."""
        if self.grades is None or not np.isnan(self.grades.values).any():
            return self
        keep = ~np.isnan(self.grades.values)
        extra_values = {name: values.where(keep) for name, values in self.extra_values.items()}
        place = np.flatnonzero(keep) if self.label_place is None else self.label_place[keep]
        labels, grades = self.labels.where(keep), self.grades.where(keep)
        return replace(self, labels=labels, grades=grades, extra_values=extra_values, label_place=place)

    def users(self, start: int, stop: int) -> RawLists:
        """The lists of the users from `start` to before `stop`."""
        flat, labels = (slice(each.offsets[start], each.offsets[stop]) for each in (self.items, self.labels))
        entries = {**dict.fromkeys(FLAT, flat), "n_predictions": slice(start, stop), "label_place": labels}
        there = {name: value for name, value in vars(self).items() if value is not None}
        parts = {name: there[name][part] for name, part in entries.items() if name in there}
        parts |= {name: there[name].users(start, stop) for name in LISTS if name in there}
        extra_values = {name: lists.users(start, stop) for name, lists in self.extra_values.items()}
        return replace(self, extra_values=extra_values, **parts)


class Labels(NamedTuple):
    """Labels with each item once.

    Attributes:
        items: every user's labelled items.
        entry: int64, the place of each of them among the labels as they came.
        grades: their grades.
        raw_grades: the grades of the label lists as they came, a repeated item with the grade that holds.
        equal: int64 (n_users,), how many labels repeat one of equal grade.
        conflicts: int64 (n_users,), how many repeat one of another grade or another number beside it.
        extra_values: the numbers beside the grades of `items`, by name.
    """

    items: Ragged
    entry: IntArray
    grades: Ragged
    raw_grades: Ragged
    equal: IntArray
    conflicts: IntArray
    extra_values: Mapping[str, Ragged]


def distinct_labels(lists: RawLists, conflicting: ConflictingLabels) -> Labels:
    """Keep one label per item: the grade, and the numbers beside it, that hold for all labels of the item."""
    labels = lists.labels
    grades = labels.like(np.ones(len(labels.values))) if lists.grades is None else lists.grades
    repeated = repeated_items(labels)
    if not len(repeated.values):
        none = np.zeros(labels.n_users, np.int64)
        return Labels(labels, np.arange(len(labels.values)), grades, grades, none, none, lists.extra_values)
    entry = match(labels, repeated).prediction
    user, item, grade = labels.user[entry], labels.values[entry], grades.values[entry]
    preference: Array = np.arange(len(entry)) if conflicting == "last" else grade
    # Of equal grades the highest number beside them holds, so that no order of rows decides.
    order = np.lexsort((*(values.values[entry] for values in lists.extra_values.values()), preference, item, user))
    entry, user, item, grade = entry[order], user[order], item[order], grade[order]
    # The last of a run of equal items has the grade that holds; all before it are repeats of it.
    repeats = (user[:-1] == user[1:]) & (item[:-1] == item[1:])
    differs = repeats & ~((grade[:-1] == grade[1:]) | (np.isnan(grade[:-1]) & np.isnan(grade[1:])))
    for extra in lists.extra_values.values():
        values = extra.values[entry]
        differs |= repeats & (values[:-1] != values[1:])
    keep = np.ones(len(labels.values), np.bool_)
    keep[entry[:-1][repeats]] = False
    last_of_run = np.flatnonzero(np.append(~repeats, True))
    final_grades = grades.values.copy()
    final_grades[entry] = grade[last_of_run][np.searchsorted(last_of_run, np.arange(len(entry)))]
    return Labels(
        items=labels.where(keep),
        entry=np.flatnonzero(keep),
        grades=grades.like(final_grades).where(keep),
        raw_grades=grades.like(final_grades),
        equal=np.bincount(user[:-1][repeats & ~differs], minlength=labels.n_users),
        conflicts=np.bincount(user[:-1][differs], minlength=labels.n_users),
        # What is kept of equal items is the entry that holds.
        extra_values={name: values.where(keep) for name, values in lists.extra_values.items()},
    )


def with_unpredicted(lists: RawLists, labels: Ragged) -> RawLists:
    """The lists, unless they are empty, with the labelled items that they lack at their ends, tied below everything."""
    items = lists.items
    missing = items.lengths[labels.user] > 0
    missing[match(items, labels).label] = False
    missing_labels = labels.where(missing)
    scores = lists.scores
    if scores is None:
        scores = items.like(-position_within(items.user, items.n_users).astype(np.float64))
    lowest = scores.lowest()
    bottomless = np.isneginf(lowest)
    if bottomless.any():
        # Nothing is below −inf: the scores of such lists become their order, with what is equal in it.
        values, among = scores.values.copy(), bottomless[items.user]
        values[among] = np.unique(values[among], return_inverse=True)[1]
        scores, lowest[bottomless] = scores.like(values), 0.0
    below = missing_labels.like(np.nextafter(lowest, -np.inf)[missing_labels.user])
    order = np.argsort(np.concatenate([items.user, missing_labels.user]), kind="stable")
    lengths = items.lengths + missing_labels.lengths

    def joined(item_values: Array, label_values: Array) -> Array:
        both: Array = np.concatenate([item_values, label_values])[order]
        return both

    matchable = lists.matchable
    return replace(
        lists,
        items=Ragged(joined(items.values, missing_labels.values), offsets_of(lengths)),
        scores=Ragged(joined(scores.values, below.values), offsets_of(lengths)),
        matchable=None if matchable is None else joined(matchable, np.ones(len(missing_labels.values), np.bool_)),
        entry=None if lists.entry is None else joined(lists.entry, np.full(len(missing_labels.values), -1)),
        n_predictions=None,
        costs=None,
        repeated=None,
    )


@dataclass(frozen=True)
class IntentLists:
    """The raw pairs of items and intents of many users.

    Attributes:
        items: the item of each pair, comparable with the labelled items.
        code: int64, a number from 0 for each intent, in the order of their names.
        grade: float64, how good the item is for the intent.
    """

    items: Ragged
    code: IntArray
    grade: FloatArray

    def users(self, start: int, stop: int) -> IntentLists:
        """The pairs of the users from `start` to before `stop`."""
        pairs = slice(self.items.offsets[start], self.items.offsets[stop])
        return IntentLists(self.items.users(start, stop), self.code[pairs], self.grade[pairs])


class IntentPairs(NamedTuple):
    """Pairs of labelled items and intents, each once: by user, then the highest item first, then by intent.

    Attributes:
        user: int64, whose label.
        label: int64, the place of the item among the labels of all users.
        code: int64, the intent.
        grade: float64, how good the item is for the intent.
        rank: int64, of the item in the user's list, from 1; 0 if it is not there.
    """

    user: IntArray
    label: IntArray
    code: IntArray
    grade: FloatArray
    rank: IntArray

    @classmethod
    def concatenate(cls, parts: Sequence[IntentPairs], first_user: IntArray, first_label: IntArray) -> IntentPairs:
        """The pairs of several batches of users; `first_user` and `first_label` say how many come before each."""
        users, labels, *others = zip(*parts, strict=True)
        return cls(joined_indices(users, first_user), joined_indices(labels, first_label), *map(joined, others))


class DistinctIntents(NamedTuple):
    """Pairs without repeats, and how many of each user repeat one of equal or of another grade; int64 (n_users,) each.

    Of users whose labels repeat an item, the repeats are counted with the labels.
    """

    intents: IntentPairs | None
    equal: IntArray
    conflicts: IntArray


def distinct_intents(lists: RawLists, labels: Labels, label_of_prediction: IntArray, rank: IntArray) -> DistinctIntents:
    """The intents of the labels, if a metric looks at them; of equal pairs the highest grade holds.

    Args:
        lists: the raw lists.
        labels: their labels, each item once.
        label_of_prediction: the label of each labelled prediction, ordered by user and rank.
        rank: the ranks of these predictions.
    """
    none = np.zeros(labels.items.n_users, np.int64)
    if lists.intents is None:
        return DistinctIntents(None, none, none)
    rank_of_label = np.zeros(len(labels.items.values), np.int64)
    # Of an item that a list has twice, the best rank is written last.
    rank_of_label[label_of_prediction[::-1]] = rank[::-1]
    pair, label = match(lists.intents.items, labels.items)
    code, grade = lists.intents.code[pair], lists.intents.grade[pair]
    n_codes = int(code.max(initial=0)) + 1
    key = _highest_first(lists, labels.items)[label] * n_codes + code
    order = np.lexsort((-grade, key))
    repeats = np.flatnonzero(key[order][1:] == key[order][:-1])
    once = np.delete(order, repeats + 1)
    differs = grade[order[repeats]] != grade[order[repeats + 1]]
    user = labels.items.user[label]
    has_distinct_labels = (lists.labels.lengths == labels.items.lengths)[user[order[repeats]]]
    counts = [
        np.bincount(user[order[repeats[has_distinct_labels & kind]]], minlength=len(none))
        for kind in (~differs, differs)
    ]
    intents = IntentPairs(user[once], label[once], code[once], grade[once], rank_of_label[label[once]])
    return DistinctIntents(intents, *counts)


def _highest_first(lists: RawLists, items: Ragged) -> IntArray:
    """The index of each item if every user's items are sorted from the highest to the lowest; int64."""
    ids = items.values if lists.order is None else lists.order(items.values)
    position = np.empty(len(ids), np.int64)
    position[np.lexsort((ids, items.user))] = position_within(items.user, items.n_users)
    return items.offsets[items.user + 1] - 1 - position


@dataclass(frozen=True)
class ExtraColumn:
    """A number beside the score of a prediction or the grade of a label.

    Attributes:
        wrong: the values that it cannot have, as words, a comparison and a bound, for arrays and Spark's columns. Null
            and NaN are always wrong.
    """

    wrong: tuple[tuple[str, Callable[[Any, Any], Any], float], ...]

    def is_wrong(self, values: Array) -> BoolArray:
        """Which values it cannot have; bool, shape of `values`."""
        wrong: BoolArray = np.isnan(values)
        for _, compare, bound in self.wrong:
            wrong |= compare(values, bound)
        return wrong


#: By the names of the options.
EXTRA_COLUMNS = {
    "weight": ExtraColumn(
        (
            ("negative weight", operator.lt, 0.0),
            ("weight of 0", operator.eq, 0.0),
            ("infinite weight", operator.eq, math.inf),
            # Squares of weights up to this still add up exactly.
            ("weight above 2^100", operator.gt, 2.0**100),
        )
    ),
    "cost": ExtraColumn((("negative cost", operator.lt, 0.0), ("infinite cost", operator.eq, math.inf))),
}
#: Those of labels; the others are of predictions.
LABEL_COLUMNS = ("weight",)
