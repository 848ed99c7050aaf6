"""The abstention curve against MTEB's formula, and over all orders of users of the same confidence."""

import itertools
import math

import numpy as np
import pytest
from helpers.effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.abstention import RATES as MTEB_RATES
from oracles.abstention import curve, nauc

from spark_rankeval.statistics.abstention import RATES, EqualUsers, areas_of, curve_of

VALUES = st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 1.0])


def groups_of(confidence, values):
    """The users of each confidence, best first."""
    groups, n_above, total_above = [], 0, 0.0
    for one in sorted(set(confidence), reverse=True):
        equal = [value for other, value in zip(confidence, values, strict=True) if other == one]
        groups.append(EqualUsers(len(equal), math.fsum(equal), n_above, total_above))
        n_above, total_above = n_above + len(equal), total_above + math.fsum(equal)
    return groups


def test_the_rates_are_those_of_mteb_to_the_last_bit():
    assert list(MTEB_RATES) == list(RATES)


@settings(max_examples=examples(60, 2000))
@given(st.lists(VALUES, min_size=1, max_size=60), st.randoms(use_true_random=False))
def test_areas_are_those_of_mteb(values, random):
    confidence = random.sample(range(len(values)), len(values))
    points, oracle = (curve_of(groups_of(order, values), len(values)) for order in (confidence, values))
    np.testing.assert_allclose(points, curve(confidence, np.array(values)), rtol=1e-12, atol=1e-12)
    areas = areas_of(points, oracle)
    if len({*oracle}) == 1 or len({*values}) == 1:
        # There MTEB divides by 0, or by the rounding of its means.
        assert math.isnan(areas.normalised)
        return
    expected = nauc(confidence, np.array(values))
    np.testing.assert_allclose([areas.area, areas.normalised], expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("confidence", [[1, 1, 1], [2, 1, 1, 0], [3, 3, 1, 1]])
def test_users_of_the_same_confidence_stand_in_any_order(confidence):
    values = [0.0, 1.0, 0.25, 0.5][: len(confidence)]
    orders = list(itertools.permutations(range(len(values))))
    means = np.mean(
        [curve([confidence[i] for i in order], np.array([values[i] for i in order])) for order in orders], axis=0
    )
    np.testing.assert_allclose(curve_of(groups_of(confidence, values), len(values)), means, rtol=1e-12)


def test_the_best_confidence_has_the_area_1_and_the_worst_a_negative_one():
    values = [0.0, 0.0, 0.5, 1.0]
    oracle = curve_of(groups_of(values, values), 4)
    assert areas_of(oracle, oracle).normalised == 1
    assert areas_of(curve_of(groups_of([-value for value in values], values), 4), oracle).normalised < 0
    assert math.isnan(curve_of([], 0)[0])
