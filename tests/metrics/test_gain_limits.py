"""Gains of very small and very large grades, and what sums of gains may round to."""

import math
from fractions import Fraction

import numpy as np
import pytest

from spark_rankeval.dialects import DEFAULT
from spark_rankeval.metrics.gain_based import exponential
from spark_rankeval.metrics.naming import parse_metric
from spark_rankeval.ranking.lists import RawLists
from spark_rankeval.ranking.ragged import Ragged
from spark_rankeval.ranking.ranks import rank_lists


def value(metric, grades):
    """Of a list whose items have these grades."""
    items = Ragged.from_lists([list(range(len(grades)))], np.int64)
    batch, _ = rank_lists(RawLists(items, None, items, Ragged.from_lists([grades], np.float64)))
    return float(parse_metric(metric).resolve(DEFAULT).compute(batch)[0])


def true_gain(grade):
    """2^g − 1 to far more digits than a float has, by its series."""
    x, term, total = Fraction(grade) * Fraction(0.6931471805599453094172321214581766), Fraction(1), Fraction(0)
    for n in range(1, 30):
        term = term * x / n
        total += term
    return total


@pytest.mark.parametrize("grade", [1e-300, 1e-17, 1e-16, 1e-9, 1e-3, 0.1, 0.2499, 0.25, 0.3, 0.5, 0.99, -1e-9, -0.2])
def test_the_gain_of_a_small_grade_keeps_its_digits(grade):
    (gain,) = exponential(np.array([grade]))
    assert float(Fraction(float(gain)) / true_gain(grade)) == pytest.approx(1, rel=2e-15)


def test_gains_of_whole_grades_are_exact_and_gains_grow_with_grades():
    whole = np.arange(-5.0, 993.0)
    assert exponential(whole).tolist() == [float(Fraction(2) ** int(g) - 1) for g in whole]
    grades = np.sort(
        np.concatenate([np.linspace(-1, 2, 10_001), *(np.nextafter(x, [-9, 9]) for x in (0.25, -0.25, 1))])
    )
    assert (np.diff(exponential(grades)) >= 0).all()


@pytest.mark.parametrize("scale", [1e-300, 1e-16, 1e-9, 1.0])
def test_an_order_of_small_grades_is_judged_as_their_proportions_are(scale):
    assert value("ndcg", [2 * scale, scale]) == 1
    if scale < 1:
        # 2^g − 1 is g·ln 2 there: the list is as good as by linear gain.
        assert value("ndcg", [scale, 2 * scale]) == pytest.approx(value("ndcg(gain='linear')", [1, 2]), rel=1e-8)


@pytest.mark.parametrize(
    "metric", ["ndcg", "dcg(gain='linear')", "ndcg(gain='linear', discount='ln')", "cg", "rbp", "q", "gap"]
)
def test_sums_of_the_largest_grades_do_not_overflow(metric):
    largest = parse_metric(metric).resolve(DEFAULT).largest_grade
    assert math.isfinite(value(metric, [largest] * 1000))
    if metric != "cg" and not metric.startswith("dcg"):
        assert value(metric, [largest] * 3) == pytest.approx(value(metric, [1] * 3))


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.8, 0.95, 0.999])
@pytest.mark.parametrize("gain", ["user_max", "binary", "max_grade"])
def test_rbp_does_not_exceed_its_bound(p, gain):
    for n in (1, 50, 400, 5000):
        assert 0 < value(f"rbp(p={p}, gain={gain!r}, max_grade=3)", [3.0] * n) <= 1
    assert value(f"rbp(p={p}, gain='raw')", [3.0] * 5000) > 1.4


@pytest.mark.parametrize("discount", ["log2", "ln", "log2_from_two"])
def test_a_perfect_list_by_ones_has_exactly_1_at_every_cutoff(discount):
    for k in range(1, 130):
        assert value(f"ndcg(ideal='k_ones', discount={discount!r})@{k}", [1.0] * 130) == 1
