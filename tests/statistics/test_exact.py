import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_rankeval.statistics.sums import ExactSums, exact_sum


def state_of(*batches):
    sums = ExactSums(1)
    for batch in batches:
        sums.add(0, np.asarray(batch, np.float64))
    return {name: values[0].copy() for name, values in sums.state().items()}


def total(*batches):
    return exact_sum(state_of(*batches)["limbs"])


def fractions(values):
    return sum(map(Fraction, map(float, values)), Fraction(0))


RNG = np.random.default_rng(61)
COLUMNS = {
    "shares": RNG.random(20_000),
    "cubes of small differences": (RNG.normal(size=20_000) * 1e-6) ** 3,
    "gains": 2.0 ** RNG.integers(0, 30, 20_000) - 1,
    "all magnitudes": RNG.normal(size=20_000) * 2.0 ** RNG.integers(-400, 400, 20_000),
    "negative": -RNG.random(20_000) * 1e9,
    "zeros": np.zeros(20_000),
}


@pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS)
def test_sums_are_exact_whatever_the_magnitude_split_and_order(values):
    state = state_of(values)
    assert exact_sum(state["limbs"]) == fractions(values)
    parts = np.array_split(RNG.permutation(values), 7)
    assert np.array_equal(state_of(*parts)["limbs"], state["limbs"])
    assert exact_sum(sum(state_of(part)["limbs"] for part in parts)) == fractions(values)


SIZES = st.floats(-1e150, 1e150).filter(lambda value: value == 0 or abs(value) > 1e-130)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(values=st.lists(SIZES, max_size=30), cuts=st.lists(st.integers(0, 30), max_size=3))
def test_sums_of_any_values_are_exact(values, cuts):
    bounds = [0, *sorted(min(cut, len(values)) for cut in cuts), len(values)]
    parts = [values[low:high] for low, high in itertools.pairwise(bounds)]
    assert total(*parts) == fractions(values)


def test_bits_below_the_smallest_unit_are_dropped_alike_in_every_company():
    tiny = [2.0**-514, 2.0**-512 * 1.5, -(2.0**-600)]
    company = [1e150, 3.0, -1e-100]
    assert total(tiny + company) == total(tiny) + total(company) == total(*([value] for value in tiny + company))


def test_values_without_a_limb_are_counted():
    state = state_of([1.0, math.inf, -math.inf, 1e300, 2.0])
    assert state["n_excessive"] == 3
    assert exact_sum(state["limbs"]) == 3


def test_limbs_stay_small_enough_to_add_up_a_billion_states():
    state = state_of(np.full(100_000, -1e9 / 3))
    assert state["limbs"][:-1].min() >= 0
    assert state["limbs"][:-1].max() < 2**32
    assert abs(int(state["limbs"][-1])) < 2**32
