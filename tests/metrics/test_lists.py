"""Lists of users in one array, which items of two such lists are equal, and which items a list repeats."""

from collections import Counter

import numpy as np
import pytest
from worlds.ranked_users import batch_of, in_order, ungraded

from spark_rankeval.ranking.batch import POPULATIONS
from spark_rankeval.ranking.user_lists import (
    Ragged,
    first_occurrences,
    grouped,
    match,
    offsets_of,
    position_within,
    repeated_items,
    starts_of_runs,
    width_classes,
)

LARGEST, SMALLEST, INF = np.iinfo(np.int64).max, np.iinfo(np.int64).min, np.inf


def ragged(lists, dtype=None):
    """Lists as integers, or as floats if an item is one."""
    is_real = any(isinstance(item, float) for one in lists for item in one)
    return Ragged.from_lists(lists, dtype or (np.float64 if is_real else np.int64))


def lists_in(found):
    return [found.values[low:high].tolist() for low, high in zip(found.offsets[:-1], found.offsets[1:], strict=True)]


# ---- lists in one array

LISTS = [[3, 1], [], [2, 5, 4], [9]]
RAGGED = ragged(LISTS)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (RAGGED, LISTS),
        (RAGGED.accumulated(np.add), [[3, 4], [], [2, 7, 11], [9]]),
        (RAGGED.accumulated(np.multiply), [[3, 3], [], [2, 10, 40], [9]]),
        (ragged([[], []]).accumulated(np.add), [[], []]),
        (RAGGED.users(1, 3), [[], [2, 5, 4]]),
        (RAGGED.where(RAGGED.values > 2), [[3], [], [5, 4], [9]]),
        (RAGGED.like(10 * RAGGED.values), [[30, 10], [], [20, 50, 40], [90]]),
        (grouped(np.array([3, 1, 2]), np.array([0, 0, 2]), 4), [[3, 1], [], [2], []]),
        *((Ragged.concatenate([RAGGED.users(0, cut), RAGGED.users(cut, 4)]), LISTS) for cut in range(5)),
        (Ragged.from_lists([], np.int64), []),
    ],
)
def test_lists_stay_those_of_their_users(found, expected):
    assert lists_in(found) == expected
    assert (found.offsets[0], found.n_users, found.values.dtype) == (0, len(expected), np.int64)
    assert found.lengths.tolist() == list(map(len, expected))
    assert found.user.tolist() == [user for user, one in enumerate(expected) for _ in one]


@pytest.mark.parametrize("lengths", [(0, 300, 1, 17, 130, 2), (90, 1, 90, 1, 90), (3, 3, 0, 3), (4, 3, 0, 4)], ids=str)
def test_running_results_are_those_of_one_value_after_the_other(lengths):
    rng = np.random.default_rng(55)
    lists = [rng.random(length).tolist() for length in lengths]
    add = np.frompyfunc(lambda a, b: a + b, 2, 1)
    expected = [add.accumulate(values).tolist() if values else [] for values in lists]
    assert lists_in(Ragged.from_lists(lists).accumulated(np.add)) == expected


def test_rows_of_a_matrix_start_with_the_lists():
    matrix = RAGGED.matrix(np.array([2, 0, 3]), 4)
    assert matrix.shape == (3, 4)
    assert [row[:n].tolist() for row, n in zip(matrix, (3, 2, 1), strict=True)] == [LISTS[2], LISTS[0], LISTS[3]]
    equal = ragged([[1, 2], [3, 4], [5, 6]])
    for users in ([0, 1, 2], [2, 0], [2, 0, 1]):
        assert equal.matrix(np.array(users), 2).tolist() == [[[1, 2], [3, 4], [5, 6]][user] for user in users]
    # Lists whose mean length is the width are not taken for lists of that length.
    unequal = ragged([[1], [2, 3, 4]])
    assert unequal.matrix(np.array([1]), 3)[0].tolist() == [2, 3, 4]
    assert unequal.matrix(np.array([0]), 2)[0, 0] == 1
    assert ragged([[], []]).matrix(np.array([0, 1]), 3).shape == (2, 3)


def test_where_runs_start_and_what_stands_where():
    starts = starts_of_runs(np.array([0, 0, 0, 1, 1]), np.array([5.0, 5.0, 7.0, 7.0, 7.0]))
    assert starts.tolist() == [True, False, True, True, False]
    assert starts_of_runs(np.empty(0)).tolist() == []
    assert offsets_of([2, 0, 3]).tolist() == [0, 2, 2, 5]
    assert offsets_of([]).tolist() == [0]
    assert position_within(np.array([0, 0, 2, 2, 2, 3]), 5).tolist() == [0, 1, 0, 1, 2, 0]


@pytest.mark.parametrize(
    "lengths",
    [
        [5, 5, 5], [1, 1, 1, 1, 1000], [0, 8, 0, 8, 0, 8], list(range(300)), [7], [10] * 50 + [0], [], [0, 0, 0],
        [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 1023, 1024, 1025],
    ],
    ids=len,
)  # fmt: skip
def test_every_list_is_in_one_group_that_is_as_wide_as_its_longest_and_hardly_wider_than_its_others(lengths):
    lengths = np.array(lengths, np.int64)
    groups = list(width_classes(lengths))
    users = [user for group, _ in groups for user in group.tolist()]
    assert len(users) == len(set(users))
    assert set(np.flatnonzero(lengths > 0).tolist()) <= set(users)
    assert (len(groups) > 0) == lengths.any()
    for group, width in groups:
        assert group.tolist() == sorted(group.tolist())
        assert lengths[group].max() == width
    assert sum(len(group) * width for group, width in groups) <= 2 * lengths.sum()
    assert lengths.tolist() != [10] * 50 + [0] or users == list(range(50)), "an empty list in a group"


# ---- equal items


def pairs_of(items, labels, first=None, dtype=None):
    found = match(ragged(items, dtype), ragged(labels, dtype), first)
    return sorted(zip(found.prediction.tolist(), found.label.tolist(), strict=True))


@pytest.mark.parametrize(
    ("items", "labels", "options", "expected"),
    [
        ([[5, 6, 7]], [[7, 5]], {}, [(0, 1), (2, 0)]),
        # Users do not match each other's labels.
        ([[1, 2], [3, 4]], [[3, 4], [1, 2]], {}, []),
        # Every occurrence of a repeated item matches.
        ([[1, 2, 1]], [[1]], {}, [(0, 0), (2, 0)]),
        # The place after the end of the first list holds an item that the first user has as a label.
        ([[1], [2, 3]], [[2, 3], [3]], {}, [(2, 2)]),
        ([[0, 0], [1]], [[0], [0]], {}, [(0, 0), (1, 0)]),
        *((items, [[], []], {}, []) for items in ([[], []], [[1], []], [[], [1]])),
        *(([[], []], labels, {}, []) for labels in ([[1], []], [[], [1]])),
        ([], [], {}, []),
        ([[1, 2, 3], [3]], [[1, 3], [3]], {"first": 2}, [(0, 0), (3, 2)]),
        ([[0.5, -0.0, INF]], [[0.0, INF, 0.25]], {}, [(1, 0), (2, 1)]),
        # Among many labels items are looked up.
        ([[-0.0, 0.5, 7.0]], [np.arange(40.0).tolist()], {}, [(0, 0), (2, 7)]),
        ([[LARGEST, SMALLEST], [0]], [[SMALLEST, LARGEST], [LARGEST]], {}, [(0, 1), (1, 0)]),
    ],
)
def test_a_prediction_is_paired_with_the_label_of_its_item(items, labels, options, expected):
    assert pairs_of(items, labels, **options) == expected


def test_users_who_share_a_place_of_the_table_do_not_match_each_others_labels():
    # All items are one. Lists of unequal length are looked up, in a table with fewer places than there are users.
    lengths = np.ones(50_000, np.int64)
    lengths[0] = 10
    items, labels = (Ragged(np.zeros(n.sum(), np.int64), offsets_of(n)) for n in (lengths, np.arange(50_000) < 1_000))
    assert match(items, labels).prediction.tolist() == list(range(1_009))


@pytest.mark.parametrize("n_short_users", [0, 3, 60])
@pytest.mark.parametrize("n_labels", [3, 256, 257, 400])
def test_matches_are_the_pairs_of_equal_items_each_once(n_labels, n_short_users):
    rng = np.random.default_rng(25)
    items = [rng.choice(1000, n, replace=True).tolist() for n in (10, 10, 0, 10, 9, 10, 10, 10)]
    labels = [rng.choice(1000, n, replace=False).tolist() for n in (n_labels, 1, n_labels, 0, 2, 5, 900, 3)]
    items += [rng.choice(20, 10, replace=False).tolist() for _ in range(n_short_users)]
    labels += [rng.choice(20, 4, replace=False).tolist() for _ in range(n_short_users)]
    item_starts, label_starts = (offsets_of(list(map(len, lists))) for lists in (items, labels))
    for first in (None, 7):
        within, beyond = set(), set()
        for user, (listed, labelled) in enumerate(zip(items, labels, strict=True)):
            for place, item in enumerate(listed):
                if item in labelled:
                    pair = (item_starts[user] + place, label_starts[user] + labelled.index(item))
                    (within if first is None or place < first else beyond).add(pair)
        found = pairs_of(items, labels, first)
        assert len(found) == len(set(found)), first
        assert within <= set(found) <= within | beyond, first


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        ([[1, 2, 1], [1, 2, 3], [4, 4]], [[1], [], [4]]),
        ([[4, 4, 4, 4, 4], [5, 3, 5, 3, 5]], [[4], [3, 5]]),
        ([[1], [1], [1, 2]], [[], [], []]),
        ([[], [7], []], [[], [], []]),
        # A place past the end of the first list holds the 1 that it has itself.
        ([[1], [1, 2, 3]], [[], []]),
        ([[1, 2, 3], [9, 3], [3]], [[], [], []]),
        ([[LARGEST], [1, LARGEST, 2, 3], [1, 2, 3, 4]], [[], [], []]),
        ([[LARGEST, LARGEST], [5, LARGEST, LARGEST], [1, 2, 3, 4]], [[LARGEST], [LARGEST], []]),
        ([[INF], [1.0, INF], [-INF, 0.0, INF, 1.0]], [[], [], []]),
        ([[INF, INF], [-INF, 1.0, -INF], [1.0, 2.0, 3.0, 4.0]], [[INF], [-INF], []]),
        ([list(range(1000)), [1, 1], [], [2], [*range(500), 0], list(range(130))], [[], [1], [], [], [0], []]),
    ],
)
def test_an_item_that_stands_more_than_once_in_a_list_is_repeated(lists, expected):
    assert lists_in(repeated_items(ragged(lists))) == expected


def kept(lists, scores=None):
    items = ragged(lists)
    scores = None if scores is None else items.like(np.array(scores, np.float64))
    return first_occurrences(items, repeated_items(items), scores).tolist()


@pytest.mark.parametrize(
    ("lists", "scores", "expected"),
    [
        ([[1, 2, 1, 1]], [0, 3, 2, 1], [False, True, True, False]),
        ([[1, 2, 1, 1]], [0, 3, 2, 2], [False, True, True, False]),
        ([[1, 2, 1], [3, 3]], None, [True, True, False, True, False]),
        ([[1, 2], [1, 2]], [0, 1, 2, 3], [True] * 4),
    ],
)
def test_of_equal_items_the_first_of_the_highest_score_stays(lists, scores, expected):
    assert kept(lists, scores) == expected


@pytest.mark.parametrize("longest", [12, 600])
def test_random_lists_are_settled_as_by_counting(longest):
    rng = np.random.default_rng(longest)
    lists = [rng.integers(0, longest, rng.integers(0, longest)).tolist() for _ in range(60)]
    counted = [sorted(item for item, n in Counter(one).items() if n > 1) for one in lists]
    assert lists_in(repeated_items(ragged(lists))) == counted
    scores = [rng.integers(0, 3, len(one)).tolist() for one in lists]
    expected = []
    for items, own in zip(lists, scores, strict=True):
        order = sorted(range(len(items)), key=lambda n: (-own[n], n))
        first = {items[n]: n for n in reversed(order)}
        expected += [first[item] == n for n, item in enumerate(items)]
    assert kept(lists, [score for own in scores for score in own]) == expected


# ---- who is in a mean


@pytest.mark.parametrize(
    ("population", "expected"),
    [
        ("every", [True, True, True, True]), ("labelled", [True, True, True, False]),
        ("predicted", [True, False, True, True]), ("both", [True, False, True, False]),
    ],
)  # fmt: skip
def test_a_population_asks_for_rows_and_not_for_relevance(population, expected):
    # In both tables; without predictions; with labels of which none is relevant; without labels.
    users = [(in_order([1]), ungraded([1])), ([], ungraded([1])), (in_order([1]), [(1, 0.0)]), (in_order([1]), [])]
    batch = batch_of(users)
    assert POPULATIONS[population].includes(batch.labels.lengths, batch.n_predictions).tolist() == expected
