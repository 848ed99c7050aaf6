"""What the plans cost: one shuffle. That an evaluation is one action is in tests/spark/test_evaluate.py."""

import re

import pytest
from helpers.plans import plan_of
from helpers.shuffles import settings_of, shuffled_into

from spark_rankeval import Facts, metrics_column, score_users
from spark_rankeval.evaluation.evaluate import prepare
from spark_rankeval.judging.judge_agreement import read_labels
from spark_rankeval.request.call import ScoringOptions

METRICS = [f"{name}@{k}" for name in ("precision", "recall", "ndcg", "ap", "rr") for k in range(1, 21)]


@pytest.fixture(scope="module", autouse=True)
def _several_partitions(spark):
    """What has one partition need not be shuffled; the tables have four, too."""
    with shuffled_into(spark, 4):
        yield


@pytest.fixture(scope="module")
def tables(spark):
    predictions = spark.range(0, 4000, 1, 4).selectExpr("id % 100 as user", "id div 100 as item", "hash(id) as score")
    return predictions, spark.range(0, 500, 1, 4).selectExpr("id % 100 as user", "id div 100 as item")


def shuffles(frame):
    return len(re.findall(r"Exchange hashpartitioning", plan_of(frame)))


OPTIONS = {
    "whole lists": {},
    "duplicates dropped": {"on_invalid": "drop"},
    "further users": {"users": lambda spark: spark.range(0, 10, 1, 4).toDF("user")},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_rows_are_shuffled_once_a_side(spark, tables, name):
    options = {key: value(spark) if callable(value) else value for key, value in OPTIONS[name].items()}
    assert shuffles(score_users(*tables, METRICS[:40:20], score="score", **options)) == 2


def test_lists_are_built_in_parts_where_that_is_cheap(tables):
    words = plan_of(score_users(*tables, METRICS[:1], score="score"))
    assert re.search(r"mode=Partial|partial_collect_list", words)


def test_labels_that_say_who_has_no_answer_are_read_once(tables):
    labels = tables[1].selectExpr("*", "user = 1 AS is_unanswerable")
    scored = score_users(tables[0], labels, "abstention", score="score", no_answer="is_unanswerable")
    assert "Union" not in plan_of(scored)


def test_judged_labels_are_shuffled_once_and_then_their_counts(tables):
    labels = tables[1].selectExpr("*", "user % 3 AS human", "user % 2 AS llm", "item % 2 AS kind")
    judged = read_labels(labels, ["human", "llm"], user="user", item="item", by="kind")
    assert shuffles(judged.combinations()) == 2


def test_one_table_of_arrays_is_not_shuffled_and_a_column_of_metrics_is_one_evaluation(spark):
    table = spark.createDataFrame([([1, 2], [2])], "prediction array<long>, label array<long>")
    assert shuffles(score_users(table, None, METRICS)) == 0
    plan = plan_of(table.select(metrics_column("prediction", "label", METRICS[:3]).alias("m")).select("m.*"))
    assert plan.count("pythonUDF0") > 0
    assert "pythonUDF1" not in plan


@pytest.mark.ci
def test_tables_bucketed_by_user_are_not_shuffled(tables, spark):
    names = ("bucketed_predictions", "bucketed_labels")
    for name, table in zip(names, tables, strict=True):
        table.write.bucketBy(4, "user").mode("overwrite").saveAsTable(name)
    try:
        scored = score_users(*map(spark.table, names), ["ndcg@5"], score="score")
        assert shuffles(scored) == 0
        assert scored.count() == 100
    finally:
        for name in names:
            spark.sql(f"drop table {name}")


def test_training_data_are_shuffled_once_whoever_asks_for_them(tables, spark, tmp_path):
    tables[0].select("user", "item").write.parquet(str(tmp_path / "training"))
    facts = Facts(training=spark.read.parquet(str(tmp_path / "training")))
    asked = ["average_popularity@5", "repetition@5", "popularity_ratio@5"]
    scoring = prepare(*tables, asked, ScoringOptions(score="score", facts=facts))
    # Without adaptive execution Spark plans at once what it computes a single time.
    with settings_of(spark, {"spark.sql.adaptive.enabled": "false"}):
        words = plan_of(scoring.grouping.frame())
    assert words.count("FileScan parquet") == 1
