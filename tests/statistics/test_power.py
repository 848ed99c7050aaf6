import math

import pytest
from helpers.effort import part_of
from scipy import optimize
from statsmodels.stats.power import TTestPower

from spark_rankeval.errors import OptionError
from spark_rankeval.statistics.distributions import noncentral_t_sf, t_critical
from spark_rankeval.statistics.intervals import detectable_difference

USERS = [10, 40, 1000, 200_000]


@pytest.mark.parametrize("n", USERS)
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("power", [0.5, 0.8, 0.95])
def test_the_detectable_difference_is_statsmodels(n, level, power):
    found = detectable_difference(0.25, n, level, power)
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
    # That of statsmodels is not known for so few.
    shift, critical = detectable_difference(1.0, n, 0.99, 0.95) * math.sqrt(n), t_critical(0.99, n - 1)
    power = noncentral_t_sf(critical, n - 1, shift) + noncentral_t_sf(critical, n - 1, -shift)
    assert power == pytest.approx(0.95, rel=1e-9)


def test_four_times_the_users_show_half_the_difference():
    assert detectable_difference(1.0, 400_000) == pytest.approx(detectable_difference(1.0, 100_000) / 2, rel=1e-4)


def test_without_spread_any_difference_shows():
    assert detectable_difference(0.0, 10) == 0


def test_fewer_than_two_users_show_nothing():
    assert math.isnan(detectable_difference(1.0, 1))
    assert math.isnan(detectable_difference(math.nan, 9))


@pytest.mark.parametrize("call", [
    lambda: detectable_difference(1.0, 10, 0.95, 0.05), lambda: detectable_difference(1.0, 10, 0.95, 1.0),
])  # fmt: skip
def test_what_has_no_meaning_is_refused(call):
    with pytest.raises(OptionError):
        call()
