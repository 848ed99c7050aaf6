"""Names that stand for many metrics, and the tables that are read back from their rows."""

import numpy as np
import pytest
from helpers.descriptions import descriptions_of
from oracles.rankings import User, value
from worlds.ranked_users import batch_of, random_users

from spark_rankeval.errors import MetricError, UnknownMetricError
from spark_rankeval.metrics import NDCG
from spark_rankeval.metrics.naming import expand, parse_metric, parse_metrics
from spark_rankeval.records.chart_rows import curve_of, recall_curve
from spark_rankeval.records.summary import summary_row
from spark_rankeval.statistics.description import DescriptionAccumulator, DescriptionOptions

OPTIONS = DescriptionOptions()
USERS = random_users(np.random.default_rng(5), 60, distinct=True)


def rows_of(metrics, model="als"):
    rows = []
    for label, asked in parse_metrics(metrics).items():
        metric = asked.resolve()
        described = DescriptionAccumulator(1, OPTIONS)
        described.add([metric.compute(batch_of(USERS))])
        figures = descriptions_of(described.state(), OPTIONS)[0]
        rows.append(
            summary_row(label, figures, model=model, dialect="default", relevance="", definition=str(metric),
                        cutoff=metric.k, bounds=metric.bounds, over_all=False)
        )  # fmt: skip
    return rows


def test_a_range_of_cutoffs_is_a_metric_at_each():
    assert list(parse_metrics(["ndcg@2..4", "rr", NDCG(k=3)])) == ["ndcg@2", "ndcg@3", "ndcg@4", "rr"]
    assert list(parse_metrics("P(relevance_threshold=2) @ 9 .. 10")) == [
        "precision(relevance_threshold=2)@9",
        "precision(relevance_threshold=2)@10",
    ]


@pytest.mark.parametrize("text", ["ndcg@0..4", "ndcg@4..2", "ndcg@1..10001"])
def test_a_range_that_is_none_is_an_error(text):
    with pytest.raises(MetricError, match="cutoffs must run upwards from 1"):
        expand(text)


def test_a_range_where_one_metric_is_meant_is_an_error_that_says_so():
    with pytest.raises(MetricError, match="A range of cutoffs stands for several metrics"):
        parse_metric("ndcg@1..3")
    with pytest.raises(MetricError, match="A range of cutoffs stands for several metrics"):
        parse_metrics({"all": "ndcg@1..3"})


def test_the_cutoff_curve_has_the_means_of_the_oracle():
    rows = rows_of(["ndcg@1..12", "ndcg", "rr@3"])
    curve = curve_of(rows, "ndcg", "cutoff")
    assert curve.columns.tolist() == ["model", "relevance", "cutoff", "mean", "standard_error", "n_users"]
    assert curve["cutoff"].tolist()[:-1] == list(range(1, 13))
    assert curve["cutoff"].isna().tolist() == [False] * 12 + [True]
    for k, mean in zip([*range(1, 13), None], curve["mean"], strict=True):
        expected = [value("ndcg", User(*user), k=k) for user in USERS]
        assert mean == pytest.approx(np.nanmean(expected), abs=1e-12)


def test_the_precision_recall_curve_has_the_means_of_the_oracle_and_never_rises():
    curve = recall_curve(rows_of(["pr_curve", "iprec_11pt"]))
    assert curve["recall"].tolist() == [step / 100 for step in range(101)]
    assert (np.diff(curve["mean"]) <= 1e-15).all()
    assert curve["mean"].iloc[0] > curve["mean"].iloc[-1] > 0
    for recall in (0.0, 0.07, 0.5, 1.0):
        expected = [value("iprec", User(*user), recall=recall) for user in USERS]
        assert curve["mean"][curve["recall"] == recall].item() == pytest.approx(np.nanmean(expected), abs=1e-12)


def test_the_parameters_of_a_precision_recall_curve_go_to_every_point():
    points = parse_metrics("precision_recall_curve(relevance_threshold=2, rounding='half_away')")
    assert len(points) == 101
    assert {(point.relevance_threshold, point.rounding) for point in points.values()} == {(2, "half_away")}


def test_a_curve_of_several_definitions_must_be_named():
    rows = rows_of(["ndcg@1..3", "ndcg(gain='linear')@1..3"])
    with pytest.raises(UnknownMetricError, match="it has several definitions of it"):
        curve_of(rows, "ndcg", "cutoff")
    assert len(curve_of(rows, "ndcg(gain='linear')", "cutoff")) == 3
    with pytest.raises(UnknownMetricError, match="no curve of 'rr'"):
        curve_of(rows, "rr", "cutoff")
    with pytest.raises(UnknownMetricError, match="no curve of 'iprec'"):
        recall_curve(rows)


def test_several_models_are_several_curves():
    curve = curve_of([*rows_of("rr@1..2"), *rows_of("rr@1..2", "popular")], "rr", "cutoff")
    assert list(zip(curve["model"], curve["cutoff"], strict=True)) == [
        ("als", 1), ("als", 2), ("popular", 1), ("popular", 2)
    ]  # fmt: skip
