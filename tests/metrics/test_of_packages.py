"""Coefficients and areas are those of SciPy and scikit-learn, to their digits and at their edges."""

import itertools
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import auc as area_under
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score
from worlds.ranked_users import in_order, random_users, ungraded, value_of, values_of

from spark_rankeval.metrics.beyond_accuracy import n_as_large_before

# ---- scores and grades: coefficients

COEFFICIENTS = {
    "pearson": stats.pearsonr,
    "spearman": stats.spearmanr,
    "kendall_tau": lambda x, y: stats.kendalltau(x, y, variant="b"),
}


def graded(*grades):
    return list(enumerate(map(float, grades), start=1))


def both(user):
    """Scores and grades of the items in both tables."""
    grades = dict(user[1])
    pairs = [(score, grades[item]) for item, score in user[0] if item in grades]
    return [score for score, _ in pairs], [grade for _, grade in pairs]


@pytest.mark.parametrize("name", COEFFICIENTS)
def test_coefficients_are_scipys(name):
    users = random_users(np.random.default_rng(56), 250, distinct=True, longest=40, most_labels=30, n_items=50)
    n_defined = 0
    for figure, user in zip(values_of(name, *users), users, strict=True):
        scores, grades = both(user)
        if len(set(scores)) < 2 or len(set(grades)) < 2:
            assert math.isnan(figure)
            continue
        n_defined += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", stats.NearConstantInputWarning)
            assert figure == pytest.approx(COEFFICIENTS[name](scores, grades).statistic, abs=1e-12)
    assert n_defined > 50
    # A list without scores goes by rank; without differences there is no value.
    assert value_of(name, in_order([1, 2, 3]), graded(3, 2, 1)) == 1
    assert value_of(name, in_order([3, 2, 1]), graded(3, 2, 1)) == -1
    assert math.isnan(value_of(name, [(1, 0.1), (2, 0.1), (3, 0.1)], graded(1, 2, 3)))


@pytest.mark.parametrize("name", [*COEFFICIENTS, "tau_ap", "kendall_distance"])
def test_items_of_one_table_alone_change_nothing_and_what_cannot_be_compared_is_undefined(name):
    among = [(2, 9.0), (70, 8.0), (1, 8.0), (71, 7.0), (3, 7.0)], [*graded(3, 2, 1), (80, 5.0), (81, 1.0)]
    assert value_of(name, *among) == pytest.approx(value_of(name, in_order([2, 1, 3]), graded(3, 2, 1)), abs=1e-15)
    for items, labels in (([], graded(1, 2)), ([1], graded(1, 2)), ([1, 2], ungraded([1, 2])), ([1], [])):
        assert math.isnan(value_of(name, in_order(items), labels)), (items, labels)
        assert value_of(f"{name}(undefined='zero')", in_order(items), labels) == 0


@pytest.mark.parametrize(
    ("scores", "simple"),
    [
        ([1e308, -1e308, 1e307], [10.0, -10.0, 1.0]), ([5e-324, 1e-323, 0.0], [1.0, 2.0, 0.0]),
        ([1e16, 1e16 + 2, 1e16 + 4], [0.0, 1.0, 2.0]), ([1e-200, 2e-200, 1e200], [0.0, 0.0, 1.0]),
    ],
)  # fmt: skip
def test_pearson_keeps_its_digits(scores, simple):
    expected = stats.pearsonr(simple, [1, 3, 2]).statistic
    assert value_of("pearson", list(enumerate(scores, start=1)), graded(1, 3, 2)) == pytest.approx(expected, abs=1e-13)


def distance_of_lists(first, second, k):
    """Seed 001: over the items that both lists have in their first k places, the share of pairs in opposite order."""
    common = [item for item in first[:k] if item in second[:k]]
    pairs = list(itertools.combinations(common, 2))
    return sum(second.index(a) > second.index(b) for a, b in pairs) / len(pairs) if pairs else math.nan


@pytest.mark.parametrize("k", [1, 2, 5, 10, 40])
def test_the_distance_of_two_lists_is_that_of_the_items_in_both_top_ks(k):
    rng = np.random.default_rng(59)
    pairs = [tuple(rng.permutation(30)[: rng.integers(0, 31)].tolist() for _ in "ab") for _ in range(100)]
    pairs += [([1, 2, 3], [3, 2, 1]), ([1, 2], [1, 2])]
    expected = [distance_of_lists(*pair, k) for pair in pairs]
    assert k == 1 or not np.isnan(expected).all()
    for one, other in ((0, 1), (1, 0)):
        # A list as labels: grades fall with the rank.
        users = [(in_order(pair[one]), [(i, -float(j)) for j, i in enumerate(pair[other])]) for pair in pairs]
        np.testing.assert_allclose(values_of(f"kendall_distance(labels='best_k')@{k}", *users), expected, atol=1e-15)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.lists(st.integers(0, 5).map(float), max_size=20), max_size=6))
def test_entries_before_are_counted_as_by_a_double_loop(lists):
    user = np.repeat(np.arange(len(lists)), [len(keys) for keys in lists])
    counts = n_as_large_before(user, np.array([key for keys in lists for key in keys]), len(lists))
    assert counts.tolist() == [sum(above >= key for above in keys[:i]) for keys in lists for i, key in enumerate(keys)]


def test_a_very_long_list_needs_no_table_of_pairs():
    n = 100_000
    grades = np.random.default_rng(58).integers(0, 1000, n).astype(float)
    expected = stats.kendalltau(-np.arange(n), grades).statistic
    found = value_of("kendall_tau", in_order(range(n)), list(enumerate(grades.tolist())))
    assert found == pytest.approx(expected, abs=1e-12)


# ---- scores and relevance: areas


# Lists whose labels were all scored, with both classes: where scikit-learn's vectors and our lists are the same thing.
def complete_users(rng, n_users=36, longest=60):
    users = []
    for nth in range(n_users):
        n = int(rng.integers(2, longest))
        n_hits = int(rng.integers(1, n))
        scores = [rng.normal(size=n), rng.integers(0, 4, n) / 4, np.full(n, 0.5)][nth % 3]
        items = rng.permutation(n)
        users.append((list(zip(items.tolist(), scores.tolist(), strict=True)), ungraded(items[:n_hits].tolist())))
    return users


COMPLETE = complete_users(np.random.default_rng(51))


def vectors(user):
    """Truth and score of the items of a list in rank order."""
    ranked = sorted(user[0], key=lambda pair: (-pair[1], pair[0]))
    relevant = {item for item, _ in user[1]}
    return [item in relevant for item, _ in ranked], [score for _, score in ranked]


def of_sklearn(score, weight_of=None):
    """What scikit-learn says of each user, whose places have weights."""
    told = []
    for truth, scores in map(vectors, COMPLETE):
        weight = None if weight_of is None else weight_of(np.arange(len(truth)))
        told.append(score(truth, scores, sample_weight=weight) if weight is None or weight[truth].any() else 0.0)
    return told


def area_of_points(truth, scores, sample_weight=None):
    precision, recall, _ = precision_recall_curve(truth, scores)
    return area_under(recall, precision)


def listed(*weights):
    return lambda places: np.array(weights)[np.minimum(places, len(weights) - 1)]


@pytest.mark.parametrize(
    ("metric", "score", "weight_of"),
    [
        *((f"auc(decay={decay})", roc_auc_score, lambda n, decay=decay: decay**n) for decay in (1.0, 0.999, 0.5)),
        ("auc_pr", area_of_points, None),
        ("auc_pr(recall='hits')", area_of_points, None),
        ("ap(by='threshold', denominator='labels')", average_precision_score, None),
        ("ap(by='threshold', denominator='hits')", average_precision_score, None),
        ("ap(by='threshold', decay=0.8)", average_precision_score, lambda n: 0.8**n),
        ("ap(by='threshold', decay=0.3)", average_precision_score, lambda n: 0.3**n),
        ("ap(by='threshold', weights='1,0.5,0.25')", average_precision_score, listed(1.0, 0.5, 0.25)),
        ("ap(by='threshold', weights='0,2,1')", average_precision_score, listed(0.0, 2.0, 1.0)),
    ],
)
def test_areas_are_scikit_learns(metric, score, weight_of):
    np.testing.assert_allclose(values_of(metric, *COMPLETE), of_sklearn(score, weight_of), rtol=0, atol=1e-12)
    users = random_users(np.random.default_rng(53), 100, distinct=True)
    if weight_of is None:
        # Equal scores count as equal, in any order.
        one, other = (values_of(metric, *users, ties=ties) for ties in ("item_asc", "item_desc"))
        np.testing.assert_array_equal(one, other)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    user=st.lists(st.tuples(st.booleans(), st.sampled_from([0.1, 0.2, 0.3, 0.4])), min_size=2, max_size=12),
    decay=st.sampled_from([1.0, 0.9, 0.3]),
)
def test_auc_is_scikit_learns_on_any_list(user, decay):
    if len({relevant for relevant, _ in user}) < 2:
        return
    user = [(n, s) for n, (_, s) in enumerate(user)], ungraded([n for n, (relevant, _) in enumerate(user) if relevant])
    truth, scores = vectors(user)
    expected = roc_auc_score(truth, scores, sample_weight=decay ** np.arange(len(truth)))
    assert value_of(f"auc(decay={decay})", *user) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("hit", [1, 2999, 3000])
def test_weights_too_small_for_a_float(hit):
    """Of 3000 items one is relevant, or all but one: decay^2999 is 0 in doubles, the quotient is not."""
    items, weight = range(1, 3001), [Fraction(1, 2) ** j for j in range(3000)]
    others = sum(weight) - weight[hit - 1]
    for hits, won in (([hit], sum(weight[hit:])), ([i for i in items if i != hit], sum(weight[: hit - 1]))):
        found = value_of("auc(decay=0.5)", in_order(items), ungraded(hits))
        assert found == pytest.approx(float(won / others), rel=1e-12, abs=1e-300)
    # A common factor of weights too small for a float cancels.
    assert 0 <= value_of("ap(by='threshold', decay=0.5)", in_order(items), ungraded([2999, 3000])) < 1e-300
