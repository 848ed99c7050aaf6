import math

import pytest
from effort import part_of
from scipy import optimize
from statsmodels.stats.power import TTestPower

from spark_rankeval.errors import OptionError
from spark_rankeval.statistics.power import detectable_difference, power_of

USERS = [10, 40, 1000, 200_000]


@pytest.mark.parametrize("n", USERS)
@pytest.mark.parametrize("shift", [0.1, 1.0, 3.0, 5.0])
def test_power_is_statsmodels(n, shift):
    effect = shift / math.sqrt(n)
    assert power_of(effect * 3, 3.0, n) == pytest.approx(TTestPower().power(effect, n, 0.05), rel=1e-7)


def test_power_comes_to_one():
    assert power_of(0.05, 1.0, 200_000) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("n", USERS)
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("power", [0.5, 0.8, 0.95])
def test_the_detectable_difference_is_statsmodels(n, level, power):
    found = detectable_difference(0.25, n, level, power)
    assert power_of(found, 0.25, n, level) == pytest.approx(power, rel=1e-10)
    assert TTestPower().power(found / 0.25, n, 1 - level) == pytest.approx(power, rel=1e-7)


@pytest.mark.parametrize("n", [20, 1000, 50_000])
def test_statsmodels_solves_for_the_same_difference(n):
    found = detectable_difference(1.0, n)
    # Its own search for the effect ends 1e-5 from it at the latest; its power has the root to the last digits.
    assert found == pytest.approx(TTestPower().solve_power(nobs=n, alpha=0.05, power=0.8), abs=1e-5)
    root = optimize.brentq(lambda effect: TTestPower().power(effect, n, 0.05) - 0.8, found / 2, found * 2, xtol=1e-15)
    assert found == pytest.approx(root, rel=1e-9)


def test_with_many_users_it_is_that_of_the_normal_distribution():
    assert detectable_difference(1.0, 10**8) * 10**4 == pytest.approx(1.959963985 + 0.841621234, rel=2e-6)


@pytest.mark.parametrize("n", part_of([2, 3, 5], 2))
def test_few_users_show_only_what_has_the_power_asked_for(n):
    assert power_of(detectable_difference(1.0, n, 0.99, 0.95), 1.0, n, 0.99) == pytest.approx(0.95, rel=1e-9)


def test_four_times_the_users_show_half_the_difference():
    assert detectable_difference(1.0, 400_000) == pytest.approx(detectable_difference(1.0, 100_000) / 2, rel=1e-4)


def test_without_spread_any_difference_shows():
    assert detectable_difference(0.0, 10) == 0
    assert (power_of(0.1, 0.0, 10), power_of(0.0, 0.0, 10)) == (1.0, pytest.approx(0.05))


def test_fewer_than_two_users_show_nothing():
    assert math.isnan(detectable_difference(1.0, 1))
    assert math.isnan(detectable_difference(math.nan, 9))


@pytest.mark.parametrize("call", [
    lambda: detectable_difference(1.0, 10, 0.95, 0.05), lambda: detectable_difference(1.0, 10, 0.95, 1.0),
    lambda: detectable_difference(-1.0, 10), lambda: power_of(1.0, 1.0, 1), lambda: power_of(1.0, math.nan, 9),
])  # fmt: skip
def test_what_has_no_meaning_is_refused(call):
    with pytest.raises(OptionError):
        call()
