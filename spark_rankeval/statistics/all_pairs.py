"""All pairs of several models on the same users, corrected for their number.

Tukey's honestly significant difference assumes that the differences of all pairs have one spread; one noisy model breaks it.
The test of Games and Howell (1976), here with users as blocks, takes each pair's own spread.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_rankeval.errors import OptionError
from spark_rankeval.statistics.distributions import studentized_range_critical, studentized_range_sf
from spark_rankeval.statistics.intervals import (
    NOT_KNOWN,
    UNBOUNDED,
    Interval,
    bounds_of_differences,
    checked_level,
    interval_without_spread,
    p_beyond_without_spread,
)
from spark_rankeval.statistics.moments import MomentsAccumulator, moments_of
from spark_rankeval.statistics.permuting import MOST_LABELS, permuted_sums
from spark_rankeval.statistics.resampling import LIMIT, FixedPoint

if TYPE_CHECKING:
    from spark_rankeval.statistics.moments import Moments

Array = np.ndarray[Any, Any]
Floats = np.ndarray[Any, np.dtype[np.float64]]

# A term of a sum is off by less than this times its size.
_ROUNDING = 2.0**-40
_SIDES = ("value", "residual")
_PAIR = "pair"


class AllPairsAccumulator:
    """The values of several columns under several models, of users that come batch by batch.

    Users are blocks: a user's values under the models are compared with one another, not with other users'. `replicates` and
    `seed` are those of the randomised test (0: none); `pairwise` keeps the spread of each pair's differences.
    """

    def __init__(
        self, n_columns: int, n_models: int, *, replicates: int = 0, seed: int = 0, pairwise: bool = False
    ) -> None:
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
        self._pairs = list(itertools.combinations(range(n_models), 2)) if pairwise else []
        if pairwise:
            self._moments[_PAIR] = MomentsAccumulator(n_columns * len(self._pairs))
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
        for column, (place, (first, second)) in itertools.product(range(n_columns), enumerate(self._pairs)):
            of_column = values[column][:, used[column]]
            self._moments[_PAIR].add(column * len(self._pairs) + place, of_column[second] - of_column[first])
        if self._replicates:
            residuals = np.where(used[:, None], residuals, 0.0)
            moved = residuals.any(axis=(0, 1))
            dealt = permuted_sums(residuals[:, :, moved], users[moved], self._replicates, self._seed)
            self._dealt = self._dealt.plus(dealt)

    def state(self) -> dict[str, Array]:
        """The state so far: arrays whose first axis are the columns."""
        fields: dict[str, Array] = {
            "n_excessive": self._n_excessive.copy(),
            "dealt_ones": self._dealt.ones.copy(),
            "dealt_fraction": self._dealt.fraction.copy(),
        }
        for side, moments in self._moments.items():
            fields |= {
                f"{side}_{name}": numbers.reshape(self._shape[0], -1, *numbers.shape[1:])
                for name, numbers in moments.state().items()
            }
        return fields


@dataclass(frozen=True)
class Pair:
    """Two of several models, by their indices `first` < `second`.

    Attributes:
        n: how many users have a value under every model.
        difference: the mean of the second − the mean of the first.
        interval: of the difference; all pairs' intervals hold together with the probability `level`.
        error: √(residual mean square / n); if pairs have a spread of their own, that of the users' differences, / √(2n).
        q: |difference| / error.
        df: degrees of freedom of the error: (n − 1)(models − 1), or n − 1.
        p_randomised: (b + 1) / (B + 1). B replicates permute the models within each user; in b of them the range of means is at
            least as large as the difference (Carterette, TOIS 2012). NaN without replicates.
    """

    first: int
    second: int
    n: int
    difference: float
    interval: Interval
    error: float
    q: float
    df: int
    n_models: int
    p_randomised: float
    bounds: tuple[float, float] = field(default=UNBOUNDED, repr=False)

    @cached_property
    def p_tukey(self) -> float:
        """P(Q ≥ q) of the studentized range: already corrected for the number of pairs.

        Without spread it is that of the users' signs, 2^(1 − n), times the number of pairs.
        """
        if math.isnan(self.q):
            return math.nan
        if math.isinf(self.q):
            return min(1.0, math.comb(self.n_models, 2) * 2.0 ** (1 - self.n))
        return studentized_range_sf(self.q, self.n_models, self.df)

    def p_of(self, test: str, margin: float = 0.0) -> float:
        """The p-value of what a verdict would state: of any difference, or of one beyond ±margin or within, whichever is nearer."""
        p = self.p_randomised if test == "randomised" else self.p_tukey
        if not margin or math.isnan(p) or math.isnan(self.error):
            return p
        if self.error:
            beyond = studentized_range_sf(abs(abs(self.difference) - margin) / self.error, self.n_models, self.df)
        else:
            n_pairs = math.comb(self.n_models, 2)
            beyond = min(1.0, n_pairs * p_beyond_without_spread(self.difference, self.n, margin, self.bounds))
        return max(p, beyond) if abs(self.difference) > margin else beyond


def all_pairs_of(
    state: dict[str, Any], level: float = 0.95, bounds: tuple[float, float] = UNBOUNDED
) -> tuple[Pair, ...]:
    """The pairs of one column's models from its merged state, one entry of each field of `AllPairsAccumulator.state`.

    The residual mean square is that of the two-way layout, value = user + model + residual (Tukey 1953; Carterette 2012).
    `bounds` are the least and the largest possible value; bounds that a value breaks are ignored.
    """
    checked_level(level)
    n_models = len(state["value_n"])
    values, residuals, of_pairs = (_moments(state, side) for side in (*_SIDES, _PAIR))
    n = values[0].n
    bounds = bounds_of_differences(bounds, *values)
    excessive = int(state["n_excessive"]) > 0
    df = n - 1 if of_pairs else (n - 1) * (n_models - 1)
    square = math.fsum(side.std**2 for side in residuals) / (n_models - 1)
    size = max(1.0, *(abs(end) for side in values for end in (side.least, side.greatest)))
    dealt = FixedPoint(state["dealt_ones"], state["dealt_fraction"]).carried().floats()
    # Sums that differ by no more than the rounding of values can do are equal.
    ranges = np.ptp(dealt, axis=0) + n * size * _ROUNDING
    pairs = []
    combinations = list(itertools.combinations(range(n_models), 2))
    for place, (first, second) in enumerate(combinations):
        spread = of_pairs[place].std / math.sqrt(2) if of_pairs else math.sqrt(square)
        # Below this, differences are equal but for rounding.
        spread = 0.0 if spread <= size * _ROUNDING else spread
        error = spread / math.sqrt(n) if n > 1 and not excessive else math.nan
        # Residuals differ as values do, and without the rounding of large ones.
        difference = math.nan if excessive else residuals[second].mean - residuals[first].mean
        q = _ratio(abs(difference), error)
        if error == 0:
            level_of_one = 1 - (1 - level) / len(combinations)
            interval = replace(interval_without_spread(difference, n, level_of_one, bounds), level=level)
        else:
            reach = studentized_range_critical(level, n_models, df) * error if error > 0 else math.nan
            method = "games_howell" if of_pairs else "tukey"
            interval = _interval(difference, reach, n, level, excessive, method).within(bounds)
        total = abs(residuals[second].total - residuals[first].total)
        pairs.append(
            Pair(
                first=first,
                second=second,
                n=n,
                difference=difference,
                interval=interval,
                error=error,
                q=q,
                df=df,
                n_models=n_models,
                p_randomised=math.nan if excessive or not n else _randomised_p(ranges, total),
                bounds=bounds,
            )
        )
    return tuple(pairs)


def _moments(state: dict[str, Any], side: str) -> list[Moments]:
    """The moments of each model's or pair's values; none if the state lacks them."""
    fields = {name.removeprefix(f"{side}_"): each for name, each in state.items() if name.startswith(f"{side}_")}
    places = range(len(fields["n"]) if fields else 0)
    return [moments_of({name: each[place] for name, each in fields.items()}) for place in places]


def _interval(difference: float, reach: float, n: int, level: float, excessive: bool, method: str) -> Interval:
    if excessive:
        return Interval.missing(level, method, "values too large to be compared")
    if n < 2:
        return Interval.missing(level, method, "no user" if n == 0 else "one user has no spread")
    if math.isnan(reach):
        return Interval.missing(level, method, NOT_KNOWN)
    return Interval(difference - reach, difference + reach, level, method)


def _ratio(difference: float, error: float) -> float:
    if error == 0:
        return math.inf if difference else 0.0
    return difference / error


def _randomised_p(ranges: Floats, difference: float) -> float:
    return (int(np.count_nonzero(ranges >= difference)) + 1) / (len(ranges) + 1) if len(ranges) else math.nan
