"""Progress bars: on Spark Connect while somebody looks; nothing in a job's log, whatever the platform."""

import io
import os
import re
import subprocess
import sys
import time
from types import SimpleNamespace

import pandas as pd
import pytest
from helpers.processes import without_startup
from tqdm.auto import tqdm

from spark_rankeval import progress
from spark_rankeval.errors import InputError, MissingExtraError
from spark_rankeval.spark import progress as progress_bars

INTERVAL = "spark.connect.progress.reportInterval"


def stages(*pairs):
    return [SimpleNamespace(num_tasks=tasks, num_completed_tasks=finished) for tasks, finished in pairs]


@pytest.fixture
def looked_at(monkeypatch):
    monkeypatch.setattr(progress_bars, "_is_interactive", lambda: True)


@pytest.fixture
def session_of_connect():
    class Session:
        conf = None

        def __init__(self):
            self.handlers = []

        def registerProgressHandler(self, handler):  # noqa: N802 # Spark's name
            self.handlers.append(handler)

        def removeProgressHandler(self, handler):  # noqa: N802
            self.handlers.remove(handler)

    Session.__module__ = "pyspark.sql.connect.session"
    return Session()


@pytest.fixture
def screen():
    return io.StringIO()


@pytest.fixture
def bars(screen):
    # Drawn at once and every time, so that the test need not wait.
    return progress_bars._Bars(
        lambda: tqdm(
            total=1.0, desc="Spark", leave=False, mininterval=0, file=screen, bar_format=progress_bars._FORMAT, ncols=80
        )
    )


@pytest.mark.not_on_sail("progress")
@pytest.mark.connect_alone("progress")
def test_a_long_operation_has_a_bar_and_leaves_none(spark, looked_at, capsys, monkeypatch):
    def slow(batches):
        time.sleep(0.4)
        yield from batches

    spark.conf.set(INTERVAL, "100ms")
    try:
        with progress(spark):
            assert len(spark._client._progress_handlers) == 1
            rows = spark.range(0, 80, 1, 8).mapInPandas(slow, "id long").collect()
            shown = capsys.readouterr().err
        # On a busy machine nothing is over in half a second.
        monkeypatch.setattr(progress_bars, "_DELAY", 60)
        with progress(spark):
            spark.range(1).collect()
            short = capsys.readouterr().err
    finally:
        spark.conf.unset(INTERVAL)
    assert len(rows) == 80
    assert "of 8 tasks" in shown
    assert any(0 < int(share) < 100 for share in re.findall(r"Spark: +(\d+)%", shown))
    # The last thing written is blanks over the bar.
    assert shown.rstrip(" \r").endswith("]")
    assert shown.endswith(" \r")
    assert short == ""
    assert spark._client._progress_handlers == []


@pytest.mark.connect_alone("progress")
def test_the_handler_goes_after_an_error_and_after_the_caller_has_cleared_all(spark, looked_at):
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException), progress(spark):
        spark.table("nowhere").collect()
    assert spark._client._progress_handlers == []
    with progress(spark):
        spark.clearProgressHandlers()
    assert spark._client._progress_handlers == []


@pytest.mark.connect_alone("progress")
def test_a_handler_of_the_callers_stays(spark, looked_at):
    def handler(**report):
        pass

    spark.registerProgressHandler(handler)
    try:
        with progress(spark):
            pass
        assert spark._client._progress_handlers == [handler]
    finally:
        spark.clearProgressHandlers()


def test_what_is_no_session_is_refused_wherever_it_runs():
    with pytest.raises(InputError, match="got DataFrame"), progress(pd.DataFrame()):
        pytest.fail("the block ran")


def test_nothing_is_registered_where_nobody_looks(session_of_connect, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress(session_of_connect):
        assert session_of_connect.handlers == []


def test_a_terminal_is_looked_at_and_so_is_a_notebook(session_of_connect, monkeypatch):
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress(session_of_connect):
        assert len(session_of_connect.handlers) == 1
    monkeypatch.setattr(sys, "stderr", None)
    kernel = SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: kernel))
    with progress(session_of_connect):
        assert len(session_of_connect.handlers) == 1
    assert session_of_connect.handlers == []


@pytest.mark.night  # It starts a JVM of its own.
@pytest.mark.not_on_sail("progress")
def test_a_log_of_a_batch_has_no_bar(spark, tmp_path):
    """In a process of its own: what the JVM writes goes past Python's stderr."""
    program = (
        "import time\nfrom spark_rankeval import progress\nfrom spark_rankeval.jobs.session import job_session\n"
        "def slow(batches):\n    time.sleep(1)\n    yield from batches\n"
        "with job_session('batch') as spark, progress(spark):\n"
        "    print(len(spark.range(0, 80, 1, 4).mapInPandas(slow, 'id long').collect()))\n"
    )
    assert spark is not None
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "ignore"},
    )  # fmt: skip
    assert (done.stdout, without_startup(done.stderr), done.returncode) == ("80\n", "", 0)


def test_classic_spark_says_who_shows_its_bar(looked_at):
    session = SimpleNamespace(conf=SimpleNamespace(get=lambda name, default: default))
    with pytest.warns(UserWarning, match="has its bar turned off.*showConsoleProgress") as warned, progress(session):
        pass
    assert warned[0].filename == __file__


def test_classic_spark_that_shows_its_bar_needs_no_word(looked_at, recwarn):
    session = SimpleNamespace(conf=SimpleNamespace(get={"spark.ui.showConsoleProgress": "true"}.get))
    with progress(session):
        pass
    assert len(recwarn) == 0


def test_connect_that_reports_no_progress_says_so(session_of_connect, looked_at):
    Older = type("Session", (), {"__module__": "pyspark.sql.connect.session", "conf": None})  # noqa: N806 # a class
    with pytest.warns(UserWarning, match="before version 4.0"), progress(Older()):
        pass


def test_without_tqdm_the_extra_is_named_before_any_work(session_of_connect, looked_at, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(MissingExtraError, match=r"tqdm.*pip install 'tqdm>=4.66' "), progress(session_of_connect):
        pytest.fail("the block ran")
    assert session_of_connect.handlers == []


def test_a_bar_has_the_tasks_of_all_stages_and_goes(bars, screen):
    bars(stages=stages((4, 1), (6, 0)), inflight_tasks=2, operation_id="a", done=False)
    bars(stages=stages((4, 4), (1000, 498)), inflight_tasks=2, operation_id="a", done=False)
    shown = screen.getvalue()
    assert "Spark:  10%" in shown
    assert "1 of 10 tasks, 2 running" in shown
    assert "Spark:  50%" in shown
    assert "502 of 1,004 tasks" in shown
    bars(stages=stages((4, 4), (1000, 998)), inflight_tasks=0, operation_id="a", done=True)
    assert screen.getvalue().endswith(" \r")
    assert bars._bars == {}


def test_operations_at_once_have_a_bar_each_and_all_go(bars):
    for operation in ("a", "b"):
        bars(stages=stages((4, 1)), inflight_tasks=2, operation_id=operation, done=False)
    assert len(bars._bars) == 2
    bars.close()
    assert bars._bars == {}


@pytest.mark.parametrize("told", [None, [], stages((0, 0))], ids=["none", "empty", "no tasks"])
def test_what_has_no_tasks_has_no_bar(bars, screen, told):
    bars(stages=told, inflight_tasks=0, operation_id=None, done=False)
    bars(stages=told, inflight_tasks=0, operation_id=None, done=True)
    assert screen.getvalue() == ""


def test_a_bar_that_cannot_be_drawn_ends_no_query(screen):
    def broken():
        raise OSError("the terminal went away")

    bars = progress_bars._Bars(broken)
    bars(stages=stages((4, 1)), inflight_tasks=2, operation_id="a", done=False)
    bars(stages=stages((4, 4)), inflight_tasks=0, operation_id="a", done=True)
    bars.close()
