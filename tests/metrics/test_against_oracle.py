"""Every metric of labels equals the oracle: on any users, in every variant, under every policy, and in lists of every form."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.rankings import FORMULAS, User, value
from worlds.ranked_users import batch_of, in_order, lists_of, long_users, random_users, ranked
from worlds.variants import METRICS, in_thirds, parameters_of, some, variants

from spark_rankeval.ranking.user_lists import RawLists

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


@settings(max_examples=10, deadline=None, derandomize=True)
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
        for nth in range(4):
            # A prime step comes to every variant in time, and puts neighbours in the list into different examples.
            compare(batch, settled, variants_of_metric[(choice + 7919 * nth) % len(variants_of_metric)])


BIG = random_users(np.random.default_rng(20), 300)


def test_every_metric_of_labels_has_an_oracle():
    assert {metric.name for metric in METRICS} == {*FORMULAS}


@pytest.mark.parametrize(("metric", "mine"), in_thirds(METRICS))
def test_every_variant_of_a_metric_equals_the_oracle(metric, mine):
    # As many variants see as much of fewer users.
    users = BIG[: 20 if len(mine) < 70 else 8]
    settled, batch = settle(users), batch_of(users)
    for variant in mine:
        if getattr(variant, "ties", "order") == "order":
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
    users = BIG[:24]
    settled, batch = settle(users, ties, duplicates), batch_of(users, ties=ties, duplicates=duplicates)
    for variant in FEW[::3]:
        compare(batch, settled, variant)


@pytest.mark.parametrize(
    ("scored", "ties"),
    [(True, "item_desc"), (False, "item_asc"), *(pytest.param(True, ties, marks=pytest.mark.ci) for ties in TIES[::2])],
)
def test_long_lists_with_many_labels_equal_the_oracle(scored, ties):
    rng = np.random.default_rng(21)
    users = [*long_users(rng, 3, 1000, 300, scored=scored), *long_users(rng, 6, 200, 100, scored=scored)]
    settled, batch = settle(users, ties, "keep_best"), batch_of(users, ties=ties, duplicates="keep_best")
    for variant in FEW[::4]:
        compare(batch, settled, variant)


@pytest.mark.parametrize("n_labels", [256, 257])
@pytest.mark.parametrize("scored", [True, False], ids=["by score", "in order"])
def test_one_user_with_very_many_labels_among_users_with_lists_of_the_same_length(scored, n_labels):
    items = [(item, -float(item) if scored else None) for item in range(5)]
    users = [(items, [(0, 1.0)]) for _ in range(9)]
    users.insert(4, (items, [(item, 1.0 + item % 2) for item in range(2, 2 + n_labels)]))
    settled, batch = settle(users), batch_of(users)
    for variant in FEW[::2]:
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
    for variant in FEW[::2]:
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
    users = random_users(np.random.default_rng(23), 50, scored=scored)
    settled, batch = settle(users), batch_of(users, largest_cutoff=10)
    for metric in METRICS:
        for variant in some(metric, 8, ties=("order",)):
            if variant.reads.depth is not None:
                compare(batch, settled, variant)


def test_text_ids_are_ordered_by_their_utf8_bytes_and_not_by_their_codes():
    words = ["b", "a", "Z", "é", "aa", "𝄞", "～", "z"]
    by_bytes = sorted(words, key=lambda word: word.encode())
    assert by_bytes != sorted(words, key=words.index)
    rng = np.random.default_rng(24)
    users = []
    for _ in range(20):
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
        for variant in FEW[::5]:
            compare(batch, settle(in_words, ties), variant)
