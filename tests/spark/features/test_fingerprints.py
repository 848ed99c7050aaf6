"""Fingerprints of what an evaluation read: the same however tables are stored and cut, and another one for every other row."""

import math
import random
import warnings

import pytest
from helpers.shuffles import shuffled_into
from pyspark.sql import functions as F

from spark_rankeval import Vectors, compare, evaluate, merge, score_users, summarise
from spark_rankeval.errors import SparkRankEvalWarning
from spark_rankeval.spark import scoring
from spark_rankeval.spark.sql import hash_in

METRICS = ["ndcg@1", "rr@2"]
ASKED = {"score": "score", "relevance": "grade", "on_invalid": "drop"}
# Twenty equal scores of a user.
PREDICTIONS = [(user, item, float(item % 3)) for user in range(6) for item in range(4)] + [
    (7, i, 0.5) for i in range(20)
]
LABELS = [(user, item, 1.0) for user in range(7) for item in (user, user + 1)] + [(7, 3, 1.0)]
EXCLUDED = [(user, 3) for user in (0, 1, 4, 5)]
SCHEMAS = {"predictions": "user {0}, item {0}, score double", "labels": "user {0}, item {0}, grade double"}


def tables(spark, kind="bigint", predictions=PREDICTIONS, labels=LABELS):
    rows = {"predictions": predictions, "labels": labels}
    return [spark.createDataFrame(rows[name], SCHEMAS[name].format(kind)) for name in rows]


def of_kind(frame, kind):
    """A table whose users and items have another type."""
    return frame.select(*(F.col(name).cast(kind if name in ("user", "item") else of) for name, of in frame.dtypes))


def with_lists(spark, kind="bigint"):
    users = spark.createDataFrame([(1,), (50,), (50,)], "user bigint")
    exclude = spark.createDataFrame(EXCLUDED, "user bigint, item bigint")
    given = [of_kind(table, kind) for table in (*tables(spark), users, exclude)]
    return evaluate(*given[:2], METRICS, **ASKED, users=given[2], exclude=given[3])


@pytest.fixture(scope="module")
def whole(spark):
    return with_lists(spark)


def test_ids_that_are_all_null_have_the_hash_of_nothing(spark):
    """Sail panicked, and lost rows of users whose ids were all rounded."""
    nulls = spark.createDataFrame([(None,)] * 3, "user double")
    hashes = nulls.select(hash_in(nulls, ["user"]).column.alias("hash")).collect()
    assert [row["hash"] for row in hashes] == [42] * 3


def test_whole_ids_of_floating_point_have_the_digits_of_whole_numbers(spark, whole):
    assert with_lists(spark, "double").fingerprints == whole.fingerprints
    # Nobody is drawn by the type of an id.
    ids = [of_kind(spark.range(-3, 9).toDF("user"), each) for each in ("int", "float", "double")]
    drawn = [frame.select(hash_in(frame, ["user"]).column).collect() for frame in ids]
    assert drawn[0] == drawn[1] == drawn[2]


@pytest.fixture(scope="module")
def plain(spark):
    return evaluate(*tables(spark), METRICS, **ASKED)


def test_the_digits_are_the_same_on_every_platform(whole):
    assert whole.fingerprints == {
        "predictions": "34c1bacd07747c409f4267e13828be9f",
        "labels": "ec7fc42854defba5941bc17e4fba55c3",
        "users": "e8bdc71775daaf8d958b3dd4c9eefda4",
        "exclude": "aa2f6c88004bec31a2cc3c28efa5939e",
    }


def test_workers_hash_whole_lists_as_spark_hashes_rows(spark, monkeypatch):
    predictions, labels = tables(spark)
    # Negative zeros are among the scores, and some users are of one model alone.
    models = {"first": predictions, "second": predictions.where("user < 5").selectExpr("user", "item", "-score score")}
    rows = [frame.withColumn("name", F.lit(name)) for name, frame in models.items()]
    by_workers = evaluate(models, labels, METRICS, **ASKED).fingerprints
    assert evaluate(rows[0].union(rows[1]), labels, METRICS, **ASKED, model="name").fingerprints == by_workers
    # Spark hashes the rows if it merges repeats first.
    monkeypatch.setattr(scoring, "may_be_long", lambda *_: True)
    assert evaluate(models, labels, METRICS, **ASKED).fingerprints == by_workers


def test_widths_orders_and_partitions_change_no_digit(spark, plain):
    predictions, labels = tables(spark, "int")
    narrow = labels.selectExpr("cast(grade as float) grade", "'x' more", "item", "user").repartition(3)
    with shuffled_into(spark, 5):
        again = evaluate(predictions.orderBy("score").repartition(2, "item"), narrow, METRICS, **ASKED)
    assert again.fingerprints == plain.fingerprints


def test_a_table_of_users_without_metadata_has_what_fingerprints_are_made_of(spark, whole, tmp_path):
    whole.per_user.write.option("header", True).csv(f"{tmp_path}/csv")
    read = spark.read.options(header=True, inferSchema=True).csv(f"{tmp_path}/csv")
    with pytest.warns(SparkRankEvalWarning, match="lost its metadata"):
        assert summarise(read, user="user").fingerprints == whole.fingerprints


CHANGES = {
    "a row twice": lambda rows: [*rows, rows[0]],
    "a null grade": lambda rows: [(*rows[0][:2], None), *rows[1:]],
    "a NaN grade": lambda rows: [(*rows[0][:2], math.nan), *rows[1:]],
    "a null item": lambda rows: [(rows[0][0], None, rows[0][2]), *rows[1:]],
    "exchanged": lambda rows: [(rows[0][0], *rows[8][1:]), *rows[1:8], (rows[8][0], *rows[0][1:]), *rows[9:]],
}


def test_every_other_label_is_another_fingerprint(spark, plain):
    found = {"as they are": plain.fingerprints}
    for name, changed in CHANGES.items():
        found[name] = evaluate(*tables(spark, labels=changed(LABELS)), METRICS, **ASKED).fingerprints
    assert {each["predictions"] for each in found.values()} == {plain.fingerprints["predictions"]}
    assert len({each["labels"] for each in found.values()}) == len(found)


def test_grades_that_change_places_with_a_null_are_seen(spark):
    predictions, _ = tables(spark)
    asked = {"score": "score", "relevance": ["click", "buy"], "on_invalid": "drop"}
    schema = "user bigint, item bigint, click double, buy double"
    whole = (2, 2, 1.0, 1.0)
    rows = ([whole, (1, 1, 1.0, None)], [whole, (1, 1, None, 1.0)])
    one, other = (evaluate(predictions, spark.createDataFrame(row, schema), "rr", **asked).fingerprints for row in rows)
    assert [name for name in one if one[name] != other[name]] == ["labels"]


def test_days_add_up_and_models_have_their_own(spark, plain):
    predictions, labels = tables(spark)
    days = []
    for day in ("user < 3", "user >= 3"):
        models = {"a": predictions.where(day), "b": predictions.where(f"{day} and item > 0")}
        days.append(evaluate(models, labels.where(day), METRICS, **ASKED))
    week = merge(days).fingerprints
    assert week["labels"] == plain.fingerprints["labels"]
    assert week["predictions of a"] == plain.fingerprints["predictions"] != week["predictions of b"]


def test_arrays_and_slices_have_fingerprints_too(spark):
    def found(rows, kind="int"):
        frame = spark.createDataFrame(rows, "user int, prediction array<int>, label array<int>, country string")
        arrays = {name: F.col(name).cast(f"array<{kind}>") for name in ("prediction", "label")}
        return evaluate(frame.withColumns(arrays), None, "rr", by="country").fingerprints

    rows = [(1, [1, 2], [2], "x"), (2, [3], [4], "y")]
    first, second = found(rows), found([(1, [1], [2], "x"), (2, [2, 3], [4], "x")])
    assert first == found(rows, "double")
    assert sorted(first) == ["labels", "predictions"]
    assert [name for name in first if first[name] != second[name]] == ["predictions"]


def test_a_comparison_counts_the_users_with_other_labels(spark):
    predictions, labels = tables(spark)
    excluded = spark.createDataFrame(EXCLUDED, "user bigint, item bigint")
    old = score_users(predictions, labels, METRICS, **ASKED)
    new = score_users(predictions, labels.where("not (user = 2 and item = 3)"), METRICS, exclude=excluded, **ASKED)
    with pytest.warns(SparkRankEvalWarning, match="different labels"):
        row = compare({"old": old, "new": new}, "old", metrics="rr@2")["rr@2"]
    assert row.not_shared == "labels (1 user) and exclusions (4 users)"


@pytest.mark.filterwarnings("ignore:model '.'. no")
def test_vectors_have_theirs_in_the_place_of_predictions(spark):
    rows = [(1, [1.0, 2.0], ["x"], "y"), (2, [0.5, 1.0], [], "x")]
    users = spark.createDataFrame(rows, "user bigint, vector array<double>, tenant array<string>, language string")
    rows = [(1, [1.0, 0.0], 0.0), (2, [0.0, 1.0], 0.5), (3, [1.0, 1.0], 0.0)]
    items, reversed_, other = (
        spark.createDataFrame(each, "item int, vector array<float>, bias double")
        for each in (rows, rows[::-1], [*rows[:2], (3, [1.0, 0.5], 0.0)])
    )
    labels = spark.createDataFrame([(1, 2), (2, 3)], "user bigint, item bigint")
    candidates = [
        labels.select("item"), labels.selectExpr("user", "cast(item as int) item"), labels.selectExpr("user", "5 - item AS item")
    ]  # fmt: skip
    models = [
        Vectors(users, items),
        Vectors(users, items, item_bias="bias"),
        Vectors(users, items, similarity="cosine"),
        Vectors(users, other),
        *(
            Vectors(users, items.selectExpr("*", f"{tenant} AS tenant", f"{language} AS language"), filters=filters)
            for filters in ("tenant", ["tenant", "language"])
            for tenant, language in (("'x'", "string(NULL)"), ("string(NULL)", "'x'"))
        ),
        *(Vectors(users, items, candidates=table) for table in candidates),
    ]
    named = {str(number): model for number, model in enumerate(models)}
    found = evaluate({**named, "reversed": Vectors(users, reversed_)}, labels, "rr").fingerprints
    alone = evaluate(models[0], labels, "rr").fingerprints
    assert alone == {"labels": found.pop("labels"), "predictions": found["predictions of 0"]}
    assert found.pop("predictions of reversed") == found["predictions of 0"]
    assert len(found) == len({*found.values()}) == len(models)


def test_inputs_that_change_between_actions_are_reported(spark, tmp_path):
    """A score that is drawn anew by a UDF that does not say so: only fingerprints know."""
    drawn = F.udf(lambda: random.SystemRandom().random(), "double")
    predictions, labels = tables(spark)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SparkRankEvalWarning)
        result = evaluate(predictions.withColumn("score", drawn()), labels.select("user", "item"), "rr", score="score")
    words = "the table that was written was computed from other rows of predictions than"
    with pytest.warns(SparkRankEvalWarning, match=words):
        written = result.write(str(tmp_path / "users"))
    assert written.fingerprints["labels"] == result.fingerprints["labels"]
