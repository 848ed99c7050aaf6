"""The mllib dialect against Spark's own evaluators, run here on the same random data."""

import numpy as np
import pytest
from pyspark.ml.evaluation import RankingEvaluator
from worlds.random_logs import assert_tricky, random_logs

from spark_rankeval import evaluate

CUTOFFS = (1, 3, 5, 10)
OURS = [f"{name}@{k}" for name in ("precision", "recall", "ap", "ndcg") for k in CUTOFFS] + ["ap"]


pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def logs():
    """Lists with duplicates; some users have none."""
    logs = random_logs(200, 5, seed=3, duplicates=True)
    assert_tricky(logs, 5, duplicates=True)
    return logs


@pytest.fixture(scope="module")
def arrays(spark, logs):
    rows = [
        ([float(i) for i, _ in logs.ranked(u)], [float(i) for i, _ in logs.labels[u]])
        for u in range(len(logs.predictions))
    ]
    return spark.createDataFrame(rows, "prediction array<double>, label array<double>")


@pytest.fixture(scope="module")
def expected(arrays):
    """What Spark's own metrics say."""
    from pyspark.mllib.evaluation import RankingMetrics  # a client of Connect has no such module

    metrics = RankingMetrics(arrays.select("prediction", "label").rdd.map(tuple))
    at = {
        "precision": metrics.precisionAt, "recall": metrics.recallAt, "ap": metrics.meanAveragePrecisionAt, "ndcg": metrics.ndcgAt,
    }  # fmt: skip
    return {f"{name}@{k}": at[name](k) for name in at for k in CUTOFFS} | {"ap": metrics.meanAveragePrecision}


@pytest.fixture(scope="module")
def result(arrays):
    return evaluate(arrays, None, OURS, dialect="mllib")


@pytest.mark.classic_alone("rdd")
def test_arrays_equal_ranking_metrics(result, expected):
    assert {row.metric: row.mean for row in result.summary} == pytest.approx(expected, abs=1e-12)
    assert {row.n_users for row in result.summary} == {200}


@pytest.mark.classic_alone("ml")
def test_arrays_equal_ranking_evaluator(arrays, result):
    names = {
        "meanAveragePrecision": "ap", "meanAveragePrecisionAtK": "ap@5", "precisionAtK": "precision@5", "ndcgAtK": "ndcg@5",
        "recallAtK": "recall@5",
    }  # fmt: skip
    for theirs, ours in names.items():
        evaluator = RankingEvaluator(predictionCol="prediction", labelCol="label", metricName=theirs, k=5)
        assert result[ours] == pytest.approx(evaluator.evaluate(arrays), abs=1e-12)


@pytest.mark.classic_alone("rdd")
def test_rows_equal_ranking_metrics_of_the_same_ranking(spark, logs, expected):
    predictions, labels = logs.tables(spark)
    everyone = spark.createDataFrame([(u,) for u in range(200)], "user long")
    result = evaluate(predictions, labels.drop("grade"), OURS, score="score", users=everyone, dialect="mllib")
    assert {row.metric: row.mean for row in result.summary} == pytest.approx(expected, abs=1e-12)


@pytest.mark.classic_alone("jvm")
def test_graded_arrays_equal_scala_ranking_metrics(spark):
    logs = random_logs(200, 5, seed=5, duplicates=True, negative=True)
    assert_tricky(logs, 5, duplicates=True)
    random = np.random.default_rng(0)
    rows = []
    for user in range(200):
        labels = logs.labels[user] + [(i, g + 1) for i, g in logs.labels[user] if random.random() < 0.2]
        rows.append(([float(i) for i, _ in logs.ranked(user)], [float(i) for i, _ in labels], [g for _, g in labels]))
    table = spark.createDataFrame(rows, "prediction array<double>, label array<double>, grade array<double>")
    result = evaluate(table, None, OURS, relevance="grade", dialect="mllib")
    theirs = _scala_ranking_metrics(spark, table)
    for k in CUTOFFS:
        assert result[f"ndcg@{k}"] == pytest.approx(theirs.ndcgAt(k), abs=1e-12)


def _scala_ranking_metrics(spark, table):
    """Spark's metrics of graded labels. Python's wrapper drops the third column, so that the JVM's object is asked."""
    jvm, sc = spark.sparkContext._jvm, spark.sparkContext
    triples = sc._jvm.java.util.ArrayList()
    for row in table.collect():
        parts = []
        for values in row:
            part = jvm.java.util.ArrayList()
            for value in values:
                part.add(float(value))
            parts.append(part)
        triples.add(jvm.scala.Tuple3(*parts))
    rdd = sc._jsc.parallelize(triples)
    return jvm.org.apache.spark.mllib.evaluation.RankingMetrics.of(rdd)
