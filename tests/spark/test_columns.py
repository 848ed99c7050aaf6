"""Metrics as a column beside arrays that are already there."""

import math

import pytest
from helpers.plans import plan_of

from spark_rankeval import evaluate, metrics_column
from spark_rankeval.errors import DialectError, MetricError, OptionError

METRICS = ["precision@5", "ndcg@5", "rr"]


@pytest.fixture(scope="module")
def table(spark):
    return spark.createDataFrame(
        [
            ("hits", [1, 6, 8], [1, 2, 3, 4, 5, 6], [0.1, 0.2, 0.3]),
            ("no labels", [1, 2], [], [0.5, 0.5]),
            ("no predictions", [], [2], []),
            ("null inside", [1, None], [1], [0.5, 0.5]),
            ("null array", None, [1], [0.5]),
            ("twice", [1, 1], [1], [0.5, 0.5]),
            ("unequal", [1, 2], [1], [0.5]),
        ],
        "user string, predictions array<long>, labels array<long>, scores array<double>",
    )


def rows(frame):
    return {row["user"]: row for row in frame.collect()}


def test_the_struct_has_a_field_a_metric_and_equals_evaluate(table):
    fine = table.where("user in ('hits', 'no labels', 'no predictions')")
    got = rows(fine.select("user", metrics_column("predictions", "labels", METRICS).alias("m")).select("user", "m.*"))
    expected = rows(evaluate(fine, None, METRICS, item=("predictions", "labels")).per_user)
    for user, row in got.items():
        for name in ("precision_at_5", "ndcg_at_5", "rr"):
            assert row[name] == expected[user][name] or (math.isnan(row[name]) and math.isnan(expected[user][name]))


def test_undefined_is_nan_and_a_refused_row_is_null(table):
    got = rows(table.select("user", metrics_column("predictions", "labels", METRICS).alias("m")).select("user", "m.*"))
    assert math.isnan(got["no labels"]["rr"])
    assert got["no predictions"]["rr"] == 0.0
    for user in ("null inside", "null array", "twice"):
        assert got[user]["rr"] is None
        assert got[user]["n_invalid"] == 1


def test_scores_order_the_predictions(table):
    got = rows(
        table.select("user", metrics_column("predictions", "labels", METRICS, scores="scores").alias("m")).select(
            "user", "m.*"
        )
    )
    assert got["hits"]["rr"] == 0.5
    assert got["unequal"]["rr"] is None


@pytest.mark.not_on_sail("plans")
def test_all_metrics_come_from_one_python_evaluation(table):
    frame = table.select("user", metrics_column("predictions", "labels", METRICS).alias("m")).select("m.*")
    plan = plan_of(frame)
    assert plan.count("pythonUDF0") > 0
    assert "pythonUDF1" not in plan


def test_text_ids_and_mllib(spark):
    table = spark.createDataFrame([(["a", "b"], ["b"]), (["a"], [])], "predictions array<string>, labels array<string>")
    frame = table.select(metrics_column("predictions", "labels", "ndcg@2", dialect="mllib").alias("m")).select("m.*")
    assert [row["ndcg_at_2"] for row in frame.collect()] == pytest.approx([1 / math.log2(3), 0.0], abs=1e-12)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"metrics": "ndgc"}, MetricError),
        ({"metrics": "rr", "dialect": "mllib"}, DialectError),
        ({"metrics": "rr", "ties": "x"}, OptionError),
    ],
)
def test_a_wrong_call_raises_at_once(arguments, error):
    with pytest.raises(error):
        metrics_column("predictions", "labels", **arguments)


def test_a_batch_of_null_arrays_and_ids_that_do_not_compare_are_refused(spark):
    null = spark.createDataFrame([(None, ["a"])], "p array<string>, l array<string>")
    mixed = spark.createDataFrame([(["1"], [1])], "p array<string>, l array<bigint>")
    for table in (null, mixed):
        row = table.select(metrics_column("p", "l", "rr").alias("m")).select("m.*").first()
        assert (row["rr"], row["n_invalid"]) == (None, 1)


def test_scores_and_grades_may_be_decimals(spark):
    table = spark.sql("select array(1, 2) p, array(2) l, array(0.5BD, 0.7BD) s, array(3.0BD) g")
    row = (
        table.select(metrics_column("p", "l", ["rr", "ndcg@2"], scores="s", relevance="g").alias("m"))
        .select("m.*")
        .first()
    )
    assert (row["rr"], row["ndcg_at_2"]) == (1.0, 1.0)
