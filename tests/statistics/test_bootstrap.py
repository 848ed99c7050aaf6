"""Bootstraps of means and the jackknife of blocks: samples of drawn weights, scipy's ends, and a reason where there is no interval."""

import math
from dataclasses import replace

import numpy as np
import pytest
from helpers.descriptions import column
from scipy import stats

from spark_rankeval.statistics.description import (
    N_BLOCKS,
    BootstrapAccumulator,
    BootstrapMeans,
    DescriptionOptions,
    WithoutBlock,
    blocks_of,
    bootstrap_interval,
    bootstrap_means_of,
    jackknife_interval,
    one_figure,
    spread_of,
)
from spark_rankeval.statistics.exact import MeanAccumulator, mean_of
from spark_rankeval.statistics.resampling import LIMIT, PoissonDraw, resampled_sums

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
    return bootstrap_interval(drawn, middle, level, "percentile"), bootstrap_interval(drawn, middle, level)


@pytest.mark.parametrize("weights", [None, RNG.exponential(size=60)], ids=["plain", "weighted"])
def test_samples_are_the_means_under_drawn_weights(weights):
    values, n = RNG.random(60), 700
    ones = np.ones(60) if weights is None else weights
    drawn = np.array(
        [resampled_sums(np.ones((1, 1)), np.array([user]), PoissonDraw(), n, 5)[0, 0] for user in range(60)]
    )
    expected = np.sort((values * ones) @ drawn / (ones @ drawn))
    assert samples(values, weights, replicates=n, seed=5).means == pytest.approx(expected, rel=1e-9)
    assert not np.allclose(samples(values, weights, replicates=n).means, expected)


def test_the_ends_of_percentiles_are_scipys_within_the_noise_of_resampling():
    values, level = RNG.exponential(size=100), 0.8
    expected = stats.bootstrap((values,), np.mean, n_resamples=8000, method="BCa", confidence_level=level, rng=5)
    # Some standard deviations of the difference between two such quantiles.
    noise = 0.15 * expected.standard_error
    assert intervals(values, level=level, replicates=8000)[1][:2] == pytest.approx(
        expected.confidence_interval, abs=noise
    )


@pytest.mark.parametrize("level", [0.8, 0.9])
def test_the_ends_of_bca_are_moved_by_bias_and_acceleration(level):
    middle, shares = mean([0.0, 0.0, 1.0, 5.0, 20.0]), np.array([(1 - level) / 2, (1 + level) / 2])
    # Of a sample that is equal to the mean one half is below it.
    means = middle.mean + np.concatenate([np.linspace(-4, -0.1, 300), np.zeros(40), np.linspace(0.1, 9, 660)])
    found = bootstrap_interval(BootstrapMeans(means, 0, 0), middle, level)
    bias = stats.norm.ppf((300 + 40 / 2) / 1000)
    moved = bias + stats.norm.ppf(shares)
    ends = stats.norm.cdf(bias + moved / (1 - middle.acceleration * moved))
    assert found[:2] == pytest.approx(np.quantile(means, ends), rel=1e-12)
    plain = bootstrap_interval(BootstrapMeans(means, 0, 0), middle, level, "percentile")
    assert plain[:2] == pytest.approx(np.quantile(means, shares), rel=1e-12)
    assert (found.method, plain.method) == ("bca", "percentile")


@pytest.mark.parametrize(("value", "n_excessive"), [(LIMIT, 1), (-LIMIT, 1), (np.nextafter(LIMIT, 0), 0)])
def test_a_value_is_too_large_from_the_limit_on(value, n_excessive):
    assert samples([value, 1.0], replicates=1).n_excessive == n_excessive


def test_equal_weights_change_no_mean_and_users_without_a_valid_one_are_left_out():
    values, weights = RNG.random(300), RNG.exponential(size=300)
    assert samples(values, np.full(300, 4.0)).means == pytest.approx(samples(values).means, rel=1e-10)
    weights[:4] = np.nan, -1.0, np.inf, 0.0
    alone = samples(values[4:], weights[4:], users=np.arange(4, 300), replicates=50)
    assert np.array_equal(samples(values, weights, replicates=50).means, alone.means)


def test_undefined_values_count_in_neither_numerator_nor_denominator():
    values = np.where(RNG.random((6, 500)) < 0.3, np.nan, RNG.random((6, 500)))
    values[1] = np.where(np.isnan(values[0]), np.nan, values[1])
    values[5] = np.nan
    users, together = np.arange(500), BootstrapAccumulator(6, replicates=50)
    together.add(users, values)
    for index in range(6):
        defined = ~np.isnan(values[index])
        alone = samples(values[index, defined], users=users[defined], replicates=50)
        assert np.array_equal(bootstrap_means_of(column(together.state(), index)).means, alone.means)
    assert bootstrap_means_of(column(together.state(), 5)).n_empty == 50


@pytest.mark.parametrize("weighted", [False, True])
def test_no_split_and_no_order_changes_a_bit(weighted):
    n, sizes = 800, np.array([1e-6, 1, 1000, 1e8])[:, None]
    values = np.where(RNG.random((4, n)) < 0.2, np.nan, RNG.normal(size=(4, n)) * sizes)
    users, weights = RNG.integers(-(2**63), 2**63, n), RNG.exponential(size=n) if weighted else None

    def state(*parts):
        accumulator = BootstrapAccumulator(4, replicates=300, seed=-7)
        for part in parts:
            accumulator.add(users[part], values[:, part], None if weights is None else weights[part])
        return accumulator.state()

    whole = state(np.arange(n))
    for n_parts in (2, 40):
        parts = np.array_split(RNG.permutation(n), n_parts)
        assert all(np.array_equal(whole[name], other) for name, other in state(*parts).items())
        merged = [state(part) for part in parts]
        total = {name: sum(each[name] for each in merged) for name in whole}
        for index in range(4):
            found, expected = (bootstrap_means_of(column(each, index)).means for each in (total, whole))
            assert np.array_equal(found, expected)


def test_samples_without_a_user_are_left_out():
    drawn = samples([0.2, 0.8], replicates=4000)
    assert drawn.n_empty == pytest.approx(4000 * math.exp(-2), rel=0.15)
    assert len(drawn.means) == 4000 - drawn.n_empty


FIFTY = RNG.random(50)


@pytest.mark.parametrize(("values", "weights", "reason"), [
    ([], None, "no user"),
    ([math.nan], None, "no user"),
    ([0.5], None, "one user has no spread"),
    ([0.1] * 50, None, "all users have the same value"),
    (np.array([1.0, 2.0, 4.0]) * 1e-13, None, "differ by less than can be resampled"),
    ([1.0, 2.0, 1e12], None, "values too large to be resampled"),
    ([0.1, 0.2, 0.3], [1.0, 1e10, 1.0], "values or weights too large to be resampled"),
    (FIFTY, [1e-9] * 50, "multiply them by a constant"),
    (FIFTY, [1e-80] * 50, "too large"),
])  # fmt: skip
def test_a_reason_stands_for_a_missing_interval(values, weights, reason):
    for interval in intervals(values, None if weights is None else np.array(weights)):
        assert reason in interval.reason
        assert (bool(interval), math.isnan(interval.low)) == (False, True)


def test_too_few_replicates_for_a_level_are_said_to_be():
    for replicates, level, needed in ((1, 0.95, 40), (39, 0.95, 40), (19, 0.9, 20), (40, 0.95, 0), (20, 0.9, 0)):
        says = f"a level of {level} needs {needed} replicates, and there are {replicates}" if needed else ""
        assert intervals(FIFTY, level=level, replicates=replicates)[0].reason == says


def test_samples_on_one_side_and_values_too_skewed_have_no_bca():
    middle = mean([0.0, 0.0, 1.0])
    assert "one side of the mean" in bootstrap_interval(BootstrapMeans(np.ones(100), 0, 0), middle).reason
    skewed, means = replace(middle, acceleration=0.5), middle.mean + np.linspace(-9, 1, 100)
    assert "too skewed" in bootstrap_interval(BootstrapMeans(means, 0, 0), skewed).reason


BOUNDS = (0.0, 1.0)


def left_out(values, blocks):
    """The means without each block that has anybody."""
    return [WithoutBlock(values[blocks != block].mean(), int((blocks == block).sum())) for block in np.unique(blocks)]


def test_blocks_of_any_sizes_give_the_formula_of_their_source():
    values, blocks = np.random.default_rng(1).random(50), np.random.default_rng(2).integers(0, 7, 50)
    theta, without = values.mean(), left_out(values, blocks)
    g, n = len(without), 50
    centre = g * theta - sum((1 - m / n) * other for other, m in without)
    pseudo = [(n / m * theta - (n / m - 1) * other, n / m) for other, m in without]
    variance = sum((each - centre) ** 2 / (h - 1) for each, h in pseudo) / g
    spread = spread_of(theta, without)
    assert spread.standard_error == pytest.approx(math.sqrt(variance), rel=1e-9)
    assert spread.df == pytest.approx(n**2 / sum(m * m for _, m in without) - 1)
    of_users = spread_of(theta, left_out(values, np.arange(n)))
    assert of_users.standard_error == pytest.approx(stats.sem(values), rel=1e-12)


def test_few_blocks_that_make_up_the_variance_leave_few_degrees_of_freedom():
    def spread(values):
        return spread_of(np.mean(values), left_out(np.array(values), np.arange(len(values))))

    alike, one = spread([0.0, 1.0] * 20), spread([1.0] + [0.0] * 39)
    assert alike.df_of_terms > alike.df == pytest.approx(39)
    # The term of the first is 39² times as large as that of each other: shares 39/40 and 1/1560.
    unequal = (39 / 40 - 1 / 40) ** 2 + 39 * (1 / 1560 - 1 / 40) ** 2
    assert one.df_of_terms == math.floor(20 / unequal) / 10 == 2.1
    assert spread([1e100, 2e100, 4e100]).df_of_terms >= 1
    without = [WithoutBlock(value, 1) for value in [0.4] + [0.5] * 39]
    _, usual = jackknife_interval(0.5, without, 0.95, BOUNDS)
    _, wider = jackknife_interval(0.5, without, 0.95, BOUNDS, may_rest_on_few=True)
    assert wider.high - wider.low > 1.5 * (usual.high - usual.low)


def test_blocks_depend_on_users_and_seed_alone_and_are_of_about_one_size():
    users = np.arange(64_000, dtype=np.int64) * 7919
    blocks = blocks_of(users, 0)
    np.testing.assert_array_equal(blocks_of(users[::-1], 0)[::-1], blocks)
    sizes = np.bincount(blocks, minlength=N_BLOCKS)
    assert len(sizes) == N_BLOCKS
    # The spread of 64 Poisson counts of mean 1000.
    assert 850 < sizes.min() <= sizes.max() < 1150
    assert 0.005 < np.mean(blocks_of(users, 1) == blocks) < 0.03


def test_an_interval_is_symmetric_within_the_bounds_that_the_value_keeps():
    # At the end of the scale, which is 0 without some block, nothing is stretched.
    without = [WithoutBlock(value, 5) for value in (0.0, 0.05, 0.06, 0.07) * 5]
    error, interval = jackknife_interval(0.05, without, 0.95, BOUNDS)
    assert (interval.low, interval.method) == (0.0, "jackknife")
    assert interval.high == pytest.approx(0.05 + stats.t.ppf(0.975, 19) * error)
    _, unbounded = jackknife_interval(0.05, without, 0.95, (-math.inf, math.inf))
    assert unbounded[:2] == pytest.approx((0.1 - interval.high, interval.high))


@pytest.mark.parametrize(("bounds", "stretched", "back"), [
    ((0.0, math.inf), np.log, np.exp),
    (BOUNDS, lambda x: np.log(x / (1 - x)), lambda x: 1 / (1 + np.exp(-x))),
    ((-math.inf, 1.0), lambda x: -np.log(1 - x), lambda x: 1 - np.exp(-x)),
])  # fmt: skip
def test_figures_with_ends_have_an_interval_on_a_scale_without_them(bounds, stretched, back):
    value, others = 0.1, np.random.default_rng(4).uniform(0.06, 0.14, 20)
    error, interval = jackknife_interval(value, [WithoutBlock(other, 3) for other in others], 0.95, bounds)
    # Blocks of one size: (g − 1)/g of the squares about the mean.
    scaled = stretched(others)
    reach = stats.t.ppf(0.975, 19) * math.sqrt(19 / 20 * ((scaled - scaled.mean()) ** 2).sum())
    ends = back(stretched(value) - reach), back(stretched(value) + reach)
    assert (interval.low, interval.high) == pytest.approx(ends)
    assert error == pytest.approx(math.sqrt(19 / 20 * ((others - others.mean()) ** 2).sum()))


@pytest.mark.parametrize(("value", "without", "reason"), [
    (math.nan, [], "no user"),
    (0.5, [], "too few users"),
    (0.5, [WithoutBlock(0.4, 3)], "too few users"),
    (0.5, [WithoutBlock(0.4, 3), WithoutBlock(math.nan, 1)], "too few users"),
    (0.5, [WithoutBlock(0.5, 3), WithoutBlock(0.5, 2)], "the same whoever is left out"),
    (0.5, [WithoutBlock(0.5, 30), WithoutBlock(0.4, 20)] * 9, "they fill 18 blocks"),
])  # fmt: skip
def test_there_is_no_interval_for_a_reason(value, without, reason):
    _, interval = jackknife_interval(value, without, 0.95, BOUNDS)
    assert reason in interval.reason
    assert math.isnan(interval.low)


def test_one_figure_has_a_jackknife_for_a_bootstrap_and_advice_for_t():
    without = [WithoutBlock(0.5, 3), WithoutBlock(0.4, 3), WithoutBlock(0.45, 4)] * 7
    resampled = one_figure(0.45, 70, DescriptionOptions(method="bca"), without, BOUNDS)
    assert (resampled.interval.method, resampled.standard_error > 0) == ("jackknife", True)
    plain = one_figure(0.45, 10, DescriptionOptions())
    assert "ci='bootstrap'" in plain.interval.reason
    assert math.isnan(plain.standard_error)
    none = one_figure(math.nan, 10, DescriptionOptions(method=None))
    assert (none.interval, none.moments.n) == (None, 0)


def test_a_figure_next_to_nothing_has_finite_ends():
    without = [WithoutBlock(0.5 if place else 1e-300, 1) for place in range(30)]
    for bounds in (BOUNDS, (0.0, math.inf), (-math.inf, 1.0)):
        _, interval = jackknife_interval(1e-200, without, 0.95, bounds)
        assert bounds[0] <= interval.low <= interval.high <= bounds[1]
