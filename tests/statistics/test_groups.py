"""Groups of different users: Welch's test is scipy's, and few or rare values give no false certainty."""

import math
from fractions import Fraction

import numpy as np
import pytest
from oracles.clusters import degrees_of_freedom
from scipy import stats
from worlds.user_groups import SHARE, cautious_welch, group

from spark_rankeval.statistics.groups import difference_of, largest_gap

RNG = np.random.default_rng(2601)


@pytest.mark.parametrize(("n", "n_other"), [(2, 3), (5, 40), (300, 200), (10_000, 70)])
def test_welchs_test_and_its_interval_are_scipys(n, n_other):
    values, others = RNG.gamma(2, size=n), RNG.normal(2.1, 3, n_other)
    found, expected = difference_of(group(values), group(others)), stats.ttest_ind(values, others, equal_var=False)
    assert found.method == "welch"
    assert (found.p_of(), found.df) == pytest.approx((expected.pvalue, expected.df), rel=1e-8)
    for level in (0.9, 0.95):
        assert found.interval(level)[:2] == pytest.approx(expected.confidence_interval(level), rel=1e-8)


def test_weights_take_the_linearised_variance_of_each_mean():
    values, others = RNG.random(60), RNG.random(90)
    weights, other_weights = RNG.integers(1, 9, 60), RNG.integers(1, 9, 90)
    found, variances = difference_of(group(values, weights=weights), group(others, weights=other_weights)), []
    for y, w in ((values, weights), (others, other_weights)):
        mean = np.average(y, weights=w)
        variances.append(len(y) / (len(y) - 1) * np.sum(w**2 * (y - mean) ** 2) / np.sum(w) ** 2)
    dfs = [degrees_of_freedom(w) for w in (weights, other_weights)]
    df = sum(variances) ** 2 / sum(v**2 / own for v, own in zip(variances, dfs, strict=True))
    t = (np.average(values, weights=weights) - np.average(others, weights=other_weights)) / math.sqrt(sum(variances))
    assert (found.df, found.p_of()) == pytest.approx((df, 2 * stats.t.sf(abs(t), df)))
    alike = difference_of(group(values, weights=np.full(60, 7)), group(others, weights=np.full(90, 0.5)))
    plain = difference_of(group(values), group(others))
    assert alike.interval(0.95).low == pytest.approx(plain.interval(0.95).low)


@pytest.mark.parametrize("sizes", [(20, 400), (400, 20), (150, 2000), (3000, 5000)])
def test_a_group_of_few_users_for_its_range_counts_as_at_least_as_spread_as_the_other(sizes):
    """Nine in ten values are 0 here, so that 150 users are few: 30 (range ÷ standard deviation)² are needed."""
    samples = [(RNG.random(n) < 0.1) * RNG.random(n) * (0.6 if n == min(sizes) else 1) for n in sizes]
    pair = tuple(map(group, samples))
    found = difference_of(*pair).cautious(pair)
    p, df, ends = cautious_welch(*samples)
    assert (found.p_of(), found.df) == pytest.approx((p, df))
    assert found.interval(0.95)[:2] == pytest.approx(ends)
    assert (found == difference_of(*pair)) == (sizes == (3000, 5000))


def test_weighted_users_are_as_few_as_their_effective_number():
    """All but a few weights are small: 2,000 users say as much as some dozens."""
    values, others = RNG.random(2000) / 10, RNG.random(2000)
    weights = np.where(np.arange(2000) < 30, 1e4, 1.0)
    pair = (group(values, weights=weights), group(others))
    by_welch = difference_of(*pair)
    spreads = [2000 * variance for variance in by_welch.variances]
    # The variances have Bessel's correction n/(n − 1), which is here for the effective number.
    effective = weights.sum() ** 2 / (weights**2).sum()
    correction = effective / (effective - 1) * 1999 / 2000
    assert by_welch.cautious(pair).variances == pytest.approx((max(spreads) / 2000 * correction, spreads[1] / 2000))


def test_the_p_with_a_margin_is_that_of_the_interval_that_ends_there():
    found = difference_of(group(RNG.normal(1, 1, 30)), group(RNG.normal(0, 2, 40)))
    for level in (0.8, 0.99):
        assert [found.p_of(end) for end in found.interval(level)[:2]] == pytest.approx([1 - level] * 2)
    rare = difference_of(group([1] * 9 + [0], SHARE), group([0] * 8 + [1], SHARE))
    assert rare.method == "mover"
    assert rare.p_of(rare.interval(0.9).low) == pytest.approx(0.1, rel=1e-6)
    assert rare.p_of() == pytest.approx(1 - 0.9, abs=0.1)
    # No interval of the two shares reaches so far.
    assert math.isnan(rare.p_of(0.99))


def test_rare_values_take_the_interval_of_each_share():
    shares = []
    for hits, n in ((3, 40), (30, 90)):
        interval = stats.binomtest(hits, n).proportion_ci(0.95)
        shares.append((hits / n, interval.low, interval.high))
    (p, low, high), (other, other_low, other_high) = shares
    found = difference_of(group([1] * 3 + [0] * 37, SHARE), group([1] * 30 + [0] * 60, SHARE)).interval(0.95)
    ends = p - other - math.hypot(p - low, other_high - other), p - other + math.hypot(high - p, other - other_low)
    assert found[:2] == pytest.approx(ends)
    frequent = difference_of(group([1] * 30 + [0] * 37, SHARE), group([1] * 30 + [0] * 60, SHARE))
    assert frequent.method == "welch"


def test_groups_without_spread_are_not_certain():
    sides = (1, 0, 3), (1, 0, 30), (0.5, 0.5, 4)
    few, many, equal = (difference_of(group([a] * n, SHARE), group([b] * n, SHARE)) for a, b, n in sides)
    assert (few.interval(0.95).low < 0, few.p_of() > 0.05) == (True, True)
    assert (many.interval(0.95).low > 0.7, many.p_of() < 1e-6) == (True, True)
    assert equal.p_of() == pytest.approx(1)


UNKNOWN = "the mean or its spread is unknown: values are too large, too small or too close together"


@pytest.mark.parametrize(("values", "reason"), [
    ([], "no user has a value"),
    ([math.nan], "no user has a value"),
    ([0.3], "one user has no spread"),
    ([7.0] * 4, "all users have the same value, and the metric has no bounds"),
    ([math.inf, 1.0, 2.0], UNKNOWN),
])  # fmt: skip
def test_a_group_that_says_nothing_has_a_reason(values, reason):
    found = difference_of(group([0.2, 0.5, 0.7]), group(values, name="few"))
    assert (found.interval(0.95).reason, math.isnan(found.p_of())) == (f"few: {reason}", True)


def test_the_interval_of_a_difference_keeps_its_bounds():
    found = difference_of(group([0.9, 1.0, 0.1], SHARE), group([0.0, 0.9, 0.2], SHARE)).interval(0.999)
    assert found[:2] == (-1, 1)


def test_the_largest_gap_is_that_of_games_and_howell():
    samples = [RNG.normal(place / 50, 1 + place / 10, 5000 + 3 * place) for place in range(3)]
    found = largest_gap([group(values, name=str(place)) for place, values in enumerate(samples)])
    means = [values.mean() for values in samples]
    high, low = int(np.argmax(means)), int(np.argmin(means))
    assert (found.highest.name, found.lowest.name) == (str(high), str(low))
    # Welch's degrees of freedom of the pair, and the range of three means.
    df = stats.ttest_ind(samples[high], samples[low], equal_var=False).df
    error = math.sqrt(sum(samples[place].var(ddof=1) / len(samples[place]) for place in (high, low)))
    reach = stats.studentized_range.isf(0.05, 3, df) * error / math.sqrt(2)
    gap = means[high] - means[low]
    assert found.interval_at(0.95)[:2] == pytest.approx((gap - reach, gap + reach), rel=1e-6)
    assert found.p_of() == pytest.approx(stats.studentized_range.sf(gap / error * math.sqrt(2), 3, df), rel=1e-6)
    assert found.p_of(found.interval_at(0.95).high) == pytest.approx(0.05)


def test_the_largest_gap_of_rare_values_is_corrected_for_all_pairs():
    groups = [group([1] * hits + [0] * (20 - hits), SHARE, str(hits)) for hits in (2, 5, 12)]
    found, alone = largest_gap(groups), difference_of(groups[2], groups[0])
    assert (found.interval_at(0.94).low, found.p_of()) == pytest.approx((alone.interval(0.98).low, 3 * alone.p_of()))


def test_the_largest_gap_of_few_skewed_users_is_cautious():
    pair = tuple(group(np.r_[np.zeros(n - 5), np.full(5, size)], name=str(n)) for n, size in ((190, 0.9), (2000, 0.3)))
    assert largest_gap(pair).difference == difference_of(*pair).cautious(pair) != difference_of(*pair)


def test_slices_of_few_users_are_no_largest_gap():
    groups = [group([0.0, 0.1, 0.3]), group([0.9], name="one"), group([0.3, 0.1, 0.5]), group([0.8, 0.7], name="two")]
    assert largest_gap(groups).highest.name == "two"
    assert largest_gap(groups, least_n=3).n_groups == 2
    none = largest_gap(groups[:2])
    assert (none.highest, math.isnan(none.p_of())) == (None, True)
    assert none.interval_at(0.95).reason == "fewer than two slices have 2 users or more, and an interval"


def test_slices_of_equal_means_have_a_gap_of_0():
    found = largest_gap([group([0.0, 0.5], name="a"), group([0.25, 0.25 + Fraction(1, 4), 0.0], name="b")])
    assert (found.highest.name != found.lowest.name, found.difference.estimate) == (True, 0)
