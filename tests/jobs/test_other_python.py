"""Workers whose Python is another than the driver's, where a session is made without a job."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from helpers.processes import SUBMIT_OPTIONS

ROOT = Path(__file__).parents[2]
SCRIPT = """
from pyspark.sql import SparkSession
from spark_rankeval import evaluate
from spark_rankeval.errors import WorkerError

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
predictions = spark.createDataFrame([("ann", "tea", 0.9)], "user string, item string, score double")
try:
    evaluate(predictions, predictions.select("user", "item"), "rr", score="score")
except WorkerError as error:
    print(error)
"""


@pytest.mark.not_on_sail("workers")
def test_a_python_that_lacks_packages_is_named(tmp_path):
    venv.create(tmp_path / "bare", with_pip=False)
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env={
            **inherited,
            "PYSPARK_PYTHON": str(tmp_path / "bare/bin/python"),
            "PYTHONPATH": str(ROOT),
            "SPARK_SUBMIT_OPTS": SUBMIT_OPTIONS,
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    (line,) = done.stdout.splitlines()
    assert line.startswith("Spark's Python workers lack numpy, pandas, pyarrow. They run PYSPARK_PYTHON"), done.stderr
    assert "set os.environ['PYSPARK_PYTHON'] = sys.executable" in line
    # No worker was asked, of whom Spark would tell in a hundred lines.
    assert "Exception" not in done.stderr
