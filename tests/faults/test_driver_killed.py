"""The driver killed while it writes: what was there is there, nothing half-written has a table's name, and a rerun succeeds."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from faults.evaluations import METRICS, PLAN, figures_of, stored
from faults.orders import ROOT, SCORING, WRITING, eventually, is_running

from spark_rankeval.jobs.config import load_config
from spark_rankeval.jobs.evaluate import EvaluateConfig
from spark_rankeval.jobs.evaluate_run import evaluate_tables

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Program:
    """Something that writes a per-user table, ``per_user`` in a folder for its output.

    Attributes:
        arguments: those of spark-submit, for the folder of the data, the folder of the output, and a mode.
        run: the same in a session of this process; gives what the program says.
        run_earlier: writes something else to the same place.
        announces: the tables that it writes before it has computed anything.
    """

    arguments: Callable
    run: Callable
    run_earlier: Callable
    announces: tuple = ()


def configuration(data, output, metrics, run_id="night"):
    """A configuration of the job whose run has a name, always the same."""
    file = Path(f"{output}.toml")
    file.write_text(
        f"""
        [predictions]
        path = "{data}/new.parquet"
        [labels]
        path = "{data}/labels.parquet"
        [columns]
        score = "score"
        relevance = "grade"
        [evaluation]
        metrics = {json.dumps(metrics)}
        ci = "bca"
        replicates = 200
        [output]
        path = "{output}"
        run_id = "{run_id}"
        """
    )
    return file


def run_job(spark, data, output, metrics, run_id="night"):
    file = configuration(data, output, metrics, run_id)
    result, *_ = evaluate_tables(spark, load_config(str(file), EvaluateConfig))
    return result.to_json()


PROGRAMS = {
    "write_per_user": Program(
        arguments=lambda data, output, mode: [HERE / "writing.py", data, output / "per_user", mode],
        run=lambda spark, data, output, mode: stored(spark, data, output / "per_user", mode),
        run_earlier=lambda spark, data, output: stored(spark, data, output / "per_user", models=("old",)),
    ),
    "the job": Program(
        arguments=lambda data, output, _: [
            ROOT / "jobs" / "evaluate.py", "--config", configuration(data, output, METRICS),
        ],
        run=lambda spark, data, output, _: run_job(spark, data, output, METRICS),
        run_earlier=lambda spark, data, output: run_job(spark, data, output, ["rr"]),
        announces=("status",),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def spark(session_on, data):
    """A session that leaves a core of the cluster for the driver that is to die."""
    with session_on(**{"spark.cores.max": "1"}) as running:
        yield running


@pytest.fixture(scope="module")
def expected(spark, data, orders, tmp_path_factory):
    """What each program says and the figures of its table, undisturbed."""
    orders.place_none()
    found = {}
    for name, program in PROGRAMS.items():
        output = tmp_path_factory.mktemp("undisturbed") / "output"
        output.mkdir()
        found[name] = program.run(spark, data, output, "errorifexists"), read(spark, output / "per_user")
    return found


@pytest.fixture
def driver(cluster, orders, data, tmp_path):
    """Starts a program in a driver of its own, which takes one core."""
    started = []

    def start(program, output, mode):
        told = {**PLAN, **orders.on_executors, "spark.cores.max": "1"}
        conf = [word for key, value in told.items() for word in ("--conf", f"{key}={value}")]
        process = cluster.start(
            *conf, *program.arguments(data, output, mode), log=tmp_path / "driver.log", cwd=tmp_path,
            driver_python=sys.executable, executor_python=sys.executable, **orders.on_driver,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()


@pytest.fixture
def output(tmp_path):
    folder = tmp_path / "output"
    folder.mkdir()
    return folder


def visible(folder):
    """What Spark takes for tables in a folder."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith(("_", ".")))


def read(spark, path):
    """The figures of the table at a path."""
    return figures_of(spark.read.parquet(str(path)))


def hidden(folder, kind):
    """The table that a writer left beside its place."""
    (left,) = folder.glob(f"_per_user.{kind}-*")
    return str(left / "table" if kind == "staging" else left)


def wait_for_the_end(process, cluster, seconds=150):
    eventually(lambda: not process.is_running, "the driver is dead", process.log.read_text, seconds=seconds)
    eventually(
        lambda: len(cluster.state()["activeapps"]) == 1, "the master has let its application go", cluster.log_of_workers
    )


@pytest.mark.parametrize("mode", ["errorifexists", "overwrite"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_while_users_are_scored(name, mode, spark, cluster, data, orders, driver, expected, output):
    """With an earlier table, which the job replaces as it has the same run, and without one."""
    program, table = PROGRAMS[name], output / "per_user"
    if mode == "overwrite":
        program.run_earlier(spark, data, output)
    names, before = visible(output), read(spark, table) if mode == "overwrite" else None
    orders.place(SCORING, "wait", partition=1, call=2)
    process = driver(program, output, mode)
    eventually(orders.was_done, "a task comes to the gate", process.log.read_text, seconds=150)
    # The task holds some users back, others are written already.
    process.kill()
    wait_for_the_end(process, cluster)
    done = orders.done()
    gone = [done["executor"], done["daemon"], done["python"]]
    eventually(lambda: not any(map(is_running, gone)), "its executor is gone with it", cluster.log_of_workers)
    assert list(output.rglob("_temporary")), "nothing was half-written"
    assert visible(output) == sorted({*names, *program.announces})
    assert before is None or read(spark, table) == before
    assert program.run(spark, data, output, mode) == expected[name][0]
    assert read(spark, table) == expected[name][1]


#: What `write_per_user` is about to do with the table's folders when it is killed, and where the tables are then.
STEPS = {
    "before the earlier table is moved": ("os.rename", 1, "place", "staging"),
    "before the new table is moved": ("os.rename", 2, "replaced", "staging"),
    "before the earlier table is removed": ("shutil.rmtree", 1, "replaced", "place"),
}


@pytest.mark.parametrize("step", STEPS)
def test_while_a_table_is_replaced(step, spark, cluster, data, orders, driver, expected, output):
    """Between two renames nothing has the table's name, and both tables are whole beside it; else it is always one of them."""
    program = PROGRAMS["write_per_user"]
    event, call, place_of_earlier, place_of_new = STEPS[step]
    program.run_earlier(spark, data, output)
    before = read(spark, output / "per_user")
    orders.place(event, "kill_driver", call=call)
    wait_for_the_end(driver(program, output, "overwrite"), cluster)
    assert orders.done()["at"] == event

    def there(place):
        return read(spark, output / "per_user" if place == "place" else hidden(output, place))

    assert there(place_of_earlier) == before
    assert there(place_of_new) == expected["write_per_user"][1]
    assert visible(output) == (["per_user"] if "place" in (place_of_earlier, place_of_new) else [])
    assert program.run(spark, data, output, "overwrite") == expected["write_per_user"][0]
    assert there("place") == expected["write_per_user"][1]


def test_before_a_new_table_is_moved(spark, cluster, data, orders, driver, expected, output):
    program = PROGRAMS["write_per_user"]
    orders.place("os.rename", "kill_driver")
    wait_for_the_end(driver(program, output, "errorifexists"), cluster)
    assert orders.done()["at"] == "os.rename"
    assert visible(output) == []
    assert program.run(spark, data, output, "errorifexists") == expected["write_per_user"][0]
    assert read(spark, output / "per_user") == expected["write_per_user"][1]


#: What the job is about to write when it is killed, and which of the calls that is: the status first, then the tables.
JOB_STEPS = {
    "before its users are published": (2, "per_user", ["status"]),
    "before its figures": (3, "metrics", ["status", "per_user"]),
    "between its tables and its manifest": (4, "manifests", ["status", "per_user", "metrics"]),
    "before it says that it succeeded": (5, "status", ["status", "per_user", "metrics", "manifests"]),
}


def lines(spark, output, table):
    """What a table of runs says of each, by the run's name."""
    return {row.run_id: row for row in spark.read.json(str(output / table)).collect()}


@pytest.mark.parametrize("step", JOB_STEPS)
def test_while_a_job_writes_its_tables(step, spark, cluster, data, orders, driver, expected, output):
    """Over an earlier run of its name and beside one of another: that one stays whole, and a rerun replaces its own alone."""
    call, what, before = JOB_STEPS[step]
    run_job(spark, data, output, ["rr"], run_id="evening")
    run_job(spark, data, output, ["rr"], run_id="night")
    tables = ("per_user", "metrics", "manifests", "status")

    def evening():
        return {
            path.relative_to(output): path.read_bytes()
            for table in tables
            for path in (output / table / "run_id=evening").rglob("*")
            if path.is_file()
        }

    kept = evening()
    assert len(kept) >= len(tables)
    orders.place(WRITING, "kill_driver", call=call)
    # It has evaluated everything by then.
    wait_for_the_end(driver(PROGRAMS["the job"], output, "overwrite"), cluster, seconds=300)
    assert (orders.done()["what"], orders.done()["before"]) == (what, before)
    assert evening() == kept
    # The earlier manifest never stands beside newer tables, and a whole run has one.
    manifests = lines(spark, output, "manifests")
    assert set(manifests) == ({"evening", "night"} if what == "status" else {"evening"})
    assert {name: row.state for name, row in lines(spark, output, "status").items()} == {
        "evening": "succeeded",
        "night": "running",
    }
    assert run_job(spark, data, output, METRICS) == expected["the job"][0]
    assert spark.read.parquet(str(output / "metrics")).where("run_id = 'night'").count() == len(METRICS)
    assert evening() == kept
    assert set(lines(spark, output, "manifests")) == {"evening", "night"}
    assert lines(spark, output, "status")["night"].state == "succeeded"
