"""The bundle of accumulators: what is asked for is there, however the users come in."""

import math
from dataclasses import replace

import numpy as np
import pytest
from helpers.descriptions import descriptions_of, merged_descriptions

from spark_rankeval.statistics.bootstrap import BootstrapAccumulator, bca_interval, bootstrap_means_of
from spark_rankeval.statistics.description import (
    MOMENTS_ALONE,
    DescriptionAccumulator,
    DescriptionOptions,
    descriptions_of_groups,
)
from spark_rankeval.statistics.intervals import BCa, mean_interval
from spark_rankeval.statistics.sums import MeanAccumulator, mean_of

RNG = np.random.default_rng(8)
USERS = RNG.integers(-(2**62), 2**62, 500)
VALUES = [RNG.random(500), np.where(RNG.random(500) < 0.3, np.nan, RNG.integers(0, 6, 500) / 5), np.full(500, np.nan)]


def state(options, users=slice(None)):
    accumulator = DescriptionAccumulator(len(VALUES), options)
    accumulator.add([values[users] for values in VALUES], USERS[users])
    return accumulator.state()


def one(part, index=0):
    return {name: values[index] for name, values in part.items()}


@pytest.mark.parametrize("ci", ["t", "percentile", "bca", None])
@pytest.mark.parametrize("quantiles", [(), (0.5, 0.9)])
def test_no_split_or_order_changes_a_bit(ci, quantiles):
    options = DescriptionOptions(ci, 0.9, 60, 5, quantiles)
    whole = descriptions_of(state(options), options)
    order = RNG.permutation(500)
    parts = [state(options, part) for part in np.split(order, [0, 3, 200, 201])]
    for pieces in (parts, parts[::-1]):
        assert repr(descriptions_of(merged_descriptions(pieces), options)) == repr(whole)


def test_the_figures_are_those_of_the_parts():
    options = DescriptionOptions("bca", 0.8, 300, 7, (0.25,))
    described = descriptions_of(state(options), options)
    bootstrap, means = BootstrapAccumulator(3, replicates=300, seed=7), MeanAccumulator(3)
    bootstrap.add(USERS, np.stack(VALUES))
    for index, values in enumerate(VALUES):
        means.add(index, values)
        expected = bca_interval(
            bootstrap_means_of(one(bootstrap.state(), index)), mean_of(one(means.state(), index)), 0.8
        )
        assert repr(described[index].interval) == repr(expected)
    assert described[1].median == np.nanmedian(VALUES[1])
    assert described[1].quantiles == {0.25: np.nanquantile(VALUES[1], 0.25)}
    assert described[2].interval.reason == "no user"
    assert math.isnan(described[2].median)


def test_t_intervals_are_of_the_moments():
    options = DescriptionOptions(level=0.5)
    described = descriptions_of(state(options), options)
    assert described[0].interval == mean_interval(described[0].moments, 0.5)


def test_what_nobody_asked_for_is_not_there():
    assert set(state(MOMENTS_ALONE)) == {"moments"}
    assert set(state(DescriptionOptions())) == {"moments", "quantiles"}
    plain = descriptions_of(state(MOMENTS_ALONE), MOMENTS_ALONE)[0]
    assert (plain.interval, plain.quantiles) == (None, {})
    assert math.isnan(plain.median)


def test_options_are_plain_values_whatever_they_came_as():
    given = DescriptionOptions.read(BCa(np.float64(0.9), np.int64(10), np.int32(3)), np.array([0, 0.5, 0.5]))
    assert repr(given) == repr(DescriptionOptions("bca", 0.9, 10, 3, (0.0, 0.5)))
    assert given.resamples
    assert not DescriptionOptions().resamples


@pytest.mark.parametrize("ci", ["t", "percentile", "bca"])
def test_weighted_figures_are_those_of_the_users_that_count(ci):
    weights = np.where(RNG.random(500) < 0.1, 0.0, RNG.exponential(size=500))
    weights[:3] = (-1, np.nan, np.inf)
    options = DescriptionOptions(ci, 0.95, 200, 3, (0.5,), weighted=True)

    def of(order, pieces=1):
        parts = []
        for part in np.array_split(order, pieces):
            accumulator = DescriptionAccumulator(len(VALUES), options)
            accumulator.add([values[part] for values in VALUES], USERS[part], weights[part])
            parts.append(accumulator.state())
        return descriptions_of(merged_descriptions(parts), options)

    whole = of(np.arange(500))
    used = (weights > 0) & np.isfinite(weights)
    for values, figures in zip(VALUES, whole, strict=True):
        defined = used & ~np.isnan(values)
        assert (figures.moments.n, figures.weighted.n) == (defined.sum(),) * 2
        assert figures.weighted.n_invalid_weights == 3
        assert figures.weighted.n_without_weight == (weights == 0).sum()
        if defined.any():
            mean = np.average(values[defined], weights=weights[defined])
            assert figures.weighted.mean == pytest.approx(mean, rel=1e-12)
            assert figures.interval.low < mean < figures.interval.high
            assert figures.median == pytest.approx(np.median(values[defined]), rel=1 / 256)
    assert repr(of(RNG.permutation(500), 7)) == repr(whole)


@pytest.mark.parametrize("method", ["t", "bca"])
def test_plain_columns_have_moments_and_a_mean_and_cost_no_replicates(method):
    """What stands beside a figure for a note is not resampled, and takes no sketch."""
    options = DescriptionOptions(method, replicates=50, weighted=True)
    values = [np.array([0.25, 0.5, np.nan, 1.0]), np.array([0.5, 0.0, np.nan, 0.25])]
    users, weights = np.arange(4), np.array([1.0, 2.0, 1.0, 0.5])
    alone, beside = DescriptionAccumulator(1, options), DescriptionAccumulator(2, replace(options, n_plain=1))
    alone.add(values[:1], users, weights)
    beside.add(values, users, weights)
    # Both are merged with another part, as states of partitions are.
    states = [merged_descriptions([one.state(), one.state()]) for one in (alone, beside)]
    assert {part: len(next(iter(fields.values()))[0]) for part, fields in states[1].items() if part == "bootstrap"} == (
        {"bootstrap": 1} if method == "bca" else {}
    )
    described, plain = descriptions_of(states[1], replace(options, n_plain=1))
    assert repr(described) == repr(descriptions_of(states[0], options)[0])
    assert plain.mean == pytest.approx((0.5 * 1 + 0.25 * 0.5) / 3.5)
    assert plain.interval is None
    assert np.isnan(plain.median)


@pytest.mark.parametrize("n_plain", [0, 1])
@pytest.mark.parametrize("weighting", [{}, {"weighted": True}, {"normalised": (1,)}], ids=str)
@pytest.mark.parametrize("quantiles", [(), (0.25,)])
@pytest.mark.parametrize("ci", ["t", "bca", None])
def test_groups_are_described_together_as_each_alone(ci, quantiles, weighting, n_plain):
    options = DescriptionOptions(ci, replicates=20, quantiles=quantiles, n_plain=n_plain, **weighting)
    # The second group has values of unusual sizes, which are still below 2²⁵⁵, and the third no user.
    random = np.random.default_rng(n_plain)
    group = random.permutation(np.repeat([0, 1], 40))
    sizes = np.where(group == 1, random.choice([1e-9, 1.0, 1e60, 1e30], 80), 1.0)
    values, weights = [column[:80] * sizes for column in VALUES], 1 + random.random(80) if options.weighted else None
    normalisers = {place: 1 + random.random(80) for place in options.normalised}

    def added(accumulator, users, group=None):
        of_users = None if weights is None else weights[users]
        own = {place: column[users] for place, column in normalisers.items()}
        accumulator.add([column[users] for column in values], USERS[:80][users], of_users, own, group)

    together = DescriptionAccumulator(len(VALUES), options, 3)
    for users in np.array_split(np.arange(80), 3):
        added(together, users, group[users])
    alone = [DescriptionAccumulator(len(VALUES), options) for _ in range(3)]
    for number, accumulator in enumerate(alone):
        added(accumulator, np.flatnonzero(group == number))
    expected = [descriptions_of(accumulator.state(), options) for accumulator in alone]
    assert repr(descriptions_of_groups(together.state(), options)) == repr(expected)
