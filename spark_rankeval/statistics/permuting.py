"""Sums of users' values whose models' labels are permuted within each user, at random and exactly."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from spark_rankeval.statistics.resampling import FixedPoint, exact_sums, limbs_of, uniform64

Array = np.ndarray[Any, Any]
Floats = np.ndarray[Any, np.dtype[np.float64]]

#: A permutation is looked up in a list of all of them, and 9 labels have 362,880.
MOST_LABELS = 8

_PURPOSE = 3
_USERS = 64
_REPLICATES = 256
_BLOCKS_BEFORE_CARRY = 512


def permuted_sums(values: Floats, users: Array, replicates: int, seed: int) -> FixedPoint:
    """For each replicate, the sums of what each label holds when every user's values are dealt out anew.

    A user's permutation in a replicate is drawn from 32 bits of a hash of user, replicate and seed, and is the same for all
    columns; no permutation's probability is off by more than 2⁻³².

    Args:
        values: float64, columns × labels × users, without NaN, less than `resampling.LIMIT` in size.
        users: 64-bit hashes of the users' ids (int64 or uint64).
        replicates: how many.
        seed: of the draw.

    Returns:
        The sums, columns × labels × replicates.
    """
    n_columns, n_labels, n_users = values.shape
    # A word serves two replicates.
    n_words = -(-replicates // 2)
    ones, fraction = limbs_of(values)
    parts = []
    for first in range(0, n_words, _REPLICATES // 2):
        some = np.arange(first, min(first + _REPLICATES // 2, n_words))
        sums = FixedPoint.zeros((n_columns, n_labels - 1, 2 * len(some)))
        for block, start in enumerate(range(0, n_users, _USERS)):
            which = slice(start, start + _USERS)
            limbs = (None if ones is None else ones[:, :, which], fraction[:, :, which])
            _add_block(limbs, uniform64(users[which, None], some, seed, _PURPOSE), sums)
            if block % _BLOCKS_BEFORE_CARRY == _BLOCKS_BEFORE_CARRY - 1:
                sums = sums.carried()
        parts.append(sums.carried())
    dealt = FixedPoint(*(np.concatenate(limbs, axis=2)[:, :, :replicates] for limbs in zip(*parts, strict=True)))
    # The last label holds what the others do not.
    total = exact_sums(values.reshape(n_columns, n_labels * n_users))
    rest = FixedPoint(
        *(limb[:, None, None] - each.sum(axis=1, keepdims=True) for limb, each in zip(total, dealt, strict=True))
    )
    return FixedPoint(*(np.concatenate(limbs, axis=1) for limbs in zip(dealt, rest, strict=True))).carried()


def _add_block(limbs: tuple[Floats | None, Floats], words: Array, sums: FixedPoint) -> None:
    """Add a few users' values under a few replicates' permutations."""
    n_columns, n_labels, n_users = limbs[1].shape
    # Wide before the product: numpy 1 keeps the width of an array that it multiplies by a scalar.
    lanes = words.astype("<u8", copy=False).view("<u4").astype(np.uint64)
    drawn = ((lanes * np.uint64(math.factorial(n_labels))) >> np.uint64(32)).astype(np.intp)
    holds = np.empty((n_labels, *lanes.shape))
    for label, given in enumerate(_permutations(n_labels)[:-1]):
        source = given[drawn]
        for model in range(n_labels):
            np.equal(source, model, out=holds[model], casting="unsafe")
        flat = holds.reshape(n_labels * n_users, -1)
        for limb, total in zip(limbs, sums, strict=True):
            if limb is not None:
                total[:, label] += (limb.reshape(n_columns, -1) @ flat).astype(np.int64)


def _permutations(n_labels: int) -> Array:
    """Of every permutation, what each label gets: labels × permutations."""
    return np.array(list(itertools.permutations(range(n_labels))), np.uint8).T.copy()
