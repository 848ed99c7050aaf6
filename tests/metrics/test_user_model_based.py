import math

import numpy as np
import pytest
from worlds.graded import GRADED, check, figures_of, value_of
from worlds.ranked_users import batch_of, in_order, random_users, ungraded

from spark_rankeval.errors import MetricError
from spark_rankeval.metrics import ERR, NERR, RBP, RBPResidual, parse_metric

GRADES = [(1, 3.0), (2, 2.0), (3, 0.0), (4, 1.0), (5, -1.0)]


@pytest.mark.parametrize(("figures", "query"), figures_of("err", "nerr", "rbp", "rbp_residual"))
def test_figure_of_another_evaluator(figures, query):
    check(figures, query)


def test_the_figures_come_from_five_evaluators():
    systems = {figures["system"] for figures in GRADED["figures"] if figures["metric"].startswith(("err", "rbp"))}
    assert len(systems) == 5


def test_reciprocal_rank_is_expected_over_where_the_user_stops():
    # Grade 2 of 3 stops with 3/8, grade 3 with 7/8.
    assert value_of("err(max_grade=3)", in_order([2, 9, 1]), GRADES) == pytest.approx(3 / 8 + 5 / 8 * 7 / 8 / 3)
    assert value_of("err(max_grade=3)@2", in_order([2, 9, 1]), GRADES) == pytest.approx(3 / 8)
    assert value_of("err(max_grade=3, q=linear)", in_order([2, 9, 1]), GRADES) == pytest.approx(
        1 / 2 + 1 / 2 * 3 / 4 / 3
    )


def test_a_label_without_relevance_stops_half_of_the_users():
    assert value_of("err", in_order([1, 2]), ungraded([1, 2])) == 1 / 2 + 1 / 2 * 1 / 2 / 2


def test_the_ideal_of_normalised_err_is_cut_too():
    best = 7 / 8 + 1 / 8 * 3 / 8 / 2
    assert value_of("nerr(max_grade=3)@2", in_order([2, 9, 1]), GRADES) == pytest.approx(3 / 8 / best)
    assert value_of("nerr(max_grade=3)@2", in_order([1, 2, 3]), GRADES) == 1


@pytest.mark.parametrize("undefined", ["nan", "zero"])
@pytest.mark.parametrize("metric", [ERR, NERR, RBP])
def test_a_grade_above_the_largest_makes_its_user_nan_and_no_other(metric, undefined):
    chosen = {"gain": "max_grade"} if metric is RBP else {}
    users = [
        (in_order([1]), [(1, 2.0)]),
        (in_order([1]), [(1, 2.0), (7, 2.5)]),
        ([], [(1, 3.0)]),
        (in_order([1]), [(1, 1.0), (2, -5.0)]),
    ]
    made = metric(max_grade=2, undefined=undefined, **chosen)
    assert made.largest_grade == 2
    assert np.isnan(made.compute(batch_of(users))).tolist() == [False, True, True, False]


def test_a_grade_far_above_the_largest_warns_of_nothing():
    assert math.isnan(value_of("err", in_order([1]), [(1, 1e9)]))


def test_asking_again_gives_the_same_values():
    batch = batch_of([(in_order([1]), [(1, 2.0)]), (in_order([1]), [(1, 1.0)])])
    for _ in range(2):
        np.testing.assert_array_equal(ERR().compute(batch), [np.nan, 0.5])
        np.testing.assert_array_equal(ERR(max_grade=2).compute(batch), [0.75, 0.25])


def test_rank_biased_precision_by_each_gain():
    items = in_order([2, 9, 1, 5])
    assert value_of("rbp", items, GRADES) == pytest.approx(0.2 * (2 / 3 + 0.64))
    assert value_of("rbp(gain=raw)", items, GRADES) == pytest.approx(0.2 * (2 + 3 * 0.64))
    assert value_of("rbp(gain=binary, p=0.5)", items, GRADES) == pytest.approx(0.5 * (1 + 0.25))
    assert value_of("rbp(gain=binary, relevance_threshold=3)", items, GRADES) == pytest.approx(0.2 * 0.64)
    assert value_of("rbp(gain=max_grade, max_grade=4)@1", items, GRADES) == pytest.approx(0.2 * 2 / 4)


def test_the_largest_grade_of_a_user_may_be_one_that_was_not_predicted():
    assert value_of("rbp@1", in_order([2]), GRADES) == pytest.approx(0.2 * 2 / 3)


def test_gain_by_the_largest_grade_needs_one():
    with pytest.raises(MetricError, match="max_grade=4"):
        parse_metric("rbp(gain=max_grade, max_grade=None)")
    with pytest.raises(MetricError, match="max_grade=4"):
        parse_metric("rbp(gain=max_grade)").resolve()
    assert RBP().largest_grade == 2.0**992


@pytest.mark.parametrize(
    "text", ["rbp(p=0)", "rbp(p=1)", "rbp_residual(p=1)", "err(max_grade=0)", "err(max_grade=1001)"]
)
def test_a_parameter_out_of_its_range_is_refused(text):
    with pytest.raises(MetricError, match="must be a number above 0"):
        parse_metric(text)


def test_the_residual_is_what_unlabelled_items_and_the_end_leave_open():
    assert value_of("rbp_residual(p=0.5)", in_order([8, 1, 9, 3, 7]), GRADES) == 1 / 2 + 1 / 8 + 1 / 32 + 1 / 32
    assert value_of("rbp_residual(p=0.5)", in_order([1, 2]), GRADES) == 1 / 4
    assert value_of("rbp_residual(p=0.5)", in_order([8, 9]), GRADES) == 1
    assert value_of("rbp_residual", [], GRADES) == 0
    assert not RBPResidual.larger_is_better


def test_the_residual_of_a_long_labelled_list_keeps_its_digits():
    value = value_of("rbp_residual(p=0.5)", in_order(range(200)), ungraded(range(200)))
    assert value == 0.5**200


def test_precision_and_residual_are_at_most_1_together():
    batch = batch_of(random_users(np.random.default_rng(51), 200, distinct=True))
    together = RBP().compute(batch) + RBPResidual().compute(batch)
    assert (together[~np.isnan(together)] <= 1 + 1e-12).all()
