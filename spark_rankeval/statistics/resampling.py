"""Hashes of users and rows: random weights of users, their exact sums under many draws, and fingerprints of tables."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from spark_rankeval.checks import is_number
from spark_rankeval.errors import OptionError

Array = np.ndarray[Any, Any]
Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]
Hashes = np.ndarray[Any, np.dtype[np.uint64]]

#: Values are summed in units of 2^−42: 2.3e-13.
FRACTION_BITS = 42
#: Values from here on are not resampled: sums over billions of users could overflow.
LIMIT = 2.0**31

_FRACTION = 2.0**FRACTION_BITS
# A block of weights, 1 MB, stays in a core's cache; 128 users · weight 7 · 2 · 2^42 is less than 2^53.
_ROWS = 128
_REPLICATES = 1024
_UNSPLIT = 2.0
# So many blocks' sums below 2^53 do not overflow 64 bits.
_BLOCKS_BEFORE_CARRY = 512
_USERS_BEFORE_CARRY = 1 << 20

_GOLDEN = 0x9E3779B97F4A7C15
_WORD = 2**64 - 1


def mixed(words: Hashes) -> Hashes:
    """Each 64-bit word well mixed: the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), a bijection."""
    words = words.astype(np.uint64)
    _mix(words, np.empty_like(words))
    return words


def _mix(words: Hashes, scratch: Hashes) -> None:
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        np.right_shift(words, np.uint64(shift), out=scratch)
        np.bitwise_xor(words, scratch, out=words)
        np.multiply(words, np.uint64(factor), out=words)
    np.right_shift(words, np.uint64(31), out=scratch)
    np.bitwise_xor(words, scratch, out=words)


class PoissonDraw:
    """Weights that are Poisson with mean 1, from 16 bits each: what users of a bootstrap sample are drawn as.

    Probabilities are multiples of 2⁻¹⁶, within 2·10⁻⁴ of Poisson's and chosen so that mean and variance are exactly 1; no
    weight is above 7. Source of the weights: Hanley and MacGibbon 2006; Chamandy et al., Google technical report 2012.
    """

    #: How many replicates' weights one 64-bit word gives.
    per_word = 4
    #: Sets streams of different draws apart.
    purpose = 1
    #: In 65,536ths: how often a weight is 0, 1, 2, ….
    frequencies = (24114, 24100, 12059, 4018, 1005, 201, 34, 5)

    def fill(self, words: Hashes, weights: Floats) -> None:
        """Write how many of the thresholds 16 bits reach; comparisons are cheaper than looking up."""
        lanes = words.astype("<u8", copy=False).view("<u2")
        counts = np.zeros(lanes.shape, np.uint8)
        reached = np.empty(lanes.shape, np.bool_)
        for threshold in np.cumsum(self.frequencies)[:-1]:
            np.greater_equal(lanes, np.uint16(threshold), out=reached)
            np.add(counts, reached.view(np.uint8), out=counts)
        weights[...] = counts


class CoinDraw:
    """Weights that are 0 or 1, each with probability one half, from one bit each."""

    per_word = 64
    purpose = 2

    def fill(self, words: Hashes, weights: Floats) -> None:
        """Write the bits of each word, the lowest first."""
        weights[...] = np.unpackbits(words.astype("<u8", copy=False).view(np.uint8), axis=1, bitorder="little")


Draw = PoissonDraw | CoinDraw


def zero_sums(*shape: int) -> Integers:
    """As many exact sums of nothing, which are added: first the limbs of whole numbers, then those of units of 2⁻⁴²."""
    return np.zeros((2, *shape), np.int64)


def carried(limbs: Integers) -> Integers:
    """The same sums with the second limb below 1."""
    ones, fraction = limbs
    return np.stack([ones + (fraction >> FRACTION_BITS), fraction & ((1 << FRACTION_BITS) - 1)])


def floats_of(limbs: Integers) -> Floats:
    """The sums as floats."""
    ones, fraction = carried(limbs)
    result: Floats = ones + fraction / _FRACTION
    return result


def check_replicates(replicates: int) -> None:
    """Refuse a number of replicates that is no whole number from 1 on."""
    if not is_number(replicates, numbers.Integral) or replicates < 1:
        raise OptionError(f"replicates must be a whole number from 1 on; got {replicates!r}")


def check_seed(seed: object) -> None:
    """Refuse a seed that is not a whole number."""
    if not is_number(seed, numbers.Integral):
        msg = f"seed must be a whole number; got {seed!r}"
        raise OptionError(msg)


def uniform64(users: Array, replicates: Array, seed: int, purpose: int = 0) -> Hashes:
    """Random 64-bit words, one for each user and replicate, which are broadcast; another `purpose` gives independent ones."""
    return mixed(mixed(np.asarray(users).view(np.uint64)) + _keys(np.asarray(replicates), seed, purpose))


def resampled_sums(values: Floats, users: Array, draw: Draw, replicates: int, seed: int) -> Integers:
    """For each replicate the exact sums (limbs × rows × replicates) of values, each user's times the user's weight in that replicate.

    `values` (rows × users) are without NaN, less than `LIMIT` in size, and rounded to units of 2⁻⁴². The first replicates do not
    depend on how many there are.
    """
    ones, fraction = limbs_of(values)
    n_words = -(-replicates // draw.per_word)
    keys = _keys(np.arange(n_words), seed, draw.purpose)
    starts = mixed(np.asarray(users).view(np.uint64))
    step = _REPLICATES // draw.per_word
    parts = [_block_sums(ones, fraction, starts, keys[first : first + step], draw) for first in range(0, n_words, step)]
    return np.concatenate(parts, axis=2)[:, :, :replicates]


def exact_sums(values: Floats) -> Integers:
    """The sums (limbs × rows) of values (rows × users) as `resampled_sums` rounds them, each user's weight being 1."""
    total = zero_sums(len(values))
    for first in range(0, values.shape[1], _USERS_BEFORE_CARRY):
        ones, fraction = limbs_of(values[:, first : first + _USERS_BEFORE_CARRY])
        units = np.stack([np.zeros_like(fraction) if ones is None else ones, fraction]).astype(np.int64)
        total = carried(total + carried(units).sum(axis=2))
    return total


def _keys(replicates: Array, seed: int, purpose: int) -> Hashes:
    """What is added to a user's mixed hash and mixed again, for each of some replicates."""
    start = mixed(np.array([(seed + purpose * _GOLDEN) & _WORD], np.uint64))
    return mixed(start + (replicates.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN))


def limbs_of(values: Floats) -> tuple[Floats | None, Floats]:
    """Values as whole numbers of 1 (None if not needed) and of 2⁻⁴²."""
    if np.abs(values).max(initial=0.0) <= _UNSPLIT:
        return None, np.rint(values * _FRACTION)
    ones = np.rint(values)
    return ones, np.rint((values - ones) * _FRACTION)


def _block_sums(ones: Floats | None, fraction: Floats, starts: Hashes, keys: Hashes, draw: Draw) -> Integers:
    n_rows, n_users = fraction.shape
    shape = (n_rows, len(keys) * draw.per_word)
    sums = zero_sums(*shape)
    words = np.empty((_ROWS, len(keys)), np.uint64)
    scratch = np.empty_like(words)
    weights = np.empty((_ROWS, shape[1]))
    product, whole = np.empty(shape), np.empty(shape, np.int64)
    for block, first in enumerate(range(0, n_users, _ROWS)):
        users = slice(first, min(first + _ROWS, n_users))
        n = users.stop - first
        np.add(starts[users, None], keys, out=words[:n])
        _mix(words[:n], scratch[:n])
        draw.fill(words[:n], weights[:n])
        for limb, total in zip((ones, fraction), sums, strict=True):
            if limb is not None:
                np.matmul(limb[:, users], weights[:n], out=product)
                np.copyto(whole, product, casting="unsafe")
                np.add(total, whole, out=total)
        if block % _BLOCKS_BEFORE_CARRY == _BLOCKS_BEFORE_CARRY - 1:
            sums = carried(sums)
    return carried(sums)


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
            # Of the two zeros Spark takes the positive one.
            values = column[part] + 0.0 if column.dtype.kind == "f" else column[part]
            seed = _hashes_of_numbers(values.view(np.uint64), seed)
        hashes[part] = seed
    return hashes.view(np.int64)


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
