"""Columns counted together say what each says alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from spark_rankeval.statistics import quantiles as module
from spark_rankeval.statistics.description import DescriptionAccumulator, DescriptionOptions
from spark_rankeval.statistics.moments import MomentsAccumulator
from spark_rankeval.statistics.quantiles import tallies, tallies_of_groups, tally

VALUES = st.one_of(
    st.sampled_from([0.0, -0.0, 0.25, 0.5, 1 / 3, 1.0, np.nan, 2.0**-40, 4e4, -7.5]), st.floats(-1e6, 1e6, width=32)
)


@given(arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(0, 30)), elements=VALUES))
def test_every_value_is_counted_in_its_column(columns):
    counted = tally(list(columns), first=3)
    for place, column in enumerate(columns, 3):
        mine = counted.column == place
        distinct, times = np.unique(column[~np.isnan(column)], return_counts=True)
        assert counted.values[mine].tolist() == distinct.tolist()
        assert counted.times[mine].tolist() == times.tolist()
        assert counted.n_undefined[place - 3] == np.isnan(column).sum()


@given(arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(0, 30)), elements=VALUES), st.integers(1, 100))
def test_columns_together_give_the_state_of_each_alone(columns, together):
    counted, one_by_one = MomentsAccumulator(len(columns)), MomentsAccumulator(len(columns))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_TOGETHER", together)
        for some in tallies(list(columns)):
            counted.add_tally(some)
    for place, column in enumerate(columns):
        one_by_one.add(place, column)
    for name, entries in one_by_one.state().items():
        assert np.array_equal(counted.state()[name], entries), name


@given(
    st.data(),
    arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(0, 30)), elements=VALUES),
    st.integers(1, 100),
)
def test_groups_are_counted_as_if_each_were_alone(data, columns, together):
    n = columns.shape[1]
    group = np.array(data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)), np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_HELD_VALUES", together)
        parts = list(tallies_of_groups(list(columns), group, 6, first=2))
    assert sum(len(part.n_undefined) for part in parts) == len(columns) * 6
    for part in parts:
        assert (np.diff(part.column) >= 0).all()
        for cell, n_undefined in enumerate(part.n_undefined, part.first):
            values = columns[cell // 6 - 2][group == cell % 6]
            mine = part.column == cell
            distinct, times = np.unique(values[~np.isnan(values)], return_counts=True)
            assert part.values[mine].tolist() == distinct.tolist()
            assert part.times[mine].tolist() == times.tolist()
            assert n_undefined == np.isnan(values).sum()


def test_the_state_of_many_columns_does_not_depend_on_batches():
    random = np.random.default_rng(5)
    columns = [random.integers(0, 4, 40_000) / (place + 1) for place in range(7)]
    columns[2][random.random(40_000) < 0.1] = np.nan
    whole, parts = (DescriptionAccumulator(7, DescriptionOptions()) for _ in range(2))
    whole.add(columns)
    for start in range(0, 40_000, 1_500):
        parts.add([column[start : start + 1_500] for column in columns])
    one, other = whole.state(), parts.state()
    for part, fields in one.items():
        for name, entries in fields.items():
            assert np.array_equal(other[part][name], entries, equal_nan=True), (part, name)
