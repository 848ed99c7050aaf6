"""Packed tables of items on their way to workers, and those that are too large."""

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from spark_rankeval import Facts, evaluate
from spark_rankeval.errors import EngineError
from spark_rankeval.spark import engine
from spark_rankeval.spark.engine import broadcast_tables, packed_together
from spark_rankeval.worker import process
from spark_rankeval.worker.process import unpacked


def test_the_first_row_of_each_partition_has_the_packed_table(spark):
    table = packed_together(spark.range(5).repartition(1))
    nothing = packed_together(spark.range(0).repartition(1))
    given = broadcast_tables(spark.range(0, 100, 1, 4).toDF("n"), {"table": table, "nothing": nothing})
    rows = given.withColumn("partition", F.spark_partition_id()).collect()
    assert len(rows) == 100
    with_table = [row for row in rows if row["table"] is not None]
    assert sorted((row["partition"], row["n"]) for row in with_table) == [(part, 25 * part) for part in range(4)]
    assert all(row["nothing"] is None for row in rows)
    assert unpacked(pa.scalar(bytes(with_table[0]["table"]), pa.binary()))["id"].to_pylist() == [0, 1, 2, 3, 4]


def test_tables_that_no_message_holds_are_refused_with_the_numbers(spark, monkeypatch):
    monkeypatch.setattr(process, "MOST_BYTES", 3000)
    monkeypatch.setattr(engine, "_MOST_BYTES", 3000)
    lists = spark.createDataFrame([("ann", 1, 2.0)], "user string, item long, score double")
    items = spark.range(1000).selectExpr("id AS item", "sha2(cast(id as string), 256) AS category")
    call = (lists, lists.select("user", "item"))
    with pytest.raises(
        EngineError, match=r"at least 1,000 rows take 0 MB\. 0 MB is the limit, some \d+ such rows\. Pass only"
    ):
        evaluate(*call, "diversity@3", score="score", facts=Facts(items=items))
    # Those that metrics do not read are not packed.
    assert evaluate(*call, "catalogue_coverage@1", score="score", facts=Facts(training=call[1], items=items)).summary


def test_vectors_of_floats_have_the_figures_of_the_same_numbers_as_doubles(spark):
    lists = spark.createDataFrame(
        [("ann", item, float(item)) for item in range(9)], "user string, item long, score double"
    )
    metrics = ["diversity(by=vector)@5", "serendipity(against=history)@5"]
    rows = "id AS item", "array(id / 7, 1 / (id + 3), -0.1D) AS vector"
    single = spark.range(7).selectExpr(*rows).withColumn("vector", F.col("vector").cast("array<float>"))
    found = [
        evaluate(lists, lists.select("user", "item"), metrics, score="score", facts=facts).to_dict()
        for items in (single, single.withColumn("vector", F.col("vector").cast("array<double>")))
        for facts in [Facts(items=items, training=lists.where("item < 4").select("user", "item"))]
    ]
    assert found[0] == found[1]
