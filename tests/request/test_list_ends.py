"""Lists that end at a lowest score or a budget: as if nothing had stood below."""

import math
from itertools import permutations

import numpy as np
import pytest
from helpers.scored import scores_in, values_in
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds.ranked_users import lists_of, ranked

from spark_rankeval.dialects import find_dialect
from spark_rankeval.errors import InputError, MetricError
from spark_rankeval.metrics.naming import parse_metric, parse_metrics
from spark_rankeval.ranking.batch import Look
from spark_rankeval.ranking.ranks import rank_lists
from spark_rankeval.ranking.user_lists import Ragged, RankingPolicy, RawLists
from spark_rankeval.request.call import ScoringOptions
from spark_rankeval.request.task import Lists, read_request, resolve, views_of
from spark_rankeval.spark.per_user import metrics_column
from spark_rankeval.worker.scoring import count_of_model

SCORES = (-1.0, 0.0, 0.25, 0.5, 1.0)
COSTS = (0.0, 0.1, 1.0, 2.5, 10.0)
FIELDS = ("n_predictions", "user", "rank", "grade", "score", "tied_above", "tied")


@st.composite
def users(draw):
    """Users as (item, score, cost) and (item, grade)."""
    made = []
    for _ in range(draw(st.integers(1, 4))):
        items = draw(st.lists(st.integers(0, 9), max_size=8, unique=True))
        listed = [(item, draw(st.sampled_from(SCORES)), draw(st.sampled_from(COSTS))) for item in items]
        liked = draw(st.lists(st.integers(0, 9), max_size=5, unique=True))
        made.append((listed, [(item, draw(st.sampled_from((0.0, 1.0, 2.0)))) for item in liked]))
    return made


def ended(listed, min_score, budget, crossing, ties):
    """The items of a list, best first, down to its end: one after the other, as somebody would fill a prompt."""
    sign = -1 if ties == "item_desc" else 1
    kept, spent = [], 0.0
    for item, score, cost in sorted(listed, key=lambda row: (-row[1], sign * row[0])):
        if min_score is not None and score < min_score:
            continue
        if budget is not None and (spent > budget if crossing == "in" else spent + cost > budget):
            break
        spent += cost
        kept.append((item, score, cost))
    return kept


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    users(), st.sampled_from([None, 0.0, 0.25, 2.0]), st.sampled_from([None, 0.05, 1.0, 3.5, 100.0]),
    st.sampled_from(["out", "in"]), st.sampled_from(["item_asc", "item_desc"]), st.booleans(),
)  # fmt: skip
def test_a_list_is_as_if_what_is_below_its_end_had_not_been_there(made, min_score, budget, crossing, ties, reads_items):
    def batch_of(some, **policy):
        further = {"costs": np.array([cost for listed, _ in some for *_, cost in listed], np.float64)}
        if reads_items:
            further["entry"] = np.arange(len(further["costs"]))
        return ranked(
            lists_of([([row[:2] for row in listed], labels) for listed, labels in some], **further), ties=ties, **policy
        )[0]

    kept = [(ended(listed, min_score, budget, crossing, ties), labels) for listed, labels in made]
    if not any(listed for listed, _ in made):
        return
    batch = batch_of(made, min_score=min_score, budget=budget, crossing=crossing)
    if not any(listed for listed, _ in kept):
        assert batch.n_predictions.sum() == len(batch.user) == 0
        return
    expected = batch_of(kept)
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(batch, name), getattr(expected, name), err_msg=name)
    if reads_items:
        np.testing.assert_array_equal(batch.recommended.user, expected.recommended.user)
        np.testing.assert_array_equal(batch.recommended.grade, expected.recommended.grade)


def test_a_list_that_was_cut_before_keeps_its_length_unless_its_end_is_seen():
    """Ann's three best of nine are all above the score, so how many more are is not known; Bob's list ends within his best."""
    listed = [(1, 0.9), (2, 0.8), (3, 0.7)]
    lists = lists_of([(listed, []), ([*listed[:2], (3, 0.1)], [])], n_predictions=np.array([9, 9]))
    assert ranked(lists, min_score=0.5)[0].n_predictions.tolist() == [9, 2]
    lists = lists_of([(listed, []), (listed, [])], n_predictions=np.array([9, 9]), costs=np.array([1.0, 1, 1, 1, 5, 1]))
    assert ranked(lists, budget=4.0)[0].n_predictions.tolist() == [9, 1]


@pytest.mark.parametrize(
    ("costs", "budget", "hangs"),
    [
        ([0, 1, 1], 1, 1), ([0, 1, 1], 2, 0), ([0, 1, 1], 0.5, 1),
        # The dear one of two hides the cheap one.
        ([1, 2, 1], 2, 1), ([1, 2, 1], 9, 0),
    ],
)  # fmt: skip
def test_equal_scores_whose_order_decides_where_a_list_ends_are_counted(costs, budget, hangs):
    """Of two equal scores the one that is paid first is in, or neither if the first is too dear."""
    lists = lists_of([([(1, 0.9), (2, 0.5), (3, 0.5)], [(9, 1.0)])], costs=np.array(costs, np.float64))
    assert ranked(lists, budget=budget, looks=(Look(),))[1].tied.tolist() == [hangs]


@pytest.mark.parametrize(("crossing", "kept"), [("out", 3), ("in", 4)])
def test_a_budget_that_is_met_exactly_is_not_passed(crossing, kept):
    """Costs 2, 2, 0, 3, 1: three items cost 4, and the fourth passes it. Sums of 0.1 meet 0.3."""
    listed = [(item, 1 - item / 10) for item in range(5)]
    lists = lists_of([(listed, [])], costs=np.array([2.0, 2, 0, 3, 1]))
    assert ranked(lists, budget=4.0, crossing=crossing)[0].n_predictions.tolist() == [kept]
    lists = lists_of([(listed, [])], costs=np.full(5, 0.1))
    assert ranked(lists, budget=0.3, crossing=crossing)[0].n_predictions.tolist() == [kept]


def test_a_dialect_that_rounds_scores_rounds_the_lowest_score_too():
    lists = lists_of([([(1, 0.7), (2, 0.6)], [])])
    assert ranked(lists, min_score=0.7, score_precision="float32")[0].n_predictions.tolist() == [1]


@pytest.mark.parametrize("option", ["min_score=0.5", "judged_only=True"])
@pytest.mark.parametrize("dialect", ["default", "standard", "torchmetrics"])
def test_counts_are_of_whole_lists_and_need_no_ranking_of_these(dialect, option):
    """Ann's two labelled items and their repeats score too little, and Bob's list is empty."""
    users_by_name = {
        "ann": ([("a", 0.2), ("b", 0.1), ("a", 0.1), ("c", 0.9), ("c", 0.9)], [("a", 1.0), ("b", 0.0), ("b", 0.0)]),
        "bob": ([], [("a", 1.0)]),
    }
    shortened = f"precision({option})@2"
    values, scores = scores_in(find_dialect(dialect), [shortened], users_by_name)
    both, expected = scores_in(find_dialect(dialect), ["precision@2", shortened], users_by_name)
    assert [value.label for value in values] == [shortened]
    np.testing.assert_array_equal(scores.metrics[0], expected.metrics[[value.label for value in both].index(shortened)])
    assert scores.counts.keys() == expected.counts.keys()
    for name, count in expected.counts.items():
        if name != count_of_model("hangs_on_tie", 0):
            np.testing.assert_array_equal(scores.counts[name], count, err_msg=name)
    assert scores.counts[count_of_model("n_predictions", 0)].tolist() == [5, 0]


@pytest.mark.parametrize(
    ("metrics", "options", "n_views"),
    [
        (["rr", "recall"], {"min_score": 0.5}, 1),
        (["rr", "recall"], {"budget": 9.0}, 1),
        (["rr", "recall(budget=9)"], {"min_score": 0.5}, 2),
        (["rr", "recall(budget=9)"], {}, 2),
    ],
)
def test_lists_that_all_end_alike_are_ranked_once(metrics, options, n_views):
    form, dialect = Lists(True, True, prediction_columns=("cost",)), find_dialect("default")
    assert len(views_of(resolve(parse_metrics(metrics), dialect, options, form), dialect, form)[0]) == n_views


def test_scores_that_compare_as_floats_of_32_bits_reach_a_threshold_as_it_is_written():
    users_by_name = {"ann": ([("a", 0.7), ("b", 0.6)], [("a", 1.0), ("b", 1.0)])}
    expected = {"recall(min_score=0.7)": 0.5, "recall": 1.0, "recall(min_score=inf)": 0.0}
    values = values_in(find_dialect("default"), list(expected), users_by_name)
    assert {name: value["ann"] for name, value in values.items()} == expected
    metric = {"one": parse_metric("recall(min_score=0.7)")}
    view = views_of(metric, find_dialect("default"), Lists(True, True), models=("",))[0][-1]
    assert view.for_numbers_of_32_bits(frozenset({"scores"})).ranking.min_score == float(np.float32(0.7)) != 0.7
    assert view.for_numbers_of_32_bits(frozenset({"grades", "costs"})).ranking.min_score == 0.7


ROWS, WITH_COSTS = Lists(False, False), Lists(False, False, prediction_columns=("cost",))


def request(metrics, lists, **options):
    read_request(parse_metrics(metrics), ScoringOptions(**options), lists, [""], array_models=[], users_alone=True)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: request("recall(min_score=0.5)", Lists(False, False, has_scores=False)), "min_score needs scores"),
        (lambda: request("recall(budget=9)", ROWS), "a budget needs what items cost"),
        (lambda: request("rr(budget=9,ties='average')", WITH_COSTS), "has no value"),
        (lambda: request("ndcg", WITH_COSTS, cost="tokens"), "cost= has no effect"),
        (lambda: parse_metric("recall(budget=0)"), "budget must be a number above 0; got 0"),
        (lambda: parse_metric("recall(budget=nan)"), "budget must be"),
        (lambda: parse_metric("recall(crossing='in')@5"), "crossing='in' is about a budget; give it one"),
        (lambda: parse_metric("recall(min_score=high)"), "min_score must be a number"),
        (lambda: metrics_column("predictions", "labels", "recall(budget=9)"), "a budget needs what items cost"),
        (lambda: metrics_column("predictions", "labels", f"recall(min_score={-math.inf})"), "min_score needs scores"),
    ],
)
def test_what_ends_no_list_is_refused(call, words):
    with pytest.raises((InputError, MetricError), match=words):
        call()


def test_costs_that_one_metric_reads_are_not_refused():
    request(["ndcg", "recall(budget=9)"], WITH_COSTS, cost="tokens")


# Item, score, cost. Items 7 and 9 have labels.
COSTLY_ROWS = [(7, 1.0, 5.0), (7, 1.0, 1.0), (8, 1.0, 2.0), (9, 0.5, 1.0)]


@pytest.mark.parametrize(
    ("duplicates", "crossing", "hits"),
    [
        # 1 + 2 + 1 is within the budget of 4.
        ("keep_best", "out", [(1, 7), (3, 9)]),
        ("distinct", "in", [(1, 7), (3, 9)]),
        # 1 + 5 is above 4: the second row is out, or the last one in.
        ("each", "out", [(1, 7)]),
        ("each", "in", [(1, 7), (2, 7)]),
        ("count", "in", [(1, 7), (2, 7)]),
        ("once", "out", [(1, 7)]),
        ("once", "in", [(1, 7)]),
    ],
)
def test_the_lowest_cost_of_an_item_counts_in_every_order_of_the_rows(duplicates, crossing, hits):
    labels = Ragged.from_lists([[7, 9]])
    for rows in permutations(COSTLY_ROWS):
        items, scores, costs = zip(*rows, strict=True)
        lists = RawLists(Ragged.from_lists([items]), Ragged.from_lists([scores]), labels, costs=np.array(costs))
        batch, _ = rank_lists(lists, RankingPolicy(duplicates=duplicates, budget=4.0, crossing=crossing))
        assert list(zip(batch.rank.tolist(), labels.values[batch.label].tolist(), strict=True)) == hits
