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


def test_every_target_is_read_from_runs_that_there_are(writer, reports):
    from benchmarks.runs import RUNS
    from benchmarks.targets import TARGETS

    assert {name for target in TARGETS for name in target.runs} <= set(RUNS)
    assert {"kernel", "long"} <= set(reports) <= set(RUNS)
    assert len(TARGETS) >= 22


def test_a_target_that_is_missed_says_so():
    from benchmarks.targets import outcomes, table

    fast, slow = ({"kernel": {"50 and 10": nanoseconds, "500 and 50": 49.0}} for nanoseconds in (19.5, 20.5))
    assert "MISSED" not in table(fast)
    assert "MISSED" in table(slow)
    assert "not run" in table(slow)
    missed = [target.work for target, figure in outcomes(slow) if figure is not None and not target.is_met(figure)]
    assert missed == ["kernel, 50 predictions and 10 labels a user"]
    ratio = {"long": {"best_seconds": {"shuffle": 2.0, "many": 3.0, "spark-twenty": 60.0, "twenty": 3.1}}}
    found = {target.work: figure for target, figure in _of(ratio)}
    assert found["RankingEvaluator's 20 values one by one ÷ the 20 here"] == pytest.approx(60 / 3.1)


def _of(reports):
    from benchmarks.targets import TARGETS

    for target in TARGETS:
        try:
            yield target, target.figure(reports)
        except (KeyError, ValueError):
            continue


def test_the_pages_have_the_figures_that_were_measured(writer, reports):
    for path in writer["PAGES"]:
        text = path.read_text()
        assert "<!-- figures: long -->" in text
        assert writer["page"](text, reports) == text, f"{path.name}: run python tools/write_performance.py"
        slower = {**reports["long"], "best_seconds": dict.fromkeys(reports["long"]["best_seconds"], 9.87)}
        assert "9.87" in writer["page"](text, reports | {"long": slower})
        assert "Not measured yet: `make benchmark-check RUNS=long`" in writer["page"](text, {})


def test_the_picture_shows_the_growth_that_was_measured(writer):
    import altair as alt

    sizes = {"1m": (0.4, 0.6), "10m": (2.0, 3.2), "100m": (21.0, 33.0)}
    reports = {run: {"best_seconds": {"shuffle": shuffle, "many": many}} for run, (shuffle, many) in sizes.items()}
    chart = writer["chart"](reports).to_dict()
    assert alt.LayerChart.from_dict(chart)
    (rows,) = chart["datasets"].values()
    assert {row["predictions"] for row in rows} == {1_000_000, 10_000_000, 100_000_000}
    assert {round(row["µs a row"], 2) for row in rows} == {0.4, 0.6, 0.2, 0.32, 0.21, 0.33}


def test_what_was_measured_takes_the_place_of_the_same_runs(writer, tmp_path):
    kept, measured = tmp_path / "kept.json", tmp_path / "measured.json"
    kept.write_text('{"long": {"seconds": 1}, "kernel": {"seconds": 2}}')
    measured.write_text('{"kernel": {"seconds": 3}}')
    reports = writer["taken_over"](measured, kept)
    assert reports == {"long": {"seconds": 1}, "kernel": {"seconds": 3}}
    assert json.loads(kept.read_text()) == reports
