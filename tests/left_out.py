"""Tests that are not for every platform, and why: each thing that classic Spark alone has has a probe, which a test tries."""

from pyspark import __version__


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
# The first Spark whose Connect has it, too; and of what is about Connect, the first whose client knows it.
ON_CONNECT_FROM = {"tuned_als": (4, 1), "progress": (4, 0), "ml": (4, 0)}


def reason_of(item):
    marker = item.get_closest_marker("classic_alone")
    if marker is None:
        return ", ".join(["about a Connect server", *item.get_closest_marker("connect_alone").args])
    (need,) = marker.args
    return f"{need} ({CLASSIC_ALONE[need][0]})"


def connect_has(need):
    """Whether the Connect of this Spark has what only classic Spark had once."""
    installed = tuple(int(part) for part in __version__.split(".")[:2])
    return need in ON_CONNECT_FROM and installed >= ON_CONNECT_FROM[need]


def is_left_out(item, platform):
    """Whether a test is not for a platform."""
    about_connect, marker = item.get_closest_marker("connect_alone"), item.get_closest_marker("classic_alone")
    if platform == "classic":
        return about_connect is not None
    needs = [need for marked in (about_connect, marker) if marked is not None for need in marked.args]
    return not all(map(connect_has, needs))
