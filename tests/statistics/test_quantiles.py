"""Sketches know quantiles as well as they say, and columns or groups counted together say what each says alone."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from spark_rankeval.statistics import exact as module
from spark_rankeval.statistics.description import DescriptionAccumulator, DescriptionOptions
from spark_rankeval.statistics.exact import (
    RELATIVE_ACCURACY,
    MomentsAccumulator,
    QuantileAccumulator,
    merged_sketches,
    quantiles_of,
    tallies,
    tallies_of_groups,
    tally,
)

RNG = np.random.default_rng(121)
SHARES = [0.0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0]
COLUMNS = {
    "shares": RNG.random(10_001),
    "of both signs": RNG.normal(size=10_000),
    "mostly zero": np.where(RNG.random(10_000) < 0.7, 0.0, RNG.random(10_000)),
    "all magnitudes": RNG.choice([-1, 1], 9999) * 10.0 ** RNG.uniform(-300, 300, 9999),
    "the largest and the smallest": np.array([math.inf, -math.inf, 1.7e308, -1.7e308, 2.3e-308, -2.3e-308, 0.0, 1.0]),
    "one value": np.array([0.3]),
}


def state_of(values, parts=1):
    accumulator = QuantileAccumulator()
    for part in np.array_split(np.asarray(values, float), parts):
        accumulator.add_tally(tally([part]))
    return accumulator.state()


def same(state, other):
    return all(np.array_equal(state[name], entries, equal_nan=True) for name, entries in other.items())


@pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS)
def test_ordered_values_are_known_to_the_accuracy_promised_however_they_are_split(values):
    whole, ordered, shuffled = state_of(values), np.sort(values), RNG.permutation(values)
    places = np.unique((np.array(SHARES) * (len(values) - 1)).astype(int))
    found = quantiles_of(whole, 1, places / max(len(values) - 1, 1))[0]
    assert RELATIVE_ACCURACY <= 0.005
    finite = np.isfinite(ordered[places])
    assert np.array_equal(np.array(found)[~finite], ordered[places][~finite])
    found, expected = np.array(found)[finite], ordered[places][finite]
    assert np.all(np.abs(found - expected) <= np.abs(expected) * RELATIVE_ACCURACY * 1.0001)
    for n_parts in (2, 90, 700):
        assert same(state_of(shuffled, n_parts), whole)
    assert same(merged_sketches(map(state_of, np.array_split(shuffled, 90))), whole)


def test_between_ordered_values_quantiles_are_numpys_and_of_values_that_repeat_exact():
    values = COLUMNS["shares"][:500]
    found = quantiles_of(state_of(values), 1, SHARES)[0]
    assert found == pytest.approx(np.quantile(values, SHARES), rel=RELATIVE_ACCURACY)
    for values in (RNG.integers(0, 6, 2000) / 5, 1 / RNG.integers(1, 11, 2000), RNG.integers(-3, 4, 999) * 1.0):
        found = quantiles_of(state_of(values), 1, SHARES)[0]
        assert found == pytest.approx(np.quantile(values, SHARES), rel=1e-14, abs=1e-14)


def test_columns_are_kept_apart_and_undefined_values_left_out():
    accumulator = QuantileAccumulator()
    accumulator.add_tally(tally([np.array([1.0, 2.0, np.nan])]))
    accumulator.add_tally(tally([np.array([-5.0, np.nan, -5.0, -1.0])], 2))
    assert quantiles_of(accumulator.state(), 3, [0.5]) == pytest.approx(
        np.array([[1.5], [math.nan], [-5.0]]), nan_ok=True
    )
    assert all(map(math.isnan, quantiles_of(merged_sketches([]), 1, [0.0, 0.5])[0]))


def test_the_sketch_stays_small_and_knows_the_least_numbers_as_well_as_others():
    assert len(state_of(RNG.random(200_000), 40)["bucket"]) < 20 * 2**8
    values = np.append(np.arange(1, 4000) * 2.0**-1060, [2.0**-1022, 2.0**-1021, 0.0, -(2.0**-1050)])
    for share in (0.1, 0.5, 0.9):
        expected = np.quantile(values, share)
        assert abs(quantiles_of(state_of(values), 1, [share])[0][0] - expected) <= expected * 2.0**-8 + 2.0**-1074


VALUES = st.one_of(
    st.sampled_from([0.0, -0.0, 0.25, 0.5, 1 / 3, 1.0, np.nan, 2.0**-40, 4e4, -7.5]), st.floats(-1e6, 1e6, width=32)
)
TABLES = arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(0, 30)), elements=VALUES)


def assert_counts(counted, cell, values):
    mine = counted.column == cell
    distinct, times = np.unique(values[~np.isnan(values)], return_counts=True)
    assert counted.values[mine].tolist() == distinct.tolist()
    assert counted.times[mine].tolist() == times.tolist()
    assert counted.n_undefined[cell - counted.first] == np.isnan(values).sum()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(TABLES, st.integers(1, 100), st.randoms(use_true_random=False))
def test_columns_and_groups_are_counted_as_if_each_were_alone(columns, together, random):
    group = np.array([random.randint(0, 4) for _ in range(columns.shape[1])], np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_TOGETHER", together)
        patch.setattr(module, "_HELD_VALUES", together)
        parts, of_groups = list(tallies(list(columns))), list(tallies_of_groups(list(columns), group, 6, first=2))
    assert sum(len(part.n_undefined) for part in parts) == len(columns)
    assert sum(len(part.n_undefined) for part in of_groups) == len(columns) * 6
    whole, counted, one_by_one = tally(list(columns), first=3), *(MomentsAccumulator(len(columns)) for _ in range(2))
    for place, values in enumerate(columns):
        assert_counts(whole, place + 3, values)
        one_by_one.add(place, values)
    for part in parts:
        counted.add_tally(part)
    assert same(counted.state(), one_by_one.state())
    for part in of_groups:
        assert (np.diff(part.column) >= 0).all()
        for cell in range(part.first, part.first + len(part.n_undefined)):
            assert_counts(part, cell, columns[cell // 6 - 2][group == cell % 6])


def test_the_state_of_many_columns_does_not_depend_on_batches():
    random = np.random.default_rng(5)
    columns = [random.integers(0, 4, 40_000) / (place + 1) for place in range(7)]
    columns[2][random.random(40_000) < 0.1] = np.nan
    whole, parts = (DescriptionAccumulator(7, DescriptionOptions()) for _ in range(2))
    whole.add(columns)
    for start, end in itertools.pairwise([*range(0, 40_000, 1_500), 40_000]):
        parts.add([column[start:end] for column in columns])
    assert all(same(parts.state()[part], fields) for part, fields in whole.state().items())
