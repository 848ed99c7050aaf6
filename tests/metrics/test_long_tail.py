"""Which items are in the long tail, beside Elliot's way to find them; and sets of categories as they come from Spark."""

import numpy as np
import pyarrow as pa
import pytest
from helpers.effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_rankeval.errors import MetricError
from spark_rankeval.features.items.item_facts import (
    ITEMS_ABOVE,
    ROWS,
    SHARE_ABOVE,
    TRAINING_USERS,
    CategorySets,
    levels_of,
    rows_of_shares,
)
from spark_rankeval.features.items.worker import shares_of_categories
from spark_rankeval.metrics import parse_metric
from spark_rankeval.ranking.ragged import Ragged
from spark_rankeval.ranking.recommended import UNKNOWN


def above(n_users):
    """The shares of pairs and of items that are of more popular items, for each item by how many users have it."""
    level, levels = levels_of(n_users)
    return levels.share_above[level[:-1]], levels.items_above[level[:-1]]


def elliots_head(n_users, share):
    """The most popular items, one after the other, until they have this share of the interactions."""
    left = sum(n_users) * share
    head = set()
    for item in sorted(range(len(n_users)), key=lambda item: -n_users[item]):
        head.add(item)
        left -= n_users[item]
        if left <= 0:
            break
    return head


@settings(max_examples=examples(by_day=60, at_night=1000), deadline=None, derandomize=True)
@given(
    n_users=st.lists(st.integers(1, 400), min_size=1, max_size=30, unique=True),
    share=st.sampled_from([0.25, 0.5, 0.75]),
)
def test_of_items_that_differ_in_popularity_the_head_is_that_of_elliot(n_users, share):
    of_interactions, _ = above(np.array(n_users))
    assert set(np.flatnonzero(of_interactions < share).tolist()) == elliots_head(n_users, share)


def test_equally_popular_items_are_in_one_group_and_an_item_of_nobody_is_in_the_tail():
    of_interactions, of_items = above(np.array([1, 4, 2, 1, 2, 0]))
    assert of_interactions.tolist() == [0.8, 0.0, 0.4, 0.8, 0.4, 1.0]
    assert of_items.tolist() == [3 / 5, 0.0, 1 / 5, 3 / 5, 1 / 5, 1.0]


def test_without_training_data_all_items_are_in_the_tail():
    assert [shares.tolist() for shares in above(np.array([0, 0]))] == [[1.0, 1.0], [1.0, 1.0]]


@settings(max_examples=examples(by_day=30, at_night=300), deadline=None, derandomize=True)
@given(n_users=st.lists(st.integers(1, 9), max_size=40))
def test_shares_of_a_join_are_those_of_a_table_that_workers_look_up(n_users):
    different, n_items = np.unique(n_users, return_counts=True) if n_users else (np.empty(0, np.int64),) * 2
    backwards = pa.table({TRAINING_USERS: different[::-1], ROWS: n_items[::-1]})
    rows = [row for batch in rows_of_shares(iter(backwards.to_batches(max_chunksize=2))) for row in batch.to_pylist()]
    joined = {row[TRAINING_USERS]: (row[SHARE_ABOVE], row[ITEMS_ABOVE]) for row in rows}
    looked_up = zip(*above(np.array(n_users, np.int64)), strict=True)
    assert [joined[n] for n in n_users] == list(looked_up)


@pytest.mark.parametrize(
    "metric", ["aplt(head=0)@3", "aplt(head=1)@3", "aplt(head=x)@3", "miscalibration(smoothing=0)@3"]
)
def test_shares_outside_their_range_are_refused(metric):
    with pytest.raises(MetricError, match="must be a number between 0 and 1"):
        parse_metric(metric)


def test_sets_of_categories_have_one_code_each_in_every_batch():
    sets = CategorySets()
    first = sets.indices(pa.array(['["a","b"]', None, "[]", '["c"]', '["a","b"]']))
    assert first.tolist() == [0, UNKNOWN, UNKNOWN, 1, 0]
    assert sets.indices(pa.array(['["c"]', '["b"]'])).tolist() == [1, 2]
    assert [part.tolist() for part in np.split(sets.sets().values, sets.sets().offsets[1:-1])] == [[0, 1], [2], [1]]
    assert sets.indices(pa.nulls(2, pa.string())).tolist() == [UNKNOWN, UNKNOWN]


def test_the_shares_of_a_history_are_of_its_items_with_a_category():
    sets = Ragged.from_lists([[0, 1], [2], [1]], np.int64)
    user, indices = np.array([0, 0, 0, 2, 1]), np.array([0, 1, UNKNOWN, 2, UNKNOWN])
    shares = shares_of_categories(user, indices, sets)
    found = dict(
        zip(zip(shares.user.tolist(), shares.category.tolist(), strict=True), shares.share.tolist(), strict=True)
    )
    assert found == {(0, 0): 0.25, (0, 1): 0.25, (0, 2): 0.5, (2, 1): 1.0}
    assert len(shares_of_categories(user[:0], indices[:0], sets).user) == 0
