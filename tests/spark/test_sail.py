"""What only Sail has or gets wrong: Delta and Iceberg without another package, metadata that is lost, panics."""

import re
from datetime import UTC, datetime

import pytest
from helpers.plans import plan_of
from helpers.shuffles import shuffled_into
from pyspark.errors import PythonException
from pyspark.sql import functions as F

from spark_rankeval import Vectors, compare, evaluate, history, score_users, summarise
from spark_rankeval.errors import EngineError, InputError, SparkRankEvalWarning
from spark_rankeval.spark import engine
from spark_rankeval.spark.engine import run_on_workers

pytestmark = pytest.mark.sail_alone("its defects and formats")

METRICS = ["ndcg@2", "rr"]
COLUMNS = {"score": "score", "relevance": "grade", "model": "model"}


@pytest.fixture(scope="module")
def tables(spark):
    predictions = [(1, 1, 0.5, "m"), (1, 2, 0.4, "m"), (2, 3, 0.6, "m"), (1, 2, 0.9, "n"), (2, 4, 0.1, "n")]
    labels = [(1, 1, 1.0), (1, 2, 3.0), (2, 3, 1.0), (3, 1, 1.0)]
    return (
        spark.createDataFrame(predictions, "user long, item long, score double, model string"),
        spark.createDataFrame(labels, "user long, item long, grade double"),
    )


@pytest.fixture(scope="module")
def result(tables):
    return evaluate(*tables, METRICS, **COLUMNS)


@pytest.fixture(scope="module", params=["delta", "iceberg"])
def storage(request, spark, tables, result, tmp_path_factory):
    """A format, what reads a table of it, and what writes one; it has the log and the users' values."""
    folder = tmp_path_factory.mktemp(request.param)

    def read(name):
        return spark.read.format(request.param).load(f"{folder}/{name}")

    def write(table, name, mode="error"):
        table.write.format(request.param).mode(mode).save(f"{folder}/{name}")

    for table, name in zip((*tables, result.per_user), ("predictions", "labels", "per_user"), strict=True):
        write(table, name)
    return request.param, read, write


@pytest.mark.ci
def test_logs_and_values_of_users_in_delta_and_iceberg_are_read_back_and_iceberg_loses_marks(storage, result):
    kind, read, _ = storage
    again = evaluate(read("predictions"), read("labels"), METRICS, **COLUMNS)
    assert (again.summary, again.data_quality) == (result.summary, result.data_quality)
    options = {}
    if kind == "delta":
        assert summarise(read("per_user")).summary == result.summary
    else:
        options = {"user": "user", "model": "model"}
        with pytest.warns(SparkRankEvalWarning, match=r"lost its metadata; .* ndcg_at_2, rr.*Iceberg never"):
            stored = summarise(read("per_user"), model="model")
        assert [row.mean for row in stored.summary] == [row.mean for row in result.summary]
        with pytest.raises(InputError, match=r"pass user=\. On Sail, Parquet keeps it with option"):
            compare(read("per_user"), "m", model="model")
    rows, expected = (
        compare(table, "m", replicates=9, **more) for table, more in ((read("per_user"), options), (result, {}))
    )
    assert [(row.difference, row.interval_low, row.p) for row in rows] == [
        (row.difference, row.interval_low, row.p) for row in expected
    ]


@pytest.mark.ci
def test_tables_in_delta_and_iceberg_are_appended_to_and_replaced(storage, spark, result):
    _, read, write = storage
    whole = result.per_user
    for model, mode in (("m", "error"), ("n", "append")):
        write(whole.where(f"model = '{model}'"), "parts", mode)
    assert sorted(map(repr, read("parts").collect())) == sorted(map(repr, whole.collect()))
    write(whole.where("user = 1"), "parts", "overwrite")
    assert read("parts").count() == 2
    for day in (16, 17):
        metrics = result.to_stored(datetime(2026, 11, day, tzinfo=UTC))
        write(metrics.select("*", F.lit(f"run {day}").alias("run_id")), "history", "append")
    assert list(history(read("history")).runs) == ["run 16", "run 17"]


def test_parquet_keeps_the_marks_of_columns_with_an_option(spark, result, tmp_path):
    """Servers that others start leave out metadata."""
    path = str(tmp_path / "users")
    result.per_user.write.parquet(path)
    with pytest.warns(SparkRankEvalWarning, match=r"option\('skip_metadata', 'false'\)"):
        summarise(spark.read.option("skip_metadata", "true").parquet(path), model="model")
    assert summarise(spark.read.option("skip_metadata", "false").parquet(path)).summary == result.summary


def test_lists_are_built_of_whole_rows(spark):
    """Sail would build parts of lists and put them together again."""
    rows = spark.range(0, 400, 1, 4).selectExpr("id % 100 as user", "id div 100 as item", "hash(id) as score")
    with shuffled_into(spark, 4):
        words = plan_of(score_users(rows, rows.drop("score"), "precision@1", score="score"))
    assert not re.search(r"mode=Partial|partial_collect_list", words)


def test_tables_that_no_message_holds_are_refused(spark, monkeypatch):
    vectors = [
        spark.createDataFrame([(1, [0.5, 1.0])], f"{name} long, vector array<double>") for name in ("user", "item")
    ]
    monkeypatch.setattr(engine, "_MOST_BYTES", 100)
    with pytest.raises(
        EngineError, match=r"^the vectors, facts and groups of the items take more than 120 MB together.* shards="
    ):
        evaluate(
            Vectors(*vectors), vectors[0].withColumnRenamed("user", "item").selectExpr("item", "item AS user"), "rr"
        )


def test_a_panic_of_the_engine_is_an_error(spark):
    """Sail takes it for the end of the rows that a function gives."""
    nulls = spark.createDataFrame([(None,)] * 3, "x double")
    hashes = nulls.selectExpr("xxhash64(CASE WHEN x IS NOT NULL THEN struct(x) END) AS hash")
    assert hashes.mapInArrow(lambda batches: batches, hashes.schema).count() == 0
    with pytest.raises(PythonException, match="the engine panicked while it computed rows"):
        run_on_workers(hashes, lambda batches: batches, hashes.schema).collect()


def test_a_response_that_does_not_parse_is_asked_for_again(spark, monkeypatch):
    import grpc

    class Unreadable(grpc.RpcError):
        def code(self):
            return grpc.StatusCode.INTERNAL

        def details(self):
            return "Exception deserializing response!"

        def trailing_metadata(self):
            return ()

        __str__ = details

    stub, n_asked = spark.client._stub, []
    analyze = stub.AnalyzePlan

    def once_unreadable(*args, **options):
        n_asked.append(1)
        if len(n_asked) == 1:
            raise Unreadable
        return analyze(*args, **options)

    monkeypatch.setattr(stub, "AnalyzePlan", once_unreadable)
    assert spark.range(3).columns == ["id"]
    assert len(n_asked) == 2
