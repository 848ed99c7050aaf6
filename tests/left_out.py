"""What only classic Spark has, for tests that compare with it: each need has a probe, which a test tries on every platform."""

CLASSIC_ALONE = {
    "rdd": ("RankingMetrics takes an RDD", lambda spark: spark.range(1).rdd.count()),
    "jvm": ("the object is the JVM's own", lambda spark: spark.sparkContext._jvm.java.lang.Math.abs(-1)),
}


def reason_of(item):
    (need,) = item.get_closest_marker("classic_alone").args
    return f"{need} ({CLASSIC_ALONE[need][0]})"
