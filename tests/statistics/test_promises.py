"""Simulated evaluations: intervals cover as often as they promise, and tests reject a true null as seldom as they do."""

import numpy as np
import pytest
from helpers.descriptions import column
from helpers.effort import examples

from spark_rankeval.statistics.bootstrap import (
    BootstrapAccumulator,
    bca_interval,
    bootstrap_means_of,
    percentile_interval,
)
from spark_rankeval.statistics.intervals import mean_interval, t_interval
from spark_rankeval.statistics.moments import MomentsAccumulator, moments_of
from spark_rankeval.statistics.paired import PairedAccumulator, comparison_of
from spark_rankeval.statistics.sums import MeanAccumulator, mean_of

EVALUATIONS = examples(by_day=400, at_night=2000)
USERS = 250
# Reciprocal ranks of a first hit that is equally often at each of ten places, or missing.
RECIPROCAL_RANKS = np.append(1 / np.arange(1, 10), 0.0)


@pytest.fixture(scope="module")
def intervals():
    rng = np.random.default_rng(131)
    values = rng.choice(RECIPROCAL_RANKS, (EVALUATIONS, USERS))
    plain, moments = MeanAccumulator(EVALUATIONS), MomentsAccumulator(EVALUATIONS)
    for index, evaluation in enumerate(values):
        plain.add(index, evaluation)
        moments.add(index, evaluation)
    found = {"t": [], "percentile": [], "bca": []}
    plain_state, moments_state = plain.state(), moments.state()
    # Each of some groups of evaluations has users of its own: no bootstrap sample serves all of them.
    for number, group in enumerate(np.array_split(np.arange(EVALUATIONS), EVALUATIONS // 20)):
        samples = BootstrapAccumulator(len(group), replicates=1000, seed=number)
        samples.add(np.arange(USERS), values[group])
        state = samples.state()
        for place, index in enumerate(group):
            mean, drawn = mean_of(column(plain_state, index)), bootstrap_means_of(column(state, place))
            found["t"].append(mean_interval(moments_of(column(moments_state, index))))
            found["percentile"].append(percentile_interval(drawn, mean))
            found["bca"].append(bca_interval(drawn, mean))
    return found


@pytest.mark.parametrize("method", ["t", "percentile", "bca"])
def test_95_percent_intervals_cover_the_true_mean(intervals, method):
    truth = RECIPROCAL_RANKS.mean()
    covered = np.mean([interval.low <= truth <= interval.high for interval in intervals[method]])
    assert 0.93 <= covered <= 0.97


@pytest.fixture(scope="module")
def comparisons():
    rng = np.random.default_rng(132)
    values = rng.choice(RECIPROCAL_RANKS, (2, EVALUATIONS, USERS))
    found = []
    for number, group in enumerate(np.array_split(np.arange(EVALUATIONS), EVALUATIONS // 20)):
        pairs = PairedAccumulator(len(group), replicates=999, seed=number)
        pairs.add(np.arange(USERS), values[0, group], values[1, group])
        state = pairs.state()
        found += [comparison_of(column(state, place)) for place in range(len(group))]
    return found


@pytest.mark.parametrize("test", ["p_t", "p_sign_flip"])
def test_5_percent_of_the_tests_reject_where_there_is_no_difference(comparisons, test):
    rejected = np.mean([getattr(comparison, test) <= 0.05 for comparison in comparisons])
    assert 0.035 <= rejected <= 0.065


def test_95_percent_intervals_of_a_difference_cover_it(comparisons):
    covered = np.mean([comparison.interval.low <= 0 <= comparison.interval.high for comparison in comparisons])
    assert 0.93 <= covered <= 0.97


@pytest.mark.parametrize("method", ["t", "bca"])
def test_95_percent_intervals_of_weighted_means_cover_the_true_mean(method):
    rng = np.random.default_rng(133)
    evaluations = EVALUATIONS if method == "t" else EVALUATIONS // 2
    values = rng.choice(RECIPROCAL_RANKS, (evaluations, USERS))
    # Uneven weights that go with the values: the weighted mean is another one than the plain.
    weights = rng.exponential(size=(evaluations, USERS)) * (1 + values)
    truth = ((1 + RECIPROCAL_RANKS) * RECIPROCAL_RANKS).mean() / (1 + RECIPROCAL_RANKS).mean()
    covered = []
    for number in range(evaluations):
        sums = MeanAccumulator(1, weighted=True)
        sums.add(0, values[number], weights[number])
        mean = mean_of(column(sums.state(), 0))
        if method == "t":
            interval = t_interval(mean.mean, mean.standard_error, mean.n)
        else:
            samples = BootstrapAccumulator(1, replicates=1000, seed=number)
            samples.add(np.arange(USERS), values[number : number + 1], weights[number])
            interval = bca_interval(bootstrap_means_of(column(samples.state(), 0)), mean)
        covered.append(interval.low <= truth <= interval.high)
    assert 0.93 <= np.mean(covered) <= 0.97
