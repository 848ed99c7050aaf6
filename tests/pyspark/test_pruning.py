"""Leaving predictions out early changes no value; how the plan looks, and what it says of itself."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.plans import plan_of
from pyspark.sql import functions as F
from worlds.random_logs import assert_tricky, random_logs

from spark_rankeval import BCa, Facts, evaluate, score_users
from spark_rankeval.spark import prediction_lists, scoring
from spark_rankeval.spark.platforms import engine_of

METRICS = [f"{name}@{k}" for name in ("precision", "recall", "ndcg", "ap", "rr") for k in (1, 5)]


@pytest.fixture(scope="module")
def tables(spark):
    logs = random_logs(120, 5, seed=9, n_items=60)
    assert_tricky(logs, 5)
    # The first user has far more equal scores than are kept.
    predictions = [*logs.prediction_rows, *((1, 1000 + n, 0.5) for n in range(200))]
    return (
        spark.createDataFrame(predictions, "user int, item int, score double"),
        spark.createDataFrame([*logs.label_rows, (1, 1003, 2.0)], "user int, item int, grade double"),
    )


def values(table):
    frame = table.toPandas().sort_values("user")
    return frame.drop(columns=["hangs_on_tie"]).to_numpy(np.float64).tobytes()


def run(tables, **options):
    return evaluate(*tables, METRICS, score="score", relevance="grade", **options)


@pytest.fixture(scope="module")
def whole(tables):
    return run(tables, prune="never")


@pytest.fixture(scope="module")
def engine(spark):
    return engine_of(spark)


@pytest.mark.ci
def test_no_value_changes_and_ties_cut_at_the_boundary_are_settled(tables, whole, engine):
    pruned = run(tables)
    assert pruned.summary == whole.summary
    assert pruned.data_quality.n_predictions == whole.data_quality.n_predictions
    assert values(pruned.per_user) == values(whole.per_user)
    # An older Spark sorts a user's predictions, which leaves no tie open.
    sorts = "Spark 4.2 needs no sort" if engine.is_spark else "would sort them to keep the best, which costs more"
    assert ("who were computed again" if engine.keeps_best else sorts) in pruned.explain()
    predictions, labels = tables
    without_mass_ties = predictions.where("item < 1000 and user % 4 != 2")
    assert "who were computed again" not in run((without_mass_ties, labels)).explain()


@pytest.mark.ci
def test_users_left_open_count_once_in_slices_models_and_samples(tables, engine):
    predictions, labels = tables
    groups = labels.select("user", F.concat(F.lit("g"), F.col("user") % 3).alias("group")).distinct()
    options = {
        "score": "score", "by": "group", "facts": Facts(attributes=groups), "ci": BCa(replicates=50),
        "users": predictions.sparkSession.createDataFrame([(1,), (10_001,)], "user int"),
    }  # fmt: skip
    models = {"a": predictions, "b": predictions.where("item % 5 != 0")}
    judged = labels.groupBy("user").agg(F.collect_list("item").alias("item"))
    pruned, whole = (evaluate(models, judged, METRICS[:4], **options, prune=prune) for prune in ("auto", "never"))
    assert pruned.summary == whole.summary
    assert {row.model for row in pruned.summary} == {"a", "b"}
    assert ("who were computed again" in pruned.explain()) == engine.keeps_best


@pytest.mark.ci
def test_the_window_of_older_sparks_gives_the_same(tables, whole, engine, monkeypatch):
    older = replace(engine, keeps_best=False, is_spark=True)
    monkeypatch.setattr(scoring, "engine_of", lambda _: older)
    windowed = run(tables)
    assert "window" in windowed.explain()
    assert windowed.summary == whole.summary
    assert values(windowed.per_user) == values(whole.per_user)


@pytest.mark.ci
def test_zeros_text_ids_and_both_heaps_are_in_order(spark):
    """A user of each: texts tie in the order of their bytes, both zeros are one score, and items keep their scores."""
    ids = [chr(0x61 + n % 20) + "é" * (n % 3) + str(n) for n in range(60)]
    predictions = spark.createDataFrame([(1, i, 1.0) for i in ids], "user int, item string, score double")
    labels = spark.createDataFrame([(1, i) for i in ids[::7]], "user int, item string")
    pruned, whole = (evaluate(predictions, labels, METRICS, score="score", prune=prune) for prune in ("auto", "never"))
    assert [row.mean for row in pruned.summary] == [row.mean for row in whole.summary]
    zeros = [(0, item, -0.0 if item < 20 else 0.0) for item in range(40)]
    # The score says the item: if an item came with another's score, its rank would change.
    random = np.random.default_rng(4)
    rows = [(user, int(item), float(item // 7)) for user in range(1, 20) for item in random.permutation(400)]
    predictions = spark.createDataFrame([*zeros, *rows], "user int, item int, score double").repartition(7)
    liked = [(0, 0), *((user, item) for user in range(1, 20) for item in range(385, 400))]
    labels = spark.createDataFrame(liked, "user int, item int")
    assert {
        row["precision_at_1"] for row in score_users(predictions, labels, "precision@1", score="score").collect()
    } == {1}
    of_rows = score_users(predictions.where("user > 0"), labels.where("user > 0"), "recall@20", score="score")
    assert {row["recall_at_20"] for row in of_rows.collect()} == {1}


@pytest.mark.ci
def test_what_cannot_be_ranked_or_is_there_twice_is_not_among_the_best(spark):
    # Twenty copies of one item would fill what is kept; the labelled item stands right behind the best of them, before the worst.
    twice = [(1, 7, 1.0 - n / 40) for n in range(40)] + [(1, 8, 0.5), (1, 9, 0.4)]
    nothing = [(2, None, 1.0 + n) for n in range(40)] + [(2, 8, 0.4), (2, 9, 0.5)]
    predictions = spark.createDataFrame(twice + nothing, "user int, item int, score double")
    labels = spark.createDataFrame([(1, 8), (2, 8)], "user int, item int")
    result = evaluate(predictions, labels, ["rr@2"], score="score", on_invalid="drop")
    assert [row["rr_at_2"] for row in result.per_user.collect()] == [0.5, 0.5]
    quality = result.data_quality
    assert (quality.n_duplicate_predictions, quality.n_invalid_predictions, quality.n_predictions) == (39, 40, 5)


@pytest.fixture(scope="module")
def files(spark, tmp_path_factory):
    """Lists of 12 predictions, lists of 80, and lists of 3 beside one of 30,000."""
    users = spark.range(2_000).withColumnRenamed("id", "user")
    many = spark.range(30_000).select(F.lit(5).cast("long").alias("user"), (F.col("id") + 100).alias("item"))
    shapes = {
        "short": users.crossJoin(spark.range(12).withColumnRenamed("id", "item")),
        "long": users.crossJoin(spark.range(80).withColumnRenamed("id", "item")),
        "hot": users.crossJoin(spark.range(3).withColumnRenamed("id", "item")).unionByName(many),
    }
    folder = tmp_path_factory.mktemp("lists")
    for name, frame in shapes.items():
        frame.withColumn("score", F.col("item").cast("double")).write.parquet(str(folder / name))
    return folder


@pytest.mark.night
def test_a_sample_of_files_says_whether_keeping_the_best_pays(spark, files, monkeypatch):
    labels = spark.createDataFrame([(user, 1) for user in range(50)], "user long, item long")

    def explained(predictions):
        return evaluate(predictions, labels, "ndcg@1", score="score").explain()

    short, long, hot = (spark.read.parquet(str(files / name)) for name in ("short", "long", "hot"))
    assert "the table is small, and to keep only the best 9 would cost more" in explained(short)
    monkeypatch.setattr(prediction_lists, "_SMALL", 0)
    monkeypatch.setattr(prediction_lists, "_LONGEST", 20_000)
    assert "lists are short (12.0 predictions on average, in a sample of" in explained(short.where("item >= 0"))
    for kept in (hot, long, short.union(short.where("item < 0")), short.repartition(2)):
        assert "A user keeps the best 9 predictions" in explained(kept)
    lengths = prediction_lists.sampled_lengths([SimpleNamespace(frame=hot, unjoined=None, user=("user",))])
    assert 25_000 < lengths.longest < 35_000
    assert lengths.mean < 10
    # A table of users is pruned by the same sample.
    for frame, is_pruned in ((short, False), (hot, True)):
        words = plan_of(score_users(frame, labels, "ndcg@1", score="score"))
        assert ("min_by" in words or "row_number" in words) == is_pruned
    monkeypatch.setattr(prediction_lists, "_MOST_OF_TASK", 8)
    assert "A user keeps the best 9 predictions" in explained(short)
