import math

import numpy as np
import pytest
from helpers.effort import examples, part_of
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.rankings import User, rank, value
from worlds.ranked_users import batch_of, in_order, lists_of, random_users, ranked
from worlds.variants import LEFT_OPEN, METRICS, parameters_of, variants

from spark_rankeval.ranking.lists import RawLists

# Averages over the orders of ties have a test of their own, which asks the oracle for the value of every order.
VARIANTS = {metric.name: variants(metric, ties=("order",)) for metric in METRICS}
TIES = ("item_asc", "item_desc", "position")
DUPLICATES = ("each", "count", "keep_best")


def settle(users, ties="item_asc", duplicates="each", conflicting="highest"):
    """The users as the oracle sees them; duplicates that are only counted stay in the list."""
    policy = "keep_best" if duplicates == "keep_best" else "each"
    return [User(*user, ties=ties, duplicates=policy, conflicting=conflicting) for user in users]


def compare(batch, settled, metric):
    actual = metric.compute(batch)
    assert actual.dtype == np.float64
    assert actual.shape == (len(settled),)
    expected = [value(metric.name, user, **parameters_of(metric)) for user in settled]
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12, equal_nan=True, err_msg=str(metric))


ITEMS = st.integers(-3, 12)
GRADES = st.sampled_from([-1.0, 0.0, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0])
SCORES = st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 0.1, 0.3, 1.0, 1.0, math.inf])


@st.composite
def users_of_one_kind(draw):
    """Users whose lists all come in order, or all have scores: constant ones, few distinct ones, or any."""
    scores = draw(st.sampled_from([st.none(), st.just(0.5), SCORES, st.floats(allow_nan=False)]))
    predictions = st.lists(st.tuples(ITEMS, scores), max_size=14)
    labels = st.lists(st.tuples(ITEMS, GRADES), max_size=8)
    return draw(st.lists(st.tuples(predictions, labels), min_size=1, max_size=6))


@settings(max_examples=examples(by_day=12, at_night=200), deadline=None, derandomize=True)
@given(
    users=users_of_one_kind(),
    ties=st.sampled_from(TIES),
    duplicates=st.sampled_from(DUPLICATES),
    conflicting=st.sampled_from(["highest", "last"]),
    choice=st.integers(0, 10**6),
)
def test_every_metric_equals_the_oracle_on_any_users(users, ties, duplicates, conflicting, choice):
    batch = batch_of(users, ties=ties, duplicates=duplicates, conflicting_labels=conflicting)
    settled = settle(users, ties, duplicates, conflicting)
    for variants_of_metric in VARIANTS.values():
        for nth in range(6):
            # A prime step comes to every variant in time, and puts neighbours in the list into different examples.
            compare(batch, settled, variants_of_metric[(choice + 7919 * nth) % len(variants_of_metric)])


BIG = random_users(np.random.default_rng(20), 300)
CUTOFF = 10


def ranked_of(user):
    return rank(user[0], "item_asc")


def test_the_seeded_users_hold_what_makes_evaluators_differ():
    n_at_cutoff_tied = n_constant = n_duplicate_across = n_relevant_duplicate_across = 0
    for predictions, labels in BIG:
        ranked = ranked_of((predictions, labels))
        items, scores = [item for item, _ in ranked], [score for _, score in ranked]
        relevant = {item for item, grade in labels if grade > 0}
        across = set(items[:CUTOFF]) & set(items[CUTOFF:])
        n_at_cutoff_tied += len(scores) > CUTOFF and scores[CUTOFF - 1] == scores[CUTOFF]
        n_constant += len(scores) > 1 and len(set(scores)) == 1
        n_duplicate_across += bool(across)
        n_relevant_duplicate_across += bool(across & relevant)
    lengths = np.array([len(predictions) for predictions, _ in BIG])
    n_labels = np.array([len(labels) for _, labels in BIG])
    grades = {grade for _, labels in BIG for _, grade in labels}
    conflicting = [len({item for item, _ in labels}) < len(set(labels)) for _, labels in BIG]
    nothing_to_find = [labels and all(grade <= 0 for _, grade in labels) for _, labels in BIG]
    assert n_at_cutoff_tied >= 20
    assert n_constant >= 20
    assert n_duplicate_across >= 20
    assert n_relevant_duplicate_across >= 10
    assert sum((lengths == 0) & (n_labels > 0)) >= 10
    assert sum((lengths > 0) & (n_labels == 0)) >= 10
    assert sum((lengths == 0) & (n_labels == 0)) >= 1
    assert sum((lengths > 0) & (lengths < CUTOFF)) >= 50
    assert sum(lengths > CUTOFF) >= 50
    assert sum(lengths == CUTOFF) >= 3
    assert sum(conflicting) >= 20
    assert sum(map(bool, nothing_to_find)) >= 5
    assert min(grades) < 0
    assert any(grade != round(grade) for grade in grades)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_every_variant_of_a_metric_equals_the_oracle(metric):
    every = VARIANTS[metric.name]
    # As many variants see as much of fewer users.
    users = BIG[: examples(24, 60) if len(every) < 200 else examples(12, 20)]
    settled, batch = settle(users), batch_of(users)
    for variant in every:
        compare(batch, settled, variant)


# A few variants a metric where the users are many or long and the oracle is slow.
FEW = [
    variant
    for metric in METRICS
    for variant in variants(metric, cutoffs=(None, 10), undefined=("nan",), ties=("order",))[::7]
]


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("duplicates", DUPLICATES)
def test_every_metric_equals_the_oracle_under_a_policy(ties, duplicates):
    users = BIG[: examples(40, 300)]
    settled, batch = settle(users, ties, duplicates), batch_of(users, ties=ties, duplicates=duplicates)
    for variant in FEW[::3]:
        compare(batch, settled, variant)


def test_the_variants_hold_every_choice_of_every_parameter():
    for metric in METRICS:
        for item in metric.parameters():
            # Estimators need weights, and have tests of their own.
            if item.name in ("ties", *LEFT_OPEN):
                continue
            seen = {getattr(variant, item.name) for variant in VARIANTS[metric.name]}
            assert seen >= set(item.metadata["choices"])
            assert len(seen) > 1
        assert {variant.k for variant in VARIANTS[metric.name]} == ({None, 1, 3, 10} if metric.takes_cutoff else {None})


def long_users(rng, n_users, longest, most_labels, *, scored):
    """Users with up to `longest` predictions and up to `most_labels` labels, and short ones between them."""
    users = []
    for nth in range(n_users):
        n_items, n_labels = (longest, most_labels) if nth % 3 == 0 else (rng.integers(1, 200), rng.integers(1, 100))
        items = rng.choice(2 * longest, n_items, replace=nth % 2 == 0).tolist()
        labels = rng.choice(2 * longest, n_labels, replace=False).tolist()
        scores = rng.integers(0, 100, n_items) / 8 if scored else [None] * n_items
        grades = rng.integers(-1, 4, n_labels).astype(float)
        users.append((list(zip(items, scores, strict=True)), list(zip(labels, grades, strict=True))))
    return users


@pytest.mark.parametrize(("scored", "ties"), part_of([*((True, ties) for ties in TIES), (False, "item_asc")], 3))
def test_long_lists_with_many_labels_equal_the_oracle(scored, ties):
    users = long_users(np.random.default_rng(21), 9, 1000, 300, scored=scored)
    settled, batch = settle(users, ties, "keep_best"), batch_of(users, ties=ties, duplicates="keep_best")
    n_matches = np.bincount(batch.user, minlength=batch.n_users)
    assert n_matches.max() > 64 > n_matches[n_matches > 0].min()
    assert max(len(labels) for _, labels in users) > 256 > min(len(labels) for _, labels in users)
    for variant in FEW[::2]:
        compare(batch, settled, variant)


@pytest.mark.parametrize("n_labels", [256, 257, 300])
@pytest.mark.parametrize("scored", [True, False], ids=["by score", "in order"])
def test_one_user_with_very_many_labels_among_users_with_lists_of_the_same_length(scored, n_labels):
    items = [(item, -float(item) if scored else None) for item in range(5)]
    users = [(items, [(0, 1.0)]) for _ in range(9)]
    users.insert(4, (items, [(item, 1.0 + item % 2) for item in range(2, 2 + n_labels)]))
    settled, batch = settle(users), batch_of(users)
    for variant in FEW:
        compare(batch, settled, variant)


@pytest.mark.parametrize("n_matches", [64, 65])
@pytest.mark.parametrize("ties", TIES)
def test_counting_and_sorting_agree_where_one_gives_way_to_the_other(n_matches, ties):
    rng = np.random.default_rng(22)
    items = rng.permutation(100).tolist()
    predictions = list(zip(items, rng.integers(0, 5, 100).tolist(), strict=True))
    users = [
        (predictions, [(item, float(item % 3)) for item in items[:n_matches]]),
        (predictions[:20], [(items[3], 2.0)]),
    ]
    settled, batch = settle(users, ties), batch_of(users, ties=ties)
    for variant in FEW:
        compare(batch, settled, variant)


@pytest.mark.parametrize("ideal", ["retrieved", "labels", "k_ones", "label_order"])
@pytest.mark.parametrize("metric", ["ndcg", "idcg"])
def test_a_grade_below_the_threshold_loses_its_gain_whichever_the_ideal(metric, ideal):
    users = [(in_order([1, 2, 3]), [(3, 3.0), (2, 1.0), (1, 2.0)])]
    cls = next(candidate for candidate in METRICS if candidate.name == metric)
    lost = cls(k=3, ideal=ideal, gain="linear", relevance_threshold=2.0, below_threshold="zero").resolve()
    kept = cls(k=3, ideal=ideal, gain="linear", relevance_threshold=2.0, below_threshold="keep").resolve()
    compare(batch_of(users), settle(users), lost)
    compare(batch_of(users), settle(users), kept)


@pytest.mark.parametrize("scored", [True, False], ids=["by score", "in order"])
def test_ranks_below_the_largest_cutoff_change_no_metric_with_that_cutoff(scored):
    users = random_users(np.random.default_rng(23), 150, scored=scored)
    settled, batch = settle(users), batch_of(users, largest_cutoff=10)
    for metric in METRICS:
        for variant in part_of(VARIANTS[metric.name], 29):
            if variant.reads.depth is not None:
                compare(batch, settled, variant)


def test_text_ids_are_ordered_by_their_utf8_bytes_and_not_by_their_codes():
    words = ["b", "a", "Z", "é", "aa", "𝄞", "～", "z"]
    by_bytes = sorted(words, key=lambda word: word.encode())
    assert by_bytes != sorted(words, key=words.index)
    rng = np.random.default_rng(24)
    users = []
    for _ in range(50):
        items = rng.permutation(len(words))[: rng.integers(1, len(words) + 1)].tolist()
        labels = rng.permutation(len(words))[:3].tolist()
        scores = rng.integers(0, 2, len(items)).astype(float).tolist()
        users.append((list(zip(items, scores, strict=True)), [(label, 1.0 + label % 2) for label in labels]))
    place = np.array([by_bytes.index(word) for word in words])
    lists = lists_of(users)
    in_words = [
        ([(words[item].encode(), score) for item, score in predictions], [(words[i].encode(), g) for i, g in labels])
        for predictions, labels in users
    ]
    for ties in TIES:
        given_order = RawLists(lists.items, lists.scores, lists.labels, lists.grades, lambda items: place[items])
        batch, _ = ranked(given_order, ties=ties, keep_label_order=True)
        for variant in FEW[::2]:
            compare(batch, settle(in_words, ties), variant)
