"""Lists of unequal length as flat values and offsets."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

FloatArray = np.ndarray[tuple[int], np.dtype[np.float64]]
IntArray = np.ndarray[tuple[int], np.dtype[np.int64]]
BoolArray = np.ndarray[tuple[int], np.dtype[np.bool_]]
Array = np.ndarray[Any, Any]
T = TypeVar("T")

#: How many cells one comparison of lists may have: what stays in a core's cache.
CELLS = 1 << 17


@dataclass(frozen=True)
class Ragged:
    """One list per user: user u has ``values[offsets[u]:offsets[u + 1]]``.

    Attributes:
        values: all lists, one after the other; any dtype that compares.
        offsets: int64 (n_users + 1,), from 0 to ``len(values)``.
    """

    values: Array
    offsets: IntArray
    _memory: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def remember(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` gives of the lists alone, computed once for a key."""
        if key not in self._memory:
            self._memory[key] = make()
        value: T = self._memory[key]
        return value

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
        """The same with `padding` in the places past the end of a list."""
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
