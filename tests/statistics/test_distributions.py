"""Tails and quantiles are scipy's, or mpmath's where scipy has fewer digits; detectable differences are statsmodels'."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestPower

from spark_rankeval.errors import OptionError
from spark_rankeval.statistics import distributions
from spark_rankeval.statistics.distributions import (
    noncentral_t_sf,
    normal_cdf,
    normal_quantile,
    studentized_range_critical,
    studentized_range_sf,
    t_critical,
    t_sf,
)
from spark_rankeval.statistics.intervals import detectable_difference

DEGREES = [1, 2.5, 5, 30, 1e3, 1e6, 1e9, math.inf]


def exactly(value):
    return pytest.approx(value, rel=1e-11, abs=0)


def test_the_normal_distribution_is_scipys():
    for x in (-40.0, -8.0, -1.96, -1e-9, 0.0, 0.3, 2.5, 7.0, 37.0):
        assert (normal_cdf(-x), normal_cdf(x)) == exactly((stats.norm.sf(x), stats.norm.cdf(x)))
    for p in (0.0, 1e-300, 1e-12, 0.025, 0.5, 0.9, 1 - 1e-12, 1.0):
        assert normal_quantile(p) == pytest.approx(stats.norm.ppf(p), rel=1e-11, abs=1e-15)


@pytest.mark.parametrize("df", DEGREES)
def test_student_t_is_scipys(df):
    for p in (1e-100, 1e-30, 1e-12, 1e-4, 0.025, 0.2, 0.49):
        t = float(stats.t.isf(p, df))
        assert (t_sf(t, df), t_sf(-t, df)) == exactly((stats.t.sf(t, df), stats.t.cdf(t, df)))
    for level in (0.5, 0.9, 0.95, 0.99, 0.999999):
        assert t_critical(level, df) == exactly(stats.t.isf((1 - level) / 2, df))
    assert (t_sf(0.0, df), t_sf(math.inf, df), math.isnan(t_sf(math.nan, df))) == (0.5, 0.0, True)
    assert np.all(np.diff([t_sf(t, df) for t in np.linspace(0, 30, 12)]) < 0)


@pytest.mark.parametrize("df", [2, 10, 100, 1e5])
def test_noncentral_t_is_scipys(df):
    for t, shift in ((-2.0, 2.8), (0.5, 0.0), (0.5, 5.0), (1.97, 0.5), (4.0, 2.8)):
        expected = float(stats.nct.sf(t, df, shift)) if shift else float(stats.t.sf(t, df))
        assert noncentral_t_sf(t, df, shift) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("df", DEGREES)
def test_the_range_of_two_means_is_student_t_far_into_the_tail(df):
    for p in (1e-20, 1e-6, 0.95):
        assert studentized_range_sf(stats.t.isf(p / 2, df) * math.sqrt(2), 2, df) == exactly(p)


# From 1e5 degrees on scipy takes infinitely many.
@pytest.mark.parametrize(("groups", "df"), [(3, 4), (8, 60), (20, 5000)])
def test_the_studentized_range_and_what_cuts_off_its_tail_are_scipys(groups, df):
    for q in (0.5, 3.0, 6.0):
        expected = stats.studentized_range.sf(q, groups, df)
        assert studentized_range_sf(q, groups, df) == pytest.approx(expected, abs=1e-10, rel=0)
    q = studentized_range_critical(0.95, groups, df)
    assert studentized_range_sf(q, groups, df) == exactly(0.05)
    assert q == pytest.approx(stats.studentized_range.ppf(0.95, groups, df), rel=1e-8)


@pytest.mark.parametrize(
    ("q", "groups", "df", "expected"),
    # mpmath, 25 digits: the double integral over the smallest of the normals and the scale.
    [(4, 60, 10, 0.75263326156591897), (9, 4, 20, 1.8292628278217826e-5), (3.5, 3, 12, 0.069995485275186426)],
)
def test_the_studentized_range_is_that_of_25_digits(q, groups, df, expected):
    assert studentized_range_sf(q, groups, df) == exactly(expected)


def test_no_range_is_smaller_than_nothing():
    assert studentized_range_sf(0.0, 3, 10) == 1.0
    assert studentized_range_sf(1e-3, 200, 10) == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize(
    ("q", "df", "groups"),
    [(0.3, 1, 2), (0.3, 900_000, 10), (1.7, 81, 5), (4.5, 9, 10), (4.5, math.inf, 2), (12.1, 1, 10), (60.0, 9_000, 5)],
)
def test_terms_that_are_left_out_change_no_bit(q, groups, df, monkeypatch):
    p = studentized_range_sf(q, groups, df)
    monkeypatch.setattr(distributions, "_NEGLIGIBLE", 0.0)
    # Unknown bounds leave only exact terms.
    monkeypatch.setattr(distributions, "_range_sf_bounds", lambda r, *_: np.array([[0.0], [1.0]]) + 0 * r)
    assert studentized_range_sf(q, groups, df) == p


@pytest.mark.night
@pytest.mark.parametrize(("groups", "df"), [*itertools.product([10, 2], [1, 81, 9_000])])
def test_bounds_of_the_range_hold_what_they_bound(groups, df):
    scales, weights = distributions._scale(df)
    for q in (0.01, 1.7, 4.5, 30.0):
        exact = distributions._range_sf(q * scales, groups)
        least, most = distributions._range_sf_bounds(q * scales, groups, weights)
        assert ((least <= exact) & (exact <= most)).all()
        heavy = weights > weights.max() / 2
        np.testing.assert_allclose(least[heavy], most[heavy], rtol=1e-12, atol=1e-200)


@pytest.mark.parametrize("n", [10, 1000, 200_000])
def test_the_detectable_difference_has_the_power_asked_for(n):
    for level, power in ((0.9, 0.5), (0.95, 0.8), (0.99, 0.95)):
        found = detectable_difference(0.25, n, level, power)
        assert TTestPower().power(found / 0.25, n, 1 - level) == pytest.approx(power, rel=1e-7)
    assert detectable_difference(1.0, n) == detectable_difference(1.0, n, 0.95, 0.8)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_few_users_show_only_what_has_the_power_asked_for(n):
    # That of statsmodels is not known for so few.
    shift, critical = detectable_difference(1.0, n, 0.99, 0.95) * math.sqrt(n), t_critical(0.99, n - 1)
    power = noncentral_t_sf(critical, n - 1, shift) + noncentral_t_sf(critical, n - 1, -shift)
    assert power == pytest.approx(0.95, rel=1e-9)


def test_many_users_show_what_the_normal_distribution_says_and_one_shows_nothing():
    assert detectable_difference(1.0, 10**8) * 10**4 == pytest.approx(1.959963985 + 0.841621234, rel=2e-6)
    assert detectable_difference(0.0, 10) == 0
    assert math.isnan(detectable_difference(1.0, 1))
    assert math.isnan(detectable_difference(math.nan, 9))


@pytest.mark.parametrize("call", [
    lambda: t_sf(1.0, 0.5), lambda: t_critical(1.0, 5), lambda: normal_quantile(1.5),
    lambda: studentized_range_sf(1.0, 1, 5), lambda: studentized_range_critical(0.0, 3, 5),
    lambda: detectable_difference(1.0, 10, 0.95, 0.05), lambda: detectable_difference(1.0, 10, 0.95, 1.0),
])  # fmt: skip
def test_what_has_no_meaning_is_refused(call):
    with pytest.raises(OptionError):
        call()
