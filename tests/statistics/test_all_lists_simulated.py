"""The simulations of docs/evidence/all_lists.md, cut short: jackknives hold as often as they say."""

from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.documented import ROOT
from helpers.effort import examples, part_of
from scipy import stats

simulated = SimpleNamespace(**run_path(str(ROOT / "tools" / "simulate_all_lists.py")))


@pytest.mark.night
@pytest.mark.parametrize("market", part_of(simulated.MARKETS[:5], 3), ids=str)
def test_the_jackknife_holds_the_truth_and_the_bootstrap_does_not(market):
    runs = examples(25, 300)
    shares = simulated.coverage(np.random.default_rng(411), market, runs)
    percentile, basic, _, jackknife = shares.T
    # What a share of 0.93 falls below once in a thousand times.
    assert (jackknife >= stats.binom.ppf(0.001, runs, 0.92) / runs).all(), shares
    # Coverage, Gini and entropy of samples with repeated users are other values.
    assert (percentile[:3] < 0.8).all()
    assert (basic[:3] < 0.8).all()


def test_values_of_groups_hold_the_truth_wherever_they_have_an_interval():
    runs, rng = examples(40, 300), np.random.default_rng(412)
    found = simulated.groups_coverage(rng, simulated.world_of(rng, 100, fair=False), 50, runs)
    symmetric, given, _ = np.array([*found.values()]).T
    assert given.min() >= stats.binom.ppf(0.001, runs, 0.93) / runs, found
    # Ratios of groups with few labels.
    assert symmetric.min() < 0.85
