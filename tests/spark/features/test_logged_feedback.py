"""Labels with weights through the front doors: what comes of them is a naive computation's, and bad ones are named."""

import math
from dataclasses import replace

import numpy as np
import pytest
from oracles.rankings import User, estimate
from pyspark.sql import functions as F
from worlds.random_logs import assert_tricky, random_logs

from spark_rankeval import Facts, compare, detectable_difference, evaluate, score_users, summarise
from spark_rankeval.errors import DataError, InputError, MetricError, SparkRankEvalWarning
from spark_rankeval.metrics.naming import parse_metric

METRICS = [
    "dcg@5", "dcg(gain='linear', estimator='snips')@5", "dcg(weight_limit=3)@5", "cg(estimator='snips')", "precision@5",
    "precision(estimator='snips', weight_limit=4)@5", "recall@5", "recall(estimator='naive')@5",
]  # fmt: skip
NORMALISED = [label for label in METRICS if "snips" in label]
OPTIONS = {"score": "score", "relevance": "grade", "weight": "w"}
N = 260
LIMIT = 3


def weight(user, item):
    return 1 + (user * 31 + item * 17) % 50 / 8


@pytest.fixture(scope="module")
def logs():
    found = random_logs(N, 5, seed=77)
    assert_tricky(found, 5)
    return found


@pytest.fixture(scope="module")
def tables(spark, logs):
    labels = [(*row, weight(*row[:2])) for row in logs.label_rows]
    predictions, _ = logs.tables(spark)
    return predictions, spark.createDataFrame(labels, "user long, item long, grade double, w double")


@pytest.fixture(scope="module")
def result(tables):
    return evaluate(*tables, METRICS, **OPTIONS)


def expected(logs, label, users):
    """Values and weights of users by the oracle; users known from neither table are none."""
    metric = parse_metric(label)
    told = {"estimator": "snips" if metric.name == "recall" else "ips", **metric.chosen()}
    found = []
    for user in users:
        labels = logs.labels[user]
        weights = {item: weight(user, item) for item, _ in labels}
        found.append(estimate(metric.name, User(logs.predictions[user], labels), weights, k=metric.k, **told))
    return np.array(found).T


@pytest.fixture(scope="module")
def known(logs):
    return [user for user in range(N) if logs.predictions[user] or logs.labels[user]]


def test_means_and_errors_are_those_of_a_naive_computation(result, logs, known):
    for row in (row for row in result.summary if "naive" not in row.key):
        values, weights = expected(logs, row.key, known)
        used = ~np.isnan(values) & (weights > 0)
        values, weights, n = values[used], weights[used], np.count_nonzero(used)
        mean = np.average(values, weights=weights)
        residuals = weights * (values - mean)
        error = math.sqrt(n / (n - 1) * (residuals**2).sum()) / weights.sum()
        assert (row.n_users, row.n_users + row.n_undefined) == (n, len(known))
        assert (row.mean, row.standard_error) == pytest.approx((mean, error), rel=1e-12)
        assert row.effective_n_users == pytest.approx(weights.sum() ** 2 / (weights**2).sum(), rel=1e-12)
        assert row.interval_low < row.mean < row.interval_high
        assert row.user_weight == ("self-normalised" if row.key in NORMALISED else "")
        # Who has no relevant label in the log counts where a sum is estimated.
        assert (n == len(known)) == (row.key in ("dcg@5", "dcg(weight_limit=3)@5", "precision@5"))
    row = next(row for row in result.summary if row.key == NORMALISED[0])
    std = detectable_difference(result, NORMALISED[0]).iloc[0]["std"]
    assert std == pytest.approx(row.standard_error * math.sqrt(row.n_users), rel=1e-12)


def test_naive_is_what_labels_without_weights_give(tables, result):
    predictions, labels = tables
    plain = evaluate(predictions, labels, "recall@5", score="score", relevance="grade")
    row = next(row for row in result.summary if "naive" in row.key)
    assert replace(row, metric="", definition="") == replace(plain.summary[0], metric="", definition="")
    assert plain.data_quality.label_weight == 0
    assert math.isnan(plain.data_quality.effective_n_labels)
    assert "weight" not in repr(plain)
    assert not any("weight" in name for name in plain.per_user.columns)


def test_the_weights_are_reported(result, logs):
    weights = np.array([weight(u, i) for u in range(N) for i, _ in logs.labels[u]])
    quality = result.data_quality
    assert quality.label_weight == pytest.approx(weights.sum(), rel=1e-12)
    assert quality.effective_n_labels == pytest.approx(weights.sum() ** 2 / (weights**2).sum(), rel=1e-12)
    assert quality.n_clipped_labels == (weights > LIMIT).sum() > 0
    words = f"equal weights; {quality.n_clipped_labels:,} clipped"
    text = repr(result)
    assert f"as informative as {quality.effective_n_labels:,.1f} {words}" in text
    assert "users weighted by" not in text
    assert "estimator='ips', weight_limit=None" in result.explain()
    assert result.to_dict()["data_quality"]["n_clipped_labels"] == quality.n_clipped_labels


def test_a_table_that_lost_its_normalisers_or_metadata_is_refused(tables, tmp_path):
    per_user = score_users(*tables, METRICS, **OPTIONS)
    lost = next(name for name in per_user.columns if name.endswith("_normaliser"))
    with pytest.raises(InputError, match=rf"ratio of two columns .* lacks {lost}\. Store the table as Parquet"):
        summarise(per_user.drop(lost))
    per_user.write.csv(str(tmp_path / "users"), header=True)
    read = per_user.sparkSession.read.csv(str(tmp_path / "users"), header=True, inferSchema=True)
    with pytest.raises(InputError, match="ratio of two columns"):
        summarise(read)


def test_slices_models_relevances_and_user_weights(tables, logs, known):
    predictions, labels = tables
    labels = labels.withColumn("bought", F.greatest(F.col("grade") - 1, F.lit(0.0)))
    users = labels.select("user").union(predictions.select("user")).distinct()
    about = users.selectExpr("user", "if(user % 3 = 0, 'FR', 'DE') country", "user % 4 / 1D spend")
    models = {"a": predictions, "b": predictions.withColumn("score", -F.col("score"))}
    snips = METRICS[1]
    options = {**OPTIONS, "relevance": ["grade", "bought"], "by": "country", "user_weight": "spend"}
    found = evaluate(models, labels, METRICS[:2], facts=Facts(attributes=about), **options)
    rows = {(row.slice, row.model, row.metric, row.relevance): row for row in found.summary}
    for slice_, users in (
        ("country=FR", [user for user in known if user % 3 == 0]),
        ("country=DE", [user for user in known if user % 3]),
        ("all", known),
    ):
        values, weights = expected(logs, snips, users)
        weights *= [user % 4 for user in users]
        mean = np.nansum(values * weights) / weights.sum()
        row = rows[slice_, "a", snips, "grade"]
        assert (row.mean, row.user_weight) == (pytest.approx(mean, rel=1e-12), "spend")
    others = [("a", "grade"), ("b", "grade"), ("a", "bought")]
    assert len({rows["all", model, snips, relevance].mean for model, relevance in others}) == 3
    assert found.qualities["a"].label_weight == found.qualities["b"].label_weight == found.data_quality.label_weight > 0


@pytest.mark.parametrize("structs", [False, True])
def test_arrays_give_what_rows_give(tables, result, structs):
    predictions, labels = tables
    lists = predictions.groupBy("user").agg(F.collect_list(F.struct("item", "score")).alias("items"))
    names = ("item", "grade", "w")
    in_structs = [F.collect_list(F.struct(*names)).alias("items")]
    columns = in_structs if structs else [F.collect_list(name).alias(name) for name in names]
    found = evaluate(lists, labels.groupBy("user").agg(*columns), METRICS, **OPTIONS)
    assert [row.mean for row in found.summary] == pytest.approx([row.mean for row in result.summary], rel=1e-12)
    assert found.data_quality.n_clipped_labels == result.data_quality.n_clipped_labels


def test_labels_of_one_grade_have_weights_alone_and_snips_warns_of_them(tables):
    predictions, labels = tables
    liked = labels.where("grade > 0")
    without = evaluate(predictions, liked.drop("grade"), ["recall@5", "precision@5"], score="score", weight="w")
    equal = evaluate(predictions, liked.withColumn("grade", F.lit(1)), ["recall@5", "precision@5"], **OPTIONS)
    assert [row.mean for row in without.summary] == [row.mean for row in equal.summary]
    with pytest.warns(SparkRankEvalWarning, match="every label is relevant, but estimator='snips' of sums also needs"):
        found = evaluate(predictions, liked, ["precision(estimator='snips', denominator='predictions')@5"], **OPTIONS)
    # Whoever has something ranked that the log knows has all that there is; others are those without predictions.
    row = found.summary[0]
    assert row.maximum == pytest.approx(1)
    assert row.n_zero == found.data_quality.n_without_predictions > 0


def test_propensities_for_weights_are_warned_of(tables):
    predictions, labels = tables
    with pytest.warns(SparkRankEvalWarning, match=r"weight of the labels is 0\.\d+, .* pass 1 / propensity"):
        evaluate(predictions, labels.withColumn("w", 1 / F.col("w")), "dcg@5", **OPTIONS)


def test_one_table_has_the_weights_beside_its_labels(tables):
    predictions, labels = tables
    lists = predictions.groupBy("user").agg(F.sort_array(F.collect_list("item")).alias("items"))
    names = ("item", "grade", "w")
    liked = labels.where("w < 5").groupBy("user").agg(*(F.collect_list(name).alias(name) for name in names))
    both = lists.join(liked.withColumnRenamed("item", "liked"), "user")
    options = {"item": ("items", "liked"), "relevance": "grade", "weight": "w"}
    found = evaluate(both, None, METRICS, **options)
    apart = evaluate(both.select("user", "items"), both.select("user", "liked", "grade", "w"), METRICS, **options)
    assert [row.mean for row in found.summary] == [row.mean for row in apart.summary]
    assert found["dcg@5"] > 0


BAD = {
    "null weight": None, "NaN weight": math.nan, "weight of 0": 0.0, "negative weight": -1.0, "infinite weight": math.inf,
    "weight above 2^100": 1e31,
}  # fmt: skip


def in_form(spark, scores, weights, form):
    """Tables of rows, or of arrays, of the predictions and of the labels."""
    predictions = spark.createDataFrame(scores, "user string, item string, score double")
    labels = spark.createDataFrame(weights, "user string, item string, grade double, w double")
    if form == "arrays":
        # Nulls fall out of a list that is collected, but not out of structs.
        gathered = labels.groupBy("user").agg(F.collect_list(F.struct("item", "grade", "w")).alias("all"))
        labels = gathered.select("user", *(F.col(f"all.{name}").alias(name) for name in ("item", "grade", "w")))
        predictions = predictions.groupBy("user").agg(F.collect_list(F.struct("item", "score")).alias("item"))
    return predictions, labels


def good(spark, form="rows", extra=()):
    weights = [("a", "x", 1.0, 2.0), ("a", "y", 1.0, 4.0), ("b", "x", 0.0, 3.0), *extra]
    return in_form(spark, [("a", "x", 2.0), ("a", "y", 1.0), ("b", "x", 1.0)], weights, form)


@pytest.mark.parametrize("form", ["rows", "arrays"])
def test_a_weight_that_cannot_be_used_is_refused_or_left_out_counted_and_named(spark, form):
    """Each kind is of the user of its name: y's, the second of two liked items."""
    scores = [(user, item, score) for user in BAD for item, score in (("x", 2.0), ("y", 1.0))]
    weights = [(reason, item, 1.0, one) for reason, wrong in BAD.items() for item, one in (("x", 2.0), ("y", wrong))]
    tables = in_form(spark, scores, weights, form)
    with pytest.raises(DataError, match=rf"labels that cannot be used: {len(BAD)} \(") as caught:
        evaluate(*tables, "dcg@2", **OPTIONS)
    assert caught.value.counts == {"n_invalid_labels": len(BAD)}
    dropped = evaluate(*tables, "dcg@2", on_invalid="quarantine", **OPTIONS)
    users = {row["user"]: row for row in dropped.per_user.collect()}
    rejected = {(row["user"], row["item"], row["reason"]) for row in dropped.quarantine.collect()}
    assert rejected == {(reason, "y", reason) for reason in BAD}
    for reason in BAD:
        assert f"{reason}: 1, for example user='{reason}', item='y'" in str(caught.value)
        row = users[reason]
        assert (row["dcg_at_2"], row["n_invalid_labels"], row["n_labels"]) == (2.0, 1, 1)
    assert "w" in dropped.quarantine.columns
    assert dropped["dcg@2"] == pytest.approx(2.0)
    with pytest.raises(DataError, match=f"labels that cannot be used: {len(BAD)}"):
        summarise(dropped.per_user, on_invalid="error")
    quality = dropped.data_quality
    assert quality.n_invalid_labels == quality.n_labels == len(users) == len(BAD)


def test_two_weights_of_a_label_are_a_conflict(spark):
    predictions, labels = good(spark, extra=[("a", "x", 1.0, 9.0), ("b", "x", 0.0, 3.0)])
    words = r"another grade or weight: 1 \(for example user='a', item='x', grade=1.0, w=2.0, best=\[1.0, 9.0\]\)"
    with pytest.raises(DataError, match=words) as caught:
        evaluate(predictions, labels, "dcg@2", **OPTIONS)
    assert caught.value.counts == {"n_conflicting_labels": 1}
    found = evaluate(predictions, labels, "dcg@1", on_invalid="quarantine", **OPTIONS)
    assert found["dcg@1"] == 9.0 / 2
    assert (found.data_quality.n_duplicate_labels, found.data_quality.n_conflicting_labels) == (1, 1)
    assert [(row["item"], row["w"]) for row in found.quarantine.collect()] == [("x", 2.0)]


def test_arrays_of_unequal_length_are_an_error(spark):
    predictions, labels = good(spark, form="arrays")
    short = labels.withColumn("w", F.when(F.col("user") == "a", F.slice("w", 1, 1)).otherwise(F.col("w")))
    with pytest.raises(DataError, match="unequal lengths of item and grade and w: 1"):
        evaluate(predictions, short, "dcg@2", **OPTIONS)


# The form of the labels, their weights, options and words.
REFUSED = [
    ("rows", "w", {"weight": "p"}, r"labels has no column 'p' \(weight=\); it has: user string"),
    ("rows", "w", {"weight": 3}, "column names must be strings; got 3"),
    ("rows", "w", {"weight": "grade"}, "weight='grade' is also the name of a column of users"),
    ("rows", "'1'", {}, "labels: weight='w' must be a number; it is string. Cast it"),
    ("rows", "true", {}, "weight='w' must be a number; it is boolean"),
    ("rows", "w", {"metrics": ["dcg@2", "ndcg@2", "rr"]}, "cannot estimate ndcg@2, rr, which depend on several items"),
    ("arrays", "w", {"weight": "p"}, r"labels has no column 'p' \(weight=\)"),
    ("arrays", "1.0D", {}, "weight='w' must be an array like the array 'item'"),
]


@pytest.mark.parametrize(("form", "weights", "options", "words"), REFUSED)
def test_wrong_calls_raise_before_any_job(spark, form, weights, options, words):
    predictions, labels = good(spark, form)
    with pytest.raises((InputError, MetricError), match=words):
        evaluate(predictions, labels.withColumn("w", F.expr(weights)), **{"metrics": "dcg@2", **OPTIONS, **options})


def test_models_are_compared_by_what_users_have(tables):
    predictions, labels = tables
    models = {"a": predictions, "b": predictions.withColumn("score", -F.col("score"))}
    scored = evaluate(models, labels, METRICS, **OPTIONS)
    with pytest.raises(MetricError, match=r"snips.* is a ratio of sums over all users.* the tables have dcg@5, "):
        compare(scored, "a")
    found = compare(scored, "a", metrics=["dcg@5", "recall@5"], test="t")
    assert found["dcg@5"].difference == pytest.approx(scored["b", "dcg@5"] - scored["a", "dcg@5"], rel=1e-10)
