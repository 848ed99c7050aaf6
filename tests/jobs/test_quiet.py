"""What stands on the screen of somebody who evaluates and writes: what was asked for, and what Spark says of its start."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.processes import SUBMIT_OPTIONS

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
from pyspark.sql import SparkSession
from spark_rankeval import evaluate, metrics_column

settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "1"}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
predictions = spark.createDataFrame([("ann", "tea", 0.9)], "user string, item string, score double")
arrays = spark.createDataFrame([(["tea"], ["tea"])], "predictions array<string>, labels array<string>")
print("started", file=sys.stderr, flush=True)
result = evaluate(predictions, predictions.select("user", "item"), "rr", score="score")
assert result.write("users")["rr"] == 1
arrays.select(metrics_column("predictions", "labels", "rr").alias("metrics")).collect()
print("done", file=sys.stderr, flush=True)
"""


@pytest.mark.not_on_sail("jvm")
@pytest.mark.night
def test_nothing_but_what_was_asked_for_is_on_the_screen(tmp_path):
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
    done = subprocess.run(
        [sys.executable, "-W", "always::FutureWarning", "-c", SCRIPT],
        cwd=tmp_path,
        env={
            **inherited,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "always::FutureWarning",
            "SPARK_SUBMIT_OPTS": SUBMIT_OPTIONS,
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    _, _, after_start = done.stderr.partition("started\n")
    assert after_start.partition("done\n")[0] == ""
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["users"]
