import math

import numpy as np
import pytest
from helpers.descriptions import column
from scipy import stats

from spark_rankeval.statistics.bootstrap import (
    BootstrapAccumulator,
    BootstrapMeans,
    bca_interval,
    bootstrap_means_of,
    percentile_interval,
)
from spark_rankeval.statistics.resampling import LIMIT
from spark_rankeval.statistics.sums import MeanAccumulator, mean_of

RNG = np.random.default_rng(91)


def mean(values, weights=None):
    accumulator = MeanAccumulator(1, weighted=weights is not None)
    accumulator.add(0, np.asarray(values, float), weights)
    return mean_of(column(accumulator.state()))


def samples(values, weights=None, users=None, **options):
    accumulator = BootstrapAccumulator(1, **options)
    values = np.asarray(values, float)
    accumulator.add(np.arange(len(values)) if users is None else users, values[None], weights)
    return bootstrap_means_of(column(accumulator.state()))


def intervals(values, weights=None, level=0.95, **options):
    drawn, middle = samples(values, weights, **options), mean(values, weights)
    return percentile_interval(drawn, middle, level), bca_interval(drawn, middle, level)


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize(
    "values",
    [RNG.random(400), RNG.exponential(size=400), RNG.integers(0, 2, 400) * 1.0],
    ids=["uniform", "skewed", "binary"],
)
def test_intervals_are_scipys_within_the_noise_of_resampling(values, level):
    for interval in intervals(values, level=level, replicates=40_000):
        method = {"percentile": "percentile", "bca": "BCa"}[interval.method]
        expected = stats.bootstrap(
            (values,), np.mean, n_resamples=40_000, method=method, confidence_level=level, rng=5, batch=2000
        )
        # Four standard deviations of the difference between two such quantiles.
        noise = 0.1 * expected.standard_error
        assert (interval.low, interval.high) == pytest.approx(tuple(expected.confidence_interval), abs=noise)


def test_the_ends_of_bca_are_moved_by_bias_and_acceleration():
    middle = mean([0.0, 0.0, 1.0, 5.0, 20.0])
    # Of a sample that is equal to the mean one half is below it.
    means = middle.mean + np.concatenate([np.linspace(-4, -0.1, 300), np.zeros(40), np.linspace(0.1, 9, 660)])
    found = bca_interval(BootstrapMeans(means, 0, 0), middle, 0.9)
    bias = stats.norm.ppf((300 + 40 / 2) / 1000)
    moved = bias + stats.norm.ppf([0.05, 0.95])
    ends = stats.norm.cdf(bias + moved / (1 - middle.acceleration * moved))
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(means, ends)), rel=1e-12)


@pytest.mark.parametrize(("value", "n_excessive"), [(LIMIT, 1), (-LIMIT, 1), (np.nextafter(LIMIT, 0), 0)])
def test_a_value_is_too_large_from_the_limit_on(value, n_excessive):
    assert samples([value, 1.0], replicates=1).n_excessive == n_excessive


def test_the_spread_of_the_samples_is_the_standard_error():
    values = RNG.random(2000)
    assert samples(values, replicates=20_000).means.std() == pytest.approx(mean(values).standard_error, rel=0.03)


def test_weighted_samples_spread_as_the_weighted_mean():
    values, weights = RNG.random(2000), RNG.exponential(size=2000)
    drawn = samples(values, weights, replicates=20_000)
    expected = mean(values, weights)
    assert drawn.means.mean() == pytest.approx(expected.mean, abs=expected.standard_error / 20)
    assert drawn.means.std() == pytest.approx(expected.standard_error, rel=0.03)


def test_equal_weights_change_no_mean():
    values = RNG.random(300)
    assert samples(values, np.full(300, 4.0)).means == pytest.approx(samples(values).means, rel=1e-10)


def test_users_without_a_valid_weight_are_left_out():
    values, weights = RNG.random(300), RNG.exponential(size=300)
    weights[:4] = np.nan, -1.0, np.inf, 0.0
    drawn = samples(values, weights, replicates=50)
    alone = samples(values[4:], weights[4:], users=np.arange(4, 300), replicates=50)
    assert np.array_equal(drawn.means, alone.means)


def test_weights_too_large_to_add_up_have_no_interval():
    for interval in intervals([0.1, 0.2, 0.3], np.array([1.0, 1e10, 1.0])):
        assert interval.reason == "values or weights too large to be resampled"


def test_undefined_values_count_in_neither_numerator_nor_denominator():
    values = np.where(RNG.random((6, 500)) < 0.3, np.nan, RNG.random((6, 500)))
    values[1] = np.where(np.isnan(values[0]), np.nan, values[1])
    values[5] = np.nan
    users = np.arange(500)
    together = BootstrapAccumulator(6, replicates=50)
    together.add(users, values)
    for index in range(6):
        defined = ~np.isnan(values[index])
        alone = samples(values[index, defined], users=users[defined], replicates=50)
        assert np.array_equal(bootstrap_means_of(column(together.state(), index)).means, alone.means)
    assert bootstrap_means_of(column(together.state(), 5)).n_empty == 50


@pytest.mark.parametrize("weighted", [False, True])
def test_no_split_and_no_order_changes_a_bit(weighted):
    values = np.where(RNG.random((4, 2000)) < 0.2, np.nan, RNG.normal(size=(4, 2000)) * [[1e-6], [1], [1000], [1e8]])
    users, weights = RNG.integers(-(2**63), 2**63, 2000), RNG.exponential(size=2000) if weighted else None

    def state(*parts):
        accumulator = BootstrapAccumulator(4, replicates=300, seed=-7)
        for part in parts:
            accumulator.add(users[part], values[:, part], None if weights is None else weights[part])
        return accumulator.state()

    whole = state(np.arange(2000))
    for n_parts in (2, 77):
        parts = np.array_split(RNG.permutation(2000), n_parts)
        assert all(np.array_equal(whole[name], other) for name, other in state(*parts).items())
        merged = [state(part) for part in parts]
        for index in range(4):
            total = column({name: sum(each[name] for each in merged) for name in whole}, index)
            assert np.array_equal(bootstrap_means_of(total).means, bootstrap_means_of(column(whole, index)).means)


def test_another_seed_is_another_bootstrap():
    values = RNG.random(100)
    assert not np.array_equal(samples(values, seed=1).means, samples(values, seed=2).means)


def test_few_users_have_no_interval_and_say_so():
    for values, reason in (([], "no user"), ([math.nan], "no user"), ([0.5], "one user has no spread")):
        for interval in intervals(values):
            assert (interval.reason, bool(interval)) == (reason, False)
            assert math.isnan(interval.low)


def test_samples_without_a_user_are_left_out():
    drawn = samples([0.2, 0.8], replicates=4000)
    assert drawn.n_empty == pytest.approx(4000 * math.exp(-2), rel=0.15)
    assert len(drawn.means) == 4000 - drawn.n_empty


def test_equal_values_have_no_interval_and_it_says_so():
    for interval in intervals([0.1] * 50):
        assert "all users have the same value" in interval.reason


def test_values_that_differ_by_less_than_the_units_of_sums_have_no_interval():
    for interval in intervals(np.array([1.0, 2.0, 4.0]) * 1e-13):
        assert "differ by less than can be resampled" in interval.reason


def test_values_too_large_to_add_up_have_no_interval():
    for interval in intervals([1.0, 2.0, 1e12]):
        assert interval.reason == "values too large to be resampled"


def test_bca_leans_towards_the_long_tail():
    values = RNG.exponential(size=40) ** 2
    percentile, bca = intervals(values, replicates=5000)
    assert bca.high > percentile.high
    assert bca.low > percentile.low


def test_weights_too_small_to_hold_have_no_interval_and_say_so():
    values = np.random.default_rng(3).random(50)
    for weights in (np.full(50, 1e-9), np.full(50, 1e-14), np.full(50, 1e-80), np.full(50, 1e-300)):
        for interval in intervals(values, weights):
            assert "multiply them by a constant" in interval.reason or "too large" in interval.reason


def test_too_few_replicates_for_a_level_are_said_to_be():
    values = np.random.default_rng(4).random(50)
    plain = MeanAccumulator(1)
    plain.add(0, values)
    mean = mean_of({name: column[0] for name, column in plain.state().items()})
    for replicates, level, reason in (
        (1, 0.95, "a level of 0.95 needs 40 replicates, and there are 1"),
        (39, 0.95, "a level of 0.95 needs 40 replicates, and there are 39"),
        (19, 0.9, "a level of 0.9 needs 20 replicates, and there are 19"),
        (40, 0.95, ""),
        (20, 0.9, ""),
    ):
        samples = BootstrapAccumulator(1, replicates=replicates)
        samples.add(np.arange(50), values[None])
        state = {name: column[0] for name, column in samples.state().items()}
        assert percentile_interval(bootstrap_means_of(state), mean, level).reason == reason
