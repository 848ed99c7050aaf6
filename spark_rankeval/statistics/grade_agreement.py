"""How far judges agree on grades, from counts of their grades: Cohen's kappas and Krippendorff's alpha, with jackknife intervals by user.

The grades of one user's items are alike, so users are what is drawn, not items. Users fall into blocks by hash, and each figure is computed
again without each block. Counts are all that is needed for that, because every figure is a function of sums over users.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from spark_rankeval.statistics.description import N_BLOCKS, WithoutBlock, jackknife_interval
from spark_rankeval.statistics.intervals import JACKKNIFE, Interval

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]

#: Which grades are close to each other: see `alpha_of`.
Measurement = Literal["nominal", "ordinal", "interval"]
MEASUREMENTS: tuple[Measurement, ...] = ("nominal", "ordinal", "interval")
#: The bounds of raw agreement, and of figures that are corrected for chance.
SHARE, CORRECTED = (0.0, 1.0), (-1.0, 1.0)
_NO_ITEMS, _ONE_GRADE = "no item has a grade of both", "all grades are the same"
_NO_UNITS = "no item has the grades of two judges"


class Estimate(NamedTuple):
    """A figure of all users, NaN if it is undefined, with its standard error and interval."""

    value: float
    standard_error: float
    interval: Interval


class PairFigures(NamedTuple):
    """How far two judges agree on the items that both graded."""

    n_users: int
    agreement: Estimate
    kappa: Estimate
    linear_kappa: Estimate
    quadratic_kappa: Estimate
    mean: float  # of the first judge's grades
    other_mean: float
    table: Ints  # how many items, by the first judge's grade and then the other's


@dataclass(frozen=True)
class GradeCounts:
    """How many items have each combination of grades, block by block.

    Attributes:
        grades: the grades of each combination; float64 (combinations, judges), NaN where a judge gave none.
        blocks: the block of users of each combination; below `N_BLOCKS`.
        n_items: how many items of the block have these grades.
        n_users: for each pair of judges, and last for any two, how many users have such an item; int64 (combinations, pairs + 1). Each
            user counts once in a block.
        scale: the distinct grades, ascending, of these combinations and maybe of others.
    """

    grades: Floats
    blocks: Ints
    n_items: Ints
    n_users: Ints
    scale: Floats

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of judges, in their order."""
        return pairs_of(self.grades.shape[1])

    @cached_property
    def _places(self) -> Ints:
        """The place of each grade on the scale."""
        return np.searchsorted(self.scale, self.grades).astype(np.int64)

    def part(self, rows: Ints) -> GradeCounts:
        """The combinations at some places."""
        return GradeCounts(self.grades[rows], self.blocks[rows], self.n_items[rows], self.n_users[rows], self.scale)

    def n_without_other(self, judge: int, other: int) -> int:
        """How many items a judge graded and the other did not."""
        alone = ~np.isnan(self.grades[:, judge]) & np.isnan(self.grades[:, other])
        return int(self.n_items[alone].sum())

    def pair_figures(self, judge: int, other: int, level: float) -> PairFigures:
        """The figures of two judges."""
        cells = self._cells(judge, other, self.n_items)
        users = self._users(self.pairs.index((judge, other)))
        apart = np.abs(self.scale[:, None] - self.scale)
        table = cells.sum(axis=0)
        n = int(table.sum())

        def estimate(figure: Callable[[Floats], Floats], bounds: tuple[float, float]) -> Estimate:
            return _estimate(figure, cells, users, level, bounds, _ONE_GRADE if n else _NO_ITEMS)

        def kappa(distances: Floats) -> Estimate:
            return estimate(lambda counts: kappa_of(counts, distances), CORRECTED)

        means = [_mean(self.scale, table.sum(axis=axis)) for axis in (1, 0)]
        return PairFigures(
            int(users.sum()), estimate(agreement_of, SHARE), kappa(np.sign(apart)), kappa(apart), kappa(apart**2),
            means[0], means[1], table.astype(np.int64),
        )  # fmt: skip

    def alpha(self, level: float, measurement: Measurement) -> tuple[int, int, Estimate]:
        """How many items have two grades or more, how many users have these items, and Krippendorff's alpha of them."""
        n_grades = np.count_nonzero(~np.isnan(self.grades), axis=1)
        n_items = int(self.n_items[n_grades >= 2].sum())
        # A pair of grades counts 1/(m − 1) if an item has m, so each grade counts once. In these units sums are whole numbers.
        unit = math.lcm(*range(1, self.grades.shape[1]))
        shares = self.n_items * unit // np.maximum(n_grades - 1, 1)
        coincidences = np.sum([self._cells(*pair, shares) for pair in self.pairs], axis=0)
        coincidences = coincidences + np.swapaxes(coincidences, -1, -2)
        users = self._users(len(self.pairs))
        estimate = _estimate(
            lambda counts: alpha_of(counts / unit, self.scale, measurement), coincidences, users, level, CORRECTED,
            _ONE_GRADE if n_items else _NO_UNITS,
        )  # fmt: skip
        return n_items, int(users.sum()), estimate

    def _cells(self, judge: int, other: int, amounts: Ints) -> Floats:
        """The amounts by block, by the judge's grade and by the other's."""
        cells = np.zeros((N_BLOCKS, len(self.scale), len(self.scale)))
        rows = ~np.isnan(self.grades[:, [judge, other]]).any(axis=1)
        places = self._places[rows]
        np.add.at(cells, (self.blocks[rows], places[:, judge], places[:, other]), amounts[rows])
        return cells

    def _users(self, pair: int) -> Ints:
        """The users by block."""
        users = np.zeros(N_BLOCKS, np.int64)
        np.add.at(users, self.blocks, self.n_users[:, pair])
        return users


def pairs_of(n_judges: int) -> list[tuple[int, int]]:
    """The pairs of judges by their places.

    >>> pairs_of(3)
    [(0, 1), (0, 2), (1, 2)]
    """
    return list(itertools.combinations(range(n_judges), 2))


def _mean(scale: Floats, counts: Floats) -> float:
    return float((scale * counts).sum() / counts.sum()) if counts.any() else math.nan


def _estimate(
    figure: Callable[[Floats], Floats], cells: Floats, users: Ints, level: float, bounds: tuple[float, float], why: str
) -> Estimate:
    """A figure of all counts; `why` is the reason if it is undefined."""
    total, has_users = cells.sum(axis=0), users > 0
    value = float(figure(total))
    if math.isnan(value):
        return Estimate(value, math.nan, Interval.missing(level, JACKKNIFE, why))
    values = figure(total - cells[has_users])
    left_out = list(map(WithoutBlock, values.tolist(), users[has_users].tolist()))
    error, interval = jackknife_interval(value, left_out, level, bounds, may_rest_on_few=True)
    return Estimate(value, error, interval)


def _ratio(part: Floats, whole: Floats) -> Floats:
    """NaN where the whole is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(whole > 0, part / whole, np.nan)


def _total(cells: Floats) -> Floats:
    return cells.sum(axis=(-2, -1))  # type: ignore[no-any-return] # numpy says so of axes


def agreement_of(cells: Floats) -> Floats:
    """The share of items with equal grades, of counts by the grades of two judges; float64 (…, grades, grades).

    >>> float(agreement_of(np.array([[3.0, 1.0], [0.0, 4.0]])))
    0.875
    """
    return _ratio(np.trace(cells, axis1=-2, axis2=-1), _total(cells))


def kappa_of(cells: Floats, distances: Floats) -> Floats:
    """Cohen's kappa, weighted by the distances between grades: 1 − observed ÷ expected distance.

    With r and c the sums of rows and columns, it is 1 − n·Σ n_ij·d_ij ÷ Σ r_i·c_j·d_ij. Distances of 1 are the plain kappa, |i − j| the
    linear one and (i − j)² the quadratic one. NaN if no distance is expected, as both judges give one grade.

    Source: Cohen, Psychological Bulletin 70, 1968.

    >>> float(kappa_of(np.array([[3.0, 1.0], [0.0, 4.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])))
    0.75
    """
    rows, columns = cells.sum(axis=-1), cells.sum(axis=-2)
    expected = _total(rows[..., :, None] * columns[..., None, :] * distances)
    return 1 - _ratio(_total(cells) * _total(cells * distances), expected)


def alpha_of(coincidences: Floats, scale: Floats, measurement: Measurement) -> Floats:
    """Krippendorff's alpha of how often grades meet on an item: 1 − (n − 1)·Σ o_ck·δ_ck ÷ Σ n_c·n_k·δ_ck.

    Nominal: δ is 1 between different grades. Interval: δ = (c − k)². Ordinal: δ is the square of how many grades lie from c to k, of both
    ends half of them. NaN if all grades are the same.

    Source: Krippendorff, Computing Krippendorff's alpha-reliability, 2011.

    >>> float(alpha_of(np.array([[6.0, 1.0], [1.0, 8.0]]), np.array([0.0, 1.0]), "nominal"))
    0.7619047619047619
    """
    counts = coincidences.sum(axis=-1)
    # On this line, the distance between two grades is that of the measurement.
    line: Floats = np.cumsum(counts, axis=-1) - counts / 2 if measurement == "ordinal" else scale
    distances = (line[..., :, None] - line[..., None, :]) ** 2
    if measurement == "nominal":
        distances = np.sign(distances)
    expected = _total(counts[..., :, None] * counts[..., None, :] * distances)
    return 1 - _ratio((counts.sum(axis=-1) - 1) * _total(coincidences * distances), expected)
