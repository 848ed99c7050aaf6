"""Write the classes that Spark loads for an evaluation into an archive that the JVMs of the tests start from.

Java does this by itself (class data sharing): a JVM that is told `-XX:ArchiveClassesAtExit` writes all that it loaded when it ends.
"""

import os
import sys
from tempfile import TemporaryDirectory

from helpers.processes import CLASS_ARCHIVE, FIRST_COMPILER
from helpers.sessions import SETTINGS

OPTIONS = f"{FIRST_COMPILER} -XX:ArchiveClassesAtExit={CLASS_ARCHIVE}"


def main():
    CLASS_ARCHIVE.unlink(missing_ok=True)
    os.environ |= {"SPARK_SUBMIT_OPTS": OPTIONS, "PYSPARK_PYTHON": sys.executable}
    from pyspark.sql import SparkSession

    from spark_rankeval import BCa, Facts, compare, evaluate, summarise

    builder = SparkSession.builder.config("spark.ui.enabled", "false")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    predictions = spark.createDataFrame(
        [("ann", 1, 0.9), ("ann", 2, 0.8), ("bob", 1, 0.7)], "user string, item int, score double"
    )
    labels = spark.createDataFrame([("ann", 2), ("bob", 3)], "user string, item int")
    # With a job's settings and with the tests'.
    for adaptive in ("true", "false"):
        spark.conf.set("spark.sql.adaptive.enabled", adaptive)
        spark.conf.set("spark.sql.codegen.wholeStage", adaptive)
        result = evaluate(predictions, labels, ["ndcg@10", "gini@10"], score="score", facts=Facts(training=labels))
        result.per_user.count()
    with TemporaryDirectory() as folder:
        users = result.write(f"{folder}/users").per_user
        summarise(users, ci=BCa(replicates=20))
        compare({"one": users, "other": spark.read.parquet(f"{folder}/users")}, baseline="one", replicates=99)
    java = spark.sparkContext._gateway.proc
    spark.stop()
    # The JVM ends when nobody writes to it any more, and writes the archive then.
    spark.sparkContext._gateway.shutdown()
    java.stdin.close()
    java.wait(60)


if __name__ == "__main__":
    main()
