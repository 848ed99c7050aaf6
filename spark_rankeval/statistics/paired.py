"""Two models on the same users: the difference, its interval, and whether it is noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_rankeval.statistics.distributions import t_sf
from spark_rankeval.statistics.intervals import t_interval
from spark_rankeval.statistics.moments import MomentsAccumulator, moments_of
from spark_rankeval.statistics.resampling import (
    LIMIT,
    CoinDraw,
    FixedPoint,
    checked_replicates,
    exact_sums,
    resampled_sums,
)

if TYPE_CHECKING:
    from spark_rankeval.statistics.intervals import Interval
    from spark_rankeval.statistics.moments import Moments

Array = np.ndarray[Any, Any]
Floats = np.ndarray[Any, np.dtype[np.float64]]

#: Values of a user that differ by no more than this times their size, or than this, are equal but for rounding.
TIE = 2.0**-40
# A term of a sum is off by less than this times its size: half a unit of 2⁻⁴², and a few bits of what its metric was rounded to.
_ROUNDING = 2.0**-41

_SIDES = ("difference", "value", "baseline")
_COUNTS = ("n_undefined", "n_excessive", "wins", "losses")
_SUMS = ("heads_ones", "heads_fraction", "total_ones", "total_fraction")


class PairedAccumulator:
    """The differences of several columns between a model and its baseline, of users that come batch by batch.

    Args:
        n_columns: how many columns there are.
        replicates: of the sign-flip test; 0: without that test.
        seed: of its signs.
    """

    def __init__(self, n_columns: int, *, replicates: int = 9999, seed: int = 0) -> None:
        self._replicates = checked_replicates(replicates) if replicates else 0
        self._seed = seed
        self._moments = {side: MomentsAccumulator(n_columns) for side in _SIDES}
        self._counts = np.zeros((len(_COUNTS), n_columns), np.int64)
        shape = (n_columns, replicates)
        self._heads = FixedPoint.zeros(shape)
        self._total = FixedPoint.zeros(n_columns)

    def add(self, users: Array, values: Floats, baseline: Floats) -> None:
        """Take in users.

        Args:
            users: 64-bit hashes of the users' ids (int64 or uint64); no user may come twice.
            values: float64, columns × users: the model's; NaN where it is not defined.
            baseline: float64, columns × users: the baseline's. Users without a value of both are counted and left out;
                differences within `TIE` are 0.
        """
        both = ~(np.isnan(values) | np.isnan(baseline))
        with np.errstate(invalid="ignore"):
            difference = np.where(both, values - baseline, 0.0)
        size = np.maximum(np.maximum(np.abs(values), np.abs(baseline)), 1.0)
        difference[(np.abs(difference) <= TIE * size) & (size < np.inf)] = 0.0
        # Infinities less infinities are as little of a number as infinities are, but they are not undefined.
        difference[np.isnan(difference)] = np.inf
        excessive = both & ~(np.abs(difference) < LIMIT)
        self._counts += np.stack(
            [np.count_nonzero(which, axis=1) for which in (~both, excessive, difference > 0, difference < 0)]
        )
        for column, used in enumerate(both):
            for side, numbers in zip(_SIDES, (difference, values, baseline), strict=True):
                self._moments[side].add(column, numbers[column, used])
        difference[excessive] = 0.0
        # Who changes nothing needs no sign.
        moved = difference.any(axis=0)
        difference, users = difference[:, moved], users[moved]
        if self._replicates:
            self._heads = self._heads.plus(resampled_sums(difference, users, CoinDraw(), self._replicates, self._seed))
        self._total = self._total.plus(exact_sums(difference))

    def state(self) -> dict[str, Array]:
        """The state so far: arrays whose first axis are the columns; `merging.merged` merges states."""
        fields = dict(zip(_COUNTS, self._counts, strict=True))
        fields |= dict(zip(_SUMS, (*self._heads, *self._total), strict=True))
        for side, moments in self._moments.items():
            fields |= {f"{side}_{name}": numbers for name, numbers in moments.state().items()}
        return {name: numbers.copy() for name, numbers in fields.items()}


@dataclass(frozen=True)
class Comparison:
    """A model against a baseline, over the users for whom both have a value.

    Attributes:
        n: how many these users are.
        n_undefined: how many are left out because one of the two, or both, has no value.
        mean: the model's mean over them.
        baseline_mean: the baseline's mean over them.
        difference: the mean of the differences, model − baseline.
        relative_lift: difference / baseline's mean; NaN where that is 0.
        std: the standard deviation of the differences, divisor n − 1.
        standard_error: of the difference, std / √n.
        interval: the t interval of the difference.
        t: the paired t statistic, difference / standard error.
        p_t: its two-sided p-value with n − 1 degrees of freedom. 1 where no user differs.
        p_sign_flip: the two-sided p-value of the randomisation test that gives each user's difference a random sign: (b + 1) /
            (B + 1), b of B replicates having a sum at least as far from 0 (Fisher 1935; Phipson and Smyth 2010). Sums that
            differ by no more than the rounding of values can do are equal. NaN without replicates.
        replicates: B.
        cohens_d: difference / std, the effect size of paired differences (d_z).
        wins: how many users are better off with the model.
        ties: for how many users both are equal but for rounding.
        losses: how many users are worse off.
    """

    n: int
    n_undefined: int
    mean: float
    baseline_mean: float
    difference: float
    relative_lift: float
    std: float
    standard_error: float
    interval: Interval
    t: float
    p_t: float
    p_sign_flip: float
    replicates: int
    cohens_d: float
    wins: int
    ties: int
    losses: int


def comparison_of(state: dict[str, Any], level: float = 0.95) -> Comparison:
    """The comparison of one column from its merged state: every field of `PairedAccumulator.state`, one entry each.

    Args:
        state: of the column.
        level: of the interval.
    """
    difference, value, baseline = (
        moments_of(
            {name.removeprefix(f"{side}_"): entry for name, entry in state.items() if name.startswith(f"{side}_")}
        )
        for side in _SIDES
    )
    n, wins, losses = difference.n, int(state["wins"]), int(state["losses"])
    error = difference.std / math.sqrt(n) if n else math.nan
    t = _ratio(difference.mean, error)
    return Comparison(
        n=n,
        n_undefined=int(state["n_undefined"]),
        mean=value.mean,
        baseline_mean=baseline.mean,
        difference=difference.mean,
        relative_lift=difference.mean / baseline.mean if baseline.mean else math.nan,
        std=difference.std,
        standard_error=error,
        interval=t_interval(difference.mean, error, n, level),
        t=t,
        p_t=math.nan if math.isnan(t) else min(1.0, 2 * t_sf(abs(t), n - 1)),
        p_sign_flip=_sign_flip_p(state, n, value, baseline),
        replicates=len(state["heads_ones"]),
        cohens_d=_ratio(difference.mean, difference.std),
        wins=wins,
        ties=n - wins - losses,
        losses=losses,
    )


def _ratio(difference: float, spread: float) -> float:
    """Difference over spread; 0 where there is neither, infinite where there is no spread."""
    if spread == 0:
        return math.copysign(math.inf, difference) if difference else 0.0
    return difference / spread


def _sign_flip_p(state: dict[str, Any], n: int, value: Moments, baseline: Moments) -> float:
    if n == 0 or int(state["n_excessive"]):
        return math.nan
    if not len(state["heads_ones"]):
        return math.nan
    heads = FixedPoint(state["heads_ones"], state["heads_fraction"]).carried().floats()
    total = float(FixedPoint(np.asarray(state["total_ones"]), np.asarray(state["total_fraction"])).carried().floats())
    # Heads keep their sign and tails lose theirs.
    flipped = np.abs(2 * heads - total)
    size = max(1.0, *(abs(end) for side in (value, baseline) for end in (side.least, side.greatest)))
    as_far = np.count_nonzero(flipped >= abs(total) - n * size * _ROUNDING)
    return (int(as_far) + 1) / (len(flipped) + 1)
