"""Several models in one pass, on the same users; and the names that were asked for, through storage to comparisons.

That each model has the figures that it has alone is in test_relations.py.
"""

import pytest
from chispa import assert_df_equality
from pyspark.sql import functions as F
from worlds.random_logs import random_logs

from spark_rankeval import compare, evaluate, score_users, summarise
from spark_rankeval.errors import DataError, InputError, UnknownMetricError
from spark_rankeval.request.call import COUNTS

METRICS = ["ndcg@5", "recall@3", "ap@5", "rr@5"]
OPTIONS = {"score": "score", "relevance": "grade"}
COLUMNS = ["ndcg_at_5", "recall_at_3", "ap_at_5", "rr_at_5", *COUNTS, "predictions_hash", "labels_hash"]


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


def one_table(tables, column):
    rows = None
    for name, table in tables.items():
        named = table.withColumn(column, F.lit(name))
        rows = named if rows is None else rows.unionByName(named)
    return rows


def test_a_result_of_models_is_asked_by_pairs(together):
    assert together.models == ["als", "popular", "random"]
    assert [row.model for row in together.summary] == [m for m in together.models for _ in METRICS]
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
    rows = one_table(tables, "which")
    by_column = evaluate(rows.repartition(5), labels, METRICS, model="which", **OPTIONS)
    assert (by_column.summary, by_column.qualities) == (together.summary, together.qualities)
    assert score_users(rows, labels, METRICS, model="which", **OPTIONS).columns == ["user", "which", *COLUMNS]


def test_the_table_of_users_is_long_in_the_order_in_which_models_were_named(tables, together):
    tables, labels = tables
    named = dict(reversed(tables.items()))
    table = score_users(named, labels, METRICS, **OPTIONS).persist()
    users = [each.select("user") for each in (*tables.values(), labels)]
    everyone = users[0].union(users[1]).union(users[2]).union(users[3]).distinct()
    assert table.columns == ["user", "model", *COLUMNS]
    assert table.count() == 3 * everyone.count()
    alone = score_users({"als": tables["als"]}, labels, METRICS, users=everyone, **OPTIONS).drop("users_hash")
    options = {"ignore_row_order": True, "allow_nan_equality": True, "ignore_metadata": True}
    assert_df_equality(table.where("model = 'als'"), alone, **options)
    expected = [row for model in named for row in together.summary if row.model == model]
    assert list(summarise(table).summary) == expected
    assert summarise(table.where("model != 'popular'")).models == ["random", "als"]
    table.unpersist()


@pytest.mark.ci
def test_models_that_come_as_arrays(tables, together):
    tables, labels = tables
    best = F.expr("transform(sort_array(collect_list(struct(-score as s, item)), true), x -> x.item)")
    arrays = {name: table.groupBy("user").agg(best.alias("item")) for name, table in tables.items()}
    assert evaluate(arrays, labels, METRICS, relevance="grade").summary == together.summary
    twice = {**arrays, "als": arrays["als"].unionByName(arrays["als"].where("user = 1"))}
    with pytest.raises(DataError, match="model 'als': user in several rows: 1"):
        evaluate(twice, labels, METRICS, relevance="grade")


def test_rows_of_no_model_and_bad_rows_of_a_model_are_errors(tables):
    tables, labels = tables
    rows = tables["als"].withColumn("model", F.when(F.col("user") == 1, None).otherwise(F.lit("als")))
    n = rows.where("model is null").count()
    assert n > 0
    with pytest.raises(DataError, match=rf"null model \(model\): {n}, for example user=1"):
        evaluate(rows, labels, METRICS, model="model", **OPTIONS)
    arrays = rows.groupBy("user", "model").agg(F.collect_list("item").alias("item"))
    with pytest.raises(DataError, match=r"null model \(model\): 1"):
        evaluate(arrays, labels, METRICS, model="model", relevance="grade")
    nobody = rows.withColumn("model", F.lit(None).cast("string"))
    with pytest.raises(InputError, match="names no model: every row is null"):
        evaluate(nobody, labels, METRICS, model="model", **OPTIONS)
    popular = tables["popular"].where("user < 9")
    bad = {"als": tables["als"].where("user < 9"), "popular": popular.unionByName(popular.limit(2))}
    with pytest.raises(DataError, match=r"repeat an item of their user: 2 \(model 'popular': 2, for example user="):
        evaluate(bad, labels, "rr@5", **OPTIONS)


@pytest.mark.ci
def test_names_asked_for_survive_storage_and_reach_comparisons(spark, tmp_path):
    predictions = spark.createDataFrame(
        [("ann", "a", 2.0, "x"), ("ann", "b", 1.0, "x"), ("ann", "b", 2.0, "y"), ("bob", "a", 2.0, "y")],
        "user string, item string, score double, model string",
    )
    labels = spark.createDataFrame([("ann", "b", "DE"), ("bob", "a", "FR")], "user string, item string, land string")
    path = str(tmp_path / "users")
    scored = score_users(predictions, labels, ["MAP@2", "ndcg@2"], score="score", model="model", by="land")
    scored.write.parquet(path)
    stored = spark.read.parquet(path)
    assert "ap_at_2" in stored.columns
    result = summarise(stored)
    compared = compare(stored, "x", by="land", replicates=9)
    for rows in (result.summary[:2], compared):
        assert [(row.metric, row.name) for row in rows] == [("ap@2", "MAP@2"), ("ndcg@2", "ndcg@2")]
    assert "MAP@2 and ndcg@2 rate" in repr(result)
    assert " on MAP@2 " in compared.sentences[0]
    assert "MAP@2 and ndcg@2 rate" in compared.notes[0]
    assert compared._differences().columns == ["user", "model", "map_at_2", "ndcg_at_2"]
    assert list(compared.with_slices(land=["FR"]).slices["slice"])[:2] == ["land=FR"] * 2
    assert repr(result.models_table(compared)).splitlines()[0].split() == ["model", "MAP@2", "ndcg@2"]
