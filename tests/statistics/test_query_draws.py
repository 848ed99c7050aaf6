"""Which queries people grade: strata, and the size of draws."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spark_rankeval.errors import OptionError
from spark_rankeval.statistics.query_draws import Bin, drawn_strata, strata_of

BINS = st.dictionaries(st.integers(-1, 1000), st.tuples(st.integers(1, 50), st.integers(1, 9)), min_size=1, max_size=20)


# Less than a query of the first stratum fits into what is its own.
@example({46: (1, 3), 400: (2, 1)}, 3, 4)
@settings(max_examples=60, derandomize=True)
@given(BINS, st.integers(1, 6), st.integers(1, 3000))
def test_each_query_may_be_drawn_within_the_budget(bins, n_strata, budget):
    bins = [Bin(step, n, n * size) for step, (n, size) in bins.items()]
    whole = strata_of(bins, n_strata)
    assert len(whole) <= n_strata
    assert sum(stratum.n_queries for stratum in whole) == sum(each.n_queries for each in bins)
    if sum(stratum.pairs_per_query for stratum in whole) > budget:
        with pytest.raises(OptionError, match="lower n_strata"):
            drawn_strata(bins, budget, n_strata)
        return
    strata = drawn_strata(bins, budget, n_strata)
    # One over the probability is the weight that makes the mean of drawn queries right on average.
    assert all(0 < stratum.probability == stratum.n_drawn / stratum.n_queries <= 1 for stratum in strata)
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


def test_each_query_is_in_the_stratum_of_the_largest_step_up_to_its_own():
    steps = np.random.default_rng(3).integers(0, 1000, 300)
    numbers, counts = np.unique(steps, return_counts=True)
    strata = strata_of([Bin(step, n, 5 * n) for step, n in zip(numbers.tolist(), counts.tolist(), strict=True)], 4)
    places = np.searchsorted([stratum.steps for stratum in strata], steps)
    assert np.bincount(places).tolist() == [stratum.n_queries for stratum in strata]
