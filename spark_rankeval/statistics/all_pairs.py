"""All pairs of several models on the same users, corrected for their number: Tukey's honestly significant difference."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from spark_rankeval.errors import OptionError
from spark_rankeval.statistics.distributions import studentized_range_critical, studentized_range_sf
from spark_rankeval.statistics.intervals import Interval, checked_level
from spark_rankeval.statistics.moments import MomentsAccumulator, moments_of
from spark_rankeval.statistics.permuting import MOST_LABELS, permuted_sums
from spark_rankeval.statistics.resampling import LIMIT, FixedPoint

Array = np.ndarray[Any, Any]
Floats = np.ndarray[Any, np.dtype[np.float64]]

# A term of a sum is off by less than this times its size.
_ROUNDING = 2.0**-40
_SIDES = ("value", "residual")


class AllPairsAccumulator:
    """The values of several columns under several models, of users that come batch by batch.

    Users are blocks: a user's values under the models are compared with one another, not with other users'.
    """

    def __init__(self, n_columns: int, n_models: int, *, replicates: int = 0, seed: int = 0) -> None:
        if n_models < 2:
            raise OptionError(f"pairs are of 2 or more models, got {n_models!r}")
        if replicates < 0:
            raise OptionError(f"the number of replicates is a whole number from 0 on, got {replicates!r}")
        if replicates and n_models > MOST_LABELS:
            raise OptionError(
                f"models' labels are permuted for up to {MOST_LABELS} models, got {n_models}; "
                "with replicates=0, Tukey's test without permutations takes any number"
            )
        self._shape = (n_columns, n_models)
        self._replicates, self._seed = replicates, seed
        self._moments = {side: MomentsAccumulator(n_columns * n_models) for side in _SIDES}
        self._n_excessive = np.zeros(n_columns, np.int64)
        self._dealt = FixedPoint.zeros((n_columns, n_models, replicates))

    def add(self, users: Array, values: Floats) -> None:
        """Take in users.

        Args:
            users: 64-bit hashes of the users' ids (int64 or uint64); no user may come twice.
            values: float64, columns × models × users. Users without a value under every model are left out.
        """
        n_columns, n_models = self._shape
        complete: Array = np.logical_not(np.isnan(values).any(axis=1))
        # One after the other, so that the layout of the array decides no rounding.
        with np.errstate(invalid="ignore"):
            totals = values[:, 0]
            for model in range(1, n_models):
                totals = totals + values[:, model]
            residuals = values - totals[:, None] / n_models
        excessive: Array = complete & ~(np.abs(residuals) < LIMIT).all(axis=1)
        self._n_excessive += np.count_nonzero(excessive, axis=1)
        used: Array = complete & ~excessive
        for column, model in itertools.product(range(n_columns), range(n_models)):
            for side, numbers in zip(_SIDES, (values, residuals), strict=True):
                self._moments[side].add(column * n_models + model, numbers[column, model, used[column]])
        if self._replicates:
            residuals = np.where(used[:, None], residuals, 0.0)
            moved = residuals.any(axis=(0, 1))
            dealt = permuted_sums(residuals[:, :, moved], users[moved], self._replicates, self._seed)
            self._dealt = self._dealt.plus(dealt)

    def state(self) -> dict[str, Array]:
        """The state so far: arrays whose first axis are the columns; `merging.merged` merges states."""
        fields: dict[str, Array] = {
            "n_excessive": self._n_excessive.copy(),
            "dealt_ones": self._dealt.ones.copy(),
            "dealt_fraction": self._dealt.fraction.copy(),
        }
        for side, moments in self._moments.items():
            fields |= {
                f"{side}_{name}": numbers.reshape(*self._shape, *numbers.shape[1:])
                for name, numbers in moments.state().items()
            }
        return fields


@dataclass(frozen=True)
class Pair:
    """Two of several models.

    Attributes:
        first: the index of the one.
        second: the index of the other, larger than `first`.
        n: how many users have a value under every model.
        difference: the mean of the second less the mean of the first.
        interval: of the difference; all pairs' intervals hold at once with the probability `level`.
        q: |difference| / √(residual mean square / n).
        p_tukey: P(Q ≥ q) of the studentized range of as many means, (n − 1)(models − 1) degrees of freedom: already corrected
            for the number of pairs.
        p_randomised: (b + 1) / (B + 1), b of B replicates, in which models' labels are permuted within each user, having a
            range of means at least as large as the difference (Carterette, TOIS 2012); NaN without replicates.
    """

    first: int
    second: int
    n: int
    difference: float
    interval: Interval
    q: float
    p_tukey: float
    p_randomised: float


def all_pairs_of(state: dict[str, Any], level: float = 0.95) -> tuple[Pair, ...]:
    """The pairs of one column's models from its merged state: every field of `AllPairsAccumulator.state`, one entry each.

    The residual mean square is that of the two-way layout, value = user + model + residual (Tukey 1953; Carterette 2012).

    Args:
        state: of the column.
        level: of the intervals, together.
    """
    checked_level(level)
    n_models = len(state["value_n"])
    values, residuals = (
        [
            moments_of({name.removeprefix(f"{side}_"): each[model] for name, each in state.items() if name.startswith(f"{side}_")})
            for model in range(n_models)
        ]
        for side in _SIDES
    )  # fmt: skip
    n = values[0].n
    excessive = int(state["n_excessive"]) > 0
    df = (n - 1) * (n_models - 1)
    square = math.fsum(side.std**2 for side in residuals) / (n_models - 1)
    error = math.sqrt(square / n) if n > 1 and not excessive else math.nan
    critical = studentized_range_critical(level, n_models, df) if n > 1 else math.nan
    size = max(1.0, *(abs(end) for side in values for end in (side.least, side.greatest)))
    dealt = FixedPoint(state["dealt_ones"], state["dealt_fraction"]).carried().floats()
    # Sums that differ by no more than the rounding of values can do are equal.
    ranges = np.ptp(dealt, axis=0) + n * size * _ROUNDING
    pairs = []
    for first, second in itertools.combinations(range(n_models), 2):
        # Residuals differ as values do, and without the rounding of large ones.
        difference = math.nan if excessive else residuals[second].mean - residuals[first].mean
        q = _ratio(abs(difference), error)
        total = abs(residuals[second].total - residuals[first].total)
        pairs.append(
            Pair(
                first=first,
                second=second,
                n=n,
                difference=difference,
                interval=_interval(difference, critical * error, n, level, excessive),
                q=q,
                p_tukey=math.nan if math.isnan(q) else studentized_range_sf(q, n_models, df),
                p_randomised=math.nan if excessive or not n else _randomised_p(ranges, total),
            )
        )
    return tuple(pairs)


def _interval(difference: float, reach: float, n: int, level: float, excessive: bool) -> Interval:
    if excessive:
        return Interval.missing(level, "tukey", "values too large to be compared")
    if n < 2:
        return Interval.missing(level, "tukey", "no user" if n == 0 else "one user has no spread")
    return Interval(difference - reach, difference + reach, level, "tukey")


def _ratio(difference: float, error: float) -> float:
    if error == 0:
        return math.inf if difference else 0.0
    return difference / error


def _randomised_p(ranges: Floats, difference: float) -> float:
    return (int(np.count_nonzero(ranges >= difference)) + 1) / (len(ranges) + 1) if len(ranges) else math.nan
