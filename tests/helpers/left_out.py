"""Tests that are not for every platform, and why: each thing that a platform lacks has a probe, which a test tries.

A probe gives 1 if the thing is there. If not, it raises an error or gives another value.
"""

import os
import tempfile

from helpers.plans import plan_of
from pyspark import __version__
from pyspark.errors import AnalysisException, PySparkException

from spark_rankeval.spark.engine import _unlogged


def tuned_als(spark):
    """Choose a rank with nothing of this project: how many errors were measured."""
    from pyspark.ml.evaluation import RegressionEvaluator
    from pyspark.ml.recommendation import ALS
    from pyspark.ml.tuning import TrainValidationSplit

    rows = [(user, item, float(user % 3 + item % 2), user % 2) for user in range(6) for item in range(5)]
    ratings = spark.createDataFrame(rows, "user int, item int, rating float, fold int")
    als = ALS(maxIter=1, userCol="user", itemCol="item", ratingCol="rating", numUserBlocks=1, numItemBlocks=1)
    errors = RegressionEvaluator(metricName="rmse", labelCol="rating")
    split = TrainValidationSplit(
        estimator=als, estimatorParamMaps=[{ALS.rank: 1}], evaluator=errors, trainRatio=0.8, seed=1
    )
    return len(split.fit(ratings).validationMetrics)


def ranked_by_spark(spark):
    """Evaluate one user with Spark's own evaluator: its precision."""
    from pyspark.ml.evaluation import RankingEvaluator

    user = spark.createDataFrame([([1.0], [1.0])], "prediction array<double>, label array<double>")
    return RankingEvaluator(metricName="precisionAtK", k=1).evaluate(user)


CLASSIC_ALONE = {
    "rdd": ("RankingMetrics takes an RDD", lambda spark: spark.range(1).rdd.count()),
    "jvm": ("the object is the JVM's own", lambda spark: spark.sparkContext._jvm.java.lang.Math.abs(-1)),
    "ml": ("a Connect client of PySpark 3.5 has nothing of pyspark.ml that is the JVM's", ranked_by_spark),
    "tuned_als": ("PySpark 4.0 tunes ALS in threads without a session", tuned_als),
}


def progress_reports(spark):
    """Run a query: whether the engine says how far it is."""
    reports = []

    def handler(**report):
        reports.extend(report["stages"])

    spark.registerProgressHandler(handler)
    try:
        # A short query can end before its first report.
        for _ in range(5):
            spark.range(1).collect()
            if reports:
                break
    finally:
        spark.removeProgressHandler(handler)
    return int(bool(reports))


def refused_random_join(spark):
    """Join by a random condition: whether the engine refuses it."""
    try:
        with _unlogged():
            _ = spark.sql("SELECT 1 FROM range(1) AS a JOIN range(1) AS b ON rand() > 0").schema
    except AnalysisException as error:
        return int("NON_DETERMINISTIC" in str(error))
    return 0


def workers_of_their_own(spark):
    """Ask a function in Python for its process: whether it is another one."""

    def process(batches):
        for batch in batches:
            yield batch.assign(id=os.getpid())

    return int(spark.range(1, numPartitions=1).mapInPandas(process, "id long").first().id != os.getpid())


def rows_of_orc(spark):
    """Write a row as ORC and count it."""
    with tempfile.TemporaryDirectory() as folder:
        spark.range(1).write.orc(f"{folder}/table")
        return spark.read.orc(f"{folder}/table").count()


def jdbc_refuses_options(spark):
    """Read from no database: whether it is the options that are refused."""
    try:
        _ = spark.read.format("jdbc").load().schema
    except PySparkException as error:
        return int("No data source found" not in str(error))
    return 0


def columns_above_a_table(spark):
    """Count the columns of folders of a table whose base path is a folder above."""
    with tempfile.TemporaryDirectory() as folder:
        spark.range(1).coalesce(1).write.json(f"{folder}/day=7")
        return len(spark.read.option("basePath", folder).json(f"{folder}/day=7").columns) - 1


def refused_delta(spark):
    """Read a table of Delta: whether the session does not know the format."""
    try:
        _ = spark.read.format("delta").load("/nowhere").schema
    except Exception as error:  # classic Spark has no class of its own for what the JVM raises
        return int("DATA_SOURCE_NOT_FOUND" in str(error))
    return 0


SAIL_LACKS = {
    "bytes": ("strings must be UTF-8", lambda spark: spark.sql("SELECT cast(X'ff' AS STRING) AS text").count()),
    "plans": ("the text of a plan is not Spark's", lambda spark: plan_of(spark.range(1)).count("Range (")),
    "random joins": ("random conditions of a join are not refused", refused_random_join),
    "progress": ("operations report no progress", progress_reports),
    "workers": ("functions in Python run in the process of the engine", workers_of_their_own),
    "jdbc": ("databases need a package of their own", jdbc_refuses_options),
    "orc": ("there is no such format", rows_of_orc),
    "foreign formats": ("delta and iceberg are there without a package", refused_delta),
    "basePath": ("columns of folders above a table are not read", columns_above_a_table),
}
NEEDS = CLASSIC_ALONE | SAIL_LACKS
# What only clients of Connect have.
OF_CLIENTS = {"progress"}
# The first Spark whose Connect has it, too; and of what is about Connect, the first whose client knows it.
ON_CONNECT_FROM = {"tuned_als": (4, 1), "progress": (4, 0), "ml": (4, 0)}


def _needs(item, *markers):
    return [need for name in markers for marker in item.iter_markers(name) for need in marker.args]


def reason_of(item):
    if needs := _needs(item, "sail_alone"):
        return f"about Sail in this process ({', '.join(needs)})"
    lacking = [f"{need} ({NEEDS[need][0]})" for need in _needs(item, "classic_alone", "not_on_sail")]
    return ", ".join(lacking or ["about a Connect server", *_needs(item, "connect_alone")])


def is_there(need, platform):
    """Whether a platform has what another lacks."""
    if platform != "connect":
        return platform == "classic" and need not in OF_CLIENTS
    installed = tuple(int(part) for part in __version__.split(".")[:2])
    first = ON_CONNECT_FROM.get(need)
    return need in SAIL_LACKS if first is None else installed >= first


def is_left_out(item, platform):
    """Whether a test is not for a platform."""
    if item.get_closest_marker("sail_alone") is not None:
        return platform != "sail"
    if platform == "classic":
        return item.get_closest_marker("connect_alone") is not None
    about = {"connect": ("connect_alone", "classic_alone"), "sail": ("not_on_sail", "classic_alone")}
    return not all(is_there(need, platform) for need in _needs(item, *about[platform]))
