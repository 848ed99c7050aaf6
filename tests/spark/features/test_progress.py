"""Progress bars: on Spark Connect while somebody looks; nothing in a job's log, whatever the platform."""

import io
import sys
from types import SimpleNamespace

import pandas as pd
import pytest
from tqdm.auto import tqdm

from spark_rankeval import progress
from spark_rankeval.errors import InputError, MissingExtraError
from spark_rankeval.spark import engine as progress_bars


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
    look = {"bar_format": progress_bars._FORMAT, "mininterval": 0, "leave": False, "ncols": 80}
    return progress_bars._Bars(lambda: tqdm(total=1.0, desc="Spark", file=screen, **look))


def report(bars, stages, done=False, operation="a"):
    told = stages and [SimpleNamespace(num_tasks=tasks, num_completed_tasks=finished) for tasks, finished in stages]
    bars(stages=told, inflight_tasks=0 if done else 2, operation_id=operation, done=done)


@pytest.mark.connect_alone("progress")
def test_the_handler_goes_after_an_error_and_one_of_the_callers_stays(spark, looked_at):
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException), progress(spark):
        spark.table("nowhere").collect()
    assert spark._client._progress_handlers == []
    with progress(spark):
        spark.clearProgressHandlers()
    assert spark._client._progress_handlers == []
    spark.registerProgressHandler(print)
    try:
        with progress(spark):
            pass
        assert spark._client._progress_handlers == [print]
    finally:
        spark.clearProgressHandlers()


def test_what_is_no_session_is_refused_wherever_it_runs():
    with pytest.raises(InputError, match="got DataFrame"), progress(pd.DataFrame()):
        pytest.fail("the block ran")


def test_a_terminal_or_a_notebook_is_looked_at_and_nothing_else(session_of_connect, monkeypatch):
    def registered():
        with progress(session_of_connect):
            return len(session_of_connect.handlers)

    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    assert registered() == 0
    monkeypatch.setattr(screen, "isatty", lambda: True, raising=False)
    assert registered() == 1
    monkeypatch.setattr(sys, "stderr", None)
    kernel = SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: kernel))
    assert registered() == 1
    assert session_of_connect.handlers == []


def test_classic_spark_says_who_shows_its_bar_unless_it_does(looked_at, recwarn):
    def session_of(settings):
        return SimpleNamespace(conf=SimpleNamespace(get=lambda name, default=None: settings.get(name, default)))

    shown, hidden = session_of({"spark.ui.showConsoleProgress": "true"}), session_of({})
    with progress(shown):
        assert len(recwarn) == 0
    with pytest.warns(UserWarning, match="has its bar turned off.*showConsoleProgress") as warned, progress(hidden):
        pass
    assert warned[0].filename == __file__


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
    report(bars, [(4, 1), (6, 0)])
    report(bars, [(4, 4), (1000, 498)])
    shown = screen.getvalue()
    for words in ("Spark:  10%", "1 of 10 tasks, 2 running", "Spark:  50%", "502 of 1,004 tasks"):
        assert words in shown
    report(bars, [(4, 4), (1000, 998)], done=True)
    assert screen.getvalue().endswith(" \r")
    assert bars._bars == {}


def test_operations_at_once_have_a_bar_each_and_all_go(bars):
    for operation in ("a", "b"):
        report(bars, [(4, 1)], operation=operation)
    assert len(bars._bars) == 2
    bars.close()
    assert bars._bars == {}


@pytest.mark.parametrize("stages", [None, [], [(0, 0)]], ids=["none", "empty", "no tasks"])
def test_what_has_no_tasks_has_no_bar(bars, screen, stages):
    for done in (False, True):
        report(bars, stages, done, operation=None)
    assert screen.getvalue() == ""


def test_a_bar_that_cannot_be_drawn_ends_no_query():
    def broken():
        raise OSError("the terminal went away")

    bars = progress_bars._Bars(broken)
    report(bars, [(4, 1)])
    report(bars, [(4, 4)], done=True)
    bars.close()
