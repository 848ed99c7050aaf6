"""What a sample of rows says of the lengths of lists."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_rankeval.spark.prediction_lists import ListLengths, lengths_of, share_of

SHARE = 4


@given(st.lists(st.tuples(st.integers(-12, 12), st.booleans()), max_size=60))
def test_lists_that_are_drawn_whole_are_counted(rows):
    lists = [list_ for list_, _ in rows]
    whole = Counter(list_ for list_ in lists if list_ % SHARE == 0)
    most = max(Counter(list_ for list_, is_drawn in rows if is_drawn).values(), default=0)
    found = lengths_of(np.array(lists, np.int64), np.array([is_drawn for _, is_drawn in rows], bool), SHARE)
    if not whole:
        assert found is None
    else:
        assert found == (len(whole), whole.total() / len(whole), most * SHARE)


def test_a_long_list_is_seen_if_its_user_is_not_drawn():
    random = np.random.default_rng(3)
    lists = np.concatenate([np.repeat(np.arange(4, 404, 4), 5), np.full(40_000, 1)])
    found = lengths_of(lists, random.random(len(lists)) < 1 / SHARE, SHARE)
    assert (found.n_lists, found.mean) == (100, 5.0)
    assert 38_000 < found.longest < 42_000


@pytest.mark.parametrize("n_bytes", [0, 1 << 20, 1 << 30, 1 << 33, 1 << 40, 1 << 60])
def test_lists_of_usual_length_are_short_however_large_their_table_is(n_bytes):
    share = share_of(n_bytes)
    assert share & (share - 1) == 0
    # Three rows of a list of 50 are drawn by chance, and still nobody takes it for one of hundreds of thousands.
    lists = np.repeat(np.arange(20) * share, 50)
    found = lengths_of(lists, np.isin(np.arange(1_000), [0, 3, 7]), share)
    assert found.are_short(28)


def test_lists_whose_equal_items_are_merged_are_short_until_they_are_too_long_for_memory():
    assert not ListLengths(10, 200, 300).are_short(18)
    assert ListLengths(10, 200, 300).are_short(18, merges=True)
    assert not ListLengths(10, 200, 300_000).are_short(18, merges=True)
