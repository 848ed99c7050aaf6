"""A job that ranks the whole catalogue from vectors leaves what the job of the table of all scores leaves."""

import contextlib
import io
import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
from chispa import assert_df_equality

from spark_rankeval.jobs.evaluate import main

N_USERS, N_ITEMS = 20, 12
METRICS = ["ndcg@3", "rr", "auc"]


def tables(spark):
    """Vectors of small whole numbers, whose scores often tie; labels, training data; and the table of all scores."""
    rng = np.random.default_rng(8)
    users, items = (rng.integers(-2, 3, (n, 3)).astype(float) for n in (N_USERS, N_ITEMS))
    pairs = list(itertools.product(range(N_USERS), range(N_ITEMS)))
    # An item is labelled, known from training, or neither.
    kind = rng.choice(["label", "training", ""], len(pairs), p=[0.15, 0.2, 0.65])
    labels = [(*pair, float(rng.integers(1, 4))) for pair, of in zip(pairs, kind, strict=True) if of == "label"]
    known = [pair for pair, of in zip(pairs, kind, strict=True) if of == "training"]
    parity = ["even", "odd"]
    scores = [
        (user, item, float(users[user] @ items[item] + item % 3), parity[user % 2])
        for user, item in pairs
        if item != N_ITEMS - 1
    ]
    # One row of each table is of nobody, or has no vector.
    user_rows = [(user, users[user].tolist(), parity[user % 2]) for user in range(N_USERS)]
    item_rows = [(item, items[item].tolist(), float(item % 3)) for item in range(N_ITEMS)]
    return {
        "users": spark.createDataFrame(
            [*user_rows, (None, [1.0] * 3, "odd")], "user int, factors array<double>, parity string"
        ),
        "items": spark.createDataFrame(
            [*item_rows, (N_ITEMS, None, 0.0)], "item int, factors array<double>, bias double"
        ),
        "candidates": spark.createDataFrame(
            [(item,) for item in range(N_ITEMS + 1) if item != N_ITEMS - 1], "item bigint"
        ),
        "labels": spark.createDataFrame(labels, "user int, item int, grade double"),
        "training": spark.createDataFrame(known, "user int, item int"),
        "scores": spark.createDataFrame(scores, "user int, item int, score double, parity string"),
    }


@pytest.fixture(scope="module")
def folder(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("vectors")
    for name, frame in tables(spark).items():
        frame.coalesce(1).write.parquet(str(folder / name))
    return folder


def settings(folder, columns, **sections):
    return {
        **sections,
        "labels": {"path": f"{folder}/labels"},
        "exclude": {"path": f"{folder}/training"},
        "columns": {"relevance": "grade", **columns},
        "evaluation": {"metrics": METRICS, "model": "mf", "by": "parity", "on_invalid": "quarantine"},
    }


def of_vectors(folder, **changed):
    sections = {name: {"path": f"{folder}/{name}"} for name in ("users", "items", "candidates")}
    sections["users"]["options"] = {"token": "hunter2"}
    sections |= {"vector": "factors", "item_bias": "bias"} | changed
    return settings(folder, {}, vectors=sections)


def start(folder, name, config, *options):
    file, out, err = folder / f"{name}.yaml", io.StringIO(), io.StringIO()
    output = {"path": f"{folder}/{name}", "run_id": "day", **config.pop("output", {})}
    # JSON is YAML.
    file.write_text(json.dumps({**config, "output": output}))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["--config", str(file), *options])
    return SimpleNamespace(code=code, out=out.getvalue(), err=err.getvalue(), output=folder / name)


@pytest.fixture(scope="module")
def run(folder):
    """A run with all outputs and one gate that fails."""
    gates = {"ndcg@3": {"min": 0.01}, "odd": {"metric": "rr", "slice": "parity=odd", "min": 2.0}}
    further = {"output": {"report": True}, "report": {"dialects": ["lenskit"]}, "gates": gates}
    return start(folder, "gated", of_vectors(folder) | further)


def test_vectors_and_the_rows_of_all_scores_are_models_of_one_job_with_the_same_figures(spark, folder):
    models = {"mf": of_vectors(folder)["vectors"], "rows": {"path": f"{folder}/scores"}}
    config = settings(folder, {"score": "score"}, models=models)
    del config["evaluation"]["model"]
    job = start(folder, "both", config)
    assert job.code == 0, job.err
    metrics = spark.read.parquet(f"{job.output}/metrics").drop("fingerprints").orderBy("metric", "slice")
    figures = [metrics.where(f"model = '{name}'").drop("model").collect() for name in models]
    assert len(figures[0]) == 3 * len(METRICS)
    assert repr(figures[0]) == repr(figures[1])
    per_user = spark.read.parquet(f"{job.output}/per_user")
    users = [per_user.where(f"model = '{name}'") for name in models]
    # Predictions are other tables, and items without a vector are known of vectors alone.
    own = ("model", "predictions_hash", "n_labels_without_vector")
    shared = [name for name in per_user.columns if name not in own]
    assert {"parity", "ndcg_at_3", "auc", "n_predictions", "n_excluded"} <= {*shared}
    assert_df_equality(
        *(frame.where("user IS NOT NULL").select(*shared) for frame in users),
        ignore_row_order=True,
        ignore_nullable=True,
        ignore_metadata=True,
        allow_nan_equality=True,
    )


@pytest.mark.night
def test_rejected_rows_gates_and_the_report_are_written(spark, run):
    assert run.code == 4, run.err
    assert "parity=odd" in run.err
    rejected = {
        (row.table, row.user, row.item, row.reason) for row in spark.read.parquet(f"{run.output}/quarantine").collect()
    }
    assert rejected == {
        ("predictions", None, None, "null user (user)"),
        ("catalogue", None, N_ITEMS, "null vector"),
    }
    gates = spark.read.parquet(f"{run.output}/gates").collect()
    assert len(gates) == 2
    (report,) = (run.output / "reports").rglob("*.html")
    page = report.read_text()
    assert "lenskit" in page
    assert "parity=odd" in page


@pytest.mark.night
def test_several_models_stand_side_by_side(spark, folder, run):
    one = of_vectors(folder)
    evaluation = {name: value for name, value in one["evaluation"].items() if name != "model"}
    models = {"mf": one["vectors"], "angle": {**one["vectors"], "similarity": "cosine"}}
    gates = {"ndcg@3": {"min": 0.01, "model": "mf"}, "rr": {"min": 2.0, "model": "angle"}}
    config = {name: section for name, section in one.items() if name != "vectors"}
    config |= {"models": models, "evaluation": evaluation, "gates": gates, "output": {"report": True}}
    job = start(folder, "several", config)
    assert job.code == 4, job.err
    assert "gates failed: rr of angle: mean at least 2" in job.err
    figures = [
        spark.read.parquet(f"{each.output}/metrics").drop("time", "fingerprints").orderBy("metric", "slice")
        for each in (job, run)
    ]
    assert repr(figures[0].where("model = 'mf'").collect()) == repr(figures[1].collect())
    assert figures[0].where("model = 'angle'").count() == 3 * len(METRICS)
    users = spark.read.parquet(f"{job.output}/per_user")
    assert {row.model for row in users.select("model").distinct().collect()} == {*models}
    (report,) = (job.output / "reports").rglob("*.html")
    assert "angle" in report.read_text()


def test_the_manifest_names_the_tables_and_no_secret(run):
    (file,) = (run.output / "manifests").glob("run_id=day/*.txt")
    text = file.read_text()
    manifest = json.loads(text)
    assert list(manifest["inputs"]) == [
        "vectors.users",
        "vectors.items",
        "vectors.candidates",
        "labels",
        "exclude",
    ]
    assert manifest["inputs"]["vectors.items"] == {
        "columns": {"item": "int", "factors": "array<double>", "bias": "double"},
        "n_files": 1,
    }
    assert manifest["config"]["vectors"]["users"]["options"] == {"token": "***"}
    assert "hunter2" not in text + run.out + run.err


def test_a_dry_run_names_the_tables_and_what_does_not_fit_them(folder):
    planned = start(folder, "planned", of_vectors(folder), "--dry-run")
    assert planned.code == 0, planned.err
    assert f"  vectors.users       parquet {folder}/users (1 file): user int, factors array<double>" in planned.out
    for changed, words in {
        (
            "vector",
            "parity",
        ): "it has: item int, factors array<double>, bias double. In the configuration: vectors.vector",
        (
            "item_bias",
            "factors",
        ): "must be a number; it is array<double>. Cast it. In the configuration: vectors.item_bias",
    }.items():
        wrong = start(folder, "planned", of_vectors(folder, **dict([changed])), "--dry-run")
        assert wrong.code == 2
        assert words in wrong.err
    nowhere = {"path": f"{folder}/nowhere"}
    wrong = start(folder, "planned", of_vectors(folder, items=nowhere), "--dry-run")
    assert wrong.err.startswith("evaluate: wrong config: [vectors.items] cannot be read: ")
    assert "PATH_NOT_FOUND" in wrong.err
