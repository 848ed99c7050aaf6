"""The job that compares models: from runs, from tables, from one table of several models."""

import pytest
from helpers.run_documents import run_document

from spark_rankeval import Judged, compare, compare_groups, score_users
from spark_rankeval.jobs import evaluate
from spark_rankeval.jobs.compare import groups_main as groups
from spark_rankeval.jobs.compare import main

N_USERS = 8


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    """Per-user tables of two models as files, the same of both as one, and a run of the evaluating job."""
    folder = tmp_path_factory.mktemp("models")
    labels = spark.createDataFrame(
        [(user, user % 3, "DE" if user % 2 else "FR") for user in range(N_USERS)], "user int, item int, country string"
    )
    predictions = {
        name: spark.createDataFrame(
            [(user, item, float((user * step + item) % 5)) for user in range(N_USERS) for item in range(3)],
            "user int, item int, score double",
        )
        for name, step in (("old", 1), ("new", 2))
    }
    for name, table in predictions.items():
        score_users({name: table}, labels, ["rr", "ndcg@2"], score="score", by="country").coalesce(1).write.parquet(
            f"{folder}/{name}"
        )
    both = score_users(predictions, labels, ["rr", "ndcg@2"], score="score").coalesce(1)
    both.write.parquet(f"{folder}/both")
    predictions["new"].coalesce(1).write.parquet(f"{folder}/predictions")
    labels.coalesce(1).write.parquet(f"{folder}/labels")
    (folder / "evaluate.toml").write_text(f"""
        predictions.path = "{folder}/predictions"
        labels.path = "{folder}/labels"
        columns.score = "score"
        evaluation.metrics = ["rr", "ndcg@2"]
        output = {{ path = "{folder}/evaluation", run_id = "monday" }}
    """)
    assert evaluate.main(["--config", f"{folder}/evaluate.toml"]) == 0
    return folder


def start(tables, folder, *arguments, models=None):
    models = models or f'[models.old]\npath = "{tables}/old"\n[models.new]\npath = "{tables}/new"'
    (folder / "job.toml").write_text(f"""
        {models}
        [comparison]
        baseline = "old"
        replicates = 99
        [output]
        path = "{folder}/out"
        run_id = "day"
    """)
    return main(["--config", str(folder / "job.toml"), *arguments])


def test_the_job_says_what_compare_says_and_keeps_it(spark, tables, tmp_path, capsys):
    asked = (
        "comparison.by=country",
        "comparison.headline=rr",
        "comparison.margin.rr=0.01",
        "output.report=true",
        "report.distributions=['rr']",
    )
    assert start(tables, tmp_path, *[word for one in asked for word in ("--set", one)]) == 0
    printed = capsys.readouterr()
    stored = {name: spark.read.parquet(f"{tables}/{name}") for name in ("old", "new")}
    expected = compare(stored, "old", replicates=99, by="country", headline="rr", margin={"rr": 0.01})
    assert printed.out.startswith(expected.to_text())
    assert expected["rr"].sentence in printed.out
    assert f"run day written to {tmp_path}/out: comparisons, reports, manifests" in printed.out
    rows = {(row.metric, row.slice): row for row in spark.read.parquet(f"{tmp_path}/out/comparisons").collect()}
    assert set(rows) == {
        (metric, users) for metric in ("rr", "ndcg@2") for users in ("all", "country=DE", "country=FR")
    }
    for figures in (*expected.rows, *expected.sliced):
        row = rows[figures.metric, figures.slice]
        assert (row.model, row.baseline, row.run_id, row.verdict) == ("new", "old", "day", figures.verdict)
        assert (row.difference, row.interval_low, row.interval_high, row.p) == (
            figures.difference, figures.interval_low, figures.interval_high, figures.p
        )  # fmt: skip
        assert (row.n_users, row.n_undefined, row.margin) == (figures.n_users, figures.n_undefined, figures.margin)
        assert (row.headline, row.asked, row.n_joint, row.no_lift) == (
            "rr",
            figures.name,
            figures.n_joint,
            figures.no_lift,
        )
        for name in ("joint_low", "joint_high", "lift_low", "lift_high"):
            assert str(row[name]) == str(getattr(figures, name)), name
        assert (row.p_test, row.interval_method) == (figures.p_test, figures.interval_method)
        assert str(row.p_margin) == str(figures.p_margin)
    assert not any(row.p_test == "sign_flip" for row in rows.values() if row.slice != "all")
    manifest = run_document(tmp_path / "out")
    options = {name: value for name, value in expected.to_dict().items() if name not in ("rows", "slices")}
    assert manifest | options == manifest
    # Rows are in the table; a manifest is one row, whatever the number of slices.
    assert not {"rows", "slices"} & set(manifest)
    assert set(manifest["inputs"]) == {"models.old", "models.new"}
    assert (manifest["seed"], manifest["job"]) == (0, "compare")
    assert run_document(tmp_path / "out", "status")["state"] == "succeeded"
    page = (tmp_path / "out/reports/run_id=day/report.html").read_text()
    assert "Which model is better" in page
    assert f">{expected['rr'].verdict}</td>" in page
    # The means of both are in it, beside the differences.
    assert "Slices of users" in page


def test_a_run_of_the_evaluating_job_is_a_model(spark, tables, tmp_path, capsys):
    run = f'output = "{tables}/evaluation"\nrun_id = "monday"'
    models = f'[models.old]\npath = "{tables}/old"\n[models.new]\n{run}'
    assert start(tables, tmp_path, models=models) == 0
    (row, _) = spark.read.parquet(f"{tmp_path}/out/comparisons").orderBy("metric", ascending=False).collect()
    stored = {name: spark.read.parquet(f"{tables}/{name}") for name in ("old", "new")}
    assert row.difference == compare(stored, "old", replicates=99)["rr"].difference
    capsys.readouterr()
    assert start(tables, tmp_path, models=models.replace("monday", "tuesday")) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert (
        f"[models.new] the run 'tuesday' in {tables}/evaluation has no manifest, so it is missing or incomplete" in line
    )


def test_groups_of_different_users_are_compared_as_the_library_does(spark, tables, tmp_path, capsys):
    (tmp_path / "groups.toml").write_text(f"""
        results.path = "{tables}/old"
        [experiment]
        baseline = "DE"
        group = "country"
        margin.rr = 0.01
        [output]
        path = "{tmp_path}/out"
        run_id = "day"
    """)
    call = ["--config", f"{tmp_path}/groups.toml", "--set", "experiment.metrics=rr"]
    assert groups([*call, "--dry-run"]) == 0
    planned = capsys.readouterr().out
    assert all(
        text in planned
        for text in ("baseline    DE", "test        Welch's", "groups by   country", "/group_comparisons/")
    )
    assert groups(call) == 0
    expected = compare_groups(
        spark.read.parquet(f"{tables}/old"), "DE", group="country", metrics="rr", margin={"rr": 0.01}
    )
    printed = capsys.readouterr().out
    assert printed.startswith(expected.to_text())
    assert expected["rr"].sentence in printed
    (row,) = spark.read.parquet(f"{tmp_path}/out/group_comparisons").collect()
    figures = expected["rr"]
    assert (row.group, row.baseline, row.run_id, row.verdict, row.n_users) == (
        "FR",
        "DE",
        "day",
        figures.verdict,
        figures.n_users,
    )
    assert (row.difference, row.interval_low, row.interval_high, row.p) == (
        figures.difference, figures.interval_low, figures.interval_high, figures.p
    )  # fmt: skip
    assert run_document(tmp_path / "out")["job"] == "compare_groups"
    assert groups([*call, "--set", "experiment.group=region"]) == 2
    assert "the table has no column 'region'" in capsys.readouterr().err


def test_one_table_of_several_models(spark, tables, tmp_path):
    models = f'[results]\npath = "{tables}/both"'
    assert start(tables, tmp_path, "--set", "comparison.metrics=rr", "--set", "output.report=true", models=models) == 0
    (row,) = spark.read.parquet(f"{tmp_path}/out/comparisons").collect()
    assert (row.metric, row.model) == ("rr", "new")


def test_a_dry_run_says_what_would_be_compared(tables, jobs_of, tmp_path, capsys):
    codes = []
    # The footers of two files of Parquet.
    assert jobs_of(lambda: codes.append(start(tables, tmp_path, "--dry-run", "--set", "comparison.by=country"))) <= 2
    assert codes == [0]
    said = capsys.readouterr().out
    assert said.startswith("run day, not started\n")
    for text in (
        "models.old  parquet ",
        "rr      rr(",
        "baseline    old",
        "sign_flip, 99 replicates",
        "slices by   country",
    ):
        assert text in said
    assert f"{tmp_path}/out/comparisons/run_id=day" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("comparison.metrics=recall@3", "comparison.metrics: not every table has a metric 'recall@3'"),
        ("comparison.headline=recall@3", "comparison.headline: not every table has a metric 'recall@3'"),
        ("comparison.margin.recall@3=0.1", "comparison.margin: not every table has a metric 'recall@3'"),
        ("comparison.by=device", "has no column 'device'"),
        ("comparison.user=person", "has no column 'person'"),
        ("models.new.path=nowhere", "PATH_NOT_FOUND"),
    ],
)
def test_what_does_not_fit_the_tables_is_one_line_and_leaves_nothing(tables, tmp_path, capsys, setting, said):
    assert start(tables, tmp_path, "--set", setting) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("compare: wrong config: ")
    assert said in line
    assert not (tmp_path / "out").exists()


def test_a_user_twice_is_bad_data(spark, tables, tmp_path, capsys):
    old = spark.read.parquet(f"{tables}/old")
    old.unionByName(old.where("user = 3")).coalesce(1).write.parquet(f"{tmp_path}/twice")
    assert start(tables, tmp_path, "--set", f"models.old.path={tmp_path}/twice") == 3
    assert "users with several rows in 'old': 1" in capsys.readouterr().err
    assert not (tmp_path / "out/comparisons").exists()


def test_tables_of_two_judges_compare_by_both(spark, tmp_path, capsys):
    rows = [
        (user, item, float(item == user % 3), float(item == user % 3 or user % 9 == 0))
        for user in range(90)
        for item in range(3)
    ]
    labels = spark.createDataFrame(rows, "user int, item int, hand double, llm double")
    labels = labels.selectExpr("user", "item", "CASE WHEN user < 30 THEN hand END AS hand", "llm")
    for name, step in (("old", 1), ("new", 2)):
        lists = labels.selectExpr("user", "item", f"CAST((user * {step} + item) % 5 AS DOUBLE) AS score")
        table = score_users(lists, labels, "rr", score="score", relevance=Judged(human="hand", judge="llm"))
        table.coalesce(1).write.parquet(f"{tmp_path}/{name}")
    assert start(tmp_path, tmp_path) == 0
    printed = capsys.readouterr().out
    assert "estimated from both judges" in printed
    assert "the t test of differences that two judges estimate" in printed
    (row,) = spark.read.parquet(f"{tmp_path}/out/comparisons").collect()
    expected = compare({name: spark.read.parquet(f"{tmp_path}/{name}") for name in ("old", "new")}, "old")["rr"]
    assert (row.p_test, row.n_users, row.difference) == ("prediction_powered", 90, expected.difference)
