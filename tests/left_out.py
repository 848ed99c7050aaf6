"""Tests that are not for every platform, and why: each thing that classic Spark alone has has a probe, which a test tries."""

CLASSIC_ALONE = {
    "rdd": ("RankingMetrics takes an RDD", lambda spark: spark.range(1).rdd.count()),
    "jvm": ("the object is the JVM's own", lambda spark: spark.sparkContext._jvm.java.lang.Math.abs(-1)),
}


def reason_of(item):
    marker = item.get_closest_marker("classic_alone")
    if marker is None:
        return "about a Connect server"
    (need,) = marker.args
    return f"{need} ({CLASSIC_ALONE[need][0]})"
