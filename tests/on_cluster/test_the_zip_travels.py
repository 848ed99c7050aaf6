"""A cluster whose Python has only what executors need: the package comes as a zip, and the numbers are those of everywhere."""

import importlib.util
import json
import math
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pyspark
import pytest
from helpers.cluster import DRIVER, OF_EXECUTORS, bare_python, installed_in, standalone_cluster
from helpers.processes import plain_environment
from worlds import fixed_users

from spark_rankeval import package_zip

ROOT = Path(__file__).parents[2]
GOLDEN = json.loads((ROOT / "tests" / "golden" / "platforms.json").read_text())
RUN = "golden"
# A classic session takes artifacts since Spark 4.
ADDED_BY = ["spark.sparkContext.addPyFile(package)"]
if int(pyspark.__version__.partition(".")[0]) >= 4:
    ADDED_BY.append("spark.addArtifacts(package, pyfile=True)")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with standalone_cluster(tmp_path_factory.mktemp("cluster"), workers=2) as running:
        yield running


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    return bare_python(tmp_path_factory.mktemp("bare") / "venv")


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """What the running package writes of itself; `make dist` runs the same."""
    return package_zip(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The fixed users as files, of both models, and a configuration that reads those of one."""
    folder = tmp_path_factory.mktemp("data")
    predictions = pd.DataFrame(fixed_users.prediction_rows(), columns=["model", "user", "item", "score"])
    predictions.to_parquet(folder / "predictions.parquet")
    pd.DataFrame(fixed_users.label_rows(), columns=["user", "item", "grade"]).to_parquet(folder / "labels.parquet")
    (folder / "job.toml").write_text(
        f"""
        [predictions]
        path = "{folder}/predictions.parquet"
        [labels]
        path = "{folder}/labels.parquet"
        [columns]
        score = "score"
        relevance = "grade"
        model = "model"
        [evaluation]
        metrics = {json.dumps(fixed_users.CUT)}
        ci = "bca"
        replicates = 200
        seed = 5
        quantiles = [0.25, 0.5, 0.9]
        [output]
        path = "{folder}/out"
        run_id = "{RUN}"
        """
    )
    return folder


def figures(folder):
    """What the job wrote: every user's values, by model and user."""
    rows = pd.read_parquet(folder / "out" / "per_user" / f"run_id={RUN}")
    columns = rows.drop(columns=["model", "user"]).iloc[:, : len(fixed_users.CUT)]
    return {
        f"{model} {user}": ["nan" if math.isnan(value) else value.hex() for value in row]
        for model, user, row in zip(rows["model"], rows["user"], columns.to_numpy().tolist(), strict=True)
    }


def assert_the_numbers_are_right(folder):
    found = figures(folder)
    assert len(found) > 80
    assert found == {key: GOLDEN["pruned"][key].split() for key in found}
    metrics = pd.read_parquet(folder / "out" / "metrics" / f"run_id={RUN}")
    assert len(metrics) == len(fixed_users.CUT) * len(fixed_users.MODELS)
    for _, row in metrics.iterrows():
        golden = GOLDEN["bootstrap"][f"{row['model']} all {row['metric']}"].split()
        assert [row[name].hex() for name in ("mean", "interval_low", "interval_high")] == [
            golden[0],
            golden[5],
            golden[6],
        ]


@pytest.fixture(autouse=True)
def _nothing_written(data):
    """What one test wrote is not taken for what another did."""
    shutil.rmtree(data / "out", ignore_errors=True)


def test_the_pythons_are_what_they_are_said_to_be(python):
    """The cluster's has nothing beside the four packages and what these ask for; in particular not this one."""
    there = installed_in(python)
    assert set(OF_EXECUTORS) <= there
    assert there <= {*OF_EXECUTORS, "py4j", "python-dateutil", "six", "pytz", "tzdata"}
    assert importlib.util.find_spec("spark_rankeval") is not None
    alone = subprocess.run(
        [str(python), "-P", "-c", "import spark_rankeval"], env=plain_environment(), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert "No module named 'spark_rankeval'" in alone.stderr


def test_a_job_submitted_with_the_zip_alone(cluster, python, package, data):
    done = cluster.submit(
        "--py-files", package, ROOT / "jobs" / "evaluate.py", "--config", data / "job.toml",
        "--log-format", "json", "--log-file", data / "events",
        cwd=data, driver_python=python, executor_python=python,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + cluster.executor_logs()[-3000:]
    # stdout has the result alone.
    assert done.stdout.startswith("Means over users, ")
    assert done.stdout.splitlines()[-1].startswith(f"run {RUN} written to {data}/out: ")
    events = [json.loads(line)["event"] for line in (data / "events").read_text().splitlines()]
    assert (events[0], events[-1]) == ("started", "succeeded")
    assert_the_numbers_are_right(data)
    assert {worker["state"] for worker in cluster.state()["workers"]} == {"ALIVE"}


OWN_METRIC = """
from spark_rankeval.metrics import RelevanceMetric


class FirstHit(RelevanceMetric):
    name = "first_hit_of_the_shop"

    def _values(self, batch):
        return batch.n_hits(1, self.threshold) / 1.0
"""


@pytest.mark.parametrize("sends_it", [True, False])
def test_metrics_of_the_callers_own_travel_with_py_files(cluster, python, package, data, tmp_path, sends_it):
    (tmp_path / "shop_metrics.py").write_text(OWN_METRIC)
    # Without it the driver alone can import the module.
    sent = f"{package},{tmp_path}/shop_metrics.py" if sends_it else package
    own = ("evaluation.metrics_from=shop_metrics", 'evaluation.metrics=["precision@1", "first_hit_of_the_shop@1"]')
    done = cluster.submit(
        "--py-files", sent, ROOT / "jobs" / "evaluate.py", "--config", data / "job.toml",
        *[word for each in own for word in ("--set", each)],
        cwd=data, driver_python=python, executor_python=python, **({} if sends_it else {"PYTHONPATH": str(tmp_path)}),
    )  # fmt: skip
    if not sends_it:
        assert done.returncode == 2, done.stderr
        # spark-submit sends there what Python writes to its stderr.
        line = done.stdout.splitlines()[-1]
        assert line.startswith("evaluate: wrong config: Spark's Python workers lack shop_metrics; install it")
        return
    assert done.returncode == 0, done.stderr + cluster.executor_logs()[-3000:]
    metrics = pd.read_parquet(data / "out" / "metrics" / f"run_id={RUN}")
    means = {name: list(rows["mean"]) for name, rows in metrics.groupby("metric")}
    assert means["first_hit_of_the_shop@1"] == means["precision@1"]


PROGRAM = """
import sys
from pyspark.sql import SparkSession
from spark_rankeval.jobs.config import load_config
from spark_rankeval.jobs.evaluate import EvaluateConfig
from spark_rankeval.jobs.evaluate_run import evaluate_tables

config, package = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
if package:
    {add}
evaluate_tables(spark, load_config(config, EvaluateConfig))
"""


@pytest.mark.parametrize("add", ADDED_BY)
def test_the_driver_alone_has_the_package_and_adds_the_zip(cluster, python, package, data, tmp_path, add):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(add=add))
    done = cluster.submit(program, data / "job.toml", package, cwd=tmp_path, executor_python=python, **DRIVER)
    assert done.returncode == 0, done.stderr + cluster.executor_logs()[-3000:]
    assert_the_numbers_are_right(data)


def test_without_the_zip_executors_say_what_is_missing(cluster, python, data, tmp_path):
    """Nothing on the executors leads to the driver's package: the runs above had it from the zip."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(add="pass"))
    done = cluster.submit(program, data / "job.toml", "", cwd=tmp_path, executor_python=python, **DRIVER)
    assert done.returncode != 0
    assert "ModuleNotFoundError: No module named 'spark_rankeval'" in done.stderr
