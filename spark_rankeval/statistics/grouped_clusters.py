"""Sums over 1,024 groups of clusters, which merge exactly, so that an interval over several days knows who came back.

A cluster belongs to the group that the first bits of its hash name, on every day. So all rows of a person are in one group, and the
groups are independent of one another. They take the place of clusters in the variance of the mean. Its error, for a mean over many
clusters, is that of a t interval with at most 1,023 degrees of freedom.

The sums of a group are rounded once, to 31 bits of the largest one. From then on they are whole numbers of units of a power of 2, and no
order of merging changes a bit.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import zlib
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Array = np.ndarray[Any, Any]

#: How many groups there are, a power of 2, and by how many bits a 64-bit hash is shifted to the number of its group.
N_GROUPS = 1 << 10
SHIFT = np.uint64(64 - N_GROUPS.bit_length() + 1)
# To so many bits of the largest sum all sums are rounded; and the most bytes and the largest power of 2 that a text may ask for.
_BITS, _MOST_BYTES, _MOST_BITS = 31, 64, 1200
_TEXT = re.compile(r"(-?\d{1,4}),(\d{1,2});(-?\d{1,4}),(\d{1,2});([A-Za-z0-9+/=]*)")


class Scaled(NamedTuple):
    """A whole number for each group, in units of 2 to the power of an exponent."""

    exponent: int
    numbers: tuple[int, ...]

    @classmethod
    def rounded(cls, values: Array) -> Scaled:
        """Finite sums, rounded to bits of the largest."""
        greatest = float(np.abs(values).max(initial=0.0))
        exponent = math.frexp(greatest)[1] - _BITS
        return cls(exponent, tuple(np.rint(np.ldexp(values, -exponent)).astype(np.int64).tolist()))._reduced()

    @classmethod
    def added(cls, parts: Sequence[Scaled]) -> Scaled:
        """The sums of all parts, group by group."""
        exponent = min(part.exponent for part in parts)
        shifted = [[number << (part.exponent - exponent) for number in part.numbers] for part in parts]
        return cls(exponent, tuple(map(sum, zip(*shifted, strict=True))))._reduced()

    def _reduced(self) -> Scaled:
        """The same in the largest units, so that equal sums are equal."""
        bits = reduce(or_, self.numbers, 0)
        if not bits:
            return Scaled(0, self.numbers)
        n_zeros = (bits & -bits).bit_length() - 1
        return Scaled(self.exponent + n_zeros, tuple(number >> n_zeros for number in self.numbers))

    @property
    def width(self) -> int:
        """How many bytes each number needs."""
        return max(number.bit_length() for number in self.numbers) // 8 + 1

    @property
    def unit(self) -> Fraction:
        """What the numbers count."""
        return Fraction(2) ** self.exponent


@dataclass(frozen=True)
class GroupedClusters:
    """The sums of weights and of weighted values over the clusters of each group."""

    weights: Scaled
    values: Scaled

    @classmethod
    def of(cls, rows: Array) -> GroupedClusters | None:
        """From rows of a group's number and its two sums; None if a sum is too large."""
        if not np.isfinite(rows).all():
            return None
        groups = rows[np.argsort(rows[:, 0], kind="stable")]
        sums = np.zeros((N_GROUPS, 2))
        np.add.at(sums, groups[:, 0].astype(np.int64), groups[:, 1:])
        return cls(*map(Scaled.rounded, sums.T)) if np.isfinite(sums).all() else None

    @classmethod
    def added(cls, parts: Sequence[GroupedClusters]) -> GroupedClusters:
        """Those of all parts, such as days."""
        return cls(Scaled.added([part.weights for part in parts]), Scaled.added([part.values for part in parts]))

    @property
    def n(self) -> int:
        """How many groups have a weight."""
        return sum(weight != 0 for weight in self.weights.numbers)

    def influences(self) -> list[float | None] | None:
        """By how much each group moves the mean, Σ(y − mean) w / Σw; None for one without weight, and for all if there is none."""
        weights, values = self.weights, self.values
        total = sum(weights.numbers)
        if not total:
            return None
        mean, unit = Fraction(sum(values.numbers), total), float(values.unit / (weights.unit * total))
        return [
            None if not weight else float(value - mean * weight) * unit
            for weight, value in zip(weights.numbers, values.numbers, strict=True)
        ]

    def terms(self, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Fraction]:
        """The sums over groups of W^(j−k) S^k for pairs of j and k."""
        weights, values = self.weights, self.values
        found = {}
        for j, k in wanted:
            total = sum(w ** (j - k) * s**k for w, s in zip(weights.numbers, values.numbers, strict=True) if w or s)
            found[j, k] = total * weights.unit ** (j - k) * values.unit**k
        return found

    def text(self) -> str:
        """The sums as text of some kilobytes; equal sums have one text."""
        heads, packed = "", b""
        for part in (self.weights, self.values):
            # Looked up once: it goes through all numbers.
            width = part.width
            heads += f"{part.exponent},{width};"
            packed += b"".join(number.to_bytes(width, "little", signed=True) for number in part.numbers)
        return heads + base64.b64encode(zlib.compress(packed, 9)).decode()

    @classmethod
    def from_text(cls, text: str) -> GroupedClusters:
        """The sums of `text`; any other text is a ValueError."""
        found = _TEXT.fullmatch(text)
        problem = "these are not the sums of groups of clusters"
        if found is None:
            raise ValueError(problem)
        exponents, widths = (int(found[1]), int(found[3])), (int(found[2]), int(found[4]))
        n_bytes = N_GROUPS * sum(widths)
        if not all(0 < width <= _MOST_BYTES for width in widths) or max(map(abs, exponents)) > _MOST_BITS:
            raise ValueError(problem)
        try:
            unpacking = zlib.decompressobj()
            packed = unpacking.decompress(base64.b64decode(found[5], validate=True), n_bytes + 1)
        except (zlib.error, binascii.Error) as error:
            raise ValueError(problem) from error
        if len(packed) != n_bytes:
            raise ValueError(problem)
        parts, start = [], 0
        for exponent, width in zip(exponents, widths, strict=True):
            ends = range(start, start + N_GROUPS * width, width)
            parts.append(
                Scaled(exponent, tuple(int.from_bytes(packed[at : at + width], "little", signed=True) for at in ends))
            )
            start += N_GROUPS * width
        if min(parts[0].numbers) < 0:
            raise ValueError(problem)
        return cls(*parts)
