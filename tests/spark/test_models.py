"""Several models in one pass, on the same users."""

import itertools

import pytest
from chispa import assert_df_equality
from helpers.effort import FULL_LENGTH, part_of
from pyspark.sql import functions as F
from worlds.random_logs import random_logs

from spark_rankeval import evaluate, score_users, summarise
from spark_rankeval.errors import DataError, InputError, UnknownMetricError
from spark_rankeval.request.counts import COUNTS

METRICS = ["ndcg@5", "recall@3", "ap@5", "rr@5"]
FIELDS = ("metric", "mean", "std", "n_users", "n_undefined", "minimum", "maximum", "n_zero", "definition")
OPTIONS = {"score": "score", "relevance": "grade"}
HASHES = ["predictions_hash", "labels_hash"]


@pytest.fixture(scope="module")
def tables(spark):
    """Three models' predictions, and the labels."""
    tables = {}
    for seed, name in enumerate(["als", "popular", "random"]):
        tables[name], _ = random_logs(100, 5, seed=30 + seed).tables(spark)
    # A user whom one model alone knows.
    tables["random"] = tables["random"].unionByName(spark.createDataFrame([(1000, 1, 0.5)], tables["random"].schema))
    return tables, random_logs(100, 5, seed=30).tables(spark)[1]


@pytest.fixture(scope="module")
def together(tables):
    return evaluate(*tables, METRICS, **OPTIONS)


def figures(result, model):
    return [tuple(getattr(row, name) for name in FIELDS) for row in result.summary if row.model == model]


def everyone(tables):
    users = [table.select("user") for table in tables.values()]
    return users[0].union(users[1]).union(users[2]).distinct()


@pytest.mark.parametrize(("prune", "on_invalid"), part_of(itertools.product(["auto", "never"], ["error", "drop"]), 4))
def test_each_model_has_the_figures_that_it_has_alone_among_the_same_users(tables, together, prune, on_invalid):
    tables, labels = tables
    options = {**OPTIONS, "prune": prune, "on_invalid": on_invalid}
    if (prune, on_invalid) != ("auto", "error"):
        together = evaluate(tables, labels, METRICS, **options)
    assert together.models == ["als", "popular", "random"]
    assert [row.model for row in together.summary] == [m for m in together.models for _ in METRICS]
    for name, table in part_of(tables.items(), 2):
        alone = evaluate(table, labels, METRICS, users=everyone(tables), **options)
        assert figures(together, name) == figures(alone, "")
        assert together[name, "ndcg@5"] == alone["ndcg@5"]
        assert together.qualities[name] == alone.data_quality
    assert together.data_quality.n_predictions == sum(q.n_predictions for q in together.qualities.values())
    assert len(together) == len(METRICS)
    assert ("als", "rr@5") in together
    assert "rr@5" not in together
    with pytest.raises(UnknownMetricError, match=r"\('als', 'rr@5'\), \('popular', 'rr@5'\).*pairs"):
        together["rr@5"]
    for pair in (("nobody", "rr@5"), ("als", "rr@5", 3)):
        with pytest.raises(UnknownMetricError, match="has the models: 'als', 'popular', 'random'"):
            together[pair]
    assert together.to_dict()["data_quality_of_models"]["als"]["n_users"] == together.data_quality.n_users
    assert repr(together).splitlines()[1].split() == ["metric", "users", "als", "popular", "random"]


def test_a_column_of_models_is_as_a_dict_of_tables(tables, together):
    tables, labels = tables
    rows = None
    for name, table in tables.items():
        named = table.withColumn("which", F.lit(name))
        rows = named if rows is None else rows.unionByName(named)
    by_column = evaluate(rows.repartition(5), labels, METRICS, model="which", **OPTIONS)
    assert by_column.summary == together.summary
    assert by_column.qualities == together.qualities
    long = score_users(rows, labels, METRICS, model="which", **OPTIONS)
    assert long.columns == ["user", "which", "ndcg_at_5", "recall_at_3", "ap_at_5", "rr_at_5", *COUNTS, *HASHES]


def test_the_per_user_table_is_long_and_is_summarised_by_model(spark, tables, together, tmp_path):
    tables, labels = tables
    table = score_users(tables, labels, METRICS, **OPTIONS).persist()
    assert table.columns[:2] == ["user", "model"]
    assert table.count() == 3 * everyone(tables).union(labels.select("user")).distinct().count()
    table.write.parquet(str(tmp_path / "long"))
    stored = summarise(spark.read.parquet(str(tmp_path / "long")))
    assert stored.summary == together.summary
    assert stored.qualities == together.qualities
    table.unpersist()


def test_the_per_user_table_has_the_rows_of_each_model_alone(tables):
    tables, labels = tables
    table = score_users(tables, labels, METRICS, **OPTIONS)
    alone = score_users({"als": tables["als"]}, labels, METRICS, users=everyone(tables), **OPTIONS)
    assert_df_equality(
        table.where("model = 'als'"),
        alone.drop("users_hash"),
        ignore_row_order=True,
        allow_nan_equality=True,
        ignore_metadata=True,
    )


def test_what_is_summarised_has_the_models_in_the_order_in_which_they_were_named(tables, together):
    tables, labels = tables
    named = dict(reversed(tables.items()))
    per_user = score_users(named, labels, METRICS, **OPTIONS).persist()
    assert list(summarise(per_user).summary) == [
        row for model in named for row in together.summary if row.model == model
    ]
    assert summarise(per_user.where("model != 'popular'")).models == ["random", "als"]
    per_user.unpersist()


def test_models_that_come_as_arrays(tables, together):
    tables, labels = tables
    arrays = {
        name: table.groupBy("user").agg(
            F.expr("transform(sort_array(collect_list(struct(-score as s, item)), true), x -> x.item)").alias("item")
        )
        for name, table in tables.items()
    }
    assert evaluate(arrays, labels, METRICS, relevance="grade").summary == together.summary
    twice = {**arrays, "als": arrays["als"].unionByName(arrays["als"].where("user = 1"))}
    with pytest.raises(DataError, match="model 'als': user in several rows: 1"):
        evaluate(twice, labels, METRICS, relevance="grade")


def test_a_row_of_no_model_is_an_error(spark, tables):
    tables, labels = tables
    rows = tables["als"].withColumn("model", F.when(F.col("user") == 1, None).otherwise(F.lit("als")))
    n = rows.where("model is null").count()
    assert n > 0
    with pytest.raises(DataError, match=rf"null model \(model\): {n}, for example user=1"):
        evaluate(rows, labels, METRICS, model="model", **OPTIONS)
    if FULL_LENGTH:
        arrays = rows.groupBy("user", "model").agg(F.collect_list("item").alias("item"))
        with pytest.raises(DataError, match=r"null model \(model\): 1"):
            evaluate(arrays, labels, METRICS, model="model", relevance="grade")
    nobody = rows.withColumn("model", F.lit(None).cast("string"))
    with pytest.raises(InputError, match="names no model: every row is null"):
        evaluate(nobody, labels, METRICS, model="model", **OPTIONS)


def test_bad_rows_are_said_to_be_of_their_model(tables):
    tables, labels = tables
    popular = tables["popular"].where("user < 9")
    bad = {"als": tables["als"].where("user < 9"), "popular": popular.unionByName(popular.limit(2))}
    with pytest.raises(DataError, match=r"repeat an item of their user: 2 \(for example model 'popular': user="):
        evaluate(bad, labels, "rr@5", **OPTIONS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: {}, "predictions is an empty dict"),
        (lambda t: {**t, " ": t["als"]}, "a model's name must be a non-empty string"),
        (lambda t: {**t, 7: t["als"]}, "a model's name must be a non-empty string"),
        (lambda t: {**t, "x": t["als"].drop("score")}, "predictions of model 'x' has no column 'score'"),
        (lambda t: {**t, "x": t["als"].withColumn("item", F.col("item").cast("string"))}, "items have different types"),
        (lambda t: {**t, "x": "als"}, "predictions of 'x': there is no table als in the catalogue of this session"),
    ],
)
def test_models_that_cannot_be_read_are_errors(tables, change, message):
    tables, labels = tables
    with pytest.raises(InputError, match=message):
        evaluate(change(tables), labels, METRICS, **OPTIONS)
    with pytest.raises(InputError, match="predictions has no column 'which'"):
        evaluate(tables["als"], labels, METRICS, model="which", **OPTIONS)
