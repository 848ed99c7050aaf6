"""Gates of the evaluation job, its runs in MLflow, and the history that they make, in the session of the tests."""

import contextlib
import io
import json
import re
import shutil
from types import SimpleNamespace

import pytest
from helpers.run_documents import run_document

from spark_rankeval import history, merge
from spark_rankeval.errors import InputError
from spark_rankeval.jobs.config import Output
from spark_rankeval.jobs.evaluate import main
from spark_rankeval.jobs.outputs import read_metrics
from spark_rankeval.jobs.trend import main as trend


def start_in(
    folder, run_id, hits, gates="", more="", evaluation="", options=(), labelled=10, metrics=("rr", "precision@1")
):
    """Run the job on users of whom a share is served well; its exit code."""
    rows = [f"{user},{'a' if user < hits else 'b'},1\n" for user in range(10)]
    (folder / "p.csv").write_text("user,item,score\n" + "".join(rows))
    (folder / "l.csv").write_text(
        "user,item,country\n" + "".join(f"{user},a,{'DE' if user % 2 else 'FR'}\n" for user in range(labelled))
    )
    text = f"""
        [predictions]
        path = "{folder}/p.csv"
        format = "csv"
        [labels]
        path = "{folder}/l.csv"
        format = "csv"
        [columns]
        score = "score"
        [evaluation]
        metrics = {list(metrics)}
        {evaluation}
        [output]
        path = "{folder}/out"
        run_id = "{run_id}"
        {more}
        [gates]
        {gates}
    """
    (folder / "job.toml").write_text(text if gates else text.replace("[gates]", ""))
    return main(["--config", str(folder / "job.toml"), *options])


@pytest.fixture
def start(spark, tmp_path):
    return lambda *arguments, **options: start_in(tmp_path, *arguments, **options)


def gates_of(spark, folder, run_id):
    rows = spark.read.parquet(f"{folder}/out/gates/run_id={run_id}").collect()
    return [(row["name"], row["rule"], row["passed"], row["found"]) for row in rows]


@pytest.fixture(scope="module")
def days(spark, tmp_path_factory):
    """Four runs: without gates, failed, good, and the last one repeated; their exit codes and gates, as each has left them."""
    folder = tmp_path_factory.mktemp("days")
    gate, codes, gates = "rr = { max_drop = 0.1 }", [start_in(folder, "007", 8)], []
    gate += '\nnightly = { metric = "rr", max_drop = 0.1, sequential = true }'
    for run_id, hits in (("2026-10-02", 5), ("2026-10-03", 7), ("2026-10-03", 8)):
        codes.append(start_in(folder, run_id, hits, gate))
        gates += gates_of(spark, folder, run_id)
    return SimpleNamespace(folder=folder, codes=codes, gates=gates)


@pytest.fixture(scope="module")
def sliced(spark, tmp_path_factory):
    """A run with slices and MLflow that fails gates, and what it printed."""
    folder = tmp_path_factory.mktemp("sliced")
    more = f'report = true\n[mlflow]\nexperiment = "shop"\ntracking_uri = "file://{folder}/mlruns"'
    gates = 'germany = { metric = "rr", slice = "country=DE", min = 0.5 }\nrr = { slice = "*", max = 1 }\n'
    gates += 'japan = { metric = "rr", slice = "country=JP", min = 0 }'
    with pytest.MonkeyPatch.context() as patched, contextlib.redirect_stderr(io.StringIO()):
        patched.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        patched.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        code = start_in(folder, "day1", 6, gates, more, 'by = "country"')
    return SimpleNamespace(folder=folder, code=code)


def test_a_gate_that_is_not_met_is_4_and_everything_is_written(start, tmp_path, capsys, spark):
    assert start("day1", 6, 'rr = { min = 0.5 }\n"P@1" = { min = 0.7, on = "mean" }', "report = true") == 4
    out, err = capsys.readouterr()
    assert err == "evaluate: gates failed: precision@1: mean at least 0.7; found 0.6\n"
    assert out.splitlines()[1:3] == [
        "precision@1  mean at least 0.7  FAILED  0.6",
        "rr           mean at least 0.5  passed  0.6",
    ]
    assert "run day1 written to" in out
    assert gates_of(spark, tmp_path, "day1") == [("rr", "min", True, "0.6"), ("precision@1", "min", False, "0.6")]
    said = run_document(tmp_path / "out")
    assert (said["gates_failed"], "gates" in said) == (1, False)
    assert set(said["outputs"]) == {"per_user", "metrics", "gates", "reports"}
    assert [run_document(tmp_path / "out", "status")[name] for name in ("state", "exit_code", "kind")] == [
        "failed",
        4,
        "gates failed",
    ]
    page = (tmp_path / "out/reports/run_id=day1/report.html").read_text()
    assert ">gates_failed<" not in page
    assert "condition&#39;" not in page
    assert ">day1</dd>" in page
    assert sorted(said["fingerprints"]) == ["labels", "predictions"]
    assert all(page.count(digits) == 1 for digits in said["fingerprints"].values())
    rows = read_metrics(spark, Output(f"{tmp_path}/out")).select("fingerprints").collect()
    assert all(row["fingerprints"] == said["fingerprints"] for row in rows)
    assert page.index("1 of 2 gates failed.") < page.index('<h2 id="means-heading"')
    assert read_metrics(spark, Output(f"{tmp_path}/out")).count() == 2


def test_a_gate_that_needs_the_same_labels_fails_with_others(start, tmp_path, capsys):
    assert start("day1", 6) == 0
    assert start("day2", 6, "rr = { max_drop = 1, same_labels = true }", labelled=11) == 4
    err = capsys.readouterr().err
    assert (
        "rr: mean at most 1 below the last good run; found 0.545455, after 0.6 in day1 (-9.1%); since then, labels changed"
        in err
    )
    assert trend(["--output", f"{tmp_path}/out", "--metric", "rr"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if "labels" in line] == ["day2"]


def test_people_read_the_words_of_the_configuration_and_programs_the_labels(spark, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    words, seen, output = ("map@10", "mrr@10"), {}, f"{tmp_path}/out"
    gates = '"map@10" = { max_drop_share = 0.02 }\nworst = { metric = "mrr@10", slice = "*", min = 0.9 }'
    more = f'report = true\n[mlflow]\nexperiment = "shop"\ntracking_uri = "file://{tmp_path}/mlruns"'
    for run_id, hits in (("day1", 10), ("day2", 6)):
        start_in(tmp_path, run_id, hits, gates, more, 'by = "country"', ("--log-format", "json"), metrics=words)
        seen["run"] = "\n".join(capsys.readouterr())
    seen["dry run"] = _printed(capsys, main, "--config", f"{tmp_path}/job.toml", "--dry-run")
    seen["wrong gate"] = _printed(capsys, main, "--config", f"{tmp_path}/job.toml", "--set", "gates.rbp.min=1")
    seen["trend"] = _printed(capsys, trend, "--output", output)
    seen["wrong trend"] = _printed(capsys, trend, "--output", output, "--metric", "rbp")
    _printed(capsys, trend, "--output", output, "--html", f"{tmp_path}/trend.html")
    seen["page"] = (tmp_path / "trend.html").read_text()
    seen["report"] = (tmp_path / "out/reports/run_id=day2/report.html").read_text()
    seen["gates"] = "\n".join(" ".join(map(str, one)) for one in gates_of(spark, tmp_path, "day2"))
    assert {name: found for name, text in seen.items() if (found := re.findall(r"\b(?:ap|rr)@10", text))} == {}
    assert {name for name, text in seen.items() if not all(word in text for word in words)} == set()
    assert "map@10: mean at most 2% below the last good run; found 0.6, after 1 in day1 (-40%)" in seen["run"]
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"file://{tmp_path}/mlruns")
    tracked = client.search_runs([client.get_experiment_by_name("shop").experiment_id])[0].data
    assert {"map_at_10", "mrr_at_10.ci_low", "map_at_10/country.DE".replace("/", ".")} <= set(tracked.metrics)
    assert "definition.mrr_at_10" in tracked.params
    rows = read_metrics(spark, Output(output)).select("metric", "asked").distinct().collect()
    assert {tuple(one) for one in rows} == {("ap@10", "map@10"), ("rr@10", "mrr@10")}
    assert history(read_metrics(spark, Output(output))).keys() == ["ap@10", "rr@10"]


def _printed(capsys, job, *arguments):
    job(list(arguments))
    return "\n".join(capsys.readouterr())


def test_drops_are_from_the_newest_run_that_failed_no_gate(days):
    # A run without gates has failed none, and keeps its name, which is a number for others. The run before the third one has failed.
    assert days.codes == [0, 4, 0, 0]
    assert days.gates[::2] == [
        ("rr", "max_drop", False, "0.5, after 0.8 in 007 (-38%)"),
        ("rr", "max_drop", True, "0.7, after 0.8 in 007 (-13%)"),
        # It is not compared with itself.
        ("rr", "max_drop", True, "0.8, after 0.8 in 007"),
    ]
    assert days.gates[1::2] == [
        ("rr", "max_drop", True, f"{mean}; a sequence begins after 14 good runs with this figure; there is 1")
        for mean in (0.5, 0.7, 0.8)
    ]


@pytest.mark.night
def test_gates_of_slices_and_undefined_means(spark, sliced):
    assert sliced.code == 4
    assert [(name, passed) for name, _, passed, _ in gates_of(spark, sliced.folder, "day1")] == [
        ("rr in country=DE", True), ("rr in country=DE", True), ("rr in country=FR", True), ("rr in country=JP", False),
    ]  # fmt: skip


def test_a_wrong_gate_is_a_wrong_config_before_any_job(start, tmp_path, capsys):
    assert start("day1", 6, '"ndcg@10" = { min = 0.3 }') == 2
    assert "gate 'ndcg@10': the evaluation has no such metric; it has: rr, precision@1" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_runs_make_a_history_and_merge(spark, days):
    output = f"{days.folder}/out"
    runs = ["007", "2026-10-02", "2026-10-03"]
    table = history(spark.read.parquet(f"{output}/metrics"))
    assert [(run, row.mean) for run, _, row in table.of("rr").rows] == list(zip(runs, [0.8, 0.5, 0.8], strict=True))
    all_runs = merge(read_metrics(spark, Output(output)))
    assert (all_runs["rr"], all_runs.summary[0].n_users) == (pytest.approx(0.7), 30)
    manifests = [run_document(days.folder / "out", run_id=run) for run in runs]
    counted = merge(read_metrics(spark, Output(output)), manifests)
    assert (counted.summary, counted.data_quality.n_users) == (all_runs.summary, 30)
    with pytest.raises(InputError, match="there is no manifest for run 2026-10-03; pass one manifest for each run"):
        merge(read_metrics(spark, Output(output)), manifests[:2])


# --- MLflow


@pytest.fixture
def client(monkeypatch):
    """Makes the client of a folder's runs."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow import MlflowClient

    return lambda folder: MlflowClient(tracking_uri=f"file://{folder}/mlruns")


def test_a_run_is_in_mlflow(sliced, client):
    (run,) = client(sliced.folder).search_runs([client(sliced.folder).get_experiment_by_name("shop").experiment_id])
    assert run.data.metrics["rr"] == 0.6
    assert run.data.metrics["precision_at_1.country.DE"] == 0.6
    assert run.data.metrics["rr.ci_low"] < 0.6 < run.data.metrics["rr.ci_high"]
    assert run.data.params["definition.rr"].startswith("rr(")
    assert (run.info.run_name, run.info.status) == ("day1", "FAILED")
    files = client(sliced.folder).list_artifacts(run.info.run_id)
    assert sorted(file.path for file in files) == ["manifest.json", "report.html"]


@pytest.fixture
def full_server(client, tmp_path, monkeypatch):
    """The settings of a server that refuses every run."""

    def refuse(*_, **__):
        raise RuntimeError("disk full")

    monkeypatch.setattr("spark_rankeval.jobs.tracking._log_run", refuse)
    return f'[mlflow]\nexperiment = "shop"\ntracking_uri = "{client(tmp_path).tracking_uri}"'


@pytest.mark.night
@pytest.mark.parametrize(("least", "code"), [(0.9, 4), (0.5, 6)])
def test_tracking_that_fails_hides_no_gate(start, tmp_path, full_server, capsys, least, code):
    assert start("day1", 6, f"rr = {{ min = {least} }}", full_server) == code
    out, err = capsys.readouterr()
    (line,) = err.splitlines()
    tracking = "the tables and the manifest of run day1 are complete, but MLflow at "
    if code == 4:
        assert line.startswith(
            "evaluate: gates failed: rr: mean at least 0.9; found 0.6; tracking failed too: " + tracking
        )
        assert "rr    mean at least 0.9  FAILED" in out
    else:
        assert line.startswith("evaluate: tracking failed: " + tracking)
        assert out.splitlines()[-1].startswith("run day1 written to ")
    assert "disk full; start the job again" in line
    status = run_document(tmp_path / "out", "status")
    # The tables are as complete as without MLflow.
    assert (status["state"], status["exit_code"]) == (("failed", 4) if code == 4 else ("succeeded", 0))


def test_gates_are_events_and_tracking_that_fails_is_one(start, full_server, capsys):
    gates = 'rr = { min = 0.5, max_drop = 0.1 }\nfloor = { metric = "rr", min = 0.9 }'
    assert start("day1", 6, gates, full_server, options=["--log-format", "json"]) == 4
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    of_gates = [one for one in told if one["event"] == "gate"]
    assert [[one[name] for name in ("gate", "rule", "on", "passed", "value", "limit")] for one in of_gates] == [
        ["rr", "min", "mean", True, 0.6, 0.5],
        ["rr", "max_drop", "mean", True, 0.6, None],
        ["rr", "min", "mean", False, 0.6, 0.9],
    ]
    assert [one["event"] for one in told][-2:] == ["tracking failed", "failed"]


def test_a_server_of_mlflow_that_is_away_stops_no_run(start, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    assert start("day1", 6, more='[mlflow]\ntracking_uri = "http://localhost:1"') == 6
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1].startswith("run day1 written to ")
    assert printed.err.startswith("evaluate: tracking failed: the tables and the manifest of run day1 are complete")
    assert run_document(tmp_path / "out", "status")["state"] == "succeeded"


def test_a_finished_run_is_logged_later_as_it_would_have_been(sliced, client, capsys):
    def runs():
        mlflow = client(sliced.folder)
        return [run.data for run in mlflow.search_runs([mlflow.get_experiment_by_name("shop").experiment_id])]

    (before,) = runs()
    config = ["--config", f"{sliced.folder}/job.toml", "--only-mlflow"]
    assert main(config) == 0
    assert capsys.readouterr().out == "run day1 logged to MLflow\n"
    (after,) = runs()
    assert (after.metrics, after.params, after.tags) == (before.metrics, before.params, before.tags)
    assert main([*config, "--set", "output.run_id=day2"]) == 2
    assert "there is no finished run 'day2' in " in capsys.readouterr().err


# --- the history as a job


def test_trend_prints_tables_and_writes_a_page(spark, days, tmp_path, capsys):
    output = shutil.copytree(days.folder / "out", tmp_path / "out")
    assert trend(["--output", str(output), "--metric", "P@1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "precision@1"
    assert [(line.split()[0], "gates failed" in line) for line in lines[2:]] == [
        ("007", False), ("2026-10-02", True), ("2026-10-03", False),
    ]  # fmt: skip
    page = tmp_path / "trend.html"
    config = ["--config", str(days.folder / "job.toml"), "--set", "gates.rr.min=0.5"]
    assert trend([*config, "--html", str(page)]) == 0
    assert capsys.readouterr().out == f"3 runs of 2 metrics written to {page}\n"
    assert "limit min 0.5" in page.read_text()
    (file,) = (output / "manifests/run_id=007").glob("*.txt")
    file.unlink()
    assert trend(["--output", str(output)]) == 0
    # What no manifest names is no whole run.
    shown = capsys.readouterr().out
    assert "2026-10-03" in shown
    assert "007" not in shown


@pytest.mark.night
def test_a_trend_shows_the_usual_points_of_curves(start, spark, tmp_path, capsys):
    metrics = 'evaluation.metrics=["rr", "ndcg@1..30", "precision_recall_curve"]'
    assert start("day1", 6, options=["--set", metrics]) == 0
    out = capsys.readouterr().out
    shown = [line.split()[0] for line in out.splitlines() if "@" in line]
    # Engines that do not prune note, too, that lists are short.
    assert shown[:5] == ["ndcg@1", "ndcg@5", "ndcg@10", "ndcg@20", "note"]
    assert set(shown[5:]) <= {"note"}
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


def test_a_slice_that_no_run_has_is_named_with_those_that_are(sliced, capsys):
    output = f"{sliced.folder}/out"
    assert trend(["--output", output, "--slice", "country=GB"]) == 2
    said = "no run has a slice 'country=GB'; did you mean 'country=DE' or 'country=FR'? There are: all, country=DE, country=FR"
    assert f"trend: wrong config: {said}" in capsys.readouterr().err
    assert trend(["--output", output, "--slice", "country=DE"]) == 0
    assert "rr, users with country=DE" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--output", "nowhere"],
            "trend: wrong config: there are no runs in nowhere; --output must be the output folder of",
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
    assert "--output FOLDER, --catalog SCHEMA or --config FILE is needed" in capsys.readouterr().err
