import math
from fractions import Fraction

import numpy as np
import pytest
from oracles.rankings import User, value
from worlds.graded import GRADED, check, figures_of, value_of
from worlds.ranked_users import batch_of, in_order, random_users

from spark_rankeval.errors import MetricError
from spark_rankeval.metrics import AveragePrecision, GradedAveragePrecision, QMeasure, parse_metric, sums_of_minima

GRADES = [(1, 3.0), (2, 2.0), (3, 0.0), (4, 1.0), (5, -1.0)]
BATCH = batch_of(random_users(np.random.default_rng(52), 200, distinct=True))


@pytest.mark.parametrize(("figures", "query"), figures_of("gap", "q"))
def test_figure_of_another_evaluator(figures, query):
    check(figures, query)


@pytest.mark.parametrize("metric", ["gap", "gap(probabilities='1,1,1')"])
def test_graded_average_precision_of_one_list_of_grades(metric):
    grades = GRADED["infernet"]["grades"]
    actual = value_of(metric, in_order(range(len(grades))), [(i, float(grade)) for i, grade in enumerate(grades)])
    assert actual == pytest.approx(GRADED["infernet"]["gap"], abs=1e-12)


def test_graded_average_precision_by_hand():
    # Grades 1, -, 3, 2: 1, then (1 + 3)/3, then (1 + 2 + 2)/4, of 3 + 2 + 1.
    assert value_of("gap", in_order([4, 9, 1, 2]), GRADES) == pytest.approx((1 + 4 / 3 + 5 / 4) / 6)
    assert value_of("gap@3", in_order([4, 9, 1, 2]), GRADES) == pytest.approx((1 + 4 / 3) / 6)
    # Enough for .5, .8, 1 of the users.
    weighed = value_of("gap(probabilities='0.5,0.3,0.2')", in_order([4, 9, 1, 2]), GRADES)
    assert weighed == pytest.approx((0.5 + (0.5 + 1) / 3 + (0.5 + 0.8 + 0.8) / 4) / 2.3)


def test_grades_beyond_the_probabilities_are_enough_and_those_between_count_as_the_lower():
    labels = [(1, 7.0), (2, 2.0), (3, 1.9), (4, 0.5)]
    same = [(1, 2.0), (2, 2.0), (3, 1.0), (4, 0.0)]
    text, items = "gap(probabilities='0.6,0.4')", in_order([3, 4, 2, 9, 1])
    assert value_of(text, items, labels) == value_of(text, items, same)


def test_a_grade_that_is_enough_for_nobody_gains_nothing():
    assert value_of("gap(probabilities='0,1')", in_order([1]), [(1, 1.0)]) == 0


def test_binary_labels_make_it_average_precision_of_all_labels():
    users = random_users(np.random.default_rng(53), 100, distinct=True, grades=(0.0, 1.0))
    batch = batch_of(users)
    for k in (None, 3, 10):
        expected = AveragePrecision(k=k, denominator="labels").compute(batch)
        np.testing.assert_allclose(GradedAveragePrecision(k=k).compute(batch), expected, rtol=1e-14)


def test_many_different_grades_equal_the_oracle():
    rng = np.random.default_rng(54)
    items = rng.permutation(400).tolist()
    user = (in_order(items), list(zip(items[:300], rng.random(300).tolist(), strict=True)))
    assert GradedAveragePrecision().compute(batch_of([user]))[0] == pytest.approx(value("gap", User(*user)), rel=1e-12)


def sums_of_lesser(worth):
    whole = list(map(Fraction, worth))
    return [float(sum(min(other, value) for other in whole[: n + 1])) for n, value in enumerate(whole)]


def random_worths(rng, kind, size):
    if kind == "far apart":
        return 2.0 ** rng.uniform(-900, 900, size)
    return rng.random(size) if kind == "fractions" else np.round(rng.random(size), 2) + 1


@pytest.mark.parametrize("kind", ["fractions", "far apart", "repeated"])
def test_many_different_grades_add_up_as_fractions_do(kind, monkeypatch):
    monkeypatch.setattr(sums_of_minima, "_MOST_LEVELS", 20)
    rng = np.random.default_rng(55)
    worths = [random_worths(rng, kind, size).tolist() for size in (150, 3, 60)]
    user = np.repeat(np.arange(4), [150, 0, 3, 60])
    actual = sums_of_minima.sums_of_minima(user, np.concatenate(worths), 4).tolist()
    assert actual[:150] + actual[153:] == sums_of_lesser(worths[0]) + sums_of_lesser(worths[2])
    np.testing.assert_allclose(actual[150:153], sums_of_lesser(worths[1]), rtol=1e-15)


@pytest.mark.parametrize("size", [1, 2, 3, 31, 32, 33, 150])
@pytest.mark.parametrize("unit", [1.0, 0.1, 5e-324, 1e-300, 1e300])
def test_the_exact_sum_of_any_number_of_grades_of_any_size_is_that_of_fractions(size, unit):
    rng = np.random.default_rng(58)
    for worth in (rng.integers(1, 10**6, size) * unit, np.maximum(rng.random(size) ** 4, 0.01) * 100 * unit):
        assert sums_of_minima.exact_sums_of_minima(worth).tolist() == sums_of_lesser(worth.tolist())


def test_whole_grades_have_the_same_digits_added_by_levels_or_exactly(monkeypatch):
    rng = np.random.default_rng(56)
    user, worth = np.sort(rng.integers(0, 5, 600)), rng.integers(1, 10**6, 600).astype(float)
    by_levels = sums_of_minima.sums_of_minima(user, worth, 5)
    monkeypatch.setattr(sums_of_minima, "_MOST_LEVELS", 0)
    np.testing.assert_array_equal(sums_of_minima.sums_of_minima(user, worth, 5), by_levels)


def test_a_user_of_forty_thousand_grades_takes_no_time_that_grows_with_their_square():
    rng = np.random.default_rng(57)
    worth = rng.permutation(40_000) + 0.1
    total = sums_of_minima.sums_of_minima(np.zeros(40_000, np.int64), worth, 1)
    # The last entry of all meets every other.
    assert total[-1] == float(sum(map(Fraction, np.minimum(worth, worth[-1]).tolist())))


@pytest.mark.parametrize("probabilities", ["0.5,0.3,0.2", " 0.5, .3,2e-1", (0.5, 0.3, 0.2), [0.5, 0.3, 0.2]])
def test_equal_probabilities_have_one_text_that_reads_back(probabilities):
    metric = GradedAveragePrecision(k=10, probabilities=probabilities)
    assert str(metric) == "gap(probabilities='0.5,0.3,0.2')@10"
    assert parse_metric(str(metric)) == metric
    assert metric.resolve().probabilities == metric.probabilities


@pytest.mark.parametrize("probabilities", ["", "a", "0.5,", "0,0", "-1,2", "nan", "inf", (), (None,), True, "0.5;0.5"])
def test_what_are_no_probabilities_is_refused(probabilities):
    with pytest.raises(MetricError, match="probabilities must be numbers from 0 on"):
        GradedAveragePrecision(probabilities=probabilities)


def test_q_measure_by_hand():
    # Grades 2, -, 3; ideal gains 3, 5, 6 add up.
    assert value_of("q", in_order([2, 9, 1]), GRADES) == pytest.approx(((1 + 2) / (1 + 3) + (2 + 5) / (3 + 6)) / 3)
    assert value_of("q@2", in_order([2, 9, 1]), GRADES) == pytest.approx((1 + 2) / (1 + 3) / 2)
    assert value_of("q(beta=2)@1", in_order([2, 9, 1]), GRADES) == pytest.approx((1 + 4) / (1 + 6))


def test_the_q_measure_counts_the_gain_of_what_is_not_relevant_unless_it_is_to_lose_it():
    items = in_order([4, 1])
    assert value_of("q(relevance_threshold=2)", items, GRADES) == pytest.approx((1 + 4) / (2 + 5) / 2)
    assert value_of("q(relevance_threshold=2, below_threshold=zero)", items, GRADES) == pytest.approx(
        (1 + 3) / (2 + 5) / 2
    )


def test_without_a_bonus_the_q_measure_is_average_precision():
    for k in (None, 3):
        expected = AveragePrecision(k=k, denominator="min_k_labels").compute(BATCH)
        np.testing.assert_allclose(QMeasure(k=k, beta=0).compute(BATCH), expected, rtol=1e-14)


def test_the_q_measure_is_defined_by_relevance_and_not_by_gain():
    assert math.isnan(value_of("q(relevance_threshold=4)", in_order([1]), GRADES))
    assert value_of("q(relevance_threshold=-inf)", in_order([3]), [(3, 0.0)]) == 1
