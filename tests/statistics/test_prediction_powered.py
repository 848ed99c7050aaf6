"""Estimates from few human grades and many by a model."""

import math

import numpy as np
import pytest
from helpers.effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.prediction_powered import by_definition, estimate

from spark_rankeval.statistics.judged_moments import JudgedMoments
from spark_rankeval.statistics.prediction_powered import judged_estimate

NAN = math.nan


def queries(seed, n=60, n_others=200, agreement=0.7, undefined=0.0):
    """Values by people of the first n queries, and by a model of all."""
    rng = np.random.default_rng(seed)
    size = n + n_others
    f = rng.random(size)
    y = np.where(np.arange(size) < n, agreement * f + (1 - agreement) * rng.random(size), NAN)
    if undefined:
        y[rng.random(size) < undefined] = NAN
        f[rng.random(size) < undefined] = NAN
    return y, f, np.arange(size) < n


def weights_of(f, is_graded, seed):
    rng = np.random.default_rng(seed)
    return np.where(is_graded, rng.exponential(size=len(f)) + 0.2, NAN)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("lam", [None, 0.3, 1.0])
def test_defined_values_have_the_estimate_of_the_definition(seed, lam):
    y, f, is_graded = queries(seed, agreement=(0.1, 0.4, 0.6, 0.8, 0.9)[seed])
    value, error, best = by_definition(y, f, 60, lam)
    result = judged_estimate(JudgedMoments.from_values(y, f, is_graded), lambda_=lam)
    assert (result.value, result.standard_error) == pytest.approx((value, error), rel=1e-12)
    assert result.lambda_ == pytest.approx(best, rel=1e-12)
    human = np.var(y[is_graded], ddof=1) / 60
    assert result.human.standard_error == pytest.approx(math.sqrt(human), rel=1e-12)
    assert result.effective_n == pytest.approx(60 * human / error**2, rel=1e-12)
    assert result.gain == pytest.approx(result.effective_n / 60)
    assert result.judge.value == pytest.approx(f.mean(), rel=1e-12)


@pytest.mark.parametrize("has_weights", [False, True])
@pytest.mark.parametrize("has_strata", [False, True])
@pytest.mark.parametrize("lam", [0.0, 0.4, 1.0])
def test_undefined_values_weights_and_strata_have_the_estimate_of_the_oracle(has_weights, has_strata, lam):
    y, f, is_graded = queries(7, undefined=0.2)
    weights = weights_of(f, is_graded, 8) if has_weights else None
    strata = np.where(f < 0.5, "low", "hi/gh") if has_strata else None
    value, error = estimate(y, f, is_graded, lam, weights, strata)
    result = judged_estimate(JudgedMoments.from_values(y, f, is_graded, weights, strata), lambda_=lam)
    assert (result.value, result.standard_error) == pytest.approx((value, error), rel=1e-10)


def test_the_oracle_is_the_definition_if_all_is_defined_and_equally_drawn():
    y, f, is_graded = queries(3)
    value, error, lam = by_definition(y, f, 60)
    assert estimate(y, f, is_graded, lam) == pytest.approx((value, error), rel=1e-12)


def test_equal_weights_change_nothing():
    y, f, is_graded = queries(4)
    plain = judged_estimate(JudgedMoments.from_values(y, f, is_graded), bounds=(0, 1))
    weighted = judged_estimate(JudgedMoments.from_values(y, f, is_graded, np.full(len(f), 3.7)), bounds=(0, 1))
    assert weighted.value == pytest.approx(plain.value, rel=1e-14)
    assert weighted.interval.low == pytest.approx(plain.interval.low, rel=1e-12)
    assert weighted.standard_error == pytest.approx(plain.standard_error, rel=1e-12)


@settings(max_examples=examples(20, 300), deadline=None)
@given(st.data())
def test_any_split_and_any_order_merge_to_the_same_sums(data):
    seed, n_parts = data.draw(st.integers(0, 1000)), data.draw(st.integers(1, 5))
    rng = np.random.default_rng(seed)
    y, f, is_graded = queries(seed, n=20, n_others=30, undefined=0.2)
    weights = weights_of(f, is_graded, seed) if data.draw(st.booleans()) else None
    strata = rng.choice(["a", "ß"], len(f)) if data.draw(st.booleans()) else None
    columns = (y, f, is_graded, weights, strata)
    whole = JudgedMoments.from_values(*columns)
    order, part = rng.permutation(len(f)), rng.integers(0, n_parts, len(f))
    parts = [
        JudgedMoments.from_values(*(None if column is None else column[order[part == k]] for column in columns))
        for k in range(n_parts)
    ]
    merged = JudgedMoments.total(parts)
    assert merged == whole
    assert JudgedMoments.from_text(merged.text()) == whole
    assert merged.text() == whole.text()
    assert (merged.n_graded, merged.n_others) == (20, 30)


def test_values_close_together_lose_no_digit():
    rng = np.random.default_rng(0)
    noise = rng.integers(-8, 9, 1000) * 2.0**-40
    y, f, is_graded = 0.75 + noise, 0.625 + noise / 2, np.arange(1000) < 100
    one = JudgedMoments.from_values(y, f, is_graded)
    # More than 10⁸ queries.
    many = one
    for _ in range(17):
        many += many
    result = judged_estimate(many, lambda_=0.5)
    tiny, far = judged_estimate(JudgedMoments.from_values(noise, noise / 2, is_graded), lambda_=0.5), 2.0**17
    corrections = (1 - 1 / 100) / (1 - 1 / (100 * far))
    expected = tiny.human.standard_error * math.sqrt(corrections / far)
    assert result.n_others == 900 * far
    assert result.human.standard_error == pytest.approx(expected, rel=1e-12)
    assert result.standard_error < expected
