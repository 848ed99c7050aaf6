"""One Spark session a test run, made when the first test asks for it, on the platform that the run is for."""

from datetime import UTC, datetime

import pytest
from helpers.budget import Budget
from helpers.documented import ROOT, examples_of
from helpers.effort import FULL_LENGTH
from helpers.engines import engines_of, runs_nowhere
from helpers.left_out import is_left_out, reason_of
from helpers.sessions import PLATFORMS, session_of
from hypothesis import settings

# A busy machine is no fault of an example.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


def pytest_addoption(parser):
    parser.addoption("--platform", choices=(*PLATFORMS, "none"), default="classic", help="where the tests run Spark")
    parser.addoption(
        "--assigned", action="store_true", help="run those tests that tests/engines.toml gives to the platform"
    )
    parser.addoption("--budget", action="store_true", help="compare what the tests need with tests/budget.toml")


def pytest_configure(config):
    if config.getoption("budget"):
        config.pluginmanager.register(Budget(config), "budget")
    config.addinivalue_line("markers", "classic_alone(need): cannot run on Spark Connect, which has no such thing")
    config.addinivalue_line("markers", "connect_alone(need): is about a Connect server, whose client knows something")
    config.addinivalue_line("markers", "not_on_sail(need): cannot run on Sail, which has no such thing")
    config.addinivalue_line("markers", "sail_alone(need): is about the engine that local.session() starts")
    config.addinivalue_line(
        "markers", "night: takes long and sees little more than its neighbours; FULL_LENGTH=1 runs it, or its name"
    )


def pytest_collection_modifyitems(config, items):
    platform = config.getoption("platform")
    # What is about a Connect server runs on a row of the matrix.
    config.without_engine = [
        item.nodeid for item in items if runs_nowhere(item) and not item.get_closest_marker("connect_alone")
    ]
    if config.getoption("assigned"):
        config.hook.pytest_deselected(items=[item for item in items if platform not in engines_of(item)])
        items[:] = [item for item in items if platform in engines_of(item)]
    impossible = [item for item in items if platform in PLATFORMS and is_left_out(item, platform)]
    long = (
        []
        if FULL_LENGTH
        else [item for item in items if item.get_closest_marker("night") and not _is_named(item, config)]
    )
    out = [*impossible, *long]
    config.left_out = sorted(f"{item.nodeid}: {reason_of(item)}" for item in impossible)
    config.left_out += sorted(f"{item.nodeid}: at night" for item in long)
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in set(out)]
    # Of two processes neither waits long for the other at the end if the long files, those that meet Spark, come first.
    items.sort(key=lambda item: item.path.parent.name != "spark")


def _is_named(item, config):
    """Whether the command line, or a list of tests such as tests/platforms/differing.txt, names this test itself."""
    test, folder = item.nodeid.partition("::")[2], config.invocation_params.dir
    named = [argument.partition("::") for argument in config.args]
    of_file = [name for path, _, name in named if name and item.path == (folder / path).resolve()]
    return any(test == name or test.startswith((f"{name}[", f"{name}::")) for name in of_file)


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.left_out


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """Keep what a process of pytest-xdist left out: each collects all tests, so that the last says what every other said."""
    node.config.left_out = getattr(node, "workeroutput", {}).get("left_out", getattr(node.config, "left_out", []))


def pytest_terminal_summary(terminalreporter, config):
    for line in getattr(config, "left_out", []):
        terminalreporter.write_line(f"left out: {line}")


@pytest.fixture(scope="session")
def platform(pytestconfig):
    return pytestconfig.getoption("platform")


@pytest.fixture(scope="session")
def _session(platform, pytestconfig):
    assert platform in PLATFORMS, "this run has no Spark; a test that starts Spark belongs in tests/spark"
    with session_of(platform) as both:
        if budget := pytestconfig.pluginmanager.get_plugin("budget"):
            _, budget.actions = both
        yield both


@pytest.fixture(scope="session")
def spark(_session):
    return _session[0]


@pytest.fixture(scope="session")
def jobs_of(_session):
    """How many jobs Spark starts for an action."""
    _, actions = _session

    def started(action):
        before = actions()
        action()
        return actions() - before

    return started


@pytest.fixture(scope="session")
def tables_of_docstrings(spark):
    """What the examples of docstrings go on from: the names that the first block of docs/api.md makes."""
    names = {}
    examples_of(ROOT / "docs" / "api.md")[0].run(names)
    # Many examples read these users again.
    names["result"].per_user.cache()
    return names | {"metrics_table": nightly_metrics(spark, names["result"])}


def nightly_metrics(spark, result):
    """The table of metrics of a job that ran twice."""
    from spark_rankeval.jobs.outputs import metrics_table

    days = [metrics_table(spark, result, datetime(2026, 11, day, tzinfo=UTC)) for day in (16, 17)]
    first, second = (table.selectExpr("*", f"'2026-11-{16 + place}' run_id") for place, table in enumerate(days))
    return first.unionByName(second)


@pytest.fixture
def without_charts(monkeypatch):
    """Charts take nearly all the time of a report, also where a test reads its words alone."""
    from spark_rankeval.report.pictures import Picture

    monkeypatch.setattr("spark_rankeval.report.page.picture", lambda draw: Picture("title", "", "words", "", ""))
