"""Frozen runs of jobs: what is printed, the manifest and the status, without times, versions and places."""

import contextlib
import io
import json
import re
from pathlib import Path

from frozen.comparisons import of_new

from spark_rankeval.jobs import evaluate as evaluate_job
from spark_rankeval.jobs import runs

# What differs between two runs of the same, or between platforms.
_VOLATILE = ("started", "finished", "versions")


def run(main, w, name, config, *options, views, run_id=None):
    """Run a job whose tables are views; returns its exit code, what it printed, its manifest and its status."""
    for view, table in views.items():
        table.createOrReplaceTempView(view)
    folder = Path(w.folder) / name
    folder.mkdir(exist_ok=True)
    output = f'[output]\npath = "{folder}/out"' + (f'\nrun_id = "{run_id}"' if run_id else "")
    (folder / "job.toml").write_text(f"{config}\n{output}\n", encoding="utf-8")
    printed = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed[0]), contextlib.redirect_stderr(printed[1]):
        code = main(["--config", str(folder / "job.toml"), *options])
    assert code != 1, printed[1].getvalue()
    texts = [stream.getvalue() for stream in printed]
    texts += [file.read_text(encoding="utf-8") for file in _documents(folder / "out", run_id or "*")]
    texts = [text.replace(w.folder, "FOLDER") for text in texts]
    return [f"exit code {code}", *texts[:2], *map(_lasting, texts[2:])]


def _documents(output, run_id):
    """The manifest and the status of a run."""
    return [*output.glob(f"manifests/run_id={run_id}/*.txt"), *output.glob(f"status/run_id={run_id}/*.json")]


def _lasting(text):
    # How many files a table has differs between engines.
    text = re.sub(r'"n_files": \d+', '"n_files": 1', text)
    return {name: value for name, value in json.loads(text).items() if name not in _VOLATILE}


def views(w):
    return {"frozen_new": w.new, "frozen_labels": w.labels, "frozen_people": w.people, "frozen_items": w.items,
            "frozen_training": w.training, "frozen_users": w.per_user, "frozen_trial": of_new(w), "frozen_log": w.log}  # fmt: skip


EVALUATE = """
[predictions]
table = "frozen_new"
[labels]
table = "frozen_labels"
[columns]
score = "score"
relevance = "grade"
"""
NIGHTLY = (
    EVALUATE.replace("frozen_new", "frozen_models").replace("[columns]", '[columns]\nmodel = "model"')
    + """
[attributes]
table = "frozen_people"
[evaluation]
metrics = ["ndcg@5", "rr", "catalogue_coverage(among='items')@5"]
dialect = "standard"
by = ["country"]
cluster = "home"
quantiles = [0.25, 0.5]
on_invalid = "quarantine"
[items]
table = "frozen_items"
[gates]
rr = { min = 0.2, max_drop = 0.01 }
"""
)


def two_nights(w):
    """The second of two runs, which looks back at the first; comparisons of what it stored; and the tables of all these."""
    for night, half in (("monday", "user < 20"), ("tuesday", "user >= 16")):
        tables = {"frozen_models": w.models.where(half), "frozen_labels": w.labels.where(half)}
        second = run(evaluate_job.main, w, "nights", NIGHTLY, views=views(w) | tables, run_id=night)
    of_run = f'[results]\noutput = "{w.folder}/nights/out"\nrun_id = "tuesday"\n'
    compared = run(
        runs.compare_main, w, "of_run", of_run + '[comparison]\nbaseline = "old"\nby = ["country"]\nreplicates = 99',
        views={}, run_id="again",
    )  # fmt: skip
    grouped = run(
        runs.groups_main, w, "of_trial",
        '[results]\ntable = "frozen_trial"\n[experiment]\nbaseline = "control"\ngroup = "variant"\nmetrics = ["rr"]',
        views=views(w), run_id="trial",
    )  # fmt: skip
    stored = [
        w.spark.read.parquet(f"{w.folder}/{folder}").where(rows).drop("time")
        for folder, rows in (
            ("nights/out/metrics", "metric = 'rr' AND slice = 'all'"), ("nights/out/gates", "true"),
            ("of_run/out/comparisons", "metric = 'rr'"), ("of_trial/out/group_comparisons", "true"),
        )
    ]  # fmt: skip
    return [second, compared, grouped[0], *stored]


RUNS = {
    "a job that evaluates": lambda w: run(
        evaluate_job.main, w, "evaluate",
        EVALUATE + """
        [attributes]
        table = "frozen_people"
        [items]
        table = "frozen_items"
        [training]
        table = "frozen_training"
        [evaluation]
        metrics = ["ndcg@5", "rr", "novelty@5", "gini@5"]
        model = "new"
        by = ["country"]
        item_by = ["provider"]
        on_invalid = { invalid_facts = "drop" }
        [gates]
        rr = { min = 0.1, max_drop = 0.1 }
        [audit]
        limits = { labels_in_training = 0.9 }
        """,
        views=views(w),
    ),
    "a job whose gate fails": lambda w: run(
        evaluate_job.main, w, "gate",
        EVALUATE + '[evaluation]\nmetrics = { first = "rr" }\ndialect = "trec_eval"\n[gates]\nfirst = { min = 0.99 }',
        "--format", "trec", views=views(w),
    ),
    "a job that splits a log": lambda w: run(
        evaluate_job.main, w, "split",
        """
        [predictions]
        table = "frozen_new"
        [split]
        cut = 6
        time = "day"
        grades = { click = 1, buy = 3 }
        [split.log]
        table = "frozen_log"
        [columns]
        score = "score"
        relevance = "event"
        [evaluation]
        metrics = ["ndcg@5"]
        """,
        views=views(w),
    ),
    "a dry run": lambda w: run(
        evaluate_job.main, w, "dry", EVALUATE + '[evaluation]\nmetrics = ["ndcg@5", "rr"]', "--dry-run", views=views(w)
    ),
    "a job with a wrong configuration": lambda w: run(
        evaluate_job.main, w, "wrong", EVALUATE + '[evaluation]\nmetrics = ["ndgc@5"]\nties = "up"', views=views(w)
    ),
    "a job with bad data": lambda w: run(
        evaluate_job.main, w, "bad", EVALUATE + '[evaluation]\nmetrics = ["rr"]',
        views={**views(w), "frozen_new": w.new.unionByName(w.new.where("user = 0 AND place = 1"))},
    ),
    "a job that compares": lambda w: run(
        runs.compare_main, w, "compare",
        '[results]\ntable = "frozen_users"\n[comparison]\nbaseline = "old"\nmetrics = ["rr"]\nby = ["device"]\nreplicates = 99',
        run_id="first", views=views(w),
    ),
    "a job that compares groups": lambda w: run(
        runs.groups_main, w, "groups",
        '[results]\ntable = "frozen_trial"\n[experiment]\nbaseline = "control"\ngroup = "variant"\nmetrics = ["rr"]',
        run_id="first", views=views(w),
    ),
    "two nights": two_nights,
}  # fmt: skip
