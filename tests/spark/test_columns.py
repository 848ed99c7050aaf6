"""Metrics as a column beside arrays that are already there."""

import math

import pytest
from pyspark.sql import functions as F

from spark_rankeval import evaluate, metrics_column

LISTS = [
    ("hits", [1, 6, 8], [1, 2, 3, 4, 5, 6], [0.1, 0.2, 0.3]), ("no labels", [1, 2], [], [0.5, 0.5]),
    ("no predictions", [], [2], []), ("null inside", [1, None], [1], [0.5, 0.5]), ("null array", None, [1], [0.5]),
    ("twice", [1, 1], [1], [0.5, 0.5]), ("unequal", [1, 2], [1], [0.5]),
]  # fmt: skip
REFUSED = ("null inside", "null array", "twice")


def test_a_struct_of_metrics_equals_evaluate_and_is_null_for_what_is_refused(spark):
    schema = "user string, predictions array<long>, labels array<long>, scores array<double>"
    table = spark.createDataFrame(LISTS, schema)
    metrics = ["precision@5", "ndcg@5", "rr"]
    given = metrics_column("predictions", "labels", metrics).alias("m")
    by_score = metrics_column("predictions", "labels", "rr", scores="scores").alias("s")
    found = {row["user"]: (row["m"], row["s"]["rr"]) for row in table.select("user", given, by_score).collect()}
    fine = table.where(~F.col("user").isin(*REFUSED, "unequal"))
    expected = evaluate(fine, None, metrics, item=("predictions", "labels")).per_user.collect()
    assert len(expected) == 3
    for row in expected:
        for name in ("precision_at_5", "ndcg_at_5", "rr"):
            assert repr(found[row["user"]][0][name]) == repr(row[name])
    for user in REFUSED:
        assert (found[user][0]["rr"], found[user][0]["n_invalid"]) == (None, 1)
    assert (found["hits"][1], found["unequal"][1]) == (0.5, None)


def first(table, *arguments, **options):
    return table.select(metrics_column(*arguments, **options).alias("m")).select("m.*").collect()


@pytest.mark.ci
def test_a_column_of_metrics_takes_ids_scores_and_grades_of_any_type(spark):
    texts = spark.createDataFrame([(["a", "b"], ["b"]), (["a"], [])], "p array<string>, l array<string>")
    found = [row["ndcg_at_2"] for row in first(texts, "p", "l", "ndcg@2", dialect="mllib")]
    assert found == pytest.approx([1 / math.log2(3), 0.0], abs=1e-12)
    decimals = spark.sql("select array(1, 2) p, array(2) l, array(0.5BD, 0.7BD) s, array(3.0BD) g")
    (row,) = first(decimals, "p", "l", ["rr", "ndcg@2"], scores="s", relevance="g")
    assert (row["rr"], row["ndcg_at_2"]) == (1.0, 1.0)
    null = spark.createDataFrame([(None, ["a"])], "p array<string>, l array<string>")
    mixed = spark.createDataFrame([(["1"], [1])], "p array<string>, l array<bigint>")
    for table in (null, mixed):
        (row,) = first(table, "p", "l", "rr")
        assert (row["rr"], row["n_invalid"]) == (None, 1)
