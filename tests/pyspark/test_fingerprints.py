"""Inputs that Spark itself says change between actions: they are told apart by plans, and without a job."""

import logging
import random

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from spark_rankeval import evaluate
from spark_rankeval.errors import SparkRankEvalWarning
from spark_rankeval.spark.engine import draws_anew, may_change

PAIRS = [(user, item, float(item % 3)) for user in range(6) for item in range(4)]


@pytest.fixture(scope="module")
def tables(spark):
    predictions = spark.createDataFrame(PAIRS, "user bigint, item bigint, score double")
    return predictions, predictions.where("score = 1").select("user", "item")


@pytest.mark.not_on_sail("random joins")
def test_inputs_that_say_that_they_change_are_reported_before_they_do(tables, tmp_path):
    predictions, labels = tables
    drawn = F.udf(lambda: random.SystemRandom().random(), "double").asNondeterministic()
    # Other scores each time, in the same order: a draw that put all relevant items last would be reported, too.
    changing = predictions.withColumn("score", F.col("score") + drawn() / 1000)
    if hasattr(predictions, "exists"):
        with pytest.warns(SparkRankEvalWarning, match="Spark says that predictions are not deterministic") as caught:
            result = evaluate(changing, labels, "rr", score="score")
        # Spark 4.0 leaves the socket of a collect to the garbage collector, which Python warns of.
        assert [one.category for one in caught].count(SparkRankEvalWarning) == 1
    else:
        result = evaluate(changing, labels, "rr", score="score")
    words = "the table that was written was computed from other rows of predictions than"
    with pytest.warns(SparkRankEvalWarning, match=words):
        result.write(str(tmp_path / "users"))


@pytest.mark.not_on_sail("random joins")
def test_asking_whether_inputs_change_costs_no_job(tables, jobs_of):
    predictions, labels = tables
    assert jobs_of(lambda: may_change([predictions, labels])) == 0
    assert not may_change([predictions, labels])
    assert may_change([predictions, labels.orderBy(F.rand())]) == hasattr(predictions, "exists")


@pytest.mark.not_on_sail("random joins")
def test_errors_of_the_session_are_sparks_own_after_an_answer_that_is_not_logged(spark, tables, monkeypatch):
    # As in a process in which Spark has logged no error so far.
    monkeypatch.setattr(logging.root.manager, "loggerDict", {})
    assert not may_change(tables)
    with pytest.raises(AnalysisException, match="nowhere"):
        _ = spark.sql("SELECT nowhere").schema


@pytest.mark.not_on_sail("plans")
def test_columns_that_nobody_reads_names_of_files_and_cached_tables_are_no_draws(spark, tables, tmp_path, jobs_of):
    place, read = str(tmp_path / "written"), ["user", "item", "score"]
    tables[0].write.parquet(place)
    # Without a schema a server of Connect 4.0 starts a job to find one, each time that it reads a plan.
    predictions = spark.read.schema(tables[0].schema).parquet(place)
    pinned = predictions.withColumn("score", F.rand(1)).cache()
    pinned.count()
    steady = [
        predictions.withColumn("row", F.monotonically_increasing_id()),
        predictions.withColumn("row", F.expr("uuid()")),
        predictions.where(F.monotonically_increasing_id() >= 0),
        predictions.withColumn("item", F.input_file_name()),
        pinned,
    ]
    drawn = [predictions.withColumn("score", F.rand()), predictions.withColumn("item", F.expr("uuid()"))]
    assert [draws_anew(frame.select(*read)) for frame in (*steady, *drawn)] == [False] * 5 + [True] * 2
    assert jobs_of(lambda: draws_anew(drawn[0])) == 0
    pinned.unpersist()
