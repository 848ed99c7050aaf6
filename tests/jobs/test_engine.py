"""The engine and the session of a job, and what must not depend on them."""

import math
import os
import re
import subprocess
import sys
import uuid
from dataclasses import replace

import pytest
from helpers.documented import ROOT
from helpers.run_documents import called, run_document, run_here
from pyspark import __version__

from spark_rankeval.errors import ConfigurationError, EngineError
from spark_rankeval.jobs import command as cli
from spark_rankeval.jobs import command as session
from spark_rankeval.jobs import runs
from spark_rankeval.jobs.config import Session, parse_config
from spark_rankeval.jobs.evaluate import EvaluateConfig, main
from spark_rankeval.jobs.outputs import run_id_of
from spark_rankeval.jobs.runs import CompareConfig
from spark_rankeval.spark.engine import engine_of

SMALLEST = {name: {"path": name[0]} for name in ("predictions", "labels", "output")} | {"evaluation": {"metrics": "rr"}}
TEXT = """
    predictions.path = "FOLDER/p"
    labels.path = "FOLDER/l"
    columns.score = "score"
    evaluation = { metrics = "rr", on_invalid = { invalid_predictions = "drop" } }
    output = { path = "FOLDER/out", run_id = "day" }
"""


def test_a_run_has_one_name_on_each_engine():
    config = parse_config(SMALLEST, EvaluateConfig)
    assert run_id_of(replace(config, session=Session("sail", 2)), {}) == run_id_of(config, {}) == "r84bcb6e60b97"
    tables = {"a": {"output": "o", "run_id": "x"}, "b": {"path": "p"}}
    comparison = {"models": tables, "comparison": {"baseline": "a"}, "output": {"path": "o"}}
    assert run_id_of(parse_config(comparison, CompareConfig), {}) == "r7a691cfdfd50"


@pytest.fixture
def start(spark, tmp_path):
    """Starts a job of Parquet files, in which one user has 1.0 for every score but one."""
    scores = [(1, 1, 1.0), (1, 2, math.nan), (2, 1, 1.0)]
    spark.createDataFrame(scores, "user int, item int, score double").coalesce(1).write.parquet(f"{tmp_path}/p")
    spark.createDataFrame([(1, 1), (2, 1)], "user int, item int").coalesce(1).write.parquet(f"{tmp_path}/l")
    return lambda *settings, options=(): run_here(main, tmp_path, TEXT, *settings, options=options)


def test_the_manifest_names_the_engine_and_nan_of_files_is_seen(spark, start, tmp_path):
    engine = engine_of(spark)
    assert start(options=("--engine", engine.name.lower())).code == 0
    manifest = run_document(tmp_path / "out")
    on_sail = {"spark": None, "sail": engine.version, "pyspark": __version__}
    expected = on_sail if engine.name == "Sail" else {"spark": spark.version, "sail": None, "pyspark": None}
    assert {name: manifest["versions"].get(name) for name in expected} == expected
    # By the statistics of the file all scores are 1.0.
    assert manifest["data_quality"]["n_invalid_predictions"] == 1
    assert start("evaluation.on_invalid=error").code == 3


def test_another_engine_or_other_sizes_than_those_of_the_session_are_refused(spark, start, platform, monkeypatch):
    engine = engine_of(spark)
    other = "spark" if engine.name == "Sail" else "sail"
    done = start(options=("--engine", other))
    assert done.says(
        2, f"session.engine is '{other}', but the session of this place runs on {engine.name} {engine.version}"
    )
    done = start("session.cores=63", options=("--engine", "sail"))
    assert done.says(
        2, "the engine runs with cores=None" if platform == "sail" else "session.engine is 'sail', but the session of"
    )
    monkeypatch.setattr("spark_rankeval.local.active_session", lambda: None)
    monkeypatch.setenv("SPARK_REMOTE", "sc://nowhere")
    done = start("session.cores=63", options=("--engine", "sail"))
    assert done.says(2, "the server in SPARK_REMOTE has its own cores and memory; leave session.cores out")


@pytest.mark.parametrize(("error", "outcome"), [
    (EngineError("the engine's memory is too small"), ("engine failed", 1)),
    (ConfigurationError("the session runs on Sail 0.9"), ("wrong config", 2)),
    (ZeroDivisionError("by zero"), ("crash", 1)),
])  # fmt: skip
def test_an_engine_that_fails_at_work_is_no_wrong_configuration(error, outcome):
    assert session.outcome_of(error) == outcome


def test_an_engine_that_is_refused_is_a_wrong_configuration(start, monkeypatch):
    def refuse(_):
        raise EngineError("no test has run on it")

    monkeypatch.setattr("spark_rankeval.spark.engine.engine_of", refuse)
    done = start()
    assert (done.code, done.lines) == (2, ["evaluate: wrong config: no test has run on it"])
    monkeypatch.setattr("spark_rankeval.local.check_installed", lambda: refuse(None))
    monkeypatch.delitem(sys.modules, "pyspark")
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    with pytest.raises(ConfigurationError, match="no test has run on it"):
        session.check_packages(Session("sail"))


def test_a_rerun_leaves_the_other_runs_alone_on_every_storage(spark, start, tmp_path, platform):
    """On Sail in the engine's memory, of which Python sees no files, as of an object store."""
    place = f"memory:///{uuid.uuid4().hex}" if platform == "sail" else f"{tmp_path}/out"
    for run_id in ("first", "second", "second"):
        assert start(f"output.path={place}", f"output.run_id={run_id}").code == 0
    assert sorted(row.run_id for row in spark.read.parquet(f"{place}/metrics").collect()) == ["first", "second"]
    assert spark.read.text(f"{place}/manifests").count() == 2
    assert called(runs.trend_main, tmp_path, "--output", place, "--engine", engine_of(spark).name.lower()).code == 0


def test_the_first_job_of_the_page_and_its_gate_run_as_they_stand(spark, tmp_path, monkeypatch, platform, capfd):
    page, gates = ((ROOT / "docs" / name).read_text() for name in ("jobs.md", "history.md"))
    predictions, labels, _, said = re.findall(r"^```\n(.*?)^```$", page.partition("\n## Your own")[0], re.M | re.S)
    (config,) = re.findall(r"^```toml\n(\[predictions\].*?)^```$", page.partition("\n## Your own")[0], re.M | re.S)
    (gate,) = re.findall(
        r"^```toml\n(.*?)^```$", gates.partition("\n## A gate in CI")[2].partition("\n## ")[0], re.M | re.S
    )
    (command,) = re.findall(r"- run: spark-rankeval (.*)", gates)
    (tmp_path / "predictions.csv").write_text(predictions)
    (tmp_path / "labels.csv").write_text(labels)
    monkeypatch.chdir(tmp_path)
    if platform == "sail":
        # As a step of CI: a process of its own, on a machine without Java.
        (tmp_path / "gate.toml").write_text(config + gate)
        (tmp_path / "command.py").write_text(
            "import sys\nfrom spark_rankeval.jobs.command import main\nsys.exit(main())\n"
        )
        environment = {"PATH": "", "PYTHONPATH": str(ROOT), "HOME": os.environ.get("HOME", "")}
        started = [sys.executable, "command.py", *command.split()]
        assert subprocess.run(started, env=environment, check=False, timeout=120).returncode == 4
    else:
        # The session of the tests has another working directory.
        here = re.sub(r'path = "', f'path = "{tmp_path}/', config)
        (tmp_path / "gate.toml").write_text(here + gate)
        assert cli.main([word for word in command.split() if word not in ("--engine", "sail")]) == 4
    printed = capfd.readouterr()
    assert printed.err in gates
    assert printed.err.startswith("evaluate: gates failed: ndcg@2")
    assert said.partition("\n\nrun ")[0] in printed.out
    assert "output/nightly: per_user, metrics, gates, manifests" in printed.out


SERVER = """
from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession
from spark_rankeval.errors import EngineError
from spark_rankeval.spark.engine import engine_of

server = SparkConnectServer("127.0.0.1", 0)
server.start(background=True)
host, port = server.listening_address
try:
    engine_of(SparkSession.builder.remote(f"sc://{host}:{port}").getOrCreate())
except EngineError as error:
    print(error)
"""


@pytest.mark.sail_alone("its settings")
def test_a_server_that_loses_nan_is_refused(tmp_path):
    (tmp_path / "server.py").write_text(SERVER)
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("SAIL_", "SPARK_"))}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", f"{tmp_path}/server.py"],
        env={**plain, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    said = "Sail reads NaN in files as other values with its settings; start it with SAIL_EXECUTION__COLLECT_STATISTICS"
    assert said in done.stdout


# --- the session of the place


def test_a_place_that_is_given_is_left_alone(monkeypatch, tmp_path):
    for name in os.environ:
        if name.startswith(("PYSPARK_", "SPARK_")) or name == "MASTER":
            monkeypatch.delenv(name)
    assert not session._has_place()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert not session._has_place()
    (tmp_path / "spark-defaults.conf").write_text("# spark.master local\nspark.sql.shuffle.partitions=5\n")
    assert (session._has_place(), session._site_settings()) == (False, {"spark.sql.shuffle.partitions"})
    (tmp_path / "spark-defaults.conf").write_text("spark.master   yarn\n")
    assert session._has_place()
    monkeypatch.delenv("SPARK_CONF_DIR")
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert session._has_place()


def test_the_session_of_databricks_is_neither_configured_nor_stopped(spark, monkeypatch):
    from pyspark.sql import SparkSession

    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(session, "_start_locally", lambda _: pytest.fail("it was started"))
    with session.job_session("a job") as found:
        assert found.range(1).count() == 1
    assert spark.range(2).count() == 2
