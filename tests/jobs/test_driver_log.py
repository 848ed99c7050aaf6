"""What stands on stderr and in log files: the lines of the job, and of Spark only what the job does not say itself."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.processes import SPARK_HOME, plain_environment, without_startup

from spark_rankeval.errors import OptionError
from spark_rankeval.jobs import driver_log
from spark_rankeval.jobs.evaluate import main
from spark_rankeval.spark.storage import writable

ROOT = Path(__file__).parents[2]
SETTINGS = """
predictions = {path = "p.csv", format = "csv", schema = "user int, item int"}
labels = {path = "p.csv", format = "csv", schema = "user int, item int"}
columns = {rank = "item"}
evaluation = {metrics = ["rr"]}
output = {path = "/proc/none/out"}
"""


@pytest.mark.classic_alone("jvm")
def test_under_spark_submit_a_wrong_path_is_one_line_of_json_on_stderr(tmp_path):
    (tmp_path / "p.csv").write_text("user,item\n1,1\n")
    (tmp_path / "job.toml").write_text(SETTINGS)
    conf = [word for key in ("spark.ui.enabled=false", "spark.sql.shuffle.partitions=1") for word in ("--conf", key)]
    job = [str(ROOT / "jobs" / "evaluate.py"), "--config", "job.toml", "--log-format", "json"]
    done = subprocess.run(
        [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local[1]", *conf, *job],
        cwd=tmp_path, env=plain_environment(PYTHONPATH=str(ROOT), PYSPARK_PYTHON=sys.executable),
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    events = [json.loads(line) for line in without_startup(done.stderr).splitlines()]
    assert [event["event"] for event in events] == ["started", "failed"]
    assert events[-1]["error"].startswith("output.path: cannot write to /proc/none/out: Mkdirs failed")


@pytest.mark.parametrize(
    "said",
    [
        "Generic LocalFileSystem error: Unable to create dir /o/x: No such file or directory (os error 2)",
        "Error encountered while finalizing writes! Partial results may have been written to ObjectStore!",
    ],
)
def test_what_sail_says_of_a_folder_that_it_cannot_write_is_no_crash(said):
    with pytest.raises(OptionError, match=r"output\.path: cannot write to /o: "), writable("/o", "output.path"):
        raise RuntimeError(said)


@pytest.fixture
def submitted(monkeypatch):
    """A JVM that has started this process, with nothing set, and what it was given."""
    jvm = SimpleNamespace(written=b"", level=None)
    stream = SimpleNamespace(
        write=lambda content, start, length: setattr(jvm, "written", jvm.written + content[start : start + length]),
        flush=lambda: None,
    )
    system = SimpleNamespace(err=stream, getProperty=lambda name: jvm.level if name == "spark.log.level" else None)
    jvm.java = SimpleNamespace(lang=SimpleNamespace(System=system))
    monkeypatch.setattr(driver_log, "_jvm", lambda: jvm)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    return jvm


@pytest.mark.parametrize(("is_merged", "platform"), [(True, ""), (False, ""), (True, "DATABRICKS_RUNTIME_VERSION")])
def test_stderr_is_that_of_the_jvm_only_if_spark_submit_has_merged_it(
    submitted, monkeypatch, capsys, is_merged, platform
):
    monkeypatch.setattr(os.path, "sameopenfile", lambda *files: files == (1, 2) and is_merged)
    if platform:
        monkeypatch.setenv(platform, "17.3")
    line = "evaluate: wrong config: nowhere.tõml: No such file or directory\n"
    assert main(["--config", "nowhere.tõml"]) == 2
    by_java = is_merged and not platform
    assert submitted.written.decode() == (line if by_java else "")
    assert capsys.readouterr() == ("", "" if by_java else line)


def test_no_session_of_a_job_has_a_progress_bar_and_a_level_that_is_set_stands(submitted, monkeypatch):
    bar = {"spark.ui.showConsoleProgress": "false"}
    assert driver_log.quiet_settings() == bar | {"spark.log.level": "ERROR"}
    submitted.level = "INFO"
    assert driver_log.quiet_settings() == bar
    # Without a logger to be set this would be an error.
    driver_log.quiet_spark()
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT")
    assert driver_log.quiet_settings() == bar


def test_a_log_file_has_the_lines_and_stderr_the_failure(tmp_path, capsys):
    log = tmp_path / "log.jsonl"
    log.write_text('{"event": "earlier"}\n')
    assert main(["--config", "nowhere.toml", "--log-format", "json", "--log-file", str(log)]) == 2
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert [event["event"] for event in events] == ["earlier", "started", "failed"]
    assert capsys.readouterr().err == "evaluate: wrong config: nowhere.toml: No such file or directory\n"


def test_a_log_file_that_cannot_be_written_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["--config", "job.toml", "--log-file", str(tmp_path)])
    assert f"--log-file: cannot write to '{tmp_path}': Is a directory\n" in capsys.readouterr().err
