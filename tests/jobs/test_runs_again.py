"""Two attempts at one run: the later one has the run's name, the earlier one stops, and no manifest names tables of both."""

import json
from functools import partial

import pytest
from helpers.run_documents import contents, run_document, run_here
from pyspark.sql import functions as F

from spark_rankeval.errors import ConfigurationError, SupersededError
from spark_rankeval.jobs import outputs
from spark_rankeval.jobs import outputs as runs
from spark_rankeval.jobs.config import EventLog, parse_config
from spark_rankeval.jobs.evaluate import EvaluateConfig, main

TABLES = ("per_user", "metrics")


@pytest.fixture
def output(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def attempt(spark, output):
    """Begin an attempt at the run ``day``."""
    told = {"predictions": {"path": "p"}, "evaluation": {"metrics": "rr"}}
    config = parse_config({**told, "output": {"path": str(output), "run_id": "day"}}, EvaluateConfig)
    return lambda: runs.running(spark, "evaluate", config, {}, EventLog("evaluate"))


def write(run, table):
    run.write(run.spark.createDataFrame([(run.attempt,)], "attempt string").coalesce(1), table)


def finish(run, tables=TABLES):
    for table in tables:
        write(run, table)
    run.publish(run.manifest({}, seed=0))


@pytest.mark.parametrize(("n_written", "is_here"), [(0, False), (2, True)])
def test_the_earlier_attempt_stops_at_its_next_write_and_spoils_nothing(
    spark, attempt, output, tmp_path, monkeypatch, n_written, is_here
):
    if not is_here:
        # Storage that is none of the driver's disks, which only Spark can read and write.
        monkeypatch.setattr(outputs, "on_this_disk", lambda place: tmp_path / "not" / "here")
    began, kept = [], {}

    def earlier():
        with attempt() as run:
            began.append(run)
            for table in TABLES[:n_written]:
                write(run, table)
            with attempt() as later:
                began.append(later)
                finish(later)
            kept.update(contents(output))
            finish(run, TABLES[n_written:])

    with pytest.raises(SupersededError) as caught:
        earlier()
    assert contents(output) == kept
    first, later = began
    assert {run_document(output, table)["attempt"] for table in ("manifests", "status")} == {later.attempt}
    assert [spark.read.parquet(f"{output}/{table}").first().attempt for table in TABLES] == [later.attempt] * 2
    assert run_document(output, "status")["state"] == "succeeded"
    assert str(caught.value) == (
        f"run 'day' in {output}: another attempt, which started at {later.started.isoformat()}, has taken the name; "
        f"this attempt, started at {first.started.isoformat()}, stops and writes no more"
    )


def test_what_killed_attempts_left_on_the_disk_goes_with_the_next_attempt(spark, attempt, output):
    for run_id in ("day", "another"):
        # As Spark names what a job has not published yet.
        (output / f"metrics/.spark-staging-{run_id}/_temporary/0/task_1/run_id={run_id}").mkdir(parents=True)
        (output / f"_per_user@{run_id}.staging-1/table").mkdir(parents=True)
    with attempt() as run:
        with run.staged(spark.range(1), "per_user") as table:
            assert [*output.glob("_per_user@day.staging-*/table/*.parquet")]
            assert table.count() == 1
        finish(run)
    assert sorted(path.name for path in (*output.glob("*/.spark-staging*"), *output.glob("_*"))) == [
        ".spark-staging-another",
        "_per_user@another.staging-1",
    ]


def test_a_status_that_the_earlier_attempt_writes_too_late_does_not_take_the_name_back(attempt, output, monkeypatch):
    began = []

    def earlier():
        with attempt() as run:
            began.append(run)
            raise RuntimeError

    monkeypatch.setattr(runs.Run, "check_fence", lambda run: None)
    with pytest.raises(RuntimeError):
        earlier()
    monkeypatch.undo()
    with attempt() as run:
        # The earlier one looked before this one claimed the name, and writes that it has failed after.
        began[0].write_status("failed", exit_code=1)
        finish(run)
    status = run_document(output, "status")
    assert (status["attempt"], status["state"]) == (run.attempt, "succeeded")
    assert run_document(output, "manifests")


def test_a_write_that_began_before_the_claim_and_ended_after_it_leaves_no_manifest(attempt, output, monkeypatch):
    """What is looked at before a write may change while it lasts: the later attempt finds that its table is another's."""
    write_partition = runs.write_partition

    def later(*arguments, **options):
        with attempt() as run:
            write(run, "per_user")
            write_partition(*arguments, **options)
            run.publish(run.manifest({}, seed=0))

    def slow(*arguments, **options):
        monkeypatch.setattr(runs, "write_partition", write_partition)
        with pytest.raises(SupersededError, match="another attempt has written per_user; this attempt"):
            later(*arguments, **options)

    def earlier():
        with attempt() as run:
            monkeypatch.setattr(runs, "write_partition", slow)
            write(run, "per_user")
            write(run, "metrics")

    with pytest.raises(SupersededError, match="has taken the name"):
        earlier()
    assert not (output / "manifests").exists()
    status = run_document(output, "status")
    assert [status[name] for name in ("state", "exit_code", "kind")] == ["failed", 5, "superseded"]


def test_what_fails_because_the_other_attempt_replaced_it_is_no_crash(attempt, output):
    def earlier():
        with attempt():
            with attempt():
                pass
            raise FileNotFoundError

    with pytest.raises(SupersededError):
        earlier()
    assert run_document(output, "status")["state"] == "succeeded"


def test_a_committer_that_adds_to_a_partition_is_refused_before_a_table_is_touched(attempt, output, monkeypatch):
    with attempt() as earlier:
        write(earlier, "per_user")

    def add(session, output, table, run_id, values):
        row = session.createDataFrame([(json.dumps(values),)], "value string").withColumn("run_id", F.lit(run_id))
        row.write.mode("append").partitionBy("run_id").text(f"{output.path}/{table}")

    monkeypatch.setattr(runs, "write_line", add)
    kept = contents(output / "per_user")
    with pytest.raises(ConfigurationError, match="added to what was there instead of replacing it"), attempt():
        pytest.fail("it is refused before anything is computed")
    assert contents(output / "per_user") == kept


def test_a_commit_protocol_that_cannot_replace_a_partition_is_refused_before_any_job(
    spark, jobs_of, tmp_path, monkeypatch
):
    protocol, done = "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol", []
    # The class is in none of the jars that PySpark comes with.
    monkeypatch.setattr(outputs, "setting", lambda session, name, default: protocol)
    rows = spark.createDataFrame([(1, "a", 0.5)], "user int, item string, score double")
    rows.createOrReplaceTempView("served")
    text = "predictions.table = 'served'\nlabels.table = 'served'\ncolumns.score = 'score'\nevaluation.metrics = 'rr'\n"
    for options in ([], ["--dry-run"]):
        start = partial(run_here, main, tmp_path, f"{text}output.path = 'FOLDER/out'", options=options)
        assert jobs_of(lambda start=start: done.append(start())) == 0
    said = f"this session's spark.sql.sources.commitProtocolClass is {protocol}, which cannot replace one partition"
    assert [(one.code, said in one.err) for one in done] == [(2, True)] * 2
    assert not (tmp_path / "out").exists()
