import numpy as np
import pytest
from helpers.effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds.ranked_users import in_order, lists_of, ranked, ungraded

from spark_rankeval.ranking import ranks as places
from spark_rankeval.ranking.batch import Look
from spark_rankeval.ranking.lists import RawLists
from spark_rankeval.ranking.ragged import Ragged


def ranks(predictions, items=None, **options):
    """The rank of each of a user's items, all of them labelled so that all are seen."""
    every = items or sorted({item for item, _ in predictions})
    # The grade tells which item a rank belongs to.
    users = [(predictions, [(item, float(nth + 1)) for nth, item in enumerate(every)])]
    batch, _ = ranked(lists_of(users), **options)
    found = {}
    for rank, grade in zip(batch.rank.tolist(), batch.grade.tolist(), strict=True):
        found.setdefault(every[int(grade) - 1], []).append(rank)
    return {item: found[item][0] if len(found[item]) == 1 else found[item] for item in found}


def findings(predictions, labels, **options):
    found = ranked(lists_of([(predictions, labels)]), **options)[1]
    return {name: int(values[0]) for name, values in found._asdict().items()}


def test_a_higher_score_ranks_better():
    assert ranks([(1, 0.1), (2, 0.9), (3, 0.5)]) == {2: 1, 3: 2, 1: 3}


def test_negative_and_infinite_scores_rank_by_their_value():
    assert ranks([(1, -1.0), (2, float("-inf")), (3, float("inf")), (4, -2.0)]) == {3: 1, 1: 2, 4: 3, 2: 4}


def test_lists_without_scores_rank_in_the_order_given():
    assert ranks(in_order([7, 3, 5])) == {7: 1, 3: 2, 5: 3}


@pytest.mark.parametrize(
    ("ties", "expected"),
    [
        ("item_asc", {9: 1, 2: 2, 5: 3, 7: 4, 1: 5}),
        ("item_desc", {9: 1, 7: 2, 5: 3, 2: 4, 1: 5}),
        ("position", {9: 1, 5: 2, 2: 3, 7: 4, 1: 5}),
    ],
)
def test_equal_scores_are_ordered_by_the_rule(ties, expected):
    assert ranks([(5, 0.5), (1, 0.1), (2, 0.5), (9, 0.9), (7, 0.5)], ties=ties) == expected


@pytest.mark.parametrize(
    ("ties", "expected"), [("item_asc", {-3: 1, 4: 2}), ("item_desc", {4: 1, -3: 2}), ("position", {4: 1, -3: 2})]
)
def test_negative_ids_compare_as_numbers(ties, expected):
    assert ranks([(4, 0.0), (-3, 0.0)], ties=ties) == expected


def test_negative_zero_and_zero_are_one_score():
    assert ranks([(2, 0.0), (1, -0.0)]) == {1: 1, 2: 2}
    assert ranks([(2, -0.0), (1, 0.0)], ties="position") == {2: 1, 1: 2}


@pytest.mark.parametrize(("ties", "expected"), [("item_asc", {1: 1, 2: 2}), ("item_desc", {2: 1, 1: 2})])
def test_ids_are_ordered_by_the_order_that_is_given_for_them(ties, expected):
    lists = RawLists(
        items=Ragged.from_lists([[1, 2]], np.int64),
        scores=Ragged.from_lists([[0.5, 0.5]], np.float64),
        labels=Ragged.from_lists([[1, 2]], np.int64),
        grades=Ragged.from_lists([[1.0, 2.0]], np.float64),
        order=lambda items: 30 - 10 * items,
    )
    batch, _ = ranked(lists, ties=ties)
    as_given = {int(grade): rank for grade, rank in zip(batch.grade, batch.rank.tolist(), strict=True)}
    # The given order is the reverse of the ids'.
    assert as_given == {item: 3 - rank for item, rank in expected.items()}


def test_the_order_of_ids_is_not_asked_for_where_no_scores_are_equal():
    def never(_):
        raise AssertionError

    lists = RawLists(
        items=Ragged.from_lists([[1, 2]], np.int64),
        scores=Ragged.from_lists([[0.5, 0.6]], np.float64),
        labels=Ragged.from_lists([[1, 2]], np.int64),
        order=never,
    )
    assert ranked(lists)[0].rank.tolist() == [1, 2]


def test_unlabelled_items_take_ranks():
    batch, _ = ranked(lists_of([([(1, 0.9), (2, 0.8), (3, 0.7)], ungraded([3]))]))
    assert batch.rank.tolist() == [3]
    assert batch.n_predictions.tolist() == [3]


def test_labelled_predictions_are_ordered_by_user_and_then_by_rank():
    users = [
        ([(1, 0.1), (2, 0.2), (3, 0.3)], ungraded([1, 2, 3])),
        ([], ungraded([1])),
        ([(5, 0.5), (4, 0.9)], ungraded([5, 4])),
    ]
    batch, _ = ranked(lists_of(users))
    assert batch.user.tolist() == [0, 0, 0, 2, 2]
    assert batch.rank.tolist() == [1, 2, 3, 1, 2]


def test_a_tied_group_knows_its_size_and_what_is_above():
    predictions = [(1, 0.9), (2, 0.5), (3, 0.5), (4, 0.5), (5, 0.1)]
    batch, _ = ranked(lists_of([(predictions, ungraded([1, 3, 5]))]))
    assert batch.rank.tolist() == [1, 3, 5]
    assert batch.tied_above.tolist() == [0, 1, 4]
    assert batch.tied.tolist() == [1, 3, 1]


def test_labels_without_grades_are_of_grade_one():
    lists = RawLists(Ragged.from_lists([[1]], np.int64), None, Ragged.from_lists([[1, 2]], np.int64))
    batch, _ = ranked(lists)
    assert batch.grade.tolist() == [1.0]
    assert batch.labels.values.tolist() == [1.0, 1.0]


TWICE = [(1, 0.9), (2, 0.8), (1, 0.7), (3, 0.6)]


def test_keep_best_leaves_the_best_ranked_of_equal_items():
    assert ranks(TWICE, duplicates="keep_best") == {1: 1, 2: 2, 3: 3}


def test_keep_best_looks_at_the_score_and_not_at_the_position():
    assert ranks([(1, 0.1), (2, 0.5), (1, 0.9)], duplicates="keep_best") == {1: 1, 2: 2}


def test_keep_best_leaves_the_first_of_equal_items_where_lists_come_in_order():
    assert ranks(in_order([4, 5, 4, 6]), duplicates="keep_best") == {4: 1, 5: 2, 6: 3}


@pytest.mark.parametrize("ties", ["item_asc", "item_desc", "position"])
def test_keep_best_leaves_one_of_equal_items_with_equal_scores(ties):
    assert ranks([(3, 0.5), (3, 0.5), (3, 0.5)], duplicates="keep_best", ties=ties) == {3: 1}


def test_keep_best_shortens_the_list_and_the_other_policies_do_not():
    users = [(TWICE, ungraded([1]))]
    lengths = {
        policy: ranked(lists_of(users), duplicates=policy)[0].n_predictions.tolist()
        for policy in ("keep_best", "count", "each")
    }
    assert lengths == {"keep_best": [3], "count": [4], "each": [4]}


@pytest.mark.parametrize("duplicates", ["count", "each"])
def test_repeated_items_that_stay_take_a_rank_each(duplicates):
    assert ranks(TWICE, duplicates=duplicates) == {1: [1, 3], 2: 2, 3: 4}


@pytest.mark.parametrize(("duplicates", "expected"), [("count", 2), ("keep_best", 2), ("each", 0)])
def test_repeated_predictions_are_counted_unless_each_is_an_item_of_its_own(duplicates, expected):
    found = findings(in_order([1, 2, 1, 2, 3]), ungraded([1]), duplicates=duplicates)
    assert found["duplicate_predictions"] == expected


def test_once_takes_a_rank_each_and_matches_the_best_ranked_alone():
    assert ranks(TWICE, duplicates="once") == {1: 1, 2: 2, 3: 4}
    assert ranks([(1, 0.1), (2, 0.5), (1, 0.9)], duplicates="once") == {1: 1, 2: 2}
    assert findings(TWICE, ungraded([1]), duplicates="once")["duplicate_predictions"] == 0


def test_scores_may_compare_as_float32():
    near = [(1, 1.0), (2, 1.0 + 2.0**-30), (3, 1.0 + 2.0**-20)]
    assert ranks(near) == {3: 1, 2: 2, 1: 3}
    assert ranks(near, score_precision="float32") == {3: 1, 1: 2, 2: 3}


def test_labelled_items_that_were_not_predicted_may_stand_last_all_equal():
    users = [([(4, 0.5), (2, -3.0)], ungraded([2, 9, 7]))]
    batch, found = ranked(lists_of(users), unpredicted_labels="last")
    assert batch.rank.tolist() == [2, 3, 4]
    assert batch.tied.tolist() == [1, 2, 2]
    assert batch.n_predictions.tolist() == [4]
    assert found.unpredicted.tolist() == [2]
    assert ranked(lists_of(users))[1].unpredicted.tolist() == [0]


def test_unpredicted_labels_stand_below_lists_that_come_in_order():
    batch, _ = ranked(lists_of([(in_order([5, 2]), ungraded([2, 9]))]), unpredicted_labels="last")
    assert batch.rank.tolist() == [2, 3]


def test_unpredicted_labels_may_match_beside_an_item_that_may_not():
    lists = lists_of([([(5, 0.5), (2, 0.1)], ungraded([5, 2, 9]))], matchable=np.array([False, True]))
    assert ranked(lists, unpredicted_labels="last")[0].rank.tolist() == [2, 3]


def test_a_user_without_predictions_is_not_given_the_labels_for_them():
    users = [([], ungraded([1])), ([(1, 0.0)], ungraded([2])), ([], [])]
    batch, found = ranked(lists_of(users), unpredicted_labels="last")
    assert batch.n_predictions.tolist() == [0, 2, 0]
    assert found.unpredicted.tolist() == [0, 1, 0]


def test_only_users_with_duplicates_are_counted_as_having_some():
    users = [(in_order([1, 1]), []), (in_order([1, 2]), []), ([], []), (in_order([2, 2, 2]), [])]
    assert ranked(lists_of(users))[1].duplicate_predictions.tolist() == [1, 0, 0, 2]


def test_keep_best_leaves_the_items_that_may_match_what_they_were():
    lists = lists_of([(in_order([1, 1, 2, 3]), ungraded([1, 2, 3]))], matchable=np.array([True, True, False, True]))
    batch, _ = ranked(lists, duplicates="keep_best")
    assert batch.rank.tolist() == [1, 3]


@pytest.mark.parametrize(("conflicting", "expected"), [("highest", 3.0), ("last", 1.0)])
def test_an_item_labelled_with_several_grades_has_the_one_the_policy_says(conflicting, expected):
    users = [(in_order([7]), [(7, 2.0), (7, 3.0), (8, 5.0), (7, 1.0)])]
    batch, _ = ranked(lists_of(users), conflicting_labels=conflicting)
    assert batch.grade.tolist() == [expected]
    assert sorted(batch.labels.values.tolist()) == [expected, 5.0]


def test_repeated_labels_of_one_grade_are_counted_apart_from_conflicting_ones():
    found = findings([], [(1, 2.0), (1, 2.0), (2, 1.0), (2, 3.0), (3, 1.0)])
    assert (found["duplicate_labels"], found["conflicting_labels"]) == (1, 1)


def test_two_labels_of_nan_do_not_conflict():
    found = findings([], [(1, float("nan")), (1, float("nan"))], conflicting_labels="last")
    assert (found["duplicate_labels"], found["conflicting_labels"]) == (1, 0)


def test_a_label_counts_once_however_often_it_is_repeated():
    batch, _ = ranked(lists_of([(in_order([1]), ungraded([1, 1, 1, 2]))]))
    assert batch.n_relevant(None).tolist() == [2]
    assert batch.rank.tolist() == [1]


def test_the_order_of_labels_is_kept_when_asked_for():
    users = [(in_order([1]), [(3, 0.5), (1, 2.0), (2, 1.0)])]
    assert ranked(lists_of(users), keep_label_order=True)[0].raw_labels.values.tolist() == [0.5, 2.0, 1.0]
    assert ranked(lists_of(users))[0].raw_labels is None


def test_a_repeated_label_in_the_order_given_has_each_time_the_grade_that_counts():
    users = [(in_order([1]), [(1, 1.0), (2, 5.0), (1, 3.0)])]
    batch, _ = ranked(lists_of(users), conflicting_labels="last", keep_label_order=True)
    assert batch.raw_labels.values.tolist() == [3.0, 5.0, 3.0]


def test_an_item_that_may_not_match_takes_its_rank():
    lists = lists_of([(in_order([1, 2]), ungraded([1, 2]))], matchable=np.array([False, True]))
    batch, _ = ranked(lists)
    assert batch.rank.tolist() == [2]
    assert batch.n_predictions.tolist() == [2]


def test_an_item_that_may_not_match_does_not_where_duplicates_match_once():
    lists = lists_of([(in_order([1, 2, 2, 3]), ungraded([1, 2, 3]))], matchable=np.array([False, True, True, True]))
    batch, _ = ranked(lists, duplicates="once")
    assert batch.rank.tolist() == [2, 4]


def test_a_pruned_list_has_the_length_it_had():
    lists = lists_of([([(1, 0.9), (2, 0.8)], ungraded([1]))], n_predictions=np.array([50]))
    batch, _ = ranked(lists, largest_cutoff=2)
    assert batch.n_predictions.tolist() == [50]


def test_keep_best_takes_duplicates_off_the_length_that_a_pruned_list_had():
    lists = lists_of([([(1, 0.9), (1, 0.8), (2, 0.7)], ungraded([1]))], n_predictions=np.array([50]))
    batch, _ = ranked(lists, duplicates="keep_best", largest_cutoff=2)
    assert batch.n_predictions.tolist() == [49]


CUT = [(1, 0.9), (2, 0.5), (3, 0.5)]


@pytest.mark.parametrize(
    ("predictions", "n_predictions", "largest_cutoff", "expected"),
    [
        pytest.param(CUT, 10, 2, 1, id="the last tied group reaches into the cutoff"),
        pytest.param(CUT, 10, 3, 1, id="the last tied group ends at the cutoff"),
        pytest.param(CUT, 10, 1, 0, id="the last tied group starts after the cutoff"),
        pytest.param(CUT, 3, 2, 0, id="nothing was cut off"),
        pytest.param(CUT, 10, None, 0, id="no cutoff"),
        pytest.param([(3, 0.5), (1, 0.9), (2, 0.5)], 10, 2, 1, id="the list is not sorted"),
        pytest.param([(1, 0.5), (2, 0.5)], 10, 1, 1, id="all scores are equal"),
        pytest.param(in_order([1, 2, 3]), 10, 2, 0, id="lists in order have no ties"),
        pytest.param([], 10, 2, 0, id="nothing was kept"),
    ],
)
def test_a_list_cut_inside_a_tie_is_flagged(predictions, n_predictions, largest_cutoff, expected):
    users = [(predictions, ungraded([1])), ([(1, 0.5)] if predictions and predictions[0][1] else [], [])]
    lists = lists_of(users, n_predictions=np.array([n_predictions, 1]))
    found = ranked(lists, largest_cutoff=largest_cutoff)[1]
    assert found.cut.tolist() == [expected, 0]


TIED = [(1, 0.9), (2, 0.5), (3, 0.5), (4, 0.1)]


@pytest.mark.parametrize(
    ("predictions", "labels", "largest_cutoff", "expected"),
    [
        pytest.param(TIED, ungraded([2]), None, 1, id="a relevant and an unlabelled item are tied"),
        pytest.param(TIED, [(2, 1.0), (3, 2.0)], None, 1, id="two grades are tied"),
        pytest.param(TIED, [(2, 1.0), (3, 0.0)], None, 1, id="a relevant item and one of grade 0 are tied"),
        pytest.param(TIED, ungraded([2, 3]), None, 0, id="equal grades are tied"),
        pytest.param(TIED, [(2, 0.0)], None, 0, id="grade 0 and an unlabelled item gain the same"),
        pytest.param(TIED, [(2, -1.0), (3, 0.0)], None, 0, id="a negative grade and grade 0 gain the same"),
        pytest.param(TIED, ungraded([1, 4]), None, 0, id="the tied items are unlabelled"),
        pytest.param(TIED, ungraded([2]), 2, 1, id="the cutoff divides the tied group"),
        pytest.param(TIED, ungraded([2]), 1, 0, id="the tied group is below the cutoff"),
        pytest.param(TIED, ungraded([2]), 3, 1, id="the tied group ends at the cutoff"),
        pytest.param(TIED, [], None, 0, id="no labels"),
        pytest.param([], ungraded([2]), None, 0, id="no predictions"),
        pytest.param(in_order([1, 2, 3]), ungraded([2]), None, 0, id="lists in order have no ties"),
    ],
)
def test_a_value_that_hangs_on_a_tie_is_flagged(predictions, labels, largest_cutoff, expected):
    looks = [Look("gain", None, largest_cutoff)]
    assert findings(predictions, labels, largest_cutoff=largest_cutoff, looks=looks)["tied"] == expected
    assert findings(predictions, labels, largest_cutoff=largest_cutoff)["tied"] == 0


def test_the_flag_of_a_tie_belongs_to_its_user():
    users = [(TIED, ungraded([1])), (TIED, ungraded([3])), ([], []), (TIED, ungraded([2, 3]))]
    assert ranked(lists_of(users), looks=[Look()])[1].tied.tolist() == [0, 1, 0, 0]


def test_two_tied_groups_of_one_user_are_looked_at_apart():
    predictions = [(1, 0.9), (2, 0.9), (3, 0.5), (4, 0.5)]
    assert findings(predictions, [(1, 1.0), (2, 1.0), (3, 2.0), (4, 2.0)], looks=[Look()])["tied"] == 0
    assert findings(predictions, [(1, 1.0), (2, 1.0), (3, 2.0), (4, 1.0)], looks=[Look()])["tied"] == 1


def test_no_users_at_all():
    batch, found = ranked(lists_of([]))
    assert batch.n_users == 0
    assert all(len(values) == 0 for values in found)


def test_users_without_predictions_and_users_without_labels_are_there():
    batch, _ = ranked(lists_of([([], ungraded([1])), ([(1, 0.5)], []), ([], [])]))
    assert batch.n_users == 3
    assert batch.n_predictions.tolist() == [0, 1, 0]
    assert batch.n_relevant(None).tolist() == [1, 0, 0]
    assert batch.rank.tolist() == []


@pytest.mark.parametrize(
    ("look", "hanging"),
    [
        # The tied items have: one grade above 0; 2 and 1; 1 and no label; 0 and no label; 1 and 0; −1 and no label; −1 and 1.
        (Look("gaining"), [0, 0, 1, 0, 1, 0, 1]),
        (Look("relevance"), [0, 0, 1, 0, 1, 0, 1]),
        (Look("relevance", 2.0), [0, 1, 0, 0, 0, 0, 0]),
        (Look("gain"), [0, 1, 1, 0, 1, 0, 1]),
        (Look("labelled"), [0, 0, 1, 1, 0, 1, 0]),
        (Look("label"), [0, 1, 1, 1, 1, 1, 1]),
        # An item without a label is passed over, and so is one of a negative grade beside one judged not relevant.
        (Look("judgement", judged_below=1.0), [0, 0, 0, 0, 1, 0, 1]),
        (Look("judgement", 2.0, judged_below=2.0), [0, 1, 0, 0, 0, 0, 1]),
    ],
)
def test_what_is_seen_of_tied_items_decides_whether_their_order_matters(look, hanging):
    tied = [[(2, 1.0), (3, 1.0)], [(2, 2.0), (3, 1.0)], [(2, 1.0)], [(2, 0.0)], [(2, 1.0), (3, 0.0)], [(2, -1.0)]]
    users = [(TIED, labels) for labels in (*tied, [(2, -1.0), (3, 1.0)])]
    assert ranked(lists_of(users), looks=[look])[1].tied.tolist() == hanging
    assert ranked(lists_of(users), looks=[Look("gain", None, 1), look])[1].tied.tolist() == hanging


@settings(max_examples=examples(by_day=60, at_night=600), deadline=None, derandomize=True)
@given(
    users=st.lists(
        st.lists(st.tuples(st.integers(0, 9), st.sampled_from([-np.inf, -1.0, 0.0, 0.5, np.inf])), max_size=9),
        max_size=4,
    ),
    with_scores=st.booleans(),
    k=st.integers(1, 4),
    ties=st.sampled_from(["item_asc", "item_desc", "position"]),
)
def test_the_first_items_are_those_of_the_whole_list(users, with_scores, k, ties):
    users = [([(item, score if with_scores else None) for item, score in one], ungraded([1])) for one in users]
    lists = lists_of(users, entry=np.arange(sum(len(one) for one, _ in users)))
    whole, first = (ranked(lists, ties=ties, largest_cutoff=cutoff)[0].recommended for cutoff in (None, k))
    high = whole.rank <= k
    for name in ("user", "rank", "grade", "entry"):
        np.testing.assert_array_equal(getattr(first, name), getattr(whole, name)[high])


@settings(max_examples=examples(by_day=40, at_night=400), deadline=None, derandomize=True)
@given(
    users=st.lists(
        st.lists(st.tuples(st.integers(0, 20), st.sampled_from([-np.inf, -1.0, 0.0, 0.5, np.inf])), max_size=16),
        max_size=4,
    )
)
def test_sorting_a_list_finds_the_ranks_that_counting_finds(users):
    lists = lists_of([(one, ungraded(range(21))) for one in users])
    counted = ranked(lists)[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places, "_COUNTED_WIDTH", 0)
        patch.setattr(places, "_COUNTED_MATCHES", 0)
        searched = ranked(lists)[0]
    for name in ("user", "rank", "grade", "tied_above", "tied"):
        np.testing.assert_array_equal(getattr(searched, name), getattr(counted, name))
