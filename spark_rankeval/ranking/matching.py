"""Which predicted items have a label, and which items a list repeats."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spark_rankeval.ranking.ragged import (
    BoolArray,
    IntArray,
    Ragged,
    about_equal,
    grouped,
    starts_of_runs,
    width_batches,
    width_classes,
)

# Up to these sizes lists of about equal length are compared with one label after the other. That is faster than looking items up.
_COMPARED_LABELS, _COMPARED_ITEMS = 16, 512
# Odd numbers whose multiples spread over the upper bits (Knuth, The Art of Computer Programming 3, section 6.4).
_ITEM_FACTOR_32, _ITEM_FACTOR_64, _USER_FACTOR = (
    np.uint32(0x9E3779B1),
    np.uint64(0x9E3779B97F4A7C15),
    np.uint32(0x85EBCA77),
)
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
