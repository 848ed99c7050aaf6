"""The jackknife of blocks: of means it is the usual standard error, and its blocks depend on users and seed alone."""

import math

import numpy as np
import pytest
from scipy import stats

from spark_rankeval.statistics.bootstrap import N_BLOCKS, WithoutBlock, blocks_of, jackknife_interval, spread_of
from spark_rankeval.statistics.description import DescriptionOptions, one_figure

BOUNDS = (0.0, 1.0)


def left_out(values, blocks):
    """The means without each block that has anybody."""
    return [WithoutBlock(values[blocks != block].mean(), int((blocks == block).sum())) for block in np.unique(blocks)]


def test_with_a_user_a_block_a_mean_has_its_usual_standard_error():
    values = np.random.default_rng(0).random(30)
    spread = spread_of(values.mean(), left_out(values, np.arange(30)))
    assert spread.standard_error == pytest.approx(stats.sem(values), rel=1e-12)
    assert spread.df == pytest.approx(29)


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


@pytest.mark.parametrize(
    ("bounds", "stretched", "back"),
    [
        ((0.0, math.inf), np.log, np.exp),
        (BOUNDS, lambda x: np.log(x / (1 - x)), lambda x: 1 / (1 + np.exp(-x))),
        ((-math.inf, 1.0), lambda x: -np.log(1 - x), lambda x: 1 - np.exp(-x)),
    ],
)
def test_figures_with_ends_have_an_interval_on_a_scale_without_them(bounds, stretched, back):
    value, others = 0.1, np.random.default_rng(4).uniform(0.06, 0.14, 20)
    error, interval = jackknife_interval(value, [WithoutBlock(other, 3) for other in others], 0.95, bounds)
    # Blocks of one size: (g − 1)/g of the squares about the mean.
    scaled = stretched(others)
    reach = stats.t.ppf(0.975, 19) * math.sqrt(19 / 20 * ((scaled - scaled.mean()) ** 2).sum())
    ends = back(stretched(value) - reach), back(stretched(value) + reach)
    assert (interval.low, interval.high) == pytest.approx(ends)
    assert error == pytest.approx(math.sqrt(19 / 20 * ((others - others.mean()) ** 2).sum()))


@pytest.mark.parametrize(
    ("value", "without", "reason"),
    [
        (math.nan, [], "no user"),
        (0.5, [], "too few users"),
        (0.5, [WithoutBlock(0.4, 3)], "too few users"),
        (0.5, [WithoutBlock(0.4, 3), WithoutBlock(math.nan, 1)], "too few users"),
        (0.5, [WithoutBlock(0.5, 3), WithoutBlock(0.5, 2)], "the same whoever is left out"),
        (0.5, [WithoutBlock(0.5, 30), WithoutBlock(0.4, 20)] * 9, "they fill 18 blocks"),
    ],
)
def test_there_is_no_interval_for_a_reason(value, without, reason):
    _, interval = jackknife_interval(value, without, 0.95, BOUNDS)
    assert reason in interval.reason
    assert math.isnan(interval.low)


def test_one_figure_has_a_jackknife_for_a_bootstrap_and_advice_for_t():
    without = [WithoutBlock(0.5, 3), WithoutBlock(0.4, 3), WithoutBlock(0.45, 4)] * 7
    resampled = one_figure(0.45, 70, DescriptionOptions(method="bca"), without, BOUNDS)
    assert resampled.interval.method == "jackknife"
    assert resampled.standard_error > 0
    plain = one_figure(0.45, 10, DescriptionOptions())
    assert "ci='bootstrap'" in plain.interval.reason
    assert math.isnan(plain.standard_error)
    assert one_figure(0.45, 10, DescriptionOptions(method=None)).interval is None


def test_a_figure_next_to_nothing_has_finite_ends():
    without = [WithoutBlock(0.5 if place else 1e-300, 1) for place in range(30)]
    for bounds in (BOUNDS, (0.0, math.inf), (-math.inf, 1.0)):
        _, interval = jackknife_interval(1e-200, without, 0.95, bounds)
        assert bounds[0] <= interval.low <= interval.high <= bounds[1]
