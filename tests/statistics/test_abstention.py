"""The abstention curve against MTEB's formula, and over all orders of users of the same confidence."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.abstention import RATES as MTEB_RATES
from oracles.abstention import curve, nauc

from spark_rankeval.statistics.abstention import RATES, EqualUsers, areas_of, curve_of

VALUES = st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 1.0])


def curve_from(confidence, values):
    """The curve of users of each confidence, best first."""
    groups, n_above, total_above = [], 0, 0.0
    for one in sorted(set(confidence), reverse=True):
        equal = [value for other, value in zip(confidence, values, strict=True) if other == one]
        groups.append(EqualUsers(len(equal), math.fsum(equal), n_above, total_above))
        n_above, total_above = n_above + len(equal), total_above + math.fsum(equal)
    return curve_of(groups, len(values))


@settings(max_examples=60, derandomize=True)
@given(st.lists(VALUES, min_size=1, max_size=60), st.randoms(use_true_random=False))
def test_areas_are_those_of_mteb(values, random):
    confidence = random.sample(range(len(values)), len(values))
    points, oracle = curve_from(confidence, values), curve_from(values, values)
    np.testing.assert_allclose(points, curve(confidence, np.array(values)), rtol=1e-12, atol=1e-12)
    areas = areas_of(points, oracle)
    if len({*oracle}) == 1 or len({*values}) == 1:
        # There MTEB divides by 0, or by the rounding of its means.
        assert math.isnan(areas.normalised)
        return
    assert (areas.area, areas.normalised) == pytest.approx(nauc(confidence, np.array(values)), rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("confidence", [[1, 1, 1], [2, 1, 1, 0], [3, 3, 1, 1]])
def test_users_of_the_same_confidence_stand_in_any_order(confidence):
    values = [0.0, 1.0, 0.25, 0.5][: len(confidence)]
    curves = [
        curve([confidence[i] for i in order], np.array([values[i] for i in order]))
        for order in itertools.permutations(range(len(values)))
    ]
    np.testing.assert_allclose(curve_from(confidence, values), np.mean(curves, axis=0), rtol=1e-12)


def test_the_best_confidence_has_the_area_1_and_the_worst_a_negative_one():
    values = [0.0, 0.0, 0.5, 1.0]
    oracle = curve_from(values, values)
    assert list(MTEB_RATES) == list(RATES)
    assert areas_of(oracle, oracle).normalised == 1
    assert areas_of(curve_from([-value for value in values], values), oracle).normalised < 0
    assert math.isnan(curve_of([], 0)[0])
