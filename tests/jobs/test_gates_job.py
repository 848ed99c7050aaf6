"""Gates of the evaluation job, its runs in MLflow, and the history that they make."""

import re
import shutil
from types import SimpleNamespace

import pytest
from helpers.run_documents import called, run_document, run_here

from spark_rankeval import history, merge
from spark_rankeval.errors import InputError
from spark_rankeval.jobs.config import Output
from spark_rankeval.jobs.evaluate import main
from spark_rankeval.jobs.outputs import read_metrics
from spark_rankeval.jobs.runs import trend_main as trend

TEXT = """
    predictions = { path = "FOLDER/p.csv", format = "csv", schema = "user int, item string, score double" }
    labels = { path = "FOLDER/l.csv", format = "csv", schema = "user int, item string, country string" }
    columns.score = "score"
    evaluation.metrics = ["rr", "precision@1"]
    output.path = "FOLDER/out"
"""
MLFLOW = "mlflow={experiment = 'shop', tracking_uri = 'file://FOLDER/mlruns'}"
JSON = ("--log-format", "json")


@pytest.fixture(scope="module", autouse=True)
def _stores_of_files():
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        patched.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        yield


def start_in(folder, run_id, hits, *settings, labelled=10, options=()):
    """Run the job on ten users of whom some are served well."""
    rows = [f"{user},{'a' if user < hits else 'b'},1\n" for user in range(10)]
    (folder / "p.csv").write_text("user,item,score\n" + "".join(rows))
    labels = [f"{user},a,{'DE' if user % 2 else 'FR'}\n" for user in range(labelled)]
    (folder / "l.csv").write_text("user,item,country\n" + "".join(labels))
    return run_here(main, folder, TEXT, f"output.run_id={run_id}", *settings, options=options)


@pytest.fixture
def start(spark, tmp_path):
    return lambda *arguments, **options: start_in(tmp_path, *arguments, **options)


def gates_of(spark, folder, run_id):
    rows = spark.read.parquet(f"{folder}/out/gates/run_id={run_id}").collect()
    return [(row["name"], row["rule"], row["passed"], row["found"]) for row in rows]


def runs_of(folder):
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"file://{folder}/mlruns")
    return client, client.search_runs([client.get_experiment_by_name("shop").experiment_id])


@pytest.fixture(scope="module")
def days(spark, tmp_path_factory):
    """Four runs: without gates, failed, good, and the last one repeated; their exit codes and gates, as each has left them."""
    folder = tmp_path_factory.mktemp("days")
    drop = "gates.rr.max_drop=0.1"
    codes, gates = [start_in(folder, "007", 8).code], []
    for run_id, hits in (("2026-10-02", 5), ("2026-10-03", 7), ("2026-10-03", 8)):
        codes.append(start_in(folder, run_id, hits, drop).code)
        gates += gates_of(spark, folder, run_id)
    return SimpleNamespace(folder=folder, codes=codes, gates=gates)


@pytest.fixture(scope="module")
def named(spark, tmp_path_factory):
    """Two runs with slices, a report and MLflow, asked for by other names of metrics; the second fails gates."""
    folder = tmp_path_factory.mktemp("named")
    asked = ("evaluation.metrics=['map@10', 'mrr@10']", "evaluation.by=country", "output.report=true", MLFLOW)
    gates = ("gates.'map@10'.max_drop_share=0.02", "gates.worst={metric = 'mrr@10', slice = '*', min = 0.6}")
    done = [start_in(folder, "day1", 10, *asked, *gates, options=JSON)]
    settings = (*asked, *gates, "gates.japan={metric = 'mrr@10', slice = 'country=JP', min = 0}")
    done.append(start_in(folder, "day2", 6, *settings, options=JSON))
    return SimpleNamespace(folder=folder, settings=settings, done=done)


def test_a_gate_that_is_not_met_is_4_and_everything_is_written(start, tmp_path, spark, golden):
    done = start("day1", 6, "gates.rr.min=0.5", 'gates."P@1"={min = 0.7, on = "mean"}', "output.report=true")
    golden(done.scene)
    assert gates_of(spark, tmp_path, "day1") == [("rr", "min", True, "0.6"), ("precision@1", "min", False, "0.6")]
    said = run_document(tmp_path / "out")
    assert (said["gates_failed"], "gates" in said) == (1, False)
    assert set(said["outputs"]) == {"per_user", "metrics", "gates", "reports"}
    status = run_document(tmp_path / "out", "status")
    assert [status[name] for name in ("state", "exit_code", "kind")] == ["failed", 4, "gates failed"]
    page, digests = done.page, said["fingerprints"]
    assert page.index("1 of 2 gates failed.") < page.index('<h2 id="means-heading"')
    assert (">gates_failed<" in page, "condition&#39;" in page, ">day1</dd>" in page) == (False, False, True)
    assert sorted(digests) == ["labels", "predictions"]
    assert all(page.count(digits) == 1 for digits in digests.values())
    rows = read_metrics(spark, Output(f"{tmp_path}/out")).select("fingerprints").collect()
    assert [row["fingerprints"] for row in rows] == [digests] * 2


def test_a_gate_that_needs_the_same_labels_fails_with_others(start, tmp_path):
    assert start("day1", 6).code == 0
    done = start("day2", 6, "gates.rr={max_drop = 1, same_labels = true}", labelled=11)
    said = "found 0.545455, after 0.6 in day1 (-9.1%), within chance, which explains up to 0.44; since then, labels changed"
    assert done.says(4, f"rr: mean at most 1 below the last good run; {said}")
    shown = called(trend, tmp_path, "--output", f"{tmp_path}/out", "--metric", "rr")
    assert (shown.code, [line.split()[0] for line in shown.out.splitlines() if "labels" in line]) == (0, ["day2"])


def test_people_read_the_words_of_the_configuration_and_programs_the_labels(spark, named):
    folder, output, (_, second) = named.folder, f"{named.folder}/out", named.done
    seen = {"run": second.out + second.err, "report": (folder / "out/reports/run_id=day2/report.html").read_text()}
    for name, settings, options in (("dry run", (), ["--dry-run"]), ("wrong gate", ["gates.rbp.min=1"], ())):
        done = start_in(folder, "day2", 6, *named.settings, *settings, options=options)
        seen[name] = done.out + done.err
    for name, options in (("trend", ()), ("wrong trend", ["--metric", "rbp"]), ("page", ["--html", folder / "t.html"])):
        done = called(trend, folder, "--output", output, *options)
        seen[name] = done.out + done.err
    seen["page"] = (folder / "t.html").read_text()
    seen["gates"] = repr(gates_of(spark, folder, "day2"))
    assert {name: said for name, text in seen.items() if (said := re.findall(r"\b(?:ap|rr)@10", text))} == {}
    assert {name for name, text in seen.items() if not ("map@10" in text and "mrr@10" in text)} == set()
    assert "map@10: mean at most 2% below the last good run; found 0.6, after 1 in day1 (-40%)" in seen["run"]
    rows = read_metrics(spark, Output(output))
    assert {tuple(one) for one in rows.select("metric", "asked").collect()} == {
        ("ap@10", "map@10"),
        ("rr@10", "mrr@10"),
    }
    assert history(rows).keys() == ["ap@10", "rr@10"]


def test_gates_of_slices_and_undefined_means(spark, named):
    assert [done.code for done in named.done] == [0, 4]
    assert {(name, passed) for name, _, passed, _ in gates_of(spark, named.folder, "day2")} == {
        ("map@10", False), ("worst (mrr@10 in country=DE)", True), ("worst (mrr@10 in country=FR)", True),
        ("japan (mrr@10 in country=JP)", False),
    }  # fmt: skip


def test_drops_are_from_the_newest_run_that_failed_no_gate(days):
    # A run without gates has failed none, and keeps its name, which is a number for others. The run before the third one has failed.
    assert days.codes == [0, 4, 0, 0]
    assert days.gates == [
        ("rr", "max_drop", False, "0.5, after 0.8 in 007 (-38%), within chance, which explains up to 0.42"),
        ("rr", "max_drop", True, "0.7, after 0.8 in 007 (-13%), within chance, which explains up to 0.4"),
        # It is not compared with itself.
        ("rr", "max_drop", True, "0.8, after 0.8 in 007"),
    ]


def test_runs_make_a_history_and_merge(spark, days):
    output, runs = f"{days.folder}/out", ["007", "2026-10-02", "2026-10-03"]
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


def test_runs_are_in_mlflow_and_a_finished_one_is_logged_later_as_it_would_have_been(named):
    client, runs = runs_of(named.folder)
    (run,) = [each for each in runs if each.info.run_name == "day2"]
    metrics = run.data.metrics
    assert (metrics["map_at_10"], metrics["mrr_at_10.country.DE"]) == (0.6, 0.6)
    assert metrics["mrr_at_10.ci_low"] < 0.6 < metrics["mrr_at_10.ci_high"]
    assert run.data.params["definition.mrr_at_10"].startswith("rr(")
    assert (len(runs), run.info.status) == (2, "FAILED")
    files = client.list_artifacts(run.info.run_id)
    assert sorted(file.path for file in files) == ["manifest.json", "report.html"]
    again = start_in(named.folder, "day2", 6, *named.settings, options=["--only-mlflow"])
    assert (again.code, again.out) == (0, "run day2 logged to MLflow\n")
    _, runs = runs_of(named.folder)
    (after,) = [each.data for each in runs if each.info.run_name == "day2"]
    assert (after.metrics, after.params, after.tags) == (metrics, run.data.params, run.data.tags)
    other = start_in(named.folder, "day3", 6, *named.settings, options=["--only-mlflow"])
    assert other.says(2, "there is no finished run 'day3' in ")


@pytest.mark.parametrize(
    ("settings", "files"),
    [([], ["manifest.json"]), (["output.report=FOLDER/first.html"], ["manifest.json", "report.html"])],
)
def test_a_run_is_logged_later_with_the_report_that_it_has(start, tmp_path, settings, files):
    settings = [setting.replace("FOLDER", str(tmp_path)) for setting in settings]
    assert start("day1", 6, *settings).code == 0
    again = start("day1", 6, f"output.report={tmp_path}/other.html", MLFLOW, options=["--only-mlflow"])
    assert (again.code, again.out) == (0, "run day1 logged to MLflow\n")
    client, (run,) = runs_of(tmp_path)
    assert run.info.status == "FINISHED"
    assert sorted(file.path for file in client.list_artifacts(run.info.run_id)) == files


def test_a_report_is_logged_although_the_manifest_hides_a_part_of_its_place(start, tmp_path):
    hidden = ("predictions.options.nullValue=hunter2", f"output.report={tmp_path}/hunter2.html")
    done = start("day1", 6, *hidden, MLFLOW)
    assert done.code == 0, done.err
    client, (run,) = runs_of(tmp_path)
    assert "report.html" in {file.path for file in client.list_artifacts(run.info.run_id)}


@pytest.fixture
def full_server(monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("disk full")

    monkeypatch.setattr("spark_rankeval.jobs.evaluate_run.TrackedRun.log", refuse)


@pytest.mark.usefixtures("full_server")
def test_tracking_that_fails_hides_no_gate(start, tmp_path, golden):
    # The tables are as complete as without MLflow.
    for least, state in ((0.9, ("failed", 4)), (0.5, ("succeeded", 0))):
        golden(start("day1", 6, f"gates.rr.min={least}", MLFLOW).scene, state[0])
        status = run_document(tmp_path / "out", "status")
        assert (status["state"], status["exit_code"]) == state


@pytest.mark.usefixtures("full_server")
def test_gates_are_events_and_tracking_that_fails_is_one(start):
    gates = ("gates.rr={min = 0.5, max_drop = 0.1}", "gates.floor={metric = 'rr', min = 0.9}")
    done = start("day1", 6, *gates, MLFLOW, options=JSON)
    names = ("gate", "rule", "on", "passed", "value", "limit")
    assert [[one[name] for name in names] for one in done.events if one["event"] == "gate"] == [
        ["rr", "min", "mean", True, 0.6, 0.5],
        ["rr", "max_drop", "mean", True, 0.6, None],
        ["floor (rr)", "min", "mean", False, 0.6, 0.9],
    ]
    assert [one["event"] for one in done.events][-2:] == ["tracking failed", "failed"]


# --- the history as a job


def test_trend_prints_tables_and_writes_a_page(days, tmp_path, golden):
    output = shutil.copytree(days.folder / "out", tmp_path / "out")
    golden(re.sub(r"\d{4}-\d\d-\d\dT[^ ]+|\d{4}-\d\d-\d\d \d\d:\d\d\S*", "TIME", called(
        trend, tmp_path, "--output", output, "--metric", "P@1").scene))  # fmt: skip
    page = tmp_path / "trend.html"
    done = called(trend, tmp_path, "--config", days.folder / "job.toml", "--set", "gates.rr.min=0.5", "--html", page)
    assert (done.code, done.out) == (0, "3 runs of 2 metrics written to FOLDER/trend.html\n")
    assert "limit min 0.5" in page.read_text()
    (file,) = (output / "manifests/run_id=007").glob("*.txt")
    text = file.read_text()
    # What no manifest names is no whole run, nor is one that was killed before another job took its name.
    for other in (text.replace('"job": "evaluate"', '"job": "compare"'), ""):
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        file.write_text(other)
        shown = called(trend, tmp_path, "--output", output)
        assert (shown.code, "2026-10-03" in shown.out, "007" in shown.out) == (0, True, False)


def test_a_trend_shows_the_usual_points_of_curves(start, tmp_path):
    metrics = 'evaluation.metrics=["rr", "ndcg@1..30", "precision_recall_curve"]'
    done = start("day1", 6, metrics)
    points = ["ndcg@1", "ndcg@5", "ndcg@10", "ndcg@20"]
    assert [line.split()[0] for line in done.out.splitlines() if line.startswith("ndcg@")] == points
    assert "\n127 more metrics, as points of curves, are in the table metrics\n\nrun day1 written" in done.out
    shown = called(trend, tmp_path, "--output", f"{tmp_path}/out").out
    assert [line for line in shown.splitlines() if "@" in line] == points
    assert shown.endswith("\n127 more metrics, points of curves: --metric NAME shows one\n")
    config = ["--config", tmp_path / "job.toml", "--set", metrics, "--set", 'gates."ndcg@7"={min=0.1}']
    assert "\nndcg@7\n" in called(trend, tmp_path, *config).out
    for metric, said in (("ndcg@3", "ndcg@3\n"), ("auc", "")):
        done = called(trend, tmp_path, "--output", f"{tmp_path}/out", "--metric", metric)
        assert done.out.startswith(said)
    assert (done.code, done.err.endswith(" and 112 more\n")) == (2, True)


def test_wrong_trends_are_a_line_and_2(named, capsys):
    output = f"{named.folder}/out"
    missing = "there are no runs in nowhere; --output must be the output folder of"
    slices = "no run has a slice 'country=GB'; did you mean 'country=DE' or 'country=FR'? There are: all, country=DE and country=FR"
    for words, said in (
        (["--output", output, "--slice", "country=GB"], f"trend: wrong config: {slices}"),
        (["--output", "nowhere"], f"trend: wrong config: {missing}"),
        (["--config", "no.toml"], "trend: wrong config: no.toml: No such file"),
        (["--output", "x", "--set", "a=b", *JSON], '"kind": "wrong config"'),
    ):
        done = called(trend, named.folder, *words)
        assert (done.code, said in done.lines[-1]) == (2, True)
    assert (
        "mrr@10, users with country=DE" in called(trend, named.folder, "--output", output, "--slice", "country=DE").out
    )
    with pytest.raises(SystemExit, match="2"):
        trend([])
    assert "--output FOLDER, --catalog SCHEMA or --config FILE is needed" in capsys.readouterr().err
