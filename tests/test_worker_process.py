"""What a Python worker's process does once."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import spark_rankeval
from spark_rankeval.worker.process import in_worker, panics_raised

PACKAGE = Path(spark_rankeval.__file__).parent
# What Spark calls is named so, or is one of a module that has nothing else.
ENTRY = re.compile(r"^(?P<before>.*)\n *def (?:run|merge_comparisons|tabulate|survey_lines)\(", re.MULTILINE)

PROGRAM = """
import gc
from spark_rankeval.worker import states
from spark_rankeval.worker.scoring import CountNames
from spark_rankeval.statistics.description import MOMENTS_ALONE
assert gc.get_freeze_count() == 0, "importing freezes nothing: the driver imports it, too"
run = states.state_of_columns(("value",), CountNames((), ()), MOMENTS_ALONE, "nobody")
next(run(iter([])))
first = gc.get_freeze_count()
loaded_later = [[] for _ in range(1000)]
next(run(iter([])))
print(first > 10_000, gc.get_freeze_count() <= first)
"""


def test_a_worker_spares_the_garbage_collector_what_is_loaded_once():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.split() == ["True"] * 2


class PanicException(BaseException):
    """What Rust raises in Python."""


@pytest.mark.parametrize(
    ("raised", "seen"), [(PanicException("odd"), RuntimeError), (KeyboardInterrupt(), KeyboardInterrupt)]
)
def test_a_panic_of_the_engine_is_an_error(raised, seen):
    def rows():
        yield "batch"
        raise raised

    results = panics_raised(iter)(rows())
    assert next(results) == "batch"
    with pytest.raises(seen, match=r"the engine panicked while it computed rows for a Python worker: odd|^$"):
        next(results)


def test_tasks_of_one_process_compute_in_turns_and_wait_apart():
    waits, goes_on, computing, together = threading.Event(), threading.Event(), threading.Lock(), []

    @in_worker
    def run(rows):
        for row in rows:
            if not computing.acquire(blocking=False):
                together.append(row)
                continue
            # Python runs another thread meanwhile, if one may run.
            threading.Event().wait(0.01)
            computing.release()
            yield row

    def late():
        waits.set()
        assert goes_on.wait(10), "the others do not compute while this task waits for its rows"
        yield from range(5)

    done = []
    tasks = [
        threading.Thread(target=lambda rows=rows: done.append(list(run(rows))))
        for rows in (late(), *map(iter, [range(5)] * 3))
    ]
    tasks[0].start()
    assert waits.wait(10)
    # One has given a row that nobody has taken from it.
    suspended = run(iter(range(5)))
    assert next(suspended) == 0
    for task in tasks[1:]:
        task.start()
    for task in tasks[1:]:
        task.join(10)
    goes_on.set()
    tasks[0].join(10)
    assert done == [list(range(5))] * 4
    assert not together


def test_a_task_that_fails_ends_its_turn():
    @in_worker
    def fails(rows):
        for _ in rows:
            raise ZeroDivisionError
        yield

    @in_worker
    def plain(value):
        return value

    def lost():
        raise OSError
        yield

    for rows, error in ((iter([1]), ZeroDivisionError), (lost(), OSError)):
        with pytest.raises(error):
            list(fails(rows))
    assert plain(3) == 3


@pytest.mark.parametrize(("module", "n_entries"), [
    ("worker/states.py", 2), ("worker/merging.py", 1), ("worker/comparing.py", 5), ("worker/scored_users.py", 1),
    ("worker/merged_exposures.py", 1), ("worker/scored_pairs.py", 1), ("worker/series.py", 1),
])  # fmt: skip
def test_whatever_spark_calls_in_a_worker_does_so(module, n_entries):
    before = [found["before"].strip() for found in ENTRY.finditer((PACKAGE / module).read_text())]
    assert before == ["@in_worker"] * n_entries
