"""Leaving predictions out early changes no value; how the plan looks, and what it says of itself."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.effort import part_of
from helpers.plans import plan_of
from helpers.shuffles import settings_of
from pyspark.sql import functions as F
from worlds.random_logs import assert_tricky, random_logs

from spark_rankeval import BCa, Facts, evaluate, score_users, summarise
from spark_rankeval.spark import prediction_lists, scoring
from spark_rankeval.spark.platforms import engine_of

METRICS = [f"{name}@{k}" for name in ("precision", "recall", "ndcg", "ap", "rr") for k in (1, 5)]


@pytest.fixture(scope="module")
def tables(spark):
    logs = random_logs(120, 5, seed=9, n_items=60)
    assert_tricky(logs, 5)
    users = range(len(logs.predictions))
    # The first user has far more equal scores than are kept.
    predictions = [(u, i, s) for u in users for i, s in logs.predictions[u]]
    predictions += [(1, 1000 + n, 0.5) for n in range(200)]
    labels = [(u, i, g) for u in users for i, g in logs.labels[u]] + [(1, 1003, 2.0)]
    return (
        spark.createDataFrame(predictions, "user int, item int, score double"),
        spark.createDataFrame(labels, "user int, item int, grade double"),
    )


def values(table):
    frame = table.toPandas().sort_values("user")
    return frame.drop(columns=["hangs_on_tie"]).to_numpy(np.float64)


def run(tables, **options):
    return evaluate(*tables, METRICS, score="score", relevance="grade", **options)


@pytest.fixture(scope="module")
def pruned(tables):
    return run(tables)


@pytest.fixture(scope="module")
def whole(tables):
    return run(tables, prune="never")


def test_no_value_changes(pruned, whole):
    assert pruned.summary == whole.summary
    assert pruned.data_quality.n_predictions == whole.data_quality.n_predictions
    assert values(pruned.per_user).tobytes() == values(whole.per_user).tobytes()


@pytest.fixture(scope="module")
def engine(spark):
    return engine_of(spark)


def test_ties_cut_at_the_boundary_are_seen_and_settled(tables, pruned, engine):
    # An older Spark sorts a user's predictions, which leaves no tie open, and Sail leaves none of them out.
    sorts = "Spark 4.2 needs no sort" if engine.sorts_cheaply else "would sort them to keep the best, which costs more"
    assert ("who were computed again" if engine.keeps_best else sorts) in pruned.explain()
    predictions, labels = tables
    without_mass_ties = predictions.where("item < 1000 and user % 4 != 2")
    assert "who were computed again" not in run((without_mass_ties, labels)).explain()


def test_users_left_open_count_once_in_slices_models_and_samples(tables, engine):
    predictions, labels = tables
    options = {
        "score": "score",
        "by": "group",
        "facts": Facts(
            attributes=labels.select("user", F.concat(F.lit("g"), F.col("user") % 3).alias("group")).distinct()
        ),
        "users": predictions.sparkSession.createDataFrame([(1,), (10_001,)], "user int"),
        "ci": BCa(replicates=50),
    }
    models = {"a": predictions, "b": predictions.where("item % 5 != 0")}
    judged = labels.groupBy("user").agg(F.collect_list("item").alias("item"))
    pruned, whole = (evaluate(models, judged, METRICS[:4], **options, prune=prune) for prune in ("auto", "never"))
    assert pruned.summary == whole.summary
    assert {row.model for row in pruned.summary} == {"a", "b"}
    assert ("who were computed again" in pruned.explain()) == engine.keeps_best


def test_the_window_of_older_sparks_gives_the_same(tables, whole, engine, monkeypatch):
    older = replace(engine, keeps_best=False, sorts_cheaply=True)
    monkeypatch.setattr(scoring, "engine_of", lambda _: older)
    windowed = run(tables)
    assert "window" in windowed.explain()
    assert windowed.summary == whole.summary
    assert values(windowed.per_user).tobytes() == values(whole.per_user).tobytes()


def test_text_ids_prune_in_the_order_of_their_bytes(spark):
    ids = [chr(0x61 + n % 20) + "é" * (n % 3) + str(n) for n in range(60)]
    predictions = spark.createDataFrame([(1, i, 1.0) for i in ids], "user int, item string, score double")
    labels = spark.createDataFrame([(1, i) for i in ids[::7]], "user int, item string")
    pruned = evaluate(predictions, labels, METRICS, score="score")
    whole = evaluate(predictions, labels, METRICS, score="score", prune="never")
    assert [row.mean for row in pruned.summary] == [row.mean for row in whole.summary]


def test_both_zeros_are_one_score(spark):
    predictions = spark.range(40).selectExpr("1 AS user", "id AS item", "if(id < 20, -0.0D, 0.0D) AS score")
    result = evaluate(predictions, spark.createDataFrame([(1, 0)], "user int, item long"), "precision@1", score="score")
    assert result["precision@1"] == 1.0


def test_items_and_scores_of_the_two_heaps_stay_aligned(spark):
    random = np.random.default_rng(4)
    # The score says the item: if an item came with another's score, its rank would change.
    rows = [(int(u), int(i), float(i // 7)) for u in range(20) for i in random.permutation(400)]
    predictions = spark.createDataFrame(rows, "user int, item int, score double").repartition(7)
    labels = spark.createDataFrame([(u, i) for u in range(20) for i in range(385, 400)], "user int, item int")
    result = evaluate(predictions, labels, ["precision@15", "recall@20"], score="score")
    assert result["precision@15"] == result["recall@20"] == 1.0


def test_dropping_duplicates_comes_before_leaving_out(spark):
    # Twenty copies of one item would fill what is kept; the labelled item stands right behind the best of them, before the worst.
    rows = [(1, 7, 1.0 - n / 40) for n in range(40)] + [(1, 8, 0.5), (1, 9, 0.4)]
    predictions = spark.createDataFrame(rows, "user int, item int, score double")
    labels = spark.createDataFrame([(1, 8)], "user int, item int")
    result = evaluate(predictions, labels, ["rr@2"], score="score", on_invalid="drop")
    assert result["rr@2"] == 0.5
    assert result.data_quality.n_duplicate_predictions == 39
    assert result.data_quality.n_predictions == 3


def test_predictions_of_no_item_are_not_among_the_best(spark):
    rows = [(1, None, 1.0 + n) for n in range(40)] + [(1, 8, 0.5), (1, 9, 0.4)]
    predictions = spark.createDataFrame(rows, "user int, item int, score double")
    labels = spark.createDataFrame([(1, 9)], "user int, item int")
    scored = score_users(predictions, labels, ["rr@2"], score="score", on_invalid={"invalid_predictions": "drop"})
    assert [(row["rr_at_2"], row["n_invalid_predictions"]) for row in scored.collect()] == [(0.5, 40)]


def test_a_result_explains_its_plan(tables):
    """Of `choose_plan`, which has its tests without Spark."""
    predictions, labels = tables
    words = "All predictions of a user are grouped: rr looks at whole lists, without a cutoff."
    assert words in evaluate(predictions, labels, ["ndcg@5", "rr"], score="score").explain()


@pytest.mark.night  # By day test_intervals.py has other partitions, and test_same_everywhere.py other batches.
@pytest.mark.parametrize(("n_rows", "n_partitions"), part_of([(7, 5), (1, 1)], 2))
def test_values_do_not_depend_on_partitions_or_batches(spark, tables, n_rows, n_partitions):
    predictions, labels = (table.where("user < 60") for table in tables)
    expected = run((predictions, labels))
    settings = {
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(n_rows),
        "spark.sql.shuffle.partitions": str(n_partitions),
    }
    with settings_of(spark, settings):
        shuffled = (predictions.repartition(3), labels.repartition(2))
        assert run(shuffled).summary == expected.summary
        per_user = score_users(*shuffled, METRICS, score="score", relevance="grade").persist()
        assert values(per_user).tobytes() == values(expected.per_user).tobytes()
        assert summarise(per_user).summary == expected.summary
        per_user.unpersist()


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
    for kept in part_of([hot, long, short.union(short.where("item < 0")), short.repartition(2)], 2):
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
