"""Metrics of intents: each against a naive one, and what they promise as any other metric does."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.intents import FORMULAS, labels_of, random_judged, value
from oracles.rankings import rank
from worlds.ranked_users import lists_of, ranked
from worlds.variants import INTENTS, in_thirds, parameters_of, some, variants

from spark_rankeval.errors import MetricError
from spark_rankeval.metrics import parse_metric
from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.user_lists import IntentLists, Ragged
from spark_rankeval.request.task import View

ALL_VALUES = pytest.mark.parametrize("metric", INTENTS, ids=lambda metric: metric.name)


def intent_lists(users):
    """The pairs of items and intents of some users."""
    items = Ragged.from_lists([[item for item, _, _ in judged] for _, judged in users], np.int64)
    triples = [triple for _, judged in users for triple in judged]
    code = np.array([intent for _, intent, _ in triples], np.int64)
    return IntentLists(items, code, np.array([grade for _, _, grade in triples], np.float64))


def batch_of(users, **options):
    plain = [(predictions, labels_of(judged)) for predictions, judged in users]
    return ranked(lists_of(plain, intents=intent_lists(users)), **options)[0]


def naive(metric, user, ties="item_asc"):
    predictions, judged = user
    return value(metric.name, [item for item, _ in rank(predictions, ties)], judged, **parameters_of(metric))


def compare(metrics, users, ties="item_asc"):
    batch = batch_of(users, ties=ties)
    for metric in metrics:
        expected = [naive(metric, user, ties) for user in users]
        np.testing.assert_allclose(metric.compute(batch), expected, rtol=1e-12, atol=1e-15, err_msg=str(metric))


@pytest.mark.parametrize(("metric", "mine"), in_thirds(INTENTS))
def test_every_variant_equals_the_naive_one(metric, mine):
    compare(mine[:60], random_judged(np.random.default_rng(7), 30))


TRIPLES = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 3), st.sampled_from([0.0, 1.0, 2.0])),
    max_size=12,
    unique_by=lambda t: t[:2],
)
LISTS = st.lists(
    st.tuples(st.integers(0, 7), st.sampled_from([-1.0, 0.0, 1.0])), max_size=7, unique_by=lambda pair: pair[0]
)
ALL_VARIANTS = {metric.name: variants(metric) for metric in INTENTS}


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    users=st.lists(st.tuples(LISTS, TRIPLES), min_size=1, max_size=4),
    ties=st.sampled_from(["item_asc", "item_desc"]),
    choice=st.integers(0, 10**6),
)
def test_any_users_have_what_the_naive_metrics_give(users, ties, choice):
    compare([every[(choice + 7919 * n) % len(every)] for every in ALL_VARIANTS.values() for n in range(2)], users, ties)


def bits(users, **options):
    metrics = [variant for every in ALL_VARIANTS.values() for variant in every[::7]]
    batch = batch_of(users, **options) if isinstance(users, list) else users
    return np.stack([metric.compute(batch) for metric in metrics]).view(np.int64)


def test_no_split_into_batches_and_no_order_of_rows_changes_a_bit():
    rng = np.random.default_rng(3)
    users = random_judged(rng, 60)
    whole = bits(users)
    parts = [users[start : start + 7] for start in range(0, 60, 7)]
    assert (np.hstack([bits(part) for part in parts]) == whole).all()
    assert (bits(RankingBatch.concatenate([batch_of(part) for part in parts])) == whole).all()
    shuffled = [([p[n] for n in rng.permutation(len(p))], [j[n] for n in rng.permutation(len(j))]) for p, j in users]
    assert (bits(shuffled) == whole).all()


def test_a_deeper_cutoff_after_a_shallow_one_continues_the_greedy_list():
    users = random_judged(np.random.default_rng(5), 30)
    together, apart = batch_of(users), [batch_of(users) for _ in range(3)]
    metrics = [parse_metric(name) for name in ("alpha_ndcg@2", "alpha_ndcg@9", "alpha_ndcg@4")]
    for metric, alone in zip(metrics, apart, strict=True):
        np.testing.assert_array_equal(metric.compute(together), metric.compute(alone))


HAND = (
    [(item, float(-item)) for item in range(1, 5)],
    [(1, 0, 1.0), (1, 1, 1.0), (3, 0, 1.0), (4, 2, 1.0), (9, 2, 1.0)],
)
FIGURES = {
    # Items 1 to 4 serve {0, 1}, nothing, {0} and {2}: gains 2, 0, ½, 1. Greed ranks 1 first, then 9 and its ½ for 4, and 3.
    "s_recall@3": 2 / 3, "precision_ia@4": 4 / 12, "alpha_dcg@2": 2 / (3 * (1 + 0.5 / math.log2(3))),
    "alpha_ndcg@4": (2 + 0.5 / 2 + 1 / math.log2(5)) / (2 + 1 / math.log2(3) + 0.5 / 2 + 0.5 / math.log2(5)),
    "err_ia@2": 2 / (3 * 1.25), "err_ia(scale=probability)@4": 0.5 * (2 + 0.5 / 3 + 1 / 4) / 3,
    "nerr_ia@4": (2 + 0.5 / 3 + 1 / 4) / (2 + 1 / 2 + 0.5 / 3 + 0.5 / 4), "nrbp": 0.75 * (2 + 0.5 / 4 + 1 / 8) / 3,
    "nnrbp": (2 + 0.5 / 4 + 1 / 8) / (2 + 1 / 2 + 0.5 / 4 + 0.5 / 8),
    # Intent 0 at ranks 1 and 3, intent 1 at rank 1, intent 2 at rank 4 and nowhere.
    "ap_ia": ((1 + 2 / 3) / 2 + 1 + (1 / 4) / 2) / 3,
    "ap_ia(intent_weights=share)": 2 / 5 * (1 + 2 / 3) / 2 + 1 / 5 + 2 / 5 * (1 / 4) / 2,
}  # fmt: skip


@pytest.mark.parametrize("metric", FIGURES)
def test_figures_that_can_be_checked_by_hand(metric):
    assert parse_metric(metric).compute(batch_of([HAND]))[0] == pytest.approx(FIGURES[metric], rel=1e-12)


def test_greed_may_miss_the_best_list_and_its_own_list_has_exactly_1():
    # Item 1 has the most intents; items 2 and 3 have more together.
    judged = [(item, int(intent), 1.0) for item, intents in ((1, "0123"), (2, "014"), (3, "235")) for intent in intents]
    greedy, better = ([(item, float(-n)) for n, item in enumerate(items)] for items in ((1, 3, 2), (2, 3)))
    values = parse_metric("alpha_ndcg(alpha=1.0)@2").compute(batch_of([(greedy, judged), (better, judged)]))
    discount = 1 / math.log2(3)
    assert values.tolist() == [1.0, pytest.approx((3 + 3 * discount) / (4 + discount))]


def test_equal_gains_go_to_the_highest_item():
    # All gain 2 at first. After item 3 items 1 and 2 gain 1.5 and 2; after item 1 the others gain 1.5.
    judged = [
        (item, "abcd".index(intent), 1.0) for item, intents in ((1, "ab"), (2, "ac"), (3, "bd")) for intent in intents
    ]
    user = ([(item, float(-item)) for item in (1, 2, 3)], judged)
    listed, greedy = 2 + 1.5 / math.log2(3) + 1.5 / 2, 2 + 2 / math.log2(3) + 1 / 2
    assert parse_metric("alpha_ndcg@3").compute(batch_of([user]))[0] == pytest.approx(listed / greedy)
    assert parse_metric("alpha_ndcg@3").compute(batch_of([([(3, 3.0), (2, 2.0), (1, 1.0)], judged)]))[0] == 1.0


def test_equal_scores_of_relevant_items_with_other_intents_are_a_tie():
    user = ([(1, 0.5), (2, 0.5)], [(1, 0, 1.0), (2, 1, 1.0), (2, 2, 1.0)])
    looks = View((parse_metric("s_recall@1").resolve(),), None).looks
    lists = lists_of([(user[0], labels_of(user[1]))], intents=intent_lists([user]))
    assert ranked(lists, looks=looks)[1].tied.tolist() == [1]
    # Nobody can tell items that are not relevant from one another.
    judged = [(item, intent, 0.0) for item, intent, _ in user[1]]
    lists = lists_of([(user[0], labels_of(judged))], intents=intent_lists([(user[0], judged)]))
    assert ranked(lists, looks=looks)[1].tied.tolist() == [0]


def test_labels_that_repeat_an_intent_are_counted_and_the_highest_grade_holds():
    users = [
        ([(1, 1.0)], [(1, 0, 1.0), (1, 0, 0.0), (2, 0, 1.0), (2, 0, 1.0), (2, 1, 1.0)]),
        ([(1, 1.0)], [(1, 0, 1.0)]),
    ]
    plain = [(predictions, labels_of(judged)) for predictions, judged in users]
    batch, findings = ranked(lists_of(plain, intents=intent_lists(users)))
    assert findings.conflicting_labels.tolist() == [1, 0]
    assert findings.duplicate_labels.tolist() == [1, 0]
    assert parse_metric("s_recall").compute(batch).tolist() == [0.5, 1.0]
    # Labels that repeat an item were counted themselves.
    repeated = [(users[0][0], [*plain[0][1], (1, 1.0)]), plain[1]]
    _, findings = ranked(lists_of(repeated, intents=intent_lists(users)))
    assert (findings.conflicting_labels + findings.duplicate_labels).tolist() == [1, 0]


@ALL_VALUES
def test_values_are_within_the_bounds_and_flagged_where_the_order_of_ties_changes_them(metric):
    users = random_judged(np.random.default_rng(12), 120)
    lists = lists_of([(predictions, labels_of(judged)) for predictions, judged in users], intents=intent_lists(users))
    changed = 0
    for variant in [one for one in some(metric, 10, undefined=("nan",)) if one.k != 1]:
        looks = View((variant.resolve(),), None).looks
        found = [ranked(lists, ties=ties, looks=looks) for ties in ("item_asc", "item_desc")]
        first, other = (variant.compute(batch) for batch, _ in found)
        low, high = variant.bounds
        assert first.dtype == np.float64
        assert np.nanmin(first, initial=low) >= low, variant
        assert np.nanmax(first, initial=low) <= high + 1e-12, variant
        differs = ~np.isclose(first, other, rtol=0, atol=1e-12, equal_nan=True)
        assert found[0][1].tied[differs].all(), variant
        assert not found[0][1].tied.all()
        changed += differs.sum()
    assert changed


def test_the_naive_metrics_are_those_of_the_registry():
    assert {metric.name for metric in INTENTS} == set(FORMULAS)


@ALL_VALUES
def test_lists_without_intents_are_refused(metric):
    batch = ranked(lists_of([(HAND[0], [(1, 1.0)])]))[0]
    with pytest.raises(MetricError, match="did not ask for"):
        metric().compute(batch)
