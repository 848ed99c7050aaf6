"""What features cost in plans and jobs: facts of items that workers look up, messages of all lists, and weights of labels."""

import re

import pytest
from helpers.plans import plan_of
from helpers.shuffles import settings_of, shuffled_into

from spark_rankeval import Facts, evaluate, score_users
from spark_rankeval.spark.engine import MESSAGE_SCHEMA, merged_messages


@pytest.fixture(scope="module")
def tables(spark):
    predictions = spark.range(0, 400, 1, 3).selectExpr("id % 40 as user", "id div 40 as item", "hash(id) as score")
    return predictions, spark.range(0, 80, 1, 3).selectExpr(
        "id % 40 as user", "id div 40 as item", "id % 2 as grade", "1.0D + id w"
    )


@pytest.mark.not_on_sail("plans")
def test_predictions_are_not_shuffled_by_item(spark, tables):
    predictions, labels = tables
    items = spark.range(0, 10, 1, 3).selectExpr("id AS item", "CAST(id % 4 AS STRING) AS category")
    facts = Facts(training=labels.select("user", "item"), items=items)
    with shuffled_into(spark, 4):
        plan = plan_of(score_users(predictions, labels, ["novelty@3", "diversity@3"], score="score", facts=facts))
    assert "popularity_table" in plan
    assert "hashpartitioning(items" not in plan


def test_a_table_of_items_whose_size_spark_knows_is_one_row_all_the_same(spark, tables):
    items = spark.range(0, 10, 1, 3).selectExpr("id AS item", "CAST(id % 4 AS STRING) AS category")
    with settings_of(spark, {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "4"}):
        found = evaluate(*tables, "diversity@3", score="score", facts=Facts(items=items))
    assert (
        found["diversity@3"] == evaluate(*tables, "diversity@3", score="score", facts=Facts(items=items))["diversity@3"]
    )


@pytest.mark.not_on_sail("plans")
def test_messages_are_placed_by_what_a_task_that_runs_again_gives_again(spark):
    """By their buckets, or their partitions; not by counts or bytes of states."""
    messages = spark.createDataFrame([(0, "states", b"")], MESSAGE_SCHEMA)
    # A shuffle into one partition asks no row where it belongs.
    with shuffled_into(spark, 3):
        placed = plan_of(merged_messages(messages, {}))
    (by,) = re.findall(r"hashpartitioning\((.*?), \d+\)", placed)
    assert re.findall(r"([a-z]+)#", by) == ["bucket"]


def test_weights_of_labels_change_nothing_in_one_pass(tables, jobs_of):
    options = {"score": "score", "relevance": "grade"}
    weighted = ["dcg@5", "recall@5", "dcg(gain='linear', estimator='snips')@5"]
    n_jobs = jobs_of(lambda: evaluate(*tables, weighted, weight="w", **options))
    assert n_jobs == jobs_of(lambda: evaluate(*tables, "dcg@5", **options))
