from collections import Counter

import numpy as np
import pytest

from spark_rankeval.ranking.matching import first_occurrences, match, repeated_items
from spark_rankeval.ranking.ragged import Ragged, offsets_of

LARGEST, SMALLEST = np.iinfo(np.int64).max, np.iinfo(np.int64).min


def pairs_of(items, labels, first=None, dtype=np.int64):
    found = match(Ragged.from_lists(items, dtype), Ragged.from_lists(labels, dtype), first)
    return sorted(zip(found.prediction.tolist(), found.label.tolist(), strict=True))


def test_a_prediction_is_paired_with_the_label_of_its_item():
    assert pairs_of([[5, 6, 7]], [[7, 5]]) == [(0, 1), (2, 0)]


def test_users_do_not_match_each_others_labels():
    assert pairs_of([[1, 2], [3, 4]], [[3, 4], [1, 2]]) == []


def test_every_occurrence_of_a_repeated_item_matches():
    assert pairs_of([[1, 2, 1]], [[1]]) == [(0, 0), (2, 0)]


def test_places_past_the_end_of_a_short_list_match_nothing():
    # The place after the end of the first list holds an item that the first user has as a label.
    assert pairs_of([[1], [2, 3]], [[2, 3], [3]]) == [(2, 2)]
    assert pairs_of([[0, 0], [1]], [[0], [0]]) == [(0, 0), (1, 0)]


@pytest.mark.parametrize("items", [[[], []], [[1], []], [[], [1]]])
def test_empty_lists_and_empty_labels_match_nothing(items):
    assert pairs_of(items, [[], []]) == []
    assert pairs_of([[], []], items) == []


def test_no_users_at_all():
    assert pairs_of([], []) == []


def test_only_the_first_items_of_each_list_are_looked_at():
    assert pairs_of([[1, 2, 3], [3]], [[1, 3], [3]], first=2) == [(0, 0), (3, 2)]


def test_items_that_are_real_numbers_match_when_they_are_equal():
    assert pairs_of([[0.5, -0.0, np.inf]], [[0.0, np.inf, 0.25]], dtype=np.float64) == [(1, 0), (2, 1)]


def test_real_numbers_are_looked_up_among_many_labels_by_what_they_are_equal_to():
    many = np.arange(40.0).tolist()
    assert pairs_of([[-0.0, 0.5, 7.0]], [many], dtype=np.float64) == [(0, 0), (2, 7)]


def test_users_who_share_a_place_of_the_table_do_not_match_each_others_labels():
    # All items are one. Lists of unequal length are looked up, in a table with fewer places than there are users.
    lengths = np.ones(50_000, np.int64)
    lengths[0] = 10
    items, labels = (Ragged(np.zeros(n.sum(), np.int64), offsets_of(n)) for n in (lengths, np.arange(50_000) < 1_000))
    assert match(items, labels).prediction.tolist() == list(range(1_009))


def test_the_extreme_integers_are_items_like_others():
    assert pairs_of([[LARGEST, SMALLEST], [0]], [[SMALLEST, LARGEST], [LARGEST]]) == [(0, 1), (1, 0)]


@pytest.mark.parametrize("n_short_users", [0, 3, 60])
@pytest.mark.parametrize("n_labels", [3, 256, 257, 400])
@pytest.mark.parametrize("first", [None, 7])
def test_matches_are_the_pairs_of_equal_items_each_once(n_labels, first, n_short_users):
    rng = np.random.default_rng(25)
    items = [rng.choice(1000, n, replace=True).tolist() for n in (10, 10, 0, 10, 9, 10, 10, 10)]
    labels = [rng.choice(1000, n, replace=False).tolist() for n in (n_labels, 1, n_labels, 0, 2, 5, 900, 3)]
    items += [rng.choice(20, 10, replace=False).tolist() for _ in range(n_short_users)]
    labels += [rng.choice(20, 4, replace=False).tolist() for _ in range(n_short_users)]
    within, beyond = set(), set()
    item_offset = label_offset = 0
    for user_items, user_labels in zip(items, labels, strict=True):
        for position, item in enumerate(user_items):
            if item in user_labels:
                looked_at = first is None or position < first
                (within if looked_at else beyond).add((item_offset + position, label_offset + user_labels.index(item)))
        item_offset += len(user_items)
        label_offset += len(user_labels)
    found = pairs_of(items, labels, first)
    assert len(found) == len(set(found))
    assert within <= set(found) <= within | beyond


def repeated(lists, dtype=np.int64):
    found = repeated_items(Ragged.from_lists(lists, dtype))
    return [found.values[start:stop].tolist() for start, stop in zip(found.offsets, found.offsets[1:], strict=False)]


def test_an_item_that_stands_twice_is_repeated():
    assert repeated([[1, 2, 1], [1, 2, 3], [4, 4]]) == [[1], [], [4]]


def test_an_item_that_stands_many_times_is_repeated_once():
    assert repeated([[4, 4, 4, 4, 4], [5, 3, 5, 3, 5]]) == [[4], [3, 5]]


def test_the_same_item_in_two_lists_is_not_repeated():
    assert repeated([[1], [1], [1, 2]]) == [[], [], []]


def test_nothing_is_repeated_in_empty_lists_and_lists_of_one():
    assert repeated([[], [7], []]) == [[], [], []]


def test_places_past_the_end_of_a_short_list_repeat_nothing():
    # A place past the end of the first list holds the 1 that it has itself.
    assert repeated([[1], [1, 2, 3]]) == [[], []]
    assert repeated([[1, 2, 3], [9, 3], [3]]) == [[], [], []]


def test_the_largest_integer_once_beside_longer_lists_is_not_repeated():
    assert repeated([[LARGEST], [1, LARGEST, 2, 3], [1, 2, 3, 4]]) == [[], [], []]


def test_the_largest_integer_twice_is_repeated_also_beside_longer_lists():
    assert repeated([[LARGEST, LARGEST], [5, LARGEST, LARGEST], [1, 2, 3, 4]]) == [[LARGEST], [LARGEST], []]


def test_infinity_once_beside_longer_lists_is_not_repeated():
    assert repeated([[np.inf], [1, np.inf], [-np.inf, 0, np.inf, 1]], np.float64) == [[], [], []]


def test_infinity_twice_is_repeated_also_beside_longer_lists():
    found = repeated([[np.inf, np.inf], [-np.inf, 1, -np.inf], [1, 2, 3, 4]], np.float64)
    assert found == [[np.inf], [-np.inf], []]


def test_repeated_items_of_lists_of_very_different_lengths():
    lists = [list(range(1000)), [1, 1], [], [2], [*range(500), 0], list(range(130))]
    assert repeated(lists) == [[], [1], [], [], [0], []]


@pytest.mark.parametrize("longest", [12, 600])
def test_repeated_items_of_random_lists(longest):
    rng = np.random.default_rng(longest)
    lists = [rng.integers(0, longest, rng.integers(0, longest)).tolist() for _ in range(60)]
    assert repeated(lists) == [sorted(item for item, n in Counter(one).items() if n > 1) for one in lists]


def kept(lists, scores=None):
    items = Ragged.from_lists(lists, np.int64)
    scores = None if scores is None else items.like(np.array(scores, np.float64))
    return first_occurrences(items, repeated_items(items), scores).tolist()


def test_of_equal_items_the_one_of_the_highest_score_stays():
    assert kept([[1, 2, 1, 1]], [0, 3, 2, 1]) == [False, True, True, False]


def test_of_equal_items_of_equal_scores_the_first_stays():
    assert kept([[1, 2, 1, 1]], [0, 3, 2, 2]) == [False, True, True, False]


def test_of_equal_items_without_scores_the_first_stays():
    assert kept([[1, 2, 1], [3, 3]]) == [True, True, False, True, False]


def test_equal_items_of_different_users_all_stay():
    assert kept([[1, 2], [1, 2]], [0, 1, 2, 3]) == [True] * 4


@pytest.mark.parametrize("longest", [12, 600])
def test_first_occurrences_of_random_lists(longest):
    rng = np.random.default_rng(longest)
    lists = [rng.integers(0, longest, rng.integers(1, longest)).tolist() for _ in range(60)]
    scores = [rng.integers(0, 3, len(one)).tolist() for one in lists]
    expected = []
    for items, own in zip(lists, scores, strict=True):
        best = {
            item: max((s, -n) for n, (i, s) in enumerate(zip(items, own, strict=True)) if i == item) for item in items
        }
        expected += [best[item] == (s, -n) for n, (item, s) in enumerate(zip(items, own, strict=True))]
    assert kept(lists, [s for own in scores for s in own]) == expected
