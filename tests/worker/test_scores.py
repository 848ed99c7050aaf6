"""What a worker makes of a batch: the precision of grades, labels that are left out of lists, and users without an answer.

A grade of 0.7 is 0.699999988 in 32 bits, and a threshold of 0.7 is the same number there.
"""

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from helpers.scored import with_features

from spark_rankeval.dialects import DEFAULT
from spark_rankeval.metrics.base import as_float32
from spark_rankeval.metrics.naming import parse_metric, parse_metrics
from spark_rankeval.ranking.user_lists import RankingPolicy
from spark_rankeval.request.call import COUNTS
from spark_rankeval.request.task import Lists, ScoringTask, View, resolve, views_of
from spark_rankeval.worker.features import NO_ANSWER
from spark_rankeval.worker.reading import EXCLUDED, ITEMS, LABELS, SCORES, grades_column, label_column
from spark_rankeval.worker.scoring import N_INVALID, count_of_model, score, score_series

METRICS = [
    "precision@2", "hit_rate@1", "r_precision", "ap(denominator='labels')", "rr", "ndcg(gain='binary', ideal='labels')@2",
    "dcg(below_threshold='zero', gain='linear')@2", "q", "auc", "fap@2", "iprec(recall=1)", "recall(relevance_threshold=0.3)",
    "bpref(judged_threshold=0.7)", "err(max_grade=0.7)", "rbp(gain='max_grade', max_grade=0.7)",
]  # fmt: skip
WIDTHS = [pa.float32(), pa.float64()]
# The grade at the threshold, one that is close below it for both widths, and one that only the metric with 0.3 takes.
GRADES = [[0.7, 0.6999, 0.3], [0.3, 0.7, 0.1]]
THREE, BEST_FIRST = [1, 2, 3], [0.3, 0.2, 0.1]


def task_of(metrics, threshold=0.7, models=("",), arrays=True, relevances=("grade",), **form):
    lists = Lists(scored_arrays=True, label_arrays=arrays, relevances=relevances, **form)
    resolved = resolve(parse_metrics(metrics), DEFAULT, {"relevance_threshold": threshold}, lists)
    views, values = views_of(resolved, DEFAULT, lists, threshold=threshold, models=models)
    every_model = tuple(range(len(models)))
    columns = form.get("label_columns", ())
    return ScoringTask(tuple(views), every_model, arrays, models=models, label_columns=columns), values


def scored(task, grades=(), **columns):
    grades = {grades_column(place): column for place, column in enumerate(grades)}
    return score(task, pa.RecordBatch.from_pydict(columns | grades))


def counts_of(scores, model=0):
    return {name: scores.counts[count_of_model(name, model)].tolist() for name in COUNTS}


@pytest.mark.parametrize("arrays", [True, False])
def test_a_threshold_is_compared_in_the_precision_of_the_grades(arrays):
    task, values = task_of(METRICS, arrays=arrays)
    items = pa.array([THREE] * 2)
    columns = {ITEMS: items, SCORES: pa.array([BEST_FIRST] * 2), LABELS: items}
    single, double = (scored(task, [pa.array(GRADES, pa.list_(width))], **columns) for width in WIDTHS)
    assert counts_of(single) == counts_of(double)
    assert counts_of(single)["n_relevant"] == [1, 1]
    by_label = dict(zip([value.label for value in values], single.metrics, strict=True))
    for (label, found), expected in zip(by_label.items(), double.metrics, strict=True):
        assert found == pytest.approx(expected, rel=1e-6, nan_ok=True), label
    assert by_label["precision@2"].tolist() == [0.5, 0.5]
    assert by_label["rr"].tolist() == [1.0, 0.5]


def test_columns_of_grades_are_each_compared_in_their_own_precision():
    task, values = task_of("precision@1", relevances=("single", "double"))
    items, grades = pa.array([[1]]), [pa.array([[0.7]], pa.list_(width)) for width in WIDTHS]
    found = scored(task, grades, **{ITEMS: items, SCORES: pa.array([[1.0]]), LABELS: items})
    assert [value.relevance for value in values] == ["single", "double"]
    assert [metric.tolist() for metric in found.metrics] == [[1.0], [1.0]]


@pytest.mark.parametrize("width", [np.float32, np.float64])
def test_functions_of_columns_compare_as_evaluations_do(width):
    task, _ = task_of("precision@2")
    items, scores = pd.Series([np.array(THREE)] * 2), pd.Series([np.array(BEST_FIRST)] * 2)
    # Spark casts them to doubles, and says what they were.
    grades = pd.Series([np.array(some, width).astype(np.float64) for some in GRADES])
    run = score_series(task, ("items", "scores", "labels", "grades", "single"), ("p",))
    found = run(items, scores, items, grades, pd.Series([width is np.float32] * 2))
    assert (found["p"].tolist(), found[N_INVALID].tolist()) == ([0.5, 0.5], [0, 0])


@pytest.mark.parametrize("grade", [0.7, 3, 0, -1.5, math.inf, -math.inf, 1e300, -1e300, 1e-60, 2.0**-149])
def test_a_threshold_that_has_no_32_bits_stays_as_it_is(grade):
    assert as_float32(grade) == (float(np.float32(0.7)) if grade == 0.7 else grade)


def test_what_stands_beside_a_figure_has_the_same_threshold():
    metric = parse_metric("ap(relevance_threshold=0.7)@2").resolve(DEFAULT)
    view = View((metric,), RankingPolicy(), standards=(metric,))
    single = view.for_numbers_of_32_bits(frozenset({"grades"}))
    assert single.standards == single.metrics
    assert single.metrics[0].threshold == as_float32(0.7) != 0.7
    unset = parse_metric("precision@5").resolve(DEFAULT)
    assert unset.for_grades_of_32_bits() == unset


@pytest.mark.parametrize(
    ("excluded", "labels", "expected"),
    [
        ([[1, 2], [3]], [[1, 9], [9]], [1, 0]),
        # An item counts once, however often it is labelled or excluded, and whether it was predicted or not.
        ([[9, 9, 1, 1], [9]], [[9, 1, 9], [9]], [2, 1]),
        # Users do not share what they exclude.
        ([[8], [9]], [[9], [8]], [0, 0]),
        ([None, []], [[1], [2]], [0, 0]),
    ],
)
def test_labels_that_are_excluded_too_are_counted_once(excluded, labels, expected):
    task, _ = task_of("recall@2", None, ("a", "b"), relevances=())
    lists = {ITEMS: pa.array([THREE] * 2), SCORES: pa.array([BEST_FIRST] * 2)}
    lists |= {f"{name}_of_1": column for name, column in lists.items()}
    found = scored(task, **lists, **{LABELS: pa.array(labels), EXCLUDED: pa.array(excluded, pa.list_(pa.int64()))})
    for model in range(2):
        counts = counts_of(found, model)
        assert counts["n_excluded_labels"] == expected
        assert counts["n_labels"] == [len(set(items)) for items in labels]


def test_a_relevant_label_wins_over_a_declaration_and_who_has_no_answer_weighs_in_no_mean():
    """Of Ann, Bob and Cat the first two are declared to have no answer, and Bob has a relevant label."""
    task, _ = task_of(
        ["recall@1", "precision(estimator='snips')@2"], 1.0, label_columns=("weight",), has_no_answer=True
    )
    found = scored(
        with_features(task, has_no_answer=True), [pa.array([[0.0], [1.0], [1.0]])],
        **{
            ITEMS: pa.array([[], [1], [2, 1]], pa.list_(pa.int64())), SCORES: pa.array([[], [0.5], [0.5, 0.25]]),
            LABELS: pa.array([[1]] * 3), label_column("weight"): pa.array([[2.0], [2.0], [4.0]]),
            NO_ANSWER: pa.array([1, 2, None]),
        },
    )  # fmt: skip
    assert repr(found.metrics[0].tolist()) == "[nan, 1.0, 0.0]"
    (normaliser,) = found.normalisers.values()
    assert (normaliser > 0).tolist() == [False, True, True]
    counts = {name: found.counts[count_of_model(name, 0)].tolist() for name in ("has_no_answer", "conflicting_answer")}
    assert counts == {"has_no_answer": [1, 0, 0], "conflicting_answer": [0, 1, 0]}
