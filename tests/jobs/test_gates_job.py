"""Gates of the evaluation job, its runs in MLflow, and the history that they make, in the session of the tests."""

import json

import pytest

from spark_rankeval import history, merge
from spark_rankeval.errors import InputError
from spark_rankeval.jobs.evaluate import main
from spark_rankeval.jobs.runs import read_metrics
from spark_rankeval.jobs.trend import main as trend


@pytest.fixture
def start(spark, tmp_path):
    """Run the job on users of whom a share is served well; its exit code."""

    def run(run_id, hits, gates="", more="", evaluation="", options=()):
        rows = [f"{user},{'a' if user < hits else 'b'},1\n" for user in range(10)]
        (tmp_path / "p.csv").write_text("user,item,score\n" + "".join(rows))
        (tmp_path / "l.csv").write_text(
            "user,item,country\n" + "".join(f"{user},a,{'DE' if user % 2 else 'FR'}\n" for user in range(10))
        )
        text = f"""
            [predictions]
            path = "{tmp_path}/p.csv"
            format = "csv"
            [labels]
            path = "{tmp_path}/l.csv"
            format = "csv"
            [columns]
            score = "score"
            [evaluation]
            metrics = ["rr", "precision@1"]
            {evaluation}
            [output]
            path = "{tmp_path}/out"
            run_id = "{run_id}"
            {more}
            [gates]
            {gates}
        """
        (tmp_path / "job.toml").write_text(text if gates else text.replace("[gates]", ""))
        return main(["--config", str(tmp_path / "job.toml"), *options])

    return run


@pytest.fixture
def gates_of(spark, tmp_path):
    def rows(run_id):
        found = spark.read.parquet(f"{tmp_path}/out/gates/run_id={run_id}").collect()
        return [(row["name"], row["rule"], row["passed"], row["found"]) for row in found]

    return rows


def manifest(tmp_path, run_id):
    (file,) = (tmp_path / "out" / "manifests" / f"run_id={run_id}").glob("*.txt")
    return json.loads(file.read_text())


def status(tmp_path, run_id):
    file = tmp_path / "out" / "status" / f"run_id={run_id}" / "status.json"
    return json.loads(file.read_text())


def test_a_gate_that_is_not_met_is_4_and_everything_is_written(start, gates_of, tmp_path, capsys, spark):
    assert start("day1", 6, 'rr = { min = 0.5 }\n"P@1" = { min = 0.7, on = "mean" }', "report = true") == 4
    out, err = capsys.readouterr()
    assert err == "evaluate: gates failed: precision@1: mean at least 0.7; found 0.6\n"
    assert out.splitlines()[1:3] == [
        "precision@1  mean at least 0.7  FAILED  0.6",
        "rr           mean at least 0.5  passed  0.6",
    ]
    assert "run day1 written to" in out
    assert gates_of("day1") == [("rr", "min", True, "0.6"), ("precision@1", "min", False, "0.6")]
    said = manifest(tmp_path, "day1")
    assert (said["gates_failed"], "gates" in said) == (1, False)
    assert set(said["outputs"]) == {"per_user", "metrics", "gates", "reports"}
    assert [status(tmp_path, "day1")[name] for name in ("state", "exit_code", "kind")] == ["failed", 4, "gates failed"]
    page = (tmp_path / "out/reports/run_id=day1/report.html").read_text()
    assert ">gates_failed<" not in page
    assert "condition&#39;" not in page
    assert ">day1</dd>" in page
    assert page.index("1 of 2 gates failed.") < page.index('<h2 id="means-heading"')
    assert read_metrics(spark, f"{tmp_path}/out").count() == 2


def test_gates_are_events(start, capsys):
    gates = 'rr = { min = 0.5, max_drop = 0.1 }\nfloor = { metric = "rr", min = 0.9 }'
    assert start("day1", 6, gates, options=["--log-format", "json"]) == 4
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    found = [one for one in told if one["event"] == "gate"]
    assert [[one[name] for name in ("gate", "rule", "on", "passed", "value", "limit")] for one in found] == [
        ["rr", "min", "mean", True, 0.6, 0.5],
        ["rr", "max_drop", "mean", True, 0.6, None],
        ["rr", "min", "mean", False, 0.6, 0.9],
    ]


def test_drops_are_from_the_newest_run_that_failed_no_gate(start, gates_of, capsys):
    gate = "rr = { max_drop = 0.1 }"
    assert start("2026-10-01", 8, gate) == 0
    assert gates_of("2026-10-01") == [("rr", "max_drop", True, "0.8; no earlier good run has this figure")]
    assert start("2026-10-02", 5, gate) == 4
    # Against the first run, since the second one failed.
    assert start("2026-10-03", 6, gate) == 4
    assert start("2026-10-04", 7, gate) == 0
    assert gates_of("2026-10-04") == [("rr", "max_drop", True, "0.7, after 0.8 in 2026-10-01")]
    # A run without gates has failed none.
    assert start("007", 9) == 0
    assert start("2026-10-06", 8, gate) == 0
    assert gates_of("2026-10-06") == [("rr", "max_drop", True, "0.8, after 0.9 in 007")]
    # It is not compared with itself, and another definition is another figure.
    assert start("2026-10-06", 8, gate) == 0
    assert gates_of("2026-10-06") == [("rr", "max_drop", True, "0.8, after 0.9 in 007")]
    assert start("2026-10-07", 1, gate, evaluation='dialect = "lenskit"') == 0
    capsys.readouterr()


def test_a_run_without_a_manifest_is_no_earlier_one(start, gates_of, tmp_path):
    assert start("day1", 9) == 0
    (file,) = (tmp_path / "out/manifests/run_id=day1").glob("*.txt")
    file.unlink()
    assert start("day2", 1, "rr = { max_drop = 0.1 }") == 0
    assert "no earlier good run" in gates_of("day2")[0][3]


def test_gates_of_slices_and_undefined_means(start, gates_of):
    gates = 'germany = { metric = "rr", slice = "country=DE", min = 0.5 }\nrr = { slice = "*", max = 1 }\n'
    gates += 'japan = { metric = "rr", slice = "country=JP", min = 0 }'
    assert start("day1", 6, gates, evaluation='by = "country"') == 4
    assert [(name, passed) for name, _, passed, _ in gates_of("day1")] == [
        ("rr in country=DE", True), ("rr in country=DE", True), ("rr in country=FR", True), ("rr in country=JP", False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("gates", "said"),
    [
        ('"ndcg@10" = { min = 0.3 }', "gates.'ndcg@10' is of no metric of the evaluation; it has: rr, precision@1"),
        ("rr = { min = 'a' }", "gates.rr.min must be a number; found 'a'"),
        ("rr = { minn = 0.3 }", "unknown key 'gates.rr.minn'; did you mean 'min'?"),
        ("rr = { on = 'ci_low' }", "gates.'rr' has no condition; give at least one of min, max"),
        ("rr = { max_drop = -1.0 }", "gates.'rr' has max_drop = -1.0; it is 0 or more"),
        (
            "rr = { min = 0.3, slice = 'country=DE' }",
            "gates.'rr' has slice = 'country=DE', and no slices are asked for (by)",
        ),
        ("rr = { min = 0.3, model = 'als' }", "gates.'rr' has model = 'als', and the only model has no name"),
        ("rr = 5", "gates.rr must be a section"),
    ],
)
def test_a_wrong_gate_is_a_wrong_config_before_any_job(start, tmp_path, capsys, gates, said):
    assert start("day1", 6, gates) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_runs_make_a_history_and_merge(start, spark, tmp_path, capsys):
    assert (start("day1", 6), start("day2", 8)) == (0, 0)
    capsys.readouterr()
    found = history(spark.read.parquet(f"{tmp_path}/out/metrics"))
    assert [(run, row.mean) for run, _, row in found.of("rr").rows] == [("day1", 0.6), ("day2", 0.8)]
    both = merge(read_metrics(spark, f"{tmp_path}/out"))
    assert (both["rr"], both.summary[0].n_users) == (0.7, 20)
    manifests = [manifest(tmp_path, run) for run in ("day1", "day2")]
    counted = merge(read_metrics(spark, f"{tmp_path}/out"), manifests)
    assert (counted.summary, counted.data_quality.n_users) == (both.summary, 20)
    with pytest.raises(
        InputError, match="no manifest says what the rows of data were like for run day2; give one for each run"
    ):
        merge(read_metrics(spark, f"{tmp_path}/out"), manifests[:1])


# --- MLflow


@pytest.fixture
def client(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=f"file://{tmp_path}/mlruns")


def test_a_run_is_in_mlflow(start, tmp_path, client):
    more = f'report = true\n[mlflow]\nexperiment = "shop"\ntracking_uri = "file://{tmp_path}/mlruns"'
    assert start("day1", 6, "rr = { min = 0.9 }", more, 'by = "country"') == 4
    (run,) = client.search_runs([client.get_experiment_by_name("shop").experiment_id])
    assert run.data.metrics["rr"] == 0.6
    assert run.data.metrics["precision_at_1.country.DE"] == 0.6
    assert run.data.metrics["rr.ci_low"] < 0.6 < run.data.metrics["rr.ci_high"]
    assert run.data.params["definition.rr"].startswith("rr(")
    assert (run.info.run_name, run.info.status) == ("day1", "FAILED")
    assert sorted(file.path for file in client.list_artifacts(run.info.run_id)) == ["manifest.json", "report.html"]


@pytest.mark.parametrize(("least", "code"), [(0.9, 4), (0.5, 1)])
def test_tracking_that_fails_hides_no_gate(start, tmp_path, client, monkeypatch, capsys, least, code):
    assert client is not None

    def refuse(*_, **__):
        raise RuntimeError("disk full")

    monkeypatch.setattr("spark_rankeval.jobs.tracking._log_run", refuse)
    more = f'[mlflow]\nexperiment = "shop"\ntracking_uri = "file://{tmp_path}/mlruns"'
    assert start("day1", 6, f"rr = {{ min = {least} }}", more) == code
    out, err = capsys.readouterr()
    (line,) = err.splitlines()
    tracking = "tracking failed: the tables and the manifest of run day1 are whole; MLflow at "
    if code == 4:
        assert line.startswith("evaluate: gates failed: rr: mean at least 0.9; found 0.6; besides, " + tracking)
        assert "rr    mean at least 0.9  FAILED" in out
    else:
        assert line.startswith("evaluate: " + tracking)
    assert line.endswith("disk full")
    assert (status(tmp_path, "day1")["exit_code"], status(tmp_path, "day1")["error"]) == (
        code, line.partition(" failed: ")[2],
    )  # fmt: skip
    assert start("day1", 6, "rr = { min = 0.9 }", more, options=["--log-format", "json"]) == 4
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [one["event"] for one in told][-2:] == ["tracking failed", "failed"]


def test_a_server_of_mlflow_that_is_not_there_ends_the_run_before_it_begins(start, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    assert start("day1", 6, more='[mlflow]\ntracking_uri = "http://localhost:1"') == 2
    assert "wrong config: [mlflow] MLflow at http://localhost:1 cannot be used: " in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


# --- the history as a job


def test_trend_prints_tables_and_writes_a_page(start, spark, tmp_path, capsys):
    assert (start("day1", 6), start("day2", 8, "rr = { min = 0.5 }")) == (0, 0)
    capsys.readouterr()
    output = f"{tmp_path}/out"
    assert trend(["--output", output, "--metric", "P@1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0], [line.split()[0] for line in lines[2:]]) == ("precision@1", ["day1", "day2"])
    (file,) = (tmp_path / "out/manifests/run_id=day1").glob("*.txt")
    page = tmp_path / "trend.html"
    assert trend(["--config", str(tmp_path / "job.toml"), "--html", str(page)]) == 0
    assert capsys.readouterr().out == f"2 runs of 2 metrics written to {page}\n"
    assert "limit min 0.5" in page.read_text()
    assert start("day3", 1, "rr = { min = 0.5 }") == 4
    capsys.readouterr()
    assert trend(["--output", output, "--metric", "rr"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [(line.split()[0], "gates failed" in line) for line in lines[2:]] == [
        ("day1", False), ("day2", False), ("day3", True),
    ]  # fmt: skip
    file.unlink()
    assert trend(["--output", output]) == 0
    # What no manifest names is no whole run.
    assert "day1" not in capsys.readouterr().out


def test_a_trend_shows_the_usual_points_of_curves(start, spark, tmp_path, capsys):
    metrics = 'metrics=["rr", "ndcg@1..30", "precision_recall_curve"]'
    assert start("day1", 6, options=["--set", metrics]) == 0
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines() if "@" in line] == ["ndcg@1", "ndcg@5", "ndcg@10", "ndcg@20"]
    assert "\n127 more metrics, as points of curves, are in the table metrics\n\nrun day1 written" in out
    assert trend(["--output", f"{tmp_path}/out"]) == 0
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if "@" in line] == ["ndcg@1", "ndcg@5", "ndcg@10", "ndcg@20"]
    assert out.endswith("\n127 more metrics, points of curves: --metric NAME shows one\n")
    gated = ["--config", str(tmp_path / "job.toml"), "--set", metrics, "--set", 'gates."ndcg@7"={min=0.1}']
    assert trend(gated) == 0
    assert "\nndcg@7\n" in capsys.readouterr().out
    assert trend(["--output", f"{tmp_path}/out", "--metric", "ndcg@3"]) == 0
    assert capsys.readouterr().out.startswith("ndcg@3\n")
    assert trend(["--output", f"{tmp_path}/out", "--metric", "auc"]) == 2
    assert capsys.readouterr().err.endswith(", … (132 in all)\n")


def test_a_slice_that_no_run_has_is_named_with_those_that_are(start, tmp_path, capsys):
    assert start("day1", 6, evaluation='by = "country"') == 0
    capsys.readouterr()
    output = f"{tmp_path}/out"
    assert trend(["--output", output, "--slice", "country=GB"]) == 2
    said = "no run has a slice 'country=GB'; did you mean 'country=FR' or 'country=DE'? There are: all, country=DE, country=FR"
    assert f"trend: wrong config: {said}" in capsys.readouterr().err
    assert trend(["--output", output, "--slice", "country=DE"]) == 0
    assert "rr, users with country=DE" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--output", "nowhere"],
            "trend: wrong config: there are no runs in nowhere: it is the folder of the outputs of",
        ),
        (["--config", "no.toml"], "trend: wrong config: no.toml: No such file"),
        (["--output", "x", "--set", "a=b", "--log-format", "json"], '"kind": "wrong config"'),
    ],
)
def test_wrong_trends_are_a_line_and_2(spark, capsys, arguments, said):
    assert trend(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()[-1:]
    assert said in line


def test_trend_needs_to_know_where(capsys):
    with pytest.raises(SystemExit) as caught:
        trend([])
    assert caught.value.code == 2
    assert "--output FOLDER or --config FILE is needed" in capsys.readouterr().err
