"""The audit of a job: its limits are gates, its verdict is printed, and the report has a section about it."""

import math
import re

import pytest
from helpers.run_documents import run_document

from spark_rankeval.jobs.config import parse_config
from spark_rankeval.jobs.evaluate import EvaluateConfig, main

TABLES = {
    "predictions": "user,item,score,day\n1,a,2.0,5\n1,b,1.0,5\n2,c,1.0,5\n3,a,1.0,5\n",
    "labels": "user,item,day\n1,b,9\n2,a,3\n3,d,9\n",
    "training": "user,item,day\n1,a,1\n1,b,2\n2,b,5\n3,c,4\n",
}


def start(folder, *options, **changed):
    """Run the job on tables in which a label and two predictions are also in training, and a label is before its end; its exit code."""
    sections = []
    for name, text in {**TABLES, **changed}.items():
        (folder / f"{name}.csv").write_text(text)
        sections.append(f'[{name}]\npath = "{folder}/{name}.csv"\nformat = "csv"\n')
    (folder / "job.toml").write_text(
        "\n".join(sections)
        + f"""
        [columns]
        score = "score"
        [evaluation]
        metrics = ["rr"]
        [output]
        path = "{folder}/out"
        run_id = "day1"
        report = true
        [audit]
        time = "day"
        [audit.limits]
        labels_in_training = 0.4
        labels_before_user_end = 0.1
        labels_outside_items = 1
        [gates]
        rr = {{ min = 0.1 }}
    """
    )
    return main(["--config", str(folder / "job.toml"), *options])


def test_limits_are_gates_and_all_is_written(spark, tmp_path, capsys, without_charts):
    assert start(tmp_path, "--dry-run") == 0
    planned = capsys.readouterr().out
    assert "labels_before_user_end\n" in planned
    assert "labels_outside_items            not made: there is no catalogue (items=)" in planned
    assert "out/gates/run_id=day1" in planned
    assert start(tmp_path) == 4
    out, err = capsys.readouterr()
    assert err == (
        "evaluate: gates failed: labels before their user's last row of training: share at most 0.1; found 33.3% (1 of 3); labels of "
        "items outside the catalogue: share at most 1; found not checked: there is no catalogue (items=). In the configuration: [items]\n"
    )
    leaks = "labels that training also has, labels before the end of training and labels before their user's last row of training"
    assert f"audit\nLeaked: {leaks}.\n" in out
    rows = spark.read.parquet(f"{tmp_path}/out/gates/run_id=day1").collect()
    assert {(row["metric"], row["on"], row["rule"], row["value"], row["limit"], row["passed"]) for row in rows} == {
        ("audit.labels_in_training", "share", "max", 1 / 3, 0.4, True),
        ("audit.labels_before_user_end", "share", "max", 1 / 3, 0.1, False),
        ("audit.labels_outside_items", "share", "max", None, 1.0, False),
        ("rr", "mean", "min", 1 / 6, 0.1, True),
    }
    manifest = run_document(tmp_path / "out")
    assert manifest["gates_failed"] == 2
    assert manifest["audit"]["recommended_in_training"] == {
        "check": "recommended_in_training", "result": "problem", "n": 2, "of": 4, "share": 0.5, "not_checked": "",
    }  # fmt: skip
    page = (tmp_path / "out/reports/run_id=day1/report.html").read_text()
    assert '<section id="audit" aria-labelledby="audit-heading" class="alarm">' in page
    assert "Predictions of items that the user had in training: 2 of 4 predictions (50.0%)." in page
    assert "user=1, item=&#39;b&#39;" in page
    assert "2 of 4 gates failed." in page


@pytest.mark.night
def test_rows_without_times_are_refused_or_counted(spark, tmp_path, capsys, without_charts):
    # Metrics of labels read no training: the evaluation finds nothing wrong.
    training = "user,item,day\n1,a,1\n2,b,\n3,c,\n"
    assert start(tmp_path, training=training) == 3
    err = capsys.readouterr().err
    assert "rows of training with a null or NaN user or item or time ('day'): 2 of 3. Fix the data" in err
    assert err.endswith("In the configuration: evaluation.on_invalid\n")
    assert not (tmp_path / "out" / "manifests").exists()
    assert start(tmp_path, "--set", "evaluation.on_invalid=quarantine", training=training) == 4
    left_out = "Left out: 2 of 3 rows of training (66.7%) with a null or NaN user or item or time "
    assert f"\n{left_out}('day')." in capsys.readouterr().out
    assert run_document(tmp_path / "out")["audit"]["n_invalid"] == {
        "training": {"n": 2, "of": 3, "reason": "a null or NaN user or item or time ('day')"}
    }
    assert left_out in (tmp_path / "out/reports/run_id=day1/report.html").read_text()


SMALLEST = {
    "predictions": {"path": "p"},
    "labels": {"path": "l"},
    "training": {"path": "t"},
    "columns": {"score": "score"},
    "evaluation": {"metrics": "rr"},
    "output": {"path": "o"},
}


LOG = """customer,product,event,day
1,a,click,1
1,b,click,8
1,b,buy,9
2,c,click,2
2,a,buy,9
3,d,view,9
3,c,click,20
"""
OF_SPLIT = """
    [split]
    cut = 8
    horizon = 7
    time = "day"
    grades = { click = 1, buy = 3 }
    [split.log]
"""


def start_split(folder, log=LOG, *options):
    """Run the job on a log and predictions; its exit code."""
    (folder / "log.csv").write_text(log)
    (folder / "predictions.csv").write_text("customer,product,score\n1,a,2.0\n1,b,1.0\n2,a,1.0\n3,a,1.0\n")
    (folder / "job.toml").write_text(f"""
        {OF_SPLIT}
        path = "{folder}/log.csv"
        format = "csv"
        [predictions]
        path = "{folder}/predictions.csv"
        format = "csv"
        [columns]
        user = "customer"
        item = ["product", "product"]
        score = "score"
        relevance = "event"
        [evaluation]
        metrics = ["ndcg(gain='linear')@2", "novelty@2"]
        [output]
        path = "{folder}/out"
        run_id = "day1"
        [audit]
        time = "day"
    """)
    return main(["--config", str(folder / "job.toml"), *options])


def test_labels_and_training_are_made_of_a_log(spark, tmp_path, capsys, platform):
    assert start_split(tmp_path, LOG, "--dry-run") == 0
    planned = capsys.readouterr().out
    assert "split of the log: by_time" in planned
    whole = "bigint" if platform == "sail" else "int"
    assert f"labels    customer {whole}, product string, day {whole}, event double" in planned
    assert start_split(tmp_path) == 0
    out = capsys.readouterr().out
    assert "split\nrows    7 rows; 2 in training, 4 held out, 1 after the horizon" in out
    assert "audit\nNo leak was found, but 1 of 4 checks for leaks could not be made." in out
    rows = spark.read.parquet(f"{tmp_path}/out/per_user/run_id=day1").orderBy("customer").collect()
    # User 1 has a in training, so b is the first of their list; user 3 has no label, because a view has no grade.
    assert [(row.customer, row[1]) for row in rows[:2]] == [(1, 1.0), (2, 1.0)]
    manifest = run_document(tmp_path / "out")
    assert (manifest["split"]["n_training"], manifest["split"]["n_labels"], manifest["split"]["n_ungraded"]) == (
        2,
        2,
        1,
    )
    assert list(manifest["inputs"]) == ["predictions", "split.log"]
    assert manifest["audit"]["recommended_in_training"]["n"] == 1


@pytest.mark.night
def test_predictions_keep_the_items_of_training_on_request(spark, tmp_path):
    assert start_split(tmp_path, LOG, "--set", "exclude_training=false") == 0
    rows = spark.read.parquet(f"{tmp_path}/out/per_user/run_id=day1").orderBy("customer").collect()
    assert (rows[0].customer, rows[0][1]) == (1, pytest.approx(1 / math.log2(3)))


def test_training_is_excluded_unless_the_configuration_names_something_else():
    settings = {**SMALLEST, "split": {"cut": 8, "log": {"path": "log"}}}
    del settings["labels"]
    config = parse_config(settings, EvaluateConfig)
    assert config.keys()["exclude"] == "split.exclude_training"
    named = parse_config({**settings, "exclude": {"path": "e"}}, EvaluateConfig)
    assert named.keys()["exclude"] == "[exclude]"


@pytest.mark.night
def test_a_split_of_a_job_that_cannot_be_used_is_refused(spark, tmp_path, capsys):
    assert start_split(tmp_path, LOG + ",a,click,9\n") == 3
    err = capsys.readouterr().err
    assert "log: of 8 rows 1 with a null user cannot be used; fix the data" in err
    assert "In the configuration: evaluation.on_invalid" in err
    assert start_split(tmp_path, LOG + ",a,click,9\n", "--set", "evaluation.on_invalid=drop") == 0
    assert "invalid: 1 with a null user" in capsys.readouterr().out
    assert start_split(tmp_path, LOG, "--set", "split.cut=100") == 3
    assert "the split holds no row out: no usable row is at or after the cut 100" in capsys.readouterr().err
    assert start_split(tmp_path, LOG, "--set", "split.cut=monday", "--dry-run") == 2
    words = r"\[split\]: cut must be a number, because the column 'day' is (big)?int; got 'monday'"
    assert re.search(words, capsys.readouterr().err)
