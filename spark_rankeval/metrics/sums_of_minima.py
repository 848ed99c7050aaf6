"""Sums of minima: of each number of a list, the sum of the lesser of it and each number down to it."""

from __future__ import annotations

import math

import numpy as np

from spark_rankeval.ranking.user_lists import FloatArray, IntArray, grouped, offsets_of, position_within

# Adding level by level takes one step per level; beyond so many levels the exact sum is quicker.
_MOST_LEVELS = 256
# Whole numbers below 2 to this power are exact as floats.
_FLOAT_BITS = 53


def sums_of_minima(user: IntArray, gain: FloatArray, n_users: int) -> FloatArray:
    """Σ_{m≤n} min(a_m, a_n) of each entry n: level by level of the user's different gains, or exactly if these are many."""
    order = np.lexsort((gain, user))
    ascending, lists = gain[order], grouped(gain, user, n_users)
    below = np.zeros(len(order))
    below[1:] = ascending[:-1]
    below[position_within(user, n_users) == 0] = 0
    rises = ascending > below
    n_levels = np.bincount(user[rises], minlength=n_users)
    sums = np.zeros(len(order))
    has_many = (n_levels > _MOST_LEVELS) & np.isfinite(np.bincount(user, gain, n_users))
    for start, stop in zip(lists.offsets[:-1][has_many], lists.offsets[1:][has_many], strict=True):
        sums[start:stop] = exact_sums_of_minima(gain[start:stop])
    # min(a, b) is the sum of the steps between levels, over the levels that both reach.
    steps, first_step = (ascending - below)[rises], offsets_of(n_levels)
    n_rises = np.concatenate([[0], np.cumsum(rises)])
    level = np.empty(len(order), np.int64)
    level[order] = n_rises[1:] - n_rises[lists.offsets[user]]
    reaching = np.flatnonzero(~has_many[user])
    for nth in range(int(level[reaching].max(initial=0))):
        reaching = reaching[level[reaching] > nth]
        above = position_within(user[reaching], n_users) + 1
        sums[reaching] += steps[first_step[user[reaching]] + nth] * above
    return sums


def exact_sums_of_minima(gain: FloatArray) -> FloatArray:
    """The same of one user, rounded once."""
    # So narrow that a float holds the sum of all parts.
    parts, exponents = _whole_parts(gain, _FLOAT_BITS - len(gain).bit_length())
    sums = list(map(np.ldexp, _whole_sums_of_minima(gain, parts), exponents))
    if len(sums) == 1:
        return sums[0]
    if len(sums) == 2:
        # The sum of two floats is rounded once.
        return sums[0] + sums[1]
    return np.array(list(map(math.fsum, zip(*(terms.tolist() for terms in sums), strict=True))))


def _whole_parts(gain: FloatArray, bits: int) -> tuple[list[FloatArray], list[int]]:
    """Whole numbers of so many bits, and exponents of 2: the values are the sum of the numbers times these powers."""
    parts, exponents, rest = [], [], gain
    while rest.any():
        exponent = math.frexp(float(rest.max()))[1] - bits
        parts.append(np.floor(np.ldexp(rest, -exponent)))
        exponents.append(exponent)
        rest = rest - np.ldexp(parts[-1], exponent)
    return parts, exponents


def _whole_sums_of_minima(gain: FloatArray, columns: list[FloatArray]) -> list[FloatArray]:
    """Of each column of parts of the values, Σ_{m≤n} of the part of the lesser of m and n; exact if the column's sum is."""
    lesser, n_lesser = _sums_before(np.argsort(gain, kind="stable"), columns)
    n_others = np.arange(1, len(gain) + 1) - n_lesser
    return [below + n_others * part for below, part in zip(lesser, columns, strict=True)]


def _sums_before(order: IntArray, columns: list[FloatArray]) -> tuple[list[FloatArray], IntArray]:
    """Of the entries that come earlier, and also stand before in `order`: the sum of each column, and how many they are.

    Blocks of entries are split into an earlier and a later half, again and again. Each split adds the earlier half to the later.
    """
    n = len(order)
    sums, count = [np.zeros_like(column) for column in columns], np.zeros(n, np.int64)
    # The entries of one block after the other, each block as in `order`.
    entries, half = order, 1 << (n - 1).bit_length() >> 1
    while half:
        is_later = (entries & half) > 0
        later_places = np.flatnonzero(is_later)
        earlier, later = entries[~is_later], entries[later_places]
        # Only the last block can be shorter, so each block before has `half` entries of either kind.
        nth = np.arange(len(later_places))
        before, earlier_blocks = later_places - nth, nth // half * half
        count[later] += before - earlier_blocks
        for column, total in zip(columns, sums, strict=True):
            running = np.concatenate([[0.0], np.cumsum(column[earlier])])
            total[later] += running[before] - running[earlier_blocks]
        is_in_later_half = (np.arange(n) & half) > 0
        entries = np.empty_like(entries)
        entries[~is_in_later_half], entries[is_in_later_half] = earlier, later
        half //= 2
    return sums, count
