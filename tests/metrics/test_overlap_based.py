import itertools
import math
import string

import numpy as np
import pytest
from oracles.rankings import User
from oracles.rankings import value as value_by_oracle
from worlds.ranked_users import batch_of, in_order, random_users

from spark_rankeval.errors import MetricError
from spark_rankeval.metrics import RBO, parse_metric
from spark_rankeval.metrics.ideal_based import overlaps

ALPHABET = string.ascii_lowercase
# Of rbo_ext, the program of the paper's first author, as recorded in the tests of the Rust crate rbo 0.2.
AGAINST_THE_ALPHABET = [
    ("akdwcjomxrubqitenhspyl", 0.1, 0.948509),
    ("kapotqxc", 0.1, 0.048245),
    ("b", 0.2, 0.092574),
    ("bqidkgvstfyaxejpwhloumc", 0.2, 0.094491),
    ("yad", 0.4, 0.187572),
    ("afdqwtvehcpubinloygrs", 0.4, 0.782330),
    ("karfvodcjmwgzlypebunq", 0.9, 0.468431),
    ("fcjdeoa", 0.9, 0.557926),
    ("bj", 0.9, 0.474895),
    ("qt", 0.9, 0.014065),
    ("kxcnarvmwyp", 0.99, 0.529392),
    ("cgpadjwrxqzktnmlouhebsfv", 0.99, 0.901064),
    ("l", 0.99, 0.036660),
]


def compared(first, second):
    """A list as predictions, another as labels."""
    number = ALPHABET.index
    grades = range(len(second), 0, -1)
    return in_order(map(number, first)), [(number(i), float(g)) for i, g in zip(second, grades, strict=True)]


def rbo(*users, k=None, p=0.9):
    return RBO(k=k, p=p).compute(batch_of(list(users)))


@pytest.mark.parametrize(("other", "p", "expected"), AGAINST_THE_ALPHABET)
def test_two_lists_have_the_figure_of_the_authors_program_whichever_comes_first(other, p, expected):
    both = rbo(compared(other, ALPHABET), compared(ALPHABET, other), p=p)
    assert both == pytest.approx(expected, rel=0, abs=6e-7)


def test_the_papers_example_agrees_at_every_depth():
    # Webber, Moffat, Zobel 2010, figure 5.
    shared = overlaps(batch_of([compared("abcdefg", "zcavwxy")]))
    np.testing.assert_allclose(shared / np.arange(1, 8), [0, 0, 0.667, 0.5, 0.4, 0.333, 0.286], atol=5e-4)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("length", [1, 2, 7, 26])
def test_equal_lists_are_worth_1_and_lists_with_nothing_in_common_0(p, length):
    equal, different = rbo(compared(ALPHABET[:length], ALPHABET[:length]), compared("abc", "xyz"), p=p)
    assert equal == pytest.approx(1, abs=1e-14)
    assert different == 0


def test_a_list_that_begins_like_the_labels_is_worth_1():
    assert rbo(compared("abc", ALPHABET), compared(ALPHABET, "abc")) == pytest.approx(1, abs=1e-14)


def test_the_default_goes_on_with_nine_tenths():
    batch = batch_of([compared("acbed", "abcde")])
    assert parse_metric("rbo").compute(batch) == RBO(p=0.9).compute(batch) != RBO(p=0.8).compute(batch)


def test_by_hand():
    # s = 1, l = 2; X_1 = 0, X_2 = 1: 0.1/0.9 · 1/2 · 0.81 + 1/2 · 0.81.
    assert rbo(compared("b", "ab"))[0] == pytest.approx(0.1 / 0.9 * 0.5 * 0.81 + 0.5 * 0.81)
    # Both items share places 1 and 2: X_1 = 1/2, X_2 = 2.
    user = (in_order([1, 2]), [(1, 1.0), (2, 1.0)])
    assert rbo(user)[0] == pytest.approx(0.1 / 0.9 * (0.5 * 0.9 + 0.81) + 0.81)


@pytest.mark.parametrize("k", [1, 3, 5, 30])
def test_a_cutoff_cuts_both_lists(k):
    rng = np.random.default_rng(71)
    pairs = ["".join(rng.permutation(list(ALPHABET))[: rng.integers(1, 27)]) for _ in range(40)]
    pairs = list(zip(pairs[::2], pairs[1::2], strict=True))
    cut = rbo(*(compared(first[:k], second[:k]) for first, second in pairs))
    np.testing.assert_allclose(rbo(*(compared(*pair) for pair in pairs), k=k), cut, atol=1e-15)


def is_best_first(labels):
    return all(above >= below for (_, above), (_, below) in itertools.pairwise(labels))


@pytest.mark.parametrize("k", [None, 2, 4])
def test_equal_grades_have_the_mean_over_all_their_orders(k):
    rng = np.random.default_rng(72)
    for _ in range(20):
        predictions = in_order(rng.permutation(8)[: rng.integers(1, 9)].tolist())
        labels = [(item, float(grade)) for item, grade in zip(range(6), rng.integers(-1, 3, 6), strict=True)]
        orders = [order for order in itertools.permutations(labels) if is_best_first(order)]
        untied = [(predictions, [(item, -float(j)) for j, (item, _) in enumerate(order)]) for order in orders]
        assert rbo((predictions, labels), k=k)[0] == pytest.approx(rbo(*untied, k=k).mean(), abs=1e-14)


def test_labels_that_are_not_relevant_are_shared_too():
    negative = [(item, grade - 100) for item, grade in compared("", "abcde")[1]]
    assert rbo((compared("aecfb", "")[0], negative)) == rbo(compared("aecfb", "abcde"))


def test_without_labels_it_is_undefined_and_without_predictions_0():
    undefined, nothing, nothing_shared = rbo(compared("abc", ""), compared("", "abc"), compared("x", "abc"))
    assert math.isnan(undefined)
    assert nothing == nothing_shared == 0
    assert parse_metric("rbo(undefined='zero')").compute(batch_of([compared("abc", "")])) == 0


def test_what_is_shared_far_below_keeps_its_digits():
    # The overlap begins at depth 60, where p^60 is 1e-18: sums over the whole depth would have lost it.
    far = in_order([*range(100, 159), 0, 1]), [(item, 90.0 - item) for item in [*range(59), *range(200, 220)]]
    expected = value_by_oracle("rbo", User(*far), p=0.5)
    assert 0 < expected < 1e-17
    assert rbo(far, p=0.5)[0] == pytest.approx(expected, rel=1e-9)


def test_values_equal_the_oracle_where_depth_matters():
    users = random_users(np.random.default_rng(73), 200, longest=60, most_labels=60, n_items=80)
    for k in (None, 5, 50):
        for p in (0.3, 0.99):
            expected = [value_by_oracle("rbo", User(*user), k, p=p) for user in users]
            np.testing.assert_allclose(rbo(*users, k=k, p=p), expected, rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("p", [0, 1, -0.1, 1.1, math.nan, "often", None, True])
def test_a_probability_that_is_none_is_an_error(p):
    with pytest.raises(MetricError, match="rbo: p must be a number above 0 and below 1"):
        RBO(p=p)


def test_very_long_lists_are_compared_at_once():
    n = 100_000
    rng = np.random.default_rng(74)
    user = (
        in_order(rng.permutation(n).tolist()),
        [(item, float(grade)) for item, grade in enumerate(rng.permutation(n))],
    )
    assert 0 <= rbo(user)[0] < 0.01
    # Of the first d of n random places d²/n are shared: with 1 − p = 1/n the mean agreement is 1 − 1/e.
    assert rbo(user, p=1 - 1 / n)[0] == pytest.approx(1 - 1 / math.e, abs=0.01)
