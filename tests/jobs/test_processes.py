"""Jobs and sessions in processes of their own, as users start them: what stands on stderr, on the screen and in log files."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.processes import SPARK_HOME, plain_environment

from spark_rankeval.errors import OptionError
from spark_rankeval.jobs.evaluate import main
from spark_rankeval.spark.catalog import writable

ROOT = Path(__file__).parents[2]
SETTINGS = """
predictions = {path = "p.csv", format = "csv", schema = "user int, item int"}
labels = {path = "p.csv", format = "csv", schema = "user int, item int"}
columns = {rank = "item"}
evaluation = {metrics = ["rr"]}
output = {path = "/proc/none/out"}
"""
SCREEN = """
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


@pytest.fixture
def start(tmp_path):
    """Starts a program in a folder of its own, without what leads it to the session of the tests."""

    def run(*command, **environment):
        settings = plain_environment(PYTHONPATH=str(ROOT), **{"PYSPARK_PYTHON": sys.executable, **environment})
        return subprocess.run(
            command, cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=300, check=False
        )

    return run


def test_a_wrong_config_is_one_line_before_spark_starts(run_job, tmp_path):
    text = '[predictions]\npaht = "p"\npath = "p"\n[evaluation]\nmetrics = ["ngcd@10"]\n[output]\npath = "o"\n'
    (tmp_path / "job.toml").write_text(text)
    # Without Java the session would have complained first.
    done = run_job("evaluate.py", "--config", "job.toml", cwd=tmp_path, PATH="", JAVA_HOME="")
    (line,) = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert line.startswith(
        "evaluate: wrong config: job.toml and --set: unknown key 'predictions.paht'; did you mean 'path'?"
    )
    assert "no metric is called 'ngcd'" in line


def test_without_java_a_line_says_what_to_install_or_the_job_runs_on_sail(run_job, tmp_path, example_config, platform):
    nothing = {"PATH": "", "JAVA_HOME": "", "SPARK_HOME": ""}
    done = run_job("evaluate.py", "--config", example_config, cwd=tmp_path, platform="classic", **nothing)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    # Where Sail is installed the job runs on it, and finds no tables.
    said = "there is no file at" if platform == "sail" else "in an environment without pyspark (the extra 'sail')"
    assert said in line
    assert ("install Java 17 or newer" in line) == (platform != "sail")


@pytest.mark.classic_alone("jvm")
def test_under_spark_submit_a_wrong_path_is_one_line_of_json_in_the_log_file(start, tmp_path):
    (tmp_path / "p.csv").write_text("user,item\n1,1\n")
    (tmp_path / "job.toml").write_text(SETTINGS)
    conf = [word for key in ("spark.ui.enabled=false", "spark.sql.shuffle.partitions=1") for word in ("--conf", key)]
    job = [str(ROOT / "jobs" / "evaluate.py"), "--config", "job.toml", "--log-format", "json", "--log-file", "log"]
    done = start(str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local[1]", *conf, *job)
    events = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    # spark-submit sends what Python writes to its stderr to stdout.
    (line,) = done.stdout.splitlines()
    assert (done.returncode, line.startswith("evaluate: wrong config: output.path: cannot write")) == (2, True)
    assert [event["event"] for event in events] == ["started", "failed"]
    assert events[-1]["error"].startswith("output.path: cannot write to /proc/none/out: Mkdirs failed")


@pytest.mark.not_on_sail("jvm")
@pytest.mark.night
def test_nothing_but_what_was_asked_for_is_on_the_screen(start, tmp_path):
    warned = "always::FutureWarning"
    done = start(sys.executable, "-W", warned, "-c", SCREEN, PYTHONWARNINGS=warned)
    assert done.returncode == 0, done.stderr
    assert done.stderr.partition("started\n")[2].partition("done\n")[0] == ""
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["users"]


# --- stderr and log files


def test_what_sail_says_of_a_folder_that_it_cannot_write_is_no_crash():
    for said in (
        "Generic LocalFileSystem error: Unable to create dir /o/x: No such file or directory (os error 2)",
        "Error encountered while finalizing writes! Partial results may have been written to ObjectStore!",
    ):
        with pytest.raises(OptionError, match=r"output\.path: cannot write to /o: "), writable("/o", "output.path"):
            raise RuntimeError(said)


def test_a_log_file_has_the_lines_and_stderr_the_failure(tmp_path, capsys):
    log = tmp_path / "log.jsonl"
    log.write_text('{"event": "earlier"}\n')
    assert main(["--config", "nowhere.toml", "--log-format", "json", "--log-file", str(log)]) == 2
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert [event["event"] for event in events] == ["earlier", "started", "failed"]
    assert capsys.readouterr().err == "evaluate: wrong config: nowhere.toml: No such file or directory\n"
    with pytest.raises(SystemExit, match="2"):
        main(["--config", "job.toml", "--log-file", str(tmp_path)])
    assert f"--log-file: cannot write to '{tmp_path}': Is a directory\n" in capsys.readouterr().err
