"""One Spark session a test run, made when the first test asks for it."""

import os
import sys

import pytest


@pytest.fixture(scope="session")
def spark():
    from pyspark.sql import SparkSession

    # A worker is to run the interpreter of the tests, not the first python of the PATH.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        # Four attempts a task, as on a cluster; local[2] alone never retries.
        SparkSession.builder.master("local[2,4]")
        .appName("spark_rankeval tests")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
