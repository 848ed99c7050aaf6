"""Few users, and users who are all alike: what is said of them is no surer than what they can show."""

import itertools
import math

import numpy as np
import pytest
from helpers.descriptions import column, moments
from scipy import stats

from spark_rankeval.statistics.all_pairs import AllPairsAccumulator, all_pairs_of
from spark_rankeval.statistics.distributions import clopper_pearson_interval, sign_test_p
from spark_rankeval.statistics.intervals import (
    UNKNOWN_MEAN,
    adjusted_interval,
    interval_without_spread,
    mean_interval,
    t_interval,
)
from spark_rankeval.statistics.moments import merged
from spark_rankeval.statistics.paired import PairedAccumulator, comparison_of
from spark_rankeval.statistics.sums import MeanAccumulator, mean_of
from spark_rankeval.statistics.verdicts import verdict_of

SHARE = (0.0, 1.0)
RNG = np.random.default_rng(301)


def compared(values, baseline, replicates=0, bounds=SHARE, parts=1):
    values, baseline = np.atleast_2d(np.asarray(values, float)), np.atleast_2d(np.asarray(baseline, float))
    states = []
    for part in np.array_split(np.arange(values.shape[1]), parts):
        pairs = PairedAccumulator(1, replicates=replicates)
        pairs.add(part, values[:, part], baseline[:, part])
        states.append(pairs.state())
    return comparison_of(column(merged(states)), bounds=bounds)


def word(comparison, margin=0.0):
    p, _ = comparison.p_of("sign_flip", margin)
    return verdict_of(comparison.interval, p, margin=margin, difference=comparison.difference).word


def every_sign_p(difference):
    sums = [abs(np.dot(signs, difference)) for signs in itertools.product((-1, 1), repeat=len(difference))]
    return np.mean(np.array(sums) >= abs(difference.sum()) - 1e-9)


@pytest.mark.parametrize("n_users", [1, 2, 3, 7, 11])
def test_the_signs_of_few_users_are_all_counted(n_users):
    values, baseline = RNG.integers(0, 6, (2, n_users)) / 5
    result = compared(values, baseline)
    assert result.p_is_exact
    assert result.p_sign_flip == every_sign_p(values - baseline)
    assert repr(compared(values, baseline, parts=min(n_users, 3))) == repr(result)


def test_sixteen_users_who_differ_are_few_and_more_are_not_unless_all_differ_by_as_much():
    few = RNG.random(40)
    few[16:] = 0
    assert compared(few, np.zeros(40)).p_sign_flip == 2.0**-15
    few[16] = 0.5
    assert math.isnan(compared(few, np.zeros(40)).p_sign_flip)
    assert not compared(few, np.zeros(40), replicates=99).p_is_exact
    hits = np.repeat([1.0, -1.0, 0.0], [200, 150, 900])
    assert compared(np.maximum(hits, 0), np.maximum(-hits, 0)).p_sign_flip == pytest.approx(
        stats.binomtest(200, 350).pvalue, rel=1e-10
    )
    # Shares of hits that differ by a fifth, but for rounding.
    fifths = compared(np.repeat([0.6, 0.4, 0.2], 8), np.repeat([0.4, 0.2, 0.0], 8))
    assert fifths.p_sign_flip == pytest.approx(2.0**-23)
    assert fifths.std == 0


@pytest.mark.parametrize("n_users", [2, 3, 5])
def test_users_who_gain_alike_are_no_proof(n_users):
    result = compared([1.0] * n_users, [0.0] * n_users)
    assert (result.p_t, result.p_sign_flip) == (2.0 ** (1 - n_users), 2.0 ** (1 - n_users))
    assert (word(result), word(result, 0.01)) == ("undecided", "undecided")
    low, high = result.interval.low, result.interval.high
    # All users won, or all lost: the interval of a share, of −1 and 1.
    expected = stats.binomtest(n_users, n_users).proportion_ci(0.95, "exact")
    assert (low, high) == pytest.approx((2 * expected.low - 1, 1.0))


def test_users_who_do_not_differ_are_alike_only_if_they_are_many():
    for n_users, expected in ((3, "undecided"), (1000, "no relevant difference")):
        same = compared([0.5] * n_users, [0.5] * n_users)
        assert (same.p_t, same.p_sign_flip, word(same)) == (1, 1, "undecided")
        assert word(same, 0.01) == expected


def test_without_bounds_no_spread_says_nothing():
    result = compared([3.0] * 50, [2.0] * 50, bounds=(0.0, math.inf))
    assert "no bounds" in result.interval.reason
    assert (word(result), word(result, 0.5)) == ("undecided", "undecided")


def test_of_many_users_a_gain_of_all_alike_is_one():
    assert word(compared([1.0] * 30, [0.0] * 30)) == "better"
    assert word(compared([1.0] * 30, [0.0] * 30), 0.5) == "better"


def test_a_p_beyond_the_margin_is_5_percent_where_the_interval_ends_at_it():
    users = np.array([0.5, 0.2])[:, None] + RNG.random((2, 40)) / 4
    for result in (compared(*users), compared([0.3] * 40, [0.0] * 40)):
        low, high = result.interval.low, result.interval.high
        assert low > 0
        for margin in (low, high):
            assert result.p_beyond(margin) == pytest.approx(0.05, rel=1e-9)
    assert result.p_of("t", 0.5)[0] == result.p_beyond(0.5)


def test_who_is_better_by_more_than_a_margin_is_better():
    result = compared([0.9, 0.8, 0.9, 0.85] * 3, [0.1, 0.0, 0.1, 0.06] * 3)
    assert result.p_beyond(0.1) < 0.01
    assert result.p_of("sign_flip", 0.1) == (result.p_beyond(0.1), result.interval.method)
    # Few drawn signs show less than the distance from the margin does.
    many = compared(0.5 + RNG.random(40) / 4, np.full(40, 0.1), replicates=99)
    assert many.p_beyond(0.1) < 1e-9
    assert many.p_of("sign_flip", 0.1) == (0.01, "sign_flip")


def test_a_drawn_p_below_the_resolution_is_that_of_t_and_no_less_than_signs_can_give():
    ours, theirs = RNG.random((2, 60))
    result = compared(ours + 1, theirs, replicates=99, bounds=(0, 2))
    assert result.p_of("sign_flip") == (0.01, "sign_flip")
    assert result.p_of("sign_flip", resolution=0.01) == (max(result.p_t, 2.0**-59), "t")
    narrow = compared(0.5 + ours[:17] / 1e6, [0.0] * 17, replicates=99)
    assert narrow.p_t < 1e-50
    assert narrow.p_of("sign_flip", resolution=0.01) == (2.0**-16, "t")


@pytest.mark.parametrize(("k", "n"), [(0, 3), (1, 3), (3, 3), (2, 100), (50, 100), (99, 100), (1234, 100_000)])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
def test_the_interval_of_a_share_is_scipys(k, n, level):
    expected = stats.binomtest(k, n).proportion_ci(level, "exact")
    assert clopper_pearson_interval(k, n, level) == pytest.approx((expected.low, expected.high), rel=1e-9)


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (1, 0), (5, 2), (600, 400), (10**6, 10**6 - 5000)])
def test_the_sign_test_is_scipys(wins, losses):
    expected = stats.binomtest(wins, wins + losses).pvalue if wins else 1.0
    assert sign_test_p(wins, losses) == sign_test_p(losses, wins) == pytest.approx(expected, rel=1e-7)


def shown(values, bounds=SHARE):
    figures = moments(values)
    return adjusted_interval(mean_interval(figures), figures, bounds)


def test_shares_of_users_have_the_interval_of_clopper_and_pearson():
    for values in ([0.0] * 30, [1.0] * 30, [1.0] + [0.0] * 9, [1.0, 0.0]):
        expected = stats.binomtest(int(sum(values)), len(values)).proportion_ci(0.95, "exact")
        interval = shown(values)
        assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), rel=1e-9)
        assert interval.method == "clopper_pearson"
    assert shown([1.0, 0.0, 0.5]).method == "t"


def test_an_interval_stays_within_the_bounds_that_values_keep():
    few = [0.0, 0.2, 0.8]
    plain = mean_interval(moments(few))
    assert plain.low < 0
    assert plain.high > 1 - 1e-9 or plain.high < 1
    assert (shown(few).low, shown(few).high) == (0.0, min(plain.high, 1.0))
    # A recall of lists with duplicates can exceed 1: such bounds are none.
    assert shown([0.0, 0.2, 1.8]) == mean_interval(moments([0.0, 0.2, 1.8]))


def test_values_that_are_all_one_have_an_interval_as_long_as_others_may_lie_away():
    interval = shown([0.25] * 10)
    others = 1 - 0.025 ** (1 / 10)
    assert (interval.low, interval.high) == pytest.approx((0.25 * (1 - others), 0.25 + 0.75 * others))
    assert interval == interval_without_spread(0.25, 10, 0.95, SHARE)
    assert "no bounds" in shown([3.0] * 10, (0.0, math.inf)).reason


def test_a_large_value_of_both_models_is_no_tolerance():
    ours = np.append(RNG.random(200) + 0.3, 1e15)
    theirs = np.append(RNG.random(200), 1e15)
    without = compared(ours[:-1], theirs[:-1], replicates=999, bounds=(0, math.inf))
    result = compared(ours, theirs, replicates=999, bounds=(0, math.inf))
    assert result.p_sign_flip == without.p_sign_flip == 0.001


def test_infinity_less_infinity_is_nobodys_win():
    result = compared([1.0, math.inf, 3.0], [0.5, math.inf, 4.0], replicates=9)
    assert (result.wins, result.ties, result.losses) == (1, 1, 1)


def test_a_lift_has_the_sign_of_the_difference():
    result = compared([-0.1, -0.2], [-0.4, -0.2], bounds=(-1.0, 1.0))
    assert result.relative_lift == pytest.approx(0.5)


def test_values_below_what_exact_sums_hold_have_no_mean_rather_than_a_wrong_one():
    assert math.isnan(moments([1e-160, 2e-160]).mean)
    tiny = moments([1e-100, 3e-100])
    assert tiny.mean == pytest.approx(2e-100)
    assert math.isnan(tiny.std)
    assert moments([1e-60, 3e-60]).std == pytest.approx(math.sqrt(2) * 1e-60)


def test_a_p_by_t_where_no_sign_was_drawn_is_no_less_than_signs_can_give():
    narrow = compared(0.5 + RNG.random(17) / 1e6, [0.0] * 17)
    assert narrow.p_t < 1e-50
    assert narrow.p_of("sign_flip") == (2.0**-16, "t")
    assert narrow.p_of("t") == (narrow.p_t, "t")


def test_a_drawn_p_stands_where_t_has_none_that_is_smaller():
    outlier = np.append(RNG.random(20) / 100 + 0.01, 50.0)
    result = compared(outlier, np.zeros(21), replicates=99, bounds=(0, math.inf))
    assert result.p_sign_flip == 0.01 < result.p_t
    assert result.p_of("sign_flip", resolution=0.01) == (0.01, "sign_flip")


def test_values_that_are_one_but_for_rounding_have_no_spread():
    thirds = [1 / 3, 1 - 2 / 3, 1 / 3 + 1e-16]
    assert len(set(thirds)) == 3
    assert moments(thirds).std == 0
    interval = shown(thirds)
    assert interval.method == "clopper_pearson"
    assert interval.high - interval.low > 0.7


def test_equal_values_of_users_with_weights_have_no_spread_either():
    values, weights = np.array([0.25] * 9 + [0.5]), np.array([1.0] * 5 + [2.0] * 4 + [0.0])
    accumulator = MeanAccumulator(1, weighted=True)
    accumulator.add(0, values, weights)
    weighted = mean_of(column(accumulator.state()))
    interval = adjusted_interval(
        t_interval(weighted.mean, weighted.standard_error, 10), moments(values), SHARE, weighted
    )
    assert interval == interval_without_spread(0.25, weighted.effective_n, 0.95, SHARE)


@pytest.mark.parametrize(("middle", "spread", "is_reliable"), [
    (5e-4, 1e-5, True), (5e-4, 1e-7, True), (5e-4, 1e-9, False),
    (1.0, 1e-4, True), (1.0, 1e-8, False), (3e4, 1.0, True), (3e4, 1e-6, False), (1e6, 1e-3, True),
])  # fmt: skip
def test_a_spread_has_three_digits_or_a_reason(middle, spread, is_reliable):
    values = middle + spread * RNG.standard_normal(500)
    figures = moments(values)
    assert figures.std == pytest.approx(values.std(ddof=1) if is_reliable else math.nan, rel=1e-4, nan_ok=True)
    assert mean_interval(figures).reason == ("" if is_reliable else UNKNOWN_MEAN)


def test_pairs_whose_spread_is_not_known_have_a_reason():
    blocks = AllPairsAccumulator(1, 2, pairwise=True)
    values = np.array([np.zeros(50), 1 + 1e-9 * RNG.standard_normal(50)])
    blocks.add(np.arange(50), values[None])
    (pair,) = all_pairs_of(column(blocks.state()))
    assert (math.isnan(pair.p_tukey), pair.interval.reason) == (True, UNKNOWN_MEAN)


@pytest.mark.parametrize("n", [2, 10, 29])
def test_few_users_who_nearly_agree_are_no_certainty_within_a_margin(n):
    """Others who gain a lot may not be among them: what few users with one value can show is the least p."""
    baseline = np.linspace(0.2, 0.8, n)
    nearly = compared(baseline + np.linspace(0, 1e-4, n), baseline)
    alike = compared(baseline + 5e-5, baseline)
    assert nearly.std > 0 == alike.std
    assert nearly.p_beyond(0.05) == pytest.approx(alike.p_beyond(0.05), rel=1e-3)
    assert nearly.p_beyond(0.05) > 0.4
    # Values without bounds have no such least p.
    assert compared(baseline + np.linspace(0, 1e-4, n), baseline, bounds=(0, math.inf)).p_beyond(0.05) < 0.01


def test_one_user_in_common_has_no_p_of_a_margin():
    pairs = AllPairsAccumulator(1, 3, replicates=99)
    pairs.add(np.array([1]), np.array([[[0.1], [0.2], [0.3]]]))
    (first, *_) = all_pairs_of(column(pairs.state()))
    for test in ("tukey", "randomised"):
        p = first.p_of(test, 0.1)
        assert math.isnan(p) or p == 1


def test_rounding_takes_no_bound_away():
    above = np.nextafter(1.0, 2.0)
    ends = adjusted_interval(t_interval(0.9, 0.2, 3, 0.95), moments([above, 0.9, 0.8]), SHARE)
    assert (ends.low, ends.high) == (pytest.approx(0.0395, abs=1e-3), 1.0)
    assert adjusted_interval(t_interval(0.9, 0.2, 3, 0.95), moments([1.01, 0.9, 0.8]), SHARE).high > 1


def test_ones_and_zeros_of_a_metric_with_other_bounds_are_no_shares():
    values = moments([0.0, 1.0, 1.0])
    interval = t_interval(values.mean, values.std / math.sqrt(3), 3, 0.95)
    assert adjusted_interval(interval, values, SHARE).method == "clopper_pearson"
    assert adjusted_interval(interval, values, (-1.0, 1.0)).low < 0
    assert adjusted_interval(interval, values, (0.0, math.inf)).method == "t"
