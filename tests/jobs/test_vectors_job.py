"""A job that ranks the whole catalogue from vectors leaves what the job of the table of all scores leaves."""

import contextlib
import io
import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
from chispa import assert_df_equality
from helpers.run_documents import run_document

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
    config = settings(folder, {"score": "score"}, models=models, gates={"rr": {"min": 2.0, "model": "rows"}})
    del config["evaluation"]["model"]
    job = start(folder, "both", config)
    assert job.code == 4, job.err
    assert "gates failed: rr of rows: mean at least 2" in job.err
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


def test_a_run_leaves_rejected_rows_gates_a_report_and_a_manifest_without_secrets(spark, run):
    assert run.code == 4, run.err
    assert "parity=odd" in run.err
    rejected = spark.read.parquet(f"{run.output}/quarantine").collect()
    assert {(row.table, row.user, row.item, row.reason) for row in rejected} == {
        ("predictions", None, None, "null user (user)"),
        ("catalogue", None, N_ITEMS, "null vector"),
    }
    assert spark.read.parquet(f"{run.output}/gates").count() == 2
    (report,) = (run.output / "reports").rglob("*.html")
    assert {word for word in ("lenskit", "parity=odd") if word in report.read_text()} == {"lenskit", "parity=odd"}
    manifest = run_document(run.output)
    assert list(manifest["inputs"]) == ["vectors.users", "vectors.items", "vectors.candidates", "labels", "exclude"]
    columns = {"item": "int", "factors": "array<double>", "bias": "double"}
    assert manifest["inputs"]["vectors.items"] == {"columns": columns, "n_files": 1}
    assert manifest["config"]["vectors"]["users"]["options"] == {"token": "***"}
    assert "hunter2" not in json.dumps(manifest) + run.out + run.err


def test_a_dry_run_names_the_tables_and_what_does_not_fit_them(folder):
    planned = start(folder, "planned", of_vectors(folder), "--dry-run")
    assert planned.code == 0, planned.err
    assert f"  vectors.users       parquet {folder}/users (1 file): user int, factors array<double>" in planned.out
    has = "it has: item int, factors array<double>, bias double. In the configuration: vectors.vector"
    for changed, *words in (
        ({"vector": "parity"}, has),
        ({"item_bias": "factors"}, "must be a number; it is array<double>. Cast it. In the configuration: vectors.item_bias"),
        ({"items": {"path": f"{folder}/nowhere"}}, "config: [vectors.items] cannot be read: ", "PATH_NOT_FOUND"),
    ):  # fmt: skip
        wrong = start(folder, "planned", of_vectors(folder, **changed), "--dry-run")
        assert wrong.code == 2
        assert [word for word in words if word not in wrong.err] == []
