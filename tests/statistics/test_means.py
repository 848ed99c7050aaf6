import math

import numpy as np
import pytest
import statsmodels.api as sm
from helpers.descriptions import moments
from helpers.effort import part_of
from scipy import stats

from spark_rankeval.errors import OptionError
from spark_rankeval.statistics.intervals import UNKNOWN_MEAN, mean_interval, t_interval
from spark_rankeval.statistics.sums import MeanAccumulator, mean_of

RNG = np.random.default_rng(71)
COLUMNS = {
    "shares": RNG.random(5000),
    "zeros and ones": RNG.integers(0, 2, 5000).astype(float),
    "tiny": RNG.random(5000) * 1e-9,
    "skewed": RNG.exponential(size=5000) ** 2,
    "negative": RNG.normal(-30, 1, 5000),
    "two users": np.array([0.25, 0.75]),
}
ALL_VALUES = pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS)


def state_of(values, weights=None, parts=1):
    accumulator = MeanAccumulator(1, weighted=weights is not None)
    for part in np.array_split(np.arange(len(values)), parts):
        accumulator.add(0, values[part], None if weights is None else weights[part])
    return {name: column[0] for name, column in accumulator.state().items()}


def mean(values, weights=None, parts=1):
    return mean_of(state_of(np.asarray(values, float), weights, parts))


@ALL_VALUES
@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
def test_t_intervals_are_scipys(values, level):
    if values.max() < 1e-6:
        values = values * 1e9
    interval = mean_interval(moments(values), level)
    expected = stats.ttest_1samp(values, 0).confidence_interval(level)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), rel=1e-10)
    assert interval
    assert (interval.level, interval.method) == (level, "t")


def test_a_mean_over_no_or_one_user_has_no_interval_and_says_so():
    for values, reason in (([], "no user"), ([0.3], "one user has no spread"), ([0.3, math.inf], UNKNOWN_MEAN)):
        interval = mean_interval(moments(values))
        assert not interval
        assert math.isnan(interval.low)
        assert math.isnan(interval.high)
        assert interval.reason == reason


def test_equal_values_have_an_interval_of_no_width():
    assert (mean_interval(moments([0.1] * 9)).low, mean_interval(moments([0.1] * 9)).high) == (0.1, 0.1)


@pytest.mark.parametrize("level", [0, 1, 95, -0.5, math.nan])
def test_a_level_is_between_0_and_1(level):
    with pytest.raises(OptionError, match="between 0 and 1"):
        t_interval(0.5, 0.1, 10, level)


@ALL_VALUES
def test_the_error_without_weights_is_the_standard_deviation_over_root_n(values):
    result = mean(values)
    n = len(values)
    assert result.mean == pytest.approx(values.mean(), rel=1e-12)
    assert result.standard_error == pytest.approx(values.std(ddof=1) / math.sqrt(n), rel=1e-10)
    assert result.acceleration == pytest.approx(stats.skew(values) / (6 * math.sqrt(n)), rel=1e-8, abs=1e-12)
    assert (result.n, result.effective_n, result.total_weight) == (n, n, n)


def jackknife_acceleration(values):
    n = len(values)
    without = (values.sum() - values) / (n - 1)
    spread = without.mean() - without
    return (spread**3).sum() / (6 * (spread**2).sum() ** 1.5)


def test_the_acceleration_is_the_jackknifes():
    values = COLUMNS["skewed"]
    assert mean(values).acceleration == pytest.approx(jackknife_acceleration(values), rel=1e-9)


@ALL_VALUES
@pytest.mark.parametrize("unit", [1.0, 1e-9, 3e7])
def test_weighted_means_and_errors_are_those_of_weighted_least_squares_with_robust_errors(values, unit):
    weights = np.random.default_rng(72).exponential(size=len(values)) * unit
    result = mean(values, weights)
    fit = sm.WLS(values * (1 / np.abs(values).max()), np.ones(len(values)), weights=weights / unit).fit(
        cov_type="HC1", use_t=True
    )
    scale = np.abs(values).max()
    assert result.mean == pytest.approx(fit.params[0] * scale, rel=1e-10)
    assert result.standard_error == pytest.approx(fit.bse[0] * scale, rel=1e-10)
    assert result.effective_n == pytest.approx(weights.sum() ** 2 / (weights**2).sum(), rel=1e-12)
    assert result.total_weight == pytest.approx(weights.sum(), rel=1e-12)
    interval = t_interval(result.mean, result.standard_error, result.n)
    assert (interval.low, interval.high) == pytest.approx(tuple(fit.conf_int()[0] * scale), rel=1e-9)


def test_the_weighted_acceleration_is_that_of_the_users_influence():
    values, weights = COLUMNS["skewed"], RNG.exponential(size=5000)
    influence = weights * (values - np.average(values, weights=weights))
    expected = (influence**3).sum() / (6 * (influence**2).sum() ** 1.5)
    assert mean(values, weights).acceleration == pytest.approx(expected, rel=1e-9)


def test_the_unit_of_the_weights_means_nothing():
    values, weights = COLUMNS["shares"], RNG.integers(1, 9, 5000).astype(float)
    one, other = mean(values, weights), mean(values, weights * 2.0**-70)
    assert (one.mean, one.standard_error, one.acceleration) == (other.mean, other.standard_error, other.acceleration)


@ALL_VALUES
def test_equal_weights_change_nothing(values):
    plain, weighted = mean(values), mean(values, np.full(len(values), 4.0))
    assert (plain.mean, plain.standard_error, plain.acceleration) == (
        weighted.mean,
        weighted.standard_error,
        weighted.acceleration,
    )


def test_undefined_values_and_bad_weights_are_left_out_and_counted():
    values = np.array([0.1, np.nan, 0.5, 0.7, 0.9, 0.2, np.nan])
    weights = np.array([2.0, 1.0, 0.0, -1.0, np.nan, 3.0, np.inf])
    result = mean(values, weights)
    assert (result.n, result.n_undefined, result.n_without_weight, result.n_invalid_weights) == (2, 1, 1, 3)
    assert result.mean == pytest.approx((0.2 + 0.6) / 5)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("parts", part_of([2, 5000, 13], 2))
def test_no_split_and_no_order_changes_a_bit(parts, weighted):
    values = np.where(RNG.random(5000) < 0.2, np.nan, COLUMNS["skewed"])
    weights = RNG.exponential(size=5000) if weighted else None
    whole = state_of(values, weights)
    order = np.random.default_rng(parts).permutation(5000)
    parted = state_of(values[order], None if weights is None else weights[order], parts)
    assert all(np.array_equal(whole[name], parted[name]) for name in whole)
    halves = [state_of(values[part], None if weights is None else weights[part]) for part in np.array_split(order, 2)]
    merged = {name: halves[0][name] + halves[1][name] for name in whole}
    assert mean_of(merged) == mean_of(whole)


def test_no_user_has_no_mean():
    for values in ([], [math.nan, math.nan]):
        result = mean(values)
        assert (result.n, result.n_undefined) == (0, len(values))
        assert math.isnan(result.mean)
        assert math.isnan(result.standard_error)


def test_one_user_has_a_mean_and_no_error():
    result = mean([0.3])
    assert result.mean == 0.3
    assert math.isnan(result.standard_error)


@pytest.mark.parametrize("value", [0.1, 1e-9, 12345.678, 1 / 3])
def test_equal_values_have_no_spread_at_all(value):
    result = mean([value] * 1000)
    assert (result.standard_error, result.acceleration) == (0.0, 0.0)


def test_an_infinite_value_leaves_no_figure():
    assert math.isnan(mean([1.0, math.inf]).mean)
