"""What a run leaves beside its tables: status, events, reports, and what a dry run says of it."""

import json
import re
import shutil
import warnings
from types import SimpleNamespace

import pytest
from helpers.run_documents import contents, run_document, run_here

from spark_rankeval.errors import SparkRankEvalWarning
from spark_rankeval.evaluation.result import Result
from spark_rankeval.jobs import outputs as reporting
from spark_rankeval.jobs import outputs as runs
from spark_rankeval.jobs.config import EventLog, Output
from spark_rankeval.jobs.evaluate import main
from spark_rankeval.jobs.runs import compare_main as compare

TEXT = """
    predictions.path = "FOLDER/predictions"
    labels = { path = "FOLDER/l.csv", format = "csv", schema = "user int, item string" }
    columns.score = "score"
    evaluation.metrics = ["rr", "ndcg@2"]
    output.path = "FOLDER/out"
"""
DAY = "output.run_id=day"
JSON = ("--log-format", "json")


@pytest.fixture(scope="module")
def prepared(spark, tmp_path_factory):
    """A folder with the inputs of a run."""
    folder = tmp_path_factory.mktemp("inputs")
    predictions = [(1, "a", 0.5), (1, "b", 0.9), (2, "a", 0.1)]
    frame = spark.createDataFrame(predictions, "user int, item string, score double")
    frame.coalesce(1).write.parquet(f"{folder}/predictions")
    (folder / "l.csv").write_text("user,item\n1,a\n2,a\n")
    return folder


@pytest.fixture
def files(prepared, tmp_path):
    return shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)


def start(folder, *settings, options=()):
    return run_here(main, folder, TEXT, *settings, options=options)


@pytest.fixture(scope="module")
def finished(prepared, tmp_path_factory):
    """A run that the job has named, and what it logged."""
    folder = shutil.copytree(prepared, tmp_path_factory.mktemp("finished"), dirs_exist_ok=True)
    return start(folder, options=JSON)


@pytest.fixture(scope="module")
def full(prepared, tmp_path_factory):
    """The run ``day``, which was asked for everything that a run can leave, and what it logged."""
    folder = shutil.copytree(prepared, tmp_path_factory.mktemp("full"), dirs_exist_ok=True)
    (folder / "l.csv").write_text("user,item\n1,a\n2,a\n,b\n")
    return start(
        folder, DAY, "evaluation.on_invalid=quarantine", "gates={rr={min=0.1}}", "output.report=true",
        "report.distributions=['rr']", "report.dialects=['mllib']", "report.title=Nightly", 'labels.options={"token"="t0ken"}',
    )  # fmt: skip


def crash(*_):
    raise RuntimeError("s3a://AK:hunter2@b/t is gone")


def state_of(folder, *names):
    status = run_document(folder / "out", "status", "day")
    return [status[name] for name in names]


def test_status_and_events_of_a_run_that_succeeds(finished):
    told = finished.events
    assert [one["event"] for one in told] == ["started", "running", "written", "notes", *["written"] * 2, "succeeded"]
    run_id = told[-1]["run_id"]
    assert [one["run_id"] for one in told] == [None, *[run_id] * 6]
    assert [one["what"] for one in told if one["event"] == "written"] == ["per_user", "metrics", "manifests"]
    assert finished.code == told[-1]["exit_code"] == 0
    assert all(re.match(r"\d{4}-\d\d-\d\dT", one["time"]) and one["job"] == "evaluate" for one in told)
    found = run_document(finished.folder / "out", "status", run_id)
    assert (found["state"], found["exit_code"], found["error"], found["job"]) == ("succeeded", 0, None, "evaluate")
    assert found["started"] < found["finished"]
    # A file that has a name.
    names = [file.name for file in (finished.folder / f"out/status/run_id={run_id}").glob("[!._]*")]
    assert names == ["status.json"]


def test_status_and_events_of_a_run_that_fails(files, monkeypatch):
    (files / "l.csv").write_text("user,item\n1,a\n,a\n")
    done = start(files, DAY, options=JSON)
    last = done.events[-1]
    assert [last[name] for name in ("event", "exit_code", "kind", "run_id")] == ["failed", 3, "bad data", "day"]
    assert state_of(files, "state", "exit_code", "kind") == ["failed", done.code, "bad data"]
    assert "null user" in last["error"]
    assert "null user" in state_of(files, "error")[0]
    seen = []

    def killed(*_):
        # What the driver was doing when it was killed.
        seen.extend(state_of(files, "state"))
        crash()

    (files / "l.csv").write_text("user,item\n1,a\n")
    monkeypatch.setattr(Result, "to_stored", killed)
    last = start(files, DAY, options=JSON).events[-1]
    assert (last["exit_code"], last["kind"], seen) == (1, "crash", ["running"])
    assert "RuntimeError" in last["traceback"]
    assert "hunter2" not in json.dumps(last)
    assert state_of(files, "error") == ["s3a://***@b/t is gone"]


def test_what_is_wrong_and_warnings_are_events_for_programs(tmp_path, capsys, recwarn):
    first, last = start(tmp_path, "evaluation.level=high", options=JSON).events
    assert (first["event"], last["event"], last["exit_code"]) == ("started", "failed", 2)
    assert "evaluation.level must be a number" in last["error"]
    with EventLog("job", "json").with_warnings({"population": "evaluation.population"}):
        warnings.warn("s3a://AK:t0@b/t looks odd", UserWarning, stacklevel=1)
        warnings.warn("population='predicted' leaves them out", SparkRankEvalWarning, stacklevel=1)
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(one["event"], one["kind"], one["warning"]) for one in told] == [
        ("warning", "UserWarning", "s3a://***@b/t looks odd"),
        ("warning", "SparkRankEvalWarning",
         "population='predicted' leaves them out. In the configuration: evaluation.population"),
    ]  # fmt: skip
    assert len(recwarn) == 0


def test_the_run_that_a_dry_run_names_is_the_one_that_runs(finished):
    named = re.match(r"run (r\w{12}), not started\n", start(finished.folder, options=["--dry-run"]).out)[1]
    assert f"run {named} written to" in finished.out


# --- runs again


def copy_run(of, folder, *names):
    """Make runs of these names of the only run of a folder."""
    for partition in (of.folder / "out").glob("*/run_id=*"):
        for name in names:
            shutil.copytree(partition, folder / "out" / partition.parent.name / f"run_id={name}")


def runs_with_a_manifest(folder):
    """The names of whole runs: a manifest that is taken away is an empty file."""
    found = (folder / "out/manifests").glob("run_id=*/[!._]*")
    return {file.parent.name.removeprefix("run_id=") for file in found if file.stat().st_size}


@pytest.mark.parametrize("is_here", [True, False])
def test_a_rerun_leaves_nothing_of_the_earlier_run_beside_its_manifest_and_other_runs_alone(
    spark, full, files, monkeypatch, is_here
):
    copy_run(full, files, "day", "other")
    kept = {path: data for path, data in contents(files / "out").items() if "run_id=other" in path}
    if not is_here:
        # On storage that is none of the driver's disks only Spark can write.
        monkeypatch.setattr("spark_rankeval.spark.catalog.on_this_disk", lambda place: files / "not" / "here")
    with monkeypatch.context() as patched:
        patched.setattr(Result, "to_stored", crash)
        assert start(files, DAY).code == 1
    # The earlier manifest would stand beside tables that it does not describe.
    assert runs_with_a_manifest(files) == {"other"}
    # A table that is mended has an empty quarantine, not that of the run before.
    assert start(files, DAY, "evaluation.on_invalid=quarantine").code == 0
    (line,) = spark.read.text(f"{files}/out/manifests/run_id=day").collect()
    assert set(json.loads(line.value)["outputs"]) == {"per_user", "metrics", "quarantine"}
    for name in ("gates", "quarantine"):
        table = spark.read.parquet(f"{files}/out/{name}")
        assert [row.run_id for row in table.select("run_id").distinct().collect()] == ["other"]
    for name in ("gates", "reports"):
        assert (files / f"out/{name}/run_id=day").exists() is not is_here
    if not is_here:
        assert spark.read.text(f"{files}/out/reports/run_id=day").isEmpty()
    found = contents(files / "out")
    assert {path: found[path] for path in kept} == kept
    assert runs_with_a_manifest(files) == {"day", "other"}


@pytest.mark.not_on_sail("jvm")
@pytest.mark.night
def test_what_stands_on_the_drivers_disk_at_the_path_of_another_file_system_is_left_alone(spark, files):
    """A path without a scheme is on the cluster's default file system, whatever is at the same path of the driver's disk."""
    mounted, cluster = files / "mounted", files / "cluster"
    mounted.mkdir()
    kept = [cluster / table / "run_id=day/part-0.txt" for table in ("quarantine", "reports", "gates", "status")]
    for file in kept:
        file.parent.mkdir(parents=True)
        file.write_text("somebody's")
    told = {"fs.defaultFS": "viewfs://night/", f"fs.viewfs.mounttable.night.link.{cluster}": f"file:{mounted}"}
    for name, value in told.items():
        spark.conf.set(name, value)
    sources = ["predictions.path=file:FOLDER/predictions", "labels.path=file:FOLDER/l.csv"]
    try:
        for report in ("true", "false"):
            assert start(files, "output.path=FOLDER/cluster", DAY, *sources, f"output.report={report}").code == 0
    finally:
        for name in told:
            spark.conf.unset(name)
    assert {path for path in cluster.rglob("*") if path.is_file()} == set(kept)
    assert {file.read_text() for file in kept} == {"somebody's"}
    assert all((mounted / table / "run_id=day").is_dir() for table in ("per_user", "metrics", "manifests", "reports"))


SEEN = "evaluation.on_invalid=quarantine"


@pytest.mark.parametrize(
    ("renamed", "settings", "reason"),
    [
        (("user", "run_id"), [SEEN, "columns.user=run_id"], "the table per_user has a column 'run_id', the name of the"),
        (("score", "run_id"), [SEEN, "columns.score=run_id"], "the table quarantine has a column 'run_id'"),
        (("score", "reason"), [SEEN, "columns.score=reason"], "several columns named 'reason'"),
        (("", ""), ["evaluation.metrics=['rr', 'gini@2']"], "In the configuration: [training]"),
    ],
)  # fmt: skip
def test_what_the_columns_tell_is_refused_before_any_job_and_leaves_an_earlier_run_alone(
    spark, files, jobs_of, renamed, settings, reason
):
    for name, schema, row in (
        ("served", "user int, item string, score double", (1, "a", 0.5)),
        ("wanted", "user int, item string", (1, "a")),
    ):
        spark.createDataFrame([row], schema).withColumnRenamed(*renamed).createOrReplaceTempView(name)
    earlier = files / "out/manifests/run_id=day/part-0.txt"
    earlier.parent.mkdir(parents=True)
    earlier.write_text('{"run_id": "day", "job": "evaluate"}')
    tables = ("predictions={table='served'}", "labels={table='wanted'}")
    for options in ([], ["--dry-run"]):
        done = []
        assert jobs_of(lambda: done.append(start(files, DAY, *tables, *settings, options=options))) == 0  # noqa: B023
        assert done[0].code == 2
        assert reason in done[0].err
    assert [path for path in (files / "out").rglob("*") if path.is_file()] == [earlier]


def test_a_run_of_another_job_is_not_replaced(finished, files):
    copy_run(finished, files, "day")
    users = '{ path = "FOLDER/out/per_user/run_id=day" }'
    text = f"models = {{ a = {users}, b = {users} }}\ncomparison.baseline = 'a'\noutput.path = 'FOLDER/out'"
    said = "FOLDER/out already has a run 'day' of jobs/evaluate.py, and this run would replace its manifest; choose another"
    for _ in range(2):
        done = run_here(compare, files, text, DAY)
        assert (done.code, said in done.err) == (2, True)
        assert state_of(files, "job") == ["evaluate"]
        # A driver that was killed has left a status alone.
        shutil.rmtree(files / "out/manifests", ignore_errors=True)


# --- tables that do not fit each other


@pytest.mark.filterwarnings("always::spark_rankeval.errors.SparkRankEvalWarning")
def test_users_and_items_that_never_match_are_told(spark, files, golden):
    (files / "l.csv").write_text("user,item\n11,a\n12,a\n13,b\n")
    done = start(files, DAY, "output.report=FOLDER/page.html")
    golden(done.scene, "users")
    page = (files / "page.html").read_text()
    assert not (files / "out/reports").exists()
    assert page.index("none of 3 users with labels has predictions") < page.index('<h2 id="means-heading"')
    assert run_document(files / "out", run_id="day")["data_quality"]["n_in_both"] == 0
    (files / "l.csv").write_text("user,item\n1,A\n2,A\n")
    # An engine that prunes lists sees fewer items.
    golden(re.sub(r"the \d predicted", "the predicted", start(files, DAY).scene), "items")
    assert not [name for name in spark.read.parquet(f"{files}/out/per_user").columns if name.startswith("overlap")]


@pytest.mark.filterwarnings("always::spark_rankeval.errors.SparkRankEvalWarning")
def test_a_job_counts_who_is_in_both_where_an_evaluation_cannot_know(spark, files, golden):
    rows = [(1, "a", 0.5, "good"), (2, "a", 0.1, "good"), (11, "a", 0.5, "strange"), (12, "a", 0.5, "strange")]
    served = spark.createDataFrame(rows, "user int, item string, score double, `the.model` string")
    served.createOrReplaceTempView("served")
    done = start(files, "predictions={table = 'served'}", "columns.model=the.model", DAY)
    golden(done.scene)
    qualities = run_document(files / "out", run_id="day")["data_quality_of_models"]
    assert {name: one["n_in_both"] for name, one in qualities.items()} == {"good": 2, "strange": 0}
    spark.createDataFrame([(21,), (22,)], "user int").createOrReplaceTempView("everyone")
    assert start(files, "users={table = 'everyone'}").err == ""


# --- a dry run


def test_a_dry_run_reads_no_rows_and_writes_nothing(spark, jobs_of, files, golden):
    def planned(*settings, most_jobs):
        done = []
        assert jobs_of(lambda: done.append(start(files, DAY, *settings, options=["--dry-run"]))) <= most_jobs
        return done[0]

    metrics = 'evaluation.metrics=["rr", "ndcg@1..8", "recall@1..9"]'
    # The footer of a file of Parquet is read by a job of one task; text that says its columns by none.
    golden(planned("output.report=true", "evaluation.on_invalid=quarantine", metrics, most_jobs=1).scene)
    assert not (files / "out").exists()
    # Tables of the catalogue have their columns there.
    served = spark.createDataFrame([(1, "a", 0.5)], "user int, item string, score double")
    served.createOrReplaceTempView("served")
    assert planned('predictions={table = "served"}', most_jobs=0).code == 0
    assert start(files, "columns.score=nowhere", options=["--dry-run"]).code == 2
    inferred = start(files, "labels={path='FOLDER/l.csv', format='csv'}", options=["--dry-run"])
    assert "The types of labels were inferred, for which Spark read the files" in inferred.out


# --- reports, and places where nothing can be


def test_a_report_is_beside_the_manifest_and_tells_how_it_was_made(full):
    assert full.code == 0
    assert "<title>Nightly" in full.page
    for text in ("mllib", "spark_rankeval", "config", "seed", "n_files"):
        assert text in full.page
    assert "t0ken" not in full.page
    place = f"{full.folder}/out/reports/run_id=day"
    assert run_document(full.folder / "out", run_id="day")["outputs"]["reports"] == place


@pytest.fixture
def run_of(spark):
    """Makes a run that writes a report, without having begun."""

    def make(folder, is_on_disk):
        config = SimpleNamespace(output=Output(str(folder), report=True))
        return runs.Run(spark, "evaluate", config, {}, EventLog("evaluate"), "day", is_on_disk=is_on_disk)

    return make


def test_on_storage_that_is_none_of_the_drivers_disks_spark_writes_the_page(spark, run_of, tmp_path):
    page, run = "<!doctype html>\n<p>Köln</p>\n</html>\n", run_of(tmp_path, False)
    reporting.write_report(run, lambda path: path.write_text(page, encoding="utf-8"))
    (row,) = spark.read.text(run.place("reports"), wholetext=True).collect()
    assert row.value == f"{page}\n"
    assert run.written == {"reports": run.place("reports")}


def test_a_report_on_the_drivers_disk_is_a_file_of_html_that_spark_has_written(run_of, tmp_path):
    """So that it has the rights of the tables, those of Hadoop's fs.permissions.umask-mode, whatever the umask is."""
    reporting.write_report(run_of(tmp_path, True), lambda path: path.write_text("page"))
    (report,) = (tmp_path / "reports" / "run_id=day").glob("[!._]*")
    assert (report.name, report.read_text()) == ("report.html", "page\n")


@pytest.mark.parametrize(
    ("place", "shown", "reason"),
    [
        # Connect does not say which.
        ("FOLDER/l.csv/out", "FOLDER/l.csv/out", r"l\.csv|parent not directory"),
        ("s3a://KEY:hunter2@bucket/out", "s3a://***@bucket/out", "S3AFileSystem not found|Failed to resolve region"),
    ],
)
def test_an_output_where_nothing_can_be_is_named_by_its_key_and_folder(files, place, shown, reason):
    done = start(files, f"output.path={place}")
    (line,) = [line for line in done.lines if line.startswith("evaluate: ")]
    assert done.code == 2
    assert line.startswith(f"evaluate: wrong config: output.path: cannot write to {shown}: ")
    assert re.search(reason, line.partition(shown)[2])
    assert not any(words in line for words in ("_temporary", "Caused by", "Exception", "hunter2"))
