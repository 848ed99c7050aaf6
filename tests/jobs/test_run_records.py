"""What a run leaves beside its tables: status, events, reports, and what a dry run says of it."""

import contextlib
import io
import json
import re
import shutil
import warnings
from types import SimpleNamespace

import pytest
from helpers.effort import part_of
from helpers.run_documents import run_document

from spark_rankeval.errors import SparkRankEvalWarning
from spark_rankeval.jobs import outputs, reporting, runs
from spark_rankeval.jobs.compare import main as compare
from spark_rankeval.jobs.config import Output
from spark_rankeval.jobs.evaluate import main
from spark_rankeval.jobs.logs import EventLog


@pytest.fixture(scope="module")
def prepared(spark, tmp_path_factory):
    """A folder with the inputs of a run."""
    folder = tmp_path_factory.mktemp("inputs")
    predictions = [(1, "a", 0.5), (1, "b", 0.9), (2, "a", 0.1)]
    spark.createDataFrame(predictions, "user int, item string, score double").coalesce(1).write.parquet(
        f"{folder}/predictions"
    )
    (folder / "l.csv").write_text("user,item\n1,a\n2,a\n")
    return folder


@pytest.fixture
def files(prepared, tmp_path):
    return shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)


def started(folder, *arguments):
    """Run the job: its exit code, and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = start(folder, *arguments)
    return SimpleNamespace(folder=folder, code=code, out=out.getvalue(), err=err.getvalue())


@pytest.fixture(scope="module")
def finished(prepared, tmp_path_factory):
    """A run that the job has named, and what it logged."""
    folder = shutil.copytree(prepared, tmp_path_factory.mktemp("finished"), dirs_exist_ok=True)
    return started(folder, "--log-format", "json")


@pytest.fixture(scope="module")
def full(prepared, tmp_path_factory):
    """The run ``day``, which was asked for everything that a run can leave, and what it logged."""
    asked = (
        "output.run_id=day", "evaluation.on_invalid=quarantine", "gates={rr={min=0.1}}", "output.report=true",
        "report.distributions=['rr']",
        "report.dialects=['mllib']", "report.title=Nightly", 'labels.options={"token"="t0ken"}',
    )  # fmt: skip
    folder = shutil.copytree(prepared, tmp_path_factory.mktemp("full"), dirs_exist_ok=True)
    return started(folder, *[word for one in asked for word in ("--set", one)])


def start(folder, *arguments):
    (folder / "job.toml").write_text(f"""
        [predictions]
        path = "{folder}/predictions"
        [labels]
        path = "{folder}/l.csv"
        format = "csv"
        schema = "user int, item string"
        [columns]
        score = "score"
        [evaluation]
        metrics = ["rr", "ndcg@2"]
        [output]
        path = "{folder}/out"
    """)
    return main(["--config", str(folder / "job.toml"), *arguments])


def copy_run(of, folder, *names):
    """Make runs of these names of the only run of a folder."""
    for partition in (of.folder / "out").glob("*/run_id=*"):
        for name in names:
            shutil.copytree(partition, folder / "out" / partition.parent.name / f"run_id={name}")


def runs_with_a_manifest(folder):
    """The names of whole runs: a manifest that is taken away is an empty file."""
    files = (folder / "out/manifests").glob("run_id=*/[!._]*")
    return {file.parent.name.removeprefix("run_id=") for file in files if file.stat().st_size}


def the_only_file(folder):
    (file,) = folder.iterdir()
    return file.name


def read_events(lines):
    return [json.loads(line) for line in lines.splitlines()]


def events(capsys):
    return read_events(capsys.readouterr().err)


def test_status_and_events_of_a_run_that_succeeds(spark, finished):
    assert finished.code == 0
    told = read_events(finished.err)
    assert [one["event"] for one in told] == ["started", "running", "written", "notes", *["written"] * 2, "succeeded"]
    run_id = told[-1]["run_id"]
    assert [one["run_id"] for one in told] == [None, *[run_id] * 6]
    assert [one["what"] for one in told if one["event"] == "written"] == ["per_user", "metrics", "manifests"]
    assert told[-1]["exit_code"] == 0
    assert all(re.match(r"\d{4}-\d\d-\d\dT", one["time"]) and one["job"] == "evaluate" for one in told)
    found = run_document(finished.folder / "out", "status", run_id)
    assert (found["state"], found["exit_code"], found["error"], found["job"]) == ("succeeded", 0, None, "evaluate")
    assert found["started"] < found["finished"]
    # A file that has a name.
    assert the_only_file(finished.folder / f"out/status/run_id={run_id}") == "status.json"


def test_status_and_events_of_a_run_that_fails(spark, files, capsys, monkeypatch):
    (files / "l.csv").write_text("user,item\n1,a\n,a\n")
    assert start(files, "--log-format", "json", "--set", "output.run_id=day") == 3
    *_, last = events(capsys)
    assert (last["event"], last["exit_code"], last["kind"], last["run_id"]) == ("failed", 3, "bad data", "day")
    assert "null user" in last["error"]
    found = run_document(files / "out", "status", "day")
    assert (found["state"], found["exit_code"], found["kind"]) == ("failed", 3, "bad data")
    assert "null user" in found["error"]
    assert the_only_file(files / "out/status/run_id=day") == "status.json"

    def crash(*_):
        # What the driver was doing when it was killed.
        seen.append(run_document(files / "out", "status", "day")["state"])
        raise RuntimeError("password=hunter2 is gone")

    seen = []
    (files / "l.csv").write_text("user,item\n1,a\n")
    monkeypatch.setattr(outputs, "metrics_table", crash)
    assert start(files, "--log-format", "json", "--set", "output.run_id=day") == 1
    *_, last = events(capsys)
    assert (last["exit_code"], last["kind"]) == (1, "crash")
    assert "RuntimeError" in last["traceback"]
    assert "hunter2" not in json.dumps(last)
    assert seen == ["running"]
    assert run_document(files / "out", "status", "day")["error"] == "password=*** is gone"


def test_a_wrong_config_is_an_event_too(tmp_path, capsys):
    assert start(tmp_path, "--log-format", "json", "--set", "evaluation.level=high") == 2
    first, last = events(capsys)
    assert (first["event"], last["event"], last["exit_code"]) == ("started", "failed", 2)
    assert "evaluation.level must be a number" in last["error"]


def test_warnings_are_events_for_programs_alone(capsys, recwarn):
    log = EventLog("job", "json")
    with log.with_warnings({"population": "evaluation.population"}):
        warnings.warn("token=t0 looks odd", UserWarning, stacklevel=1)
        warnings.warn("population='predicted' leaves them out", SparkRankEvalWarning, stacklevel=1)
    told = events(capsys)
    assert {one["event"] for one in told} == {"warning"}
    assert [(one["kind"], one["warning"]) for one in told] == [
        ("UserWarning", "token=*** looks odd"),
        ("SparkRankEvalWarning", "population='predicted' leaves them out. In the configuration: evaluation.population"),
    ]
    assert len(recwarn) == 0


def test_a_rerun_that_stops_midway_leaves_no_manifest_of_its_own_run(finished, files, monkeypatch):
    """The earlier manifest would stand beside tables that it does not describe."""
    copy_run(finished, files, "day", "other")
    assert runs_with_a_manifest(files) == {"day", "other"}

    def crash(*_):
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr(outputs, "metrics_table", crash)
        assert start(files, "--set", "output.run_id=day") == 1
    assert runs_with_a_manifest(files) == {"other"}
    assert start(files, "--set", "output.run_id=day") == 0
    assert runs_with_a_manifest(files) == {"day", "other"}


@pytest.mark.night
@pytest.mark.parametrize("is_here", part_of([True, False], 2))
def test_a_rerun_that_asks_for_less_leaves_nothing_of_the_earlier_run_beside_its_manifest(
    spark, full, files, monkeypatch, is_here, platform
):
    copy_run(full, files, "day", "other")
    if not is_here:
        # On storage that is none of the driver's disks only Spark can write.
        monkeypatch.setattr("spark_rankeval.jobs.outputs.on_this_disk", lambda place: files / "not" / "here")
    assert start(files, "--set", "output.run_id=day") == 0
    (line,) = spark.read.text(f"{files}/out/manifests/run_id=day").collect()
    assert set(json.loads(line.value)["outputs"]) == {"per_user", "metrics"}
    gates = spark.read.parquet(f"{files}/out/gates").select("run_id").distinct().collect()
    assert [row.run_id for row in gates] == ["other"]
    # Sail writes no file for the table of rejected rows, which has none.
    for name in ("gates", "reports") if platform == "sail" else ("gates", "quarantine", "reports"):
        folder = files / "out" / name
        assert (folder / "run_id=other").is_dir()
        assert (folder / "run_id=day").exists() is not is_here
    if not is_here:
        assert spark.read.text(f"{files}/out/reports/run_id=day").isEmpty()


@pytest.mark.not_on_sail("jvm")
@pytest.mark.night
def test_what_stands_on_the_drivers_disk_at_the_path_of_another_file_system_is_left_alone(spark, files):
    """A path without a scheme is on the cluster's default file system, whatever is at the same path of the driver's disk."""
    mounted, path = files / "mounted", f"{files}/cluster"
    mounted.mkdir()
    kept = [
        files / "cluster" / table / "run_id=day/part-0.txt" for table in ("quarantine", "reports", "gates", "status")
    ]
    for file in kept:
        file.parent.mkdir(parents=True)
        file.write_text("somebody's")
    settings = {"fs.defaultFS": "viewfs://night/", f"fs.viewfs.mounttable.night.link.{path}": f"file:{mounted}"}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        sources = [f"predictions.path=file:{files}/predictions", f"labels.path=file:{files}/l.csv"]
        asked = [f"output.path={path}", "output.run_id=day", *sources]
        words = [word for one in asked for word in ("--set", one)]
        assert start(files, *words, "--set", "output.report=true") == 0
        assert start(files, *words) == 0
    finally:
        for name in settings:
            spark.conf.unset(name)
    assert {file for file in (files / "cluster").rglob("*") if file.is_file()} == set(kept)
    assert {file.read_text() for file in kept} == {"somebody's"}
    assert all((mounted / table / "run_id=day").is_dir() for table in ("per_user", "metrics", "manifests", "reports"))


@pytest.mark.parametrize(
    ("renamed", "settings", "reason"),
    [
        (
            ("user", "run_id"),
            ["columns.user=run_id"],
            "the table per_user has a column 'run_id', the name of the",
        ),
        (("score", "run_id"), ["columns.score=run_id"], "the table quarantine has a column 'run_id'"),
        (("score", "reason"), ["columns.score=reason"], "several columns named 'reason'"),
        (("", ""), ["evaluation.metrics=['rr', 'gini@2']"], "In the configuration: [training]"),
    ],
)
def test_what_the_columns_tell_is_refused_before_any_job_and_leaves_an_earlier_run_alone(
    spark, files, jobs_of, capsys, renamed, settings, reason
):
    rows = spark.createDataFrame([(1, "a", 0.5)], "user int, item string, score double").withColumnRenamed(*renamed)
    rows.createOrReplaceTempView("served")
    labels = spark.createDataFrame([(1, "a")], "user int, item string").withColumnRenamed(*renamed)
    labels.createOrReplaceTempView("wanted")
    asked = [
        "predictions={table='served'}",
        "labels={table='wanted'}",
        "evaluation.on_invalid=quarantine",
        "output.run_id=day",
        *settings,
    ]
    earlier = files / "out/manifests/run_id=day/part-0.txt"
    earlier.parent.mkdir(parents=True)
    earlier.write_text('{"run_id": "day", "job": "evaluate"}')
    codes = []
    for more in ((), ("--dry-run",)):
        words = [word for one in asked for word in ("--set", one)]
        assert jobs_of(lambda words=[*words, *more]: codes.append(start(files, *words))) == 0
        assert reason in capsys.readouterr().err
    assert codes == [2, 2]
    assert [path for path in (files / "out").rglob("*") if path.is_file()] == [earlier]


def test_a_run_of_another_job_is_not_replaced(spark, finished, files, capsys):
    copy_run(finished, files, "day")
    (files / "compare.toml").write_text(f"""
        [models.a]
        path = "{files}/out/per_user/run_id=day"
        [models.b]
        path = "{files}/out/per_user/run_id=day"
        [comparison]
        baseline = "a"
        [output]
        path = "{files}/out"
        run_id = "day"
    """)
    assert compare(["--config", str(files / "compare.toml")]) == 2
    said = f"{files}/out already has a run 'day' of jobs/evaluate.py, and this run would replace its manifest; choose another"
    assert said in capsys.readouterr().err
    assert run_document(files / "out", "status", "day")["job"] == "evaluate"


@pytest.mark.filterwarnings("always::spark_rankeval.errors.SparkRankEvalWarning")
def test_tables_that_name_users_differently_are_told(files, capsys):
    (files / "l.csv").write_text("user,item\n11,a\n12,a\n13,b\n")
    words = "none of 3 users with labels has predictions; check that both tables use the same user ids"
    advice = "The other users count as users without hits; population='predicted' leaves them out"
    assert start(files, "--set", f"output.report={files}/page.html", "--set", "output.run_id=day") == 0
    out, err = capsys.readouterr()
    assert err == f"evaluate: warning: {words}. {advice}. In the configuration: evaluation.population\n"
    assert f"\n!      {words}\n" in out
    page = (files / "page.html").read_text()
    assert not (files / "out/reports").exists()
    assert page.index(words) < page.index('<h2 id="means-heading"')
    assert run_document(files / "out", run_id="day")["data_quality"]["n_in_both"] == 0


@pytest.mark.filterwarnings("always::spark_rankeval.errors.SparkRankEvalWarning")
def test_items_that_never_match_are_told(spark, files, capsys):
    (files / "l.csv").write_text("user,item\n1,A\n2,A\n")
    words = "none of the 1 labelled items is among the "
    assert start(files, "--set", "output.run_id=day") == 0
    out, err = capsys.readouterr()
    assert err.startswith(f"evaluate: warning: {words}")
    assert "for example 'A' and 'a', so no list has a hit" in err
    assert f"\nnote   {words}" in out
    assert not [name for name in spark.read.parquet(f"{files}/out/per_user").columns if name.startswith("overlap")]


@pytest.mark.filterwarnings("always::spark_rankeval.errors.SparkRankEvalWarning")
def test_a_job_counts_who_is_in_both_where_an_evaluation_cannot_know(spark, files, capsys):
    rows = [(1, "a", 0.5, "good"), (2, "a", 0.1, "good"), (11, "a", 0.5, "strange"), (12, "a", 0.5, "strange")]
    spark.createDataFrame(rows, "user int, item string, score double, `the.model` string").createOrReplaceTempView(
        "served"
    )
    asked = (
        "--set",
        'predictions={table = "served"}',
        "--set",
        "columns.model=the.model",
        "--set",
        "output.run_id=day",
    )
    assert start(files, *asked) == 0
    out, err = capsys.readouterr()
    assert err.startswith(
        "evaluate: warning: model 'strange': none of 2 users with labels has predictions; check that both"
    )
    assert len(err.splitlines()) == 1
    assert out.count("\n!      none of 2 users with labels") == 1
    qualities = run_document(files / "out", run_id="day")["data_quality_of_models"]
    assert {name: one["n_in_both"] for name, one in qualities.items()} == {"good": 2, "strange": 0}
    spark.createDataFrame([(21,), (22,)], "user int").createOrReplaceTempView("everyone")
    assert start(files, "--set", 'users={table = "everyone"}') == 0
    assert capsys.readouterr().err == ""


def test_a_dry_run_reads_no_rows_and_writes_nothing(spark, jobs_of, files, capsys):
    codes = []
    asked = ("--set", "output.report=true", "--set", "evaluation.on_invalid=quarantine")
    # The footer of a file of Parquet is read by a job of one task; text that says its columns by none.
    assert jobs_of(lambda: codes.append(start(files, "--dry-run", *asked))) <= 1
    assert codes == [0]
    said = capsys.readouterr().out
    run_id = re.match(r"run (r\w{12}), not started\n", said)[1]
    assert f"  predictions  parquet {files}/predictions (1 file): user int, item string, score double" in said
    assert "\nmetrics, dialect 'default'\n  rr      rr(" in said
    for name in ("per_user", "quarantine", "metrics", "reports", "manifests", "status"):
        assert re.search(rf"^  {name} +{re.escape(str(files))}/out/{name}/run_id={run_id}$", said, re.MULTILINE)
    assert not (files / "out").exists()
    # Tables of the catalogue have their columns there.
    spark.createDataFrame([(1, "a", 0.5)], "user int, item string, score double").createOrReplaceTempView("served")
    table = ("--set", 'predictions={table = "served"}')
    assert jobs_of(lambda: codes.append(start(files, "--dry-run", *table))) == 0
    assert codes == [0, 0]
    assert start(files, "--dry-run", "--set", "columns.score=nowhere") == 2
    assert start(files, "--dry-run", "--set", 'labels={path="' + f"{files}/l.csv" + '", format="csv"}') == 0
    assert "The types of labels were inferred, for which Spark read the files" in capsys.readouterr().out


def test_a_dry_run_folds_curves(files, capsys):
    assert start(files, "--dry-run", "--set", 'evaluation.metrics=["rr", "ndcg@1..8", "recall@1..9"]') == 0
    shown = capsys.readouterr().out.partition("\nmetrics, ")[2].partition("\n\n")[0].splitlines()[1:]
    names = [line.split()[0] for line in shown]
    assert names == ["rr", *(f"ndcg@{k}" for k in range(1, 9)), "recall@1", "…", "recall@9"]
    assert shown[-2].endswith("  7 more")


def test_the_run_that_a_dry_run_names_is_the_one_that_runs(finished, capsys):
    assert start(finished.folder, "--dry-run") == 0
    named = re.match(r"run (r\w{12}), not started\n", capsys.readouterr().out)[1]
    assert f"run {named} written to" in finished.out


def test_a_report_is_beside_the_manifest_and_tells_how_it_was_made(full):
    assert full.code == 0
    assert "written to" in full.out
    page = (full.folder / "out/reports/run_id=day/report.html").read_text()
    assert "<title>Nightly" in page
    for text in ("mllib", "spark_rankeval", "config", "seed", "n_files"):
        assert text in page
    assert "t0ken" not in page
    assert run_document(full.folder / "out", run_id="day")["outputs"]["reports"].endswith("out/reports/run_id=day")


def test_on_storage_that_is_none_of_the_drivers_disks_spark_writes_the_page(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(runs.Run, "check_fence", lambda _: None)
    output = Output(f"{tmp_path}/out", report=True)
    run = runs.Run(spark, "evaluate", SimpleNamespace(output=output), {}, EventLog("evaluate"), "day")
    page = "<!doctype html>\n<p>Köln</p>\n</html>\n"
    reporting.write_report(run, lambda path: path.write_text(page, encoding="utf-8"))
    (row,) = spark.read.text(run.place("reports"), wholetext=True).collect()
    assert row.value == f"{page}\n"
    assert run.written == {"reports": run.place("reports")}


def test_a_report_can_be_read_by_those_who_may_read_the_tables(tmp_path, monkeypatch):
    """As with Hadoop's fs.permissions.umask-mode=077, whatever the umask is."""
    monkeypatch.setattr(runs.Run, "check_fence", lambda _: None)
    output = Output(str(tmp_path), report=True)
    run = runs.Run(None, "evaluate", SimpleNamespace(output=output), {}, EventLog("evaluate"), "day", is_on_disk=True)
    status = tmp_path / "status" / "run_id=day"
    status.mkdir(parents=True)
    (status / "status.json").touch()
    (status / "status.json").chmod(0o600)
    for folder in (status, status.parent):
        folder.chmod(0o700)
    reporting.write_report(run, lambda path: path.write_text("page"))
    report = tmp_path / "reports" / "run_id=day" / "report.html"
    assert [oct(path.stat().st_mode & 0o777) for path in (report, report.parent, report.parent.parent)] == [
        "0o600",
        "0o700",
        "0o700",
    ]


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("{files}/l.csv/out", r"l\.csv|parent not directory"),  # Connect does not say which
        (
            "s3a://KEY:hunter2@bucket/out",
            "Class org.apache.hadoop.fs.s3a.S3AFileSystem not found|Failed to resolve region",
        ),
    ],
)
def test_an_output_where_nothing_can_be_is_named_by_its_key_and_folder(files, capsys, output, reason):
    place = output.format(files=files)
    assert start(files, "--set", f"output.path={place}") == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("evaluate: ")]
    shown = place.replace("KEY:hunter2", "***")
    assert line.startswith(f"evaluate: wrong config: output.path: cannot write to {shown}: ")
    assert re.search(reason, line.partition(shown)[2])
    assert not any(words in line for words in ("_temporary", "Caused by", "Exception", "hunter2"))
