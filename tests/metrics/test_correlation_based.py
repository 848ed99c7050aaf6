import itertools
import math
import warnings

import numpy as np
import pytest
from helpers.effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from worlds.ranked_users import batch_of, in_order, random_users, ungraded

from spark_rankeval.metrics import parse_metric
from spark_rankeval.metrics.correlation_based import n_as_large_before

COEFFICIENTS = {
    "pearson": stats.pearsonr,
    "spearman": stats.spearmanr,
    "kendall_tau": lambda x, y: stats.kendalltau(x, y, variant="b"),
}


def value(metric, *users, **options):
    return parse_metric(metric).resolve().compute(batch_of(list(users), **options))


def graded(*grades):
    return list(enumerate(map(float, grades), start=1))


def both(user):
    """Scores and grades of the items in both tables."""
    grades = dict(user[1])
    pairs = [(score, grades[item]) for item, score in user[0] if item in grades]
    return [score for score, _ in pairs], [grade for _, grade in pairs]


@pytest.mark.parametrize("name", COEFFICIENTS)
def test_coefficients_are_scipys(name):
    users = random_users(np.random.default_rng(56), 500, distinct=True, longest=40, most_labels=30, n_items=50)
    actual, n_defined = value(name, *users), 0
    for figure, user in zip(actual, users, strict=True):
        scores, grades = both(user)
        if len(set(scores)) < 2 or len(set(grades)) < 2:
            assert math.isnan(figure)
            continue
        n_defined += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", stats.NearConstantInputWarning)
            assert figure == pytest.approx(COEFFICIENTS[name](scores, grades).statistic, abs=1e-12)
    assert n_defined > 100


@pytest.mark.parametrize("name", COEFFICIENTS)
@pytest.mark.parametrize(("items", "expected"), [([1, 2, 3], 1), ([3, 2, 1], -1)], ids=["best first", "best last"])
def test_coefficients_of_a_list_without_scores_go_by_rank(name, items, expected):
    assert value(name, (in_order(items), graded(3, 2, 1)))[0] == expected


@pytest.mark.parametrize("name", [*COEFFICIENTS, "tau_ap", "kendall_distance"])
def test_unlabelled_items_and_labels_that_were_not_predicted_change_nothing(name):
    alone = (in_order([2, 1, 3]), graded(3, 2, 1))
    among = ([(2, 9.0), (70, 8.0), (1, 8.0), (71, 7.0), (3, 7.0)], [*graded(3, 2, 1), (80, 5.0), (81, 1.0)])
    np.testing.assert_allclose(value(name, alone), value(name, among), atol=1e-15)


@pytest.mark.parametrize("name", [*COEFFICIENTS, "tau_ap", "kendall_distance"])
@pytest.mark.parametrize(
    "user",
    [([], graded(1, 2)), (in_order([1]), graded(1, 2)), (in_order([1, 2]), ungraded([1, 2])), (in_order([1]), [])],
    ids=["no predictions", "one item", "grades all equal", "no labels"],
)
def test_what_cannot_be_compared_is_undefined(name, user):
    assert math.isnan(value(name, user)[0])
    assert value(f"{name}(undefined='zero')", user)[0] == 0


@pytest.mark.parametrize("name", COEFFICIENTS)
def test_equal_scores_are_undefined(name):
    assert math.isnan(value(name, ([(1, 0.1), (2, 0.1), (3, 0.1)], graded(1, 2, 3)))[0])


@pytest.mark.parametrize(
    "scores",
    [[1e308, -1e308, 1e307], [5e-324, 1e-323, 0.0], [1e16, 1e16 + 2, 1e16 + 4], [1e-200, 2e-200, 1e200]],
    ids=["very large", "very small", "near one another", "far apart"],
)
def test_pearson_keeps_its_digits(scores):
    simple = {1e308: [10.0, -10.0, 1.0], 5e-324: [1.0, 2.0, 0.0], 1e16: [0.0, 1.0, 2.0], 1e-200: [0.0, 0.0, 1.0]}
    user = (list(enumerate(scores, start=1)), graded(1, 3, 2))
    expected = stats.pearsonr(simple[scores[0]], [1, 3, 2]).statistic
    assert value("pearson", user)[0] == pytest.approx(expected, abs=1e-13)


def test_pearson_of_an_infinite_score_is_undefined_and_ranks_are_not():
    user = ([(1, math.inf), (2, 0.5), (3, -math.inf)], graded(3, 2, 1))
    assert math.isnan(value("pearson", user)[0])
    assert value("spearman", user)[0] == value("kendall_tau", user)[0] == 1


def test_kendall_distance_is_the_share_of_pairs_in_the_wrong_order():
    # Grades 2, 3, 1, 1 down the list: of five pairs of different grades one is wrong.
    user = (in_order([2, 1, 3, 4]), graded(3, 2, 1, 1))
    assert value("kendall_distance", user)[0] == pytest.approx(1 / 5)
    assert value("kendall_distance@2", user)[0] == 1
    assert value("kendall_distance@3", user)[0] == pytest.approx(1 / 3)
    assert math.isnan(value("kendall_distance@1", user)[0])


def test_kendall_distance_counts_places_of_the_list_and_not_labelled_items():
    user = (in_order([2, 90, 1]), graded(3, 2))
    assert math.isnan(value("kendall_distance@2", user)[0])
    assert value("kendall_distance@3", user)[0] == 1


def distance_of_lists(first, second, k):
    """Seed 001: over the items that both lists have in their first k places, the share of pairs in opposite order."""
    common = [item for item in first[:k] if item in second[:k]]
    pairs = list(itertools.combinations(common, 2))
    opposite = sum(second.index(above) > second.index(below) for above, below in pairs)
    return opposite / (len(common) * (len(common) - 1) / 2) if pairs else math.nan


def as_labels(items):
    """A list as labels: grades fall with the rank."""
    return list(zip(items, map(float, range(len(items), 0, -1)), strict=True))


@pytest.mark.parametrize("k", [1, 2, 5, 10, 40])
def test_the_distance_of_two_lists_is_that_of_the_items_in_both_top_ks(k):
    rng = np.random.default_rng(59)
    pairs = [tuple(rng.permutation(30)[: rng.integers(0, 31)].tolist() for _ in "ab") for _ in range(100)] + [
        ([1, 2, 3], [3, 2, 1]),
        ([1, 2], [1, 2]),
    ]
    expected = [distance_of_lists(*pair, k) for pair in pairs]
    assert k == 1 or not np.isnan(expected).all()
    for pair_of in (lambda a, b: (in_order(a), as_labels(b)), lambda a, b: (in_order(b), as_labels(a))):
        users = [pair_of(*pair) for pair in pairs]
        np.testing.assert_allclose(value(f"kendall_distance(labels='best_k')@{k}", *users), expected, atol=1e-15)


def test_labels_that_share_the_last_of_the_best_places_all_count():
    # Of five labels one is best and three are second: the two best places hold all four.
    user = (in_order([2, 1, 5, 3, 4]), graded(3, 2, 2, 2, 1))
    assert value("kendall_distance(labels='best_k')@2", user)[0] == 1
    assert value("kendall_distance(labels='best_k')@5", user)[0] == value("kendall_distance@5", user)[0]
    lowest_first = (in_order([5, 1, 2]), graded(3, 2, 2, 2, 1))
    assert value("kendall_distance@3", lowest_first)[0] == pytest.approx(2 / 3)
    assert value("kendall_distance(labels='best_k')@3", lowest_first)[0] == 0
    assert value("kendall_distance(labels='best_k')", lowest_first)[0] == value("kendall_distance", lowest_first)[0]


def test_without_ties_the_distance_is_half_of_one_less_tau():
    rng = np.random.default_rng(57)
    users = [(in_order(rng.permutation(20).tolist()), list(enumerate(range(20)))) for _ in range(50)]
    np.testing.assert_allclose(value("kendall_distance", *users), (1 - value("kendall_tau", *users)) / 2, atol=1e-14)


def test_tau_ap_by_hand():
    # Grades 2, 3, 1 down the list: of the second item none above is right, of the third both.
    assert value("tau_ap", (in_order([2, 1, 3]), graded(3, 2, 1)))[0] == pytest.approx(2 / 2 * (0 / 1 + 2 / 2) - 1)
    # An item above of equal grade is half right.
    assert value("tau_ap", (in_order([1, 2, 3]), graded(2, 2, 1)))[0] == pytest.approx(2 / 2 * (0.5 + 1) - 1)


def test_tau_ap_weighs_a_mistake_at_the_top_for_more():
    top, bottom = (in_order([2, 1, 3, 4]), graded(4, 3, 2, 1)), (in_order([1, 2, 4, 3]), graded(4, 3, 2, 1))
    at_top, at_bottom = value("tau_ap", top, bottom)
    assert at_top < at_bottom
    assert len(set(value("kendall_tau", top, bottom).tolist())) == 1


@pytest.mark.parametrize(("items", "expected"), [([1, 2, 3, 4], 1), ([4, 3, 2, 1], -1)])
def test_tau_ap_of_the_best_and_the_worst_order(items, expected):
    assert value("tau_ap", (in_order(items), graded(4, 3, 2, 1)))[0] == expected


@settings(max_examples=examples(60, 400), deadline=None, derandomize=True)
@given(st.lists(st.lists(st.integers(0, 5).map(float), max_size=20), max_size=6))
def test_entries_before_are_counted_as_by_a_double_loop(lists):
    user = np.repeat(np.arange(len(lists)), [len(keys) for keys in lists])
    counts = n_as_large_before(user, np.array([key for keys in lists for key in keys]), len(lists))
    assert counts.tolist() == [sum(above >= key for above in keys[:i]) for keys in lists for i, key in enumerate(keys)]


def test_a_very_long_list_needs_no_table_of_pairs():
    n = 200_000
    grades = np.random.default_rng(58).integers(0, 1000, n).astype(float)
    user = (in_order(range(n)), list(enumerate(grades.tolist())))
    expected = stats.kendalltau(-np.arange(n), grades).statistic
    assert value("kendall_tau", user)[0] == pytest.approx(expected, abs=1e-12)
