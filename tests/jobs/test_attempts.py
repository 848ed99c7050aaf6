"""Two attempts at one run: the later one has the run's name, the earlier one stops, and no manifest names tables of both."""

import json

import pytest
from helpers.effort import part_of
from helpers.run_documents import run_document
from pyspark.sql import functions as F

from spark_rankeval.errors import ConfigurationError, SupersededError
from spark_rankeval.jobs import outputs, runs
from spark_rankeval.jobs.config import parse_config
from spark_rankeval.jobs.evaluate import EvaluateConfig, main
from spark_rankeval.jobs.logs import EventLog

TABLES = ("per_user", "metrics")


@pytest.fixture
def output(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Storage that is none of the driver's disks, which only Spark can read and write."""
    return lambda: monkeypatch.setattr(outputs, "on_this_disk", lambda place: tmp_path / "not" / "here")


@pytest.fixture
def attempt(spark, output):
    """Begin an attempt at the run ``day``."""
    sections = {
        "predictions": {"path": "p"},
        "evaluation": {"metrics": "rr"},
        "output": {"path": str(output), "run_id": "day"},
    }
    config = parse_config(sections, EvaluateConfig)
    return lambda: runs.running(spark, "evaluate", config, {}, EventLog("evaluate"))


def write(run, table):
    run.write(run.spark.createDataFrame([(run.attempt,)], "attempt string").coalesce(1), table)


def finish(run, tables=TABLES):
    for table in tables:
        write(run, table)
    run.publish(run.manifest({}, seed=0))


def contents(output):
    return {path: path.read_bytes() for path in output.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("n_written", "is_here"), part_of([(0, False), (1, True), (2, True)], 2))
def test_the_earlier_attempt_stops_at_its_next_write_and_spoils_nothing(
    spark, attempt, output, elsewhere, n_written, is_here
):
    if not is_here:
        elsewhere()
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
    assert (run_document(output, "status")["attempt"], run_document(output, "status")["state"]) == (
        run.attempt,
        "succeeded",
    )
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
    assert [run_document(output, "status")[name] for name in ("state", "exit_code", "kind")] == [
        "failed",
        5,
        "superseded",
    ]


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


@pytest.fixture
def start(spark, tmp_path):
    (tmp_path / "p.csv").write_text("user,item,score\n1,a,0.5\n")
    (tmp_path / "l.csv").write_text("user,item\n1,a\n")
    schemas = {"predictions": "user int, item string, score double", "labels": "user int, item string"}
    sections = [
        f'{name} = {{ path = "{tmp_path}/{name[0]}.csv", format = "csv", schema = "{schema}" }}'
        for name, schema in schemas.items()
    ]
    output = f'output = {{ path = "{tmp_path}/out", run_id = "day" }}'
    text = "\n".join([*sections, 'columns.score = "score"', 'evaluation.metrics = "rr"', output])
    (tmp_path / "job.toml").write_text(text)
    return lambda *arguments: main(["--config", str(tmp_path / "job.toml"), *arguments])


@pytest.mark.night
def test_the_job_that_loses_its_name_exits_with_5_and_a_sentence(start, tmp_path, capsys, monkeypatch):
    metrics_table, codes = outputs.metrics_table, []

    def meanwhile(*arguments):
        monkeypatch.setattr(outputs, "metrics_table", metrics_table)
        codes.append(start())
        return metrics_table(*arguments)

    monkeypatch.setattr(outputs, "metrics_table", meanwhile)
    codes.append(start("--log-format", "json"))
    assert codes == [0, 5]
    *_, last = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert (last["event"], last["kind"], last["exit_code"]) == ("failed", "superseded", 5)
    assert "has taken the name; this attempt" in last["error"]
    assert run_document(tmp_path / "out", "manifests")["attempt"] == run_document(tmp_path / "out", "status")["attempt"]


def test_a_commit_protocol_that_cannot_replace_a_partition_is_refused_before_any_job(
    start, jobs_of, tmp_path, capsys, monkeypatch
):
    protocol, codes = "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol", []
    # The class is in none of the jars that PySpark comes with.
    monkeypatch.setattr(outputs, "setting", lambda session, name, default: protocol)
    for arguments in ((), ("--dry-run",)):
        assert jobs_of(lambda arguments=arguments: codes.append(start(*arguments))) == 0
        reason = (
            f"this session's spark.sql.sources.commitProtocolClass is {protocol}, which cannot replace one partition"
        )
        assert reason in capsys.readouterr().err
    assert codes == [2, 2]
    assert not (tmp_path / "out").exists()
