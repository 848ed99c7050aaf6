"""A threshold is compared in the precision of its column, by every way into an evaluation."""

import pytest
from pyspark.sql import functions as F

from spark_rankeval import dialect_map, evaluate, metrics_column, score_users, summarise
from spark_rankeval.ml import RankingEvaluator

METRICS = ["precision@2", "err(max_grade=0.7)@2"]


def test_a_grade_at_the_threshold_is_relevant_whatever_its_precision(spark):
    rows = [("a", 1, 0.9, 0.7), ("a", 2, 0.8, 0.5), ("b", 1, 0.9, 0.5), ("b", 2, 0.8, 0.7)]
    table = spark.createDataFrame(rows, "user string, item long, score double, grade float")
    given = {"score": "score", "relevance": "grade", "relevance_threshold": 0.7}
    result = evaluate(table, table, METRICS, **given)
    assert (result["precision@2"], result.data_quality.n_relevant) == (0.5, 2)
    high, low = ((2**grade - 1) / 2**0.7 for grade in (0.7, 0.5))
    expected = ((high + (1 - high) * low / 2) + (low + (1 - low) * high / 2)) / 2
    assert result["err(max_grade=0.7)@2"] == pytest.approx(expected, rel=1e-6)
    assert "relevance_threshold=0.7" in result.summary[0].definition
    assert summarise(score_users(table, table, METRICS, **given))["precision@2"] == 0.5
    rows = dialect_map(table, table, "precision@2", dialects="trec_eval", **given).rows
    assert [row.mean for row in rows] == [0.5, 0.5]
    chosen = RankingEvaluator(predictionCol="score", labelCol="grade", metricName="precision@2", relevanceThreshold=0.7)
    assert chosen.evaluate(table) == 0.5
    # Arrays keep the precision of their elements.
    listed = [F.collect_list(name).alias(name) for name in ("item", "score", "grade")]
    arrays = table.groupBy("user").agg(*listed)
    both = arrays.withColumn("label", F.col("item")).drop("user")
    assert evaluate(both, None, METRICS, item=("item", "label"), **given)["precision@2"] == 0.5
    metric = "precision(relevance_threshold=0.7)@2"
    column = metrics_column("item", "label", {"p": metric}, scores="score", relevance="grade")
    assert [row[0] for row in both.select(column.getField("p")).collect()] == [0.5, 0.5]
