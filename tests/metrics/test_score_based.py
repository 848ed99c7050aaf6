import math
from fractions import Fraction

import numpy as np
import pytest
from helpers.effort import examples, part_of
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import auc as area_under
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score
from worlds.ranked_users import batch_of, in_order, random_users, ungraded

from spark_rankeval.errors import MetricError
from spark_rankeval.metrics import parse_metric


def value(metric, *users, **options):
    return parse_metric(metric).resolve().compute(batch_of(list(users), **options))


def scored(*scores):
    return list(enumerate(scores))


N_COMPLETE = examples(90, 150)


# Lists whose labels were all scored, with both classes: where scikit-learn's vectors and our lists are the same thing.
def complete_users(seed, n_users=N_COMPLETE, longest=60):
    rng = np.random.default_rng(seed)
    users = []
    for nth in range(n_users):
        n = int(rng.integers(2, longest))
        n_hits = int(rng.integers(1, n))
        scores = [rng.normal(size=n), rng.integers(0, 4, n) / 4, np.full(n, 0.5)][nth % 3]
        items = rng.permutation(n)
        users.append((list(zip(items.tolist(), scores.tolist(), strict=True)), ungraded(items[:n_hits].tolist())))
    return users


COMPLETE = complete_users(51)


def vectors(user):
    """Truth and score of the items of a list in rank order."""
    ranked = sorted(user[0], key=lambda pair: (-pair[1], pair[0]))
    relevant = {item for item, _ in user[1]}
    return [item in relevant for item, _ in ranked], [score for _, score in ranked]


@pytest.mark.parametrize(
    ("items", "expected"), [([1, 2, 3], 0.0), ([2, 1, 3], 0.5), ([2, 3, 1], 1.0), ([1], 0.0), ([2], math.nan)]
)
def test_percentile_rank_is_the_place_of_the_hit_from_0_to_1(items, expected):
    np.testing.assert_equal(value("percentile_rank", (in_order(items), ungraded([1])))[0], expected)


def test_percentile_rank_is_the_mean_over_hits():
    assert value("percentile_rank", (in_order([1, 2, 3, 4, 5]), ungraded([1, 4, 9])))[0] == pytest.approx(0.375)


def test_percentile_rank_of_a_random_order_is_a_half_on_average():
    users = random_users(np.random.default_rng(52), 4000, distinct=True)
    assert np.nanmean(value("percentile_rank", *users)) == pytest.approx(0.5, abs=0.1)


def test_auc_counts_pairs_and_half_of_the_tied():
    user = (scored(0.9, 0.5, 0.5, 0.1), ungraded([0, 1]))
    # Four pairs: three won, one tied.
    assert value("auc", user)[0] == 0.875


@pytest.mark.parametrize("labels", [[1, 2, 3], [7]], ids=["all relevant", "none relevant"])
def test_auc_of_one_class_is_undefined(labels):
    assert math.isnan(value("auc", (in_order([1, 2, 3]), ungraded(labels)))[0])
    assert value("auc(undefined='zero')", (in_order([1, 2, 3]), ungraded(labels)))[0] == 0


def test_auc_leaves_out_labels_that_were_not_scored():
    assert value("auc", (in_order([1, 2]), ungraded([1, 8, 9])))[0] == 1


@pytest.mark.parametrize("weighting", ["sample", "trapezoid"])
def test_auc_of_equal_scores_is_a_half_unless_it_goes_by_rank(weighting):
    user = (scored(0.5, 0.5, 0.5, 0.5), ungraded([0, 1]))
    assert value(f"auc(weighting={weighting!r})", user)[0] == (0.5 if weighting == "sample" else 1)


@pytest.mark.parametrize("decay", part_of([1.0, 0.8, 0.999, 0.95, 0.5], 2))
def test_auc_is_scikit_learns_with_weights_by_rank(decay):
    actual = value(f"auc(decay={decay})", *COMPLETE)
    expected = [
        roc_auc_score(truth, scores, sample_weight=decay ** np.arange(len(truth)))
        for truth, scores in map(vectors, COMPLETE)
    ]
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)


def test_auc_of_the_seeds_example():
    truth, scores = [0, 1, 1, 0, 1, 0], [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]
    user = (scored(*scores), ungraded(np.flatnonzero(truth).tolist()))
    expected = roc_auc_score(truth, scores, sample_weight=0.8 ** np.arange(6))
    assert value("auc(decay=0.8)", user)[0] == pytest.approx(expected, abs=1e-14)
    # Ranks 3 and 5 are the last before a step to the right; two, then three of three hits are above.
    by_hand = 0.8**2 * (1 / 3) * (2 / 3) + 0.8**4 * (1 / 3)
    assert value("auc(decay=0.8, weighting='trapezoid')", user)[0] == pytest.approx(by_hand, abs=1e-14)


def test_without_a_decay_and_ties_the_trapezoids_make_the_same_area():
    users = [user for user in COMPLETE if len({score for _, score in user[0]}) == len(user[0])]
    assert len(users) > 20
    np.testing.assert_allclose(value("auc(weighting='trapezoid')", *users), value("auc", *users), atol=1e-13)


@pytest.mark.parametrize("hit", [1, 2999, 3000])
def test_auc_of_weights_too_small_for_a_float(hit):
    """Of 3000 items one is relevant, or the first and last: decay^2999 is 0 in doubles, the quotient is not."""
    one = (in_order(range(1, 3001)), ungraded([hit]))
    weight = [Fraction(1, 2) ** j for j in range(3000)]
    others = sum(weight) - weight[hit - 1]
    below = sum(weight[hit:])
    assert value("auc(decay=0.5)", one)[0] == pytest.approx(float(below / others), rel=1e-12, abs=1e-300)
    all_but_one = (in_order(range(1, 3001)), ungraded([item for item in range(1, 3001) if item != hit]))
    above = sum(weight[: hit - 1])
    assert value("auc(decay=0.5)", all_but_one)[0] == pytest.approx(float(above / others), rel=1e-12, abs=1e-300)


@settings(max_examples=examples(60, 300), deadline=None, derandomize=True)
@given(
    user=st.lists(st.tuples(st.booleans(), st.sampled_from([0.1, 0.2, 0.3, 0.4])), min_size=2, max_size=12),
    decay=st.sampled_from([1.0, 0.9, 0.3]),
)
def test_auc_is_scikit_learns_on_any_list(user, decay):
    truth = [relevant for relevant, _ in user]
    if len(set(truth)) < 2:
        return
    labels = ungraded([place for place, relevant in enumerate(truth) if relevant])
    predictions = scored(*(score for _, score in user))
    ranked_truth, scores = vectors((predictions, labels))
    expected = roc_auc_score(ranked_truth, scores, sample_weight=decay ** np.arange(len(truth)))
    assert value(f"auc(decay={decay})", (predictions, labels))[0] == pytest.approx(expected, abs=1e-12)


def test_area_under_precision_and_recall_is_that_of_scikit_learns_points():
    actual = value("auc_pr", *COMPLETE)
    for figure, user in zip(actual, COMPLETE, strict=True):
        precision, recall, _ = precision_recall_curve(*vectors(user))
        assert figure == pytest.approx(area_under(recall, precision), abs=1e-12)
    np.testing.assert_array_equal(value("auc_pr(recall='hits')", *COMPLETE), actual)


def test_area_under_precision_and_recall_by_hand():
    user = (in_order([1, 8, 2]), ungraded([1, 2, 3]))
    # From (0, 1) to (1/3, 1), down to (1/3, 1/2), then to (2/3, 2/3).
    by_hand = 1 / 3 + (1 / 2 + 2 / 3) / 2 / 3
    assert value("auc_pr", user)[0] == pytest.approx(by_hand)
    assert value("auc_pr(recall='hits')", user)[0] == pytest.approx(by_hand * 3 / 2)


def test_average_precision_by_threshold_is_scikit_learns():
    expected = [average_precision_score(*vectors(user)) for user in COMPLETE]
    for denominator in ("labels", "hits"):
        actual = value(f"ap(by='threshold', denominator={denominator!r})", *COMPLETE)
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("metric", ["auc", "auc_pr", "ap(by='threshold')"])
def test_a_metric_that_sees_equal_scores_does_not_hang_on_their_order(metric):
    users = random_users(np.random.default_rng(53), 200, distinct=True)
    np.testing.assert_array_equal(value(metric, *users, ties="item_asc"), value(metric, *users, ties="item_desc"))


@pytest.mark.parametrize("weights", ["decay=0.8", "decay=0.3", "weights='1,0.5,0.25'", "weights='0,2,1'"])
def test_average_precision_by_threshold_is_scikit_learns_with_weights_by_rank(weights):
    name, _, told = weights.partition("=")
    listed = [float(one) for one in told.strip("'").split(",")]

    def weight_of(n):
        ranks = np.arange(n)
        return listed[0] ** ranks if name == "decay" else np.array(listed)[np.minimum(ranks, len(listed) - 1)]

    def expected(truth, scores):
        weight = weight_of(len(truth))
        return average_precision_score(truth, scores, sample_weight=weight) if weight[truth].any() else 0.0

    actual = value(f"ap(by='threshold', {weights})", *COMPLETE)
    np.testing.assert_allclose(actual, [expected(*vectors(user)) for user in COMPLETE], rtol=0, atol=1e-12)
    # A common factor of weights too small for a float cancels.
    late = (in_order(list(range(1, 3001))), ungraded([2999, 3000]))
    assert 0 <= value("ap(by='threshold', decay=0.5)", late)[0] < 1e-300


def test_average_precision_of_the_seeds_example_with_weights():
    truth, scores = [0, 1, 1, 0, 1, 0], [0.1, 0.8, 0.4, 0.2, 0.9, 0.3]
    user = (scored(*scores), ungraded([1, 2, 4]))
    by_rank = {item: 0.8**rank for rank, item in enumerate(sorted(range(6), key=lambda item: -scores[item]))}
    weights = [by_rank[item] for item in range(6)]
    expected = average_precision_score(truth, scores, sample_weight=weights)
    assert value("ap(by='threshold', decay=0.8)", user)[0] == pytest.approx(expected, abs=1e-14)
    # The seed's own formula: Σ w_i·p_i over the hits at 1, 2 and 3, ÷ 3.
    assert value("ap(denominator='labels', weights='1,0.5,0.25')", user)[0] == pytest.approx(1.75 / 3)
    assert value("ap(denominator='labels', weights='1,0.8')", user)[0] == pytest.approx(2.6 / 3)


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("ap(weights='1,0.5', denominator='hits')@3", r"weights needs denominator='labels'"),
        ("ap(weights='1,0.5', by='rank', denominator='k')@3", r"weights needs denominator='labels'"),
        ("ap(weights='1,0.5', decay=0.5)", "cannot be combined"),
        ("ap(weights='0,0')", "numbers from 0 on, not all 0"),
        ("ap(decay=0.5, by='threshold', denominator='labels')", r"by threshold needs denominator='hits'"),
        ("ap(decay=0.5, by='threshold', ties='average')", "no average over the orders of equal scores"),
    ],
)
def test_weights_that_have_no_meaning_are_refused(metric, said):
    with pytest.raises(MetricError, match=said):
        parse_metric(metric).resolve()


def test_percentile_rank_of_its_source_is_one_mean_over_pairs_weighted_by_grades():
    users = [
        (in_order([1, 2, 3, 4, 5]), [(1, 1.0), (4, 3.0), (9, 2.0)]),
        (in_order([1, 2]), [(2, 0.5)]),
        (in_order([1]), []),
    ]
    metric = parse_metric("percentile_rank(weighting='grades')").resolve()
    batch = batch_of(users)
    values, weights = metric.compute(batch), metric.normaliser(batch)
    np.testing.assert_equal(values, [3 * 0.75 / 4, 1.0, math.nan])
    np.testing.assert_equal(weights, [4.0, 0.5, 0.0])
    # Σ r·rank ÷ Σ r over the pairs (0, 1), (0.75, 3), (1, 0.5).
    assert np.nansum(values * weights) / weights.sum() == pytest.approx((0.75 * 3 + 0.5) / 4.5)
    assert metric.normalises
    assert not parse_metric("mpr").resolve().normalises
