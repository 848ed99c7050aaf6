"""Exact sums are those of fractions; means and errors of users, also with weights, are those of scipy and statsmodels."""

import math
from fractions import Fraction

import numpy as np
import pytest
import statsmodels.api as sm
from helpers.descriptions import column, moments
from scipy import stats

from spark_rankeval.errors import OptionError
from spark_rankeval.statistics.exact import ExactSums, MeanAccumulator, exact_sum, mean_of
from spark_rankeval.statistics.intervals import UNKNOWN_MEAN, mean_interval, t_interval

RNG = np.random.default_rng(71)


def sums_of(*batches):
    sums = ExactSums(1)
    for batch in batches:
        sums.add(0, np.asarray(batch, np.float64))
    return column(sums.state())


def total(*batches):
    return exact_sum(sums_of(*batches)["limbs"])


def fractions(values):
    return sum(map(Fraction, map(float, values)), Fraction(0))


@pytest.mark.parametrize("values", [
    (RNG.normal(size=20_000) * 1e-6) ** 3,
    RNG.normal(size=20_000) * 2.0 ** RNG.integers(-400, 400, 20_000),
    np.full(20_000, -1e9 / 3),
], ids=["cubes of small differences", "all magnitudes", "negative"])  # fmt: skip
def test_sums_are_exact_whatever_the_magnitude_split_and_order(values):
    state, parts = sums_of(values), np.array_split(RNG.permutation(values), 7)
    assert exact_sum(state["limbs"]) == exact_sum(sum(sums_of(part)["limbs"] for part in parts)) == fractions(values)
    assert np.array_equal(sums_of(*parts)["limbs"], state["limbs"])
    # Small enough to add up a billion states.
    assert state["limbs"][:-1].min() >= 0
    assert np.abs(state["limbs"]).max() < 2**32


def test_bits_below_the_smallest_unit_are_dropped_alike_and_values_without_a_limb_are_counted():
    tiny, company = [2.0**-514, 2.0**-512 * 1.5, -(2.0**-600)], [1e150, 3.0, -1e-100]
    assert total(tiny + company) == total(tiny) + total(company) == total(*([value] for value in tiny + company))
    state = sums_of([1.0, math.inf, -math.inf, 1e300, 2.0])
    assert (state["n_excessive"], exact_sum(state["limbs"])) == (3, 3)


COLUMNS = {
    "shares": RNG.random(5000),
    "zeros and ones": RNG.integers(0, 2, 5000) * 1.0,
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
    return column(accumulator.state())


def mean(values, weights=None):
    return mean_of(state_of(np.asarray(values, float), weights))


def figures(result):
    return result.mean, result.standard_error, result.acceleration, result.df


@ALL_VALUES
def test_without_weights_intervals_and_errors_are_scipys(values):
    result, n = mean(values), len(values)
    assert (result.n, result.effective_n, result.total_weight, result.df) == (n, n, n, n - 1)
    assert (result.mean, result.standard_error) == pytest.approx((values.mean(), stats.sem(values)), rel=1e-10)
    assert result.acceleration == pytest.approx(stats.skew(values) / (6 * math.sqrt(n)), rel=1e-8, abs=1e-12)
    assert figures(mean(values, np.full(n, 4.0))) == figures(result)
    scale = 1e9 if values.max() < 1e-6 else 1.0
    for level in (0.8, 0.999):
        interval, expected = mean_interval(moments(values * scale), level), stats.ttest_1samp(values * scale, 0)
        assert interval[:2] == pytest.approx(expected.confidence_interval(level), rel=1e-10)
        assert (bool(interval), interval.level, interval.method) == (True, level, "t")


@ALL_VALUES
@pytest.mark.parametrize("unit", [1.0, 1e-9, 2.0**70])
def test_weighted_means_and_errors_are_those_of_weighted_least_squares_with_robust_errors(values, unit):
    """The acceleration is half of the skewness of the users' influences over their number's root (Efron 1987)."""
    weights, scale = np.random.default_rng(72).exponential(size=len(values)), np.abs(values).max()
    result = mean(values, weights * unit)
    fit = sm.WLS(values / scale, np.ones(len(values)), weights=weights).fit(cov_type="HC1", use_t=True)
    assert (result.mean, result.standard_error) == pytest.approx((fit.params[0] * scale, fit.bse[0] * scale), rel=1e-10)
    assert result.effective_n == pytest.approx(weights.sum() ** 2 / (weights**2).sum(), rel=1e-12)
    assert result.total_weight == pytest.approx(weights.sum() * unit, rel=1e-12)
    interval = t_interval(result.mean, result.standard_error, result.n)
    assert interval[:2] == pytest.approx(fit.conf_int()[0] * scale, rel=1e-9)
    influence = weights * (values - np.average(values, weights=weights))
    expected = (influence**3).sum() / (6 * (influence**2).sum() ** 1.5)
    assert result.acceleration == pytest.approx(expected, rel=1e-7, abs=1e-9)


def test_the_acceleration_is_the_jackknifes():
    values = COLUMNS["skewed"]
    without = (values.sum() - values) / (len(values) - 1)
    spread = without.mean() - without
    expected = (spread**3).sum() / (6 * (spread**2).sum() ** 1.5)
    assert mean(values).acceleration == pytest.approx(expected, rel=1e-9)


def test_undefined_values_and_bad_weights_are_left_out_and_counted():
    values = np.array([0.1, np.nan, 0.5, 0.7, 0.9, 0.2, np.nan])
    result = mean(values, np.array([2.0, 1.0, 0.0, -1.0, np.nan, 3.0, np.inf]))
    assert (result.n, result.n_undefined, result.n_without_weight, result.n_invalid_weights) == (2, 1, 1, 3)
    assert result.mean == pytest.approx((0.2 + 0.6) / 5)


@pytest.mark.parametrize("weights", [None, RNG.exponential(size=5000)], ids=["plain", "weighted"])
def test_no_split_and_no_order_changes_a_bit(weights):
    values, order = np.where(RNG.random(5000) < 0.2, np.nan, COLUMNS["skewed"]), RNG.permutation(5000)
    whole, halves = state_of(values, weights), np.array_split(order, 2)
    shuffled = values[order], None if weights is None else weights[order]
    for parts in (2, 700):
        assert all(np.array_equal(whole[name], each) for name, each in state_of(*shuffled, parts).items())
    one, other = (state_of(values[part], None if weights is None else weights[part]) for part in halves)
    assert mean_of({name: one[name] + other[name] for name in whole}) == mean_of(whole)


def test_no_user_one_user_equal_users_and_infinite_ones():
    for values in ([], [math.nan, math.nan]):
        result = mean(values)
        assert (result.n, result.n_undefined, math.isnan(result.mean)) == (0, len(values), True)
    assert (mean([0.3]).mean, math.isnan(mean([0.3]).standard_error)) == (0.3, True)
    for value in (0.1, 1e-9, 12345.678, 1 / 3):
        assert figures(mean([value] * 1000)) == (pytest.approx(value, rel=1e-15), 0.0, 0.0, 999)
    assert (math.isnan(mean([1.0, math.inf]).mean), mean_interval(moments([0.1] * 9))[:2]) == (True, (0.1, 0.1))
    for values, reason in (([], "no user"), ([0.3], "one user has no spread"), ([0.3, math.inf], UNKNOWN_MEAN)):
        interval = mean_interval(moments(values))
        assert (bool(interval), interval.reason) == (False, reason)
        assert np.isnan(interval[:2]).all()


@pytest.mark.parametrize("level", [0, 1, 95, -0.5, math.nan])
def test_a_level_is_between_0_and_1(level):
    with pytest.raises(OptionError, match="between 0 and 1"):
        t_interval(0.5, 0.1, 10, level)
