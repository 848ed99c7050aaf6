"""Differences of two models under human grades that two judges estimate: p-values, intervals and margins agree."""

import itertools
import math

import numpy as np
import pytest

from spark_rankeval.statistics.judged_differences import JudgedDifference, judged_sides
from spark_rankeval.statistics.judged_moments import JudgedMoments


def difference_of(human, judge, graded):
    """A model with such differences to a baseline whose values are all 0.5."""
    half = np.full(len(human), 0.5)
    sides = (JudgedMoments.from_values(*values, graded) for values in ((human, judge), (half, half)))
    return JudgedDifference(*sides, 0, (3, 2, 1), 0.95, (0.0, 1.0))


def random_difference(seed, shift, n=40, n_all=400):
    generator = np.random.default_rng(seed)
    human = np.clip(shift + generator.normal(0, 0.2, n_all), -1, 1)
    judge = np.clip(human + generator.normal(0, 0.1, n_all), -1, 1)
    return difference_of(human, judge, np.arange(n_all) < n)


@pytest.mark.parametrize("n", [8, 25, 40])
def test_p_is_below_what_the_level_leaves_if_and_only_if_the_interval_lacks_0(n):
    margin = 0.03
    for seed, shift in itertools.product(range(3), (0.0, 0.02, 0.05, 0.1)):
        judged = random_difference(seed, shift, n)
        low, high, *_ = judged.interval
        assert (judged.p_t < 0.05) == (low > 0 or high < 0)
        # The interval at the level 1 − p ends at 0, unless λ depends on the level.
        if judged.estimate.lambda_ and 1e-6 < judged.p_t < 1:
            at_p = judged.interval_at(1 - judged.p_t)
            assert min(abs(at_p.low), abs(at_p.high)) < 1e-6
        # Of fewer users a margin is decided later: others may differ from them.
        is_decided = low > margin or high < -margin or (-margin < low and high < margin)
        assert n < 40 or (judged.p_beyond(margin) < 0.05) == is_decided
        assert judged.p_of("t", margin)[0] >= judged.p_beyond(margin)


def test_the_interval_of_a_difference_may_lie_on_both_sides_of_0():
    judged = random_difference(0, 0.02, 25)
    assert -1 < judged.interval.low < 0 < judged.difference < judged.interval.high < 1


def test_a_difference_that_no_user_has_is_no_difference():
    nothing, graded = np.zeros(300), np.arange(300) < 50
    same = difference_of(nothing, nothing, graded)
    assert same.no_user_differs
    assert (same.difference, same.p_t, same.mean, same.baseline_mean) == (0.0, 1.0, 0.5, 0.5)
    assert not difference_of(nothing, np.where(np.arange(300) == 299, 0.5, 0.0), graded).no_user_differs


def test_means_add_up_and_the_lift_is_a_share_of_the_baseline():
    judged = random_difference(3, 0.1)
    assert judged.mean == judged.baseline_mean + judged.difference
    lift = judged.lift_at(0.95)
    assert (lift.value, math.isnan(lift.low), bool(lift.reason)) == (pytest.approx(judged.difference / 0.5), True, True)
    assert (judged.wins, judged.ties, judged.losses, judged.n) == (3, 2, 1, 400)


def test_without_a_graded_user_there_is_no_verdict():
    judged = difference_of(np.full(20, np.nan), np.linspace(-1, 1, 20), np.zeros(20, bool))
    assert not judged.interval
    assert math.isnan(judged.p_t)
    assert math.isnan(judged.p_of("t", 0.1)[0])


def test_sides_leave_out_users_without_a_difference():
    difference, baseline = judged_sides(np.array([1.0, np.nan, 0.5, 0.3]), np.array([0.5, 0.5, np.nan, 0.3 + 1e-16]))
    np.testing.assert_array_equal(difference, [0.5, np.nan, np.nan, 0.0])
    np.testing.assert_array_equal(baseline, [0.5, np.nan, np.nan, 0.3 + 1e-16])
