"""Kappas, alpha and their intervals from counts, beside plain Python from the definitions."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import judges as oracle
from worlds.judged_items import counts_of, graded_users

from spark_rankeval.statistics.description import WithoutBlock, jackknife_interval
from spark_rankeval.statistics.judges import CORRECTED, MEASUREMENTS, SHARE

GRADES = st.sampled_from([None, 0.0, 1.0, 1.5, 3.0])
FIGURES = {
    "agreement": (oracle.agreement, SHARE),
    "kappa": (lambda pairs: oracle.kappa(pairs, 0), CORRECTED),
    "linear_kappa": (lambda pairs: oracle.kappa(pairs, 1), CORRECTED),
    "quadratic_kappa": (lambda pairs: oracle.kappa(pairs, 2), CORRECTED),
}


def items_of(n_judges):
    return st.lists(st.tuples(st.integers(0, 5), st.tuples(*[GRADES] * n_judges)), min_size=1, max_size=25)


def same(value, expected):
    return value == pytest.approx(expected, rel=1e-12, abs=1e-12, nan_ok=True)


@settings(max_examples=60, derandomize=True)
@given(st.integers(2, 4).flatmap(items_of))
def test_figures_are_those_of_their_definitions(items):
    counts = counts_of(items)
    for judge, other in counts.pairs:
        pairs, figures = oracle.pairs_of(items, judge, other), counts.pair_figures(judge, other, 0.95)
        assert figures.n_items == len(pairs)
        assert figures.n_users == len({user for user, g in items if None not in (g[judge], g[other])})
        assert figures.n_judge_only == sum(g[judge] is not None and g[other] is None for _, g in items)
        for name, (figure, _) in FIGURES.items():
            assert same(getattr(figures, name).value, figure(pairs)), name
        means = [np.mean(side) for side in zip(*pairs, strict=True)] or [math.nan] * 2
        assert same([figures.mean, figures.other_mean], means)
        grid = counts.scale.tolist()
        assert [*map(list, figures.confusion)] == [[pairs.count((a, b)) for b in grid] for a in grid]
    of_two = [user for user, grades in items if len(grades) - grades.count(None) > 1]
    for measurement in MEASUREMENTS:
        n_items, n_users, estimate = counts.alpha(0.95, measurement)
        assert same(estimate.value, oracle.alpha(items, measurement)), measurement
        assert (n_items, n_users) == (len(of_two), len(set(of_two)))


def test_intervals_leave_out_the_users_of_each_block():
    items = [(place % 25, (*pair, None)) for place, (_, pair) in enumerate(graded_users(np.random.default_rng(5), 6))]
    counts, without = counts_of(items), [[item for item in items if item[0] != user] for user in range(25)]
    figures = counts.pair_figures(0, 1, 0.9)
    cases = [(counts.alpha(0.9, "ordinal")[2], CORRECTED, [oracle.alpha(rest, "ordinal") for rest in without])]
    pairs = [oracle.pairs_of(rest, 0, 1) for rest in without]
    cases += [(getattr(figures, name), bounds, map(figure, pairs)) for name, (figure, bounds) in FIGURES.items()]
    for estimate, bounds, values in cases:
        left_out = [WithoutBlock(value, 1) for value in values]
        error, interval = jackknife_interval(estimate.value, left_out, 0.9, bounds, may_rest_on_few=True)
        assert same(estimate.standard_error, error)
        assert estimate.interval[:3] == pytest.approx(interval[:3], rel=1e-9)


@pytest.mark.parametrize(("items", "kappa", "alpha", "why"), [
    ([(user, (1.0, 1.0)) for user in range(30)], math.nan, math.nan, "all grades are the same"),
    ([(user, (1.0, None)) for user in range(30)], math.nan, math.nan, "no item has"),
    ([(user, (user % 2, user % 2)) for user in range(40)], 1.0, 1.0, "the same whoever is left out"),
    ([(0, (0.0, 0.0)), *((user, (1.0, 1.0)) for user in range(1, 40))], 1.0, 1.0, "undefined without some"),
    ([(user, (user % 2, user % 3 % 2)) for user in range(9)], None, None, "too few users"),
])  # fmt: skip
def test_what_has_no_interval_says_why(items, kappa, alpha, why):
    counts = counts_of(items)
    for estimate, expected in (
        (counts.pair_figures(0, 1, 0.95).kappa, kappa),
        (counts.alpha(0.95, "ordinal")[2], alpha),
    ):
        assert expected is None or same(estimate.value, expected)
        assert (why in estimate.interval.reason, math.isnan(estimate.interval.low)) == (True, True)


def test_thirds_leave_no_trace_of_a_grade_that_was_left_out():
    # With four judges a pair of grades counts a third, and the only other grade is that of user 0.
    items = [(user, (1.0, 1.0, 1.0, 1.0)) for user in range(1, 40) for _ in range(7)]
    items += [(0, grades) for grades in [(2.0, 1.0, 1.0, 1.0)] * 3]
    assert "undefined without some" in counts_of(items).alpha(0.95, "nominal")[2].interval.reason
