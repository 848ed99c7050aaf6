"""Sequences over nights: a naive version, when they begin, and the simulations of docs/evidence/nights.md, cut short."""

import math
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.documented import ROOT
from helpers.effort import examples
from scipy import stats

from spark_rankeval.statistics.confidence_sequences import LEAST_NIGHTS, Nights, spans_of

simulated = SimpleNamespace(**run_path(str(ROOT / "tools" / "simulate_nights.py")))


def at_most(share, runs):
    """What a share of so many runs exceeds once in a thousand times."""
    return stats.binom.ppf(0.999, runs, share) / runs


def naive_span(n, means, errors, first, alpha, kept):
    """The means before and since the night with index `first`, and how far a sequence reaches."""
    n_before, n_since = sum(n[:first]), sum(n[first:])
    before = sum(a * b for a, b in zip(n[:first], means[:first], strict=True)) / n_before
    since = sum(a * b for a, b in zip(n[first:], means[first:], strict=True)) / n_since
    stated = sum((a * b) ** 2 for a, b in zip(n[:first], errors[:first], strict=True)) / n_before
    differing = sum(a * (b - before) ** 2 for a, b in zip(n[:first], means[:first], strict=True)) / (first - 1)
    variance = max(stated, differing)
    error_now = math.sqrt(variance * (kept**2 / n_before + 1 / n_since))
    error_first = math.sqrt(variance * (kept**2 / n_before + 1 / n[first]))
    looks = (error_first / error_now) ** 2
    share = alpha * LEAST_NIGHTS / (first * (first + 1))
    rho = (-2 * math.log(share) + math.log(1 - 2 * math.log(share))) / 10
    spent = looks * rho
    return before, since, error_now * math.sqrt(2 * (spent + 1) / spent * math.log(math.sqrt(spent + 1) / share))


@pytest.mark.parametrize("kept", [1.0, 0.98, 1.3])
def test_spans_are_those_of_a_naive_version(kept):
    rng = np.random.default_rng(55)
    n = rng.integers(500, 3000, 40).astype(float)
    # At first nights differ as standard errors say, later more.
    means = 0.3 + rng.normal(size=40) * np.where(np.arange(40) < 20, 0.005, 0.05)
    errors = rng.uniform(0.008, 0.012, 40)
    spans = spans_of(Nights(n, means, errors, np.zeros(40), np.ones(40)), 0.95, kept)
    assert len(spans.reach) == 40 - LEAST_NIGHTS
    for place, figures in enumerate(zip(*spans, strict=True)):
        assert figures == pytest.approx(naive_span(n, means, errors, LEAST_NIGHTS + place, 0.05, kept), rel=1e-9)


def test_the_shares_of_all_nights_are_the_whole_error():
    shares = [LEAST_NIGHTS / (first * (first + 1)) for first in range(LEAST_NIGHTS, 100_000)]
    assert sum(shares) == pytest.approx(1, abs=LEAST_NIGHTS / 99_000)


def began(n_users, n_nights=16, mean=0.5, error=None, least=0.0, greatest=1.0):
    ones = np.ones(n_nights)
    error = math.sqrt(mean * (1 - mean) / n_users) if error is None else error
    spans = spans_of(Nights(n_users * ones, mean * ones, error * ones, least * ones, greatest * ones), 0.95)
    return np.isfinite(spans.reach).tolist()


def test_a_sequence_begins_with_enough_nights_and_users():
    assert began(1000, LEAST_NIGHTS) == []
    assert began(1000) == [True, True]
    # The nights since the one before the last have 120 users, the last has 60.
    assert began(60) == [True, False]
    # A rate of 1% needs 505 users: only the last two nights together have them.
    assert began(300, mean=0.01) == [True, False]
    assert began(1000, error=0.0, greatest=0.0) == [False, False]


@pytest.mark.parametrize("values", ["hit rate 0.3", "hit rate 0.03", "hit rate 0.003", "gains", "spiked"])
def test_systems_that_do_not_change_seldom_fail(values):
    runs, rng = examples(40, 2000), np.random.default_rng(56)
    nights = simulated.drawn(rng, *simulated.VALUES[values], 100, runs, examples(90, 365))
    for sign in (1, -1):
        assert simulated.share(simulated.failing(nights, sign=sign)) <= at_most(0.05, runs)


def test_a_plain_gate_fails_most_systems_that_do_not_change():
    nights = simulated.nights_in_errors(simulated.independent(np.random.default_rng(57), 40))
    assert simulated.share(simulated.failing_plainly(nights, 4)) > 0.3


@pytest.mark.parametrize("nights", ["the same users", "two nights of each week"])
def test_nights_may_share_users_and_weekdays_may_differ(nights):
    (means,) = [each for name, each in simulated.DEPENDENT.items() if name.startswith(nights)]
    runs = examples(40, 2000)
    drawn = means(np.random.default_rng(58), runs)[:, : examples(90, 365)]
    assert simulated.share(simulated.failing(simulated.nights_in_errors(drawn))) <= at_most(0.05, runs)


def test_a_drop_is_seen_within_some_nights():
    means = simulated.independent(np.random.default_rng(59), 40)[:, :50]
    means[:, 30:] -= 3
    first = simulated.failing(simulated.nights_in_errors(means))
    assert (first > 0).all()
    assert 31 <= np.median(first) <= 35
