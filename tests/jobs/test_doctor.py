"""`spark-rankeval doctor`: a machine where all is well, and problems that it names with what to do."""

import pytest

from spark_rankeval import checks
from spark_rankeval.jobs import command


def problems(engine=None):
    return [finding for finding in command.findings(engine) if finding.advice]


@pytest.fixture
def session_here(spark):
    """The session of the place is that of the tests."""
    return spark


@pytest.mark.usefixtures("session_here")
def test_all_is_well_here(capsys):
    assert command.doctor() == 0
    *_, evaluation, last = capsys.readouterr().out.splitlines()
    assert evaluation == "ok      evaluation: ndcg@2 is 0.8155, as it should be; workers have what they need"
    assert last == "all is well"


@pytest.mark.usefixtures("session_here")
def test_a_wrong_figure_is_a_problem(monkeypatch, capsys):
    monkeypatch.setattr(command, "_NDCG", 0.5)
    assert command.doctor() == 1
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
    monkeypatch.setattr(command, "_version", versions.get)
    assert command._package("pyarrow", "15").advice == advice


def test_a_low_limit_of_memory_is_named():
    assert command._memory(1 << 30) == (
        "memory",
        "1.0 GB",
        "an engine and its workers need 2 GB: raise the limit of the container, or ulimit -v",
    )
    assert not command._memory(2 << 30).advice
    assert 0 < command.memory_limit() < 1 << 50


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
