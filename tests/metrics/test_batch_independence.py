"""A user's values have the same bits in every batch: alone, split, in any order, beside longer lists, and concatenated."""

import itertools

import numpy as np
import pytest
from worlds.ranked_users import lists_of, long_users, random_users, ranked
from worlds.variants import METRICS, some

from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.user_lists import Ragged

SOME = [variant for metric in METRICS for variant in some(metric, 6, cutoffs=(None, 1, 10, 150))]
TIES = ("item_asc", "item_desc", "position")
FRACTIONS = (-0.7, 0.0, 0.1, 0.3, 0.9, 1.0, 1.7, 2.3, 3.1)


def make_users(*, scored):
    """Short lists and lists of more than 128, few labels and more than 256, whole and fractional grades, mixed."""
    rng = np.random.default_rng(31)
    users = [
        *random_users(rng, 40, scored=scored),
        *random_users(rng, 40, scored=scored, grades=FRACTIONS),
        *random_users(rng, 20, scored=scored, grades=(0.0, 1.0)),
        *long_users(rng, 8, 900, 400, scored=scored, grades=FRACTIONS),
        *long_users(rng, 8, 300, 20, scored=scored, grades=FRACTIONS),
    ]
    return [users[place] for place in rng.permutation(len(users))]


def users_of_one_length(*, scored):
    """Lists of equal length, a few of them with more than 256 labels."""
    rng = np.random.default_rng(33)
    users = []
    for nth in range(116):
        n_labels = 300 if nth % 50 == 7 else rng.integers(1, 9)
        scores = rng.random(10).tolist() if scored else [None] * 10
        labels = rng.choice(400, n_labels, replace=False).tolist()
        items = [*rng.choice(labels, 1).tolist(), *(400 + rng.permutation(9)).tolist()]
        users.append(
            (list(zip(items, scores, strict=True)), list(zip(labels, rng.choice(FRACTIONS, n_labels), strict=True)))
        )
    return users


USERS = {
    "by score": make_users(scored=True),
    "in order": make_users(scored=False),
    "by score, lists of one length": users_of_one_length(scored=True),
    "in order, lists of one length": users_of_one_length(scored=False),
}


def rank(users, **options):
    return ranked(lists_of(users), keep_label_order=True, **options)


def figures(batch):
    """One row a user, one column a metric."""
    return np.stack([metric.compute(batch) for metric in SOME], axis=1)


def assert_same_bits(actual, expected):
    assert actual.shape == expected.shape
    differing = (actual.view(np.int64) != expected.view(np.int64)) & ~(np.isnan(actual) & np.isnan(expected))
    if differing.any():
        user, metric = np.argwhere(differing)[0]
        pytest.fail(f"{SOME[metric]} of user {user}: {actual[user, metric]!r} is not {expected[user, metric]!r}")


IN_CI = ("in order", "by score, lists of one length")


@pytest.fixture(scope="module", params=[pytest.param(kind, marks=[pytest.mark.ci] * (kind in IN_CI)) for kind in USERS])
def users(request):
    return USERS[request.param]


@pytest.fixture(scope="module")
def whole(users):
    return figures(rank(users)[0])


def test_a_user_alone_has_the_value_that_it_has_among_others(users, whole):
    # They come in any order, so that every kind of user is met.
    some_users = range(0, len(users), 11)
    alone = np.concatenate([figures(rank([users[place]])[0]) for place in some_users])
    assert_same_bits(alone, whole[some_users])


def test_neither_a_split_into_batches_nor_an_order_of_users_or_metrics_changes_a_bit(users, whole):
    rng = np.random.default_rng(7)
    cuts = [0, *np.sort(rng.integers(0, len(users) + 1, 6)).tolist(), len(users)]
    parts = [rank(users[low:high])[0] for low, high in itertools.pairwise(cuts)]
    assert_same_bits(np.concatenate(list(map(figures, parts))), whole)
    assert_same_bits(figures(RankingBatch.concatenate(parts)), whole)
    order = rng.permutation(len(users))
    batch, _ = rank([users[place] for place in order])
    backwards = np.stack([metric.compute(batch) for metric in reversed(SOME)], axis=1)
    assert_same_bits(np.ascontiguousarray(backwards[:, ::-1]), whole[order])


def test_a_user_among_much_longer_lists_has_the_value_that_it_has_among_short_ones(users, whole):
    scored = any(score is not None for predictions, _ in users for _, score in predictions)
    longer = long_users(np.random.default_rng(32), 3, 5000, 300, scored=scored)
    batch, _ = rank([*longer[:2], *users, longer[2]])
    assert_same_bits(figures(batch)[2:-1], whole)


@pytest.mark.parametrize("cuts", [[], [0], [40, 40, 90], list(range(1, 116))])
def test_concatenated_batches_are_the_whole(users, cuts):
    bounds = [0, *cuts, len(users)]
    parts = [rank(users[low:high])[0] for low, high in itertools.pairwise(bounds)]
    together, expected = RankingBatch.concatenate(parts), rank(users)[0]
    assert together.n_users == expected.n_users
    for name in ("n_predictions", "user", "rank", "grade", "tied_above", "tied"):
        np.testing.assert_array_equal(getattr(together, name), getattr(expected, name), err_msg=name)
    for name in ("labels", "raw_labels"):
        ours, theirs = getattr(together, name), getattr(expected, name)
        assert isinstance(ours, Ragged)
        np.testing.assert_array_equal(ours.values, theirs.values, err_msg=name)
        np.testing.assert_array_equal(ours.offsets, theirs.offsets, err_msg=name)
    np.testing.assert_array_equal(together.repeats(), expected.repeats())


def test_concatenated_batches_have_no_label_order_unless_all_have_one(users):
    with_order, without = rank(users[:5])[0], ranked(lists_of(users[5:]))[0]
    assert RankingBatch.concatenate([with_order, without]).raw_labels is None


def test_what_is_found_of_a_user_does_not_hang_on_the_others(users):
    some_users = range(0, len(users), 3)
    for ties, duplicates in itertools.product(TIES, ("count", "keep_best", "each")):
        options = {"ties": ties, "duplicates": duplicates, "largest_cutoff": 10}
        among = rank(users, **options)[1]
        alone = [rank([users[place]], **options)[1] for place in some_users]
        for name, values in among._asdict().items():
            assert values[some_users].tolist() == [int(getattr(one, name)[0]) for one in alone], (name, options)
