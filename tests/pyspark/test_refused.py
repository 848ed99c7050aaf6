"""What Connect and serverless platforms refuse stands neither in the code nor in the plans, and no setting changes."""

import ast
import re
from pathlib import Path

import pytest
from helpers.effort import FULL_LENGTH
from helpers.plans import plan_of
from helpers.shuffles import shuffled_into
from worlds import fixed_users

from spark_rankeval import BCa, Facts, compare, evaluate, score_users, summarise

PACKAGE = Path(__file__).parents[2] / "spark_rankeval"
SOURCES = sorted(PACKAGE.rglob("*.py"))
#: Attributes of sessions, DataFrames and their parts that only classic Spark has, or that serverless platforms refuse.
REFUSED = {
    "rdd", "sparkContext", "_sc", "_jvm", "_jdf", "_jsc", "_jsparkSession", "_to_java_column",
    "accumulator", "broadcast", "parallelize", "addFile", "addPyFile", "setLogLevel", "setJobGroup", "setCheckpointDir",
    "cache", "persist", "unpersist", "checkpoint", "localCheckpoint", "cacheTable", "clearCache",
    "foreach", "foreachPartition", "mapPartitions", "toLocalIterator",
    "createTempView", "createOrReplaceTempView",
    "createGlobalTempView", "createOrReplaceGlobalTempView", "registerJavaFunction", "registerJavaUDAF", "_gateway",
}  # fmt: skip
#: Modules that are not there in a client of Connect, or are one platform's own.
REFUSED_MODULES = ("py4j", "pyspark.rdd", "pyspark.context", "pyspark.core", "pyspark.mllib", "pyspark.sql.connect",
                   "pyspark.sql.classic", "pyspark.accumulators", "pyspark.broadcast")  # fmt: skip
#: Classes that Connect of Spark 3.5 has again, as others: a method called on one of these, or an isinstance, takes classic tables alone.
CLASSIC_UNTIL_4 = {"DataFrame", "Column", "GroupedData", "DataFrameReader", "DataFrameWriter", "Observation", "Catalog"}
#: What is read of a session, each beside a default for platforms that do not tell; nothing is set.
SETTINGS_READ = {
    "spark.master", "spark.sql.caseSensitive", "spark.sql.shuffle.partitions", "spark.sql.sources.commitProtocolClass",
    "spark.ui.showConsoleProgress", "spark.log.level", "spark.sql.sources.default",
}  # fmt: skip
#: A plan and its size, which public methods only print; a platform that refuses this counts as one that tells no size.
READS_PLANS = {"spark/platforms.py"}
#: A job starts its own session where there is none, which is what a builder and its settings are for; so does who calls `local.session`.
STARTS_SESSIONS = {"jobs/session.py", "local.py"}
#: The driver of a job, which sets how much Spark logs, and writes to the stderr of spark-submit; on Connect it does neither.
SETS_THE_LOG = {"jobs/driver_log.py": ["_jvm"]}
#: The configuration of a job is a file of the driver's; a staging folder on the driver's disk is cleared, elsewhere emptied.
#: The package as a zip is one too, to be handed over, and so is a report, to be opened, what MLflow is given, and a log. What a run
#: wrote onto that disk is named, and removed when it is asked for no more; elsewhere Spark's names stay. The engine that
#: `local.session` starts reads tables of pandas from this disk.
FILES_OF_THE_DRIVER = {
    "jobs/command.py", "jobs/config.py", "jobs/logs.py", "jobs/outputs.py", "jobs/reporting.py", "jobs/session.py", "jobs/tracking.py",
    "local.py",
    "package.py", "report/contents.py", "spark/storage.py", "spark/python_workers.py", "tracking/plugin.py",
}  # fmt: skip


def refused(text, *, may_build=False, may_use_files=False, may_read_plans=False):
    """What in a program's text would not run everywhere."""
    found = []
    program = ast.parse(text)
    # What is for the type checker alone does not run.
    program.body = [node for node in program.body if ast.unparse(getattr(node, "test", node)) != "TYPE_CHECKING"]
    for node in ast.walk(program):
        if isinstance(node, ast.Attribute):
            owner = node.value.attr if isinstance(node.value, ast.Attribute) else ""
            if (node.attr in REFUSED and not (may_read_plans and node.attr == "_jdf")) or (
                owner == "conf" and node.attr != "get" and not may_build
            ):
                found.append(node.attr)
            if owner == "sql" and node.attr in CLASSIC_UNTIL_4:
                found.append(node.attr)
            if node.attr in ("builder", "getOrCreate", "master", "enableHiveSupport") and not may_build:
                found.append(node.attr)
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
            if str(node.module).startswith("pyspark.sql"):
                found += [alias.name for alias in node.names if alias.name in CLASSIC_UNTIL_4]
        found += [name for name in modules if f"{name}.".startswith(tuple(f"{one}." for one in REFUSED_MODULES))]
        if not may_use_files:
            found += [name for name in modules if name.partition(".")[0] in ("pathlib", "tempfile")]
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
                found.append("open")
        if isinstance(node, ast.Constant) and re.fullmatch(r"spark\.\w+\.[\w.]+", str(node.value)) and not may_build:
            found += {str(node.value)} - SETTINGS_READ
    return found


def test_the_package_uses_nothing_that_connect_or_serverless_refuses():
    for path in SOURCES:
        name = str(path.relative_to(PACKAGE))
        allowed = {
            "may_build": name in STARTS_SESSIONS,
            "may_use_files": name in FILES_OF_THE_DRIVER,
            "may_read_plans": name in READS_PLANS,
        }
        assert refused(path.read_text(), **allowed) == SETS_THE_LOG.get(name, []), name


@pytest.mark.parametrize(
    "line",
    [
        "frame.rdd.map(len)",
        "session.sparkContext",
        "frame._jdf.queryExecution()",
        "frame.cache()",
        "frame.select('a').persist()",
        "F._to_java_column(one)",
        "session.conf.set('spark.sql.ansi.enabled', 'false')",
        "session.conf.unset(name)",
        "session.conf.get('spark.executor.memory')",
        "SparkSession.builder.getOrCreate()",
        "from pyspark.sql.connect.dataframe import DataFrame",
        "from pyspark import rdd",
        "from pyspark.sql import DataFrame, SparkSession",
        "from pyspark.sql.column import Column",
        "def joined(frames):\n    from pyspark.sql import DataFrame\n    return reduce(DataFrame.union, frames)",
        "reduce(pyspark.sql.DataFrame.union, frames)",
        "import py4j.java_gateway",
        "open('x')",
        "import tempfile",
        "frame.createGlobalTempView('x')",
        "frame.createOrReplaceTempView('x')",
    ],
)
def test_what_is_refused_is_found(line):
    assert refused(line) != []
    assert (
        refused("frame.select('a').groupBy('a').count().collect(); session.conf.get('spark.sql.caseSensitive')") == []
    )


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


@pytest.mark.not_on_sail("plans")
@pytest.mark.parametrize("options", [{}, {"prune": "never"}, {"on_invalid": "drop"}, {"exclude": True}])
def test_plans_are_made_of_operators_that_every_platform_has(spark, options):
    predictions = spark.range(0, 400, 1, 4).selectExpr("id % 10 as user", "id div 10 as item", "id / 7 as score")
    labels = spark.range(0, 50, 1, 4).selectExpr("id % 10 as user", "id div 10 as item")
    if "exclude" in options:
        options = {"exclude": labels}
    with shuffled_into(spark, 4):
        found = operators(score_users(predictions, labels, ["ndcg@5", "rr@5"], score="score", **options))
    assert found <= OPERATORS
    assert {"Exchange", "Range"} < found


def settings(spark):
    return {row["key"]: row["value"] for row in spark.sql("SET").collect()}


@pytest.mark.not_on_sail("settings")
def test_no_setting_changes(spark, tmp_path):
    before = settings(spark)
    predictions, labels, attributes = fixed_users.tables(spark)
    asked = {"score": "score", "relevance": "grade"}
    result = evaluate(
        predictions, labels, ["ndcg@5"], model="model", by="country", facts=Facts(attributes=attributes), **asked
    )
    table = str(tmp_path / "per_user")
    result.write(table)
    if FULL_LENGTH:
        summarise(spark.read.parquet(table), ci=BCa(replicates=20))
    compare(spark.read.parquet(table), "old", replicates=99)
    assert settings(spark) == before
