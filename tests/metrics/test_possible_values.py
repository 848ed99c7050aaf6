"""What values could be: `unjudged`, bounds whatever grades items without a label have; `ceiling`, the best order of the first places."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.rankings import User, value
from oracles.stages import best_value
from worlds.ranked_users import batch_of, in_order, lists_of, random_users, ranked, ungraded
from worlds.variants import METRICS, parameters_of, variants

from spark_rankeval.metrics import parse_metric
from spark_rankeval.metrics.base import UNSET, Metric
from spark_rankeval.metrics.expected_values import TieAwareMetric
from spark_rankeval.ranking.unjudged import with_judged_items

HIGHEST = 3.0
# What an item may turn out to be: still without a label, or of one of these grades.
GRADES = (None, 0.0, 1.0, HIGHEST)
# Whatever the cutoff; a metric that has bounds only with some parameters has them with these.
WITH_GROWTH = {
    metric.name: [variant for variant in variants(metric, cutoffs=(None, 1, 2, 3), ties=("order",)) if variant.growth]
    for metric in METRICS
}
BOUNDED = {name: every for name, every in WITH_GROWTH.items() if every}
ITEMS = st.lists(st.integers(0, 6), max_size=5, unique=True)
LABELS = st.dictionaries(st.integers(0, 6), st.sampled_from([-1.0, 0.0, 1.0, 2.0, HIGHEST]), max_size=4)


def bounds(metric, batch, highest=HIGHEST):
    """The lowest and the highest value of each user."""
    return [
        dataclasses.replace(metric, unjudged=side, highest_grade=highest).compute(batch)
        for side in ("lowest", "highest")
    ]


def possible_values(metric, items, labels):
    """The values of a user by the oracle, one for each way to judge the items of the list without a label."""
    unlabelled = [item for item in items if item not in labels]
    possible = [grade for grade in GRADES if grade is None or grade <= metric.largest_grade]
    for grades in itertools.product(possible, repeat=len(unlabelled)):
        judged = {item: grade for item, grade in zip(unlabelled, grades, strict=True) if grade is not None}
        user = User(in_order(items), list((labels | judged).items()))
        yield value(metric.name, user, **parameters_of(metric))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(items=ITEMS, labels=LABELS, choice=st.integers(0, 10**6))
def test_no_grades_give_a_value_beyond_the_bounds(items, labels, choice):
    batch = batch_of([(in_order(items), list(labels.items()))])
    for every in BOUNDED.values():
        metric = every[choice % len(every)]
        (lowest,), (highest,) = bounds(metric, batch, min(HIGHEST, metric.largest_grade))
        (today,) = metric.compute(batch)
        if math.isnan(today):
            assert np.isnan([lowest, highest]).all(), metric
            continue
        values = list(possible_values(metric, items, labels))
        assert lowest <= min(values) * (1 + 1e-12), (metric, values)
        assert max(values) <= highest * (1 + 1e-12), (metric, values)
        assert lowest <= today <= highest, metric
        if metric.growth != "ideal" and metric.threshold != -math.inf:
            assert lowest == pytest.approx(min(values), abs=1e-12), metric
            if metric.growth != "order" or metric.reads.items == "relevance" or getattr(metric, "gain", "") == "binary":
                assert highest == pytest.approx(max(values), abs=1e-12), metric


def test_bounds_of_a_list():
    # Two relevant items, of which the first is retrieved; two of the four retrieved ones are not judged.
    batch = batch_of([(in_order([1, 2, 3, 4]), [(1, 1.0), (3, 0.0), (9, 1.0)])])
    expected = {
        "precision@4": (1 / 4, 3 / 4), "recall@4": (1 / 2, 3 / 4), "recall@2": (1 / 3, 2 / 3), "rr": (1, 1),
        "hit_rate@2": (1, 1), "ap(denominator='labels')@4": (1 / 2, 11 / 16), "r_precision": (1 / 4, 1),
        "dcg(gain='linear')@2": (1, 1 + 1 / math.log2(3)),
    }  # fmt: skip
    found = {name: tuple(float(each[0]) for each in bounds(parse_metric(name), batch, UNSET)) for name in expected}
    for name, pair in expected.items():
        assert found[name] == pytest.approx(pair, abs=1e-15), name


def test_bounds_of_many_open_items_are_safe_and_near():
    """The first user has 27 of them, the second one only two, whose bounds are reached in the same batch."""
    labels = {3: 1.0, 8: 0.0, 20: 1.0, 40: 1.0}
    lists = [list(range(30)), [3, 4, 5]]
    batch = batch_of([(in_order(items), list(labels.items())) for items in lists])
    for text in (
        "ap@30",
        "ap(denominator='labels')",
        "ndcg(gain='binary')@30",
        "ndcg(gain='binary', ideal='labels')@28",
    ):
        metric = parse_metric(text).resolve()
        lowest, highest = bounds(metric, batch, UNSET)
        for number, items in enumerate(lists):
            unlabelled = [item for item in items if item not in labels]
            values = []
            # Of a number of items the first ones or the last ones decide.
            for first, stop in itertools.combinations_with_replacement(range(len(unlabelled) + 1), 2):
                judged = labels | dict.fromkeys(unlabelled[first:stop], 1.0)
                user = User(in_order(items), list(judged.items()))
                values.append(value(metric.name, user, **parameters_of(metric)))
            assert lowest[number] - 1e-12 <= min(values) <= lowest[number] + 0.05, text
            assert highest[number] - 0.05 <= max(values) <= highest[number] + 1e-12, text
            alone = batch_of([(in_order(items), list(labels.items()))])
            assert [each[0] for each in bounds(metric, alone, UNSET)] == [lowest[number], highest[number]]


def test_what_pruning_leaves_out_changes_no_bound_of_the_first_places():
    users = [([(item, -float(item)) for item in range(6)], [(1, 2.0), (4, 1.0)])]
    cut = [(predictions[:3], labels) for predictions, labels in users]
    whole = batch_of(users)
    pruned, _ = ranked(lists_of(cut, n_predictions=np.array([6])), largest_cutoff=3)
    for text in ("precision@3", "dcg@2", "rr@1", "hit_rate@3", "precision(denominator='predictions')@3"):
        metric = parse_metric(text)
        assert metric.reads.depth == dataclasses.replace(metric, unjudged="lowest").reads.depth == metric.k
        assert [each.tolist() for each in bounds(metric, pruned)] == [each.tolist() for each in bounds(metric, whole)]
    # An item below the cutoff may be relevant, so these read the whole list.
    assert dataclasses.replace(parse_metric("recall@3"), unjudged="lowest").reads.depth is None


def test_users_without_a_value_have_no_bounds_and_lists_without_an_open_item_have_the_value():
    batch = batch_of([(in_order([1, 2]), []), (in_order([1, 2]), [(1, 0.0)]), (in_order([1, 2]), [(1, 1.0), (2, 0.0)])])
    for name in ("ndcg@2", "precision@2", "ap"):
        lowest, highest = bounds(parse_metric(name), batch)
        assert np.isnan([lowest[:2], highest[:2]]).all()
        assert lowest[2] == highest[2] == parse_metric(name).compute(batch)[2]
    counted = bounds(parse_metric("recall(undefined='zero')@2"), batch)
    assert [each.tolist() for each in counted] == [[0, 0, 1], [1, 1, 1]]


def test_who_has_no_answer_keeps_the_value():
    batch = dataclasses.replace(batch_of([(in_order([1]), []), ([], [])]), no_answer=np.array([True, True]))
    for name in ("ndcg(no_answer='empty_is_right')@2", "recall(no_answer='empty_is_right')@2"):
        assert [each.tolist() for each in bounds(parse_metric(name), batch)] == [[0, 1], [0, 1]]


def test_items_that_are_judged_keep_their_place():
    batch = batch_of([(in_order([5, 6, 7]), [(6, 2.0)]), ([], ungraded([1])), (in_order([1, 2]), ungraded([1]))])
    judged = with_judged_items(batch, 4.0, first=2)
    assert [judged.user.tolist(), judged.rank.tolist(), judged.grade.tolist()] == [
        [0, 0, 2, 2], [2, 3, 1, 2], [2, 4, 1, 4],
    ]  # fmt: skip
    assert [judged.labels.offsets.tolist(), judged.labels.values.tolist()] == [[0, 2, 3, 5], [2, 4, 1, 1, 4]]
    assert with_judged_items(batch, 4.0, first=4) is batch


def test_these_have_bounds():
    assert {*BOUNDED} >= {
        "ap", "cg", "dcg", "err", "f1", "fbeta", "fidelity", "gap", "hit_rate", "max_relevance", "ndcg", "nerr", "precision",
        "r_precision", "rbp", "recall", "rr", "xdcg",
    }  # fmt: skip
    assert Metric.growth_kind == ""


# ---- the best order


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
