"""Fingerprints of tables: the sum, modulo 2^128, of a hash for each user, whatever the order and partitions of the users.

The hash of a user mixes the user's id with the sum, modulo 2^64, of the hashes of the user's rows. So repeated rows count, and the same
rows of another user give another fingerprint. A fingerprint tells whether tables differ; it is no protection against forgery. Rows of
whole numbers and floats have the hashes that Spark's `xxhash64` gives.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from spark_rankeval.statistics.resampling import mixed

Array = np.ndarray[Any, Any]
Integers = np.ndarray[Any, np.dtype[np.int64]]

#: Whole numbers of 32 bits that make a fingerprint, the least significant first. As int64, billions of them add up without overflow.
FINGERPRINT_LIMBS = 4
_BITS = 32
_MODULUS = 1 << (_BITS * FINGERPRINT_LIMBS)
# Two hashes of the same pair of words differ by these odd constants (of SplitMix64 and of Murmur's finaliser).
_FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xFF51AFD7ED558CCD


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
_VALUES_TOGETHER = 1 << 14


def xxhash64(*columns: Array) -> Array:
    """The hash of each row of columns of equal length, int64 or float64, none of them null; int64.

    Examples:
        >>> xxhash64(np.array([1, 2]), np.array([0.5, -0.0]))
        array([-4145917965430274609, -4175744763495980767])
    """
    hashes = np.empty(len(columns[0]), np.uint64)
    for start in range(0, len(hashes), _VALUES_TOGETHER):
        part = slice(start, start + _VALUES_TOGETHER)
        seed: Array | np.uint64 = np.uint64(_SEED)
        for column in columns:
            seed = _hashes_of_numbers(_bits_of(column[part]), seed)
        hashes[part] = seed
    return hashes.view(np.int64)


def _bits_of(values: Array) -> Array:
    # Of the two zeros Spark takes the positive one.
    return (values + 0.0 if values.dtype.kind == "f" else values).view(np.uint64)


def _hashes_of_numbers(bits: Array, seed: Array | np.uint64) -> Array:
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


def fingerprint_limbs(users: Integers, rows: Integers) -> Integers:
    """The hash of each user as limbs; int64 (n_users, FINGERPRINT_LIMBS).

    Args:
        users: a 64-bit hash of each user's id.
        rows: the sum of the hashes of each user's rows, modulo 2^64. Where it is 0, the user has no row and adds nothing.
    """
    user, row = users.view(np.uint64), rows.view(np.uint64)
    low = mixed(mixed(user + np.uint64(_FIRST)) ^ row)
    high = mixed(mixed(row ^ np.uint64(_SECOND)) + user)
    limbs = np.empty((len(user), FINGERPRINT_LIMBS), np.int64)
    for place, words in ((0, low), (2, high)):
        limbs[:, place] = words & np.uint64((1 << _BITS) - 1)
        limbs[:, place + 1] = words >> np.uint64(_BITS)
    limbs[row == 0] = 0
    return limbs


def no_limbs() -> Integers:
    """The sum over no user."""
    return np.zeros(FINGERPRINT_LIMBS, np.int64)


def digits_of(limbs: Integers) -> str:
    """The fingerprint whose limbs add up to these, as 32 hexadecimal digits.

    >>> digits_of(no_limbs())
    '00000000000000000000000000000000'
    """
    return _digits(sum(int(limb) << (_BITS * place) for place, limb in enumerate(limbs)))


def combined(fingerprints: Iterable[str]) -> str:
    """The fingerprint of tables together, such as those of several days.

    >>> combined(["f" * 32, "0" * 31 + "3"])
    '00000000000000000000000000000002'
    """
    return _digits(sum(int(digits, 16) for digits in fingerprints))


def _digits(total: int) -> str:
    return f"{total % _MODULUS:032x}"
