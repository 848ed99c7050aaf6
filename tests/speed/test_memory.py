"""What a Python worker takes at most, read from the processes that Spark starts. `make test-speed`."""

import math

import pytest
from pyspark.sql import functions as F

from benchmarks.worker_memory import PeakOfWorkers
from spark_rankeval import Facts, evaluate, score_users

# A worker's share, MB; a batch is worked in slices, whatever Spark puts into it.
ENOUGH = 400
METRICS = [
    f"{name}@{k}" for name in ("precision", "recall", "ndcg", "ap", "rr", "hit_rate") for k in (5, 10, 20, 50, 100)
]


@pytest.fixture(params=[(200, 10_000), (40_000, 50)], ids=["lists of 10,000", "lists of 50"])
def tables(spark, request):
    n_users, n_predictions = request.param
    predictions = spark.range(n_users * n_predictions).select(
        (F.col("id") % n_users).alias("user"), F.col("id").alias("item"), (F.xxhash64("id") / 2.0**63).alias("score")
    )
    labels = spark.range(n_users * 10).select((F.col("id") % n_users).alias("user"), F.col("id").alias("item"))
    return predictions, labels, n_users


def test_a_worker_takes_little(tables):
    predictions, labels, n_users = tables
    with PeakOfWorkers() as peak:
        result = evaluate(predictions, labels, METRICS, score="score")
        assert result.to_pandas()["n_users"].tolist() == [n_users] * len(METRICS)
        score_users(predictions, labels, METRICS, score="score").write.format("noop").mode("overwrite").save()
    assert peak.megabytes is not None, "there is no /proc here: run this on Linux"
    # A worker that imports numpy, pandas and pyarrow takes some fifty: what is read is a worker's.
    assert 40 < peak.megabytes <= ENOUGH


def test_a_worker_takes_little_to_count_a_million_items_in_slices(spark):
    n_users, n_predictions, n_items = 200_000, 20, 1_000_000
    user, rank = F.col("id") % n_users, F.floor(F.col("id") / n_users)
    predictions = spark.range(n_users * n_predictions).select(
        user.alias("user"), ((user * n_predictions + rank) % n_items).alias("item"), (-rank).alias("score")
    )
    labels = spark.range(n_users).select(F.col("id").alias("user"), F.col("id").alias("item"))
    countries = spark.range(n_users).selectExpr("id AS user", "concat('country ', id % 5) AS country")
    metrics = ["entropy@10", "gini(among='recommended')@20", "entropy@20"]
    with PeakOfWorkers() as peak:
        result = evaluate(predictions, labels, metrics, score="score", by="country", facts=Facts(attributes=countries))
    # Four users have each list, of one country.
    values = {(row.metric, row.slice): row.mean for row in result.summary}
    assert values["entropy@20", "all"] == pytest.approx(math.log2(n_items))
    assert values["entropy@10", "country=country 3"] == pytest.approx(math.log2(n_items / 10))
    assert values["gini(among='recommended')@20", "all"] == 0
    assert 40 < peak.megabytes <= ENOUGH


def test_what_takes_more_is_seen(spark):
    def greedy(batches):
        hoard = bytearray(b"1" * 300_000_000)
        for batch in batches:
            hoard[0] = 1
            yield batch

    with PeakOfWorkers() as peak:
        spark.range(10).mapInArrow(greedy, "id long").count()
    assert peak.megabytes > 300
