"""The jobs that compare models and groups: from runs, from tables, from one table of several models."""

import re
from functools import partial

import pytest
from helpers.run_documents import run_document, run_here

from spark_rankeval import compare, compare_groups, score_users
from spark_rankeval.jobs import evaluate
from spark_rankeval.jobs.runs import compare_main as main
from spark_rankeval.jobs.runs import groups_main

N_USERS = 8
FIGURES = (
    "difference", "interval_low", "interval_high", "p", "n_users", "n_undefined", "margin", "n_joint", "no_lift",
    "joint_low", "joint_high", "lift_low", "lift_high", "p_test", "interval_method", "p_margin", "verdict",
)  # fmt: skip
MODELS = '[models.old]\npath = "FOLDER/old"\n[models.new]\npath = "FOLDER/new"'
OUTPUT = '[output]\npath = "FOLDER/out"\nrun_id = "day"'
SETTINGS = f'[comparison]\nbaseline = "old"\nreplicates = 99\n{OUTPUT}'
GROUPS = f"""
    results.path = "FOLDER/old"
    experiment = {{ baseline = "DE", group = "country", metrics = "rr", margin = {{ rr = 0.01 }} }}
{OUTPUT}"""


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    """Per-user tables of two models as files, the same of both as one, and a run of the evaluating job."""
    folder = tmp_path_factory.mktemp("models")
    users = [(user, user % 3, "DE" if user % 2 else "FR") for user in range(N_USERS)]
    labels = spark.createDataFrame(users, "user int, item int, country string")
    predictions = {
        name: spark.createDataFrame(
            [(user, item, float((user * step + item) % 5)) for user in range(N_USERS) for item in range(3)],
            "user int, item int, score double",
        )
        for name, step in (("old", 1), ("new", 2))
    }
    score = partial(score_users, labels=labels, metrics=["rr", "ndcg@2"], score="score")
    frames = {name: score({name: table}, by="country") for name, table in predictions.items()}
    frames |= {"both": score(predictions), "predictions": predictions["new"], "labels": labels}
    for name, frame in frames.items():
        frame.coalesce(1).write.parquet(f"{folder}/{name}")
    text = """
        predictions.path = "FOLDER/predictions"
        labels.path = "FOLDER/labels"
        columns.score = "score"
        evaluation.metrics = ["rr", "ndcg@2"]
        output = { path = "FOLDER/evaluation", run_id = "monday" }
    """
    assert run_here(evaluate.main, folder, text).code == 0
    return folder


@pytest.fixture
def start(tables, tmp_path):
    """Starts a job with the tables in the folder of the test."""
    for path in tables.iterdir():
        (tmp_path / path.name).symlink_to(path)
    return lambda *settings, models=MODELS, options=(): run_here(
        main, tmp_path, f"{models}\n{SETTINGS}", *settings, options=options
    )


def read(spark, folder, *names):
    return {name: spark.read.parquet(f"{folder}/{name}") for name in names}


def without_columns(done):
    """What a dry run says, without the files and columns of users' tables."""
    return re.sub(r" \(\d files?\): user int, .*", " …", done.scene)


def same_figures(row, figures):
    """A stored row and a row of the library."""
    return [str(row[name]) for name in FIGURES] == [str(getattr(figures, name)) for name in FIGURES]


def test_the_job_says_what_compare_says_and_keeps_it(spark, start, tmp_path):
    asked = ("comparison.by=country", "comparison.headline=rr", "comparison.margin.rr=0.01")
    done = start(*asked, "output.report=true", "report.distributions=['rr']")
    stored = read(spark, tmp_path, "old", "new")
    expected = compare(stored, "old", replicates=99, by="country", headline="rr", margin={"rr": 0.01})
    assert done.code == 0
    assert done.out.startswith(expected.to_text())
    assert expected["rr"].sentence in done.out
    assert "run day written to FOLDER/out: comparisons, reports, manifests" in done.out
    rows = {(row.metric, row.slice): row for row in spark.read.parquet(f"{tmp_path}/out/comparisons").collect()}
    slices = ("all", "country=DE", "country=FR")
    assert set(rows) == {(metric, users) for metric in ("rr", "ndcg@2") for users in slices}
    for figures in (*expected.rows, *expected.sliced):
        row = rows[figures.metric, figures.slice]
        assert same_figures(row, figures)
        assert (row.model, row.baseline, row.run_id, row.headline, row.asked) == (
            "new", "old", "day", "rr", figures.name,
        )  # fmt: skip
    assert not any(row.p_test == "sign_flip" for row in rows.values() if row.slice != "all")
    manifest = run_document(tmp_path / "out")
    # Rows are in the table; a manifest is one row, whatever the number of slices.
    options = {name: value for name, value in expected.to_dict().items() if name not in ("rows", "slices")}
    assert manifest | options == manifest
    assert not {"rows", "slices"} & set(manifest)
    assert (manifest["seed"], manifest["job"], set(manifest["inputs"])) == (0, "compare", {"models.old", "models.new"})
    assert run_document(tmp_path / "out", "status")["state"] == "succeeded"
    # The means of both are in it, beside the differences.
    for text in ("Which model is better", f">{expected['rr'].verdict}</td>", "Slices of users"):
        assert text in done.page


def test_a_run_of_the_evaluating_job_is_a_model(spark, start, tmp_path):
    models = MODELS.replace('path = "FOLDER/new"', 'output = "FOLDER/evaluation"\nrun_id = "monday"')
    assert start(models=models).code == 0
    (row, _) = spark.read.parquet(f"{tmp_path}/out/comparisons").orderBy("metric", ascending=False).collect()
    stored = read(spark, tmp_path, "old", "new")
    assert row.difference == compare(stored, "old", replicates=99)["rr"].difference
    done = start(models=models.replace("monday", "tuesday"))
    said = "[models.new] the run 'tuesday' in FOLDER/evaluation has no manifest, so it is missing or incomplete"
    assert (done.code, [said in line for line in done.lines]) == (2, [True])


def test_groups_of_different_users_are_compared_as_the_library_does(spark, start, tables, tmp_path, golden):
    start_groups = partial(run_here, groups_main, tmp_path, GROUPS.replace("FOLDER/old", f"{tables}/old"))
    golden(without_columns(start_groups(options=["--dry-run"])).replace(str(tables), "FOLDER"))
    done = start_groups()
    table = spark.read.parquet(f"{tables}/old")
    expected = compare_groups(table, "DE", group="country", metrics="rr", margin={"rr": 0.01})
    assert done.out.startswith(expected.to_text())
    assert expected["rr"].sentence in done.out
    (row,) = spark.read.parquet(f"{tmp_path}/out/group_comparisons").collect()
    assert (row.group, row.baseline, row.run_id) == ("FR", "DE", "day")
    names = ("verdict", "n_users", "difference", "interval_low", "interval_high", "p")
    assert [row[name] for name in names] == [getattr(expected["rr"], name) for name in names]
    assert run_document(tmp_path / "out")["job"] == "compare_groups"
    done = start_groups("experiment.group=region")
    assert done.says(2, "the table has no column 'region'")


def test_one_table_of_several_models(spark, start, tmp_path):
    models = '[results]\npath = "FOLDER/both"'
    assert start("comparison.metrics=rr", "output.report=true", models=models).code == 0
    (row,) = spark.read.parquet(f"{tmp_path}/out/comparisons").collect()
    assert (row.metric, row.model) == ("rr", "new")


def test_a_dry_run_says_what_would_be_compared(start, jobs_of, tmp_path, golden):
    done = []
    # The footers of two files of Parquet.
    assert jobs_of(lambda: done.append(start("comparison.by=country", options=["--dry-run"]))) <= 2
    golden(without_columns(done[0]))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("comparison.metrics=recall@3", "comparison.metrics: not every table has a metric 'recall@3'"),
        ("comparison.headline=recall@3", "comparison.headline: not every table has a metric 'recall@3'"),
        ('comparison.margin."recall@3"=0.1', "comparison.margin: not every table has a metric 'recall@3'"),
        ("comparison.by=device", "has no column 'device'"),
        ("comparison.user=person", "has no column 'person'"),
        ("models.new.path=nowhere", "PATH_NOT_FOUND"),
    ],
)
def test_what_does_not_fit_the_tables_is_one_line_and_leaves_nothing(start, tmp_path, setting, said):
    done = start(setting)
    (line,) = done.lines
    assert (done.code, said in line) == (2, True)
    assert line.startswith("compare: wrong config: ")
    assert not (tmp_path / "out").exists()
