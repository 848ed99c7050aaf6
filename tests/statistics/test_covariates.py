"""CUPED: the adjusted difference is that of an analysis of covariance, and its sums merge exactly."""

import math

import numpy as np
import pytest
import statsmodels.api as sm
from helpers.descriptions import column
from worlds.user_groups import SHARE, group

from spark_rankeval.comparison.compared_models import ComparedMetric
from spark_rankeval.experiments.compare_groups import ComparedGroup, GroupTest
from spark_rankeval.experiments.covariates import Adjusted, CovariateAccumulator, adjusted_difference, covariate_sums_of
from spark_rankeval.statistics.exact import merged
from spark_rankeval.statistics.groups import difference_of
from spark_rankeval.statistics.intervals import UNBOUNDED, lift_of

RNG = np.random.default_rng(2603)
PLAIN = (None, None)


def sums_of(values, covariate, weights=None, parts=1):
    states = []
    for part in np.array_split(np.arange(len(values)), parts):
        accumulator = CovariateAccumulator(1, weighted=weights is not None)
        accumulator.add(0, values[part], covariate[part], None if weights is None else weights[part])
        states.append(accumulator.state())
    return covariate_sums_of(column(merged(states)))


def groups_of(samples, weights, bounds=UNBOUNDED):
    return tuple(group(y, bounds, weights=w) for (y, _), w in zip(samples, weights, strict=True))


def adjusted(samples, weights=PLAIN, bounds=UNBOUNDED):
    """The adjusted difference of two groups, each its values and its covariate."""
    groups = groups_of(samples, weights, bounds)
    covariates = tuple(sums_of(y, x, w) for (y, x), w in zip(samples, weights, strict=True))
    return adjusted_difference(difference_of(*groups), groups, covariates)


def drawn(n, effect=0.0, noise=1.0):
    x = RNG.gamma(2, size=n)
    return 0.7 * x + effect + RNG.normal(0, noise, n), x


def ancova(samples, weights=None):
    treated = np.repeat([1.0, 0.0], [len(y) for y, _ in samples])
    y, x = np.concatenate(samples, axis=1)
    design = np.column_stack([np.ones(len(y)), treated, x])
    return sm.WLS(y, design, 1.0 if weights is None else np.concatenate(weights)).fit()


@pytest.mark.parametrize("n", [3, 5, 200])
def test_groups_of_one_size_have_the_figures_of_an_analysis_of_covariance(n):
    samples = (drawn(n, 0.4), drawn(n))
    found, expected = adjusted(samples), ancova(samples)
    figures = found.difference.estimate, found.theta, found.difference.standard_error
    assert figures == pytest.approx((*expected.params[1:], expected.bse[1]))
    plain = sum(y.var(ddof=1) / n for y, _ in samples)
    assert found.variance_saved == pytest.approx(1 - expected.bse[1] ** 2 / plain)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_groups_of_other_sizes_and_weights(is_weighted):
    samples = (drawn(400, 0.4), drawn(150, noise=3.0))
    weights = tuple(RNG.integers(1, 9, n) * 1.0 if is_weighted else np.ones(n) for n in (400, 150))
    found, expected = adjusted(samples, weights if is_weighted else PLAIN), ancova(samples, weights)
    assert (found.difference.estimate, found.theta) == pytest.approx(tuple(expected.params[1:]))
    center = np.average(np.concatenate([x for _, x in samples]), weights=np.concatenate(weights))
    means, variances = [], []
    for (y, x), w in zip(samples, weights, strict=True):
        z = y - found.theta * (x - center)
        means.append(np.average(z, weights=w))
        variances.append(len(z) / (len(z) - 1) * np.sum((w * (z - means[-1])) ** 2) / w.sum() ** 2)
    assert found.means == pytest.approx(means)
    assert found.difference.standard_error == pytest.approx(math.sqrt(sum(variances)), rel=0.01)
    alike = adjusted(samples, (np.full(400, 3.0), np.full(150, 3.0)))
    assert is_weighted or alike.difference.standard_error == pytest.approx(found.difference.standard_error)


def test_users_without_the_covariate_take_the_mean_of_the_others():
    (y, x), (other_y, other_x) = drawn(40), drawn(50)
    x[:10], other_x[:13] = math.nan, math.nan
    mean = np.nanmean(np.concatenate([x, other_x]))
    filled = ((y, np.nan_to_num(x, nan=mean)), (other_y, np.nan_to_num(other_x, nan=mean)))
    found, expected = adjusted(((y, x), (other_y, other_x))), adjusted(filled)
    assert (found.theta, *found.means) == pytest.approx((expected.theta, *expected.means))
    assert found.difference.standard_error == pytest.approx(expected.difference.standard_error)


MISSING = {
    "in one group": lambda x: np.zeros(len(x), np.bool_),
    "of the same share": lambda x: x < np.quantile(x, 0.3),
    "of all in the other": lambda x: np.ones(len(x), np.bool_),
}


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("pattern", MISSING)
def test_a_covariate_that_one_group_lacks_otherwise_makes_no_interval_shorter(pattern, is_weighted):
    """The groups are alike, and the users with the largest covariate lack it in the first."""
    y, x = drawn(200)
    high = np.where(x > np.quantile(x, 0.7), math.nan, x)
    samples, weights = ((y, high), (y, np.where(MISSING[pattern](x), math.nan, x))), np.full(200, 3.0)
    pair = (weights, weights) if is_weighted else PLAIN
    found, plain = adjusted(samples, pair), difference_of(*groups_of(samples, pair))
    low, high = found.difference.interval(0.95)[:2]
    assert found.problem == "the groups may have a part in who lacks the covariate"
    assert (found.difference.estimate, *found.means) == pytest.approx((0, y.mean(), y.mean()))
    assert low <= plain.interval(0.95).low < 0 < plain.interval(0.95).high <= high


def test_sums_merge_to_the_last_bit():
    (y, x), w = drawn(500), RNG.random(500)
    assert sums_of(y, x, w) == sums_of(y, x, w, parts=7) == sums_of(y[::-1], x[::-1], w[::-1], parts=3)


@pytest.mark.parametrize(("covariate", "problem"), [
    (np.full(60, math.nan), "no user has the covariate"),
    (np.full(60, 0.3), "the covariate has no spread"),
    (np.append(RNG.random(59), math.inf), "values of the covariate are too large"),
])  # fmt: skip
def test_a_covariate_that_says_nothing_adjusts_nothing(covariate, problem):
    y, other = RNG.random((2, 60))
    found = adjusted(((y, covariate), (other, covariate)))
    assert (found.problem, found.difference.df_spent, math.isnan(found.variance_saved)) == (problem, 0, True)
    assert found.means == pytest.approx((y.mean(), other.mean()))


@pytest.mark.parametrize(("samples", "bounds", "problem"), [
    ((([0.1, 0.2, 0.4], [1.0, 2.0, 4.0]), ([0.3, 0.5], [3.0, 5.0])), UNBOUNDED, "the covariate explains all of the values"),
    ((([0.0, 1.0, 1.0], RNG.random(3)), ([0.0, 0.0, 1.0], RNG.random(3))), SHARE,
     "a value is rare, or all users of a group have the same"),
    ((([0.2], [0.5]), (RNG.random(9), RNG.random(9))), UNBOUNDED, "group: one user has no spread"),
])  # fmt: skip
def test_a_covariate_that_explains_everything_is_not_certain(samples, bounds, problem):
    assert adjusted([tuple(map(np.array, sample)) for sample in samples], bounds=bounds).problem == problem


def lift_of_groups(samples, adjustment=None, bounds=UNBOUNDED, weights=PLAIN):
    """The lift of the first group beside the second, each its values and its covariate."""
    groups = groups_of(samples, weights, bounds)
    adjustment = adjustment or Adjusted(difference_of(*groups), (groups[0].mean, groups[1].mean))
    figures = adjustment.difference.interval(0.95), adjustment.difference.p_of(), 0
    return ComparedGroup(ComparedMetric("m"), groups, adjustment, *figures).lift_at(0.95, GroupTest(0.95, "holm", None))


def test_a_group_loses_at_most_all_of_the_baseline_and_without_users_has_no_lift():
    y, other = (np.append(np.zeros(9), 0.4), None), (np.array([0.2, 0.5, 0.9, 0.8]), None)
    free, empty = lift_of_groups((y, other)), (np.array([math.nan]), None)
    assert free.low < -1
    assert lift_of_groups((y, other), bounds=(0, math.inf)) == free._replace(low=-1.0)
    for samples in ((other, empty), (empty, other)):
        assert lift_of_groups(samples).reason == "group: no user has a value"


@pytest.mark.parametrize("weighted", [False, True])
def test_the_baselines_mean_varies_with_the_covariates_mean(weighted):
    (y, x), (other_y, other_x) = drawn(60, 0.4), drawn(90)
    y, x = y + x, x.copy()
    x[:15], other_x[:23] = math.nan, math.nan
    samples, own = ((y, x), (other_y, other_x)), [RNG.random(n) + 0.2 if weighted else np.ones(n) for n in (60, 90)]
    weights = own if weighted else PLAIN
    result, every_x = adjusted(samples, weights), np.concatenate([x, other_x])
    has_x = ~np.isnan(every_x)
    center = np.average(every_x[has_x], weights=np.concatenate(own)[has_x])
    # What each user adds to the baseline's mean and to the difference.
    total, share = np.concatenate(own)[has_x].sum(), own[1][has_x[60:]].sum() / own[1].sum()
    of_baseline, of_difference = [], []
    for place, ((values, covariate), w) in enumerate(zip(samples, own, strict=True)):
        filled = np.nan_to_num(covariate, nan=center)
        z = values - result.theta * filled
        residual = w * (z - np.average(z, weights=w)) / w.sum()
        mean = result.theta * share * w * (filled - np.average(filled, weights=w)) / total
        factor = math.sqrt(len(w) / (len(w) - 1))
        of_baseline.append(factor * (mean + residual * place))
        of_difference.append(factor * residual * (-1) ** place)
    influences = np.concatenate(of_baseline), np.concatenate(of_difference)
    own_variance = np.sum(of_difference[1] ** 2)
    assert result.extra_variance == pytest.approx(np.sum(influences[0] ** 2) - own_variance)
    assert result.extra_covariance == pytest.approx(np.sum(influences[0] * influences[1]) + own_variance)
    difference, own_part = result.difference, result.difference.variances[1]
    moments = difference.standard_error**2, own_part + result.extra_variance, result.extra_covariance - own_part
    expected = lift_of(difference.estimate, result.means[1], *moments, difference.df)
    assert lift_of_groups(samples, result, weights=weights) == expected
