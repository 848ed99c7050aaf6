import numpy as np
import pytest

from spark_rankeval.ranking.ragged import Ragged, grouped, offsets_of, position_within, starts_of_runs, width_classes

LISTS = [[3, 1], [], [2, 5, 4], [9]]


@pytest.fixture
def ragged():
    return Ragged.from_lists(LISTS, np.int64)


def lists_in(ragged):
    return [ragged.values[low:high].tolist() for low, high in zip(ragged.offsets[:-1], ragged.offsets[1:], strict=True)]


def test_lists_come_back_as_they_went_in(ragged):
    assert lists_in(ragged) == LISTS
    assert ragged.n_users == 4
    assert ragged.lengths.tolist() == [2, 0, 3, 1]


def test_every_value_knows_its_user(ragged):
    assert ragged.user.tolist() == [0, 0, 2, 2, 2, 3]


def test_running_results_start_anew_with_every_list(ragged):
    assert lists_in(ragged.accumulated(np.add)) == [[3, 4], [], [2, 7, 11], [9]]
    assert lists_in(ragged.accumulated(np.multiply)) == [[3, 3], [], [2, 10, 40], [9]]
    assert lists_in(Ragged.from_lists([[], []]).accumulated(np.add)) == [[], []]


@pytest.mark.parametrize("lengths", [(0, 300, 1, 17, 130, 2), (90, 1, 90, 1, 90), (3, 3, 0, 3), (4, 3, 0, 4)], ids=str)
def test_running_results_are_those_of_one_value_after_the_other(lengths):
    rng = np.random.default_rng(55)
    lists = [rng.random(length).tolist() for length in lengths]
    expected = [
        np.frompyfunc(lambda a, b: a + b, 2, 1).accumulate(values).tolist() if values else [] for values in lists
    ]
    assert lists_in(Ragged.from_lists(lists).accumulated(np.add)) == expected


def test_values_are_grouped_by_their_users():
    assert lists_in(grouped(np.array([3, 1, 2]), np.array([0, 0, 2]), 4)) == [[3, 1], [], [2], []]


def test_no_lists_at_all():
    empty = Ragged.from_lists([], np.int64)
    assert empty.n_users == 0
    assert empty.user.tolist() == []
    assert empty.values.dtype == np.int64


def test_nothing_but_empty_lists_keep_the_type_asked_for():
    empty = Ragged.from_lists([[], []], np.int64)
    assert empty.values.dtype == np.int64
    assert empty.lengths.tolist() == [0, 0]


def test_a_run_of_users_starts_its_offsets_at_zero(ragged):
    part = ragged.users(1, 3)
    assert part.offsets.tolist() == [0, 0, 3]
    assert lists_in(part) == [[], [2, 5, 4]]


@pytest.mark.parametrize("cut", range(5))
def test_parts_concatenate_to_the_whole(ragged, cut):
    whole = Ragged.concatenate([ragged.users(0, cut), ragged.users(cut, 4)])
    assert lists_in(whole) == LISTS
    assert whole.offsets.tolist() == ragged.offsets.tolist()


def test_where_keeps_values_in_their_lists(ragged):
    assert lists_in(ragged.where(ragged.values > 2)) == [[3], [], [5, 4], [9]]


def test_like_has_other_values_in_lists_of_the_same_lengths(ragged):
    assert lists_in(ragged.like(10 * ragged.values)) == [[30, 10], [], [20, 50, 40], [90]]


def test_rows_of_a_matrix_start_with_the_lists(ragged):
    users = np.array([2, 0, 3])
    matrix = ragged.matrix(users, 4)
    assert matrix.shape == (3, 4)
    for row, user in zip(matrix, users, strict=True):
        assert row[: len(LISTS[user])].tolist() == LISTS[user]


def test_lists_of_one_length_are_the_matrix_itself():
    ragged = Ragged.from_lists([[1, 2], [3, 4], [5, 6]], np.int64)
    assert ragged.matrix(np.arange(3), 2).tolist() == [[1, 2], [3, 4], [5, 6]]
    assert ragged.matrix(np.array([2, 0]), 2).tolist() == [[5, 6], [1, 2]]
    assert ragged.matrix(np.array([2, 0, 1]), 2).tolist() == [[5, 6], [1, 2], [3, 4]]


def test_a_run_starts_where_any_key_differs_from_the_entry_before():
    starts = starts_of_runs(np.array([0, 0, 0, 1, 1]), np.array([5.0, 5.0, 7.0, 7.0, 7.0]))
    assert starts.tolist() == [True, False, True, True, False]


def test_no_entries_have_no_runs():
    assert starts_of_runs(np.empty(0)).tolist() == []


def test_lists_whose_mean_length_is_the_width_are_not_taken_for_lists_of_that_length():
    ragged = Ragged.from_lists([[1], [2, 3, 4]], np.int64)
    assert ragged.matrix(np.array([1]), 3)[0].tolist() == [2, 3, 4]
    assert ragged.matrix(np.array([0]), 2)[0, 0] == 1


def test_a_matrix_of_empty_lists_has_rows():
    assert Ragged.from_lists([[], []], np.int64).matrix(np.array([0, 1]), 3).shape == (2, 3)


def test_offsets_are_running_sums_from_zero():
    assert offsets_of([2, 0, 3]).tolist() == [0, 2, 2, 5]
    assert offsets_of([]).tolist() == [0]


def test_position_within_counts_from_zero_for_every_user():
    assert position_within(np.array([0, 0, 2, 2, 2, 3]), 5).tolist() == [0, 1, 0, 1, 2, 0]


WIDTHS = {
    "all equal": [5, 5, 5],
    "one long among short": [1, 1, 1, 1, 1000],
    "half empty": [0, 8, 0, 8, 0, 8],
    "every length": list(range(300)),
    "powers of two and their neighbours": [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 1023, 1024, 1025],
    "a single list": [7],
}


@pytest.mark.parametrize("lengths", WIDTHS.values(), ids=WIDTHS)
def test_every_list_is_in_one_group_that_is_as_wide_as_its_longest(lengths):
    lengths = np.array(lengths)
    groups = list(width_classes(lengths))
    users = np.concatenate([group for group, _ in groups])
    assert len(users) == len(set(users.tolist()))
    assert set(np.flatnonzero(lengths > 0).tolist()) <= set(users.tolist())
    for group, width in groups:
        assert group.tolist() == sorted(group.tolist())
        assert lengths[group].max() == width


@pytest.mark.parametrize("lengths", WIDTHS.values(), ids=WIDTHS)
def test_padding_to_the_width_of_the_groups_wastes_at_most_half_of_the_cells(lengths):
    lengths = np.array(lengths)
    cells = sum(len(group) * width for group, width in width_classes(lengths))
    assert cells <= 2 * lengths.sum()


def test_a_group_leaves_out_empty_lists():
    groups = list(width_classes(np.array([10] * 50 + [0])))
    assert sorted(np.concatenate([group for group, _ in groups]).tolist()) == list(range(50))


@pytest.mark.parametrize("lengths", [[], [0], [0, 0, 0]])
def test_empty_lists_make_no_group(lengths):
    assert list(width_classes(np.array(lengths, np.int64))) == []
