"""Frozen calls that read the files of ``tests/golden/frozen/stored``, which ``write_stored.py`` wrote."""

import json
import shutil
from pathlib import Path

from frozen.jobs import EVALUATE, STORED, run, views

from spark_rankeval import BCa, Result, all_pairs, compare, compare_groups, history, merge, score_users, summarise
from spark_rankeval.jobs import compare as compare_job
from spark_rankeval.jobs import evaluate as evaluate_job
from spark_rankeval.jobs.config import Output
from spark_rankeval.jobs.trend import read_history


def parquet(w, path):
    return w.spark.read.parquet(f"{STORED}/{path}")


def per_user(w, day="tuesday"):
    return parquet(w, f"evaluation/per_user/run_id={day}")


def of_model(w, name, day="tuesday"):
    return per_user(w, day).where(f"model = '{name}'").drop("model")


def weighted():
    return Result.load(STORED / "weighted.json")


def manifests():
    return [json.loads(file.read_text()) for file in sorted(STORED.glob("evaluation/manifests/*/*.txt"))]


def copied(w, name):
    """A copy of the runs, to which a job adds one."""
    folder = Path(w.folder) / name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(STORED / "evaluation", folder / "out")
    return folder


def look_back(w):
    """A job that compares its figures with those of the stored runs."""
    copied(w, "back")
    config = (
        EVALUATE
        + """
    [evaluation]
    metrics = ["ndcg@5", "rr"]
    dialect = "standard"
    model = "new"
    [gates]
    rr = { max_drop = 0.0, same_labels = true }
    "ndcg@5" = { max_rise_share = 0.01, on = "ci_low" }
    """
    )
    return run(evaluate_job.main, w, "back", config, run_id="friday", views=views(w))


def other_labels(w):
    """A stored model beside one that is evaluated now, on other labels."""
    fresh = score_users(w.new, w.labels, ["rr"], score="score", relevance="grade", dialect="standard")
    return compare({"stored": of_model(w, "new"), "fresh": fresh}, "stored", metrics="rr", cluster=())


FILES = {
    "a stored result": lambda w: [weighted(), repr(weighted())],
    "a stored result in tables": lambda w: [weighted().to_markdown(), weighted().gaps("device").to_pandas()],
    "a table of metrics": lambda w: parquet(w, "evaluation/metrics").where("metric = 'rr' AND slice = 'all'").drop("time"),
    "a merged table of metrics": lambda w: merge(parquet(w, "evaluation/metrics").where("metric NOT LIKE 'catalogue%'"), manifests()),
    "a history": lambda w: [
        history(parquet(w, "evaluation/metrics"), slice="country=at").to_pandas().drop(columns="time"),
        dict(read_history(w.spark, Output(str(STORED / "evaluation"))).failed),
    ],
    "gates": lambda w: parquet(w, "evaluation/gates").drop("time"),
    "a table of comparisons": lambda w: parquet(w, "comparison/comparisons").drop("time"),
    "a table of comparisons of groups": lambda w: parquet(w, "groups/group_comparisons").drop("time"),
}  # fmt: skip
# Calls that need the marks of columns or the type of times, which Sail does not find in files that Spark wrote.
OF_SPARK = {
    "a job that looks back": look_back,
    "users of a run": lambda w: per_user(w, "monday"),
    "a summary of users of a run": lambda w: summarise(per_user(w), by="country", quantiles=(0.25, 0.5)),
    "a bootstrap of users of a run": lambda w: summarise(per_user(w), ci=BCa(replicates=99), cluster=()),
    "a summary of SNIPS": lambda w: [summarise(parquet(w, "snips")), parquet(w, "snips")],
    "a comparison of users of a run": lambda w: compare(per_user(w), "old", by="country", replicates=99),
    "a comparison of both runs": lambda w: compare(
        {day: of_model(w, "new", day) for day in ("monday", "tuesday")}, "monday", metrics="rr"
    ),
    "all pairs of users of a run": lambda w: all_pairs({"new": of_model(w, "new"), "old": of_model(w, "old")}),
    "groups of users of a run": lambda w: compare_groups(
        of_model(w, "new").where("country IS NOT NULL"), "at", group="country", metrics="rr"
    ),
    "a model evaluated now": other_labels,
    "a job that compares users of a run": lambda w: run(
        compare_job.main, w, "of_run",
        f'[results]\noutput = "{STORED}/evaluation"\nrun_id = "monday"\n[comparison]\nbaseline = "old"\nreplicates = 99',
        views={}, run_id="again",
    ),
}  # fmt: skip
