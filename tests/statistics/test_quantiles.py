import math

import numpy as np
import pytest
from helpers.effort import part_of
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_rankeval.statistics.quantiles import RELATIVE_ACCURACY, QuantileAccumulator, merged_sketches, quantiles_of

RNG = np.random.default_rng(121)
SHARES = [0.0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0]
COLUMNS = {
    "shares": RNG.random(10_001),
    "skewed": RNG.exponential(size=10_000) ** 3,
    "of both signs": RNG.normal(size=10_000),
    "mostly zero": np.where(RNG.random(10_000) < 0.7, 0.0, RNG.random(10_000)),
    "all magnitudes": RNG.choice([-1, 1], 9999) * 10.0 ** RNG.uniform(-300, 300, 9999),
    "one value": np.array([0.3]),
}


def state_of(values, parts=1):
    accumulator = QuantileAccumulator()
    for part in np.array_split(np.asarray(values, float), parts):
        accumulator.add(0, part)
    return accumulator.state()


@pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS)
def test_ordered_values_are_known_to_the_accuracy_promised(values):
    ordered = np.sort(values)
    places = np.unique((np.array(SHARES) * (len(values) - 1)).astype(int))
    found = quantiles_of(state_of(values), 1, places / max(len(values) - 1, 1))[0]
    assert RELATIVE_ACCURACY <= 0.005
    assert np.all(np.abs(found - ordered[places]) <= np.abs(ordered[places]) * RELATIVE_ACCURACY * 1.0001)


def test_between_ordered_values_quantiles_are_numpys():
    values = COLUMNS["shares"][:500]
    assert quantiles_of(state_of(values), 1, SHARES)[0] == pytest.approx(
        np.quantile(values, SHARES), rel=RELATIVE_ACCURACY
    )


@pytest.mark.parametrize(
    "values", [RNG.integers(0, 6, 2000) / 5, 1 / RNG.integers(1, 11, 2000), RNG.integers(-3, 4, 999) * 1.0]
)
def test_of_values_that_repeat_quantiles_are_exact(values):
    assert quantiles_of(state_of(values), 1, SHARES)[0] == pytest.approx(
        np.quantile(values, SHARES), rel=1e-14, abs=1e-14
    )


@pytest.mark.parametrize("n_parts", part_of([90, 2, 3000], 3))
@pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS)
def test_no_split_and_no_order_changes_the_state(values, n_parts):
    whole, shuffled = state_of(values), RNG.permutation(values)
    for other in (
        state_of(shuffled, n_parts),
        merged_sketches(state_of(part) for part in np.array_split(shuffled, min(n_parts, 90))),
    ):
        assert {name: each.tobytes() for name, each in other.items()} == {
            name: each.tobytes() for name, each in whole.items()
        }


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    values=st.lists(st.floats(allow_nan=False, allow_subnormal=False), min_size=1, max_size=30), share=st.floats(0, 1)
)
def test_the_lower_of_two_values_is_no_further_than_promised(values, share):
    place = int(share * (len(values) - 1))
    value = sorted(values)[place]
    ((found,),) = quantiles_of(state_of(values), 1, [place / max(len(values) - 1, 1)])
    exact_place = place / max(len(values) - 1, 1) * (len(values) - 1)
    if exact_place == place:
        assert found == value or abs(found - value) <= abs(value) * RELATIVE_ACCURACY


def test_columns_are_kept_apart_and_undefined_values_left_out():
    accumulator = QuantileAccumulator()
    accumulator.add(0, np.array([1.0, 2.0, np.nan]))
    accumulator.add(2, np.array([-5.0, np.nan, -5.0, -1.0]))
    state = accumulator.state()
    (first,), (second,), (third,) = quantiles_of(state, 3, [0.5])
    assert (first, third) == (1.5, -5.0)
    assert math.isnan(second)


def test_the_sketch_stays_small():
    assert len(state_of(RNG.random(200_000), 40)["bucket"]) < 20 * 2**8


def test_no_value_has_no_quantile():
    assert all(map(math.isnan, quantiles_of(merged_sketches([]), 1, [0.0, 0.5])[0]))


def test_the_least_numbers_are_known_as_well_as_others():
    values = np.append(np.arange(1, 4000) * 2.0**-1060, [2.0**-1022, 2.0**-1021, 0.0, -(2.0**-1050)])
    state = state_of(values)
    for share in (0.1, 0.5, 0.9):
        expected = np.quantile(values, share)
        assert abs(quantiles_of(state, 1, [share])[0][0] - expected) <= expected * 2.0**-8 + 2.0**-1074
