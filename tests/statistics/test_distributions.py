import itertools
import math

import numpy as np
import pytest
from helpers.effort import part_of
from scipy import stats

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

DEGREES = [1, 2.5, 5, 30, 1e3, 1e6, 1e9]
TAILS = [1e-100, 1e-30, 1e-12, 1e-4, 0.025, 0.2, 0.49]


def exactly(value):
    return pytest.approx(value, rel=1e-11, abs=0)


@pytest.mark.parametrize("x", [-40.0, -8.0, -1.96, -1e-9, 0.0, 0.3, 2.5, 7.0, 37.0])
def test_the_normal_distribution_is_scipys(x):
    assert normal_cdf(-x) == exactly(stats.norm.sf(x))
    assert normal_cdf(x) == exactly(stats.norm.cdf(x))


@pytest.mark.parametrize("p", [1e-300, 1e-12, 0.025, 0.5, 0.9, 1 - 1e-12])
def test_normal_quantiles_are_scipys(p):
    assert normal_quantile(p) == pytest.approx(stats.norm.ppf(p), rel=1e-11, abs=1e-15)


def test_the_ends_of_the_normal_distribution():
    assert (normal_quantile(0.0), normal_quantile(1.0)) == (-math.inf, math.inf)


@pytest.mark.parametrize(("p", "df"), part_of(itertools.product(TAILS, DEGREES), 5))
def test_student_t_is_scipys(p, df):
    t = float(stats.t.isf(p, df))
    assert t_sf(t, df) == exactly(float(stats.t.sf(t, df)))
    assert t_sf(-t, df) == exactly(float(stats.t.cdf(t, df)))


@pytest.mark.parametrize(("level", "df"), part_of(itertools.product([0.5, 0.9, 0.95, 0.99, 0.999999], DEGREES), 3))
def test_what_two_sided_intervals_reach_to_is_scipys(level, df):
    assert t_critical(level, df) == exactly(float(stats.t.isf((1 - level) / 2, df)))


def test_the_middle_of_student_t():
    assert (t_sf(0.0, 7), t_sf(math.inf, 7)) == (0.5, 0.0)
    assert math.isnan(t_sf(math.nan, 7))


@pytest.mark.parametrize("t", [0.3, 1.96, 8.0])
def test_infinitely_many_degrees_are_the_normal_distribution(t):
    assert t_sf(t, math.inf) == exactly(stats.norm.sf(t))


@pytest.mark.parametrize(
    ("t", "df", "noncentrality"),
    part_of(itertools.product([-2.0, 0.5, 1.97, 4.0], [2, 10, 100, 1e5], [0.0, 0.5, 2.8, 5.0]), 5),
)
def test_noncentral_t_is_scipys(t, df, noncentrality):
    expected = float(stats.nct.sf(t, df, noncentrality)) if noncentrality else float(stats.t.sf(t, df))
    assert noncentral_t_sf(t, df, noncentrality) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("p", "df"), part_of(itertools.product([1e-20, 1e-12, 1e-6, 0.05, 0.5, 0.95], DEGREES), 5))
def test_the_range_of_two_means_is_student_t_far_into_the_tail(p, df):
    t = float(stats.t.isf(p / 2, df))
    assert studentized_range_sf(t * math.sqrt(2), 2, df) == exactly(p)


@pytest.mark.parametrize(("groups", "df"), part_of(itertools.product([3, 20], [4, 120, 5000]), 2))
def test_the_studentized_range_is_scipys(groups, df):
    for q in (0.5, 3.0, 6.0):
        assert studentized_range_sf(q, groups, df) == pytest.approx(
            float(stats.studentized_range.sf(q, groups, df)), abs=1e-10, rel=0
        )


@pytest.mark.parametrize(
    ("q", "groups", "df", "expected"),
    # mpmath, 25 digits: the double integral over the smallest of the normals and the scale.
    [(4, 60, 10, 0.75263326156591897), (9, 4, 20, 1.8292628278217826e-5), (3.5, 3, 12, 0.069995485275186426)],
)
def test_the_studentized_range_is_that_of_25_digits(q, groups, df, expected):
    assert studentized_range_sf(q, groups, df) == exactly(expected)


# From 1e5 degrees on scipy takes infinitely many.
@pytest.mark.parametrize(("groups", "df"), part_of(itertools.product([2, 3, 8], [5, 60, 5e4]), 4))
def test_critical_values_of_the_range_cut_off_their_tail(groups, df):
    q = studentized_range_critical(0.95, groups, df)
    assert studentized_range_sf(q, groups, df) == exactly(0.05)
    assert q == pytest.approx(float(stats.studentized_range.ppf(0.95, groups, df)), rel=1e-8)


def test_no_range_is_smaller_than_nothing():
    assert studentized_range_sf(0.0, 3, 10) == 1.0
    assert studentized_range_sf(1e-3, 200, 10) == pytest.approx(1.0, abs=1e-14)


def test_tails_fall_all_the_way():
    for df in (3, 1e7):
        tails = [t_sf(t, df) for t in np.linspace(0, 30, 100)]
        assert np.all(np.diff(tails) < 0)


@pytest.mark.parametrize(
    ("q", "df", "groups"),
    part_of(itertools.product([0.3, 1.7, 4.5, 12.1, 60.0], [1, 9, 81, 9_000, 900_000, math.inf], [2, 5, 10]), 7),
)
def test_terms_that_are_left_out_change_no_bit(q, groups, df, monkeypatch):
    p = studentized_range_sf(q, groups, df)
    monkeypatch.setattr(distributions, "_NEGLIGIBLE", 0.0)
    # Unknown bounds leave only exact terms.
    monkeypatch.setattr(distributions, "_range_sf_bounds", lambda r, *_: np.array([[0.0], [1.0]]) + 0 * r)
    assert studentized_range_sf(q, groups, df) == p


@pytest.mark.night
@pytest.mark.parametrize("groups", part_of([10, 2], 2))
@pytest.mark.parametrize("df", [1, 81, 9_000])
def test_bounds_of_the_range_hold_what_they_bound(groups, df):
    scales, weights = distributions._scale(df)
    for q in (0.01, 1.7, 4.5, 30.0):
        exact = distributions._range_sf(q * scales, groups)
        least, most = distributions._range_sf_bounds(q * scales, groups, weights)
        assert (least <= exact).all()
        assert (exact <= most).all()
        heavy = weights > weights.max() / 2
        np.testing.assert_allclose(least[heavy], most[heavy], rtol=1e-12, atol=1e-200)


@pytest.mark.parametrize("call", [
    lambda: t_sf(1.0, 0.5), lambda: t_critical(1.0, 5), lambda: normal_quantile(1.5),
    lambda: studentized_range_sf(1.0, 1, 5), lambda: studentized_range_critical(0.0, 3, 5),
])  # fmt: skip
def test_what_has_no_meaning_is_refused(call):
    with pytest.raises(OptionError):
        call()
