import math

import numpy as np
import pytest
from worlds.graded import check, figures_of
from worlds.ranked_users import batch_of, in_order, random_users, ungraded

from spark_rankeval.metrics import parse_metric
from spark_rankeval.metrics.rank_based import ROUNDINGS


def value(metric, *users):
    return parse_metric(metric).resolve().compute(batch_of(list(users)))


# Hits at the ranks 1, 4 and 5 of four relevant items: precision 1, 1/2, 3/5.
USER = (in_order([1, 8, 9, 2, 3]), ungraded([1, 2, 3, 4]))


@pytest.mark.parametrize(("recall", "expected"), [(0, 1), (0.25, 1), (0.26, 0.6), (0.5, 0.6), (0.75, 0.6), (0.76, 0)])
def test_interpolated_precision_is_the_highest_from_a_recall_on(recall, expected):
    assert value(f"iprec(recall={recall})", USER)[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rounding", "expected"), [("ceil", 0.6), ("floor_plus_0.9", 1), ("half_away", 1)], ids=["ceil", "floor", "half"]
)
def test_how_many_hits_make_a_recall_hangs_on_the_rounding(rounding, expected):
    # 0.26 · 4 = 1.04: two hits, or one.
    assert value(f"iprec(recall=0.26, rounding={rounding!r})", USER)[0] == pytest.approx(expected)


def n_hits(rounding, recall, relevant):
    return ROUNDINGS[rounding](recall, np.array([relevant])).tolist()[0]


def test_roundings_where_they_differ():
    assert [n_hits(rounding, 0.5, 5) for rounding in ROUNDINGS] == [3, 3, 3]
    assert [n_hits(rounding, 0.1, 5) for rounding in ROUNDINGS] == [1, 1, 1]
    assert [n_hits(rounding, 0.1, 12) for rounding in ROUNDINGS] == [2, 2, 1]
    assert [n_hits(rounding, 0.2, 12) for rounding in ROUNDINGS] == [3, 3, 2]
    assert [n_hits(rounding, 0.05, 21) for rounding in ROUNDINGS] == [2, 1, 1]
    assert [n_hits(rounding, 0.0, 7) for rounding in ROUNDINGS] == [0, 0, 0]
    assert [n_hits(rounding, 1.0, 7) for rounding in ROUNDINGS] == [7, 7, 7]


def test_a_recall_of_seven_hundredths_of_a_hundred_is_seven():
    assert 0.07 * 100 > 7
    assert n_hits("ceil", 0.07, 100) == 7


def test_eleven_points_are_the_mean_of_eleven_interpolated_precisions():
    users = random_users(np.random.default_rng(54), 200)
    for rounding in ROUNDINGS:
        eleven = [value(f"iprec(recall={tenth / 10}, rounding={rounding!r})", *users) for tenth in range(11)]
        np.testing.assert_allclose(
            value(f"iprec_11pt(rounding={rounding!r})", *users), np.mean(eleven, axis=0), atol=1e-15
        )


@pytest.mark.parametrize(("figures", "query"), figures_of("iprec", "iprec_11pt"))
def test_figure_of_another_evaluator(figures, query):
    check(figures, query)


def test_eleven_points_by_hand():
    # Recall 0 to 0.2 takes one hit, up to 0.7 three at most, above that none is left.
    assert value("iprec_11pt", USER)[0] == pytest.approx((3 * 1 + 5 * 0.6) / 11)


def test_interpolated_precision_never_rises_with_recall():
    users = random_users(np.random.default_rng(55), 200)
    figures = [value(f"iprec(recall={tenth / 10})", *users) for tenth in range(11)]
    defined = ~np.isnan(figures[0])
    assert (np.diff(figures, axis=0)[:, defined] <= 0).all()


def test_fap_is_the_harmonic_mean_of_f1_and_average_precision():
    f1, ap = value("f1@5", USER)[0], value("ap(denominator='labels')@5", USER)[0]
    assert value("fap@5", USER)[0] == pytest.approx(2 * f1 * ap / (f1 + ap))
    assert ap == pytest.approx((1 + 1 / 2 + 3 / 5) / 4)


@pytest.mark.parametrize("beta", [0.0, 0.5, 2.0])
def test_fap_weighs_by_the_square_of_beta_and_stays_within_its_parts(beta):
    f, ap = value(f"fbeta(beta={beta})@3", USER)[0], value("ap(denominator='labels')@3", USER)[0]
    fap = value(f"fap(beta={beta})@3", USER)[0]
    assert fap == pytest.approx((1 + beta**2) * f * ap / (beta**2 * f + ap))
    assert min(f, ap) - 1e-15 <= fap <= max(f, ap) + 1e-15


def test_fap_falls_with_what_is_not_relevant_at_the_end_and_average_precision_does_not():
    short, long = (in_order([1, 2, 3]), ungraded([1, 2, 3])), (in_order([1, 2, 3, 8, 9]), ungraded([1, 2, 3]))
    fap, ap = value("fap", short, long), value("ap(denominator='labels')", short, long)
    assert fap[0] == 1 > fap[1]
    assert ap.tolist() == [1, 1]


@pytest.mark.parametrize("metric", ["iprec", "iprec(recall=0.5)", "iprec_11pt", "fap", "fap@3"])
def test_edge_cases(metric):
    nothing_to_find, nothing_predicted, nothing_found = value(
        metric, (in_order([1]), []), ([], ungraded([1])), (in_order([2]), ungraded([1]))
    )
    assert math.isnan(nothing_to_find)
    assert nothing_predicted == nothing_found == 0
