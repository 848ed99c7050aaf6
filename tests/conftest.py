"""One Spark session a test run, made when the first test asks for it, on the platform that the run is for."""

from datetime import UTC, datetime

import pytest
from helpers.documented import ROOT, examples_of
from helpers.left_out import is_left_out, reason_of
from helpers.lengths import LENGTHS, left_to, length_of
from helpers.sessions import PLATFORMS, session_of
from helpers.stored_texts import StoredTexts
from hypothesis import settings

# A busy machine is no fault of an example.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


def pytest_addoption(parser):
    parser.addoption("--platform", choices=(*PLATFORMS, "none"), default="classic", help="where the tests run Spark")
    parser.addoption("--length", choices=LENGTHS, help="run the tests of one length alone: tests/helpers/lengths.py")


def pytest_configure(config):
    config.addinivalue_line("markers", "classic_alone(need): cannot run on Spark Connect, which has no such thing")
    config.addinivalue_line("markers", "connect_alone(need): is about a Connect server, whose client knows something")
    config.addinivalue_line("markers", "not_on_sail(need): cannot run on Sail, which has no such thing")
    config.addinivalue_line("markers", "sail_alone(need): is about the engine that local.session() starts")
    config.addinivalue_line("markers", "ci: runs in .ci/run, and not in `make test`")
    config.addinivalue_line("markers", "night: runs in `make nightly` alone")


def pytest_collection_modifyitems(config, items):
    platform = config.getoption("platform")
    impossible = [item for item in items if platform in PLATFORMS and is_left_out(item, platform)]
    length = config.getoption("length")
    other = [item for item in items if length and length_of(item) != length]
    out = [*impossible, *other]
    config.left_out = sorted(f"left out: {item.nodeid}: {reason_of(item)}" for item in impossible)
    if other:
        config.left_out.append(left_to(other))
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in set(out)]


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.left_out


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """Keep what a process of pytest-xdist left out: each collects all tests, so that the last says what every other said."""
    node.config.left_out = getattr(node, "workeroutput", {}).get("left_out", getattr(node.config, "left_out", []))


def pytest_terminal_summary(terminalreporter, config):
    for line in getattr(config, "left_out", []):
        terminalreporter.write_line(line)


@pytest.fixture(scope="module")
def _stored_texts(request):
    return StoredTexts(request.path)


@pytest.fixture
def golden(_stored_texts, request):
    """Compare a text with the stored one: `golden(text)`, or `golden(text, name)` for one of several texts of a test."""

    def compare(text, name=""):
        _stored_texts.compare(f"{request.node.name}{name and f' {name}'}", text)

    return compare


@pytest.fixture(scope="session")
def platform(pytestconfig):
    return pytestconfig.getoption("platform")


@pytest.fixture(scope="session")
def _session(platform):
    assert platform in PLATFORMS, (
        "this run has no Spark; a test that starts Spark belongs in tests/spark or tests/pyspark"
    )
    with session_of(platform) as both:
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
    days = [result.to_stored(datetime(2026, 11, day, tzinfo=UTC)) for day in (16, 17)]
    first, second = (table.selectExpr("*", f"'2026-11-{16 + place}' run_id") for place, table in enumerate(days))
    return first.unionByName(second)


@pytest.fixture
def without_charts(monkeypatch):
    """Charts take nearly all the time of a report, also where a test reads its words alone."""
    from spark_rankeval.report.page import Picture

    monkeypatch.setattr("spark_rankeval.report.page.picture", lambda draw: Picture("title", "", "words", ""))
