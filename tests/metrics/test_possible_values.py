"""What values could be: `ceiling`, the best order of the first places."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.rankings import User
from oracles.stages import best_value
from worlds.ranked_users import batch_of, in_order, random_users
from worlds.variants import METRICS, parameters_of, variants

from spark_rankeval.metrics import parse_metric
from spark_rankeval.metrics.expected_values import TieAwareMetric

LABELS = st.dictionaries(st.integers(0, 6), st.sampled_from([-1.0, 0.0, 1.0, 2.0, 3.0]), max_size=4)
ORDERED = [metric for metric in METRICS if issubclass(metric, TieAwareMetric)]
# By what gains: raw labels in their order have negative gain, and scores are gone.
REORDERED = {
    metric.name: [
        variant
        for variant in variants(metric, ties=("order",))
        if getattr(variant, "ideal", None) != "label_order" and getattr(variant, "by", "rank") == "rank"
    ]
    for metric in ORDERED
}
PREDICTIONS = st.lists(
    st.tuples(st.integers(0, 6), st.sampled_from([0.0, 0.5, 1.0])), max_size=5, unique_by=lambda p: p[0]
)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    users=st.lists(st.tuples(PREDICTIONS, LABELS), min_size=1, max_size=3),
    n=st.integers(1, 6),
    choice=st.integers(0, 10**6),
)
def test_no_order_of_the_first_places_is_better(users, n, choice):
    users = [(predictions, list(labels.items())) for predictions, labels in users]
    batch, settled = batch_of(users), [User(*user) for user in users]
    for every in REORDERED.values():
        metric = every[choice % len(every)]
        found = dataclasses.replace(metric, ceiling=n).compute(batch)
        expected = [best_value(metric.name, user, n, **parameters_of(metric)) for user in settled]
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12, err_msg=f"{metric}, ceiling={n}")


def test_what_stands_below_is_cut_off_and_the_rest_keeps_its_labels():
    batch = batch_of([(in_order([1, 2, 3, 4]), [(4, 3.0), (2, 1.0), (9, 2.0)])])
    expected = {
        "recall@1": 0, "recall(ceiling=2)@1": 1 / 3, "recall(ceiling=4)@1": 1 / 3, "recall(ceiling=4)@2": 2 / 3,
        "recall(ceiling=3)": 1 / 3, "rr(ceiling=1)": 0, "rr(ceiling=2)": 1, "precision(ceiling=2)": 1 / 2,
        "dcg(ceiling=4)@1": 7, "dcg(ceiling=3)@4": 1,
    }  # fmt: skip
    assert {name: parse_metric(name).compute(batch)[0] for name in expected} == pytest.approx(expected, abs=1e-15)


def test_the_first_places_are_those_of_the_ranking_whatever_the_cutoff():
    users = random_users(np.random.default_rng(8), 60)
    for name in ("ndcg(ideal='labels', ceiling=7)@3", "recall(ceiling=2)@5"):
        metric = parse_metric(name)
        assert metric.reads.depth == metric.ceiling
        assert metric.reads.tie_order
        values = [metric.compute(batch_of(users, ties=ties)) for ties in ("item_asc", "item_desc")]
        assert not np.array_equal(*values, equal_nan=True)
