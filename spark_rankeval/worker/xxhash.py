"""Spark's ``xxhash64`` of whole numbers and of floats, in numpy: the same digits as its expression gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from spark_rankeval.ranking.ragged import Array

# The primes of XXH64, Yann Collet's specification: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
#: The seed of Spark's expression.
_SEED = 42
# So many numbers are hashed at a time: they stay in a core's cache.
_TOGETHER = 1 << 14


def xxhash64(*columns: Array) -> Array:
    """The hash of each row of columns of equal length, int64 or float64, none of them null; int64.

    Examples:
        >>> xxhash64(np.array([1, 2]), np.array([0.5, -0.0]))
        array([-4145917965430274609, -4175744763495980767])
    """
    hashes = np.empty(len(columns[0]), np.uint64)
    for start in range(0, len(hashes), _TOGETHER):
        part = slice(start, start + _TOGETHER)
        seed: Array | np.uint64 = np.uint64(_SEED)
        for column in columns:
            seed = _of_numbers(_bits(column[part]), seed)
        hashes[part] = seed
    return hashes.view(np.int64)


def _bits(values: Array) -> Array:
    # Of the two zeros Spark takes the positive one.
    return (values + 0.0 if values.dtype.kind == "f" else values).view(np.uint64)


def _of_numbers(bits: Array, seed: Array | np.uint64) -> Array:
    hashes = bits * _P2
    _rotate(hashes, 31)
    hashes *= _P1
    hashes ^= seed + (_P5 + np.uint64(bits.itemsize))
    _rotate(hashes, 27)
    hashes *= _P1
    hashes += _P4
    hashes ^= hashes >> np.uint64(33)
    hashes *= _P2
    hashes ^= hashes >> np.uint64(29)
    hashes *= _P3
    hashes ^= hashes >> np.uint64(32)
    return hashes


def _rotate(values: Array, n_bits: int) -> None:
    """Rotate 64 bits to the left, in place."""
    upper = values << np.uint64(n_bits)
    values >>= np.uint64(64 - n_bits)
    values |= upper
