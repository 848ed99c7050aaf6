"""Which queries people grade: strata, the size of draws, and estimates from them."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_rankeval.errors import OptionError
from spark_rankeval.statistics.judged_moments import JudgedMoments
from spark_rankeval.statistics.prediction_powered import judged_estimate
from spark_rankeval.statistics.query_draws import Bin, drawn_strata, strata_of

STEPS = st.integers(-1, 1000)
BINS = st.dictionaries(STEPS, st.tuples(st.integers(1, 50), st.integers(1, 9)), min_size=1, max_size=20).map(
    lambda bins: [Bin(step, n, n * size) for step, (n, size) in bins.items()]
)


# Less than a query of the first stratum fits into what is its own.
@example([Bin(46, 1, 3), Bin(400, 2, 2)], 3, 4)
@given(BINS, st.integers(1, 6), st.integers(1, 3000))
def test_each_query_may_be_drawn_within_the_budget(bins, n_strata, budget):
    whole = strata_of(bins, n_strata)
    assert len(whole) <= n_strata
    assert sum(stratum.n_queries for stratum in whole) == sum(each.n_queries for each in bins)
    if sum(stratum.pairs_per_query for stratum in whole) > budget:
        with pytest.raises(OptionError, match="lower n_strata"):
            drawn_strata(bins, budget, n_strata)
        return
    strata = drawn_strata(bins, budget, n_strata)
    assert all(0 < stratum.probability <= 1 for stratum in strata)
    n_pairs = sum(stratum.n_drawn * stratum.pairs_per_query for stratum in strata)
    # A stratum that would get less than a query gets one.
    assert n_pairs <= budget + sum(stratum.pairs_per_query for stratum in strata)
    if budget >= sum(stratum.n_pairs for stratum in strata):
        assert all(stratum.probability == 1 for stratum in strata)


def test_more_is_drawn_where_models_differ_more():
    strata = drawn_strata([Bin(-1, 5, 50), Bin(0, 45, 450), Bin(100, 25, 250), Bin(600, 25, 250)], 200, 3)
    assert [(stratum.n_queries, stratum.steps) for stratum in strata] == [(50, 0), (25, 100), (25, 600)]
    probabilities = [stratum.probability for stratum in strata]
    assert probabilities == sorted(set(probabilities))
    # An equal draw takes a fifth.
    assert probabilities[0] >= 0.1
    assert sum(stratum.n_drawn for stratum in strata) == 20


def test_a_stratum_that_is_drawn_whole_leaves_the_rest_to_the_others():
    strata = drawn_strata([Bin(0, 90, 90), Bin(900, 10, 10)], 60, 2)
    assert [stratum.n_drawn for stratum in strata] == [50, 10]


def test_the_weighted_estimate_is_right_on_average_and_the_plain_one_is_not():
    generator = np.random.default_rng(3)
    n = 300
    spread = np.where(generator.random(n) < 0.6, 0.0, generator.random(n))
    # People see a larger difference than the model does.
    human = spread + 0.4 * spread * generator.random(n) - 0.1 * generator.random(n)
    steps = np.floor(spread * 1000).astype(int)
    bins = [
        Bin(step, count, count * 5)
        for step, count in zip(*map(np.ndarray.tolist, np.unique(steps, return_counts=True)), strict=True)
    ]
    strata = drawn_strata(bins, 300, 4)
    stratum = np.searchsorted([each.steps for each in strata], steps)
    probability = np.array([each.probability for each in strata])[stratum]
    estimates, plain = [], []
    for _ in range(200):
        drawn = np.zeros(n, bool)
        for index, each in enumerate(strata):
            drawn[generator.choice(np.flatnonzero(stratum == index), each.n_drawn, replace=False)] = True
        estimates.append(np.average(human[drawn], weights=1 / probability[drawn]))
        plain.append(human[drawn].mean())
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - human.mean()) < 4 * error
    assert np.mean(plain) - human.mean() > 20 * error
    moments = JudgedMoments.from_values(human, spread, drawn, 1 / probability)
    assert judged_estimate(moments, lambda_=0.0).value == pytest.approx(estimates[-1])


def test_the_estimate_is_right_on_average_after_a_second_draw():
    generator = np.random.default_rng(5)
    n, before = 400, 0.1
    steps = np.where(generator.random(n) < 0.5, 0, generator.integers(1, 1000, n))
    human = steps / 1000 + 0.1 * generator.random(n)
    estimates, plain = [], []
    for _ in range(400):
        graded = generator.random(n) < before
        counted = zip(*map(np.ndarray.tolist, np.unique(steps[~graded], return_counts=True)), strict=True)
        strata = drawn_strata([Bin(step, count, count * 5) for step, count in counted], 200, 3)
        # The largest difference may be that of a graded query.
        stratum = np.minimum(np.searchsorted([each.steps for each in strata], steps), len(strata) - 1)
        now = np.array([each.probability for each in strata])[stratum]
        drawn = graded.copy()
        for index, each in enumerate(strata):
            drawn[generator.choice(np.flatnonzero(~graded & (stratum == index)), each.n_drawn, replace=False)] = True
        estimates.append(np.average(human[drawn], weights=1 / (before + (1 - before) * now)[drawn]))
        plain.append(human[drawn].mean())
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - human.mean()) < 4 * error
    assert np.mean(plain) - human.mean() > 20 * error
