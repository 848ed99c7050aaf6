"""Grades that some judges did not give: each judge's figures are those of the labels that this judge graded."""

import math

import pandas as pd
import pytest
from pyspark.sql import functions as F

from spark_rankeval import evaluate, quarantine
from spark_rankeval.errors import DataError

METRICS = ["ndcg@5", "precision@3", "rr", "judged@3"]
GRADES = ["human", "llm"]


def grade_of(query, place, judge):
    """A grade from 0 to 3, or None if the judge did not grade the item."""
    draw = (query * 7 + place * 5 + judge * 3) % 11
    return None if draw in (judge, 5 + judge) or (judge == 0 and query % 3) else float(draw % 4)


@pytest.fixture(scope="module")
def tables(spark):
    predictions = [(query, f"i{(query + rank) % 9}", 1.0 / (1 + rank)) for query in range(30) for rank in range(6)]
    labels = [
        (query, f"i{(query * 2 + place) % 9}", *(grade_of(query, place, judge) for judge in (0, 1)))
        for query in range(28) for place in range(6)
    ]  # fmt: skip
    return (
        spark.createDataFrame(predictions, "user long, item string, score double"),
        spark.createDataFrame(labels, "user long, item string, human double, llm double"),
    )


@pytest.mark.parametrize("form", ["rows", "floats", "arrays", "pandas"])
def test_each_judge_reads_the_labels_that_this_judge_graded(tables, form):
    predictions, labels = tables
    given = labels
    if form == "floats":
        given = labels.withColumn("human", F.col("human").cast("float"))
    elif form == "arrays":
        names = ("item", *GRADES)
        given = labels.groupBy("user").agg(F.collect_list(F.struct(*names)).alias("item"))
    elif form == "pandas":
        given = labels.toPandas()
        assert given["human"].isna().any()
    if form == "pandas":
        predictions = predictions.toPandas()
    both = evaluate(predictions, given, METRICS, score="score", relevance=GRADES, on_missing="unjudged")
    predictions, users = tables[0], tables[1].select("user").distinct()
    for judge in GRADES:
        graded = labels.where(F.col(judge).isNotNull())
        alone = evaluate(predictions, graded, METRICS, score="score", relevance=judge, users=users)
        of_judge = both.to_pandas().query("relevance == @judge")
        columns = ["metric", "mean", "standard_error", "n_users", "n_undefined"]
        expected = alone.to_pandas()[columns].reset_index(drop=True)
        pd.testing.assert_frame_equal(of_judge[columns].reset_index(drop=True), expected)
    n_missing = sum(
        grade_of(query, place, judge) is None for query in range(28) for place in range(6) for judge in (0, 1)
    )
    assert both.data_quality.n_missing_grades == n_missing
    assert f"{n_missing} missing grades" in str(both)


def test_a_missing_grade_is_an_error_by_default(tables):
    predictions, labels = tables
    with pytest.raises(DataError, match=r"null relevance 'human'.*If a judge did not give .*on_missing='unjudged'"):
        evaluate(predictions, labels, "ndcg@5", score="score", relevance=GRADES)
    plain = evaluate(predictions, labels.dropna(), "ndcg@5", score="score", relevance=GRADES)
    assert plain.data_quality.n_missing_grades is None
    assert "n_missing_grades" not in plain.data_quality.to_dict()


def test_a_grade_that_is_wrong_is_still_an_error(spark, tables):
    predictions, _ = tables
    schema = "user long, item string, human double, llm double"
    wrong = spark.createDataFrame([(1, "i1", None, -1.0), (1, "i2", math.nan, 2.0), (2, "i3", None, math.inf)], schema)
    options = {"score": "score", "relevance": GRADES, "on_missing": "unjudged"}
    with pytest.raises(DataError, match="labels that cannot be used: 2 "):
        evaluate(predictions, wrong, "ndcg@5", **options)
    reasons = quarantine(predictions, wrong, "ndcg@5", **options).toPandas()["reason"]
    assert sorted(reason.partition(" above")[0] for reason in reasons) == [
        "negative relevance 'llm'",
        "relevance 'llm'",
    ]
