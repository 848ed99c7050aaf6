"""What Connect and serverless platforms refuse stands neither in the code nor in the plans, and no setting changes."""

import ast
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.plans import plan_of
from helpers.shuffles import shuffled_into
from pyspark.errors import AnalysisException, PySparkException
from worlds import fixed_users

from spark_rankeval import BCa, Facts, compare, evaluate, score_users, summarise
from spark_rankeval.spark.engine import condition_of, setting

PACKAGE = Path(__file__).parents[2] / "spark_rankeval"
#: Attributes of sessions and DataFrames that serverless platforms refuse, and of which Sail and Connect have some.
REFUSED = {
    "rdd", "sparkContext", "accumulator", "broadcast", "parallelize", "addFile", "addPyFile", "setLogLevel", "setJobGroup",
    "setCheckpointDir", "cache", "persist", "unpersist", "checkpoint", "localCheckpoint", "cacheTable", "clearCache", "foreach",
    "foreachPartition", "mapPartitions", "toLocalIterator", "createTempView", "createOrReplaceTempView", "createGlobalTempView",
    "createOrReplaceGlobalTempView", "registerJavaFunction", "registerJavaUDAF",
}  # fmt: skip


def test_the_package_uses_nothing_that_serverless_platforms_refuse():
    """No platform of the tests refuses these; what Connect lacks is seen on Sail."""
    for path in PACKAGE.rglob("*.py"):
        names = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
        # A view lists types that only Sail gives to columns.
        names -= {"createTempView"} if path.name == "local_tables.py" else set()
        assert names & REFUSED == set(), path


# What the plans are made of, beside the reading of the caller's own tables; names of Spark 3.5 and 4.
OPERATORS = {
    "AdaptiveSparkPlan", "Exchange", "HashAggregate", "ObjectHashAggregate", "SortAggregate", "SortMergeJoin", "ShuffledHashJoin",
    "BroadcastHashJoin", "BroadcastExchange", "Sort", "Project", "Filter", "Union", "Window", "WindowGroupLimit", "MapInArrow",
    "PythonMapInArrow", "Range", "Generate", "Coalesce",
}  # fmt: skip


def operators(frame):
    lines = plan_of(frame).splitlines()
    named = [re.match(r"[\s:+*|-]*(?:\(\d+\) )?(\w+)", line) for line in lines if not line.startswith("==")]
    return {found[1] for found in named if found}


@pytest.mark.parametrize("options", [{}, {"on_invalid": "drop"}, {"exclude": True}], ids=repr)
def test_plans_are_made_of_operators_that_every_platform_has(spark, options):
    predictions = spark.range(0, 400, 1, 4).selectExpr("id % 10 as user", "id div 10 as item", "id / 7 as score")
    labels = spark.range(0, 50, 1, 4).selectExpr("id % 10 as user", "id div 10 as item")
    options = {"exclude": labels} if "exclude" in options else options
    with shuffled_into(spark, 4):
        found = operators(score_users(predictions, labels, ["ndcg@5", "rr@5"], score="score", **options))
    assert found <= OPERATORS
    assert {"Exchange", "Range"} < found


def settings(spark):
    return {row["key"]: row["value"] for row in spark.sql("SET").collect()}


@pytest.mark.ci
def test_no_setting_changes(spark, tmp_path):
    before = settings(spark)
    predictions, labels, attributes = fixed_users.tables(spark)
    asked = {"score": "score", "relevance": "grade"}
    result = evaluate(
        predictions, labels, ["ndcg@5"], model="model", by="country", facts=Facts(attributes=attributes), **asked
    )
    table = str(tmp_path / "per_user")
    result.write(table)
    summarise(spark.read.parquet(table), ci=BCa(replicates=20))
    compare(spark.read.parquet(table), "old", replicates=99)
    assert settings(spark) == before


CONDITIONS = {
    "[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03": "PATH_NOT_FOUND",
    "(org.apache.spark.sql.AnalysisException) [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column": "UNRESOLVED_COLUMN.WITH_SUGGESTION",
    "Path does not exist: [a]": None,
    "": None,
}


@pytest.mark.parametrize("kind", [PySparkException, AnalysisException])
def test_the_condition_of_an_error_that_has_nothing_but_a_message(kind):
    """As errors of the server have in a Connect client of 3.5."""
    assert {message: condition_of(kind(message)) for message in CONDITIONS} == CONDITIONS


def not_told(name, default):
    raise PySparkException(f"{name} is not available on serverless compute")


def test_a_setting_that_a_platform_does_not_tell_has_its_default():
    for get, told in (
        (lambda name, default: "4", "4"),
        (lambda name, default: default, "200"),
        (lambda name, default: None, "200"),
        (not_told, "200"),
    ):
        session = SimpleNamespace(conf=SimpleNamespace(get=get))
        assert setting(session, "spark.sql.shuffle.partitions", "200") == told
