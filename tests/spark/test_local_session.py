"""The engine that local.session() starts, in processes of their own: it starts once, survives Ctrl-C, and ends without noise."""

import os
import subprocess
import sys

import pytest

ONCE = """
import os, tempfile, threading
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from spark_rankeval.errors import EngineError
from spark_rankeval.local import session

spark = session(cores=2, memory="1g")
print(spark.range(3).count(), spark.conf.get("spark.sql.session.timeZone"), os.environ.get("SAIL_PARQUET__SKIP_METADATA"))
print(session() is session(cores=2, memory="1g") is SparkSession.builder.getOrCreate() is spark)
thread = threading.Thread(target=lambda: print(session() is spark, spark.range(4).count()))
thread.start()
thread.join()
for arguments in ({"cores": 3}, {"memory": "2g"}):
    try:
        session(**arguments)
    except EngineError as error:
        print(str(error)[:44])
spark.stop()
# Nothing gives another session of the same engine.
print([name for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED") if name in os.environ], spark.is_stopped)
try:
    SparkSession.builder.getOrCreate()
except PySparkException as error:
    print("spark.remote" in str(error).lower() or "CONNECT_URL_NOT_SET" in str(error))
again = session(cores=1)
spark.stop()
print(again is spark, again.range(5).count())
type(again).stop(again)
other = SparkSession.builder.getOrCreate()
try:
    session()
except EngineError as error:
    print(str(error)[:43], other.range(6).count())
other.stop()
spark = session(cores=2)
print(spark.range(7).count())
# Parquet reads NaN as NaN, and not as the column's other value.
with tempfile.TemporaryDirectory() as folder:
    spark.createDataFrame([(1.5,), (float("nan"),)], "x double").coalesce(1).write.mode("append").parquet(folder)
    print([row.x for row in spark.read.parquet(folder).collect()])
"""
INTERRUPTED = """
import contextlib, os, signal, threading
from spark_rankeval.local import session

# A shell starts what runs in the background with this signal ignored. The engine must leave Python's handler as it was.
signal.signal(signal.SIGINT, signal.default_int_handler)
spark = session()
endless = "SELECT count(*) FROM range(100000000000) WHERE id * id % 7 = 3"
threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    spark.sql(endless).collect()
except KeyboardInterrupt:
    print(spark.range(3).count(), spark.conf.get("spark.sql.session.timeZone"))
def run():
    with contextlib.suppress(Exception):
        spark.sql(endless).collect()
threading.Thread(target=run, daemon=True).start()
raise SystemExit("ends while a query runs")
"""
SMALL = """
import gc, os
import pyarrow as pa
from spark_rankeval import score_users
from spark_rankeval.errors import EngineError, OptionError
from spark_rankeval.local import session

spark = session(memory=80 << 20)
numbers = spark.range(4_000_000).selectExpr("id", "hash(id) AS other")
print(numbers.orderBy("other").selectExpr("sum(id) OVER (ORDER BY other) AS s").count())
try:
    numbers.join(numbers.selectExpr("other", "id AS twin"), "other").count()
except Exception as error:
    print("Failed to allocate" in str(error))
table = score_users(pa.table({"user": [1], "item": [2], "score": [0.5]}), pa.table({"user": [1], "item": [2]}), "rr", score="score")
child = os.fork()
if child == 0:
    try:
        session()
    except EngineError as error:
        print(str(error)[:32], flush=True)
    # What the fork drops, its parent still needs.
    del table
    gc.collect()
    os._exit(0)
os.waitpid(child, 0)
print(table.collect()[0]["rr"])
"""
PROGRAMS = {
    "once": (
        ONCE,
        0,
        [
            "3 Europe/Berlin None",
            "True",
            "True 4",
            *["the engine runs with cores=2 and memory='1g'"] * 2,
            "[] True",
            "True",
            "False 5",
            "a session of Spark Connect is active, and a 6",
            "7",
            "[1.5, nan]",
        ],
        "",
    ),
    "interrupted": (INTERRUPTED, 1, ["3 Europe/Berlin"], "ends while a query runs"),
    "small": (SMALL, 0, ["4000000", "True", "this process was forked from one", "1.0"], ""),
}


@pytest.mark.sail_alone("its process")
# A process of little memory sorts four million rows.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.night if name == "small" else pytest.mark.ci) for name in PROGRAMS]
)
def test_a_process_has_one_engine(name):
    program, code, lines, noise = PROGRAMS[name]
    settings = {key: value for key, value in os.environ.items() if not key.startswith(("SAIL_", "RUST_", "SPARK_"))}
    # A program without a file, as of python -c.
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=30,
        env=settings | {"TZ": "Europe/Berlin", "GRPC_VERBOSITY": "ERROR"},
        check=False,
    )
    assert (done.returncode, done.stderr.strip()) == (code, noise)
    assert done.stdout.splitlines() == lines
