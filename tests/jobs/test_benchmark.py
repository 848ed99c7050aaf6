"""The benchmark runs, at a size that says nothing about speed."""

import json

import pandas as pd
import pytest

from benchmarks.counted import compare, counted
from benchmarks.works import BEYOND_ACCURACY
from spark_rankeval.metrics import parse_metric


@pytest.fixture
def run(run_job, tmp_path):
    """The benchmark measures beside Spark's own evaluator, so in a classic session of its own, wherever these tests run."""
    return lambda *arguments: run_job("benchmark.py", *arguments, cwd=tmp_path)


def test_it_times_works_and_says_by_what_they_are_divided(run, tmp_path):
    file = tmp_path / "figures.json"
    works = "shuffle,many,per-user,spark,arrays,arrays-spark,all-lists"
    done = run(
        "--users", "300", "--predictions", "20", "--rounds", "1", "--warm-up", "0", "--only", works, "--json", str(file)
    )
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(file.read_text())
    assert list(report["best_seconds"]) == works.split(",")
    best = report["best_seconds"]
    assert report["ratios"]["many / shuffle"] == pytest.approx(best["many"] / best["shuffle"], abs=0.02)
    assert report["setting"]["shape"]["users"] == 300
    assert report["worker_megabytes"] > 30
    assert "300 users x 20 predictions (equal), 10 labels, long ids" in done.stdout
    assert "evaluate, 30 values" in done.stdout
    # Values of all lists are counted once more, from many partitions.
    assert set(report["counted_by_pandas"]) == {str(parse_metric(metric)) for metric in BEYOND_ACCURACY["all-lists"]}
    assert "as pandas counts them" in done.stdout


def test_a_value_that_pandas_counts_otherwise_is_told():
    predictions = pd.DataFrame({"user": [1, 1, 2], "item": [7, 8, 7], "score": [0.5, 0.4, 0.1]})
    expected = counted(predictions, pd.Series([7, 8, 9]))
    assert expected["catalogue_coverage@10"] == pytest.approx(2 / 3)
    assert expected["personalisation@10"] == pytest.approx(1 - 1 / 1.5)
    compare(expected, expected)
    with pytest.raises(ValueError, match="gini@10: evaluate gives 2"):
        compare(expected | {"gini@10": 2.0}, expected)


def test_a_check_of_some_runs_keeps_the_others(run, tmp_path):
    file = tmp_path / "figures.json"
    file.write_text('{"1m": {"best_seconds": {}}}')
    done = run("--check", "--runs", "kernel", "--json", str(file))
    report = json.loads(file.read_text())
    assert set(report) == {"1m", "kernel"}
    assert all(1 < value < 10_000 for value in report["kernel"].values())
    assert done.returncode == ("MISSED" in done.stdout)
    assert "not run" in done.stdout


@pytest.mark.parametrize(("option", "value"), [("--runs", "long,fast"), ("--only", "many,fast")])
def test_a_name_that_there_is_not_is_told(job_module, capsys, option, value):
    with pytest.raises(SystemExit) as caught:
        job_module("benchmark").main(["--check", option, value])
    assert caught.value.code == 2
    assert "'fast' is none of" in capsys.readouterr().err
