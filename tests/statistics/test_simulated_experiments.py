"""The simulations of docs/evidence/experiments.md, cut short: without an effect few verdicts are false, however often one looks."""

from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.documented import ROOT
from helpers.effort import examples, part_of
from scipy import stats

simulated = SimpleNamespace(**run_path(str(ROOT / "tools" / "simulate_experiments.py")))


def at_most(share, runs):
    """What a share of so many runs exceeds once in a thousand times."""
    return stats.binom.ppf(0.999, runs, share) / runs


@pytest.mark.parametrize("draw", part_of([simulated.continuous, simulated.hit_rates], 2))
def test_slices_of_one_mean_have_no_gap(draw):
    runs = examples(100, 1000)
    *shares, _ = simulated.false_gaps(np.random.default_rng(2), draw, 10, 5, runs)
    assert max(shares) <= at_most(0.05, runs)


def test_slices_of_skewed_values_have_no_gap():
    runs = examples(60, 1000)
    *shares, by_welch = simulated.false_gaps(np.random.default_rng(7), simulated.rare_ranks, 200, 10, runs)
    assert max(shares) <= at_most(0.05, runs)
    assert by_welch > 0.15


def test_the_interval_of_two_groups_holds_their_difference():
    runs = examples(50, 2000)
    rng = np.random.default_rng(3)
    for draw, n_users in ((simulated.continuous, 5), (simulated.hit_rates, 10), (simulated.reciprocal_ranks, 30)):
        assert 1 - simulated.held(rng, draw, n_users, 2 * n_users, runs) <= at_most(0.05, runs)


@pytest.mark.parametrize(
    ("values", "sizes", "by_welch"),
    part_of(
        [
            ("rare ranks", (100, 1000), 0.1),
            ("half of ranks, weights that go with them", (30, 300), 0.13),
            ("half of ranks, weights that go with them", (30, 30), 0.06),
            ("gains, weights apart", (30, 300), 0.04),
        ],
        2,
    ),
)
def test_groups_of_skewed_values_do_not_seem_to_differ(values, sizes, by_welch):
    runs = examples(150, 4000)
    alone, as_given, _ = simulated.verdicts(
        np.random.default_rng(10), simulated.SKEWED[values][0], sizes, runs, simulated.SKEWED[values][1]
    )
    assert as_given <= at_most(0.06, runs)
    assert alone > by_welch


def test_to_be_cautious_costs_little_power():
    more = 2.8 * (2 / 200) ** 0.5
    alone, as_given, width = simulated.verdicts(
        np.random.default_rng(11), simulated.normal, (200, 200), examples(200, 4000), more=more
    )
    assert alone - as_given < 0.03
    assert width < 1.04


@pytest.mark.night
@pytest.mark.parametrize("n_users", [5, 50])
def test_a_covariate_saves_variance_and_no_coverage(n_users):
    runs = examples(300, 2000)
    *_, held, saved = simulated.with_covariate(np.random.default_rng(4), (n_users, n_users), runs)
    assert 1 - held <= at_most(0.05, runs)
    assert (saved > 0.35) == (n_users == 50)


def test_a_skewed_covariate_makes_no_false_differences():
    runs = examples(100, 2000)
    _, by_welch, held, _ = simulated.with_covariate(np.random.default_rng(12), (100, 1000), runs, simulated.rare_before)
    assert 1 - held <= at_most(0.06, runs)
    assert by_welch < 0.92


def test_a_lift_knows_that_the_covariates_mean_is_an_estimate():
    runs = examples(150, 2000)
    fixed, estimated = simulated.lifts_held(np.random.default_rng(13), (200, 300), runs)
    assert 1 - estimated <= at_most(0.05, runs)
    assert fixed < 0.88


def test_a_confidence_sequence_may_be_looked_at_every_day():
    runs = examples(100, 1000)
    fixed, sequence, last = simulated.false_alarms(np.random.default_rng(5), simulated.continuous, 200, 0.5, runs)
    assert sequence <= at_most(0.05, runs)
    assert last <= at_most(0.05, runs)
    assert fixed > 0.2


def test_a_confidence_sequence_waits_until_means_are_close_to_normal():
    runs = examples(100, 1000)
    early, waiting = (
        simulated.false_alarms(np.random.default_rng(6), simulated.rare_ranks, 500, 0.1, runs, 20, waits=waits)[1]
        for waits in (False, True)
    )
    assert waiting <= at_most(0.05, runs)
    assert early > 2 * waiting
