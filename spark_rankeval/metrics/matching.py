"""Which predicted items carry a label, and which items stand twice in a list."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spark_rankeval.metrics.ragged import BoolArray, IntArray, Ragged, width_classes

# Up to so many labels a user, comparing a list with one label at a time is the fastest way.
_COMPARED_LABELS = 256


class Matches(NamedTuple):
    """Pairs of a prediction and the label of the same user and item.

    Attributes:
        prediction: int64, an index into the flat predictions.
        label: int64, an index into the flat labels.
    """

    prediction: IntArray
    label: IntArray


def match(items: Ragged, labels: Ragged, first: int | None = None) -> Matches:
    """Find the labelled predictions.

    Args:
        items: every user's predicted items.
        labels: every user's labelled items, each once; of a dtype that compares with that of `items`.
        first: look only at so many items of every list, from its start; None: at all.

    Returns:
        the matches, in no order.
    """
    many = labels.lengths > _COMPARED_LABELS
    found = _match_by_columns(items, labels, np.where(many, 0, items.lengths), first)
    if many.any():
        found.append(_match_by_sorting(items, labels, many))
    if not found:
        return Matches(np.empty(0, np.int64), np.empty(0, np.int64))
    return Matches(*(np.concatenate(part) for part in zip(*found, strict=True)))


def _match_by_columns(items: Ragged, labels: Ragged, lengths: IntArray, first: int | None) -> list[Matches]:
    """Compare all lists with their first label, then with their second, and so on."""
    found = []
    for group, longest in width_classes(lengths):
        n_labels = labels.lengths[group]
        users, counts = group, n_labels
        if len(group) and n_labels.min() != n_labels.max():
            # Users with many labels first: those who have a further label are then the top rows.
            order = np.argsort(-n_labels, kind="stable")
            users, counts = group[order], n_labels[order]
        # One row a rank: a comparison then runs along the users, which are many, and not along a list, which is short.
        matrix = np.ascontiguousarray(items.matrix(users, longest)[:, :first].T)
        width = len(matrix)
        length = items.lengths[users]
        full = bool((length >= width).all())
        for nth in range(int(counts.max(initial=0))):
            rows = int(np.searchsorted(-counts, -nth, side="left"))
            label = labels.offsets[users[:rows]] + nth
            position, user = np.divmod(np.flatnonzero(matrix[:, :rows] == labels.values[label]), rows)
            if not full:
                real = position < length[user]
                position, user = position[real], user[real]
            found.append(Matches(items.offsets[users[user]] + position, label[user]))
    return found


def _match_by_sorting(items: Ragged, labels: Ragged, among: BoolArray) -> Matches:
    """Look items up in the sorted labels of their user: for users with very many labels."""
    prediction = np.flatnonzero(among[items.user])
    label = np.flatnonzero(among[labels.user])
    both = np.concatenate([labels.values[label], items.values[prediction]])
    distinct, code = np.unique(both, return_inverse=True)
    key = np.concatenate([labels.user[label], items.user[prediction]]) * len(distinct) + code
    label_key, item_key = key[: len(label)], key[len(label) :]
    order = np.argsort(label_key)
    place = np.minimum(np.searchsorted(label_key, item_key, sorter=order), len(order) - 1)
    same = label_key[order[place]] == item_key
    return Matches(prediction[same], label[order[place[same]]])


def contained(items: Ragged, among: Ragged) -> BoolArray:
    """Which items of every user are among that user's others; repeated ones each.

    Args:
        items: the lists; their items may repeat.
        among: lists of a dtype that compares; theirs may repeat, too.

    Returns:
        bool, shape of the values of `items`.
    """
    found = np.zeros(len(items.values), np.bool_)
    if len(items.values) and len(among.values):
        distinct, code = np.unique(np.concatenate([items.values, among.values]), return_inverse=True)
        key = np.concatenate([items.user, among.user]) * len(distinct) + code
        found = np.isin(key[: len(found)], key[len(found) :])
    return found


def has_duplicates(items: Ragged) -> BoolArray:
    """Which users have an item more than once; bool (n_users,)."""
    found = np.zeros(items.n_users, np.bool_)
    for users, width in width_classes(items.lengths):
        matrix, length = items.matrix(users, width), items.lengths[users]
        if not (length == width).all():
            # Padding sorts to the end, where it is not looked at; an item that equals it is no harm there.
            matrix = np.where(np.arange(width) < length[:, None], matrix, _largest(items.values.dtype))
        ordered = np.sort(matrix, axis=1)
        equal = ordered[:, 1:] == ordered[:, :-1]
        if equal.any():
            found[users] = (equal & (np.arange(1, width) < length[:, None])).any(axis=1)
    return found


def _largest(dtype: np.dtype[Any]) -> float | int:
    return np.inf if dtype.kind == "f" else int(np.iinfo(dtype).max)


def first_occurrences(items: Ragged, among: BoolArray, preference: IntArray) -> BoolArray:
    """Which entries are the preferred one of their user and item.

    Args:
        items: the lists.
        among: bool (n_users,), the users to look at; every entry of the others counts as preferred.
        preference: int64, shape of the values: of equal items the one with the lowest stays.

    Returns:
        bool, shape of the values.
    """
    keep = np.ones(len(items.values), np.bool_)
    entry = np.flatnonzero(among[items.user])
    entry = entry[np.lexsort((preference[entry], items.values[entry], items.user[entry]))]
    user, value = items.user[entry], items.values[entry]
    keep[entry[1:][(user[1:] == user[:-1]) & (value[1:] == value[:-1])]] = False
    return keep
