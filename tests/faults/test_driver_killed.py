"""The driver killed while it writes: what was there is there, nothing half-written has a table's name, and a rerun succeeds."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from faults.evaluations import PLAN, figures_of, stored
from faults.orders import SCORING, eventually, is_running

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Program:
    """Something that writes a per-user table.

    Attributes:
        arguments: those of spark-submit, for the folder of the data, a place for the output and a mode.
        run: the same in a session of this process; gives what the program says.
        table: the path of the table, for the place of the output.
    """

    arguments: Callable
    run: Callable
    table: Callable


PROGRAMS = {
    "write_per_user": Program(
        arguments=lambda data, output, mode: [HERE / "writing.py", data, output / "per_user", mode],
        run=lambda spark, data, output, mode: stored(spark, data, output / "per_user", mode),
        table=lambda output: output / "per_user",
    )
}


@pytest.fixture(scope="module")
def spark(session_on, data):
    """A session that leaves a core of the cluster for the driver that is to die."""
    with session_on(**{"spark.cores.max": "1"}) as running:
        yield running


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request):
    return PROGRAMS[request.param]


@pytest.fixture(scope="module")
def expected(spark, data, orders, program, tmp_path_factory):
    """What the program says and the figures of its table."""
    orders.place_none()
    output = tmp_path_factory.mktemp("undisturbed")
    said = program.run(spark, data, output, "errorifexists")
    return said, figures_of(spark.read.parquet(str(program.table(output))))


@pytest.fixture(scope="module")
def earlier(spark, data, tmp_path_factory):
    """Writes an earlier table, of one model alone, and gives its figures."""

    def write(path):
        stored(spark, data, path, models=("old",))
        return figures_of(spark.read.parquet(str(path)))

    return write


@pytest.fixture
def driver(cluster, orders, data, program, tmp_path):
    """Starts the program in a driver of its own, which takes one core."""
    started = []

    def start(output, mode):
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


def visible(folder):
    """What Spark takes for tables in a folder."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith(("_", ".")))


def hidden(folder, kind):
    """The table that a writer left beside its place."""
    (left,) = folder.glob(f"_per_user.{kind}-*")
    return str(left)


def wait_for_the_end(process, cluster):
    eventually(lambda: not process.is_running, "the driver is dead", process.log.read_text, seconds=150)
    eventually(
        lambda: len(cluster.state()["activeapps"]) == 1, "the master has let its application go", cluster.log_of_workers
    )


@pytest.mark.parametrize("mode", ["errorifexists", "overwrite"])
def test_while_users_are_scored(mode, program, spark, cluster, data, orders, driver, expected, earlier, tmp_path):
    output = tmp_path / "output"
    output.mkdir()
    table = program.table(output)
    before = earlier(table) if mode == "overwrite" else None
    orders.place(SCORING, "wait", partition=1, call=2)
    process = driver(output, mode)
    eventually(orders.was_done, "a task comes to the gate", process.log.read_text, seconds=150)
    # The task holds some users back, others are written already.
    process.kill()
    wait_for_the_end(process, cluster)
    done = orders.done()
    gone = [done["executor"], done["daemon"], done["python"]]
    eventually(lambda: not any(map(is_running, gone)), "its executor is gone with it", cluster.log_of_workers)
    assert list(output.rglob("_temporary")), "nothing was half-written"
    if mode == "overwrite":
        assert figures_of(spark.read.parquet(str(table))) == before
    assert visible(output) == (["per_user"] if mode == "overwrite" else [])
    assert program.run(spark, data, output, mode) == expected[0]
    assert figures_of(spark.read.parquet(str(table))) == expected[1]


#: What `write_per_user` is about to do with the table's folders when it is killed, and where the tables are then.
STEPS = {
    "before the earlier table is moved": ("os.rename", 1, "place", "staging"),
    "before the new table is moved": ("os.rename", 2, "replaced", "staging"),
    "before the earlier table is removed": ("shutil.rmtree", 1, "replaced", "place"),
}


@pytest.mark.parametrize("step", STEPS)
def test_while_a_table_is_replaced(step, spark, cluster, data, orders, driver, expected, earlier, tmp_path):
    """Between two renames nothing has the table's name, and both tables are whole beside it; else it is always one of them."""
    event, call, place_of_earlier, place_of_new = STEPS[step]
    output = tmp_path / "output"
    output.mkdir()
    table = output / "per_user"
    before = earlier(table)
    orders.place(event, "kill_driver", call=call)
    wait_for_the_end(driver(output, "overwrite"), cluster)
    assert orders.done()["at"] == event

    def read(place):
        return figures_of(spark.read.parquet(str(table) if place == "place" else hidden(output, place)))

    assert read(place_of_earlier) == before
    assert read(place_of_new) == expected[1]
    assert visible(output) == (["per_user"] if "place" in (place_of_earlier, place_of_new) else [])
    assert stored(spark, data, table, "overwrite") == expected[0]
    assert read("place") == expected[1]


def test_before_a_new_table_is_moved(spark, cluster, data, orders, driver, expected, tmp_path):
    output = tmp_path / "output"
    output.mkdir()
    orders.place("os.rename", "kill_driver")
    wait_for_the_end(driver(output, "errorifexists"), cluster)
    assert orders.done()["at"] == "os.rename"
    assert visible(output) == []
    assert stored(spark, data, output / "per_user") == expected[0]
    assert figures_of(spark.read.parquet(str(output / "per_user"))) == expected[1]
