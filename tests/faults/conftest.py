"""A standalone cluster whose executors look for orders to break, and sessions on it in this process."""

import os
import sys
from contextlib import contextmanager

import pytest
from faults.evaluations import PLAN, WAYS, stored, stored_in, write_data
from faults.orders import Orders
from helpers.cluster import standalone_cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    with standalone_cluster(tmp_path_factory.mktemp("cluster"), workers=2) as running:
        yield running


@pytest.fixture(scope="session")
def orders(tmp_path_factory):
    placed = Orders(tmp_path_factory.mktemp("orders"))
    placed.place_none()
    return placed


@pytest.fixture(scope="session")
def session_on(cluster, orders):
    """Makes a session on the cluster whose executors look for orders, with settings of one's own."""

    @contextmanager
    def session(**settings):
        from pyspark.sql import SparkSession

        # A worker is to run the interpreter of the tests, not the first python of the PATH.
        os.environ["PYSPARK_PYTHON"] = sys.executable
        told = {
            "spark.master": cluster.url, "spark.app.name": "spark_rankeval faults", "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1", "spark.executor.memory": "512m", "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false", **PLAN, **orders.on_executors, **settings,
        }  # fmt: skip
        builder = SparkSession.builder
        for key, value in told.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        try:
            yield spark
        finally:
            spark.stop()

    return session


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A folder with the data, where `undisturbed` stores the per-user table."""
    folder = tmp_path_factory.mktemp("data")
    write_data(folder)
    return folder


@pytest.fixture(scope="session")
def undisturbed(session_on, data, orders):
    """The figures of every way without a fault, in as many tasks as with one; and the calls of the places of faults."""
    orders.place_none()
    with session_on() as spark:
        stored(spark, data, stored_in(data))
        return {name: way(spark, data) for name, way in WAYS.items()}, orders.calls()
