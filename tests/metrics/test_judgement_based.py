import math

import pytest
from worlds.graded import check, figures_of, value_of
from worlds.ranked_users import in_order

from spark_rankeval.metrics import BPref, Judged

LABELS = [(1, 1.0), (2, 2.0), (3, 0.0), (4, 0.0), (5, 0.0), (6, -1.0)]


@pytest.mark.parametrize(("figures", "query"), figures_of("bpref"))
def test_figure_of_another_evaluator(figures, query):
    check(figures, query)


def test_judged_is_the_share_of_labelled_items_whatever_their_grade():
    assert value_of("judged@2", in_order([6, 9, 3, 1]), LABELS) == 1 / 2
    assert value_of("judged", in_order([6, 9, 3, 1]), LABELS) == 3 / 4
    assert value_of("judged", in_order([3, 4]), LABELS) == 1


def test_judged_divides_by_the_places_that_were_filled():
    assert value_of("judged@10", in_order([1, 9]), LABELS) == 1 / 2


def test_judged_of_no_list_is_undefined():
    assert math.isnan(value_of("judged@3", [], LABELS))
    assert value_of("judged(undefined=zero)@3", [], LABELS) == 0
    assert Judged().reads.depth is None


def test_judged_counts_every_list_labelled_or_not():
    assert value_of("judged", in_order([1]), [(1, 0.0)]) == 1
    assert value_of("judged@3", in_order([1, 2]), []) == 0
    assert value_of("judged@2", in_order([9, 1]), [(1, -1.0)]) == 1 / 2


@pytest.mark.parametrize(("metric", "expected"), [
    ("holes@2", 1 / 2), ("holes", 1 / 4), ("holes@10", 1 / 4), ("holes(denominator='k')@10", 1 / 10),
    ("holes(denominator='k')", 1 / 4), ("holes(denominator='one')@2", 1), ("holes(denominator='one')@1", 0),
])  # fmt: skip
def test_holes_are_the_items_without_a_label(metric, expected):
    assert value_of(metric, in_order([6, 9, 3, 1]), LABELS) == expected


def test_holes_counts_every_list_labelled_or_not():
    assert value_of("holes@3", in_order([1, 2]), []) == 1
    assert value_of("holes(denominator='one')", in_order([1, 2]), []) == 2
    assert math.isnan(value_of("holes@3", [], LABELS))
    assert value_of("holes(undefined='zero')@3", [], LABELS) == 0


def test_a_relevant_item_is_worth_less_the_more_judged_others_stand_above_it():
    # Two relevant, three judged others: each of the first two above a hit costs a half.
    assert value_of("bpref", in_order([1, 2, 3]), LABELS) == 1
    assert value_of("bpref", in_order([3, 1, 2]), LABELS) == 1 / 2
    assert value_of("bpref", in_order([1, 3, 2]), LABELS) == 3 / 4
    assert value_of("bpref", in_order([3, 4, 5, 1, 2]), LABELS) == 0


def test_unlabelled_and_negative_items_are_passed_over():
    assert value_of("bpref", in_order([8, 6, 1, 9, 2]), LABELS) == 1


def test_a_relevant_item_counts_whole_where_nothing_was_judged_not_relevant():
    assert value_of("bpref", in_order([8, 1]), [(1, 1.0), (2, 1.0)]) == 1 / 2


def test_the_two_thresholds_are_independent():
    graded = [(1, 3.0), (2, 1.0), (3, 0.0)]
    assert value_of("bpref(relevance_threshold=2)", in_order([2, 1]), graded) == 1
    assert value_of("bpref(relevance_threshold=2, judged_threshold=2)", in_order([2, 1]), graded) == 0
    assert BPref().reads.depth is None
