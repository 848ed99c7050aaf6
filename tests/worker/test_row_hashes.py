"""The hashes of users' rows that workers compute are those of Spark."""

import math
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_rankeval.statistics import resampling
from spark_rankeval.statistics.resampling import xxhash64
from spark_rankeval.worker import reading
from spark_rankeval.worker.reading import (
    COSTS,
    ITEMS,
    PREDICTION_ROWS,
    SCORES,
    column_of_model,
    hash_column,
    hashes_of_users,
)

_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_MODULUS = 1 << 64
WHOLE, BYTES = st.integers(-(2**63), 2**63 - 1), st.integers(-128, 127)
FLOATS = st.floats(allow_nan=False)


def rotated(value, bits):
    return (value << bits | value >> (64 - bits)) % _MODULUS


def hashed(bits, seed):
    """XXH64 of eight bytes, as its specification has it."""
    value = (seed + _P5 + 8) % _MODULUS ^ rotated(bits * _P2 % _MODULUS, 31) * _P1 % _MODULUS
    value = (rotated(value, 27) * _P1 + _P4) % _MODULUS
    value = (value ^ value >> 33) * _P2 % _MODULUS
    value = (value ^ value >> 29) * _P3 % _MODULUS
    return value ^ value >> 32


def of_row(item, *numbers):
    value = hashed(item % _MODULUS, 42)
    for number in numbers:
        value = hashed(struct.unpack("<Q", struct.pack("<d", number + 0.0))[0], value)
    return value - _MODULUS * (value >= _MODULUS // 2)


def test_the_digits_are_those_of_spark():
    # SELECT xxhash64(item, score) on Spark 4.3.
    hashes = xxhash64(np.array([1, 2, -5, 0]), np.array([0.5, -0.0, math.inf, 1e300]))
    expected = [-4145917965430274609, -4175744763495980767, -8554377901297403671, 688363483430558765]
    assert hashes.tolist() == expected


@pytest.mark.parametrize("together", [1, 3, 1 << 14])
@settings(deadline=None)
@given(pairs=st.lists(st.tuples(WHOLE, FLOATS), max_size=9))
def test_hashes_are_those_of_the_specification(together, pairs):
    items, scores = np.array([item for item, _ in pairs], np.int64), np.array([score for _, score in pairs], float)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(resampling, "_VALUES_TOGETHER", together)
        assert xxhash64(items, scores).tolist() == [of_row(*pair) for pair in pairs]


@pytest.mark.parametrize(
    ("of_items", "of_scores", "together"), [(pa.int64(), pa.float64(), 1 << 18), (pa.int8(), pa.float32(), 3)]
)
@settings(deadline=None)
@given(lists=st.lists(st.lists(st.tuples(BYTES, st.floats(allow_nan=False, width=32)), max_size=4), max_size=5))
def test_a_user_has_the_sum_of_the_hashes_of_the_list(of_items, of_scores, together, lists):
    # Null without a row, as a full join gives it; 0 if no row can be ranked. The first user is cut off.
    given_lists = [[(1, 1.0)], *lists, [], None, [(5, 0.5)]]

    def column(place, kind):
        whole = [None if pairs is None else [pair[place] for pair in pairs] for pairs in given_lists]
        return pa.array(whole, pa.list_(kind)).slice(1)

    n_rows = [*(len(pairs) or 1 for pairs in lists), 3, None, 1]
    columns = {ITEMS: column(0, of_items), SCORES: column(1, of_scores), PREDICTION_ROWS: pa.array(n_rows, pa.int64())}
    expected = [*(sum(of_row(*pair) >> 28 for pair in pairs) for pairs in lists), 0, None, of_row(5, 0.5) >> 28]
    of_second = {column_of_model(name, 1): column for name, column in columns.items()}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reading, "_HASHED_TOGETHER", together)
        assert hashes_of_users("predictions", columns).to_pylist() == expected
        assert hashes_of_users(column_of_model("predictions", 1), of_second).to_pylist() == expected


def test_costs_are_hashed_after_scores_and_hashes_that_spark_has_added_up_are_taken():
    columns = {name: pa.array([[value]]) for name, value in ((ITEMS, 7), (SCORES, 0.5), (COSTS, 2.5))}
    columns[PREDICTION_ROWS] = pa.array([1])
    assert hashes_of_users("predictions", columns).to_pylist() == [of_row(7, 0.5, 2.5) >> 28]

    column = pa.array([5, None])
    assert hashes_of_users("predictions", {hash_column("predictions"): column}) is column
