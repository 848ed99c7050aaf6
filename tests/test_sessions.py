"""`session()` gives the session that runs, else PySpark's, else Sail's; jobs choose in the same way."""

import pytest

from spark_rankeval import session
from spark_rankeval.errors import EngineError
from spark_rankeval.jobs import command as of_jobs

RUNNING, SPARK, SAIL = "running", "PySpark's", "Sail's"


@pytest.fixture
def machine(monkeypatch):
    """A machine with some engines, on which a session may run."""

    def has(*, running=None, java=False, sail=False):
        for name in ("SPARK_REMOTE", "MASTER", "DATABRICKS_RUNTIME_VERSION"):
            monkeypatch.delenv(name, raising=False)
        reason = "" if java else "Spark needs Java, and this machine has none"
        monkeypatch.setattr(of_jobs.local, "active_session", lambda: running)
        monkeypatch.setattr(of_jobs.local, "session", lambda **_: SAIL)
        monkeypatch.setattr(of_jobs.local, "check_installed", lambda: None)
        monkeypatch.setattr(of_jobs, "_checked_engine", lambda *_: None)
        monkeypatch.setattr(of_jobs, "why_spark_does_not_start", lambda: reason)
        monkeypatch.setattr(of_jobs, "_started", lambda _: SPARK if java else of_jobs._start_locally(None))
        monkeypatch.setattr(of_jobs, "find_spec", lambda _: "pysail" if sail else None)

    return has


@pytest.mark.parametrize(
    ("engines", "expected"),
    [
        ({"running": RUNNING, "java": True, "sail": True}, RUNNING),
        ({"running": RUNNING}, RUNNING),
        ({"java": True, "sail": True}, SPARK),
        ({"java": True}, SPARK),
        ({"sail": True}, SAIL),
    ],
)
def test_the_session_that_there_is_comes_first_and_then_spark_and_then_sail(machine, engines, expected):
    machine(**engines)
    assert session() == expected


def test_a_machine_without_an_engine_says_what_it_lacks(machine):
    machine()
    with pytest.raises(EngineError, match=r"^Spark needs Java, and this machine has none"):
        session()
