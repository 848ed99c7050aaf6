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
    ratio = {"long": {"best_seconds": {"shuffle": 2.0, "many": 3.0, "spark-twenty": 60.0, "twenty": 3.1}}}
    found = {target.work: figure for target, figure in _of(ratio)}
    assert found["RankingEvaluator's 20 values one by one ÷ the 20 here"].value == pytest.approx(60 / 3.1)


def test_a_target_below_what_nobody_can_do_without_says_its_floor():
    from benchmarks.targets import TARGETS, outcomes, table

    def verdict(**seconds):
        times = {"grouped": 2.0, "shuffle": 1.0, "spark": 1.0, "one": 1.0, "unpruned": 1.0} | seconds
        return outcomes({"logs": {"best_seconds": times}}, TARGETS)[0].verdict

    assert verdict(many=2.2) == "met"
    assert verdict(many=2.6, smallest=2.2) == verdict(many=2.6) == "missed"
    assert verdict(many=2.6, smallest=2.4) == "floor: 1.2 ×"
    times = dict.fromkeys(("grouped", "shuffle", "spark", "one", "unpruned"), 2.0) | {"many": 2.6, "smallest": 2.4}
    assert "floor: 1.2 ×" in table({"logs": {"best_seconds": times}})


def test_a_ratio_has_the_spread_of_its_rounds():
    from benchmarks.ratios import Figure, ratio, slower_over_faster

    report = {
        "seconds": {"many": [3.0, 2.0, 4.0], "shuffle": [2.0, 2.0, 1.0]},
        "best_seconds": {"many": 2.0, "shuffle": 1.0},
    }
    assert ratio(report, "many", "shuffle") == Figure(2.0, 1.0, 4.0)
    assert ratio(report, "many", "shuffle").spread == "1.00–4.00"
    assert slower_over_faster(report, "shuffle", "many") == Figure(2.0, 1.0, 4.0)
    # Older figures have no rounds, and of one round there is no spread.
    without = ratio({"best_seconds": report["best_seconds"]}, "many", "shuffle")
    assert (without, without.spread) == (Figure(2.0), "")
    single = report | {"seconds": {"many": [2.0], "shuffle": [1.0, 2.0]}}
    assert ratio(single, "many", "shuffle") == Figure(2.0)


def test_a_peer_is_compared_with_ours_before_and_after_it_in_the_same_run():
    from benchmarks.targets import TARGETS

    times = {"theirs": {"twenty": [60.0], "beyond": [90.0]}, "ours": {"twenty": [3.0, 2.0], "beyond": [4.0, 3.0]}}
    target = next(target for target in TARGETS if target.runs == ("replay",))
    assert target.figure({"replay": times}) == (30.0, 20.0, 30.0)


def _of(reports):
    from benchmarks.targets import TARGETS

    for target in TARGETS:
        try:
            yield target, target.figure(reports)
        except (KeyError, ValueError):
            continue


@pytest.fixture
def measured():
    """Reports with the rounds of every work, as a whole run has them."""
    from dataclasses import asdict

    from benchmarks.runs import MEASUREMENTS

    def report(measurement):
        best = dict.fromkeys(measurement.works, 9.87)
        rounds = {work: [9.87, 9.87 + place] for place, work in enumerate(measurement.works)}
        setting = asdict(measurement) | {"cores": 2}
        times = {"best_seconds": best, "median_seconds": best, "seconds": rounds}
        return {"setting": setting, **times, "worker_megabytes": 200, "sail_megabytes": 900}

    reports = {name: report(measurement) for name, measurement in MEASUREMENTS.items()}
    trec = dict.fromkeys(("trec-parquet", "trec"), 12.5)
    reports["trec"] = reports["long"] | {"best_seconds": trec, "seconds": {}, "pandas": {"seconds": [40.0, 50.0]}}
    peer = {"theirs": {"twenty": [60.0], "beyond": [9.0]}}
    for ours in ("ours", "sail"):
        peer[ours] = {f"{work}{part}": [2.0] for work in ("twenty", "beyond") for part in ("", "-floor")}
    reports |= {"replay": peer, "recommenders": peer}
    totals = {"pytrec_eval": 30.0, "ranx": 60.0, "ours": 20.0, "sail": 4.0}
    reports["in-memory-10m"] = {name: {"total": total} for name, total in totals.items()}
    return reports


def test_the_pages_have_the_figures_that_were_measured(writer, reports, measured):
    for path in writer["PAGES"]:
        text = path.read_text()
        assert "<!-- figures: " in text
        assert writer["page"](text, reports) == text, f"{path.name}: run python tools/write_performance.py"
        written = writer["page"](text, measured)
        assert written != writer["page"](text, {})
        # Of the targets alone some lack their runs.
        n_lists = sum(text.count(f"<!-- figures: {targets} -->") for targets in ("targets", "nightly"))
        assert written.count("Not measured yet") == n_lists
        assert "Not measured yet: `make benchmark-check RUNS=" in writer["page"](text, {})


def test_a_ratio_stands_in_a_page_with_the_spread_of_its_rounds(writer, measured):
    block = "<!-- figures: {} -->\n\n<!-- end -->".format
    targets = writer["page"](block("targets"), measured)
    # The rounds of the bare shuffle, first in the turn, and of 30 values, fifth: 9.87 and 9.87; 9.87 and 13.87.
    assert "| … ÷ bare shuffle | ≤ 1.8 × | 1 × | 1.00–1.41 | met |" in targets
    assert "| bare shuffle of both by user (the floor) | 9.87 | 1.00 |  |" in writer["page"](block("logs"), measured)
    assert "| evaluate, 30 values | 9.87 | 1.00 | 1.00–1.41 |" in writer["page"](block("logs"), measured)
    taken = "take **9.9 s** on 2 cores.\nOn Sail they take **9.9 s**. Spark's own evaluator takes 9.9 s for one value"
    assert taken in writer["page"](block("gain"), measured)
    row = "| RePlay, 20 values | 60.0 | 2.0 | 2.0 | 30.0, on Sail 30.0 |"
    assert row in writer["page"](block("gain"), measured)
    assert "| pandas alone: read TREC's files, and compute ndcg@10 | 40.00 | 3.20 |" in writer["page"](
        block("trec"), measured
    )


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
