"""A run replaces the one of its name: what is left of that."""

import pytest
from helpers.run_documents import run_document

from spark_rankeval.jobs import outputs as runs
from spark_rankeval.jobs.config import EventLog, parse_config
from spark_rankeval.jobs.evaluate import EvaluateConfig

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
        (output / f"_per_user@{run_id}.staging-1/table").mkdir(parents=True)
    with attempt() as run:
        with run.staged(spark.range(1), "per_user") as table:
            assert [*output.glob("_per_user@day.staging-*/table/*.parquet")]
            assert table.count() == 1
        finish(run)
    assert [path.name for path in output.glob("_*")] == ["_per_user@another.staging-1"]
