"""Python workers whose memory Spark caps: ordinary data pass, and what does not fit fails in words and spoils nothing."""

import pytest
from faults.evaluations import WAYS, figures_of
from faults.orders import within

from spark_rankeval import score_users, write_per_user

# Libraries and their threads reserve most of it as addresses.
MEGABYTES = 480
#: How long lists are that do not fit in batches as Spark makes them, and of how many users.
LENGTH, N_USERS = 10_000, 1200
#: As Python and numpy, Arrow, and the loader of libraries say it.
OUT_OF_MEMORY = "MemoryError|malloc of size|annot allocate memory|failed to map segment"
BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"


@pytest.fixture(scope="module")
def spark(session_on, undisturbed):
    with session_on(**{"spark.executor.pyspark.memory": f"{MEGABYTES}m"}) as running:
        yield running


@pytest.mark.parametrize("way", WAYS)
def test_ordinary_data_pass(way, spark, cluster, data, orders, undisturbed):
    orders.place_none()
    assert within(240, lambda: WAYS[way](spark, data), spark, cluster.executor_logs) == undisturbed[0][way]
    calls = orders.calls()
    assert {call["memory_limit"] for call in calls} == {MEGABYTES << 20}
    # Nobody died and was replaced.
    assert len({(call["stage"], call["partition"]) for call in calls}) == len({call["attempt"] for call in calls})


def long_lists(spark, n_users):
    """Every user's predictions and the one item wanted, near the end of the list."""
    users = spark.range(n_users, numPartitions=4)
    predictions = users.selectExpr("id AS user", f"sequence(1L, {LENGTH}L) AS item")
    labels = users.selectExpr("id AS user", f"array({LENGTH}L - id % 7) AS item")
    return score_users(predictions, labels, ["rr"])


def test_what_does_not_fit_says_so_and_fits_in_smaller_batches(spark, cluster, tmp_path):
    path = str(tmp_path / "per_user")
    write_per_user(long_lists(spark, 10), path)
    earlier = figures_of(spark.read.parquet(path))
    # One task has all users, and as many as Spark pleases in a batch.
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    spark.conf.set(BATCH, "10000")
    with pytest.raises(Exception, match=OUT_OF_MEMORY):
        within(240, lambda: write_per_user(long_lists(spark, N_USERS), path, "overwrite"), spark, cluster.executor_logs)
    assert figures_of(spark.read.parquet(path)) == earlier
    assert [one.name for one in tmp_path.iterdir() if not one.name.startswith("_")] == ["per_user"]
    spark.conf.set(BATCH, "50")
    within(240, lambda: write_per_user(long_lists(spark, N_USERS), path, "overwrite"), spark, cluster.executor_logs)
    rows = spark.read.parquet(path).select("user", "rr").collect()
    assert {row.user: row.rr for row in rows} == {user: 1 / (LENGTH - user % 7) for user in range(N_USERS)}
