"""The engine of a job, and what must not depend on it."""

import math
import os
import re
import subprocess
import sys
import uuid
from dataclasses import replace

import pytest
from helpers.documented import ROOT
from helpers.run_documents import run_document
from pyspark import __version__

from spark_rankeval import cli
from spark_rankeval.errors import ConfigurationError, EngineError
from spark_rankeval.jobs import trend
from spark_rankeval.jobs.compare import CompareConfig
from spark_rankeval.jobs.config import Session, load_config, parse_config
from spark_rankeval.jobs.evaluate import EvaluateConfig, main
from spark_rankeval.jobs.runs import run_id_of
from spark_rankeval.jobs.session import check_packages, outcome_of
from spark_rankeval.spark.platforms import engine_of

SMALLEST = {
    "predictions": {"path": "p"},
    "labels": {"path": "l"},
    "evaluation": {"metrics": "rr"},
    "output": {"path": "o"},
}


def test_the_same_settings_are_the_same_run_on_each_engine():
    config = parse_config(SMALLEST, EvaluateConfig)
    assert run_id_of(replace(config, session=Session("sail", 2)), {}) == run_id_of(config, {})


def test_runs_without_keys_that_came_later_keep_the_names_that_they_had():
    tables = {"a": {"output": "o", "run_id": "x"}, "b": {"path": "p"}}
    comparison = {"models": tables, "comparison": {"baseline": "a"}, "output": {"path": "o"}}
    assert run_id_of(parse_config(comparison, CompareConfig), {}) == "r336bee35e72a"
    assert run_id_of(parse_config(SMALLEST, EvaluateConfig), {}) == "r8026857deaca"


def test_a_mistake_in_the_file_is_not_blamed_on_the_command_line(tmp_path):
    (tmp_path / "job.toml").write_text("[outptu]\n")
    with pytest.raises(ConfigurationError, match=r"job\.toml: unknown key 'outptu'"):
        load_config(f"{tmp_path}/job.toml", EvaluateConfig, ["session.engine=sail"])


@pytest.fixture
def job(spark, tmp_path):
    """A configuration of Parquet files, in which one user has 1.0 for every score but one."""
    scores = [(1, 1, 1.0), (1, 2, math.nan), (2, 1, 1.0)]
    spark.createDataFrame(scores, "user int, item int, score double").coalesce(1).write.parquet(f"{tmp_path}/p")
    spark.createDataFrame([(1, 1), (2, 1)], "user int, item int").coalesce(1).write.parquet(f"{tmp_path}/l")
    (tmp_path / "job.toml").write_text(f"""
        predictions.path = "{tmp_path}/p"
        labels.path = "{tmp_path}/l"
        columns.score = "score"
        evaluation = {{ metrics = "rr", on_invalid = {{ invalid_predictions = "drop" }} }}
        output = {{ path = "{tmp_path}/out", run_id = "day" }}
    """)
    return ["--config", f"{tmp_path}/job.toml"]


def test_the_manifest_names_the_engine_and_nan_of_files_is_seen(spark, job, tmp_path):
    engine = engine_of(spark)
    assert main([*job, "--engine", engine.name.lower()]) == 0
    manifest = run_document(tmp_path / "out")
    versions = {name: manifest["versions"].get(name) for name in ("spark", "sail", "pyspark")}
    on_spark = {"spark": spark.version, "sail": None, "pyspark": None}
    on_sail = {"spark": None, "sail": engine.version, "pyspark": __version__}
    assert versions == {"Spark": on_spark, "Sail": on_sail}[engine.name]
    # By the statistics of the file all scores are 1.0.
    assert manifest["data_quality"]["n_invalid_predictions"] == 1
    assert main([*job, "--set", "evaluation.on_invalid=error"]) == 3


def test_another_engine_than_that_of_the_session_is_refused(spark, job, capsys):
    engine = engine_of(spark)
    other = "spark" if engine.name == "Sail" else "sail"
    assert main([*job, "--engine", other]) == 2
    words = f"session.engine is '{other}', but the session of this place runs on {engine.name} {engine.version}"
    assert words in capsys.readouterr().err


def test_sizes_that_would_have_no_effect_are_refused(spark, job, capsys, platform, monkeypatch):
    sizes = ["--engine", "sail", "--set", "session.cores=63"]
    assert main([*job, *sizes]) == 2
    said = (
        "the engine runs with cores=None"
        if platform == "sail"
        else "session.engine is 'sail', but the session of this place"
    )
    assert said in capsys.readouterr().err
    monkeypatch.setattr("spark_rankeval.local.active_session", lambda: None)
    monkeypatch.setenv("SPARK_REMOTE", "sc://nowhere")
    assert main([*job, *sizes]) == 2
    assert "the server in SPARK_REMOTE has its own cores and memory; leave session.cores out" in capsys.readouterr().err


@pytest.mark.parametrize(("error", "outcome"), [
    (EngineError("the engine's memory is too small"), ("engine failed", 1)),
    (ConfigurationError("the session runs on Sail 0.9"), ("wrong config", 2)),
])  # fmt: skip
def test_an_engine_that_fails_at_work_is_no_wrong_configuration(error, outcome):
    assert outcome_of(error) == outcome


def test_an_engine_that_is_refused_is_a_wrong_configuration(spark, job, capsys, monkeypatch):
    def refuse(session):
        raise EngineError("no test has run on it")

    monkeypatch.setattr("spark_rankeval.spark.platforms.engine_of", refuse)
    assert main(job) == 2
    assert "evaluate: wrong config: no test has run on it" in capsys.readouterr().err
    monkeypatch.setattr("spark_rankeval.local.check_installed", lambda: refuse(None))
    monkeypatch.delitem(sys.modules, "pyspark")
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    with pytest.raises(ConfigurationError, match="no test has run on it"):
        check_packages(Session("sail"))


def test_a_rerun_leaves_the_other_runs_alone_on_every_storage(spark, job, tmp_path, platform):
    """On Sail in the engine's memory, of which Python sees no files, as of an object store."""
    place = f"memory:///{uuid.uuid4().hex}" if platform == "sail" else f"{tmp_path}/out"
    for run_id in ("first", "second", "second"):
        assert main([*job, "--set", f"output.path={place}", "--set", f"output.run_id={run_id}"]) == 0
    assert sorted(row.run_id for row in spark.read.parquet(f"{place}/metrics").collect()) == ["first", "second"]
    assert spark.read.text(f"{place}/manifests").count() == 2
    assert trend.main(["--output", place, "--engine", engine_of(spark).name.lower()]) == 0


@pytest.mark.parametrize(("score_of_milk", "code"), [(0.7, 0), (0.95, 4)])
def test_the_gate_of_the_page_runs_as_it_stands(spark, tmp_path, monkeypatch, platform, capfd, score_of_milk, code):
    page = (ROOT / "docs/ci_gate.md").read_text()
    (config,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (command,) = re.findall(r"- run: spark-rankeval (.*)", page)
    (tmp_path / "gate.toml").write_text(config)
    (tmp_path / "tests/data").mkdir(parents=True)
    (tmp_path / "tests/data/predictions.csv").write_text(
        f"user,item,score\nann,tea,0.9\nann,milk,{score_of_milk}\nbob,bread,0.8\nbob,milk,0.5\n"
    )
    (tmp_path / "tests/data/labels.csv").write_text("user,item\nann,tea\nbob,bread\n")
    monkeypatch.chdir(tmp_path)
    words = command.split()
    if platform == "sail":
        # As a step of CI: a process of its own, on a machine without Java.
        (tmp_path / "command.py").write_text("import sys\nfrom spark_rankeval.cli import main\nsys.exit(main())\n")
        environment = {"PATH": "", "PYTHONPATH": str(ROOT), "HOME": os.environ.get("HOME", "")}
        done = subprocess.run([sys.executable, "command.py", *words], env=environment, check=False, timeout=120)
        assert done.returncode == code
    else:
        # The session of the tests has another working directory.
        absolute = re.sub('"(tests|build)/', f'"{tmp_path}/\\1/', (tmp_path / "gate.toml").read_text())
        (tmp_path / "gate.toml").write_text(absolute)
        assert cli.main([word for word in words if word not in ("--engine", "sail")]) == code
    printed = capfd.readouterr()
    failed = "evaluate: gates failed: ndcg@10: mean at least 0.9; found 0.815465\n"
    assert printed.err == (failed if code else "")
    assert "build/evaluation: per_user, metrics, gates, manifests" in printed.out


SERVER = """
from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession
from spark_rankeval.errors import EngineError
from spark_rankeval.spark.platforms import engine_of

server = SparkConnectServer("127.0.0.1", 0)
server.start(background=True)
host, port = server.listening_address
try:
    engine_of(SparkSession.builder.remote(f"sc://{host}:{port}").getOrCreate())
except EngineError as error:
    print(error)
"""


def test_a_server_that_loses_nan_is_refused(spark, platform, tmp_path):
    if platform != "sail":
        assert engine_of(spark).name == "Spark"
        return
    (tmp_path / "server.py").write_text(SERVER)
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("SAIL_", "SPARK_"))}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", f"{tmp_path}/server.py"],
        env=plain,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert (
        "Sail reads NaN in files as other values with its settings; start it with SAIL_EXECUTION__COLLECT_STATISTICS"
        in done.stdout
    )
