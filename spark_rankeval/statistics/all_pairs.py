"""All pairs of several models on the same users, corrected for the number of pairs.

Tukey's test assumes that the differences of all pairs have the same spread. That of Games and Howell (1976) uses each pair's own.
Sets of ranks: Mogstad, Romano, Shaikh and Wilhelm, Inference for ranks with applications to mobility across neighbourhoods and academic
achievement across countries (Review of Economic Studies 2024).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from spark_rankeval.statistics.cluster_sums import Clusters
from spark_rankeval.statistics.distributions import studentized_range_critical, studentized_range_sf
from spark_rankeval.statistics.intervals import (
    UNBOUNDED,
    UNKNOWN_MEAN,
    Far,
    Interval,
    bounds_of_differences,
    checked_level,
    interval_without_spread,
    nearest_limits,
    p_beyond_without_spread,
    ratio,
)
from spark_rankeval.statistics.moments import Moments, MomentsAccumulator, moments_of, with_prefix
from spark_rankeval.statistics.resampling import LIMIT, FixedPoint, exact_sums, limbs_of, uniform64

Array = np.ndarray[Any, Any]
Floats = np.ndarray[Any, np.dtype[np.float64]]

# Rounding changes a term of a sum by less than this share of its size.
_ROUNDING = 2.0**-40
_SIDES = ("value", "residual")
_PAIR = "pair"
#: Permutations are looked up in a list of all of them; 9 labels would have 362,880.
MOST_LABELS = 8

_PURPOSE = 3
_BLOCK = 64
_REPLICATES_AT_ONCE = 256
_BLOCKS_BEFORE_CARRY = 512


class AllPairsAccumulator:
    """The values of several columns under several models, for users that come batch by batch.

    Each user is a block: their values under the models are compared with one another, not with other users'. `replicates` and
    `seed` are for the randomised test (0 replicates: no test).
    """

    def __init__(self, n_columns: int, n_models: int, *, replicates: int = 0, seed: int = 0) -> None:
        self._shape = (n_columns, n_models)
        self._replicates, self._seed = replicates, seed
        self._moments = {side: MomentsAccumulator(n_columns * n_models) for side in _SIDES}
        self._pairs = list(itertools.combinations(range(n_models), 2))
        self._moments[_PAIR] = MomentsAccumulator(n_columns * len(self._pairs))
        self._n_excessive = np.zeros(n_columns, np.int64)
        self._dealt = FixedPoint.zeros((n_columns, n_models, replicates))

    def add(self, users: Array, values: Floats) -> None:
        """Add users, each once: 64-bit hashes of their ids, and their values as columns × models × users.

        Users without a value under every model are left out.
        """
        n_columns, n_models = self._shape
        complete: Array = np.logical_not(np.isnan(values).any(axis=1))
        # One model after the other, so that rounding does not depend on the layout of the array.
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
            column_values = values[column][:, used[column]]
            self._moments[_PAIR].add(column * len(self._pairs) + place, column_values[second] - column_values[first])
        if self._replicates:
            residuals = np.where(used[:, None], residuals, 0.0)
            moved = residuals.any(axis=(0, 1))
            dealt = permuted_sums(residuals[:, :, moved], users[moved], self._replicates, self._seed)
            self._dealt = self._dealt.plus(dealt)

    def state(self) -> dict[str, Array]:
        """The state so far, as arrays whose first axis is the columns."""
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
    """Two of several models, with indices `first` < `second`; `difference` is the mean of the second − that of the first.

    Attributes:
        interval: of the difference; with the probability `level` the intervals of all pairs hold together.
        error: √(residual mean square / n); if each pair has its own spread, the spread of users' differences / √(2n). If users come in
            clusters: √(mean variance of the pairs' mean differences / 2), or that of the pair.
        q: |difference| / error.
        df: degrees of freedom of the error: (n − 1)(models − 1), or n − 1; with clusters those of these instead of n − 1.
        n_clusters: how many clusters there are; None if users are independent.
        effective_n: how many users would do as well, or clusters of equal size.
        design_effect: the variance of the difference with clusters ÷ without.
        p_randomised: (b + 1) / (B + 1). Each of B replicates permutes the models within each user; in b of them the range of
            means is at least as large as the difference (Carterette, TOIS 2012). NaN without replicates.
        far: how far few users lie from the mean difference, in errors of one model's mean.
    """

    first: int
    second: int
    n: int
    difference: float
    interval: Interval
    error: float
    q: float
    df: float
    n_models: int
    p_randomised: float
    bounds: tuple[float, float] = field(default=UNBOUNDED, repr=False)
    n_clusters: int | None = None
    effective_n: float = math.nan
    design_effect: float = math.nan
    far: Far = Far()

    @property
    def no_user_differs(self) -> bool:
        """Whether users are known to have equal values under both models; a pooled spread does not tell."""
        return self.n > 1 and self.error == self.difference == 0

    @property
    def n_independent(self) -> int:
        """How many users, or clusters if they come in these, are independent."""
        return self.n if self.n_clusters is None else self.n_clusters

    @cached_property
    def p_tukey(self) -> float:
        """P(Q ≥ q) of the studentized range, which includes the correction for the number of pairs.

        Without spread it is the p-value of the users' signs, 2^(1 − n), times the number of pairs.
        """
        if math.isnan(self.q):
            return math.nan
        if math.isinf(self.q):
            return min(1.0, math.comb(self.n_models, 2) * 2.0 ** (1 - self.n_independent))
        return studentized_range_sf(self.q, self.n_models, self.df)

    def p_of(self, test: str, margin: float = 0.0) -> float:
        """The p-value of a verdict: that there is a difference, or that it lies beyond ±margin or within, as the estimate does.

        The interval leaves out what it rejects. A randomised p may be larger.
        """
        if math.isnan(self.p_tukey):
            return math.nan
        if self.error:
            limits = nearest_limits(self.difference, margin)
            q = min(self.far.t_at(limit, self.difference, self.error) for limit in limits)
            p = studentized_range_sf(q, self.n_models, self.df)
        else:
            n_pairs = math.comb(self.n_models, 2)
            p = min(1.0, n_pairs * p_beyond_without_spread(self.difference, self.effective_n, margin, self.bounds))
        return p if test != "randomised" or 0 < margin >= abs(self.difference) else max(p, self.p_randomised)


def all_pairs_of(
    state: dict[str, Any],
    level: float = 0.95,
    bounds: tuple[float, float] = UNBOUNDED,
    clusters: Sequence[Clusters] | None = None,
    *,
    pairwise: bool = False,
) -> tuple[Pair, ...]:
    """The pairs of one column's models from its merged state: one entry of each field of `AllPairsAccumulator.state`.

    The residual mean square is that of the two-way layout, value = user + model + residual (Tukey 1953; Carterette 2012). `pairwise` takes
    the spread of each pair's differences instead (Games and Howell 1976).
    `bounds` are the least and the largest possible value. They are ignored if a value breaks them. `clusters` say how precise the mean
    difference of each pair is; without them users are independent. For clusters of equal size the residual mean square of clusters and
    models is half the mean variance of the pairs.
    """
    checked_level(level)
    n_models = len(state["value_n"])
    values, residuals, pair_moments = (moments_of_each(state, side) for side in (*_SIDES, _PAIR))
    n = values[0].n
    bounds = bounds_of_differences(bounds, *values)
    excessive = int(state["n_excessive"]) > 0
    n_clusters, n_independent, effective_n, df, problem = None, n, float(n), n - 1.0, ""
    if clusters is not None:
        # All pairs have the same users.
        largest_pair = max(clusters, key=lambda each: each.n)
        n_clusters = n_independent = largest_pair.n
        effective_n, df, problem = largest_pair.effective_n, largest_pair.df, largest_pair.problem
    problem = "values too large to be compared" if excessive else problem
    df *= 1 if pairwise else n_models - 1
    square = math.fsum(side.std**2 for side in residuals) / (n_models - 1)
    size = max(1.0, *(abs(end) for side in values for end in (side.least, side.greatest)))
    dealt = FixedPoint(state["dealt_ones"], state["dealt_fraction"]).carried().floats()
    # Sums count as equal if the rounding of values can explain their difference.
    ranges = np.ptp(dealt, axis=0) + n * size * _ROUNDING
    pairs = []
    combinations = list(itertools.combinations(range(n_models), 2))
    for place, (first, second) in enumerate(combinations):
        spread = pair_moments[place].std / math.sqrt(2) if pairwise else math.sqrt(square)
        # Below this, only rounding makes the differences vary.
        spread = 0.0 if spread <= size * _ROUNDING else spread
        error = spread / math.sqrt(n) if n_independent > 1 and not problem else math.nan
        error_of_users = error
        if clusters is not None and error > 0:
            pooled = [clusters[place]] if pairwise else clusters
            error = math.sqrt(math.fsum(each.standard_error**2 for each in pooled) / len(pooled) / 2)
        # Residuals have the same differences as values, without the rounding of large values.
        difference = math.nan if excessive else residuals[second].mean - residuals[first].mean
        q = ratio(abs(difference), error)
        # A model's error is that of a difference by the root of 2.
        far = Far(*(each / math.sqrt(2) for each in Far.of(pair_moments[place])))
        if error == 0:
            level_of_one = 1 - (1 - level) / len(combinations)
            interval = interval_without_spread(difference, effective_n, level_of_one, bounds)._replace(level=level)
        else:
            critical = studentized_range_critical(level, n_models, df) if error > 0 else math.nan
            method, ends = "games_howell" if pairwise else "tukey", far.interval(difference, error, critical)
            interval = _interval(ends, n, level, problem, method).within(bounds)
        total = abs(residuals[second].total - residuals[first].total)
        p_randomised = math.nan
        if n and len(ranges) and not excessive:
            p_randomised = (int(np.count_nonzero(ranges >= total)) + 1) / (len(ranges) + 1)
        pairs.append(Pair(
            first=first, second=second, n=n, difference=difference, interval=interval, error=error, q=q, df=df,
            n_models=n_models, p_randomised=p_randomised, bounds=bounds, n_clusters=n_clusters,
            effective_n=effective_n,
            design_effect=math.nan if clusters is None else ratio(error, error_of_users) ** 2, far=far,
        ))  # fmt: skip
    return tuple(pairs)


class RankSet(NamedTuple):
    """The rank of a model by its mean, 0 without one, and the ranks that the true one may have. 1 is the best."""

    rank: int
    lowest: int
    highest: int


def rank_sets(pairs: Sequence[Pair], means: Sequence[float], *, larger_is_better: bool = True) -> list[RankSet]:
    """The sets of ranks of several models, which hold all true ranks with the probability with which the intervals of pairs hold.

    A model's true rank is 1 + the number of models with a better true mean. If an interval leaves 0 out, one of its models is
    surely better. So at least the surely better models are before a model, and the surely worse ones are not.
    """
    signed = [mean if larger_is_better else -mean for mean in means]
    n_better, n_worse = [0] * len(means), [0] * len(means)
    for pair in pairs:
        low, high = pair.interval.low, pair.interval.high
        if low > 0 or high < 0:
            second_is_better = (low > 0) == larger_is_better
            better, worse = (pair.second, pair.first) if second_is_better else (pair.first, pair.second)
            n_worse[better] += 1
            n_better[worse] += 1
    ranks = [0 if math.isnan(mean) else 1 + sum(other > mean for other in signed) for mean in signed]
    return [
        RankSet(rank, 1 + before, len(means) - after)
        for rank, before, after in zip(ranks, n_better, n_worse, strict=True)
    ]


def moments_of_each(state: dict[str, Any], side: str) -> list[Moments]:
    """The moments of each model's or pair's values; an empty list if the state lacks them."""
    fields = with_prefix(state, side)
    places = range(len(fields["n"]) if fields else 0)
    return [moments_of({name: each[place] for name, each in fields.items()}) for place in places]


def _interval(ends: tuple[float, float], n: int, level: float, problem: str, method: str) -> Interval:
    if problem:
        return Interval.missing(level, method, problem)
    if n < 2:
        return Interval.missing(level, method, "no user" if n == 0 else "one user has no spread")
    if math.isnan(ends[0]):
        return Interval.missing(level, method, UNKNOWN_MEAN)
    return Interval(*ends, level, method)


def permuted_sums(values: Floats, users: Array, replicates: int, seed: int) -> FixedPoint:
    """For each replicate, the sum of the values that each label gets by permutation within users: columns × labels × replicates.

    A user's permutation in a replicate is drawn from 32 bits of a hash of user, replicate and seed. It is the same for all
    columns. The probability of a permutation is off by at most 2⁻³². `values` are columns × labels × users, without NaN and
    below `LIMIT` in size.
    """
    n_columns, n_labels, n_users = values.shape
    # Each word serves two replicates.
    n_words = -(-replicates // 2)
    ones, fraction = limbs_of(values)
    parts = []
    for first in range(0, n_words, _REPLICATES_AT_ONCE // 2):
        words = np.arange(first, min(first + _REPLICATES_AT_ONCE // 2, n_words))
        sums = FixedPoint.zeros((n_columns, n_labels - 1, 2 * len(words)))
        for block, start in enumerate(range(0, n_users, _BLOCK)):
            block_users = slice(start, start + _BLOCK)
            limbs = (None if ones is None else ones[:, :, block_users], fraction[:, :, block_users])
            _add_block(limbs, uniform64(users[block_users, None], words, seed, _PURPOSE), sums)
            if block % _BLOCKS_BEFORE_CARRY == _BLOCKS_BEFORE_CARRY - 1:
                sums = sums.carried()
        parts.append(sums.carried())
    dealt = FixedPoint(*(np.concatenate(limbs, axis=2)[:, :, :replicates] for limbs in zip(*parts, strict=True)))
    # The last label gets what the others do not.
    total = exact_sums(values.reshape(n_columns, n_labels * n_users))
    rest = FixedPoint(
        *(limb[:, None, None] - each.sum(axis=1, keepdims=True) for limb, each in zip(total, dealt, strict=True))
    )
    return FixedPoint(*(np.concatenate(limbs, axis=1) for limbs in zip(dealt, rest, strict=True))).carried()


def _add_block(limbs: tuple[Floats | None, Floats], words: Array, sums: FixedPoint) -> None:
    n_columns, n_labels, n_users = limbs[1].shape
    # Widened before the product, because numpy 1 keeps the width of an array that it multiplies by a scalar.
    lanes = words.astype("<u8", copy=False).view("<u4").astype(np.uint64)
    drawn = ((lanes * np.uint64(math.factorial(n_labels))) >> np.uint64(32)).astype(np.intp)
    holds = np.empty((n_labels, *lanes.shape))
    # What each label gets in every permutation: labels × permutations.
    permutations = np.array(list(itertools.permutations(range(n_labels))), np.uint8).T.copy()
    for label, sources in enumerate(permutations[:-1]):
        source = sources[drawn]
        for model in range(n_labels):
            np.equal(source, model, out=holds[model], casting="unsafe")
        flat = holds.reshape(n_labels * n_users, -1)
        for limb, total in zip(limbs, sums, strict=True):
            if limb is not None:
                total[:, label] += (limb.reshape(n_columns, -1) @ flat).astype(np.int64)
