"""A run replaces the one of its name: what is left of that, and storage that cannot replace it."""

import json
from functools import partial

import pytest
from helpers.run_documents import contents, run_document, run_here
from pyspark.sql import functions as F

from spark_rankeval.errors import ConfigurationError
from spark_rankeval.jobs import outputs as runs
from spark_rankeval.jobs.config import EventLog, parse_config
from spark_rankeval.jobs.evaluate import EvaluateConfig, main

TABLES = ("per_user", "metrics")


@pytest.fixture
def output(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def attempt(spark, output):
    """Begin the run ``day``."""
    told = {"predictions": {"path": "p"}, "evaluation": {"metrics": "rr"}}
    config = parse_config({**told, "output": {"path": str(output), "run_id": "day"}}, EvaluateConfig)
    return lambda: runs.running(spark, "evaluate", config, {}, EventLog("evaluate"))


def write(run, table):
    run.write(run.spark.createDataFrame([(run.started.isoformat(),)], "started string").coalesce(1), table)


def finish(run, tables=TABLES):
    for table in tables:
        write(run, table)
    run.publish(run.manifest({}, seed=0))


def test_of_two_runs_of_one_name_at_once_the_last_one_to_write_has_the_tables_and_the_manifest(spark, attempt, output):
    with attempt() as run:
        with attempt() as other:
            finish(other)
        assert run_document(output)["started"] == other.started.isoformat()
        finish(run)
    assert {run_document(output, table)["started"] for table in ("manifests", "status")} == {run.started.isoformat()}
    assert [spark.read.parquet(f"{output}/{table}").first().started for table in TABLES] == [
        run.started.isoformat()
    ] * 2


def test_a_run_that_replaces_a_table_of_another_and_fails_leaves_no_manifest(attempt, output):
    def interrupted():
        with attempt() as run:
            with attempt() as other:
                finish(other)
            write(run, "per_user")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        interrupted()
    assert not any(file.read_text() for file in output.glob("manifests/run_id=day/[!._]*"))
    assert run_document(output, "status")["state"] == "failed"


def test_what_killed_drivers_left_on_the_disk_goes_with_the_next_run_of_that_name(spark, attempt, output):
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
    monkeypatch.setattr("spark_rankeval.spark.engine.setting", lambda session, name, default: protocol)
    rows = spark.createDataFrame([(1, "a", 0.5)], "user int, item string, score double")
    rows.createOrReplaceTempView("served")
    text = "predictions.table = 'served'\nlabels.table = 'served'\ncolumns.score = 'score'\nevaluation.metrics = 'rr'\n"
    for options in ([], ["--dry-run"]):
        start = partial(run_here, main, tmp_path, f"{text}output.path = 'FOLDER/out'", options=options)
        assert jobs_of(lambda start=start: done.append(start())) == 0
    said = f"this session's spark.sql.sources.commitProtocolClass is {protocol}, which cannot replace one partition"
    assert [(one.code, said in one.err) for one in done] == [(2, True)] * 2
    assert not (tmp_path / "out").exists()
