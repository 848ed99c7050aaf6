import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds.ranked_users import in_order, lists_of, ranked, ungraded

from spark_rankeval.ranking import ranks as places
from spark_rankeval.ranking.batch import Look
from spark_rankeval.ranking.user_lists import Ragged, RawLists


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


TIES = ("item_asc", "item_desc", "position")
TWICE = [(1, 0.9), (2, 0.8), (1, 0.7), (3, 0.6)]
EQUAL = [(5, 0.5), (1, 0.1), (2, 0.5), (9, 0.9), (7, 0.5)]
NEAR = [(1, 1.0), (2, 1.0 + 2.0**-30), (3, 1.0 + 2.0**-20)]


BEST_LAST = [(1, 0.1), (2, 0.5), (1, 0.9)]


@pytest.mark.parametrize(
    ("predictions", "options", "expected"),
    [
        ([(1, 0.1), (2, 0.9), (3, 0.5)], {}, {2: 1, 3: 2, 1: 3}),
        ([(1, -1.0), (2, -np.inf), (3, np.inf), (4, -2.0)], {}, {3: 1, 1: 2, 4: 3, 2: 4}),
        # Lists without scores keep their order.
        (in_order([7, 3, 5]), {}, {7: 1, 3: 2, 5: 3}),
        (EQUAL, {"ties": "item_asc"}, {9: 1, 2: 2, 5: 3, 7: 4, 1: 5}),
        (EQUAL, {"ties": "item_desc"}, {9: 1, 7: 2, 5: 3, 2: 4, 1: 5}),
        (EQUAL, {"ties": "position"}, {9: 1, 5: 2, 2: 3, 7: 4, 1: 5}),
        # Negative ids compare as numbers, and the two zeros are one score.
        ([(4, 0.0), (-3, 0.0)], {"ties": "item_asc"}, {-3: 1, 4: 2}),
        ([(2, 0.0), (1, -0.0)], {}, {1: 1, 2: 2}),
        ([(2, -0.0), (1, 0.0)], {"ties": "position"}, {2: 1, 1: 2}),
        # The best of equal items stays: that of the highest score, or the first in order.
        *((TWICE, {"duplicates": rule}, {1: 1, 2: 2, 3: 3}) for rule in ("keep_best", "distinct")),
        (BEST_LAST, {"duplicates": "keep_best"}, {1: 1, 2: 2}),
        (in_order([4, 5, 4, 6]), {"duplicates": "keep_best"}, {4: 1, 5: 2, 6: 3}),
        *(([(3, 0.5)] * 3, {"duplicates": "keep_best", "ties": ties}, {3: 1}) for ties in TIES),
        # Every occurrence stays, of which the best alone may match.
        *((TWICE, {"duplicates": rule}, {1: [1, 3], 2: 2, 3: 4}) for rule in ("count", "each")),
        (TWICE, {"duplicates": "once"}, {1: 1, 2: 2, 3: 4}),
        (BEST_LAST, {"duplicates": "once"}, {1: 1, 2: 2}),
        (NEAR, {}, {3: 1, 2: 2, 1: 3}),
        (NEAR, {"score_precision": "float32"}, {3: 1, 1: 2, 2: 3}),
    ],
)
def test_the_ranks_of_a_list(predictions, options, expected):
    assert ranks(predictions, **options) == expected


def raw_lists(scores, **further):
    """Items 1 and 2 with these scores, and both as labels."""
    items, labels = (Ragged.from_lists([[1, 2]], np.int64) for _ in "ab")
    return RawLists(items, Ragged.from_lists([scores], np.float64), labels, **further)


@pytest.mark.parametrize(("ties", "expected"), [("item_asc", [2, 1]), ("item_desc", [1, 2])])
def test_ids_are_ordered_by_the_order_that_is_given_for_them(ties, expected):
    # The given order is the reverse of the ids'.
    grades = Ragged.from_lists([[1.0, 2.0]], np.float64)
    batch, _ = ranked(raw_lists([0.5, 0.5], grades=grades, order=lambda items: 30 - 10 * items), ties=ties)
    assert batch.rank[np.argsort(batch.grade)].tolist() == expected


def test_the_order_of_ids_is_not_asked_for_where_no_scores_are_equal():
    def never(_):
        raise AssertionError

    batch, _ = ranked(raw_lists([0.5, 0.6], order=never))
    # Labels without grades are of grade one.
    assert (batch.rank.tolist(), batch.grade.tolist(), batch.labels.values.tolist()) == ([1, 2], [1, 1], [1, 1])


TIED = [(1, 0.9), (2, 0.5), (3, 0.5), (4, 0.1)]
REPEATED = [(in_order([1, 2, 1, 2, 3]), ungraded([1]))]
GRADED = [(in_order([7]), [(7, 2.0), (7, 3.0), (8, 5.0), (7, 1.0)])]
UNPREDICTED = [([(4, 0.5), (2, -3.0)], ungraded([2, 9, 7]))]
LAST = {"unpredicted_labels": "last"}
#: By name: users; further input, with arrays as lists; options; what batches and counts hold.
HELD = {
    "no users": ([], {}, {}, {"n_users": 0, "rank": [], "tied_flag": []}),
    "users without predictions or labels": ([([], ungraded([1])), ([(1, 0.5)], []), ([], [])], {}, {},
        {"n_users": 3, "n_predictions": [0, 1, 0], "n_relevant": [1, 0, 0], "rank": []}),
    "unlabelled items take ranks": ([([(1, 0.9), (2, 0.8), (3, 0.7)], ungraded([3]))], {}, {},
        {"rank": [3], "n_predictions": [3]}),
    "by user and then by rank": (
        [([(1, 0.1), (2, 0.2), (3, 0.3)], ungraded([1, 2, 3])), ([], ungraded([1])), ([(5, 0.5), (4, 0.9)], ungraded([5, 4]))],
        {}, {}, {"user": [0, 0, 0, 2, 2], "rank": [1, 2, 3, 1, 2]}),
    "a tied group has a size and items above": (
        [([(1, 0.9), (2, 0.5), (3, 0.5), (4, 0.5), (5, 0.1)], ungraded([1, 3, 5]))], {}, {},
        {"rank": [1, 3, 5], "tied_above": [0, 1, 4], "tied": [1, 3, 1]}),
    **{f"{rule} counts repeated predictions": (REPEATED, {}, {"duplicates": rule},
        {"duplicate_predictions": [n], "n_predictions": [length]})
       for rule, n, length in [("count", 2, 5), ("keep_best", 2, 3), ("distinct", 0, 3), ("each", 0, 5), ("once", 0, 5)]},
    "only users with duplicates have some": (
        [(in_order([1, 1]), []), (in_order([1, 2]), []), ([], []), (in_order([2, 2, 2]), [])], {}, {},
        {"duplicate_predictions": [1, 0, 0, 2]}),
    "the best of equal items may match if it could before": ([(in_order([1, 1, 2, 3]), ungraded([1, 2, 3]))],
        {"matchable": [True, True, False, True]}, {"duplicates": "keep_best"}, {"rank": [1, 3]}),
    "an item that may not match takes its rank": ([(in_order([1, 2]), ungraded([1, 2]))],
        {"matchable": [False, True]}, {}, {"rank": [2], "n_predictions": [2]}),
    "an item that may not match does not match once": ([(in_order([1, 2, 2, 3]), ungraded([1, 2, 3]))],
        {"matchable": [False, True, True, True]}, {"duplicates": "once"}, {"rank": [2, 4]}),
    "the highest grade holds": (GRADED, {}, {}, {"grade": [3.0], "labels": [3.0, 5.0]}),
    "the last grade holds": (GRADED, {}, {"conflicting_labels": "last"}, {"grade": [1.0], "labels": [1.0, 5.0]}),
    "labels that repeat a grade are no conflict": ([([], [(1, 2.0), (1, 2.0), (2, 1.0), (2, 3.0), (3, 1.0)])], {}, {},
        {"duplicate_labels": [1], "conflicting_labels": [1]}),
    "two labels of NaN are no conflict": ([([], [(1, np.nan), (1, np.nan)])], {}, {"conflicting_labels": "last"},
        {"duplicate_labels": [1], "conflicting_labels": [0]}),
    "a repeated label counts once": ([(in_order([1]), ungraded([1, 1, 1, 2]))], {}, {}, {"n_relevant": [2], "rank": [1]}),
    "labels keep their order": ([(in_order([1]), [(3, 0.5), (1, 2.0), (2, 1.0)])], {}, {"keep_label_order": True},
        {"raw_labels": [0.5, 2.0, 1.0]}),
    "labels have no order unless a metric reads it": ([(in_order([1]), ungraded([1]))], {}, {}, {"raw_labels": None}),
    "a repeated label has the grade that holds each time": ([(in_order([1]), [(1, 1.0), (2, 5.0), (1, 3.0)])], {},
        {"conflicting_labels": "last", "keep_label_order": True}, {"raw_labels": [3.0, 5.0, 3.0]}),
    "a pruned list keeps its length": ([([(1, 0.9), (2, 0.8)], ungraded([1]))], {"n_predictions": [50]},
        {"largest_cutoff": 2}, {"n_predictions": [50]}),
    "a pruned list loses its duplicates": ([([(1, 0.9), (1, 0.8), (2, 0.7)], ungraded([1]))], {"n_predictions": [50]},
        {"duplicates": "keep_best", "largest_cutoff": 2}, {"n_predictions": [49]}),
    "unpredicted labels are left out": (UNPREDICTED, {}, {}, {"unpredicted": [0], "rank": [2]}),
    "unpredicted labels stand last, all equal": (UNPREDICTED, {}, LAST,
        {"rank": [2, 3, 4], "tied": [1, 2, 2], "n_predictions": [4], "unpredicted": [2]}),
    "unpredicted labels stand below a list in order": ([(in_order([5, 2]), ungraded([2, 9]))], {}, LAST, {"rank": [2, 3]}),
    "unpredicted labels may match beside an item that may not": ([([(5, 0.5), (2, 0.1)], ungraded([5, 2, 9]))],
        {"matchable": [False, True]}, LAST, {"rank": [2, 3]}),
    "an empty list stays empty": ([([], ungraded([1])), ([(1, 0.0)], ungraded([2])), ([], [])], {}, LAST,
        {"n_predictions": [0, 2, 0], "unpredicted": [0, 1, 0]}),
    "the flag of a tie belongs to its user": (
        [(TIED, ungraded([1])), (TIED, ungraded([3])), ([], []), (TIED, ungraded([2, 3]))], {}, {"looks": [Look()]},
        {"tied_flag": [0, 1, 0, 0]}),
}  # fmt: skip


@pytest.mark.parametrize(("users", "raw", "options", "expected"), HELD.values(), ids=HELD)
def test_what_a_ranked_batch_holds(users, raw, options, expected):
    batch, counts = ranked(lists_of(users, **{name: np.array(each) for name, each in raw.items()}), **options)
    fields = ("n_users", "n_predictions", "user", "rank", "grade", "tied_above", "tied")
    found = {name: getattr(batch, name) for name in fields}
    found |= {**counts._asdict(), "tied": batch.tied, "tied_flag": counts.tied, "n_relevant": batch.n_relevant(None)}
    found["labels"] = np.sort(batch.labels.values)
    found["raw_labels"] = None if batch.raw_labels is None else batch.raw_labels.values
    assert {name: found[name] if np.ndim(found[name]) == 0 else found[name].tolist() for name in expected} == expected


TWO_TIES = [(1, 0.9), (2, 0.9), (3, 0.5), (4, 0.5)]


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
        pytest.param(TWO_TIES, [(1, 1.0), (2, 1.0), (3, 2.0), (4, 2.0)], None, 0, id="two groups of equal grades each"),
        pytest.param(TWO_TIES, [(1, 1.0), (2, 1.0), (3, 2.0), (4, 1.0)], None, 1, id="the second of two groups"),
    ],
)
def test_a_value_that_hangs_on_a_tie_is_flagged(predictions, labels, largest_cutoff, expected):
    looks = [Look("gain", None, largest_cutoff)]
    assert findings(predictions, labels, largest_cutoff=largest_cutoff, looks=looks)["tied"] == expected
    assert findings(predictions, labels, largest_cutoff=largest_cutoff)["tied"] == 0


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


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    users=st.lists(
        st.lists(st.tuples(st.integers(0, 9), st.sampled_from([-np.inf, -1.0, 0.0, 0.5, np.inf])), max_size=9),
        max_size=4,
    ),
    with_scores=st.booleans(),
    k=st.integers(1, 4),
    ties=st.sampled_from(TIES),
)
def test_the_first_items_are_those_of_the_whole_list(users, with_scores, k, ties):
    users = [([(item, score if with_scores else None) for item, score in one], ungraded([1])) for one in users]
    lists = lists_of(users, entry=np.arange(sum(len(one) for one, _ in users)))
    whole, first = (ranked(lists, ties=ties, largest_cutoff=cutoff)[0].recommended for cutoff in (None, k))
    high = whole.rank <= k
    for name in ("user", "rank", "grade", "entry"):
        np.testing.assert_array_equal(getattr(first, name), getattr(whole, name)[high])


@settings(max_examples=40, deadline=None, derandomize=True)
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
