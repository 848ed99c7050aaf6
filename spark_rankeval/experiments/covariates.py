"""What is added up of a group of users for a comparison of groups, with a covariate that was measured before: CUPED.

Source: Deng, Xu, Kohavi and Walker (WSDM 2013). Improving the sensitivity of online controlled experiments by utilizing pre-experiment
data. θ is cov(x, y) / var(x), pooled within the two groups. Each user has z = y − θ (x − mean of x in both) in place of y. The
expected value is the same, and the variance is smaller. The estimate θ costs a degree of freedom, as in an analysis of
covariance. It also adds its own variance, times the squared difference of the groups' mean x. With many users both are nothing.

A user without x takes the mean of the others, and so keeps the own y. That is no bias if the group has no part in who lacks x. No user
is lost (Zhao and Ding, To adjust or not to adjust? Estimating the average treatment effect in randomized experiments with
missing covariates, JASA 2024). Where the group may have a part, the difference is the plain one. Its interval then also holds that of the
adjusted one, so that it decides nothing that either leaves open.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from spark_rankeval.statistics import exact
from spark_rankeval.statistics.description import with_reliable_figures
from spark_rankeval.statistics.distributions import normal_quantile
from spark_rankeval.statistics.exact import State
from spark_rankeval.statistics.groups import Difference, Group
from spark_rankeval.statistics.intervals import UNBOUNDED
from spark_rankeval.worker import comparing
from spark_rankeval.worker.process import Message, Run, sends_messages
from spark_rankeval.worker.states import ClusterLayout, ClusterRows

Array = np.ndarray[Any, Any]
Column = np.ndarray[tuple[int], np.dtype[np.float64]]

# The sums of w^j x^a y^b over users with a covariate that are kept, as (a, b), and without weights for j = 1 alone.
_TERMS = ((0, 0), (1, 0), (2, 0), (1, 1), (0, 1))
# Products are rounded before they are added: a spread smaller than this share of them is rounding.
_ROUNDING = Fraction(1, 2**40)
# If the groups differ so much in who lacks the covariate as one in five would by chance, they may have a part in it. Twice −log of it is
# the critical χ² of two differences. Simulations in docs/evidence/simulations.md say that rarer chances let false differences through.
_UNEVEN = -2 * math.log(0.2)


class CovariateAccumulator:
    """The sums of a covariate and of its products with several columns, for users that come batch by batch."""

    def __init__(self, n_columns: int, *, weighted: bool = False) -> None:
        self._powers = (1, 2) if weighted else (1,)
        self._n_terms = len(_TERMS) * len(self._powers)
        self._sums = exact.ExactSums(n_columns * self._n_terms)
        self._n = np.zeros(n_columns, np.int64)

    def add(self, column: int, values: Column, covariate: Column, weights: Column | None = None) -> None:
        """Add users of a column. Users without a value, without a covariate (NaN) or without a weight above 0 add nothing."""
        used = ~(np.isnan(values) | np.isnan(covariate))
        if weights is not None:
            used &= (weights > 0) & np.isfinite(weights)
        y, x = values[used], covariate[used]
        w = np.ones(len(y)) if weights is None else weights[used]
        self._n[column] += len(y)
        with np.errstate(over="ignore", invalid="ignore"):
            for place, (power, (a, b)) in enumerate((power, term) for power in self._powers for term in _TERMS):
                # Infinities times 0 are no number; the sum is as unknown as if they were infinite.
                self._sums.add(column * self._n_terms + place, w**power * x**a * y**b)

    def state(self) -> dict[str, Array]:
        """The state so far, as arrays whose first axis is the columns; states are merged by adding."""
        sums = self._sums.state()
        return {
            "n": self._n.copy(),
            "limbs": sums["limbs"].reshape(-1, self._n_terms, exact.LIMBS),
            "n_excessive": sums["n_excessive"].reshape(-1, self._n_terms).sum(axis=1),
        }


class CovariateSums(NamedTuple):
    """The exact sums of w^j x^a y^b over a group's users with a covariate, by (j, a, b), and how many users these are."""

    n: int
    sums: dict[tuple[int, int, int], Fraction] | None  # None if terms are too large to be added


def covariate_sums_of(state: dict[str, Any]) -> CovariateSums:
    """The sums of one column from its merged state: one entry of each field of `CovariateAccumulator.state`."""
    n = int(state["n"])
    if int(state["n_excessive"]):
        return CovariateSums(n, None)
    sums = [exact.exact_sum(limbs) for limbs in state["limbs"]]
    # Without weights each is 1, and so is its square.
    powers = {1: sums[: len(_TERMS)], 2: sums[-len(_TERMS) :]}
    return CovariateSums(n, {(j, *term): each for j in powers for term, each in zip(_TERMS, powers[j], strict=True)})


class Adjusted(NamedTuple):
    """A difference between two groups after an adjustment for a covariate.

    Without one `theta` is NaN, and means and difference are those without it; `problem` says why if there is a covariate. The covariate's
    mean in both groups is an estimate as well. It adds `extra_variance` to the variance of the baseline's mean, and `extra_covariance` to
    its covariance with the difference.
    """

    difference: Difference
    means: tuple[float, float]
    extra_variance: float = 0.0
    extra_covariance: float = 0.0
    theta: float = math.nan
    variance_saved: float = math.nan
    problem: str = ""


def adjusted_difference(
    plain: Difference, groups: tuple[Group, Group], covariates: tuple[CovariateSums, CovariateSums]
) -> Adjusted:
    """The difference adjusted for the covariate; `variance_saved` is the share of the variance of the difference."""
    means = (groups[0].mean, groups[1].mean)
    problem = plain.problem
    if not problem and groups[0].clusters is not None:
        problem = "users come in clusters, and the adjustment takes users as independent"
    elif not problem and plain.rare:
        problem = "a value is rare, or all users of a group have the same"
    if problem:
        return Adjusted(plain, means, problem=problem)
    sides = _centred(groups, covariates)
    if isinstance(sides, str):
        return Adjusted(plain, means, problem=sides)
    n = sum(side.n for side in sides)
    first, second = sides
    spread = first.xx + second.xx
    theta = (first.xy + second.xy) / spread
    residual = first.yy + second.yy - theta * (first.xy + second.xy)
    if n <= 3 or residual <= _ROUNDING * sum(side.size for side in sides):
        return Adjusted(plain, means, problem="the covariate explains all of the values")
    after = [side.mean_y - theta * side.mean_x for side in sides]
    # One more parameter is estimated than there are means.
    variances = [float(side.variance(theta) * Fraction(n - 2, n - 3)) for side in sides]
    # The share that unequal weights add to a variance (Kish).
    kish_factor = n * (first.square_weight + second.square_weight) / (first.weight + second.weight) ** 2
    theta_variance = residual / (n - 3) / spread * kish_factor
    apart = float((first.mean_x - second.mean_x) ** 2 * theta_variance)
    shares = [variance * (1 + apart / sum(variances)) for variance in variances]
    adjusted = replace(plain, estimate=float(after[0] - after[1]), variances=(shares[0], shares[1]), df_spent=1)
    saved = 1 - sum(shares) / sum(plain.variances)
    if n > sum(each.n for each in covariates) and _unevenness(groups, covariates) > _UNEVEN:
        reach = abs(plain.estimate - adjusted.estimate) / normal_quantile(0.975) + adjusted.standard_error
        factor = max(1.0, (reach / plain.standard_error) ** 2)
        careful = replace(plain, variances=(plain.variances[0] * factor, plain.variances[1] * factor))
        return Adjusted(careful, means, problem="the groups may have a part in who lacks the covariate")
    terms = _common_mean_terms(sides, theta, covariates)
    return Adjusted(adjusted, (float(after[0]), float(after[1])), *terms, theta=float(theta), variance_saved=saved)


def _unevenness(groups: tuple[Group, Group], covariates: tuple[CovariateSums, CovariateSums]) -> float:
    """The χ² of the differences of two groups in the share of users with a covariate, and in their mean covariate; infinite without one."""
    if min(each.n for each in covariates) < 2:
        return math.inf
    (first, second), (n, n_other) = groups, [each.n for each in covariates]
    share = (n + n_other) / (first.n + second.n)
    means, variances = [], []
    for sums in (each.sums for each in covariates if each.sums):
        mean, squares, _ = exact.influences_of({(j, a): each for (j, a, b), each in sums.items() if not b})
        means.append(mean)
        variances.append(squares / sums[1, 0, 0] ** 2)
    if not sum(variances):
        return math.inf
    of_shares = (n / first.n - n_other / second.n) ** 2 / (share * (1 - share) * (1 / first.n + 1 / second.n))
    return of_shares + float((means[0] - means[1]) ** 2 / sum(variances))


def _common_mean_terms(
    sides: tuple[_Side, _Side], theta: Fraction, covariates: tuple[CovariateSums, CovariateSums]
) -> tuple[float, float]:
    """What the estimate of the common mean of x adds to the variance of the baseline's mean, and to its covariance with the difference.

    The baseline's mean is that of y − θx, plus θ · share · mean of x, the share being that of its users with a covariate. Both depend on
    the same users. In one group θ is not its own slope, so y − θx still goes with x.
    """
    # Users without x are not in its mean.
    own_weights = [Fraction(0) if each.sums is None else each.sums[1, 0, 0] for each in covariates]
    total = sum(own_weights)
    variance = sum(side.correction * side.squares[0] for side in sides) / total**2
    group, baseline = (
        side.correction * (side.squares[1] - theta * side.squares[0]) / side.weight / total for side in sides
    )
    shift = theta * own_weights[1] / sides[1].weight
    return float(shift**2 * variance + 2 * shift * baseline), float(shift * (group - baseline))


class _Side(NamedTuple):
    """A group's sums around its means, with the covariate less its mean in both groups: 0 for users without one."""

    n: int
    weight: Fraction
    square_weight: Fraction
    mean_x: Fraction
    mean_y: Fraction
    xx: Fraction
    xy: Fraction
    yy: Fraction
    size: Fraction
    squares: tuple[Fraction, Fraction, Fraction]

    @property
    def correction(self) -> Fraction:
        """Bessel's correction."""
        return Fraction(self.n, self.n - 1)

    def variance(self, theta: Fraction) -> Fraction:
        """The variance of the mean of y − θx, as `exact.mean_of_sums` has it."""
        xx, xy, yy = self.squares
        return self.correction * (yy - 2 * theta * xy + theta**2 * xx) / self.weight**2


def _centred(groups: tuple[Group, Group], covariates: tuple[CovariateSums, CovariateSums]) -> tuple[_Side, _Side] | str:
    """The sums of both groups; a reason if there are none."""
    first, second = (each.sums for each in covariates)
    if first is None or second is None:
        return "values of the covariate are too large"
    weight = first[1, 0, 0] + second[1, 0, 0]
    if not weight:
        return "no user has the covariate"
    center = (first[1, 1, 0] + second[1, 1, 0]) / weight
    sides = (_side(groups[0], first, center), _side(groups[1], second, center))
    spread = sum(side.xx for side in sides)
    if spread <= _ROUNDING * (first[1, 2, 0] + second[1, 2, 0]):
        return "the covariate has no spread"
    return sides


def _side(group: Group, sums: dict[tuple[int, int, int], Fraction], center: Fraction) -> _Side:
    own = (group.moments if group.weighted is None else group.weighted).sums
    assert own is not None, "a group without sums has no variance"
    is_weighted, n = group.weighted is not None, Fraction(group.n)

    def total(j: int, b: int) -> Fraction:
        name = "w" * (j * is_weighted) + "y" * b
        return own.get(name, Fraction(0)) if name else n

    weight = total(1, 0)
    mean_y = total(1, 1) / weight

    def around_means(j: int, mean_x: Fraction) -> tuple[Fraction, Fraction, Fraction]:
        """Σ w^j of the products of x and y around these means: xx, xy, yy."""
        x = sums[j, 1, 0] - center * sums[j, 0, 0]
        xx = sums[j, 2, 0] - 2 * center * sums[j, 1, 0] + center**2 * sums[j, 0, 0]
        xy = sums[j, 1, 1] - center * sums[j, 0, 1]
        w, y, yy = total(j, 0), total(j, 1), total(j, 2)
        return (
            xx - 2 * mean_x * x + mean_x**2 * w,
            xy - mean_x * y - mean_y * x + mean_x * mean_y * w,
            yy - 2 * mean_y * y + mean_y**2 * w,
        )

    mean_x = (sums[1, 1, 0] - center * sums[1, 0, 0]) / weight
    return _Side(
        group.n, weight, total(2, 0), mean_x, mean_y, *around_means(1, mean_x), total(1, 2), around_means(2, mean_x)
    )


_VALUE, _MEAN, _COVARIATE = "value", "mean", "covariate"
#: The count of users whose weight is negative, NaN or infinite, in a state of users with weights.
INVALID_WEIGHTS = f"{_MEAN}_n_invalid_weights"


class GroupSumAccumulator:
    """The sums of several columns of a group, for users that come batch by batch."""

    def __init__(self, n_columns: int, *, weighted: bool = False, covariate: bool = False) -> None:
        self._moments = exact.MomentsAccumulator(n_columns)
        self._means = exact.MeanAccumulator(n_columns, weighted=True) if weighted else None
        self._covariate = CovariateAccumulator(n_columns, weighted=weighted) if covariate else None

    def add(self, values: Array, weights: Array | None = None, covariate: Array | None = None) -> None:
        """Add users: their values, columns × users (NaN: undefined), and their weights and covariate if there are any."""
        counts = np.ones(values.shape[1], np.bool_) if weights is None else (weights > 0) & np.isfinite(weights)
        for column, column_values in enumerate(values):
            self._moments.add(column, column_values[counts])
            if self._means is not None and weights is not None:
                self._means.add(column, column_values, weights)
            if self._covariate is not None and covariate is not None:
                self._covariate.add(column, column_values, covariate, weights)

    def state(self) -> State:
        """The state so far: arrays whose first axis is the columns."""
        parts = {_VALUE: self._moments, _MEAN: self._means, _COVARIATE: self._covariate}
        return {
            f"{prefix}_{name}": entries
            for prefix, part in parts.items()
            if part is not None
            for name, entries in part.state().items()
        }


def group_of(
    state: Mapping[str, Any], name: str, bounds: tuple[float, float] = UNBOUNDED
) -> tuple[Group, CovariateSums | None]:
    """The group of one column, and the sums of its covariate, from one entry of each field of `GroupSumAccumulator.state`."""
    fields = dict(state)
    moments = exact.moments_of(exact.with_prefix(fields, _VALUE))
    mean, covariate = exact.with_prefix(fields, _MEAN), exact.with_prefix(fields, _COVARIATE)
    weighted = with_reliable_figures(exact.mean_of(mean), moments) if mean else None
    return Group(name, moments, weighted, bounds), covariate_sums_of(covariate) if covariate else None


#: More groups are no experiment, but a column of something else.
MOST_GROUPS = 500


def group_batches(n_metrics: int, *, weighted: bool, covariate: bool, layout: ClusterLayout | None = None) -> Run:
    """A function for ``mapInArrow``: the sums of each group of users, in place of a model.

    The values of a row are those of the metrics, then the user's weight and then the covariate, if there are any. The state has
    the counts of `N_USERS` and others for each group, and the fields of `GroupSumAccumulator`. With a layout users go on to their clusters.
    """

    @sends_messages
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[Message]:
        counts = comparing.UserCounts(None)
        groups: dict[str, GroupSumAccumulator] = {}
        n_in_several = np.zeros(1, np.int64)
        clusters = None if layout is None else ClusterRows(layout)
        for batch in batches:
            users = comparing.read_users(batch, n_metrics + weighted + covariate)
            if len({*groups, *users.models}) > MOST_GROUPS:
                yield comparing.comparison_message({None: {(): {comparing.N_TOO_MANY: np.ones(1, np.int64)}}})
                return
            counts.add(users)
            n_in_several += np.count_nonzero((users.n_rows > 0).sum(axis=0) > 1)
            for place, name in enumerate(users.models):
                every = users.values[:, place]
                values = every[:, users.n_rows[place] > 0]
                group = groups.setdefault(name, GroupSumAccumulator(n_metrics, weighted=weighted, covariate=covariate))
                group.add(
                    values[:n_metrics], values[n_metrics] if weighted else None, values[-1] if covariate else None
                )
                if clusters is not None:
                    weights = every[n_metrics] if weighted else None
                    yield from comparing.send_to_clusters(clusters, batch, users, name, (), every[:n_metrics], weights)
        sums: dict[comparing.Owner, State] = {name: group.state() for name, group in groups.items()}
        yield comparing.comparison_message(
            {None: comparing.merged_owners([counts.owners(), {(): {comparing.N_IN_SEVERAL: n_in_several}}, sums])}
        )
        if clusters is not None:
            yield from clusters.messages()

    return run
