"""To keep only the best of lists that may not fit into memory changes no value; when that is done."""

from types import SimpleNamespace

import numpy as np
import pytest
from pyspark.sql import functions as F
from worlds.random_logs import assert_tricky, random_logs

from spark_rankeval import BCa, Facts, evaluate
from spark_rankeval.spark import grouping, scoring
from spark_rankeval.spark.engine import engine_of

pytestmark = pytest.mark.ci
METRICS = [f"{name}@{k}" for name in ("precision", "recall", "ndcg", "ap", "rr") for k in (1, 5)]


@pytest.fixture
def pruned_and_whole(spark, monkeypatch):
    """What a call gives if lists may be too long, and if they are not."""

    def both(*tables, **options):
        results = []
        for long in (True, False):
            monkeypatch.setattr(scoring, "may_be_long", lambda *_, long=long: long)
            results.append(evaluate(*tables, **options))
        assert ("keeps the best" in results[0].explain()) == engine_of(spark).keeps_best
        assert "All predictions of a user are grouped." in results[1].explain()
        return results

    return both


def values(result):
    frame = result.per_user.toPandas().sort_values("user")
    return frame.drop(columns=["hangs_on_tie"]).to_numpy(np.float64).tobytes()


def test_no_value_changes_whatever_ties_at_the_boundary(spark, pruned_and_whole):
    logs = random_logs(120, 5, seed=9, n_items=60)
    assert_tricky(logs, 5)
    # The first user has far more equal scores than are kept.
    rows = [*logs.prediction_rows, *((1, 1000 + n, 0.5) for n in range(200))]
    predictions = spark.createDataFrame(rows, "user int, item int, score double")
    labels = spark.createDataFrame([*logs.label_rows, (1, 1003, 2.0)], "user int, item int, grade double")
    pruned, whole = pruned_and_whole(predictions, labels, METRICS, score="score", relevance="grade")
    assert pruned.summary == whole.summary
    assert pruned.data_quality.n_predictions == whole.data_quality.n_predictions
    assert values(pruned) == values(whole)
    # In slices, models and samples.
    groups = labels.select("user", F.concat(F.lit("g"), F.col("user") % 3).alias("group")).distinct()
    options = {
        "score": "score", "by": "group", "facts": Facts(attributes=groups), "ci": BCa(replicates=50),
        "users": spark.createDataFrame([(1,), (10_001,)], "user int"),
    }  # fmt: skip
    models = {"a": predictions, "b": predictions.where("item % 5 != 0")}
    judged = labels.groupBy("user").agg(F.collect_list("item").alias("item"))
    pruned, whole = pruned_and_whole(models, judged, METRICS[:4], **options)
    assert pruned.summary == whole.summary
    assert {row.model for row in pruned.summary} == {"a", "b"}


def test_zeros_text_ids_and_items_beside_their_scores_are_in_order(spark, pruned_and_whole):
    """A user of each: texts tie in the order of their bytes, both zeros are one score, and items keep their scores."""
    ids = [chr(0x61 + n % 20) + "é" * (n % 3) + str(n) for n in range(60)]
    predictions = spark.createDataFrame([(1, i, 1.0) for i in ids], "user int, item string, score double")
    labels = spark.createDataFrame([(1, i) for i in ids[::7]], "user int, item string")
    pruned, whole = pruned_and_whole(predictions, labels, METRICS, score="score")
    assert [row.mean for row in pruned.summary] == [row.mean for row in whole.summary]
    zeros = [(0, item, -0.0 if item < 20 else 0.0) for item in range(40)]
    # The score says the item: if an item came with another's score, its rank would change.
    random = np.random.default_rng(4)
    rows = [(user, int(item), float(item // 7)) for user in range(1, 20) for item in random.permutation(400)]
    predictions = spark.createDataFrame([*zeros, *rows], "user int, item int, score double").repartition(7)
    liked = [(0, 0), *((user, item) for user in range(1, 20) for item in range(385, 400))]
    labels = spark.createDataFrame(liked, "user int, item int")
    for result in pruned_and_whole(predictions, labels, ["precision@1", "recall@20"], score="score"):
        assert [row.mean for row in result.summary] == [1.0, 1.0]


def test_what_cannot_be_ranked_or_is_there_twice_is_not_among_the_best(spark, pruned_and_whole):
    # Twenty copies of one item would fill what is kept; the labelled item stands right behind the best of them, before the worst.
    twice = [(1, 7, 1.0 - n / 40) for n in range(40)] + [(1, 8, 0.5), (1, 9, 0.4)]
    nothing = [(2, None, 1.0 + n) for n in range(40)] + [(2, 8, 0.4), (2, 9, 0.5)]
    predictions = spark.createDataFrame(twice + nothing, "user int, item int, score double")
    labels = spark.createDataFrame([(1, 8), (2, 8)], "user int, item int")
    for result in pruned_and_whole(predictions, labels, ["rr@2"], score="score", on_invalid="drop"):
        assert [row["rr_at_2"] for row in result.per_user.collect()] == [0.5, 0.5]
        quality = result.data_quality
        assert (quality.n_duplicate_predictions, quality.n_invalid_predictions, quality.n_predictions) == (39, 40, 5)


def test_a_draw_of_rows_says_whether_a_list_may_be_too_long(spark, tmp_path, monkeypatch):
    users = spark.range(2_000).withColumnRenamed("id", "user")
    short = users.crossJoin(spark.range(3).withColumnRenamed("id", "item"))
    many = spark.range(120_000).select(F.lit(5).cast("long").alias("user"), (F.col("id") + 100).alias("item"))
    frames = {"short": short, "hot": short.unionByName(many)}
    for name, frame in frames.items():
        frame.withColumn("score", F.rand(1)).write.parquet(str(tmp_path / name))
        frames[name] = spark.read.parquet(str(tmp_path / name))

    def may_be_long(frame):
        return grouping.may_be_long([SimpleNamespace(frame=frame, user=("user",))])

    # Small files, and what a scan does not tell.
    assert not may_be_long(frames["hot"].where("user >= 0"))
    assert may_be_long(frames["short"].union(frames["short"]))
    monkeypatch.setattr(grouping, "_SMALL", 0)
    monkeypatch.setattr(grouping, "_LONGEST", 60_000)
    assert may_be_long(frames["hot"])
    assert not may_be_long(frames["short"])
