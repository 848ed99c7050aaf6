"""The bundle of accumulators: what is asked for is there, however the users come in."""

import math
from dataclasses import replace

import numpy as np
import pytest
from helpers.descriptions import column, descriptions_of, merged_descriptions

from spark_rankeval.statistics.description import (
    MOMENTS_ALONE,
    BootstrapAccumulator,
    DescriptionAccumulator,
    DescriptionOptions,
    bootstrap_interval,
    bootstrap_means_of,
    descriptions_of_groups,
)
from spark_rankeval.statistics.exact import MeanAccumulator, mean_of
from spark_rankeval.statistics.intervals import BCa, mean_interval

RNG = np.random.default_rng(8)
USERS = RNG.integers(-(2**62), 2**62, 500)
VALUES = [RNG.random(500), np.where(RNG.random(500) < 0.3, np.nan, RNG.integers(0, 6, 500) / 5), np.full(500, np.nan)]
WEIGHTS = np.where(RNG.random(500) < 0.1, 0.0, RNG.exponential(size=500))
WEIGHTS[:3] = (-1, np.nan, np.inf)
EVERYBODY = np.arange(500)


def state(options, users=EVERYBODY):
    accumulator = DescriptionAccumulator(len(VALUES), options)
    weights = WEIGHTS[users] if options.weighted else None
    accumulator.add([values[users] for values in VALUES], USERS[users], weights)
    return accumulator.state()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ci", ["t", "percentile", "bca", None])
def test_no_split_or_order_changes_a_bit(ci, weighted):
    for quantiles in ((), (0.5, 0.9)):
        options = DescriptionOptions(ci, 0.9, 60, 5, quantiles, weighted=weighted)
        whole = repr(descriptions_of(state(options), options))
        parts = [state(options, part) for part in np.split(RNG.permutation(500), [0, 3, 200, 201])]
        for pieces in (parts, parts[::-1]):
            assert repr(descriptions_of(merged_descriptions(pieces), options)) == whole


def test_the_figures_are_those_of_the_parts():
    options = DescriptionOptions("bca", 0.8, 300, 7, (0.25,))
    described = descriptions_of(state(options), options)
    bootstrap, means = BootstrapAccumulator(3, replicates=300, seed=7), MeanAccumulator(3)
    bootstrap.add(USERS, np.stack(VALUES))
    for index, values in enumerate(VALUES):
        means.add(index, values)
        samples = bootstrap_means_of(column(bootstrap.state(), index))
        expected = bootstrap_interval(samples, mean_of(column(means.state(), index)), 0.8)
        assert repr(described[index].interval) == repr(expected)
    assert (described[1].median, described[1].quantiles) == (np.nanmedian(VALUES[1]), {0.25: np.nanquantile(VALUES[1], 0.25)})  # fmt: skip
    assert (described[2].interval.reason, math.isnan(described[2].median)) == ("no user", True)
    options = DescriptionOptions(level=0.5)
    by_t = descriptions_of(state(options), options)[0]
    assert by_t.interval == mean_interval(by_t.moments, 0.5)


def test_what_nobody_asked_for_is_not_there():
    assert set(state(MOMENTS_ALONE)) == {"moments"}
    assert set(state(DescriptionOptions())) == {"moments", "quantiles"}
    plain = descriptions_of(state(MOMENTS_ALONE), MOMENTS_ALONE)[0]
    assert (plain.interval, plain.quantiles, math.isnan(plain.median)) == (None, {}, True)


def test_options_are_plain_values_whatever_they_came_as():
    given = DescriptionOptions.read(BCa(np.float64(0.9), np.int64(10), np.int32(3)), np.array([0, 0.5, 0.5]))
    assert repr(given) == repr(DescriptionOptions("bca", 0.9, 10, 3, (0.0, 0.5)))
    assert (given.resamples, DescriptionOptions().resamples) == (True, False)


@pytest.mark.parametrize("ci", ["t", "percentile", "bca"])
def test_weighted_figures_are_those_of_the_users_that_count(ci):
    options, used = DescriptionOptions(ci, 0.95, 200, 3, (0.5,), weighted=True), (WEIGHTS > 0) & np.isfinite(WEIGHTS)
    for values, figures in zip(VALUES, descriptions_of(state(options), options), strict=True):
        defined, weighted = used & ~np.isnan(values), figures.weighted
        assert figures.moments.n == weighted.n == defined.sum()
        assert (weighted.n_invalid_weights, weighted.n_without_weight) == (3, (WEIGHTS == 0).sum())
        if defined.any():
            mean = np.average(values[defined], weights=WEIGHTS[defined])
            assert weighted.mean == pytest.approx(mean, rel=1e-12)
            assert figures.interval.low < mean < figures.interval.high
            assert figures.median == pytest.approx(np.median(values[defined]), rel=1 / 256)


@pytest.mark.parametrize("method", ["t", "bca"])
def test_plain_columns_have_moments_and_a_mean_and_cost_no_replicates(method):
    """What stands beside a figure for a note is not resampled, and takes no sketch."""
    options = DescriptionOptions(method, replicates=50, weighted=True)
    values, weights = [np.array([0.25, 0.5, np.nan, 1.0]), np.array([0.5, 0.0, np.nan, 0.25])], np.array([1, 2, 1, 0.5])
    alone, beside = DescriptionAccumulator(1, options), DescriptionAccumulator(2, replace(options, n_plain=1))
    alone.add(values[:1], np.arange(4), weights)
    beside.add(values, np.arange(4), weights)
    # Both are merged with another part, as states of partitions are.
    states = [merged_descriptions([one.state(), one.state()]) for one in (alone, beside)]
    assert method == "t" or {len(entries[0]) for entries in states[1]["bootstrap"].values()} == {1}
    described, plain = descriptions_of(states[1], replace(options, n_plain=1))
    assert repr(described) == repr(descriptions_of(states[0], options)[0])
    assert plain.mean == pytest.approx((0.5 * 1 + 0.25 * 0.5) / 3.5)
    assert (plain.interval, np.isnan(plain.median)) == (None, True)


@pytest.mark.parametrize("n_plain", [0, 1])
@pytest.mark.parametrize("weighting", [{}, {"weighted": True}, {"normalised": (1,)}], ids=str)
@pytest.mark.parametrize(
    ("ci", "quantiles"), [("t", ()), ("t", (0.25,)), ("bca", ()), ("bca", (0.25,)), (None, (0.25,))]
)
def test_groups_are_described_together_as_each_alone(ci, quantiles, weighting, n_plain):
    options = DescriptionOptions(ci, replicates=20, quantiles=quantiles, n_plain=n_plain, **weighting)
    # The second group has values of unusual sizes, which are still below 2²⁵⁵, and the third no user.
    random = np.random.default_rng(n_plain)
    group = random.permutation(np.repeat([0, 1], 40))
    sizes = np.where(group == 1, random.choice([1e-9, 1.0, 1e60, 1e30], 80), 1.0)
    values, weights = [column[:80] * sizes for column in VALUES], 1 + random.random(80) if options.weighted else None
    normalisers = {place: 1 + random.random(80) for place in options.normalised}

    def added(accumulator, users, group=None):
        own = {place: column[users] for place, column in normalisers.items()}
        of_users = None if weights is None else weights[users]
        accumulator.add([column[users] for column in values], USERS[:80][users], of_users, own, group)

    together = DescriptionAccumulator(len(VALUES), options, 3)
    for users in np.array_split(np.arange(80), 3):
        added(together, users, group[users])
    expected = []
    for number in range(3):
        alone = DescriptionAccumulator(len(VALUES), options)
        added(alone, np.flatnonzero(group == number))
        expected.append(descriptions_of(alone.state(), options))
    assert repr(descriptions_of_groups(together.state(), options)) == repr(expected)
