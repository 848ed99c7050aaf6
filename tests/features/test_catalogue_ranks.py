"""Ranks within a catalogue against a table of all scores, made pair by pair in plain Python and sorted."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_rankeval.features.vectors import catalogue as scores
from spark_rankeval.features.vectors import catalogue_ranks
from spark_rankeval.features.vectors.catalogue import LARGEST, Catalogue, ScoredUserVectors, is_usable
from spark_rankeval.features.vectors.catalogue_ranks import Limits, rank_items
from spark_rankeval.ranking.ragged import Ragged

#: Vectors whose scores tie, nearly tie, or are too large or small for float32, made of normal ones.
KINDS = {
    "normal": lambda rng, normal: normal,
    "integers": lambda rng, normal: rng.integers(-3, 4, normal.shape).astype(float),
    "duplicates": lambda rng, normal: normal[rng.integers(0, 1 + len(normal) // 4, len(normal))],
    "permuted": lambda rng, normal: rng.permuted(np.tile(normal[:1], (len(normal), 1)), axis=1),
    "close": lambda rng, normal: np.nextafter(np.tile(normal[:1], (len(normal), 1)), normal * np.inf),
    "zeros": lambda rng, normal: normal * (rng.random((len(normal), 1)) < 0.3),
    "some long": lambda rng, normal: normal * np.where(rng.random((len(normal), 1)) < 0.05, 1e5, 1.0),
    "huge": lambda rng, normal: normal * 2.0**460,
    "tiny": lambda rng, normal: normal * 1e-300,
    "underflow": lambda rng, normal: normal * 1e-160,
    "mixed": lambda rng, normal: normal * 10.0 ** rng.integers(-300, 140, normal.shape),
}
FITS_FLOAT32 = tuple(KINDS)[:7]


class World(NamedTuple):
    items: np.ndarray
    item_bias: np.ndarray
    users: np.ndarray
    user_bias: np.ndarray
    labels: Ragged
    limits: Limits
    ties: str
    first: int


def vectors_of(rng, kind, n, d):
    return KINDS[kind](rng, rng.standard_normal((n, d)))


def lists(rng, n_users, n_items, longest, *, with_unknown=False):
    """Distinct items of each user, some of them −1 in the place of an item."""
    made = []
    for _ in range(n_users):
        some = rng.permutation(n_items)[: rng.integers(0, longest + 1)]
        made.append(np.where(with_unknown & (rng.random(len(some)) < 0.1), -1, some).tolist())
    return Ragged.from_lists(made, np.int64)


@st.composite
def worlds(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind, user_kind = draw(st.sampled_from(list(KINDS))), draw(st.sampled_from(list(KINDS)))
    n_items, n_users, d = draw(st.integers(1, 250)), draw(st.integers(0, 6)), draw(st.integers(1, 20))
    dtype = draw(st.sampled_from([np.float64, np.float32])) if kind in FITS_FLOAT32 else np.float64
    # Users of equal numbers make permuted items tie.
    users = vectors_of(rng, user_kind, n_users, 1 if draw(st.booleans()) else d) * np.ones(d)
    has_vector = rng.random(n_users) < (0.7 if draw(st.booleans()) else 2)
    users[~has_vector] = 0.0
    item_bias, user_bias = (draw(st.sampled_from([0.0, 1.0, 1e9])) * rng.standard_normal(n) for n in (n_items, n_users))
    return World(
        items=vectors_of(rng, kind, n_items, d).astype(dtype),
        item_bias=item_bias,
        users=users,
        user_bias=user_bias,
        labels=lists(rng, n_users, n_items, draw(st.sampled_from([0, 3, 10, n_items])), with_unknown=True),
        limits=Limits(
            has_vector,
            lists(rng, n_users, n_items, n_items // 2) if draw(st.booleans()) else None,
            lists(rng, n_users, n_items, n_items) if draw(st.booleans()) else None,
        ),
        ties=draw(st.sampled_from(["item_asc", "item_desc"])),
        first=draw(st.sampled_from([0, 1, 5, n_items, n_items + 3])),
    )


def score(user, item, user_bias, item_bias):
    total = 0.0
    for a, b in zip(user, item, strict=True):
        total = total + a * b
    return (total + item_bias) + user_bias


def list_of(ragged, user):
    return ragged.values[ragged.offsets[user] : ragged.offsets[user + 1]].tolist()


def expected(world):
    """Of each user: the ranked labels, how many items the list has, and the first of them with their scores."""
    rows, lengths, firsts = [], [], []
    items, limits = world.items.astype(float).tolist(), world.limits
    for user, vector in enumerate(world.users.tolist()):
        ranked = set(range(len(items))) if limits.has_list[user] else set()
        if limits.candidates is not None:
            ranked &= set(list_of(limits.candidates, user))
        if limits.excluded is not None:
            ranked -= set(list_of(limits.excluded, user))
        bias = float(world.user_bias[user])
        of_user = {item: score(vector, items[item], bias, float(world.item_bias[item])) for item in ranked}
        sign = -1 if world.ties == "item_desc" else 1
        order = sorted(ranked, key=lambda item: (-of_user[item], sign * item))
        for place, item in enumerate(list_of(world.labels, user)):
            if item in ranked:
                above = sum(each > of_user[item] for each in of_user.values())
                tied = sum(each == of_user[item] for each in of_user.values())
                label = int(world.labels.offsets[user]) + place
                rows.append((label, 1 + order.index(item), above, tied, of_user[item]))
        lengths.append(len(order))
        firsts.append([(item, of_user[item]) for item in order[: world.first]])
    return rows, lengths, firsts if world.first else None


def prepared(items, item_bias, users, user_bias, similarity="dot"):
    """Users, whose products with all items are scores; a bias of 0 stands for one of each."""
    item_bias, user_bias = (np.zeros(len(of)) + bias for of, bias in ((items, item_bias), (users, user_bias)))
    return ScoredUserVectors.prepare(Catalogue.prepare(items, item_bias, similarity), users, user_bias)


def found(world):
    users = prepared(world.items, world.item_bias, world.users, world.user_bias)
    given_ranks = rank_items(users, world.labels, world.limits, world.ties, world.first)
    label = np.flatnonzero(given_ranks.is_ranked)
    columns = [getattr(given_ranks, name)[label].tolist() for name in ("rank", "above", "tied", "score")]
    firsts = None
    if given_ranks.first is not None:
        scored = given_ranks.first.like(given_ranks.first_scores)
        firsts = [
            list(zip(list_of(given_ranks.first, user), list_of(scored, user), strict=True))
            for user in range(len(world.users))
        ]
    lengths = world.limits.lengths(len(world.items)).tolist()
    return list(zip(label.tolist(), *columns, strict=True)), lengths, firsts


# How many scores, users and items are worked at a time, which labels are compared with all items, and which items stand apart.
WAYS = st.fixed_dictionaries(
    {},
    optional={
        (catalogue_ranks, "_CELLS"): st.sampled_from([1, 7, 1000]),
        (catalogue_ranks, "_USERS"): st.sampled_from([1, 3, 1000]),
        (catalogue_ranks, "_SAMPLED"): st.sampled_from([1, 7, 1000]),
        (catalogue_ranks, "_COMPARED_LABELS"): st.sampled_from([0, 24]),
        (catalogue_ranks, "_FEW_NEAR"): st.sampled_from([-1, 10**9]),
        (scores, "_CELLS"): st.sampled_from([1, 7, 1000]),
        (scores, "_ITEMS_PER_APART"): st.sampled_from([1, 3, 20]),
        (scores, "_TIMES"): st.sampled_from([1.0, 4.0]),
    },
)


@given(worlds(), WAYS)
@settings(max_examples=150, deadline=None)
def test_ranks_and_lists_are_those_of_the_sorted_table_of_all_scores_whatever_the_way(world, ways):
    with pytest.MonkeyPatch.context() as patch:
        for (module, name), value in ways.items():
            patch.setattr(module, name, value)
        assert found(world) == expected(world)


def near_ties():
    """Items that differ by about as much as float32 products err."""
    rng = np.random.default_rng(3)
    items = rng.standard_normal((1, 16)) + 1e-7 * rng.standard_normal((200, 16))
    users = np.abs(rng.standard_normal((3, 16)))
    labels = Ragged.from_lists([range(0, 200, 9)] * 3, np.int64)
    return World(items, np.zeros(200), users, np.zeros(3), labels, Limits(np.ones(3, bool)), "item_asc", 20)


def test_scores_that_differ_less_than_products_err_are_told_apart():
    assert found(near_ties()) == expected(near_ties())


@pytest.mark.parametrize("ties", ["item_asc", "item_desc"])
def test_the_first_of_thousands_of_equal_items_are_those_of_their_order(ties):
    equal = World(
        np.ones((3000, 2)), np.zeros(3000), np.ones((1, 2)), np.zeros(1), Ragged.from_lists([[5]], np.int64),
        Limits(np.ones(1, bool), Ragged.from_lists([[0, 2999]], np.int64)), ties, 3,
    )  # fmt: skip
    assert found(equal) == expected(equal)


@given(worlds())
@settings(max_examples=40, deadline=None)
def test_no_product_is_further_from_the_exact_score_than_the_bound(world):
    catalogue = Catalogue.prepare(world.items, world.item_bias)
    users = ScoredUserVectors.prepare(catalogue, world.users, world.user_bias)
    products = users.approximate @ catalogue.approximate
    for user in range(len(world.users)):
        everyone = np.full(len(world.items), user)
        exact = users.as_about(everyone, users.exact(everyone, np.arange(len(world.items))))
        # The subtraction itself may round up.
        distance = np.abs(users.about(user, 0, products[user]) - exact)
        assert (distance <= users.error[user] * (1 + 1e-15)).all()


def test_the_bound_is_not_far_too_wide():
    """It would be right all the same, but every item would be scored exactly."""
    rng = np.random.default_rng(4)
    items = rng.standard_normal((100, 64))
    users = prepared(items, 0, rng.standard_normal((5, 64)), 0)
    length = np.linalg.norm(users.approximate.astype(float), axis=1)
    assert (users.error < 70 * 2.0**-24 * length * Catalogue.prepare(items, np.zeros(100)).longest).all()


@pytest.mark.parametrize("first", [0, 20])
@pytest.mark.parametrize("kind", ["plain", "popularity", "one huge vector"])
def test_large_biases_or_a_long_vector_leave_few_items_to_exact_scores(monkeypatch, kind, first):
    rng = np.random.default_rng(6)
    items, bias, vectors = rng.standard_normal((3000, 16)), np.zeros(3000), rng.standard_normal((4, 16))
    if kind == "popularity":
        bias = 1e6 * rng.random(3000) ** 8
    elif kind == "one huge vector":
        items[7] *= 1e100
    labels = Ragged.from_lists([rng.permutation(3000)[:10] for _ in vectors], np.int64)
    users, n_exact, exact = prepared(items, bias, vectors, 0), [], ScoredUserVectors.exact
    noted = lambda of, user, item: n_exact.append(len(user)) or exact(of, user, item)  # noqa: E731 # it is one
    monkeypatch.setattr(ScoredUserVectors, "exact", noted)
    monkeypatch.setattr(ScoredUserVectors, "exact_of_all", None)
    rank_items(users, labels, Limits(np.ones(4, bool)), first=first)
    assert sum(n_exact) <= 4 * (10 + first) + 20


def test_the_scores_of_a_vector_of_zeros_need_no_products(monkeypatch):
    rng = np.random.default_rng(6)
    users = prepared(rng.standard_normal((5, 3)), rng.standard_normal(5), np.zeros((1, 3)), 0.5)
    scored = users.exact(np.zeros(5, np.int64), np.arange(5))
    monkeypatch.setattr(scores, "added_products", None)
    assert users.exact_of_all(0, 0, 5).tolist() == scored.tolist()


def test_scores_are_added_dimension_after_dimension_and_each_product_is_rounded_before():
    # Any other order of these loses the 1 or keeps it twice.
    users = prepared(np.array([[1e16, 1.0, -1e16, 1.0], [1e16, -1e16, 1.0, 1.0]]), 0, np.ones((1, 4)), 0)
    assert users.exact(np.array([0, 0]), np.array([0, 1])).tolist() == [1.0, 2.0]
    assert users.exact_of_all(0, 0, 2).tolist() == [1.0, 2.0]
    a = 1 + 2.0**-30
    rounded = prepared(np.array([[-(a * a), a]]), 0, np.array([[1.0, a]]), 0)
    assert rounded.exact(np.array([0]), np.array([0])).tolist() == [0.0]


def test_no_score_of_numbers_that_can_be_used_is_infinite():
    numbers = np.array([LARGEST, -LARGEST, np.nextafter(LARGEST, np.inf), 1e300, np.inf, -np.inf, np.nan])
    assert is_usable(numbers).tolist() == [True, True, *[False] * 5]
    largest = np.full((2, 20), LARGEST)
    users = prepared(largest, LARGEST, largest, LARGEST)
    assert np.isfinite(users.exact_of_all(0, 0, 2)).all()
    assert np.isfinite(users.error).all()
    # No array is longer.
    assert np.isfinite(LARGEST**2 * 2.0**32)


def test_cosines_are_of_vectors_of_length_one():
    items = np.array([[3.0, 4.0], [0.0, 0.0], [3e200, 4e200]])
    users = prepared(items, 0, np.array([[1e-200, 0.0]]), 0.5, "cosine")
    assert users.exact_of_all(0, 0, 3).tolist() == [1.1, 0.5, 1.1]


@pytest.mark.parametrize("shape", [(0, 3), (4, 0)])
def test_no_items_and_no_dimensions(shape):
    n_items, length = shape
    labels = Ragged.from_lists([[-1], [n_items - 1]], np.int64)
    found_ranks = rank_items(
        prepared(np.zeros(shape), 0, np.zeros((2, length)), 0), labels, Limits(np.ones(2, bool)), first=2
    )
    assert found_ranks.first.values.tolist() == [0, 1] * 2 * bool(n_items)
    assert found_ranks.rank.tolist() == [0, n_items]
