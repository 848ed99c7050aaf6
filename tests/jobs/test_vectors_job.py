"""A job that ranks the whole catalogue from vectors leaves what the job of the table of all scores leaves."""

import json
from functools import partial

import pytest
from chispa import assert_df_equality
from helpers.run_documents import run_document, run_here

from spark_rankeval.jobs.evaluate import main

METRICS = ["ndcg@3", "rr", "auc"]
# One user and one item is nobody or has no vector, and the last item is no candidate.
USERS = [(1, [1.0, 0.0], "odd"), (2, [0.0, 1.0], "even"), (3, [1.0, 1.0], "odd"), (None, [1.0, 1.0], "odd")]
ITEMS = [(0, [2.0, 0.0], 0.0), (1, [0.0, 1.0], 1.0), (2, [1.0, 1.0], 0.5), (3, None, 0.0), (4, [9.0, 9.0], 0.0)]
SCORES = [
    (user, item, sum(one * other for one, other in zip(mine, its, strict=True)) + bias, parity)
    for user, mine, parity in USERS
    for item, its, bias in ITEMS[:3]
    if user
]
TABLES = {
    "users": (USERS, "user int, factors array<double>, parity string"),
    "items": (ITEMS, "item int, factors array<double>, bias double"),
    "candidates": ([(item,) for item in range(4)], "item bigint"),
    "labels": ([(1, 2, 2.0), (2, 0, 1.0), (3, 1, 1.0), (3, 2, 3.0)], "user int, item int, grade double"),
    "training": ([(1, 0), (3, 0)], "user int, item int"),
    "scores": (SCORES, "user int, item int, score double, parity string"),
}
TEXT = """
    labels.path = "FOLDER/labels"
    exclude.path = "FOLDER/training"
    columns.relevance = "grade"
    evaluation = { metrics = ["ndcg@3", "rr", "auc"], by = "parity", on_invalid = "quarantine" }
    output = { path = "FOLDER/out", run_id = "day" }
"""
VECTORS = """{ vector = "factors", item_bias = "bias", items.path = "FOLDER/items", candidates.path = "FOLDER/candidates",
    users = { path = "FOLDER/users", options = { token = "hunter2" } } }""".replace("\n    ", " ")
ONE_MODEL = f"{TEXT}\nvectors = {VECTORS}".replace("evaluation = {", "evaluation = { model = 'mf',")


@pytest.fixture(scope="module")
def stored(spark, tmp_path_factory):
    """Makes a folder with the tables."""

    def make():
        folder = tmp_path_factory.mktemp("vectors")
        for name, (rows, schema) in TABLES.items():
            spark.createDataFrame(rows, schema).coalesce(1).write.parquet(str(folder / name))
        return folder

    return make


@pytest.fixture(scope="module")
def run(stored):
    """A run with all outputs and one gate that fails."""
    gates = ("gates.'ndcg@3'.min=0.01", "gates.odd={ metric = 'rr', slice = 'parity=odd', min = 2.0 }")
    return run_here(main, stored(), ONE_MODEL, *gates, "output.report=true", "report.dialects=['lenskit']")


def test_vectors_and_the_rows_of_all_scores_are_models_of_one_job_with_the_same_figures(spark, stored):
    models = f'models = {{ mf = {VECTORS}, rows = {{ path = "FOLDER/scores" }} }}\ngates.rr = {{ min = 2.0, model = "rows" }}'
    job = run_here(main, stored(), f"{TEXT}\n{models}", "columns.score=score")
    assert job.code == 4, job.err
    assert "gates failed: rr of rows: mean at least 2" in job.err
    metrics = spark.read.parquet(f"{job.folder}/out/metrics").drop("fingerprints").orderBy("metric", "slice")
    figures = [metrics.where(f"model = '{name}'").drop("model").collect() for name in ("mf", "rows")]
    assert len(figures[0]) == 3 * len(METRICS)
    assert repr(figures[0]) == repr(figures[1])
    per_user = spark.read.parquet(f"{job.folder}/out/per_user").where("user IS NOT NULL")
    # Predictions are other tables, and items without a vector are known of vectors alone.
    own = ("model", "predictions_hash", "n_labels_without_vector")
    shared = [name for name in per_user.columns if name not in own]
    assert {"parity", "ndcg_at_3", "auc", "n_predictions", "n_excluded"} <= {*shared}
    same = partial(assert_df_equality, ignore_row_order=True, ignore_nullable=True, ignore_metadata=True)
    users = [per_user.where(f"model = '{name}'").select(*shared) for name in ("mf", "rows")]
    same(*users, allow_nan_equality=True)


def test_a_run_leaves_rejected_rows_gates_a_report_and_a_manifest_without_secrets(spark, run):
    assert run.code == 4, run.err
    assert "parity=odd" in run.err
    rejected = spark.read.parquet(f"{run.folder}/out/quarantine").collect()
    assert {(row.table, row.user, row.item, row.reason) for row in rejected} == {
        ("predictions", None, None, "null user (user)"),
        ("catalogue", None, 3, "null vector"),
    }
    assert spark.read.parquet(f"{run.folder}/out/gates").count() == 2
    assert {word for word in ("lenskit", "parity=odd") if word not in run.page} == set()
    manifest = run_document(run.folder / "out")
    assert list(manifest["inputs"]) == ["vectors.users", "vectors.items", "vectors.candidates", "labels", "exclude"]
    columns = {"item": "int", "factors": "array<double>", "bias": "double"}
    assert manifest["inputs"]["vectors.items"] == {"columns": columns, "n_files": 1}
    assert manifest["config"]["vectors"]["users"]["options"] == {"token": "***"}
    assert "hunter2" not in json.dumps(manifest) + run.out + run.err


def test_a_dry_run_names_the_tables_and_what_does_not_fit_them(stored):
    plan = partial(run_here, main, stored(), ONE_MODEL, options=["--dry-run"])
    planned = plan()
    assert planned.code == 0, planned.err
    assert "  vectors.users       parquet FOLDER/users (1 file): user int, factors array<double>" in planned.out
    has = "it has: item int, factors array<double>, bias double. In the configuration: vectors.vector"
    for changed, *words in (
        ("vector=parity", has),
        (
            "item_bias=factors",
            "must be a number; it is array<double>. Cast it. In the configuration: vectors.item_bias",
        ),
        ("items.path=FOLDER/nowhere", "config: [vectors.items] cannot be read: ", "PATH_NOT_FOUND"),
    ):
        wrong = plan(f"vectors.{changed}", "evaluation.model=mf")
        assert wrong.code == 2
        assert [word for word in words if word not in wrong.err] == [], wrong.err
    refused = plan("columns.score=s").err
    assert (
        "score='s' is for tables of lists, and Vectors have none; leave it out. In the configuration: columns.score"
        in refused
    )
