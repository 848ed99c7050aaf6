"""The sessions that the tests run in: classic Spark in this process, or Spark Connect to a server in its own."""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from contextlib import contextmanager
from pathlib import Path

from helpers.processes import SUBMIT_OPTIONS, SparkProcess, free_port

from spark_rankeval import package_zip

PLATFORMS = ("classic", "connect", "sail")

# What a test costs is the way of a few rows through Spark, so that Spark does no more with them than it must: one task at a time in one
# partition, no plan that changes while it runs, no code that is made and compiled for one query. Four files took 98 s with Spark's own
# settings and 70 s with these. Tests about partitions, plans and retries set their own; jobs in processes of their own and the fuzz run
# with Spark's.
SETTINGS = {
    # Four attempts a task, as on a cluster; local[1] alone never retries.
    "spark.master": "local[1,4]", "spark.app.name": "spark_rankeval tests", "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1", "spark.driver.memory": "2g", "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1", "spark.default.parallelism": "1", "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Spark's own check of its plans after every rule.
    "spark.sql.lightweightPlanChangeValidation": "false", "spark.ui.showConsoleProgress": "false",
}  # fmt: skip


@contextmanager
def session_of(platform):
    """The session of a test run, and a function that says how many actions ran so far: jobs, or the plans of an engine without jobs."""
    with {"classic": _classic, "connect": _connect, "sail": _sail}[platform]() as both:
        yield both


def _remember_names():
    """Let py4j ask the JVM once what a name is.

    It asks at every use, and for each package and wildcard import Java looks through all of Spark's jars. In a profile of a run with
    pyspark.ml two fifths of the time of the thread that makes and plans queries went there.
    """
    from py4j.java_gateway import JavaPackage, JVMView

    for names in (JVMView, JavaPackage):
        names.__getattr__ = _once(names.__getattr__)


def _once(ask):
    def remembered(names, name):
        # Python asks `__getattr__` only for what the object does not have yet.
        return vars(names).setdefault(name, ask(names, name))

    return remembered


@contextmanager
def _classic():
    from pyspark.sql import SparkSession

    _remember_names()
    # A worker is to run the interpreter of the tests, not the first python of the PATH.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_SUBMIT_OPTS"] = SUBMIT_OPTIONS
    builder = SparkSession.builder.config("spark.ui.enabled", "false")
    # From Spark 4.1 on a task of a few rows waits less; through a socket of the network Connect's server has them.
    builder = builder.config("spark.python.unix.domain.socket.enabled", "true")
    # Else PySpark asks the JVM several things more at every call, to say in an error where in Python a column was made.
    builder = builder.config("spark.python.sql.dataFrameDebugging.enabled", "false")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    # Else Spark walks the stack for each RDD that it makes, to name the line of code. It took a tenth of the time to make plans.
    for form in ("callSite.short", "callSite.long"):
        spark.sparkContext.setLocalProperty(form, "a test")

    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    yield spark, scheduler.numTotalJobs
    gateway = spark.sparkContext._gateway
    spark.stop()
    # The JVM ends when nobody writes to it any more. Only who waits for it learns its CPU time.
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(60)


def _server_python():
    """The interpreter whose pyspark is the server: that of the tests, or another, as the pip package of 3.5 has no server."""
    return os.environ.get("CONNECT_SERVER_PYTHON", sys.executable)


def _spark_home(python):
    program = "import pyspark; print(pyspark.__path__[0])"
    return Path(subprocess.run([python, "-c", program], capture_output=True, text=True, check=True).stdout.strip())


@contextmanager
def connect_server(folder, **settings):
    """A Connect server whose Python has what Spark needs and not this package; gives its port and that of its web page."""
    python = _server_python()
    port, page = free_port(), free_port()
    told = {
        **SETTINGS, "spark.connect.grpc.binding.port": str(port), "spark.connect.grpc.binding.address": "127.0.0.1",
        # Its REST interface says which jobs ran; a client of Connect cannot ask otherwise.
        "spark.ui.enabled": "true", "spark.ui.port": str(page), **settings,
    }  # fmt: skip
    arguments = [word for key, value in told.items() for word in ("--conf", f"{key}={value}")]
    # What sbin/start-connect-server.sh runs in the background, in the foreground: its process id is known then.
    server = SparkProcess(
        "spark-submit", *arguments, "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        log=f"{folder}/connect-server.log", cwd=folder, home=_spark_home(python), PYSPARK_PYTHON=python,
    )  # fmt: skip
    try:
        server.wait_for(lambda: server.listens(port))
        yield port, page
    finally:
        server.stop()


@contextmanager
def _connect():
    from pyspark.sql import SparkSession

    with tempfile.TemporaryDirectory() as folder, connect_server(folder) as (port, page):
        url = f"sc://127.0.0.1:{port}"
        # Programs under test, such as the README's first, ask for the session of the place.
        os.environ["SPARK_REMOTE"] = url
        spark = SparkSession.builder.remote(url).getOrCreate()
        # The server's Python does not have the package: it travels, as for any client of Connect.
        spark.addArtifacts(package_zip(folder), pyfile=True)
        try:
            yield spark, _JobsOfServer(spark, page)
        finally:
            spark.stop()
            del os.environ["SPARK_REMOTE"]


class _JobsOfServer:
    """Counts the jobs that ran on the server, without those that count."""

    def __init__(self, spark, page):
        self._spark, self._api = spark, f"http://127.0.0.1:{page}/api/v1/applications"
        self._n_marks = 0

    def __call__(self):
        self._n_marks += 1
        return self._mark() - self._n_marks

    def _mark(self):
        """Run a job that is known by its tag, and give its number; jobs are counted in the order in which they start."""
        tag = f"mark-{uuid.uuid4().hex}"
        self._spark.addTag(tag)
        try:
            self._spark.range(1, numPartitions=1).collect()
        finally:
            self._spark.removeTag(tag)
        until = time.monotonic() + 20
        while time.monotonic() < until:
            (application,) = self._get("")
            for job in self._get(f"/{application['id']}/jobs"):
                if any(tag in one for one in job["jobTags"]):
                    return job["jobId"]
            time.sleep(0.05)
        msg = "the server does not say that its job ran"
        raise RuntimeError(msg)

    def _get(self, path):
        with urllib.request.urlopen(self._api + path, timeout=10) as answer:
            return json.load(answer)


def _plans_of(spark):
    """A function that counts the plans that an engine without jobs has run."""
    from spark_rankeval.spark.engine import engine_of

    # Which engine it is, is asked once a session.
    engine_of(spark)
    client, plans = type(spark.client), []
    for name in ("_execute", "_execute_and_fetch_as_iterator"):
        setattr(client, name, _counted(getattr(client, name), plans))
    return plans.__len__


def _counted(run, plans):
    def running(*arguments, **options):
        plans.append(run)
        return run(*arguments, **options)

    return running


@contextmanager
def _sail():
    """Sail in this process: an engine that speaks the protocol of Spark Connect, without a JVM."""
    from spark_rankeval.local import session

    spark = session()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        yield spark, _plans_of(spark)
    finally:
        spark.stop()
