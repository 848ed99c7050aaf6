"""Intervals of few users, and of users who are all alike: what is said of them is no surer than what they can show."""

import math

import numpy as np
import pytest
from helpers.descriptions import column, moments
from scipy import stats

from spark_rankeval.statistics.distributions import clopper_pearson_interval, sign_test_p
from spark_rankeval.statistics.exact import MeanAccumulator, mean_of
from spark_rankeval.statistics.intervals import (
    UNKNOWN_MEAN,
    Interval,
    adjusted_interval,
    interval_without_spread,
    mean_interval,
    t_interval,
)

SHARE = (0.0, 1.0)
RNG = np.random.default_rng(301)


@pytest.mark.parametrize(("k", "n"), [(0, 3), (1, 3), (3, 3), (2, 100), (50, 100), (99, 100), (1234, 100_000)])
def test_the_interval_of_a_share_is_scipys(k, n):
    for level in (0.8, 0.95, 0.999):
        expected = stats.binomtest(k, n).proportion_ci(level, "exact")
        assert clopper_pearson_interval(k, n, level) == pytest.approx((expected.low, expected.high), rel=1e-9)


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (1, 0), (5, 2), (600, 400), (10**6, 10**6 - 5000)])
def test_the_sign_test_is_scipys(wins, losses):
    expected = stats.binomtest(wins, wins + losses).pvalue if wins else 1.0
    assert sign_test_p(wins, losses) == sign_test_p(losses, wins) == pytest.approx(expected, rel=1e-7)


def shown(values, bounds=SHARE):
    figures = moments(values)
    return adjusted_interval(mean_interval(figures), figures, bounds)


def test_shares_of_users_have_the_interval_of_clopper_and_pearson_and_other_metrics_have_not():
    for values in ([0.0] * 30, [1.0] * 30, [1.0] + [0.0] * 9, [1.0, 0.0]):
        expected = stats.binomtest(int(sum(values)), len(values)).proportion_ci(0.95, "exact")
        interval = shown(values)
        assert interval[:2] == pytest.approx((expected.low, expected.high), rel=1e-9)
        assert interval.method == "clopper_pearson"
    for values, bounds in (([1.0, 0.0, 0.5], SHARE), ([0.0, 1.0, 1.0], (-1.0, 1.0)), ([0.0, 1.0, 1.0], (0, math.inf))):
        assert shown(values, bounds).method == "t"
    assert shown([0.0, 1.0, 1.0], (-1.0, 1.0)).low < 0


def test_an_interval_stays_within_the_bounds_that_values_keep_but_for_rounding():
    few, above = [0.0, 0.2, 0.8], np.nextafter(1.0, 2.0)
    plain = mean_interval(moments(few))
    assert (plain.low < 0, plain.high > 1) == (True, True)
    assert shown(few)[:2] == (0.0, 1.0)
    # A recall of lists with duplicates can exceed 1: such bounds are none.
    assert shown([0.0, 0.2, 1.8]) == mean_interval(moments([0.0, 0.2, 1.8]))
    wide = t_interval(0.9, 0.2, 3, 0.95)
    assert adjusted_interval(wide, moments([above, 0.9, 0.8]), SHARE)[:2] == (wide.low, 1.0)
    assert adjusted_interval(wide, moments([1.01, 0.9, 0.8]), SHARE) == wide


def test_values_that_are_all_one_have_an_interval_as_long_as_others_may_lie_away():
    interval, others = shown([0.25] * 10), 1 - 0.025 ** (1 / 10)
    assert interval[:2] == pytest.approx((0.25 * (1 - others), 0.25 + 0.75 * others))
    assert interval == interval_without_spread(0.25, 10, 0.95, SHARE)
    assert "no bounds" in shown([3.0] * 10, (0.0, math.inf)).reason
    # One value but for rounding.
    thirds = [1 / 3, 1 - 2 / 3, 1 / 3 + 1e-16]
    assert (len(set(thirds)), moments(thirds).std, shown(thirds).method) == (3, 0, "clopper_pearson")
    assert shown(thirds).high - shown(thirds).low > 0.7
    # A user whose weight is 0 has no value.
    accumulator = MeanAccumulator(1, weighted=True)
    values, weights = np.array([0.25] * 9 + [0.5]), np.array([1.0] * 5 + [2.0] * 4 + [0.0])
    accumulator.add(0, values, weights)
    weighted = mean_of(column(accumulator.state()))
    plain = t_interval(weighted.mean, weighted.standard_error, 10)
    expected = interval_without_spread(0.25, weighted.effective_n, 0.95, SHARE)
    assert adjusted_interval(plain, moments(values), SHARE, weighted) == expected


NOISE = 0.01 * np.sin(np.arange(60.0))


def reaches(values, bounds):
    """How far the mean is from both ends of Student's t interval, and of that of users who all have the mean."""
    mean, n = values.mean(), len(values)
    t = stats.t.ppf(0.975, n - 1) * values.std(ddof=1) / math.sqrt(n)
    others = 1 - 0.025 ** (1 / n)
    return np.array([t, t]), others * np.abs(mean - np.array(bounds))


@pytest.mark.parametrize("n", [3, 30, 60])
def test_values_that_are_nearly_one_reach_as_far_as_if_they_were_one(n):
    """Of 30 users of 0.9, give or take 0.01, the t interval reaches from 0.898; if 1 in 50 fails, the mean is 0.882."""
    values = 0.9 + NOISE[:n]
    interval, (t, unseen) = shown(values), reaches(values, SHARE)
    assert (values.mean() - interval.low, interval.high - values.mean()) == pytest.approx(np.maximum(t, unseen))
    assert (interval.method, interval.low < 0.882) == ("t", True)


@pytest.mark.parametrize(
    ("bounds", "seen"), [(SHARE, SHARE), ((0, math.inf), (0, 0.91)), ((-math.inf, math.inf), (0, 0.91))]
)
@pytest.mark.parametrize(("n_lost", "hangs_on_few"), [(1, True), (5, True), (9, False)])
def test_a_spread_that_hangs_on_few_users_is_no_surer_than_if_they_were_missing(bounds, seen, n_lost, hangs_on_few):
    values = np.where(np.arange(60) < n_lost, 0.0, 0.9 + np.minimum(NOISE, 0.01))
    interval, (t, unseen) = (
        shown(values, bounds),
        reaches(values, (0, max(seen[1], values.max()) if seen[1] < 1 else 1)),
    )
    expected = np.hypot(t, unseen) if hangs_on_few else np.maximum(t, unseen)
    assert interval.low == pytest.approx(values.mean() - expected[0])
    assert interval.high == pytest.approx(min(values.mean() + expected[1], bounds[1]))


@pytest.mark.parametrize(("n", "n_lost", "values", "hangs_on_few"), [
    (30, 4, 0.9, True), (30, 4, 0.9 + NOISE[:30], True), (40, 4, 0.9 + NOISE[:40], True), (30, 5, 0.9, True),
    # More users, fewer of all, and values that are more than two.
    (30, 7, 0.9, False), (29, 4, 0.9, False), (30, 4, np.linspace(0.2, 1, 30), False),
])  # fmt: skip
def test_two_values_of_which_few_users_have_one_are_no_surer_than_if_these_were_missing(
    n, n_lost, values, hangs_on_few
):
    """If 8 of 30 fail on average, the mean is 0.66. If 4 do so, Student's t interval reaches from 0.664."""
    values = np.where(np.arange(n) < n_lost, 0.0, values)
    interval, far = shown(values), reaches(values, SHARE)
    low, high = np.hypot(*far) if hangs_on_few else np.maximum(*far)
    expected = values.mean() - low, min(values.mean() + high, 1)
    assert interval[:2] == pytest.approx(expected)
    assert interval.method == "t"
    accumulator = MeanAccumulator(1, weighted=True)
    accumulator.add(0, values, np.full(n, 0.1))
    weighted = mean_of(column(accumulator.state()))
    plain = t_interval(weighted.mean, weighted.standard_error, n)
    assert adjusted_interval(plain, moments(values), SHARE, weighted)[:2] == pytest.approx(expected)
    # What Clopper and Pearson give knows of two values.
    few = Interval(*interval[:2], 0.95, "clopper_pearson")
    assert adjusted_interval(few, moments(values), SHARE)[:2] == pytest.approx(expected)


def test_a_bootstrap_of_users_who_are_nearly_alike_reaches_as_far():
    values = 0.9 + NOISE[:30]
    few = Interval(0.898, 0.902, 0.95, "bca")
    assert adjusted_interval(few, moments(values), SHARE)[:2] == pytest.approx(shown(values)[:2])
    jackknife = few._replace(method="jackknife")
    assert adjusted_interval(jackknife, moments(values), SHARE) == jackknife


def test_values_below_what_exact_sums_hold_have_no_mean_rather_than_a_wrong_one():
    assert math.isnan(moments([1e-160, 2e-160]).mean)
    tiny = moments([1e-100, 3e-100])
    assert (tiny.mean, math.isnan(tiny.std)) == (pytest.approx(2e-100), True)
    assert moments([1e-60, 3e-60]).std == pytest.approx(math.sqrt(2) * 1e-60)


@pytest.mark.parametrize(("middle", "spread", "is_reliable"), [
    (5e-4, 1e-5, True), (5e-4, 1e-7, True), (5e-4, 1e-9, False),
    (1.0, 1e-4, True), (1.0, 1e-8, False), (3e4, 1.0, True), (3e4, 1e-6, False), (1e6, 1e-3, True),
])  # fmt: skip
def test_a_spread_has_three_digits_or_a_reason(middle, spread, is_reliable):
    values = middle + spread * RNG.standard_normal(500)
    figures = moments(values)
    assert figures.std == pytest.approx(values.std(ddof=1) if is_reliable else math.nan, rel=1e-4, nan_ok=True)
    assert mean_interval(figures).reason == ("" if is_reliable else UNKNOWN_MEAN)
