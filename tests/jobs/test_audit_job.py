"""The audit and the split of a job: its limits are gates, its verdict is printed, and the report has a section about it."""

import math
from functools import partial

import pytest
from helpers.run_documents import run_document, run_here

from spark_rankeval.jobs.evaluate import main

# A label and two predictions are also in training, and a label is before its end.
TABLES = {
    "predictions": "user,item,score,day\n1,a,2.0,5\n1,b,1.0,5\n2,c,1.0,5\n3,a,1.0,5\n",
    "labels": "user,item,day\n1,b,9\n2,a,3\n3,d,9\n",
    "training": "user,item,day\n1,a,1\n1,b,2\n2,b,5\n3,c,4\n",
}
COLUMNS = "user int, item string, day int"
AUDIT = """
    columns.score = "score"
    evaluation.metrics = ["rr"]
    output = { path = "FOLDER/out", run_id = "day1", report = true }
    audit = { time = "day", limits = { labels_in_training = 0.4, labels_before_user_end = 0.1, labels_outside_items = 1 } }
    gates.rr.min = 0.1
""" + "\n".join(
    f'{name} = {{ path = "FOLDER/{name}.csv", format = "csv", schema = "{schema}" }}'
    for name, schema in (
        ("predictions", COLUMNS.replace("day", "score double, day")), ("labels", COLUMNS), ("training", COLUMNS),
    )
)  # fmt: skip


@pytest.fixture
def start(spark, tmp_path, without_charts):
    for name, text in TABLES.items():
        (tmp_path / f"{name}.csv").write_text(text)
    return partial(run_here, main, tmp_path, AUDIT)


def test_limits_are_gates_and_all_is_written(spark, start, tmp_path, golden):
    golden(start(options=["--dry-run"]).scene, "dry run")
    done = start()
    golden(done.scene)
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
    for text in (
        '<section id="audit" aria-labelledby="audit-heading" class="alarm">',
        "Predictions of items that the user had in training: 2 of 4 predictions (50.0%).",
        "user=1, item=&#39;b&#39;",
        "2 of 4 gates failed.",
    ):
        assert text in done.page


def test_rows_without_times_are_refused_or_counted(start, tmp_path):
    # Metrics of labels read no training: the evaluation finds nothing wrong.
    (tmp_path / "training.csv").write_text("user,item,day\n1,a,1\n2,b,\n3,c,\n")
    done = start()
    assert done.says(3, "rows of training with a null or NaN user or item or time ('day'): 2 of 3. Fix the data")
    assert done.err.endswith("In the configuration: evaluation.on_invalid\n")
    assert not (tmp_path / "out" / "manifests").exists()
    done = start("evaluation.on_invalid=quarantine")
    left_out = "Left out: 2 of 3 rows of training (66.7%) with a null or NaN user or item or time "
    assert (done.code, f"\n{left_out}('day')." in done.out, left_out in done.page) == (4, True, True)
    reason = "a null or NaN user or item or time ('day')"
    assert run_document(tmp_path / "out")["audit"]["n_invalid"] == {"training": {"n": 2, "of": 3, "reason": reason}}


# --- labels and training of a log


LOG = "customer,product,event,day\n1,a,click,1\n1,b,click,8\n1,b,buy,9\n2,c,click,2\n2,a,buy,9\n3,d,view,9\n3,c,click,20\n"
SPLIT = """
    split = { cut = 8, horizon = 7, time = "day", grades = { click = 1, buy = 3 }, log = LOG }
    predictions = { path = "FOLDER/p.csv", format = "csv", schema = "customer int, product string, score double" }
    columns = { user = "customer", item = ["product", "product"], score = "score", relevance = "event" }
    evaluation.metrics = ["ndcg(gain='linear')@2", "novelty@2"]
    output = { path = "FOLDER/out", run_id = "day1" }
    audit.time = "day"
""".replace(
    "LOG", '{ path = "FOLDER/log.csv", format = "csv", schema = "customer int, product string, event string, day int" }'
)


@pytest.fixture
def start_split(spark, tmp_path):
    (tmp_path / "p.csv").write_text("customer,product,score\n1,a,2.0\n1,b,1.0\n2,a,1.0\n3,a,1.0\n")

    def start(*settings, log=LOG, options=()):
        (tmp_path / "log.csv").write_text(log)
        return run_here(main, tmp_path, SPLIT, *settings, options=options)

    return start


def values_of(spark, folder):
    rows = spark.read.parquet(f"{folder}/out/per_user/run_id=day1").orderBy("customer").collect()
    return [(row.customer, row[1]) for row in rows]


def test_labels_and_training_are_made_of_a_log(spark, start_split, tmp_path, golden):
    golden(start_split(options=["--dry-run"]).scene, "dry run")
    golden(start_split().scene)
    # User 1 has a in training, so b is the first of their list; user 3 has no label, because a view has no grade.
    assert values_of(spark, tmp_path)[:2] == [(1, 1.0), (2, 1.0)]
    manifest = run_document(tmp_path / "out")
    assert [manifest["split"][name] for name in ("n_training", "n_labels", "n_ungraded")] == [2, 2, 1]
    assert list(manifest["inputs"]) == ["predictions", "split.log"]
    assert manifest["audit"]["recommended_in_training"]["n"] == 1
    assert start_split("split.exclude_training=false").code == 0
    assert values_of(spark, tmp_path)[0] == (1, pytest.approx(1 / math.log2(3)))


def test_a_split_of_a_job_that_cannot_be_used_is_refused(start_split, golden):
    bad = LOG + ",a,click,9\n"
    golden(start_split(log=bad).scene, "bad rows")
    assert "invalid: 1 with a null user" in start_split("evaluation.on_invalid=drop", log=bad).out
    golden(start_split("split.cut=100").scene, "no row")
    golden(start_split("split.cut=monday", options=["--dry-run"]).scene, "no number")
