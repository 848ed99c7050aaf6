"""`spark-rankeval doctor`: a machine where all is well, and problems that it names with what to do."""

import subprocess
import sys
from pathlib import Path

import pytest

from spark_rankeval import __main__ as door
from spark_rankeval import checks
from spark_rankeval.jobs import command

ROOT = Path(__file__).parents[2]


def problems(engine=None):
    return [finding for finding in door.findings(engine) if finding.advice]


@pytest.fixture
def session_here(spark):
    """The session of the place is that of the tests."""
    return spark


@pytest.mark.usefixtures("session_here")
def test_all_is_well_here(capsys):
    assert door.doctor() == 0
    *_, evaluation, last = capsys.readouterr().out.splitlines()
    assert evaluation == "ok      evaluation: ndcg@2 is 0.8155, as it should be; workers have what they need"
    assert last == "all is well"


@pytest.mark.usefixtures("session_here")
def test_a_wrong_figure_is_a_problem(monkeypatch, capsys):
    monkeypatch.setattr(door, "_NDCG", 0.5)
    assert door.doctor() == 1
    assert "it should be 0.5: please report it" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("versions", "advice"),
    [
        ({"pyarrow": "14.0.2", "pyspark": "3.5.9"}, "version 15 or newer is needed: pip install 'pyarrow>=15'"),
        ({"pyarrow": "17.0.0", "pyspark": "4.2.0"}, "version 18 or newer is needed: pip install 'pyarrow>=18'"),
        ({}, "version 15 or newer is needed: pip install 'pyarrow>=15'"),
    ],
)
def test_an_old_or_missing_package_is_named(monkeypatch, versions, advice):
    monkeypatch.setattr(door, "installed_version", versions.get)
    assert door._package("pyarrow", "15").advice == advice


def test_a_low_limit_of_memory_is_named():
    assert door._memory(1 << 30) == (
        "memory",
        "1.0 GB",
        "an engine and its workers need 2 GB: raise the limit of the container",
    )
    assert not door._memory(2 << 30).advice
    assert 0 < door._limits()[0] < 1 << 50


@pytest.mark.usefixtures("session_here")
def test_an_unknown_engine_is_named(monkeypatch):
    monkeypatch.setattr(checks, "_engines", {})
    monkeypatch.setattr(checks, "_name_and_version", lambda _: ("Meteor", "1.0"))
    monkeypatch.setattr(checks, "_problem_of_trial", lambda _: "hashes differ from Spark's")
    (problem,) = problems()
    assert problem.advice.startswith("the session runs on Meteor 1.0, on which no test of this package has run")


def test_a_machine_without_an_engine_is_named(monkeypatch):
    def no_session(*_):
        raise command.ConfigurationError("Spark needs Java, and this machine has none")

    monkeypatch.setattr(command, "job_session", no_session)
    (problem,) = problems("spark")
    assert (problem.found, problem.advice) == ("no evaluation could run", "Spark needs Java, and this machine has none")


def test_without_an_engine_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(door, "find_spec", lambda name: None if name == "pyspark" else object())
    (problem,) = problems()
    assert problem.advice.startswith("pip install 'pyspark>=3.5', or without Java 'pysail")


def test_few_addresses_are_named_if_an_engine_does_not_start(monkeypatch):
    def no_session(*_):
        raise MemoryError

    monkeypatch.setattr(command, "job_session", no_session)
    monkeypatch.setattr(door, "_limits", lambda: (8 << 30, 1 << 30))
    assert [problem.what for problem in problems("sail")] == ["engine", "addresses"]


def test_it_runs_where_packages_are_missing(tmp_path):
    """Not even numpy is there."""
    (tmp_path / "spark_rankeval").symlink_to(ROOT / "spark_rankeval")
    code = "import runpy, sys; sys.argv = ['spark-rankeval', 'doctor']; runpy.run_module('spark_rankeval', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert (
        "PROBLEM numpy: not installed\n        version 1.26 or newer is needed: pip install 'numpy>=1.26'"
        in done.stdout
    )
    assert done.stdout.endswith("4 problems\n")


def test_the_command_of_jobs_leads_to_it(monkeypatch):
    monkeypatch.setattr(door, "doctor", lambda engine: {"sail": 7}[engine])
    assert command.main(["doctor", "--engine", "sail"]) == 7
