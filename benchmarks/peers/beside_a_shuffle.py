"""What the scripts of evaluators on Spark have in common: a session, the bare shuffle as the floor, and how they tell times."""

import json
import os
import sys
import time

CUTOFFS = (1, 3, 5, 10, 20)


def run(name, twenty_values, one_value):
    """Time the shuffle and 20 values: 4 metrics at 5 cutoffs. Called as: script FOLDER PARTITIONS HEAP CORES.

    Args:
        name: of the package.
        twenty_values: function of predictions and labels, frames of user, item, score and user, item, rating.
        one_value: the same of one value, to warm up with.
    """
    folder, partitions, heap, cores = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from importlib.metadata import version

    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.driver.memory", heap)
        .config("spark.sql.shuffle.partitions", str(partitions))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    predictions = spark.read.parquet(f"{folder}/predictions")
    labels = spark.read.parquet(f"{folder}/labels").withColumn("rating", F.lit(1.0))

    def shuffle():
        right = labels.select("user", "item", F.lit(None).cast("double").alias("score"))
        both = predictions.repartition(partitions, "user").unionByName(right.repartition(partitions, "user"))
        both.write.format("noop").mode("overwrite").save()

    floor = [seconds(shuffle) for _ in range(5)]
    one = seconds(lambda: one_value(predictions, labels))
    twenty = seconds(lambda: twenty_values(predictions, labels))
    spark.stop()
    figures = {"package": f"{name} {version(name)}", "shuffle": min(floor), "one": one, "twenty": twenty}
    print(json.dumps(figures))


def seconds(work):
    """How long it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
