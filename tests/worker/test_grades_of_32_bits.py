"""Grades of 32 bits: 0.7 is 0.699999988 there, and a threshold of 0.7 is the same number."""

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from spark_rankeval.dialects import DEFAULT
from spark_rankeval.metrics.base import as_float32
from spark_rankeval.metrics.naming import parse_metric, parse_metrics
from spark_rankeval.ranking.lists import RankingPolicy
from spark_rankeval.request.availability import Lists
from spark_rankeval.request.counts import COUNTS
from spark_rankeval.request.readings import resolve, views_of
from spark_rankeval.request.task import ScoringTask, View
from spark_rankeval.worker.grouped_row import ITEMS, LABELS, SCORES, grades_column
from spark_rankeval.worker.series import N_INVALID, score_series
from spark_rankeval.worker.user_metrics import count_of_model, score

METRICS = [
    "precision@2", "hit_rate@1", "r_precision", "ap(denominator='labels')", "rr", "ndcg(gain='binary', ideal='labels')@2",
    "dcg(below_threshold='zero', gain='linear')@2", "q", "auc", "fap@2", "iprec(recall=1)", "recall(relevance_threshold=0.3)",
    "bpref(judged_threshold=0.7)", "err(max_grade=0.7)", "rbp(gain='max_grade', max_grade=0.7)",
]  # fmt: skip
WIDTHS = [pa.float32(), pa.float64()]
# The grade at the threshold, one that is close below it for both widths, and one that only the metric with 0.3 takes.
GRADES = [[0.7, 0.6999, 0.3], [0.3, 0.7, 0.1]]


def task_of(metrics, threshold=0.7, arrays=True, relevances=("grade",)):
    lists = Lists(scored_arrays=True, label_arrays=arrays, relevances=relevances)
    resolved = resolve(parse_metrics(metrics), DEFAULT, {"relevance_threshold": threshold}, lists)
    views, values = views_of(resolved, DEFAULT, lists, threshold=threshold)
    return ScoringTask(tuple(views), array_models=(0,), label_arrays=arrays), values


def scores_of(width, metrics, threshold=0.7, arrays=True):
    task, values = task_of(metrics, threshold, arrays)
    items = pa.array([[1, 2, 3], [1, 2, 3]])
    batch = {ITEMS: items, SCORES: pa.array([[0.3, 0.2, 0.1]] * 2), LABELS: items}
    batch[grades_column(0)] = pa.array(GRADES, pa.list_(width))
    found = score(task, pa.RecordBatch.from_pydict(batch))
    counts = {name: found.counts[count_of_model(name, 0)].tolist() for name in COUNTS}
    return {value.label: metric for value, metric in zip(values, found.metrics, strict=True)}, counts


@pytest.mark.parametrize("arrays", [True, False])
def test_a_threshold_is_compared_in_the_precision_of_the_grades(arrays):
    (single, n_single), (double, n_double) = (scores_of(width, METRICS, arrays=arrays) for width in WIDTHS)
    assert n_single == n_double
    assert n_single["n_relevant"] == [1, 1]
    for label, values in double.items():
        assert single[label] == pytest.approx(values, rel=1e-6, nan_ok=True), label
    assert single["precision@2"].tolist() == [0.5, 0.5]
    assert single["rr"].tolist() == [1.0, 0.5]


def test_columns_of_grades_are_each_compared_in_their_own_precision():
    task, values = task_of("precision@1", relevances=("single", "double"))
    items = pa.array([[1]])
    batch = {ITEMS: items, SCORES: pa.array([[1.0]]), LABELS: items}
    batch |= {grades_column(place): pa.array([[0.7]], pa.list_(width)) for place, width in enumerate(WIDTHS)}
    found = score(task, pa.RecordBatch.from_pydict(batch))
    assert [value.relevance for value in values] == ["single", "double"]
    assert [metric.tolist() for metric in found.metrics] == [[1.0], [1.0]]


@pytest.mark.parametrize("width", [np.float32, np.float64])
def test_functions_of_columns_compare_as_evaluations_do(width):
    task, _ = task_of("precision@2")
    # Spark casts them to doubles, and says what they were.
    items, grades = pd.Series([np.array([1, 2, 3])] * 2), [np.array(some, width).astype(np.float64) for some in GRADES]
    run = score_series(task, ("items", "scores", "labels", "grades", "single"), ("p",))
    scores = pd.Series([np.array([0.3, 0.2, 0.1])] * 2)
    found = run(items, scores, items, pd.Series(grades), pd.Series([width is np.float32] * 2))
    assert found["p"].tolist() == [0.5, 0.5]
    assert found[N_INVALID].tolist() == [0, 0]


@pytest.mark.parametrize("grade", [0.7, 3, 0, -1.5, math.inf, -math.inf, 1e300, -1e300, 1e-60, 2.0**-149])
def test_a_threshold_that_has_no_32_bits_stays_as_it_is(grade):
    held = as_float32(grade)
    assert held == (float(np.float32(0.7)) if grade == 0.7 else grade)
    metric = parse_metric("precision@5").resolve(DEFAULT)
    assert metric.for_grades_of_32_bits() == metric


def test_what_stands_beside_a_figure_has_the_same_threshold():
    view = View((resolved_ap(0.7),), RankingPolicy(), standards=(resolved_ap(0.7),))
    single = view.for_numbers_of_32_bits(frozenset({"grades"}))
    assert single.standards == single.metrics
    assert single.metrics[0].threshold == as_float32(0.7) != 0.7


def resolved_ap(threshold):
    return parse_metric(f"ap(relevance_threshold={threshold})@2").resolve(DEFAULT)
