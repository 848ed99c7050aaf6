"""What gates and trends read of earlier runs: the rows they need, while other runs write."""

import itertools
import json
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from worlds.judged_users import estimated, users
from worlds.summary_rows import replace, row

from spark_rankeval import history, merge
from spark_rankeval.errors import ConfigurationError, InputError
from spark_rankeval.jobs import evaluate_run, outputs
from spark_rankeval.jobs.config import Output
from spark_rankeval.jobs.outputs import read_history
from spark_rankeval.records.columns import TIME
from spark_rankeval.records.stored import metrics_record
from spark_rankeval.records.summary import METRICS
from spark_rankeval.run_history.gates import read_gates
from spark_rankeval.spark.catalog import table_of

START = datetime(2026, 10, 1, 4, 30, 0, 123456, tzinfo=UTC)
SLICES = ["all", *(f"country={letter}" for letter in "ABCDEFGH")]


def at(day):
    return START + timedelta(days=day)


def write_days(spark, output, days):
    """Write the rows of a run a day, and manifests that say how many gates each has failed."""
    lines = []
    for day, (rows, n_failed) in enumerate(days):
        frame = table_of([{**metrics_record(one), TIME: at(day)} for one in rows], METRICS, spark)
        outputs.write_partition(frame.coalesce(1), Output(str(output)), "metrics", f"day{day}")
        started = at(day).isoformat()
        manifest = {"run_id": f"day{day}", "job": "evaluate", "started": started, "gates_failed": n_failed}
        lines.append((json.dumps(manifest), f"day{day}"))
    manifests = spark.createDataFrame(lines, "value string, run_id string").coalesce(1)
    manifests.write.partitionBy("run_id").text(f"{output}/manifests")
    return output


@pytest.fixture(scope="module")
def four_days(spark, tmp_path_factory):
    """The outputs of a run a day; the newest lacks slices, the one before it has failed its gates."""

    def rows(day, slices):
        told = itertools.product(("rr", "ndcg@10", "recall@5"), ("als", "pop"), slices)
        return [row(name, 0.1 * day, model=model, slice=users) for name, model, users in told]

    days = [(rows(0, SLICES), 0), (rows(1, SLICES), 0), (rows(2, SLICES), 1), (rows(3, ["all"]), 0)]
    return write_days(spark, tmp_path_factory.mktemp("out"), days)


def outcomes(spark, output, rules, rows, day=9):
    run = SimpleNamespace(
        spark=spark, config=SimpleNamespace(output=Output(str(output))), run_id="today", started=at(day)
    )
    found = evaluate_run.outcomes_of(run, read_gates(rules), SimpleNamespace(summary=tuple(rows)))
    return [(one.name, one.passed, one.earlier) for one in found]


GATE, TODAY = {"rr": {"max_drop": 0.1, "model": "als"}}, row("rr", 0.25, model="als")


@contextmanager
def without_manifest(output, run_id, elsewhere):
    (file,) = (output / f"manifests/run_id={run_id}").glob("[!._]*")
    file.rename(elsewhere / file.name)
    try:
        yield
    finally:
        (elsewhere / file.name).rename(file)


@pytest.fixture
def n_collected(spark, monkeypatch):
    """How many rows of metrics the driver was given, action by action."""
    kind = type(spark.range(1))
    collect, found = kind.collect, []

    def counted(frame):
        rows = collect(frame)
        if "mean" in frame.columns:
            found.append(len(rows))
        return rows

    monkeypatch.setattr(kind, "collect", counted)
    return found


def test_a_look_back_collects_the_rows_of_its_figures_alone(spark, four_days, n_collected):
    today = [row(name, 0.25, model=model, slice=users) for name in ("rr", "recall@5") for model in ("als", "pop")
             for users in SLICES]  # fmt: skip
    gate = {"rr": {"max_drop": 0.1, "model": "als"}, "recall@5": {"min": 0.1}}
    assert outcomes(spark, four_days, gate, today)[0] == ("rr of als", True, "day3")
    assert n_collected == [1]
    # The newest run lacks the slice, and one of the others has failed: one row a figure is enough.
    gate = {"one": {"metric": "rr", "slice": "country=A", "max_rise": 0.1}}
    assert outcomes(spark, four_days, gate, today) == [
        ("one (rr of als in country=A)", False, "day1"), ("one (rr of pop in country=A)", False, "day1"),
    ]  # fmt: skip
    assert n_collected == [1, 2]


def test_what_no_gate_looks_back_at(spark, four_days, tmp_path):
    # A run that began later, the same figure of another definition, and a run without a manifest.
    assert outcomes(spark, four_days, GATE, [TODAY], day=2.5) == [("rr of als", True, "day1")]
    assert outcomes(spark, four_days, GATE, [replace(TODAY, dialect="lenskit")]) == [("rr of als", True, "")]
    with without_manifest(four_days, "day3", tmp_path):
        assert outcomes(spark, four_days, GATE, [TODAY]) == [("rr of als", True, "day1")]
    # Ends of intervals look back at a run that has them.
    ends = {"rr": {"max_drop": 0.1, "on": "ci_low", "model": "als"}}
    assert outcomes(spark, four_days, ends, [TODAY]) == [("rr of als", True, "day3")]
    assert outcomes(spark, four_days, ends, [replace(TODAY, interval_level=0.9)]) == [("rr of als", True, "")]


def test_gates_on_estimates_of_two_judges_look_back_at_estimates(spark, tmp_path):
    (then,), (now,) = estimated(*users(200, seed=1)), estimated(*users(200, seed=2))
    write_days(spark, tmp_path, [([then], 0)])
    assert now.interval_method == "prediction_powered"
    drop, fall = then.interval_low - now.interval_low, then.mean - now.mean
    rules = {
        "enough": {"metric": "ndcg@10", "min": now.interval_low + 0.001, "on": "ci_low"},
        "end": {"metric": "ndcg@10", "max_drop": drop + 0.001, "on": "ci_low"},
        "mean": {"metric": "ndcg@10", "max_drop": fall - 0.001},
    }
    found = [(passed, earlier) for _, passed, earlier in outcomes(spark, tmp_path, rules, [now])]
    assert found == [(False, ""), (True, "day0"), (False, "day0")]


def test_a_run_that_is_not_as_its_manifest_says_is_no_earlier_one(spark, four_days, monkeypatch):
    facts = outputs.run_facts

    def as_it_was(*arguments, **options):
        """The manifests as they were before the newest run was repeated."""
        found = facts(*arguments, **options)
        return [{**one, "started": at(2.5).isoformat()} if one["run_id"] == "day3" else one for one in found]

    monkeypatch.setattr(outputs, "run_facts", as_it_was)
    gate = {"rr": {"max_drop": 0.2, "model": "als"}}
    assert outcomes(spark, four_days, gate, [row("rr", 0.25, model="als")]) == [("rr of als", True, "day1")]


def replace_files(folder):
    """What a run that is repeated does to files that others have listed."""
    for file in Path(folder).rglob("*.parquet"):
        if not file.name.startswith("."):
            file.rename(file.with_name(f"part-{file.name}"))
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("look", ["gate", "trend"])
def test_files_that_are_replaced_before_they_are_read_are_listed_again(spark, four_days, monkeypatch, look):
    read, told = outputs.read_metrics, []

    def listed(*arguments, missing_ok=False):
        table = read(*arguments, missing_ok=missing_ok)
        told.append(missing_ok)
        if not missing_ok:
            replace_files(four_days / "metrics")
        return table

    monkeypatch.setattr(outputs, "read_metrics", listed)
    if look == "gate":
        assert outcomes(spark, four_days, GATE, [TODAY]) == [("rr of als", True, "day3")]
    else:
        assert len(read_history(spark, Output(str(four_days)), metrics=["RR"]).runs) == 4
    # Spark Connect lists files when it reads them.
    assert told in ([False, True], [False])


def test_a_trend_collects_the_metrics_and_whole_runs_it_shows(spark, four_days, n_collected, tmp_path):
    output = Output(str(four_days))
    found = read_history(spark, output, "country=B", ["RR"])
    assert [run for run, _, one in found.rows if one.model == "als"] == ["day0", "day1", "day2"]
    keys = {one.key for _, _, one in read_history(spark, output, metrics=["rr", "recall@5"]).rows}
    assert keys == {"rr", "recall@5"}
    with without_manifest(four_days, "day3", tmp_path):
        assert list(read_history(spark, output, metrics=["rr"]).runs) == ["day0", "day1", "day2"]
    assert n_collected == [6, 16, 6]


def test_a_trend_knows_which_stored_runs_failed_and_that_a_slice_may_lack_a_metric(spark, tmp_path):
    rows = [row("rr", 0.5), row("ndcg@10", 0.5), row("rr", 0.5, slice="country=A")]
    write_days(spark, tmp_path, [(rows, 0), (rows, 1), (rows, 0), (rows, 0)])
    output = Output(str(tmp_path))
    assert read_history(spark, output).failed == {"day1": "gates failed"}
    # The last of them began after the run that is stored, and has replaced nothing.
    statuses = [
        {"run_id": "day0", "started": at(0).isoformat(), "state": "failed", "kind": "bad data"},
        {"run_id": "day2", "started": at(2).isoformat(), "state": "failed"},
        {"run_id": "day3", "started": at(4).isoformat(), "state": "failed", "kind": "bad data"},
        {"run_id": "day4", "started": at(4).isoformat(), "state": "running"},
        {"run_id": "other", "started": at(4).isoformat(), "state": "failed", "job": "compare"},
    ]
    lines = spark.createDataFrame(
        [(json.dumps({"job": "evaluate"} | status), status["run_id"]) for status in statuses],
        "value string, run_id string",
    )
    lines.coalesce(1).write.partitionBy("run_id").text(f"{tmp_path}/status")
    found = read_history(spark, output)
    unfinished = {"day4": "running, or killed"}
    assert found.failed == {"day0": "bad data", "day1": "gates failed", "day2": "failed"} | unfinished
    assert read_history(spark, output, "country=A", ["ndcg@10"]).rows == ()
    for file in tmp_path.glob("manifests/run_id=*/[!._]*"):
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        file.write_text("no manifest\n")
    assert read_history(spark, output).rows == ()
    first = Output(f"{tmp_path}/first")
    outputs.write_line(spark, first, outputs.STATUS, "day0", {"job": "evaluate"} | statuses[-2])
    with pytest.raises(ConfigurationError, match=r"there are no runs in .*Runs that did not finish: day4"):
        read_history(spark, first)


def test_names_of_runs_that_look_like_numbers_stay_text(spark, four_days, tmp_path):
    for name in ("007", "8"):
        table = outputs.read_metrics(spark, Output(str(four_days))).where("run_id = 'day3'").drop("run_id")
        outputs.write_partition(table, Output(str(tmp_path)), "metrics", name)
    assert list(history(outputs.read_metrics(spark, Output(str(tmp_path)))).runs) == ["007", "8"]
    by_hand = spark.read.parquet(f"{tmp_path}/metrics")
    if by_hand.schema["run_id"].dataType.simpleString() == "string":
        assert list(history(by_hand).runs) == ["007", "8"]
    else:
        said = "'run_id' was read as int, and '007' as 7, but names of runs are text"
        for read in (history, merge):
            with pytest.raises(InputError, match=said):
                read(by_hand)


@pytest.mark.parametrize("read", [history, merge])
def test_a_table_whose_files_are_gone_is_to_be_read_again(spark, four_days, monkeypatch, read):
    table = outputs.read_metrics(spark, Output(str(four_days)))
    assert table.columns == [*METRICS.names, "run_id"]
    kind = type(table)
    collect = kind.collect

    def late(frame):
        # Classic Spark has listed the files; Connect does so in the action, and then says what classic Spark says.
        replace_files(four_days / "metrics")
        if "connect" in kind.__module__:
            raise RuntimeError("[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file")
        return collect(frame)

    monkeypatch.setattr(kind, "collect", late)
    with pytest.raises(InputError, match=r"files of the table were replaced after it was read, .*; read it again"):
        read(table)
