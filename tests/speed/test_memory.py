"""What a Python worker takes at most, read from the processes that Spark starts. `make test-speed`."""

import pytest
from pyspark.sql import functions as F

from benchmarks.worker_memory import PeakOfWorkers
from spark_rankeval import evaluate, score_users

# A worker's share, MB; a batch is worked in slices, whatever Spark puts into it.
ENOUGH = 400
METRICS = [
    f"{name}@{k}" for name in ("precision", "recall", "ndcg", "ap", "rr", "hit_rate") for k in (5, 10, 20, 50, 100)
]


@pytest.fixture(params=[(200, 10_000), (40_000, 50)], ids=["lists of 10,000", "lists of 50"])
def tables(spark, request):
    n_users, n_predictions = request.param
    predictions = spark.range(n_users * n_predictions).select(
        (F.col("id") % n_users).alias("user"), F.col("id").alias("item"), F.rand(7).alias("score")
    )
    labels = spark.range(n_users * 10).select((F.col("id") % n_users).alias("user"), F.col("id").alias("item"))
    return predictions, labels, n_users


def test_a_worker_takes_little(tables):
    predictions, labels, n_users = tables
    with PeakOfWorkers() as peak:
        result = evaluate(predictions, labels, METRICS, score="score", prune="never")
        assert result.to_pandas()["n_users"].tolist() == [n_users] * len(METRICS)
        score_users(predictions, labels, METRICS, score="score", prune="never").write.format("noop").mode(
            "overwrite"
        ).save()
    assert peak.megabytes is not None, "there is no /proc here: run this on Linux"
    # A worker that imports numpy, pandas and pyarrow takes some fifty: what is read is a worker's.
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
