import math

import pytest
from worlds.graded import value_of
from worlds.ranked_users import in_order

from spark_rankeval.errors import MetricError
from spark_rankeval.metrics import XDCG, Fidelity, MaxRelevance, parse_metric

LABELS = [(1, 4.0), (2, 2.0), (3, 1.0), (4, 0.0), (5, -1.0)]


def test_xdcg_is_the_weighted_mean_grade_in_percent_of_the_largest():
    # 100 · (2/4 + 0.6 · 0 + 0.36 · 4/4) ÷ (1 + 0.6 + 0.36)
    assert value_of("xdcg(max_grade=4)@3", in_order([2, 9, 1]), LABELS) == pytest.approx(100 * 0.86 / 1.96, abs=1e-12)
    assert value_of("xdcg(max_grade=4, decay=1)@2", in_order([2, 9, 1]), LABELS) == 25


def test_a_short_list_divides_by_the_weights_of_all_k_places_and_a_whole_list_by_those_it_has():
    assert value_of("xdcg(max_grade=4)@3", in_order([1]), LABELS) == pytest.approx(100 / 1.96, abs=1e-12)
    assert value_of("xdcg(max_grade=4)", in_order([1]), LABELS) == 100
    assert value_of("xdcg(max_grade=4)@2147483647", in_order([1]), LABELS) == pytest.approx(40, abs=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3, 7, 40])
def test_a_list_of_the_largest_grade_is_worth_100_and_no_more(k):
    value = value_of(f"xdcg(decay=0.7)@{k}", in_order(range(40)), [(item, 1.0) for item in range(40)])
    assert value == pytest.approx(100, abs=1e-12)
    assert value <= 100


def test_a_grade_above_the_scale_of_xdcg_is_no_value():
    assert math.isnan(value_of("xdcg@3", in_order([3]), LABELS))
    assert XDCG(max_grade=4).resolve().largest_grade == 4
    with pytest.raises(MetricError, match="decay must be a number above 0 and up to 1"):
        parse_metric("xdcg(decay=0)")


def test_fidelity_is_recall_with_two_to_the_grade_and_one_minus_one_for_each_item():
    # 31, 7 and 3 for the grades 4, 2 and 1.
    assert value_of("fidelity", in_order([9, 2, 4, 3, 5]), LABELS) == 10 / 41
    assert value_of("fidelity@2", in_order([9, 2, 4, 3, 5]), LABELS) == 7 / 41
    assert value_of("fidelity", in_order([3, 2, 1]), LABELS) == 1


def test_fidelity_can_leave_out_grades_below_the_threshold():
    chosen = "relevance_threshold=2, below_threshold='zero'"
    assert value_of(f"fidelity({chosen})", in_order([2, 3]), LABELS) == 7 / 38
    assert value_of("fidelity(relevance_threshold=2)", in_order([2, 3]), LABELS) == 10 / 41


def test_fidelity_averages_over_the_orders_of_equal_scores():
    tied = [(1, 1.0), (2, 1.0), (9, 1.0)]
    assert value_of("fidelity(ties='average')@1", tied, LABELS) == pytest.approx(38 / 41 / 3, abs=1e-12)


def test_the_weights_of_the_largest_grade_add_up_to_a_number():
    largest = Fidelity().resolve().largest_grade
    assert value_of("fidelity", in_order([1]), [(1, largest), (2, largest)]) == 1 / 2


@pytest.mark.parametrize(("metric", "expected"), [
    ("max_relevance@1", 0), ("max_relevance@2", 2), ("max_relevance@3", 2), ("max_relevance", 4),
    ("max_relevance(relevance_threshold=3, below_threshold='zero')@3", 0),
])  # fmt: skip
def test_max_relevance_is_the_largest_grade_of_the_first_items(metric, expected):
    assert value_of(metric, in_order([9, 2, 3, 1]), LABELS) == expected


@pytest.mark.parametrize("kind", [Fidelity, MaxRelevance])
def test_the_order_of_a_whole_list_does_not_matter(kind):
    assert kind(k=3).resolve().reads.tie_order
    assert not kind().resolve().reads.tie_order


@pytest.mark.parametrize(("name", "metric"), [
    ("top1_relevance", "max_relevance@1"), ("top3_max_relevance", "max_relevance@3"), ("xdcg@3", "xdcg@3"),
    ("holes_ratio", "holes(denominator='predictions')"), ("Hole@10", "holes@10"), ("top_k_accuracy@5", "hit_rate@5"),
    ("R_cap@10", "recall(denominator='min_k_labels')@10"), ("recall_cap@5", "recall(denominator='min_k_labels')@5"),
    ("R_cap_at_5", "recall(denominator='min_k_labels')@5"), ("Hole_at_10", "holes@10"), ("hit_rate_at_3", "hit_rate@3"),
])  # fmt: skip
def test_names_of_azure_beir_and_mteb(name, metric):
    assert parse_metric(name) == parse_metric(metric)
