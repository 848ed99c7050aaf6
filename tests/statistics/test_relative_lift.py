"""Fieller's interval holds the ratios that a t test does not reject."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from spark_rankeval.statistics.relative_lift import lift_of

FINITE = st.floats(-3, 3).map(lambda value: round(value, 3))


def lift_from_users(model, baseline, level=0.95):
    difference = model - baseline
    variances = np.cov(difference, baseline, ddof=1) / len(model)
    moments = variances[0, 0], variances[1, 1], variances[0, 1]
    return lift_of(difference.mean(), baseline.mean(), *map(float, moments), len(model) - 1, level)


def t_test_rejects(values, level):
    """Whether the t test rejects that values have the mean 0."""
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    return abs(np.mean(values)) > stats.t.ppf((1 + level) / 2, len(values) - 1) * error


@settings(max_examples=60, derandomize=True)
@given(st.lists(st.tuples(FINITE, FINITE), min_size=3, max_size=12), st.sampled_from([0.5, 0.8, 0.95, 0.99]))
def test_the_ends_are_where_the_test_begins_to_reject(users, level):
    model, baseline = np.array(users).T
    baseline = baseline + 2.0
    # The test below is of baselines above 0; the next test mirrors them.
    assume(baseline.mean() > 1e-3)
    lift = lift_from_users(model, baseline, level)
    assume(min(map(np.std, (model, baseline, model - (1 + lift.value) * baseline))) > 1e-5)
    assert lift.value == pytest.approx((model.mean() - baseline.mean()) / baseline.mean())
    if not t_test_rejects(baseline, level):
        assert (math.isnan(lift.low), "not clearly different from 0" in lift.reason) == (True, True)
        return
    assert lift.low <= lift.value <= lift.high
    step = 1e-6 * max(1.0, lift.high - lift.low)
    rejected = [
        t_test_rejects(model - (1 + end) * baseline, level)
        for end in (lift.low - step, lift.low + step, lift.high - step, lift.high + step)
    ]
    assert rejected == [True, False, False, True]


def test_a_negative_baseline_gains_when_the_model_is_larger():
    baseline = np.array([-2.0, -1.0, -1.5, -2.5])
    model = baseline + np.array([0.5, 0.25, 0.5, 0.75])
    lift, mirrored = lift_from_users(model, baseline), lift_from_users(-model, -baseline)
    assert lift.value == pytest.approx(0.5 / 1.75)
    assert (lift.low, lift.high) == pytest.approx((-mirrored.high, -mirrored.low))
    assert lift.low > 0


@pytest.mark.parametrize(
    ("figures", "reason"),
    [
        ((0.1, 0.0, 0.1, 0.1, 0.0, 9), "the baseline's mean is 0"),
        ((0.1, math.nan, 0.1, 0.1, 0.0, 9), "unknown"),
        ((0.1, 1.0, math.nan, 0.1, 0.0, 9), "unknown"),
        ((0.1, 1.0, 0.1, 0.1, 0.0, 0), "unknown"),
        ((0.1, 0.1, 0.1, 0.1, 0.0, 9), "not clearly different from 0"),
        ((-0.9, 1.0, 0.01, 0.01, -0.01, 9), "all users have the same value under the model"),
        ((-0.25, 1.0, 0.000625, 0.01, -0.0025, 9), "all users have the same ratio of both values"),
    ],
)
def test_a_lift_without_an_interval_says_why(figures, reason):
    lift = lift_of(*figures)
    assert np.isnan([lift.low, lift.high]).all()
    assert reason in lift.reason


def test_a_lift_keeps_its_bounds():
    figures = (-0.9, 1.0, 0.04, 0.01, 0.0, 9)
    free, bounded = lift_of(*figures), lift_of(*figures, bounds=(-1.0, math.inf))
    assert free.low < -1
    assert bounded == free._replace(low=-1.0)
    assert lift_of(*figures, bounds=(-math.inf, free.value)).high == free.value
