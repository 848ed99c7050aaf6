"""Targets are read from runs that there are, and what pages say of speed is what was measured."""

import json
from pathlib import Path
from runpy import run_path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def writer():
    return run_path(str(ROOT / "tools" / "write_performance.py"))


@pytest.fixture(scope="module")
def reports():
    return json.loads((ROOT / "benchmarks" / "figures.json").read_text())


def test_every_target_is_read_from_runs_that_there_are(reports):
    from benchmarks.runs import RUNS
    from benchmarks.targets import NIGHTLY, TARGETS

    targets = (*TARGETS, *NIGHTLY)
    assert {name for target in targets for name in target.runs} <= set(RUNS)
    assert {"kernel"} <= set(reports) <= set(RUNS)
    assert len(targets) >= 40


def test_a_target_that_is_missed_says_so():
    from benchmarks.targets import NIGHTLY, outcomes, table

    fast, slow = ({"kernel": {"50 and 10": nanoseconds, "500 and 50": 49.0}} for nanoseconds in (19.5, 20.5))
    assert "MISSED" not in table(fast)
    assert "MISSED" in table(slow)
    assert "not run" in table(slow)
    missed = [outcome.target.work for outcome in outcomes(slow, NIGHTLY) if outcome.verdict == "missed"]
    assert missed == ["kernel, 50 predictions and 10 labels a user"]


def test_the_pages_have_the_figures_that_were_measured(writer, reports):
    for path in writer["PAGES"]:
        text = path.read_text()
        assert "<!-- figures: " in text
        assert writer["page"](text, reports) == text, f"{path.name}: run python tools/write_performance.py"
