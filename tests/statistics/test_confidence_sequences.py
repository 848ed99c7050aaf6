"""Sequences over nights: a naive version, and when they begin."""

import math

import numpy as np
import pytest

from spark_rankeval.statistics.confidence_sequences import LEAST_NIGHTS, Nights, spans_of


def naive_span(n, means, errors, first, alpha, kept):
    """The means before and since the night with index `first`, and how far a sequence reaches."""
    n_before, n_since = sum(n[:first]), sum(n[first:])
    before, since = (n[part] @ means[part] / n[part].sum() for part in (slice(first), slice(first, None)))
    stated = sum((n[:first] * errors[:first]) ** 2) / n_before
    differing = sum(n[:first] * (means[:first] - before) ** 2) / (first - 1)
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


@pytest.mark.parametrize(("n_users", "options", "begun"), [
    (1000, {"n_nights": LEAST_NIGHTS}, []),
    (1000, {}, [True, True]),
    # The nights since the one before the last have 120 users, the last has 60.
    (60, {}, [True, False]),
    # A rate of 1% needs 505 users: only the last two nights together have them.
    (300, {"mean": 0.01}, [True, False]),
    (1000, {"error": 0.0, "greatest": 0.0}, [False, False]),
])  # fmt: skip
def test_a_sequence_begins_with_enough_nights_and_users(n_users, options, begun):
    n_nights, mean, greatest = (
        options.get(name, usual) for name, usual in (("n_nights", 16), ("mean", 0.5), ("greatest", 1.0))
    )
    error = options.get("error", math.sqrt(mean * (1 - mean) / n_users))
    spans = spans_of(Nights(*(each * np.ones(n_nights) for each in (n_users, mean, error, 0.0, greatest))), 0.95)
    assert np.isfinite(spans.reach).tolist() == begun


def test_systems_are_compared_together_as_each_alone_and_a_drop_is_seen():
    means = np.random.default_rng(59).normal(size=(4, 40))
    means[1:, 30:] -= 3
    ones = np.ones((4, 40))
    sides = means, ones, -60 * ones, 60 * ones
    together = spans_of(Nights(np.full(40, 1000.0), *sides), 0.95)
    for system in range(4):
        alone = spans_of(Nights(np.full(40, 1000.0), *(each[system] for each in sides)), 0.95)
        assert np.array_equal([each[system] for each in together], alone)
    assert (together.since < together.before - together.reach).any(axis=1).tolist() == [False, True, True, True]
