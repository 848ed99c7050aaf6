"""The name that was asked for, through the tables of users on Spark to comparisons and reports of stored tables."""

from spark_rankeval import compare, score_users, summarise


def test_names_asked_for_survive_storage_and_reach_comparisons(spark, tmp_path):
    predictions = spark.createDataFrame(
        [("ann", "a", 2.0, "x"), ("ann", "b", 1.0, "x"), ("ann", "b", 2.0, "y"), ("bob", "a", 2.0, "y")],
        "user string, item string, score double, model string",
    )
    labels = spark.createDataFrame([("ann", "b", "DE"), ("bob", "a", "FR")], "user string, item string, land string")
    call = {"score": "score", "model": "model", "by": "land"}
    path = str(tmp_path / "users")
    score_users(predictions, labels, ["MAP@2", "ndcg@2"], **call).write.parquet(path)
    stored = spark.read.parquet(path)
    assert "ap_at_2" in stored.columns
    result = summarise(stored)
    assert [(row.metric, row.name) for row in result.summary[:2]] == [("ap@2", "MAP@2"), ("ndcg@2", "ndcg@2")]
    assert "MAP@2 and ndcg@2 rate" in repr(result)
    compared = compare(stored, "x", by="land", replicates=9)
    assert [(row.metric, row.name) for row in compared] == [("ap@2", "MAP@2"), ("ndcg@2", "ndcg@2")]
    assert " on MAP@2 " in compared.sentences[0]
    assert "MAP@2 and ndcg@2 rate" in compared.notes[0]
    assert compared._differences().columns == ["user", "model", "map_at_2", "ndcg_at_2"]
    assert list(compared.with_slices(land=["FR"]).slices["slice"])[:2] == ["land=FR"] * 2
    table = repr(result.models_table(compared)).splitlines()
    assert table[0].split() == ["model", "MAP@2", "ndcg@2"]
